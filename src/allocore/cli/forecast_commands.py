"""The command that forecasts: totals of the coming periods, classes that are expected to change, draws for others."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.likelihood_options import mode_given
from allocore.cli.output_paths import check_file
from allocore.cli.run_commands import OnError, RunPath
from allocore.cli.waiting import waiting
from allocore.data.display import plain_number
from allocore.data.frame_files import check_suffix, read_frame, write_frame
from allocore.errors import InputError, whole_number

if TYPE_CHECKING:
    import pandas as pd

_PAST = 6
_TOLD = 5
_PANELS = 12
_SCORES = "CRPS: how far the forecast is from the counts, in counts; lower is better."
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@app.command()
def forecast(
    run: RunPath,
    horizon: Annotated[int, typer.Option(help="How many periods to forecast.")] = 3,
    mode: Annotated[
        str | None, typer.Option(help="The mode of time; by default the one whose labels are periods of time.")
    ] = None,
    season: Annotated[
        str, typer.Option(help="Periods in a season, 'none', or 'auto': a year if the data have at least three.")
    ] = "auto",
    cells: Annotated[
        Path | None,
        typer.Option(
            help="A table (.csv, .tsv, .parquet) of cells and sums to forecast, as for allocore predict; by default "
            "the totals of the coming periods."
        ),
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Instead of --cells: a sum for each label of this mode. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write expected counts and quantiles here.")] = None,
    draws_out: Annotated[
        Path | None,
        typer.Option(help="Write simulated counts here, a row per draw: the long form that the VIEWS challenge takes."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the past and the forecast here (.png, .pdf, .svg): the totals, or what --by asks for."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="A tensor with what happened: score the forecast beside simple ones."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    on_error: OnError = "raise",
) -> None:
    """Forecast the counts of the periods after the last one, with the uncertainty of the fit and of the future.

    allocore forecast run.zarr --horizon 3

    allocore forecast run.zarr --by source --draws-out draws.parquet
    """
    if cells is not None and by:
        raise InputError("--cells and --by both say what to forecast: give one of them")
    for option, path in (("--out", out), ("--draws-out", draws_out)):
        if path is not None:
            check_suffix(path, option)
            check_file(option, path)
    _check_figure(figure)
    asked = None if cells is None else read_frame(cells, "--cells")
    future = None if against is None else ac.as_tensor(against)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    time = None if mode is None else mode_given(mode, posterior.tensor.mode_names)
    with waiting("forecasting", in_logs_only=True):  # on a terminal each of its steps has a bar
        found = posterior.forecast(horizon, mode=time, season=_season(season), seed=seed)
    with waiting("predicting"):
        wanted = found.cells_by(by or ()) if asked is None else asked
        table, console = found.quantiles(wanted, _LEVELS), terminal()
    console.print(Text(str(found)))
    for sentence in found.warnings:
        console.print(Text(sentence))
    _print_totals(found, console)
    _print_changes(found, console)
    if out is not None:
        write_frame(table, out)
        console.print(Text(f"{len(table):,} forecasts written to {out}"))
    elif asked is not None or by:
        console.print(_as_table(table, found._compared.left_out))
    if draws_out is not None:
        with waiting("simulating counts"):
            long = found.samples(cells=wanted, seed=seed)
        write_frame(long, draws_out)
        console.print(Text(f"{len(long):,} draws written to {draws_out}"))
    if figure is not None:
        _draw(found, wanted, figure, console)
    if future is not None:
        _print_scores(found, future, console)


def _season(text: str) -> int | Literal["auto"] | None:
    if text in ("auto", "none"):
        return None if text == "none" else "auto"
    try:
        return whole_number("--season", int(text), least=2)
    except ValueError:
        raise InputError(f"--season is {text!r}, but it must be 'auto', 'none' or a whole number of periods") from None


def _print_totals(found: "ac.Forecast", console: Console) -> None:
    """The totals of the last periods and of the coming ones."""
    compared, labels = found._compared, found.fitted.tensor.labels[found.coming.mode]
    table = Table(box=SIMPLE_HEAD)
    for name in (found.mode, "counts", "expected", "5%", "95%"):
        table.add_column(Text(name), justify="left" if name == found.mode else "right")
    counts = compared.past.by_period([{}], compared.tensor)[0].tolist()
    past = list(zip(labels, counts, found.coming.past.observed_T, strict=True))
    for label, count, observed in past[-_PAST:]:
        table.add_row(Text(str(label)), f"{count:,.0f}" if observed else "missing", "", "", "")
    for _, row in compared.future.predict(found.cells_by()).iterrows():
        table.add_row(Text(str(row[found.mode])), "", f"{row['rate']:,.0f}", f"{row['low']:,}", f"{row['high']:,}")
    console.print(table)
    for sentence in compared.words():
        console.print(Text(sentence))


def _print_changes(found: "ac.Forecast", console: Console) -> None:
    """The classes whose home cells are expected to change most, in words."""
    changes = found.changes()
    changes = changes[
        (changes["last"] > 0) & ((changes["low"] > changes["last"]) | (changes["high"] < changes["last"]))
    ]
    order = (changes["expected"] - changes["last"]).abs().sort_values(ascending=False).index[:_TOLD]
    if not len(order):
        console.print(Text("No class is expected to change: the last counts of all lie in their intervals."))
    horizon = len(found.periods)
    before = "the last period" if horizon == 1 else f"the mean of the last {horizon} periods"
    for number in order:
        row = changes.loc[number]
        verb = "rise" if row["expected"] > row["last"] else "fall"
        console.print(
            Text(
                f"Class {number}, {row['name']}: expected to {verb} from {row['last']:,.1f} ({before}) to "
                f"{row['expected']:,.1f} a period in its home cells (90% interval {row['low']:,.1f} to "
                f"{row['high']:,.1f})."
            )
        )


def _print_scores(found: "ac.Forecast", future: ac.CountTensor, console: Console) -> None:
    with waiting("scoring the forecast beside simple ones"):
        scores = found.evaluate(future)
    console.print(_as_table(scores.drop(columns=["number", "crps_difference", "standard_error"]).reset_index()))
    said = {*found.warnings, *found._compared.words()}
    for sentence in scores.attrs["words"]:
        if sentence not in said:
            console.print(Text(sentence))
    console.print(Text(_SCORES, style="dim"))


def _check_figure(path: Path | None) -> None:
    if path is not None and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--figure is {str(path)!r}, but it must end in .png, .pdf or .svg")
    check_file("--figure", path)


def _draw(found: "ac.Forecast", wanted: Any, path: Path, console: Console) -> None:
    """Draw what was asked for, a panel for each sum; the largest ones if there are many."""
    rows = wanted if isinstance(wanted, list) else wanted.astype(object).where(wanted.notna(), "").to_dict("records")
    others = [name for name in found.fitted.tensor.mode_names if name != found.mode]
    sums = {tuple((name, row[name]) for name in others if row.get(name)): None for row in rows}  # in order, once each
    panels = [dict(each) for each in sums]
    if len(panels) > _PANELS:
        largest = found.predict(panels)["rate"].to_numpy().argsort()[::-1][:_PANELS]
        panels = [panels[place] for place in largest.tolist()]
    ac.figures.forecast(found, panels).savefig(path)
    few = f", the {_PANELS} largest of {len(sums):,} sums" if len(sums) > _PANELS else ""
    console.print(Text(f"Figure written to {path}{few}"))


def _as_table(frame: "pd.DataFrame", not_compared: int = 0) -> Table:
    """A frame for the screen; an empty entry is a sum."""
    table = Table(box=SIMPLE_HEAD)
    if not_compared:
        table.caption = Text("Over all cells, also those that are not compared above")
        table.caption_justify = "left"
    numbers = [str(name) for name, kind in frame.dtypes.items() if kind.kind in "if"]
    for name in frame.columns:
        is_number = str(name) in numbers
        table.add_column(Text(str(name)), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
        told = ["all" if each is None else plain_number(each) if isinstance(each, float) else str(each) for each in row]
        table.add_row(*map(Text, told))
    return table

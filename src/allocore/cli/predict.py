"""Commands that judge and use predictions: evaluate held-out cells, check a fit, predict cells, forecast periods."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore._text import plain_number
from allocore.cli.app import Output, app, check_file, check_tables
from allocore.cli.options import (
    ExposureOfPeriods,
    OnError,
    RunPath,
    SafeCsv,
    exposure_in,
    is_tensor_file,
    mode_given,
    read_as_in,
    read_tensor,
    takes_output,
)
from allocore.errors import InputError, whole_number
from allocore.findings import sentences
from allocore.progress import waiting
from allocore.tensor.files import read_frame, write_frame
from allocore.tensor.labels import free_name

if TYPE_CHECKING:
    import pandas as pd

    from allocore.report.figures.style import Figure


TestPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="TEST",
        help="The cells to score: a tensor (.npz, .npy, .parquet, .tns), or a table (.csv, .tsv, .parquet) with a "
        "column of labels for each mode and a column named count; by default the cells that fit --hold-out held out.",
    ),
]


@app.command()
@takes_output
def evaluate(
    *,
    run: RunPath,
    test: TestPath = None,
    allow_training: Annotated[
        bool, typer.Option("--allow-training", help="Also score cells that the model was fitted to.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the table to this file (.csv, .tsv, .parquet).")] = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Score how well a run predicts held-out cells, compared with simple baselines.

    Prints the log predictive probability (log PPD) of all cells, of cells with counts and of zeros, with standard
    errors over fibres; the mean absolute error; the CRPS; the KL divergence of the expected count; the AUC and average
    precision of ranking non-zero cells above zeros; and the coverage of 50% and 90% intervals, for all cells and
    for busy ones, where a count is likely.

    allocore evaluate run.zarr

    allocore evaluate run.zarr test.csv --out scores.csv
    """
    from allocore.report.objects import evaluation_object
    from allocore.report.terminal import evaluation_report

    check_tables(out=out)
    given = None if test is None else _read_test(test)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("scoring cells", in_logs_only=True):
        found = posterior.evaluate(given, allow_training=allow_training)
    console.keep(evaluation=evaluation_object(found))
    console.print(evaluation_report(found))
    if out is not None:
        write_frame(found.table.reset_index(), out, safe_csv=safe_csv)
        console.wrote(out, f"\nTable written to {out}")


def _read_test(test: Path) -> object:
    if not test.exists():
        raise InputError("test", str(test), "must be a file that exists")
    return read_tensor(str(test), "test") if is_tensor_file(str(test)) else read_frame(test, "test")


@app.command()
@takes_output
def check(
    *,
    run: RunPath,
    draws: Annotated[int, typer.Option(help="Number of tensors to simulate, at least 40.")] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the simulation.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Also write the table of statistics to this file (.csv, .tsv, .parquet).")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Also write the totals of all labels to this file (.csv, .tsv, .parquet).")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Also plot the check to this file (.png, .pdf, .svg).")] = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Check whether data simulated from the fitted model look like the real data.

    Prints statistics of the data next to those of the simulated tensors: total, non-zero cells, largest count, totals
    of labels, variance over time, and for networks degrees, reciprocity and clustering. A p-value near 0 means that
    simulated tensors hardly ever look like the data.

    allocore check run.zarr

    allocore check run.zarr --out check.csv --labels labels.csv --figure check.png
    """
    from allocore.report.objects import check_object
    from allocore.report.terminal import check_report

    check_tables(out=out, labels=labels)
    _check_figure(figure)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("simulating tensors", in_logs_only=True):
        found = posterior.check(draws, seed=seed)
    console.keep(check=check_object(found))
    console.print(check_report(found))
    for frame, path in ((found.table.reset_index(), out), (found.labels, labels)):
        if path is not None:
            write_frame(frame, path, safe_csv=safe_csv)
            console.wrote(path, f"Table written to {path}")
    if figure is not None:
        _save(ac.figures.check(found), figure, console)


_PAST = 6
_CHANGES = 5
_PANELS = 12
_SCORES = "CRPS: the distance of the forecast from the counts, in counts. Lower is better."
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@app.command()
@takes_output
def forecast(
    *,
    run: RunPath,
    horizon: Annotated[int, typer.Option(help="Number of periods to forecast.")] = 3,
    mode: Annotated[
        str | None, typer.Option(help="The mode of time; by default the one whose labels are periods.")
    ] = None,
    season: Annotated[
        str,
        typer.Option(
            help="Number of periods in a season, 'none', or 'auto' (one year if the data span at least three)."
        ),
    ] = "auto",
    exposure: ExposureOfPeriods = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            help="A table (.csv, .tsv, .parquet) of cells and sums to forecast, as for allocore predict; by default "
            "the totals of the coming periods."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE", help="Forecast a sum for each label of this mode, instead of --cells. Can be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write expected counts and quantiles to this file (.csv, .tsv, .parquet).")
    ] = None,
    draws_out: Annotated[
        Path | None,
        typer.Option(
            help="Write simulated counts to this file (.csv, .tsv, .parquet), one row per draw, in the format of the "
            "VIEWS challenge."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            help="Plot the past and the forecast to this file (.png, .pdf, .svg): totals, or the sums of --by."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="What actually happened: a tensor, or a table of events, which is read with the settings of the run. "
            "The forecast and simple baselines are scored against it.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the simulation.")] = 0,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Forecast the counts of the periods after the last one, with the uncertainty of the fit and of the future.

    allocore forecast run.zarr --horizon 3

    allocore forecast run.zarr --by source --draws-out draws.parquet
    """
    if cells is not None and by:
        raise InputError("cells", str(cells), "must be left out if `by` is given")
    check_tables(out=out, draws_out=draws_out)
    _check_figure(figure)
    asked = None if cells is None else read_frame(cells, "cells")
    weights = None if exposure is None else exposure_in(exposure)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    future = None if against is None else read_as_in(posterior.tensor, [against], {})
    time = None if mode is None else mode_given(mode, posterior.tensor.mode_names)
    with waiting("forecasting", in_logs_only=True):  # on a terminal each of its steps has a bar
        found = posterior.forecast(horizon, mode=time, season=_season(season), exposure=weights, seed=seed)
    with waiting("predicting"):
        from allocore.forecast.forecast import cells_by

        wanted = cells_by(found, by or ()) if asked is None else asked
        table = found.quantiles(wanted, _LEVELS)
    console.keep(mode=found.mode, periods=found.periods, findings=found.findings)
    console.print(Text(str(found)))
    for sentence in found.sentences:
        console.print(Text(sentence))
    _print_totals(found, console)
    _print_changes(found, console)
    if out is not None:
        write_frame(table, out, safe_csv=safe_csv)
        console.wrote(out, f"{len(table):,} forecasts written to {out}")
    elif asked is not None or by:
        console.keep(forecasts=table)
        console.print(_table(table, posterior.tensor.mode_names))
    if draws_out is not None:
        with waiting("simulating counts"):
            long = found.samples(cells=wanted, seed=seed)
        write_frame(long, draws_out, safe_csv=safe_csv)
        console.wrote(draws_out, f"{len(long):,} draws written to {draws_out}")
    if figure is not None:
        _draw(found, wanted, figure, console)
    if future is not None:
        _print_scores(found, future, console)


def _season(text: str) -> int | Literal["auto"] | None:
    if text in ("auto", "none"):
        return None if text == "none" else "auto"
    try:
        return whole_number("season", int(text), least=2)
    except ValueError:
        raise InputError("season", text, "must be 'auto', 'none' or a whole number of periods, at least 2") from None


def _print_totals(found: "ac.Forecast", console: Output) -> None:
    from allocore.forecast.forecast import cells_by

    compared, labels = found.compared, found.fitted.record.tensor.labels[found.coming.mode]
    table = Table(box=SIMPLE_HEAD)
    for name in (found.mode, "counts", "expected", "5%", "95%"):
        table.add_column(Text(name), justify="left" if name == found.mode else "right")
    counts = compared.past.by_period([{}], compared.tensor)[0].tolist()
    coming = found.coming
    past = list(zip(labels, counts, coming.past.observed_T, coming.complete.observed_T, strict=True))
    for label, count, observed, complete in past[-_PAST:]:
        shown = f"{count:,.0f}{' (incomplete)' * (not complete)}" if observed else "missing"
        table.add_row(Text(str(label)), shown, "", "", "")
    totals = found.predict(cells_by(found))
    free = {name: free_name(name, [found.mode]) for name in ("count", "complete")}
    observed = [
        {found.mode: label, free["count"]: count if seen else None, free["complete"]: complete}
        for label, count, seen, complete in past
    ]
    console.keep(past=observed, totals=totals)
    for period, expected, low, high in totals.itertuples(index=False, name=None):
        table.add_row(Text(str(period)), "", f"{expected:,.0f}", f"{low:,}", f"{high:,}")
    console.print(table)


def _print_changes(found: "ac.Forecast", console: Output) -> None:
    """The classes whose home cells are expected to change most, in words."""
    changes = found.changes()
    console.keep(changes=changes)
    if changes["last"].isna().all():
        console.print(Text("No period of the past can be compared with the forecast."))
        return
    changes = changes[
        (changes["last"] > 0) & ((changes["low"] > changes["last"]) | (changes["high"] < changes["last"]))
    ]
    order = (changes["expected"] - changes["last"]).abs().sort_values(ascending=False).index[:_CHANGES]
    if not len(order):
        unchanged = "No class is expected to change: the last counts of all classes are within their intervals."
        console.print(Text(unchanged))
    horizon = len(found.periods)
    which = "complete " if found.last_incomplete else ""
    per = "per period" if found.record.spec.exposure(found.coming.mode) is None else "per period of weight 1"
    before = f"the last {which}period" if horizon == 1 else f"the mean of the last {horizon} {which}periods"
    for number in order:
        row = changes.loc[number]
        verb = "rise" if row["expected"] > row["last"] else "fall"
        interval = f"90% interval {row['low']:,.1f} to {row['high']:,.1f}"
        change = f"from {row['last']:,.1f} ({before}) to {row['expected']:,.1f} {per} in its home cells"
        console.print(Text(f"Class {number}, {row['name']}: expected to {verb} {change} ({interval})."))


def _print_scores(found: "ac.Forecast", future: ac.CountTensor, console: Output) -> None:
    with waiting("scoring the forecast and baselines"):
        scored = found.evaluate(future)
    console.keep(scores=scored.table, scores_findings=scored.findings)
    shown = scored.table.drop(columns=["number", "crps_difference", "standard_error"])
    console.print(_table(shown.reset_index()))
    for sentence in sentences([finding for finding in scored.findings if finding not in found.findings]):
        console.print(Text(sentence))
    console.print(Text(_SCORES, style="dim"))


def _check_figure(path: Path | None) -> None:
    if path is not None and path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError("figure", str(path), "must end in .png, .pdf or .svg")
    check_file("figure", path)


def _save(figure: "Figure", path: Path, console: Output, remark: str = "") -> None:
    from allocore.report.figures.run import save_with_caption

    caption = save_with_caption(figure, path)
    console.wrote(path, f"Figure written to {path}{remark}, and its caption to {caption}")


def _draw(found: "ac.Forecast", wanted: Any, path: Path, console: Output) -> None:
    rows = wanted if isinstance(wanted, list) else wanted.astype(object).where(wanted.notna(), "").to_dict("records")
    others = [name for name in found.record.tensor.mode_names if name != found.mode]
    sums = {tuple((name, row[name]) for name in others if row.get(name)): None for row in rows}  # in order, once each
    panels = [dict(each) for each in sums]
    if len(panels) > _PANELS:
        largest = found.predict(panels, missing=True).iloc[:, -3].to_numpy().argsort()[::-1][:_PANELS]
        panels = [panels[place] for place in largest.tolist()]
    few = f", the {_PANELS} largest of {len(sums):,} sums" if len(sums) > _PANELS else ""
    _save(ac.figures.forecast(found, panels), path, console, few)


def _table(frame: "pd.DataFrame", modes: Sequence[str] = ()) -> Table:
    """Return a frame for the screen: labels of `modes` and words are folded, numbers never. An empty entry is a sum."""
    table = Table(box=SIMPLE_HEAD)
    numbers = [kind.kind in "if" and name not in modes for name, kind in frame.dtypes.items()]
    for name, is_number in zip(frame.columns, numbers, strict=True):
        table.add_column(Text(str(name)), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
        table.add_row(*(Text(_cell(*each)) for each in zip(row, numbers, strict=True)))
    return table


def _cell(value: Any, is_number: bool) -> str:
    if value is None:
        return "all"
    return str(value) if not is_number else plain_number(value) if isinstance(value, float) else f"{value:,}"


CellsPath = Annotated[
    Path,
    typer.Argument(
        metavar="CELLS",
        help="A table (.csv, .tsv, .parquet) with a column of labels for each mode. Modes without a column, and empty "
        "entries, are summed over.",
    ),
]


@app.command()
@takes_output
def predict(
    *,
    run: RunPath,
    cells: CellsPath,
    interval: Annotated[float, typer.Option(help="Probability covered by the intervals.")] = 0.9,
    missing: Annotated[
        bool, typer.Option("--missing", help="In sums, include cells that were missing in the training data.")
    ] = False,
    per_unit: Annotated[
        bool, typer.Option("--per-unit", help="Predict as if all weights given by fit --exposure were 1.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the predictions to this file (.csv, .tsv, .parquet) instead of printing them."),
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of rows to print.")] = 50,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Predict the counts of cells and of sums of cells: expected counts with intervals.

    Under the negative binomial, a short check warns if the intervals of sums are too narrow.

    allocore predict run.zarr cells.csv --out predictions.csv --interval 0.9
    """
    from allocore.posterior.check import sum_findings

    whole_number("rows", rows)
    check_tables(out=out)
    asked = read_frame(cells, "cells")
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("predicting"):
        found = posterior.predict(asked, interval, missing=missing, per_unit=per_unit)
    if posterior.likelihood == "negative-binomial" and _has_sums(asked, posterior.tensor.mode_names):
        with waiting("checking sums", in_logs_only=True):
            checked = posterior.brief_check()
        about_sums = () if checked is None else tuple(sum_findings(checked))
    else:
        about_sums = ()
    notes = sentences(about_sums)
    console.keep(findings=about_sums)
    if out is not None:
        write_frame(found, out, safe_csv=safe_csv)
        console.wrote(out, f"{len(found):,} predictions written to {out}")
        for note in notes:
            console.print(Text(note, style="italic"))
        return
    console.keep(predictions=found)
    console.print(_table(found.head(rows), posterior.tensor.mode_names))
    for note in notes:
        console.print(Text(note, style="italic"))
    legend = f"expected: the mean count that the run predicts. low, high: the {interval:.0%} interval of the count."
    console.print(Text(f"{legend} all: summed over the mode.", style="dim"))
    if len(found) > rows:
        console.print(Text(f"{len(found) - rows:,} more. Use --out to write them all to a file."))


def _has_sums(asked: "pd.DataFrame", modes: Sequence[str]) -> bool:
    named = [name for name in modes if name in asked]
    return len(named) < len(modes) or bool(asked[named].isna().to_numpy().any())

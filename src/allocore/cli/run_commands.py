"""Commands that show a run: summary in words, figures for print, a report to explore."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.opening import OpenIt, open_page
from allocore.cli.output_paths import check_folder
from allocore.cli.waiting import waiting
from allocore.errors import InputError, whole_number

if TYPE_CHECKING:
    from allocore.posterior.class_summary import ClassSummary, TidyTable
    from allocore.posterior.posterior import ShownDraw

RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote, finished or not.")
]
Draw = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|best",
        help="Show one draw instead of what all draws agree on: its number (-1 is the last), or 'best' for the one "
        "with the highest log joint density.",
    ),
]
Chain = Annotated[
    int | None,
    typer.Option(
        help="The chain of --draw. Without --draw, the best draw of this chain; with a number alone, chain 0."
    ),
]
OnError = Annotated[str, typer.Option(help="For damaged draws: 'raise' an error, or 'drop' them and read the others.")]
_WRITE = "Also write a table here, .csv or .parquet:"
ClassesOut = Annotated[
    Path | None,
    typer.Option(help=f"{_WRITE} a row per class, with its name, share, interval, support, and factor in every mode."),
]
ProfilesOut = Annotated[
    Path | None,
    typer.Option(help=f"{_WRITE} a row per class, mode and label, with the share of the label and its interval."),
]
FactorsOut = Annotated[
    Path | None, typer.Option(help=f"{_WRITE} a row per mode, factor and label, with the share of the label.")
]


@app.command()
def summary(
    run: RunPath,
    rows: Annotated[int, typer.Option(help="Classes to print.")] = 15,
    top: Annotated[int | None, typer.Option(help="Labels per mode; by default 3, or 10 with --class.")] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--class",
            help="Print the class with this number in full: its labels with intervals, who shares its factors, and its "
            "top cells.",
        ),
    ] = None,
    draw: Draw = None,
    chain: Chain = None,
    out: ClassesOut = None,
    profiles: ProfilesOut = None,
    factors: FactorsOut = None,
    on_error: OnError = "raise",
) -> None:
    """Print the classes of a run in words: their shares, their support, their heaviest labels, and what they share.

    They are the consensus: what the draws of all chains agree on, with 90% intervals.

    If the run holds out cells, how well it predicts them follows.

    The numbers of its classes stay the same when the run is resumed, and so do the names of those that hardly change.
    --draw best shows one draw instead.

    allocore summary run.zarr --rows 30

    allocore summary run.zarr --class 7 --top 10

    allocore summary run.zarr --draw best --out draw.csv

    allocore summary run.zarr --out classes.csv --profiles profiles.csv --factors factors.parquet
    """
    from allocore.posterior.terminal_class import class_details
    from allocore.posterior.terminal_evaluation import print_held_out
    from allocore.posterior.terminal_tables import class_report

    whole_number("--rows", rows)
    top = whole_number("--top", top) if top is not None else 3 if number is None else 10
    shown = _draw_given(draw)
    wanted = _tables_given(out, profiles, factors)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    console = terminal()
    if number is None:
        console.print(class_report(posterior, rows, top, draw=shown, chain=chain))
        print_held_out(console, posterior)
    else:
        console.print(class_details(posterior, number, top, draw=shown, chain=chain))
    if wanted:
        _write_tables(console, posterior.class_summary(shown, chain=chain), wanted, top)


def _tables_given(classes: Path | None, profiles: Path | None, factors: Path | None) -> dict["TidyTable", Path]:
    """Return the tables that are wanted, each with the path it is written to."""
    from allocore.posterior.tidy_tables import check_table_path

    asked: tuple[tuple[TidyTable, str, Path | None], ...] = (
        ("classes", "--out", classes),
        ("profiles", "--profiles", profiles),
        ("factors", "--factors", factors),
    )
    wanted: dict[TidyTable, Path] = {}
    taken: dict[Path, str] = {}
    for what, option, path in asked:
        if path is None:
            continue
        check_table_path(option, path)
        if (first := taken.setdefault(path.resolve(), option)) != option:
            raise InputError(f"{option} is {str(path)!r}, but {first} is the same file: each table needs its own")
        wanted[what] = path
    return wanted


def _write_tables(console: Console, classes: "ClassSummary", wanted: dict["TidyTable", Path], top: int) -> None:
    from allocore.posterior.tidy_tables import write_table

    console.print()
    for what, path in wanted.items():
        write_table(classes.to_frame(what, top), path)
        console.print(Text(f"Table of all {what} ({classes.source}) written to {path}"))


@app.command()
def figures(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="The folder for the figures.")],
    formats: Annotated[str, typer.Option(help="png, pdf or svg, or several: png,pdf.")] = "png,pdf,svg",
    rows: Annotated[int, typer.Option(help="Classes to draw, the largest first.")] = 24,
    draw: Draw = None,
    chain: Chain = None,
    on_error: OnError = "raise",
) -> None:
    """Write figures of a run for print: its classes with intervals, core, factors and traces.

    They show the consensus: what the draws of all chains agree on. --draw best shows the best single draw instead.

    allocore figures run.zarr --out figures --formats pdf
    """
    from allocore.figures import write_all

    shown = _draw_given(draw)
    check_folder("--out", out)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    wanted = tuple(part.strip() for part in formats.split(",") if part.strip())
    rows = whole_number("--rows", rows)
    _make_summary(posterior, shown, chain)
    with waiting("drawing figures") as tell:
        files: list[Path] = []

        def one_more(file: Path) -> None:
            files.append(file)
            tell(f"{len(files)} files written, the last {file.name}")

        written = write_all(posterior, out, formats=wanted, rows=rows, draw=shown, chain=chain, progress=one_more)
    only = "" if posterior.core_values.shape[1] else ": the run has no draws yet, so there are only its traces"
    terminal().print(Text(f"{len(written)} files written to {out}{only}"))


@app.command()
def report(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="The file to write: one self-contained page of HTML.")],
    title: Annotated[str | None, typer.Option(help="The heading; by default the modes of the tensor.")] = None,
    surprises: Annotated[int, typer.Option(help="How many surprising cells to list.")] = 50,
    draw: Draw = None,
    chain: Chain = None,
    open_it: OpenIt = False,
    on_error: OnError = "raise",
) -> None:
    """Write a run as a page to explore: search and compare its classes, on maps and over time.

    It shows the consensus: what the draws of all chains agree on. --draw best shows the best single draw instead.

    The page opens in any browser, needs no network, and can be sent to a co-author.

    allocore report run.zarr --out report.html --title "ICEWS 2018-19" --open
    """
    from allocore.explorer.page_file import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out is {str(out)!r}, but it must end in .html")
    if out.is_dir():
        raise InputError(f"--out is {str(out)!r}, but it must be a file, and this is a folder")
    check_folder("--out", out.parent)  # which is made if it does not exist
    shown = _draw_given(draw)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    _make_summary(posterior, shown, chain)
    with waiting("writing the page", in_logs_only=True):
        page = write_report(posterior, out, title=title, surprises=surprises, draw=shown, chain=chain)
    terminal().print(Text(f"Report written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser"))
    if open_it:
        open_page(page)


def _make_summary(posterior: "ac.Posterior", shown: "ShownDraw", chain: int | None) -> None:
    """Find the classes that are shown, which has a bar of its own; what was found is kept."""
    if posterior.core_values.shape[1]:
        posterior.class_summary(shown, chain=chain)


def _draw_given(draw: str | None) -> "ShownDraw":
    if draw is None:
        return None
    try:
        return "best" if draw == "best" else int(draw)
    except ValueError:
        raise InputError(f"--draw is {draw!r}, but it must be a whole number or best") from None

"""Commands that show a run: summary in words, figures for print, a report to explore."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.errors import InputError, whole_number

RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote, finished or not.")
]
Chain = Annotated[int, typer.Option(help="The chain to show.")]
Draw = Annotated[int, typer.Option(help="The draw to show; -1 is the last.")]
OnError = Annotated[str, typer.Option(help="For damaged draws: 'raise' an error, or 'drop' them and read the others.")]


@app.command()
def summary(
    run: RunPath,
    rows: Annotated[int, typer.Option(help="Classes to print.")] = 15,
    top: Annotated[int | None, typer.Option(help="Labels per factor; by default 3, or 10 with --class.")] = None,
    number: Annotated[
        int | None,
        typer.Option("--class", help="Print this class in full: its labels, its peaks, and who shares its factors."),
    ] = None,
    draw: Draw = -1,
    chain: Chain = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the table of all classes here, as CSV.")] = None,
    on_error: OnError = "raise",
) -> None:
    """Print the classes of a run in words: their sizes, their heaviest labels, and the factors they share.

    allocore summary run.zarr --rows 30

    allocore summary run.zarr --class 7 --top 10
    """
    from allocore.posterior.terminal_tables import class_details, class_report

    whole_number("--rows", rows)
    top = whole_number("--top", top) if top is not None else 3 if number is None else 10
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    console = terminal()
    if number is None:
        console.print(class_report(posterior, rows, top, draw=draw, chain=chain))
    else:
        console.print(class_details(posterior.class_summary(draw, chain=chain), number, top))
    if out is not None:
        posterior.classes(draw, top, chain=chain).to_csv(out)
        console.print(Text(f"\nTable of all classes written to {out}"))


@app.command()
def figures(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="The folder for the figures.")],
    formats: Annotated[str, typer.Option(help="png, pdf or svg, or several: png,pdf.")] = "png,pdf,svg",
    rows: Annotated[int, typer.Option(help="Classes to draw, the largest first.")] = 24,
    draw: Draw = -1,
    chain: Chain = 0,
    on_error: OnError = "raise",
) -> None:
    """Write figures of a run for print: its classes, core, factors and traces.

    allocore figures run.zarr --out figures --formats pdf
    """
    from allocore.figures import write_all

    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    wanted = tuple(part.strip() for part in formats.split(",") if part.strip())
    written = write_all(posterior, out, formats=wanted, rows=whole_number("--rows", rows), draw=draw, chain=chain)
    terminal().print(Text(f"{len(written)} files written to {out}"))


@app.command()
def report(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="The file to write: one self-contained page of HTML.")],
    title: Annotated[str | None, typer.Option(help="The heading; by default the modes of the tensor.")] = None,
    surprises: Annotated[int, typer.Option(help="How many surprising cells to list.")] = 50,
    draw: Draw = -1,
    chain: Chain = 0,
    on_error: OnError = "raise",
) -> None:
    """Write a run as a page to explore: search and compare its classes, on maps and over time.

    The page opens in any browser, needs no network, and can be sent to a co-author.

    allocore report run.zarr --out report.html --title "ICEWS 2018-19"
    """
    from allocore.explorer.page_file import write_report

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out is {str(out)!r}, but it must end in .html")
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    page = write_report(posterior, out, title=title, surprises=surprises, draw=draw, chain=chain)
    terminal().print(Text(f"Report written to {page} ({page.stat().st_size / 1e6:.1f} MB): open it in a browser"))

"""Commands that show a run: a summary, what changed, surprising cells, figures, an interactive page, a table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import allocore as ac
from allocore._io import result_file
from allocore._text import visible
from allocore.cli.app import Output, app, check_file, check_folder, check_open, check_tables, open_page
from allocore.cli.options import (
    Chain,
    Draw,
    ExposureOfPeriods,
    OnError,
    OpenIt,
    Rows,
    RunPath,
    SafeCsv,
    exposure_in,
    mode_given,
    takes_output,
)
from allocore.errors import InputError, whole_number
from allocore.findings import sentence
from allocore.progress import waiting
from allocore.tensor.files import write_frame

if TYPE_CHECKING:
    from allocore.classes.summary import ShownDraw
    from allocore.classes.tables import TidyTable


_WRITE = "Also write a table to this file (.csv, .tsv, .parquet):"
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


_FOUND = 3  # the exit code of surprises that were found
_TABLE_FORMATS = {".tex": "latex", ".md": "markdown", ".html": "html"}


@app.command()
@takes_output
def summary(
    *,
    run: RunPath,
    rows: Rows = 15,
    top: Annotated[
        int | None, typer.Option(help="Number of labels to print per mode; by default 3, or 10 with --class.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option(
            "--class",
            help="Print one class in full, by its number: its labels with intervals, the classes that share its "
            "factors, and its top cells.",
        ),
    ] = None,
    draw: Draw = None,
    chain: Chain = None,
    out: ClassesOut = None,
    profiles: ProfilesOut = None,
    factors: FactorsOut = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Print the classes of a run: their shares, their support, their top labels, and what they have in common.

    The classes are the consensus of the draws of all chains, with 90% intervals. Use --draw best for a single draw.

    If the run has held-out cells, the summary also says how well it predicts them.

    When the run is resumed, or a fit starts from it, classes keep their numbers, and classes that hardly change keep
    their names.

    allocore summary run.zarr --rows 30

    allocore summary run.zarr --class 7 --top 10

    allocore summary run.zarr --draw best --out draw.csv

    allocore summary run.zarr --out classes.csv --profiles profiles.csv --factors factors.parquet
    """
    from allocore.report import objects
    from allocore.report.terminal import class_details, class_report, print_held_out

    whole_number("rows", rows)
    top = whole_number("top", top) if top is not None else 3 if number is None else 10
    shown = _draw_given(draw)
    check_tables(out=out, profiles=profiles, factors=factors)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    classes = posterior.class_summary(shown, chain=chain)
    if number is None:
        console.keep(classes=objects.classes_object(classes, rows, top))
        if classes.is_consensus:
            console.keep(diagnosis=objects.diagnosis_object(posterior.diagnose()))
        if posterior.held_out is not None:
            console.keep(evaluation=objects.evaluation_object(posterior.evaluate(brief=True)))
        console.print(class_report(posterior, rows, top, draw=shown, chain=chain))
        print_held_out(console, posterior)
    else:
        found = objects.class_object(classes, classes.place(number, "class"), top)
        console.keep(**{"class": found}, top_cells=posterior.top_cells(number, top, draw=shown, chain=chain))
        console.print(class_details(posterior, number, top, draw=shown, chain=chain))
    tables: dict[TidyTable, Path | None] = {"classes": out, "profiles": profiles, "factors": factors}
    if any(tables.values()):
        console.print()
    for what, path in tables.items():
        if path is not None:
            write_frame(classes.to_frame(what, top), path, safe_csv=safe_csv)
            console.wrote(path, f"Table of all {what} ({classes.source}) written to {path}")


@app.command()
@takes_output
def diff(
    *,
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder of a run.")],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="The folder of another run, such as a refit that started from OLD.")
    ],
    rows: Rows = 15,
    out: Annotated[
        Path | None, typer.Option(help="Also write the table of all classes to this file (.csv, .tsv, .parquet).")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Also write the labels that changed to this file (.csv, .tsv, .parquet).")
    ] = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Print what changed between two runs: classes gained or lost, larger or smaller, shifted in time, or with
    different labels.

    If NEW was fitted with --start OLD, the classes that it found again keep their numbers. Other classes are matched
    by their profiles. The modes of both runs must have the same names.

    allocore diff march.zarr april.zarr

    allocore diff march.zarr april.zarr --out changes.csv --labels labels.csv
    """
    from allocore.report.terminal import diff_report

    whole_number("rows", rows)
    check_tables(out=out, labels=labels)
    before, after = (ac.open_run(run, on_error=on_error) for run in (old, new))  # type: ignore[arg-type]
    found = ac.diff(before, after)
    console.keep(differences=found.table, labels=found.labels, findings=found.findings)
    console.print(diff_report(found, rows))
    for frame, path in ((found.table, out), (found.labels, labels)):
        if path is not None:
            write_frame(frame, path, safe_csv=safe_csv)
            console.wrote(path, f"Table written to {path}")


@app.command()
@takes_output
def memberships(
    *,
    run: RunPath,
    mode: Annotated[
        str | None, typer.Option(help="The mode of the nodes, by name or number; the first by default.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of nodes to print, largest first.")] = 30,
    out: Annotated[
        Path | None, typer.Option(help=f"{_WRITE} a row per node, with its community and its memberships in words.")
    ] = None,
    shares: Annotated[
        Path | None,
        typer.Option(
            help=f"{_WRITE} a row per node and community, with the membership and its interval.",
            rich_help_panel="Output",
        ),
    ] = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Print the communities of a mode (such as countries as senders), and which of them each node belongs to.

    The communities are the factors of the consensus classes. The membership of a node is the share of its expected
    counts in a community, with a 90% interval.

    allocore memberships run.zarr --mode sender

    allocore memberships run.zarr --mode sender --out nodes.csv --shares shares.csv
    """
    from allocore.report.terminal import memberships_report

    whole_number("rows", rows)
    check_tables(out=out, shares=shares)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    number = 0 if mode is None else posterior.tensor.mode(mode_given(mode, posterior.tensor.mode_names))
    found = posterior.consensus().memberships(number)
    nodes = found.frame()
    console.keep(mode=found.mode.name, memberships=nodes, communities=found.frame("communities"))
    console.print(memberships_report(found, rows))
    for frame, path in ((nodes, out), (found.frame("shares"), shares)):
        if path is not None:
            write_frame(frame.reset_index() if frame is nodes else frame, path, safe_csv=safe_csv)
            console.wrote(path, f"Table written to {path}")


@app.command()
@takes_output
def graph(
    *,
    run: RunPath,
    kind: Annotated[
        str,
        typer.Option(
            help="'communities': who acts on whom; 'classes': which of them share factors; 'expected': nodes of the "
            "tensor, with the expected counts of each pair."
        ),
    ] = "communities",
    modes: Annotated[
        str | None,
        typer.Option(
            metavar="MODE,MODE", help="The two modes, such as sender,receiver; by default those with the same labels."
        ),
    ] = None,
    least: Annotated[float, typer.Option(help="Minimum weight of an edge; lighter edges are left out.")] = 0.5,
    out: Annotated[
        Path,
        typer.Option(help="Write to this file: .graphml, or .csv, .tsv or .parquet for a table with a row per edge."),
    ],
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Write the results as a graph for Gephi, igraph, netify or networkx.

    The weight of an edge is an expected count, or, between classes, the expected number of factors that they share.

    allocore graph run.zarr --out communities.graphml

    allocore graph run.zarr --kind expected --least 5 --out edges.csv
    """
    from allocore.classes.graphs import check_graph_file
    from allocore.results import write_graph

    check_graph_file(out, "out")
    check_file("out", out)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    names = posterior.tensor.mode_names
    pair = None if modes is None else [mode_given(each, names) for each in modes.split(",")]
    write_graph(posterior, out, kind, modes=pair, least=least, safe_csv=safe_csv)  # type: ignore[arg-type]
    console.wrote(out, f"Graph written to {out}")


@app.command()
@takes_output
def surprises(
    *,
    run: RunPath,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Print only cells whose two-sided tail probability is at most this, such as 1e-6, and exit with code "
            "3 if there are any."
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="Maximum number of cells in the table, least expected first.")] = 50,
    out: Annotated[Path | None, typer.Option(help="Also write the table to this file (.csv, .tsv, .parquet).")] = None,
    on_error: OnError = "raise",
    safe_csv: SafeCsv = False,
    console: Output,
) -> None:
    """Print the cells of a run whose counts are least expected: too many, too few, or surprising zeros.

    With --threshold, the command is an alarm. By chance alone, it flags at most about N times the threshold of N
    cells. New rows from allocore fold-in --out are judged by a fit that has not seen them.

    allocore surprises run.zarr

    allocore surprises run.zarr --threshold 1e-6 --out surprises.csv
    """
    from allocore.posterior.surprises import alarm
    from allocore.report.terminal import surprises_report

    if threshold is not None and not 0.0 < threshold < 1.0:
        raise InputError("threshold", threshold, "must be a probability above 0 and below 1")
    check_tables(out=out)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("searching for surprises", in_logs_only=True):
        found = posterior.surprises(top=whole_number("top", top))
    finding = None
    if threshold is not None:
        found, finding = alarm(found, posterior.tensor, threshold, top)
        console.keep(finding=finding)
    console.keep(surprises=found, zeros_searched=found.attrs["zeros_searched"])
    if len(found):
        console.print(surprises_report(found))
    if finding is not None:
        console.print(Text(sentence(finding)))
    if out is not None:
        write_frame(found, out, safe_csv=safe_csv)
        console.wrote(out, f"Table written to {out}")
    if finding is not None and len(found):
        sys.exit(_FOUND)


@app.command()
@takes_output
def figures(
    *,
    run: RunPath,
    out: Annotated[Path, typer.Option(help="Write the figures to this folder.")],
    formats: Annotated[
        str, typer.Option(help="File formats: 'png', 'pdf', 'svg', or several of them, such as png,pdf.")
    ] = "png,pdf,svg",
    rows: Annotated[int, typer.Option(help="Number of classes to draw, largest first.")] = 24,
    draw: Draw = None,
    chain: Chain = None,
    on_error: OnError = "raise",
    console: Output,
) -> None:
    """Write print-quality figures of a run: its classes with intervals, its core, its factors and its traces.

    They show the consensus of the draws of all chains. Use --draw best for the best single draw.

    allocore figures run.zarr --out figures --formats pdf
    """
    from allocore.figures import write_all

    shown = _draw_given(draw)
    check_folder("out", out)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    wanted = tuple(part.strip() for part in formats.split(",") if part.strip())
    rows = whole_number("rows", rows)
    _make_summary(posterior, shown, chain)
    with waiting("drawing figures") as show_news:
        files: list[Path] = []

        def one_more(file: Path) -> None:
            files.append(file)
            show_news(f"{len(files)} files written, last {file.name}")

        written = write_all(posterior, out, formats=wanted, rows=rows, draw=shown, chain=chain, progress=one_more)
    only = "" if posterior.core_values.shape[1] else " (traces only: the run has no draws yet)"
    console.keep(written=written)
    console.print(Text(f"{len(written)} files written to {out}{only}"))


@app.command()
@takes_output
def report(
    *,
    run: RunPath,
    out: Annotated[Path, typer.Option(help="Write the page to this file. It needs no other files.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(help="The heading; by default what was counted, and when.")] = None,
    surprises: Annotated[int, typer.Option(help="Number of surprising cells to list.")] = 50,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Number of periods to forecast, 0 for none; by default 3 if there is a mode of time.",
            rich_help_panel="Output",
        ),
    ] = None,
    exposure: ExposureOfPeriods = None,
    draw: Draw = None,
    chain: Chain = None,
    open_it: OpenIt = False,
    on_error: OnError = "raise",
    console: Output,
) -> None:
    """Write an interactive page to explore a run: search and compare its classes, on maps and over time.

    The page shows the consensus of the draws of all chains. Use --draw best for the best single draw.

    It opens in any browser, needs no network, and can be sent to a co-author.

    allocore report run.zarr --out report.html --title "ICEWS 2018-19" --open
    """
    from allocore.results import write_report

    check_open(open_it, console)
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError("out", str(out), "must end in .html")
    if out.is_dir():
        raise InputError("out", str(out), "must be a file, not a folder")
    check_folder("out", out.parent, out)  # which is made if it does not exist
    shown = _draw_given(draw)
    weights = None if exposure is None else exposure_in(exposure)
    how: dict[str, Any] = {"surprises": surprises, "draw": shown, "chain": chain, "horizon": horizon}
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    _make_summary(posterior, shown, chain)
    with waiting("writing the page", in_logs_only=True):
        page = write_report(posterior, out, title=title, exposure=weights, **how)
    console.wrote(page, f"Report written to {page} ({page.stat().st_size / 1e6:.1f} MB). Open it in a browser.")
    if open_it:
        open_page(page)


@app.command()
@takes_output
def table(
    *,
    run: RunPath,
    format: Annotated[
        str | None,
        typer.Option(
            help="'latex', 'markdown', or 'html' to paste into Word; by default what --out ends in, or 'markdown'."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the table to this file (.tex, .md, .html) instead of printing it.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of classes, largest first.")] = 10,
    top: Annotated[int, typer.Option(help="Number of labels to name per mode.")] = 3,
    caption: Annotated[str | None, typer.Option(help="The caption; by default it says what the table shows.")] = None,
    draw: Draw = None,
    chain: Chain = None,
    on_error: OnError = "raise",
    console: Output,
) -> None:
    """Write the largest classes as a table for a paper, with a caption.

    allocore table run.zarr --format latex --out classes.tex

    allocore table run.zarr --format html --rows 8 --out classes.html
    """
    from allocore.results import paper_table

    check_file("out", out)
    kind = format or ("markdown" if out is None else _TABLE_FORMATS.get(out.suffix.lower()))
    if kind is None:
        raise InputError("out", str(out), f"must end in {', '.join(_TABLE_FORMATS)} if `format` is not given")
    shown = _draw_given(draw)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    _make_summary(posterior, shown, chain)
    text = paper_table(posterior, kind, rows=rows, top=top, caption=caption, draw=shown, chain=chain)  # type: ignore[arg-type]
    console.keep(table=text)
    if out is None:
        if not console.json:
            print(visible(text), end="")
        return
    with result_file(out) as file:
        file.write(text.encode("utf-8"))
    console.wrote(out, f"Table written to {out}")


def _make_summary(posterior: "ac.Posterior", shown: "ShownDraw", chain: int | None) -> None:
    """Find the classes that are shown. This has its own progress bar, and the posterior keeps the result."""
    if posterior.core_values.shape[1]:
        posterior.class_summary(shown, chain=chain)


def _draw_given(draw: str | None) -> "ShownDraw":
    if draw is None:
        return None
    try:
        return "best" if draw == "best" else int(draw)
    except ValueError:
        raise InputError("draw", draw, "must be a whole number or best") from None

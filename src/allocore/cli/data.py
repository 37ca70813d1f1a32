"""Commands to begin with: tensor builds a tensor, info describes data or a run, demo shows what allocore does."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore._text import plural, visible
from allocore.cli.app import Output, app, check_file, check_folder, check_open, explaining_stops, open_page, own_name
from allocore.cli.fit import print_classes
from allocore.cli.options import (
    Binary,
    DataPaths,
    OpenIt,
    Threads,
    is_run,
    only_tensor,
    print_data,
    read_data,
    refuse_options,
    takes_events,
    takes_output,
)
from allocore.errors import InputError, whole_number
from allocore.tensor.shards import SHARDS, new_path, write_shards


@app.command()
@takes_events
@takes_output
def tensor(
    *,
    data: DataPaths,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write, which must not exist yet: .npz, .parquet, .tns, .tns.gz, or .zarr. A .zarr is a "
            "folder of shards, for tensors larger than memory."
        ),
    ],
    shards: Annotated[
        int | None,
        typer.Option(
            help=f"Number of shards of a .zarr; {SHARDS} by default. With fit --cluster, each worker loads one at a "
            "time."
        ),
    ] = None,
    binary: Binary = False,
    events: dict[str, Any],
    console: Output,
) -> None:
    """Build a tensor from tables of events or from another tensor, and write it to a file.

    allocore tensor gdelt/*.export.CSV --format gdelt --freq week --out gdelt.npz

    allocore tensor gdelt/*.export.CSV --format gdelt --freq day --out gdelt.zarr --shards 64
    """
    if out.suffix == ".zarr":
        _write_shards(console, data, events, new_path(out, "out"), shards, binary=binary)
        return
    if shards is not None:
        raise InputError("shards", shards, f"needs an `out` that ends in .zarr, not {str(out)!r}")
    if out.exists():
        raise InputError("out", str(out), "must be a path that does not exist yet")
    check_file("out", out)
    Y = read_data(data, events)
    Y = Y.binarize() if binary else Y
    print_data(console, Y, binary=binary)
    Y.save(out)
    console.wrote(out, f"Tensor written to {out}")


def _write_shards(
    console: Output, data: list[str], events: dict[str, Any], out: Path, shards: int | None, *, binary: bool
) -> None:
    """Write a tensor in shards, without ever having all cells of a table or of another tensor in shards in memory."""
    number = SHARDS if shards is None else whole_number("shards", shards)
    if not binary:
        Y = read_data(data, events, out=out, shards=number)
        if only_tensor(data) is not None:
            Y.save(out, shards=number)
    else:
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.resolve().parent) as folder:
            Y = read_data(data, events, out=Path(folder) / "counts.zarr", shards=number)
            if not isinstance(Y, ac.ShardedTensor):
                Y.binarize().save(out, shards=number)
            else:
                ones = ((coords, np.ones_like(counts)) for coords, counts in Y.blocks())
                write_shards(out, Y, Y.files.sizes.order, ones, number)
    written = ac.ShardedTensor(out)
    print_data(console, written, binary=binary)
    console.wrote(out, f"Tensor written to {out} in {plural(written.shards, 'shard')}")


@app.command()
@takes_events
@takes_output
def info(
    *,
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA|RUN", help="Tables of events or a tensor, as for fit; or the folder of a run."),
    ],
    events: dict[str, Any],
    console: Output,
) -> None:
    """Describe a table of events, a tensor or a run.

    For data: modes, top labels, counts and missing cells. A tensor in shards is read shard by shard.

    For a run, finished or not: settings, progress, and whether the chains agree (R-hat).

    allocore info icews/*.tab --freq month

    allocore info run.zarr
    """
    if len(data) == 1 and is_run(data[0]):
        from allocore.report.objects import diagnosis_object, run_object
        from allocore.report.terminal import run_report
        from allocore.storage.run_writer import is_being_written

        posterior = ac.open_run(data[0], on_error=events.pop("on_error", "raise"))
        refuse_options(events, f"{data[0]} is a run")
        being_written = is_being_written(Path(data[0]))
        console.keep(run=run_object(posterior, being_written=being_written))
        if posterior.core_values.shape[1]:
            console.keep(diagnosis=diagnosis_object(posterior.diagnose()))
        console.print(run_report(posterior, being_written=being_written))
        return
    for path in data:
        if is_run(path):
            raise InputError("data", list(data), f"must be data or one run, and {path} is a run")
    Y = read_data(data, events)
    print_data(console, Y, heaviest=False)  # they are in the table
    if isinstance(Y, ac.ShardedTensor) and Y.report is not None:  # which is about the events
        console.print(Text(f"In {Y.shards} shards, {Y.path}"))
    table = Table(header_style="bold")
    for heading in ("mode", "length", "in use", "top labels (counts)"):
        table.add_column(heading, justify="right" if heading in ("length", "in use") else "left")
    in_use, tops = [], []
    for mode, (name, length) in enumerate(zip(Y.mode_names, Y.shape, strict=True)):
        tops.append(Y.top_labels(mode))
        in_use.append(Y.positive_totals(mode)[0].size)
        # Labels are made printable here, because the table measures them.
        top = visible(", ".join(f"{label} ({count:,})" for label, count in tops[-1]))
        table.add_row(Text(visible(name)), f"{length:,}", f"{in_use[-1]:,}", Text(top))
    console.keep(in_use=dict(zip(Y.mode_names, in_use, strict=True)))
    counted = ([{"label": label, "count": count} for label, count in top] for top in tops)
    console.keep(top_labels=dict(zip(Y.mode_names, counted, strict=True)))
    console.print(table)
    ones = sum(int((counts == 1).sum()) for _, counts in Y.blocks()) / Y.nnz
    console.keep(share_of_ones=ones)
    console.print(
        f"Counts: {ones:.0%} of the non-zeros are 1, the largest is {Y.max:,}, "
        f"the mean is {Y.total / Y.nnz:.3g}. Missing cells: {Y.missing.cells:,} of {Y.volume:,}."
    )


_PAGE, _FIGURE = "flights.html", "classes.png"
_TITLE = "Flights that left New York in 2013"


@app.command()
@takes_output
def demo(
    *,
    budget: Annotated[int, typer.Option(help="Maximum number of classes.")] = 25,
    seed: Annotated[int, typer.Option(help="The random seed. The same seed gives the same result.")] = 1,
    threads: Threads = None,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help=f"Write {_PAGE} and {_FIGURE} to this folder, replacing existing ones."),
    ] = Path("demo"),
    open_it: OpenIt = False,
    console: Output,
) -> None:
    """Fit the 336,776 flights that left New York in 2013, print their classes, and write an interactive page.

    The tensor is origin x destination x carrier x month x hour. At least eight chains are run. Takes about half a
    minute; the first run takes ten seconds more, because the kernels are compiled.

    allocore demo --out /tmp/flights --open
    """
    from allocore.report.figures.run import save_figure

    check_open(open_it, console)
    check_folder("out", out)  # before the fit, not after
    Y = ac.load_flights()
    console.print(Text(f"New York flights of 2013.  {Y!r}"))
    start = perf_counter()
    with explaining_stops(None):
        model = ac.AlloCore(budget, seed=seed, threads=threads).fit(Y)
    seconds = perf_counter() - start
    print_classes(console, model.posterior_, rows=15, top=2)
    page = ac.write_report(model.posterior_, out / _PAGE, title=_TITLE)
    figure = out / _FIGURE
    save_figure(ac.figures.classes(model.posterior_), figure)
    chains, sweeps = model.posterior_.stats["moved"].shape
    console.print(Text(f"\n{chains} chains of {sweeps} sweeps in {seconds:.0f} s. Now look at:"))
    console.wrote(page, f"  {page}  a page to explore in a browser")
    console.wrote(figure, f"  {figure}  the six largest classes as a figure")
    if open_it:
        open_page(page)
    console.print(f"\nNow try your own data: [bold]{own_name()} fit DATA --budget 50 --out run.zarr[/]")

"""Commands about data: tensor builds a tensor; info describes data, a tensor or a run."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.data_options import (
    DataPaths,
    is_run,
    only_tensor,
    print_data,
    read_data,
    refuse_options,
    takes_events,
)
from allocore.cli.output_paths import check_file
from allocore.data.display import plural
from allocore.data.sharded_tensor import SHARDS, new_path, write_shards
from allocore.errors import InputError, whole_number


@app.command()
@takes_events
def tensor(
    *,
    data: DataPaths,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: .npz, .parquet, .tns or .tns.gz; or .zarr, a folder of shards, which may be "
            "larger than the memory."
        ),
    ],
    shards: Annotated[
        int | None,
        typer.Option(
            help=f"How many shards a .zarr has: what a worker of --cluster loads at once; {SHARDS} by default."
        ),
    ] = None,
    binary: Annotated[bool, typer.Option("--binary", help="Set every count above 0 to 1.")] = False,
    events: dict[str, Any],
) -> None:
    """Build a tensor from a table of events, or from another file, and write it.

    allocore tensor gdelt/*.export.CSV --format gdelt --freq week --out gdelt.npz

    allocore tensor gdelt/*.export.CSV --format gdelt --freq day --out gdelt.zarr --shards 64
    """
    console = terminal()
    if out.suffix == ".zarr":
        _write_shards(console, data, events, new_path(out, "--out"), shards, binary=binary)
        return
    if shards is not None:
        raise InputError(
            f"--shards is {shards}, but only a folder that ends in .zarr has shards; --out is {str(out)!r}"
        )
    if out.exists():
        raise InputError(f"--out is {str(out)!r}, but that exists already: name a path that does not")
    check_file("--out", out)
    Y = read_data(data, events)
    Y = Y.binary() if binary else Y
    print_data(console, Y, binary=binary)
    Y.save(out)
    console.print(Text(f"Tensor written to {out}"))


def _write_shards(
    console: Console, data: list[str], events: dict[str, Any], out: Path, shards: int | None, *, binary: bool
) -> None:
    """Write a tensor in shards; the cells of a table of events, or of a tensor in shards, are never all in memory."""
    number = SHARDS if shards is None else whole_number("--shards", shards)
    if not binary:
        Y = read_data(data, events, out=out, shards=number)
        if only_tensor(data) is not None:
            Y.save(out, shards=number)
    else:
        with TemporaryDirectory(prefix=f".{out.name}.", dir=out.resolve().parent) as folder:
            Y = read_data(data, events, out=Path(folder) / "counts.zarr", shards=number)
            if not isinstance(Y, ac.ShardedTensor):
                Y.binary().save(out, shards=number)
            else:
                ones = ((coords, np.ones_like(counts)) for coords, counts in Y.files.parts())
                write_shards(out, Y, Y.files.sizes.order, ones, number)
    written = ac.ShardedTensor(out)
    print_data(console, written, binary=binary)
    console.print(Text(f"Tensor written to {out}, in {plural(written.shards, 'shard')}"))


@app.command()
@takes_events
def info(
    *,
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA|RUN", help="Events or a tensor, as for fit, or the folder of a run."),
    ],
    events: dict[str, Any],
) -> None:
    """Describe a table of events, a tensor or a run.

    For a tensor: its modes, heaviest labels, counts and missing cells. A tensor in shards is read shard by shard.

    For a run, finished or not: its settings, its progress, and whether its chains agree (R-hat).

    allocore info icews/*.tab --freq month

    allocore info run.zarr
    """
    console = terminal()
    if len(data) == 1 and is_run(data[0]):
        from allocore.posterior.run_status import run_report
        from allocore.run.zarr_store import is_being_written

        posterior = ac.open_run(data[0], on_error=events.pop("on_error", "raise"))
        refuse_options(events, f"{data[0]} is a run")
        console.print(run_report(posterior, being_written=is_being_written(Path(data[0]))))
        return
    for path in data:
        if is_run(path):
            raise InputError(f"{path} is a run, and info describes one run at a time: DATA has {len(data)} paths")
    Y = read_data(data, events)
    print_data(console, Y, heaviest=False)  # they are in the table
    if isinstance(Y, ac.ShardedTensor) and Y.report is not None:  # which is about the events
        console.print(Text(f"In {Y.shards} shards, {Y.path}"))
    table = Table(header_style="bold")
    for heading in ("mode", "length", "in use", "heaviest labels (counts)"):
        table.add_column(heading, justify="right" if heading in ("length", "in use") else "left")
    for mode, (name, length) in enumerate(zip(Y.mode_names, Y.shape, strict=True)):
        heaviest = ", ".join(f"{label} ({count:,})" for label, count in Y.heaviest(mode))
        used = Y._totals_in_use(mode)[0].size
        table.add_row(Text(name), f"{length:,}", f"{used:,}", Text(heaviest))
    console.print(table)
    parts = (counts for _, counts in Y.files.parts()) if isinstance(Y, ac.ShardedTensor) else [Y.counts]
    ones = sum(int((counts == 1).sum()) for counts in parts) / Y.nnz
    console.print(
        f"Counts: {ones:.0%} of the non-zeros are 1, the largest is {Y.largest:,}, "
        f"the mean is {Y.total / Y.nnz:.3g}. Missing cells: {Y.missing.cells:,} of {Y.volume:,}."
    )

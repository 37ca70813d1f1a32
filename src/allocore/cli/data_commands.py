"""Commands about data: tensor builds a tensor; info describes data, a tensor or a run."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.data_options import DataPath, print_data, read_data, refuse_options, takes_events
from allocore.errors import InputError


@app.command()
@takes_events
def tensor(
    *,
    data: DataPath,
    out: Annotated[Path, typer.Option(help="The file to write: .npz, .parquet, .tns or .tns.gz.")],
    binary: Annotated[bool, typer.Option("--binary", help="Set every count above 0 to 1.")] = False,
    events: dict[str, Any],
) -> None:
    """Build a tensor from a table of events, or from another file, and write it.

    allocore tensor "gdelt/*.export.CSV" --format gdelt --freq week --out gdelt.npz
    """
    console = terminal()
    if out.exists():
        raise InputError(f"--out is {str(out)!r}, but that exists already: name a path that does not")
    Y = read_data(data, events)
    Y = Y.binary() if binary else Y
    print_data(console, Y, binary=binary)
    Y.save(out)
    console.print(Text(f"Tensor written to {out}"))


@app.command()
@takes_events
def info(
    *,
    data: Annotated[
        str, typer.Argument(metavar="DATA|RUN", help="Events or a tensor, as for fit, or the folder of a run.")
    ],
    events: dict[str, Any],
) -> None:
    """Describe a table of events, a tensor or a run.

    For a tensor: its modes, heaviest labels, counts and missing cells.

    For a run, finished or not: its settings, its progress, and whether its chains agree (R-hat).
    """
    console = terminal()
    if (Path(data) / ".zgroup").is_file():
        from allocore.posterior.run_status import run_report
        from allocore.run.zarr_store import is_being_written

        posterior = ac.open_run(data, on_error=events.pop("on_error", "raise"))
        refuse_options(events, f"{data} is a run")
        console.print(run_report(posterior, being_written=is_being_written(Path(data))))
        return
    Y = read_data(data, events)
    print_data(console, Y)
    table = Table(header_style="bold")
    for heading in ("mode", "length", "in use", "heaviest labels (counts)"):
        table.add_column(heading, justify="right" if heading in ("length", "in use") else "left")
    for mode, (name, length) in enumerate(zip(Y.mode_names, Y.shape, strict=True)):
        heaviest = ", ".join(f"{label} ({count:,})" for label, count in Y.heaviest(mode))
        used = np.unique(Y.coords[mode]).size
        table.add_row(Text(name), f"{length:,}", f"{used:,}", Text(heaviest))
    console.print(table)
    ones = float((Y.counts == 1).mean())
    console.print(
        f"Counts: {ones:.0%} of the non-zeros are 1, the largest is {Y.counts.max():,}, "
        f"the mean is {Y.total / Y.nnz:.3g}. Missing cells: {Y.missing.cells:,} of {Y.volume:,}."
    )

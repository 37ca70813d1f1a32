"""Commands that predict: expected counts and intervals of cells, by their labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.output_paths import check_file
from allocore.cli.run_commands import OnError, RunPath
from allocore.cli.waiting import waiting
from allocore.data.display import plain_number
from allocore.data.frame_files import check_suffix, read_frame, write_frame
from allocore.errors import whole_number

if TYPE_CHECKING:
    import pandas as pd

CellsPath = Annotated[
    Path,
    typer.Argument(
        metavar="CELLS",
        help="A table (.csv, .tsv, .parquet) with a column of labels for each mode. Columns that are left out, and "
        "empty entries, are summed over.",
    ),
]


@app.command()
def predict(
    run: RunPath,
    cells: CellsPath,
    interval: Annotated[float, typer.Option(help="The probability of the intervals.")] = 0.9,
    missing: Annotated[
        bool, typer.Option("--missing", help="Include cells that were missing in training in sums.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the predictions here (.csv, .tsv, .parquet) instead of printing them.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows to print.")] = 50,
    on_error: OnError = "raise",
) -> None:
    """Predict the counts of cells and of sums of cells: the expected count, and an interval of the count.

    allocore predict run.zarr cells.csv --out predictions.csv --interval 0.9
    """
    whole_number("--rows", rows)
    if out is not None:
        check_suffix(out, "--out")
        check_file("--out", out)
    asked = read_frame(cells, "CELLS")
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("predicting"):
        found = posterior.predict(asked, interval, missing=missing)
    console = terminal()
    if out is not None:
        write_frame(found, out)
        console.print(Text(f"{len(found):,} predictions written to {out}"))
        return
    console.print(_as_table(found.head(rows)))
    console.print(Text(f"rate: the expected count; low to high: its {interval:.0%} interval; all: a sum.", style="dim"))
    if len(found) > rows:
        console.print(Text(f"{len(found) - rows:,} more; --out writes them all"))


def _as_table(found: "pd.DataFrame") -> Table:
    """The predictions for the screen; an empty entry is a sum."""
    table, numbers = Table(box=SIMPLE_HEAD), list(found.columns[-3:])
    for name in found.columns:
        is_number = name in numbers
        table.add_column(Text(str(name)), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in found.astype(object).where(found.notna(), None).itertuples(index=False, name=None):
        told = ["all" if value is None else str(value) for value in row[:-3]]
        table.add_row(*map(Text, (*told, plain_number(row[-3]), f"{row[-2]:,}", f"{row[-1]:,}")))
    return table

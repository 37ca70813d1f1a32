"""Commands that judge a fit by cells that it has not seen."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.data_options import is_tensor_file
from allocore.cli.output_paths import check_file
from allocore.cli.run_commands import OnError, RunPath
from allocore.cli.waiting import waiting
from allocore.data.frame_files import check_suffix, read_frame, write_frame
from allocore.errors import InputError

TestPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="[TEST]",
        help="The cells to score: a tensor (.npz, .npy, .parquet, .tns), of which all observed cells are scored, or a "
        "table (.csv, .tsv, .parquet) with a column of labels for each mode and a column count. By default those that "
        "fit --hold-out kept.",
    ),
]


@app.command()
def evaluate(
    run: RunPath,
    test: TestPath = None,
    allow_training: Annotated[
        bool, typer.Option("--allow-training", help="Score cells that the model was fitted to as well.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the table here, .csv, .tsv or .parquet.")] = None,
    on_error: OnError = "raise",
) -> None:
    """Judge a run by cells that were held out, beside simple baselines: is it good or bad?

    The log predictive probability (log PPD) of all cells, of positive ones and of zeros, with standard errors over
    fibres; the mean absolute error; the CRPS; and the share of counts within 50% and 90% intervals, of all cells and of
    busy ones, where a count is likely.

    allocore evaluate run.zarr

    allocore evaluate run.zarr test.csv --out scores.csv
    """
    from allocore.posterior.terminal_evaluation import evaluation_report

    if out is not None:
        check_suffix(out, "--out")
        check_file("--out", out)
    given = None if test is None else _read_test(test)
    posterior = ac.open_run(run, on_error=on_error)  # type: ignore[arg-type]
    with waiting("scoring cells", in_logs_only=True):
        table = posterior.evaluate(given, allow_training=allow_training)
    console = terminal()
    console.print(evaluation_report(table))
    if out is not None:
        write_frame(table.reset_index(), out)
        console.print(Text(f"\nTable written to {out}"))


def _read_test(test: Path) -> object:
    """A tensor, or a table of cells with counts."""
    if not test.exists():
        raise InputError(f"TEST is {str(test)!r}, but there is no such file")
    return ac.as_tensor(test) if is_tensor_file(str(test)) else read_frame(test, "TEST")

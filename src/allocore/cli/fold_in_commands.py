"""The command that folds new rows into a fit: a new month, a new country."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, terminal
from allocore.cli.data_options import DataPaths, only_tensor, print_data, read_data, takes_events
from allocore.cli.likelihood_options import mode_given
from allocore.cli.run_commands import RunPath
from allocore.errors import InputError, whole_number
from allocore.run.schedule import SWEEPS_OF_NEW_ROWS


@app.command(name="fold-in")
@takes_events
def fold_in(
    *,
    run: RunPath,
    data: DataPaths,
    mode: Annotated[
        str | None, typer.Option(help="The mode that has new rows, by name or number; by default the last.")
    ] = None,
    absent: Annotated[
        str, typer.Option(help="Labels of the fit that DATA does not have, in the other modes: zero or missing.")
    ] = "zero",
    binary: Annotated[bool, typer.Option("--binary", help="Take counts above 1 for 1, as in the fit.")] = False,
    sweeps: Annotated[int, typer.Option(help="Sweeps of the sampler for each draw.")] = SWEEPS_OF_NEW_ROWS,
    seed: Annotated[int | None, typer.Option(help="The seed; by default that of the run.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder to write the new rows to; all that reads a run reads it.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Classes to print.")] = 15,
    surprises: Annotated[int, typer.Option(help="Surprising cells to print.")] = 10,
    events: dict[str, Any],
) -> None:
    """Fold new rows, such as a new month, into a finished run, and print what they are made of and what surprises.

    The classes and all other factors stay as they are. A table of events is read as that of the run was, with the same
    modes, columns and conditions, into its rows; options that are given here come first.

    allocore fold-in run.zarr april.tab --mode month --out april.zarr
    """
    whole_number("--rows", rows), whole_number("--surprises", surprises, least=0), whole_number("--sweeps", sweeps)
    if "like" in events:
        raise InputError(f"--like is {events['like']!r}, but the labels are those of RUN: leave it out")
    if out is not None:
        from allocore.run.zarr_store import check_free

        check_free("--out", out)  # before the data are read, not after
    posterior, console = ac.open_run(run), terminal()
    Y = _read_as_in(posterior.tensor, data, events)
    print_data(console, Y, binary=binary)
    folded = posterior.fold_in(
        Y.binary() if binary else Y,
        -1 if mode is None else mode_given(mode, posterior.tensor.mode_names),
        absent=absent,  # type: ignore[arg-type]
        sweeps=sweeps,
        seed=seed,
    )
    from allocore.posterior.terminal_new_rows import new_rows_report

    console.print()
    console.print(new_rows_report(posterior, folded, rows, surprises))
    if out is not None:
        folded.save(out)
        console.print(Text(f"New rows written to {out}: summary, report, figures and predict read it like a run"))


def _read_as_in(fitted: ac.CountTensor, data: list[str], events: dict[str, Any]) -> ac.CountTensor:
    """Read new data as those of the fit were read: what is known of that, unless it is said otherwise here."""
    known = {} if fitted.report is None else dict(fitted.report.reading)
    if only_tensor(data) is not None:
        return read_data(data, events)
    if "modes" in events:  # they may have other columns of time
        known.pop("time", None)
    try:
        return read_data(data, {**known, **events}, like=fitted)
    except InputError as error:
        if "modes" in events or "modes" in known or (fitted.report is not None and fitted.report.format != "custom"):
            raise
        columns = ",".join(f"{name}=COLUMN" for name in fitted.mode_names)
        raise InputError(
            f"{error}; RUN does not say which columns its modes come from: --modes {columns} does"
        ) from None

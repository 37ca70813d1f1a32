"""The command line: each command is one call of the Python API and a picture of what came out.

A mistake of the user's gets one line on standard error and exit code 2, never a traceback.
"""

import secrets
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore._event_options import read_data, refuse_options, takes_events
from allocore.errors import InputError, whole_number

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Bayesian tensor decomposition for large, sparse count data.\n\n"
    "Start with [bold]allocore demo[/]; then [bold]allocore info DATA[/] and "
    "[bold]allocore fit DATA --budget 50 --out run.zarr[/].",
)

_WHAT = (
    "A table of events (CSV, TSV, Parquet, JSON lines, .gz, .zst; a file, a folder or a pattern in quotes) or a tensor "
    "(.npz of allocore, SciPy or pydata sparse, .npy, .parquet, .tns, .tns.gz)."
)
DataPath = Annotated[str, typer.Argument(metavar="DATA", help=_WHAT)]
_PIPE_WIDTH = 140
_STOPPED = 130
# Typer carries its own copy of click in some versions; this is the base of its errors in all of them.
_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"allocore {ac.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    budget: Annotated[int, typer.Option(help="Most classes the model may use.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed: the same seed gives the same result.")] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads; all processors by default.")] = None,
) -> None:
    """Fit all 336,776 flights that left New York in 2013 and print their classes in words.

    Origin x destination x carrier x month x hour. Takes less than half a minute, the first compilation included.
    """
    console = _console()
    Y = ac.load_flights()
    console.print(Text(f"New York flights of 2013.  {Y!r}"))
    start = perf_counter()
    model = ac.AlloCore(budget, burn_in=300, draws=10, thin=10, seed=seed, threads=threads).fit(Y)
    _print_classes(console, model.posterior_, rows=15, top=2)
    command = "allocore" if shutil.which("allocore") else sys.argv[0]
    seconds = perf_counter() - start
    console.print(f"\n400 sweeps in {seconds:.0f} s. Now your own: [bold]{command} fit DATA --budget 50[/]")


@app.command()
@takes_events
def fit(
    *,
    data: DataPath,
    budget: Annotated[int, typer.Option(help="Q, the most classes (non-zeros of the core) the model may use.")],
    core_shape: Annotated[
        str | None, typer.Option(help="Factors per mode, e.g. 50x50x20x300; by default Q in every mode.")
    ] = None,
    burn_in: Annotated[int, typer.Option(help="Sweeps to discard.")] = 1000,
    draws: Annotated[int, typer.Option(help="Draws to keep.")] = 200,
    thin: Annotated[int, typer.Option(help="Sweeps per kept draw.")] = 20,
    chains: Annotated[int, typer.Option(help="Independent chains.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Seed: the same seed gives the same draws, to the byte.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; all processors by default.")] = None,
    hold_out: Annotated[
        float | None, typer.Option(help="Hold out this share of the fibres, and report how well they are predicted.")
    ] = None,
    along: Annotated[
        str | None, typer.Option(help="The mode (name or number) along which fibres are held out; the last by default.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the run here as it goes: a Zarr folder that survives, can be looked at and resumed."),
    ] = None,
    rows: Annotated[int, typer.Option(help="Classes to print.")] = 15,
    top: Annotated[int, typer.Option(help="Labels to print per factor.")] = 3,
    events: dict[str, Any],
) -> None:
    """Fit a tensor or a table of events and print its largest classes in words.

    allocore fit "icews/*.tab" --freq month --budget 100 --out run.zarr

    allocore fit sales.csv --modes store,product,week --budget 20 --hold-out 0.01
    """
    console = _console()
    whole_number("--rows", rows), whole_number("--top", top)
    if along is not None and hold_out is None:
        raise InputError(f"--along is {along!r}, but it says where to hold out and needs --hold-out as well")
    if out is not None:
        from allocore.run.writing import check_free

        check_free("--out", out)  # before the data are read, not after
    Y = read_data(data, events)
    seed = secrets.randbits(32) if seed is None else whole_number("--seed", seed, least=0)
    split = (
        None if hold_out is None else ac.hold_out(Y, _share("--hold-out", hold_out), _mode(along, Y.mode_names), seed)
    )
    _print_data(console, Y)
    model = ac.AlloCore(budget, _sizes(core_shape), burn_in=burn_in, draws=draws, thin=thin)
    model.set_params(chains=chains, seed=seed, threads=threads, store=out)
    with _telling_of_stops(out):
        posterior = model.fit(Y if split is None else split.train).posterior_
    _print_classes(console, posterior, rows, top)
    if split is not None:
        _print_prediction(console, posterior, split.test)
    console.print(Text(f"\nSeed {seed}" if out is None else f"\nSeed {seed}. Run written to {out}"))
    _exit_if_stopped(posterior)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that allocore fit --out wrote.")],
    draws: Annotated[
        int | None, typer.Option(help="Draws the run shall have in all; more than planned make it longer.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; all processors by default.")] = None,
    on_error: Annotated[
        str, typer.Option(help="Draws that are damaged on the disk: 'raise' an error, or 'drop' them and go on.")
    ] = "raise",
    rows: Annotated[int, typer.Option(help="Classes to print.")] = 15,
    top: Annotated[int, typer.Option(help="Labels to print per factor.")] = 3,
) -> None:
    """Go on with a run that was stopped or killed, or shall be longer, to the draws it would have had without a break.

    Example: allocore resume run.zarr --draws 400
    """
    console = _console()
    whole_number("--rows", rows), whole_number("--top", top)
    from allocore.estimators import model_of

    with _telling_of_stops(run):
        model = model_of(run).resume(run, draws=draws, threads=threads, on_error=on_error)  # type: ignore[arg-type]
    posterior = model.posterior_
    _print_classes(console, posterior, rows, top)
    console.print(Text(f"\nSeed {posterior.seed}. Run written to {run}"))
    _exit_if_stopped(posterior)


@app.command()
@takes_events
def tensor(
    *,
    data: DataPath,
    out: Annotated[Path, typer.Option(help="The file to write: .npz, .parquet, .tns or .tns.gz.")],
    events: dict[str, Any],
) -> None:
    """Build a tensor once, from a table of events or from another file, and write it.

    allocore tensor "gdelt/*.export.CSV" --format gdelt --freq week --out gdelt.npz
    """
    console = _console()
    if out.exists():
        raise InputError(f"--out is {str(out)!r}, but that exists already: name a path that does not")
    Y = read_data(data, events)
    _print_data(console, Y)
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
    """Say what a table of events or a tensor holds, or how a run stands.

    Of a tensor: its modes, its heaviest labels, its counts, its missing cells. Of a run, finished or not: its settings,
    its progress, and whether its chains agree (R-hat, effective sample sizes).
    """
    console = _console()
    if (Path(data) / ".zgroup").is_file():
        from allocore.posterior.run_report import run_report
        from allocore.run.writing import is_being_written

        posterior = ac.open_run(data, on_error=events.pop("on_error", "raise"))
        refuse_options(events, f"{data} is a run")
        console.print(run_report(posterior, being_written=is_being_written(Path(data))))
        return
    Y = read_data(data, events)
    _print_data(console, Y)
    table = Table(header_style="bold")
    for heading in ("mode", "length", "in use", "heaviest labels (counts)"):
        table.add_column(heading, justify="right" if heading in ("length", "in use") else "left")
    for mode, (name, length) in enumerate(zip(Y.mode_names, Y.shape, strict=True)):
        heaviest = ", ".join(f"{label} ({count:,})" for label, count in Y.heaviest(mode))
        used = int((Y.mode_totals(mode) > 0).sum())
        table.add_row(Text(name), f"{length:,}", f"{used:,}", Text(heaviest))
    console.print(table)
    ones = float((Y.counts == 1).mean())
    console.print(
        f"Counts: {ones:.0%} of the non-zeros are 1, the largest is {Y.counts.max():,}, "
        f"the mean is {Y.total / Y.nnz:.3g}. Missing cells: {Y.missing.cells:,} of {Y.volume:,}."
    )


def _print_data(console: Console, Y: ac.CountTensor) -> None:
    """The report of the events it was made of, or what the tensor is."""
    if Y.report is None:
        console.print(Text(repr(Y)))
        return
    grid = Table.grid(padding=(0, 2))
    for name, text in Y.report.lines():
        grid.add_row(Text(name, style="bold"), Text(text))
    console.print(grid)


class _StoppedEarly(Exception):
    """The run was stopped before its first draw, or at once."""


@contextmanager
def _telling_of_stops(out: Path | None) -> Iterator[None]:
    """Typer ends silently on Ctrl-C; a run that can be continued should say so."""
    try:
        yield
    except KeyboardInterrupt as error:
        name = "" if out is None else shlex.quote(str(out))
        kept = f"allocore resume {name} continues what was saved" if name else "nothing was kept"
        raise _StoppedEarly(str(error) or f"interrupted; {kept}") from None


def _exit_if_stopped(posterior: ac.Posterior) -> None:
    """A run that was stopped before its end has not failed, but a script should not go on as if it were whole."""
    if not posterior.finished:
        sys.exit(_STOPPED)


def _print_classes(console: Console, posterior: ac.Posterior, rows: int, top: int) -> None:
    from allocore.posterior.tables import class_report

    console.print()
    console.print(class_report(posterior, rows, top))


def _print_prediction(console: Console, posterior: ac.Posterior, test: Any) -> None:
    console.print(f"\nHeld out: {len(test):,} cells, {len(test.positive):,} of them positive")
    for name, positive_only in (("all cells", False), ("positive cells", True)):
        if positive_only and not len(test.positive):
            continue
        log_ppd = posterior.log_ppd(test, positive_only)
        console.print(f"  log PPD of {name}: [bold]{log_ppd:.4f}[/]")


def _sizes(core_shape: str | None) -> tuple[int, ...] | None:
    if core_shape is None:
        return None
    try:
        return tuple(int(size) for size in core_shape.replace("x", ",").split(","))
    except ValueError:
        raise InputError(
            f"--core-shape is {core_shape!r}, but it must be whole numbers joined by x, like 50x50x20x300"
        ) from None


def _share(name: str, value: float) -> float:
    if not 0.0 < value < 1.0:
        raise InputError(f"{name} is {value}, but it must be above 0 and below 1")
    return value


def _mode(along: str | None, mode_names: tuple[str, ...]) -> str | int:
    if along is None:
        return -1
    try:
        return along if along in mode_names else int(along)
    except ValueError:
        return along


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"allocore: warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line; mistakes, unwritable files and too little memory end in one line and exit code 2."""
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="allocore", standalone_mode=False)
        if code == _STOPPED:  # Ctrl-C where there was no run yet, which Typer takes without a word
            print("allocore: interrupted", file=sys.stderr)
        sys.exit(code)
    except _UsageError as error:
        message = error.format_message()
        if not message:  # no command: the help has been printed
            sys.exit(2)
    except (InputError, OSError) as error:
        message = str(error)
    except MemoryError as error:
        message = f"not enough memory: {error}"
    except _StoppedEarly as error:
        print(f"allocore: {error}", file=sys.stderr)
        sys.exit(_STOPPED)
    print(f"allocore: error: {message.rstrip()}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()

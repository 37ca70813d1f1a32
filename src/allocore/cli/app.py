"""The command line: each command calls the Python API once and prints the result.

A user's mistake gets one line on standard error and exit code 2. A mistake of ours gets one line, exit code 70, and how
to report it. There is never a traceback, unless --traceback asks for it.
"""

import shlex
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

import allocore as ac
from allocore.cli.help_pages import EXIT_CODES
from allocore.cli.option_words import OptionConsole, in_options, learn_names, now_running
from allocore.data.display import visible
from allocore.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Bayesian tensor decomposition for large, sparse count data.\n\n"
    "Start with [bold]allocore demo[/]; then [bold]allocore info DATA[/] and "
    "[bold]allocore fit DATA --budget 50 --out run.zarr[/].",
    epilog="\n\n".join(["[bold]Exit codes[/]", *(f"{code}  {told}" for code, told in EXIT_CODES.items())]),
)

_PIPE_WIDTH = 140
_LONGEST_MESSAGE = 300
_STOPPED, _UNFORESEEN = 130, 70
# Some versions of Typer have their own copy of click. This is the base class of Typer's errors in all versions.
_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"allocore {ac.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from, for a report of it.")
    ] = False,
) -> None:
    _Shown.traceback = traceback
    now_running(context.invoked_subcommand)


class _Shown:
    """What is shown of an error."""

    traceback = False


def terminal() -> Console:
    """Return where to print: as wide as the terminal, or wide enough for a table in a pipe."""
    console = OptionConsole()
    return console if console.is_terminal else OptionConsole(width=_PIPE_WIDTH)


def own_name() -> str:
    """Return how this command line is called here: allocore, or if that is not on the path, by its module."""
    if shutil.which("allocore"):
        return "allocore"
    return "python -m allocore.cli" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]


class _StoppedEarly(Exception):
    """The run was stopped before its first draw, or by a second Ctrl-C."""


@contextmanager
def telling_of_stops(out: Path | None) -> Iterator[None]:
    """Say on Ctrl-C whether the run can be continued; Typer alone would end silently."""
    try:
        yield
    except KeyboardInterrupt as error:
        is_there = out is not None and (out / "posterior").is_dir()
        kept = f"allocore resume {shlex.quote(str(out))} continues what was saved" if is_there else "nothing was kept"
        raise _StoppedEarly(str(error) or f"interrupted; {kept}") from None


def exit_if_stopped(finished: bool) -> None:
    """Exit with code 130 if the run was stopped early, so that a script does not take it for a whole run."""
    if not finished:
        sys.exit(_STOPPED)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    warn(in_options(str(message)))


def warn(message: str) -> None:
    """Print a warning on standard error."""
    print(visible(f"allocore: warning: {message}"), file=sys.stderr)


def main() -> None:
    """Run the command line. User mistakes, unwritable files and lack of memory end with one line and exit code 2."""
    warnings.showwarning = _show_warning
    _Shown.traceback = False
    now_running(None)
    learn_names(typer.main.get_command(app))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="allocore", standalone_mode=False)
        if code == _STOPPED:  # Ctrl-C before a run began; Typer prints nothing
            print("allocore: interrupted", file=sys.stderr)
        sys.exit(code)
    except _StoppedEarly as error:
        print(visible(f"allocore: {in_options(str(error))}"), file=sys.stderr)
        sys.exit(_STOPPED)
    except Exception as error:
        sys.exit(_told(error))
    finally:
        _end_silently_on_ctrl_c()


def _end_silently_on_ctrl_c() -> None:
    """Let Ctrl-C end the process at once: all has been said, and Python would print a traceback while it shuts down."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _told(error: Exception) -> int:
    """Say in one line what went wrong, and return the exit code."""
    if _Shown.traceback:
        print(visible("".join(traceback.format_exception(error))), file=sys.stderr)
    message, code = str(error), 2
    if isinstance(error, _UsageError):
        message = error.format_message()
        if not message:  # no command: the help has been printed
            return code
    elif isinstance(error, MemoryError):
        message = f"not enough memory: {error}"
    elif isinstance(error, InputError | OSError):
        message = in_options(message)
    else:
        name, code = type(error).__name__, _UNFORESEEN
        message = (
            f"{name}: {' '.join(message.split())[:_LONGEST_MESSAGE]}. This is a mistake in allocore: please report it, "
            "with what `allocore --traceback ...` prints (SECURITY.md says how)"
        )
    print(visible(f"allocore: error: {message.rstrip()}"), file=sys.stderr)
    return code

"""What all commands share. Each command calls the Python API once and prints the result.

A user's mistake gets one line on standard error and exit code 2. A bug gets one line, exit code 70, and how to report
it; --traceback shows the traceback. Messages name arguments as the running command does (`option_of`). With --json,
standard output has one object: the results, or the error.
"""

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import traceback
import warnings
import webbrowser
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.text import Text

import allocore as ac
from allocore._io import no_file
from allocore._text import visible
from allocore.errors import NO_VALUE, InputError, StoreError
from allocore.progress import log, set_log
from allocore.report.objects import FORMAT, plain
from allocore.tensor.files import check_suffix

# Also a table in the documentation (docs/_extensions/command_reference.py).
EXIT_CODES = {
    0: "success",
    1: "some fits of compare or select-budget failed; the results of the others were saved",
    2: "an error in the command, the data or the files, or too little memory; one sentence explains it",
    3: "allocore surprises --threshold found at least one cell",
    70: "a bug in allocore: please report it, with the output of allocore --traceback",
    130: "stopped with Ctrl-C; allocore resume continues a run that was fitted with --out",
    141: "the program that reads the output closed the pipe, as in allocore summary run.zarr | head",
}
_COMMANDS = {
    "Get started": ("demo", "info", "tensor", "warm-up"),
    "Fit": ("fit", "resume"),
    "Look at results": ("summary", "memberships", "diff", "surprises", "report", "figures", "table", "graph"),
    "Predict and evaluate": ("predict", "evaluate", "check", "fold-in", "forecast"),
    "Choose a model": ("compare", "select-budget"),
}
_OPTIONS = {
    "Model": (
        "model", "models", "budget", "budgets", "max_budget", "core_shape", "tied", "exposure", "seeds", "freeze",
        "free",
    ),
    "Chains": (
        "chains", "sweeps", "max_chains", "max_sweeps", "max_time", "quick", "burn_in", "draws", "thin", "published",
        "seed", "start",
    ),
    "NNTuck": ("restarts", "max_iter"),
    "Held-out cells": ("hold_out", "along", "hold_out_seed", "splits", "criterion"),
    "Where it runs": ("threads", "jobs", "cluster", "retry"),
    "Input": ("draw", "chain", "on_error"),
    "Output": (
        "out", "resume_or_start", "rows", "top", "number", "threshold", "profiles", "factors", "labels", "draws_out",
        "figure", "formats", "title", "surprises", "open_it", "interval", "format", "caption",
        "safe_csv",
    ),
    "For scripts": ("json", "quiet", "log_format"),
}  # fmt: skip
_EXAMPLE = "allocore "
# Arguments of the library that have another name on the command line, and those of single commands.
_RENAMED = {
    "source": "DATA",
    "Y": "DATA",
    "Y_new": "DATA",
    "fraction": "--hold-out",
    "store": "--out",
    "path": "RUN",
    "rank": "--budget",
    "executor": "--cluster",
    "frozen": "--freeze",
}
_RENAMED_IN = {
    "fit": {"path": "--start", "resume": "--resume-or-start"},
    "fold-in": {"like": "RUN"},
    "summary": {"class": "--class"},
    "tensor": {"path": "--out"},
    "forecast": {"Y_future": "--against", "source": "--against", "data": "--against", "like": "RUN"},
}
_BACKQUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")
_PIPE_WIDTH = 140
_LONGEST_MESSAGE = 300
_STOPPED, _BUG, _NO_READER = 130, 70, 141
# Some versions of Typer have their own copy of click. This is the base class of Typer's errors in all versions.
_UsageError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class _PlainNames:
    """Shows flags and arguments in the help by their names alone, without a type such as list[str]."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags and arguments without a type to show."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            if getattr(each, "is_flag", False):
                each.metavar = ""
            elif each.param_type_name == "argument":
                each.display_type_rich = lambda ctx: None
        return found


class _Group(_PlainNames, typer.core.TyperGroup):
    pass


class _Command(_PlainNames, typer.core.TyperCommand):
    pass


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Bayesian tensor decomposition for large, sparse count data.\n\n"
    "Start with [bold]allocore demo[/]. Then try [bold]allocore info DATA[/] and "
    "[bold]allocore fit DATA --budget 50 --out run.zarr[/].",
    epilog="\n\n".join(["[bold]Exit codes[/]", *(f"{code}  {meaning}" for code, meaning in EXIT_CODES.items())]),
)


class _Invocation:
    command: str | None = None
    traceback = False
    json = False


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
    traceback: Annotated[bool, typer.Option("--traceback", help="Show the traceback of an error.")] = False,
) -> None:
    _Invocation.traceback = traceback
    _Invocation.command = context.invoked_subcommand


def main() -> None:
    """Run the command line. User mistakes, unwritable files and lack of memory end with one line and exit code 2."""
    warnings.showwarning = _show_warning
    words = sys.argv[1:]
    # Known before Typer reads the options, so that its errors are JSON too.
    _Invocation.json = "--json" in words[: words.index("--")] if "--" in words else "--json" in words
    _Invocation.command, _Invocation.traceback = None, False
    set_log()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = app(prog_name="allocore", standalone_mode=False)
        if code == _STOPPED:  # Ctrl-C before a run began; Typer prints nothing
            _report_stop("interrupted")
        sys.exit(code)
    except _StoppedEarly as error:
        _report_stop(str(error))
        sys.exit(_STOPPED)
    except Exception as error:
        sys.exit(_report_error(error))
    finally:
        _end_silently_on_ctrl_c()


def print_object(code: int, results: Mapping[str, Any]) -> None:
    """Print the one object of a command with --json on standard output: what it found, and its exit code."""
    known = {"format": FORMAT, "allocore": ac.__version__, "command": _Invocation.command, "exit_code": code}
    try:
        print(json.dumps({**known, **plain(results, _said)}), flush=True)
    except BrokenPipeError:
        end_without_reader()


def _said(sentence: str) -> str:
    return in_options(Text(sentence)).plain


def end_without_reader() -> NoReturn:
    """End quietly if nobody reads standard output any more; Python must not try to write to it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(_NO_READER)


def _report_stop(sentence: str) -> None:
    log(sentence, "stopped")
    if _Invocation.json:
        print_object(_STOPPED, {"error": {"kind": "Stopped", "sentence": sentence}})


def _report_error(error: Exception) -> int:
    if _Invocation.traceback:
        print(visible("".join(traceback.format_exception(error))), file=sys.stderr)
    message, code = str(error), 2
    known: dict[str, Any] = {"kind": "UsageError" if isinstance(error, _UsageError) else type(error).__name__}
    if isinstance(error, _UsageError):
        message = error.format_message()
        if not message:  # no command: the help has been printed
            return code
    elif isinstance(error, InputError):
        message = in_options(Text(error.sentence(option_of))).plain
        known |= {"argument": error.argument, "option": option_of(error.argument)}
        known |= {"value": None if error.value is NO_VALUE else error.value, "rule": error.rule}
    elif isinstance(error, MemoryError):
        message = f"not enough memory: {error}"
    elif isinstance(error, OSError):
        message = in_options(Text(message)).plain
        if isinstance(error, StoreError):
            known |= {"path": error.path, "problem": error.problem}
    else:
        name, code = type(error).__name__, _BUG
        message = (
            f"{name}: {' '.join(message.split())[:_LONGEST_MESSAGE]}. This is a bug in allocore. Please report it with "
            "the output of `allocore --traceback ...` (see SECURITY.md)"
        )
    log(message.rstrip(), "error")
    if _Invocation.json:
        print_object(code, {"error": {**known, "sentence": message.rstrip()}})
    return code


def option_of(argument: str) -> str:
    """Return what the running command calls an argument: --burn-in for burn_in, DATA for source; or its own name."""
    name = _Invocation.command or ""
    command = typer.main.get_command(app).commands.get(name)  # type: ignore[attr-defined]
    own: dict[str, str] = {}
    for each in () if command is None else command.params:
        is_option = each.param_type_name != "argument"
        metavar = str(each.metavar or each.name.upper()).strip("[]").partition(".")[0]
        own[each.name] = str(each.opts[0]) if is_option else metavar
    own.pop("help", None)
    return (_RENAMED | own | _RENAMED_IN.get(name, {})).get(argument, argument)


def in_options(text: Text) -> Text:
    """Return a sentence with options instead of arguments in backquotes: --chains 4 for `chains=4`.

    A list is written as --modes a,b, and a flag without its value.
    """
    for found in reversed(list(_BACKQUOTED.finditer(text.plain))):
        option = option_of(found[1])
        if option != found[1]:
            typed = _typed(found[2] or "")
            text = text[: found.start()].append(f"{option} {typed}".rstrip()).append_text(text[found.end() :])
    return text


def _typed(value: str) -> str:
    """Return the value of an argument in Python as one types it in a shell; a flag has none."""
    if value in ("True", "False"):
        return ""
    try:
        given = ast.literal_eval(value)
        return shlex.quote(given if isinstance(given, str) else ",".join(given))
    except (ValueError, SyntaxError, TypeError):  # a number, or a text that is not of ours
        return value


class OptionConsole(Console):
    """A console whose sentences name options, and that shows no control characters of untrusted labels."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is printed, without control characters in the text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def print(self, *objects: Any, **how: Any) -> None:
        """Print objects. Sentences, also those in groups, name options instead of arguments; tables do not."""
        super().print(*map(_with_options, objects), **how)


def _with_options(shown: Any) -> Any:
    if isinstance(shown, Group):
        return Group(*map(_with_options, shown.renderables), fit=shown.fit)
    return in_options(shown) if isinstance(shown, Text) else shown


class Output(OptionConsole):
    """Where a command prints what it found: words and tables for people, or with --json one object for programs.

    A command prints the words, and keeps the same results as members of the object. `report/objects.py` makes them.
    """

    def __init__(self, *, json: bool = False) -> None:
        super().__init__()
        if not self.is_terminal:  # wide enough for a table in a pipe
            self.width = _PIPE_WIDTH
        self.json, self._results = json, dict[str, Any]()

    def print(self, *objects: Any, **how: Any) -> None:
        """Print for people: nothing with --json."""
        if not self.json:
            super().print(*objects, **how)

    def keep(self, **results: Any) -> None:
        """Keep results as members of the object."""
        self._results |= results

    def wrote(self, path: Path, sentence: str) -> None:
        """Print that a file or folder was written, and keep its path in the member `written`."""
        self.print(Text(sentence))
        self._results.setdefault("written", []).append(str(path))

    def on_broken_pipe(self) -> None:
        """End quietly: rich calls this if nobody reads the output any more."""
        end_without_reader()

    @contextmanager
    def as_json(self) -> Iterator[None]:
        """Print the object at the end of a command, and let nothing else on standard output."""
        if not self.json:
            yield
            return
        try:
            with redirect_stdout(sys.stderr):
                yield
        except SystemExit as ending:
            print_object(int(ending.code or 0), self._results)
            raise
        print_object(0, self._results)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(in_options(Text(str(message))).plain)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    log(message, "warning")


def own_name() -> str:
    """Return how to call this command line: allocore, or by its module if that is not on the path."""
    if shutil.which("allocore"):
        return "allocore"
    return "python -m allocore.cli" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]


class _StoppedEarly(Exception):
    """The run was stopped before its first draw, or by a second Ctrl-C."""


@contextmanager
def explaining_stops(out: Path | None) -> Iterator[None]:
    """Say on Ctrl-C whether the run can be continued; Typer itself would say nothing."""
    try:
        yield
    except KeyboardInterrupt as error:
        saved = out is not None and (out / "posterior").is_dir()
        rest = f"use allocore resume {shlex.quote(str(out))} to continue" if saved else "nothing was saved"
        message = in_options(Text(str(error))).plain
        raise _StoppedEarly(message or f"interrupted; {rest}") from None


def exit_if_stopped(finished: bool) -> None:
    """Exit with code 130 if the run was stopped early, so that a script does not take it for a complete run."""
    if not finished:
        sys.exit(_STOPPED)


def _end_silently_on_ctrl_c() -> None:
    """Let Ctrl-C end the process at once: Python would print a traceback while it shuts down."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def arrange_help(app: typer.Typer) -> None:
    """Put commands and options into groups, and the examples of a docstring at the end of its help."""
    panel_of = {name: panel for panel, names in _COMMANDS.items() for name in names}
    option_panel_of = {name: panel for panel, names in _OPTIONS.items() for name in names}
    app.registered_commands.sort(key=lambda command: list(panel_of).index(_command_name(command)))
    for command in app.registered_commands:
        command.rich_help_panel = panel_of[_command_name(command)]
        command.cls = _Command
        callback: Any = command.callback
        paragraphs = [" ".join(each.split()) for each in inspect.cleandoc(callback.__doc__).split("\n\n")]
        examples = [f"  {each}" for each in paragraphs if each.startswith(_EXAMPLE)]
        command.help = "\n\n".join(each for each in paragraphs if not each.startswith(_EXAMPLE))
        command.epilog = "\n\n".join(["[bold]Examples[/]", *examples]) if examples else None
        for name, parameter in inspect.signature(callback).parameters.items():
            for each in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(each, typer.models.OptionInfo) and each.rich_help_panel is None:
                    each.rich_help_panel = option_panel_of.get(name)


def _command_name(command: Any) -> str:
    return str(command.name or command.callback.__name__)


def check_open(open_it: bool, console: Output) -> None:
    """Refuse to open a page for a program."""
    if open_it and console.json:
        raise InputError("open_it", True, "must be left out with `json`")


def open_page(page: Path) -> None:
    """Open a page in the browser, or warn that this is not possible: the page itself has been written."""
    desktop = sys.platform in ("win32", "darwin") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    opened = False
    if desktop:
        with suppress(webbrowser.Error):
            opened = webbrowser.open(page.resolve().as_uri())
    if not opened:
        because = "no browser was found" if desktop else "this machine has no desktop"
        warn(f"--open was given, but {because}. Copy {page} to a machine with a browser and open it there")


# Output paths: a path that cannot be written is refused before the work, not after it.


def check_file(argument: str, path: Path | None) -> None:
    """Refuse a file whose folder does not exist or cannot be written to, or that is a folder."""
    if path is None:
        return
    if kind := no_file(path):
        raise InputError(argument, str(path), f"must be a file, not {kind}")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError(argument, str(path), f"must be in a folder that exists, and {str(folder)!r} does not")
    _check_writable(folder)


def check_tables(**paths: Path | None) -> None:
    """Refuse files for tables, by argument, that have another suffix, cannot be written, or are the same file."""
    taken: dict[Path, str] = {}
    for argument, path in paths.items():
        if path is not None:
            check_suffix(path, argument)
            check_file(argument, path)
            if (first := taken.setdefault(path.resolve(), argument)) != argument:
                raise InputError(argument, str(path), f"must be another file than `{first}`")


def check_folder(argument: str, path: Path, file: Path | None = None) -> None:
    """Refuse a folder, perhaps for a file, that cannot be made: there is a file in its place, or above it."""
    nearest = next(place for place in (path.resolve(), *path.resolve().parents) if place.exists())
    if not nearest.is_dir():
        what = "a folder" if file is None else "in a folder"
        raise InputError(argument, str(file or path), f"must be {what}, and {str(nearest)!r} is a file")
    _check_writable(nearest)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise StoreError(folder, "cannot be written to: you do not have permission")

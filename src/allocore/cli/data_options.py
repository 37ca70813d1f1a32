"""How commands take data: the argument, the options that say how to read a table of events, and what is said of it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.option_groups import takes
from allocore.errors import InputError

_WHAT = (
    "A table of events (CSV, TSV, Parquet, JSON lines, .gz, .zst; a file, a folder or a pattern in quotes) or a tensor "
    "(.npz of allocore, SciPy or pydata sparse, .npy, .parquet, .tns, .tns.gz)."
)
DataPath = Annotated[str, typer.Argument(metavar="DATA", help=_WHAT)]
_PANEL = "How to read a table of events"


def _option(kind: Any, help: str) -> Any:
    return Annotated[kind, typer.Option(help=help, rich_help_panel=_PANEL)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "format": (
        _option(str, "icews, gdelt, terrier, phoenix, polecat, acled, ucdp; by default what the columns look like."),
        "auto",
    ),
    "modes": (
        _option(str | None, "Columns that become the modes: store,product or who=source,what=action."),
        None,
    ),
    "time": (_option(str | None, "The column with dates."), None),
    "freq": (_option(str | None, "Length of a period: day, week, month, quarter or year; month by default."), None),
    "count": (_option(str | None, "A column that says how often an event happened; every row counts once."), None),
    "where": (_option(str | None, "Rows to keep, as a condition in SQL: \"IsRootEvent = '1'\"."), None),
    "dedup": (_option(str, "Leave out repeated events: none, or those of one story, or of one day."), "none"),
    "diagonal": (_option(str, "Events of an actor with itself: missing, drop or keep."), "missing"),
    "shared_modes": (_option(str | None, "Modes with one list of labels, e.g. source,target."), None),
    "min_count": (_option(int | None, "Leave out labels with fewer counts than this."), None),
    "on_error": (_option(str, "Rows that cannot be read: raise an error, or drop and count them."), "raise"),
}


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were changed, as `read_events` takes them."""
    chosen = {name: given[name] for name, (_, default) in _OPTIONS.items() if given[name] != default}
    if "modes" in chosen:
        parts = [part.partition("=") for part in chosen["modes"].split(",")]
        named = any(equals for _, equals, _ in parts)
        chosen["modes"] = (
            {name: column or name for name, _, column in parts} if named else [name for name, _, _ in parts]
        )
    if "shared_modes" in chosen:
        chosen["shared_modes"] = chosen["shared_modes"].split(",")
    return chosen


takes_events = takes("events", _OPTIONS, _chosen)


def read_data(data: str, events: dict[str, Any]) -> ac.CountTensor:
    """A tensor from a file that holds one, or from a table of events."""
    if Path(data).name.endswith((".npz", ".npy", ".tns", ".tns.gz")) or _is_saved_tensor(data):
        refuse_options(events, f"{data} is a tensor already")
        return ac.as_tensor(data)
    if (Path(data) / ".zgroup").is_file():
        raise InputError(f"{data} is a run and not data: allocore info tells of it, allocore resume continues it")
    return ac.read_events(data, **events)


def refuse_options(events: dict[str, Any], because: str) -> None:
    """No option is taken and then ignored."""
    if events:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in events)
        raise InputError(f"{named} is for tables of events, but {because}")


def _is_saved_tensor(data: str) -> bool:
    """Whether a Parquet file is a tensor of ours, or a table of events."""
    from allocore.data.export import is_tensor

    return data.endswith(".parquet") and Path(data).is_file() and is_tensor(Path(data))


def print_data(console: Console, Y: ac.CountTensor) -> None:
    """The report of the events it was made of, or what the tensor is."""
    if Y.report is None:
        console.print(Text(repr(Y)))
        return
    grid = Table.grid(padding=(0, 2))
    for name, text in Y.report.lines():
        grid.add_row(Text(name, style="bold"), Text(text))
    console.print(grid)

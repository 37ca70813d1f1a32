"""How commands take data: the argument, the options for reading a table of events, and what is printed about it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.option_groups import takes
from allocore.cli.option_words import sentence_in_options
from allocore.cli.waiting import waiting
from allocore.data.shard_files import is_sharded
from allocore.errors import InputError

_WHAT = (
    "A table of events (CSV, TSV, Parquet, JSON lines, .gz, .zst): files, folders or patterns, as many as you like; or "
    "one tensor (.npz of allocore, SciPy or pydata sparse, .npy, .parquet, .tns, .tns.gz, or shards in .zarr)."
)
DataPaths = Annotated[list[str], typer.Argument(metavar="DATA", help=_WHAT)]
_PANEL = "How to read a table of events"


def _option(kind: Any, help: str) -> Any:
    return Annotated[kind, typer.Option(help=help, rich_help_panel=_PANEL)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "format": (
        _option(str, "icews, gdelt, terrier, phoenix, polecat, acled or ucdp; by default recognised by the columns."),
        "auto",
    ),
    "modes": (
        _option(str | None, "Columns that become modes: store,product or who=source,what=action."),
        None,
    ),
    "time": (_option(str | None, "The column with dates."), None),
    "freq": (
        _option(str | None, "Length of a period: hour, day, week, month, quarter or year; by default month."),
        None,
    ),
    "count": (_option(str | None, "A column with the count of each row; by default every row counts once."), None),
    "where": (_option(str | None, 'Rows to keep, as an SQL condition: "IsRootEvent = 1", "kind = \'sale\'".'), None),
    "dedup": (_option(str, "Which repeated events to drop: none, or those of one story, or of one day."), "none"),
    "diagonal": (_option(str, "Events of an actor with itself: missing, drop or keep."), "missing"),
    "shared_modes": (_option(str | None, "Modes that share one list of labels, e.g. source,target."), None),
    "min_count": (_option(int | None, "Drop labels with fewer counts than this."), None),
    "unobserved": (
        _option(str | None, "Periods that were not observed, and are missing, not zeros: 2018-05,2018-06."),
        None,
    ),
    "like": (_option(str | None, "A tensor whose modes, labels and length of periods the table takes over."), None),
    "new_labels": (_option(str, "Labels that --like does not have: error, drop or append."), "error"),
    "on_error": (_option(str, "Rows that cannot be read: raise an error, or drop and count them."), "raise"),
}


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that differ from their defaults, as `read_events` takes them."""
    chosen = {name: given[name] for name, (_, default) in _OPTIONS.items() if given[name] != default}
    if "modes" in chosen:
        parts = [part.strip().partition("=") for part in chosen["modes"].split(",")]
        named = any(equals for _, equals, _ in parts)
        chosen["modes"] = (
            {name: column or name for name, _, column in parts} if named else [name for name, _, _ in parts]
        )
    for name in ("shared_modes", "unobserved"):
        if name in chosen:
            chosen[name] = [part.strip() for part in chosen[name].split(",")]
    return chosen


takes_events = takes("events", _OPTIONS, _chosen)


def read_data(data: Sequence[str], events: dict[str, Any], **more: Any) -> ac.CountTensor:
    """Read a tensor from a tensor file, or from tables of events with `more` arguments of `read_events`."""
    tensor = only_tensor(data)
    if tensor is not None:
        refuse_options(events, f"{tensor} is a tensor already")
        return ac.as_tensor(tensor)
    for path in data:
        if is_run(path):
            raise InputError(f"{path} is a run, not data: allocore info describes it, allocore resume continues it")
    with waiting("reading events", in_logs_only=True):  # duckdb has a bar of its own on a terminal
        return ac.read_events(data[0] if len(data) == 1 else list(data), **events, **more)


def only_tensor(data: Sequence[str]) -> str | None:
    """Return the path of a tensor, or None for tables of events; a tensor beside other paths is refused."""
    tensors = [path for path in data if is_tensor_file(path)]
    if tensors and len(data) > 1:
        raise InputError(
            f"DATA has {len(data)} paths, but {tensors[0]} is a tensor, and a tensor must be given alone: only tables "
            "of events are read together"
        )
    return tensors[0] if tensors else None


def is_run(data: str) -> bool:
    """Return whether a path is the folder of a run, and not that of a tensor in shards."""
    return (Path(data) / ".zgroup").is_file() and not _is_in_shards(data)


def _is_in_shards(data: str) -> bool:
    """Return whether a folder is a tensor in shards, sound or damaged; a run has no cells at this place."""
    return is_sharded(Path(data)) or ((Path(data) / ".zgroup").is_file() and (Path(data) / "coords").is_dir())


def refuse_options(events: dict[str, Any], because: str) -> None:
    """Raise an error if options for tables of events were given: none is silently ignored."""
    if events:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in events)
        raise InputError(f"{named} can be used only with tables of events, but {because}")


def is_tensor_file(data: str) -> bool:
    """Return whether a file is a tensor: by its name, or a Parquet file or a folder of shards that allocore wrote."""
    from allocore.data.export import is_tensor

    if Path(data).name.endswith((".npz", ".npy", ".tns", ".tns.gz")) or _is_in_shards(data):
        return True
    return data.endswith(".parquet") and Path(data).is_file() and is_tensor(Path(data))


def print_data(console: Console, Y: ac.CountTensor, *, binary: bool = False, heaviest: bool = True) -> None:
    """Print the report on the events of a tensor; without one, or if the tensor is now binary, itself in one line."""
    if Y.report is None:
        console.print(Text(repr(Y)))
        return
    grid = Table.grid(padding=(0, 2))
    report = Y.report if heaviest else replace(Y.report, heaviest={})
    for name, text in report.lines():
        told = Text(text)  # the user's own labels and columns, but for the sentences
        if name in ("note", "periods without events"):
            told = sentence_in_options(told)
        grid.add_row(Text(name, style="bold"), told)
    console.print(grid)
    if binary:  # the report is about the events
        console.print(Text(repr(Y)))

"""`read_events`: from event files or a data frame to a labelled tensor and a report of what became of the rows."""

import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from allocore.data.event_report import EventReport
from allocore.data.events.event_tables import FileTable, FrameTable, Workplace
from allocore.data.events.formats import FORMATS, Format, Mode
from allocore.data.events.loading import Reject, Wanted, condition, keys_for
from allocore.data.events.periods import check_frequency
from allocore.data.events.sources import find_files, is_files, listed
from allocore.data.events.tensors import Found, Shape, make_tensor
from allocore.data.sql import first_sentence, literal
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number

if TYPE_CHECKING:
    import duckdb

Modes = Sequence[str] | Mapping[str, str]
_MEMORY = "2GB"
_HEAVIEST = 5


def read_events(
    source: Any,
    *,
    format: str = "auto",  # the name users expect, though a builtin has it too
    modes: Modes | None = None,
    time: str | None = None,
    freq: str | None = None,
    count: str | None = None,
    where: str | Mapping[str, Any] | None = None,
    dedup: Literal["none", "story", "day"] = "none",
    diagonal: Literal["missing", "drop", "keep"] = "missing",
    shared_modes: Sequence[str] | None = None,
    min_count: int | None = None,
    on_error: Literal["raise", "drop"] = "raise",
) -> CountTensor:
    """Read a table of events, one row each, and count them in the cells of a tensor.

    Parameters
    ----------
    source
        A path, a pattern ("icews/*.tab"), a folder or a list of them: CSV, TSV, Parquet or JSON lines, also .gz and
        .zst. Or a data frame: pandas, polars (lazy too), pyarrow, a relation of duckdb.
    format
        icews, gdelt, terrier, phoenix, polecat, acled or ucdp; by default what the columns look like, if anything.
    modes
        The columns that become the modes, or a dict from the names of modes to columns. For known formats the default
        is sender x receiver x action x time.
    time, freq
        The column with dates, and the length of a period: day, week, month (the default), quarter or year. Periods
        without events inside the range stay.
    count
        A column that says how often an event happened; by default every row counts once.
    where
        The rows to keep: a condition in SQL ("IsRootEvent = '1'"; columns of files are text), or a dict of columns and
        the value or values they must have.
    dedup
        Leave out repeated events: those of the same actors and action in the same "story", or on the same "day".
    diagonal
        What to do about events of an actor with itself: their cells are "missing", the rows are "drop"ped, or "keep".
    shared_modes
        Modes that have one list of labels, such as senders and receivers; known for known formats.
    min_count
        Leave out labels with fewer counts than this (periods and actions stay).
    on_error
        What to do about rows that cannot be read: wrong number of columns, no JSON, unreadable dates, counts that are
        not whole numbers. "raise" an error that names file and line, or "drop" and count them in the report. Also what
        to do about compressed files that are cut off: with "drop", they are read up to there.

    Returns
    -------
    A tensor; its `report` tells what was read, dropped, repaired and not understood.

    Examples
    --------
    >>> import allocore as ac, pandas as pd
    >>> sales = pd.DataFrame({"store": ["A", "B"], "item": ["tea", "rice"], "day": ["2024-01-30", "2024-03-01"]})
    >>> Y = ac.read_events(sales, modes=["store", "item"], time="day")
    >>> Y
    CountTensor: 2 x 2 x 3 (store, item, day), 2 non-zeros, 2 counts, 17% dense
    >>> Y.labels[2]
    ('2024-01', '2024-02', '2024-03')
    """
    import duckdb

    _check("format", format, ("auto", *FORMATS))
    _check("diagonal", diagonal, ("missing", "drop", "keep"))
    _check("on_error", on_error, ("raise", "drop"))
    least = 0 if min_count is None else whole_number("min_count", min_count)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(f"{folder}/events") as connection, _no_raw_errors():
        _settle(connection, folder)
        work = Workplace(connection, Path(folder))
        table = (
            FileTable(work, find_files(source), format, lenient=on_error == "drop")
            if is_files(source)
            else FrameTable(work, source, format)
        )
        chosen = choose_modes(table.format, table.columns, modes, time)
        freq = _frequency(freq, chosen)
        wanted = Wanted(
            modes=chosen,
            count=count,
            where=condition(where),
            keys=keys_for(dedup, table.format, chosen, table.columns),
            lists=table.format is not None and table.format.lists,
            strict_nothing=table.format is None,
        )
        table.check(wanted, where if isinstance(where, Mapping) else ())
        loaded = table.load(wanted)
        if on_error == "raise":
            _raise_first(connection, table, wanted, loaded.rejects)
        shape = Shape(freq, _shared(shared_modes, table.format, chosen), diagonal, least)
        tensor, found = make_tensor(connection, wanted, shape, loaded)
    tensor = tensor._replaced(report=_report(table, tensor, found, loaded.notes))
    if found.repaired:
        rows = sum(found.repaired.values())
        warnings.warn(
            f"{rows:,} codes had lost their leading zeros (014 read as a number is 14) and were repaired", stacklevel=2
        )
    return tensor


def _check(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InputError(f"{name} is {value!r}, but it must be one of {', '.join(allowed)}")


@contextmanager
def _no_raw_errors() -> Iterator[None]:
    """What duckdb still complains of, such as too little memory or too large sums, as an error of ours."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise InputError(f"source cannot be made a tensor: {first_sentence(error)}") from error


def _settle(connection: "duckdb.DuckDBPyConnection", folder: str) -> None:
    connection.execute(f"SET memory_limit = '{_MEMORY}'")
    connection.execute(f"SET temp_directory = {literal(folder)}")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET enable_progress_bar = {str(sys.stderr.isatty()).lower()}")


def choose_modes(
    form: Format | None, columns: tuple[str, ...], modes: Modes | None, time: str | None
) -> tuple[Mode, ...]:
    """The modes that are asked for, or those of the format."""
    if modes is None:
        if form is None:
            raise InputError(
                f"which columns are the modes? The format of these events is not known; name the modes, for example "
                f"modes=[{columns[0]!r}, ...]: the columns are {listed(columns)}"
            )
        chosen = [*form.modes]
        if time is not None:
            chosen = [replace(mode, column=time) if mode.kind == "time" else mode for mode in chosen]
        return tuple(chosen)
    if isinstance(modes, str):
        raise InputError(f"modes is {modes!r}, but it must be a list of columns or a dict from modes to columns")
    pairs = list(modes.items()) if isinstance(modes, Mapping) else [(name, name) for name in modes]
    known = {each.name: each for each in form.modes} if form else {}
    by_column = {each.column: each for each in form.modes} if form else {}
    chosen = []
    for name, column in pairs:
        like = known.get(column) if column not in columns else by_column.get(column)
        mode = replace(like, name=str(name)) if like else Mode(str(name), str(column))
        chosen.append(replace(mode, kind="time") if mode.column == time else mode)
    if time is not None and time not in [mode.column for mode in chosen]:
        chosen.append(Mode(time, time, "time"))
    if len(chosen) < 2 or len({mode.name for mode in chosen}) < len(chosen):
        raise InputError(f"modes is {modes!r}, but it must name at least two different modes")
    return tuple(chosen)


def _frequency(freq: str | None, modes: tuple[Mode, ...]) -> str:
    times = [mode for mode in modes if mode.kind == "time"]
    if len(times) > 1:
        raise InputError(f"modes has {len(times)} modes of time, but it may have one")
    if freq is not None and not times:
        raise InputError(f"freq is {freq!r}, but no mode has dates: name their column with time=")
    return check_frequency("month" if freq is None else freq)


def _shared(wanted: Sequence[str] | None, form: Format | None, modes: tuple[Mode, ...]) -> tuple[str, ...]:
    if wanted is None:
        columns = [mode.column for mode in form.modes if mode.name in form.shared] if form else []
        shared = tuple(mode.name for mode in modes if mode.column in columns)
        return shared if len(shared) == len(columns) else ()
    names = [mode.name for mode in modes if mode.kind in ("plain", "country")]
    if isinstance(wanted, str) or len(set(wanted)) < 2 or not set(wanted) <= set(names):
        raise InputError(f"shared_modes is {wanted!r}, but it must name at least two of the modes {', '.join(names)}")
    return tuple(wanted)


def _raise_first(
    connection: "duckdb.DuckDBPyConnection", table: FileTable | FrameTable, wanted: Wanted, rejects: list[Reject]
) -> None:
    """An error for the first row that cannot be read, with its file and line where they are known."""
    if rejects:
        first = rejects[0]
        more = f" ({len(rejects):,} such lines in all)" if len(rejects) > 1 else ""
        raise InputError(f"{first.file}, line {first.line}: {first.problem}{more}; on_error='drop' drops such rows")
    columns = {"bad_time": next((mode.column for mode in wanted.modes if mode.kind == "time"), None)}
    columns["bad_n"] = wanted.count
    rules = {"bad_time": "cannot be read as a date", "bad_n": "is not a whole number of at least 0"}
    for name, column in columns.items():
        if column is None:
            continue
        bad = connection.execute(
            f"SELECT file, {name}, count(*) FROM events WHERE keep AND {name} IS NOT NULL GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        if bad:
            file, text, _ = bad[0]
            place = table.find(file, column, {each[1] for each in bad if each[0] == file}) if file else None
            given = table.given(Path(file)) if file else None
            where = f"{given}, line {place[0]}: " if place else f"{given}: " if given else ""
            shown = place[1] if place else text
            number = sum(each[2] for each in bad)
            raise InputError(
                f"{where}{column} is {shown!r}, which {rules[name]} ({number:,} such row{'s' * (number > 1)}); "
                f"on_error='drop' leaves them out"
            )


def _report(table: FileTable | FrameTable, tensor: CountTensor, found: Found, told: list[str]) -> EventReport:
    notes = [*told]
    if found.pairs > found.rows:
        notes.append(f"lists of actors made {found.pairs:,} pairs of {found.rows:,} rows")
    notes += [
        f"{rows:,} codes in {mode} had lost their leading zeros and were repaired"
        for mode, rows in found.repaired.items()
    ]
    return EventReport(
        format=table.format.name if table.format else "custom",
        files=table.number,
        rows=found.rows,
        kept=found.kept,
        dropped=found.dropped,
        duplicates=found.duplicates,
        diagonal=found.diagonal,
        unknown=found.unknown,
        notes=tuple(notes),
        dates=found.dates,
        tensor=repr(tensor),
        heaviest={name: tensor.heaviest(mode)[:_HEAVIEST] for mode, name in enumerate(tensor.mode_names)},
    )

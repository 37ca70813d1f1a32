"""The first row that cannot be read, as an error that names its file and its line."""

from pathlib import Path
from typing import TYPE_CHECKING

from allocore.data.display import plural
from allocore.data.events.event_tables import FileTable, FrameTable
from allocore.data.events.loading import Reject, Wanted
from allocore.data.sql import fetched, literal
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb


def raise_first(
    connection: "duckdb.DuckDBPyConnection", table: FileTable | FrameTable, wanted: Wanted, rejects: list[Reject]
) -> None:
    """Raise an InputError for the first row that cannot be read, with its file and line if they are known."""
    if rejects:
        first = rejects[0]
        more = f" ({len(rejects):,} such lines in all)" if len(rejects) > 1 else ""
        raise InputError(f"{first.file}, line {first.line}: {first.problem}{more}; on_error='drop' drops such rows")
    time = next((mode.column for mode in wanted.modes if mode.kind == "time"), None)
    rules = [
        ("bad_number", _first_bad_column(connection), "is not a number, but where= compares it to one"),
        ("bad_time", time, "cannot be read as a date"),
        ("bad_n", wanted.count, "is not a whole number of at least 0"),
    ]
    for name, column, rule in rules:
        if column is not None:
            which = f"bad_column = {literal(column)}" if name == "bad_number" else "keep"
            _raise_first_in(connection, table, name, column, rule, which)


def _first_bad_column(connection: "duckdb.DuckDBPyConnection") -> str | None:
    found: str | None = fetched(connection, "SELECT min(bad_column) FROM events")
    return found


def _raise_first_in(
    connection: "duckdb.DuckDBPyConnection",
    table: FileTable | FrameTable,
    name: str,
    column: str,
    rule: str,
    which: str,
) -> None:
    """Raise an InputError if rows have a text in `name` that breaks the rule of a column."""
    bad = connection.execute(
        f"SELECT file, {name}, count(*) FROM events WHERE {which} AND {name} IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    if not bad:
        return
    file, text, _ = bad[0]
    place = table.find(file, column, {each[1] for each in bad if each[0] == file}) if file else None
    given = table.given(Path(file)) if file else None
    where = f"{given}, line {place[0]}: " if place else f"{given}: " if given else ""
    shown, number = place[1] if place else text, plural(sum(each[2] for each in bad), "such row")
    raise InputError(f"{where}{column} is {shown!r}, which {rule} ({number}); on_error='drop' drops such rows")

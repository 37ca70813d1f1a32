"""The needed columns of all files, or of a data frame, as the view `events` over one table that duckdb keeps on disk.

    m0, m1, ..    the text of each mode, NULL if there is none; for a time mode the date, or the hour
    bad_time      the text of a date that cannot be read, or of a date before 1000 or after 2999
    n, bad_n      the count of the row; its text if that is not a whole number of at least 0
    keep          whether the row passes `where`
    bad_column    if `where` depends on a text that it compares to a number, but that is not a number: its column
    bad_number    the text itself
    lead          false for a row made from the second or a later entry of a list
    k0, k1, ..    the columns that distinguish events, if duplicates are dropped
    file          the file of the row
    is_row        always true: lines of JSON that are not rows are counted and deleted

Rows with the wrong number of columns do not get into the table: duckdb keeps a list of them. Dates that can be read in
only one way decide, by majority, whether 3/4/2020 is in March or in April. A text with a time zone is dated in UTC, so
that a frame and the Parquet file it was saved to, which has no zone, have the same periods.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection as Connection

from allocore._text import first_few, plural
from allocore.errors import NO_VALUE, InputError
from allocore.events.formats import Format, Mode
from allocore.events.sources import COLUMNS_SHOWN, FileDialect, unreadable
from allocore.events.where import BLANKS, EVERY_ROW, Condition, RowTest, meaning, trimmed
from allocore.findings import Finding, Level
from allocore.tensor.sql import as_pattern, first_sentence, literal, quoted

NEEDS_DATES = "needs dates: name their column in `time`"
NOT_UTF_8 = "the line is not UTF-8"


@dataclass(frozen=True)
class RowSelection:
    """What to read: the modes, the count of a row, which rows, and the columns that distinguish events."""

    modes: tuple[Mode, ...]
    count: str | None = None
    where: Condition | None = None
    keys: tuple[str, ...] = ()
    lists: bool = False
    hours: bool = False  # whether times are hours, not days
    strict_nothing: bool = False  # only empty text means "no value": outside known formats "NA" may be a label
    floats: frozenset[str] = frozenset()  # columns of floating-point numbers, in which 3.0 is written as 3
    test: RowTest = EVERY_ROW  # `where` for a source whose columns have known types

    @property
    def time(self) -> int | None:
        """The place of the mode of time."""
        return next((place for place, mode in enumerate(self.modes) if mode.kind == "time"), None)

    @property
    def time_column(self) -> str | None:
        """The column of the mode of time."""
        return None if self.time is None else self.modes[self.time].column

    def columns(self) -> list[str]:
        """Return the columns that are needed, except those in `where`."""
        names = [*(mode.column for mode in self.modes), *((self.count,) if self.count else ()), *self.keys]
        return list(dict.fromkeys(names))

    def of_types(self, columns: tuple[str, ...], types: Sequence[str]) -> RowSelection:
        """Return the same for a source whose columns have these types."""
        test = self.where.within(columns, types) if self.where else EVERY_ROW
        floats = frozenset(name for name, kind in zip(columns, types, strict=True) if kind in ("DOUBLE", "FLOAT"))
        return replace(self.within(columns), floats=floats, test=test)

    def within(self, columns: tuple[str, ...]) -> RowSelection:
        """Return the same for a source with these columns: a mode whose column is absent uses its fallback."""
        other = {
            mode.column: mode.fallback
            for mode in self.modes
            if mode.fallback in columns and mode.fallback is not None and mode.column not in columns
        }
        modes = tuple(replace(mode, column=other.get(mode.column, mode.column)) for mode in self.modes)
        return replace(self, modes=modes, keys=tuple(other.get(name, name) for name in self.keys))

    def sql(self, source: str, file: str, is_row: str = "true") -> str:
        """Return the SQL that makes rows of `events` from a source; the dates are still texts."""
        parts, froms, leads = [], [f"{source} AS source"], ["true"]
        for place, mode in enumerate(self.modes):
            if self.lists and mode.kind == "country":
                between = literal(f"[{BLANKS}]*;[{BLANKS}]*")
                whole = f"coalesce({trimmed(self._raw(mode.column))}, '')"
                items = f"list_distinct(regexp_split_to_array({whole}, {between}))"
                each = f"SELECT unnest({items}) AS item, generate_subscripts({items}, 1) AS number"
                froms.append(f"LATERAL ({each}) AS list{place}")
                parts.append(f"{meaning(f'list{place}.item', self.strict_nothing)} AS m{place}")
                leads.append(f"list{place}.number = 1")
            else:
                parts.append(f"{self._text(mode.column)} AS m{place}")
        parts += self._count()
        parts += self.test.columns()
        parts.append(f"{' AND '.join(leads)} AS lead")
        parts += [f"{self._text(name)} AS k{place}" for place, name in enumerate(self.keys)]
        return f"SELECT {', '.join(parts)}, {file} AS file, {is_row} AS is_row FROM {', '.join(froms)}"

    def _count(self) -> list[str]:
        if self.count is None:
            return ["CAST(1 AS BIGINT) AS n", "CAST(NULL AS VARCHAR) AS bad_n"]
        text = self._text(self.count)
        number = f"TRY_CAST({text} AS DOUBLE)"
        whole = f"{number} >= 0 AND {number} = floor({number}) AND {number} < 9007199254740992"
        return [
            f"CASE WHEN {whole} THEN CAST({number} AS BIGINT) END AS n",
            f"CASE WHEN {whole} THEN NULL ELSE coalesce({text}, '') END AS bad_n",
        ]

    def _text(self, column: str) -> str:
        return meaning(trimmed(self._raw(column)), self.strict_nothing)

    def _raw(self, column: str) -> str:
        name = f"source.{quoted(column)}"
        if column not in self.floats:
            return f"CAST({name} AS VARCHAR)"
        return f"CASE WHEN NOT isnan({name}) THEN regexp_replace(CAST({name} AS VARCHAR), '\\.0$', '') END"


def keys_for(dedup: str, form: Format | None, modes: tuple[Mode, ...], columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that distinguish events, in addition to a date that is a mode."""
    if dedup == "none":
        return ()
    fallbacks = {mode.column: mode.fallback for mode in form.modes} if form else {}
    names = [name if name in columns else fallbacks.get(name) for name in (form.event if form else ())]
    event = [name for name in names if name is not None and name in columns]
    # The time is compared by its day, and not by its text, which may have a time of day.
    event = event or [mode.column for mode in modes if mode.kind != "time"]
    if dedup == "story":
        if form is None or form.story is None or form.story not in columns:
            rule = "must be 'day' or 'none', because no column says which story an event is from"
            raise InputError("dedup", dedup, rule)
        return (form.story, *event)
    if any(mode.kind == "time" for mode in modes):
        return tuple(event)
    if form is None:
        raise InputError("dedup", dedup, NEEDS_DATES)
    return (*event, *(mode.column for mode in form.modes if mode.kind == "time"))


def check_columns(
    selection: RowSelection,
    columns: tuple[str, ...],
    source: str,
    form: Format | None,
    owners: Mapping[str, Path] | None = None,
) -> None:
    """Raise an InputError if a source lacks a column that is needed; `owners` are files that have a column."""
    needed = [name for name in selection.within(columns).columns() if name not in columns]
    # In SQL, capitals in the name of a column make no difference.
    folded = {name.casefold() for name in columns}
    in_where = selection.where.columns if selection.where else ()
    absent = [*needed, *(name for name in in_where if name.casefold() not in folded)]
    if not absent:
        return
    name = absent[0]
    known = (*columns, *(mode.name for mode in (form.modes if form else ())))
    near = get_close_matches(name, known, 1, 0.0 if needed else 0.6)
    hint = f"; the nearest is {near[0]!r}" if near else "; a text must be in single quotes"
    if owners and name in owners:
        hint = f" and {owners[name]} has: files that are read together must all have the columns that are used"
    shown = first_few(columns, COLUMNS_SHOWN)
    rule = f"needs the column {name!r}, which {source} does not have{hint}; its columns are {shown}"
    if not needed:
        raise InputError("where", selection.where.given if selection.where else None, rule)
    if name in (selection.count, selection.time_column):
        raise InputError("count" if name == selection.count else "time", name, rule)
    raise InputError("modes", [mode.column for mode in selection.modes if mode.kind != "time"], rule)


class Reject(NamedTuple):
    """A line that is not a row: the file, the number of the line, and what is wrong with it."""

    file: str
    line: int
    problem: str


@dataclass
class LoadedRows:
    """The result of loading, in addition to `events`: the rows of each file, lines that are not rows, and findings."""

    rows: Counter[str]  # for each file, the rows that it has
    pairs: int  # rows after each row with lists of actors became one row per pair
    found: Counter[str]  # for each file, its rows and its lines that are not rows
    lost: int  # lines that are not rows
    findings: list[Finding]
    rejects: list[Reject] = field(default_factory=list)
    inner_lines: int = 0  # line ends inside quoted fields
    source: str = NO_VALUE  # the file, if there is only one: the value in errors


def load_files(connection: Connection, dialects: Mapping[Path, FileDialect], selection: RowSelection) -> LoadedRows:
    """Make `events` from files; those of one dialect are read together."""
    groups: dict[FileDialect, list[Path]] = {}
    for file, dialect in dialects.items():
        groups.setdefault(dialect, []).append(file)
    parts = []
    for dialect, members in groups.items():
        types = dialect.types or ("VARCHAR",) * len(dialect.columns)
        is_row = "source.allocore_row" if dialect.lenient else "true"
        typed = selection.of_types(dialect.columns, types)
        parts.append(typed.sql(dialect.scan(members), "source.allocore_file", is_row))
    for table in ("reject_errors", "reject_scans"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    loaded = _make_events(connection, " UNION ALL ".join(parts), selection, list(dialects))
    loaded.rejects = _rejects(connection)
    loaded.lost += len(loaded.rejects)
    loaded.found.update(each.file for each in loaded.rejects)
    return loaded


def load_frame(connection: Connection, frame: Any, selection: RowSelection) -> LoadedRows:
    """Make `events` from a data frame, or from the Parquet file it was written to."""
    try:
        if isinstance(frame, Path):
            connection.execute(f"CREATE VIEW frame AS FROM read_parquet({as_pattern(frame)})")
        else:
            connection.register("frame", frame)
        described = connection.sql("DESCRIBE SELECT * FROM frame").fetchall()
    except duckdb.Error as error:
        raise unreadable([], error) from error
    columns, types = tuple(row[0] for row in described), [str(row[1]) for row in described]
    return _make_events(connection, selection.of_types(columns, types).sql("frame", "NULL::VARCHAR"), selection)


def _make_events(connection: Connection, sql: str, selection: RowSelection, files: Sequence[Path] = ()) -> LoadedRows:
    """Make the table `loaded`, which is compressed because it is on disk, and the view that has dates for texts."""
    try:
        connection.execute(f"CREATE OR REPLACE TABLE loaded AS {sql}")
    except duckdb.Error as error:
        refused = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.ConversionException)
        if isinstance(error, refused) and selection.where:
            rule = f"must be a condition on the columns: {first_sentence(error)}"
            raise InputError("where", selection.where.given, rule) from error
        raise unreadable(files, error) from error
    # The rows are counted once, here, before anything is joined or dropped; `RowTally.check` adds them up again.
    counted = connection.execute(
        "SELECT file, count(*) FILTER (is_row AND lead), count(*) FILTER (is_row), count(*) FILTER (NOT is_row) "
        "FROM loaded GROUP BY file"
    ).fetchall()
    lost = sum(other for *_, other in counted)
    if lost:
        connection.execute("DELETE FROM loaded WHERE NOT is_row")
    return LoadedRows(
        rows=Counter({file: rows for file, rows, *_ in counted}),
        pairs=sum(pairs for _, _, pairs, _ in counted),
        found=Counter({file: rows + other for file, rows, _, other in counted}),
        lost=lost,
        findings=_make_view(connection, selection.time, selection.hours),
    )


def _rejects(connection: Connection) -> list[Reject]:
    tables = {row[0] for row in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "reject_errors" not in tables:
        return []
    rows = connection.sql(
        "SELECT file_path, line, min(error_type::VARCHAR), min_by(error_message, error_type::VARCHAR) "
        "FROM reject_errors JOIN reject_scans USING (scan_id, file_id) GROUP BY file_path, line ORDER BY ALL"
    ).fetchall()
    return [Reject(path, line, _problem(kind, str(message).splitlines()[0])) for path, line, kind, message in rows]


def _problem(kind: str, message: str) -> str:
    if kind == "INVALID ENCODING":
        return NOT_UTF_8
    numbers = re.fullmatch(r"Expected Number of Columns: (\d+) Found: (\d+)", message.strip())
    if numbers:
        return f"the line has {plural(int(numbers[2]), 'column')}, but the table has {numbers[1]}"
    return message.strip().removesuffix(".")


_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d-%B-%Y", "%d %b %Y", "%d-%b-%Y")
_DATES = (
    *("%Y%m%d", *(f"{day}{time}" for day in _DAYS for time in _TIMES), "%Y-%m", "%Y%m", "%Y"),
    *("%Y%m%d.0", "%Y%m.0", "%Y.0"),  # numbers that were once floating-point
    *("%Y-%m-%d %I:%M %p", "%Y-%m-%d %I:%M:%S %p", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y-%m-%d %H", "%Y-%m-%dT%H"),
)
_MONTH_FIRST = tuple(f"%m{sign}%d{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_DAY_FIRST = tuple(f"%d{sign}%m{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_AMBIGUOUS = "^[0-9]{1,2}[/-][0-9]"  # only dates that begin like this may have the day or the month first
_HALF_OF_DAY = "(?i)[0-9] ?[ap][.]?m[.]?$"
_ZONE = "[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z_]+(?:[/+-][A-Za-z0-9_]+)*"
_ZONED = f"[0-9]:[0-9]{{2}}(?:[.][0-9]+)? *(?:{_ZONE})$"
_IS_ZONED = f"(regexp_matches(text, {literal(_ZONED)}) AND NOT regexp_matches(text, {literal(_HALF_OF_DAY)}))"


def _make_view(connection: Connection, time: int | None, hours: bool) -> list[Finding]:
    """Make the view `events`: `loaded` with days (or hours) for the texts in the mode of time. Returns findings."""
    if time is None:
        connection.execute("CREATE OR REPLACE VIEW events AS SELECT *, NULL::VARCHAR AS bad_time FROM loaded")
        return []
    connection.execute(
        f"CREATE OR REPLACE TABLE texts AS SELECT DISTINCT m{time} AS text FROM loaded "
        f"WHERE keep AND m{time} IS NOT NULL"
    )
    day_first, findings = _order(connection)
    moment = _moment((*_DATES, *(_DAY_FIRST if day_first else _MONTH_FIRST)))
    unit = f"date_trunc('hour', {moment})" if hours else f"CAST({moment} AS DATE)"
    connection.execute(
        f"CREATE OR REPLACE TABLE moments AS SELECT text, {unit} AS moment, {_IS_ZONED} AS zoned FROM texts"
    )
    connection.execute(
        f"CREATE OR REPLACE VIEW events AS SELECT loaded.* REPLACE (moments.moment AS m{time}), "
        f"CASE WHEN moments.moment IS NULL THEN loaded.m{time} END AS bad_time "
        f"FROM loaded LEFT JOIN moments ON moments.text = loaded.m{time}"
    )
    zoned, naive, midnights = connection.execute(
        "SELECT count(*) FILTER (zoned), count(*) FILTER (NOT zoned), coalesce(bool_and(moment = moment::DATE), false) "
        "FROM moments WHERE moment IS NOT NULL"
    ).fetchall()[0]
    if zoned:
        findings.append(Finding("periods-in-utc", "note", {"exceptions": naive > 0}))
    if hours and midnights:
        findings.append(Finding("no-hours", "caution", {"argument": "freq"}))
    return findings


def _order(connection: Connection) -> tuple[bool, list[Finding]]:
    """Return whether the day comes first in dates such as 3/4/2020, and a finding unless the answer is obvious."""
    only_month, only_day, example, unclear = connection.execute(
        "SELECT count(*) FILTER (by_day IS NULL), count(*) FILTER (by_month IS NULL), "
        "min(text) FILTER (by_month IS NULL), min(text) FILTER (by_month <> by_day) "
        f"FROM (SELECT text, {_moment(_MONTH_FIRST)} AS by_month, {_moment(_DAY_FIRST)} AS by_day FROM texts "
        f"WHERE regexp_matches(text, '{_AMBIGUOUS}')) "
        "WHERE by_month IS NOT NULL OR by_day IS NOT NULL"
    ).fetchall()[0]
    if only_day > only_month:
        level: Level = "caution" if only_month else "note"
        return True, [Finding("day-first", level, {"example": example, "exceptions": only_month > 0})]
    if only_day or (unclear and not only_month):
        values = {"example": example if only_day else unclear, "exceptions": only_day > 0}
        return False, [Finding("month-first", "caution", values)]
    return False, []


def _moment(formats: tuple[str, ...]) -> str:
    # A cast to TIMESTAMP would ignore zones, and AM and PM; a cast to TIMESTAMPTZ allows no blank before an offset.
    # For duckdb, a two-digit year is a year before 100, which is not a date here.
    by_format = f"try_strptime(text, [{', '.join(literal(each) for each in formats)}])"
    joined = "regexp_replace(text, ' +([+-][0-9:]+)$', '\\1')"
    moment = (
        f"CASE WHEN {_IS_ZONED} THEN TRY_CAST({joined} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' "
        f"WHEN regexp_matches(text, {literal(_HALF_OF_DAY)}) THEN {by_format} "
        f"ELSE coalesce(TRY_CAST(text AS TIMESTAMP), {by_format}) END"
    )
    return f"CASE WHEN year({moment}) BETWEEN 1000 AND 2999 THEN {moment} END"

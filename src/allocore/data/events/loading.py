"""The columns that matter, of all files or of a data frame, as one table of duckdb named `events`.

    m0, m1, ..    the text of each mode, NULL where there is none; of a time mode, its date
    bad_time      the text of a date that cannot be read
    n, bad_n      how much the row counts; its text where that is not a whole number from 0 on
    keep          whether the row passes `where`
    k0, k1, ..    what tells events apart, where duplicates are to be left out
    file          the file it comes from

Rows with the wrong number of columns, and files that are cut off, do not come so far: duckdb keeps a list of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from allocore.data.events.formats import Format, Mode
from allocore.data.events.sources import Layout, first_sentence, in_latin_1, literal, quoted
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_DATES = ("%Y%m%d", "%m/%d/%Y", "%Y/%m/%d", "%d %B %Y", "%d-%B-%Y", "%d %b %Y", "%d-%b-%Y", "%Y-%m", "%Y%m", "%Y")
_NOTHING = ("", "NA", "NULL", "None", "NaN", "nan", "--", "---")


@dataclass(frozen=True)
class Wanted:
    """What is to be read: modes, how much a row counts, which rows, and what makes two of them one event."""

    modes: tuple[Mode, ...]
    count: str | None = None
    where: str | None = None
    keys: tuple[str, ...] = ()
    lists: bool = False
    strict_nothing: bool = False  # only empty text is nothing: in a table of one's own "NA" may be a label

    def columns(self) -> list[str]:
        """The columns that are needed, but for those in `where`."""
        names = [*(mode.column for mode in self.modes), *((self.count,) if self.count else ()), *self.keys]
        return list(dict.fromkeys(names))

    def selection(self, source: str, file: str) -> str:
        """The SQL that makes rows of `events` from a source."""
        parts, froms = [], [f"{source} AS source"]
        for place, mode in enumerate(self.modes):
            text = self._text(mode.column)
            if mode.kind == "time":
                parts += [f"{_date(text)} AS m{place}", f"CASE WHEN {_date(text)} IS NULL THEN {text} END AS bad_time"]
            elif self.lists and mode.kind == "country":
                froms.append(f"unnest(string_split(coalesce({_raw(mode.column)}, ''), ';')) AS list{place}(item)")
                parts.append(f"{_meaning(f'trim(list{place}.item)', self.strict_nothing)} AS m{place}")
            else:
                parts.append(f"{text} AS m{place}")
        if all(mode.kind != "time" for mode in self.modes):
            parts.append("NULL::VARCHAR AS bad_time")
        number = "1" if self.count is None else f"TRY_CAST({self._text(self.count)} AS DOUBLE)"
        whole = f"{number} >= 0 AND {number} = floor({number}) AND {number} < 9007199254740992"
        parts.append(f"CASE WHEN {whole} THEN CAST({number} AS BIGINT) END AS n")
        shown = "''" if self.count is None else f"coalesce({self._text(self.count)}, '')"
        parts.append(f"CASE WHEN {whole} THEN NULL ELSE {shown} END AS bad_n")
        parts.append(f"{f'({self.where}) IS TRUE' if self.where else 'true'} AS keep")
        parts += [f"{_raw(name)} AS k{place}" for place, name in enumerate(self.keys)]
        return f"SELECT {', '.join(parts)}, {file} AS file FROM {', '.join(froms)}"

    def _text(self, column: str) -> str:
        return _meaning(f"trim({_raw(column)})", self.strict_nothing)


def _raw(column: str) -> str:
    return f"CAST(source.{quoted(column)} AS VARCHAR)"


def _meaning(text: str, strict: bool) -> str:
    nothing = _NOTHING[:1] if strict else _NOTHING
    return f"CASE WHEN {text} IN ({', '.join(literal(each) for each in nothing)}) THEN NULL ELSE {text} END"


def _date(text: str) -> str:
    formats = ", ".join(literal(each) for each in _DATES)
    return f"CAST(coalesce(TRY_CAST({text} AS TIMESTAMP), try_strptime({text}, [{formats}])) AS DATE)"


def condition(where: object) -> str | None:
    """The rows to keep as SQL: given so, or as a dict of columns and the value, or values, they must have."""
    if where is None or isinstance(where, str):
        return where
    if not isinstance(where, Mapping):
        raise InputError(f"where is {where!r}, but it must be a condition in SQL or a dict of columns and values")
    parts = []
    for name, value in where.items():
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        texts = ", ".join(literal(str(each)) for each in values)
        parts.append(f"CAST({quoted(str(name))} AS VARCHAR) IN ({texts})")
    return " AND ".join(parts) or None


class Reject(NamedTuple):
    """A line that is not a row: file, line, and what is wrong with it."""

    file: str
    line: int
    problem: str


def load_files(
    connection: "duckdb.DuckDBPyConnection", files: Mapping[Layout, list[Path]], wanted: Wanted
) -> list[Reject]:
    """Make `events` of files by their layouts; files that turn out not to be UTF-8 are read again as Latin-1."""
    rejects = _load(connection, files, wanted)
    other = {Path(each.file) for each in rejects if each.problem == "encoding"}
    if not other:
        return rejects
    split: dict[Layout, list[Path]] = {}
    for layout, members in files.items():
        for file in members:
            split.setdefault(in_latin_1(layout) if file in other else layout, []).append(file)
    return _load(connection, split, wanted)


def _load(connection: "duckdb.DuckDBPyConnection", files: Mapping[Layout, list[Path]], wanted: Wanted) -> list[Reject]:
    import duckdb

    parts = [wanted.selection(layout.scan(members), "source.allocore_file") for layout, members in files.items()]
    for table in ("events", "reject_errors", "reject_scans"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    try:
        connection.execute(f"CREATE TEMP TABLE events AS {' UNION ALL '.join(parts)}")
    except duckdb.Error as error:
        raise _explained(error, wanted) from error
    return _rejects(connection)


def _explained(error: Exception, wanted: Wanted) -> InputError:
    import duckdb

    if isinstance(error, duckdb.BinderException | duckdb.ParserException) and wanted.where:
        return InputError(
            f"where is {wanted.where!r}, but that is no condition on the columns: {first_sentence(error)}"
        )
    return InputError(f"source cannot be read: {first_sentence(error)}")


def _rejects(connection: "duckdb.DuckDBPyConnection") -> list[Reject]:
    tables = {row[0] for row in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}
    if "reject_errors" not in tables:
        return []
    rows = connection.sql(
        "SELECT DISTINCT file_path, line, error_type, error_message FROM reject_errors "
        "JOIN reject_scans USING (scan_id, file_id) ORDER BY ALL"
    ).fetchall()
    return [
        Reject(path, line, "encoding" if kind == "INVALID ENCODING" else str(message).splitlines()[0])
        for path, line, kind, message in rows
    ]


def load_frame(connection: "duckdb.DuckDBPyConnection", frame: Any, wanted: Wanted) -> None:
    """Make `events` of a data frame."""
    import duckdb

    connection.register("frame", frame)
    try:
        connection.execute(f"CREATE TEMP TABLE events AS {wanted.selection('frame', 'NULL')}")
    except duckdb.Error as error:
        raise _explained(error, wanted) from error


def keys_for(dedup: str, form: Format | None, modes: tuple[Mode, ...], columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that make two rows one event, besides the day."""
    if dedup not in ("none", "story", "day"):
        raise InputError(f"dedup is {dedup!r}, but it must be 'none', 'story' or 'day'")
    if dedup == "none":
        return ()
    known = tuple(name for name in (form.event if form else ()) if name in columns)
    event = known or tuple(mode.column for mode in modes)
    if dedup == "day":
        return event
    if form is None or form.story is None or form.story not in columns:
        raise InputError("dedup is 'story', but these events do not say which story they are from: use 'day' or 'none'")
    return (form.story, *event)

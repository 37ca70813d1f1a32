"""Event tables, in files or in data frames: their columns and format, how to load them, and where a bad row is.

duckdb lacks two types of pandas, periods and intervals. A column of periods that is the time becomes the moments at
which they begin, and their frequency is the default. In other columns, both become ordered categories.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
from duckdb import DuckDBPyConnection as Connection

from allocore._text import plural
from allocore.errors import NO_VALUE, Described, InputError
from allocore.events import loading, sources
from allocore.events.formats import Format, Mode, find_format
from allocore.events.loading import LoadedRows, Reject, RowSelection
from allocore.events.sources import FileDialect, bad_line, is_cut_off, open_lines
from allocore.events.where import as_label
from allocore.findings import Finding, Level
from allocore.tensor.calendar import frequency_named, period_labels
from allocore.tensor.sql import fetched, first_sentence, literal

_SHORTER = ("min", "s", "ms", "us", "ns")  # than an hour: such periods are moments


class FileTable:
    """Events in files. Those not in UTF-8, or with lines that end in several ways, are replaced by copies for duckdb.

    With `lenient`, files that are cut off are replaced by their complete lines, and empty files may be skipped.
    """

    def __init__(
        self,
        connection: Connection,
        folder: Path,
        files: list[Path],
        skipped: list[Path],
        wanted: str,
        *,
        header: bool,
        lenient: bool,
    ) -> None:
        self._connection, self._folder, self._wanted = connection, folder, wanted
        self._header, self._lenient = header, lenient
        self._given: dict[Path, Path] = {}  # for each copy, the file that the user gave
        self._lost = 0  # lines that the copies lack
        self._findings: list[Finding] = []
        if skipped:
            self._note("skipped-files", "note", names=[path.name + "/" * path.is_dir() for path in skipped])
        self._dialects: dict[Path, FileDialect] = {}  # of each file or copy to read
        self.format: Format | None = None
        empty = [file for file in files if lenient and file.stat().st_size == 0]
        if 0 < len(empty) < len(files):
            self._note("empty-files", "caution", files=[str(file) for file in empty])
        self.data_as_names: Finding | None = None  # a first line that looks like data
        self._find_dialects([file for file in files if file not in empty] or files)
        self.columns = next(iter(self._dialects.values())).columns
        self.number = len(files)
        self._only_file = str(files[0]) if self.number == 1 else None

    def _note(self, kind: str, level: Level, **values: object) -> None:
        self._findings.append(Finding(kind, level, values))

    def _find_dialects(self, files: list[Path]) -> None:
        formats: dict[str | None, Path] = {}
        for file in files:
            dialect, self.format, readable = self._dialect(file)
            formats.setdefault(self.format.name if self.format else None, file)
            self._dialects[readable] = dialect
        if len(formats) > 1:
            each = ", ".join(f"{file} ({name or 'no known format'})" for name, file in formats.items())
            raise InputError("source", Described(each), "must have files of one format only")

    def _dialect(self, file: Path) -> tuple[FileDialect, Format | None, Path]:
        try:
            return *self._dialect_of(file), file
        except InputError as error:
            if not self._lenient or not is_cut_off(file):
                raise
            copy = self._up_to_the_cut(file)
            try:
                return *self._dialect_of(copy), copy
            except InputError:
                raise error from None

    def _dialect_of(self, file: Path) -> tuple[FileDialect, Format | None]:
        dialect, form, names = sources.dialect_of(self._connection, file, self._wanted, self._header, self._lenient)
        if names and self.data_as_names is None:
            values = {"file": str(self.given(file)), "fields": list(names)}
            self.data_as_names = Finding("data-as-names", "caution", values)
            self._findings.append(self.data_as_names)
        return dialect, form

    def given(self, file: Path) -> Path:
        """Return the file that the user gave, if `file` is a copy of it."""
        return self._given.get(file, file)

    def _copy(self, file: Path, lines: Iterable[str], encoding: str = "latin-1") -> Path:
        """Write lines to a new file of the same name, which is not compressed."""
        name = (file.with_suffix("") if file.suffix.lower() in sources.COMPRESSED else file).name
        copy = Path(tempfile.mkdtemp(dir=self._folder)) / name
        with copy.open("w", encoding=encoding, newline="") as out:
            out.writelines(f"{line}\n" for line in lines)
        self._given[copy] = self.given(file)
        return copy

    def _up_to_the_cut(self, file: Path) -> Path:
        copy = self._copy(file, sources.lines_before_the_cut(file))
        self._lost += 1  # the line that is cut off
        with copy.open("rb") as content:
            self._note("cut-off-file", "caution", file=str(file), lines=sum(1 for _ in content))
        return copy

    def _with_one_end(self, file: Path) -> Path:
        """Return a copy in UTF-8 all lines of which end in the same way."""
        with open_lines(file, "latin-1") as lines:
            return self._copy(file, map(sources.decoded, lines), "utf-8")

    def _without_stray_quotes(self, file: Path) -> Path:
        stray = []

        def good_lines(lines: Iterator[str]) -> Iterator[str]:
            for record in sources.split_records(lines, self._dialects[file]):
                if record.problem:
                    stray.append(record.number)
                else:
                    yield from record.lines

        with open_lines(file, "latin-1") as lines:
            copy = self._copy(file, good_lines(lines))
        self._lost += len(stray)
        self._note("stray-quotes", "caution", file=str(self.given(file)), lines=len(stray))
        return copy

    def check(self, selection: RowSelection) -> None:
        """Raise an InputError if a file lacks a column that is needed."""
        firsts: dict[FileDialect, Path] = {}
        for file, dialect in self._dialects.items():
            firsts.setdefault(dialect, self.given(file))
        owners = {name: file for dialect, file in firsts.items() for name in dialect.columns}
        for dialect, file in firsts.items():
            loading.check_columns(selection, dialect.columns, str(file), self.format, owners)

    def load(self, selection: RowSelection) -> LoadedRows:
        """Make the view `events`."""
        loaded = self._load_in_utf_8(selection)
        if self._lenient or not loaded.rejects:  # otherwise these are an error anyway
            loaded = self._with_all_lines(loaded, selection)
        loaded.rejects = [each._replace(file=str(self.given(Path(each.file)))) for each in loaded.rejects]
        loaded.source = self._only_file or loaded.source
        loaded.lost += self._lost
        empty = [str(self.given(file)) for file in self._dialects if not loaded.rows[str(file)]]
        if empty and loaded.rows.total():  # if no file has rows, an error says so later
            self._note("files-without-rows", "caution", files=empty)
        loaded.findings = [*self._findings, *loaded.findings]
        return loaded

    def _load_in_utf_8(self, selection: RowSelection) -> LoadedRows:
        loaded = self._load_or_copy(selection)
        foreign = {Path(each.file) for each in loaded.rejects if each.problem == loading.NOT_UTF_8}
        if not foreign:
            return loaded
        for file in [each for each in self._dialects if each in foreign]:
            self._note("not-utf-8", "note", file=str(self.given(file)))
        self._replace(foreign, self._with_one_end)
        return self._load_or_copy(selection)

    def _load_or_copy(self, selection: RowSelection) -> LoadedRows:
        try:
            return loading.load_files(self._connection, self._dialects, selection)
        except InputError as error:
            cause = str(error.__cause__)
            # This is what duckdb says if some lines of a file end as on Windows and others do not.
            is_mixed = "state machine reached an invalid state" in cause
            mixed = {file for file in self._dialects if is_mixed and f"file = {file}\n" in cause}
            mixed -= set(self._given)
            cut = {file for file in self._dialects if self._lenient and not mixed and is_cut_off(file)}
            if not cut and not mixed:
                raise
        self._replace(mixed, self._with_one_end)
        self._replace(cut, self._up_to_the_cut)
        return self._load_or_copy(selection)

    def _with_all_lines(self, loaded: LoadedRows, selection: RowSelection) -> LoadedRows:
        """Return what was loaded if it accounts for every line; files with stray quotes are replaced and read again."""
        stray = set()
        for file, dialect in self._dialects.items():
            given = str(self.given(file))
            try:
                account = sources.account_of(file, dialect, loaded.found[str(file)], self._connection, given)
            except EOFError as error:
                raise InputError("source", given, f"is cut off: {error}") from error
            if isinstance(account, int):
                loaded.inner_lines += account
            elif self._lenient:
                stray.add(file)
            else:
                raise bad_line(given, *account)
        if not stray:
            return loaded
        self._replace(stray, self._without_stray_quotes)
        return self._with_all_lines(self._load_in_utf_8(selection), selection)

    def _replace(self, some: set[Path], copy: Callable[[Path], Path]) -> None:
        replaced = [copy(file) if file in some else file for file in self._dialects]
        self._dialects = dict(zip(replaced, self._dialects.values(), strict=True))

    def find(self, file: str, column: str, texts: set[str]) -> tuple[int, str] | None:
        """Read a file again and return the first line in which a column has one of the texts, and that text."""
        dialect = self._dialects.get(Path(file))
        if dialect is None or dialect.kind == "parquet":
            return None
        with open_lines(Path(file), "utf-8") as lines, suppress(csv.Error, ValueError):
            fields = _fields(lines, dialect, column) if dialect.kind == "text" else _values(lines, column)
            return next(((line, text) for line, text in fields if text in texts), None)
        return None


def _fields(lines: Iterator[str], dialect: FileDialect, column: str) -> Iterator[tuple[int, str]]:
    options: dict[str, Any] = {"delimiter": dialect.separator, "quoting": csv.QUOTE_NONE}
    if dialect.quote:
        options |= {"quoting": csv.QUOTE_MINIMAL, "escapechar": None if dialect.escape == '"' else dialect.escape}
    reader, place = csv.reader(lines, **options), dialect.columns.index(column)
    if dialect.has_header:
        next(reader)
    for row in reader:
        if len(row) > place:
            yield reader.line_num, row[place].strip()


def _values(lines: Iterator[str], key: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            value = (json.loads(line) or {}).get(key)
            text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
            yield number, text.strip()


class FrameTable:
    """Events in a data frame of any library that narwhals supports."""

    data_as_names = None

    def __init__(self, connection: Connection, folder: Path, frame: Any, wanted: str, *, header: bool) -> None:
        if not header:
            raise InputError("header", False, "applies only to tables in text, such as CSV, not to a data frame")
        self._connection, self._folder = connection, folder
        try:
            self._frame: Any = nw.from_native(frame)
            if not all(isinstance(name, str) for name in self._frame.collect_schema()):  # in pandas
                self._frame = nw.from_native(self._frame.to_native().rename(columns=str))
            self.columns = tuple(self._frame.collect_schema().names())
        except TypeError as error:
            shown = Described(f"a {type(frame).__name__}")
            raise InputError("source", shown, "must be a path or a data frame") from error
        except ValueError as error:
            raise InputError("source", Described("a data frame"), f"cannot be read: {first_sentence(error)}") from error
        self._is_pandas = self._frame.implementation.is_pandas()
        self.format = find_format(wanted, self.columns)
        self.number = 0

    def check(self, selection: RowSelection) -> None:
        """Raise an InputError if the frame lacks a column that is needed."""
        loading.check_columns(selection, self.columns, "the frame", self.format)

    def load(self, selection: RowSelection) -> LoadedRows:
        """Make the view `events`."""
        selection = selection.within(self.columns)
        frame: Any = self._frame if selection.where else self._frame.select(selection.columns())
        schema = frame.collect_schema()
        if len({name.casefold() for name in schema}) < len(schema):
            rule = "must not have columns whose names differ only in upper and lower case"
            raise InputError("source", Described("a data frame"), rule)
        if self._is_pandas:
            self._frame = frame = nw.from_native(_readable_columns(frame.to_native(), selection.time_column))
        return loading.load_frame(self._connection, _for_duckdb(frame, self._folder), selection)

    def frequency(self, column: str, chosen: str | None) -> str | None:
        """Return the frequency of a column of pandas periods; None for any other column, and for shorter periods."""
        found = _of_pandas(self._frame.to_native()[column]) if self._is_pandas and column in self.columns else None
        own = None if found is None else _period_frequency(found)
        if own is None or own in _SHORTER:
            return None
        known = _calendar_frequency(own)
        if known is None and chosen is None:
            kind = f"pandas periods of frequency {own}, which are not of the calendar"
            raise InputError("freq", NO_VALUE, f"must be given, because {column} has {kind}")
        return known

    def orders(self, modes: Iterable[Mode]) -> dict[str, tuple[str, ...]]:
        """Return the order of the labels of those modes whose columns have one: ordered categoricals, enums."""
        kinds = {name: kind for name, kind in self._frame.collect_schema().items() if isinstance(kind, nw.Enum)}
        return {
            mode.name: tuple(map(as_label, kinds[mode.column].categories)) for mode in modes if mode.column in kinds
        }


def _for_duckdb(frame: Any, folder: Path) -> Any:
    """Return a frame that duckdb reads, or a Parquet file of it if that needs pyarrow, which is not installed."""
    is_lazy, is_polars = isinstance(frame, nw.LazyFrame), frame.implementation.is_polars()
    if find_spec("pyarrow") is not None or not (is_lazy or is_polars):
        return (frame.collect() if is_lazy else frame).to_native()
    file, native = folder / "frame.parquet", frame.to_native()
    try:
        (native.collect() if is_polars and is_lazy else native).write_parquet(str(file))
    except Exception as error:  # every library raises its own type
        rule = f"cannot be read without pyarrow: {first_sentence(error)}"
        raise InputError("source", Described(f"a {type(native).__name__}"), rule) from error
    return file


def _readable_columns(frame: pd.DataFrame, time: str | None) -> pd.DataFrame:
    changed = {}
    for name in frame.columns:
        column = _of_pandas(frame[name])
        if column is not None:
            is_time = name == time and _period_frequency(column) is not None
            changed[name] = column.astype(_value_type(column)).dt.start_time if is_time else _categories(column)
    return frame.assign(**changed) if changed else frame


def _of_pandas(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return a column of periods or intervals, as objects or not, with a type that says so; None for any other."""
    if isinstance(_value_type(column), pd.PeriodDtype | pd.IntervalDtype):
        return column
    if column.dtype != object:
        return None
    first = next((value for value in column.to_numpy() if pd.isna(value) is not True), None)
    try:
        if isinstance(first, pd.Period):
            return column.astype(pd.PeriodDtype(first.freqstr))
        if isinstance(first, pd.Interval):
            return pd.Series(pd.arrays.IntervalArray(column.to_numpy()), index=column.index, name=column.name)
    except (TypeError, ValueError) as error:
        rule = f"must have periods or intervals of one kind in {column.name}: {first_sentence(error)}"
        raise InputError("source", Described("a data frame"), rule) from None
    return None


def _value_type(column: pd.Series[Any]) -> Any:
    return getattr(column.dtype, "categories", column).dtype


def _period_frequency(column: pd.Series[Any]) -> str | None:
    """Return the word of pandas for the length of the periods in a column; None if it has intervals."""
    kind = _value_type(column)
    return str(pd.PeriodIndex([], dtype=kind).freqstr) if isinstance(kind, pd.PeriodDtype) else None


def _calendar_frequency(word: str) -> str | None:
    """Return the frequency of periods for which pandas has a word; only weeks that end on Sunday are weeks here."""
    if word == "B":
        return "day"
    return None if word == "W-MON" else frequency_named(word)


def _categories(column: pd.Series[Any]) -> pd.Series[Any]:
    word, column = _period_frequency(column), column.astype("category")
    values: Any = column.cat.categories
    labels = map(_interval_label, values) if word is None else period_labels(values, _calendar_frequency(word))
    return column.cat.rename_categories(list(labels)).cat.as_ordered()


def _interval_label(interval: pd.Interval[Any]) -> str:
    """Return an interval with its ends, whole numbers without a point and midnights without a time: (0, 18]."""
    left, right = "[" if interval.closed_left else "(", "]" if interval.closed_right else ")"
    ends = (str(end).removesuffix(" 00:00:00").removesuffix(".0") for end in (interval.left, interval.right))
    return f"{left}{', '.join(ends)}{right}"


EventTable = FileTable | FrameTable


def raise_first_bad_row(
    connection: Connection, table: EventTable, selection: RowSelection, rejects: list[Reject]
) -> None:
    """Raise an InputError for the first row that cannot be read, with its file and line if they are known."""
    if rejects:
        first = rejects[0]
        more = f" ({len(rejects):,} such lines in all)" if len(rejects) > 1 else ""
        raise bad_line(first.file, first.line, f"{first.problem}{more}")
    compared: str | None = fetched(connection, "SELECT min(bad_column) FROM events")
    rules = [
        ("bad_number", compared, "is not a number, but `where` compares it to one"),
        ("bad_time", selection.time_column, "cannot be read as a date"),
        ("bad_n", selection.count, "is not a whole number of at least 0"),
    ]
    for name, column, rule in rules:
        if column is None:
            continue
        condition = f"bad_column = {literal(column)}" if name == "bad_number" else "keep"
        bad = connection.execute(
            f"SELECT file, {name}, count(*) FROM events WHERE {condition} AND {name} IS NOT NULL "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        if bad:
            raise _bad_text(table, column, rule, bad)


def _bad_text(table: EventTable, column: str, rule: str, bad: list[tuple[str, str, int]]) -> InputError:
    """Return the error for texts in a column that break a rule; `bad` has files, texts and numbers of rows."""
    file, text, _ = bad[0]
    rows = plural(sum(number for *_, number in bad), "such row")
    if isinstance(table, FileTable):
        place = table.find(file, column, {each[1] for each in bad if each[0] == file})
        file = str(table.given(Path(file)))
        if place:
            return bad_line(file, place[0], f"{column} is {place[1]!r}, which {rule} ({rows})")
    problem = f"cannot be read: {column} is {text!r}, which {rule} ({rows})"
    advice = "set `on_error` to 'drop' to drop such rows"
    return InputError("source", file or Described("a data frame"), f"{problem}; {advice}")

"""Event tables in files: their columns and format, how to load them, and where a bad row is."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allocore._text import plural
from allocore.errors import Described, InputError
from allocore.events.formats import Format
from allocore.events.frames import DuckdbSession, FrameTable
from allocore.events.lines import (
    LineAccount,
    account_of,
    is_cut_off,
    open_lines,
    write_decoded,
    write_sound_records,
    write_whole_lines,
)
from allocore.events.loading import NOT_UTF_8, LoadedRows, Reject, RowSelection, check_columns, load_files
from allocore.events.sources import FileDialect, Sources, bad_line, dialect_of
from allocore.findings import Finding
from allocore.tensor.sql import fetched, literal

if TYPE_CHECKING:
    import duckdb


class FileTable:
    """Events in files: their columns, format, and how each file is written.

    Files that are not UTF-8, and files whose lines end in several ways, are replaced by copies that duckdb can read.
    With `lenient`, compressed files that are cut off are replaced by their whole lines, and empty files are skipped if
    there are others.
    """

    def __init__(self, session: DuckdbSession, sources: Sources, wanted: str, *, lenient: bool) -> None:
        self._session, self._format, self._lenient = session, wanted, lenient
        self._given: dict[Path, Path] = {}  # for each copy, the file that the user gave
        self._lost = 0  # lines that the copies lack
        self._findings: list[Finding] = []
        if sources.skipped:
            names = [path.name + "/" * path.is_dir() for path in sources.skipped]
            self._findings.append(Finding("skipped-files", "note", {"names": names}))
        self._group_by_dialect(self._not_empty(sources.files))
        self.columns = next(iter(self._files)).columns
        self.number = len(sources.files)
        self._only_file = str(sources.files[0]) if self.number == 1 else None

    def _not_empty(self, files: list[Path]) -> list[Path]:
        empty = [file for file in files if self._lenient and file.stat().st_size == 0]
        if not empty or len(empty) == len(files):
            return files
        self._findings.append(Finding("empty-files", "caution", {"files": [str(file) for file in empty]}))
        return [file for file in files if file not in empty]

    def _group_by_dialect(self, files: list[Path]) -> None:
        self._files: dict[FileDialect, list[Path]] = {}
        formats: dict[str | None, Path] = {}
        self.format: Format | None = None
        for file in files:
            dialect, found, readable = self._dialect(file)
            formats.setdefault(found.name if found else None, file)
            self._files.setdefault(dialect, []).append(readable)
            self.format = found
        if len(formats) > 1:
            each = ", ".join(f"{file} ({name or 'no known format'})" for name, file in formats.items())
            raise InputError("source", Described(each), "must have files of one format only")

    def _dialect(self, file: Path) -> tuple[FileDialect, Format | None, Path]:
        """Return the dialect and the format of a file, and the file or copy to read."""
        try:
            return *dialect_of(self._session.connection, file, self._format, self._lenient), file
        except InputError as error:
            if not self._lenient or not is_cut_off(file):
                raise
            copy = self._whole_lines(file)
            try:
                return *dialect_of(self._session.connection, copy, self._format, self._lenient), copy
            except InputError:
                raise error from None

    def _whole_lines(self, file: Path) -> Path:
        copy, lines = write_whole_lines(file, self._session.folder)
        self._given[copy] = file
        self._lost += 1  # the line that is cut off
        self._findings.append(Finding("cut-off-file", "caution", {"file": str(file), "lines": lines}))
        return copy

    def _in_utf_8(self, file: Path) -> Path:
        copy = write_decoded(file, self._session.folder)
        self._given[copy] = given = self.given(file)
        self._findings.append(Finding("not-utf-8", "note", {"file": str(given)}))
        return copy

    def given(self, file: Path) -> Path:
        """Return the file that the user gave, if `file` is a copy of it."""
        return self._given.get(file, file)

    def check(self, selection: RowSelection) -> None:
        """Raise an InputError if a file lacks a column that is needed."""
        owners = {name: self.given(files[0]) for dialect, files in self._files.items() for name in dialect.columns}
        for dialect, files in self._files.items():
            check_columns(selection, dialect.columns, str(self.given(files[0])), self.format, owners)

    def load(self, selection: RowSelection) -> LoadedRows:
        """Make the view `events`."""
        loaded = self._load_in_utf_8(selection)
        if self._lenient or not loaded.rejects:  # otherwise these are an error anyway
            loaded = self._with_all_lines(loaded, selection)
        loaded.rejects = [each._replace(file=str(self.given(Path(each.file)))) for each in loaded.rejects]
        loaded.source = self._only_file or loaded.source
        loaded.lost += self._lost
        empty = [str(self.given(file)) for file in self._all_files() if not loaded.rows[str(file)]]
        if empty and loaded.rows.total():  # if no file has rows, an error says so later
            self._findings.append(Finding("files-without-rows", "caution", {"files": empty}))
        loaded.findings = [*self._findings, *loaded.findings]
        return loaded

    def _load_in_utf_8(self, selection: RowSelection) -> LoadedRows:
        loaded = self._load_or_copy(selection)
        foreign = {Path(each.file) for each in loaded.rejects if each.problem == NOT_UTF_8}
        if not foreign:
            return loaded
        self._replace(foreign, self._in_utf_8)
        return self._load_or_copy(selection)

    def _with_all_lines(self, loaded: LoadedRows, selection: RowSelection) -> LoadedRows:
        """Return what was loaded if it accounts for every line; files with stray quotes are replaced and read again."""
        stray = []
        for dialect, files in self._files.items():
            for place, file in enumerate(files):
                account = self._account(file, dialect, loaded.found[str(file)])
                loaded.inner_lines += account.inner_lines
                if account.problem:
                    stray.append((dialect, place))
        if not stray:
            return loaded
        for dialect, place in stray:
            files = self._files[dialect]
            files[place] = self._sound_records(files[place], dialect)
        return self._with_all_lines(self._load_in_utf_8(selection), selection)

    def _account(self, file: Path, dialect: FileDialect, found: int) -> LineAccount:
        """Return how the lines of a file compare with what was found in it. Raises an error for the first bad line."""
        given = self.given(file)
        try:
            account = account_of(file, dialect, found, self._session.connection, given)
        except EOFError as error:
            raise InputError("source", str(given), f"is cut off: {error}") from error
        if account.problem and not self._lenient:
            raise bad_line(str(given), *account.problem)
        if not account.problem and not account.adds_up:
            raise InputError("source", str(given), f"cannot be read: {account}")
        return account

    def _sound_records(self, file: Path, dialect: FileDialect) -> Path:
        copy, lost = write_sound_records(file, self._session.folder, dialect)
        self._given[copy] = given = self.given(file)
        self._lost += lost
        self._findings.append(Finding("stray-quotes", "caution", {"file": str(given), "lines": lost}))
        return copy

    def _load_or_copy(self, selection: RowSelection) -> LoadedRows:
        try:
            return load_files(self._session.connection, self._files, selection)
        except InputError as error:
            mixed = {file for file in self._all_files() if _has_mixed_ends(file, error) and file not in self._given}
            cut = {file for file in self._all_files() if self._lenient and not mixed and is_cut_off(file)}
            if not cut and not mixed:
                raise
        self._replace(mixed, self._with_one_end)
        self._replace(cut, self._whole_lines)
        return self._load_or_copy(selection)

    def _with_one_end(self, file: Path) -> Path:
        copy = write_decoded(file, self._session.folder)
        self._given[copy] = file
        return copy

    def _all_files(self) -> list[Path]:
        return [file for files in self._files.values() for file in files]

    def _replace(self, some: set[Path], copy: Callable[[Path], Path]) -> None:
        for files in self._files.values():
            files[:] = [copy(file) if file in some else file for file in files]

    def find(self, file: str, column: str, texts: set[str]) -> tuple[int, str] | None:
        """Read a file again and return the first line in which a column has one of the texts, and that text."""
        dialect = next((dialect for dialect, files in self._files.items() if Path(file) in files), None)
        if dialect is None or dialect.kind == "parquet":
            return None
        with open_lines(Path(file), "utf-8") as lines, suppress(csv.Error, ValueError):
            fields = _fields(lines, dialect, column) if dialect.kind == "text" else _values(lines, column)
            return next(((line, text) for line, text in fields if text in texts), None)
        return None


def _has_mixed_ends(file: Path, error: InputError) -> bool:
    """Return whether duckdb failed because some lines of a file end as on Windows and others do not."""
    cause = str(error.__cause__)
    return "state machine reached an invalid state" in cause and f"file = {file}\n" in cause


def _fields(lines: Iterator[str], dialect: FileDialect, column: str) -> Iterator[tuple[int, str]]:
    """Yield the texts in a column of a text file, with their line numbers."""
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
    """Yield the texts of a key in JSON lines, with their line numbers."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            value = (json.loads(line) or {}).get(key)
            text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
            yield number, text.strip()


def raise_first_bad_row(
    connection: duckdb.DuckDBPyConnection,
    table: FileTable | FrameTable,
    selection: RowSelection,
    rejects: list[Reject],
) -> None:
    """Raise an InputError for the first row that cannot be read, with its file and line if they are known."""
    if rejects:
        first = rejects[0]
        more = f" ({len(rejects):,} such lines in all)" if len(rejects) > 1 else ""
        raise bad_line(first.file, first.line, f"{first.problem}{more}")
    time = next((mode.column for mode in selection.modes if mode.kind == "time"), None)
    compared: str | None = fetched(connection, "SELECT min(bad_column) FROM events")
    rules = [
        ("bad_number", compared, "is not a number, but `where` compares it to one"),
        ("bad_time", time, "cannot be read as a date"),
        ("bad_n", selection.count, "is not a whole number of at least 0"),
    ]
    for name, column, rule in rules:
        if column is not None:
            condition = f"bad_column = {literal(column)}" if name == "bad_number" else "keep"
            _raise_first_bad_text(connection, table, name, column, rule, condition)


def _raise_first_bad_text(
    connection: duckdb.DuckDBPyConnection,
    table: FileTable | FrameTable,
    name: str,
    column: str,
    rule: str,
    condition: str,
) -> None:
    """Raise an InputError if rows that meet a condition have a text in `name`, which breaks the rule of a column."""
    bad = connection.execute(
        f"SELECT file, {name}, count(*) FROM events WHERE {condition} AND {name} IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    if not bad:
        return
    file, text, _ = bad[0]
    rows = plural(sum(number for *_, number in bad), "such row")
    place = None
    if isinstance(table, FileTable):
        place = table.find(file, column, {each[1] for each in bad if each[0] == file})
        file = str(table.given(Path(file)))
    if place:
        line, text = place
        raise bad_line(file, line, f"{column} is {text!r}, which {rule} ({rows})")
    source = file or Described("a data frame")
    problem = f"cannot be read: {column} is {text!r}, which {rule} ({rows})"
    raise InputError("source", source, f"{problem}; set `on_error` to 'drop' to drop such rows")

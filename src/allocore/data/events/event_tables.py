"""Event tables in files or in data frames: their columns and format, how to load them, and where a bad row is."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allocore.data.events.compressed import is_cut_off, open_lines, write_decoded, write_whole_lines
from allocore.data.events.formats import FORMATS, Format, Mode, detect
from allocore.data.events.loading import NOT_UTF_8, Loaded, Wanted, load_files, load_frame
from allocore.data.events.pandas_columns import frequency_of_periods, readable_columns
from allocore.data.events.records import Account, account_of, write_sound_records
from allocore.data.events.row_texts import as_label
from allocore.data.events.sources import FileDialect, Sources, dialect_of, listed
from allocore.data.sql import first_sentence
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_LISTED = 6


@dataclass(frozen=True)
class DuckdbSession:
    """A connection to duckdb and a folder for temporary files."""

    connection: "duckdb.DuckDBPyConnection"
    folder: Path


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
        self._notes: list[str] = []
        if sources.passed_over:
            names = [path.name + "/" * path.is_dir() for path in sources.passed_over]
            self._notes.append(f"skipped, because these are not tables: {listed(names, _LISTED)}")
        self._group_by_dialect(self._not_empty(sources.files))
        self.columns = next(iter(self._files)).columns
        self.number = len(sources.files)
        self._name = str(sources.files[0]) if self.number == 1 else "source"

    def _not_empty(self, files: list[Path]) -> list[Path]:
        empty = [file for file in files if self._lenient and file.stat().st_size == 0]
        if not empty or len(empty) == len(files):
            return files
        self._notes.append(f"empty: {listed([str(file) for file in empty], _LISTED)}")
        return [file for file in files if file not in empty]

    def _group_by_dialect(self, files: list[Path]) -> None:
        self._files: dict[FileDialect, list[Path]] = {}
        formats: dict[str | None, Path] = {}
        self.format: Format | None = None
        for file in files:
            dialect, found, there = self._dialect(file)
            formats.setdefault(found.name if found else None, file)
            self._files.setdefault(dialect, []).append(there)
            self.format = found
        if len(formats) > 1:
            each = ", ".join(f"{file} ({name or 'no known format'})" for name, file in formats.items())
            raise InputError(f"source has files of several formats: {each}; read them one by one")

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
        self._notes.append(f"{file} is cut off: its first {lines:,} lines were read")
        return copy

    def _in_utf_8(self, file: Path) -> Path:
        copy = write_decoded(file, self._session.folder)
        self._given[copy] = given = self.given(file)
        self._notes.append(f"{given} is not UTF-8: lines that are not were read as Latin-1")
        return copy

    def given(self, file: Path) -> Path:
        """Return the file that the user gave, if `file` is a copy of it."""
        return self._given.get(file, file)

    def check(self, wanted: Wanted) -> None:
        """Raise an InputError if a file lacks a column that is needed."""
        owners = {name: self.given(files[0]) for dialect, files in self._files.items() for name in dialect.columns}
        for dialect, files in self._files.items():
            _check_columns(wanted, dialect.columns, str(self.given(files[0])), self.format, owners)

    def load(self, wanted: Wanted) -> Loaded:
        """Make the view `events`."""
        loaded = self._load_in_utf_8(wanted)
        if self._lenient or not loaded.rejects:  # otherwise these are an error anyway
            loaded = self._with_all_lines(loaded, wanted)
        loaded.rejects = [each._replace(file=str(self.given(Path(each.file)))) for each in loaded.rejects]
        loaded.name = self._name
        loaded.lost += self._lost
        loaded.notes = [*self._notes, *self._without_rows(), *loaded.notes]
        return loaded

    def _load_in_utf_8(self, wanted: Wanted) -> Loaded:
        loaded = self._load_or_copy(wanted)
        foreign = {Path(each.file) for each in loaded.rejects if each.problem == NOT_UTF_8}
        if not foreign:
            return loaded
        self._replace(foreign, self._in_utf_8)
        return self._load_or_copy(wanted)

    def _with_all_lines(self, loaded: Loaded, wanted: Wanted) -> Loaded:
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
        return self._with_all_lines(self._load_in_utf_8(wanted), wanted)

    def _account(self, file: Path, dialect: FileDialect, found: int) -> Account:
        """Return how the lines of a file compare with what was found in it; what cannot be mended is an InputError."""
        try:
            account = account_of(file, dialect, found, self._session.connection)
        except EOFError as error:
            raise InputError(f"{self.given(file)} is cut off: {error}") from error
        if account.problem and not self._lenient:
            number, what = account.problem
            raise InputError(f"{self.given(file)}, line {number}: {what}; on_error='drop' drops such lines")
        if not account.problem and not account.adds_up:
            raise InputError(f"{self.given(file)} cannot be read: {account}")
        return account

    def _sound_records(self, file: Path, dialect: FileDialect) -> Path:
        copy, lost = write_sound_records(file, self._session.folder, dialect)
        self._given[copy] = given = self.given(file)
        self._lost += lost
        self._notes.append(f"{given} has {lost:,} lines with stray quotes, or that are too long: they were left out")
        return copy

    def _load_or_copy(self, wanted: Wanted) -> Loaded:
        try:
            return load_files(self._session.connection, self._files, wanted)
        except InputError as error:
            mixed = {file for file in self._all_files() if _has_mixed_ends(file, error) and file not in self._given}
            cut = {file for file in self._all_files() if self._lenient and not mixed and is_cut_off(file)}
            if not cut and not mixed:
                raise
        self._replace(mixed, self._with_one_end)
        self._replace(cut, self._whole_lines)
        return self._load_or_copy(wanted)

    def _with_one_end(self, file: Path) -> Path:
        copy = write_decoded(file, self._session.folder)
        self._given[copy] = file
        return copy

    def _all_files(self) -> list[Path]:
        return [file for files in self._files.values() for file in files]

    def _replace(self, some: set[Path], copy: Callable[[Path], Path]) -> None:
        for files in self._files.values():
            files[:] = [copy(file) if file in some else file for file in files]

    def _without_rows(self) -> list[str]:
        """Return a note on the files that have no rows; if no file has any, an error says so later."""
        rows = self._session.connection.execute("SELECT DISTINCT file FROM loaded").fetchall()
        full = {Path(file) for (file,) in rows}
        empty = [str(self.given(file)) for file in self._all_files() if file not in full]
        return [f"without rows: {listed(empty, _LISTED)}"] if empty and full else []

    def frequency(self, column: str, chosen: str | None) -> str | None:
        """Return None: texts in files have dates, and no periods."""
        return None

    def orders(self, modes: Iterable[Mode]) -> dict[str, tuple[str, ...]]:
        """Return nothing: texts in files have no order of their own."""
        return {}

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
    told = str(error.__cause__)
    return "state machine reached an invalid state" in told and f"file = {file}\n" in told


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


class FrameTable:
    """Events in a data frame of any library that narwhals supports."""

    def __init__(self, session: DuckdbSession, frame: Any, wanted: str) -> None:
        import narwhals as nw

        self._session = session
        try:
            self._frame = _with_text_names(nw.from_native(frame))
            self.columns = tuple(self._frame.collect_schema().names())
        except TypeError as error:
            raise InputError(f"source is a {type(frame).__name__}, but it must be a path or a data frame") from error
        except ValueError as error:
            raise InputError(f"source is a data frame that cannot be read: {first_sentence(error)}") from error
        self.format = detect(self.columns) if wanted == "auto" else FORMATS[wanted]
        self.number = 0

    def check(self, wanted: Wanted) -> None:
        """Raise an InputError if the frame lacks a column that is needed."""
        _check_columns(wanted, self.columns, "the frame", self.format)

    def load(self, wanted: Wanted) -> Loaded:
        """Make the view `events`."""
        import narwhals as nw

        wanted = wanted.within(self.columns)
        frame: Any = self._frame if wanted.where else self._frame.select(wanted.columns())
        schema = frame.collect_schema()
        if len({name.casefold() for name in schema}) < len(schema):
            raise InputError("the frame has columns whose names differ only in upper and lower case: rename them")
        if isinstance(frame, nw.DataFrame) and frame.implementation.is_pandas():
            time = next((mode.column for mode in wanted.modes if mode.kind == "time"), None)
            self._frame = frame = nw.from_native(readable_columns(frame.to_native(), time))
        return load_frame(self._session.connection, _for_duckdb(frame, self._session.folder), wanted)

    def frequency(self, column: str, chosen: str | None) -> str | None:
        """Return the frequency of a column of periods; None for any other column.

        Periods that are none of the calendar are an error unless another frequency was chosen.
        """
        import narwhals as nw

        if isinstance(self._frame, nw.DataFrame) and self._frame.implementation.is_pandas() and column in self.columns:
            return frequency_of_periods(self._frame.to_native()[column], chosen)
        return None

    def orders(self, modes: Iterable[Mode]) -> dict[str, tuple[str, ...]]:
        """Return the order of the labels of those modes whose columns have one: ordered categoricals, enums."""
        import narwhals as nw

        kinds = {name: kind for name, kind in self._frame.collect_schema().items() if isinstance(kind, nw.Enum)}
        return {
            mode.name: tuple(map(as_label, kinds[mode.column].categories)) for mode in modes if mode.column in kinds
        }

    def given(self, file: Path) -> Path:
        """Return `file`: frames have no files."""
        return file

    def find(self, file: str, column: str, texts: set[str]) -> tuple[int, str] | None:
        """Return None: frames have no lines."""
        return None


def _for_duckdb(frame: Any, folder: Path) -> Any:
    """Return a frame that duckdb reads.

    Some frames reach duckdb only through pyarrow. If it is not installed, they are written to a Parquet file.
    """
    import narwhals as nw

    by_arrow = isinstance(frame, nw.LazyFrame) or frame.implementation.is_polars()
    if by_arrow and find_spec("pyarrow") is None:
        file = folder / "frame.parquet"
        native = frame.to_native()
        whole = native.collect() if frame.implementation.is_polars() and isinstance(frame, nw.LazyFrame) else native
        try:
            whole.write_parquet(str(file))
        except Exception as error:  # every library raises its own type
            raise InputError(
                f"source is a {type(native).__name__} that cannot be read without pyarrow: {first_sentence(error)}"
            ) from error
        return file
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_native()


def _with_text_names(frame: Any) -> Any:
    """Return a narwhals frame whose column names are texts; in pandas they may be numbers."""
    import narwhals as nw

    if all(isinstance(name, str) for name in frame.collect_schema().names()):
        return frame
    return nw.from_native(frame.to_native().rename(columns=str))


def _check_columns(
    wanted: Wanted, there: tuple[str, ...], where: str, form: Format | None, owners: Mapping[str, Path] | None = None
) -> None:
    """Raise an InputError if a column that is needed is not there; `owners` are files that have a column."""
    modes = [mode.name for mode in form.modes] if form else []
    needed = [name for name in wanted.within(there).columns() if name not in there]
    # In SQL, capitals in the name of a column make no difference.
    folded = {name.casefold() for name in there}
    asked = [name for name in (wanted.where.columns if wanted.where else ()) if name.casefold() not in folded]
    for name in (*needed, *asked):
        whose = f"{wanted.where.subject}{where}" if wanted.where and name not in needed else where
        if owners and name in owners:
            raise InputError(
                f"{whose} has no column {name!r}, which {owners[name]} has: files that are read together must all "
                f"have the columns that are used; its columns are {listed(there)}"
            )
        near = get_close_matches(name, (*there, *modes), 1, 0.0 if name in needed else 0.6)
        hint = f"the nearest is {near[0]!r}; " if near else "a text must be in single quotes; "
        raise InputError(f"{whose} has no column {name!r}; {hint}its columns are {listed(there)}")

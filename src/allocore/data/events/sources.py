"""Files and data frames as relations of duckdb, whose columns are text: no leading zero is lost on the way in.

Files are read out of core, and those that are laid out alike (same columns, separator, quoting, encoding) in one go.
"""

import csv
import glob
import gzip
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from allocore.data.events.formats import FORMATS, Format, detect
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_COMPRESSED = (".gz", ".zst")
_TEXT = (".csv", ".tsv", ".tab", ".txt")
_JSON = (".json", ".jsonl", ".ndjson")
_SEPARATORS = "\t,;|"
_BOM = "\ufeff"
_LONGEST_LINE = 16777216
_QUOTED_FIELDS = 3


@dataclass(frozen=True)
class Layout:
    """How files are written: `kind` is text, parquet or json; the rest is about text."""

    kind: str
    columns: tuple[str, ...] = ()
    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    has_header: bool = True
    encoding: str = "utf-8"
    types: tuple[str, ...] = ()  # of the columns of parquet: files in which they differ are not read in one go
    lenient: bool = False  # whether lines that are not JSON are read as rows without anything

    @property
    def floats(self) -> frozenset[str]:
        """The columns that are floating-point numbers."""
        return float_columns(self.columns, self.types)

    def scan(self, files: Sequence[Path]) -> str:
        """The SQL that reads files of this layout, every column as text, with the file's name."""
        paths = f"[{', '.join(as_pattern(file) for file in files)}], filename = 'allocore_file'"
        if self.kind == "parquet":
            return f"read_parquet({paths}, hive_partitioning = false)"
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
        if self.kind == "json":
            return (
                f"read_json({paths}, hive_partitioning = false, format = 'newline_delimited', "
                f"columns = {{{columns}}}, ignore_errors = {_sql(self.lenient)})"
            )
        return (
            f"read_csv({paths}, hive_partitioning = false, auto_detect = false, header = {_sql(self.has_header)}, "
            f"delim = {literal(self.separator)}, quote = {literal(self.quote)}, "
            f"escape = {literal(self.escape if self.quote else '')}, "
            f"columns = {{{columns}}}, encoding = {literal(self.encoding)}, "
            f"store_rejects = true, rejects_limit = 0, max_line_size = {_LONGEST_LINE})"
        )


def float_columns(columns: Sequence[str], types: Sequence[str]) -> frozenset[str]:
    """The columns whose type in duckdb is one of floating-point numbers."""
    return frozenset(name for name, kind in zip(columns, types, strict=False) if kind in ("DOUBLE", "FLOAT"))


def _sql(value: bool) -> str:
    return str(value).lower()


def as_pattern(file: Path) -> str:
    """A path in SQL; duckdb takes paths for patterns, so that stars and brackets in a name must be escaped."""
    return literal(glob.escape(str(file)))


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def find_files(source: object) -> list[Path]:
    """The files that a path, a pattern, a folder or a list of them names, in order."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)  # type: ignore[call-overload]
    files: list[Path] = []
    for each in given:
        if not isinstance(each, str | os.PathLike):
            raise InputError(f"source has {each!r} in it, but every entry must be a path")
        files += _matching(str(each))
    if not files:
        raise InputError(f"source is {source!r}, but it names no file")
    for file in files:
        _kind(file)
    return list(dict.fromkeys(files))


def _matching(text: str) -> list[Path]:
    path = Path(text).expanduser()
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not found:
            raise InputError(f"source is {text!r}, but that folder has no files")
        return found
    if path.exists():
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
    if not found:
        what = "no file matches that pattern" if glob.has_magic(text) else "no such file exists"
        raise InputError(f"source is {text!r}, but {what}")
    return found


def _kind(file: Path) -> str:
    name = file.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith(_TEXT):
        return "text"
    if name.endswith(_JSON):
        return "json"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    raise InputError(
        f"{file} has an unknown suffix; it must be one of {', '.join((*_TEXT, *_JSON, '.parquet'))}, "
        f"perhaps with .gz or .zst"
    )


def layout_of(
    connection: "duckdb.DuckDBPyConnection", file: Path, wanted: str, lenient: bool = False
) -> tuple[Layout, Format | None]:
    """How a file is written, by its first lines, and its format: the `wanted` one, or with "auto" what it is like."""
    kind = _kind(file)
    if kind == "text":
        return _text_layout(_first_lines(connection, file), file, wanted)
    if kind == "parquet":
        described = _described(connection, file, f"read_parquet({as_pattern(file)}, hive_partitioning = false)")
        layout = Layout("parquet", tuple(described), types=tuple(described.values()))
    else:
        scan = (
            f"read_json({as_pattern(file)}, hive_partitioning = false, format = 'newline_delimited', "
            f"sample_size = 2000, ignore_errors = {_sql(lenient)})"
        )
        layout = Layout("json", tuple(_described(connection, file, scan)), lenient=lenient)
        if layout.columns == ("json",):
            raise InputError(f"{file} is empty or not JSON lines: one object a line")
    return layout, _format(wanted, layout.columns)


def _format(wanted: str, columns: tuple[str, ...]) -> Format | None:
    return detect(columns) if wanted == "auto" else FORMATS.get(wanted)


def _described(connection: "duckdb.DuckDBPyConnection", file: Path, scan: str) -> dict[str, str]:
    """The columns of a file with their types."""
    import duckdb

    try:
        return {row[0]: str(row[1]) for row in connection.sql(f"DESCRIBE SELECT * FROM {scan}").fetchall()}
    except duckdb.Error as error:
        raise unreadable([file], error) from error


def unreadable(files: Sequence[Path], error: Exception) -> InputError:
    """The error for a file that duckdb cannot read, with the line if it is one of JSON."""
    for file in files:
        line = _line_not_json(file) if "JSON" in str(error) and _kind(file) == "json" else None
        if line is not None:
            return InputError(f"{file}, line {line}: that is not an object of JSON; on_error='drop' drops such lines")
    where = f"{files[0]} " if len(files) == 1 else "source "
    return InputError(f"{where}cannot be read: {first_sentence(error)}")


def _line_not_json(file: Path) -> int | None:
    """The first line that is not JSON: duckdb may name the one after it."""
    if file.suffix.lower() == ".zst":
        return None
    with open_text(file, "utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    json.loads(line)
            except ValueError:
                return number
    return None


def open_text(file: Path, encoding: str, errors: str = "replace") -> IO[str]:
    """A text file, compressed by gzip or not."""
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding=encoding, errors=errors, newline="")
    return file.open(encoding=encoding, errors=errors, newline="")


def _first_lines(connection: "duckdb.DuckDBPyConnection", file: Path) -> list[str]:
    """The first lines of a text file, two at most, compressed or not, in whatever encoding."""
    for encoding in ("utf-8", "latin-1"):
        try:
            lines = _zst_lines(connection, file) if file.suffix.lower() == ".zst" else _lines(file, encoding)
        except UnicodeDecodeError:
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable([file], error) from error
        if lines and "\0" in lines[0]:
            raise InputError(f"{file} is not text in UTF-8 or Latin-1: save it as UTF-8")
        if lines and lines[0]:
            return lines
        break
    raise InputError(f"{file} is empty, or its first line is: it must hold a table of events")


def _lines(file: Path, encoding: str) -> list[str]:
    with open_text(file, encoding, errors="strict") as text:
        lines = [text.readline(_LONGEST_LINE).rstrip("\r\n") for _ in range(2)]
    return [line.removeprefix(_BOM) for line in lines]


def _zst_lines(connection: "duckdb.DuckDBPyConnection", file: Path) -> list[str]:
    import duckdb

    scan = (
        f"read_csv({as_pattern(file)}, hive_partitioning = false, auto_detect = false, header = false, "
        f"delim = '\x01', quote = '', escape = '', columns = {{'line': 'VARCHAR'}}, encoding = 'latin-1', "
        f"max_line_size = {_LONGEST_LINE}, parallel = false)"
    )
    try:
        rows = connection.sql(f"SELECT line FROM {scan} LIMIT 2").fetchall()
    except duckdb.Error as error:
        raise unreadable([file], error) from error
    lines = [str(line or "").encode("latin-1") for (line,) in rows]
    return [line.decode("utf-8", errors="replace").removeprefix(_BOM) for line in lines]


def _text_layout(lines: list[str], file: Path, wanted: str) -> tuple[Layout, Format | None]:
    line = lines[0]
    separator = "\t" if "\t" in line else max(_SEPARATORS, key=line.count)
    plain = tuple(line.split(separator))
    found = _format(wanted, plain)
    if found is not None and found.columns and not found.marks <= set(plain) and not _is_quoted(line, separator):
        if len(plain) not in found.columns:
            numbers = " or ".join(str(number) for number in found.columns)
            raise InputError(f"{file} has {len(plain)} columns in its first line, but {found.name} has {numbers}")
        quote = "" if separator == "\t" else '"'
        return Layout("text", found.columns[len(plain)], separator, quote, has_header=False), found
    fields = tuple(part.strip() for part in next(csv.reader([line], delimiter=separator)))
    found = _format(wanted, fields)
    quote, escape = _quoting(lines, separator, found)
    return Layout("text", _unique(fields), separator, quote, escape), found


def _is_quoted(line: str, separator: str) -> bool:
    """Whether a line has fields, several of them, between quotes."""
    fields = [part for part in line.split(separator) if len(part) > 1 and part[0] == part[-1] == '"']
    return len(fields) >= _QUOTED_FIELDS


def _quoting(lines: list[str], separator: str, found: Format | None) -> tuple[str, str]:
    """The quote and what escapes it, in a file with a header.

    ICEWS and GDELT release tables without quoting, where quotes are part of a text. When the Dataverse takes one in
    it puts texts between quotes, but not the header, and a backslash before the quotes in them.
    """
    if found is None or found.quoted or separator != "\t" or _is_quoted(lines[0], separator):
        return '"', '"'
    return ('"', "\\") if len(lines) > 1 and _is_quoted(lines[1], separator) else ("", "")


def _unique(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns; one that comes twice, whatever its capitals, gets a number, an empty one its place."""
    names: list[str] = []
    taken: set[str] = set()
    for place, part in enumerate(fields):
        name = part or f"column_{place + 1}"
        number, free = 1, name
        while free.casefold() in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free.casefold())
        names.append(free)
    return tuple(names)


def first_sentence(error: Exception) -> str:
    """What duckdb says, without the advice that follows."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def in_latin_1(layout: Layout) -> Layout:
    """The same layout for files that are not UTF-8."""
    return replace(layout, encoding="latin-1")


def is_files(source: object) -> bool:
    """Whether a source is a path, or a list of paths."""
    return isinstance(source, str | os.PathLike | list | tuple | set)

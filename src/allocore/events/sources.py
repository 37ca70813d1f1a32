"""The files that a source names, how each file is written, and the SQL that reads it.

All columns are read as text, so no leading zero is lost. Files are read out of core. Files of the same dialect (same
columns, separator and quoting) are read together.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from allocore._text import first_few
from allocore.errors import NO_VALUE, Described, InputError
from allocore.events.formats import FORMATS, Format, detect
from allocore.events.lines import LONGEST_LINE, decoded, is_cut_off, open_lines
from allocore.tensor.sql import as_pattern, first_sentence, literal

if TYPE_CHECKING:
    import duckdb

COLUMNS_SHOWN = 30  # in an error
_COMPRESSED = (".gz", ".zst")
_TEXT = (".csv", ".tsv", ".tab", ".txt")
_JSON = (".json", ".jsonl", ".ndjson")
_SEPARATORS = "\t,;|"
_BOM = "\ufeff"
_QUOTED_FIELDS = 3
_SAMPLED = 2000  # lines of JSON whose keys are the columns
_ABOUT = ("readme", "license", "licence", "copying", "changelog", "codebook")  # texts that are not tables


def is_files(source: object) -> bool:
    """Return whether a source is a path, or a list of paths."""
    return isinstance(source, str | os.PathLike | list | tuple | set)


@dataclass
class Sources:
    """The files to read, in order, and the other entries of their folders."""

    files: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)


def find_files(source: object) -> Sources:
    """Return the files that a source names: a path, a pattern, a folder, or a list of these."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)  # type: ignore[call-overload]
    found = Sources()
    for each in given:
        if not isinstance(each, str | os.PathLike):
            entry = repr(each) if isinstance(each, bool | int | float | bytes | None) else f"a {type(each).__name__}"
            raise InputError("source", Described(f"a list with {entry} in it"), "must have only paths as entries")
        try:
            path = Path(each).expanduser()
            if path.is_dir() and str(each):  # an empty text is not a path, though pathlib reads it as "."
                _look_into(path, found)
            else:
                found.files += _matching(path, str(each))
        except (OSError, RuntimeError, re.error) as error:  # no permission, or ~ of an unknown user
            raise InputError("source", str(each), f"cannot be looked up: {error}") from None
    if not found.files:
        raise InputError("source", source, "must name at least one file")
    for file in found.files:
        _kind(file)
    found.files = list({path.resolve(): path for path in reversed(found.files)}.values())[::-1]  # each file once
    found.skipped = [path for path in dict.fromkeys(found.skipped) if path not in found.files]
    return found


def _look_into(folder: Path, found: Sources) -> None:
    """Add the tables in a folder; all other entries, and the folders in it, are skipped."""
    entries = sorted(folder.iterdir())
    tables = [path for path in entries if path.is_file() and _may_be_table(path)]
    if not tables:
        others = f"only {first_few([path.name for path in entries], COLUMNS_SHOWN)}" if entries else "it is empty"
        raise InputError("source", str(folder), f"must be a folder with tables: {others}")
    found.files += tables
    found.skipped += [path for path in entries if path not in tables]


def _may_be_table(file: Path) -> bool:
    name = file.name.lower()
    is_about = name.endswith((".txt", ".txt.gz")) and name.startswith(_ABOUT)
    return not name.startswith(".") and not is_about and _kind_by_name(name) is not None


def _matching(path: Path, text: str) -> list[Path]:
    if path.is_file():
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
    if not found:
        rule = "must match a file" if glob.has_magic(text) else "must be a file or folder that exists"
        if path.exists() and not path.is_dir():
            rule = "must be a file, not a pipe or a device"
        raise InputError("source", text, rule)
    return found


def _kind_by_name(name: str) -> str | None:
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith(_TEXT):
        return "text"
    if name.endswith(_JSON):
        return "json"
    return "parquet" if name.endswith((".parquet", ".pq")) else None


def _kind(file: Path) -> str:
    kind = _kind_by_name(file.name.lower())
    if kind is None:
        suffixes = ", ".join((*_TEXT, *_JSON, ".parquet"))
        raise InputError("source", str(file), f"must end in one of {suffixes}, which .gz or .zst may follow")
    return kind


@dataclass(frozen=True)
class FileDialect:
    """How files are written: `kind` is text, parquet or json; separator, quote, escape and header are about text."""

    kind: str
    columns: tuple[str, ...] = ()
    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    has_header: bool = True
    types: tuple[str, ...] = ()  # of Parquet columns: files with different types are not read together
    lenient: bool = False  # whether lines that are not JSON are read and marked instead of refused

    @property
    def column_types(self) -> tuple[str, ...]:
        """The types of the columns in SQL."""
        return self.types or ("VARCHAR",) * len(self.columns)

    @property
    def is_row(self) -> str:
        """SQL that says whether what was scanned is a row."""
        return "source.allocore_row" if self.kind == "json" and self.lenient else "true"

    def scan(self, files: Sequence[Path]) -> str:
        """Return the SQL that reads files of this dialect: every column as text, and the name of the file."""
        paths = f"[{', '.join(as_pattern(file) for file in files)}], filename = 'allocore_file'"
        if self.kind == "parquet":
            return f"read_parquet({paths}, hive_partitioning = false)"
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
        if self.kind == "json" and self.lenient:
            return self._scan_lines(paths)
        if self.kind == "json":
            return (
                f"read_json({paths}, hive_partitioning = false, format = 'newline_delimited', columns = {{{columns}}})"
            )
        return (
            f"read_csv({paths}, hive_partitioning = false, auto_detect = false, "
            f"header = {str(self.has_header).lower()}, delim = {literal(self.separator)}, "
            f"quote = {literal(self.quote)}, "
            f"escape = {literal(self.escape if self.quote else '')}, "
            f"columns = {{{columns}}}, "
            f"store_rejects = true, rejects_limit = 0, max_line_size = {LONGEST_LINE})"
        )

    def _scan_lines(self, paths: str) -> str:
        """Return the SQL that reads lines and marks those that are JSON; read_json would fail at the others."""
        types = json.dumps(dict.fromkeys(self.columns, "VARCHAR"), ensure_ascii=False)
        lines = f"read_ndjson_objects({paths}, hive_partitioning = false, ignore_errors = true)"
        return (
            f"(SELECT unnest(from_json(line.json, {literal(types)})), line.allocore_file, "
            f"json_type(line.json) IN ('OBJECT', 'NULL') IS TRUE AS allocore_row FROM {lines} AS line)"
        )


def dialect_of(
    connection: duckdb.DuckDBPyConnection, file: Path, wanted: str, lenient: bool = False
) -> tuple[FileDialect, Format | None]:
    """Return how a file is written, and its format: the `wanted` one, or with "auto" the one that is recognised."""
    kind = _kind(file)
    if file.suffix.lower() == ".zst" and is_cut_off(file):  # duckdb would read it as if it were whole
        raise InputError("source", str(file), "is cut off: the end of the compressed data is missing")
    if kind == "text":
        return _text_dialect(_first_lines(file), file, wanted)
    if kind == "parquet":
        dialect = _parquet_dialect(connection, file)
    else:
        dialect = FileDialect("json", _keys(connection, file), lenient=lenient)
    return dialect, _format(wanted, dialect.columns)


def _format(wanted: str, columns: tuple[str, ...]) -> Format | None:
    return detect(columns) if wanted == "auto" else FORMATS.get(wanted)


def _parquet_dialect(connection: duckdb.DuckDBPyConnection, file: Path) -> FileDialect:
    import duckdb

    query = f"DESCRIBE SELECT * FROM read_parquet({as_pattern(file)}, hive_partitioning = false)"
    try:
        described = connection.sql(query).fetchall()
    except duckdb.Error as error:
        raise unreadable([file], error) from error
    return FileDialect("parquet", tuple(row[0] for row in described), types=tuple(str(row[1]) for row in described))


def _keys(connection: duckdb.DuckDBPyConnection, file: Path) -> tuple[str, ...]:
    """Return the keys of the first objects in a file of JSON lines.

    Of keys that differ only in upper and lower case, the first is returned.
    """
    import duckdb

    lines = f"read_ndjson_objects({as_pattern(file)}, hive_partitioning = false, ignore_errors = true)"
    try:
        rows = connection.sql(
            f"SELECT json_keys(json) FROM {lines} WHERE json_type(json) = 'OBJECT' LIMIT {_SAMPLED}"
        ).fetchall()
    except duckdb.Error as error:
        raise unreadable([file], error) from error
    names: dict[str, str] = {}
    for (keys,) in rows:
        for key in keys:
            names.setdefault(key.casefold(), key)
    if not names:
        raise InputError("source", str(file), "must have one JSON object per line")
    return tuple(names.values())


def unreadable(files: Sequence[Path], error: Exception) -> InputError:
    """Return the error for files that duckdb cannot read; for JSON it names the line."""
    for file in files:
        line = _line_not_json(file) if "JSON" in str(error) and _kind(file) == "json" else None
        if line is not None:
            return bad_line(str(file), line, "this is not a JSON object")
    named = [str(file) for file in files if len(files) == 1 or str(file) in str(error)]
    return InputError("source", max(named, key=len, default=NO_VALUE), f"cannot be read: {first_sentence(error)}")


def bad_line(file: str, line: int, problem: str) -> InputError:
    """Return the error for a line of a file that is not a row, or has a text that cannot be read."""
    return InputError(
        "source", file, f"cannot be read at line {line}: {problem}; set `on_error` to 'drop' to drop such lines"
    )


def _line_not_json(file: Path) -> int | None:
    """Return the number of the first line that is not a JSON object: duckdb may name the line after it."""
    with open_lines(file, "utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip() and not _is_object(line):
                return number
    return None


def _is_object(line: str) -> bool:
    try:
        line.encode()  # bytes that are not UTF-8 are not JSON either
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return value is None or isinstance(value, dict)


def _first_lines(file: Path) -> list[str]:
    """Return the first two lines of a text file, compressed or not, in any encoding."""
    import duckdb

    try:
        with open_lines(file, "latin-1") as text:
            lines = [decoded(line.rstrip("\r\n")).removeprefix(_BOM) for line in islice(text, 2)]
    except (OSError, EOFError, zlib.error, duckdb.Error) as error:
        raise unreadable([file], error) from error
    if lines and "\0" in lines[0]:
        raise InputError("source", str(file), "must be text in UTF-8 or Latin-1")
    if not lines or not lines[0]:
        raise InputError("source", str(file), "must be a table of events: the file or its first line is empty")
    return lines


def _text_dialect(lines: list[str], file: Path, wanted: str) -> tuple[FileDialect, Format | None]:
    line = lines[0]
    separator = "\t" if "\t" in line else max(_SEPARATORS, key=line.count)
    plain = tuple(line.split(separator))
    found = _format(wanted, plain)
    if found is not None and found.columns and not found.marks <= set(plain) and not _is_quoted(line, separator):
        if len(plain) not in found.columns:
            numbers = " or ".join(str(number) for number in found.columns)
            rule = f"must have {numbers} columns as in {found.name}, not {len(plain)} as in its first line"
            raise InputError("source", str(file), rule)
        quote = "" if separator == "\t" else '"'
        return FileDialect("text", found.columns[len(plain)], separator, quote, has_header=False), found
    try:
        fields = tuple(part.strip() for part in next(csv.reader([line], delimiter=separator)))
    except csv.Error as error:
        raise InputError("source", str(file), f"must have the names of the columns in line 1: {error}") from None
    found = _format(wanted, fields)
    quote, escape = _quoting(lines, separator, found)
    return FileDialect("text", _unique(fields), separator, quote, escape), found


def _is_quoted(line: str, separator: str) -> bool:
    """Return whether several fields of a line are between quotes."""
    fields = [part for part in line.split(separator) if len(part) > 1 and part[0] == part[-1] == '"']
    return len(fields) >= _QUOTED_FIELDS


def _quoting(lines: list[str], separator: str, found: Format | None) -> tuple[str, str]:
    """Return the quote and its escape in a file with a header.

    ICEWS and GDELT release tables without quoting, in which quotes are part of a text. The Dataverse changes tables
    that are uploaded to it: it puts texts, but not the header, between quotes, and a backslash before quotes in a text.
    """
    if found is None or found.quoted or separator != "\t" or _is_quoted(lines[0], separator):
        return '"', '"'
    return ('"', "\\") if len(lines) > 1 and _is_quoted(lines[1], separator) else ("", "")


def _unique(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct names of columns: a repeated name, in any case, gets a number, and an empty name its place."""
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

"""The files that a source names, how each file is written, the SQL that reads it, and an account of its lines.

All columns are read as text, so no leading zero is lost. Files of the same dialect are read together.

duckdb returns the lines of zstd files (Python reads these only from 3.14 on), but reads a file that is cut off as if it
were complete. To notice that, the headers of frames and blocks are followed to the end (RFC 8878, section 3.1).

A record is one line, or several if line ends are between quotes. In most tables, the number of lines says how many rows
there must be. Only if duckdb found another number are the records read line by line. A quote that is never closed, or
only after lines that are rows themselves, is a stray one: it would swallow these rows.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import duckdb
import numpy as np
from duckdb import DuckDBPyConnection as Connection

from allocore._io import path_of
from allocore._text import first_few
from allocore.errors import NO_VALUE, Described, InputError
from allocore.events.formats import Format, find_format
from allocore.tensor.sql import as_pattern, connect, fetched, first_sentence, literal

COMPRESSED = (".gz", ".zst")
COLUMNS_SHOWN = 30  # in an error
_KINDS = {
    "text": (".csv", ".tsv", ".tab", ".txt"),
    "json": (".json", ".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
}
_ABOUT = ("readme", "license", "licence", "copying", "changelog", "codebook")  # texts that are not tables
_SEPARATORS = "\t,;|"
_BOM = "\ufeff"
_QUOTED_FIELDS = 3
_SAMPLED = 2000  # lines of JSON whose keys are the columns
_LONGEST_LINE = 16777216
_LINES_COMPARED = 200  # with the first line, to see whether it is a header
_DATE_TEXT = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2}.*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}.*", re.DOTALL)
_NUMBER, _YEAR = re.compile(r"[-+]?\d+([.,]\d+)?"), re.compile(r"(1[5-9]|20)\d\d")
_FRAME, _SKIPPABLE = 0xFD2FB528, 0x184D2A5  # magic numbers; a skippable frame has any last four bits
_LINES_AT_ONCE = 10_000
_BYTES_AT_ONCE = 1 << 20
# Prose between quotes may have as many separators as the table, but hardly in several lines, or in a wide table.
_WIDE, _SEVERAL = 4, 4


def find_files(source: object) -> tuple[list[Path], list[Path]]:
    """Return the files that a source names (a data frame: none), and the entries of its folders that are not tables."""
    if not isinstance(source, str | os.PathLike | list | tuple | set):
        return [], []
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    files: list[Path] = []
    skipped: list[Path] = []
    for each in given:
        if not isinstance(each, str | os.PathLike):
            entry = repr(each) if isinstance(each, bool | int | float | bytes | None) else f"a {type(each).__name__}"
            raise InputError("source", Described(f"a list with {entry} in it"), "must have only paths as entries")
        path = path_of(each or ".", "source")
        try:
            if path.is_dir() and str(each):  # an empty text is not a path, though pathlib reads it as "."
                tables = _tables_in(path)
                skipped += [entry for entry in sorted(path.iterdir()) if entry not in tables]
                files += tables
            else:
                files += _matching(path, str(each))
        except (OSError, re.error) as error:  # no permission
            raise InputError("source", str(each), f"cannot be looked up: {error}") from None
    if not files:
        raise InputError("source", source, "must name at least one file")
    for file in files:
        if _kind(file) is None:
            endings = ", ".join(ending for endings in _KINDS.values() for ending in endings)
            raise InputError("source", str(file), f"must end in one of {endings}, which .gz or .zst may follow")
    files = list({path.resolve(): path for path in reversed(files)}.values())[::-1]  # each file once
    return files, [path for path in dict.fromkeys(skipped) if path not in files]


def _tables_in(folder: Path) -> list[Path]:
    entries = sorted(folder.iterdir())
    names = {path: path.name.lower() for path in entries if path.is_file() and _kind(path)}
    about = [path for path in names if names[path].endswith((".txt", ".txt.gz")) and names[path].startswith(_ABOUT)]
    tables = [path for path in names if not names[path].startswith(".") and path not in about]
    if not tables:
        others = f"only {first_few([path.name for path in entries], COLUMNS_SHOWN)}" if entries else "it is empty"
        raise InputError("source", str(folder), f"must be a folder with tables: {others}")
    return tables


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


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return next((kind for kind, endings in _KINDS.items() if name.endswith(endings)), None)


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
    lenient: bool = False  # whether lines that are not JSON are read, with `allocore_row` false, instead of refused

    def scan(self, files: Sequence[Path]) -> str:
        """Return the SQL that reads files of this dialect: every column as text, and the name of the file."""
        patterns = ", ".join(as_pattern(file) for file in files)
        source = f"[{patterns}], filename = 'allocore_file', hive_partitioning = false"
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
        if self.kind == "parquet":
            return f"read_parquet({source})"
        if self.lenient:  # read_json would fail at lines that are not JSON
            types = json.dumps(dict.fromkeys(self.columns, "VARCHAR"), ensure_ascii=False)
            return (
                f"(SELECT unnest(from_json(line.json, {literal(types)})), line.allocore_file, "
                "json_type(line.json) IN ('OBJECT', 'NULL') IS TRUE AS allocore_row "
                f"FROM read_ndjson_objects({source}, ignore_errors = true) AS line)"
            )
        if self.kind == "json":
            return f"read_json({source}, format = 'newline_delimited', columns = {{{columns}}})"
        return (
            f"read_csv({source}, auto_detect = false, header = {str(self.has_header).lower()}, "
            f"delim = {literal(self.separator)}, quote = {literal(self.quote)}, "
            f"escape = {literal(self.escape if self.quote else '')}, columns = {{{columns}}}, "
            f"store_rejects = true, rejects_limit = 0, max_line_size = {_LONGEST_LINE})"
        )


def dialect_of(
    connection: Connection, file: Path, wanted: str, header: bool = True, lenient: bool = False
) -> tuple[FileDialect, Format | None, tuple[str, ...]]:
    """Return how a file is written, and its format: the `wanted` one, or with "auto" the one that is recognised.

    Third, the fields of the first line if they were taken for the names of columns, but look like data.
    """
    if file.suffix.lower() == ".zst" and is_cut_off(file):  # duckdb would read it as if it were complete
        raise InputError("source", str(file), "is cut off: the end of the compressed data is missing")
    kind = _kind(file)
    if kind == "text":
        return _text_dialect(_first_lines(file), file, wanted, header)
    if not header:
        raise InputError("header", False, f"applies only to tables in text, such as CSV, and {file} is not one")
    if kind == "parquet":
        query = f"DESCRIBE SELECT * FROM read_parquet({as_pattern(file)}, hive_partitioning = false)"
        described = _rows_of(connection, file, query)
        columns, types = tuple(row[0] for row in described), tuple(str(row[1]) for row in described)
        return FileDialect("parquet", columns, types=types), find_format(wanted, columns), ()
    columns = _json_keys(connection, file)
    return FileDialect("json", columns, lenient=lenient), find_format(wanted, columns), ()


def _json_keys(connection: Connection, file: Path) -> tuple[str, ...]:
    """Return the keys of the first objects in a file; of keys that differ only in upper and lower case, the first."""
    lines = f"read_ndjson_objects({as_pattern(file)}, hive_partitioning = false, ignore_errors = true)"
    query = f"SELECT json_keys(json) FROM {lines} WHERE json_type(json) = 'OBJECT' LIMIT {_SAMPLED}"
    names: dict[str, str] = {}
    for (keys,) in _rows_of(connection, file, query):
        for key in keys:
            names.setdefault(key.casefold(), key)
    if not names:
        raise InputError("source", str(file), "must have one JSON object per line")
    return tuple(names.values())


def _rows_of(connection: Connection, file: Path, query: str) -> list[Any]:
    try:
        return connection.sql(query).fetchall()
    except duckdb.Error as error:
        raise unreadable([file], error) from error


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
    # duckdb may name the line after it.
    with open_lines(file, "utf-8", errors="surrogateescape") as lines:
        return next((number for number, line in enumerate(lines, 1) if line.strip() and not _is_object(line)), None)


def _is_object(line: str) -> bool:
    try:
        line.encode()  # bytes that are not UTF-8 are not JSON either
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return value is None or isinstance(value, dict)


def _first_lines(file: Path) -> list[str]:
    try:
        with open_lines(file, "latin-1") as text:
            lines = [decoded(line).removeprefix(_BOM) for line in islice(text, 2)]
            with suppress(OSError, EOFError, zlib.error):  # which reading the file reports
                for line in islice(text, _LINES_COMPARED):
                    lines.append(decoded(line))
                    if sum(map(len, lines)) > _BYTES_AT_ONCE:
                        break
    except (OSError, EOFError, zlib.error, duckdb.Error) as error:
        raise unreadable([file], error) from error
    if lines and "\0" in lines[0]:
        raise InputError("source", str(file), "must be text in UTF-8 or Latin-1")
    if not lines or not lines[0]:
        raise InputError("source", str(file), "must be a table of events: the file or its first line is empty")
    return lines


def _text_dialect(
    lines: list[str], file: Path, wanted: str, header: bool
) -> tuple[FileDialect, Format | None, tuple[str, ...]]:
    line = lines[0]
    separator = "\t" if "\t" in line else max(_SEPARATORS, key=line.count)
    plain = tuple(line.split(separator))
    found = find_format(wanted, plain)
    if found is not None and found.columns and not found.marks <= set(plain) and not _is_quoted(line, separator):
        if len(plain) not in found.columns:
            numbers = " or ".join(str(number) for number in found.columns)
            rule = f"must have {numbers} columns as in {found.name}, not {len(plain)} as in its first line"
            raise InputError("source", str(file), rule)
        quote = "" if separator == "\t" else '"'
        return FileDialect("text", found.columns[len(plain)], separator, quote, has_header=False), found, ()
    try:
        fields = tuple(part.strip() for part in next(csv.reader([line], delimiter=separator)))
    except csv.Error as error:
        raise InputError("source", str(file), f"must have the names of the columns in line 1: {error}") from None
    if not header:
        fields = ("",) * len(fields)
    found = find_format(wanted, fields)
    quote, escape = _quoting(lines, separator, found)
    as_data = fields if header and found is None and _is_data(fields, lines[1:], separator) else ()
    return FileDialect("text", _unique(fields), separator, quote, escape, header), found, as_data


def _is_data(fields: tuple[str, ...], lines: list[str], separator: str) -> bool:
    """Return whether the fields of a first line look like those below: dates, numbers, or texts that occur again."""
    rows: list[list[str]] = []
    for line in lines:
        with suppress(csv.Error):
            rows += [[part.strip() for part in row] for row in csv.reader([line], delimiter=separator)]
    rows = [row for row in rows if len(row) == len(fields) and tuple(row) != fields]  # a header may be repeated
    counting_up = _count_up(fields)
    alike = again = 0
    for field, *column in zip(fields, *rows, strict=True):
        known = [text for text in column if text]
        for pattern in (_DATE_TEXT, _NUMBER):
            if known and all(pattern.fullmatch(text) for text in known):
                if field and not pattern.fullmatch(field):
                    return False  # a name above dates or numbers
                alike += bool(field) and not (pattern is _NUMBER and (counting_up or _YEAR.fullmatch(field)))
                break
        again += field in known and field != ""
    return alike > 0 or again >= min(2, len(fields))


def _count_up(fields: tuple[str, ...]) -> bool:
    """Return whether the numbers among names of columns count up, as 0, 1, 2 and 2018, 2019 do: then they are names."""
    numbers = [int(field) for field in fields if field.isdecimal()]
    return len(numbers) > 1 and all(b - a == 1 for a, b in pairwise(numbers))


def _is_quoted(line: str, separator: str) -> bool:
    fields = [part for part in line.split(separator) if len(part) > 1 and part[0] == part[-1] == '"']
    return len(fields) >= _QUOTED_FIELDS


def _quoting(lines: list[str], separator: str, found: Format | None) -> tuple[str, str]:
    # ICEWS and GDELT tables are not quoted. The Dataverse changes uploaded tables: it puts texts, but not the header,
    # between quotes, and a backslash before quotes in a text.
    if found is None or found.quoted or separator != "\t" or _is_quoted(lines[0], separator):
        return '"', '"'
    return ('"', "\\") if len(lines) > 1 and _is_quoted(lines[1], separator) else ("", "")


def _unique(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct names of columns: a repeated name, in any case, gets a number, and an empty name its place."""
    names: dict[str, str] = {}
    for place, part in enumerate(fields, 1):
        name = unused = part or f"column_{place}"
        number = 1
        while unused.casefold() in names:
            number += 1
            unused = f"{name}_{number}"
        names[unused.casefold()] = unused
    return tuple(names.values())


@contextmanager
def open_lines(file: Path, encoding: str, errors: str = "replace") -> Iterator[Iterator[str]]:
    """Yield the lines of a text file; those of a zstd file come without their line ends."""
    if file.suffix.lower() == ".zst":
        yield (line.encode("latin-1").decode(encoding, errors) for lines in _zst_batches(file) for line in lines)
        return
    opened = gzip.open if file.suffix.lower() == ".gz" else open
    with _damage_named(file), opened(file, "rt", encoding=encoding, errors=errors, newline="") as lines:
        yield iter(lambda: lines.readline(_LONGEST_LINE), "")


@contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Turn errors in compressed data into an InputError; duckdb does not check the checksums of gzip files."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError("source", str(file), f"cannot be read: the compressed data are damaged: {error}") from error


def _zst_batches(file: Path) -> Iterator[list[str]]:
    # In Latin-1, every byte is a character.
    query = (
        f"SELECT coalesce(line, '') FROM read_csv({as_pattern(file)}, hive_partitioning = false, auto_detect = false, "
        f"header = false, delim = '\x01', quote = '', escape = '', columns = {{'line': 'VARCHAR'}}, "
        f"encoding = 'latin-1', max_line_size = {_LONGEST_LINE}, parallel = false, strict_mode = false)"
    )
    with connect([file]) as connection:
        result = connection.execute(query)
        while rows := result.fetchmany(_LINES_AT_ONCE):
            yield [line for (line,) in rows]


def is_cut_off(file: Path) -> bool:
    """Return whether a compressed file ends too early. A gzip file must be read to its end to know."""
    suffix = file.suffix.lower()
    if suffix == ".zst":
        return _zst_is_cut_off(file)
    if suffix == ".gz":
        try:
            with gzip.open(file) as content:
                while content.read(_LONGEST_LINE):
                    pass
        except EOFError:
            return True
        except (OSError, zlib.error):
            return False
    return False


def _zst_is_cut_off(file: Path) -> bool:
    size = file.stat().st_size
    with file.open("rb") as content:
        while content.tell() < size:
            magic = int.from_bytes(content.read(4), "little")
            if magic >> 4 == _SKIPPABLE:
                length = content.read(4)
                content.seek(int.from_bytes(length, "little") + 4 - len(length), 1)
            elif magic == _FRAME:
                _skip_frame(content)
            else:
                return size - content.tell() == 0  # otherwise it is not zstd at all, and duckdb says so
        return content.tell() > size


def _skip_frame(content: IO[bytes]) -> None:
    """Go to the end of a frame; if the file is cut off, that lies beyond the end of the file."""
    flags = int.from_bytes(content.read(1), "little")
    single_segment = flags >> 5 & 1
    content_size = (single_segment, 2, 4, 8)[flags >> 6]
    dictionary_id = (0, 1, 2, 4)[flags & 3]
    window = 1 - single_segment
    content.seek(window + dictionary_id + content_size, 1)
    is_last = 0
    while not is_last:
        header = content.read(3)
        if len(header) < 3:
            content.seek(1, 2)
            return
        block = int.from_bytes(header, "little")
        is_one_repeated_byte = block >> 1 & 3 == 1
        content.seek(1 if is_one_repeated_byte else block >> 3, 1)
        is_last = block & 1
    checksum = 4 if flags >> 2 & 1 else 0
    content.seek(checksum, 1)


def decoded(line: str) -> str:
    """Return a line that was read as Latin-1, without its end, as UTF-8, or else as Windows' version of Latin-1."""
    content = line.rstrip("\r\n").encode("latin-1")
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return content.decode("latin-1")


def lines_before_the_cut(file: Path) -> Iterator[str]:
    """Yield all lines but the last of a file that is cut off, without their ends."""
    yield from (line.rstrip("\r\n") for line, _ in pairwise(_lines_and_cut(file)))


def _lines_and_cut(file: Path) -> Iterator[str]:
    try:
        with open_lines(file, "latin-1") as lines:
            yield from lines
    except EOFError:
        yield ""  # in place of the line that is cut off, which Python does not return


def count_lines(file: Path) -> int:
    """Return the number of lines that are not empty; they may end as on Unix, on Windows or on an old Mac."""
    lines, in_line = 0, False
    for chunk in _chunks(file):
        content = np.frombuffer(chunk, dtype=np.uint8)
        ends = (content == ord("\n")) | (content == ord("\r")) if b"\r" in chunk else content == ord("\n")
        lines += int(np.count_nonzero(ends[1:] > ends[:-1])) + int(in_line and ends[0])
        in_line = not ends[-1]
    return lines + in_line


def _chunks(file: Path) -> Iterator[bytes]:
    if file.suffix.lower() == ".zst":
        for lines in _zst_batches(file):
            yield "".join(f"{line}\n" for line in lines).encode("latin-1")
        return
    with _damage_named(file), gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
        while chunk := content.read(_BYTES_AT_ONCE):
            yield chunk


class TextRecord(NamedTuple):
    """One row of a table. If its first line has a problem, the record has only that; the others are records again."""

    number: int
    lines: list[str]
    problem: str | None = None


def split_records(lines: Iterator[str], dialect: FileDialect) -> Iterator[TextRecord]:
    """Yield the records of a table, the header included. Lines that are empty are left out."""
    numbered = _whole_lines(lines)
    ahead: deque[tuple[int, str]] = deque()
    while here := ahead.popleft() if ahead else next(numbered, None):
        number, line = here
        if len(line) > _LONGEST_LINE:
            yield TextRecord(number, [line], f"the line is longer than {_LONGEST_LINE:,} bytes")
            continue
        taken, problem = [line], None
        if dialect.quote and dialect.quote in line:
            problem = _close_quotes(taken, ahead, numbered, dialect) or _swallowed(taken, number, dialect)
        if problem is None:
            for _ in taken[1:]:
                ahead.popleft()
        yield TextRecord(number, taken if problem is None else [line], problem)


def _whole_lines(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield numbers and lines without their ends. Of a line that is too long, a part that is too long is enough."""
    number, pending = 0, ""
    for piece in lines:
        line = pending + piece
        is_whole = piece.endswith(("\n", "\r")) or len(piece) < _LONGEST_LINE
        pending = "" if is_whole else line[: _LONGEST_LINE + 1]
        if not is_whole:
            continue
        number += 1
        if line.strip("\r\n"):
            yield number, line.rstrip("\r\n")
    if pending:
        yield number + 1, pending


def _close_quotes(
    taken: list[str], ahead: deque[tuple[int, str]], numbered: Iterator[tuple[int, str]], dialect: FileDialect
) -> str | None:
    """Add lines to a record until its quotes are closed; they stay ahead until it is known that they belong to it."""
    inside, size = False, 0
    while True:
        inside, broken = _scan(taken[-1], inside, dialect)
        if broken:
            return "there is text after a closing quote"
        if not inside:
            return None
        size += len(taken[-1]) + 1
        if len(taken) > len(ahead):
            ahead.extend(islice(numbered, 1))
        if len(taken) > len(ahead) or size > _LONGEST_LINE:
            return "a quote opens here and is not closed"
        taken.append(ahead[len(taken) - 1][1])


def _scan(line: str, inside: bool, dialect: FileDialect) -> tuple[bool, bool]:
    """Return whether a line ends inside quotes, and whether text follows a closing quote."""
    place = 0
    while True:
        if not inside:
            if line[place : place + 1] != dialect.quote:  # quotes within a field that does not begin with one are text
                place = line.find(dialect.separator, place) + 1
                if not place:
                    return False, False
                continue
            place += 1
        closed = _rest_of_field(dialect.quote, dialect.escape).match(line, place)
        if closed is None:
            return True, False
        inside, place = False, closed.end()
        if place == len(line) or line[place] != dialect.separator:
            return False, place < len(line)
        place += 1


@cache
def _rest_of_field(quote: str, escape: str) -> re.Pattern[str]:
    q, e = re.escape(quote), re.escape(escape)
    plain, escaped = f"[^{q}{e}]*+", f"{e}{q}" if quote == escape else f"{e}."
    return re.compile(f"{plain}(?:{escaped}{plain})*+{q}", re.DOTALL)


def _swallowed(taken: list[str], number: int, dialect: FileDialect) -> str | None:
    """Return what is wrong with a record that holds several lines, if these look like rows themselves."""
    columns = len(dialect.columns)
    rows = sum(line.count(dialect.separator) == columns - 1 for line in taken)
    if columns < 2 or rows < max(2, len(taken) / 2) or (columns < _WIDE and len(taken) < _SEVERAL):
        return None
    last = number + len(taken) - 1
    return f"a quote opens here and is closed only near line {last}, after lines that look like rows"


def account_of(
    file: Path, dialect: FileDialect, found: int, connection: Connection, given: str
) -> int | tuple[int, str]:
    """Return how many line ends are between quotes, or the first stray quote; raise if lines are unaccounted for."""
    header, inner = int(dialect.kind == "text" and dialect.has_header), 0
    if dialect.kind == "parquet":
        lines = int(fetched(connection, f"SELECT sum(num_rows) FROM parquet_file_metadata({as_pattern(file)})"))
    else:
        lines = count_lines(file)
    if dialect.kind == "json" and lines != found:
        with open_lines(file, "latin-1") as text:
            lines = sum(1 for line in text if line.strip())
    elif dialect.kind == "text" and lines != header + found:
        lines = records = 0
        with open_lines(file, "latin-1") as text:
            for record in split_records(text, dialect):
                if record.problem and records < header:
                    rule = f"must have the names of the columns in line 1: {record.problem}"
                    raise InputError("source", given, rule)
                if record.problem:
                    return record.number, record.problem
                lines, records = lines + len(record.lines), records + 1
        inner = lines - records
    if lines != header + found + inner:
        parts = f"{found:,} rows, {header} header and {inner:,} lines between quotes"
        raise InputError("source", given, f"cannot be read: {lines:,} lines are not {parts}")
    return inner

"""The lines of text files, read without duckdb: compressed files, copies, and whether duckdb found every record.

Python reads gzip, but zstd only from 3.14 on, so duckdb gives the lines of zstd files. It reads a file that is cut off
as if it were whole. To notice that, the headers of the file's frames and blocks are followed to the end (RFC 8878,
section 3.1): nothing is decompressed, so this is much faster than reading the file with a library for zstd.

A record is one line, or several if line ends are between quotes. Most tables have none of these, so the number of lines
says how many rows there must be; they are counted at the speed of memory. Only if duckdb found another number are the
records read line by line, to see which quotes hold line ends. A quote that is never closed, or that is closed only
after lines that are rows themselves, is a stray one: it would swallow these rows.
"""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.errors import InputError
from allocore.tensor.sql import as_pattern, connect, fetched

if TYPE_CHECKING:
    import duckdb

    from allocore.events.sources import FileDialect

LONGEST_LINE = 16777216
_FRAME, _SKIPPABLE = 0xFD2FB528, 0x184D2A5  # magic numbers; a skippable frame has any last four bits
_AT_A_TIME = 10_000
_CHUNK = 1 << 20
# Prose between quotes may happen to have as many separators as the table. Not in several lines of a narrow table, and
# hardly in a line of a wide one.
_WIDE, _SEVERAL = 4, 4


@contextmanager
def open_lines(file: Path, encoding: str, errors: str = "replace") -> Iterator[Iterator[str]]:
    """Yield the lines of a text file; those of a zstd file come without their line ends."""
    if file.suffix.lower() == ".zst":
        yield (line.encode("latin-1").decode(encoding, errors) for lines in _zst_batches(file) for line in lines)
        return
    opened = gzip.open if file.suffix.lower() == ".gz" else open
    with _damage_named(file), opened(file, "rt", encoding=encoding, errors=errors, newline="") as lines:
        yield iter(lambda: lines.readline(LONGEST_LINE), "")


@contextmanager
def _damage_named(file: Path) -> Iterator[None]:
    """Turn errors in compressed data into an InputError; duckdb does not check the checksums of gzip files."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError("source", str(file), f"cannot be read: the compressed data are damaged: {error}") from error


def _open_bytes(file: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces; of a zstd file its lines, which are not in pieces of that size."""
    if file.suffix.lower() == ".zst":
        for lines in _zst_batches(file):
            yield "".join(f"{line}\n" for line in lines).encode("latin-1")
        return
    with _damage_named(file), gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
        while piece := content.read(size):
            yield piece


def _zst_batches(file: Path) -> Iterator[list[str]]:
    """Yield lists of lines of a zstd file. duckdb reads it as Latin-1, in which every byte is a character."""
    query = (
        f"SELECT coalesce(line, '') FROM read_csv({as_pattern(file)}, hive_partitioning = false, auto_detect = false, "
        f"header = false, delim = '\x01', quote = '', escape = '', columns = {{'line': 'VARCHAR'}}, "
        f"encoding = 'latin-1', max_line_size = {LONGEST_LINE}, parallel = false, strict_mode = false)"
    )
    with connect([file]) as connection:
        result = connection.execute(query)
        while rows := result.fetchmany(_AT_A_TIME):
            yield [line for (line,) in rows]


def is_cut_off(file: Path) -> bool:
    """Return whether a compressed file ends too early. A gzip file has to be read as a whole to know."""
    suffix = file.suffix.lower()
    if suffix == ".zst":
        return _zst_is_cut_off(file)
    if suffix != ".gz":
        return False
    try:
        with gzip.open(file) as content:
            while content.read(LONGEST_LINE):
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
    while True:
        header = content.read(3)
        if len(header) < 3:
            content.seek(1, 2)
            return
        block = int.from_bytes(header, "little")
        is_one_repeated_byte = block >> 1 & 3 == 1
        content.seek(1 if is_one_repeated_byte else block >> 3, 1)
        is_last = block & 1
        if is_last:
            break
    checksum = 4 if flags >> 2 & 1 else 0
    content.seek(checksum, 1)


def decoded(line: str) -> str:
    """Return a line that was read as Latin-1 as UTF-8, or else as Windows' version of Latin-1."""
    content = line.encode("latin-1")
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line


def write_decoded(file: Path, folder: Path) -> Path:
    """Write the lines of a file, decoded one by one, as UTF-8 to a file of the same name in a folder."""
    target = _path_of_copy(file, folder)
    with open_lines(file, "latin-1") as lines, target.open("w", encoding="utf-8", newline="") as out:
        out.writelines(decoded(line.rstrip("\r\n")) + "\n" for line in lines)
    return target


def write_whole_lines(file: Path, folder: Path) -> tuple[Path, int]:
    """Write all lines but the last of a file that is cut off to a file in a folder.

    Returns the new file and the number of its lines.
    """
    target, number = _path_of_copy(file, folder), 0
    with target.open("w", encoding="latin-1", newline="") as out:
        for line, _ in pairwise(_lines_before_the_cut(file)):
            out.write(line.rstrip("\r\n") + "\n")
            number += 1
    return target, number


def _path_of_copy(file: Path, folder: Path) -> Path:
    """Return a new path for the same text, not compressed."""
    own = folder / f"copy{sum(1 for _ in folder.iterdir())}"
    own.mkdir()
    return own / (file.with_suffix("") if file.suffix.lower() in (".gz", ".zst") else file).name


def _lines_before_the_cut(file: Path) -> Iterator[str]:
    try:
        with open_lines(file, "latin-1") as lines:
            yield from lines
    except EOFError:
        yield ""  # in place of the line that is cut off, which Python does not return


def count_lines(file: Path) -> int:
    """Return the number of lines that are not empty; they may end as on Unix, on Windows or on an old Mac."""
    lines, in_line = 0, False
    for chunk in _open_bytes(file, _CHUNK):
        content = np.frombuffer(chunk, dtype=np.uint8)
        ends = (content == ord("\n")) | (content == ord("\r")) if b"\r" in chunk else content == ord("\n")
        lines += int(np.count_nonzero(ends[1:] > ends[:-1])) + int(in_line and ends[0])
        in_line = not ends[-1]
    return lines + in_line


class TextRecord(NamedTuple):
    """One row of a table. If its first line has a problem, it is alone here, and the other lines are records again."""

    number: int
    lines: list[str]
    problem: str | None = None


def split_records(lines: Iterator[str], dialect: FileDialect) -> Iterator[TextRecord]:
    """Yield the records of a table, the header included. Lines that are empty are left out."""
    numbered = _whole_lines(lines)
    ahead: deque[tuple[int, str]] = deque()
    while here := ahead.popleft() if ahead else next(numbered, None):
        number, line = here
        if len(line) > LONGEST_LINE:
            yield TextRecord(number, [line], f"the line is longer than {LONGEST_LINE:,} bytes")
            continue
        taken, problem = [line], None
        if dialect.quote and dialect.quote in line:
            problem = _close_quotes(taken, ahead, numbered, dialect)
        if problem is None:
            problem = _swallowed(taken, number, dialect)
        if problem is None:
            for _ in taken[1:]:
                ahead.popleft()
        yield TextRecord(number, taken if problem is None else [line], problem)


def _whole_lines(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield numbers and lines without their ends. Of a line that is too long, a part that is too long is enough."""
    number, pending = 0, ""
    for piece in lines:
        line = pending + piece
        is_whole = piece.endswith(("\n", "\r")) or len(piece) < LONGEST_LINE
        pending = "" if is_whole else line[: LONGEST_LINE + 1]
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
        if len(taken) > len(ahead) or size > LONGEST_LINE:
            return "a quote opens here and is not closed"
        taken.append(ahead[len(taken) - 1][1])


def _scan(line: str, inside: bool, dialect: FileDialect) -> tuple[bool, bool]:
    """Return whether a line ends inside quotes, and whether text follows a closing quote."""
    quote, escape, place = dialect.quote, dialect.escape, 0
    while place <= len(line):
        if not inside:
            if line[place : place + 1] != quote:  # quotes within a field that does not begin with one are text
                place = line.find(dialect.separator, place) + 1
                if not place:
                    return False, False
                continue
            inside, place = True, place + 1
        place = _closing(line, place, quote, escape)
        if place < 0:
            return True, False
        inside, place = False, place + 1
        if place < len(line) and line[place] != dialect.separator:
            return False, True
        place += 1
    return False, False


def _closing(line: str, place: int, quote: str, escape: str) -> int:
    """Return the place of the quote that closes a field, or -1."""
    while True:
        found = line.find(quote, place)
        escaped = line.find(escape, place, found) if escape not in ("", quote) and found >= 0 else -1
        if escaped >= 0:
            place = escaped + 2
        elif found >= 0 and escape == quote and line[found + 1 : found + 2] == quote:
            place = found + 2
        else:
            return found


def _swallowed(taken: list[str], number: int, dialect: FileDialect) -> str | None:
    """Return what is wrong with a record that holds several lines, if these look like rows themselves."""
    if len(taken) == 1:
        return None
    columns = len(dialect.columns)
    rows = sum(line.count(dialect.separator) == columns - 1 for line in taken)
    if columns < 2 or rows < max(2, len(taken) / 2) or (columns < _WIDE and len(taken) < _SEVERAL):
        return None
    last = number + len(taken) - 1
    return f"a quote opens here and is closed only near line {last}, after lines that look like rows"


@dataclass(frozen=True)
class LineAccount:
    """How the lines of a file compare with what duckdb found in it."""

    lines: int
    header: int
    inner_lines: int
    found: int
    problem: tuple[int, str] | None = None  # the number of the first line with a problem, and the problem

    @property
    def adds_up(self) -> bool:
        """Whether every line is accounted for."""
        return self.lines == self.header + self.found + self.inner_lines

    def __str__(self) -> str:
        parts = f"{self.found:,} rows, {self.header} header and {self.inner_lines:,} lines between quotes"
        return f"{self.lines:,} lines are not {parts}"


def account_of(
    file: Path, dialect: FileDialect, found: int, connection: duckdb.DuckDBPyConnection, given: Path
) -> LineAccount:
    """Return whether `found` rows and rejected lines are all there is in a file, which may be a copy of `given`."""
    if dialect.kind == "parquet":
        rows = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({as_pattern(file)})"
        return LineAccount(int(fetched(connection, rows)), 0, 0, found)
    account = LineAccount(count_lines(file), int(dialect.kind == "text" and dialect.has_header), 0, found)
    if account.adds_up:
        return account
    with open_lines(file, "latin-1") as lines:
        if dialect.kind == "json":
            return replace(account, lines=sum(1 for line in lines if line.strip()))
        return _by_records(given, account, split_records(lines, dialect))


def _by_records(given: Path, account: LineAccount, records: Iterator[TextRecord]) -> LineAccount:
    """Return the account with the lines between quotes, or with the first problem."""
    lines = number = 0
    for record in records:
        if record.problem and number < account.header:
            raise InputError("source", str(given), f"must have the names of the columns in line 1: {record.problem}")
        if record.problem:
            return replace(account, problem=(record.number, record.problem))
        lines, number = lines + len(record.lines), number + 1
    return replace(account, lines=lines, inner_lines=lines - number)


def write_sound_records(file: Path, folder: Path, dialect: FileDialect) -> tuple[Path, int]:
    """Write the records of a file that have no problem to a new file; return it and the number of the others."""
    target, lost = _path_of_copy(file, folder), 0
    with open_lines(file, "latin-1") as lines, target.open("w", encoding="latin-1", newline="") as out:
        for record in split_records(lines, dialect):
            if record.problem is None:
                out.writelines(line + "\n" for line in record.lines)
            else:
                lost += 1
    return target, lost

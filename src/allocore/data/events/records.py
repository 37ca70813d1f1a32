"""The records of a text table, counted without duckdb: every line is part of one, or it is known why not.

A record is one line, or several if line ends are between quotes. Most tables have none of these, so the number of lines
says how many rows there must be; that is counted at the speed of memory. Only if duckdb found another number is the
file gone through line by line, to see which quotes hold line ends. A quote that is never closed, or that is closed only
after lines that are rows themselves, is a stray one: it would swallow these rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.data.events.compressed import LONGEST_LINE, open_bytes, open_lines, path_of_copy
from allocore.data.events.sources import FileDialect
from allocore.data.sql import as_pattern, fetched
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_CHUNK = 1 << 20
# Prose between quotes may happen to have as many separators as the table. Not in several lines of a narrow table, and
# hardly in a line of a wide one.
_WIDE, _SEVERAL = 4, 4


def count_lines(file: Path) -> int:
    """Return the number of lines that are not empty; they may end as on Unix, on Windows or on an old Mac."""
    lines, in_line = 0, False
    for chunk in open_bytes(file, _CHUNK):
        content = np.frombuffer(chunk, dtype=np.uint8)
        ends = (content == ord("\n")) | (content == ord("\r")) if b"\r" in chunk else content == ord("\n")
        lines += int(np.count_nonzero(ends[1:] > ends[:-1])) + int(in_line and ends[0])
        in_line = not ends[-1]
    return lines + in_line


class Record(NamedTuple):
    """The number of its first line, its lines, and what is wrong with the first; the others are then records again."""

    number: int
    lines: list[str]
    problem: str | None = None


def split_records(lines: Iterator[str], dialect: FileDialect) -> Iterator[Record]:
    """Yield the records of a table, the header included. Lines that are empty are left out."""
    numbered = _whole_lines(lines)
    ahead: deque[tuple[int, str]] = deque()
    while here := ahead.popleft() if ahead else next(numbered, None):
        number, line = here
        if len(line) > LONGEST_LINE:
            yield Record(number, [line], f"the line is longer than {LONGEST_LINE:,} bytes")
            continue
        taken, problem = [line], None
        if dialect.quote and dialect.quote in line:
            problem = _close_quotes(taken, ahead, numbered, dialect)
        if problem is None:
            problem = _swallowed(taken, number, dialect)
        if problem is None:
            for _ in taken[1:]:
                ahead.popleft()
        yield Record(number, taken if problem is None else [line], problem)


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
class Account:
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
        return f"it has {self.lines:,} lines, but {parts} were found, which does not add up"


def account_of(file: Path, dialect: FileDialect, found: int, connection: duckdb.DuckDBPyConnection) -> Account:
    """Return whether `found` rows and rejected lines are all there is in a file."""
    if dialect.kind == "parquet":
        rows = f"SELECT sum(num_rows)::BIGINT FROM parquet_file_metadata({as_pattern(file)})"
        return Account(int(fetched(connection, rows)), 0, 0, found)
    account = Account(count_lines(file), int(dialect.kind == "text" and dialect.has_header), 0, found)
    if account.adds_up:
        return account
    with open_lines(file, "latin-1") as lines:
        if dialect.kind == "json":
            return replace(account, lines=sum(1 for line in lines if line.strip()))
        return _by_records(account, split_records(lines, dialect))


def _by_records(account: Account, records: Iterator[Record]) -> Account:
    """Return the account with the lines between quotes, or with the first problem."""
    lines = number = 0
    for record in records:
        if record.problem and number < account.header:
            raise InputError(f"the first line, which has the names of the columns, cannot be read: {record.problem}")
        if record.problem:
            return replace(account, problem=(record.number, record.problem))
        lines, number = lines + len(record.lines), number + 1
    return replace(account, lines=lines, inner_lines=lines - number)


def write_sound_records(file: Path, folder: Path, dialect: FileDialect) -> tuple[Path, int]:
    """Write the records of a file that have no problem to a new file; return it and the number of the others."""
    target, lost = path_of_copy(file, folder), 0
    with open_lines(file, "latin-1") as lines, target.open("w", encoding="latin-1", newline="") as out:
        for record in split_records(lines, dialect):
            if record.problem is None:
                out.writelines(line + "\n" for line in record.lines)
            else:
                lost += 1
    return target, lost

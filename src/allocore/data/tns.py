"""The FROSTT text format: one entry per line, indices counted from 1, the value last; `#` begins a comment.

NumPy parses clean files at full speed. Other files are read again line by line, so that an error can name the line.
"""

from __future__ import annotations

import gzip
import warnings
import zlib
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np

from allocore.data.coordinates import INT64_MAX, Int64s, Integers
from allocore.errors import InputError

# From here on floats cannot represent every integer.
EXACT_FLOATS = 2.0**53
ROWS_PER_BLOCK = 100_000
_LONGEST_LINE = 1 << 20


def read_tns(path: Path) -> tuple[Int64s, Int64s]:
    """Return coordinates counted from 0 (M, n) and counts (n,)."""
    try:
        with closing(_entries(path)) as entries:
            _, columns = next(entries, (0, []))
        return _read_fast(path, len(columns)) or _read_carefully(path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def write_entries(file: IO[bytes], coords: Integers, counts: Int64s, *, compress: bool) -> None:
    """Write the entries to an open file."""
    if compress:
        # No name and no time in the header: equal tensors give equal files.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as zipped:
            _write_blocks(zipped, coords, counts)
    else:
        _write_blocks(file, coords, counts)


def _write_blocks(file: IO[bytes] | gzip.GzipFile, coords: Integers, counts: Int64s) -> None:
    line = " ".join(["%d"] * (len(coords) + 1)) + "\n"
    for start in range(0, counts.size, ROWS_PER_BLOCK):
        block = slice(start, start + ROWS_PER_BLOCK)
        rows = np.vstack([coords[:, block].astype(np.int64) + 1, counts[block]]).T
        # One format string for the whole block is many times faster than one per line.
        file.write((line * len(rows) % tuple(rows.ravel().tolist())).encode())


def _entries(path: Path) -> Generator[tuple[int, list[str]]]:
    """Yield the number and the columns of each line that holds an entry."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:  # lines may end as on any system
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise InputError(f"{path}, line {number}: the line is longer than {_LONGEST_LINE:,} characters")
            columns = line.partition("#")[0].split()
            if columns:
                yield number, columns


def _read_fast(path: Path, columns: int) -> tuple[Int64s, Int64s] | None:
    """Return the entries of a clean file, or None if anything about it is doubtful."""
    if columns < 3:
        return None
    whole = np.dtype([("index", np.int64, (columns - 1,)), ("value", np.int64)])
    decimal = np.dtype([("index", np.int64, (columns - 1,)), ("value", np.float64)])
    for dtype in (whole, decimal):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                table = np.loadtxt(path, dtype=dtype, comments="#", ndmin=1, encoding="utf-8")
        except (ValueError, Warning):
            continue
        index, value = table["index"], table["value"]
        fine = index.min() >= 1 and value.min() >= 0
        if dtype == decimal:
            fine = fine and value.max() < EXACT_FLOATS and not (value % 1).any()
        return (np.ascontiguousarray(index.T) - 1, value.astype(np.int64)) if fine else None
    return None


def _read_carefully(path: Path) -> tuple[Int64s, Int64s]:
    """Return the entries of any correct file; raise an InputError at the first wrong line."""
    rows: list[list[int]] = []
    for number, columns in _entries(path):
        try:
            rows.append(_parse(columns, len(rows[0]) if rows else None))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
    if not rows:
        raise InputError(f"{path} has no entries; a .tns file has one entry per line")
    table = np.array(rows, dtype=np.int64).T
    return table[:-1] - 1, table[-1]


def _parse(columns: list[str], expected: int | None) -> list[int]:
    if expected is not None and len(columns) != expected:
        raise ValueError(f"{len(columns)} columns, but the lines before have {expected}")
    if len(columns) < 3:
        raise ValueError(f"{len(columns)} columns; at least two indices and a value are needed")
    *indices, value = [_number(column) for column in columns]
    for index in indices:
        if not isinstance(index, int) or not 1 <= index <= INT64_MAX:
            raise ValueError(f"index {index}; indices must be whole numbers of at least 1")
    if value != value or not 0 <= value <= INT64_MAX or value != int(value):
        raise ValueError(f"value {value}; counts must be whole numbers of at least 0")
    return [int(number) for number in (*indices, value)]


def _number(text: str) -> int | float:
    # Python alone reads "1_000" as a number.
    plain = text.replace("_", "?")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None

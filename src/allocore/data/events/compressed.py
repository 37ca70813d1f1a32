"""Text files line by line, compressed or not, and copies of files that duckdb cannot read.

Python reads gzip, but zstd only from 3.14 on, so duckdb gives the lines of zstd files. It reads a file that is cut off
as if it were whole. To notice that, the headers of the file's frames and blocks are followed to the end (RFC 8878,
section 3.1): nothing is decompressed, so this is much faster than reading the file with a library for zstd.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO

from allocore.data.sql import as_pattern, connect
from allocore.errors import InputError

LONGEST_LINE = 16777216
_FRAME, _SKIPPABLE = 0xFD2FB528, 0x184D2A5  # magic numbers; a skippable frame has any last four bits
_AT_A_TIME = 10_000


@contextmanager
def open_lines(file: Path, encoding: str, errors: str = "replace") -> Iterator[Iterator[str]]:
    """Yield the lines of a text file; those of a zstd file come without their line ends."""
    if file.suffix.lower() == ".zst":
        yield _zst_lines(file, encoding, errors)
        return
    with _naming(file), _open(file, encoding, errors) as lines:
        yield iter(lambda: lines.readline(LONGEST_LINE), "")


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Turn errors in what is compressed into an InputError; duckdb does not look at the checksums of gzip files."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{file} cannot be read: the compressed data are damaged: {error}") from error


def _open(file: Path, encoding: str, errors: str) -> IO[str]:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding=encoding, errors=errors, newline="")
    return file.open(encoding=encoding, errors=errors, newline="")


def open_bytes(file: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file in pieces; of a zstd file its lines, which are not in pieces of that size."""
    if file.suffix.lower() == ".zst":
        for lines in _zst_batches(file):
            yield "".join(f"{line}\n" for line in lines).encode("latin-1")
        return
    with _naming(file), gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as content:
        while piece := content.read(size):
            yield piece


def _zst_lines(file: Path, encoding: str, errors: str) -> Iterator[str]:
    """Yield the lines of a zstd file."""
    for lines in _zst_batches(file):
        for line in lines:
            yield line.encode("latin-1").decode(encoding, errors)


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
    target = path_of_copy(file, folder)
    with open_lines(file, "latin-1") as lines, target.open("w", encoding="utf-8", newline="") as out:
        out.writelines(decoded(line.rstrip("\r\n")) + "\n" for line in lines)
    return target


def write_whole_lines(file: Path, folder: Path) -> tuple[Path, int]:
    """Write all lines but the last of a file that is cut off to a file in a folder.

    Returns the new file and the number of its lines.
    """
    target, number = path_of_copy(file, folder), 0
    with target.open("w", encoding="latin-1", newline="") as out:
        for line, _ in pairwise(_lines_before_the_cut(file)):
            out.write(line.rstrip("\r\n") + "\n")
            number += 1
    return target, number


def path_of_copy(file: Path, folder: Path) -> Path:
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

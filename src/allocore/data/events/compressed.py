"""Text files line by line, whether they are compressed or not, and copies of those that duckdb would not read.

Python reads gzip, but not zstd before 3.14. For that, duckdb gives the lines; it does not say, however, when such a
file ends too early, so the frames of the file are checked to be whole (RFC 8878, section 3.1).
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO

from allocore.data.sql import as_pattern

LONGEST_LINE = 16777216
_FRAME, _SKIPPED = 0xFD2FB528, 0x184D2A5
_AT_A_TIME = 10_000


@contextmanager
def open_lines(file: Path, encoding: str, errors: str = "replace") -> Iterator[Iterator[str]]:
    """The lines of a text file, from one not compressed or by gzip with what ends them."""
    if file.suffix.lower() == ".zst":
        yield _zst_lines(file, encoding, errors)
        return
    with _open(file, encoding, errors) as lines:
        yield iter(lambda: lines.readline(LONGEST_LINE), "")


def _open(file: Path, encoding: str, errors: str) -> IO[str]:
    if file.suffix.lower() == ".gz":
        return gzip.open(file, "rt", encoding=encoding, errors=errors, newline="")
    return file.open(encoding=encoding, errors=errors, newline="")


def _zst_lines(file: Path, encoding: str, errors: str) -> Iterator[str]:
    """The lines of a file in zstd; duckdb reads it as Latin-1, in which every byte is a letter."""
    import duckdb

    query = (
        f"SELECT line FROM read_csv({as_pattern(file)}, hive_partitioning = false, auto_detect = false, "
        f"header = false, delim = '\x01', quote = '', escape = '', columns = {{'line': 'VARCHAR'}}, "
        f"encoding = 'latin-1', max_line_size = {LONGEST_LINE}, parallel = false, strict_mode = false)"
    )
    with duckdb.connect() as connection:
        result = connection.execute(query)
        while rows := result.fetchmany(_AT_A_TIME):
            for (line,) in rows:
                yield (line or "").encode("latin-1").decode(encoding, errors)


def is_cut_off(file: Path) -> bool:
    """Whether a compressed file ends too early; one by gzip must be read as a whole to know."""
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
            if magic >> 4 == _SKIPPED:
                length = content.read(4)
                content.seek(int.from_bytes(length, "little") + 4 - len(length), 1)
            elif magic == _FRAME:
                _pass_frame(content)
            else:
                return size - content.tell() == 0  # otherwise it is not zstd at all, which duckdb says
        return content.tell() > size


def _pass_frame(content: IO[bytes]) -> None:
    """Go to the end of a frame, which may lie behind that of the file."""
    flags = int.from_bytes(content.read(1), "little")
    in_one = flags >> 5 & 1
    sizes = (in_one, 2, 4, 8)  # of the field with the size of the content
    content.seek((1 - in_one) + (0, 1, 2, 4)[flags & 3] + sizes[flags >> 6], 1)
    while True:
        field = content.read(3)
        if len(field) < 3:
            content.seek(1, 2)
            return
        block = int.from_bytes(field, "little")
        repeated = block >> 1 & 3 == 1
        content.seek(1 if repeated else block >> 3, 1)
        if block & 1:
            break
    content.seek(4 if flags >> 2 & 1 else 0, 1)


def decoded(line: str) -> str:
    """A line that was read as Latin-1 as it was meant: UTF-8 if it can be that, or else Windows' version of Latin-1."""
    content = line.encode("latin-1")
    for encoding in ("utf-8", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line


def write_decoded(file: Path, folder: Path) -> Path:
    """Write the lines of a file, each as it was meant, as UTF-8 to one of the same name in a folder."""
    target = _beside(file, folder)
    with open_lines(file, "latin-1") as lines, target.open("w", encoding="utf-8", newline="") as out:
        out.writelines(decoded(line.rstrip("\r\n")) + "\n" for line in lines)
    return target


def write_whole_lines(file: Path, folder: Path) -> tuple[Path, int]:
    """Write the lines of a file that is cut off, but for the last one, to one in a folder; returns it, and how many."""
    target, number = _beside(file, folder), 0
    with target.open("w", encoding="latin-1", newline="") as out:
        for line, _ in pairwise(_lines_there_are(file)):
            out.write(line.rstrip("\r\n") + "\n")
            number += 1
    return target, number


def _beside(file: Path, folder: Path) -> Path:
    """A new path for the same text, not compressed."""
    own = folder / f"copy{sum(1 for _ in folder.iterdir())}"
    own.mkdir()
    return own / (file.with_suffix("") if file.suffix.lower() in (".gz", ".zst") else file).name


def _lines_there_are(file: Path) -> Iterator[str]:
    try:
        with open_lines(file, "latin-1") as lines:
            yield from lines
    except EOFError:
        yield ""  # for the line that is cut off, which Python does not give

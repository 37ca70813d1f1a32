"""Small readers and writers of Zarr's format 2: JSON metadata, Zstandard frames, arrays that do not grow.

Files may be damaged or untrusted. Zarr's metadata may name any codec, and some of numcodecs run code, such as `pickle`;
so these arrays are read without Zarr, with one codec, Zstandard. A frame states the size of its content, which is
checked before anything is allocated. Zarr leaves out chunks of zeros; such a gap is filled only if the caller knows the
shape, or if it is small. No chunk is larger than its array, and an array larger than memory is refused.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from allocore._io import read_inside, replacing
from allocore._memory import check_room

CODEC = "zstd"
_MOST_BYTES = 2**26  # of a JSON file; the consolidated metadata of six modes take 50 kB
# Numbers, and text of a fixed width. Not "O": decoding objects can run code.
_DTYPES = re.compile(r"<[iu][248]|[<|][iu]1|<f8|<U[1-9]\d{0,7}")


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """Return the object in a JSON file inside a folder; raise an OSError or a ValueError if there is none."""
    return parsed_object(read_inside(folder, name, _MOST_BYTES), name)


def parsed_object(text: str | bytes, name: str) -> dict[str, Any]:
    """The object in a JSON text."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError(f"{name} is not a JSON object")
    return document


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file as a whole."""
    with replacing(path) as file:
        file.write(json.dumps(document, indent=1).encode())


@dataclass(frozen=True)
class ArrayInfo:
    """The checked metadata of a Zarr array: no filters, and no codec but ours."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Literal["C", "F"]

    @classmethod
    def of(cls, name: str, document: object) -> "ArrayInfo":
        """Check the metadata of the array `name`; a ValueError says what is wrong."""
        if not isinstance(document, dict) or document.get("zarr_format") != 2:
            raise ValueError(f"{name} has no metadata of Zarr's format 2")
        codec = document.get("compressor")
        if not isinstance(codec, dict) or codec.get("id") != CODEC:
            named = codec.get("id") if isinstance(codec, dict) else codec
            raise ValueError(f"{name} names the codec {named!r}, but it must be {CODEC!r}")
        if document.get("filters"):
            raise ValueError(f"{name} names the filters {document['filters']!r}, but it must have none")
        dtype, order = document.get("dtype"), document.get("order")
        if not isinstance(dtype, str) or not _DTYPES.fullmatch(dtype):
            raise ValueError(f"{name} has the type {dtype!r}, but it must be a type of numbers or text")
        if order not in ("C", "F") or document.get("dimension_separator", ".") != ".":
            raise ValueError(f"{name} has an unsupported order or dimension separator")
        shape, chunks = _sizes(name, document.get("shape"), 0), _sizes(name, document.get("chunks"), 1)
        if len(shape) != len(chunks):
            raise ValueError(f"{name} has the shape {shape}, but chunks of the shape {chunks}")
        return cls(shape, chunks, np.dtype(dtype), order)


def _sizes(name: str, given: object, least: int) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) > 32:
        raise ValueError(f"{name} has the shape {str(given)[:80]}")
    product = 1
    for size in given:
        product *= max(size, 1) if type(size) is int else 0
        if type(size) is not int or size < least or product >= 2**62:
            raise ValueError(f"{name} has the shape {str(given)[:80]}")
    return tuple(given)


_MAGIC = b"\x28\xb5\x2f\xfd"
# The lengths of the fields of a frame's header, by two bits of its descriptor (RFC 8878, 3.1.1.1).
_SIZE_BYTES, _DICTIONARY_BYTES = (0, 2, 4, 8), (0, 1, 2, 4)


@cache
def compressor() -> Any:
    """The codec. It is imported on use: a run in memory does not need it."""
    from numcodecs import Zstd

    return Zstd(level=1, checksum=True)


def encode(values: NDArray[Any], order: Any = "C") -> bytes:
    """The numbers of an array, compressed."""
    return bytes(compressor().encode(values.tobytes(order=order)))


def decode(content: bytes, size: int) -> NDArray[np.uint8]:
    """The `size` bytes in a frame; a ValueError or RuntimeError if they are damaged, or not that many."""
    stated = stated_size(content)
    if stated != size:
        raise ValueError(f"it has {'no' if stated is None else stated} bytes of content, but {size} are expected")
    decoded = np.empty(size, dtype=np.uint8)
    compressor().decode(content, decoded)
    return decoded


def read_chunk(folder: Path, name: str, size: int) -> NDArray[np.uint8]:
    """The `size` bytes of content of a compressed file inside a folder."""
    # Zstandard adds a little to what it cannot compress.
    return decode(read_inside(folder, name, size + size // 100 + 1000), size)


def stated_size(content: bytes) -> int | None:
    """The size of the content as the frame states it; None if it states none."""
    if len(content) < 6 or content[:4] != _MAGIC:
        raise ValueError("it is not a Zstandard (zstd) frame")
    descriptor = content[4]
    single = descriptor >> 5 & 1
    length = _SIZE_BYTES[descriptor >> 6] or single
    start = 6 - single + _DICTIONARY_BYTES[descriptor & 3]
    stated = int.from_bytes(content[start : start + length], "little") + (256 if length == 2 else 0)
    return stated if length else None


_CHUNK = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")
_SMALL = 2**20
_RATIO = 2**15  # a block of Zstandard has at most 2^17 bytes of content, and takes at least four


def array_info(run: Path, name: str) -> ArrayInfo:
    """The checked metadata of an array of a run."""
    return ArrayInfo.of(name, read_json(run, f"{name}/.zarray"))


def read_static(run: Path, name: str, shape: tuple[int, ...] | None = None) -> NDArray[Any]:
    """An array of a run, of this shape if it is given; an OSError, ValueError or RuntimeError if it is damaged."""
    info = array_info(run, name)
    if shape is not None and info.shape != shape:
        raise ValueError(f"{name} has the shape {info.shape}, but {shape} is expected")
    grid = tuple(-(-length // step) for length, step in zip(info.shape, info.chunks, strict=True))
    files = _chunk_files(run / name, grid)
    size, whole = (math.prod(each) * info.dtype.itemsize for each in (info.chunks, info.shape))
    if any(step > max(length, 1) for length, step in zip(info.shape, info.chunks, strict=True)):
        raise ValueError(f"{name} has the shape {info.shape}, but chunks of the shape {info.chunks}")
    check_room(run, whole + size, name)
    absent = math.prod(grid) - len(files)
    if shape is None and absent * size > _SMALL:
        raise ValueError(f"{absent} of the {math.prod(grid)} chunks of {name} are missing")
    if shape is None and whole > _RATIO * sum(file.stat().st_size for file in files.values()) + _SMALL:
        raise ValueError(f"{name} has the shape {info.shape}, but its files are too small for that")
    values = np.zeros(info.shape, dtype=info.dtype)
    for place, file in files.items():
        chunk = read_chunk(run, f"{name}/{file.name}", size).view(info.dtype).reshape(info.chunks, order=info.order)
        where: Any = (slice(i * step, (i + 1) * step) for i, step in zip(place, info.chunks, strict=True))
        part = values[(*where, ...)]
        part[...] = chunk[tuple(slice(0, length) for length in part.shape)]
    return values


def as_utf8(labels: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Labels as one UTF-8 text, and the offsets where each of them begins and the last one ends."""
    encoded = [label.encode() for label in labels]
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), np.cumsum([0, *map(len, encoded)], dtype=np.int64)


def read_labels(run: Path, name: str, length: int) -> tuple[str, ...] | None:
    """The labels in the arrays `name`_utf8 and `name`_offsets; None if there are none."""
    if not (run / f"{name}_utf8").is_dir():
        return None
    text, offsets = read_static(run, f"{name}_utf8").tobytes(), read_static(run, f"{name}_offsets", (length + 1,))
    return tuple(text[start:stop].decode() for start, stop in pairwise(offsets.tolist()))


def _chunk_files(folder: Path, grid: tuple[int, ...]) -> dict[tuple[int, ...], Path]:
    """The existing chunks by their places in the grid of chunks; an array without dimensions has one, 0."""
    files = {}
    for file in folder.iterdir():
        if _CHUNK.fullmatch(file.name):
            place = tuple(int(number) for number in file.name.split("."))
            place = place if grid else place[1:]
            if len(place) == len(grid) and all(i < number for i, number in zip(place, grid, strict=True)):
                files[place] = file
    return files

"""Arrays that do not grow, such as the tensor and its labels, read without Zarr: its metadata may name any codec.

Zarr leaves out chunks of zeros. Such a gap is filled only where the shape is known from elsewhere, or where it is
small. No chunk is larger than its array, and an array that memory cannot hold is refused, so a damaged or hostile shape
costs no more memory than an honest one may.
"""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._files import read_regular
from allocore.data.available_memory import check_room
from allocore.data.zarr_metadata import ArrayInfo, read_json
from allocore.data.zstd_codec import decode

_CHUNK = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})*")
_SMALL = 2**20
_RATIO = 2**15  # a block of Zstandard has at most 2^17 bytes of content, and takes at least four


def array_info(run: Path, name: str) -> ArrayInfo:
    """The checked metadata of an array of a run."""
    return ArrayInfo.of(name, read_json(run / name / ".zarray"))


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
    check_room(whole + size, f"{name} of {run}")
    absent = math.prod(grid) - len(files)
    if shape is None and absent * size > _SMALL:
        raise ValueError(f"{absent} of the {math.prod(grid)} chunks of {name} are missing")
    if shape is None and whole > _RATIO * sum(file.stat().st_size for file in files.values()) + _SMALL:
        raise ValueError(f"{name} has the shape {info.shape}, but its files cannot hold as much")
    values = np.zeros(info.shape, dtype=info.dtype)
    for place, file in files.items():
        chunk = decode(read_regular(file), size).view(info.dtype).reshape(info.chunks, order=info.order)
        where: Any = (slice(i * step, (i + 1) * step) for i, step in zip(place, info.chunks, strict=True))
        part = values[(*where, ...)]
        part[...] = chunk[tuple(slice(0, length) for length in part.shape)]
    return values


def _chunk_files(folder: Path, grid: tuple[int, ...]) -> dict[tuple[int, ...], Path]:
    """The chunks that are there, by their places in the grid of chunks; an array without dimensions has one, 0."""
    files = {}
    for file in folder.iterdir():
        if _CHUNK.fullmatch(file.name):
            place = tuple(int(number) for number in file.name.split("."))
            place = place if grid else place[1:]
            if len(place) == len(grid) and all(i < number for i, number in zip(place, grid, strict=True)):
                files[place] = file
    return files

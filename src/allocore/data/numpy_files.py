"""The arrays in `.npy` and `.npz` files, which may be damaged, hostile or larger than memory.

NumPy makes an array of the size that a header claims and then looks for its content. Here the claim is compared with
what the file holds before any memory is used. Objects are never unpickled.
"""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from allocore.data.available_memory import require_memory
from allocore.data.sql import first_sentence
from allocore.errors import InputError

Arrays = dict[str, np.ndarray[Any, Any]]

# What NumPy and zipfile raise on damaged, truncated, encrypted or pickled content.
UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    EOFError,
    RuntimeError,
    SyntaxError,
    AttributeError,
    TypeError,
    ArithmeticError,
    MemoryError,
    AssertionError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def read_npz(path: Path, most: int | None = None) -> Arrays:
    """Return the arrays of an `.npz` file, which may have at most so many bytes."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if most is not None and size > most:
                raise ValueError(f"it claims {size:,} bytes of content, where at most {most:,} are expected")
            require_memory(size, f"{path}")
            arrays = {}
            for member in members:
                with archive.open(member) as file:
                    arrays[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
            return arrays
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"{path} is damaged or not an .npz file of plain arrays: {first_sentence(error)}") from error


def read_npy(path: Path) -> np.ndarray[Any, Any]:
    """Return the array of an `.npy` file."""
    try:
        size = path.stat().st_size
        require_memory(size, f"{path}")
        with path.open("rb") as file:
            return _array(file, size)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"{path} is damaged or not an .npy file of a plain array: {first_sentence(error)}") from error


def _array(file: IO[bytes], size: int) -> np.ndarray[Any, Any]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"format version {version} is unknown")
    # Versions 2 and 3 differ in the encoding of the names of fields, which arrays of numbers do not have.
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_column, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    needed, there = dtype.itemsize * math.prod(shape), size - file.tell()
    if needed != there:
        raise ValueError(f"an array of shape {shape} and type {dtype} has {needed:,} bytes, but there are {there:,}")
    content = file.read(needed)
    if file.read(1):
        raise ValueError("there is more content than the file says")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_column else "C")

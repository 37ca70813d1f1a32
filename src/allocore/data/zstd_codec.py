"""Zstandard with its checksum: the one codec of a run.

The codec is ours, never one that a file names: numcodecs knows some that run code, such as `pickle`. A frame states the
size of its content. It is compared with the size that the run needs before anything is allocated.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
        raise ValueError(f"it has {'no' if stated is None else stated} bytes of content where {size} are expected")
    decoded = np.empty(size, dtype=np.uint8)
    compressor().decode(content, decoded)
    return decoded


def stated_size(content: bytes) -> int | None:
    """The size of the content as the frame states it; None if it states none."""
    if len(content) < 6 or content[:4] != _MAGIC:
        raise ValueError("it is no frame of Zstandard (zstd)")
    descriptor = content[4]
    single = descriptor >> 5 & 1
    length = _SIZE_BYTES[descriptor >> 6] or single
    start = 6 - single + _DICTIONARY_BYTES[descriptor & 3]
    stated = int.from_bytes(content[start : start + length], "little") + (256 if length == 2 else 0)
    return stated if length else None

"""Growing variables as chunks in Zarr's format 2: for each chain, one value per draw or per sweep.

Chunks are compressed by Zstandard with its checksum, so damage is never read as data. Every file is replaced as a
whole, so a reader never sees half of one. A chunk holds about one megabyte of values; a value of more than 64 megabytes
is cut along its first dimension. Numbers are stored by column within a chunk, so that unused factors, which are zero,
take almost no space.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore._files import read_regular, replacing, settle
from allocore.data.zstd_codec import decode, encode
from allocore.run.schema import FLOAT, WHOLE, Growing

# Called with a file that cannot be read, the places of its values, and the reason. It raises, or records the damage.
OnDamage: TypeAlias = Callable[[Path, range, Exception], None]
# Marks places that were never written: no value of a run equals these.
_NEVER = {FLOAT: np.nan, WHOLE: -1}
_BYTES, _MOST_BYTES, _MOST_VALUES = 2**20, 2**26, 512


def chunk_shape(variable: Growing) -> tuple[int, ...]:
    """(chain, draw or sweep, ...): one chain, some values; a very large value is cut along its first dimension."""
    value_bytes = 8 * math.prod(variable.shape)
    values = min(max(1, _BYTES // value_bytes), _MOST_VALUES)
    if value_bytes <= _MOST_BYTES:
        return (1, values, *variable.shape)
    row_bytes = value_bytes // variable.shape[0]
    return (1, 1, max(1, _MOST_BYTES // row_bytes), *variable.shape[1:])


def fill_value(variable: Growing) -> float | None:
    """What a reader finds if a chunk is absent. Integers have no fill value, or xarray would make them floats."""
    return float("nan") if variable.dtype == FLOAT else None


class GrowingChunks:
    """One variable of one chain: the chunk that is being filled. It is written when it is full, or by `flush`.

    Values that are already on the disk are not written again: they would be the same.
    """

    def __init__(self, run: Path, chain: int, variable: Growing) -> None:
        self._folder, self._chain, self._variable = run / variable.path, chain, variable
        self._shape = chunk_shape(variable)
        self._values = np.full((self._shape[1], *variable.shape), _NEVER[variable.dtype], dtype=variable.dtype)
        self._index, self._stored, self._changed, self._damaged = 0, 0, False, False

    def take_up(self, size: int, on_damage: OnDamage) -> None:
        """Continue after the `size` values on the disk. All of them are read, to find damage now and not later."""
        self._stored, self._index = size, size // self._shape[1]

        def note(path: Path, places: range, error: Exception) -> None:
            on_damage(path, places, error)
            self._damaged = places[0] // self._shape[1] == self._index

        for first in range(0, size, self._shape[1]):
            last = min(first + self._shape[1], size)
            values = read_values(self._folder, self._variable, self._chain, first, last, note)
            if last < first + self._shape[1]:
                self._values[: len(values)] = values

    def put(self, place: int, value: Any) -> None:
        """Set value 0, 1, ..; the values come in order."""
        if place < self._stored:
            return
        index, offset = divmod(place, self._shape[1])
        if index != self._index:
            self.flush()
            self._index, self._damaged = index, False
            self._values[...] = _NEVER[self._variable.dtype]
        self._values[offset] = value
        self._changed = True

    def flush(self) -> None:
        """Write the chunk that is being filled, if it has changed. A damaged chunk is not overwritten."""
        if not self._changed or self._damaged:
            return
        for key, block in _blocks(self._chain, self._index, self._values[None], self._shape):
            with replacing(self._folder / key) as file:
                file.write(encode(block, order="F"))
        settle(self._folder)
        self._changed = False


def read_values(
    folder: Path, variable: Growing, chain: int, first: int, last: int, on_damage: OnDamage
) -> NDArray[Any]:
    """Values `first` to `last` of a chain; `first` begins a chunk. If `on_damage` does not raise, gaps stay unset."""
    shape = chunk_shape(variable)
    values = np.full((last - first, *variable.shape), _NEVER[variable.dtype], dtype=variable.dtype)
    step = shape[2] if variable.shape else 1
    for index in range(first // shape[1], -(-last // shape[1])):
        start = index * shape[1] - first
        for block in range(-(-variable.shape[0] // step) if variable.shape else 1):
            path = folder / _key(chain, index, block, shape)
            part = values[start : start + shape[1]]
            part = part[:, block * step : (block + 1) * step] if variable.shape else part
            try:
                stored = decode(read_regular(path), 8 * math.prod(shape)).view(variable.dtype)
                part[...] = stored.reshape(shape, order="F")[0][tuple(slice(0, size) for size in part.shape)]
                if _has_gaps(part):
                    raise ValueError("some values were never written")
                if variable.below is not None and (part >= variable.below).any():
                    raise ValueError(f"some values are not below {variable.below}")
            except (OSError, RuntimeError, ValueError) as error:
                on_damage(path, range(start + first, start + first + len(part)), error)
    return values


def _has_gaps(values: NDArray[Any]) -> bool:
    return bool(np.isnan(values).any() if values.dtype.kind == "f" else (values < 0).any())


def _blocks(chain: int, index: int, values: NDArray[Any], shape: tuple[int, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The chunks of values (1, n, ...) with their file names: one chunk, or several along the third dimension."""
    if values.shape == shape:
        yield _key(chain, index, 0, shape), values
        return
    for block, start in enumerate(range(0, values.shape[2], shape[2])):
        whole = np.zeros(shape, dtype=values.dtype)  # in a file, the last chunk has the full size too
        part = values[:, :, start : start + shape[2]]
        whole[:, :, : part.shape[2]] = part
        yield _key(chain, index, block, shape), whole


def _key(chain: int, index: int, block: int, shape: tuple[int, ...]) -> str:
    places = (chain, index, block, *(0 for _ in shape[3:]))
    return ".".join(str(place) for place in places[: len(shape)])

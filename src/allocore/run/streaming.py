"""Thinning of a sharded tensor on one machine: its cells are read from disk in every sweep, window by window.

Thinning is the only step that reads cells. When a fit starts, every shard is laid out as thinning reads it (two bytes
for each coordinate, four in modes of more than 65,536 rows, and two more for a cell) and written to a file without
compression. The file is mapped into memory: while one window is thinned, the system reads the next, and afterwards its
pages are released. So a fit needs memory for one or two shards, the factors and the tables of counts, whatever the
number of cells. Free memory serves as a cache. Draws have the same bytes as those of the tensor in memory.

The file is in the folder of the tensor, or in the one for temporary files if the former cannot be written to. It has no
name, so the system removes it when the process ends, however it ends.
"""

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any, NamedTuple

import numpy as np

from allocore._memory import in_bytes
from allocore.errors import InputError, StoreError, reason_of
from allocore.gibbs.layout import Layout, NonZeros, Workspace, nonzeros_of
from allocore.gibbs.thinning import ThinnedCells, thin_windows
from allocore.kernels.exposure_sums import narrow_type, row_offsets
from allocore.kernels.random import Key
from allocore.model.state import State
from allocore.tensor.sharded import ShardedTensor

_BYTES_BESIDE_COORDINATES = 2  # of a cell: its small count, and the mode that changes
_ALIGNED = 64  # where arrays begin in the file


class _Window(NamedTuple):
    """The cells of a shard, and the part of the file that has them."""

    nonzeros: NonZeros
    pages: mmap.mmap


class StreamedThinning:
    """Thins the cells of a sharded tensor in this process: a `ThinCells` of gibbs/thinning.py."""

    def __init__(self, tensor: ShardedTensor) -> None:
        folder = tensor.scratch
        needed, room = bytes_on_disk(tensor), shutil.disk_usage(folder).free
        if needed > room:
            problem = f"has too little room: the fit streams its cells from a file of {in_bytes(needed)}, and"
            raise StoreError(folder, f"{problem} {in_bytes(room)} are free")
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                self._windows = list(_windows(tensor, file))
        except InputError as error:
            if error.argument != "path":
                raise
            raise InputError("Y", error.value, error.rule) from error
        except OSError as error:
            problem = f"cannot hold the file that the fit streams cells from: {reason_of(error)}"
            raise StoreError(folder, problem) from error

    def __call__(
        self, key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
        count_type: type[np.signedinteger[Any]],
    ) -> ThinnedCells:  # fmt: skip
        """Thin all cells."""
        return thin_windows(self._in_turn(layout), key, layout, likelihood, state, workspace, count_type)

    def _in_turn(self, layout: Layout) -> Iterator[Layout]:
        following = [*self._windows[1:], None]
        for window, after in zip(self._windows, following, strict=True):
            if after is not None:
                _advise(after.pages, "MADV_WILLNEED")
            yield replace(layout, nonzeros=window.nonzeros)
            _advise(window.pages, "MADV_DONTNEED")


def bytes_on_disk(tensor: ShardedTensor) -> int:
    """The size of the file from which the cells of a tensor are streamed."""
    of_coordinates = tensor.ndim * np.dtype(narrow_type(tensor.shape)).itemsize
    return tensor.nnz * (of_coordinates + _BYTES_BESIDE_COORDINATES)


def _windows(tensor: ShardedTensor, file: IO[bytes]) -> Iterator[_Window]:
    """Lay out the shards one after another, each in a window of the file."""
    tensor.check_there()
    files, order, first_draw = tensor.files, list(tensor.files.sizes.order), 0
    starts_M, narrow = row_offsets(tensor.shape)[order], narrow_type(tensor.shape)
    for shard in range(tensor.shards):
        coords, counts = files.cells(shard, shard + 1)
        coords_MN = np.ascontiguousarray(coords[order], dtype=narrow)
        first_cell = files.sizes.cells_of(shard, shard + 1).start
        nonzeros = nonzeros_of(coords_MN, counts, starts_M, first_cell)
        nonzeros = nonzeros._replace(first_draw_B=nonzeros.first_draw_B + first_draw)
        first_draw = int(nonzeros.first_draw_B[-1])
        yield _mapped(nonzeros, file)


def _mapped(nonzeros: NonZeros, file: IO[bytes]) -> _Window:
    """Write the arrays of some cells to the end of a file, and map this part of it into memory."""
    begin = _aligned(file.seek(0, os.SEEK_END), mmap.ALLOCATIONGRANULARITY)
    arrays = {name: value for name, value in nonzeros._asdict().items() if isinstance(value, np.ndarray)}
    places, end = dict[str, int](), begin
    for name, array in arrays.items():
        places[name] = end = _aligned(end, _ALIGNED)
        file.seek(end)
        file.write(np.ascontiguousarray(array).data)
        end += array.nbytes
    file.truncate(end + 1)  # the last arrays may be empty
    file.flush()
    # A private copy, because kernels are compiled for arrays that can be written to.
    pages = mmap.mmap(file.fileno(), end + 1 - begin, offset=begin, access=mmap.ACCESS_COPY)

    views: dict[str, Any] = {}
    for name, array in arrays.items():
        flat = np.frombuffer(pages, array.dtype, array.size, places[name] - begin)
        views[name] = flat.reshape(array.shape)
    return _Window(nonzeros._replace(**views), pages)


def _aligned(place: int, step: int) -> int:
    return -(-place // step) * step


def _advise(pages: mmap.mmap, advice: str) -> None:
    """Tell the system that pages will be needed or not; Windows has no such call."""
    if hasattr(pages, "madvise") and hasattr(mmap, advice):
        pages.madvise(getattr(mmap, advice))

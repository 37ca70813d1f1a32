"""Sharded tensors on disk: a Zarr folder with the cells in chunks, sorted into fibres (fibre_order.py).

    y.zarr/  .zattrs              shape, names, order of the modes, sizes, and a hash of every chunk
             coords/  counts/     (mode, cell) and (cell,): chunks of whole steps of 1,024 cells, some to a shard
             row_totals/          the sum of the counts of each row of each mode, one mode after another
             missing_patterns/    (pattern, mode); -1 is the wildcard
             labels_0_utf8/ ..    the labels of mode 0 as UTF-8, one after another, and where each begins (offsets)

A shard is a range of chunks: what a worker of a cluster loads at once. Cells are written as they come, so a tensor need
never be in memory as a whole. What is read is checked before it is believed: hashes, coordinates, counts and order.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore._files import read_regular
from allocore.data.available_memory import require_memory
from allocore.data.coordinates import Int64s, check_shape
from allocore.data.labels import ModeLabels, check_mode_names
from allocore.data.zarr_arrays import array_info, read_static
from allocore.data.zarr_metadata import read_json
from allocore.data.zstd_codec import decode
from allocore.errors import InputError

FORMAT = "allocore.ShardedTensor/1"
STEP = 1024  # cells; shards begin at multiples of it, which must be blocks of thinning
_MOST_CHUNK = 2**20  # cells
COUNT = np.dtype("<i8")


class Sizes(NamedTuple):
    """The numbers that describe the cells of a sharded tensor, and how they are cut."""

    nnz: int
    total: int
    largest: int
    log_factorials: float
    order: tuple[int, ...]
    chunk: int  # cells
    chunks_per_shard: int

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.nnz // self.chunk)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return -(-self.chunks // self.chunks_per_shard)

    def cells_of(self, first: int, last: int) -> range:
        """The numbers of the cells of shards `first` to `last`, the last one excluded."""
        step = self.chunk * self.chunks_per_shard
        return range(min(first * step, self.nnz), min(last * step, self.nnz))


def cut(nnz: int, shards: int) -> tuple[int, int]:
    """The cells of a chunk, and the chunks of a shard, for a tensor in about so many shards."""
    per_shard = max(1, -(-nnz // shards))
    chunks = -(-per_shard // _MOST_CHUNK)
    return STEP * -(-per_shard // (chunks * STEP)), chunks


@dataclass(frozen=True)
class ShardFiles:
    """A sharded tensor on disk: what is known of it, and its cells when they are asked for."""

    path: Path
    shape: tuple[int, ...]
    mode_names: tuple[str, ...]
    sizes: Sizes
    hashes: tuple[str, ...]
    fingerprint: str
    row_totals_hash: str
    report: str

    @classmethod
    def open(cls, path: Path) -> "ShardFiles":
        """Read what is known besides the cells."""
        with telling(path):
            about = read_json(path / ".zattrs")
            if about.get("format") != FORMAT:
                raise ValueError(f"its format is {about.get('format')!r}, but {FORMAT!r} is expected")
            shape = check_shape(about["shape"])
            names = check_mode_names(about["mode_names"], len(shape))
            sizes = sizes_of(about, len(shape))
            hashes = tuple(str(each) for each in about["chunk_hashes"])
            if len(hashes) != sizes.chunks:
                raise ValueError(f"it has {len(hashes)} hashes for {sizes.chunks} chunks")
            told = (str(about[name]) for name in ("fingerprint", "row_totals_hash", "report"))
            files = cls(path, shape, names, sizes, hashes, *told)
            if fingerprint_of(about, files.missing_patterns()) != files.fingerprint:
                raise ValueError("it is not as it was written")
            return files

    def missing_patterns(self) -> Int64s:
        """The missing cells as patterns (P, M)."""
        patterns = read_static(self.path, "missing_patterns")
        if patterns.dtype != np.int64 or patterns.shape[1:] != (len(self.shape),):
            raise ValueError(f"missing_patterns has the shape {patterns.shape} and the type {patterns.dtype}")
        return patterns

    def labels(self) -> tuple[tuple[str, ...] | None, ...]:
        """The labels of each mode; None for a mode without labels."""
        with telling(self.path):
            found = tuple(self._labels_of(mode) for mode in range(len(self.shape)))
            if hash_of_labels(found) != self._about("labels"):
                raise ValueError("its labels are not as they were written")
            return found

    def row_totals(self) -> Int64s:
        """The sum of the counts of each row of each mode, one mode after another."""
        with telling(self.path):
            totals = read_static(self.path, "row_totals", (sum(self.shape),))
            if hash_of_totals(totals) != self.row_totals_hash:
                raise ValueError("its totals are not as they were written, or those of another tensor")
            return totals.astype(np.int64)

    def cells(self, first: int, last: int) -> tuple[NDArray[Any], Int64s]:
        """The coordinates (M, n) and counts (n) of shards `first` to `last`, the last one excluded."""
        within, sizes = self.sizes.cells_of(first, last), self.sizes
        with telling(self.path):
            dtype = self._coordinate_type()
            needed = len(within) * (len(self.shape) * dtype.itemsize + COUNT.itemsize)
            require_memory(needed, f"reading {len(within):,} cells of {self.path}")
            coords = np.empty((len(self.shape), len(within)), dtype=dtype)
            counts = np.empty(len(within), dtype=COUNT)
            for chunk in range(within.start // sizes.chunk, -(-within.stop // sizes.chunk)):
                start = chunk * sizes.chunk - within.start
                here = slice(start, min(start + sizes.chunk, len(within)))
                coords[:, here], counts[here] = self._chunk(chunk, dtype, here.stop - here.start)
            if not _is_sorted(coords[list(sizes.order)]):
                raise ValueError("its cells are not in order, or some are there twice")
            return coords, counts

    def parts(self) -> Iterator[tuple[NDArray[Any], Int64s]]:
        """All cells, shard by shard."""
        for shard in range(self.sizes.shards):
            yield self.cells(shard, shard + 1)

    def _coordinate_type(self) -> np.dtype[Any]:
        dtype = array_info(self.path, "coords").dtype
        if dtype.kind not in "iu":
            raise ValueError(f"its coordinates have the type {dtype.str}")
        return dtype

    def _about(self, name: str) -> Any:
        return read_json(self.path / ".zattrs")[name]

    def _labels_of(self, mode: int) -> tuple[str, ...] | None:
        name = f"labels_{mode}"
        if not (self.path / f"{name}_utf8").is_dir():
            return None
        text = read_static(self.path, f"{name}_utf8").tobytes()
        offsets = read_static(self.path, f"{name}_offsets", (self.shape[mode] + 1,)).tolist()
        return tuple(text[start:stop].decode() for start, stop in pairwise(offsets))

    def _chunk(self, chunk: int, dtype: np.dtype[Any], cells: int) -> tuple[NDArray[Any], Int64s]:
        """The cells of one chunk, checked: kernels rely on coordinates being inside the tensor."""
        modes, size = len(self.shape), self.sizes.chunk
        content = read_regular(self.path / f"coords/0.{chunk}")
        coords = decode(content, modes * size * dtype.itemsize).view(dtype).reshape(modes, size)
        counts = decode(read_regular(self.path / f"counts/{chunk}"), size * COUNT.itemsize).view(COUNT)
        if hash_of_chunk(coords, counts) != self.hashes[chunk]:
            raise ValueError(f"chunk {chunk} is not as it was written")
        coords, counts = coords[:, :cells], counts[:cells]
        limits = np.array(self.shape)[:, None]
        if (coords >= limits).any() or (coords < 0).any() or (counts < 1).any():
            raise ValueError(f"chunk {chunk} has coordinates outside the tensor, or counts that are not positive")
        return coords, counts


def _is_sorted(coords_MN: NDArray[Any]) -> bool:
    """Whether every cell comes after the one before, the first mode slowest."""
    equal = np.ones(max(0, coords_MN.shape[1] - 1), dtype=np.bool_)
    for column in coords_MN:
        if (equal & (column[1:] < column[:-1])).any():
            return False
        equal &= column[1:] == column[:-1]
    return not equal.any()


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn what can go wrong while reading into one sentence."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        absent = Path(error.filename or path)
        told = absent.relative_to(path) if absent.is_relative_to(path) else absent
        raise InputError(f"{path} is no whole sharded tensor: {told} is not there") from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, IndexError) as error:
        raise InputError(f"{path} is damaged, or no sharded tensor: {error}") from error


def is_sharded(path: Path) -> bool:
    """Whether a path is the folder of a sharded tensor."""
    try:
        return bool(read_json(path / ".zattrs").get("format") == FORMAT)
    except (OSError, ValueError):
        return False


def sizes_of(about: dict[str, Any], modes: int) -> Sizes:
    """The sizes in the attributes of a sharded tensor, or in a run; a ValueError, KeyError or TypeError if wrong."""
    numbers = {name: about[name] for name in ("nnz", "total", "largest", "chunk", "chunks_per_shard")}
    for name, value in numbers.items():
        if type(value) is not int or not 0 < value < 2**62:
            raise ValueError(f"{name} is {value!r}")
    order = tuple(about["order"])
    if sorted(order) != list(range(modes)):
        raise ValueError(f"order is {order}")
    if numbers["chunk"] % STEP:
        raise ValueError(f"chunk is {numbers['chunk']}")
    return Sizes(**numbers, order=order, log_factorials=float.fromhex(about["log_factorials"]))


def fingerprint_of(about: dict[str, Any], patterns: Int64s) -> str:
    """A hash of everything in a sharded tensor."""
    known = {name: value for name, value in about.items() if name != "fingerprint"}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(patterns, dtype="<i8").tobytes())
    return digest.hexdigest()


def hash_of_labels(labels: Sequence[ModeLabels | None]) -> str:
    """A hash of the labels of all modes."""
    listed = [list(each) if isinstance(each, tuple) else None for each in labels]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def hash_of_totals(totals: NDArray[Any]) -> str:
    """A hash of the totals of all rows."""
    return hashlib.sha256(np.ascontiguousarray(totals, dtype="<i8").tobytes()).hexdigest()


def hash_of_chunk(coords: NDArray[Any], counts: Int64s) -> str:
    """A hash of the cells of a chunk."""
    digest = hashlib.sha256(np.ascontiguousarray(coords).data)
    digest.update(counts.data)
    return digest.hexdigest()[:32]

"""Sharded tensors on disk: a Zarr folder with the cells in chunks, sorted into fibres (`coordinates.py`).

    y.zarr/  .zattrs              shape, names, order of the modes, sizes, and a hash of every chunk
             coords/  counts/     (mode, cell) and (cell,): chunks of a multiple of 1,024 cells, one or more to a shard
             row_totals/          the sum of the counts of each row, mode after mode
             missing_patterns/    (pattern, mode); -1 is the wildcard
             labels_0_utf8/ ..    the labels of mode 0 as one UTF-8 text, and the offset of each in labels_0_offsets

A shard is a range of chunks: what a worker of a cluster loads at once. Reading checks hashes, coordinates, counts and
the order of the cells.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore._io import new_folder, path_of, replacing
from allocore._memory import require_memory
from allocore._zarr import (
    CODEC,
    array_info,
    as_utf8,
    encode,
    read_chunk,
    read_json,
    read_labels,
    read_static,
    write_json,
)
from allocore.errors import InputError, whole_number
from allocore.tensor.coordinates import Int64s, cell_ranges, check_shape, sums_by_row
from allocore.tensor.labels import ModeLabels, check_mode_names
from allocore.tensor.undirected import Pair, stored_pair

if TYPE_CHECKING:
    from allocore.tensor.count_tensor import CountTensor

SHARDS = 16
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
        """The number of chunks."""
        return -(-self.nnz // self.chunk)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return -(-self.chunks // self.chunks_per_shard)

    def cells_of(self, first: int, last: int) -> range:
        """Return the numbers of the cells of shards `first` to `last`, the last one excluded."""
        step = self.chunk * self.chunks_per_shard
        return range(min(first * step, self.nnz), min(last * step, self.nnz))


def cut(nnz: int, shards: int) -> tuple[int, int]:
    """Return the cells of a chunk, and the chunks of a shard, for a tensor in about this many shards."""
    per_shard = max(1, -(-nnz // shards))
    chunks = -(-per_shard // _MOST_CHUNK)
    return STEP * -(-per_shard // (chunks * STEP)), chunks


@dataclass(frozen=True)
class ShardFiles:
    """A sharded tensor on disk. `open` reads everything but the cells."""

    path: Path
    shape: tuple[int, ...]
    mode_names: tuple[str, ...]
    sizes: Sizes
    hashes: tuple[str, ...]
    fingerprint: str
    row_totals_hash: str
    report: str
    undirected: Pair | None = None

    @classmethod
    def open(cls, path: Path) -> ShardFiles:
        """Read everything but the cells and the labels."""
        with damage_as_input_error(path):
            about = read_json(path, ".zattrs")
            if about.get("format") != FORMAT:
                raise ValueError(f"its format is {about.get('format')!r}, but {FORMAT!r} is expected")
            shape = check_shape(about["shape"])
            names = check_mode_names(about["mode_names"], len(shape))
            sizes = sizes_of(about, len(shape))
            hashes = tuple(str(each) for each in about["chunk_hashes"])
            if len(hashes) != sizes.chunks:
                raise ValueError(f"it has {len(hashes)} hashes for {sizes.chunks} chunks")
            fingerprint, totals_hash, report = (
                str(about[name]) for name in ("fingerprint", "row_totals_hash", "report")
            )
            pair = stored_pair(about.get("undirected"), len(shape))
            files = cls(path, shape, names, sizes, hashes, fingerprint, totals_hash, report, pair)
            if fingerprint_of(about, files.missing_patterns()) != files.fingerprint:
                raise ValueError("its fingerprint does not match its content")
            return files

    def missing_patterns(self) -> Int64s:
        """Read the missing cells as patterns (P, M)."""
        patterns = read_static(self.path, "missing_patterns")
        if patterns.dtype != np.int64 or patterns.shape[1:] != (len(self.shape),):
            raise ValueError(f"missing_patterns has the shape {patterns.shape} and the type {patterns.dtype}")
        return patterns

    def labels(self) -> tuple[tuple[str, ...] | None, ...]:
        """Read the labels of each mode; None for a mode without labels."""
        with damage_as_input_error(self.path):
            lengths = enumerate(self.shape)
            found = tuple(read_labels(self.path, f"labels_{mode}", length) for mode, length in lengths)
            if _hash_of_labels(found) != read_json(self.path, ".zattrs")["labels"]:
                raise ValueError("its labels have changed")
        return found

    def row_totals(self) -> Int64s:
        """Read the sum of the counts of each row, mode after mode."""
        with damage_as_input_error(self.path):
            totals = read_static(self.path, "row_totals", (sum(self.shape),))
            if _hash_of_totals(totals) != self.row_totals_hash:
                raise ValueError("its totals have changed, or belong to another tensor")
            return totals.astype(np.int64)

    def cells(self, first: int, last: int) -> tuple[NDArray[Any], Int64s]:
        """Read the coordinates (M, n) and counts (n) of shards `first` to `last`, the last one excluded."""
        within, sizes = self.sizes.cells_of(first, last), self.sizes
        with damage_as_input_error(self.path):
            dtype = array_info(self.path, "coords").dtype
            if dtype.kind not in "iu":
                raise ValueError(f"its coordinates have the type {dtype.str}")
            needed = len(within) * (len(self.shape) * dtype.itemsize + COUNT.itemsize)
            require_memory(needed, f"reading {len(within):,} cells of {self.path}")
            coords = np.empty((len(self.shape), len(within)), dtype=dtype)
            counts = np.empty(len(within), dtype=COUNT)
            for chunk in range(within.start // sizes.chunk, -(-within.stop // sizes.chunk)):
                start = chunk * sizes.chunk - within.start
                here = slice(start, min(start + sizes.chunk, len(within)))
                coords[:, here], counts[here] = self._chunk(chunk, dtype, here.stop - here.start)
            if not _is_sorted(coords[list(sizes.order)]):
                raise ValueError("its cells are not sorted, or some occur twice")
            return coords, counts

    def parts(self) -> Iterator[tuple[NDArray[Any], Int64s]]:
        """Return all cells, shard by shard."""
        return (self.cells(shard, shard + 1) for shard in range(self.sizes.shards))

    def _chunk(self, chunk: int, dtype: np.dtype[Any], cells: int) -> tuple[NDArray[Any], Int64s]:
        """Read the cells of one chunk, checked: kernels rely on coordinates being inside the tensor."""
        modes, size = len(self.shape), self.sizes.chunk
        coords = read_chunk(self.path, f"coords/0.{chunk}", modes * size * dtype.itemsize).view(dtype)
        coords = coords.reshape(modes, size)
        counts = read_chunk(self.path, f"counts/{chunk}", size * COUNT.itemsize).view(COUNT)
        if hash_of_chunk(coords, counts) != self.hashes[chunk]:
            raise ValueError(f"chunk {chunk} has changed")
        coords, counts = coords[:, :cells], counts[:cells]
        limits = np.array(self.shape)[:, None]
        if (coords >= limits).any() or (coords < 0).any() or (counts < 1).any():
            raise ValueError(f"chunk {chunk} has coordinates outside the tensor, or counts that are not positive")
        return coords, counts


def _is_sorted(coords_MN: NDArray[Any]) -> bool:
    equal = np.ones(max(0, coords_MN.shape[1] - 1), dtype=np.bool_)
    for column in coords_MN:
        if (equal & (column[1:] < column[:-1])).any():
            return False
        equal &= column[1:] == column[:-1]
    return not equal.any()


@contextmanager
def damage_as_input_error(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while reading a sharded tensor into an InputError."""
    try:
        yield
    except InputError as error:
        if error.argument in ("path", "memory"):
            raise
        raise InputError("path", str(path), f"is damaged: {error}") from error
    except FileNotFoundError as error:
        absent = Path(error.filename or path)
        name = absent.relative_to(path) if absent.is_relative_to(path) else absent
        raise InputError("path", str(path), f"is an incomplete sharded tensor: {name} is missing") from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, IndexError) as error:
        raise InputError("path", str(path), f"is damaged, or not a sharded tensor: {error}") from error


def is_sharded(path: Path) -> bool:
    """Return whether a path is the folder of a sharded tensor."""
    try:
        return bool(read_json(path, ".zattrs").get("format") == FORMAT)
    except (OSError, ValueError):
        return False


def sizes_of(about: dict[str, Any], modes: int) -> Sizes:
    """Return the sizes in the attributes of a sharded tensor or of a run; raise ValueError, KeyError or TypeError."""
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
    """Return a hash of everything in a sharded tensor."""
    known = {name: value for name, value in about.items() if name != "fingerprint"}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(patterns, dtype="<i8").tobytes())
    return digest.hexdigest()


def _hash_of_labels(labels: Sequence[ModeLabels | None]) -> str:
    lists = [list(each) if isinstance(each, tuple) else None for each in labels]
    return hashlib.sha256(json.dumps(lists).encode()).hexdigest()


def _hash_of_totals(totals: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(totals, dtype="<i8").tobytes()).hexdigest()


def hash_of_chunk(coords: NDArray[Any], counts: Int64s) -> str:
    """Return a hash of the cells of a chunk."""
    digest = hashlib.sha256(np.ascontiguousarray(coords).data)
    digest.update(counts.data)
    return digest.hexdigest()[:32]


class ShardWriter:
    """Writes cells to a new folder, part by part; they arrive in the order of the shards."""

    def __init__(self, folder: Path, shape: Sequence[int], order: Sequence[int], nnz: int, shards: int) -> None:
        self._folder, self._shape, self._order, self._nnz = folder, tuple(shape), tuple(order), nnz
        self._chunk, self._chunks_per_shard = cut(nnz, shards)
        self._type = np.dtype("<u2" if max(shape) <= 2**16 else "<i4" if max(shape) < 2**31 else "<i8")
        self._row_totals = [np.zeros(length, dtype=np.int64) for length in shape]
        self._hashes: list[str] = []
        self._added = self._total = self._largest = 0
        self._coords = np.zeros((len(shape), self._chunk), dtype=self._type)
        self._counts = np.zeros(self._chunk, dtype=COUNT)
        # ln y! is added up in the ranges that a tensor in memory uses, so that the sums are equal.
        self._range, self._log_factorials = np.empty(next(cell_ranges(nnz)).stop, dtype=np.int64), 0.0
        modes, step = len(shape), self._chunk
        _new_array(folder / "coords", (modes, nnz), (modes, step), self._type, ["mode", "cell"])
        _new_array(folder / "counts", (nnz,), (step,), COUNT, ["cell"])

    def add(self, coords: NDArray[Any], counts: Int64s) -> None:
        """Write more cells: coordinates (M, n) and counts (n)."""
        for totals, column in zip(self._row_totals, coords, strict=True):
            totals += sums_by_row(column, counts, totals.size)
        self._total += int(counts.sum())
        self._largest = max(self._largest, int(counts.max(initial=0)))
        for piece, place in _pieces(self._added, counts.size, self._chunk):
            self._coords[:, place], self._counts[place] = coords[:, piece], counts[piece]
            if place.stop == self._chunk:
                self._write_chunk()
        for piece, place in _pieces(self._added, counts.size, self._range.size):
            self._range[place] = counts[piece]
            if place.stop == self._range.size:
                self._log_factorials += _log_factorials(self._range)
        self._added += counts.size

    def finish(self, tensor: CountTensor) -> None:
        """Write the last cells and everything else."""
        if self._added != self._nnz:
            raise ValueError(f"{self._added} cells were written, but {self._nnz} were announced")
        if self._nnz % self._chunk:
            self._write_chunk()
        if left := self._nnz % self._range.size:
            self._log_factorials += _log_factorials(self._range[:left])
        mode_names, labels, patterns = tensor.mode_names, tensor.labels, tensor.missing.patterns
        report = tensor.report.to_json() if tensor.report is not None else ""
        row_totals = np.concatenate(self._row_totals)
        _write_array(self._folder / "row_totals", row_totals, ["row"])
        _write_array(self._folder / "missing_patterns", np.asarray(patterns, dtype=np.int64), ["pattern", "mode"])
        for mode, each in enumerate(labels):
            if not isinstance(each, range):
                text, offsets = as_utf8(each)
                _write_array(self._folder / f"labels_{mode}_utf8", text, [f"byte_{mode}"])
                _write_array(self._folder / f"labels_{mode}_offsets", offsets, [f"offset_{mode}"])
        numbers = self._nnz, self._total, self._largest, self._log_factorials
        sizes = Sizes(*numbers, self._order, self._chunk, self._chunks_per_shard)
        about = {"format": FORMAT, "shape": self._shape, "mode_names": list(mode_names), **sizes._asdict()}
        about |= {"report": report, "chunk_hashes": self._hashes, "labels": _hash_of_labels(labels)}
        if tensor.undirected_modes is not None:
            about["undirected"] = list(tensor.undirected_modes)
        about["row_totals_hash"] = _hash_of_totals(row_totals)
        about["log_factorials"] = sizes.log_factorials.hex()
        about["fingerprint"] = fingerprint_of(about, patterns)
        write_json(self._folder / ".zattrs", about)
        write_json(self._folder / ".zgroup", {"zarr_format": 2})

    def _write_chunk(self) -> None:
        """Write the chunk in memory, and begin a new one. In a file, the last chunk has the full size too."""
        number = len(self._hashes)
        self._hashes.append(hash_of_chunk(self._coords, self._counts))
        for name, values in ((f"coords/0.{number}", self._coords), (f"counts/{number}", self._counts)):
            with replacing(self._folder / name) as file:
                file.write(encode(values))
            values.fill(0)


def _pieces(before: int, cells: int, step: int) -> Iterator[tuple[slice, slice]]:
    """Cut cells that follow `before` others where blocks of `step` end: pieces of the cells, their places in blocks."""
    start = 0
    while start < cells:
        place = (before + start) % step
        length = min(cells - start, step - place)
        yield slice(start, start + length), slice(place, place + length)
        start += length


def _log_factorials(counts: Int64s) -> float:
    from scipy.special import gammaln

    return float(gammaln(counts + 1.0).sum())


def _new_array(
    folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any], dims: list[str]
) -> None:
    folder.mkdir()
    codec = {"id": CODEC, "level": 1, "checksum": True}
    write_json(
        folder / ".zarray",
        {
            "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype.str, "compressor": codec,
            "fill_value": 0, "order": "C", "filters": None,
        },
    )  # fmt: skip
    write_json(folder / ".zattrs", {"_ARRAY_DIMENSIONS": dims})


def _write_array(folder: Path, values: NDArray[Any], dims: list[str]) -> None:
    chunks = tuple(max(1, length) for length in values.shape)
    _new_array(folder, values.shape, chunks, values.dtype, dims)
    if values.size:
        with replacing(folder / ".".join("0" for _ in chunks)) as file:
            file.write(encode(values))


def write_shards(
    path: str | os.PathLike[str],
    about: CountTensor,
    order: tuple[int, ...],
    parts: Iterable[tuple[NDArray[Any], Int64s]],
    shards: int,
) -> None:
    """Write cells, which arrive in the order of the shards, to a new folder; `about` has everything else."""
    target = new_path(path)
    number = whole_number("shards", shards)
    require_memory(8 * sum(about.shape), f"the totals of {sum(about.shape):,} rows")
    with new_folder(target) as folder:
        writer = ShardWriter(folder, about.shape, order, about.nnz, number)
        for coords, counts in parts:
            writer.add(coords, counts)
        writer.finish(about)


def new_path(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return the path of a sharded tensor that does not exist yet."""
    target = path_of(path, argument)
    if target.suffix != ".zarr":
        raise InputError(argument, str(target), "must end in .zarr, as the folder of a sharded tensor does")
    if target.exists():
        raise InputError(argument, str(target), "exists already: choose another path")
    if not target.resolve().parent.is_dir():
        rule = f"must be in an existing folder; {str(target.resolve().parent)!r} does not exist"
        raise InputError(argument, str(target), rule)
    return target

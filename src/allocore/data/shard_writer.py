"""Writing sharded tensors (shard_files.py): cells come sorted, part by part, and are never all in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._files import replacing
from allocore.data.coordinates import Int64s
from allocore.data.fibre_order import cell_ranges
from allocore.data.labels import ModeLabels
from allocore.data.shard_files import (
    COUNT,
    FORMAT,
    Sizes,
    cut,
    fingerprint_of,
    hash_of_chunk,
    hash_of_labels,
    hash_of_totals,
)
from allocore.data.zarr_metadata import CODEC, write_json
from allocore.data.zstd_codec import encode


class ShardWriter:
    """Writes cells that come in the order of the shards, part by part, to a new folder."""

    def __init__(self, folder: Path, shape: Sequence[int], order: Sequence[int], nnz: int, shards: int) -> None:
        self._folder, self._shape, self._order, self._nnz = folder, tuple(shape), tuple(order), nnz
        self._chunk, self._chunks_per_shard = cut(nnz, shards)
        self._type = np.dtype("<u2" if max(shape) <= 2**16 else "<i4" if max(shape) < 2**31 else "<i8")
        self._row_totals = [np.zeros(length, dtype=np.int64) for length in shape]
        self._hashes: list[str] = []
        self._parts: list[tuple[NDArray[Any], Int64s]] = []
        self._waiting = 0
        self._log_factorials = _LogFactorials()
        self._total = self._largest = 0
        modes, step = len(shape), self._chunk
        _describe(folder / "coords", (modes, nnz), (modes, step), self._type, ["mode", "cell"])
        _describe(folder / "counts", (nnz,), (step,), COUNT, ["cell"])

    def add(self, coords: NDArray[Any], counts: Int64s) -> None:
        """Write more cells: coordinates (M, n) and counts (n)."""
        for totals, column in zip(self._row_totals, coords, strict=True):
            totals += _sums(column, counts, totals.size)
        self._total += int(counts.sum())
        self._largest = max(self._largest, int(counts.max(initial=0)))
        self._log_factorials.add(counts)
        self._parts.append((coords, counts))
        self._waiting += counts.size
        while self._waiting >= self._chunk:
            self._write_chunk(self._chunk)

    def finish(self, mode_names: Sequence[str], labels: Sequence[ModeLabels], patterns: Int64s, report: str) -> None:
        """Write the last cells and all that is known besides the cells."""
        if self._waiting:
            self._write_chunk(self._waiting)
        written = self._chunk * (len(self._hashes) - 1) + self._last
        if written != self._nnz:
            raise ValueError(f"{written} cells were written where {self._nnz} were announced")
        row_totals = np.concatenate(self._row_totals)
        write_array(self._folder / "row_totals", row_totals, ["row"])
        write_array(self._folder / "missing_patterns", np.asarray(patterns, dtype=np.int64), ["pattern", "mode"])
        for mode, each in enumerate(labels):
            if not isinstance(each, range):
                encoded = [str(label).encode() for label in each]
                text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
                write_array(self._folder / f"labels_{mode}_utf8", text, [f"byte_{mode}"])
                offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
                write_array(self._folder / f"labels_{mode}_offsets", offsets, [f"offset_{mode}"])
        sizes = Sizes(
            self._nnz, self._total, self._largest, self._log_factorials.sum(), self._order, self._chunk,
            self._chunks_per_shard,
        )  # fmt: skip
        about = {"format": FORMAT, "shape": self._shape, "mode_names": list(mode_names), **sizes._asdict()}
        about |= {"report": report, "chunk_hashes": self._hashes, "labels": hash_of_labels(labels)}
        about["row_totals_hash"] = hash_of_totals(row_totals)
        about["log_factorials"] = sizes.log_factorials.hex()
        about["fingerprint"] = fingerprint_of(about, patterns)
        write_json(self._folder / ".zattrs", about)
        write_json(self._folder / ".zgroup", {"zarr_format": 2})

    def _write_chunk(self, cells: int) -> None:
        """Write the first cells that wait; in a file, the last chunk has the full size too."""
        coords = np.zeros((len(self._shape), self._chunk), dtype=self._type)
        counts = np.zeros(self._chunk, dtype=COUNT)
        filled = 0
        while filled < cells:
            more_coords, more_counts = self._parts.pop(0)
            taken = min(more_counts.size, cells - filled)
            coords[:, filled : filled + taken], counts[filled : filled + taken] = (
                more_coords[:, :taken],
                more_counts[:taken],
            )
            if taken < more_counts.size:
                self._parts.insert(0, (more_coords[:, taken:], more_counts[taken:]))
            filled += taken
        self._waiting -= cells
        self._last = cells
        number = len(self._hashes)
        self._hashes.append(hash_of_chunk(coords, counts))
        for name, values in ((f"coords/0.{number}", coords), (f"counts/{number}", counts)):
            with replacing(self._folder / name) as file:
                file.write(encode(values))


class _LogFactorials:
    """The sum of ln y! over all cells, added up over the ranges that a tensor in memory uses, so that bytes agree."""

    def __init__(self) -> None:
        self._step = next(cell_ranges(2**62)).stop
        self._parts: list[Int64s] = []
        self._waiting, self._sum = 0, 0.0

    def add(self, counts: Int64s) -> None:
        self._parts.append(counts)
        self._waiting += counts.size
        if self._waiting >= self._step:
            counts = np.concatenate(self._parts)
            whole = counts.size - counts.size % self._step
            for start in range(0, whole, self._step):
                self._sum += _log_factorials(counts[start : start + self._step])
            self._parts, self._waiting = [counts[whole:]], counts.size - whole

    def sum(self) -> float:
        left = np.concatenate([np.empty(0, dtype=np.int64), *self._parts])
        return self._sum + _log_factorials(left) if left.size else self._sum


def _log_factorials(counts: Int64s) -> float:
    from scipy.special import gammaln

    return float(gammaln(counts + 1.0).sum())


def _sums(column: NDArray[Any], counts: Int64s, length: int) -> Int64s:
    """The sum of the counts of each row. Sums of floats are exact below 2^53; larger ones are added as integers."""
    if int(counts.sum()) < 2**53:
        return np.bincount(column, counts, length).astype(np.int64)
    sums = np.zeros(length, dtype=np.int64)
    np.add.at(sums, column, counts)
    return sums


def _describe(
    folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype[Any], dims: list[str]
) -> None:
    """Write the metadata of an array."""
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


def write_array(folder: Path, values: NDArray[Any], dims: list[str]) -> None:
    """Write a small array as one chunk."""
    chunks = tuple(max(1, length) for length in values.shape)
    _describe(folder, values.shape, chunks, values.dtype, dims)
    if values.size:
        with replacing(folder / ".".join("0" for _ in chunks)) as file:
            file.write(encode(values))

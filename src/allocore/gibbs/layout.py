"""The data as the kernels want it: non-zero cells, rows of all modes in one table, missing patterns sorted by row."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor
from allocore.kernels.workers import Workers

Ints: TypeAlias = NDArray[np.int64]

BLOCK = 1024
LARGE = 256
_SAMPLE = 2_000_000
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 4096 * BLOCK  # cells looked at together, so that no temporary array grows with the data


class Cells(NamedTuple):
    """The non-zero cells as thinning's kernels read them: modes in thinning's `order`, cells sorted by it.

    A count of LARGE or more is 0 in `small_N`; `large_L` are the cells that have one, `large_counts_L` those counts.
    """

    coords_MN: NDArray[Any]
    changed_N: NDArray[np.int8]  # the first mode in which a cell differs from the one before
    small_N: NDArray[np.uint8]
    large_L: Ints
    large_counts_L: Ints
    first_draw_B: Ints
    starts_M: Ints


@dataclass(frozen=True)
class PatternIndex:
    """The signed missing patterns as one mode sees them: those that name row d, and those that hold all its rows.

    The patterns of row d are `by_row_P[starts_D[d] : starts_D[d + 1]]`. Patterns with the same wildcards come together.
    """

    by_row_P: Ints
    starts_D: Ints
    everywhere_P: Ints

    @classmethod
    def of(cls, column_P: Ints, wildcards_P: Ints, length: int) -> "PatternIndex":
        """Index the patterns by their coordinate in one mode (-1 is the wildcard), then by all their wildcards."""
        sorted_P = np.lexsort([wildcards_P, column_P])
        everywhere_P, fixed_P = np.split(sorted_P, [np.searchsorted(column_P[sorted_P], 0)])
        starts_D = np.concatenate([[0], np.cumsum(np.bincount(column_P[fixed_P], minlength=length))])
        return cls(fixed_P, starts_D, everywhere_P)


@dataclass(frozen=True)
class Layout:
    """Everything about the data that a sweep reads, and the threads that work on it.

    Thinning takes the modes in its own `order`, the last the one along which cells have the most neighbours.
    Memory: two bytes a cell, and two (four where a mode has more than 65,536 rows, eight beyond 2^31) a coordinate.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    cells: Cells
    row_totals_R: NDArray[np.float64]
    log_factorials: float
    total: int
    patterns_PM: Ints
    weights_P: NDArray[np.float64]
    workers: Workers

    @classmethod
    def of(cls, tensor: CountTensor, workers: Workers) -> "Layout":
        """Lay out a tensor."""
        return cls.of_cells(tensor.coords, tensor.counts, tensor.missing, workers)

    @classmethod
    def of_cells(cls, coords: NDArray[Any], counts: Ints, missing: Missing, workers: Workers) -> "Layout":
        """Lay out cells, sorted with the first mode slowest. They need not make a tensor: there may be none."""
        patterns_PM, weights_P = missing.signed
        shape = missing.shape
        order = thinning_order(coords, shape)
        narrow = np.uint16 if max(shape) <= 2**16 else np.int32 if max(shape) < 2**31 else np.int64
        coords_MN = np.array(coords[list(order)], dtype=narrow, order="C")
        if order != tuple(range(len(shape))):
            place = np.lexsort(coords_MN[::-1])
            for m in range(len(order)):
                coords_MN[m] = coords_MN[m, place]
            counts = counts[place]
        offsets_M = _offsets(shape)
        return cls(
            shape=shape,
            order=order,
            cells=_cells(coords_MN, counts, offsets_M[list(order)]),
            row_totals_R=_row_totals(coords_MN, counts, shape, order),
            log_factorials=sum(float(gammaln(counts[part] + 1.0).sum()) for part in _chunks(len(counts))),
            total=int(counts.sum()),
            patterns_PM=np.ascontiguousarray(patterns_PM, dtype=np.int64),
            weights_P=np.asarray(weights_P, dtype=np.float64),
            workers=workers,
        )

    @cached_property
    def offsets_M(self) -> Ints:
        """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
        return _offsets(self.shape)

    @cached_property
    def indices(self) -> tuple[PatternIndex, ...]:
        """The missing patterns indexed by row, mode by mode."""
        columns = zip(self.patterns_PM.T, self.shape, strict=True)
        return tuple(PatternIndex.of(column_P, self.wildcards_P, length) for column_P, length in columns)

    @cached_property
    def wildcards_P(self) -> Ints:
        """Which modes each pattern leaves open, as bits."""
        return np.asarray(((self.patterns_PM < 0) << np.arange(len(self.shape))).sum(axis=1))

    @property
    def nnz(self) -> int:
        """How many cells there are."""
        return self.cells.small_N.size

    @property
    def blocks(self) -> int:
        """How many blocks of cells there are."""
        return self.cells.first_draw_B.size - 1

    @property
    def count_type(self) -> type[np.signedinteger[Any]]:
        """A type for tables of counts: 32 bits, which stay in the caches, where no sum can exceed them."""
        return np.int32 if self.total < 2**31 else np.int64

    def counts_of(self, which: Ints) -> Ints:
        """The counts of some cells, given in order."""
        counts = self.cells.small_N[which].astype(np.int64)
        counts[counts == 0] = self.cells.large_counts_L[np.searchsorted(self.cells.large_L, which[counts == 0])]
        return counts

    def rows(self, mode: int) -> slice:
        """The rows of one mode in a table over all rows."""
        return slice(int(self.offsets_M[mode]), int(self.offsets_M[mode + 1]))


def _offsets(shape: tuple[int, ...]) -> Ints:
    return np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)


def _chunks(cells: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, cells)) for start in range(0, cells, _CHUNK))


def _cells(coords_MN: NDArray[Any], counts: Ints, starts_M: Ints) -> Cells:
    modes, cells = coords_MN.shape
    changed_N, small_N = np.full(cells, modes - 1, dtype=np.int8), np.empty(cells, dtype=np.uint8)
    draws_B = np.empty(-(-cells // BLOCK), dtype=np.int64)
    for part in _chunks(cells):
        small_N[part] = np.where(counts[part] < LARGE, counts[part], 0)
        edges = np.arange(0, part.stop - part.start, BLOCK)
        draws_B[part.start // BLOCK :][: len(edges)] = np.add.reduceat(small_N[part], edges, dtype=np.int64)
        for m in range(modes - 2, -1, -1):
            column = coords_MN[m, max(part.start - 1, 0) : part.stop]
            changed_N[part.stop - len(column) + 1 : part.stop][column[1:] != column[:-1]] = m
    # A batch of cells may waste a uniform number: there is one more for every cell. Blocks begin at even numbers.
    first_draw_B = np.concatenate([[0], np.cumsum(draws_B + draws_B % 2 + BLOCK)])
    large_L = np.flatnonzero(small_N == 0)
    return Cells(coords_MN, changed_N, small_N, large_L, counts[large_L].astype(np.int64), first_draw_B, starts_M)


def _row_totals(
    coords_MN: NDArray[Any], counts: Ints, shape: tuple[int, ...], order: tuple[int, ...]
) -> NDArray[np.float64]:
    """The sum of the counts in the cells of each row."""
    totals = [np.zeros(length) for length in shape]
    for part in _chunks(len(counts)):
        for mode, column in zip(order, coords_MN[:, part], strict=True):
            totals[mode] += np.bincount(column, counts[part], shape[mode])
    return np.concatenate(totals)


def thinning_order(coords: NDArray[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of the modes for thinning: the given one, but last the mode along which there are the fewest fibres.

    Another mode than the given last one must save a quarter of the fibres, to be worth sorting the cells anew.
    """
    modes = range(len(shape))
    fibres = [_count_fibres(coords, shape, mode) for mode in modes]
    best = min(modes, key=fibres.__getitem__)
    last = best if fibres[best] < 0.75 * fibres[-1] else modes[-1]
    return (*(mode for mode in modes if mode != last), last)


def _count_fibres(coords: NDArray[Any], shape: tuple[int, ...], along: int) -> int:
    """The number of fibres along a mode; of many cells, the number among a sample of all possible fibres."""
    others = [mode for mode in range(len(shape)) if mode != along]
    sampled = max(1, coords.shape[1] // _SAMPLE)
    keys = []
    for part in _chunks(coords.shape[1]):
        mixed = np.zeros(part.stop - part.start, dtype=np.uint64)
        for mode in others:
            mixed = (mixed ^ coords[mode, part].astype(np.uint64)) * _ODD
            mixed ^= mixed >> np.uint64(29)
        keys.append(mixed[mixed % np.uint64(sampled) == 0] if sampled > 1 else mixed)
    return len(np.unique(np.concatenate(keys))) if keys else 0

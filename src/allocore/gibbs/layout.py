"""The data as the kernels want it: non-zero cells, rows of all modes in one table, missing patterns sorted by row."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from allocore._workers import Workers
from allocore.data.coordinates import column_keys
from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor

Ints: TypeAlias = NDArray[np.int64]

BLOCK = 1024
LARGE = 256


class Cells(NamedTuple):
    """The non-zero cells as thinning's kernels read them; modes in thinning's order."""

    coords_MN: NDArray[Any]
    changed_N: NDArray[np.int8]
    counts_N: Ints
    first_draw_B: Ints
    starts_M: Ints


@dataclass(frozen=True)
class PatternIndex:
    """The signed missing patterns as one mode sees them: those that name row d, and those that hold all its rows.

    The patterns of row d are `by_row_P[starts_D[d] : starts_D[d + 1]]`.
    """

    by_row_P: Ints
    starts_D: Ints
    everywhere_P: Ints

    @classmethod
    def of(cls, column_P: Ints, length: int) -> "PatternIndex":
        """Index the patterns by their coordinate in one mode (-1 is the wildcard)."""
        fixed = np.flatnonzero(column_P >= 0)
        starts_D = np.concatenate([[0], np.cumsum(np.bincount(column_P[fixed], minlength=length))])
        return cls(fixed[np.argsort(column_P[fixed], kind="stable")], starts_D, np.flatnonzero(column_P < 0))


@dataclass(frozen=True)
class Layout:
    """Everything about the data that a sweep reads, and the threads that work on it.

    Thinning takes the modes in its own `order`, the last the one along which cells have the most neighbours; `cells_MN`
    has the coordinates of the cells in that order of modes, sorted by it.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    cells_MN: NDArray[Any]
    cell_counts_N: NDArray[Any]
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
        if order != tuple(range(len(shape))):
            place = np.lexsort(coords[list(reversed(order))])
            coords, counts = coords[list(order)][:, place], counts[place]
        return cls(
            shape=shape,
            order=order,
            cells_MN=np.ascontiguousarray(coords, dtype=np.int32 if sum(shape) < 2**31 else np.int64),
            cell_counts_N=np.ascontiguousarray(counts, dtype=np.int64),
            patterns_PM=np.ascontiguousarray(patterns_PM, dtype=np.int64),
            weights_P=np.asarray(weights_P, dtype=np.float64),
            workers=workers,
        )

    @cached_property
    def offsets_M(self) -> Ints:
        """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
        return np.concatenate([[0], np.cumsum(self.shape)]).astype(np.int64)

    @cached_property
    def starts_M(self) -> Ints:
        """The same for the modes in thinning's order."""
        return self.offsets_M[list(self.order)]

    @cached_property
    def row_totals_R(self) -> NDArray[np.float64]:
        """The sum of the counts in the cells of each row."""
        totals = [
            np.bincount(self.cells_MN[self.order.index(mode)], self.cell_counts_N, length)
            for mode, length in enumerate(self.shape)
        ]
        return np.concatenate(totals)

    @cached_property
    def changed_N(self) -> NDArray[np.int8]:
        """For each cell the first mode, in thinning's order, in which it differs from the cell before."""
        final = len(self.shape) - 1
        changed_N = np.full(len(self.cell_counts_N), final, dtype=np.int8)
        for m in range(final - 1, -1, -1):
            changed_N[1:][self.cells_MN[m, 1:] != self.cells_MN[m, :-1]] = m
        return changed_N

    @cached_property
    def cells(self) -> Cells:
        """The cells for the kernels."""
        return Cells(self.cells_MN, self.changed_N, self.cell_counts_N, self.first_draw_B, self.starts_M)

    @cached_property
    def indices(self) -> tuple[PatternIndex, ...]:
        """The missing patterns indexed by row, mode by mode."""
        columns = zip(self.patterns_PM.T, self.shape, strict=True)
        return tuple(PatternIndex.of(column_P, length) for column_P, length in columns)

    @cached_property
    def log_factorials(self) -> float:
        """The sum of log y! over the cells, a constant of the log-likelihood."""
        return float(gammaln(self.cell_counts_N + 1.0).sum())

    @property
    def nnz(self) -> int:
        """How many cells there are."""
        return len(self.cell_counts_N)

    @property
    def blocks(self) -> int:
        """How many blocks of cells there are."""
        return -(-len(self.cell_counts_N) // BLOCK)

    @cached_property
    def first_draw_B(self) -> Ints:
        """The number of the first uniform of each block: even, and beyond all that the blocks before it can use.

        A count that is not large uses one, and a batch of cells may waste one.
        """
        single_N = np.where(self.cell_counts_N < LARGE, self.cell_counts_N, 0)
        single_B = np.add.reduceat(single_N, np.arange(0, len(single_N), BLOCK)) if len(single_N) else single_N
        return np.concatenate([[0], np.cumsum(single_B + single_B % 2 + BLOCK)]).astype(np.int64)

    @cached_property
    def large_B(self) -> Ints:
        """The number of cells with a large count in each block."""
        large_N = (self.cell_counts_N >= LARGE).astype(np.int64)
        return np.add.reduceat(large_N, np.arange(0, len(large_N), BLOCK)) if len(large_N) else large_N

    @cached_property
    def count_type(self) -> type[np.signedinteger[Any]]:
        """A type for tables of counts: 32 bits, which stay in the caches, where no sum can exceed them."""
        return np.int32 if int(self.cell_counts_N.sum()) < 2**31 else np.int64

    def rows(self, mode: int) -> slice:
        """The rows of one mode in a table over all rows."""
        return slice(int(self.offsets_M[mode]), int(self.offsets_M[mode + 1]))


def thinning_order(coords: NDArray[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of the modes for thinning: the given one, but last the mode along which there are the fewest fibres.

    Another mode than the given last one must save a quarter of the fibres: sorting anew needs a copy of the cells.
    """
    modes = range(len(shape))
    fibres = [_count_fibres(coords, shape, mode) for mode in modes]
    best = min(modes, key=fibres.__getitem__)
    last = best if fibres[best] < 0.75 * fibres[-1] else modes[-1]
    return (*(mode for mode in modes if mode != last), last)


def _count_fibres(coords: NDArray[Any], shape: tuple[int, ...], along: int) -> int:
    others = [mode for mode in range(len(shape)) if mode != along]
    (keys,) = column_keys([shape[mode] for mode in others], coords[others])
    return len(np.unique(keys))

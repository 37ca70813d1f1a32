"""The data as the kernels want it: non-zero cells, rows of all modes in one table, missing patterns sorted by row."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from allocore._workers import Workers
from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor

Ints: TypeAlias = NDArray[np.int64]


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
    """Everything about the data that a sweep reads, and the threads that work on it."""

    shape: tuple[int, ...]
    coords_MN: NDArray[Any]
    counts_N: Ints
    patterns_PM: Ints
    weights_P: NDArray[np.float64]
    workers: Workers

    @classmethod
    def of(cls, tensor: CountTensor, workers: Workers) -> "Layout":
        """Lay out a tensor."""
        return cls.of_cells(tensor.coords, tensor.counts, tensor.missing, workers)

    @classmethod
    def of_cells(cls, coords: NDArray[Any], counts: Ints, missing: Missing, workers: Workers) -> "Layout":
        """Lay out cells that need not make a tensor: there may be none, or some of count zero."""
        patterns_PM, weights_P = missing.signed
        shape = missing.shape
        return cls(
            shape=shape,
            coords_MN=np.ascontiguousarray(coords, dtype=np.int32 if sum(shape) < 2**31 else np.int64),
            counts_N=np.ascontiguousarray(counts, dtype=np.int64),
            patterns_PM=np.ascontiguousarray(patterns_PM, dtype=np.int64),
            weights_P=np.asarray(weights_P, dtype=np.float64),
            workers=workers,
        )

    @cached_property
    def offsets_M(self) -> Ints:
        """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
        return np.concatenate([[0], np.cumsum(self.shape)]).astype(np.int64)

    @cached_property
    def indices(self) -> tuple[PatternIndex, ...]:
        """The missing patterns indexed by row, mode by mode."""
        columns = zip(self.patterns_PM.T, self.shape, strict=True)
        return tuple(PatternIndex.of(column_P, length) for column_P, length in columns)

    @cached_property
    def log_factorials(self) -> float:
        """The sum of log y! over the cells, a constant of the log-likelihood."""
        return float(gammaln(self.counts_N + 1.0).sum())

    def rows(self, mode: int) -> slice:
        """The rows of one mode in a table over all rows."""
        return slice(int(self.offsets_M[mode]), int(self.offsets_M[mode + 1]))

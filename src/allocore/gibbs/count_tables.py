"""Tables of counts by row and class that several threads fill at once.

For modes with small tables, every thread has its own table, and these are added up at the end. For a long mode, all
threads add atomically to one table: its rows lie far apart in memory, so threads seldom meet, and a copy for every
thread would cost more than it saves. Counts are integers, so the sums do not depend on the order.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.layout import Layout
from allocore.kernels.arrays import Indices, Ints
from allocore.kernels.jit import part
from allocore.kernels.simd import add_shared

COPIED_BYTES = 2**25  # the largest table of a mode that is copied for every thread


class Table(NamedTuple):
    """Where one thread adds: for the modes `own_M` to `own_RQ`, for the modes `common_M` to the shared `whole_RQ`.

    `own_starts_M` and `starts_M` say where the rows of each mode begin. Modes are numbered in thinning's order.
    """

    own_RQ: NDArray[Any]
    own_M: Ints
    own_starts_M: Ints
    whole_RQ: NDArray[Any]
    common_M: Ints
    starts_M: Ints


@dataclass(frozen=True)
class Tables:
    """The tables of all threads; the first thread's own table is the whole one."""

    by_thread: list[Table]
    own_rows: list[slice]

    @classmethod
    def of(cls, layout: Layout, budget: int, count_type: type[np.signedinteger[Any]]) -> "Tables":
        """Empty tables."""
        threads = layout.workers.threads
        whole_RQ = np.zeros((sum(layout.shape), budget), dtype=count_type)
        row_bytes = budget * whole_RQ.itemsize
        is_own_M = [threads == 1 or layout.shape[mode] * row_bytes <= COPIED_BYTES for mode in layout.order]
        own_M, common_M = np.flatnonzero(is_own_M), np.flatnonzero(np.logical_not(is_own_M))
        own_lengths = [layout.shape[mode] if own else 0 for mode, own in zip(layout.order, is_own_M, strict=True)]
        own_starts_M = np.cumsum([0, *own_lengths[:-1]])
        common = whole_RQ, common_M, layout.nonzeros.starts_M
        first = Table(whole_RQ, own_M, layout.nonzeros.starts_M, *common)
        others = [
            Table(np.zeros((sum(own_lengths), budget), dtype=whole_RQ.dtype), own_M, own_starts_M, *common)
            for _ in range(threads - 1)
        ]
        return cls([first, *others], [layout.rows(layout.order[m]) for m in own_M])

    def add_up(self) -> NDArray[Any]:
        """The counts of all threads together."""
        whole_RQ = self.by_thread[0].whole_RQ
        for table in self.by_thread[1:]:
            for m, rows in zip(table.own_M, self.own_rows, strict=True):
                start = table.own_starts_M[m]
                whole_RQ[rows] += table.own_RQ[start : start + rows.stop - rows.start]
        return whole_RQ


@part
def add_draws(
    n: int, draws: int, coords_MN: NDArray[Any], cell_D: Indices, class_D: Indices, own_starts_M: Ints,
    own_RQ: NDArray[Any],
) -> None:  # fmt: skip
    """Add one count of class_D[d] to the rows of cell n + cell_D[d], for every draw d; no table is in common."""
    for d in range(draws):
        cell, q = np.uint64(n) + cell_D[d], class_D[d]
        for m in range(own_starts_M.size):
            own_RQ[np.uint64(own_starts_M[m] + coords_MN[m, cell]), q] += 1


@part
def add_draws_in_common(
    n: int, draws: int, coords_MN: NDArray[Any], cell_D: Indices, class_D: Indices, table: Table
) -> None:
    """The same, if threads share the tables of some modes."""
    own_RQ, own_M, own_starts_M, whole_RQ, common_M, starts_M = table
    for d in range(draws):
        cell, q = np.uint64(n) + cell_D[d], class_D[d]
        for m in own_M:
            own_RQ[np.uint64(own_starts_M[m] + coords_MN[m, cell]), q] += 1
        for m in common_M:
            add_shared(whole_RQ, starts_M[m] + coords_MN[m, cell], q, 1)


@part
def add(table: Table, coords_MN: NDArray[Any], n: Any, q: Any, amount: Any) -> None:
    """Add `amount` counts of class q to the rows of cell n."""
    own_RQ, own_M, own_starts_M, whole_RQ, common_M, starts_M = table
    for m in own_M:
        own_RQ[own_starts_M[m] + coords_MN[m, n], q] += amount
    for m in common_M:
        add_shared(whole_RQ, starts_M[m] + coords_MN[m, n], q, amount)

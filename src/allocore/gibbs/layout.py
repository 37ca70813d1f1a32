"""The data in the form that a sweep reads: non-zero cells sorted into fibres, missing patterns, and the threads.

The workspace has the arrays that a chain keeps from sweep to sweep, because allocating them again would take time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from allocore.kernels.elementary import Floats, Ints, Singles
from allocore.kernels.exposure_sums import (
    ROWS_PER_THREAD,
    Expanded,
    RowScale,
    SignedPatterns,
    changed_modes,
    expand_logs,
    row_offsets,
    scale_rows,
    scaled_sums,
    sorted_coords,
)
from allocore.kernels.simd import LEVEL, aligned_zeros, padded
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS
from allocore.model.state import State
from allocore.tensor.coordinates import cell_ranges, fibre_order
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.missing import Missing
from allocore.tensor.sharded import ShardedTensor

BLOCK = 1024  # consecutive cells that one thread thins
LARGE = 256  # counts from here on are split by binomials, smaller ones are drawn one by one


class NonZeros(NamedTuple):
    """The non-zero cells, sorted by the modes in thinning's `order`; counts of LARGE or more are 0 in `small_N`.

    Cell n is number `first_cell` + n of the whole tensor, which may be cut into shards between blocks
    (run/cluster/shards.py). By these numbers, and by `first_draw_B` for the blocks, every cell has its own random
    numbers.
    """

    coords_MN: NDArray[Any]
    changed_N: NDArray[np.int8]  # the first mode in which a cell differs from the one before
    small_N: NDArray[np.uint8]
    large_L: Ints
    large_counts_L: Ints
    first_draw_B: Ints
    starts_M: Ints
    first_cell: int


@dataclass(frozen=True)
class Layout:
    """All data that a sweep reads, and the threads; thinning has its own `order` of modes, the longest fibres last.

    Memory: two bytes per cell and per coordinate (four if a mode has more than 65,536 rows, eight beyond 2^31).
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    nonzeros: NonZeros
    row_totals_R: Floats
    log_factorials: float
    total: int
    missing: SignedPatterns
    workers: Workers
    undirected: tuple[int, int] | None = None  # the modes between which a cell is a pair, missing in both directions

    @classmethod
    def of(cls, tensor: CountTensor, workers: Workers) -> "Layout":
        """Lay out a tensor."""
        return cls.of_cells(tensor.coords, tensor.counts, tensor.missing, workers, tensor.undirected_modes)

    @classmethod
    def of_cells(
        cls, coords: NDArray[Any], counts: Ints, missing: Missing, workers: Workers,
        undirected: tuple[int, int] | None = None,
    ) -> "Layout":  # fmt: skip
        """Lay out cells that are sorted, the first mode slowest. Unlike a tensor, there may be no cells at all."""
        shape = missing.shape
        order = fibre_order([coords], shape, coords.shape[1])
        coords_MN, place_N = sorted_coords(coords, order, shape, sorted_already=True)
        counts = counts[place_N]
        return cls(
            shape=shape,
            order=order,
            nonzeros=nonzeros_of(coords_MN, counts, row_offsets(shape)[list(order)]),
            row_totals_R=_row_totals(coords_MN, counts, shape, order),
            log_factorials=sum(float(gammaln(counts[part] + 1.0).sum()) for part in cell_ranges(len(counts))),
            total=int(counts.sum()),
            missing=SignedPatterns.of(missing),
            workers=workers,
            undirected=undirected,
        )

    @classmethod
    def without_cells(cls, tensor: ShardedTensor, workers: Workers) -> "Layout":
        """Lay out a tensor whose cells are thinned elsewhere: what every other step reads."""
        tensor.check_there()
        shape, sizes = tensor.shape, tensor.files.sizes
        no_cells = np.empty((len(shape), 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        return cls(
            shape=shape,
            order=sizes.order,
            nonzeros=nonzeros_of(*no_cells, row_offsets(shape)[list(sizes.order)]),
            row_totals_R=tensor.files.row_totals().astype(np.float64),
            log_factorials=sizes.log_factorials,
            total=sizes.total,
            missing=SignedPatterns.of(tensor.missing),
            workers=workers,
            undirected=tensor.undirected_modes,
        )

    @cached_property
    def offsets_M(self) -> Ints:
        """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
        return row_offsets(self.shape)

    @property
    def nnz(self) -> int:
        """The number of non-zero cells."""
        return self.nonzeros.small_N.size

    @property
    def blocks(self) -> int:
        """The number of blocks of cells."""
        return self.nonzeros.first_draw_B.size - 1

    @property
    def count_type(self) -> type[np.signedinteger[Any]]:
        """The type of count tables: 32 bits if no sum can overflow, so that tables stay in the caches."""
        return np.int32 if self.total < 2**31 else np.int64

    def counts_of(self, which: Ints) -> Ints:
        """The counts of the cells `which`, in this order."""
        counts = self.nonzeros.small_N[which].astype(np.int64)
        counts[counts == 0] = self.nonzeros.large_counts_L[np.searchsorted(self.nonzeros.large_L, which[counts == 0])]
        return counts

    def rows(self, mode: int) -> slice:
        """The rows of one mode in a table over all rows."""
        return slice(int(self.offsets_M[mode]), int(self.offsets_M[mode + 1]))


def nonzeros_of(coords_MN: NDArray[Any], counts: Ints, starts_M: Ints, first_cell: int = 0) -> NonZeros:
    """Sorted cells as the kernels read them: those of the whole tensor, or of a shard that begins with a block."""
    cells = coords_MN.shape[1]
    small_N, draws_B = np.empty(cells, dtype=np.uint8), np.empty(-(-cells // BLOCK), dtype=np.int64)
    for part in cell_ranges(cells):
        small_N[part] = np.where(counts[part] < LARGE, counts[part], 0)
        edges = np.arange(0, part.stop - part.start, BLOCK)
        draws_B[part.start // BLOCK :][: len(edges)] = np.add.reduceat(small_N[part], edges, dtype=np.int64)
    # A batch of cells may waste a uniform number, so every cell has one to spare. Blocks begin at even numbers.
    first_draw_B = np.concatenate([[0], np.cumsum(draws_B + draws_B % 2 + BLOCK)])
    large_L = np.flatnonzero(small_N == 0)
    large_counts_L = counts[large_L].astype(np.int64)
    changed_N = changed_modes(coords_MN)
    return NonZeros(coords_MN, changed_N, small_N, large_L, large_counts_L, first_draw_B, starts_M, first_cell)


def _row_totals(coords_MN: NDArray[Any], counts: Ints, shape: Sequence[int], order: Sequence[int]) -> Floats:
    totals = [np.zeros(length) for length in shape]
    for part in cell_ranges(len(counts)):
        for mode, column in zip(order, coords_MN[:, part], strict=True):
            totals[mode] += np.bincount(column, counts[part], shape[mode])
    return np.concatenate(totals)


class ScaledRows(NamedTuple):
    """The expanded factors in 32 bits, in one mode times the core values, padded with zeros to whole levels of lanes.

    Each row is divided by its largest number (`log_scale_R`), which changes no probability within a cell.
    """

    scaled_RL: Singles
    log_scale_R: Floats


class Workspace:
    """The expanded factors of a chain's state (kernels/exposure_sums.py): the only mutable object in a sweep.

    `scale` is c by row (model/likelihood.py), or None if c = 1. Call `renew` for a changed mode, `rescale` for a new p.
    """

    def __init__(self, layout: Layout, budget: int) -> None:
        modes, length = len(layout.shape), sum(layout.shape)
        self._layout = layout
        self.scale: RowScale | None = None
        self.expanded = Expanded(np.empty((length, budget)), np.empty((modes, budget)))
        self._scaled = ScaledRows(aligned_zeros(length, padded(budget, LEVEL)), np.empty(length))

    @classmethod
    def of(cls, layout: Layout, state: State) -> "Workspace":
        """The workspace of a state."""
        workspace = cls(layout, len(state.log_core_Q))
        workspace.renew_all(state)
        workspace.rescale(state)
        return workspace

    def renew(self, state: State, mode: int) -> None:
        """Expand one mode again, after its locations or factors have changed."""
        phi_DQ, subs_Q = self.rows(mode), np.ascontiguousarray(state.subs_QM[:, mode])
        expand_logs(self._layout.workers, state.log_phi[mode], subs_Q, phi_DQ)
        self.expanded.sums_MQ[mode] = scaled_sums(phi_DQ, mode, self.scale)

    def rescale(self, state: State) -> None:
        """Take c from the state again, after its dispersion has changed."""
        layout, dispersion = self._layout, state.dispersion
        if dispersion is not None:
            # A single c can be given to the rows of any mode; it costs least in the shortest.
            mode = int(np.argmin(layout.shape)) if dispersion.mode is None else dispersion.mode
            scale_D = LIKELIHOODS["negative-binomial"].latent_scale(dispersion.log_odds_D)
            self.scale = RowScale(mode, np.broadcast_to(scale_D, layout.shape[mode]))
            self.expanded.sums_MQ[mode] = scaled_sums(self.rows(mode), mode, self.scale)

    def renew_all(self, state: State) -> None:
        """Expand all modes again."""
        for mode in range(len(self._layout.shape)):
            self.renew(state, mode)

    def rows(self, mode: int) -> Floats:
        """The expanded factors of one mode, (D, Q)."""
        return self.expanded.phi_RQ[self._layout.rows(mode)]

    def scaled_rows(self, state: State) -> ScaledRows:
        """Compute the rows that thinning multiplies; the core values go into the first mode of thinning's order."""
        layout, calls = self._layout, []
        ones_Q, core_Q = np.ones(len(state.log_core_Q)), state.core_values()
        for mode, length in enumerate(layout.shape):
            phi_DQ, weights_Q = self.rows(mode), core_Q if mode == layout.order[0] else ones_Q
            here = layout.rows(mode)
            scaled_DL, log_scale_D = self._scaled.scaled_RL[here], self._scaled.log_scale_R[here]
            calls += [
                partial(scale_rows, *cut, phi_DQ, weights_Q, scaled_DL, log_scale_D)
                for cut in layout.workers.ranges(length, ROWS_PER_THREAD)
            ]
        layout.workers.run(calls)
        return self._scaled

    def of_classes(self, which: Ints) -> "Workspace":
        """A workspace with only the classes `which`."""
        only = Workspace(self._layout, len(which))
        np.take(self.expanded.phi_RQ, which, axis=1, out=only.expanded.phi_RQ)
        np.take(self.expanded.sums_MQ, which, axis=1, out=only.expanded.sums_MQ)
        only.scale = self.scale
        return only

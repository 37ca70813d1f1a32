"""Shards: a range of the sorted cells as a layout of its own, thinned apart from the others.

Thinning is the only step that reads cells, and it treats every block of them alone. So the cells may be anywhere: a
shard is thinned where it is, given the rows of the factors that its cells touch, and what it returns is added up.
Counts are integers, and the parts of the log-likelihood are put together in the order of the cells before they are
summed; random numbers belong to the numbers of cells and draws in the whole tensor. So the bytes are those of one
layout, whatever the shards (CONTRIBUTING.md has the rules).

A shard knows rows by its own numbers: only rows that it touches are sent to it, and come back. Cells are sorted, so of
the first mode of the order two shards share at most a row, and the tables of a long mode do not travel whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.missing import Missing
from allocore.gibbs.layout import Layout, nonzeros_of
from allocore.gibbs.thinning import ThinnedCells, thin_here
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.expansion import row_offsets
from allocore.kernels.random import Key
from allocore.kernels.signed_patterns import SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.state import State


@dataclass(frozen=True)
class Shard:
    """The cells of a shard, whose rows have numbers of their own, and for each mode the rows that are meant by them."""

    layout: Layout
    rows: tuple[Ints, ...]

    @classmethod
    def of(
        cls, coords: NDArray[Any], counts: Ints, shape: tuple[int, ...], order: tuple[int, ...], first_cell: int,
        workers: Workers,
    ) -> "Shard":  # fmt: skip
        """A shard of cells that are sorted by `order`, from number `first_cell` of the tensor on: a whole block."""
        rows = tuple(_touched(column, length) for column, length in zip(coords, shape, strict=True))
        lengths = tuple(len(each) for each in rows)
        coords_MN = np.empty_like(coords)
        for m, mode in enumerate(order):
            own_D = np.zeros(shape[mode], dtype=coords.dtype)
            own_D[rows[mode]] = np.arange(lengths[mode])
            coords_MN[m] = own_D[coords[mode]]
        layout = Layout(
            shape=lengths,
            order=order,
            nonzeros=nonzeros_of(coords_MN, counts, row_offsets(lengths)[list(order)], first_cell),
            row_totals_R=np.empty(0),
            log_factorials=0.0,
            total=int(counts.sum()),
            missing=SignedPatterns.of(Missing.none(lengths)),
            workers=workers,
        )
        return cls(layout, rows)

    @property
    def draws(self) -> int:
        """How many places in the streams of random numbers belong to the blocks of this shard."""
        return int(self.layout.nonzeros.first_draw_B[-1] - self.layout.nonzeros.first_draw_B[0])

    def thin(
        self, key: Key, first_draw: int, likelihood: int, state: State, count_type: type[np.signedinteger[Any]],
        workers: Workers,
    ) -> ThinnedCells:  # fmt: skip
        """Thin the cells, given a state of their rows alone (`state_of_rows`)."""
        nonzeros = self.layout.nonzeros
        placed = nonzeros._replace(first_draw_B=nonzeros.first_draw_B + first_draw)
        layout = replace(self.layout, nonzeros=placed, workers=workers)
        return thin_here(key, layout, likelihood, state, Workspace.of(layout, state), count_type)


def _touched(column: NDArray[Any], length: int) -> Ints:
    """The rows that occur in a column of coordinates, sorted."""
    occurs_D = np.zeros(length, dtype=np.bool_)
    occurs_D[column] = True
    return np.flatnonzero(occurs_D)


def state_of_rows(state: State, rows: Sequence[Ints]) -> State:
    """What thinning needs of a state: core values and, of the factors in use, the given rows of each mode."""
    log_phi, subs_QM = [], np.empty_like(state.subs_QM)
    for mode, rows_d in enumerate(rows):
        used_U, subs_QM[:, mode] = np.unique(state.subs_QM[:, mode], return_inverse=True)
        log_phi.append(state.log_phi[mode][np.ix_(rows_d, used_U)])
    return State(state.log_core_Q, subs_QM, tuple(log_phi), np.empty(0), None)


def layout_without_cells(
    shape: tuple[int, ...], order: tuple[int, ...], row_totals_R: Floats, log_factorials: float, total: int,
    missing: Missing, workers: Workers,
) -> Layout:  # fmt: skip
    """The layout of a tensor whose cells are all in shards: what every step but thinning reads."""
    nothing = np.empty((len(shape), 0), dtype=np.int64), np.empty(0, dtype=np.int64)
    nonzeros = nonzeros_of(*nothing, row_offsets(shape)[list(order)])
    return Layout(shape, order, nonzeros, row_totals_R, log_factorials, total, SignedPatterns.of(missing), workers)


def joined(
    thinned: Sequence[ThinnedCells], rows: Sequence[Sequence[Ints]], layout: Layout, log_scale_R: Floats,
    count_type: type[np.signedinteger[Any]],
) -> ThinnedCells:  # fmt: skip
    """What all shards, in the order of their cells, give together; `rows` has the rows of each."""
    y_RQ = np.zeros((sum(layout.shape), thinned[0].y_RQ.shape[1]), dtype=count_type)
    for each, rows_M in zip(thinned, rows, strict=True):
        edges = row_offsets([len(rows_d) for rows_d in rows_M]).tolist()
        for mode, (rows_d, (start, stop)) in enumerate(zip(rows_M, pairwise(edges), strict=True)):
            y_RQ[layout.rows(mode)][rows_d] += each.y_RQ[start:stop]
    return ThinnedCells(
        y_RQ,
        np.concatenate([each.log_fit_B for each in thinned]),
        np.concatenate([each.log_fit_L for each in thinned]),
        np.concatenate([each.log_fit_U for each in thinned]),
        log_scale_R,
    )

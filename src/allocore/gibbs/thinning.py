"""Thinning: the count of each non-zero cell is allocated to the classes (the paper's conditional for y_{d,q}):

    (y_d1 .. y_dQ) ~ Multinomial( y_d, p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]].

Only the sums over cells are kept: `y_RQ`, the counts of class q in the cells of each row. The sum of the products is
the cell's rate, so the log-likelihood of the state comes with it. Cost: non-zeros * M * Q products, and the draws.

Every cell draws from its own place in the random stream, and counts are integers, so neither depends on the threads;
the log-likelihood is added up in blocks of fixed size, then over the blocks in order.
"""

from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._jit import kernel
from allocore.gibbs._draws import categorical, multinomial
from allocore.gibbs._random import Key, Step, Words, scratch, seat
from allocore.gibbs.layout import Ints, Layout
from allocore.gibbs.rows import Rows
from allocore.model.state import State

_BLOCK = 256
_TINY = 1e-250
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Allocation:
    """Counts by row and class, and sum over cells of y log(rate) under the state they were drawn from."""

    y_RQ: Ints
    log_rates: float

    def per_class(self, first_mode: slice) -> Ints:
        """Counts of each class, y_q; the rows of any one mode add up to them."""
        return np.asarray(self.y_RQ[first_mode].sum(axis=0))


def thin(key: Key, layout: Layout, rows: Rows, state: State) -> Allocation:
    """Allocate every count to a class."""
    cells = len(layout.counts_N)
    log_rates_B = np.zeros(-(-cells // _BLOCK))
    ranges = layout.workers.ranges(len(log_rates_B))
    tables = np.zeros((len(ranges), *rows.phi_RQ.shape), dtype=np.int64)
    log_phi, starts_M, widths_M = _flat_factors(state)
    stream = key.stream(Step.THIN)
    layout.workers.run(
        [
            partial(
                _thin_blocks, first, last, layout.coords_MN, layout.counts_N, layout.offsets_M, rows.phi_RQ,
                state.core_values(), log_phi, starts_M, widths_M, state.subs_QM, state.log_core_Q, stream, scratch(),
                log_rates_B, table,
            )
            for (first, last), table in zip(ranges, tables, strict=True)
        ]
    )  # fmt: skip
    y_RQ = tables[0] if len(ranges) == 1 else tables.sum(axis=0)
    return Allocation(y_RQ, float(log_rates_B.sum()))


def _flat_factors(state: State) -> tuple[_Floats, Ints, Ints]:
    """All log factors in one run of numbers, where each mode begins in it, and how wide its rows are."""
    starts = np.cumsum([0, *(log_phi_DK.size for log_phi_DK in state.log_phi)])[:-1]
    widths = np.array([log_phi_DK.shape[1] for log_phi_DK in state.log_phi])
    return np.concatenate([log_phi_DK.ravel() for log_phi_DK in state.log_phi]), starts, widths


@kernel
def _thin_blocks(
    first: int, last: int, coords_MN: NDArray[Any], counts_N: Ints, offsets_M: Ints, phi_RQ: _Floats, core_Q: _Floats,
    log_phi: _Floats, starts_M: Ints, widths_M: Ints, subs_QM: Ints, log_core_Q: _Floats, stream: Words, rng: Words,
    log_rates_B: _Floats, y_RQ: Ints,
) -> None:  # fmt: skip
    budget = core_Q.size
    cumulative_Q = np.empty(budget)
    split_Q = np.empty(budget, dtype=np.int64)
    stack = np.empty((64, 3), dtype=np.int64)
    rows_M = np.empty(coords_MN.shape[0], dtype=np.int64)
    for block in range(first, last):
        for n in range(block * _BLOCK, min((block + 1) * _BLOCK, counts_N.size)):
            for m in range(rows_M.size):
                rows_M[m] = offsets_M[m] + coords_MN[m, n]
            log_scale = _accumulate_products(rows_M, phi_RQ, core_Q, cumulative_Q)
            if cumulative_Q[budget - 1] < _TINY:
                log_scale = _accumulate_in_logs(
                    coords_MN, n, log_phi, starts_M, widths_M, subs_QM, log_core_Q, cumulative_Q
                )
            log_rates_B[block] += counts_N[n] * (log(cumulative_Q[budget - 1]) + log_scale)
            seat(rng, stream, n)
            _allocate(rng, counts_N[n], cumulative_Q, rows_M, stack, split_Q, y_RQ)


@kernel
def _accumulate_products(rows_M: Ints, phi_RQ: _Floats, core_Q: _Floats, cumulative_Q: _Floats) -> float:
    """Running sums over the classes of lambda_q prod_m phi; returns the logarithm of their scale, which is 0."""
    cumulative_Q[:] = core_Q
    for m in range(rows_M.size):
        row_Q = phi_RQ[rows_M[m]]
        for q in range(core_Q.size):
            cumulative_Q[q] *= row_Q[q]
    total = 0.0
    for q in range(core_Q.size):
        total += cumulative_Q[q]
        cumulative_Q[q] = total
    return 0.0


@kernel
def _accumulate_in_logs(
    coords_MN: NDArray[Any], n: int, log_phi: _Floats, starts_M: Ints, widths_M: Ints, subs_QM: Ints,
    log_core_Q: _Floats, cumulative_Q: _Floats,
) -> float:  # fmt: skip
    """The same where the products underflow: relative to the largest, whose logarithm is returned."""
    top = -np.inf
    for q in range(log_core_Q.size):
        cumulative_Q[q] = log_core_Q[q]
        for m in range(starts_M.size):
            cumulative_Q[q] += log_phi[starts_M[m] + coords_MN[m, n] * widths_M[m] + subs_QM[q, m]]
        top = max(top, cumulative_Q[q])
    total = 0.0
    for q in range(log_core_Q.size):
        total += exp(cumulative_Q[q] - top)
        cumulative_Q[q] = total
    return top


@kernel
def _allocate(
    rng: Words, count: int, cumulative_Q: _Floats, rows_M: Ints, stack: Ints, split_Q: Ints, y_RQ: Ints
) -> None:
    """Draw the classes of a cell's counts and add them to the rows of the cell: one by one, or many at once."""
    if count < cumulative_Q.size:
        for _ in range(count):
            q = categorical(rng, cumulative_Q)
            for m in range(rows_M.size):
                y_RQ[rows_M[m], q] += 1
        return
    multinomial(rng, count, cumulative_Q, stack, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            for m in range(rows_M.size):
                y_RQ[rows_M[m], q] += split_Q[q]

"""Thinning: the count of each non-zero cell is allocated to the classes (the paper's conditional for y_{d,q}):

    (y_d1 .. y_dQ) ~ Multinomial( y_d, p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]].

Only the sums over cells are kept: `y_RQ`, the counts of class q in the cells of each row. The sum of the products is
the cell's rate, so the log-likelihood of the state comes with it.

How it is quick. Cells come in fibres: consecutive cells differ in the last mode alone, so the product over the other
modes is made once a fibre. The last product, in 32-bit floats, and its sum, in 64, stay in SIMD lanes (_simd.py). A
count is drawn with one uniform number of 52 bits from a stream made in bulk. Cost: about non-zeros * Q multiplications,
and the draws.

Where that is not good enough it is done carefully, in 64 bits: large counts, which are split by binomials, and cells
whose products are too small; where these underflow even in 64 bits, in logarithms.

Every draw has its own place in the random stream, and counts are integers, so neither depends on the threads; the
log-likelihood is added up in blocks of fixed size, then over the blocks in order.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._jit import inlined, kernel
from allocore.gibbs._draws import multinomial
from allocore.gibbs._random import Key, Step, Words, fill_uniforms, scratch, seat
from allocore.gibbs._simd import LANES, lane_sums, place_above
from allocore.gibbs.layout import BLOCK, LARGE, Ints, Layout
from allocore.gibbs.rows import Rows
from allocore.model.state import State

_TINY = 1e-25  # the least sum of scaled 32-bit products that is trusted
_LEAST = 1e-250  # the least largest 64-bit product that is
_UNIFORMS = 256
_Floats = NDArray[np.float64]
_Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Allocation:
    """Counts by row and class, and sum over cells of y log(rate) under the state they were drawn from."""

    y_RQ: Ints
    log_rates: float


def thin(key: Key, layout: Layout, rows: Rows, state: State) -> Allocation:
    """Allocate every count to a class."""
    rows.scale(layout, state)
    log_totals_B = np.zeros(layout.blocks)
    ranges = ranges_of_equal_work(layout, rows.phi_RQ.shape[1])
    tables = np.zeros((len(ranges), *rows.phi_RQ.shape), dtype=layout.count_type)
    shared = (
        *(layout.cells_MN, layout.changed_N, layout.cell_counts_N, layout.first_draw_B, layout.starts_M),
        *(rows.scaled_RL, rows.phi_RQ, state.core_values(), *_logarithms(layout, state), rows.log_scale_R),
        *(key.stream(Step.THIN), key.stream(Step.THIN_CAREFULLY)),
    )
    calls = [
        partial(_thin_blocks, *cut, *shared, scratch(), log_totals_B, table)  # type: ignore[arg-type]
        for cut, table in zip(ranges, tables, strict=True)
    ]
    layout.workers.run(calls)
    scales = float((layout.row_totals_R * rows.log_scale_R).sum())
    return Allocation(tables.sum(axis=0, dtype=np.int64), float(log_totals_B.sum()) + scales)


def ranges_of_equal_work(layout: Layout, budget: int) -> list[tuple[int, int]]:
    """Cut the blocks into a range a thread; what a cell, a draw and a large count cost was measured, in nanoseconds."""
    cells = np.full(layout.blocks, BLOCK * (10.0 + 0.2 * budget))
    draws = 25.0 * np.diff(layout.first_draw_B)
    done = np.cumsum(cells + draws + 70.0 * budget * layout.large_B)
    pieces = len(layout.workers.ranges(layout.blocks))
    edges = np.searchsorted(done, done[-1:] * np.arange(1, pieces) / pieces)
    return list(pairwise([0, *edges.tolist(), layout.blocks]))


def _logarithms(layout: Layout, state: State) -> tuple[_Floats, _Floats, Ints, Ints, Ints]:
    """What is read where products underflow, modes in thinning's order: the log core values, all log factors in one run
    of numbers, where each mode begins in it, how wide its rows are, and the locations.
    """
    log_phi = [state.log_phi[mode] for mode in layout.order]
    begins_M = np.cumsum([0, *(log_phi_DK.size for log_phi_DK in log_phi)])[:-1]
    widths_M = np.array([log_phi_DK.shape[1] for log_phi_DK in log_phi])
    flat = np.concatenate([log_phi_DK.ravel() for log_phi_DK in log_phi])
    return state.log_core_Q, flat, begins_M, widths_M, np.ascontiguousarray(state.subs_QM[:, layout.order])


@kernel
def _thin_blocks(
    first: int, last: int, cells_MN: NDArray[Any], changed_N: NDArray[np.int8], counts_N: Ints, first_draw_B: Ints,
    starts_M: Ints, scaled_RL: _Singles, phi_RQ: _Floats, core_Q: _Floats, log_core_Q: _Floats, log_phi: _Floats,
    begins_M: Ints, widths_M: Ints, subs_QM: Ints, log_scale_R: _Floats, stream: Words, careful_stream: Words,
    rng: Words, log_totals_B: _Floats, y_RQ: NDArray[Any],
) -> None:  # fmt: skip
    modes, width = cells_MN.shape[0], scaled_RL.shape[1]
    rows_M = np.empty(modes, dtype=np.int64)
    shared_ML = np.empty((modes - 1, width), dtype=np.float32)
    within, across = np.empty((width // LANES, LANES)), np.empty(LANES)
    uniforms = np.empty(_UNIFORMS)
    cumulative_Q, split_Q = np.empty(core_Q.size), np.empty(core_Q.size, dtype=np.int64)
    stack = np.empty((64, 3), dtype=np.int64)
    for block in range(first, last):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, counts_N.size)
        drawn, used = first_draw_B[block], _UNIFORMS
        log_total, product = 0.0, 1.0
        for n in range(start, stop):
            count = counts_N[n]
            _enter_cell(cells_MN, n, changed_N[n] if n > start else 0, starts_M, scaled_RL, rows_M, shared_ML)
            total = lane_sums(shared_ML, modes - 2, scaled_RL, rows_M[modes - 1], within, across)
            if count >= LARGE or total < _TINY:
                seat(rng, careful_stream, n)
                log_total += _thin_carefully(
                    rng, cells_MN, n, count, phi_RQ, core_Q, log_core_Q, log_phi, begins_M, widths_M, subs_QM,
                    log_scale_R, rows_M, stack, cumulative_Q, split_Q, y_RQ,
                )  # fmt: skip
                continue
            for _ in range(count):
                if used == _UNIFORMS:
                    fill_uniforms(stream, drawn, uniforms)
                    drawn, used = drawn + _UNIFORMS, 0
                q = place_above(within, across, uniforms[used] * total)
                used += 1
                for m in range(modes):
                    y_RQ[rows_M[m], q] += 1
                product *= total
                if not 1e-200 < product < 1e200:  # one logarithm for many factors
                    log_total += log(product)
                    product = 1.0
        log_totals_B[block] = log_total + log(product)


@inlined
def _enter_cell(
    cells_MN: NDArray[Any], n: int, changed: int, starts_M: Ints, scaled_RL: _Singles, rows_M: Ints,
    shared_ML: _Singles,
) -> None:  # fmt: skip
    """Note the rows of cell n, and refresh the products over the modes but the last from the first row that changed."""
    final = rows_M.size - 1
    for m in range(changed, final):
        row = starts_M[m] + cells_MN[m, n]
        rows_M[m] = row
        if m == 0:
            for i in range(scaled_RL.shape[1]):
                shared_ML[0, i] = scaled_RL[row, i]
        else:
            for i in range(scaled_RL.shape[1]):
                shared_ML[m, i] = shared_ML[m - 1, i] * scaled_RL[row, i]
    rows_M[final] = starts_M[final] + cells_MN[final, n]


@kernel
def _thin_carefully(
    rng: Words, cells_MN: NDArray[Any], n: int, count: int, phi_RQ: _Floats, core_Q: _Floats, log_core_Q: _Floats,
    log_phi: _Floats, begins_M: Ints, widths_M: Ints, subs_QM: Ints, log_scale_R: _Floats, rows_M: Ints, stack: Ints,
    cumulative_Q: _Floats, split_Q: Ints, y_RQ: NDArray[Any],
) -> float:  # fmt: skip
    """Split a cell's count by binomials over 64-bit weights; returns y log(rate), less the scales of its rows."""
    log_scale = _weights(rows_M, phi_RQ, core_Q, cumulative_Q)
    if log_scale == -np.inf:
        log_scale = _weights_in_logs(cells_MN, n, log_core_Q, log_phi, begins_M, widths_M, subs_QM, cumulative_Q)
    for q in range(1, cumulative_Q.size):
        cumulative_Q[q] += cumulative_Q[q - 1]
    multinomial(rng, count, cumulative_Q, stack, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            for m in range(rows_M.size):
                y_RQ[rows_M[m], q] += split_Q[q]
    for m in range(rows_M.size):
        log_scale -= log_scale_R[rows_M[m]]
    return count * (log(cumulative_Q[split_Q.size - 1]) + log_scale)


@kernel
def _weights(rows_M: Ints, phi_RQ: _Floats, core_Q: _Floats, weights_Q: _Floats) -> float:
    """lambda_q prod_m phi of each class; returns the logarithm of their scale, 0, or -inf if they underflow."""
    top = 0.0
    for q in range(core_Q.size):
        weight = core_Q[q]
        for m in range(rows_M.size):
            weight *= phi_RQ[rows_M[m], q]
        weights_Q[q] = weight
        top = max(top, weight)
    return 0.0 if top > _LEAST else -np.inf


@kernel
def _weights_in_logs(
    cells_MN: NDArray[Any], n: int, log_core_Q: _Floats, log_phi: _Floats, begins_M: Ints, widths_M: Ints,
    subs_QM: Ints, weights_Q: _Floats,
) -> float:  # fmt: skip
    """The same relative to the largest, whose logarithm is returned."""
    top = -np.inf
    for q in range(weights_Q.size):
        weights_Q[q] = log_core_Q[q]
        for m in range(begins_M.size):
            weights_Q[q] += log_phi[begins_M[m] + cells_MN[m, n] * widths_M[m] + subs_QM[q, m]]
        top = max(top, weights_Q[q])
    for q in range(weights_Q.size):
        weights_Q[q] = exp(weights_Q[q] - top)
    return top

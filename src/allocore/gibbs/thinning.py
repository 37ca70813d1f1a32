"""Thinning: the count of each non-zero cell is allocated to the classes (the paper's conditional for y_{d,q}):

    (y_d1 .. y_dQ) ~ Multinomial( y_d, p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]].

Only the sums over cells are kept: `y_RQ`, the counts of class q in the cells of each row. The sum of the products is
the cell's rate, so the log-likelihood of the state comes with it.

How it is quick. Cells come in fibres: consecutive cells differ in the last mode alone, so the product over the other modes
is made once a fibre. The last product and its sum stay in SIMD lanes (_simd.py). A count is drawn in two steps, a lane and
a class of it, with one uniform number of 52 bits from a stream made in bulk; a large count is split by binomials, over the
lanes and then within each. Cost: about non-zeros * Q multiplications, and the draws.

Where all products of a cell are too small for 32-bit floats, the cell is thinned in logarithms.

Every draw has its own place in the random stream, and counts are integers, so neither depends on the threads; the
log-likelihood is added up in blocks of fixed size, then over the blocks in order.
"""

from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._jit import inlined, kernel
from allocore.gibbs._draws import multinomial
from allocore.gibbs._random import Key, Step, Words, fill_uniforms, scratch, seat
from allocore.gibbs._simd import LANES, first_above, lane_sums
from allocore.gibbs.layout import BLOCK, LARGE, Ints, Layout
from allocore.gibbs.rows import Rows
from allocore.model.state import State

_TINY = 1e-25
_UNIFORMS = 256
_FEW = 4
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
    ranges = layout.workers.ranges(layout.blocks)
    tables = np.zeros((len(ranges), *rows.phi_RQ.shape), dtype=layout.count_type)
    careful = _flat_logarithms(layout, rows, state)
    streams = key.stream(Step.THIN), key.stream(Step.THIN_LARGE)
    layout.workers.run(
        [
            partial(
                _thin_blocks, first, last, layout.cells_MN, layout.changed_N, layout.cell_counts_N, layout.first_draw_B, layout.starts_M,
                rows.scaled_RL, *careful, *streams, scratch(), log_totals_B, table,
            )
            for (first, last), table in zip(ranges, tables, strict=True)
        ]
    )  # fmt: skip
    y_RQ = tables.sum(axis=0, dtype=np.int64)
    return Allocation(y_RQ, float(log_totals_B.sum() + layout.row_totals_R @ rows.log_scale_R))


def _flat_logarithms(layout: Layout, rows: Rows, state: State) -> tuple[_Floats, Ints, Ints, Ints, _Floats, _Floats]:
    """What the careful path reads, modes in thinning's order: all log factors in one run of numbers, where each mode
    begins in it, how wide its rows are, the locations, the log core values, and the scale of the rows.
    """
    log_phi = [state.log_phi[mode] for mode in layout.order]
    begins_M = np.cumsum([0, *(log_phi_DK.size for log_phi_DK in log_phi)])[:-1]
    widths_M = np.array([log_phi_DK.shape[1] for log_phi_DK in log_phi])
    flat = np.concatenate([log_phi_DK.ravel() for log_phi_DK in log_phi])
    subs_QM = np.ascontiguousarray(state.subs_QM[:, layout.order])
    return flat, begins_M, widths_M, subs_QM, state.log_core_Q, rows.log_scale_R


@kernel
def _thin_blocks(
    first: int, last: int, cells_MN: NDArray[Any], changed_N: NDArray[np.int8], counts_N: NDArray[Any],
    first_draw_B: Ints, starts_M: Ints, scaled_RL: _Singles, log_phi: _Floats, begins_M: Ints, widths_M: Ints,
    subs_QM: Ints, log_core_Q: _Floats, log_scale_R: _Floats, stream: Words, large_stream: Words, rng: Words,
    log_totals_B: _Floats, y_RQ: NDArray[Any],
) -> None:  # fmt: skip
    final = cells_MN.shape[0] - 1
    depth = scaled_RL.shape[1] // LANES
    rows_M = np.empty(final + 1, dtype=np.int64)
    shared_ML = np.empty((final, scaled_RL.shape[1]), dtype=np.float32)
    by_lane = np.empty((1, LANES))
    within = np.empty((LANES, depth))
    filled = np.full(LANES, -1)
    uniforms = np.empty(_UNIFORMS)
    stack = np.empty((64, 3), dtype=np.int64)
    cumulative_Q = np.empty(log_core_Q.size)
    split = np.empty(max(log_core_Q.size, depth, LANES), dtype=np.int64)
    for block in range(first, last):
        drawn, used = first_draw_B[block], _UNIFORMS
        product, log_total = 1.0, 0.0
        for n in range(block * BLOCK, min((block + 1) * BLOCK, counts_N.size)):
            changed = changed_N[n] if n > block * BLOCK else 0
            _enter_cell(cells_MN, n, changed, starts_M, scaled_RL, rows_M, shared_ML)
            row, count = rows_M[final], counts_N[n]
            total = lane_sums(shared_ML, final - 1, scaled_RL, row, by_lane)
            if total < _TINY:
                seat(rng, large_stream, n)
                log_total += _thin_in_logs(
                    rng, cells_MN, n, count, log_phi, begins_M, widths_M, subs_QM, log_core_Q, log_scale_R, rows_M,
                    stack, cumulative_Q, split, y_RQ,
                )  # fmt: skip
                continue
            if count >= LARGE:
                seat(rng, large_stream, n)
                _split_large(rng, count, shared_ML, scaled_RL, row, by_lane, rows_M, stack, within, split, y_RQ)
                filled[:] = n
            else:
                for _ in range(count):
                    if used == _UNIFORMS:
                        fill_uniforms(stream, drawn, uniforms)
                        drawn, used = drawn + _UNIFORMS, 0
                    target = uniforms[used] * total
                    used += 1
                    lane = first_above(by_lane, 0, target)
                    if filled[lane] != n:
                        filled[lane] = n
                        _fill_lane(shared_ML, scaled_RL, row, lane, within)
                    # What is left of the target, as a share of the lane: the two sums of a lane differ by rounding.
                    below = by_lane[0, lane - 1] if lane > 0 else 0.0
                    share = (target - below) / (by_lane[0, lane] - below)
                    q = lane + LANES * first_above(within, lane, share * within[lane, depth - 1])
                    for m in range(final + 1):
                        y_RQ[rows_M[m], q] += 1
            if count <= _FEW:
                for _ in range(count):
                    product *= total
                if product < 1e-200:
                    log_total += log(product)
                    product = 1.0
            else:
                log_total += count * log(total)
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


@inlined
def _fill_lane(shared_ML: _Singles, scaled_RL: _Singles, row: int, lane: int, within: _Floats) -> None:
    """Running sums of the products of one lane, in `within[lane]`."""
    last = shared_ML.shape[0] - 1
    total = 0.0
    for i in range(within.shape[1]):
        total += np.float64(shared_ML[last, lane + i * LANES] * scaled_RL[row, lane + i * LANES])
        within[lane, i] = total


@kernel
def _split_large(
    rng: Words, count: int, shared_ML: _Singles, scaled_RL: _Singles, row: int, by_lane: _Floats, rows_M: Ints,
    stack: Ints, within: _Floats, split: Ints, y_RQ: NDArray[Any],
) -> None:  # fmt: skip
    """Split a large count by binomials: over the lanes, then over the classes of each lane."""
    depth = within.shape[1]
    counts_of_lanes = np.empty(LANES, dtype=np.int64)
    multinomial(rng, count, by_lane[0], stack, counts_of_lanes)
    for lane in range(LANES):
        if counts_of_lanes[lane] == 0:
            continue
        _fill_lane(shared_ML, scaled_RL, row, lane, within)
        multinomial(rng, counts_of_lanes[lane], within[lane], stack, split[:depth])
        for i in range(depth):
            if split[i] > 0:
                for m in range(rows_M.size):
                    y_RQ[rows_M[m], lane + i * LANES] += split[i]


@kernel
def _thin_in_logs(
    rng: Words, cells_MN: NDArray[Any], n: int, count: int, log_phi: _Floats, begins_M: Ints, widths_M: Ints,
    subs_QM: Ints, log_core_Q: _Floats, log_scale_R: _Floats, rows_M: Ints, stack: Ints, cumulative_Q: _Floats,
    split: Ints, y_RQ: NDArray[Any],
) -> float:  # fmt: skip
    """Thin a cell whose products underflow, relative to the largest; returns y log(rate), less the scale of its rows."""
    budget = log_core_Q.size
    top = -np.inf
    for q in range(budget):
        cumulative_Q[q] = log_core_Q[q]
        for m in range(rows_M.size):
            cumulative_Q[q] += log_phi[begins_M[m] + cells_MN[m, n] * widths_M[m] + subs_QM[q, m]]
        top = max(top, cumulative_Q[q])
    total = 0.0
    for q in range(budget):
        total += exp(cumulative_Q[q] - top)
        cumulative_Q[q] = total
    multinomial(rng, count, cumulative_Q, stack, split[:budget])
    for q in range(budget):
        if split[q] > 0:
            for m in range(rows_M.size):
                y_RQ[rows_M[m], q] += split[q]
    log_scale = 0.0
    for m in range(rows_M.size):
        log_scale += log_scale_R[rows_M[m]]
    return count * (top + log(total) - log_scale)

"""Thinning: allocate the count of each non-zero cell to the classes (the paper's conditional for y_{d,q}):

    (y_d1 .. y_dQ) ~ Multinomial( y_d, p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]].

Only the sums over cells are kept: `y_RQ`, the counts of class q in the cells of each row. The sum of the products is
the cell's rate, so thinning also gives the log-likelihood of the state. If the likelihood is not Poisson, the latent
count of the cell is drawn first, from the same rate, and takes the place of y_d (latent_counts.py).

Why it is fast. Cells come in fibres: consecutive cells differ in the last mode alone, so the product over the other
modes is computed once per fibre. A few dozen cells at a time go through short loops, whose iterations do not depend
on each other: raise the towers (kernels/simd.py) over the products, list the draws, find the column of every draw, its
level, its class, then add up the counts. A draw takes one uniform number of 52 bits from a stream made in bulk. Cost:
about non-zeros * Q multiplications, and the draws.

thinning_exact.py splits large counts, and cells whose products underflow.

Every draw has its own place in the random stream, and counts are integers, so the result does not depend on the
threads. The log-likelihood is summed in blocks of fixed size, then over the blocks in order.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.count_tables import Table, Tables, add_draws, add_draws_in_common
from allocore.gibbs.latent_counts import (
    BERNOULLI,
    CODES,
    LEAST_RATE,
    MOST_BINARY,
    MOST_BINARY_RATE,
    MOST_RATE,
    NEGATIVE_BINOMIAL,
    POISSON,
    draw_tables,
    draw_truncated,
)
from allocore.gibbs.layout import BLOCK, LARGE, Layout, NonZeros
from allocore.gibbs.thinning_exact import ExactStreams, SplitBuffers, Weights, split_in_logs, split_large
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Flags, Floats, Indices, Ints, Singles
from allocore.kernels.jit import inlined, kernel, part
from allocore.kernels.random import UNIFORMS_AT_ONCE, Key, Step, Words, fill_uniforms, scratch, seat, uniform
from allocore.kernels.simd import LANES, LEVEL, SLACK, aligned_zeros, column_at, level_at, new_towers, raise_tower
from allocore.model.spec import Spec
from allocore.model.state import State

_TINY = 1e-20  # the least sum of scaled 32-bit products to trust: products that underflow are below 2^-52 of it
_CELLS, _DRAWS = 64, 256  # a batch is full when it has this many of either
_AT_ONCE = 8  # entries written at once to the list of draws


@dataclass(frozen=True)
class Allocation:
    """Counts by row and class, and the log-likelihood of the non-zero cells (latent_counts.py) under the state."""

    y_RQ: NDArray[Any]
    log_fit: float


class _Streams(NamedTuple):
    """Random numbers for the draws, for draws that are repeated after a rejection, and for latent counts."""

    draws: Words
    redraws: Words
    latent: Words


class _Rows(NamedTuple):
    """The scaled rows, and the scale of each, which only latent counts need."""

    scaled_RL: Singles
    scale_R: Floats


class _Batch(NamedTuple):
    """Scratch space of one thread for the cells (C) and draws (D) of a batch.

    Rows of `products`: row m has the product over the first m + 1 modes, up to all but two modes; row modes - 1 has
    ones; then come the products over all modes but the last, a row for each fibre of the batch.
    """

    products: Singles
    count_C: Ints
    rate_C: Floats
    total_C: Floats
    latent_C: Ints
    fibre_C: Indices
    towers: Singles
    ends_C: Floats
    totals_C: Floats
    cell_D: Indices
    column_D: Indices
    level_D: Indices
    class_D: Indices
    rest_D: Floats
    uniforms: Floats
    rng: Words

    @classmethod
    def of(cls, modes: int, width: int, likelihood: int) -> "_Batch":
        draws = (_CELLS * MOST_BINARY if likelihood == BERNOULLI else _DRAWS + LARGE) + _AT_ONCE
        products = aligned_zeros(modes + _CELLS, width)
        products[modes - 1] = 1.0
        return cls(
            products=products,
            count_C=np.zeros(_CELLS, dtype=np.int64),
            rate_C=np.zeros(_CELLS),
            total_C=np.zeros(_CELLS),
            latent_C=np.zeros(_CELLS, dtype=np.int64),
            fibre_C=np.zeros(_CELLS, dtype=np.uint32),
            towers=new_towers(_CELLS, width),
            ends_C=np.zeros(_CELLS),
            totals_C=np.zeros(_CELLS),
            cell_D=np.zeros(draws, dtype=np.uint32),
            column_D=np.zeros(draws, dtype=np.uint32),
            level_D=np.zeros(draws, dtype=np.uint32),
            class_D=np.zeros(draws, dtype=np.uint32),
            rest_D=np.zeros(draws),
            uniforms=np.zeros(draws + UNIFORMS_AT_ONCE),
            rng=scratch(),
        )


def thin(key: Key, layout: Layout, spec: Spec, state: State, workspace: Workspace) -> Allocation:
    """Allocate every count to a class. Classes that are not included get no counts and cost nothing."""
    included_Q, likelihood = np.flatnonzero(state.included()), CODES[spec.likelihood]
    if len(included_Q) == len(state.log_core_Q):
        return _thin(key, layout, likelihood, state, workspace)
    y_RQ = np.zeros(workspace.expanded.phi_RQ.shape, dtype=layout.count_type)
    if not len(included_Q):  # then there are no counts either
        return Allocation(y_RQ, 0.0)
    only = replace(state, log_core_Q=state.log_core_Q[included_Q], subs_QM=state.subs_QM[included_Q])
    allocation = _thin(key, layout, likelihood, only, workspace.of_classes(included_Q))
    y_RQ = y_RQ.astype(allocation.y_RQ.dtype, copy=False)
    y_RQ[:, included_Q] = allocation.y_RQ
    return Allocation(y_RQ, allocation.log_fit)


def _thin(key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace) -> Allocation:
    scaled, nonzeros, budget = workspace.scaled_rows(state), layout.nonzeros, len(state.log_core_Q)
    tables = Tables.of(layout, budget, _count_type(layout, likelihood, state, workspace))
    log_fit_B, log_fit_L = np.zeros(layout.blocks), np.zeros(len(nonzeros.large_L))
    underflow_N = np.zeros(layout.nnz, dtype=np.bool_)
    streams = _Streams(*(key.stream(step) for step in (Step.THIN, Step.THIN_AGAIN, Step.LATENT)))
    exact = ExactStreams(key.stream(Step.THIN_EXACT), key.stream(Step.LATENT_EXACT))
    weights = Weights(state.core_values(), workspace.expanded.phi_RQ, scaled.log_scale_R)
    rows = _Rows(scaled.scaled_RL, np.exp(scaled.log_scale_R) if likelihood != POISSON else scaled.log_scale_R)
    first_draw_B = _first_draws(layout, likelihood)

    def work(blocks: tuple[int, int], large: tuple[int, int], table: Table) -> None:
        batch = _Batch.of(len(layout.shape), scaled.scaled_RL.shape[1], likelihood)
        _thin_blocks(
            *blocks, likelihood, nonzeros, first_draw_B, rows, streams, batch, table, log_fit_B, underflow_N
        )  # fmt: skip
        buffers = SplitBuffers.of(budget)
        split_large(*large, likelihood, nonzeros, weights, exact, buffers, table, log_fit_L, underflow_N)

    nothing = [(0, 0)] * layout.workers.threads
    blocks, large = thinning_ranges(layout, budget), layout.workers.ranges(len(log_fit_L))
    layout.workers.run(
        [partial(work, *share) for share in zip(blocks + nothing, large + nothing, tables.by_thread, strict=False)]
    )
    log_fit = float(log_fit_B.sum()) + float(log_fit_L.sum())
    if likelihood == POISSON:
        log_fit += float((layout.row_totals_R * scaled.log_scale_R).sum())
    if underflow_N.any():
        which = np.flatnonzero(underflow_N)
        log_fit += split_in_logs(which, layout, likelihood, state, scaled, exact, tables.by_thread[0])
    return Allocation(tables.add_up(), log_fit)


def _count_type(layout: Layout, likelihood: int, state: State, workspace: Workspace) -> type[np.signedinteger[Any]]:
    """The type of the count tables: 32 bits if no sum can overflow.

    The latent count of a binary cell is at most 1 more than a Poisson variate, so their sum can only be near 2^31 if
    the sum of all rates is.
    """
    if likelihood != BERNOULLI:
        return layout.count_type
    total_rate = float((state.core_values() * np.prod(workspace.expanded.sums_MQ, axis=0)).sum())
    return np.int32 if layout.nnz + total_rate < 2**30 else np.int64


def _first_draws(layout: Layout, likelihood: int) -> Ints:
    """Where the random numbers of each block begin. A latent count is at most y, or MOST_BINARY for binary cells."""
    if likelihood != BERNOULLI:
        return layout.nonzeros.first_draw_B
    return np.arange(layout.blocks + 1) * (BLOCK * (MOST_BINARY + 1))


def thinning_ranges(layout: Layout, budget: int) -> list[tuple[int, int]]:
    """Cut the blocks into one range per thread. The costs of a cell and of a draw, in nanoseconds, were measured."""
    cells = BLOCK * (25.0 + 0.12 * budget)
    draws = 20.0 * (np.diff(layout.nonzeros.first_draw_B) - BLOCK)
    return layout.workers.ranges_of_equal_work(cells + draws, worth=1.0)


@kernel
def _thin_blocks(
    first: int, last: int, likelihood: int, nonzeros: NonZeros, first_draw_B: Ints, rows: _Rows, streams: _Streams,
    batch: _Batch, table: Table, log_fit_B: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Thin the cells of a range of blocks, batch by batch."""
    # Each array that is taken out of a tuple costs two atomic operations, and threads disturb one another by them: in
    # the parts below, which are called for every few dozen cells, that made two threads slower than one. So it is done
    # once, here, and the parts take arrays.
    coords_MN, changed_N, small_N, _, _, _, starts_M = nonzeros
    (products, count_C, rate_C, total_C, latent_C, fibre_C, towers, ends_C, totals_C, cell_D, column_D, level_D,
     class_D, rest_D, uniforms, rng) = batch  # fmt: skip
    draw_stream, redraw_stream, latent_stream = streams
    scaled_RL, scale_R = rows
    own_RQ, own_starts_M, has_common = table.own_RQ, table.own_starts_M, table.common_M.size > 0
    for block in range(first, last):
        n, stop = block * BLOCK, min((block + 1) * BLOCK, small_N.size)
        number, latent_number, log_fit = first_draw_B[block], first_draw_B[block], 0.0
        while n < stop:
            size, draws = _raise_towers(
                n, stop, n == block * BLOCK, coords_MN, changed_N, small_N, starts_M, scaled_RL, products, fibre_C,
                towers, ends_C, totals_C, count_C, underflow_N,
            )  # fmt: skip
            if likelihood != POISSON:
                draws = _find_rates(
                    n, size, likelihood, coords_MN, starts_M, scale_R, fibre_C, totals_C, rate_C, count_C, underflow_N
                )  # fmt: skip
                if likelihood == NEGATIVE_BINOMIAL:
                    fill_uniforms(latent_stream, latent_number, draws, uniforms)
                    latent_number += draws + draws % 2
                    draws, gained = draw_tables(size, rate_C, uniforms, count_C)
                else:
                    fill_uniforms(latent_stream, n - n % 2, size + 1, uniforms)
                    draws, gained = draw_truncated(size, rate_C, uniforms[n % 2 :], total_C, latent_C, count_C)
                log_fit += gained
            _list_draws(size, count_C, cell_D)
            fill_uniforms(draw_stream, number, draws, uniforms)
            log_rates = _find_columns(draws, uniforms, towers, ends_C, totals_C, cell_D, column_D, rest_D)
            if likelihood == POISSON:
                log_fit += log_rates
            _find_levels(draws, towers, cell_D, column_D, rest_D, level_D)
            _find_classes(
                n, number, draws, coords_MN, starts_M, scaled_RL, products, fibre_C, towers, cell_D, column_D, level_D,
                rest_D, redraw_stream, rng, own_RQ.shape[1], class_D,
            )  # fmt: skip
            if has_common:
                add_draws_in_common(n, draws, coords_MN, cell_D, class_D, table)
            else:
                add_draws(n, draws, coords_MN, cell_D, class_D, own_starts_M, own_RQ)
            n, number = n + size, number + draws + draws % 2
        log_fit_B[block] = log_fit


@part
def _raise_towers(
    n: int, stop: int, at_start: bool, coords_MN: NDArray[Any], changed_N: NDArray[np.int8],
    small_N: NDArray[np.uint8], starts_M: Ints, scaled_RL: Singles, products: Singles, fibre_C: Indices,
    towers: Singles, ends_C: Floats, totals_C: Floats, count_C: Ints, underflow_N: Flags,
) -> tuple[int, int]:  # fmt: skip
    """Fill a batch with cells from n on and mark those whose products underflow; returns cells and counts."""
    modes = starts_M.size
    size = draws = fibres = 0
    while n + size < stop and size < _CELLS and draws < _DRAWS:
        place = np.uint64(n + size)
        changed = 0 if at_start and size == 0 else changed_N[place]
        if changed < modes - 1 or size == 0:
            enter_fibre(place, changed, modes + fibres, coords_MN, starts_M, scaled_RL, products)
            fibres += 1
        row = starts_M[modes - 1] + coords_MN[modes - 1, place]
        end, total = raise_tower(products, modes + fibres - 1, scaled_RL, row, towers, size)
        fibre_C[size], ends_C[size], totals_C[size] = modes + fibres - 1, end, total
        count = int(small_N[place])
        if count > 0 and not total >= _TINY:  # `not >=` also catches NaN
            underflow_N[place] = True
            count = 0
        count_C[size] = count
        draws += count
        size += 1
    return size, draws


@part
def _list_draws(size: int, count_C: Ints, cell_D: Indices) -> None:
    """List the cell of every draw of a batch."""
    draws = 0
    for c in range(size):
        # A fixed number of entries is enough for most cells, and costs less than a loop up to the count.
        for i in range(_AT_ONCE):
            cell_D[draws + i] = c
        for i in range(_AT_ONCE, count_C[c]):
            cell_D[draws + i] = c
        draws += count_C[c]


@part
def _find_rates(
    n: int, size: int, likelihood: int, coords_MN: NDArray[Any], starts_M: Ints, scale_R: Floats, fibre_C: Indices,
    totals_C: Floats, rate_C: Floats, count_C: Ints, underflow_N: Flags,
) -> int:  # fmt: skip
    """Find the rates of a batch and mark cells with rates too small or too large for it; returns the counts left."""
    most, counts, final, scale = MOST_BINARY_RATE if likelihood == BERNOULLI else MOST_RATE, 0, starts_M.size - 1, 1.0
    for c in range(size):
        if c == 0 or fibre_C[c] != fibre_C[c - 1]:
            scale = 1.0
            for m in range(final):
                scale *= scale_R[starts_M[m] + coords_MN[m, n + c]]
        rate = totals_C[c] * (scale * scale_R[starts_M[final] + coords_MN[final, n + c]])
        rate_C[c] = rate
        if count_C[c] > 0 and not LEAST_RATE < rate < most:
            underflow_N[n + c] = True
            count_C[c] = 0
        counts += count_C[c]
    return counts


@inlined
def enter_fibre(
    n: Any, changed: int, out: int, coords_MN: NDArray[Any], starts_M: Ints, scaled_RL: Singles, products: Singles
) -> None:
    """Compute the products over all modes but the last, from the first changed mode on; row `out` gets the full one."""
    modes = starts_M.size
    for m in range(min(changed, modes - 2), modes - 1):
        row = starts_M[m] + coords_MN[m, n]
        source = m - 1 if m > 0 else modes - 1
        target = m if m < modes - 2 else out
        for i in range(scaled_RL.shape[1]):
            products[target, i] = products[source, i] * scaled_RL[row, i]


@part
def _find_columns(
    draws: int, uniforms: Floats, towers: Singles, ends_C: Floats, totals_C: Floats, cell_D: Indices,
    column_D: Indices, rest_D: Floats,
) -> float:  # fmt: skip
    """Draw a place in the tower for every count and find its column; returns the sum of the logarithms of totals."""
    log_total, product = 0.0, 1.0
    for d in range(draws):
        cell = cell_D[d]
        target = uniforms[d] * ends_C[cell]
        column = column_at(towers, cell, target)
        column_D[d] = column
        rest_D[d] = target - towers[cell, 0, np.uint64(column)]
        product *= totals_C[cell]
        if not 1e-200 < product < 1e200:  # one logarithm for many factors
            log_total += log(product)
            product = 1.0
    return log_total + log(product)


@part
def _find_levels(
    draws: int, towers: Singles, cell_D: Indices, column_D: Indices, rest_D: Floats, level_D: Indices
) -> None:
    """Find the level of every draw."""
    for d in range(draws):
        level_D[d] = level_at(towers, cell_D[d], column_D[d], rest_D[d])


@part
def _find_classes(
    n: int, number: int, draws: int, coords_MN: NDArray[Any], starts_M: Ints, scaled_RL: Singles, products: Singles,
    fibre_C: Indices, towers: Singles, cell_D: Indices, column_D: Indices, level_D: Indices, rest_D: Floats,
    stream: Words, rng: Words, budget: int, class_D: Indices,
) -> None:  # fmt: skip
    """Choose between the two classes of every draw's place, or reject it and draw again."""
    final = starts_M.size - 1
    for d in range(draws):
        cell, column, level = cell_D[d], column_D[d], level_D[d]
        fibre, row = fibre_C[cell], np.uint64(starts_M[final] + coords_MN[final, n + cell])
        low = np.uint64(level * LEVEL + column)
        high = low + np.uint64(LANES)
        weight = np.float64(products[fibre, low]) * np.float64(scaled_RL[row, low])
        both = weight + np.float64(products[fibre, high]) * np.float64(scaled_RL[row, high])
        rest = (rest_D[d] - towers[cell, np.uint64(level + 1), column]) * (1.0 + SLACK)
        class_D[d] = low + np.uint64(LANES) * np.uint64(weight <= rest)
        if not 0.0 <= rest < both:
            seat(rng, stream, number + d)
            class_D[d] = _draw_plainly(fibre, row, budget, scaled_RL, products, rng)


@kernel
def _draw_plainly(fibre: Any, row: Any, budget: int, scaled_RL: Singles, products: Singles, rng: Words) -> int:
    """Draw one class from the running sum of all weights."""
    total = 0.0
    for q in range(budget):
        total += np.float64(products[fibre, q]) * np.float64(scaled_RL[row, q])
    rest, drawn = uniform(rng) * total, 0
    for q in range(budget):
        weight = np.float64(products[fibre, q]) * np.float64(scaled_RL[row, q])
        if weight > 0.0:
            drawn = q
            if rest < weight:
                break
            rest -= weight
    return drawn

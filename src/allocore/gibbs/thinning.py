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

thinning_batch.py has these loops. thinning_exact.py splits large counts, and cells whose products underflow.

Every draw has its own place in the random stream, and counts are integers, so the result does not depend on the
threads. The log-likelihood is summed in blocks of fixed size, then over the blocks in order.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.count_tables import Table, Tables, add_draws, add_draws_in_common
from allocore.gibbs.latent_counts import (
    BERNOULLI,
    CODES,
    MOST_BINARY,
    NEGATIVE_BINOMIAL,
    POISSON,
    Latent,
    draw_tables,
    draw_truncated,
)
from allocore.gibbs.layout import BLOCK, Layout, NonZeros
from allocore.gibbs.thinning_batch import (
    Batch,
    find_classes,
    find_columns,
    find_levels,
    find_rates,
    list_draws,
    log_rates,
    raise_towers,
)
from allocore.gibbs.thinning_exact import SplitBuffers, Weights, split_in_logs, split_large
from allocore.gibbs.workspace import ScaledRows, Workspace
from allocore.kernels.arrays import Flags, Floats, Ints, Singles
from allocore.kernels.elementary import exp_of
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, fill_uniforms
from allocore.model.spec import Spec
from allocore.model.state import State


@dataclass(frozen=True)
class Allocation:
    """Counts by row and class, and the log-likelihood of the non-zero cells (latent_counts.py) under the state."""

    y_RQ: NDArray[Any]
    log_fit: float


@dataclass(frozen=True)
class ThinnedCells:
    """What thinning gives for some cells: their counts by row and class, and the parts of the log-likelihood.

    There is one part for each block (B), large count (L) and cell whose products underflowed (U). If the likelihood is
    Poisson, they do not contain the scales of the rows, `log_scale_R`.
    """

    y_RQ: NDArray[Any]
    log_fit_B: Floats
    log_fit_L: Floats
    log_fit_U: Floats
    log_scale_R: Floats


# How the cells are thinned: here, or shard by shard on workers. `thin_here` is the one for here.
ThinCells: TypeAlias = Callable[[Key, Layout, int, State, Workspace, type[np.signedinteger[Any]]], ThinnedCells]


class _Streams(NamedTuple):
    """Random numbers for the draws, and for draws that are repeated after a rejection."""

    draws: Words
    redraws: Words


def thin_here(
    key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
    count_type: type[np.signedinteger[Any]],
) -> ThinnedCells:  # fmt: skip
    """Thin the cells of a layout with its own threads."""
    scaled, nonzeros, budget = workspace.scaled_rows(state), layout.nonzeros, len(state.log_core_Q)
    tables = Tables.of(layout, budget, count_type)
    log_fit_B, log_fit_L = np.zeros(layout.blocks), np.zeros(len(nonzeros.large_L))
    underflow_N = np.zeros(layout.nnz, dtype=np.bool_)
    streams, exact_stream = _Streams(key.stream(Step.THIN), key.stream(Step.THIN_AGAIN)), key.stream(Step.THIN_EXACT)
    latent = None if likelihood == POISSON else _latent(key, likelihood, scaled)
    weights = Weights(state.core_values(), workspace.expanded.phi_RQ, scaled.log_scale_R)
    first_draw_B = _first_draws(layout, likelihood)

    def work(blocks: tuple[int, int], large: tuple[int, int], table: Table) -> None:
        batch = Batch.of(len(layout.shape), scaled.scaled_RL.shape[1], likelihood)
        _thin_blocks(
            *blocks, latent, nonzeros, first_draw_B, scaled.scaled_RL, streams, batch, table, log_fit_B, underflow_N
        )  # fmt: skip
        buffers = SplitBuffers.of(budget)
        split_large(*large, latent, nonzeros, weights, exact_stream, buffers, table, log_fit_L, underflow_N)

    nothing = [(0, 0)] * layout.workers.threads
    blocks, large = thinning_ranges(layout, budget), layout.workers.ranges(len(log_fit_L))
    layout.workers.run(
        [partial(work, *share) for share in zip(blocks + nothing, large + nothing, tables.by_thread, strict=False)]
    )
    which = np.flatnonzero(underflow_N)
    log_fit_U = split_in_logs(which, layout, latent, state, scaled, exact_stream, tables.by_thread[0])
    return ThinnedCells(tables.add_up(), log_fit_B, log_fit_L, log_fit_U, scaled.log_scale_R)


def thin(
    key: Key, layout: Layout, spec: Spec, state: State, workspace: Workspace,
    thin_cells: ThinCells = thin_here,
) -> Allocation:  # fmt: skip
    """Allocate every count to a class. Classes that are not included get no counts and cost nothing."""
    included_Q, likelihood = np.flatnonzero(state.included()), CODES[spec.likelihood]
    if len(included_Q) == len(state.log_core_Q):
        return _thin(key, layout, likelihood, state, workspace, thin_cells)
    shape_RQ = workspace.expanded.phi_RQ.shape
    if not len(included_Q):  # then there are no counts either
        return Allocation(np.zeros(shape_RQ, dtype=layout.count_type), 0.0)
    only = replace(state, log_core_Q=state.log_core_Q[included_Q], subs_QM=state.subs_QM[included_Q])
    allocation = _thin(key, layout, likelihood, only, workspace.of_classes(included_Q), thin_cells)
    y_RQ = np.zeros(shape_RQ, dtype=allocation.y_RQ.dtype)
    y_RQ[:, included_Q] = allocation.y_RQ
    return Allocation(y_RQ, allocation.log_fit)


def _thin(
    key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace, thin_cells: ThinCells
) -> Allocation:
    """Thin the cells, and add up their log-likelihood: in one order, whatever the threads and shards."""
    count_type = _count_type(layout, likelihood, state, workspace)
    cells = thin_cells(key, layout, likelihood, state, workspace, count_type)
    log_fit = float(cells.log_fit_B.sum()) + float(cells.log_fit_L.sum()) + float(cells.log_fit_U.sum())
    if likelihood == POISSON:
        log_fit += float((layout.row_totals_R * cells.log_scale_R).sum())
    return Allocation(cells.y_RQ, log_fit)


def _count_type(layout: Layout, likelihood: int, state: State, workspace: Workspace) -> type[np.signedinteger[Any]]:
    """The type of the count tables: 32 bits if no sum can overflow.

    The latent count of a binary cell is at most 1 more than a Poisson variate, so their sum can only be near 2^31 if
    the sum of all rates is.
    """
    if likelihood != BERNOULLI:
        return layout.count_type
    total_rate = float((state.core_values() * np.prod(workspace.expanded.sums_MQ, axis=0)).sum())
    return np.int32 if layout.total + total_rate < 2**30 else np.int64  # the cells are ones


def _latent(key: Key, likelihood: int, scaled: ScaledRows) -> Latent:
    streams = key.stream(Step.LATENT), key.stream(Step.LATENT_EXACT)
    return Latent(likelihood, exp_of(scaled.log_scale_R), *streams)


def _first_draws(layout: Layout, likelihood: int) -> Ints:
    """Where the random numbers of each block begin. A latent count is at most y, or MOST_BINARY for binary cells."""
    if likelihood != BERNOULLI:
        return layout.nonzeros.first_draw_B
    return (layout.nonzeros.first_cell + np.arange(layout.blocks + 1) * BLOCK) * (MOST_BINARY + 1)


def thinning_ranges(layout: Layout, budget: int) -> list[tuple[int, int]]:
    """Cut the blocks into one range per thread. The costs of a cell and of a draw, in nanoseconds, were measured."""
    cells = BLOCK * (25.0 + 0.12 * budget)
    draws = 20.0 * (np.diff(layout.nonzeros.first_draw_B) - BLOCK)
    return layout.workers.ranges_of_equal_work(cells + draws, worth=1.0)


@kernel
def _thin_blocks(
    first: int, last: int, latent: Latent | None, nonzeros: NonZeros, first_draw_B: Ints, scaled_RL: Singles,
    streams: _Streams, batch: Batch, table: Table, log_fit_B: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Thin the cells of a range of blocks, batch by batch."""
    # Each array that is taken out of a tuple costs two atomic operations, and threads disturb one another by them: in
    # the parts below, which are called for every few dozen cells, that made two threads slower than one. So it is done
    # once, here, and the parts take arrays.
    coords_MN, changed_N, small_N, _, _, _, starts_M, first_cell = nonzeros
    (products, count_C, rate_C, expm1_C, latent_C, log_2C, fibre_C, towers, ends_C, totals_C, cell_D, column_D, level_D,
     class_D, rest_D, uniforms, rng) = batch  # fmt: skip
    draw_stream, redraw_stream = streams
    if latent is not None:
        likelihood, scale_R, latent_stream, _ = latent
    own_RQ, own_starts_M, has_common = table.own_RQ, table.own_starts_M, table.common_M.size > 0
    for block in range(first, last):
        n, stop = block * BLOCK, min((block + 1) * BLOCK, small_N.size)
        number, latent_number, log_fit = first_draw_B[block], first_draw_B[block], 0.0
        while n < stop:
            size, draws = raise_towers(
                n, stop, n == block * BLOCK, coords_MN, changed_N, small_N, starts_M, scaled_RL, products, fibre_C,
                towers, ends_C, totals_C, count_C, underflow_N,
            )  # fmt: skip
            if latent is not None:
                draws = find_rates(
                    n, size, likelihood, coords_MN, starts_M, scale_R, fibre_C, totals_C, rate_C, count_C, underflow_N
                )  # fmt: skip
                if likelihood == NEGATIVE_BINOMIAL:
                    fill_uniforms(latent_stream, latent_number, draws, uniforms)
                    latent_number += draws + draws % 2
                    draws, gained = draw_tables(size, rate_C, uniforms, count_C)
                else:
                    fill_uniforms(latent_stream, first_cell + n - n % 2, size + 1, uniforms)  # first_cell is even
                    draws, gained = draw_truncated(size, rate_C, uniforms[n % 2 :], expm1_C, latent_C, count_C)
                log_fit += gained
            else:
                log_fit += log_rates(size, count_C, totals_C, log_2C)
            list_draws(size, count_C, cell_D)
            fill_uniforms(draw_stream, number, draws, uniforms)
            find_columns(draws, uniforms, towers, ends_C, cell_D, column_D, rest_D)
            find_levels(draws, towers, cell_D, column_D, rest_D, level_D)
            find_classes(
                n, number, draws, coords_MN, starts_M, scaled_RL, products, fibre_C, towers, cell_D, column_D, level_D,
                rest_D, redraw_stream, rng, own_RQ.shape[1], class_D,
            )  # fmt: skip
            if has_common:
                add_draws_in_common(n, draws, coords_MN, cell_D, class_D, table)
            else:
                add_draws(n, draws, coords_MN, cell_D, class_D, own_starts_M, own_RQ)
            n, number = n + size, number + draws + draws % 2
        log_fit_B[block] = log_fit

"""Thinning: allocate the count of each non-zero cell to the classes (the paper's conditional for y_{d,q}),

    (y_d1 .. y_dQ) ~ Multinomial( y_d, p ),      p_q proportional to lambda_q prod_m phi[m][d_m, k[q, m]],

given core values, locations and factors. Only the sums over cells are kept: `y_RQ`, the counts of class q in the cells
of each row. The sum of the products is the cell's rate, so thinning also gives the log-likelihood. If the likelihood is
not Poisson, the latent count of the cell is drawn first, from the same rate, and replaces y_d (latent_counts.py).

Cost: about non-zeros * Q multiplications, and one uniform number of 52 bits per count. Cells come in fibres:
consecutive cells differ only in the last mode, so the product over the other modes is computed once per fibre. A few
dozen cells, a batch, go through short loops whose iterations are independent: raise the towers (kernels/simd.py) over
the products, list the draws, find the column of every draw, its level and its class, then add up the counts. Counts of
LARGE or more, and cells whose products underflow, are split exactly, by conditional binomials.

Every draw has its own place in the random stream and counts are integers, so the result does not depend on the threads.
The log-likelihood is summed in blocks of fixed size, then over the blocks in order.

Three layers: the step (`thin`), the driver that shares the cells among the threads (`thin_here`), and serial leaves.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.latent_counts import (
    BERNOULLI,
    CODES,
    LEAST_RATE,
    MOST_BINARY,
    MOST_BINARY_RATE,
    MOST_RATE,
    NEGATIVE_BINOMIAL,
    POISSON,
    Latent,
    draw_latent,
    draw_tables,
    draw_truncated,
    log_fit,
)
from allocore.gibbs.layout import BLOCK, LARGE, Layout, NonZeros, ScaledRows, Workspace
from allocore.gibbs.undirected import fold_counts, with_mirror_images
from allocore.kernels.chinese_restaurant import SCRATCH
from allocore.kernels.distributions import multinomial
from allocore.kernels.elementary import Flags, Floats, Indices, Ints, Singles, exp_of, lane_log, log_sums
from allocore.kernels.jit import inlined, kernel, part
from allocore.kernels.random import UNIFORMS_AT_ONCE, Key, Step, Words, fill_uniforms, scratch, seek, uniform
from allocore.kernels.simd import (
    FIRST,
    LANES,
    LEVEL,
    SECOND,
    SLACK,
    add_shared,
    aligned_zeros,
    column_at,
    dot_of_rows,
    level_at,
    new_towers,
    raise_tower,
)
from allocore.model.spec import Spec
from allocore.model.state import State

COPIED_BYTES = 2**25  # the sums of a mode are copied for every thread up to this size
_TINY = 1e-20  # the least sum of scaled 32-bit products to trust: products that underflow are below 2^-52 of it
_CELLS, _DRAWS = 96, 384  # a batch is full when it has this many of either
_AT_ONCE = 8  # entries written at once to the list of draws
_LEAST = 1e-250  # 64-bit products are trusted if their sum is at least this large
_CELLS_AT_ONCE = 1024
_MOST_LOG = 700.0  # exp of anything larger may overflow


@dataclass(frozen=True)
class Allocation:
    """Counts by row and class, and the log-likelihood of the non-zero cells (latent_counts.py) under the state."""

    y_RQ: NDArray[Any]
    log_fit: float


class ThinningInfo(NamedTuple):
    """How many cells were split exactly: those with `large` counts, and those whose products `underflowed`."""

    large: int
    underflowed: int


@dataclass(frozen=True)
class ThinnedCells:
    """The counts of some cells by row and class, and the log-likelihood by block (B), large count (L), underflow (U).

    If the likelihood is Poisson, it does not contain the scales of the rows, `log_scale_R`.
    """

    y_RQ: NDArray[Any]
    log_fit_B: Floats
    log_fit_L: Floats
    log_fit_U: Floats
    log_scale_R: Floats


# A driver: it thins the cells in this process (`thin_here`), or shard by shard on workers.
ThinCells: TypeAlias = Callable[[Key, Layout, int, State, Workspace, type[np.signedinteger[Any]]], ThinnedCells]


def thin(
    key: Key, layout: Layout, spec: Spec, state: State, workspace: Workspace, thin_cells: ThinCells | None = None
) -> tuple[Allocation, ThinningInfo]:
    """Allocate every count to a class. Classes that are not included get no counts and cost nothing.

    Undirected ties are allocated to classes and their mirror images.
    """
    included_Q, likelihood, budget = np.flatnonzero(state.included()), CODES[spec.likelihood], len(state.log_core_Q)
    if not len(included_Q):  # then there are no counts either
        y_RQ = np.zeros((sum(layout.shape), budget), dtype=layout.count_type)
        return Allocation(y_RQ, 0.0), ThinningInfo(0, 0)
    if len(included_Q) < budget:
        state = replace(state, log_core_Q=state.log_core_Q[included_Q], subs_QM=state.subs_QM[included_Q])
        workspace = workspace.of_classes(included_Q)
    if layout.undirected is not None:
        state = with_mirror_images(state, layout.undirected)
        workspace = Workspace.of(layout, state)
    count_type = _count_type(layout, likelihood, state, workspace)
    cells = (thin_cells or thin_here)(key, layout, likelihood, state, workspace, count_type)
    # One order of the sum, whatever the threads and shards.
    log_fit = float(cells.log_fit_B.sum()) + float(cells.log_fit_L.sum()) + float(cells.log_fit_U.sum())
    if likelihood == POISSON:
        log_fit += float((layout.row_totals_R * cells.log_scale_R).sum())
    y_RQ = cells.y_RQ if layout.undirected is None else fold_counts(cells.y_RQ, layout, layout.undirected)
    if len(included_Q) < budget:
        own_RQ, y_RQ = y_RQ, np.zeros((len(y_RQ), budget), dtype=y_RQ.dtype)
        y_RQ[:, included_Q] = own_RQ
    return Allocation(y_RQ, log_fit), ThinningInfo(len(cells.log_fit_L), len(cells.log_fit_U))


def _count_type(layout: Layout, likelihood: int, state: State, workspace: Workspace) -> type[np.signedinteger[Any]]:
    """The type of the sums: 32 bits if none can overflow; binary cells have at most 1 more than a Poisson variate."""
    if likelihood != BERNOULLI:
        return layout.count_type
    total_rate = float((state.core_values() * np.prod(workspace.expanded.sums_MQ, axis=0)).sum())
    return np.int32 if layout.total + total_rate < 2**30 else np.int64  # the cells are ones


def thin_here(
    key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
    count_type: type[np.signedinteger[Any]],
) -> ThinnedCells:  # fmt: skip
    """Thin the cells of a layout with its own threads."""
    return thin_windows([layout], key, layout, likelihood, state, workspace, count_type)


def thin_windows(
    windows: Iterable[Layout], key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
    count_type: type[np.signedinteger[Any]],
) -> ThinnedCells:  # fmt: skip
    """Thin cells that come in windows: layouts that differ only in their cells, ranges of blocks in order."""
    scaled, budget = workspace.scaled_rows(state), len(state.log_core_Q)
    by_thread = _empty_sums(layout, budget, count_type)
    streams, exact_stream = (key.stream(Step.THIN), key.stream(Step.THIN_AGAIN)), key.stream(Step.THIN_EXACT)
    latent: Latent | None = None
    if likelihood != POISSON:
        latent_streams = key.stream(Step.LATENT), key.stream(Step.LATENT_EXACT)
        latent = Latent(likelihood, exp_of(scaled.log_scale_R), *latent_streams)
    weights = Weights(state.core_values(), workspace.expanded.phi_RQ, scaled.log_scale_R)

    def thin_window(window: Layout) -> tuple[Floats, Floats, Floats]:
        nonzeros, workers = window.nonzeros, layout.workers
        log_fit_B, log_fit_L = np.zeros(window.blocks), np.zeros(len(nonzeros.large_L))
        underflow_N = np.zeros(window.nnz, dtype=np.bool_)
        first_draw_B = nonzeros.first_draw_B  # where the random numbers of each block begin
        if likelihood == BERNOULLI:  # a latent count is at most MOST_BINARY, not at most y
            first_draw_B = (nonzeros.first_cell + np.arange(window.blocks + 1) * BLOCK) * (MOST_BINARY + 1)

        def work(blocks: tuple[int, int], large: tuple[int, int], sums: ThreadSums) -> None:
            batch = Batch.of(len(layout.shape), scaled.scaled_RL.shape[1], likelihood)
            _thin_blocks(
                *blocks, latent, nonzeros, first_draw_B, scaled.scaled_RL, *streams, batch, sums, log_fit_B, underflow_N
            )  # fmt: skip
            buffers = SplitBuffers.of(budget)
            split_large(*large, latent, nonzeros, weights, exact_stream, buffers, sums, log_fit_L, underflow_N)

        nothing = [(0, 0)] * workers.threads
        blocks, large = thinning_ranges(window, budget), workers.ranges(len(log_fit_L))
        shares = zip(blocks + nothing, large + nothing, by_thread, strict=False)
        workers.run([partial(work, *share) for share in shares])
        which = np.flatnonzero(underflow_N)
        return log_fit_B, log_fit_L, split_in_logs(which, window, latent, state, scaled, exact_stream, by_thread[0])

    found = zip(*map(thin_window, windows), strict=True)
    log_fit_B, log_fit_L, log_fit_U = (np.concatenate(parts) for parts in found)
    return ThinnedCells(_total(layout, by_thread), log_fit_B, log_fit_L, log_fit_U, scaled.log_scale_R)


def thinning_ranges(layout: Layout, budget: int) -> list[tuple[int, int]]:
    """Cut the blocks into one range per thread. The costs of a cell and of a draw, in nanoseconds, were measured."""
    cells = BLOCK * (25.0 + 0.12 * budget)
    draws = 20.0 * (np.diff(layout.nonzeros.first_draw_B) - BLOCK)
    return layout.workers.ranges_of_equal_work(cells + draws, worth=1.0)


class ThreadSums(NamedTuple):
    """Where a thread adds counts: to `own_RQ` for the modes `own_M`, to the shared `whole_RQ` for `common_M`."""

    own_RQ: NDArray[Any]
    own_M: Ints
    own_starts_M: Ints
    whole_RQ: NDArray[Any]
    common_M: Ints
    starts_M: Ints


def _empty_sums(layout: Layout, budget: int, count_type: type[np.signedinteger[Any]]) -> list[ThreadSums]:
    """The sums by row and class that each thread fills; the first thread's own are the whole ones.

    In a long mode all threads add atomically to the same sums: threads seldom meet, and copies would cost more.
    """
    threads = layout.workers.threads
    whole_RQ = np.zeros((sum(layout.shape), budget), dtype=count_type)
    row_bytes = budget * whole_RQ.itemsize
    is_own_M = [threads == 1 or layout.shape[mode] * row_bytes <= COPIED_BYTES for mode in layout.order]
    own_M, common_M = np.flatnonzero(is_own_M), np.flatnonzero(np.logical_not(is_own_M))
    own_lengths = [layout.shape[mode] if own else 0 for mode, own in zip(layout.order, is_own_M, strict=True)]
    own_starts_M = np.cumsum([0, *own_lengths[:-1]])
    common = whole_RQ, common_M, layout.nonzeros.starts_M
    first = ThreadSums(whole_RQ, own_M, layout.nonzeros.starts_M, *common)
    others = [
        ThreadSums(np.zeros((sum(own_lengths), budget), dtype=whole_RQ.dtype), own_M, own_starts_M, *common)
        for _ in range(threads - 1)
    ]
    return [first, *others]


def _total(layout: Layout, by_thread: list[ThreadSums]) -> NDArray[Any]:
    whole_RQ = by_thread[0].whole_RQ
    for sums in by_thread[1:]:
        for m in sums.own_M:
            rows, start = layout.rows(layout.order[m]), sums.own_starts_M[m]
            whole_RQ[rows] += sums.own_RQ[start : start + rows.stop - rows.start]
    return whole_RQ


class Batch(NamedTuple):
    """Scratch space of one thread for the cells (C) and draws (D) of a batch.

    Rows of `products`: m has the product over modes 0 .. m, up to all but two; modes - 1 has ones; then one per fibre.
    """

    products: Singles
    count_C: Ints
    rate_C: Floats
    expm1_C: Floats
    latent_C: Ints
    log_2C: Floats
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
    def of(cls, modes: int, width: int, likelihood: int) -> "Batch":
        """Space for cells of `modes` modes and rows of `width` numbers."""
        draws = (_CELLS * MOST_BINARY if likelihood == BERNOULLI else _DRAWS + LARGE) + _AT_ONCE
        products = aligned_zeros(modes + _CELLS, width)
        products[modes - 1] = 1.0
        count_C, latent_C = np.zeros((2, _CELLS), dtype=np.int64)
        rate_C, expm1_C, ends_C = np.zeros((3, _CELLS))
        cell_D, column_D, level_D, class_D = np.zeros((4, draws), dtype=np.uint32)
        return cls(
            products=products, count_C=count_C, rate_C=rate_C, expm1_C=expm1_C, latent_C=latent_C,
            log_2C=np.zeros((2, _CELLS)), fibre_C=np.zeros(_CELLS, dtype=np.uint32), towers=new_towers(_CELLS, width),
            ends_C=ends_C, totals_C=np.ones(_CELLS), cell_D=cell_D, column_D=column_D, level_D=level_D, class_D=class_D,
            rest_D=np.zeros(draws), uniforms=np.zeros(draws + UNIFORMS_AT_ONCE), rng=scratch(),
        )  # fmt: skip


@kernel
def _thin_blocks(
    first: int, last: int, latent: Latent | None, nonzeros: NonZeros, first_draw_B: Ints, scaled_RL: Singles,
    draw_stream: Words, redraw_stream: Words, batch: Batch, sums: ThreadSums, log_fit_B: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Thin the cells of a range of blocks, batch by batch; a draw that is rejected is repeated from `redraw_stream`."""
    # Each array that is taken out of a tuple costs two atomic operations, and threads disturb one another by them: in
    # the parts below, which are called for every few dozen cells, that made two threads slower than one. So it is done
    # once, here, and the parts take arrays.
    coords_MN, changed_N, small_N, _, _, _, starts_M, first_cell = nonzeros
    (products, count_C, rate_C, expm1_C, latent_C, log_2C, fibre_C, towers, ends_C, totals_C, cell_D, column_D, level_D,
     class_D, rest_D, uniforms, rng) = batch  # fmt: skip
    if latent is not None:
        likelihood, scale_R, latent_stream, _ = latent
    own_RQ, own_starts_M, has_common = sums.own_RQ, sums.own_starts_M, sums.common_M.size > 0
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
                add_draws_in_common(n, draws, coords_MN, cell_D, class_D, sums)
            else:
                add_draws(n, draws, coords_MN, cell_D, class_D, own_starts_M, own_RQ)
            n, number = n + size, number + draws + draws % 2
        log_fit_B[block] = log_fit


@part
def raise_towers(
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
        count = int(small_N[place])
        if not total >= _TINY:  # `not >=` also catches NaN
            if count > 0:  # the flags of large counts belong to whoever splits them
                underflow_N[place] = True
            count, total = 0, 1.0
        fibre_C[size], ends_C[size], totals_C[size], count_C[size] = modes + fibres - 1, end, total, count
        draws += count
        size += 1
    return size, draws


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
def find_rates(
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


@part
def log_rates(size: int, count_C: Ints, totals_C: Floats, log_2C: Floats) -> float:
    """The sum over a batch of the counts times the logarithms of the totals; `log_2C` is scratch space."""
    for c in range(_CELLS):
        log_2C[0, c] = 0.0
    for c in range(size):
        log_2C[0, c] = count_C[c]
    for c in range(_CELLS):
        log_2C[1, c] = lane_log(totals_C[c])
    return dot_of_rows(log_2C, FIRST, log_2C, SECOND)


@part
def list_draws(size: int, count_C: Ints, cell_D: Indices) -> None:
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
def find_columns(
    draws: int, uniforms: Floats, towers: Singles, ends_C: Floats, cell_D: Indices, column_D: Indices, rest_D: Floats
) -> None:
    """Draw a place in the tower for every count and find its column."""
    for d in range(draws):
        cell = cell_D[d]
        target = uniforms[d] * ends_C[cell]
        column = column_at(towers, cell, target)
        column_D[d] = column
        rest_D[d] = target - towers[cell, 0, np.uint64(column)]


@part
def find_levels(
    draws: int, towers: Singles, cell_D: Indices, column_D: Indices, rest_D: Floats, level_D: Indices
) -> None:
    """Find the level of every draw in its column."""
    for d in range(draws):
        level_D[d] = level_at(towers, cell_D[d], column_D[d], rest_D[d])


@part
def find_classes(
    n: int, number: int, draws: int, coords_MN: NDArray[Any], starts_M: Ints, scaled_RL: Singles, products: Singles,
    fibre_C: Indices, towers: Singles, cell_D: Indices, column_D: Indices, level_D: Indices, rest_D: Floats,
    stream: Words, rng: Words, budget: int, class_D: Indices,
) -> None:  # fmt: skip
    """Choose between the two classes at every draw's place, or reject it and draw again."""
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
            seek(rng, stream, number + d)
            class_D[d] = draw_by_running_sum(fibre, row, budget, scaled_RL, products, rng)


@kernel
def draw_by_running_sum(fibre: Any, row: Any, budget: int, scaled_RL: Singles, products: Singles, rng: Words) -> int:
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


@part
def add_draws(
    n: int, draws: int, coords_MN: NDArray[Any], cell_D: Indices, class_D: Indices, own_starts_M: Ints,
    own_RQ: NDArray[Any],
) -> None:  # fmt: skip
    """Add one count of class_D[d] to the rows of cell n + cell_D[d], for every draw d; threads share no sums."""
    for d in range(draws):
        cell, q = np.uint64(n) + cell_D[d], class_D[d]
        for m in range(own_starts_M.size):
            own_RQ[np.uint64(own_starts_M[m] + coords_MN[m, cell]), q] += 1


@part
def add_draws_in_common(
    n: int, draws: int, coords_MN: NDArray[Any], cell_D: Indices, class_D: Indices, sums: ThreadSums
) -> None:
    """The same, if threads share the sums of some modes."""
    own_RQ, own_M, own_starts_M, whole_RQ, common_M, starts_M = sums
    for d in range(draws):
        cell, q = np.uint64(n) + cell_D[d], class_D[d]
        for m in own_M:
            own_RQ[np.uint64(own_starts_M[m] + coords_MN[m, cell]), q] += 1
        for m in common_M:
            add_shared(whole_RQ, starts_M[m] + coords_MN[m, cell], q, 1)


class Weights(NamedTuple):
    """Core values and expanded factors, which give the 64-bit weights of a cell, and the scales of the rows."""

    core_Q: Floats
    phi_RQ: Floats
    log_scale_R: Floats


class SplitBuffers(NamedTuple):
    """Scratch space for splitting counts. The second row of `weights_2Q` has ones, for the sum of the first."""

    weights_2Q: Floats
    cumulative_Q: Floats
    heavy_Q: Ints
    split_Q: Ints
    candidates: Ints
    rng: Words

    @classmethod
    def of(cls, budget: int) -> "SplitBuffers":
        """Space for `budget` classes."""
        heavy_Q, split_Q, candidates = (np.empty(size, dtype=np.int64) for size in (budget, budget, SCRATCH))
        return cls(np.ones((2, budget)), np.empty(budget), heavy_Q, split_Q, candidates, scratch())


@kernel
def split_large(
    first: int, last: int, latent: Latent | None, nonzeros: NonZeros, weights: Weights, stream: Words,
    buffers: SplitBuffers, sums: ThreadSums, log_fit_L: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Split the large counts `first` to `last` over 64-bit weights; if these leave the floats, mark the cell instead.

    Writes the log-likelihood of each to `log_fit_L`; if it is Poisson, without the scales of the rows.
    """
    coords_MN, _, _, large_L, large_counts_L, _, starts_M, first_cell = nonzeros
    core_Q, phi_RQ, log_scale_R = weights
    weights_2Q, budget = buffers.weights_2Q, core_Q.size
    for i in range(first, last):
        n, log_scale = large_L[i], 0.0
        for q in range(budget):
            weights_2Q[0, q] = core_Q[q]
        for m in range(starts_M.size):
            row = starts_M[m] + coords_MN[m, n]
            log_scale += log_scale_R[row]
            for q in range(budget):
                weights_2Q[0, q] *= phi_RQ[row, q]
        rate = dot_of_rows(weights_2Q, FIRST, weights_2Q, SECOND)
        if not _LEAST <= rate < np.inf:  # `not <=` also catches NaN
            underflow_N[n] = True
            continue
        _split(coords_MN, n, first_cell, large_counts_L[i], latent, rate, rate, stream, buffers, sums)
        if latent is None:
            log_fit_L[i] = large_counts_L[i] * (log(rate) - log_scale)
        else:
            log_fit_L[i] = log_fit(latent.likelihood, large_counts_L[i], log(rate))


def split_in_logs(
    which: Ints,
    layout: Layout,
    latent: Latent | None,
    state: State,
    scaled: ScaledRows,
    stream: Words,
    sums: ThreadSums,
) -> Floats:
    """Split the cells `which` over weights in logarithms; returns log-likelihoods (if Poisson, without row scales)."""
    nonzeros, buffers, log_fit_U = layout.nonzeros, SplitBuffers.of(len(state.log_core_Q)), np.empty(len(which))
    for start in range(0, len(which), _CELLS_AT_ONCE):
        chosen, here = which[start : start + _CELLS_AT_ONCE], slice(start, start + _CELLS_AT_ONCE)
        counts_N = layout.counts_of(chosen)
        log_weights_NQ = np.tile(state.log_core_Q, (len(chosen), 1))
        log_scale_N = np.zeros(len(chosen))
        for mode, coords_N in zip(layout.order, nonzeros.coords_MN[:, chosen].astype(np.int64), strict=True):
            log_weights_NQ += state.log_phi[mode][coords_N[:, None], state.subs_QM[:, mode]]
            log_scale_N += scaled.log_scale_R[layout.offsets_M[mode] + coords_N]
        log_totals_N = log_sums(log_weights_NQ)
        weights_NQ = exp_of(log_weights_NQ - log_totals_N[:, None])
        rates_N = exp_of(np.minimum(log_totals_N, _MOST_LOG))
        _split_all(nonzeros, chosen, counts_N, latent, rates_N, weights_NQ, stream, buffers, sums)
        if latent is None:
            log_fit_U[here] = counts_N * (log_totals_N - log_scale_N)
        else:
            pairs = zip(counts_N.tolist(), log_totals_N.tolist(), strict=True)
            log_fit_U[here] = [log_fit(latent.likelihood, count, log_rate) for count, log_rate in pairs]
    return log_fit_U


@kernel
def _split_all(
    nonzeros: NonZeros, which: Ints, counts_N: Ints, latent: Latent | None, rates_N: Floats, weights_NQ: Floats,
    stream: Words, buffers: SplitBuffers, sums: ThreadSums,
) -> None:  # fmt: skip
    coords_MN, first_cell, weights_2Q = nonzeros.coords_MN, nonzeros.first_cell, buffers.weights_2Q
    for i in range(which.size):
        for q in range(weights_NQ.shape[1]):
            weights_2Q[0, q] = weights_NQ[i, q]
        total = dot_of_rows(weights_2Q, FIRST, weights_2Q, SECOND)
        _split(coords_MN, which[i], first_cell, counts_N[i], latent, rates_N[i], total, stream, buffers, sums)


@part
def _split(
    coords_MN: NDArray[Any], n: int, first_cell: int, count: int, latent: Latent | None, rate: float, total: float,
    stream: Words, buffers: SplitBuffers, sums: ThreadSums,
) -> None:  # fmt: skip
    """Split a cell's latent count by the weights, whose sum is `total`, and add the parts."""
    weights_2Q, cumulative_Q, heavy_Q, split_Q, candidates, rng = buffers
    if latent is not None:
        seek(rng, latent.exact_stream, first_cell + n)
        count = draw_latent(rng, latent.likelihood, count, rate, candidates)
    seek(rng, stream, first_cell + n)
    multinomial(rng, count, weights_2Q[0], total, heavy_Q, cumulative_Q, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            add(sums, coords_MN, n, q, split_Q[q])


@part
def add(sums: ThreadSums, coords_MN: NDArray[Any], n: Any, q: Any, amount: Any) -> None:
    """Add `amount` counts of class q to the rows of cell n."""
    own_RQ, own_M, own_starts_M, whole_RQ, common_M, starts_M = sums
    for m in own_M:
        own_RQ[own_starts_M[m] + coords_MN[m, n], q] += amount
    for m in common_M:
        add_shared(whole_RQ, starts_M[m] + coords_MN[m, n], q, amount)

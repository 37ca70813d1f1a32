"""A batch of cells on its way through thinning: its scratch space, and the short loops that fill it.

The loops come in the order of `_thin_blocks` (thinning.py). A loop takes arrays one by one, not in tuples: see there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.latent_counts import BERNOULLI, LEAST_RATE, MOST_BINARY, MOST_BINARY_RATE, MOST_RATE
from allocore.gibbs.layout import LARGE
from allocore.kernels.arrays import Flags, Floats, Indices, Ints, Singles
from allocore.kernels.dot_product import FIRST, SECOND, dot_of_rows
from allocore.kernels.elementary import lane_log
from allocore.kernels.jit import inlined, kernel, part
from allocore.kernels.random import UNIFORMS_AT_ONCE, Words, scratch, seat, uniform
from allocore.kernels.simd import LANES, LEVEL, SLACK, aligned_zeros, column_at, level_at, new_towers, raise_tower

_TINY = 1e-20  # the least sum of scaled 32-bit products to trust: products that underflow are below 2^-52 of it
_CELLS, _DRAWS = 96, 384  # a batch is full when it has this many of either
_AT_ONCE = 8  # entries written at once to the list of draws


class Batch(NamedTuple):
    """Scratch space of one thread for the cells (C) and draws (D) of a batch.

    Rows of `products`: row m has the product over the first m + 1 modes, up to all but two modes; row modes - 1 has
    ones; then come the products over all modes but the last, a row for each fibre of the batch.
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
        """Space for cells of so many modes and rows of so many numbers."""
        draws = (_CELLS * MOST_BINARY if likelihood == BERNOULLI else _DRAWS + LARGE) + _AT_ONCE
        products = aligned_zeros(modes + _CELLS, width)
        products[modes - 1] = 1.0
        return cls(
            products=products,
            count_C=np.zeros(_CELLS, dtype=np.int64),
            rate_C=np.zeros(_CELLS),
            expm1_C=np.zeros(_CELLS),
            latent_C=np.zeros(_CELLS, dtype=np.int64),
            log_2C=np.zeros((2, _CELLS)),
            fibre_C=np.zeros(_CELLS, dtype=np.uint32),
            towers=new_towers(_CELLS, width),
            ends_C=np.zeros(_CELLS),
            totals_C=np.ones(_CELLS),
            cell_D=np.zeros(draws, dtype=np.uint32),
            column_D=np.zeros(draws, dtype=np.uint32),
            level_D=np.zeros(draws, dtype=np.uint32),
            class_D=np.zeros(draws, dtype=np.uint32),
            rest_D=np.zeros(draws),
            uniforms=np.zeros(draws + UNIFORMS_AT_ONCE),
            rng=scratch(),
        )


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
    """Find the level of every draw."""
    for d in range(draws):
        level_D[d] = level_at(towers, cell_D[d], column_D[d], rest_D[d])


@part
def find_classes(
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
            class_D[d] = draw_plainly(fibre, row, budget, scaled_RL, products, rng)


@kernel
def draw_plainly(fibre: Any, row: Any, budget: int, scaled_RL: Singles, products: Singles, rng: Words) -> int:
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

"""Exact thinning of cells where the quick way is not good enough, by conditional binomials.

Large counts are split over weights in 64 bits. Where the products of a cell underflow, its weights are made in
logarithms.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from allocore.gibbs.count_tables import Table, add
from allocore.gibbs.layout import Layout, NonZeros
from allocore.gibbs.workspace import ScaledRows
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.distributions import multinomial
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words, scratch, seat
from allocore.model.state import State

_LEAST = 1e-250  # 64-bit products are trusted if the largest is at least this
_CELLS_AT_ONCE = 1024


class Weights(NamedTuple):
    """What the 64-bit weights of a cell are made of: core values and expanded factors; and the scales of the rows."""

    core_Q: Floats
    phi_RQ: Floats
    log_scale_R: Floats


class SplitBuffers(NamedTuple):
    """Scratch space for splitting counts."""

    cumulative_Q: Floats
    split_Q: Ints
    stack: Ints
    rng: Words

    @classmethod
    def of(cls, budget: int) -> "SplitBuffers":
        """Space for so many classes."""
        return cls(np.empty(budget), np.empty(budget, dtype=np.int64), np.empty((64, 3), dtype=np.int64), scratch())


@kernel
def split_large(
    first: int, last: int, nonzeros: NonZeros, weights: Weights, stream: Words, buffers: SplitBuffers, table: Table,
    log_rates_L: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Split the large counts `first` to `last` over 64-bit weights; where these underflow, mark the cell instead.

    Leaves in `log_rates_L` their y log(rate), less the scales of their rows.
    """
    coords_MN, _, _, large_L, large_counts_L, _, starts_M = nonzeros
    core_Q, phi_RQ, log_scale_R = weights
    cumulative_Q, budget = buffers.cumulative_Q, core_Q.size
    for i in range(first, last):
        n, top, log_scale = large_L[i], 0.0, 0.0
        for q in range(budget):
            cumulative_Q[q] = core_Q[q]
        for m in range(starts_M.size):
            row = starts_M[m] + coords_MN[m, n]
            log_scale += log_scale_R[row]
            for q in range(budget):
                cumulative_Q[q] *= phi_RQ[row, q]
        for q in range(budget):
            top = max(top, cumulative_Q[q])
        if not top >= _LEAST:  # so that NaN is caught too
            underflow_N[n] = True
            continue
        for q in range(1, budget):
            cumulative_Q[q] += cumulative_Q[q - 1]
        _split(coords_MN, n, large_counts_L[i], stream, buffers, table)
        log_rates_L[i] = large_counts_L[i] * (log(cumulative_Q[budget - 1]) - log_scale)


@part
def _split(coords_MN: NDArray[Any], n: int, count: int, stream: Words, buffers: SplitBuffers, table: Table) -> None:
    """Split a cell's count by the running sums of the weights, and add it to the tables."""
    cumulative_Q, split_Q, stack, rng = buffers
    seat(rng, stream, n)
    multinomial(rng, count, cumulative_Q, stack, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            add(table, coords_MN, n, q, split_Q[q])


def split_in_logs(which: Ints, layout: Layout, state: State, scaled: ScaledRows, stream: Words, table: Table) -> float:
    """Split the cells `which` over weights made in logarithms; returns their y log(rate), less the scales of
    their rows, added up.
    """
    coords_MN, buffers, log_rates = layout.nonzeros.coords_MN, SplitBuffers.of(len(state.log_core_Q)), 0.0
    for start in range(0, len(which), _CELLS_AT_ONCE):
        chosen = which[start : start + _CELLS_AT_ONCE]
        counts_N = layout.counts_of(chosen)
        log_weights_NQ = np.tile(state.log_core_Q, (len(chosen), 1))
        log_scale_N = np.zeros(len(chosen))
        for mode, coords_N in zip(layout.order, coords_MN[:, chosen].astype(np.int64), strict=True):
            log_weights_NQ += state.log_phi[mode][coords_N[:, None], state.subs_QM[:, mode]]
            log_scale_N += scaled.log_scale_R[layout.offsets_M[mode] + coords_N]
        log_totals_N = logsumexp(log_weights_NQ, axis=1)
        cumulative_NQ = np.cumsum(np.exp(log_weights_NQ - log_totals_N[:, None]), axis=1)
        _split_all(coords_MN, chosen, counts_N, cumulative_NQ, stream, buffers, table)
        log_rates += float((counts_N * (log_totals_N - log_scale_N)).sum())
    return log_rates


@kernel
def _split_all(
    coords_MN: NDArray[Any], which: Ints, counts_N: Ints, cumulative_NQ: Floats, stream: Words,
    buffers: SplitBuffers, table: Table,
) -> None:  # fmt: skip
    for i in range(which.size):
        for q in range(buffers.cumulative_Q.size):
            buffers.cumulative_Q[q] = cumulative_NQ[i, q]
        _split(coords_MN, which[i], counts_N[i], stream, buffers, table)

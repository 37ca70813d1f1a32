"""Exact thinning by conditional binomials, for cells that the fast kernel cannot handle.

Large counts are split over 64-bit weights. If the products of a cell underflow, its weights are computed in logarithms.
If the likelihood is not Poisson, the latent count of a cell is drawn first (latent_counts.py) and then split.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.count_tables import Table, add
from allocore.gibbs.latent_counts import POISSON, draw_latent, log_fit
from allocore.gibbs.layout import Layout, NonZeros
from allocore.gibbs.workspace import ScaledRows
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.chinese_restaurant import SCRATCH
from allocore.kernels.distributions import multinomial
from allocore.kernels.elementary import exp_of, log_sums
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words, scratch, seat
from allocore.model.state import State

_LEAST = 1e-250  # 64-bit products are trusted if the largest is at least this large
_CELLS_AT_ONCE = 1024
_MOST_LOG = 700.0  # exp of anything larger may overflow


class Weights(NamedTuple):
    """Core values and expanded factors, which give the 64-bit weights of a cell, and the scales of the rows."""

    core_Q: Floats
    phi_RQ: Floats
    log_scale_R: Floats


class SplitBuffers(NamedTuple):
    """Scratch space for splitting counts."""

    cumulative_Q: Floats
    split_Q: Ints
    stack: Ints
    candidates: Ints
    rng: Words

    @classmethod
    def of(cls, budget: int) -> "SplitBuffers":
        """Space for `budget` classes."""
        stack, candidates = np.empty((64, 3), dtype=np.int64), np.empty(SCRATCH, dtype=np.int64)
        return cls(np.empty(budget), np.empty(budget, dtype=np.int64), stack, candidates, scratch())


class ExactStreams(NamedTuple):
    """Random numbers per cell: for splitting its count, and for its latent count."""

    split: Words
    latent: Words


@kernel
def split_large(
    first: int, last: int, likelihood: int, nonzeros: NonZeros, weights: Weights, streams: ExactStreams,
    buffers: SplitBuffers, table: Table, log_fit_L: Floats, underflow_N: Flags,
) -> None:  # fmt: skip
    """Split the large counts `first` to `last` over 64-bit weights; if these underflow, mark the cell instead.

    Writes the log-likelihood of each to `log_fit_L`; if it is Poisson, without the scales of the rows.
    """
    coords_MN, _, _, large_L, large_counts_L, _, starts_M, first_cell = nonzeros
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
        if not top >= _LEAST:  # `not >=` also catches NaN
            underflow_N[n] = True
            continue
        for q in range(1, budget):
            cumulative_Q[q] += cumulative_Q[q - 1]
        log_rate = log(cumulative_Q[budget - 1])
        rate = cumulative_Q[budget - 1]
        _split(coords_MN, n, first_cell, large_counts_L[i], likelihood, rate, streams, buffers, table)
        log_fit_L[i] = log_fit(likelihood, large_counts_L[i], log_rate - log_scale * (likelihood == POISSON))


@part
def _split(
    coords_MN: NDArray[Any], n: int, first_cell: int, count: int, likelihood: int, rate: float, streams: ExactStreams,
    buffers: SplitBuffers, table: Table,
) -> None:  # fmt: skip
    """Split a cell's latent count by the running sum of the weights, and add the parts to the tables."""
    cumulative_Q, split_Q, stack, candidates, rng = buffers
    if likelihood != POISSON:
        seat(rng, streams.latent, first_cell + n)
        count = draw_latent(rng, likelihood, count, rate, candidates)
    seat(rng, streams.split, first_cell + n)
    multinomial(rng, count, cumulative_Q, stack, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            add(table, coords_MN, n, q, split_Q[q])


def split_in_logs(
    which: Ints,
    layout: Layout,
    likelihood: int,
    state: State,
    scaled: ScaledRows,
    streams: ExactStreams,
    table: Table,
) -> Floats:
    """Split the cells `which` over weights computed in logarithms.

    Returns the log-likelihood of each; if it is Poisson, without the scales of the rows.
    """
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
        cumulative_NQ = np.cumsum(exp_of(log_weights_NQ - log_totals_N[:, None]), axis=1)
        rates_N = exp_of(np.minimum(log_totals_N, _MOST_LOG))
        _split_all(nonzeros, chosen, counts_N, likelihood, rates_N, cumulative_NQ, streams, buffers, table)
        if likelihood == POISSON:
            log_fit_U[here] = counts_N * (log_totals_N - log_scale_N)
        else:
            pairs = zip(counts_N.tolist(), log_totals_N.tolist(), strict=True)
            log_fit_U[here] = [log_fit(likelihood, count, log_rate) for count, log_rate in pairs]
    return log_fit_U


@kernel
def _split_all(
    nonzeros: NonZeros, which: Ints, counts_N: Ints, likelihood: int, rates_N: Floats, cumulative_NQ: Floats,
    streams: ExactStreams, buffers: SplitBuffers, table: Table,
) -> None:  # fmt: skip
    coords_MN, first_cell = nonzeros.coords_MN, nonzeros.first_cell
    for i in range(which.size):
        for q in range(buffers.cumulative_Q.size):
            buffers.cumulative_Q[q] = cumulative_NQ[i, q]
        _split(coords_MN, which[i], first_cell, counts_N[i], likelihood, rates_N[i], streams, buffers, table)

"""Exact thinning by conditional binomials, for cells that the fast kernel cannot handle.

Large counts are split over 64-bit weights. If the products of a cell underflow, its weights are computed in logarithms.
If the likelihood is not Poisson, the latent count of a cell is drawn first (latent_counts.py) and then split.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.count_tables import Table, add
from allocore.gibbs.latent_counts import Latent, draw_latent, log_fit
from allocore.gibbs.layout import Layout, NonZeros
from allocore.gibbs.workspace import ScaledRows
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.chinese_restaurant import SCRATCH
from allocore.kernels.distributions import multinomial
from allocore.kernels.dot_product import FIRST, SECOND, dot_of_rows
from allocore.kernels.elementary import exp_of, log_sums
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words, scratch, seat
from allocore.model.state import State

_LEAST = 1e-250  # 64-bit products are trusted if their sum is at least this large
_CELLS_AT_ONCE = 1024
_MOST_LOG = 700.0  # exp of anything larger may overflow


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
    buffers: SplitBuffers, table: Table, log_fit_L: Floats, underflow_N: Flags,
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
        _split(coords_MN, n, first_cell, large_counts_L[i], latent, rate, rate, stream, buffers, table)
        if latent is None:
            log_fit_L[i] = large_counts_L[i] * (log(rate) - log_scale)
        else:
            log_fit_L[i] = log_fit(latent.likelihood, large_counts_L[i], log(rate))


@part
def _split(
    coords_MN: NDArray[Any], n: int, first_cell: int, count: int, latent: Latent | None, rate: float, total: float,
    stream: Words, buffers: SplitBuffers, table: Table,
) -> None:  # fmt: skip
    """Split a cell's latent count by the weights, whose sum is `total`, and add the parts to the tables."""
    weights_2Q, cumulative_Q, heavy_Q, split_Q, candidates, rng = buffers
    if latent is not None:
        seat(rng, latent.exact_stream, first_cell + n)
        count = draw_latent(rng, latent.likelihood, count, rate, candidates)
    seat(rng, stream, first_cell + n)
    multinomial(rng, count, weights_2Q[0], total, heavy_Q, cumulative_Q, split_Q)
    for q in range(split_Q.size):
        if split_Q[q] > 0:
            add(table, coords_MN, n, q, split_Q[q])


def split_in_logs(
    which: Ints,
    layout: Layout,
    latent: Latent | None,
    state: State,
    scaled: ScaledRows,
    stream: Words,
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
        weights_NQ = exp_of(log_weights_NQ - log_totals_N[:, None])
        rates_N = exp_of(np.minimum(log_totals_N, _MOST_LOG))
        _split_all(nonzeros, chosen, counts_N, latent, rates_N, weights_NQ, stream, buffers, table)
        if latent is None:
            log_fit_U[here] = counts_N * (log_totals_N - log_scale_N)
        else:
            pairs = zip(counts_N.tolist(), log_totals_N.tolist(), strict=True)
            log_fit_U[here] = [log_fit(latent.likelihood, count, log_rate) for count, log_rate in pairs]
    return log_fit_U


@kernel
def _split_all(
    nonzeros: NonZeros, which: Ints, counts_N: Ints, latent: Latent | None, rates_N: Floats, weights_NQ: Floats,
    stream: Words, buffers: SplitBuffers, table: Table,
) -> None:  # fmt: skip
    coords_MN, first_cell, weights_2Q = nonzeros.coords_MN, nonzeros.first_cell, buffers.weights_2Q
    for i in range(which.size):
        for q in range(weights_NQ.shape[1]):
            weights_2Q[0, q] = weights_NQ[i, q]
        total = dot_of_rows(weights_2Q, FIRST, weights_2Q, SECOND)
        _split(coords_MN, which[i], first_cell, counts_N[i], latent, rates_N[i], total, stream, buffers, table)

"""Which factors in use explain the counts of a class, as a mixture: where split_merge.py looks for two in its place.

Counts y[d] over rows of reach R[d] come from factor k with weight w_k, in shares phi[d, k] R[d] / S_k, where S_k =
sum_d phi[d, k] R[d]. A few steps of EM fit the weights. They are only a proposal, so they need not be exact; but they
must be a function of counts, reach and factors alone. Cost: D * (factors in use).
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from allocore.gibbs.priors import Priors
from allocore.gibbs.relocation import log_core_integral
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import binomial
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words

_STEPS = 12
_LEAK = 0.05  # the share of proposals that do not look at the counts
_TINY = 1e-280
_MOST = 700.0  # of which the exponential is a float


class FactorsInUse(NamedTuple):
    """The factors of a mode, also as logarithms, and which of them are in use."""

    used_U: Ints
    phi_DK: Floats
    log_phi_DK: Floats


class Explained(NamedTuple):
    """How the factors in use explain some counts: weights w, sums S, and scores.

    The scores are those of relocation for one class that holds all the counts, less the prior.
    """

    weights_U: Floats
    reach_U: Floats
    scores_U: Floats


@kernel
def explain(y_D: Ints, reach_D: Floats, priors: Priors, factors: FactorsInUse, explained: Explained) -> None:
    """Fill `explained` for the counts of a class."""
    used_U, phi_DK, log_phi_DK = factors
    weights_U, reach_U, scores_U = explained
    used, total, rows = used_U.size, 0, 0
    phi_NU, counts_N = np.empty((y_D.size, used)), np.empty(y_D.size)
    for u in range(used):
        weights_U[u], reach_U[u], scores_U[u] = 1.0 / used, 0.0, 0.0
    for d in range(y_D.size):
        for u in range(used):
            reach_U[u] += reach_D[d] * phi_DK[d, used_U[u]]
        if y_D[d] > 0:
            counts_N[rows] = y_D[d]
            for u in range(used):
                phi_NU[rows, u] = phi_DK[d, used_U[u]]
                scores_U[u] += counts_N[rows] * log_phi_DK[d, used_U[u]]
            total += y_D[d]
            rows += 1
    for u in range(used):
        scores_U[u] += log_core_integral(total, reach_U[u], priors)
    _climb(counts_N[:rows], phi_NU[:rows], reach_U, weights_U)
    for u in range(used):
        weights_U[u] = (1.0 - _LEAK) * weights_U[u] + _LEAK / used


@part
def _climb(counts_N: Floats, phi_NU: Floats, reach_U: Floats, weights_U: Floats) -> None:
    """The steps of EM, over the rows that have counts."""
    rows, used = phi_NU.shape
    phi_UN, ratio_N, shares_U = np.empty((used, rows)), np.empty(rows), np.empty(used)
    for n in range(rows):
        for u in range(used):
            phi_UN[u, n] = phi_NU[n, u]
    for _ in range(_STEPS):
        # Both sums run over the outer loop, so that the inner one becomes vector code.
        for n in range(rows):
            ratio_N[n] = _TINY
        for u in range(used):
            weight, shares_U[u] = weights_U[u] / max(reach_U[u], _TINY), 0.0
            for n in range(rows):
                ratio_N[n] += weight * phi_UN[u, n]
        for n in range(rows):
            ratio = counts_N[n] / ratio_N[n]
            for u in range(used):
                shares_U[u] += ratio * phi_NU[n, u]
        _reweigh(shares_U, reach_U, weights_U)


@part
def _reweigh(shares_U: Floats, reach_U: Floats, weights_U: Floats) -> None:
    """New weights, which add up to one whatever was lost to underflow."""
    total = 0.0
    for u in range(weights_U.size):
        weights_U[u] *= shares_U[u] / max(reach_U[u], _TINY)
        total += weights_U[u]
    for u in range(weights_U.size):
        weights_U[u] = weights_U[u] / total if total > 0.0 else 1.0 / weights_U.size


@kernel
def log_odds_of_two(y_D: Ints, log_phi_2D: Floats, reach_2: Floats, share: float) -> float:
    """ln (w' / S') - ln (w / S) of two factors that explain the counts; `share` is the first guess of w' = 1 - w."""
    shift = log(max(reach_2[0], _TINY)) - log(max(reach_2[1], _TINY))
    total = 0.0
    for d in range(y_D.size):
        total += y_D[d]
    for _ in range(_STEPS):
        odds, others = log(share) - log(1.0 - share) + shift, 0.0
        for d in range(y_D.size):
            if y_D[d] > 0:
                others += y_D[d] / (1.0 + exp(min(log_phi_2D[0, d] - log_phi_2D[1, d] - odds, _MOST)))
        share = (others + 1.0) / (total + 2.0)  # never quite none or all
    return log(share) - log(1.0 - share) + shift


@kernel
def share_counts(y_D: Ints, odds_D: Floats, rng: Words, kept_D: Ints) -> None:
    """Of the counts of each row, how many do not go to the other, with these log odds to go."""
    for d in range(y_D.size):
        kept_D[d] = binomial(rng, y_D[d], 1.0 / (1.0 + exp(min(odds_D[d], _MOST))))

"""A mixture of factors in use that explains the counts of a class; split_merge.py proposes two of them.

Counts y[d] in rows of exposure R[d] come from factor k with weight w_k, in shares phi[d, k] R[d] / S_k, where S_k =
sum_d phi[d, k] R[d]. A few steps of EM fit the weights. They only make a proposal, so they need not be exact, but they
must be a function of counts, exposure and factors alone. Cost: D * (factors in use).
"""

from math import exp, log, log1p
from typing import NamedTuple

import numpy as np

from allocore.gibbs.priors import Priors
from allocore.gibbs.relocation import log_core_integral
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import binomial
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words

_STEPS = 12
_LEAK = 0.05  # the share of proposals that ignore the counts, so that every factor can be proposed
_TINY = 1e-280
_MOST = 700.0  # exp of anything larger may overflow


class FactorsInUse(NamedTuple):
    """The factors of a mode, their logarithms, and which of them are in use."""

    used_U: Ints
    phi_DK: Floats
    log_phi_DK: Floats


class Explained(NamedTuple):
    """How the factors in use explain some counts: weights w, sums S, and scores.

    The scores are those of relocation, without the prior, for one class that holds all the counts.
    """

    weights_U: Floats
    exposure_U: Floats
    scores_U: Floats


@kernel
def explain(y_D: Floats, exposure_D: Floats, priors: Priors, factors: FactorsInUse, explained: Explained) -> None:
    """Fill `explained` for the counts of a class."""
    used_U, phi_DK, log_phi_DK = factors
    weights_U, exposure_U, scores_U = explained
    used, total, rows = used_U.size, 0.0, 0
    phi_NU, counts_N = np.empty((y_D.size, used)), np.empty(y_D.size)
    for u in range(used):
        weights_U[u], exposure_U[u], scores_U[u] = 1.0 / used, 0.0, 0.0
    for d in range(y_D.size):
        for u in range(used):
            exposure_U[u] += exposure_D[d] * phi_DK[d, used_U[u]]
        if y_D[d] > 0:
            counts_N[rows] = y_D[d]
            for u in range(used):
                phi_NU[rows, u] = phi_DK[d, used_U[u]]
                scores_U[u] += counts_N[rows] * log_phi_DK[d, used_U[u]]
            total += y_D[d]
            rows += 1
    for u in range(used):
        scores_U[u] += log_core_integral(total, exposure_U[u], priors.a0, priors.b0)
    _climb(counts_N[:rows], phi_NU[:rows], exposure_U, weights_U)
    for u in range(used):
        weights_U[u] = (1.0 - _LEAK) * weights_U[u] + _LEAK / used


@part
def _climb(counts_N: Floats, phi_NU: Floats, exposure_U: Floats, weights_U: Floats) -> None:
    """The steps of EM, over the rows that have counts."""
    rows, used = phi_NU.shape
    phi_UN, ratio_N, shares_U = np.empty((used, rows)), np.empty(rows), np.empty(used)
    for n in range(rows):
        for u in range(used):
            phi_UN[u, n] = phi_NU[n, u]
    for _ in range(_STEPS):
        # Both sums run over the outer loop, so that the inner loop becomes vector code.
        for n in range(rows):
            ratio_N[n] = _TINY
        for u in range(used):
            weight, shares_U[u] = weights_U[u] / max(exposure_U[u], _TINY), 0.0
            for n in range(rows):
                ratio_N[n] += weight * phi_UN[u, n]
        for n in range(rows):
            ratio = counts_N[n] / ratio_N[n]
            for u in range(used):
                shares_U[u] += ratio * phi_NU[n, u]
        _reweigh(shares_U, exposure_U, weights_U)


@part
def _reweigh(shares_U: Floats, exposure_U: Floats, weights_U: Floats) -> None:
    """New weights, which sum to one even after underflow."""
    total = 0.0
    for u in range(weights_U.size):
        weights_U[u] *= shares_U[u] / max(exposure_U[u], _TINY)
        total += weights_U[u]
    for u in range(weights_U.size):
        weights_U[u] = weights_U[u] / total if total > 0.0 else 1.0 / weights_U.size


@kernel
def log_odds_of_two(y_D: Floats, log_phi_2D: Floats, exposure_2: Floats, share: float) -> float:
    """ln (w' / S') - ln (w / S) of two factors that explain the counts; `share` is a first guess of w' = 1 - w."""
    shift = log(max(exposure_2[0], _TINY)) - log(max(exposure_2[1], _TINY))
    total = 0.0
    for d in range(y_D.size):
        total += y_D[d]
    for _ in range(_STEPS):
        odds, others = log(share) - log(1.0 - share) + shift, 0.0
        for d in range(y_D.size):
            if y_D[d] > 0:
                others += y_D[d] / (1.0 + exp(min(log_phi_2D[0, d] - log_phi_2D[1, d] - odds, _MOST)))
        share = (others + 1.0) / (total + 2.0)  # never 0 or 1
    return log(share) - log(1.0 - share) + shift


@kernel
def share_counts(y_D: Floats, odds_D: Floats, rng: Words, kept_D: Floats) -> None:
    """Draw how many counts of each row stay with q, given the log odds that a count goes to r."""
    for d in range(y_D.size):
        kept_D[d] = binomial(rng, int(y_D[d]), 1.0 / (1.0 + exp(min(odds_D[d], _MOST))))


@kernel
def log_weight_of_shares(kept_D: Floats, given_D: Floats, odds_D: Floats, log_phi_2D: Floats) -> float:
    """ln prod_d of phi[d]^y at the two factors, divided by the probability of sharing the counts in this way.

    Without the number of ways, which is the same in both.
    """
    total = 0.0
    for d in range(kept_D.size):
        log_odds, beyond = odds_D[d], log1p(exp(-abs(odds_D[d])))
        if kept_D[d] > 0:
            total += kept_D[d] * (log_phi_2D[0, d] + max(log_odds, 0.0) + beyond)
        if given_D[d] > 0:
            total += given_D[d] * (log_phi_2D[1, d] + max(-log_odds, 0.0) + beyond)
    return total

"""Locations of the classes in one mode, given counts, core values and the other modes; classes one after another.

With pi integrated out, and every factor that no other class uses integrated out (U of them), class q goes to

    a factor k in use     log(n_k + alpha0/D)  +  sum_d y[d, q] log phi[d, k]  -  sum_d phi[d, k] X[d, q]
    a factor of its own   log(U alpha0/D)      +  sum_d lnG(e0 + y) - lnG(e0) + e0 ln f0 - (e0 + y) ln(f0 + X)

where n_k counts the other classes at k. A class that takes an unused factor draws it at once, phi[d, k] ~
Gamma(e0 + y, f0 + X). The paper instead conditions on the prior draw of an unused factor, which can never fit data;
the posterior is the same.

A class that is alone on its factor and chooses "a factor of its own" stays where it is, with the factor it has: labels
are exchangeable and that factor is already a draw from its conditional, so this too leaves the posterior as it is.
Cost: D * Q * (factors in use), and D * Q more for every factor newly taken.
"""

from dataclasses import replace
from functools import lru_cache, partial
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from allocore._jit import kernel, part
from allocore.gibbs._draws import categorical_from_logs, log_gamma
from allocore.gibbs._random import Key, Step, Words, scratch, seat, uniform
from allocore.gibbs.layout import Ints, Layout
from allocore.model.spec import Spec
from allocore.model.state import State

_SMALL_COUNTS = 256
_Floats = NDArray[np.float64]


def relocate(key: Key, layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats) -> State:
    """A new state with every class relocated in one mode."""
    scores_QK, new_Q = location_scores(layout, spec, state, mode, y_DQ, reach_DQ)
    used_K = state.used(mode)
    # Factors are known by their place in this list, those in use first, so that no loop runs over the others.
    factors_K = np.concatenate([np.flatnonzero(used_K), np.flatnonzero(~used_K)])
    places_Q = np.argsort(factors_K)[state.subs_QM[:, mode]]
    log_phi_DK = state.log_phi[mode].copy()
    _move_classes(
        scores_QK, new_Q, spec.alpha0 / len(log_phi_DK), spec.e0, spec.f0, y_DQ, reach_DQ, state.core_values(),
        key.stream(Step.RELOCATE, mode), key.stream(Step.NEW_FACTOR, mode), scratch(), int(used_K.sum()), factors_K,
        places_Q, np.bincount(places_Q, minlength=len(factors_K)), log_phi_DK,
    )  # fmt: skip
    subs_QM = state.subs_QM.copy()
    subs_QM[:, mode] = factors_K[places_Q]
    log_phi = (*state.log_phi[:mode], log_phi_DK, *state.log_phi[mode + 1 :])
    return replace(state, subs_QM=subs_QM, log_phi=log_phi)


def location_scores(
    layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats
) -> tuple[_Floats, _Floats]:
    """The data's part of the scores: `scores_QK` of the factors in use, in the first columns, `new_Q` of an unused one.

    The other columns are for factors taken later.
    """
    log_phi_DU = np.ascontiguousarray(state.log_phi[mode][:, state.used(mode)])
    core_Q, phi_DU = state.core_values(), np.exp(log_phi_DU)
    pairs = -(-spec.budget // 2)
    scores_QK, new_Q = np.zeros((2 * pairs, spec.core_shape[mode])), np.zeros(spec.budget)
    used = [
        partial(_score_used, *cut, y_DQ, reach_DQ, core_Q, log_phi_DU, phi_DU, scores_QK)
        for cut in layout.workers.ranges(pairs, 4)
    ]
    new = [
        partial(_score_new, *cut, y_DQ, reach_DQ, core_Q, spec.e0, spec.f0, _log_rising(spec.e0), new_Q)
        for cut in layout.workers.ranges(spec.budget, 8)
    ]
    layout.workers.run(used + new)
    return scores_QK[: spec.budget], new_Q


@lru_cache
def _log_rising(e0: float) -> _Floats:
    """lnG(e0 + y) - lnG(e0) for small counts y."""
    return gammaln(e0 + np.arange(_SMALL_COUNTS)) - gammaln(e0)


@kernel
def _score_used(
    first: int, last: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, log_phi_DU: _Floats, phi_DU: _Floats,
    scores_QK: _Floats,
) -> None:  # fmt: skip
    """Scores of the factors in use for pairs of classes `first` to `last`.

    A dense product, four rows and two classes at a time, which uses the caches best, and a sparse one. Where the number
    of classes is odd, the last row of `scores_QK` is the other half of the last pair.
    """
    length, used = phi_DU.shape
    for pair in range(first, last):
        q, r = 2 * pair, min(2 * pair + 1, core_Q.size - 1)
        for d in range(0, length - 3, 4):
            a0, a1 = core_Q[q] * reach_DQ[d, q], core_Q[q] * reach_DQ[d + 1, q]
            a2, a3 = core_Q[q] * reach_DQ[d + 2, q], core_Q[q] * reach_DQ[d + 3, q]
            b0, b1 = core_Q[r] * reach_DQ[d, r], core_Q[r] * reach_DQ[d + 1, r]
            b2, b3 = core_Q[r] * reach_DQ[d + 2, r], core_Q[r] * reach_DQ[d + 3, r]
            for u in range(used):
                p0, p1, p2, p3 = phi_DU[d, u], phi_DU[d + 1, u], phi_DU[d + 2, u], phi_DU[d + 3, u]
                scores_QK[q, u] -= a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                scores_QK[q + 1, u] -= b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
        for d in range(length - length % 4, length):
            a0, b0 = core_Q[q] * reach_DQ[d, q], core_Q[r] * reach_DQ[d, r]
            for u in range(used):
                scores_QK[q, u] -= a0 * phi_DU[d, u]
                scores_QK[q + 1, u] -= b0 * phi_DU[d, u]
        for c in range(q, r + 1):
            for d in range(length):
                if y_DQ[d, c] > 0:
                    y = np.float64(y_DQ[d, c])
                    for u in range(used):
                        scores_QK[c, u] += y * log_phi_DU[d, u]


@kernel
def _score_new(
    first: int, last: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, e0: float, f0: float, log_rising: _Floats,
    new_Q: _Floats,
) -> None:  # fmt: skip
    """Scores of an unused factor, integrated out, for classes `first` to `last`."""
    length, log_gamma_e0 = y_DQ.shape[0], lgamma(e0)
    for q in range(first, last):
        score, product = length * e0 * log(f0), 1.0
        for d in range(length):
            y, rate = y_DQ[d, q], f0 + core_Q[q] * reach_DQ[d, q]
            if not 1e-100 < rate < 1e100:
                score -= e0 * log(rate)
            else:
                product *= rate  # one logarithm for many rates
                if not 1e-150 < product < 1e150:
                    score -= e0 * log(product)
                    product = 1.0
            if y > 0:
                score -= y * log(rate)
                score += log_rising[y] if y < log_rising.size else lgamma(e0 + y) - log_gamma_e0
        new_Q[q] = score - e0 * log(product)


@kernel
def _move_classes(
    scores_QK: _Floats, new_Q: _Floats, alpha: float, e0: float, f0: float, y_DQ: Ints, reach_DQ: _Floats,
    core_Q: _Floats, choices: Words, draws: Words, rng: Words, places: int, factors_K: Ints, places_Q: Ints,
    others_K: Ints, log_phi_DK: _Floats,
) -> None:  # fmt: skip
    """Move the classes in turn; `others_K` counts the classes at each place, and the one that moves is taken out.

    `places` is how many places are or were in use.
    """
    weights, cumulative = np.empty(others_K.size + 1), np.empty(others_K.size + 1)
    log_prior = np.empty(places_Q.size + 1)
    for n in range(log_prior.size):
        log_prior[n] = log(n + alpha)
    for q in range(places_Q.size):
        home = places_Q[q]
        others_K[home] -= 1
        alone = others_K[home] == 0
        free = others_K.size
        for k in range(places):
            weights[k] = -np.inf
            if others_K[k] > 0:
                weights[k] = log_prior[others_K[k]] + scores_QK[q, k]
                free -= 1
        weights[places] = log(free * alpha) + new_Q[q] if free > 0 else -np.inf
        seat(rng, choices, q)
        choice = categorical_from_logs(rng, weights, places + 1, cumulative)
        if choice == places:
            choice = home
            if not alone:
                choice, places = _take(int(uniform(rng) * free), places, factors_K, others_K)
                _draw_column(q, factors_K[choice], e0, f0, y_DQ, reach_DQ, core_Q, draws, rng, log_phi_DK)
                _score_column(q + 1, choice, factors_K[choice], y_DQ, reach_DQ, core_Q, log_phi_DK, scores_QK)
        elif alone:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, factors_K[home]] = -np.inf
        others_K[choice] += 1
        places_Q[q] = choice


@part
def _take(n: int, places: int, factors_K: Ints, others_K: Ints) -> tuple[int, int]:
    """Take the n-th free factor; one that was never in use comes next to those that were. Returns its place, and the
    number of places that are or were in use.
    """
    for k in range(others_K.size):
        if others_K[k] == 0:
            if n == 0:
                if k < places:
                    return k, places
                factors_K[k], factors_K[places] = factors_K[places], factors_K[k]
                return places, places + 1
            n -= 1
    return -1, places


@part
def _draw_column(
    q: int, k: int, e0: float, f0: float, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, draws: Words, rng: Words,
    log_phi_DK: _Floats,
) -> None:  # fmt: skip
    """Draw the factor that class q alone now uses."""
    seat(rng, draws, q)
    for d in range(y_DQ.shape[0]):
        log_phi_DK[d, k] = log_gamma(rng, e0 + y_DQ[d, q], f0 + core_Q[q] * reach_DQ[d, q])


@part
def _score_column(
    first: int, place: int, k: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, log_phi_DK: _Floats,
    scores_QK: _Floats,
) -> None:  # fmt: skip
    """Score a factor that has just been drawn, k, in the column `place` for the classes that are still to move."""
    for q in range(first, core_Q.size):
        scores_QK[q, place] = 0.0
    for d in range(y_DQ.shape[0]):
        log_phi = log_phi_DK[d, k]
        phi = exp(log_phi)
        for q in range(first, core_Q.size):
            scores_QK[q, place] -= core_Q[q] * reach_DQ[d, q] * phi
            if y_DQ[d, q] > 0:
                scores_QK[q, place] += y_DQ[d, q] * log_phi

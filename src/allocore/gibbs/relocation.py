"""Locations of the classes in one mode, given counts and the other modes, and with them core values; classes in turn.

With pi, the core value of the class and every factor that no other class uses (U of them) integrated out, class q goes
to

    a factor k in use     log(n_k + alpha0/D)  +  sum_d y[d, q] log phi[d, k]
                                               +  lnG(a0 + y_q)  -  (a0 + y_q) ln(b0 + sum_d phi[d, k] R[d, q])
    a factor of its own   log(U alpha0/D)      +  the log of the integral in alone.py

where n_k counts the other classes at k, and R = X / lambda_q. It then draws its core value, from Gamma(a0 + y_q, b0 +
sum_d phi[d, k] R[d, q]) or as alone.py says, and a factor of its own from Gamma(e0 + y, f0 + X), before the next class
moves. The integral is known up to a correction: a class that leaves a factor of its own, or takes one, does so if that
is accepted as Metropolis and Hastings have it. One that is alone on its factor and chooses one of its own stays so.

The paper conditions on the core value, and on a prior draw of each unused factor. The posterior is the same. But the
draw can never fit data; and given its core value, a class with many counts only ever takes a factor that has the scale
of its own, and one without counts stays where little is expected. A class that is off has no core value and goes by
the prior. Cost: D * Q * (factors in use), and D * Q more for every factor newly drawn.
"""

from functools import partial
from math import exp, lgamma, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.collapsed_factor import FIT_SIZE, LEFT, LOG_INTEGRAL, Priors, draw_alone, excess_alone, fit_alone
from allocore.gibbs.layout import Ints, Layout
from allocore.kernels.distributions import categorical_from_logs, log_gamma
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State

_Floats = NDArray[np.float64]


def relocate(key: Key, layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats) -> State:
    """A new state with every class relocated in one mode, and with new core values."""
    used_K = state.used(mode)
    # Factors are known by their place in this list, those in use first, so that no loop runs over the others.
    factors_K = np.concatenate([np.flatnonzero(used_K), np.flatnonzero(~used_K)])
    places_Q = np.argsort(factors_K)[state.subs_QM[:, mode]]
    log_phi_DK, log_core_Q = state.log_phi[mode].copy(), state.log_core_Q.copy()
    y_QD, reach_QD = by_class(y_DQ), by_class(reach_DQ)
    _move_classes(
        *location_scores(layout, spec, state, mode, y_QD, reach_QD), spec.alpha0 / len(log_phi_DK), Priors.of(spec),
        y_QD, reach_QD, key.stream(Step.RELOCATE, mode), key.stream(Step.NEW_FACTOR, mode),
        scratch(), int(used_K.sum()), factors_K, places_Q, np.bincount(places_Q, minlength=len(factors_K)), log_core_Q,
        log_phi_DK,
    )  # fmt: skip
    subs_QM = state.subs_QM.copy()
    subs_QM[:, mode] = factors_K[places_Q]
    log_phi = (*state.log_phi[:mode], log_phi_DK, *state.log_phi[mode + 1 :])
    return State(log_core_Q, subs_QM, log_phi)


def location_scores(
    layout: Layout, spec: Spec, state: State, mode: int, y_QD: Ints, reach_QD: _Floats
) -> tuple[_Floats, _Floats, _Floats]:
    """The data's part of the scores of the factors in use, in the first columns of `scores_QK`, and for each the sum of
    phi R, in `reach_QK`; the other columns are for factors taken later. And the fits of alone.py, `fits_QF`.

    Classes that are off have scores of zero.
    """
    log_phi_DU = np.ascontiguousarray(state.log_phi[mode][:, state.used(mode)])
    priors, phi_DU = Priors.of(spec), np.exp(log_phi_DU)
    pairs = -(-spec.budget // 2)
    reach_QK, scores_QK = np.zeros((2, 2 * pairs, spec.core_shape[mode]))
    fits_QF = np.empty((spec.budget, FIT_SIZE))
    used = [
        partial(_score_used, *cut, y_QD, reach_QD, priors, log_phi_DU, phi_DU, reach_QK, scores_QK)
        for cut in layout.workers.ranges(pairs, 4)
    ]
    new = [partial(_fit_new, *cut, y_QD, reach_QD, priors, fits_QF) for cut in layout.workers.ranges(spec.budget, 8)]
    layout.workers.run(used + new)
    off_Q = np.flatnonzero(~state.on())
    scores_QK[off_Q], fits_QF[off_Q] = 0.0, 0.0
    return scores_QK[: spec.budget], reach_QK[: spec.budget], fits_QF


def by_class(table_DQ: NDArray[Any]) -> NDArray[Any]:
    """The same with the rows of one class side by side."""
    return np.ascontiguousarray(table_DQ.T)


@kernel
def _score_used(
    first: int, last: int, y_QD: Ints, reach_QD: _Floats, priors: Priors, log_phi_DU: _Floats, phi_DU: _Floats,
    reach_QK: _Floats, scores_QK: _Floats,
) -> None:  # fmt: skip
    """Scores of the factors in use for pairs of classes `first` to `last`.

    A dense product, four rows and two classes at a time, which uses the caches best, and a sparse one. Where the number
    of classes is odd, the last row of `reach_QK` is the other half of the last pair.
    """
    length, used = phi_DU.shape
    for pair in range(first, last):
        q, r = 2 * pair, min(2 * pair + 1, y_QD.shape[0] - 1)
        for d in range(0, length - 3, 4):
            a0, a1, a2, a3 = reach_QD[q, d], reach_QD[q, d + 1], reach_QD[q, d + 2], reach_QD[q, d + 3]
            b0, b1, b2, b3 = reach_QD[r, d], reach_QD[r, d + 1], reach_QD[r, d + 2], reach_QD[r, d + 3]
            for u in range(used):
                p0, p1, p2, p3 = phi_DU[d, u], phi_DU[d + 1, u], phi_DU[d + 2, u], phi_DU[d + 3, u]
                reach_QK[q, u] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                reach_QK[q + 1, u] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
        for d in range(length - length % 4, length):
            for u in range(used):
                reach_QK[q, u] += reach_QD[q, d] * phi_DU[d, u]
                reach_QK[q + 1, u] += reach_QD[r, d] * phi_DU[d, u]
        for c in range(q, r + 1):
            _add_counts(y_QD[c], priors, log_phi_DU, reach_QK[c], scores_QK[c])


@part
def _add_counts(y_D: Ints, priors: Priors, log_phi_DU: _Floats, reach_K: _Floats, scores_K: _Floats) -> None:
    """The scores of one class, given what it reaches at each factor."""
    total = 0
    for d in range(y_D.size):
        if y_D[d] > 0:
            total += y_D[d]
            y = np.float64(y_D[d])
            for u in range(log_phi_DU.shape[1]):
                scores_K[u] += y * log_phi_DU[d, u]
    for u in range(log_phi_DU.shape[1]):
        scores_K[u] += log_core_integral(total, reach_K[u], priors)


@kernel
def log_core_integral(total: int, reach: float, priors: Priors) -> float:
    """The log integral of lambda^y exp(-lambda reach) over the prior of a core value, less the log of b0^a0 / G(a0)."""
    return lgamma(priors.a0 + total) - (priors.a0 + total) * log(priors.b0 + reach)


@kernel
def _fit_new(first: int, last: int, y_QD: Ints, reach_QD: _Floats, priors: Priors, fits_QF: _Floats) -> None:
    for q in range(first, last):
        fit_alone(y_QD[q], reach_QD[q], priors, fits_QF[q])


@kernel
def _move_classes(
    scores_QK: _Floats, reach_QK: _Floats, fits_QF: _Floats, alpha: float, priors: Priors, y_QD: Ints,
    reach_QD: _Floats, choices: Words, draws: Words, rng: Words, places: int, factors_K: Ints, places_Q: Ints,
    others_K: Ints, log_core_Q: _Floats, log_phi_DK: _Floats,
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
        weights[places] = log(free * alpha) + fits_QF[q, LOG_INTEGRAL] if free > 0 else -np.inf
        seat(rng, choices, q)
        choice = categorical_from_logs(rng, weights, places + 1, cumulative)
        new = choice == places
        reach = 0.0 if new else reach_QK[q, choice]
        stays, log_core = _core_there(
            alone, new, reach, log_core_Q[q], y_QD[q], reach_QD[q], priors, fits_QF[q], rng
        )  # fmt: skip
        if stays:
            others_K[home] += 1
            continue
        if new:
            choice, places = _take(int(uniform(rng) * free), places, factors_K, others_K)
            k = factors_K[choice]
            _draw_column(q, k, exp(log_core), y_QD, reach_QD, priors, draws, rng, log_phi_DK)
            _score_column(q + 1, choice, k, y_QD, reach_QD, priors, log_core_Q, log_phi_DK, reach_QK, scores_QK)
        elif alone:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, factors_K[home]] = -np.inf
        others_K[choice] += 1
        places_Q[q], log_core_Q[q] = choice, log_core


@part
def _core_there(
    alone: bool, new: bool, reach: float, before: float, y_D: Ints, reach_D: _Floats, priors: Priors, fitted: _Floats,
    rng: Words,
) -> tuple[bool, float]:  # fmt: skip
    """Whether a class stays where it is after all, and else its log core value at the factor chosen.

    `new` is the choice of a factor of its own; `alone`, that it has one. `reach` is of the factor chosen if not `new`.
    """
    if (alone and new) or before == -np.inf:
        return alone and new, before
    if new:
        after = draw_alone(rng, fitted)
        return not log(uniform(rng)) < excess_alone(after, y_D, reach_D, priors, fitted), after
    if alone and not log(uniform(rng)) < -excess_alone(before, y_D, reach_D, priors, fitted):
        return True, before
    return False, log_gamma(rng, fitted[LEFT], priors.b0 + reach)


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
    q: int, k: int, core: float, y_QD: Ints, reach_QD: _Floats, priors: Priors, draws: Words, rng: Words,
    log_phi_DK: _Floats,
) -> None:  # fmt: skip
    """Draw the factor that class q alone now uses."""
    seat(rng, draws, q)
    for d in range(log_phi_DK.shape[0]):
        log_phi_DK[d, k] = log_gamma(rng, priors.e0 + y_QD[q, d], priors.f0 + core * reach_QD[q, d])


@part
def _score_column(
    first: int, place: int, k: int, y_QD: Ints, reach_QD: _Floats, priors: Priors, log_core_Q: _Floats,
    log_phi_DK: _Floats, reach_QK: _Floats, scores_QK: _Floats,
) -> None:  # fmt: skip
    """Score a factor that has just been drawn, k, in the column `place` for the classes that are still to move."""
    log_phi_D, phi_D = np.empty(log_phi_DK.shape[0]), np.empty(log_phi_DK.shape[0])
    for d in range(log_phi_D.size):
        log_phi_D[d], phi_D[d] = log_phi_DK[d, k], exp(log_phi_DK[d, k])
    for q in range(first, log_core_Q.size):
        total, reach, score = 0, 0.0, 0.0
        for d in range(log_phi_D.size):
            reach += reach_QD[q, d] * phi_D[d]
            if y_QD[q, d] > 0:
                total += y_QD[q, d]
                score += y_QD[q, d] * log_phi_D[d]
        on = log_core_Q[q] > -np.inf
        reach_QK[q, place] = reach
        scores_QK[q, place] = score + log_core_integral(total, reach, priors) if on else 0.0

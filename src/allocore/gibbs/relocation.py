"""Locations of the classes in one mode, given the counts and the other modes, one class after another.

pi, the core value of the class and the U factors that no other class uses are integrated out. Class q goes to

    a factor k in use     log(n_k + alpha0/D)  +  sum_d y[d, q] log phi[d, k]
                                               +  lnG(a0 + y_q)  -  (a0 + y_q) ln(b0 + sum_d phi[d, k] R[d, q])
    a factor of its own   log(U alpha0/D)      +  the log of the integral in collapsed_factor.py

where n_k counts the other classes at k, and R = X / lambda_q. Before the next class moves, class q draws its core value
from Gamma(a0 + y_q, b0 + sum_d phi[d, k] R[d, q]), or as in collapsed_factor.py. A factor of its own is drawn from
Gamma(e0 + y, f0 + X). The integral is only approximate, so a Metropolis-Hastings step accepts or rejects a move to or
from a factor of its own. A class that has a factor of its own and chooses "its own" again keeps it.

The paper conditions on the core value, and on a prior draw of each unused factor. The posterior is the same, but a
prior draw never fits the data. And given its core value, a class with many counts only takes factors of a scale similar
to its present one, and a class without counts stays where few counts are expected. A class that is not included has no
core value: it moves by the prior. Cost: D * Q * (factors in use), and D * Q more for every new factor.
"""

from dataclasses import replace
from functools import partial
from math import exp, lgamma, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.collapsed_factor import (
    FIT_SIZE,
    LEFT,
    LOG_INTEGRAL,
    draw_collapsed,
    fit_collapsed,
    log_correction,
)
from allocore.gibbs.exposure import ModeView
from allocore.gibbs.layout import Layout
from allocore.gibbs.priors import Priors
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import categorical_from_logs, log_gamma
from allocore.kernels.elementary import exp_of
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State


class ByClass(NamedTuple):
    """Counts and exposure of a mode, transposed so that the numbers of one class are consecutive."""

    y_QD: Ints
    exposure_QD: Floats

    @classmethod
    def of(cls, view: ModeView) -> "ByClass":
        """The same numbers as in `view`, transposed."""
        return cls(by_class(view.y_DQ), by_class(view.exposure_DQ))


class Scores(NamedTuple):
    """The scores of the factors in use without the prior, in the first columns of `scores_QK`.

    `exposure_QK` has the sum of phi R for each. The other columns are for factors taken later. `fits_QF` are the fits
    of collapsed_factor.py. Classes that are not included have scores of zero.
    """

    scores_QK: Floats
    exposure_QK: Floats
    fits_QF: Floats


class _Places(NamedTuple):
    """Factors by their place in `factors_K`: those in use come first, so that no loop runs over the others.

    `places_Q` has the place of each class, and `others_K` the number of classes at each place, without the one that
    moves.
    """

    factors_K: Ints
    places_Q: Ints
    others_K: Ints

    @classmethod
    def of(cls, state: State, mode: int) -> "_Places":
        used_K = state.used(mode)
        factors_K = np.concatenate([np.flatnonzero(used_K), np.flatnonzero(~used_K)])
        places_Q = np.argsort(factors_K)[state.subs_QM[:, mode]]
        return cls(factors_K, places_Q, np.bincount(places_Q, minlength=len(factors_K)))


class _Drawn(NamedTuple):
    """What the moves change besides the places: core values, and factors taken or left."""

    log_core_Q: Floats
    log_phi_DK: Floats


class _RelocationStreams(NamedTuple):
    """Random numbers per class: for the choice of a factor, and for the entries of a new factor."""

    choices: Words
    entries: Words


def relocate(key: Key, layout: Layout, spec: Spec, state: State, view: ModeView) -> State:
    """A new state in which every class is relocated in one mode and has a new core value."""
    mode, rows = view.mode, ByClass.of(view)
    places, used = _Places.of(state, mode), int(state.used(mode).sum())
    drawn = _Drawn(state.log_core_Q.copy(), state.log_phi[mode].copy())
    streams = _RelocationStreams(key.stream(Step.RELOCATE, mode), key.stream(Step.NEW_FACTOR, mode))
    scores = location_scores(layout, spec, state, mode, rows)
    alpha = spec.alpha0 / len(drawn.log_phi_DK)
    _move_classes(scores, rows, alpha, Priors.of(spec, state, mode), streams, scratch(), used, places, drawn)
    subs_QM = state.subs_QM.copy()
    subs_QM[:, mode] = places.factors_K[places.places_Q]
    return replace(state.with_factors(mode, drawn.log_phi_DK), log_core_Q=drawn.log_core_Q, subs_QM=subs_QM)


def location_scores(layout: Layout, spec: Spec, state: State, mode: int, rows: ByClass) -> Scores:
    """The scores of all classes, without the prior."""
    log_phi_DU = np.ascontiguousarray(state.log_phi[mode][:, state.used(mode)])
    priors, phi_DU = Priors.of(spec, state, mode), exp_of(log_phi_DU)
    pairs = -(-spec.budget // 2)
    exposure_QK, scores_QK = np.zeros((2, 2 * pairs, spec.core_shape[mode]))
    scores = Scores(scores_QK, exposure_QK, np.empty((spec.budget, FIT_SIZE)))
    cuts, few = layout.workers.ranges(pairs, 4), layout.workers.ranges(spec.budget, 8)
    layout.workers.run(
        [partial(_score_used, *cut, rows, priors, log_phi_DU, phi_DU, scores) for cut in cuts]
        + [partial(_fit_new, *cut, rows, priors, scores.fits_QF) for cut in few]
    )
    left_out_Q = np.flatnonzero(~state.included())
    scores_QK[left_out_Q], scores.fits_QF[left_out_Q] = 0.0, 0.0
    return Scores(scores_QK[: spec.budget], exposure_QK[: spec.budget], scores.fits_QF)


def by_class(table_DQ: NDArray[Any]) -> NDArray[Any]:
    """The table transposed, so that the numbers of one class are consecutive."""
    return np.ascontiguousarray(table_DQ.T)


@kernel
def _score_used(
    first: int, last: int, rows: ByClass, priors: Priors, log_phi_DU: Floats, phi_DU: Floats, scores: Scores
) -> None:
    """Fill the scores of the factors in use for pairs of classes `first` to `last`.

    A dense product, four rows and two classes at a time, which suits the caches best, and a sparse one. If the number
    of classes is odd, the last row of `exposure_QK` completes the last pair.
    """
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, _ = scores
    length, used = phi_DU.shape
    for pair in range(first, last):
        q, r = 2 * pair, min(2 * pair + 1, y_QD.shape[0] - 1)
        for d in range(0, length - 3, 4):
            a0, a1, a2, a3 = exposure_QD[q, d], exposure_QD[q, d + 1], exposure_QD[q, d + 2], exposure_QD[q, d + 3]
            b0, b1, b2, b3 = exposure_QD[r, d], exposure_QD[r, d + 1], exposure_QD[r, d + 2], exposure_QD[r, d + 3]
            for u in range(used):
                p0, p1, p2, p3 = phi_DU[d, u], phi_DU[d + 1, u], phi_DU[d + 2, u], phi_DU[d + 3, u]
                exposure_QK[q, u] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
                exposure_QK[q + 1, u] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
        for d in range(length - length % 4, length):
            for u in range(used):
                exposure_QK[q, u] += exposure_QD[q, d] * phi_DU[d, u]
                exposure_QK[q + 1, u] += exposure_QD[r, d] * phi_DU[d, u]
        for c in range(q, r + 1):
            _add_counts(y_QD[c], priors, log_phi_DU, exposure_QK[c], scores_QK[c])


@part
def _add_counts(y_D: Ints, priors: Priors, log_phi_DU: Floats, exposure_K: Floats, scores_K: Floats) -> None:
    """Add the likelihood of the counts to the scores of one class, given its exposure at each factor."""
    total = 0
    for d in range(y_D.size):
        if y_D[d] > 0:
            total += y_D[d]
            y = np.float64(y_D[d])
            for u in range(log_phi_DU.shape[1]):
                scores_K[u] += y * log_phi_DU[d, u]
    for u in range(log_phi_DU.shape[1]):
        scores_K[u] += log_core_integral(total, exposure_K[u], priors)


@kernel
def log_core_integral(total: int, exposure: float, priors: Priors) -> float:
    """The log integral of lambda^y exp(-lambda exposure) over the prior of a core value, without ln b0^a0 / G(a0)."""
    return lgamma(priors.a0 + total) - (priors.a0 + total) * log(priors.b0 + exposure)


@kernel
def _fit_new(first: int, last: int, rows: ByClass, priors: Priors, fits_QF: Floats) -> None:
    y_QD, exposure_QD = rows
    for q in range(first, last):
        fit_collapsed(y_QD[q], exposure_QD[q], priors, fits_QF[q])


@kernel
def _move_classes(
    scores: Scores, rows: ByClass, alpha: float, priors: Priors, streams: _RelocationStreams, rng: Words, used: int,
    places: _Places, drawn: _Drawn,
) -> None:  # fmt: skip
    """Move the classes in turn. Writes to `places`, to `drawn` and to the scores of newly taken factors.

    `used` is the number of places that are or were in use.
    """
    scores_QK, exposure_QK, fits_QF = scores
    y_QD, exposure_QD = rows
    factors_K, places_Q, others_K = places
    log_core_Q, log_phi_DK = drawn
    weights, cumulative = np.empty(others_K.size + 1), np.empty(others_K.size + 1)
    log_prior = np.empty(places_Q.size + 1)
    for n in range(log_prior.size):
        log_prior[n] = log(n + alpha)
    for q in range(places_Q.size):
        home = places_Q[q]
        others_K[home] -= 1
        has_own = others_K[home] == 0
        free = others_K.size
        for k in range(used):
            weights[k] = -np.inf
            if others_K[k] > 0:
                weights[k] = log_prior[others_K[k]] + scores_QK[q, k]
                free -= 1
        weights[used] = log(free * alpha) + fits_QF[q, LOG_INTEGRAL] if free > 0 else -np.inf
        seat(rng, streams.choices, q)
        choice = categorical_from_logs(rng, weights, used + 1, cumulative)
        new = choice == used
        exposure = 0.0 if new else exposure_QK[q, choice]
        stays, log_core = _core_there(
            has_own, new, exposure, log_core_Q[q], y_QD[q], exposure_QD[q], priors, fits_QF[q], rng
        )  # fmt: skip
        if stays:
            others_K[home] += 1
            continue
        if new:
            choice, used = _take(int(uniform(rng) * free), used, factors_K, others_K)
            k = factors_K[choice]
            seat(rng, streams.entries, q)
            _draw_column(k, exp(log_core), y_QD[q], exposure_QD[q], priors, rng, log_phi_DK)
            _score_column(q + 1, choice, k, rows, priors, drawn, scores)
        elif has_own:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, factors_K[home]] = -np.inf
        others_K[choice] += 1
        places_Q[q], log_core_Q[q] = choice, log_core


@part
def _core_there(
    has_own: bool, new: bool, exposure: float, before: float, y_D: Ints, exposure_D: Floats, priors: Priors,
    fitted: Floats, rng: Words,
) -> tuple[bool, float]:  # fmt: skip
    """Whether a class stays where it is after all, and otherwise its log core value at the chosen factor.

    `new`: it chose a factor of its own. `has_own`: it has one already. `exposure`: its own at a factor in use.
    """
    if (has_own and new) or before == -np.inf:
        return has_own and new, before
    if new:
        after = draw_collapsed(rng, fitted)
        return not log(uniform(rng)) < log_correction(after, y_D, exposure_D, priors, fitted), after
    if has_own and not log(uniform(rng)) < -log_correction(before, y_D, exposure_D, priors, fitted):
        return True, before
    return False, log_gamma(rng, fitted[LEFT], priors.b0 + exposure)


@part
def _take(n: int, used: int, factors_K: Ints, others_K: Ints) -> tuple[int, int]:
    """Take the n-th free factor; returns its place, and the number of places that are or were in use.

    A factor that was never in use is swapped to the first place after those that are or were.
    """
    for k in range(others_K.size):
        if others_K[k] == 0:
            if n == 0:
                if k < used:
                    return k, used
                factors_K[k], factors_K[used] = factors_K[used], factors_K[k]
                return used, used + 1
            n -= 1
    return -1, used


@part
def _draw_column(
    k: int, core: float, y_D: Ints, exposure_D: Floats, priors: Priors, rng: Words, log_phi_DK: Floats
) -> None:
    """Draw factor k, which only one class uses now."""
    for d in range(log_phi_DK.shape[0]):
        log_phi_DK[d, k] = log_gamma(rng, priors.e0 + y_D[d], priors.f0 + core * exposure_D[d])


@part
def _score_column(first: int, place: int, k: int, rows: ByClass, priors: Priors, drawn: _Drawn, scores: Scores) -> None:
    """Score the new factor k, in the column `place`, for the classes that have not moved yet."""
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, _ = scores
    log_core_Q, log_phi_DK = drawn
    log_phi_D, phi_D = np.empty(log_phi_DK.shape[0]), np.empty(log_phi_DK.shape[0])
    for d in range(log_phi_D.size):
        log_phi_D[d], phi_D[d] = log_phi_DK[d, k], exp(log_phi_DK[d, k])
    for q in range(first, log_core_Q.size):
        total, exposure, score = 0, 0.0, 0.0
        for d in range(log_phi_D.size):
            exposure += exposure_QD[q, d] * phi_D[d]
            if y_QD[q, d] > 0:
                total += y_QD[q, d]
                score += y_QD[q, d] * log_phi_D[d]
        included = log_core_Q[q] > -np.inf
        exposure_QK[q, place] = exposure
        scores_QK[q, place] = score + log_core_integral(total, exposure, priors) if included else 0.0

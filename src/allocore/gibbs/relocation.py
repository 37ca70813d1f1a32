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
from typing import NamedTuple

import numpy as np

from allocore.gibbs.collapsed_factor import (
    FIT_SIZE,
    LEFT,
    LOG_GAMMA_LEFT,
    LOG_INTEGRAL,
    draw_collapsed,
    fit_collapsed,
    log_correction,
)
from allocore.gibbs.exposure import ModeView
from allocore.gibbs.layout import Layout
from allocore.gibbs.priors import Priors
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import categorical_from_logs, log_gamma, log_gammas
from allocore.kernels.dot_product import FIRST, SECOND, dot_of_rows
from allocore.kernels.elementary import exp_of, lane_exp, lane_log
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.kernels.row_sums import padded, padded_columns, sum_rows
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.state import State

_CLASSES_PER_THREAD = 8
_LEAST_LOG = -1e300


class ByClass(NamedTuple):
    """Counts and exposure of a mode, transposed so that the numbers of one class are consecutive; counts as floats."""

    y_QD: Floats
    exposure_QD: Floats

    @classmethod
    def of(cls, view: ModeView, workers: Workers) -> "ByClass":
        """The same numbers as in `view`, transposed."""
        length, budget = view.y_DQ.shape
        rows = cls(*np.empty((2, budget, length)))
        cuts = workers.ranges(budget, _CLASSES_PER_THREAD)
        workers.run([partial(_transpose, *cut, view.y_DQ, view.exposure_DQ, rows) for cut in cuts])
        return rows


class Scores(NamedTuple):
    """The scores of the factors in use without the prior, in the first columns of `scores_QK`.

    `exposure_QK` has the sum of phi R for each. The columns after them are for factors taken later.
    `fits_QF` are the fits of collapsed_factor.py. Classes that are not included have scores of zero.
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
    mode, rows = view.mode, ByClass.of(view, layout.workers)
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
    # Rows without counts are summed with a weight of zero, which must not meet an infinite number.
    log_phi_DL = np.maximum(padded_columns(state.log_phi[mode][:, state.used(mode)]), _LEAST_LOG)
    priors, phi_DL = Priors.of(spec, state, mode), exp_of(log_phi_DL)
    scores_QK, exposure_QK = np.empty((2, spec.budget, padded(spec.core_shape[mode])))
    scores = Scores(scores_QK, exposure_QK, np.empty((spec.budget, FIT_SIZE)))
    cuts = layout.workers.ranges(spec.budget, _CLASSES_PER_THREAD)
    layout.workers.run([partial(_score_classes, *cut, rows, priors, log_phi_DL, phi_DL, scores) for cut in cuts])
    left_out_Q = np.flatnonzero(~state.included())
    scores_QK[left_out_Q], scores.fits_QF[left_out_Q] = 0.0, 0.0
    return scores


@kernel
def _transpose(first: int, last: int, y_DQ: Ints, exposure_DQ: Floats, rows: ByClass) -> None:
    """Fill the rows of classes `first` to `last`."""
    y_QD, exposure_QD = rows
    for q in range(first, last):
        for d in range(y_DQ.shape[0]):
            y_QD[q, d], exposure_QD[q, d] = y_DQ[d, q], exposure_DQ[d, q]


@kernel
def _score_classes(
    first: int, last: int, rows: ByClass, priors: Priors, log_phi_DL: Floats, phi_DL: Floats, scores: Scores
) -> None:
    """Fill the scores of classes `first` to `last`, two at a time: of factors in use, and of a factor of their own."""
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, fits_QF = scores
    b0, all_D = priors.b0, np.arange(y_QD.shape[1])
    counted_D = np.empty(all_D.size, dtype=np.int64)
    for q in range(first, last, 2):
        r, counted = min(q + 1, last - 1), np.int64(0)
        for d in range(all_D.size):
            counted_D[counted] = d
            counted += np.int64(y_QD[q, d] + y_QD[r, d] > 0)
        sum_rows(phi_DL, all_D, all_D.size, exposure_QD, q, r, exposure_QK)
        sum_rows(log_phi_DL, counted_D, counted, y_QD, q, r, scores_QK)
        for c in range(q, r + 1):
            fit_collapsed(y_QD[c], exposure_QD[c], priors, fits_QF[c])
            left, log_gamma_left = fits_QF[c, LEFT], fits_QF[c, LOG_GAMMA_LEFT]  # left is a0 + y_q
            for u in range(phi_DL.shape[1]):
                scores_QK[c, u] += log_gamma_left - left * lane_log(b0 + exposure_QK[c, u])


@kernel
def log_core_integral(total: float, exposure: float, a0: float, b0: float) -> float:
    """The log integral of lambda^y exp(-lambda exposure) over the prior of a core value, without ln b0^a0 / G(a0)."""
    return lgamma(a0 + total) - (a0 + total) * log(b0 + exposure)


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
    weights, log_prior = np.empty(others_K.size + 1), np.empty(places_Q.size + 1)
    for n in range(log_prior.size):
        log_prior[n] = log(n + alpha) if n > 0 else -np.inf  # a factor that no other class uses is integrated out
    free = others_K.size - used
    for q in range(places_Q.size):
        home = places_Q[q]
        others_K[home] -= 1
        has_own = others_K[home] == 0
        free += int(has_own)
        for k in range(used):
            weights[k] = log_prior[others_K[k]] + scores_QK[q, k]
        weights[used] = log(free * alpha) + fits_QF[q, LOG_INTEGRAL] if free > 0 else -np.inf
        seat(rng, streams.choices, q)
        choice = categorical_from_logs(rng, weights, used + 1)
        new = choice == used
        exposure = 0.0 if new else exposure_QK[q, choice]
        stays, log_core = _core_there(
            has_own, new, exposure, log_core_Q[q], y_QD[q], exposure_QD[q], priors, fits_QF[q], rng
        )  # fmt: skip
        if stays:
            others_K[home] += 1
            free -= int(has_own)
            continue
        if new:
            choice, used = _take(int(uniform(rng) * free), used, factors_K, others_K)
            k = factors_K[choice]
            seat(rng, streams.entries, q)
            _draw_column(k, exp(log_core), y_QD[q], exposure_QD[q], priors.e0, priors.f0, rng, log_phi_DK)
            _score_column(q + 1, choice, k, rows, priors, drawn, scores)
        elif has_own:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, factors_K[home]] = -np.inf
        free -= int(new)
        others_K[choice] += 1
        places_Q[q], log_core_Q[q] = choice, log_core


@part
def _core_there(
    has_own: bool, new: bool, exposure: float, before: float, y_D: Floats, exposure_D: Floats, priors: Priors,
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
    k: int, core: float, y_D: Floats, exposure_D: Floats, e0: float, f0: float, rng: Words, log_phi_DK: Floats
) -> None:
    """Draw factor k, which only one class uses now."""
    shape_D, rate_D, log_D = np.empty(y_D.size), np.empty(y_D.size), np.empty(y_D.size)
    for d in range(y_D.size):
        shape_D[d], rate_D[d] = e0 + y_D[d], f0 + core * exposure_D[d]
    log_gammas(rng, shape_D, rate_D, np.empty((2, y_D.size)), log_D)
    for d in range(y_D.size):
        log_phi_DK[d, k] = log_D[d]


@part
def _score_column(first: int, place: int, k: int, rows: ByClass, priors: Priors, drawn: _Drawn, scores: Scores) -> None:
    """Score the new factor k, in the column `place`, for the classes that have not moved yet."""
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, fits_QF = scores
    log_core_Q, log_phi_DK = drawn
    column_2D, b0 = np.empty((2, log_phi_DK.shape[0])), priors.b0
    for d in range(log_phi_DK.shape[0]):
        column_2D[0, d], column_2D[1, d] = max(log_phi_DK[d, k], _LEAST_LOG), lane_exp(log_phi_DK[d, k])
    for q in range(first, log_core_Q.size):
        exposure, score = dot_of_rows(exposure_QD, q, column_2D, SECOND), 0.0
        if log_core_Q[q] > -np.inf:
            score = dot_of_rows(y_QD, q, column_2D, FIRST) + fits_QF[q, LOG_GAMMA_LEFT]
            score -= fits_QF[q, LEFT] * log(b0 + exposure)
        exposure_QK[q, place], scores_QK[q, place] = exposure, score

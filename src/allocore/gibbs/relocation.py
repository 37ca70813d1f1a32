"""Locations of the classes in one mode, one class after another. Class q goes to

    a factor k in use     log(n_k + alpha0/D)  +  sum_d y[d, q] log phi[d, k]
                                               +  lnG(a0 + y_q)  -  (a0 + y_q) ln(b0 + sum_d phi[d, k] R[d, q])
    a factor of its own   log(U alpha0/D)      +  the log of the integral of f(t), below

given the counts, the other modes and the other classes, where n_k counts the other classes at k, and R = X / lambda_q.
pi, the core value of the class and the U factors that no other class uses are integrated out. Before the next class
moves, class q draws its core value from Gamma(a0 + y_q, b0 + sum_d phi[d, k] R[d, q]); or, with a factor of its own,
from f, and the factor from Gamma(e0 + y, f0[d] + X), where f0[d] is the rate of the prior of row d: f0, or f0 / w[d] if
the row has a known weight (model/spec.py). A class that has a factor of its own and chooses "its own" again keeps it. A
class that is not included has no core value: it moves by the prior.

With a factor of its own, integrated out (collapsed), the log core value t has the density

    f(t) = C exp(h(t)),     h(t) = (a0 + y_q) t - b0 e^t - sum_d (e0 + y[d]) ln(f0[d] + e^t R[d])
                            C    = prod_d f0[d]^e0 G(e0 + y[d]) / G(e0)

whose integral is the likelihood of the counts, up to b0^a0 / G(a0). In general the integral has no closed form. With
b0 = 0 and the same R in all rows it has one: e^t is then a scaled ratio of two gamma variates. So the proposal g is
such a ratio, with the same slope a0 + y_q on the left, fitted to the top of f and to its curvature there. The integral
is approximated by f(top) / g(top), and a Metropolis-Hastings step, for a move to or from a factor of its own, corrects
for ln f - ln g, relative to its value at the top. The tails of f are no heavier than those of g, so the correction is
bounded.

The paper conditions on the core value, and on a prior draw of each unused factor. The posterior is the same, but a
prior draw never fits the data. And given its core value, a class with many counts only takes factors of a scale similar
to its present one, and a class without counts stays where few counts are expected.

A seeded factor that no other class uses (model/known.py) is a candidate by itself: "a factor of its own" with U = 1
and e0 u[d] for e0. The U factors are then those without a seed, and the Metropolis-Hastings step is also made from one
factor of its own to another. A frozen factor is scored as one in use, even if n_k is 0, and is never integrated out.

If the mode is tied to another (tied.py), n_k also counts the locations in the other mode, that of class q included, and
a factor is in use if any class uses it in either mode. R has the factor of class q in the other mode in it. Nothing
else changes: as the diagonal is missing, R[d, q] does not depend on row d of that factor, and a factor of its own is
not in R at all.

Cost: D * Q * (factors in use), D * Q more for every new factor, and four to twenty passes over the rows for every fit.
"""

from dataclasses import replace
from functools import partial
from math import exp, lgamma, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from allocore.gibbs.factors import ModeView, Priors
from allocore.gibbs.layout import Layout
from allocore.kernels.distributions import categorical_from_logs, log_gamma, log_gammas
from allocore.kernels.elementary import Flags, Floats, Ints, exp_of, lane_exp, lane_log
from allocore.kernels.jit import inlined, kernel, part
from allocore.kernels.kinds import FROZEN
from allocore.kernels.random import Key, Step, Words, scratch, seek, uniform
from allocore.kernels.simd import FIRST, LANES, SECOND, dot_of_rows, padded, padded_columns, sum_rows
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.state import State

_CLASSES_PER_THREAD = 8
_LEAST_LOG = -1e300
_MOST_STEPS = 60
_MOST = 700.0  # exp of anything larger may overflow
_NEAR = 0.1  # how near to the top the fit must end, relative to the width of the density
# The rows of a table over the rows of the mode, from which the fit makes its sums.
_COUNT, _EXPOSURE, _SHAPE, _ONE, _SHARE, _REST, _WEIGHT = np.arange(7)
# The places of what the others read most in a `CollapsedFit`.
_LEFT, _LOG_INTEGRAL, _LOG_GAMMA_LEFT = 0, 4, 5


class RelocationInfo(NamedTuple):
    """How many classes moved, and how many Metropolis-Hastings steps (own factors) were proposed and accepted."""

    moved: int
    proposed: int
    accepted: int


class CollapsedFit(NamedTuple):
    """The ratio of gammas g: slopes left and right, its top, h there, log integral of f, and ln G of the left slope."""

    left: float
    right: float
    top: float
    height: float
    log_integral: float
    log_gamma_left: float


class ByClass(NamedTuple):
    """Counts and exposure of a mode, transposed so that the numbers of one class are consecutive; counts as floats."""

    y_QD: Floats
    exposure_QD: Floats

    @classmethod
    def of(cls, view: ModeView, workers: Workers) -> "ByClass":
        """The same numbers as in `view`, transposed."""
        rows = cls(*np.empty((2, *view.y_DQ.shape[::-1])))
        cuts = [slice(*cut) for cut in workers.ranges(len(rows.y_QD), _CLASSES_PER_THREAD)]
        tables = (rows.y_QD, view.y_DQ.T), (rows.exposure_QD, view.exposure_DQ.T)
        workers.run([partial(np.copyto, table[cut], given[cut]) for table, given in tables for cut in cuts])
        return rows


class Scores(NamedTuple):
    """Scores without the prior, and sums of phi R, of the factors in use; later columns are for factors taken later.

    A row of `fits_QGF` is a `CollapsedFit`, for each kind of factor from 0: without a seed, and with each of the seeds.
    Classes that are not included have scores of zero.
    """

    scores_QK: Floats
    exposure_QK: Floats
    fits_QGF: Floats


class _Places(NamedTuple):
    """Factors by their place in `factors_K`: candidates by number come first, so that no loop runs over the others.

    `others_K` has the number of locations at each place, without that of the class that moves, and `kinds_K` the kinds.
    """

    factors_K: Ints
    places_Q: Ints
    others_K: Ints
    kinds_K: Ints

    @classmethod
    def of(cls, spec: Spec, state: State, mode: int) -> "_Places":
        """The places of a mode, in which all modes that share its factors count."""
        sharing, candidate_K = spec.sharing(mode), _candidates(spec, state, mode)
        factors_K = np.concatenate([np.flatnonzero(candidate_K), np.flatnonzero(~candidate_K)])
        place_K = np.argsort(factors_K)
        others_K = np.bincount(place_K[state.subs_QM[:, sharing]].ravel(), minlength=len(factors_K))
        kinds_K = spec.known_in(mode).kinds(len(factors_K))[factors_K]
        return cls(factors_K, place_K[state.subs_QM[:, mode]], others_K, kinds_K)


class _Drawn(NamedTuple):
    log_core_Q: Floats
    log_phi_DK: Floats


class _RelocationStreams(NamedTuple):
    choices: Words
    entries: Words


def relocate(key: Key, layout: Layout, spec: Spec, state: State, view: ModeView) -> tuple[State, RelocationInfo]:
    """A new state in which every class is relocated in one mode and has a new core value."""
    mode, rows = view.mode, ByClass.of(view, layout.workers)
    sharing = spec.sharing(mode)
    places, used = _Places.of(spec, state, mode), int(_candidates(spec, state, mode).sum())
    drawn = _Drawn(state.log_core_Q.copy(), state.log_phi[mode].copy())
    streams = _RelocationStreams(key.stream(Step.RELOCATE, mode), key.stream(Step.NEW_FACTOR, mode))
    scores = location_scores(layout, spec, state, mode, rows)
    alpha = spec.alpha0 / len(drawn.log_phi_DK)
    proposed, accepted = _move_classes(
        scores, rows, alpha, Priors.of(spec, state, mode), streams, scratch(), used, places, drawn
    )
    subs_QM = state.subs_QM.copy()
    subs_QM[:, mode] = places.factors_K[places.places_Q]
    moved = int(np.count_nonzero(subs_QM[:, mode] != state.subs_QM[:, mode]))
    changed = replace(state.with_factors(sharing, drawn.log_phi_DK), log_core_Q=drawn.log_core_Q, subs_QM=subs_QM)
    return changed, RelocationInfo(moved, proposed, accepted)


def _candidates(spec: Spec, state: State, mode: int) -> Flags:
    """Which factors are candidates by number, (K): those in use and the known ones."""
    kinds_K = spec.known_in(mode).kinds(spec.core_shape[mode])
    return np.asarray(state.used(spec.sharing(mode)) | (kinds_K != 0))


def location_scores(layout: Layout, spec: Spec, state: State, mode: int, rows: ByClass) -> Scores:
    """The scores of all classes, without the prior."""
    # Rows without counts are summed with a weight of zero, which must not meet an infinite number.
    log_phi_DL = np.maximum(padded_columns(state.log_phi[mode][:, _candidates(spec, state, mode)]), _LEAST_LOG)
    priors, phi_DL = Priors.of(spec, state, mode), exp_of(log_phi_DL)
    scores_QK, exposure_QK = np.empty((2, spec.budget, padded(spec.core_shape[mode], LANES)))
    scores = Scores(scores_QK, exposure_QK, np.empty((spec.budget, len(priors.more_GD), len(CollapsedFit._fields))))
    cuts = layout.workers.ranges(spec.budget, _CLASSES_PER_THREAD)
    layout.workers.run([partial(_score_classes, *cut, rows, priors, log_phi_DL, phi_DL, scores) for cut in cuts])
    left_out_Q = np.flatnonzero(~state.included())
    scores_QK[left_out_Q], scores.fits_QGF[left_out_Q] = 0.0, 0.0
    return scores


@kernel
def _score_classes(
    first: int, last: int, rows: ByClass, priors: Priors, log_phi_DL: Floats, phi_DL: Floats, scores: Scores
) -> None:
    """Fill the scores of classes `first` to `last`, two at a time: of factors in use, and of a factor of their own."""
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, fits_QGF = scores
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
            for kind in range(fits_QGF.shape[1]):
                fit = fit_collapsed(y_QD[c], exposure_QD[c], priors, kind)
                for i in range(fits_QGF.shape[2]):
                    fits_QGF[c, kind, i] = fit[i]
            left, log_gamma_left = fits_QGF[c, 0, _LEFT], fits_QGF[c, 0, _LOG_GAMMA_LEFT]  # left is a0 + y_q
            for u in range(phi_DL.shape[1]):
                scores_QK[c, u] += log_gamma_left - left * lane_log(b0 + exposure_QK[c, u])


@kernel
def _move_classes(
    scores: Scores, rows: ByClass, alpha: float, priors: Priors, streams: _RelocationStreams, rng: Words, used: int,
    places: _Places, drawn: _Drawn,
) -> tuple[int, int]:  # fmt: skip
    """Move the classes in turn; returns how many Metropolis-Hastings steps were proposed and accepted.

    Writes to `places`, to `drawn` and to the scores of newly taken factors. `used` is the number of places that are or
    were in use.
    """
    scores_QK, exposure_QK, fits_QGF = scores
    y_QD, exposure_QD = rows
    factors_K, places_Q, others_K, kinds_K = places
    log_core_Q, log_phi_DK = drawn
    weights, log_prior = np.empty(others_K.size + 1), np.empty(others_K.sum() + 1)
    for n in range(log_prior.size):
        log_prior[n] = log(n + alpha) if n > 0 else -np.inf  # a factor that no other class uses is integrated out
    free, proposed, accepted = others_K.size - used, 0, 0
    for q in range(places_Q.size):
        home = places_Q[q]
        others_K[home] -= 1
        own = kinds_K[home] if others_K[home] == 0 else FROZEN
        free += int(own == 0)
        for k in range(used):
            weights[k] = log_prior[others_K[k]] + scores_QK[q, k]
            if others_K[k] == 0 and kinds_K[k] != 0:
                frozen = kinds_K[k] == FROZEN
                weights[k] = log(alpha) + (scores_QK[q, k] if frozen else fits_QGF[q, kinds_K[k], _LOG_INTEGRAL])
        weights[used] = log(free * alpha) + fits_QGF[q, 0, _LOG_INTEGRAL] if free > 0 else -np.inf
        seek(rng, streams.choices, q)
        choice = categorical_from_logs(rng, weights, used + 1)
        new = 0 if choice == used else kinds_K[choice] if others_K[choice] == 0 else FROZEN
        exposure = 0.0 if choice == used else exposure_QK[q, choice]
        stays, log_core = _core_at(
            own, new, exposure, log_core_Q[q], y_QD[q], exposure_QD[q], priors, fits_QGF[q], rng
        )  # fmt: skip
        proposal = new != own and log_core_Q[q] > -np.inf
        proposed += int(proposal)
        accepted += int(proposal and not stays)
        if stays:
            others_K[home] += 1
            free -= int(own == 0)
            continue
        if own >= 0:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, factors_K[home]] = -np.inf
        if choice == used:
            choice, used = _take(int(uniform(rng) * free), used, places)
            free -= 1
        if new >= 0:
            k = factors_K[choice]
            seek(rng, streams.entries, q)
            _draw_column(k, exp(log_core), y_QD[q], exposure_QD[q], priors, new, rng, log_phi_DK)
            _score_column(q + 1, choice, k, rows, priors, drawn, scores)
        others_K[choice] += 1
        places_Q[q], log_core_Q[q] = choice, log_core
    return proposed, accepted


@inlined
def _fit_at(fits_GF: Floats, kind: int) -> CollapsedFit:
    return CollapsedFit(
        fits_GF[kind, 0], fits_GF[kind, 1], fits_GF[kind, 2], fits_GF[kind, 3], fits_GF[kind, 4], fits_GF[kind, 5]
    )


@part
def _core_at(
    own: int, new: int, exposure: float, before: float, y_D: Floats, exposure_D: Floats, priors: Priors,
    fits_GF: Floats, rng: Words,
) -> tuple[bool, float]:  # fmt: skip
    """Whether a class stays where it is after all; if not, its log core value at the chosen factor.

    `new` is the kind of the factor of its own that it chose, and `own` of that which it has; both are negative for a
    factor that is not integrated out. `exposure` is its exposure at such a factor.
    """
    same = new == own and own >= 0
    if same or before == -np.inf:
        return same, before
    after, correction = 0.0, 0.0
    if new >= 0:
        fit = _fit_at(fits_GF, new)
        after = draw_collapsed(rng, fit)
        correction += log_correction(after, y_D, exposure_D, priors, new, fit)
    if own >= 0:
        correction -= log_correction(before, y_D, exposure_D, priors, own, _fit_at(fits_GF, own))
    if new != own and not log(uniform(rng)) < correction:
        return True, before
    return False, after if new >= 0 else log_gamma(rng, fits_GF[0, _LEFT], priors.b0 + exposure)


@part
def _take(n: int, used: int, places: _Places) -> tuple[int, int]:
    """Take the n-th free factor without a seed; returns its place, and the number of candidates by number.

    A factor that was never in use is swapped to the first place after those that are or were.
    """
    factors_K, others_K = places.factors_K, places.others_K
    for k in range(others_K.size):
        if others_K[k] == 0 and places.kinds_K[k] == 0:
            if n == 0:
                if k < used:
                    return k, used
                factors_K[k], factors_K[used] = factors_K[used], factors_K[k]
                return used, used + 1
            n -= 1
    return -1, used


@part
def _draw_column(
    k: int, core: float, y_D: Floats, exposure_D: Floats, priors: Priors, kind: int, rng: Words, log_phi_DK: Floats
) -> None:
    """Draw factor k, which only one class uses now."""
    shape_D, rate_D, log_D = np.empty(y_D.size), np.empty(y_D.size), np.empty(y_D.size)
    for d in range(y_D.size):
        shape_D[d] = priors.e0 + y_D[d] + priors.more_GD[kind, d]
        rate_D[d] = priors.f0_D[d] + core * exposure_D[d]
    log_gammas(rng, shape_D, rate_D, np.empty((2, y_D.size)), log_D)
    for d in range(y_D.size):
        log_phi_DK[d, k] = log_D[d]


@part
def _score_column(first: int, place: int, k: int, rows: ByClass, priors: Priors, drawn: _Drawn, scores: Scores) -> None:
    """Score the new factor k, in the column `place`, for the classes that have not moved yet."""
    y_QD, exposure_QD = rows
    scores_QK, exposure_QK, fits_QGF = scores
    log_core_Q, log_phi_DK = drawn
    column_2D, b0 = np.empty((2, log_phi_DK.shape[0])), priors.b0
    for d in range(log_phi_DK.shape[0]):
        column_2D[0, d], column_2D[1, d] = max(log_phi_DK[d, k], _LEAST_LOG), lane_exp(log_phi_DK[d, k])
    for q in range(first, log_core_Q.size):
        exposure, score = dot_of_rows(exposure_QD, q, column_2D, SECOND), 0.0
        if log_core_Q[q] > -np.inf:
            score = dot_of_rows(y_QD, q, column_2D, FIRST) + fits_QGF[q, 0, _LOG_GAMMA_LEFT]
            score -= fits_QGF[q, 0, _LEFT] * log(b0 + exposure)
        exposure_QK[q, place], scores_QK[q, place] = exposure, score


@kernel
def log_core_integral(total: float, exposure: float, a0: float, b0: float) -> float:
    """The log integral of lambda^y exp(-lambda exposure) over the prior of a core value, without ln b0^a0 / G(a0)."""
    return lgamma(a0 + total) - (a0 + total) * log(b0 + exposure)


@kernel
def fit_collapsed(y_D: Floats, exposure_D: Floats, priors: Priors, kind: int = 0) -> CollapsedFit:
    """Fit the ratio of gammas by Newton's method, starting from the core value for factors equal to e0 / f0.

    The factor is of this kind. It ends when the top is known well within the width of the density. It depends only on
    what is given.
    """
    a0, b0, e0, f0, f0_D, _, more_GD = priors
    work = np.empty((7, y_D.size))
    for d in range(y_D.size):
        work[_COUNT, d], work[_EXPOSURE, d], work[_ONE, d] = y_D[d], exposure_D[d], 1.0
        work[_SHAPE, d] = e0 + y_D[d] + more_GD[kind, d]
    left = a0 + dot_of_rows(work, _COUNT, work, _ONE)
    top, right = log(left / (b0 + e0 / f0 * dot_of_rows(work, _EXPOSURE, work, _ONE))), left
    for _ in range(_MOST_STEPS):
        core = exp(top)
        for d in range(y_D.size):
            expected = core * exposure_D[d]
            inverse = 1.0 / (f0_D[d] + expected)
            work[_SHARE, d], work[_REST, d] = expected * inverse, f0_D[d] * inverse
            work[_WEIGHT, d] = work[_SHAPE, d] * work[_SHARE, d]
        slope = left - b0 * core - dot_of_rows(work, _WEIGHT, work, _ONE)
        within = dot_of_rows(work, _WEIGHT, work, _SHARE)
        curvature = b0 * core + dot_of_rows(work, _WEIGHT, work, _REST)
        # A lower bound on the slope, because with too heavy a tail core values would leave the range of floats.
        right = max(left * curvature / max(slope + within, 1e-6 * left), 0.01 * min(left, 1.0))
        if abs(slope) < _NEAR * sqrt(curvature):
            break
        top += min(max(slope / curvature, -3.0), 3.0)
    height, log_gamma_left = _log_density(top, left, y_D, exposure_D, priors, kind), lgamma(left)
    log_peak = _log_ratio_density(top, left, right, top, log_gamma_left)
    log_integral = _log_constant(y_D, priors, kind) + height - log_peak
    return CollapsedFit(left, right, top, height, log_integral, log_gamma_left)


@kernel
def draw_collapsed(rng: Words, fit: CollapsedFit) -> float:
    """Draw a log core value from the ratio of gammas."""
    return fit.top + log(fit.right / fit.left) + log_gamma(rng, fit.left, 1.0) - log_gamma(rng, fit.right, 1.0)


@kernel
def log_correction(
    log_core: float, y_D: Floats, exposure_D: Floats, priors: Priors, kind: int, fit: CollapsedFit
) -> float:
    """ln f - ln g at a log core value, relative to the top: what Metropolis-Hastings corrects for."""
    left, right, top, height, _, log_gamma_left = fit
    gained = _log_density(log_core, left, y_D, exposure_D, priors, kind) - height
    log_peak = _log_ratio_density(top, left, right, top, log_gamma_left)
    return gained - _log_ratio_density(log_core, left, right, top, log_gamma_left) + log_peak


@part
def _log_density(log_core: float, left: float, y_D: Floats, exposure_D: Floats, priors: Priors, kind: int) -> float:
    """h(t); `left` is a0 + y_q."""
    core, f0_D = exp(min(log_core, _MOST)), priors.f0_D
    work = np.empty((2, y_D.size))
    for d in range(y_D.size):
        work[0, d] = priors.e0 + y_D[d] + priors.more_GD[kind, d]
        work[1, d] = lane_log(f0_D[d] + core * exposure_D[d])
    return left * log_core - priors.b0 * core - dot_of_rows(work, FIRST, work, SECOND)


@part
def _log_constant(y_D: Floats, priors: Priors, kind: int) -> float:
    """ln C."""
    e0, log_rising_Y = priors.e0, priors.log_rising_Y
    constant, log_gamma_e0 = y_D.size * e0 * log(priors.f0), lgamma(e0)
    for d in range(y_D.size):
        more = priors.more_GD[kind, d]
        if more > 0.0:
            constant += more * log(priors.f0_D[d]) + lgamma(e0 + more + y_D[d]) - lgamma(e0 + more)
        elif y_D[d] < log_rising_Y.size:
            constant += log_rising_Y[int(y_D[d])]
        else:
            constant += lgamma(e0 + y_D[d]) - log_gamma_e0
    return constant


@part
def _log_ratio_density(log_core: float, left: float, right: float, top: float, log_gamma_left: float) -> float:
    """ln g(t)."""
    at = log_core - top + log(left / right)
    beyond = max(at, 0.0) + log1p(exp(-abs(at)))
    return lgamma(left + right) - log_gamma_left - lgamma(right) + left * at - (left + right) * beyond

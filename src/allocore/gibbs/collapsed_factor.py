"""A class at a factor that no other class uses, with the factor integrated out (collapsed): likelihood and core value.

Given the counts y of the class and R = X / lambda in the rows of a mode, the log core value t has the density

    f(t) = C exp(h(t)),     h(t) = (a0 + y_q) t - b0 e^t - sum_d (e0 + y[d]) ln(f0 + e^t R[d])
                            C    = prod_d f0^e0 G(e0 + y[d]) / G(e0)

whose integral is the likelihood of the counts, up to b0^a0 / G(a0). In general the integral has no closed form. With
b0 = 0 and the same R in all rows it has one: e^t is then a scaled ratio of two gamma variates. So the proposal g is
such a ratio, with the same slope a0 + y_q on the left, fitted to the top of f and to its curvature there. The integral
is approximated by f(top) / g(top), and a Metropolis-Hastings step corrects for ln f - ln g, relative to its value at
the top. The tails of f are no heavier than those of g, so the correction is bounded. Cost of a fit: four to twenty
passes over the rows.
"""

from math import exp, lgamma, log, log1p, sqrt

import numpy as np

from allocore.gibbs.priors import Priors
from allocore.kernels.arrays import Floats
from allocore.kernels.distributions import log_gamma
from allocore.kernels.dot_product import FIRST, SECOND, dot_of_rows
from allocore.kernels.elementary import lane_log
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words

_MOST_STEPS = 60
_MOST = 700.0  # exp of anything larger may overflow
_NEAR = 0.1  # how near to the top the fit must end, relative to the width of the density
# What `fit_collapsed` writes: the slopes of g on the left and the right, its top, h at the top, the log integral, and
# ln G of the slope on the left.
LEFT, RIGHT, TOP, HEIGHT, LOG_INTEGRAL, LOG_GAMMA_LEFT = range(6)
FIT_SIZE = 6
# The rows of a table over the rows of the mode, from which the fit makes its sums.
_COUNT, _EXPOSURE, _SHAPE, _ONE, _SHARE, _REST, _WEIGHT = np.arange(7)


@kernel
def fit_collapsed(y_D: Floats, exposure_D: Floats, priors: Priors, out: Floats) -> None:
    """Fit the ratio of gammas by Newton's method, starting from the core value for factors equal to their mean e0 / f0.

    It ends when the top is known well within the width of the density. The fit depends on counts and exposure alone.
    """
    a0, b0, e0, f0, _ = priors
    work = np.empty((7, y_D.size))
    for d in range(y_D.size):
        work[_COUNT, d], work[_EXPOSURE, d], work[_SHAPE, d], work[_ONE, d] = y_D[d], exposure_D[d], e0 + y_D[d], 1.0
    left = a0 + dot_of_rows(work, _COUNT, work, _ONE)
    top, right = log(left / (b0 + e0 / f0 * dot_of_rows(work, _EXPOSURE, work, _ONE))), left
    for _ in range(_MOST_STEPS):
        core = exp(top)
        for d in range(y_D.size):
            expected = core * exposure_D[d]
            inverse = 1.0 / (f0 + expected)
            work[_SHARE, d], work[_REST, d] = expected * inverse, f0 * inverse
            work[_WEIGHT, d] = work[_SHAPE, d] * work[_SHARE, d]
        slope = left - b0 * core - dot_of_rows(work, _WEIGHT, work, _ONE)
        within = dot_of_rows(work, _WEIGHT, work, _SHARE)
        curvature = b0 * core + dot_of_rows(work, _WEIGHT, work, _REST)
        # A lower bound on the slope, because with too heavy a tail core values would leave the range of floats.
        right = max(left * curvature / max(slope + within, 1e-6 * left), 0.01 * min(left, 1.0))
        if abs(slope) < _NEAR * sqrt(curvature):
            break
        top += min(max(slope / curvature, -3.0), 3.0)
    out[LEFT], out[RIGHT], out[TOP], out[LOG_GAMMA_LEFT] = left, right, top, lgamma(left)
    out[HEIGHT] = _log_density(top, left, y_D, exposure_D, priors)
    out[LOG_INTEGRAL] = _log_constant(y_D, priors) + out[HEIGHT] - _log_ratio_density(top, out)


@kernel
def draw_collapsed(rng: Words, fitted: Floats) -> float:
    """Draw a log core value from the ratio of gammas."""
    left, right = fitted[LEFT], fitted[RIGHT]
    return float(fitted[TOP] + log(right / left) + log_gamma(rng, left, 1.0) - log_gamma(rng, right, 1.0))


@kernel
def log_correction(log_core: float, y_D: Floats, exposure_D: Floats, priors: Priors, fitted: Floats) -> float:
    """ln f - ln g at a log core value, relative to the top: what Metropolis-Hastings corrects for."""
    gained = _log_density(log_core, fitted[LEFT], y_D, exposure_D, priors) - float(fitted[HEIGHT])
    return gained - _log_ratio_density(log_core, fitted) + _log_ratio_density(fitted[TOP], fitted)


@part
def _log_density(log_core: float, left: float, y_D: Floats, exposure_D: Floats, priors: Priors) -> float:
    """h(t); `left` is a0 + y_q."""
    core = exp(min(log_core, _MOST))
    work = np.empty((2, y_D.size))
    for d in range(y_D.size):
        work[0, d] = priors.e0 + y_D[d]
        work[1, d] = lane_log(priors.f0 + core * exposure_D[d])
    return left * log_core - priors.b0 * core - dot_of_rows(work, FIRST, work, SECOND)


@part
def _log_constant(y_D: Floats, priors: Priors) -> float:
    """ln C."""
    e0, log_rising_Y = priors.e0, priors.log_rising_Y
    constant, log_gamma_e0 = y_D.size * e0 * log(priors.f0), lgamma(e0)
    for d in range(y_D.size):
        if y_D[d] < log_rising_Y.size:
            constant += log_rising_Y[int(y_D[d])]
        else:
            constant += lgamma(e0 + y_D[d]) - log_gamma_e0
    return constant


@part
def _log_ratio_density(log_core: float, fitted: Floats) -> float:
    """ln g(t)."""
    left, right = float(fitted[LEFT]), float(fitted[RIGHT])
    at = log_core - float(fitted[TOP]) + log(left / right)
    beyond = max(at, 0.0) + log1p(exp(-abs(at)))
    return lgamma(left + right) - float(fitted[LOG_GAMMA_LEFT]) - lgamma(right) + left * at - (left + right) * beyond

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

from allocore.gibbs.priors import Priors
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import log_gamma
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words

_MOST_STEPS = 60
_MOST = 700.0  # exp of anything larger may overflow
_NEAR = 0.1  # how near to the top the fit must end, relative to the width of the density
# What `fit_collapsed` writes: the slopes of g on the left and the right, its top, h at the top, the log integral.
LEFT, RIGHT, TOP, HEIGHT, LOG_INTEGRAL = range(5)
FIT_SIZE = 5


@kernel
def fit_collapsed(y_D: Ints, exposure_D: Floats, priors: Priors, out: Floats) -> None:
    """Fit the ratio of gammas by Newton's method, starting from the core value for factors equal to their mean e0 / f0.

    It ends when the top is known well within the width of the density. The fit depends on counts and exposure alone.
    """
    a0, b0, e0, f0 = priors
    total, exposure = 0.0, 0.0
    for d in range(y_D.size):
        total += y_D[d]
        exposure += exposure_D[d]
    left = a0 + total
    top, right = log(left / (b0 + e0 / f0 * exposure)), left
    for _ in range(_MOST_STEPS):
        core = exp(top)
        slope, curvature, within = left - b0 * core, b0 * core, 0.0
        for d in range(y_D.size):
            share = core * exposure_D[d] / (f0 + core * exposure_D[d])
            weight = (e0 + y_D[d]) * share
            slope -= weight
            within += weight * share
            curvature += weight * (1.0 - share)
        # A lower bound on the slope, because with too heavy a tail core values would leave the range of floats.
        right = max(left * curvature / max(slope + within, 1e-6 * left), 0.01 * min(left, 1.0))
        if abs(slope) < _NEAR * sqrt(curvature):
            break
        top += min(max(slope / curvature, -3.0), 3.0)
    out[LEFT], out[RIGHT], out[TOP] = left, right, top
    out[HEIGHT] = _log_density(top, y_D, exposure_D, priors)
    out[LOG_INTEGRAL] = _log_constant(y_D, e0, f0) + out[HEIGHT] - _log_ratio_density(top, out)


@kernel
def draw_collapsed(rng: Words, fitted: Floats) -> float:
    """Draw a log core value from the ratio of gammas."""
    left, right = fitted[LEFT], fitted[RIGHT]
    return float(fitted[TOP] + log(right / left) + log_gamma(rng, left, 1.0) - log_gamma(rng, right, 1.0))


@kernel
def log_correction(log_core: float, y_D: Ints, exposure_D: Floats, priors: Priors, fitted: Floats) -> float:
    """ln f - ln g at a log core value, relative to the top: what Metropolis-Hastings corrects for."""
    gained = _log_density(log_core, y_D, exposure_D, priors) - float(fitted[HEIGHT])
    return gained - _log_ratio_density(log_core, fitted) + _log_ratio_density(fitted[TOP], fitted)


@part
def _log_density(log_core: float, y_D: Ints, exposure_D: Floats, priors: Priors) -> float:
    """h(t); rows without counts share one logarithm of a product of rates."""
    core, product = exp(min(log_core, _MOST)), 1.0
    height, total = -priors.b0 * core, 0.0
    for d in range(y_D.size):
        rate = priors.f0 + core * exposure_D[d]
        total += y_D[d]
        if y_D[d] > 0 or not 1e-100 < rate < 1e100:
            height -= (priors.e0 + y_D[d]) * log(rate)
        else:
            product *= rate
            if not 1e-150 < product < 1e150:
                height -= priors.e0 * log(product)
                product = 1.0
    return height - priors.e0 * log(product) + (priors.a0 + total) * log_core


@part
def _log_constant(y_D: Ints, e0: float, f0: float) -> float:
    """ln C."""
    constant, log_gamma_e0 = y_D.size * e0 * log(f0), lgamma(e0)
    for d in range(y_D.size):
        if y_D[d] > 0:
            constant += lgamma(e0 + y_D[d]) - log_gamma_e0
    return constant


@part
def _log_ratio_density(log_core: float, fitted: Floats) -> float:
    """ln g(t)."""
    left, right = float(fitted[LEFT]), float(fitted[RIGHT])
    at = log_core - float(fitted[TOP]) + log(left / right)
    beyond = max(at, 0.0) + log1p(exp(-abs(at)))
    return lgamma(left + right) - lgamma(left) - lgamma(right) + left * at - (left + right) * beyond

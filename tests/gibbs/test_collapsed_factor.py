"""A class at a factor of its own: the density of its core value, the fit to it, and draws from the fit."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

from allocore.gibbs.relocation import draw_collapsed, fit_collapsed, log_correction
from allocore.kernels.random import Key, Step, scratch, seek
from support import cases

PRIORS = {
    "plain": {},
    "odd": {"a0": 0.3, "b0": 2.0, "e0": 0.2, "f0": 0.7},
    "strong": {"a0": 4.0, "b0": 5.0, "e0": 3.0, "f0": 2.0},
    "sparse": {"e0": 0.01},
}
WEIGHTS = (1.0, 0.2, 3.0, 8.0, 0.5, 1.0)  # exposures of the rows
ROWS = {
    "empty": ([0, 0, 0, 0], [0.5, 2.0, 1.0, 3.0]),
    "few": ([1, 0, 2, 0, 0, 1], [0.5, 2.0, 0.0, 3.0, 1e-3, 40.0]),
    "many": ([4000, 12, 0, 700], [30.0, 2.0, 5.0, 80.0]),
    "one-row": ([7], [3.0]),
    "a-million": ([0, 10**6 - 20, 3, 17], [0.0, 1.0, 1.0, 50.0]),
    "a-billion": ([10**9, 40, 0, 8, 10**5], [100.0, 3.0, 0.02, 1.0, 1e4]),
}


EVERY_CASE = [(prior, rows, known) for prior in PRIORS for rows in ROWS for known in ("", "exposures")]
EVERY_CASE += [(prior, rows, "exposures and a seed") for prior in PRIORS for rows in ("empty", "many", "one-row")]


@pytest.fixture(params=EVERY_CASE, ids="-".join)
def fitted(request):
    """Counts, exposure, priors, the kind of the factor, and the fit."""
    prior, rows, known = request.param
    y_D, exposure_D = np.array(ROWS[rows][0], dtype=np.float64), np.array(ROWS[rows][1])
    weights, seed = WEIGHTS[: len(y_D)] if known else (), (0, len(y_D) - 1) if "seed" in known else ()
    priors, kind = cases.priors_of_rows(len(y_D), weights, seed=seed, **PRIORS[prior]), int(bool(seed))
    return y_D, exposure_D, priors, kind, fit_collapsed(y_D, exposure_D, priors, kind)


def log_density(t, y_D, exposure_D, priors, kind):
    """The factor integrated out row by row, times the prior of the core value, less b0^a0 / G(a0), per unit of t."""
    a0, b0, e0, _, f0_D, _, more_GD = priors
    core, e0 = np.exp(t), e0 + more_GD[kind]
    rows = gammaln(e0 + y_D) - gammaln(e0) + e0 * np.log(f0_D) - (e0 + y_D) * np.log(f0_D + core * exposure_D)
    return (a0 + y_D.sum()) * t - b0 * core + rows.sum()


def log_ratio_density(t, fit):
    """Of the log of a ratio of gammas: a beta-prime variate, scaled so that the top is where the fit says."""
    scale = np.exp(fit.top) * fit.right / fit.left
    return stats.betaprime(fit.left, fit.right, scale=scale).logpdf(np.exp(t)) + t


def around(fit, widths=3.0):
    width = np.sqrt(1 / fit.left + 1 / fit.right)
    return fit.top + width * np.linspace(-widths, widths, 7)


def test_fit_and_correction_make_up_the_density(fitted):
    y_D, exposure_D, priors, kind, fit = fitted
    for t in around(fit):
        ours = fit.log_integral + log_ratio_density(t, fit) + log_correction(t, y_D, exposure_D, priors, kind, fit)
        assert ours == pytest.approx(log_density(t, y_D, exposure_D, priors, kind), rel=1e-9, abs=1e-7)


def test_the_integral_is_near_that_of_the_density(fitted):
    """Near is enough: the correction mends what is left. Here it is within a factor of 1.4."""
    y_D, exposure_D, priors, kind, fit = fitted
    t = around(fit, widths=60.0)
    top = log_density(fit.top, y_D, exposure_D, priors, kind)
    integral = integrate.quad(
        lambda t: np.exp(log_density(t, y_D, exposure_D, priors, kind) - top), t[0], t[-1], points=t[1:-1]
    )
    assert fit.log_integral == pytest.approx(top + np.log(integral[0]), abs=0.35)


def test_core_values_from_the_fit_are_mostly_accepted(fitted):
    """Else classes would hardly ever part: the probability that one from a shared factor is, by quadrature."""
    y_D, exposure_D, priors, kind, fit = fitted
    t = np.linspace(*around(fit, widths=20.0)[[0, -1]], 4001)
    taken = [np.exp(min(0.0, log_correction(each, y_D, exposure_D, priors, kind, fit))) for each in t]
    assert np.trapezoid(taken * np.exp(log_ratio_density(t, fit)), t) > 0.75


def test_a_core_value_beyond_all_floats_is_never_accepted():
    """Also where a row is reached by nothing: all its cells are missing."""
    y_D, exposure_D = np.array([0.0, 3.0]), np.array([0.0, 2.0])
    priors = cases.priors_of_rows(2)
    fit = fit_collapsed(y_D, exposure_D, priors)
    assert log_correction(800.0, y_D, exposure_D, priors, 0, fit) < -1e100


@pytest.mark.statistical
@pytest.mark.jit
def test_core_values_are_drawn_from_the_fit(fitted):
    """Kolmogorov-Smirnov, error rate 1e-4."""
    *_, fit = fitted
    rng, stream = scratch(), Key.of(3, 0).stream(Step.RELOCATE)
    draws = np.empty(4000)
    for n in range(len(draws)):
        seek(rng, stream, n)
        draws[n] = draw_collapsed(rng, fit)
    law = stats.betaprime(fit.left, fit.right, scale=np.exp(fit.top) * fit.right / fit.left)
    assert stats.kstest(np.exp(draws), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize("e0", [1e-290, 0.01, 1.0, 7.3])
def test_the_table_of_the_priors_has_the_logarithms_of_rising_factorials(e0):
    table = cases.priors_of_rows(1, e0=e0).log_rising_Y
    np.testing.assert_allclose(table, gammaln(e0 + np.arange(len(table))) - gammaln(e0), rtol=1e-12, atol=1e-12)

"""Every sampler of the package against the exact distribution it claims.

Each test is a goodness-of-fit test at level 1e-4 with a fixed seed; a test at the end shows that samplers which are
slightly wrong are caught at the same sample size.
"""

import math
import os
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from allocore.kernels.distributions import (
    _HEIGHTS,
    _WIDTHS,
    _log_poisson,
    binomial,
    categorical,
    categorical_from_logs,
    log_gamma,
    log_gammas,
    multinomial,
    normal,
    zero_truncated_poisson,
)
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, scratch, seek
from support.evidence import fit_to, mean_and_variance
from support.tiers import parametrize_few

LEVEL = 1e-4
JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
DRAWS = 2_000 if JIT_OFF else 200_000


@kernel
def fill_normal(stream, rng, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = normal(rng)


@kernel
def fill_log_gamma(stream, rng, shape, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = log_gamma(rng, shape, 2.0) + math.log(2.0)


@kernel
def fill_log_gammas(stream, rng, shape, out):
    """A row of 100 variates at a time; every second one has another shape."""
    shapes, rates, work, row = np.empty(100), np.full(100, 2.0), np.empty((2, 100)), np.empty(100)
    for i in range(out.size // 50):
        seek(rng, stream, i)
        for j in range(100):
            shapes[j] = shape if j % 2 == 0 else 3.5
        log_gammas(rng, shapes, rates, work, row)
        for j in range(50):
            out[50 * i + j] = row[2 * j] + math.log(2.0)


@kernel
def fill_binomial(stream, rng, trials, p, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = binomial(rng, trials, p)


@kernel
def fill_categorical(stream, rng, cumulative, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = categorical(rng, cumulative, 0, cumulative.size)


@kernel
def fill_multinomial(stream, rng, trials, weights, heavy, cumulative, out):
    for i in range(out.shape[0]):
        seek(rng, stream, i)
        multinomial(rng, trials, weights, weights.sum(), heavy, cumulative, out[i])


@kernel
def fill_zero_truncated_poisson(stream, rng, rate, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = zero_truncated_poisson(rng, rate)


@kernel
def log_poisson(rate, k):
    return _log_poisson(rate, k)


def sample(fill, *args, dtype=np.float64, size=DRAWS, seed=11):
    out = np.empty(size, dtype=dtype)
    fill(Key.of(seed, 0).stream(Step.THIN), scratch(), *args, out)
    return out


def binomial_p_value(draws, trials, p):
    """Chi-square on some forty cells of near-equal probability; where one value has nearly all, a test of its share."""
    edges = np.unique(stats.binom.ppf(np.linspace(0.025, 0.975, 39), trials, p))
    if len(edges) == 1:
        share = stats.binom.pmf(edges[0], trials, p)
        return stats.binomtest(int((draws == edges[0]).sum()), draws.size, min(share, 1.0)).pvalue
    expected = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, trials, p), [1.0]])) * draws.size
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(expected))
    keep = expected > 5
    cells = [np.append(v[keep], v[~keep].sum()) for v in (observed, expected)]
    possible = cells[1] > 1e-9
    return stats.chisquare(cells[0][possible], cells[1][possible]).pvalue


def test_normals_are_normal():
    assert stats.kstest(sample(fill_normal), "norm").pvalue > LEVEL


@parametrize_few("fill", [fill_log_gamma, fill_log_gammas], ids=["one", "many"])
@parametrize_few("shape", [1e-3, 0.05, 0.5, 1.0, 1.7, 10.0, 1e3, 1e6, 1e9])
def test_log_gammas_have_the_distribution_of_the_logarithm_of_a_gamma(shape, fill):
    draws = sample(fill, shape)
    assert np.isfinite(draws).all()
    if shape < 0.01:  # the distribution function underflows: P(log G < t) = t-th power of e, shape * t, nearly
        u = np.exp(shape * draws - math.lgamma(shape + 1.0))
        small = draws < -30.0  # there G^shape / Gamma(shape + 1) is uniform to 13 digits
        assert stats.kstest(u[small] / np.exp(-30.0 * shape - math.lgamma(shape + 1.0)), "uniform").pvalue > LEVEL
        share = np.exp(-30.0 * shape - math.lgamma(shape + 1.0))
        assert stats.binomtest(int(small.sum()), draws.size, share).pvalue > LEVEL
        return
    assert stats.kstest(np.exp(draws), stats.gamma(shape).cdf).pvalue > LEVEL


@parametrize_few("trials", [1, 2, 7, 40, 1000, 10**6, 10**9])
@parametrize_few("p", [1e-9, 1e-4, 0.01, 0.3, 0.5, 0.77, 1 - 1e-6])
def test_binomials_are_binomial(trials, p):
    draws = sample(fill_binomial, trials, p, dtype=np.int64, seed=trials % 1000)
    assert draws.min() >= 0
    assert draws.max() <= trials
    assert binomial_p_value(draws, trials, p) > LEVEL


def test_binomials_with_certain_outcomes_are_certain():
    for trials, p, outcome in [(10, 0.0, 0), (10, 1.0, 10), (0, 0.5, 0)]:
        assert (sample(fill_binomial, trials, p, dtype=np.int64, size=5) == outcome).all()


def truncated_probabilities(rate):
    """P(k) from k = 1 on, given that it is not 0. Relative to rate^1, so that no small rate underflows."""
    values = np.arange(1, int(rate + 12 * math.sqrt(rate)) + 30)
    if rate > 100.0:
        return stats.poisson.pmf(values, rate)
    logs = (values - 1) * math.log(rate) - np.array([math.lgamma(value + 1) for value in values])
    return np.exp(logs) * (rate / math.expm1(rate))


@pytest.mark.parametrize("rate", [1e-300, 1e-3, 0.5, 3.0, 9.9, 10.1, 50.0, 1e3, 1e5])
def test_zero_truncated_poissons_are_poisson_given_that_they_are_positive(rate):
    draws = sample(fill_zero_truncated_poisson, rate, dtype=np.int64, seed=22)
    assert fit_to(draws, 1, truncated_probabilities(rate)) > LEVEL


@pytest.mark.parametrize("rate", [1e6, 1e9, 1e12, 1e15, 2.0**50])
def test_poissons_of_large_rates_have_their_moments_and_the_shape_of_a_normal(rate):
    """Skewness, 1 / sqrt(rate), is too small to be seen with these draws."""
    draws = sample(fill_zero_truncated_poisson, rate, dtype=np.int64, seed=23)
    assert (mean_and_variance(draws, rate, rate, rate) > LEVEL).all()
    assert stats.kstest((draws + 0.5 - rate) / math.sqrt(rate), "norm").pvalue > LEVEL


def log_poisson_in_50_digits(rate, k):
    """-rate + k log(rate) - log k!, with four terms of Stirling's series."""
    with localcontext(prec=50):
        n, mu = Decimal(k), Decimal(rate)
        two_pi = Decimal("6.28318530717958647692528676655900576839433879875")
        series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
        return float(-mu + n * mu.ln() - ((n + Decimal("0.5")) * n.ln() - n + two_pi.ln() / 2 + series))


@pytest.mark.parametrize("rate", [50.5, 1e4, 1e9, 1e12 + 0.1, 1e15 + 0.25, 2.0**50])
def test_the_acceptance_test_of_large_poissons_keeps_six_digits(rate):
    """Up to six standard deviations, beyond which there is one draw in 1e9."""
    for z in (-6, -2.5, -1, 0, 0.5, 1, 3, 6):
        k = round(rate + z * math.sqrt(rate))
        assert log_poisson(rate, k) == pytest.approx(log_poisson_in_50_digits(rate, k), rel=0, abs=1e-6)


def test_zero_truncated_poissons_without_a_rate_are_one():
    for rate in (0.0, -1.0, math.nan):
        assert (sample(fill_zero_truncated_poisson, rate, dtype=np.int64, size=5) == 1).all()


WEIGHTS = np.array([0.0, 3.0, 0.0, 1e-3, 5.0, 0.5, 0.0])


def test_categoricals_follow_their_weights_and_never_draw_a_weight_of_zero():
    draws = sample(fill_categorical, np.cumsum(WEIGHTS), dtype=np.int64)
    observed = np.bincount(draws, minlength=len(WEIGHTS))
    assert (observed[WEIGHTS == 0] == 0).all()
    positive = WEIGHTS > 0
    expected = WEIGHTS[positive] / WEIGHTS.sum() * draws.size
    if expected.min() > 5:
        assert stats.chisquare(observed[positive], expected).pvalue > LEVEL


@pytest.mark.slow
def test_rare_classes_are_drawn_with_their_true_probability():
    """One weight in 2^26 of the total: 24-bit uniforms could not draw it at this rate."""
    rare = 2.0**-26
    size = 20_000 if JIT_OFF else 20_000_000
    draws = sample(fill_categorical, np.cumsum([rare, 1.0 - rare]), dtype=np.int64, size=size)
    assert stats.binomtest(int((draws == 0).sum()), size, rare).pvalue > LEVEL


def test_categoricals_from_log_weights_ignore_a_common_shift_and_skip_minus_infinity():
    scores = np.array([-np.inf, -1000.0, -1001.0, -np.inf])
    rng, counts = scratch(), np.zeros(4, dtype=int)
    stream = Key.of(4, 0).stream(Step.RELOCATE)
    for i in range(4000):
        seek(rng, stream, i)
        counts[categorical_from_logs(rng, scores, 4)] += 1
    assert counts[0] == counts[3] == 0
    assert stats.binomtest(int(counts[1]), 4000, 1 / (1 + math.exp(-1))).pvalue > LEVEL


@pytest.mark.parametrize("scale", [1e18, 1e30, 1e300])
def test_scores_of_any_size_can_be_compared(scale):
    """Beyond 4e17 a difference of 50 is lost in the last place of a score."""
    rng = scratch()
    seek(rng, Key.of(4, 0).stream(Step.RELOCATE), 0)
    for place in range(3):
        scores = np.full(3, -2.0 * scale)
        scores[place] = -scale
        assert categorical_from_logs(rng, scores, 3) == place
    assert categorical_from_logs(rng, np.full(3, -scale), 3) in range(3)


@pytest.mark.jit
def test_an_index_is_drawn_even_if_no_score_is_finite():
    rng = scratch()
    seek(rng, Key.of(4, 0).stream(Step.RELOCATE), 0)
    assert categorical_from_logs(rng, np.full(3, -np.inf), 3) == 0


@pytest.mark.parametrize("weights", [[1.24 * 2.0**-51, 1.0], [1.0, 1.24 * 2.0**-51]])
def test_a_rare_outcome_of_the_most_trials_has_its_true_probability(weights):
    size = 200 if JIT_OFF else 20_000
    out, weights = np.empty((size, 2), dtype=np.int64), np.array(weights)
    fill_multinomial(Key.of(9, 0).stream(Step.THIN), scratch(), 2**50, weights, np.empty(2, int), np.empty(2), out)
    rare = out[:, np.argmin(weights)]
    assert (out.sum(axis=1) == 2**50).all()
    assert stats.poisson(0.62 * size).cdf(rare.sum() - 1) > LEVEL / 2
    assert stats.poisson(0.62 * size).sf(rare.sum()) > LEVEL / 2


@pytest.mark.parametrize("size", range(1, 14))
def test_the_largest_of_the_log_weights_is_found_wherever_it_is(size):
    """All others are e^60 times less likely, so the largest is drawn for certain."""
    rng = scratch()
    for place in range(size):
        seek(rng, Key.of(4, 0).stream(Step.RELOCATE), place)
        scores = np.full(size + 1, 7.0)
        scores[place], scores[size] = 67.0, 200.0  # what is beyond the size does not count
        assert categorical_from_logs(rng, scores, size) == place


@pytest.mark.parametrize("trials", [1, 5, 300, 10**6])
def test_multinomials_are_multinomial(trials):
    """Totals exact; each margin binomial; the margins of a pair add to a binomial, which fixes their covariance."""
    size = 500 if JIT_OFF else 50_000
    out = np.empty((size, len(WEIGHTS)), dtype=np.int64)
    heavy, cumulative = np.empty(len(WEIGHTS), dtype=np.int64), np.empty(len(WEIGHTS))
    fill_multinomial(Key.of(9, 0).stream(Step.THIN), scratch(), trials, WEIGHTS, heavy, cumulative, out)
    assert (out.sum(axis=1) == trials).all()
    assert (out[:, WEIGHTS == 0] == 0).all()
    p = WEIGHTS / WEIGHTS.sum()
    for group in ([1], [4], [5], [1, 4], [1, 5], [4, 5]):
        assert binomial_p_value(out[:, group].sum(axis=1), trials, p[group].sum()) > LEVEL


@pytest.mark.parametrize("trials", [0, 3, 300, 10**9])
def test_no_trial_is_lost_among_many_equal_weights(trials):
    """With few trials no weight is heavy, with many all are."""
    weights, size = np.full(400, 0.1), 20 if JIT_OFF else 500
    out = np.empty((size, 400), dtype=np.int64)
    heavy, cumulative = np.empty(400, dtype=np.int64), np.empty(400)
    fill_multinomial(Key.of(9, 0).stream(Step.THIN), scratch(), trials, weights, heavy, cumulative, out)
    assert (out.sum(axis=1) == trials).all()
    if trials and not JIT_OFF:
        assert binomial_p_value(out[:, :200].sum(axis=1), trials, 0.5) > LEVEL


@pytest.mark.jit
@pytest.mark.skipif(JIT_OFF, reason="needs more draws than interpreted code makes")
def test_a_sampler_that_is_one_percent_wrong_is_caught():
    assert binomial_p_value(sample(fill_binomial, 1000, 0.3 * 1.01, dtype=np.int64), 1000, 0.3) < LEVEL
    for fill in (fill_log_gamma, fill_log_gammas):
        assert stats.kstest(np.exp(sample(fill, 1.7)), stats.gamma(1.7 * 1.01).cdf).pvalue < LEVEL


@pytest.mark.jit
@pytest.mark.skipif(JIT_OFF, reason="needs more draws than interpreted code makes")
@parametrize_few("rate", [0.5, 9.9, 10.1, 50.0, 1e3])
def test_a_poisson_of_a_rate_that_is_one_percent_wrong_is_caught(rate):
    draws = sample(fill_zero_truncated_poisson, rate * 1.01, dtype=np.int64, size=10 * DRAWS)
    assert fit_to(draws, 1, truncated_probabilities(rate)) < LEVEL


@pytest.mark.parametrize("rate", [1e-3, 0.5, 3.0])
def test_a_truncation_that_is_ignored_is_caught(rate):
    """Zeros kept, and zeros counted as ones."""
    draws = np.random.default_rng(1).poisson(rate, DRAWS)
    probabilities = truncated_probabilities(rate)
    assert fit_to(draws, 1, probabilities) < LEVEL
    if rate > 0.01:
        assert fit_to(np.maximum(draws, 1), 1, probabilities) < LEVEL


def test_the_ziggurat_closes_and_its_layers_have_one_area():
    """The top layer ends at the top of the curve, and widths fall from layer to layer."""
    assert _WIDTHS[-2] * (1.0 - _HEIGHTS[-2]) == pytest.approx(_WIDTHS[0] * _HEIGHTS[1], rel=1e-9)
    areas = _WIDTHS[1:-1] * np.diff(_HEIGHTS)[1:]
    np.testing.assert_allclose(areas, _WIDTHS[0] * _HEIGHTS[1], rtol=1e-9)
    assert (np.diff(_WIDTHS) < 0).all()


@pytest.mark.jit
def test_the_tail_of_the_normal_has_its_weight_and_shape():
    """Beyond the ziggurat's edge: one draw in four thousand."""
    draws = np.abs(sample(fill_normal, size=20 * DRAWS))
    beyond = draws[draws > _WIDTHS[1]]
    assert stats.binomtest(beyond.size, draws.size, 2 * stats.norm.sf(_WIDTHS[1])).pvalue > LEVEL
    assert stats.kstest(stats.norm.sf(beyond) / stats.norm.sf(_WIDTHS[1]), "uniform").pvalue > LEVEL

"""The likelihoods: densities against SciPy and sums, tails against sums of the density, moments, and draws."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit

from allocore.model.likelihood import LIKELIHOODS

NAMES = tuple(LIKELIHOODS)
CASES = [(name, r, p) for name in NAMES for r in (1e-6, 0.03, 0.7, 4.0, 60.0) for p in (0.01, 0.5, 0.95)]


def arrays(y, r, p):
    """Counts, rates and log odds of as many cells as there are counts."""
    counts = np.atleast_1d(np.asarray(y))
    return counts, np.full(len(counts), float(r)), np.full(len(counts), float(logit(p)))


def grid(name, r, p):
    """All counts that matter: far enough that what is beyond is negligible."""
    most = 1 if name == "bernoulli" else int(60 + 8 * r / (1 - p) + 60 / (1 - p))
    return arrays(np.arange(most + 1), r, p)


def scipys(name, r, p):
    if name == "poisson":
        return stats.poisson(r)
    return stats.bernoulli(-np.expm1(-r)) if name == "bernoulli" else stats.nbinom(r, 1 - p)


@pytest.mark.parametrize(("name", "r", "p"), CASES)
def test_densities_sum_to_one_and_have_the_mean_and_the_variance(name, r, p):
    likelihood, given = LIKELIHOODS[name], grid(name, r, p)
    density = np.exp(likelihood.log_density(*given))
    mean, variance = likelihood.mean(*given[1:])[0], likelihood.variance(*given[1:])[0]
    assert density.sum() == pytest.approx(1.0, rel=1e-11)
    assert density @ given[0] == pytest.approx(mean, rel=1e-9)
    assert density @ (given[0] - mean) ** 2 == pytest.approx(variance, rel=1e-9)


# SciPy takes the probability of a one, which rounds to 1 for a rate of 60.
@pytest.mark.parametrize(("name", "r", "p"), [case for case in CASES if case[:2] != ("bernoulli", 60.0)])
def test_densities_and_tails_are_those_of_scipy(name, r, p):
    likelihood, given, other = LIKELIHOODS[name], grid(name, r, p), scipys(name, r, p)
    np.testing.assert_allclose(likelihood.log_density(*given), other.logpmf(given[0]), rtol=1e-9, atol=1e-12)
    more, fewer = np.exp(likelihood.log_tails(*given))
    np.testing.assert_allclose(more, other.sf(given[0] - 1), rtol=1e-8, atol=1e-300)
    np.testing.assert_allclose(fewer, other.cdf(given[0]), rtol=1e-8)


@pytest.mark.parametrize(("name", "r", "p"), CASES)
def test_tails_are_sums_of_the_density(name, r, p):
    likelihood, given = LIKELIHOODS[name], grid(name, r, p)
    log_density = likelihood.log_density(*given)
    some = len(given[0]) * 2 // 3 + 1  # so that what is beyond the grid is negligible to the upper tails as well
    more, fewer = likelihood.log_tails(*(each[:some] for each in given))
    np.testing.assert_allclose(more, np.logaddexp.accumulate(log_density[::-1])[::-1][:some], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(fewer, np.logaddexp.accumulate(log_density)[:some], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "r", "p"), CASES)
def test_a_count_is_zero_with_the_probability_of_no_latent_count(name, r, p):
    likelihood, given = LIKELIHOODS[name], arrays(0, r, p)
    scale = likelihood.latent_scale(given[2])
    np.testing.assert_allclose(likelihood.log_density(*given), -scale * given[1], rtol=1e-14)
    np.testing.assert_allclose(likelihood.log_tails(*given)[1], -scale * given[1], rtol=1e-13, atol=1e-15)
    assert likelihood.log_tails(*given)[0] == 0.0


@pytest.mark.parametrize(
    ("y", "r", "p"),
    [
        (2000, 1.0, 0.5),
        (5000, 0.01, 0.7),
        (100_000, 3.0, 0.99),
        (4000, 40.0, 0.3),
        (10, 1e4, 0.5),
        (300, 5e4, 0.05),
        (40_000, 5e4, 0.8),
    ],
)
def test_far_tails_of_the_negative_binomial_are_sums_of_its_density(y, r, p):
    likelihood = LIKELIHOODS["negative-binomial"]
    more, fewer = (float(tail[0]) for tail in likelihood.log_tails(*arrays(y, r, p)))
    mean = r * p / (1 - p)
    counts = np.arange(y, y + 40_000) if y > mean else np.arange(y + 1)
    log_sum = np.logaddexp.reduce(likelihood.log_density(*arrays(counts, r, p)))
    assert log_sum < -680, "it underflows as a probability"
    assert (more if y > mean else fewer) == pytest.approx(log_sum, rel=1e-10)
    assert (fewer if y > mean else more) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["poisson", "negative-binomial"])
@pytest.mark.parametrize("rates", [np.geomspace(1e-300, 1e15, 60), np.geomspace(1e-3, 1e12, 60)], ids=["all", "some"])
@pytest.mark.parametrize("p", [1e-9, 0.3, 1 - 1e-6, 1 - 1e-12])
def test_tails_are_finite_and_monotone_however_far(name, rates, p):
    likelihood = LIKELIHOODS[name]
    counts = np.array([0, 1, 2, 5, 30, 1000, 10**6, 10**9])
    for r in rates:
        more, fewer = likelihood.log_tails(*arrays(counts, r, p))
        assert np.isfinite(more).all()
        assert np.isfinite(fewer).all()
        assert (np.diff(more) <= 1e-12 * np.abs(more[1:]) + 1e-12).all()
        assert (np.diff(fewer) >= -1e-12 * np.abs(fewer[1:]) - 1e-12).all()
        assert (np.logaddexp(more, fewer) >= -1e-12 * (1 + np.abs(more))).all(), "together they exceed one"


def test_a_tiny_rate_has_a_tail_in_proportion():
    """P(Y >= y) = r sum_{k >= y} p^k / k for r to 0, in which p may be as near to 1 as it likes."""
    likelihood = LIKELIHOODS["negative-binomial"]
    for log_odds in (-2.0, 0.0, 5.0, 40.0, 300.0):
        more, _ = likelihood.log_tails(np.array([3]), np.array([1e-200]), np.array([log_odds]))
        scale, p = np.logaddexp(0.0, log_odds), 1 / (1 + np.exp(-log_odds))
        assert more[0] == pytest.approx(np.log(1e-200) + np.log(scale - p - p**2 / 2), rel=1e-12)


def test_without_dispersion_the_negative_binomial_is_poisson():
    counts, rates = np.arange(12), np.full(12, 3.0)
    log_odds = np.full(12, np.log(1e-9))
    given = counts, rates / 1e-9, log_odds
    poisson, negative = LIKELIHOODS["poisson"], LIKELIHOODS["negative-binomial"]
    np.testing.assert_allclose(negative.log_density(*given), poisson.log_density(counts, rates, log_odds), rtol=1e-6)
    for one, other in zip(negative.log_tails(*given), poisson.log_tails(counts, rates, log_odds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_bernoulli_rules_out_counts_above_one():
    likelihood, given = LIKELIHOODS["bernoulli"], arrays([2, 3], 0.5, 0.5)
    assert (likelihood.log_density(*given) == -np.inf).all()
    more, fewer = likelihood.log_tails(*given)
    assert (more == -np.inf).all()
    assert (fewer == 0.0).all()


@pytest.mark.parametrize(("name", "r", "p"), [(name, r, p) for name in NAMES for r in (0.4, 5.0) for p in (0.2, 0.8)])
def test_draws_have_the_probabilities_of_the_density(name, r, p):
    likelihood, size = LIKELIHOODS[name], 20_000
    drawn = likelihood.draw(*arrays(np.zeros(size, dtype=int), r, p)[1:], np.random.default_rng(0))
    given = grid(name, r, p)
    expected = size * np.exp(likelihood.log_density(*given))
    seen = np.bincount(drawn, minlength=len(given[0])).astype(float)
    few = expected < 10  # pooled into one, as chi-square wants it
    seen, expected = (np.append(each[~few], each[few].sum()) for each in (seen[: len(expected)], expected))
    keep = expected > 1
    assert stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > 1e-4
    assert set(np.unique(drawn)) <= {0, 1} or name != "bernoulli"

"""Scores of counts under mixtures: against long tables of probabilities, by any of the ways that lead to them."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS
from allocore.posterior import scores as module
from allocore.posterior.predict import Mixtures
from allocore.posterior.scores import NODES, gauss_rule, gauss_sums, mixture_scores
from support.tiers import parametrize_few

COUNTS = np.arange(9000)
DRAWS = 7


def cases(likelihood, rng):
    """Rates from 1e-4 to 1500, three dispersions, and counts that are likely, zero, large, and absurd."""
    mean_N = np.exp(np.linspace(-9.0, 7.3, 24))
    rates_NS = mean_N[:, None] * rng.gamma(8.0, 1 / 8, (24, DRAWS))
    log_odds_RS = np.array([[-3.0], [0.0], [2.5]]) + rng.normal(0.0, 0.2, (3, DRAWS))
    row_N = np.arange(24) % 3 if likelihood == "negative-binomial" else np.zeros(24, dtype=int)
    rates_NS[row_N == 2] /= 10.0
    counts_N = rng.poisson(rates_NS[:, 0])
    counts_N[::4] = 0
    counts_N[1::4] = 3 * counts_N[1::4] + 5
    counts_N[[2, 22]] = 7000
    return Mixtures(rates_NS, row_N, log_odds_RS), counts_N


def frozen(likelihood, mixtures, n):
    rates_S1, log_odds_S1 = mixtures.rates_NS[n][:, None], mixtures.log_odds_RS[mixtures.odds_row_N[n]][:, None]
    if likelihood == "poisson":
        return stats.poisson(rates_S1)
    return stats.nbinom(rates_S1, 1 / (1 + np.exp(log_odds_S1)))


@parametrize_few("longest", [20_000, 40, 0], ids=["walked", "some walked", "by Gauss's rule"])
@parametrize_few("likelihood", ["poisson", "negative-binomial"])
def test_scores_are_those_of_a_long_table_of_probabilities(likelihood, longest, monkeypatch):
    monkeypatch.setattr(module, "_LONGEST_WALK", longest)
    mixtures, counts_N = cases(likelihood, np.random.default_rng(1))
    with Workers(2) as workers:
        found = mixture_scores(LIKELIHOODS[likelihood], mixtures, counts_N, workers)
    for n, y in enumerate(counts_N.tolist()):
        given = frozen(likelihood, mixtures, n)
        cdf = given.cdf(COUNTS).mean(axis=0)
        assert found.crps_N[n] == pytest.approx(((cdf - (y <= COUNTS)) ** 2).sum(), rel=1e-8), n
        assert found.up_to_N[n] == pytest.approx(cdf[y], abs=1e-11)
        assert found.below_N[n] == pytest.approx(cdf[y - 1] if y else 0.0, abs=1e-11)
        assert found.mean_N[n] == pytest.approx(given.mean().mean(), rel=1e-10)
        log_density = float(logsumexp(given.logpmf(y)) - np.log(DRAWS))
        assert found.log_density_N[n] == pytest.approx(log_density, rel=1e-8)
        assert found.zero_N[n] == pytest.approx(cdf[0], abs=1e-12)


def test_a_count_of_zeros_and_ones_is_scored_by_its_two_probabilities():
    rates_NS = np.random.default_rng(2).gamma(1.0, 1.0, (4, DRAWS))
    mixtures = Mixtures(rates_NS, np.zeros(4, dtype=int), np.zeros((1, DRAWS)))
    found = mixture_scores(LIKELIHOODS["bernoulli"], mixtures, np.array([0, 1, 3, 0]), Workers(1))
    zero = np.exp(-rates_NS).mean(axis=1)
    np.testing.assert_allclose(np.exp(found.log_density_N), [zero[0], 1 - zero[1], 0.0, zero[3]], rtol=1e-12)
    np.testing.assert_allclose(found.crps_N, [(1 - zero[0]) ** 2, zero[1] ** 2, zero[2] ** 2 + 2, (1 - zero[3]) ** 2])
    np.testing.assert_allclose(found.below_N, [0.0, zero[1], 1.0, 0.0])
    np.testing.assert_allclose(found.up_to_N, [zero[0], 1.0, 1.0, zero[3]])
    np.testing.assert_allclose(found.mean_N, 1 - zero)


def test_rates_of_zero_are_certain_zeros():
    mixtures = Mixtures(np.zeros((2, 3)), np.zeros(2, dtype=int), np.zeros((1, 3)))
    found = mixture_scores(LIKELIHOODS["poisson"], mixtures, np.array([0, 4]), Workers(1))
    assert found.log_density_N.tolist() == [0.0, -np.inf]
    assert found.crps_N.tolist() == [0.0, 4.0]
    assert found.zero_N.tolist() == [1.0, 1.0]


def test_the_crps_of_huge_counts_is_the_expected_difference_to_the_count():
    rng = np.random.default_rng(3)
    rates_1S = 1e8 * rng.gamma(50.0, 1 / 50, (1, 20))
    mixtures = Mixtures(rates_1S, np.zeros(1, dtype=int), np.zeros((1, 20)))
    y = 110_000_000
    found = mixture_scores(LIKELIHOODS["poisson"], mixtures, np.array([y]), Workers(1))
    # Draws are far apart compared with the noise of their counts, so that their means decide.
    apart = np.abs(rates_1S - rates_1S.T).mean() + 2 * np.sqrt(rates_1S / np.pi).mean() / 20
    assert found.crps_N[0] == pytest.approx(np.abs(rates_1S - y).mean() - apart / 2, rel=1e-5)


# Gauss's rule for whole numbers


@pytest.mark.parametrize("length", [1, 5, NODES, NODES + 1, 40, 1001])
def test_the_rule_sums_polynomials_over_whole_numbers_exactly(length):
    nodes, weights = gauss_rule(length)
    for degree in range(2 * NODES):
        expected = ((np.arange(length) / length) ** degree).sum()
        assert (weights * (nodes / length) ** degree).sum() == pytest.approx(expected, rel=1e-11)


def test_long_sums_are_refined_where_the_function_is_steep():
    first, stop = np.array([0, 10, 7]), np.array([300_000, 10, 19])
    steps = np.array([123_456.7, 0.0, 12.0])

    def steep(cells, points):
        return 1 / (1 + np.exp(-(points - steps[cells][:, None]) / 3.0))

    with np.errstate(over="ignore"):
        expected = [steep(np.array([c]), np.arange(first[c], stop[c])[None, :]).sum() for c in range(3)]
        found = gauss_sums(steep, first, stop, 1e-10)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("rates", "repeats", "y"),
    [
        ([10.0, 1e6], [999, 1], 0),
        ([10.0, 3e4], [99, 1], 0),
        ([10.0, 3e4, 1e6], [50, 49, 1], 30_100),
        ([7.0, 2e5], [1, 1], 9),
    ],
)
def test_draws_that_are_far_apart_are_all_seen(rates, repeats, y):
    """F is the mean of distributions with a wide gap between them, where it is constant."""
    mixtures = Mixtures(np.repeat(rates, repeats)[None, :], np.zeros(1, dtype=np.int64), np.zeros((1, sum(repeats))))
    with Workers(1) as workers:
        found = mixture_scores(LIKELIHOODS["poisson"], mixtures, np.array([y]), workers)
    k = np.arange(int(1.01 * max(rates)) + 1000)
    cdf = np.average([stats.poisson.cdf(k, rate) for rate in rates], axis=0, weights=repeats)
    assert found.crps_N[0] == pytest.approx(((cdf - (k >= y)) ** 2).sum(), rel=1e-7)


def test_the_probability_of_a_zero_is_right_where_nothing_is_walked():
    mixtures = Mixtures(np.full((1, 2), 0.01), np.zeros(1, dtype=np.int64), np.full((1, 2), np.log(1e7)))
    with Workers(1) as workers:
        found = mixture_scores(LIKELIHOODS["negative-binomial"], mixtures, np.array([0]), workers)
    assert found.zero_N[0] == pytest.approx((1.0 + 1e7) ** -0.01, rel=1e-12)
    assert found.up_to_N[0] == pytest.approx(found.zero_N[0], rel=1e-9)

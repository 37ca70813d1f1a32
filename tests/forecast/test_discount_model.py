"""The discount model: its probabilities by numerical integration, its draws by its probabilities, its levels by hand.

Error rate of the statistical tests: 1e-4 each. Planted bugs are found: a level that forgets nothing, draws without the
noise of single periods, partly observed periods that weigh as much as whole ones.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from allocore.forecast import time_factors
from allocore.forecast.time_factors import (
    DiscountSettings,
    FactorCounts,
    Level,
    Paths,
    Periods,
    Smoothness,
    draw_rates,
    learn_smoothness,
    log_probability,
    log_scores,
)
from support.tiers import by_tier

ERROR = 1e-4


def settings(discount, noise, pull=0.01, season=np.inf):
    return DiscountSettings(*(np.atleast_1d(np.asarray(each, dtype=float)) for each in (discount, noise, pull, season)))


def factors(counts_CT, draws=None):
    number, periods = np.shape(counts_CT)
    draw_C = np.zeros(number, dtype=int) if draws is None else draws
    return FactorCounts(
        draw_C, np.arange(number), np.asarray(counts_CT, dtype=float), np.ones((number, periods)), np.ones(number)
    )


def whole(periods, cycle=None):
    return Periods(np.arange(periods), np.ones(periods, dtype=bool), cycle)


def simulated(number, periods, discount, noise, pull, rng, start=200.0, exposure_TC=None):
    """Counts drawn from the model itself, one period from those before; the first is fully observed."""
    parts = np.ones((periods, number)) if exposure_TC is None else exposure_TC
    given = settings(*(np.full(number, each) for each in (discount, noise, pull, np.inf)))
    level, counts = Level(given, (number,)), [rng.poisson(start * rng.gamma(4.0, 0.25, number))]
    level.add(counts[0].astype(float), 0)
    for part in parts[1:]:
        counts.append(rng.poisson(draw_rates(given.noise * part, *level.parameters(0), rng, 1)[0]))
        level.add(counts[-1].astype(float), 0, part)
    return np.array(counts).T


@pytest.mark.parametrize(
    ("y", "noise", "a", "b"), [(0, 2.0, 3.0, 1.5), (7, 2.0, 3.0, 1.5), (40, 8.0, 5.0, 12.0), (2.5, 1.0, 1.2, 0.3)]
)
def test_the_probability_is_the_integral_over_levels(y, noise, a, b):
    def integrand(q):
        count = np.exp(log_binomial) * q**noise * (1.0 - q) ** y
        return count * stats.beta.pdf(q, a, b)

    from scipy.special import gammaln

    log_binomial = gammaln(noise + y) - gammaln(y + 1.0) - gammaln(noise)
    expected, _ = quad(integrand, 0.0, 1.0, limit=500)
    assert np.exp(log_probability(np.array(float(y)), noise, a, b)) == pytest.approx(expected, rel=1e-4)


def test_probabilities_add_up_to_one():
    y = np.arange(200_000.0)
    assert np.exp(log_probability(y, 4.0, 6.0, 3.0)).sum() == pytest.approx(1.0, abs=1e-6)


def p_of_draws(noise, drawn_with):
    """The p-value of simulated counts under the probabilities."""
    rng = np.random.default_rng(3)
    a, b, number = 6.0, 9.0, 20_000
    counts = rng.poisson(draw_rates(*np.broadcast_arrays(drawn_with, np.full(number, a), b), rng, 1)[0])
    edges = np.array([-1, 3, 6, 9, 13, 18, 26, 10**9])
    cumulated = np.exp(log_probability(np.arange(100_000.0), noise, a, b)).cumsum()
    probability = np.diff(np.concatenate([[0.0], cumulated[edges[1:-1]], [1.0]]))
    seen = np.histogram(counts, bins=edges + 0.5)[0]
    return stats.chisquare(seen, probability * number).pvalue


def test_draws_have_the_probabilities_of_the_model():
    assert p_of_draws(8.0, drawn_with=8.0) > ERROR


def test_draws_with_another_noise_are_found():
    assert p_of_draws(8.0, drawn_with=16.0) < ERROR


def test_the_level_is_the_discounted_mean_and_the_pull_leads_to_the_mean():
    counts, d = np.array([10.0, 20.0, 5.0, 40.0]), 0.6
    for pull in (0.0, 0.25, 1.0):
        level = Level(settings(d, 8.0, pull), (1,))
        for count in counts:
            level.add(np.array([count]), 0)
        a, b = level.parameters(0)
        weights = d ** np.arange(4)[::-1]
        expected = (1.0 - pull) * (weights @ counts) / weights.sum() + pull * (counts.sum() + 0.5) / 4
        assert 8.0 * b / (a - 1.0) == pytest.approx(expected, rel=1e-12)
        assert a == pytest.approx(1.0 + d * 8.0 * weights.sum(), rel=1e-12)


def test_a_period_that_was_not_observed_only_ages_what_is_known():
    observed, gap = Level(settings(0.5, 8.0), (1,)), Level(settings(0.5, 8.0), (1,))
    for level in (observed, gap):
        level.add(np.array([10.0]), 0)
    gap.skip(1)
    (a, b), (a_gap, b_gap) = observed.parameters(0), gap.parameters(0)
    assert a_gap - 1.0 == pytest.approx((a - 1.0) / 2.0)
    assert b_gap / (a_gap - 1.0) == pytest.approx(b / (a - 1.0))


def test_exposures_scale_counts_and_expectations():
    half = Level(settings(0.5, 8.0, 0.0), (1,))
    half.add(np.array([10.0]), 0, 0.5)
    a, b = half.parameters(0)
    assert 0.25 * 8.0 * b / (a - 1.0) == pytest.approx(20.0 * 0.25)


def test_a_period_weighs_as_much_as_was_observed_of_it():
    """Two halves of a period, without ageing, are a whole one; a hair of one with a wild count changes nothing."""
    halves, one, hair = (Level(settings(1.0, 8.0, 0.3), (1,)) for _ in range(3))
    for level in (halves, one, hair):
        level.add(np.array([30.0]), 0)
    halves.add(np.array([4.0]), 0, 0.5)
    halves.add(np.array([6.0]), 0, 0.5)
    for level in (one, hair):
        level.add(np.array([10.0]), 0)
    np.testing.assert_allclose(halves.parameters(0), one.parameters(0), rtol=1e-12)
    hair.add(np.array([1e-7 * 5_000.0]), 0, 1e-7)
    np.testing.assert_allclose(hair.parameters(0), one.parameters(0), rtol=1e-4)


@pytest.mark.parametrize("exposure", [1.0, 0.6, 0.05])
def test_the_count_of_a_part_of_a_period_has_a_proper_probability(exposure):
    """It adds up to one, has the mean e times the level, and is the integral of negative binomials of shape nu e."""
    level = Level(settings(0.7, 8.0, 0.1), (1,))
    for count, part in ((10.0, 1.0), (3.0, 0.3), (14.0, 1.0)):
        level.add(np.array([count]), 0, part)
    a, b = (each.item() for each in level.parameters(0))
    y = np.arange(400_000.0)
    probability = np.exp(log_probability(y, 8.0 * exposure, a, b))
    assert probability.sum() == pytest.approx(1.0, abs=1e-6)
    assert probability @ y == pytest.approx(exposure * 8.0 * b / (a - 1.0), rel=1e-4)
    for count in (0, 3, 20):
        expected, _ = quad(
            lambda q, count=count: stats.nbinom.pmf(count, 8.0 * exposure, q) * stats.beta.pdf(q, a, b), 0.0, 1.0
        )
        assert probability[count] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("exposure", "cycle"), by_tier([(0.0, None), (1e-3, 4)], [0.0, 1e-5, 1e-3], [None, 4]))
def test_periods_with_almost_no_exposure_change_almost_nothing(exposure, cycle):
    """Counts of the prior before and between the periods that were observed: learned and forecast as without them."""
    rng = np.random.default_rng(1)
    counts, wild = rng.poisson(200.0, (30, 24)).astype(float), rng.gamma(0.3, 3_000.0, (30, 36))
    hidden = np.r_[0:8, 20:24]
    shown = np.setdiff1d(np.arange(36), hidden)
    wild, parts = exposure * wild, np.full((30, 36), exposure)
    wild[:, shown], parts[:, shown] = counts, 1.0
    weak = FactorCounts(np.zeros(30, dtype=int), np.arange(30), wild, parts, np.ones(30))
    totals = []
    for given, periods in (
        (weak, whole(36, cycle)),
        (factors(wild), Periods(np.arange(36), np.isin(np.arange(36), shown), cycle)),
    ):
        paths = Paths(given, periods, learn_smoothness(given, periods), np.random.default_rng(2))
        drawn = np.array([paths.draw(3).sum() for _ in range(60)])
        totals.append((drawn.mean(), drawn.std(), paths.correlation))
    (mean, spread, correlation), (mean_without, spread_without, correlation_without) = totals
    assert mean == pytest.approx(mean_without, rel=0.04)
    assert mean == pytest.approx(3 * 30 * 200.0, rel=0.04)
    assert spread < 2.0 * spread_without
    assert abs(correlation - correlation_without) < 0.1


def test_a_level_that_was_seen_long_ago_is_uncertain_and_not_zero():
    long = Level(settings(0.5, 8.0, 0.1), (1,))
    for count in (100.0, 110.0, 90.0):
        long.add(np.array([count]), 0)
    for _ in range(2_000):
        long.add(np.zeros(1), 0, 0.0)
    a, b = long.parameters(0)
    assert 80.0 < (8.0 * b / (a - 1.0)).item() < 120.0
    assert a == pytest.approx(1.0 + 0.03 * 8.0)


def test_long_gaps_are_skipped_at_once_and_keep_the_phase():
    past = Periods(np.array([0, 1, 4, 10**9 + 2]), np.array([True, True, False, True]), 4)
    assert list(past.steps()) == [(0, 0, 0), (1, 1, 0), (3, 2, 10**9)]
    stepwise, at_once = (Level(settings(0.9, 8.0), (1,)) for _ in range(2))
    for level in (stepwise, at_once):
        level.add(np.array([10.0]), 0)
    for _ in range(7):
        stepwise.skip(1)
    at_once.skip(7)
    np.testing.assert_allclose(at_once.parameters(0), stepwise.parameters(0), rtol=1e-12)


def test_no_factor_at_all_is_no_error():
    none = factors(np.zeros((0, 6)))
    paths = Paths(none, whole(6), learn_smoothness(none, whole(6)), np.random.default_rng(0))
    assert paths.draw(2).shape == (0, 2)


def test_a_season_is_found_and_carried_on():
    index = np.array([0.5, 1.0, 1.5, 1.0])
    counts = np.tile(100.0 * index, 6)
    level = Level(settings(0.9, 64.0, 0.05, 1.0), (1,), 4)
    for t, count in enumerate(counts):
        level.add(np.array([count]), t % 4)
    means = [(64.0 * b / (a - 1.0)).item() for a, b in (level.parameters(phase) for phase in range(4))]
    np.testing.assert_allclose(means, 100.0 * index, rtol=0.15)


@pytest.mark.parametrize(("discount", "noise"), [(0.3, 32.0), (0.95, 8.0)])
def test_planted_smoothness_is_learned(discount, noise):
    counts = simulated(80, 60, discount, noise, 0.05, np.random.default_rng(5))
    found = learn_smoothness(factors(counts), whole(60))
    learned = np.exp(found.weights_G @ np.log(found.settings.discount))
    assert abs(learned - discount) < 0.2
    assert abs(np.log2(np.exp(found.weights_G @ np.log(found.settings.noise)) / noise)) < 1.5


def test_weights_of_the_grid_increase_the_probability_of_the_past():
    counts = simulated(60, 40, 0.7, 8.0, 0.15, np.random.default_rng(8))
    given = factors(counts)
    found = learn_smoothness(given, whole(40))
    grid = time_factors.all_settings(None)
    best_single = log_scores(given, whole(40), grid).sum(axis=0).max()
    mixed = np.logaddexp.reduce(log_scores(given, whole(40), found.settings) + np.log(found.weights_G), axis=1).sum()
    assert mixed > best_single - 1.0


def coverage_p(forget=True, parts=False, told=True):
    """The p-value of the ranks of true futures among paths, at one and at three steps."""
    rng, number, past, horizon = np.random.default_rng(11), 800 if parts else 150, 40, 3
    exposure_TC = np.ones((past + horizon, number))
    if parts:
        exposure_TC[1:past] = rng.choice([0.02, 0.1, 1.0], (past - 1, number))
    counts = simulated(number, past + horizon, 0.5, 16.0, 0.05, rng, exposure_TC=exposure_TC)
    known = Smoothness(settings(0.5 if forget else 1.0, 16.0, 0.05), np.ones(1))
    given = factors(counts[:, :past], np.arange(number))
    seen = replace(given, exposure_CT=exposure_TC[:past].T)
    if not told:  # every period is a full observation of its rate
        seen = replace(given, counts_CT=given.counts_CT / seen.exposure_CT)
    paths = Paths(seen, whole(past), known, rng)
    drawn = np.array([rng.poisson(paths.draw(horizon)) for _ in range(99)])
    p = []
    for h in (0, 2):
        below = (drawn[:, :, h] < counts[:, past + h]).sum(axis=0)
        equal = (drawn[:, :, h] == counts[:, past + h]).sum(axis=0)
        ranks = below + rng.random(number) * (equal + 1)
        p.append(stats.kstest(ranks / 100.0, "uniform").pvalue)
    return min(p)


def test_paths_cover_the_future_of_data_from_the_model():
    assert coverage_p() > ERROR


def test_paths_cover_the_future_of_partly_observed_data_from_the_model():
    assert coverage_p(parts=True) > ERROR


def test_full_weight_of_partly_observed_periods_is_found():
    assert coverage_p(parts=True, told=False) < ERROR


def test_a_level_that_forgets_nothing_is_found():
    assert coverage_p(forget=False) < ERROR


def test_paths_widen_with_the_horizon():
    rng = np.random.default_rng(2)
    counts = simulated(60, 40, 0.3, 32.0, 0.05, rng)
    paths = Paths(factors(counts, np.arange(60)), whole(40), Smoothness(settings(0.3, 32.0, 0.05), np.ones(1)), rng)
    drawn = np.log(np.array([paths.draw(4) for _ in range(200)]))
    spread = drawn.std(axis=0).mean(axis=0)
    assert (np.diff(spread) > 0).all()


def test_common_shocks_are_found_and_carried_on():
    rng = np.random.default_rng(4)
    shocks = rng.lognormal(0.0, 0.3, 60)
    counts = rng.poisson(200.0 * shocks * rng.gamma(30.0, 1 / 30.0, (40, 60)))
    known = Smoothness(settings(0.85, 8.0, 0.05), np.ones(1))
    shared = Paths(factors(counts), whole(60), known, rng)
    alone = Paths(factors(rng.permuted(counts, axis=1)), whole(60), known, rng)
    assert shared.correlation > 0.5
    assert alone.correlation < 0.15
    totals = [np.array([paths.draw(1).sum() for _ in range(200)]).std() for paths in (shared, alone)]
    assert totals[0] > 2.0 * totals[1]


def test_ranked_draws_keep_the_distribution_of_each_factor():
    rng = np.random.default_rng(6)
    given = factors(np.tile([[50.0, 60.0, 40.0]], (400, 1)))
    paths = Paths(given, whole(3), Smoothness(settings(0.5, 8.0, 0.05), np.ones(1)), rng)
    paths.correlation = 0.6
    level = Level(settings(0.5, 8.0, 0.05), (1,))
    for count in (50.0, 60.0, 40.0):
        level.add(np.array([count]), 0)
    a, b = level.parameters(0)
    plain = draw_rates(np.full(20_000, 8.0), np.full(20_000, a), np.full(20_000, b), rng, 1)[0]
    drawn = np.array([paths.draw(1)[0, 0] for _ in range(400)])
    assert stats.kstest(drawn, plain).pvalue > ERROR

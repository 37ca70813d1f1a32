"""Latent counts, dispersion and concentrations, drawn many times, against their exact distributions.

Goodness-of-fit tests at level 1e-4 each, seeds fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from allocore.gibbs import dispersion, latent_counts
from allocore.gibbs.concentrations import draw_concentration
from allocore.gibbs.layout import LARGE, Layout, Workspace
from allocore.gibbs.thinning import thin
from allocore.kernels.random import Key, Step, scratch
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.missing import Missing
from support import cases, naive
from support.evidence import fit_to
from support.tiers import by_tier, parametrize_few

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
LEVEL = 1e-4
CELLS = 6000
BURSTS = {"likelihood": "negative-binomial", "g0": 2.0, "h0": 3.0}
SHARE = 0.25  # of the first of two classes in the rate of every cell


def two_classes(rates, depth=0.0):
    """A (1, cells) tensor's state with these rates. With a depth, each class is tiny where the other is large.

    Then the products of rows that are scaled to a maximum of one are exp(-2 depth), whatever the rates.
    """
    log_rates = np.log(rates)
    first = np.stack([log_rates + np.log(SHARE) - depth, log_rates + np.log1p(-SHARE) + depth], axis=1)
    return State(np.zeros(2), np.array([[0, 0], [1, 1]]), (np.array([[depth, -depth]]), first))


def drawn(likelihood, counts, state, key=None, threads=2):
    """The latent counts of the cells, those of the first class among them, and the log-likelihood of the cells."""
    coords = np.array([np.zeros(len(counts), dtype=int), np.arange(len(counts))])
    with Workers(threads) as workers:
        layout = Layout.of_cells(coords, np.asarray(counts), Missing.none((1, len(counts))), workers)
        spec = Spec(2, (2, 2), likelihood=likelihood)
        allocation, _ = thin(key or Key.of(7, 0), layout, spec, state, Workspace.of(layout, state))
    latent = allocation.y_RQ[layout.rows(1)]
    assert allocation.y_RQ[0].tolist() == latent.sum(axis=0).tolist()
    return latent.sum(axis=1), latent[:, 0], allocation.log_fit


def check_split(latent, first):
    """Every latent count of one goes to the first class by its share, whatever the latent count of the cell."""
    for among in (latent == latent.min(), latent > latent.min(), latent > 0):
        if among.any():
            test = stats.binomtest(int(first[among].sum()), int(latent[among].sum()), SHARE)
            assert test.pvalue > LEVEL


def log_fit_of(likelihood, counts, rates):
    """log P(y) + c r + ln y!, with p = 1/2 where there is one and without its part: what thinning sums."""
    zeros = np.zeros(len(counts))
    density = LIKELIHOODS[likelihood].log_density(np.asarray(counts), rates, zeros)
    total = density + LIKELIHOODS[likelihood].latent_scale(zeros) * rates + gammaln(np.asarray(counts) + 1.0)
    return (total + (np.log(2.0) * np.asarray(counts) if likelihood == "negative-binomial" else 0.0)).sum()


@pytest.mark.parametrize("depth", [0.0, 40.0], ids=["plain", "products-underflow"])
@pytest.mark.parametrize(
    ("count", "rate"),
    [
        (1, 0.3),
        (2, 1e-9),
        (2, 3.0),
        (5, 0.4),
        (40, 20.0),
        (255, 1e-3),
        (255, 9.0),
        (255, 1e5),
        (256, 0.7),
        (256, 300.0),
        (1500, 40.0),
    ],
)
def test_the_tables_of_a_cell_have_their_exact_probabilities(count, rate, depth):
    counts, rates = np.full(CELLS, count), np.full(CELLS, rate)
    latent, first, log_fit = drawn("negative-binomial", counts, two_classes(rates, depth))
    assert fit_to(latent, 0, naive.tables_pmf(count, rate)) > LEVEL
    check_split(latent, first)
    assert log_fit == pytest.approx(log_fit_of("negative-binomial", counts, rates), rel=1e-6, abs=1e-6 * CELLS)


@pytest.mark.parametrize("depth", [0.0, 40.0], ids=["plain", "products-underflow"])
@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.7, 6.0, 31.0, 33.0, 400.0])
def test_the_latent_count_of_a_one_is_poisson_given_that_it_is_not_zero(rate, depth):
    counts, rates = np.ones(CELLS, dtype=int), np.full(CELLS, rate)
    latent, first, log_fit = drawn("bernoulli", counts, two_classes(rates, depth))
    k = np.arange(1, 60 + int(2 * rate))
    assert fit_to(latent, 1, np.exp(stats.poisson.logpmf(k, rate) - np.log(-np.expm1(-rate)))) > LEVEL
    check_split(latent, first)
    assert log_fit == pytest.approx(log_fit_of("bernoulli", counts, rates), rel=1e-6, abs=1e-6 * CELLS)


@pytest.mark.slow
@parametrize_few("likelihood", ["negative-binomial", "bernoulli"])
@parametrize_few("log_rate", [-240.0, -500.0, -740.0, -2000.0])
def test_a_rate_that_all_but_vanishes_leads_to_one_table(likelihood, log_rate):
    counts = np.ones(50, dtype=int) if likelihood == "bernoulli" else np.tile([1, 2, 255, 256, 10**9], 10)
    state = State(
        np.zeros(1), np.zeros((1, 2), dtype=int), (np.full((1, 1), log_rate / 2), np.full((50, 1), log_rate / 2))
    )
    coords = np.array([np.zeros(50, dtype=int), np.arange(50)])
    with Workers(2) as workers:
        layout = Layout.of_cells(coords, counts, Missing.none((1, 50)), workers)
        allocation, _ = thin(
            Key.of(1, 0), layout, Spec(1, (1, 1), likelihood=likelihood), state, Workspace.of(layout, state)
        )
    assert (allocation.y_RQ[1:, 0] == 1).all()
    expected = 50 * log_rate + gammaln(counts).sum()  # r G(y), to first order in r
    assert allocation.log_fit == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rate", [2e6, 1e12, 1e20])
def test_a_large_rate_of_a_one_leads_to_as_many_latent_counts(rate):
    """Up to 2^50: beyond, a count in 2^50 is beyond what a table of counts should hold."""
    rates = np.full(400, rate)
    latent, first, log_fit = drawn("bernoulli", np.ones(400, dtype=int), two_classes(rates))
    mean = min(rate, 2.0**50)
    spread = (latent - mean) / np.sqrt(mean)
    assert stats.kstest(spread, "norm").pvalue > LEVEL
    shares = (first - SHARE * latent) / np.sqrt(SHARE * (1 - SHARE) * latent)
    assert stats.kstest(shares, "norm").pvalue > LEVEL
    assert log_fit == pytest.approx(rates.sum(), rel=1e-6)


@pytest.mark.parametrize("likelihood", ["negative-binomial", "bernoulli"])
def test_every_cell_of_a_mixed_tensor_has_its_own_latent_count(likelihood):
    """All routes at once: z-tests of the means of each cell over sweeps, of their spread, and of neighbours."""
    rng, cells, sweeps = np.random.default_rng(4), 3000, 60
    rates = np.exp(rng.uniform(np.log(1e-3), np.log(80.0), cells))
    if likelihood == "bernoulli":
        counts = np.ones(cells, dtype=int)
        some = -np.expm1(-rates)
        mean, variance = rates / some, (rates + rates**2) / some - (rates / some) ** 2
    else:
        counts = rng.choice([1, 2, 3, 10, 200, 255, 256, 2000], cells)
        chances = [rate / (rate + np.arange(count)) for rate, count in zip(rates, counts, strict=True)]
        mean = np.array([each.sum() for each in chances])
        variance = np.array([(each * (1 - each)).sum() for each in chances])
    state, key = two_classes(rates), Key.of(5, 0)
    draws = np.array([drawn(likelihood, counts, state, key.at(sweep))[0] for sweep in range(sweeps)])
    varied = variance * sweeps > 10
    assert (draws[:, counts == 1] == 1).all() or likelihood == "bernoulli"
    z = (draws.sum(axis=0) - sweeps * mean)[varied] / np.sqrt(sweeps * variance[varied])
    assert stats.kstest(z, "norm").pvalue > LEVEL
    one = ((draws - mean) / np.sqrt(np.where(varied, variance, 1.0)))[:, varied]
    for lag in (1, 2, 64):
        assert abs((one[:, lag:] * one[:, :-lag]).sum()) / np.sqrt(one[:, lag:].size) < 4.5
    assert abs((one[1:] * one[:-1]).sum()) / np.sqrt(one[1:].size) < 4.5


def test_counts_and_rates_on_both_sides_of_every_switch_are_in_the_tests_above():
    assert LARGE == 256
    assert latent_counts.MOST_BINARY_RATE == 32.0
    assert latent_counts.LEAST_RATE == 1e-100


def slice_terms(case, dense):
    """What the two moves of the dispersion read, from the dense sums of the oracle."""
    count, rate = (float(each.item()) for each in naive.counts_and_rates(case.Y, case.observed, dense, case.priors))
    of_core = case.spec.a0 * len(dense.core), case.spec.b0 * dense.core.sum()
    return dispersion.SliceTerms(count, rate, float(case.alloc.sum()), case.spec.g0, case.spec.h0, *of_core)


def check_invariance(grid, log_density, move, repeats=4000):
    """Begun at the density on a grid, a move ends there, and goes away from where it began."""
    weights, rng = naive.normalised(log_density), np.random.default_rng(1)
    before = rng.choice(grid, p=weights, size=repeats) + (grid[1] - grid[0]) * (rng.random(repeats) - 0.5)
    after = np.array([move(n, x) for n, x in enumerate(before)])
    law = np.cumsum(weights) - weights / 2
    assert stats.kstest(after, lambda x: np.interp(x, grid, law)).pvalue > LEVEL
    assert np.corrcoef(before, after)[0, 1] < 0.5


@pytest.mark.parametrize("with_missing", [False, True])
def test_the_dispersion_given_the_core_values_leaves_its_conditional_as_it_is(with_missing):
    case = cases.make(3, budget=4, with_missing=with_missing, seed=5, scale=2.0, **BURSTS)
    terms, key = slice_terms(case, case.dense), Key.of(3, 0)

    def move(n, x):
        return dispersion.draw_log_odds(terms, key.at(n).stream(Step.DISPERSION), scratch(), x)

    density = naive.dispersion_log_density(0, case.Y, case.observed, case.dense, case.priors)
    check_invariance(naive.LOG_ODDS, density, move)


def shifted(dense, shift):
    """The state with all log odds shifted, and the core values shifted back."""
    log_odds = np.log(dense.p / (1 - dense.p)) + shift
    return replace(dense, p=1 / (1 + np.exp(-log_odds)), core=dense.core * np.exp(-shift))


@pytest.mark.parametrize("with_missing", [False, True])
def test_the_shift_of_dispersion_and_core_values_leaves_their_conditional_as_it_is(with_missing):
    """The density is that of counts, latent counts and state, in the logarithms that are shifted."""
    case = cases.make(3, budget=4, with_missing=with_missing, seed=5, scale=2.0, **BURSTS)
    key, grid, latent = Key.of(3, 0), np.arange(-6.0, 6.0, 0.02), case.alloc.sum(axis=0)

    def log_density(shift):
        state = shifted(case.dense, shift)
        counts = naive.log_likelihood(case.Y, case.observed, state, case.priors)
        counts += naive.log_latent(latent, case.Y, case.observed, state, case.priors)
        log_p, log_rest = np.log(state.p), np.log1p(-state.p)
        prior = (case.spec.g0 * log_p + case.spec.h0 * log_rest).sum()
        core = stats.gamma.logpdf(state.core, case.spec.a0, scale=1 / naive.core_rate(state.p, case.priors))
        return counts + prior + (core + np.log(state.core)).sum()

    def move(n, x):
        state = shifted(case.dense, x)
        log_odds, terms = np.log(state.p / (1 - state.p)).item(), slice_terms(case, state)
        return x + dispersion.draw_shift(terms, key.at(n).stream(Step.DISPERSION), scratch(), log_odds)

    check_invariance(grid, [log_density(shift) for shift in grid], move)


@pytest.mark.slow
def test_the_dispersion_of_a_row_without_counts_can_be_as_small_as_its_prior_likes():
    """g0 = 0.02: p itself underflows, its log odds do not. ln p of Beta(g0, h) is near -Exponential(g0)."""
    # Without the prior of the core values, which depends on p.
    terms = dispersion.SliceTerms(0.0, 0.0, latent=0.0, g0=0.02, h0=3.0, core_shape=0.0, core_rate=0.0)
    log_odds, draws = 0.0, []
    for n in range(60_000):
        log_odds = dispersion.draw_log_odds(terms, Key.of(3, 0).at(n).stream(Step.DISPERSION), scratch(), log_odds)
        draws.append(log_odds)
    assert min(draws) < -300
    assert np.isfinite(draws).all()
    log_p = -np.logaddexp(0.0, -np.array(draws[::20]))
    tail = log_p[log_p < -5.0] + 5.0
    assert stats.kstest(-tail, stats.expon(scale=1 / 0.02).cdf).pvalue > LEVEL


def test_the_dispersion_of_rows_is_beta():
    case = cases.make(3, budget=4, seed=5, scale=2.0, dispersion_by=0, **BURSTS)
    workspace = Workspace.of(case.layout, case.state)
    view = cases.view_of(case.layout, case.state, case.allocation, 0, workspace)
    given = case.layout, case.spec, case.state, view.exposure_Q(workspace.rows(0)), workspace
    states = [dispersion.draw_dispersion_of_new_rows(Key.of(3, 0).at(n), *given) for n in range(3000)]
    draws = np.array([state.dispersion.log_odds_D for state in states])
    counts, rates = naive.counts_and_rates(case.Y, case.observed, case.dense, case.priors)
    laws = stats.beta(case.spec.g0 + counts.ravel(), case.spec.h0 + rates.ravel())
    u = laws.cdf(1 / (1 + np.exp(-draws)))
    assert all(stats.kstest(column, "uniform").pvalue > LEVEL for column in u.T)
    assert np.abs(np.corrcoef(draws.T)[np.triu_indices(draws.shape[1], 1)]).max() < 0.08


@pytest.mark.parametrize(
    ("likelihood", "mode"),
    by_tier(
        [("negative-binomial", 2)],
        ["poisson", "negative-binomial", "bernoulli"],
        [0, 2],
    ),
)
def test_the_step_of_a_concentration_leaves_its_conditional_as_it_is(likelihood, mode):
    """Begun at the conditional with the factors integrated out, enumerated on a grid, it ends there."""
    settings = {"likelihood": likelihood, "e0": "infer", "s0": 2.0, "t0": 1.5}
    case = cases.make(3, budget=4, seed=5, scale=3.0, **settings)
    shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
    y_DK, grid = shape_DK - case.dense.concentrations[mode], np.linspace(0.002, 12.0, 6000)
    log_weights = [
        stats.gamma.logpdf(e, 2.0, scale=1 / 1.5)
        + (gammaln(e + y_DK) - gammaln(e) + e * np.log(case.spec.f0 / rate_DK)).sum()
        for e in grid
    ]
    weights, rng = naive.normalised(log_weights), np.random.default_rng(1)
    view = cases.view_of(case.layout, case.state, case.allocation, mode)
    before, after = rng.choice(grid, p=weights, size=4000), []
    for n, e in enumerate(before):
        dense = case.dense.copy()
        dense.concentrations[mode] = e
        new, _ = draw_concentration(Key.of(2, 0).at(n), case.layout, case.spec, cases.state_of(dense), view)
        others = np.delete(np.arange(3), mode)
        assert (new.concentrations_M[others] == dense.concentrations[others]).all()
        after.append(new.concentrations_M[mode])
    law = np.cumsum(weights)
    assert stats.kstest(after, lambda e: np.interp(e, grid, law)).pvalue > LEVEL
    assert np.corrcoef(before, after)[0, 1] < 0.95


@pytest.mark.parametrize("count", [1, 256, 3000])
@pytest.mark.parametrize("rate", [1e-9, 1.0, 9e4, 2e5, 1e9, 1e15, 1e100])
def test_the_log_likelihood_of_a_large_count_keeps_its_digits(count, rate):
    """ln r + ln(r + 1) + .. + ln(r + y - 1), term by term: digits that the log gamma function would lose."""
    exact = math.fsum(math.log(rate + i) for i in range(count))
    ours = latent_counts.log_fit(latent_counts.NEGATIVE_BINOMIAL, count, math.log(rate))
    assert ours == pytest.approx(exact, rel=1e-12, abs=1e-9)

"""The oracle's steps for the other likelihoods and for concentrations, against its own joint and exact probabilities.

Each statistical test has a fixed seed and says how often another seed would fail a correct sampler.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from support import naive
from support.evidence import corrected, fit_to, same_means, summaries

PRIORS = {
    "negative-binomial": naive.Priors(1.3, 0.7, 1.6, 0.9, 0.8, "negative-binomial", None, 1.5, 2.5),
    "by-row": naive.Priors(1.3, 0.7, (1.6, 0.8, 1.1), 0.9, 0.8, "negative-binomial", 1, 1.5, 2.5),
    "bernoulli": naive.Priors(1.3, 0.7, "infer", 1.9, 0.8, "bernoulli", s0=9.0, t0=7.0),
    "both": naive.Priors(1.3, 0.7, "infer", 0.9, 0.8, "negative-binomial", 0, 3.0, 2.5, 9.0, 7.0),
}
SHAPE, CORE_SHAPE, BUDGET = (3, 2, 2), (2, 3, 2), 3


@pytest.fixture(params=PRIORS)
def world(request):
    """Priors, observed cells, counts, a state, an allocation of the latent counts, and a second state."""
    priors, rng = PRIORS[request.param], np.random.default_rng(5)
    observed = rng.random(SHAPE) >= 0.2
    state, other = (naive.sample_prior(SHAPE, CORE_SHAPE, BUDGET, priors, rng) for _ in range(2))
    Y = naive.sample_data(state, SHAPE, rng, priors)
    alloc = naive.thin(naive.draw_latent(Y, observed, state, priors, rng), observed, state, rng)
    return priors, observed, Y, state, alloc, other


def log_joint(Y, observed, state, alloc, priors):
    """log p(counts, latent counts, allocation, state): the latent counts decide the allocation, and p the counts."""
    total = naive.log_joint(alloc, observed, state, priors)
    latent = alloc.sum(axis=0)
    total -= stats.poisson.logpmf(latent, naive.latent_scale(state) * naive.rates(state))[observed].sum()
    total += naive.log_likelihood(Y, observed, state, priors) + naive.log_latent(latent, Y, observed, state, priors)
    if state.p is not None:
        total += stats.beta.logpdf(state.p, priors.g0, priors.h0).sum()
    if state.concentrations is not None:
        total += stats.gamma.logpdf(state.concentrations, priors.s0, scale=1 / priors.t0).sum()
    return total


def test_core_values_and_factors_have_the_conditionals_of_the_joint_of_counts_and_latent_counts(world):
    priors, observed, Y, state, alloc, other = world
    before = log_joint(Y, observed, state, alloc, priors)
    shape_Q, rate_Q = naive.core_conditional(alloc, observed, state, priors)
    for q in range(BUDGET):
        moved = state.copy()
        moved.core[q] = other.core[q]
        law = stats.gamma(shape_Q[q], scale=1 / rate_Q[q])
        difference = law.logpdf(moved.core[q]) - law.logpdf(state.core[q])
        assert difference == pytest.approx(log_joint(Y, observed, moved, alloc, priors) - before, abs=1e-7)
    for m in range(3):
        shape_DK, rate_DK = naive.factor_conditional(m, alloc, observed, state, priors)
        for d, k in np.ndindex(shape_DK.shape):
            moved = state.copy()
            moved.factors[m][d, k] = other.factors[m][d, k]
            law = stats.gamma(shape_DK[d, k], scale=1 / rate_DK[d, k])
            difference = law.logpdf(moved.factors[m][d, k]) - law.logpdf(state.factors[m][d, k])
            assert difference == pytest.approx(log_joint(Y, observed, moved, alloc, priors) - before, abs=1e-7)


@pytest.mark.parametrize("name", ["negative-binomial", "by-row", "both"])
def test_the_dispersion_has_the_conditional_of_the_joint_with_and_without_latent_counts(name):
    """With the latent counts given, its conditional is the same: given counts and rates, L does not depend on p."""
    priors, rng = PRIORS[name], np.random.default_rng(8)
    observed = rng.random(SHAPE) >= 0.2
    state, other = (naive.sample_prior(SHAPE, CORE_SHAPE, BUDGET, priors, rng) for _ in range(2))
    Y = naive.sample_data(state, SHAPE, rng, priors)
    alloc = naive.thin(naive.draw_latent(Y, observed, state, priors, rng), observed, state, rng)
    places = np.searchsorted(naive.LOG_ODDS, np.log(other.p / (1 - other.p)).ravel())
    for row, place in enumerate(places):
        density = naive.dispersion_log_density(row, Y, observed, state, priors)
        moved, near = state.copy(), state.copy()
        moved.p.flat[row], near.p.flat[row] = 1 / (1 + np.exp(-naive.LOG_ODDS[[place, place + 200]]))
        change = [np.log(each.p * (1 - each.p)).sum() for each in (moved, near)]  # of variables, to log odds
        joint = [log_joint(Y, observed, each, alloc, priors) for each in (moved, near)]
        difference = density[place] - density[place + 200]
        assert difference == pytest.approx(joint[0] + change[0] - joint[1] - change[1], abs=1e-8)
        without = [
            naive.log_likelihood(Y, observed, each, priors)
            + stats.beta.logpdf(each.p, priors.g0, priors.h0).sum()
            + stats.gamma.logpdf(each.core, priors.a0, scale=1 / naive.core_rate(each.p, priors)).sum()
            for each in (moved, near)
        ]
        assert difference == pytest.approx(without[0] + change[0] - without[1] - change[1], abs=1e-8)


@pytest.mark.statistical
@pytest.mark.parametrize(("customers", "r"), [(1, 0.3), (6, 0.3), (9, 4.0), (30, 1.0)])
def test_tables_are_drawn_by_their_probabilities(customers, r):
    """Error rate 1e-4."""
    rng = np.random.default_rng(2)
    draws = np.array([naive.chinese_restaurant(customers, r, rng) for _ in range(4000)])
    assert fit_to(draws, 0, naive.tables_pmf(customers, r)) > 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [1e-5, 0.3, 4.0, 60.0])
def test_poisson_variates_that_are_not_zero_are_drawn_by_their_probabilities(rate):
    """Error rate 1e-4."""
    rng, k = np.random.default_rng(2), np.arange(1, 200)
    draws = np.array([naive.positive_poisson(rate, rng) for _ in range(4000)])
    assert fit_to(draws, 1, stats.poisson.pmf(k, rate) / -np.expm1(-rate)) > 1e-4


def log_density_of_concentration(e, m, alloc, observed, state, priors):
    """Up to a constant: the prior, and the counts of each row and factor with the factors integrated out."""
    shape_DK, rate_DK = naive.factor_conditional(m, alloc, observed, state, priors)
    y_DK = shape_DK - state.concentrations[m]
    rows = gammaln(e + y_DK) - gammaln(e) + e * np.log(priors.f0 / rate_DK)
    return stats.gamma.logpdf(e, priors.s0, scale=1 / priors.t0) + rows.sum()


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("m", [0, 1, 2])
def test_the_step_of_a_concentration_leaves_its_conditional_as_it_is(m):
    """Begun at the conditional, it ends there: two-sample Kolmogorov-Smirnov, error rate 1e-4."""
    priors, rng = PRIORS["both"], np.random.default_rng(6)
    observed = rng.random(SHAPE) >= 0.2
    state = naive.sample_prior(SHAPE, CORE_SHAPE, BUDGET, priors, rng)
    state.core *= 3
    Y = naive.sample_data(state, SHAPE, rng, priors)
    alloc = naive.thin(naive.draw_latent(Y, observed, state, priors, rng), observed, state, rng)
    grid = np.linspace(0.01, 8.0, 4000)
    weights = naive.normalised([log_density_of_concentration(e, m, alloc, observed, state, priors) for e in grid])
    before, after = rng.choice(grid, p=weights, size=1500), []
    for e in before:
        start = state.copy()
        start.concentrations[m] = e
        after.append(naive.draw_concentration(m, alloc, observed, start, priors, rng).concentrations[m])
    law = np.cumsum(weights)
    assert stats.kstest(after, lambda e: np.interp(e, grid, law)).pvalue > 1e-4
    assert np.corrcoef(before, after)[0, 1] < 0.95


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["by-row", "bernoulli", "both"])
def test_sweeps_with_redrawn_data_leave_the_prior_as_it_is(name):
    """Geweke's joint test with independent short chains; error rate 1e-3, corrected for the number of quantities."""
    priors, rng, ends = PRIORS[name], np.random.default_rng(31), []
    observed = np.random.default_rng(5).random(SHAPE) >= 0.2
    for _ in range(400):
        state = naive.sample_prior(SHAPE, CORE_SHAPE, BUDGET, priors, rng)
        for _ in range(3):
            Y = naive.sample_data(state, SHAPE, rng, priors)
            state = naive.sweep(Y, observed, state, priors, rng)
        ends.append(state)
    fresh = [naive.sample_prior(SHAPE, CORE_SHAPE, BUDGET, priors, rng) for _ in range(4000)]
    assert corrected(same_means(summaries(ends), summaries(fresh))) > 1e-3

"""Fold-in draws new rows from their conditional: against numerical integration of the joint density.

Given the rest of a state, rows are independent. So thousands of rows with the same counts are as many independent draws
from one conditional, whose marginals are integrated on a grid. Error rate: 1e-3 for the smallest of the p-values of
Kolmogorov and Smirnov's test, corrected for their number. Planted bugs are found at 1e-6.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from allocore.gibbs.factors import exposure
from allocore.gibbs.layout import Layout
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.joint import log_likelihood
from allocore.run import fold_in as fold_in_module
from allocore.run.fold_in import draw_new_rows
from allocore.tensor.missing import Missing
from support import new_rows_cases as cases
from support.evidence import corrected
from support.tiers import by_tier, parametrize_few

pytestmark = [pytest.mark.statistical, pytest.mark.jit]

ROWS, SWEEPS = 3000, 40
GRID = np.linspace(-9.0, 3.0, 160)
ODDS = np.linspace(-5.0, 5.0, 50)
COUNTS = np.array([2, 0, 5, 1])  # of the observed cells of a row


def folded(name, mode, seed=0, rows=ROWS):
    """The specification, the new rows as a state, the data, and what the sampler tells of the rows."""
    spec, rng = cases.make_spec(name, mode), np.random.default_rng(seed)
    state = cases.make_state(spec, rows, mode, rng)
    coords, _ = cases.cells_of(rows, mode)
    counts = np.tile(np.minimum(COUNTS, 1) if spec.likelihood == "bernoulli" else COUNTS, rows)
    tensor = cases.tensor_of(coords, counts, rows, mode)
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        state, info = draw_new_rows(Key.of(seed, 0), layout, spec, state, mode, SWEEPS)
    return spec, state, tensor, info


folded_once = cache(folded)  # for tests without planted bugs


def log_posterior(spec, state, mode):
    """The log density of (log phi_0, log phi_2, log odds of p) on a grid; without own p the last axis has length 1."""
    rate_2C = cases.per_factor(state, mode)[:, cases.cells_of(1, mode)[1]]
    counts = np.minimum(COUNTS, 1) if spec.likelihood == "bernoulli" else COUNTS
    own = spec.dispersion_by == mode
    odds = ODDS if own else np.zeros(1)
    one, two, p = np.meshgrid(GRID, GRID, odds, indexing="ij")
    density = sum(spec.e0 * log_phi - spec.f0 * np.exp(log_phi) for log_phi in (one, two))  # with the Jacobian
    if own:
        density = density + spec.g0 * -np.log1p(np.exp(-p)) + spec.h0 * -np.log1p(np.exp(p))
    coords, _ = cases.cells_of(1, mode)
    for place, count in enumerate(counts):
        if state.dispersion is not None and not own:
            at = 0 if spec.dispersion_by is None else coords[spec.dispersion_by, place]
            p = np.full(one.shape, state.dispersion.log_odds_D[at])
        rate = rate_2C[0, place] * np.exp(one) + rate_2C[1, place] * np.exp(two)
        density = density + spec.observation.log_density(np.full(rate.shape, count), rate, p)
    return density, odds


def evidence(found, mode):
    """The corrected p-value of the marginals of both factors, of their ratio, and of p if each row has its own."""
    spec, state, _, _ = found
    density, odds = log_posterior(spec, state, mode)
    weight = np.exp(density - density.max())
    log_phi = state.log_phi[mode]
    p_values = [
        fit_to(GRID, weight.sum(axis=(1, 2)), log_phi[:, 0]),
        fit_to(GRID, weight.sum(axis=(0, 2)), log_phi[:, 2]),
        fit_to(*ratio(weight.sum(axis=2)), log_phi[:, 0] - log_phi[:, 2]),
    ]
    if spec.dispersion_by == mode:
        p_values.append(fit_to(odds, weight.sum(axis=(0, 1)), state.dispersion.log_odds_D))
    return corrected(p_values)


def ratio(weight):
    """The grid and the weights of the difference of two variables on a grid."""
    places = np.subtract.outer(np.arange(len(GRID)), np.arange(len(GRID))) + len(GRID) - 1
    steps = np.arange(2 * len(GRID) - 1) - (len(GRID) - 1)
    return steps * (GRID[1] - GRID[0]), np.bincount(places.ravel(), weight.ravel())


def fit_to(grid, weight, draws):
    """p-value: do the draws have this density on a grid, by the trapezium rule?"""
    below = np.concatenate([[0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
    return stats.kstest(np.interp(draws, grid, below / below[-1]), "uniform").pvalue


@parametrize_few(
    ("name", "mode"),
    by_tier([("poisson", 2), ("bursts", 0), ("bursts-by-new-row", 1), ("bursts-by-other-row", 2), ("binary", 2)],
            cases.LIKELIHOODS, range(3)),
)  # fmt: skip
def test_new_rows_have_their_exact_conditional(name, mode):
    assert evidence(folded_once(name, mode), mode) > 1e-3


def test_a_single_row_has_the_same_conditional():
    """The sampler gives c to the rows of the shortest mode: here to the new one."""
    spec, state, tensor, _ = folded("bursts", 2, rows=1)
    weight = np.exp(log_posterior(spec, state, 2)[0].sum(axis=2))
    draws = np.empty((250, 2))
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        for number in range(len(draws)):
            draws[number] = draw_new_rows(Key.of(1, number), layout, spec, state, 2, 20)[0].log_phi[2][0, [0, 2]]
    p_values = [fit_to(GRID, weight.sum(axis=1 - each), draws[:, each]) for each in (0, 1)]
    assert corrected(p_values) > 1e-3


@pytest.mark.parametrize("name", cases.LIKELIHOODS)
def test_the_log_likelihood_of_new_rows_is_that_of_the_model(name):
    spec, state, tensor, info = folded_once(name, 2)
    assert info.log_likelihood == pytest.approx(log_likelihood(tensor, spec, state), rel=1e-7)
    assert (info.classes, info.factors) == (3, (2, 2, 2))


def test_the_other_variables_stay_as_they_are():
    spec, state, _, _ = folded("bursts-by-other-row", 1)
    before = cases.make_state(spec, ROWS, 1, np.random.default_rng(0))
    for mode in (0, 2):
        assert state.log_phi[mode].tobytes() == before.log_phi[mode].tobytes()
    assert state.dispersion.log_odds_D.tobytes() == before.dispersion.log_odds_D.tobytes()
    assert (state.log_phi[1][:, 1] == -np.inf).all(), "a factor that no class uses has no value"


# Planted bugs


def forgets_missing(layout, workspace, mode):
    return exposure(replace(layout, missing=SignedPatterns.of(Missing.none(layout.shape))), workspace, mode)


def forgets_c(layout, workspace, mode):
    sums_MQ = np.array([workspace.rows(m).sum(axis=0) for m in range(len(layout.shape))])
    return layout.missing.sums_by_row(workspace.expanded._replace(sums_MQ=sums_MQ), mode, layout.workers)


@parametrize_few(
    ("name", "bug"),
    [("poisson", forgets_missing), ("bursts", forgets_c), ("bursts-by-new-row", forgets_c),
     ("bursts-by-other-row", forgets_c)],
)  # fmt: skip
def test_a_wrong_exposure_is_found(monkeypatch, name, bug):
    monkeypatch.setattr(fold_in_module, "exposure", bug)
    assert evidence(folded(name, 2, seed=1), 2) < 1e-6


def test_a_prior_counted_twice_is_found(monkeypatch):
    right = fold_in_module.draw_factors

    def twice(key, layout, spec, *rest):
        return right(key, layout, replace(spec, e0=2 * spec.e0 - 1, f0=2 * spec.f0), *rest)

    monkeypatch.setattr(fold_in_module, "draw_factors", twice)
    assert evidence(folded("binary", 2), 2) < 1e-6

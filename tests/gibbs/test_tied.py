"""Two tied modes: one matrix of factors for two roles. Every conditional against the oracle's dense sums."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import allocore.gibbs.tied as tied_module
from allocore.gibbs.layout import Workspace
from allocore.gibbs.relocation import ByClass, CollapsedFit, location_scores, relocate
from allocore.gibbs.tied import draw_tied_concentration, draw_tied_factors
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model import joint
from allocore.model.known import KnownFactors
from support import cases, naive

pytestmark = pytest.mark.jit
LEVEL = 1e-4
KEY = Key.of(1, 0).at(2)
# Missing cells beside the diagonal: in one role alone, in both, in neither, and some that overlap the diagonal.
BOTH = KnownFactors(frozen=((0.1, 0.2, 0.6, 0.1),), seeds=((0, 2),), seed_weight=5.0)
KNOWN = {"known": (BOTH, BOTH, KnownFactors(seeds=((1,),)))}
WEIGHTS = {"exposures": ((0.2, 3.0, 1.0, 7.0), (0.2, 3.0, 1.0, 7.0), (5.0, 0.3, 1.0))}
EVERY_CASE = {
    "two-modes": {"modes": 2, "tied": (0, 1), "with_missing": False},
    "missing": {"modes": 3, "tied": (0, 1)},
    "four-modes": {"modes": 4, "tied": (1, 3)},
    "nb": {"modes": 3, "tied": (0, 1), "likelihood": "negative-binomial"},
    "nb-by-role": {"modes": 3, "tied": (0, 1), "likelihood": "negative-binomial", "dispersion_by": 1},
    "nb-by-other-mode": {"modes": 3, "tied": (0, 1), "likelihood": "negative-binomial", "dispersion_by": 2},
    "exposures": {"modes": 3, "tied": (0, 1), **WEIGHTS},
    "known": {"modes": 3, "tied": (0, 1), **KNOWN},
    "known-exposures-nb": {"modes": 3, "tied": (0, 1), "likelihood": "negative-binomial", **KNOWN, **WEIGHTS},
}


def make(name, budget=6, **more):
    settings = {"e0": 1.3, "a0": 1.7, "b0": 0.6, **EVERY_CASE[name], **more}
    modes = settings.pop("modes")
    core_shape = tuple(4 if m in settings["tied"] else 2 for m in range(modes))
    return cases.make(modes, budget, core_shape, seed=3, scale=3.0, **settings)


@pytest.fixture(params=EVERY_CASE)
def case(request):
    return make(request.param)


def drawn_factors(case):
    """Which factors of the tied modes are drawn, (K): those in use that are not frozen."""
    used_K = case.state.used(case.spec.tied)
    used_K[: naive.frozen_number(case.spec.tied[0], case.priors)] = False
    return used_K


def weights_of(case):
    """The known weights of the rows of the tied modes, (V, 1)."""
    first = case.spec.tied[0]
    return np.ones((case.Y.shape[first], 1)) if case.dense.weights is None else case.dense.weights[first][:, None]


def implied_rates(case, key=KEY):
    """The rates that the kernel divided by, row by row, per unit of the known weights, and the factors it drew."""
    workspace = Workspace.of(case.layout, case.state)
    new, _ = draw_tied_factors(key, case.layout, case.spec, case.state, case.allocation.y_RQ, workspace)
    first, _ = case.spec.tied
    drawn_K, units = drawn_factors(case), []
    draw_rows = tied_module._draw_rows
    tied_module._draw_rows = lambda start, log_unit_VU, *rest: units.append(log_unit_VU)
    try:
        draw_tied_factors(key, case.layout, case.spec, case.state, case.allocation.y_RQ, workspace)
    finally:
        tied_module._draw_rows = draw_rows
    unit_VK = np.full(new.log_phi[first].shape, np.nan)
    unit_VK[:, case.state.used(case.spec.tied)] = units[0]
    return np.exp(unit_VK - new.log_phi[first])[:, drawn_K] * weights_of(case), new


def conditional_by_rows(case, new):
    """Shapes and rates of the oracle: row v given the new rows before it and the old ones after it."""
    dense, first, drawn_K = case.dense.copy(), case.spec.tied[0], drawn_factors(case)
    shapes, rates = [], []
    for v in range(len(dense.factors[first])):
        shape_K, rate_K = naive.tied_conditional(v, case.alloc, case.observed, dense, case.priors)
        shapes.append(shape_K[drawn_K])
        rates.append(rate_K[drawn_K])
        for m in case.spec.tied:
            dense.factors[m][v, drawn_K] = new.factors(m)[v, drawn_K] / weights_of(case)[v]
    return np.array(shapes), np.array(rates)


def test_rows_have_the_rates_of_the_oracle_given_the_rows_before_them(case):
    rates, new = implied_rates(case)
    np.testing.assert_allclose(rates, conditional_by_rows(case, new)[1], rtol=1e-11)
    first, second = case.spec.tied
    np.testing.assert_array_equal(new.log_phi[first], new.log_phi[second])
    frozen = slice(0, naive.frozen_number(first, case.priors))
    np.testing.assert_array_equal(new.log_phi[first][:, frozen], case.state.log_phi[first][:, frozen])


def test_rows_are_gamma_with_the_shapes_of_the_oracle():
    case = make("missing")
    products = []
    for sweep in range(2000):
        rates, new = implied_rates(case, Key.of(4, 0).at(sweep))
        products.append(rates * new.factors(0)[:, case.state.used((0, 1))])
    shapes, _ = conditional_by_rows(case, new)
    for v, u in np.ndindex(shapes.shape):
        assert stats.kstest(np.array(products)[:, v, u], stats.gamma(shapes[v, u]).cdf).pvalue > LEVEL


def test_the_conditional_of_a_row_is_that_of_the_joint_density(case):
    """Between two values of one entry, the log joint changes by as much as the gamma density does."""
    first, _ = case.spec.tied
    v, k = 1, int(np.flatnonzero(drawn_factors(case))[0])
    shape_K, rate_K = naive.tied_conditional(v, case.alloc, case.observed, case.dense, case.priors)
    other = case.dense.copy()
    for m in case.spec.tied:
        other.factors[m][v, k] *= 2.5
    joints = [naive.log_joint(case.alloc, case.observed, each, case.priors) for each in (case.dense, other)]
    law = stats.gamma(shape_K[k], scale=1 / rate_K[k])
    densities = law.logpdf([each.factors[first][v, k] for each in (case.dense, other)])
    assert joints[1] - joints[0] == pytest.approx(densities[1] - densities[0], rel=1e-9)


def test_the_log_joint_of_the_package_counts_what_is_shared_once(case):
    """The oracle's joint of no counts, without the factors that no class uses, is the prior minus the latent rates."""
    tensor, dense = cases.tensor_of(case), case.dense
    free = 0.0
    for m in set(range(case.Y.ndim)) - {case.spec.tied[1]}:
        used_K, frozen = case.state.used(case.spec.sharing(m)), naive.frozen_number(m, case.priors)
        rest, drawn = np.flatnonzero(~used_K[frozen:]) + frozen, used_K[frozen:].sum()
        shape_DK = naive.factor_shapes(m, dense, case.priors)
        free += stats.gamma.logpdf(dense.factors[m][:, rest], shape_DK[:, rest], scale=1 / case.spec.f0).sum()
        if dense.weights is not None:
            free += drawn * np.log(dense.weights[m]).sum()  # the density of w phi
    nothing = np.zeros_like(case.alloc)
    rates = (naive.latent_scale(dense) * naive.class_rates(dense))[:, case.observed].sum()
    prior = naive.log_joint(nothing, case.observed, dense, case.priors) + rates - free
    ours = joint.log_prior(case.spec, case.state) - joint.log_prior_dispersion(case.spec, case.state)
    assert ours == pytest.approx(prior, rel=1e-10)
    likelihood = naive.log_likelihood(case.Y, case.observed, dense, case.priors)
    assert joint.log_likelihood(tensor, case.spec, case.state) == pytest.approx(likelihood, rel=1e-9)


@pytest.mark.parametrize("role", [0, 1])
def test_locations_have_the_scores_of_the_oracle_in_either_role(role):
    """Factors that other classes use in either role, or the class itself in the other one, are in use."""
    case = make("missing", budget=5)
    case.dense.locations[:, :2] = [[0, 1], [2, 2], [0, 3], [3, 0], [3, 1]]  # class 1 uses factor 2 in both roles
    state = cases.state_of(case.dense, case.spec.tied)
    alloc = naive.thin(case.Y, case.observed, case.dense, np.random.default_rng(0))
    view = cases.view_of(case.layout, state, cases.allocation_of(alloc), role)
    rows = ByClass.of(view, case.layout.workers)
    scores_QK, _, fits_QGF = location_scores(case.layout, case.spec, state, role, rows)
    alpha, places = case.spec.alpha0 / case.Y.shape[role], np.cumsum(state.used((0, 1))) - 1
    constant = case.spec.a0 * np.log(case.spec.b0) - gammaln(case.spec.a0)
    for q in range(case.spec.budget):
        weights, _ = naive.integrated_log_weights(q, role, alloc, case.observed, case.dense, case.priors)
        others_K = naive.other_users(q, role, case.dense, case.priors)
        assert set(weights) == {*np.flatnonzero(others_K), *([naive.NEW] if (others_K == 0).any() else [])}
        for k in np.flatnonzero(others_K):
            ours = np.log(others_K[k] + alpha) + scores_QK[q, places[k]] + constant
            assert ours == pytest.approx(weights[k], rel=1e-9, abs=1e-6)
        if (others_K == 0).any():
            ours = np.log((others_K == 0).sum() * alpha) + CollapsedFit(*fits_QGF[q, 0]).log_integral + constant
            assert ours == pytest.approx(weights[naive.NEW], abs=0.35)


@pytest.mark.parametrize("role", [0, 1])
def test_the_weights_of_locations_are_those_of_the_joint_density(role):
    """Of factors in use: also the one that the class uses itself in the other role, where the rate is a square."""
    case = make("missing", budget=3)
    q, alloc = 1, case.alloc
    weights = naive.conditioning_log_weights(q, role, alloc, case.observed, case.dense, case.priors)
    joints = []
    for k in range(4):
        dense = case.dense.copy()
        dense.locations[q, role] = k
        joints.append(naive.log_joint(alloc, case.observed, dense, case.priors))
    np.testing.assert_allclose(np.diff(joints), np.diff(weights), rtol=1e-8, atol=1e-9)


def test_a_factor_that_only_one_class_uses_in_both_roles_stays_when_the_class_leaves_it_in_one():
    case = make("missing", budget=4)
    case.dense.locations[:, :2] = [[1, 1], [0, 2], [2, 0], [0, 0]]
    state = cases.state_of(case.dense, case.spec.tied)
    left = 0
    for sweep in range(40):
        view = cases.view_of(case.layout, state, case.allocation, 0)
        view = view._replace(y_DQ=np.zeros_like(view.y_DQ))  # nothing holds the class where it is
        new, _ = relocate(Key.of(2, 0).at(sweep), case.layout, case.spec, state, view)
        left += new.subs_QM[0, 0] != 1
        assert np.isfinite(new.log_phi[1][:, 1]).all()
        used = new.used((0, 1))
        assert (np.isfinite(new.log_phi[0]).all(axis=0) == used).all()
        np.testing.assert_array_equal(new.log_phi[0], new.log_phi[1])
    assert left > 0


def test_the_concentration_given_the_factors_has_the_density_of_the_oracle():
    case = make("missing", e0="infer", s0=2.0, t0=1.5)
    density = naive.normalised(naive.tied_concentration_log_density(case.dense, case.priors))
    state, draws = case.state, []
    for sweep in range(6000):
        state, _ = draw_tied_concentration(Key.of(7, 0).at(sweep), case.spec, state)
        draws.append(np.log(state.concentrations_M[0]))
    assert state.concentrations_M[0] == state.concentrations_M[1]
    edges = naive.LOG_CORES + 0.02

    def law(x):
        return np.interp(x, edges, np.cumsum(density))

    assert stats.kstest(draws[::3], law).pvalue > LEVEL


def test_any_number_of_threads_draws_the_same_rows():
    case = make("missing", budget=12)
    workspace = Workspace.of(case.layout, case.state)
    rows = []
    for threads in (1, 3):
        with Workers(threads) as workers:
            layout = replace(case.layout, workers=workers)
            new, _ = draw_tied_factors(Key.of(1, 0), layout, case.spec, case.state, case.allocation.y_RQ, workspace)
            rows.append(new.log_phi[0])
    np.testing.assert_array_equal(*rows)


def test_the_rates_of_the_oracle_find_a_role_that_is_forgotten_in_the_exposure(case, monkeypatch):
    right = tied_module.roles_of

    def forgetful(*given):
        roles = right(*given)
        return roles._replace(scale_2V=roles.scale_2V * [[1.0], [0.0]])

    monkeypatch.setattr(tied_module, "roles_of", forgetful)
    rates, new = implied_rates(case)
    assert not np.allclose(rates, conditional_by_rows(case, new)[1], rtol=1e-3)


def test_the_rates_of_the_oracle_find_a_diagonal_that_is_not_subtracted(case):
    """The oracle is told that the diagonal is observed; the kernel takes every row out before it is drawn."""
    rates, new = implied_rates(case)
    case.observed = np.ones_like(case.observed)
    assert not np.allclose(rates, conditional_by_rows(case, new)[1], rtol=1e-3)

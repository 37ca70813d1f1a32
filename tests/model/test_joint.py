"""The log joint, its parts and the rates, against dense computations with scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from allocore.model import joint
from allocore.model.spec import Spec
from allocore.model.state import State
from support import cases, naive

PRIORS = {"a0": 1.7, "b0": 0.6, "e0": 0.8, "f0": 1.3, "alpha0": 2.5}


@pytest.fixture(params=[False, True], ids=["complete", "missing"])
def with_missing(request):
    return request.param


@pytest.fixture(params=[2, 3, 4, 5, 6])
def case(request, with_missing):
    return cases.make(request.param, budget=4, with_missing=with_missing, seed=request.param, scale=5.0, **PRIORS)


def dense_log_likelihood(case):
    return stats.poisson.logpmf(case.Y[case.observed], naive.rates(case.dense)[case.observed]).sum()


def dense_log_prior(case):
    used = [phi_DK[:, np.unique(case.dense.locations[:, m])] for m, phi_DK in enumerate(case.dense.factors)]
    total = stats.gamma.logpdf(case.dense.core, case.spec.a0, scale=1 / case.spec.b0).sum()
    return total + sum(stats.gamma.logpdf(phi_DU, case.spec.e0, scale=1 / case.spec.f0).sum() for phi_DU in used)


def dense_log_prior_locations(case):
    return naive.log_prob_locations(case.dense.locations, case.Y.shape, case.spec.core_shape, case.priors)


def test_the_cases_have_missing_cells_just_where_they_should(case, with_missing):
    assert (not case.observed.all()) == with_missing
    assert case.Y.sum() > 0


def test_the_log_likelihood_is_that_of_independent_poisson_counts_in_the_observed_cells(case):
    expected = dense_log_likelihood(case)
    assert joint.log_likelihood(cases.tensor_of(case), case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_prior_of_the_core_values_is_gamma(case):
    expected = stats.gamma.logpdf(case.dense.core, case.spec.a0, scale=1 / case.spec.b0).sum()
    assert joint.log_prior_core(case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_prior_of_the_factors_is_gamma_over_the_factors_in_use_alone(case):
    expected = dense_log_prior(case) - joint.log_prior_core(case.spec, case.state)
    assert joint.log_prior_factors(case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_prior_of_the_locations_is_dirichlet_multinomial(case):
    expected = dense_log_prior_locations(case)
    assert joint.log_prior_locations(case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_prior_probabilities_of_all_locations_add_up_to_one():
    spec = Spec(3, (2, 3), alpha0=0.9)
    total = 0.0
    for places in np.ndindex(*(spec.core_shape * spec.budget)):
        subs_QM = np.array(places).reshape(spec.budget, 2)
        state = State(np.zeros(3), subs_QM, (np.zeros((4, 2)), np.zeros((5, 3))))
        total += np.exp(joint.log_prior_locations(spec, state))
    assert total == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("model", ["AlloCore", "CP"])
def test_the_log_joint_is_likelihood_plus_priors_and_fixed_locations_have_none(case, model):
    spec = Spec(case.spec.budget, case.spec.core_shape, **PRIORS, model=model)
    expected = dense_log_likelihood(case) + dense_log_prior(case)
    if model == "AlloCore":
        expected += dense_log_prior_locations(case)
    assert joint.log_joint(cases.tensor_of(case), spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_log_joint_with_an_allocation_differs_by_the_multinomial_of_that_allocation(case):
    """p(allocation, state) = p(counts, state) p(allocation | counts, state), unused factors aside."""
    rate_Qd = naive.class_rates(case.dense)
    p_Qd = rate_Qd / rate_Qd.sum(axis=0)
    cells = np.argwhere(case.Y > 0)
    split = sum(stats.multinomial.logpmf(case.alloc[:, *cell], case.Y[tuple(cell)], p_Qd[:, *cell]) for cell in cells)
    unused = [np.setdiff1d(range(phi.shape[1]), case.dense.locations[:, m]) for m, phi in enumerate(case.dense.factors)]
    free = sum(
        stats.gamma.logpdf(phi[:, k], case.spec.e0, scale=1 / case.spec.f0).sum()
        for phi, k in zip(case.dense.factors, unused, strict=True)
    )
    expected = naive.log_joint(case.alloc, case.observed, case.dense, case.priors) - split - free
    assert joint.log_joint(cases.tensor_of(case), case.spec, case.state) == pytest.approx(expected, rel=1e-9)


def test_class_totals_are_the_rates_of_each_class_over_the_observed_cells(case):
    expected = naive.class_rates(case.dense)[:, case.observed].sum(axis=1)
    np.testing.assert_allclose(joint.class_totals(case.state, case.missing), expected, rtol=1e-10)


@pytest.mark.parametrize("chunk", [1, 11, 10**6])
def test_rates_of_cells_in_any_order_and_any_chunks_are_the_dense_ones(case, chunk, monkeypatch):
    monkeypatch.setattr(joint, "_CHUNK_NUMBERS", chunk)
    coords = np.indices(case.Y.shape).reshape(case.Y.ndim, -1)
    coords = coords[:, np.random.default_rng(0).integers(0, coords.shape[1], 50)]
    np.testing.assert_allclose(
        joint.rates_at(case.state, coords), naive.rates(case.dense)[tuple(coords)], rtol=1e-12, atol=0
    )


def test_log_rates_hold_where_the_rates_underflow(case):
    coords = np.array(np.nonzero(case.Y))
    tiny = State(case.state.log_core_Q, case.state.subs_QM, tuple(log_phi - 400.0 for log_phi in case.state.log_phi))
    assert (joint.rates_at(tiny, coords) == 0).all()
    expected = np.log(naive.rates(case.dense)[tuple(coords)]) - 400.0 * case.Y.ndim
    np.testing.assert_allclose(joint.log_rates_at(tiny, coords), expected, rtol=1e-12)


def test_no_cells_have_no_rates(case):
    assert joint.rates_at(case.state, np.zeros((case.Y.ndim, 0), dtype=int)).shape == (0,)

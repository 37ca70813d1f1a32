"""Which classes are included: the conditional against the joint density, and draws against the conditional."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import allocore as ac
from allocore.gibbs.core_values import draw_inclusion
from allocore.gibbs.factors import exposure
from allocore.gibbs.layout import Workspace
from allocore.gibbs.sweep import begin, sweep
from allocore.gibbs.thinning import thin
from allocore.kernels.random import Key
from allocore.model.joint import log_likelihood, log_prior_core
from allocore.model.spec import Spec
from allocore.model.state import State
from support import cases

PRIOR = {"a0": 0.7, "b0": 1.5, "infer_budget": True, "c0": 2.0, "d0": 3.0}


def odds(spec, others, exposure):
    """Of a class that holds no counts, as the formula says."""
    prior = (others + spec.c0) / (spec.budget - 1 - others + spec.d0)
    return prior * (spec.b0 / (spec.b0 + exposure)) ** spec.a0


def with_value(state, q, log_value):
    log_core_Q = state.log_core_Q.copy()
    log_core_Q[q] = log_value
    return replace(state, log_core_Q=log_core_Q)


def exposure_of(case, state):
    workspace = Workspace.of(case.layout, state)
    return (exposure(case.layout, workspace, 0) * workspace.rows(0)).sum(axis=0)


def expected_counts(case, state, q):
    """Of class q per unit of its core value: the products of its factors, added up cell by cell."""
    product = np.array(1.0)
    for m in range(case.Y.ndim):
        product = np.multiply.outer(product, state.factors(m)[:, state.subs_QM[q, m]])
    return product[case.observed].sum()


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("on", [(0, 1, 2, 3, 4), (0, 2), (1,)])
def test_the_odds_of_an_empty_class_are_those_of_the_joint_density(on, with_missing):
    """A class without counts takes part in the likelihood by its expected counts alone; its value is integrated out."""
    case = cases.make(3, budget=5, with_missing=with_missing, seed=3)
    spec = replace(case.spec, **PRIOR)
    state = replace(case.state, log_core_Q=np.where(np.isin(np.arange(5), on), case.state.log_core_Q, -np.inf))
    for q in range(5):
        off, exposure = log_prior_core(spec, with_value(state, q, -np.inf)), expected_counts(case, state, q)

        def density(value, q=q, off=off, exposure=exposure):
            return np.exp(log_prior_core(spec, with_value(state, q, np.log(value))) - off - value * exposure)

        integral = integrate.quad(density, 0.0, np.inf, epsabs=0, epsrel=1e-8)[0]
        others = len(set(on) - {q})
        assert odds(spec, others, exposure_of(case, state)[q]) == pytest.approx(integral, rel=1e-6)


@pytest.mark.statistical
def test_classes_are_included_as_the_conditional_says():
    """One class at a time can be judged: here the only empty one. Error rate 1e-6."""
    spec = Spec(3, (3, 3), **PRIOR)
    state = State(np.zeros(3), np.zeros((3, 2), dtype=int), (np.zeros((2, 3)), np.zeros((2, 3))))
    y_Q, exposure_Q = np.array([4, 0, 1]), np.array([1.0, 0.8, 2.0])
    key = Key.of(1, 0)
    draws = 4000
    on = [draw_inclusion(key.at(n), spec, state, y_Q, exposure_Q) for n in range(draws)]
    assert all(each[0] and each[2] for each in on), "classes with counts are on"
    expected = odds(spec, 2, 0.8)
    found = stats.binomtest(int(sum(each[1] for each in on)), draws, expected / (1 + expected))
    assert found.pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.statistical
def test_without_data_the_number_of_classes_has_its_prior():
    """Switching again and again with nothing to exposure leaves the Beta-binomial prior. Error rate 1e-4."""
    spec, key = Spec(4, (4, 4), **PRIOR), Key.of(2, 0)
    on_Q, numbers = np.ones(4, dtype=bool), np.zeros(5)
    nothing, zeros = np.zeros(4), np.zeros(4, dtype=int)
    for n in range(40_000):
        state = State(np.where(on_Q, 0.0, -np.inf), np.zeros((4, 2), dtype=int), ())
        on_Q = draw_inclusion(key.at(n), spec, state, zeros, nothing)
        numbers[on_Q.sum()] += n % 4 == 0
    expected = stats.betabinom(4, 2.0, 3.0).pmf(np.arange(5)) * numbers.sum()
    # Every fourth sweep is all but independent of the last: with four classes, three sweeps forget where they began.
    assert stats.chisquare(numbers, expected).pvalue > 1e-4


def test_classes_that_are_off_get_no_counts_and_the_others_all_of_them():
    case = cases.make(3, budget=5, seed=4, scale=3.0)
    state = with_value(with_value(case.state, 1, -np.inf), 4, -np.inf)
    allocation, _ = thin(Key.of(1, 0), case.layout, case.spec, state, Workspace.of(case.layout, state))
    assert allocation.y_RQ.shape == case.allocation.y_RQ.shape
    assert not allocation.y_RQ[:, [1, 4]].any()
    assert allocation.y_RQ.sum() == case.allocation.y_RQ.sum()


def test_thinning_without_classes_that_are_off_is_thinning_of_the_others_alone():
    case = cases.make(4, budget=5, seed=5, scale=3.0)
    state = with_value(case.state, 2, -np.inf)
    kept = [0, 1, 3, 4]
    alone = State(state.log_core_Q[kept], state.subs_QM[kept], state.log_phi)
    whole, _ = thin(Key.of(1, 0), case.layout, case.spec, state, Workspace.of(case.layout, state))
    part, _ = thin(Key.of(1, 0), case.layout, case.spec, alone, Workspace.of(case.layout, alone))
    np.testing.assert_array_equal(whole.y_RQ[:, kept], part.y_RQ)
    assert whole.log_fit == part.log_fit


def test_a_sweep_leaves_out_what_is_empty_and_its_log_likelihood_is_that_of_the_state():
    case = cases.make(3, budget=8, seed=6, with_missing=False)
    spec, tensor = replace(case.spec, **PRIOR), ac.as_tensor(case.Y)
    state, key = case.state, Key.of(3, 0)
    now = begin(key, case.layout, case.spec, state)
    seen = set()
    for n in range(1, 30):
        now, info = sweep(key.at(n), case.layout, spec, now)
        state, allocation = now
        seen.add(int(state.included().sum()))
        assert (allocation.y_RQ.sum(axis=0) > 0)[~state.included()].sum() == 0
        # Thinning adds up products of 32 bits.
        assert info.log_likelihood == pytest.approx(log_likelihood(tensor, spec, state), rel=1e-6)
    assert len(seen) > 1

"""The parameters of every conditional, computed by the kernels, against the oracle's sums over dense arrays.

These are not statistical: they hold to rounding, for any number of modes, with and without missing cells.
"""

import numpy as np
import pytest
from scipy.special import gammaln

from allocore.gibbs.core_values import core_conditional
from allocore.gibbs.factors import conditional_of_row, exposure
from allocore.gibbs.layout import Workspace
from allocore.gibbs.relocation import ByClass, CollapsedFit, location_scores
from support import cases, naive
from support.tiers import by_tier

EVERY_CASE = [(modes, with_missing) for modes in (2, 3, 4, 5, 6) for with_missing in (False, True)]


@pytest.fixture(params=EVERY_CASE, ids=lambda p: f"{p[0]}-modes-{'missing' if p[1] else 'complete'}")
def case(request):
    modes, with_missing = request.param
    return cases.make(modes, budget=5, with_missing=with_missing, seed=modes, scale=3.0)


def rows_of(case, mode):
    return case.allocation.y_RQ[case.layout.rows(mode)]


def test_the_reach_is_the_exposure_of_the_oracle_per_unit_of_core_value(case):
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        ours = exposure(case.layout, workspace, mode) * case.dense.core
        dense = [naive.class_exposure(q, mode, case.observed, case.dense) for q in range(case.spec.budget)]
        np.testing.assert_allclose(ours, np.transpose(dense), rtol=1e-12, atol=1e-13)


def test_a_row_whose_cells_are_all_missing_has_no_reach():
    case = cases.make(3, seed=1)
    assert np.all(exposure(case.layout, Workspace.of(case.layout, case.state), 0)[1] == 0.0)


def test_core_values_have_the_conditional_of_the_oracle(case):
    workspace = Workspace.of(case.layout, case.state)
    expected = naive.core_conditional(case.alloc, case.observed, case.dense, case.priors)
    for mode in range(case.Y.ndim):
        phi_DQ = workspace.rows(mode)
        exposure_Q = (exposure(case.layout, workspace, mode) * phi_DQ).sum(axis=0)
        ours = core_conditional(case.spec, case.state, rows_of(case, mode).sum(axis=0), exposure_Q)
        np.testing.assert_allclose(ours, expected, rtol=1e-12)


def test_factors_have_the_conditional_of_the_oracle(case):
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        exposure_DQ = exposure(case.layout, workspace, mode)
        subs_Q = np.ascontiguousarray(case.state.subs_QM[:, mode])
        shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        for d in range(case.Y.shape[mode]):
            shape_K, rate_K = np.empty(shape_DK.shape[1]), np.empty(shape_DK.shape[1])
            conditional_of_row(
                case.spec.e0, case.spec.f0, rows_of(case, mode)[d], exposure_DQ[d], case.dense.core, subs_Q, shape_K,
                rate_K,
            )  # fmt: skip
            np.testing.assert_allclose(shape_K, shape_DK[d], rtol=1e-12)
            np.testing.assert_allclose(rate_K, rate_DK[d], rtol=1e-12)


@pytest.mark.parametrize(("modes", "with_missing"), by_tier([(3, True)], [2, 3], [False, True]))
def test_locations_have_the_scores_of_the_oracle(modes, with_missing):
    """The oracle integrates the core value out numerically. A factor of its own is in test_collapsed_factor.py."""
    case = cases.make(modes, budget=4, with_missing=with_missing, seed=modes, scale=3.0)
    for mode in range(modes):
        rows = ByClass.of(cases.view_of(case.layout, case.state, case.allocation, mode), case.layout.workers)
        scores_QK, _, fits_QGF = location_scores(case.layout, case.spec, case.state, mode, rows)
        alpha = case.spec.alpha0 / case.Y.shape[mode]
        for q in range(case.spec.budget):
            weights, _ = naive.integrated_log_weights(q, mode, case.alloc, case.observed, case.dense, case.priors)
            others_K = naive.other_users(q, mode, case.dense)
            places = np.cumsum(case.state.used(mode)) - 1
            constant = case.spec.a0 * np.log(case.spec.b0) - gammaln(case.spec.a0)
            for k in np.flatnonzero(others_K):
                ours = np.log(others_K[k] + alpha) + scores_QK[q, places[k]] + constant
                assert ours == pytest.approx(weights[k], rel=1e-9, abs=1e-6)
            if (others_K == 0).any():
                ours = np.log((others_K == 0).sum() * alpha) + CollapsedFit(*fits_QGF[q, 0]).log_integral + constant
                assert ours == pytest.approx(weights[naive.NEW], abs=0.35)


def test_what_a_class_reaches_at_each_factor_is_the_sum_over_its_rows(case):
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        exposure_DQ = exposure(case.layout, workspace, mode)
        rows = ByClass.of(cases.view_of(case.layout, case.state, case.allocation, mode, workspace), case.layout.workers)
        _, exposure_QK, _ = location_scores(case.layout, case.spec, case.state, mode, rows)
        phi_DU = case.dense.factors[mode][:, case.state.used(mode)]
        np.testing.assert_allclose(exposure_QK[:, : phi_DU.shape[1]], exposure_DQ.T @ phi_DU, rtol=1e-12)


def test_a_factor_that_is_zero_in_rows_without_counts_has_a_score():
    """Such rows are summed with a weight of zero: zero times infinity must not enter the sum."""
    case = cases.make(2, budget=5, with_missing=False, seed=3, scale=3.0)
    mode, y_DQ = 0, np.array(case.allocation.y_RQ[case.layout.rows(0)])
    y_DQ[2] = 0
    view = cases.view_of(case.layout, case.state, case.allocation, mode)._replace(y_DQ=y_DQ)
    log_phi_DK = case.state.log_phi[mode].copy()
    log_phi_DK[2] = -np.inf
    state = case.state.with_factors(mode, log_phi_DK)
    used = int(state.used(mode).sum())
    scores = location_scores(case.layout, case.spec, state, mode, ByClass.of(view, case.layout.workers))
    assert np.isfinite(scores.scores_QK[:, :used]).all()
    # The row of zeros adds nothing to the exposure, nor to the score.
    exposure_QU = view.exposure_DQ.T @ np.exp(log_phi_DK[:, state.used(mode)])
    np.testing.assert_allclose(scores.exposure_QK[:, :used], exposure_QU, rtol=1e-12)

"""Steps of the sampler with exposures (known weights of rows) against the oracle, which has them in the rates of cells.

The package has the factors times the weights w, and the oracle those per unit. So the package's factors have the
oracle's conditional with the rate divided by w. These tests hold to rounding, for all likelihoods and missing patterns.
"""

import numpy as np
import pytest
from scipy import stats

from allocore.gibbs.concentrations import _sum_rows
from allocore.gibbs.core_values import core_conditional
from allocore.gibbs.dispersion import counts_and_rates
from allocore.gibbs.factors import ClassesOfMode, Priors, conditional_of_row
from allocore.gibbs.layout import Workspace
from allocore.gibbs.relocation import ByClass, CollapsedFit, fit_collapsed, location_scores
from allocore.gibbs.sweep import SamplerState, sweep
from allocore.gibbs.thinning import thin
from allocore.kernels.random import Key
from allocore.model import joint
from support import cases, naive

WEIGHTS = {2: ((0.2, 3.0, 1.0, 7.0), (2.0, 0.5, 1.0)), 3: ((0.2, 3.0, 1.0, 7.0), (), (5.0, 0.3))}
BURSTS = {"likelihood": "negative-binomial", "g0": 2.0, "h0": 3.0}
KINDS = {
    "poisson": {},
    "one-p": BURSTS,
    "p-by-weighted-row": {**BURSTS, "dispersion_by": 0},
    "p-by-other-row": {**BURSTS, "dispersion_by": 1},
    "bernoulli": {"likelihood": "bernoulli"},
}
EVERY_CASE = [(modes, kind, missing) for modes in (2, 3) for kind in KINDS for missing in (False, True)]


def case_id(p):
    return f"{p[0]}-modes-{p[1]}-{'missing' if p[2] else 'complete'}"


def only(*kinds):
    """Run a test for some of the kinds."""
    return pytest.mark.parametrize("case", [p for p in EVERY_CASE if p[1] in kinds], ids=case_id, indirect=True)


@pytest.fixture(params=EVERY_CASE, ids=case_id)
def case(request):
    modes, kind, missing = request.param
    given = {"scale": 4.0, "e0": "infer", "exposures": WEIGHTS[modes], **KINDS[kind]}
    return cases.make(modes, budget=5, with_missing=missing, seed=modes + 4, **given)


def views(case):
    """Every mode with its view, the weights of its rows, and the expanded factors."""
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        view = cases.view_of(case.layout, case.state, case.allocation, mode, workspace)
        yield mode, view, case.dense.weights[mode], workspace


def test_the_rates_of_cells_have_the_weights_in_them(case):
    cells = np.indices(case.Y.shape).reshape(case.Y.ndim, -1)
    np.testing.assert_allclose(joint.rates_at(case.state, cells), naive.rates(case.dense).ravel(), rtol=1e-12)


def test_the_log_likelihood_is_that_of_the_oracle(case):
    expected = naive.log_likelihood(case.Y, case.observed, case.dense, case.priors)
    assert joint.log_likelihood(cases.tensor_of(case), case.spec, case.state) == pytest.approx(
        expected, rel=1e-10, abs=1e-9
    )


# The series for small rates is not used for large ones, where it overflows; NumPy tells if kernels are interpreted.
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_a_sweep_reports_the_log_likelihood_of_the_state_that_it_returns(case):
    now = SamplerState(case.state, case.allocation)
    after, info = sweep(Key.of(1, 0).at(1), case.layout, case.spec, now)
    expected = joint.log_likelihood(cases.tensor_of(case), case.spec, after.state)
    assert info.log_likelihood == pytest.approx(expected, abs=1e-5 * max(1.0, case.Y.sum()))


@only("poisson")  # a test above has the log-likelihood of a sweep, for all kinds
def test_the_log_fit_of_thinning_has_the_weights_in_it(case):
    allocation, _ = thin(Key.of(0, 0), case.layout, case.spec, case.state, Workspace.of(case.layout, case.state))
    expected = np.sum(case.Y[case.Y > 0] * np.log(naive.rates(case.dense)[case.Y > 0]))
    assert allocation.log_fit == pytest.approx(expected, abs=1e-6 * case.Y.sum())


def test_the_prior_of_the_factors_is_that_of_the_oracle_per_unit_of_the_weights(case):
    expected = 0.0
    for mode, phi_DK in enumerate(case.dense.factors):
        e0, used_K = case.dense.concentrations[mode], case.state.used(mode)
        expected += stats.gamma.logpdf(phi_DK[:, used_K], e0, scale=1 / case.spec.f0).sum()
        expected -= used_K.sum() * np.log(case.dense.weights[mode]).sum()  # the density of w phi
    assert joint.log_prior_factors(case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_core_values_have_the_conditional_of_the_oracle(case):
    expected = naive.core_conditional(case.alloc, case.observed, case.dense, case.priors)
    for mode, view, _, workspace in views(case):
        ours = core_conditional(case.spec, case.state, view.y_DQ.sum(axis=0), view.exposure_Q(workspace.rows(mode)))
        np.testing.assert_allclose(ours, expected, rtol=1e-11)


def test_factors_have_the_conditional_of_the_oracle_times_the_weights(case):
    for mode, view, weights_D, _ in views(case):
        shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        priors, subs_Q = Priors.of(case.spec, case.state, mode), np.ascontiguousarray(case.state.subs_QM[:, mode])
        for d in range(case.Y.shape[mode]):
            shape_K, rate_K = np.empty((2, shape_DK.shape[1]))
            conditional_of_row(
                priors.e0, priors.f0_D[d], view.y_DQ[d], view.exposure_DQ[d], case.dense.core, subs_Q, shape_K, rate_K
            )
            np.testing.assert_allclose(shape_K, shape_DK[d], rtol=1e-11)
            np.testing.assert_allclose(rate_K * weights_D[d], rate_DK[d], rtol=1e-11)


def test_a_concentration_sees_the_weights_of_the_rows(case):
    for mode, (_, y_DQ, exposure_DQ), _, _ in views(case):
        used_U, place_Q = np.unique(case.state.subs_QM[:, mode], return_inverse=True)
        y_DU, log_D = np.empty((len(y_DQ), len(used_U)), dtype=np.int64), np.empty(len(y_DQ))
        classes, f0_D = (
            ClassesOfMode(case.state.core_values(), place_Q, used_U),
            case.spec.factor_rates(mode, len(y_DQ)),
        )
        _sum_rows(0, len(y_DQ), f0_D, np.ones(y_DU.shape), y_DQ, exposure_DQ, classes, y_DU, log_D)
        _, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        np.testing.assert_allclose(log_D, np.log(rate_DK / case.spec.f0).sum(axis=1), rtol=1e-11, atol=1e-14)


@only("one-p", "p-by-weighted-row", "p-by-other-row")
def test_the_dispersion_sees_the_sums_of_weighted_rates(case):
    expected = naive.counts_and_rates(case.Y, case.observed, case.dense, case.priors)
    for mode, view, _, workspace in views(case):
        if case.spec.dispersion_by in (None, mode):
            exposure_Q = view.exposure_Q(workspace.rows(mode))
            by = case.spec.dispersion_by
            ours = counts_and_rates(case.layout, by, case.state, exposure_Q, workspace)
            np.testing.assert_allclose(ours, [each.ravel() for each in expected], rtol=1e-11)


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("kind", ["poisson", "p-by-weighted-row"])
def test_locations_have_the_scores_of_the_oracle_up_to_a_constant_of_the_class(kind, with_missing):
    """The counts of a class contribute w^y wherever it is. The oracle integrates the core value out numerically."""
    case = cases.make(3, budget=4, with_missing=with_missing, seed=3, scale=0.3, exposures=WEIGHTS[3], **KINDS[kind])
    for mode, view, weights_D, _ in views(case):
        rows = ByClass.of(view, case.layout.workers)
        scores_QK, _, fits_QGF = location_scores(case.layout, case.spec, case.state, mode, rows)
        alpha, places = case.spec.alpha0 / case.Y.shape[mode], np.cumsum(case.state.used(mode)) - 1
        for q in range(case.spec.budget):
            weights, _ = naive.integrated_log_weights(q, mode, case.alloc, case.observed, case.dense, case.priors)
            prior = stats.gamma.logpdf(1.0, case.spec.a0, scale=1 / case.spec.b0) + case.spec.b0
            constant = view.y_DQ[:, q] @ np.log(weights_D) - prior
            others_K = naive.other_users(q, mode, case.dense)
            for k in np.flatnonzero(others_K):
                ours = np.log(others_K[k] + alpha) + scores_QK[q, places[k]]
                assert ours - constant == pytest.approx(weights[k], abs=1e-4)  # by quadrature
            if (others_K == 0).any():
                ours = np.log((others_K == 0).sum() * alpha) + CollapsedFit(*fits_QGF[q, 0]).log_integral
                assert ours - constant == pytest.approx(weights[naive.NEW], abs=0.35)


def test_weights_that_are_all_alike_only_move_the_scale_of_the_core():
    """All weights of one mode c: the factors have c in them, and the collapsed score is that of f0 / c."""
    y_D, exposure_D = np.array([4.0, 0.0, 9.0, 1.0]), np.array([0.5, 2.0, 1.0, 3.0])
    weighted = cases.priors_of_rows(4, (2.5,) * 4, f0=10.0)
    plain = cases.priors_of_rows(4, f0=4.0)
    np.testing.assert_allclose(fit_collapsed(y_D, exposure_D, weighted), fit_collapsed(y_D, exposure_D, plain))

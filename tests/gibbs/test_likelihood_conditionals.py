"""Exposures and conditionals with c, the latent scale of the negative binomial, against the oracle's dense sums.

These hold to rounding: one p or one for each row of any mode, with overlapping missing patterns, and after moves.
"""

import numpy as np
import pytest

from allocore.gibbs import split_merge
from allocore.gibbs.concentrations import _sum_rows
from allocore.gibbs.core_values import core_conditional
from allocore.gibbs.dispersion import counts_and_rates, draw_dispersion
from allocore.gibbs.factors import ClassesOfMode, Priors, conditional_of_row, exposure
from allocore.gibbs.layout import Workspace
from allocore.gibbs.relocation import ByClass, location_scores
from allocore.gibbs.split_merge import Draft
from allocore.gibbs.sweep import SamplerState, sweep
from allocore.kernels.random import Key, Step, scratch, seek
from support import cases, naive
from support.tiers import parametrize_few

BURSTS = {"likelihood": "negative-binomial", "g0": 2.0, "h0": 3.0}
EVERY_CASE = [
    (modes, by, with_missing)
    for modes in (2, 3, 4, 5)
    for by in (None, *range(modes))
    for with_missing in (False, True)
]


def label(param):
    modes, by, with_missing = param
    return f"{modes}-modes-{'one-p' if by is None else f'p-by-{by}'}-{'missing' if with_missing else 'complete'}"


@pytest.fixture(params=EVERY_CASE, ids=label)
def case(request):
    modes, by, with_missing = request.param
    return cases.make(
        modes, budget=5, with_missing=with_missing, seed=modes, scale=2.0, dispersion_by=by, e0="infer", **BURSTS
    )


def check_exposures(layout, state, workspace, observed):
    dense = cases.naive_of(state)
    for mode in range(observed.ndim):
        ours = exposure(layout, workspace, mode) * dense.core
        expected = [naive.class_exposure(q, mode, observed, dense) for q in range(len(dense.core))]
        np.testing.assert_allclose(ours, np.transpose(expected), rtol=1e-11, atol=1e-13)


def test_the_exposure_of_every_mode_has_c_in_every_cell(case):
    check_exposures(case.layout, case.state, Workspace.of(case.layout, case.state), case.observed)


def test_the_exposure_follows_the_state_through_a_sweep_and_its_new_dispersion(case):
    workspace, now = Workspace.of(case.layout, case.state), SamplerState(case.state, case.allocation)
    for number in range(1, 4):
        now, _ = sweep(Key.of(1, 0).at(number), case.layout, case.spec, now, workspace)
        check_exposures(case.layout, now.state, workspace, case.observed)


def test_core_values_and_factors_have_the_conditionals_of_the_oracle(case):
    workspace = Workspace.of(case.layout, case.state)
    expected = naive.core_conditional(case.alloc, case.observed, case.dense, case.priors)
    for mode in range(case.Y.ndim):
        view = cases.view_of(case.layout, case.state, case.allocation, mode, workspace)
        ours = core_conditional(case.spec, case.state, view.y_DQ.sum(axis=0), view.exposure_Q(workspace.rows(mode)))
        np.testing.assert_allclose(ours, expected, rtol=1e-11)
        shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        subs_Q = np.ascontiguousarray(case.state.subs_QM[:, mode])
        for d in range(case.Y.shape[mode]):
            shape_K, rate_K = np.empty(shape_DK.shape[1]), np.empty(shape_DK.shape[1])
            priors = Priors.of(case.spec, case.state, mode)
            conditional_of_row(
                priors.e0, priors.f0, view.y_DQ[d], view.exposure_DQ[d], case.dense.core, subs_Q, shape_K, rate_K
            )
            np.testing.assert_allclose(shape_K, shape_DK[d], rtol=1e-11)
            np.testing.assert_allclose(rate_K, rate_DK[d], rtol=1e-11)


def test_a_concentration_sees_the_counts_and_exposures_of_the_factors_in_use(case):
    for mode in range(case.Y.ndim):
        _, y_DQ, exposure_DQ = cases.view_of(case.layout, case.state, case.allocation, mode)
        used_U, place_Q = np.unique(case.state.subs_QM[:, mode], return_inverse=True)
        y_DU, log_D = np.empty((len(y_DQ), len(used_U)), dtype=np.int64), np.empty(len(y_DQ))
        classes = ClassesOfMode(case.state.core_values(), place_Q, used_U)
        f0_D, u_DU = case.spec.factor_rates(mode, len(y_DQ)), np.ones(y_DU.shape)
        _sum_rows(0, len(y_DQ), f0_D, u_DU, y_DQ, exposure_DQ, classes, y_DU, log_D)
        shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        counts_DK = np.rint(shape_DK - case.dense.concentrations[mode]).astype(int)
        np.testing.assert_array_equal(y_DU, counts_DK[:, used_U])
        np.testing.assert_allclose(log_D, np.log(rate_DK / case.spec.f0).sum(axis=1), rtol=1e-11, atol=1e-14)


def test_the_dispersion_is_drawn_from_the_sums_of_the_oracle_and_reports_its_part_of_the_likelihood(case):
    workspace = Workspace.of(case.layout, case.state)
    view = cases.view_of(case.layout, case.state, case.allocation, 0, workspace)
    exposure_Q = view.exposure_Q(workspace.rows(0))
    given = case.state, exposure_Q, workspace
    counts_D, rates_D = counts_and_rates(case.layout, case.spec.dispersion_by, *given)
    counts, rates = naive.counts_and_rates(case.Y, case.observed, case.dense, case.priors)
    np.testing.assert_allclose(counts_D, counts.ravel(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rates_D, rates.ravel(), rtol=1e-11, atol=1e-13)
    latent = float(case.alloc.sum())
    new, info = draw_dispersion(Key.of(1, 0), case.layout, case.spec, *given, latent)
    dense = cases.naive_of(new)
    p = np.broadcast_to(dense.p, case.Y.shape)
    part = case.Y * np.log(p) + naive.rates(dense) * np.log1p(-p)
    assert info.log_part == pytest.approx(part[case.observed].sum(), rel=1e-10)


@parametrize_few(("by", "mode"), [(0, 1), (None, 0), (None, 1), (0, 0), (1, 0), (2, 1)], quick=1)
def test_locations_have_the_scores_of_the_oracle(by, mode):
    """The oracle integrates the core value out numerically."""
    case = cases.make(3, budget=4, seed=3, scale=2.0, dispersion_by=by, **BURSTS)
    rows = ByClass.of(cases.view_of(case.layout, case.state, case.allocation, mode), case.layout.workers)
    scores_QK, _, _ = location_scores(case.layout, case.spec, case.state, mode, rows)
    places = np.cumsum(case.state.used(mode)) - 1
    for q in range(case.spec.budget):
        weights, _ = naive.integrated_log_weights(q, mode, case.alloc, case.observed, case.dense, case.priors)
        others_K = naive.other_users(q, mode, case.dense)
        used = np.flatnonzero(others_K)
        prior = np.log(others_K[used] + case.spec.alpha0 / case.Y.shape[mode])
        ours, expected = prior + scores_QK[q, places[used]], np.array([weights[k] for k in used])
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-9, atol=1e-6)


@parametrize_few("mode", [0, 1, 2])
@parametrize_few("by", [None, 0, 1, 2])
def test_split_merge_keeps_the_exposures_of_the_state_it_makes(by, mode):
    """`exposure_at` for any mixture of the factors of classes, and `exposure_Q` after accepted proposals."""
    accepted = 0
    for seed in range(12):
        case = cases.make(
            3, budget=8, core_shape=(4, 3, 2), seed=seed, scale=0.5, alpha0=6.0, b0=2.0, dispersion_by=by, **BURSTS
        )
        workspace = Workspace.of(case.layout, case.state)
        view = cases.view_of(case.layout, case.state, case.allocation, mode, workspace)
        exposure_Q = view.exposure_Q(workspace.rows(mode))
        draft = Draft.of(case.layout, case.spec, case.state, view, exposure_Q, workspace)
        rng = scratch()
        for number in range(12):
            seek(rng, Key.of(seed, 0).stream(Step.SPLIT_MERGE, mode), number)
            accepted += split_merge.propose(draft, rng)
        dense = cases.naive_of(draft.state(case.state))
        scale, observed = naive.latent_scale(dense), case.observed
        for q in range(case.spec.budget):
            expected = np.where(observed, scale * naive.outer(naive.columns_of(q, dense)), 0.0).sum()
            assert draft.exposure_Q[q] == pytest.approx(expected, rel=1e-9, abs=1e-13)
        for classes_M in np.random.default_rng(seed).integers(0, case.spec.budget, (5, 3)):
            columns = [naive.columns_of(c, dense)[m] for m, c in enumerate(classes_M)]
            expected = np.where(observed, scale * naive.outer(columns), 0.0).sum()
            assert draft.exposure_at(classes_M) == pytest.approx(expected, rel=1e-9, abs=1e-13)
    assert accepted > 5, "else nothing has moved"

"""Steps of the sampler with seeded and frozen factors against the oracle, alone and together with exposures.

These tests hold to rounding, for all likelihoods, missing patterns and tied modes, unless they say otherwise.
"""

import numpy as np
import pytest
from scipy import stats

from allocore.gibbs.concentrations import _sum_rows, draw_concentration
from allocore.gibbs.factors import ClassesOfMode, draw_factors
from allocore.gibbs.layout import Workspace
from allocore.gibbs.relocation import ByClass, CollapsedFit, location_scores, relocate
from allocore.gibbs.sweep import SamplerState, sweep
from allocore.gibbs.tied import draw_tied_concentration
from allocore.kernels.random import Key
from allocore.model import joint
from allocore.model.known import KnownFactors
from allocore.model.simulate import prior_state
from support import cases, naive

BOTH = KnownFactors(frozen=((0.1, 0.2, 0.6, 0.1),), seeds=((0, 2),), seed_weight=5.0)
SEEDS = KnownFactors(seeds=((1,), (0, 2)), seed_weight=3.0)
FROZEN = KnownFactors(frozen=((0.9, 0.1), (0.4, 0.6)))
THREE = KnownFactors(frozen=((0.5, 0.3, 0.2), (0.1, 0.3, 0.6)), seeds=((0, 1),), seed_weight=3.0)
WEIGHTS = ((0.2, 3.0, 1.0, 7.0), (), (5.0, 0.3))
KINDS = {
    "poisson": {},
    "exposures": {"exposures": WEIGHTS},
    "bursts": {"exposures": WEIGHTS, "likelihood": "negative-binomial", "g0": 2.0, "h0": 3.0, "e0": (0.7, 1.0, 1.4)},
    "learned": {"e0": "infer", "s0": 4.0, "t0": 5.0},
    "learned-bursts-by-seeded-row": {
        "exposures": WEIGHTS, "likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer", "s0": 4.0, "t0": 5.0
    },
    "binary": {"exposures": WEIGHTS, "likelihood": "bernoulli"},
    "complete": {"exposures": WEIGHTS, "with_missing": False},
    "tied": {"exposures": (WEIGHTS[0], WEIGHTS[0], ()), "tied": (0, 1), "known": (BOTH, BOTH, THREE), "seed": 9},
}  # fmt: skip
LONG = [pytest.param(name, marks=pytest.mark.slow) for name in KINDS if name not in ("exposures", "bursts")]


@pytest.fixture(params=["exposures", "bursts", *LONG])
def case(request):
    given = {"scale": 0.3, "known": (BOTH, SEEDS, FROZEN), "seed": 6, **KINDS[request.param]}
    return cases.make(3, budget=4, core_shape=(4, 4, 3), **given)


def single_modes(case):
    """The modes whose factors are drawn alone; those of tied modes are in test_tied.py."""
    return [mode for mode in range(case.Y.ndim) if case.spec.sharing(mode) == (mode,)]


def views(case):
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        yield mode, cases.view_of(case.layout, case.state, case.allocation, mode, workspace)


def weights_of(case, mode):
    return np.ones(case.Y.shape[mode]) if case.dense.weights is None else case.dense.weights[mode]


def test_known_factors_are_the_first_and_have_multipliers():
    kinds_K = BOTH.kinds(4)
    assert kinds_K.tolist() == [-1, 1, 0, 0]
    assert BOTH.multipliers(4, kinds_K).T.tolist() == [[0, 0, 0, 0], [6, 1, 6, 1], [1, 1, 1, 1], [1, 1, 1, 1]]


def test_frozen_factors_have_the_column_sums_that_the_prior_expects(case):
    for mode, known in enumerate(case.spec.known):
        for k, share_D in enumerate(known.frozen):
            phi_D = case.state.factors(mode)[:, k] / weights_of(case, mode)
            np.testing.assert_allclose(phi_D / phi_D.sum(), share_D)
            e0 = case.spec.s0 / case.spec.t0 if case.spec.infer_concentrations else case.spec.concentration(mode, [])
            assert phi_D.sum() == pytest.approx(len(phi_D) * e0 / case.spec.f0)


def test_the_prior_of_the_factors_is_that_of_the_oracle(case):
    expected = 0.0
    for mode in [group[0] for group in case.spec.groups]:
        phi_DK = case.dense.factors[mode]
        drawn_K = case.state.used(case.spec.sharing(mode)) & (case.spec.known_in(mode).kinds(phi_DK.shape[1]) >= 0)
        shapes_DK = naive.factor_shapes(mode, case.dense, case.priors)
        expected += stats.gamma.logpdf(phi_DK[:, drawn_K], shapes_DK[:, drawn_K], scale=1 / case.spec.f0).sum()
        expected -= drawn_K.sum() * np.log(weights_of(case, mode)).sum()  # the density of w phi
    assert joint.log_prior_factors(case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_locations_have_the_scores_of_the_oracle_up_to_a_constant_of_the_class(case):
    """The oracle integrates the core value out numerically, and the package approximates integrated-out factors."""
    found = set()
    for mode, view in views(case):
        rows = ByClass.of(view, case.layout.workers)
        scores_QK, _, fits_QGF = location_scores(case.layout, case.spec, case.state, mode, rows)
        kinds_K = case.spec.known_in(mode).kinds(case.spec.core_shape[mode])
        places = np.cumsum(case.state.used(case.spec.sharing(mode)) | (kinds_K != 0)) - 1
        alpha = case.spec.alpha0 / case.Y.shape[mode]
        core = stats.gamma(case.spec.a0, scale=1 / case.spec.core_rate(case.state.dispersion))
        for q in range(case.spec.budget):
            weights, _ = naive.integrated_log_weights(q, mode, case.alloc, case.observed, case.dense, case.priors)
            prior = core.logpdf(1.0) + case.spec.core_rate(case.state.dispersion)
            constant = view.y_DQ[:, q] @ np.log(weights_of(case, mode)) - prior
            others_K = naive.other_users(q, mode, case.dense, case.priors)
            for k, expected in weights.items():
                if k == naive.NEW or (others_K[k] == 0 and kinds_K[k] > 0):
                    free = ((others_K == 0) & (kinds_K == 0)).sum() if k == naive.NEW else 1
                    fit = CollapsedFit(*fits_QGF[q, 0 if k == naive.NEW else kinds_K[k]])
                    ours, near = np.log(free * alpha) + fit.log_integral, 0.35
                else:
                    ours, near = np.log(others_K[k] + alpha) + scores_QK[q, places[k]], 1e-4
                assert ours - constant == pytest.approx(expected, abs=near)
                found.add("new" if k == naive.NEW else (int(np.sign(kinds_K[k])), bool(others_K[k])))
    assert {"new", (1, False), (-1, False), (-1, True)} <= found


def test_factors_have_the_conditional_of_the_oracle_and_frozen_ones_stay(case):
    """Of many draws: the mean and the logarithm of every entry, each within five standard errors."""
    for mode, view in views(case):
        if mode not in single_modes(case):
            continue
        shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
        drawn_K = case.state.used(mode) & (case.spec.known_in(mode).kinds(shape_DK.shape[1]) >= 0)
        draws = []
        for number in range(150):
            new, _ = draw_factors(Key.of(number, 0).at(1), case.layout, case.spec, case.state, view)
            draws.append(new.factors(mode))
            np.testing.assert_array_equal(new.log_phi[mode][:, ~drawn_K], case.state.log_phi[mode][:, ~drawn_K])
        mean_DK, weights_D1 = np.mean(draws, axis=0), weights_of(case, mode)[:, None]
        error_DK = np.sqrt(shape_DK / 150) / rate_DK
        assert (np.abs(mean_DK / weights_D1 - shape_DK / rate_DK)[:, drawn_K] < 5 * error_DK[:, drawn_K]).all()


def test_a_concentration_sees_seeds_and_not_frozen_factors():
    given = {"scale": 4.0, "known": (BOTH, SEEDS, FROZEN), **KINDS["learned"], **KINDS["exposures"]}
    case, rng = cases.make(3, budget=4, core_shape=(4, 4, 3), seed=6, **given), np.random.default_rng(0)
    for mode, view in views(case):
        classes, known = ClassesOfMode.of(case.state, mode), case.spec.known_in(mode)
        y_DU, log_D = np.empty((len(view.y_DQ), len(classes.used_U)), dtype=np.int64), np.empty(len(view.y_DQ))
        u_DU = known.multipliers(len(y_DU), known.kinds(case.spec.core_shape[mode])[classes.used_U])
        f0_D = case.spec.factor_rates(mode, len(y_DU))
        _sum_rows(0, len(y_DU), f0_D, u_DU, view.y_DQ, view.exposure_DQ, classes, y_DU, log_D)
        draws = [
            naive.concentration_conditional(mode, case.alloc, case.observed, case.dense, case.priors, rng)
            for _ in range(100)
        ]
        assert case.spec.t0 + log_D.sum() == pytest.approx(draws[0][1], rel=1e-11)
        ours = [
            case.spec.s0 + draw_concentration(Key.of(n, 0).at(1), case.layout, case.spec, case.state, view)[1].tables
            for n in range(100)
        ]
        theirs = [shape for shape, _ in draws]
        error = np.sqrt((np.var(ours) + np.var(theirs)) / 100)
        assert abs(np.mean(ours) - np.mean(theirs)) <= 5 * error


def test_the_concentration_of_tied_modes_sees_seeds_and_not_frozen_factors():
    """Of many draws, the quantiles of the oracle's density: Kolmogorov-Smirnov, error rate 1e-4."""
    given = {"tied": (0, 1), "known": (BOTH, BOTH, KnownFactors()), "e0": "infer", "s0": 4.0, "t0": 5.0}
    case = cases.make(3, budget=4, core_shape=(4, 4, 3), seed=6, **given)
    draws, state = [], case.state
    for number in range(1200):
        state, info = draw_tied_concentration(Key.of(number, 0).at(1), case.spec, state)
        draws.append(np.log(info.concentration))
    weights = naive.normalised(naive.tied_concentration_log_density(case.dense, case.priors))
    cumulative = np.cumsum(weights)
    law = stats.kstest(draws[::4], lambda t: np.interp(t, naive.LOG_CORES + 0.02, cumulative))
    assert law.pvalue > 1e-4


@pytest.mark.parametrize("tied", [None, (0, 1)])
def test_a_sweep_keeps_frozen_factors_and_empties_unused_seeded_ones(tied):
    known = (BOTH, BOTH, KnownFactors()) if tied else (BOTH, SEEDS, FROZEN)
    case = cases.make(3, budget=3, core_shape=(4, 4, 3), seed=2, scale=3.0, tied=tied, known=known)
    now, emptied = SamplerState(case.state, case.allocation), False
    for number in range(1, 20):
        now, info = sweep(Key.of(1, 0).at(number), case.layout, case.spec, now)
        assert info.log_likelihood == pytest.approx(
            joint.log_likelihood(cases.tensor_of(case), case.spec, now.state), abs=1e-5 * case.Y.sum()
        )
        for mode, each in enumerate(known):
            log_phi_DK, used_K = now.state.log_phi[mode], now.state.used(case.spec.sharing(mode))
            frozen = len(each.frozen)
            np.testing.assert_array_equal(log_phi_DK[:, :frozen], case.state.log_phi[mode][:, :frozen])
            assert np.isfinite(log_phi_DK[:, used_K]).all()
            assert np.isneginf(log_phi_DK[:, ~used_K][:, frozen - used_K[:frozen].sum() :]).all()
            emptied |= not used_K[frozen : len(each)].all()
    assert emptied or tied


def test_locations_of_classes_without_counts_are_drawn_from_the_prior():
    """Without data, relocation alone leaves the prior of the locations: shares of the factors, five standard errors."""
    case = cases.make(3, budget=3, core_shape=(4, 4, 3), seed=1, scale=1e-6, known=(BOTH, SEEDS, FROZEN))
    rng, shares = np.random.default_rng(0), np.zeros((3, 4))
    shape, tries = case.Y.shape, 600
    for number in range(tries):
        state = prior_state(case.spec, shape, rng)
        workspace = Workspace.of(case.layout, state)
        for mode in range(3):
            view = cases.view_of(case.layout, state, case.allocation, mode, workspace)
            none = view._replace(y_DQ=np.zeros_like(view.y_DQ), exposure_DQ=np.zeros_like(view.exposure_DQ))
            new, _ = relocate(Key.of(number, 0).at(1), case.layout, case.spec, state, none)
            shares[mode] += np.bincount(new.subs_QM[:, mode], minlength=4)
    for mode, width in enumerate(case.spec.core_shape):
        found = shares[mode, :width] / tries / case.spec.budget
        assert np.abs(found - 1 / width).max() < 5 * np.sqrt(1 / width / tries)

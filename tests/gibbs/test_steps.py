"""Each step, run many times from one state, against the exact distribution of what it draws.

Goodness-of-fit tests at level 1e-4 each, seeds fixed.
"""

import numpy as np
import pytest
from scipy import stats

from allocore.gibbs.core_values import draw_core_values
from allocore.gibbs.factors import draw_factors
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.relocation import relocate
from allocore.gibbs.thinning import draw_by_running_sum, thin
from allocore.kernels.random import Key, Step, scratch, seek
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.missing import Missing
from support import cases, naive
from support.tiers import by_tier

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
LEVEL = 1e-4
SPEC = Spec(4, (4, 4, 4))
REPEATS = 4000


WEIGHTS = ((0.3, 4.0, 1.0, 9.0), (), (0.2, 3.0))  # exposures


@pytest.fixture(params=["complete", "missing", "exposures"])
def case(request):
    exposures = WEIGHTS if request.param == "exposures" else ()
    return cases.make(3, budget=4, with_missing=request.param != "complete", seed=5, scale=2.0, exposures=exposures)


def weights_of(case, mode):
    return np.ones(case.Y.shape[mode]) if case.dense.weights is None else case.dense.weights[mode]


def keys(seed=3):
    return (Key.of(seed, 0).at(sweep) for sweep in range(REPEATS))


def chi_square(observed, expected):
    keep = expected >= 5
    if (~keep).any():
        observed = np.append(observed[keep], observed[~keep].sum())
        expected = np.append(expected[keep], expected[~keep].sum())
    positive = expected > 0
    assert (observed[~positive] == 0).all()
    return stats.chisquare(observed[positive], expected[positive]).pvalue


@pytest.mark.parametrize(("count", "budget"), by_tier([(250, 40), (260, 20)], [1, 3, 250, 260, 10**6], [4, 20, 40]))
def test_thinning_a_cell_is_multinomial(count, budget):
    """One and several classes a SIMD lane, below and above the switch from single draws to binomials."""
    case = cases.make(3, budget=budget, core_shape=(6, 5, 4), with_missing=False, seed=5)
    Y = np.zeros_like(case.Y)
    Y[2, 1, 0] = count
    layout = cases.layout_of(Y, case.missing)
    workspace = Workspace.of(layout, case.state)
    splits = np.array([thin(key, layout, SPEC, case.state, workspace)[0].y_RQ[2] for key in keys()])
    assert (splits.sum(axis=1) == count).all()
    rate_Q = naive.class_rates(case.dense)[:, 2, 1, 0]
    p_values = []
    for q in range(case.spec.budget):
        p = rate_Q[q] / rate_Q.sum()
        edges = np.unique(stats.binom.ppf(np.linspace(0.1, 0.9, 9), count, p))
        expected = np.diff([0, *stats.binom.cdf(edges, count, p), 1]) * REPEATS
        observed = np.bincount(np.searchsorted(edges, splits[:, q]), minlength=len(expected))
        p_values.append(chi_square(observed, expected))
    assert min(p_values) * len(p_values) > LEVEL


@pytest.mark.slow
def test_rare_classes_get_their_share_of_many_single_counts():
    """One class with nearly all the weight, the others from 1e-3 down to 1e-9 of it: far below what 32-bit sums hold.

    40,000 cells of 50 counts; the classes rarer than 1e-6 are taken together.
    """
    budget, cells = 60, 40_000
    share_Q = np.concatenate([[1.0], np.logspace(-3, -9, budget - 1)])
    state = State(np.log(share_Q), np.zeros((budget, 2), dtype=np.int64), (np.zeros((1, 1)), np.zeros((cells, 1))))
    coords = np.array([np.zeros(cells, dtype=int), np.arange(cells)])
    layout = Layout.of_cells(coords, np.full(cells, 50), Missing.none((1, cells)), Workers(1))
    y_Q = sum(thin(key, layout, SPEC, state, Workspace.of(layout, state))[0].y_RQ[0] for key in list(keys())[:20])
    expected = share_Q / share_Q.sum() * y_Q.sum()
    often = share_Q > 1e-6
    for observed, mean in [*zip(y_Q[often], expected[often], strict=True), (y_Q[~often].sum(), expected[~often].sum())]:
        assert stats.binomtest(int(observed), int(y_Q.sum()), mean / y_Q.sum()).pvalue * budget > LEVEL


def test_a_draw_that_was_rejected_is_drawn_again_by_the_weights():
    weights = np.array([0.5, 0.0, 0.25, 0.0, 0.125, 0.125])
    products, rows = np.zeros((4, 32), dtype=np.float32), np.ones((2, 32), dtype=np.float32)
    products[3, :6] = weights
    rng, stream = scratch(), Key.of(5, 0).stream(Step.THIN_AGAIN)
    drawn = np.zeros(6)
    block, row = np.uint32(3), np.uint64(1)
    for number in range(REPEATS):
        seek(rng, stream, number)
        drawn[draw_by_running_sum(block, row, 6, rows, products, rng)] += 1
    assert chi_square(drawn, weights * REPEATS) > LEVEL


@pytest.mark.parametrize("budget", [1, 15, 16, 17, 33])
def test_thinning_never_allocates_to_a_place_beyond_the_classes(budget):
    case = cases.make(3, budget=budget, core_shape=(3, 3, 3), with_missing=False, seed=6, scale=40.0)
    for key in list(keys())[:20]:
        allocation, _ = thin(key, case.layout, SPEC, case.state, Workspace.of(case.layout, case.state))
        assert allocation.y_RQ.shape == (sum(case.Y.shape), budget)
        assert allocation.y_RQ[case.layout.rows(0)].sum() == case.Y.sum()


def test_thinning_adds_the_same_counts_to_every_mode_and_keeps_the_totals_of_every_row(case):
    allocation, _ = thin(Key.of(0, 0), case.layout, SPEC, case.state, Workspace.of(case.layout, case.state))
    for mode in range(3):
        table = allocation.y_RQ[case.layout.rows(mode)]
        np.testing.assert_array_equal(table.sum(axis=1), naive.sum_to_mode(case.Y, mode))
        np.testing.assert_array_equal(table.sum(axis=0), allocation.y_RQ[case.layout.rows(0)].sum(axis=0))


def test_thinning_reports_the_log_rates_of_the_cells(case):
    allocation, _ = thin(Key.of(0, 0), case.layout, SPEC, case.state, Workspace.of(case.layout, case.state))
    expected = np.sum(case.Y[case.Y > 0] * np.log(naive.rates(case.dense)[case.Y > 0]))
    assert allocation.log_fit == pytest.approx(expected, abs=1e-6 * case.Y.sum())  # products are 32-bit floats


@pytest.mark.parametrize("count", [10**6, 10**9, pytest.param(10**13, marks=pytest.mark.slow)])
def test_the_log_rate_of_a_large_count_is_exact(count):
    case = cases.make(3, budget=20, core_shape=(4, 4, 4), with_missing=False, seed=5)
    Y = np.zeros_like(case.Y)
    Y[2, 1, 0] = count
    layout = cases.layout_of(Y, case.missing)
    allocation, _ = thin(Key.of(0, 0), layout, SPEC, case.state, Workspace.of(layout, case.state))
    assert allocation.log_fit == pytest.approx(count * np.log(naive.rates(case.dense)[2, 1, 0]), rel=1e-12)


@pytest.mark.parametrize(
    ("depth", "modes", "count"),
    by_tier([(70.0, 6, 300), (700.0, 3, 10)], [0.5, 70.0, 700.0], [3, 6], [10, 300]),
)
def test_thinning_is_exact_where_the_products_underflow(depth, modes, count):
    """Nothing underflows at a depth of 0.5; at 70 products leave 32-bit floats, at 700 also those of 64 bits.

    Two classes, each tiny where the other is not: no scaling of rows helps. Odds of e to 1, whatever the depth.
    """
    log_phi = [np.array([[-depth, -depth + 1.0]]), *(np.array([[0.0, -depth]]), np.array([[-depth, 0.0]]))]
    log_phi += [np.array([[-depth, -depth]])] * (modes - 3)
    state = State(np.zeros(2), np.tile([[0], [1]], modes), tuple(log_phi))
    layout = Layout.of_cells(np.zeros((modes, 1), dtype=int), np.array([count]), Missing.none((1,) * modes), Workers(1))
    workspace = Workspace.of(layout, state)
    allocations = [thin(key, layout, SPEC, state, workspace)[0] for key in keys()]
    second = np.array([allocation.y_RQ[0, 1] for allocation in allocations])
    p = np.exp(1.0) / (1.0 + np.exp(1.0))
    expected = stats.binom.pmf(np.arange(count + 1), count, p) * REPEATS
    assert chi_square(np.bincount(second, minlength=count + 1), expected) > LEVEL
    exact = count * (np.log1p(np.exp(1.0)) - (modes - 1) * depth)
    assert allocations[0].log_fit == pytest.approx(exact, abs=1e-6 * count)


@pytest.mark.parametrize("depth", [0.0, 400.0], ids=["plain", "in-logs"])
def test_thinning_finds_its_cells_whatever_the_order_of_the_modes(depth):
    """The first mode has the longest fibres, so thinning sorts the cells by another order; some counts are large."""
    shape, rng = (40, 3, 2), np.random.default_rng(4)
    Y = rng.poisson(3.0, shape) + 400 * (rng.random(shape) < 0.1)
    layout = cases.layout_of(Y, Missing.none(shape))
    assert layout.order == (1, 2, 0)
    log_phi = tuple(rng.normal(-depth, 1.0, (length, 5)) for length in shape)
    state = State(np.zeros(5), np.tile(np.arange(5)[:, None], 3), log_phi)
    allocation, _ = thin(Key.of(1, 0), layout, SPEC, state, Workspace.of(layout, state))
    for mode in range(3):
        others = tuple(m for m in range(3) if m != mode)
        assert (allocation.y_RQ[layout.rows(mode)].sum(axis=1) == Y.sum(axis=others)).all()
    a, b, c = log_phi
    log_rates = np.logaddexp.reduce(a[:, None, None] + b[None, :, None] + c[None, None, :], axis=-1)
    assert allocation.log_fit == pytest.approx((Y * log_rates).sum(), rel=1e-7)


def test_a_rate_that_is_not_a_number_leads_to_no_number():
    """A state beyond 64-bit floats is reported by the chain; thinning itself must stay within its arrays."""
    layout = Layout.of_cells(np.zeros((2, 1), dtype=int), np.array([3]), Missing.none((1, 1)), Workers(1))
    state = State(np.zeros(2), np.array([[0, 0], [1, 1]]), (np.zeros((1, 2)), np.array([[0.0, np.nan]])))
    assert not np.isfinite(thin(Key.of(1, 0), layout, SPEC, state, Workspace.of(layout, state))[0].log_fit)


def test_core_values_are_gamma(case):
    shape_Q, rate_Q = naive.core_conditional(case.alloc, case.observed, case.dense, case.priors)
    y_Q = case.allocation.y_RQ[case.layout.rows(0)].sum(axis=0)
    draws = np.array(
        [draw_core_values(key, case.spec, case.state, y_Q, rate_Q - case.spec.b0)[0].core_values() for key in keys()]
    )
    for q in range(case.spec.budget):
        assert stats.kstest(draws[:, q], stats.gamma(shape_Q[q], scale=1 / rate_Q[q]).cdf).pvalue > LEVEL


def test_factors_in_use_are_gamma_and_the_others_have_no_value(case):
    mode = 0
    shape_DK, rate_DK = naive.factor_conditional(mode, case.alloc, case.observed, case.dense, case.priors)
    view = cases.view_of(case.layout, case.state, case.allocation, mode)
    states = [draw_factors(key, case.layout, case.spec, case.state, view)[0] for key in keys()]
    draws = np.array([state.factors(mode) for state in states])
    used = case.state.used(mode)
    assert (draws[:, :, ~used] == 0).all()
    for d, k in np.ndindex(len(view.y_DQ), len(used)):
        if used[k]:
            law = stats.gamma(shape_DK[d, k], scale=weights_of(case, mode)[d] / rate_DK[d, k])
            assert stats.kstest(draws[:, d, k], law.cdf).pvalue > LEVEL


@pytest.mark.parametrize("mode", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_relocation_leaves_the_first_class_to_the_distribution_of_the_oracle(case, mode):
    """The first class begins with a location, core value and factor from their distribution given the rest."""
    q = 0
    weights, log_density = naive.integrated_log_weights(q, mode, case.alloc, case.observed, case.dense, case.priors)
    view = cases.view_of(case.layout, case.state, case.allocation, mode)
    _, y_DQ, exposure_DQ = view
    weighted_DQ = exposure_DQ * weights_of(case, mode)[:, None]  # per unit of the factors of the oracle
    choices, exact = list(weights), naive.normalised(list(weights.values()))
    rng = np.random.default_rng(8)
    unused = np.flatnonzero(naive.other_users(q, mode, case.dense) == 0)
    places, cores = [], []
    for key, start in zip(keys(), rng.choice(len(choices), size=REPEATS, p=exact), strict=True):
        dense = case.dense.copy()
        if choices[start] == naive.NEW:
            dense.locations[q, mode] = rng.choice(unused)
            log_core = rng.choice(naive.LOG_CORES, p=naive.normalised(log_density)) + rng.uniform(-0.02, 0.02)
            dense.core[q] = np.exp(log_core)
            rate_D = case.spec.f0 + dense.core[q] * weighted_DQ[:, q]
            dense.factors[mode][:, dense.locations[q, mode]] = rng.gamma(case.spec.e0 + y_DQ[:, q]) / rate_D
        else:
            dense.locations[q, mode] = choices[start]
            rate = case.spec.b0 + dense.factors[mode][:, choices[start]] @ weighted_DQ[:, q]
            dense.core[q] = rng.gamma(case.spec.a0 + y_DQ[:, q].sum()) / rate
        new, _ = relocate(key, case.layout, case.spec, cases.state_of(dense), view)
        places.append(new.subs_QM[q, mode])
        cores.append((dense.core[q], new.core_values()[q]))
    observed = np.array([places.count(k) for k in choices if k != naive.NEW])
    observed = np.append(observed, REPEATS - observed.sum()) if naive.NEW in choices else observed
    assert chi_square(observed, exact * REPEATS) > LEVEL
    before, after = np.log(np.transpose(cores))
    assert stats.ks_2samp(before, after).pvalue > LEVEL


def test_a_class_that_parts_takes_any_free_factor_and_draws_it_from_its_conditional():
    case = cases.make(3, budget=2, core_shape=(4, 2, 2), seed=9, scale=2.0, alpha0=50.0)
    mode = 0
    case.dense.locations[:, mode] = 1
    state = cases.state_of(case.dense)
    view = cases.view_of(case.layout, state, case.allocation, mode)
    _, y_DQ, exposure_DQ = view
    labels, scaled = [], []
    for key in keys():
        new, _ = relocate(key, case.layout, case.spec, state, view)
        label = new.subs_QM[0, mode]
        if label != 1:
            labels.append(label)
            rate_D = case.spec.f0 + new.core_values()[0] * exposure_DQ[:, 0]
            scaled.append(new.factors(mode)[:, label] * rate_D)
    assert len(labels) > 500
    assert stats.chisquare([labels.count(k) for k in (0, 2, 3)]).pvalue > LEVEL
    for d in range(len(y_DQ)):
        assert stats.kstest(np.array(scaled)[:, d], stats.gamma(case.spec.e0 + y_DQ[d, 0]).cdf).pvalue > LEVEL


def test_a_factor_left_by_its_last_class_loses_its_value():
    case = cases.make(3, budget=2, core_shape=(3, 2, 2), seed=9, alpha0=1e-6)
    case.dense.locations[:, 0] = [0, 2]
    state = cases.state_of(case.dense)
    view = cases.view_of(case.layout, state, case.allocation, 0)
    new, _ = relocate(Key.of(0, 0), case.layout, case.spec, state, view)
    for mode in range(3):
        assert (np.isfinite(new.log_phi[mode]).all(axis=0) == new.used(mode)).all()
        assert (np.isneginf(new.log_phi[mode]).all(axis=0) == ~new.used(mode)).all()

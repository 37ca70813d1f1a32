"""Data and settings at the edge of the other likelihoods: they work, stay finite and are continued, or are refused."""

import numpy as np
import pytest
from scipy.special import gammaln

import allocore as ac
from allocore.model import joint
from allocore.model.state import Dispersion, State
from support.errors import refused
from support.findings import warned
from support.tiers import parametrize_few

pytestmark = pytest.mark.jit
CHAIN = {"burn_in": 25, "draws": 6, "thin": 2, "seed": 3, "progress": False, "chains": 1}
BURSTS = {"likelihood": "negative-binomial"}
BINARY = {"likelihood": "bernoulli"}


def few(shape=(12, 10, 6), seed=0):
    return (np.random.default_rng(seed).random(shape) < 0.1).astype(np.int64)


def with_a_huge_count(count):
    Y = few()
    Y[0, 0, 0] = count
    return ac.as_tensor(Y).with_missing([(1, None, 2), (1, 1, None)])


def check(post):
    """Every draw is finite, and its log-likelihood is that of the joint."""
    record = post.record
    for array in record.draw_arrays:
        assert np.isfinite(array).all()
    recorded = record.stats["log_likelihood"][:, record.draw_sweeps - 1]
    assert np.isfinite(record.stats["log_likelihood"]).all()
    for chain, draw in np.ndindex(recorded.shape):
        with np.errstate(divide="ignore"):
            log_core_Q = np.log(record.core_values[chain, draw])
            log_phi = tuple(np.log(factor[chain, draw]) for factor in record.factors)
        learned_M = np.empty(0) if record.concentrations is None else record.concentrations[chain, draw]
        dispersion = None
        if record.log_odds is not None:
            dispersion = Dispersion(np.atleast_1d(record.log_odds[chain, draw]), record.spec.dispersion_by)
        state = State(log_core_Q, record.core_locations[chain, draw], log_phi, learned_M, dispersion)
        expected = joint.log_likelihood(record.tensor, record.spec, state)
        # 32-bit products in most cells, and ln y! has 16 digits however large it is.
        counts_N = record.tensor.counts.astype(float)
        error = 1e-6 * (counts_N.size + np.minimum(counts_N, 1000).sum()) + 1e-15 * gammaln(counts_N + 1.0).sum()
        assert recorded[chain, draw] == pytest.approx(expected, rel=1e-7, abs=error)
    return record


def check_resumed(model, data, path):
    """Stored in two parts, the run has the same bytes."""
    whole = model.fit(data).posterior_.record
    parts = type(model)(**{**model.get_params(), "draws": 2, "store": path})
    parts.fit(data)
    resumed = type(model).resume(path, draws=model.draws, progress=False).posterior_.record
    for mine, theirs in zip(resumed.draw_arrays, whole.draw_arrays, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert resumed.stats["log_likelihood"].tobytes() == whole.stats["log_likelihood"].tobytes()


@pytest.mark.parametrize("settings", [{}, {"dispersion_by": 1, "e0": "infer"}], ids=["one-p", "by-row"])
def test_with_all_counts_one_the_negative_binomial_works_and_says_that_p_is_not_identified(settings):
    model = ac.AlloCore(6, **BURSTS, **CHAIN, **settings)
    with warned("dispersion-of-ones"):
        check(model.fit(ac.as_tensor(few())).posterior_)


@parametrize_few("count", [255, 256, 10**9, 10**15])
@parametrize_few(
    "model",
    [
        ac.AlloCore(6, **BURSTS),
        ac.AlloCore("infer", max_budget=9, **BURSTS, dispersion_by=0, e0="infer"),
        ac.CP(3, **BURSTS, e0="infer"),
        ac.Tucker((2, 2, 1), **BURSTS, dispersion_by=2),
    ],
    ids=["allocore", "budget-by-row-e0", "cp-e0", "tucker-by-row"],
)
def test_one_huge_count_among_ones_is_finite_in_every_draw(model, count):
    record = check(model.set_params(**CHAIN).fit(with_a_huge_count(count)).posterior_)
    assert record.log_odds.max() > np.log(count) - 6, "p tends to 1"


@pytest.mark.slow
def test_a_dispersion_that_tends_to_one_is_continued_to_the_same_bytes(tmp_path):
    model = ac.AlloCore(6, **BURSTS, **CHAIN, e0="infer")
    check_resumed(model, with_a_huge_count(10**12), tmp_path / "run.zarr")


@parametrize_few(
    "settings",
    [
        {"h0": 1e-10},
        {"g0": 1e-6, "dispersion_by": 0},
        {"g0": 1e-30, "h0": 1e-30, "dispersion_by": 0},
        {"h0": 1e30},
        {"g0": 1e30},
        {"e0": "infer", "s0": 1e-3, "t0": 1e3},
        {"e0": "infer", "s0": 1e3, "t0": 1e-3},
        {"e0": "infer", "s0": 1e-30},
        {"f0": 1e20},
        {"f0": 1e-6, "b0": 1e-6},
        {"e0": (1e-3, 1.0, 1e3)},
    ],
    ids=str,
)
def test_extreme_priors_lead_to_finite_draws(settings):
    check(ac.AlloCore(6, **BURSTS, **CHAIN, **settings).fit(with_a_huge_count(10**9)).posterior_)


@pytest.mark.parametrize("kind", [BURSTS, BINARY], ids=["bursts", "binary"])
def test_rates_that_underflow_lead_to_a_finite_log_likelihood(kind):
    """Six modes, every factor near 1e-30: rates far below the smallest float, until the counts raise them."""
    rng, shape = np.random.default_rng(0), (3,) * 6
    Y = (rng.random(shape) < 0.1) * (1 if kind is BINARY else rng.integers(1, 400, shape))
    model = ac.AlloCore(6, **kind, **{**CHAIN, "burn_in": 0}, f0=1e30, b0=1e30)
    record = model.fit(ac.as_tensor(Y.astype(np.int64))).posterior_.record
    recorded = record.stats["log_likelihood"]
    assert np.isfinite(recorded).all()
    assert recorded[0, 0] < -20_000
    assert np.isfinite(record.core_locations).all()


def test_ones_without_a_zero_raise_the_rates_as_far_as_the_prior_lets_them():
    data = ac.as_tensor(np.ones((8, 8, 6), dtype=np.int64))
    check(ac.AlloCore(6, **BINARY, **CHAIN, e0="infer").fit(data).posterior_)
    post = check(ac.AlloCore(6, **BINARY, **CHAIN, f0=0.01, b0=0.01).fit(data).posterior_)
    assert post.core_values.max() > 32


@pytest.mark.parametrize("kind", [BURSTS, BINARY, {}], ids=["bursts", "binary", "poisson"])
def test_many_more_classes_than_counts(kind):
    """Nearly all classes are empty, and so are most factors."""
    data = ac.CountTensor(np.array([[0, 1, 2], [0, 1, 3], [0, 1, 1]]), [1, 1, 1 if kind is BINARY else 7], (4, 4, 3))
    check(ac.AlloCore(40, **kind, **CHAIN, e0="infer").fit(data).posterior_)
    check(ac.AlloCore("infer", max_budget=40, **kind, **CHAIN, e0="infer").fit(data).posterior_)


@parametrize_few("shape", [(1, 8, 6), (8, 1, 6), (8, 6, 1), (1, 1, 9)], ids=str)
@parametrize_few(
    "settings",
    [{**BURSTS, "dispersion_by": 0}, {**BURSTS, "dispersion_by": 1}, {**BURSTS, "dispersion_by": 2}, BURSTS, BINARY],
    ids=lambda s: str(s.get("dispersion_by", s["likelihood"])),
)
def test_a_mode_of_one_row(shape, settings):
    rng = np.random.default_rng(1)
    Y = (rng.random(shape) < 0.6).astype(np.int64) * (1 if settings is BINARY else rng.integers(1, 9, shape))
    model = ac.AlloCore(9, **settings, **CHAIN, e0="infer", f0=1.0)
    record = check(model.fit(ac.as_tensor(Y)).posterior_)
    if "dispersion_by" in settings:
        assert record.log_odds.shape == (1, 6, shape[settings["dispersion_by"]])


def test_a_dispersion_for_the_one_row_of_a_mode_is_that_of_all_cells_and_is_resumed(tmp_path):
    data = ac.as_tensor(np.random.default_rng(1).negative_binomial(0.5, 0.2, (1, 8, 6)))
    model = ac.AlloCore(5, **BURSTS, **CHAIN, dispersion_by=0)
    check_resumed(model, data, tmp_path / "run.zarr")


@pytest.mark.parametrize(
    "model", [ac.AlloCore(3, **BINARY), ac.CP(3, **BINARY), ac.Tucker((2, 2, 2), **BINARY)], ids=repr
)
def test_counts_above_one_are_refused_with_the_way_out_and_nothing_is_written(tmp_path, model):
    data = ac.as_tensor(np.array([[[0, 1], [2, 1]], [[1, 0], [0, 4321]]]))
    with refused("likelihood", "bernoulli", "4,321"):
        model.set_params(**CHAIN, store=tmp_path / "run.zarr").fit(data)
    assert not (tmp_path / "run.zarr").exists()
    check(model.set_params(store=None).fit(data.binarize()).posterior_)


@pytest.mark.slow
def test_the_expected_counts_of_a_row_without_cells_are_stable_if_h0_is_large_enough():
    """Its p follows the prior. With h0 = 3, p / (1 - p) has the mean g0 / (h0 - 1) = 1/2 and a finite variance."""
    Y = np.random.default_rng(0).negative_binomial(1.0, 0.4, (5, 4, 3))
    data, hidden = ac.as_tensor(Y).with_missing([(2, None, None)]), [[2, 2], [0, 3], [1, 2]]
    chain = {"burn_in": 100, "draws": 800, "thin": 1, "progress": False, "threads": 1, "chains": 1}
    posts = [
        ac.AlloCore(2, **BURSTS, dispersion_by=0, h0=3.0, seed=seed, **chain).fit(data).posterior_ for seed in (0, 1)
    ]
    for post in posts:
        p_2 = post.dispersion[0, :, 2]
        assert (p_2 / (1 - p_2)).mean() == pytest.approx(0.5, rel=0.2)  # the standard error is 5%
    first, second = (post.expected(hidden) for post in posts)
    assert np.isfinite(first).all()
    np.testing.assert_allclose(first, second, rtol=0.4)  # the standard error of each is 10%

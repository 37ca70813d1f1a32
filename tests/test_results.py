"""The posterior: predictions against plain NumPy, classes against a computation by hand, and nothing ever changes."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import allocore as ac
from allocore.kernels import exposure_sums as cell_rates
from allocore.model.spec import Spec
from allocore.posterior import predict as prediction
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule
from support.errors import refused

SHAPE, CORE_SHAPE, BUDGET = (5, 4, 3), (3, 2, 4), 6


def small_posterior(chains=2, draws=3, shape=SHAPE, core_shape=CORE_SHAPE, budget=BUDGET, seed=0):
    """Random draws, put together without a sampler."""
    rng = np.random.default_rng(seed)
    lead = (chains, draws)
    return Posterior(
        Record(
            ac.as_tensor(rng.poisson(1.0, shape)),
            Spec(budget, core_shape),
            Schedule(0, draws, 1),
            seed,
            core_values=rng.gamma(1.0, 5.0, (*lead, budget)),
            core_locations=np.stack([rng.integers(0, k, (*lead, budget)) for k in core_shape], axis=-1),
            factors=tuple(rng.gamma(0.5, 1.0, (*lead, d, k)) for d, k in zip(shape, core_shape, strict=True)),
            stats={
                "log_likelihood": np.zeros(lead),
                "classes": np.full(lead, budget),
                "factors": np.full((*lead, len(shape)), 2),
            },
        )
    )


def dense_rates(post):
    """The rates of all cells under every draw, (chain, draw, *shape), by the formula of the model."""
    chains, draws, budget = post.core_values.shape
    rates = np.zeros((chains, draws, *post.tensor.shape))
    for chain, draw, q in np.ndindex(chains, draws, budget):
        product = np.array(post.core_values[chain, draw, q])
        for mode, factor in enumerate(post.factors):
            product = np.multiply.outer(product, factor[chain, draw][:, post.core_locations[chain, draw, q, mode]])
        rates[chain, draw] += product
    return rates


def some_cells(shape, number=40, seed=1):
    """Cells in no order, many of them several times."""
    rng = np.random.default_rng(seed)
    return np.array([rng.integers(0, length, number) for length in shape]), rng.poisson(2.0, number)


def dense_log_predictive(post, coords, counts):
    log_n = stats.poisson.logpmf(counts, dense_rates(post)[:, :, *coords])
    return logsumexp(log_n, axis=(0, 1)) - np.log(log_n.shape[0] * log_n.shape[1])


# Prediction


@pytest.mark.parametrize(
    ("chains", "draws", "shape", "core_shape"),
    [(1, 1, SHAPE, CORE_SHAPE), (2, 3, SHAPE, CORE_SHAPE), (3, 2, (4, 5), (6, 1)), (2, 2, (2, 3, 2, 2, 3), (2,) * 5)],
)
def test_expected_counts_and_log_predictive_are_those_of_the_dense_formula(chains, draws, shape, core_shape):
    post = small_posterior(chains, draws, shape, core_shape)
    coords, counts = some_cells(shape)
    np.testing.assert_allclose(post.expected(coords), dense_rates(post).mean(axis=(0, 1))[tuple(coords)], rtol=1e-12)
    np.testing.assert_allclose(
        post.log_predictive(coords, counts), dense_log_predictive(post, coords, counts), rtol=1e-10
    )


def test_a_fitted_model_predicts_by_the_dense_formula_too():
    Y = np.random.default_rng(0).poisson(1.0, SHAPE)
    model = ac.AlloCore(4, likelihood="poisson", burn_in=2, draws=3, thin=1, chains=2, seed=1, progress=False)
    post = model.fit(Y).posterior_
    coords, counts = some_cells(SHAPE)
    np.testing.assert_allclose(post.expected(coords), dense_rates(post).mean(axis=(0, 1))[tuple(coords)], rtol=1e-12)
    np.testing.assert_allclose(
        post.log_predictive(coords, counts), dense_log_predictive(post, coords, counts), rtol=1e-10
    )


def test_a_prediction_does_not_depend_on_the_order_of_the_cells_or_on_their_company():
    post = small_posterior()
    coords, counts = some_cells(SHAPE)
    order = np.random.default_rng(2).permutation(len(counts))
    assert (post.expected(coords)[order] == post.expected(coords[:, order])).all()
    assert (post.log_predictive(coords, counts)[order] == post.log_predictive(coords[:, order], counts[order])).all()
    assert post.expected(coords).tolist() == [post.expected(coords[:, [n]])[0] for n in range(len(counts))]


@pytest.mark.parametrize("threads", [2, 3])
def test_predictions_on_several_threads_are_the_same_bytes(threads, monkeypatch):
    monkeypatch.setattr(cell_rates, "_CELLS_PER_THREAD", 5)
    post = small_posterior()
    coords, counts = some_cells(SHAPE)
    one = prediction.log_predictive(post._record, coords, counts, 1)
    assert prediction.log_predictive(post._record, coords, counts, threads).tobytes() == one.tobytes()


def test_coordinates_may_be_lists_and_whole_floats():
    post = small_posterior()
    assert (
        post.expected([[0, 4], [1.0, 0], [2, 2]]).tolist() == post.expected(np.array([[0, 4], [1, 0], [2, 2]])).tolist()
    )


def test_no_cells_have_no_predictions():
    empty = np.zeros((3, 0), dtype=int)
    assert small_posterior().expected(empty).shape == (0,)
    assert small_posterior().log_predictive(empty, []).shape == (0,)


def test_probabilities_of_all_counts_of_a_cell_add_up_to_one():
    post = small_posterior()
    counts = np.arange(3000)
    coords = np.tile([[2], [1], [0]], len(counts))
    assert np.exp(post.log_predictive(coords, counts)).sum() == pytest.approx(1.0, rel=1e-9)


def test_improbable_counts_keep_a_finite_log_probability():
    """Each Poisson probability underflows, their logarithms do not."""
    post = small_posterior()
    found = post.log_predictive([[0], [0], [0]], [10**6])
    assert found < -1e6
    np.testing.assert_allclose(found, dense_log_predictive(post, np.zeros((3, 1), dtype=int), [10**6]), rtol=1e-10)


@pytest.mark.parametrize("positive_only", [False, True])
def test_ppd_is_the_geometric_mean_of_the_predictive_probabilities(positive_only):
    post = small_posterior()
    coords, counts = some_cells(SHAPE)
    assert 0 < (counts == 0).sum() < len(counts)
    each = dense_log_predictive(post, coords, counts)
    expected = each[counts > 0].mean() if positive_only else each.mean()
    test = SimpleNamespace(coords=coords, counts=counts)
    assert post.log_ppd(test, positive_only, allow_training=True) == pytest.approx(expected, rel=1e-10)
    assert post.ppd(test, positive_only=positive_only, allow_training=True) == pytest.approx(np.exp(expected), rel=1e-9)


def with_tensor(post, tensor):
    """The same draws, as if they had been fitted to another tensor."""
    return Posterior(replace(post.record, tensor=tensor))


def test_ppd_of_a_held_out_set_counts_its_zeros():
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(3).poisson(0.8, SHAPE)), 0.3, seed=1)
    post = with_tensor(small_posterior(), split.train)
    expected = dense_log_predictive(post, split.test.coords, split.test.counts)
    assert (split.test.counts == 0).any()
    assert post.log_ppd(split.test) == pytest.approx(expected.mean(), rel=1e-10)
    assert post.log_ppd(split.test.positive) == pytest.approx(post.log_ppd(split.test, positive_only=True), rel=1e-12)
    assert post.log_predictive(split.test).tolist() == pytest.approx(expected.tolist(), rel=1e-10)
    assert post.expected(split.test).tolist() == post.expected(split.test.coords).tolist()


# Mistakes


@pytest.mark.parametrize(
    "coords",
    [
        [[0], [0]],
        [0, 0, 0],
        [[0], [4], [0]],
        [[0], [0], [-1]],
        [[0.5], [0], [0]],
        [[np.nan], [0], [0]],
        [[0, 1], [0], [0]],
        "abc",
    ],
)
def test_bad_coordinates_are_named(coords):
    for predict in (small_posterior().expected, lambda cells: small_posterior().log_predictive(cells, [1])):
        with refused("coords"):
            predict(coords)


@pytest.mark.parametrize("coords", [None, 0.5, np.nan])
def test_a_single_bad_value_for_coordinates_is_an_input_error(coords):
    with refused("coords"):
        small_posterior().expected(coords)


@pytest.mark.parametrize("counts", [[1], [1, 2, 3], [[1, 2]], 5])
def test_counts_that_do_not_fit_the_cells_are_refused(counts):
    with refused("counts", rule="each of the 2 cells in `coords`"):
        small_posterior().log_predictive([[0, 1], [0, 1], [0, 1]], counts)


@pytest.mark.parametrize("counts", [[1, -2], [1, 0.5], [1, np.inf], ["a", "b"]])
def test_counts_that_are_not_counts_are_refused(counts):
    with refused("counts"):
        small_posterior().log_predictive([[0, 1], [0, 1], [0, 1]], counts)


@pytest.mark.parametrize(("counts", "positive_only"), [([], False), ([], True), ([0, 0], True)])
def test_ppd_of_nothing_is_refused(counts, positive_only):
    test = SimpleNamespace(coords=np.zeros((3, len(counts)), dtype=int), counts=np.array(counts, dtype=int))
    with refused("test", f"a set of {len(counts)} cells", "at least one cell"):
        small_posterior().log_ppd(test, positive_only, allow_training=True)


@pytest.mark.parametrize("counts", [[1], [1, 2, 3], ["a", "b"]])
def test_ppd_of_counts_that_do_not_fit_the_coordinates_is_an_input_error(counts):
    test = SimpleNamespace(coords=np.zeros((3, 2), dtype=int), counts=counts)
    with refused("counts"):
        small_posterior().log_ppd(test, positive_only=True)


@pytest.mark.parametrize("bad", [-3, np.nan])
def test_ppd_of_positive_cells_does_not_pass_over_impossible_counts(bad):
    test = SimpleNamespace(coords=np.zeros((3, 2), dtype=int), counts=np.array([1, bad]))
    with refused("counts"):
        small_posterior().log_ppd(test, positive_only=True)


@pytest.mark.parametrize(
    ("name", "value"), [("draw", 3), ("draw", -4), ("draw", 1.0), ("draw", "last"), ("chain", 2), ("chain", "0")]
)
def test_a_draw_or_chain_that_does_not_exist_is_named(name, value):
    with refused(name, value):
        small_posterior().classes(**{name: value})


@pytest.mark.parametrize("top", [0, -1, "3", 1.5])
def test_a_number_of_labels_that_is_no_positive_whole_number_is_refused(top):
    with refused("top", top):
        small_posterior().classes(-1, top=top)


# Classes


def three_classes(value_Q=(2.0, 3.0, 1.0), labels=True):
    """Three classes of a 3 x 2 tensor; the first and the last lie at one location, (1, 0)."""
    phi_0 = np.array([[0.0, 8.0, 1.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    phi_1 = np.array([[0.5, 3.0], [1.5, 1.0]])
    names = [["Ada", "Bo", "Cy"], ["x", "y"]] if labels else None
    tensor = ac.as_tensor(np.ones((3, 2), dtype=int), mode_names=["who", "what"], labels=names)
    return Posterior(
        Record(
            tensor,
            Spec(3, (3, 2)),
            Schedule(0, 2, 1),
            0,
            core_values=np.array([[[1.0, 1.0, 1.0], value_Q]]),
            core_locations=np.array([[[[2, 1]] * 3, [[1, 0], [2, 1], [1, 0]]]]),
            factors=(np.array([[phi_0, phi_0]]), np.array([[phi_1, phi_1]])),
            stats={
                "log_likelihood": np.zeros((1, 2)),
                "classes": np.array([[1, 2]]),
                "factors": np.ones((1, 2, 2), dtype=int),
            },
        )
    )


def test_classes_at_one_location_are_one_and_values_are_expected_counts():
    table = three_classes().classes(-1)
    # At (1, 0): core 2 + 1, factors that add up to 10 and 2. At (2, 1): core 3, factors that add up to 3 and 4.
    assert table["value"].tolist() == pytest.approx([60.0, 36.0])
    assert table["share"].tolist() == pytest.approx([60 / 96, 36 / 96])
    assert table["who_factor"].tolist() == [1, 2]
    assert table["what_factor"].tolist() == [0, 1]
    assert table.index.tolist() == [0, 1]
    assert table.index.name == "class"
    numbers = ["value", "share", "cumulative", "stability", "stable_chains"]
    columns = ["who_factor", "what_factor", "who_top", "what_top", "who_shared", "what_shared"]
    assert list(table.columns) == [*numbers, *columns]


def test_the_largest_class_comes_first():
    table = three_classes(value_Q=(1.0, 30.0, 1.0)).classes(-1)
    assert table["value"].tolist() == pytest.approx([360.0, 40.0])
    assert table["who_factor"].tolist() == [2, 1]


def test_factors_are_described_by_labels_and_their_shares():
    table = three_classes().classes(-1)
    assert table["who_top"].tolist() == ["Ada 80%, Bo 10%, Cy 10%", "evenly over all 3"]
    assert table["what_top"].tolist() == ["y 75%, x 25%", "x 75%, y 25%"]


def test_modes_without_labels_are_described_by_name_and_position():
    table = three_classes(labels=False).classes(-1, top=1)
    assert table["who_top"].tolist() == ["who 0 80%", "evenly over all 3"]
    assert table["what_top"].tolist() == ["what 1 75%", "what 0 75%"]


@pytest.mark.parametrize(("top", "words"), [(1, "Ada 80%"), (2, "Ada 80%, Bo 10%"), (9, "Ada 80%, Bo 10%, Cy 10%")])
def test_top_is_the_largest_number_of_labels_of_a_factor(top, words):
    assert three_classes().classes(-1, top=top)["who_top"][0] == words


def test_any_draw_of_any_chain_has_a_table():
    post = three_classes()
    first = post.classes(draw=0)
    assert first["who_factor"].tolist() == [2]
    assert first["value"].tolist() == [36.0]
    assert first["share"].tolist() == [1.0]
    assert post.classes(-2, chain=-1).equals(first)
    several = small_posterior(chains=2, draws=3)
    assert several.classes(-1, chain=1).equals(several.classes(2, chain=-1))
    assert not several.classes(-1, chain=1).equals(several.classes(-1, chain=0))


def test_values_add_up_to_the_total_rate_of_the_draw():
    post = small_posterior(chains=2, draws=3)
    totals = dense_rates(post).sum(axis=(2, 3, 4))
    for chain, draw in np.ndindex(2, 3):
        table = post.classes(draw, chain=chain)
        assert table["value"].sum() == pytest.approx(totals[chain, draw], rel=1e-12)
        assert table["share"].sum() == pytest.approx(1.0, rel=1e-12)
        assert table["value"].is_monotonic_decreasing
        assert not table.duplicated([f"{name}_factor" for name in post.tensor.mode_names]).any()


@pytest.mark.parametrize("names", [("value", "share"), ("who", "who_top")])
def test_modes_may_be_named_like_columns_of_the_table(names):
    record = three_classes()._record
    tensor = record.tensor.with_labels(mode_names=names)
    table = Posterior(Record(**{**vars(record), "tensor": tensor})).classes(-1)
    assert len(set(table.columns)) == 11
    assert table["value"].max() == pytest.approx(60.0)


def test_a_factor_whose_values_underflow_causes_no_warning():
    record = three_classes()._record
    factors = (record.factors[0] * [1.0, 1.0, 0.0], record.factors[1])
    table = Posterior(Record(**{**vars(record), "factors": factors})).classes(-1)
    assert not table["who_top"].str.contains("nan").any()


# What a posterior is


def test_a_posterior_never_changes_when_its_model_is_fitted_again_or_set_otherwise():
    rng = np.random.default_rng(0)
    Y, other = rng.poisson(1.0, SHAPE), rng.poisson(3.0, SHAPE)
    model = ac.AlloCore(4, burn_in=2, draws=3, thin=1, seed=1, progress=False, chains=1).fit(Y)
    post = model.posterior_
    arrays = [post.core_values, post.core_locations, *post.factors, *post.stats.values()]
    before = [array.copy() for array in arrays]
    described = repr(post), post.seed, post.classes(-1), post.tensor
    Y[:] = 7
    model.set_params(budget=2, seed=9, draws=1)
    model.f0 = 0.5
    model.fit(other)
    assert model.posterior_ is not post
    assert model.posterior_.core_values.shape == (1, 1, 2)
    now = [post.core_values, post.core_locations, *post.factors, *post.stats.values()]
    assert all(a is b for a, b in zip(now[:2], arrays[:2], strict=True))
    assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(now, before, strict=True))
    assert (repr(post), post.seed) == described[:2]
    assert post.classes(-1).equals(described[2])
    assert post.tensor is described[3]
    assert 0 < post.tensor.counts.max() < 7


def test_arrays_are_read_only_and_the_list_of_factors_is_the_callers_own():
    post = small_posterior()
    for array in (post.core_values, post.core_locations, *post.factors, *post.stats.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    post.factors.clear()
    assert len(post.factors) == 3
    with pytest.raises(AttributeError):
        post.core_values = 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"chains": 1, "draws": 1, "budget": 1, "core_shape": (1, 2, 3)}, "1 chain of 1 draw, 1 class, core 1 x 2 x 3"),
        ({"chains": 2, "draws": 3}, "2 chains of 3 draws, 6 classes, core 3 x 2 x 4"),
    ],
)
def test_a_posterior_says_what_it_holds(settings, text):
    assert repr(small_posterior(**settings)) == f"Posterior: {text}"


# Some chains


def test_some_chains_predict_as_their_own_draws_do():
    post = small_posterior(chains=4)
    coords, counts = some_cells(SHAPE)
    kept = post.select_chains([2, -4])
    np.testing.assert_array_equal(kept.core_values, post.core_values[[2, 0]])
    np.testing.assert_array_equal(kept.stats["factors"], post.stats["factors"][[2, 0]])
    expected = dense_rates(post)[[2, 0]][:, :, *coords].mean(axis=(0, 1))
    np.testing.assert_allclose(kept.expected(coords), expected, rtol=1e-12)
    pooled = logsumexp([post.select_chains([n]).log_predictive(coords, counts) for n in range(4)], axis=0) - np.log(4)
    np.testing.assert_allclose(post.log_predictive(coords, counts), pooled, rtol=1e-12)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_some_chains_of_a_fit_are_a_posterior_like_any_other(likelihood, tmp_path):
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE))
    settings = {"burn_in": 1, "draws": 4, "thin": 1, "seed": 2, "likelihood": likelihood, "e0": "infer"}
    post = ac.AlloCore(3, chains=3, progress=False, **settings).fit(Y).posterior_
    kept = post.select_chains([1, 2])
    np.testing.assert_array_equal(kept.concentrations, post.concentrations[1:])
    assert "2 chains of 4 draws" in repr(kept)
    kept.save(tmp_path / "run.zarr")
    again = ac.open_run(tmp_path / "run.zarr")
    assert again.diagnose().table.equals(kept.diagnose().table)
    assert kept.classes(chain=0)["value"].tolist() == post.classes(chain=1)["value"].tolist()


@pytest.mark.parametrize(
    ("chains", "rule"), [([4], "from -4 to 3"), ([], "one or more"), (2, "one or more"), ([1, -3], "a chain twice")]
)
def test_chains_that_do_not_exist_are_named(chains, rule):
    with refused("chains", chains, rule):
        small_posterior(chains=4).select_chains(chains)


@pytest.mark.parametrize("chains", [["a"], [0.5]])
def test_chains_that_are_not_numbers_are_refused(chains):
    with refused("chains"):
        small_posterior(chains=4).select_chains(chains)


def test_a_posterior_survives_a_pickle_and_a_copy():
    post = (
        ac.CP(2, burn_in=0, draws=2, thin=1, seed=1, progress=False, chains=1)
        .fit(np.ones((3, 2), dtype=int))
        .posterior_
    )
    for again in (pickle.loads(pickle.dumps(post)), copy.deepcopy(post)):
        assert again.core_values.tobytes() == post.core_values.tobytes()
        assert again.stats.keys() == post.stats.keys()
        assert again.tensor == post.tensor


def test_shares_are_of_the_observed_cells():
    """One class whose factors lie on a masked diagonal for the most part: only the rest of it counts."""
    phi = np.array([[[[9.0], [1.0]]]])
    tensor = ac.CountTensor([[0, 1], [1, 0]], [1, 1], (2, 2)).mask_diagonal()
    record = Record(
        tensor,
        Spec(1, (1, 1)),
        Schedule(0, 1, 1),
        0,
        core_values=np.ones((1, 1, 1)),
        core_locations=np.zeros((1, 1, 1, 2), dtype=int),
        factors=(phi, phi.copy()),
        stats={
            "log_likelihood": np.zeros((1, 1)),
            "classes": np.ones((1, 1), dtype=int),
            "factors": np.ones((1, 1, 2), dtype=int),
        },
    )
    assert Posterior(record).classes(-1)["value"].tolist() == pytest.approx([18.0])


def test_a_split_in_place_of_its_test_set_is_named():
    split = ac.hold_out(np.ones((4, 3), dtype=int), 0.3)
    post = ac.CP(1, burn_in=0, draws=1, thin=1, seed=1, progress=False, chains=1).fit(split.train).posterior_
    with refused("test", rule="split.test") as caught:
        post.ppd(split)
    assert "Split" in str(caught.value.value)

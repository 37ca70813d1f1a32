"""The three models: they fit tensors of every kind, store what they are given, and name what is wrong with it."""

import inspect
import re

import numpy as np
import pytest
import pyttb
import scipy.sparse
import sparse

import allocore as ac
from allocore.errors import InputError
from support import cases
from support.errors import refused

SCHEDULE = {"burn_in": 2, "draws": 2, "thin": 1, "chains": 1}
QUICK = {"likelihood": "poisson", **SCHEDULE, "seed": 1, "threads": 1, "progress": False}
SMALL = np.random.default_rng(4).poisson(1.0, (4, 3, 2))


def data(modes):
    return np.random.default_rng(modes).poisson(1.0, cases.SHAPES[modes])


def allocore(budget=4, core_shape=None, **settings):
    return ac.AlloCore(budget, core_shape, **{**QUICK, **settings})


def as_bytes(post):
    arrays = [post.core_values, post.core_locations, *post.factors]
    arrays += [post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved")]
    return [array.tobytes() for array in arrays]


def total_rates(post):
    """The rate of the whole tensor under each draw, (chain, draw), as products of column sums."""
    rates = post.core_values.copy()
    for mode, factor in enumerate(post.factors):
        rates *= np.take_along_axis(factor.sum(axis=2), post.core_locations[..., mode], axis=2)
    return rates.sum(axis=2)


def assert_sound(post, budget, core_shape):
    """Shapes as promised, values positive and finite, factors of unused columns zero."""
    shape = post.tensor.shape
    lead = post.core_values.shape[:2]
    assert post.core_values.shape == (*lead, budget)
    assert post.core_locations.shape == (*lead, budget, len(shape))
    assert [factor.shape for factor in post.factors] == [(*lead, d, k) for d, k in zip(shape, core_shape, strict=True)]
    assert (post.core_values > 0).all()
    assert np.isfinite(post.core_values).all()
    assert (post.core_locations >= 0).all()
    assert (post.core_locations < core_shape).all()
    assert np.isfinite(post.stats["log_likelihood"]).all()
    for mode, factor in enumerate(post.factors):
        assert np.isfinite(factor).all()
        for chain, draw in np.ndindex(*lead):
            used = np.isin(np.arange(core_shape[mode]), post.core_locations[chain, draw, :, mode])
            assert (factor[chain, draw][:, used] > 0).all()
            assert (factor[chain, draw][:, ~used] == 0).all()


# Tensors and cores of every kind


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
def test_allocore_fits_tensors_of_any_number_of_modes(modes):
    post = allocore(3).fit(data(modes)).posterior_
    assert_sound(post, 3, (3,) * modes)


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
def test_cp_keeps_its_classes_on_the_diagonal(modes):
    post = ac.CP(3, **QUICK).fit(data(modes)).posterior_
    assert_sound(post, 3, (3,) * modes)
    assert (post.core_locations == np.arange(3)[:, None]).all()
    assert (post.stats["moved"] == 0).all()


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
def test_tucker_has_a_class_on_every_location_and_keeps_it_there(modes):
    core_shape = (2, 3, 1, 2, 1, 1)[:modes]
    post = ac.Tucker(core_shape, **QUICK).fit(data(modes)).posterior_
    assert_sound(post, int(np.prod(core_shape)), core_shape)
    assert (post.core_locations == np.array(list(np.ndindex(*core_shape)))).all()
    assert (post.stats["moved"] == 0).all()


@pytest.mark.parametrize(
    ("budget", "core_shape"),
    [
        (1, None),
        (1, (1, 1, 1)),
        (1, (5, 1, 3)),
        (4, (1, 1, 1)),
        (4, (1, 4, 2)),
        (9, (2, 3, 2)),
        (30, (2, 2, 2)),
        (2, (7, 6, 5)),
        (3, [2, 3, 4]),
        (3, np.array([4, 1, 2])),
    ],
)
def test_cores_of_any_shape_may_hold_any_number_of_classes(budget, core_shape):
    post = allocore(budget, core_shape).fit(SMALL).posterior_
    assert_sound(post, budget, (budget,) * 3 if core_shape is None else tuple(core_shape))


@pytest.mark.parametrize("model", [allocore(3), ac.CP(3, **QUICK), ac.Tucker((2, 1, 2), **QUICK)], ids=repr)
@pytest.mark.parametrize("count", [1, 40])
def test_one_non_zero_is_enough(model, count):
    Y = ac.CountTensor([[2], [0], [1]], [count], (3, 2, 2))
    post = model.fit(Y).posterior_
    assert (post.core_values > 0).all()
    assert np.isfinite(post.stats["log_likelihood"]).all()
    assert (post.stats["classes"] >= 1).all()


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_an_empty_slice_is_data_and_its_rates_are_small(mode):
    Y = np.random.default_rng(1).poisson(5.0, (4, 4, 4))
    Y[(slice(None),) * mode + (2,)] = 0
    post = allocore(2, burn_in=20, draws=10).fit(Y).posterior_
    rates = post.expected(np.indices(Y.shape).reshape(3, -1)).reshape(Y.shape)
    by_slice = rates.sum(axis=tuple(m for m in range(3) if m != mode))
    assert (rates > 0).all()
    assert by_slice.argmin() == 2
    assert by_slice[2] < 0.2 * np.delete(by_slice, 2).min()


@pytest.mark.parametrize("model", [allocore(3), ac.CP(3, **QUICK), ac.Tucker((2, 2, 2), **QUICK)], ids=repr)
def test_counts_of_a_thousand_million_are_neither_lost_nor_overflow(model):
    Y = SMALL.copy()
    Y[1, 2, 0] = 10**9
    Y[3, 0, 1] = 2 * 10**9
    post = model.set_params(burn_in=15, draws=3).fit(Y).posterior_
    np.testing.assert_allclose(total_rates(post), Y.sum(), rtol=0.02)
    np.testing.assert_allclose(post.expected([[1, 3], [2, 0], [0, 1]]), [1e9, 2e9], rtol=0.02)
    for array in (post.core_values, *post.factors, post.stats["log_likelihood"]):
        assert np.isfinite(array).all()
    assert min(array.min() for array in (post.core_values, *post.factors)) >= 0


def test_a_fit_explains_the_total_of_the_counts():
    Y = np.random.default_rng(1).poisson(20.0, (5, 4, 3))
    post = allocore(3, burn_in=20, draws=20).fit(Y).posterior_
    assert total_rates(post).mean() == pytest.approx(Y.sum(), rel=0.1)


# What can be fitted


def test_everything_that_as_tensor_takes_can_be_fitted_and_gives_the_same(tmp_path):
    ac.as_tensor(SMALL).save(tmp_path / "y.npz")
    kinds = [
        SMALL,
        SMALL.astype(float),
        ac.as_tensor(SMALL),
        scipy.sparse.coo_array(SMALL),
        sparse.COO.from_numpy(SMALL),
        pyttb.tensor(SMALL.astype(float)).to_sptensor(),
        tmp_path / "y.npz",
        str(tmp_path / "y.npz"),
    ]
    found = {tuple(as_bytes(allocore().fit(Y).posterior_)) for Y in kinds}
    assert len(found) == 1


def test_a_scipy_matrix_can_be_fitted():
    post = allocore(2).fit(scipy.sparse.csr_matrix(SMALL[:, :, 0])).posterior_
    assert post.tensor.shape == (4, 3)


@pytest.mark.parametrize(
    ("Y", "named"),
    [
        (np.array([[1.0, -1.0]]), "-1"),
        (np.array([[0.5, 1.0]]), "0.5"),
        (np.array([[np.nan, 1.0]]), "NaN"),
        (np.zeros((2, 2), dtype=int), "positive count"),
        (np.ma.masked_all((2, 2), dtype=int), "positive count"),
        ([[1, 2]], "list"),
        ("nowhere.npz", "nowhere.npz"),
    ],
)
def test_what_cannot_be_fitted_is_named(Y, named):
    with pytest.raises(InputError, match=re.escape(named)):
        allocore().fit(Y)


# Missing cells


def test_a_tensor_with_an_empty_set_of_missing_cells_is_one_without():
    Y = ac.as_tensor(SMALL)
    assert as_bytes(allocore().fit(Y.with_missing([])).posterior_) == as_bytes(allocore().fit(Y).posterior_)


@pytest.mark.parametrize("model", [allocore(3), ac.CP(3, **QUICK), ac.Tucker((2, 2, 2), **QUICK)], ids=repr)
def test_a_masked_diagonal_is_never_read(model):
    one = np.random.default_rng(0).poisson(1.0, (5, 5, 2))
    other = one.copy()
    one[np.arange(5), np.arange(5)] = 0
    other[np.arange(5), np.arange(5)] = 10**6
    found = [as_bytes(model.fit(ac.as_tensor(Y).mask_diagonal()).posterior_) for Y in (one, other)]
    assert found[0] == found[1]
    assert found[0] != as_bytes(model.fit(one).posterior_)


def test_masked_cells_of_an_array_are_missing():
    masked = np.ma.masked_array(SMALL, mask=np.zeros(SMALL.shape, dtype=bool))
    masked[1, 1, :] = np.ma.masked
    expected = ac.as_tensor(SMALL).with_missing([(1, 1, 0), (1, 1, 1)])
    assert as_bytes(allocore().fit(masked).posterior_) == as_bytes(allocore().fit(expected).posterior_)


@pytest.mark.parametrize("patterns", [[(None, None, None)], [(0, None, None), (1, None, None), (None, 0, None)]])
def test_a_tensor_of_which_all_cells_are_missing_is_refused(patterns):
    Y = ac.CountTensor([[0, 1], [0, 0], [0, 1]], [1, 2], (2, 1, 2))
    with refused("counts"):
        allocore().fit(Y.with_missing(patterns))


# Seeds


def test_without_a_seed_one_is_recorded_that_gives_the_same_draws_again():
    first, second = (allocore(seed=None).fit(SMALL).posterior_ for _ in range(2))
    assert first.seed != second.seed
    assert as_bytes(first) != as_bytes(second)
    assert as_bytes(allocore(seed=first.seed).fit(SMALL).posterior_) == as_bytes(first)


@pytest.mark.parametrize("seed", [0, 2**32, 2**64, 2**200, np.int64(5)])
def test_any_whole_number_is_a_seed_and_different_ones_give_different_draws(seed):
    post = allocore(seed=seed).fit(SMALL).posterior_
    assert post.seed == seed
    assert as_bytes(post) == as_bytes(allocore(seed=int(seed)).fit(SMALL).posterior_)
    assert as_bytes(post) != as_bytes(allocore(seed=int(seed) + 1).fit(SMALL).posterior_)


def test_a_model_may_be_fitted_again_and_gives_the_same():
    model = allocore()
    assert model.fit(SMALL) is model
    first = model.posterior_
    assert as_bytes(model.fit(SMALL).posterior_) == as_bytes(first)


# Settings

DEFAULTS = {
    "a0": 1.0,
    "b0": 1.0,
    "e0": 1.0,
    "f0": 10.0,
    "s0": 1.0,
    "t0": 1.0,
    "likelihood": "auto",
    "dispersion_by": None,
    "modes": None,
    "tied": None,
    "g0": 1.0,
    "h0": 1.0,
    "sweeps": "auto",
    "burn_in": None,
    "draws": None,
    "thin": None,
    "chains": "auto",
    "max_sweeps": None,
    "max_chains": None,
    "max_time": None,
    "quick": False,
    "seed": None,
    "threads": None,
    "store": None,
    "executor": None,
    "progress": True,
}
MODELS = [
    (ac.AlloCore, {}, {"budget": 100, "core_shape": None, "alpha0": 0.1, "max_budget": 400, "c0": 1.0, "d0": 1.0}),
    (ac.CP, {"rank": 3}, {"rank": 3}),
    (ac.Tucker, {"core_shape": (2, 2, 2)}, {"core_shape": (2, 2, 2)}),
]


@pytest.mark.parametrize(("kind", "given", "own"), MODELS)
def test_get_params_has_all_settings_and_a_model_can_be_made_from_them(kind, given, own):
    model = kind(**given)
    assert model.get_params() == {**DEFAULTS, **own}
    assert set(model.get_params()) == set(inspect.signature(kind).parameters)
    again = kind(**{**model.get_params(), "seed": 4})
    assert again.get_params() == {**model.get_params(), "seed": 4}


@pytest.mark.parametrize(("kind", "given", "own"), MODELS)
def test_set_params_changes_settings_by_name_and_returns_the_model(kind, given, own):
    model = kind(**given)
    assert model.set_params(burn_in=7, a0=2.5) is model
    assert model.get_params() == {**DEFAULTS, **own, "burn_in": 7, "a0": 2.5}


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with refused("params", "rank", "'budget'"):
        ac.AlloCore().set_params(rank=3)
    with pytest.raises(TypeError, match="nonsense"):
        ac.AlloCore(nonsense=1)


@pytest.mark.parametrize("kind", [ac.AlloCore, ac.CP, ac.Tucker])
def test_priors_and_run_settings_go_by_name_only(kind):
    kinds = {name: parameter.kind for name, parameter in inspect.signature(kind).parameters.items()}
    by_position = {name for name, each in kinds.items() if each is not inspect.Parameter.KEYWORD_ONLY}
    assert by_position == {ac.AlloCore: {"budget", "core_shape"}, ac.CP: {"rank"}, ac.Tucker: {"core_shape"}}[kind]


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (ac.AlloCore(), "AlloCore()"),
        (ac.AlloCore(100, (3, 4), seed=None), "AlloCore(core_shape=(3, 4))"),
        (ac.AlloCore(50, seed=3, alpha0=0.5), "AlloCore(seed=3, budget=50, alpha0=0.5)"),
        (ac.CP(4), "CP(rank=4)"),
        (ac.Tucker((2, 3), f0=1.0), "Tucker(f0=1.0, core_shape=(2, 3))"),
    ],
)
def test_a_model_says_what_was_set(model, text):
    pieces = re.compile(r"\(|, (?=\w+=)|\)$")
    assert sorted(pieces.split(repr(model))) == sorted(pieces.split(text)), "in whatever order"
    again = eval(repr(model), {"AlloCore": ac.AlloCore, "CP": ac.CP, "Tucker": ac.Tucker})
    assert again.get_params() == model.get_params()


@pytest.mark.parametrize("kind", [lambda shape: ac.AlloCore(3, shape), ac.Tucker], ids=["AlloCore", "Tucker"])
def test_a_model_whose_core_shape_is_an_array_says_what_was_set(kind):
    assert "core_shape" in repr(kind(np.array([2, 2, 2])))


BAD = {
    "budget": [0, -1, 1.5, "3", True, None],
    "core_shape": [(2, 2), (2, 0, 2), "2x2x2", (1.5, 2, 2), 7],
    "a0": [0, -1.0, np.nan, np.inf, "1", None],
    "b0": [0],
    "e0": [-1],
    "f0": [np.nan],
    "alpha0": [0.0],
    "burn_in": [-1, 1.5],
    "draws": [0, 2.0],
    "thin": [0, "2"],
    "chains": [0, -3, 1.5, None, True],
    "threads": [0, -1, 1.5, "2"],
    "seed": [-1, 1.5, "7", True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_model_stores_whatever_it_is_given_and_fit_names_what_is_wrong(name, value):
    model = ac.AlloCore(**{**QUICK, "budget": 3, name: value})
    assert model.get_params()[name] is value
    assert getattr(model, name) is value
    with refused(name):
        model.fit(SMALL)
    assert not hasattr(model, "posterior_")


@pytest.mark.parametrize("value", [0, -2, 1.5, "3", None, True])
def test_cp_names_a_rank_that_is_no_positive_whole_number(value):
    with refused("rank", value):
        ac.CP(value, **QUICK).fit(SMALL)


@pytest.mark.parametrize("kind", [lambda: ac.AlloCore(), lambda: ac.CP(2), lambda: ac.Tucker((2, 2))])
def test_a_model_that_was_not_fitted_has_no_posterior_and_says_so(kind):
    model = kind()
    with pytest.raises(AttributeError, match=rf"^this {type(model).__name__} has no posterior_ yet: call fit first$"):
        model.posterior_  # noqa: B018


def test_a_fit_changes_no_setting():
    model = ac.AlloCore(3, [2, 3, 2], **{**QUICK, "seed": None, "threads": None})
    before = model.get_params()
    model.fit(SMALL)
    assert model.get_params() == before
    assert model.core_shape == [2, 3, 2]

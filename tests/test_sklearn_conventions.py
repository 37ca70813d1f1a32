"""The estimators behave as scikit-learn's users expect, and need no scikit-learn for it."""

import copy
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import allocore as ac
from allocore.errors import NotFittedError
from support.errors import refused

CHAIN = {"burn_in": 2, "draws": 2, "thin": 1, "seed": 1, "threads": 1, "progress": False, "chains": 1}
SMALL = np.random.default_rng(4).poisson(1.0, (4, 3, 2))
MODELS = {
    "AlloCore": lambda **more: ac.AlloCore(3, **{**CHAIN, **more}),
    "CP": lambda **more: ac.CP(3, **{**CHAIN, **more}),
    "Tucker": lambda **more: ac.Tucker((2, 1, 2), **{**CHAIN, **more}),
    "NNTuck": lambda **more: ac.NNTuck((2, 1, 2), restarts=2, max_iter=5, seed=1, threads=1, progress=False, **more),
}


@pytest.fixture(params=MODELS)
def make(request):
    return MODELS[request.param]


@pytest.fixture(scope="module")
def fitted():
    """Each model, fitted once."""
    return {name: make().fit(SMALL) for name, make in MODELS.items()}


def as_bytes(model):
    post = model.posterior_
    return [array.tobytes() for array in (post.core_values, post.core_locations, *post.factors)]


@pytest.mark.parametrize("name", MODELS)
def test_fit_takes_a_target_that_changes_nothing(name, fitted):
    first, second, *others = inspect.signature(MODELS[name]().fit).parameters.values()
    assert (first.name, second.name) == ("Y", "y")
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY and not each.default for each in others)
    assert as_bytes(MODELS[name]().fit(SMALL, np.arange(4))) == as_bytes(fitted[name])
    assert as_bytes(MODELS[name]().fit(SMALL, y=None)) == as_bytes(fitted[name])


@pytest.mark.parametrize("name", MODELS)
def test_a_clone_has_the_settings_and_not_the_fit(name, fitted):
    again = clone(fitted[name])
    assert type(again) is type(fitted[name])
    assert again.get_params() == fitted[name].get_params()
    assert not hasattr(again, "posterior_")


@pytest.mark.parametrize("name", ["AlloCore", "Tucker", "NNTuck"])
def test_a_clone_has_a_copy_of_a_core_shape_that_is_a_list(name):
    model = MODELS[name]().set_params(core_shape=[2, 1, 2])
    again = clone(model)
    again.core_shape.append(7)
    assert model.core_shape == [2, 1, 2]


def test_a_model_that_was_not_fitted_raises_the_error_of_scikit_learn(make):
    for name in make()._fitted:
        with pytest.raises(SklearnNotFittedError, match=f"has no {name} yet: call fit first$") as caught:
            getattr(make(), name)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize("name", MODELS)
def test_check_is_fitted_recognises_a_fitted_model(name, fitted):
    check_is_fitted(fitted[name])
    check_is_fitted(fitted[name], "posterior_")
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(MODELS[name]())


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_leaves_no_result_of_the_fit_before(name):
    model = MODELS[name]().fit(SMALL)
    with refused("counts"):
        model.fit(-SMALL)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(model)


def test_the_tags_say_what_goes_in(make):
    tags = get_tags(make())
    assert not tags.target_tags.required
    assert tags.requires_fit
    assert (tags.estimator_type, tags.transformer_tags) == (None, None)
    assert tags.input_tags.sparse
    assert tags.input_tags.positive_only
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.allow_nan
    assert not tags.non_deterministic


def test_without_a_seed_the_tags_say_that_fits_differ(make):
    assert get_tags(make().set_params(seed=None)).non_deterministic


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_models_can_be_copied_and_pickled_before_and_after_a_fit(name, copied, fitted):
    before = copied(MODELS[name]())
    assert before.get_params() == MODELS[name]().get_params()
    assert not hasattr(before, "posterior_")
    after = copied(fitted[name])
    assert after.get_params() == fitted[name].get_params()
    assert as_bytes(after) == as_bytes(fitted[name])
    np.testing.assert_array_equal(
        after.posterior_.expected([[0], [1], [1]]), fitted[name].posterior_.expected([[0], [1], [1]])
    )


def test_an_unfitted_error_can_be_pickled():
    with pytest.raises(AttributeError) as caught:
        ac.CP(2).posterior_  # noqa: B018
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_set_params_with_an_unknown_name_changes_nothing(make):
    model = make()
    before = model.get_params()
    with refused("params", "nonsense"):
        model.set_params(seed=99, nonsense=1)
    assert model.get_params() == before


@pytest.mark.parametrize("deep", [True, False])
def test_get_params_is_a_copy_that_makes_the_same_model_again(make, deep):
    model = make()
    params = model.get_params(deep=deep)
    assert type(model)(**params).get_params() == params
    params["seed"] = 99
    assert model.seed == 1


def test_a_model_in_a_pipeline_is_fitted_on_what_comes_through():
    model = Pipeline([("same", "passthrough"), ("model", MODELS["CP"]())]).fit(SMALL[:, :, 0])
    assert model["model"].posterior_.tensor.shape == (4, 3)


def printed_without_sklearn(code):
    hidden = "import sys; sys.modules['sklearn'] = sys.modules['sklearn.exceptions'] = None\n"
    return subprocess.run(
        [sys.executable, "-c", hidden + code], capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_without_scikit_learn_the_error_is_still_both_a_value_and_an_attribute_error():
    assert issubclass(NotFittedError, ValueError)
    assert issubclass(NotFittedError, AttributeError)
    code = "import allocore as ac\ntry: ac.CP(2).posterior_\nexcept Exception as error: print(type(error).__mro__[:3])"
    (printed,) = printed_without_sklearn(code)
    assert printed == "(<class 'allocore.errors.NotFittedError'>, <class 'ValueError'>, <class 'AttributeError'>)"


@pytest.mark.slow
def test_a_model_never_loads_scikit_learn_by_itself():
    code = (
        "import sys, numpy as np, allocore as ac\n"
        "model = ac.CP(2, burn_in=0, draws=1, thin=1, chains=1, progress=False)\n"
        "hasattr(model, 'posterior_'), repr(model), model.fit(np.ones((2, 2), int)).get_params()\n"
        "print('sklearn' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"

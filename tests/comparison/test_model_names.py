"""The names of models say their likelihood and what they learn; defaults fill in what a name leaves open."""

import numpy as np
import pytest

from allocore.comparison.models import Defaults, ModelName, printed
from support.comparison_cases import named, small_tensor
from support.errors import refused

Y = small_tensor()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("allocore", "allocore", ("ALL0CORE", "")),
        ("allocore-poisson", "allocore", ("ALL0CORE", "")),
        ("cp-nb", "cp-nb", ("CP", "negative binomial")),
        ("cp-negative-binomial", "cp-nb", ("CP", "negative binomial")),
        ("tucker-bernoulli-e0", "tucker-bernoulli-e0", ("Tucker", "Bernoulli, e0 learned")),
        ("allocore-e0", "allocore-e0", ("ALL0CORE", "e0 learned")),
        (
            "allocore-nb-e0-by-who-e0",
            "allocore-nb-e0-by-who-e0",
            ("ALL0CORE", "negative binomial, p by who-e0, e0 learned"),
        ),
        ("nntuck", "nntuck", ("NNTuck", "")),
    ],
)
def test_a_name_has_one_shortest_form_and_one_in_words(name, text, told):
    found = ModelName.parse(name)
    assert found.text == text
    assert ModelName.parse(found.text).text == text
    assert printed(name) == told


def test_defaults_are_for_what_a_name_leaves_open():
    names = ["allocore", "cp-poisson", "tucker-e0", "nntuck"]
    assert Defaults("negative-binomial").named(names, Y) == ["allocore-nb", "cp", "tucker-nb-e0", "nntuck"]
    assert Defaults(e0="infer").named(names, Y) == ["allocore-e0", "cp-e0", "tucker-e0", "nntuck"]
    by = Defaults("negative-binomial", dispersion_by=1)
    assert by.named(names[:2], Y) == ["allocore-nb-by-whom", "cp"]
    assert Defaults(dispersion_by="who").named(["cp-nb", "cp-nb-by-2"], Y) == ["cp-nb-by-who", "cp-nb-by-when"]
    assert Defaults(e0=np.array([0.1, 0.2, 1.0])).named(["cp"], Y) == ["cp"]


def test_endings_come_in_any_order():
    names = ["allocore-nb-by-whom-e0", "allocore-by-1-e0-nb", "allocore-e0-by-whom-negative-binomial"]
    assert Defaults().named(names, Y) == ["allocore-nb-e0-by-whom"] * 3
    assert Defaults().named(["cp-e0-nb", "cp-e0-poisson"], Y) == ["cp-nb-e0", "cp-e0"]
    renamed = Y.with_labels({}, ["who-e0", "nb", "when"])
    names = ["cp-nb-by-who-e0", "cp-nb-by-who-e0-e0", "cp-nb-by-nb"]
    assert Defaults().named(names, renamed) == ["cp-nb-by-who-e0", "cp-nb-e0-by-who-e0", "cp-nb-by-nb"]


def test_bernoulli_models_take_binary_data_beside_all_others():
    names = ["allocore-bernoulli", "allocore", "cp-nb", "nntuck"]
    assert Defaults().named(names, Y.binarize()) == names
    with refused("likelihood"):
        Defaults().named(names, Y)


@pytest.mark.parametrize(
    "name",
    [
        "allocore-gamma", "allocorenb", "allocore-nb-by-", "allocore-nb-poisson", "cp-e0-nb-e0", "cp-nb-e0-by-who-e0",
        "cp-bernoulli-by-who-nb", "nntuck-nb", "cp-by-who", "cp=2x2x2", "tucker=2x?", "pca",
    ],
)  # fmt: skip
def test_a_name_that_makes_no_sense_is_refused(name):
    with refused("models") as caught:
        named([name])
    assert caught.value.value in (name, name.removesuffix("-e0"))


@pytest.mark.parametrize(
    ("names", "defaults", "argument"),
    [
        (["cp-nb-by-why"], {}, "models"),
        ([], {}, "models"),
        (["nntuck"], {"likelihood": "bernoulli"}, "likelihood"),
        (["cp-nb"], {"likelihood": "bernoulli"}, "likelihood"),
        (["cp"], {"dispersion_by": "who"}, "dispersion_by"),
        (["cp-nb"], {"dispersion_by": 7}, "dispersion_by"),
        (["nntuck"], {"e0": "infer"}, "e0"),
        (["cp-e0"], {"e0": 0.5}, "e0"),
        (["cp"], {"core_shape": (2, 2, 2)}, "core_shape"),
    ],
)
def test_defaults_that_no_model_can_use_are_refused(names, defaults, argument):
    with refused(argument):
        named(names, **defaults)


@pytest.mark.parametrize("wrong", [{"likelihood": "gamma"}, {"likelihood": "nb"}, {"e0": (1, 2)}, {"e0": "learn"}])
def test_defaults_are_checked(wrong):
    with refused(*next(iter(wrong.items()))):
        named(["cp"], **wrong)


def test_names_become_estimators():
    found = named(
        ["allocore-nb", "allocore-nb=2x2x3", "tucker", "tucker=2x2x2", "nntuck", "cp-e0"], core_shape=(3, 3, 3)
    )
    assert [[each.core_shape for each in found[name]] for name in ("allocore-nb", "tucker", "nntuck")] == [
        [(3, 3, 3), (2, 2, 3)], [None, (2, 2, 2)], [None]
    ]  # fmt: skip
    assert found["allocore-nb"][0].likelihood == "negative-binomial"
    assert found["cp-e0"][0].e0 == "infer"

"""The names of models say their likelihood and what they learn; defaults fill in what a name leaves open."""

import numpy as np
import pytest
from comparison_cases import small_tensor

import allocore as ac
from allocore.comparison.model_names import Defaults, ModelName, printed

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
    assert Defaults().named(names, Y.binary()) == names
    with pytest.raises(
        ac.InputError, match=r"^likelihood is 'bernoulli' \(allocore-bernoulli\), but the tensor has counts"
    ):
        Defaults().named(names, Y)


@pytest.mark.parametrize(
    ("names", "defaults", "message"),
    [
        (["allocore-gamma"], {}, "models has 'allocore-gamma', but every model must be one of"),
        (["allocorenb"], {}, "models has 'allocorenb', but every model must be one of"),
        (["allocore-nb-by-"], {}, "models has 'allocore-nb-by-', but every model must be one of"),
        (["allocore-nb-poisson"], {}, "models has 'allocore-nb-poisson', but every model must be one of"),
        (["cp-e0-nb-e0"], {}, "models has 'cp-e0-nb-e0', but every model must be one of"),
        (["cp-nb-e0-by-who-e0"], {}, "models has 'cp-nb-e0-by-who-e0', but every model must be one of"),
        (["cp-bernoulli-by-who-nb"], {}, "models has 'cp-bernoulli-by-who-nb', but every model must be one of"),
        (["nntuck-nb"], {}, "models has 'nntuck-nb', but NNTuck is fitted by maximum likelihood: it is Poisson"),
        (["cp-by-who"], {}, "models has 'cp-by-who', but only the negative binomial has a dispersion: cp-nb-by-who"),
        (["cp-nb-by-why"], {}, "models has a dispersion by 'why', but it must be a mode of the tensor, one of ['who',"),
        (["cp"], {"likelihood": "gamma"}, "likelihood is 'gamma', but it must be one of ['poisson',"),
        (
            ["cp"],
            {"likelihood": "nb"},
            "likelihood is 'nb', but it must be one of ['poisson', 'negative-binomial',",
        ),
        (["nntuck"], {"likelihood": "bernoulli"}, "likelihood is 'bernoulli', but no model uses it"),
        (["cp-nb"], {"likelihood": "bernoulli"}, "likelihood is 'bernoulli', but no model uses it"),
        (["cp"], {"dispersion_by": "who"}, "dispersion_by is 'who', but no model uses it: it needs one such as"),
        (["cp-nb"], {"dispersion_by": 7}, "dispersion_by is 7, but it must be a mode of the tensor, one of ['who',"),
        (["nntuck"], {"e0": "infer"}, "e0 is 'infer', but no model uses it: NNTuck has no e0"),
        (["cp-e0"], {"e0": 0.5}, "e0 is 0.5, but no model uses it"),
        (["cp"], {"e0": (1, 2)}, "e0 (1.0, 2.0) has 2 entries, but the tensor has 3 modes: one per mode"),
        (["cp"], {"e0": "learn"}, "e0 is 'learn', but it must be a number, one number per mode, or 'infer'"),
    ],
)
def test_names_and_defaults_that_make_no_sense_are_one_sentence(names, defaults, message):
    with pytest.raises(ac.InputError) as caught:
        Defaults(**defaults).named(names, Y)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)

"""What is given for single modes: core shape, concentrations and exposures, and what is wrong with them."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.model.modes import checked_exposure
from support.errors import refused

TENSOR = ac.CountTensor(
    np.array([[0, 1, 2, 1], [0, 1, 1, 0]]), [3, 1, 2, 5], (3, 2), mode_names=("country", "month"),
    labels=(["France", "Ghana", "Peru"], ["2001-01", "2001-02"]),
)  # fmt: skip
LABELS = TENSOR.labels[0]


def spec_of(model):
    return model._spec(TENSOR)


@pytest.mark.parametrize(
    "given",
    [
        [1, 2.5, 4],
        np.array([1.0, 2.5, 4.0]),
        {"Ghana": 2.5, "Peru": 4, "France": 1},
        pd.Series([4.0, 1.0, 2.5], index=["Peru", "France", "Ghana"]),
    ],
    ids=["list", "array", "dict", "series"],
)
def test_weights_are_taken_in_the_order_of_the_labels(given):
    assert checked_exposure(given, LABELS, "country").tolist() == [1.0, 2.5, 4.0]


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ([1, 2], "exposure"),
        ([[1, 2, 3]], "exposure"),
        ([1, 0, 2], "exposure"),
        ([1, -1, 2], "exposure"),
        ([1, np.nan, 2], "exposure"),
        ([1, np.inf, 2], "exposure"),
        ([1, 1e-300, 2], "exposure"),
        ([1, "many", 2], "exposure"),
        (5, "exposure"),
        ({"France": 1, "Ghana": 2}, "exposure"),
        ({"France": 1, "Ghana": 2, "Peru": 3, "Chile": 4}, "exposure"),
        ({"France": 1, "Ghana": -2, "Peru": 3}, "exposure"),
    ],
)
def test_weights_that_are_wrong_are_refused(given, argument):
    with refused(argument):
        checked_exposure(given, LABELS, "country")


def test_an_error_names_the_label_of_a_wrong_weight_and_those_without_one():
    with refused("exposure", "0 for 'Ghana'"):
        checked_exposure([1, 0, 2], LABELS, "country")
    with refused("exposure", rule="Ghana, Peru"):
        checked_exposure({"France": 1}, LABELS, "country")


@pytest.mark.parametrize(
    ("modes", "argument"),
    [
        ([ac.Mode()], "modes"),
        ({"month": 3}, "modes"),
        ({"contry": ac.Mode(exposure=[1, 2, 3])}, "modes"),
        ({"country": ac.Mode(), 0: ac.Mode()}, "modes"),
        ({"month": ac.Mode(e0=-1.0)}, "e0"),
        ({"month": ac.Mode(factors=0)}, "core_shape"),
    ],
)
def test_modes_that_are_wrong_are_refused(modes, argument):
    with refused(argument):
        spec_of(ac.AlloCore(4, modes=modes))


def test_what_modes_give_is_what_sequences_give():
    modes = {"month": ac.Mode(factors=2, e0=0.1)}
    assert spec_of(ac.AlloCore(4, modes=modes)) == spec_of(ac.AlloCore(4, (4, 2), e0=(1.0, 0.1)))
    assert spec_of(ac.AlloCore(4, (4, 2), e0=(1.0, 0.1), modes=modes)) == spec_of(ac.AlloCore(4, modes=modes))
    assert spec_of(ac.AlloCore(4, e0=0.5, modes=modes)).e0 == (0.5, 0.1)
    assert spec_of(ac.AlloCore("infer", max_budget=6, modes=modes)).core_shape == (6, 2)
    assert spec_of(ac.Tucker((3, 2), modes=modes)) == spec_of(ac.Tucker((3, 2), e0=(1.0, 0.1)))


@pytest.mark.parametrize(
    ("model", "argument"),
    [
        (ac.AlloCore(4, (4, 3), modes={"month": ac.Mode(factors=2)}), "core_shape"),
        (ac.AlloCore(4, e0=(1.0, 0.3), modes={"month": ac.Mode(e0=0.1)}), "e0"),
        (ac.AlloCore(4, e0="infer", modes={"month": ac.Mode(e0=0.1)}), "e0"),
        (ac.CP(4, modes={"month": ac.Mode(factors=2)}), "modes"),
        (ac.Tucker((2, 3), modes={"month": ac.Mode(factors=2)}), "core_shape"),
    ],
)
def test_what_is_given_twice_and_differently_is_refused(model, argument):
    with refused(argument):
        spec_of(model)


def test_exposures_are_by_mode_and_absent_where_none_is_given():
    spec = spec_of(ac.CP(2, modes={"month": ac.Mode(exposure=[1.0, 0.5])}))
    assert spec.exposures == ((), (1.0, 0.5))
    assert spec.exposure(0) is None
    assert spec_of(ac.CP(2, modes={"month": ac.Mode(e0=0.5)})).exposures == ()
    np.testing.assert_array_equal(spec.factor_rates(1, 2), [10.0, 20.0])
    np.testing.assert_array_equal(spec.factor_rates(0, 3), [10.0, 10.0, 10.0])


def test_a_mode_shows_only_what_is_given():
    assert repr(ac.Mode()) == "Mode()"
    assert repr(ac.Mode(factors=3, exposure=[1.0, 2.0])) == "Mode(factors=3, exposure=2 weights)"

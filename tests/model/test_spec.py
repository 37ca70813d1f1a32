"""Specifications: every bad setting is named with its value and its rule, and the classes start where they should."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import allocore as ac
from allocore.errors import whole_number
from allocore.model.spec import Spec, core_shape_for
from support.errors import refused

PRIORS = ["a0", "b0", "e0", "f0", "alpha0", "g0", "h0", "s0", "t0"]
NOT_COUNTS = [0, -1, 1.5, 2.0, "3", True, None, np.nan, np.float64(3), np.int64(0), np.bool_(True)]
TENSOR = np.ones((3, 2, 2), dtype=int)


@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
def test_a_budget_that_is_no_positive_whole_number_is_refused(value):
    with refused("budget", rule="whole number of at least 1") as caught:
        Spec(value, (2, 2))
    assert caught.value.value is value
    with refused("budget", rule="whole number of at least 1"):
        core_shape_for((3, 2), value, None)


@pytest.mark.parametrize("size", NOT_COUNTS, ids=repr)
def test_a_core_shape_with_an_entry_that_is_no_positive_whole_number_is_refused(size):
    with refused("core_shape", (2, size), rule="whole numbers of at least 1"):
        Spec(2, (2, size))
    with refused("core_shape", (2, size), rule="whole numbers of at least 1"):
        core_shape_for((3, 2), 2, (2, size))


@pytest.mark.parametrize("core_shape", [(), (2,), (2, 2, 2), [4] * 5])
def test_a_core_shape_of_the_wrong_length_is_refused(core_shape):
    with refused("core_shape", tuple(core_shape), rule="the tensor has 2 modes"):
        core_shape_for((3, 2), 2, core_shape)


@pytest.mark.parametrize("core_shape", ["2x2", "22", 2, 2.5, True])
def test_a_core_shape_that_is_no_sequence_is_refused(core_shape):
    with refused("core_shape", core_shape, rule="sequence"):
        core_shape_for((3, 2), 2, core_shape)


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_a_core_shape_may_be_any_sequence_and_none_is_the_budget_in_every_mode(kind):
    assert core_shape_for((3, 2, 9), 4, kind([2, 7, 1])) == (2, 7, 1)
    assert core_shape_for((3, 2, 9), 4, None) == (4, 4, 4)


@pytest.mark.parametrize("core_shape", ["2x2x2", (2, 2), (2, 0, 2), (2, "2", 2), 8], ids=repr)
def test_tucker_names_a_core_shape_it_cannot_use(core_shape):
    with refused("core_shape", core_shape):
        ac.Tucker(core_shape).fit(TENSOR)


def test_tucker_without_a_core_shape_names_the_value_that_was_given():
    with refused("core_shape", None):
        ac.Tucker(None).fit(TENSOR)


def test_tucker_refuses_a_core_with_too_many_locations():
    with refused("core_shape", (1000, 1000, 2), "1,000,000"):
        ac.Tucker((1000, 1000, 2)).fit(TENSOR)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("value", [0, 0.0, -1, -0.5, np.nan, np.inf, -np.inf, np.float32("nan")], ids=repr)
def test_a_prior_that_is_not_positive_and_finite_is_refused(name, value):
    with refused(name, rule="positive and finite") as caught:
        Spec(2, (2, 2), **{name: value})
    assert caught.value.value is value


@pytest.mark.parametrize("name", [name for name in PRIORS if name != "e0"])
@pytest.mark.parametrize("value", ["1", None, True, [1.0], 1j], ids=repr)
def test_a_prior_that_is_no_number_is_refused(name, value):
    with refused(name, value, rule="a positive number"):
        Spec(2, (2, 2), **{name: value})


@pytest.mark.parametrize(
    ("given", "value", "rule"),
    [
        (None, None, "a positive number"),
        ("learn", "learn", "'infer'"),
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), "the tensor has 2 modes"),
        ([1.0], (1.0,), "the tensor has 2 modes"),
        ((1.0, 0.0), 0.0, "positive and finite"),
        ((1.0, "infer"), "infer", "a positive number"),
    ],
)
def test_concentrations_that_are_no_numbers_or_not_one_per_mode_are_refused(given, value, rule):
    with refused("e0", value, rule):
        Spec(2, (2, 2), e0=given)


@pytest.mark.parametrize("value", [(0.5, 2), [0.5, 2.0], np.array([0.5, 2.0])], ids=repr)
def test_concentrations_may_differ_by_mode(value):
    spec = Spec(2, (2, 2), e0=value)
    assert spec.e0 == (0.5, 2.0)
    assert [spec.concentration(mode, np.empty(0)) for mode in range(2)] == [0.5, 2.0]
    assert Spec(2, (2, 2), e0="infer").concentration(1, np.array([3.0, 4.0])) == 4.0


@pytest.mark.parametrize("value", ["Poisson", "gaussian", None, 1])
def test_an_unknown_likelihood_is_refused_with_the_known_ones(value):
    with refused("likelihood", value, rule="poisson, negative-binomial, bernoulli"):
        Spec(2, (2, 2), likelihood=value)


def test_a_dispersion_by_mode_needs_the_negative_binomial_and_a_mode():
    with refused("dispersion_by", 0, rule="'bernoulli' has no dispersion"):
        Spec(2, (2, 2), likelihood="bernoulli", dispersion_by=0)
    with refused("dispersion_by", 2, rule="from 0 to 1"):
        Spec(2, (2, 2), likelihood="negative-binomial", dispersion_by=2)
    with refused("dispersion_by", "who"):
        ac.CP(2, likelihood="negative-binomial", dispersion_by="who").fit(TENSOR)


def test_a_prior_too_large_for_a_float_is_refused_like_infinity():
    with refused("a0", 10**400):
        Spec(2, (2, 2), a0=10**400)


def test_whole_numbers_of_numpy_are_accepted_and_become_plain_numbers():
    spec = Spec(np.int32(3), (np.int64(2), np.uint8(4)), a0=np.float32(0.5), f0=2)
    assert spec == Spec(3, (2, 4), a0=0.5, f0=2.0)
    assert [type(x) for x in (spec.budget, *spec.core_shape, spec.a0, spec.f0)] == [int, int, int, float, float]


@pytest.mark.parametrize("value", [-1, 1.5, "0", None, False])
def test_a_whole_number_may_have_another_least_value(value):
    assert whole_number("burn_in", 0, least=0) == 0
    with refused("burn_in", value, rule="whole number of at least 0"):
        whole_number("burn_in", value, least=0)


def test_a_specification_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Spec(2, (2, 2)).budget = 3


def test_classes_start_on_the_super_diagonal_and_go_round_where_it_is_short():
    locations = Spec(5, (5, 2, 1, 7)).start_locations()
    assert locations.tolist() == [[0, 0, 0, 0], [1, 1, 0, 1], [2, 0, 0, 2], [3, 1, 0, 3], [4, 0, 0, 4]]
    assert locations.dtype == np.int64


def test_classes_may_start_everywhere_once():
    locations = Spec(12, (2, 3, 2), model="Tucker").start_locations()
    assert locations.tolist() == [list(place) for place in np.ndindex(2, 3, 2)]


@pytest.mark.parametrize("budget", [11, 13])
def test_a_class_everywhere_needs_just_as_many_classes(budget):
    with refused("budget", budget, rule="must be 12"):
        Spec(budget, (2, 3, 2), model="Tucker")

"""Specifications: every bad setting is named with its value and its rule, and the classes start where they should."""

import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import allocore as ac
from allocore.errors import InputError, whole_number
from allocore.model.spec import Spec, core_shape_for

PRIORS = ["a0", "b0", "e0", "f0", "alpha0", "g0", "h0", "s0", "t0"]
NOT_COUNTS = [0, -1, 1.5, 2.0, "3", True, None, np.nan, np.float64(3), np.int64(0), np.bool_(True)]
COUNT_RULE = "but it must be a whole number of at least 1"
TENSOR = np.ones((3, 2, 2), dtype=int)


@pytest.mark.parametrize("value", NOT_COUNTS, ids=repr)
def test_a_budget_that_is_no_positive_whole_number_is_refused(value):
    message = f"^budget is {re.escape(repr(value))}, {COUNT_RULE}$"
    with pytest.raises(InputError, match=message):
        Spec(value, (2, 2))
    with pytest.raises(InputError, match=message):
        core_shape_for((3, 2), value, None)


@pytest.mark.parametrize("size", NOT_COUNTS, ids=repr)
def test_a_core_shape_with_an_entry_that_is_no_positive_whole_number_is_refused(size):
    message = rf"^core_shape is {re.escape(repr((2, size)))}, but every entry must be a whole number of at least 1$"
    with pytest.raises(InputError, match=message):
        Spec(2, (2, size))
    with pytest.raises(InputError, match=message):
        core_shape_for((3, 2), 2, (2, size))


@pytest.mark.parametrize("core_shape", [(), (2,), (2, 2, 2), [4] * 5])
def test_a_core_shape_of_the_wrong_length_is_refused_with_both_lengths(core_shape):
    message = f"^core_shape {tuple(core_shape)} has {len(core_shape)} entries, but the tensor has 2 modes"
    with pytest.raises(InputError, match=re.escape(message[1:])):
        core_shape_for((3, 2), 2, core_shape)


@pytest.mark.parametrize("core_shape", ["2x2", "22", 2, 2.5, True])
def test_a_core_shape_that_is_no_sequence_is_refused(core_shape):
    rule = "but it must be a sequence with one whole number per mode"
    with pytest.raises(InputError, match=f"^core_shape is {re.escape(repr(core_shape))}, {rule}$"):
        core_shape_for((3, 2), 2, core_shape)


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_a_core_shape_may_be_any_sequence_and_none_is_the_budget_in_every_mode(kind):
    assert core_shape_for((3, 2, 9), 4, kind([2, 7, 1])) == (2, 7, 1)
    assert core_shape_for((3, 2, 9), 4, None) == (4, 4, 4)


@pytest.mark.parametrize("core_shape", ["2x2x2", (2, 2), (2, 0, 2), (2, "2", 2), 8], ids=repr)
def test_tucker_names_a_core_shape_it_cannot_use(core_shape):
    with pytest.raises(InputError, match=rf"^core_shape.*{re.escape(repr(core_shape))}.*(must be|one entry)"):
        ac.Tucker(core_shape).fit(TENSOR)


def test_tucker_without_a_core_shape_names_the_value_that_was_given():
    with pytest.raises(InputError, match=r"core_shape.*None"):
        ac.Tucker(None).fit(TENSOR)


def test_tucker_refuses_a_core_with_too_many_locations():
    with pytest.raises(InputError, match=r"^core_shape \(1000, 1000, 2\) has 2,000,000 locations.*1,000,000"):
        ac.Tucker((1000, 1000, 2)).fit(TENSOR)


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("value", [0, 0.0, -1, -0.5, np.nan, np.inf, -np.inf, np.float32("nan")], ids=repr)
def test_a_prior_that_is_not_positive_and_finite_is_refused(name, value):
    with pytest.raises(InputError, match=f"^{name} is {re.escape(repr(value))}, but it must be positive and finite"):
        Spec(2, (2, 2), **{name: value})


@pytest.mark.parametrize("name", [name for name in PRIORS if name != "e0"])
@pytest.mark.parametrize("value", ["1", None, True, [1.0], 1j], ids=repr)
def test_a_prior_that_is_no_number_is_refused(name, value):
    with pytest.raises(InputError, match=f"^{name} is {re.escape(repr(value))}, but it must be a positive number$"):
        Spec(2, (2, 2), **{name: value})


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (None, "e0 is None, but it must be a positive number"),
        ("learn", "e0 is 'learn', but it must be a number, one number per mode, or 'infer'"),
        ((1.0, 2.0, 3.0), "e0 (1.0, 2.0, 3.0) has 3 entries, but the tensor has 2 modes: one per mode"),
        ([1.0], "e0 (1.0,) has 1 entries, but the tensor has 2 modes: one per mode"),
        ((1.0, 0.0), "e0 is 0.0, but it must be positive and finite"),
        ((1.0, "infer"), "e0 is 'infer', but it must be a positive number"),
    ],
)
def test_concentrations_that_are_no_numbers_or_not_one_per_mode_are_refused(value, rule):
    with pytest.raises(InputError, match="^" + re.escape(rule)):
        Spec(2, (2, 2), e0=value)


@pytest.mark.parametrize("value", [(0.5, 2), [0.5, 2.0], np.array([0.5, 2.0])], ids=repr)
def test_concentrations_may_differ_by_mode(value):
    spec = Spec(2, (2, 2), e0=value)
    assert spec.e0 == (0.5, 2.0)
    assert [spec.concentration(mode, np.empty(0)) for mode in range(2)] == [0.5, 2.0]
    assert Spec(2, (2, 2), e0="infer").concentration(1, np.array([3.0, 4.0])) == 4.0


@pytest.mark.parametrize("value", ["Poisson", "gaussian", None, 1])
def test_an_unknown_likelihood_is_refused_with_the_known_ones(value):
    rule = f"likelihood is {value!r}, but it must be one of ['poisson', 'negative-binomial', 'bernoulli']"
    with pytest.raises(InputError, match="^" + re.escape(rule)):
        Spec(2, (2, 2), likelihood=value)


def test_a_dispersion_by_mode_needs_the_negative_binomial_and_a_mode():
    with pytest.raises(InputError, match=r"^dispersion_by is 0, but the likelihood 'bernoulli' has no dispersion"):
        Spec(2, (2, 2), likelihood="bernoulli", dispersion_by=0)
    with pytest.raises(InputError, match=r"^dispersion_by is 2, but there are 2 modes"):
        Spec(2, (2, 2), likelihood="negative-binomial", dispersion_by=2)
    with pytest.raises(InputError, match=r"^dispersion_by is 'who', but it must be a mode of the tensor, one of \["):
        ac.CP(2, likelihood="negative-binomial", dispersion_by="who").fit(TENSOR)


def test_a_prior_too_large_for_a_float_is_refused_like_infinity():
    with pytest.raises(InputError, match=r"^a0 is"):
        Spec(2, (2, 2), a0=10**400)


def test_whole_numbers_of_numpy_are_accepted_and_become_plain_numbers():
    spec = Spec(np.int32(3), (np.int64(2), np.uint8(4)), a0=np.float32(0.5), f0=2)
    assert spec == Spec(3, (2, 4), a0=0.5, f0=2.0)
    assert [type(x) for x in (spec.budget, *spec.core_shape, spec.a0, spec.f0)] == [int, int, int, float, float]


@pytest.mark.parametrize("value", [-1, 1.5, "0", None, False])
def test_a_whole_number_may_have_another_least_value(value):
    assert whole_number("burn_in", 0, least=0) == 0
    with pytest.raises(InputError, match=f"^burn_in is {value!r}, but it must be a whole number of at least 0$"):
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
    with pytest.raises(InputError, match=rf"^budget is {budget}, but .* core_shape \(2, 3, 2\) needs 12$"):
        Spec(budget, (2, 3, 2), model="Tucker")

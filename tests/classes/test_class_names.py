"""Names of classes in words."""

import numpy as np
import pytest

import allocore as ac
from allocore.classes.names import class_names
from allocore.classes.summary import Profile, is_even, shown_modes

COUNTRIES = ("France", "Germany", "Iraq", "Russia", "Ukraine", "Vietnam", "Yemen", "Zambia")
MONTHS = tuple(f"2018-{month:02d}" for month in range(1, 13))


def name(sender, receiver, month=None, *, masked=True, undirected=False, labels=(COUNTRIES, COUNTRIES, MONTHS)):
    tensor = ac.CountTensor([[0], [1], [0]], [1], (8, 8, 12), mode_names=["from", "to", "month"], labels=labels)
    tensor = tensor.mask_diagonal((0, 1)) if masked else tensor
    tensor = tensor.undirected(("from", "to")) if undirected else tensor
    shares = [profile(8, sender), profile(8, receiver), profile(12, month or {})]
    shown = zip(shown_modes(tensor), shares, strict=True)
    return class_names(tensor, tuple((Profile(mode, share_D, is_even(share_D)),) for mode, share_D in shown))[0]


def profile(length, given):
    """Shares of some rows by number; the others share the rest."""
    share_D = np.full(length, (1.0 - sum(given.values())) / (length - len(given)))
    for row, share in given.items():
        share_D[row] = share
    return share_D


@pytest.mark.parametrize(
    ("sender", "receiver", "words"),
    [
        ({3: 0.9}, {4: 0.8}, "Russia → Ukraine"),
        ({3: 0.45, 0: 0.4}, {4: 0.8}, "Russia, France → Ukraine"),
        ({}, {4: 0.8}, "everyone → Ukraine"),
        ({3: 0.9}, {}, "Russia → everyone"),
        ({3: 0.5, 4: 0.45}, {3: 0.5, 4: 0.45}, "between Russia and Ukraine"),
        ({3: 0.5}, {3: 0.48}, "between Russia and everyone else"),
        ({3: 0.65}, {3: 0.3, 4: 0.2}, "between Russia and Ukraine, among others"),
        ({0: 0.3, 1: 0.3, 2: 0.25}, {0: 0.25, 1: 0.35, 2: 0.25}, "among Germany, France, Iraq"),
    ],
)
def test_two_modes_with_the_same_labels_are_told_together(sender, receiver, words):
    assert name(sender, receiver) == words


@pytest.mark.parametrize(
    ("sender", "receiver", "words"),
    [
        ({3: 0.45, 0: 0.4}, {4: 0.8}, "between Russia, France and Ukraine"),
        ({}, {4: 0.8}, "between everyone and Ukraine"),
        ({0: 0.3, 1: 0.3, 2: 0.25}, {0: 0.25, 1: 0.35, 2: 0.25}, "among Germany, France, Iraq"),
    ],
)
def test_undirected_ties_are_between_labels_and_not_from_one_to_another(sender, receiver, words):
    assert name(sender, receiver, undirected=True) == words


def test_without_missing_cells_a_label_may_act_on_itself():
    assert name({3: 0.9}, {3: 0.9}, masked=False) == "within Russia"


def test_a_profile_of_very_many_labels_is_named_by_the_heaviest():
    labels = tuple(f"state {place}" for place in range(200))
    tensor = ac.CountTensor([[0], [1]], [1], (200, 200), labels=[labels, labels]).mask_diagonal((0, 1))
    share_D = np.full(200, 1.0)
    share_D[:3] = 2.0, 3.0, 1.8
    share_D /= share_D.sum()
    profiles = tuple((Profile(mode, share_D, is_even(share_D)),) for mode in shown_modes(tensor))
    assert class_names(tensor, profiles) == ("within state 1",)


def test_a_held_out_fibre_is_not_a_missing_diagonal():
    tensor = ac.CountTensor([[0], [1], [0]], [1], (8, 8, 12), labels=[COUNTRIES, COUNTRIES, MONTHS])
    tensor = tensor.with_missing([(3, 3, 0)])
    shares = [profile(8, {3: 0.5}), profile(8, {3: 0.5}), profile(12, {})]
    shown = zip(shown_modes(tensor), shares, strict=True)
    named = class_names(tensor, tuple((Profile(mode, share_D, is_even(share_D)),) for mode, share_D in shown))
    assert named[0].startswith("among Russia")


def test_months_are_told_by_their_peak_and_other_labels_side_by_side():
    assert name({3: 0.9}, {4: 0.9}, {2: 0.4, 3: 0.4}) == "Russia → Ukraine · 2018-03 to 2018-04"
    others = tuple(f"t{place}" for place in range(8))
    assert name({3: 0.9}, {4: 0.9}, labels=(COUNTRIES, others, MONTHS), masked=False) == "Russia · t4"


def test_a_class_without_any_peak_has_a_name():
    others = tuple(f"t{place}" for place in range(8))
    assert name({}, {}, labels=(COUNTRIES, others, MONTHS), masked=False) == "evenly over everything"


def test_time_is_named_by_the_highest_stretch_and_only_if_it_stands_out():
    long_and_low = {0: 0.11, 1: 0.10, 4: 0.08, 5: 0.08, 6: 0.08, 7: 0.08}
    assert name({3: 0.9}, {4: 0.9}, long_and_low) == "Russia → Ukraine", "hardly more than an even twelfth"
    assert name({3: 0.9}, {4: 0.9}, {0: 0.3, 5: 0.14, 6: 0.14, 7: 0.14}) == "Russia → Ukraine · 2018-01"


WEEKS = tuple(f"2018-{day}" for day in ("01-01", "01-08", "01-15", "01-22", "01-29", "02-05", "02-12", "02-19"))
YEARS_END = (
    "2018-12-10",
    "2018-12-17",
    "2018-12-24",
    "2018-12-31",
    "2019-01-07",
    "2019-01-14",
    "2019-01-21",
    "2019-01-28",
)
STORES = tuple(str(number) for number in range(1, 9))
THINGS = tuple(f"thing {letter}" for letter in "abcdefgh")


def retail_name(store, week, weeks=WEEKS, things=THINGS):
    tensor = ac.CountTensor(
        [[0], [0], [0]], [1], (8, 8, 8), mode_names=["store", "thing", "week"], labels=[STORES, things, weeks]
    )
    shares = [profile(8, store), profile(8, {0: 0.9}), profile(8, week)]
    shown = zip(shown_modes(tensor), shares, strict=True)
    return class_names(tensor, tuple((Profile(mode, share_D, is_even(share_D)),) for mode, share_D in shown))[0]


@pytest.mark.parametrize(("store", "words"), [({1: 0.9}, "store 2"), ({1: 0.45, 6: 0.4}, "store 2, 7"), ({}, "")])
def test_labels_that_are_numbers_carry_the_name_of_their_mode(store, words):
    assert retail_name(store, {}) == " · ".join(filter(None, [words, "thing a"]))


@pytest.mark.parametrize(
    ("weeks", "heavy", "words"),
    [
        (WEEKS, (0, 1, 2, 3), "2018-01-01 to 01-28"),
        (WEEKS, (4,), "week of 2018-01-29"),
        (YEARS_END, (2, 3), "2018-12-24 to 2019-01-06"),
    ],
)
def test_weeks_are_told_as_spans_from_their_first_day_to_their_last(weeks, heavy, words):
    assert retail_name({1: 0.9}, dict.fromkeys(heavy, 0.96 / len(heavy)), weeks).endswith(f" · {words}")


def test_modes_of_the_same_numbers_are_a_pair_only_where_their_diagonal_is_missing():
    assert retail_name({1: 0.9}, {}, things=STORES) == "store 2 · thing 1"
    numbers = (STORES, STORES, MONTHS)
    assert name({3: 0.9}, {4: 0.8}, labels=numbers) == "from 4 → to 5"
    assert name({3: 0.5, 4: 0.45}, {3: 0.5, 4: 0.45}, labels=numbers) == "between from/to 4 and 5"
    assert name({0: 0.3, 1: 0.3, 2: 0.25}, {0: 0.25, 1: 0.35, 2: 0.25}, labels=numbers) == "among from/to 2, 1, 3"


def test_the_heaviest_labels_in_words_name_the_mode_of_numbers_and_join_weeks():
    tensor = ac.CountTensor([[0], [0]], [1], (8, 8), mode_names=["store", "week"], labels=[STORES, WEEKS])
    store, week = shown_modes(tensor)
    heavy = Profile(store, profile(8, {1: 0.5, 6: 0.4}), False)
    assert heavy.words(2) == "store 2 50%, store 7 40%"
    spread = Profile(week, profile(8, {0: 0.2, 1: 0.3, 2: 0.25, 6: 0.2}), False)
    assert spread.words(4) == "2018-01-01 to 01-21 75%, week of 2018-02-12 20%"
    assert spread.peak_words() == "2018-01-01 to 01-21 (75%), week of 2018-02-12 (20%)"
    assert spread.top(1) == [("week of 2018-01-08", 0.3)]

"""Rows of a tensor by label: `select` and `mask` against plain NumPy."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import allocore as ac
from allocore.tensor.labels import label_hint
from support.errors import refused
from support.tensor_cases import dense_mask, labelled_tensors
from support.tiers import given_by_tier

MONTHS = [f"{year}-{month:02d}" for year in (2017, 2018, 2019) for month in range(1, 13)]
WEEKS = ["2017-12-25", "2018-01-01", "2018-01-08", "2018-02-05", "2019-01-07"]


def tensor(labels, *, names=("who", "when"), missing=None):
    """Two people, and one count for each of the second on every label."""
    length = len(labels)
    coords = np.indices((2, length)).reshape(2, -1)
    return ac.CountTensor(
        coords, np.arange(1, 2 * length + 1), mode_names=names, labels=[["Ada", "Max"], labels], missing=missing
    )


@given_by_tier(labelled_tensors(), st.data(), quick=15)
def test_select_gives_the_rows_that_numpy_gives(Y, data):
    rows = [
        data.draw(st.lists(st.integers(0, length - 1), min_size=1, unique=True), label="rows") for length in Y.shape
    ]
    block = np.ix_(*map(sorted, rows))
    counts, mask = Y.to_dense()[block], dense_mask(Y)[block]
    assume(counts.any())
    wanted = {
        name: [labels[row] for row in some] for name, labels, some in zip(Y.mode_names, Y.labels, rows, strict=True)
    }
    result = Y.select(wanted)
    assert np.array_equal(result.to_dense(), counts)
    assert np.array_equal(dense_mask(result), mask)
    for labels, own, some in zip(result.labels, Y.labels, rows, strict=True):
        assert list(labels) == (
            [own[row] for row in sorted(some)] if isinstance(own, tuple) else list(range(len(some)))
        )
    # Nothing of the canonical form is lost, though nothing is sorted again.
    assert result == ac.CountTensor(
        result.coords,
        result.counts,
        result.shape,
        mode_names=result.mode_names,
        labels=result.labels,
        missing=result.missing.patterns,
    )
    assert result.coords.dtype == np.int32


@given_by_tier(labelled_tensors(), st.data(), quick=15)
def test_masked_labels_are_the_cells_that_select_would_return(Y, data):
    modes = data.draw(st.lists(st.sampled_from(Y.mode_names), min_size=1, unique=True), label="modes")
    masks = {mode: data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for mode, n in _lengths(Y, modes)}
    assume(all(any(mask) for mask in masks.values()))
    full = [masks.get(name, [True] * length) for name, length in zip(Y.mode_names, Y.shape, strict=True)]
    new = np.zeros(Y.shape, dtype=bool)
    new[np.ix_(*map(np.array, full))] = True
    counts = np.where(new, 0, Y.to_dense())
    assume(counts.any())
    result = Y.mask(masks)
    assert np.array_equal(result.to_dense(), counts)
    assert np.array_equal(dense_mask(result), dense_mask(Y) | new)
    assert (result.shape, result.labels) == (Y.shape, Y.labels)


def _lengths(Y, modes):
    return [(mode, Y.shape[Y.mode(mode)]) for mode in modes]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("2018-05", MONTHS[16:17]),
        ("2018", MONTHS[12:24]),
        (2018, MONTHS[12:24]),
        (["2019", "2017-03"], [MONTHS[2], *MONTHS[24:]]),
        (slice("2018-11", "2019-02"), MONTHS[22:26]),
        (slice("2018", "2018"), MONTHS[12:24]),
        (slice("2018", None), MONTHS[12:]),
        (slice(None, "2018-02"), MONTHS[:14]),
        (slice("1990", "2017-02"), MONTHS[:2]),
        (slice("2019-11", "2030-01"), MONTHS[34:]),
        (slice("2018-01", "2018-12", 6), ["2018-01", "2018-07"]),
        (np.arange(36) % 12 == 0, ["2017-01", "2018-01", "2019-01"]),
        (MONTHS[5:7], MONTHS[5:7]),
        (np.array(MONTHS[5:7]), MONTHS[5:7]),
        (["2018-03", "2018-01", "2018-03"], ["2018-01", "2018-03"]),
    ],
)
def test_months_are_chosen_by_label_by_year_and_by_slices_with_both_ends(wanted, expected):
    assert list(tensor(MONTHS).select(when=wanted).labels[1]) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("2018", WEEKS[1:4]),
        ("2018-01", WEEKS[1:3]),
        (date(2018, 1, 8), WEEKS[2:3]),
        (datetime(2018, 1, 8, 12), WEEKS[2:3]),
        (slice("2018-01", "2018-02"), WEEKS[1:4]),
        (slice(date(2018, 1, 2), "2018-03-01"), WEEKS[2:4]),
    ],
)
def test_weeks_are_chosen_by_the_period_in_which_they_begin(wanted, expected):
    assert list(tensor(WEEKS).select(when=wanted).labels[1]) == expected


def test_a_label_that_is_there_is_taken_as_it_is_even_if_it_could_be_a_year():
    Y = tensor(["2018", "tea", "2018-01"])
    assert Y.select(when="2018").labels[1] == ("2018",)
    years = tensor(["2017", "2018", "2019"])
    assert years.select(when=slice(2018, 2030)).labels[1] == ("2018", "2019")


def test_periods_that_are_not_in_order_are_ordinary_labels():
    Y = tensor(["2018-02", "2018-01", "2018-03"])
    assert Y.select(when=slice("2018-02", "2018-01")).labels[1] == ("2018-02", "2018-01")
    with refused("when", "2018", "a label of mode 'when'"):
        Y.select(when="2018")


def test_one_label_keeps_the_mode_and_the_order_is_that_of_the_tensor():
    Y = tensor(["c", "b", "a"])
    assert Y.select(when="b").shape == (2, 1)
    assert Y.select(when=["a", "c"], who="Max").labels == (("Max",), ("c", "a"))
    assert Y.select(when=slice("b", "a")).labels[1] == ("b", "a")
    assert Y.select().labels == Y.labels


def test_names_that_are_no_identifiers_go_into_a_dict_and_any_name_may_be_a_keyword():
    Y = tensor(["a", "b"], names=("rows", "sold in"))
    assert Y.select({"sold in": "a"}, rows="Max").shape == (1, 1)
    assert Y.select({-1: "a"}).shape == (2, 1)
    assert tensor(["a", "b"], names=("self", "modes")).select(self="Max", modes="a").shape == (1, 1)


def test_a_mode_without_labels_is_addressed_by_position_as_in_python():
    Y = ac.CountTensor(np.indices((2, 6)).reshape(2, -1), np.arange(1, 13))
    dense = Y.to_dense()
    for wanted in (slice(1, 4), slice(None, None, -2), slice(-2, None), slice(4, None, -1)):
        assert np.array_equal(Y.select(mode_1=wanted).to_dense(), dense[:, sorted(range(6)[wanted])])
    assert np.array_equal(Y.select(mode_1=[4, -6]).to_dense(), dense[:, [0, 4]])
    assert np.array_equal(Y.select(mode_1=-1, mode_0=np.int64(1)).to_dense(), dense[1:, -1:])
    assert Y.select(mode_1=[2, 4]).labels[1] == range(2)


def test_a_very_long_mode_costs_nothing():
    Y = ac.CountTensor([[0, 2**40, 2**41], [0, 1, 0]], [1, 2, 3], (2**42, 2), missing=[(2**40 + 4, None), (None, 1)])
    result = Y.select(mode_0=slice(2**40, 2**42, 4))
    assert result.shape == (3 * 2**38, 2)
    assert result.counts.tolist() == [3]  # 2 of them are in a missing cell
    assert list(result.missing) == [(None, 1), (1, None)]
    assert Y.select(mode_0=slice(0, 10)).coords.dtype == np.int32


def test_wildcards_stay_and_patterns_of_other_rows_vanish():
    Y = tensor(["a", "b", "c"], missing=[("Ada", None), (None, "c"), ("Max", "a")])
    assert list(Y.select(when=["b", "c"]).missing) == [(None, 1), (0, None)]
    assert list(Y.select(who="Max", when=slice("a", "b")).missing) == [(0, 0)]


def test_the_report_on_the_events_is_kept():
    Y = ac.read_events(pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"]}), modes=["a", "b"])
    assert Y.report is not None
    assert Y.select(a="x").report == Y.report


@pytest.mark.parametrize(
    ("wanted", "argument", "value", "rule"),
    [
        ({"who": "ada"}, "who", "ada", "did you mean 'Ada'?"),
        ({"who": ["Ada", "Mx"]}, "who", "Mx", "did you mean 'Max'?"),
        ({"who": 0}, "who", "0", "its labels go from 'Ada' to 'Max'"),
        ({"who": slice("Max", "Ada")}, "who", slice("Max", "Ada"), "at least one row"),
        ({"who": []}, "who", [], "at least one row"),
        ({"who": [True]}, "who", "a mask of 1 rows", "must have 2 rows"),
        ({"who": [False, False]}, "who", [False, False], "at least one row"),
        ({"who": slice("Ada", "Max", 0)}, "who", slice("Ada", "Max", 0), "a step that is a whole number of at least 1"),
        ({"when": "2016"}, "when", "2016", "a label of mode 'when'"),
        ({"when": "2018-13"}, "when", "2018-13", "a label of mode 'when'"),
        ({"when": slice("2018-01-01", None)}, "when", "2018-01-01", "a label of mode 'when'"),
        ({"when": slice("2030", None)}, "when", slice("2030", None), "at least one row"),
        ({"whom": "Ada"}, "mode", "whom", "one of the modes who, when"),
        ({"who": "Ada", 0: "Ada"}, "rows", "a dict", "mode 'who' only once"),
        (["Ada"], "rows", ["Ada"], "a dict from modes to labels"),
    ],
)
def test_what_cannot_be_chosen_is_named(wanted, argument, value, rule):
    with refused(argument, value, rule):
        tensor(MONTHS).select(wanted)


@pytest.mark.parametrize("wanted", ["a", 2, -3, [0, 1.0], slice("a", None), slice(None, None, 0), [None], 1.5])
def test_positions_that_do_not_exist_are_named(wanted):
    Y = ac.CountTensor([[0, 1], [1, 0]], [1, 1])
    with refused("mode_0", rule="mode 'mode_0' has no labels"):
        Y.select(mode_0=wanted)


def test_a_selection_without_counts_is_an_error():
    Y = ac.CountTensor([[0, 1], [0, 1]], [1, 1], labels=[["a", "b"], ["c", "d"]])
    with refused("rows", rule="there is nothing to fit"):
        Y.select(mode_0="a", mode_1="d")
    with refused("counts", rule="because all cells are missing"):
        Y.mask(mode_0=["a", "b"])


def test_a_code_of_a_country_is_answered_with_the_label_of_that_country():
    Y = ac.CountTensor([[0, 1], [1, 0]], [1, 1], labels=[["Russia", "Rwanda"], None])
    with refused("mode_0", "RUS", "did you mean 'Russia'"):
        Y.select(mode_0="RUS")


def test_masking_whole_modes_makes_wildcards():
    Y = tensor(["a", "b", "c"])
    assert list(Y.mask(when="b").missing) == [(None, 1)]
    assert list(Y.mask(when="b", who=["Max", "Ada"]).missing) == [(None, 1)]
    assert list(Y.mask({"when": slice("b", None)}, who="Ada").missing) == [(0, 1), (0, 2)]


def test_an_unknown_label_is_answered_with_similar_ones_or_with_the_ends_of_the_mode():
    assert label_hint("Rusia", ["Russia", "Mali"]) == "did you mean 'Russia'?"
    assert label_hint("RUS", ["Russia", "Rwanda", "USA"]) == "did you mean 'Russia'?"
    assert label_hint("Unitd states", ["United States", "Mali"]) == "did you mean 'United States'?"
    assert label_hint("tea", ["2018-01", "2018-02"]) == "its labels go from '2018-01' to '2018-02'"

"""CountTensor: canonical form, immutability, labels, masks and the errors a user can meet."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from allocore.errors import NO_VALUE, InputError
from allocore.tensor.count_tensor import CountTensor, missing_diagonals
from allocore.tensor.holdout import hold_out
from allocore.tensor.missing import Missing
from support.errors import refused
from support.tiers import given_by_tier

# A busy machine is no failure.


def example() -> CountTensor:
    return CountTensor(
        [[1, 0, 1, 0], [0, 2, 0, 1], [1, 1, 1, 0]],
        [3, 1, 4, 5],
        (2, 3, 2),
        mode_names=["who", "what", "when"],
        labels={"who": ["Ada", "Max"], "when": ["<May>", "June"]},
    )


@st.composite
def entries(draw):
    shape = draw(st.lists(st.sampled_from([1, 2, 5, 10**6, 2**40]), min_size=2, max_size=6))
    cell = st.tuples(*[st.integers(0, length - 1) | st.integers(0, min(2, length - 1)) for length in shape])
    cells = draw(st.lists(cell, min_size=1, max_size=30))
    counts = draw(st.lists(st.integers(0, 10**9), min_size=len(cells), max_size=len(cells)))
    counts[0] += 1
    return tuple(shape), cells, counts


@given_by_tier(entries(), quick=15)
def test_the_canonical_form_is_a_sorted_counter_over_the_cells(case):
    shape, cells, counts = case
    tensor = CountTensor(np.array(cells).T, counts, shape)
    expected = Counter()
    for cell, count in zip(cells, counts, strict=True):
        expected[cell] += count
    expected = sorted((cell, count) for cell, count in expected.items() if count)
    assert list(zip(map(tuple, tensor.coords.T.tolist()), tensor.counts.tolist(), strict=True)) == expected
    assert tensor.total == sum(counts)
    assert tensor.nnz == len(expected)
    for m in range(len(shape)):
        if shape[m] <= 10**6:
            totals = tensor.mode_totals(m)
            assert int(totals.sum()) == tensor.total
            assert all(totals[d] == sum(n for c, n in expected if c[m] == d) for d in {c[m] for c in cells})


@given_by_tier(entries(), st.randoms(), quick=15)
def test_the_order_of_the_entries_does_not_matter(case, random):
    shape, cells, counts = case
    order = list(range(len(cells)))
    random.shuffle(order)
    shuffled = CountTensor(np.array(cells)[order].T, np.array(counts)[order], shape)
    assert shuffled == CountTensor(np.array(cells).T, counts, shape)


def test_a_large_random_tensor_is_sorted_whichever_way_the_keys_are_made():
    rng = np.random.default_rng(0)
    for shape, top in [((30, 40, 50), 9), ((30, 40, 50), 10**9), ((10**6,) * 4, 9), ((2**62, 2**62), 9)]:
        coords = np.stack([rng.integers(0, min(length, 10**6), 5000) for length in shape])
        counts = rng.integers(1, top, 5000)
        tensor = CountTensor(coords, counts, shape)
        distinct, where = np.unique(coords, axis=1, return_inverse=True)
        totals = np.zeros(distinct.shape[1], dtype=np.int64)
        np.add.at(totals, where.ravel(), counts)
        assert np.array_equal(tensor.coords, distinct)
        assert np.array_equal(tensor.counts, totals)


def test_coordinates_are_int32_unless_a_mode_is_longer():
    assert CountTensor([[0], [1]], [1], (2, 2**31 - 1)).coords.dtype == np.int32
    assert CountTensor([[0], [1]], [1], (2, 2**31)).coords.dtype == np.int64
    assert example().coords.flags.c_contiguous
    assert example().counts.dtype == np.int64


def test_a_shape_with_more_than_2_to_the_63_cells_works():
    far = 10**5 - 1
    tensor = CountTensor([[far, 0, far], [far, 0, far], [far, 1, far], [far, 0, far]], [1, 2, 3], (10**5,) * 4)
    assert tensor.volume == 10**20
    assert tensor.counts.tolist() == [2, 4]
    assert tensor.density == 2e-20
    masked = tensor.mask_diagonal(modes=(0, 2))
    assert masked.counts.tolist() == [2]
    assert masked.missing.cells == 10**15
    assert "2 non-zeros" in tensor._repr_html_()


def test_large_counts_are_exact_up_to_a_total_of_2_to_the_50():
    odd = 2**49 - 1
    tensor = CountTensor([[0, 0, 1], [0, 0, 1]], [odd, 2, odd - 1], (2, 2))
    assert tensor.total == 2**50 - 1
    assert tensor.mode_totals(0).tolist() == [odd + 2, odd - 1]
    with refused("counts", rule="at most 2^50"):
        CountTensor([[0, 0, 1], [0, 0, 1]], [odd, odd, odd])


@pytest.mark.parametrize("counts", [[1.0, 2.0], [True, True], np.array([1, 2], np.uint64), np.array([1, 2], object)])
def test_whole_numbers_of_any_type_are_accepted(counts):
    tensor = CountTensor(np.array([[0.0, 1.0], [1.0, 0.0]]), counts)
    assert tensor.counts.tolist() == [int(count) for count in counts]


def test_the_shape_is_inferred_from_the_coordinates_or_the_labels():
    assert CountTensor([[0, 3], [1, 0]], [1, 1]).shape == (4, 2)
    assert CountTensor([[0, 3], [1, 0]], [1, 1], labels=[list("abcde"), None]).shape == (5, 2)
    assert CountTensor([[0, 3], [1, 0]], [1, 1], labels=[range(9), None]).shape == (9, 2)


def test_the_arrays_are_read_only_copies():
    coords, counts = np.array([[0, 1], [1, 0]], dtype=np.int32), np.array([1, 2])
    tensor = CountTensor(coords, counts, (2, 2))
    coords[:], counts[:] = 0, 0
    assert tensor.counts.tolist() == [1, 2]
    assert tensor.coords.tolist() == [[0, 1], [1, 0]]
    for array in (tensor.coords, tensor.counts, tensor.missing.patterns):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    with pytest.raises(AttributeError):
        tensor.shape = (3, 3)
    with pytest.raises(AttributeError):
        tensor.anything = 1


def test_equality_is_by_content_and_tensors_cannot_be_hashed():
    tensor = example()
    assert tensor == example()
    assert tensor != example().with_labels(mode_names=["a", "b", "c"])
    assert tensor != example().with_labels({"who": ["Ada", "Eve"]})
    assert tensor != example().with_missing([(None, 2, 0)])
    assert tensor != "something else"
    with pytest.raises(TypeError, match="unhashable"):
        hash(tensor)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_are_equal_and_read_only(again):
    tensor = example().with_missing([("Ada", 0, None)])
    twin = again(tensor)
    assert twin == tensor
    assert not twin.counts.flags.writeable
    assert not twin.missing.patterns.flags.writeable


def test_labels_and_mode_names_have_defaults():
    tensor = CountTensor([[0, 1], [2, 0]], [1, 1])
    assert tensor.mode_names == ("mode_0", "mode_1")
    assert tensor.labels == (range(2), range(3))
    assert example().labels == (("Ada", "Max"), range(3), ("<May>", "June"))


def test_labels_become_strings():
    tensor = CountTensor([[0, 1], [1, 0]], [1, 1], labels=[np.array([2013, 2014]), None])
    assert tensor.labels[0] == ("2013", "2014")


def test_new_labels_and_names_replace_only_what_is_given():
    tensor = example().with_labels(mode_names=["a", "b", "c"])
    assert tensor.labels == example().labels
    tensor = tensor.with_labels({"b": ["x", "y", "z"]})
    assert tensor.labels == (("Ada", "Max"), ("x", "y", "z"), ("<May>", "June"))
    assert tensor.with_labels([None, None, None]).labels == (range(2), range(3), range(2))


def test_a_mode_is_found_by_name_or_index():
    tensor = example()
    assert [tensor.mode(mode) for mode in ("what", 1, -2, np.int64(1))] == [1, 1, 1, 1]
    for wrong in ("nobody", 3, -4, True, 1.0):
        with refused("mode", wrong, "one of the modes who, what, when"):
            tensor.mode(wrong)


def test_the_heaviest_labels_come_first_and_zeros_are_left_out():
    tensor = example()
    assert tensor.top_labels("who") == [("Max", 7), ("Ada", 6)]
    assert tensor.top_labels(1, top=2) == [(0, 7), (1, 5)]
    assert CountTensor([[2], [0]], [1]).top_labels(0) == [(2, 1)]
    with refused("top", 0):
        tensor.top_labels(0, top=0)


def test_the_repr_says_what_the_tensor_is():
    assert repr(example()) == "CountTensor: 2 x 3 x 2 (who, what, when), 3 non-zeros, 13 counts, 25% dense"
    masked = example().with_missing([(None, 2, None)])
    assert repr(masked).endswith("2 non-zeros, 12 counts, 25% dense, 1 missing pattern")


def test_the_html_repr_escapes_labels():
    html = example()._repr_html_()
    assert "&lt;May&gt; (5)" in html
    assert "<May>" not in html
    assert "13 counts" in html


def test_to_dense_gives_the_array_unless_it_is_too_large():
    dense = example().to_dense()
    assert dense.sum() == 13
    assert dense[1, 0, 1] == 7
    with refused("tensor", "a tensor of 1,000,000,000,000 cells", "at most 100,000,000 cells"):
        CountTensor([[0], [0]], [1], (10**6, 10**6)).to_dense()


def test_a_masked_diagonal_drops_its_counts_and_keeps_its_cells_missing():
    dense = np.arange(1, 3 * 2 * 3 + 1).reshape(3, 2, 3)
    tensor = CountTensor(np.stack(np.nonzero(dense)), dense.ravel(), mode_names=["from", "t", "to"])
    masked = tensor.mask_diagonal(modes=("from", "to"))
    assert list(masked.missing) == [(i, None, i) for i in range(3)]
    expected = dense * (1 - np.eye(3, dtype=int))[:, None, :]
    assert np.array_equal(masked.to_dense(), expected)
    assert masked.density == 1.0
    assert tensor.nnz == 18
    cube = CountTensor([[0, 1], [0, 1], [0, 0]], [1, 2], (2, 2, 2)).mask_diagonal(modes=(0, 1, 2))
    assert cube.counts.tolist() == [2]


@pytest.mark.parametrize(
    ("modes", "value", "rule"),
    [
        ((0,), (0,), "two or more different modes"),
        ("who", "who", "two or more different modes"),
        ((0, 0), (0, 0), "two or more different modes"),
        ((0, -3), (0, -3), "two or more different modes"),
        ((0, 1), (0, 1), "the lengths [2, 3]"),
        ((0, 7), 7, "one of the modes"),
    ],
)
def test_an_impossible_diagonal_is_refused(modes, value, rule):
    with refused("modes", value, rule):
        example().mask_diagonal(modes=modes)


def test_missing_patterns_may_use_labels_and_add_to_those_there():
    tensor = example().with_missing([("Max", None, "June")])
    assert tensor.counts.tolist() == [5, 1]
    more = tensor.with_missing([(0, 2, None)])
    assert list(more.missing) == [(0, 2, None), (1, None, 1)]
    assert more.counts.tolist() == [5]
    same = example().with_missing(Missing([(1, None, 1), (0, 2, None)], (2, 3, 2)))
    assert same == more
    assert example().with_missing(np.array([[1, -1, 1], [0, 2, -1]])) == more
    assert example().with_missing(iter([("Max", None, "June"), ("Ada", 2, None)])) == more


@pytest.mark.parametrize(
    ("patterns", "value", "rule"),
    [
        ([(0, 1)], "a list with the entry (0, 1)", "for each of the 3 modes"),
        ((0, 1, None), "a list with the entry 0", "for each of the 3 modes"),
        (5, 5, "list of patterns"),
        ([("Eve", 0, 0)], "'Eve' in mode 'who'", "labels of the mode"),
        ([(0, "x", 0)], "'x' in mode 'what'", "a mode without labels"),
        ([(0, -1, 0)], "-1 in mode 'what'", "use None"),
        ([(0, 3, 0)], "3 in mode 1", "from 0 to 2"),
        ([(0, 0.5, 0)], "0.5 at position (0, 1)", "whole numbers"),
        (np.zeros((2, 2), int), "an array of shape (2, 2)", "shape (patterns, 3)"),
        (Missing([], (2, 3, 4)), "for shape (2, 3, 4)", "for shape (2, 3, 2)"),
    ],
)
def test_bad_patterns_are_named(patterns, value, rule):
    with refused("patterns", value, rule):
        example().with_missing(patterns)


@given_by_tier(entries(), st.data(), quick=15)
def test_masking_gives_the_tensor_that_the_constructor_gives(case, data):
    shape, cells, counts = case
    pattern = st.tuples(*[st.none() | st.integers(0, length - 1) for length in shape])
    before, after = (data.draw(st.lists(pattern, max_size=3)) for _ in range(2))
    arguments = (np.array(cells).T, counts, shape)
    try:
        expected = CountTensor(*arguments, missing=[*before, *after])
    except InputError:
        assume(False)
    masked = CountTensor(*arguments, missing=before).with_missing(after)
    assert masked == expected
    assert masked.total == expected.total
    assert masked.density == expected.density
    assert masked.coords.dtype == expected.coords.dtype
    assert not masked.coords.flags.writeable
    assert not masked.counts.flags.writeable


def test_new_tensors_from_a_tensor_are_neither_checked_nor_sorted_again(monkeypatch):
    tensor = example()

    def refuse(*arguments):
        raise AssertionError("entries of a tensor were checked or sorted again")

    monkeypatch.setattr("allocore.tensor.count_tensor.canonical", refuse)
    monkeypatch.setattr("allocore.tensor.count_tensor.check_entries", refuse)
    renamed = tensor.with_labels(mode_names=["a", "b", "c"])
    assert renamed.coords is tensor.coords
    assert tensor.with_missing([(0, 0, 0)]).counts is tensor.counts, "a cell without a count"
    assert tensor.with_labels([None] * 3).mask_diagonal(("who", "when")).nnz == 1
    assert len(hold_out(tensor, 0.3).test) > 0
    assert pickle.loads(pickle.dumps(tensor)) == tensor


def test_masking_everything_away_says_why_nothing_is_left():
    with refused("counts", rule="because all cells are missing"):
        example().with_missing([(None, None, None)])
    with refused("counts", rule="because all 3 non-zeros lie in missing cells"):
        example().with_missing([(1, 0, 1), (0, 1, 0), (0, 2, 1)])


COORDS = [[0, 1, 1], [1, 0, 2]]
BAD_INPUT = [
    ({"coords": [0, 1, 1]}, "an array of shape (3,)", "shape (modes, entries)"),
    ({"coords": [[0, 1, 1]]}, "an array of shape (1, 3)", "at least 2 modes"),
    ({"coords": [[0, 1, 1], [1, 0]]}, NO_VALUE, "rectangular"),
    ({"coords": [[0, 1, 1], [1, 0.5, 2]]}, "0.5 at position (1, 1)", "whole numbers"),
    ({"coords": [[0, 1, 1], [1, None, 2]]}, "None at position (1, 1)", "whole numbers"),
    ({"coords": [["a", "b", "c"]] * 2}, "an array of type <U1", "whole numbers"),
    ({"coords": [[0, 1, -4], [1, 0, 2]]}, "-4 in mode 0 (mode_0)", "at least 0"),
    ({"coords": np.transpose(COORDS)}, "an array of shape (3,)", "transpose"),
    ({"shape": (2, 2)}, "2 in mode 1 (mode_1)", "below 2"),
    ({"shape": (2, 3, 4)}, (2, 3, 4), "each of the 2 modes"),
    ({"shape": (2, 0)}, (2, 0), "at least 1"),
    ({"shape": (2, 3.0)}, (2, 3.0), "whole numbers"),
    ({"shape": 6}, 6, "whole numbers"),
    ({"counts": [1, 2]}, "an array of shape (2,)", "each of the 3 columns"),
    ({"counts": [1, -2, 3]}, "-2 at position 1", "negative"),
    ({"counts": [1, 2, 0.5]}, "0.5 at position 2", "whole numbers"),
    ({"counts": [1, np.nan, 2]}, "nan at position 1", "whole numbers"),
    ({"counts": [np.inf, 1, 2]}, "inf at position 0", "whole numbers"),
    ({"counts": [2**63, 1, 1]}, "9.223372036854776e+18 at position 0", "below 2^63"),
    ({"counts": [2**70, 1, 1]}, "1180591620717411303424 at position 0", "below 2^63"),
    ({"counts": [1j, 1, 1]}, "an array of type complex128", "whole numbers"),
    ({"counts": [0, 0, 0]}, NO_VALUE, "positive count"),
    ({"counts": [], "coords": np.zeros((2, 0))}, NO_VALUE, "positive count"),
    ({"mode_names": ["a"]}, ("a",), "each of the 2 modes"),
    ({"mode_names": ["a", "a"]}, ("a", "a"), "'a' occurs more than once"),
    ({"mode_names": "ab"}, "ab", "not one string"),
    ({"mode_names": ["a", 3]}, ["a", 3], "3 is not"),
    ({"labels": [["a", "b"]]}, "a sequence of length 1", "each of the 2 modes"),
    ({"labels": [["a", "b"], ["x"]], "shape": (2, 3)}, "a sequence of 1 in mode 'mode_1'", "3 entries"),
    ({"labels": [["a"], None], "shape": (2, 3)}, "a sequence of 1 in mode 'mode_0'", "2 entries"),
    ({"labels": [["a", "a"], None]}, NO_VALUE, "'a' is repeated in mode 'mode_0'"),
    ({"labels": ["ab", None]}, "ab", "mode 'mode_0', not one string"),
    ({"labels": [5, None]}, 5, "a sequence in mode 'mode_0'"),
    ({"labels": "ab"}, "ab", "one entry per mode"),
    ({"labels": {"who": ["a", "b"]}}, "a dict", "'who' is not one of them"),
    ({"missing": [(0, 9)]}, "9 in mode 1", "from 0 to 2"),
]
OF_OTHER_ARGUMENTS = {"transpose": "counts", "below 2": "coords"}


@pytest.mark.parametrize(("change", "value", "rule"), BAD_INPUT)
def test_bad_input_is_refused_with_the_argument_and_the_value(change, value, rule):
    arguments = {"coords": COORDS, "counts": [1, 2, 3], **change}
    with refused(OF_OTHER_ARGUMENTS.get(rule, next(iter(change))), value, rule):
        CountTensor(**arguments)


def test_a_diagonal_of_modes_with_different_labels_is_refused():
    Y = CountTensor([[0, 1], [1, 0]], [1, 1], labels=[["USA", "RUS"], ["CHN", "USA"]])
    with refused("modes", rule="the same labels"):
        Y.mask_diagonal()


def test_too_few_labels_are_named_as_such():
    with refused("labels", "a sequence of 1 in mode 'mode_0'", "3 entries"):
        CountTensor([[0, 2], [1, 0]], [1, 1], labels=[["a"], None])


@pytest.mark.parametrize("label", [None, float("nan")])
def test_a_missing_label_is_refused(label):
    with refused("labels", rule="None or NaN"):
        CountTensor([[0, 1], [1, 0]], [1, 1], labels=[["a", label], None])


def test_a_diagonal_is_missing_only_where_it_was_masked():
    Y = CountTensor([[0, 1], [1, 0]], [3, 4], labels=[["A", "B"], ["A", "B"]])
    assert missing_diagonals(Y) == []
    assert missing_diagonals(Y.mask_diagonal()) == [(0, 1)]

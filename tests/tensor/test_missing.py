"""Missing: patterns against a plain boolean array of the cells."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocore.tensor import missing as module
from allocore.tensor.missing import Missing, signed_patterns
from support.errors import refused

# A busy machine is no failure.
UNHURRIED = settings(deadline=None)


def dense(patterns, shape):
    mask = np.zeros(shape, dtype=bool)
    for pattern in patterns:
        mask[tuple(slice(None) if value is None else value for value in pattern)] = True
    return mask


@st.composite
def pattern_sets(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    pattern = st.tuples(*[st.none() | st.integers(0, length - 1) for length in shape])
    return shape, draw(st.lists(pattern, max_size=12))


@UNHURRIED
@given(pattern_sets())
def test_contains_cells_and_signed_agree_with_a_boolean_array(case):
    shape, patterns = case
    missing, mask = Missing(patterns, shape), dense(patterns, shape)
    everywhere = np.indices(shape).reshape(len(shape), -1)
    assert np.array_equal(missing.contains(everywhere), mask.ravel())
    assert missing.cells == mask.sum()
    rows, weights = signed_patterns(missing)
    counted = np.zeros(shape, dtype=int)
    for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
        counted[tuple(slice(None) if value < 0 else value for value in row)] += weight
    assert np.array_equal(counted, mask)


@UNHURRIED
@given(pattern_sets(), st.randoms())
def test_the_canonical_form_does_not_depend_on_order_duplicates_or_contained_patterns(case, random):
    shape, patterns = case
    missing = Missing(patterns, shape)
    inside = [tuple(0 if value is None else value for value in pattern) for pattern in patterns]
    again = patterns + patterns[:2] + inside
    random.shuffle(again)
    assert Missing(again, shape) == missing
    assert Missing(list(missing), shape) == missing
    assert Missing(missing.patterns, shape) == missing
    assert missing.patterns.tolist() == sorted(missing.patterns.tolist())
    for one in missing:
        assert not any(
            all(b is None or a == b for a, b in zip(one, other, strict=True)) for other in missing if other != one
        )


@UNHURRIED
@given(pattern_sets(), st.data())
def test_a_union_holds_the_cells_of_both(case, data):
    shape, patterns = case
    cut = data.draw(st.integers(0, len(patterns)))
    both = Missing(patterns[:cut], shape).union(Missing(patterns[cut:], shape))
    assert both == Missing(patterns, shape)


def test_the_size_of_the_set_follows_from_the_signed_sum():
    shape = (5, 5, 3, 7)
    patterns = [(i, i, None, None) for i in range(5)] + [(0, 1, 2, None), (None, None, None, 6), (2, None, 0, None)]
    missing = Missing(patterns, shape)
    rows, weights = signed_patterns(missing)
    sizes = [math.prod(d for d, value in zip(shape, row, strict=True) if value < 0) for row in rows.tolist()]
    assert missing.cells == int(np.dot(weights, sizes)) == dense(patterns, shape).sum()


def test_disjoint_patterns_are_their_own_signed_sum():
    missing = Missing([(i, i, None) for i in range(4)], (4, 4, 9))
    rows, weights = signed_patterns(missing)
    assert np.array_equal(rows, missing.patterns)
    assert weights.tolist() == [1, 1, 1, 1]
    assert not rows.flags.writeable


def test_patterns_of_a_huge_tensor_are_counted_exactly():
    length = 10**6
    missing = Missing([(5, None, None, None), (None, 7, None, None), (5, 7, 1, 2)], (length,) * 4)
    assert len(missing) == 2
    assert missing.cells == 2 * length**3 - length**2
    cells = [[5, 6, 6], [1, 7, 8], [999_999, 0, 0], [999_999, 0, 0]]
    assert missing.contains(cells).tolist() == [True, True, False]
    far = 2**62
    assert Missing([(far, far), (far, 1)], (far + 1, far + 1)).contains([[far, far], [far, 0]]).tolist() == [
        True,
        False,
    ]


def test_the_empty_set_has_no_cells():
    missing = Missing.none((3, 4))
    assert len(missing) == 0
    assert missing.cells == 0
    assert missing.contains([[0], [0]]).tolist() == [False]
    assert missing.patterns.shape == (0, 2)
    assert signed_patterns(missing)[0].shape == (0, 2)


def test_a_set_is_a_readable_immutable_value():
    missing = Missing(np.array([[0, -1], [2, 3]]), (3, 4))
    assert repr(missing) == "Missing: 2 patterns, 5 of 12 cells"
    assert list(missing) == [(0, None), (2, 3)]
    assert pickle.loads(pickle.dumps(missing)) == missing
    assert missing != Missing.none((3, 4))
    assert missing != Missing(missing.patterns, (4, 4))
    assert missing != "else"
    with pytest.raises(ValueError, match="read-only"):
        missing.patterns[:] = 0
    with pytest.raises(AttributeError):
        missing.shape = (1, 1)


def test_patterns_that_overlap_beyond_the_limit_are_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_SIGNED_PATTERNS", 99)
    missing = Missing([(i, None) for i in range(10)] + [(None, j) for j in range(10)], (20, 20))
    with refused("patterns", rule="meet in 100 places, and at most 99"):
        _ = missing.cells


@pytest.mark.parametrize(
    ("coords", "value"),
    [
        ([[0, 3], [0, 0]], "3 in mode 0"),
        ([[0, -1], [0, 0]], "-1 in mode 0"),
        ([[0], [0], [0]], "an array of shape (3, 1)"),
        ([0, 1], "an array of shape (2,)"),
    ],
)
def test_coordinates_outside_the_shape_are_refused(coords, value):
    with refused("coords", value):
        Missing([(0, None)], (3, 4)).contains(coords)


@pytest.mark.parametrize(
    ("patterns", "value", "rule"),
    [
        ([(0, 4)], "4 in mode 1", "from 0 to 3, or a wildcard"),
        ([(-2, 0)], "-2 in mode 0", "from 0 to 2"),
        ([(0,)], "a list with the entry (0,)", "for each of the 2 modes"),
        (["ab"], "a list with the entry 'ab'", "for each of the 2 modes"),
        ([("a", 0)], "an array of type <U21", "whole numbers"),
        (3, 3, "list of patterns"),
        (np.array([0, 1]), "an array of shape (2,)", "shape (patterns, 2)"),
    ],
)
def test_bad_patterns_are_refused(patterns, value, rule):
    with refused("patterns", value, rule):
        Missing(patterns, (3, 4))


def test_signed_patterns_of_two_that_cross_count_the_crossing_once():
    patterns, weights = signed_patterns(Missing([(0, None), (None, 2)], shape=(2, 3)))
    assert patterns.tolist() == [[-1, 2], [0, -1], [0, 2]]
    assert weights.tolist() == [1, 1, -1]

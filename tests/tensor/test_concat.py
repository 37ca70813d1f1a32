"""Tensors joined along a mode: `concat` against plain NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import allocore as ac
from allocore.tensor.concat import matched_rows
from support.errors import refused
from support.tensor_cases import dense_mask, labelled_tensors, patterns_for
from support.tiers import given_by_tier


def part(counts, who, when, missing=()):
    Y = ac.as_tensor(np.array(counts), mode_names=["who", "when"], labels=[who, when])
    return Y.with_missing(list(missing))


@given_by_tier(labelled_tensors(), st.data(), quick=15)
def test_a_tensor_that_is_cut_and_joined_is_the_same_tensor(Y, data):
    mode = data.draw(st.integers(0, Y.ndim - 1), label="mode")
    cuts = data.draw(st.sets(st.integers(1, max(1, Y.shape[mode] - 1))), label="cuts")
    ends = sorted({0, Y.shape[mode], *(cut for cut in cuts if cut < Y.shape[mode])})
    blocks = [np.isin(np.arange(Y.shape[mode]), range(*pair)) for pair in pairwise(ends)]
    assume(all(Y.mode_totals(mode)[block].any() for block in blocks))
    parts = [Y.select({mode: block}) for block in blocks]
    assert ac.concat(parts, mode) == Y


@st.composite
def parts_with_labels_of_their_own(draw):
    """Up to three parts of sender x receiver x time; each has some of the labels."""
    parts, start = [], 0
    for _ in range(draw(st.integers(1, 3))):
        some = [sorted(draw(st.sets(st.sampled_from("pqrst"), min_size=1, max_size=3))) for _ in range(2)]
        length = draw(st.integers(1, 2))
        times = [f"t{place}" for place in range(start, start + length)]
        start += length
        shape = (len(some[0]), len(some[1]), length)
        counts = draw(st.lists(st.integers(0, 3), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        Y = ac.as_tensor(np.array(counts).reshape(shape) + (1 if not any(counts) else 0), labels=[*some, times])
        patterns = draw(patterns_for(shape, 3))
        masked = ac.Missing(patterns, shape)
        parts.append(Y.with_missing(masked) if Y.total > Y.counts[masked.contains(Y.coords)].sum() else Y)
    return parts


@given_by_tier(parts_with_labels_of_their_own(), st.sampled_from(["zero", "missing"]), quick=15)
def test_united_labels_are_zeros_or_missing_where_a_part_does_not_have_them(parts, absent):
    result = ac.concat(parts, mode=-1, join="outer", absent=absent)
    counts, mask = np.zeros(result.shape, dtype=int), np.zeros(result.shape, dtype=bool)
    places = [{label: place for place, label in enumerate(labels)} for labels in result.labels]
    for each in parts:
        block = np.ix_(*([place[label] for label in own] for place, own in zip(places, each.labels, strict=True)))
        counts[block] = each.to_dense()
        rows = [places[2][label] for label in each.labels[2]]
        if absent == "missing":
            mask[:, :, rows] = True
            mask[block] = False
        # A wildcard holds for all labels, also for those that the part does not have.
        for pattern in each.missing:
            fixed = [None if p is None else [places[m][each.labels[m][p]]] for m, p in enumerate(pattern)]
            own = [range(n) if some is None else some for some, n in zip(fixed[:2], result.shape, strict=False)]
            mask[np.ix_(*own, rows if fixed[2] is None else fixed[2])] = True
        if absent == "zero" and _has_missing_diagonal(each):
            for label in {*result.labels[0]} - {*each.labels[0]}:
                mask[places[0][label], places[1].get(label, []), rows] = True
    assert np.array_equal(result.to_dense(), counts)
    assert np.array_equal(dense_mask(result), mask)
    assert result.labels[0][: len(parts[0].labels[0])] == parts[0].labels[0]
    assert set(result.labels[1]) == {label for each in parts for label in each.labels[1]}


def _has_missing_diagonal(Y):
    """Whether the two modes of actors have the same labels, and patterns say that no actor's own cells are observed."""
    if Y.labels[0] != Y.labels[1]:
        return False
    patterns = [pattern for pattern in Y.missing if pattern[2] is None and pattern[:2] != (None, None)]
    on = [{p for p in pattern[:2] if p is not None} for pattern in patterns]
    exact = any(None not in pattern[:2] and len(each) == 1 for pattern, each in zip(patterns, on, strict=True))
    return exact and {place for each in on if len(each) == 1 for place in each} == set(range(Y.shape[0]))


def test_a_pattern_of_all_parts_is_one_and_others_hold_for_the_rows_of_their_part():
    one = part([[1, 2], [3, 4]], ["A", "B"], ["2018-01", "2018-02"], [("A", None)])
    two = part([[5, 6], [7, 8]], ["A", "B"], ["2018-03", "2018-04"], [("A", None)])
    assert list(ac.concat([one, two], "when").missing) == [(0, None)]
    two = part([[5, 6], [7, 8]], ["A", "B"], ["2018-03", "2018-04"], [(None, "2018-04")])
    assert list(ac.concat([one, two], "when").missing) == [(None, 3), (0, 0), (0, 1)]


def test_a_missing_diagonal_is_missing_for_actors_that_came_later():
    names = ["sender", "receiver", "when"]
    old = ac.CountTensor([[0], [1], [0]], [1], mode_names=names, labels=[["A", "B"], ["A", "B"], ["2018"]])
    new = ac.CountTensor([[0], [2], [0]], [2], mode_names=names, labels=[["A", "B", "C"]] * 2 + [["2019"]])
    joined = ac.concat([old.mask_diagonal(), new.mask_diagonal()], "when", join="outer")
    assert joined == ac.concat([old, new], "when", join="outer").mask_diagonal()
    assert list(joined.missing) == [(0, 0, None), (1, 1, None), (2, 2, None)]
    # Here C and D have different rows in the two modes.
    other = new.with_labels([["A", "B", "C"], ["B", "D", "C"], ["2019"]])
    joined = ac.concat([old.mask_diagonal(), other], "when", join="outer")
    assert joined.labels[:2] == (("A", "B", "C"), ("A", "B", "D", "C"))
    assert list(joined.missing) == [(0, 0, 0), (1, 1, 0), (2, 3, 0)]
    # One pattern says that nothing of B was observed, and so none is left for its place on the diagonal.
    blind = old.mask_diagonal().mask(receiver="A")
    assert ac.concat([blind, new.mask_diagonal()], "when", join="outer").missing.contains([[2], [2], [0]]).all()


def test_labels_that_a_later_part_adds_follow_and_calendars_stay_in_order():
    def joined(first, second):
        one, two = (part([[1]] * len(who), who, [when]) for who, when in ((first, "x"), (second, "y")))
        return ac.concat([one, two], "when", join="outer").labels[0]

    assert joined(["M", "A"], ["Z", "A", "B"]) == ("M", "A", "Z", "B")
    assert joined(["Mon", "Fri"], ["Tue", "Sun"]) == ("Mon", "Tue", "Fri", "Sun")
    assert joined(["2018-03"], ["2018-01", "2018-03"]) == ("2018-01", "2018-03")
    assert joined(["B", "A"], ["A", "B"]) == ("B", "A")


def test_a_mode_without_labels_is_counted_on():
    one, two = ac.as_tensor(np.eye(2, dtype=int)), ac.as_tensor(np.ones((2, 3), dtype=int))
    joined = ac.concat([one, two], mode=1)
    assert np.array_equal(joined.to_dense(), np.concatenate([one.to_dense(), two.to_dense()], axis=1))
    assert joined.labels == (range(2), range(5))
    assert ac.concat([np.eye(2, dtype=int)], 0) == one


def test_parts_of_very_long_modes_are_joined():
    Y = ac.CountTensor([[0, 2**40], [0, 1]], [1, 2], (2**41, 2), missing=[(5, None)])
    joined = ac.concat([Y, Y], mode=0)
    assert joined.shape == (2**42, 2)
    assert joined.coords[0].tolist() == [0, 2**40, 2**41, 2**41 + 2**40]
    assert list(joined.missing) == [(5, None), (2**41 + 5, None)]
    with refused("tensors", rule="1 for 2,199,023,255,552 rows"):
        ac.concat([Y.with_missing([(None, 1)]), Y], mode=0)


JAN, FEB = (part([[1], [2]], ["A", "B"], [month]) for month in ("2018-01", "2018-02"))


@pytest.mark.parametrize(
    ("tensors", "options", "argument", "rule"),
    [
        ([JAN, FEB, JAN], {}, "tensors", "mode 'when' has '2018-01' in tensors 0 and 2"),
        ([FEB, JAN], {}, "tensors", "mode 'when' has '2018-01' after '2018-02'"),
        ([JAN, part([[1], [2]], ["A", "B"], ["2018-Q2"])], {}, "tensors", "begin with '2018-01', '2018-Q2'"),
        ([JAN, part([[1], [2]], ["A", "C"], ["2018-02"])], {}, "tensors", "'B' is only in tensor 0 and 'C' is only in"),
        ([JAN, part([[1], [2]], ["B", "A"], ["2018-02"])], {}, "tensors", "mode 'who': tensor 1 has another order"),
        ([JAN, part([[1], [2]], None, ["2018-02"])], {}, "tensors", "labels in mode 'who', or none; tensor 1 has none"),
        ([part([[1]], None, ["a"]), part([[1], [2]], None, ["b"])], {"join": "outer"}, "tensors", "lengths are [1, 2]"),
        ([JAN, FEB.with_labels(mode_names=["whom", "when"])], {}, "tensors", "tensor 1 has whom, when"),
        ([], {}, "tensors", "at least one"),
        (JAN, {}, "tensors", "list of tensors"),
        ([JAN, FEB], {"join": "inner"}, "join", "equal, outer"),
        ([JAN, FEB], {"absent": "nan"}, "absent", "zero, missing"),
        ([JAN, FEB], {"absent": "missing"}, "absent", "`join` is 'outer'"),
        ([JAN, FEB], {"mode": "month"}, "mode", "who, when"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_the_mode_and_the_labels(tensors, options, argument, rule):
    with refused(argument, rule=rule):
        ac.concat(tensors, **{"mode": "when"} | options)


def test_new_rows_of_which_no_label_is_known_are_refused():
    known, new = (ac.as_tensor(np.ones((2, 2), dtype=int), labels=[list(who), list("xy")]) for who in ("ab", "ef"))
    with refused("Y_new", rule="at least one label"):
        matched_rows(new, known, (1,), new_labels="drop")

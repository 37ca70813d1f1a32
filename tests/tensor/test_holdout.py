"""hold_out: an exact partition of the cells, drawn uniformly and reproducibly."""

import pickle
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import reject
from hypothesis import strategies as st

from allocore.errors import InputError
from allocore.tensor import holdout
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor
from allocore.tensor.holdout import HeldOut, hold_out
from support.errors import refused
from support.tiers import given_by_tier

# A busy machine is no failure.


@st.composite
def cases(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=6).filter(lambda s: np.prod(s) > 3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dense = rng.poisson(draw(st.sampled_from([0.5, 5.0])), shape)
    dense.flat[:3] += 1
    pattern = st.tuples(*[st.none() | st.integers(0, length - 1) for length in shape])
    tensor = as_tensor(dense)
    with suppress(InputError):
        tensor = tensor.with_missing(draw(st.lists(pattern, max_size=4)))
    return tensor, draw(st.sampled_from([0.01, 0.2, 0.5])), draw(st.integers(-len(shape), len(shape) - 1))


@given_by_tier(cases(), st.integers(0, 1000), quick=15)
def test_train_test_and_missing_partition_the_cells(case, seed):
    tensor, fraction, along = case
    try:
        split = hold_out(tensor, fraction, along, seed)
    except InputError:
        # A small tensor may have too little to split; the tests of the errors are below.
        reject()
    everywhere = np.indices(tensor.shape).reshape(tensor.ndim, -1)
    was_missing = tensor.missing.contains(everywhere).reshape(tensor.shape)
    is_missing = split.train.missing.contains(everywhere).reshape(tensor.shape)
    in_test = np.zeros(tensor.shape, dtype=int)
    np.add.at(in_test, tuple(split.test.coords), 1)
    assert np.array_equal(is_missing, was_missing | (in_test == 1))
    assert in_test.max() == 1
    assert not (was_missing & (in_test == 1)).any()
    dense = tensor.to_dense()
    assert np.array_equal(split.test.counts, dense[tuple(split.test.coords)])
    assert np.array_equal(split.train.to_dense(), np.where(is_missing, 0, dense))
    assert split.train.total + split.test.counts.sum() == tensor.total


@given_by_tier(cases(), quick=15)
def test_the_number_of_fibres_is_the_share_of_those_not_missing(case):
    tensor, fraction, along = case
    covered = [p for p in tensor.missing if p[along] is None or tensor.shape[along] == 1]
    mask = np.zeros(tensor.shape, dtype=bool)
    for pattern in covered:
        mask[tuple(slice(None) if value is None else value for value in pattern)] = True
    candidates = int((~mask.any(axis=along)).sum())
    try:
        split = hold_out(tensor, fraction, along)
    except InputError:
        reject()
    outside = [axis for axis in range(tensor.ndim) if axis != along % tensor.ndim]
    fibres = {tuple(column) for column in split.test.coords[outside].T.tolist()}
    assert len(fibres) <= max(1, round(fraction * candidates))
    if not len(tensor.missing):
        assert len(fibres) == max(1, round(fraction * candidates))
        assert len(split.test) == len(fibres) * tensor.shape[along]


def test_the_split_depends_on_the_seed_and_on_nothing_else():
    tensor = as_tensor(np.random.default_rng(0).poisson(1.0, (10, 10, 5)))
    assert hold_out(tensor, 0.2, seed=3) == hold_out(tensor, 0.2, seed=3)
    assert hold_out(tensor, 0.2, seed=3).test != hold_out(tensor, 0.2, seed=4).test
    named = tensor.with_labels(mode_names=["a", "b", "c"])
    assert hold_out(named, 0.2, along="b").test == hold_out(tensor, 0.2, along=1).test == hold_out(tensor, 0.2, -2).test


@pytest.mark.slow
def test_every_fibre_is_equally_likely():
    tensor = as_tensor(np.ones((4, 4, 2), dtype=int)).mask_diagonal()
    seen = Counter()
    draws = 1000
    for seed in range(draws):
        test = hold_out(tensor, 0.25, seed=seed).test
        seen.update(set(map(tuple, test.coords[:2].T.tolist())))
    assert len(seen) == 12
    # Each of the 12 fibres is one of the 3 drawn with chance 1/4: six standard deviations to both sides.
    spread = 6 * (draws * 1 / 4 * 3 / 4) ** 0.5
    assert all(abs(count - draws / 4) < spread for count in seen.values())


def test_nearly_all_fibres_can_be_held_out():
    tensor = as_tensor(np.ones((30, 30, 2), dtype=int))
    split = hold_out(tensor, 0.99)
    assert len(split.test) == 891 * 2
    assert split.train.nnz == 9 * 2


def test_a_huge_tensor_is_split_without_its_volume():
    rng = np.random.default_rng(0)
    coords = np.stack([*rng.integers(0, 10**4, (3, 1000)), rng.integers(0, 9, 1000)])
    tensor = CountTensor(coords, np.ones(1000), (10**4, 10**4, 10**12, 9)).mask_diagonal()
    with refused("fraction", 0.01, "999,900,000,000,000,000 fibres of 9 cells; at most 20,000"):
        hold_out(tensor)
    split = hold_out(tensor, 1e-17)
    assert len(split.test) == 1000 * 9
    assert len(split.train.missing) == 10**4 + 1000


def test_missing_cells_of_a_held_out_fibre_are_not_tested():
    tensor = as_tensor(np.ones((2, 3), dtype=int)).with_missing([(None, 1)])
    split = hold_out(tensor, 0.5, along=1)
    assert len(split.test) == 2
    assert 1 not in split.test.coords[1]


def test_the_positive_cells_are_a_held_out_set_of_their_own():
    split = hold_out(as_tensor(np.random.default_rng(1).poisson(0.5, (20, 20, 4))), 0.1)
    positive = split.test.positive
    assert positive.counts.min() == 1
    assert len(positive) == np.count_nonzero(split.test.counts)
    assert positive.positive == positive
    assert positive != "else"
    assert repr(split.test).startswith("HeldOut: 160 cells, ")
    assert "train CountTensor" in repr(split)
    assert "test  HeldOut" in repr(split)


def test_a_split_cannot_be_changed_and_survives_a_pickle():
    split = hold_out(as_tensor(np.ones((3, 3), dtype=int)), 0.3)
    with pytest.raises(AttributeError):
        split.test.counts = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        split.test.counts[:] = 0
    again = pickle.loads(pickle.dumps(split))
    assert again == split
    assert not again.test.coords.flags.writeable


TENSOR = CountTensor([[0, 1], [0, 1], [0, 0]], [1, 2], (2, 2, 3))


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("fraction", 0, "above 0 and below 1"),
        ("fraction", 1.0, "above 0 and below 1"),
        ("fraction", "0.1", "above 0 and below 1"),
        ("along", "time", "one of the modes"),
        ("along", 3, "one of the modes"),
        ("seed", -1, "a whole number of at least 0"),
        ("seed", None, "a whole number of at least 0"),
        ("fraction", 0.99, "no positive count to train on"),
    ],
)
def test_bad_arguments_are_refused(argument, value, rule):
    with refused(argument, value, rule):
        hold_out(TENSOR, **{argument: value})


def test_a_fraction_that_is_not_a_number_is_refused():
    with refused("fraction", rule="above 0 and below 1"):
        hold_out(TENSOR, float("nan"))


def test_a_draw_of_nothing_but_missing_cells_is_refused():
    # Two patterns share out each fibre along mode 1 except the first, so none is covered by one of them.
    tensor = CountTensor([[0], [0]], [1], (50, 2)).with_missing([(i, j) for i in range(1, 50) for j in (0, 1)])
    with refused("fraction", 0.01, "all cells of the drawn fibres are missing already"):
        hold_out(tensor, seed=1)


def test_fibres_too_rare_to_be_found_are_refused(monkeypatch):
    monkeypatch.setattr(holdout, "MAX_DRAWS", 10)
    tensor = CountTensor([[0, 0], [0, 1]], [1, 1], (50, 2)).with_missing([(i, None) for i in range(1, 50)])
    with refused("fraction", 0.01, "1 fibres, but only 1 of 50 are not missing"):
        hold_out(tensor)


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"coords": [[0, 1, 0, 1]]}, "mode_names"),
        ({"coords": np.zeros((3, 2))[0]}, "coords"),
        ({"coords": [[0.5], [1], [1]]}, "coords"),
        ({"coords": np.full((3, 4), 99)}, "coords"),
        ({"counts": [1, 2]}, "counts"),
        ({"counts": [-1, 0, 1, 2]}, "counts"),
        ({"counts": "many"}, "counts"),
        ({"shape": (2, 2)}, "shape"),
        ({"shape": (9, 9, 9)}, "labels"),
        ({"mode_names": ("a", "b")}, "mode_names"),
        ({"labels": (["x", "y"], None)}, "labels"),
        ({"along": 3}, "along"),
        ({"along": "c"}, "along"),
    ],
    ids=str,
)
def test_held_out_cells_made_by_hand_are_checked(wrong, argument):
    fine = {"coords": [[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]], "counts": [1, 0, 0, 2], "shape": (2, 2, 1)}
    fine |= {"mode_names": ("a", "b", "c"), "labels": (["x", "y"], None, None), "along": -1}
    made = HeldOut(**fine)
    assert (made.along, made.labels, made.positive.counts.tolist()) == (2, (("x", "y"), range(2), range(1)), [1, 2])
    with refused(argument):
        HeldOut(**{**fine, **wrong})

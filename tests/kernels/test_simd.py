"""Towers: every place is at least as wide as its weights, and is found where it stands."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocore.kernels.jit import kernel
from allocore.kernels.simd import (
    LANES,
    LEVEL,
    SLACK,
    aligned_zeros,
    column_at,
    level_at,
    new_towers,
    padded,
    raise_tower,
)


@kernel
def build(lefts, left, rights, right, towers, cell):
    return raise_tower(lefts, left, rights, right, towers, cell)


@kernel
def find(towers, cell, targets, columns, levels):
    for i in range(targets.size):
        columns[i] = column_at(towers, cell, targets[i])
        rest = targets[i] - towers[cell, 0, columns[i]]
        levels[i] = level_at(towers, cell, columns[i], rest)


def tower_of(weights, seed=0):
    """The tower over two rows whose products are about `weights`, in the second of three cells; and the rows."""
    rng = np.random.default_rng(seed)
    lefts, rights = aligned_zeros(2, padded(len(weights), LEVEL)), aligned_zeros(3, padded(len(weights), LEVEL))
    rights[2, : len(weights)] = rng.uniform(0.5, 1.0, len(weights))
    lefts[1, : len(weights)] = weights / rights[2, : len(weights)]
    towers = new_towers(3, lefts.shape[1])
    end, total = build(lefts, 1, rights, 2, towers, 1)
    exact = lefts[1].astype(float) * rights[2].astype(float)
    return towers, end, total, exact


def ranges(towers, end):
    """Where each column begins and ends, and each level in it."""
    starts = towers[1, 0].astype(float)
    return np.append(starts, end), towers[1, 1:].astype(float)


weights = st.lists(
    st.one_of(st.just(0.0), st.floats(-18.0, 0.0).map(lambda x: 10.0**x)), min_size=1, max_size=200
).filter(lambda values: max(values) > 1e-3)


@settings(max_examples=200, deadline=None)
@given(weights)
def test_every_place_is_wide_enough_for_its_weights_and_for_the_rounding_of_a_target(values):
    check_places(np.array(values))


def check_places(values):
    towers, end, total, exact = tower_of(values)
    columns, below = ranges(towers, end)
    pairs = exact.reshape(-1, 2, LANES).sum(axis=1)
    # A target is rounded to 32 bits before it is compared, so a place may lose half a unit of its end.
    unit = 2.0**-24
    assert (np.diff(below, axis=0) >= pairs / (1.0 + SLACK) + unit * below[1:] * (pairs > 0)).all()
    assert (np.diff(columns) >= below[-1] + unit * columns[1:]).all()
    assert end <= exact.sum() * (1.0 + (len(below) + LANES + 2) * SLACK)
    assert total == pytest.approx(exact.sum(), rel=1e-6)
    assert (towers[[0, 2]] == 0).all()


@pytest.mark.parametrize("size", [150, 1000, 4000])
def test_places_are_wide_enough_with_many_classes(size):
    rng = np.random.default_rng(size)
    for _ in range(20):
        check_places(10.0 ** rng.uniform(-18.0, 0.0, size) * (rng.random(size) < 0.9))


@pytest.mark.parametrize("size", [1, 16, 17, 33, 150, 400])
def test_a_target_is_found_in_the_place_that_holds_it(size):
    rng = np.random.default_rng(size)
    towers, end, _, _ = tower_of(rng.gamma(0.2, size=size) + 1e-9)
    targets = rng.uniform(0.0, end, 2000)
    found, levels = np.empty(2000, dtype=np.int64), np.empty(2000, dtype=np.int64)
    find(towers, 1, targets, found, levels)
    columns, below = ranges(towers, end)
    rounding = 2.0**-23 * end
    assert (columns[found] <= targets + rounding).all()
    assert (targets <= columns[found + 1] + rounding).all()
    rest = targets - columns[found]
    inside = rest < below[-1][found] - rounding
    assert inside.mean() > 0.999
    assert (below[levels, found] <= rest + rounding).all()
    assert (rest <= below[levels + 1, found] + rounding)[inside].all()
    assert (levels < padded(size, LEVEL) // LEVEL).all()


def test_rows_begin_at_lines_of_the_caches():
    for width in (1, 16, 100):
        assert aligned_zeros(3, padded(width, LEVEL)).ctypes.data % 64 == 0

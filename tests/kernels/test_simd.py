"""SIMD code: dot products and sums of rows in their documented order, and towers with room for every weight."""

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
    dot_of_rows,
    level_at,
    new_towers,
    padded,
    padded_columns,
    raise_tower,
    sum_rows,
)


@kernel
def dot(lefts, left, rights, right):
    return dot_of_rows(lefts, left, rights, right)


@pytest.mark.parametrize("width", [0, 1, 3, LANES - 1, LANES, LANES + 1, 2 * LANES, 100, 257])
def test_the_dot_product_of_two_rows_is_that_of_numpy(width):
    rng = np.random.default_rng(width)
    lefts, rights = rng.normal(size=(3, width)), rng.normal(size=(2, width))
    for left in range(3):
        for right in range(2):
            exact = lefts[left] @ rights[right]
            assert dot(lefts, left, rights, right) == pytest.approx(exact, rel=1e-12, abs=1e-12)


@pytest.mark.jit
def test_numbers_are_added_in_the_documented_order_to_the_last_bit():
    width = 5 * LANES + 3
    lefts, rights = np.random.default_rng(0).lognormal(sigma=8.0, size=(1, width)), np.ones((1, width))
    lanes = np.zeros(LANES)
    for vector in lefts[0, : 5 * LANES].reshape(5, LANES):
        lanes += vector
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    total = lanes[0]
    for number in lefts[0, 5 * LANES :]:
        total += number
    assert dot(lefts, 0, rights, 0) == total
    assert total != lefts[0, ::-1].cumsum()[-1], "another order gives another sum"


@kernel
def fill_sums(table, which, weights, q, r, out):
    sum_rows(table, which, which.size, weights, q, r, out)


@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, 100])
@pytest.mark.parametrize("rows", [0, 1, 7, 30])
def test_sums_of_rows_are_those_of_a_matrix_product(width, rows):
    rng = np.random.default_rng(width)
    table, weights = rng.normal(size=(30, width)), rng.normal(size=(5, 30))
    which = np.sort(rng.permutation(30)[:rows])
    out = np.full((5, padded(width, LANES)), np.nan)
    fill_sums(padded_columns(table), which, weights, 1, 3, out)
    np.testing.assert_allclose(out[[1, 3], :width], weights[[1, 3]][:, which] @ table[which], rtol=1e-12, atol=1e-13)
    assert (out[[1, 3], width:] == 0).all()
    assert np.isnan(out[[0, 2, 4]]).all()


def test_a_class_has_the_same_sum_single_and_of_two_another():
    rng = np.random.default_rng(1)
    table, weights, which = rng.normal(size=(40, LANES)), rng.normal(size=(2, 40)), np.arange(40)
    single, of_two = np.empty((2, LANES)), np.empty((2, LANES))
    fill_sums(table, which, weights, 0, 0, single)
    fill_sums(table, which, weights, 0, 1, of_two)
    np.testing.assert_array_equal(single[0], of_two[0])


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

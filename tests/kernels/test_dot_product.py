"""Dot products of rows: right for every width, and in the documented order."""

import numpy as np
import pytest

from allocore.kernels.jit import kernel
from allocore.kernels.simd import LANES, dot_of_rows


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

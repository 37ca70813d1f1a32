"""Weighted sums of rows: right for every width and every choice of rows, and the same for one class or two."""

import numpy as np
import pytest

from allocore.kernels.jit import kernel
from allocore.kernels.simd import LANES, padded, padded_columns, sum_rows


@kernel
def fill(table, which, weights, q, r, out):
    sum_rows(table, which, which.size, weights, q, r, out)


@pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, 100])
@pytest.mark.parametrize("rows", [0, 1, 7, 30])
def test_sums_of_rows_are_those_of_a_matrix_product(width, rows):
    rng = np.random.default_rng(width)
    table, weights = rng.normal(size=(30, width)), rng.normal(size=(5, 30))
    which = np.sort(rng.permutation(30)[:rows])
    out = np.full((5, padded(width, LANES)), np.nan)
    fill(padded_columns(table), which, weights, 1, 3, out)
    np.testing.assert_allclose(out[[1, 3], :width], weights[[1, 3]][:, which] @ table[which], rtol=1e-12, atol=1e-13)
    assert (out[[1, 3], width:] == 0).all()
    assert np.isnan(out[[0, 2, 4]]).all()


def test_a_class_has_the_same_sum_alone_and_beside_another():
    rng = np.random.default_rng(1)
    table, weights, which = rng.normal(size=(40, LANES)), rng.normal(size=(2, 40)), np.arange(40)
    alone, beside = np.empty((2, LANES)), np.empty((2, LANES))
    fill(table, which, weights, 0, 0, alone)
    fill(table, which, weights, 0, 1, beside)
    np.testing.assert_array_equal(alone[0], beside[0])

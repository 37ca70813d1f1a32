"""Distinct numbers, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocore.tensor.coordinates import DistinctValues, distinct


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("values", [[], [0], [5, 5], [3, 0, 3, 1, 0], range(1000, 0, -3)])
def test_distinct_values_are_those_of_numpy(kind, values):
    found = distinct(np.array(values, dtype=kind))
    assert found.dtype == kind
    assert found.tolist() == np.unique(np.array(values, dtype=kind)).tolist()


@given(st.lists(st.lists(st.integers(0, 20), max_size=8), max_size=8))
def test_distinct_values_of_arrays_are_those_of_all_of_them(arrays):
    found = DistinctValues()
    for values in arrays:
        found.add(np.array(values, dtype=np.int64))
    assert found.sorted().tolist() == sorted({value for values in arrays for value in values})

"""Cells sorted into fibres."""

import numpy as np
import pytest

from allocore.kernels.exposure_sums import changed_modes, sorted_coords
from allocore.tensor import coordinates
from allocore.tensor.coordinates import cell_ranges

SHAPE = (5, 4, 3)


def some_cells(seed=0):
    rng = np.random.default_rng(seed)
    return np.unique(np.array([rng.integers(0, length, 40) for length in SHAPE]), axis=1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("sorted_already", [False, True])
def test_cells_are_sorted_by_the_order_of_modes_and_none_is_lost(order, sorted_already):
    coords = some_cells()
    coords_MN, place_N = sorted_coords(coords, order, SHAPE, sorted_already=sorted_already)
    np.testing.assert_array_equal(coords_MN, coords[list(order)][:, place_N])
    as_rows = [tuple(cell) for cell in coords_MN.T.tolist()]
    assert as_rows == sorted(as_rows)


def test_cells_that_are_not_sorted_are_sorted_even_in_the_order_of_the_modes():
    coords = some_cells()[:, ::-1]
    coords_MN, _ = sorted_coords(coords, (0, 1, 2), SHAPE, sorted_already=False)
    np.testing.assert_array_equal(coords_MN, some_cells())


@pytest.mark.parametrize(("length", "expected"), [(2**16, np.uint16), (2**16 + 1, np.int32), (2**31, np.int64)])
def test_coordinates_have_the_narrowest_type_that_holds_them(length, expected):
    coords = np.array([[0, length - 1], [1, 0]])
    coords_MN, _ = sorted_coords(coords, (0, 1), (length, 2), sorted_already=True)
    assert coords_MN.dtype == expected
    np.testing.assert_array_equal(coords_MN, coords)


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_the_first_mode_that_changed_is_found_also_where_ranges_of_cells_meet(monkeypatch, at_once):
    monkeypatch.setattr(coordinates, "_CELLS_AT_ONCE", at_once)
    coords = some_cells(1)
    expected = [2, *(int(np.argmax(here != before)) for before, here in zip(coords.T, coords.T[1:], strict=False))]
    assert changed_modes(coords).tolist() == expected
    covered = [n for part in cell_ranges(coords.shape[1]) for n in range(part.start, part.stop)]
    assert covered == list(range(coords.shape[1]))

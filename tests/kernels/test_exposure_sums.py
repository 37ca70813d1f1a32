"""Sums over observed cells and rates of cells, against the plain sums of model/joint.py; cells sorted into fibres."""

import numpy as np
import pytest

from allocore.gibbs.layout import Workspace
from allocore.kernels import exposure_sums
from allocore.kernels.exposure_sums import SignedPatterns, changed_modes, rates_of_cells, sorted_coords
from allocore.kernels.simd import NARROW, WIDE
from allocore.kernels.workers import Workers
from allocore.model.joint import class_totals, rates_at
from allocore.tensor import coordinates
from allocore.tensor.coordinates import cell_ranges
from support import cases

EVERY_CASE = [(modes, 5, with_missing) for modes in (2, 3, 4, 5, 6) for with_missing in (False, True)]
# As many classes as are summed in vectors, and one less or more.
EVERY_CASE += [(3, budget, True) for budget in (NARROW - 1, NARROW, NARROW + 3, WIDE - 1, WIDE, WIDE + 1)]


@pytest.fixture(params=EVERY_CASE, ids=lambda p: f"{p[0]}-modes-{p[1]}-classes-{'missing' if p[2] else 'complete'}")
def case(request):
    modes, budget, with_missing = request.param
    return cases.make(modes, budget=budget, with_missing=with_missing, seed=modes)


def expected_sums(case):
    return class_totals(case.state, case.missing) / case.state.core_values()


def columns(case, workspace, q):
    phi = [workspace.rows(mode)[:, q] for mode in range(case.Y.ndim)]
    return phi, [phi_D.sum() for phi_D in phi]


def test_the_sums_over_all_observed_cells_are_those_of_the_model(case):
    expanded = Workspace.of(case.layout, case.state).expanded
    np.testing.assert_allclose(
        case.layout.missing.sums(expanded, Workers(1)), expected_sums(case), rtol=1e-12, atol=1e-14
    )


def test_the_sums_by_row_add_up_to_the_sums_over_all_cells(case):
    workspace = Workspace.of(case.layout, case.state)
    for mode in range(case.Y.ndim):
        by_row_DQ = case.layout.missing.sums_by_row(workspace.expanded, mode, Workers(1))
        total_Q = (by_row_DQ * workspace.rows(mode)).sum(axis=0)
        np.testing.assert_allclose(total_Q, expected_sums(case), rtol=1e-11, atol=1e-13)


def test_the_sum_of_one_class_is_that_of_all_classes(case):
    workspace = Workspace.of(case.layout, case.state)
    ours = [case.layout.missing.sum_of_one(*columns(case, workspace, q)) for q in range(case.spec.budget)]
    np.testing.assert_allclose(ours, expected_sums(case), rtol=1e-12, atol=1e-14)


def test_the_observed_cells_with_column_sums_as_a_last_row_give_the_same_sum(case):
    workspace = Workspace.of(case.layout, case.state)
    coords_MP, weights_P = case.layout.missing.observed_cells()
    product_PQ = weights_P[:, None] * np.ones(case.spec.budget)
    for mode, column_P in enumerate(coords_MP):
        rows_DQ = workspace.rows(mode)
        product_PQ *= np.vstack([rows_DQ, rows_DQ.sum(axis=0)])[column_P]
    np.testing.assert_allclose(product_PQ.sum(axis=0), expected_sums(case), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_sums_depend_neither_on_threads_nor_but_for_rounding_on_chunks(monkeypatch, chunk):
    case = cases.make(4, budget=5, seed=3)
    expanded = Workspace.of(case.layout, case.state).expanded
    monkeypatch.setattr(exposure_sums, "_CHUNK", chunk)
    monkeypatch.setattr(exposure_sums, "_WORTH_A_THREAD", 1)
    patterns = SignedPatterns.of(case.missing)
    with Workers(3) as workers:
        for mode in range(4):
            several = patterns.sums_by_row(expanded, mode, workers)
            assert several.tobytes() == patterns.sums_by_row(expanded, mode, Workers(1)).tobytes()
            np.testing.assert_allclose(several, case.layout.missing.sums_by_row(expanded, mode, Workers(1)), rtol=1e-12)


def test_a_class_that_reaches_missing_cells_alone_has_no_negative_sum():
    case = cases.make(2, budget=3, seed=1)
    phi = [np.array([0.0, 0.3, 0.0, 0.0]), np.array([0.1, 0.7, 0.2])]  # row 1 is missing altogether
    total = case.layout.missing.sum_of_one(phi, [phi_D.sum() for phi_D in phi])
    assert 0.0 <= total < 1e-16


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_rates_of_all_cells_in_any_order_are_those_of_the_model(monkeypatch, modes, threads):
    monkeypatch.setattr(exposure_sums, "_CELLS_PER_THREAD", 2)
    case = cases.make(modes, budget=5, seed=modes)
    coords_MN = np.indices(case.Y.shape).reshape(modes, -1)
    coords_MN = np.concatenate([coords_MN, np.random.default_rng(0).permutation(coords_MN, axis=1)], axis=1)
    factors = [case.state.factors(mode) for mode in range(modes)]
    with Workers(threads) as workers:
        rates_N = rates_of_cells(case.state.core_values(), case.state.subs_QM, factors, coords_MN, workers)
    np.testing.assert_allclose(rates_N, rates_at(case.state, coords_MN), rtol=1e-12)


def test_no_cells_have_no_rates():
    case = cases.make(3, budget=2)
    factors = [case.state.factors(mode) for mode in range(3)]
    nowhere = np.empty((3, 0), dtype=np.int64)
    assert rates_of_cells(case.state.core_values(), case.state.subs_QM, factors, nowhere, Workers(1)).size == 0


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

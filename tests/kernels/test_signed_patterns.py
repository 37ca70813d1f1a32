"""Sums over the observed cells: each form against the plain sums of model/rates.py, and against one another."""

import numpy as np
import pytest

from allocore.gibbs.layout import Workspace
from allocore.kernels import exposure_sums as signed_patterns
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.simd import NARROW, WIDE
from allocore.kernels.workers import Workers
from allocore.model.joint import class_totals
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
    monkeypatch.setattr(signed_patterns, "_CHUNK", chunk)
    monkeypatch.setattr(signed_patterns, "_WORTH_A_THREAD", 1)
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

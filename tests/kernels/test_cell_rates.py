"""Rates of cells under one draw, against the plain sums of model/rates.py."""

import numpy as np
import pytest

from allocore.kernels import exposure_sums as cell_rates
from allocore.kernels.exposure_sums import rates_of_cells
from allocore.kernels.workers import Workers
from allocore.model.joint import rates_at
from support import cases


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_rates_of_all_cells_in_any_order_are_those_of_the_model(monkeypatch, modes, threads):
    monkeypatch.setattr(cell_rates, "_CELLS_PER_THREAD", 2)
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

"""The core contracted with rows of factors, and its derivatives, against einsum and against small steps."""

from itertools import permutations
from math import prod

import numpy as np
import pytest

from allocore.em import contraction
from allocore.em.contraction import CellTree, best_order, contract
from allocore.kernels.workers import Workers

CORES = {1: (3,), 2: (2, 3), 3: (2, 3, 2), 4: (2, 1, 3, 2), 5: (2, 2, 1, 2, 2)}
LENGTHS = (5, 4, 3, 4, 2)


def random_cells(modes, cells=60, seed=0):
    rng = np.random.default_rng(seed)
    core_shape, lengths = CORES[modes], LENGTHS[:modes]
    core = rng.uniform(0.1, 1.0, core_shape)
    phi = [rng.uniform(0.1, 1.0, (length, width)) for length, width in zip(lengths, core_shape, strict=True)]
    coords = np.array([rng.integers(0, length, cells) for length in lengths])
    weights = rng.uniform(0.5, 3.0, cells)
    return core, phi, coords, weights, CellTree.of(coords, weights, lengths, core_shape)


def plain_total(core, phi, coords, weights, in_logs):
    """Cell by cell: contract the core with one row after another."""
    total = 0.0
    for cell, weight in zip(coords.T, weights, strict=True):
        rate = core
        for phi_DK, row in zip(phi, cell, strict=True):
            rate = np.tensordot(phi_DK[row], rate, axes=1)
        total += weight * (np.log(rate) if in_logs else rate)
    return float(total)


def plain_slope(array, total, step=1e-6):
    """Central differences, entry by entry."""
    slope = np.empty_like(array)
    for place in np.ndindex(*array.shape):
        kept = array[place]
        array[place] = kept + step
        high = total()
        array[place] = kept - step
        slope[place] = (high - total()) / (2 * step)
        array[place] = kept
    return slope


@pytest.mark.parametrize("in_logs", [True, False])
@pytest.mark.parametrize("modes", [1, 2, 3, 4, 5])
def test_the_total_and_all_its_derivatives_are_those_of_small_steps(modes, in_logs):
    core, phi, coords, weights, cells = random_cells(modes, cells=25)
    found = contract(cells, core, phi, Workers(1), in_logs=in_logs)

    def total():
        return plain_total(core, phi, coords, weights, in_logs)

    assert found.total == pytest.approx(total(), rel=1e-13)
    np.testing.assert_allclose(found.core, plain_slope(core, total), rtol=1e-6, atol=1e-6)
    for mode in range(modes):
        np.testing.assert_allclose(found.phi[mode], plain_slope(phi[mode], total), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_the_modes_changes_nothing_but_rounding(monkeypatch, order):
    core, phi, coords, weights, cells = random_cells(3)
    expected = contract(cells, core, phi, Workers(1), in_logs=True)
    monkeypatch.setattr(contraction, "best_order", lambda *_: order)
    other = CellTree.of(coords, weights, LENGTHS[:3], CORES[3])
    assert other.order == order
    found = contract(other, core, phi, Workers(1), in_logs=True)
    for one, two in zip(
        (found.total, found.core, *found.phi), (expected.total, expected.core, *expected.phi), strict=True
    ):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_blocks_change_nothing_but_rounding_and_threads_not_even_that(monkeypatch, blocks):
    core, phi, coords, weights, cells = random_cells(4, cells=200)
    expected = contract(cells, core, phi, Workers(1), in_logs=True)
    monkeypatch.setattr(contraction, "_CELLS_OF_A_BLOCK", 200 // blocks)
    cut = CellTree.of(coords, weights, LENGTHS[:4], CORES[4])
    assert len(cut.cells.edges_B) == blocks + 1
    by_threads = [contract(cut, core, phi, Workers(threads), in_logs=True) for threads in (1, 2, 3)]
    for found in by_threads:
        assert found.total == by_threads[0].total
        for one, two, three in zip(
            (found.core, *found.phi), (expected.core, *expected.phi), _arrays(by_threads), strict=True
        ):
            np.testing.assert_allclose(one, two, rtol=1e-12)
            assert one.tobytes() == three.tobytes()


def _arrays(by_threads):
    return by_threads[0].core, *by_threads[0].phi


def test_tables_of_all_blocks_together_stay_within_their_memory(monkeypatch):
    _, _, coords, weights, _ = random_cells(3, cells=200)
    monkeypatch.setattr(contraction, "_CELLS_OF_A_BLOCK", 1)
    table = 8 * (prod(CORES[3]) + sum(length * width for length, width in zip(LENGTHS, CORES[3], strict=False)))
    for bytes_, blocks in ((10 * table, 10), (table, 1), (0, 1), (10**9, 32)):
        monkeypatch.setattr(contraction, "_TABLE_BYTES", bytes_)
        assert len(CellTree.of(coords, weights, LENGTHS[:3], CORES[3]).cells.edges_B) == blocks + 1


def test_a_cell_with_weight_but_without_a_rate_has_the_logarithm_of_zero():
    core, phi, coords, _, cells = random_cells(3)
    phi[1][coords[1, 0]] = 0.0
    found = contract(cells, core, phi, Workers(1), in_logs=True)
    assert found.total == -np.inf
    assert all(np.isfinite(array).all() for array in (found.core, *found.phi))


@pytest.mark.parametrize("seed", range(5))
def test_the_best_order_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    modes = int(rng.integers(2, 6))
    distinct, core_shape = rng.integers(1, 50, modes).tolist(), tuple(rng.integers(1, 9, modes).tolist())
    cells = int(rng.integers(1, 3000))

    def work(order):
        nodes = [min(cells, prod(distinct[mode] for mode in order[: level + 1])) for level in range(modes)]
        return sum(nodes[level] * prod(core_shape[mode] for mode in order[level:]) for level in range(modes))

    order = best_order(distinct, cells, core_shape)
    assert sorted(order) == list(range(modes))
    assert work(order) == min(work(other) for other in permutations(range(modes)))

"""Cores of about Q entries."""

import itertools
import math
import random

import pytest

from allocore.comparison.models import _cost, _ideal, core_for


def cases(number, seed):
    chance = random.Random(seed)
    for _ in range(number):
        shape = tuple(chance.choice([1, 2, 3, 5, 8, 12, 20]) for _ in range(chance.choice([1, 2, 3, 4])))
        yield chance.randint(1, min(400, math.prod(shape))), shape


def all_cores(budget, shape):
    for core in itertools.product(*(range(1, length + 1) for length in shape)):
        if budget / 2 <= math.prod(core) <= 2 * budget:
            yield core


@pytest.mark.parametrize(("budget", "shape"), list(cases(60, seed=1)))
def test_no_other_core_is_nearer_to_the_budget_and_to_balance(budget, shape):
    wished = _ideal(budget, shape)
    assert math.prod(wished) == pytest.approx(budget, rel=1e-6)
    best = min(_cost(list(core), wished, budget)[0] for core in all_cores(budget, shape))
    assert _cost(list(core_for(budget, shape)), wished, budget)[0] == pytest.approx(best, abs=1e-9)


def test_a_core_has_about_the_budget_fits_the_data_and_gives_longer_modes_more():
    for budget, shape in cases(300, seed=2):
        core = core_for(budget, shape)
        assert 0.8 <= math.prod(core) / budget <= 1.25, (budget, shape)
        assert all(1 <= size <= length for size, length in zip(core, shape, strict=True))
        for mode, other in itertools.permutations(range(len(shape)), 2):
            assert shape[mode] <= shape[other] or core[mode] >= core[other], (budget, shape)


def test_large_budgets_are_met_almost_exactly():
    for budget in (50, 100, 300, 1000, 7200, 150_000):
        assert math.prod(core_for(budget, (250, 250, 20, 228))) == pytest.approx(budget, rel=0.09)


def test_the_whole_tensor_is_the_largest_core():
    assert core_for(24, (2, 3, 4)) == (2, 3, 4)
    assert core_for(1, (5, 5)) == (1, 1)

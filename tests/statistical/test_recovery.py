"""Recovery of planted structure as in the paper's appendix: K_m = Q = 50, and far fewer factors and classes in truth.

Columns of two modes from Dirichlet(0.01), scaled to sum to 5; the third mode has two fixed columns. Like the paper, we
find the number of factors in the first two modes exactly and some more than two in the third. Seeds are fixed.
"""

import numpy as np
import pytest

import allocore as ac

pytestmark = [pytest.mark.statistical, pytest.mark.long, pytest.mark.jit]
LOCATIONS = [(0, 0, 0), (1, 1, 1), (2, 2, 0), (3, 3, 1), (0, 1, 1), (2, 3, 0)]
THIRD = np.array([[2.5, 0.5, 1.0, 0.5, 0.5], [0.5, 2.5, 1.0, 0.5, 0.5]]).T


def planted(seed, length=40, core_value=20.0):
    rng = np.random.default_rng(seed)
    first, second = (5.0 * rng.dirichlet(np.full(length, 0.01), 4).T for _ in range(2))
    rate = sum(np.einsum("i,j,k->ijk", first[:, a], second[:, b], THIRD[:, c]) for a, b, c in LOCATIONS)
    return rng.poisson(core_value * rate)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_classes_and_factors_in_use_concentrate_near_the_truth(seed):
    burn_in = 600
    model = ac.AlloCore(50, burn_in=burn_in, draws=40, thin=10, seed=seed, progress=False)
    post = model.fit(planted(seed)).posterior_
    factors = post.stats["factors"][0, burn_in:].mean(axis=0)
    assert abs(factors[0] - 4) < 0.5
    assert abs(factors[1] - 4) < 0.5
    assert 2 <= factors[2] < 10
    assert len(LOCATIONS) <= post.stats["classes"][0, burn_in:].mean() < 20
    heavy = [(post.classes(draw)["share"] > 0.02).sum() for draw in range(40)]
    assert abs(np.mean(heavy) - len(LOCATIONS)) < 3

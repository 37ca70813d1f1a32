"""The multiplicative updates of the benchmarks: those of dense arrays, and the divergence never grows."""

from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
SHAPE = (5, 6, 3, 4)


@pytest.fixture(params=["cp", "custom"])
def case(request, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from nneinfact import Einsum

    model = Einsum.cp(4, 3) if request.param == "cp" else Einsum.custom(SHAPE, 3, 2)
    formula = "ar,br,cr,dr->abcd" if request.param == "cp" else "ae,bf,cr,dr,efr->abcd"
    counts = np.random.default_rng(0).poisson(0.7, SHAPE)
    return model, formula, counts, np.stack(np.nonzero(counts))


def test_rates_are_those_of_the_einsum(case):
    model, formula, counts, coords = case
    values = model.start(SHAPE, counts.sum(), np.random.default_rng(1))
    dense = np.einsum(formula, *values)
    assert dense.sum() == pytest.approx(counts.sum())
    np.testing.assert_allclose(model.rates(values, coords), dense[tuple(coords)])


def test_an_update_is_that_of_dense_arrays(case):
    """One operand after another, each by the sums over all cells; differences of rates are the derivatives."""
    model, formula, counts, coords = case
    values = model.start(SHAPE, counts.sum(), np.random.default_rng(1))
    updated = model.update(values, coords, counts[tuple(coords)])
    for place, value in enumerate(values):
        known = [*updated[:place], *values[place:]]
        ratio, new = counts / np.einsum(formula, *known), np.empty_like(value)
        for at in np.ndindex(value.shape):
            unit = np.zeros_like(value)
            unit[at] = 1.0
            slope = np.einsum(formula, *known[:place], unit, *known[place + 1 :])
            new[at] = value[at] * (ratio * slope).sum() / slope.sum()
        np.testing.assert_allclose(updated[place], new)


def test_the_divergence_falls_with_every_update(case):
    model, formula, counts, coords = case
    values = model.start(SHAPE, counts.sum(), np.random.default_rng(1))
    found = []
    for _ in range(30):
        values = model.update(values, coords, counts[tuple(coords)])
        rates = np.einsum(formula, *values)
        found.append(rates.sum() - (counts * np.log(rates)).sum())
    assert (np.diff(found) < 1e-9).all()
    assert found[-1] < found[0] - 1.0

"""Top cells of classes, against all cells one by one."""

from dataclasses import replace

import numpy as np

import allocore as ac
from support.errors import refused
from support.planted import posterior_of
from support.tiers import parametrize_few

SHAPE = (5, 5, 4, 3)
MONTHS = ("2018-01", "2018-02", "2018-03")
MISSING = [(d, d, None, None) for d in range(5)] + [(0, 1, 2, 0), (2, 3, 1, None)]


def random_posterior(months=MONTHS, seed=0, **spec):
    rng = np.random.default_rng(seed)
    draws = [
        [
            (float(rng.gamma(2.0)), tuple(tuple(rng.gamma(0.3, size=length) + 1e-9) for length in SHAPE))
            for _ in range(2)
        ]
    ]
    labels = [None, None, None, months]
    return posterior_of([draws], SHAPE, missing=MISSING, labels=labels, names=["i", "j", "a", "t"], **spec)


@parametrize_few("summed", [True, False])
@parametrize_few("seed", range(3))
def test_they_are_the_largest_of_all_observed_cells(summed, seed):
    post = random_posterior(MONTHS if summed else ("x", "y", "z"), seed)
    record = post.record
    cells = np.indices(SHAPE).reshape(4, -1)
    observed = ~record.tensor.missing.contains(cells)
    counts = np.zeros(SHAPE)
    counts[tuple(record.tensor.coords)] = record.tensor.counts
    rates = []
    for value, subs in zip(record.core_values[0, 0], record.core_locations[0, 0], strict=True):
        columns = [factor[0, 0][:, k] for factor, k in zip(record.factors, subs, strict=True)]
        rates.append(np.where(observed.reshape(SHAPE), value * np.einsum("i,j,k,l->ijkl", *columns), 0.0))
    largest = max(rates, key=lambda each: each.sum())
    axis = (3,) if summed else ()
    wanted = largest.sum(axis=axis).ravel() if summed else largest.ravel()
    order = np.argsort(-wanted)[:4]
    whole = (sum(rates).sum(axis=axis) if summed else sum(rates)).ravel()[order]
    told = (counts.sum(axis=axis) if summed else counts).ravel()[order]
    table = post.top_cells(0, top=4)
    np.testing.assert_allclose(table["of_class"], wanted[order])
    np.testing.assert_allclose(table["expected"], whole)
    assert table["observed"].tolist() == told.tolist()
    names = ["i", "j", "a"] if summed else ["i", "j", "a", "t"]
    places = np.unravel_index(order, SHAPE[:3] if summed else SHAPE)
    labels = [record.tensor.labels[mode] for mode in range(len(names))]
    for name, rows, of_mode in zip(names, places, labels, strict=True):
        assert table[name].tolist() == [str(of_mode[row]) for row in rows]


def test_as_many_cells_as_are_asked_for():
    post = random_posterior()
    table = post.top_cells(0, top=80)
    assert len(table) == 5 * 4 * 4 - 1, "all but the diagonal and one more"
    assert table["of_class"].is_monotonic_decreasing
    assert table["observed"].sum() == post.tensor.total


@parametrize_few("summed", [True, False])
def test_cells_of_a_bernoulli_class_are_in_the_unit_of_the_model(summed):
    """Both are expected ones, not latent counts: the class alone expects 1 - exp(-rate) in a cell."""
    post = random_posterior(MONTHS if summed else ("x", "y", "z"), likelihood="bernoulli")
    table, record = post.top_cells(0, top=6), post.record
    assert (table["of_class"] <= table["expected"] * (1 + 1e-12)).all()
    assert (table["of_class"] < (3.0 if summed else 1.0)).all()
    assert table["of_class"].is_monotonic_decreasing
    rates = [
        np.where(
            record.tensor.missing.contains(np.indices(SHAPE).reshape(4, -1)).reshape(SHAPE),
            0.0,
            value * np.einsum("i,j,k,l->ijkl", *(f[0, 0][:, k] for f, k in zip(record.factors, subs, strict=True))),
        )
        for value, subs in zip(record.core_values[0, 0], record.core_locations[0, 0], strict=True)
    ]
    ones = -np.expm1(-max(rates, key=lambda each: each.sum()))
    largest = np.sort((ones.sum(axis=3) if summed else ones).ravel())[::-1]
    np.testing.assert_allclose(table["of_class"], largest[:6])


def test_a_class_is_named_by_its_number():
    post = random_posterior()
    with refused("number", 9, rule="from 0 to 1"):
        post.top_cells(9)
    assert len(post.top_cells(1, top=2)) == 2


def test_for_a_single_draw_the_model_is_that_of_the_draw():
    one, two = random_posterior(seed=1), random_posterior(seed=2)
    record = one.record
    both = ac.Posterior(
        replace(
            record,
            core_values=np.concatenate([record.core_values, two.core_values], axis=1),
            core_locations=np.concatenate([record.core_locations, two.core_locations], axis=1),
            factors=tuple(np.concatenate(each, axis=1) for each in zip(record.factors, two.factors, strict=True)),
            stats={name: np.repeat(values[:, :1], 3, axis=1) for name, values in record.stats.items()},
        )
    )
    assert both.top_cells(0, draw=1).equals(two.top_cells(0))
    assert (both.top_cells(0, draw=0)["expected"] >= both.top_cells(0, draw=0)["of_class"] * (1 - 1e-12)).all()

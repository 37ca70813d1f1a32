"""Fits with undirected ties: the same draws everywhere, and everything downstream treats a pair as one cell."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone

import allocore as ac
from allocore.model.likelihood import LIKELIHOODS
from allocore.posterior.check import simulated_blocks
from allocore.posterior.predict import expected_sums_of_pairs
from support.errors import refused
from support.same_draws import assert_same, assert_same_run

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus"]
MONTHS = [f"2001-{month + 1:02d}" for month in range(4)]
ENDS = ("one", "other")
CHAIN = {"burn_in": 10, "draws": 3, "thin": 2, "chains": 2, "seed": 4, "threads": 1, "progress": False}


def tensor(seed=1, months=MONTHS):
    """Two teams, whose members are tied to one another."""
    first = np.arange(7) < 3
    rates = np.where(first[:, None] == first, 2.0, 0.4)[:, :, None]
    counts = (
        np.random.default_rng(seed).poisson(rates, (7, 7, len(months))) * np.triu(np.ones((7, 7), int), 1)[..., None]
    )
    cells = np.array(np.nonzero(counts))
    given = {"mode_names": [*ENDS, "month"], "labels": [PEOPLE, PEOPLE, months]}
    return ac.CountTensor(cells, counts[tuple(cells)], counts.shape, **given).undirected(ENDS)


Y = tensor()
SPLIT = ac.hold_out(Y, 0.1, seed=3)
ONES = ac.Split(SPLIT.train.binarize(), ac.HeldOut(SPLIT.test.coords, np.minimum(SPLIT.test.counts, 1)))
KINDS = {
    "poisson": (ac.AlloCore(4, likelihood="poisson", **CHAIN), SPLIT),
    "bursts": (ac.AlloCore(4, likelihood="nb", tied=ENDS, e0="infer", **CHAIN), SPLIT),
    "by-month": (ac.Tucker((2, 2, 2), likelihood="nb", dispersion_by="month", h0=3.0, **CHAIN), SPLIT),
    "binary": (ac.CP(3, likelihood="bernoulli", **CHAIN), ONES),
}


@pytest.fixture(scope="module")
def posts():
    return {name: clone(model).fit(split).posterior_ for name, (model, split) in KINDS.items()}


def expected_counts(post):
    """The expected count of every pair, (7, 7, 4), from the definition; zero off the cells that are kept."""
    record, total = post.record, np.zeros((7, 7, 4))
    for place in np.ndindex(record.core_values.shape[:2]):
        expanded = [factor[place][:, sub] for factor, sub in zip(record.factors, record.core_locations[place].T,
                                                                 strict=True)]  # fmt: skip
        rates = np.einsum("q,iq,jq,tq->ijt", record.core_values[place], *expanded)
        cells = np.indices(rates.shape).reshape(3, -1)
        log_odds = record.log_odds_of(*place, cells)
        both = (rates + rates.transpose(1, 0, 2)).ravel()
        total += LIKELIHOODS[record.spec.likelihood].mean(both, log_odds).reshape(rates.shape)
    return np.triu(np.ones((7, 7)), 1)[..., None] * total / np.prod(record.core_values.shape[:2])


# The same draws everywhere


def test_shards_threads_executors_and_runs_that_are_resumed_give_the_same_draws(tmp_path, posts):
    model, split = KINDS["bursts"]
    split.train.save(tmp_path / "y.zarr", shards=2)
    sharded = ac.load_tensor(tmp_path / "y.zarr")
    assert_same(clone(model).set_params(threads=2).fit(sharded).posterior_, posts["bursts"])
    with ThreadPoolExecutor(2) as pool:
        assert_same(clone(model).set_params(executor=pool).fit(sharded).posterior_, posts["bursts"])
        assert_same(clone(model).set_params(executor=pool).fit(split.train).posterior_, posts["bursts"])
    path = tmp_path / "run.zarr"
    clone(model).set_params(draws=1, store=path).fit(split)
    longer = ac.AlloCore.resume(path, draws=3, threads=1, progress=False)
    assert_same(longer.posterior_, posts["bursts"])
    assert_same_run(path, posts["bursts"])
    assert ac.open_run(path).tensor == split.train
    assert ac.open_run(path).record.held_out == split.test


def test_what_undirected_ties_cannot_have_is_refused(posts):
    with refused("dispersion_by"):
        ac.CP(2, likelihood="nb", dispersion_by="one", **CHAIN).fit(Y)
    with refused("Y"):
        ac.NNTuck((2, 2, 2), restarts=1, progress=False).fit(Y)
    new = tensor(2, ["2001-05"])
    with refused("mode"):
        posts["bursts"].fold_in(new, mode="one")
    directed = ac.CountTensor(new.coords, new.counts, new.shape, mode_names=new.mode_names, labels=new.labels)
    with refused("Y_new"):
        posts["bursts"].fold_in(directed, mode="month")
    with refused("test"):
        posts["bursts"].log_ppd(ac.CountTensor(Y.coords, Y.counts, Y.shape), allow_training=True)
    with refused("coords"):
        posts["bursts"].expected([[2], [2], [0]])
    with refused("cells"):
        posts["bursts"].predict(("Bo", "Bo", None))


# Predictions


@pytest.mark.parametrize("name", KINDS)
def test_the_expected_count_of_a_pair_is_the_same_in_both_orders(name, posts):
    cells = np.array([[1, 5, 2], [6, 0, 3], [2, 4, 1]]).T
    right = expected_counts(posts[name])
    found = posts[name].expected(cells)
    np.testing.assert_allclose(found, [right[1, 5, 2], right[0, 6, 3], right[2, 4, 1]], rtol=1e-9)
    np.testing.assert_array_equal(posts[name].expected(cells[[1, 0, 2]]), found)
    counts = np.array([1, 0, 1])
    one, other = (posts[name].log_predictive(each, counts) for each in (cells, cells[[1, 0, 2]]))
    np.testing.assert_array_equal(one, other)


SUMS = {
    "all": ((None, None, None), (range(7), range(7), range(4))),
    "of one": (("Bo", None, "2001-02"), ([1], range(7), [1])),
    "between two sets": ((["Ada", "Bo", "Cy"], ["Cy", "Di"], None), ([0, 1, 2], [2, 3], range(4))),
    "of a set": ((None, ["Di", "Ed"], "2001-01"), (range(7), [3, 4], [0])),
    "one and a set with it": (("Di", ["Di", "Flo"], None), ([3], [3, 5], range(4))),
}


@pytest.mark.parametrize("missing", [False, True], ids=["observed", "all"])
@pytest.mark.parametrize("name", KINDS)
def test_sums_have_every_pair_once(name, missing, posts):
    right = expected_counts(posts[name])
    if not missing:
        right[tuple(SPLIT.test.coords)] = 0.0
    sums = []
    for one, other, months in (rows for _, rows in SUMS.values()):
        pairs = {(min(i, j), max(i, j)) for i, j in product(one, other) if i != j}
        sums.append(sum(right[i, j, t] for (i, j), t in product(pairs, months)))
    found = posts[name].predict([asked for asked, _ in SUMS.values()], missing=missing)
    np.testing.assert_allclose(found["expected"], sums, rtol=1e-9)
    assert (found["low"] <= found["high"]).all()


def test_sums_of_pairs_of_nodes_have_both_directions(posts):
    right = expected_counts(posts["bursts"])
    right[tuple(SPLIT.test.coords)] = 0.0
    both = right.sum(axis=2) + right.sum(axis=2).T
    pairs = np.array(np.nonzero(both))
    found = expected_sums_of_pairs(posts["bursts"].record, (0, 1), pairs, 1)
    np.testing.assert_allclose(found, both[tuple(pairs)], rtol=1e-9)


# Scores, surprises, checks


@pytest.mark.parametrize("name", KINDS)
def test_pairs_are_scored_once_beside_baselines(name, posts):
    post = posts[name]
    found = post.evaluate()
    assert {"degree product", "common neighbours"} <= set(found.table.index)
    assert found.table.attrs["cells"] == len(SPLIT.test)
    assert np.isfinite(found.table["log_ppd"]).all()
    mirror = ac.HeldOut(post.held_out.coords[[1, 0, 2]], post.held_out.counts)
    assert post.log_ppd(mirror) == pytest.approx(post.log_ppd(post.held_out))


def test_baselines_have_the_rate_of_pairs():
    from allocore.posterior.baselines import baselines

    cells = SPLIT.test.coords.astype(np.int64)
    found = dict(baselines(SPLIT.train, LIKELIHOODS["poisson"], cells))
    rate = SPLIT.train.total / SPLIT.train.observed
    np.testing.assert_allclose(found["one rate"].rates_NS, rate)
    mirror = dict(baselines(SPLIT.train, LIKELIHOODS["poisson"], cells[[1, 0, 2]]))
    for name in ("independence", "degree product", "common neighbours"):
        np.testing.assert_allclose(found[name].rates_NS, mirror[name].rates_NS, rtol=1e-6)


@pytest.mark.parametrize("name", ["bursts", "binary"])
def test_surprises_are_pairs_and_every_surprising_zero_is_found(name, posts):
    found = posts[name].surprises(top=60)
    rows = [[each.index(label) for label in found[mode]] for mode, each in zip(Y.mode_names, Y.labels, strict=True)]
    assert (np.array(rows[0]) < np.array(rows[1])).all()
    zeros = found[found["observed"] == 0]
    right = expected_counts(posts[name])
    right[tuple(SPLIT.train.coords)] = right[tuple(SPLIT.test.coords)] = 0.0
    assert len(zeros) > 1
    np.testing.assert_allclose(zeros["expected"].max(), right.max(), rtol=1e-9)


@pytest.mark.parametrize("name", ["by-month", "binary"])
def test_simulated_tensors_have_the_expected_counts_of_pairs(name, posts):
    record, rng, total = posts[name].record, np.random.default_rng(0), np.zeros((7, 7, 4))
    for place in np.ndindex(record.core_values.shape[:2]):
        for _ in range(150):
            ((cells, counts),) = simulated_blocks(record, *place, rng)
            assert (cells[0] < cells[1]).all()
            total[tuple(cells)] += counts
    right = expected_counts(posts[name])
    right[tuple(SPLIT.test.coords)] = 0.0
    error = np.sqrt(right.sum() / 900) * 5
    assert (total > 0).sum() <= SPLIT.train.observed
    assert total.sum() / 900 == pytest.approx(right.sum(), abs=8 * error)


def test_the_check_compares_degrees_without_a_direction(posts):
    found = posts["bursts"].check(draws=40)
    assert {"mean degree", "standard deviation of degrees", "clustering coefficient"} <= set(found.table.index)
    assert "reciprocity" not in found.table.index
    degrees = found.labels[found.labels["mode"] == "one"].set_index("label")["observed"]
    assert degrees.to_dict() == dict(zip(PEOPLE, SPLIT.train.mode_totals("one").tolist(), strict=True))
    assert "other" not in set(found.labels["mode"])


# Later months


def test_new_months_are_folded_in(posts):
    new = tensor(2, ["2001-05", "2001-06"])
    order = ["Gus", *PEOPLE[:-1]]
    places = [PEOPLE.index(name) for name in order]
    dense = new.to_dense()[np.ix_(places, places, range(2))]
    cells = np.array(np.nonzero(dense))
    labels = [order, order, new.labels[2]]
    moved = ac.CountTensor(cells, dense[tuple(cells)], mode_names=new.mode_names, labels=labels).undirected(ENDS)
    assert_same(*(posts["bursts"].fold_in(each, mode="month", sweeps=3, seed=1) for each in (new, moved)))


def test_a_forecast_is_of_pairs(posts):
    forecast = posts["bursts"].forecast(2)
    asked = [("Bo", "Ed", "2001-05"), ("Ed", "Bo", "2001-05"), ("Bo", None, None), (None, "Bo", None)]
    one, same, either, end = forecast.predict(asked)["expected"]
    assert one == same
    assert either == end
    scores = forecast.evaluate(tensor(2, ["2001-05", "2001-06"]))
    held = len(SPLIT.test) // 4
    assert int(scores.table["number"].iloc[0]) == 2 * (21 - held)


def test_the_top_cells_of_a_class_are_pairs_with_the_counts_of_both_directions(posts):
    for name in ("poisson", "by-month"):
        draw = {"draw": -1}
        table = posts[name].top_cells(0, top=30, **draw)
        assert (table["one"] < table["other"]).all()
        assert (table["of_class"] <= table["expected"] * (1 + 1e-9)).all()
        seen = Y.with_missing(SPLIT.train.missing).to_dense().sum(axis=2)
        places = [[PEOPLE.index(label) for label in table[end]] for end in ENDS]
        np.testing.assert_array_equal(table["observed"], seen[tuple(places)])

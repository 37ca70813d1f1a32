"""Baselines: fitted to the observed cells alone, against dense arrays."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

import allocore as ac
from allocore.model.likelihood import LIKELIHOODS
from allocore.posterior.baselines import (
    _predicted,
    baselines,
    blocks_of,
    fibres_with_counts,
    fitted_margins,
    independence,
    mean_over,
    missing_in_fibres,
    one_rate,
    weights_of,
)
from allocore.tensor.shards import ShardFiles

SHAPE = (5, 4, 6)
PATTERNS = [(1, None, 2), (None, 0, 3), (2, 1, None), (4, None, None), (0, 3, 5), (3, None, 1), (None, 2, 0)]
CELLS = np.indices(SHAPE).reshape(3, -1)
ONES = [np.ones(size) for size in SHAPE]
WEIGHTS = [np.array([1.0, 3.0, 0.5, 2.0, 4.0]), np.array([1.0, 0.3, 2.0, 1.0]), np.linspace(0.2, 1.7, 6)]


def by_margins(tensor, cells, sample=None):
    return independence(tensor, cells, fitted_margins(tensor, ONES), sample)


def nonzeros(tensor):
    """All non-zeros, as a sample."""
    return fibres_with_counts(tensor, None, ONES, most=10_000)


def sparse(patterns=PATTERNS, seed=0):
    counts = np.random.default_rng(seed).negative_binomial(0.8, 0.4, SHAPE)
    return ac.as_tensor(counts).with_missing(patterns)


def dense(tensor):
    """Counts, with NaN where they are missing."""
    counts = np.zeros(SHAPE)
    counts[tuple(tensor.coords)] = tensor.counts
    counts[tensor.missing.contains(CELLS).reshape(SHAPE)] = np.nan
    return counts


@pytest.mark.parametrize("weights", [ONES, WEIGHTS])
@pytest.mark.parametrize("patterns", [[], PATTERNS])
def test_one_rate_is_the_mean_of_the_observed_cells_per_unit(patterns, weights):
    tensor, weight = sparse(patterns), np.einsum("i,j,k->ijk", *weights)
    means, seen = one_rate(tensor, CELLS, weights, nonzeros(tensor)), ~np.isnan(dense(tensor))
    expected = weight * np.nansum(dense(tensor)) / weight[seen].sum()
    np.testing.assert_allclose(means.cells_N, expected.ravel())
    np.testing.assert_allclose(means.sample_n, expected[tuple(tensor.coords)])
    assert means.zeros == pytest.approx(expected[dense(tensor) == 0.0].sum())


def test_independence_without_missing_cells_is_the_product_of_margins():
    tensor = sparse([])
    counts, total = dense(tensor), tensor.total
    rows = [counts.sum(axis=tuple({0, 1, 2} - {m})) + 1 / SHAPE[m] for m in range(3)]
    expected = np.einsum("i,j,k->ijk", *rows) * total / (total + 1) ** 3
    np.testing.assert_allclose(by_margins(tensor, CELLS).cells_N, expected.ravel(), rtol=1e-9)


def test_independence_fits_the_margins_of_the_observed_cells():
    tensor = sparse()
    margins, weighted = fitted_margins(tensor, ONES), fitted_margins(tensor, WEIGHTS)
    expected = np.einsum("i,j,k->ijk", *margins)
    expected[np.isnan(dense(tensor))] = np.nan
    for m in range(3):
        others = tuple({0, 1, 2} - {m})
        seen = ~np.isnan(expected).all(axis=others)
        wanted = (np.nansum(dense(tensor), axis=others) + 1 / seen.sum()) * tensor.total / (tensor.total + 1)
        np.testing.assert_allclose(np.nansum(expected, axis=others)[seen], wanted[seen], rtol=1e-8)
    assert margins[0][4] > 0, "a row that was never observed is like the average row"
    # Margins have the weights in them anyway, except that of a row that was never observed.
    for one, other in zip(margins, weighted, strict=True):
        np.testing.assert_allclose(other[:4] / one[:4], other[0] / one[0], rtol=1e-8)
    reach = np.where(np.isnan(dense(tensor)), 0.0, np.multiply.outer(*weighted[1:])).sum(axis=(1, 2))
    assert weighted[0][4] == pytest.approx(WEIGHTS[0][4] * tensor.total / (WEIGHTS[0] * reach)[:4].sum(), rel=1e-6)


def test_missing_cells_of_a_fibre_are_counted_by_patterns():
    tensor = sparse()
    gone = np.isnan(dense(tensor))
    for mode in range(3):
        expected = np.broadcast_to(gone.sum(axis=mode, keepdims=True), SHAPE).ravel()
        np.testing.assert_array_equal(missing_in_fibres(tensor.missing, CELLS, mode), expected)
    assert (missing_in_fibres(sparse([]).missing, CELLS, 1) == 0).all()


@pytest.mark.parametrize("weights", [ONES, WEIGHTS])
def test_the_mean_over_the_last_mode_is_that_of_the_observed_cells_and_one_more(weights):
    tensor, weight = sparse([*PATTERNS, (None, None, 4)]), np.einsum("i,j,k->ijk", *weights)
    counts, own = dense(tensor), np.broadcast_to(weights[2], SHAPE)
    seen = ~np.isnan(counts)
    prior = weight * np.nansum(counts) / weight[seen].sum()
    whole = np.where(seen, own, 0.0).sum(axis=2, keepdims=True)
    sums = np.nansum(counts, axis=2, keepdims=True)
    means = mean_over(tensor, CELLS, 2, weights, nonzeros(tensor))
    np.testing.assert_allclose(means.cells_N.reshape(SHAPE), own * (sums + prior) / (whole + own))
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = np.where(seen, own * (sums - np.nan_to_num(counts) + prior) / whole, np.nan)
    np.testing.assert_allclose(means.sample_n, left_out[tuple(tensor.coords)])
    # Fibres without counts are summed as if all of them had the same observed cells.
    assert means.zeros == pytest.approx(left_out[counts == 0.0].sum(), rel=1e-12 if weights is ONES else 0.04)


def test_there_is_no_mean_where_most_fibres_are_missing_whole():
    split = ac.hold_out(sparse([]), 0.3, along=-1, seed=1)
    assert mean_over(split.train, split.test.coords.astype(int), 2, ONES) is None
    assert [name for name, _ in baselines(split.train, LIKELIHOODS["poisson"], split.test.coords.astype(int))] == [
        "one rate",
        "independence",
    ]
    other = ac.hold_out(sparse([]), 0.3, along=0, seed=1)
    names = [name for name, _ in baselines(other.train, LIKELIHOODS["poisson"], other.test.coords.astype(int))]
    assert names == ["one rate", "independence", "mean over mode_2"]


@pytest.mark.parametrize(
    "baseline",
    [
        lambda Y, cells, sample: one_rate(Y, cells, ONES, sample),
        by_margins,
        lambda Y, cells, sample: mean_over(Y, cells, 2, ONES, sample),
    ],
)
def test_the_dispersion_is_that_of_the_largest_likelihood_of_all_observed_cells(baseline):
    tensor = sparse([(1, None, 2), (2, 1, None)], seed=4)
    counts = dense(tensor)
    seen = ~np.isnan(counts)
    likelihood, means = LIKELIHOODS["negative-binomial"], baseline(tensor, CELLS, nonzeros(tensor))
    mean = means.cells_N.reshape(SHAPE)
    if len(set(means.sample_n)) > 1 and baseline is not by_margins:
        number, rate = seen.sum(axis=2, keepdims=True), np.nanmean(counts)
        mean = (np.nansum(counts, axis=2, keepdims=True) - np.nan_to_num(counts) + rate) / np.maximum(number, 1)

    def loss(log_odds):
        return -stats.nbinom(mean[seen] * np.exp(-log_odds), 1 / (1 + np.exp(log_odds))).logpmf(counts[seen]).sum()

    best = minimize_scalar(loss, bounds=(-12, 12), method="bounded")
    mixtures = _predicted(tensor, likelihood, means, nonzeros(tensor))
    assert loss(mixtures.log_odds_RS[0, 0]) <= best.fun + 1e-3
    expected = likelihood.mean(mixtures.rates_NS, mixtures.log_odds_RS)[:, 0]
    np.testing.assert_allclose(expected, means.cells_N, rtol=1e-10)


# Networks: a pair is (sender, receiver), and the diagonal is missing

ACTORS, LAYERS, TIMES = 7, 3, 4
MISSING_PAIRS = [(1, 2, None, None), (3, None, 1, None), (None, 5, None, 2), (0, 4, 2, None), (6, 6, None, 3)]


def network(diagonal=True, patterns=MISSING_PAIRS, names="abcdefg"):
    """A tensor of events between actors, where actor "g" has few."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.15, (ACTORS, LAYERS, ACTORS, TIMES))
    labels = [tuple(names), tuple("xyz"), tuple(names), tuple("pqrs")]
    Y = ac.as_tensor(counts, mode_names=["from", "layer", "to", "when"], labels=labels)
    patterns = [(i, a, j, t) for i, j, a, t in patterns]
    return (Y.mask_diagonal(("from", "to")) if diagonal else Y).with_missing(patterns)


def brute_force(tensor, name):
    """The expected counts of all cells, by loops over actors."""
    shape = tensor.shape
    cells = np.indices(shape).reshape(4, -1)
    seen = ~tensor.missing.contains(cells).reshape(shape)
    tied = {(i, j) for i, _, j, _ in tensor.coords.T.tolist() if i != j}
    scores = np.empty((ACTORS, ACTORS))
    for i in range(ACTORS):
        for j in range(ACTORS):
            out, into = sum((i, k) in tied for k in range(ACTORS)), sum((k, j) in tied for k in range(ACTORS))
            near = [{k for k in range(ACTORS) if (k, each) in tied or (each, k) in tied} for each in (i, j)]
            scores[i, j] = (out + 1 / ACTORS) * (into + 1 / ACTORS)
            if name == "common neighbours":
                scores[i, j] = len(near[0] & near[1]) + 1
    margins = fitted_margins(tensor, weights_of(tensor))
    expected = np.einsum("ij,a,t->iajt", scores, margins[1], margins[3])
    return expected * tensor.total / expected[seen].sum()


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("name", ["degree product", "common neighbours"])
def test_the_scores_of_pairs_are_those_of_brute_force(name, diagonal):
    tensor = network(diagonal)
    cells = np.indices(tensor.shape).reshape(4, -1)
    found = dict(baselines(tensor, LIKELIHOODS["poisson"], cells))
    assert list(found) == ["one rate", "independence", "mean over when", "degree product", "common neighbours"]
    np.testing.assert_allclose(found[name].rates_NS[:, 0], brute_force(tensor, name).ravel(), rtol=1e-9)


def test_the_ties_of_held_out_cells_are_not_known():
    tensor = network(patterns=[])
    pair = tensor.coords[:, 0]
    hidden = tensor.with_missing([(pair[0], None, pair[2], None)])
    cell = pair[:, None].astype(np.int64)
    before, after = (dict(baselines(each, LIKELIHOODS["poisson"], cell)) for each in (tensor, hidden))
    for name in ("degree product", "common neighbours"):
        expected = brute_force(hidden, name)[tuple(cell)]
        assert after[name].rates_NS[0] == pytest.approx(expected)
    assert before["degree product"].rates_NS[0] != pytest.approx(after["degree product"].rates_NS[0])


def test_other_tensors_and_very_large_networks_have_no_such_baselines(monkeypatch):
    tensor = network(names=tuple("abcdefg"))
    cells = tensor.coords.astype(np.int64)
    renamed = ac.CountTensor(
        tensor.coords, tensor.counts, tensor.shape, labels=[tuple("abcdefg"), None, tuple("hijklmn"), None]
    )
    assert [name for name, _ in baselines(renamed, LIKELIHOODS["poisson"], cells)][2:] == ["mean over mode_3"]
    monkeypatch.setattr("allocore.posterior.baselines._MOST_PATHS", 10)
    assert [name for name, _ in baselines(tensor, LIKELIHOODS["poisson"], cells)][3:] == ["degree product"]


def test_probabilities_of_ones_stay_below_one():
    tensor = sparse([]).binarize()
    for _, mixtures in baselines(tensor, LIKELIHOODS["bernoulli"], CELLS):
        one = -np.expm1(-mixtures.rates_NS)
        assert ((one > 0) & (one <= 0.999 + 1e-12)).all()
    rate = next(iter(baselines(tensor, LIKELIHOODS["bernoulli"], CELLS)))[1]
    np.testing.assert_allclose(-np.expm1(-rate.rates_NS), tensor.total / tensor.volume)


# Tensors in shards

LARGE = {
    "fibres along the last mode": (40, 40, 60),
    "fibres along another mode": (30, 200, 30, 4),
    "a matrix": (300, 200),
    "undirected": (40, 40, 60),
    "undirected, with the last mode": (6, 60, 60),
    "undirected, with the first and the last mode": (50, 8, 50),
}


@pytest.fixture(scope="module", params=LARGE)
def large(request):
    """A tensor of some shards, with missing cells."""
    rng, shape = np.random.default_rng(2), LARGE[request.param]
    coords = np.array([(length * rng.random(12_000) ** 1.5).astype(int) for length in shape])
    labels = [tuple(f"{length} {n}" for n in range(length)) for length in shape]
    Y = ac.CountTensor(coords, 1 + rng.poisson(3.0 * rng.random(12_000)), shape, labels=labels)
    patterns = [(3, *[None] * (len(shape) - 1)), *({tuple(cell) for cell in coords[:, :20].T.tolist()})]
    Y = Y.with_missing(patterns)
    if "undirected" in request.param:
        pair = tuple(m for m, length in enumerate(shape) if shape.count(length) > 1)
        Y = Y.mask_diagonal(pair).undirected(pair, asymmetric="sum")
    return Y


@pytest.fixture(params=[False, True], ids=["all cells", "samples"])
def sampled(request, monkeypatch):
    """Whether samples are smaller than the tensors. Blocks are always small."""
    monkeypatch.setattr("allocore.posterior.baselines._CELLS_AT_ONCE", 999)
    if request.param:
        monkeypatch.setattr("allocore.posterior.baselines._MOST_NONZEROS", 1500)
        monkeypatch.setattr("allocore.posterior.baselines._MOST_FIBRES", 150)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
@pytest.mark.parametrize("shards", [1, 3, 8])
@pytest.mark.usefixtures("sampled")
def test_baselines_of_a_tensor_in_shards_are_those_of_the_tensor_in_memory(
    large, shards, likelihood, tmp_path, monkeypatch
):
    """The shards are read one by one, and all cells are never in memory."""
    cells = np.random.default_rng(0).integers(0, np.array(large.shape)[:, None], (large.ndim, 500))
    expected = dict(baselines(large, LIKELIHOODS[likelihood], cells))
    assert len(expected) == (3 if len(large.shape) == 2 else 5)
    large.save(tmp_path / "y.zarr", shards=shards)
    Y, read, lengths = ac.load_tensor(tmp_path / "y.zarr"), ShardFiles.cells, set()
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    monkeypatch.setattr(ShardFiles, "cells", lambda files, *ends: lengths.add(np.diff(ends)[0]) or read(files, *ends))
    found = dict(baselines(Y, LIKELIHOODS[likelihood], cells))
    assert lengths == {1}
    assert list(found) == list(expected)
    for name, mixtures in expected.items():
        np.testing.assert_array_equal(found[name].rates_NS, mixtures.rates_NS)
        np.testing.assert_array_equal(found[name].log_odds_RS, mixtures.log_odds_RS)


def test_baselines_of_a_tensor_in_shards_take_less_than_half_of_its_memory(tmp_path, monkeypatch):
    coords = np.random.default_rng(0).integers(0, 100, (3, 400_000))
    Y = ac.CountTensor(coords, np.ones(400_000, dtype=int), (100, 100, 100))
    Y.save(tmp_path / "y.zarr", shards=32)
    whole, sharded = Y.coords.nbytes + Y.counts.nbytes, ac.load_tensor(tmp_path / "y.zarr")
    for name, number in (("_CELLS_AT_ONCE", 5000), ("_MOST_NONZEROS", 5000), ("_MOST_FIBRES", 5000)):
        monkeypatch.setattr(f"allocore.posterior.baselines.{name}", number)
    tracemalloc.start()
    for _ in baselines(sharded, LIKELIHOODS["negative-binomial"], np.zeros((3, 1), dtype=int)):
        assert tracemalloc.get_traced_memory()[1] < whole / 2
    tracemalloc.stop()


def test_samples_of_non_zeros_judge_as_all_of_them_do(monkeypatch):
    rng = np.random.default_rng(0)
    Y = ac.as_tensor(rng.negative_binomial(0.5 * rng.gamma(1.0, 1.0, (60, 50, 1)), 0.2, (60, 50, 20)))
    cells, likelihood = Y.coords[:, :5].astype(np.int64), LIKELIHOODS["negative-binomial"]
    whole = [mixtures.log_odds_RS[0, 0] for _, mixtures in baselines(Y, likelihood, cells)]
    assert 1500 < fibres_with_counts(Y, None, weights_of(Y), 3000).sums_3n.shape[1] <= 3000
    monkeypatch.setattr("allocore.posterior.baselines._MOST_NONZEROS", 3000)
    monkeypatch.setattr("allocore.posterior.baselines._MOST_FIBRES", 1000)
    some = [mixtures.log_odds_RS[0, 0] for _, mixtures in baselines(Y, likelihood, cells)]
    assert some == pytest.approx(whole, abs=0.1)
    assert some != whole


def test_fibres_with_counts_have_the_sums_of_their_non_zeros(monkeypatch):
    monkeypatch.setattr("allocore.posterior.baselines._CELLS_AT_ONCE", 7)
    tensor = sparse()
    assert sum(len(counts) for _, counts in blocks_of(tensor)) == tensor.nnz
    counts = np.nan_to_num(dense(tensor))
    for mode in range(3):
        fibres, positive = fibres_with_counts(tensor, mode, WEIGHTS, 1000), counts > 0
        weight = np.expand_dims(WEIGHTS[mode], [m for m in range(3) if m != mode])
        sums = [np.where(positive, each, 0.0).sum(axis=mode) for each in (counts, weight, weight**2)]
        assert fibres.coords_Mn.tolist() == np.array(np.nonzero(sums[0])).tolist()
        np.testing.assert_allclose(fibres.sums_3n, [each[sums[0] > 0] for each in sums])

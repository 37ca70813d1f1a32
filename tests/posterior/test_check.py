"""Posterior predictive checks: simulated tensors against the exact distribution of their cells, and what is judged.

A tensor has 2,000 copies of the same few cells along its last mode, whose only factor is constant. A chi-square test
compares the counts of the copies of every cell with the likelihood at its rate. Cells are independent given a draw, so
the statistics add up. Right simulations fail with probability 1e-4; planted bugs have p-values below 1e-6.
"""

import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import allocore as ac
from allocore.model.likelihood import LIKELIHOODS
from allocore.posterior import check as checking
from allocore.posterior.check import (
    LEAST_TENSORS,
    NETWORK_STATISTICS,
    brief_draws,
    distances,
    expected_events,
    network_modes,
    network_statistics,
    simulated_blocks,
    top_share,
)
from allocore.posterior.convergence import expected
from allocore.results import Posterior
from support.errors import refused
from support.handmade_posterior import posterior, with_likelihood

SHAPE, COPIES, RIGHT, WRONG = (4, 3, 2), 2000, 1e-4, 1e-6
SETTINGS = {"burn_in": 20, "draws": 5, "thin": 1, "seed": 1, "threads": 1, "progress": False, "chains": 1}
MONTHS = [f"2003-{month:02d}" for month in range(1, 13)]


def tiny_record(likelihood="poisson", by=None, copies=COPIES):
    """A run by hand with few cells, some of them missing, and classes that share factors out of order."""
    rng = np.random.default_rng(0)
    factors = [*(rng.gamma(1.0, 1.0, (3, length)) for length in SHAPE), np.ones((1, copies))]
    classes = [(2, 0, 1, 0), (0, 1, 1, 0), (2, 2, 0, 0)]
    post = posterior(factors, classes, (0.1, 0.04, 0.001), None, None, draws=2)
    record, lead, shape = post.record, post.core_values.shape[:2], (*SHAPE, copies)
    tensor = ac.CountTensor([[1, 3], [0, 1], [0, 0], [0, 1]], [3, 1], shape)
    tensor = tensor.with_missing([(0, None, 1, None), (2, 1, 0, None)])
    log_odds = None
    if likelihood == "negative-binomial":
        log_odds = np.full(lead, 0.5)
        if by is not None:
            log_odds = np.broadcast_to(np.linspace(-1.0, 1.0, shape[by]), (*lead, shape[by]))
    spec = replace(record.spec, likelihood=likelihood, dispersion_by=by)
    tensor = tensor.binarize() if likelihood == "bernoulli" else tensor
    return replace(record, tensor=tensor, spec=spec, log_odds=log_odds)


def simulate_tensor(record, chain, draw, rng):
    """The cells of all blocks, in the order in which they come, and their counts."""
    blocks = list(simulated_blocks(record, chain, draw, rng))
    return np.concatenate([cells for cells, _ in blocks], axis=1), np.concatenate([counts for _, counts in blocks])


def rates(record):
    factors = [factor[0, 0] for factor in record.factors[:3]]
    classes = zip(record.core_values[0, 0], record.core_locations[0, 0], strict=True)
    return sum(
        core * np.einsum("i,j,k->ijk", *(factor[:, k] for factor, k in zip(factors, where[:3], strict=True)))
        for core, where in classes
    )


def dense(record, cells, counts):
    """The simulated tensor as a dense array, a row for each copy."""
    found = np.zeros(record.tensor.shape, dtype=np.int64)
    np.add.at(found, tuple(cells), counts)
    return np.moveaxis(found, 3, 0)


def compared(record, simulate=simulate_tensor, rng=None):
    """The p-value of the counts of all observed cells; the copies; and which cells are observed."""
    copies = dense(record, *simulate(record, 0, 0, np.random.default_rng(5) if rng is None else rng))
    cells = np.indices((*SHAPE, 1)).reshape(4, -1)
    observed = ~record.tensor.missing.contains(cells).reshape(SHAPE)
    log_odds = record.log_odds_of(0, 0, cells).reshape(SHAPE)
    likelihood, total, freedom, y = LIKELIHOODS[record.spec.likelihood], 0.0, 0, np.arange(1000)
    for place in zip(*np.nonzero(observed), strict=True):
        given = np.full(len(y), rates(record)[place]), np.full(len(y), log_odds[place])
        probability = np.exp(likelihood.log_density(y, *given))
        number = np.bincount(copies[(slice(None), *place)], minlength=len(y))[: len(y)]
        top = int(np.flatnonzero(probability * len(copies) >= 10)[-1])
        kept = np.append(probability[:top], 1.0 - probability[:top].sum())
        seen = np.append(number[:top], len(copies) - number[:top].sum())
        if top and kept[-1] * len(copies) >= 5:
            total += ((seen - len(copies) * kept) ** 2 / (len(copies) * kept)).sum()
            freedom += top
    assert freedom > 10
    return stats.chi2.sf(total, freedom), copies, observed


CASES = [("poisson", None), ("negative-binomial", None), ("negative-binomial", 0), ("bernoulli", None)]


@pytest.mark.parametrize(("likelihood", "by"), CASES)
def test_simulated_cells_have_the_distribution_of_the_likelihood_and_missing_cells_have_none(likelihood, by):
    p, copies, observed = compared(tiny_record(likelihood, by))
    assert p > RIGHT
    assert not copies[:, ~observed].any()
    # Cells are independent given the draw: no pair is correlated by more than five standard errors.
    counts = copies[:, observed]
    correlation = np.corrcoef(counts[:, counts.std(axis=0) > 0.1].T)
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < 5.0 / np.sqrt(COPIES)


def test_a_count_that_is_the_number_of_events_is_found_under_the_negative_binomial():
    record = tiny_record("negative-binomial")
    poisson = replace(record, spec=replace(record.spec, likelihood="poisson"), log_odds=None)
    scaled = replace(poisson, core_values=poisson.core_values * np.logaddexp(0.0, 0.5))
    assert compared(record, lambda _, *rest: simulate_tensor(scaled, *rest))[0] < WRONG


def test_one_dispersion_for_all_rows_is_found_where_rows_have_their_own():
    record = tiny_record("negative-binomial", 0)
    one = replace(record, spec=replace(record.spec, dispersion_by=None), log_odds=np.zeros((1, 2)))
    assert compared(record, lambda _, *rest: simulate_tensor(one, *rest))[0] < WRONG


def test_forgotten_missing_cells_are_found(monkeypatch):
    monkeypatch.setattr(checking, "covered", lambda cells, missing: np.zeros(cells.shape[1], dtype=bool))
    _, copies, observed = compared(tiny_record())
    assert copies[:, ~observed].any()


class Unshuffled(np.random.Generator):
    """A generator that leaves rows in their order, so that events with a small row in one mode have it in all."""

    def __init__(self):
        super().__init__(np.random.PCG64(5))

    def shuffle(self, x, axis=0):
        pass


def test_rows_that_are_not_shuffled_are_found():
    assert compared(tiny_record(), rng=Unshuffled())[0] < WRONG


def test_blocks_of_events_do_not_change_the_distribution(monkeypatch):
    record = tiny_record()
    monkeypatch.setattr(checking, "_EVENTS_AT_ONCE", 2000)
    assert expected_events(record, 0, 0) > 5 * 2000
    assert compared(record)[0] > RIGHT
    cells, counts = simulate_tensor(record, 0, 0, np.random.default_rng(3))
    assert (np.diff(np.ravel_multi_index(cells, record.tensor.shape)) > 0).all()
    assert (counts > 0).all()


@pytest.mark.parametrize(("likelihood", "by"), CASES)
def test_blocks_of_rows_do_not_change_the_distribution(likelihood, by, monkeypatch):
    """The last mode is cut: its rows have the fewest events."""
    record = tiny_record(likelihood, by)
    monkeypatch.setattr(checking, "_EVENTS_OF_A_BLOCK", 2000)
    blocks = list(simulated_blocks(record, 0, 0, np.random.default_rng(3)))
    assert len(blocks) == int(expected_events(record, 0, 0) // 2000) + 1 > 5
    assert max(len(counts) for _, counts in blocks) < 2500
    rows = [np.unique(cells[3]) for cells, _ in blocks]
    assert all(one[-1] < other[0] for one, other in pairwise(rows)), "no row is in two blocks"
    assert compared(record)[0] > RIGHT


def test_rows_of_undirected_ties_are_never_cut(monkeypatch):
    """Both directions of a pair are in the same block; without another mode, there is only one."""
    monkeypatch.setattr(checking, "_EVENTS_OF_A_BLOCK", 2.0)
    rng = np.random.default_rng(0)
    for shape, blocks in (((6, 6), 1), ((6, 6, 5), 5)):
        counts = rng.poisson(5.0, shape)
        Y = ac.as_tensor(counts).mask_diagonal().undirected(asymmetric="sum")
        record = ac.CP(2, likelihood="poisson", **SETTINGS).fit(Y).posterior_.record
        found = list(simulated_blocks(record, 0, 4, rng))
        assert len(found) == blocks
        assert all((cells[0] < cells[1]).all() for cells, _ in found)


@pytest.fixture(scope="module")
def tensor():
    """Senders, receivers and months, without a diagonal and with other missing cells."""
    rng = np.random.default_rng(1)
    who = [f"v{n}" for n in range(8)]
    counts = rng.poisson(rng.gamma(0.5, 2.0, (8, 8, 12)))
    Y = ac.as_tensor(counts, mode_names=["from", "to", "month"], labels=[who, who, MONTHS])
    return Y.mask_diagonal().with_missing([("v1", "v2", None), ("v3", None, "2003-02")])


MODELS = {
    "AlloCore": lambda Y: ac.AlloCore(6, likelihood="negative-binomial", dispersion_by="from", h0=3.0, **SETTINGS).fit(
        Y
    ),
    "infer": lambda Y: ac.AlloCore("infer", max_budget=8, **SETTINGS).fit(Y),
    "Tucker": lambda Y: ac.Tucker((3, 3, 2), likelihood="negative-binomial", **SETTINGS).fit(Y),
    "CP": lambda Y: ac.CP(3, likelihood="poisson", **SETTINGS).fit(Y),
    "NNTuck": lambda Y: ac.NNTuck((3, 3, 2), restarts=1, seed=1, progress=False).fit(Y),
}


@pytest.fixture(scope="module")
def fits(tensor):
    found = {name: make(tensor).posterior_ for name, make in MODELS.items()}
    found["fold-in"] = found["CP"].fold_in(tensor.select(month=MONTHS[:2]), "month", sweeps=5, progress=False)
    return found


@pytest.mark.parametrize("name", [*MODELS, "fold-in"])
def test_totals_of_simulated_tensors_are_the_expected_total_of_every_model(fits, name):
    """The mean of 64 totals is within five standard errors."""
    record = fits[name].record
    draw = record.core_values.shape[1] - 1
    totals, _ = expected(record, np.empty((3, 0), dtype=np.int64))
    simulated = [simulate_tensor(record, 0, draw, np.random.default_rng(seed)) for seed in range(64)]
    sums = np.array([counts.sum() for _, counts in simulated])
    assert abs(sums.mean() - totals[0, draw]) < 5.0 * sums.std() / 8.0
    assert not any(record.tensor.missing.contains(cells).any() for cells, _ in simulated[:10])
    found = fits[name].check(draws=40)
    assert found.table["observed"]["total"] == record.tensor.total
    assert found.table["observed"]["non-zero cells"] == record.tensor.nnz


def test_a_draw_with_absurdly_many_events_is_refused():
    record = tiny_record()
    record = replace(record, core_values=record.core_values * 1e12)
    assert brief_draws(record) is None
    with refused("post", rule="at most"):
        Posterior(record).check(draws=40)


def test_a_draw_without_events_gives_an_empty_tensor():
    record = tiny_record("negative-binomial")
    cells, counts = simulate_tensor(
        replace(record, core_values=record.core_values * 0.0), 0, 0, np.random.default_rng(0)
    )
    assert cells.shape == (4, 0)
    assert len(counts) == 0
    assert expected_events(replace(record, core_values=record.core_values * 0.0), 0, 0) == 0.0


def test_statistics_of_networks_are_those_of_dense_matrices():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = rng.random((9, 9)) < 0.3
        ends = np.nonzero(graph)
        repeated = [np.concatenate([each, each[:4]]) for each in ends]  # cells of one pair in two months
        found = network_statistics(*repeated, 9)
        np.fill_diagonal(graph, False)
        both = graph | graph.T
        closed = sum(both[i, j] and both[j, k] and both[i, k] for i in range(9) for j in range(9) for k in range(9))
        paths = sum(d * (d - 1) for d in both.sum(axis=1).tolist())
        dense_values = [
            graph.sum() / 9,
            graph.sum(axis=1).std(),
            graph.sum(axis=0).std(),
            (graph & graph.T).sum() / graph.sum(),
            closed / paths,
        ]
        np.testing.assert_allclose([found[name] for name in NETWORK_STATISTICS], dense_values)


def test_a_network_without_edges_has_no_reciprocity_and_no_clusters():
    nobody = np.empty(0, dtype=np.int64)
    assert set(network_statistics(nobody, nobody, 4).values()) == {0.0}


def test_the_observed_column_has_the_statistics_of_the_data(tensor, fits):
    found, y = fits["CP"].check(draws=40), np.zeros(tensor.shape)
    y[tuple(tensor.coords)] = tensor.counts
    counts = np.sort(y[y > 0])[::-1]
    top = int(np.ceil(0.01 * len(counts)))
    observed = found.table["observed"]
    assert observed["largest count"] == y.max()
    assert observed["share of the top 1% of cells"] == pytest.approx(counts[:top].sum() / counts.sum())
    assert observed["variance of totals over month"] == pytest.approx(y.sum(axis=(0, 1)).var(ddof=1))
    graph = network_statistics(*np.nonzero(y.sum(axis=2)), 8)
    assert {name: observed[name] for name in NETWORK_STATISTICS} == pytest.approx(graph)
    for mode, name in enumerate(tensor.mode_names):
        rows = found.labels[found.labels["mode"] == name]
        assert dict(zip(rows["label"], rows["observed"], strict=True)) == dict(
            zip(tensor.labels[mode], tensor.mode_totals(mode).tolist(), strict=True)
        )


def test_p_values_count_simulated_tensors_with_the_correction_for_their_number(fits):
    found = fits["CP"].check(draws=40)
    for name in found.table.index[:6]:
        simulated, row = found.simulated[name], found.table.loc[name]
        tails = (1 + (simulated >= row["observed"]).sum()) / 41, (1 + (simulated <= row["observed"]).sum()) / 41
        assert row["p_value"] == pytest.approx(min(1.0, 2 * min(tails)))
        assert row["expected"] == pytest.approx(simulated.mean())
        assert ((simulated >= row["low"]) & (simulated <= row["high"])).mean() >= 0.9
    assert ((found.table["p_adjusted"] > 0.0) & (found.table["p_adjusted"] <= 1.0)).all()


def test_statistics_that_do_not_apply_are_left_out(tensor):
    post = with_likelihood(posterior(), "bernoulli")
    found = post.check(draws=40).table.index
    assert found[0] == "total"
    assert not {"largest count", "non-zero cells", "share of the top 1% of cells"} & set(found)
    plain = Posterior(tiny_record(copies=4)).check(draws=40).table.index
    assert not any(name.startswith("variance") or name in NETWORK_STATISTICS for name in plain)


def test_networks_are_two_modes_with_the_same_labels_or_with_a_missing_diagonal(tensor):
    assert network_modes(tensor) == (0, 1)
    assert network_modes(tensor.with_labels({"to": [f"w{n}" for n in range(8)]})) is None
    square = ac.as_tensor(np.ones((3, 4, 3), dtype=int))
    assert network_modes(square) is None
    assert network_modes(square.mask_diagonal((0, 2))) == (0, 2)


def test_the_top_share_of_few_cells_is_everything():
    assert top_share({5: 1, 1: 1, 4: 1}, 1) == 0.5
    assert top_share({3: 2, 1: 4}, 3) == 0.7
    assert top_share({5: 1}, 1) == top_share({5: 1}, 2) == 1.0
    assert top_share({}, 1) == 0.0


def test_distances_are_one_at_the_ends_of_the_interval_on_both_sides():
    values = np.exp(np.random.default_rng(0).normal(size=(2001, 1)))
    low, median, high = np.quantile(values, [0.05, 0.5, 0.95])
    ends = distances(np.vstack([values, [[low], [median], [high]]]), 0.0)[-3:, 0]
    np.testing.assert_allclose(ends, [-1.0, 0.0, 1.0], atol=0.02)
    assert distances(np.array([[0.0], [0.0], [1.0]]), 1.0)[2, 0] <= 1.0  # a count of one is no surprise


def test_the_same_seed_gives_the_same_check_and_another_seed_another(fits):
    record = fits["AlloCore"].record
    first, again, other = (Posterior(record).check(draws=40, seed=seed) for seed in (0, 0, 1))
    assert first.simulated.equals(again.simulated)
    assert first.labels.equals(again.labels)
    assert first.sentences == again.sentences
    assert not first.simulated.equals(other.simulated)
    post = Posterior(record)
    table = post.check(draws=40).table
    table.loc[:] = 0.0
    assert post.check(draws=40).table.equals(first.table)


def as_data(record, seed):
    """The record with a tensor simulated from one of its draws as data."""
    cells, counts = simulate_tensor(record, 0, seed % record.core_values.shape[1], np.random.default_rng([99, seed]))
    tensor = ac.CountTensor(cells, counts, record.tensor.shape).with_missing(list(record.tensor.missing))
    return replace(record, tensor=tensor, seed=seed)


def found_by_chance(datasets):
    record = tiny_record("negative-binomial", 0, copies=30)
    return sum(not Posterior(as_data(record, seed)).check(draws=40).ok for seed in range(datasets))


def test_data_from_the_model_have_a_finding_in_at_most_one_of_twenty_checks():
    """More findings than allowed here have a probability below 1e-4 if the error rate is 5%."""
    assert found_by_chance(20) <= stats.binom.ppf(1 - 1e-4, 20, 0.05)


@pytest.mark.slow
def test_the_error_rate_of_many_checks_is_at_most_five_percent():
    assert found_by_chance(600) <= stats.binom.ppf(1 - 1e-4, 600, 0.05)


@pytest.fixture(scope="module")
def bursty():
    """Counts that come in bursts, with a Poisson and a negative binomial fit."""
    rng = np.random.default_rng(3)
    size = np.einsum("ir,jr,kr->ijk", *(rng.gamma(1.0, 0.6, (length, 2)) for length in (12, 10, 8)))
    Y = ac.as_tensor(rng.negative_binomial(0.4 * size + 1e-9, 0.1))
    settings = {**SETTINGS, "burn_in": 60, "draws": 20}
    return {name: ac.CP(3, likelihood=name, **settings).fit(Y).posterior_ for name in ("poisson", "negative-binomial")}


@pytest.mark.parametrize(("observed", "level"), [(109.0, "caution"), (111.0, "poor"), (85.0, "poor")])
def test_the_data_are_clearly_unlike_the_model_if_non_zero_cells_differ_by_more_than_a_tenth(observed, level):
    off = pd.DataFrame({"observed": [observed, 9.0], "expected": [100.0, 1.0]}, index=["non-zero cells", "reciprocity"])
    assert checking._clearly_unlike(off) == (level == "poor")
    assert not checking._clearly_unlike(off.iloc[1:]), "other statistics do not matter for this"


def test_bursts_are_found_in_a_poisson_fit_and_not_in_a_negative_binomial_one(bursty):
    found = bursty["poisson"].check(draws=60)
    assert not found.ok
    assert found.level in ("caution", "poor")
    kinds = [each.kind for each in found.findings]
    assert kinds[0] == "check-off"
    assert "check-bursts" in kinds
    off = [each.values["name"] for each in found.findings if each.kind == "statistic-off"]
    assert "non-zero cells" in off
    assert tuple(off) == found.findings[0].values["off"]
    good = bursty["negative-binomial"].check(draws=60)
    assert good.ok, good.sentences
    assert [each.kind for each in good.findings] == ["check-good"]


@pytest.fixture(scope="module")
def off_totals(bursty):
    """A fit whose labels of one mode are in the wrong order."""
    record = bursty["negative-binomial"].record
    turned = tuple(factor[:, :, ::-1] if mode == 0 else factor for mode, factor in enumerate(record.factors))
    return Posterior(replace(record, factors=turned))


def test_labels_with_wrong_totals_are_found_and_sums_are_said_to_need_wider_intervals(off_totals):
    sums, cell = [{"mode_0": 0}], [(0, 0, 0)]
    assert "sentences" not in off_totals.predict(sums).attrs
    found = off_totals.check(draws=60)
    finding = next(each for each in found.findings if each.kind == "totals-off")
    assert finding.values["mode"] == "mode_0"
    assert finding.values["outside"] > finding.values["chance"]
    narrow = next(each for each in found.findings if each.kind == "narrow-sums")
    assert narrow.values["widths"]["mode_0"] == found.widths["mode_0"] > 1.0
    # With intervals that much wider, nine of ten totals are inside.
    rows = found.labels[found.labels["mode"] == "mode_0"]
    low, high = (
        rows["expected"] + (1.0 + 1e-9) * found.widths["mode_0"] * (rows[end] - rows["expected"])
        for end in ("low", "high")
    )
    assert rows["observed"].between(low, high).mean() >= 0.9
    (sentence,) = off_totals.predict(sums).attrs["sentences"]
    assert sentence in found.sentences
    assert "sentences" not in off_totals.predict(cell).attrs


def test_a_check_is_shown_in_full_as_text_and_in_a_notebook(off_totals):
    found = off_totals.check(draws=60)
    assert str(found).startswith(f"{found.level.capitalize()}: {found.sentences[0]}")
    for part in (*found.sentences, *found.table.index):
        assert part in str(found)
    assert "<strong>" in found._repr_html_()
    assert found._repr_html_().count("<li>") == len(found.sentences) - 1


@pytest.mark.parametrize("draws", [0, 39, 2.5, "many", [40]])
def test_too_few_tensors_are_refused(fits, draws):
    with refused("draws", draws):
        fits["CP"].check(draws=draws)


def test_a_negative_seed_is_refused(fits):
    with refused("seed", -1):
        fits["CP"].check(draws=40, seed=-1)


def test_a_run_without_draws_is_refused():
    post = posterior(draws=0)
    assert post.brief_check() is None
    with refused("run"):
        post.check()


def test_more_tensors_than_draws_use_every_draw_in_turn(fits):
    assert len(fits["NNTuck"].check(draws=45).simulated) == 45


def test_a_brief_check_is_the_largest_one_made_before(fits):
    post = Posterior(fits["CP"].record)
    assert brief_draws(post.record) == LEAST_TENSORS
    largest = post.check(draws=41)
    post.check(draws=40)
    assert post.brief_check().table.equals(largest.table)


def assert_same_check(one, other):
    for name in ("table", "labels", "simulated"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    assert (one.widths, one.findings) == (other.widths, other.findings)


@pytest.fixture(scope="module", params=[(60, 60, 12), (5, 40, 40, 3), (9, 70, 9)], ids=str)
def large(request):
    """Tensors of a few shards, some with actors, periods and undirected ties: name and tensor."""
    rng, shape = np.random.default_rng(7), request.param
    coords = np.array([(length * rng.random(9000) ** 1.5).astype(int) for length in shape])
    labels = [tuple(f"{length} {n}" for n in range(length)) for length in shape]
    labels = [tuple(MONTHS) if length == 12 else each for length, each in zip(shape, labels, strict=True)]
    Y = ac.CountTensor(coords, 1 + rng.poisson(np.where(rng.random(9000) < 0.01, 400.0, 1.0)), shape, labels=labels)
    pair = network_modes(Y)
    Y = Y.mask_diagonal(pair)
    return Y.undirected(pair, asymmetric="sum") if shape == (5, 40, 40, 3) else Y


@pytest.mark.parametrize("shards", [1, 3, 6])
def test_a_check_of_a_tensor_in_shards_is_that_of_the_tensor_in_memory(large, shards, tmp_path, monkeypatch):
    """It goes through the shards one by one, and never has all cells."""
    post = ac.CP(3, **SETTINGS).fit(large).posterior_
    expected = post.check(draws=40)
    large.save(tmp_path / "y.zarr", shards=shards)
    Y = ac.load_tensor(tmp_path / "y.zarr")
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    assert_same_check(Posterior(replace(post.record, tensor=Y)).check(draws=40), expected)


def test_a_check_keeps_neither_the_data_nor_a_simulated_tensor_in_memory(monkeypatch, tmp_path):
    """Blocks of a thirtieth of them are read and drawn."""
    coords = np.random.default_rng(0).integers(0, 100, (3, 400_000))
    Y = ac.CountTensor(coords, np.ones(400_000, dtype=int), (100, 100, 100))
    post = ac.CP(1, burn_in=1, draws=1, thin=1, chains=1, likelihood="poisson", progress=False, seed=1).fit(Y)
    Y.save(tmp_path / "y.zarr", shards=32)
    whole = Y.coords.nbytes + Y.counts.nbytes
    record = replace(post.posterior_.record, tensor=ac.load_tensor(tmp_path / "y.zarr"))
    del Y, post, coords

    def peak():
        tracemalloc.start()
        checking.check(record, draws=3, seed=0)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak()  # what is imported on the way is not measured
    assert peak() > whole
    monkeypatch.setattr(checking, "_EVENTS_OF_A_BLOCK", 10_000)
    assert peak() < whole / 3

"""Convergence: R-hat and effective samples as arviz has them, whatever the labels; drift; the error of predictions."""

import io
from html import unescape
from itertools import product

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from rich.console import Console
from scipy.special import logsumexp

import allocore as ac
from allocore.findings import Finding, sentence
from allocore.posterior import convergence
from allocore.posterior.convergence import (
    convergence_table,
    drift,
    expert_findings,
    jackknife_error,
    judged_cells,
    nested_r_hat,
    predictive_error,
    scored_cells,
    traces,
)
from allocore.report.terminal import class_report
from allocore.results import Posterior
from allocore.storage.record import Record
from support.random_posterior import BUDGET, MISSING, SHAPE, over_and_over, random_posterior, settled
from support.tiers import parametrize_few


def table_of(post):
    """The table of a posterior without the shares of classes, which take most of the time."""
    return convergence_table(list(traces(post.record)), seconds(post))


def seconds(post):
    return float(post.stats["seconds"][:, post.record.schedule.burn_in :].sum())


def details(post):
    """The findings for experts, by their kinds."""
    judged = list(traces(post.record))
    return {each.kind: each for each in expert_findings(post.record, judged, convergence_table(judged, 1.0))}


def dense_rates(post):
    """The rates of all cells under every draw, (chain, draw, *shape), by the formula of the model."""
    rates = np.zeros((*post.core_values.shape[:2], *post.tensor.shape))
    for chain, draw, q in np.ndindex(post.core_values.shape):
        term = np.array(post.core_values[chain, draw, q])
        for mode, factor in enumerate(post.factors):
            term = np.multiply.outer(term, factor[chain, draw][:, post.core_locations[chain, draw, q, mode]])
        rates[chain, draw] += term
    return rates


def observed(tensor):
    """Which cells no pattern covers, (*shape), cell by cell."""
    covered = [
        any(all(p in (None, d) for p, d in zip(pattern, cell, strict=True)) for pattern in tensor.missing)
        for cell in product(*map(range, tensor.shape))
    ]
    return ~np.reshape(covered, tensor.shape)


def relabelled(post, seed=5):
    """The same draws with the numbers of all classes and factors permuted, draw by draw."""
    rng = np.random.default_rng(seed)
    values, locations = post.core_values.copy(), post.core_locations.copy()
    factors = [factor.copy() for factor in post.factors]
    for place in np.ndindex(values.shape[:2]):
        order = rng.permutation(values.shape[2])
        values[place], locations[place] = values[place][order], locations[place][order]
        for mode, factor in enumerate(factors):
            new_number = rng.permutation(factor.shape[-1])
            factor[place][:, new_number] = factor[place].copy()
            locations[place][:, mode] = new_number[locations[place][:, mode]]
    changes = {"core_values": values, "core_locations": locations, "factors": tuple(factors)}
    return Posterior(Record(**{**vars(post.record), **changes}))


# Numbers


def test_the_traces_are_those_made_by_hand():
    post = random_posterior(chains=3, draws=10, burn_in=3, thin=2)
    rates, stats, kept = dense_rates(post), post.stats, [4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
    by_hand = {
        "log-likelihood": stats["log_likelihood"][:, kept],
        "expected total count": rates[:, :, observed(post.tensor)].sum(axis=-1),
        "classes": stats["classes"][:, kept],
        **{f"mode_{mode} factors": stats["factors"][:, kept, mode] for mode in range(3)},
    }
    for cell in judged_cells(post.tensor).T:
        by_hand[f"log expected count of {', '.join(map(str, cell))}"] = np.log(rates[:, :, *cell])
    found = {trace.name: trace.values for trace in traces(post.record)}
    assert list(found) == list(by_hand)
    assert len(found) == 3 + 3 + 12
    for name, values in by_hand.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)


def test_the_table_holds_what_arviz_says_of_the_traces():
    post = random_posterior(chains=3, draws=40, burn_in=3)
    table = table_of(post)
    for name, _, values in traces(post.record):
        bulk = array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")
        tail = array_stats.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))
        by_arviz = {
            "mean": values.mean(),
            "sd": values.std(ddof=1),
            "r_hat": float(array_stats.rhat(values, chain_axis=0, draw_axis=1)),
            "nested_r_hat": nested_r_hat(values),
            "ess_bulk": float(bulk),
            "ess_tail": float(tail),
            "seconds_per_effective_sample": seconds(post) / bulk,
        }
        assert table.loc[name].to_dict() == pytest.approx(by_arviz, rel=1e-12)
    assert list(table.columns) == list(by_arviz)


def test_r_hat_of_one_chain_is_that_of_its_halves():
    post = random_posterior(chains=1, draws=21)
    values = post.stats["log_likelihood"][0, post.draw_sweeps - 1]
    halves = np.stack([values[:10], values[-10:]])
    expected = array_stats.rhat(halves, chain_axis=0, draw_axis=1)
    assert table_of(post).loc["log-likelihood", "r_hat"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [[], [(2, None, None)], MISSING, [(None, 1, None), (None, None, 0), *MISSING]])
def test_the_total_rate_is_the_sum_over_all_observed_cells(missing):
    post = random_posterior(missing=missing)
    total = next(trace.values for trace in traces(post.record) if trace.name == "expected total count")
    by_hand = dense_rates(post)[:, :, observed(post.tensor)].sum(axis=-1)
    np.testing.assert_allclose(total, by_hand, rtol=1e-12)


def test_a_class_on_missing_cells_alone_adds_nothing_to_the_total_rate():
    first, *others = random_posterior().factors
    first = np.where(np.arange(SHAPE[0])[:, None] == 0, first, 0.0)
    post = random_posterior(missing=[(0, j, None) for j in range(SHAPE[1])], factors=(first, *others))
    total = next(trace.values for trace in traces(post.record) if trace.name == "expected total count")
    assert (total >= 0.0).all()
    assert (total < 1e-9).all()


def test_numbers_of_classes_and_factors_do_not_matter():
    post = random_posterior(chains=3, draws=20)
    other = relabelled(post)
    assert not (other.core_locations == post.core_locations).all()
    assert other.diagnose().table.equals(post.diagnose().table), "to the last bit"


def test_quantities_that_are_equal_up_to_rounding_are_constant():
    """One draw over and over, under other numbers each time. Classes of one value have no order in which to add them
    up, so the last digits differ.
    """
    same = {**over_and_over(2, 30), "core_values": np.ones((2, 30, BUDGET))}
    post = relabelled(random_posterior(chains=2, draws=30, **same))
    assert any(0 < np.ptp(trace.values) < 1e-9 for trace in traces(post.record))
    table = table_of(post)
    rates = [name for name in table.index if "rate" in name or "expected" in name]
    assert len(rates) == 13
    assert (
        table.loc[rates, ["r_hat", "nested_r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]]
        .isna()
        .all(axis=None)
    )


def test_a_number_of_classes_that_never_changes_has_no_r_hat():
    post = settled(stats={"classes": np.full((4, 250), 3), "factors": np.tile([3, 2, 1], (4, 250, 1))})
    constant = table_of(post).loc[["classes", "mode_0 factors", "mode_1 factors", "mode_2 factors"]]
    assert constant["mean"].tolist() == [3, 3, 2, 1]
    assert constant[["r_hat", "nested_r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)


def test_chains_that_are_stuck_at_different_numbers_of_classes_have_an_infinite_r_hat():
    post = settled(stats={"classes": np.repeat([[3], [3], [4], [3]], 250, axis=1)})
    assert table_of(post).loc["classes", "r_hat"] == np.inf
    found = details(post)["r-hat"].values
    assert (found["quantity"], found["low"], found["high"]) == ("the number of classes in use", 3, 4)


def test_a_number_of_classes_that_is_one_of_two_is_judged_without_a_warning():
    """Both are as far from their median: distances from it have no variance at all."""
    classes = np.random.default_rng(0).permuted(np.tile([3, 4], (4, 125)), axis=1)
    assert 0.99 < table_of(settled(stats={"classes": classes})).loc["classes", "r_hat"] < 1.01


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_fewer_than_four_draws_have_no_r_hat(chains, draws):
    post = random_posterior(chains=chains, draws=draws)
    table = table_of(post)
    assert table[["r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)
    assert table["mean"].notna().all()
    assert table["sd"].isna().all() == (chains * draws == 1)
    assert "few-draws" in details(post)


@parametrize_few("shape", [(8, 5), (16, 25), (9, 4), (4, 6), (5, 6), (2, 6), (3, 4), (8, 1)], quick=4)
def test_nested_r_hat_is_that_of_groups_of_chains(shape):
    """Four groups of equal size, two with fewer than eight chains; chains that are left over are left out."""
    values = np.random.default_rng(0).normal(size=shape) + np.random.default_rng(1).normal(size=(shape[0], 1))
    groups = 4 if shape[0] >= 8 else 2
    size = shape[0] // groups
    means, within = [], []
    for group in range(groups):
        chains = [values[group * size + place] for place in range(size)]
        of_chains = [chain.mean() for chain in chains]
        between_chains = np.var(of_chains, ddof=1) if size > 1 else 0.0
        within_chains = np.mean([chain.var(ddof=1) for chain in chains]) if shape[1] > 1 else 0.0
        means.append(np.mean(of_chains))
        within.append(between_chains + within_chains)
    assert nested_r_hat(values) == pytest.approx(np.sqrt(1 + np.var(means, ddof=1) / np.mean(within)))


def test_nested_r_hat_needs_two_chains_and_a_quantity_that_changes():
    assert np.isnan(nested_r_hat(np.random.default_rng(0).normal(size=(1, 9))))
    assert np.isnan(nested_r_hat(np.full((4, 9), 3.0)))
    assert nested_r_hat(np.repeat([[1.0], [2.0]], 9, axis=1)) == np.inf


# Cells


def test_cells_are_observed_and_distinct_half_of_them_without_counts_and_always_the_same():
    rng = np.random.default_rng(0)
    Y = ac.as_tensor(rng.poisson(0.2, (20, 20, 10))).mask_diagonal().with_missing([(0, None, None)])
    cells = judged_cells(Y)
    assert cells.shape == (3, 12)
    assert not Y.missing.contains(cells).any()
    assert len({tuple(cell) for cell in cells.T.tolist()}) == 12
    assert (Y.to_dense()[tuple(cells)] > 0).sum() == 6
    assert (judged_cells(Y) == cells).all()


@pytest.mark.parametrize(
    ("Y", "positive", "zero"),
    [
        (np.ones((4, 4), dtype=int), 12, 0),
        (np.ones((2, 2), dtype=int), 4, 0),
        (np.eye(3, dtype=int), 3, 6),
        (np.array([[5]]), 1, 0),
        (np.array([[1, 0, 0]]), 1, 2),
    ],
)
def test_small_and_full_tensors_give_the_cells_they_have(Y, positive, zero):
    cells = judged_cells(ac.as_tensor(Y))
    counts = Y[tuple(cells)]
    assert ((counts > 0).sum(), (counts == 0).sum()) == (positive, zero)


def test_a_cell_is_named_by_its_labels():
    labels = [["Ada", "Bo", "Cy", "Di", "Ed"], None, ["x", "y", "z"]]
    tensor = random_posterior().tensor.with_labels(labels, ["who", "what", "when"])
    index = table_of(random_posterior(tensor=tensor)).index
    cell = judged_cells(tensor)[:, 0].tolist()
    assert index[3] == "who factors"
    assert index[6] == f"log expected count of {labels[0][cell[0]]}, {cell[1]}, {labels[2][cell[2]]}"


def test_a_rate_that_underflows_is_judged_without_a_warning():
    factors = tuple(factor * 1e-200 for factor in random_posterior().factors)
    assert np.isfinite(table_of(random_posterior(factors=factors))["mean"]).all()


# Drift


def rising(chains, nats=20.0):
    """The settled trace of the log-likelihood, but in the second half some chains are higher."""
    trace = settled().stats["log_likelihood"].copy()
    trace[chains, 125:] += nats
    return trace


@pytest.mark.parametrize("nats", [20.0, -20.0])
def test_chains_that_rise_or_fall_together_drift(nats):
    found = drift(rising([0, 1, 2, 3], nats))
    assert (found.kind, found.level) == ("drift", "poor")
    assert found.values["nats"] == pytest.approx(nats, abs=2.0)


@pytest.mark.parametrize("chains", [[], [0], [1, 2]])
def test_a_jump_of_some_chains_to_another_mode_is_no_drift(chains):
    assert drift(rising(chains)) is None


def test_chains_that_rise_and_fall_do_not_drift():
    trace = rising([0, 1])
    trace[2:, 125:] -= 20.0
    assert drift(trace) is None


def test_a_rise_that_is_small_beside_the_differences_between_chains_is_no_drift():
    apart = 100.0 * np.arange(4)[:, None]
    assert drift(rising([0, 1, 2, 3]) + apart) is None
    assert drift(rising([0, 1, 2, 3], 60.0) + apart) is not None


def test_one_chain_drifts_if_its_halves_differ_by_more_than_the_spread_within():
    noise = np.random.default_rng(0).normal(size=(1, 900))
    assert drift(noise) is None
    assert drift(noise + np.linspace(0, 4, 900)).values["nats"] == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("chains", [1, 2, 4, 16])
def test_settled_chains_seldom_drift(chains):
    rng = np.random.default_rng(chains)
    assert sum(drift(rng.normal(size=(chains, 25))) is not None for _ in range(400)) <= 20, "5%"


def test_chains_that_cannot_be_judged_do_not_drift():
    assert drift(np.array([[1.0, 2.0, 3.0]])) is None, "too few draws"
    assert drift(np.full((4, 9), -3.0)) is None, "equal draws"
    assert drift(np.where(np.eye(4, 9) > 0, np.nan, rising([0, 1, 2, 3])[:, :9])) is None, "a damaged trace"


# The error of predictions


def leave_one_out_scores(post, cells):
    """The mean log predictive probability of cells without each chain, by the rates of all cells."""
    coords, counts = cells
    rates = dense_rates(post)[:, :, *coords]
    log_density = counts * np.log(rates) - rates - np.array([np.sum(np.log(np.arange(1, y + 1))) for y in counts])
    scores = []
    for chain in range(len(rates)):
        others = np.delete(log_density, chain, axis=0).reshape(-1, len(counts))
        scores.append((logsumexp(others, axis=0) - np.log(len(others))).mean())
    return np.array(scores)


@pytest.mark.parametrize("chains", [2, 5])
def test_the_error_of_predictions_is_that_of_leaving_out_each_chain(chains):
    post = random_posterior(chains=chains, draws=6)
    scores = leave_one_out_scores(post, (post.tensor.coords, post.tensor.counts))
    found = predictive_error(post.record, 1)
    assert found.nats == pytest.approx(np.sqrt((chains - 1) / chains * ((scores - scores.mean()) ** 2).sum()))
    assert (found.cells, found.held_out) == (post.tensor.nnz, False)


def test_held_out_cells_with_counts_come_first():
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE)), 0.3, seed=0)
    post = random_posterior(tensor=split.train, held_out=split.test)
    coords, counts, held_out = scored_cells(post.record)
    assert held_out
    np.testing.assert_array_equal(coords, split.test.coords[:, split.test.counts > 0])
    zeros = ac.HeldOut(split.test.coords[:, split.test.counts == 0], split.test.counts[split.test.counts == 0])
    assert not scored_cells(random_posterior(tensor=split.train, held_out=zeros).record)[2], (
        "without counts, the tensor's"
    )
    assert predictive_error(post.record, 1).cells == len(counts)


def test_of_many_cells_always_the_same_sample_is_scored(monkeypatch):
    monkeypatch.setattr(convergence, "_SCORED_CELLS", 7)
    one, two = scored_cells(random_posterior().record), scored_cells(random_posterior().record)
    assert one[0].shape == (3, 7)
    np.testing.assert_array_equal(one[0], two[0])
    dense = random_posterior().tensor.to_dense()
    np.testing.assert_array_equal(dense[tuple(one[0])], one[1])


def test_impossible_counts_are_left_out_unless_one_chain_alone_thinks_them_possible():
    log_density = np.log([[0.1, 0.2], [0.3, 0.1], [0.2, 0.2]])
    never = np.full((3, 1), -np.inf)
    known = jackknife_error(log_density)
    assert jackknife_error(np.hstack([log_density, never])) == known > 0.0
    assert jackknife_error(np.hstack([log_density, [[-1.0], [-np.inf], [-np.inf]]])) == np.inf
    assert np.isnan(jackknife_error(never))
    assert np.isnan(jackknife_error(log_density[:1])), "one chain"


# For experts


def test_the_worst_r_hat_and_the_fewest_effective_samples_are_named():
    values = settled().core_values.copy()
    values[0] *= 3.0
    post = settled(core_values=values)
    table, found = table_of(post), details(post)
    phrases = {trace.name: trace.phrase for trace in traces(post.record)}
    assert found["r-hat"].values["r_hat"] == table["r_hat"].max() > 1.2
    assert found["r-hat"].values["quantity"] == phrases[table["r_hat"].idxmax()]
    assert (found["r-hat"].values["above"], found["r-hat"].values["judged"]) == (13, 18)
    assert found["effective-samples"].values["samples"] == table[["ess_bulk", "ess_tail"]].min(axis=None)
    counts = table[table.index.str.startswith("log expected count of")]
    assert found["nested-r-hat"].values["r_hat"] == counts["nested_r_hat"].max() > 1.0
    assert {each.level for each in found.values()} == {"note"}


def test_what_experts_read_is_made_without_a_warning_whatever_there_is():
    for chains, draws in [(1, 1), (1, 4), (2, 5), (5, 7), (1, 900)]:
        found = details(random_posterior(chains=chains, draws=draws))
        assert ("one-chain" in found) == (chains == 1 and draws >= 4)
        assert "nan" not in " ".join(map(sentence, found.values()))


def test_a_chain_far_behind_is_named_with_its_distance_in_nats_and_in_spreads():
    trace = settled().stats["log_likelihood"].copy()
    trace[2] -= 300.0
    trace[1] += 10.0
    behind = settled(stats={"log_likelihood": trace})
    found, nats = details(behind)["chains-behind"], trace[1].mean() - trace[2].mean()
    assert (found.values["chains"], found.values["best"], found.values["nats"]) == ((2,), 1, pytest.approx(nats))
    assert found.values["spreads"] == pytest.approx(nats / np.sqrt(trace.var(axis=1, ddof=1).mean()))
    screen = io.StringIO()
    Console(file=screen, width=1000).print(class_report(behind, draw="best"))
    assert screen.getvalue().count(sentence(found)) == 1
    assert sentence(found) in unescape(behind._repr_html_()), "and a notebook"
    assert "chains-behind" not in details(behind.select_chains([0, 1, 3]))


@parametrize_few(
    ("levels", "behind"),
    [
        ([0, -300], (1,)),
        ([-100, 0, -290, 10], (2,)),
        ([-290, 0, -100, -400], None),
        ([0, 10, -300, -400, -20, 0], (2, 3)),
        ([0, 10, -300, -400, -20, -290, 5, 0], (2, 3, 5)),
        ([0, 10, -300, -400], None),
        ([0], None),
    ],
)
def test_chains_are_behind_if_most_others_are_close_to_the_best(levels, behind):
    """Levels that are spread out are modes, and half of the chains are not behind the other half."""
    trace = np.random.default_rng(0).normal(0.0, 1.0, (len(levels), 50)) + np.array(levels)[:, None]
    stats = {"log_likelihood": trace}
    found = details(random_posterior(chains=len(levels), draws=50, burn_in=0, thin=1, stats=stats)).get("chains-behind")
    assert (found and found.values["chains"]) == behind


def test_a_chain_behind_others_that_stand_still_has_no_spread_to_compare_with():
    trace = np.repeat([[0.0], [0.0], [-300.0], [0.0]], 250, axis=1)
    found = details(settled(stats={"log_likelihood": trace}))["chains-behind"]
    assert found.values["spreads"] == np.inf
    assert "inf" not in sentence(found)


@pytest.mark.parametrize(("spread", "nats"), [(5.0, 40.0), (0.01, 1.0)])
def test_a_chain_is_not_behind_by_noise_nor_by_what_modes_differ(spread, nats):
    """Less than ten spreads; many spreads, but less than a tenth of a nat for each of the non-zero cells."""
    trace = np.random.default_rng(0).normal(-1e3, spread, (4, 250))
    trace[2] -= nats
    post = settled(stats={"log_likelihood": trace})
    assert post.tensor.nnz > 10
    assert "chains-behind" not in details(post)


# Moves


def test_the_move_rate_is_that_of_the_sweeps_after_the_burn_in():
    moved = np.array([[1.0, 1.0, 0.5, 0.0, 0.25, 0.25], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    post = random_posterior(chains=2, draws=2, burn_in=2, thin=2, stats={"moved": moved})
    assert details(post)["move-rate"].values["rate"] == 0.125
    assert "12%" in sentence(details(post)["move-rate"])
    assert "0.0041%" in sentence(Finding("move-rate", values={"rate": 4.1e-5}))


@pytest.mark.parametrize("still", [[], [1], [0, 3], [0, 1, 2, 3]])
def test_chains_in_which_no_class_moved_after_the_burn_in_are_named(still):
    moved = np.full((4, 19), 0.1)
    moved[still, 3:] = 0.0
    found = details(random_posterior(chains=4, stats={"moved": moved}))
    assert ("move-rate" in found) == (len(still) < 4)
    assert ("no-moves" in found) == bool(still)
    assert not still or found["no-moves"].values == {"still": tuple(still), "chains": 4}


@pytest.mark.parametrize("still", [[], [1], [0, 1]])
def test_the_class_table_warns_of_chains_without_moves_by_the_same_words_as_the_diagnosis(still):
    """Moves in the burn-in do not count, and neither table looks at one chain alone."""
    moved = np.full((2, 19), 0.1)
    moved[still, 3:] = 0.0
    found = random_posterior(stats={"moved": moved})
    screen = io.StringIO()
    Console(file=screen, width=1000).print(class_report(found))
    told = [sentence(each) for each in found.diagnose().details if each.kind == "no-moves"]
    assert len(told) == bool(still)
    assert all(screen.getvalue().count(each) == 1 for each in told)


def test_fixed_locations_are_not_expected_to_move():
    found = details(random_posterior(chains=4, stats={"moved": np.zeros((4, 19))}, learned=False))
    assert not {"no-moves", "move-rate"} & found.keys()

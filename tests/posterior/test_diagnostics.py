"""Diagnostics: R-hat and effective samples as arviz has them, whatever the labels; and words that fit the numbers."""

import io
import re
from html import unescape
from itertools import product

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from rich.console import Console

import allocore as ac
from allocore.findings import sentence, sentences
from allocore.model.spec import Spec
from allocore.posterior.diagnose import Trace, diagnose, judged_cells, traces
from allocore.report.terminal import class_report
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule
from support.tiers import parametrize_few

WITH_SHARES = ("test_every_model_can_be_diagnosed", "test_numbers_of_classes_and_factors_do_not_matter")


@pytest.fixture(autouse=True)
def shares_of_classes(request, monkeypatch):
    """The shares of consensus classes are judged only by the tests that are about them: they take most of the time."""
    if request.node.originalname not in WITH_SHARES:
        monkeypatch.setattr("allocore.results.can_judge", lambda record: False)


def details(found):
    """What the table shows, in words."""
    return sentences(found.details)


SHAPE, CORE_SHAPE, BUDGET = (5, 4, 3), (3, 2, 4), 4
# Patterns of several kinds that overlap.
MISSING = [(0, 0, None), (1, 1, None), (None, 3, 2), (0, None, 2), (4, 2, 1)]

MODES = (
    "They have settled in different modes: predictions pool all chains and can be used, and more chains make them "
    "better; intervals hold within a mode only."
)


def posterior(chains=2, draws=8, burn_in=3, thin=2, missing=MISSING, learned=True, stats=None, **changes):
    """Random draws with a random trace, put together without a sampler."""
    rng = np.random.default_rng(0)
    lead, sweeps = (chains, draws), (chains, burn_in + draws * thin)
    trace = {
        "log_likelihood": rng.normal(-1e3, 5.0, sweeps),
        "classes": rng.integers(2, 5, sweeps),
        "factors": rng.integers(1, 4, (*sweeps, len(SHAPE))),
        "moved": rng.uniform(0.0, 0.2, sweeps),
        "seconds": rng.uniform(0.01, 0.02, sweeps),
    }
    record = {
        "tensor": ac.as_tensor(np.random.default_rng(1).poisson(0.7, SHAPE)).with_missing(missing),
        "spec": Spec(BUDGET, CORE_SHAPE, model="AlloCore" if learned else "CP"),
        "schedule": Schedule(burn_in, draws, thin),
        "seed": 0,
        "core_values": rng.gamma(5.0, 1.0, (*lead, BUDGET)),
        "core_locations": np.stack([rng.integers(0, k, (*lead, BUDGET)) for k in CORE_SHAPE], axis=-1),
        "factors": tuple(rng.gamma(2.0, 1.0, (*lead, d, k)) for d, k in zip(SHAPE, CORE_SHAPE, strict=True)),
        "stats": {**trace, **(stats or {})},
    }
    return Posterior(Record(**{**record, **changes}))


def over_and_over(chains, draws):
    """The arrays of one draw, repeated."""
    one = posterior(chains=1, draws=1)
    values, locations, *factors = (
        np.tile(array, (chains, draws) + (1,) * (array.ndim - 2))
        for array in (one.core_values, one.core_locations, *one.factors)
    )
    return {"core_values": values, "core_locations": locations, "factors": tuple(factors)}


def settled(**changes):
    """Four chains of independent draws, long enough to be judged well."""
    return posterior(chains=4, draws=250, burn_in=0, thin=1, **changes)


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
    return Posterior(Record(**{**vars(post._record), **changes}))


# Numbers


def test_the_traces_are_those_made_by_hand():
    post = posterior(chains=3, draws=10, burn_in=3, thin=2)
    rates, stats, kept = dense_rates(post), post.stats, [4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
    by_hand = {
        "log-likelihood": stats["log_likelihood"][:, kept],
        "expected total count": rates[:, :, observed(post.tensor)].sum(axis=-1),
        "classes": stats["classes"][:, kept],
        **{f"mode_{mode} factors": stats["factors"][:, kept, mode] for mode in range(3)},
    }
    for cell in judged_cells(post.tensor).T:
        by_hand[f"log expected count of {', '.join(map(str, cell))}"] = np.log(rates[:, :, *cell])
    found = {trace.name: trace.values for trace in traces(post._record)}
    assert list(found) == list(by_hand)
    assert len(found) == 3 + 3 + 12
    for name, values in by_hand.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)


def test_the_table_holds_what_arviz_says_of_the_traces():
    post = posterior(chains=3, draws=40, burn_in=3)
    table = post.diagnose().table
    seconds = post.stats["seconds"][:, 3:].sum()
    for name, _, values in traces(post._record):
        bulk = array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk")
        tail = array_stats.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95))
        by_arviz = {
            "mean": values.mean(),
            "sd": values.std(ddof=1),
            "r_hat": float(array_stats.rhat(values, chain_axis=0, draw_axis=1)),
            "ess_bulk": float(bulk),
            "ess_tail": float(tail),
            "seconds_per_effective_sample": seconds / bulk,
        }
        assert table.loc[name].to_dict() == pytest.approx(by_arviz, rel=1e-12)
    assert list(table.columns) == list(by_arviz)


def test_r_hat_of_one_chain_is_that_of_its_halves():
    post = posterior(chains=1, draws=21)
    values = post.stats["log_likelihood"][0, post.draw_sweeps - 1]
    halves = np.stack([values[:10], values[-10:]])
    expected = array_stats.rhat(halves, chain_axis=0, draw_axis=1)
    assert post.diagnose().table.loc["log-likelihood", "r_hat"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("missing", [[], [(2, None, None)], MISSING, [(None, 1, None), (None, None, 0), *MISSING]])
def test_the_total_rate_is_the_sum_over_all_observed_cells(missing):
    post = posterior(missing=missing)
    total = next(trace.values for trace in traces(post._record) if trace.name == "expected total count")
    by_hand = dense_rates(post)[:, :, observed(post.tensor)].sum(axis=-1)
    np.testing.assert_allclose(total, by_hand, rtol=1e-12)


def test_a_class_on_missing_cells_alone_adds_nothing_to_the_total_rate():
    first, *others = posterior().factors
    first = np.where(np.arange(SHAPE[0])[:, None] == 0, first, 0.0)
    post = posterior(missing=[(0, j, None) for j in range(SHAPE[1])], factors=(first, *others))
    total = next(trace.values for trace in traces(post._record) if trace.name == "expected total count")
    assert (total >= 0.0).all()
    assert (total < 1e-9).all()


def test_numbers_of_classes_and_factors_do_not_matter():
    post = posterior(chains=3, draws=20)
    other = relabelled(post)
    assert not (other.core_locations == post.core_locations).all()
    first, second = post.diagnose(), other.diagnose()
    assert second.table.equals(first.table), "to the last bit"
    assert details(second) == details(first)


def test_quantities_that_are_equal_up_to_rounding_are_constant():
    """One draw over and over, under other numbers each time. Classes of one value have no order in which to add them
    up, so the last digits differ.
    """
    same = {**over_and_over(2, 30), "core_values": np.ones((2, 30, BUDGET))}
    post = relabelled(posterior(chains=2, draws=30, **same))
    assert any(0 < np.ptp(trace.values) < 1e-9 for trace in traces(post._record))
    table = post.diagnose().table
    rates = [name for name in table.index if "rate" in name or "expected" in name]
    assert len(rates) == 13
    assert table.loc[rates, ["r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]].isna().all(axis=None)


def test_the_move_rate_is_that_of_the_sweeps_after_the_burn_in():
    moved = np.array([[1.0, 1.0, 0.5, 0.0, 0.25, 0.25], [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]])
    assert posterior(chains=2, draws=2, burn_in=2, thin=2, stats={"moved": moved}).diagnose().move_rate == 0.125


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
    tensor = posterior().tensor.with_labels(labels, ["who", "what", "when"])
    index = posterior(tensor=tensor).diagnose().table.index
    cell = judged_cells(tensor)[:, 0].tolist()
    assert index[3] == "who factors"
    assert index[6] == f"log expected count of {labels[0][cell[0]]}, {cell[1]}, {labels[2][cell[2]]}"


def test_a_rate_that_underflows_is_judged_without_a_warning():
    factors = tuple(factor * 1e-200 for factor in posterior().factors)
    found = posterior(factors=factors).diagnose()
    assert np.isfinite(found.table["mean"]).all()


# Words


def test_chains_that_agree_are_told_that_all_is_well():
    found = settled().diagnose()
    assert found.ok
    assert len(details(found)) == 1
    assert details(found)[0].startswith("No problem found: the chains agree (R-hat at most 1.0")
    assert details(found)[0].endswith("effective samples.")
    assert (found.level, found.sentences[0]) == ("good", "The chains agree: predictions and intervals can be used.")


def test_chains_that_disagree_on_the_log_likelihood_are_told_so():
    trace = settled().stats["log_likelihood"].copy()
    trace[2] += 20.0
    found = settled(stats={"log_likelihood": trace}).diagnose()
    assert not found.ok
    r_hat = found.table.loc["log-likelihood", "r_hat"]
    assert r_hat > 1.1
    assert found.level == "caution"
    assert found.sentences[0].startswith("The chains are in different modes: predictions pool them and can be used")
    assert details(found) == (f"Chains disagree on the log-likelihood (R-hat {r_hat:.2f}).", MODES)


def test_chains_that_differ_a_little_are_told_that_they_do_not_quite_agree():
    trace = settled().stats["log_likelihood"].copy()
    trace[2] += 2.0
    found = settled(stats={"log_likelihood": trace}).diagnose()
    r_hat = found.table.loc["log-likelihood", "r_hat"]
    assert 1.01 < r_hat < 1.05
    assert details(found) == (f"Chains do not quite agree yet on the log-likelihood (R-hat {r_hat:.3f}); run longer.",)
    assert (found.level, found.sentences[0].split(":")[0]) == ("caution", "The chains do not quite agree yet")


def test_all_quantities_on_which_chains_disagree_are_told_in_one_sentence_that_names_the_worst():
    values = settled().core_values.copy()
    values[0] *= 3.0
    found = settled(core_values=values).diagnose()
    worst = found.table["r_hat"].idxmax()
    assert found.table.loc[worst, "r_hat"] > 1.2
    words = {trace.name: trace.phrase for trace in traces(settled()._record)}[worst]
    assert details(found) == (
        f"Chains disagree on 13 of 18 quantities, most of all on {words} (R-hat {found.table['r_hat'].max():.2f}).",
        MODES,
    )


def test_chains_of_equal_means_and_unequal_spread_disagree():
    trace = settled().stats["log_likelihood"].copy()
    trace[2] = trace[2].mean() + 6 * (trace[2] - trace[2].mean())
    assert details(settled(stats={"log_likelihood": trace}).diagnose())[0].startswith(
        "Chains disagree on the log-likelihood"
    )


def test_a_number_of_classes_that_never_changes_is_no_complaint():
    post = settled(stats={"classes": np.full((4, 250), 3), "factors": np.tile([3, 2, 1], (4, 250, 1))})
    found = post.diagnose()
    assert found.ok
    constant = found.table.loc[["classes", "mode_0 factors", "mode_1 factors", "mode_2 factors"]]
    assert constant["mean"].tolist() == [3, 3, 2, 1]
    assert constant[["r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]].isna().all(axis=None)


def test_chains_that_are_stuck_at_different_numbers_of_classes_are_told_so():
    found = settled(stats={"classes": np.repeat([[3], [3], [4], [3]], 250, axis=1)}).diagnose()
    assert not found.ok
    assert found.table.loc["classes", "r_hat"] == np.inf
    assert details(found) == (
        "Chains disagree on the number of classes in use (stuck at different values, 3 to 4).",
        MODES,
    )


def test_a_number_of_classes_that_is_one_of_two_is_judged_without_a_warning():
    """Both are as far from their median: distances from it have no variance at all."""
    classes = np.random.default_rng(0).permuted(np.tile([3, 4], (4, 125)), axis=1)
    found = settled(stats={"classes": classes}).diagnose()
    assert 0.99 < found.table.loc["classes", "r_hat"] < 1.01
    assert found.ok


def test_draws_that_hang_together_are_too_few():
    """Independent numbers, each of them thrice: a third of the draws is effective, and chains agree nonetheless."""
    trace = np.random.default_rng(0).normal(size=(4, 90)).repeat(3, axis=1)
    found = posterior(chains=4, draws=270, burn_in=0, thin=1, stats={"log_likelihood": trace}).diagnose()
    fewest = found.table.loc["log-likelihood", ["ess_bulk", "ess_tail"]].min()
    assert found.table["r_hat"].max() < 1.01
    assert details(found) == (
        f"There are few effective samples: {fewest:.0f} for the log-likelihood, where there should be 400 "
        "(100 per chain). For intervals, run longer.",
    )
    assert found.level == "caution"
    assert found.sentences[0] == "The chains agree, but effective samples are few: intervals are rough."


def test_where_chains_are_in_different_modes_effective_samples_are_those_within_chains():
    """Between modes there are as many as chains, however long these are: more draws cannot help."""
    trace = 0.01 * settled().stats["log_likelihood"] + 0.5 * np.arange(4)[:, None]
    apart = settled(stats={"log_likelihood": trace}).diagnose()
    assert apart.table.loc["log-likelihood", "ess_bulk"] < 20
    assert details(apart)[1:] == (MODES,)
    slow = np.random.default_rng(0).normal(size=(4, 50)).repeat(5, axis=1) + 8.0 * np.arange(4)[:, None]
    words = details(settled(stats={"log_likelihood": slow}).diagnose())
    assert re.fullmatch(
        r"There are few effective samples within chains: \d+ for the log-likelihood, where there should be 400 "
        r"\(100 per chain\). For intervals, run longer.",
        words[-1],
    )


def rising(chains, nats=20.0):
    """The settled trace of the log-likelihood, but in the second half some chains are higher."""
    trace = settled().stats["log_likelihood"].copy()
    trace[chains, 125:] += nats
    return settled(stats={"log_likelihood": trace}).diagnose()


def test_chains_that_still_rise_must_run_longer():
    found = rising([0, 1, 2, 3])
    assert (found.level, found.sentences[0]) == ("poor", "The chains have not settled: run longer.")
    assert details(found)[0].startswith("Chains disagree on the log-likelihood (R-hat 1.")
    nats = int(
        re.fullmatch(
            r"The log-likelihood still rises, by (\d+) nats from the first half of the draws to the second, so the "
            r"burn-in was too short: resume the run with more draws, or fit again with more burn-in\.",
            details(found)[1],
        )[1]
    )
    assert 18 <= nats <= 22
    assert "still falls, by " in details(rising([0, 1, 2, 3], -20.0))[1]


@pytest.mark.parametrize(("chains", "drift"), [([0], False), ([1, 2], False), ([0, 1, 3], True)])
def test_chains_drift_if_most_of_them_do(chains, drift):
    """A jump of one or two chains to another mode is no sign of a burn-in that was too short."""
    assert (rising(chains).level == "poor") == drift


def test_chains_that_rise_and_fall_do_not_drift():
    trace = settled().stats["log_likelihood"].copy()
    trace[:2, 125:] += 20.0
    trace[2:, 125:] -= 20.0
    assert settled(stats={"log_likelihood": trace}).diagnose().level == "caution"


def test_a_chain_far_behind_is_named_with_its_distance_in_nats_and_in_spreads():
    trace = settled().stats["log_likelihood"].copy()
    trace[2] -= 300.0
    trace[1] += 10.0
    found = settled(stats={"log_likelihood": trace}).diagnose()
    assert (found.level, found.sentences[0]) == (
        "poor",
        "Chain 2 is far behind the others: leave it out, or run longer.",
    )
    nats = trace[1].mean() - trace[2].mean()
    spread = np.sqrt(trace.var(axis=1, ddof=1).mean())
    assert details(found)[2] == (
        f"Chain 2 is far behind: its mean log-likelihood is {nats:.0f} nats below that of chain 1, {nats / spread:.0f} "
        "times the spread within chains; predictions hardly suffer, but classes there fit worse: leave it out with "
        "post.select_chains, or run longer."
    )
    behind = settled(stats={"log_likelihood": trace})
    screen = io.StringIO()
    Console(file=screen, width=1000).print(class_report(behind))
    assert found.sentences[0] in screen.getvalue(), "the table of classes tells it too"
    assert screen.getvalue().count("far behind") == 1, "and tells it once"
    screen = io.StringIO()
    Console(file=screen, width=1000).print(class_report(behind, draw="best"))
    assert details(found)[2] in screen.getvalue(), "with a single draw, in full"
    assert details(found)[2] in unescape(behind._repr_html_()), "and a notebook"
    kept = behind.select_chains([0, 1, 3]).diagnose()
    assert kept.level == "caution"
    assert "chains-behind" not in [each.kind for each in kept.findings]


@parametrize_few(
    ("levels", "behind"),
    [
        ([0, -300], "Chain 1 is"),
        ([-100, 0, -290, 10], "Chain 2 is"),
        ([-290, 0, -100, -400], None),
        ([0, 10, -300, -400, -20, 0], "Chains 2 and 3 are"),
        ([0, 10, -300, -400, -20, -290, 5, 0], "Chains 2, 3 and 5 are"),
        ([0, 10, -300, -400], None),
        ([0], None),
    ],
)
def test_chains_are_behind_if_most_others_are_close_to_the_best(levels, behind):
    """Levels that are spread out are modes, and half of the chains are not behind the other half."""
    trace = np.random.default_rng(0).normal(0.0, 1.0, (len(levels), 250)) + np.array(levels)[:, None]
    stats = {"log_likelihood": trace}
    found = posterior(chains=len(levels), draws=250, burn_in=0, thin=1, stats=stats).diagnose()
    told = [sentence(each) for each in found.details if each.kind == "chains-behind"]
    assert [word.split(" far")[0] for word in told] == ([] if behind is None else [behind])
    assert found.sentences[0].startswith(f"{behind} far behind the others: leave ") == (behind is not None)


def test_a_chain_behind_others_that_stand_still_has_no_spread_to_compare_with():
    trace = np.repeat([[0.0], [0.0], [-300.0], [0.0]], 250, axis=1)
    words = details(settled(stats={"log_likelihood": trace}).diagnose())
    assert any("is 300 nats below that of chain 0; predictions hardly suffer" in word for word in words)


@pytest.mark.parametrize(("spread", "nats"), [(5.0, 40.0), (0.01, 1.0)])
def test_a_chain_is_not_behind_by_noise_nor_by_what_modes_differ(spread, nats):
    """Less than ten spreads; many spreads, but less than a tenth of a nat for each of the non-zero cells."""
    trace = np.random.default_rng(0).normal(-1e3, spread, (4, 250))
    trace[2] -= nats
    post = settled(stats={"log_likelihood": trace})
    assert post.tensor.nnz > 10
    assert post.diagnose().level == "caution"


def test_further_quantities_can_be_judged_beside_the_others():
    values = np.random.default_rng(0).normal(size=(4, 250)) + np.arange(4)[:, None]
    more = [Trace("share of class 0", "the shares of consensus classes", values)]
    found = diagnose(settled()._record, (), more)
    assert found.table.index[-1] == "share of class 0"
    assert details(found)[0].startswith("Chains disagree on the shares of consensus classes (R-hat ")


def test_where_few_draws_are_kept_more_are_asked_for():
    words = details(posterior(chains=4, draws=60).diagnose())
    assert words[-1].startswith("There are few effective samples")
    assert words[-1].endswith(", where there should be 400 (100 per chain). For intervals, keep more draws.")


def test_one_chain_cannot_tell_whether_chains_settle_in_different_modes():
    found = posterior(chains=1, draws=900, burn_in=0, thin=1).diagnose()
    assert not found.ok
    assert details(found)[0].startswith("No problem found: the halves of the chain agree (R-hat at most 1.0")
    assert (found.level, found.sentences[0]) == ("caution", "One chain cannot show whether chains agree: run four.")
    assert details(found)[1:] == (
        "R-hat compares the two halves of the chain here. Fit four chains to see whether they agree.",
    )


def test_one_chain_that_drifts_is_told_so():
    trace = np.random.default_rng(0).normal(size=(1, 900)) + np.linspace(0, 4, 900)
    found = posterior(chains=1, draws=900, burn_in=0, thin=1, stats={"log_likelihood": trace}).diagnose()
    assert details(found)[0].startswith("The halves of the chain disagree on the log-likelihood (R-hat 1.")
    assert details(found)[1].startswith("The log-likelihood still rises, by 2 nats from the first half")
    assert (found.level, found.sentences[0]) == ("poor", "The chain has not settled: run longer.")
    assert not [word for word in details(found) if "run longer" in word], "the advice is in the headline, and told once"


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_fewer_than_four_draws_cannot_be_judged(chains, draws):
    found = posterior(chains=chains, draws=draws).diagnose()
    assert not found.ok
    assert details(found) == ("R-hat needs at least 4 draws per chain: resume the run with more draws.",)
    assert (found.level, found.sentences[0]) == ("caution", f"There are too few draws to judge: {draws} per chain.")
    assert found.table[["r_hat", "ess_bulk", "ess_tail"]].isna().all(axis=None)
    assert found.table["mean"].notna().all()
    assert found.table["sd"].isna().all() == (chains * draws == 1)


@pytest.mark.parametrize(("chains", "draws"), [(1, 4), (2, 5), (5, 7), (1, 8), (2, 9)])
def test_few_draws_are_judged_without_a_warning_and_never_found_well(chains, draws):
    found = posterior(chains=chains, draws=draws).diagnose()
    assert not found.ok
    assert details(found)
    assert "nan" not in " ".join(details(found))
    assert (found.table["ess_bulk"] > 0).any()


def test_draws_that_are_all_the_same_are_not_well():
    stats = {name: values[:, :1].repeat(20, axis=1) for name, values in posterior(chains=2).stats.items()}
    stats = {name: np.broadcast_to(values[:1], values.shape).copy() for name, values in stats.items()}
    found = posterior(chains=2, draws=20, burn_in=0, thin=1, stats=stats, **over_and_over(2, 20)).diagnose()
    assert not found.ok
    assert details(found) == ("All draws are equal, so R-hat and intervals say nothing: fit again with another seed.",)
    headline = "Nothing changes from draw to draw: these are not draws of a posterior."
    assert (found.level, found.sentences[0]) == ("poor", headline)


# Moves


def test_a_run_in_which_no_class_moved_after_the_burn_in_is_told_so():
    moved = np.zeros((4, 260))
    moved[:, :10] = 0.5
    found = posterior(chains=4, draws=250, burn_in=10, thin=1, stats={"moved": moved}).diagnose()
    assert found.move_rate == 0.0
    assert not found.ok
    assert details(found)[-1].startswith(
        "No class moved after the burn-in. Locations move rarely when counts are large"
    )


@pytest.mark.parametrize(("still", "where"), [([1], "chain 1"), ([0, 3], "chains 0, 3")])
def test_single_chains_in_which_no_class_moved_are_named(still, where):
    moved = np.full((4, 250), 0.1)
    moved[still] = 0.0
    assert details(settled(stats={"moved": moved}).diagnose())[-1].startswith(
        f"No class moved after the burn-in in {where}."
    )


@pytest.mark.parametrize("still", [[], [1], [0, 1]])
def test_the_class_table_warns_of_chains_without_moves_by_the_same_words_as_the_diagnosis(still):
    """Moves in the burn-in do not count, and neither table looks at one chain alone."""
    moved = np.full((2, 19), 0.1)
    moved[still, 3:] = 0.0
    found = posterior(stats={"moved": moved})
    screen = io.StringIO()
    Console(file=screen, width=1000).print(class_report(found))
    shown = [line for line in screen.getvalue().splitlines() if line.startswith("No class moved")]
    assert [line.rstrip() for line in shown] == [
        sentence(each) for each in found.diagnose().details if each.kind == "no-moves"
    ]
    assert len(shown) == bool(still)


def test_fixed_locations_are_not_expected_to_move():
    found = settled(stats={"moved": np.zeros((4, 250))}, learned=False).diagnose()
    assert found.ok
    assert np.isnan(found.move_rate)


# As it is shown


def test_a_diagnosis_prints_its_verdict_its_table_and_its_sentences():
    found = posterior().diagnose()
    told = str(found).splitlines()
    assert told[0] == f"{found.level.capitalize()}: {found.sentences[0]}"
    assert told[2].split()[:3] == ["mean", "sd", "r_hat"]
    assert told[3].startswith("log-likelihood")
    assert told[-len(details(found)) :] == list(details(found))
    assert told[-len(details(found)) - 1] == f"{found.move_rate:.2%} of the classes moved in a sweep after the burn-in."
    assert "moved" not in str(posterior(learned=False).diagnose())


def test_a_notebook_begins_with_the_verdict():
    found = settled().diagnose()
    assert found._repr_html_().startswith(
        "<p><strong>Good: The chains agree: predictions and intervals can be used.</strong></p><table"
    )


@pytest.mark.parametrize("chains", [1, 2, 4])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_there_are_at_most_five_sentences_however_much_is_wrong(chains, scale):
    """Drift, another mode for every chain, few draws, chains without moves."""
    sweeps = np.linspace(0.0, 50.0, 19) + scale * np.arange(chains)[:, None]
    found = posterior(chains=chains, stats={"log_likelihood": sweeps, "moved": np.zeros((chains, 19))}).diagnose()
    assert 1 <= len(details(found)) <= 5
    assert found.level == "poor"
    assert sum("run longer" in word for word in details(found)) <= 2


def test_labels_and_names_are_escaped_in_notebooks():
    tensor = posterior().tensor.with_labels({"<i>who": ["<b>", *"vwxy"]}, ["<i>who", "what", "when"])
    html = posterior(tensor=tensor).diagnose()._repr_html_()
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;i&gt;who factors" in html


# Fitted models


@parametrize_few("model", [ac.AlloCore(3), ac.CP(2), ac.Tucker((2, 1, 2))], ids=repr)
@parametrize_few(("chains", "draws"), [(1, 1), (1, 6), (2, 4), (3, 10)])
def test_every_model_can_be_diagnosed(model, chains, draws):
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE)).with_missing(MISSING)
    model.set_params(burn_in=1, draws=draws, thin=1, chains=chains, seed=1, progress=False)
    found = model.fit(Y).posterior_.diagnose()
    shares = found.table.index.str.startswith("share of class")
    assert (~shares).sum() == 18
    assert shares.any() == (draws >= 4), "R-hat needs four draws"
    assert details(found)
    if not isinstance(model, ac.AlloCore):
        assert "moved" not in " ".join(details(found))

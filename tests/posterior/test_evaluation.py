"""`post.evaluate`: scores by brute force, standard errors over fibres, words, and what may be scored.

The PIT of counts drawn from the predictive distribution is uniform. Error rate of the test: 1e-4, by Kolmogorov and
Smirnov's test; planted bugs, a PIT that is not randomised and one that is off by one count, are found.
"""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import average_precision_score, mean_poisson_deviance, roc_auc_score
from test_likelihoods import KINDS, QUICK, SHAPE, dense, frozen, posterior_with

import allocore as ac
from allocore.errors import InputError
from allocore.kernels.workers import Workers
from allocore.posterior import evaluate as evaluation
from allocore.posterior.evaluate import clustered_mean, evaluate, pit, score_cells, score_rows
from allocore.posterior.predict import Mixtures
from allocore.results import Posterior
from support.errors import refused
from support.tiers import by_tier, parametrize_few

LABELS = ("who", "what", "when"), (tuple("abcde"), tuple("wxyz"), ("2001", "2002", "2003"))


def split_posterior(likelihood="poisson", by=None, along=1, **settings):
    """A posterior whose tensor lacks some fibres, which it holds out."""
    post = posterior_with(likelihood, by, **settings)
    names, labels = LABELS
    split = ac.hold_out(post.tensor.with_labels(labels, names), 0.4, along=along, seed=3)
    return Posterior(replace(post.record, tensor=split.train, held_out=split.test), 2)


@parametrize_few(
    ("kind", "at_once"), by_tier([*((kind, 100) for kind in KINDS), (KINDS[2], 10**7)], KINDS, [100, 10**7])
)
def test_the_scores_of_the_model_are_those_of_brute_force(kind, at_once, monkeypatch):
    likelihood, by = kind
    monkeypatch.setattr(evaluation, "_NUMBERS_AT_ONCE", at_once)
    post = split_posterior(likelihood, by)
    test, model = post.held_out, post.evaluate().table.loc["model"]
    cells, y, k = tuple(test.coords), test.counts, np.arange(3000)
    given = frozen(post)
    density = given.pmf(y_everywhere(test)).mean(axis=0)[cells]
    means = given.mean().mean(axis=0)[cells]
    rates, p = dense(post)
    rates = rates[(slice(None), *cells)]
    if likelihood == "bernoulli":
        cdf = np.stack([np.exp(-rates).mean(axis=0), *[np.ones(len(y))] * (len(k) - 1)])
    else:
        law = stats.poisson(rates) if likelihood == "poisson" else stats.nbinom(rates, 1 - p[(slice(None), *cells)])
        cdf = np.stack([law.cdf(each).mean(axis=0) for each in k])
    crps = ((cdf - (y <= k[:, None])) ** 2).sum(axis=0)
    assert model["log_ppd"] == pytest.approx(np.log(density).mean(), rel=1e-8)
    assert model["log_ppd_positive"] == pytest.approx(np.log(density)[y > 0].mean(), rel=1e-8)
    assert model["log_ppd_zero"] == pytest.approx(np.log(density)[y == 0].mean(), rel=1e-8)
    assert model["mae"] == pytest.approx(np.abs(y - means).mean(), rel=1e-8)
    assert model["crps"] == pytest.approx(crps.mean(), rel=1e-7)
    deviance = mean_poisson_deviance(y, means)
    assert model["kl"] == pytest.approx(deviance / 2, rel=1e-8)
    assert model["auc"] == pytest.approx(roc_auc_score(y > 0, 1 - cdf[0]), rel=1e-8)
    assert model["average_precision"] == pytest.approx(average_precision_score(y > 0, 1 - cdf[0]), rel=1e-8)
    below = np.where(y > 0, np.take_along_axis(cdf, np.maximum(y - 1, 0)[None], 0)[0], 0.0)
    up_to = np.take_along_axis(cdf, y[None], 0)[0]
    u = below + np.random.default_rng(evaluation._SEED).random(len(y)) * (up_to - below)
    busy = cdf[0] <= 0.5
    for level, low in ((50, 0.25), (90, 0.05)):
        hit = (low <= u) & (u <= 1 - low)
        assert model[f"coverage_{level}"] == pytest.approx(hit.mean())
        assert model[f"coverage_{level}_busy"] == pytest.approx(hit[busy].mean() if busy.any() else np.nan, nan_ok=True)


def y_everywhere(test):
    counts = np.zeros(SHAPE, dtype=int)
    counts[tuple(test.coords)] = test.counts
    return counts


def test_the_log_ppd_is_that_of_log_ppd_and_the_difference_that_of_the_columns():
    post = split_posterior("negative-binomial")
    table = post.evaluate().table
    assert list(table.index) == ["model", "one rate", "independence", "mean over when"]
    assert table["log_ppd"]["model"] == pytest.approx(post.log_ppd(post.held_out))
    np.testing.assert_allclose(table["behind"], table["log_ppd"]["model"] - table["log_ppd"])


def test_standard_errors_are_those_of_means_of_fibres():
    rng = np.random.default_rng(0)
    values, fibre = rng.normal(size=60), np.repeat(np.arange(12), 5)
    mean, error = clustered_mean(values, fibre + 7)
    by_fibre = values.reshape(12, 5).mean(axis=1)
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(by_fibre.std(ddof=1) / np.sqrt(12))
    assert clustered_mean(values, np.arange(60))[1] == pytest.approx(values.std(ddof=1) / np.sqrt(60))
    assert np.isnan(clustered_mean(values, np.zeros(60, dtype=int))[1])
    assert np.isnan(clustered_mean(values[:0], fibre[:0])).all()
    assert clustered_mean(np.array([-np.inf, 0.0]), np.arange(2))[0] == -np.inf


def test_standard_errors_cover_the_mean_where_cells_of_a_fibre_are_alike():
    """1,000 samples of fibres of different lengths; the share of means within two errors is 0.95, up to 0.03.

    Errors that take every cell for a fibre of its own cover much less.
    """
    rng, hits, by_cell = np.random.default_rng(1), 0, 0
    for _ in range(1000):
        lengths = rng.integers(1, 8, 80)
        fibre = np.repeat(np.arange(80), lengths)
        values = rng.normal(size=80)[fibre] + rng.normal(size=len(fibre))
        mean, error = clustered_mean(values, fibre)
        hits += abs(mean) < 2 * error
        by_cell += abs(mean) < 2 * clustered_mean(values, np.arange(len(values)))[1]
    assert hits / 1000 == pytest.approx(0.955, abs=0.03)
    assert by_cell / 1000 < 0.9


def test_the_errors_in_the_table_are_taken_over_the_held_out_fibres():
    post = split_posterior()
    test, table = post.held_out, post.evaluate().table
    log_density = post.log_predictive(test)
    fibre = np.unique(test.coords[[0, 2]], axis=1, return_inverse=True)[1].ravel()
    sums = np.bincount(fibre, log_density - log_density.mean())
    groups = len(sums)
    error = np.sqrt(groups / (groups - 1) * (sums**2).sum()) / len(test)
    assert table["log_ppd_se"]["model"] == pytest.approx(error)
    assert table.attrs["fibres"] == groups
    cells = post.evaluate(replace(test, along=None)).table
    assert cells["log_ppd_se"]["model"] == pytest.approx(log_density.std(ddof=1) / np.sqrt(len(test)))


# Calibration


def simulated(likelihood, seed=0, cells=20_000, draws=12):
    """Counts from the predictive distribution, every cell from a draw of its own, and their scores."""
    rng, kind = np.random.default_rng(seed), evaluation.mixture_scores
    rates_NS = np.exp(rng.normal(0.0, 1.5, cells))[:, None] * rng.gamma(3.0, 1 / 3, (cells, draws))
    table_RS = rng.normal(0.5, 0.3, (1, draws))
    from allocore.model.likelihood import LIKELIHOODS

    chosen = rng.integers(0, draws, cells)
    rate_N, log_odds_N = rates_NS[np.arange(cells), chosen], table_RS[0, chosen]
    counts_N = LIKELIHOODS[likelihood].draw(rate_N, log_odds_N, rng)
    with Workers(2) as workers:
        mixtures = Mixtures(rates_NS, np.zeros(cells, dtype=int), table_RS)
        return kind(LIKELIHOODS[likelihood], mixtures, counts_N, workers), rng.random(cells)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "bernoulli"])
def test_the_pit_of_counts_from_the_model_is_uniform_and_planted_bugs_are_found(likelihood):
    scores, v = simulated(likelihood)
    u = pit(scores, v)
    busy = scores.zero_N <= 0.5
    for chosen in (u, u[busy]):
        assert stats.kstest(chosen, "uniform").pvalue > 1e-4
    for level, low in ((0.5, 0.25), (0.9, 0.05)):
        hits = int(((low <= u) & (u <= 1 - low)).sum())
        assert stats.binomtest(hits, len(u), level).pvalue > 1e-4
    assert stats.kstest(pit(scores, np.ones(len(u))), "uniform").pvalue < 1e-10, "not randomised"
    late = scores._replace(below_N=scores.up_to_N)
    assert stats.kstest(pit(late, v), "uniform").pvalue < 1e-10, "F(y) for F(y - 1)"


def test_cells_are_scored_alike_in_any_order_and_on_any_number_of_threads():
    post = split_posterior("negative-binomial", 0)
    test, order = post.held_out, np.random.default_rng(0).permutation(len(post.held_out))
    coords = test.coords.astype(np.int64)
    first = score_cells(post.record, coords, test.counts, 1)
    other = score_cells(post.record, coords[:, order], test.counts[order], 2)
    for one, two in zip(first, other, strict=True):
        np.testing.assert_array_equal(one[order], two)


# Words


def test_the_answer_comes_first_and_says_better_or_worse():
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(3), np.ones((6, 5)))[:, :, None] * 9.0 + 0.01
    Y = ac.as_tensor(rng.poisson(np.broadcast_to(blocks, (18, 15, 12))))
    split = ac.hold_out(Y, 0.2, along=0, seed=0)
    settings = {"burn_in": 80, "draws": 20, "thin": 1, "chains": 1, "seed": 1, "threads": 2, "progress": False}
    good = ac.CP(4, likelihood="poisson", **settings).fit(split).posterior_
    found = good.evaluate()
    assert found.level == "good"
    assert found.sentences[0].startswith("Predicts clearly better than the best baseline (mean over mode_2): log PPD")
    assert "intervals-right" in [each.kind for each in found.findings]
    bad = Posterior(replace(good.record, core_values=good.core_values * 4.0), 1)
    found = bad.evaluate()
    assert found.level == "poor"
    assert found.sentences[0].startswith("Predicts clearly worse than the best baseline")
    same = Posterior(replace(good.record, core_values=good.core_values * 1e-12), 1).evaluate()
    assert same.level == "poor"


def test_a_finding_compares_the_ranking_with_the_best_baseline_at_it(monkeypatch):
    monkeypatch.setattr(evaluation, "_FEW_CELLS", 10)
    found = split_posterior(along=0).evaluate()
    (ranked,) = [each for each in found.findings if each.kind == "zeros-ranked"]
    own, others = found.table["auc"]["model"], found.table["auc"].drop("model")
    assert (ranked.values["auc"], ranked.values["baseline"], ranked.values["baseline_auc"]) == (
        own,
        others.idxmax(),
        others.max(),
    )
    assert (found.table["auc"]["one rate"], found.table["average_precision"]["one rate"]) == pytest.approx(
        (0.5, found.table.attrs["positive"] / found.table.attrs["cells"])
    )
    assert (found.table.filter(regex="^(kl|auc|average_precision)_se$").drop("one rate") > 0).all(axis=None)


def test_intervals_that_are_too_narrow_lead_to_the_negative_binomial():
    rng = np.random.default_rng(1)
    Y = ac.as_tensor(rng.negative_binomial(0.5, 0.02, (12, 12, 10)))
    split = ac.hold_out(Y, 0.2, along=0, seed=0)
    settings = {"burn_in": 60, "draws": 20, "thin": 1, "seed": 1, "threads": 2, "progress": False, "chains": 1}
    words = ac.CP(2, likelihood="poisson", **settings).fit(split).posterior_.evaluate().sentences
    assert any('too narrow; likelihood="negative-binomial"' in word for word in words)
    wide = ac.CP(2, likelihood="negative-binomial", **settings).fit(split).posterior_.evaluate()
    assert any("intervals can be trusted" in word for word in wide.sentences)


@pytest.mark.parametrize(("cells", "trusted"), [(60, True), (2_000, False)])
def test_few_cells_do_not_make_intervals_too_wide(cells, trusted):
    """96% of 60 counts in 90% intervals may be chance; of 2,000 it is not. The observed error is small in both."""
    table = split_posterior(along=0).evaluate().table
    table.attrs["busy"] = cells
    for level, share in ((50, 0.49), (90, 0.96)):
        table[f"coverage_{level}_busy"], table[f"coverage_{level}_busy_se"] = share, 0.01
    found = evaluation._intervals(table, split_posterior(along=0).record)
    assert found.kind == ("intervals-right" if trusted else "intervals-wide")
    assert found.level == ("good" if trusted else "caution")


def test_few_counts_and_baselines_that_do_not_exist_are_told():
    words = split_posterior(along=2).evaluate().sentences
    assert (
        "There is no baseline 'mean over when': the held-out fibres run along it, so nothing of them was observed."
        in words
    )
    assert any(word.startswith("Few of these cells are positive (") and "hold out more" in word for word in words)


def test_a_model_that_rules_a_count_out_is_poor():
    counts = np.random.default_rng(0).poisson(2.0, (6, 5, 4))
    split = ac.hold_out(ac.as_tensor(counts), 0.3, along=1, seed=1)
    post = ac.NNTuck((1, 1, 1), restarts=1, max_iter=5, seed=1, progress=False).fit(split).posterior_
    assert post.evaluate().level in ("good", "caution", "poor")
    zero = tuple(np.where(np.arange(len(each[0, 0]))[:, None] == 0, 0.0, each) for each in post.record.factors)
    found = Posterior(replace(post.record, factors=zero), 1).evaluate()
    assert found.table["log_ppd"]["model"] == -np.inf
    assert found.level == "poor"
    assert found.findings[0].kind == "evaluation-impossible"


# What may be scored


def test_the_runs_own_hold_out_is_scored_once_and_the_result_cannot_be_spoilt(monkeypatch):
    post = split_posterior()
    first = post.evaluate().table
    first.loc["model", "log_ppd"] = 7.0
    monkeypatch.setattr(evaluation, "score_cells", None)
    again = post.evaluate().table
    assert again["log_ppd"]["model"] < 0


def test_a_posterior_without_a_hold_out_says_how_to_get_one():
    with refused("test", rule="held-out cells"):
        posterior_with("poisson").evaluate()


def test_tests_of_all_kinds_are_taken():
    post = split_posterior()
    test, own = post.held_out, post.evaluate().table
    loose = post.evaluate(SimpleNamespace(coords=test.coords, counts=test.counts)).table
    np.testing.assert_allclose(loose["crps"], own["crps"])
    names, labels = LABELS
    frame = pd.DataFrame(
        {
            name: np.array(each, dtype=object)[place]
            for name, each, place in zip(names, labels, test.coords, strict=True)
        }
    )
    for counts in (test.counts, test.counts.astype(str)):
        table = post.evaluate(frame.assign(count=counts)).table
        np.testing.assert_allclose(table["log_ppd"], own["log_ppd"])
    everything = ac.CountTensor(test.coords[:, test.counts > 0], test.counts[test.counts > 0], SHAPE)
    rest = ac.Missing(
        np.argwhere(~post.tensor.missing.contains(np.indices(SHAPE).reshape(3, -1)).reshape(SHAPE)), SHAPE
    )
    table = post.evaluate(everything.with_missing(rest)).table
    np.testing.assert_allclose(table["log_ppd"], own["log_ppd"])


def test_what_cannot_be_scored_is_refused():
    post = split_posterior()
    names, labels = LABELS
    seen = SimpleNamespace(coords=post.tensor.coords[:, :2], counts=post.tensor.counts[:2])
    cell = dict(
        zip(names, (each[place] for each, place in zip(labels, post.held_out.coords[:, 0], strict=True)), strict=True)
    )
    frame = pd.DataFrame([cell])
    for test, message in [
        (seen, r"^test .*the model was fitted to 2 of its 2 cells"),
        (ac.hold_out(post.tensor, 0.1, seed=1), r"^test is a Split, .*pass split\.test"),
        (SimpleNamespace(coords=np.empty((3, 0), dtype=int), counts=[]), r"^test is a set of 0 cells"),
        (SimpleNamespace(coords=[[0], [0], [0]], counts=[-1]), r"^counts is an array with -1"),
        (SimpleNamespace(coords=[[0], [0], [0]], counts=[1, 2]), r"^counts is an array of shape \(2,\)"),
        (SimpleNamespace(coords=[[9], [0], [0]], counts=[1]), r"coords is 9 in mode 0"),
        (frame, r"^test .*must have a column 'count'"),
        (
            frame.assign(count=1.5),
            r"^test is .*1\.5.* in the column 'count' at position 0, but it must have counts that are whole",
        ),
        (frame.assign(count="x"), r"^test is 'x' in the column 'count'"),
        (frame.drop(columns="who").assign(count=1), r"^cells .*'count', which is not a mode"),
        (frame.assign(who=None, count=1), r"^test .*position 0 does not"),
        (pd.concat([frame, frame]).assign(count=1), r"^test .*position 1 is there twice"),
        (42, r"test is a int, but it must have coords and counts"),
    ]:
        with pytest.raises(InputError, match=message):
            post.evaluate(test)
    assert post.evaluate(seen, allow_training=True).table.shape[0] == 4


def test_chains_that_are_left_out_do_not_count():
    post = split_posterior()
    alone = post.select_chains([1])
    assert alone.held_out == post.held_out
    assert alone.evaluate().table["log_ppd"]["model"] == pytest.approx(alone.log_ppd(post.held_out))
    assert alone.evaluate().table["log_ppd"]["model"] != post.evaluate().table["log_ppd"]["model"]


def test_a_glance_scores_some_fibres_by_some_draws(monkeypatch):
    post = split_posterior(draws=40)
    monkeypatch.setattr(evaluation, "_GLANCE", 20 * (len(post.held_out) // 2))
    found = evaluation.evaluate_some(post.record, post.held_out, 1)
    assert found.table.attrs["draws"] == 20
    assert 0 < found.table.attrs["cells"] < len(post.held_out)


def test_very_many_cells_are_judged_in_brief_by_some_of_the_draws(monkeypatch):
    post = split_posterior(draws=40)
    monkeypatch.setattr(evaluation, "_BRIEF", 100)
    found = evaluate(post.record, post.held_out, 1, brief=True)
    assert found.table.attrs["draws"] == 20
    assert "Judged by 20 of the 80 draws; post.evaluate() takes all of them." in found.sentences
    assert post.evaluate(brief=True).table.attrs["draws"] == 20
    assert post.evaluate().table.attrs["draws"] == 80
    assert post.evaluate(brief=True).table.attrs["draws"] == 80, "what is known in full is not made in brief"


@pytest.mark.parametrize(
    "model", [ac.AlloCore(3), ac.CP(2), ac.Tucker((2, 1, 2)), ac.NNTuck((2, 1, 2), restarts=1, max_iter=5)]
)
def test_every_model_takes_a_split_and_keeps_what_was_held_out(model):
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(0).poisson(2.0, SHAPE)), 0.2, along=0, seed=1)
    quick = {name: value for name, value in QUICK.items() if name in model.get_params()}
    post = model.set_params(**quick).fit(split).posterior_
    alone = type(model)(**model.get_params()).fit(split.train).posterior_
    np.testing.assert_array_equal(post.core_values, alone.core_values)
    assert alone.held_out is None
    assert post.held_out == split.test
    assert pickle.loads(pickle.dumps(post)).held_out.along == 0
    assert post.evaluate().table.attrs["cells"] == len(split.test)


def test_a_split_put_together_by_hand_is_checked():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(2.0, SHAPE))
    split = ac.hold_out(Y, 0.2, along=0, seed=1)
    other = ac.hold_out(Y, 0.2, along=0, seed=2).test
    for test, argument in [
        (other, "test"),
        (None, "test"),
        (replace(split.test, shape=(9, 9, 9), labels=None), "test"),
    ]:
        with refused(argument):
            ac.CP(2, **QUICK).fit(ac.Split(split.train, test))


def test_cells_that_cannot_judge_a_model_get_no_verdict():
    post = split_posterior(along=0)
    test = post.held_out
    positive, few = test.positive, ac.HeldOut(test.coords[:, :2], test.counts[:2], along=test.along)
    only_counts = ac.HeldOut(np.tile(positive.coords, 9)[:, :40], np.tile(positive.counts, 9)[:40])
    for given, told in ((only_counts, "All these cells have counts"), (few, "2 cells are too few to judge by.")):
        found = post.evaluate(given)
        assert found.level == "caution"
        assert found.sentences[0].startswith(told)
        assert not any(each.kind.startswith("intervals") for each in found.findings)
    assert any(word.startswith("Standard errors are over cells") for word in post.evaluate(only_counts).sentences)
    assert not any(word.startswith("Standard errors") for word in post.evaluate().sentences)


def test_small_scores_and_errors_are_not_printed_as_zero():
    scores = ("log_ppd", "log_ppd_positive", "log_ppd_zero", "mae", "crps", "kl", "auc", "average_precision")
    names = [*scores, *(f"{name}_se" for name in scores)]
    names += ["coverage_50", "coverage_90", "coverage_50_busy", "coverage_90_busy"]
    known = {"log_ppd": -3.21e-5, "mae": 4.5e-5, "mae_se": 1.2e-6, "crps": 0.0, "crps_se": 0.0}
    row = dict.fromkeys(names, np.nan) | known
    ((_, log_ppd, _, _, mae, crps, *_),) = score_rows(pd.DataFrame([row], index=["model"]))
    assert (log_ppd, mae, crps) == ("-3.21e-05", "0.0000450 \u00b1 0.0000012", "0")

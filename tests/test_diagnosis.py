"""Three questions about a run: every light is reached, and advice is such that it can change the light."""

import io
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import allocore as ac
from allocore.classes.reproducibility import Reproducibility
from allocore.diagnosis import classes_answer, fit_answer, predictions_answer
from allocore.findings import Finding
from allocore.posterior.check import Check
from allocore.posterior.convergence import PredictiveError
from allocore.posterior.evaluate import Evaluation
from allocore.report.terminal import class_report, run_report
from allocore.results import Posterior
from support.planted import A, B, C, D, steady_run
from support.random_posterior import SHAPE, over_and_over, random_posterior, settled
from support.tiers import parametrize_few


def kinds(answer):
    return [each.kind for each in answer.findings]


# Predictions


def on_predictions(record, nats=0.01, *, equal=False):
    error = None if nats is None else PredictiveError(nats, 100, True)
    return predictions_answer(record, error, equal=equal)


@pytest.mark.parametrize(
    ("nats", "level"),
    [(0.0, "good"), (0.05, "good"), (0.051, "caution"), (0.2, "caution"), (0.21, "poor"), (math.inf, "poor")],
)
def test_predictions_are_judged_by_their_error(nats, level):
    answer = on_predictions(settled().record, nats)
    assert (answer.level, answer.value) == (level, nats)
    assert answer.findings[0].kind == "predictive-error"
    assert kinds(answer)[1:] == ([] if level == "good" else ["more-chains"])
    assert all(answer.sentences)


def test_the_advised_chains_are_as_many_as_the_error_asks_for_within_reason():
    wanted = [on_predictions(settled().record, nats).findings[1].values["chains"] for nats in (0.1, 0.15, 9.0)]
    assert wanted == [16, 36, 64]


def test_chains_that_drift_make_predictions_poor_and_longer_chains_are_advised():
    trace = settled().stats["log_likelihood"].copy()
    trace[:, 125:] += 20.0
    answer = on_predictions(settled(stats={"log_likelihood": trace}).record)
    assert (answer.level, kinds(answer)) == ("poor", ["drift", "more-sweeps"])
    assert answer.findings[1].values["sweeps"] == 2 * settled().record.schedule.sweeps


def test_equal_draws_make_predictions_poor():
    assert on_predictions(settled().record, 0.0, equal=True).level == "poor"


def test_one_chain_or_too_few_draws_are_a_caution_with_advice_that_ends_it():
    one, few = (
        on_predictions(random_posterior(chains=1).record, math.nan),
        on_predictions(random_posterior(draws=3).record, 9.0),
    )
    assert (one.level, kinds(one)) == ("caution", ["predictions-one-chain", "more-chains"])
    assert one.findings[1].values["chains"] == 4
    assert (few.level, kinds(few)) == ("caution", ["predictions-few-draws", "more-draws"])
    assert few.findings[1].values["draws"] == 4


def test_advice_never_asks_for_less_than_is_planned():
    record = replace(random_posterior(draws=3).record, planned_chains=32)
    planned = replace(record, schedule=replace(record.schedule, draws=100))
    assert on_predictions(planned).findings[1].values["draws"] == 100
    assert classes_answer(planned, None).findings[1].values["chains"] == 32


def test_the_error_is_not_known_if_the_cells_are_on_disk_or_none_can_be_scored():
    on_disk, impossible = (on_predictions(settled().record, nats) for nats in (None, math.nan))
    assert [(each.level, each.findings[0].values["why"]) for each in (on_disk, impossible)] == [
        ("caution", "on-disk"),
        ("caution", "no-counts"),
    ]
    assert [kinds(each)[1:] for each in (on_disk, impossible)] == [["hold-out-cells"], []]


# Classes


def halves(*by_size, classes=3):
    """How sets of 2, 4, .. chains agree."""
    sizes = [2 ** (n + 1) for n in range(len(by_size))]
    table = pd.DataFrame({"chains": sizes, "agreement": by_size, "sd": 0.0, "covered": 1.0})
    return Reproducibility(by_size[-1], table, np.linspace(1.0, 0.5, classes))


@pytest.mark.parametrize(
    ("agreement", "level"), [(1.0, "good"), (0.85, "good"), (0.84, "caution"), (0.6, "caution"), (0.59, "poor")]
)
def test_classes_are_judged_by_the_agreement_of_halves(agreement, level):
    answer = classes_answer(settled().record, halves(agreement))
    assert (answer.level, answer.value) == (level, agreement)
    assert kinds(answer) == ["classes-found-again", *(["more-chains"] if level != "good" else []), "classes-sure"]
    assert answer.findings[-1].values["sure"] == 1


def test_more_chains_are_advised_while_they_help_and_fewer_classes_after_that():
    record = settled().record
    assert kinds(classes_answer(record, halves(0.4, 0.5)))[1] == "more-chains"
    stuck = classes_answer(record, halves(0.2, 0.5, 0.51)).findings[1]
    assert (stuck.kind, stuck.values["setting"]) == ("fewer-classes", "budget")
    cp = classes_answer(settled(learned=False).record, halves(0.5, 0.4)).findings[1]
    assert cp.values["setting"] == "rank"
    inferred = replace(record, spec=replace(record.spec, infer_budget=True))
    assert classes_answer(inferred, halves(0.5, 0.4)).findings[1].values["setting"] == "max_budget"


def test_fewer_than_four_chains_cannot_say_and_sixteen_are_advised():
    answer = classes_answer(random_posterior(chains=3).record, None)
    assert (answer.level, kinds(answer)) == ("caution", ["classes-few-chains", "more-chains"])
    assert math.isnan(answer.value)
    assert answer.findings[1].values["chains"] == 16


@pytest.mark.parametrize(
    ("chains", "classes", "level"),
    [([[A]] * 4, 1, "good"), ([[A, B, C]] * 4, 3, "good"), ([[A], [B], [C], [D]], 0, "poor")],
)
def test_one_class_and_no_class_are_judged_too(chains, classes, level):
    found = steady_run(*chains).diagnose()
    assert (found.classes.level, len(found.reproducibility.found_again)) == (level, classes)
    assert found.classes.value == found.reproducibility.agreement
    assert all(found.classes.sentences)


# Fit


def checked(off=(), modes=(), level="good", **findings):
    """A check of three statistics and one mode."""
    names = ["total", "non-zero cells", "largest count", "labels of who outside 90%"]
    table = pd.DataFrame(1.0, index=names, columns=["observed", "expected", "low", "high", "p_value", "p_adjusted"])
    known = {"statistics": 3, "labels": 5, "tensors": 40}
    first = Finding("check-off", level, {**known, "off": off, "modes": modes}) if off or modes else None
    others = [Finding(f"check-{kind}", values=values) for kind, values in findings.items()]
    simulated = pd.DataFrame(np.zeros((40, 4)), columns=names)
    return Check(
        table, pd.DataFrame(), {"who": 1.0}, (first or Finding("check-good", "good", known), *others), simulated
    )


def scored(kind, level, **values):
    """An evaluation that found this about intervals."""
    coverage = {"busy": None, "half": 0.5, "most": 0.9, **values}
    findings = Finding("errors-over-cells"), Finding(kind, level, coverage)
    return Evaluation(pd.DataFrame(), findings, np.empty(0), np.empty(0, dtype=bool), np.empty(0, dtype=int))


RIGHT = scored("intervals-right", "good")
NARROW = scored("intervals-narrow", "caution", remedy="negative-binomial")


@pytest.mark.parametrize(
    ("check", "evaluation", "level", "value", "expected"),
    [
        (checked(), None, "good", 1.0, ["fit-good"]),
        (checked(), RIGHT, "good", 1.0, ["fit-good", "intervals-right"]),
        (checked(), NARROW, "caution", 1.0, ["fit-intervals-off", "intervals-narrow"]),
        (checked(("largest count",), level="caution"), RIGHT, "caution", 0.75, ["fit-off", "intervals-right"]),
        (checked((), ("who",), "caution"), None, "caution", 0.75, ["fit-off"]),
        (checked(("total",), ("who",), "poor"), None, "poor", 0.5, ["fit-off"]),
        (None, None, "caution", math.nan, ["fit-not-checked"]),
        (None, NARROW, "caution", math.nan, ["fit-not-checked", "intervals-narrow"]),
    ],
)
def test_the_fit_is_judged_by_the_check_and_by_intervals_of_held_out_counts(check, evaluation, level, value, expected):
    answer = fit_answer(settled().record, check, evaluation)
    assert (answer.level, kinds(answer)) == (level, expected)
    assert answer.value == pytest.approx(value, nan_ok=True)
    assert all(answer.sentences)


def test_the_negative_binomial_is_advised_once_if_counts_come_in_bursts():
    bursts = checked(("non-zero cells",), level="poor", bursts={"has_priors": True})
    assert kinds(fit_answer(settled().record, bursts, RIGHT)) == ["fit-off", "intervals-right", "check-bursts"]
    assert kinds(fit_answer(settled().record, bursts, NARROW)) == ["fit-off", "intervals-narrow"]


def test_a_larger_check_replaces_a_brief_one():
    post = random_posterior()
    brief = post.diagnose()
    larger = post.check(draws=60)
    assert post.diagnose().fit.findings[0].values["tensors"] == len(larger.simulated) == 60
    assert post.diagnose().table is brief.table, "the rest is not computed again"


def test_held_out_cells_that_are_scored_for_a_diagnosis_are_not_scored_again(monkeypatch):
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE)), 0.3, seed=0)
    post = random_posterior(tensor=split.train, held_out=split.test)
    post.diagnose()
    monkeypatch.setattr("allocore.posterior.evaluate.evaluate", None)
    assert len(post.evaluate().pit_N) == len(split.test)


# The whole


def test_the_light_of_a_run_is_the_worst_of_the_three():
    found = steady_run(*[[A, B]] * 4).diagnose()
    good = replace(found.fit, level="good")
    for levels, worst in [("good good good", "good"), ("good caution good", "caution"), ("caution good poor", "poor")]:
        one, two, three = (replace(good, level=level) for level in levels.split())
        of_three = replace(found, predictions=one, classes=two, fit=three)
        assert (of_three.level, of_three.ok) == (worst, worst == "good")


def test_all_draws_equal_are_found_in_the_draws():
    stats = {name: values[:, :1].repeat(20, axis=1) for name, values in random_posterior(chains=2).stats.items()}
    stats = {name: np.broadcast_to(values[:1], values.shape).copy() for name, values in stats.items()}
    found = random_posterior(chains=2, draws=20, burn_in=0, thin=1, stats=stats, **over_and_over(2, 20)).diagnose()
    assert (found.predictions.level, kinds(found.predictions)) == ("poor", ["equal-draws"])
    assert found.predictions.value == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def judged():
    """A posterior with labels that need escaping, and its diagnosis."""
    tensor = random_posterior().tensor.with_labels({"<i>who": ["<b>", *"vwxy"]}, ["<i>who", "what", "when"])
    post = random_posterior(tensor=tensor)
    return post, post.diagnose()


def test_a_diagnosis_prints_three_answers_then_the_table_then_the_details(judged):
    _, found = judged
    lines = str(found).splitlines()
    for line, answer in zip(lines, found.answers, strict=False):
        assert line == f"{answer.level.capitalize()}: {answer.question} {' '.join(answer.sentences)}"
    assert lines[4].split()[:4] == ["mean", "sd", "r_hat", "nested_r_hat"]
    assert lines[-len(found.details) :] == list(found.sentences[-len(found.details) :])


def test_a_notebook_shows_the_same_and_escapes_labels(judged):
    _, found = judged
    html = found._repr_html_()
    assert html.index(found.predictions.question) < html.index(found.fit.question) < html.index("<table")
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;i&gt;who factors" in html


def test_the_terminal_shows_the_answers_before_tables_and_with_the_classes(judged):
    post, found = judged
    for report in (class_report(post), run_report(post, being_written=False)):
        screen = io.StringIO()
        Console(file=screen, width=2000).print(report)
        for answer in found.answers:
            assert f"{answer.level.capitalize()}: {answer.question} {answer.sentence}" in screen.getvalue()


# Fitted models


@parametrize_few("model", [ac.AlloCore(3), ac.CP(2), ac.Tucker((2, 1, 2))], ids=repr)
@parametrize_few(("chains", "draws"), [(1, 1), (4, 4), (2, 1), (3, 10)])
def test_every_model_can_be_diagnosed(model, chains, draws):
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE)).with_missing([(0, 0, None), (None, 3, 2)])
    model.set_params(burn_in=1, draws=draws, thin=1, chains=chains, seed=1, progress=False)
    found = model.fit(Y).posterior_.diagnose()
    shares = found.table.index.str.startswith("share of class")
    assert (~shares).sum() == 19
    assert shares.any() == (draws >= 4), "R-hat needs four draws"
    assert (found.reproducibility is None) == (chains < 4)
    assert math.isnan(found.predictions.value) == (chains == 1)
    assert np.isfinite(found.fit.value)
    assert all(found.sentences)
    assert math.isnan(found.move_rate) == (not isinstance(model, ac.AlloCore))


def test_maximum_likelihood_has_no_draws_to_judge():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE))
    found = ac.NNTuck((2, 1, 2), restarts=1, max_iter=5, seed=0).fit(Y).posterior_.diagnose()
    assert [each.findings[0].kind for each in found.answers[:2]] == ["predictions-no-draws", "classes-no-draws"]
    assert found.table.empty
    assert np.isfinite(found.fit.value)


def test_new_rows_have_the_classes_of_their_fit_and_advice_says_to_fold_in_again():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, SHAPE))
    fitted = ac.CP(2, burn_in=1, draws=2, thin=1, chains=4, seed=1, progress=False).fit(Y).posterior_
    new = ac.as_tensor(np.random.default_rng(1).poisson(1.0, (*SHAPE[:2], 1)))
    folded = fitted.fold_in(new, progress=False)
    found = folded.diagnose()
    assert found.reproducibility.table is fitted.reproducibility().table
    assert found.predictions.findings[1].values["folded"]
    alone = Posterior(folded.record).diagnose()
    assert alone.classes.value == pytest.approx(alone.reproducibility.agreement)


@pytest.mark.slow
@pytest.mark.parametrize(
    "size",
    [
        {"burn_in": 30, "draws": 2, "thin": 1, "chains": 4},
        {"sweeps": 16, "chains": 8},
        {"sweeps": 100, "chains": 1},
    ],
    ids=["few draws", "short", "one chain"],
)
@pytest.mark.parametrize("data", ["flights", "simulated"])
def test_advice_that_is_followed_turns_the_lights_green(tmp_path, data, size):
    rng, path = np.random.default_rng(0), tmp_path / "run.zarr"
    who, what, when = (rng.dirichlet(np.full(length, 0.3), size=4).T for length in (12, 10, 8))
    simulated = ac.as_tensor(rng.poisson(375.0 * np.einsum("iq,jq,kq->ijk", who, what, when)))
    budget, Y = (10, ac.load_flights()) if data == "flights" else (4, simulated)
    post = ac.AlloCore(budget, **size, seed=2, progress=False, store=path).fit(Y).posterior_
    for _ in range(5):
        found = post.diagnose()
        advice = [each for each in found.findings if each.kind in ("more-draws", "more-sweeps", "more-chains")]
        if not advice:
            break
        what_to_raise = advice[0].kind.removeprefix("more-")
        number = advice[0].values[what_to_raise]
        post = ac.AlloCore.resume(path, **{what_to_raise: number}, progress=False).posterior_
    assert (found.predictions.level, found.classes.level) == ("good", "good")

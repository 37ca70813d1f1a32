"""What the page is told: shares, who shares what, few numbers for long modes, and text that cannot break out."""

import base64
import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.classes.names import perhaps_sharers
from allocore.findings import sentences
from allocore.report.page.page import default_title, render
from allocore.report.page.payload import payload
from allocore.results import Posterior
from allocore.tensor.calendar import period_start
from support import forecast_cases
from support.errors import refused
from support.handmade_posterior import (
    CLASSES,
    COUNTRIES,
    FACTORS,
    MONTHS,
    NAMES,
    VALUES,
    large_posterior,
    posterior,
    with_likelihood,
)
from support.shown_posteriors import chains_apart, iso_week_posterior, showing, varied_posterior

WICKED = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'&<b>",
    "שלום",
    "🦊 {{data}}",
    "\u2028",
)


def unpacked(text, kind):
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def shares(mode):
    """The columns of a mode, one row each."""
    return unpacked(mode["shares"], "<f4").reshape(len(mode["even"]), -1)


def ends(mode):
    """The lower and the upper ends of the intervals, as the page reads them."""
    unit = np.array(mode["intervals"]["highest"])[:, None] / 65535
    return [unit * unpacked(mode["intervals"][end], "<u2").reshape(len(mode["even"]), -1) for end in ("low", "high")]


def factor_shares(mode):
    return shares(mode)[[factor["column"] for factor in mode["factors"]]]


def told(draw=None, **changes):
    return payload(posterior(**changes), "Title", draw=draw)


def in_page(page):
    """The data as a browser reads them from the page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_classes_of_a_draw_come_largest_first_with_their_shares_and_factors():
    found = told(draw="best")
    assert found["consensus"] is False
    assert [one["share"] for one in found["classes"]] == pytest.approx([value / sum(VALUES) for value in VALUES])
    for one, location in zip(found["classes"], CLASSES, strict=True):
        numbers = [mode["factors"][place]["number"] for mode, place in zip(found["modes"], one["factors"], strict=True)]
        assert tuple(numbers) == location


def test_factors_carry_their_shares_their_classes_and_what_these_hold():
    sender = told()["modes"][0]
    assert sender["factors"][0]["classes"] == (0, 1, 3)
    assert sender["factors"][0]["mass"] == pytest.approx(0.8)
    assert factor_shares(sender) == pytest.approx(np.array(FACTORS[0]), abs=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_classes_carry_the_profiles_the_intervals_and_the_support_of_the_consensus(masked):
    post = varied_posterior(masked=masked)
    found, summary = payload(post, "Title"), post.class_summary()
    assert found["consensus"] is True
    assert found["source"] == "consensus of 2 chains, 8 draws"
    for place, one in enumerate(found["classes"]):
        assert one["name"] == summary.names[place]
        assert [one["low"], one["high"]] == pytest.approx(summary.interval_C2[place], rel=1e-5)
        assert (one["inDraws"], one["support"], one["apart"]) == (1.0, "in 2 of 2 chains, 100% of draws", False)
        for m, mode in enumerate(found["modes"]):
            profile, column = summary.profile(place, m), one["profiles"][m]
            low, high = (end[column] for end in ends(mode))
            assert shares(mode)[column] == pytest.approx(profile.share_D, abs=1e-6)
            assert low == pytest.approx(profile.low_D, abs=1e-5)
            assert high == pytest.approx(profile.high_D, abs=1e-5)


def test_columns_that_are_the_same_are_told_once():
    """Without missing cells the profile of a class in a draw is its factor, up to rounding."""
    mode = told(draw="best")["modes"][0]
    assert len(mode["even"]) == len(mode["factors"]) == 2
    masked = payload(varied_posterior(masked=True), "Title")["modes"][0]
    assert len(masked["even"]) > len(masked["factors"])


def test_the_probability_of_sharing_is_told_in_percent_for_every_two_classes():
    post = varied_posterior()
    sharing = tuple(np.array(each) for each in post.class_summary().sharing)
    sharing[0][0, 3] = sharing[0][3, 0] = 0.624
    found = payload(showing(post, sharing=sharing), "Title")
    percent = unpacked(found["modes"][0]["sharing"], "u1")
    assert percent.tolist() == [100, 0, 62, 0, 100, 0], "0 with 1, 2, 3; 1 with 2, 3; 2 with 3"
    assert told(draw="best")["modes"][0]["sharing"] is None


def test_the_top_cells_of_every_class_are_those_of_the_posterior():
    post = varied_posterior(masked=True)
    found = payload(post, "Title")["cells"]
    assert found["modes"] == [0, 1, 2], "time is summed over"
    for number, cells in enumerate(found["ofClass"]):
        table = post.top_cells(number, top=6)
        named = [tuple(found["labels"][n][place] for n, place in enumerate(cell[:3])) for cell in cells]
        assert named == list(zip(*(table[name] for name in NAMES[:3]), strict=True))
        assert [cell[3:5] for cell in cells] == [
            pytest.approx(row, rel=1e-5) for row in table[["of_class", "expected"]].to_numpy().tolist()
        ]
        assert [cell[5] for cell in cells] == table["observed"].tolist()


def test_modes_may_be_called_as_the_columns_of_a_table_of_cells():
    found = told(names=("expected", "observed", "of_class", "time"))
    assert found["cells"] == told()["cells"]


@pytest.mark.parametrize(
    ("draw", "chain", "source"),
    [
        (None, None, "consensus of 2 chains, 8 draws"),
        (1, 1, "draw 1 of chain 1"),
        (-2, None, "draw 2 of chain 0"),
        ("best", 0, "of chain 0"),
    ],
)
def test_what_is_shown_is_named(draw, chain, source):
    assert source in payload(varied_posterior(), "Title", draw=draw, chain=chain)["source"]


def test_chains_without_a_class_in_common_have_a_page_without_classes():
    found = payload(chains_apart(), "Title")
    assert found["summary"] == "The chains have no class in common."
    assert found["classes"] == found["cells"]["ofClass"] == []
    in_page(render(found))


def test_modes_are_known_for_what_their_labels_are():
    modes = told()["modes"]
    assert [mode["kind"] for mode in modes] == ["country", "country", "plain", "time"]
    assert modes[0]["iso"] == ["FRA", "IRQ", "SGP", "USA", "ZMB"]
    assert modes[2]["iso"] is None
    assert modes[3]["labels"] == list(MONTHS)
    assert modes[3]["peaks"][0] == [("2003-03 to 2003-04", pytest.approx(0.9))]
    assert modes[0]["peaks"] is None


@pytest.mark.slow
def test_the_page_of_the_largest_runs_is_below_six_and_a_half_megabytes():
    """Every class has its own profile, factor, interval and community in every mode, and shares with all others."""
    labels = [[f"Country number {n}" for n in range(225)]] * 2 + [None, None]
    post = large_posterior(labels=labels)
    summary, rng = post.class_summary(), np.random.default_rng(0)
    jittered = tuple(
        tuple(
            replace(each, share_D=share_D, low_D=0.9 * share_D, high_D=1.1 * share_D)
            for each in of_mode
            for share_D in [each.share_D * rng.uniform(0.9, 1.1, len(each.share_D))]
        )
        for of_mode in summary.profiles
    )
    factors = tuple(
        {number: replace(each, low_D=each.share_D, high_D=each.share_D) for number, each in of_mode.items()}
        for of_mode in summary.factors
    )
    sharing = (np.full((400, 400), 0.5),) * 4
    shown = showing(post, profiles=jittered, factors=factors, sharing=sharing)
    page = render(payload(shown, "Large"))
    assert len(page.encode()) < 6.5e6
    assert shares(in_page(page)["modes"][0]).shape == (800, 225)


def test_of_a_very_long_mode_the_heaviest_labels_are_told_and_the_page_stays_small(long_posterior, long_payload):
    found = long_payload
    mode = found["modes"][0]
    assert mode["length"] == 100_000
    rows = unpacked(mode["rows"], "<u4").reshape(len(mode["even"]), -1)
    whole = long_posterior.class_summary("best").profile(0, 0)
    place = found["classes"][0]["profiles"][0]
    named = [mode["labels"][row] for row in rows[place]]
    assert named == [long_posterior.tensor.labels[0][row] for row in whole.heaviest[: rows.shape[1]]]
    assert shares(mode)[place] == pytest.approx(whole.share_D[whole.heaviest[: rows.shape[1]]], abs=1e-6)
    assert len(render(found).encode()) < 6e6


def test_labels_and_titles_never_leave_the_place_they_are_put_in():
    labels = (COUNTRIES, COUNTRIES, WICKED[:3], MONTHS)
    page = render(payload(posterior(labels=labels), "</title><script>alert(2)</script>"))
    assert "alert(1)" not in re.sub(r'<script type="application/json" id="data">.*?</script>', "", page, flags=re.S)
    assert "<script>alert" not in page
    assert in_page(page)["modes"][2]["labels"] == list(WICKED[:3])


@pytest.mark.parametrize("text", WICKED)
def test_any_text_comes_through_as_it_is(text):
    names = ("sender", "receiver", text, "time")
    page = render(payload(posterior(names=names), text))
    found = in_page(page)
    assert found["title"] == text
    assert found["modes"][2]["name"] == text


def test_the_page_forbids_itself_the_network():
    page = render(told())
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(https?:)?//', page)


def test_the_map_is_in_the_page_only_where_a_mode_has_countries():
    plain = render(payload(posterior(labels=None, names=None), "Plain"))
    assert len(render(told())) - len(plain) > 200_000
    assert '<script type="application/json" id="world">null</script>' in plain


def test_numbers_that_are_not_finite_do_not_break_the_page():
    found = told(draws=1)
    assert found["classes"][0]["inDraws"] is None
    assert found["classes"][0]["low"] is None
    in_page(render(found))


def test_a_report_replaces_another_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "report.html"
    for title in ("First", "Second"):
        assert ac.write_report(posterior(), path, title=title, surprises=2) == path
        assert f"<title>{title}</title>" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(("argument", "value"), [("surprises", -1), ("draw", 9), ("chain", 4)])
def test_what_cannot_be_shown_is_refused_and_nothing_is_written(tmp_path, argument, value):
    with refused(argument, value):
        ac.write_report(posterior(), tmp_path / "report.html", **{argument: value})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_a_page(tmp_path):
    with refused("path", str(tmp_path), rule="not a folder"):
        ac.write_report(posterior(), tmp_path)


def test_a_run_without_draws_has_no_page(tmp_path):
    with refused("run"):
        ac.write_report(posterior(draws=0), tmp_path / "report.html")


def test_the_health_of_the_chains_is_that_of_the_diagnosis():
    post = posterior(chains=4, draws=9)
    found, health = post.diagnose(), payload(post, "Title")["health"]
    assert health["level"] == found.level
    assert [(each["question"], each["level"], each["value"], each["words"]) for each in health["answers"]] == [
        (each.question, each.level, pytest.approx(each.value, rel=1e-5), each.sentences) for each in found.answers
    ]
    assert health["words"] == sentences(found.details)
    assert health["rows"][0][0] == "log-likelihood"


def test_what_is_not_known_of_the_chains_is_none():
    few = told(draws=2)["health"]
    assert [each["value"] for each in few["answers"][:2]] == [None, None]
    estimate = ac.NNTuck((2, 2), restarts=1, max_iter=2, seed=0).fit(ac.as_tensor(np.eye(3, dtype=int) + 1)).posterior_
    health = payload(estimate, "Title")["health"]
    assert [each["value"] for each in health["answers"][:2]] == [None, None]
    assert health["rows"] == []
    in_page(render(payload(estimate, "Title")))


def test_the_likelihood_is_told_in_words():
    poisson, negative, bernoulli = (
        payload(with_likelihood(posterior(), name), "Title") for name in ("poisson", "negative-binomial", "bernoulli")
    )
    assert poisson["likelihood"][0].startswith("Poisson likelihood: given the fit, the variance of a count is ")
    assert negative["likelihood"] == (
        "Negative binomial likelihood: p 0.5 (0.5 to 0.5 over all draws), "
        "so the variance of a count is 2.00 times its mean.",
        "Concentrations learned: sender 0.5, receiver 0.5, action 0.5, time 0.5.",
    )
    assert bernoulli["likelihood"][0].startswith("Bernoulli likelihood: ")
    assert [each["counted"] for each in (poisson, negative, bernoulli)] == [
        "expected counts",
        "expected counts",
        "expected latent counts",
    ]
    assert negative["run"][0].startswith("AlloCore, negative-binomial: 4 classes")


def test_classes_of_the_negative_binomial_are_sized_by_expected_counts():
    """p = 1/2 has odds of 1: values are as before. Odds of 3 treble them."""
    post = with_likelihood(posterior(), "negative-binomial")
    values = [each["value"] for each in payload(post, "Title")["classes"]]
    assert values == [each["value"] for each in told()["classes"]]
    trebled = Posterior(replace(post.record, log_odds=np.full((1, 3), np.log(3.0))))
    assert [each["value"] for each in payload(trebled, "Title")["classes"]] == pytest.approx(
        [3 * each for each in values]
    )


def test_a_report_is_written_of_a_fitted_model_or_of_the_path_of_a_run_as_of_the_posterior(tmp_path):
    run, page = tmp_path / "run.zarr", tmp_path / "report.html"
    model = ac.CP(2, burn_in=1, draws=2, thin=1, seed=0, progress=False, chains=1).fit(np.array([[3, 0], [1, 4]]))
    model.posterior_.save(run)
    for given, post in ((model, model.posterior_), (run, ac.open_run(run)), (str(run), ac.open_run(run))):
        told = ac.write_report(given, page, surprises=0).read_bytes()
        assert told == ac.write_report(post, page, surprises=0).read_bytes()
    with refused("posterior", "an object of type dict"):
        ac.write_report({}, page)
    with pytest.raises(AttributeError, match="call fit first"):
        ac.write_report(ac.CP(2), page)


def test_a_report_without_a_path_is_written_to_the_current_folder_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ac.write_report(posterior())
    assert page == Path("report.html")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out == f"Report written to {tmp_path / 'report.html'}: open it in a browser\n"
    ac.write_report(posterior(), "other.html")
    assert capsys.readouterr().out == "", "the caller knows the name"


def test_the_page_gets_the_classes_that_share_a_factor_by_the_rule_of_the_tables():
    post = varied_posterior()
    sharing = tuple(np.array(each) for each in post.class_summary().sharing)
    sharing[0][0, 2] = sharing[0][2, 0] = 0.12
    sharing[0][1, 2] = sharing[0][2, 1] = 0.09
    changed = showing(post, sharing=sharing)
    classes = payload(changed, "Title")["classes"]
    assert classes[0]["sharers"][0] == [[1, 3], 2, [2], 1]
    assert classes[1]["sharers"][0][2] == []
    assert perhaps_sharers(changed.class_summary(), 0, 0) == ["2 (0.12)"]


def test_the_page_gets_the_day_on_which_every_period_begins():
    things, weeks = payload(iso_week_posterior(), "Title")["modes"]
    assert things["starts"] is None
    assert weeks["starts"] == ["2020-12-21", "2020-12-28", "2021-01-04", "2021-01-11", "2021-01-18"]


@pytest.mark.parametrize(
    ("label", "start"),
    [
        ("2021-W01", "2021-01-04"),
        ("2018-W01", "2018-01-01"),
        ("2020-W53", "2020-12-28"),
        ("2018", "2018-01-01"),
        ("2018-Q3", "2018-07-01"),
        ("2018-11", "2018-11-01"),
        ("2018-11-30", "2018-11-30"),
        ("2018-11-30 23:00", "2018-11-30 23:00"),
    ],
)
def test_a_period_begins_on_its_first_day(label, start):
    assert period_start(label) == datetime.fromisoformat(start)


def test_the_title_says_what_was_counted_by_which_modes_and_when():
    tensor = forecast_cases.tensor()
    assert default_title(tensor) == "Counts by who, whom and month, 2017-07 to 2018-06"
    events = ac.read_events(pd.DataFrame({"store": ["A", "B"], "item": ["tea", "rice"]}), modes=["store", "item"])
    assert default_title(events) == "Events by store and item"


def test_a_forecast_has_the_total_and_the_classes_of_all_periods():
    post = forecast_cases.fitted(forecast_cases.tensor())
    forecast = post.forecast(2)
    found = payload(post, "Title", forecast=forecast)["forecast"]
    assert found["labels"] == [*forecast_cases.MONTHS, "2018-07", "2018-08"]
    assert (found["periods"], len(found["starts"])) == (12, 14)
    assert found["total"]["past"] == post.tensor.to_dense().sum(axis=(0, 1)).tolist()
    assert len(found["total"]["median"]) == len(found["total"]["wide"]) == 2
    expected = forecast.by_class()
    for one in found["classes"]:
        assert one["coming"] == pytest.approx(expected[expected["class"] == one["number"]]["expected"].tolist(), 1e-5)
        assert len(one["past"]) == len(one["band"]) == 12


def test_the_page_forecasts_only_a_run_whose_time_can_be_continued(tmp_path):
    def forecast_of(post, **how):
        text = ac.write_report(post, tmp_path / "page.html", surprises=0, **how).read_text(encoding="utf-8")
        return json.loads(text.split('id="data">')[1].split("</script>")[0])["forecast"]

    post = forecast_cases.fitted(forecast_cases.tensor())
    assert len(forecast_of(post)["labels"]) == 15
    assert len(forecast_of(post, horizon=1)["labels"]) == 13
    assert forecast_of(post, horizon=0) is None
    assert forecast_of(large_posterior((4, 3), 2)) is None
    with refused("mode"):
        forecast_of(large_posterior((4, 3), 2), horizon=2)

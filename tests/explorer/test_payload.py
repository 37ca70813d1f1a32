"""What the page is told: shares, who shares what, few numbers for long modes, and text that cannot break out."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore.errors import InputError
from allocore.explorer.page_file import render
from allocore.explorer.payload import payload
from allocore.posterior.posterior import Posterior
from handmade_posterior import CLASSES, COUNTRIES, FACTORS, MONTHS, VALUES, large_posterior, posterior, with_likelihood

WICKED = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'&<b>",
    "שלום",
    "🦊 {{data}}",
    "\u2028",
)


def shares(mode):
    flat = np.frombuffer(base64.b64decode(mode["shares"]), dtype="<f4")
    return flat.reshape(len(mode["factors"]), -1)


def told(**changes):
    return payload(posterior(**changes), "Title")


def in_page(page):
    """The data as a browser reads them from the page."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_classes_come_largest_first_with_their_shares_and_factors():
    found = told()
    assert [one["share"] for one in found["classes"]] == pytest.approx([value / sum(VALUES) for value in VALUES])
    for one, location in zip(found["classes"], CLASSES, strict=True):
        numbers = [mode["factors"][place]["number"] for mode, place in zip(found["modes"], one["factors"], strict=True)]
        assert tuple(numbers) == location


def test_factors_carry_their_shares_their_classes_and_what_these_hold():
    sender = told()["modes"][0]
    assert sender["factors"][0]["classes"] == (0, 1, 3)
    assert sender["factors"][0]["mass"] == pytest.approx(0.8)
    assert shares(sender) == pytest.approx(np.array(FACTORS[0]), abs=1e-6)


def test_modes_are_known_for_what_their_labels_are():
    modes = told()["modes"]
    assert [mode["kind"] for mode in modes] == ["country", "country", "plain", "time"]
    assert modes[0]["iso"] == ["FRA", "IRQ", "SGP", "USA", "ZMB"]
    assert modes[2]["iso"] is None
    assert modes[3]["labels"] == list(MONTHS)
    assert modes[3]["peaks"][0] == [("2003-03 to 2003-04", pytest.approx(0.9))]


def test_the_page_of_the_largest_runs_is_below_six_megabytes():
    labels = [[f"Country number {n}" for n in range(225)]] * 2 + [None, None]
    page = render(payload(large_posterior(labels=labels), "Large"))
    assert len(page.encode()) < 6e6
    assert shares(in_page(page)["modes"][0]).shape == (400, 225)


def test_of_a_very_long_mode_the_heaviest_labels_are_told_and_the_page_stays_small(long_posterior, long_payload):
    found = long_payload
    mode = found["modes"][0]
    assert mode["length"] == 100_000
    rows = np.frombuffer(base64.b64decode(mode["rows"]), dtype="<u4").reshape(40, -1)
    whole = long_posterior.draw_summary().factor(0, 0)
    place = found["classes"][0]["factors"][0]
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
    assert found["classes"][0]["stability"] is None
    in_page(render(found))


def test_a_report_replaces_another_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "new" / "report.html"
    for title in ("First", "Second"):
        assert ac.write_report(posterior(), path, title=title, surprises=2) == path
        assert f"<title>{title}</title>" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surprises": -1}, "surprises is -1, but it must be a whole number of at least 0"),
        ({"draw": 9}, "draw is 9, but there are 3"),
        ({"chain": 4}, "chain is 4, but there are 1"),
    ],
)
def test_what_cannot_be_shown_is_refused_and_nothing_is_written(tmp_path, changes, message):
    with pytest.raises(InputError, match=re.escape(message)):
        ac.write_report(posterior(), tmp_path / "report.html", **changes)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_a_page(tmp_path):
    with pytest.raises(InputError, match=r"it must be a file such as report\.html, and this is a folder"):
        ac.write_report(posterior(), tmp_path)


def test_a_run_without_draws_has_no_page(tmp_path):
    with pytest.raises(InputError, match="no draws yet"):
        ac.write_report(posterior(draws=0), tmp_path / "report.html")


def test_the_health_of_the_chains_is_that_of_the_diagnosis():
    post = posterior(chains=4, draws=9)
    found, health = post.diagnose(), payload(post, "Title")["health"]
    assert (health["level"], health["headline"], health["words"]) == (found.level, found.headline, found.words)
    assert health["rHat"] == f"{found.table.loc['log-likelihood', 'r_hat']:.3f}"
    assert health["moves"] == 0.25


def test_what_is_not_known_of_the_chains_is_none():
    few = told(draws=2)["health"]
    assert (few["level"], few["rHat"]) == ("caution", None)
    stuck = posterior(chains=2, draws=8)
    stats = {**stuck.record.stats, "log_likelihood": np.repeat([[-9.0], [-8.0]], 10, axis=1)}
    assert payload(Posterior(replace(stuck.record, stats=stats)), "Title")["health"]["rHat"] is None
    estimate = ac.NNTuck((2, 2), restarts=1, max_iter=2, seed=0).fit(ac.as_tensor(np.eye(3, dtype=int) + 1)).posterior_
    health = payload(estimate, "Title")["health"]
    assert (health["level"], health["rHat"], health["moves"]) == ("caution", None, None)
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

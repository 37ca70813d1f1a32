"""The first view: the run, whether to trust it, and its largest classes."""

import re
from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore.findings import sentences
from allocore.report.page.payload import payload
from allocore.storage.record import Schedule
from support.browser_tab import needs_browser
from support.handmade_posterior import posterior, with_likelihood
from support.shown_posteriors import chains_apart
from support.tiers import parametrize_few

pytestmark = needs_browser


def four_chains():
    return posterior(chains=4, draws=9)


def facts(shown):
    return dict(zip(shown.texts(".facts dt"), shown.texts(".facts dd"), strict=True))


def test_the_overview_tells_the_run_and_leads_to_the_classes(seen):
    page = seen.go()
    assert page.title() == "Overview – By hand"
    assert "4 classes occur in at least half of the draws of the one chain." in page.inner_text("main")
    assert page.inner_text("#source") == "Shown: consensus of 1 chain, 3 draws"
    assert seen.texts(".largest li")[0] == (
        "40.0% 0: United States → Iraq · Fight · 2003-03 to 2003-04 in 100% of draws"
    )
    assert "Poisson likelihood: given the fit" in facts(seen)["likelihood"]
    assert "Concentrations learned" not in facts(seen)["likelihood"]
    assert page.locator(".banner").count() == 1, "without a hold-out there is no score"
    page.click(".largest li:nth-child(2) a")
    page.wait_for_selector("h1:has-text('Class 1')")
    assert seen.texts("h1") == ["Class 1 among United States, Singapore · Consult · 2003-03 to 2003-04"]


def test_a_banner_says_first_whether_the_chains_can_be_trusted_and_leads_to_their_health(shared):
    shown, found = shared(four_chains), four_chains().diagnose()
    page = shown.go()
    *verdicts, told = shown.texts(".banner p")
    assert verdicts == [light(each.level, f"{each.question} {each.sentence}") for each in found.answers]
    assert told.startswith("4 chains of 9 draws · ")
    assert page.evaluate("document.querySelector('.banner').getBoundingClientRect().bottom") < 350
    page.click(".banner a")
    page.wait_for_selector("#health:focus")
    top = page.evaluate("document.getElementById('health').getBoundingClientRect().top")
    assert 0 <= top < 900
    assert page.locator("nav [aria-current]").inner_text() == "Overview"
    for answer in found.answers:
        assert " ".join(answer.sentences) in page.inner_text("#health")
    page.click("#health summary:has-text('Diagnostics')")
    for word in sentences(found.details):
        assert word in page.inner_text("#health")


LAMPS = {"good": "✓", "caution": "!", "poor": "✕"}


def light(level, text):
    return f"{LAMPS[level]} {level.capitalize()}: {text}"


@parametrize_few("level", ["poor", "caution", "good"])
def test_each_traffic_light_is_a_word_and_a_colour_that_can_be_read_in_both_themes(opened, level):
    """Whatever the colour of the banner, which is that of the worst light."""
    values = payload(posterior(), "Title")
    answers = [{"question": "Why?", "level": each, "words": ["A sentence."]} for each in LAMPS]
    values["health"] |= {"level": level, "answers": answers}
    shown = opened(values)
    page = shown.go()
    assert shown.texts(".banner .verdict") == [light(each, "Why? A sentence.") for each in LAMPS]
    colours = []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        paper = page.evaluate("getComputedStyle(document.querySelector('.banner')).backgroundColor")
        inks = page.eval_on_selector_all(".banner .light", "all => all.map(each => getComputedStyle(each).color)")
        assert len(set(inks)) == 3
        assert all(contrast(ink, paper) > 4.5 for ink in inks)
        colours += inks
    page.evaluate("() => { delete document.documentElement.dataset.theme; }")
    assert len(set(colours)) == 6


def contrast(*colours):
    """The contrast of two colours as the Web Content Accessibility Guidelines define it."""
    light = []
    for colour in colours:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@parametrize_few("chains", [4, 1, 8], quick=1)
def test_the_traces_have_a_legend_of_chains_and_titles_of_axes(shared, opened, chains):
    shown = shared(four_chains) if chains == 4 else opened(posterior(chains=chains, draws=9))
    page = shown.go()
    page.wait_for_selector("#health .chart svg")
    assert shown.texts("#health .legend li") == [*(f"chain {n}" for n in range(chains)), "burn-in"]
    axes = " ".join(page.locator("#health .chart svg").all_text_contents())
    assert "sweep" in axes
    assert "log-likelihood" in axes
    drawn = page.eval_on_selector_all(
        "#health .chart svg [aria-label=line] path",
        """all => all.map(path => { const style = getComputedStyle(path);
           return `${style.stroke} ${style.strokeDasharray}`; })""",
    )
    samples = page.eval_on_selector_all(
        "#health .sample",
        """all => all.map(each => { const style = getComputedStyle(each);
           return `${style.borderTopColor} ${style.borderTopStyle}`; })""",
    )
    assert len(drawn) == len(set(drawn)) == len(samples) == len(set(samples)) == chains
    assert [line.split(")")[0] for line in drawn] == [line.split(")")[0] for line in samples]


def test_an_unfinished_run_says_so_and_a_bernoulli_one_tells_its_likelihood_and_counts_latent_counts(opened):
    record = replace(with_likelihood(posterior(), "bernoulli").record, schedule=Schedule(2, 10, 1))
    shown = opened(ac.Posterior(record))
    assert "This run is not finished" in shown.go().inner_text("main")
    assert "Bernoulli likelihood: a cell is 1" in facts(shown)["likelihood"]
    assert "Concentrations learned" in facts(shown)["likelihood"]
    assert " expected latent counts" in shown.go("class/0").inner_text("main")
    assert "of all expected latent counts" in shown.go("classes").inner_text("main")


@pytest.mark.slow
def test_chains_that_have_nothing_in_common_are_told_so(opened):
    seen = opened(chains_apart())
    assert "The chains have no class in common." in seen.go().inner_text("main")
    assert "A report of a single draw shows its classes" in seen.page.inner_text("main")
    seen.go("classes")
    seen.go("compare/")
    assert seen.go("class/0").inner_text("h1") == "Not found"


def test_the_held_out_score_stands_at_the_top_with_what_it_means_and_leads_to_the_table(opened):
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(0).poisson(1.2, (8, 7, 6))), fraction=0.3, seed=0)
    post = ac.AlloCore(3, burn_in=5, draws=4, thin=1, seed=0, progress=False, chains=1).fit(split).posterior_
    seen = opened(post)
    page = seen.go()
    verdict, meaning = seen.texts(".banner >> nth=1 >> p")
    answer = post.evaluate().sentences[0]
    assert verdict.endswith(answer)
    assert meaning.startswith("Held out: ")
    assert "mean log probability that the model gives to counts it has not seen: higher is better" in meaning
    page.click(".banner >> nth=1 >> a")
    page.wait_for_selector("#prediction:focus")
    assert "How well it predicts" in page.inner_text("#prediction")
    assert page.locator("nav [aria-current]").inner_text() == "Overview"

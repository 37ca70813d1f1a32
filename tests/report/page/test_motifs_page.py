"""Patterns that recur, on the overview of the page."""

import pytest

from allocore.report.page.payload import payload
from support.browser_tab import needs_browser
from support.shown_posteriors import retail_posterior
from support.wars import wars


def test_the_page_is_told_the_motifs_that_are_no_chance():
    (motif,) = payload(wars(), "Title")["motifs"]
    assert motif["roles"] == (("a → b", "Fight"), ("a → b", "Offer"), ("b → a", "Protest"))
    assert (motif["pairs"], motif["p"]) == (4, pytest.approx(0.001))
    assert motif["occurrences"][0] == {"a": "country 00", "b": "country 01", "places": (0, 1, 2)}
    assert payload(retail_posterior(), "Title")["motifs"] is None, "stores and things are no actors"


@needs_browser
def test_patterns_are_a_panel_of_the_overview(opened):
    seen = opened(payload(wars(), "Title"))
    page = seen.go("")
    panel = ".panel:has(h2:text-is('Patterns that recur'))"
    assert seen.texts(f"{panel} h3") == ["a → b: Fight; a → b: Offer; b → a: Protest"]
    assert len(seen.texts(f"{panel} tbody tr")) == 4
    page.click(f"{panel} tbody a >> nth=2")
    page.wait_for_selector("h1:has-text('Class 2')")


@needs_browser
def test_the_page_says_if_no_pattern_recurs(opened):
    seen = opened(payload(wars(number=0), "Title"))
    seen.go("")
    assert any("No pattern of two or three classes recurs" in text for text in seen.texts(".panel p"))

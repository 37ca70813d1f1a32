"""The card of the page that compares the data with simulated tensors."""

from dataclasses import replace

from allocore.posterior.check import LEAST_TENSORS, check_rows
from allocore.report.page.payload import payload
from allocore.results import Posterior
from support.browser_tab import needs_browser
from support.handmade_posterior import posterior


def test_the_page_is_given_the_sentences_and_the_rows_of_a_brief_check():
    post = posterior()
    given, found = payload(post, "By hand")["check"], post.brief_check()
    assert given["level"] == found.level
    assert given["words"] == found.sentences
    assert given["tensors"] == len(found.simulated) >= LEAST_TENSORS
    assert given["rows"] == check_rows(found.table)
    assert all(len(row) == len(given["headings"]) for row in given["rows"])


def test_a_check_that_would_take_long_is_left_out():
    record = posterior().record
    assert payload(Posterior(replace(record, core_values=record.core_values * 1e5)), "Large")["check"] is None


@needs_browser
def test_the_card_shows_the_verdict_and_the_table(seen):
    page, found = seen.go("check"), posterior().brief_check()
    page.wait_for_selector("#check:focus")
    text = page.inner_text("#check")
    assert "Does the model look like the data?" in text
    for sentence in found.sentences:
        assert sentence in text
    assert page.locator("#check tbody tr").count() == len(found.table)

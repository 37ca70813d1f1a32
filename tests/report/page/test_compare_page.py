"""Classes side by side, by number and by name."""

import re

import numpy as np
import pytest

from support.browser_tab import needs_browser
from support.handmade_posterior import COUNTRIES, MONTHS, posterior
from support.shown_posteriors import showing, varied_posterior

pytestmark = needs_browser


def compared(seen):
    """The numbers of the classes that stand side by side."""
    return [int(re.search(r"Class (\d+): ", text)[1]) for text in seen.texts(".compared h2")]


@pytest.mark.slow
def test_classes_go_by_their_numbers_wherever_they_stand(opened):
    """After a run was extended, the third class may have the number 0, and the largest the number 7."""
    seen = opened(showing(varied_posterior(), number_C=np.array([7, 2, 0, 12])))
    page = seen.go()
    assert [text.split("% ")[1].split(":")[0] for text in seen.texts(".largest li")] == ["7", "2", "0", "12"]
    assert page.get_attribute("#nav a:has-text('Compare')", "href") == "#/compare/7,2"
    page.click(".largest li:nth-child(1) a")
    page.wait_for_selector("h1:has-text('Class 7')")
    assert page.url.endswith("#/class/7")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h1:has-text('Class 2')")
    assert seen.texts(".sharing")[0].endswith("shared with classes 7: 100%, 12: 100%")
    assert seen.go("class/1").inner_text("h1") == "Not found"
    page = seen.go("compare/7,12")
    assert compared(seen) == [7, 12]
    page.fill("#add", "France")
    page.click("button:text-is('Add')")
    page.wait_for_selector(".compared >> nth=2")
    assert compared(seen) == [7, 12, 0]


def test_the_page_begins_with_the_two_largest_classes_that_are_well_supported(seen, opened):
    seen.go("compare").wait_for_selector(".chart svg")
    assert compared(seen) == [0, 1]
    weak = opened(showing(varied_posterior(), apart_C=np.array([True, False, False, False])))
    weak.go("compare").wait_for_selector(".chart svg")
    assert compared(weak) == [1, 2]


def test_classes_are_compared_side_by_side(seen):
    page = seen.go("compare/0,1,3")
    page.wait_for_selector(".chart svg")
    assert compared(seen) == [0, 1, 3]
    assert seen.texts(".panel .samemark") == ["All use the same factor: sender #0 ×3 , shared by 3 classes"]
    page.click(".compared >> nth=2 >> text=remove")
    page.wait_for_selector(".compared >> nth=2", state="detached")
    assert compared(seen) == [0, 1]
    page.fill("#add", "2")
    page.click("button:text-is('Add')")
    page.wait_for_selector(".compared >> nth=2")
    assert compared(seen) == [0, 1, 2]


def test_legends_and_lists_of_compared_classes_have_their_names(seen):
    page = seen.go("compare/0,2")
    page.wait_for_selector(".chart svg")
    names = ["United States → Iraq · Fight · 2003-03 to 2003-04", "France → Iraq · Consult · 2003-11"]
    assert seen.texts(".panel .legend >> nth=0 >> li") == [f"●0: {names[0]}", f"■2: {names[1]}"]
    assert page.locator(".compared select >> nth=0 >> option:checked").inner_text() == f"0: {names[0]}"
    page.select_option(".compared select >> nth=0", label="3: United States → everyone · Consult")
    page.wait_for_function("() => location.hash === '#/compare/3,2'")
    assert compared(seen) == [3, 2]


def test_a_class_that_cannot_be_added_is_told(seen):
    page = seen.go("compare/0,2")
    for wanted, answer in (
        ("nowhere", "No class has the number, the name or a heavy label “nowhere”."),
        ("class 0", "Class 0 is already shown."),
        ("77", "No class has the number, the name or a heavy label “77”."),
    ):
        page.fill("#add", wanted)
        page.press("#add", "Enter")
        assert page.inner_text("form .warn") == answer
        assert compared(seen) == [0, 2]


def test_lines_that_cover_one_another_are_told_and_both_can_be_seen(seen):
    page = seen.go("compare/0,1")
    page.wait_for_selector(".panel:has(h2 bdi:text-is('time')) .chart svg")
    told = "The lines of classes 0 and 1 are the same: one covers the other."
    assert told in seen.texts(".panel:has(h2 bdi:text-is('time')) .caption")
    dashes = page.eval_on_selector_all(
        ".panel:has(h2) svg [aria-label=line] path", "all => all.map(each => getComputedStyle(each).strokeDasharray)"
    )
    assert dashes == ["none", "6px, 6px"]
    page = seen.go("compare/0,2")
    page.wait_for_selector(".panel:has(h2 bdi:text-is('time')) .chart svg")
    assert "are the same" not in page.inner_text("main")


def test_labels_with_an_order_are_compared_without_gaps(opened):
    seen = opened(posterior(labels=(COUNTRIES, COUNTRIES, ("Mon", "Tue", "Wed"), MONTHS)))
    page = seen.go("compare/0,1")
    page.wait_for_selector(".panel:has(h2 bdi:text-is('action')) .chart svg")
    ticks = page.locator(".panel:has(h2 bdi:text-is('action')) [aria-label='y-axis tick label'] text")
    assert ticks.all_text_contents() == ["Mon", "Tue", "Wed"], "Wed has no share in either class"

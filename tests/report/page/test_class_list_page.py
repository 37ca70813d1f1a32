"""The list of classes: search, filters and orders."""

import numpy as np
import pytest

from support.browser_tab import needs_browser
from support.handmade_posterior import ACTIONS, COUNTRIES, MONTHS, posterior
from support.shown_posteriors import retail_posterior, showing, varied_posterior

pytestmark = needs_browser


def found(seen, query):
    """The classes that the search at the top of every page finds."""
    page = seen.go()
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_selector(".classlist")
    return seen.listed()


def test_search_begins_with_a_slash_and_finds_the_classes_with_heavy_labels(seen):
    page = seen.go()
    page.focus("main")
    page.keyboard.press("/")
    page.keyboard.type("Iraq")
    page.keyboard.press("Enter")
    page.wait_for_selector(".classlist")
    assert sorted(seen.listed()) == ["Class 0", "Class 2"]
    assert sorted(found(seen, "united")) == ["Class 0", "Class 1", "Class 3"]
    assert found(seen, "2003-11") == ["Class 2"]
    assert sorted(found(seen, "france consult")) == ["Class 0", "Class 2"]
    assert found(seen, "zämbia") == ["Class 2"]
    assert found(seen, "nowhere") == []


def test_classes_can_be_filtered_by_a_label_of_one_mode_and_sorted(seen):
    page = seen.go("classes")
    page.fill("#filter1", "United States")
    assert seen.listed() == ["Class 1"]
    page.fill("#filter1", "")
    page.select_option("#sort", "peak")
    assert seen.listed()[-1] == "Class 2"
    page.select_option("#sort", "sharing")
    assert seen.listed()[0] == "Class 1"
    assert page.url.endswith("#/classes?sort=sharing")


def test_what_is_filtered_stands_in_the_address(seen):
    seen.go("classes?q=Iraq&m0=France")
    assert seen.listed() == ["Class 2"]


@pytest.mark.slow
def test_small_and_weakly_supported_classes_are_set_apart(opened):
    seen = opened(showing(varied_posterior(), apart_C=np.array([False, True, False, False])))
    page = seen.go("classes")
    assert seen.listed(".classlist:not(.apart)") == ["Class 0", "Class 2", "Class 3"]
    assert seen.listed(".classlist.apart") == ["Class 1"]
    assert seen.texts(".apartbox h2") == ["Small or weakly supported (1 class)"]
    assert page.locator(".apartbox[open]").count() == 0
    seen.go("classes?q=Consult")
    assert page.locator(".apartbox[open]").count() == 1, "what is searched for is not hidden"
    seen.go("classes?q=Fight")
    assert not page.locator(".apartbox").is_visible(), "none of them has this label"
    seen.go()
    assert not any("1: among" in text for text in seen.texts(".largest li"))
    seen.go("class/1")
    assert "This class is small or weakly supported." in page.inner_text("main")
    seen.go("factor/0/0")
    rows = seen.texts(".classtable tbody th")
    assert rows[-1].startswith("1: ")
    assert rows[-1].endswith("small or weakly supported")
    assert page.locator("tr.apart").count() == 1


def numbered_posterior():
    return showing(varied_posterior(), number_C=np.array([7, 2, 0, 12]))


def test_classes_are_found_by_their_number_and_their_name(shared):
    seen = shared(numbered_posterior)
    assert found(seen, "12")[:1] == ["Class 12"]
    assert found(seen, "class 7")[:1] == ["Class 7"]
    assert found(seen, "#0")[:1] == ["Class 0"]
    assert found(seen, "france → iraq")[:1] == ["Class 0"]
    assert found(seen, "among")[:1] == ["Class 2"]


@pytest.mark.slow
def test_a_label_that_is_part_of_another_is_found_alone(opened):
    seen = opened(posterior(labels=(COUNTRIES, ("Niger", "Nigeria", "Chad", "Mali", "Togo"), ACTIONS, MONTHS)))
    seen.go("classes?q=niger")
    assert seen.listed() == ["Class 0", "Class 2"], "France is Niger here, with 20% of a factor"
    assert "receiver 20%" in seen.texts(".matched")[0]
    seen.go("classes?m1=Nigeria")
    assert "receiver" not in " ".join(seen.texts(".matched"))
    assert seen.listed() == ["Class 0", "Class 2"]


@pytest.mark.slow
def test_names_in_any_script_are_searched_for(opened):
    seen = opened(posterior(labels=(COUNTRIES, COUNTRIES, ("Consult", "مرحبا 🦊", "שלום"), MONTHS)))
    assert found(seen, "مرحبا") == ["Class 0"]


def test_the_order_of_the_list_is_told(seen):
    page = seen.go("classes")
    count = page.locator("p[role=status]")
    assert count.inner_text() == "4 classes, 100.0% of all expected counts; largest first."
    assert page.locator("#sort option:checked").inner_text() == "size (usual order)"
    page.fill("#listquery", "Iraq")
    assert count.inner_text().endswith(
        "; best match first: those with most of their counts on what was searched for, times their size."
    )
    assert page.locator("#sort option:checked").inner_text() == "best match"
    page.select_option("#sort", "peak")
    assert count.inner_text().endswith("; earliest peak first.")
    page.fill("#listquery", "Zambia")
    assert count.inner_text() == "1 of 4 classes, 20.0% of all expected counts."


def test_labels_are_found_as_they_are_told(shared):
    seen = shared(retail_posterior)
    assert found(seen, "store 12") == ["Class 0"]
    assert found(seen, "week of 2018-12-31") == ["Class 0"]
    assert found(seen, "2019-01-07") == ["Class 1"]
    assert found(seen, "store 3 rice") == ["Class 1"]

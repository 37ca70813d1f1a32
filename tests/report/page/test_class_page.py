"""The views of a class and of a factor, and the cells that surprise."""

import re

import numpy as np
import pytest

import allocore as ac
from allocore.report.page.payload import payload
from support.browser_tab import needs_browser
from support.handmade_posterior import ACTIONS, COUNTRIES, FACTORS, MONTHS, posterior
from support.shown_posteriors import iso_week_posterior, retail_posterior, showing, varied_posterior

pytestmark = needs_browser


def test_every_chart_has_marks_with_the_right_shares_a_legend_over_time_and_a_table_with_the_same_numbers(seen):
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=3 >> .chart svg")
    marks = seen.marks()
    assert "United States 90.0% (90.0% to 90.0%)" in marks
    assert "Singapore 10.0% (10.0% to 10.0%)" in marks
    assert "Iraq 80.0% (80.0% to 80.0%)" in marks
    assert "Fight 70.0% (70.0% to 70.0%)" in marks
    assert "Yield" not in " ".join(marks)
    assert seen.texts(".legend li") == ["share by time", "90% interval", "if spread evenly (8%)"]
    for figure in page.query_selector_all("figure"):
        assert figure.query_selector_all("svg circle, svg path")
        assert figure.query_selector(".chart").get_attribute("aria-label")
        figure.query_selector("summary").click()
    page.wait_for_selector("figure >> nth=3 >> tbody tr")
    for name, labels, shares in zip(
        ("sender", "action", "time"),
        (COUNTRIES, ACTIONS, MONTHS),
        (FACTORS[0][0], FACTORS[2][0], FACTORS[3][0]),
        strict=True,
    ):
        rows = page.locator(f"figure table:has(th:text-is('{name}')) tbody tr").all_inner_texts()
        told = {label: (share, ends) for label, share, ends in (row.split("\t") for row in rows)}
        percents = [f"{100 * share:.2f}%" for share in shares]
        assert told == {label: (text, f"{text} to {text}") for label, text in zip(labels, percents, strict=True)}


def test_the_map_colours_the_right_countries_and_small_ones_get_a_dot(seen):
    page = seen.go("class/0")
    page.wait_for_selector(".map svg")
    coloured = page.eval_on_selector_all(
        ".map >> nth=0 >> [aria-label*='%']",
        "all => all.map(each => [each.tagName, each.getAttribute('aria-label'), +getComputedStyle(each).fillOpacity])",
    )
    opacity = {(tag, label): value for tag, label, value in coloured}
    assert set(opacity) == {
        ("path", "United States  90.0% (90.0% to 90.0%)"),
        ("path", "Singapore  10.0% (10.0% to 10.0%)"),
        ("circle", "Singapore  10.0% (10.0% to 10.0%)"),
    }
    darkness = {label.split("  ")[0]: value for (tag, label), value in opacity.items() if tag == "path"}
    assert darkness["United States"] > darkness["Singapore"]
    named = page.get_attribute(".map >> nth=0", "aria-label")
    assert named == "Map of sender of class 0: United States 90%, Singapore 10%"


def test_a_class_leads_to_its_family_and_to_all_classes_that_share_a_factor(seen):
    page = seen.go("class/0")
    assert [text.split(":")[0] for text in seen.texts(".classtable tbody th")] == ["1", "2", "3"], "most shared first"
    assert len(seen.texts(".classtable tbody tr:nth-child(1) td.same")) == 2
    assert seen.texts(".sharing")[0] == "sender #0 ×3 , shared by 3 classes shared with classes 1: 100%, 3: 100%"
    page.click(".sharing >> nth=0 >> .chip")
    page.wait_for_selector("h1 bdi:text-is('sender #0')")
    assert [text.split(":")[0] for text in seen.texts(".classtable tbody th")] == ["0", "1", "3"]
    assert "3 classes share this sender factor and have 80.0% of all expected counts" in page.inner_text("main")
    assert seen.texts(".classtable tbody tr:nth-child(2) td.same") == [
        "same: 2003-03 to 2003-04 90% time #0 ×2 , shared by 2 classes"
    ]
    page.click(".classtable tbody th a >> nth=2")
    page.wait_for_selector("h1:has-text('Class 3')")


@pytest.mark.slow
def test_how_surely_classes_share_a_factor_is_told_in_every_view(opened):
    post = varied_posterior()
    sharing = tuple(np.array(each) for each in post.class_summary().sharing)
    sharing[0][0, 3] = sharing[0][3, 0] = 0.62
    sharing[0][0, 2] = sharing[0][2, 0] = 0.12  # from 0.1 on, as in Python's tables and figures
    seen = opened(showing(post, sharing=sharing))
    seen.go("class/0")
    assert seen.texts(".sharing")[0] == (
        "sender #0 ×3 , shared by 3 classes shared with classes 1: 100%, 3: 62%; perhaps shared with class 2: 12%"
    )
    seen.go("factor/0/0")
    assert seen.texts(".classtable tbody tr:nth-child(3) .partner") == ["class 1: 100%", "class 0: 62%"]
    seen.go("compare/0,2,3")
    assert (
        "Probability of the same factor: 12% for 0 and 2, 62% for 0 and 3, 0% for 2 and 3." in seen.texts(".panel")[0]
    )


def test_a_class_tells_its_name_its_share_and_who_holds_it(shared):
    seen = shared(varied_posterior)
    page = seen.go("class/0")
    low, high = varied_posterior().class_summary().interval_C2[0]
    assert seen.texts("h1") == ["Class 0 United States → Iraq · Fight · 2003-03 to 2003-04"]
    assert page.inner_text(".lead").startswith("In 2 of 2 chains, 100% of draws.")
    assert f"of all ({100 * low:.2f}% to {100 * high:.2f}%)." in page.inner_text(".lead")
    assert page.title().startswith("Class 0: United States → Iraq")


@pytest.mark.slow
def test_intervals_are_drawn_behind_lines_and_bars_and_told_in_tips(opened):
    post = varied_posterior()
    seen = opened(post)
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=3 >> .chart svg")
    assert page.locator("figure >> nth=3 >> .band path").count() == 1
    summary = post.class_summary()
    profile = summary.profile(0, 0)
    widths = page.eval_on_selector_all(
        "figure >> nth=0 >> .whiskers line",
        "all => all.map(each => Math.abs(each.x2.baseVal.value - each.x1.baseVal.value))",
    )
    low, high = profile.low_D[[3, 2]], profile.high_D[[3, 2]]
    assert widths[0] / widths[1] == pytest.approx((high - low)[0] / (high - low)[1], rel=0.01)
    assert (
        f"United States {100 * profile.share_D[3]:.1f}% ({100 * low[0]:.1f}% to {100 * high[0]:.1f}%)" in seen.marks()
    )
    page.locator("figure >> nth=3 >> .chart svg circle >> nth=3").hover(force=True)
    time = summary.profile(0, 3)
    april = [100 * each[3] for each in (time.share_D, time.low_D, time.high_D)]
    tip = page.locator("figure >> nth=3 >> [aria-label='tip'] text").text_content()
    assert tip.strip("\u200b") == "2003-04  {:.1f}% ({:.1f}% to {:.1f}%)".format(*april)
    page = seen.go("compare/0,1")
    page.wait_for_selector("figure >> nth=3 >> .chart svg")
    assert page.locator("figure >> nth=3 >> .band path").count() == 2
    assert page.locator("figure >> nth=0 >> .whiskers").count() == 2


@pytest.mark.slow
def test_a_single_draw_is_named_on_every_page_and_has_no_intervals(opened):
    seen = opened(payload(varied_posterior(), "Title", draw=2, chain=1))
    for address in ("", "class/0", "classes", "factor/0/0"):
        assert seen.go(address).inner_text("#source") == "Shown: draw 2 of chain 1"
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=3 >> .chart svg")
    assert page.locator(".band, .whiskers, .whisker").count() == 0
    assert page.inner_text(".lead").startswith("Found again in 100% of the other draws, in 2 of 2 chains.")
    assert seen.texts(".sharing")[0] == "sender #0 ×3 , shared by 3 classes shared with classes 1, 3"
    assert "The page shows draw 2 of chain 1. The run has 4 draws in each of 2 chains." in seen.go().inner_text("main")


def test_every_class_lists_its_top_cells(opened):
    post = varied_posterior(masked=True)
    seen = opened(post)
    page = seen.go("class/0")
    assert seen.texts(".cells thead th") == [
        "sender",
        "receiver",
        "action",
        "expected of this class",
        "expected of all classes",
        "observed",
    ]
    table = post.top_cells(0, top=6)
    rows = [row.split("\t") for row in page.locator(".cells tbody tr").all_inner_texts()]
    assert [row[:3] for row in rows] == table[["sender", "receiver", "action"]].to_numpy().tolist()
    assert [float(row[3]) for row in rows] == pytest.approx(table["of_class"], rel=0.01)
    assert [float(row[4]) for row in rows] == pytest.approx(table["expected"], rel=0.01)
    assert [int(row[5]) for row in rows] == table["observed"].tolist()
    assert "summed over time" in page.inner_text("main")


@pytest.mark.slow
def test_where_cells_are_missing_the_factor_itself_can_be_seen(opened):
    post = varied_posterior(masked=True)
    summary = post.class_summary()
    place = int(np.flatnonzero([name.startswith("Singapore") for name in summary.names])[0])
    seen = opened(post)
    page = seen.go(f"class/{place}")
    page.wait_for_selector(".chart svg")
    assert "in the observed cells" in page.inner_text("main")
    assert f"Singapore {100 * summary.profile(place, 0).share_D[2]:.1f}%" in " ".join(seen.marks())
    page.click(".panel:has(h2 bdi:text-is('sender')) >> text=The factor itself")
    page.wait_for_selector(".itself .chart svg")
    itself = summary.factor(place, 0).share_D
    assert f"United States {100 * itself[3]:.1f}%" in " ".join(seen.marks(".itself .chart"))
    assert "as its largest class, 0, has it" in page.inner_text(".itself")


def test_a_label_leads_to_the_classes_that_have_it_in_that_mode(seen):
    page = seen.go("class/1")
    page.wait_for_selector(".chart svg")
    page.click("figure >> nth=1 >> summary")
    page.click("figure >> nth=1 >> tbody a >> nth=0")
    page.wait_for_selector(".classlist")
    assert page.url.endswith("#/classes?m1=United+States")
    assert seen.listed() == ["Class 1"]


def test_surprising_cells_are_listed_sorted_and_searched(seen):
    page = seen.go("surprises")
    table = ac.Posterior.surprises(posterior(), top=2)
    rows = page.locator("tbody tr")
    assert rows.count() == 2
    assert seen.texts("tbody tr")[0].startswith(" ".join(str(table[name][0]) for name in ("sender", "receiver")))
    surprises = [float(text.split()[-1]) for text in seen.texts("tbody tr")]
    assert surprises == sorted(surprises, reverse=True)
    page.click("th button >> text=surprise")
    assert page.get_attribute("th:has-text('surprise')", "aria-sort") == "ascending"
    assert [float(text.split()[-1]) for text in seen.texts("tbody tr")] == sorted(surprises)
    page.fill("#cells", "no such label")
    assert rows.count() == 0


@pytest.mark.slow
def test_a_mode_of_a_hundred_thousand_labels_shows_its_heaviest(opened, long_payload):
    seen = opened(long_payload)
    page = seen.go("class/0")
    page.wait_for_selector(".chart svg")
    assert re.search(r"The largest of 100,000 labels; together they have \d+\.\d%", page.inner_text("main"))


@pytest.mark.slow
def test_classes_of_one_element_and_modes_of_one_label_are_drawn(opened):
    seen = opened(posterior([[[1.0]], [[0.0, 1.0, 0.0]]], [(0, 0)], [3.0], labels=None, names=("one", "three")))
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=1 >> .chart svg")
    assert "not shared" in page.inner_text("main")
    assert "None: no other class uses any of its factors." in page.inner_text("main")
    for address in ("", "classes", "compare/0", "factor/0/0"):
        seen.go(address)


@pytest.mark.slow
def test_factors_that_underflow_say_so(opened):
    post = posterior(
        [[[0.0, 0.0, 0.0], [0.2, 0.3, 0.5]], [[0.5, 0.5, 0.0]]],
        [(0, 0), (1, 0)],
        [3.0, 2.0],
        labels=None,
        names=("a", "b"),
    )
    seen = opened(payload(post, "Title", draw="best"))
    page = seen.go("class/1")
    assert "too small to compare" in page.inner_text("main")
    seen.go("compare/0,1")
    seen.go("")


def test_numbers_carry_the_name_of_their_mode_and_weeks_are_spans(shared):
    seen = shared(retail_posterior)
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=2 >> .chart svg")
    assert seen.texts("h1") == ["Class 0 store 12 · tea · 2018-12-24 to 2019-01-06"]
    marks = seen.marks()
    assert "store 12 60.0% (60.0% to 60.0%)" in marks
    assert "store 12" in page.locator(".panel:has(h2 bdi:text-is('store')) svg").first.text_content()
    assert "Peaks: 2018-12-24 to 2019-01-06 90%" in seen.texts(".caption")
    assert seen.texts(".cells tbody th")[0] == "12", "the heading of the column says that it is a store"
    page.click("figure >> nth=2 >> summary")
    page.wait_for_selector("figure >> nth=2 >> tbody th")
    assert seen.texts("figure >> nth=2 >> tbody th")[0] == "week of 2018-12-10"
    page.locator("figure >> nth=2 >> .chart svg circle >> nth=2").hover(force=True)
    tip = page.locator("figure >> nth=2 >> [aria-label='tip'] text").text_content()
    assert tip.strip("\u200b").startswith("week of 2018-12-24  40.0%")


def test_iso_weeks_are_drawn_from_their_mondays_on(opened):
    page = opened(iso_week_posterior()).go("class/0")
    page.wait_for_selector(".chart svg")
    ends = "each => each.scale && each.scale('x')?.type === 'utc' ? each.scale('x').domain : []"
    drawn = page.evaluate(f"[...document.querySelectorAll('.chart svg')].flatMap({ends})")
    assert [str(end)[:10] for end in drawn] == ["2020-12-21", "2021-01-18"]

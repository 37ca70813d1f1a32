"""Nothing on the page covers, cuts or leaves a blank beside anything else, in wide and narrow windows."""

import pytest

from allocore.report.page.payload import payload
from support.browser_tab import needs_browser
from support.handmade_posterior import posterior
from support.shown_posteriors import retail_posterior, varied_posterior
from support.tiers import parametrize_few

pytestmark = needs_browser

VIEWS = ("", "class/0", "compare/0,1", "factor/0/0")
# Pairs of texts in one chart whose boxes share more than a pixel; tips come and go, and slanted texts have large boxes.
OVERLAPS = """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
    const all = [...svg.querySelectorAll('text')].filter(text =>
        text.textContent.trim() && !text.closest('[aria-label=tip]') && !/rotate\\(-?45/.test(text.outerHTML));
    const boxes = all.map(text => text.getBoundingClientRect());
    const found = [];
    boxes.forEach((a, n) => boxes.slice(n + 1).forEach((b, m) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 1) found.push([all[n].textContent, all[n + 1 + m].textContent]);
    }));
    return found;
})"""
# Texts of charts that leave the panel of the chart.
OUTSIDE = """() => [...document.querySelectorAll('.chart svg text')].filter(text => {
    const [inner, outer] = [text, text.closest('.panel')].map(each => each.getBoundingClientRect());
    return inner.width && (inner.left < outer.left || inner.right > outer.right || inner.bottom > outer.bottom);
}).map(text => text.textContent)"""


def at_width(seen, width):
    seen.page.set_viewport_size({"width": width, "height": 900})


def drawn(page):
    """Wait until all charts that can be seen are there and have found their places."""
    page.wait_for_function(
        """() => [...document.querySelectorAll('.chart')].filter(box => !box.closest('details:not([open])'))
        .every(box => Math.abs(box.clientWidth - (box.drawnWidth ?? 0)) <= 2)"""
    )
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


@parametrize_few("width", [1280, 800, 390])
def test_no_view_is_wider_than_the_window_and_texts_of_charts_stand_apart_and_inside(shared, width):
    seen = shared(varied_posterior)
    for address in (*VIEWS, "classes"):
        page = seen.go(address)
        at_width(seen, width)
        drawn(page)
        assert page.evaluate(OVERLAPS) == [], address
        assert page.evaluate(OUTSIDE) == [], address
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
        hidden = "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
        assert width < 800 or page.eval_on_selector_all(".cells", hidden) == 0, "the observed counts can be seen"
    outside = """() => [...document.querySelectorAll('.classlist li')].flatMap(item =>
        [...item.querySelectorAll('dt, dd')].filter(part =>
            part.getBoundingClientRect().right > item.getBoundingClientRect().right))"""
    assert page.evaluate(outside) == []


@pytest.mark.parametrize("step", [0.01, pytest.param(1.0, marks=pytest.mark.slow), 2500.0])
def test_the_title_of_the_traces_stands_off_ticks_of_any_length(opened, step):
    values = payload(posterior(chains=2, draws=9), "Title")
    values["traces"]["logLikelihood"] = [[-736045.0 - step * (5 - n % 6) for n in range(11)] for _ in range(2)]
    seen = opened(values)
    page = seen.go()
    drawn(page)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    ticks = page.locator("#health svg [aria-label='y-axis tick label'] text").all_text_contents()
    assert len(ticks) == len(set(ticks)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("address", ["class/0", "compare/0,1"])
@pytest.mark.parametrize("make", [varied_posterior, retail_posterior])
def test_the_two_columns_end_at_about_the_same_height(shared, make, address):
    seen = shared(make)
    page = seen.go(address)
    drawn(page)
    page.wait_for_selector(".balanced.two")
    ends = page.evaluate(
        """() => { const ends = {};
        for (const panel of document.querySelectorAll('.balanced > .panel')) {
            if (panel.style.gridColumn.includes('/')) continue;
            const box = panel.getBoundingClientRect();
            ends[panel.style.gridColumn] = Math.max(ends[panel.style.gridColumn] ?? 0, box.bottom);
        }
        return Object.values(ends); }"""
    )
    assert len(ends) == 2
    assert abs(ends[0] - ends[1]) < 200
    names = seen.texts(".balanced .panel h2")
    assert names == list(make().tensor.mode_names), "the order for the keyboard is that of the modes"


def test_a_table_that_is_opened_moves_no_panel_to_the_other_column(shared):
    seen = shared(varied_posterior)
    page = seen.go("class/0")
    drawn(page)
    columns = "() => [...document.querySelectorAll('.balanced > .panel')].map(panel => panel.style.gridColumn)"
    before = page.evaluate(columns)
    tall = "() => document.querySelector('.balanced').getBoundingClientRect().height"
    height = page.evaluate(tall)
    page.click(".balanced figure >> nth=3 >> summary")
    page.wait_for_selector(".balanced figure >> nth=3 >> tbody tr")
    drawn(page)
    assert page.evaluate(columns) == before
    assert page.evaluate(tall) >= height
    overlapping = """() => { const boxes = [...document.querySelectorAll('.balanced > .panel')]
        .map(panel => panel.getBoundingClientRect());
        return boxes.some((a, n) => boxes.slice(n + 1).some(b =>
            Math.min(a.right, b.right) > Math.max(a.left, b.left) &&
            Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top))); }"""
    assert not page.evaluate(overlapping)


@pytest.mark.slow
def test_placeholders_are_not_cut(opened):
    names = ("sender of the message", "receiver of the message", "kind of action taken", "time")
    seen = opened(varied_posterior(names=names))
    for address in ("classes", "compare/0", "surprises"):
        seen.go(address)
        for width in (1280, 390):
            at_width(seen, width)
            assert seen.cut_placeholders() == []


def test_sparklines_and_shares_stand_below_one_another(shared):
    seen = shared(varied_posterior)
    lefts = "selector => [...document.querySelectorAll(selector)].map(each => each.getBoundingClientRect().left)"
    page = seen.go("classes")
    assert len(set(page.evaluate(lefts, ".classlist .spark"))) == 1
    assert len(set(page.evaluate(lefts, ".classlist .value"))) == 1
    page = seen.go()
    assert len(set(page.evaluate(lefts, ".largest .value"))) == 1

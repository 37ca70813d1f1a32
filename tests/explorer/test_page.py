"""The page in a real browser, opened from a file with the network off."""

import re
import shutil

import numpy as np
import pytest

import allocore as ac
from allocore.explorer.bundle import bundle
from allocore.explorer.page_file import render
from allocore.explorer.payload import payload
from allocore.run.schedule import Schedule
from explorer.shown_posteriors import chains_apart, showing, varied_posterior
from handmade_posterior import ACTIONS, COUNTRIES, FACTORS, MONTHS, posterior, with_likelihood
from tiers import first_quick

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# As root, and in containers, Chromium runs only without its sandbox; the page under test is our own.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
WICKED = ("<img src=x onerror=alert(1)>", "\"quoted\" & 'so'", "مرحبا 🦊")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, and these tests need a browser"),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Seen:
    """A page that was opened, and everything it asked for or complained of."""

    def __init__(self, browser, path):
        self.context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, color_scheme="light")
        self.page = self.context.new_page()
        self.requests, self.problems, self.path = [], [], path
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "console", lambda said: self.problems.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(dialog.message))

    def go(self, address=""):
        """Show a view. The page is loaded only the first time, as for someone who follows a link."""
        if self.page.url.split("#")[0] != self.path.as_uri():
            self.page.goto(f"{self.path.as_uri()}#/{address}")
            self.page.wait_for_selector("main h1")
        else:
            self.page.evaluate(
                "hash => { history.replaceState(null, '', hash); dispatchEvent(new HashChangeEvent('hashchange')); }",
                f"#/{address}",
            )
        return self.page

    def check(self):
        """Nothing was requested but the file itself, and the browser had no complaint."""
        assert self.problems == []
        assert {url.split("#")[0] for url in self.requests} <= {self.path.as_uri(), "data:,"}

    def texts(self, selector):
        return [" ".join(text.split()) for text in self.page.locator(selector).all_inner_texts()]

    def listed(self, which=".classlist"):
        """The classes of the list; those out of sight are in the page too."""
        return self.page.locator(f"{which} strong").all_text_contents()

    def marks(self, inside=".chart"):
        """What the marks of charts are called."""
        return self.page.eval_on_selector_all(
            f"{inside} svg [aria-label]", "all => all.map(each => each.getAttribute('aria-label'))"
        )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of the run by hand, with two surprising cells."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    ac.write_report(posterior(), path, title="By hand", surprises=2)
    return path


@pytest.fixture(scope="module")
def tab(browser, written):
    tab = Seen(browser, written)
    yield tab
    tab.context.close()


@pytest.fixture
def seen(tab):
    """The page of the run by hand, in a tab that all tests share; it is checked after each of them."""
    yield tab
    tab.check()


@pytest.fixture
def fresh(browser, written):
    """The same page in a tab of its own, with a storage of its own."""
    fresh = Seen(browser, written)
    yield fresh
    fresh.context.close()
    fresh.check()


@pytest.fixture
def opened(browser, tmp_path):
    """Open the page of any posterior, or of a payload; it is checked at the end."""
    pages = []

    def show(shown):
        path = tmp_path / f"{len(pages)}.html"
        values = shown if isinstance(shown, dict) else payload(shown, "Title")
        path.write_text(render(values), encoding="utf-8")
        pages.append(Seen(browser, path))
        return pages[-1]

    yield show
    for each in pages:
        each.context.close()
        each.check()


def test_the_overview_tells_the_run_and_leads_to_the_classes(seen):
    page = seen.go()
    assert page.title() == "Overview – By hand"
    assert "4 classes are held by at least half of the draws of the one chain." in page.inner_text("main")
    assert page.inner_text("#source") == "Shown: consensus of 1 chain, 3 draws"
    assert seen.texts(".largest li")[0] == (
        "40.0% 0: United States → Iraq · Fight · 2003-03 to 2003-04 held by 100% of draws"
    )
    page.click(".largest li:nth-child(2) a")
    page.wait_for_selector("h1:has-text('Class 1')")
    assert seen.texts("h1") == ["Class 1 among United States, Singapore · Consult · 2003-03 to 2003-04"]


def test_a_banner_says_first_whether_the_chains_can_be_trusted_and_leads_to_their_health(opened):
    post = posterior(chains=4, draws=9)
    shown, found = opened(post), post.diagnose()
    page = shown.go()
    verdict, facts = shown.texts(".banner p")
    assert verdict == f"✕ Poor: {found.headline}"
    r_hat = found.table.loc["log-likelihood", "r_hat"]
    assert facts == (
        f"4 chains of 9 draws · R-hat of the log-likelihood {r_hat:.3f} (below 1.01 where chains agree) · "
        "25.00% of the classes moved per sweep · Health of the chains"
    )
    assert page.evaluate("document.querySelector('.banner').getBoundingClientRect().bottom") < 250
    page.click(".banner a")
    page.wait_for_selector("#health:focus")
    top = page.evaluate("document.getElementById('health').getBoundingClientRect().top")
    assert 0 <= top < 900
    assert page.locator("nav [aria-current]").inner_text() == "Overview"
    for word in found.words:
        assert word in page.inner_text("#health")


@pytest.mark.parametrize(
    ("level", "word"),
    [
        ("good", "✓ Good:"),
        pytest.param("caution", "! Caution:", marks=pytest.mark.slow),
        pytest.param("poor", "✕ Poor:", marks=pytest.mark.slow),
    ],
)
def test_the_traffic_light_is_a_word_and_a_colour_that_can_be_read(opened, level, word):
    values = payload(posterior(), "Title")
    values["health"] |= {"level": level, "headline": "A sentence."}
    shown = opened(values)
    page = shown.go()
    assert shown.texts(".banner .verdict") == [f"{word} A sentence."]
    colours = []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        ink, paper = (
            page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}")
            for selector, what in ((".banner .light", "color"), (".banner", "backgroundColor"))
        )
        assert contrast(ink, paper) > 4.5
        colours.append(ink)
    assert colours[0] != colours[1]


def contrast(*colours):
    """The contrast of two colours as the Web Content Accessibility Guidelines define it."""
    light = []
    for colour in colours:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.parametrize("chains", first_quick(1, [4, 1, 8]))
def test_the_traces_have_a_legend_of_chains_and_titles_of_axes(opened, chains):
    shown = opened(posterior(chains=chains, draws=9))
    page = shown.go()
    page.wait_for_selector("#health .chart svg")
    assert shown.texts("#health .legend li") == [*(f"chain {n}" for n in range(chains)), "burn-in shaded"]
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


@pytest.mark.parametrize(
    ("likelihood", "words", "counted"),
    [
        ("poisson", "Poisson likelihood: given the fit", "expected counts"),
        ("negative-binomial", "p 0.5 (0.5 to 0.5 over all draws)", "expected counts"),
        ("bernoulli", "Bernoulli likelihood: a cell is 1", "expected latent counts"),
    ],
)
def test_the_overview_tells_the_likelihood_and_pages_what_is_counted(opened, likelihood, words, counted):
    shown = opened(with_likelihood(posterior(), likelihood))
    shown.go()
    facts = dict(zip(shown.texts(".facts dt"), shown.texts(".facts dd"), strict=True))
    assert words in facts["likelihood"]
    assert ("Concentrations learned" in facts["likelihood"]) == (likelihood != "poisson")
    assert f" {counted}" in shown.go("class/0").inner_text("main")
    assert f"of all {counted}" in shown.go("classes").inner_text("main")


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("Iraq", [0, 2]),
        ("united", [0, 1, 3]),
        ("2003-11", [2]),
        ("france consult", [2, 0]),
        ("zämbia", [2]),
        ("nowhere", []),
    ],
)
def test_search_finds_the_classes_with_heavy_labels(seen, query, numbers):
    page = seen.go()
    page.fill("#query", "")
    page.focus("main")
    page.keyboard.press("/")
    page.keyboard.type(query)
    page.keyboard.press("Enter")
    page.wait_for_selector(".classlist")
    assert sorted(int(text.split()[1]) for text in seen.listed()) == sorted(numbers)


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


def test_a_class_has_stems_for_every_mode_with_the_right_shares(seen):
    page = seen.go("class/0")
    page.wait_for_selector(".chart svg")
    marks = seen.marks()
    assert "United States 90.0% (90.0% to 90.0%)" in marks
    assert "Singapore 10.0% (10.0% to 10.0%)" in marks
    assert "Iraq 80.0% (80.0% to 80.0%)" in marks
    assert "Fight 70.0% (70.0% to 70.0%)" in marks
    assert "Yield" not in " ".join(marks)


def test_every_chart_has_marks_and_a_table_with_the_same_numbers(seen):
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=3 >> .chart svg")
    for figure in page.query_selector_all("figure"):
        assert figure.query_selector_all("svg circle, svg path")
        assert figure.query_selector(".chart").get_attribute("aria-label")
        figure.query_selector("summary").click()
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


def test_from_a_factor_one_gets_to_all_classes_that_share_it(seen):
    page = seen.go("class/0")
    assert seen.texts(".sharing")[0] == "sender #0 ×3 , shared by 3 classes shared with classes 1: 100%, 3: 100%"
    page.click(".sharing >> nth=0 >> .chip")
    page.wait_for_selector("h1 bdi:text-is('sender #0')")
    assert [text.split(":")[0] for text in seen.texts(".classtable tbody th")] == ["0", "1", "3"]
    assert "3 classes share this sender factor and hold 80.0% of all expected counts" in page.inner_text("main")
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
    sharing[0][0, 2] = sharing[0][2, 0] = 0.31
    seen = opened(showing(post, sharing=sharing))
    seen.go("class/0")
    assert seen.texts(".sharing")[0] == (
        "sender #0 ×3 , shared by 3 classes shared with classes 1: 100%, 3: 62%; perhaps shared with class 2: 31%"
    )
    seen.go("factor/0/0")
    assert seen.texts(".classtable tbody tr:nth-child(3) .partner") == ["class 1: 100%", "class 0: 62%"]
    seen.go("compare/0,2,3")
    assert "Probability of the same factor: 0 and 2 31%; 0 and 3 62%; 2 and 3 0%." in seen.texts(".panel")[0]


def test_a_class_lists_its_family_those_that_share_most_first(seen):
    seen.go("class/0")
    assert [text.split(":")[0] for text in seen.texts(".classtable tbody th")] == ["1", "2", "3"]
    assert len(seen.texts(".classtable tbody tr:nth-child(1) td.same")) == 2


def test_a_class_tells_its_name_its_share_and_who_holds_it(opened):
    post = varied_posterior()
    seen = opened(post)
    page = seen.go("class/0")
    low, high = post.class_summary().interval_C2[0]
    assert seen.texts("h1") == ["Class 0 United States → Iraq · Fight · 2003-03 to 2003-04"]
    assert page.inner_text(".lead").startswith("Held by 2 of 2 chains, 100% of draws.")
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
    assert page.inner_text(".lead").startswith("Found again in 2 of 2 chains, 100% of the other draws.")
    assert seen.texts(".sharing")[0] == "sender #0 ×3 , shared by 3 classes shared with classes 1, 3"
    assert "The page shows draw 2 of chain 1. The run has 4 draws in each of 2 chains." in seen.go().inner_text("main")


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
    assert seen.texts(".compared h2") == ["Class 7", "Class 12"]
    page.fill("#add", "France")
    page.click("button:text-is('Add')")
    page.wait_for_selector(".compared >> nth=2")
    assert seen.texts(".compared h2") == ["Class 7", "Class 12", "Class 0"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("12", ["Class 12"]),
        ("class 7", ["Class 7"]),
        ("#0", ["Class 0"]),
        ("france → iraq", ["Class 0"]),
        ("among", ["Class 2"]),
    ],
)
def test_classes_are_found_by_their_number_and_their_name(opened, query, found):
    seen = opened(showing(varied_posterior(), number_C=np.array([7, 2, 0, 12])))
    page = seen.go()
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_selector(".classlist")
    assert seen.listed()[:1] == found


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


@pytest.mark.slow
def test_chains_that_have_nothing_in_common_are_told_so(opened):
    seen = opened(chains_apart())
    assert "The chains have no class in common." in seen.go().inner_text("main")
    assert "A report of a single draw shows its classes" in seen.page.inner_text("main")
    seen.go("classes")
    seen.go("compare/")
    assert seen.go("class/0").inner_text("h1") == "Not found"


def test_classes_are_compared_side_by_side(seen):
    page = seen.go("compare/0,1,3")
    page.wait_for_selector(".chart svg")
    assert seen.texts(".compared h2") == ["Class 0", "Class 1", "Class 3"]
    assert seen.texts(".panel .samemark") == ["All use the same factor: sender #0 ×3 , shared by 3 classes"]
    page.click(".compared >> nth=2 >> text=remove")
    page.wait_for_selector(".compared >> nth=2", state="detached")
    assert seen.texts(".compared h2") == ["Class 0", "Class 1"]
    page.fill("#add", "2")
    page.click("button:text-is('Add')")
    page.wait_for_selector(".compared >> nth=2")
    assert seen.texts(".compared h2") == ["Class 0", "Class 1", "Class 2"]


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


def test_keys_lead_through_the_classes(seen):
    page = seen.go("class/0")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h1:has-text('Class 1')")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("h1:has-text('Class 0')")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("c")
    page.wait_for_selector("h1:text-is('Compare')")
    page.goto(seen.path.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.inner_text("h1") == "Overview"


def test_dark_and_light_can_be_chosen_and_the_choice_is_kept(fresh):
    page = fresh.go()
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.click("#theme")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert light != dark
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark


@pytest.mark.slow
def test_a_label_that_is_part_of_another_is_found_alone(opened):
    seen = opened(posterior(labels=(COUNTRIES, ("Niger", "Nigeria", "Chad", "Mali", "Togo"), ACTIONS, MONTHS)))
    seen.go("classes?q=niger")
    assert seen.listed() == ["Class 0", "Class 2"], "France is Niger here, with 20% of a factor"
    assert "receiver 20%" in seen.texts(".matched")[0]
    seen.go("classes?m1=Nigeria")
    assert "receiver" not in " ".join(seen.texts(".matched"))
    assert seen.listed() == ["Class 0", "Class 2"]


def test_a_label_leads_to_the_classes_that_have_it_in_that_mode(seen):
    page = seen.go("class/1")
    page.wait_for_selector(".chart svg")
    page.click("figure >> nth=1 >> summary")
    page.click("figure >> nth=1 >> tbody a >> nth=0")
    page.wait_for_selector(".classlist")
    assert page.url.endswith("#/classes?m1=United+States")
    assert seen.listed() == ["Class 1"]


@pytest.mark.parametrize(
    "address", ["class/length", "factor/length/0", "factor/at/1", "%", "%E0%A4%A", "class/", "class/99", "nonsense"]
)
def test_an_address_that_leads_nowhere_says_so_and_leads_back(seen, address):
    page = seen.go(address)
    assert page.inner_text("h1") == "Not found"
    assert page.locator("nav a").count() == 4
    page.click("text=Go to the overview")
    page.wait_for_selector("h1:text-is('Overview')")


@pytest.mark.parametrize(
    ("address", "heading", "holds"),
    [
        ("", "Overview", ".largest li"),
        ("main", "Overview", ".largest li"),
        ("classes", "Classes", ".classlist strong"),
        ("classes?q=Iraq&sort=peak", "Classes", ".matched"),
        ("class/1", "Class 1: among United States, Singapore · Consult · 2003-03 to 2003-04", ".chart svg"),
        ("compare/0,1,3", "Compare", ".chart svg"),
        ("factor/0/0", "sender #0", ".classtable tbody tr"),
        ("surprises", "Surprises", "tbody tr"),
        ("class/99", "Not found", "a:text-is('Go to the overview')"),
    ],
)
def test_every_view_can_be_loaded_by_its_address(fresh, address, heading, holds):
    page = fresh.page
    page.goto(f"{fresh.path.as_uri()}#/{address}")
    page.wait_for_selector(f"main >> {holds} >> nth=0")
    assert page.title() == f"{heading} – By hand"
    assert page.locator("#nav a[aria-current='page']").count() == (heading in fresh.texts("#nav a"))


def test_the_skip_link_keeps_the_address(seen):
    page = seen.go("class/1")
    page.focus(".skip")
    page.keyboard.press("Enter")
    assert page.url.endswith("#/class/1")
    assert page.evaluate("document.activeElement.id") == "main"


def test_labels_of_strangers_are_text_and_nothing_else(opened):
    seen = opened(
        posterior(labels=(COUNTRIES, COUNTRIES, WICKED, MONTHS), names=("<b>who</b>", "to", "what & 'why'", "when"))
    )
    page = seen.go("class/0")
    page.wait_for_selector(".chart svg")
    assert page.locator("main img, main b").count() == 0
    assert WICKED[1] in page.inner_text("h1")
    assert WICKED[1] in " ".join(seen.texts(".cells tbody td"))
    assert seen.texts(".panel h2")[1] == "<b>who</b>"
    for address in ("", "classes", "compare/0,1", "factor/2/0"):
        seen.go(address)
        assert page.locator("main img").count() == 0


@pytest.mark.slow
def test_names_in_any_script_are_searched_for(opened):
    seen = opened(posterior(labels=(COUNTRIES, COUNTRIES, ("Consult", "مرحبا 🦊", "שלום"), MONTHS)))
    page = seen.go()
    page.fill("#query", "مرحبا")
    page.press("#query", "Enter")
    page.wait_for_selector(".classlist")
    assert seen.listed() == ["Class 0"]


@pytest.mark.slow
def test_a_mode_of_a_hundred_thousand_labels_shows_its_heaviest(opened, long_payload):
    seen = opened(long_payload)
    page = seen.go("class/0")
    page.wait_for_selector(".chart svg")
    assert re.search(r"The heaviest of 100,000 labels; they hold \d+\.\d%", page.inner_text("main"))


@pytest.mark.slow
def test_classes_of_one_element_and_modes_of_one_label_are_drawn(opened):
    seen = opened(posterior([[[1.0]], [[0.0, 1.0, 0.0]]], [(0, 0)], [3.0], labels=None, names=("one", "three")))
    page = seen.go("class/0")
    page.wait_for_selector("figure >> nth=1 >> .chart svg")
    assert "used by this class alone" in page.inner_text("main")
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
    assert "too small to tell" in page.inner_text("main")
    seen.go("compare/0,1")
    seen.go("")


def test_modules_keep_their_private_names_apart(browser):
    sources = {
        "app.js": 'import { told } from "./other.js";\nconst name = "app";\ndocument.title = `${name} and ${told()}`;',
        "other.js": 'const name = "other";\nexport const told = () => name;',
    }
    page = browser.new_page()
    page.evaluate(bundle(sources, "app.js"))
    assert page.title() == "app and other"
    page.close()


def test_a_run_that_is_not_finished_says_so(opened):
    post = posterior()
    unfinished = type(post)(type(post.record)(**{**vars(post.record), "schedule": Schedule(2, 10, 1)}))
    page = opened(unfinished).go()
    assert "This run is not finished" in page.inner_text("main")

"""The page as a whole: addresses, keys, themes, and labels of strangers."""

from allocore.report.page.page import bundle
from support.browser_tab import needs_browser
from support.handmade_posterior import COUNTRIES, MONTHS, posterior
from support.tiers import parametrize_few

WICKED = ("<img src=x onerror=alert(1)>", "\"quoted\" & 'so'", "مرحبا 🦊")
pytestmark = needs_browser


def test_keys_lead_through_the_classes(seen):
    page = seen.go("class/0")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h1:has-text('Class 1')")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("h1:has-text('Class 0')")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("c")
    page.wait_for_selector("h1:text-is('Compare')")


def test_the_first_key_leads_to_a_link_to_the_content_which_keeps_the_address(seen):
    page = seen.page
    page.goto("about:blank")
    page.goto(f"{seen.path.as_uri()}#/class/1")
    page.wait_for_selector("main h1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("#/class/1")
    assert page.inner_text("h1").startswith("Class 1")


def test_dark_and_light_can_be_chosen_and_the_choice_is_kept(fresh):
    page = fresh.go()
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.click("#theme")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert light != dark
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark


def test_an_address_that_leads_nowhere_says_so_and_leads_back(seen):
    for address in (
        "class/length",
        "factor/length/0",
        "factor/at/1",
        "%",
        "%E0%A4%A",
        "class/",
        "class/99",
        "nonsense",
    ):
        page = seen.go(address)
        assert page.inner_text("h1") == "Not found", address
        assert page.locator("nav a").count() == 6
    page.click("text=Go to the overview")
    page.wait_for_selector("h1:text-is('Overview')")


VIEWS = {
    "class/1": ("Class 1: among United States, Singapore · Consult · 2003-03 to 2003-04", ".chart svg"),
    "classes?q=Iraq&sort=peak": ("Classes", ".matched"),
    "main": ("Overview", ".largest li"),
    "compare/0,1,3": ("Compare", ".chart svg"),
    "factor/0/0": ("sender #0", ".classtable tbody tr"),
    "surprises": ("Surprises", "tbody tr"),
    "forecast": ("Forecast", ".chart svg"),
    "class/99": ("Not found", "a:text-is('Go to the overview')"),
}


def check_view(seen, address):
    """The view is there, in the title of the page and marked in its navigation."""
    heading, holds = VIEWS[address]
    seen.page.wait_for_selector(f"main >> {holds} >> nth=0")
    assert seen.page.title() == f"{heading} – By hand"
    assert seen.page.locator("#nav a[aria-current='page']").count() == (heading in seen.texts("#nav a"))


def test_every_view_has_a_title_and_is_marked_in_the_navigation(seen):
    for address in VIEWS:
        seen.go(address)
        check_view(seen, address)


@parametrize_few("address", VIEWS)
def test_every_view_can_be_loaded_by_its_address(seen, address):
    seen.page.goto("about:blank")
    seen.page.goto(f"{seen.path.as_uri()}#/{address}")
    check_view(seen, address)


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


def test_modules_keep_their_private_names_apart(browser):
    sources = {
        "app.js": 'import { told } from "./other.js";\nconst name = "app";\ndocument.title = `${name} and ${told()}`;',
        "other.js": 'const name = "other";\nexport const told = () => name;',
    }
    page = browser.new_page()
    page.evaluate(bundle(sources, "app.js"))
    assert page.title() == "app and other"
    page.close()

"""What all files of this folder share: a browser, the page of a run by hand, and a run with a very long mode."""

import pytest

import allocore as ac
from allocore.report.page.page import render
from allocore.report.page.payload import payload
from support.browser_tab import CHROMIUM, FLAGS, WINDOW, Seen, new_context
from support.handmade_posterior import large_posterior, posterior


@pytest.fixture(scope="session")
def long_posterior():
    labels = [[f"a label with the number {n}" for n in range(100_000)], None]
    return large_posterior((100_000, 3), 12, labels=labels)


@pytest.fixture(scope="session")
def long_payload(long_posterior):
    return payload(long_posterior, "Long")


@pytest.fixture(scope="package")
def browser():
    """Closed before tests of other folders: while it is open, nothing else can run an event loop in this thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def context(browser):
    """The profile of all tabs but `fresh`."""
    return new_context(browser)


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The page of the run by hand, with two surprising cells."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    ac.write_report(posterior(), path, title="By hand", surprises=2)
    return path


@pytest.fixture(scope="package")
def tab(context, written):
    return Seen(context, written)


@pytest.fixture
def seen(tab):
    """The page of the run by hand, in a tab that all tests share; it is checked after each of them."""
    tab.page.bring_to_front()  # a tab in the background takes seconds for a click
    yield tab
    tab.check()


@pytest.fixture
def fresh(browser, written):
    """The same page in a tab of its own, with a storage of its own."""
    own = new_context(browser)
    fresh = Seen(own, written)
    yield fresh
    own.close()
    fresh.check()


def open_page(context, path, shown):
    values = shown if isinstance(shown, dict) else payload(shown, "Title")
    path.write_text(render(values), encoding="utf-8")
    return Seen(context, path)


@pytest.fixture(scope="package")
def tabs(context, tmp_path_factory):
    """Tabs that tests share, by the function that makes the posterior."""
    folder, tabs = tmp_path_factory.mktemp("tabs"), {}

    def show(make):
        if make not in tabs:
            tabs[make] = open_page(context, folder / f"{len(tabs)}.html", make())
        return tabs[make]

    return show


@pytest.fixture
def shared(tabs):
    """Open the page of a posterior once for all tests that name its function; checked after each of them."""
    used = []

    def show(make):
        used.append(tabs(make))
        used[-1].page.bring_to_front()
        used[-1].page.set_viewport_size(WINDOW)
        return used[-1]

    yield show
    for each in used:
        each.check()


@pytest.fixture
def opened(context, tmp_path):
    """Open the page of any posterior, or of a payload; it is checked at the end."""
    pages = []

    def show(shown):
        pages.append(open_page(context, tmp_path / f"{len(pages)}.html", shown))
        return pages[-1]

    yield show
    for each in pages:
        each.page.close()
        each.check()

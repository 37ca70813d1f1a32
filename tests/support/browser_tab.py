"""The page in a real browser, opened from a file with the network off."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# As root, and in containers, Chromium runs only without its sandbox; the page under test is our own.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--process-per-site",  # tabs of one context share a process, which takes less time than one for each
]
WINDOW = {"width": 1280, "height": 900}

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, and these tests need a browser")


def new_context(browser):
    """A profile of its own, without a network."""
    return browser.new_context(offline=True, viewport=WINDOW, color_scheme="light")


class Seen:
    """A page that was opened, and everything it asked for or complained of."""

    def __init__(self, context, path):
        self.page = context.new_page()
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

    def cut_placeholders(self):
        """The placeholders that are wider than their fields."""
        return self.page.evaluate("""() => [...document.querySelectorAll('input[placeholder]')].filter(input => {
            const style = getComputedStyle(input), ruler = document.createElement('canvas').getContext('2d');
            ruler.font = style.font;
            const room = input.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
            return ruler.measureText(input.placeholder).width > room;
        }).map(input => input.placeholder)""")

    def marks(self, inside=".chart"):
        """What the marks of charts are called."""
        return self.page.eval_on_selector_all(
            f"{inside} svg [aria-label]", "all => all.map(each => each.getAttribute('aria-label'))"
        )

"""Check every page of a built site with axe-core, by the rules of WCAG 2.2 A and AA, in Chromium without a network.

A page may not be wider than a phone either. Without Chromium nothing is checked, and a line says so.

Usage: python scripts/check_accessibility.py FOLDER
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
_WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_COLOURS = ["color-contrast", "link-in-text-block"]  # all that differs in the dark
_AXE = Axe()
# By how many pixels a page scrolls sideways, and which element, outside of boxes that scroll, ends furthest right.
_OVERHANG = """() => {
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (over <= 0) return null;
    const boxed = (each) => each && (/auto|scroll/.test(getComputedStyle(each).overflowX) || boxed(each.parentElement));
    const all = [...document.body.querySelectorAll('*')].filter(each => !boxed(each.parentElement));
    const right = (each) => each.getBoundingClientRect().right;
    const widest = all.reduce((a, b) => (right(b) > right(a) ? b : a));
    return `${over} px wider than a phone, because of ${widest.outerHTML.slice(0, 120)}`;
}"""


def violations(page: Page, rules: Sequence[str] = _WCAG) -> list[str]:
    """One line for each element of the page, as it is shown now, that breaks a rule."""
    found = _AXE.run(page, options={"runOnly": list(rules), "resultTypes": ["violations"]}).response["violations"]
    return [f"{rule['id']}: {rule['help']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]


def overhang(page: Page) -> list[str]:
    """One line if the page must be scrolled sideways on a phone."""
    page.set_viewport_size(PHONE)
    found = page.evaluate(_OVERHANG)
    page.set_viewport_size(WIDE)
    return [found] if found else []


def faults(folder: Path) -> Iterator[str]:
    """One line for each fault of each page, in the light and in the dark theme."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(offline=True, viewport=WIDE, reduced_motion="reduce").new_page()
        for path in sorted(folder.rglob("*.html")):
            if "_static" in path.parts:
                continue
            page.goto(path.resolve().as_uri())
            found = [*violations(page), *overhang(page)]
            page.evaluate("document.documentElement.dataset.theme = 'dark'")
            found += [f"dark: {fault}" for fault in violations(page, _COLOURS)]
            yield from (f"{path.relative_to(folder)}: {fault}" for fault in found)
        browser.close()


def main() -> None:
    """Print the faults; exit with 1 if there are any."""
    if CHROMIUM is None:
        print("SKIPPED: Chromium is not installed, so accessibility was not checked")
        return
    found = []
    for fault in faults(Path(sys.argv[1])):
        print(fault, flush=True)
        found.append(fault)
    if found:
        sys.exit(f"{len(found)} faults of accessibility in {sys.argv[1]}")
    print("Accessibility: axe-core finds no fault, light or dark, and no page is wider than a phone")


if __name__ == "__main__":
    main()

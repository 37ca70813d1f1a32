"""Check every page of a built site with axe-core, by the rules of WCAG 2.2 A and AA, in Chromium without a network.

A page may not be wider than a phone either. Without Chromium nothing is checked, and a line says so.

Usage: python scripts/check_accessibility.py FOLDER
"""

import shutil
import sys
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
_RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    "resultTypes": ["violations"],
}
# By how many pixels a page can be scrolled sideways, and which element ends furthest to the right.
_OVERHANG = """() => {
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (over <= 0) return null;
    const all = [...document.body.querySelectorAll('*')].map(each => [each.getBoundingClientRect().right, each]);
    const [, widest] = all.reduce((a, b) => (b[0] > a[0] ? b : a));
    return `${over} px wider than a phone, because of ${widest.outerHTML.slice(0, 120)}`;
}"""


def violations(page: Page) -> list[str]:
    """One line for each element of the page, as it is shown now, that breaks a rule."""
    found = Axe().run(page, options=_RULES).response["violations"]
    return [f"{rule['id']}: {rule['help']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]


def overhang(page: Page) -> list[str]:
    """One line if the page must be scrolled sideways on a phone."""
    page.set_viewport_size(PHONE)
    found = page.evaluate(_OVERHANG)
    page.set_viewport_size(WIDE)
    return [found] if found else []


def faults(folder: Path) -> list[str]:
    """One line for each fault of each page, in the light and in the dark theme."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            settings = {"offline": True, "viewport": WIDE, "color_scheme": scheme, "reduced_motion": "reduce"}
            page = browser.new_context(**settings).new_page()
            for path in paths:
                page.goto(path.resolve().as_uri())
                each = violations(page) + (overhang(page) if scheme == "light" else [])
                found += [f"{path.relative_to(folder)}, {scheme}: {fault}" for fault in each]
        browser.close()
    return found


def main() -> None:
    """Print the faults; exit with 1 if there are any."""
    if CHROMIUM is None:
        print("SKIPPED: Chromium is not installed, so accessibility was not checked")
        return
    found = faults(Path(sys.argv[1]))
    print("\n".join(found))
    if found:
        sys.exit(f"{len(found)} faults of accessibility in {sys.argv[1]}")
    print("Accessibility: axe-core finds no fault, light or dark, and no page is wider than a phone")


if __name__ == "__main__":
    main()

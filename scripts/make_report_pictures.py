"""Take the pictures of the report, for the README and the site: its overview, and one of its classes.

Usage: python scripts/make_report_pictures.py demo/flights.html docs      (needs Chromium)
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

# Each picture: its name, the view, its height, and what is drawn last.
PICTURES = (
    ("report.png", "", 760, ".panel .chart svg"),
    ("explorer.png", "class/1", 960, "figure >> nth=4 >> .chart svg"),
)


def main(page_file: str, folder: str) -> None:
    """Open the page at each view and take its picture."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, view, height, last in PICTURES:
            page = browser.new_page(viewport={"width": 1180, "height": height}, color_scheme="light")
            page.goto(f"{Path(page_file).resolve().as_uri()}#/{view}")
            page.wait_for_selector(last)
            page.screenshot(path=Path(folder) / name)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Take the picture of the explorer for the README: a class of the flights demo, and the classes that share its factors.

Usage: python scripts/make_explorer_picture.py docs/explorer.png      (needs Chromium)
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

import allocore as ac

SIZE = {"width": 1180, "height": 960}


def main(target: str) -> None:
    """Fit the model, write the page, open it and take the picture."""
    model = ac.AlloCore(40, seed=1)
    post = model.fit(ac.load_flights()).posterior_
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = ac.write_report(post, Path(folder) / "report.html", title="Flights from New York, 2013")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        number = most_shared(post)
        page.goto(f"{page_file.as_uri()}#/class/{number}")
        page.wait_for_selector("figure >> nth=4 >> .chart svg")
        page.screenshot(path=target)
        browser.close()


def most_shared(post: ac.Posterior) -> int:
    """The number of the one of the twelve largest consensus classes whose factors are shared most."""
    summary = post.class_summary()
    modes = range(len(summary.modes))
    shared = [sum(len(summary.partners(place, mode)) for mode in modes) for place in range(min(12, len(summary.names)))]
    return int(summary.number_C[shared.index(max(shared))])


if __name__ == "__main__":
    main(sys.argv[1])

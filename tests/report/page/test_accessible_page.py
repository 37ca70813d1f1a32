"""Axe-core finds no fault in any view of the page, in the light and in the dark theme, nor on a phone."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from allocore.report.page.payload import payload
from support import forecast_cases
from support.browser_tab import WINDOW, needs_browser
from support.shown_posteriors import chains_apart, varied_posterior
from support.tiers import by_tier

pytestmark = needs_browser

SCRIPT = Path(__file__).parents[3] / "scripts" / "check_accessibility.py"
SIZES = {"window": WINDOW, "phone": {"width": 390, "height": 844}}
VIEWS = ("", "classes", "class/0", "compare/0,1", "factor/0/0", "nodes", "nodes?node=United+States", "surprises")


@pytest.fixture(scope="module")
def violations():
    return runpy.run_path(str(SCRIPT))["violations"]


def masked():
    return varied_posterior(masked=True)


def faults(violations, seen, address):
    """The faults of a view, with all that can be opened open."""
    page = seen.go(address)
    page.wait_for_selector("main h1")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
    return [f"{address}: {fault}" for fault in violations(page)]


@pytest.mark.parametrize(
    ("size", "theme"), by_tier([("window", "light"), ("phone", "dark")], ("window", "phone"), ("light", "dark"))
)
def test_no_view_has_a_fault(shared, violations, size, theme):
    seen = shared(masked)
    seen.go().evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    seen.page.set_viewport_size(SIZES[size])
    found = [fault for address in VIEWS for fault in faults(violations, seen, address)]
    seen.page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert found == []


def test_a_page_with_all_views_is_not_wider_than_a_phone(opened):
    page = opened(varied_posterior()).go()
    page.evaluate("() => { for (let n = 0; n < 4; n++) nav.append(nav.lastChild.cloneNode(true)); }")
    assert runpy.run_path(str(SCRIPT))["overhang"](page) == []


def test_nor_do_chains_that_disagree_and_a_forecast(opened, violations):
    post = forecast_cases.fitted(forecast_cases.tensor())
    forecast = opened(payload(post, "Title", forecast=post.forecast(2)))
    assert faults(violations, forecast, "forecast") == []
    assert faults(violations, opened(chains_apart()), "") == []


def test_a_fault_is_found(opened, violations):
    seen = opened(chains_apart())
    page = seen.go()
    page.evaluate(
        "document.querySelector('#query').labels[0].remove(); document.querySelector('#query').placeholder = ''"
    )
    page.evaluate("document.querySelector('main h1').style.color = '#ddd'")
    assert {fault.split(":")[0] for fault in violations(page)} >= {"label", "color-contrast"}


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("<main><h1>Good</h1></main>", set()),
        ("<main><h1>Picture</h1><img src='data:,'></main>", {"image-alt"}),
        ("<main style='width: 900px'><h1>Wide</h1></main>", {"510 px wider than a phone, because of <main style"}),
    ],
)
def test_faults_of_a_site_are_named(tmp_path, body, faults):
    page = f"<!DOCTYPE html><html lang='en'><head><title>T</title></head><body style='margin: 0'>{body}</body></html>"
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    found = [line.removeprefix("index.html: ") for line in done.stdout.splitlines() if line.startswith("index.html: ")]
    assert {re.split("[:=]", line)[0] for line in found} == faults
    assert done.returncode == bool(faults)

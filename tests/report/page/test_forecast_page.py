"""The forecast on the page: the total, the largest classes, what the bands mean, and the numbers as a table."""

from allocore.report.page.payload import payload
from support import forecast_cases
from support.browser_tab import needs_browser
from support.findings import warned

pytestmark = needs_browser


def test_the_total_and_the_classes_have_a_past_a_future_and_a_legend(opened):
    post = forecast_cases.fitted(forecast_cases.tensor())
    forecast = post.forecast(2)
    seen = opened(payload(post, "Title", forecast=forecast))
    page = seen.go("forecast")
    page.wait_for_selector(".panel >> nth=2 >> .chart svg")
    names = [f"Class {number}: {name}" for number, name in enumerate(post.consensus().names)]
    assert seen.texts(".panel h2") == ["The total of all cells", *names]
    assert seen.texts(".legend >> nth=0 >> li") == ["counts", "median of the forecast", "50% interval", "90% interval"]
    assert seen.texts(".legend >> nth=1 >> li")[-2:] == ["forecast", "its 90% interval"]
    page.click(".panel >> nth=0 >> summary")
    page.wait_for_selector(".panel >> nth=0 >> tbody tr")
    rows = seen.texts(".panel >> nth=0 >> tbody tr")
    assert len(rows) == 14
    assert rows[-1].startswith("2018-08")
    page.click(".panel >> nth=1 >> h2 a")
    page.wait_for_selector("h1:has-text('Class 0')")


def test_incomplete_periods_are_hollow_points(opened):
    post = forecast_cases.with_incomplete(forecast_cases.fitted(forecast_cases.tensor()), {"2018-06": (12, 30)})
    with warned("incomplete-past", periods={"2018-06": (12, 30)}):
        forecast = post.forecast(2)
    seen = opened(payload(post, "Title", forecast=forecast))
    page = seen.go("forecast")
    page.wait_for_selector(".panel >> nth=0 >> .chart svg .incomplete circle")
    assert "○counts of an incomplete period" in seen.texts(".legend >> nth=0 >> li")
    page.click(".panel >> nth=0 >> summary")
    page.wait_for_selector(".panel >> nth=0 >> tbody tr")
    assert seen.texts(".panel >> nth=0 >> tbody tr")[11].strip().endswith("(incomplete)")


def test_a_page_without_a_forecast_has_no_such_view(opened):
    seen = opened(payload(forecast_cases.fitted(forecast_cases.tensor()), "Title"))
    seen.go("forecast")
    assert "Forecast" not in seen.texts("#nav a")
    assert seen.texts("h1") == ["Not found"]

"""The classes over time: their expected counts, the forecast that continues them, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

import allocore as ac
from support.errors import refused
from support.figure_cases import boxes, cut_texts, drawable_posterior, some_factors
from support.findings import warned
from support.forecast_cases import MONTHS, fitted, tensor, with_incomplete
from support.handmade_posterior import posterior


@pytest.fixture(scope="module")
def post():
    return fitted(tensor().mask(month=MONTHS[2]))


@pytest.fixture(scope="module")
def forecast(post):
    return post.forecast(2)


def drawn(panel, gid):
    (line,) = [line for line in panel.lines if line.get_gid() == gid]
    return line.get_ydata()


def test_a_panel_has_the_expected_counts_of_a_class_with_a_gap_where_nothing_was_observed(post):
    summary = post.class_summary()
    figure = ac.figures.over_time(post)
    assert len(figure.panels) == len(summary.names)
    for panel, place in zip(figure.panels, summary.apart_last, strict=True):
        past = drawn(panel, "past")
        assert np.flatnonzero(np.isnan(past)).tolist() == [2]
        assert np.nansum(past) == pytest.approx(summary.value_C[place])


def test_the_forecast_is_attached_to_the_last_period(post, forecast):
    figure = ac.figures.over_time(post, [0], forecast=forecast)
    coming, expected = drawn(figure.panels[0], "coming"), forecast.by_class()
    assert coming[0] == drawn(figure.panels[0], "past")[-1]
    np.testing.assert_allclose(coming[1:], expected[expected["class"] == 0]["expected"])
    assert "the forecast of 2018-07 to 2018-08" in figure.caption


@pytest.mark.parametrize("classes", [[0], [0, 1]])
def test_the_legend_fits_into_a_figure_of_few_classes(post, forecast, classes):
    figure = ac.figures.over_time(post, classes, forecast=forecast)
    assert "its 90% interval" in [text for text, _ in boxes(figure)]
    assert cut_texts(figure) == []


def test_ticks_of_hours_stay_within_their_panels():
    hours = tuple(f"2026-03-{2 + hour // 24:02d} {hour % 24:02d}:00" for hour in range(8, 40))
    who, what, _ = some_factors()
    labels = (tuple("abcdef"), tuple("xyz"), hours)
    hourly = drawable_posterior([who, what, np.full((32, 2), 1 / 32)], labels=labels)
    for figure in (ac.figures.over_time(hourly), ac.figures.classes(hourly)):
        shown = [(text, box) for text, box in boxes(figure) if text in ("2 Mar 08:00", "3 Mar 15:00")]
        assert len(shown) == 6
        assert cut_texts(figure) == []
        for (_, one), (_, other) in pairwise(shown):
            assert not one.overlaps(other)


def test_incomplete_periods_are_hollow_points_and_the_forecast_begins_before_them(post):
    cut_off = with_incomplete(post, {MONTHS[-1]: (12, 30)})
    with warned("incomplete-past", periods={MONTHS[-1]: (12, 30)}):
        figure = ac.figures.over_time(cut_off, [0], forecast=cut_off.forecast(1))
    lines = {line.get_gid(): line for line in figure.panels[0].lines}
    assert lines["incomplete"].get_xdata().tolist() == [11]
    assert np.isnan(lines["past"].get_ydata()[11])
    assert lines["coming"].get_xdata().tolist() == [10, 12]
    assert lines["coming"].get_ydata()[0] == lines["past"].get_ydata()[10]


def test_the_classes_of_a_forecast_add_up_to_the_rates_of_its_paths(post, forecast):
    # Two classes and no missing cells but one month: the classes of a draw have all its counts.
    table = forecast.by_class().groupby("month")["expected"].sum()
    whole = [forecast.predict({"month": period})["expected"][0] for period in forecast.periods]
    np.testing.assert_allclose(table.to_numpy(), whole, rtol=0.3)
    assert (forecast.by_class()["low"] <= forecast.by_class()["high"]).all()


def test_stacked_classes_add_up_to_the_expected_counts_of_all_of_them(post, forecast):
    figure = ac.figures.over_time(post, [0], kind="stacked", forecast=forecast)
    names = [text.get_text().replace("\n", " ") for text in figure.axes[0].texts if text.get_gid() == "class name"]
    assert names == [f"0: {post.consensus().names[0]}", "1 other classes"]
    summary = post.class_summary()
    months = [profiles.share_D for profiles in summary.profiles[2]]
    highest = np.nanmax(sum(value * share for value, share in zip(summary.value_C, months, strict=True)))
    assert figure.panels[0].get_ylim()[1] >= highest


def test_bands_have_a_legend_and_a_single_draw_has_no_bands(post):
    for draw, bands in ((None, 1), ("best", 0)):
        sheet = ac.figures.over_time(post, draw=draw).axes[0]
        words = [text.get_text() for text in sheet.texts if text.get_gid() == "legend"]
        assert words.count("90% interval") == bands


def test_names_are_written_in_full(post):
    sheet = ac.figures.over_time(post).axes[0]
    titles = [text.get_text().replace("\n", " ") for text in sheet.texts if text.get_gid() == "class name"]
    assert titles == [f"{number}: {name}" for number, name in enumerate(post.consensus().names)]


def test_it_draws_into_given_axes(post):
    ax = Figure(figsize=(6, 4)).add_subplot()
    assert ac.figures.over_time(post, ax=ax) is ax


def test_what_cannot_be_drawn_is_refused(post, forecast):
    with refused("kind", "pie", rule="stacked"):
        ac.figures.over_time(post, kind="pie")
    with refused("mode"):
        ac.figures.over_time(posterior(labels=None))
    with refused("mode", "who", rule="month"):
        ac.figures.over_time(post, mode="who", forecast=forecast)
    with refused("forecast"):
        ac.figures.over_time(post, draw="best", forecast=forecast)

"""PPD against budget and seconds: medians, quartiles, names, and tables that will not do."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from allocore import figures
from support.errors import refused
from support.figure_cases import all_texts


def table(models=("ALL0CORE", "CP"), budgets=(10, 40, 160), splits=5):
    rng = np.random.default_rng(0)
    keys = [(model, budget, split) for model in models for budget in budgets for split in range(splits)]
    data = pd.DataFrame(keys, columns=["model", "budget", "split"])
    noise = rng.normal(size=(2, len(data)))
    return data.assign(
        log_ppd=noise[0], log_ppd_positive=noise[1] - 9, seconds=data["budget"] * rng.uniform(1, 2, len(data))
    )


def drawn(ax):
    """Of every model its points and its bars up and down."""
    return {
        container.get_label(): (container.lines[0].get_xydata(), [bars.get_segments() for bars in container.lines[2]])
        for container in ax.containers
    }


@pytest.mark.parametrize(("positive", "column"), [(False, "log_ppd"), (True, "log_ppd_positive")])
def test_points_are_medians_and_bars_reach_from_quartile_to_quartile(positive, column):
    data = table()
    found = drawn(figures.ppd(data.sample(frac=1, random_state=0), positive=positive).axes[0])
    assert set(found) == {"ALL0CORE", "CP"}
    for model, (points, (bars,)) in found.items():
        groups = data[data["model"] == model].groupby("budget")[column]
        assert points == pytest.approx(np.column_stack([groups.median().index, groups.median()]))
        for bar, (_, group) in zip(bars, groups, strict=True):
            assert bar[:, 1] == pytest.approx(np.quantile(group, [0.25, 0.75]))


def test_against_seconds_points_are_medians_of_both_with_bars_of_both():
    data = table()
    ax = figures.ppd(data, against="seconds").axes[0]
    points, (across, up) = drawn(ax)["CP"]
    groups = data[data["model"] == "CP"].groupby("budget")
    assert points == pytest.approx(groups[["seconds", "log_ppd"]].median().to_numpy())
    assert across[0][:, 0] == pytest.approx(np.quantile(groups.get_group(10)["seconds"], [0.25, 0.75]))
    assert up[2][:, 1] == pytest.approx(np.quantile(groups.get_group(160)["log_ppd"], [0.25, 0.75]))
    assert {"10", "160"} <= set(all_texts(ax))
    assert "seconds" in ax.get_xlabel()


def test_models_differ_by_colour_and_by_marker_and_kinds_of_core_by_line():
    data = pd.concat([table(("A", "B")).assign(core="small"), table(("A",)).assign(core="large")])
    ax = figures.ppd(data).axes[0]
    lines = {container.get_label(): container.lines[0] for container in ax.containers}
    assert list(lines) == ["A, small", "B, small", "A, large"]
    assert len({line.get_marker() for line in lines.values()}) == 3
    assert lines["A, small"].get_color() == lines["A, large"].get_color() != lines["B, small"].get_color()
    assert lines["A, small"].get_linestyle() != lines["A, large"].get_linestyle()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(lines)


def test_a_core_that_is_missing_for_some_is_no_name():
    data = pd.concat([table(("CP",)).assign(core=None), table(("A",)).assign(core="2x2")])
    assert list(drawn(figures.ppd(data).axes[0])) == ["CP", "A, 2x2"]


def test_the_axis_names_the_budgets():
    ax = figures.ppd(table()).axes[0]
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == [10, 40, 160]
    assert figures.ppd(table(budgets=(10, 20))).axes[0].get_xscale() == "linear"
    crowded = figures.ppd(table(budgets=tuple(range(100, 200)), splits=1)).axes[0]
    assert 2 < len(crowded.get_xticks()) < 40


def test_the_figure_says_of_how_many_splits_it_tells():
    assert "medians and quartiles of 5 splits" in all_texts(figures.ppd(table()).axes[0])
    alone = figures.ppd(table(("A",), (3,), 1)).axes[0]
    assert "one split" in all_texts(alone)
    assert alone.get_legend() is None, "one model needs no key"


def test_rows_without_numbers_are_left_out():
    data = table(("A",), (3,), 3)
    data.loc[0, "log_ppd"] = np.nan
    data.loc[1, "log_ppd"] = np.inf
    points, _ = drawn(figures.ppd(data).axes[0])["A"]
    assert points.tolist() == [[3.0, data["log_ppd"][2]]]


def note(ax):
    return ax.get_title(loc="left").split("\n")


@pytest.mark.parametrize("against", ["budget", "seconds"])
def test_a_median_of_minus_infinity_is_left_out_and_the_figure_says_so(against):
    data = table(("NNTuck", "CP"), (3, 9), 4)
    data.loc[:3, "log_ppd"] = [-np.inf, -np.inf, -np.inf, -0.5]
    ax = figures.ppd(data, against=against).axes[0]
    points, _ = drawn(ax)["NNTuck"]
    assert len(points) == 1, "only Q = 9"
    assert note(ax) == ["medians and quartiles of 4 splits", "left out, median −∞: NNTuck at 3"]
    data.loc[:7, "log_ppd"] = -np.inf
    ax = figures.ppd(data, against=against).axes[0]
    assert list(drawn(ax)) == ["CP"]
    assert note(ax)[1] == "left out, median −∞: NNTuck at 3, 9"
    with refused("table", rule="minus infinity"):
        figures.ppd(data[:8], against=against)


def test_a_bar_whose_lower_quartile_is_minus_infinity_goes_to_the_lower_edge():
    data = table(("NNTuck", "CP"), (3,), 4)
    data["log_ppd"] = [-np.inf, -1.0, -0.8, -0.5, -1.0, -2.0, -3.0, -4.0]
    ax = figures.ppd(data).axes[0]
    points, (bars,) = drawn(ax)["NNTuck"]
    assert points.tolist() == [[3.0, pytest.approx(-0.9)]]
    assert bars[0][:, 1] == pytest.approx([ax.get_ylim()[0], -0.725])
    assert ax.get_ylim()[0] < -3.25
    assert note(ax) == ["medians and quartiles of 4 splits", "bars to the lower edge: quartile −∞"]


def test_budgets_at_the_ends_of_lines_do_not_lie_on_each_other():
    data = table(("A", "B", "C"), (10, 40), 1).assign(log_ppd=-1.0, seconds=[1.0, 50.0] * 3)
    ax = figures.ppd(data, against="seconds").axes[0]
    ax.get_figure().draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 6
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
    many = figures.ppd(pd.concat([data.assign(model=f"M{number}") for number in range(3)]), against="seconds").axes[0]
    assert len(many.texts) <= 8, "what has no room has no name"


@pytest.mark.parametrize("column", ["model", "budget", "split", "log_ppd"])
def test_a_missing_column_is_named(column):
    with refused("table", rule=f"it has no {column}"):
        figures.ppd(table().drop(columns=column))


def test_columns_are_needed_only_for_what_is_shown():
    data = table().drop(columns=["seconds", "log_ppd_positive"])
    figures.ppd(data)
    with refused("table", rule="no seconds"):
        figures.ppd(data, against="seconds")
    with refused("table", rule="no log_ppd_positive"):
        figures.ppd(data, positive=True)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ([1, 2], "DataFrame"),
        (table()[:0], "a row with numbers in log_ppd and budget"),
        (table().assign(log_ppd="good"), "numbers in the column log_ppd"),
        (table().assign(log_ppd=np.nan), "a row with numbers"),
    ],
)
def test_other_bad_tables_are_named(data, rule):
    with refused("table", rule=rule):
        figures.ppd(data)


def test_the_horizontal_axis_has_budgets_or_seconds():
    with refused("against", "time"):
        figures.ppd(table(), against="time")


def test_axes_that_are_given_are_used_and_names_may_be_anything():
    ax = Figure().add_subplot()
    data = table(("$x$ <b>", "מודל"))
    before = data.copy()
    assert figures.ppd(data, ax) is ax
    ax.get_figure().draw_without_rendering()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["$x$ <b>", "מודל"]
    pd.testing.assert_frame_equal(data, before)

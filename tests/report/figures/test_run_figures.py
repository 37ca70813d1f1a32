"""Traces, histograms of the effective shape, and the curve of mass."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from allocore import figures
from allocore.report.figures import style
from support.errors import refused
from support.figure_cases import all_texts, artists, drawable_posterior


def titles(ax):
    return [panel.get_title(loc="left") for panel in ax.child_axes]


# Traces


def test_there_is_a_panel_for_every_trace_with_a_line_for_every_chain():
    post = drawable_posterior(chains=3)
    ax = figures.traces(post).axes[0]
    assert titles(ax) == [
        "log-likelihood",
        "classes in use",
        "who factors in use",
        "what factors in use",
        "when factors in use",
        "share of classes that moved",
    ]
    expected = [post.stats["log_likelihood"], post.stats["classes"], *np.moveaxis(post.stats["factors"], 2, 0)]
    for panel, values in zip(ax.child_axes, [*expected, post.stats["moved"]], strict=True):
        for chain in range(3):
            (line,) = artists(panel, f"chain {chain}")
            assert line.get_xdata().tolist() == [1, 2, 3, 4, 5]
            assert line.get_ydata().tolist() == values[chain].tolist()
        assert len({line.get_color() for line in panel.lines}) == 3
    assert {"chain 0", "chain 1", "chain 2", "burn-in shaded"} <= set(all_texts(ax))


def test_of_more_chains_than_colours_the_number_is_told():
    assert "9 chains" in all_texts(figures.traces(drawable_posterior(chains=9)).axes[0])
    assert "chain 0" not in all_texts(figures.traces(drawable_posterior(chains=9)).axes[0])
    assert "7 chains" not in all_texts(figures.traces(drawable_posterior(chains=7)).axes[0])


def test_the_burn_in_is_shaded():
    for panel in figures.traces(drawable_posterior(burn_in=2)).panels:
        (shade,) = artists(panel, "burn-in")
        assert (shade.get_x(), shade.get_width()) == (0.5, 2.0)
    without = figures.traces(drawable_posterior(burn_in=0)).axes[0]
    assert all(not artists(panel, "burn-in") for panel in without.child_axes)
    assert "burn-in shaded" not in all_texts(without)


def test_classes_that_cannot_move_have_no_trace_of_moves():
    assert "share of classes that moved" not in titles(figures.traces(drawable_posterior(learn=False)).axes[0])


def test_a_run_in_its_burn_in_has_traces():
    post = drawable_posterior(draws=0, burn_in=10, sweeps=4)
    panel = figures.traces(post).panels[0]
    assert len(artists(panel, "chain 0")[0].get_xdata()) == 4
    (shade,) = artists(panel, "burn-in")
    assert shade.get_width() == 4


def test_a_run_without_a_sweep_is_refused():
    with refused("post", rule="no sweeps yet"):
        figures.traces(drawable_posterior(draws=0, sweeps=0))


def test_one_chain_of_one_sweep_and_traces_that_stand_still_or_are_not_known():
    post = drawable_posterior(chains=1, draws=1, burn_in=0)
    ax = figures.traces(post, Figure().add_subplot())
    assert "chain 0" not in all_texts(ax), "one chain needs no name"
    ax.get_figure().draw_without_rendering()
    record = drawable_posterior(burn_in=3).record
    still = {name: np.full_like(values, np.nan, dtype=float) for name, values in record.stats.items()}
    object.__setattr__(record, "stats", still)
    figures.traces(type(post)(record)).get_figure().draw_without_rendering()


def test_the_first_steep_rise_of_the_log_likelihood_does_not_flatten_the_rest():
    post = drawable_posterior(draws=40, burn_in=10)
    stats = {name: values.copy() for name, values in post.stats.items()}
    stats["log_likelihood"][:, 0] = -1e9
    object.__setattr__(post.record, "stats", stats)
    low, high = figures.traces(post).panels[0].get_ylim()
    assert -2000 < low < high


# The effective shape


def counted(panel):
    """From the middle of a bar to its height, over all chains."""
    found = {}
    for bar in panel.patches:
        middle = round(float(bar.get_x() + bar.get_width() / 2), 6)
        found[middle] = found.get(middle, 0) + bar.get_height()
    return {middle: height for middle, height in found.items() if height}


def test_histograms_count_the_draws_of_all_chains():
    post = drawable_posterior(chains=2, draws=6, burn_in=3)
    ax = figures.effective_shape(post).axes[0]
    assert titles(ax) == ["classes", "who", "what", "when"]
    kept = post.draw_sweeps - 1
    sizes = [post.stats["classes"][:, kept], *np.moveaxis(post.stats["factors"][:, kept], 2, 0)]
    for panel, values in zip(ax.child_axes, sizes, strict=True):
        numbers, times = np.unique(values, return_counts=True)
        assert counted(panel) == dict(zip(numbers.tolist(), times.tolist(), strict=True))
        assert panel.get_ylim()[1] > times.max()
        (line,) = panel.lines
        middle = np.sort(values.ravel())[(values.size - 1) // 2]
        assert line.get_xdata() == [middle] * 2, "a value that some draw has"


def test_a_bar_is_divided_among_chains_only_if_each_has_a_colour_of_its_own():
    for chains, colours in ((3, 3), (len(style.COLOURS) + 1, 1)):
        panel = figures.effective_shape(drawable_posterior(chains=chains, draws=2, burn_in=0)).panels[0]
        assert len({bar.get_facecolor() for bar in panel.patches}) == colours


def test_the_median_stands_beside_the_most_there_could_be():
    panel = figures.effective_shape(drawable_posterior(draws=1, chains=1, burn_in=0)).panels[0]
    assert [text.get_text() for text in artists(panel, "below title")] == ["median 3 of 3"]


def test_wide_histograms_have_bars_of_several_numbers_and_lose_no_draw():
    post = drawable_posterior(chains=1, draws=50)
    stats = {name: values.copy() for name, values in post.stats.items()}
    stats["classes"][:] = np.arange(52) * 7
    object.__setattr__(post.record, "stats", stats)
    panel = figures.effective_shape(post).panels[0]
    assert len(panel.patches) <= 31
    assert sum(counted(panel).values()) == 50


def test_histograms_have_titles_of_axes_and_no_tick_where_no_draw_could_be():
    figure = figures.effective_shape(drawable_posterior(chains=1, draws=1, burn_in=0))
    assert figure.panels[0].get_ylabel() == "draws"
    assert [panel.get_xlabel() for panel in figure.panels] == ["classes in use", *["factors in use"] * 3]
    for panel in figure.panels:
        (bar,) = (bar for bar in panel.patches if bar.get_height())
        assert panel.get_xticks().tolist() == [bar.get_x() + bar.get_width() / 2]


def test_a_run_without_draws_has_no_histograms():
    with refused("post", rule="no draws yet"):
        figures.effective_shape(drawable_posterior(draws=0, sweeps=1))


# Mass


def test_the_curve_is_the_cumulative_share_and_half_and_95_percent_are_marked():
    post = drawable_posterior()
    ax = figures.mass(post).axes[0]
    (line,) = artists(ax, "held")
    assert line.get_xdata().tolist() == [0, 1, 2, 3]
    assert line.get_ydata() == pytest.approx([0.0, *post.classes()["cumulative"]])
    assert [text.get_text() for text in artists(ax, "classes with level")] == ["1 class has 50%", "3 classes have 95%"]
    assert [(float(dot.get_xdata()[0]), float(dot.get_ydata()[0])) for dot in artists(ax, "reached")] == [
        (1.0, pytest.approx(0.6)),
        (3.0, pytest.approx(1.0)),
    ]


def test_one_class_holds_all_and_the_axes_given_are_used():
    ax = Figure().add_subplot()
    post = drawable_posterior([np.ones((1, 1))] * 2, [(0, 0)], [1.0], labels=None, names=None, chains=1, draws=1)
    assert figures.mass(post, ax) is ax
    assert [text.get_text() for text in artists(ax, "classes with level")] == ["1 class has 50%", "1 class has 95%"]
    ax.get_figure().draw_without_rendering()

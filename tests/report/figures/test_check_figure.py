"""The figure of a check: the data next to the simulated tensors."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import allocore as ac
from allocore.report.figures import style
from allocore.results import Posterior
from support.errors import refused
from support.handmade_posterior import posterior, with_likelihood


@pytest.fixture(scope="module")
def found():
    """A check of a run whose data are four cells: almost nothing fits."""
    return posterior().check(draws=40)


def data_in(panel):
    return [line for line in panel.lines if line.get_gid() == "data"]


def test_every_statistic_has_a_row_and_every_mode_a_panel(found):
    statistics, *modes = ac.figures.check(found).panels
    assert [text.get_text() for text in statistics.get_yticklabels()] == list(found.table.index)
    assert sum(len(line.get_xdata()) for line in data_in(statistics)) == len(found.table)
    assert [panel.get_title(loc="left") for panel in modes] == list(found.widths)
    for panel, mode in zip(modes, found.widths, strict=True):
        assert sum(len(line.get_xdata()) for line in data_in(panel)) == (found.labels["mode"] == mode).sum()


def test_what_is_off_is_red_and_what_is_beyond_the_axis_is_a_triangle_at_its_edge(found):
    statistics = ac.figures.check(found).panels[0]
    red = [line for line in data_in(statistics) if line.get_color() == style.VERMILLION]
    assert sum(len(line.get_ydata()) for line in red) == (found.table["p_adjusted"] <= 0.05).sum() > 0
    left, right = statistics.get_xlim()
    for line in data_in(statistics):
        assert ((line.get_xdata() >= left) & (line.get_xdata() <= right)).all()
    edges = [line for line in data_in(statistics) if line.get_marker() in "<>"]
    assert edges
    assert all((np.abs(line.get_xdata()) == 4.0).all() for line in edges)


def test_a_run_is_checked_and_drawn_and_axes_can_be_given(found):
    figure, ax = plt.subplots(figsize=(7, 6))
    assert ac.figures.check(found, ax) is ax
    plt.close(figure)
    post = posterior()
    assert ac.figures.check(post).panels[0].get_title(loc="left") == "Statistics"
    assert list(post._checks) == [(200, 0)]
    with refused("found"):
        ac.figures.check(3)


@pytest.mark.parametrize("likelihood", ["negative-binomial", "bernoulli"])
def test_every_likelihood_and_long_labels_can_be_drawn(likelihood, tmp_path):
    post = with_likelihood(posterior(), likelihood)
    names = {"sender": [f"a very long name of a country, number {n}, $x_1$ \u4e2d" for n in range(5)]}
    post = Posterior(replace(post.record, tensor=post.record.tensor.with_labels(names)))
    ac.figures.check(post.check(draws=40)).savefig(tmp_path / "check.svg")
    assert (tmp_path / "check.svg").stat().st_size > 1000

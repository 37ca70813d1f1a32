"""The calibration plot: what it shows of held-out counts, and that its band is right.

The band should leave out 5% of the bars if predictions are right. Its share is judged over 400 samples of fibres whose
cells are alike, to within 1.5 points (more than four standard errors); a binomial band, planted, leaves out far more.
"""

import numpy as np
import pytest
from scipy import stats

import allocore as ac
from allocore.report.figures.predictions import band
from support.errors import refused

SETTINGS = {"burn_in": 20, "draws": 10, "thin": 1, "seed": 1, "threads": 2, "progress": False, "chains": 1}


@pytest.fixture(scope="module")
def post():
    rates = np.random.default_rng(0).gamma(0.5, 4.0, (15, 12, 8))
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(1).poisson(rates)), 0.2, along=0, seed=1)
    return ac.CP(3, **SETTINGS).fit(split).posterior_


def test_bars_are_the_shares_of_the_cells_and_the_sub_titles_count_them(post):
    ax = ac.figures.calibration(post).axes[0]
    everything, busy, intervals = ax.child_axes
    found = post.evaluate()
    for panel, pit in ((everything, found.pit_N), (busy, found.pit_N[found.busy_N])):
        heights = [bar.get_height() for bar in panel.patches]
        expected = np.histogram(pit, np.linspace(0, 1, len(heights) + 1))[0] / len(pit)
        np.testing.assert_allclose(heights, expected)
        told = next(text.get_text() for text in panel.texts if text.get_gid() == "below title")
        assert told.startswith(f"{len(pit):,} cells; ")
    table = post.evaluate().table
    _, of_all, of_busy = intervals.lines
    for line, suffix in ((of_all, ""), (of_busy, "_busy")):
        held = dict(zip(np.round(line.get_xdata(), 2).tolist(), line.get_ydata(), strict=True))
        for level in (50, 90):
            assert held[level / 100] == pytest.approx(table[f"coverage_{level}{suffix}"]["model"])


def test_the_band_is_right_where_cells_of_a_fibre_are_alike_and_a_binomial_band_is_not():
    rng, bars, fibres, length = np.random.default_rng(3), 10, 150, 6
    fibre = np.repeat(np.arange(fibres), length)
    outside, outside_binomial = [], []
    for _ in range(400):
        alike = np.sqrt(0.7) * rng.normal(size=fibres)[fibre] + np.sqrt(0.3) * rng.normal(size=fibres * length)
        bar = np.minimum((stats.norm.cdf(alike) * bars).astype(int), bars - 1)
        share = np.bincount(bar, minlength=bars) / len(bar)
        outside.append(np.abs(share - 1 / bars) > band(bar, fibre, bars))
        outside_binomial.append(np.abs(share - 1 / bars) > 1.96 * np.sqrt(0.1 * 0.9 / len(bar)))
    assert np.mean(outside) == pytest.approx(0.05, abs=0.015)
    assert np.mean(outside_binomial) > 0.1


def test_bars_are_whole_before_the_band_whose_edges_show_where_a_bar_leaves_it(post):
    for panel in ac.figures.calibration(post).panels[:2]:
        (shade,) = (each for each in panel.collections if each.get_gid() == "band")
        edges = [line for line in panel.lines if line.get_gid() == "edge"]
        assert shade.get_zorder() < min(bar.get_zorder() for bar in panel.patches)
        assert len(edges) == 2
        assert min(edge.get_zorder() for edge in edges) > max(bar.get_zorder() for bar in panel.patches)
        assert "95% band" in panel.get_xlabel()


def test_the_lines_of_the_panel_of_intervals_are_named(post):
    legend = ac.figures.calibration(post).panels[2].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["right intervals", "all cells", "busy cells"]


def test_few_cells_are_not_judged(post):
    test = post.held_out
    few = ac.HeldOut(test.coords[:, :6], test.counts[:6], along=0)
    panels = ac.figures.calibration(post, test=few).panels
    assert not panels[0].patches
    assert any("too few to judge" in text.get_text() for text in panels[0].texts)


def test_a_run_without_a_hold_out_needs_a_test_set():
    plain = ac.CP(2, **SETTINGS).fit(ac.as_tensor(np.random.default_rng(1).poisson(1.0, (5, 4, 3)))).posterior_
    with refused("test", None):
        ac.figures.calibration(plain)
    panel = ac.figures.calibration(plain, test=plain.tensor, allow_training=True).panels[0]
    assert sum(bar.get_height() for bar in panel.patches) == pytest.approx(1.0)


def test_given_axes_are_drawn_in(post):
    import matplotlib.figure

    ax = matplotlib.figure.Figure(figsize=(9, 3)).add_axes((0, 0, 1, 1))
    assert ac.figures.calibration(post, ax) is ax
    assert len(ax.child_axes) == 3

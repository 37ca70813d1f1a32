"""Are predictive intervals right? The PIT of held-out counts, and how many counts intervals hold.

If predictions are right, the randomised PIT of a count is uniform (posterior/evaluation.py): all bars have the same
height. Bars high at both ends mean intervals that are too narrow, a hump those that are too wide. The band has the
heights that right predictions would give in 95% of the cases, bar by bar: 1/B plus or minus t times the standard error
over the G fibres, se^2 = G / (G - 1) sum_f (sum over the cells of fibre f of 1{u in bar} - 1/B)^2 / n^2, with the
quantile t of Student's distribution. It allows for cells of a fibre that are alike; a binomial band would not.
"""

from typing import Any, overload

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.stats import t as student

from allocore.figures import style
from allocore.figures.notebook_figure import Figure, figure_or_axes
from allocore.figures.text import shorten
from allocore.posterior.evaluation import Evaluation, inside
from allocore.posterior.fitted import Fitted, as_posterior

_MOST_BARS, _LEAST_BARS, _CELLS_PER_BAR = 20, 5, 10
_LEVELS = range(5, 100, 5)
_PROBABILITY = 0.95
_FEW = 10


@overload
def calibration(post: Fitted, ax: None = None, *, test: object = None, allow_training: bool = False) -> Figure: ...
@overload
def calibration(post: Fitted, ax: Axes, *, test: object = None, allow_training: bool = False) -> Axes: ...
def calibration(
    post: Fitted, ax: Axes | None = None, *, test: object = None, allow_training: bool = False
) -> Figure | Axes:
    """Draw the PIT of held-out counts as histograms, and the share of counts within central intervals of all widths.

    The first panel shows all cells, the second busy ones, where the model gives a count a probability of at least one
    half: most cells of a sparse tensor are surely zero and say little of an interval. Right predictions give bars
    within the band, but for one bar in twenty, and points on the diagonal of the third panel.

    Parameters
    ----------
    post : Posterior, fitted model or path
        The posterior of a fitted model or of `allocore.open_run`, the model itself, or the folder of a run.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    test : HeldOut, CountTensor, data frame, or anything with `coords` and `counts`, optional
        The cells to judge, as for `Posterior.evaluate`; by default those that the run holds out.
    allow_training : bool, default: False
        Whether cells that the model was fitted to may be judged.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`: all cells, busy cells, and the coverage of intervals.

    Examples
    --------
    >>> import allocore as ac
    >>> split = ac.hold_out(ac.load_flights(), 0.05, along="month", seed=1)
    >>> post = ac.CP(5, burn_in=20, draws=4, thin=1, seed=0).fit(split).posterior_
    >>> panel = ac.figures.calibration(post).panels[0]
    >>> float(sum(bar.get_height() for bar in panel.patches).round(6))
    1.0
    """
    found = as_posterior(post)._evaluation(test, allow_training=allow_training, brief=True)
    everywhere = np.ones(len(found.pit_N), dtype=bool)
    groups = (("All cells", style.SKY, everywhere), ("Busy cells: a count is likely", style.ORANGE, found.busy_N))
    with style.look():
        sheet = style.Sheet(ax or style.new_axes(style.WIDTH, 2.3))
        wide, high = sheet.width / 3, sheet.height - 0.82
        for place, (name, colour, chosen) in enumerate(groups):
            panel = sheet.panel(place * wide + 0.42, 0.4, wide - 0.52, high)
            _histogram(panel, name, colour, found, chosen)
            if place == 0:
                panel.set_ylabel("share of the cells", fontsize=style.NORMAL, labelpad=3)
        panel = sheet.panel(2 * wide + 0.42, 0.4, wide - 0.52, high)
        _coverage(
            panel, [(name, colour, found.pit_N[chosen]) for name, colour, chosen in groups if chosen.sum() >= _FEW]
        )
        return figure_or_axes(sheet.ax, ax)


def _histogram(ax: Axes, name: str, colour: str, found: Evaluation, chosen: NDArray[np.bool_]) -> None:
    pit_n, fibre_n = found.pit_N[chosen], found.fibre_N[chosen]
    _, place_n = np.unique(fibre_n, return_inverse=True)
    fibres = int(place_n.max(initial=-1)) + 1
    ax.set_title(name, loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("PIT", fontsize=style.NORMAL, labelpad=2)
    if len(pit_n) < _FEW or fibres < 2:
        style.below_title(ax, f"{len(pit_n):,} cells: too few to judge")
        ax.set_yticks([])
        return
    ax.set_xlabel("PIT; grey: the 95% band")
    bars = int(np.clip(len(pit_n) // _CELLS_PER_BAR, _LEAST_BARS, _MOST_BARS))
    bar_n = np.minimum((pit_n * bars).astype(np.int64), bars - 1)
    share_B = np.bincount(bar_n, minlength=bars) / len(pit_n)
    band_B = band(bar_n, place_n, bars)
    middle_B = (np.arange(bars) + 0.5) / bars
    ax.bar(middle_B, share_B, width=0.92 / bars, color=colour)
    edges = np.repeat(np.arange(bars + 1) / bars, 2)[1:-1]
    low, high = (np.repeat(1.0 / bars + side * band_B, 2) for side in (-1.0, 1.0))
    low = np.maximum(low, 0.0)
    # The band lies behind the bars, and its edges before them: a bar can be seen whole, and where it leaves the band.
    ax.fill_between(edges, low, high, color=style.FAINT, alpha=0.5, linewidth=0.0, zorder=0.5, gid="band")
    for edge in (low, high):
        ax.plot(edges, edge, color=style.GREY, linewidth=0.7, gid="edge")
    ax.axhline(1.0 / bars, color=style.INK, linewidth=0.8)
    ax.set_ylim(0.0, max(share_B.max(), (1.0 / bars + band_B).max()) * 1.08)
    style.percent(ax)
    outside = int((np.abs(share_B - 1.0 / bars) > band_B).sum())
    told = f"{len(pit_n):,} cells; {outside} of {bars} bars outside the band"
    style.below_title(ax, shorten(told, style.inches(ax)[0] * 72 + 24, style.SMALL))


def band(bar_n: NDArray[np.int64], fibre_n: NDArray[np.int64], bars: int) -> NDArray[np.float64]:
    """Half the width of the 95% band of each bar, if all bars had the same probability; fibres are numbered from 0."""
    fibres = int(fibre_n.max()) + 1
    cells_F = np.bincount(fibre_n, minlength=fibres)
    squares_B = np.empty(bars)
    for bar in range(bars):
        inside_F = np.bincount(fibre_n[bar_n == bar], minlength=fibres)
        squares_B[bar] = ((inside_F - cells_F / bars) ** 2).sum()
    errors_B = np.sqrt(fibres / (fibres - 1) * squares_B) / len(bar_n)
    return np.asarray(student.ppf(0.5 + _PROBABILITY / 2, fibres - 1) * errors_B)


def _coverage(ax: Axes, groups: list[tuple[str, str, NDArray[np.float64]]]) -> None:
    ax.plot([0.0, 1.0], [0.0, 1.0], color=style.INK, linewidth=0.8, label="right intervals")
    wanted = np.array(_LEVELS) / 100.0
    for name, colour, pit_n in groups:
        held = [float(inside(pit_n, level).mean()) for level in _LEVELS]
        how: dict[str, Any] = {"markersize": 3, "markeredgecolor": "white", "markeredgewidth": 0.3, "linewidth": 1.0}
        ax.plot(wanted, held, "o-", color=colour, label=name.partition(":")[0].lower(), **how)
    ax.legend(loc="best", handlelength=1.4, borderaxespad=0.2, labelspacing=0.3)
    points = style.inches(ax)[0] * 72 + 8
    ax.set_title("Intervals", loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    style.below_title(ax, shorten("above: too wide; below: too narrow", points, style.SMALL))
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_xticks([0.0, 0.5, 0.9])
    ax.set_yticks([0.0, 0.5, 0.9])
    style.percent(ax)
    style.percent(ax, "x")
    ax.set_xlabel("central interval", fontsize=style.NORMAL, labelpad=2)
    ax.set_ylabel("share of the counts in it", fontsize=style.NORMAL, labelpad=2)

"""The figure of a posterior predictive check: statistics and totals of labels next to those of simulated tensors.

Everything is drawn in one unit: the distance from the middle of the simulated values, divided by the distance from
there to the end of their 90% interval. A value inside the interval is between -1 and 1.
"""

from typing import Any, overload

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory

from allocore.kernels.elementary import Flags, Floats
from allocore.posterior.check import Check, check_rows, distances
from allocore.report.figures import style
from allocore.report.figures.style import Figure, figure_or_axes, shorten, width

_EDGE = 4.0  # what is further off is drawn at the edge, as a triangle
_ROW, _NAMES, _NUMBERS = 0.17, 1.95, 2.2
_PANEL, _ABOVE, _BELOW = 1.25, 0.34, 0.42
_ACROSS = 3
_NAMED = 3
_LEVEL = 0.05
_MOST_TICKS = 4


@overload
def check(found: Check, ax: None = None) -> Figure: ...
@overload
def check(found: Check, ax: Axes) -> Axes: ...
def check(found: Check, ax: Axes | None = None) -> Figure | Axes:
    """Draw the statistics of a check, and the totals of all labels, next to those of the simulated tensors.

    Grey bands are 90% intervals, grey dots the simulated tensors, coloured points the data. A point is red if its
    adjusted p-value is at most 5%, or, for a label, if its total is outside its interval. Points beyond the axis are
    triangles at its edge.

    Parameters
    ----------
    found : Check, Posterior, fitted model or path
        A check, or a run to check with the settings of `Posterior.check`.

    Examples
    --------
    >>> import allocore as ac
    >>> [panel.get_title(loc="left") for panel in ac.figures.check(post.check(draws=40)).panels][:3]
    ['Statistics', 'origin', 'destination']
    """
    modes = list(found.widths)
    with style.look():
        across, rows = min(_ACROSS, len(modes)), len(found.table)
        down, high = -(-len(modes) // across), _ABOVE + _PANEL + _BELOW
        top = _ROW * rows + 0.34 + 0.44
        sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, top + down * high + 0.05))
        scale = sheet.height / (top + down * high + 0.05)
        panel = sheet.panel(_NAMES, 0.34 * scale, sheet.width - _NAMES - _NUMBERS, _ROW * rows * scale)
        _statistics(panel, found)
        wide = sheet.width / across
        for n, mode in enumerate(modes):
            left, start = wide * (n % across) + 0.42, (top + high * (n // across) + _ABOVE) * scale
            panel = sheet.panel(left, start, wide - 0.62, _PANEL * scale)
            labels = found.labels[found.labels["mode"] == mode]
            _totals(panel, mode, labels, found.widths[mode], first=n % across == 0)
        caption = (
            f"The data compared with {len(found.simulated):,} tensors simulated from the fitted model: statistics "
            "above, the totals of labels below. Grey bands are 90% intervals and grey dots the simulated tensors; "
            "coloured points are the data. A red point has an adjusted p-value of at most 5%, or for a label a total "
            "outside its interval. Triangles are beyond the axis."
        )
        return figure_or_axes(sheet.ax, ax, caption)


def _statistics(ax: Axes, found: Check) -> None:
    together = pd.concat([found.table["observed"].to_frame().T, found.simulated], ignore_index=True)
    off_IJ = distances(together.to_numpy(dtype=np.float64), 0.0)
    rng, rows = np.random.default_rng(0), np.arange(len(found.table))
    spread_SJ = rng.uniform(-0.3, 0.3, off_IJ[1:].shape) + rows
    near_SJ = np.abs(off_IJ[1:]) <= _EDGE
    ax.axvspan(-1.0, 1.0, color=style.PALE, zorder=0, linewidth=0, gid="90% interval")
    ax.plot(off_IJ[1:][near_SJ], spread_SJ[near_SJ], ".", color=style.FAINT, markersize=1.6, gid="simulated")
    _points(ax, off_IJ[0], rows.astype(float), (found.table["p_adjusted"] <= _LEVEL).to_numpy(), across=True)
    ax.set(xlim=(-_EDGE - 0.3, _EDGE + 0.3), ylim=(len(rows) - 0.4, -0.6))
    ax.set_yticks(rows, [shorten(name, _NAMES * 72 - 8, style.SMALL) for name in found.table.index])
    _distance_axis(ax, "x")
    ax.set_xlabel("distance from the simulated middle; band: 90% interval", fontsize=style.SMALL, labelpad=2)
    ax.set_title("Statistics", loc="left", fontsize=style.NORMAL, weight="bold", pad=5)
    place = blended_transform_factory(ax.transAxes, ax.transData)
    heads: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY, "va": "bottom", "ha": "right"}
    wide = style.inches(ax)[0]
    ends = [1.0 + inch / wide for inch in (0.72, _NUMBERS - 0.12)]
    for end, text in zip(ends, ("data", "simulated, 90%"), strict=True):
        ax.annotate(text, (end, 1.0), (0.0, 5.0), xycoords="axes fraction", textcoords="offset points", **heads)
    for row, (_, observed, _, interval, *_) in enumerate(check_rows(found.table)):
        red = bool(found.table["p_adjusted"].iloc[row] <= _LEVEL)
        how: dict[str, Any] = {"transform": place, "fontsize": style.SMALL, "va": "center", "ha": "right"}
        ax.text(ends[0], row, observed, color=style.VERMILLION if red else style.INK, **how)
        ax.text(ends[1], row, interval, color=style.GREY, **how)


def _totals(ax: Axes, mode: str, labels: pd.DataFrame, times: float, *, first: bool) -> None:
    observed, expected, low, high = (labels[name].to_numpy(dtype=np.float64) for name in _COLUMNS)
    scale_L = np.maximum(np.where(observed >= expected, high - expected, expected - low), 1.0)
    off_L, red_L = (observed - expected) / scale_L, (observed < low) | (observed > high)
    x_L = np.maximum(expected, 0.1)
    ax.axhspan(-1.0, 1.0, color=style.PALE, zorder=0, linewidth=0, gid="90% interval")
    ax.set_xscale("log")
    _points(ax, off_L, x_L, red_L, across=False)
    ax.set(ylim=(-_EDGE - 0.4, _EDGE + 0.4), xlim=(x_L.min() / 1.6, x_L.max() * 1.6))
    _distance_axis(ax, "y")
    ax.xaxis.set_major_locator(FixedLocator(_ticks(*ax.get_xlim())))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    points = style.inches(ax)[0] * 72
    ax.set_title(
        shorten(mode, points, style.NORMAL, bold=True), loc="left", fontsize=style.NORMAL, weight="bold", pad=13
    )
    wider = f"; width \N{MULTIPLICATION SIGN} {times:.2g}" if times > 1.0 else ""
    style.below_title(ax, shorten(f"{int(red_L.sum()):,} of {len(labels):,} outside{wider}", points, style.SMALL))
    ax.set_xlabel("simulated total", fontsize=style.SMALL, labelpad=1)
    if first:
        ax.set_ylabel("distance of the data", fontsize=style.SMALL, labelpad=2)
    _name_furthest(ax, labels["label"].to_numpy(), x_L, off_L, red_L)


def _ticks(low: float, high: float) -> list[float]:
    """A few round numbers on a logarithmic axis: powers of ten, or 1, 2 and 5 times these, or one in the middle."""
    for steps in ((1.0,), (1.0, 2.0, 5.0)):
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        inside = [tick for tick in np.outer(powers, steps).ravel().tolist() if low <= tick <= high]
        if len(inside) > 1:
            return inside[:: -(-len(inside) // _MOST_TICKS)]
    return [float(f"{np.sqrt(low * high):.1g}")]


_COLUMNS = ("observed", "expected", "low", "high")


def _points(ax: Axes, off_N: Floats, other_N: Floats, red_N: Flags, *, across: bool) -> None:
    """The data: dots, or triangles at the edge for what is further off."""
    shown_N = np.clip(off_N, -_EDGE, _EDGE)
    beyond = (">", "<") if across else ("^", "v")
    kinds = ((np.abs(off_N) <= _EDGE, "o"), (off_N > _EDGE, beyond[0]), (off_N < -_EDGE, beyond[1]))
    for red, colour in ((False, style.BLUE), (True, style.VERMILLION)):
        for chosen_N, marker in kinds:
            some = chosen_N & (red_N == red)
            x, y = (shown_N[some], other_N[some]) if across else (other_N[some], shown_N[some])
            how: dict[str, Any] = {"markersize": 4.2, "markeredgecolor": "white", "markeredgewidth": 0.4}
            if some.any():
                ax.plot(x, y, marker, color=colour, zorder=3, clip_on=False, gid="data", **how)


def _distance_axis(ax: Axes, axis: str) -> None:
    chosen = ax.xaxis if axis == "x" else ax.yaxis
    chosen.set_major_locator(FixedLocator([-_EDGE, -1.0, 0.0, 1.0, _EDGE]))
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}")))


def _name_furthest(ax: Axes, names: Any, x_L: Floats, off_L: Floats, red_L: Flags) -> None:
    """Name the labels outside that differ by most counts, unless the names would overlap."""
    order = [n for n in np.argsort(-np.abs(off_L) * np.sqrt(x_L), kind="stable").tolist() if red_L[n]]
    wide, high = (each * 72 for each in style.inches(ax))
    left, right = np.log(ax.get_xlim())
    taken: list[tuple[float, float, float]] = []
    for n in order[:_NAMED]:
        text = shorten(names[n], 0.55 * wide, style.SMALL)
        long = width(text, style.SMALL)
        x = (np.log(x_L[n]) - left) / (right - left) * wide
        y = (np.clip(off_L[n], -_EDGE, _EDGE) / (_EDGE + 0.4) + 1.0) / 2.0 * high
        start = x + 4.0 if x + 4.0 + long < wide else x - 4.0 - long
        if any(start < end + 2 and begin < start + long + 2 and abs(y - at) < style.SMALL for begin, end, at in taken):
            continue
        taken.append((start, start + long, y))
        how: dict[str, Any] = {"xycoords": "axes points", "fontsize": style.SMALL, "va": "center", "color": style.INK}
        ax.annotate(text, (max(start, 0.0), y), **how)

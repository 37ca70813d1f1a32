"""The profile of a class in one mode as stems: the largest are in colour and have names, the rest are grey.

Behind the stems are the intervals: a band where labels have an order, else a pale whisker behind every coloured stem.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import FixedLocator, MaxNLocator
from scipy.optimize import isotonic_regression

from allocore.classes.summary import Profile, ShownMode
from allocore.kernels.elementary import Floats, Ints
from allocore.report.figures import style
from allocore.report.figures.text import all_fit, clean, date_ticks, fitting_ticks, shorten, width


def place_labels(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return where to place labels on a line from `low` to `high` so that they do not overlap.

    The squared distances from the wanted positions are as small as possible. Labels keep the order of their wanted
    positions. If the line is too short for all of them, they are placed side by side from `low` on.

    Without gaps the middles would be at fixed offsets. What the middles exceed these offsets by must not decrease along
    the line, so the best placement is an isotonic regression (Barlow et al., 1972), clipped to the line.

    `wanted` are the middles that the labels should have, `sizes` their lengths; the result has their middles.

    Examples
    --------
    >>> place_labels([5.0, 50.0], [10, 10], 0, 100)
    [5.0, 50.0]
    >>> place_labels([50.0, 50.0, 90.0], [10, 10, 10], 0, 100)
    [45.0, 55.0, 90.0]
    >>> place_labels([99.0, 99.0], [10, 20], 0, 100)
    [75.0, 90.0]
    """
    if not len(wanted):
        return []
    order = np.argsort(wanted, kind="stable")
    lengths = np.asarray(sizes, dtype=float)[order]
    offsets = np.cumsum(lengths) - lengths / 2
    moved = isotonic_regression(np.asarray(wanted, dtype=float)[order] - offsets).x
    middles = np.empty(len(order))
    middles[order] = offsets + np.clip(moved, low, max(low, high - lengths.sum()))
    return [float(middle) for middle in middles]


# Readers cannot tell more stems than this apart on a page. Of neighbours, only the highest is drawn.
_COLUMNS = 1000
_HEADROOM, _NAMES_ABOVE = 1.08, 1.3
# Distances in points: between ticks of time, between lines of names, from the stems to their names.
_TICK, _LINE, _AWAY = 26.0, 8.4, 7.0
# The width of the column of shares beside the stems, and its distance from the names.
_SHARE, _SPACE = 18.0, 3.0
_PEAKS = 2
# How pale intervals are, and how wide a whisker is, in points.
_PALE, _WHISKER = 0.3, 3.2


def names_below(mode: ShownMode, points: float) -> bool:
    """Whether the names of a mode are below the axis: for periods, for ordered labels, and for few short names."""
    return mode.kind in ("time", "order") or all_fit(mode.labels, points, style.SMALL)


def name_room(profile: Profile, top: int, threshold: float) -> float:
    """The room in points that the names of a profile need beside it."""
    rows = _largest(profile, top, threshold).tolist()
    widest = max((width(clean(profile.mode.labels[row]), style.SMALL) for row in rows), default=0.0)
    # One point more than needed, so that rounding shortens no name.
    return _AWAY + _SHARE + _SPACE + widest + 1.0


def draw_stems(ax: Axes, profile: Profile, colour: str, top: int, threshold: float, beside: float) -> None:
    """Draw a profile into a panel, with `beside` points of room to its right for the names of the largest elements.

    If `beside` is 0, names are below the axis. Periods of time are all in colour, as in the paper.
    """
    length = len(profile.share_D)
    ax.set_xlim(-0.5 - 0.02 * length, length - 0.5 + 0.02 * length)
    _name_ticks(ax, profile, beside)
    if profile.empty:
        _share_axis(ax, profile, 1.0, beside)
        _remark(ax, "too small to tell", beside)
        return
    time = profile.mode.kind == "time"
    named = _largest(profile, top, threshold) if beside else _crests(profile)[: min(top, _PEAKS) if time else 0]
    shown = np.union1d(_highest(profile.share_D), named)
    large = (profile.share_D[shown] >= (0.0 if time else threshold)) | np.isin(shown, named)
    highest = max(float(profile.share_D.max()), _draw_intervals(ax, profile, colour, shown, shown[large]))
    _share_axis(ax, profile, highest, beside)
    ax.set_ylim(0.0, highest * (_NAMES_ABOVE if time or profile.even else _HEADROOM))
    _draw_lines(ax, profile.share_D, colour, shown[~large], shown[large])
    if profile.even:
        _remark(ax, "evenly spread", beside)
    elif beside:
        _name_beside(ax, profile, named, beside)
    elif time:
        _name_above(ax, profile, named)


def _name_ticks(ax: Axes, profile: Profile, beside: float) -> None:
    labels, points = profile.mode.labels, style.inches(ax)[0] * 72
    if beside:
        style.name_ticks(ax, [])
    elif profile.mode.kind == "time":
        style.name_ticks(ax, date_ticks(labels, max(2, int(points / _TICK))))
    else:
        style.name_ticks(ax, fitting_ticks(labels, points, style.SMALL))


def _share_axis(ax: Axes, profile: Profile, highest: float, beside: float) -> None:
    """Put one or two round numbers on the axis, or none if the names beside the stems have their shares."""
    found = MaxNLocator(nbins=3, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, highest)
    shown = [] if profile.empty or beside else [float(tick) for tick in found if 0.0 < tick <= highest * 1.001]
    ax.yaxis.set_major_locator(FixedLocator(shown))
    style.percent(ax)
    if beside:
        ax.spines["left"].set_visible(False)


def _largest(profile: Profile, top: int, threshold: float) -> Ints:
    """The rows to name: the largest that are not grey, and the largest one in any case."""
    if profile.even or profile.empty:
        return np.empty(0, dtype=np.int64)
    heaviest = profile.heaviest[:top]
    kept = profile.share_D[heaviest] >= threshold
    kept[:1] = True
    return heaviest[kept]


def _crests(profile: Profile) -> Ints:
    """The highest row of each stretch of rows that have at least half of the highest share; highest first."""
    share_D = profile.share_D
    if profile.even:
        return np.empty(0, dtype=np.int64)
    high = np.concatenate([[False], share_D >= share_D.max() / 2, [False]])
    edges = np.flatnonzero(high[1:] != high[:-1]).reshape(-1, 2)
    crests = np.array([a + int(share_D[a:b].argmax()) for a, b in edges.tolist()], dtype=np.int64)
    return crests[np.argsort(-share_D[crests], kind="stable")]


def _draw_intervals(ax: Axes, profile: Profile, colour: str, shown: Ints, coloured: Ints) -> float:
    """Draw the intervals of the shares, and return the highest end; 0 for a single draw, which has none."""
    if profile.low_D is None or profile.high_D is None:
        return 0.0
    if profile.mode.kind in ("time", "order"):
        rows = np.arange(len(profile.share_D)) if len(profile.share_D) <= _COLUMNS else shown
        low, high = profile.low_D[rows], profile.high_D[rows]
        ax.fill_between(rows, low, high, color=colour, alpha=_PALE, linewidth=0.0, zorder=0.8, gid="band")
    else:
        low, high = profile.low_D[coloured], profile.high_D[coloured]
        ax.vlines(coloured, low, high, colors=colour, alpha=_PALE, linewidths=_WHISKER, zorder=0.8, gid="whiskers")
    return float(high.max(initial=0.0))


def _draw_lines(ax: Axes, share_D: Floats, colour: str, grey: Ints, coloured: Ints) -> None:
    """Draw all stems as two collections, whatever their number."""
    few = len(coloured) <= 40
    ax.vlines(grey, 0.0, share_D[grey], colors=style.FAINT, linewidths=0.8, gid="grey")
    ax.vlines(coloured, 0.0, share_D[coloured], colors=colour, linewidths=1.2 if few else 0.8, gid="coloured")
    ax.plot(coloured, share_D[coloured], "o", color=colour, markersize=2.4 if few else 1.4, clip_on=False, gid="heads")


def _highest(share_D: Floats) -> Ints:
    """The rows with shares above 0. If there are very many, the highest in each column of the page."""
    length = len(share_D)
    rows = np.flatnonzero(share_D)
    if length <= _COLUMNS:
        return rows
    column = rows * _COLUMNS // length
    order = np.lexsort((-share_D[rows], column))
    first = np.unique(column[order], return_index=True)[1]
    return np.sort(rows[order][first])


def _name_beside(ax: Axes, profile: Profile, named: Ints, room: float) -> None:
    """Write names and shares to the right of the stems, each as near as possible to the height of its tip."""
    (wide, high), (low, end), upper = style.inches(ax), ax.get_xlim(), ax.get_ylim()[1]
    wide, high = wide * 72, high * 72
    named = named[: max(1, int(high / _LINE))]
    tip_y = profile.share_D[named] / upper * high
    # Equal tips keep the order of the labels: the first one is written above.
    ranked = (tip_y - 1e-6 * np.arange(len(named))).tolist()
    lines = place_labels(ranked, [_LINE] * len(named), 0.0, high)
    leaders = []
    for row, tip, line in zip(named.tolist(), tip_y.tolist(), lines, strict=True):
        name = shorten(profile.mode.labels[row], room - _AWAY - _SHARE - _SPACE, style.SMALL)
        x, share = 1.0 + (_AWAY + _SHARE) / wide, f"{profile.share_D[row]:.0%}"
        _write(ax, x, line / high, share, "share", ha="right", va="center_baseline", color=style.GREY)
        _write(ax, x + _SPACE / wide, line / high, name, "name", ha="left", va="center_baseline")
        # The line ends where the number begins.
        end_x = x - (width(share, style.SMALL) + 1.5) / wide
        at = (row - low) / (end - low)
        leaders.append([(at + 2 / wide, tip / high), (1.0, tip / high), (end_x, line / high)])
    _draw_leaders(ax, leaders)


def _name_above(ax: Axes, profile: Profile, named: Ints) -> None:
    """Write the names of the peaks on one line above all stems."""
    (wide, high), (low, end), upper = style.inches(ax), ax.get_xlim(), ax.get_ylim()[1]
    wide, high = wide * 72, high * 72
    texts = [shorten(profile.mode.labels[row], wide, style.SMALL) for row in named.tolist()]
    at = ((named - low) / (end - low) * wide).tolist()
    middles = place_labels(at, [width(text, style.SMALL) + 5 for text in texts], 0.0, wide + 4)
    leaders = []
    for row, text, tip, middle in zip(named.tolist(), texts, at, middles, strict=True):
        _write(ax, middle / wide, 1.0, text, "name", ha="center", va="top")
        foot = min(max(tip, middle - 15), middle + 15)
        leaders.append([(tip / wide, profile.share_D[row] / upper + 2.5 / high), (foot / wide, 1.0 - 8.5 / high)])
    _draw_leaders(ax, leaders)


def _draw_leaders(ax: Axes, leaders: list[list[tuple[float, float]]]) -> None:
    lines = LineCollection(leaders, colors=style.FAINT, linewidths=0.5, transform=ax.transAxes, gid="leaders")
    lines.set_clip_on(False)
    lines.set_zorder(0.5)
    ax.add_collection(lines, autolim=False)


def _write(ax: Axes, x: float, y: float, text: str, gid: str, **how: Any) -> None:
    ax.text(x, y, text, transform=ax.transAxes, fontsize=style.SMALL, gid=gid, **how)


def _remark(ax: Axes, words: str, beside: float) -> None:
    """Write above the stems: in the middle, or from the left if there may be names to the right of a narrow panel."""
    how: dict[str, Any] = {"x": 0.0, "ha": "left"} if beside else {"x": 0.5, "ha": "center"}
    ax.text(y=1.0, s=words, va="top", fontsize=style.SMALL, color=style.GREY, transform=ax.transAxes, **how)

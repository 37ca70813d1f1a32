"""Figures of classes: for every mode a panel with the stems of the profile; several classes make a page.

Behind the stems are the intervals: a band where labels have an order, else a pale whisker behind every coloured stem.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import FixedLocator, MaxNLocator
from scipy.optimize import isotonic_regression

from allocore.classes.names import APART, share_words, sharers, source_words, support_words
from allocore.classes.summary import ClassSummary, Profile, ShownDraw, ShownMode
from allocore.errors import InputError, whole_number
from allocore.kernels.elementary import Floats, Ints
from allocore.report.figures import style
from allocore.report.figures.style import (
    Figure,
    clean,
    date_ticks,
    figure_or_axes,
    fitting_ticks,
    joined,
    numbers_in,
    shorten,
    width,
    wrapped,
)
from allocore.report.fit import Fit, shown_summary

THRESHOLD = 0.02  # of the paper, below which stems are grey
_ROW = 1.66
_CAPTION, _SECTION, _NAME_LINE = 0.2, 0.26, 0.15
_HEADING, _TITLES, _LABELS, _BELOW = 0.36, 0.3, 0.16, 0.12
_LEFT, _GAP = 0.4, 0.12  # the room to the left of a panel, with and without numbers at its axis
_LEAST_NAMES, _MOST_NAMES = 0.5, 2.2
_RIGHT, _WIDEST = 0.08, 9.0
_ON_PAGE, _TOP = 6, 5
_COLUMNS = 1000  # the most stems on a page; of neighbours, only the highest is drawn
_HEADROOM, _NAMES_ABOVE = 1.08, 1.3
_TICK, _LINE, _AWAY = 26.0, 8.4, 7.0  # points between ticks of time, between lines of names, from stems to names
_SHARE, _SPACE = 18.0, 3.0  # the width of the column of shares next to the stems, and its distance from the names
_PEAKS = 2
_PALE, _WHISKER = 0.3, 3.2  # how pale intervals are, and how wide a whisker is, in points
_T = TypeVar("_T")


class _Stems(style.Shown, total=False):
    top: int
    threshold: float


class _Page(_Stems, total=False):
    rows: int


@overload
def one_class(post: Fit, number: int, ax: None = None, **how: Unpack[_Stems]) -> Figure: ...
@overload
def one_class(post: Fit, number: int, ax: Axes, **how: Unpack[_Stems]) -> Axes: ...
def one_class(
    post: Fit,
    number: int,
    ax: Axes | None = None,
    *,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw one class: for every mode, the shares of its expected counts in the observed cells as stems.

    Stems below `threshold` are grey. The others are in colour, and the `top` largest have names. Periods of time are
    all in colour, with names at their peaks. Labels are in their original order. Behind the stems are the 90%
    intervals of the consensus: a band where labels have an order, else whiskers. The title of a panel names the
    classes that share the factor, with a probability if it is below one. The panels are one per mode.

    Parameters
    ----------
    number : int
        The number of the class, as in `post.consensus().classes()`, or in the draw.
    top : int, default: 5
        The largest number of names in a panel.
    threshold : float, default: 0.02
        The share below which stems are grey.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> figure = ac.figures.one_class(post, 0)
    >>> [panel.get_title(loc="left").split(" ")[0] for panel in figure.panels]
    ['origin', 'destination', 'carrier', 'month', 'hour']
    """
    summary = shown_summary(post, draw, chain)
    return _page(summary, [summary.place(number)], ax, top, threshold)


@overload
def classes(post: Fit, numbers: Sequence[int] | None = None, ax: None = None, **how: Unpack[_Page]) -> Figure: ...
@overload
def classes(post: Fit, numbers: Sequence[int] | None, ax: Axes, **how: Unpack[_Page]) -> Axes: ...
@overload
def classes(post: Fit, numbers: Sequence[int] | None = None, *, ax: Axes, **how: Unpack[_Page]) -> Axes: ...
def classes(
    post: Fit,
    numbers: Sequence[int] | None = None,
    ax: Axes | None = None,
    *,
    rows: int = 6,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw a page of classes, one below another, each as `one_class` does.

    Small or weakly supported classes come last. If the names of many modes need more room than a page has, the panels
    of a class take several lines. The panels are one per mode for the first class, then for the second, and so on.

    Parameters
    ----------
    numbers : sequence of int, optional
        The numbers of the classes, in this order; by default the largest classes.
    rows : int, default: 6
        How many of the largest classes to show if `numbers` is not given.
    top, threshold : optional
        As in `one_class`.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> len(ac.figures.classes(post, [0, 2]).panels)
    10
    """
    summary = shown_summary(post, draw, chain)
    rows = whole_number("rows", rows)
    shown = summary.apart_last[:rows].tolist() if numbers is None else summary.places(numbers)
    return _page(summary, shown, ax, top, threshold)


def _page(summary: ClassSummary, places: list[int], ax: Axes | None, top: int, threshold: float) -> Figure | Axes:
    """A page of classes. Small and weak classes have a heading, unless the classes are in another order."""
    checked_threshold(threshold)
    apart = [bool(summary.apart_C[place]) for place in places]
    headings = {apart.index(True): APART} if True in apart and apart == sorted(apart) else {}
    return class_page(summary, places, headings, ax, top, threshold, _caption(summary, places, threshold))


def checked_threshold(threshold: float) -> float:
    """Return the least share of a label that has a colour, after a check that it is a share."""
    if not isinstance(threshold, int | float | np.floating) or not 0.0 <= threshold <= 1.0:
        raise InputError("threshold", threshold, "must be a share from 0 to 1")
    return threshold


def class_page(
    summary: ClassSummary,
    places: list[int],
    sections: dict[int, str],
    ax: Axes | None,
    top: int,
    threshold: float,
    caption: str,
) -> Figure | Axes:
    """Draw classes one below another; `sections` are headings, each by the turn of the first class below it."""
    top, threshold = whole_number("top", top), checked_threshold(threshold)
    with style.look():
        wishes = _wishes(summary, places, top, threshold)
        lines = _mode_lines(summary.modes, wishes) if ax is None else [range(len(wishes))]
        above = _CAPTION + _SECTION * len(sections)
        # The width of a page, or up to a quarter more if the names need it; more only if a mode is very wide.
        wide = style.WIDTH
        for line in lines:
            modes, names = _on_line(summary.modes, line), _on_line(wishes, line)
            least = _needed(modes, [min(name, _LEAST_NAMES) for name in names])
            wide = max(wide, min(_needed(modes, names), _WIDEST), least)
        across = wide if ax is None else style.inches(ax)[0]
        titles = [_name_lines(summary, place, across) for place in places]
        headings = [_HEADING + _NAME_LINE * (len(title) - 1) for title in titles]
        tall = sum(headings) + (_ROW - _HEADING) * len(lines) * len(places) + above + 0.06
        sheet = style.Sheet(style.given_or_new(ax, wide, tall))
        high = (sheet.height - above - sum(headings)) / (len(places) * len(lines))
        source = source_words(summary)
        sheet.text(_GAP, 0.04, source, **style.NOTE)
        samples = [style.Sample("share of a label in the class", style.GREY, marker="o")]
        samples += [style.Sample("90% interval", style.GREY, _PALE)] if summary.is_consensus else []
        style.name_samples(sheet, _GAP + width(source, style.SMALL) / 72 + 0.25, 0.04, samples)
        for turn, place in enumerate(places):
            begun = sum(first <= turn for first in sections)
            upper = _CAPTION + sum(headings[:turn]) + turn * len(lines) * high + _SECTION * begun
            if turn in sections:
                words = shorten(sections[turn], (sheet.width - 2 * _GAP) * 72, style.NORMAL, bold=True)
                sheet.text(_GAP, upper - _SECTION + 0.08, words, color=style.GREY, weight="bold", gid="section")
            _write_heading(sheet, summary, place, upper, titles[turn])
            for number, line in enumerate(lines):
                slots = _slots(_on_line(summary.modes, line), _on_line(wishes, line), sheet.width)
                for mode, slot in zip(line, slots, strict=True):
                    top_edge = upper + headings[turn] + number * high + _TITLES
                    panel = sheet.panel(slot.left, top_edge, slot.width, high - _TITLES - _LABELS - _BELOW)
                    colour = style.mode_colours(summary.modes)[mode]
                    _write_title(panel, summary, place, mode, colour, slot)
                    draw_stems(panel, summary.profile(place, mode), colour, top, threshold, slot.beside * 72)
        return figure_or_axes(sheet.ax, ax, caption)


def _caption(summary: ClassSummary, places: list[int], threshold: float) -> str:
    """What a page of classes shows, for print."""
    numbers = [str(summary.number_C[place]) for place in places]
    named = f"Class {numbers[0]}" if len(places) == 1 else f"Classes {', '.join(numbers)}"
    bands = "; bands and pale bars are 90% intervals over the draws" if summary.is_consensus else ""
    return (
        f"{named} of the {summary.source}. Each panel is a mode, each stem the share of a label in the "
        f"{summary.counted} of the class{bands}. Stems below {threshold:.0%} are grey. The numbers of other "
        "classes that use the same factor are below the name of the mode, with a probability if it is less than one."
    )


def _on_line(values: Sequence[_T], line: range) -> list[_T]:
    return [values[mode] for mode in line]


def _mode_lines(modes: Sequence[ShownMode], wishes: Sequence[float]) -> list[range]:
    """The modes that are side by side: all of them, or as many on a line as fit on a page with their names."""
    for number in range(1, len(modes) + 1):
        ends = [len(modes) * place // number for place in range(number + 1)]
        lines = [range(*edges) for edges in pairwise(ends)]
        if all(_needed(_on_line(modes, line), _on_line(wishes, line)) <= _WIDEST for line in lines):
            return lines
    return lines


def classes_on_page(summary: ClassSummary, places: list[int]) -> int:
    """How many classes fit on a page for print: fewer if their modes need several lines."""
    with style.look():
        return max(1, _ON_PAGE // len(_mode_lines(summary.modes, _wishes(summary, places, _TOP, THRESHOLD))))


def _wishes(summary: ClassSummary, places: list[int], top: int, threshold: float) -> list[float]:
    """For each mode, the room in inches that its names need next to the stems; 0 if they are below the axis."""
    wishes = []
    for m, mode in enumerate(summary.modes):
        ticks = fitting_ticks(mode.labels, _stem_width(mode) * 72, style.SMALL)
        below = mode.kind in ("time", "order") or len(ticks) == len(mode.labels)
        room = 0.0 if below else max(_name_room(summary.profile(place, m), top, threshold) for place in places) / 72
        wishes.append(min(room, _MOST_NAMES))
    return wishes


def _needed(modes: Sequence[ShownMode], wishes: Sequence[float]) -> float:
    """The width in which no name is shortened."""
    margins = [_GAP if wish else _LEFT for wish in wishes]
    return sum(_stem_width(mode) for mode in modes) + sum(margins) + _RIGHT + sum(wishes)


class _Slot(NamedTuple):
    """The place of a mode on the page, in inches: its stems, and the room for names to their right."""

    left: float
    width: float
    beside: float


def _slots(modes: Sequence[ShownMode], wishes: Sequence[float], wide: float) -> list[_Slot]:
    """Divide the width of the page: stems get a width by the kind of their mode, names share the rest."""
    margins, stems = [_GAP if wish else _LEFT for wish in wishes], [_stem_width(mode) for mode in modes]
    room = wide - sum(margins) - _RIGHT
    names = _fair(wishes, room - sum(stems))
    stretch = (room - sum(names)) / sum(stems)
    slots, left = [], 0.0
    for margin, stem, name in zip(margins, stems, names, strict=True):
        slots.append(_Slot(left + margin, stem * stretch, name))
        left += margin + stem * stretch + name
    return slots


def _fair(wishes: Sequence[float], room: float) -> list[float]:
    """Divide room fairly: small wishes get what they need, the larger ones equal parts of the rest."""
    fair, left, waiting = list(wishes), room, sum(wish > 0 for wish in wishes)
    for place in sorted(range(len(wishes)), key=lambda place: wishes[place]):
        if wishes[place]:
            fair[place] = min(wishes[place], max(left / waiting, _LEAST_NAMES))
            left, waiting = left - fair[place], waiting - 1
    return fair


def _stem_width(mode: ShownMode) -> float:
    """The least width of the stems of a mode, in inches."""
    if mode.kind == "time":
        return 1.35
    if mode.kind == "order":
        return 0.85
    return 0.25 if len(mode.labels) <= 4 else 0.55


def _name_left(summary: ClassSummary, place: int) -> float:
    """Where the name of a class begins: after its number, in inches."""
    return _GAP + width(f"Class {summary.number_C[place]}", style.LARGE, bold=True) / 72 + 0.1


def _name_lines(summary: ClassSummary, place: int, wide: float) -> list[str]:
    """The name of a class in lines that fit."""
    return wrapped(summary.names[place], (wide - _name_left(summary, place) - _RIGHT) * 72, style.LARGE)


def _write_heading(sheet: style.Sheet, summary: ClassSummary, place: int, upper: float, name: list[str]) -> None:
    sheet.text(_GAP, upper + 0.04, f"Class {summary.number_C[place]}", fontsize=style.LARGE, weight="bold")
    sheet.text(_name_left(summary, place), upper + 0.04, "\n".join(name), fontsize=style.LARGE, gid="class name")
    share = f"{share_words(summary, place)} of all {summary.counted}"
    size = "  ·  ".join(words for words in (share, support_words(summary, place)) if words)
    sheet.text(_GAP, upper + 0.2 + _NAME_LINE * (len(name) - 1), size, color=style.GREY, gid="size")


def _write_title(panel: Axes, summary: ClassSummary, place: int, mode: int, colour: str, slot: _Slot) -> None:
    room = (slot.width + slot.beside + 0.06) * 72
    name = shorten(summary.mode_names[mode], room - 24, style.NORMAL, bold=True)
    title = name if summary.is_consensus else joined(name, summary.factor(place, mode).number)
    others = sharers(summary, place, mode)
    panel.set_title(title, loc="left", color=colour, weight="bold", fontsize=style.NORMAL, pad=13)
    style.below_title(panel, numbers_in(others, room, style.SMALL) if others else "not shared")


def _name_room(profile: Profile, top: int, threshold: float) -> float:
    """The room in points that the names of a profile need next to it."""
    rows = _largest(profile, top, threshold).tolist()
    widest = max((width(clean(profile.mode.labels[row]), style.SMALL) for row in rows), default=0.0)
    return _AWAY + _SHARE + _SPACE + widest + 1.0  # one point more than needed, so that rounding shortens no name


def draw_stems(ax: Axes, profile: Profile, colour: str, top: int, threshold: float, beside: float) -> None:
    """Draw a profile into a panel, with `beside` points of room to its right for names; below the axis if that is 0."""
    labels, points = profile.mode.labels, style.inches(ax)[0] * 72
    ax.set_xlim(-0.5 - 0.02 * len(labels), len(labels) - 0.5 + 0.02 * len(labels))
    time = profile.mode.kind == "time"
    if beside:
        style.name_ticks(ax, [])
    elif time:
        style.name_ticks(ax, date_ticks(labels, max(2, int(points / _TICK))))
    else:
        style.name_ticks(ax, fitting_ticks(labels, points, style.SMALL))
    if profile.empty:
        _share_axis(ax, profile, 1.0, beside)
        _remark(ax, "too small to tell", beside)
        return
    named = _largest(profile, top, threshold) if beside else _crests(profile)[: min(top, _PEAKS) if time else 0]
    shown = np.union1d(_highest(profile.share_D), named)
    large = (profile.share_D[shown] >= (0.0 if time else threshold)) | np.isin(shown, named)
    highest = max(float(profile.share_D.max()), _draw_intervals(ax, profile, colour, shown, shown[large]))
    _share_axis(ax, profile, highest, beside)
    ax.set_ylim(0.0, highest * (_NAMES_ABOVE if time or profile.even else _HEADROOM))
    share_D, grey, coloured, few = profile.share_D, shown[~large], shown[large], large.sum() <= 40
    ax.vlines(grey, 0.0, share_D[grey], colors=style.FAINT, linewidths=0.8, gid="grey")
    ax.vlines(coloured, 0.0, share_D[coloured], colors=colour, linewidths=1.2 if few else 0.8, gid="coloured")
    ax.plot(coloured, share_D[coloured], "o", color=colour, markersize=2.4 if few else 1.4, clip_on=False, gid="heads")
    if profile.even:
        _remark(ax, "evenly spread", beside)
    elif beside:
        _name_beside(ax, profile, named, beside)
    elif time:
        _name_above(ax, profile, named)


def _share_axis(ax: Axes, profile: Profile, highest: float, beside: float) -> None:
    found = MaxNLocator(nbins=3, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, highest)
    shown = [] if profile.empty or beside else [float(tick) for tick in found if 0.0 < tick <= highest * 1.001]
    ax.yaxis.set_major_locator(FixedLocator(shown))
    style.percent(ax)
    if beside:
        ax.spines["left"].set_visible(False)


def _largest(profile: Profile, top: int, threshold: float) -> Ints:
    if profile.even or profile.empty:
        return np.empty(0, dtype=np.int64)
    heaviest = profile.heaviest(top)
    named = profile.share_D[heaviest] >= threshold
    named[:1] = True
    return heaviest[named]


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
        end_x = x - (width(share, style.SMALL) + 1.5) / wide  # where the number begins
        at = (row - low) / (end - low)
        leaders.append([(at + 2 / wide, tip / high), (1.0, tip / high), (end_x, line / high)])
    _draw_leaders(ax, leaders)


def _name_above(ax: Axes, profile: Profile, named: Ints) -> None:
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
    ax.text(y=1.0, s=words, va="top", **style.NOTE, transform=ax.transAxes, **how)


def place_labels(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return the middles of labels on a line so that they do not overlap, by least squares from the wanted middles.

    Labels keep their order; if the line is too short, they are side by side from `low` on. Without gaps the middles
    would be at fixed offsets. What they exceed these by must not decrease along the line: this is an isotonic
    regression (Barlow et al., 1972), clipped to the line.
    """
    if not len(wanted):
        return []
    order = np.argsort(wanted, kind="stable")
    lengths = np.asarray(sizes, dtype=float)[order]
    offsets = np.cumsum(lengths) - lengths / 2
    moved = isotonic_regression(np.asarray(wanted, dtype=float)[order] - offsets).x
    middles = np.empty(len(order))
    middles[order] = offsets + np.clip(moved, low, max(low, high - lengths.sum()))
    return middles.tolist()

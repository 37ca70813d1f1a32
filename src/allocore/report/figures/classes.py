"""Figures of classes: for every mode a panel with the stems of the profile; several classes make a page."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar, overload

import numpy as np
from matplotlib.axes import Axes

from allocore.classes.names import APART, share_words, sharers, source_words, support_words
from allocore.classes.summary import ClassSummary, ShownDraw, ShownMode
from allocore.errors import InputError, whole_number
from allocore.report.figures import style
from allocore.report.figures.stems import draw_stems, name_room, names_below
from allocore.report.figures.style import Figure, figure_or_axes
from allocore.report.figures.text import joined, numbers_in, shorten, width
from allocore.report.fit import Fit, shown_summary

# The threshold of the paper, below which stems are grey.
THRESHOLD = 0.02
_ROW = 1.66
_CAPTION, _APART = 0.2, 0.26
_HEADING, _TITLES, _LABELS, _BELOW = 0.36, 0.3, 0.16, 0.12
# The room to the left of a panel, with and without numbers at its axis.
_LEFT, _GAP = 0.4, 0.12
_LEAST_NAMES, _MOST_NAMES = 0.5, 2.2
_RIGHT, _WIDEST = 0.08, 9.0
_ON_PAGE, _TOP = 6, 5
_T = TypeVar("_T")


@overload
def one_class(
    post: Fit,
    number: int,
    ax: None = None,
    *,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure: ...
@overload
def one_class(
    post: Fit,
    number: int,
    ax: Axes,
    *,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Axes: ...
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
    intervals of the consensus: a band where labels have an order, else whiskers. The title of a panel names
    the classes that share the factor, with a probability if it is below one.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    number : int
        The number of the class, as in `post.consensus().classes()`, or in the draw.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    top : int, default: 5
        The largest number of names in a panel.
    threshold : float, default: 0.02
        The share below which stems are grey.
    draw, chain : int or "best", optional
        The draw and the chain to show, as in `Posterior.classes`. By default the consensus, if there are several draws.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`, one per mode.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> figure = ac.figures.one_class(post, 0)
    >>> [panel.get_title(loc="left").split(" ")[0] for panel in figure.panels]
    ['origin', 'destination', 'carrier', 'month', 'hour']
    """
    summary = shown_summary(post, draw, chain)
    shown = _places(summary, [number])
    return _page(summary, shown, ax, whole_number("top", top), _check_threshold(threshold))


@overload
def classes(
    post: Fit,
    numbers: Sequence[int] | None = None,
    ax: None = None,
    *,
    rows: int = 6,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure: ...
@overload
def classes(
    post: Fit,
    numbers: Sequence[int] | None,
    ax: Axes,
    *,
    rows: int = 6,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Axes: ...
@overload
def classes(
    post: Fit,
    numbers: Sequence[int] | None = None,
    *,
    ax: Axes,
    rows: int = 6,
    top: int = _TOP,
    threshold: float = THRESHOLD,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Axes: ...
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

    Small or weakly supported classes come last, below a line that says so. If the names of many modes need more room
    than a page has, the panels of a class take several lines.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    numbers : sequence of int, optional
        The numbers of the classes, in this order; by default the largest classes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    rows : int, default: 6
        How many of the largest classes to show if `numbers` is not given.
    top : int, default: 5
        The largest number of names in a panel.
    threshold : float, default: 0.02
        The share below which stems are grey.
    draw, chain : int or "best", optional
        The draw and the chain to show, as in `Posterior.classes`. By default the consensus, if there are several draws.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`: one per mode for the first class, then for the second, and so on.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> len(ac.figures.classes(post, [0, 2]).panels)
    10
    """
    summary = shown_summary(post, draw, chain)
    rows = whole_number("rows", rows)
    shown = summary.apart_last[:rows].tolist() if numbers is None else _places(summary, numbers)
    return _page(summary, shown, ax, whole_number("top", top), _check_threshold(threshold))


def _places(summary: ClassSummary, numbers: Sequence[int]) -> list[int]:
    """The places of the classes with these numbers."""
    try:
        places = [summary.place(number) for number in numbers]
    except TypeError:
        raise InputError("numbers", numbers, "must be a list of class numbers") from None
    if not places:
        raise InputError("numbers", numbers, "must have at least one class")
    return places


def _check_threshold(threshold: float) -> float:
    if not isinstance(threshold, int | float | np.floating) or not 0.0 <= threshold <= 1.0:
        raise InputError("threshold", threshold, "must be a share from 0 to 1")
    return float(threshold)


def _page(summary: ClassSummary, places: list[int], ax: Axes | None, top: int, threshold: float) -> Figure | Axes:
    with style.look():
        wishes = _wishes(summary, places, top, threshold)
        lines = mode_lines(summary.modes, wishes) if ax is None else [range(len(wishes))]
        strong = _strong(summary, places)
        above = _CAPTION + _APART * (strong < len(places))
        tall = (_HEADING + (_ROW - _HEADING) * len(lines)) * len(places) + above + 0.06
        wide = max(_page_width(_on_line(summary.modes, line), _on_line(wishes, line)) for line in lines)
        sheet = style.Sheet(ax or style.new_axes(wide, tall))
        row = (sheet.height - above) / len(places)
        sheet.text(_GAP, 0.04, _caption(summary), fontsize=style.SMALL, color=style.GREY)
        for turn, place in enumerate(places):
            upper = _CAPTION + turn * row + _APART * (turn >= strong)
            if turn == strong:
                sheet.text(_GAP, upper - _APART + 0.08, APART, color=style.FAINT, weight="bold", gid="apart")
            _write_heading(sheet, summary, place, upper)
            for number, line in enumerate(lines):
                high = (row - _HEADING) / len(lines)
                slots = _slots(_on_line(summary.modes, line), _on_line(wishes, line), sheet.width)
                for mode, slot in zip(line, slots, strict=True):
                    top_edge = upper + _HEADING + number * high + _TITLES
                    panel = sheet.panel(slot.left, top_edge, slot.width, high - _TITLES - _LABELS - _BELOW)
                    colour = style.mode_colours(summary.modes)[mode]
                    _write_title(panel, summary, place, mode, colour, slot)
                    draw_stems(panel, summary.profile(place, mode), colour, top, threshold, slot.beside * 72)
        return figure_or_axes(sheet.ax, ax)


def _on_line(values: Sequence[_T], line: range) -> list[_T]:
    """The values of the modes on a line."""
    return [values[mode] for mode in line]


def mode_lines(modes: Sequence[ShownMode], wishes: Sequence[float]) -> list[range]:
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
        return max(1, _ON_PAGE // len(mode_lines(summary.modes, _wishes(summary, places, _TOP, THRESHOLD))))


def _strong(summary: ClassSummary, places: list[int]) -> int:
    """How many classes come before the small and weakly supported ones; all of them, if `places` has another order."""
    apart = [bool(summary.apart_C[place]) for place in places]
    return apart.index(True) if apart == sorted(apart) and True in apart else len(places)


def _caption(summary: ClassSummary) -> str:
    intervals = ", with 90% intervals" if summary.is_consensus else ""
    return f"{source_words(summary)}{intervals}; stems: shares of the labels in the class"


def _wishes(summary: ClassSummary, places: list[int], top: int, threshold: float) -> list[float]:
    """For each mode, the room in inches that its names need beside the stems; 0 if they are below the axis."""
    return [
        0.0
        if names_below(mode, _stem_width(mode) * 72)
        else min(max(name_room(summary.profile(place, m), top, threshold) for place in places) / 72, _MOST_NAMES)
        for m, mode in enumerate(summary.modes)
    ]


def _left_margins(wishes: Sequence[float]) -> list[float]:
    return [_GAP if wish else _LEFT for wish in wishes]


def _needed(modes: Sequence[ShownMode], wishes: Sequence[float]) -> float:
    """The width in which no name is shortened."""
    return sum(_stem_width(mode) for mode in modes) + sum(_left_margins(wishes)) + _RIGHT + sum(wishes)


def _page_width(modes: Sequence[ShownMode], wishes: Sequence[float]) -> float:
    """The width of a page, or up to a quarter more if the names need it; more only if a mode is very wide."""
    least = _needed(modes, [min(wish, _LEAST_NAMES) for wish in wishes])
    return max(style.WIDTH, min(_needed(modes, wishes), _WIDEST), least)


class _Slot(NamedTuple):
    """The place of a mode on the page, in inches: its stems, and the room for names to their right."""

    left: float
    width: float
    beside: float


def _slots(modes: Sequence[ShownMode], wishes: Sequence[float], wide: float) -> list[_Slot]:
    """Divide the width of the page: stems get a width by the kind of their mode, names share the rest."""
    margins, stems = _left_margins(wishes), [_stem_width(mode) for mode in modes]
    room = wide - sum(margins) - _RIGHT
    names = _fair(wishes, room - sum(stems))
    stretch = (room - sum(names)) / sum(stems)
    slots, left = [], 0.0
    for margin, stem, name in zip(margins, stems, names, strict=True):
        slots.append(_Slot(left + margin, stem * stretch, name))
        left += margin + stem * stretch + name
    return slots


def _fair(wishes: Sequence[float], room: float) -> list[float]:
    """Divide room fairly: small wishes are granted, the larger ones get equal parts of the rest."""
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


def _write_heading(sheet: style.Sheet, summary: ClassSummary, place: int, upper: float) -> None:
    """Write the number and the name of a class, and below them its size and support."""
    number = f"Class {summary.number_C[place]}"
    sheet.text(_GAP, upper + 0.04, number, fontsize=style.LARGE, weight="bold")
    left = _GAP + width(number, style.LARGE, bold=True) / 72 + 0.1
    name = shorten(summary.names[place], (sheet.width - left - _RIGHT) * 72, style.LARGE)
    sheet.text(left, upper + 0.04, name, fontsize=style.LARGE, gid="class name")
    share = f"{share_words(summary, place)} of all {summary.counted}"
    size = "  ·  ".join(words for words in (share, support_words(summary, place)) if words)
    sheet.text(_GAP, upper + 0.2, size, color=style.GREY, gid="size")


def _write_title(panel: Axes, summary: ClassSummary, place: int, mode: int, colour: str, slot: _Slot) -> None:
    """Write the mode, and below it the classes that share the factor; in a draw the factor has a number."""
    room = (slot.width + slot.beside + 0.06) * 72
    name = shorten(summary.mode_names[mode], room - 24, style.NORMAL, bold=True)
    title = name if summary.is_consensus else joined(name, summary.factor(place, mode).number)
    others = sharers(summary, place, mode)
    panel.set_title(title, loc="left", color=colour, weight="bold", fontsize=style.NORMAL, pad=13)
    style.below_title(panel, numbers_in(others, room, style.SMALL) if others else "not shared")

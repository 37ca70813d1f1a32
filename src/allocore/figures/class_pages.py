"""Figures of classes: for every mode a panel with the stems of the factor; several classes make a page."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from allocore.errors import InputError, whole_number
from allocore.figures import style
from allocore.figures.stems import draw_stems, name_room, told_below
from allocore.figures.text import joined, numbers_in, shorten
from allocore.posterior.class_summary import ClassSummary, ShownMode
from allocore.posterior.posterior import Posterior

# The threshold of the paper, below which stems are grey.
THRESHOLD = 0.02
_ROW = 1.5
_HEADING, _TITLES, _LABELS, _BELOW = 0.2, 0.3, 0.16, 0.12
# The room to the left of a panel, with and without numbers at its axis.
_LEFT, _GAP = 0.4, 0.12
_LEAST_NAMES, _MOST_NAMES = 0.5, 2.2
_RIGHT, _WIDEST = 0.08, 9.0


def one_class(
    post: Posterior,
    number: int,
    ax: Axes | None = None,
    *,
    top: int = 5,
    threshold: float = THRESHOLD,
    draw: int = -1,
    chain: int = 0,
) -> Axes:
    """Draw one class: for every mode, the shares of its factor as stems.

    Stems below `threshold` are grey. The others are in colour, and the `top` largest have names. Periods of time are
    all in colour, with names at their peaks. Labels stand in their original order. The title of a panel has the number
    of the factor and the other classes that share it.

    Parameters
    ----------
    post : Posterior
        The posterior of a fitted model, or of `allocore.open_run`.
    number : int
        The number of the class, as in `post.classes()`: 0 is the largest.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    top : int, default: 5
        The largest number of names in a panel.
    threshold : float, default: 0.02
        The share below which stems are grey.
    draw, chain : int, default: -1 and 0
        The draw to show, and its chain. Negative numbers count from the end.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Its panels are `ax.child_axes`, one per mode.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> ax = ac.figures.one_class(post, 0)
    >>> [panel.get_title(loc="left").split(" ")[0] for panel in ax.child_axes]
    ['origin', 'destination', 'carrier', 'month', 'hour']
    """
    summary = post.class_summary(draw, chain=chain)
    shown = _check_numbers(summary, [number])
    return _page(summary, shown, ax, whole_number("top", top), _check_threshold(threshold))


def classes(
    post: Posterior,
    numbers: Sequence[int] | None = None,
    ax: Axes | None = None,
    *,
    rows: int = 6,
    top: int = 5,
    threshold: float = THRESHOLD,
    draw: int = -1,
    chain: int = 0,
) -> Axes:
    """Draw a page of classes, one below another, each as `one_class` does.

    Parameters
    ----------
    post : Posterior
        The posterior of a fitted model, or of `allocore.open_run`.
    numbers : sequence of int, optional
        The numbers of the classes, as in `post.classes()`; by default the largest classes.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    rows : int, default: 6
        How many of the largest classes to show if `numbers` is not given.
    top : int, default: 5
        The largest number of names in a panel.
    threshold : float, default: 0.02
        The share below which stems are grey.
    draw, chain : int, default: -1 and 0
        The draw to show, and its chain. Negative numbers count from the end.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Its panels are `ax.child_axes`: one per mode for the first class, then for the second, and so on.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> len(ac.figures.classes(post, [0, 2]).child_axes)
    10
    """
    summary = post.class_summary(draw, chain=chain)
    rows = whole_number("rows", rows)
    shown = list(range(min(rows, len(summary.value_C)))) if numbers is None else _check_numbers(summary, numbers)
    return _page(summary, shown, ax, whole_number("top", top), _check_threshold(threshold))


def _check_numbers(summary: ClassSummary, numbers: Sequence[int]) -> list[int]:
    known = len(summary.value_C)
    try:
        given = [whole_number("number", number, least=0) for number in numbers]
    except TypeError:
        raise InputError(f"numbers is {numbers!r}, but it must be a list of classes") from None
    wrong = [number for number in given if number >= known]
    if wrong:
        raise InputError(f"number is {wrong[0]}, but there are {known} classes: it must be from 0 to {known - 1}")
    if not given:
        raise InputError("numbers is empty, but it must hold at least one class")
    return given


def _check_threshold(threshold: float) -> float:
    if not isinstance(threshold, int | float | np.floating) or not 0.0 <= threshold <= 1.0:
        raise InputError(f"threshold is {threshold!r}, but it must be a share from 0 to 1")
    return float(threshold)


def _page(summary: ClassSummary, numbers: list[int], ax: Axes | None, top: int, threshold: float) -> Axes:
    with style.look():
        wishes = _wishes(summary, numbers, top, threshold)
        sheet = style.Sheet(ax or style.new_axes(_page_width(summary, wishes), _ROW * len(numbers) + 0.06))
        slots = _slots(summary, wishes, sheet.width)
        row = sheet.height / len(numbers)
        for place, number in enumerate(numbers):
            _heading(sheet, summary, number, place * row)
            for mode, (slot, colour) in enumerate(zip(slots, style.mode_colours(summary.modes), strict=True)):
                panel = sheet.panel(
                    slot.left,
                    place * row + _HEADING + _TITLES,
                    slot.width,
                    row - _HEADING - _TITLES - _LABELS - _BELOW,
                )
                _title(panel, summary, number, mode, colour, slot)
                draw_stems(panel, summary.factor(number, mode), colour, top, threshold, slot.beside * 72)
        return sheet.ax


def _wishes(summary: ClassSummary, numbers: list[int], top: int, threshold: float) -> list[float]:
    """For each mode, the room in inches that its names need beside the stems; 0 if they stand below the axis."""
    return [
        0.0
        if told_below(mode, _stem_width(mode) * 72)
        else min(max(name_room(summary.factor(number, m), top, threshold) for number in numbers) / 72, _MOST_NAMES)
        for m, mode in enumerate(summary.modes)
    ]


def _margins(wishes: list[float]) -> list[float]:
    return [_GAP if wish else _LEFT for wish in wishes]


def _page_width(summary: ClassSummary, wishes: list[float]) -> float:
    """The width of a page, or up to a quarter more if the names need it; more only if there are many modes."""
    stems = sum(_stem_width(mode) for mode in summary.modes) + sum(_margins(wishes)) + _RIGHT
    least = stems + _LEAST_NAMES * sum(wish > 0 for wish in wishes)
    return max(style.WIDTH, min(stems + sum(wishes), _WIDEST), least)


class _Slot(NamedTuple):
    """The place of a mode on the page, in inches: its stems, and the room for names to their right."""

    left: float
    width: float
    beside: float


def _slots(summary: ClassSummary, wishes: list[float], wide: float) -> list[_Slot]:
    """Divide the width of the page: stems get a width by the kind of their mode, names share the rest."""
    margins, stems = _margins(wishes), [_stem_width(mode) for mode in summary.modes]
    room = wide - sum(margins) - _RIGHT
    names = _fair(wishes, room - sum(stems))
    stretch = (room - sum(names)) / sum(stems)
    slots, left = [], 0.0
    for margin, stem, name in zip(margins, stems, names, strict=True):
        slots.append(_Slot(left + margin, stem * stretch, name))
        left += margin + stem * stretch + name
    return slots


def _fair(wishes: list[float], room: float) -> list[float]:
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


def _heading(sheet: style.Sheet, summary: ClassSummary, number: int, upper: float) -> None:
    sheet.text(_GAP, upper + 0.05, f"Class {number}", fontsize=style.LARGE, weight="bold")
    sheet.text(_GAP + 0.75, upper + 0.075, heading(summary, number), color=style.GREY)


def heading(summary: ClassSummary, number: int) -> str:
    """The share of a class, and how often it is found again in other draws and chains."""
    words = [f"{summary.share_C[number]:.1%} of all {summary.counted}"]
    again, chains = summary.support.draws_C[number], summary.support.chains_C[number]
    if np.isfinite(again):
        words.append(f"found again in {again:.0%} of the other draws")
    if np.isfinite(chains):
        words.append(f"held by {chains:.0%} of the chains")
    return "  ·  ".join(words)


def _title(panel: Axes, summary: ClassSummary, number: int, mode: int, colour: str, slot: _Slot) -> None:
    """Write the mode and the number of the factor, and below them the classes that share the factor."""
    factor, partners = summary.factor(number, mode), summary.partners(number, mode)
    room = (slot.width + slot.beside + 0.06) * 72
    name = shorten(summary.mode_names[mode], room - 24, style.NORMAL)
    shared = numbers_in(partners, room, style.SMALL) if partners else "not shared"
    panel.set_title(joined(name, factor.number), loc="left", color=colour, weight="bold", fontsize=style.NORMAL, pad=13)
    style.below_title(panel, shared)

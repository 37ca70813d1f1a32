"""A class as stems of its factors, one panel for every mode, and pages of classes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from allocore.errors import InputError, whole_number
from allocore.figures import style
from allocore.figures.stems import draw_stems, name_room, told_below
from allocore.figures.text import joined, numbers_in, shorten
from allocore.posterior.draw_summary import DrawSummary, ShownMode
from allocore.posterior.posterior import Posterior

# Where the paper greys stems out.
THRESHOLD = 0.02
_ROW = 1.5
_HEADING, _TITLES, _LABELS, _BELOW = 0.2, 0.3, 0.16, 0.12
# Left of a panel, with and without numbers at its axis.
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
    """Draw a class: for every mode the stems of its factor, as shares of one.

    Stems below `threshold` are grey, the others in colour, and the `top` largest of them named. Periods of time are all
    in colour, with names at their peaks. Modes without an order of their own stand in the order of their labels. Above
    each panel: the factor's number and the classes that share it.

    Parameters
    ----------
    post
        The posterior.
    number
        The class, as in `post.classes()`: 0 is the largest.
    ax
        Axes to draw in; by default those of a new figure.
    top
        The most labels named in a panel.
    threshold
        The share below which stems are grey.
    draw, chain
        The draw to show.

    Returns
    -------
    The axes. Its panels are `ax.child_axes`, one per mode.

    Examples
    --------
    >>> import allocore as ac
    >>> from allocore import figures
    >>> post = ac.AlloCore(budget=5, burn_in=20, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> ax = figures.one_class(post, 0)
    >>> [panel.get_title(loc="left").split(" ")[0] for panel in ax.child_axes]
    ['origin', 'destination', 'carrier', 'month', 'hour']
    """
    summary = post.draw_summary(draw, chain=chain)
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
    """Draw a page of classes, one below the other, each as `one_class` does.

    Parameters
    ----------
    post
        The posterior.
    numbers
        The classes, as in `post.classes()`; by default the largest.
    ax
        Axes to draw in; by default those of a new figure.
    rows
        How many of the largest classes to show where `numbers` are not given.
    top, threshold, draw, chain
        As for `one_class`.

    Returns
    -------
    The axes. Its panels are `ax.child_axes`: all modes of the first class, then those of the second, ..

    Examples
    --------
    >>> import allocore as ac
    >>> from allocore import figures
    >>> post = ac.AlloCore(budget=5, burn_in=20, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> len(figures.classes(post, [0, 2]).child_axes)
    10
    """
    summary = post.draw_summary(draw, chain=chain)
    rows = whole_number("rows", rows)
    shown = list(range(min(rows, len(summary.value_C)))) if numbers is None else _check_numbers(summary, numbers)
    return _page(summary, shown, ax, whole_number("top", top), _check_threshold(threshold))


def _check_numbers(summary: DrawSummary, numbers: Sequence[int]) -> list[int]:
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


def _page(summary: DrawSummary, numbers: list[int], ax: Axes | None, top: int, threshold: float) -> Axes:
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


def _wishes(summary: DrawSummary, numbers: list[int], top: int, threshold: float) -> list[float]:
    """For each mode the room its names would like beside the stems, in inches; none if they stand below the axis."""
    return [
        0.0
        if told_below(mode, _stem_width(mode) * 72)
        else min(max(name_room(summary.factor(number, m), top, threshold) for number in numbers) / 72, _MOST_NAMES)
        for m, mode in enumerate(summary.modes)
    ]


def _margins(wishes: list[float]) -> list[float]:
    return [_GAP if wish else _LEFT for wish in wishes]


def _page_width(summary: DrawSummary, wishes: list[float]) -> float:
    """As wide as a page, and up to a quarter wider if the names need it; many modes get the room they must have."""
    stems = sum(_stem_width(mode) for mode in summary.modes) + sum(_margins(wishes)) + _RIGHT
    least = stems + _LEAST_NAMES * sum(wish > 0 for wish in wishes)
    return max(style.WIDTH, min(stems + sum(wishes), _WIDEST), least)


class _Slot(NamedTuple):
    """The place of a mode on the page, in inches: its stems, and the room for names at their right."""

    left: float
    width: float
    beside: float


def _slots(summary: DrawSummary, wishes: list[float], wide: float) -> list[_Slot]:
    """Share out the width of the page: stems get so much by their kind, names what they need as far as it goes."""
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
    """Share out room: whoever wishes for little gets it, the others get as much as each other."""
    fair, left, waiting = list(wishes), room, sum(wish > 0 for wish in wishes)
    for place in sorted(range(len(wishes)), key=lambda place: wishes[place]):
        if wishes[place]:
            fair[place] = min(wishes[place], max(left / waiting, _LEAST_NAMES))
            left, waiting = left - fair[place], waiting - 1
    return fair


def _stem_width(mode: ShownMode) -> float:
    """How wide the stems of a mode are at least, in inches."""
    if mode.kind == "time":
        return 1.35
    if mode.kind == "order":
        return 0.85
    return 0.25 if len(mode.labels) <= 4 else 0.55


def _heading(sheet: style.Sheet, summary: DrawSummary, number: int, upper: float) -> None:
    sheet.text(_GAP, upper + 0.05, f"Class {number}", fontsize=style.LARGE, weight="bold")
    sheet.text(_GAP + 0.75, upper + 0.075, heading(summary, number), color=style.GREY)


def heading(summary: DrawSummary, number: int) -> str:
    """What is known of a class as a whole: its share, and how often it is found again."""
    words = [f"{summary.share_C[number]:.1%} of all expected counts"]
    again, chains = summary.stability.draws_C[number], summary.stability.chains_C[number]
    if np.isfinite(again):
        words.append(f"found again in {again:.0%} of the other draws")
    if np.isfinite(chains):
        words.append(f"held by {chains:.0%} of the chains")
    return "  ·  ".join(words)


def _title(panel: Axes, summary: DrawSummary, number: int, mode: int, colour: str, slot: _Slot) -> None:
    """The mode and the factor's number, below it the classes that share the factor."""
    factor, partners = summary.factor(number, mode), summary.partners(number, mode)
    room = (slot.width + slot.beside + 0.06) * 72
    name = shorten(summary.names[mode], room - 24, style.NORMAL)
    shared = numbers_in(partners, room, style.SMALL) if partners else "not shared"
    panel.set_title(joined(name, factor.number), loc="left", color=colour, weight="bold", fontsize=style.NORMAL, pad=13)
    style.below_title(panel, shared)

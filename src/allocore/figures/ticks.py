"""Ticks of axes whose positions are labels: starts of years, quarters and months for periods, else all labels that fit.

The positions are numbers of periods, which may have gaps, and not dates. Matplotlib's locators of dates do not apply:
they put ticks at dates that are not among the periods, and more of them than asked for.
"""

import math
from collections.abc import Sequence

from allocore.figures.text import clean, width

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
Ticks = list[tuple[int, str]]


def date_ticks(labels: Sequence[str | int], most: int) -> Ticks:
    """At most `most` positions with their names, at the starts of months, quarters, years or decades.

    Examples
    --------
    >>> date_ticks([f"{year}-{month:02d}" for year in (2018, 2019) for month in range(1, 13)], 5)
    [(0, '2018'), (6, 'Jul'), (12, '2019'), (18, 'Jul')]
    >>> date_ticks(["2018-03-05", "2018-03-06", "2018-03-07"], 5)
    [(0, '5 Mar 2018'), (2, '7 Mar')]
    """
    months = [_month(str(label)) for label in labels]
    for step in _STEPS:
        starts = _starts(months, step)
        if 2 <= len(starts) <= max(most, 2):
            return _named(starts, months, step)
        if len(starts) < 2:
            break
    return _ends(labels)


def fitting_ticks(labels: Sequence[str | int], room: float, size: float) -> Ticks:
    """All labels if they fit side by side in `room` points, else every second, third and so on, from the first."""
    slot = room / len(labels)
    # No label is narrower than half its height, so a hundred thousand labels need not be measured.
    step = max(1, int(size / 2 / slot))
    while True:
        places = range(0, len(labels), step)
        texts = [clean(labels[place]) for place in places]
        needed = (max(width(text, size) for text in texts) + size / 2) / slot
        if step >= len(labels) or needed <= step:
            return list(zip(places, texts, strict=True))
        step = math.ceil(needed)


def all_fit(labels: Sequence[str | int], room: float, size: float) -> bool:
    """Whether all labels fit side by side."""
    return len(labels) * size / 2 < room and len(fitting_ticks(labels, room, size)) == len(labels)


def _month(label: str) -> int:
    """The month in which a period begins, counted from the year 0."""
    year, rest = int(label[:4]), label[5:]
    if rest.startswith("Q"):
        return 12 * year + 3 * (int(rest[1]) - 1)
    if rest.startswith("W"):
        return 12 * year + min((int(rest[1:]) - 1) * 12 // 52, 11)
    return 12 * year + (int(rest[:2]) - 1 if rest else 0)


def _starts(months: list[int], step: int) -> list[int]:
    """The first position in each stretch of `step` months; the first stretch counts only if its start is there."""
    firsts = [place for place in range(1, len(months)) if months[place] // step != months[place - 1] // step]
    return [0, *firsts] if months and months[0] % step == 0 else firsts


def _named(starts: list[int], months: list[int], step: int) -> Ticks:
    """Name January by its year and other months by themselves; at least one tick has a year."""
    names = [str(months[place] // 12) if step >= 12 or months[place] % 12 == 0 else "" for place in starts]
    ticks = [name or _MONTHS[months[place] % 12] for name, place in zip(names, starts, strict=True)]
    if not any(names):
        ticks[0] += f" {months[starts[0]] // 12}"
    return list(zip(starts, ticks, strict=True))


def _ends(labels: Sequence[str | int]) -> Ticks:
    """Ticks at the first and the last period, for a stretch without starts of months."""
    first, last = str(labels[0]), str(labels[-1])
    named = [_day(first), _day(last)]
    if len(first) == 10 and first[:4] == last[:4]:
        named[1] = named[1].rpartition(" ")[0]
    return [(0, named[0])] if len(labels) == 1 else [(0, named[0]), (len(labels) - 1, named[1])]


def _day(label: str) -> str:
    if len(label) == 10:
        return f"{int(label[8:])} {_MONTHS[int(label[5:7]) - 1]} {label[:4]}"
    return label

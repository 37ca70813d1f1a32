"""The periods that follow: labels of the time after the last one, for every form of period that a mode can have.

Months and days may also be written without hyphens: 201801 and 20180131.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import pairwise

from allocore.data.calendar_labels import PeriodForm, is_rising, period_form
from allocore.errors import InputError

_WEEK = 7
_QUARTERS, _MONTHS, _HOURS = 4, 12, 24
_FIRST_YEAR, _LAST_YEAR = 1500, 2999  # of months and days without hyphens: other such labels are plain numbers


def period_numbers(labels: Sequence[object]) -> list[int] | None:
    """Return the place of each period in a count of periods, or None if the labels are no rising periods or numbers.

    Days that are all the same number of days apart, such as weeks named by their first day, are counted in this step.

    >>> period_numbers(["2018-11", "2018-12", "2019-02"]), period_numbers(["2018-01-01", "2018-01-08"])
    ([0, 1, 3], [0, 1])
    """
    found = _ordinals(labels)
    if found is None:
        return None
    ordinals, step = found[0], _step(found[0])
    return [(each - ordinals[0]) // step for each in ordinals]


def next_periods(labels: Sequence[object], horizon: int) -> list[str] | None:
    """Return the labels of the periods after the last one, or None if the labels are no rising periods or numbers.

    >>> next_periods(["2018-10", "2018-11"], 3), next_periods(["2020-W52"], 2)
    (['2018-12', '2019-01', '2019-02'], ['2020-W53', '2021-W01'])
    >>> next_periods(["201811", "201812"], 2), next_periods(["7", "8"], 2)
    (['201901', '201902'], ['9', '10'])
    """
    found = _ordinals(labels)
    if found is None:
        return None
    ordinals, write = found
    step = _step(ordinals)
    try:
        return [write(ordinals[-1] + step * (h + 1)) for h in range(horizon)]
    except (OverflowError, ValueError):
        raise InputError(f"horizon is {horizon}, but the calendar of {labels[-1]} ends before") from None


def periods_per_year(labels: Sequence[object]) -> int | None:
    """Return how many periods a year has, a week if the periods are days, or a day if they are hours; or None.

    >>> periods_per_year(["2018-10", "2018-11"]), periods_per_year(["2018-01-01", "2018-01-08"])
    (12, 52)
    """
    form = period_form(_hyphenated(labels) or labels)
    if form is None or form == "year":
        return None
    found = _ordinals(labels)
    step = 1 if found is None else _step(found[0])
    if form == "hour":
        return {1: _HOURS}.get(step)
    if form == "day":
        return {1: _WEEK, _WEEK: 52}.get(step)
    whole = {"quarter": _QUARTERS, "month": _MONTHS, "iso-week": 52}[form]
    return whole // step if whole % step == 0 and whole > step else None


def _step(ordinals: list[int]) -> int:
    """The largest step that reaches all periods: absent ones are gaps, not longer steps."""
    return math.gcd(*(b - a for a, b in pairwise(ordinals))) or 1


def _ordinals(labels: Sequence[object]) -> tuple[list[int], Callable[[int], str]] | None:
    """Numbers that count periods, and how to write the label of a number."""
    if (dates := _hyphenated(labels)) is not None:
        found = _ordinals(dates)
        return found and (found[0], lambda ordinal: found[1](ordinal).replace("-", ""))
    texts = [str(label) for label in labels]
    form = period_form(texts)
    if form is None or not is_rising(texts):
        if all(text.removeprefix("-").isdecimal() for text in texts):
            numbers = [int(text) for text in texts]
            return (numbers, str) if all(a < b for a, b in pairwise(numbers)) else None
        return None
    read, write = _FORMS[form]
    try:
        return [read(text) for text in texts], write
    except ValueError:  # 2018-02-30 has the form of a day
        return None


def _hyphenated(labels: Sequence[object]) -> list[str] | None:
    """Months YYYYMM or days YYYYMMDD with hyphens; None if the labels are not all of one of these forms."""
    if isinstance(labels, range):
        return None
    texts = [str(label) for label in labels]
    if {len(text) for text in texts} not in ({6}, {8}) or not all(t.isascii() and t.isdecimal() for t in texts):
        return None
    if not all(_FIRST_YEAR <= int(text[:4]) <= _LAST_YEAR for text in texts):
        return None
    try:
        for text in texts:
            date.fromisoformat(f"{text[:4]}-{text[4:6]}-{text[6:] or '01'}")
    except ValueError:
        return None
    return ["-".join(filter(None, (text[:4], text[4:6], text[6:]))) for text in texts]


def _parts(text: str, between: str) -> tuple[int, int]:
    year, number = text.split(between)
    return int(year), int(number)


def _in_year(per_year: int, between: str, width: int) -> tuple[Callable[[str], int], Callable[[int], str]]:
    def read(text: str) -> int:
        year, number = _parts(text, between)
        return year * per_year + number - 1

    def write(ordinal: int) -> str:
        return f"{_year(ordinal // per_year)}{between}{ordinal % per_year + 1:0{width}d}"

    return read, write


def _year(year: int) -> str:
    if year > date.max.year:
        raise OverflowError
    return f"{year:04d}"


def _week(text: str) -> int:
    return date.fromisocalendar(*_parts(text, "-W"), 1).toordinal() // _WEEK


def _write_week(ordinal: int) -> str:
    monday = date.fromordinal(1) + timedelta(days=ordinal * _WEEK)
    return f"{monday.isocalendar().year:04d}-W{monday.isocalendar().week:02d}"


def _hour(text: str) -> int:
    return date.fromisoformat(text[:10]).toordinal() * _HOURS + int(text[11:13])


def _write_hour(ordinal: int) -> str:
    return f"{date.fromordinal(ordinal // _HOURS).isoformat()} {ordinal % _HOURS:02d}:00"


_FORMS: dict[PeriodForm, tuple[Callable[[str], int], Callable[[int], str]]] = {
    "year": (int, _year),
    "quarter": _in_year(_QUARTERS, "-Q", 1),
    "month": _in_year(_MONTHS, "-", 2),
    "iso-week": (_week, _write_week),
    "day": (lambda text: date.fromisoformat(text).toordinal(), lambda ordinal: date.fromordinal(ordinal).isoformat()),
    "hour": (_hour, _write_hour),
}

"""Labels with a place in the calendar: periods of time, names of months and of weekdays, times of day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import Literal

PeriodForm = Literal["year", "quarter", "month", "iso-week", "day", "hour"]

_YEAR, _MONTH = r"[12]\d{3}", r"[12]\d{3}-(0[1-9]|1[0-2])"
_DAY = rf"{_MONTH}-(0[1-9]|[12]\d|3[01])"
_FORMS: dict[PeriodForm, re.Pattern[str]] = {
    "year": re.compile(r"1[5-9]\d\d|20\d\d"),
    "quarter": re.compile(rf"{_YEAR}-Q[1-4]"),
    "month": re.compile(_MONTH),
    "iso-week": re.compile(rf"{_YEAR}-W[0-5]\d"),
    "day": re.compile(_DAY),
    "hour": re.compile(rf"{_DAY} ([01]\d|2[0-3]):00"),
}
# Periods that hold those of a form, and whose texts begin theirs: 2018 holds 2018-05.
_WIDER: dict[PeriodForm, re.Pattern[str]] = {
    "year": re.compile(r"(?!)"),
    "quarter": re.compile(_YEAR),
    "month": re.compile(_YEAR),
    "iso-week": re.compile(_YEAR),
    "day": re.compile(rf"{_YEAR}|{_MONTH}"),
    "hour": re.compile(rf"{_YEAR}|{_MONTH}|{_DAY}"),
}
_CLOCK = re.compile(r"([01]?\d|2[0-4])(:[0-5]\d){1,2}")
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WEEK, _FEWEST_WEEKS = 7, 3
_YEAR_LETTERS = 4


def period_form(labels: Sequence[object]) -> PeriodForm | None:
    """Return how the labels write periods of time, or None if they are not all periods of one form.

    Weeks that are named by their first day have the form of days.

    >>> period_form(["2018-01", "2018-02"]), period_form(["2018-01-29"]), period_form(["2018", "2018-Q1"])
    ('month', 'day', None)
    """
    if isinstance(labels, range) or not labels:
        return None
    for form, pattern in _FORMS.items():
        if pattern.fullmatch(str(labels[0])):
            return form if all(pattern.fullmatch(str(label)) for label in labels) else None
    return None


def is_period(text: str, form: PeriodForm) -> bool:
    """Return whether a text is a period of this form."""
    return _FORMS[form].fullmatch(text) is not None


def is_wider_period(text: str, form: PeriodForm) -> bool:
    """Return whether a text is a period that holds some of this form: the year of a month, the month of a day."""
    return _WIDER[form].fullmatch(text) is not None


def is_rising(labels: Sequence[str]) -> bool:
    """Return whether every label is larger than the one before, as texts."""
    return all(a < b for a, b in pairwise(labels))


def frequency_of(labels: Sequence[str]) -> str | None:
    """Return the frequency for which `read_events` writes such labels; None if there is none, or two are possible.

    >>> frequency_of(["2018-01", "2018-02"]), frequency_of(["2018-01-01", "2018-01-08"])
    ('month', 'week')
    """
    form = period_form(labels)
    if form != "day":
        return None if form == "iso-week" else form
    days = _days(labels)
    if days is None:
        return None
    if any(day.weekday() for day in days):
        return "day"
    return "week" if len(days) > 1 and _whole_weeks_apart(days) else None


def are_weeks(labels: Sequence[object]) -> bool:
    """Return whether labels name weeks by their first days: three or more days, each some whole weeks after another.

    >>> are_weeks(["2018-01-01", "2018-01-08", "2018-01-22"]), are_weeks(["2018-01-01", "2018-01-02", "2018-01-03"])
    (True, False)
    """
    if period_form(labels) != "day":
        return False
    days = _days([str(label) for label in labels])
    return days is not None and len(days) >= _FEWEST_WEEKS and _whole_weeks_apart(days)


def week_words(first: str, last: str) -> str:
    """Return a stretch of weeks in words, from the first day of the first week to the last day of the last one.

    >>> week_words("2018-01-01", "2018-01-22"), week_words("2018-12-24", "2018-12-31")
    ('2018-01-01 to 01-28', '2018-12-24 to 2019-01-06')
    >>> week_words("2018-01-01", "2018-01-01")
    'week of 2018-01-01'
    """
    if first == last:
        return f"week of {first}"
    end = (date.fromisoformat(last) + timedelta(days=_WEEK - 1)).isoformat()
    same_year = first[:_YEAR_LETTERS] == end[:_YEAR_LETTERS]
    return f"{first} to {end[_YEAR_LETTERS + 1 :] if same_year else end}"


def _days(labels: Sequence[str]) -> list[date] | None:
    try:
        return [date.fromisoformat(label) for label in labels]
    except ValueError:
        return None


def _whole_weeks_apart(days: Sequence[date]) -> bool:
    return all((b - a).days % _WEEK == 0 for a, b in pairwise(days))


def calendar_keys(labels: Sequence[str]) -> list[tuple[int, ...]] | None:
    """Return by what to sort names of months, names of weekdays or times of day; None for any other labels.

    Names are English, in full or abbreviated: Monday, Mon, Tues.

    >>> calendar_keys(["Fri", "Mon"]), calendar_keys(["10:00", "9:30"]), calendar_keys(["Mon", "tea"])
    ([(4,), (0,)], [(10, 0), (9, 30)], None)
    """
    for cycle in (_MONTHS, _WEEKDAYS):
        # Most labels are no names, and the first already says so.
        if all(_place(label, cycle) >= 0 for label in labels):
            return [(_place(label, cycle),) for label in labels]
    if all(_CLOCK.fullmatch(label) for label in labels):
        return [tuple(int(part) for part in label.split(":")) for label in labels]
    return None


def _place(text: str, cycle: list[str]) -> int:
    name = text.casefold().removesuffix(".")
    return next((n for n, whole in enumerate(cycle) if _is_name(name, whole)), -1)


def _is_name(text: str, whole: str) -> bool:
    return text == whole or (len(text) in (3, 4) and whole.startswith(text))


def in_calendar_order(labels: Sequence[str]) -> bool:
    """Return whether labels are months, weekdays or times of day in order; months and weekdays may begin anywhere."""
    keys = calendar_keys(labels)
    if keys is None:
        return False
    turns = sum(a >= b for a, b in pairwise(keys))
    is_cycle = len(keys[0]) == 1
    # A list of months that begins in October falls once, from December to January, and ends before October.
    return turns == 0 or (is_cycle and turns == 1 and keys[-1] < keys[0])

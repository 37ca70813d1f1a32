"""Labels with a place in the calendar: periods of time, names of months and of weekdays, times of day.

pandas counts periods and writes their labels, except ISO weeks. A week named by its first day has the form of a day.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class _Form(NamedTuple):
    pattern: str
    wider: str  # periods that contain those of the form, and begin their texts: 2018 contains 2018-05
    freq: str = ""  # of pandas
    text: str = ""  # for strftime


_YEAR, _MONTH = r"[12]\d{3}", r"[12]\d{3}-(0[1-9]|1[0-2])"
_DAY = rf"{_MONTH}-(0[1-9]|[12]\d|3[01])"
_FORMS = {
    "year": _Form(r"1[5-9]\d\d|20\d\d", r"(?!)", "Y", "%Y"),
    "quarter": _Form(rf"{_YEAR}-Q[1-4]", _YEAR, "Q", "%Y-Q%q"),
    "month": _Form(_MONTH, _YEAR, "M", "%Y-%m"),
    "iso-week": _Form(rf"{_YEAR}-W[0-5]\d", _YEAR),
    "day": _Form(_DAY, rf"{_YEAR}|{_MONTH}", "D", "%Y-%m-%d"),
    "hour": _Form(rf"{_DAY} ([01]\d|2[0-3]):00", rf"{_YEAR}|{_MONTH}|{_DAY}", "h", "%Y-%m-%d %H:00"),
}
_COMPACT = re.compile(r"(1[5-9]|2[0-9])[0-9]{2}(0[1-9]|1[0-2])([0-9]{2})?")  # months YYYYMM and days YYYYMMDD
_CLOCK = re.compile(r"([01]?\d|2[0-4])(:[0-5]\d){1,2}")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEK, _FEWEST_WEEKS = 7, 3
_DAYS_OF_YEAR = 365.2425
_AVERAGE_DAYS = {"week": 7.0, "month": _DAYS_OF_YEAR / 12, "quarter": _DAYS_OF_YEAR / 4, "year": _DAYS_OF_YEAR}
_MAX_HOURS = 24 * 366 * date.max.year


def period_form(labels: Sequence[object]) -> str | None:
    """Return the form (year, quarter, month, iso-week, day or hour) of labels that are all such periods, or None."""
    if isinstance(labels, range) or not labels:
        return None
    form = next((form for form in _FORMS if is_period(str(labels[0]), form)), None)
    return form if form and all(is_period(str(label), form) for label in labels) else None


def is_period(text: str, form: str) -> bool:
    """Return whether a text is a period of this form."""
    return re.fullmatch(_FORMS[form].pattern, text) is not None


def is_wider_period(text: str, form: str) -> bool:
    """Return whether a text is a period that contains some of this form: the year of a month, the month of a day."""
    return re.fullmatch(_FORMS[form].wider, text) is not None


def is_rising(labels: Sequence[str]) -> bool:
    """Return whether every label is larger than the one before, as texts."""
    return all(a < b for a, b in pairwise(labels))


def frequency_of(labels: Sequence[str]) -> str | None:
    """Return the frequency for which `read_events` writes such labels; None if no frequency, or more than one, fits."""
    form = period_form(labels)
    if form != "day":
        return None if form == "iso-week" else form
    days = _days(labels)
    if days and any(day.weekday() for day in days):
        return "day"
    return "week" if len(days) > 1 and _whole_weeks_apart(days) else None


def are_weeks(labels: Sequence[object]) -> bool:
    """Return whether labels name weeks by their first days: three or more days, all whole weeks apart."""
    days = _days(labels) if period_form(labels) == "day" else []
    return len(days) >= _FEWEST_WEEKS and _whole_weeks_apart(days)


def week_words(first: str, last: str) -> str:
    """Return a stretch of weeks in words, from the first day of the first week to the last day of the last one."""
    if first == last:
        return f"week of {first}"
    end = (date.fromisoformat(last) + timedelta(days=_WEEK - 1)).isoformat()
    return f"{first} to {end.removeprefix(first[:5])}"  # the year only if it is another one


def _days(labels: Sequence[object]) -> list[date]:
    try:
        return [date.fromisoformat(str(label)) for label in labels]
    except ValueError:  # 2018-02-30 has the form of a day
        return []


def _whole_weeks_apart(days: Sequence[date]) -> bool:
    return all((b - a).days % _WEEK == 0 for a, b in pairwise(days))


def calendar_keys(labels: Sequence[str]) -> list[tuple[int, ...]] | None:
    """Return sort keys for English names of months or weekdays (Monday, Mon, Tues) or times of day, or None."""
    for cycle in (_MONTHS, _WEEKDAYS):
        if all(_place(label, cycle) >= 0 for label in labels):
            return [(_place(label, cycle),) for label in labels]
    if all(_CLOCK.fullmatch(label) for label in labels):
        return [tuple(int(part) for part in label.split(":")) for label in labels]
    return None


def _place(text: str, cycle: Sequence[str]) -> int:
    name = text.casefold().removesuffix(".")
    short = len(name) in (3, 4)
    return next((n for n, whole in enumerate(cycle) if name == whole or (short and whole.startswith(name))), -1)


def in_calendar_order(labels: Sequence[str]) -> bool:
    """Return whether labels are months, weekdays or times of day in order; months and weekdays may begin anywhere."""
    keys = calendar_keys(labels)
    if keys is None:
        return False
    turns = sum(a >= b for a, b in pairwise(keys))
    is_cycle = len(keys[0]) == 1
    # Months that begin in October fall once, from December to January, and end before October.
    return turns == 0 or (is_cycle and turns == 1 and keys[-1] < keys[0])


# The shortest first. Quarters that begin in other months than those of the calendar are unknown.
_FREQUENCY_WORDS = {
    "hour": r"hours?|hourly|h",
    "day": r"days?|daily|d",
    "week": r"weeks?|weekly|w(-sun|-mon)?",
    "month": r"months?|monthly|me|ms",
    "quarter": r"quarters?|quarterly|q[es]?|qe?-(mar|jun|sep|dec)|qs-(jan|apr|jul|oct)",
    "year": r"years?|yearly|annual(ly)?|[ya][es]?|[ya]e?-dec|[ya]s-jan",
}
FREQUENCIES = tuple(_FREQUENCY_WORDS)


def frequency_named(freq: object) -> str | None:
    """Return the frequency that a word in any case, or an offset of pandas, means; None if it is unknown."""
    text = str(getattr(freq, "freqstr", freq))
    word = "month" if text == "M" else text.casefold()  # m may be a minute
    return next((known for known, words in _FREQUENCY_WORDS.items() if re.fullmatch(words, word)), None)


def check_frequency(freq: object) -> str:
    """Return the frequency that `freq` means; an unknown one raises an InputError."""
    known = frequency_named(freq)
    if known is not None:
        return known
    text = str(getattr(freq, "freqstr", freq))
    if text.casefold() in [f"w-{day[:3]}" for day in _WEEKDAYS]:
        raise InputError("freq", text, "must be week: weeks go from Monday to Sunday")
    rule = (
        f"must be one of {', '.join(FREQUENCIES)}, or a word of pandas for one of these: h, D, W, M, ME, MS, Q, QE, "
        "QS, Y, YE, YS; daily, weekly, monthly and so on are understood too"
    )
    raise InputError("freq", freq, rule)


def periods(first: date, last: date, freq: str) -> list[str]:
    """Return the labels of all periods from the one that begins on `first` to the one that begins on `last`."""
    import pandas as pd

    found = pd.period_range(first, last, freq=_written(freq).freq)
    return period_labels(found[:: _WEEK if freq == "week" else 1], freq)


def period_labels(index: pd.PeriodIndex, freq: str | None) -> list[str]:
    """Return the labels of the periods in an index of pandas, whose frequency is known or not."""
    if freq is None:
        return [str(label) for label in index.astype(str)]
    form = _written(freq)
    return [str(label) for label in index.asfreq(form.freq, how="S").strftime(form.text)]


def _written(freq: str) -> _Form:
    return _FORMS["day" if freq == "week" else freq]  # a week is named by its first day


def period_numbers(labels: Sequence[object]) -> list[int] | None:
    """Return the place of each period in a count of their steps, or None unless they are rising periods or numbers."""
    found = _ordinals(labels)
    return found and [(each - found[0][0]) // _step(found[0]) for each in found[0]]


def next_periods(labels: Sequence[object], horizon: int) -> list[str] | None:
    """Return the labels of the periods after the last one, or None unless the labels are rising periods or numbers."""
    found = _ordinals(labels)
    if found is None:
        return None
    ordinals, write = found
    step = _step(ordinals)
    try:
        return write(range(ordinals[-1] + step, ordinals[-1] + step * (horizon + 1), step))
    except (OverflowError, ValueError):
        raise InputError("horizon", horizon, f"must be smaller: the calendar of {labels[-1]} ends before") from None


def period_dates(label: str, freq: str) -> tuple[date, date]:
    """Return the first day of a period of this frequency, a day or longer, and the first day after it."""
    first = period_start(label).date()
    if freq == "week":  # its label has the form of a day
        return first, first + timedelta(days=_WEEK)
    (following,) = next_periods([label], 1) or [label]
    return first, period_start(following).date()


def weights_by_days(labels: Sequence[str], freq: str) -> dict[str, float]:
    """Return the days of each period, relative to the average period of this frequency, which has a weight of 1."""
    average = _AVERAGE_DAYS[freq]
    days = {label: period_dates(label, freq) for label in labels}
    return {label: (stop - first).days / average for label, (first, stop) in days.items()}


def periods_per_year(labels: Sequence[object]) -> int | None:
    """Return how many periods a year has, a week if the periods are days, or a day if they are hours; or None."""
    form = None if isinstance(labels, range) else period_form(_hyphenated(labels))
    if form is None or form == "year":
        return None
    found = _ordinals(labels)
    step = 1 if found is None else _step(found[0])
    if form == "hour":
        return 24 if step == 1 else None
    if form == "day":
        return {1: _WEEK, _WEEK: 52}.get(step)
    whole = {"quarter": 4, "month": 12, "iso-week": 52}[form]
    return whole // step if whole % step == 0 and whole > step else None


def _step(ordinals: list[int]) -> int:
    """Return the largest step that reaches all periods: absent ones are gaps, not longer steps."""
    return math.gcd(*(b - a for a, b in pairwise(ordinals))) or 1


def _ordinals(labels: Sequence[object]) -> tuple[list[int], Callable[[range], list[str]]] | None:
    """Return numbers that count periods, and a function that writes the labels of such numbers."""
    given = [str(label) for label in labels]
    texts = given if isinstance(labels, range) else _hyphenated(labels)
    form = None if isinstance(labels, range) else period_form(texts)
    if form is not None and is_rising(texts):
        try:
            if form == "iso-week":
                mondays = [date.fromisocalendar(int(text[:4]), int(text[6:]), 1) for text in texts]
                return [monday.toordinal() // _WEEK for monday in mondays], _iso_weeks
            import pandas as pd

            hyphen = "-" if texts == given else ""
            ordinals = pd.PeriodIndex(texts, freq=_FORMS[form].freq).asi8.tolist()
            return ordinals, lambda each: [text.replace("-", hyphen) for text in _period_labels(each, _FORMS[form])]
        except ValueError:  # 2018-02-30 has the form of a day
            return None
    if not all(text.removeprefix("-").isdecimal() for text in given):
        return None
    numbers = [int(text) for text in given]
    rising = all(a < b for a, b in pairwise(numbers))
    return (numbers, lambda ordinals: [str(number) for number in ordinals]) if rising else None


def _iso_weeks(ordinals: range) -> list[str]:
    mondays = (date.fromordinal(1) + timedelta(weeks=ordinal) for ordinal in ordinals)
    return [f"{year:04d}-W{week:02d}" for year, week, _ in (monday.isocalendar() for monday in mondays)]


def _period_labels(ordinals: range, form: _Form) -> list[str]:
    import pandas as pd

    if ordinals[-1] - ordinals[0] > _MAX_HOURS:
        raise OverflowError
    index = pd.PeriodIndex.from_ordinals(ordinals, freq=form.freq)  # type: ignore[attr-defined]  # not in the stubs
    if index[-1].year > date.max.year:
        raise OverflowError
    return [str(label) for label in index.strftime(form.text)]


def _hyphenated(labels: Sequence[object]) -> list[str]:
    """Return labels as texts; with hyphens if they are all months YYYYMM, or all days YYYYMMDD."""
    texts = [str(label) for label in labels]
    if len({len(text) for text in texts}) == 1 and all(_COMPACT.fullmatch(text) for text in texts):
        try:
            days = [date.fromisoformat(f"{text}01"[:8]).isoformat() for text in texts]
        except ValueError:
            return texts
        return [day[:7] if len(text) == 6 else day for day, text in zip(days, texts, strict=True)]
    return texts


def period_start(label: str) -> datetime:
    """Return the moment at which a year, quarter, month, ISO week, day or hour begins.

    >>> str(period_start("2021-W01")), str(period_start("2018-Q2")), str(period_start("2018-05-03 07:00"))
    ('2021-01-04 00:00:00', '2018-04-01 00:00:00', '2018-05-03 07:00:00')
    """
    year, _, rest = label.partition("-")
    if rest.startswith("Q"):
        return datetime(int(year), 3 * int(rest[1:]) - 2, 1)
    if rest.startswith("W"):
        return datetime.fromisocalendar(int(year), int(rest[1:]), 1)
    day, _, clock = rest.partition(" ")
    month, _, date_of_month = day.partition("-")
    return datetime(int(year), int(month or 1), int(date_of_month or 1), int(clock[:2] or 0))

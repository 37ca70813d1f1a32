"""Periods of time: all of them from the first to the last, with or without events; and the words for their lengths."""

from datetime import date
from typing import TYPE_CHECKING

from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FREQUENCIES = ("hour", "day", "week", "month", "quarter", "year")  # the shortest first
# The frequencies of pandas, and how a label is written.
_STEPS = {
    "hour": ("h", "%Y-%m-%d %H:00"),
    "day": ("D", "%Y-%m-%d"),
    "month": ("M", "%Y-%m"),
    "quarter": ("Q", "%Y-Q%q"),
    "year": ("Y", "%Y"),
}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Quarters that begin in other months are not those of the calendar.
_ENDS, _STARTS = ("mar", "jun", "sep", "dec"), ("jan", "apr", "jul", "oct")
_WORDS = {
    "hour": ("hour", "hours", "hourly", "h"),
    "day": ("day", "days", "daily", "d"),
    "week": ("week", "weeks", "weekly", "w", "w-sun", "w-mon"),
    "month": ("month", "months", "monthly", "me", "ms"),
    "quarter": (
        *("quarter", "quarters", "quarterly", "q", "qe", "qs"),
        *(f"{word}-{month}" for word in ("q", "qe") for month in _ENDS),
        *(f"qs-{month}" for month in _STARTS),
    ),
    "year": (
        *("year", "years", "yearly", "annual", "annually", "y", "ye", "ys", "a", "ae", "as"),
        *("y-dec", "ye-dec", "a-dec", "ae-dec", "ys-jan", "as-jan"),
    ),
}
_BY_WORD = {word: freq for freq, words in _WORDS.items() for word in words}


def frequency_named(freq: object) -> str | None:
    """Return the frequency that a word, or an offset of pandas, stands for; None if there is none.

    Capitals make no difference, but M is a month, and m may be a minute.

    >>> frequency_named("QS"), frequency_named("weekly"), frequency_named("M"), frequency_named("m")
    ('quarter', 'week', 'month', None)
    """
    text = str(getattr(freq, "freqstr", freq))
    return "month" if text == "M" else _BY_WORD.get(text.casefold())


def check_frequency(freq: object) -> str:
    """Return the frequency that `freq` stands for."""
    known = frequency_named(freq)
    if known is not None:
        return known
    text = str(getattr(freq, "freqstr", freq))
    if text.casefold() in [f"w-{day}" for day in _WEEKDAYS]:
        raise InputError(f"freq is {text!r}, but weeks go from Monday to Sunday: it must be week")
    raise InputError(
        f"freq is {freq!r}, but it must be one of {', '.join(FREQUENCIES)}, or a word of pandas for one of these: h, "
        "D, W, M, ME, MS, Q, QE, QS, Y, YE, YS; daily, weekly, monthly and so on are understood too"
    )


def note_on_weeks(freq: object) -> list[str]:
    """Return a note if pandas means something else by a word for weeks."""
    if str(getattr(freq, "freqstr", freq)).casefold() != "w-mon":
        return []
    return ["freq W-MON was taken for weeks from Monday to Sunday; in pandas such weeks end on Monday"]


def is_shorter(freq: str, other: str) -> bool:
    """Return whether periods of one frequency are shorter than those of another."""
    return FREQUENCIES.index(freq) < FREQUENCIES.index(other)


def periods(first: date, last: date, freq: str) -> list[str]:
    """Return the labels of all periods from the one that begins on `first` to the one that begins on `last`.

    A week is named by its first day: pandas would name it by both ends.

    >>> periods(date(2023, 10, 1), date(2024, 1, 1), "quarter")
    ['2023-Q4', '2024-Q1']
    """
    import pandas as pd

    step, form = _STEPS["day" if freq == "week" else freq]
    found = pd.period_range(first, last, freq=step)
    return [str(label) for label in found[:: 7 if freq == "week" else 1].strftime(form)]


def period_labels(index: "pd.PeriodIndex", freq: str | None) -> list[str]:
    """Return the labels of the periods in an index of pandas, whose frequency is known or not."""
    if freq is None:
        return [str(label) for label in index.astype(str)]
    step, form = _STEPS["day" if freq == "week" else freq]
    return [str(label) for label in index.asfreq(step, how="S").strftime(form)]

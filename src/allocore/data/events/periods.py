"""Periods of time: all of them from the first to the last, with or without events."""

from datetime import date

from allocore.errors import InputError

FREQUENCIES = ("day", "week", "month", "quarter", "year")
# The frequencies of pandas, and how a label is written.
_STEPS = {"month": ("M", "%Y-%m"), "quarter": ("Q", "%Y-Q%q"), "year": ("Y", "%Y")}


def check_frequency(freq: object) -> str:
    """Return `freq` if it is a known frequency."""
    if freq not in FREQUENCIES:
        raise InputError(f"freq is {freq!r}, but it must be one of {', '.join(FREQUENCIES)}")
    return str(freq)


def periods(first: date, last: date, freq: str) -> list[str]:
    """Return the labels of all periods from the one that begins on `first` to the one that begins on `last`.

    A week is named by its first day: pandas would name it by both ends.

    >>> periods(date(2023, 10, 1), date(2024, 1, 1), "quarter")
    ['2023-Q4', '2024-Q1']
    """
    import pandas as pd

    if freq in ("day", "week"):
        days = pd.period_range(first, last, freq="D")
        return [str(day) for day in days[:: 1 if freq == "day" else 7].astype(str)]
    step, form = _STEPS[freq]
    return [str(label) for label in pd.period_range(first, last, freq=step).strftime(form)]

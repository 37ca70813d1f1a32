"""Periods of time: every one from the first to the last, those without events too."""

from datetime import date, timedelta

from allocore.errors import InputError

FREQUENCIES = ("day", "week", "month", "quarter", "year")


def check_frequency(freq: object) -> str:
    """`freq`, if it is known."""
    if freq not in FREQUENCIES:
        raise InputError(f"freq is {freq!r}, but it must be one of {', '.join(FREQUENCIES)}")
    return str(freq)


def periods(first: date, last: date, freq: str) -> list[str]:
    """The labels of all periods between two that begin on these days; a week is named by its Monday."""
    if freq in ("day", "week"):
        step = 1 if freq == "day" else 7
        return [str(first + timedelta(days)) for days in range(0, (last - first).days + 1, step)]
    months = range(12 * first.year + first.month - 1, 12 * last.year + last.month)
    if freq == "month":
        return [f"{month // 12:04d}-{month % 12 + 1:02d}" for month in months]
    if freq == "quarter":
        return [f"{month // 12:04d}-Q{month % 12 // 3 + 1}" for month in months if month % 3 == 0]
    return [f"{year:04d}" for year in range(first.year, last.year + 1)]

"""Which periods are incomplete: those of whose days the events cover too few, as the dates of the rows show.

The gaps from one date to the next say how often events are dated: every day, on weekdays, once a week. Data begin late
in their first period, or end early in their last, if the days left over are longer than almost all gaps: by chance that
happens once in a hundred times. In data with many events a day, a period is also incomplete if it has events on few of
its days or none, such as a month of which one daily file was read. In sparse data, days without events say nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from itertools import pairwise

import numpy as np

from allocore.tensor.calendar import period_dates

_LEAST_DATES, _LEAST_GAPS = 5, 9  # fewer say little about the usual gap, and about long ones
_LONG = 0.99  # the quantile of the gaps
_MANY_ROWS = 10  # a day; then a day without any was not observed
_COMPLETE = 0.95  # the share of its days that a complete period has: all but one of a month, all of a week


def days_apart(dates: Sequence[date]) -> int | None:
    """Return the usual number of days from one date to the next; None if there are too few dates to say."""
    return int(np.median(_gaps(dates))) if len(dates) >= _LEAST_DATES else None


def incomplete_periods(
    labels: Sequence[str], freq: str, rows: Mapping[date, int], apart: int | None
) -> dict[str, tuple[int, int]]:
    """Return the incomplete periods, each with the number of its observed days and of all its days.

    `rows` has the number of rows of every date, in order, and `apart` is the usual number of days between dates.
    """
    if apart is None or freq in ("hour", "day"):
        return {}
    dates = list(rows)
    long = float(np.quantile(_gaps(dates), _LONG, method="lower")) if len(dates) > _LEAST_GAPS else np.inf
    many = sum(rows.values()) >= _MANY_ROWS * ((dates[-1] - dates[0]).days + 1)
    numbers = np.array([each.toordinal() for each in dates])
    found = {}
    for label in labels:
        first, stop = period_dates(label, freq)
        days = observed = (stop - first).days
        late, early = (dates[0] - first).days, (stop - dates[-1]).days - 1
        if late >= long:
            observed -= late
        if early >= long:  # a date stands for the days until the next
            observed -= max(0, early - apart + 1)
        dated = int(np.diff(np.searchsorted(numbers, [first.toordinal(), stop.toordinal()]))[0])
        if many and 2 * dated * apart < observed:
            observed = dated * apart
        if observed < _COMPLETE * days:
            found[label] = (observed, days)
    return found


def _gaps(dates: Sequence[date]) -> list[int]:
    return [(b - a).days for a, b in pairwise(dates)]

"""When the periods of a calendar begin, for axes of time."""

from datetime import datetime


def period_start(label: str) -> datetime:
    """Return the moment at which a year, quarter, month, ISO week, day or hour begins.

    Examples
    --------
    >>> str(period_start("2021-W01")), str(period_start("2018-Q2")), str(period_start("2018-05-03 07:00"))
    ('2021-01-04 00:00:00', '2018-04-01 00:00:00', '2018-05-03 07:00:00')
    """
    year, _, rest = label.partition("-")
    if rest.startswith("Q"):
        return datetime(int(year), 3 * int(rest[1:]) - 2, 1)
    if rest.startswith("W"):
        return datetime.fromisocalendar(int(year), int(rest[1:]), 1)
    day, _, clock = rest.partition(" ")
    month, _, date = day.partition("-")
    return datetime(int(year), int(month or 1), int(date or 1), int(clock[:2] or 0))

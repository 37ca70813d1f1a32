"""Columns of pandas that duckdb does not know, as others that it does: periods and intervals.

A column of periods that is the time becomes the moments at which they begin, and their frequency is the default. In any
other place, periods and intervals become ordered categories, so that their labels can be read and keep their order.
"""

from typing import TYPE_CHECKING, Any

from allocore.data.events.periods import frequency_named, period_labels
from allocore.data.sql import first_sentence
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_SHORTER = ("min", "s", "ms", "us", "ns")  # than an hour: such periods are moments


def readable_columns(frame: "pd.DataFrame", time: str | None) -> "pd.DataFrame":
    """Return a frame whose columns of periods and intervals can be read; the one given is not changed."""
    changed = {}
    for name in frame.columns:
        column = _of_pandas(frame[name])
        if column is not None:
            is_time = name == time and _period_frequency(column) is not None
            changed[name] = _moments(column) if is_time else _categories(column)
    return frame.assign(**changed) if changed else frame


def frequency_of_periods(column: "pd.Series[Any]", chosen: str | None = None) -> str | None:
    """Return the frequency of a column of periods; None if it is another column, or its periods are moments.

    Periods that are none of the calendar have no frequency here; they are an error unless another one was chosen.
    """
    found = _of_pandas(column)
    own = None if found is None else _period_frequency(found)
    if own is None or own in _SHORTER:
        return None
    known = _calendar_frequency(own)
    if known is None and chosen is None:
        raise InputError(
            f"{column.name} has periods of the frequency {own} of pandas, which are no hours, days, weeks, months, "
            "quarters or years of the calendar: give freq="
        )
    return known


def _of_pandas(column: "pd.Series[Any]") -> "pd.Series[Any] | None":
    """Return a column of periods or intervals, as objects or not, with a type that says so; None for any other."""
    import pandas as pd

    kind = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    if isinstance(kind, pd.PeriodDtype | pd.IntervalDtype):
        return column
    if column.dtype.kind != "O" or isinstance(column.dtype, pd.CategoricalDtype):
        return None
    first = next((value for value in column.to_numpy() if not _is_absent(value)), None)
    if not isinstance(first, pd.Period | pd.Interval):
        return None
    try:
        array = (
            pd.array(column, dtype=pd.PeriodDtype(first.freqstr))
            if isinstance(first, pd.Period)
            else _intervals(column)
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{column.name} has periods or intervals of several kinds, which cannot be compared: "
            f"{first_sentence(error)}"
        ) from None
    return pd.Series(array, index=column.index, name=column.name)


def _is_absent(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value)


def _intervals(column: "pd.Series[Any]") -> Any:
    import pandas as pd

    return pd.arrays.IntervalArray(column.to_numpy())


def _period_frequency(column: "pd.Series[Any]") -> str | None:
    """Return the word of pandas for the length of the periods in a column; None if it has intervals."""
    import pandas as pd

    kind = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    return str(pd.PeriodIndex([], dtype=kind).freqstr) if isinstance(kind, pd.PeriodDtype) else None


def _calendar_frequency(word: str) -> str | None:
    """Return the frequency of periods for which pandas has a word; only weeks that end on Sunday are weeks here."""
    if word == "B":
        return "day"
    return None if word == "W-MON" else frequency_named(word)


def _moments(column: "pd.Series[Any]") -> "pd.Series[Any]":
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype)
    moments: pd.Series[Any] = column.dt.start_time
    return moments


def _categories(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column whose values are ordered categories with readable labels."""
    import pandas as pd

    column = column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")
    values: Any = column.cat.categories
    word = _period_frequency(column)
    labels = (
        [_interval_label(each) for each in values] if word is None else period_labels(values, _calendar_frequency(word))
    )
    return column.cat.rename_categories(labels).cat.as_ordered()


def _interval_label(interval: "pd.Interval[Any]") -> str:
    """Return an interval with its ends: (0, 18] has 18 in it, but not 0."""
    left = "[" if interval.closed_left else "("
    right = "]" if interval.closed_right else ")"
    return f"{left}{_end_label(interval.left)}, {_end_label(interval.right)}{right}"


def _end_label(end: object) -> str:
    """Return the end of an interval: a whole number without a point, a moment at midnight as its day."""
    return str(end).removesuffix(" 00:00:00") if hasattr(end, "isoformat") else str(end).removesuffix(".0")

"""Event tables in data frames of any library that narwhals supports, and the columns of pandas that duckdb lacks.

duckdb has no periods and no intervals. A column of periods that is the time becomes the moments at which they begin,
and their frequency is the default. Elsewhere, periods and intervals become ordered categories, so that their labels can
be read and keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allocore.errors import NO_VALUE, Described, InputError
from allocore.events.formats import FORMATS, Mode, detect
from allocore.events.loading import LoadedRows, RowSelection, check_columns, load_frame
from allocore.events.where import as_label
from allocore.tensor.calendar import frequency_named, period_labels
from allocore.tensor.sql import first_sentence

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


@dataclass(frozen=True)
class DuckdbSession:
    """A connection to duckdb and a folder for temporary files."""

    connection: duckdb.DuckDBPyConnection
    folder: Path


class FrameTable:
    """Events in a data frame of any library that narwhals supports."""

    def __init__(self, session: DuckdbSession, frame: Any, wanted: str) -> None:
        import narwhals as nw

        self._session = session
        try:
            self._frame = _with_text_names(nw.from_native(frame))
            self.columns = tuple(self._frame.collect_schema().names())
        except TypeError as error:
            raise InputError(
                "source", Described(f"a {type(frame).__name__}"), "must be a path or a data frame"
            ) from error
        except ValueError as error:
            raise InputError("source", Described("a data frame"), f"cannot be read: {first_sentence(error)}") from error
        self.format = detect(self.columns) if wanted == "auto" else FORMATS[wanted]
        self.number = 0

    def check(self, selection: RowSelection) -> None:
        """Raise an InputError if the frame lacks a column that is needed."""
        check_columns(selection, self.columns, "the frame", self.format)

    def load(self, selection: RowSelection) -> LoadedRows:
        """Make the view `events`."""
        import narwhals as nw

        selection = selection.within(self.columns)
        frame: Any = self._frame if selection.where else self._frame.select(selection.columns())
        schema = frame.collect_schema()
        if len({name.casefold() for name in schema}) < len(schema):
            rule = "must not have columns whose names differ only in upper and lower case"
            raise InputError("source", Described("a data frame"), rule)
        if isinstance(frame, nw.DataFrame) and frame.implementation.is_pandas():
            time = next((mode.column for mode in selection.modes if mode.kind == "time"), None)
            self._frame = frame = nw.from_native(readable_columns(frame.to_native(), time))
        return load_frame(self._session.connection, _for_duckdb(frame, self._session.folder), selection)

    def frequency(self, column: str, chosen: str | None) -> str | None:
        """Return the frequency of a column of periods; None for any other column.

        Raises an InputError for periods that are not of the calendar, unless a frequency was chosen.
        """
        import narwhals as nw

        if isinstance(self._frame, nw.DataFrame) and self._frame.implementation.is_pandas() and column in self.columns:
            return frequency_of_periods(self._frame.to_native()[column], chosen)
        return None

    def orders(self, modes: Iterable[Mode]) -> dict[str, tuple[str, ...]]:
        """Return the order of the labels of those modes whose columns have one: ordered categoricals, enums."""
        import narwhals as nw

        kinds = {name: kind for name, kind in self._frame.collect_schema().items() if isinstance(kind, nw.Enum)}
        return {
            mode.name: tuple(map(as_label, kinds[mode.column].categories)) for mode in modes if mode.column in kinds
        }


def _for_duckdb(frame: Any, folder: Path) -> Any:
    """Return a frame that duckdb reads.

    Some frames reach duckdb only through pyarrow. If it is not installed, they are written to a Parquet file.
    """
    import narwhals as nw

    by_arrow = isinstance(frame, nw.LazyFrame) or frame.implementation.is_polars()
    if by_arrow and find_spec("pyarrow") is None:
        file = folder / "frame.parquet"
        native = frame.to_native()
        whole = native.collect() if frame.implementation.is_polars() and isinstance(frame, nw.LazyFrame) else native
        try:
            whole.write_parquet(str(file))
        except Exception as error:  # every library raises its own type
            rule = f"cannot be read without pyarrow: {first_sentence(error)}"
            raise InputError("source", Described(f"a {type(native).__name__}"), rule) from error
        return file
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_native()


def _with_text_names(frame: Any) -> Any:
    """Return a narwhals frame whose column names are texts; in pandas they may be numbers."""
    import narwhals as nw

    if all(isinstance(name, str) for name in frame.collect_schema().names()):
        return frame
    return nw.from_native(frame.to_native().rename(columns=str))


_SHORTER = ("min", "s", "ms", "us", "ns")  # than an hour: such periods are moments


def readable_columns(frame: pd.DataFrame, time: str | None) -> pd.DataFrame:
    """Return a frame whose columns of periods and intervals can be read; the one given is not changed."""
    changed = {}
    for name in frame.columns:
        column = _of_pandas(frame[name])
        if column is not None:
            is_time = name == time and _period_frequency(column) is not None
            changed[name] = _moments(column) if is_time else _categories(column)
    return frame.assign(**changed) if changed else frame


def frequency_of_periods(column: pd.Series[Any], chosen: str | None = None) -> str | None:
    """Return the frequency of a column of periods; None if it is another column, or its periods are moments.

    Raises an InputError for periods that are not of the calendar, unless a frequency was chosen.
    """
    found = _of_pandas(column)
    own = None if found is None else _period_frequency(found)
    if own is None or own in _SHORTER:
        return None
    known = _calendar_frequency(own)
    if known is None and chosen is None:
        rule = (
            f"must be given, because {column.name} has pandas periods of frequency {own}, which are not of the calendar"
        )
        raise InputError("freq", NO_VALUE, rule)
    return known


def _of_pandas(column: pd.Series[Any]) -> pd.Series[Any] | None:
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
            else pd.arrays.IntervalArray(column.to_numpy())
        )
    except (TypeError, ValueError) as error:
        rule = f"must have periods or intervals of one kind in {column.name}: {first_sentence(error)}"
        raise InputError("source", Described("a data frame"), rule) from None
    return pd.Series(array, index=column.index, name=column.name)


def _is_absent(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value)


def _period_frequency(column: pd.Series[Any]) -> str | None:
    """Return the word of pandas for the length of the periods in a column; None if it has intervals."""
    import pandas as pd

    kind = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    return str(pd.PeriodIndex([], dtype=kind).freqstr) if isinstance(kind, pd.PeriodDtype) else None


def _calendar_frequency(word: str) -> str | None:
    """Return the frequency of periods for which pandas has a word; only weeks that end on Sunday are weeks here."""
    if word == "B":
        return "day"
    return None if word == "W-MON" else frequency_named(word)


def _moments(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype)
    moments: pd.Series[Any] = column.dt.start_time
    return moments


def _categories(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column whose values are ordered categories with readable labels."""
    import pandas as pd

    column = column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")
    values: Any = column.cat.categories
    word = _period_frequency(column)
    labels = (
        [_interval_label(each) for each in values] if word is None else period_labels(values, _calendar_frequency(word))
    )
    return column.cat.rename_categories(labels).cat.as_ordered()


def _interval_label(interval: pd.Interval[Any]) -> str:
    """Return an interval with its ends: (0, 18] has 18 in it, but not 0."""
    left = "[" if interval.closed_left else "("
    right = "]" if interval.closed_right else ")"
    return f"{left}{_end_label(interval.left)}, {_end_label(interval.right)}{right}"


def _end_label(end: object) -> str:
    """Return the end of an interval: a whole number without a point, a moment at midnight as its day."""
    return str(end).removesuffix(" 00:00:00") if hasattr(end, "isoformat") else str(end).removesuffix(".0")

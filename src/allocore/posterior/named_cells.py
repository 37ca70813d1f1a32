"""Cells and sums of cells as people name them: frames, dicts and tuples of labels, or coordinates.

A dict or a tuple is one cell, a list of them several. What is not named, or None, is summed over, and so are lists and
slices of labels, and longer periods such as a year of months, as `Y.select` takes them. All become boxes
(cell_sums.py), with a frame that repeats what was asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.data.export import COUNT
from allocore.data.holdout import HeldOut
from allocore.data.labels import ModeLabels
from allocore.data.near_labels import did_you_mean
from allocore.data.select_rows import LabelRows, Rows, rows_of
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.arrays import Ints
from allocore.posterior.cell_sums import Boxes

if TYPE_CHECKING:
    import pandas as pd

_HOW = "a data frame with a column of labels for each mode, a list of dicts or tuples of labels, or an array of ints"


def named_cells(cells: object, tensor: CountTensor) -> tuple[Boxes, "pd.DataFrame"]:
    """Return the boxes that `cells` names, and a frame with a row for each."""
    if isinstance(cells, Mapping | tuple):
        cells = [cells]
    if isinstance(cells, list):
        return _from_rows(cells, tensor)
    return _from_frame(cells, tensor)


def boxes_of_cells(coords_MN: Ints, tensor: CountTensor) -> tuple[Boxes, "pd.DataFrame"]:
    """Return cells, given by coordinates, as boxes, and a frame with their labels."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, labels, places in zip(tensor.mode_names, tensor.labels, coords_MN, strict=True):
        columns[name] = places if isinstance(labels, range) else np.array(labels, dtype=object)[places]
    return Boxes(coords_MN, ((),) * tensor.ndim, tensor.shape), pd.DataFrame(columns)


def is_frame(given: object) -> bool:
    """Return whether something is a data frame: it has columns, and it is no held-out set."""
    return hasattr(given, "columns") and not hasattr(given, "coords")


def cells_with_counts(given: Any, tensor: CountTensor) -> HeldOut:
    """Return the cells that a frame names, with a label for each mode, and their counts."""
    boxes, told = named_cells(given, tensor)
    name = COUNT + "_" * (COUNT in tensor.mode_names)
    if name not in told.columns:
        raise InputError(f"test has no column {name!r}, but it must have one with the count of each cell")
    if boxes.summed_N.any():
        row = int(boxes.summed_N.argmax())
        raise InputError(f"test has a sum of cells at position {row}, but each row must name a label for each mode")
    (keys_N,) = column_keys(tensor.shape, boxes.places_MN)
    _, first = np.unique(keys_N, return_index=True)
    if len(first) < len(keys_N):
        row = int(np.setdiff1d(np.arange(len(keys_N)), first)[0])
        raise InputError(f"test has the cell of position {row} twice, but each cell must be there once")
    return HeldOut(boxes.places_MN, _whole_counts(told[name]))


def _whole_counts(column: "pd.Series[Any]") -> Ints:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 2.0**53))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"test has {column.iloc[row]!r} in the column {column.name!r} at position {row}, but a count must be a "
            "whole number of at least 0"
        )
    return numbers.astype(np.int64)


class _Mode:
    """The labels of one mode, and the sets of them that were asked for; set 0 is all of them."""

    def __init__(self, name: str, labels: ModeLabels) -> None:
        self.name, self.length = name, len(labels)
        self._labels, self._subject = labels, f"cells: mode {name!r}"
        self._found = None if isinstance(labels, range) else LabelRows(labels, self._subject)
        self._sets: dict[tuple[int, ...], int] = {tuple(range(self.length)): 0}

    @property
    def sets(self) -> tuple[Ints, ...]:
        """The sets, as positions in increasing order."""
        return tuple(np.array(each, dtype=np.int64) for each in self._sets)

    def rows(self, values: Sequence[object]) -> Ints:
        """The row of the extended factors for each value: a label, None, or several labels."""
        several = {i: self._row_of_several(value) for i, value in enumerate(values) if _is_several(value)}
        alone = [None if i in several else value for i, value in enumerate(values)] if several else values
        known = {value: self.length if _is_none(value) else self._row(value) for value in set(alone)}
        unknown = [value for value, row in known.items() if row is None]
        if unknown:
            first = next(value for value in alone if known[value] is None)
            self._refuse(first, len(unknown) - 1)
        rows_N = np.fromiter((known[value] for value in alone), dtype=np.int64, count=len(alone))
        rows_N[list(several)] = list(several.values())
        return rows_N

    def _row(self, value: object) -> int | None:
        """The row of a label, or of a longer period such as a year of months; None if it is unknown.

        Whole floats, as tables with gaps have them, are taken for integers.
        """
        whole = int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value
        if self._found is None:
            text = str(whole)
            return int(text) if text.isdecimal() and int(text) < self.length else None
        places = self._found.find(value) or self._found.find(whole)
        return None if places is None else self._row_of(places)

    def _row_of(self, places: Rows) -> int:
        if len(places) == 1:
            return int(places[0])
        return self.length + self._sets.setdefault(tuple(int(place) for place in places), len(self._sets))

    def _row_of_several(self, several: Any) -> int:
        if not isinstance(several, slice):
            several = list(several)
            if any(_is_none(value) for value in several):
                raise InputError(f"cells has None in a list in mode {self.name!r}, but a list must name labels")
        return self._row_of(rows_of(self._labels, several, self._subject))

    def _refuse(self, value: object, others: int) -> None:
        text = str(value)
        more = f" (and {others} more that {'are' if others > 1 else 'is'} unknown)" if others else ""
        if isinstance(self._labels, range):
            rule = f"which has no labels: it must be a position from 0 to {self.length - 1}"
        else:
            rule = f"which has no such label{did_you_mean(text, self._labels)}"
        raise InputError(f"cells has {text!r} in mode {self.name!r}{more}, {rule}")


def _is_none(value: object) -> bool:
    import pandas as pd

    return value is None or bool(pd.isna(value))  # type: ignore[call-overload]


def _is_several(value: object) -> bool:
    return isinstance(value, slice) or (isinstance(value, Iterable) and not isinstance(value, str | bytes))


def _boxes(columns: Sequence[Sequence[object] | None], length: int, tensor: CountTensor) -> Boxes:
    """The boxes of some columns of values, one for each mode, or None for a mode that is summed over."""
    modes = [_Mode(name, labels) for name, labels in zip(tensor.mode_names, tensor.labels, strict=True)]
    places = [
        np.full(length, mode.length) if values is None else mode.rows(values)
        for mode, values in zip(modes, columns, strict=True)
    ]
    return Boxes(np.array(places), tuple(mode.sets for mode in modes), tensor.shape)


def _from_rows(rows: list[Any], tensor: CountTensor) -> tuple[Boxes, "pd.DataFrame"]:
    """Boxes of a list of dicts and tuples."""
    import pandas as pd

    names = tensor.mode_names
    _check_number(len(rows))
    full = [_in_order(row, n, names) for n, row in enumerate(rows)]
    columns = list(zip(*full, strict=True))
    boxes = _boxes([list(column) for column in columns], len(rows), tensor)
    told = {name: _as_objects(column) for name, column in zip(names, columns, strict=True)}
    named = [name for name, column in told.items() if any(value is not None for value in column)]
    return boxes, pd.DataFrame({name: told[name] for name in named}, index=range(len(rows)))


def _as_objects(column: Sequence[object]) -> Any:
    """An array of objects, in which a list is one of them, and a slice is told in words."""
    array = np.empty(len(column), dtype=object)
    for n, value in enumerate(column):
        array[n] = _span(value) if isinstance(value, slice) else value
    return array


def _span(labels: slice) -> str:
    """A slice of labels in words: "Jun to Aug", "from Jun", "to Aug"."""
    if labels.start is None:
        words = "all" if labels.stop is None else f"to {labels.stop}"
    else:
        words = f"from {labels.start}" if labels.stop is None else f"{labels.start} to {labels.stop}"
    return words if labels.step is None else f"{words}, step {labels.step}"


def _in_order(row: Any, number: int, names: tuple[str, ...]) -> tuple[object, ...]:
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                near = did_you_mean(str(name), names) or f"; the modes are {', '.join(names)}"
                raise InputError(f"cells has {name!r} at position {number}, which is no mode{near}")
        return tuple(row.get(name) for name in names)
    if not isinstance(row, tuple):
        raise InputError(f"cells has a {type(row).__name__} at position {number}, but cells must be {_HOW}")
    if len(row) != len(names):
        raise InputError(
            f"cells has a tuple of length {len(row)} at position {number}, but it must have an entry for each of the "
            f"{len(names)} modes; None sums over a mode"
        )
    return row


def _from_frame(given: Any, tensor: CountTensor) -> tuple[Boxes, "pd.DataFrame"]:
    """Boxes of a data frame of any library that narwhals supports."""
    import narwhals as nw
    import pandas as pd

    try:
        frame = nw.from_native(given, eager_only=True)
    except TypeError:
        raise InputError(f"cells is a {type(given).__name__}, but it must be {_HOW}") from None
    except ValueError as error:
        raise InputError(f"cells is a data frame that cannot be read: {error}") from None
    _check_number(len(frame))
    _check_columns(frame.columns, tensor.mode_names)
    columns = {name: frame[name].to_list() for name in frame.columns}
    told = given.copy() if isinstance(given, pd.DataFrame) else pd.DataFrame(columns)
    return _boxes([columns.get(name) for name in tensor.mode_names], len(frame), tensor), told


def _check_number(rows: int) -> None:
    if not rows:
        raise InputError("cells has 0 rows, but it must name at least one cell")


def _check_columns(columns: Sequence[str], names: tuple[str, ...]) -> None:
    """Raise an error where a misspelt column would silently become a sum."""
    absent, others = [name for name in names if name not in columns], [name for name in columns if name not in names]
    if len(absent) == len(names):
        raise InputError(f"cells has no column for any mode; the modes are {', '.join(names)}")
    if absent and others:
        raise InputError(
            f"cells has the column {others[0]!r}, which is no mode{did_you_mean(str(others[0]), absent) or '.'} Other "
            f"columns are allowed only beside a column for each mode, and {absent[0]!r} has none"
        )

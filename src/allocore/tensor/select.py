"""Rows of modes by label: the positions that labels, slices and lists stand for, and the tensor restricted to them.

A mode with labels is addressed by label, as with `.loc` of pandas: both ends of a slice are included. A mode without
labels is addressed by position, as in Python. Slices become ranges, so a long mode costs no memory.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from allocore.errors import Described, InputError
from allocore.tensor.calendar import PeriodForm, is_period, is_rising, is_wider_period, period_form
from allocore.tensor.cameo import other_spellings
from allocore.tensor.coordinates import Int64s, Integers, coordinate_type, locate
from allocore.tensor.labels import ModeLabels, label_hint
from allocore.tensor.missing import MAX_SIGNED_PATTERNS, WILDCARD, Missing

if TYPE_CHECKING:
    from allocore.tensor.count_tensor import CanonicalParts, CountTensor

Rows = Int64s | range  # positions, rising
Wanted = object  # a label or position, a slice of these, a list of these, or a mask


def chosen_rows(
    tensor: CountTensor, by_dict: Mapping[Any, Wanted] | None, by_name: Mapping[str, Wanted]
) -> dict[int, Rows]:
    """Return for each mode that is named the positions that are wanted. Errors have the mode as their argument."""
    if by_dict is not None and not isinstance(by_dict, Mapping):
        raise InputError("rows", by_dict, "must be a dict from modes to labels, or modes must be given by name")
    chosen: dict[int, Rows] = {}
    for given, wanted in [*(by_dict or {}).items(), *by_name.items()]:
        mode = tensor.mode(given)
        name = tensor.mode_names[mode]
        if mode in chosen:
            raise InputError("rows", Described("a dict"), f"must name mode {name!r} only once")
        chosen[mode] = rows_of(tensor.labels[mode], wanted, name, name)
    return chosen


def rows_of(labels: ModeLabels, wanted: Wanted, argument: str, mode_name: str) -> Rows:
    """Return the wanted positions of a mode, in the order of the mode; errors are about the argument."""
    if _is_mask(wanted):
        rows: Rows = _of_mask(np.asarray(wanted), len(labels), argument)
    elif isinstance(labels, range):
        rows = _positions(wanted, len(labels), argument, mode_name)
    else:
        rows = LabelRows(labels, argument, mode_name).rows(wanted)
    if len(rows) == 0:
        raise InputError(argument, wanted, f"must name at least one row of mode {mode_name!r}")
    return rows


def _is_mask(wanted: Wanted) -> bool:
    if isinstance(wanted, list | tuple):
        return bool(wanted) and all(isinstance(each, bool | np.bool_) for each in wanted)
    return getattr(wanted, "dtype", None) == np.dtype(bool) and len(getattr(wanted, "shape", ())) == 1


def _of_mask(mask: np.ndarray[Any, Any], length: int, argument: str) -> Int64s:
    if mask.size != length:
        raise InputError(argument, Described(f"a mask of {mask.size} rows"), f"must have {length} rows")
    return np.flatnonzero(mask)


def _positions(wanted: Wanted, length: int, argument: str, mode_name: str) -> Rows:
    """Return positions in a mode without labels; negative ones count from the end."""
    if isinstance(wanted, slice):
        ends = (wanted.start, wanted.stop, wanted.step)
        if any(not (end is None or _is_whole(end)) for end in ends) or wanted.step == 0:
            raise InputError(
                argument, wanted, f"must be a slice of positions, because mode {mode_name!r} has no labels"
            )
        rows = range(length)[wanted]
        return rows if rows.step > 0 else rows[::-1]
    given = wanted if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    found = []
    for place in given:
        if not _is_whole(place) or not -length <= place < length:
            rule = f"must be a position from 0 to {length - 1}, because mode {mode_name!r} has no labels"
            raise InputError(argument, place, rule)
        found.append(operator.index(place) % length)
    return np.unique(np.array(found, dtype=np.int64))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True)
class LabelRows:
    """Finds labels of a mode; errors are about the argument."""

    labels: tuple[str, ...]
    argument: str
    mode_name: str

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.labels)}

    @cached_property
    def _form(self) -> PeriodForm | None:
        """How the labels write periods of time; None unless they are periods in order."""
        return period_form(self.labels) if is_rising(self.labels) else None

    def rows(self, wanted: Wanted) -> Rows:
        """Return the positions of a label, of a slice of labels, or of several labels."""
        if isinstance(wanted, slice):
            return self._between(wanted)
        if isinstance(wanted, str) or not isinstance(wanted, Iterable):
            return self._label(wanted)
        return np.unique(np.array([place for each in wanted for place in self._label(each)], dtype=np.int64))

    def find(self, label: object) -> range | None:
        """Return the position of a label, or those of all periods in a longer one; None if there is no such label.

        A CAMEO code is found with its words or without.
        """
        text = _as_text(label, self._form)
        if text in self._places:
            return range(self._places[text], self._places[text] + 1)
        if self._form and is_wider_period(text, self._form):
            return self._periods(text, text) or None
        places = (self._places[other] for other in other_spellings(text) if other in self._places)
        place = next(places, None)
        return None if place is None else range(place, place + 1)

    def _label(self, label: object) -> range:
        rows = self.find(label)
        if rows is None:
            raise self._unknown(_as_text(label, self._form))
        return rows

    def _between(self, wanted: slice) -> range:
        """Return the positions from one label to another, both included."""
        step = 1 if wanted.step is None else wanted.step
        if not _is_whole(step) or step < 1:
            raise InputError(self.argument, wanted, "must have a step that is a whole number of at least 1")
        ends = [None if end is None else _as_text(end, self._form) for end in (wanted.start, wanted.stop)]
        if self._form:
            for end in ends:
                if end is not None and not is_period(end, self._form) and not is_wider_period(end, self._form):
                    raise self._unknown(end)
            return self._periods(*ends)[::step]
        start, stop = (None if end is None else self._label(end)[0] for end in ends)
        return range(0 if start is None else start, len(self.labels) if stop is None else stop + 1, step)

    def _periods(self, start: str | None, stop: str | None) -> range:
        """Return the periods from `start` to `stop`, which need not be labels themselves: 2018 is a year of months."""
        first = 0 if start is None else bisect_left(self.labels, start)
        if stop is None:
            return range(first, len(self.labels))
        return range(first, bisect_right(self.labels, stop, key=lambda label: label[: len(stop)]))

    def _unknown(self, text: str) -> InputError:
        rule = f"must be a label of mode {self.mode_name!r}; {label_hint(text, self.labels)}"
        return InputError(self.argument, text, rule)


def _as_text(label: object, form: PeriodForm | None) -> str:
    """Return a label as text; a moment of time is its day, or its hour where labels are hours."""
    if not isinstance(label, datetime):
        return str(label)
    if label.tzinfo is not None:  # periods of events with a time zone are in UTC
        label = label.astimezone(UTC)
    return f"{label:%Y-%m-%d %H}:00" if form == "hour" else label.date().isoformat()


def restricted(parts: CanonicalParts, chosen: Mapping[int, Rows]) -> CanonicalParts:
    """Return the parts of a tensor with only the chosen rows, renumbered; they stay in canonical form."""
    inside = np.ones(parts.counts.size, dtype=bool)
    for mode, rows in chosen.items():
        inside &= _renumbered(parts.coords[mode], rows) >= 0
    if not inside.any():
        raise InputError("rows", rule="must have a positive count: there is nothing to fit")
    lengths = list(parts.shape)
    for mode, rows in chosen.items():
        lengths[mode] = len(rows)
    shape = tuple(lengths)
    coords = parts.coords[:, inside].astype(np.int64)
    for mode, rows in chosen.items():
        coords[mode] = _renumbered(coords[mode], rows)
    labels = tuple(_some(each, chosen.get(mode)) for mode, each in enumerate(parts.labels))
    missing = _restricted_missing(parts.missing, chosen, shape)
    cells: Integers = coords.astype(coordinate_type(shape))
    return parts._replace(coords=cells, counts=parts.counts[inside], shape=shape, labels=labels, missing=missing)


def _renumbered(positions: np.ndarray[Any, Any], rows: Rows) -> Int64s:
    """Return the place of each position among the rows, or -1 if it is not one of them."""
    values = positions.astype(np.int64)
    if not isinstance(rows, range):
        return locate(values, rows)
    place, remainder = np.divmod(values - rows.start, rows.step)
    return np.where((remainder == 0) & (place >= 0) & (place < len(rows)), place, -1)


def _some(labels: ModeLabels, rows: Rows | None) -> ModeLabels:
    if rows is None:
        return labels
    return range(len(rows)) if isinstance(labels, range) else tuple(labels[place] for place in rows)


def _restricted_missing(missing: Missing, chosen: Mapping[int, Rows], shape: tuple[int, ...]) -> Missing:
    """Return the patterns of the chosen rows; wildcards stay, and patterns of other rows are dropped.

    Renumbering keeps their order, and one pattern lies inside another only if it did before.
    """
    patterns = missing.patterns.copy()
    left = np.ones(len(patterns), dtype=bool)
    for mode, rows in chosen.items():
        is_wild = patterns[:, mode] == WILDCARD
        patterns[:, mode] = _renumbered(patterns[:, mode], rows)  # -1 again for a wildcard, which is no row
        left &= is_wild | (patterns[:, mode] >= 0)
    return Missing._trusted(patterns[left], shape)


def patterns_of(chosen: Mapping[int, Rows], shape: tuple[int, ...]) -> Int64s:
    """Return patterns that cover the cells in which every mode has one of its chosen rows."""
    part = {mode: rows for mode, rows in chosen.items() if len(rows) < shape[mode]}
    number = math.prod(len(rows) for rows in part.values())
    if number > MAX_SIGNED_PATTERNS:
        raise InputError(
            "rows",
            Described(f"a selection of {number:,} patterns"),
            f"must be at most {MAX_SIGNED_PATTERNS:,} patterns",
        )
    patterns = np.full((number, len(shape)), WILDCARD, dtype=np.int64)
    if part:
        grid = np.meshgrid(*(np.asarray(rows, dtype=np.int64) for rows in part.values()), indexing="ij")
        for mode, column in zip(part, grid, strict=True):
            patterns[:, mode] = column.ravel()
    return patterns

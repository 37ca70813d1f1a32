"""Some rows of some modes: which positions labels, slices and lists mean, and the tensor that is left of them.

A mode with labels is addressed by label, as `.loc` of pandas does: both ends of a slice are included. A mode without
labels is addressed by position, as Python does. Slices become ranges, so a long mode costs no memory.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from allocore.data.calendar_labels import PeriodForm, is_period, is_rising, is_wider_period, period_form
from allocore.data.cameo import other_spellings
from allocore.data.coordinates import Int64s, Integers, coordinate_type, locate
from allocore.data.labels import ModeLabels
from allocore.data.missing import MAX_SIGNED_PATTERNS, WILDCARD, Missing
from allocore.data.near_labels import described
from allocore.data.tensor_parts import CanonicalParts, TensorParts
from allocore.errors import InputError

Rows = Int64s | range  # positions, rising
Wanted = object  # a label or position, a slice of these, a list of these, or a mask


def chosen_rows(
    tensor: TensorParts, by_dict: Mapping[Any, Wanted] | None, by_name: Mapping[str, Wanted], argument: str
) -> dict[int, Rows]:
    """Return for each mode that is named the positions that are wanted."""
    if by_dict is not None and not isinstance(by_dict, Mapping):
        raise InputError(f"{argument} takes modes by name, or a dict from modes to labels; got {by_dict!r}")
    chosen: dict[int, Rows] = {}
    for name, wanted in [*(by_dict or {}).items(), *by_name.items()]:
        mode = tensor.mode(name)
        if mode in chosen:
            raise InputError(f"{argument}: mode {tensor.mode_names[mode]!r} is named twice")
        chosen[mode] = rows_of(tensor.labels[mode], wanted, f"{argument}: mode {tensor.mode_names[mode]!r}")
    return chosen


def rows_of(labels: ModeLabels, wanted: Wanted, subject: str) -> Rows:
    """Return the positions that are wanted of a mode, in the order of the mode; errors begin with the subject."""
    if _is_mask(wanted):
        rows: Rows = _of_mask(np.asarray(wanted), len(labels), subject)
    elif isinstance(labels, range):
        rows = _positions(wanted, len(labels), subject)
    else:
        rows = LabelRows(labels, subject).rows(wanted)
    if len(rows) == 0:
        raise InputError(f"{subject} has nothing in {wanted!r}: it must name at least one row")
    return rows


def _is_mask(wanted: Wanted) -> bool:
    if isinstance(wanted, list | tuple):
        return bool(wanted) and all(isinstance(each, bool | np.bool_) for each in wanted)
    return getattr(wanted, "dtype", None) == np.dtype(bool) and len(getattr(wanted, "shape", ())) == 1


def _of_mask(mask: np.ndarray[Any, Any], length: int, subject: str) -> Int64s:
    if mask.size != length:
        raise InputError(f"{subject} has {length} rows, but the mask has {mask.size}")
    return np.flatnonzero(mask)


def _positions(wanted: Wanted, length: int, subject: str) -> Rows:
    """Return positions in a mode without labels; negative ones count from the end."""
    if isinstance(wanted, slice):
        ends = (wanted.start, wanted.stop, wanted.step)
        if any(not (end is None or _is_whole(end)) for end in ends) or wanted.step == 0:
            raise InputError(f"{subject} has no labels: a slice must be of positions; got {wanted!r}")
        rows = range(length)[wanted]
        return rows if rows.step > 0 else rows[::-1]
    given = wanted if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
    found = []
    for place in given:
        if not _is_whole(place) or not -length <= place < length:
            raise InputError(f"{subject} has no labels, only positions from 0 to {length - 1}; got {place!r}")
        found.append(operator.index(place) % length)
    return np.unique(np.array(found, dtype=np.int64))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True)
class LabelRows:
    """The labels of a mode, to find some of them; errors begin with the subject."""

    labels: tuple[str, ...]
    subject: str

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
            raise InputError(f"{self.subject}: the step of a slice must be a whole number of at least 1; got {step!r}")
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
        return InputError(f"{self.subject} has no label {text!r}; {described(text, self.labels)}")


def _as_text(label: object, form: PeriodForm | None) -> str:
    """Return a label as text; a moment of time is its day, or its hour where labels are hours."""
    if not isinstance(label, datetime):
        return str(label)
    if label.tzinfo is not None:  # periods of events with a time zone are in UTC
        label = label.astimezone(UTC)
    return f"{label:%Y-%m-%d %H}:00" if form == "hour" else label.date().isoformat()


def restricted(parts: CanonicalParts, chosen: Mapping[int, Rows]) -> CanonicalParts:
    """Return the parts of a tensor that has only the chosen rows, renumbered. All else stays in canonical form."""
    inside = np.ones(parts.counts.size, dtype=bool)
    for mode, rows in chosen.items():
        inside &= _renumbered(parts.coords[mode], rows) >= 0
    if not inside.any():
        raise InputError("select leaves no positive count: there is nothing to fit")
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
    """Return the place of each position among the rows, or -1 if it is not there."""
    values = positions.astype(np.int64)
    if not isinstance(rows, range):
        return locate(values, rows)
    place, beside = np.divmod(values - rows.start, rows.step)
    return np.where((beside == 0) & (place >= 0) & (place < len(rows)), place, -1)


def _some(labels: ModeLabels, rows: Rows | None) -> ModeLabels:
    if rows is None:
        return labels
    return range(len(rows)) if isinstance(labels, range) else tuple(labels[place] for place in rows)


def _restricted_missing(missing: Missing, chosen: Mapping[int, Rows], shape: tuple[int, ...]) -> Missing:
    """Return the patterns of the chosen rows; a wildcard stays one, and patterns of other rows vanish.

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
        raise InputError(f"mask_labels makes {number:,} patterns; at most {MAX_SIGNED_PATTERNS:,} are allowed")
    patterns = np.full((number, len(shape)), WILDCARD, dtype=np.int64)
    if part:
        grid = np.meshgrid(*(np.asarray(rows, dtype=np.int64) for rows in part.values()), indexing="ij")
        for mode, column in zip(part, grid, strict=True):
            patterns[:, mode] = column.ravel()
    return patterns

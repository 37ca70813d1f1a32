"""Names of modes and labels of their positions: checks, rows by label, similar labels, and the kind of a mode's labels.

A mode with labels is addressed by label, as with `.loc` of pandas: both ends of a slice are included. A mode without
labels is addressed by position, as in Python.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

import numpy as np

from allocore.errors import Described, InputError, as_list
from allocore.tensor.calendar import (
    calendar_keys,
    in_calendar_order,
    is_period,
    is_rising,
    is_wider_period,
    period_form,
)
from allocore.tensor.cameo import other_spellings, respelt
from allocore.tensor.coordinates import Int64s
from allocore.tensor.countries import resolve

if TYPE_CHECKING:
    import pandas as pd

ModeLabels = tuple[str, ...] | range
Rows = Int64s | range  # positions, rising
LabelKind = Literal["time", "order", "country", "plain"]

_MAX_COMPARED = 20_000  # comparing more texts than this takes seconds
_MAX_HINTS = 3
_MAX_PERIODS = 100_000
_LONG = 100  # digits; longer texts are sorted as texts, not as numbers
_KIND_SAMPLE = 2000
_COUNTRY_SHARE = 0.8
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


def check_mode_names(mode_names: Sequence[str] | None, modes: int) -> tuple[str, ...]:
    """Return one unique name per mode; mode_0, mode_1, ... if none are given."""
    if mode_names is None:
        return tuple(f"mode_{m}" for m in range(modes))
    rule = "must be a sequence of names"
    if isinstance(mode_names, str):
        raise InputError("mode_names", mode_names, f"{rule}, not one string")
    names = tuple(as_list("mode_names", mode_names, rule))
    if len(names) != modes:
        raise InputError("mode_names", names, f"must have one name for each of the {modes} modes")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError("mode_names", mode_names, f"must be non-empty strings; {name!r} is not")
        if name.startswith(".") or "\\" in name or not _is_plain(name):
            rule = f"must not begin with a dot, or have a backslash, NUL or lone surrogate; {name!r} does"
            raise InputError("mode_names", names, rule)
        if names.count(name) > 1:
            raise InputError("mode_names", names, f"must differ from each other; {name!r} occurs more than once")
    return names


def free_name(wanted: str, taken: Iterable[object]) -> str:
    """Return the name of an output column: underscores are added if a mode, or a column of the user's, has that name.

    All tables that have columns or an index named by modes take the names of their other columns from here.
    """
    names = {str(name) for name in taken}
    while wanted in names:
        wanted += "_"
    return wanted


def with_results(table: pd.DataFrame, results: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table of labels with columns of results to the right, under their free names."""
    taken = (*table.columns, *table.index.names)
    return table.assign(**{free_name(name, taken): values for name, values in results.items()})


def check_labels(labels: object, mode_names: tuple[str, ...]) -> list[ModeLabels | None]:
    """Return for each mode its labels as strings, or None if it has none."""
    if labels is None:
        return [None] * len(mode_names)
    if isinstance(labels, Mapping):
        unknown = [name for name in labels if name not in mode_names]
        if unknown:
            rule = f"must be for the modes {', '.join(mode_names)}; {unknown[0]!r} is not one of them"
            raise InputError("labels", Described("a dict"), rule)
        labels = [labels.get(name) for name in mode_names]
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
        raise InputError("labels", labels, "must be a sequence with one entry per mode, or a dict")
    if len(labels) != len(mode_names):
        given = Described(f"a sequence of length {len(labels)}")
        raise InputError("labels", given, f"must have one entry for each of the {len(mode_names)} modes")
    return [_check_mode_labels(entry, name) for entry, name in zip(labels, mode_names, strict=True)]


def _check_mode_labels(labels: object, mode_name: str) -> ModeLabels | None:
    # The `labels` of another tensor are accepted as they are: a range from 0 means a mode without labels.
    if labels is None or (isinstance(labels, range) and labels == range(len(labels))):
        return labels
    if isinstance(labels, str):
        raise InputError("labels", labels, f"must be a sequence in mode {mode_name!r}, not one string")
    try:
        given: tuple[object, ...] = tuple(labels)  # type: ignore[arg-type]
    except TypeError:
        raise InputError("labels", labels, f"must be a sequence in mode {mode_name!r}") from None
    # Missing values of all libraries are None or differ from themselves.
    if any(label is None or label != label for label in given):
        raise InputError("labels", rule=f"must not be None or NaN; mode {mode_name!r} has such a label")
    result = tuple(str(label) for label in given)
    if not _is_plain("".join(result)):
        wrong = next(label for label in result if not _is_plain(label))
        raise InputError("labels", wrong, f"must have no NUL and no lone surrogate in mode {mode_name!r}")
    twice = [label for label, times in Counter(result).items() if times > 1]
    if twice:
        raise InputError("labels", rule=f"must differ from each other; {twice[0]!r} is repeated in mode {mode_name!r}")
    return result


def _is_plain(text: str) -> bool:
    """Return whether files of all formats can hold a text: it has no NUL, and UTF-8 can express it."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def fit_labels(
    labels: Sequence[ModeLabels | None], shape: tuple[int, ...], mode_names: tuple[str, ...]
) -> tuple[ModeLabels, ...]:
    """Return the labels of each mode, or the range of its positions; their number must be the mode's length."""
    for given, length, name in zip(labels, shape, mode_names, strict=True):
        if given is not None and len(given) != length:
            wrong = Described(f"a sequence of {len(given)} in mode {name!r}")
            raise InputError("labels", wrong, f"must have {length} entries, the length of the mode")
    return tuple(range(length) if given is None else given for given, length in zip(labels, shape, strict=True))


def resolve_patterns(patterns: object, labels: tuple[ModeLabels, ...], mode_names: tuple[str, ...]) -> object:
    """Replace labels in patterns by positions; whatever is not a pattern is left for `Missing` to refuse."""
    if not isinstance(patterns, Iterable):
        return patterns
    places = [{label: d for d, label in enumerate(each)} if isinstance(each, tuple) else {} for each in labels]
    return [_resolve(pattern, places, mode_names) for pattern in patterns]


def _resolve(pattern: object, places: list[dict[str, int]], mode_names: tuple[str, ...]) -> object:
    if isinstance(pattern, str) or not isinstance(pattern, Sequence | np.ndarray) or len(pattern) != len(places):
        return pattern
    row: list[object] = []
    for value, place, name in zip(pattern, places, mode_names, strict=True):
        if isinstance(value, str):
            value = value if value in place else next((each for each in other_spellings(value) if each in place), value)
            if value not in place:
                rule = "must have labels of the mode" if place else "must have positions in a mode without labels"
                raise InputError("patterns", Described(f"{value!r} in mode {name!r}"), rule)
            row.append(place[value])
        elif isinstance(value, int | np.integer) and place.get(str(value), value) != value:
            rule = (
                f"must not be ambiguous: it could be the position or the label {str(value)!r} at position "
                f"{place[str(value)]}. Give the label as text, or all patterns as an integer array"
            )
            raise InputError("patterns", Described(f"{value} in mode {name!r}"), rule)
        elif isinstance(value, int | np.integer) and value < 0:
            wrong = Described(f"{value} in mode {name!r}")
            raise InputError("patterns", wrong, "must not be negative; use None for all of a mode")
        else:
            row.append(value)
    return row


def sorted_labels(labels: Iterable[str], *, calendar: bool = True) -> list[str]:
    """Return labels in order: as numbers, as names of months, weekdays or times of day, or else as texts."""
    texts = sorted(labels)
    if all(label.isdecimal() and label.isascii() and len(label) < _LONG for label in texts):
        return sorted(texts, key=lambda label: (int(label), label))
    keys = calendar_keys(texts) if calendar else None
    return texts if keys is None else [label for _, label in sorted(zip(keys, texts, strict=True))]


def did_you_mean(text: str, labels: Sequence[object]) -> str:
    """Return the end of a sentence that names the same label in another case, or up to three similar labels."""
    compared = [str(label) for label in labels[:_MAX_COMPARED]]
    folded, wanted = {label.casefold(): label for label in reversed(compared)}, text.casefold()
    country = resolve(text)
    near = [folded[wanted]] if wanted in folded else []
    near = near or [label for label in compared if country is not None and resolve(label) == country]
    near = near or [folded[label] for label in get_close_matches(wanted, list(folded), _MAX_HINTS)]
    near = near or [label for label in compared if len(text) > 2 and wanted in label.casefold()]
    return f"; did you mean {' or '.join(repr(label) for label in near[:_MAX_HINTS])}?" if near else ""


def label_hint(text: str, labels: Sequence[object]) -> str:
    """Return a hint for an error about an unknown label: similar labels, or else the first and the last label."""
    near = did_you_mean(text, labels).removeprefix("; ")
    return near or f"its labels go from {str(labels[0])!r} to {str(labels[-1])!r}"


def label_kind(labels: Sequence[str | int]) -> LabelKind:
    """Return the kind of a mode's labels: periods; months, weekdays or times of day; mostly countries; or others."""
    if isinstance(labels, range) or len(labels) < 3:
        return "plain"
    if len(labels) <= _MAX_PERIODS:
        texts = [str(label) for label in labels]
        if period_form(texts) and is_rising(texts):
            return "time"
        if in_calendar_order(texts):
            return "order"
    tried = labels[:_KIND_SAMPLE]
    known = sum(resolve(str(label)) is not None for label in tried)
    return "country" if known >= _COUNTRY_SHARE * len(tried) else "plain"


def are_numbers(labels: Sequence[str | int]) -> bool:
    """Return whether all labels are numbers, which mean nothing without the name of their mode."""
    return isinstance(labels, range) or all(_NUMBER.fullmatch(str(label)) for label in labels)


def rows_of(labels: ModeLabels, wanted: object, argument: str, mode_name: str) -> Rows:
    """Return the wanted positions of a mode, in the order of the mode; errors are about the argument."""
    if _is_mask(wanted):
        mask = np.asarray(wanted)
        if mask.size != len(labels):
            raise InputError(argument, Described(f"a mask of {mask.size} rows"), f"must have {len(labels)} rows")
        rows: Rows = np.flatnonzero(mask)
    elif isinstance(labels, range):
        rows = _positions(wanted, len(labels), argument, mode_name)
    else:
        rows = LabelRows(labels, argument, mode_name).rows(wanted)
    if len(rows) == 0:
        raise InputError(argument, wanted, f"must name at least one row of mode {mode_name!r}")
    return rows


def matching_rows(labels: Sequence[ModeLabels], known: Sequence[ModeLabels]) -> list[Int64s]:
    """Return for each mode where the rows with these labels are among the known ones, -1 if they are not there.

    Unless both have labels, rows are matched by position.
    """
    return [_matching(own, theirs) for own, theirs in zip(labels, known, strict=True)]


def _matching(labels: ModeLabels, known: ModeLabels) -> Int64s:
    if isinstance(labels, range) or isinstance(known, range):
        numbers = np.arange(len(labels))
        return np.where(numbers < len(known), numbers, -1)
    place = {label: number for number, label in enumerate(known)}
    return np.array([place.get(label, -1) for label in respelt(labels, place)], dtype=np.int64)


def _is_mask(wanted: object) -> bool:
    if isinstance(wanted, list | tuple):
        return bool(wanted) and all(isinstance(each, bool | np.bool_) for each in wanted)
    return getattr(wanted, "dtype", None) == np.dtype(bool) and len(getattr(wanted, "shape", ())) == 1


def _positions(wanted: object, length: int, argument: str, mode_name: str) -> Rows:
    if isinstance(wanted, slice):
        ends = (wanted.start, wanted.stop, wanted.step)
        if any(not (end is None or _is_whole(end)) for end in ends) or wanted.step == 0:
            rule = f"must be a slice of positions, because mode {mode_name!r} has no labels"
            raise InputError(argument, wanted, rule)
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
    def _form(self) -> str | None:  # of periods in order
        return period_form(self.labels) if is_rising(self.labels) else None

    def rows(self, wanted: object) -> Rows:
        """Return the positions of a label, of a slice of labels, or of several labels."""
        if isinstance(wanted, slice):
            return self._between(wanted)
        if isinstance(wanted, str) or not isinstance(wanted, Iterable):
            return self._label(wanted)
        return np.unique(np.array([place for each in wanted for place in self._label(each)], dtype=np.int64))

    def find(self, label: object) -> range | None:
        """Return the positions of a label, with or without its words, or of the periods in a longer one, or None."""
        text = _as_text(label, self._form)
        if text in self._places:
            return range(self._places[text], self._places[text] + 1)
        if self._form and is_wider_period(text, self._form):
            return self._periods(text, text) or None
        place = next((self._places[other] for other in other_spellings(text) if other in self._places), None)
        return None if place is None else range(place, place + 1)

    def _label(self, label: object) -> range:
        rows = self.find(label)
        if rows is None:
            raise self._unknown(_as_text(label, self._form))
        return rows

    def _between(self, wanted: slice) -> range:
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


def _as_text(label: object, form: str | None) -> str:
    if not isinstance(label, datetime):
        return str(label)
    if label.tzinfo is not None:  # periods of events with a time zone are in UTC
        label = label.astimezone(UTC)
    return f"{label:%Y-%m-%d %H}:00" if form == "hour" else label.date().isoformat()

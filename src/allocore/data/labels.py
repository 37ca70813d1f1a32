"""Names of modes and labels of their positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from allocore.data.cameo import other_spellings
from allocore.errors import InputError

ModeLabels = tuple[str, ...] | range


def check_mode_names(mode_names: Sequence[str] | None, modes: int) -> tuple[str, ...]:
    """Return one unique name per mode; mode_0, mode_1, ... if none are given."""
    if mode_names is None:
        return tuple(f"mode_{m}" for m in range(modes))
    if isinstance(mode_names, str):
        raise InputError(f"mode_names must be a sequence of names, not the single string {mode_names!r}")
    names = tuple(mode_names)
    if len(names) != modes:
        raise InputError(f"mode_names must name each of the {modes} modes; got {len(names)} names: {names}")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"mode_names must be non-empty strings; got {name!r}")
        if name.startswith(".") or "\\" in name or not _is_plain(name):
            raise InputError(
                f"mode_names must not begin with a dot, and have no backslash, NUL or lone surrogate; got {name!r}"
            )
        if names.count(name) > 1:
            raise InputError(f"mode_names must differ from each other; {name!r} occurs more than once")
    return names


def check_labels(labels: object, mode_names: tuple[str, ...]) -> list[ModeLabels | None]:
    """Return for each mode its labels as strings, or None if it has none."""
    if labels is None:
        return [None] * len(mode_names)
    if isinstance(labels, Mapping):
        unknown = [name for name in labels if name not in mode_names]
        if unknown:
            raise InputError(f"labels names the mode {unknown[0]!r}; the modes are {', '.join(mode_names)}")
        labels = [labels.get(name) for name in mode_names]
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
        raise InputError(f"labels must be a sequence with one entry per mode or a dict; got {labels!r}")
    if len(labels) != len(mode_names):
        raise InputError(f"labels must have one entry for each of the {len(mode_names)} modes; got {len(labels)}")
    return [_check_mode_labels(entry, name) for entry, name in zip(labels, mode_names, strict=True)]


def _check_mode_labels(labels: object, mode_name: str) -> ModeLabels | None:
    # The `labels` of another tensor are accepted as they are: a range from 0 means a mode without labels.
    if labels is None or (isinstance(labels, range) and labels == range(len(labels))):
        return labels
    if isinstance(labels, str):
        raise InputError(f"labels of mode {mode_name!r} must be a sequence, not the single string {labels!r}")
    try:
        given: tuple[object, ...] = tuple(labels)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"labels of mode {mode_name!r} must be a sequence; got {labels!r}") from None
    # Missing values of all libraries are None or differ from themselves.
    if any(label is None or label != label for label in given):
        raise InputError(f"labels of mode {mode_name!r} must all be given; one is missing (None or NaN)")
    result = tuple(str(label) for label in given)
    if not _is_plain("".join(result)):
        wrong = next(label for label in result if not _is_plain(label))
        raise InputError(f"labels of mode {mode_name!r} must have no NUL and no lone surrogate; got {wrong!r}")
    twice = [label for label, times in Counter(result).items() if times > 1]
    if twice:
        raise InputError(f"labels of mode {mode_name!r} must differ from each other; {twice[0]!r} is repeated")
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
            raise InputError(f"labels of mode {name!r} must number {length}, the length of the mode; got {len(given)}")
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
                reason = "has no such label" if place else "has no labels"
                raise InputError(f"patterns has {value!r} in mode {name!r}, which {reason}")
            row.append(place[value])
        elif isinstance(value, int | np.integer) and place.get(str(value), value) != value:
            raise InputError(
                f"patterns has {value} in mode {name!r}, which could be the position or the label {str(value)!r} at "
                f"position {place[str(value)]}: give the label as text, or all patterns as an integer array"
            )
        elif isinstance(value, int | np.integer) and value < 0:
            raise InputError(f"patterns has {value} in mode {name!r}; use None for all of a mode")
        else:
            row.append(value)
    return row

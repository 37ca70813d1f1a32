"""Coordinates of cells, and the int64 keys by which they are sorted, matched and joined.

A cell is one column of an (M, n) integer array. Comparing whole columns is slow in NumPy, so each column becomes one
mixed-radix number, its key. Keys compare as the columns do, with mode 0 slowest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.errors import Described, InputError

Integers = NDArray[np.integer[Any]]
Int64s = NDArray[np.int64]

INT64_MAX = 2**63 - 1


def as_integers(values: object, argument: str) -> Integers:
    """Return `values` as an array of integers; whole floats and booleans are accepted."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(argument, rule=f"must be a rectangular array of whole numbers: {error}") from None
    if array.size == 0 or array.dtype.kind == "b":
        return array.astype(np.int64)
    if array.dtype.kind == "i":
        return array
    if array.dtype.kind == "u":
        bad = array > INT64_MAX
    elif array.dtype.kind == "f":
        # NaN differs from its own floor, and infinities are beyond the limit.
        bad = (array != np.floor(array)) | (np.abs(array) >= 2.0**63)
    elif array.dtype.kind == "O":
        bad = np.array([not _is_int64(value) for value in array.flat]).reshape(array.shape)
    else:
        raise InputError(argument, Described(f"an array of type {array.dtype}"), "must be whole numbers")
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at position {place[0] if len(place) == 1 else place}" if place else ""
        raise InputError(argument, Described(f"{array[place]!s}{where}"), "must be whole numbers below 2^63")
    return array.astype(np.int64)


def _is_int64(value: object) -> bool:
    return isinstance(value, int | np.integer) and abs(int(value)) <= INT64_MAX


def check_shape(shape: object, *, modes: int | None = None) -> tuple[int, ...]:
    """Return `shape` as a tuple of positive ints. If `modes` is given, it must have that many entries."""
    try:
        lengths = tuple(operator.index(length) for length in shape)  # type: ignore[attr-defined]
    except TypeError:
        raise InputError("shape", shape, "must be a sequence of whole numbers") from None
    if modes is not None and len(lengths) != modes:
        raise InputError("shape", lengths, f"must have one length for each of the {modes} modes of `coords`")
    if any(not 1 <= length <= INT64_MAX for length in lengths):
        raise InputError("shape", lengths, "must have lengths of at least 1 and below 2^63")
    return lengths


def check_coordinates(coords: Integers, shape: tuple[int, ...], mode_names: Sequence[str] | None = None) -> None:
    """Raise an InputError if a coordinate lies outside the shape."""
    if coords.ndim != 2 or len(coords) != len(shape):
        rule = f"must have one row for each of the {len(shape)} modes, shape ({len(shape)}, n)"
        raise InputError("coords", Described(f"an array of shape {coords.shape}"), rule)
    if coords.shape[1] == 0:
        return
    for m, (column, length) in enumerate(zip(coords, shape, strict=True)):
        low, high = int(column.min()), int(column.max())
        if low < 0 or high >= length:
            name = f" ({mode_names[m]})" if mode_names is not None else ""
            given = Described(f"{low if low < 0 else high} in mode {m}{name}")
            if low < 0:
                rule = "must be at least 0 (a missing value in the table this came from?)"
            else:
                rule = f"must be below {length}, the length of the mode"
            raise InputError("coords", given, rule)


def column_keys(lengths: Sequence[int], *tables: NDArray[Any]) -> list[Int64s]:
    """Return for each table one key per column; keys can be compared across all the tables.

    `lengths` bounds the values of each row. If the mixed-radix number would overflow, the key so far (and the next row,
    if necessary) is replaced by its rank, which keeps order and equality.
    """
    keys = np.zeros(sum(table.shape[1] for table in tables), dtype=np.int64)
    radix = 1
    for m, length in enumerate(lengths):
        column = np.concatenate([table[m] for table in tables])
        if radix * length > INT64_MAX:
            keys, radix = _ranks(keys)
        if max(radix, 1) * length > INT64_MAX:  # the radix is 0 if there are no columns
            column, length = _ranks(column)
        keys *= length
        keys += column
        radix *= length
    return np.split(keys, np.cumsum([table.shape[1] for table in tables])[:-1])


def _ranks(values: NDArray[Any]) -> tuple[Int64s, int]:
    distinct, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), distinct.size


def locate(keys: Int64s, sorted_keys: Int64s) -> Int64s:
    """Return the position of each key in `sorted_keys`, or -1 if it is absent."""
    if sorted_keys.size == 0:
        return np.full(keys.size, -1, dtype=np.int64)
    place = np.searchsorted(sorted_keys, keys)
    place[place == sorted_keys.size] = 0
    return np.where(sorted_keys[place] == keys, place, -1)


def run_starts(sorted_keys: Int64s) -> Int64s:
    """Return the positions at which a new value begins."""
    return np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]])[: sorted_keys.size])


def coordinate_type(shape: Sequence[int]) -> type[np.int32] | type[np.int64]:
    """Return the integer type of a tensor's coordinates: int32, unless a mode is too long for that."""
    return np.int32 if max(shape) < 2**31 else np.int64


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it; only for arrays that nobody else writes to."""
    array.flags.writeable = False
    return array

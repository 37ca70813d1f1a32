"""Coordinates of cells: checks, int64 keys, the canonical order and the order of fibres.

A cell is one column of an (M, n) integer array. Its key is a mixed-radix number; keys compare as the columns do, with
mode 0 slowest. In canonical form, cells are sorted by key; none occurs twice, and none is zero.

Thinning visits the cells sorted into fibres, and its random numbers belong to places in this order. So the order of the
modes by which cells are sorted depends only on the data, not on how they are stored.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.errors import Described, InputError

Integers = NDArray[np.integer[Any]]
Int64s = NDArray[np.int64]

INT64_MAX = 2**63 - 1
MAX_TOTAL = 2**50  # above this the sampler's binomial and gamma draws are no longer exact
NOTHING_TO_FIT = "must have a positive count: there is nothing to fit"
_CELLS_AT_ONCE = 2**22  # a limit, so that temporary arrays do not grow with the data
_SAMPLE = 2_000_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


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
        is_int64 = [isinstance(each, int | np.integer) and abs(int(each)) <= INT64_MAX for each in array.flat]
        bad = ~np.array(is_int64).reshape(array.shape)
    else:
        raise InputError(argument, Described(f"an array of type {array.dtype}"), "must be whole numbers")
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f" at position {place[0] if len(place) == 1 else place}" if place else ""
        raise InputError(argument, Described(f"{array[place]!s}{where}"), "must be whole numbers below 2^63")
    return array.astype(np.int64)


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
    """Return for each table one key per column, comparable across tables; `lengths` bounds the values of each row."""
    keys = np.zeros(sum(table.shape[1] for table in tables), dtype=np.int64)
    radix = 1
    for m, length in enumerate(lengths):
        column = np.concatenate([table[m] for table in tables])
        if radix * length > INT64_MAX:  # ranks keep order and equality
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


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values, sorted. `np.unique` uses a hash table, which may take a hundred times as long.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered, first = np.sort(values), np.ones(len(values), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


class DistinctValues:
    """The distinct values of arrays that are added one after another; memory grows with these values alone.

    Examples
    --------
    >>> found = DistinctValues()
    >>> found.add(np.array([3, 1, 3]))
    >>> found.add(np.array([2, 1]))
    >>> found.sorted().tolist()
    [1, 2, 3]
    """

    def __init__(self) -> None:
        self._known, self._new = np.empty(0, dtype=np.int64), list[Int64s]()

    def add(self, values: Int64s) -> None:
        """Add the values of an array."""
        self._new.append(distinct(values))
        if sum(map(len, self._new)) > len(self._known):  # so that a value is sorted a few times only
            self.sorted()

    def sorted(self) -> Int64s:
        """Return the distinct values so far, sorted."""
        self._known, self._new = distinct(np.concatenate([self._known, *self._new])), []
        return self._known


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


def check_entries(coords: object, counts: object) -> tuple[Integers, Integers]:
    """Return coordinates and counts as integers; raise an InputError if they are not those of a tensor."""
    places, values = as_integers(coords, "coords"), as_integers(counts, "counts")
    if places.ndim != 2 or len(places) < 2:
        given = Described(f"an array of shape {places.shape}")
        raise InputError("coords", given, "must have shape (modes, entries) with at least 2 modes")
    if values.ndim != 1 or values.size != places.shape[1]:
        hint = "; transpose coords" if values.shape == places.shape[:1] else ""
        rule = f"must have one entry for each of the {places.shape[1]} columns of `coords`{hint}"
        raise InputError("counts", Described(f"an array of shape {values.shape}"), rule)
    if values.size and values.min() < 0:
        place = int(np.argmax(values < 0))
        raise InputError("counts", Described(f"{values[place]} at position {place}"), "must not be negative")
    if not values.any():
        raise InputError("counts", rule=NOTHING_TO_FIT)
    # The int64 sum is used only where it cannot overflow.
    bound = int(values.max()) * values.size
    check_total(bound if bound <= MAX_TOTAL else sum(values.tolist()))
    return places, values


def check_total(total: int) -> None:
    """Raise an InputError if the counts of a tensor add up to more than the sampler can handle."""
    if total > MAX_TOTAL:
        raise InputError("counts", Described(f"an array with the sum {total}"), "must add up to at most 2^50")


def sums_by_row(rows: Integers, counts: Int64s, length: int) -> Int64s:
    """Return the sum of the counts of each row; sums of floats are exact, because the total is at most 2^50."""
    return np.bincount(rows, counts, length).astype(np.int64)


def canonical(coords: Integers, counts: Integers, shape: tuple[int, ...]) -> tuple[Integers, Int64s]:
    """Sort the cells, sum duplicates and drop zeros. The returned arrays are always new."""
    cells: Integers = np.array(coords, dtype=coordinate_type(shape), order="C")
    totals = np.array(counts, dtype=np.int64)
    positive = np.flatnonzero(totals)
    if positive.size < totals.size:
        cells, totals = cells.take(positive, axis=1), totals[positive]
    (keys,) = column_keys(shape, cells)
    if (keys[1:] < keys[:-1]).any():
        if math.prod(shape) * (int(totals.max()) + 1) <= INT64_MAX:
            # With the count as last digit, a key is a whole entry: to sort these is ten times faster than positions.
            base = int(totals.max()) + 1
            packed = keys * base + totals
            packed.sort()
            keys, totals = np.divmod(packed, base)
            rest = keys
            for m in reversed(range(len(shape))):
                rest, cells[m] = np.divmod(rest, shape[m])
        else:
            order = np.argsort(keys)
            keys, cells, totals = keys[order], cells.take(order, axis=1), totals[order]
    first = run_starts(keys)
    if first.size < keys.size:
        cells, totals = cells.take(first, axis=1), np.add.reduceat(totals, first)
    return cells, totals


def cell_ranges(cells: int) -> Iterator[slice]:
    """Return ranges that cover the cells, each short enough for temporary arrays."""
    return (slice(start, min(start + _CELLS_AT_ONCE, cells)) for start in range(0, cells, _CELLS_AT_ONCE))


def hashes(columns: Integers | Sequence[Integers]) -> NDArray[np.uint64]:
    """Return a hash of each cell, or of its fibre: it depends on nothing but the coordinates in these columns."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * _ODD
        mixed ^= mixed >> np.uint64(29)
    return mixed


def fibre_order(parts: Iterable[NDArray[Any]], shape: tuple[int, ...], cells: int) -> tuple[int, ...]:
    """Return the order of the modes: the one with the fewest fibres is last if that saves a quarter of the fibres."""
    modes = range(len(shape))
    sampled = np.uint64(max(1, cells // _SAMPLE))  # of many cells, a hash selects some
    keys: list[list[NDArray[np.uint64]]] = [[] for _ in modes]
    for coords in (part[:, some] for part in parts for some in cell_ranges(part.shape[1])):
        for along in modes:
            mixed = hashes([*coords[:along], *coords[along + 1 :]])
            # Each fibre is stored once, so memory does not grow with the cells that share it.
            keys[along].append(distinct(mixed[mixed % sampled == 0]) if sampled > 1 else mixed)
    fibres = [len(distinct(np.concatenate(each))) if each else 0 for each in keys]
    best = min(modes, key=fibres.__getitem__)
    last = best if fibres[best] < 0.75 * fibres[-1] else modes[-1]
    return (*(mode for mode in modes if mode != last), last)

"""The canonical form of a tensor's entries: cells sorted with mode 0 slowest; none twice, none zero, none missing."""

from __future__ import annotations

import math

import numpy as np

from allocore.errors import Described, InputError
from allocore.tensor.coordinates import (
    INT64_MAX,
    Int64s,
    Integers,
    as_integers,
    column_keys,
    coordinate_type,
    run_starts,
)
from allocore.tensor.missing import Missing, covered

# Above this the sampler's binomial and gamma draws are no longer exact.
MAX_TOTAL = 2**50
NOTHING_TO_FIT = "must have a positive count: there is nothing to fit"


def check_entries(coords: object, counts: object) -> tuple[Integers, Integers]:
    """Return coordinates and counts as integers; raise an InputError if they are not those of a tensor."""
    places, values = as_integers(coords, "coords"), as_integers(counts, "counts")
    if places.ndim != 2 or len(places) < 2:
        raise InputError("coords", _of_shape(places), "must have shape (modes, entries) with at least 2 modes")
    if values.ndim != 1 or values.size != places.shape[1]:
        hint = "; transpose coords" if values.shape == places.shape[:1] else ""
        rule = f"must have one entry for each of the {places.shape[1]} columns of `coords`{hint}"
        raise InputError("counts", _of_shape(values), rule)
    if values.size and values.min() < 0:
        place = int(np.argmax(values < 0))
        raise InputError("counts", Described(f"{values[place]} at position {place}"), "must not be negative")
    if not values.any():
        raise InputError("counts", rule=NOTHING_TO_FIT)
    # The int64 sum is used only where it cannot overflow.
    bound = int(values.max()) * values.size
    check_total(bound if bound <= MAX_TOTAL else sum(values.tolist()))
    return places, values


def _of_shape(array: Integers) -> Described:
    return Described(f"an array of shape {array.shape}")


def check_total(total: int) -> None:
    """Raise an InputError if the counts of a tensor add up to more than the sampler can handle."""
    if total > MAX_TOTAL:
        raise InputError("counts", Described(f"an array with the sum {total}"), "must add up to at most 2^50")


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
            keys, totals = _sort_packed(keys, totals)
            _decode(keys, shape, out=cells)
        else:
            order = np.argsort(keys)
            keys, cells, totals = keys[order], cells.take(order, axis=1), totals[order]
    first = run_starts(keys)
    if first.size < keys.size:
        cells, totals = cells.take(first, axis=1), np.add.reduceat(totals, first)
    return cells, totals


def _sort_packed(keys: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    # With the count as its last digit, a key has a whole entry. Sorting numbers is about ten times faster than
    # sorting positions and then gathering the entries from all over memory.
    base = int(counts.max()) + 1
    packed = keys * base + counts
    packed.sort()
    return np.divmod(packed, base)


def _decode(keys: Int64s, shape: tuple[int, ...], *, out: Integers) -> None:
    """Write into `out` the coordinates whose mixed-radix numbers are `keys`."""
    for m in reversed(range(len(shape))):
        keys, out[m] = np.divmod(keys, shape[m])


def drop_missing(coords: Integers, counts: Int64s, new: Missing, missing: Missing) -> tuple[Integers, Int64s]:
    """Return the entries outside the `new` cells of `missing`; entries in its other cells were dropped before."""
    observed = np.flatnonzero(~covered(coords, new))
    if observed.size == 0:
        raise nothing_left(counts.size, missing)
    if observed.size < counts.size:
        return coords.take(observed, axis=1), counts[observed]
    return coords, counts


def nothing_left(nonzeros: int, missing: Missing) -> InputError:
    """Return the error for a tensor all of whose non-zeros are missing."""
    all_missing = missing.cells == math.prod(missing.shape)
    reason = "all cells are missing" if all_missing else f"all {nonzeros:,} non-zeros lie in missing cells"
    return InputError("counts", rule=f"{NOTHING_TO_FIT}, because {reason}")

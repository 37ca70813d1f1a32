"""Undirected ties: two modes with the same labels, in which the pair {i, j} is one cell.

The cell is kept as (i, j) with i < j. A pattern of missing cells comes with its mirror image, in which the positions of
the two modes are exchanged, and the diagonal is missing: so the missing cells of both directions are the same, and
`Missing` counts each pair twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from allocore.errors import Described, InputError
from allocore.tensor.coordinates import Int64s, Integers, canonical, column_keys, distinct
from allocore.tensor.missing import WILDCARD, Missing

T = TypeVar("T")
Pair = tuple[int, int]
MIN_CELLS = 20  # fewer cells may all be in one direction by chance


def mirrored(coords: NDArray[Any], pair: Pair) -> NDArray[Any]:
    """Return cells (M, n) with the positions of two modes exchanged."""
    return coords[exchanged(range(len(coords)), pair)]


def exchanged(of_modes: Sequence[T], pair: Pair) -> list[T]:
    """Return what there is for each mode with that of two modes exchanged."""
    changed = list(of_modes)
    changed[pair[0]], changed[pair[1]] = changed[pair[1]], changed[pair[0]]
    return changed


def as_pairs(coords: NDArray[Any], pair: Pair) -> NDArray[Any]:
    """Return the cells (M, n) of pairs as they are kept, whichever direction is given."""
    return np.where(coords[pair[0]] > coords[pair[1]], mirrored(coords, pair), coords)


def directions(coords: NDArray[Any], pair: Pair | None) -> list[NDArray[Any]]:
    """Return the directed cells whose rates add up to those of cells: themselves or, of pairs, both directions."""
    return [coords] if pair is None else [coords, mirrored(coords, pair)]


def diagonal(shape: tuple[int, ...], modes: tuple[int, ...]) -> Missing:
    """Return the diagonal of two or more modes of equal length as missing cells."""
    patterns = np.full((shape[modes[0]], len(shape)), WILDCARD, dtype=np.int64)
    patterns[:, modes] = np.arange(shape[modes[0]])[:, None]
    return Missing(patterns, shape)


def in_both_directions(missing: Missing, pair: Pair) -> Missing:
    """Return missing cells with their mirror images and the diagonal."""
    both = missing.union(Missing(mirrored(missing.patterns.T, pair).T, missing.shape))
    return both.union(diagonal(missing.shape, pair))


def fold(
    coords: Integers, counts: Int64s, shape: tuple[int, ...], pair: Pair, asymmetric: str
) -> tuple[Integers, Int64s]:
    """Return the cells of pairs, given in one direction only, or in both with equal counts, or else summed."""
    above, below = coords[pair[0]] < coords[pair[1]], coords[pair[0]] > coords[pair[1]]
    if not (above.any() and below.any()):
        return canonical(as_pairs(coords, pair), counts, shape)
    differing = _differing(coords, counts, shape, pair)
    if not differing:
        return coords[:, above], counts[above]
    if asymmetric == "error":
        pairs = as_pairs(coords, pair)
        number = distinct(column_keys(shape, pairs)[0]).size
        given = Described(f"counts that differ between the two directions in {differing:,} of {number:,} cells")
        rule = "must be 'sum' to add up both directions, unless they are equal or every pair has the direction i < j"
        raise InputError("asymmetric", given, rule)
    return canonical(as_pairs(coords, pair), counts, shape)


def stored_pair(stored: object, modes: int) -> Pair | None:
    """Return the modes of undirected ties that a file has; raise ValueError or TypeError if they cannot be modes."""
    if stored is None:
        return None
    first, second = (int(each) for each in stored)  # type: ignore[attr-defined]
    if not 0 <= first < second < modes:
        raise ValueError(f"undirected is {stored!r}")
    return first, second


def looks_undirected(coords: Integers, counts: Int64s, shape: tuple[int, ...], pair: Pair) -> str | None:
    """Return the kind of finding if all ties have i < j, or all i > j, or if they are the same in both directions."""
    above, below = (int((coords[one] < coords[other]).sum()) for one, other in (pair, pair[::-1]))
    if above + below < MIN_CELLS:
        return None
    if not (above and below):
        return "ties-in-one-direction"
    return "symmetric-ties" if above == below and not _differing(coords, counts, shape, pair) else None


def _differing(coords: Integers, counts: Int64s, shape: tuple[int, ...], pair: Pair) -> int:
    """How many pairs have different counts in the two directions."""
    signs = np.sign(coords[pair[1]].astype(np.int64) - coords[pair[0]])
    (keys,) = column_keys(shape, as_pairs(coords, pair))
    _, place = np.unique(keys, return_inverse=True)
    return int(np.count_nonzero(np.bincount(place.ravel(), signs * counts)))

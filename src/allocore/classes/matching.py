"""Match classes one to one by the cosines of their profiles.

Two classes are as similar as the smallest cosine of their profiles over the modes (Tucker's coefficient of congruence).
Classes of two sets are matched so that the sum of the similarities is largest, among pairs that are similar enough.
If one set has sizes, the similarities are multiplied by them, so that a large class is matched before a fragment.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.jit import kernel, part

# A draw holds a consensus class, and two consensuses have it in common, if cosines are at least this in every mode.
HOLDS = 0.6
_TINY = float(np.finfo(float).tiny)
_FAINT = 1e-100  # the squares of smaller numbers underflow
_ROWS_AT_ONCE = 2**16


class Direction(NamedTuple):
    """The profiles of C classes in one mode, (C, D), rows in one piece, and their lengths; 1 for one that is zero."""

    profile_CD: Floats
    length_C: Floats


Directions: TypeAlias = tuple[Direction, ...]  # one per mode


def directions(profiles: Iterable[Floats]) -> Directions:
    """Return profiles, one (D, C) per mode, with their lengths. Nothing is copied if columns are in one piece."""
    found = []
    for profile_DC in profiles:
        largest_C = profile_DC.max(axis=0, initial=0.0)
        scaled_DC = profile_DC if (largest_C >= _FAINT).all() else profile_DC / np.maximum(largest_C, _TINY)
        profile_CD, length_C = np.ascontiguousarray(scaled_DC.T, dtype=np.float64), np.empty(scaled_DC.shape[1])
        _fill_lengths(profile_CD, length_C)
        found.append(Direction(profile_CD, length_C))
    return tuple(found)


def unit_profiles(profiles: Iterable[Floats]) -> tuple[Floats, ...]:
    """Return profiles, one (D, C) per mode, scaled to length one, as (C, D). Zero stays zero."""
    return tuple(profile_CD / length_C[:, None] for profile_CD, length_C in directions(profiles))


def similarities(ours: Directions, theirs: Directions, least: float) -> Floats:
    """Return the smallest cosine over the modes for each pair of classes; below `least` it is only an upper bound."""
    similarity_CC = np.ones((len(ours[0].length_C), len(theirs[0].length_C)))
    for mode in _shortest_first(ours):
        _lower_similarities(*ours[mode], *theirs[mode], least, similarity_CC)
    return similarity_CC


def distances(unit: Directions, least: float) -> Floats:
    """Return one minus the product of the cosines over the modes, which is the cosine of two classes as tensors.

    The pairs are 0 and 1, 0 and 2, .., 1 and 2, ..; where the product is below `least`, it is only an upper bound.
    """
    number = len(unit[0].length_C)
    found = np.ones(number * (number - 1) // 2)
    for mode in _shortest_first(unit):
        _multiply_cosines(*unit[mode], least, found)
    np.subtract(1.0, found, out=found)
    return np.maximum(found, 0.0, out=found)


def _shortest_first(unit: Directions) -> list[int]:
    """The modes, the shortest first: pairs that differ there need no more work."""
    return sorted(range(len(unit)), key=lambda mode: unit[mode].profile_CD.shape[1])


def add_profiles(sum_GD: Floats, places: Ints, profile_DC: Floats, classes: Ints, weights: Floats) -> None:
    """Add profiles of some classes, times their weights, to the sums at different places, some rows at a time."""
    for rows in blocks_of_rows(len(profile_DC)):
        sum_GD[places, rows] += (profile_DC[rows, classes] * weights).T


def blocks_of_rows(rows: int) -> Iterator[slice]:
    """Return all rows of a mode, some at a time."""
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, rows, _ROWS_AT_ONCE))


def match(ours: Directions, theirs: Directions, least: float, size_C: Floats | None = None) -> tuple[Ints, Ints]:
    """Return the pairs of the best one-to-one matching, similar by at least `least`; `size_C` are our sizes."""
    return match_similar(similarities(ours, theirs, least), least, size_C)


def match_similar(similarity_CC: Floats, least: float, size_C: Floats | None = None) -> tuple[Ints, Ints]:
    """Return the pairs of the best one-to-one matching, given the similarities."""
    # Pairs that are not similar enough are worth nothing, so they never displace a similar pair.
    worth_CC = np.where(similarity_CC >= least, similarity_CC, 0.0)
    if size_C is not None:
        worth_CC *= np.maximum(size_C, _TINY)[:, None]
    rows, columns = np.flatnonzero(worth_CC.any(axis=1)), np.flatnonzero(worth_CC.any(axis=0))
    worth_RC = worth_CC[np.ix_(rows, columns)]
    one, other = linear_sum_assignment(worth_RC, maximize=True)
    matched = worth_RC[one, other] > 0.0
    return rows[one[matched]], columns[other[matched]]


@kernel
def _fill_lengths(profile_CD: Floats, length_C: Floats) -> None:
    sums = np.empty(8)
    for i in range(len(profile_CD)):
        length = np.sqrt(_product(profile_CD, i, profile_CD, i, sums))
        length_C[i] = length if length > 0.0 else 1.0


@kernel
def _lower_similarities(
    ours_CD: Floats, our_length_C: Floats, theirs_CD: Floats, their_length_C: Floats, least: float,
    similarity_CC: Floats,
) -> None:  # fmt: skip
    """Lower similarities to the cosines in one mode, where they are not below `least` already."""
    sums = np.empty(8)
    for i in range(len(ours_CD)):
        for j in range(len(theirs_CD)):
            if similarity_CC[i, j] >= least:
                cosine = _product(ours_CD, i, theirs_CD, j, sums) / our_length_C[i] / their_length_C[j]
                similarity_CC[i, j] = min(similarity_CC[i, j], cosine)


@kernel
def _multiply_cosines(profile_CD: Floats, length_C: Floats, least: float, product_P: Floats) -> None:
    """Multiply products by the cosines in one mode, where they are not below `least` already."""
    sums, pair = np.empty(8), 0
    for i in range(len(profile_CD)):
        for j in range(i + 1, len(profile_CD)):
            if product_P[pair] >= least:
                product_P[pair] *= _product(profile_CD, i, profile_CD, j, sums) / length_C[i] / length_C[j]
            pair += 1


@part
def _product(ours_CD: Floats, i: int, theirs_CD: Floats, j: int, sums: Floats) -> float:
    """The scalar product of two classes in one mode.

    BLAS is faster on an idle machine, but its threads wait for one another: ten times slower while a run is going on.
    Eight sums at a time keep the processor busy without giving up a fixed order of summation.
    """
    rows = ours_CD.shape[1]
    whole = rows // 8 * 8
    product = 0.0
    if whole:
        sums[:] = 0.0
        for row in range(0, whole, 8):
            for lane in range(8):
                sums[lane] += ours_CD[i, row + lane] * theirs_CD[j, row + lane]
        for lane in range(8):
            product += sums[lane]
    for row in range(whole, rows):
        product += ours_CD[i, row] * theirs_CD[j, row]
    return product


def evenly_spaced(draws: int, most: int) -> Ints:
    """Return at most `most` of the draws: the middle of each of that many equal stretches."""
    number = min(most, draws)
    return (2 * np.arange(number) + 1) * draws // (2 * number)

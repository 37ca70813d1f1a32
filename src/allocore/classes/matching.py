"""Match classes one to one by the cosines of their profiles.

Two classes are as similar as the smallest cosine of their profiles over the modes (Tucker's coefficient of congruence).
Classes of two sets are matched so that the sum of the similarities is largest, among pairs that are similar enough.
If one set has sizes, the similarities are multiplied by them, so that a large class is matched before a fragment.
"""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from scipy.optimize import linear_sum_assignment

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.jit import kernel, part

Directions: TypeAlias = tuple[Floats, ...]  # per mode (C, D), rows in one piece
# A draw holds a consensus class, and two consensuses have it in common, if cosines are at least this in every mode.
HOLDS = 0.6
_TINY = float(np.finfo(float).tiny)


def directions(profiles: Iterable[Floats]) -> Directions:
    """Return profiles, one (D, C) per mode, scaled to length one. Zero stays zero."""
    found = []
    for profile_DC in profiles:
        scaled_DC = profile_DC / np.maximum(profile_DC.max(axis=0, initial=0.0), _TINY)
        unit_DC = scaled_DC / np.maximum(np.sqrt((scaled_DC**2).sum(axis=0)), _TINY)
        found.append(np.ascontiguousarray(unit_DC.T))
    return tuple(found)


def similarities(ours: Directions, theirs: Directions, least: float) -> Floats:
    """Return the smallest cosine over the modes for each pair of classes; below `least` it is only an upper bound."""
    similarity_CC = np.empty((len(ours[0]), len(theirs[0])))
    _fill_similarities(*_side_by_side(ours), _side_by_side(theirs)[0], least, similarity_CC)
    return similarity_CC


def distances(unit: Directions, least: float) -> Floats:
    """Return one minus the product of the cosines over the modes, which is the cosine of two classes as tensors.

    The pairs are 0 and 1, 0 and 2, .., 1 and 2, ..; where the product is below `least`, it is only an upper bound.
    """
    number = len(unit[0])
    found = np.empty(number * (number - 1) // 2)
    _fill_distances(*_side_by_side(unit), least, found)
    return found


def _side_by_side(unit: Directions) -> tuple[Floats, Ints]:
    """All modes in one matrix, and where each begins; the shortest first: pairs that differ there need no more work."""
    modes = sorted(unit, key=lambda unit_CD: unit_CD.shape[1])
    return np.concatenate(modes, axis=1), np.cumsum([0, *(unit_CD.shape[1] for unit_CD in modes)])


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
def _fill_similarities(ours_CR: Floats, first_M: Ints, theirs_CR: Floats, least: float, similarity_CC: Floats) -> None:
    sums = np.empty(8)
    for i in range(len(ours_CR)):
        for j in range(len(theirs_CR)):
            smallest = 1.0
            for mode in range(len(first_M) - 1):
                smallest = min(smallest, _cosine(ours_CR, i, theirs_CR, j, first_M[mode], first_M[mode + 1], sums))
                if smallest < least:
                    break
            similarity_CC[i, j] = smallest


@kernel
def _fill_distances(unit_CR: Floats, first_M: Ints, least: float, distance_P: Floats) -> None:
    sums, pair = np.empty(8), 0
    for i in range(len(unit_CR)):
        for j in range(i + 1, len(unit_CR)):
            product = 1.0
            for mode in range(len(first_M) - 1):
                product *= _cosine(unit_CR, i, unit_CR, j, first_M[mode], first_M[mode + 1], sums)
                if product < least:
                    break
            distance_P[pair] = max(0.0, 1.0 - product)
            pair += 1


@part
def _cosine(ours_CR: Floats, i: int, theirs_CR: Floats, j: int, first: int, end: int, sums: Floats) -> float:
    """The cosine of two classes in one mode.

    BLAS is faster on an idle machine, but its threads wait for one another: ten times slower while a run is going on.
    Eight sums at a time keep the processor busy without giving up a fixed order of summation.
    """
    whole = first + (end - first) // 8 * 8
    cosine = 0.0
    if whole > first:
        sums[:] = 0.0
        for row in range(first, whole, 8):
            for lane in range(8):
                sums[lane] += ours_CR[i, row + lane] * theirs_CR[j, row + lane]
        for lane in range(8):
            cosine += sums[lane]
    for row in range(whole, end):
        cosine += ours_CR[i, row] * theirs_CR[j, row]
    return cosine


def evenly_spaced(draws: int, most: int) -> Ints:
    """Return at most `most` of the draws: the middle of each of that many equal stretches."""
    number = min(most, draws)
    return (2 * np.arange(number) + 1) * draws // (2 * number)

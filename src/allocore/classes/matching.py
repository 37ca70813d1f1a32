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
from allocore.kernels.jit import kernel

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


def similarities(ours: Directions, theirs: Directions, least: float, *, multiply: bool = False) -> Floats:
    """Return the smallest cosine over the modes for each pair of classes; below `least` it is only an upper bound.

    With `multiply`, it is the product over the modes: the cosine of the classes as tensors.
    """
    cosine_CC = np.ones((len(ours[0]), len(theirs[0])))
    # The cheapest first: pairs that differ there need no more work.
    for mode in sorted(range(len(ours)), key=lambda mode: ours[mode].shape[1]):
        _lower(ours[mode], theirs[mode], least, multiply, cosine_CC)
    return cosine_CC


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
def _lower(ours_CD: Floats, theirs_CD: Floats, least: float, multiply: bool, similarity_CC: Floats) -> None:
    """Lower the similarities to the cosines of one mode, or multiply by them, for pairs still similar enough.

    BLAS is faster on an idle machine, but its threads wait for one another: ten times slower while a run is going on.
    Eight sums at a time keep the processor busy without giving up a fixed order of summation.
    """
    length = ours_CD.shape[1]
    whole = length - length % 8
    sums = np.empty(8)
    for i in range(similarity_CC.shape[0]):
        for j in range(similarity_CC.shape[1]):
            if similarity_CC[i, j] < least:
                continue
            sums[:] = 0.0
            for d in range(0, whole, 8):
                for lane in range(8):
                    sums[lane] += ours_CD[i, d + lane] * theirs_CD[j, d + lane]
            cosine = 0.0
            for lane in range(8):
                cosine += sums[lane]
            for d in range(whole, length):
                cosine += ours_CD[i, d] * theirs_CD[j, d]
            similarity_CC[i, j] = similarity_CC[i, j] * cosine if multiply else min(similarity_CC[i, j], cosine)


def evenly_spaced(draws: int, most: int) -> Ints:
    """Return at most `most` of the draws: the middle of each of that many equal stretches."""
    number = min(most, draws)
    return (2 * np.arange(number) + 1) * draws // (2 * number)

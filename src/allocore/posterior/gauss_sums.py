"""Sums of smooth functions over long ranges of whole numbers, without a visit to each.

Gauss's rule for the whole numbers 0, .., n - 1 has m nodes, between them, and sums polynomials of degree 2 m - 1
exactly; with m = n the nodes are the numbers themselves. Its nodes and weights come from the recurrence of the discrete
Chebyshev (Gram) polynomials,

    b_k = k^2 (n^2 - k^2) / (4 (4 k^2 - 1)),   k = 1, .., m - 1,   centre (n - 1) / 2,

by the eigenvalues of their tridiagonal matrix (Golub and Welsch 1969; Gautschi 2004, section 1.5). A range is halved
until the rule for it and the rules for its halves agree. Short ranges are summed number by number, so this always ends.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from allocore.kernels.arrays import Floats, Ints

# f(cells_P, points_PK): the values for P ranges, each of one cell, at K points.
Function: TypeAlias = Callable[[Ints, Floats], Floats]

NODES = 12
_RANGES_AT_ONCE = 512


def gauss_sums(function: Function, first_C: Ints, stop_C: Ints, tolerance: float) -> Floats:
    """The sums of f(cell, k) over first <= k < stop for every cell; the error of a part is relative to the whole."""
    cell_P = np.flatnonzero(stop_C > first_C)
    start_P, length_P = first_C[cell_P], (stop_C - first_C)[cell_P]
    sum_P = _by_rule(function, cell_P, start_P, length_P)
    total_C, size_C = np.zeros(len(first_C)), np.zeros(len(first_C))
    np.add.at(size_C, cell_P, np.abs(sum_P))
    while len(cell_P):
        half_P = length_P // 2
        halves = [
            _by_rule(function, cell_P, start_P, half_P),
            _by_rule(function, cell_P, start_P + half_P, length_P - half_P),
        ]
        done_P = (length_P <= NODES) | (np.abs(halves[0] + halves[1] - sum_P) <= tolerance * size_C[cell_P])
        np.add.at(total_C, cell_P[done_P], np.where(length_P <= NODES, sum_P, halves[0] + halves[1])[done_P])
        more = ~done_P
        sum_P = np.concatenate([each[more] for each in halves])
        start_P = np.concatenate([start_P[more], (start_P + half_P)[more]])
        length_P = np.concatenate([half_P[more], (length_P - half_P)[more]])
        cell_P = np.tile(cell_P[more], 2)
    return total_C


def _by_rule(function: Function, cell_P: Ints, start_P: Ints, length_P: Ints) -> Floats:
    """The sums over ranges of one number or more, each by a single rule; those of none are 0."""
    sum_P = np.zeros(len(cell_P))
    for begin in range(0, len(cell_P), _RANGES_AT_ONCE):
        cut = slice(begin, begin + _RANGES_AT_ONCE)
        rules = [gauss_rule(length) for length in length_P[cut].tolist()]
        nodes_PK, weights_PK = (np.array(each) for each in zip(*rules, strict=True))
        values_PK = function(cell_P[cut], start_P[cut, None] + nodes_PK)
        sum_P[cut] = (weights_PK * values_PK).sum(axis=1)
    return sum_P


@lru_cache(maxsize=4096)
def gauss_rule(length: int) -> tuple[Floats, Floats]:
    """Nodes and weights for the sum over 0, .., length - 1. Where there are fewer numbers than nodes, some weigh 0."""
    if length <= NODES:
        return np.minimum(np.arange(NODES), max(length - 1, 0)).astype(float), (np.arange(NODES) < length).astype(float)
    k = np.arange(1.0, NODES)
    beside = np.sqrt(k**2 * (1.0 - (k / length) ** 2) / (4.0 * (4.0 * k**2 - 1.0)))
    places, vectors = np.linalg.eigh(np.diag(beside, 1) + np.diag(beside, -1))
    return (length - 1.0) / 2.0 + length * places, length * vectors[0] ** 2

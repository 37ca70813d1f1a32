"""Exposure: how many counts row d would expect from class q, were its factor entry and its core value 1.

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

Kept without lambda ("reach", `reach_DQ`), which may be too small for a float; the steps multiply it in.
Missing cells are patterns; the wildcard modes of a pattern factorise into column sums, so a pattern costs Q
multiplications for each mode it names however many cells it holds; patterns with the same wildcards come together and
share the product of their column sums. Patterns that overlap come with signed weights that count each cell once.
The reach in mode m does not depend on the locations or factors of mode m. Cost: (D_m + patterns * M) * Q.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.layout import Ints, Layout
from allocore.kernels.expansion import Rows
from allocore.kernels.jit import inlined, kernel, part

_WORTH_A_THREAD = 500_000  # multiplications: below that a thread costs more than it saves
_CHUNK = 1024  # patterns that are summed up together, so that the sum does not depend on the threads
_Floats = NDArray[np.float64]


class _Patterns(NamedTuple):
    """What the kernels read of the patterns and the rows."""

    patterns_PM: Ints
    weights_P: _Floats
    wildcards_P: Ints
    offsets_M: Ints
    phi_RQ: _Floats
    sums_MQ: _Floats


def reach(layout: Layout, rows: Rows, mode: int) -> NDArray[np.float64]:
    """X / lambda of one mode as `reach_DQ`."""
    index = layout.indices[mode]
    patterns = _Patterns(
        layout.patterns_PM, layout.weights_P, layout.wildcards_P, layout.offsets_M, rows.phi_RQ, rows.sums_MQ
    )
    everywhere_P, nothing_Q = index.everywhere_P, np.zeros(rows.phi_RQ.shape[1])
    chunks = np.append(np.arange(0, len(everywhere_P), _CHUNK), len(everywhere_P))
    less_CQ = _less_missing(layout, nothing_Q, mode, everywhere_P, chunks, patterns)
    observed_Q = np.prod(np.delete(rows.sums_MQ, mode, axis=0), axis=0) + less_CQ.sum(axis=0)
    reach_DQ = _less_missing(layout, observed_Q, mode, index.by_row_P, index.starts_D, patterns)
    # Where every cell of a row is missing the difference may round to a hair below zero.
    return np.maximum(reach_DQ, 0.0, out=reach_DQ)


def _less_missing(
    layout: Layout, whole_Q: _Floats, mode: int, chosen_P: Ints, starts_G: Ints, patterns: _Patterns
) -> _Floats:
    """`whole_Q` less what the patterns of each group, chosen_P[starts_G[g] : starts_G[g + 1]], take from it."""
    less_GQ = np.empty((len(starts_G) - 1, len(whole_Q)))
    cuts = layout.workers.ranges_of_equal_work(1.0 + np.diff(starts_G), _WORTH_A_THREAD / len(whole_Q))
    layout.workers.run([partial(_subtract, *cut, whole_Q, mode, chosen_P, starts_G, patterns, less_GQ) for cut in cuts])
    return less_GQ


@kernel
def _subtract(
    first: int, last: int, whole_Q: _Floats, mode: int, chosen_P: Ints, starts_G: Ints, patterns: _Patterns,
    less_GQ: _Floats,
) -> None:  # fmt: skip
    """`_less_missing` for groups `first` to `last`.

    A pattern takes weight * prod over the other modes of (the row it names, or the column sum). Those of a group with
    the same wildcards are summed up first.
    """
    patterns_PM, weights_P, wildcards_P, offsets_M, phi_RQ, sums_MQ = patterns
    sum_Q, product_Q = np.empty(whole_Q.size), np.empty(whole_Q.size)
    rows_M = np.zeros(sums_MQ.shape[0], dtype=np.int64)
    for group in range(first, last):
        for q in range(whole_Q.size):
            less_GQ[group, q] = whole_Q[q]
        i, stop = starts_G[group], starts_G[group + 1]
        while i < stop:
            wildcards = wildcards_P[chosen_P[i]]
            for q in range(whole_Q.size):
                sum_Q[q] = 0.0
            while i < stop and wildcards_P[chosen_P[i]] == wildcards:
                p = chosen_P[i]
                named = _named_rows(p, mode, patterns_PM, offsets_M, rows_M)
                _add_product(weights_P[p], rows_M, named, phi_RQ, product_Q, sum_Q)
                i += 1
            _multiply_sums(mode, wildcards, sums_MQ, sum_Q)
            for q in range(whole_Q.size):
                less_GQ[group, q] -= sum_Q[q]


@inlined
def _named_rows(p: int, mode: int, patterns_PM: Ints, offsets_M: Ints, rows_M: Ints) -> int:
    """Note the rows that a pattern names in the other modes; returns how many."""
    named = 0
    for m in range(rows_M.size):
        if m != mode and patterns_PM[p, m] >= 0:
            rows_M[named] = offsets_M[m] + patterns_PM[p, m]
            named += 1
    return named


@part
def _add_product(weight: float, rows_M: Ints, named: int, phi_RQ: _Floats, product_Q: _Floats, sum_Q: _Floats) -> None:
    """Add weight * prod of the first `named` rows to `sum_Q`, in as few loops as can be."""
    first, second = rows_M[0], rows_M[min(1, rows_M.size - 1)]
    if named < 2:
        for q in range(sum_Q.size):
            sum_Q[q] += weight * phi_RQ[first, q] if named == 1 else weight
        return
    if named == 2:
        for q in range(sum_Q.size):
            sum_Q[q] += weight * phi_RQ[first, q] * phi_RQ[second, q]
        return
    for q in range(sum_Q.size):
        product_Q[q] = weight * phi_RQ[first, q] * phi_RQ[second, q]
    for i in range(2, named):
        row = rows_M[i]
        for q in range(sum_Q.size):
            product_Q[q] *= phi_RQ[row, q]
    for q in range(sum_Q.size):
        sum_Q[q] += product_Q[q]


@inlined
def _multiply_sums(mode: int, wildcards: int, sums_MQ: _Floats, sum_Q: _Floats) -> None:
    for m in range(sums_MQ.shape[0]):
        if m != mode and (wildcards >> m) & 1:
            for q in range(sum_Q.size):
                sum_Q[q] *= sums_MQ[m, q]

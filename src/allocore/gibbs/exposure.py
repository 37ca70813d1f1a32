"""Exposure: how many counts row d would expect from class q, were its factor entry and its core value 1.

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

Kept without lambda ("reach", `reach_DQ`), which may be too small for a float; the steps multiply it in.
Missing cells are patterns; the wildcard modes of a pattern factorise into column sums, so a pattern costs Q
multiplications for each mode it names however many cells it holds; patterns with the same wildcards come together and
share the product of their column sums. Patterns that overlap come with signed weights that count each cell once.
The reach in mode m does not depend on the locations or factors of mode m. Cost: (D_m + patterns * M) * Q.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore._jit import inlined, kernel, part
from allocore.gibbs.layout import Ints, Layout
from allocore.gibbs.rows import Rows

_WORTH_A_THREAD = 500_000  # multiplications: below that a thread costs more than it saves
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
    index, workers, budget = layout.indices[mode], layout.workers, rows.phi_RQ.shape[1]
    patterns = _Patterns(
        layout.patterns_PM, layout.weights_P, layout.wildcards_P, layout.offsets_M, rows.phi_RQ, rows.sums_MQ
    )
    missing_Q, scratch_Q, more_scratch_Q = np.zeros((3, budget))
    everywhere = partial(_add_missing, mode, index.everywhere_P, 0, len(index.everywhere_P), patterns)
    classes = workers.ranges(budget, max(16, _WORTH_A_THREAD // (1 + len(index.everywhere_P))))
    workers.run([partial(everywhere, *cut, scratch_Q, more_scratch_Q, missing_Q) for cut in classes])
    observed_Q = np.prod(np.delete(rows.sums_MQ, mode, axis=0), axis=0) - missing_Q
    reach_DQ = np.empty((layout.shape[mode], budget))
    by_row = workers.ranges_of_equal_work(1.0 + np.diff(index.starts_D), _WORTH_A_THREAD / budget)
    workers.run(
        [
            partial(_reach_rows, *cut, mode, index.by_row_P, index.starts_D, patterns, observed_Q, reach_DQ)
            for cut in by_row
        ]
    )
    return reach_DQ


@kernel
def _reach_rows(
    first: int, last: int, mode: int, by_row_P: Ints, starts_D: Ints, patterns: _Patterns, observed_Q: _Floats,
    reach_DQ: _Floats,
) -> None:  # fmt: skip
    budget = observed_Q.size
    missing_Q, sum_Q, product_Q = np.empty(budget), np.empty(budget), np.empty(budget)
    for d in range(first, last):
        for q in range(budget):
            missing_Q[q] = 0.0
        if starts_D[d] < starts_D[d + 1]:
            _add_missing(mode, by_row_P, starts_D[d], starts_D[d + 1], patterns, 0, budget, sum_Q, product_Q, missing_Q)
        for q in range(budget):
            # Where every cell of a row is missing the difference may round to a hair below zero.
            reach_DQ[d, q] = max(0.0, observed_Q[q] - missing_Q[q])


@kernel
def _add_missing(
    mode: int, chosen_P: Ints, start: int, stop: int, patterns: _Patterns, first: int, last: int, sum_Q: _Floats,
    product_Q: _Floats, missing_Q: _Floats,
) -> None:  # fmt: skip
    """Add weight * prod over the other modes of (the row a pattern names, or the column sum) to `missing_Q`.

    For patterns chosen_P[start:stop] and classes `first` to `last`; those with the same wildcards are summed up first.
    """
    patterns_PM, weights_P, wildcards_P, offsets_M, phi_RQ, sums_MQ = patterns
    low, high = np.uint64(first), np.uint64(last)  # numba's loops over indices that may be negative are not vectorised
    rows_M = np.zeros(sums_MQ.shape[0], dtype=np.int64)
    i = start
    while i < stop:
        wildcards = wildcards_P[chosen_P[i]]
        for q in range(low, high):
            sum_Q[q] = 0.0
        while i < stop and wildcards_P[chosen_P[i]] == wildcards:
            p, named = chosen_P[i], 0
            for m in range(sums_MQ.shape[0]):
                if m != mode and patterns_PM[p, m] >= 0:
                    rows_M[named] = offsets_M[m] + patterns_PM[p, m]
                    named += 1
            _add_product(weights_P[p], rows_M, named, phi_RQ, low, high, product_Q, sum_Q)
            i += 1
        _multiply_sums(mode, wildcards, sums_MQ, low, high, sum_Q)
        for q in range(low, high):
            missing_Q[q] += sum_Q[q]


@part
def _add_product(
    weight: float, rows_M: Ints, named: int, phi_RQ: _Floats, low: Any, high: Any, product_Q: _Floats, sum_Q: _Floats
) -> None:
    """Add weight * prod of the first `named` rows to `sum_Q`, in as few loops as can be."""
    if named < 2:
        row = rows_M[0]
        for q in range(low, high):
            sum_Q[q] += weight * phi_RQ[row, q] if named == 1 else weight
        return
    first, second = rows_M[0], rows_M[1]
    if named == 2:
        for q in range(low, high):
            sum_Q[q] += weight * phi_RQ[first, q] * phi_RQ[second, q]
        return
    for q in range(low, high):
        product_Q[q] = weight * phi_RQ[first, q] * phi_RQ[second, q]
    for i in range(2, named):
        row = rows_M[i]
        for q in range(low, high):
            product_Q[q] *= phi_RQ[row, q]
    for q in range(low, high):
        sum_Q[q] += product_Q[q]


@inlined
def _multiply_sums(mode: int, wildcards: int, sums_MQ: _Floats, low: Any, high: Any, sum_Q: _Floats) -> None:
    for m in range(sums_MQ.shape[0]):
        if m != mode and (wildcards >> m) & 1:
            for q in range(low, high):
                sum_Q[q] *= sums_MQ[m, q]

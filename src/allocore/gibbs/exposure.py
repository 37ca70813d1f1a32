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

from allocore._jit import kernel
from allocore.gibbs.layout import Ints, Layout
from allocore.gibbs.rows import Rows

_WORTH_A_THREAD = 50_000  # multiplications: below that a thread costs more than it saves
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
    budget = rows.phi_RQ.shape[1]
    observed_Q, reach_DQ = np.empty(budget), np.empty((layout.shape[mode], budget))
    worth = _WORTH_A_THREAD / budget
    everywhere = layout.workers.ranges(budget, max(16, int(_WORTH_A_THREAD / (1 + len(index.everywhere_P)))))
    by_row = layout.workers.ranges_of_equal_work(1.0 + np.diff(index.starts_D), worth)
    layout.workers.run(
        [
            partial(_reach_everywhere, first, last, mode, index.everywhere_P, patterns, observed_Q)
            for first, last in everywhere
        ]
    )
    layout.workers.run(
        [
            partial(_reach_rows, first, last, mode, index.by_row_P, index.starts_D, patterns, observed_Q, reach_DQ)
            for first, last in by_row
        ]
    )
    return reach_DQ


@kernel
def _reach_everywhere(
    first: int, last: int, mode: int, everywhere_P: Ints, patterns: _Patterns, observed_Q: _Floats
) -> None:
    """The reach of rows that no pattern names, for classes `first` to `last`."""
    missing_Q, sum_Q, product_Q = np.zeros(last), np.empty(last), np.empty(last)
    _add_missing(first, last, mode, everywhere_P, 0, everywhere_P.size, patterns, sum_Q, product_Q, missing_Q)
    sums_MQ = patterns.sums_MQ
    for q in range(first, last):
        observed_Q[q] = 1.0
        for m in range(sums_MQ.shape[0]):
            if m != mode:
                observed_Q[q] *= sums_MQ[m, q]
        observed_Q[q] -= missing_Q[q]


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
            _add_missing(0, budget, mode, by_row_P, starts_D[d], starts_D[d + 1], patterns, sum_Q, product_Q, missing_Q)
        for q in range(budget):
            # Where every cell of a row is missing the difference may round to a hair below zero.
            reach_DQ[d, q] = max(0.0, observed_Q[q] - missing_Q[q])


@kernel
def _add_missing(
    first: int, last: int, mode: int, chosen_P: Ints, start: int, stop: int, patterns: _Patterns, sum_Q: _Floats,
    product_Q: _Floats, missing_Q: _Floats,
) -> None:  # fmt: skip
    """Add weight * prod over the other modes of (the row a pattern names, or the column sum) to `missing_Q`.

    For classes `first` to `last` and patterns chosen_P[start:stop]; those with the same wildcards are summed up first.
    """
    patterns_PM, weights_P, wildcards_P, offsets_M, phi_RQ, sums_MQ = patterns
    modes = offsets_M.size - 1
    low, high = np.uint64(first), np.uint64(last)  # numba's loops over indices that may be negative are not vectorised
    i = start
    while i < stop:
        wildcards = wildcards_P[chosen_P[i]]
        for q in range(low, high):
            sum_Q[q] = 0.0
        while i < stop and wildcards_P[chosen_P[i]] == wildcards:
            p = chosen_P[i]
            named = 0
            for q in range(low, high):
                product_Q[q] = weights_P[p]
            for m in range(modes):
                if m != mode and patterns_PM[p, m] >= 0:
                    row = offsets_M[m] + patterns_PM[p, m]
                    named += 1
                    if named % 2 == 1:
                        other = row
                    else:
                        for q in range(low, high):
                            product_Q[q] *= phi_RQ[other, q] * phi_RQ[row, q]
            if named % 2 == 1:
                for q in range(low, high):
                    sum_Q[q] += product_Q[q] * phi_RQ[other, q]
            else:
                for q in range(low, high):
                    sum_Q[q] += product_Q[q]
            i += 1
        for m in range(modes):
            if m != mode and (wildcards >> m) & 1:
                for q in range(low, high):
                    sum_Q[q] *= sums_MQ[m, q]
        for q in range(low, high):
            missing_Q[q] += sum_Q[q]

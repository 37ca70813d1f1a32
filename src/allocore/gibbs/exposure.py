"""Exposure: how many counts row d would expect from class q, were its factor entry and its core value 1.

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

Kept without lambda ("reach", `reach_DQ`), which may be too small for a float; the steps multiply it in.
Missing cells are patterns; the wildcard modes of a pattern factorise into column sums, so a pattern costs M * Q
multiplications however many cells it holds. Patterns that overlap come with signed weights that count each cell once.
The reach in mode m does not depend on the locations or factors of mode m. Cost: (D_m + patterns * M) * Q.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocore._jit import kernel
from allocore.gibbs.layout import Ints, Layout
from allocore.gibbs.rows import Rows

_ROWS_PER_THREAD = 64
_Floats = NDArray[np.float64]


def reach(layout: Layout, rows: Rows, mode: int) -> NDArray[np.float64]:
    """X / lambda of one mode as `reach_DQ`."""
    index = layout.indices[mode]
    complete_Q = np.prod(np.delete(rows.sums_MQ, mode, axis=0), axis=0)
    missing_Q = np.zeros_like(complete_Q)
    for p in index.everywhere_P:
        _add_pattern(
            p, mode, layout.patterns_PM, layout.weights_P, layout.offsets_M, rows.phi_RQ, rows.sums_MQ, missing_Q
        )
    observed_Q = complete_Q - missing_Q
    reach_DQ = np.empty((layout.shape[mode], len(observed_Q)))
    at_least = 1 if len(index.by_row_P) > len(reach_DQ) else _ROWS_PER_THREAD
    layout.workers.run(
        [
            partial(
                _expose_rows, first, last, mode, layout.patterns_PM, layout.weights_P, index.by_row_P, index.starts_D,
                layout.offsets_M, rows.phi_RQ, rows.sums_MQ, observed_Q, reach_DQ,
            )
            for first, last in layout.workers.ranges(len(reach_DQ), at_least)
        ]
    )  # fmt: skip
    return reach_DQ


@kernel
def _expose_rows(
    first: int, last: int, mode: int, patterns_PM: Ints, weights_P: _Floats, by_row_P: Ints, starts_D: Ints,
    offsets_M: Ints, phi_RQ: _Floats, sums_MQ: _Floats, observed_Q: _Floats, reach_DQ: _Floats,
) -> None:  # fmt: skip
    missing_Q = np.empty(observed_Q.size)
    for d in range(first, last):
        missing_Q[:] = 0.0
        for i in range(starts_D[d], starts_D[d + 1]):
            _add_pattern(by_row_P[i], mode, patterns_PM, weights_P, offsets_M, phi_RQ, sums_MQ, missing_Q)
        for q in range(observed_Q.size):
            # Where every cell of a row is missing the difference may round to a hair below zero.
            reach_DQ[d, q] = max(0.0, observed_Q[q] - missing_Q[q])


@kernel
def _add_pattern(
    p: int, mode: int, patterns_PM: Ints, weights_P: _Floats, offsets_M: Ints, phi_RQ: _Floats, sums_MQ: _Floats,
    total_Q: _Floats,
) -> None:  # fmt: skip
    """Add weight * prod over the other modes of (the row the pattern names, or the column sum) to `total_Q`."""
    product_Q = np.full(total_Q.size, weights_P[p])
    for m in range(sums_MQ.shape[0]):
        if m == mode:
            continue
        d = patterns_PM[p, m]
        if d < 0:
            for q in range(total_Q.size):
                product_Q[q] *= sums_MQ[m, q]
        else:
            r = offsets_M[m] + d
            for q in range(total_Q.size):
                product_Q[q] *= phi_RQ[r, q]
    for q in range(total_Q.size):
        total_Q[q] += product_Q[q]

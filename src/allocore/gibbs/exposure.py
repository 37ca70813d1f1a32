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
    patterns = layout.patterns_PM, layout.weights_P, layout.offsets_M, rows.phi_RQ, rows.sums_MQ
    missing_Q = np.zeros(rows.phi_RQ.shape[1])
    _add_patterns(index.everywhere_P, mode, *patterns, np.empty_like(missing_Q), missing_Q)
    observed_Q = np.prod(np.delete(rows.sums_MQ, mode, axis=0), axis=0) - missing_Q
    reach_DQ = np.empty((layout.shape[mode], len(observed_Q)))
    at_least = 1 if len(index.by_row_P) > len(reach_DQ) else _ROWS_PER_THREAD
    layout.workers.run(
        [
            partial(_reach_rows, first, last, mode, index.by_row_P, index.starts_D, *patterns, observed_Q, reach_DQ)
            for first, last in layout.workers.ranges(len(reach_DQ), at_least)
        ]
    )
    return reach_DQ


@kernel
def _reach_rows(
    first: int, last: int, mode: int, by_row_P: Ints, starts_D: Ints, patterns_PM: Ints, weights_P: _Floats,
    offsets_M: Ints, phi_RQ: _Floats, sums_MQ: _Floats, observed_Q: _Floats, reach_DQ: _Floats,
) -> None:  # fmt: skip
    missing_Q, product_Q = np.empty(observed_Q.size), np.empty(observed_Q.size)
    for d in range(first, last):
        for q in range(missing_Q.size):
            missing_Q[q] = 0.0
        named_P = by_row_P[starts_D[d] : starts_D[d + 1]]
        _add_patterns(named_P, mode, patterns_PM, weights_P, offsets_M, phi_RQ, sums_MQ, product_Q, missing_Q)
        for q in range(observed_Q.size):
            # Where every cell of a row is missing the difference may round to a hair below zero.
            reach_DQ[d, q] = max(0.0, observed_Q[q] - missing_Q[q])


@kernel
def _add_patterns(
    chosen_P: Ints, mode: int, patterns_PM: Ints, weights_P: _Floats, offsets_M: Ints, phi_RQ: _Floats,
    sums_MQ: _Floats, product_Q: _Floats, total_Q: _Floats,
) -> None:  # fmt: skip
    """Add weight * prod over the other modes of (the row a pattern names, or the column sum) to `total_Q`."""
    for p in chosen_P:
        for q in range(total_Q.size):
            product_Q[q] = weights_P[p]
        for m in range(sums_MQ.shape[0]):
            d = patterns_PM[p, m]
            if m == mode:
                continue
            if d < 0:
                for q in range(total_Q.size):
                    product_Q[q] *= sums_MQ[m, q]
            else:
                row = offsets_M[m] + d
                for q in range(total_Q.size):
                    product_Q[q] *= phi_RQ[row, q]
        for q in range(total_Q.size):
            total_Q[q] += product_Q[q]

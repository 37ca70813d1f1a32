"""Rates of cells under the values of one draw:

    rate = sum_q lambda_q prod_m phi[m][d_m, k[q, m]].

Cells that are neighbours in a fibre share the product over all modes but the last. Cost: cells * Q multiplications if
fibres are long, and up to M times that.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.expansion import expand_factors, row_offsets
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers

_CELLS_PER_THREAD = 4096


def rates_of_cells(
    core_Q: Floats, subs_QM: Ints, factors: Sequence[Floats], coords_MN: Ints, workers: Workers
) -> Floats:
    """The rate of each cell in `coords_MN`, given core values, locations, and the factors (D, K) of all modes."""
    offsets_M = row_offsets([len(phi_DK) for phi_DK in factors])
    rows_MN = np.ascontiguousarray(coords_MN + offsets_M[:-1, None])
    phi_RQ, rates_N = expand_factors(factors, subs_QM), np.empty(coords_MN.shape[1])
    cuts = workers.ranges(rates_N.size, _CELLS_PER_THREAD)
    workers.run([partial(_fill_rates, *cut, rows_MN, phi_RQ, core_Q, rates_N) for cut in cuts])
    return rates_N


@kernel
def _fill_rates(first: int, last: int, rows_MN: Ints, phi_RQ: Floats, core_Q: Floats, rates_N: Floats) -> None:
    shared_Q = np.empty(core_Q.size)
    final = rows_MN.shape[0] - 1
    for n in range(first, last):
        same = n > first
        for m in range(final):
            same = same and rows_MN[m, n] == rows_MN[m, n - 1]
        if not same:
            for q in range(core_Q.size):
                shared_Q[q] = core_Q[q]
                for m in range(final):
                    shared_Q[q] *= phi_RQ[rows_MN[m, n], q]
        rate = 0.0
        for q in range(core_Q.size):
            rate += shared_Q[q] * phi_RQ[rows_MN[final, n], q]
        rates_N[n] = rate

"""Rates of cells under the values of one draw:

    rate = sum_q lambda_q prod_m phi[m][d_m, k[q, m]].

Consecutive cells share the products over the first modes in which they agree, so sorted cells are quick. Cost: cells *
Q multiplications if fibres are long, at most M times that. The sum over q has four partial sums, so that it
vectorises, in one fixed order.
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
    """The rate of each cell in `coords_MN`, given core values, locations and the factors (D, K) of all modes."""
    offsets_M = row_offsets([len(phi_DK) for phi_DK in factors])
    rows_MN = np.ascontiguousarray(coords_MN + offsets_M[:-1, None])
    phi_RQ, rates_N = expand_factors(factors, subs_QM), np.empty(coords_MN.shape[1])
    cuts = workers.ranges(rates_N.size, _CELLS_PER_THREAD)
    workers.run([partial(_fill_rates, *cut, rows_MN, phi_RQ, core_Q, rates_N) for cut in cuts])
    return rates_N


@kernel
def _fill_rates(first: int, last: int, rows_MN: Ints, phi_RQ: Floats, core_Q: Floats, rates_N: Floats) -> None:
    final, width = rows_MN.shape[0] - 1, core_Q.size
    whole = width - width % 4
    # Row m: the core times the factors of the modes before m.
    products_MQ = np.empty((final + 1, width))
    for q in range(width):
        products_MQ[0, q] = core_Q[q]
    for n in range(first, last):
        m = 0
        while n > first and m < final and rows_MN[m, n] == rows_MN[m, n - 1]:
            m += 1
        while m < final:
            row = rows_MN[m, n]
            for q in range(width):
                products_MQ[m + 1, q] = products_MQ[m, q] * phi_RQ[row, q]
            m += 1
        row = rows_MN[final, n]
        sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
        for q in range(0, whole, 4):
            sum_0 += products_MQ[final, q] * phi_RQ[row, q]
            sum_1 += products_MQ[final, q + 1] * phi_RQ[row, q + 1]
            sum_2 += products_MQ[final, q + 2] * phi_RQ[row, q + 2]
            sum_3 += products_MQ[final, q + 3] * phi_RQ[row, q + 3]
        for q in range(whole, width):
            sum_0 += products_MQ[final, q] * phi_RQ[row, q]
        rates_N[n] = (sum_0 + sum_1) + (sum_2 + sum_3)

"""Rates of cells under the values of one draw:

    rate = sum_q lambda_q prod_m phi[m][d_m, k[q, m]].

Consecutive cells share the products over the first modes in which they agree, so sorted cells are quick. Cost: cells *
Q multiplications if fibres are long, at most M times that. The sum over q has one fixed order (dot_product.py).
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.dot_product import dot_of_rows
from allocore.kernels.expansion import expand_factors, row_offsets
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers

_CELLS_PER_THREAD = 4096


def rates_of_cells(
    core_Q: Floats, subs_QM: Ints, factors: Sequence[Floats], coords_MN: Ints, workers: Workers
) -> Floats:
    """The rate of each cell in `coords_MN`, given core values, locations and the factors (D, K) of all modes."""
    rows_MN = rows_of_cells([len(phi_DK) for phi_DK in factors], coords_MN)
    return rates_at_rows(core_Q, subs_QM, factors, rows_MN, workers)


def rows_of_cells(shape: Sequence[int], coords_MN: Ints) -> Ints:
    """The rows of cells in a table over all rows of all modes: what many draws have in common."""
    return np.ascontiguousarray(coords_MN + row_offsets(shape)[:-1, None])


def rates_at_rows(core_Q: Floats, subs_QM: Ints, factors: Sequence[Floats], rows_MN: Ints, workers: Workers) -> Floats:
    """The rates of cells that are given by their rows."""
    phi_RQ, rates_N = expand_factors(factors, subs_QM), np.empty(rows_MN.shape[1])
    core_Q = core_Q.copy()  # a draw is read-only, and numba would compile a kernel of its own for that
    cuts = workers.ranges(rates_N.size, _CELLS_PER_THREAD)
    workers.run([partial(_fill_rates, *cut, rows_MN, phi_RQ, core_Q, rates_N) for cut in cuts])
    return rates_N


@kernel
def _fill_rates(first: int, last: int, rows_MN: Ints, phi_RQ: Floats, core_Q: Floats, rates_N: Floats) -> None:
    final, width = rows_MN.shape[0] - 1, core_Q.size
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
        rates_N[n] = dot_of_rows(products_MQ, final, phi_RQ, rows_MN[final, n])

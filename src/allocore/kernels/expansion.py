"""Factors expanded to the classes: a row of Q numbers for every label of every mode,

    E[d, q] = phi[m][d, k[q, m]].

The rows of all modes stand one below the other in one table, `phi_RQ`. Kernels that visit cells or patterns then read
rows of consecutive numbers instead of gathering them by location. Cost: rows * Q numbers.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints, Singles
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers

ROWS_PER_THREAD = 64


def row_offsets(shape: Sequence[int]) -> Ints:
    """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
    return np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)


def expand_factors(factors: Sequence[Floats], subs_QM: Ints) -> Floats:
    """The factors (D, K) of all modes, expanded to `phi_RQ` for classes at the locations `subs_QM`."""
    rows = np.empty((sum(map(len, factors)), len(subs_QM)))
    offsets_M = row_offsets([len(phi_DK) for phi_DK in factors])
    for mode, phi_DK in enumerate(factors):
        np.take(phi_DK, subs_QM[:, mode], axis=1, out=rows[offsets_M[mode] : offsets_M[mode + 1]])
    return rows


def expand_logs(workers: Workers, log_phi_DK: Floats, subs_Q: Ints, phi_DQ: Floats) -> None:
    """Fill `phi_DQ` with the factors of one mode, given as logarithms, expanded for classes at `subs_Q`."""
    used_U = np.unique(subs_Q)
    cuts = workers.ranges(len(phi_DQ), ROWS_PER_THREAD)
    workers.run([partial(_expand_logs, *cut, log_phi_DK, subs_Q, used_U, phi_DQ) for cut in cuts])


@kernel
def _expand_logs(first: int, last: int, log_phi_DK: Floats, subs_Q: Ints, used_U: Ints, phi_DQ: Floats) -> None:
    phi_K = np.empty(log_phi_DK.shape[1])
    for d in range(first, last):
        for i in range(used_U.size):
            phi_K[used_U[i]] = np.exp(log_phi_DK[d, used_U[i]])
        for q in range(subs_Q.size):
            phi_DQ[d, q] = phi_K[subs_Q[q]]


@kernel
def scale_rows(
    first: int, last: int, phi_DQ: Floats, weights_Q: Floats, scaled_DL: Singles, log_scale_D: Floats
) -> None:
    """Fill rows `first` to `last` of `scaled_DL` with the rows times the weights, each divided by its largest number.

    `log_scale_D` gets the logarithms of these numbers. The padding of the scaled rows is left alone.
    """
    for d in range(first, last):
        top = 0.0
        for q in range(weights_Q.size):
            top = max(top, phi_DQ[d, q] * weights_Q[q])
        # A row that underflows altogether stays zero: its cells have no weight here and are thinned in logarithms.
        top = top if top > 1e-290 else 1.0
        log_scale_D[d] = np.log(top)
        for q in range(weights_Q.size):
            scaled_DL[d, q] = phi_DQ[d, q] * weights_Q[q] / top

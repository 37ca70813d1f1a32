"""Factors expanded to the classes: a row of Q numbers for every label of every mode,

    E[d, q] = phi[m][d, k[q, m]].

One table, `phi_RQ`, holds the rows of all modes, stacked. Kernels that visit cells or patterns then read consecutive
numbers and need not gather them by location. Cost: rows * Q numbers.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints, Singles
from allocore.kernels.elementary import lane_exp
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers

ROWS_PER_THREAD = 64


def row_offsets(shape: Sequence[int]) -> Ints:
    """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
    return np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)


def expand_factors(factors: Sequence[Floats], subs_QM: Ints) -> Floats:
    """Expand the factors (D, K) of all modes to `phi_RQ`, for classes at the locations `subs_QM`."""
    rows = np.empty((sum(map(len, factors)), len(subs_QM)))
    offsets_M = row_offsets([len(phi_DK) for phi_DK in factors])
    for mode, phi_DK in enumerate(factors):
        np.take(phi_DK, subs_QM[:, mode], axis=1, out=rows[offsets_M[mode] : offsets_M[mode + 1]])
    return rows


def expand_logs(workers: Workers, log_phi_DK: Floats, subs_Q: Ints, phi_DQ: Floats) -> None:
    """Expand the factors of one mode, given as logarithms, into `phi_DQ`, for classes at `subs_Q`."""
    used_K = np.bincount(subs_Q, minlength=log_phi_DK.shape[1]) > 0
    used_U, place_Q = np.flatnonzero(used_K), (np.cumsum(used_K) - 1)[subs_Q]
    cuts = workers.ranges(len(phi_DQ), ROWS_PER_THREAD)
    workers.run([partial(_expand_logs, *cut, log_phi_DK, used_U, place_Q, phi_DQ) for cut in cuts])


@kernel
def _expand_logs(first: int, last: int, log_phi_DK: Floats, used_U: Ints, place_Q: Ints, phi_DQ: Floats) -> None:
    phi_U = np.empty(used_U.size)
    for d in range(first, last):
        for u in range(used_U.size):
            phi_U[u] = lane_exp(log_phi_DK[d, used_U[u]])
        for q in range(place_Q.size):
            phi_DQ[d, q] = phi_U[place_Q[q]]


@kernel
def scale_rows(
    first: int, last: int, phi_DQ: Floats, weights_Q: Floats, scaled_DL: Singles, log_scale_D: Floats
) -> None:
    """Fill rows `first` to `last` of `scaled_DL`: each row times the weights, divided by its largest number.

    `log_scale_D` gets the logarithms of the largest numbers. The padding of the scaled rows is not touched.
    """
    for d in range(first, last):
        top = 0.0
        for q in range(weights_Q.size):
            top = max(top, phi_DQ[d, q] * weights_Q[q])
        # A row that underflows as a whole stays zero: its cells have no weight here and are thinned in logarithms.
        top = top if top > 1e-290 else 1.0
        log_scale_D[d] = np.log(top)
        for q in range(weights_Q.size):
            scaled_DL[d, q] = phi_DQ[d, q] * weights_Q[q] / top

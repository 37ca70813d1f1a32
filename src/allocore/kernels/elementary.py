"""exp and log of arrays with the same bytes on every block of CPU features.

On processors with 512-bit vectors NumPy has an exp and a log of its own; elsewhere it calls the C library, and the last
bits differ. A kernel calls the C library everywhere. So whatever decides a draw, or is kept with one, takes exp and log
from here or computes them in a kernel (tests/kernels/test_elementary.py). Cost: some 5 ns a number.
"""

import numpy as np
from numpy.typing import ArrayLike

from allocore.kernels.arrays import Floats
from allocore.kernels.jit import kernel


def exp_of(numbers: ArrayLike) -> Floats:
    """e^x of every number."""
    given = np.asarray(numbers, dtype=np.float64, order="C")
    out = np.empty_like(given)
    _exp(given.reshape(-1), out.reshape(-1))
    return out


def log_of(numbers: ArrayLike) -> Floats:
    """The logarithm of every number; minus infinity for zeros."""
    given = np.asarray(numbers, dtype=np.float64, order="C")
    out = np.empty_like(given)
    _log(given.reshape(-1), out.reshape(-1))
    return out


def log_sums(logs_NQ: Floats) -> Floats:
    """The logarithm of the sum of e^x over every row (N)."""
    sums_N = np.empty(len(logs_NQ))
    _log_sums(logs_NQ, sums_N)
    return sums_N


@kernel
def _exp(given: Floats, out: Floats) -> None:
    for i in range(out.size):
        out[i] = np.exp(given[i])


@kernel
def _log(given: Floats, out: Floats) -> None:
    for i in range(out.size):
        out[i] = np.log(given[i]) if given[i] != 0.0 else -np.inf


@kernel
def _log_sums(logs_NQ: Floats, sums_N: Floats) -> None:
    for n in range(sums_N.size):
        top, total = logs_NQ[n, 0], 0.0
        for q in range(1, logs_NQ.shape[1]):
            top = max(top, logs_NQ[n, q])
        if top == -np.inf:
            sums_N[n] = top
            continue
        for q in range(logs_NQ.shape[1]):
            total += np.exp(logs_NQ[n, q] - top)
        sums_N[n] = top + np.log(total)

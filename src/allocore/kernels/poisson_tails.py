"""Tails of the Poisson distribution as logarithms, so that counts far beyond the smallest float are still ranked."""

import math

import numpy as np
from scipy.special import gammainc, gammaincc

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.jit import kernel

_FAR = 1e-290  # where the incomplete gamma functions begin to underflow


def log_tails(counts_N: Ints, rates_N: Floats) -> tuple[Floats, Floats]:
    """log P(Y >= y) and log P(Y <= y). A rate that underflows to 0 is judged as the smallest normal float."""
    y_N, mu_N = counts_N.astype(float), np.maximum(rates_N, np.finfo(float).tiny)
    more_N = _in_logs(gammainc(y_N, mu_N), y_N, mu_N, more=True)
    return more_N, _in_logs(gammaincc(y_N + 1, mu_N), y_N, mu_N, more=False)


def _in_logs(tail_N: Floats, y_N: Floats, mu_N: Floats, *, more: bool) -> Floats:
    far = np.flatnonzero(tail_N < _FAR)
    tail_N[far] = 1.0
    log_tail_N: Floats = np.log(tail_N)
    log_tail_N[far] = _far_log_tails(y_N[far], mu_N[far], more)
    return log_tail_N


@kernel
def _far_log_tails(y_N: Floats, mu_N: Floats, more: bool) -> Floats:
    """The logs of tails that lie beyond the count as seen from the rate: log pmf(y), and the rest of the tail by it."""
    logs_N = np.empty(y_N.size)
    for n in range(y_N.size):
        y, mu = y_N[n], mu_N[n]
        beyond, term, step = 1.0, 1.0, 0.0
        while term > 1e-17 * beyond:
            step += 1.0
            term *= mu / (y + step) if more else (y - step + 1.0) / mu
            beyond += term
        logs_N[n] = y * math.log(mu) - mu - math.lgamma(y + 1.0) + math.log(beyond)
    return logs_N

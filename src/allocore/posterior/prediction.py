"""Rates of cells under every draw, and the predictive density of counts. Memory grows with the cells, not the draws."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers
from allocore.run.record import Record

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_CELLS_PER_THREAD = 4096


def mean_rates(record: Record, coords_MN: _Ints, threads: int) -> _Floats:
    """The rate of each cell, averaged over all draws of all chains."""
    total_N = np.zeros(coords_MN.shape[1])
    for rates_N in rates_by_draw(record, coords_MN, threads):
        total_N += rates_N
    return total_N / record.core_values[..., 0].size


def log_predictive(record: Record, coords_MN: _Ints, counts_N: _Ints, threads: int) -> _Floats:
    """The log of the Poisson probability of each cell's count averaged over all draws, by logsumexp."""
    log_total_N = np.full(coords_MN.shape[1], -np.inf)
    log_factorials_N = gammaln(counts_N + 1.0)
    for rates_N in rates_by_draw(record, coords_MN, threads):
        np.logaddexp(log_total_N, xlogy(counts_N, rates_N) - rates_N - log_factorials_N, out=log_total_N)
    return np.asarray(log_total_N - np.log(record.core_values[..., 0].size))


def rates_by_draw(record: Record, coords_MN: _Ints, threads: int) -> Iterator[_Floats]:
    """The rates of the cells under each draw, draw after draw, chain after chain."""
    offsets_M = np.concatenate([[0], np.cumsum(record.tensor.shape)])[:-1]
    rows_MN = np.ascontiguousarray(coords_MN + offsets_M[:, None])
    with Workers(threads) as workers:
        for chain in range(record.core_values.shape[0]):
            for draw in range(record.core_values.shape[1]):
                phi_RQ = np.concatenate(
                    [
                        factor[chain, draw][:, record.core_locations[chain, draw, :, mode]]
                        for mode, factor in enumerate(record.factors)
                    ]
                )
                rates_N = np.empty(rows_MN.shape[1])
                core_Q = record.core_values[chain, draw]
                ranges = workers.ranges(rates_N.size, _CELLS_PER_THREAD)
                workers.run([partial(_fill_rates, *cut, rows_MN, phi_RQ, core_Q, rates_N) for cut in ranges])
                yield rates_N


@kernel
def _fill_rates(
    first: int, last: int, rows_MN: NDArray[Any], phi_RQ: _Floats, core_Q: _Floats, rates_N: _Floats
) -> None:
    """Rates of cells `first` to `last`; neighbours in a fibre share the product over all modes but the last."""
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

"""Rates of cells and of the whole observed tensor, in plain NumPy and 64-bit floats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.missing import Missing
from allocore.model.state import State

_CHUNK_NUMBERS = 4_000_000


def rates_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """The rate sum_q lambda_q prod_m phi[m][d_m, k[q, m]] of each cell in `coords` (M, n)."""
    return np.exp(log_rates_at(state, coords))


def log_rates_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """Logarithms of the rates, accurate even where the products underflow."""
    out = np.empty(coords.shape[1])
    step = max(1, _CHUNK_NUMBERS // len(state.log_core_Q))
    for first in range(0, coords.shape[1], step):
        block = coords[:, first : first + step]
        log_nQ = np.broadcast_to(state.log_core_Q, (block.shape[1], len(state.log_core_Q))).copy()
        for m, log_phi_DK in enumerate(state.log_phi):
            log_nQ += log_phi_DK[block[m]][:, state.subs_QM[:, m]]
        out[first : first + step] = np.logaddexp.reduce(log_nQ, axis=1)
    return out


def log_odds_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """The log odds of the dispersion in each cell in `coords` (M, n); zeros if there is no dispersion."""
    return np.zeros(coords.shape[1]) if state.dispersion is None else state.dispersion.at(coords)


def class_totals(
    state: State, missing: Missing, by_row: tuple[int, NDArray[np.float64]] | None = None
) -> NDArray[np.float64]:
    """The rate of each class summed over all observed cells, (Q): product of column sums minus the missing cells.

    With `by_row`, a mode and a number for each of its rows, every rate is multiplied by the number of its row.
    """
    expanded = [state.factors(m)[:, state.subs_QM[:, m]] for m in range(len(state.log_phi))]
    if by_row is not None:
        mode, weights_D = by_row
        expanded[mode] = expanded[mode] * weights_D[:, None]
    sums = [rows_DQ.sum(axis=0) for rows_DQ in expanded]
    total_Q = np.prod(sums, axis=0)
    patterns_PM, weights_P = missing.signed
    step = max(1, _CHUNK_NUMBERS // len(total_Q))
    for first in range(0, len(weights_P), step):
        block_PM = patterns_PM[first : first + step]
        product_PQ = np.repeat(weights_P[first : first + step, None], len(total_Q), axis=1).astype(np.float64)
        for m, column_P in enumerate(block_PM.T):
            product_PQ *= np.where(column_P[:, None] < 0, sums[m], expanded[m][column_P])
        total_Q = total_Q - product_PQ.sum(axis=0)
    return np.asarray(state.core_values() * np.maximum(total_Q, 0.0))

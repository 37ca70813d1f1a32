"""Factors expanded to classes: phi[m][d, k[q, m]] for every row d and class q, and the column sums of each class.

The kernels that visit cells or patterns then read rows of Q consecutive numbers instead of gathering them by location.
Cost: (rows x Q) numbers, refreshed mode by mode as locations and factors are drawn.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocore._jit import kernel
from allocore.gibbs.layout import Layout
from allocore.model.state import State

_ROWS_PER_THREAD = 64


@dataclass(frozen=True)
class Rows:
    """`phi_RQ`, the expanded factors of all modes one after another; `sums_MQ`, their sums over each mode's rows."""

    phi_RQ: NDArray[np.float64]
    sums_MQ: NDArray[np.float64]

    @classmethod
    def of(cls, layout: Layout, state: State) -> "Rows":
        """Expand all modes of a state."""
        modes, budget = len(layout.shape), len(state.log_core_Q)
        rows = cls(np.empty((sum(layout.shape), budget)), np.empty((modes, budget)))
        for mode in range(modes):
            rows.refresh(layout, state, mode)
        return rows

    def refresh(self, layout: Layout, state: State, mode: int) -> None:
        """Expand one mode again after its locations or factors have changed."""
        phi_DQ = self.phi_RQ[layout.rows(mode)]
        subs_Q = np.ascontiguousarray(state.subs_QM[:, mode])
        layout.workers.run(
            [
                partial(_expand, first, last, state.log_phi[mode], subs_Q, phi_DQ)
                for first, last in layout.workers.ranges(len(phi_DQ), _ROWS_PER_THREAD)
            ]
        )
        self.sums_MQ[mode] = phi_DQ.sum(axis=0)


@kernel
def _expand(
    first: int,
    last: int,
    log_phi_DK: NDArray[np.float64],
    subs_Q: NDArray[np.int64],
    phi_DQ: NDArray[np.float64],
) -> None:
    phi_K = np.empty(log_phi_DK.shape[1])
    for d in range(first, last):
        for k in range(phi_K.size):
            phi_K[k] = np.exp(log_phi_DK[d, k])
        for q in range(subs_Q.size):
            phi_DQ[d, q] = phi_K[subs_Q[q]]

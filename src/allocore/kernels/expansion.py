"""Factors expanded to classes: phi[m][d, k[q, m]] for every row d and class q, in two forms.

`phi_RQ`, in 64 bits, and the column sums of each class are what exposures are made of. `scaled_RL`, in 32 bits, is
what thinning multiplies: every row divided by its largest number, which changes no probability within a cell, and
padded with zeros to whole levels of SIMD lanes. Core values are folded into the rows of one mode. Kernels that visit
cells or patterns then read rows of consecutive numbers instead of gathering them by location. Cost: rows * Q numbers.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.layout import Ints, Layout
from allocore.kernels.jit import inlined, kernel
from allocore.kernels.simd import aligned_zeros, padded
from allocore.model.state import State

_ROWS_PER_THREAD = 64
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """The expanded factors of all modes, one mode after another, and `sums_MQ`, their sums over each mode's rows."""

    phi_RQ: _Floats
    sums_MQ: _Floats
    scaled_RL: NDArray[np.float32]
    log_scale_R: _Floats

    @classmethod
    def of(cls, layout: Layout, state: State) -> "Rows":
        """Expand all modes of a state."""
        modes, budget, length = len(layout.shape), len(state.log_core_Q), sum(layout.shape)
        rows = cls(
            np.empty((length, budget)),
            np.empty((modes, budget)),
            aligned_zeros(length, padded(budget)),
            np.empty(length),
        )
        for mode in range(modes):
            rows.refresh(layout, state, mode)
        return rows

    def of_classes(self, which: Ints) -> "Rows":
        """The rows of some classes alone, to be scaled anew."""
        phi_RQ = np.ascontiguousarray(self.phi_RQ[:, which])
        scaled_RL = aligned_zeros(len(phi_RQ), padded(len(which)))
        return Rows(phi_RQ, self.sums_MQ[:, which], scaled_RL, np.empty(len(phi_RQ)))

    def refresh(self, layout: Layout, state: State, mode: int) -> None:
        """Expand one mode again after its locations or factors have changed."""
        phi_DQ = self.phi_RQ[layout.rows(mode)]
        subs_Q = np.ascontiguousarray(state.subs_QM[:, mode])
        used_U = np.flatnonzero(state.used(mode))
        layout.workers.run(
            [
                partial(_expand, first, last, state.log_phi[mode], subs_Q, used_U, phi_DQ)
                for first, last in layout.workers.ranges(len(phi_DQ), _ROWS_PER_THREAD)
            ]
        )
        self.add_up(layout, mode)

    def add_up(self, layout: Layout, mode: int) -> None:
        """Make the sums over the rows of one mode."""
        self.sums_MQ[mode] = self.phi_RQ[layout.rows(mode)].sum(axis=0)

    def scale(self, layout: Layout, state: State) -> None:
        """Make the scaled rows of all modes; the core values go into the rows of the mode that thinning takes first."""
        ones_Q, core_Q = np.ones(len(state.log_core_Q)), state.core_values()
        calls = []
        for mode in range(len(layout.shape)):
            weights_Q = core_Q if mode == layout.order[0] else ones_Q
            here = layout.rows(mode)
            calls += [
                partial(_scale, *cut, self.phi_RQ[here], weights_Q, self.scaled_RL[here], self.log_scale_R[here])
                for cut in layout.workers.ranges(layout.shape[mode], _ROWS_PER_THREAD)
            ]
        layout.workers.run(calls)


@kernel
def _expand(first: int, last: int, log_phi_DK: _Floats, subs_Q: Ints, used_U: Ints, phi_DQ: _Floats) -> None:
    phi_K = np.empty(log_phi_DK.shape[1])
    for d in range(first, last):
        expand_row(d, log_phi_DK, subs_Q, used_U, phi_K, phi_DQ)


@inlined
def expand_row(d: int, log_phi_DK: _Floats, subs_Q: Ints, used_U: Ints, phi_K: _Floats, phi_DQ: _Floats) -> None:
    """Expand one row; `phi_K` is scratch space."""
    for i in range(used_U.size):
        phi_K[used_U[i]] = np.exp(log_phi_DK[d, used_U[i]])
    for q in range(subs_Q.size):
        phi_DQ[d, q] = phi_K[subs_Q[q]]


@kernel
def _scale(
    first: int, last: int, phi_DQ: _Floats, weights_Q: _Floats, scaled_DL: NDArray[np.float32], log_scale_D: _Floats
) -> None:
    for d in range(first, last):
        top = 0.0
        for q in range(weights_Q.size):
            top = max(top, phi_DQ[d, q] * weights_Q[q])
        # A row that underflows altogether stays zero: its cells have no weight here and are thinned in logarithms.
        top = top if top > 1e-290 else 1.0
        log_scale_D[d] = np.log(top)
        for q in range(weights_Q.size):
            scaled_DL[d, q] = phi_DQ[d, q] * weights_Q[q] / top

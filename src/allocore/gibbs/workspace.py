"""Arrays that a chain keeps from sweep to sweep because making them anew would cost time."""

from functools import partial
from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.kernels.arrays import Floats, Ints, Singles
from allocore.kernels.expansion import ROWS_PER_THREAD, expand_logs, scale_rows
from allocore.kernels.signed_patterns import Expanded
from allocore.kernels.simd import aligned_zeros, padded
from allocore.model.state import State


class ScaledRows(NamedTuple):
    """The expanded factors as thinning multiplies them, in 32 bits.

    Each row is divided by its largest number, which changes no probability within a cell (`log_scale_R` is the log of
    that number), and padded with zeros to whole levels of SIMD lanes. The core values are in the rows of one mode.
    """

    scaled_RL: Singles
    log_scale_R: Floats


class Workspace:
    """The expanded factors of a chain's state (kernels/expansion.py). Mutable, and the only thing in a sweep that is.

    A step reads `expanded`, and whoever changes the factors or the locations of a mode calls `renew` for it.
    """

    def __init__(self, layout: Layout, budget: int) -> None:
        modes, length = len(layout.shape), sum(layout.shape)
        self._layout = layout
        self.expanded = Expanded(np.empty((length, budget)), np.empty((modes, budget)))
        self._scaled = ScaledRows(aligned_zeros(length, padded(budget)), np.empty(length))

    @classmethod
    def of(cls, layout: Layout, state: State) -> "Workspace":
        """The workspace of a state."""
        workspace = cls(layout, len(state.log_core_Q))
        workspace.renew_all(state)
        return workspace

    def renew(self, state: State, mode: int) -> None:
        """Expand one mode again, after its locations or factors have changed."""
        phi_DQ, subs_Q = self.rows(mode), np.ascontiguousarray(state.subs_QM[:, mode])
        expand_logs(self._layout.workers, state.log_phi[mode], subs_Q, phi_DQ)
        self.expanded.sums_MQ[mode] = phi_DQ.sum(axis=0)

    def renew_all(self, state: State) -> None:
        """Expand all modes again."""
        for mode in range(len(self._layout.shape)):
            self.renew(state, mode)

    def rows(self, mode: int) -> Floats:
        """The expanded factors of one mode, (D, Q)."""
        return self.expanded.phi_RQ[self._layout.rows(mode)]

    def scaled_rows(self, state: State) -> ScaledRows:
        """The rows as thinning multiplies them, made anew: the core values go into the mode that it takes first."""
        layout, calls = self._layout, []
        ones_Q, core_Q = np.ones(len(state.log_core_Q)), state.core_values()
        for mode, length in enumerate(layout.shape):
            phi_DQ, weights_Q = self.rows(mode), core_Q if mode == layout.order[0] else ones_Q
            here = layout.rows(mode)
            scaled_DL, log_scale_D = self._scaled.scaled_RL[here], self._scaled.log_scale_R[here]
            calls += [
                partial(scale_rows, *cut, phi_DQ, weights_Q, scaled_DL, log_scale_D)
                for cut in layout.workers.ranges(length, ROWS_PER_THREAD)
            ]
        layout.workers.run(calls)
        return self._scaled

    def of_classes(self, which: Ints) -> "Workspace":
        """A workspace of some classes alone."""
        only = Workspace(self._layout, len(which))
        np.take(self.expanded.phi_RQ, which, axis=1, out=only.expanded.phi_RQ)
        np.take(self.expanded.sums_MQ, which, axis=1, out=only.expanded.sums_MQ)
        return only

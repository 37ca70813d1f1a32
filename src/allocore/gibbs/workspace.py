"""Arrays that a chain keeps from sweep to sweep, because allocating them again would take time."""

from functools import partial
from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.kernels.arrays import Floats, Ints, Singles
from allocore.kernels.expansion import ROWS_PER_THREAD, expand_logs, scale_rows
from allocore.kernels.signed_patterns import Expanded, RowScale, scaled_sums
from allocore.kernels.simd import aligned_zeros, padded
from allocore.model.likelihood import LIKELIHOODS
from allocore.model.state import Dispersion, State


class ScaledRows(NamedTuple):
    """The expanded factors that thinning multiplies, in 32 bits.

    Each row is divided by its largest number, whose logarithm is in `log_scale_R`; this changes no probability within
    a cell. Rows are padded with zeros to whole levels of SIMD lanes. The rows of one mode contain the core values.
    """

    scaled_RL: Singles
    log_scale_R: Floats


class Workspace:
    """The expanded factors of a chain's state (kernels/expansion.py): the only mutable object in a sweep.

    Steps read `expanded` and `scale`, the c of the likelihood by row (model/likelihood.py), or None if c = 1. After a
    change to the factors or locations of a mode, call `renew` for this mode; after one to the dispersion, `rescale`.
    """

    def __init__(self, layout: Layout, budget: int) -> None:
        modes, length = len(layout.shape), sum(layout.shape)
        self._layout = layout
        self.scale: RowScale | None = None
        self.expanded = Expanded(np.empty((length, budget)), np.empty((modes, budget)))
        self._scaled = ScaledRows(aligned_zeros(length, padded(budget)), np.empty(length))

    @classmethod
    def of(cls, layout: Layout, state: State) -> "Workspace":
        """The workspace of a state."""
        workspace = cls(layout, len(state.log_core_Q))
        workspace.scale = workspace._scale_of(state.dispersion)
        workspace.renew_all(state)
        return workspace

    def renew(self, state: State, mode: int) -> None:
        """Expand one mode again, after its locations or factors have changed."""
        phi_DQ, subs_Q = self.rows(mode), np.ascontiguousarray(state.subs_QM[:, mode])
        expand_logs(self._layout.workers, state.log_phi[mode], subs_Q, phi_DQ)
        self.expanded.sums_MQ[mode] = scaled_sums(phi_DQ, mode, self.scale)

    def rescale(self, state: State) -> None:
        """Take c from the state again, after its dispersion has changed."""
        self.scale = self._scale_of(state.dispersion)
        if self.scale is not None:
            mode = self.scale.mode
            self.expanded.sums_MQ[mode] = scaled_sums(self.rows(mode), mode, self.scale)

    def _scale_of(self, dispersion: Dispersion | None) -> RowScale | None:
        if dispersion is None:
            return None
        # A single c can be given to the rows of any mode; it costs least in the shortest.
        mode = int(np.argmin(self._layout.shape)) if dispersion.mode is None else dispersion.mode
        scale_D = LIKELIHOODS["negative-binomial"].latent_scale(dispersion.log_odds_D)
        return self._layout.missing.scaled(mode, np.broadcast_to(scale_D, self._layout.shape[mode]))

    def renew_all(self, state: State) -> None:
        """Expand all modes again."""
        for mode in range(len(self._layout.shape)):
            self.renew(state, mode)

    def rows(self, mode: int) -> Floats:
        """The expanded factors of one mode, (D, Q)."""
        return self.expanded.phi_RQ[self._layout.rows(mode)]

    def scaled_rows(self, state: State) -> ScaledRows:
        """Compute the rows that thinning multiplies; the core values go into the first mode of thinning's order."""
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
        """A workspace with only the classes `which`."""
        only = Workspace(self._layout, len(which))
        np.take(self.expanded.phi_RQ, which, axis=1, out=only.expanded.phi_RQ)
        np.take(self.expanded.sums_MQ, which, axis=1, out=only.expanded.sums_MQ)
        only.scale = self.scale
        return only

"""The draft of split-merge: a copy of the state of one mode, into which accepted proposals are written."""

from dataclasses import dataclass, replace

import numpy as np

from allocore.gibbs.exposure import ModeView
from allocore.gibbs.layout import Layout
from allocore.gibbs.priors import Priors
from allocore.gibbs.relocation import ByClass
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import exp_of
from allocore.kernels.random import Words
from allocore.kernels.signed_patterns import Expanded, RowScale, SignedPatterns, scaled_sums
from allocore.model.spec import Spec
from allocore.model.state import State


@dataclass
class Draft:
    """Copies of everything that proposals in one mode can change. Mutable: accepted proposals are written here only.

    `sums_Q` are the sums of the factors of the classes in this mode (with c, if `scale` is of this mode). In the other
    modes no factor changes: class q has the column holder_MQ[m, q] of `expanded`. `exposure_QD` is only valid for
    classes that hold counts.
    """

    mode: int
    priors: Priors
    alpha_M: Floats
    missing: SignedPatterns
    scale: RowScale | None
    expanded: Expanded
    holder_MQ: Ints
    sums_Q: Floats
    y_QD: Floats
    y_Q: Floats
    exposure_QD: Floats
    exposure_Q: Floats
    subs_QM: Ints
    log_core_Q: Floats
    log_phi_DK: Floats
    phi_DK: Floats
    classes_MK: Ints  # how many classes are at each factor

    @classmethod
    def of(
        cls, layout: Layout, spec: Spec, state: State, view: ModeView, exposure_Q: Floats, workspace: Workspace
    ) -> "Draft":
        """A draft of a state; `exposure_Q` is X_q / lambda_q."""
        mode, by_rows = view.mode, ByClass.of(view, layout.workers)
        log_phi_DK = state.log_phi[mode].copy()
        used_U, class_U = np.unique(state.subs_QM[:, mode], return_index=True)
        phi_DK = np.zeros_like(log_phi_DK)
        phi_DK[:, used_U] = workspace.rows(mode)[:, class_U]
        classes_MK = np.array([np.bincount(subs_Q, minlength=max(spec.core_shape)) for subs_Q in state.subs_QM.T])
        return cls(
            mode=mode,
            priors=Priors.of(spec, state, mode),
            alpha_M=spec.alpha0 / np.array(layout.shape),
            missing=layout.missing,
            scale=workspace.scale,
            expanded=workspace.expanded,
            holder_MQ=np.tile(np.arange(spec.budget), (len(layout.shape), 1)),
            sums_Q=workspace.expanded.sums_MQ[mode].copy(),
            y_QD=by_rows.y_QD,
            y_Q=by_rows.y_QD.sum(axis=1),
            exposure_QD=by_rows.exposure_QD,
            exposure_Q=exposure_Q.copy(),
            subs_QM=state.subs_QM.copy(),
            log_core_Q=state.log_core_Q.copy(),
            log_phi_DK=log_phi_DK,
            phi_DK=phi_DK,
            classes_MK=classes_MK,
        )

    def state(self, before: State) -> State:
        """The state of the draft, which was made from `before`."""
        changed = before.with_factors(self.mode, self.log_phi_DK)
        return replace(changed, log_core_Q=self.log_core_Q, subs_QM=self.subs_QM)

    def column(self, mode: int, q: int) -> tuple[Floats, float]:
        """The factor of a class in a mode, and its sum."""
        if mode == self.mode:
            return self.phi_DK[:, self.subs_QM[q, mode]], float(self.sums_Q[q])
        holder, start = self.holder_MQ[mode, q], sum(self.missing.shape[:mode])
        rows_DQ = self.expanded.phi_RQ[start : start + self.missing.shape[mode]]
        return rows_DQ[:, holder], float(self.expanded.sums_MQ[mode, holder])

    def exposure_at(self, classes_M: Ints) -> float:
        """X / lambda of a class that has, in each mode m, the factor of class classes_M[m]."""
        columns = [self.column(m, c) for m, c in enumerate(classes_M)]
        return self.missing.sum_of_one([phi_D for phi_D, _ in columns], [total for _, total in columns], self.scale)

    def follow(self, r: int, classes_M: Ints) -> None:
        """Move r, in each mode m, to the factor of class classes_M[m]."""
        for m, c in enumerate(classes_M):
            self._put(r, m, self.subs_QM[c, m])
            self.holder_MQ[m, r] = self.holder_MQ[m, c]
        self.sums_Q[r] = self.sums_Q[classes_M[self.mode]]

    def settle(self, q: int, counts_D: Floats, factor: int, exposure: float, rng: Words) -> None:
        """Give q these counts, move it to a factor of this mode with this X / lambda, and draw its core value."""
        self.y_QD[q], self.y_Q[q], self.exposure_Q[q] = counts_D, counts_D.sum(), exposure
        self._put(q, self.mode, factor)
        self.sums_Q[q] = scaled_sums(self.phi_DK[:, factor], self.mode, self.scale)
        self.log_core_Q[q] = log_gamma(rng, self.priors.a0 + self.y_Q[q], self.priors.b0 + exposure)

    def set_factor(self, factor: int, log_phi_D: Floats | float) -> None:
        """Set the values of a factor of this mode; -inf if no class uses it any more."""
        self.log_phi_DK[:, factor], self.phi_DK[:, factor] = log_phi_D, exp_of(log_phi_D)

    def _put(self, q: int, mode: int, factor: int) -> None:
        self.classes_MK[mode, self.subs_QM[q, mode]] -= 1
        self.classes_MK[mode, factor] += 1
        self.subs_QM[q, mode] = factor

"""One sweep of the Gibbs sampler: the whole algorithm.

A chain's state has core values lambda_q, locations k[q, m] and factors phi[m][d, k]; an allocation says how many counts
of each row belong to each class. Given the allocation, a sweep draws

    for each mode   locations     k[q, m] and lambda_q, class by class, unused factors integrated out    relocation.py
                    factors       phi[m][d, k] ~ Gamma                                                   factors.py
    then            inclusion     which classes have a core value, where the budget is inferred          inclusion.py
                    core values   lambda_q ~ Gamma                                                       core_values.py
                    split-merge   one class split in two, or two merged, in the mode visited last        split_merge.py
    and last        thinning      every count is allocated to a class again                              thinning.py

Locations and factors of a mode share one exposure (exposure.py), which depends on the other modes alone. Successive
sweeps begin with different modes, so every mode has its turn to be last. Thinning comes last, so the allocation and the
log-likelihood of a sweep belong to the state it returns; a chain begins with a thinning. CP and Tucker are the same
sweep with fixed locations: no relocation, no split-merge.

Steps are functions: they get what they read and return what they change. The workspace alone is mutable. It holds the
factors of the state in the form that exposure and thinning read, and is renewed here, after each step that changes
factors or locations.
"""

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.gibbs.core_values import draw_core_values
from allocore.gibbs.exposure import ModeView, reach
from allocore.gibbs.factors import draw_factors
from allocore.gibbs.inclusion import draw_inclusion
from allocore.gibbs.layout import Layout
from allocore.gibbs.relocation import relocate
from allocore.gibbs.split_merge import split_merge
from allocore.gibbs.thinning import Allocation, thin
from allocore.gibbs.workspace import Workspace
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.model.sweep_info import SweepInfo


def begin(key: Key, layout: Layout, state: State, workspace: Workspace | None = None) -> Allocation:
    """The allocation that the first sweep from `state` starts with (and, at a later sweep's key, a resumed one)."""
    return thin(key, layout, workspace or Workspace.of(layout, state), state)


def sweep(
    key: Key, layout: Layout, spec: Spec, state: State, allocation: Allocation, workspace: Workspace | None = None
) -> tuple[State, Allocation, SweepInfo]:
    """Draw every variable once.

    `workspace` is that of `state`, and afterwards that of the state returned: a chain keeps it from sweep to sweep.
    """
    before, modes = state, len(layout.shape)
    workspace = workspace or Workspace.of(layout, state)
    *earlier, last = [(key.sweep + turn) % modes for turn in range(modes)]
    for mode in earlier:
        state, _ = _visit_mode(key, layout, spec, state, allocation, workspace, mode)
    state, view = _visit_mode(key, layout, spec, state, allocation, workspace, last)

    y_Q, reach_Q = view.y_DQ.sum(axis=0), view.reach_Q(workspace.rows(last))
    included_Q = draw_inclusion(key, spec, state, y_Q, reach_Q)
    state = draw_core_values(key, spec, state, included_Q, y_Q, reach_Q)
    if spec.learn_locations:
        state, reach_Q, accepted = split_merge(key, layout, spec, state, view, reach_Q, workspace)
        if accepted:
            workspace.renew_all(state)

    allocation = thin(key, layout, workspace, state)
    expected_counts = float((state.core_values() * reach_Q).sum())
    log_likelihood = allocation.log_rates - layout.log_factorials - expected_counts
    return state, allocation, _info(layout, before, state, allocation, log_likelihood)


def _visit_mode(
    key: Key, layout: Layout, spec: Spec, state: State, allocation: Allocation, workspace: Workspace, mode: int
) -> tuple[State, ModeView]:
    """Draw the locations and the factors of one mode; returns the state, and the counts and exposure it was given."""
    view = ModeView(mode, allocation.y_RQ[layout.rows(mode)], reach(layout, workspace, mode))
    if spec.learn_locations:
        state = relocate(key, layout, spec, state, view)
    state = draw_factors(key, layout, spec, state, view)
    workspace.renew(state, mode)
    return state, view


def _info(layout: Layout, before: State, state: State, allocation: Allocation, log_likelihood: float) -> SweepInfo:
    holding_Q = allocation.y_RQ[layout.rows(0)].sum(axis=0) > 0
    locations = state.subs_QM[holding_Q]
    (cell_keys,) = column_keys([log_phi_DK.shape[1] for log_phi_DK in state.log_phi], locations.T)
    return SweepInfo(
        log_likelihood=log_likelihood,
        classes=len(np.unique(cell_keys)),
        factors=tuple(int((np.bincount(column) > 0).sum()) for column in locations.T),
        moved=float(np.mean(np.any(state.subs_QM != before.subs_QM, axis=1))),
    )

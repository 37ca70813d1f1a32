"""One sweep of the Gibbs sampler: the order of its steps.

The count of a cell d = (d_1 .. d_M) is Poisson with rate r = sum_q lambda_q prod_m phi[m][d_m, k[q, m]]. Class q has a
core value lambda_q and a location in the core, k[q, m], which names one factor phi[m][:, k] in each mode. An allocation
says how many counts belong to each class, summed over the cells of each row; a row is one index d of one mode. Given
the allocation, a sweep draws

    for each mode   locations      k[q, m], with lambda_q, class by class, each given the others       relocation.py
                    concentration  the shape e0 of the prior of the factors, if it is learned          concentrations.py
                    factors        phi[m][d, k] ~ Gamma, of the factors that some class uses           factors.py
    then            inclusion      which classes have a core value above zero, for an inferred budget  inclusion.py
                    core values    lambda_q ~ Gamma                                                    core_values.py
                    split-merge    proposals to split a class, with its counts, into two that differ   split_merge.py
                                   in the mode visited last alone, or to merge two such classes
    and last        dispersion     p of the negative binomial, with latent counts integrated out       dispersion.py
                    latent counts  what is allocated in place of counts that are not Poisson           latent_counts.py
                    thinning       every count is allocated to a class again, by a multinomial         thinning.py

With a negative binomial or Bernoulli likelihood (model/likelihood.py) the latent counts are Poisson with rate c r: c is
1 for Bernoulli, and -ln(1 - p) for the negative binomial, with one p or one for each row of a mode. Everything said
here of counts is then true of latent counts, and every exposure has c in it. Latent counts are drawn inside `thin`,
each just before it is allocated, so `begin` draws them too.

Relocation integrates out lambda_q and the factors that no other class uses, and draws a new factor for a class that
takes one; core values are drawn again afterwards because that is cheap. The concentration is drawn with the factors
integrated out, so the factors follow it. All steps of a mode share its exposure (exposure.py). The code keeps it per
unit of lambda; as such it depends on the other modes alone.

The order of the modes rotates from sweep to sweep, so that each mode is the last one in turn. Thinning ends a sweep, so
the allocation and the log-likelihood belong to the state that is returned. `begin` makes the first allocation.
ALL0CORE learns the locations. CP (k[q, m] = q) and Tucker (a class at every location) leave them fixed: no relocation,
no split-merge.

Steps get what they read and return what they change. One thing is mutable: the workspace, which holds the factors of
the present state expanded to a column for each class. Steps read it, and this module renews it; thinning keeps scratch
space in it. Every step, mode and row has its own random numbers, opened from the key. model/state.py explains
the suffixes of arrays.
"""

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.gibbs.concentrations import draw_concentration
from allocore.gibbs.core_values import draw_core_values
from allocore.gibbs.dispersion import draw_dispersion
from allocore.gibbs.exposure import ModeView, exposure
from allocore.gibbs.factors import draw_factors
from allocore.gibbs.inclusion import draw_inclusion
from allocore.gibbs.layout import Layout
from allocore.gibbs.relocation import relocate
from allocore.gibbs.split_merge import split_merge
from allocore.gibbs.thinning import Allocation, ThinCells, thin, thin_here
from allocore.gibbs.workspace import Workspace
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.model.sweep_info import SweepInfo


def begin(
    key: Key,
    layout: Layout,
    spec: Spec,
    state: State,
    workspace: Workspace | None = None,
    thin_cells: ThinCells = thin_here,
) -> Allocation:
    """The allocation that a sweep from `state` starts with.

    With the key of the sweep that gave `state`, it is the allocation that this sweep ended with, bit for bit. Resuming
    relies on it. A new chain calls it with sweep 0.
    """
    workspace = Workspace.of(layout, state) if workspace is None else workspace
    return thin(key, layout, spec, state, workspace, thin_cells)


def sweep(
    key: Key,
    layout: Layout,
    spec: Spec,
    state: State,
    allocation: Allocation,
    workspace: Workspace | None = None,
    thin_cells: ThinCells = thin_here,
) -> tuple[State, Allocation, SweepInfo]:
    """Make one sweep: the next state, its allocation and its statistics.

    `workspace` belongs to `state` before the call, and to the returned state after it. A chain keeps it between sweeps.
    `thin_cells` says where the cells are: in the layout, or in shards on workers (run/cluster/sharded_thinning.py).
    """
    before, modes = state, len(layout.shape)
    if workspace is None:
        workspace = Workspace.of(layout, state)
    *earlier, last = [(key.sweep + turn) % modes for turn in range(modes)]
    for mode in earlier:
        state, _ = _visit_mode(key, layout, spec, state, allocation, workspace, mode)
    state, view = _visit_mode(key, layout, spec, state, allocation, workspace, last)

    # For each class: its counts, and the counts to expect per unit of core value. Only the exposure of the last mode is
    # made of nothing but new factors.
    y_Q, exposure_Q = view.y_DQ.sum(axis=0), view.exposure_Q(workspace.rows(last))
    included_Q = draw_inclusion(key, spec, state, y_Q, exposure_Q)
    state = draw_core_values(key, spec, state, included_Q, y_Q, exposure_Q)
    if spec.learn_locations:
        state, exposure_Q, accepted = split_merge(key, layout, spec, state, view, exposure_Q, workspace)
        if accepted:  # a class that was filled or emptied has a new location in every mode
            workspace.renew_all(state)

    # The log-likelihood has a part for the non-zero cells (log_fit) and one for the sum of the rates or, with p, for p.
    log_rest = -float((state.core_values() * exposure_Q).sum())
    if state.dispersion is not None:
        state, log_rest = draw_dispersion(key, layout, spec, state, exposure_Q, workspace)
        workspace.rescale(state)
    allocation = thin(key, layout, spec, state, workspace, thin_cells)
    log_likelihood = allocation.log_fit - layout.log_factorials + log_rest
    return state, allocation, info_of(layout, before, state, allocation, log_likelihood)


def _visit_mode(
    key: Key, layout: Layout, spec: Spec, state: State, allocation: Allocation, workspace: Workspace, mode: int
) -> tuple[State, ModeView]:
    """Draw locations, concentration and factors of one mode; returns the state, and the counts and exposure used."""
    view = ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure(layout, workspace, mode))
    if spec.learn_locations:
        state = relocate(key, layout, spec, state, view)
    if spec.infer_concentrations:
        state = draw_concentration(key, layout, spec, state, view)
    state = draw_factors(key, layout, spec, state, view)
    workspace.renew(state, mode)
    return state, view


def info_of(layout: Layout, before: State, state: State, allocation: Allocation, log_likelihood: float) -> SweepInfo:
    """The statistics of what led from one state to the next, which has this allocation and log-likelihood."""
    holding_Q = allocation.y_RQ[layout.rows(0)].any(axis=0)
    locations = state.subs_QM[holding_Q]
    (cell_keys,) = column_keys([log_phi_DK.shape[1] for log_phi_DK in state.log_phi], locations.T)
    return SweepInfo(
        log_likelihood=log_likelihood,
        classes=len(np.unique(cell_keys)),
        factors=tuple(int(np.count_nonzero(np.bincount(column))) for column in locations.T),
        moved=float(np.mean(np.any(state.subs_QM != before.subs_QM, axis=1))),
    )

"""One sweep of the Gibbs sampler: the order of its steps.

The count of a cell d = (d_1 .. d_M) is Poisson with rate r = sum_q lambda_q prod_m phi[m][d_m, k[q, m]]. Class q has a
core value lambda_q and a location in the core, k[q, m], which names one factor phi[m][:, k] in each mode. An allocation
says how many counts belong to each class, summed over the cells of each row; a row is one index d of one mode. Given
the allocation, a sweep draws

    for each mode   locations      k[q, m], with lambda_q, class by class, each given the others       relocation.py
                    concentration  the shape e0 of the prior of the factors, if it is learned          concentrations.py
                    factors        phi[m][d, k] ~ Gamma, of the factors that some class uses           factors.py
    then            core values    which classes have one above zero, for an inferred budget, and      core_values.py
                                   lambda_q ~ Gamma
                    split-merge    proposals to split a class, with its counts, into two that differ   split_merge.py
                                   only in the mode visited last, or to merge two such classes
    and last        dispersion     p of the negative binomial, on which the prior of lambda depends    dispersion.py
                    latent counts  what is allocated in place of counts that are not Poisson           latent_counts.py
                    thinning       every count is allocated to a class again, by a multinomial         thinning.py

With a negative binomial or Bernoulli likelihood (model/likelihood.py) the latent counts are Poisson with rate c r: c is
1 for Bernoulli, and -ln(1 - p) for the negative binomial. What is said here of counts is then true of latent counts,
and every exposure has c in it. They are drawn inside `thin`, each just before it is allocated.

Relocation integrates out lambda_q and the factors that no other class uses; core values are drawn again afterwards
because that is cheap. The concentration is drawn with the factors integrated out, so the factors come after it. All
steps of a mode share its exposure (factors.py), per unit of lambda: it depends only on the other modes.

Two modes can be tied: they share their factors (tied.py). They are visited together: locations in one role and then in
the other, the concentration given the factors, and the factors row by row.

If ties are undirected, `thin` also splits the count of a pair between the two directions (undirected.py). All other
steps see directed cells.

The order of the modes rotates from sweep to sweep. Thinning ends a sweep, so the allocation and the log-likelihood
belong to the state that is returned. `begin` makes the first allocation. CP (k[q, m] = q) and Tucker (a class at every
location) have fixed locations: no relocation, no split-merge.

Every step is a function of a key, the data and what it conditions on. It returns what it draws and an info of
diagnostics that no later draw depends on. The workspace is the one mutable object: the factors of the present state,
expanded to a column for each class. Steps read it, this module renews it, and thinning uses scratch space in it. Every
step, mode and row has its own random numbers, opened from the key (suffixes: model/state.py).
"""

from collections.abc import Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from allocore.gibbs.concentrations import draw_concentration
from allocore.gibbs.core_values import draw_core_values
from allocore.gibbs.dispersion import draw_dispersion
from allocore.gibbs.factors import ModeView, draw_factors, exposure
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.relocation import RelocationInfo, relocate
from allocore.gibbs.split_merge import SplitMergeInfo, split_merge
from allocore.gibbs.thinning import Allocation, ThinCells, thin, thin_here
from allocore.gibbs.tied import draw_tied_concentration, draw_tied_factors
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State, SweepInfo
from allocore.tensor.coordinates import column_keys


class SamplerState(NamedTuple):
    """What a sweep starts from and ends with: the values of the variables, and the allocation of the counts."""

    state: State
    allocation: Allocation


def begin(
    key: Key,
    layout: Layout,
    spec: Spec,
    state: State,
    workspace: Workspace | None = None,
    thin_cells: ThinCells = thin_here,
) -> SamplerState:
    """Return what a sweep from `state` starts with; with the key that gave `state`, its allocation, bit for bit."""
    workspace = Workspace.of(layout, state) if workspace is None else workspace
    allocation, _ = thin(key, layout, spec, state, workspace, thin_cells)
    return SamplerState(state, allocation)


def sweep(
    key: Key,
    layout: Layout,
    spec: Spec,
    before: SamplerState,
    workspace: Workspace | None = None,
    thin_cells: ThinCells = thin_here,
) -> tuple[SamplerState, SweepInfo]:
    """Make one sweep. `workspace` belongs to the given state before the call, and to the returned state after it.

    `thin_cells` says where the cells are: in the layout, or in shards on workers (run/cluster/shards.py).
    """
    state, allocation = before
    if workspace is None:
        workspace = Workspace.of(layout, state)
    relocations, moves = list[RelocationInfo](), list[SplitMergeInfo]()
    turns = len(spec.groups)
    for modes in [spec.groups[(key.sweep + turn) % turns] for turn in range(turns)]:
        visit = _visit_tied if len(modes) > 1 else _visit
        state, view, moved = visit(key, layout, spec, SamplerState(state, allocation), workspace, modes)
        relocations += moved

    # For each class: its counts, and the counts to expect per unit of core value. Only the exposure of the last mode is
    # computed from new factors only.
    y_Q, exposure_Q = view.y_DQ.sum(axis=0), view.exposure_Q(workspace.rows(view.mode))
    state, _ = draw_core_values(key, spec, state, y_Q, exposure_Q)
    if spec.learn_locations:
        (state, exposure_Q), proposals = split_merge(key, layout, spec, state, view, exposure_Q, workspace)
        moves.append(proposals)
        if proposals.accepted:  # a class that was filled or emptied has a new location in every mode
            workspace.renew_all(state)

    # The log-likelihood has a part for the non-zero cells (log_fit) and one for the sum of the rates or, with p, for p.
    log_rest = -float((state.core_values() * exposure_Q).sum())
    if state.dispersion is not None:
        state, dispersion = draw_dispersion(key, layout, spec, state, exposure_Q, workspace, float(y_Q.sum()))
        log_rest = dispersion.log_part
        workspace.rescale(state)
    allocation, _ = thin(key, layout, spec, state, workspace, thin_cells)
    after = SamplerState(state, allocation)
    log_likelihood = allocation.log_fit - layout.log_factorials + log_rest
    return after, info_of(layout, before.state, after, log_likelihood, relocations, moves)


def _visit(
    key: Key, layout: Layout, spec: Spec, now: SamplerState, workspace: Workspace, modes: tuple[int, ...]
) -> tuple[State, ModeView, list[RelocationInfo]]:
    """The steps of one mode. Returns what the steps read about it, too."""
    state, relocations = now.state, list[RelocationInfo]()
    (mode,) = modes
    view = _view(layout, now.allocation, workspace, mode)
    if spec.learn_locations:
        state, relocation = relocate(key, layout, spec, state, view)
        relocations.append(relocation)
    if spec.infer_concentrations:
        state, _ = draw_concentration(key, layout, spec, state, view)
    state, _ = draw_factors(key, layout, spec, state, view)
    workspace.renew(state, mode)
    return state, view, relocations


def _visit_tied(
    key: Key, layout: Layout, spec: Spec, now: SamplerState, workspace: Workspace, modes: tuple[int, ...]
) -> tuple[State, ModeView, list[RelocationInfo]]:
    """The steps of two tied modes. The exposure of each role depends on the locations and factors of the other."""
    state, relocations = now.state, list[RelocationInfo]()
    if spec.learn_locations:
        for mode in modes:
            view = _view(layout, now.allocation, workspace, mode)
            state, relocation = relocate(key, layout, spec, state, view)
            relocations.append(relocation)
            workspace.renew(state, mode)
    if spec.infer_concentrations:
        state, _ = draw_tied_concentration(key, spec, state)
    state, _ = draw_tied_factors(key, layout, spec, state, now.allocation.y_RQ, workspace)
    for mode in modes:
        workspace.renew(state, mode)
    seen_last = modes[key.sweep // len(spec.groups) % len(modes)]  # for split-merge: the roles take turns
    return state, _view(layout, now.allocation, workspace, seen_last), relocations


def _view(layout: Layout, allocation: Allocation, workspace: Workspace, mode: int) -> ModeView:
    return ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure(layout, workspace, mode))


def info_of(
    layout: Layout,
    before: State,
    after: SamplerState,
    log_likelihood: float,
    relocations: Sequence[RelocationInfo] = (),
    moves: Sequence[SplitMergeInfo] = (),
) -> SweepInfo:
    """Return the statistics of a sweep from one state to the next, given the log-likelihood of the latter."""
    state, allocation = after
    holding_Q = allocation.y_RQ[layout.rows(0)].any(axis=0)
    locations = state.subs_QM[holding_Q]
    (cell_keys,) = column_keys([log_phi_DK.shape[1] for log_phi_DK in state.log_phi], locations.T)
    return SweepInfo(
        log_likelihood=log_likelihood,
        classes=len(np.unique(cell_keys)),
        factors=tuple(int(np.count_nonzero(np.bincount(column))) for column in locations.T),
        moved=float(np.mean(np.any(state.subs_QM != before.subs_QM, axis=1))),
        relocation_accepted=_acceptance(relocations),
        split_merge_accepted=_acceptance(moves),
    )


def _acceptance(infos: Sequence[RelocationInfo | SplitMergeInfo]) -> float:
    proposed = sum(info.proposed for info in infos)
    return sum(info.accepted for info in infos) / proposed if proposed else nan

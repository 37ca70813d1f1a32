"""Fold-in: new rows of one mode, drawn given every draw of a finished run.

For each draw of each chain, a short chain over the new rows starts at the mean of the old rows, and its last state is
the draw. The random numbers are a function of (seed, chain, draw, sweep) and differ from those of the run, so the
result does not depend on the number of threads. With D new rows of mode m, one sweep draws

    factors        phi[m][d, k] ~ Gamma( e0 + sum_{q at k} y[d, q],  f0 / w[d] + sum_{q at k} X[d, q] )     factors.py
    dispersion     p_d ~ Beta( g0 + sum of y,  h0 + sum of r ), if each row of mode m has its own       dispersion.py
    latent counts  and their allocation to the classes                                    latent_counts.py, thinning.py

where w are the known weights of the new rows, or 1. Given the rest of the state (core values, locations, the factors of
the other modes, e0), the new rows are independent of each other and of all data but their own. The exposure X of mode m
does not depend on them, so it is computed once, unless their p is drawn. The chain targets the exact conditional;
docs/howto/fold-in.md has the number of sweeps that it needs. A sweep costs as much as thinning.

A new node of a network has a row in two modes with the same labels. The rows of known nodes come first and stay as they
are; cells between two of them are missing. Tied modes have one row for both roles (gibbs/tied.py). Otherwise, the
new rows of one mode are drawn given those of the other.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

from allocore.errors import InputError
from allocore.gibbs.dispersion import counts_and_rates, draw_dispersion_of_new_rows, log_part
from allocore.gibbs.factors import ModeView, draw_factors, exposure
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import SamplerState, info_of
from allocore.gibbs.thinning import thin
from allocore.gibbs.tied import draw_tied_factors
from allocore.kernels.elementary import Floats
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.modes import checked_exposure, exposure_of
from allocore.model.simulate import dispersions
from allocore.model.spec import Spec, check_counts
from allocore.model.state import Dispersion, State, SweepInfo, log_mean_row, per_unit, times_weights
from allocore.storage.record import NewRows, Record, Schedule, empty_stats, stats_of
from allocore.tensor.count_tensor import CountTensor

Tick = Callable[[int, int], None]


def draw_new_rows(
    key: Key, layout: Layout, spec: Spec, state: State, mode: int, sweeps: int
) -> tuple[State, SweepInfo]:
    """Draw the rows of a mode given their data, `layout`, starting at `state`; return the state and its statistics."""
    before, workspace = state, Workspace.of(layout, state)
    exposure_DQ = exposure(layout, workspace, mode)
    allocation, _ = thin(key.at(0), layout, spec, state, workspace)
    for number in range(1, sweeps + 1):
        here, view = key.at(number), ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure_DQ)
        state, _ = draw_factors(here, layout, spec, state, view)
        workspace.renew(state, mode)
        if state.dispersion is not None and state.dispersion.mode == mode:
            exposure_Q = view.exposure_Q(workspace.rows(mode))
            state = draw_dispersion_of_new_rows(here, layout, spec, state, exposure_Q, workspace)
            workspace.rescale(state)
            exposure_DQ = exposure(layout, workspace, mode)
        allocation, _ = thin(here, layout, spec, state, workspace)
    view = ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure_DQ)
    return state, _info(
        layout, before, SamplerState(state, allocation), view.exposure_Q(workspace.rows(mode)), workspace
    )


def draw_new_nodes(
    key: Key, layout: Layout, spec: Spec, state: State, new: NewRows, sweeps: int
) -> tuple[State, SweepInfo]:
    """Draw the new rows of two modes given their data, `layout`, starting at `state`; return it and its statistics."""
    before, workspace = state, Workspace.of(layout, state)
    allocation, _ = thin(key.at(0), layout, spec, state, workspace)
    for number in range(1, sweeps + 1):
        here = key.at(number)
        if spec.tied == new.modes:
            state, _ = draw_tied_factors(here, layout, spec, state, allocation.y_RQ, workspace, new.first)
        for mode in new.modes:
            if spec.tied != new.modes:
                view = ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure(layout, workspace, mode))
                state = _with_known_rows(draw_factors(here, layout, spec, state, view)[0], state, new)
            workspace.renew(state, mode)
        if state.dispersion is not None and state.dispersion.mode in new.modes:
            no_Q = np.empty(0)  # each row has its own p
            drawn = draw_dispersion_of_new_rows(here, layout, spec, state, no_Q, workspace)
            state = _with_known_rows(drawn, state, new)
            workspace.rescale(state)
        allocation, _ = thin(here, layout, spec, state, workspace)
    exposure_Q = layout.missing.sums(workspace.expanded, layout.workers, workspace.scale)
    return state, _info(layout, before, SamplerState(state, allocation), exposure_Q, workspace)


def _with_known_rows(state: State, before: State, new: NewRows) -> State:
    """The state with the rows of known nodes, and their p, as they were."""
    log_phi, first = list(state.log_phi), new.first
    for mode in new.modes:
        log_phi[mode] = np.concatenate([before.log_phi[mode][:first], state.log_phi[mode][first:]])
    now, old = state.dispersion, before.dispersion
    if now is not None and old is not None and now.mode in new.modes:
        now = replace(now, log_odds_D=np.concatenate([old.log_odds_D[:first], now.log_odds_D[first:]]))
    return replace(state, log_phi=tuple(log_phi), dispersion=now)


def _info(layout: Layout, before: State, after: SamplerState, exposure_Q: Floats, workspace: Workspace) -> SweepInfo:
    """The statistics of a draw, given the exposure of its classes."""
    state, allocation = after
    # The log-likelihood without the non-zero cells: the sum of the rates or, with a dispersion, the part of p.
    if state.dispersion is None:
        log_rest = -float((state.core_values() * exposure_Q).sum())
    else:
        by, log_odds_D = state.dispersion.mode, state.dispersion.log_odds_D
        log_rest = log_part(*counts_and_rates(layout, by, state, exposure_Q, workspace), log_odds_D)
    log_likelihood = allocation.log_fit - layout.log_factorials + log_rest
    return info_of(layout, before, after, log_likelihood)


def fold_in(
    record: Record,
    tensor: CountTensor,
    modes: tuple[int, ...],
    *,
    exposure: object,
    sweeps: int,
    seed: int,
    threads: int,
    tick: Tick,
) -> Record:
    """The record of the same draws with new rows; each draw counts as one sweep.

    All rows of `tensor` in one mode are new, or those after the known nodes in two modes.
    """
    spec = record.spec
    new = NewRows(modes, 0 if len(modes) == 1 else record.tensor.shape[modes[0]])
    weights = [_weights(record.spec, tensor, mode, new.first, exposure) for mode in modes]
    if not spec.has_priors:
        rule = "must have a posterior for fold-in, but this is fitted by maximum likelihood: fit AlloCore, CP or Tucker"
        raise InputError("model", spec.model, rule)
    check_counts(spec.likelihood, tensor.max)
    spec = spec.of_new_rows(modes, weights)
    chains, draws = record.core_values.shape[:2]
    factors = list(record.factors)
    for mode in modes:
        factors[mode] = np.zeros((chains, draws, tensor.shape[mode], spec.core_shape[mode]))
    log_odds = np.zeros((chains, draws, dispersions(spec, tensor.shape)))
    stats = empty_stats((chains, draws), tensor.ndim)
    done, lock, stopped = 0, Lock(), False
    with Workers(1) as single, Workers(threads) as workers:
        layout = Layout.of(tensor, single)
        numbers = record.draw_numbers.tolist()

        def draw(chain: int, place: int) -> None:
            nonlocal done, stopped
            if stopped:
                return
            try:
                # A key for each draw, different from those of the run, and of folding in another mode.
                seeds = np.random.SeedSequence(seed, spawn_key=(chain, *(1 + mode for mode in modes), numbers[place]))
                low, high = seeds.generate_state(2, np.uint32).tolist()
                key, start = Key((low, high)), perf_counter()
                state = _start(record, chain, place, new, tensor.shape, spec)
                if len(modes) == 1:
                    state, info = draw_new_rows(key, layout, spec, state, modes[0], sweeps)
                else:
                    state, info = draw_new_nodes(key, layout, spec, state, new, sweeps)
                for mode in modes:
                    known_DK = record.factors[mode][chain, place] if new.first else factors[mode][chain, place, :0]
                    factors[mode][chain, place] = np.concatenate([known_DK, state.factors(mode)[new.first :]])
                if state.dispersion is not None:
                    log_odds[chain, place] = state.dispersion.log_odds_D
                for name, value in stats_of(info, perf_counter() - start).items():
                    stats[name][chain, place] = value
                with lock:
                    done += 1
                    tick(done, chains * draws)
            except BaseException:  # Ctrl-C too: the other threads can stop
                stopped = True
                raise

        workers.run([partial(draw, *place) for place in np.ndindex(chains, draws)])
    # The share of classes that moved in a sweep of the run, averaged over the sweeps that led to each draw.
    before_S = [record.stats["moved"][:, last - record.schedule.thin : last] for last in record.draw_sweeps.tolist()]
    return replace(
        record,
        tensor=tensor,
        spec=spec,
        schedule=Schedule(burn_in=0, draws=draws, thin=1),
        seed=seed,
        factors=tuple(factors),
        log_odds=log_odds if spec.dispersion_by in modes else record.log_odds,
        stats={**stats, "moved": np.stack([moved.mean(axis=1) for moved in before_S], axis=1)},
        attributes=None,
        chosen=None,
        held_out=None,
        new_rows=new,
        planned_chains=None,
    )


def _weights(spec: Spec, tensor: CountTensor, mode: int, first: int, exposure: object) -> Floats | None:
    """The weights of the rows of a mode: those of the fit for known nodes, and those that are given from `first` on."""
    name, known_D = tensor.mode_names[mode], spec.exposure(mode)
    if first and exposure is not None:
        new_D: Floats | None = checked_exposure(exposure, tensor.labels[mode][first:], name)
    else:
        new_D = None if first else exposure_of(exposure, tensor, mode)
    if new_D is None and known_D is not None:
        raise InputError("exposure", None, f"must have the weights of the new rows: the fit has exposures of {name!r}")
    if not first or new_D is None:
        return new_D
    return np.concatenate([np.ones(first) if known_D is None else known_D, new_D])


def _start(record: Record, chain: int, draw: int, new: NewRows, shape: tuple[int, ...], spec: Spec) -> State:
    """The draw with new rows, all equal to the mean of its rows: of factors per unit, and of the log odds of p."""
    state, first = record.state_of(chain, draw), new.first
    for mode in new.modes:
        mean_K = log_mean_row(per_unit(state.log_phi[mode], record.spec.exposure(mode)))
        weights_D = spec.exposure(mode)
        rows_DK = np.tile(mean_K, (shape[mode] - first, 1))
        rows_DK = times_weights(rows_DK, None if weights_D is None else weights_D[first:])
        state = state.with_factors(mode, np.concatenate([state.log_phi[mode][:first], rows_DK]))
    p = state.dispersion
    if p is None or p.mode not in new.modes:
        return state
    mean_D = np.full(shape[p.mode] - first, p.log_odds_D.mean())
    return replace(state, dispersion=Dispersion(np.concatenate([p.log_odds_D[:first], mean_D]), p.mode))

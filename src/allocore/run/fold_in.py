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
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

from allocore.errors import NO_VALUE, InputError
from allocore.gibbs.dispersion import counts_and_rates, draw_dispersion_of_new_rows, log_part
from allocore.gibbs.factors import ModeView, draw_factors, exposure
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import SamplerState, info_of
from allocore.gibbs.thinning import thin
from allocore.kernels.elementary import Floats
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.modes import exposure_of
from allocore.model.simulate import dispersions
from allocore.model.spec import Spec, check_counts
from allocore.model.state import Dispersion, State, SweepInfo, log_mean_row, per_unit, times_weights
from allocore.storage.record import Record, Schedule, empty_stats, stats_of
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
    exposure_Q = view.exposure_Q(workspace.rows(mode))
    # The log-likelihood without the non-zero cells: the sum of the rates or, with a dispersion, the part of p.
    if state.dispersion is None:
        log_rest = -float((state.core_values() * exposure_Q).sum())
    else:
        by, log_odds_D = state.dispersion.mode, state.dispersion.log_odds_D
        log_rest = log_part(*counts_and_rates(layout, by, state, exposure_Q, workspace), log_odds_D)
    log_likelihood = allocation.log_fit - layout.log_factorials + log_rest
    return state, info_of(layout, before, SamplerState(state, allocation), log_likelihood)


def fold_in(
    record: Record,
    tensor: CountTensor,
    mode: int,
    *,
    exposure: object,
    sweeps: int,
    seed: int,
    threads: int,
    tick: Tick,
) -> Record:
    """The record of the same draws with the rows of `tensor` in one mode; each draw counts as one sweep."""
    spec = record.spec
    weights_D = exposure_of(exposure, tensor, mode)
    if weights_D is None and spec.exposure(mode) is not None:
        name = tensor.mode_names[mode]
        rule = f"must have the weights of the new rows: the fit has exposures of {name!r}"
        raise InputError("exposure", NO_VALUE, rule)
    if not spec.has_priors:
        rule = "must have a posterior for fold-in, but this is fitted by maximum likelihood: fit AlloCore, CP or Tucker"
        raise InputError("model", spec.model, rule)
    check_counts(spec.likelihood, tensor.max)
    spec = spec.of_new_rows(mode, weights_D)
    chains, draws = record.core_values.shape[:2]
    factor = np.zeros((chains, draws, tensor.shape[mode], spec.core_shape[mode]))
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
                seeds = np.random.SeedSequence(seed, spawn_key=(chain, 1 + mode, numbers[place]))
                low, high = seeds.generate_state(2, np.uint32).tolist()
                key, start = Key((low, high)), perf_counter()
                state = _start(record, chain, place, mode, tensor.shape[mode], spec.exposure(mode))
                state, info = draw_new_rows(key, layout, spec, state, mode, sweeps)
                factor[chain, place] = state.factors(mode)
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
        factors=(*record.factors[:mode], factor, *record.factors[mode + 1 :]),
        log_odds=log_odds if spec.dispersion_by == mode else record.log_odds,
        stats={**stats, "moved": np.stack([moved.mean(axis=1) for moved in before_S], axis=1)},
        attributes=None,
        chosen=None,
        held_out=None,
        folded_mode=mode,
        planned_chains=None,
    )


def _start(record: Record, chain: int, draw: int, mode: int, rows: int, weights_D: Floats | None) -> State:
    """The draw with new rows, all equal to the mean of its rows: of factors per unit, and of the log odds of p."""
    state = record.state_of(chain, draw)
    mean_K = log_mean_row(per_unit(state.log_phi[mode], record.spec.exposure(mode)))
    state = state.with_factors(mode, times_weights(np.tile(mean_K, (rows, 1)), weights_D))
    if state.dispersion is None or state.dispersion.mode != mode:
        return state
    log_odds_D = np.full(rows, state.dispersion.log_odds_D.mean())
    return replace(state, dispersion=Dispersion(log_odds_D, mode))

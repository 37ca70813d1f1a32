"""Fold-in: new rows of one mode, drawn given every draw of a finished run.

For each draw of each chain, gibbs/new_rows.py runs a short chain over the new rows; its last state is the draw. It
starts at the column means of the factors of the draw: rows like the average of the old ones. The random numbers are a
function of (seed, chain, draw, sweep) and differ from those of the run, so the result does not depend on the threads.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.gibbs.layout import Layout
from allocore.gibbs.new_rows import draw_new_rows
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import dispersions
from allocore.model.spec import check_counts
from allocore.model.state import Dispersion, State
from allocore.model.sweep_info import SweepInfo
from allocore.run.record import Record
from allocore.run.schedule import Schedule
from allocore.run.schema import STATS
from allocore.run.store import stats_of

Tick = Callable[[int, int], None]


def fold_in(
    record: Record, tensor: CountTensor, mode: int, *, sweeps: int, seed: int, threads: int, tick: Tick
) -> Record:
    """The record of the same draws with new rows in one mode, those of `tensor`; its other rows are those of the run.

    `tick` gets the number of draws done and of all.
    """
    if not record.spec.has_priors:
        raise InputError(
            f"{record.spec.model} is fitted by maximum likelihood and has no posterior, so no rows can be folded in: "
            "fit AlloCore, CP or Tucker"
        )
    check_counts(record.spec.likelihood, tensor.largest)
    kept = _Kept(record, tensor, mode, tick)
    with Workers(1) as alone, Workers(threads) as workers:
        layout = Layout.of(tensor, alone)
        numbers = record.draw_numbers.tolist()

        def draw(chain: int, place: int) -> None:
            if kept.stopped:
                return
            try:
                key, begun = _key(seed, chain, mode, numbers[place]), perf_counter()
                state = _start(record, chain, place, mode, tensor.shape[mode])
                state, info = draw_new_rows(key, layout, record.spec, state, mode, sweeps)
                kept.put(chain, place, state, info, perf_counter() - begun)
            except BaseException:  # Ctrl-C too: the other threads need not go on
                kept.stopped = True
                raise

        workers.run([partial(draw, *place) for place in np.ndindex(record.core_values.shape[:2])])
    return kept.record(seed)


def _key(seed: int, chain: int, mode: int, draw: int) -> Key:
    """A key for each draw, different from those of the run, and of folding in another mode."""
    low, high = np.random.SeedSequence(seed, spawn_key=(chain, 1 + mode, draw)).generate_state(2, np.uint32)
    return Key((int(low), int(high)))


def _start(record: Record, chain: int, draw: int, mode: int, rows: int) -> State:
    """The draw with new rows that are as its rows are on average: means of factors, and of the log odds of p."""
    state = record.state_of(chain, draw)
    state = state.with_factors(mode, np.tile(state.log_mean_row(mode), (rows, 1)))
    if state.dispersion is None or state.dispersion.mode != mode:
        return state
    log_odds_D = np.full(rows, state.dispersion.log_odds_D.mean())
    return replace(state, dispersion=Dispersion(log_odds_D, mode))


class _Kept:
    """The new rows and the statistics of all draws, while they are made by several threads."""

    def __init__(self, run: Record, tensor: CountTensor, mode: int, tick: Tick) -> None:
        self._run, self._tensor, self._mode, self._tick = run, tensor, mode, tick
        lead, modes = run.core_values.shape[:2], tensor.ndim
        self._factor = np.zeros((*lead, tensor.shape[mode], run.spec.core_shape[mode]))
        self._log_odds = np.zeros((*lead, dispersions(run.spec, tensor.shape)))
        self._stats: dict[str, NDArray[Any]] = {
            name: np.zeros((*lead, modes) if by_mode else lead, dtype) for name, (dtype, by_mode) in STATS.items()
        }
        self._done, self._lock, self.stopped = 0, Lock(), False

    def put(self, chain: int, draw: int, state: State, info: SweepInfo, seconds: float) -> None:
        """Keep the rows of one draw."""
        self._factor[chain, draw] = state.factors(self._mode)
        if state.dispersion is not None:
            self._log_odds[chain, draw] = state.dispersion.log_odds_D
        for name, value in stats_of(info, seconds).items():
            self._stats[name][chain, draw] = value
        with self._lock:
            self._done += 1
            self._tick(self._done, self._stats["moved"].size)

    def record(self, seed: int) -> Record:
        """The record of the new rows. Each draw counts as one sweep."""
        run, mode = self._run, self._mode
        factors = (*run.factors[:mode], self._factor, *run.factors[mode + 1 :])
        by_row = run.spec.dispersion_by == mode
        return replace(
            run,
            tensor=self._tensor,
            schedule=Schedule(burn_in=0, draws=self._factor.shape[1], thin=1),
            seed=seed,
            factors=factors,
            log_odds=self._log_odds if by_row else run.log_odds,
            stats={**self._stats, "moved": _moved(run)},
            attributes=None,
            chosen=None,
            held_out=None,
            folded_mode=mode,
        )


def _moved(run: Record) -> NDArray[np.float64]:
    """The share of classes that moved in a sweep of the run, averaged over the sweeps that led to each draw."""
    last_S, thin = run.draw_sweeps, run.schedule.thin
    return np.stack([run.stats["moved"][:, last - thin : last].mean(axis=1) for last in last_S.tolist()], axis=1)

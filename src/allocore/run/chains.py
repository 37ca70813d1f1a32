"""Running chains: sweeps in a row, the kept ones handed to the store, the outside world told between them."""

import warnings
from math import isfinite
from time import perf_counter

import numpy as np

from allocore._workers import Workers
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.gibbs._random import Key
from allocore.gibbs.layout import Layout
from allocore.gibbs.rows import Rows
from allocore.gibbs.sweep import begin, sweep
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.run.progress import Observer, Watch
from allocore.run.record import Record
from allocore.run.schedule import Schedule
from allocore.run.store import Store


def run_chains(
    tensor: CountTensor,
    spec: Spec,
    schedule: Schedule,
    *,
    chains: int,
    seed: int,
    threads: int,
    store: Store,
    observer: Observer | None = None,
) -> Record:
    """Run the chains one after another. On Ctrl-C, what exists is kept: whole chains, or the draws of the first."""
    watch = Watch(observer)
    done = [0] * chains
    try:
        with Workers(threads) as workers:
            layout = Layout.of(tensor, workers)
            for chain in range(chains):
                _run_chain(layout, spec, schedule, chain, seed, store, watch, done)
    except KeyboardInterrupt:
        _report_interruption(schedule, done)
    finally:
        watch.close()
    whole = done.count(schedule.sweeps)
    return store.finish(whole, schedule.sweeps) if whole else store.finish(1, done[0])


def _run_chain(
    layout: Layout,
    spec: Spec,
    schedule: Schedule,
    chain: int,
    seed: int,
    store: Store,
    watch: Watch,
    done: list[int],
) -> None:
    """Run one chain; `done[chain]` is at any instant the number of its sweeps that are recorded."""
    key = Key.of(seed, chain)
    state = first_state(spec, layout.shape, first_values(seed, chain))
    rows = Rows.of(layout, state)
    allocation = begin(key.at(0), layout, state, rows)
    for number in range(1, schedule.sweeps + 1):
        start = perf_counter()
        state, allocation, info = sweep(key.at(number), layout, spec, state, allocation, rows)
        if not isfinite(info.log_likelihood):
            raise InputError(
                f"the log-likelihood of chain {chain} is {info.log_likelihood} after sweep {number}: the priors "
                f"(a0={spec.a0}, b0={spec.b0}, e0={spec.e0}, f0={spec.f0}) lead beyond what 64-bit floats hold"
            )
        store.record_sweep(chain, number, info, perf_counter() - start)
        draw = schedule.draw_of(number)
        if draw is not None:
            store.record_draw(chain, draw, state)
        done[chain] = number
        watch.sweep_done(chain, number, info, last=number == schedule.sweeps)


def first_values(seed: int, chain: int) -> np.random.Generator:
    """The generator of a chain's first values."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(chain, 0))))


def _report_interruption(schedule: Schedule, done: list[int]) -> None:
    """Warn of what is kept; if that is nothing, the interruption goes on."""
    whole = done.count(schedule.sweeps)
    draws = schedule.draws if whole else schedule.draws_after(done[0])
    if draws == 0:
        raise KeyboardInterrupt("interrupted before the first draw was kept")
    warnings.warn(
        f"interrupted: keeping {draws} of {schedule.draws} draws in {max(whole, 1)} of {len(done)} chains", stacklevel=4
    )

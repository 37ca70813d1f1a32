"""Running chains: sweeps in a row, the kept ones handed to the store, the outside world told between them."""

import warnings
from time import perf_counter

import numpy as np

from allocore._workers import Workers
from allocore.data.tensor import CountTensor
from allocore.gibbs._random import Key
from allocore.gibbs.layout import Layout
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
    reached = []
    try:
        with Workers(threads) as workers:
            layout = Layout.of(tensor, workers)
            for chain in range(chains):
                reached.append(_run_chain(layout, spec, schedule, chain, seed, store, watch))
                if reached[-1] < schedule.sweeps:
                    break
    finally:
        watch.close()
    whole = reached.count(schedule.sweeps)
    kept, sweeps = (whole, schedule.sweeps) if whole else (1, reached[0])
    if kept < chains or sweeps < schedule.sweeps:
        _report_interruption(schedule, kept, chains, sweeps)
    return store.finish(kept, sweeps)


def _run_chain(
    layout: Layout, spec: Spec, schedule: Schedule, chain: int, seed: int, store: Store, watch: Watch
) -> int:
    """Run one chain to its end or to Ctrl-C; returns the number of sweeps that are done and recorded."""
    key = Key.of(seed, chain)
    state = first_state(spec, layout.shape, first_values(seed, chain))
    done = 0
    try:
        allocation = begin(key.at(0), layout, state)
        for number in range(1, schedule.sweeps + 1):
            start = perf_counter()
            state, allocation, info = sweep(key.at(number), layout, spec, state, allocation)
            store.record_sweep(chain, number, info, perf_counter() - start)
            draw = schedule.draw_of(number)
            if draw is not None:
                store.record_draw(chain, draw, state)
            done = number
            watch.sweep_done(chain, number, info, last=number == schedule.sweeps)
    except KeyboardInterrupt:
        return done
    return done


def first_values(seed: int, chain: int) -> np.random.Generator:
    """The generator of a chain's first values."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(chain, 0))))


def _report_interruption(schedule: Schedule, kept: int, chains: int, sweeps: int) -> None:
    draws = schedule.draws_after(sweeps)
    if draws == 0:
        raise KeyboardInterrupt("interrupted before the first draw was kept")
    warnings.warn(f"interrupted: keeping {draws} of {schedule.draws} draws in {kept} of {chains} chains", stacklevel=4)

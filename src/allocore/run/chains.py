"""Running chains: make sweeps, pass the kept ones to the store, and report progress between sweeps.

All chains of a run advance together, so that an unfinished run has draws of every chain. If there are at least as many
threads as chains, every chain has its own threads. Otherwise chains take turns on a thread, sweep by sweep.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from math import isfinite
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from allocore.errors import InputError, StoreError
from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import begin, sweep
from allocore.gibbs.thinning import Allocation, ThinCells, thin_here
from allocore.gibbs.workspace import Workspace
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.sweep_info import SweepInfo
from allocore.run.compiling import compiled_aside
from allocore.run.progress import Observer, Watch
from allocore.run.record import Record
from allocore.run.stop import Stop
from allocore.run.store import Store

if TYPE_CHECKING:
    from allocore.run.cluster.sharded_thinning import ShardedThinning


def run_chains(
    store: Store, *, threads: int, observer: Observer | None = None, sharded: "ShardedThinning | None" = None
) -> Record:
    """Run the chains of the store's plan, from where the store left them to their end, or until someone stops them.

    If the cells of the tensor are `sharded`, they are thinned on workers, and all else is done here.
    """
    chains = range(store.plan.chains)
    lanes = min(len(chains), threads)
    watch, stop = Watch(observer), Stop()
    with ExitStack() as stack:
        stack.enter_context(store)
        stack.callback(watch.close)
        stack.enter_context(stop)
        wait = stack.enter_context(compiled_aside(store.plan.spec, bool(len(store.plan.tensor.missing)), threads))
        pools = [stack.enter_context(Workers(_share(threads, lanes, lane))) for lane in range(lanes)]
        layout = Layout.of(store.plan.tensor, pools[0]) if sharded is None else sharded.layout(pools[0])
        layouts, thin_cells = [replace(layout, workers=pool) for pool in pools], sharded or thin_here
        _side_by_side(
            [
                [Chain(store, chain, layouts[lane], watch, thin_cells, wait) for chain in chains[lane::lanes]]
                for lane in range(lanes)
            ],
            stop,
        )
        record = store.finish()
    if stop.asked and record.stats["moved"].shape[1] < store.plan.schedule.sweeps:
        report_stop(store, record)
    return record


def _share(threads: int, lanes: int, lane: int) -> int:
    return threads // lanes + (lane < threads % lanes)


class Chain:
    """One chain between two sweeps. It starts from its first state, or from the state in the store."""

    def __init__(
        self, store: Store, number: int, layout: Layout, watch: Watch, thin_cells: ThinCells = thin_here,
        wait_for_kernels: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._store, self._number, self._layout, self._watch = store, number, layout, watch
        self._thin_cells, self._wait_for_kernels = thin_cells, wait_for_kernels
        plan = store.plan
        self._key = Key.of(plan.seed, number, plan.started)
        point = store.resume_point(number)
        if point is None:
            point = 0, first_state(plan.spec, layout.shape, first_values(plan.seed, number))
        self._sweep, self._state = point
        self._work: tuple[Workspace, Allocation] | None = None

    @property
    def done(self) -> bool:
        """Whether all planned sweeps are done."""
        return self._sweep >= self._store.plan.schedule.sweeps

    def advance(self) -> None:
        """Make one sweep, record it, and let the store save."""
        plan, number = self._store.plan, self._sweep + 1
        workspace, allocation = self._work or self._begin()
        start = perf_counter()
        state, allocation, info = sweep(
            self._key.at(number), self._layout, plan.spec, self._state, allocation, workspace, self._thin_cells
        )
        _check(info, self._number, number, plan.spec)
        self._store.record_sweep(self._number, number, info, perf_counter() - start)
        draw = plan.schedule.draw_of(number)
        if draw is not None:
            self._store.record_draw(self._number, draw, state)
        self._sweep, self._state, self._work = number, state, (workspace, allocation)
        self._store.save(self._number, number, state, now=self.done)
        self._watch.sweep_done(self._number, number, info, last=self.done)

    def save(self) -> None:
        """Save the state of the chain, if it has made a sweep."""
        if self._work is not None and not self.done:
            self._store.save(self._number, self._sweep, self._state, now=True)

    def _begin(self) -> tuple[Workspace, Allocation]:
        """What the next sweep needs besides the state.

        The last sweep ended with an allocation of the counts. It is drawn again with the same random numbers.
        """
        workspace, key = Workspace.of(self._layout, self._state), self._key.at(self._sweep)
        given = key, self._layout, self._store.plan.spec, self._state, workspace, self._thin_cells
        allocation = begin(*given)
        self._wait_for_kernels()
        return workspace, allocation


def _check(info: SweepInfo, chain: int, sweep: int, spec: Spec) -> None:
    if not isfinite(info.log_likelihood):
        names = ["a0", "b0", "e0", "f0"] + ["s0", "t0"] * spec.infer_concentrations
        names += ["g0", "h0"] * spec.observation.has_dispersion
        priors = ", ".join(f"{name}={getattr(spec, name)}" for name in names)
        raise InputError(
            f"the log-likelihood of chain {chain} is {info.log_likelihood} after sweep {sweep}: the priors ({priors}) "
            "lead to numbers beyond 64-bit floats"
        )


def _side_by_side(lanes: Sequence[Sequence[Chain]], stop: Stop) -> None:
    """Run the lanes at the same time, the first in this thread; raise the first error after all have ended.

    No lane outlives this call. After a second Ctrl-C nothing more is saved, but the sweeps under way still end.
    """
    errors: list[BaseException] = []
    ended: SimpleQueue[None] = SimpleQueue()  # not Thread.join: once interrupted, it considers the thread dead

    def run(lane: Sequence[Chain]) -> None:
        try:
            _take_turns(lane, stop)
        except BaseException as error:
            errors.append(error)
            stop.now = True
            stop.at_once |= isinstance(error, KeyboardInterrupt)
        finally:
            ended.put(None)

    begun = 0
    try:
        for lane in lanes[1:]:
            Thread(target=run, args=(lane,), name="allocore-chains", daemon=True).start()
            begun += 1
        run(lanes[0])
        begun += 1
    except BaseException:  # a thread could not be started
        stop.now = True
        raise
    finally:
        while begun:
            try:
                ended.get()
                begun -= 1
            except KeyboardInterrupt as error:
                errors.append(error)
                stop.now = stop.at_once = True
    if errors:
        raise errors[0]


def _take_turns(lane: Sequence[Chain], stop: Stop) -> None:
    """Advance the chains in turn, sweep by sweep, until they are done or must stop; then save them."""
    try:
        while not stop.now and (waiting := [chain for chain in lane if not chain.done]):
            for chain in waiting:
                if not stop.now:
                    chain.advance()
    except StoreError:  # if the workers that thin shards are gone, the last whole sweeps are safe
        with suppress(StoreError):
            for chain in lane:
                chain.save()
        raise
    for chain in lane:
        if not stop.at_once:
            chain.save()


def first_values(seed: int, chain: int) -> np.random.Generator:
    """The random generator for a chain's first values."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(chain, 0))))


def report_stop(store: Store, record: Record) -> None:
    """Warn that the run is incomplete; if it has no draw at all, raise KeyboardInterrupt again."""
    plan, draws, how = store.plan, record.core_values.shape[1], store.how_to_resume()
    after = f"; {how}" if how else ""
    if draws == 0:
        sweeps = record.stats["moved"].shape[1]
        raise KeyboardInterrupt(
            f"stopped after {sweeps} of {plan.schedule.sweeps} sweeps, before the first draw was kept{after}"
        )
    chains = f" of {plan.chains} chains" if plan.chains > 1 else ""
    warnings.warn(f"stopped: {draws} of {plan.schedule.draws} draws{chains} are kept{after}", stacklevel=5)

"""Chains on an executor, in slices: some sweeps of a chain from a given state, as one task for a worker.

Every random number is a function of the seed, the chain, the sweep and a place in the data, so a task can be repeated
anywhere, and any division of a chain into slices gives the same bytes.

The process that calls `fit` is the driver: it hands out slices (tasks.py) and passes their draws to the store in the
order of the sweeps. Draws come back as files if the worker can reach the folder of the run (storage/state_files.py),
and otherwise with the answer. To stop, the driver hands out no new slice and waits for those that are running.

A slice has at least 20 sweeps, so that drawing the first allocation again costs little, and takes about 5 seconds.
"""

from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import uuid4

from allocore.errors import Described, InputError, StoreError
from allocore.findings import Finding, warn
from allocore.gibbs.layout import Layout
from allocore.kernels.workers import Workers
from allocore.model.state import State, SweepInfo
from allocore.progress import Observer, Watch
from allocore.run.chains import Chain, NextRound, Stop, report_stop, run_rounds
from allocore.run.cluster.tasks import DataWanted, Tasks, Versions, check_versions, remembered
from allocore.storage.record import Plan, Record, Store
from allocore.storage.state_files import SharedFolder, open_slices, remove_slices, take_slice

_LEAST_SWEEPS, _SLICE_SECONDS = 20, 5.0
_STOPS_WITHIN = 30.0  # seconds that a stopped run waits for its slices, at least; and 3 times what a slice has taken


class Slice(NamedTuple):
    """A task: some sweeps of a chain. States are written to `folder` if the worker can reach it."""

    run: str
    chain: int
    start: tuple[int, State] | None
    sweeps: int
    threads: int
    folder: SharedFolder | None = None


@dataclass
class SliceResult:
    """The sweeps of a slice in order, and the states that are draws or the last one; None if they are in its file."""

    chain: int
    sweeps: list[tuple[int, SweepInfo, float]]
    states: dict[int, State] | None = None
    versions: Versions = field(default_factory=Versions.here)


def run_slice(task: Slice, plan: Plan | None) -> SliceResult | DataWanted:
    """Make the sweeps of a slice. Without a plan, the worker must know the run from an earlier task."""
    known = remembered(task.run, plan, _with_layout)
    if known is None:
        return DataWanted(Versions.here())
    known_plan, layout = known
    store = _SliceStore(known_plan, task.start)
    with Workers(task.threads) as workers:
        chain = Chain(store, task.chain, replace(layout, workers=workers), Watch(None))  # type: ignore[arg-type]
        for _ in range(task.sweeps):
            if not chain.done:
                chain.advance()
    sweeps, states = store.sweeps, {**store.draws, **store.last}
    written = task.folder is not None and task.folder.write(task.chain, sweeps[0][0], sweeps[-1][0], states)
    return SliceResult(task.chain, sweeps, None if written else states)


def _with_layout(plan: Plan) -> tuple[Plan, Layout]:
    with Workers(1) as workers:
        return plan, Layout.of(plan.tensor, workers)


class _SliceStore:
    """The part of a store that a chain needs: the plan, where to start, and the results of the sweeps."""

    def __init__(self, plan: Plan, start: tuple[int, State] | None) -> None:
        self.plan, self._start, self.sweeps = plan, start, list[tuple[int, SweepInfo, float]]()
        self.draws, self.last = dict[int, State](), dict[int, State]()  # by their sweeps

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        return self._start

    def record_sweep(self, chain: int, sweep: int, info: SweepInfo, seconds: float) -> None:
        self.sweeps.append((sweep, info, seconds))

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        self.draws[self.plan.schedule.sweep_of(draw)] = state

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        self.last = {sweep: state}


def as_executor(given: object) -> Executor:
    """The executor itself, or that of a Dask client."""
    if type(given).__module__.partition(".")[0] == "distributed":
        client: Any = getattr(given, "_client", given)
        if hasattr(client, "get_executor"):
            # Not pure: a repeated task must run again.
            executor: Executor = client.get_executor(**{**getattr(given, "_kwargs", {}), "pure": False})
            return executor
    if isinstance(given, Executor):
        return given
    rule = "must be a dask.distributed.Client or a concurrent.futures.Executor, such as a ProcessPoolExecutor"
    raise InputError("executor", Described(f"a {type(given).__name__}"), rule)


def run_on_executor(
    store: Store, executor: Executor, *, threads: int, observer: Observer | None = None,
    next_round: NextRound | None = None, max_time: float | None = None,
) -> Record:  # fmt: skip
    """Run the chains of the store's plan on an executor, to the end or until they are stopped; see `run_chains`."""
    stop = Stop("stopping after the sweeps that are running (Ctrl-C again: at once)", max_time)

    def run_round(observer: Observer | None) -> None:
        with ExitStack() as round_stack:
            watch = Watch(observer)
            round_stack.callback(watch.close)
            driver = _Driver(store, executor, threads, watch)
            round_stack.callback(driver.close)
            try:
                driver.drive(stop)
            except StoreError:  # of the executor: the results so far are safe
                driver.save()
                raise
            driver.save()

    with store, stop:
        record = run_rounds(store, run_round, observer, next_round, stop)
    report_stop(store, record, stop, max_time)
    return record


class _Driver:
    def __init__(self, store: Store, executor: Executor, threads: int, watch: Watch) -> None:
        self._store, self._threads, self._watch = store, threads, watch
        self._run = uuid4().hex
        self._points: list[tuple[int, State] | None] = [store.resume_point(c) for c in range(store.plan.chains)]
        self._sweeps, self._warned = _LEAST_SWEEPS, False
        self._shared = None if store.path is None else open_slices(store.path)
        plan = replace(store.plan, held_out=None)  # the draws do not depend on held-out cells
        self._tasks: Tasks[int] = Tasks(executor, run_slice, lambda: plan, go_on=store.how_to_resume())

    def drive(self, stop: Stop) -> None:
        """Run all chains to their ends or, when asked to stop, only the slices that are running."""
        for chain in range(self._store.plan.chains):
            self._hand_out(chain)
        while len(self._tasks):
            for chain, result, _ in self._tasks.answers(repeat=not stop.now):
                self._record(result)
                if not stop.now:
                    self._hand_out(chain)
            if stop.now and self._tasks.silence() > max(_STOPS_WITHIN, 3.0 * self._tasks.longest):
                return

    def save(self) -> None:
        for chain, point in enumerate(self._points):
            if point is not None and point[0] < self._store.plan.schedule.sweeps:
                self._store.save(chain, *point, now=True)

    def close(self) -> None:
        self._tasks.cancel()
        if self._store.path is not None:
            remove_slices(self._store.path)

    def _hand_out(self, chain: int) -> None:
        point = self._points[chain]
        left = self._store.plan.schedule.sweeps - (0 if point is None else point[0])
        if left > 0:
            task = Slice(self._run, chain, point, min(left, self._sweeps), self._threads, self._shared)
            self._tasks.hand_out(chain, task)

    def _record(self, result: SliceResult) -> None:
        """Pass the result of a slice to the store, and choose the length of the next."""
        check_versions(result.versions)
        states = self._states(result)
        if states is None:
            return
        chain, schedule = result.chain, self._store.plan.schedule
        for sweep, info, seconds in result.sweeps:
            self._store.record_sweep(chain, sweep, info, seconds)
            draw = schedule.draw_of(sweep)
            if draw is not None:
                self._store.record_draw(chain, draw, states[sweep])
        last, info, _ = result.sweeps[-1]
        # Many sweeps come at a time. Only the newest is shown: the display takes no other for a moment after the first.
        self._watch.sweep_done(chain, last, info, last=last >= schedule.sweeps)
        self._points[chain] = last, states[last]
        self._store.save(chain, last, states[last], now=last >= schedule.sweeps)
        each = sum(seconds for _, _, seconds in result.sweeps) / len(result.sweeps)
        self._sweeps = max(_LEAST_SWEEPS, int(_SLICE_SECONDS / max(each, 1e-9)))

    def _states(self, result: SliceResult) -> dict[int, State] | None:
        """The states of a slice, from its file or from its answer; None if its file cannot be read here."""
        states, plan, path, why = result.states, self._store.plan, self._store.path, ""
        if states is not None:
            why = "not-reached" if self._shared is not None else ""
        elif path is not None:
            first, last = result.sweeps[0][0], result.sweeps[-1][0]
            states = take_slice(path, result.chain, first, last, plan.tensor.shape, plan.spec)
        if states is None:
            why = "not-read"
            self._shared = None  # the same slice is handed out again, and its answer will have the states
        if why and not self._warned:
            warn(Finding("draws-through-executor", "caution", {"path": str(path), "why": why}), stacklevel=4)
            self._warned = True
        return states

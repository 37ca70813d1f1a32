"""Chains on an executor: a Dask cluster, a process pool, or anything else with the interface of concurrent.futures.

The process that calls `fit` drives: it hands out slices of chains (chain_slices.py), takes their draws home, and passes
them to the store in the order of the sweeps. Workers keep nothing that cannot be made again. A slice that is lost with
its worker is handed out again (tasks.py). Draws come home as files in the folder of the run, if there is one that the
worker reaches, or else with the answer (slice_files.py).

    slice      at least 20 sweeps, so that drawing the first allocation again costs little; about 5 seconds
    stopping   no new slice is handed out, and those under way are waited for
    waiting    ends: if nothing comes back for long, the run stops with an error, and what was saved can be resumed
"""

import warnings
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from allocore.errors import InputError, StoreError
from allocore.run.chains import report_stop
from allocore.run.cluster.chain_slices import Outcome, Slice, run_slice
from allocore.run.cluster.slice_files import SliceFolder
from allocore.run.cluster.tasks import Tasks
from allocore.run.cluster.worker_data import check_versions
from allocore.run.progress import Observer, Watch
from allocore.run.record import Record
from allocore.run.stop import Stop
from allocore.run.store import Store

if TYPE_CHECKING:
    from allocore.model.state import State

_LEAST_SWEEPS, _SECONDS = 20, 5.0
_STOPS_WITHIN = 30.0  # seconds that a stopped run waits for its slices, at least; and 3 times what a slice has taken


def as_executor(given: object) -> Executor:
    """The executor that was meant: a Dask client has one, and everything else must be one."""
    if type(given).__module__.partition(".")[0] == "distributed":
        client: Any = getattr(given, "_client", given)
        if hasattr(client, "get_executor"):
            # Not pure: a task that is repeated must be made again.
            executor: Executor = client.get_executor(**{**getattr(given, "_kwargs", {}), "pure": False})
            return executor
    if isinstance(given, Executor):
        return given
    raise InputError(
        f"executor is a {type(given).__name__}, but it must be a dask.distributed.Client or a "
        "concurrent.futures.Executor, such as a ProcessPoolExecutor"
    )


def run_on_executor(store: Store, executor: Executor, *, threads: int, observer: Observer | None = None) -> Record:
    """Run the chains of the store's plan on an executor, to their end or until someone stops them."""
    watch, stop = Watch(observer), Stop("stopping after the sweeps that workers have begun (Ctrl-C again: at once)")
    with ExitStack() as stack:
        stack.enter_context(store)
        stack.callback(watch.close)
        stack.enter_context(stop)
        driver = _Driver(store, executor, threads, watch)
        stack.callback(driver.close)
        try:
            driver.drive(stop)
        except StoreError:  # of the executor: what came home is safe
            driver.save()
            raise
        driver.save()
        record = store.finish()
    if stop.asked and record.stats["moved"].shape[1] < store.plan.schedule.sweeps:
        report_stop(store, record)
    return record


class _Driver:
    """Hands out slices and takes their outcomes home."""

    def __init__(self, store: Store, executor: Executor, threads: int, watch: Watch) -> None:
        self._store, self._threads, self._watch = store, threads, watch
        self._run = uuid4().hex
        self._points: list[tuple[int, State] | None] = [store.resume_point(c) for c in range(store.plan.chains)]
        self._sweeps = _LEAST_SWEEPS
        self._folder = None if store.path is None else SliceFolder(store.path)
        self._place = None if self._folder is None else self._folder.open()
        self._told = False
        # Nobody needs the held-out cells to draw.
        self._tasks: Tasks[int] = Tasks(
            executor, run_slice, lambda: replace(store.plan, held_out=None), go_on=store.how_to_resume()
        )

    def drive(self, stop: Stop) -> None:
        """Until all chains are done, or until those under way have ended after someone asked to stop."""
        for chain in range(self._store.plan.chains):
            self._hand_out(chain)
        while len(self._tasks):
            for chain, outcome, _ in self._tasks.answers(repeat=not stop.now):
                self._keep(outcome)
                if not stop.now:
                    self._hand_out(chain)
            if stop.now and self._tasks.silence() > max(_STOPS_WITHIN, 3.0 * self._tasks.longest()):
                return

    def save(self) -> None:
        """Save the states of the chains that are not done; the others are saved."""
        for chain, point in enumerate(self._points):
            if point is not None and point[0] < self._store.plan.schedule.sweeps:
                self._store.save(chain, *point, now=True)

    def close(self) -> None:
        """Take back what has not begun, and remove the files of slices."""
        self._tasks.cancel()
        if self._folder is not None:
            self._folder.close()

    def _hand_out(self, chain: int) -> None:
        """Hand out the next slice of a chain, unless it is done."""
        point = self._points[chain]
        left = self._store.plan.schedule.sweeps - (0 if point is None else point[0])
        if left > 0:
            wanted = Slice(self._run, chain, point, min(left, self._sweeps), self._threads, self._place)
            self._tasks.hand_out(chain, wanted)

    def _keep(self, outcome: Outcome) -> None:
        """Pass what a slice gave to the store, and choose the length of the next."""
        check_versions(outcome.versions)
        states = self._states(outcome)
        if states is None:
            return
        chain, schedule = outcome.chain, self._store.plan.schedule
        for sweep, info, seconds in outcome.sweeps:
            self._store.record_sweep(chain, sweep, info, seconds)
            draw = schedule.draw_of(sweep)
            if draw is not None:
                self._store.record_draw(chain, draw, states[sweep])
        last = outcome.span[1]
        # Sweeps come home many at a time: the newest is shown, and not the first, after which the display has its rest.
        self._watch.sweep_done(chain, last, outcome.sweeps[-1][1], last=last >= schedule.sweeps)
        self._points[chain] = last, states[last]
        self._store.save(chain, last, states[last], now=last >= schedule.sweeps)
        each = sum(seconds for _, _, seconds in outcome.sweeps) / len(outcome.sweeps)
        self._sweeps = max(_LEAST_SWEEPS, int(_SECONDS / max(each, 1e-9)))

    def _states(self, outcome: Outcome) -> "dict[int, State] | None":
        """The states of a slice, from its file or from its answer; None if its file cannot be read here."""
        if outcome.states is not None:
            if self._place is not None:
                self._tell("a worker does not reach it")
            return outcome.states
        states, plan = None, self._store.plan
        if self._folder is not None:
            states = self._folder.take(outcome.chain, *outcome.span, plan.tensor.shape, plan.spec)
        if states is None:
            self._tell("a file that a worker has written there cannot be read here")
            self._place = None  # the same slice is wanted again, with its states in the answer
        return states

    def _tell(self, why: str) -> None:
        """Say once that draws do not come home as files."""
        if not self._told:
            warnings.warn(
                f"draws are sent home through the executor, not through {self._store.path}: {why}", stacklevel=5
            )
            self._told = True

"""Chains on an executor: a Dask cluster, a process pool, or anything else with the interface of concurrent.futures.

The process that calls `fit` drives: it hands out slices of chains (chain_slices.py), takes their draws home, and passes
them to the store in the order of the sweeps. Workers need no disk and keep nothing that cannot be made again. A slice
that is lost with its worker is handed out again.

    slice      at least 20 sweeps, so that drawing the first allocation again costs little; about 5 seconds
    stopping   no new slice is handed out, and those under way are waited for
    waiting    ends: if nothing comes back for long, the run stops with an error, and what was saved can be resumed
"""

import warnings
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from allocore.errors import InputError, StoreError
from allocore.run.chain_slices import Outcome, PlanWanted, Slice, Versions, run_slice
from allocore.run.chains import report_stop
from allocore.run.plan import Plan
from allocore.run.progress import Observer, Watch
from allocore.run.record import Record
from allocore.run.stop import Stop
from allocore.run.store import Store

if TYPE_CHECKING:
    from allocore.model.state import State

_LEAST_SWEEPS, _SECONDS = 20, 5.0
_LOOK_EVERY = 0.5  # seconds between two looks at whether someone asked to stop
_LOSSES = 10  # of slices in a row, before the run gives up
_PATIENCE = 600.0  # seconds without any answer, at least; and 20 times what a slice has taken


def as_executor(given: object) -> Executor:
    """The executor that was meant: a Dask client has one, and everything else must be one."""
    if isinstance(given, Executor):
        return given
    if type(given).__module__.partition(".")[0] == "distributed" and hasattr(given, "get_executor"):
        executor: Executor = given.get_executor(pure=False)
        return executor
    raise InputError(
        f"executor is a {type(given).__name__}, but it must be a dask.distributed.Client or a "
        "concurrent.futures.Executor, such as a ProcessPoolExecutor"
    )


def run_on_executor(store: Store, executor: Executor, *, threads: int, observer: Observer | None = None) -> Record:
    """Run the chains of the store's plan on an executor, to their end or until someone stops them."""
    watch, stop = Watch(observer), Stop()
    with ExitStack() as stack:
        stack.enter_context(store)
        stack.callback(watch.close)
        stack.enter_context(stop)
        driver = _Driver(store, executor, threads, watch)
        try:
            driver.drive(stop)
        except StoreError:  # of the executor: what came home is safe
            driver.save()
            raise
        finally:
            driver.cancel()
        driver.save()
        record = store.finish()
    if stop.asked and record.stats["moved"].shape[1] < store.plan.schedule.sweeps:
        report_stop(store, record)
    return record


class _Driver:
    """Hands out slices and takes their outcomes home."""

    def __init__(self, store: Store, executor: Executor, threads: int, watch: Watch) -> None:
        self._store, self._executor, self._threads, self._watch = store, executor, threads, watch
        self._run = uuid4().hex
        self._points: list[tuple[int, State] | None] = [store.resume_point(c) for c in range(store.plan.chains)]
        self._under_way: dict[Future[Any], tuple[int, float]] = {}
        self._sweeps = _LEAST_SWEEPS
        self._losses, self._longest, self._last_answer = 0, 0.0, monotonic()

    def drive(self, stop: Stop) -> None:
        """Until all chains are done, or until those under way have ended after someone asked to stop."""
        for chain in range(self._store.plan.chains):
            self._hand_out(chain, None)
        while self._under_way:
            done, _ = wait(self._under_way, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
            for future in done:
                chain, since = self._under_way.pop(future)
                self._take(chain, future, monotonic() - since, stop)
            self._check_patience()

    def save(self) -> None:
        """Save the states of the chains that are not done; the others are saved."""
        for chain, point in enumerate(self._points):
            if point is not None and point[0] < self._store.plan.schedule.sweeps:
                self._store.save(chain, *point, now=True)

    def cancel(self) -> None:
        """Take back what has not begun."""
        for future in self._under_way:
            future.cancel()

    def _hand_out(self, chain: int, plan: Plan | None) -> None:
        """Hand out the next slice of a chain, unless it is done."""
        point = self._points[chain]
        left = self._store.plan.schedule.sweeps - (0 if point is None else point[0])
        if left <= 0:
            return
        wanted = Slice(self._run, chain, point, min(left, self._sweeps), self._threads)
        try:
            future = self._executor.submit(run_slice, wanted, plan)
        except (BrokenExecutor, RuntimeError) as error:
            raise self._lost(f"the executor takes no more work: {error}") from error
        self._under_way[future] = chain, monotonic()

    def _take(self, chain: int, future: "Future[Any]", seconds: float, stop: Stop) -> None:
        """Take an answer: draws, a wish for the plan, or the news that a worker is gone."""
        plan = None
        try:
            answer = future.result()
        except BrokenExecutor as error:
            raise self._lost(f"the workers of the executor are gone: {error}") from error
        except InputError:
            raise
        except (Exception, CancelledError) as error:
            self._count_loss(error)
        else:
            self._last_answer = monotonic()
            if isinstance(answer, PlanWanted):
                self._check_versions(answer.versions)
                plan = replace(self._store.plan, held_out=None)
            else:
                self._losses = 0
                self._keep(answer, seconds)
        if not stop.now:
            self._hand_out(chain, plan)

    def _keep(self, outcome: Outcome, seconds: float) -> None:
        """Pass what a slice gave to the store, and choose the length of the next."""
        chain, draws, schedule = outcome.chain, dict(outcome.draws), self._store.plan.schedule
        for sweep, info, own_seconds in outcome.sweeps:
            self._store.record_sweep(chain, sweep, info, own_seconds)
            draw = schedule.draw_of(sweep)
            if draw is not None:
                self._store.record_draw(chain, draw, draws[draw])
            self._watch.sweep_done(chain, sweep, info, last=sweep == schedule.sweeps)
        assert outcome.end is not None
        self._points[chain] = outcome.end
        self._store.save(chain, *outcome.end, now=outcome.end[0] >= schedule.sweeps)
        self._longest = max(self._longest, seconds)
        each = sum(own for _, _, own in outcome.sweeps) / len(outcome.sweeps)
        self._sweeps = max(_LEAST_SWEEPS, int(_SECONDS / max(each, 1e-9)))

    def _check_versions(self, theirs: Versions) -> None:
        ours = Versions.here()
        if theirs.sampler != ours.sampler:
            raise InputError(
                f"executor has workers with sampler version {theirs.sampler}, but this is sampler version "
                f"{ours.sampler}: install the same allocore on all machines"
            )
        other = [f"{name} {theirs.packages[name]} (here {own})" for name, own in ours.packages.items()
                 if theirs.packages.get(name) != own]  # fmt: skip
        if other:
            raise InputError(
                f"executor has workers with other versions of packages: {', '.join(other)}; draws may differ in their "
                "last bits, so install the same versions on all machines"
            )
        if theirs.rounding != ours.rounding:
            raise InputError(
                f"executor has workers with arithmetic that rounds as {theirs.rounding!r}, but here it rounds as "
                f"{ours.rounding!r}: draws would differ in their last bits, so use the same C library on all machines "
                "and, if not all of them have fused multiply-add or Intel's SVML, set "
                "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA and NUMBA_DISABLE_INTEL_SVML=1 on all"
            )

    def _count_loss(self, error: BaseException) -> None:
        self._losses += 1
        if self._losses > _LOSSES:
            raise self._lost(f"{self._losses} tasks failed in a row, the last with {error!r}") from error
        warnings.warn(f"a task was lost and is repeated: {error!r}", stacklevel=6)

    def _check_patience(self) -> None:
        if monotonic() - self._last_answer > max(_PATIENCE, 20.0 * self._longest):
            waited = monotonic() - self._last_answer
            raise self._lost(f"no worker has answered for {waited:.0f} seconds")

    def _lost(self, why: str) -> StoreError:
        how = self._store.how_to_resume()
        return StoreError(f"{why}. {how[:1].upper()}{how[1:]}" if how else why)

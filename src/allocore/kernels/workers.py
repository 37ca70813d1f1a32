"""Threads for the kernels: a step cuts its work into ranges, and every range is a call that releases the GIL.

The result for an item never depends on its range, so results do not depend on the number of threads.
"""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Calls: TypeAlias = Sequence[Callable[[], object]]
_Outcomes: TypeAlias = "SimpleQueue[BaseException | None]"


class Workers:
    """A fixed number of threads; the calling thread is one of them. Use as a context manager.

    A sweep hands out work about fifteen times. Threads that wait on queues answer in half the time of an executor.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._inboxes: list[SimpleQueue[tuple[_Calls, _Outcomes] | None]] = [SimpleQueue() for _ in range(threads - 1)]
        for inbox in self._inboxes:
            Thread(target=_serve, args=(inbox,), name="allocore", daemon=True).start()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for inbox in self._inboxes:
            inbox.put(None)

    def ranges(self, items: int, at_least: int = 1) -> list[tuple[int, int]]:
        """Cut range(items) into contiguous pieces of at least `at_least` items, at most one per thread."""
        pieces = max(1, min(self.threads, items // at_least))
        edges = [items * piece // pieces for piece in range(pieces + 1)]
        return list(pairwise(edges))

    def ranges_of_equal_work(self, work: NDArray[np.floating[Any]], worth: float) -> list[tuple[int, int]]:
        """Cut range(len(work)) into pieces of about equal work, at least `worth` each, at most one per thread."""
        done = np.cumsum(work)
        pieces = max(1, min(self.threads, len(work), int(done[-1] / worth))) if len(work) else 1
        edges = np.searchsorted(done, done[-1:] * np.arange(1, pieces) / pieces)
        return list(pairwise([0, *edges.tolist(), len(work)]))

    def run(self, calls: _Calls) -> None:
        """Deal the calls out evenly to the threads, wait for all of them, then raise the first error."""
        mine, *others = [calls[thread :: self.threads] for thread in range(self.threads)]
        outcomes: _Outcomes = SimpleQueue()  # a new queue, so that an interrupted call leaves nothing for the next
        waiting = 0
        for inbox, theirs in zip(self._inboxes, others, strict=True):
            if theirs:
                inbox.put((theirs, outcomes))
                waiting += 1
        try:
            for call in mine:
                call()
        finally:
            errors = [outcomes.get() for _ in range(waiting)]
        for error in errors:
            if error is not None:
                raise error


def _serve(inbox: "SimpleQueue[tuple[_Calls, _Outcomes] | None]") -> None:
    while (work := inbox.get()) is not None:
        calls, outcomes = work
        error: BaseException | None = None
        try:
            for call in calls:
                call()
        except BaseException as raised:
            error = raised
        outcomes.put(error)
        del work, calls, call, error  # keep no array alive while waiting


def available_threads() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Threads for the kernels: a step cuts its work into ranges, and every range is a call that releases the GIL.

What is computed for an item never depends on the range it falls in, so results do not depend on the number of threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType


class Workers:
    """A fixed number of threads; the calling thread is one of them. Use as a context manager."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "allocore") if threads > 1 else None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def ranges(self, items: int, at_least: int = 1) -> list[tuple[int, int]]:
        """Cut range(items) into contiguous pieces, one a thread, fewer where pieces would fall below `at_least`."""
        pieces = max(1, min(self.threads, items // at_least))
        edges = [items * piece // pieces for piece in range(pieces + 1)]
        return list(pairwise(edges))

    def run(self, calls: Sequence[Callable[[], object]]) -> None:
        """Make all the calls, dealt out evenly to the threads; wait for all of them, then raise the first error."""
        hands = [calls[thread :: self.threads] for thread in range(min(self.threads, len(calls)))]
        if self._pool is None or len(hands) < 2:
            _make(calls)
            return
        others = [self._pool.submit(_make, hand) for hand in hands[1:]]
        try:
            _make(hands[0])
        finally:
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error


def _make(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def available_threads() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

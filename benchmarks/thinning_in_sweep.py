"""Thinning inside a sweep, beside thinning alone: where a difference comes from.

Alone, thinning runs again and again on warm caches. In a sweep the other steps have used the caches before it. So it is
also timed after all threads have written to a large array, which leaves nothing in the caches: if that explains the
difference, the caches do. Memory that is new to the process costs a page fault for every 4 kB, so these are counted:
minor page faults, which the kernel serves without a disk.
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import Workers
from timing import Chain, seconds_of, watched_steps

_LARGE = 2**25  # numbers of 8 bytes: 256 MB, more than the caches of any processor
_WAYS = ("alone", "in a sweep", "caches emptied before")


def thinning_in_sweep(Y: ac.CountTensor, budget: int, threads: int, rounds: int) -> dict[str, Any]:
    """The least milliseconds of thinning in each way, in turns, and the median page faults."""
    in_sweep: list[float] = []

    @contextmanager
    def watch(step: str) -> Iterator[None]:
        start = perf_counter()
        yield
        if step == "thin":
            in_sweep.append(perf_counter() - start)

    large = np.zeros(_LARGE)
    with Workers(threads) as workers:
        calls = Chain(Y, budget, workers).calls()
        alone, emptied, faults, faults_alone = [], [], [], []
        for _ in range(rounds):
            calls["thinning"]()
            alone += [seconds_of(calls["thinning"]) for _ in range(2)]
            faults_alone.append(page_faults(calls["thinning"]))
            calls["sweep"]()
            with watched_steps(watch):
                faults += [page_faults(calls["sweep"]) for _ in range(2)]
            _write_all(large, workers)
            emptied.append(seconds_of(calls["thinning"]))
    milliseconds = [1e3 * min(seconds) for seconds in (alone, in_sweep, emptied)]
    return {
        "threads": threads,
        "milliseconds": dict(zip(_WAYS, milliseconds, strict=True)),
        "page faults of a sweep": float(np.median(faults)),
        "page faults of thinning alone": float(np.median(faults_alone)),
    }


def page_faults(call: Callable[[], object]) -> int:
    """The minor page faults during a call, of all threads of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _write_all(large: np.ndarray, workers: Workers) -> None:
    """Write to the whole array, every thread to a part of it."""
    workers.run([partial(_add_one, large[slice(*cut)]) for cut in workers.ranges(large.size)])


def _add_one(numbers: np.ndarray) -> None:
    numbers += 1.0


def print_thinning_in_sweep(results: list[dict[str, Any]], budgets: tuple[int, ...], console: Console) -> None:
    table = Table("", title=f"Thinning inside a sweep and alone, {results[0]['threads']} threads, ms")
    for budget in budgets:
        table.add_column(f"Q = {budget}", justify="right")
    for way in _WAYS:
        table.add_row(f"thinning, {way}", *(f"{result['milliseconds'][way]:.1f}" for result in results))
    for name in ("page faults of a sweep", "page faults of thinning alone"):
        table.add_row(name, *(f"{result[name]:,.0f}" for result in results))
    console.print(table)

"""What further threads can gain on this machine, whatever program they run.

Two virtual processors may be two cores, or two threads of one core. Threads of one core share its vector units and its
caches. So two loops are timed, with one thread and with all:

    vectors     dot products of 32-bit rows in the nearest caches, in the loop of the floor (baselines.py)
    integers    a chain of shifts and exclusive ors, each of which waits for the one before

Every thread does the same work, so the gain is threads * (time of one thread) / (time of all). On cores of their own
both loops gain as many times as there are threads. On threads of one core the chain does, because it leaves most of the
core idle, and the vectors gain little. A sweep is mostly loops of the first kind and can gain no more than they do.
Other programs at work on the machine take gain away too, so their share of the processors is measured beside it.

Usage: python benchmarks/machine.py
"""

import os
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from allocore.kernels.jit import kernel
from allocore.kernels.simd import aligned_zeros
from allocore.kernels.workers import Workers, available_threads
from baselines import LANES, dot
from timing import best_in_turns

DISTURBED = 0.1  # the share of other programs from which on a measurement of threads should be repeated
ROWS, WIDTH = 64, 160  # 40 kB: more than the first cache, less than the second
ROUNDS_OF_VECTORS, STEPS_OF_CHAIN = 50_000, 12_000_000  # some twenty milliseconds each


@kernel
def _dot_products(rounds: int, rows_RL: Any, out: Any) -> None:
    """The dot products of the first row with all rows, many times over."""
    width, address, total = rows_RL.shape[1], rows_RL.ctypes.data, 0.0
    for _ in range(rounds):
        for row in range(rows_RL.shape[0]):
            total += dot(address, address + 4 * row * width, width // LANES)
    out[0] = total


@kernel
def _chain(steps: int, out: Any) -> None:
    """Marsaglia's xorshift, because a compiler cannot shorten it."""
    x = np.uint64(88172645463325252)
    for _ in range(steps):
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
    out[0] = x


def vectors(workers: Workers, rounds: int = ROUNDS_OF_VECTORS) -> list[float]:
    """Let every thread make the same dot products on rows of its own; returns the sum that each found."""
    found = np.empty((workers.threads, 1))
    tables = [aligned_zeros(ROWS, WIDTH) for _ in found]
    for table in tables:
        table[:] = 1.0 / WIDTH
    workers.run([partial(_dot_products, rounds, table, out) for table, out in zip(tables, found, strict=True)])
    return found[:, 0].tolist()


def integers(workers: Workers, steps: int = STEPS_OF_CHAIN) -> list[int]:
    """Let every thread go through the same chain; returns the number at which each ended."""
    found = np.empty((workers.threads, 1), dtype=np.uint64)
    workers.run([partial(_chain, steps, out) for out in found])
    return found[:, 0].tolist()


class OtherPrograms:
    """The share of the processors that other programs have taken since this was made; None without /proc."""

    def __init__(self) -> None:
        self._start = perf_counter(), _own_seconds(), _busy_seconds()

    def share(self) -> float | None:
        """From 0 to 1."""
        start, own, busy = self._start
        now = _busy_seconds()
        if busy is None or now is None:
            return None
        others = (now - busy) - (_own_seconds() - own)
        return min(1.0, max(0.0, others / ((perf_counter() - start) * (os.cpu_count() or 1))))


def _own_seconds() -> float:
    """Processor seconds of this process, and of the processes that it started and that have ended."""
    return sum(os.times()[:4])


def _busy_seconds() -> float | None:
    """Processor seconds of all programs, and those that the host of a virtual machine took, since it was started."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    user, nice, system, _idle, _waiting, *others = path.read_text().splitlines()[0].split()[1:9]
    return sum(map(int, (user, nice, system, *others))) / os.sysconf("SC_CLK_TCK")


def machine(rounds: int, scale: float = 1.0) -> dict[str, Any]:
    """Milliseconds of both loops with one thread and with all, and the gain; `scale` shortens the loops."""
    threads, others = available_threads(), OtherPrograms()
    loops = {
        "vectors": partial(vectors, rounds=max(1, int(scale * ROUNDS_OF_VECTORS))),
        "integers": partial(integers, steps=max(1, int(scale * STEPS_OF_CHAIN))),
    }
    with Workers(1) as one, Workers(threads) as every:
        pools = {"one thread": one, "all threads": every}
        calls = {(loop, number): partial(call, pool) for loop, call in loops.items() for number, pool in pools.items()}
        times = best_in_turns(calls, rounds)
    result: dict[str, Any] = {"threads": threads, "other programs": others.share()}
    for loop in loops:
        milliseconds = {number: times[loop, number] for number in pools}
        gain = threads * milliseconds["one thread"] / milliseconds["all threads"]
        result[loop] = {**milliseconds, "gain": gain}
    return result


def print_machine(result: dict[str, Any], console: Console) -> None:
    threads = result["threads"]
    table = Table("every thread does the same work", title=f"The machine: what {threads} threads gain over one")
    for name in ("one thread, ms", "all threads, ms", "gain"):
        table.add_column(name, justify="right")
    for loop, title in (("vectors", "multiply-adds on vectors, in cache"), ("integers", "a chain of integer steps")):
        found = result[loop]
        table.add_row(title, f"{found['one thread']:.1f}", f"{found['all threads']:.1f}", f"{found['gain']:.2f}")
    console.print(table)
    print_others(result["other programs"], console)


def print_others(share: float | None, console: Console) -> None:
    if share is not None:
        verdict = " Too much: what threads gain, and all ratios of one thread to many, mean little."
        console.print(
            f"Other programs took {share:.0%} of the processors meanwhile.{verdict if share > DISTURBED else ''}"
        )


if __name__ == "__main__":
    print_machine(machine(rounds=10), Console(width=150))

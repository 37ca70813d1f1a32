"""The serial share of a sweep: the part of a sweep on one thread that no second thread could take (Amdahl's law).

A step hands work to the threads by `Workers.run`. It cuts the work by `Workers.ranges` or `ranges_of_equal_work`, which
make at most a certain number of pieces, however many threads there are. Here a sweep runs on one thread, on workers
that note the time inside `run` and how many pieces the work could have been cut into. Time in work that cannot be cut
in two is serial, and so is all time outside `run`: Python between the steps, classes that move one after another,
proposals of split-merge, tables that are added up.

With the serial share s, T threads make a sweep at most 1 / (s + (1 - s) / T) times faster. `with its pieces` takes into
account that some work can be cut into fewer than T pieces.

One thread hands nothing out, waits for nobody and has one table of counts. So the share is estimated in a second way,
which has these costs in it: from the times of a sweep on one thread and on n. If the floor, which is parallel
throughout, gains g by n threads, then t_n / t_1 = s + (1 - s) / g.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.gibbs import sweep as steps
from allocore.gibbs.layout import Workspace
from allocore.kernels.workers import Workers
from timing import STEPS, Chain, watched_steps

BETWEEN = "between the steps"
TARGET = 0.08
MANY = (16, 64)
LEAST_GAIN = 1.2  # with less gain of the floor, times of n threads say nothing about the serial share


class PieceTimer(Workers):
    """One thread that notes, for all work that it is given, the step, the seconds, and the most pieces."""

    def __init__(self) -> None:
        super().__init__(1)
        self.step = BETWEEN
        self.work: list[tuple[str, float, int]] = []
        self._pieces: list[int] = []

    def ranges(self, items: int, at_least: int = 1) -> list[tuple[int, int]]:
        """One piece, as for one thread; notes how many there could be."""
        self._pieces.append(max(1, items // at_least))
        return super().ranges(items, at_least)

    def ranges_of_equal_work(self, work: Any, worth: float) -> list[tuple[int, int]]:
        """One piece, as for one thread; notes how many there could be."""
        self._pieces.append(max(1, min(len(work), int(work.sum() / worth))))
        return super().ranges_of_equal_work(work, worth)

    def run(self, calls: Sequence[Callable[[], object]]) -> None:
        """Make the calls, and note them.

        They belong to the cuts since the last call of `run`, in order. If one call does the work of several cuts, as in
        thinning, the one with the most pieces counts.
        """
        pieces, self._pieces = self._pieces, []
        if len(pieces) != len(calls):
            pieces = [max(pieces, default=1)] * len(calls)
        for call, most in zip(calls, pieces, strict=True):
            start = perf_counter()
            call()
            self.work.append((self.step, perf_counter() - start, most))

    @contextmanager
    def during(self, step: str) -> Iterator[None]:
        """Meanwhile, work belongs to this step."""
        self.step = step
        yield
        self.step = BETWEEN


class SweepTimes:
    """The seconds of a sweep by step, and the work that was handed out in it."""

    def __init__(self, workers: PieceTimer) -> None:
        self.seconds, self.by_step, self._workers = 0.0, dict.fromkeys(STEPS, 0.0), workers
        self.work: list[tuple[str, float, int]] = []

    @contextmanager
    def watch(self, step: str) -> Iterator[None]:
        """Time one step."""
        start = perf_counter()
        with self._workers.during(step):
            yield
        self.by_step[step] += perf_counter() - start

    def time(self, sweep: Callable[[], object]) -> "SweepTimes":
        """Time one sweep."""
        self._workers.work = []
        with watched_steps(self.watch):
            start = perf_counter()
            sweep()
            self.seconds = perf_counter() - start
        self.by_step[BETWEEN] = self.seconds - sum(self.by_step.values())
        self.work = self._workers.work
        return self

    def serial(self, step: str) -> float:
        """The seconds of a step that no second thread could take."""
        return self.by_step[step] - sum(took for name, took, most in self.work if name == step and most > 1)

    def on_threads(self, threads: int) -> float:
        """The seconds that the sweep would take if all pieces were equal and handing out cost nothing."""
        handed_out = sum(took for _, took, _ in self.work)
        return self.seconds - handed_out + sum(took / min(threads, most) for _, took, most in self.work)


def serial_share(Y: ac.CountTensor, budget: int, rounds: int, warm_up: int = 15) -> dict[str, Any]:
    """Milliseconds of a sweep on one thread by step, those of them that are serial, and the serial share.

    The order of the modes rotates, so it is the mean over as many sweeps as there are modes, all from one state: that
    after `warm_up` sweeps. For each of them the fastest of all rounds counts.
    """
    with PieceTimer() as workers:
        chain = Chain(Y, budget, workers, warm_up)
        kept = Workspace.of(chain.layout, chain.state)
        fastest: list[SweepTimes] = []
        for number in range(99, 99 + Y.ndim):
            before = steps.SamplerState(chain.state, chain.allocation)
            given = chain.key.at(number), chain.layout, chain.spec, before, kept
            found = [SweepTimes(workers).time(lambda given=given: steps.sweep(*given)) for _ in range(rounds)]
            fastest.append(min(found, key=lambda times: times.seconds))
    by_step = {
        step: {
            "ms": 1e3 * float(np.mean([times.by_step[step] for times in fastest])),
            "serial ms": 1e3 * float(np.mean([times.serial(step) for times in fastest])),
        }
        for step in (*STEPS, BETWEEN)
    }
    whole, serial = (sum(each[name] for each in by_step.values()) for name in ("ms", "serial ms"))
    sweep = sum(times.seconds for times in fastest)
    return {
        "budget": budget,
        "steps": by_step,
        "ms": whole,
        "serial ms": serial,
        "share": serial / whole,
        "speed-up": {number: speed_up(serial / whole, number) for number in MANY},
        "with its pieces": {
            number: sweep / sum(times.on_threads(number) for times in fastest) for number in MANY
        },
    }  # fmt: skip


def speed_up(share: float, threads: int) -> float:
    """Amdahl's law."""
    return 1.0 / (share + (1.0 - share) / threads)


def share_from_times(one: float, many: float, gain: float) -> float | None:
    """The serial share by which a sweep gains from threads what it does where the floor has `gain`; None if unclear."""
    if gain < LEAST_GAIN:
        return None
    return (many / one - 1.0 / gain) / (1.0 - 1.0 / gain)


def print_serial_shares(results: list[dict[str, Any]], ratios: list[dict[str, Any]], console: Console) -> None:
    """The table; `ratios` are the times of one and of all threads, for the same numbers of classes."""
    table = Table("step", title="Serial share of a sweep on one thread")
    for result in results:
        for name in (f"Q = {result['budget']}: ms", "serial ms", "serial"):
            table.add_column(name, justify="right")
    for step in (*STEPS, BETWEEN):
        cells = [(each["steps"][step]["ms"], each["steps"][step]["serial ms"]) for each in results]
        table.add_row(step, *(text for pair in cells for text in _row(*pair)))
    table.add_section()
    table.add_row("sweep", *(text for each in results for text in _row(each["ms"], each["serial ms"])))
    console.print(table)
    for result, times in zip(results, ratios, strict=True):
        allowed = "; ".join(
            f"{number} threads {result['speed-up'][number]:.1f} times ({result['with its pieces'][number]:.1f} with "
            "the pieces that the work can be cut into)"
            for number in MANY
        )
        console.print(
            f"Q = {result['budget']}: serial share {result['share']:.1%} (target <= {TARGET:.0%}). It allows at "
            f"{allowed}.\n{_check(times)}",
            highlight=False,
        )


def _row(milliseconds: float, serial: float) -> tuple[str, str, str]:
    return f"{milliseconds:.2f}", f"{serial:.2f}", f"{serial / milliseconds:.0%}" if milliseconds else "-"


def _check(times: dict[str, Any]) -> str:
    """The share by the other way, in words."""
    threads, gain = times["threads"], times["floor gain"]
    found = times["share from times"]
    if found is None:
        return f"  From the times of 1 and {threads} threads: unclear, because the floor gains only {gain:.2f} times."
    return (
        f"  From the times of 1 and {threads} threads, with the floor's gain of {gain:.2f}: {found:.1%}, "
        "handing out and waiting included."
    )

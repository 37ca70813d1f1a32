"""Progress of a run: a bar on a terminal, nothing anywhere else. Observation never disturbs the run."""

import sys
import warnings
from collections.abc import Callable
from math import inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from allocore.run.schedule import Schedule

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Observer(Protocol):
    """Is told between sweeps how a run stands."""

    def show(self, chain: int, sweep: int, info: "SweepInfo") -> None:
        """Sweep 1, 2, .. of a chain is done."""

    def close(self) -> None:
        """The run has ended."""


class Watch:
    """Passes news of each chain to an observer at a human rate, from whatever thread they come.

    An observer that fails is let go with a warning; the run goes on.
    """

    def __init__(self, observer: Observer | None, seconds: float = 0.1, clock: Callable[[], float] = monotonic) -> None:
        self._observer = observer
        self._seconds = seconds
        self._clock = clock
        self._last: dict[int, float] = {}
        self._one_at_a_time = Lock()

    def sweep_done(self, chain: int, sweep: int, info: "SweepInfo", last: bool) -> None:
        """Tell the observer, if it is time or if this was the chain's last sweep."""
        now = self._clock()
        if self._observer is None or (now - self._last.get(chain, -inf) < self._seconds and not last):
            return
        self._last[chain] = now
        with self._one_at_a_time:
            self._safely(lambda observer: observer.show(chain, sweep, info))

    def close(self) -> None:
        """Tell the observer that the run has ended."""
        self._safely(lambda observer: observer.close())

    def _safely(self, tell: Callable[[Observer], None]) -> None:
        if self._observer is None:
            return
        try:
            tell(self._observer)
        except Exception as error:
            self._observer = None
            warnings.warn(f"progress display failed and is off for this run: {error!r}", stacklevel=3)


class ProgressBar:
    """One line a chain: sweeps done, log-likelihood, classes in use, share moved, time left."""

    def __init__(self, schedule: Schedule, chains: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._schedule = schedule
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
        )
        names = ["sampling"] if chains == 1 else [f"chain {chain}" for chain in range(chains)]
        self._tasks = [self._bar.add_task(name, total=schedule.sweeps, news="", start=False) for name in names]
        self._bar.start()

    def show(self, chain: int, sweep: int, info: "SweepInfo") -> None:
        """Redraw the line of a chain."""
        phase = "burn-in" if sweep <= self._schedule.burn_in else "draws  "
        news = (
            f"{phase}  log-lik [bold]{info.log_likelihood:,.0f}[/]  classes [bold]{info.classes}[/]"
            f"  moved [bold]{info.moved:.1%}[/]"
        )
        self._bar.start_task(self._tasks[chain])
        self._bar.update(self._tasks[chain], completed=sweep, news=news)

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        self._bar.stop()


def progress_bar(wanted: bool, schedule: Schedule, chains: int) -> Observer | None:
    """A progress bar on standard error, if it is wanted and somebody is looking at a terminal."""
    looking = sys.stderr is not None and sys.stderr.isatty()
    return ProgressBar(schedule, chains) if wanted and looking else None

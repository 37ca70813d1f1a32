"""Progress of a run: bars on a terminal or in a notebook, lines in a log. Observation never disturbs the run."""

import warnings
from collections.abc import Callable, Sequence
from math import inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from allocore._progress_display import Display, Row, bars
from allocore.run.schedule import Schedule

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Observer(Protocol):
    """Receives the progress of a run between sweeps."""

    def show(self, chain: int, sweep: int, info: "SweepInfo") -> None:
        """Sweep 1, 2, .. of a chain is done."""

    def close(self) -> None:
        """The run has ended."""


class Watch:
    """Passes the progress of each chain to an observer, from any thread and at a human rate.

    An observer that raises is dropped with a warning, and the run continues.
    """

    def __init__(self, observer: Observer | None, seconds: float = 0.1, clock: Callable[[], float] = monotonic) -> None:
        self._observer = observer
        self._seconds = seconds
        self._clock = clock
        self._last: dict[int, float] = {}
        self._one_at_a_time = Lock()

    def sweep_done(self, chain: int, sweep: int, info: "SweepInfo", last: bool) -> None:
        """Tell the observer if enough time has passed, or if this was the chain's last sweep."""
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
    """One row per chain: sweeps done, log-likelihood, classes in use, share of classes moved, time left."""

    def __init__(self, schedule: Schedule, display: Display) -> None:
        self._schedule, self._display = schedule, display

    def show(self, chain: int, sweep: int, info: "SweepInfo") -> None:
        """Show how far a chain is."""
        phase = "burn-in" if sweep <= self._schedule.burn_in else "draws  "
        news = [
            ("", phase),
            ("log-lik", f"{info.log_likelihood:,.0f}"),
            ("classes", f"{info.classes}"),
            ("moved", f"{info.moved:.1%}"),
        ]
        self._display.update(chain, sweep, news)

    def close(self) -> None:
        """Leave the last state where it is."""
        self._display.close()


def chain_rows(schedule: Schedule, done: Sequence[int]) -> list[Row]:
    """A row for each chain, with the sweeps that it has done before."""
    names = ["sampling"] if len(done) == 1 else [f"chain {chain}" for chain in range(len(done))]
    return [Row(name, schedule.sweeps, before) for name, before in zip(names, done, strict=True)]


def progress_bar(wanted: bool, schedule: Schedule, done: Sequence[int]) -> Observer | None:
    """What shows the progress of chains that have `done` so many sweeps before, if that is wanted and can be seen."""
    display = bars(chain_rows(schedule, done), "sweeps") if wanted else None
    return None if display is None else ProgressBar(schedule, display)

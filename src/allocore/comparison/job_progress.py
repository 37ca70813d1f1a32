"""The progress of a comparison: a bar on a terminal, elsewhere one line per minute."""

import sys
from collections.abc import Callable, Sequence
from time import monotonic

from allocore.comparison.settings import Job

_SHOWN = 3
_Timed = Sequence[tuple[Job, float]]


def seconds_left(finished: _Timed, running: _Timed, waiting: Sequence[Job], parallel: int) -> float | None:
    """Estimate how long the remaining jobs take; None while no job is finished.

    The time of a job is taken to be proportional to the entries of its core. The rate is that of the finished jobs of
    the same model or, if there are none, of all finished jobs.
    """
    if not finished:
        return None
    by_model: dict[str, list[float]] = {}
    for job, seconds in finished:
        for name in (job.model, ""):
            spent, work = by_model.get(name, [0.0, 0.0])
            by_model[name] = [spent + seconds, work + _work(job)]

    def expected(job: Job) -> float:
        spent, work = by_model.get(job.model, by_model[""])
        return spent / work * _work(job)

    left = sum(expected(job) for job in waiting) + sum(max(0.0, expected(job) - since) for job, since in running)
    return left / parallel


def _work(job: Job) -> float:
    # Starting a process and splitting the data take about as long as ten classes, whatever the core.
    return job.entries + 10.0


def in_words(seconds: float) -> str:
    """Return a time in a readable unit.

    Examples
    --------
    >>> in_words(40), in_words(700), in_words(12600), in_words(400000)
    ('40 s', '12 min', '3.5 h', '4.6 days')
    """
    for most, unit, form in ((100, 1, "{:.0f} s"), (6000, 60, "{:.0f} min"), (170_000, 3600, "{:.1f} h")):
        if seconds < most:
            return form.format(seconds / unit)
    return f"{seconds / 86400:.1f} days"


class Lines:
    """Progress as one line per minute on standard error."""

    def __init__(self, jobs: Sequence[Job], before: int, parallel: int, clock: Callable[[], float] = monotonic) -> None:
        self._jobs, self._before, self._parallel, self._clock = jobs, before, parallel, clock
        self._next = clock() + 60.0

    def show(self, finished: _Timed, running: _Timed, waiting: int) -> None:
        """Print a line if a minute has passed."""
        if self._clock() >= self._next:
            self._next = self._clock() + 60.0
            print(f"{self._news(finished, running, waiting)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Do nothing: lines stay as they are."""

    def _news(self, finished: _Timed, running: _Timed, waiting: int) -> str:
        total = self._before + len(self._jobs)
        left = seconds_left(finished, running, self._jobs[len(self._jobs) - waiting :], self._parallel)
        rest = "" if left is None else f", about {in_words(left)} left"
        return f"{self._before + len(finished)} of {total} jobs done{rest}"


class Bar(Lines):
    """Progress as a bar: jobs done, time left, and the running jobs."""

    def __init__(self, jobs: Sequence[Job], before: int, parallel: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(jobs, before, parallel)
        self._bar = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.fields[news]}"),
            TextColumn("[dim]{task.fields[under_way]}"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=before + len(jobs), news="", under_way="")
        self._bar.start()

    def show(self, finished: _Timed, running: _Timed, waiting: int) -> None:
        """Update the bar."""
        names = [f"{job.name} {in_words(since)}" for job, since in running]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        self._bar.update(
            self._task,
            completed=self._before + len(finished),
            news=self._news(finished, running, waiting),
            under_way=", ".join(names[:_SHOWN]) + more,
        )

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        self._bar.stop()


class Silent:
    """No progress display."""

    def show(self, finished: _Timed, running: _Timed, waiting: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def observer_for(wanted: bool, jobs: Sequence[Job], before: int, parallel: int) -> Lines | Silent:
    """Return a bar on a terminal, lines elsewhere, and no display if there is nothing to show."""
    if not wanted or sys.stderr is None or not jobs:
        return Silent()
    return Bar(jobs, before, parallel) if sys.stderr.isatty() else Lines(jobs, before, parallel)

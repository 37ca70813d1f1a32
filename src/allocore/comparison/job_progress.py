"""The progress of a comparison: a bar on a terminal, elsewhere one line per minute."""

import sys
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from types import MappingProxyType

from allocore._progress_display import in_words
from allocore.comparison.settings import Job

_SHOWN = 3
_Timed = Sequence[tuple[Job, float]]
_NO_TRIALS: Mapping[str, float] = MappingProxyType({})


def seconds_left(
    finished: _Timed, running: _Timed, waiting: Sequence[Job], parallel: int, trials: Mapping[str, float] = _NO_TRIALS
) -> float | None:
    """Estimate how long the remaining jobs take; None while no job is finished and there were no trials.

    The time of a job is taken to be proportional to the entries of its core. The rate is that of the finished jobs of
    the same model; if there are none, that of its trial; if there was none, that of all finished jobs.
    """
    if not finished and not trials:
        return None
    by_model: dict[str, list[float]] = {}
    for job, seconds in finished:
        for name in (job.model, ""):
            spent, work = by_model.get(name, [0.0, 0.0])
            by_model[name] = [spent + seconds, work + work_of(job)]

    def expected(job: Job) -> float:
        if job.model in trials and job.model not in by_model:
            return trials[job.model] * work_of(job)
        spent, work = by_model.get(job.model) or by_model.get("") or (sum(trials.values()) / len(trials), 1.0)
        return spent / work * work_of(job)

    left = sum(expected(job) for job in waiting) + sum(max(0.0, expected(job) - since) for job, since in running)
    return left / parallel


def work_of(job: Job) -> float:
    """Return the work of a sweep of a job, in classes."""
    # Starting a process and splitting the data take about as long as ten classes, whatever the core.
    return job.entries + 10.0


class Lines:
    """Progress as one line per minute on standard error."""

    def __init__(
        self,
        jobs: Sequence[Job],
        before: int,
        parallel: int,
        trials: Mapping[str, float] = _NO_TRIALS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._jobs, self._before, self._parallel, self._clock = jobs, before, parallel, clock
        self._trials = trials
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
        left = seconds_left(finished, running, self._jobs[len(self._jobs) - waiting :], self._parallel, self._trials)
        rest = "" if left is None else f", about {in_words(left)} left"
        return f"{self._before + len(finished)} of {total} jobs done{rest}"


class Bar(Lines):
    """Progress as a bar: jobs done, time left, and the running jobs."""

    def __init__(
        self, jobs: Sequence[Job], before: int, parallel: int, trials: Mapping[str, float] = _NO_TRIALS
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(jobs, before, parallel, trials)
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


def observer_for(
    wanted: bool, jobs: Sequence[Job], before: int, parallel: int, trials: Mapping[str, float] = _NO_TRIALS
) -> Lines | Silent:
    """Return a bar on a terminal, lines elsewhere, and no display if there is nothing to show."""
    if not wanted or sys.stderr is None or not jobs:
        return Silent()
    kind = Bar if sys.stderr.isatty() else Lines
    return kind(jobs, before, parallel, trials)

"""The jobs of a comparison: one fit each, judged on held-out cells, in a process of its own or on an executor.

`python -m allocore.comparison.jobs TENSOR RESULT THREADS` runs the job that standard input has as JSON. Standard input
stays open as long as the parent process lives, so that no job outlives it.

An executor gives the same scores. There the peak of memory is that of the worker so far, and the seconds depend on what
else the worker does.
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic, perf_counter, sleep
from types import MappingProxyType
from typing import IO, Any, NamedTuple, Protocol
from uuid import uuid4

import numpy as np

from allocore._io import replacing
from allocore.comparison.folder import Folder
from allocore.comparison.models import Job
from allocore.progress import in_words
from allocore.results import Posterior
from allocore.run.chains import Stop
from allocore.run.cluster.tasks import DataWanted, Lost, Tasks, Versions, check_versions, remembered, slots
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import load_tensor
from allocore.tensor.holdout import HeldOut, hold_out


def fit_and_judge(tensor: CountTensor, job: Job, threads: int) -> dict[str, Any]:
    """Fit a model to the training part of a split, and judge its predictions of the held-out part."""
    split = hold_out(tensor, job.hold_out, job.along, job.seed)
    # A first, short fit compiles the kernels, or loads them, so that the measured time is that of the model alone.
    shortest_model(job, threads).fit(split.train)
    model = job.new_estimator(threads)
    start = perf_counter()
    post = model.fit(split.train).posterior_
    seconds = perf_counter() - start
    if not post.finished:
        raise KeyboardInterrupt("stopped before its last sweep")
    # For EM, the iterations of all restarts count as sweeps.
    sweeps = int(model.restarts_["iterations"].sum() if job.estimator == "NNTuck" else post.stats["moved"].size)
    return {
        **_scores(post, split.test),
        "seconds": seconds,
        "sweeps": sweeps,
        "seconds_per_sweep": seconds / sweeps,
        "classes": _mean_over_draws(post, "classes"),
        "factors": _mean_over_draws(post, "factors"),
        "peak_mb": peak_megabytes(),
        "held_out_cells": len(split.test),
        "held_out_positive": len(split.test.positive),
        "threads": threads,
    }


def _scores(post: Posterior, test: HeldOut) -> dict[str, float]:
    """Return the log PPD of all draws of all chains together, and the mean over the chains of that of a single one."""
    pooled = _score(post, test)
    chains = len(post.core_values)
    single = [_score(post.select_chains([chain]), test) for chain in range(chains)] if chains > 1 else [pooled]
    means = {f"{name}_chain": sum(each[name] for each in single) / chains for name in pooled}
    return pooled | means


def _score(post: Posterior, test: HeldOut) -> dict[str, float]:
    positive = post.log_ppd(test, positive_only=True) if len(test.positive) else math.nan
    return {"log_ppd": post.log_ppd(test), "log_ppd_positive": positive}


def shortest_model(job: Job, threads: int, sweeps: int = 1) -> Any:
    """Return the same model with few sweeps: one chain and one draw, or one start and few iterations."""
    few = {"burn_in": 0, "draws": 1, "thin": sweeps, "chains": 1}
    return job.new_estimator(threads).set_params(
        **({"restarts": 1, "max_iter": sweeps} if job.estimator == "NNTuck" else few)
    )


def _mean_over_draws(post: Posterior, name: str) -> Any:
    """Return the number of classes, or of factors of each mode, in use, averaged over draws."""
    trace = post.stats[name][:, post.draw_sweeps - 1]
    return np.asarray(trace, dtype=float).mean(axis=(0, 1)).tolist()


def peak_megabytes() -> float:
    """Return the peak memory of this process in MB.

    On Linux, `VmHWM` counts this program alone, while the usual `ru_maxrss` starts from the memory of the parent.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return math.nan
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 1024


def write_result(path: Path, job: Job, found: dict[str, Any]) -> None:
    """Write a result, with its job and the version of allocore."""
    with replacing(path) as file:
        file.write(json.dumps({"job": job.to_json(), **found, "allocore": version("allocore")}).encode())


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


_LOOK_EVERY = 0.05
LOG = 20_000


class JobObserver(Protocol):
    """Shows the progress of a comparison."""

    def show(self, finished: Sequence[tuple[Job, float]], running: Sequence[tuple[Job, float]], waiting: int) -> None:
        """Show the finished (or failed) and the running jobs, each with its seconds, and how many are waiting."""

    def close(self) -> None:
        """End the display: the comparison has ended."""


@dataclass
class Running:
    """A running job: its process, its standard error, and when it began."""

    job: Job
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    start: float

    @property
    def seconds(self) -> float:
        """How long the job has run."""
        return monotonic() - self.start

    def stop(self) -> None:
        """Kill the job; it has written its whole result or nothing."""
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        """Close its files."""
        self.log.close()
        if self.process.stdin is not None:
            # A process that died early has not read all of its input, and closing the pipe fails.
            with suppress(OSError):
                self.process.stdin.close()


def run_jobs(
    folder: Folder,
    jobs: Sequence[Job],
    *,
    parallel: int,
    threads: int,
    observer: JobObserver,
    after_each: Callable[[], None],
) -> None:
    """Run jobs in order, `parallel` at a time; a job that fails leaves its error, and the others go on."""
    waiting, running, finished = list(jobs), list[Running](), list[tuple[Job, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                running.append(_start(folder, waiting.pop(0), threads))
            for each in [each for each in running if each.process.poll() is not None]:
                running.remove(each)
                finished.append((each.job, each.seconds))
                _end(folder, each)
                after_each()
            now = [(each.job, each.seconds) for each in running]
            observer = guarded(observer, partial(observer.show, finished, now, len(waiting)))
            sleep(_LOOK_EVERY)
    finally:
        for each in running:
            each.stop()
        guarded(observer, observer.close)


def guarded(observer: JobObserver, call: Callable[[], None]) -> JobObserver:
    """Call an observer. One that fails is replaced with a warning, and the jobs go on."""
    try:
        call()
    except Exception as error:
        warnings.warn(f"progress display failed and is off: {error!r}", stacklevel=3)
        return Silent()
    return observer


def _start(folder: Folder, job: Job, threads: int) -> Running:
    command = [sys.executable, "-P", "-m", "allocore.comparison.jobs", folder.tensor, folder.result(job), threads]
    log = tempfile.TemporaryFile()  # noqa: SIM115  closed when the job has ended
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=_environment(threads),
        # A terminal sends Ctrl-C to all processes of a group. Only the parent should handle it; it then ends this
        # process.
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(OSError):  # it died at once; its exit code will say so
        process.stdin.write(json.dumps(job.to_json()).encode() + b"\n")
        process.stdin.flush()
    return Running(job, process, log, monotonic())


def _environment(threads: int) -> dict[str, str]:
    """Return this environment with the same package on the path, and the given number of threads for BLAS."""
    home = str(Path(__file__).parents[2])
    paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {**os.environ, **limits, "PYTHONPATH": os.pathsep.join(paths)}


def _end(folder: Folder, ended: Running) -> None:
    """Write the error of a job that failed; remove the old error of one that succeeded."""
    ended.log.seek(0)
    log = ended.log.read().decode(errors="replace")[-LOG:].strip()
    ended.close()
    if folder.is_done(ended.job):
        folder.failure(ended.job).unlink(missing_ok=True)
    else:
        folder.fail(ended.job, _reason(ended.process.returncode, log), log)


def _reason(code: int, log: str) -> str:
    """Return in one line why a process failed."""
    if code < 0:
        name = _signal_name(-code)
        hint = "; perhaps there was not enough memory" if name == "SIGKILL" else ""
        return f"ended by {name}{hint}"
    return log.splitlines()[-1] if log else f"ended with code {code} and no message"


def _signal_name(number: int) -> Any:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_LOSSES_OF_ONE = 2  # a cluster may have tried several workers before it counts as a loss
_LOOK_FOR_WORKERS_EVERY = 10.0  # seconds


class JobTask(NamedTuple):
    """What a worker gets: the name of the comparison, a job of it, and its threads."""

    comparison: str
    job: Job
    threads: int


class Failed(NamedTuple):
    """The error of a job in one line, and its traceback."""

    error: str
    log: str


class JobAnswer(NamedTuple):
    """The result of a job, or its error, and the versions of the worker."""

    result: dict[str, Any] | Failed
    versions: Versions


def run_job(task: JobTask, tensor: CountTensor | None) -> JobAnswer | DataWanted:
    """Fit and judge. An error of the job is an answer; only the loss of a worker counts as a loss."""
    known = remembered(task.comparison, tensor, lambda sent: sent)
    if known is None:
        return DataWanted(Versions.here())
    try:
        return JobAnswer(fit_and_judge(known, task.job, task.threads), Versions.here())
    except Exception as error:
        failed = Failed(f"{type(error).__name__}: {error}".replace("\n", " "), traceback.format_exc())
        return JobAnswer(failed, Versions.here())


def run_jobs_on(
    executor: Executor,
    folder: Folder,
    jobs: Sequence[Job],
    tensor: CountTensor,
    *,
    parallel: int | None,
    threads: int,
    observer: JobObserver,
    after_each: Callable[[], None],
) -> None:
    """Run jobs in order, `parallel` at a time or as many as there are workers; a job that fails leaves its error."""
    waiting, finished, name = list(jobs), list[tuple[Job, float]](), uuid4().hex
    go_on = f"the results so far are in {folder.path}, and a comparison with that folder continues"
    tasks: Tasks[Job] = Tasks(executor, run_job, lambda: tensor, go_on=go_on, losses_of_one=_LOSSES_OF_ONE, long=True)
    limit = _Limit(executor, parallel)
    # A flag, because an exception of Ctrl-C may be raised in a destructor of Dask's, where Python drops it.
    with Stop("") as stop, ExitStack() as stack:
        stack.callback(lambda: guarded(observer, observer.close))
        stack.callback(tasks.cancel)
        while waiting or len(tasks):
            if stop.now:
                raise KeyboardInterrupt
            # No more than can run: what waits here is sent to workers that have the data by then.
            while waiting and len(tasks) < limit.now():
                job = waiting.pop(0)
                tasks.hand_out(job, JobTask(name, job, threads))
            for job, content, seconds in tasks.answers():
                finished.append((job, seconds))
                _write(folder, job, content)
                after_each()
            observer = guarded(observer, partial(observer.show, finished, tasks.under_way(), len(waiting)))


class _Limit:
    """How many jobs may run at a time: `jobs`, or the number of workers now."""

    def __init__(self, executor: Executor, parallel: int | None) -> None:
        self._executor, self._parallel = executor, parallel
        self._number, self._next = 1, 0.0

    def now(self) -> int:
        """Return the number. The workers are counted every few seconds, because they come and go."""
        if self._parallel is not None:
            return self._parallel
        if monotonic() >= self._next:
            self._number = max(1, slots(self._executor) or 1)
            self._next = monotonic() + _LOOK_FOR_WORKERS_EVERY
        return self._number


def _write(folder: Folder, job: Job, content: JobAnswer | Lost) -> None:
    """Write the result of a job and remove an old error, or write its error."""
    if isinstance(content, Lost):
        folder.fail(job, f"{content.why}; perhaps there was not enough memory", "")
        return
    check_versions(content.versions)
    if isinstance(content.result, Failed):
        folder.fail(job, content.result.error, content.result.log[-LOG:])
    else:
        write_result(folder.result(job), job, content.result)
        folder.failure(job).unlink(missing_ok=True)


_ORPHANED = 3  # the exit code of a job whose parent has ended


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(_ORPHANED)


def main(tensor: str, result: str, threads: str) -> None:
    """Run the job on the first line of standard input."""
    job = Job.from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # A fit that is stopped only warns and returns its draws so far. Here they would pass for a whole result.
    warnings.filterwarnings("error", message="stopped")
    found = fit_and_judge(load_tensor(tensor), job, int(threads))
    write_result(Path(result), job, found)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        # The table of results shows the last line of standard error.
        import traceback

        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        sys.exit(1)

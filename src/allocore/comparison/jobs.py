"""The jobs of a comparison: each fits one model and judges it on held-out cells, as a task of an executor.

`JobProcesses` starts a process for each job. On an executor of the user, the scores are the same, but the peak memory
is that of the worker so far, and the seconds depend on what else it does. A job of a tensor in shards writes the
training tensor in shards too, next to the tensor, and removes it at its end.

`python -m allocore.comparison.jobs TENSOR THREADS NAME` reads a job from standard input as JSON and prints its outcome
as JSON. The name is for lists of processes. The job ends when standard input closes, so it never outlives its parent.
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
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from allocore._io import temporary_folder
from allocore.comparison.models import Job, series_name
from allocore.findings import Finding, FindingWarning, warn
from allocore.posterior.evaluate import mean_scores
from allocore.progress import in_words, log, output_kind
from allocore.results import Posterior
from allocore.run.chains import Stop
from allocore.run.cluster.tasks import DataWanted, Lost, Tasks, Versions, check_versions, remembered, slots
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import load_tensor
from allocore.tensor.holdout import HeldOut, Split, hold_out
from allocore.tensor.sharded import ShardedTensor

Outcome = dict[str, Any]  # the numbers of a job, or its `error` and `log`
Timed = Sequence[tuple[Job, float]]  # jobs and their seconds so far

_NO_RATES: Mapping[str, float] = MappingProxyType({})
_LOG = 20_000  # characters of a log that are saved
_ORPHANED = 3  # the exit code of a job whose parent has ended
_LOSSES_OF_ONE = 2  # a cluster may have tried several workers before it counts as a loss
_COUNT_WORKERS_EVERY = 10.0  # seconds
_SHOWN = 3  # running jobs that a bar names


def fit_and_judge(tensor: CountTensor, job: Job, threads: int) -> dict[str, Any]:
    """Fit a model to the training part of a split, and judge its predictions of the held-out part."""
    how = job.hold_out, job.along, job.hold_out_seed
    if not isinstance(tensor, ShardedTensor):
        return _fit_and_judge(hold_out(tensor, *how), job, threads)
    with temporary_folder(place_of_splits(tensor)) as folder:
        return _fit_and_judge(hold_out(tensor, *how, out=folder / "train.zarr"), job, threads)


def place_of_splits(tensor: ShardedTensor) -> Path:
    """Return a path; jobs write training tensors in shards to temporary folders next to it, with names like its own."""
    return tensor.scratch / f"{tensor.path.stem}.split"


def _fit_and_judge(split: Split, job: Job, threads: int) -> dict[str, Any]:
    # A first, short fit compiles the kernels, or loads them, so that only the fit is timed.
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
        **_scores(post, split.test, threads),
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


def _scores(post: Posterior, test: HeldOut, threads: int) -> dict[str, float]:
    """Return the scores of all draws of all chains together, and the mean log PPD of single chains."""
    pooled = _score(post, test)
    chains = len(post.core_values)
    single = [_score(post.select_chains([chain]), test) for chain in range(chains)] if chains > 1 else [pooled]
    means = {f"{name}_chain": sum(each[name] for each in single) / chains for name in pooled}
    return pooled | means | mean_scores(post.record, test, threads)


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
    trace = post.stats[name][:, post.draw_sweeps - 1]
    return np.asarray(trace, dtype=float).mean(axis=(0, 1)).tolist()


def peak_megabytes() -> float:
    """Return the peak memory of this process in MB; on Linux `VmHWM`, as `ru_maxrss` starts from that of the parent."""
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


class JobTask(NamedTuple):
    """What a worker gets: the name of the comparison, a job of it, and its threads."""

    comparison: str
    job: Job
    threads: int


class JobAnswer(NamedTuple):
    """The outcome of a job, and the versions of the worker; None for a process of this installation."""

    outcome: Outcome
    versions: Versions | None


def run_job(task: JobTask, tensor: CountTensor | None) -> JobAnswer | DataWanted:
    """Fit and judge on a worker of an executor."""
    known = remembered(task.comparison, tensor, lambda sent: sent)
    if known is None:
        return DataWanted(Versions.here())
    return JobAnswer(_outcome(known, task.job, task.threads), Versions.here())


def _outcome(tensor: CountTensor, job: Job, threads: int) -> Outcome:
    """Fit and judge. An error is an outcome, too; only the loss of a worker counts as a loss."""
    try:
        return fit_and_judge(tensor, job, threads)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".replace("\n", " "), "log": traceback.format_exc()[-_LOG:]}


class JobProcesses(ThreadPoolExecutor):
    """Runs each job in a new process, which reads the tensor from a file. Shutting down kills the processes."""

    def __init__(self, tensor: Path, parallel: int) -> None:
        super().__init__(parallel)
        self._tensor, self._lock, self._closed = tensor, threading.Lock(), False
        self._processes = set[subprocess.Popen[bytes]]()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Run a `JobTask`, the first of the arguments. The tensor is not sent."""
        return super().submit(self._run, arguments[0])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the processes that run: a job is saved as a whole or not at all."""
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _run(self, task: JobTask) -> JobAnswer:
        with tempfile.TemporaryFile() as log:
            with self._lock:
                if self._closed:
                    raise CancelledError
                process = self._start(task, log)
                self._processes.add(process)
            with process:
                assert process.stdin is not None and process.stdout is not None  # noqa: PT018
                with suppress(OSError):  # it died at once; its exit code says why
                    process.stdin.write(json.dumps(task.job.to_json()).encode() + b"\n")
                output = process.stdout.read()
                code = process.wait()
            with self._lock:
                self._processes.discard(process)
            log.seek(0)
            text = log.read().decode(errors="replace")[-_LOG:].strip()
        if output.endswith(b"\n"):  # it has printed its whole outcome
            return JobAnswer(json.loads(output), None)
        return JobAnswer({"error": _reason(code, text), "log": text}, None)

    def _start(self, task: JobTask, log: Any) -> "subprocess.Popen[bytes]":
        """Start a process with the same package on its path, and with the given number of threads for BLAS."""
        limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(task.threads))
        paths = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        module = [sys.executable, "-P", "-m", "allocore.comparison.jobs"]
        return subprocess.Popen(
            [*module, str(self._tensor), str(task.threads), task.job.name],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, **limits, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a terminal sends Ctrl-C to a whole group, and only the parent should handle it
        )


def _reason(code: int, log: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"ended by {name}" + ("; perhaps there was not enough memory" if name == "SIGKILL" else "")
    return log.splitlines()[-1] if log else f"ended with code {code} and no message"


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(_ORPHANED)


def _raise_if_stopped(message: Warning | str, *_: Any, **__: Any) -> None:
    # A fit that is stopped only warns and returns its draws so far. Here they would pass for a complete result.
    if isinstance(message, FindingWarning) and message.finding.kind in {"stopped", "restarts-stopped"}:
        raise message
    print(message, file=sys.stderr)


def main(tensor: str, threads: str) -> None:
    """Run the job on the first line of standard input, and print its outcome."""
    job, output = Job.from_json(json.loads(sys.stdin.readline())), sys.stdout
    sys.stdout = sys.stderr
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    warnings.simplefilter("always", FindingWarning)
    warnings.showwarning = _raise_if_stopped
    print(json.dumps(_outcome(load_tensor(tensor), job, int(threads))), file=output, flush=True)


def run_jobs(
    executor: Executor,
    jobs: Sequence[Job],
    tensor: CountTensor,
    *,
    parallel: int | None,
    threads: int,
    save: Callable[[Job, Outcome], None],
    go_on: str,
    display: "JobProgress | None" = None,
) -> None:
    """Run jobs in order, `parallel` at a time or as many as there are workers; save each outcome, also an error."""
    waiting, finished, name = list(jobs), list[tuple[Job, float]](), uuid4().hex
    # A process ends or is killed, so there is no need to give up; a worker may just be silent.
    patience = math.inf if isinstance(executor, JobProcesses) else 0.0
    tasks: Tasks[Job] = Tasks(
        executor, run_job, lambda: tensor, go_on=go_on, losses_of_one=_LOSSES_OF_ONE, long=True, patience=patience
    )
    room, count_at = parallel or 1, 0.0
    # A flag, because an exception of Ctrl-C may be raised in a destructor of Dask's, where Python drops it.
    with Stop("") as stop, ExitStack() as stack:
        if display is not None:
            stack.callback(display.close)
        stack.callback(tasks.cancel)
        while waiting or len(tasks):
            if stop.now:
                raise KeyboardInterrupt
            if parallel is None and monotonic() >= count_at:  # workers come and go
                room, count_at = max(1, slots(executor) or 1), monotonic() + _COUNT_WORKERS_EVERY
            # No more than can run: what waits here is sent to workers that have the data by then.
            while waiting and len(tasks) < room:
                job = waiting.pop(0)
                tasks.hand_out(job, JobTask(name, job, threads))
            for job, content, seconds in tasks.answers():
                finished.append((job, seconds))
                save(job, _checked_outcome(content))
            if display is not None:
                display.show(finished, tasks.under_way())


def _checked_outcome(content: JobAnswer | Lost) -> Outcome:
    if isinstance(content, Lost):
        return {"error": f"{content.why}; perhaps there was not enough memory", "log": ""}
    if content.versions is not None:
        check_versions(content.versions)
    return content.outcome


class JobProgress:
    """A bar with the running jobs, or in a log a line after ten seconds, then every minute.

    If it fails, it warns and the jobs go on.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        before: int,
        parallel: int,
        rates: Mapping[str, float] = _NO_RATES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._jobs, self._before, self._parallel, self._rates, self._clock = jobs, before, parallel, rates, clock
        self._next_line, self._failed, self._bar = clock() + 10.0, False, None
        if output_kind() == "terminal":
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = TextColumn("{task.fields[news]}"), TextColumn("[dim]{task.fields[running]}")
            self._bar = Progress(BarColumn(bar_width=24), *columns, console=Console(stderr=True))
            self._bar.add_task("", total=before + len(jobs), news="", running="")
            self._bar.start()

    def show(self, finished: Timed, running: Timed) -> None:
        """Update the bar, or print a line if it is time for one."""
        if self._failed or (self._bar is None and self._clock() < self._next_line):
            return
        try:
            self._show(finished, running)
        except Exception as error:
            self._failed = True
            warn(Finding("progress-display-failed", "caution", {"error": repr(error)}), stacklevel=3)

    def _show(self, finished: Timed, running: Timed) -> None:
        waiting, done = self._jobs[len(finished) + len(running) :], self._before + len(finished)
        left = seconds_left(finished, running, waiting, self._parallel, self._rates)
        news = f"{done} of {self._before + len(self._jobs)} jobs done"
        news += "" if left is None else f", about {in_words(left)} left"
        if self._bar is None:
            self._next_line = self._clock() + 60.0
            log(news)
            return
        names = ", ".join(f"{job.name} {in_words(seconds)}" for job, seconds in running[:_SHOWN])
        names += f" and {len(running) - _SHOWN} more" if len(running) > _SHOWN else ""
        self._bar.update(self._bar.task_ids[0], completed=done, news=news, running=names)

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        if self._bar is not None:
            with suppress(Exception):
                self._bar.stop()


def seconds_left(
    finished: Timed, running: Timed, waiting: Sequence[Job], parallel: int, rates: Mapping[str, float] = _NO_RATES
) -> float | None:
    """Estimate how long the remaining jobs take, in proportion to their work; None without any rate.

    The rate is that of the finished jobs of the same model, or else of its trial, or else of all finished jobs.
    """
    if not finished and not rates:
        return None
    by_model: dict[str, list[float]] = {}
    for job, seconds in finished:
        for name in (job.model, ""):
            spent, work = by_model.get(name, [0.0, 0.0])
            by_model[name] = [spent + seconds, work + work_of(job)]

    def expected(job: Job) -> float:
        if job.model in rates and job.model not in by_model:
            return rates[job.model] * work_of(job)
        spent, work = by_model.get(job.model) or by_model.get("") or (sum(rates.values()) / len(rates), 1.0)
        return spent / work * work_of(job)

    left = sum(expected(job) for job in waiting) + sum(max(0.0, expected(job) - since) for job, since in running)
    return left / parallel


def work_of(job: Job) -> float:
    """Return the work of a sweep of a job, in classes."""
    # Starting a process and splitting the data take about as long as ten classes, whatever the core.
    return job.entries + 10.0


# Models differ by more than their cores: NNTuck starts many times, Tucker visits every location, and likelihoods cost
# more or less. So a few sweeps of each are timed, unless the comparison is short.
_WORTH_A_TRIAL = 5e9  # sweeps times entries of the core times non-zeros: about a hundred million a second
_SWEEPS = 3


def trial_rates(tensor: CountTensor, jobs: Sequence[Job], threads: int) -> dict[str, float]:
    """Return the seconds of each model's fit for each unit of `work_of`.

    There are none if all jobs together are short, or if the tensor is in shards: each fit then writes cells first.
    """
    short = sum(job.sweeps * work_of(job) for job in jobs) * tensor.nnz < _WORTH_A_TRIAL
    if short or isinstance(tensor, ShardedTensor):
        return {}
    rates = {}
    for model in dict.fromkeys(job.model for job in jobs):
        its_jobs = sorted((job for job in jobs if job.model == model), key=work_of)
        middle = its_jobs[len(its_jobs) // 2]
        with suppress(Exception):  # a model that cannot be fitted fails in its jobs, where the others go on
            rates[model] = _seconds_per_sweep(tensor, middle, threads) * middle.sweeps / work_of(middle)
    return rates


def _seconds_per_sweep(tensor: CountTensor, job: Job, threads: int) -> float:
    shortest_model(job, threads).fit(tensor)  # compiles the kernels, or loads them
    model = shortest_model(job, threads, sweeps=_SWEEPS)
    start = perf_counter()
    posterior = model.fit(tensor).posterior_
    seconds = perf_counter() - start
    if not posterior.finished:  # Ctrl-C ends a fit early, and here the whole comparison
        raise KeyboardInterrupt
    return seconds / _SWEEPS


def forecast_words(jobs: Sequence[Job], rates: Mapping[str, float], parallel: int) -> str:
    """Return how long all jobs will take, and those of each model, in one line."""

    def time(some: Sequence[Job]) -> str:
        return in_words(seconds_left([], [], some, parallel, rates) or 0.0)

    each = []
    for model in dict.fromkeys(job.model for job in jobs):
        its_jobs = [job for job in jobs if job.model == model]
        most = "at most " if its_jobs[0].estimator == "NNTuck" else ""
        each.append(f"{series_name(model, '')} {most}{time(its_jobs)}")
    return f"{len(jobs)} fits, {parallel} at a time, take about {time(jobs)}: {', '.join(each)}"


if __name__ == "__main__":
    main(*sys.argv[1:3])

"""Running jobs on an executor: each is a task that a worker can repeat. Results come home; this process writes them.

The scores are those of jobs in processes of their own. The peak of memory is that of the worker until then, and the
seconds depend on what else the worker does.
"""

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import Any, NamedTuple
from uuid import uuid4

from allocore.comparison.folder import Folder
from allocore.comparison.job import fit_and_judge, write_result
from allocore.comparison.job_processes import LOG, JobObserver, tell
from allocore.comparison.settings import Job
from allocore.data.tensor import CountTensor
from allocore.run.cluster.tasks import Lost, Tasks, slots
from allocore.run.cluster.worker_data import DataWanted, Versions, check_versions, remembered
from allocore.run.stop import Stop

_LOSSES_OF_ONE = 2  # a cluster may have tried several workers before it counts as a loss
_LOOK_FOR_WORKERS_EVERY = 10.0  # seconds


class Wanted(NamedTuple):
    """What a task is about: a job of a comparison, and its threads."""

    comparison: str
    job: Job
    threads: int


class Failed(NamedTuple):
    """The error of a job in one line, and where it came from."""

    error: str
    log: str


class Judged(NamedTuple):
    """What came of a job, and the versions of the worker."""

    result: dict[str, Any] | Failed
    versions: Versions


def run_job(wanted: Wanted, tensor: CountTensor | None) -> Judged | DataWanted:
    """Fit and judge. An error of the job is an answer: only what happens to the worker counts as a loss."""
    kept = remembered(wanted.comparison, tensor, lambda sent: sent)
    if kept is None:
        return DataWanted(Versions.here())
    try:
        return Judged(fit_and_judge(kept, wanted.job, wanted.threads), Versions.here())
    except Exception as error:
        failed = Failed(f"{type(error).__name__}: {error}".replace("\n", " "), traceback.format_exc())
        return Judged(failed, Versions.here())


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
    go_on = f"the same call with out={str(folder.path)!r} goes on"
    tasks: Tasks[Job] = Tasks(executor, run_job, lambda: tensor, go_on=go_on, losses_of_one=_LOSSES_OF_ONE, long=True)
    most = _Most(executor, parallel)
    # A flag, because an exception of Ctrl-C may be raised in a destructor of Dask's, where Python drops it.
    with Stop(told="") as stop, ExitStack() as stack:
        stack.callback(lambda: tell(observer, observer.close))
        stack.callback(tasks.cancel)
        while waiting or len(tasks):
            if stop.now:
                raise KeyboardInterrupt
            # No more than can run: what waits here is sent to workers that have the data by then.
            while waiting and len(tasks) < most.now():
                job = waiting.pop(0)
                tasks.hand_out(job, Wanted(name, job, threads))
            for job, content, seconds in tasks.answers():
                finished.append((job, seconds))
                _keep(folder, job, content)
                after_each()
            observer = tell(observer, partial(observer.show, finished, tasks.under_way(), len(waiting)))


class _Most:
    """How many jobs may be under way: as many as the user wants, or as there are workers now."""

    def __init__(self, executor: Executor, parallel: int | None) -> None:
        self._executor, self._parallel = executor, parallel
        self._number, self._next = 1, 0.0

    def now(self) -> int:
        """The number; workers that have come or gone are counted every few seconds."""
        if self._parallel is not None:
            return self._parallel
        if monotonic() >= self._next:
            self._number = max(1, slots(self._executor) or 1)
            self._next = monotonic() + _LOOK_FOR_WORKERS_EVERY
        return self._number


def _keep(folder: Folder, job: Job, content: Judged | Lost) -> None:
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

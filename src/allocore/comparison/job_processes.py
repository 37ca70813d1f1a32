"""Running jobs, each in its own process, several at a time."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any, Protocol

import allocore as ac
from allocore.comparison.folder import Folder
from allocore.comparison.job_progress import Silent
from allocore.comparison.settings import Job

_LOOK_EVERY = 0.05
LOG = 20_000


class JobObserver(Protocol):
    """What is told about the progress of a comparison."""

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
            observer = tell(observer, partial(observer.show, finished, now, len(waiting)))
            sleep(_LOOK_EVERY)
    finally:
        for each in running:
            each.stop()
        tell(observer, observer.close)


def tell(observer: JobObserver, tell: Callable[[], None]) -> JobObserver:
    """Tell an observer; one that fails is replaced with a warning, and the jobs go on."""
    try:
        tell()
    except Exception as error:
        warnings.warn(f"progress display failed and is off: {error!r}", stacklevel=3)
        return Silent()
    return observer


def _start(folder: Folder, job: Job, threads: int) -> Running:
    command = [sys.executable, "-P", "-m", "allocore.comparison.job", folder.tensor, folder.result(job), threads]
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
    home = str(Path(ac.__file__).parent.parent)
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

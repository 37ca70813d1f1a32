"""Tasks on an executor: handed out, repeated if they are lost with their worker, and given up after a long silence.

A task is a call `function(task, data)` whose answer follows from its arguments, so that it can be repeated anywhere. It
is first sent without its data. A worker that does not have them asks for them, and gives its versions; it is sent the
task again with the data. It keeps the data of one name only, because it serves one run or one comparison at a time.

A loss is an error that is not the task's own: the worker is gone, the connection, the scheduler. The run ends after too
many losses in a row, when there is no answer for long, or when no worker is left.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from threading import Lock
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from allocore.errors import NO_VALUE, InputError, StoreError
from allocore.findings import Finding, warn
from allocore.gibbs import SAMPLER_VERSION
from allocore.kernels.rounding import rounding
from allocore.storage.record import packages

_POLL_SECONDS = 0.5  # how often to check whether the run must stop
_MAX_LOSSES = 10  # in a row, before the run gives up
_PATIENCE = 600.0  # seconds without any answer, at least; and 20 times what a task has taken
_ASK_EVERY = 30.0  # seconds between two questions to the scheduler about its workers
_SCHEDULER_ANSWERS_WITHIN = 10  # seconds

TaskKey = TypeVar("TaskKey")
Sent = TypeVar("Sent")
Prepared = TypeVar("Prepared")


class Versions(NamedTuple):
    """What must agree between the workers and this process."""

    sampler: int
    packages: dict[str, str]
    rounding: str = ""  # very old workers do not have it

    @classmethod
    @cache
    def here(cls) -> "Versions":
        """The versions of this process."""
        return cls(SAMPLER_VERSION, {"allocore": version("allocore"), **packages()}, rounding())


class DataWanted(NamedTuple):
    """The answer of a worker that does not have the data of a task, with its versions."""

    versions: Versions


_one_at_a_time = Lock()
_known: dict[str, Any] = {}


def remembered(name: str, sent: Sent | None, prepare: Callable[[Sent], Prepared]) -> Prepared | None:
    """The data of a name, prepared once, when they arrive; None if this worker does not have them."""
    with _one_at_a_time:
        if name not in _known and sent is not None:
            _known.clear()
            _known[name] = prepare(sent)
        found: Prepared | None = _known.get(name)
        return found


def check_versions(theirs: Versions) -> None:
    """Refuse workers whose results might differ from those of this process."""
    ours, rule = Versions.here(), ""
    both = [(name, theirs.packages.get(name), own) for name, own in ours.packages.items()]
    other = ", ".join(f"{name} {worker} (here {own})" for name, worker, own in both if worker != own)
    if theirs.sampler != ours.sampler:
        rule = (
            f"has workers with sampler version {theirs.sampler}, but this is sampler version {ours.sampler}: install "
            "the same allocore on all machines"
        )
    elif other:
        rule = (
            f"has workers with other versions of packages: {other}; draws may differ in their last bits, so install "
            "the same versions on all machines"
        )
    elif theirs.rounding != ours.rounding:
        rule = (
            f"has workers whose arithmetic rounds as {theirs.rounding!r}, but here it rounds as {ours.rounding!r}: "
            "draws would differ in their last bits, so use the same C library on all machines and, if not all have "
            "fused multiply-add or Intel's SVML, set GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA and "
            "NUMBA_DISABLE_INTEL_SVML=1 on all"
        )
    if rule:
        raise InputError("executor", NO_VALUE, rule)


class Lost(NamedTuple):
    """The answer for a task that was lost too often: why it was lost the last time."""

    why: str


class Answer(NamedTuple, Generic[TaskKey]):
    """The key of the task, its answer, and the seconds since it was handed out."""

    key: TaskKey
    content: Any
    seconds: float


@dataclass
class _Task(Generic[TaskKey]):
    key: TaskKey
    content: Any
    since: float
    losses: int = 0
    ended_before: int = 0  # tasks that had ended when it was lost for the first time


class Tasks(Generic[TaskKey]):
    """The tasks that are under way on an executor; `longest` is the most seconds that one has taken.

    A task lost more than `losses_of_one` times is given up if it seems to be the cause, perhaps by its memory: others
    ended since, or Dask says it killed its workers. If None, only losses in a row end the run. If tasks are `long`,
    silence, of `patience` seconds at least, ends it only before the first answer; later, it ends if no worker is left.
    """

    def __init__(
        self, executor: Executor, function: Callable[..., Any], data: Callable[[], Any], *, go_on: str = "",
        losses_of_one: int | None = None, long: bool = False, patience: float = 0.0,
    ) -> None:  # fmt: skip
        self._executor, self._function, self._data = executor, function, data
        self._stopped = partial(stopped_run, how_to_resume=go_on)
        self._losses_of_one, self._long, self._least_patience = losses_of_one, long, patience
        self._under_way: dict[Future[Any], _Task[TaskKey]] = {}
        self._losses, self._ended, self._answered, self.longest = 0, 0, False, 0.0
        self._last_answer = self._last_question = monotonic()

    def __len__(self) -> int:
        return len(self._under_way)

    def under_way(self) -> list[tuple[TaskKey, float]]:
        """The tasks under way, each with the seconds since it was handed out."""
        now = monotonic()
        return [(task.key, now - task.since) for task in self._under_way.values()]

    def hand_out(self, key: TaskKey, content: Any, options: Mapping[str, Any] | None = None) -> None:
        """Hand out a task; `options`, such as a preferred worker, go to the executor, unless it is repeated."""
        self._submit(_Task(key, content, monotonic()), None, **(options or {}))

    def answers(self, *, repeat: bool = True) -> Iterator[Answer[TaskKey]]:
        """Wait a moment, and yield the answers that have come. With `repeat`, lost tasks are repeated."""
        done, _ = wait(self._under_way, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        for future in done:
            task = self._under_way.pop(future)
            content = self._content(task, future, repeat)
            if content is not None:
                seconds = monotonic() - task.since
                self.longest = max(self.longest, seconds)
                yield Answer(task.key, content, seconds)
        if self._under_way:
            self._check_patience()

    def silence(self) -> float:
        """The seconds since the last answer."""
        return monotonic() - self._last_answer

    def cancel(self) -> None:
        """Cancel the tasks that are not running, and forget the others."""
        if not self._is_closed():
            for future in list(self._under_way):
                future.cancel()
        self._under_way.clear()

    def _submit(self, task: _Task[TaskKey], data: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                # Dask warns about large arguments, but a worker gets them only once, and Dask has no better way.
                warnings.filterwarnings("ignore", message="Sending large graph")
                future = self._executor.submit(self._function, task.content, data, **options)
        except Exception as error:  # every executor has its own: BrokenExecutor, RuntimeError, ..
            raise self._stopped(f"the executor accepts no more tasks: {error}") from error
        self._under_way[future] = task

    def _content(self, task: _Task[TaskKey], future: "Future[Any]", repeat: bool) -> Any:
        """The answer of a task, or None if it is handed out again."""
        data = None
        try:
            content = future.result()
        except BrokenExecutor as error:
            raise self._stopped(f"the workers of the executor are gone: {error}") from error
        except InputError:
            raise
        except (Exception, CancelledError) as error:
            given_up = self._count_loss(task, error)
            if given_up is not None:
                return given_up
        else:
            self._last_answer, self._answered = monotonic(), True
            if not isinstance(content, DataWanted):
                self._losses, self._ended = 0, self._ended + 1
                return content
            check_versions(content.versions)
            data = self._data()
        if repeat:
            self._submit(task, data)
        return None

    def _count_loss(self, task: _Task[TaskKey], error: BaseException) -> Lost | None:
        if _cannot_be_loaded(error):
            rule = f"has workers that cannot load this allocore ({error}): install the same versions on all machines"
            raise InputError("executor", NO_VALUE, rule) from error
        self._losses += 1
        task.losses += 1
        if task.losses == 1:
            task.ended_before = self._ended
        if self._losses > _MAX_LOSSES:
            raise self._stopped(f"{self._losses} tasks failed in a row, the last with {_in_words(error)}") from error
        own_fault = self._ended > task.ended_before or type(error).__name__ == "KilledWorker"
        if self._losses_of_one is not None and task.losses > self._losses_of_one and own_fault:
            return Lost(f"lost {task.losses} times with its worker, the last time with {_in_words(error)}")
        warn(Finding("task-repeated", "caution", {"error": _in_words(error)}), stacklevel=6)
        return None

    def _is_closed(self) -> bool:
        """Whether a Dask client has given up, after trying for some time to reach its scheduler again."""
        return getattr(getattr(self._executor, "_client", None), "status", "running") == "closed"

    def _check_patience(self) -> None:
        if self._is_closed():
            raise self._stopped("the scheduler of the cluster is gone")
        silence = self.silence()
        if silence <= max(_PATIENCE, self._least_patience, 20.0 * self.longest):
            return
        if not (self._long and self._answered):
            raise self._stopped(f"no worker has answered for {silence:.0f} seconds")
        if monotonic() - self._last_question > _ASK_EVERY:
            self._last_question = monotonic()
            if slots(self._executor) == 0:
                raise self._stopped(f"no worker has answered for {silence:.0f} seconds, and none is left")


def stopped_run(why: str, how_to_resume: str) -> StoreError:
    """The error of a run that stops because of its executor: why, and how to resume it, if that is possible."""
    return StoreError("", f"{why}. {how_to_resume[:1].upper()}{how_to_resume[1:]}" if how_to_resume else why)


def threads_by_worker(executor: Executor) -> dict[str, int] | None:
    """The threads of each worker of a Dask cluster, by address; None without Dask, or if the scheduler is silent."""
    client: Any = getattr(executor, "_client", None)
    if client is None or not hasattr(client, "scheduler"):
        return None
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_ANSWERS_WITHIN)
    except Exception:  # a lost connection raises many kinds
        return None
    return {str(address): int(number) for address, number in threads.items()}


def slots(executor: Executor) -> int | None:
    """How many tasks the executor runs at a time; 0 if it has no workers now, None if unknown."""
    threads = threads_by_worker(executor)
    if threads is not None:
        return sum(threads.values())
    for name in ("num_workers", "_max_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int):
            return number
    return None


def _in_words(error: BaseException) -> str:
    if isinstance(error, CancelledError) or type(error).__name__ == "FutureCancelledError":
        return f"{type(error).__name__}: the executor has dropped it, perhaps because the scheduler is gone"
    return " ".join(repr(error).split())


def _cannot_be_loaded(error: BaseException | None) -> bool:
    """Whether a worker has no allocore, or another version of it."""
    while error is not None:
        without_name = isinstance(error, AttributeError) and "Can't get attribute" in str(error)
        if isinstance(error, ImportError) or without_name:
            return True
        error = error.__cause__
    return False

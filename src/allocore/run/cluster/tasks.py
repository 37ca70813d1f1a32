"""Tasks on an executor: handed out, repeated when they are lost with their worker, waited for, but not without end.

A task is a call `function(wanted, data)` whose answer follows from its arguments alone, so that it can be repeated
anywhere. It is first sent without its data; a worker that does not have them yet asks for them (worker_data.py).

    a loss         an error that is not the task's own: the worker is gone, the connection, the scheduler
    an end         after too many losses in a row, or when nobody answers for long, or nobody is left who could
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from allocore.errors import InputError, StoreError
from allocore.run.cluster.worker_data import DataWanted, check_versions

_LOOK_EVERY = 0.5  # seconds between two looks at whether someone asked to stop
_LOSSES = 10  # in a row, before the run gives up
_PATIENCE = 600.0  # seconds without any answer, at least; and 20 times what a task has taken
_ASK_EVERY = 30.0  # seconds between two questions to the scheduler about its workers
_SCHEDULER_ANSWERS_WITHIN = 10  # seconds

_NO_OPTIONS: Mapping[str, Any] = {}

Key = TypeVar("Key")


class Lost(NamedTuple):
    """What is answered for a task that was lost too often: why it was lost the last time."""

    why: str


class Answer(NamedTuple, Generic[Key]):
    """An answer: which task it is of, what it says, and the seconds since the task was handed out."""

    key: Key
    content: Any
    seconds: float


@dataclass
class _Task(Generic[Key]):
    key: Key
    wanted: Any
    since: float
    losses: int = 0
    ended_before: int = 0  # tasks that had ended when it was lost for the first time


class Tasks(Generic[Key]):
    """The tasks that are under way on an executor.

    Without a bound on the `losses_of_one` task, only losses in a row end the run. With it, a task that is lost more
    often is given up alone, if it seems to be its own fault, perhaps because it needs more memory than a worker has:
    others have ended meanwhile, or Dask says that it has killed its workers. If tasks are `long`, silence ends the run
    only until the first answer, and from then on if no worker is left. `patience` is the silence, in seconds, that is
    granted in any case.
    """

    def __init__(
        self,
        executor: Executor,
        function: Callable[..., Any],
        data: Callable[[], Any],
        *,
        go_on: str = "",
        losses_of_one: int | None = None,
        long: bool = False,
        patience: float = 0.0,
    ) -> None:
        self._executor, self._function, self._data, self._go_on = executor, function, data, go_on
        self._losses_of_one, self._long, self._least_patience = losses_of_one, long, patience
        self._under_way: dict[Future[Any], _Task[Key]] = {}
        self._losses, self._ended, self._longest, self._answered = 0, 0, 0.0, False
        self._last_answer = self._last_question = monotonic()

    def __len__(self) -> int:
        return len(self._under_way)

    def under_way(self) -> list[tuple[Key, float]]:
        """The tasks under way, each with the seconds since it was handed out."""
        now = monotonic()
        return [(task.key, now - task.since) for task in self._under_way.values()]

    def hand_out(self, key: Key, wanted: Any, options: Mapping[str, Any] | None = None) -> None:
        """Hand out a task; `options`, such as a preferred worker, go to the executor, unless it is repeated."""
        self._submit(_Task(key, wanted, monotonic()), None, options or {})

    def answers(self, *, repeat: bool = True) -> Iterator[Answer[Key]]:
        """Wait a moment, and yield what has come home. What was lost is repeated, unless that is not wanted."""
        done, _ = wait(self._under_way, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
        for future in done:
            task = self._under_way.pop(future)
            content = self._content(task, future, repeat)
            if content is not None:
                seconds = monotonic() - task.since
                self._longest = max(self._longest, seconds)
                yield Answer(task.key, content, seconds)
        if self._under_way:
            self._check_patience()

    def silence(self) -> float:
        """The seconds since the last answer."""
        return monotonic() - self._last_answer

    def longest(self) -> float:
        """The most seconds that a task has taken."""
        return self._longest

    def cancel(self) -> None:
        """Take back what has not begun, and forget the rest."""
        if not self._is_closed():  # nobody is there to be told
            for future in list(self._under_way):
                future.cancel()
        self._under_way.clear()

    def lost(self, why: str) -> StoreError:
        """The error that says why the tasks cannot go on, and how the run can."""
        return told_how_to_go_on(why, self._go_on)

    def _submit(self, task: _Task[Key], data: Any, options: Mapping[str, Any] = _NO_OPTIONS) -> None:
        try:
            with warnings.catch_warnings():
                # Dask warns of large arguments. They are sent once to a worker, and it has no better way for them.
                warnings.filterwarnings("ignore", message="Sending large graph")
                future = self._executor.submit(self._function, task.wanted, data, **options)
        except Exception as error:  # each executor has its own for an end: BrokenExecutor, RuntimeError, ..
            raise self.lost(f"the executor takes no more work: {error}") from error
        self._under_way[future] = task

    def _content(self, task: _Task[Key], future: "Future[Any]", repeat: bool) -> Any:
        """What a task answered, or None if it is handed out again."""
        data = None
        try:
            content = future.result()
        except BrokenExecutor as error:
            raise self.lost(f"the workers of the executor are gone: {error}") from error
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

    def _count_loss(self, task: _Task[Key], error: BaseException) -> Lost | None:
        """Count a loss; what to answer if the task is given up."""
        if _cannot_be_loaded(error):
            raise InputError(
                f"executor has workers that cannot load allocore as it is here ({error}): install the same versions on "
                "all machines"
            ) from error
        self._losses += 1
        task.losses += 1
        if task.losses == 1:
            task.ended_before = self._ended
        if self._losses > _LOSSES:
            raise self.lost(f"{self._losses} tasks failed in a row, the last with {_in_words(error)}") from error
        own_fault = self._ended > task.ended_before or type(error).__name__ == "KilledWorker"
        if self._losses_of_one is not None and task.losses > self._losses_of_one and own_fault:
            return Lost(f"lost {task.losses} times with its worker, at last with {_in_words(error)}")
        warnings.warn(f"a task was lost and is repeated: {_in_words(error)}", stacklevel=6)
        return None

    def _is_closed(self) -> bool:
        """Whether a client of Dask has given up: it has tried for some time to reach its scheduler again."""
        return getattr(getattr(self._executor, "_client", None), "status", "running") == "closed"

    def _check_patience(self) -> None:
        if self._is_closed():
            raise self.lost("the scheduler of the cluster is gone")
        silence = self.silence()
        if silence <= max(_PATIENCE, self._least_patience, 20.0 * self._longest):
            return
        if not (self._long and self._answered):
            raise self.lost(f"no worker has answered for {silence:.0f} seconds")
        if monotonic() - self._last_question > _ASK_EVERY:
            self._last_question = monotonic()
            if slots(self._executor) == 0:
                raise self.lost(f"no worker has answered for {silence:.0f} seconds, and none is left")


def told_how_to_go_on(why: str, how: str) -> StoreError:
    """The error of a run that stops: why, and how it can go on, if it can."""
    return StoreError(f"{why}. {how[:1].upper()}{how[1:]}" if how else why)


def threads_by_worker(executor: Executor) -> dict[str, int] | None:
    """The threads of each worker of a Dask cluster, by its address; empty if nobody is there.

    None if that is not known: without Dask, or if the scheduler does not answer in time.
    """
    client: Any = getattr(executor, "_client", None)
    if client is None or not hasattr(client, "scheduler"):
        return None
    try:
        threads = client.sync(client.scheduler.ncores, callback_timeout=_SCHEDULER_ANSWERS_WITHIN)
    except Exception:  # whatever a lost connection raises
        return None
    return {str(address): int(number) for address, number in threads.items()}


def slots(executor: Executor) -> int | None:
    """How many tasks the executor runs at a time; 0 if nobody is there now, None if it does not say."""
    threads = threads_by_worker(executor)
    if threads is not None:
        return sum(threads.values())
    for name in ("num_workers", "_max_workers"):
        number = getattr(executor, name, None)
        if isinstance(number, int):
            return number
    return None


def _is_cancelled(error: BaseException) -> bool:
    return isinstance(error, CancelledError) or type(error).__name__ == "FutureCancelledError"


def _in_words(error: BaseException) -> str:
    if _is_cancelled(error):
        return f"{type(error).__name__}: the executor has dropped it, perhaps because the scheduler is gone"
    return " ".join(repr(error).split())


def _cannot_be_loaded(error: BaseException | None) -> bool:
    """Whether a worker has no allocore, or one without what it was asked for."""
    while error is not None:
        if isinstance(error, ImportError) or (
            isinstance(error, AttributeError) and "Can't get attribute" in str(error)
        ):
            return True
        error = error.__cause__
    return False

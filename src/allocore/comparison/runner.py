"""Where the jobs of a comparison run: in processes of this machine, or on an executor."""

from concurrent.futures import Executor
from dataclasses import dataclass, replace

from allocore.errors import whole_number
from allocore.kernels.workers import available_threads


@dataclass(frozen=True)
class Runner:
    """How many jobs run at a time, with how many threads, and where; None is the default of the place."""

    jobs: int | None = None
    threads: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, jobs: int | None, threads: int | None, executor: object) -> "Runner":
        """Return what the user wants, checked."""
        given = cls(_optional("jobs", jobs), _optional("threads", threads))
        if executor is None:
            return given
        from allocore.run.cluster.executors import as_executor

        return replace(given, executor=as_executor(executor))

    def at_a_time(self, jobs: int) -> int:
        """Return how many of so many jobs run at a time; on an executor, now."""
        if self.executor is None:
            most = self.jobs or available_threads()
        else:
            from allocore.run.cluster.tasks import slots

            most = self.jobs or slots(self.executor) or 1
        return max(1, min(most, jobs))

    def threads_each(self, parallel: int) -> int:
        """Return the threads of a job: an even share of the processors here, and one on an executor."""
        if self.threads is not None:
            return self.threads
        return max(1, available_threads() // parallel) if self.executor is None else 1


def _optional(name: str, value: int | None) -> int | None:
    return None if value is None else whole_number(name, value)

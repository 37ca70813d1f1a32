"""Thinning on the workers of an executor: the cells of a sharded tensor stay with them, all other steps are made here.

The shards are cut into ranges, one for each worker. In every sweep each worker is sent the state of the rows that its
cells touch, and returns tables of counts and the parts of the log-likelihood; they are put together in the order of
the cells (gibbs/shards.py). So the draws are those of one process, whatever the ranges.

    lost       a task whose worker is gone is repeated on another, which loads the range. Dask may take half a minute
               to notice that an answer went with its worker, so the driver looks who is gone, and does not wait
    slow       a task that takes five times as long as usual, and at least 30 seconds, is given to another worker as
               well; the first answer counts, and both would be the same
    cutting    if workers come or go, the shards are cut anew; also if another cut would save a twentieth of the time,
               but more and more rarely, because workers must read their shards again
    waiting    ends: if no worker answers for long, the run stops with an error, and what was saved can be resumed
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median
from threading import Lock
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np

from allocore.data.sharded_tensor import ShardedTensor
from allocore.gibbs.layout import Layout
from allocore.gibbs.shards import joined, layout_without_cells, state_of_rows
from allocore.gibbs.thinning import ThinnedCells
from allocore.gibbs.workspace import Workspace
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.cluster.shard_tasks import RangeFacts, ShardRange, Thinned, ThinTask, load_range, thin_range
from allocore.run.cluster.tasks import Tasks, slots, threads_by_worker, told_how_to_go_on
from allocore.run.cluster.worker_data import check_versions

_LOOK_EVERY = 0.5  # seconds
_PATIENCE = 600.0  # seconds without a worker
_SLOW, _SLOW_SECONDS = 5.0, 30.0
_LEAST_CELLS_A_SECOND = 1e5  # that are read, before patience ends
_OWN_AND_ANOTHER = 2
_LOOK_FOR_WORKERS, _LOOK_WHO_IS_GONE = 5.0, 1.0  # seconds: between sweeps, and while answers are waited for
_WORTH, _SWEEPS = 0.95, 20  # when to cut anew: the new time over the old one, and sweeps since the last cut at first
_LEAST_SECONDS = 0.05  # below that it is not worth it
_REMEMBERED = 5  # tasks


def _no_data() -> None:
    """Nothing is sent with the tasks: a worker reads its shards from disk."""


class RangePlace(NamedTuple):
    """Where a range is thinned: a worker of a Dask cluster, or whatever process another executor chooses."""

    name: str
    threads: int
    options: dict[str, Any]


@dataclass
class _Range:
    """A range of shards, the worker that has it, what is known of it, and the usual seconds of its tasks."""

    where: ShardRange
    place: RangePlace
    facts: RangeFacts
    first_draw: int
    seconds: float = 0.0
    last: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def note(self, seconds: float) -> None:
        """Note what a task took. The median is usual: a worker may compile, hang once, or be disturbed by others."""
        self.last.append(seconds)
        self.seconds = median(self.last)


class _Gathered(NamedTuple):
    """An answer, the seconds since its task was first handed out, and whether it was handed out again."""

    content: Any
    seconds: float
    doubled: bool


class ShardedThinning:
    """Thins the cells of a sharded tensor on the workers of an executor: a `ThinCells` of gibbs/thinning.py."""

    def __init__(self, tensor: ShardedTensor, executor: Executor, threads: int | None, go_on: str = "") -> None:
        self._tensor, self._executor, self._threads, self._go_on = tensor, executor, threads, go_on
        self._client: Any = getattr(executor, "_client", None)  # of Dask
        self._ranges: list[_Range] = []
        self._cutting = Lock()
        self._looked, self._sweeps, self._next_cut = -np.inf, 0, _SWEEPS
        self._taken: deque[float] = deque(maxlen=_REMEMBERED)
        self._there = frozenset[str]()  # the addresses of the workers, when they were last looked for

    def layout(self, workers: Workers) -> Layout:
        """What the steps that are made here read of the tensor."""
        tensor, sizes = self._tensor, self._tensor.files.sizes
        tensor.check_there()
        totals_R = tensor.files.row_totals().astype(np.float64)
        return layout_without_cells(
            tensor.shape, sizes.order, totals_R, sizes.log_factorials, sizes.total, tensor.missing, workers
        )

    def __call__(
        self, key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
        count_type: type[np.signedinteger[Any]],
    ) -> ThinnedCells:  # fmt: skip
        """Thin all cells."""
        ranges = self._cut_if_needed()

        def wanted(number: int) -> ThinTask:
            each = ranges[number]
            rows_state = state_of_rows(state, each.facts.rows)
            given = each.where, key, each.first_draw, likelihood, rows_state, count_type, each.place.threads
            return ThinTask(*given, self._kept(ranges))

        tasks: Tasks[int] = Tasks(self._executor, thin_range, _no_data, go_on=self._go_on)
        for number, each in enumerate(ranges):
            tasks.hand_out(number, wanted(number), each.place.options)
        # The scales of the rows are computed while the workers are at work.
        log_scale_R = workspace.scaled_rows(state).log_scale_R
        answers = self._gathered(tasks, wanted, median(self._taken) if self._taken else 0.0)
        thinned: list[Thinned] = [each.content for each in answers]
        for each, answer, found in zip(ranges, answers, thinned, strict=True):
            check_versions(found.versions)
            # If another worker had to help, its seconds say nothing of this one.
            each.note(answer.seconds if answer.doubled else found.seconds)
        self._sweeps += 1
        self._taken.append(tasks.longest())
        rows = [each.facts.rows for each in ranges]
        return joined([each.cells for each in thinned], rows, layout, log_scale_R, count_type)

    def _kept(self, ranges: Sequence[object]) -> int:
        """How many ranges a worker keeps: its own and one of another; all, if nobody can say who gets which."""
        return _OWN_AND_ANOTHER if self._client is not None else len(ranges)

    def _cut_if_needed(self) -> list[_Range]:
        """The ranges, cut anew if workers came or went or are unevenly loaded."""
        with self._cutting:
            now = monotonic()
            if not self._ranges or now - self._looked > _LOOK_FOR_WORKERS:
                self._looked = now
                places = self._places()[: self._tensor.shards]
                if [each.place.name for each in self._ranges] != [each.name for each in places]:
                    self._ranges, self._next_cut = self._cut(places, self._evenly(places)), _SWEEPS
                elif (edges := self._better_edges()) is not None:
                    self._ranges, self._next_cut = self._cut(places, edges), 2 * self._next_cut
            return self._ranges

    def _evenly(self, places: Sequence[RangePlace]) -> list[int]:
        """The edges of ranges in proportion to the threads of the workers."""
        return cut_in_proportion(self._tensor.shards, [each.threads for each in places])

    def _better_edges(self) -> list[int] | None:
        """The edges of ranges that would take clearly less time, going by what each worker usually takes."""
        seconds = [each.seconds for each in self._ranges]
        if self._sweeps < self._next_cut or min(seconds) <= 0.0 or max(seconds) < _LEAST_SECONDS:
            return None
        lengths = [each.where.last - each.where.first for each in self._ranges]
        speeds = [length / each for length, each in zip(lengths, seconds, strict=True)]
        edges = cut_in_proportion(self._tensor.shards, speeds)
        expected = max((stop - start) / speed for (start, stop), speed in zip(pairwise(edges), speeds, strict=True))
        return edges if expected < _WORTH * max(seconds) else None

    def _places(self) -> list[RangePlace]:
        """All workers; if there is none yet, wait for one."""
        if self._client is None:
            return [RangePlace(str(each), self._threads or 1, {}) for each in range(slots(self._executor) or 1)]
        begun = monotonic()
        while not (found := threads_by_worker(self._executor)):
            if self._client.status == "closed":
                raise told_how_to_go_on("the scheduler of the cluster is gone", self._go_on)
            if monotonic() - begun > _PATIENCE:
                raise told_how_to_go_on(f"the cluster has had no worker for {_PATIENCE:.0f} seconds", self._go_on)
            sleep(_LOOK_EVERY)
        self._there = frozenset(found)
        return [
            RangePlace(address, self._threads or threads, {"workers": [address], "allow_other_workers": False})
            for address, threads in sorted(found.items())
        ]

    def _gathered(self, tasks: "Tasks[int]", wanted: Callable[[int], Any], usual: float) -> list["_Gathered"]:
        """The answers to tasks 0, 1, .. that are under way. One that is slow, or perhaps lost, is handed out again."""
        found, number, patience = dict[int, _Gathered](), len(tasks), max(_SLOW_SECONDS, _SLOW * usual)
        doubled, there, begun = set[int](), self._there, monotonic()
        looked = begun
        try:
            while len(found) < number:
                for answer in tasks.answers():
                    gathered = _Gathered(answer.content, monotonic() - begun, answer.key in doubled)
                    found.setdefault(answer.key, gathered)
                again = {key for key, seconds in tasks.under_way() if seconds > patience} - doubled
                if monotonic() - looked > _LOOK_WHO_IS_GONE:
                    before, there, looked = there, self._names(there), monotonic()
                    again = set(range(number)) if before - there else again
                for key in again - found.keys():
                    doubled.add(key)
                    tasks.hand_out(key, wanted(key))
        finally:
            tasks.cancel()
        return [found[key] for key in range(number)]

    def _names(self, before: frozenset[str]) -> frozenset[str]:
        """The addresses of the workers of a Dask cluster; those of before if nobody knows."""
        threads = threads_by_worker(self._executor)
        return before if threads is None else frozenset(threads)

    def _cut(self, places: Sequence[RangePlace], edges: Sequence[int]) -> list[_Range]:
        """Cut the shards into a range for each worker, and let them be loaded."""
        files = self._tensor.files
        wheres = [ShardRange(str(files.path), files.fingerprint, *pair) for pair in pairwise(edges)]

        wanted = [(where, self._kept(wheres)) for where in wheres]
        # A disk may be slow, and all workers read from it.
        tasks: Tasks[int] = Tasks(
            self._executor, load_range, _no_data, go_on=self._go_on, patience=files.sizes.nnz / _LEAST_CELLS_A_SECOND
        )
        for number, place in enumerate(places[: len(wanted)]):
            tasks.hand_out(number, wanted[number], place.options)
        facts: list[RangeFacts] = [each.content for each in self._gathered(tasks, wanted.__getitem__, inf)]
        for each in facts:
            check_versions(each.versions)
        first_draws = np.cumsum([0, *(each.draws for each in facts)]).tolist()
        self._sweeps = 0
        made = zip(wheres, places, facts, first_draws, strict=False)
        return [_Range(*each) for each in made]


def cut_in_proportion(shards: int, speeds: Sequence[float]) -> list[int]:
    """The edges of ranges of shards, at least one shard each, in proportion to the speeds."""
    ends = np.cumsum(speeds) / np.sum(speeds) * shards
    edges, left = [0], len(speeds)
    for end in ends.tolist():
        left -= 1
        edges.append(min(max(round(end), edges[-1] + 1), shards - left))
    return edges


class Here(Executor):
    """Makes every task at once, in the thread that asks for it: for a sharded tensor without a cluster."""

    def submit(self, function: Callable[..., Any], /, *given: Any, **options: Any) -> "Future[Any]":
        """Make a task."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*given))
        except Exception as error:
            future.set_exception(error)
        return future

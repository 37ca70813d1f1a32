"""Thinning on the workers of an executor: the cells of a sharded tensor stay with them, all other steps are made here.

The shards are cut into ranges, one for each worker. In every sweep each worker is sent the state of the rows that its
cells touch, and returns tables of counts and the parts of the log-likelihood; they are put together in the order of
the cells (gibbs/shards.py). So the draws are those of one process, whatever the ranges.

    lost       a task whose worker is gone is repeated on another, which loads the range
    slow       a task that takes five times as long as it should, and at least 30 seconds, is given to another worker
               as well; the first answer counts, and both would be the same
    joining    if workers come or go, or if some take a third longer than the others, the shards are cut anew
    waiting    ends: if no worker answers for long, the run stops with an error, and what was saved can be resumed
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Lock
from time import monotonic, sleep
from typing import Any, NamedTuple
from warnings import warn

import numpy as np

from allocore.data.sharded_tensor import ShardedTensor
from allocore.errors import InputError, StoreError
from allocore.gibbs.layout import Layout
from allocore.gibbs.shards import joined, layout_without_cells, state_of_rows
from allocore.gibbs.thinning import ThinnedCells
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.shard_tasks import RangeFacts, ShardRange, Thinned, ThinTask, load_range, thin_range

_LOOK_EVERY = 0.5  # seconds
_LOSSES = 10  # of tasks in a row, before the run gives up
_PATIENCE = 600.0  # seconds without any answer, at least; and 20 times what a task has taken
_SLOW, _SLOW_SECONDS = 5.0, 30.0
_LOOK_FOR_WORKERS = 5.0  # seconds
_UNEVEN, _SWEEPS = 1.3, 20  # when to cut anew: the longest time over the mean, and sweeps since the last cut


class Place(NamedTuple):
    """Where a range is thinned: a worker of a Dask cluster, or whatever process another executor chooses."""

    name: str
    threads: int
    options: dict[str, Any]


@dataclass
class _Range:
    """A range of shards, the worker that has it, what is known of it, and the seconds of its last tasks."""

    where: ShardRange
    place: Place
    facts: RangeFacts
    first_draw: int
    cells: int
    seconds: float = 0.0


@dataclass
class _Call:
    """A task under way for range number `number`: since when, and whether it is a second try of a slow one."""

    number: int
    since: float = field(default_factory=monotonic)


class ShardedThinning:
    """Thins the cells of a sharded tensor on the workers of an executor: a `ThinCells` of gibbs/thinning.py."""

    def __init__(self, tensor: ShardedTensor, executor: Executor, threads: int | None, client: Any = None) -> None:
        self._tensor, self._executor, self._threads, self._client = tensor, executor, threads, client
        self._ranges: list[_Range] = []
        self._cutting = Lock()
        self._looked, self._sweeps, self._longest = -np.inf, 0, 0.0

    def layout(self, workers: Workers) -> Layout:
        """What the steps that are made here read of the tensor."""
        tensor, sizes = self._tensor, self._tensor.files.sizes
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

        def task(number: int) -> tuple[Callable[..., Any], ThinTask]:
            each = ranges[number]
            rows_state = state_of_rows(state, each.facts.rows)
            given = each.where, key, each.first_draw, likelihood, rows_state, count_type, each.place.threads
            return thin_range, ThinTask(*given)

        gathered = _Gathering(self._executor, task, [each.place for each in ranges], self._longest)
        # The scales of the rows are computed while the workers are at work.
        log_scale_R = workspace.scaled_rows(state).log_scale_R
        answers: list[Thinned] = gathered.answers()
        for each, answer in zip(ranges, answers, strict=True):
            each.seconds = answer.seconds
        self._sweeps, self._longest = self._sweeps + 1, max(gathered.longest, self._longest)
        thinned, rows = [each.cells for each in answers], [each.facts.rows for each in ranges]
        return joined(thinned, rows, layout, log_scale_R, count_type)

    def _cut_if_needed(self) -> list[_Range]:
        """The ranges, cut anew if workers came or went or are unevenly loaded."""
        with self._cutting:
            now = monotonic()
            if not self._ranges or now - self._looked > _LOOK_FOR_WORKERS:
                self._looked = now
                places = self._places()
                if [each.place.name for each in self._ranges] != [each.name for each in places[: len(self._ranges)]]:
                    self._ranges = self._cut(places, [each.threads for each in places])
                elif self._is_uneven():
                    speeds = [each.cells / each.seconds for each in self._ranges]
                    self._ranges = self._cut([each.place for each in self._ranges], speeds)
            return self._ranges

    def _is_uneven(self) -> bool:
        seconds = [each.seconds for each in self._ranges]
        mean = sum(seconds) / len(seconds)
        return self._sweeps >= _SWEEPS and 0.0 < _UNEVEN * mean < max(seconds) and mean > 0.05

    def _places(self) -> list[Place]:
        """All workers; if there is none yet, wait for one."""
        if self._client is None:
            number = getattr(self._executor, "num_workers", None) or getattr(self._executor, "_max_workers", None) or 1
            return [Place(str(each), self._threads or 1, {}) for each in range(number)]
        begun = monotonic()
        while not (found := self._client.nthreads()):
            if monotonic() - begun > _PATIENCE:
                raise StoreError(f"the cluster has had no worker for {_PATIENCE:.0f} seconds")
            sleep(_LOOK_EVERY)
        return [
            Place(address, self._threads or threads, {"workers": [address], "allow_other_workers": True})
            for address, threads in sorted(found.items())
        ]

    def _cut(self, places: Sequence[Place], speeds: Sequence[float]) -> list[_Range]:
        """Cut the shards into a range for each worker, in proportion to their speeds, and let them be loaded."""
        files, shards = self._tensor.files, self._tensor.shards
        edges = cut_in_proportion(shards, speeds[:shards])
        wheres = [ShardRange(str(files.path), files.fingerprint, *pair) for pair in pairwise(edges)]

        def task(number: int) -> tuple[Callable[..., Any], ShardRange]:
            return load_range, wheres[number]

        facts: list[RangeFacts] = _Gathering(self._executor, task, places[: len(wheres)], 0.0).answers()
        for each in facts:
            each.versions.check()
        first_draws = np.cumsum([0, *(each.draws for each in facts)]).tolist()
        cells = [len(files.sizes.cells_of(*pair)) for pair in pairwise(edges)]
        self._sweeps = 0
        made = zip(wheres, places, facts, first_draws, cells, strict=False)
        return [_Range(*each) for each in made]


def cut_in_proportion(shards: int, speeds: Sequence[float]) -> list[int]:
    """The edges of ranges of shards, at least one shard each, in proportion to the speeds."""
    ends = np.cumsum(speeds) / np.sum(speeds) * shards
    edges, left = [0], len(speeds)
    for end in ends.tolist():
        left -= 1
        edges.append(min(max(round(end), edges[-1] + 1), shards - left))
    return edges


class _Gathering:
    """One task for each range, under way at the same time; lost ones are repeated, slow ones doubled."""

    def __init__(
        self,
        executor: Executor,
        task: Callable[[int], tuple[Callable[..., Any], Any]],
        places: Sequence[Place],
        usual: float,
    ) -> None:
        self._executor, self._task, self._usual = executor, task, usual
        self._under_way: dict[Future[Any], _Call] = {}
        self._answers: dict[int, Any] = {}
        self._number, self._losses, self._doubled = len(places), 0, set[int]()
        self._begun = self._last_answer = monotonic()
        for number, place in enumerate(places):
            self._submit(number, place.options)

    @property
    def longest(self) -> float:
        """Seconds until the last answer came."""
        return self._last_answer - self._begun

    def answers(self) -> list[Any]:
        """The answers, in the order of the ranges."""
        try:
            while len(self._answers) < self._number:
                done, _ = wait(self._under_way, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future)
                self._look_after_slow_ones()
        finally:
            for future in self._under_way:
                future.cancel()
        return [self._answers[number] for number in range(self._number)]

    def _submit(self, number: int, options: dict[str, Any]) -> None:
        function, argument = self._task(number)
        try:
            future = self._executor.submit(function, argument, **options)
        except (BrokenExecutor, RuntimeError) as error:
            raise StoreError(f"the executor takes no more work: {error}") from error
        self._under_way[future] = _Call(number)

    def _take(self, future: "Future[Any]") -> None:
        call = self._under_way.pop(future)
        try:
            answer = future.result()
        except BrokenExecutor as error:
            raise StoreError(f"the workers of the executor are gone: {error}") from error
        except InputError:
            raise
        except (Exception, CancelledError) as error:
            self._losses += 1
            if self._losses > _LOSSES:
                raise StoreError(f"{self._losses} tasks failed in one sweep, the last with {error!r}") from error
            if call.number not in self._answers:
                warn(f"a task was lost and is repeated: {error!r}", stacklevel=8)
                self._submit(call.number, {})
        else:
            self._answers.setdefault(call.number, answer)
            self._last_answer = monotonic()

    def _look_after_slow_ones(self) -> None:
        now = monotonic()
        if now - self._last_answer > max(_PATIENCE, 20.0 * self._usual):
            raise StoreError(f"no worker has answered for {now - self._last_answer:.0f} seconds")
        slow = max(_SLOW_SECONDS, _SLOW * self._usual)
        for call in [each for each in self._under_way.values() if now - each.since > slow]:
            if call.number not in self._answers and call.number not in self._doubled:
                self._doubled.add(call.number)
                self._submit(call.number, {})

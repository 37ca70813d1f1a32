"""Thinning of a sharded tensor on the workers of an executor; all other steps run in the process that calls `fit`.

Thinning is the only step that reads cells, and it treats every block of them independently. So a shard, a range of the
sorted cells, is thinned where it is, given the rows of the factors that its cells touch, and the results are added up.
Counts are integers, the parts of the log-likelihood are summed in the order of the cells, and random numbers belong to
the numbers of cells and draws in the whole tensor. So draws have the same bytes as those of one process, whatever the
shards (CONTRIBUTING.md has the rules). A shard numbers its own rows, so the tables of a long mode are not sent whole:
cells are sorted, and two shards share at most one row of the first mode of the order.

The shards are divided into ranges, one for each worker. A task loads a range, or thins it given a state, and can be
repeated anywhere. A worker keeps two ranges: its own and one that it took over. It drops all that overlap a new one.

    lost       a task whose worker is gone is repeated on another, which loads the range. Dask may take half a minute
               to notice that an answer went with its worker, so the driver checks which workers are gone
    slow       a task that takes five times as long as usual, and at least 30 seconds, is also given to another worker;
               the first answer counts, and both would be the same
    cutting    if workers come or go, the ranges are cut anew; also if another cut would save a twentieth of the time,
               but less and less often, because workers must read their shards again
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median
from threading import Lock
from time import monotonic, perf_counter, sleep
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.errors import NO_VALUE, InputError
from allocore.gibbs.layout import Layout, Workspace, nonzeros_of
from allocore.gibbs.thinning import ThinnedCells, thin_here
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns, row_offsets
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.cluster.tasks import Tasks, Versions, check_versions, slots, stopped_run, threads_by_worker
from allocore.tensor.missing import Missing
from allocore.tensor.sharded import ShardedTensor
from allocore.tensor.shards import ShardFiles

_POLL_SECONDS = 0.5
_PATIENCE = 600.0  # seconds without a worker
_SLOW_FACTOR, _SLOW_SECONDS = 5.0, 30.0  # a task is slow after this many times the usual time, and at least 30 s
_LEAST_CELLS_A_SECOND = 1e5  # a worker that reads more slowly is given up
_RANGES_KEPT = 2  # by a worker: its own and another
_LOOK_FOR_WORKERS, _LOOK_WHO_IS_GONE = 5.0, 1.0  # seconds: between sweeps, and while waiting for answers
_RECUT_RATIO, _RECUT_SWEEPS = 0.95, 20  # when to cut anew: the new time over the old one, and sweeps since the last cut
_RECUT_SECONDS = 0.05  # a shorter task is not worth a new cut
_TIMES_KEPT = 5  # of the last tasks, for their median


@dataclass(frozen=True)
class Shard:
    """The cells of a shard, with rows numbered by the shard, and for each mode the rows of the tensor."""

    layout: Layout
    rows: tuple[Ints, ...]

    @classmethod
    def of(
        cls, coords: NDArray[Any], counts: Ints, shape: tuple[int, ...], order: tuple[int, ...], first_cell: int,
        workers: Workers,
    ) -> "Shard":  # fmt: skip
        """A shard of cells sorted by `order`, starting at number `first_cell` of the tensor, where a block begins."""
        rows = []
        for column, length in zip(coords, shape, strict=True):
            occurs_D = np.zeros(length, dtype=np.bool_)
            occurs_D[column] = True
            rows.append(np.flatnonzero(occurs_D))
        lengths = tuple(len(each) for each in rows)
        coords_MN = np.empty_like(coords)
        for m, mode in enumerate(order):
            own_D = np.zeros(shape[mode], dtype=coords.dtype)
            own_D[rows[mode]] = np.arange(lengths[mode])
            coords_MN[m] = own_D[coords[mode]]
        layout = Layout(
            shape=lengths,
            order=order,
            nonzeros=nonzeros_of(coords_MN, counts, row_offsets(lengths)[list(order)], first_cell),
            row_totals_R=np.empty(0),
            log_factorials=0.0,
            total=int(counts.sum()),
            missing=SignedPatterns.of(Missing.none(lengths)),
            workers=workers,
        )
        return cls(layout, tuple(rows))

    @property
    def draws(self) -> int:
        """The number of places in the streams of random numbers that belong to this shard."""
        return int(self.layout.nonzeros.first_draw_B[-1] - self.layout.nonzeros.first_draw_B[0])

    def thin(
        self, key: Key, first_draw: int, likelihood: int, state: State, count_type: type[np.signedinteger[Any]],
        workers: Workers,
    ) -> ThinnedCells:  # fmt: skip
        """Thin the cells, given a state with only their rows (`state_of_rows`)."""
        nonzeros = self.layout.nonzeros
        placed = nonzeros._replace(first_draw_B=nonzeros.first_draw_B + first_draw)
        layout = replace(self.layout, nonzeros=placed, workers=workers)
        return thin_here(key, layout, likelihood, state, Workspace.of(layout, state), count_type)


def state_of_rows(state: State, rows: Sequence[Ints]) -> State:
    """The part of a state that thinning needs: core values and, of the factors in use, the given rows."""
    log_phi, subs_QM = [], np.empty_like(state.subs_QM)
    for mode, rows_d in enumerate(rows):
        used_U, subs_QM[:, mode] = np.unique(state.subs_QM[:, mode], return_inverse=True)
        log_phi.append(state.log_phi[mode][np.ix_(rows_d, used_U)])
    return State(state.log_core_Q, subs_QM, tuple(log_phi), np.empty(0), None)


def join_thinned(
    thinned: Sequence[ThinnedCells], rows: Sequence[Sequence[Ints]], layout: Layout, log_scale_R: Floats,
    count_type: type[np.signedinteger[Any]],
) -> ThinnedCells:  # fmt: skip
    """The results of all shards together, in the order of their cells; `rows` has the rows of each."""
    y_RQ = np.zeros((sum(layout.shape), thinned[0].y_RQ.shape[1]), dtype=count_type)
    for each, rows_M in zip(thinned, rows, strict=True):
        edges = row_offsets([len(rows_d) for rows_d in rows_M]).tolist()
        for mode, (rows_d, (start, stop)) in enumerate(zip(rows_M, pairwise(edges), strict=True)):
            y_RQ[layout.rows(mode)][rows_d] += each.y_RQ[start:stop]
    return ThinnedCells(
        y_RQ,
        np.concatenate([each.log_fit_B for each in thinned]),
        np.concatenate([each.log_fit_L for each in thinned]),
        np.concatenate([each.log_fit_U for each in thinned]),
        log_scale_R,
    )


class ShardRange(NamedTuple):
    """Shards `first` to `last`, excluding `last`, of the tensor in a folder."""

    path: str
    fingerprint: str
    first: int
    last: int


class RangeFacts(NamedTuple):
    """What the driver knows about a range: its rows of each mode, cells, random numbers, the worker's versions."""

    rows: tuple[Ints, ...]
    cells: int
    draws: int
    versions: Versions


@dataclass(frozen=True)
class ThinTask:
    """The task to thin a range. `first_draw` is its place in the random numbers, `state` that of its rows."""

    where: ShardRange
    key: Key
    first_draw: int
    likelihood: int
    state: State
    count_type: type[np.signedinteger[Any]]
    threads: int
    kept: int


class ThinnedRange(NamedTuple):
    """The thinned cells of a range, the seconds that it took, and the versions of the worker, which may be new."""

    cells: ThinnedCells
    seconds: float
    versions: Versions


def load_range(task: tuple[ShardRange, int], data: None) -> RangeFacts:
    """Load a range of shards, with the number of ranges to keep, and return its facts."""
    shard = _loaded(*task)
    return RangeFacts(shard.rows, shard.layout.nnz, shard.draws, Versions.here())


def thin_range(task: ThinTask, data: None) -> ThinnedRange:
    """Thin the cells of a range. Tables are sent in the narrowest type for their counts."""
    shard, start = _loaded(task.where, task.kept), perf_counter()
    with Workers(task.threads) as workers:
        cells = shard.thin(task.key, task.first_draw, task.likelihood, task.state, task.count_type, workers)
    largest = int(cells.y_RQ.max(initial=0))
    narrow = (kind for kind in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(kind).max)
    y_RQ = cells.y_RQ.astype(next(narrow, task.count_type))
    # The driver knows the scales of the rows.
    sent = ThinnedCells(y_RQ, cells.log_fit_B, cells.log_fit_L, cells.log_fit_U, np.empty(0))
    return ThinnedRange(sent, perf_counter() - start, Versions.here())


_one_at_a_time = Lock()
_known: dict[ShardRange, Shard] = {}


def _loaded(where: ShardRange, kept: int) -> Shard:
    """A range of shards, from memory or from disk; ranges that overlap a new one are dropped, and the oldest."""
    with _one_at_a_time:
        shard = _known.pop(where, None)
        if shard is None:
            for other in list(_known):
                overlaps = where.first < other.last and other.first < where.last
                if overlaps or where.fingerprint != other.fingerprint:
                    del _known[other]
            while len(_known) >= kept:
                del _known[next(iter(_known))]
            shard = _read(where)
        _known[where] = shard  # the last one is the newest
        return shard


def _read(where: ShardRange) -> Shard:
    """Read a range from disk. An error names the machine, because others may be able to read the tensor."""
    try:
        files = ShardFiles.open(Path(where.path))
        if files.fingerprint != where.fingerprint:
            raise ValueError("the tensor there is not the one that is being fitted")
        coords, counts = files.cells(where.first, where.last)
        first_cell = files.sizes.cells_of(where.first, where.last).start
        with Workers(1) as workers:
            return Shard.of(coords, counts, files.shape, files.sizes.order, first_cell, workers)
    except (ValueError, MemoryError) as error:  # an InputError is a ValueError
        raise InputError(
            "executor",
            NO_VALUE,
            f"has a worker on {socket.gethostname()} that cannot load shards {where.first} to {where.last - 1} of "
            f"{where.path}: {str(error) or 'too little memory'}. Every worker must be able to read the tensor; if "
            "memory is short, add workers or write the tensor in more shards",
        ) from error


class RangeWorker(NamedTuple):
    """Where a range is thinned: a worker of a Dask cluster, or any process that another executor chooses."""

    name: str
    threads: int
    options: dict[str, Any]


class _Times(deque[float]):
    """The seconds of the last tasks. Their median is robust: a worker may compile, hang once, or be disturbed."""

    def __init__(self) -> None:
        super().__init__(maxlen=_TIMES_KEPT)

    def usual(self) -> float:
        return median(self) if self else 0.0


@dataclass
class _Range:
    where: ShardRange
    worker: RangeWorker
    facts: RangeFacts
    first_draw: int
    times: _Times = field(default_factory=_Times)


class ShardedThinning:
    """Thins the cells of a sharded tensor on the workers of an executor: a `ThinCells` of gibbs/thinning.py."""

    def __init__(self, tensor: ShardedTensor, executor: Executor, threads: int | None, go_on: str = "") -> None:
        self._tensor, self._executor, self._threads, self._go_on = tensor, executor, threads, go_on
        self._client: Any = getattr(executor, "_client", None)  # of Dask
        self._ranges: list[_Range] = []
        self._cutting = Lock()
        self._looked, self._sweeps, self._next_cut = -np.inf, 0, _RECUT_SWEEPS
        self._times = _Times()
        self._addresses = frozenset[str]()  # of the workers, when they were last looked for

    def __call__(
        self, key: Key, layout: Layout, likelihood: int, state: State, workspace: Workspace,
        count_type: type[np.signedinteger[Any]],
    ) -> ThinnedCells:  # fmt: skip
        """Thin all cells."""
        ranges = self._cut_if_needed()

        def task(number: int) -> ThinTask:
            each = ranges[number]
            rows_state, threads, kept = state_of_rows(state, each.facts.rows), each.worker.threads, self._kept(ranges)
            return ThinTask(each.where, key, each.first_draw, likelihood, rows_state, count_type, threads, kept)

        # Tasks have no data: a worker reads its shards from disk.
        tasks: Tasks[int] = Tasks(self._executor, thin_range, lambda: None, go_on=self._go_on)
        for number, each in enumerate(ranges):
            tasks.hand_out(number, task(number), each.worker.options)
        # The scales of the rows are computed while the workers work.
        log_scale_R = workspace.scaled_rows(state).log_scale_R
        thinned: list[tuple[ThinnedRange, float | None]] = self._gather(tasks, task, self._times.usual())
        for each, (found, waited) in zip(ranges, thinned, strict=True):
            check_versions(found.versions)
            # If another worker had to help, its seconds say nothing about this one.
            each.times.append(found.seconds if waited is None else waited)
        self._sweeps += 1
        self._times.append(tasks.longest)
        rows = [each.facts.rows for each in ranges]
        return join_thinned([found.cells for found, _ in thinned], rows, layout, log_scale_R, count_type)

    def _kept(self, ranges: Sequence[object]) -> int:
        """How many ranges a worker keeps: its own and another; all, if the executor chooses the worker."""
        return _RANGES_KEPT if self._client is not None else len(ranges)

    def _cut_if_needed(self) -> list[_Range]:
        with self._cutting:
            now = monotonic()
            if not self._ranges or now - self._looked > _LOOK_FOR_WORKERS:
                self._looked = now
                workers = self._workers()[: self._tensor.shards]
                if [each.worker.name for each in self._ranges] != [each.name for each in workers]:
                    even_edges = cut_in_proportion(self._tensor.shards, [each.threads for each in workers])
                    self._ranges, self._next_cut = self._cut(workers, even_edges), _RECUT_SWEEPS
                elif (edges := self._better_edges()) is not None:
                    self._ranges, self._next_cut = self._cut(workers, edges), 2 * self._next_cut
            return self._ranges

    def _better_edges(self) -> list[int] | None:
        """The edges of ranges that would take clearly less time, judging by the usual time of each worker."""
        seconds = [each.times.usual() for each in self._ranges]
        if self._sweeps < self._next_cut or min(seconds) <= 0.0 or max(seconds) < _RECUT_SECONDS:
            return None
        lengths = [each.where.last - each.where.first for each in self._ranges]
        speeds = [length / each for length, each in zip(lengths, seconds, strict=True)]
        edges = cut_in_proportion(self._tensor.shards, speeds)
        expected = max((stop - start) / speed for (start, stop), speed in zip(pairwise(edges), speeds, strict=True))
        return edges if expected < _RECUT_RATIO * max(seconds) else None

    def _workers(self) -> list[RangeWorker]:
        """All workers; if there is none yet, wait for one."""
        if self._client is None:
            return [RangeWorker(str(each), self._threads or 1, {}) for each in range(slots(self._executor) or 1)]
        start = monotonic()
        while not (found := threads_by_worker(self._executor)):
            if self._client.status == "closed":
                raise stopped_run("the scheduler of the cluster is gone", self._go_on)
            if monotonic() - start > _PATIENCE:
                raise stopped_run(f"the cluster has had no worker for {_PATIENCE:.0f} seconds", self._go_on)
            sleep(_POLL_SECONDS)
        self._addresses = frozenset(found)
        return [
            RangeWorker(address, self._threads or threads, {"workers": [address], "allow_other_workers": False})
            for address, threads in sorted(found.items())
        ]

    def _gather(self, tasks: Tasks[int], task: Callable[[int], Any], usual: float) -> list[tuple[Any, float | None]]:
        """The answers to running tasks 0, 1, ..; slow or lost ones are handed out again, and keep their first time."""
        found, number = dict[int, tuple[Any, float | None]](), len(tasks)
        patience = max(_SLOW_SECONDS, _SLOW_FACTOR * usual)
        doubled, addresses, start = set[int](), self._addresses, monotonic()
        looked = start
        try:
            while len(found) < number:
                for answer in tasks.answers():
                    waited = monotonic() - start if answer.key in doubled else None
                    found.setdefault(answer.key, (answer.content, waited))
                again = {key for key, seconds in tasks.under_way() if seconds > patience} - doubled
                if monotonic() - looked > _LOOK_WHO_IS_GONE:
                    threads = threads_by_worker(self._executor)
                    before, addresses = addresses, addresses if threads is None else frozenset(threads)
                    again, looked = set(range(number)) if before - addresses else again, monotonic()
                for key in again - found.keys():
                    doubled.add(key)
                    tasks.hand_out(key, task(key))
        finally:
            tasks.cancel()
        return [found[key] for key in range(number)]

    def _cut(self, workers: Sequence[RangeWorker], edges: Sequence[int]) -> list[_Range]:
        files = self._tensor.files
        wheres = [ShardRange(str(files.path), files.fingerprint, *pair) for pair in pairwise(edges)]
        loads = [(where, self._kept(wheres)) for where in wheres]
        patience = files.sizes.nnz / _LEAST_CELLS_A_SECOND  # a disk may be slow, and all workers read from it
        tasks: Tasks[int] = Tasks(self._executor, load_range, lambda: None, go_on=self._go_on, patience=patience)
        for number, worker in enumerate(workers[: len(loads)]):
            tasks.hand_out(number, loads[number], worker.options)
        facts: list[RangeFacts] = [content for content, _ in self._gather(tasks, loads.__getitem__, inf)]
        for each in facts:
            check_versions(each.versions)
        first_draws = np.cumsum([0, *(each.draws for each in facts)]).tolist()
        self._sweeps = 0
        return [_Range(*each) for each in zip(wheres, workers, facts, first_draws, strict=False)]


def cut_in_proportion(shards: int, speeds: Sequence[float]) -> list[int]:
    """The edges of ranges of shards, at least one shard each, in proportion to the speeds."""
    ends = np.cumsum(speeds) / np.sum(speeds) * shards
    edges, left = [0], len(speeds)
    for end in ends.tolist():
        left -= 1
        edges.append(min(max(round(end), edges[-1] + 1), shards - left))
    return edges

"""What workers do for a sharded tensor: load a range of shards and keep it; thin its cells, given a state.

A task is a function of its arguments and of the tensor on disk. It can be repeated anywhere: a worker that does not
have the range yet loads it first. A worker keeps the last ranges it was given, `kept` of them: its own, and one that it
took over from another. It drops all that overlap a new one, because then the tensor was cut anew, or is another one.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from allocore.data.shard_files import ShardFiles
from allocore.errors import InputError
from allocore.gibbs.shards import Shard
from allocore.gibbs.thinning import ThinnedCells
from allocore.kernels.arrays import Ints
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.cluster.worker_data import Versions


class ShardRange(NamedTuple):
    """Shards `first` to `last`, the last one excluded, of the tensor in a folder."""

    path: str
    fingerprint: str
    first: int
    last: int

    def overlaps(self, other: "ShardRange") -> bool:
        """Whether both have a shard in common; ranges of different tensors count as overlapping."""
        if self.fingerprint != other.fingerprint:
            return True
        return self.first < other.last and other.first < self.last


class RangeFacts(NamedTuple):
    """What the driver needs to know of a range: its rows of each mode, cells, random numbers, the worker's versions."""

    rows: tuple[Ints, ...]
    cells: int
    draws: int
    versions: Versions


@dataclass(frozen=True)
class ThinTask:
    """Thin a range: random numbers, where those of its draws begin, the state of its rows, and how to do it."""

    where: ShardRange
    key: Key
    first_draw: int
    likelihood: int
    state: State
    count_type: type[np.signedinteger[Any]]
    threads: int
    kept: int


class Thinned(NamedTuple):
    """The cells of a range, thinned, the seconds that it took, and the versions of the worker: it may be a new one."""

    cells: ThinnedCells
    seconds: float
    versions: Versions


def load_range(given: tuple[ShardRange, int], data: None) -> RangeFacts:
    """Load a range of shards, of which so many are kept, and say what it is."""
    shard = _loaded(*given)
    return RangeFacts(shard.rows, shard.layout.nnz, shard.draws, Versions.here())


def thin_range(task: ThinTask, data: None) -> Thinned:
    """Thin the cells of a range. Tables travel in the narrowest type that holds their counts."""
    shard, start = _loaded(task.where, task.kept), perf_counter()
    with Workers(task.threads) as workers:
        cells = shard.thin(task.key, task.first_draw, task.likelihood, task.state, task.count_type, workers)
    y_RQ = cells.y_RQ.astype(_narrowest(int(cells.y_RQ.max(initial=0)), task.count_type))
    # The scales of the rows are known to the driver.
    sent = ThinnedCells(y_RQ, cells.log_fit_B, cells.log_fit_L, cells.log_fit_U, np.empty(0))
    return Thinned(sent, perf_counter() - start, Versions.here())


def _narrowest(largest: int, count_type: type[np.signedinteger[Any]]) -> type[np.integer[Any]]:
    """The narrowest type for numbers up to `largest`: without a sign up to 32 bits, which every table can add."""
    return next((kind for kind in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(kind).max), count_type)


_one_at_a_time = Lock()
_known: dict[ShardRange, Shard] = {}


def _loaded(where: ShardRange, kept: int) -> Shard:
    """A range of shards: one that is known, or read from disk in place of those that overlap it or are too many."""
    with _one_at_a_time:
        shard = _known.pop(where, None)
        if shard is None:
            for other in [each for each in _known if each.overlaps(where)]:
                del _known[other]
            while len(_known) >= kept:
                del _known[next(iter(_known))]
            with _telling(where):
                shard = _read(where)
        _known[where] = shard  # the last one is the newest
        return shard


def forget() -> None:
    """Drop all ranges that this process has loaded."""
    with _one_at_a_time:
        _known.clear()


def _read(where: ShardRange) -> Shard:
    files = ShardFiles.open(Path(where.path))
    if files.fingerprint != where.fingerprint:
        raise InputError("the tensor there is not the one that is fitted")
    coords, counts = files.cells(where.first, where.last)
    first_cell = files.sizes.cells_of(where.first, where.last).start
    with Workers(1) as workers:
        return Shard.of(coords, counts, files.shape, files.sizes.order, first_cell, workers)


@contextmanager
def _telling(where: ShardRange) -> Iterator[None]:
    """Say where it was that shards could not be loaded, and what to do."""
    try:
        yield
    except (InputError, MemoryError) as error:
        told = str(error) or "there is too little memory"
        advice = "add workers, or write the tensor in more shards" if "memory" in told else "every worker must reach it"
        raise InputError(
            f"shards {where.first} to {where.last - 1} of {where.path} cannot be loaded on {socket.gethostname()}: "
            f"{told}; {advice}"
        ) from error

"""Ways to make the same sweeps: threads in one process, or the worker processes of a Dask cluster.

Every way has a chain of its own, from the same state. They advance in turns, sweep by sweep, and after every turn all
states and allocations must be equal to the byte: what is compared is the same work, and the benchmark shows that it is.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import allocore as ac
import cluster_wire as wire
from allocore.gibbs import sweep as steps
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.thinning import ThinCells, thin_here
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run.cluster import shards as sharded_thinning
from allocore.run.cluster.shards import ShardedThinning
from allocore.tensor.sharded import ShardedTensor
from timing import STEPS

WARM_UP = 5
THINNING_PARTS = ("states", "submitting", "on the workers", "joining", "travel and waiting")
_spent: dict[str, float] = {}


class Way:
    """A chain, and where its cells are thinned."""

    def __init__(self, name: str, layout: Layout, spec: Spec, thin_cells: ThinCells = thin_here) -> None:
        self.name, self.layout, self.spec, self.thin_cells = name, layout, spec, thin_cells
        self.key, self.number = Key.of(1, 0), 0
        self.turns: list[dict[str, float]] = []
        self.seconds_of_ranges: list[list[float]] = []
        self.processor_of_ranges: list[list[float]] = []
        self.messages: dict[str, list[int]] = {}
        self.client: Client | None = None

    def start(self, state: State, number: int) -> None:
        """Go on from a state, which sweep `number` gave. The first allocation compiles and loads what is needed."""
        self.state, self.number = state, number
        self.workspace = Workspace.of(self.layout, state)
        given = self.key.at(number), self.layout, self.spec, state, self.workspace, self.thin_cells
        self.allocation = steps.begin(*given).allocation

    def sweep(self) -> None:
        """Make a sweep."""
        self.number += 1
        before = steps.SamplerState(self.state, self.allocation)
        given = self.key.at(self.number), self.layout, self.spec, before, self.workspace, self.thin_cells
        (self.state, self.allocation), _ = steps.sweep(*given)

    def advance(self) -> None:
        """Make a sweep, and note the seconds of its parts."""
        _spent.clear()
        workers, here = self.processor_seconds_of_workers(), process_time()
        start = perf_counter()
        self.sweep()
        turn = {"sweep": perf_counter() - start} | _spent
        here = process_time() - here
        spent = {name: seconds - workers[name] for name, seconds in self.processor_seconds_of_workers().items()}
        turn["processor"] = here + sum(spent.values())
        if isinstance(self.thin_cells, ShardedThinning):
            self.seconds_of_ranges.append([each.times[-1] for each in self.ranges()])
            self.processor_of_ranges.append([spent[each.place.name] for each in self.ranges()])
            turn["on the workers"] = max(self.seconds_of_ranges[-1])
            turn["travel and waiting"] = turn["thin"] - sum(turn[name] for name in THINNING_PARTS[:-1])
        self.turns.append(turn)

    def processor_seconds_of_workers(self) -> dict[str, float]:
        """The seconds that processors have spent on each worker: other work on the machine does not count."""
        return self.client.run(process_time) if self.client else {}

    def ranges(self) -> list[Any]:
        assert isinstance(self.thin_cells, ShardedThinning)
        return self.thin_cells._ranges

    def best(self) -> dict[str, float]:
        """The turn that took least."""
        return min(self.turns, key=lambda turn: turn["sweep"])

    def same_as(self, other: "Way") -> bool:
        """Whether states and allocations are equal to the byte."""
        one, two = (
            [each.state.log_core_Q, each.state.subs_QM, *each.state.log_phi, each.allocation.y_RQ]
            for each in (self, other)
        )
        same = all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))
        return same and self.allocation.log_fit == other.allocation.log_fit


class Timed(Executor):
    """The executor of a client, whose submissions are timed."""

    def __init__(self, client: Client) -> None:
        self._client, self._executor = client, client.get_executor(pure=False)

    def submit(self, function: Callable[..., Any], /, *given: Any, **options: Any) -> "Future[Any]":
        start = perf_counter()
        future: Future[Any] = self._executor.submit(function, *given, **options)
        _spent["submitting"] = _spent.get("submitting", 0.0) + perf_counter() - start
        return future


@contextmanager
def timed_parts() -> Iterator[None]:
    """Note the seconds of the steps of a sweep, and of the driver's parts of thinning on workers."""

    def timed(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            start = perf_counter()
            result = step(*given)
            _spent[name] = _spent.get(name, 0.0) + perf_counter() - start
            return result

        return run

    places: list[tuple[Any, str, str]] = [(steps, name, name) for name in STEPS]
    places += [(sharded_thinning, "state_of_rows", "states"), (sharded_thinning, "join_thinned", "joining")]
    whole = [getattr(module, attribute) for module, attribute, _ in places]
    for (module, attribute, name), step in zip(places, whole, strict=True):
        setattr(module, attribute, timed(name, step))
    try:
        yield
    finally:
        for (module, attribute, _), step in zip(places, whole, strict=True):
            setattr(module, attribute, step)


@contextmanager
def cluster_of(workers: int) -> Iterator[Client]:
    """A client of a cluster of so many worker processes of one thread, whose messages are counted."""
    settings = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(**settings) as cluster, Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(workers)
        wire.count(client)
        yield client


def way_on(name: str, client: Client, tensor: ShardedTensor, spec: Spec, threads: Workers) -> Way:
    """A way whose cells are thinned by the workers of a cluster."""
    thinning = ShardedThinning(tensor, Timed(client), None)
    way = Way(name, thinning.layout(threads), spec, thinning)
    way.client = client
    return way


@contextmanager
def all_ways(path: Path, budget: int, only: tuple[str, ...] = ()) -> Iterator[dict[str, Way]]:
    """The four ways for a tensor on disk, begun from one state; or some of them, by name."""
    tensor = ac.load_tensor(path)
    spec = Spec(budget, (budget,) * tensor.ndim)
    with ExitStack() as stack:
        two, one = (stack.enter_context(Workers(number)) for number in (2, 1))
        layout = Layout.of(tensor.load(), two)
        tensor = ac.load_tensor(path)  # its cells, which the layout has now, need not be kept
        ways = [Way("two threads", layout, spec), Way("one thread", replace(layout, workers=one), spec)]
        for number, name in ((1, "one worker"), (2, "two workers")):
            if not only or name in only:
                ways.append(way_on(name, stack.enter_context(cluster_of(number)), tensor, spec, two))
        ways = [each for each in ways if not only or each.name in only]
        begin_together(ways)
        stack.enter_context(timed_parts())
        yield {each.name: each for each in ways}


def begin_together(ways: list[Way]) -> None:
    """Bring all ways to the state after some sweeps of the first."""
    first = ways[0]
    first.start(first_state(first.spec, first.layout.shape, np.random.default_rng(0)), 0)
    for _ in range(WARM_UP):
        first.sweep()
    for each in ways:
        each.start(first.state, first.number)


def take_turns(ways: list[Way], rounds: int) -> None:
    """Advance all ways, round by round; the first round does not count. A difference of the draws is an error."""
    for turn in range(rounds + 1):
        for way in ways:
            way.advance()
            if not way.same_as(ways[0]):
                raise RuntimeError(f"the draws of {way.name} are not those of {ways[0].name}")
            if turn == 0:
                way.turns.clear()
    for way in ways:
        if way.client:
            way.messages = wire.sent_by(way.client, way.sweep)

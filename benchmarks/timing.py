"""Milliseconds of the parts of a sweep, which take turns within one run."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

import allocore as ac
from allocore.gibbs import sweep as steps
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.thinning import thin
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from baselines import floor, paper_style

LOOP_OF_FLOOR = "floor, five passes"
STEPS = ("exposure", "relocate", "draw_factors", "draw_core_values", "split_merge", "thin")


def seconds_of(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


Name = TypeVar("Name", bound=Hashable)
_LONG = 0.3  # seconds from which on a call is made once in its turn: it warms its own caches


def best_in_turns(calls: Mapping[Name, Callable[[], object]], rounds: int) -> dict[Name, float]:
    """The least milliseconds of every call. Calls take turns, so that other work on the machine affects them equally.

    A turn is three calls, of which the last two count, because in a chain too the caches and threads are warm. The
    first round of all compiles, so it counts only if there is no other.
    """
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            took = seconds_of(call)
            again = (took,) if took > _LONG else (seconds_of(call), seconds_of(call))
            least[name] = min(least[name], *again)
    return {name: 1e3 * seconds for name, seconds in least.items()}


@contextmanager
def watched_steps(watch: Callable[[str], AbstractContextManager[object]]) -> Iterator[None]:
    """Meanwhile every step of a sweep runs inside `watch(its name)`."""

    def watched(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with watch(name):
                return step(*args)

        return run

    whole = {name: getattr(steps, name) for name in STEPS}
    try:
        for name, step in whole.items():
            setattr(steps, name, watched(name, step))
        yield
    finally:
        for name, step in whole.items():
            setattr(steps, name, step)


class Chain:
    """A chain after its first sweeps, with the canonical core shape, K = Q."""

    def __init__(self, Y: ac.CountTensor, budget: int, workers: Workers, warm_up: int = 15, **settings: Any) -> None:
        self.spec, self.key = Spec(budget, (budget,) * Y.ndim, **settings), Key.of(1, 0)
        self.layout = Layout.of(Y, workers)
        self.state = first_state(self.spec, Y.shape, np.random.default_rng(0))
        self.workspace = Workspace.of(self.layout, self.state)
        _, self.allocation = steps.begin(self.key, self.layout, self.spec, self.state, self.workspace)
        for number in range(1, warm_up + 1):
            (self.state, self.allocation), _ = self.sweep(number)
        self.workspace = Workspace.of(self.layout, self.state)
        self.scaled = self.workspace.scaled_rows(self.state)

    def sweep(self, number: int) -> Any:
        before = steps.SamplerState(self.state, self.allocation)
        return steps.sweep(self.key.at(number), self.layout, self.spec, before, self.workspace)

    def calls(self, baseline: bool = False) -> dict[str, Callable[[], object]]:
        """The floor, thinning, a whole sweep from the same state and, if wanted, the paper-style kernel."""
        kept = Workspace.of(self.layout, self.state)
        state, layout, before = self.state, self.layout, steps.SamplerState(self.state, self.allocation)
        calls: dict[str, Callable[[], object]] = {
            "floor": lambda: floor(layout, self.scaled),
            LOOP_OF_FLOOR: lambda: floor(layout, self.scaled, passes=5),
            "thinning": lambda: thin(self.key, layout, self.spec, state, self.workspace),
            "sweep": lambda: steps.sweep(self.key.at(99), layout, self.spec, before, kept),
        }
        return calls | ({"paper-style": lambda: paper_style(layout, state)} if baseline else {})


def measure(
    Y: ac.CountTensor, budget: int, threads: tuple[int, ...], rounds: int, *, baseline: bool = False
) -> dict[int, dict[str, float]]:
    """Milliseconds by number of threads, if wanted also of the paper-style kernel."""
    pools = {number: Workers(number) for number in threads}
    chains = {number: Chain(Y, budget, pool) for number, pool in pools.items()}
    calls = {(number, name): call for number, chain in chains.items() for name, call in chain.calls(baseline).items()}
    times = best_in_turns(calls, rounds)
    for pool in pools.values():
        pool.__exit__(None, None, None)
    return {number: {name: time for (n, name), time in times.items() if n == number} for number in threads}


def profile(Y: ac.CountTensor, budget: int, threads: int, rounds: int) -> dict[str, float]:
    """Milliseconds of a sweep and of its steps: for each the least of all rounds."""
    spent: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        spent[name] = spent.get(name, 0.0) + perf_counter() - start

    least: dict[str, float] = {}
    with Workers(threads) as workers, watched_steps(timed):
        sweep = Chain(Y, budget, workers).calls()["sweep"]
        sweep()
        for _ in range(rounds):
            spent.clear()
            spent["sweep"] = seconds_of(sweep)
            least = {name: min(least.get(name, np.inf), time) for name, time in spent.items()}
    return {name: 1e3 * time for name, time in least.items()}

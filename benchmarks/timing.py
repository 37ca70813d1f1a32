"""Milliseconds of the parts of a sweep, which take turns within one run."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import allocore as ac
from allocore.gibbs import sweep as steps
from allocore.gibbs.layout import Layout
from allocore.gibbs.thinning import thin
from allocore.gibbs.workspace import Workspace
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from baselines import floor, paper_style

STEPS = ("exposure", "relocate", "draw_factors", "draw_core_values", "split_merge", "thin")


def seconds_of(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def best_in_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least milliseconds of every call. Calls take turns, so that other work on the machine affects them equally.

    A turn is three calls, of which the last two count, because in a chain too the caches and threads are warm.
    """
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            least[name] = min(least[name], seconds_of(call), seconds_of(call))
    return {name: 1e3 * seconds for name, seconds in least.items()}


class Chain:
    """A chain after its first sweeps, with the canonical core shape, K = Q."""

    def __init__(self, Y: ac.CountTensor, budget: int, workers: Workers, warm_up: int = 15, **settings: Any) -> None:
        self.spec, self.key = Spec(budget, (budget,) * Y.ndim, **settings), Key.of(1, 0)
        self.layout = Layout.of(Y, workers)
        self.state = first_state(self.spec, Y.shape, np.random.default_rng(0))
        self.workspace = Workspace.of(self.layout, self.state)
        self.allocation = steps.begin(self.key, self.layout, self.spec, self.state, self.workspace)
        for number in range(1, warm_up + 1):
            self.state, self.allocation, _ = self.sweep(number)
        self.workspace = Workspace.of(self.layout, self.state)
        self.scaled = self.workspace.scaled_rows(self.state)

    def sweep(self, number: int) -> Any:
        return steps.sweep(self.key.at(number), self.layout, self.spec, self.state, self.allocation, self.workspace)

    def calls(self, baseline: bool = False) -> dict[str, Callable[[], object]]:
        """The floor, thinning, a whole sweep from the same state and, if wanted, the paper-style kernel."""
        kept = Workspace.of(self.layout, self.state)
        state, layout = self.state, self.layout
        calls: dict[str, Callable[[], object]] = {
            "floor": lambda: floor(layout, self.scaled),
            "thinning": lambda: thin(self.key, layout, self.spec, state, self.workspace),
            "sweep": lambda: steps.sweep(self.key.at(99), layout, self.spec, state, self.allocation, kept),
        }
        return calls | ({"paper-style": lambda: paper_style(layout, state)} if baseline else {})


def measure(
    Y: ac.CountTensor, budget: int, threads: tuple[int, ...], rounds: int, *, baseline: bool = False
) -> dict[int, dict[str, float]]:
    """Milliseconds by number of threads; the paper-style kernel, if wanted, only with the largest number."""
    pools = {number: Workers(number) for number in threads}
    chains = {number: Chain(Y, budget, pool) for number, pool in pools.items()}
    calls = {
        (number, name): call
        for number, chain in chains.items()
        for name, call in chain.calls(baseline and number == max(threads)).items()
    }
    times = best_in_turns(calls, rounds)  # type: ignore[arg-type]
    for pool in pools.values():
        pool.__exit__(None, None, None)
    return {number: {name: time for (n, name), time in times.items() if n == number} for number in threads}  # type: ignore[misc]


def profile(Y: ac.CountTensor, budget: int, threads: int, rounds: int) -> dict[str, float]:
    """Milliseconds of the steps of a sweep; each step is replaced by a timed one."""
    spent: dict[str, float] = {}

    def timed(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            start = perf_counter()
            result = step(*args)
            spent[name] = spent.get(name, 0.0) + perf_counter() - start
            return result

        return run

    whole = {name: getattr(steps, name) for name in STEPS}
    with Workers(threads) as workers:
        sweep = Chain(Y, budget, workers).calls()["sweep"]
        sweep()
        least: dict[str, float] = {}
        try:
            for name, step in whole.items():
                setattr(steps, name, timed(name, step))
            for _ in range(rounds):
                spent.clear()
                spent["sweep"] = seconds_of(sweep)
                least = {name: min(least.get(name, np.inf), time) for name, time in spent.items()}
        finally:
            for name, step in whole.items():
                setattr(steps, name, step)
    return {name: 1e3 * time for name, time in least.items()}

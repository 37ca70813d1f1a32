"""Slices of a chain: some sweeps from a given state, as one task for a worker of a cluster or of a process pool.

A task is a function of its arguments alone: the plan of the run, the number of the chain, and the sweep and the state
to start from. It returns the draws, the statistics and the state it ended with. Every random number is a function of
the seed, the chain, the sweep and a place in the data, so a task can be repeated anywhere, and any cut of a chain into
slices gives the same bytes.

A worker keeps the data of the last run it worked for. A task names the run; a worker that does not know it says so, and
is sent the plan.
"""

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from allocore.gibbs.layout import Layout
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.kernels.rounding import rounding
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.chains import Chain
from allocore.run.plan import Plan, packages
from allocore.run.progress import Watch

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Slice(NamedTuple):
    """What a task is about: a chain of a run, where it starts, and how many sweeps to make with how many threads."""

    run: str
    chain: int
    start: tuple[int, State] | None
    sweeps: int
    threads: int


@dataclass
class Outcome:
    """What a slice gave: its sweeps in order, the states that are kept as draws, and the last state."""

    chain: int
    sweeps: list[tuple[int, "SweepInfo", float]] = field(default_factory=list)
    draws: list[tuple[int, State]] = field(default_factory=list)
    end: tuple[int, State] | None = None


class Versions(NamedTuple):
    """What must agree between the workers and the process that wants their draws."""

    sampler: int
    packages: dict[str, str]
    rounding: str = ""  # workers from before there was a fingerprint have none

    @classmethod
    def here(cls) -> "Versions":
        """The versions of this process."""
        return cls(SAMPLER_VERSION, packages(), rounding())


class PlanWanted(NamedTuple):
    """The answer of a worker that has not seen the run yet, with its versions."""

    versions: Versions


def run_slice(wanted: Slice, plan: Plan | None) -> Outcome | PlanWanted:
    """Make the sweeps of a slice. Without a plan, the worker must know the run from an earlier task."""
    kept = _remember(wanted.run, plan)
    if kept is None:
        return PlanWanted(Versions.here())
    known, layout = kept
    store = _SliceStore(known, wanted.start, Outcome(wanted.chain))
    with Workers(wanted.threads) as workers:
        chain = Chain(store, wanted.chain, replace(layout, workers=workers), Watch(None))  # type: ignore[arg-type]
        for _ in range(wanted.sweeps):
            if not chain.done:
                chain.advance()
    return store.outcome


class _SliceStore:
    """What a chain needs of a store: the plan, where to start, and a place for what the sweeps give."""

    def __init__(self, plan: Plan, start: tuple[int, State] | None, outcome: Outcome) -> None:
        self.plan, self.outcome, self._start = plan, outcome, start

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        return self._start

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        self.outcome.sweeps.append((sweep, info, seconds))

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        self.outcome.draws.append((draw, state))

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        self.outcome.end = sweep, state


_one_at_a_time = Lock()
_known: dict[str, tuple[Plan, Layout]] = {}


def _remember(run: str, plan: Plan | None) -> tuple[Plan, Layout] | None:
    """The plan and the data of a run, laid out; those of other runs are forgotten, because a worker serves one run."""
    with _one_at_a_time:
        if run not in _known and plan is not None:
            _known.clear()
            with Workers(1) as workers:
                _known[run] = plan, Layout.of(plan.tensor, workers)
        return _known.get(run)

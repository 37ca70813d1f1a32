"""Slices of a chain: some sweeps from a given state, as one task for a worker of a cluster or of a process pool.

A task is a function of its arguments alone: the plan of the run, the number of the chain, and the sweep and the state
to start from. It gives the draws, the statistics and the state it ended with. Every random number is a function of the
seed, the chain, the sweep and a place in the data, so a task can be repeated anywhere, and any cut of a chain into
slices gives the same bytes.

A worker keeps the data of the last run it worked for (worker_data.py). If it reaches the folder of the run, it writes
the states there (slice_files.py), and only the statistics travel.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from allocore.gibbs.layout import Layout
from allocore.kernels.workers import Workers
from allocore.model.state import State
from allocore.run.chains import Chain
from allocore.run.cluster.slice_files import Place
from allocore.run.cluster.worker_data import DataWanted, Versions, remembered
from allocore.run.plan import Plan
from allocore.run.progress import Watch

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Slice(NamedTuple):
    """What a task is about: a chain of a run, where it starts, and how many sweeps to make with how many threads.

    `place` is where the states may be written, if the worker reaches it.
    """

    run: str
    chain: int
    start: tuple[int, State] | None
    sweeps: int
    threads: int
    place: Place | None = None


@dataclass
class Outcome:
    """What a slice gave: its sweeps in order; and by their sweeps, the states kept as draws and the last one.

    `states` is None if they are in the file of the slice. `versions` are those of the worker that made it.
    """

    chain: int
    sweeps: list[tuple[int, "SweepInfo", float]] = field(default_factory=list)
    states: dict[int, State] | None = None
    versions: Versions = field(default_factory=Versions.here)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last sweep."""
        return self.sweeps[0][0], self.sweeps[-1][0]


def run_slice(wanted: Slice, plan: Plan | None) -> Outcome | DataWanted:
    """Make the sweeps of a slice. Without a plan, the worker must know the run from an earlier task."""
    kept = remembered(wanted.run, plan, _laid_out)
    if kept is None:
        return DataWanted(Versions.here())
    known, layout = kept
    store = _SliceStore(known, wanted.start, wanted.chain)
    with Workers(wanted.threads) as workers:
        chain = Chain(store, wanted.chain, replace(layout, workers=workers), Watch(None))  # type: ignore[arg-type]
        for _ in range(wanted.sweeps):
            if not chain.done:
                chain.advance()
    outcome, states = store.outcome, store.states()
    if wanted.place is None or not wanted.place.write(outcome.chain, *outcome.span, states):
        outcome.states = states
    return outcome


def _laid_out(plan: Plan) -> tuple[Plan, Layout]:
    with Workers(1) as workers:
        return plan, Layout.of(plan.tensor, workers)


class _SliceStore:
    """What a chain needs of a store: the plan, where to start, and a place for what the sweeps give."""

    def __init__(self, plan: Plan, start: tuple[int, State] | None, chain: int) -> None:
        self.plan, self.outcome, self._start = plan, Outcome(chain), start
        self._draws, self._end = dict[int, State](), dict[int, State]()

    def states(self) -> dict[int, State]:
        """The draws and the last state, by their sweeps."""
        return {**self._draws, **self._end}

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        return self._start

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        self.outcome.sweeps.append((sweep, info, seconds))

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        self._draws[self.plan.schedule.sweep_of(draw)] = state

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        self._end = {sweep: state}

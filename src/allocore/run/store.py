"""Stores for the draws of a run: the protocol, and the store that keeps them in memory."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from allocore.model.state import State
from allocore.run.plan import Plan
from allocore.run.record import Record, draw_fields
from allocore.run.schema import STATS, draw_values, draw_variables

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Store(Protocol):
    """Takes the draws and the statistics of a run while it runs, and copies what it takes.

    Every chain reports its sweeps in order. Several chains may do so at the same time, from different threads.
    """

    plan: Plan

    @property
    def path(self) -> Path | None:
        """The folder of the run; None if it is in memory."""

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Save a state from which the chain can continue: `now`, or when the store decides that it is time."""

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state from which a chain can continue, or None if it must start."""

    def finish(self) -> Record:
        """Return the draws and sweeps that are saved of every chain."""

    def how_to_resume(self) -> str:
        """A sentence on how to continue the run; empty if it cannot be continued."""

    def __enter__(self) -> Self:
        """Start writing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop writing."""


def stats_of(info: "SweepInfo", seconds: float) -> dict[str, Any]:
    """The statistics of a sweep, by name."""
    return {name: seconds if name == "seconds" else getattr(info, name) for name in STATS}


class MemoryStore:
    """Keeps draws and statistics in memory."""

    def __init__(self, plan: Plan, start: Sequence[State] | None = None) -> None:
        self.plan = plan
        self.path: Path | None = None
        draws, sweeps = (plan.chains, plan.schedule.draws), (plan.chains, plan.schedule.sweeps)
        modes, variables = len(plan.tensor.shape), draw_variables(plan.tensor, plan.spec)
        self._draws = [np.zeros((*draws, *variable.shape), variable.dtype) for variable in variables]
        self._stats: dict[str, NDArray[Any]] = {
            name: np.zeros((*sweeps, modes) if by_mode else sweeps, dtype) for name, (dtype, by_mode) in STATS.items()
        }
        self._points: list[tuple[int, State] | None] = [None] * plan.chains
        if start is not None:
            self._points = [(0, state) for state in start]

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""
        for name, value in stats_of(info, seconds).items():
            self._stats[name][chain, sweep - 1] = value

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""
        for kept, value in zip(self._draws, draw_values(state), strict=True):
            kept[chain, draw] = value

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Remember the state. States never change, so it need not be copied."""
        self._points[chain] = (sweep, state)

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state from which a chain can continue, or None if it must start."""
        return self._points[chain]

    def finish(self) -> Record:
        """Return the draws and sweeps that all chains have."""
        plan = self.plan
        sweeps = min(0 if point is None else point[0] for point in self._points)
        draws = plan.schedule.draws_after(sweeps)
        return Record(
            plan.tensor,
            plan.spec,
            plan.schedule,
            plan.seed,
            **draw_fields(plan.spec, [kept[:, :draws] for kept in self._draws]),
            stats={name: values[:, :sweeps] for name, values in self._stats.items()},
            held_out=plan.held_out,
        )

    def how_to_resume(self) -> str:
        """Empty: a run in memory cannot be continued."""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

"""Where a run puts its draws: a small protocol, and the store that keeps them in memory."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from allocore.model.state import State
from allocore.run.plan import Plan
from allocore.run.record import Record
from allocore.run.schema import STATS

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo


class Store(Protocol):
    """Takes the draws and the trace of a run as it goes. What it takes, it copies.

    Every chain tells of its sweeps in order; chains may do so at the same time, from threads of their own.
    """

    plan: Plan

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        """Keep what sweep 1, 2, .. of a chain told about itself."""

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain, which the sweep recorded last has given."""

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """A chain could go on from here. Make it so that it will: `now`, or when the store finds it is time."""

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state that a chain can go on from, or None if it has to begin."""

    def finish(self) -> Record:
        """Hand over what all chains have: the draws and sweeps that are saved in every one of them."""

    def how_to_resume(self) -> str:
        """What a user can do to continue the run, in words; nothing if it cannot be continued."""

    def __enter__(self) -> Self:
        """Begin to write."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write no more."""


def stats_of(info: "SweepInfo", seconds: float) -> dict[str, Any]:
    """The statistics of a sweep by name."""
    return {name: seconds if name == "seconds" else getattr(info, name) for name in STATS}


class MemoryStore:
    """Draws and trace in arrays of this process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        tensor, spec = plan.tensor, plan.spec
        modes = len(tensor.shape)
        draws = (plan.chains, plan.schedule.draws)
        sweeps = (plan.chains, plan.schedule.sweeps)
        self._core_values = np.zeros((*draws, spec.budget))
        self._core_locations = np.zeros((*draws, spec.budget, modes), dtype=np.int64)
        sizes = zip(tensor.shape, spec.core_shape, strict=True)
        self._factors = [np.zeros((*draws, length, width)) for length, width in sizes]
        self._stats: dict[str, NDArray[Any]] = {
            name: np.zeros((*sweeps, modes) if by_mode else sweeps, dtype) for name, (dtype, by_mode) in STATS.items()
        }
        self._points: list[tuple[int, State] | None] = [None] * plan.chains

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        """Keep what sweep 1, 2, .. of a chain told about itself."""
        for name, value in stats_of(info, seconds).items():
            self._stats[name][chain, sweep - 1] = value

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain, which the sweep recorded last has given."""
        self._core_values[chain, draw] = state.core_values()
        self._core_locations[chain, draw] = state.subs_QM
        for mode, kept in enumerate(self._factors):
            kept[chain, draw] = state.factors(mode)

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Remember where the chain stands; a state never changes, so it need not be copied."""
        self._points[chain] = (sweep, state)

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state that a chain can go on from, or None if it has to begin."""
        return self._points[chain]

    def finish(self) -> Record:
        """Hand over what all chains have."""
        plan = self.plan
        sweeps = min(0 if point is None else point[0] for point in self._points)
        draws = plan.schedule.draws_after(sweeps)
        return Record(
            plan.tensor,
            plan.spec,
            plan.schedule,
            plan.seed,
            core_values=self._core_values[:, :draws],
            core_locations=self._core_locations[:, :draws],
            factors=tuple(kept[:, :draws] for kept in self._factors),
            stats={name: values[:, :sweeps] for name, values in self._stats.items()},
        )

    def how_to_resume(self) -> str:
        """A run in memory ends with `fit`."""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

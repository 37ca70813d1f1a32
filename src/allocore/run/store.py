"""Where a run puts its draws: a small protocol, and the store that keeps them in memory."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from allocore.data.tensor import CountTensor
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run.record import Record
from allocore.run.schedule import Schedule

if TYPE_CHECKING:
    from allocore.gibbs.sweep import Info


class Store(Protocol):
    """Takes the draws and the trace of a run as it goes. What it takes, it copies."""

    def record_sweep(self, chain: int, sweep: int, info: "Info", seconds: float) -> None:
        """Keep what sweep 1, 2, .. of a chain told about itself."""

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain."""

    def finish(self, chains: int, sweeps: int) -> Record:
        """Hand over the first `chains` chains as far as sweep `sweeps`."""


class MemoryStore:
    """Draws and trace in arrays of this process."""

    def __init__(self, tensor: CountTensor, spec: Spec, schedule: Schedule, chains: int, seed: int) -> None:
        self._about = (tensor, spec, schedule, seed)
        modes = len(tensor.shape)
        draws = (chains, schedule.draws)
        sweeps = (chains, schedule.sweeps)
        self._core_values = np.zeros((*draws, spec.budget))
        self._core_locations = np.zeros((*draws, spec.budget, modes), dtype=np.int64)
        sizes = zip(tensor.shape, spec.core_shape, strict=True)
        self._factors = [np.zeros((*draws, length, width)) for length, width in sizes]
        self._stats: dict[str, NDArray[Any]] = {
            "log_likelihood": np.zeros(sweeps),
            "classes": np.zeros(sweeps, dtype=np.int64),
            "factors": np.zeros((*sweeps, modes), dtype=np.int64),
            "moved": np.zeros(sweeps),
            "seconds": np.zeros(sweeps),
        }

    def record_sweep(self, chain: int, sweep: int, info: "Info", seconds: float) -> None:
        """Keep what sweep 1, 2, .. of a chain told about itself."""
        place = (chain, sweep - 1)
        self._stats["log_likelihood"][place] = info.log_likelihood
        self._stats["classes"][place] = info.classes
        self._stats["factors"][place] = info.factors
        self._stats["moved"][place] = info.moved
        self._stats["seconds"][place] = seconds

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain."""
        self._core_values[chain, draw] = state.core_values()
        self._core_locations[chain, draw] = state.subs_QM
        for mode, kept in enumerate(self._factors):
            kept[chain, draw] = state.factors(mode)

    def finish(self, chains: int, sweeps: int) -> Record:
        """Hand over the first `chains` chains as far as sweep `sweeps`."""
        tensor, spec, schedule, seed = self._about
        draws = schedule.draws_after(sweeps)
        return Record(
            tensor,
            spec,
            schedule,
            seed,
            core_values=self._core_values[:chains, :draws],
            core_locations=self._core_locations[:chains, :draws],
            factors=tuple(kept[:chains, :draws] for kept in self._factors),
            stats={name: values[:chains, :sweeps] for name, values in self._stats.items()},
        )

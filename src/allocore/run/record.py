"""A finished run: its data, its settings, its kept draws and the trace of its sweeps."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.tensor import CountTensor
from allocore.model.spec import Spec
from allocore.run.schedule import Schedule


@dataclass(frozen=True)
class Record:
    """What a store hands over when a run is done. All arrays are read-only.

    core_values (chain, draw, Q), core_locations (chain, draw, Q, M), factors: per mode (chain, draw, D_m, K_m), zero in
    the columns no class used; stats: per sweep, (chain, sweep) or (chain, sweep, M). `attributes` are those of a run
    that was read from disk: what it says about itself, such as the version that made it. `chosen` are the numbers of
    the draws where some were left out because they are damaged.
    """

    tensor: CountTensor
    spec: Spec
    schedule: Schedule
    seed: int
    core_values: NDArray[np.float64]
    core_locations: NDArray[np.int64]
    factors: tuple[NDArray[np.float64], ...]
    stats: Mapping[str, NDArray[Any]]
    attributes: Mapping[str, str] | None = None
    chosen: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stats", MappingProxyType(dict(self.stats)))
        for array in (self.core_values, self.core_locations, *self.factors, *self.stats.values()):
            array.flags.writeable = False

    @property
    def draw_numbers(self) -> NDArray[np.int64]:
        """The number of each draw in the run: 0, 1, .. unless some are left out."""
        return np.arange(self.core_values.shape[1]) if self.chosen is None else self.chosen

    @property
    def draw_sweeps(self) -> NDArray[np.int64]:
        """The sweep (1, 2, ..) that gave each draw; `stats` of sweep s stand at position s - 1."""
        return np.array([self.schedule.sweep_of(draw) for draw in self.draw_numbers.tolist()], dtype=np.int64)

    def included_classes(self, chain: int, draw: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Core values and locations of the included classes of one draw: all, unless the budget is inferred."""
        core_Q, subs_QM = self.core_values[chain, draw], self.core_locations[chain, draw]
        included_Q = core_Q > 0.0 if self.spec.infer_budget else slice(None)
        return core_Q[included_Q], subs_QM[included_Q]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the fields: a mapping proxy cannot be pickled, the dict behind it can."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self), tuple({**values, "stats": dict(self.stats)}.values())

"""A finished run: its data, its settings, its draws and the statistics of its sweeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.data.holdout import HeldOut
from allocore.data.tensor import CountTensor
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.run.schedule import Schedule

if TYPE_CHECKING:
    from allocore.run.stored_array import StoredArray

DrawArray: TypeAlias = "NDArray[Any] | StoredArray"


@dataclass(frozen=True)
class Record:
    """What a store returns when a run is done. All arrays are read-only; the matrices of a large run stay on disk.

    core_values (chain, draw, Q); core_locations (chain, draw, Q, M); factors: per mode (chain, draw, D_m, K_m), zero in
    columns that no class used; stats: per sweep, (chain, sweep) or (chain, sweep, M). If they are learned,
    concentrations (chain, draw, M), and log_odds of the dispersion, (chain, draw) or (chain, draw, D). `attributes` are
    those of a run that was read from disk, such as the version that made it. If damaged draws were left out, `chosen`
    has the numbers of the others. `held_out` has the cells that were held out of the tensor, if the run knows them.
    `folded_mode` is the mode whose rows were folded into an earlier fit (fold_in.py): the tensor is that of the new
    rows, each draw counts as one sweep, and everything else is as in that fit.
    """

    tensor: CountTensor
    spec: Spec
    schedule: Schedule
    seed: int
    core_values: NDArray[np.float64]
    core_locations: DrawArray
    factors: tuple[DrawArray, ...]
    stats: Mapping[str, NDArray[Any]]
    attributes: Mapping[str, str] | None = None
    chosen: NDArray[np.int64] | None = None
    concentrations: NDArray[np.float64] | None = None
    log_odds: NDArray[np.float64] | None = None
    held_out: HeldOut | None = None
    folded_mode: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stats", MappingProxyType(dict(self.stats)))
        for array in (*self.draw_arrays, *self.stats.values()):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @property
    def draw_arrays(self) -> list[DrawArray]:
        """The draws of all variables, in the order of the schema."""
        learned = [array for array in (self.concentrations, self.log_odds) if array is not None]
        return [self.core_values, self.core_locations, *self.factors, *learned]

    def with_draws(self, which: tuple[Any, ...]) -> "Record":
        """The record with some of its draws, by their position in (chain, draw); nothing is copied."""
        arrays = [array[which] for array in self.draw_arrays]
        return replace(self, **draw_fields(self.spec, arrays))

    def with_chains(self, numbers: Sequence[int]) -> "Record":
        """The record of some of its chains, in the order given: their draws and the statistics of their sweeps."""
        chosen = list(numbers)
        stats = {name: values[chosen] for name, values in self.stats.items()}
        return replace(self.with_draws((chosen,)), stats=stats)

    def log_odds_of(self, chain: int, draw: int, coords_MN: NDArray[np.int64]) -> NDArray[np.float64]:
        """The log odds of the dispersion of one draw in each cell; zeros if the likelihood has none."""
        if self.log_odds is None:
            return np.zeros(coords_MN.shape[1])
        return Dispersion(np.atleast_1d(self.log_odds[chain, draw]), self.spec.dispersion_by).at(coords_MN)

    def state_of(self, chain: int, draw: int) -> State:
        """One draw as a state. The smallest normal float stands in for a stored weight that underflowed to zero."""
        from allocore.kernels.elementary import log_of  # on use: it loads the compiler

        tiny, subs_QM = np.finfo(float).tiny, self.core_locations[chain, draw]
        core_Q, log_phi = self.core_values[chain, draw], []
        # A class that is not included has the core value zero.
        log_core_Q = log_of(core_Q if self.spec.infer_budget else np.maximum(core_Q, tiny))
        for mode, factor in enumerate(self.factors):
            log_phi_DK, used_U = np.full(factor.shape[2:], -np.inf), np.unique(subs_QM[:, mode])
            log_phi_DK[:, used_U] = log_of(np.maximum(factor[chain, draw][:, used_U], tiny))
            log_phi.append(log_phi_DK)
        concentrations_M = np.empty(0) if self.concentrations is None else self.concentrations[chain, draw]
        dispersion = None
        if self.log_odds is not None:
            dispersion = Dispersion(np.atleast_1d(self.log_odds[chain, draw]), self.spec.dispersion_by)
        return State(log_core_Q, subs_QM, tuple(log_phi), concentrations_M, dispersion)

    @property
    def draw_numbers(self) -> NDArray[np.int64]:
        """The number of each draw in the run: 0, 1, .. unless some are left out."""
        return np.arange(self.core_values.shape[1]) if self.chosen is None else self.chosen

    @property
    def draw_sweeps(self) -> NDArray[np.int64]:
        """The sweep (1, 2, ..) that gave each draw; the `stats` of sweep s are at position s - 1."""
        return np.array([self.schedule.sweep_of(draw) for draw in self.draw_numbers.tolist()], dtype=np.int64)

    def included_classes(self, chain: int, draw: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Core values and locations of the included classes of one draw: all, unless the budget is inferred."""
        core_Q, subs_QM = self.core_values[chain, draw], self.core_locations[chain, draw]
        included_Q = core_Q > 0.0 if self.spec.infer_budget else slice(None)
        return core_Q[included_Q], subs_QM[included_Q]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields, with `stats` as a dict: a mapping proxy cannot be pickled."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return type(self), tuple({**values, "stats": dict(self.stats)}.values())


def draw_fields(spec: Spec, arrays: Sequence[DrawArray]) -> dict[str, Any]:
    """The fields of a record that hold draws, from arrays in the order of the schema."""
    core_values, core_locations, *rest = arrays
    modes = len(spec.core_shape)
    learned = iter(rest[modes:])
    return {
        "core_values": core_values,
        "core_locations": core_locations,
        "factors": tuple(rest[:modes]),
        "concentrations": next(learned) if spec.infer_concentrations else None,
        "log_odds": next(learned) if spec.observation.has_dispersion else None,
    }

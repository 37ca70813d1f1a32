"""A run in memory: its plan, the record of its draws, the protocol of a store, and the store in memory.

Schedule       how many sweeps a chain makes, and which of them are kept as draws
Size           the schedule and the number of chains of a run
Growth         whether a run grows until its draws have settled, and how far
Plan           everything that determines the draws: data, model, schedule, chains, seed
Record         the result: data, settings, draws and the statistics of all sweeps
Store          takes draws while chains run: `MemoryStore` here, `ZarrStore` on disk (run_writer.py)
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from allocore._zarr import parsed_object
from allocore.errors import InputError, whole_number
from allocore.gibbs import SAMPLER_VERSION
from allocore.model.known import KnownFactors
from allocore.model.spec import Model, Spec
from allocore.model.state import Dispersion, State, SweepInfo
from allocore.storage.lazy_array import DividedDraws, DrawArray
from allocore.storage.zarr_format import ADDED_STATS, RUN_FORMAT, STATS, draw_values, draw_variables, with_checksum
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.holdout import HeldOut
from allocore.tensor.sharded import ShardedTensor

DRAWS_OF_ROUND = 25  # of each chain: the number hardly matters for predictions, and sixteen chains have 400 draws
SWEEPS_OF_NEW_ROWS = 50  # for each draw of a fit; docs/howto/fold-in.md has the measurements
# Other versions of these packages may round differently, so that a resumed run would have other bytes.
_PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
_HASHED_AT_ONCE = 2**20  # numbers


@dataclass(frozen=True)
class Schedule:
    """`burn_in` sweeps are discarded, then every `thin`-th sweep is kept until there are `draws` draws."""

    burn_in: int = 1000
    draws: int = 200
    thin: int = 20

    def __post_init__(self) -> None:
        for name, least in (("burn_in", 0), ("draws", 1), ("thin", 1)):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least=least))

    @classmethod
    def of_sweeps(cls, sweeps: int) -> "Schedule":
        """The schedule of a chain that discards half of its sweeps, and keeps 25 draws of the others."""
        draws = min(DRAWS_OF_ROUND, max(1, sweeps // 2))
        thin = max(1, sweeps // 2 // draws)
        return cls(sweeps - draws * thin, draws, thin)

    @property
    def sweeps(self) -> int:
        """The number of sweeps of a complete chain."""
        return self.burn_in + self.draws * self.thin

    def draw_of(self, sweep: int) -> int | None:
        """The number of the draw that sweep 1, 2, .. gives, or None if it is not kept."""
        kept, rest = divmod(sweep - self.burn_in, self.thin)
        return kept - 1 if rest == 0 and kept > 0 else None

    def draws_after(self, sweep: int) -> int:
        """The number of draws after `sweep` sweeps."""
        return max(0, (sweep - self.burn_in) // self.thin)

    def sweep_of(self, draw: int) -> int:
        """The sweep that gives a draw."""
        return self.burn_in + (draw + 1) * self.thin

    def later(self, sweeps: int) -> "Schedule":
        """The schedule that ends at a later sweep: all sweeps of this one become burn-in."""
        draws = min(self.draws, sweeps - self.sweeps)
        thin = (sweeps - self.sweeps) // draws
        return Schedule(sweeps - draws * thin, draws, thin)


class Size(NamedTuple):
    """The schedule and the number of chains of a run."""

    schedule: Schedule
    chains: int


@dataclass(frozen=True)
class Growth:
    """Whether the sweeps and the chains of a run grow until its draws have settled, and how far."""

    sweeps: bool
    chains: bool
    max_sweeps: int
    max_chains: int

    def __post_init__(self) -> None:
        for name in ("max_sweeps", "max_chains"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))


@dataclass(frozen=True)
class NewRows:
    """The rows that were folded into an earlier fit (run/fold_in.py): those of one mode or two, from `first` on."""

    modes: tuple[int, ...]
    first: int = 0


@dataclass(frozen=True)
class Plan:
    """Everything that determines the draws of a run and their number, and the held-out cells, which do not.

    `started` is a hash of the states of another run where chains begin. It changes the random numbers, because that run
    may have the same seed. `new_rows` are those of a record that has some. With `growth`, schedule and chains are
    those of the present round. With `full`, they are those of a quick look at a run of that size.
    """

    tensor: CountTensor
    spec: Spec
    schedule: Schedule
    chains: int
    seed: int
    held_out: HeldOut | None = None
    started: int | None = None
    new_rows: NewRows | None = None
    growth: Growth | None = None
    full: Size | None = None

    def resumed(self, draws: int | None = None, chains: int | None = None, sweeps: int | None = None) -> "Plan":
        """The plan with which the run goes on: its full size, or other numbers. One that is given no longer grows."""
        schedule, planned_chains = self.full or Size(self.schedule, self.chains)
        if sweeps is not None and sweeps != schedule.sweeps:
            if sweeps < schedule.sweeps + schedule.draws:
                rule = f"must be {schedule.sweeps:,}, as planned, or at least {schedule.draws:,} more for new draws"
                raise InputError("sweeps", sweeps, rule)
            schedule = schedule.later(sweeps)
        elif draws is not None:
            schedule = replace(schedule, draws=draws)
        growth = self.growth
        if growth is not None:
            longer, more = growth.sweeps and draws is None and sweeps is None, growth.chains and chains is None
            growth = replace(growth, sweeps=longer, chains=more) if longer or more else None
        chains = planned_chains if chains is None else chains
        return replace(self, schedule=schedule, chains=chains, growth=growth, full=None)

    def settings(self) -> str:
        """The settings of the run as JSON."""
        spec = asdict(replace(self.spec, exposures=(), known=()))
        del spec["exposures"], spec["known"]  # their values are in constant_data, except for seeds
        settings = {"model": self.spec.model, "spec": spec, "schedule": asdict(self.schedule)}
        growth = None if self.growth is None else asdict(self.growth)
        full = None if self.full is None else {"schedule": asdict(self.full.schedule), "chains": self.full.chains}
        special: dict[str, Any] = {
            "started": self.started,
            "new_rows": None if self.new_rows is None else asdict(self.new_rows),
            "growth": growth,
            "full": full,
        }
        special["exposures"] = fingerprint_of_exposures(self.spec.exposures)
        special["known"] = [asdict(replace(known, frozen=())) for known in self.spec.known] or None
        special["frozen"] = fingerprint_of_frozen(self.spec.known)
        given = {name: value for name, value in special.items() if value is not None}
        return json.dumps({**settings, "chains": self.chains, **given})

    def attributes(self) -> dict[str, str]:
        """The attributes of the run on disk: versions, rounding, settings, seed, and the fingerprints of its data."""
        from allocore.kernels.rounding import rounding

        held_out = {} if self.held_out is None else {"held_out": fingerprint_of_cells(self.held_out)}
        return {
            "inference_library": "allocore",
            "inference_library_version": version("allocore"),
            "run_format": RUN_FORMAT,
            "sampler_version": str(SAMPLER_VERSION),
            "packages": json.dumps(packages()),
            "rounding": rounding(),
            **with_checksum({"settings": self.settings(), "seed": str(self.seed), "tensor": fingerprint(self.tensor)}),
            **held_out,
        }


def check_extension(before: Plan, after: Plan) -> None:
    """Check that a run can go on with another plan: more chains, more draws, or a schedule of later sweeps only."""
    old, new = before.schedule, after.schedule
    if after.chains < before.chains:
        raise InputError("chains", after.chains, f"must be at least the {before.chains} that are already planned")
    if keeps_draws(old, new):
        if new.draws < old.draws:
            raise InputError("draws", new.draws, f"must be at least the {old.draws} that are already planned")
    elif new.burn_in < old.sweeps:
        rule = f"must be at least {old.sweeps}, the number of sweeps in the schedule it replaces"
        raise InputError("burn_in", new.burn_in, rule)


def keeps_draws(before: Schedule, after: Schedule) -> bool:
    """Whether the draws of a schedule are also those of another, perhaps not all."""
    return (before.burn_in, before.thin) == (after.burn_in, after.thin)


def shown_chains(sweeps_C: Sequence[int], shown: int) -> int:
    """How many chains to show: all, unless the ones that were added have fewer sweeps than the `shown` first."""
    return len(sweeps_C) if min(sweeps_C) >= min(sweeps_C[:shown]) else shown


def packages() -> dict[str, str]:
    """The installed versions of the packages that decide how numbers are rounded."""
    return {name: version(name) for name in _PACKAGES}


def planned(
    tensor: CountTensor,
    attributes: dict[str, Any],
    held_out: HeldOut | None = None,
    exposures: tuple[tuple[float, ...], ...] = (),
    frozen: tuple[tuple[tuple[float, ...], ...], ...] = (),
) -> Plan:
    """The plan that wrote these attributes; a ValueError, KeyError or TypeError if they are damaged."""
    settings = parsed_object(attributes["settings"], "settings")
    # Runs from before sampler version 1 also store `start` and `learn_locations`; the model now implies both.
    fields = {name: value for name, value in settings["spec"].items() if name not in ("learn_locations", "start")}
    known = tuple(
        KnownFactors(**{**known, "frozen": columns})
        for known, columns in zip(settings.get("known", ()), frozen, strict=False)
    )
    fields |= {"core_shape": tuple(fields["core_shape"]), "model": settings["model"]}
    spec = Spec(**fields, exposures=exposures, known=known)
    if fingerprint_of_exposures(spec.exposures) != settings.get("exposures"):
        raise ValueError("the exposures are not those that the run started with")
    if fingerprint_of_frozen(spec.known) != settings.get("frozen"):
        raise ValueError("the frozen factors are not those that the run started with")
    if spec.model not in get_args(Model):
        raise ValueError(f"model is {spec.model!r}, but it must be one of {get_args(Model)}")
    if len(spec.core_shape) != tensor.ndim:
        raise ValueError(f"core_shape is {spec.core_shape}, but the tensor has {tensor.ndim} modes")
    chains, seed = whole_number("chains", settings["chains"]), whole_number("seed", int(attributes["seed"]), least=0)
    schedule, new_rows = Schedule(**settings["schedule"]), _new_rows_of(settings, tensor)
    started = settings.get("started")
    if not (started is None or (type(started) is int and 0 < started < 2**32)):
        raise ValueError(f"started is {started!r}, but it must be a number of 32 bits")
    growth = None if settings.get("growth") is None else _growth_of(settings["growth"])
    full = settings.get("full")
    full = None if full is None else Size(Schedule(**full["schedule"]), whole_number("chains", full["chains"]))
    return Plan(tensor, spec, schedule, chains, seed, held_out, started, new_rows, growth, full)


def _new_rows_of(settings: dict[str, Any], tensor: CountTensor) -> NewRows | None:
    found = settings.get("new_rows")
    if found is None:
        return None
    modes, first = tuple(found["modes"]), found["first"]
    lengths = [tensor.shape[mode] for mode in modes if type(mode) is int and 0 <= mode < tensor.ndim]
    if not (0 < len(lengths) == len(modes) and type(first) is int and 0 <= first < min(lengths)):
        raise ValueError(f"new_rows are {found!r}, but the tensor has the shape {tensor.shape}")
    return NewRows(modes, first)


def _growth_of(settings: Any) -> Growth:
    growth = Growth(**settings)
    if type(growth.sweeps) is not bool or type(growth.chains) is not bool:
        raise ValueError(f"growth is {settings!r}, but sweeps and chains must be true or false")
    return growth


def fingerprint(tensor: CountTensor) -> str:
    """A hash of everything in a tensor: shape, names, labels, cells, counts and missing patterns."""
    if isinstance(tensor, ShardedTensor):
        return tensor.files.fingerprint
    labels = [list(each) if isinstance(each, tuple) else None for each in tensor.labels]
    pair = [] if tensor.undirected_modes is None else [tensor.undirected_modes]
    about = json.dumps([tensor.shape, tensor.mode_names, labels, *pair])
    return _hash(about, tensor.missing.patterns.ravel(), *tensor.coords, tensor.counts)


def fingerprint_of_cells(held_out: HeldOut) -> str:
    """A hash of held-out cells: the mode that their fibres run along, their coordinates and their counts."""
    return _hash(json.dumps(held_out.along), *held_out.coords, held_out.counts)


def fingerprint_of_exposures(exposures: tuple[tuple[float, ...], ...]) -> str | None:
    """A hash of the weights of rows; None without any."""
    return _hash("", *(np.array(weights).view(np.int64) for weights in exposures)) if exposures else None


def fingerprint_of_frozen(known: tuple[KnownFactors, ...]) -> str | None:
    """A hash of the frozen factors of all modes; None without any."""
    columns = [np.array(column).view(np.int64) for each in known for column in each.frozen]
    return _hash("", *columns) if columns else None


def _hash(about: str, *arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256(about.encode())
    for array in arrays:
        digest.update(str(array.size).encode())
        for start in range(0, array.size, _HASHED_AT_ONCE):
            digest.update(array[start : start + _HASHED_AT_ONCE].astype("<i8").tobytes())
    return digest.hexdigest()


def other_arithmetic(attributes: dict[str, Any]) -> list[str]:
    """What differs from the process that wrote a run and may change its last bits, such as "numba 0.61 (now 0.62)"."""
    from allocore.kernels.rounding import rounding

    recorded = parsed_object(attributes["packages"], "packages")
    rounded = attributes.get("rounding")  # None in older runs
    changed = [(name, recorded[name], own) for name, own in packages().items() if recorded.get(name, own) != own]
    changed += [] if rounded in (None, rounding()) else [("arithmetic that rounds as", rounded, rounding())]
    return [f"{what} {before} (now {now})" for what, before, now in changed]


@dataclass(frozen=True)
class Record:
    """The result of a run. All arrays are read-only; the matrices of a large run stay on disk.

    core_values (chain, draw, Q); core_locations (chain, draw, Q, M); factors: per mode (chain, draw, D_m, K_m), zero in
    columns that no class used; stats: per sweep, (chain, sweep) or (chain, sweep, M), NaN for those that an older run
    does not have. If they are learned, concentrations (chain, draw, M), and log_odds of the dispersion, (chain, draw)
    or (chain, draw, D). `attributes` are those of a run that was read from disk, such as the version that made it. If
    damaged draws were left out, `chosen` has the numbers of the others. `held_out` has the cells that were held out of
    the tensor, if known. With `new_rows`, the tensor is that of these rows, each draw counts as one sweep, and the rest
    is as in the fit into which they were folded. `planned_chains` is the number of chains in the plan, if some of them
    are still behind and not in the record. `full` is the size of the run of which this is a quick look.
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
    new_rows: NewRows | None = None
    planned_chains: int | None = None
    full: Size | None = None

    def __post_init__(self) -> None:
        sweeps = next(iter(self.stats.values())).shape[:2]  # (chain, sweep)
        unknown = {name: np.full(sweeps, np.nan) for name in ADDED_STATS if name not in self.stats}
        object.__setattr__(self, "stats", MappingProxyType({**self.stats, **unknown}))
        for array in (*self.draw_arrays, *self.stats.values()):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    @classmethod
    def of(cls, plan: Plan, draws: Sequence[DrawArray], **rest: Any) -> "Record":
        """The record of a plan, with the draws of all variables in the order of the schema."""
        planned = plan.chains if len(draws[0]) < plan.chains else None
        given = {"held_out": plan.held_out, "new_rows": plan.new_rows, "full": plan.full, **rest}
        draw_fields = _draw_fields(plan.spec, draws)
        return cls(plan.tensor, plan.spec, plan.schedule, plan.seed, planned_chains=planned, **draw_fields, **given)

    @property
    def draw_arrays(self) -> list[DrawArray]:
        """The draws of all variables, in the order of the schema."""
        learned = [array for array in (self.concentrations, self.log_odds) if array is not None]
        return [self.core_values, self.core_locations, *self.factors, *learned]

    def with_draws(self, which: tuple[Any, ...]) -> "Record":
        """The record with some of its draws, by their positions (chain, draw); nothing is copied."""
        return replace(self, **_draw_fields(self.spec, [array[which] for array in self.draw_arrays]))

    def with_chains(self, numbers: Sequence[int]) -> "Record":
        """The record with some of its chains, in the order given: their draws and statistics."""
        chosen = list(numbers)
        stats = {name: values[chosen] for name, values in self.stats.items()}
        return replace(self.with_draws((chosen,)), stats=stats, planned_chains=None)

    def per_unit(self, mode: int | None = None) -> Self:
        """The record as if all exposures, or those of one mode, were 1: factors are divided by weights."""
        record = self
        for m, factor in enumerate(self.factors):
            if mode in (None, m) and (weights_D := self.spec.exposure(m)) is not None:
                divided = cast("DrawArray", DividedDraws(factor, weights_D[:, None]))
                factors = (*record.factors[:m], divided, *record.factors[m + 1 :])
                record = replace(record, spec=record.spec.with_exposure(m, None), factors=factors)
        return record

    @property
    def preliminary(self) -> bool:
        """Whether this is a quick look, of which a larger run makes the first sweeps."""
        return self.full is not None

    @property
    def complete(self) -> bool:
        """Whether all planned chains have made all planned sweeps."""
        return self.planned_chains is None and self.stats["moved"].shape[1] >= self.schedule.sweeps

    def log_odds_of(self, chain: int, draw: int, coords_MN: NDArray[np.int64]) -> NDArray[np.float64]:
        """The log odds of the dispersion of one draw in each cell; zeros if the likelihood has none."""
        dispersion = self._dispersion(chain, draw)
        return np.zeros(coords_MN.shape[1]) if dispersion is None else dispersion.at(coords_MN)

    def _dispersion(self, chain: int, draw: int) -> Dispersion | None:
        if self.log_odds is None:
            return None
        return Dispersion(np.atleast_1d(self.log_odds[chain, draw]), self.spec.dispersion_by)

    def state_of(self, chain: int, draw: int) -> State:
        """One draw as a state. The smallest normal float replaces a stored weight that underflowed to zero."""
        from allocore.kernels.elementary import log_of

        tiny, subs_QM = np.finfo(float).tiny, self.core_locations[chain, draw]
        core_Q, log_phi = self.core_values[chain, draw], []
        # A class that is not included has the core value zero.
        log_core_Q = log_of(core_Q if self.spec.infer_budget else np.maximum(core_Q, tiny))
        for mode, factor in enumerate(self.factors):
            log_phi_DK = np.full(factor.shape[2:], -np.inf)
            used_U = np.unique(subs_QM[:, self.spec.sharing(mode)])
            log_phi_DK[:, used_U] = log_of(np.maximum(factor[chain, draw][:, used_U], tiny))
            log_phi.append(log_phi_DK)
        concentrations_M = np.empty(0) if self.concentrations is None else self.concentrations[chain, draw]
        return State(log_core_Q, subs_QM, tuple(log_phi), concentrations_M, self._dispersion(chain, draw))

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


def _draw_fields(spec: Spec, arrays: Sequence[DrawArray]) -> dict[str, Any]:
    """The fields of a record that have draws, from arrays in the order of the schema."""
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


class Store(Protocol):
    """Takes and copies the draws and statistics of a run: sweeps of a chain in order, chains from several threads."""

    plan: Plan

    @property
    def path(self) -> Path | None:
        """The folder of the run; None if it is in memory."""

    def record_sweep(self, chain: int, sweep: int, info: SweepInfo, seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Save a state from which the chain can continue: `now`, or when the store decides to."""

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state from which a chain can continue, or None if it must start."""

    def extend(self, plan: Plan) -> None:
        """Go on with another plan, once the present one is complete. A new schedule replaces the draws.

        Chains that are added are not shown before they have as many sweeps as the others.
        """

    def finish(self) -> Record:
        """Return the saved draws and sweeps that all shown chains have."""

    def how_to_resume(self) -> str:
        """How to continue the run, in a sentence; empty if it cannot be continued."""
        return ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        return None


def stats_of(info: SweepInfo, seconds: float) -> dict[str, Any]:
    """The statistics of a sweep, by name."""
    return {name: seconds if name == "seconds" else getattr(info, name) for name in STATS}


def empty_stats(shape: tuple[int, int], modes: int) -> dict[str, NDArray[Any]]:
    """An array for each statistic of the sweeps, of shape (chain, sweep) or (chain, sweep, M)."""
    return {name: np.zeros((*shape, modes) if by_mode else shape, dtype) for name, (dtype, by_mode) in STATS.items()}


class MemoryStore(Store):
    """The store in memory."""

    path = None

    def __init__(self, plan: Plan, start: Sequence[State] | None = None) -> None:
        self._points: list[tuple[int, State] | None] = [(0, state) for state in start or ()]
        self._shown = plan.chains
        self._earlier: Record | None = None
        self._allocate(plan)

    def _allocate(self, plan: Plan) -> None:
        self.plan = plan
        draws, sweeps = (plan.chains, plan.schedule.draws), (plan.chains, plan.schedule.sweeps)
        variables = draw_variables(plan.tensor, plan.spec)
        self._draws = [np.zeros((*draws, *variable.shape), variable.dtype) for variable in variables]
        self._stats = empty_stats(sweeps, plan.tensor.ndim)
        self._points += [None] * (plan.chains - len(self._points))

    def record_sweep(self, chain: int, sweep: int, info: SweepInfo, seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""
        for name, value in stats_of(info, seconds).items():
            self._stats[name][chain, sweep - 1] = value

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""
        for values, value in zip(self._draws, draw_values(state), strict=True):
            values[chain, draw] = value

    def extend(self, plan: Plan) -> None:
        """Go on with another plan. Until the first new draw, the draws of the present one stay."""
        check_extension(self.plan, plan)
        before, draws, stats = self.plan, self._draws, self._stats
        keeps = keeps_draws(before.schedule, plan.schedule)
        self._earlier = None if keeps else self.finish()
        self._shown = before.chains if keeps else plan.chains
        self._allocate(plan)
        for name, values in self._stats.items():
            values[: before.chains, : before.schedule.sweeps] = stats[name]
        for after_D, before_D in zip(self._draws, draws, strict=True) if keeps else ():
            after_D[: before.chains, : before.schedule.draws] = before_D

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Remember the state. States never change, so it need not be copied."""
        self._points[chain] = (sweep, state)
        first = self.plan.schedule.sweep_of(0)
        if self._earlier is not None and all(point is not None and point[0] >= first for point in self._points):
            self._earlier = None

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state from which a chain can continue, or None if it must start."""
        return self._points[chain]

    def finish(self) -> Record:
        """Return the draws and sweeps that all shown chains have."""
        sweeps_C = [0 if point is None else point[0] for point in self._points]
        shown = shown_chains(sweeps_C, self._shown)
        sweeps = min(sweeps_C[:shown])
        draws = self.plan.schedule.draws_after(sweeps)
        if draws == 0 and self._earlier is not None:
            return self._earlier
        stats = {name: values[:shown, :sweeps] for name, values in self._stats.items()}
        return Record.of(self.plan, [values[:shown, :draws] for values in self._draws], stats=stats)

"""The jobs of a comparison: models at budgets, each with everything that determines the result of its fit."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, product
from typing import Any
from urllib.parse import quote

from allocore.comparison.short_names import estimator_and_settings
from allocore.errors import Described, InputError, whole_number
from allocore.estimators import CP, AlloCore, Estimator, NNTuck, Tucker, whole_core
from allocore.gibbs import SAMPLER_VERSION
from allocore.model.spec import check_counts, check_likelihood, concentrations_for, core_shape_for
from allocore.storage.record import Schedule, fingerprint
from allocore.tensor.count_tensor import CountTensor

Models = Mapping[str, Estimator | Sequence[Estimator]]
ESTIMATORS: dict[str, Any] = {each.__name__: each for each in (AlloCore, CP, Tucker, NNTuck)}
EM_ONLY = ("restarts", "max_iter")
_FULL_CORE = (Tucker, NNTuck)
# Of the parameters of an estimator, what a comparison sets itself.
_SIZES = ("budget", "rank", "core_shape", "max_budget")
_OF_A_FIT = ("seed", "threads", "progress", "store", "executor")


@dataclass(frozen=True)
class Job:
    """One fit: everything that determines its result, given the tensor.

    `settings` has the parameters of the estimator other than its size. `core` is True if the user chose the core, and
    False if it follows from the budget.
    """

    model: str
    estimator: str
    settings: tuple[tuple[str, Any], ...]
    budget: int
    core_shape: tuple[int, ...]
    core: bool
    split: int
    seed: int
    hold_out: float
    along: int
    sampler_version: int = SAMPLER_VERSION

    @property
    def name(self) -> str:
        """The name of its files, unique within a comparison."""
        core = f"-{shape_text(self.core_shape)}" if self.core else ""
        return f"{quote(self.model, safe='')}{core}-{self.budget}-split{self.split}"

    @property
    def entries(self) -> int:
        """The entries of the core that a sweep visits; its time grows with them."""
        return math.prod(self.core_shape) if ESTIMATORS[self.estimator] in _FULL_CORE else self.budget

    @property
    def sweeps(self) -> int:
        """The sweeps of all chains, or the largest number of iterations of all starts."""
        known = dict(self.settings)
        if self.estimator == "NNTuck":
            return int(known["restarts"] * known["max_iter"])
        return int(known["chains"] * (known["burn_in"] + known["draws"] * known["thin"]))

    @property
    def description(self) -> str:
        """The estimator with its settings, without its size: "CP(burn_in=5)"."""
        defaults = {each.name: each.default for each in fields(ESTIMATORS[self.estimator])}
        changed = [f"{name}={value!r}" for name, value in self.settings if value != defaults[name]]
        return f"{self.estimator}({', '.join(changed)})"

    def new_estimator(self, threads: int) -> Any:
        """Return the estimator, ready to fit."""
        size: dict[str, Any] = {"core_shape": self.core_shape}
        if self.estimator == "AlloCore":
            size["budget"] = self.budget
        elif self.estimator == "CP":
            size = {"rank": self.budget}
        common = {"seed": self.seed, "threads": threads, "progress": False}
        return ESTIMATORS[self.estimator](**size, **dict(self.settings), **common)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> "Job":
        """Return the job from the fields that `to_json` returned, in this version or in an older one."""
        if "estimator" not in known:
            known = _converted(known)
        names = {field.name for field in fields(cls)}
        settings = _all_settings(ESTIMATORS[known["estimator"]], known["settings"])
        shape = tuple(known["core_shape"])
        return cls(**{name: known[name] for name in names} | {"core_shape": shape, "settings": settings})


def _converted(old: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a job from before models were estimators: the settings were in its name and its fields."""
    estimator, settings = estimator_and_settings(old["model"])
    numbers = EM_ONLY if estimator == "NNTuck" else ("burn_in", "draws", "thin", "chains", "e0")
    older = {"sampler_version": 0, "chains": 1, "e0": 1.0}  # what results lack that are older than these fields
    known = {**older, **old}
    return {**known, "estimator": estimator, "settings": {**{name: known[name] for name in numbers}, **settings}}


def _all_settings(kind: Any, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the settings of an estimator other than its size, with defaults for those that are not given."""
    names = [field for field in fields(kind) if field.name not in (*_SIZES, *_OF_A_FIT)]
    values = {field.name: given.get(field.name, field.default) for field in names}
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in values.items())


@dataclass(frozen=True)
class Settings:
    """The settings that all jobs in a folder have in common."""

    tensor: str
    hold_out: float
    along: int
    mode: str
    seed: int
    sampler_version: int = SAMPLER_VERSION

    @classmethod
    def of(cls, tensor: CountTensor, hold_out: object, along: int | str, seed: object = 0) -> "Settings":
        """Return settings, checked against a tensor."""
        if isinstance(hold_out, bool) or not isinstance(hold_out, float | int) or not 0 < hold_out < 1:
            raise InputError("hold_out", hold_out, "must be a number above 0 and below 1")
        mode, number = tensor.mode(along), whole_number("seed", seed, least=0)
        return cls(fingerprint(tensor), float(hold_out), mode, tensor.mode_names[mode], number)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


def requested_jobs(
    tensor: CountTensor, models: Models, budgets: Sequence[int] | None, splits: int, settings: Settings
) -> list[Job]:
    """Return all jobs, split by split, so that an interrupted comparison has complete splits."""
    if not isinstance(models, Mapping) or not models:
        raise InputError("models", models, "must map at least one name to an estimator")
    numbers = None if budgets is None else _checked_budgets(budgets, tensor)
    jobs = [job for name, given in models.items() for job in _jobs_of(name, given, tensor, numbers, settings)]
    by_name = {job.name: job for job in jobs}
    for job in jobs:
        if by_name[job.name] != job:
            rule = f"must have one fit of {job.model!r} at each budget, and has two at Q = {job.budget:,}"
            raise InputError("models", Described("a mapping"), rule)
    return [
        replace(job, split=split, seed=settings.seed + split) for split in range(splits) for job in by_name.values()
    ]


def _checked_budgets(budgets: object, tensor: CountTensor) -> list[int]:
    given = list(budgets) if isinstance(budgets, Iterable) else [budgets]
    if not given:
        raise InputError("budgets", given, "must have at least one entry")
    numbers = sorted({whole_number("budgets", each, given) for each in given})
    if numbers[-1] > tensor.nnz:
        rule = f"must not exceed the number of non-zeros, {tensor.nnz:,}: more classes would stay empty"
        raise InputError("budgets", numbers[-1], rule)
    return numbers


def _jobs_of(
    name: str, given: object, tensor: CountTensor, budgets: list[int] | None, settings: Settings
) -> Iterator[Job]:
    """Yield the jobs of the first split of one model."""
    for estimator in given if isinstance(given, Sequence) else [given]:
        if type(estimator).__name__ not in ESTIMATORS or not isinstance(estimator, Estimator):
            rule = f"must be AlloCore, CP, Tucker or NNTuck; {name!r} is a {type(estimator).__name__}"
            raise InputError("models", Described(repr(estimator)), rule)
        checked = _checked_settings(estimator, tensor)
        for budget, core_shape, core in _sizes(name, estimator, tensor, budgets):
            yield Job(
                str(name), type(estimator).__name__, checked, budget, core_shape, core, 0, settings.seed,
                settings.hold_out, settings.along,
            )  # fmt: skip


def _sizes(
    name: str, estimator: Estimator, tensor: CountTensor, budgets: list[int] | None
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Yield the budgets and cores of an estimator, and whether the user chose the core."""
    size = estimator.get_params()
    core = None if size.get("core_shape") is None else _fitting_core(size["core_shape"], tensor)
    if isinstance(estimator, _FULL_CORE):
        if core is None and budgets is None:
            raise InputError("budgets", None, f"must be given for {name!r}, whose core_shape is None")
        for budget in budgets or () if core is None else [math.prod(core)]:
            chosen = core or core_for(budget, tensor.shape)
            yield budget, whole_core(tensor.shape, chosen, type(estimator).__name__), core is not None
        return
    own = size.get("rank", size.get("budget"))
    if budgets is None and own == "infer":
        raise InputError("models", Described(f"{name!r} with budget='infer'"), "must have numbers as budgets")
    for budget in budgets or _checked_budgets([own], tensor):
        yield budget, core or (budget,) * tensor.ndim, core is not None


def _checked_settings(estimator: Estimator, tensor: CountTensor) -> tuple[tuple[str, Any], ...]:
    """Return the settings of an estimator other than its size, checked as far as this is possible without a fit."""
    given = estimator.get_params()
    if isinstance(estimator, NNTuck):
        numbers: tuple[str, ...] = EM_ONLY
    else:
        numbers = ("burn_in", "draws", "thin", "chains")
        check_likelihood(given["likelihood"], given["dispersion_by"])
        check_counts(given["likelihood"], tensor.max)
        given["e0"] = concentrations_for(tensor.ndim, given["e0"])
        if given["dispersion_by"] is not None:
            given["dispersion_by"] = tensor.mode_names[tensor.mode(given["dispersion_by"])]
    given |= {name: whole_number(name, given[name], least=int(name != "burn_in")) for name in numbers}
    if not isinstance(estimator, NNTuck):
        Schedule(given["burn_in"], given["draws"], given["thin"])
    return _all_settings(type(estimator), given)


def _fitting_core(core_shape: object, tensor: CountTensor) -> tuple[int, ...]:
    """Return the core, checked to have no more factors in a mode than the mode has labels."""
    sizes = core_shape_for(tensor.shape, 1, core_shape)
    for size, length, mode in zip(sizes, tensor.shape, tensor.mode_names, strict=True):
        if size > length:
            rule = f"must not have more factors than labels in a mode, and {mode} has {length:,} labels"
            raise InputError("core_shape", sizes, rule)
    return sizes


def shape_text(core_shape: Sequence[int]) -> str:
    """Return a core as text: 20x20x6x3."""
    return "x".join(map(str, core_shape))


# Cores of about Q entries for Tucker and NNTuck

# The weight of the number of entries against the balance of the modes; both errors are squared log ratios. For Q = 5,
# 2 x 2 x 1 x 1 then beats 5 x 1 x 1 x 1, which has the right number of entries but a single factor in three modes.
_PRODUCT = 16.0
# Steps that the search tries: far ones when one or two modes change, near ones when three or four do.
_NEAR, _FAR = (-1, 1), (-4, -3, -2, -1, 1, 2, 3, 4)


def core_for(budget: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a core with about `budget` entries, balanced over the modes of a tensor of this shape.

    The ideal number of factors of a mode is proportional to the fourth root of its length, at least 1 and at most its
    length. A local search finds the whole numbers that are closest, in ratio, to the ideal and to the budget. Longer
    modes never get fewer factors than shorter ones.

    Examples
    --------
    >>> core_for(100, (250, 250, 20, 228))
    (4, 4, 2, 3)
    >>> core_for(5, (250, 250, 20, 228))
    (2, 2, 1, 1)
    >>> core_for(1000, (3, 105, 16, 12, 20))
    (3, 7, 4, 3, 4)
    """
    ideal = _ideal(budget, shape)
    order = sorted(range(len(shape)), key=lambda mode: -shape[mode])
    core = [max(1, min(shape[mode], round(ideal[mode]))) for mode in order]
    limits, ideals = [shape[mode] for mode in order], [ideal[mode] for mode in order]
    while (better := min(_neighbours(core, limits), key=lambda each: _cost(each, ideals, budget))) != core:
        core = better
    found = dict(zip(order, core, strict=True))
    return tuple(found[mode] for mode in range(len(shape)))


def _ideal(budget: int, shape: tuple[int, ...]) -> list[float]:
    """Return the ideal core, in fractions of factors."""

    def core(scale: float) -> list[float]:
        return [max(1.0, min(float(length), scale * length**0.25)) for length in shape]

    low, high = 0.0, float(max(shape))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.prod(core(middle)) < budget else (low, middle)
    return core(high)


def _cost(core: list[int], ideals: list[float], budget: int) -> tuple[float, list[int]]:
    """Return how far a core is from the ideal; ties go to the core with more factors in the first modes."""
    unbalanced = sum(math.log(size / ideal) ** 2 for size, ideal in zip(core, ideals, strict=True))
    missed = math.log(math.prod(core) / budget) ** 2
    return round(unbalanced + _PRODUCT * missed, 12), [-size for size in core]


def _neighbours(core: list[int], limits: list[int]) -> list[list[int]]:
    """Return the core itself and all cores that differ from it slightly in up to four modes."""
    found = [core]
    for number, sizes in enumerate((_FAR, _FAR, _NEAR, _NEAR), start=1):
        for modes in combinations(range(len(core)), number):
            for steps in product(sizes, repeat=number):
                other = list(core)
                for mode, step in zip(modes, steps, strict=True):
                    other[mode] += step
                if all(1 <= size <= limit for size, limit in zip(other, limits, strict=True)):
                    found.append(other)
    return found

"""The models of a comparison, by short names or as estimators, and the jobs that fit them.

The command line takes short names, and older results have them. Suffixes may come in any order, each at most once:

    allocore                 Poisson, with the e0 of the command
    allocore-nb              negative binomial, with one dispersion p
    allocore-nb-by-sender    with a p for each row of the mode sender
    allocore-e0              Poisson, with the concentrations e0 learned
    cp-nb-e0, tucker-bernoulli, nntuck, ...
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, product
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pandas as pd

from allocore.classes.frozen import frozen_tables
from allocore.errors import Described, InputError, whole_number
from allocore.estimators import CP, AlloCore, Estimator, GibbsEstimator, NNTuck, RunSize, Tucker, whole_core
from allocore.gibbs import SAMPLER_VERSION
from allocore.model.known import KnownFactors
from allocore.model.modes import (
    Mode,
    check_known,
    concentrations_given,
    core_shape_given,
    exposures_of,
    known_given,
    modes_given,
    modes_of,
    tied_given,
    with_free_factors,
)
from allocore.model.spec import (
    LikelihoodName,
    check_counts,
    check_likelihood,
    concentrations_for,
    core_shape_for,
    likelihood_for,
)
from allocore.storage.record import fingerprint
from allocore.tensor.count_tensor import CountTensor

Models = Mapping[str, Estimator | Sequence[Estimator]]
MODELS = {"allocore": "ALL0CORE", "cp": "CP", "tucker": "Tucker", "nntuck": "NNTuck"}
EM_ONLY = ("restarts", "max_iter")
_KINDS: dict[str, Any] = {"allocore": AlloCore, "cp": CP, "tucker": Tucker, "nntuck": NNTuck}
_ESTIMATORS: dict[str, Any] = {each.__name__: each for each in _KINDS.values()}
_FULL_CORE = (Tucker, NNTuck)
_SIZES = ("budget", "rank", "core_shape", "max_budget")  # a comparison sets these, and those of a fit, itself
_OF_A_FIT = ("seed", "threads", "progress", "store", "executor")
_ENDINGS: dict[str, LikelihoodName] = {
    "nb": "negative-binomial",
    "negative-binomial": "negative-binomial",
    "bernoulli": "bernoulli",
    "poisson": "poisson",
}
_SHORT = {"poisson": "", "negative-binomial": "-nb", "bernoulli": "-bernoulli"}
_KIND = re.compile(rf"({'|'.join(MODELS)})(?=-|$)")
_NEXT = re.compile(rf"-(?:({'|'.join(_ENDINGS)})|(e0)|by-(.+))(?=-|$)", flags=re.DOTALL)
_LAST = re.compile(rf"(.+)-(?:({'|'.join(_ENDINGS)})|(e0))", flags=re.DOTALL)


@dataclass(frozen=True)
class Job:
    """One fit. `settings` excludes the size; `core`: whether the user chose the core, or it follows from the budget."""

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
    hold_out_seed: int
    sampler_version: int = SAMPLER_VERSION

    @property
    def name(self) -> str:
        """The name of its files, unique within a comparison."""
        core = f"-{shape_text(self.core_shape)}" if self.core else ""
        return f"{quote(self.model, safe='')}{core}-{self.budget}-split{self.split}"

    @property
    def entries(self) -> int:
        """The entries of the core that a sweep visits; its time grows with them."""
        return math.prod(self.core_shape) if _ESTIMATORS[self.estimator] in _FULL_CORE else self.budget

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
        defaults = {each.name: each.default for each in fields(_ESTIMATORS[self.estimator])}
        changed = [f"{name}={value!r}" for name, value in self.arguments.items() if value != defaults[name]]
        return f"{self.estimator}({', '.join(changed)})"

    @property
    def arguments(self) -> dict[str, Any]:
        """The settings as arguments of the estimator: what is known of modes is in `Mode`s."""
        known = dict(self.settings)
        if known.get("modes") is not None:
            known["modes"] = {name: _mode_of(dict(plain)) for name, plain in known["modes"]}
        return known

    def new_estimator(self, threads: int) -> Any:
        """Return the estimator, ready to fit."""
        size: dict[str, Any] = {"core_shape": self.core_shape}
        if self.estimator == "AlloCore":
            size["budget"] = self.budget
        elif self.estimator == "CP":
            size = {"rank": self.budget}
        common = {"seed": self.seed, "threads": threads, "progress": False}
        return _ESTIMATORS[self.estimator](**size, **self.arguments, **common)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_json(cls, known: dict[str, Any]) -> "Job":
        """Return the job from the fields that `to_json` returned, in this version or in an older one."""
        if "estimator" not in known:
            known = _converted(known)
        known = {"hold_out_seed": known["seed"], **known}  # a fit and its split had one seed
        names = {field.name for field in fields(cls)}
        settings = _all_settings(_ESTIMATORS[known["estimator"]], known["settings"])
        shape = tuple(known["core_shape"])
        return cls(**{name: known[name] for name in names} | {"core_shape": shape, "settings": settings})


def _converted(old: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a job from before models were estimators: the settings were in its name and its fields."""
    name = ModelName.parse(old["model"])
    estimator = _KINDS[name.kind].__name__
    numbers = EM_ONLY if estimator == "NNTuck" else ("burn_in", "draws", "thin", "chains", "e0")
    older = {"sampler_version": 0, "chains": 1, "e0": 1.0}  # what results lack that are older than these fields
    known = {**older, **old}
    stated = {**{each: known[each] for each in numbers}, **_stated_settings(name)}
    return {**known, "estimator": estimator, "settings": stated}


def _all_settings(kind: Any, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    names = [field for field in fields(kind) if field.name not in (*_SIZES, *_OF_A_FIT)]
    values = {field.name: given.get(field.name, field.default) for field in names}
    return tuple((name, _as_tuples(value)) for name, value in values.items())


def _as_tuples(value: Any) -> Any:
    """Return a value of JSON, whose lists are tuples in a setting."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Settings:
    """The settings that all jobs in a folder have in common."""

    tensor: str
    hold_out: float
    along: int
    mode: str
    seed: int
    hold_out_seed: int
    sampler_version: int = SAMPLER_VERSION

    @classmethod
    def of(
        cls, tensor: CountTensor, hold_out: object, along: int | str, seed: object = 0, hold_out_seed: object = 0
    ) -> "Settings":
        """Return settings, checked against a tensor."""
        if isinstance(hold_out, bool) or not isinstance(hold_out, float | int) or not 0 < hold_out < 1:
            raise InputError("hold_out", hold_out, "must be a number above 0 and below 1")
        mode, number = tensor.mode(along), whole_number("seed", seed, least=0)
        first = whole_number("hold_out_seed", hold_out_seed, least=0)
        return cls(fingerprint(tensor), float(hold_out), mode, tensor.mode_names[mode], number, first)


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
        replace(job, split=split, seed=settings.seed + split, hold_out_seed=settings.hold_out_seed + split)
        for split in range(splits)
        for job in by_name.values()
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
        if type(estimator).__name__ not in _ESTIMATORS or not isinstance(estimator, Estimator):
            rule = f"must be AlloCore, CP, Tucker or NNTuck; {name!r} is a {type(estimator).__name__}"
            raise InputError("models", Described(repr(estimator)), rule)
        checked = _checked_settings(estimator, tensor)
        for budget, core_shape, core in _sizes(name, estimator, tensor, budgets):
            yield Job(
                str(name), type(estimator).__name__, checked, budget, core_shape, core, 0, settings.seed,
                settings.hold_out, settings.along, settings.hold_out_seed,
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
            _core_with_factors(estimator, tensor, chosen, 1)  # they must agree
            yield budget, whole_core(tensor.shape, chosen, type(estimator).__name__), core is not None
        return
    own = size.get("rank", size.get("budget"))
    if budgets is None and own == "infer":
        raise InputError("models", Described(f"{name!r} with budget='infer'"), "must have numbers as budgets")
    for budget in budgets or _checked_budgets([own], tensor):
        yield budget, _core_with_factors(estimator, tensor, core, budget), core is not None


def _core_with_factors(
    estimator: Estimator, tensor: CountTensor, core: tuple[int, ...] | None, budget: int
) -> tuple[int, ...]:
    """Return the core at a budget, with the numbers of factors of single modes that the estimator sets."""
    given, known = _modes_of(estimator, tensor) if isinstance(estimator, GibbsEstimator) else ({}, ())
    if isinstance(estimator, CP) and any(mode.factors is not None for mode in given.values()):
        raise InputError("modes", estimator.modes, "must have no numbers of factors for CP: each budget is its own")
    found = core_shape_given(given, tensor.mode_names, core, budget)
    sizes = core_shape_for(tensor.shape, budget, found)
    check_known(known, sizes, tensor.mode_names)
    return sizes


def _modes_of(estimator: GibbsEstimator, tensor: CountTensor) -> tuple[dict[int, Mode], tuple[KnownFactors, ...]]:
    """The settings of single modes, with the number of factors that follows from `free`, and their known factors."""
    given, tied = modes_given(estimator.modes, tensor), tied_given(estimator.tied, tensor)
    known = known_given(given, frozen_tables(given, tensor), tensor, tied)
    return with_free_factors(given, known, tied), known


def _plain(mode: Mode) -> tuple[tuple[str, Any], ...]:
    """What is known of a mode as JSON can have it."""
    seeds = None if mode.seeds is None else tuple(mode.seeds.items())
    frozen = None
    if mode.frozen is not None:
        columns = [mode.frozen[name].tolist() for name in mode.frozen.columns]
        frozen = mode.frozen.index.tolist(), mode.frozen.columns.tolist(), columns
    return ("exposure", mode.exposure), ("seeds", seeds), ("seed_weight", mode.seed_weight), ("frozen", frozen)


def _mode_of(plain: dict[str, Any]) -> Mode:
    """The mode of which `_plain` made this."""
    seeds, frozen = plain["seeds"], plain["frozen"]
    if frozen is not None:
        labels, names, columns = frozen
        frozen = pd.DataFrame(dict(zip(names, columns, strict=True)), index=list(labels))
    return Mode(**plain | {"seeds": None if seeds is None else dict(seeds), "frozen": frozen})


def _checked_settings(estimator: Estimator, tensor: CountTensor) -> tuple[tuple[str, Any], ...]:
    given = estimator.get_params()
    if isinstance(estimator, GibbsEstimator):
        modes, known = _modes_of(estimator, tensor)
        found = modes_of(exposures_of(modes, tensor), known, tensor)
        given["modes"] = tuple((name, _plain(mode)) for name, mode in found.items()) or None
        # All models get the same effort, so what grows in a fit keeps its first size here.
        if estimator.quick:
            raise InputError("quick", True, "must be False in a comparison: fix the same `sweeps` and `chains` instead")
        size, fixed = RunSize.of(estimator), {"sweeps": "auto", "max_sweeps": None, "max_chains": None}
        given |= {**fixed, **vars(size.schedule), "chains": size.chains}
        given["likelihood"] = likelihood_for(given["likelihood"], tensor.max, given["dispersion_by"])
        check_counts(given["likelihood"], tensor.max)
        given["e0"] = concentrations_for(tensor.ndim, concentrations_given(modes, tensor.mode_names, given["e0"]))
        if given["dispersion_by"] is not None:
            given["dispersion_by"] = tensor.mode_names[tensor.mode(given["dispersion_by"])]
        if (tied := tied_given(given["tied"], tensor)) is not None:
            given["tied"] = tuple(tensor.mode_names[mode] for mode in tied)
    else:
        given |= {name: whole_number(name, given[name]) for name in EM_ONLY}
    return _all_settings(type(estimator), given)


def _fitting_core(core_shape: object, tensor: CountTensor) -> tuple[int, ...]:
    sizes = core_shape_for(tensor.shape, 1, core_shape)
    for size, length, mode in zip(sizes, tensor.shape, tensor.mode_names, strict=True):
        if size > length:
            rule = f"must not have more factors than labels in a mode, and {mode} has {length:,} labels"
            raise InputError("core_shape", sizes, rule)
    return sizes


def shape_text(core_shape: Sequence[int]) -> str:
    """Return a core as text: 20x20x6x3."""
    return "x".join(map(str, core_shape))


# The weight of the number of entries against the balance of the modes; both errors are squared log ratios. For Q = 5,
# 2 x 2 x 1 x 1 then beats 5 x 1 x 1 x 1, which has the right number of entries but a single factor in three modes.
_PRODUCT = 16.0
# Steps that the search tries: far ones when one or two modes change, near ones when three or four do.
_NEAR, _FAR = (-1, 1), (-4, -3, -2, -1, 1, 2, 3, 4)


def core_for(budget: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a core with about `budget` entries, balanced over the modes of a tensor of this shape.

    The ideal number of factors of a mode, from 1 to its length, is proportional to the fourth root of its length. A
    local search finds the closest whole numbers, in ratio, to ideal and budget; longer modes never get fewer factors.
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


@dataclass(frozen=True)
class ModelName:
    """What the short name of a model says. None is what the name leaves open."""

    kind: str
    likelihood: LikelihoodName | None = None
    learn_e0: bool = False
    dispersion_by: str | None = None

    @classmethod
    def parse(cls, name: str) -> "ModelName":
        """Return what a name says. Whatever follows -by- is the mode, including any suffixes: see `in_modes`."""
        found = _KIND.match(name)
        if found is None:
            raise _no_such_model(name)
        asked, place = cls(found[1]), found.end()
        while place < len(name):
            ending = _NEXT.match(name, place)
            if ending is None:
                raise _no_such_model(name)
            likelihood, e0, by = ending.groups()
            asked, place = asked._with(name, likelihood, e0 is not None, by), ending.end()
        if asked.kind == "nntuck" and asked != cls("nntuck"):
            raise InputError("models", name, "must not have suffixes after nntuck, which is Poisson and has no e0")
        return asked

    def in_modes(self, names: tuple[str, ...]) -> "ModelName":
        """Return the name with suffixes split from the mode: -by-store-e0 learns e0, unless a mode is "store-e0"."""
        asked = self
        while asked.dispersion_by is not None and asked.dispersion_by not in names:
            found = _LAST.fullmatch(asked.dispersion_by)
            if found is None:
                break
            asked = replace(asked, dispersion_by=found[1])._with(self.text, found[2], found[3] is not None, None)
        return asked

    def _with(self, name: str, likelihood: str | None, e0: bool, by: str | None) -> "ModelName":
        if (likelihood and self.likelihood) or (e0 and self.learn_e0):
            raise _no_such_model(name)
        chosen = _ENDINGS[likelihood] if likelihood else self.likelihood
        mode = by or self.dispersion_by
        return replace(self, likelihood=chosen, learn_e0=self.learn_e0 or e0, dispersion_by=mode)

    @property
    def text(self) -> str:
        """The name in its shortest form."""
        by = "" if self.dispersion_by is None else f"-by-{self.dispersion_by}"
        return f"{self.kind}{_SHORT[self.likelihood or 'poisson']}{'-e0' * self.learn_e0}{by}"

    @property
    def details(self) -> list[str]:
        """What differs from the paper's model: nothing for Poisson and a fixed e0."""
        found = []
        if self.likelihood not in (None, "poisson"):
            found.append("Bernoulli" if self.likelihood == "bernoulli" else "negative binomial")
        if self.dispersion_by is not None:
            found.append(f"p by {self.dispersion_by}")
        return [*found, "e0 learned"] if self.learn_e0 else found


def _no_such_model(name: str) -> InputError:
    rule = (
        f"must be one of {', '.join(MODELS)}; the first three may have suffixes (a likelihood, -e0, -by-MODE), each at "
        "most once, as in allocore-nb, cp-bernoulli or tucker-nb-e0"
    )
    return InputError("models", name, rule)


def printed(model: str, core: str = "") -> tuple[str, str]:
    """Return kind and details as printed, ("ALL0CORE", "negative binomial, 20x20x6x3"), or any other name as it is."""
    try:
        name = ModelName.parse(model)
    except InputError:
        return model, core
    return MODELS[name.kind], ", ".join([*name.details, core] if core else name.details)


def series_name(model: str, core: str) -> str:
    """Return the printed name of a model, with its details in brackets: "ALL0CORE (negative binomial)"."""
    name, details = printed(model, core)
    return f"{name} ({details})" if details else name


@dataclass(frozen=True)
class Defaults:
    """The likelihood, e0 and dispersion of the models whose names do not say."""

    likelihood: Any = "poisson"
    e0: Any = 1.0
    dispersion_by: Any = None

    def named(self, names: list[str], tensor: CountTensor) -> list[str]:
        """Return names that say everything, checked against a tensor. A default that no model uses is an error."""
        check_likelihood(self.likelihood)
        e0 = concentrations_for(tensor.ndim, self.e0)
        by = None if self.dispersion_by is None else _mode_name("dispersion_by", self.dispersion_by, tensor)
        whole = [self._whole(ModelName.parse(name), tensor, e0 == "infer", by) for name in names]
        drawn = [each for each in whole if each.kind != "nntuck"]
        if self.likelihood != "poisson" and not any(each.likelihood == self.likelihood for each in drawn):
            raise InputError("likelihood", self.likelihood, "must be used by a model, and all have their own")
        if by is not None and not any(each.dispersion_by == by for each in drawn):
            raise InputError("dispersion_by", self.dispersion_by, "needs a negative binomial model such as allocore-nb")
        if e0 != 1.0 and not any(each.learn_e0 == (e0 == "infer") for each in drawn):
            raise InputError("e0", self.e0, "must be used by a model: NNTuck has no e0, and names with -e0 learn it")
        for each in drawn:
            check_counts(each.likelihood or "poisson", tensor.max)
        return [each.text for each in whole]

    def _whole(self, asked: ModelName, tensor: CountTensor, learn_e0: bool, by: str | None) -> ModelName:
        if asked.kind == "nntuck":
            return asked
        asked = asked.in_modes(tensor.mode_names)
        likelihood: LikelihoodName = asked.likelihood or self.likelihood
        has_p, own = likelihood == "negative-binomial", asked.dispersion_by
        if own is not None and not has_p:
            rule = f"must be negative binomial to have a dispersion, as in {asked.kind}-nb-by-{own}"
            raise InputError("models", asked.text, rule)
        mode = _mode_name("models", own, tensor) if own is not None else by if has_p else None
        return replace(asked, likelihood=likelihood, learn_e0=asked.learn_e0 or learn_e0, dispersion_by=mode)


def _mode_name(argument: str, mode: str | int, tensor: CountTensor) -> str:
    """Return the name of a mode that is given by its name or its number; a number may be text."""
    numbered = isinstance(mode, str) and mode not in tensor.mode_names and mode.removeprefix("-").isdecimal()
    try:
        return tensor.mode_names[tensor.mode(int(mode) if numbered else mode)]
    except InputError:
        raise InputError(argument, mode, f"must name a mode of the tensor, one of {list(tensor.mode_names)}") from None


def _stated_settings(name: ModelName) -> dict[str, Any]:
    if name.kind == "nntuck":
        return {}
    settings = {"likelihood": name.likelihood or "poisson", "dispersion_by": name.dispersion_by}
    return settings | ({"e0": "infer"} if name.learn_e0 else {})


def named_models(
    names: list[str],
    tensor: CountTensor,
    *,
    core_shape: tuple[int, ...] | None = None,
    defaults: Defaults = Defaults(),  # noqa: B008  frozen
    chains: Mapping[str, Any] = MappingProxyType({}),
    starts: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, list[Estimator]]:
    """Estimators by name ("tucker=20x20x6x3"): `core_shape` for ALL0CORE, `chains` for Gibbs, `starts` for NNTuck."""
    if not names:
        raise InputError("models", names, "must have at least one entry")
    given = [_name_and_core(name) for name in names]
    found: dict[str, list[Estimator]] = {}
    for text, (_, core) in zip(defaults.named([name for name, _ in given], tensor), given, strict=True):
        name = ModelName.parse(text)
        size = (
            {"rank": 1}
            if name.kind == "cp"
            else {"core_shape": core or (core_shape if name.kind == "allocore" else None)}
        )
        fixed = {} if defaults.e0 == "infer" else {"e0": defaults.e0}
        more = starts if name.kind == "nntuck" else {**fixed, **_stated_settings(name), **chains}
        found.setdefault(text, []).append(_KINDS[name.kind](**size, **more))
    if core_shape is not None and not any(name.startswith("allocore") for name in found):
        raise InputError("core_shape", core_shape, "needs the model allocore")
    return found


def _name_and_core(given: str) -> tuple[str, tuple[int, ...] | None]:
    name, equals, core = given.partition("=")
    kind = ModelName.parse(name).kind
    if not equals:
        return name, None
    if kind == "cp":
        raise InputError("models", given, "must not have a core: the budget of CP determines it")
    try:
        return name, tuple(int(size) for size in core.split("x"))
    except ValueError:
        raise InputError("models", given, f"must have a core of whole numbers joined by x: {name}=20x20x6x3") from None

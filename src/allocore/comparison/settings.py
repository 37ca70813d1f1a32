"""The settings of a comparison, what the user requested, and the jobs that follow from both."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from allocore.comparison.cores import core_for
from allocore.comparison.model_names import MODELS, Defaults, ModelName, kind_of
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.estimators import whole_core
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.model.spec import concentrations_for, core_shape_for
from allocore.run.plan import fingerprint
from allocore.run.schedule import Schedule

EM_ONLY = ("restarts", "max_iter")
_GIBBS_ONLY = ("burn_in", "draws", "thin", "chains")
_FULL_CORE = ("tucker", "nntuck")


@dataclass(frozen=True)
class Job:
    """One fit: everything that determines its result, given the tensor.

    `model` is its name (model_names.py), which says the likelihood and whether e0 is learned. `core` is True if the
    user chose the core; otherwise the core follows from the budget. Settings that a model does not use are None.
    """

    model: str
    budget: int
    core_shape: tuple[int, ...]
    core: bool
    split: int
    seed: int
    hold_out: float
    along: int
    burn_in: int | None
    draws: int | None
    thin: int | None
    restarts: int | None
    max_iter: int | None
    sampler_version: int = SAMPLER_VERSION
    chains: int | None = 1
    e0: float | tuple[float, ...] | None = 1.0

    @property
    def name(self) -> str:
        """The name of its files, unique within a comparison."""
        core = f"-{shape_text(self.core_shape)}" if self.core else ""
        return f"{quote(self.model, safe='')}{core}-{self.budget}-split{self.split}"

    @property
    def entries(self) -> int:
        """The entries of the core that a sweep visits; its time grows with them."""
        return math.prod(self.core_shape) if kind_of(self.model) in _FULL_CORE else self.budget

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self) | {"core_shape": list(self.core_shape), "e0": _json_e0(self.e0)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Job":
        """Return the job from the fields that `to_json` returned."""
        older: dict[str, Any] = {"sampler_version": 0}  # what is missing in results that are older than these fields
        older |= {"chains": None, "e0": None} if fields["model"] == "nntuck" else {"chains": 1, "e0": 1.0}
        known = {**older, **fields}
        e0 = tuple(known["e0"]) if isinstance(known["e0"], list) else known["e0"]
        return cls(**{**known, "core_shape": tuple(fields["core_shape"]), "e0": e0})


@dataclass(frozen=True)
class Settings:
    """The settings that all jobs in a folder have in common. `e0` is that of models that do not learn it."""

    tensor: str
    hold_out: float
    along: int
    mode: str
    seed: int
    burn_in: int
    draws: int
    thin: int
    restarts: int
    max_iter: int
    sampler_version: int = SAMPLER_VERSION
    chains: int = 1
    e0: float | tuple[float, ...] = 1.0

    @classmethod
    def of(
        cls, tensor: CountTensor, hold_out: object, along: int | str, *, e0: object = 1.0, **numbers: object
    ) -> "Settings":
        """Return settings, checked against a tensor."""
        if isinstance(hold_out, bool) or not isinstance(hold_out, float | int) or not 0 < hold_out < 1:
            raise InputError(f"hold_out is {hold_out!r}, but it must be a number above 0 and below 1")
        names, numbers = ("seed", *_GIBBS_ONLY, *EM_ONLY), {"chains": 1, **numbers}
        whole = {name: whole_number(name, numbers[name], least=int(name not in ("seed", "burn_in"))) for name in names}
        Schedule(whole["burn_in"], whole["draws"], whole["thin"])
        mode = tensor.mode(along)
        fixed = concentrations_for(tensor.ndim, e0)
        fixed = 1.0 if isinstance(fixed, str) else fixed  # learned by all models, so no model reads it
        return cls(fingerprint(tensor), float(hold_out), mode, tensor.mode_names[mode], **whole, e0=fixed)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self) | {"e0": _json_e0(self.e0)}

    @staticmethod
    def of_older(fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of settings from a file, which may be older than some of them."""
        return {"chains": 1, "e0": 1.0, **fields}

    def job(self, model: str, budget: int, core_shape: tuple[int, ...], *, core: bool, split: int) -> Job:
        """Return a job with these settings; the split and the sampler have the same seed."""
        unused = _GIBBS_ONLY if model == "nntuck" else EM_ONLY
        numbers: dict[str, Any] = {
            name: None if name in unused else getattr(self, name) for name in (*_GIBBS_ONLY, *EM_ONLY)
        }
        numbers["e0"] = None if model == "nntuck" or ModelName.parse(model).learn_e0 else self.e0
        return Job(model, budget, core_shape, core, split, self.seed + split, self.hold_out, self.along, **numbers)


@dataclass(frozen=True)
class Request:
    """The requested models, budgets and splits. A model is a name, with or without a core: "tucker=20x20x6x3".

    The names say everything: settings for all models (model_names.Defaults) have become part of them.
    """

    models: tuple[tuple[str, tuple[int, ...] | None], ...]
    budgets: tuple[int, ...]
    splits: int

    @classmethod
    def of(
        cls,
        tensor: CountTensor,
        models: object,
        budgets: object,
        splits: object,
        core_shape: object = None,
        defaults: Defaults = Defaults(),  # noqa: B008  frozen
    ) -> "Request":
        """Return a request, checked against a tensor. `core_shape` applies to ALL0CORE without a core of its own."""
        default = None if core_shape is None else _fitting_core("core_shape", core_shape, tensor)
        given = [_model(name, tensor) for name in items("models", models)]
        names = defaults.named([name for name, _ in given], tensor)
        chosen = [
            (name, default if kind_of(name) == "allocore" and core is None else core)
            for name, (_, core) in zip(names, given, strict=True)
        ]
        if default is not None and not any(kind_of(name) == "allocore" for name, _ in chosen):
            raise InputError(f"core_shape is {default}, but it needs the model allocore, which models does not contain")
        numbers = sorted({whole_number("budgets", each, budgets) for each in items("budgets", budgets)})
        if numbers[-1] > tensor.nnz:
            raise InputError(
                f"budgets has {numbers[-1]:,}, but it must not exceed the number of non-zeros, {tensor.nnz:,}: more "
                "classes would stay empty"
            )
        return cls(tuple(dict.fromkeys(chosen)), tuple(numbers), whole_number("splits", splits))

    def jobs(self, settings: Settings, shape: tuple[int, ...]) -> list[Job]:
        """Return all jobs, split by split, so that an interrupted comparison has whole splits."""
        return [
            replace(job, split=split, seed=settings.seed + split)
            for split in range(self.splits)
            for job in self._of_one_split(settings, shape)
        ]

    def _of_one_split(self, settings: Settings, shape: tuple[int, ...]) -> Iterable[Job]:
        for model, core in self.models:
            for budget in self.budgets:
                if kind_of(model) not in _FULL_CORE:
                    yield settings.job(model, budget, core or (budget,) * len(shape), core=core is not None, split=0)
                elif core is None:
                    sizes = whole_core(shape, core_for(budget, shape), MODELS[kind_of(model)])
                    yield settings.job(model, budget, sizes, core=False, split=0)
            if kind_of(model) in _FULL_CORE and core is not None:
                sizes = whole_core(shape, core, MODELS[kind_of(model)])
                yield settings.job(model, math.prod(sizes), sizes, core=True, split=0)


def _json_e0(e0: float | tuple[float, ...] | None) -> float | list[float] | None:
    return list(e0) if isinstance(e0, tuple) else e0


def shape_text(core_shape: Sequence[int]) -> str:
    """Return a core as text: 20x20x6x3."""
    return "x".join(map(str, core_shape))


def items(name: str, value: object) -> list[Any]:
    """Return the entries of a list, at least one; a single value counts as a list of one."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        value = [value]
    items = list(value)
    if not items:
        raise InputError(f"{name} is empty, but it must have at least one entry")
    return items


def _model(given: object, tensor: CountTensor) -> tuple[str, tuple[int, ...] | None]:
    name, equals, core = str(given).partition("=")
    kind = ModelName.parse(name if isinstance(given, str) else repr(given)).kind
    if not equals:
        return name, None
    if kind == "cp":
        raise InputError(f"models has {given!r}, but CP has no core to choose: its budget determines it")
    try:
        sizes = tuple(int(size) for size in core.split("x"))
    except ValueError:
        raise InputError(
            f"models has {given!r}, but a core must be whole numbers joined by x: {name}=20x20x6x3"
        ) from None
    return name, _fitting_core("models", sizes, tensor)


def _fitting_core(name: str, core_shape: object, tensor: CountTensor) -> tuple[int, ...]:
    """Return the core, checked to have no more factors in a mode than the mode has labels."""
    sizes = core_shape_for(tensor.shape, 1, core_shape)
    for size, length, mode in zip(sizes, tensor.shape, tensor.mode_names, strict=True):
        if size > length:
            raise InputError(
                f"{name} has a core of {shape_text(sizes)}, but the mode {mode} has only {length:,} labels and can "
                f"have no more than that many factors, not {size:,}"
            )
    return sizes

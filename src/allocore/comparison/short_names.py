"""Short names of models: the kind of model, its likelihood, and whether e0 is learned.

    allocore                 Poisson, with the e0 of the command
    allocore-nb              negative binomial, with one dispersion p
    allocore-nb-by-sender    with a p for each row of the mode sender
    allocore-e0              Poisson, with the concentrations e0 learned
    cp-nb-e0, tucker-bernoulli, nntuck, ...

Endings may come in any order, each at most once. The command line takes these names, and older results have them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from allocore.errors import InputError
from allocore.estimators import CP, AlloCore, Estimator, NNTuck, Tucker
from allocore.model.spec import LikelihoodName, check_counts, check_likelihood, concentrations_for
from allocore.tensor.count_tensor import CountTensor

_CLASSES: dict[str, Any] = {"allocore": AlloCore, "cp": CP, "tucker": Tucker}
MODELS = {"allocore": "ALL0CORE", "cp": "CP", "tucker": "Tucker", "nntuck": "NNTuck"}
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
class ModelName:
    """What the name of a model says. None is what the name leaves open."""

    kind: str
    likelihood: LikelihoodName | None = None
    learn_e0: bool = False
    dispersion_by: str | None = None

    @classmethod
    def parse(cls, name: str) -> "ModelName":
        """Return what a name says. Whatever follows -by- is taken for the mode.

        Examples
        --------
        >>> ModelName.parse("cp-nb-e0")
        ModelName(kind='cp', likelihood='negative-binomial', learn_e0=True, dispersion_by=None)
        """
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
            raise InputError("models", name, "must not have endings after nntuck, which is Poisson and has no e0")
        return asked

    def in_modes(self, names: tuple[str, ...]) -> "ModelName":
        """Return the name with endings after the mode taken off, unless there is a mode of that name.

        Examples
        --------
        >>> ModelName.parse("cp-nb-by-store-e0").in_modes(("store", "day")).text
        'cp-nb-e0-by-store'
        """
        asked = self
        while asked.dispersion_by is not None and asked.dispersion_by not in names:
            found = _LAST.fullmatch(asked.dispersion_by)
            if found is None:
                break
            asked = replace(asked, dispersion_by=found[1])._with(self.text, found[2], found[3] is not None, None)
        return asked

    def _with(self, name: str, likelihood: str | None, e0: bool, by: str | None) -> "ModelName":
        """The name with one more ending, which it must not have yet."""
        if (likelihood and self.likelihood) or (e0 and self.learn_e0):
            raise _no_such_model(name)
        return replace(
            self,
            likelihood=_ENDINGS[likelihood] if likelihood else self.likelihood,
            learn_e0=self.learn_e0 or e0,
            dispersion_by=by or self.dispersion_by,
        )

    @property
    def text(self) -> str:
        """The name in its shortest form."""
        by = "" if self.dispersion_by is None else f"-by-{self.dispersion_by}"
        return f"{self.kind}{_SHORT[self.likelihood or 'poisson']}{'-e0' * self.learn_e0}{by}"

    @property
    def details(self) -> list[str]:
        """In words what differs from the paper's model: nothing for Poisson and a fixed e0."""
        found = []
        if self.likelihood not in (None, "poisson"):
            found.append("Bernoulli" if self.likelihood == "bernoulli" else "negative binomial")
        if self.dispersion_by is not None:
            found.append(f"p by {self.dispersion_by}")
        return [*found, "e0 learned"] if self.learn_e0 else found


def _no_such_model(name: str) -> InputError:
    rule = (
        f"must be one of {', '.join(MODELS)}; the first three may have endings (a likelihood, -e0, -by-MODE), each at "
        "most once, as in allocore-nb, cp-bernoulli or tucker-nb-e0"
    )
    return InputError("models", name, rule)


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
        """Return a name with the defaults filled in."""
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


def printed(model: str, core: str = "") -> tuple[str, str]:
    """Return how a model is printed: its kind, and its details with the core if the user chose it.

    A name that is not a short name is printed as it is.

    Examples
    --------
    >>> printed("allocore-nb-e0", "20x20x6x3")
    ('ALL0CORE', 'negative binomial, e0 learned, 20x20x6x3')
    >>> printed("my model")
    ('my model', '')
    """
    try:
        name = ModelName.parse(model)
    except InputError:
        return model, core
    return MODELS[name.kind], ", ".join([*name.details, core] if core else name.details)


def short_name(likelihood: LikelihoodName, e0: object, dispersion_by: str | int | None) -> str:
    """Return the short name of an ALL0CORE with these settings."""
    by = None if dispersion_by is None else str(dispersion_by)
    return ModelName("allocore", likelihood, isinstance(e0, str), by).text


def estimator_and_settings(model: str) -> tuple[str, dict[str, Any]]:
    """Return the class of a model by its name, and the settings that the name states."""
    name = ModelName.parse(model)
    if name.kind == "nntuck":
        return "NNTuck", {}
    settings: dict[str, Any] = {"likelihood": name.likelihood or "poisson", "dispersion_by": name.dispersion_by}
    return _CLASSES[name.kind].__name__, settings | ({"e0": "infer"} if name.learn_e0 else {})


def named_models(
    names: list[str],
    tensor: CountTensor,
    *,
    core_shape: tuple[int, ...] | None = None,
    defaults: Defaults = Defaults(),  # noqa: B008  frozen
    chains: Mapping[str, Any] = MappingProxyType({}),
    starts: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, list[Estimator]]:
    """Return the estimators of models by name, as `compare` takes them. A name may have a core: "tucker=20x20x6x3".

    `core_shape` is that of ALL0CORE, `chains` are settings of the Gibbs samplers, and `starts` those of NNTuck.
    """
    if not names:
        raise InputError("models", names, "must have at least one entry")
    given = [_name_and_core(name) for name in names]
    found: dict[str, list[Estimator]] = {}
    for name, (_, core) in zip(defaults.named([name for name, _ in given], tensor), given, strict=True):
        kind, (_, settings) = ModelName.parse(name).kind, estimator_and_settings(name)
        if kind == "nntuck":
            found.setdefault(name, []).append(NNTuck(core, **starts))  # type: ignore[arg-type]
            continue
        fixed = {} if defaults.e0 == "infer" else {"e0": defaults.e0}
        sizes: dict[str, Any] = {"core_shape": core or core_shape} if kind == "allocore" else {"core_shape": core}
        sizes = {"rank": 1} if kind == "cp" else sizes
        found.setdefault(name, []).append(_CLASSES[kind](**sizes, **{**fixed, **settings}, **chains))
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

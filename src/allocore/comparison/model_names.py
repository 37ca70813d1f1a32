"""The models of a comparison by name: a kind of model, its likelihood, and whether e0 is learned.

    allocore                 Poisson, with the e0 of the comparison
    allocore-nb              negative binomial, with one dispersion p
    allocore-nb-by-sender    with a p for each row of the mode sender
    allocore-e0              Poisson, with the concentrations e0 learned
    cp-nb-e0, tucker-bernoulli, nntuck ..

The endings may come in any order, each at most once. The shortest form of a name has them in the order of likelihood,
-e0, -by-MODE.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, get_args

from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.model.spec import LikelihoodName, check_likelihood, concentrations_for

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
            raise InputError(
                f"models has {name!r}, but NNTuck is fitted by maximum likelihood: it is Poisson and has no e0"
            )
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

    @property
    def order(self) -> tuple[Any, ...]:
        """Where it stands in tables: by kind, then likelihood, then what is learned."""
        likelihood = get_args(LikelihoodName).index(self.likelihood or "poisson")
        return list(MODELS).index(self.kind), likelihood, self.dispersion_by or "", self.learn_e0


def _no_such_model(name: str) -> InputError:
    return InputError(
        f"models has {name!r}, but every model must be one of {', '.join(MODELS)}; the first three may have endings (a "
        "likelihood, -e0, -by-MODE), each at most once, as in allocore-nb, cp-bernoulli or tucker-nb-e0"
    )


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
            raise InputError(
                f"likelihood is {self.likelihood!r}, but no model uses it: NNTuck is Poisson, and the others have a "
                "likelihood in their names"
            )
        if by is not None and not any(each.dispersion_by == by for each in drawn):
            raise InputError(
                f"dispersion_by is {self.dispersion_by!r}, but no model uses it: it needs one such as allocore-nb"
            )
        if e0 != 1.0 and not any(each.learn_e0 == (e0 == "infer") for each in drawn):
            raise InputError(
                f"e0 is {self.e0!r}, but no model uses it: NNTuck has no e0, and models that end in -e0 learn it"
            )
        _check_counts(drawn, tensor)
        return [each.text for each in whole]

    def _whole(self, asked: ModelName, tensor: CountTensor, learn_e0: bool, by: str | None) -> ModelName:
        """Return a name with the defaults filled in."""
        if asked.kind == "nntuck":
            return asked
        asked = asked.in_modes(tensor.mode_names)
        likelihood: LikelihoodName = asked.likelihood or self.likelihood
        has_p, own = likelihood == "negative-binomial", asked.dispersion_by
        if own is not None and not has_p:
            raise InputError(
                f"models has {asked.text!r}, but only the negative binomial has a dispersion: {asked.kind}-nb-by-{own}"
            )
        mode = _mode_name("models", own, tensor) if own is not None else by if has_p else None
        return replace(asked, likelihood=likelihood, learn_e0=asked.learn_e0 or learn_e0, dispersion_by=mode)


def _mode_name(argument: str, mode: str | int, tensor: CountTensor) -> str:
    """Return the name of a mode that is given by its name or its number; a number may be text."""
    numbered = isinstance(mode, str) and mode not in tensor.mode_names and mode.removeprefix("-").isdecimal()
    try:
        return tensor.mode_names[tensor.mode(int(mode) if numbered else mode)]
    except InputError:
        what = f"a dispersion by {mode!r}" if argument == "models" else repr(mode)
        raise InputError(
            f"{argument} {'has' if argument == 'models' else 'is'} {what}, but it must be a mode of the tensor, one of "
            f"{list(tensor.mode_names)}"
        ) from None


def _check_counts(models: list[ModelName], tensor: CountTensor) -> None:
    """Refuse to compare Bernoulli models on counts that are not binary: they give other counts probability 0."""
    largest = tensor.largest
    for each in models:
        if each.likelihood == "bernoulli" and largest > 1:
            raise InputError(
                f"likelihood is 'bernoulli' ({each.text}), but the tensor has counts up to {largest:,} and they must "
                "be 0 or 1: Y.binary(), or --binary on the command line, makes them so for all models"
            )


def kind_of(model: str) -> str:
    """Return the kind of a model: allocore, cp, tucker or nntuck."""
    return ModelName.parse(model).kind


def printed(model: str, core: str = "") -> tuple[str, str]:
    """Return how a model is printed: its kind, and its details with the core if the user chose it.

    Examples
    --------
    >>> printed("allocore-nb-e0", "20x20x6x3")
    ('ALL0CORE', 'negative binomial, e0 learned, 20x20x6x3')
    >>> printed("cp")
    ('CP', '')
    """
    name = ModelName.parse(model)
    return MODELS[name.kind], ", ".join([*name.details, core] if core else name.details)

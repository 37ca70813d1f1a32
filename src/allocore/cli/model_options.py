"""Which model fit fits: its kind, its size, its priors, and how it is fitted.

The models are the estimators of the Python API, and an option has the name of the setting that it gives. An option that
the chosen model does not have, or that the other options leave without effect, is refused before the data are read.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import typer

import allocore as ac
from allocore.cli.option_groups import takes
from allocore.errors import InputError, whole_number
from allocore.model.spec import Spec, positive

MODELS = {"allocore": "AlloCore", "cp": "CP", "tucker": "Tucker", "nntuck": "NNTuck"}
# Chains of one tensor end in different modes, and together they predict better than any of them. Four show both.
CHAINS = 4
_PRIORS, _NNTUCK = "Priors", "Only for --model nntuck"
_NEGATIVE_BINOMIAL = "negative-binomial"


def _option(kind: Any, help: str, default: object = None, panel: str | None = None) -> tuple[Any, None]:
    """An option whose value is None unless it is given; the help tells the default that the model has for it."""
    told = help if default is None else f"{help} The default is {default}."
    return Annotated[kind | None, typer.Option(help=told, rich_help_panel=panel)], None


def _prior(name: str, help: str) -> tuple[Any, None]:
    default = next(f"{field.default:g}" for field in fields(Spec) if field.name == name)
    return _option(float, help, default, _PRIORS)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "model": (
        Annotated[
            str,
            typer.Option(
                help="allocore; cp, in which every class has factors of its own; tucker, with a class on every "
                "location of the core; or nntuck, which is tucker by maximum likelihood."
            ),
        ],
        "allocore",
    ),
    "budget": _option(
        str,
        "Q, the most classes (non-zeros of the core) that allocore may use, or 'infer' to learn it; for cp the rank, "
        "its number of classes.",
    ),
    "max_budget": _option(int, "The most classes with --budget infer.", 400),
    "core_shape": _option(
        str, "Factors per mode, e.g. 50x50x20x300; for allocore by default Q in every mode; tucker and nntuck need it."
    ),
    "burn_in": _option(int, "Sweeps to discard.", 1000),
    "draws": _option(int, "Draws to keep.", 200),
    "thin": _option(int, "Sweeps per draw.", 20),
    "chains": _option(int, "Independent chains, side by side; predictions pool them.", CHAINS),
    "a0": _prior("a0", "Shape of the gamma prior of the core values. Below 1, it favours values near zero."),
    "b0": _prior("b0", "Rate of that prior, whose mean is a0 / b0."),
    "f0": _prior("f0", "Rate of the gamma prior of the factors. Its shape is --e0, and its mean e0 / f0."),
    "alpha0": _prior(
        "alpha0",
        "Concentration of the Dirichlet prior of the locations in each mode (allocore only). The smaller it is, the "
        "more classes share factors.",
    ),
    "c0": _prior("c0", "First parameter of the beta prior of the share of classes in use, with --budget infer."),
    "d0": _prior("d0", "Second parameter of that prior, whose mean is c0 / (c0 + d0)."),
    "s0": _prior("s0", "Shape of the gamma prior of the concentrations, with --e0 infer."),
    "t0": _prior("t0", "Rate of that prior, whose mean is s0 / t0."),
    "g0": _prior("g0", "First parameter of the beta prior of the dispersion p, with --likelihood negative-binomial."),
    "h0": _prior(
        "h0",
        "Second parameter of that prior, whose mean is g0 / (g0 + h0). With --dispersion-by, rows with few cells need "
        "more than 1 for a finite expected count, and more than 2 for a finite variance.",
    ),
    "restarts": _option(int, "Random starts, of which the best is kept.", 20, _NNTUCK),
    "max_iter": _option(int, "The most iterations of each start.", 1000, _NNTUCK),
    "tol": _option(
        float, "A start has converged if an iteration changes the log-likelihood by a smaller share.", "1e-07", _NNTUCK
    ),
}


@dataclass(frozen=True)
class ChosenModel:
    """A model by its name on the command line, and the settings that were given for it, by their names in Python."""

    name: str
    settings: dict[str, Any]

    @property
    def has_chains(self) -> bool:
        """Whether it is drawn by Gibbs sampling: then it has priors and chains, and its runs can be resumed."""
        return self.name != "nntuck"

    def check_memory(self) -> None:
        """Refuse, before the data are read, a budget that no data would leave room for."""
        from allocore.run.memory_needs import check_budget

        if self.name == "allocore":
            name = "max_budget" if self.settings["budget"] == "infer" else "budget"
            if name in self.settings:
                check_budget(_flag(name), self.settings[name], self.settings.get("core_shape"))

    def check_likelihood(self, likelihood: dict[str, Any]) -> None:
        """Check that the model has the likelihood and the concentrations asked for, and that they use its priors."""
        name, e0 = likelihood["likelihood"], likelihood["e0"]
        if not self.has_chains and name != "poisson":
            raise InputError(f"--likelihood is {name!r}, but --model nntuck is always Poisson")
        if not self.has_chains and e0 is not None:
            raise _not_in_model("e0", e0, self.name)
        for prior in self.settings:
            if prior in ("s0", "t0") and e0 != "infer":
                raise _without_effect(prior, self.settings[prior], "--e0 infer")
            if prior in ("g0", "h0") and name != _NEGATIVE_BINOMIAL:
                raise _without_effect(prior, self.settings[prior], f"--likelihood {_NEGATIVE_BINOMIAL}")

    def estimator(self, likelihood: dict[str, Any], **more: Any) -> Any:
        """Return the estimator, with the likelihood and the concentrations if the model has a choice of them."""
        drawn = {"chains": CHAINS, **likelihood} if self.has_chains else {}
        return _estimator_class(self.name)(**{**drawn, **self.settings, **more})


def _chosen(given: dict[str, Any]) -> ChosenModel:
    """Check the options as far as that needs no data."""
    model = given["model"]
    if model not in MODELS:
        raise InputError(f"--model is {model!r}, but it must be one of {', '.join(MODELS)}")
    asked = {name: value for name, value in given.items() if name != "model" and value is not None}
    known = {field.name for field in fields(_estimator_class(model))} | ({"budget"} if model == "cp" else set())
    for name, value in asked.items():
        if name not in known:
            raise _not_in_model(name, value, model)
        if isinstance(value, float) and name != "tol":
            positive(_flag(name), value)
    size = "budget" if "budget" in known else "core_shape"
    if size not in asked:
        raise InputError(f"{_flag(size)} is missing, but --model {model} needs it")
    settings = asked | _sizes(asked, model)
    if model == "cp":
        settings["rank"] = settings.pop("budget")
    return ChosenModel(model, settings)


def _sizes(asked: dict[str, Any], model: str) -> dict[str, Any]:
    """The budget and the core shape as the API takes them."""
    sizes: dict[str, Any] = {}
    if "budget" in asked:
        sizes["budget"] = _budget(asked["budget"], model)
        for name in ("max_budget", "c0", "d0"):
            if name in asked and sizes["budget"] != "infer":
                raise _without_effect(name, asked[name], f"--budget infer, and --budget is {asked['budget']}")
    if "core_shape" in asked:
        sizes["core_shape"] = sizes_given(asked["core_shape"])
    return sizes


def _budget(budget: str, model: str) -> int | Literal["infer"]:
    if budget == "infer" and model == "allocore":
        return "infer"
    rule = "a whole number or infer" if model == "allocore" else f"a whole number with --model {model}"
    try:
        number = int(budget)
    except ValueError:
        raise InputError(f"--budget is {budget!r}, but it must be {rule}") from None
    return whole_number("--budget", number)


def sizes_given(core_shape: str | None) -> tuple[int, ...] | None:
    """Return the sizes of a core from text such as 50x50x20x300."""
    if core_shape is None:
        return None
    try:
        return tuple(int(size) for size in core_shape.replace("x", ",").split(","))
    except ValueError:
        raise InputError(
            f"--core-shape is {core_shape!r}, but it must be whole numbers joined by x, like 50x50x20x300"
        ) from None


def _estimator_class(model: str) -> Any:
    return getattr(ac, MODELS[model])


def _not_in_model(name: str, value: object, model: str) -> InputError:
    """The error for an option that belongs to other models: it says why, and what to give instead."""
    if name == "budget":
        why = "--core-shape gives its size, such as 20x20x6x3"
    elif model == "nntuck":
        why = "it is fitted by maximum likelihood, without priors and chains"
    elif name == "core_shape":
        why = "--budget gives its size, the number of classes"
    elif name == "alpha0":
        why = "its locations are fixed"
    elif name in ("max_budget", "c0", "d0"):
        why = "only allocore can learn its budget"
    else:
        why = "only nntuck is fitted from random starts"
    return InputError(f"{_flag(name)} is {value!r}, but --model {model} has no {name.replace('_', ' ')}: {why}")


def _without_effect(name: str, value: object, needed: str) -> InputError:
    return InputError(f"{_flag(name)} is {value!r}, but it needs {needed}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


takes_model = takes("chosen", _OPTIONS, _chosen)

"""The options about the likelihood and the concentrations, which fit, compare and select-budget share."""

from typing import Annotated, Any, Literal

import typer

import allocore as ac
from allocore.cli.option_groups import takes
from allocore.errors import InputError
from allocore.model.spec import check_likelihood, concentrations_for

_PANEL = "The likelihood and the concentrations"


def _option(kind: Any, help: str, *names: str) -> Any:
    return Annotated[kind, typer.Option(*names, help=help, rich_help_panel=_PANEL)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "likelihood": (
        _option(
            str,
            "poisson; negative-binomial, for counts that come in bursts; or bernoulli, for data of zeros and ones.",
        ),
        "poisson",
    ),
    "dispersion_by": (
        _option(
            str | None,
            "A mode, by name or number, whose rows each have a dispersion of their own (negative binomial only); by "
            "default one dispersion for all.",
        ),
        None,
    ),
    "e0": (
        _option(
            str | None,
            "The concentration of the factors: a number, one per mode (0.1,0.1,1,1), or infer to learn one per mode. "
            "The smaller it is, the fewer labels dominate a factor. The default is 1.",
        ),
        None,  # not 1, so that a model without concentrations can refuse any
    ),
    "binary": (_option(bool, "Use only whether a cell has events: every count above 0 becomes 1.", "--binary"), False),
}


def _gathered(given: dict[str, Any]) -> dict[str, Any]:
    check_likelihood(given["likelihood"], options=True)
    return given if given["e0"] is None else {**given, "e0": _concentrations(given["e0"])}


def _concentrations(text: str) -> float | tuple[float, ...] | Literal["infer"]:
    if text.strip() == "infer":
        return "infer"
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--e0 is {text!r}, but it must be a number, one number per mode like 0.1,0.1,1,1, or infer"
        ) from None
    try:
        concentrations_for(len(numbers), numbers)
    except InputError as error:
        raise InputError(f"--{error}") from None
    return numbers[0] if len(numbers) == 1 else numbers


takes_likelihood = takes("likelihood", _OPTIONS, _gathered)


def check_dispersion_by(likelihood: dict[str, Any]) -> None:
    """Check, before the data are read, that the likelihood has a dispersion if one for each row is asked for."""
    check_likelihood(likelihood["likelihood"], likelihood["dispersion_by"], options=True)


def settings_of(likelihood: dict[str, Any], Y: ac.CountTensor) -> tuple[ac.CountTensor, dict[str, Any]]:
    """Return the tensor, binary if that was asked for, and the settings as models and comparisons take them."""
    by, e0 = likelihood["dispersion_by"], likelihood["e0"]
    settings = {"likelihood": likelihood["likelihood"], "e0": 1.0 if e0 is None else e0}
    settings["dispersion_by"] = None if by is None else mode_given(by, Y.mode_names)
    return Y.binary() if likelihood["binary"] else Y, settings


def mode_given(mode: str, mode_names: tuple[str, ...]) -> str | int:
    """Return a mode's name, or its number if no mode has that name."""
    try:
        return mode if mode in mode_names else int(mode)
    except ValueError:
        return mode

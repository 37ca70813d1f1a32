"""Figures of a run, drawn with matplotlib. Most functions take a posterior, a fitted model or the path of a run.

    import allocore as ac

    figure = ac.figures.classes(post)
    figure.savefig("classes.pdf")

A notebook shows the figure by itself. To draw in axes of your own, pass them as `ax`; the function then returns them.
matplotlib is imported only when a figure is made.
"""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from allocore.posterior.check import Check
from allocore.report.fit import Fit
from allocore.results import Fitted, as_posterior

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _of_posterior(draw: Callable[Concatenate[Fit, _P], _R]) -> Callable[Concatenate[Fitted, _P], _R]:
    """Let a function that draws a posterior also take a fitted model or the path of a run."""

    @wraps(draw)
    def of_fitted(post: Fitted, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return draw(as_posterior(post), *args, **kwargs)

    of_fitted.__doc__ = _documented(draw)
    return of_fitted  # type: ignore[return-value]  # callers may also pass post by name


def _of_check(draw: Callable[Concatenate[Check, _P], _R]) -> Callable[Concatenate[Check | Fitted, _P], _R]:
    """Let a function that draws a check also take what can be checked."""

    @wraps(draw)
    def of_fitted(found: Check | Fitted, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return draw(found if isinstance(found, Check) else as_posterior(found, "found").check(), *args, **kwargs)

    of_fitted.__doc__ = _documented(draw)
    return of_fitted  # type: ignore[return-value]  # callers may also pass found by name


# What most figures have in common, in the form of numpydoc.
_PARAMETERS = {
    "post": """post : Posterior, fitted model or path
    A posterior, a fitted model, or the folder of a run.""",
    "ax": """ax : matplotlib.axes.Axes, optional
    The axes to draw in; by default those of a new figure.""",
    "draw": """draw, chain : int or "best", optional
    The draw and the chain to show, as in `Posterior.classes`. By default the consensus, if there are several draws.""",
}
_RETURNS = """Figure or matplotlib.axes.Axes
    The new figure, which a notebook shows; or `ax`, if that was given. Its panels are `figure.panels`.

"""


def _documented(draw: Callable[..., Any]) -> str:
    """Return the docstring of a function with the parameters that most figures share, and what they return."""
    text, _, examples = (inspect.getdoc(draw) or "").partition("Examples\n--------\n")
    text, _, returns = text.partition("Returns\n-------\n")
    text, _, own = text.partition("Parameters\n----------\n")
    entries = _PARAMETERS | {
        entry.split()[0].rstrip(","): entry for entry in re.split(r"\n(?=\S)", own.strip()) if entry
    }
    parameters = [entries[name] for name in inspect.signature(draw).parameters if name in entries]
    sections = {"Parameters": "\n".join(parameters) + "\n\n", "Returns": returns or _RETURNS, "Examples": examples}
    return text + "".join(f"{name}\n{'-' * len(name)}\n{section}" for name, section in sections.items())


if TYPE_CHECKING:
    from allocore.report.figures import check as _check
    from allocore.report.figures import classes as _classes
    from allocore.report.figures import core_map, heat_map, network, predictions, run
    from allocore.report.figures import motif as _motif
    from allocore.report.figures import over_time as _over_time
    from allocore.report.figures.predictions import forecast as forecast
    from allocore.report.figures.predictions import ppd as ppd

    adjacency = _of_posterior(network.adjacency)
    calibration = _of_posterior(predictions.calibration)
    check = _of_check(_check.check)
    classes = _of_posterior(_classes.classes)
    communities = _of_posterior(network.communities)
    core = _of_posterior(core_map.core)
    effective_shape = _of_posterior(run.effective_shape)
    factors = _of_posterior(heat_map.factors)
    mass = _of_posterior(run.mass)
    motif = _of_posterior(_motif.motif)
    one_class = _of_posterior(_classes.one_class)
    over_time = _of_posterior(_over_time.over_time)
    traces = _of_posterior(run.traces)
    write_all = _of_posterior(run.write_all)

_HOMES = {
    "adjacency": "network", "calibration": "predictions", "check": "check", "classes": "classes",
    "communities": "network", "core": "core_map", "effective_shape": "run", "factors": "heat_map",
    "forecast": "predictions", "mass": "run", "motif": "motif", "one_class": "classes", "over_time": "over_time",
    "ppd": "predictions", "traces": "run", "write_all": "run",
}  # fmt: skip
_NOT_OF_A_POSTERIOR = ("forecast", "ppd")

__all__ = [
    "adjacency", "calibration", "check", "classes", "communities", "core", "effective_shape", "factors", "forecast",
    "mass", "motif", "one_class", "over_time", "ppd", "traces", "write_all",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'allocore.figures' has no attribute {name!r}")
    function = getattr(import_module(f"allocore.report.figures.{_HOMES[name]}"), name)
    if name == "check":
        return _of_check(function)
    return function if name in _NOT_OF_A_POSTERIOR else _of_posterior(function)


def __dir__() -> list[str]:
    return list(__all__)

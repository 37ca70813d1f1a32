"""Figures of a run, drawn with matplotlib. Each function takes a posterior, a fitted model or the path of a run.

    import allocore as ac

    figure = ac.figures.classes(post)
    figure.savefig("classes.pdf")

A notebook shows the figure by itself. To draw in axes of your own, give them as `ax`; the function then returns them.

The functions are loaded on first use, so matplotlib is imported only when a figure is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocore.figures.calibration_plot import calibration
    from allocore.figures.class_pages import classes, one_class
    from allocore.figures.core_map import core
    from allocore.figures.figure_files import write_all
    from allocore.figures.forecast_fan import forecast
    from allocore.figures.heat_map import factors
    from allocore.figures.predictive import ppd
    from allocore.figures.run_lines import traces
    from allocore.figures.sizes import effective_shape, mass

_HOMES = {
    "calibration": "calibration_plot",
    "classes": "class_pages",
    "core": "core_map",
    "effective_shape": "sizes",
    "factors": "heat_map",
    "forecast": "forecast_fan",
    "mass": "sizes",
    "one_class": "class_pages",
    "ppd": "predictive",
    "traces": "run_lines",
    "write_all": "figure_files",
}

__all__ = [
    "calibration",
    "classes",
    "core",
    "effective_shape",
    "factors",
    "forecast",
    "mass",
    "one_class",
    "ppd",
    "traces",
    "write_all",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'allocore.figures' has no attribute {name!r}")
    return getattr(import_module(f"allocore.figures.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)

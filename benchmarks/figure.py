"""A figure of the cost against non-zeros, classes and threads."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

SWEEP, THINNING, IDEAL = "#0072b2", "#d55e00", "#999999"


def draw(measured: dict[str, Any], path: Path) -> None:
    """Draw the curves that `speed.py` measured."""
    figure, (sizes, budgets, threads) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    points = [point for point in measured["sizes"] if "problem" not in point]
    per_cell = [1e9 * point["seconds"] / point["nnz"] for point in points]
    sizes.plot([point["nnz"] for point in points], per_cell, "o-", color=SWEEP, label="sweep")
    sizes.set(xscale="log", ylim=(0, None), xlabel="non-zeros", ylabel="nanoseconds a non-zero")
    sizes.set_title("Cost of a non-zero (Q = 32)")
    _lines(budgets, measured["budgets"], "budget", proportional=True)
    budgets.set(xlabel="classes Q", ylabel="milliseconds", title="Cost against Q")
    _lines(threads, measured["threads"], "threads", proportional=False)
    threads.set(xlabel="threads", ylabel="milliseconds", title="Cost against threads (Q = 150)")
    for axes in (budgets, threads):
        axes.legend(frameon=False)
    for axes in (sizes, budgets, threads):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _lines(axes: Axes, points: list[dict[str, Any]], along: str, *, proportional: bool) -> None:
    """Sweep and thinning on logarithmic axes, and the line of perfect scaling from the last (or first) sweep."""
    at = [point[along] for point in points]
    anchor = points[-1] if proportional else points[0]
    ideal = [anchor["sweep"] * (x / anchor[along] if proportional else anchor[along] / x) for x in at]
    axes.plot(at, ideal, ":", color=IDEAL, label="in proportion")
    axes.plot(at, [point["sweep"] for point in points], "o-", color=SWEEP, label="sweep")
    axes.plot(at, [point["thinning"] for point in points], "s--", color=THINNING, label="thinning")
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xticks(at, [str(x) for x in at])

"""Traces of a run: statistics of every sweep, one line for each chain."""

from typing import Any, NamedTuple, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from allocore.errors import InputError
from allocore.figures import style
from allocore.figures.notebook_figure import Figure, figure_or_axes
from allocore.figures.text import joined, shorten
from allocore.posterior.fitted import Fitted, as_posterior
from allocore.posterior.posterior import Posterior

_ROW, _LEFT, _ABOVE, _BELOW = 1.05, 0.62, 0.24, 0.42
# The first sweeps are far from all later ones and would flatten them. This share of the sweeps may leave the panel.
_START = 0.1
# The largest width of the name of a mode, in points.
_NAME = 120.0


@overload
def traces(post: Fitted, ax: None = None) -> Figure: ...
@overload
def traces(post: Fitted, ax: Axes) -> Axes: ...
def traces(post: Fitted, ax: Axes | None = None) -> Figure | Axes:
    """Draw the log-likelihood, the classes and factors in use, and the share of classes that moved, by sweep.

    Each chain is a line; the burn-in is shaded. The axis of the log-likelihood leaves out the first steep rise. The
    run need not be finished or have draws.

    Parameters
    ----------
    post : Posterior, fitted model or path
        The posterior of a fitted model or of `allocore.open_run`, the model itself, or the folder of a run.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`: log-likelihood, classes, factors of each mode, moves.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> [panel.get_title(loc="left") for panel in ac.figures.traces(post).panels][:3]
    ['log-likelihood', 'classes in use', 'origin factors in use']
    """
    post = as_posterior(post)
    shown = _traces(post)
    sweeps = shown[0].values.shape[1]
    if not sweeps:
        raise InputError("the run has no sweeps yet: there is nothing to draw")
    with style.look():
        lines = (len(shown) + 2) // 2
        sheet = style.Sheet(ax or style.new_axes(style.WIDTH, _ROW * lines + 0.3))
        row = (sheet.height - 0.3) / lines
        half = (sheet.width - 0.1) / 2
        for place, trace in enumerate(shown):
            line, side = divmod(place + 1, 2) if place else (0, 0)
            wide = half if place else 2 * half
            panel = sheet.panel(side * half + _LEFT, line * row + _ABOVE, wide - _LEFT, row - _BELOW)
            _draw(panel, trace, post.record.schedule.burn_in, last=place >= len(shown) - 2)
        _key(sheet, post)
        return figure_or_axes(sheet.ax, ax)


class _Trace(NamedTuple):
    name: str
    values: NDArray[Any]
    kind: str


def _traces(post: Posterior) -> list[_Trace]:
    stats = post.stats
    found = [
        _Trace("log-likelihood", stats["log_likelihood"], "long"),
        _Trace("classes in use", stats["classes"], "whole"),
    ]
    found += [
        _Trace(joined(shorten(name, _NAME, style.NORMAL), "factors in use"), stats["factors"][:, :, mode], "whole")
        for mode, name in enumerate(post.tensor.mode_names)
    ]
    # The locations of CP and Tucker are fixed.
    if post.learns_locations:
        found.append(_Trace("share of classes that moved", stats["moved"], "share"))
    return found


def _draw(ax: Axes, trace: _Trace, burn_in: int, last: bool) -> None:
    values = np.asarray(trace.values, dtype=float)
    chains, sweeps = values.shape
    for chain in range(chains):
        colour = style.chain_colour(chain)
        ax.plot(np.arange(1, sweeps + 1), values[chain], color=colour, linewidth=0.8, gid=f"chain {chain}")
    ax.set_xlim(0.5, sweeps + 0.5)
    if burn_in:
        ax.axvspan(0.5, min(burn_in, sweeps) + 0.5, color=style.PALE, zorder=0, linewidth=0, gid="burn-in")
    _value_axis(ax, values, trace.kind)
    ax.set_title(trace.name, loc="left", fontsize=style.NORMAL, pad=4)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if last:
        ax.set_xlabel("sweep", fontsize=style.SMALL, labelpad=1, color=style.GREY)


def _value_axis(ax: Axes, values: NDArray[np.float64], kind: str) -> None:
    late = values[:, int(_START * values.shape[1]) :] if kind == "long" else values
    known = late[np.isfinite(late)]
    if len(known):
        low, high = (0.0 if kind == "share" else float(known.min())), float(known.max())
        room = 0.06 * (high - low) or (0.01 if kind == "share" else 1.0)
        ax.set_ylim(low - (0.0 if kind == "share" else room), high + room)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=kind == "whole", min_n_ticks=1))
    if kind == "share":
        style.percent(ax)
    elif kind == "long":
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")))


def _key(sheet: style.Sheet, post: Posterior) -> None:
    """Name the colours of the chains, if there are several, and the shade."""
    right = sheet.width - 0.1
    chains = post.stats["moved"].shape[0]
    if post.record.schedule.burn_in:
        sheet.text(right, 0.06, "burn-in shaded", ha="right", fontsize=style.SMALL, color=style.GREY)
        right -= 0.95
    style.name_chains(sheet, chains, right, 0.06)

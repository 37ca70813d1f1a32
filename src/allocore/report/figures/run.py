"""Figures of a whole run: traces of its sweeps, the effective shape of the model, and how much its classes have."""

from typing import Any, NamedTuple, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from allocore.classes.names import source_words
from allocore.classes.summary import ClassSummary, ShownDraw
from allocore.errors import NO_VALUE, InputError
from allocore.report.figures import style
from allocore.report.figures.style import Figure, figure_or_axes
from allocore.report.figures.text import joined, shorten, width
from allocore.report.fit import Fit, shown_summary

_ROW, _LEFT, _ABOVE, _BELOW = 1.05, 0.62, 0.24, 0.42
# The first sweeps are far from all later ones and would flatten them. This share of the sweeps may leave the panel.
_START = 0.1
# The largest width of the name of a mode, in points.
_NAME = 120.0


@overload
def traces(post: Fit, ax: None = None) -> Figure: ...
@overload
def traces(post: Fit, ax: Axes) -> Axes: ...
def traces(post: Fit, ax: Axes | None = None) -> Figure | Axes:
    """Draw the log-likelihood, the classes and factors in use, and the share of classes that moved, by sweep.

    Each chain is a line; the burn-in is shaded. The axis of the log-likelihood leaves out the first steep rise. The
    run need not be finished or have draws.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
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
    shown = _traces(post)
    sweeps = shown[0].values.shape[1]
    if not sweeps:
        raise InputError("post", NO_VALUE, "has no sweeps yet: there is nothing to draw")
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


def _traces(post: Fit) -> list[_Trace]:
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
    if post.record.spec.learn_locations:
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


def _key(sheet: style.Sheet, post: Fit) -> None:
    """Name the colours of the chains, if there are several, and the shade."""
    right = sheet.width - 0.1
    chains = post.stats["moved"].shape[0]
    if post.record.schedule.burn_in:
        sheet.text(right, 0.06, "burn-in shaded", ha="right", fontsize=style.SMALL, color=style.GREY)
        right -= 0.95
    style.name_chains(sheet, chains, right, 0.06)


_BINS = 30
_LEVELS = (0.5, 0.95)
_BAND = (0.05, 0.95)
# Sums of shares that should be equal differ by less.
_ROUNDING = 1e-12
_ACROSS = 5
# The width of the margins of a panel and of the word "factors", in points.
_FACTORS = 58.0


@overload
def effective_shape(post: Fit, ax: None = None) -> Figure: ...
@overload
def effective_shape(post: Fit, ax: Axes) -> Axes: ...
def effective_shape(post: Fit, ax: Axes | None = None) -> Figure | Axes:
    """Draw histograms, over the draws of all chains, of the classes in use and of the factors in use in every mode.

    A line marks the median (the lower one of two). With several chains, each bar is divided among
    them.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`: the classes, then one panel per mode.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=4, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> panel = ac.figures.effective_shape(post).panels[0]
    >>> int(sum(bar.get_height() for bar in panel.patches))
    4
    """
    drawn = post.draw_sweeps - 1
    if not len(drawn):
        raise InputError("post", NO_VALUE, "has no draws yet: there is nothing to count")
    named = [("classes", post.stats["classes"][:, drawn], post.core_values.shape[2])]
    for mode, name in enumerate(post.tensor.mode_names):
        named.append((name, post.stats["factors"][:, drawn, mode], post.record.spec.core_shape[mode]))
    with style.look():
        down = -(-len(named) // _ACROSS)
        across = -(-len(named) // down)
        sheet = style.Sheet(ax or style.new_axes(style.WIDTH, 1.72 * down + 0.2))
        wide, high = sheet.width / across, (sheet.height - 0.15) / down
        margin = _margin(post.stats["classes"][:, drawn].size)
        for place, (name, values, most) in enumerate(named):
            line, column = divmod(place, across)
            left = column * wide + margin
            panel = sheet.panel(left, line * high + 0.36, wide - margin - 0.1, high - 0.78)
            title = joined(shorten(name, wide * 72 - _FACTORS, style.NORMAL, bold=True), "factors") if place else name
            _histogram(panel, title, np.asarray(values), most)
            panel.set_xlabel("number in use", fontsize=style.SMALL, color=style.GREY, labelpad=1)
            if column == 0:
                panel.set_ylabel("draws", fontsize=style.SMALL, color=style.GREY, labelpad=2)
        style.name_chains(sheet, len(post.stats["classes"]), sheet.width - 0.1, sheet.height - 0.16)
        return figure_or_axes(sheet.ax, ax)


def _margin(draws: int) -> float:
    """The room in inches to the left of a panel for numbers up to the draws, and for the title of the axis."""
    return (width(str(draws), style.SMALL) + 2 * style.SMALL + 8) / 72


def _histogram(ax: Axes, title: str, values: NDArray[np.int64], most: int) -> None:
    low, high = int(values.min()), int(values.max())
    # The values are whole numbers: every bar has the same number of them.
    step = -(-(high - low + 1) // _BINS)
    edges = np.arange(low, high + step + 1, step) - 0.5
    below = np.zeros(len(edges) - 1)
    for chain, of_chain in enumerate(values):
        count = np.histogram(of_chain, edges)[0]
        colour = style.chain_colour(chain) if len(values) > 1 else style.SKY
        ax.bar(edges[:-1] + step / 2, count, bottom=below, width=step * 0.92, color=colour)
        below += count
    ax.set_ylim(0.0, below.max() * 1.08)
    # The values are whole numbers, and their median is one that occurs.
    middle = int(np.quantile(values, 0.5, method="inverted_cdf"))
    ax.axvline(middle, color=style.INK, linewidth=0.8)
    # A single bar would fill the panel.
    room = max(0.0, 4.0 - (high - low)) / 2
    ax.set_xlim(edges[0] - room - 0.2, edges[-1] + room + 0.2)
    found = [tick for tick in MaxNLocator(nbins=3, integer=True).tick_values(low, high) if low <= tick <= high]
    ax.xaxis.set_major_locator(FixedLocator(found or [low]))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    points = style.inches(ax)[0] * 72 + 12
    ax.set_title(title, loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    style.below_title(ax, shorten(f"median {middle} of {most}", points, style.SMALL))


@overload
def mass(post: Fit, ax: None = None, *, draw: ShownDraw = None, chain: int | None = None) -> Figure: ...
@overload
def mass(post: Fit, ax: Axes, *, draw: ShownDraw = None, chain: int | None = None) -> Axes: ...
def mass(post: Fit, ax: Axes | None = None, *, draw: ShownDraw = None, chain: int | None = None) -> Figure | Axes:
    """Draw the share of all expected counts in the largest classes, against their number; marks 50% and 95%.

    The classes of the consensus do not have all counts: the rest is in classes on which the draws disagree. A band
    shows the 90% interval over the draws.

    Parameters
    ----------
    post : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    draw, chain : int or "best", optional
        The draw and the chain to show, as in `Posterior.classes`. By default the consensus, if there are several draws.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, seed=0).fit(ac.load_flights()).posterior_
    >>> line = ac.figures.mass(post, draw="best").panels[0].lines[0]
    >>> float(line.get_ydata()[-1].round(6))
    1.0
    """
    summary = shown_summary(post, draw, chain)
    number = len(summary.share_C)
    with style.look():
        plot = style.dress(ax or style.new_axes(3.5, 2.4, (0.5, 0.15, 0.4, 0.24)))
        held = np.concatenate([[0.0], np.cumsum(summary.share_C)])
        if summary.is_consensus:
            _draw_band(plot, post.consensus().shares_by_draw)
        plot.plot(np.arange(number + 1), held, color=style.BLUE, linewidth=1.2, gid="held")
        if number <= 60:
            plot.plot(np.arange(1, number + 1), held[1:], "o", color=style.BLUE, markersize=2, gid="classes")
        plot.set_xlim(0, number * 1.02)
        plot.set_ylim(0, 1.04)
        reached = [level for level in _LEVELS if held[-1] >= level - _ROUNDING]
        for level in reached:
            _mark(plot, level, int((held < level - _ROUNDING).sum()), held)
        plot.set_yticks([0.0, *_LEVELS])
        style.percent(plot)
        plot.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        plot.set_xlabel("largest classes", fontsize=style.NORMAL, labelpad=2)
        plot.set_ylabel(f"share of all {summary.counted}", fontsize=style.NORMAL, labelpad=3)
        plot.set_title(_title(summary, held), loc="left", fontsize=style.SMALL, color=style.GREY, pad=4)
        return figure_or_axes(plot, ax)


def _draw_band(ax: Axes, share_SDC: NDArray[np.float64]) -> None:
    """Draw how much the classes together have in the draws: from the 5% to the 95% quantile."""
    held_NC = np.cumsum(share_SDC.reshape(-1, share_SDC.shape[-1]), axis=1)
    low, high = np.quantile(held_NC, _BAND, axis=0)
    rows, low, high = np.arange(len(low) + 1), np.append(0.0, low), np.append(0.0, high)
    ax.fill_between(rows, low, high, color=style.BLUE, alpha=0.2, linewidth=0.0, gid="band")


def _title(summary: ClassSummary, held: NDArray[np.float64]) -> str:
    """Where the classes are from; of the consensus, how much all of its classes have."""
    together = f"; all {len(summary.share_C)} have {held[-1]:.0%}" if summary.is_consensus else ""
    return f"{source_words(summary)}{together}"


def _mark(ax: Axes, level: float, classes: int, held: NDArray[np.float64]) -> None:
    """Draw a line from the axis to the curve, and write below the curve how many classes have this share."""
    ax.plot([0, classes], [level, level], color=style.GREY, linewidth=0.6, linestyle=(0, (3, 2)), gid="level")
    ax.plot([classes], [held[classes]], "o", color=style.INK, markersize=3.5, gid="reached")
    text = f"{classes} class{'es' * (classes > 1)} {'has' if classes == 1 else 'have'} {level:.0%}"
    (low, high), (wide, tall) = ax.get_xlim(), style.inches(ax)
    point = (high - low) / (wide * 72)
    left = max(min(classes + 5 * point, high - width(text, style.SMALL) * point), low)
    line = style.SMALL * 1.2 / (tall * 72)
    below = min(level, float(np.interp(left, np.arange(len(held)), held))) - line
    ax.text(left, below, text, ha="left", va="center", fontsize=style.SMALL, gid="classes with level")

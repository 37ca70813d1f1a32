"""The factors of one mode as a heat map of labels by factors, with bars for the size of each factor."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from allocore.classes.summary import ClassSummary, Factor, ShownDraw, ShownMode
from allocore.errors import InputError, whole_number
from allocore.kernels.elementary import Floats, Ints
from allocore.report.figures import style
from allocore.report.figures.style import Figure, date_ticks, figure_or_axes, fitting_ticks, shorten, width
from allocore.report.fit import Fit, shown_summary

_LABELS, _FACTORS = 40, 40
_MASS, _BETWEEN, _BELOW, _KEY = 0.55, 0.08, 0.78, 0.07
_NUMBERS = 0.52  # inches left of factors in rows, for their numbers and the title of the axis
_MOST_NAMES = 2.0
_TICK = 30.0
_TITLE = 120.0  # the largest width of the name of the mode, in points


class _Shown(style.Shown, total=False):
    most: int
    columns: int
    order: Literal["factors", "labels"] | None


@overload
def factors(post: Fit, mode: str | int, ax: None = None, **how: Unpack[_Shown]) -> Figure: ...
@overload
def factors(post: Fit, mode: str | int, ax: Axes, **how: Unpack[_Shown]) -> Axes: ...
def factors(
    post: Fit,
    mode: str | int,
    ax: Axes | None = None,
    *,
    most: int = _LABELS,
    columns: int = _FACTORS,
    order: Literal["factors", "labels"] | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw the factors of a mode that are in use as a heat map, the largest first.

    Darker cells are larger shares of a label in a factor. Bars show the share of all expected counts that the classes
    of each factor have. Periods of time and other ordered labels are all shown, from left to right; of unordered
    labels the `most` heaviest, among them the heaviest of every factor. A factor of the consensus has the lowest number
    of the classes that share it. The panels are the heat map, the bars, and the key to the shades.

    Parameters
    ----------
    mode : str or int
        The name or the number of the mode.
    most : int, default: 40
        The largest number of unordered labels to show.
    columns : int, default: 40
        The largest number of factors to show.
    order : {"factors", "labels"}, optional
        The order of unordered labels: in groups by the factor that has most of their counts, or as in the tensor. By
        default in groups, unless all labels are shown and are rising numbers, such as hours.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> heat = ac.figures.factors(post, "carrier", most=10).panels[0]
    >>> len(heat.get_yticks())
    10
    """
    place = post.record.tensor.mode(mode)
    summary = shown_summary(post, draw, chain)
    most, columns = whole_number("most", most), whole_number("columns", columns)
    if order not in (None, "factors", "labels"):
        raise InputError("order", order, 'must be "factors" or "labels"')
    found = sorted(summary.factors[place].values(), key=lambda factor: -factor.mass)
    shown = found[:columns]
    with style.look():
        colour = style.mode_colours(summary.modes)[place]
        number = (
            f"{len(found)} factors" if len(shown) == len(found) else f"the {columns} largest of {len(found)} factors"
        )
        if summary.modes[place].kind in ("time", "order"):
            return _draw_in_order(ax, summary, shown, number, colour)
        as_given = _are_rising(summary.modes[place].labels, most) if order is None else order == "labels"
        return _draw_labels(ax, summary, shown, number, colour, _heaviest(shown, most), not as_given)


def _are_rising(labels: Sequence[str | int], most: int) -> bool:
    """Whether labels are whole numbers that the user gave, in rising order, and few enough for all to be shown."""
    if isinstance(labels, range) or len(labels) > most or not all(str(label).isdecimal() for label in labels):
        return False
    return all(one < other for one, other in pairwise(int(label) for label in labels))


def _draw_in_order(
    ax: Axes | None, summary: ClassSummary, shown: list[Factor], number: str, colour: str
) -> Figure | Axes:
    """Draw ordered labels from left to right; factors are rows."""
    mode = shown[0].mode
    sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, 0.32 + _BELOW + max(0.14 * len(shown), 0.6)))
    left, high = _NUMBERS, sheet.height - 0.32 - _BELOW
    wide = sheet.width - left - _MASS - _BETWEEN - 0.36
    heat, bars = sheet.panel(left, 0.32, wide, high), sheet.panel(left + wide + _BETWEEN, 0.32, _MASS, high)
    _shade(heat, np.array([factor.share_D for factor in shown]), colour, sheet, left, power=1.0)
    if mode.kind == "time":
        style.name_ticks(heat, date_ticks(mode.labels, max(2, int(wide * 72 / _TICK))))
    else:
        style.name_ticks(heat, fitting_ticks(mode.labels, wide * 72, style.SMALL))
    heat.set_xlabel(shorten(mode.name, wide * 72, style.SMALL), **style.NOTE, labelpad=2)
    _number_ticks(heat, shown, "y")
    bars.barh(range(len(shown)), [factor.mass for factor in shown], height=0.7, color=style.FAINT)
    bars.set_ylim(heat.get_ylim())
    bars.set_yticks([])
    _mass_axis(bars, shown, "x")
    bars.set_xlabel(f"share of all\n{summary.counted}", **style.NOTE, labelpad=1, loc="left")
    shown_words = f"{number}, labels in order from left to right{_known(shown)}"
    _explain(sheet, left, mode, shown_words, summary.source)
    return figure_or_axes(sheet.ax, ax, _caption(summary, mode, shown_words))


def _draw_labels(
    ax: Axes | None, summary: ClassSummary, shown: list[Factor], number: str, colour: str, rows: Ints, grouped: bool
) -> Figure | Axes:
    """Draw unordered labels as rows, in groups or in their own order; factors are columns."""
    mode = shown[0].mode
    rows, starts = _groups(shown, rows) if grouped else (np.sort(rows), [])
    above = 0.32 + _MASS + _BETWEEN
    sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, above + _BELOW + max(0.135 * len(rows), 0.6)))
    names = [shorten(mode.labels[row], _MOST_NAMES * 72, style.SMALL) for row in rows.tolist()]
    tick = width(f"{100 * style.round_below(max(factor.mass for factor in shown)):.4g}%", style.SMALL) + 8
    title = tick + max(width(line, style.SMALL) for line in ("share of all", summary.counted))
    left = (4 + max(7 + max(width(name, style.SMALL) for name in names), title)) / 72
    wide, high = sheet.width - left - 0.3, sheet.height - above - _BELOW
    # Few factors do not need the whole width: large tiles say no more than small ones.
    wide = min(wide, max(0.3 * len(shown), 1.6))
    heat, bars = sheet.panel(left, above, wide, high), sheet.panel(left, 0.32, wide, _MASS)
    _shade(heat, np.array([factor.share_D[rows] for factor in shown]).T, colour, sheet, left)
    edges = [start - 0.5 for start in starts]
    heat.hlines(edges, -0.5, len(shown) - 0.5, colors=style.FAINT, linewidths=0.5, gid="groups")
    heat.set_yticks(range(len(rows)), names)
    heat.tick_params(axis="y", length=0)
    _number_ticks(heat, shown, "x")
    bars.bar(range(len(shown)), [factor.mass for factor in shown], width=0.7, color=style.FAINT)
    bars.set_xlim(heat.get_xlim())
    bars.set_xticks([])
    _mass_axis(bars, shown, "y")
    sheet.text(left - tick / 72, 0.34, f"share of all\n{summary.counted}", ha="right", **style.NOTE)
    length = len(mode.labels)
    which = f"all {length} labels" if len(rows) == length else f"the {len(rows)} largest of {length} labels"
    which += _known(shown)
    _explain(sheet, left, mode, f"{number}, {which}", summary.source)
    return figure_or_axes(sheet.ax, ax, _caption(summary, mode, f"{number}, {which}"))


def _known(shown: list[Factor]) -> str:
    """The numbers and names of the seeded and frozen factors."""
    names = [f"{factor.number} {factor.known}" for factor in shown if factor.known]
    return f"; {', '.join(names)}" if names else ""


def _caption(summary: ClassSummary, mode: ShownMode, shown: str) -> str:
    """What a heat map shows, for print."""
    return (
        f"The factors of {mode.name} in the {summary.source}: {shown}. Darker cells are larger shares of a label in a "
        f"factor. Bars show the share of all {summary.counted} in the classes that use the factor."
    )


def _heaviest(shown: list[Factor], most: int) -> Ints:
    """The heaviest label of every factor, then the heaviest overall."""
    share_FD = np.array([factor.share_D for factor in shown])
    weight_D = np.array([factor.mass for factor in shown]) @ share_FD
    firsts = [int(factor.heaviest[0]) for factor in shown if not factor.empty]
    chosen = list(dict.fromkeys([*firsts, *np.argsort(-weight_D, kind="stable").tolist()]))[:most]
    return np.array(chosen, dtype=np.int64)


def _groups(shown: list[Factor], rows: Ints) -> tuple[Ints, list[int]]:
    """The labels by the factor that has most of their counts, the heaviest first, and where groups begin."""
    mass_FN = np.array([factor.mass * factor.share_D[rows] for factor in shown])
    home = mass_FN.argmax(axis=0)
    order = np.lexsort((-mass_FN.max(axis=0), home))
    return rows[order], (np.flatnonzero(np.diff(home[order])) + 1).tolist()


def _shade(heat: Axes, share: Floats, colour: str, sheet: style.Sheet, left: float, power: float = 0.5) -> None:
    """Draw the shares and a key: square-root shades show small ones, shades in proportion (power 1) peaks over time."""
    shades = style.shades(colour)
    highest = float(share.max()) or 1.0
    norm = PowerNorm(power, vmin=0.0, vmax=highest)
    down, across = (np.arange(size + 1) - 0.5 for size in share.shape)
    heat.pcolormesh(across, down, share, cmap=shades, norm=norm, rasterized=share.size > 20_000)
    heat.set_xlim(across[0], across[-1])
    heat.set_ylim(down[-1], down[0])
    for spine in heat.spines.values():
        spine.set_visible(True)
        spine.set_color(style.FAINT)
    key = sheet.panel(left, sheet.height - 0.3, 1.1, _KEY)
    key.pcolormesh(np.linspace(0, highest, 65), [0, 1], np.linspace(0, highest, 64)[None], cmap=shades, norm=norm)
    key.set_yticks([])
    marks = [0.0, highest * 0.5 ** (1.0 / power), highest]
    key.set_xticks(marks, [f"{mark:.0%}" if highest > 0.2 else f"{100 * mark:.2g}%" for mark in marks])


def _number_ticks(heat: Axes, shown: list[Factor], axis: str) -> None:
    wide, high = style.inches(heat)
    numbers = [str(factor.number) for factor in shown]
    slot = 72 * (high if axis == "y" else wide) / len(shown)
    places, texts = (range(len(shown)), numbers) if slot >= style.SMALL else ([], [])
    if axis == "y":
        heat.set_yticks(places, texts)
        heat.set_ylabel("factor", labelpad=2, **style.NOTE)
    else:
        upright = slot < max(width(text, style.SMALL) for text in numbers) + 1.5
        heat.set_xticks(places, texts, rotation=90 if upright else 0)
        heat.set_xlabel("factor", labelpad=2, **style.NOTE)
    heat.tick_params(axis="both", length=0)


def _mass_axis(bars: Axes, shown: list[Factor], axis: Literal["x", "y"]) -> None:
    highest = max(factor.mass for factor in shown) or 1.0
    bars.set(**{f"{axis}lim": (0.0, highest * 1.02), f"{axis}ticks": [style.round_below(highest)]})
    bars.spines["left"].set_visible(False)
    style.percent(bars, axis)


def _explain(sheet: style.Sheet, left: float, mode: ShownMode, shown: str, source: str) -> None:
    name = shorten(mode.name, _TITLE, style.LARGE, bold=True)
    sheet.text(left, 0.05, name, fontsize=style.LARGE, weight="bold")
    end = left + width(name, style.LARGE, bold=True) / 72 + 0.1
    sheet.text(end, 0.075, shorten(shown, (sheet.width - end) * 72, style.NORMAL), color=style.GREY)
    sheet.text(left + 1.3, sheet.height - 0.31, f"share of the label in the factor  ·  {source}", **style.NOTE)

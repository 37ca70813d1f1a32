"""How well models predict held-out cells, against their budgets or the time of their fits."""

from typing import Any, Literal, NamedTuple, overload

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from allocore._quartiles import quartiles
from allocore.errors import InputError
from allocore.figures import style
from allocore.figures.notebook_figure import Figure, figure_or_axes
from allocore.figures.text import clean, shorten, width

_Floats = NDArray[np.float64]
_LINES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))
# Numbers that differ by more than this ratio get a logarithmic axis.
_WIDE = 4.0


@overload
def ppd(
    table: pd.DataFrame, ax: None = None, *, against: Literal["budget", "seconds"] = "budget", positive: bool = False
) -> Figure: ...
@overload
def ppd(
    table: pd.DataFrame, ax: Axes, *, against: Literal["budget", "seconds"] = "budget", positive: bool = False
) -> Axes: ...
def ppd(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    against: Literal["budget", "seconds"] = "budget",
    positive: bool = False,
) -> Figure | Axes:
    """Draw the log predictive density of held-out cells: medians over the splits, with bars from quartile to quartile.

    A log predictive density of minus infinity counts like any other value. If it is the lower quartile, the bar ends at
    the lower edge. If it is the median, the point cannot be drawn. The note above the axes names both cases.

    Parameters
    ----------
    table : pandas.DataFrame
        One row for each fit, with the columns `model`, `budget`, `split` and `log_ppd`. `positive` needs
        `log_ppd_positive`, and `against="seconds"` needs `seconds`. An optional column `core`, with text such as
        "50x50x20x300", separates the fits of a model into several lines.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.
    against : {"budget", "seconds"}, default: "budget"
        The horizontal axis. With "seconds", the ends of the lines are labelled with their budgets.
    positive : bool, default: False
        Show `log_ppd_positive`, which is about the held-out cells with counts.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given.

    Examples
    --------
    >>> import allocore as ac
    >>> import pandas as pd
    >>> table = pd.DataFrame({"model": "CP", "budget": [5, 5, 5], "split": [0, 1, 2], "log_ppd": [-3.0, -2.0, -2.5]})
    >>> plot = ac.figures.ppd(table).panels[0]
    >>> plot.lines[0].get_xydata().tolist()
    [[5.0, -2.5]]
    """
    if against not in ("budget", "seconds"):
        raise InputError(f'against is {against!r}, but it must be "budget" or "seconds"')
    value = "log_ppd_positive" if positive else "log_ppd"
    numbers = _check(table, value, against)
    everything = _series(numbers, value, against)
    found = _drawable(everything, value)
    with style.look():
        new, names = ax is None, [_name(series) for series in found]
        key = max(width(name, style.SMALL) for name in names) / 72 + 0.5 if len(found) > 1 else 0.12
        notes = _notes(everything, numbers["split"].nunique())
        more = 0.12 * (len(notes) - 1)
        plot = style.dress(ax or style.new_axes(3.75 + key, 2.6 + more, (0.7, key, 0.42, 0.3 + more)))
        _draw_all(plot, found)
        _across(plot, found, against)
        which = "positive held-out cells" if positive else "held-out cells"
        plot.set_ylabel(f"log PPD of {which}", fontsize=style.NORMAL, labelpad=3)
        room = (style.inches(plot)[0] + (key if new else 0.0)) * 72
        note = "\n".join(shorten(line, room, style.SMALL) for line in notes)
        plot.set_title(note, loc="left", fontsize=style.SMALL, color=style.GREY, pad=5)
        if len(found) > 1:
            # A new figure has room beside the axes. In given axes the key goes where it hides least.
            beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if new else {"loc": "best"}
            plot.legend(fontsize=style.SMALL, frameon=False, handlelength=2.2, **beside)
        return figure_or_axes(plot, ax)


class _Series(NamedTuple):
    """The fits of one model: budgets, and the quartiles (3, n) along both axes.

    `colour` is the number of the model, `line` that of the core within the model, `marker` that of the series.
    """

    model: str
    core: str
    colour: int
    line: int
    marker: int
    budgets: list[int]
    across: _Floats
    up: _Floats


def _check(table: pd.DataFrame, value: str, against: str) -> pd.DataFrame:
    """The rows that have numbers in all columns that are needed. Minus infinity is a number in the column `value`."""
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"table is a {type(table).__name__}, but it must be a pandas DataFrame")
    needed = list(dict.fromkeys(["model", "budget", "split", value, against]))
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(f"table lacks the column {', '.join(missing)}; it must have {', '.join(needed)}")
    numbers = table.copy()
    for name in {value, against, "budget"}:
        try:
            numbers[name] = pd.to_numeric(table[name]).astype(float)
        except (TypeError, ValueError):
            raise InputError(f"table has something in the column {name} that is not a number") from None
    finite = np.isfinite(numbers[[against, "budget"]].to_numpy()).all(axis=1)
    known = pd.DataFrame(numbers[finite & (numbers[value] < np.inf)])
    if known.empty:
        raise InputError(f"table has {len(table)} rows, none of them with numbers in {value} and {against}")
    return known


def _series(numbers: pd.DataFrame, value: str, against: str) -> list[_Series]:
    """One series for each model and core, in the order of the table."""
    if "core" not in numbers:
        numbers = numbers.assign(core="")
    numbers = numbers.assign(core=numbers["core"].fillna("").astype(str), model=numbers["model"].astype(str))
    found: list[_Series] = []
    for (model, core), rows in numbers.groupby(["model", "core"], sort=False):
        budgets = sorted(set(rows["budget"].tolist()))
        groups = [rows[rows["budget"] == budget] for budget in budgets]
        across, up = (np.array([quartiles(group[name]) for group in groups]).T for name in (against, value))
        line = sum(series.model == model for series in found)
        models = list(dict.fromkeys([*(series.model for series in found), str(model)]))
        place = models.index(str(model)), line, len(found)
        found.append(_Series(str(model), str(core), *place, [int(budget) for budget in budgets], across, up))
    return found


def _drawable(everything: list[_Series], value: str) -> list[_Series]:
    """The series without points whose median is minus infinity, and without series that have no other points."""
    found = []
    for series in everything:
        there = np.isfinite(series.up[1])
        if there.any():
            budgets = [budget for budget, is_there in zip(series.budgets, there, strict=True) if is_there]
            found.append(series._replace(budgets=budgets, across=series.across[:, there], up=series.up[:, there]))
    if not found:
        raise InputError(
            f"table has a median of minus infinity in {value} for every model and budget: none can be drawn"
        )
    return found


def _notes(everything: list[_Series], splits: int) -> list[str]:
    """The number of splits, and what the figure cannot show."""
    notes = [f"medians and quartiles of {splits} splits" if splits > 1 else "one split"]
    gone = []
    for series in everything:
        which = [
            f"{budget:,}" for budget, middle in zip(series.budgets, series.up[1], strict=True) if middle == -np.inf
        ]
        if which:
            gone.append(f"{_name(series)} at {', '.join(which)}")
    if gone:
        notes.append(f"left out, median \u2212\u221e: {'; '.join(gone)}")
    if any((np.isfinite(series.up[1]) & np.isneginf(series.up[0])).any() for series in everything):
        notes.append("bars to the lower edge: quartile \u2212\u221e")
    return notes


def _name(series: _Series) -> str:
    return clean(f"{series.model}, {series.core}" if series.core else series.model) or "?"


def _draw_all(ax: Axes, found: list[_Series]) -> None:
    numbers = np.concatenate([series.up.ravel() for series in found])
    low, high = numbers[np.isfinite(numbers)].min(), numbers.max()
    edge = low - 0.1 * ((high - low) or 1.0)
    for series in found:
        _draw(ax, series._replace(up=np.maximum(series.up, edge)))
    if np.isneginf(numbers).any():
        ax.set_ylim(bottom=edge)


def _draw(ax: Axes, series: _Series) -> None:
    spans = [np.array([of[1] - of[0], of[2] - of[1]]) for of in (series.across, series.up)]
    ax.errorbar(
        series.across[1],
        series.up[1],
        xerr=spans[0] if spans[0].any() else None,
        yerr=spans[1],
        color=style.COLOURS[series.colour % len(style.COLOURS)],
        marker=style.MARKERS[series.marker % len(style.MARKERS)],
        markersize=4,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linestyle=_LINES[series.line % len(_LINES)],
        linewidth=1.0,
        elinewidth=0.8,
        label=_name(series),
    )


def _across(ax: Axes, found: list[_Series], against: str) -> None:
    """Scale and label the horizontal axis."""
    values = np.concatenate([series.across[1] for series in found])
    if values.min() > 0 and values.max() > _WIDE * values.min():
        ax.set_xscale("log")
    if against == "budget":
        _name_budgets(ax, sorted(set(values.tolist())))
        ax.set_xlabel("budget (classes)", fontsize=style.NORMAL, labelpad=2)
        return
    plain = FuncFormatter(lambda value, _: f"{value:,g}")
    if ax.get_xscale() == "log":
        # Seconds often lie within one decade. With powers of ten alone, the axis would have one number.
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(plain)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("seconds; numbers are budgets", fontsize=style.NORMAL, labelpad=2)
    _name_ends(ax, found)


def _name_ends(ax: Axes, found: list[_Series]) -> None:
    """Write the budgets at the ends of the lines beside their points, each where it covers no other."""
    # Axes settle their limits when asked for them; points have no places before that.
    ax.get_xlim()
    ax.get_ylim()
    figure = ax.get_figure(root=True)
    points_per_pixel = 72 / (figure.dpi if figure else 100.0)
    taken: list[tuple[float, float, float]] = []  # the left edge, the bottom and the width of a text
    for series in found:
        for end in dict.fromkeys((0, len(series.budgets) - 1)):
            point, text = (float(series.across[1, end]), float(series.up[1, end])), f"{series.budgets[end]:,}"
            x, y = (ax.transData.transform(point) * points_per_pixel).tolist()
            long = width(text, style.SMALL)
            for right, up in ((4.0, -7.0), (4.0, 3.0), (-4.0 - long, -7.0), (-4.0 - long, 3.0)):
                name = (x + right, y + up, long)
                if not any(_touch(name, other) for other in taken):
                    taken.append(name)
                    how: dict[str, Any] = {"textcoords": "offset points", "fontsize": style.SMALL, "color": style.GREY}
                    ax.annotate(text, point, (right, up), **how)
                    break


def _touch(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    """Whether two texts overlap or are less than a point apart."""
    beside = one[0] > other[0] + other[2] + 1 or other[0] > one[0] + one[2] + 1
    return not beside and abs(one[1] - other[1]) < style.SMALL


def _name_budgets(ax: Axes, budgets: list[float]) -> None:
    """Write the budgets from the left, without those that would touch the one before."""
    wide = style.inches(ax)[0] * 72
    # The axis settles its limits when asked for them; points have no places before that.
    ax.get_xlim()
    at = ax.transAxes.inverted().transform(ax.transData.transform([(budget, 0.0) for budget in budgets]))[:, 0] * wide
    named: list[float] = []
    end = -np.inf
    for budget, x in zip(budgets, at.tolist(), strict=True):
        half = width(f"{budget:,g}", style.SMALL) / 2
        if x - half > end + 2:
            named.append(budget)
            end = x + half
    ax.xaxis.set_major_locator(FixedLocator(named))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))

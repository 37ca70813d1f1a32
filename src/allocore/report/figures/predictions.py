"""Figures of predictions: whether predictive intervals are right, the scores of several models, and forecasts.

If predictions are right, the randomised PIT of a count is uniform (posterior/evaluate.py): all bars have the same
height. Bars high at both ends mean intervals that are too narrow, a hump those that are too wide. The band has the
heights that right predictions would give in 95% of the cases, bar by bar: 1/B plus or minus t times the standard error
over the G fibres, se^2 = G / (G - 1) sum_f (sum over the cells of fibre f of 1{u in bar} - 1/B)^2 / n^2, with the
quantile t of Student's distribution. It allows for cells of a fibre that are alike; a binomial band would not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack, overload

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from scipy.stats import t as student

from allocore.errors import NO_VALUE, Described, InputError, check_choice, check_flags
from allocore.forecast.forecast import Forecast
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.posterior.evaluate import Evaluation, inside
from allocore.posterior.scores import quartiles
from allocore.report.figures import style
from allocore.report.figures.style import (
    Figure,
    clean,
    date_ticks,
    figure_or_axes,
    fitting_ticks,
    shorten,
    width,
    wrapped,
)
from allocore.report.fit import Fit
from allocore.tensor.labels import label_kind

_MOST_BARS, _LEAST_BARS, _CELLS_PER_BAR = 20, 5, 10
_LEVELS = range(5, 100, 5)
_PROBABILITY = 0.95
_FEW = 10


@overload
def calibration(post: Fit, ax: None = None, *, test: object = None, allow_training: bool = False) -> Figure: ...
@overload
def calibration(post: Fit, ax: Axes, *, test: object = None, allow_training: bool = False) -> Axes: ...
def calibration(
    post: Fit, ax: Axes | None = None, *, test: object = None, allow_training: bool = False
) -> Figure | Axes:
    """Draw the PIT of held-out counts as histograms, and the share of counts within central intervals of all widths.

    The first panel shows all cells, the second busy ones, where the model gives a count a probability of at least one
    half: most cells of a sparse tensor are surely zero and say little about intervals. Right predictions give bars
    within the band, except for one bar in twenty, and points on the diagonal of the third panel.

    Parameters
    ----------
    test : HeldOut, CountTensor, data frame, or anything with `coords` and `counts`, optional
        The cells to judge, as in `Posterior.evaluate`; by default the held-out cells of the run.
    allow_training : bool, default: False
        Whether cells that the model was fitted to may be judged.

    Examples
    --------
    >>> import allocore as ac
    >>> split = ac.hold_out(ac.load_flights(), 0.05, along="month", seed=1)
    >>> post = ac.CP(5, burn_in=20, draws=4, thin=1, chains=1, seed=0).fit(split).posterior_
    >>> panel = ac.figures.calibration(post).panels[0]
    >>> float(sum(bar.get_height() for bar in panel.patches).round(6))
    1.0
    """
    found = post.evaluate(test, allow_training=allow_training, brief=True)
    everywhere = np.ones(len(found.pit_N), dtype=bool)
    groups = (
        ("All cells", "", style.SKY, everywhere),
        ("Busy cells", ": a count is likely", style.ORANGE, found.busy_N),
    )
    with style.look():
        sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, 2.3))
        wide, high = sheet.width / 3, sheet.height - 0.82
        for place, (name, remark, colour, chosen) in enumerate(groups):
            panel = sheet.panel(place * wide + 0.42, 0.4, wide - 0.52, high)
            _histogram(panel, name + remark, colour, found, chosen)
            if place == 0:
                panel.set_ylabel("share of the cells", fontsize=style.NORMAL, labelpad=3)
        panel = sheet.panel(2 * wide + 0.42, 0.4, wide - 0.52, high)
        _coverage(
            panel, [(name, colour, found.pit_N[chosen]) for name, _, colour, chosen in groups if chosen.sum() >= _FEW]
        )
        caption = (
            f"Calibration of the predictive distributions of {len(found.pit_N):,} cells. Left and middle: "
            "histograms of their PIT, which is uniform if they are right; 95% of the bars should be in the grey band. "
            "Right: the share of counts within central intervals, on the diagonal if the intervals are right."
        )
        return figure_or_axes(sheet.ax, ax, caption)


def _histogram(ax: Axes, name: str, colour: str, found: Evaluation, chosen: Flags) -> None:
    pit_n, fibre_n = found.pit_N[chosen], found.fibre_N[chosen]
    _, place_n = np.unique(fibre_n, return_inverse=True)
    fibres = int(place_n.max(initial=-1)) + 1
    ax.set_title(name, loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel("PIT", fontsize=style.NORMAL, labelpad=2)
    if len(pit_n) < _FEW or fibres < 2:
        style.below_title(ax, f"{len(pit_n):,} cells: too few to judge")
        ax.set_yticks([])
        return
    ax.set_xlabel("PIT; grey: the 95% band")
    bars = int(np.clip(len(pit_n) // _CELLS_PER_BAR, _LEAST_BARS, _MOST_BARS))
    bar_n = np.minimum((pit_n * bars).astype(np.int64), bars - 1)
    share_B = np.bincount(bar_n, minlength=bars) / len(pit_n)
    band_B = band(bar_n, place_n, bars)
    middle_B = (np.arange(bars) + 0.5) / bars
    ax.bar(middle_B, share_B, width=0.92 / bars, color=colour)
    edges = np.repeat(np.arange(bars + 1) / bars, 2)[1:-1]
    low, high = (np.repeat(1.0 / bars + side * band_B, 2) for side in (-1.0, 1.0))
    low = np.maximum(low, 0.0)
    # The band is behind the bars, its edges in front: whole bars stay visible, and where they leave the band.
    ax.fill_between(edges, low, high, color=style.FAINT, alpha=0.5, linewidth=0.0, zorder=0.5, gid="band")
    for edge in (low, high):
        ax.plot(edges, edge, color=style.GREY, linewidth=0.7, gid="edge")
    ax.axhline(1.0 / bars, color=style.INK, linewidth=0.8)
    ax.set_ylim(0.0, max(share_B.max(), (1.0 / bars + band_B).max()) * 1.08)
    style.percent(ax)
    outside = int((np.abs(share_B - 1.0 / bars) > band_B).sum())
    remark = f"{len(pit_n):,} cells; {outside} of {bars} bars outside the band"
    style.below_title(ax, shorten(remark, style.inches(ax)[0] * 72 + 24, style.SMALL))


def band(bar_n: Ints, fibre_n: Ints, bars: int) -> Floats:
    """Half the width of the 95% band of each bar, if all bars had the same probability; fibres are numbered from 0."""
    fibres = int(fibre_n.max()) + 1
    cells_F = np.bincount(fibre_n, minlength=fibres)
    squares_B = np.empty(bars)
    for bar in range(bars):
        inside_F = np.bincount(fibre_n[bar_n == bar], minlength=fibres)
        squares_B[bar] = ((inside_F - cells_F / bars) ** 2).sum()
    errors_B = np.sqrt(fibres / (fibres - 1) * squares_B) / len(bar_n)
    return np.asarray(student.ppf(0.5 + _PROBABILITY / 2, fibres - 1) * errors_B)


def _coverage(ax: Axes, groups: list[tuple[str, str, Floats]]) -> None:
    ax.plot([0.0, 1.0], [0.0, 1.0], color=style.INK, linewidth=0.8, label="right intervals")
    how: dict[str, Any] = {"markersize": 3, "markeredgecolor": "white", "markeredgewidth": 0.3, "linewidth": 1.0}
    for name, colour, pit_n in groups:
        share = [float(inside(pit_n, level).mean()) for level in _LEVELS]
        ax.plot(np.array(_LEVELS) / 100.0, share, "o-", color=colour, label=name.lower(), **how)
    ax.legend(loc="best", handlelength=1.4, borderaxespad=0.2, labelspacing=0.3)
    points = style.inches(ax)[0] * 72 + 8
    ax.set_title("Intervals", loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    style.below_title(ax, shorten("above: too wide; below: too narrow", points, style.SMALL))
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xticks=[0.0, 0.5, 0.9], yticks=[0.0, 0.5, 0.9])
    style.percent(ax)
    style.percent(ax, "x")
    ax.set_xlabel("central interval", fontsize=style.NORMAL, labelpad=2)
    ax.set_ylabel("share of the counts in it", fontsize=style.NORMAL, labelpad=2)


_LINES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))
_POINTS: dict[str, Any] = {
    "markersize": 4, "markeredgecolor": "white", "markeredgewidth": 0.4, "linewidth": 1.0, "elinewidth": 0.8,
}  # fmt: skip
_WIDE = 4.0  # numbers that differ by more than this ratio get a logarithmic axis


class _Axes(TypedDict, total=False):
    against: Literal["budget", "seconds"]
    positive: bool


@overload
def ppd(table: pd.DataFrame, ax: None = None, **how: Unpack[_Axes]) -> Figure: ...
@overload
def ppd(table: pd.DataFrame, ax: Axes, **how: Unpack[_Axes]) -> Axes: ...
def ppd(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    against: Literal["budget", "seconds"] = "budget",
    positive: bool = False,
) -> Figure | Axes:
    """Draw the log predictive density of held-out cells: medians over the splits, with bars from quartile to quartile.

    If minus infinity is the lower quartile, the bar ends at the lower edge. If it is the median, the point is left out.
    The note above the axes names both cases.

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
    >>> import pandas as pd
    >>> import allocore as ac
    >>> table = pd.DataFrame({"model": "CP", "budget": [5, 5, 5], "split": [0, 1, 2], "log_ppd": [-3.0, -2.0, -2.5]})
    >>> plot = ac.figures.ppd(table).panels[0]
    >>> plot.lines[0].get_xydata().tolist()
    [[5.0, -2.5]]
    """
    check_choice("against", against, ("budget", "seconds"))
    check_flags(positive=positive)
    value = "log_ppd_positive" if positive else "log_ppd"
    numbers = _check(table, value, against)
    everything = _series(numbers, value, against)
    found = [series.finite() for series in everything if np.isfinite(series.up[1]).any()]
    if not found:
        raise InputError("table", NO_VALUE, f"must have a model and budget whose median {value} is not minus infinity")
    with style.look():
        new, names = ax is None, [series.name for series in found]
        key = max(width(name, style.SMALL) for name in names) / 72 + 0.5 if len(found) > 1 else 0.12
        notes = _notes(everything, numbers["split"].nunique())
        more = 0.12 * (len(notes) - 1)
        plot = style.dress(style.given_or_new(ax, 3.75 + key, 2.6 + more, (0.7, key, 0.42, 0.3 + more)))
        _draw_series(plot, found)
        _across(plot, found, against)
        which = "positive held-out cells" if positive else "held-out cells"
        plot.set_ylabel(f"log PPD of {which}", fontsize=style.NORMAL, labelpad=3)
        room = (style.inches(plot)[0] + (key if new else 0.0)) * 72
        note = "\n".join(shorten(line, room, style.SMALL) for line in notes)
        plot.set_title(note, loc="left", **style.NOTE, pad=5)
        if len(found) > 1:
            # A new figure has room next to the axes. In given axes the key goes where it hides least.
            place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if new else {"loc": "best"}
            plot.legend(fontsize=style.SMALL, frameon=False, handlelength=2.2, **place)
        by = "the number of classes" if against == "budget" else "seconds; numbers are budgets"
        caption = f"The log predictive density of {which}, by {by}: {'; '.join(notes)}."
        return figure_or_axes(plot, ax, caption)


class _Series(NamedTuple):
    """The fits of one model: the numbers of model, core and series, budgets, and quartiles (3, n) along both axes."""

    model: str
    core: str
    colour: int
    line: int
    marker: int
    budgets: list[int]
    across: Floats
    up: Floats

    @property
    def name(self) -> str:
        return clean(f"{self.model}, {self.core}" if self.core else self.model) or "?"

    def finite(self) -> "_Series":
        """The series without points whose median is minus infinity."""
        points = np.flatnonzero(np.isfinite(self.up[1]))
        budgets = [self.budgets[point] for point in points.tolist()]
        return self._replace(budgets=budgets, across=self.across[:, points], up=self.up[:, points])


def _check(table: pd.DataFrame, value: str, against: str) -> pd.DataFrame:
    """The rows that have numbers in all columns that are needed. Minus infinity is a number in the column `value`."""
    if not isinstance(table, pd.DataFrame):
        raise InputError("table", Described(f"a {type(table).__name__}"), "must be a pandas DataFrame")
    needed = list(dict.fromkeys(["model", "budget", "split", value, against]))
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise InputError(
            "table", NO_VALUE, f"must have the columns {', '.join(needed)}: it has no {', '.join(missing)}"
        )
    numbers = table.copy()
    for name in {value, against, "budget"}:
        try:
            numbers[name] = pd.to_numeric(table[name]).astype(float)
        except (TypeError, ValueError):
            raise InputError("table", NO_VALUE, f"must have numbers in the column {name}") from None
    finite = np.isfinite(numbers[[against, "budget"]].to_numpy()).all(axis=1)
    known = pd.DataFrame(numbers[finite & (numbers[value] < np.inf)])
    if known.empty:
        raise InputError("table", NO_VALUE, f"must have a row with numbers in {value} and {against}")
    return known


def _series(numbers: pd.DataFrame, value: str, against: str) -> list[_Series]:
    if "core" not in numbers:
        numbers = numbers.assign(core="")
    numbers = numbers.assign(core=numbers["core"].fillna("").astype(str), model=numbers["model"].astype(str))
    found: list[_Series] = []
    models = list(numbers["model"].unique())
    for (model, core), rows in numbers.groupby(["model", "core"], sort=False):
        groups = {int(budget): group for budget, group in rows.groupby("budget")}  # type: ignore[arg-type]
        across, up = (np.array([quartiles(group[name]) for group in groups.values()]).T for name in (against, value))
        line = sum(series.model == model for series in found)
        place = models.index(model), line, len(found)
        found.append(_Series(str(model), str(core), *place, list(groups), across, up))
    return found


def _notes(everything: list[_Series], splits: int) -> list[str]:
    notes = [f"medians and quartiles of {splits} splits" if splits > 1 else "one split"]
    left_out = []
    for series in everything:
        budgets = [
            f"{budget:,}" for budget, middle in zip(series.budgets, series.up[1], strict=True) if middle == -np.inf
        ]
        if budgets:
            left_out.append(f"{series.name} at {', '.join(budgets)}")
    if left_out:
        notes.append(f"left out, median \u2212\u221e: {'; '.join(left_out)}")
    if any((np.isfinite(series.up[1]) & np.isneginf(series.up[0])).any() for series in everything):
        notes.append("bars to the lower edge: quartile \u2212\u221e")
    return notes


def _draw_series(ax: Axes, found: list[_Series]) -> None:
    numbers = np.concatenate([series.up.ravel() for series in found])
    low, high = numbers[np.isfinite(numbers)].min(), numbers.max()
    edge = low - 0.1 * ((high - low) or 1.0)
    for series in found:
        across, up = series.across, np.maximum(series.up, edge)
        spans = [np.array([of[1] - of[0], of[2] - of[1]]) for of in (across, up)]
        ax.errorbar(
            across[1],
            up[1],
            xerr=spans[0] if spans[0].any() else None,
            yerr=spans[1],
            color=style.COLOURS[series.colour % len(style.COLOURS)],
            marker=style.MARKERS[series.marker % len(style.MARKERS)],
            linestyle=_LINES[series.line % len(_LINES)],
            label=series.name,
            **_POINTS,
        )
    if np.isneginf(numbers).any():
        ax.set_ylim(bottom=edge)


def _across(ax: Axes, found: list[_Series], against: str) -> None:
    values = np.concatenate([series.across[1] for series in found])
    if values.min() > 0 and values.max() > _WIDE * values.min():
        ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    if against == "budget":
        _name_budgets(ax, sorted(set(values.tolist())))
        ax.set_xlabel("budget (classes)", fontsize=style.NORMAL, labelpad=2)
        return
    if ax.get_xscale() == "log":
        # Seconds are often within one decade. With only powers of ten, the axis would have one number.
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("seconds; numbers are budgets", fontsize=style.NORMAL, labelpad=2)
    _name_ends(ax, found)


def _name_ends(ax: Axes, found: list[_Series]) -> None:
    """Write the budgets next to the points at the ends of the lines, each where it covers no other."""
    ax.get_xlim()  # axes find their limits when asked for them; points have no places before that
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
    """Whether two texts overlap or have less than a point between them."""
    clear = one[0] > other[0] + other[2] + 1 or other[0] > one[0] + one[2] + 1
    return not clear and abs(one[1] - other[1]) < style.SMALL


def _name_budgets(ax: Axes, budgets: list[float]) -> None:
    wide = style.inches(ax)[0] * 72
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


Cells: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
_FAN_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_PANEL_WIDTH, _PANEL_HEIGHT = 3.5, 1.15
_LEFT, _TOP, _BELOW = 0.62, 0.32, 0.44
_MOST_TICKS = 6
_MOST_PANELS = 60
_KEY, _TITLE_LINE = 0.2, 0.13
_WIDE_BAND, _NARROW_BAND = 0.16, 0.3
_FAN_SAMPLES = (
    style.Sample("counts", style.GREY, marker="o"),
    style.Sample("median of the forecast", style.BLUE),
    style.Sample("50% interval", style.BLUE, _NARROW_BAND + _WIDE_BAND),
    style.Sample("90% interval", style.BLUE, _WIDE_BAND),
)


@overload
def forecast(forecast: Forecast, cells: Cells = None, ax: None = None) -> Figure: ...
@overload
def forecast(forecast: Forecast, cells: Cells, ax: Axes) -> Axes: ...
@overload
def forecast(forecast: Forecast, cells: Cells = None, *, ax: Axes) -> Axes: ...
def forecast(forecast: Forecast, cells: Cells = None, ax: Axes | None = None) -> Figure | Axes:
    """Draw the counts of the past, and the fan of the forecast: its median, its 50% and its 90% intervals.

    Parameters
    ----------
    forecast : Forecast
        The forecast.
    cells : dict or list of dict, optional
        Sums of cells, by the labels of all modes but time, such as {"source": "Iran", "target": ["Iraq", "Syria"]}: one
        panel for each. By default the total of all cells. Cells that were never observed in the past are left out of
        sums; a sum of only such cells has a fan and no past.
    ax : matplotlib.axes.Axes, optional
        The axes to draw in; by default those of a new figure.

    Returns
    -------
    Figure or matplotlib.axes.Axes
        The new figure, which a notebook shows; or `ax`, if that was given. The panels are `figure.panels`.

    Examples
    --------
    >>> import allocore as ac
    >>> panel = ac.figures.forecast(forecast, {"carrier": "JetBlue Airways"}).panels[0]
    >>> panel.get_title(loc="left")
    'JetBlue Airways'
    """
    if not isinstance(forecast, Forecast):
        raise InputError("forecast", Described(f"an object of type {type(forecast).__name__}"), "must be a forecast")
    given = [{}] if cells is None else [cells] if isinstance(cells, Mapping) else cells
    if not isinstance(given, Sequence) or not all(isinstance(each, Mapping) for each in given):
        raise InputError("cells", cells, "must be a dict from modes to labels, or a list of them")
    asked = [dict(each) for each in given]
    if not 1 <= len(asked) <= _MOST_PANELS:
        raise InputError("cells", Described(f"{len(asked)} sums"), f"must name 1 to {_MOST_PANELS}: each has a panel")
    for cell in asked:
        if forecast.mode in cell:
            rule = f"must not name the mode {forecast.mode!r}: the figure shows all its periods"
            raise InputError("cells", cells, rule)
    compared = forecast.compared
    past_NT = compared.past.by_period(asked, compared.tensor)
    fans_NHL = [
        _quantiles(forecast, cell, missing=bool(np.isnan(past_T[0])))
        for cell, past_T in zip(asked, past_NT, strict=True)
    ]
    coming = forecast.coming
    past_NT[:, ~np.asarray(coming.past.observed_T, dtype=bool)] = np.nan
    incomplete_T = np.asarray(coming.past.observed_T & ~coming.complete.observed_T, dtype=bool)
    with style.look():
        across = min(2, len(asked))
        down = -(-len(asked) // across)
        whole = across * (_PANEL_WIDTH + 0.1) if ax is None else style.inches(ax)[0]
        wide = whole / across
        titles = [wrapped(_sum_words(cell), (wide - _LEFT - 0.12) * 72, style.NORMAL) for cell in asked]
        # A row of panels has room for its longest title.
        rows = [titles[first : first + across] for first in range(0, len(titles), across)]
        above = [_TOP + _TITLE_LINE * (max(map(len, row)) - 1) for row in rows]
        sheet = style.Sheet(style.given_or_new(ax, whole, _KEY + sum(above) + down * (_PANEL_HEIGHT + _BELOW)))
        high = (sheet.height - _KEY - sum(above)) / down
        style.name_samples(sheet, _LEFT, 0.06, _FAN_SAMPLES)
        for n, title in enumerate(titles):
            line, column = divmod(n, across)
            top = _KEY + sum(above[: line + 1]) + line * high
            panel = sheet.panel(wide * column + _LEFT, top, wide - _LEFT - 0.12, high - _BELOW)
            _fan(panel, forecast, past_NT[n], incomplete_T, fans_NHL[n], "\n".join(title))
        return figure_or_axes(sheet.ax, ax, _forecast_caption(forecast, asked))


def _sum_words(cell: Mapping[str, Any]) -> str:
    """The labels of a sum of cells."""
    named = [str(each) if isinstance(each, str | int) else ", ".join(map(str, each)) for each in cell.values()]
    return clean(" / ".join(named)) or "all cells"


def _forecast_caption(forecast: Forecast, asked: Sequence[Mapping[str, Any]]) -> str:
    to = f" to {forecast.periods[-1]}" if len(forecast.periods) > 1 else ""
    return (
        f"Counts by {forecast.mode}, and the forecast of {forecast.periods[0]}{to}: "
        f"{'; '.join(map(_sum_words, asked))}. Points are the counts of the past. The blue line is the median of the "
        "forecast, the bands are its 50% and 90% predictive intervals."
    )


def _quantiles(forecast: Forecast, cell: Mapping[str, Any], *, missing: bool) -> Floats:
    """The quantiles of a sum in every coming period, (H, L)."""
    named = [{**cell, forecast.mode: period} for period in forecast.periods]
    found = forecast.quantiles(named, _FAN_LEVELS, missing=missing)
    return found.iloc[:, -len(_FAN_LEVELS) :].to_numpy(dtype=np.float64)


def _fan(panel: Axes, forecast: Forecast, past_T: Floats, incomplete_T: Flags, fan_HL: Floats, title: str) -> None:
    """Draw the past and the fan, which begins at the last complete period; incomplete periods are hollow points."""
    periods, horizon = len(past_T), len(fan_HL)
    complete = np.flatnonzero(~incomplete_T)
    last = int(complete[-1]) if len(complete) else periods - 1
    x = np.array([last, *range(periods, periods + horizon)])
    low, lower, middle, upper, high = np.vstack([np.full((1, fan_HL.shape[1]), past_T[last]), fan_HL]).T
    if incomplete_T.any():
        rows = np.flatnonzero(incomplete_T)
        hollow: dict[str, Any] = {"markerfacecolor": "none", "markersize": 3, "markeredgewidth": 0.7}
        panel.plot(rows, past_T[rows], "o", color=style.GREY, label="incomplete", **hollow)
        panel.legend(loc="lower left", fontsize=style.SMALL, frameon=False, handletextpad=0.1, borderaxespad=0.1)
        past_T = np.where(incomplete_T, np.nan, past_T)
    panel.plot(np.arange(periods), past_T, color=style.GREY, linewidth=0.9, marker="o", markersize=1.6)
    panel.fill_between(x, low, high, color=style.BLUE, alpha=_WIDE_BAND, linewidth=0)
    panel.fill_between(x, lower, upper, color=style.BLUE, alpha=_NARROW_BAND, linewidth=0)
    panel.plot(x, middle, color=style.BLUE, linewidth=1.2)
    panel.axvline(periods - 0.5, color=style.FAINT, linewidth=0.6, linestyle=(0, (2, 2)))
    panel.set_xlim(-0.5, periods + horizon - 0.5)
    panel.set_ylim(bottom=0.0)
    style.thousands(panel)
    labels = [*map(str, forecast.fitted.record.tensor.labels[forecast.coming.mode]), *forecast.periods]
    room = style.inches(panel)[0] * 72
    is_time = label_kind(labels) == "time"
    style.name_ticks(panel, date_ticks(labels, _MOST_TICKS) if is_time else fitting_ticks(labels, room, style.SMALL))
    named: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY}
    panel.set_xlabel(shorten(forecast.mode, room, style.SMALL), labelpad=2, **named)
    panel.set_ylabel("counts", labelpad=2, **named)
    panel.set_title(title, loc="left", fontsize=style.NORMAL, pad=4)

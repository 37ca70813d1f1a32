"""The classes over time: how many counts each is expected to have in every period, and in the coming ones.

A class has a panel of its own, or the classes are stacked. The expected counts of the past are those of the observed
cells; a period without observed cells is a gap. Those of a forecast are on the same scale (`Forecast.by_class`). If
periods have exposures, both are per unit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from allocore.classes.names import share_words, source_words
from allocore.classes.summary import ClassSummary, ShownDraw, ShownMode
from allocore.errors import NO_VALUE, Described, InputError, check_choice
from allocore.forecast.forecast import Forecast
from allocore.kernels.elementary import Flags, Floats
from allocore.report.figures import style
from allocore.report.figures.style import Figure, date_ticks, figure_or_axes, fitting_ticks, width, wrapped
from allocore.report.fit import Fit, shown_summary
from allocore.tensor.labels import label_kind

if TYPE_CHECKING:
    import pandas as pd

MOST_PANELS = 12
_STACKED = 8
_ACROSS = 3
_PANEL, _LEFT, _BELOW, _LINE, _KEY, _MARGIN = 0.85, 0.5, 0.3, 0.13, 0.22, 0.04
_BAND, _COMING = 0.22, style.VERMILLION
_REST = "other classes"
_STACK_COLOURS = (*style.COLOURS[:6], "#F0E442", "#8C6BB1")
_TICK = 30.0  # points between ticks of time


class _How(TypedDict, total=False):
    kind: Literal["panels", "stacked"]
    forecast: Forecast | None
    mode: str | int | None
    draw: ShownDraw
    chain: int | None


@overload
def over_time(post: Fit, numbers: Sequence[int] | None = None, ax: None = None, **how: Unpack[_How]) -> Figure: ...
@overload
def over_time(post: Fit, numbers: Sequence[int] | None, ax: Axes, **how: Unpack[_How]) -> Axes: ...
@overload
def over_time(post: Fit, numbers: Sequence[int] | None = None, *, ax: Axes, **how: Unpack[_How]) -> Axes: ...
def over_time(
    post: Fit,
    numbers: Sequence[int] | None = None,
    ax: Axes | None = None,
    *,
    kind: Literal["panels", "stacked"] = "panels",
    forecast: Forecast | None = None,
    mode: str | int | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw the expected counts of the classes over time, and those of the coming periods if there is a forecast.

    Each panel has its own scale, and a band for the 90% interval. Stacked classes show their sizes, with the sum of all
    other classes below them. The figure has one panel per class, or a single one if they are stacked.

    Parameters
    ----------
    numbers : sequence of int, optional
        The numbers of the classes, in this order; by default the 12 largest, or the 8 largest if they are stacked.
    kind : {"panels", "stacked"}, default: "panels"
        A panel for each class, or all in one.
    forecast : Forecast, optional
        A forecast of the same posterior, which continues the past.
    mode : str or int, optional
        The mode of time; by default that of the forecast, or the one whose labels are periods.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights().with_labels({"month": [f"2013-{month:02d}" for month in range(1, 13)]})
    >>> post = ac.CP(3, burn_in=5, draws=4, thin=1, chains=1, seed=1, progress=False).fit(Y).posterior_
    >>> figure = ac.figures.over_time(post, forecast=post.forecast(horizon=2))
    >>> len(figure.panels)
    3
    """
    check_choice("kind", kind, ("panels", "stacked"))
    summary = shown_summary(post, draw, chain)
    if forecast is not None and not isinstance(forecast, Forecast):
        raise InputError("forecast", Described(f"an object of type {type(forecast).__name__}"), "must be a forecast")
    if forecast is not None and (summary.draw is not None) != (forecast.fitted.class_summary().draw is not None):
        raise InputError("forecast", NO_VALUE, "must be left out for a single draw: it is of all draws")
    place = _mode(summary, mode, forecast)
    most = MOST_PANELS if kind == "panels" else _STACKED
    if numbers is None:
        chosen = summary.apart_last[:most].tolist()
    else:
        chosen = summary.places(numbers)
        if not 1 <= len(chosen) <= (60 if kind == "panels" else most):
            raise InputError("numbers", numbers, f"must name 1 to {60 if kind == 'panels' else most} classes")
    shown = _Course.of(summary, place, forecast, post.record.spec.exposure(place))
    with style.look():
        draw_kind = _panels if kind == "panels" else _stacked
        sheet = draw_kind(summary, chosen, shown, ax)
        return figure_or_axes(sheet.ax, ax, _caption(summary, chosen, shown, kind))


def time_mode(modes: Sequence[ShownMode]) -> int | None:
    """Return the place of the mode whose labels are periods of time; None if there are none, or several."""
    found = [place for place, mode in enumerate(modes) if mode.kind == "time"]
    return found[0] if len(found) == 1 else None


def _mode(summary: ClassSummary, mode: str | int | None, forecast: Forecast | None) -> int:
    if forecast is not None:
        if mode is not None and summary.tensor.mode(mode) != forecast.coming.mode:
            raise InputError("mode", mode, f"must be that of the forecast, {forecast.mode!r}")
        return forecast.coming.mode
    if mode is not None:
        return summary.tensor.mode(mode)
    found = time_mode(summary.modes)
    if found is None:
        names = ", ".join(summary.mode_names)
        rule = f"must name the mode of time, one of {names}: no labels are periods, or those of several modes are"
        raise InputError("mode", NO_VALUE, rule)
    return found


class _Course(NamedTuple):
    """Expected counts of all classes by period: past and coming, (C, T) and (C, H), with intervals if known."""

    mode: str
    unit: str
    labels: list[str]
    incomplete_T: Flags
    mean_CT: Floats
    low_CT: Floats | None
    high_CT: Floats | None
    coming_CH: Floats
    low_CH: Floats
    high_CH: Floats

    @classmethod
    def of(cls, summary: ClassSummary, place: int, forecast: Forecast | None, weights_T: Floats | None) -> "_Course":
        labels = [str(label) for label in summary.modes[place].labels]
        incomplete_T = np.isin(labels, list(summary.tensor.incomplete))
        coming = np.empty((3, len(summary.value_C), 0))
        if forecast is not None:
            table = forecast.by_class()
            coming = np.array([_wide(table, place, summary, forecast) for place in (-3, -2, -1)])
            labels += forecast.periods
        unit = "" if weights_T is None else " per unit"
        return cls(summary.mode_names[place], unit, labels, incomplete_T, *summary.counts(place, weights_T), *coming)

    @property
    def periods(self) -> int:
        return int(self.mean_CT.shape[1])

    def ticks(self, points: float) -> style.Ticks:
        if label_kind(self.labels) == "time":
            return date_ticks(self.labels, max(2, int(points / _TICK)))
        return fitting_ticks(self.labels, points, style.SMALL)


def _wide(table: "pd.DataFrame", place: int, summary: ClassSummary, forecast: Forecast) -> Floats:
    """A column of `Forecast.by_class` as an array (C, H), in the order of the summary."""
    values = dict(zip(zip(table.iloc[:, 0], table[forecast.mode], strict=True), table.iloc[:, place], strict=True))
    return np.array([[values[number, period] for period in forecast.periods] for number in summary.number_C.tolist()])


def _panels(summary: ClassSummary, chosen: list[int], shown: _Course, ax: Axes | None) -> style.Sheet:
    across = min(_ACROSS, len(chosen))
    down = -(-len(chosen) // across)
    first, samples = _key(summary, shown)
    needed = max(style.WIDTH * across / _ACROSS, first + sum(map(style.sample_width, samples)))
    whole = needed if ax is None else style.inches(ax)[0]
    wide = whole / across
    room = (wide - 0.1) * 72
    titles = [wrapped(f"{summary.number_C[place]}: {summary.names[place]}", room, style.NORMAL) for place in chosen]
    rows = [titles[line * across : (line + 1) * across] for line in range(down)]
    # A row of panels is as high as its longest title needs.
    above = [0.06 + _LINE * (1 + max(map(len, row))) for row in rows]
    tall = _KEY + sum(above) + down * (_PANEL + _BELOW)
    sheet = style.Sheet(style.given_or_new(ax, whole, tall))
    high = max((sheet.height - _KEY - sum(above)) / down - _BELOW, 0.1)
    sheet.text(_MARGIN, _MARGIN, source_words(summary), **style.NOTE)
    style.name_samples(sheet, first, _MARGIN, samples)
    top = _KEY
    for line, row in enumerate(rows):
        for column, title in enumerate(row):
            place, left = chosen[line * across + column], column * wide
            sheet.text(left + _MARGIN, top + _MARGIN, "\n".join(title), gid="class name")
            size = f"{share_words(summary, place)} of all"
            sheet.text(left + _MARGIN, top + _MARGIN + _LINE * len(title), size, **style.NOTE, gid="size")
            panel = sheet.panel(left + _LEFT, top + above[line] + 0.06, wide - _LEFT - 0.1, high - 0.06)
            _draw_course(panel, shown, place)
        top += above[line] + high + _BELOW
    return sheet


def _key(summary: ClassSummary, shown: _Course) -> tuple[float, list[style.Sample]]:
    """Where the samples of the legend begin, after the source of the figure, and the samples."""
    samples = [style.Sample(f"{summary.counted}{shown.unit} by {shown.mode}", style.BLUE)]
    samples += [style.Sample("90% interval", style.BLUE, _BAND)] if shown.low_CT is not None else []
    if shown.coming_CH.size:
        samples += [style.Sample("forecast", _COMING), style.Sample("its 90% interval", _COMING, _BAND)]
    return _MARGIN + width(source_words(summary), style.SMALL) / 72 + 0.2, samples


def _draw_course(ax: Axes, shown: _Course, place: int) -> None:
    x, periods = np.arange(len(shown.labels)), shown.periods
    past, complete = shown.mean_CT[place], np.where(shown.incomplete_T, np.nan, shown.mean_CT[place])
    if shown.low_CT is not None and shown.high_CT is not None:
        low, high = shown.low_CT[place], shown.high_CT[place]
        ax.fill_between(x[:periods], low, high, color=style.BLUE, alpha=_BAND, linewidth=0.0, gid="band")
    few: dict[str, Any] = {"marker": "o", "markersize": 1.8} if periods <= 40 else {}
    ax.plot(x[:periods], complete, color=style.BLUE, linewidth=1.0, gid="past", **few)
    if shown.incomplete_T.any():
        hollow: dict[str, Any] = {"markerfacecolor": "none", "markersize": 3, "markeredgewidth": 0.7}
        rows = np.flatnonzero(shown.incomplete_T)
        ax.plot(rows, past[rows], "o", color=style.BLUE, gid="incomplete", **hollow)
    if shown.coming_CH.size:
        # From the last complete period on, so that the two are joined.
        last = max(np.flatnonzero(np.isfinite(complete)), default=periods - 1)
        after = np.append(last, x[periods:])
        middle, low, high = (
            np.append(past[last], values_CH[place]) for values_CH in (shown.coming_CH, shown.low_CH, shown.high_CH)
        )
        ax.fill_between(after, low, high, color=_COMING, alpha=_BAND, linewidth=0.0, gid="coming band")
        ax.plot(after, middle, color=_COMING, linewidth=1.0, gid="coming")
        ax.axvline(periods - 0.5, color=style.FAINT, linewidth=0.6, linestyle=(0, (2, 2)))
    ax.set_ylim(bottom=0.0)
    _dress(ax, shown, 3)


def _dress(ax: Axes, shown: _Course, ticks: int) -> None:
    ax.set_xlim(-0.5, len(shown.labels) - 0.5)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]))
    style.thousands(ax)
    style.name_ticks(ax, shown.ticks(style.inches(ax)[0] * 72))


def _stacked(summary: ClassSummary, chosen: list[int], shown: _Course, ax: Axes | None) -> style.Sheet:
    """All classes on top of one another, the first at the top, with their names to the right."""
    sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, 3.4))
    names = 2.5
    room = (names - 0.25) * 72
    panel = sheet.panel(_LEFT + 0.1, _KEY + 0.1, sheet.width - _LEFT - names - 0.2, sheet.height - _KEY - 0.5)
    values_CT = np.concatenate([shown.mean_CT, shown.coming_CH], axis=1)
    others = [place for place in range(len(values_CT)) if place not in chosen]
    layers: list[tuple[str, str, Floats]] = [
        (
            f"{summary.number_C[place]}: {summary.names[place]}",
            _STACK_COLOURS[turn % len(_STACK_COLOURS)],
            values_CT[place],
        )
        for turn, place in enumerate(chosen)
    ]
    if others:
        layers.append((f"{len(others)} {_REST}", style.FAINT, values_CT[others].sum(axis=0)))
    x, below = np.arange(len(shown.labels)), np.zeros(len(shown.labels))
    for name, colour, values in reversed(layers):
        above = below + values
        for part, alpha in ((slice(0, shown.periods), 0.85), (slice(shown.periods - 1, None), 0.45)):
            if len(x[part]) > 1:
                how: dict[str, Any] = {"color": colour, "alpha": alpha, "edgecolor": "white", "linewidth": 0.4}
                panel.fill_between(x[part], below[part], above[part], gid=name, **how)
        below = above
    if shown.coming_CH.size:
        panel.axvline(shown.periods - 1, color=style.INK, linewidth=0.6, linestyle=(0, (2, 2)))
    panel.set_ylim(0.0, float(np.nanmax(below)) * 1.04)
    _dress(panel, shown, 5)
    panel.set_ylabel(f"{summary.counted}{shown.unit} by {shown.mode}", **style.NOTE, labelpad=3)
    note = "; paler after the dashed line: forecast" if shown.coming_CH.size else ""
    sheet.text(_MARGIN, _MARGIN, f"{source_words(summary)}{note}", **style.NOTE)
    top, left = _KEY + 0.1, sheet.width - names + 0.05
    for name, colour, _ in layers:
        lines = wrapped(name, room, style.SMALL)
        sheet.text(left, top, "\N{BLACK SQUARE}", color=colour, alpha=0.85)
        sheet.text(left + 0.15, top, "\n".join(lines), fontsize=style.SMALL, gid="class name")
        top += 0.115 * len(lines) + 0.05
    return sheet


def _caption(summary: ClassSummary, chosen: list[int], shown: _Course, kind: str) -> str:
    """What the figure shows, for print."""
    numbers = ", ".join(str(summary.number_C[place]) for place in chosen)
    how = "stacked; the grey area has all other classes" if kind == "stacked" else "each with a scale of its own"
    bands = "" if kind == "stacked" or shown.low_CT is None else " Bands are 90% intervals over the draws."
    coming = f" After the dashed line: the forecast of {shown.labels[shown.periods]}" if shown.coming_CH.size else ""
    if coming:
        coming += f" to {shown.labels[-1]}." if shown.coming_CH.shape[1] > 1 else "."
    if kind != "stacked" and shown.incomplete_T.any():
        bands += " Hollow points are incomplete periods."
    return (
        f"The {summary.counted}{shown.unit} of classes {numbers} by {shown.mode}, {how}: {summary.source}, "
        f"in the observed cells.{bands}{coming}"
    )

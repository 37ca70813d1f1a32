"""The past of some sums of cells, and the fan of their forecasts."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from matplotlib.axes import Axes

from allocore.errors import Described, InputError
from allocore.forecast.forecast import Forecast
from allocore.forecast.scores import Compared
from allocore.kernels.elementary import Floats
from allocore.report.figures import style
from allocore.report.figures.style import Figure, clean, date_ticks, figure_or_axes, fitting_ticks, shorten
from allocore.tensor.labels import label_kind

Cells: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
_FAN_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_PANEL_WIDTH, _PANEL_HEIGHT = 3.5, 1.15
_LEFT, _TOP, _BELOW = 0.62, 0.32, 0.44
_MOST_TICKS = 6
_MOST_PANELS = 60


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
        The new figure, which a notebook shows; or `ax`, if that was given.
        The panels are `figure.panels`.

    Examples
    --------
    >>> import allocore as ac
    >>> panel = ac.figures.forecast(forecast, {"carrier": "JetBlue Airways"}).panels[0]
    >>> panel.get_title(loc="left")
    'JetBlue Airways'
    """
    asked = [dict(cells)] if isinstance(cells, Mapping) else [{}] if cells is None else [dict(each) for each in cells]
    if not 1 <= len(asked) <= _MOST_PANELS:
        raise InputError("cells", Described(f"{len(asked)} sums"), f"must name 1 to {_MOST_PANELS}: each has a panel")
    for cell in asked:
        if forecast.mode in cell:
            rule = f"must not name the mode {forecast.mode!r}: the figure shows all its periods"
            raise InputError("cells", cells, rule)
    compared = forecast.compared
    past_NT = compared.past.by_period(asked, compared.tensor)
    fans_NHL = [
        _quantiles(forecast if np.isnan(past_T[0]) else compared, forecast, cell)
        for cell, past_T in zip(asked, past_NT, strict=True)
    ]
    past_NT[:, ~np.asarray(forecast.coming.past.observed_T, dtype=bool)] = np.nan
    with style.look():
        across = min(2, len(asked))
        down = -(-len(asked) // across)
        step = _TOP + _PANEL_HEIGHT + _BELOW
        sheet = style.Sheet(ax or style.new_axes(across * (_PANEL_WIDTH + 0.1), down * step))
        wide, high = sheet.width / across, sheet.height / down
        for n, cell in enumerate(asked):
            left, top = wide * (n % across) + _LEFT, high * (n // across) + _TOP
            panel = sheet.panel(left, top, wide - _LEFT - 0.12, high - _TOP - _BELOW)
            named = [str(each) if isinstance(each, str | int) else ", ".join(map(str, each)) for each in cell.values()]
            _fan(panel, forecast, past_NT[n], fans_NHL[n], clean(" / ".join(named)) or "all cells")
        return figure_or_axes(sheet.ax, ax)


def _quantiles(future: "Forecast | Compared", forecast: "Forecast", cell: Mapping[str, Any]) -> Floats:
    """The quantiles of a sum in every coming period, (H, L)."""
    named = [{**cell, forecast.mode: period} for period in forecast.periods]
    return future.quantiles(named, _FAN_LEVELS)[[f"{level:g}" for level in _FAN_LEVELS]].to_numpy(dtype=np.float64)


def _fan(panel: Axes, forecast: Forecast, past_T: Floats, fan_HL: Floats, title: str) -> None:
    """One panel: grey past, blue fan, with the last past value as the beginning of the fan."""
    periods, horizon = len(past_T), len(fan_HL)
    x = np.arange(periods - 1, periods + horizon)
    low, lower, middle, upper, high = np.vstack([np.full((1, fan_HL.shape[1]), past_T[-1]), fan_HL]).T
    panel.plot(np.arange(periods), past_T, color=style.GREY, linewidth=0.9, marker="o", markersize=1.6)
    panel.fill_between(x, low, high, color=style.BLUE, alpha=0.16, linewidth=0)
    panel.fill_between(x, lower, upper, color=style.BLUE, alpha=0.3, linewidth=0)
    panel.plot(x, middle, color=style.BLUE, linewidth=1.2)
    panel.axvline(periods - 0.5, color=style.FAINT, linewidth=0.6, linestyle=(0, (2, 2)))
    panel.set_xlim(-0.5, periods + horizon - 0.5)
    panel.set_ylim(bottom=0.0)
    labels = [*map(str, forecast.fitted.record.tensor.labels[forecast.coming.mode]), *forecast.periods]
    room = style.inches(panel)[0] * 72
    is_time = label_kind(labels) == "time"
    style.name_ticks(panel, date_ticks(labels, _MOST_TICKS) if is_time else fitting_ticks(labels, room, style.SMALL))
    named: dict[str, Any] = {"fontsize": style.SMALL, "color": style.GREY}
    panel.set_xlabel(shorten(forecast.mode, room, style.SMALL), labelpad=2, **named)
    panel.set_ylabel("counts", labelpad=2, **named)
    panel.set_title(shorten(title, room, style.NORMAL), loc="left", fontsize=style.NORMAL, pad=4)

"""Where the classes are in the core: rows are classes, columns are factors in a group for each mode."""

from typing import Any, NamedTuple, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from allocore.classes.names import APART, source_words
from allocore.classes.summary import ClassSummary, Factor, ShownDraw
from allocore.errors import whole_number
from allocore.report.figures import style
from allocore.report.figures.style import Figure, clean, figure_or_axes, shorten, width
from allocore.report.fit import Fit, shown_summary

_ROWS = 60  # the most that can be read on a page
_LEFT, _BARS, _RIGHT, _ABOVE, _BELOW = 0.46, 0.75, 0.1, 0.28, 0.78
_COUNTED = -14.0  # points below the panels, where the factors are counted: their numbers are between
_BETWEEN = 0.16
_LEAST = 0.5  # the least width of a mode: enough for the number of its factors
_WIDEST = 9.0


class _Rows(style.Shown, total=False):
    rows: int | None


@overload
def core(post: Fit, ax: None = None, **how: Unpack[_Rows]) -> Figure: ...
@overload
def core(post: Fit, ax: Axes, **how: Unpack[_Rows]) -> Axes: ...
def core(
    post: Fit,
    ax: Axes | None = None,
    *,
    rows: int | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw where the non-zeros of the core are: rows are classes, largest first; columns are the factors of each mode.

    A mark means that the class uses the factor. Factors that several classes share come first, in colour; a thin line
    joins their classes. Factors of one class are grey. Bars show the shares of the classes, thin lines the 90%
    intervals of the consensus, in which classes share a factor if they do in at least half of the draws. Small or
    weakly supported classes come last. The panels are the shares, then one per mode.

    Parameters
    ----------
    rows : int, optional
        How many classes to show; by default all, but at most the 60 largest.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> len(ac.figures.core(post).panels)
    6
    """
    summary = shown_summary(post, draw, chain)
    lines = _lines(summary, _ROWS if rows is None else whole_number("rows", rows))
    columns = [_columns(summary, mode, lines) for mode in range(len(summary.modes))]
    with style.look():
        height = _ABOVE + _BELOW + min(max(0.14 * lines.number, 0.8), 8.4)
        least = [max(_LEAST, width(clean(name), style.NORMAL, bold=True) / 72) for name in summary.mode_names]
        around = _LEFT + _BARS + _BETWEEN * len(least) + _RIGHT
        sheet = style.Sheet(style.given_or_new(ax, min(max(style.WIDTH, around + sum(least)), _WIDEST), height))
        high = sheet.height - _ABOVE - _BELOW
        bars = sheet.panel(_LEFT, _ABOVE, _BARS, high)
        _draw_shares(bars, summary, lines)
        left = _LEFT + _BARS + _BETWEEN
        for mode, slot in enumerate(_widths([len(each) for each in columns], least, sheet.width - around)):
            panel = sheet.panel(left, _ABOVE, slot, high)
            _draw_mode(panel, summary, mode, columns[mode], lines)
            left += slot + _BETWEEN
        _explain(sheet, summary, lines)
        whiskers = ", with a 90% interval" if summary.is_consensus else ""
        caption = (
            f"{len(lines.places)} classes of the {summary.source}, and where they are in the core. Each row is a "
            f"class; the bar is its share of all {summary.counted}{whiskers}. Each column is a factor. A coloured "
            "point is a factor that several classes share, and a line joins the classes that do; a grey square is a "
            "factor of one class."
        )
        return figure_or_axes(sheet.ax, ax, caption)


class _Lines(NamedTuple):
    """The places of the classes, their heights, that of the empty line before small ones, and the number of lines."""

    places: list[int]
    at: list[int]
    gap: int | None
    number: int


def _lines(summary: ClassSummary, rows: int) -> _Lines:
    places = summary.apart_last[:rows].tolist()
    strong = sum(not summary.apart_C[place] for place in places)
    if strong == len(places):
        return _Lines(places, list(range(strong)), None, strong)
    at = [*range(strong), *range(strong + 1, len(places) + 1)]
    return _Lines(places, at, strong, len(places) + 1)


class _Column(NamedTuple):
    """A factor, and the heights of the shown classes that use it."""

    factor: Factor
    shown: tuple[int, ...]

    @property
    def shared(self) -> bool:
        return len(self.factor.classes) > 1


def _columns(summary: ClassSummary, mode: int, lines: _Lines) -> list[_Column]:
    """The factors of the shown classes: shared ones first, by the number of their classes; then the others."""
    height = dict(zip(lines.places, lines.at, strict=True))
    found = [
        _Column(factor, tuple(sorted(height[place] for place in factor.classes if place in height)))
        for factor in summary.factors[mode].values()
    ]
    used = [column for column in found if column.shown]
    return sorted(used, key=lambda column: (not column.shared, -len(column.shown), column.shown[0]))


def _widths(numbers: list[int], least: list[float], room: float) -> list[float]:
    """Every mode gets its least width, if there is room for that; the rest is divided by the numbers of columns."""
    if sum(least) >= room:
        return [max(room, 0.1) * each / sum(least) for each in least]
    rest = room - sum(least)
    return [each + rest * number / sum(numbers) for each, number in zip(least, numbers, strict=True)]


def _draw_shares(ax: Axes, summary: ClassSummary, lines: _Lines) -> None:
    share = summary.share_C[lines.places]
    highest = float(summary.share_C.max())
    ax.barh(lines.at, share, height=0.7, color=style.FAINT)
    if summary.interval_C2 is not None:
        low, high = summary.interval_C2[lines.places].T
        ax.hlines(lines.at, low, high, colors=style.GREY, linewidths=0.7, gid="whiskers")
        highest = max(highest, float(high.max()))
    ax.set_xlim(highest * 1.05 or 1.0, 0.0)
    ax.set_ylim(lines.number - 0.4, -0.6)
    line = style.inches(ax)[1] * 72 / lines.number  # class numbers are left out where they would overlap
    steps = (1, 2, 5, 10, 20, 50, 100, 200, 500)
    step = next((step for step in steps if step * line >= style.SMALL), lines.number)
    ax.set_yticks(lines.at[::step], [str(number) for number in summary.number_C[lines.places][::step]])
    ax.set_xticks([style.round_below(highest)])
    style.percent(ax, "x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_title("class, share", loc="left", fontsize=style.NORMAL, pad=6, x=-0.3)
    if lines.gap is not None:
        # The words are longer than the panel: they begin at the edge of the sheet, and end before the marks.
        ax.set_zorder(6)
        left = -(_LEFT - 0.03) / _BARS
        words = ax.text(left, lines.gap, APART, va="center", **style.NOTE, gid="apart")
        words.set_transform(ax.get_yaxis_transform())


def _draw_mode(ax: Axes, summary: ClassSummary, mode: int, columns: list[_Column], lines: _Lines) -> None:
    colour = style.mode_colours(summary.modes)[mode]
    ax.set_xlim(-0.7, max(len(columns), 1) - 0.3)
    ax.set_ylim(lines.number - 0.4, -0.6)
    # Faint lines lead the eye from a class to its marks.
    ax.hlines(lines.at, -0.7, len(columns) - 0.3, colors=style.PALE, linewidths=0.5, zorder=0, gid="rows")
    # Marks are as large as the grid allows, but no larger than a letter.
    wide, high = style.inches(ax)
    size = float(np.clip(0.85 * 72 * min(wide / max(len(columns), 1), high / lines.number), 2.0, 5.0))
    joined = [(place, column.shown) for place, column in enumerate(columns) if len(column.shown) > 1]
    strokes = [[(place, min(shown)), (place, max(shown))] for place, shown in joined]
    ax.add_collection(LineCollection(strokes, colors=colour, linewidths=0.6, alpha=0.6, gid="joined"))
    for shared, tone in ((False, style.FAINT), (True, colour)):
        chosen = [(place, column.shown) for place, column in enumerate(columns) if column.shared == shared]
        across, down = ([place for place, rows in chosen for _ in rows], [row for _, rows in chosen for row in rows])
        form, gid = ("o", "shared") if shared else ("s", "single")
        ax.plot(across, down, form, color=tone, markersize=size, markeredgewidth=0, gid=gid)
    _dress_mode(ax, summary, mode, columns, colour)


def _dress_mode(ax: Axes, summary: ClassSummary, mode: int, columns: list[_Column], colour: str) -> None:
    points = style.inches(ax)[0] * 72
    name = shorten(summary.mode_names[mode], points + 8, style.NORMAL, bold=True)
    ax.set_title(name, loc="left", color=colour, weight="bold", fontsize=style.NORMAL, pad=6)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    numbers = [str(column.factor.number) for column in columns]
    roomy = points / max(len(columns), 1) > max((width(text, style.SMALL) for text in numbers), default=0.0) + 2
    ax.set_xticks(range(len(columns)) if roomy else [], numbers if roomy else [])
    ax.tick_params(axis="x", length=0)
    shared = sum(column.shared for column in columns)
    text = f"{len(columns)} factor{'s' * (len(columns) != 1)}\n{shared} shared"
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", **style.NOTE}
    ax.annotate(text, (0.0, 0.0), (0.0, _COUNTED), va="top", gid="counted", **at)


def _explain(sheet: style.Sheet, summary: ClassSummary, lines: _Lines) -> None:
    shown, known = len(lines.places), len(summary.number_C)
    share = float(summary.share_C[lines.places].sum())
    which = f"all {known} classes" if shown == known else f"{shown} of {known} classes"
    shown_words = f"{source_words(summary)}: {which}; they have {share:.0%} of all {summary.counted}."
    key = "Colour: a factor that several classes share; a line joins those shown. Grey: a factor of one class."
    sheet.text(_LEFT, sheet.height - 0.05, f"{shown_words}\n{key}", **style.NOTE, va="bottom")

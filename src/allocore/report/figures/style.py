"""One restrained style for all figures: colours, fonts, text that fits, ticks, and sheets laid out in inches.

The colours of Okabe and Ito suit all kinds of colour vision. No letter is smaller than 7 points. Positions of ticks
are numbers of periods, which may have gaps: matplotlib's locators put ticks at dates that are not among the periods.
"""

import math
import unicodedata
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from io import BytesIO
from itertools import pairwise
from threading import RLock
from typing import Any, Literal, NamedTuple, TypedDict

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

from allocore.classes.summary import ShownDraw, ShownMode
from allocore.errors import Described, InputError
from allocore.tensor.calendar import period_start

_PIXELS, _DOTS = 110, 2  # pixels of a screen for an inch of print, and dots for a pixel in each direction


class Shown(TypedDict, total=False):
    """Which classes a figure shows: the arguments `draw` and `chain` of most functions."""

    draw: ShownDraw
    chain: int | None


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure that a notebook shows if it is the last value of a cell; `allocore.figures` makes these.

    pyplot does not know it, so it is never shown twice, and its memory is freed once nothing refers to it. `caption`
    says what it shows, for print.
    """

    caption: str = ""

    @property
    def panels(self) -> list[Axes]:
        """The axes with contents: the panels of a sheet, or the axes of a single plot."""
        found = [panel for ax in self.axes for panel in (ax.child_axes or [ax])]
        return [panel for panel in found if isinstance(panel, Axes)]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        stream = BytesIO()
        with look():
            self.savefig(stream, format="png", dpi=_DOTS * _PIXELS)
        width, height = (round(float(inches) * _PIXELS) for inches in self.get_size_inches())
        shown = {"image/png": b64encode(stream.getvalue()).decode("ascii"), "text/plain": repr(self)}
        return shown, {"image/png": {"width": width, "height": height}}


def figure_or_axes(drawn: Axes, given: Axes | None, caption: str) -> "Figure | Axes":
    """Return the new figure with its caption, or the given axes: a notebook would show their figure twice."""
    if given is not None:
        return given
    figure = drawn.get_figure(root=True)
    assert isinstance(figure, Figure)
    figure.caption = caption
    return figure


BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
INK, GREY, FAINT, PALE = "#222222", "#666666", "#B0B0B0", "#ECECEC"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# As in the paper: red senders, green receivers, purple actions. Blue is reserved for time.
_MODE_COLOURS = (VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)

WIDTH = 7.2
SMALL, NORMAL, LARGE = 7.0, 7.5, 9.0
_SAMPLE = 0.2  # inches of a sample in a legend
NOTE: dict[str, Any] = {"fontsize": SMALL, "color": GREY}

_LOOK: dict[Any, Any] = {
    "axes.axisbelow": True, "axes.edgecolor": GREY, "axes.facecolor": "white", "axes.grid": False,
    "axes.labelcolor": INK, "axes.labelsize": NORMAL, "axes.labelweight": "normal", "axes.linewidth": 0.6,
    "axes.titlecolor": INK, "axes.titlesize": NORMAL, "axes.titleweight": "normal",
    "axes.unicode_minus": True, "axes.formatter.use_mathtext": False,
    "figure.dpi": 150, "figure.facecolor": "white",
    "font.size": NORMAL, "font.style": "normal", "font.weight": "normal",
    "legend.fontsize": SMALL, "legend.frameon": False, "lines.linewidth": 1.0,
    "pdf.fonttype": 42, "savefig.facecolor": "white",
    "svg.fonttype": "path",  # outlines of letters look the same on machines without the font
    "svg.hashsalt": "allocore",  # the same figure gives the same file
    "text.color": INK,
    "text.parse_math": False,  # labels may contain dollar signs; no text here is mathematics
    "text.usetex": False, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
}  # fmt: skip

# matplotlib's settings belong to the process: threads that change and restore them in turn could leave some changed.
_ONE_AT_A_TIME = RLock()


@contextmanager
def look() -> Iterator[None]:
    """Use the style while a figure is made, then restore the settings."""
    with _ONE_AT_A_TIME, matplotlib.rc_context({**_LOOK, "font.family": families()}):
        yield


def mode_colours(modes: tuple[ShownMode, ...]) -> list[str]:
    """Return a colour for each mode, blue for time."""
    others = iter(_MODE_COLOURS * len(modes))
    return [BLUE if mode.kind == "time" else next(others) for mode in modes]


def chain_colour(chain: int) -> str:
    """Return the colour of a chain."""
    return COLOURS[chain % len(COLOURS)]


def shades(colour: str, lightest: float = 0.0) -> LinearSegmentedColormap:
    """Return shades from white, or from a light shade of a colour, through the colour itself to a dark one."""
    whole = np.array(to_rgb(colour))
    ends = 1.0 - lightest * (1.0 - whole), whole, 0.45 * whole
    return LinearSegmentedColormap.from_list("shades", [to_hex(tuple(each)) for each in ends])


def inches(ax: Axes) -> tuple[float, float]:
    """Return the width and height of axes."""
    if not isinstance(ax, Axes):
        raise InputError("ax", Described(f"an object of type {type(ax).__name__}"), "must be axes of matplotlib")
    figure = ax.get_figure(root=True)
    dpi = figure.dpi if figure else 100.0
    box: Bbox = ax.get_window_extent()
    return box.width / dpi, box.height / dpi


def given_or_new(
    ax: Axes | None, width: float, height: float, margins: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
) -> Axes:
    """Return the axes that a user gave, or axes on a new figure, with margins (left, right, bottom, top) in inches."""
    if ax is not None:
        inches(ax)
        return ax
    left, right, bottom, top = margins
    figure = Figure(figsize=(width, height))
    return figure.add_axes((left / width, bottom / height, 1.0 - (left + right) / width, 1.0 - (bottom + top) / height))


def dress(ax: Axes) -> Axes:
    """Give axes the style: two thin spines, small ticks. Matplotlib makes ticks late, so the axes keep their style."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_linewidth(0.6)
        spine.set_color(GREY)
    ticks: dict[str, Any] = {"length": 2, "width": 0.6, "pad": 2, "color": GREY, "labelcolor": INK}
    ax.tick_params(which="both", labelsize=SMALL, labelfontfamily=families()[0], **ticks)
    return ax


def thousands(ax: Axes) -> None:
    """Show the numbers of the vertical axis, which are counts, with commas."""
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}" if value < 1e3 else f"{value:,.0f}"))


def percent(ax: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Show the numbers of an axis, which are fractions, as percentages."""
    chosen = ax.yaxis if axis == "y" else ax.xaxis
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))


def below_title(ax: Axes, words: str) -> None:
    """Write a grey line between a panel and its title, which must have a pad of 13 points."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(words, (0.0, 1.0), (0.0, 4.0), **NOTE, gid="below title", **place)


def round_below(share: float) -> float:
    """Return the largest round number (1, 2 or 5 times a power of ten) that is not above a share."""
    if share <= 0:
        return 0.0
    power = 10.0 ** np.floor(np.log10(share))
    return float(max(step * power for step in (1, 2, 5) if step * power <= share))


def name_ticks(ax: Axes, ticks: Sequence[tuple[int, str]]) -> None:
    """Set ticks with words below an axis, on one baseline whatever their letters.

    If there are only two, at the ends of the axis, long words do not stick out of it.
    """
    ax.set_xticks([place for place, _ in ticks], [text for _, text in ticks], va="baseline")
    if len(ticks) == 2:
        low, high = ax.get_xlim()
        point = (high - low) / (inches(ax)[0] * 72)
        sides: Sequence[Literal["left", "right"]] = ("left", "right")
        for shown, (place, words), side in zip(ax.get_xticklabels(), ticks, sides, strict=True):
            beyond = width(words, SMALL) / 2 - min(place - low, high - place) / point
            if beyond > SMALL:
                shown.set_horizontalalignment(side)
    ax.tick_params(axis="x", pad=SMALL + 2)


class Sheet:
    """Axes as a sheet of paper: without a frame, with panels and text placed in inches from the top left corner."""

    def __init__(self, ax: Axes) -> None:
        ax.set_axis_off()
        self.ax = ax
        self.width, self.height = inches(ax)

    def panel(self, left: float, top: float, width: float, height: float) -> Axes:
        """New axes on the sheet. They are at least a tenth of an inch wide and high, even if there is less room."""
        width, height = max(width, 0.1), max(height, 0.1)
        place = (left / self.width, 1.0 - (top + height) / self.height, width / self.width, height / self.height)
        return dress(self.ax.inset_axes(place))

    def text(self, left: float, top: float, words: str, **how: Any) -> None:
        """Write text with its upper left corner here, unless `how` aligns it otherwise."""
        how = {"ha": "left", "va": "top", "fontsize": NORMAL, **how}
        self.ax.text(left / self.width, 1.0 - top / self.height, words, transform=self.ax.transAxes, **how)


class Sample(NamedTuple):
    """An entry of a legend: a line, or a band if it is pale, and what it means."""

    words: str
    colour: str
    alpha: float = 1.0
    marker: str = ""


def name_samples(sheet: Sheet, left: float, top: float, samples: Sequence[Sample]) -> None:
    """Write a legend on one line: a sample and its meaning, side by side."""
    for sample in samples:
        ends = np.array([left, left + _SAMPLE / 2, left + _SAMPLE]) / sheet.width
        middle = 1.0 - (top + SMALL * 0.55 / 72) / sheet.height
        wide = 1.2 if sample.alpha == 1.0 else SMALL * 0.8
        how: dict[str, Any] = {"color": sample.colour, "alpha": sample.alpha, "linewidth": wide, "markersize": 2.5}
        (line,) = sheet.ax.plot(
            ends, [middle] * 3, transform=sheet.ax.transAxes, marker=sample.marker, markevery=[1], gid="sample",
            solid_capstyle="butt", **how,
        )  # fmt: skip
        line.set_clip_on(False)
        sheet.text(left + _SAMPLE + 0.05, top, sample.words, **NOTE, gid="legend")
        left += sample_width(sample)


def sample_width(sample: Sample) -> float:
    """Return the room that a sample of a legend needs on its line, in inches."""
    return _SAMPLE + 0.05 + width(sample.words, SMALL) / 72 + 0.2


def name_chains(sheet: Sheet, chains: int, right: float, top: float) -> None:
    """Name the colours of the chains on a line that ends at `right`; of very many chains only their number."""
    if chains > len(COLOURS):
        sheet.text(right, top, f"{chains} chains", ha="right", **NOTE)
    for chain in reversed(range(chains if 1 < chains <= len(COLOURS) else 0)):
        sheet.text(right, top, f"chain {chain}", ha="right", fontsize=SMALL, color=chain_colour(chain), weight="bold")
        right -= 0.5


_FONT = "DejaVu Sans"  # comes with matplotlib, and covers Latin, Greek, Cyrillic, Arabic, Hebrew and more
# Fonts for other characters, used if they are installed.
_OTHERS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans Devanagari", "Noto Emoji", "Arial Unicode MS",
    "Hiragino Sans", "Microsoft YaHei", "Malgun Gothic", "Segoe UI Symbol",
)  # fmt: skip
_UNKNOWN = "\u25a1"
_ELLIPSIS = "\u2026"
# A mark without width. Before a name it sets the direction of the line; after a name it ends the direction of the name.
_LEFT_TO_RIGHT = "\u200e"
_VARIATIONS = range(0xFE00, 0xFE10)


@cache
def families() -> list[str]:
    """Return the fonts in order: each is used for the characters that those before it lack."""
    installed = set(get_font_names())
    return [_FONT, *(name for name in _OTHERS if name in installed)]


def clean(text: object) -> str:
    """Return text with squares for characters that no font has, spaces for line breaks, no control characters."""
    shown = "".join(_shown(letter) for letter in str(text))
    while _UNKNOWN * 2 in shown:
        shown = shown.replace(_UNKNOWN * 2, _UNKNOWN)
    return " ".join(shown.split())


def shorten(text: object, room: float, size: float, *, bold: bool = False) -> str:
    """Return text that is at most `room` points wide; if it is too long, an ellipsis replaces its end."""
    whole = clean(text)
    if width(whole, size, bold=bold) <= room or len(whole) == 1:
        return whole
    fewest, most = 1, len(whole)
    while most - fewest > 1:
        half = (fewest + most) // 2
        fewest, most = (half, most) if width(whole[:half] + _ELLIPSIS, size, bold=bold) <= room else (fewest, half)
    return whole[:fewest].rstrip(" ,;:-") + _ELLIPSIS


def wrapped(text: object, room: float, size: float, *, bold: bool = False) -> list[str]:
    """Return text in lines that are at most `room` points wide. Only a word without room of its own is cut."""
    room *= 0.98  # letters are placed on whole pixels, so a long line is a little longer than the sum of its letters
    lines = [""]
    glued = clean(text).replace(" ·", "\n·")  # a dot stays at the end of a line
    for word in (part.replace("\n", " ") for part in glued.split(" ")):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width(longer, size, bold=bold) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return [shorten(line, room, size, bold=bold) for line in lines]


@lru_cache(maxsize=10_000)
def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of clean text, in points."""
    if not text:
        return 0.0
    font = FontProperties(family=families(), size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def joined(name: str, rest: object) -> str:
    """Return a clean name and a remark, from left to right even if the name is written from right to left."""
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in name):
        return f"{_LEFT_TO_RIGHT}{name}{_LEFT_TO_RIGHT} {rest}"
    return f"{name} {rest}"


def numbers_in(numbers: Sequence[str], room: float, size: float) -> str:
    """Name as many other classes as there is room for: "shared with classes 3 (0.92), 5 and 7 more"."""
    noun = "class" if len(numbers) == 1 else "classes"
    for named in range(len(numbers), 0, -1):
        rest = f" and {len(numbers) - named} more" if named < len(numbers) else ""
        text = f"{', '.join(numbers[:named])}{rest}"
        for start in (f"shared with {noun} ", "shared with "):
            if width(start + text, size) <= room:
                return start + text
    # A number that is cut off would be read as that of a class.
    briefs = [f"{start}{len(numbers)} others" for start in ("shared with ", "with ", "")]
    return next((brief for brief in briefs if width(brief, size) <= room), briefs[-1])


@lru_cache(maxsize=10_000)
def _shown(letter: str) -> str:
    kind = unicodedata.category(letter)
    if kind in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    if kind == "Cf" or ord(letter) in _VARIATIONS:
        return ""
    if kind in ("Cs", "Co", "Cn"):  # private characters mean something else in every font
        return _UNKNOWN
    known = any(get_font(findfont(name)).get_char_index(ord(letter)) for name in families())
    return letter if known else _UNKNOWN


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
Ticks = list[tuple[int, str]]


def date_ticks(labels: Sequence[str | int], most: int) -> Ticks:
    """Return at most `most` positions with their names, at the starts of months, quarters, years or decades."""
    begin = [period_start(str(label)) for label in labels]
    months = [12 * start.year + start.month - 1 for start in begin]
    for step in _STEPS:
        # The first position in each stretch of `step` months; the first stretch counts only if its start is there.
        starts = [place for place, two in enumerate(pairwise(months), 1) if two[0] // step != two[1] // step]
        starts = [0, *starts] if months and months[0] % step == 0 else starts
        if len(starts) < 2:
            break
        if len(starts) <= max(most, 2):
            return _name_months(starts, months, step)
    # A stretch without starts of months has ticks at its ends.
    first, last = _day(str(labels[0])), _day(str(labels[-1]))
    if len(str(labels[0])) == 10 and begin[0].year == begin[-1].year:
        last = last.rpartition(" ")[0]
    return [(0, first)] if len(labels) == 1 else [(0, first), (len(labels) - 1, last)]


def _name_months(starts: list[int], months: list[int], step: int) -> Ticks:
    """Name January by its year and other months by themselves; at least one tick has a year."""
    years = [str(months[place] // 12) if step >= 12 or months[place] % 12 == 0 else "" for place in starts]
    names = [year or _MONTHS[months[place] % 12] for year, place in zip(years, starts, strict=True)]
    if not any(years):
        names[0] += f" {months[starts[0]] // 12}"
    return list(zip(starts, names, strict=True))


def _day(label: str) -> str:
    """Return "2 Mar 2026" for a day, "2 Mar 08:00" for an hour, and other labels as they are."""
    if len(label) not in (10, 16):
        return label
    return f"{int(label[8:10])} {_MONTHS[int(label[5:7]) - 1]} {label[:4] if len(label) == 10 else label[11:]}"


def fitting_ticks(labels: Sequence[str | int], room: float, size: float) -> Ticks:
    """Return all labels if they fit side by side in `room` points, else every second, third and so on."""
    slot = room / len(labels)
    # No label is narrower than half its height, so a hundred thousand labels need not be measured.
    step = max(1, int(size / 2 / slot))
    while True:
        places = range(0, len(labels), step)
        texts = [clean(labels[place]) for place in places]
        needed = (max(width(text, size) for text in texts) + size / 2) / slot
        if step >= len(labels) or needed <= step:
            return list(zip(places, texts, strict=True))
        step = math.ceil(needed)

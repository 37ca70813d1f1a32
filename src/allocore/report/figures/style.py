"""One restrained style for all figures, and sheets on which panels are laid out in inches.

The colours are those of Okabe and Ito, which people of any colour vision can tell apart. No letter is smaller than 7
points.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from threading import RLock
from typing import Any, Literal

import matplotlib
import matplotlib.figure
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

from allocore.classes.summary import ShownMode
from allocore.report.figures.text import families

# On a screen an inch of print is this many pixels wide, and every pixel is drawn with two dots in each direction.
_PIXELS, _DOTS = 110, 2


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure that notebooks show by themselves; `allocore.figures` makes these.

    pyplot does not know it. So a notebook shows it if it is the last value of a cell, with or without
    `%matplotlib inline`, and never twice; and its memory is freed once nothing refers to it.
    """

    @property
    def panels(self) -> list[Axes]:
        """The axes with contents: the panels of a sheet, or the axes of a single plot."""
        found = [panel for ax in self.axes for panel in (ax.child_axes or [ax])]
        return [panel for panel in found if isinstance(panel, Axes)]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, str], dict[str, Any]]:
        """Show the figure in Jupyter, VS Code or Colab, even if nothing there knows matplotlib."""
        stream = BytesIO()
        with look():
            self.savefig(stream, format="png", dpi=_DOTS * _PIXELS)
        width, height = (round(float(inches) * _PIXELS) for inches in self.get_size_inches())
        shown = {"image/png": b64encode(stream.getvalue()).decode("ascii"), "text/plain": repr(self)}
        return shown, {"image/png": {"width": width, "height": height}}


def figure_or_axes(drawn: Axes, given: Axes | None) -> "Figure | Axes":
    """What a function returns: the new figure, or the axes that it was given to draw in.

    Given axes belong to the caller's figure, which a notebook would show twice if it were returned.
    """
    if given is not None:
        return given
    figure = drawn.get_figure(root=True)
    assert isinstance(figure, Figure)
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

_LOOK: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GREY,
    "axes.facecolor": "white",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.labelsize": NORMAL,
    "axes.labelweight": "normal",
    "axes.linewidth": 0.6,
    "axes.titlecolor": INK,
    "axes.titlesize": NORMAL,
    "axes.titleweight": "normal",
    "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False,
    "figure.dpi": 150,
    "figure.facecolor": "white",
    "font.size": NORMAL,
    "font.style": "normal",
    "font.weight": "normal",
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "lines.linewidth": 1.0,
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
    # Outlines of letters look the same on machines without the font.
    "svg.fonttype": "path",
    # The same figure gives the same file.
    "svg.hashsalt": "allocore",
    "text.color": INK,
    # Labels may contain dollar signs; no text here is mathematics.
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
}

# The settings of matplotlib belong to the whole process. If two threads changed and restored them in turn, the style of
# one could stay for good. So figures are made one at a time.
_ONE_AT_A_TIME = RLock()


@contextmanager
def look() -> Iterator[None]:
    """Use the style while a figure is made, then restore the settings."""
    with _ONE_AT_A_TIME, matplotlib.rc_context({**_LOOK, "font.family": families()}):
        yield


def mode_colours(modes: tuple[ShownMode, ...]) -> list[str]:
    """A colour for each mode, blue for time."""
    others = iter(_MODE_COLOURS * len(modes))
    return [BLUE if mode.kind == "time" else next(others) for mode in modes]


def chain_colour(chain: int) -> str:
    """The colour of a chain."""
    return COLOURS[chain % len(COLOURS)]


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes."""
    figure = ax.get_figure(root=True)
    dpi = figure.dpi if figure else 100.0
    box: Bbox = ax.get_window_extent()
    return box.width / dpi, box.height / dpi


def new_axes(width: float, height: float, margins: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)) -> Axes:
    """Axes on a new figure, with margins (left, right, bottom, top) in inches. pyplot does not know the figure."""
    left, right, bottom, top = margins
    figure = Figure(figsize=(width, height))
    return figure.add_axes((left / width, bottom / height, 1.0 - (left + right) / width, 1.0 - (bottom + top) / height))


def dress(ax: Axes) -> Axes:
    """Give axes the style: two thin spines, small ticks. Matplotlib makes ticks late, so the axes keep their style."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_linewidth(0.6)
        spine.set_color(GREY)
    ax.tick_params(
        which="both",
        length=2,
        width=0.6,
        pad=2,
        color=GREY,
        labelcolor=INK,
        labelsize=SMALL,
        labelfontfamily=families()[0],
    )
    return ax


def percent(ax: Axes, axis: Literal["x", "y"] = "y") -> None:
    """Show the numbers of an axis, which are fractions, as percentages."""
    chosen = ax.yaxis if axis == "y" else ax.xaxis
    chosen.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))


def below_title(ax: Axes, words: str) -> None:
    """Write a grey line between a panel and its title, which must have a pad of 13 points."""
    place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(words, (0.0, 1.0), (0.0, 4.0), fontsize=SMALL, color=GREY, gid="below title", **place)


def round_below(share: float) -> float:
    """The largest round number (1, 2 or 5 times a power of ten) that is not above a share.

    Examples
    --------
    >>> round_below(0.0794), round_below(1.0), round_below(0.0)
    (0.05, 1.0, 0.0)
    """
    if share <= 0:
        return 0.0
    power = 10.0 ** np.floor(np.log10(share))
    return float(max(step * power for step in (1, 2, 5) if step * power <= share))


def name_ticks(ax: Axes, ticks: Sequence[tuple[int, str]]) -> None:
    """Set ticks with words below an axis, on one baseline whatever their letters."""
    ax.set_xticks([place for place, _ in ticks], [text for _, text in ticks], va="baseline")
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


def name_chains(sheet: Sheet, chains: int, right: float, top: float) -> None:
    """Name the colours of the chains on a line that ends at `right`; of very many chains only their number."""
    if chains > len(COLOURS):
        sheet.text(right, top, f"{chains} chains", ha="right", fontsize=SMALL, color=GREY)
    for chain in reversed(range(chains if 1 < chains <= len(COLOURS) else 0)):
        sheet.text(right, top, f"chain {chain}", ha="right", fontsize=SMALL, color=chain_colour(chain), weight="bold")
        right -= 0.5

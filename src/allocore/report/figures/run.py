"""Figures of a whole run: traces, the effective shape, how much its classes have; and all figures as files."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from allocore._io import path_of, result_file
from allocore._text import plural
from allocore.classes.motifs import CHANCE, motifs_of_actors
from allocore.classes.names import source_words
from allocore.classes.summary import ShownDraw
from allocore.errors import NO_VALUE, InputError, as_list, whole_number
from allocore.posterior.check import network_modes
from allocore.report.figures import style
from allocore.report.figures.classes import classes, classes_on_page
from allocore.report.figures.core_map import core
from allocore.report.figures.heat_map import factors
from allocore.report.figures.motif import motif
from allocore.report.figures.network import adjacency, communities
from allocore.report.figures.over_time import MOST_PANELS, over_time, time_mode
from allocore.report.figures.predictions import calibration
from allocore.report.figures.style import Figure, figure_or_axes, joined, shorten, width
from allocore.report.fit import Fit, shown_summary

_ROW, _LEFT, _ABOVE, _BELOW = 1.05, 0.62, 0.24, 0.42
_START = 0.1  # the share of the sweeps that may leave the panel: the first would flatten all later ones
_NAME = 120.0  # the largest width of the name of a mode, in points


@overload
def traces(post: Fit, ax: None = None) -> Figure: ...
@overload
def traces(post: Fit, ax: Axes) -> Axes: ...
def traces(post: Fit, ax: Axes | None = None) -> Figure | Axes:
    """Draw the log-likelihood, the classes and factors in use, and the share of classes that moved, by sweep.

    Each chain is a line; the burn-in is shaded. The axis of the log-likelihood leaves out the first steep rise. The
    run need not be finished or have draws.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> [panel.get_title(loc="left") for panel in ac.figures.traces(post).panels][:3]
    ['log-likelihood', 'classes in use', 'origin factors in use']
    """
    shown = _traces(post)
    sweeps = shown[0].values.shape[1]
    if not sweeps:
        raise InputError("post", NO_VALUE, "has no sweeps yet: there is nothing to draw")
    with style.look():
        lines = (len(shown) + 2) // 2
        sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, _ROW * lines + 0.3))
        row = (sheet.height - 0.3) / lines
        half = (sheet.width - 0.1) / 2
        for place, trace in enumerate(shown):
            line, side = divmod(place + 1, 2) if place else (0, 0)
            wide = half if place else 2 * half
            panel = sheet.panel(side * half + _LEFT, line * row + _ABOVE, wide - _LEFT, row - _BELOW)
            _draw(panel, trace, post.record.schedule.burn_in, last=place >= len(shown) - 2)
        right = sheet.width - 0.1
        if post.record.schedule.burn_in:
            sheet.text(right, 0.06, "burn-in shaded", ha="right", **style.NOTE)
            right -= 0.95
        chains = post.record.stats["moved"].shape[0]
        style.name_chains(sheet, chains, right, 0.06)
        shaded = " The burn-in is shaded." if post.record.schedule.burn_in else ""
        caption = (
            f"The log-likelihood, the numbers of classes and factors in use, and how many classes moved, by sweep. "
            f"Each of the {plural(chains, 'line')} is a chain.{shaded}"
        )
        return figure_or_axes(sheet.ax, ax, caption)


class _Trace(NamedTuple):
    name: str
    values: NDArray[Any]
    kind: str


def _traces(post: Fit) -> list[_Trace]:
    stats = post.record.stats
    found = [
        _Trace("log-likelihood", stats["log_likelihood"], "long"),
        _Trace("classes in use", stats["classes"], "whole"),
    ]
    found += [
        _Trace(joined(shorten(name, _NAME, style.NORMAL), "factors in use"), stats["factors"][:, :, mode], "whole")
        for mode, name in enumerate(post.record.tensor.mode_names)
    ]
    if post.record.spec.learn_locations:  # those of CP and Tucker are fixed
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


_BINS = 30
_LEVELS = (0.5, 0.95)
_BAND = (0.05, 0.95)
_ROUNDING = 1e-12  # sums of shares that should be equal differ by less
_ACROSS = 5


@overload
def effective_shape(post: Fit, ax: None = None) -> Figure: ...
@overload
def effective_shape(post: Fit, ax: Axes) -> Axes: ...
def effective_shape(post: Fit, ax: Axes | None = None) -> Figure | Axes:
    """Draw histograms, over the draws of all chains, of the classes in use and of the factors in use in every mode.

    A line marks the median (the lower one of two). With a few chains, each bar is divided among them.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=4, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> panel = ac.figures.effective_shape(post).panels[0]
    >>> int(sum(bar.get_height() for bar in panel.patches))
    4
    """
    drawn = post.record.draw_sweeps - 1
    if not len(drawn):
        raise InputError("post", NO_VALUE, "has no draws yet: there is nothing to count")
    named = [("classes", post.record.stats["classes"][:, drawn], post.record.core_values.shape[2])]
    for mode, name in enumerate(post.record.tensor.mode_names):
        named.append((name, post.record.stats["factors"][:, drawn, mode], post.record.spec.core_shape[mode]))
    with style.look():
        down = -(-len(named) // _ACROSS)
        across = -(-len(named) // down)
        sheet = style.Sheet(style.given_or_new(ax, style.WIDTH, 1.72 * down + 0.2))
        wide, high = sheet.width / across, (sheet.height - 0.15) / down
        # Room for numbers up to the number of draws, and for the title of the axis.
        margin = (width(str(post.record.stats["classes"][:, drawn].size), style.SMALL) + 2 * style.SMALL + 8) / 72
        for place, (name, values, most) in enumerate(named):
            line, column = divmod(place, across)
            left = column * wide + margin
            panel = sheet.panel(left, line * high + 0.36, wide - margin - 0.1, high - 0.78)
            title = shorten(name, 72 * wide - 12, style.NORMAL, bold=True)
            _histogram(panel, title, np.asarray(values), most)
            panel.set_xlabel("factors in use" if place else "classes in use", **style.NOTE, labelpad=1)
            if column == 0:
                panel.set_ylabel("draws", **style.NOTE, labelpad=2)
        chains = len(post.record.stats["classes"])
        style.name_chains(sheet, chains, sheet.width - 0.1, sheet.height - 0.16)
        caption = (
            f"How many classes and factors are in use, in the {len(drawn):,} draws of each of "
            f"{plural(chains, 'chain')}. A line marks the median."
        )
        return figure_or_axes(sheet.ax, ax, caption)


def _histogram(ax: Axes, title: str, values: NDArray[np.int64], most: int) -> None:
    low, high = int(values.min()), int(values.max())
    step = -(-(high - low + 1) // _BINS)  # every bar has the same number of whole numbers
    edges = np.arange(low, high + step + 1, step) - 0.5
    below = np.zeros(len(edges) - 1)
    for chain, of_chain in enumerate(values):
        count = np.histogram(of_chain, edges)[0]
        colour = style.chain_colour(chain) if 1 < len(values) <= len(style.COLOURS) else style.SKY
        ax.bar(edges[:-1] + step / 2, count, bottom=below, width=step * 0.92, color=colour)
        below += count
    ax.set_ylim(0.0, below.max() * 1.08)
    middle = int(np.quantile(values, 0.5, method="inverted_cdf"))  # a value that occurs
    ax.axvline(middle, color=style.INK, linewidth=0.8)
    room = max(0.0, 4.0 - (high - low)) / 2  # a single bar would fill the panel
    ax.set_xlim(edges[0] - room - 0.2, edges[-1] + room + 0.2)
    found = [tick for tick in MaxNLocator(nbins=3, integer=True).tick_values(low, high) if low <= tick <= high]
    ax.xaxis.set_major_locator(FixedLocator(found or [low]))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    points = style.inches(ax)[0] * 72 + 12
    ax.set_title(title, loc="left", fontsize=style.NORMAL, weight="bold", pad=13)
    style.below_title(ax, shorten(f"median {middle} of {most}", points, style.SMALL))


@overload
def mass(post: Fit, ax: None = None, **how: Unpack[style.Shown]) -> Figure: ...
@overload
def mass(post: Fit, ax: Axes, **how: Unpack[style.Shown]) -> Axes: ...
def mass(post: Fit, ax: Axes | None = None, *, draw: ShownDraw = None, chain: int | None = None) -> Figure | Axes:
    """Draw the share of all expected counts in the largest classes, against their number; marks 50% and 95%.

    The classes of the consensus do not have all counts: the rest is in classes on which the draws disagree. A band
    shows the 90% interval over the draws.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> line = ac.figures.mass(post, draw="best").panels[0].lines[0]
    >>> float(line.get_ydata()[-1].round(6))
    1.0
    """
    summary = shown_summary(post, draw, chain)
    number = len(summary.share_C)
    with style.look():
        plot = style.dress(style.given_or_new(ax, 3.5, 2.4, (0.5, 0.15, 0.4, 0.24)))
        share = np.concatenate([[0.0], np.cumsum(summary.share_C)])
        if summary.is_consensus:
            share_SDC = post.consensus().shares_by_draw
            low, high = np.quantile(np.cumsum(share_SDC, axis=-1), _BAND, axis=(0, 1))
            low, high = np.append(0.0, low), np.append(0.0, high)
            plot.fill_between(
                range(number + 1),
                low,
                high,
                color=style.BLUE,
                alpha=0.2,
                linewidth=0.0,
                gid="band",
                label="90% interval",
            )
        plot.plot(np.arange(number + 1), share, color=style.BLUE, linewidth=1.2, gid="held")
        if number <= 60:
            plot.plot(np.arange(1, number + 1), share[1:], "o", color=style.BLUE, markersize=2, gid="classes")
        plot.set_xlim(0, number * 1.02)
        plot.set_ylim(0, 1.04)
        for level in _LEVELS:
            if share[-1] >= level - _ROUNDING:
                _mark(plot, level, int((share < level - _ROUNDING).sum()), share)
        plot.set_yticks([0.0, *_LEVELS])
        style.percent(plot)
        plot.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        plot.set_xlabel("largest classes", fontsize=style.NORMAL, labelpad=2)
        plot.set_ylabel(f"share of all {summary.counted}", fontsize=style.NORMAL, labelpad=3)
        together = "the class has" if number == 1 else f"{number} classes have"
        together = f"; {together} {share[-1]:.0%}" if summary.is_consensus else ""
        plot.set_title(source_words(summary) + together, loc="left", **style.NOTE, pad=4)
        banded = ""
        if summary.is_consensus:
            plot.legend(loc="lower right", fontsize=style.SMALL)
            banded = "; the band is the 90% interval over the draws"
        caption = (
            f"The share of all {summary.counted} in the largest classes of the {summary.source}, by their "
            f"number{banded}."
        )
        return figure_or_axes(plot, ax, caption)


def _mark(ax: Axes, level: float, classes: int, share: NDArray[np.float64]) -> None:
    ax.plot([0, classes], [level, level], color=style.GREY, linewidth=0.6, linestyle=(0, (3, 2)), gid="level")
    ax.plot([classes], [share[classes]], "o", color=style.INK, markersize=3.5, gid="reached")
    text = f"{classes} class{'es' * (classes > 1)} {'has' if classes == 1 else 'have'} {level:.0%}"
    (low, high), (wide, tall) = ax.get_xlim(), style.inches(ax)
    point = (high - low) / (wide * 72)
    left = max(min(classes + 5 * point, high - width(text, style.SMALL) * point), low)
    line = style.SMALL * 1.2 / (tall * 72)
    below = min(level, float(np.interp(left, np.arange(len(share)), share))) - line
    ax.text(left, below, text, ha="left", va="center", fontsize=style.SMALL, gid="classes with level")


# The metadata of each format. Without dates the same figure gives the same file.
_FORMATS: dict[str, dict[str, None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_DPI = 200
CAPTIONS = "captions.md"
_LONGEST_NAME = 60
_Figure = tuple[str, Callable[[], Figure]]


def write_all(
    post: Fit,
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = ("png", "pdf", "svg"),
    rows: int = 24,
    on_page: int | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    progress: Callable[[Path], None] | None = None,
) -> list[Path]:
    """Write all figures of a run into a folder. The folder is created if it does not exist; old files are replaced.

    `classes-1`, `classes-2` and so on are pages of the largest classes. The others are named after the functions:
    `over-time` if there is a mode of time, `core`, `communities`, `adjacency` (of the consensus) and `motif` (if one
    recurs more often than by chance) if two modes have the same labels, `factors-<mode>`, `mass`, `effective-shape`,
    `traces`, and `calibration` if the run has held-out cells. A run without draws has only `traces`. `captions.md` has
    a caption for each figure.

    Parameters
    ----------
    folder : str or path
        The folder for the files.
    formats : sequence of str, default: png, pdf and svg
        The formats to write.
    rows : int, default: 24
        How many of the largest classes to draw as stems.
    on_page : int, optional
        How many of these classes to put on a page; by default six, or fewer if their modes need several lines.
    progress : callable, optional
        Called with the path of each file after it was written.

    Returns
    -------
    list of pathlib.Path
        The files in the order of the figures, and the captions at the end.

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=2, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(np.diag([3, 2])).posterior_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = ac.figures.write_all(post, folder, formats=["svg"])
    >>> [file.name for file in files][:3]
    ['classes-1.svg', 'core.svg', 'factors-mode-0.svg']
    """
    rule = f"must have one or more of {', '.join(_FORMATS)}"
    chosen = [formats] if isinstance(formats, str) else as_list("formats", formats, rule)
    if not chosen or not all(isinstance(each, str) and each in _FORMATS for each in chosen):
        raise InputError("formats", formats, rule)
    if progress is not None and not callable(progress):
        raise InputError("progress", progress, "must be a function that is called with each path")
    rows, on_page = whole_number("rows", rows), None if on_page is None else whole_number("on_page", on_page)
    if post.record.core_values.shape[1]:
        shown_summary(post, draw, chain)  # raises an error if the draw does not exist, before anything is written
    elif not post.record.stats["moved"].shape[1]:
        raise InputError("post", NO_VALUE, "has no sweeps yet: there is nothing to draw")
    target = path_of(folder, "folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError("folder", str(target), "must be a folder, and there is a file in its place") from None
    written: list[Path] = []
    captions = []

    def one_more(file: Path) -> None:
        written.append(file)
        if progress:
            progress(file)

    for name, make in _figures(post, rows, on_page, draw, chain):
        figure = make()
        for file in write_figure(figure, target / name, list(dict.fromkeys(chosen))):
            one_more(file)
        captions.append(f"**{name}.** {figure.caption}\n")
    with result_file(target / CAPTIONS) as stream:
        stream.write("\n".join(captions).encode("utf-8"))
    one_more(target / CAPTIONS)
    return written


def _figures(post: Fit, rows: int, on_page: int | None, draw: ShownDraw, chain: int | None) -> Iterator[_Figure]:
    if post.record.core_values.shape[1]:
        summary = shown_summary(post, draw, chain)
        places = summary.apart_last[:rows]
        numbers, on_page = summary.number_C[places].tolist(), on_page or classes_on_page(summary, places.tolist())
        for page, first in enumerate(range(0, len(numbers), on_page), start=1):
            shown = numbers[first : first + on_page]
            yield f"classes-{page}", partial(classes, post, shown, draw=draw, chain=chain)
        if time_mode(summary.modes) is not None:
            yield "over-time", partial(over_time, post, numbers[:MOST_PANELS], draw=draw, chain=chain)
        yield "core", partial(core, post, draw=draw, chain=chain)
        if network_modes(summary.tensor) is not None:
            yield "communities", partial(communities, post, draw=draw, chain=chain)
            if summary.is_consensus:
                yield "adjacency", partial(adjacency, post)
            if any(each.p <= CHANCE for each in motifs_of_actors(summary)):
                yield "motif", partial(motif, post, draw=draw, chain=chain)
        for mode, name in enumerate(file_names(post.record.tensor.mode_names)):
            yield f"factors-{name}", partial(factors, post, mode, draw=draw, chain=chain)
        yield "mass", partial(mass, post, draw=draw, chain=chain)
        yield "effective-shape", partial(effective_shape, post)
        if post.record.held_out is not None:
            yield "calibration", partial(calibration, post)
    yield "traces", partial(traces, post)


def file_names(names: Sequence[str]) -> list[str]:
    """Return modes as parts of file names: letters, digits and dashes, all different even if case is ignored."""
    found: list[str] = []
    taken: set[str] = set()
    for place, name in enumerate(names):
        plain = re.sub(r"[\W_]+", "-", name)[:_LONGEST_NAME].strip("-") or f"mode-{place}"
        if plain.casefold() in taken:
            plain = f"{plain}-{place}"
        taken.add(plain.casefold())
        found.append(plain)
    return found


def save_with_caption(figure: Figure, path: Path) -> Path:
    """Write a figure to a file, and its caption next to it; return the path of the caption."""
    save_figure(figure, path)
    caption = path.with_suffix(".txt")
    with result_file(caption) as stream:
        stream.write(f"{figure.caption}\n".encode())
    return caption


def write_figure(figure: Figure, target: Path, formats: Sequence[str]) -> Iterator[Path]:
    """Write a figure in each format, to `target` with a suffix, and yield each file once it exists."""
    for kind in formats:
        file = target.with_name(f"{target.name}.{kind}")
        save_figure(figure, file)
        yield file


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, completely or not at all, in the format of its suffix."""
    kind = path.suffix.lower().removeprefix(".")
    with style.look(), result_file(path) as stream:
        figure.savefig(stream, format=kind, dpi=_DPI, metadata=_FORMATS[kind] or None)

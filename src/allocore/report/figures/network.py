"""Networks: the adjacency matrix in the order of the communities, and which community acts on which, by what."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.patches import Rectangle

from allocore.classes.memberships import Memberships
from allocore.classes.names import source_words
from allocore.classes.networks import CommunityTies, Modes, community_ties, node_modes, pair_counts
from allocore.classes.summary import ClassSummary, Factor, ShownDraw
from allocore.errors import NO_VALUE, InputError, whole_number
from allocore.kernels.elementary import Floats, Ints
from allocore.report.figures import style
from allocore.report.figures.style import Figure, figure_or_axes, shorten, width
from allocore.report.fit import Fit, shown_summary

_NODES, _COMMUNITIES, _LABELS = 300, 20, 6
_TILE, _SQUARE = 0.22, 0.45  # inches, the widest tile of an adjacency matrix and of the map
_NAME = 1.45  # inches, the longest name of a node or a community
_TOP, _MARGIN, _GAP, _SCALE, _LINE = 0.28, 0.3, 0.14, 0.45, 0.15
_LEAST = 4.5  # inches, the least width of a new figure


class _Nodes(TypedDict, total=False):
    modes: Modes
    most: int


@overload
def adjacency(post: Fit, ax: None = None, **how: Unpack[_Nodes]) -> Figure: ...
@overload
def adjacency(post: Fit, ax: Axes, **how: Unpack[_Nodes]) -> Axes: ...
def adjacency(post: Fit, ax: Axes | None = None, *, modes: Modes = None, most: int = _NODES) -> Figure | Axes:
    """Draw the counts between all pairs of nodes, with the nodes in the order of their main communities.

    Rows act on columns. The largest community comes first, and within it the node with the most counts; nodes without
    a main community come last. Lines are the borders of communities. Shades are logarithmic; pairs that were not
    observed, such as the diagonal, are grey. Counts are summed over the other modes. Communities are those of
    `Posterior.memberships`.

    Parameters
    ----------
    modes : sequence of two str or int, optional
        The two modes of the nodes, by name or number; by default those with the same labels.
    most : int, default: 300
        The largest number of nodes of each mode to show: those with the largest expected counts.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=4, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> figure = ac.figures.adjacency(post, modes=["origin", "carrier"])
    >>> figure.panels[0].get_xlabel()
    'carrier'
    """
    tensor, most = post.record.tensor, whole_number("most", most)
    pair = node_modes(tensor, modes)
    rows, columns = (_Order.of(post.consensus().memberships(mode), most) for mode in pair)
    if not len(rows.found.number):
        raise InputError("post", NO_VALUE, "has no communities: the draws have no class in common")
    counts_VW, cells_VW = (each[np.ix_(rows.nodes, columns.nodes)] for each in pair_counts(tensor, pair))
    with style.look():
        room = style.WIDTH if ax is None else style.inches(ax)[0]
        after, above = (_GAP + _longest([name for name, _, _ in order.blocks]) for order in (rows, columns))
        sides = [_longest(order.node_names) for order in (rows, columns)]
        tile = min(_TILE, (room - _MARGIN - sides[0] - after) / len(columns.nodes))
        if tile * 72 < style.SMALL:  # no room for the names of nodes
            sides, tile = [0.0, 0.0], min(_TILE, (room - _MARGIN - after) / len(columns.nodes))
        left, above, below = _MARGIN + sides[0], _TOP + above, _MARGIN + sides[1] + _SCALE
        wide, high = tile * len(columns.nodes), tile * len(rows.nodes)
        sheet = style.Sheet(style.given_or_new(ax, max(left + wide + after, _LEAST), above + high + below))
        panel = sheet.panel(left, above, wide, min(high, sheet.height - above - below))
        _shade(sheet, panel, left, counts_VW, cells_VW)
        _name(panel, rows, "y", tile * 72, bool(sides[0]))
        _name(panel, columns, "x", tile * 72, bool(sides[0]))
        acting, acted_on = _label_axes(panel, [tensor.mode_names[mode] for mode in pair])
        note = f"{rows.number} {acting} x {columns.number} {acted_on}, by community  ·  {rows.found.source}"
        sheet.text(0.05, 0.05, shorten(note, (sheet.width - 0.1) * 72, style.SMALL), **style.NOTE)
        caption = (
            f"Counts from each {acting} (row) to each {acted_on} (column), summed over all other modes, in the order "
            f"of their main communities in the {rows.found.source}. Lines are the borders of communities, the largest "
            "first. Pairs that were not observed are grey."
        )
        return figure_or_axes(sheet.ax, ax, caption)


class _Order(NamedTuple):
    """The nodes of a mode in the order of their communities, and of each community its name, first node and end."""

    found: Memberships
    nodes: Ints
    blocks: list[tuple[str, int, int]]

    @classmethod
    def of(cls, found: Memberships, most: int) -> "_Order":
        largest = np.argsort(-found.expected, kind="stable")[:most]
        main_D = np.where(found.main >= 0, found.main, len(found.number))
        nodes = largest[np.argsort(main_D[largest], kind="stable")]
        names = [_short(f"{number}: {name}") for number, name in zip(found.number, found.names, strict=True)]
        names.append("no community")
        starts = np.flatnonzero(np.diff(main_D[nodes], prepend=-1)).tolist()
        ends = [*starts[1:], len(nodes)]
        return cls(found, nodes, [(names[main_D[nodes[a]]], a, b) for a, b in zip(starts, ends, strict=True)])

    @property
    def node_names(self) -> list[str]:
        return [_short(self.found.mode.labels[node]) for node in self.nodes.tolist()]

    @property
    def number(self) -> str:
        return f"{'the ' * (len(self.nodes) < len(self.found.share))}{len(self.nodes):,}"


def _short(name: object) -> str:
    return shorten(name, _NAME * 72, style.SMALL)


def _longest(names: Sequence[str]) -> float:
    """The width of the longest name in inches."""
    return max(width(name, style.SMALL) for name in names) / 72


def _label_axes(panel: Axes, names: Sequence[str]) -> tuple[str, ...]:
    """Name the modes of the rows and of the columns, and return their names as they are shown."""
    shown = tuple(shorten(name, 150, style.NORMAL) for name in names)
    panel.set_ylabel(shown[0])
    panel.set_xlabel(shown[1])
    return shown


def _shade(sheet: style.Sheet, panel: Axes, left: float, counts_VW: Floats, cells_VW: Floats) -> None:
    """Draw the counts, and their key."""
    down, across = (np.arange(size + 1) - 0.5 for size in counts_VW.shape)
    shades, highest = style.shades(style.BLUE, lightest=0.3), max(float(counts_VW.max()), 2.0)
    norm, fine = LogNorm(1.0, highest), counts_VW.size > 20_000
    unobserved = np.ma.masked_where(cells_VW > 0.5, cells_VW)
    panel.pcolormesh(across, down, unobserved, cmap=ListedColormap([style.PALE]), rasterized=fine, gid="unobserved")
    counted = np.ma.masked_equal(counts_VW, 0.0)
    panel.pcolormesh(across, down, counted, cmap=shades, norm=norm, rasterized=fine, gid="counts")
    panel.set_xlim(across[0], across[-1])
    panel.set_ylim(down[-1], down[0])
    for spine in panel.spines.values():
        spine.set_visible(True)
        spine.set_color(style.FAINT)
    key, ends = sheet.panel(left, sheet.height - 0.3, 1.1, 0.07), np.geomspace(1.0, highest, 65)
    key.pcolormesh(ends, [0, 1], ends[None, :-1], cmap=shades, norm=norm)
    key.set_xscale("log")
    key.minorticks_off()
    key.set_yticks([])
    powers = int(np.log10(highest))
    marks = [10**power for power in range(0, powers + 1, 1 + powers // 4)] if powers else [1, int(highest)]
    key.set_xticks(marks, [f"{mark:,}" for mark in marks])
    sheet.text(left + 1.25, sheet.height - 0.31, "counts  ·  white: zero  ·  grey: not observed", **style.NOTE)


def _name(panel: Axes, order: _Order, axis: Literal["x", "y"], slot: float, with_nodes: bool) -> None:
    """Draw the borders of communities and their names along one axis, on which each node has `slot` points."""
    upright, transform = axis == "x", panel.get_xaxis_transform() if axis == "x" else panel.get_yaxis_transform()
    ticks = panel.set_xticks if upright else panel.set_yticks
    ticks(range(len(order.nodes)), order.node_names) if with_nodes else ticks([])
    panel.tick_params(axis=axis, length=0, rotation=90 if upright else 0)
    for name, first, end in order.blocks:
        if end < len(order.nodes):
            border = panel.axvline if upright else panel.axhline
            border(end - 0.5, color=style.VERMILLION, linewidth=0.5, gid="border")
        if (end - first) * slot >= style.SMALL:
            at = (first + end - 1) / 2, 1.0
            panel.annotate(
                name, at if upright else at[::-1], (0, 3) if upright else (3, 0), xycoords=transform,
                textcoords="offset points", rotation=90 if upright else 0, ha="center" if upright else "left",
                va="bottom" if upright else "center", fontsize=style.SMALL, gid="community",
            )  # fmt: skip


class _Ties(style.Shown, total=False):
    modes: Modes
    by: str | int | None
    most: int


@overload
def communities(post: Fit, ax: None = None, **how: Unpack[_Ties]) -> Figure: ...
@overload
def communities(post: Fit, ax: Axes, **how: Unpack[_Ties]) -> Axes: ...
def communities(
    post: Fit,
    ax: Axes | None = None,
    *,
    modes: Modes = None,
    by: str | int | None = None,
    most: int = _COMMUNITIES,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> Figure | Axes:
    """Draw which community acts on which, and by what: rows act on columns. Undirected ties are drawn in both orders.

    The area of a square is the share of all expected counts in the classes from the one community to the other. Its
    stripes are the labels of a further mode, such as actions: those with most counts in colour, the others grey. The
    communities of a mode are the factors that the classes have there, the largest first.

    Parameters
    ----------
    modes : sequence of two str or int, optional
        The two modes of the nodes, by name or number; by default those with the same labels.
    by : str or int, optional
        The mode of the stripes; by default the first other mode that is no time, if there is one.
    most : int, default: 20
        The largest number of communities of each mode to show.

    Examples
    --------
    >>> import allocore as ac
    >>> post = ac.AlloCore(budget=5, burn_in=5, draws=2, thin=1, chains=1, seed=0).fit(ac.load_flights()).posterior_
    >>> figure = ac.figures.communities(post, modes=["origin", "destination"], by="carrier")
    >>> figure.panels[0].get_ylabel()
    'origin'
    """
    summary, most = shown_summary(post, draw, chain), whole_number("most", most)
    ties = community_ties(summary, node_modes(summary.tensor, modes), by)
    share_GHA = ties.share_GHA[:most, :most]
    down, across = share_GHA.shape[:2]
    with style.look():
        room = style.WIDTH if ax is None else style.inches(ax)[0]
        names = [[_factor_name(each) for each in factors[:most]] for factors in (ties.senders, ties.receivers)]
        left, above = _MARGIN + _GAP + _longest(names[0]), _TOP + _GAP + _longest(names[1])
        slot = min(_SQUARE, (room - left - _GAP) / across)
        wide = room if ax is not None else max(left + slot * across + _GAP, _LEAST)
        key = _Key.of(summary, ties, (wide - left - _GAP) * 72)
        below = _MARGIN + _LINE * len(key.lines)
        sheet = style.Sheet(style.given_or_new(ax, wide, above + slot * down + below))
        slot = min(slot, (sheet.height - above - below) / down)
        panel = sheet.panel(left, above, slot * across, slot * down)
        _squares(panel, share_GHA, key)
        panel.set_yticks(range(down), names[0])
        panel.set_xticks(range(across), names[1], rotation=90)
        panel.xaxis.tick_top()
        panel.tick_params(length=0)
        acting, acted_on = _label_axes(panel, [summary.mode_names[mode] for mode in ties.modes])
        key.draw(sheet, left, sheet.height - below + _MARGIN - 0.03)
        note = f"{ties.share_by_label(most).sum():.0%} of all {summary.counted}  ·  {source_words(summary)}"
        sheet.text(0.05, 0.05, shorten(note, (sheet.width - 0.1) * 72, style.SMALL), **style.NOTE)
        does = "is tied to" if ties.undirected else "acts on"
        stripes = "" if ties.by is None else f" Its stripes are the shares of {summary.mode_names[ties.by]}."
        caption = (
            f"Which community of {acting} (rows) {does} which of {acted_on} (columns), by the classes of the "
            f"{summary.source}. The area of a square is its share of all {summary.counted}; the largest has "
            f"{share_GHA.sum(axis=2).max():.1%}.{stripes}"
        )
        return figure_or_axes(sheet.ax, ax, caption)


def _factor_name(factor: Factor) -> str:
    """The number of a factor, and its name or its heaviest labels, without their shares."""
    if factor.known:
        return _short(f"{factor.number}: {factor.known}")
    if factor.empty or factor.even:
        return _short(f"{factor.number}: {factor.words(1)}")
    return _short(f"{factor.number}: {factor.mode.join_labels(factor.heaviest[: len(factor.top(3))].tolist())}")


class _Key(NamedTuple):
    """The labels of the stripes, the colours of these and of the others, and lines of words and their colours."""

    labels: Ints
    colours: list[str]
    lines: list[list[tuple[str, str]]]

    @classmethod
    def of(cls, summary: ClassSummary, ties: CommunityTies, room: float) -> "_Key":
        if ties.by is None:
            return cls(np.zeros(1, dtype=np.int64), [style.BLUE, style.FAINT], [])
        labels, mode = ties.heaviest_labels(_LABELS), summary.modes[ties.by]
        colours = [*style.COLOURS[: len(labels)], style.FAINT]
        words = [shorten(mode.label(row), room - 24, style.SMALL) for row in labels.tolist()]
        words += ["other"] * (len(ties.heaviest_labels(_LABELS + 1)) > len(labels))
        lines: list[list[tuple[str, str]]] = [[]]
        for entry in zip(words, colours, strict=False):
            if lines[-1] and sum(map(cls.points, [*lines[-1], entry])) > room:
                lines.append([])
            lines[-1].append(entry)
        return cls(labels, colours, lines)

    @staticmethod
    def points(entry: tuple[str, str]) -> float:
        return width(entry[0], style.SMALL) + 24

    def draw(self, sheet: style.Sheet, left: float, top: float) -> None:
        for line, entries in enumerate(self.lines):
            at = left
            for entry in entries:
                sheet.text(at, top + _LINE * line, "\N{BLACK SQUARE}", color=entry[1])
                sheet.text(at + 0.13, top + _LINE * line, entry[0], **style.NOTE, gid="legend")
                at += self.points(entry) / 72


def _squares(panel: Axes, share_GHA: Floats, key: _Key) -> None:
    """Draw a square for each pair of communities, with a stripe for each label and one for all others."""
    down, across = share_GHA.shape[:2]
    whole_GH = share_GHA.sum(axis=2)
    part_GHL = np.zeros((down, across, len(key.colours)))
    part_GHL[:, :, :-1] = share_GHA[:, :, key.labels]
    part_GHL[:, :, -1] = np.maximum(whole_GH - part_GHL.sum(axis=2), 0.0)
    stripes, colours = [], []
    for g, h in np.argwhere(whole_GH > 0.0).tolist():
        side = 0.94 * np.sqrt(whole_GH[g, h] / whole_GH.max())
        at = h - side / 2
        for share, colour in zip((part_GHL[g, h] / whole_GH[g, h]).tolist(), key.colours, strict=True):
            stripes.append(Rectangle((at, g - side / 2), side * share, side))
            colours.append(colour)
            at += side * share
    panel.add_collection(PatchCollection(stripes, facecolors=colours, linewidths=0, gid="ties"))
    panel.hlines(range(down), -0.5, across - 0.5, colors=style.PALE, linewidths=0.5, zorder=0)
    panel.vlines(range(across), -0.5, down - 0.5, colors=style.PALE, linewidths=0.5, zorder=0)
    panel.set_xlim(-0.5, across - 0.5)
    panel.set_ylim(down - 0.5, -0.5)
    for spine in panel.spines.values():
        spine.set_visible(False)

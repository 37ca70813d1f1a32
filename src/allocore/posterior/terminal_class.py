"""One class on a terminal, in full: its size, support and name, its labels with intervals, and its top cells."""

from collections.abc import Iterator

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocore.errors import whole_number
from allocore.posterior.class_summary import ClassSummary, Profile
from allocore.posterior.class_words import label_words, perhaps_sharers, share_words, sharers, support_words
from allocore.posterior.posterior import Posterior, ShownDraw
from allocore.posterior.terminal_tables import COLOURS

_BAR = 30
_REST = 0.0005


def class_details(
    posterior: Posterior, number: int, top: int = 10, *, draw: ShownDraw = None, chain: int | None = None
) -> RenderableType:
    """Return one class in full, of the consensus if there are several draws; of one draw on request."""
    top = whole_number("top", top)
    summary = posterior.class_summary(draw, chain=chain)
    place = summary.place(number, "class")
    parts: list[RenderableType] = [*_heading(summary, place)]
    for mode in range(len(summary.modes)):
        parts += [Text(), *_mode_details(summary, place, mode, top)]
    cells = posterior.top_cells(number, top, draw=draw, chain=chain)
    return Group(*parts, Text(), *_cells(summary, cells))


def _heading(summary: ClassSummary, place: int) -> Iterator[Text]:
    yield Text(f"Class {summary.number_C[place]}: {summary.names[place]}", style="bold")
    where = (
        "" if summary.is_consensus else f", at ({', '.join(map(str, summary.location_CM[place].tolist()))}) of the core"
    )
    yield Text(f"{summary.source}{where}", style="dim")
    support = support_words(summary, place)
    size = f"{summary.value_C[place]:,.0f} {summary.counted}, {share_words(summary, place)} of all"
    yield Text(f"{size}; {support}." if support else f"{size}.")
    if summary.apart_C[place]:
        yield Text("It is small or weakly supported: another run may not have it.", style="italic")


def _mode_details(summary: ClassSummary, place: int, mode: int, top: int) -> Iterator[RenderableType]:
    profile = summary.profile(place, mode)
    number = f" #{summary.factor(place, mode).number}"
    yield Text.assemble((profile.mode.name, "bold"), (number, "dim"), f"  {_shared(summary, place, mode)}")
    if profile.empty or profile.even:
        yield Text(f"  {profile.words(1)}")
        return
    if profile.mode.kind == "time":
        yield Text(f"  peaks: {profile.peak_words()}")
    yield from _bars(profile, top)


def _shared(summary: ClassSummary, place: int, mode: int) -> str:
    sure, perhaps = sharers(summary, place, mode), perhaps_sharers(summary, place, mode)
    shared = f"shared with class{'es' * (len(sure) > 1)} {', '.join(sure)}" if sure else "used by this class alone"
    return f"{shared}; perhaps shared with {', '.join(perhaps)}" if perhaps else shared


def _bars(profile: Profile, top: int) -> Iterator[RenderableType]:
    """The heaviest labels with their shares, intervals and bars; of the others, how much they hold."""
    labels = profile.top(top)
    grid = Table.grid(padding=(0, 1))
    for column in (None, None, "right"):
        grid.add_column(justify=column or "left")
    for row, (label, share) in zip(profile.heaviest.tolist(), labels, strict=False):
        bar = Text("█" * round(_BAR * share / labels[0][1]), style=COLOURS[1])
        grid.add_row("", Text(label), label_words(profile, row), bar)
    yield grid
    rest = 1.0 - sum(share for _, share in labels)
    if rest > _REST:
        yield Text(f"  and {rest:.1%} spread over {len(profile.share_D) - len(labels):,} others", style="dim")


def _cells(summary: ClassSummary, cells: pd.DataFrame) -> Iterator[RenderableType]:
    """The top cells: what the class and the whole model expect there, and what was observed."""
    if not len(cells):
        return
    summed = [name for name in summary.mode_names if name not in cells]
    over = f", summed over {' and '.join(summed)}" if summed else ""
    yield Text(f"Top cells{over}", style="bold")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in cells.columns[:-3]:
        table.add_column(Text(name), overflow="fold")
    for name in ("of the class", "expected", "observed"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in cells.itertuples(index=False):
        *labels, of_class, expected, observed = row
        table.add_row(*(Text(label) for label in labels), f"{of_class:,.1f}", f"{expected:,.1f}", f"{observed:,}")
    yield table

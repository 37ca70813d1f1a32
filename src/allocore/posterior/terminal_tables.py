"""The class table on a terminal: each class with its share, support, name and heaviest labels in every mode.

Small or weakly supported classes stand below the others. Every factor that several classes share has a colour.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from allocore.errors import whole_number
from allocore.kernels.arrays import Ints
from allocore.posterior.class_summary import ClassSummary
from allocore.posterior.class_words import (
    APART,
    profile_words,
    share_words,
    support_brief,
    support_heading,
    support_words,
    together_words,
    users_together,
)
from allocore.posterior.lagging_chains import behind_sentence, chains_behind
from allocore.posterior.moves import no_move_warning
from allocore.posterior.posterior import Posterior, ShownDraw

# The palette of Okabe and Ito suits all kinds of colour vision; every factor shows its number as well.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_LISTED_CLASSES = 8
# The least width of a mode beside others, and of a column with the modes on lines of their own.
_COLUMN, _DESCRIPTION = 20, 36
_BETWEEN = 2
_LIGHTS = {"good": "green", "caution": "yellow", "poor": "red"}


def class_report(
    posterior: Posterior, rows: int = 15, top: int = 2, *, draw: ShownDraw = None, chain: int | None = None
) -> RenderableType:
    """Return the largest classes in words, the factors they share, a summary and what the likelihood says.

    They are those of the consensus, if there are several draws; those of one draw on request.
    """
    rows, top = whole_number("rows", rows), whole_number("top", top)
    summary = posterior.class_summary(draw, chain=chain)
    shown = summary.apart_last[:rows]
    colours = _shared_colours(summary, shown)
    verdict = list(_verdict(posterior, summary))
    table: list[RenderableType] = [Text(), _ClassList(summary, shown, top, colours), Text()]
    return Group(
        *_heading(summary, len(shown)),
        *verdict,
        *(table if len(shown) else []),
        *_sharing_lines(summary, shown, top, colours),
        *(Text(sentence) for sentence in posterior.likelihood_words()),
        summary_line(summary),
        *_warnings(posterior, told_behind=any("far behind" in text.plain for text in verdict)),
    )


def _heading(summary: ClassSummary, shown: int) -> Iterator[Text]:
    yield Text(f"{_counted(shown, len(summary.number_C))}, {summary.source}", style="bold")
    if summary.is_consensus and shown:
        yield Text("Shares are averages over all draws, with 90% intervals.", style="dim")
    elif summary.is_consensus:
        yield Text("draw='best' (--draw best) shows the best draw.", style="dim")


def _verdict(posterior: Posterior, summary: ClassSummary) -> Iterator[Text]:
    """Yield the traffic light of the chains: intervals mean little if the chains have not settled."""
    if summary.is_consensus:
        diagnosis = posterior.diagnose()
        yield Text(f"{diagnosis.level.capitalize()}: {diagnosis.headline}", style=_LIGHTS[diagnosis.level])


def _counted(shown: int, known: int) -> str:
    if shown == known:
        return "1 class" if known == 1 else f"{known} classes"
    return f"{shown} of {known} classes"


def summary_line(summary: ClassSummary) -> Text:
    """Return what the classes hold in a few sentences, with their numbers in bold."""
    text = Text(summary.sentences)
    text.highlight_regex(r"\d+(?= (class|hold))", "bold")
    return text


def _warnings(posterior: Posterior, *, told_behind: bool) -> Iterator[Text]:
    """Yield a warning on chains far behind the others, and on chains in which no class moved since the burn-in.

    The first is left out if the verdict on the chains has told it.
    """
    behind = chains_behind(posterior.record)
    if behind is not None and not told_behind:
        yield Text(behind_sentence(behind), style="italic")
    warning = no_move_warning(posterior.record)
    if warning:
        yield Text(warning, style="italic")


class _Column(NamedTuple):
    """A column of numbers: its heading, its width, and its cells by the places of the classes."""

    name: str
    width: int
    cells: dict[int, str]


@dataclass(frozen=True)
class _ClassList:
    """The classes as a table with the modes side by side, or on lines of their own; as blocks on a narrow terminal."""

    summary: ClassSummary
    shown: Ints
    top: int
    colours: dict[tuple[int, int], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._number_columns()
        room = options.max_width - sum(column.width + _BETWEEN for column in columns)
        for apart in (False, True):
            places = [place for place in self.shown.tolist() if self.summary.apart_C[place] == apart]
            if apart and places:
                yield Rule(Text(APART, style="dim"), align="left", style="dim")
            if places and room >= _DESCRIPTION:
                yield self._table(places, columns, room)
            else:
                yield from self._blocks(places)

    def _number_columns(self) -> list[_Column]:
        summary, places = self.summary, self.shown.tolist()
        cells = {
            "class": {place: str(summary.number_C[place]) for place in places},
            "share": {place: share_words(summary, place) for place in places},
        }
        if support_heading(summary):
            cells[support_heading(summary)] = {place: support_brief(summary, place) for place in places}
        return [_Column(name, max(map(len, (name, *column.values()))), column) for name, column in cells.items()]

    def _table(self, places: list[int], columns: list[_Column], room: int) -> Table:
        """The classes in rows, below a heading if they are the first that are shown."""
        beside = room >= (_COLUMN + _BETWEEN) * len(self.summary.modes) - _BETWEEN
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.show_header = places[0] == self.shown[0]
        for column in columns:
            table.add_column(column.name, justify="right", width=column.width)
        widths = self._mode_widths(room)
        table.add_column(_side_by_side(map(Text, self.summary.mode_names), widths) if beside else "name", width=room)
        for place in places:
            name = Text(self.summary.names[place], style="bold")
            words = _side_by_side(self._words(place), widths) if beside else self._lines(place)
            table.add_row(*(column.cells[place] for column in columns), Group(name, words))
        return table

    def _mode_widths(self, room: int) -> list[int]:
        """Divide room fairly among the modes: short ones get what they need, the others equal parts of the rest."""
        cells = [map(Text, self.summary.mode_names), *map(self._words, self.shown.tolist())]
        needed = np.max([[words.cell_len for words in row] for row in cells], axis=0)
        widths, left = [0] * len(needed), room - _BETWEEN * (len(needed) - 1)
        for turn, mode in enumerate(np.argsort(needed, kind="stable").tolist()):
            widths[mode] = min(int(needed[mode]), left // (len(needed) - turn))
            left -= widths[mode]
        return widths

    def _words(self, place: int) -> list[Text]:
        """The heaviest labels of a class in every mode, with the number of its factor if it is shared."""
        summary = self.summary
        return [
            _factor_text(
                summary,
                mode,
                int(summary.location_CM[place, mode]),
                profile_words(summary.profile(place, mode), self.top),
                self.colours,
            )
            for mode in range(len(summary.modes))
        ]

    def _lines(self, place: int) -> Table:
        grid = Table.grid(padding=(0, 1))
        for name, words in zip(self.summary.mode_names, self._words(place), strict=True):
            grid.add_row(Text(name), words)
        return grid

    def _blocks(self, places: list[int]) -> Iterator[RenderableType]:
        for place in places:
            number, support = self.summary.number_C[place], support_words(self.summary, place)
            told = f"class {number}, {share_words(self.summary, place)}" + (f", {support}" if support else "")
            yield Text(told, style="bold")
            yield Padding(Text(self.summary.names[place]), (0, 0, 0, 2))
            yield Padding(self._lines(place), (0, 0, 0, 2))


def _side_by_side(cells: Iterable[Text], widths: list[int]) -> Table:
    grid = Table.grid(padding=(0, _BETWEEN, 0, 0))
    for width in widths:
        grid.add_column(width=width, overflow="fold")
    grid.add_row(*cells)
    return grid


def _factor_text(
    summary: ClassSummary, mode: int, factor: int, words: str, colours: dict[tuple[int, int], str]
) -> Text:
    """Words with the number of the factor. A factor of one class alone has a number in a draw only: its place there."""
    colour = colours.get((mode, factor))
    if colour:
        return Text(f"#{factor} {words}", style=f"bold {colour}")
    numbered = not summary.is_consensus or len(summary.factors[mode][factor].classes) > 1
    return Text.assemble((f"#{factor} ", "dim"), words) if numbered else Text(words)


def _shared_colours(summary: ClassSummary, shown: Ints) -> dict[tuple[int, int], str]:
    """Return a colour for every factor that several shown classes use; those of a mode cycle through the palette."""
    colours = {}
    for mode in range(len(summary.modes)):
        factors = np.unique(summary.location_CM[shown, mode]).tolist()
        uses = {factor: len(users_together(summary, shown, mode, factor)) for factor in factors}
        shared = sorted((factor for factor in factors if uses[factor]), key=lambda factor: -uses[factor])
        for turn, factor in enumerate(shared):
            colours[mode, factor] = COLOURS[turn % len(COLOURS)]
    return colours


def _sharing_lines(summary: ClassSummary, shown: Ints, top: int, colours: dict[tuple[int, int], str]) -> Iterator[Text]:
    if not colours:
        return
    yield Text("Factors shared by several classes", style="bold")
    for mode, factor in colours:
        users = users_together(summary, shown, mode, factor)
        numbers = [str(number) for number in summary.number_C[users]]
        more = f" and {len(numbers) - _LISTED_CLASSES} more" if len(numbers) > _LISTED_CLASSES else ""
        surely = together_words(summary, users, mode)
        listed = f"  in classes {', '.join(numbers[:_LISTED_CLASSES])}{more}" + (f", {surely}" if surely else "")
        words = _factor_text(summary, mode, factor, profile_words(summary.factors[mode][factor], top), colours)
        yield Text.assemble(f"  {summary.mode_names[mode]} ", words, (listed, "dim"))
    yield Text()

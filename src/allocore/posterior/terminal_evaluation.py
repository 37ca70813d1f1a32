"""How well a fit predicts, on a terminal: the table of scores beside baselines, and what it means."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from allocore.posterior.evaluation import MODEL
from allocore.posterior.evaluation_words import COLUMNS, HEADINGS, heading, score_rows
from allocore.posterior.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

_UNBOUNDED = 1000
_LIGHTS = {"good": "green", "caution": "yellow", "poor": "red"}


def print_held_out(console: Console, posterior: Posterior) -> None:
    """Print how well the held-out cells of a run are predicted, if it has any, and draws."""
    if posterior.held_out is not None and posterior.core_values.shape[1]:
        console.print()
        console.print(evaluation_report(posterior._evaluation(brief=True).table))


@dataclass(frozen=True)
class _Scores:
    """The scores, a row for each model; on a narrow terminal a column for each, so that no number is cut."""

    rows: list[list[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        across = self._across()
        fits = console.measure(across, options=options.update(max_width=_UNBOUNDED)).maximum <= options.max_width
        yield across if fits else self._down()

    def _across(self) -> Table:
        shown = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in HEADINGS:
            shown.add_column(name, justify="right" if name else "left", no_wrap=True)
        for row in self.rows:
            shown.add_row(*map(Text, row), style="bold" if row[0] == MODEL else "")
        return shown

    def _down(self) -> Table:
        shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        shown.add_column("", overflow="fold")
        for row in self.rows:
            shown.add_column(Text(row[0].replace(" ", "\n", 1)), justify="right", no_wrap=True)
        for name, *scores in zip(HEADINGS[1:], *(row[1:] for row in self.rows), strict=True):
            shown.add_row(name, *(Text(score, style="bold" * (not place)) for place, score in enumerate(scores)))
        return shown


def evaluation_report(table: "pd.DataFrame") -> RenderableType:
    """Return the table of `Posterior.evaluate` for the screen, with its sentences."""
    first, *others = table.attrs["words"]
    level = table.attrs["level"]
    return Group(
        Text(heading(table), style="bold"),
        Text(f"{level.capitalize()}: {first}", style=_LIGHTS[level]),
        _Scores(score_rows(table)),
        Text(COLUMNS, style="dim"),
        *(Text(sentence) for sentence in others),
    )

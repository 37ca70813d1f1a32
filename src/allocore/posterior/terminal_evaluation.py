"""How well a fit predicts, on a terminal: the table of scores beside baselines, and what it means."""

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocore.posterior.evaluation import MODEL
from allocore.posterior.evaluation_words import HEADINGS, heading, score_rows
from allocore.posterior.posterior import Posterior

if TYPE_CHECKING:
    import pandas as pd

_LIGHTS = {"good": "green", "caution": "yellow", "poor": "red"}


def print_held_out(console: Console, posterior: Posterior) -> None:
    """Print how well the held-out cells of a run are predicted, if it has any, and draws."""
    if posterior.held_out is not None and posterior.core_values.shape[1]:
        console.print()
        console.print(evaluation_report(posterior._evaluation(brief=True).table))


def evaluation_report(table: "pd.DataFrame") -> RenderableType:
    """Return the table of `Posterior.evaluate` for the screen, with its sentences."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in HEADINGS:
        shown.add_column(name, justify="right" if name else "left")
    for row in score_rows(table):
        shown.add_row(*map(Text, row), style="bold" if row[0] == MODEL else "")
    first, *others = table.attrs["words"]
    level = table.attrs["level"]
    return Group(
        Text(heading(table), style="bold"),
        Text(f"{level.capitalize()}: {first}", style=_LIGHTS[level]),
        shown,
        *(Text(sentence) for sentence in others),
    )

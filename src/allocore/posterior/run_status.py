"""The status of a run on a terminal: its settings, its progress, and whether its draws can be trusted."""

from collections.abc import Iterator

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocore.posterior.diagnostics import R_HAT_SETTLED, Diagnosis
from allocore.posterior.moves import move_rate_sentences
from allocore.posterior.posterior import Posterior
from allocore.posterior.run_description import (
    COLUMNS,
    HEADINGS,
    held_out_line,
    number_text,
    progress_line,
    settings_line,
    short_table,
)

_STYLES = {"good": "bold green", "caution": "bold yellow", "poor": "bold red"}


def run_report(posterior: Posterior, *, being_written: bool) -> RenderableType:
    """Return the settings, progress and diagnostics of a run."""
    record = posterior.record
    parts: list[RenderableType] = [
        Text(settings_line(record)),
        Text(repr(record.tensor)),
        Text(progress_line(record, being_written=being_written)),
    ]
    if record.held_out is not None:
        parts.append(Text(held_out_line(record)))
    if record.core_values.shape[1]:
        parts += _health(posterior.diagnose())
    return Group(*parts)


def _health(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")  # words may be cut into lines, numbers never
    for heading in HEADINGS.values():
        table.add_column(_in_lines(heading), justify="right", no_wrap=True)
    for name, row in short_table(diagnosis).iterrows():
        table.add_row(Text(str(name)), *(_cell(column, row[column]) for column in HEADINGS))
    yield Text(f"\n{diagnosis.level.capitalize()}: {diagnosis.headline}", style=_STYLES[diagnosis.level])
    yield table
    yield Text(COLUMNS, style="dim")
    for sentence in (*diagnosis.likelihood_words, *move_rate_sentences(diagnosis.move_rate)):
        yield Text(sentence)
    for sentence in diagnosis.words:
        yield Text(sentence)


def _in_lines(heading: str) -> str:
    """A heading of several words on several lines, so that its column is as narrow as its numbers."""
    return heading.replace(" per ", " per\n").replace("effective ", "effective\n").replace("ESS ", "ESS\n")


def _cell(column: str, value: float) -> Text:
    text = Text(number_text(column, value))
    if np.isnan(value):
        text.stylize("dim")
    elif column == "r_hat" and value > R_HAT_SETTLED:
        text.stylize("bold red")
    return text

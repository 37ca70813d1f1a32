"""A run on a terminal: what it is, how far it has come, and whether its draws can be trusted."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocore.posterior.diagnostics import R_HAT_SETTLED, Diagnosis
from allocore.posterior.posterior import Posterior
from allocore.posterior.traces import RATE
from allocore.run.record import Record

_HEADINGS = {
    "mean": "mean",
    "sd": "sd",
    "r_hat": "R-hat",
    "ess_bulk": "ESS bulk",
    "ess_tail": "ESS tail",
    "seconds_per_effective_sample": "s per effective sample",
}


def run_report(posterior: Posterior, *, being_written: bool) -> RenderableType:
    """Settings, progress and diagnostics of a run."""
    record = posterior.record
    parts: list[RenderableType] = [
        Text(settings_line(record)),
        Text(repr(record.tensor)),
        Text(progress_line(record, being_written=being_written)),
    ]
    if record.core_values.shape[1]:
        parts += _health(posterior.diagnose())
    return Group(*parts)


def settings_line(record: Record) -> str:
    """The model, its core, its priors and its seed."""
    spec = record.spec
    core = " x ".join(str(size) for size in spec.core_shape)
    names = ["a0", "b0", "e0", "f0", *["alpha0"] * spec.learn_locations, *["c0", "d0"] * spec.infer_budget]
    priors = ", ".join(f"{name} {getattr(spec, name):g}" for name in names) if spec.has_priors else "maximum likelihood"
    made = "" if record.attributes is None else f", allocore {record.attributes['inference_library_version']}"
    most = "at most " if spec.infer_budget else ""
    return f"{spec.model}: {most}{spec.budget} classes, core {core}; {priors}; seed {record.seed}{made}"


def progress_line(record: Record, *, being_written: bool = False) -> str:
    """How far a run has come."""
    schedule, (chains, sweeps) = record.schedule, record.stats["moved"].shape
    if not record.spec.has_priors:
        return f"{sweeps:,} iterations; the best of its restarts."
    draws, seconds = record.core_values.shape[1], record.stats["seconds"]
    text = f"{sweeps:,} of {schedule.sweeps:,} sweeps"
    text += f" ({schedule.burn_in:,} of burn-in, then {_number(schedule.thin, 'sweep')} a draw)"
    text += f", {draws:,} of {schedule.draws:,} draws in {'each of ' * (chains > 1)}{_number(chains, 'chain')}"
    if sweeps:
        text += f"; {np.nanmean(seconds):.3g} s a sweep"
    if sweeps >= schedule.sweeps:
        return f"{text}; finished."
    return f"{text}; {'being written now' if being_written else 'stopped: allocore resume continues it'}."


def _number(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number > 1)}"


def _health(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")
    for heading in _HEADINGS.values():
        table.add_column(heading, justify="right")
    for name, row in _in_short(diagnosis.table).iterrows():
        table.add_row(Text(str(name)), *(_cell(column, row[column]) for column in _HEADINGS))
    yield table
    if not np.isnan(diagnosis.move_rate):
        yield Text(f"{diagnosis.move_rate:.2%} of the classes moved in a sweep after the burn-in.")
    for sentence in diagnosis.words:
        yield Text(sentence, style="" if diagnosis.well else "bold")


def diagnosis_rows(diagnosis: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """The table of diagnostics in short, as headings and rows of text."""
    table = _in_short(diagnosis.table)
    rows = [[str(name), *(_cell(column, row[column]).plain for column in _HEADINGS)] for name, row in table.iterrows()]
    return ["quantity", *_HEADINGS.values()], rows


def _in_short(table: pd.DataFrame) -> pd.DataFrame:
    """The table with one row for all cells: the worst of each column."""
    if table.empty:
        return table
    cells = table[table.index.str.startswith(RATE)]
    worst = {"r_hat": cells["r_hat"].max(), "seconds_per_effective_sample": cells.iloc[:, -1].max()}
    worst |= {name: cells[name].min() for name in ("ess_bulk", "ess_tail")}
    row = pd.DataFrame(worst, index=[f"log rates of {len(cells)} cells, the worst"], columns=table.columns)
    return pd.concat([table.drop(cells.index), row])


def _cell(column: str, value: float) -> Text:
    if np.isnan(value):
        return Text("-", style="dim")
    if column == "r_hat":
        return Text(f"{value:.3f}", style="bold red" if value > R_HAT_SETTLED else "")
    if column.startswith("ess"):
        return Text(f"{value:,.0f}")
    return Text(f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.4g}")

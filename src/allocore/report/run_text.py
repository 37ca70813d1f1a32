"""A run in plain text, for the terminal and the page: settings, progress and a short table of diagnostics."""

import numpy as np
import pandas as pd

from allocore._text import plain_number, plural
from allocore.model.spec import Spec
from allocore.posterior.diagnose import LOG_COUNT, Diagnosis
from allocore.storage.record import Record

DIAGNOSTIC_HEADINGS = {
    "mean": "mean",
    "sd": "sd",
    "r_hat": "R-hat",
    "ess_bulk": "ESS bulk",
    "ess_tail": "ESS tail",
    "seconds_per_effective_sample": "s per effective sample",
}
DIAGNOSTIC_COLUMNS = (
    "R-hat: the spread of all chains over that within chains, below 1.01 where they agree. ESS: how many independent "
    "draws these are worth, for means (bulk) and for intervals (tail). A dash: the quantity is constant, or there are "
    "too few draws."
)


def settings_line(record: Record) -> str:
    """Return the model, its core, its priors and its seed in one line."""
    spec = record.spec
    core = " x ".join(str(size) for size in spec.core_shape)
    names = ["a0", "b0", "e0", "f0", *["alpha0"] * spec.learn_locations, *["c0", "d0"] * spec.infer_budget]
    names += ["s0", "t0"] * spec.infer_concentrations + ["g0", "h0"] * spec.observation.has_dispersion
    priors = ", ".join(f"{name} {_prior(spec, name)}" for name in names) if spec.has_priors else "maximum likelihood"
    made = "" if record.attributes is None else f", allocore {record.attributes['inference_library_version']}"
    most = "at most " if spec.infer_budget else ""
    by = "" if spec.dispersion_by is None else f", p by {record.tensor.mode_names[spec.dispersion_by]}"
    kind = spec.model if spec.likelihood == "poisson" else f"{spec.model}, {spec.likelihood}{by}"
    return f"{kind}: {most}{spec.budget} classes, core {core}; {priors}; seed {record.seed}{made}"


def _prior(spec: Spec, name: str) -> str:
    """Return a setting as text; e0 may be one number, one per mode, or learned."""
    value = getattr(spec, name)
    if isinstance(value, tuple):
        return f"({', '.join(f'{each:g}' for each in value)})"
    return "learned" if value == "infer" else f"{value:g}"


def progress_line(record: Record, *, being_written: bool = False) -> str:
    """Return how many sweeps and draws a run has, of how many planned."""
    schedule, (chains, sweeps) = record.schedule, record.stats["moved"].shape
    if not record.spec.has_priors:
        return f"{sweeps:,} iterations; the best of its restarts."
    draws, seconds = record.core_values.shape[1], record.stats["seconds"]
    if record.folded_mode is not None:
        rows = plural(record.tensor.shape[record.folded_mode], "new row")
        name = record.tensor.mode_names[record.folded_mode]
        where = f"{draws:,} draws of {'each of ' * (chains > 1)}{plural(chains, 'chain')}"
        return f"{rows} of {name}, folded into {where}; {np.nanmean(seconds):.3g} s per draw; finished."
    text = f"{sweeps:,} of {schedule.sweeps:,} sweeps"
    text += f" ({schedule.burn_in:,} of burn-in, then {plural(schedule.thin, 'sweep')} per draw)"
    text += f", {draws:,} of {schedule.draws:,} draws in {'each of ' * (chains > 1)}{plural(chains, 'chain')}"
    if sweeps:
        text += f"; {np.nanmean(seconds):.3g} s per sweep"
    if sweeps >= schedule.sweeps:
        return f"{text}; finished."
    return f"{text}; {'being written now' if being_written else 'stopped: continue it with allocore resume'}."


def held_out_line(record: Record) -> str:
    """Return how many cells are held out; empty if there are none."""
    test = record.held_out
    if test is None:
        return ""
    along = "" if test.along is None else f", in fibres along {record.tensor.mode_names[test.along]}"
    return f"{test!r}{along}; allocore evaluate scores them."


def diagnosis_rows(diagnosis: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Return the short table of diagnostics as headings and rows of text."""
    table = short_table(diagnosis)
    rows = [
        [str(name), *(number_text(column, row[column]) for column in DIAGNOSTIC_HEADINGS)]
        for name, row in table.iterrows()
    ]
    return ["quantity", *DIAGNOSTIC_HEADINGS.values()], rows


def short_table(diagnosis: Diagnosis) -> pd.DataFrame:
    """Return the table of diagnostics with one row for all cells: the worst value of each column."""
    table = diagnosis.table
    if table.empty:
        return table
    cells = table[table.index.str.startswith(LOG_COUNT)]
    worst = {"r_hat": cells["r_hat"].max(), "seconds_per_effective_sample": cells.iloc[:, -1].max()}
    worst |= {name: cells[name].min() for name in ("ess_bulk", "ess_tail")}
    name = f"log expected counts of {len(cells)} cells, the worst"
    others = table.drop(cells.index)
    # Not pd.concat: pandas 2 warns when the new row is all NaN.
    short = others.reindex([*others.index, name])
    short.loc[name] = pd.Series(worst)
    return short


def number_text(column: str, value: float) -> str:
    """Return a number of the table with as many digits as its column needs; "-" for NaN."""
    if np.isnan(value):
        return "-"
    if column == "r_hat":
        return f"{value:.3f}"
    return f"{value:,.0f}" if column.startswith("ess") else plain_number(value)

"""Results as plain data, for programs: the objects that commands print with --json, from what the terminal shows.

`plain` makes JSON types of anything: a data frame becomes a list with an object for each row, a finding its kind,
level, values and sentence, and a number that is NaN or infinite null. docs/reference/json.md lists all members.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.findings import Finding, sentence
from allocore.tensor.count_tensor import CountTensor

if TYPE_CHECKING:
    import pandas as pd

    from allocore.classes.summary import ClassSummary
    from allocore.diagnosis import Answer, Diagnosis
    from allocore.posterior.check import Check
    from allocore.posterior.evaluate import Evaluation
    from allocore.report.fit import Fit

FORMAT = 1  # raised when a member changes its meaning or goes; new members do not raise it


def plain(value: Any, said: Callable[[str], str] = str) -> Any:
    """Return a value with JSON types only; `said` changes the sentences of findings."""
    if isinstance(value, Finding):
        about = {"kind": value.kind, "level": value.level, "values": value.values}
        return {**plain(about, said), "sentence": said(sentence(value))}
    if isinstance(value, Mapping):
        return {str(name): plain(each, said) for name, each in value.items()}
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [plain(row, said) for row in _rows(value)]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), said)
    if isinstance(value, str | bool | int | None):
        return value if not isinstance(value, str) else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Iterable):
        return [plain(each, said) for each in value]
    return None if value != value else str(value)  # NaT and NA, or a date of the user's


def _rows(frame: "pd.DataFrame") -> list[dict[Any, Any]]:
    """The rows of a frame, with its index if that has a name."""
    named = any(name is not None for name in frame.index.names)
    table = frame.reset_index() if named else frame
    rows: list[dict[Any, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def data_object(Y: CountTensor) -> dict[str, Any]:
    """Return a tensor: its modes, its counts, and the report on its events."""
    report = None if Y.report is None else {each.name: getattr(Y.report, each.name) for each in fields(Y.report)}
    return {
        "modes": [{"name": name, "length": length} for name, length in zip(Y.mode_names, Y.shape, strict=True)],
        "total": Y.total,
        "max": Y.max,
        "non_zeros": Y.nnz,
        "cells": Y.volume,
        "missing_cells": Y.missing.cells,
        "undirected": None if Y.undirected_modes is None else [Y.mode_names[mode] for mode in Y.undirected_modes],
        "report": report,
    }


def run_object(posterior: "Fit", *, being_written: bool = False) -> dict[str, Any]:
    """Return the settings and the progress of a run."""
    record = posterior.record
    schedule, (chains, sweeps) = record.schedule, record.stats["moved"].shape
    seconds = record.stats["seconds"]
    return {
        "settings": asdict(record.spec),
        "seed": record.seed,
        "allocore": None if record.attributes is None else record.attributes["inference_library_version"],
        "finished": record.complete,
        "preliminary": record.preliminary,
        "being_written": being_written,
        "chains": {"done": chains, "planned": record.planned_chains or chains},
        "sweeps": {"done": sweeps, "planned": schedule.sweeps, "burn_in": schedule.burn_in, "thin": schedule.thin},
        "draws": {"done": record.core_values.shape[1], "planned": schedule.draws},
        "seconds_per_sweep": float(np.nanmean(seconds)) if sweeps else None,
        "data": data_object(record.tensor),
        "held_out_cells": None if record.held_out is None else len(record.held_out),
    }


def diagnosis_object(found: "Diagnosis") -> dict[str, Any]:
    """Return the three answers on a run, and the table for experts."""
    return {
        "level": found.level,
        "predictions": _answer(found.predictions),
        "classes": _answer(found.classes),
        "fit": _answer(found.fit),
        "move_rate": found.move_rate,
        "findings": (*found.likelihood, *found.details),
        "table": found.table,
    }


def _answer(answer: "Answer") -> dict[str, Any]:
    return {
        "question": answer.question,
        "level": answer.level,
        "value": answer.value,
        "findings": answer.findings,
    }


def classes_object(summary: "ClassSummary", rows: int, top: int) -> dict[str, Any]:
    """Return the largest classes, each with its `top` labels in every mode."""
    return {
        "source": summary.source,
        "counted": summary.counted,
        "number": len(summary.number_C),
        "findings": summary.findings,
        "classes": [class_object(summary, place, top) for place in summary.apart_last[:rows].tolist()],
    }


def class_object(summary: "ClassSummary", place: int, top: int) -> dict[str, Any]:
    """Return one class: its size, its support, and its profile and factor in every mode."""
    low, high = (None, None) if summary.interval_C2 is None else summary.interval_C2[place]
    return {
        "class": summary.number_C[place],
        "name": summary.names[place],
        "value": summary.value_C[place],
        "share": summary.share_C[place],
        "low": low,
        "high": high,
        "support": summary.support.chains_C[place],
        "support_draws": summary.support.draws_C[place],
        "found_again": None if summary.support.found_again_C is None else summary.support.found_again_C[place],
        "apart": summary.apart_C[place],
        "modes": {name: _profile(summary, place, mode, top) for mode, name in enumerate(summary.mode_names)},
    }


def _profile(summary: "ClassSummary", place: int, mode: int, top: int) -> dict[str, Any]:
    profile, labels = summary.profile(place, mode), []
    for row in profile.heaviest(top).tolist():
        known = profile.low_D is not None and profile.high_D is not None
        low, high = (float(profile.low_D[row]), float(profile.high_D[row])) if known else (None, None)  # type: ignore[index]
        labels.append({"label": profile.mode.labels[row], "share": profile.share_D[row], "low": low, "high": high})
    return {
        "factor": summary.location_CM[place, mode],
        "shared_with": summary.numbers(summary.partners(place, mode)),
        "even": profile.even,
        "labels": labels,
    }


def new_rows_object(fitted: "Fit", folded: "Fit", rows: int) -> list[dict[str, Any]]:
    """Return the classes with their shares in the new rows, `low` and `high` of these, and their shares in the fit."""
    found, before = folded.consensus(), fitted.consensus()
    known = dict(zip(before.numbers.tolist(), before.share.tolist(), strict=True))
    classes = (class_object(found.summary, place, 0) for place in range(min(rows, len(found.numbers))))
    wanted = ("class", "name", "share", "low", "high")
    return [{**{name: each[name] for name in wanted}, "share_in_fit": known[int(each["class"])]} for each in classes]


def evaluation_object(found: "Evaluation") -> dict[str, Any]:
    """Return the scores of a run and of the baselines, and what they mean."""
    return {"level": found.level, "scored": found.table.attrs, "table": found.table, "findings": found.findings}


def check_object(found: "Check") -> dict[str, Any]:
    """Return the statistics of the data and of simulated tensors, and what they mean."""
    return {
        "level": found.level,
        "tensors": len(found.simulated),
        "table": found.table,
        "widths": found.widths,
        "findings": found.findings,
    }

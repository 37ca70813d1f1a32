"""The data of the page: the summary of one draw, the run and its health, as plain values for JSON.

Factors are written as 32-bit floats in base64, which takes a third of the space of decimal text. If a mode has very
many labels, the page gets only the heaviest labels of each factor and says how much they hold. So the page stays small
for modes of any length.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.countries import resolve
from allocore.posterior.class_summary import ClassSummary, Factor, ShownMode
from allocore.posterior.run_description import diagnosis_rows, number_text, progress_line, settings_line

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.diagnostics import Diagnosis
    from allocore.posterior.posterior import Posterior

# A mode is complete up to this many labels, or up to this many numbers over all its factors. Above both limits, the
# page gets about this many numbers of it.
_WHOLE_LABELS = 500
_NUMBERS = 100_000
_LEAST_ROWS = 25
_TRACE_POINTS = 400


def payload(
    posterior: Posterior, title: str, *, draw: int = -1, chain: int = 0, surprises: pd.DataFrame | None = None
) -> dict[str, Any]:
    """Everything that the page shows, ready for JSON."""
    summary, diagnosis = posterior.class_summary(draw, chain=chain), posterior.diagnose()
    chains, draws = posterior.core_values.shape[:2]
    return {
        "title": title,
        "summary": summary.sentences,
        "counted": summary.counted,
        "draw": {"draw": draw % draws, "chain": chain % chains, "draws": draws, "chains": chains},
        "data": _data(posterior),
        "run": [settings_line(posterior.record), progress_line(posterior.record)],
        "finished": posterior.finished,
        "likelihood": diagnosis.likelihood_words,
        "health": _health(diagnosis),
        "traces": _traces(posterior),
        "modes": [_mode(summary, mode) for mode in range(len(summary.modes))],
        "classes": _classes(summary),
        "surprises": None if surprises is None else _surprises(surprises, summary),
        "allSearched": surprises is None or surprises.attrs.get("zeros_searched") != "largest only",
    }


def _data(posterior: Posterior) -> dict[str, Any]:
    tensor = posterior.tensor
    report = tensor.report
    return {
        "text": repr(tensor),
        "missing": tensor.missing.cells,
        "report": None if report is None else report.lines(),
    }


def _health(diagnosis: Diagnosis) -> dict[str, Any]:
    """The verdict on the chains, for the banner and the panel. `rHat` is text, because R-hat may be infinite."""
    headings, rows = diagnosis_rows(diagnosis)
    r_hats = diagnosis.table["r_hat"].to_numpy()[:1]  # the log-likelihood comes first; NNTuck has no row at all
    return {
        "level": diagnosis.level,
        "headline": diagnosis.headline,
        "words": diagnosis.words,
        "rHat": number_text("r_hat", float(r_hats[0])) if np.isfinite(r_hats).any() else None,
        "moves": None if np.isnan(diagnosis.move_rate) else diagnosis.move_rate,
        "headings": headings,
        "rows": rows,
    }


def _traces(posterior: Posterior) -> dict[str, Any]:
    """The log-likelihood of every chain at some hundred evenly spaced sweeps."""
    trace = posterior.stats["log_likelihood"]
    sweeps = np.unique(np.linspace(0, trace.shape[1] - 1, min(_TRACE_POINTS, trace.shape[1])).astype(int))
    return {
        "sweeps": (sweeps + 1).tolist(),
        "burnIn": posterior.record.schedule.burn_in,
        "logLikelihood": [[_number(value) for value in row] for row in trace[:, sweeps]],
    }


def _mode(summary: ClassSummary, place: int) -> dict[str, Any]:
    """A mode: its labels, their kind, and its factors in the order of their first class."""
    mode, factors = summary.modes[place], list(summary.factors[place].values())
    rows_FN = _heaviest_rows(mode, factors)
    shown_R = np.arange(len(mode.labels)) if rows_FN is None else np.unique(rows_FN)
    labels = [str(mode.labels[row]) for row in shown_R.tolist()]
    share_FN = np.stack(
        [each.share_D if rows_FN is None else each.share_D[rows_FN[f]] for f, each in enumerate(factors)]
    )
    return {
        "name": mode.name,
        "kind": mode.kind,
        "length": len(mode.labels),
        "labels": labels,
        "iso": [_iso(label) for label in labels] if mode.kind == "country" else None,
        "factors": [
            {
                "number": each.number,
                "classes": each.classes,
                "mass": _number(each.mass),
                "words": each.words(3),
                "even": each.even,
            }
            for each in factors
        ],
        "rows": None if rows_FN is None else _packed(np.searchsorted(shown_R, rows_FN), "<u4"),
        "shares": _packed(share_FN, "<f4"),
        "peaks": [each.peaks() for each in factors] if mode.kind == "time" else None,
    }


def _heaviest_rows(mode: ShownMode, factors: list[Factor]) -> NDArray[np.int64] | None:
    """The rows of each factor that the page gets, heaviest first; None if it gets all."""
    length = len(mode.labels)
    if mode.kind == "time" or length <= _WHOLE_LABELS or length * len(factors) <= _NUMBERS:
        return None
    most = min(length, max(_LEAST_ROWS, _NUMBERS // len(factors)))
    return np.stack([factor.heaviest[:most] for factor in factors])


def _iso(label: str) -> str | None:
    country = resolve(label)
    return country.iso3 if country else None


def _packed(numbers: NDArray[Any], kind: str) -> str:
    return base64.b64encode(numbers.astype(kind).tobytes()).decode("ascii")


def _classes(summary: ClassSummary) -> list[dict[str, Any]]:
    """Each class: its size, its stability, and the place of its factor in the list of each mode."""
    places = [{number: place for place, number in enumerate(factors)} for factors in summary.factors]
    return [
        {
            "value": _number(summary.value_C[number]),
            "share": _number(summary.share_C[number]),
            "stability": _number(summary.support.draws_C[number]),
            "chains": _number(summary.support.chains_C[number]),
            "factors": [places[mode][k] for mode, k in enumerate(summary.location_CM[number].tolist())],
        }
        for number in range(len(summary.value_C))
    ]


def _surprises(table: pd.DataFrame, summary: ClassSummary) -> list[dict[str, Any]]:
    modes = len(summary.modes)
    observed, expected, direction, _, surprise = list(table.columns[modes:])
    return [
        {
            "labels": [str(row[name]) for name in table.columns[:modes]],
            "observed": int(row[observed]),
            "expected": _number(row[expected]),
            "direction": row[direction],
            "surprise": _number(row[surprise]),
        }
        for row in table.to_dict("records")
    ]


def _number(value: float) -> float | None:
    """A number with six digits, which is enough to read; None if it is not finite, because JSON has no NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None

"""The data of the page: classes with their profiles and factors, the run and its health, as plain values for JSON.

Everything is decided here; the page only draws it. Profiles and factors are the *columns* of a mode, and classes and
factors name theirs by its place. Equal columns are written once: without missing cells the profile of a class in a
single draw is its factor, which other classes may share. To keep the page small for modes of any length:

- Shares are 32-bit floats in base64, a third of the space of decimal text.
- The ends of intervals are 16-bit fractions of the highest end in the column, finer than any screen shows.
- Of a mode with very many labels, the page gets only the heaviest labels of each column.
- The probabilities that two classes share a factor are one byte each, in percent.
"""

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore.classes.motifs import CHANCE, motifs_of_actors
from allocore.classes.names import sharers_of, support_words
from allocore.classes.summary import FAINT, ClassSummary, Profile, ShownDraw, ShownMode
from allocore.classes.tables import top_cells
from allocore.diagnosis import Diagnosis
from allocore.findings import sentences
from allocore.forecast.forecast import Forecast
from allocore.kernels.elementary import Floats, Ints
from allocore.posterior.check import HEADINGS as CHECK_HEADINGS
from allocore.posterior.check import check_rows, network_modes
from allocore.posterior.evaluate import HEADINGS, heading, score_rows
from allocore.report.fit import Fit
from allocore.report.page.nodes import nodes_of
from allocore.report.page.numbers import rounded
from allocore.report.terminal import diagnosis_rows, progress_line, settings_line
from allocore.tensor.calendar import period_start
from allocore.tensor.countries import resolve
from allocore.tensor.labels import label_kind

if TYPE_CHECKING:
    import pandas as pd

# A mode is complete up to this many labels, or numbers over all its columns; else the page gets about as many numbers.
_WHOLE_LABELS = 500
_NUMBERS = 100_000
_LEAST_ROWS = 25
_TRACE_POINTS = 400
_TOP_CELLS = 6
_MOST_SHARERS = 6
_FORECAST_CLASSES = 12
_MOST_MOTIFS = 10
_MOST_16_BITS = 65535


def payload(
    posterior: Fit,
    title: str,
    *,
    draw: ShownDraw = None,
    chain: int | None = None,
    surprises: "pd.DataFrame | None" = None,
    forecast: Forecast | None = None,
) -> dict[str, Any]:
    """Return all that the page shows, ready for JSON: the consensus if there are several draws, or a single draw."""
    summary, diagnosis = posterior.class_summary(draw, chain=chain), posterior.diagnose()
    tensor, (chains, draws) = posterior.record.tensor, posterior.record.core_values.shape[:2]
    modes = [_Columns(summary, mode) for mode in range(len(summary.modes))]
    return {
        "title": title,
        "summary": " ".join(summary.sentences),
        "counted": summary.counted,
        "source": summary.source,
        "faint": FAINT,
        "consensus": summary.is_consensus,
        "draws": {"chains": chains, "draws": draws},
        "data": {
            "text": repr(tensor),
            "missing": tensor.missing.cells,
            "report": None if tensor.report is None else tensor.report.lines(),
        },
        "run": [settings_line(posterior.record), progress_line(posterior.record)],
        "finished": posterior.finished,
        "likelihood": sentences(diagnosis.likelihood),
        "health": _health(diagnosis),
        "heldOut": _held_out(posterior),
        "check": _check(posterior),
        "traces": _traces(posterior),
        "modes": [_mode(summary, columns) for columns in modes],
        "classes": _classes(summary, modes),
        "cells": _cells(posterior, summary),
        "nodes": nodes_of(posterior, summary),
        "motifs": _motifs(summary),
        "surprises": None if surprises is None else _surprises(surprises, summary),
        "forecast": None if forecast is None else _forecast(forecast, summary),
        "allSearched": surprises is None or surprises.attrs.get("zeros_searched") != "largest only",
    }


def _health(diagnosis: Diagnosis) -> dict[str, Any]:
    """The three answers, and the numbers for experts."""
    headings, rows = diagnosis_rows(diagnosis)
    return {
        "level": diagnosis.level,
        "answers": [
            {"question": each.question, "level": each.level, "value": rounded(each.value), "words": each.sentences}
            for each in diagnosis.answers
        ],
        "words": sentences(diagnosis.details),
        "headings": headings,
        "rows": rows,
    }


def _held_out(posterior: Fit) -> dict[str, Any] | None:
    if posterior.record.held_out is None:
        return None
    found = posterior.evaluate(brief=True)
    names, *scores = zip(*score_rows(found.table), strict=True)
    return {
        "level": found.level,
        "words": found.sentences,
        "cells": heading(found.table),
        "headings": ["", *names],
        "rows": [[name, *each] for name, each in zip(HEADINGS[1:], scores, strict=True)],
    }


def _check(posterior: Fit) -> dict[str, Any] | None:
    found = posterior.brief_check()
    if found is None:
        return None
    return {
        "level": found.level,
        "words": found.sentences,
        "tensors": len(found.simulated),
        "headings": CHECK_HEADINGS,
        "rows": check_rows(found.table),
    }


def _traces(posterior: Fit) -> dict[str, Any]:
    trace = posterior.record.stats["log_likelihood"]
    sweeps = np.unique(np.linspace(0, trace.shape[1] - 1, min(_TRACE_POINTS, trace.shape[1])).astype(int))
    return {
        "sweeps": (sweeps + 1).tolist(),
        "burnIn": posterior.record.schedule.burn_in,
        "logLikelihood": [[rounded(value) for value in row] for row in trace[:, sweeps]],
    }


class _Columns:
    """The profiles and factors of a mode, each once, and which of them every class and every factor has."""

    def __init__(self, summary: ClassSummary, place: int) -> None:
        self.place = place
        self.shown: list[Profile] = []
        self._known: dict[tuple[bytes, ...], int] = {}
        self.of_class = [self._column(profile) for profile in summary.profiles[place]]
        self.of_factor = [self._column(factor) for factor in summary.factors[place].values()]

    def _column(self, profile: Profile) -> int:
        """The place of a profile among the columns; a new one is added."""
        numbers = [each for each in (profile.share_D, profile.low_D, profile.high_D) if each is not None]
        key = tuple(each.astype("<f4").tobytes() for each in numbers)
        if key not in self._known:
            self._known[key] = len(self.shown)
            self.shown.append(profile)
        return self._known[key]


def _mode(summary: ClassSummary, columns: _Columns) -> dict[str, Any]:
    mode, shown = summary.modes[columns.place], columns.shown
    rows_NR = _heaviest_rows(mode, shown)
    shown_R = np.arange(len(mode.labels)) if rows_NR is None else np.unique(rows_NR)
    labels = [str(mode.labels[row]) for row in shown_R.tolist()]
    sharing_CC = None if summary.sharing is None else summary.sharing[columns.place]
    above_diagonal = np.triu_indices(len(summary.names), 1)
    return {
        "name": mode.name,
        "kind": mode.kind,
        "wording": "weeks" if mode.are_weeks else "numbers" if mode.are_numbers else None,
        "length": len(mode.labels),
        "labels": labels,
        "starts": [_start(label) for label in labels] if mode.kind == "time" else None,
        "iso": [each.iso3 if each else None for each in map(resolve, labels)] if mode.kind == "country" else None,
        "even": [each.even_words if each.even else None for each in shown],
        "peaks": [each.peaks() for each in shown] if mode.kind == "time" else None,
        "rows": None if rows_NR is None else _packed(np.searchsorted(shown_R, rows_NR), "<u4"),
        "shares": _packed(_chosen([each.share_D for each in shown], rows_NR), "<f4"),
        "intervals": _intervals(shown, rows_NR),
        "factors": [
            {
                "number": each.number,
                "name": each.known,
                "classes": each.classes,
                "mass": rounded(each.mass),
                "column": column,
            }
            for each, column in zip(summary.factors[columns.place].values(), columns.of_factor, strict=True)
        ],
        "sharing": None if sharing_CC is None else _packed(np.rint(100.0 * sharing_CC[above_diagonal]), "u1"),
    }


def _heaviest_rows(mode: ShownMode, columns: list[Profile]) -> Ints | None:
    """The rows of each column that the page gets, heaviest first; None if it gets all."""
    length = len(mode.labels)
    if mode.kind == "time" or length <= _WHOLE_LABELS or length * len(columns) <= _NUMBERS:
        return None
    most = min(length, max(_LEAST_ROWS, _NUMBERS // len(columns)))
    return np.stack([column.heaviest[:most] for column in columns])


def _chosen(columns: list[Floats], rows_NR: Ints | None) -> Floats:
    if not columns:
        return np.empty((0, 0))
    numbers_ND = np.stack(columns)
    return numbers_ND if rows_NR is None else np.take_along_axis(numbers_ND, rows_NR, axis=1)


def _intervals(columns: list[Profile], rows_NR: Ints | None) -> dict[str, Any] | None:
    """The ends of the intervals as fractions of the highest end of each column; None for a single draw."""
    low_NR = _chosen([each.low_D for each in columns if each.low_D is not None], rows_NR)
    high_NR = _chosen([each.high_D for each in columns if each.high_D is not None], rows_NR)
    if not low_NR.size:
        return None
    highest_N = high_NR.max(axis=1)
    scale_N1 = _MOST_16_BITS / np.where(highest_N > 0.0, highest_N, 1.0)[:, None]
    return {
        "highest": [rounded(highest) for highest in highest_N.tolist()],
        "low": _packed(np.rint(low_NR * scale_N1), "<u2"),
        "high": _packed(np.rint(high_NR * scale_N1), "<u2"),
    }


def _start(label: str) -> str:
    """When a period begins, as JavaScript reads it: in UTC, with a time of day only if it is not midnight."""
    start = period_start(label)
    return start.date().isoformat() if not start.hour else f"{start.isoformat(timespec='minutes')}Z"


def _packed(numbers: NDArray[Any], kind: str) -> str:
    return base64.b64encode(numbers.astype(kind).tobytes()).decode("ascii")


def _classes(summary: ClassSummary, modes: list[_Columns]) -> list[dict[str, Any]]:
    places = [{number: place for place, number in enumerate(factors)} for factors in summary.factors]
    interval_C2 = np.full((len(summary.names), 2), np.nan) if summary.interval_C2 is None else summary.interval_C2
    return [
        {
            "number": int(summary.number_C[c]),
            "name": name,
            "value": rounded(summary.value_C[c]),
            "share": rounded(summary.share_C[c]),
            "low": rounded(interval_C2[c, 0]),
            "high": rounded(interval_C2[c, 1]),
            "inDraws": rounded(summary.support.draws_C[c]),
            "support": support_words(summary, c),
            "apart": bool(summary.apart_C[c]),
            "profiles": [columns.of_class[c] for columns in modes],
            "factors": [places[mode][k] for mode, k in enumerate(summary.location_CM[c].tolist())],
            # The first classes that share the factor and their number, then the same of those that may share it.
            "sharers": [
                [each for numbers in sharers_of(summary, c, mode) for each in (numbers[:_MOST_SHARERS], len(numbers))]
                for mode in range(len(modes))
            ],
        }
        for c, name in enumerate(summary.names)
    ]


def _cells(posterior: Fit, summary: ClassSummary) -> dict[str, Any]:
    """The top cells of every class; a row has the places of its labels, what class and model expect, and the count."""
    tables = top_cells(posterior.record, summary, range(len(summary.names)), _TOP_CELLS) if summary.names else []
    shown = list(tables[0].columns[:-3]) if tables else []
    known: list[dict[str, int]] = [{} for _ in shown]
    rows: list[list[list[Any]]] = []
    for table in tables:
        rows.append([])
        for *labels, of_class, expected, observed in table.itertuples(index=False, name=None):
            places = [seen.setdefault(label, len(seen)) for seen, label in zip(known, labels, strict=True)]
            rows[-1].append([*places, rounded(of_class), rounded(expected), int(observed)])
    return {
        "modes": [place for place, name in enumerate(summary.mode_names) if name in shown],
        "labels": [list(seen) for seen in known],
        "ofClass": rows,
    }


def _motifs(summary: ClassSummary) -> list[dict[str, Any]] | None:
    """The patterns that recur more often than by chance; None without actors."""
    if network_modes(summary.tensor) is None:
        return None
    return [
        {
            "roles": motif.roles,
            "pairs": len(motif.occurrences),
            "expected": rounded(motif.expected),
            "p": rounded(motif.p),
            "occurrences": [each._asdict() for each in motif.occurrences],
        }
        for motif in motifs_of_actors(summary)
        if motif.p <= CHANCE
    ][:_MOST_MOTIFS]


def _forecast(forecast: Forecast, summary: ClassSummary) -> dict[str, Any]:
    """The total and the largest classes by period, past and coming, with intervals as pairs of their ends."""
    place, compared = forecast.coming.mode, forecast.compared
    labels = [*map(str, summary.modes[place].labels), *forecast.periods]
    observed_T = np.asarray(forecast.coming.past.observed_T, dtype=bool)
    total_T = np.where(observed_T, compared.past.by_period([{}], compared.tensor)[0], np.nan)
    levels = ("0.05", "0.25", "0.5", "0.75", "0.95")
    asked = [{forecast.mode: period} for period in forecast.periods]
    fan = forecast.quantiles(asked, [float(each) for each in levels]).iloc[:, -len(levels) :].set_axis(levels, axis=1)
    classes = [] if forecast.fitted.class_summary() is not summary else _class_forecasts(forecast, summary)
    return {
        "mode": forecast.mode,
        "labels": labels,
        "starts": [_start(label) for label in labels] if label_kind(labels) == "time" else None,
        "periods": len(total_T),
        "incomplete": [row for row, label in enumerate(labels) if label in summary.tensor.incomplete],
        "words": list(forecast.sentences),
        "perUnit": forecast.record.spec.exposure(place) is not None,
        "total": {
            "past": [rounded(value) for value in total_T.tolist()],
            "median": [rounded(value) for value in fan["0.5"]],
            "narrow": _pairs(fan["0.25"], fan["0.75"]),
            "wide": _pairs(fan["0.05"], fan["0.95"]),
        },
        "classes": classes,
    }


def _class_forecasts(forecast: Forecast, summary: ClassSummary) -> list[dict[str, Any]]:
    """The expected counts of the largest classes by period."""
    table = forecast.by_class()
    # By their places: their names depend on those of the modes.
    by_class = dict(tuple(table.iloc[:, -3:].set_axis(["expected", "low", "high"], axis=1).groupby(table.iloc[:, 0])))
    past = summary.counts(forecast.coming.mode, forecast.fitted.record.spec.exposure(forecast.coming.mode))
    found = []
    for c in summary.apart_last[:_FORECAST_CLASSES].tolist():
        table = by_class[int(summary.number_C[c])]
        if not np.isfinite(table["expected"]).all():
            continue
        found.append(
            {
                "number": int(summary.number_C[c]),
                "past": [rounded(value) for value in past.mean_CD[c]],
                "band": None
                if past.low_CD is None or past.high_CD is None
                else _pairs(past.low_CD[c], past.high_CD[c]),
                "coming": [rounded(value) for value in table["expected"]],
                "comingBand": _pairs(table["low"], table["high"]),
            }
        )
    return found


def _pairs(low: Iterable[float], high: Iterable[float]) -> list[list[float | None]]:
    return [[rounded(one), rounded(other)] for one, other in zip(low, high, strict=True)]


def _surprises(table: "pd.DataFrame", summary: ClassSummary) -> list[dict[str, Any]]:
    modes = len(summary.modes)
    observed, expected, direction, _, surprise = list(table.columns[modes:])
    return [
        {
            "labels": [str(row[name]) for name in table.columns[:modes]],
            "observed": int(row[observed]),
            "expected": rounded(row[expected]),
            "direction": row[direction],
            "surprise": rounded(row[surprise]),
        }
        for row in table.to_dict("records")
    ]

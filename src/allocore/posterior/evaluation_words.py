"""Is a fit good or bad at predicting? The table of scores in a few sentences, and what to do about it."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from allocore.data.display import plural
from allocore.posterior.baselines import name_of_mean
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = ("", "log PPD", "positive cells", "zeros", "MAE", "CRPS", "in 50%, 90%", "busy cells")
COLUMNS = (
    "log PPD: mean log predictive probability of a cell, of all cells, positive ones and zeros; higher is better. "
    "MAE: mean absolute error; CRPS: the same for the whole distribution; lower is better. "
    "After \u00b1: standard errors. In 50%, 90%: the share of counts in such intervals, of all cells and of busy ones."
)
_WITH_ERRORS = ("log_ppd", "log_ppd_positive", "log_ppd_zero", "mae", "crps")
_SHARES = (("coverage_50", "coverage_90"), ("coverage_50_busy", "coverage_90_busy"))
_Row: TypeAlias = dict[str, float]
Level = Literal["good", "caution", "poor"]

# A difference is clear from so many standard errors on.
_CLEAR = 2.0
# How far the coverage of intervals may be from what it should be.
_NEAR = {50: 0.05, 90: 0.03}
_FEW_CELLS, _FEW_POSITIVE, _FEW_BUSY = 30, 30, 50
_NEGATIVE_BINOMIAL = 'likelihood="negative-binomial" (allocore fit --likelihood negative-binomial)'


def verdict(table: "pd.DataFrame", record: Record) -> tuple[Level, list[str]]:
    """A level and sentences; the first is the answer."""
    unjudged = _why_not_judged(table)
    if unjudged:
        return "caution", [unjudged, *_caveats(table, record)]
    rows: dict[str, _Row] = table.to_dict("index")  # type: ignore[assignment]
    own, *others = rows
    rival = max(others, key=lambda name: rows[name]["log_ppd"])
    level, first = _against(rows[own], rows[rival], rival)
    off, on_intervals = _intervals(table, record)
    if off and level == "good":
        level, first = "caution", f"{first.removesuffix('.')}; but its intervals are off (below)."
    words = (first, *_parts(rows[own], rows[rival], rival), on_intervals, *_caveats(table, record))
    return level, [word for word in words if word]


def _why_not_judged(table: "pd.DataFrame") -> str:
    """Why the scores say nothing of how well the model predicts, if so."""
    known = table.attrs
    cells = plural(known["cells"], "cell")
    if known["trained"]:
        return (
            f"The model was fitted to {known['trained']:,} of these {cells}: the scores say how well it fits them, not "
            "how well it predicts, and the baselines know them too."
        )
    if known["cells"] < _FEW_CELLS:
        return f"{cells} are too few to judge by." if known["cells"] > 1 else "One cell is too few to judge by."
    if known["positive"] == known["cells"]:
        return (
            "All these cells have counts, so only the log PPD of positive cells means something: a model is judged "
            "by all cells, zeros included."
        )
    return ""


def _against(own: _Row, other: _Row, rival: str) -> tuple[Level, str]:
    """The answer: the model against the best baseline, by the log predictive probability of all cells."""
    if own["log_ppd"] == -math.inf:
        return "poor", "The model gives some held-out counts the probability 0, so its log PPD is minus infinity."
    behind, error = other["behind"], other["behind_se"]
    both = f"log PPD {own['log_ppd']:.4f} against {other['log_ppd']:.4f}"
    scores = f"the best baseline ({rival}): {both}, a difference of {abs(behind):.4f}"
    if math.isnan(error):
        better = "better" if behind > 0.0 else "no better"
        return "caution", f"Predicts {better} than {scores}; a single fibre does not tell how surely."
    scores += f" with a standard error of {error:.4f}"
    if behind > _CLEAR * error:
        return "good", f"Predicts clearly better than {scores}."
    if behind < -_CLEAR * error:
        advice = "A larger budget, longer chains or another likelihood may help."
        return "poor", f"Predicts clearly worse than {scores}. {advice}"
    return "caution", f"Predicts neither clearly better nor clearly worse than {scores}."


def _parts(own: _Row, other: _Row, rival: str) -> Iterator[str]:
    """What the model gains where there are counts, and where there are none."""
    positive, zero = ((own[name], other[name]) for name in ("log_ppd_positive", "log_ppd_zero"))
    if not math.isfinite(positive[0]) or not math.isfinite(positive[1]):
        return
    times, more = math.exp(min(abs(positive[0] - positive[1]), 700.0)), positive[0] >= positive[1]
    than = f"more probable than under {rival}" if more else f"less probable than under {rival}"
    if more and times >= 2.0:
        than = f"as probable as under {rival}"
    told = f"A count above 0 that was held out is {_times(times)} {than}"
    if math.isfinite(zero[0]) and math.isfinite(zero[1]):
        told += f"; the log PPD of zeros is {zero[0]:.4f} against {zero[1]:.4f}"
    yield f"{told}."


def _times(ratio: float) -> str:
    if ratio < 2.0:
        return f"{ratio - 1:.0%}"
    if ratio < 10.0:
        return f"{ratio:.1f} times"
    return f"{float(f'{ratio:.2g}'):,.0f} times" if ratio < 1e9 else "more than a billion times"


def _intervals(table: "pd.DataFrame", record: Record) -> tuple[bool, str]:
    """Whether intervals hold fewer or more counts than they should, in a sentence with advice."""
    enough = table.attrs["busy"] >= _FEW_BUSY
    cells = table.attrs["busy" if enough else "cells"]
    busy = f"the {table.attrs['busy']:,} busy cells (a count is likely there)"
    suffix, where = ("_busy", busy) if enough else ("", "all cells")
    shares = {level: float(table[f"coverage_{level}{suffix}"].iloc[0]) for level in _NEAR}
    errors = {level: float(table[f"coverage_{level}{suffix}_se"].iloc[0]) for level in _NEAR}
    told = f"In {where}, 50% intervals hold {shares[50]:.0%} of the counts and 90% intervals {shares[90]:.0%}"
    off = {
        level: share - level / 100
        for level, share in shares.items()
        if abs(share - level / 100) > max(_NEAR[level], _CLEAR * _error_if_right(level / 100, cells, errors[level]))
    }
    if not off:
        return False, f"{told}: intervals can be trusted."
    if max(off.values()) < 0:
        return True, f"{told}: intervals are too narrow; {_for_narrow(record)}."
    if min(off.values()) > 0:
        return True, f"{told}: intervals are too wide; longer chains, or a larger budget, narrow them."
    return True, f"{told}: the predictive distribution has the wrong shape; {_for_narrow(record)}."


def _error_if_right(level: float, cells: int, error: float) -> float:
    """The standard error of a share of counts if intervals are right: at least that of as many independent cells.

    The observed error is over fibres. It may be larger, because cells of a fibre are alike; with few cells, or with
    almost all of them inside, it is too small.
    """
    independent = math.sqrt(level * (1.0 - level) / max(1, cells))
    return independent if math.isnan(error) else max(error, independent)


def _for_narrow(record: Record) -> str:
    if record.spec.likelihood == "poisson":
        return f"{_NEGATIVE_BINOMIAL} expects bursts, and widens them"
    if record.spec.likelihood == "negative-binomial" and record.spec.dispersion_by is None:
        return "more chains, or a dispersion for each row of a mode (dispersion_by), may help"
    return "more chains, and more draws, may help"


def _caveats(table: "pd.DataFrame", record: Record) -> Iterator[str]:
    known, tensor = table.attrs, record.tensor
    if known["positive"] < _FEW_POSITIVE:
        yield f"Few of these cells are positive ({known['positive']}): hold out more to be sure."
    if known["along"] is None:
        yield "Standard errors are over cells: they are too small if the cells of a fibre are alike."
    if name_of_mean(tensor) not in table.index:
        last = tensor.mode_names[-1]
        why = "the held-out fibres run along it" if known["along"] == last else "most fibres along it are missing whole"
        yield f"There is no baseline '{name_of_mean(tensor)}': {why}, so nothing of them was observed."
    if known["draws"] < known["all_draws"]:
        yield f"Judged by {known['draws']} of the {known['all_draws']} draws; post.evaluate() takes all of them."


def heading(table: "pd.DataFrame") -> str:
    """What was scored: cells, positive ones, and fibres."""
    known = table.attrs
    where = f", in {plural(known['fibres'], 'fibre')} along {known['along']}" if known["along"] else ""
    scored = "Scored" if known["trained"] else "Held out"
    return f"{scored}: {plural(known['cells'], 'cell')}, {known['positive']:,} of them positive{where}"


def score_rows(table: "pd.DataFrame") -> list[list[str]]:
    """The table as text, a list for each row: the name, scores with standard errors, coverage in percent."""
    return [
        [
            str(name),
            *(_with_error(row[column], row[f"{column}_se"]) for column in _WITH_ERRORS),
            *("-" if math.isnan(row[half]) else f"{row[half]:.0%}, {row[most]:.0%}" for half, most in _SHARES),
        ]
        for name, row in table.iterrows()
    ]


def _with_error(value: float, error: float) -> str:
    if math.isnan(value):
        return "-"
    if math.isnan(error) or error < 1e-9:
        return f"{value:.4f}"
    digits = max(0, 1 - math.floor(math.log10(error)))  # two of the error
    return f"{value:.{digits}f} \u00b1 {error:.{digits}f}"

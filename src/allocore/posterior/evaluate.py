"""How well a fit predicts held-out cells, compared with baselines fitted to the same cells (baselines.py).

For each prediction, the scores are the means over the held-out cells of

    log PPD       the log predictive probability of the count: of all cells, of positive cells and of zeros
    MAE           |y - expected count|
    CRPS          sum_k ( F(k) - 1{k >= y} )^2, with F the predictive distribution (scores.py)
    KL            y ln(y / mu) - y + mu, with mu the expected count: half of the Poisson deviance of mu
    coverage      whether u is within (0.25, 0.75), (0.05, 0.95): the central 50% and 90% intervals

with u = F(y - 1) + v (F(y) - F(y - 1)), v uniform: the randomised probability integral transform, uniform if the
predictions are right (Czado, Gneiting and Held 2009). Most cells of a sparse tensor are almost certainly zero and say
little about intervals. So coverage is also computed for *busy* cells, to which the prediction gives a count above 0
with a probability of at least one half. The choice depends on the prediction, not on the count, so u stays uniform.

The AUC and the average precision say how well P(y > 0) ranks cells with counts before zeros (ranking.py).

Cells of a fibre share the values of other modes, so standard errors are taken over fibres, which were drawn at random:
with the mean x of n cells in G fibres, se^2 = G / (G - 1) sum_f (sum of x_i - x in fibre f)^2 / n^2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import kl_div

from allocore._text import plain_number, plural
from allocore.findings import Finding, Level, sentences
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.baselines import baselines, name_of_mean
from allocore.posterior.predict import Mixtures, cell_mixtures, number_of_draws, sampled
from allocore.posterior.ranking import auc, average_precision, ranks
from allocore.posterior.scores import MixtureScores, mixture_scores
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys
from allocore.tensor.holdout import HeldOut
from allocore.tensor.missing import covered

MODEL = "model"
LEVELS = (50, 90)
_NUMBERS_AT_ONCE = 10_000_000
_SEED = 20240502
# Cells times draws, beyond which `brief` takes fewer draws: half a minute with Q = 100 on two processors.
_BRIEF, _LEAST_DRAWS = 200_000_000, 20
_GLANCE = 10_000_000  # the same for a diagnosis: a second or two


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well a run predicts held-out cells, compared with simple baselines, as `Posterior.evaluate` returns it.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for the `model`, and one for each baseline: `one rate`, `independence` (the product of margins),
        `mean over <last mode>`, the mean of the cells that differ in that mode only, if they were observed, and for
        networks `degree product` and `common neighbours`. `log_ppd`, also of `positive` and `zero` cells; `mae`, the
        mean absolute error of the expected count; `crps`, the ranked probability score; `kl`, the mean KL divergence
        of the expected count, half of its Poisson deviance; `auc` and `average_precision` of the ranking of cells with
        counts before zeros; `coverage_50` and `coverage_90`, the share of counts within their central intervals,
        also of `busy` cells, whose count is above 0 with a predicted probability of at least one half; and `behind`, by
        how much the log PPD is below the model's. Columns with the suffix `_se` have standard errors over fibres. Its
        `attrs` have the numbers of `cells`, of those that are `positive` or `busy`, and of `fibres`.
    findings : tuple of Finding
        Whether the model predicts better than the best baseline, then what else the table shows.
    pit_N, busy_N, fibre_N : ndarray
        For each cell, the probability integral transform, whether the cell is busy, and the number of its fibre.

    Examples
    --------
    >>> import allocore as ac
    >>> test = ac.hold_out(Y, fraction=0.01, seed=1).test
    >>> found = post.evaluate(test, allow_training=True)
    >>> found.table.index[0], len(found.pit_N) == len(test)
    ('model', True)
    """

    table: pd.DataFrame
    findings: tuple[Finding, ...]
    pit_N: Floats = field(repr=False)
    busy_N: Flags = field(repr=False)
    fibre_N: Ints = field(repr=False)

    @property
    def level(self) -> Level:
        """The level of the first finding: "good", "caution" or "poor"."""
        return self.findings[0].level

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words; the first says whether the model predicts better than the best baseline."""
        return sentences(self.findings)

    def __str__(self) -> str:
        first, *others = self.sentences
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([heading(self.table), f"{self.level.capitalize()}: {first}", "", numbers, "", *others])

    def _repr_html_(self) -> str:
        first, *others = self.sentences
        items = "".join(f"<li>{escape(each)}</li>" for each in others)
        numbers = self.table.to_html(float_format=lambda number: f"{number:.4g}")
        verdict = f"<strong>{self.level.capitalize()}: {escape(first)}</strong>"
        return f"<p>{escape(heading(self.table))}<br>{verdict}</p>{numbers}<ul>{items}</ul>"


def evaluate(record: Record, test: HeldOut, threads: int, *, brief: bool = False) -> Evaluation:
    """Score held-out cells; `brief` averages over fewer draws if there are very many cells."""
    return _evaluate(record, test, threads, _BRIEF if brief else None)


def evaluate_some(record: Record, test: HeldOut, threads: int) -> Evaluation:
    """Score held-out cells in a second or two: by fewer draws, and if there are very many cells, in some fibres."""
    step = -(-len(test) * _LEAST_DRAWS // _GLANCE)
    if step > 1:
        chosen_N = test.fibres % step == 0
        test = replace(test, coords=test.coords[:, chosen_N], counts=test.counts[chosen_N])
    return _evaluate(record, test, threads, _GLANCE)


def _evaluate(record: Record, test: HeldOut, threads: int, most: int | None) -> Evaluation:
    """Score held-out cells; `most` is how many cells times draws there may be."""
    every = number_of_draws(record)
    used = record
    if most is not None and every * len(test) > most:
        used = sampled(record, max(_LEAST_DRAWS, most // len(test)))
    fibre_N = test.fibres
    uniform_N = np.random.default_rng(_SEED).random(len(test))
    coords_MN, counts_N = test.coords.astype(np.int64), test.counts.astype(np.int64)
    scores = score_cells(used, coords_MN, counts_N, threads)
    model_N, pit_N, busy_N = scores.log_density_N, pit(scores, uniform_N), scores.zero_N <= 0.5
    rows = {MODEL: _row(scores, counts_N, fibre_N, pit_N)}
    with Workers(threads) as workers:
        exposures = [record.spec.exposure(mode) for mode in range(record.tensor.ndim)]
        for name, mixtures in baselines(record.tensor, record.spec.observation, coords_MN, exposures):
            scores = _score_alike(record.spec.observation, mixtures, counts_N, workers)
            rows[name] = _row(scores, counts_N, fibre_N, pit(scores, uniform_N), model_N)
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("prediction")
    table.attrs |= {
        "cells": len(test),
        "positive": int(np.count_nonzero(counts_N)),
        "busy": int(np.count_nonzero(busy_N)),
        "fibres": int(fibre_N.max()) + 1,
        "along": None if test.along is None else record.tensor.mode_names[test.along],
        "trained": int(np.count_nonzero(~covered(coords_MN, record.tensor.missing))),
        "draws": number_of_draws(used),
        "all_draws": every,
    }
    return Evaluation(table, tuple(_findings(table, record)), pit_N, busy_N, fibre_N)


def mean_scores(record: Record, test: HeldOut, threads: int) -> dict[str, float]:
    """Return what `compare` shows of the expected count and of the ranking, without standard errors."""
    scores = score_cells(record, test.coords.astype(np.int64), test.counts.astype(np.int64), threads)
    rank_N, positive_N = ranks(scores), test.counts > 0
    ranking = {"auc": auc(rank_N, positive_N)[0], "average_precision": average_precision(rank_N, positive_N)[0]}
    return {"kl": float(kl_div(test.counts, scores.mean_N).mean()), **ranking}


def score_cells(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> MixtureScores:
    """Return the scores of cells under all draws, in blocks of cells."""
    scores_6N, draws = np.empty((len(MixtureScores._fields), len(counts_N))), number_of_draws(record)
    order_N, at_once = np.lexsort(coords_MN[::-1]), max(1, _NUMBERS_AT_ONCE // draws)  # sorted cells share products
    blocks = [order_N[start : start + at_once] for start in range(0, len(order_N), at_once)]
    with Workers(threads) as workers:
        for chosen in watched(blocks, len(blocks), "scoring held-out cells"):
            mixtures = cell_mixtures(record, coords_MN[:, chosen], threads)
            scores_6N[:, chosen] = mixture_scores(record.spec.observation, mixtures, counts_N[chosen], workers)
    return MixtureScores(*scores_6N)


def _score_alike(likelihood: Likelihood, mixtures: Mixtures, counts_N: Ints, workers: Workers) -> MixtureScores:
    """The scores under a single draw; cells with the same rate and count are scored once."""
    _, rate_N = np.unique(mixtures.rates_NS, return_inverse=True)
    (keys_N,) = column_keys([len(counts_N), int(counts_N.max()) + 1], np.stack([rate_N.ravel(), counts_N]))
    _, first_U, same_N = np.unique(keys_N, return_index=True, return_inverse=True)
    few = mixture_scores(likelihood, mixtures.taken(first_U), counts_N[first_U], workers)
    return MixtureScores(*(each_U[same_N] for each_U in few))


def pit(scores: MixtureScores, uniform_N: Floats) -> Floats:
    """Return the randomised probability integral transform of the counts."""
    return scores.below_N + uniform_N * (scores.up_to_N - scores.below_N)


def inside(pit_N: Floats, level: int) -> Flags:
    """Return whether counts are within their central intervals of `level` percent."""
    return np.abs(pit_N - 0.5) <= level / 200.0


def _row(
    scores: MixtureScores, counts_N: Ints, fibre_N: Ints, pit_N: Floats, model_N: Floats | None = None
) -> dict[str, float]:
    """The scores of one prediction by column; `model_N` has the log density of the model, to be compared with."""
    everywhere, busy_N = np.ones(len(counts_N), dtype=bool), scores.zero_N <= 0.5
    parts: list[tuple[str, Floats, Flags]] = [
        ("log_ppd", scores.log_density_N, everywhere),
        ("log_ppd_positive", scores.log_density_N, counts_N > 0),
        ("log_ppd_zero", scores.log_density_N, counts_N == 0),
        ("mae", np.abs(counts_N - scores.mean_N), everywhere),
        ("crps", scores.crps_N, everywhere),
        ("kl", np.asarray(kl_div(counts_N, scores.mean_N), dtype=np.float64), everywhere),
    ]
    for suffix, where in (("", everywhere), ("_busy", busy_N)):
        parts += [(f"coverage_{level}{suffix}", inside(pit_N, level).astype(float), where) for level in LEVELS]
    if model_N is not None:
        with np.errstate(invalid="ignore"):
            parts.append(("behind", model_N - scores.log_density_N, everywhere))
    row = {}
    for name, values_N, where in parts:
        row[name], row[f"{name}_se"] = clustered_mean(values_N[where], fibre_N[where])
    rank_N = ranks(scores)
    for name, measure in (("auc", auc), ("average_precision", average_precision)):
        row[name], influence_N = measure(rank_N, counts_N > 0)
        row[f"{name}_se"] = clustered_error(np.bincount(fibre_N, influence_N).astype(np.float64), 1)
    return row if model_N is not None else {**row, "behind": 0.0, "behind_se": 0.0}


def clustered_mean(values_n: Floats, fibre_n: Ints) -> tuple[float, float]:
    """The mean of cells and its standard error over fibres; NaN where there are no cells, or fewer than two fibres."""
    if not len(values_n):
        return np.nan, np.nan
    mean = float(values_n.mean())
    if not np.isfinite(mean):
        return mean, np.nan
    _, place_n = np.unique(fibre_n, return_inverse=True)
    return mean, clustered_error(np.bincount(place_n, values_n - mean).astype(np.float64), len(values_n))


def clustered_error(sums_F: Floats, number: int) -> float:
    """The standard error of a mean of `number` cells, from sums over fibres of differences to it; NaN for one fibre."""
    fibres = len(sums_F)
    return float(np.sqrt(fibres / (fibres - 1) * (sums_F**2).sum())) / number if fibres > 1 else np.nan


HEADINGS = (
    "", "log PPD", "positive cells", "zeros", "MAE", "CRPS", "KL", "AUC", "precision", "in 50%, 90%", "busy cells",
)  # fmt: skip
COLUMNS = (
    "log PPD: mean log predictive probability of a cell, of all cells, positive ones and zeros; higher is better. "
    "MAE: mean absolute error; CRPS: the same for the whole distribution; KL: divergence of the expected count; lower "
    "is better. AUC, precision: how well cells with counts are ranked before zeros; higher is better. "
    "After \u00b1: standard errors. In 50%, 90%: the share of counts in such intervals, of all cells and of busy ones."
)
_WITH_ERRORS = ("log_ppd", "log_ppd_positive", "log_ppd_zero", "mae", "crps", "kl", "auc", "average_precision")
_SHARES = (("coverage_50", "coverage_90"), ("coverage_50_busy", "coverage_90_busy"))
_Row: TypeAlias = dict[str, float]

_CLEAR = 2.0  # a difference is clear if it is larger than this many standard errors
_NEAR = {50: 0.05, 90: 0.03}  # how far the coverage of intervals may be from what it should be
_FEW_CELLS, _FEW_POSITIVE, _FEW_BUSY = 30, 30, 50


def _findings(table: pd.DataFrame, record: Record) -> Iterator[Finding]:
    known = table.attrs
    # In the first three cases, the scores do not show how well the model predicts.
    if known["trained"]:
        yield Finding("evaluation-trained", "caution", {"trained": known["trained"], "cells": known["cells"]})
    elif known["cells"] < _FEW_CELLS:
        yield Finding("evaluation-few-cells", "caution", {"cells": known["cells"]})
    elif known["positive"] == known["cells"]:
        yield Finding("evaluation-no-zeros", "caution")
    else:
        rows: dict[str, _Row] = table.to_dict("index")  # type: ignore[assignment]
        own, *others = rows
        baseline = max(others, key=lambda name: rows[name]["log_ppd"])
        intervals = _intervals(table, record)
        yield _against(rows[own], rows[baseline], baseline, intervals_off=intervals.level != "good")
        positive, zero = ((rows[own][name], rows[baseline][name]) for name in ("log_ppd_positive", "log_ppd_zero"))
        if np.isfinite(positive).all():
            values = {"baseline": baseline, "log_ratio": positive[0] - positive[1]}
            yield Finding("positive-cells", values={**values, "zeros": zero if np.isfinite(zero).all() else None})
        if table["auc"].notna().all():
            best = max(others, key=lambda name: rows[name]["auc"])
            ranked = {"baseline": best, "auc": rows[own]["auc"], "baseline_auc": rows[best]["auc"]}
            yield Finding("zeros-ranked", values=ranked)
        yield intervals
    yield from _caveats(table, record)


def _against(own: _Row, other: _Row, baseline: str, *, intervals_off: bool) -> Finding:
    if own["log_ppd"] == -math.inf:
        return Finding("evaluation-impossible", "poor")
    difference, error = other["behind"], other["behind_se"]
    scores: dict[str, Any] = {"baseline": baseline, "log_ppd": own["log_ppd"], "baseline_log_ppd": other["log_ppd"]}
    scores["difference"] = difference
    if math.isnan(error):
        return Finding("evaluation-one-fibre", "caution", {**scores, "better": difference > 0.0})
    scores["error"] = error
    if difference > _CLEAR * error:
        level: Level = "caution" if intervals_off else "good"
        return Finding("evaluation-better", level, {**scores, "intervals_off": intervals_off})
    if difference < -_CLEAR * error:
        return Finding("evaluation-worse", "poor", scores)
    return Finding("evaluation-unclear", "caution", scores)


def _intervals(table: pd.DataFrame, record: Record) -> Finding:
    enough = table.attrs["busy"] >= _FEW_BUSY
    cells, suffix = (table.attrs["busy"], "_busy") if enough else (table.attrs["cells"], "")
    shares = {level: float(table[f"coverage_{level}{suffix}"].iloc[0]) for level in _NEAR}
    errors = {level: float(table[f"coverage_{level}{suffix}_se"].iloc[0]) for level in _NEAR}
    off = []
    for level, share in shares.items():
        # The observed error over fibres may be larger than that of independent cells, because cells of a fibre are
        # alike. With few cells, or with almost all of them inside, it is too small.
        independent = math.sqrt(level / 100 * (1.0 - level / 100) / max(1, cells))
        error = np.fmax(errors[level], independent)
        if abs(share - level / 100) > max(_NEAR[level], _CLEAR * error):
            off.append(share - level / 100)
    coverage = {"busy": cells if enough else None, "half": shares[50], "most": shares[90]}
    if not off:
        return Finding("intervals-right", "good", coverage)
    if min(off) > 0:
        return Finding("intervals-wide", "caution", coverage)
    remedy = "negative-binomial" if record.spec.likelihood == "poisson" else "more-draws"
    if record.spec.likelihood == "negative-binomial" and record.spec.dispersion_by is None:
        remedy = "dispersion-by"
    kind = "intervals-narrow" if max(off) < 0 else "intervals-wrong"
    return Finding(kind, "caution", {**coverage, "remedy": remedy})


def _caveats(table: pd.DataFrame, record: Record) -> Iterator[Finding]:
    known, tensor = table.attrs, record.tensor
    if known["positive"] < _FEW_POSITIVE:
        yield Finding("few-positive-cells", "caution", {"positive": known["positive"]})
    if known["along"] is None:
        yield Finding("errors-over-cells")
    if name_of_mean(tensor) not in table.index:
        along = known["along"] == tensor.mode_names[-1]
        yield Finding("no-mean-baseline", values={"baseline": name_of_mean(tensor), "along": along})
    if known["draws"] < known["all_draws"]:
        yield Finding("some-draws", values={"draws": known["draws"], "all_draws": known["all_draws"]})


def heading(table: pd.DataFrame) -> str:
    """What was scored: cells, positive ones, and fibres."""
    known = table.attrs
    where = f", in {plural(known['fibres'], 'fibre')} along {known['along']}" if known["along"] else ""
    scored = "Scored" if known["trained"] else "Held out"
    return f"{scored}: {plural(known['cells'], 'cell')}, {known['positive']:,} of them positive{where}"


def score_rows(table: pd.DataFrame) -> list[list[str]]:
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
        return plain_number(value)
    digits = max(0, 1 - math.floor(math.log10(error)))  # two of the error
    return f"{value:.{digits}f} \u00b1 {error:.{digits}f}"

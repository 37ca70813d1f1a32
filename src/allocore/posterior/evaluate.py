"""How well a fit predicts held-out cells, compared with baselines fitted to the same training cells.

Baselines are simple models of the expected count mu of a cell:

    one rate            the same expected count in every cell: all counts / all observed cells
    independence        mu_d = prod_m a[m][d_m], the product of margins
    mean over <mode>    (sum of y + one rate) / (number + 1), over the observed cells that differ in the last mode only

The margins of the second are those of the observed cells: a[m][d] = y[m][d] / the sum over the observed cells of row
d of the product of the other a, mode after mode until nothing changes (iterative proportional fitting, which is maximum
likelihood for the Poisson). One count is spread evenly over the observed rows of each mode, so that no rate is zero; a
row without observed cells is like the average row. The third has one cell of the overall rate added, for the same
reason. It is left out if most cells have no observed neighbour in that mode, as in held-out fibres along it.

Each baseline has the likelihood of the run. For the negative binomial, r = mu (1 - p) / p with one p of the largest
likelihood given the mu of the observed cells, zeros included (likelihood_check.py); those of the third are
leave-one-out means there, or p would be too small. For the Bernoulli likelihood, mu is the probability of a one.

For each prediction, the scores are the means over the held-out cells of

    log PPD       the log predictive probability of the count: of all cells, of positive cells and of zeros
    MAE           |y - expected count|
    CRPS          sum_k ( F(k) - 1{k >= y} )^2, with F the predictive distribution (scores.py)
    coverage      whether u is within (0.25, 0.75), (0.05, 0.95): the central 50% and 90% intervals

with u = F(y - 1) + v (F(y) - F(y - 1)), v uniform: the randomised probability integral transform, uniform if the
predictions are right (Czado, Gneiting and Held 2009). Most cells of a sparse tensor are almost certainly zero and say
little about intervals. So coverage is also computed for *busy* cells, to which the prediction gives a count above 0
with a probability of at least one half. The choice depends on the prediction, not on the count, so u stays uniform.

Cells of a fibre share the values of other modes, so standard errors are taken over fibres, which were drawn at random:
with the mean x of n cells in G fibres, se^2 = G / (G - 1) sum_f (sum of x_i - x in fibre f)^2 / n^2.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from allocore._text import plain_number, plural
from allocore.findings import Finding, Level, sentences
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.exposure_sums import Expanded, SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.likelihood_check import likeliest_log_odds
from allocore.posterior.predict import Mixtures, cell_mixtures, number_of_draws, sampled
from allocore.posterior.scores import MixtureScores, mixture_scores
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.holdout import HeldOut
from allocore.tensor.missing import WILDCARD, Missing, by_fixed_modes, covered, signed_patterns

_MOST_CYCLES, _CONVERGED = 1000, 1e-10
_MOST_PROBABLE = 0.999


class Means(NamedTuple):
    """Expected counts: of the N cells to judge, of the training tensor's non-zeros, and of all its observed cells."""

    cells_N: Floats
    nonzeros: Floats
    total: float


def baselines(tensor: CountTensor, likelihood: Likelihood, coords_MN: Ints) -> Iterator[tuple[str, Mixtures]]:
    """Return the name of each baseline and what it predicts for some cells."""
    yield "one rate", _predicted(tensor, likelihood, one_rate(tensor, coords_MN))
    yield "independence", _predicted(tensor, likelihood, independence(tensor, coords_MN))
    means = mean_over(tensor, coords_MN, tensor.ndim - 1)
    if means is not None:
        yield name_of_mean(tensor), _predicted(tensor, likelihood, means)


def name_of_mean(tensor: CountTensor) -> str:
    """Return the name of the mean over the last mode."""
    return f"mean over {tensor.mode_names[-1]}"


def _predicted(tensor: CountTensor, likelihood: Likelihood, means: Means) -> Mixtures:
    log_odds, rates_N = 0.0, means.cells_N
    if likelihood.has_dispersion:
        log_odds, _ = likeliest_log_odds(tensor.counts, means.nonzeros, means.total)
        rates_N = rates_N * np.exp(-log_odds)
    elif likelihood.name == "bernoulli":
        rates_N = -np.log1p(-np.minimum(rates_N, _MOST_PROBABLE))
    return Mixtures(rates_N[:, None], np.zeros(len(rates_N), dtype=np.int64), np.full((1, 1), log_odds))


def one_rate(tensor: CountTensor, coords_MN: Ints) -> Means:
    """The same expected count everywhere."""
    rate = tensor.total / (tensor.volume - tensor.missing.cells)
    return Means(np.full(coords_MN.shape[1], rate), np.full(tensor.nnz, rate), float(tensor.total))


def independence(tensor: CountTensor, coords_MN: Ints) -> Means:
    """The product of margins."""
    margins = fitted_margins(tensor)
    cells_N, nonzeros = (
        np.prod([margin_D[place_N] for margin_D, place_N in zip(margins, coords, strict=True)], axis=0)
        for coords in (coords_MN, tensor.coords)
    )
    return Means(cells_N, nonzeros, float(tensor.total))


def fitted_margins(tensor: CountTensor) -> list[Floats]:
    """A vector a[m] for each mode, so that the margins of prod_m a[m][d_m] over the observed cells are those given."""
    patterns, total = SignedPatterns.of(tensor.missing), float(tensor.total)
    ones = [np.ones(length) for length in tensor.shape]
    seen = [_exposures(patterns, ones, m) > 0.5 for m in range(tensor.ndim)]
    given: list[Floats] = [
        np.where(seen_D, tensor.mode_totals(m) + 1.0 / seen_D.sum(), 0.0) * total / (total + 1.0)
        for m, seen_D in enumerate(seen)
    ]
    margins = [np.where(seen_D, counts_D / total, 1.0 / total) for seen_D, counts_D in zip(seen, given, strict=True)]
    margins[-1] *= total
    for _ in range(_MOST_CYCLES):
        change = 0.0
        for m, (seen_D, counts_D) in enumerate(zip(seen, given, strict=True)):
            exposure_D = _exposures(patterns, margins, m)
            new_D = np.full(len(seen_D), total / exposure_D[seen_D].sum())
            new_D[seen_D] = counts_D[seen_D] / exposure_D[seen_D]
            change = max(change, float(np.abs(new_D / margins[m] - 1.0).max()))
            margins[m] = new_D
        if change < _CONVERGED:
            break
    return margins


def _exposures(patterns: SignedPatterns, margins: Sequence[Floats], mode: int) -> Floats:
    """For each row of a mode, the sum over its observed cells of the product of the other margins."""
    expanded = Expanded(np.concatenate(margins)[:, None], np.array([[each.sum()] for each in margins]))
    return patterns.sums_by_row(expanded, mode, Workers(1))[:, 0]


def mean_over(tensor: CountTensor, coords_MN: Ints, mode: int) -> Means | None:
    """The mean of the observed cells that differ from a cell in one mode only; None if most cells have none."""
    others, length = [m for m in range(tensor.ndim) if m != mode], tensor.shape[mode]
    keys_N, keys_n = column_keys([tensor.shape[m] for m in others], coords_MN[others], tensor.coords[others])
    known_F, fibre_n, nonzeros_F = np.unique(keys_n, return_inverse=True, return_counts=True)
    sum_F = np.bincount(fibre_n, tensor.counts)
    number_N = length - missing_in_fibres(tensor.missing, coords_MN, mode)
    if np.count_nonzero(number_N) * 2 < len(number_N):
        return None
    place_N, rate = locate(keys_N, known_F), tensor.total / (tensor.volume - tensor.missing.cells)
    sum_N = np.where(place_N < 0, 0.0, sum_F[place_N])
    first_F = np.unique(fibre_n, return_index=True)[1]
    number_F = length - missing_in_fibres(tensor.missing, tensor.coords[:, first_F].astype(np.int64), mode)
    # Without the cell itself: (sum - y + rate) / (number - 1 + 1).
    left_out_n = (sum_F[fibre_n] - tensor.counts + rate) / number_F[fibre_n]
    zeros = float(((number_F - nonzeros_F) * (sum_F + rate) / number_F).sum())
    # Fibres without counts, except those that a pattern covers entirely.
    patterns_PM = tensor.missing.patterns
    whole = np.delete(patterns_PM[patterns_PM[:, mode] == WILDCARD], mode, axis=1)
    empty = tensor.volume // length - Missing(whole, np.delete(tensor.shape, mode).tolist()).cells - len(known_F)
    return Means((sum_N + rate) / (number_N + 1.0), left_out_n, float(left_out_n.sum()) + zeros + empty * rate)


def missing_in_fibres(missing: Missing, coords_MN: Ints, mode: int) -> Ints:
    """The number of missing cells in the fibre along a mode through each cell: signed patterns, joined to the cells."""
    patterns_PM, signs_P = signed_patterns(missing)
    weights_P = np.where(patterns_PM[:, mode] == WILDCARD, missing.shape[mode], 1) * signs_P
    others_PM = np.array(patterns_PM)
    others_PM[:, mode] = WILDCARD
    number_N = np.zeros(coords_MN.shape[1], dtype=np.int64)
    for fixed, chosen in by_fixed_modes(others_PM):
        modes, lengths = list(fixed), [missing.shape[m] for m in fixed]
        keys_N, keys_P = column_keys(lengths, coords_MN[modes], others_PM[chosen][:, modes].T)
        known, place_P = np.unique(keys_P, return_inverse=True)
        sums = np.bincount(place_P, weights_P[chosen]).astype(np.int64)
        place_N = locate(keys_N, known)
        number_N += np.where(place_N < 0, 0, sums[place_N])
    return number_N


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
        A row for the `model`, and one for each baseline: `one rate`, `independence` (the product of margins), and
        `mean over <last mode>`, the mean of the cells that differ in that mode only, if they were observed. `log_ppd`,
        also of `positive` and `zero` cells; `mae`, the mean absolute error of the expected count; `crps`, the ranked
        probability score; `coverage_50` and `coverage_90`, the share of counts within their central intervals,
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
        for name, mixtures in baselines(record.tensor, record.spec.observation, coords_MN):
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
    ]
    for suffix, where in (("", everywhere), ("_busy", busy_N)):
        parts += [(f"coverage_{level}{suffix}", inside(pit_N, level).astype(float), where) for level in LEVELS]
    if model_N is not None:
        with np.errstate(invalid="ignore"):
            parts.append(("behind", model_N - scores.log_density_N, everywhere))
    row = {}
    for name, values_N, where in parts:
        row[name], row[f"{name}_se"] = clustered_mean(values_N[where], fibre_N[where])
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


HEADINGS = ("", "log PPD", "positive cells", "zeros", "MAE", "CRPS", "in 50%, 90%", "busy cells")
COLUMNS = (
    "log PPD: mean log predictive probability of a cell, of all cells, positive ones and zeros; higher is better. "
    "MAE: mean absolute error; CRPS: the same for the whole distribution; lower is better. "
    "After \u00b1: standard errors. In 50%, 90%: the share of counts in such intervals, of all cells and of busy ones."
)
_WITH_ERRORS = ("log_ppd", "log_ppd_positive", "log_ppd_zero", "mae", "crps")
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

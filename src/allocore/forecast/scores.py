"""Scores of a forecast and of simple ones, by cell, by class and in total.

With the predictive distribution F of a count, its probability P(y), and the ends l, u of its central interval of
probability 1 - a:

    CRPS             sum over y of (F(y) - 1[y >= observed])^2                                     (posterior/scores.py)
    ignorance        -log2 P(observed)
    interval score   (u - l) + 2/a (l - observed)+ + 2/a (observed - u)+
    absolute error   |expected - observed|

All are smaller for better forecasts; the first three are proper (Gneiting and Raftery 2007).

The simple forecasts are the mean of all past periods, the last value, and the value one year before. They say what to
expect of a cell or a sum of cells, m. To be scored they need a distribution: the negative binomial with mean m + floor
and one dispersion p for all,

    y  ~  NegBin(rate (m + floor) (1 - p) / p, p)

or, for data of zeros and ones, P(y = 1) = floor + m (ceiling - floor). The floor is needed: without it, any count in a
cell without past counts would be impossible. Both numbers are those that do best in the last periods of the past, which
are forecast in the same way from those before. They are chosen twice, so that no simple forecast loses only because of
its noise: with the highest probability for the ignorance; and for the CRPS and the intervals with the smallest CRPS,
among these and some with smaller floors and less spread. The absolute error is that of m.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from allocore.classes.summary import ClassSummary
from allocore.errors import Described, InputError
from allocore.findings import Finding, Level, sentences
from allocore.forecast.compared import Compared, counts_by_period, home_cells
from allocore.forecast.periods import Coming
from allocore.forecast.time_factors import Periods
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS, Likelihood, odds_of
from allocore.posterior.cells import MOST_CELLS, Boxes, named_cells, observed_cells, term_rates, terms_of
from allocore.posterior.evaluate import clustered_error
from allocore.posterior.predict import (
    Mixtures,
    cell_mixtures,
    log_odds_table,
    mixture_quantiles,
    number_of_draws,
    sampled,
)
from allocore.posterior.scores import mixture_scores
from allocore.storage.record import Record
from allocore.tensor.cameo import respelt
from allocore.tensor.canonical import canonical
from allocore.tensor.coordinates import locate
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, trusted_tensor
from allocore.tensor.files import as_tensor
from allocore.tensor.labels import ModeLabels
from allocore.tensor.missing import WILDCARD, Missing, covered

if TYPE_CHECKING:
    import pandas as pd


Baseline = Literal["mean", "last", "year before"]
SCOPES = ("cells", "positive cells", "classes", "totals")
SCORES = ("crps", "ignorance", "interval_score", "absolute_error")
BASELINES: tuple[Baseline, ...] = ("mean", "last", "year before")
# Millions of cells are scored with some of the paths; sums, which are few, with all.
PATHS_FOR_CELLS = 128
_NUMBERS_AT_ONCE = 5_000_000
# The value "one year before" is that of one cycle before; for days and hours a cycle is shorter than a year.
_NAMES = {7: "week before", 24: "day before"}
_POISSON = -14.0  # log odds at which a negative binomial is a Poisson distribution
_CLEAR = 2.0  # standard errors
_LEAST_LOG, _MOST_LOG = -25.0, 8.0
_LOG_ODDS = (-2.0, 0.0, 1.5, 3.0, 4.5)
_PARTS_OF_FLOOR = (1.0, 0.01)
_START = (-5.0, 0.0)


@dataclass(frozen=True)
class Series:
    """Past counts of series, cells or sums, as triples; all other counts of the `number` series are zero.

    Those that are not `known_n` are means in place of missing counts. `empty` is the number of further series, which
    have no counts.
    """

    series_n: Ints
    period_n: Ints
    count_n: Ints | Floats
    known_n: Flags
    number: int
    empty: int = 0

    @classmethod
    def of_table(cls, counts_NT: Ints | Floats) -> "Series":
        """The series of a table of counts."""
        series, period = np.nonzero(counts_NT)
        return cls(series, period, counts_NT[series, period], np.ones(len(series), dtype=bool), len(counts_NT))

    def sums(self, periods: Ints) -> Floats:
        """The sums (number) over some periods."""
        chosen = np.isin(self.period_n, periods)
        return np.bincount(self.series_n[chosen], self.count_n[chosen], self.number).astype(np.float64)

    def known(self, period: int) -> Flags:
        """Which series (number) were observed in a period."""
        known = np.ones(self.number, dtype=bool)
        known[self.series_n[(self.period_n == period) & ~self.known_n]] = False
        return known


@dataclass(frozen=True)
class SimpleForecast:
    """A baseline for some of the periods that follow `origin` past ones: the expected counts (number, H), or None."""

    baseline: Baseline
    past: Periods
    year: int | None

    def means(self, series: Series, origin: int, number_H: Ints) -> Floats | None:
        """The expected counts of periods, given by number, from the rows before `origin`; None if these are too few."""
        horizon = len(number_H)
        observed = np.flatnonzero(self.past.observed_T[:origin])
        if not len(observed):
            return None
        if self.baseline == "mean":
            return np.repeat(series.sums(observed)[:, None] / len(observed), horizon, axis=1)
        if self.baseline == "last":
            return np.repeat(series.sums(observed[-1:])[:, None], horizon, axis=1)
        rows = self._a_year_before(origin, number_H, set(observed.tolist()))
        return None if rows is None else np.stack([series.sums(np.array([row])) for row in rows], axis=1)

    def _a_year_before(self, origin: int, number_H: Ints, known: set[int]) -> list[int] | None:
        """The rows one year before, or two if that is not past; None if one was not observed."""
        if (year := self.year) is None:
            return None
        row_of = {int(number): row for row, number in enumerate(self.past.number_T.tolist())}
        first = int(self.past.number_T[origin - 1]) + 1
        rows = [row_of.get(number - year * (1 + (number - first) // year), -1) for number in number_H.tolist()]
        return rows if all(row in known for row in rows) else None


class Pairs(NamedTuple):
    """Expected and observed counts, and how often each pair occurs."""

    means: Floats
    counts: Ints
    repeats: Floats


@dataclass(frozen=True)
class Noise:
    """The noise around simple forecasts."""

    likelihood: Likelihood
    floor: float
    other: float

    def mixtures(self, means_N: Floats) -> Mixtures:
        """The distributions of counts, as mixtures of one draw."""
        nowhere = np.zeros(len(means_N), dtype=np.int64)
        if self.likelihood.name == "bernoulli":
            probability_N = self.floor + np.minimum(means_N, 1.0) * (self.other - self.floor)
            return Mixtures(-np.log1p(-probability_N)[:, None], nowhere, np.zeros((1, 1)))
        log_odds = np.array([[self.other]])
        return Mixtures((means_N + self.floor)[:, None] / odds_of(log_odds), nowhere, log_odds)


def most_probable_noise(likelihood: Likelihood, pairs: Pairs) -> Noise:
    """The noise under which the observed counts are most probable."""
    binary = likelihood.name == "bernoulli"
    family = likelihood if binary else LIKELIHOODS["negative-binomial"]

    def noise(values: Floats) -> Noise:
        first, second = np.clip(values, _LEAST_LOG, _MOST_LOG)
        if binary:
            floor = 0.5 * float(expit(first))
            return Noise(family, floor, floor + (1.0 - 1e-6 - floor) * float(expit(second)))
        return Noise(family, float(np.exp(first)), float(second))

    def surprise(values: Floats) -> float:
        rates_NS, _, log_odds_RS = noise(values).mixtures(pairs.means)
        log_density = family.log_density(pairs.counts, rates_NS[:, 0], np.full(len(pairs.means), log_odds_RS[0, 0]))
        outside = np.square(values - np.clip(values, _LEAST_LOG, _MOST_LOG)).sum()
        return float(outside - pairs.repeats @ log_density)

    return noise(minimize(surprise, np.array(_START), method="Nelder-Mead").x)


def best_noise(probable: Noise, pairs: Pairs, workers: Workers) -> Noise:
    """The noise with the smallest CRPS among the most probable one and others with smaller floors or spreads."""
    binary = probable.likelihood.name == "bernoulli"
    others = [probable.other] if binary else [probable.other, *(odds for odds in _LOG_ODDS if odds < probable.other)]
    tried = [Noise(probable.likelihood, probable.floor * part, other) for part in _PARTS_OF_FLOOR for other in others]
    scores = [
        float(pairs.repeats @ mixture_scores(each.likelihood, each.mixtures(pairs.means), pairs.counts, workers).crps_N)
        for each in tried
    ]
    return tried[int(np.argmin(scores))]


def past_pairs(simple: SimpleForecast, series: Series, horizon: int) -> Pairs | None:
    """The expected and observed counts of the last periods of the past; None if the past is too short."""
    observed = np.flatnonzero(simple.past.observed_T)
    tested = observed[-min(horizon, len(observed) - 1) :]
    means = simple.means(series, int(tested[0]), simple.past.number_T[tested])
    if means is None:
        return None
    counts = np.stack([series.sums(np.array([row])) for row in tested], axis=1)
    known = np.stack([series.known(row) for row in tested.tolist()], axis=1)
    # A sum that includes means of missing cells is not a whole number.
    known_pairs = np.stack([means[known], np.rint(counts[known])])
    pairs, repeats = np.unique(known_pairs, axis=1, return_counts=True)
    means_P, counts_P = np.append(pairs, [[0.0], [0.0]], axis=1)
    return Pairs(means_P, counts_P.astype(np.int64), np.append(repeats, series.empty * len(tested)).astype(np.float64))


def score_findings(table: "pd.DataFrame") -> list[Finding]:
    """Whether the forecast is better than the simple ones in CRPS, for each scope of the table."""
    return [_judge(table.xs(scope), scope) for scope in SCOPES]  # type: ignore[arg-type]


def _judge(rows: "pd.DataFrame", scope: str) -> Finding:
    if not rows["number"].iloc[0]:
        return Finding("nothing-to-score", "note", {"scope": scope})
    others = tuple(
        {"model": str(name), "crps": float(row["crps"]), **_verdict(row)} for name, row in rows.iloc[1:].iterrows()
    )
    better = all(each["verdict"] == "better" for each in others)
    level: Level = "poor" if not better else "good" if all(each["clear"] for each in others) else "caution"
    return Finding("forecast-score", level, {"scope": scope, "crps": float(rows["crps"].iloc[0]), "others": others})


def _verdict(row: "pd.Series[float]") -> dict[str, Any]:
    """Whether the forecast is better than a simple one, and clearly so; `tested` if there is a standard error."""
    difference, error = row["crps_difference"], row["standard_error"]
    verdict = "better" if difference > 0.0 else "worse" if difference < 0.0 else "equal"
    tested = bool(np.isfinite(error) and error != 0.0)
    return {"verdict": verdict, "clear": bool(not tested or abs(difference) > _CLEAR * error), "tested": tested}


class FutureCounts(NamedTuple):
    """The counts of the coming periods; which periods are known; the counts of labels that the fit does not have."""

    tensor: CountTensor
    known: tuple[str, ...]
    unknown_counts: int
    unknown_labels: int

    def findings(self, periods: tuple[str, ...]) -> list[Finding]:
        """What of the coming periods could not be scored."""
        found = []
        if len(self.known) < len(periods):
            found.append(Finding("periods-scored", "note", {"periods": self.known}))
        if self.unknown_counts:
            values = {"counts": self.unknown_counts, "labels": self.unknown_labels}
            found.append(Finding("labels-without-forecast", "note", values))
        return found


def future_counts(given: object, future: CountTensor, mode: int) -> FutureCounts:
    """The tensor `given` with the modes, labels and missing cells of the forecast.

    A label that `given` does not have had no events; a coming period that it does not have is missing.
    """
    theirs = as_tensor(given)
    order = _order(theirs, future)
    rows = [_rows(theirs.labels[o], future.labels[m]) for m, o in enumerate(order)]
    if (rows[mode] < 0).all():
        asked, last = ", ".join(map(str, future.labels[mode])), theirs.labels[order[mode]][-1]
        raise InputError(
            "Y_future",
            Described(f"a tensor that ends in {last}"),
            f"must have at least one of the periods {asked} in mode {future.mode_names[mode]!r}",
        )
    coords_MN = np.array([rows[m][theirs.coords[o]] for m, o in enumerate(order)])
    in_time, known_N = coords_MN[mode] >= 0, (coords_MN >= 0).all(axis=0)
    new_labels = sum(len(np.unique(theirs.coords[o][in_time & (coords_MN[m] < 0)])) for m, o in enumerate(order))
    lost = int(theirs.counts[in_time & ~known_N].sum())
    missing = future.missing.union(_missing(theirs, future, order, rows, mode))
    coords, counts = coords_MN[:, known_N], theirs.counts[known_N]
    observed = ~covered(coords, missing)
    cells, totals = canonical(coords[:, observed], counts[observed], future.shape)
    parts = CanonicalParts(cells, totals, future.shape, future.mode_names, future.labels, missing)
    known = tuple(str(future.labels[mode][row]) for row in np.unique(rows[mode][rows[mode] >= 0]))
    return FutureCounts(trusted_tensor(parts), known, lost, new_labels)


def _order(theirs: CountTensor, future: CountTensor) -> list[int]:
    """The position in `theirs` of each mode of the forecast."""
    if sorted(theirs.mode_names) != sorted(future.mode_names):
        given = Described(f"a tensor with the modes {', '.join(theirs.mode_names)}")
        rule = f"must have the modes of the fitted tensor, {', '.join(future.mode_names)}"
        raise InputError("Y_future", given, rule)
    return [theirs.mode_names.index(name) for name in future.mode_names]


def _rows(theirs: ModeLabels, ours: ModeLabels) -> Ints:
    """The row of the forecast for each of their labels; -1 if it has none."""
    row_of = {str(label): row for row, label in enumerate(ours)}
    spelt = map(str, theirs) if isinstance(theirs, range) else respelt(theirs, row_of)
    return np.array([row_of.get(label, -1) for label in spelt], dtype=np.int64)


def _missing(theirs: CountTensor, future: CountTensor, order: list[int], rows: list[Ints], mode: int) -> Missing:
    """Their missing cells in our rows, and the coming periods that they do not have."""
    given_PM = theirs.missing.patterns[:, order]
    moved_PM = np.stack(
        [np.where(column_P == WILDCARD, WILDCARD, rows[m][column_P]) for m, column_P in enumerate(given_PM.T)], axis=1
    )
    kept_PM = moved_PM[((moved_PM >= 0) | (given_PM == WILDCARD)).all(axis=1)]
    absent = np.setdiff1d(np.arange(future.shape[mode]), rows[mode])
    whole_PM = np.full((len(absent), future.ndim), WILDCARD, dtype=np.int64)
    whole_PM[:, mode] = absent
    return Missing(np.concatenate([kept_PM, whole_PM]), future.shape)


class Future(NamedTuple):
    """A forecast, as data: its paths, its periods, what of it can be compared with the past, and the classes."""

    record: Record
    coming: Coming
    compared: Compared
    classes: Callable[[], ClassSummary]
    threads: int


def score_forecast(forecast: Future, given: object, interval: float) -> "pd.DataFrame":
    """The table of `Forecast.evaluate`."""
    import pandas as pd

    mode = forecast.coming.mode
    future = future_counts(given, forecast.compared.tensor, mode)
    if future.tensor.volume > MOST_CELLS:
        raise InputError(
            "Y_future",
            Described(f"a tensor with {future.tensor.volume:,} cells in the coming periods"),
            f"must have at most {MOST_CELLS:,}, zeros included: forecast fewer periods, or fit fewer labels",
        )
    with Workers(forecast.threads) as workers:
        tables = _score_cells(forecast, future.tensor, interval, workers)
        sums: dict[str, list[Any]] = {"classes": home_cells(forecast.classes(), mode), "totals": [{}]}
        for scope, cells in sums.items():
            tables[scope] = _score_sums(forecast, future.tensor, cells, interval, workers)
    rows = {(scope, name): row for scope, tally in tables.items() for name, row in tally.rows().items()}
    found = pd.DataFrame.from_dict(rows, orient="index")
    found.index = pd.MultiIndex.from_tuples(list(rows), names=["scope", "model"])
    findings = (
        *score_findings(found),
        *forecast.coming.findings,
        *forecast.compared.findings(),
        *future.findings(forecast.coming.labels),
    )
    # As plain data, because pandas writes `attrs` as JSON.
    found.attrs |= {"findings": [asdict(each) for each in findings], "sentences": sentences(findings)}
    return found


class ScoreSums:
    """Scores added up: of the forecast and of the simple ones, and their differences by unit, a cell or a sum."""

    def __init__(self, names: list[str], units: int) -> None:
        self._names, self._total_FK, self._number = names, np.zeros((len(names), len(SCORES))), 0
        self._difference_FU, self._number_U = np.zeros((len(names), units)), np.zeros(units)

    def add(self, scores_FKN: Floats, unit_N: Ints) -> None:
        """Add the scores of cells that belong to some units."""
        self._total_FK += scores_FKN.sum(axis=2)
        self._number += len(unit_N)
        units = len(self._number_U)
        self._number_U += np.bincount(unit_N, minlength=units)
        for own_U, scores_KN in zip(self._difference_FU, scores_FKN, strict=True):
            own_U += np.bincount(unit_N, scores_KN[0] - scores_FKN[0, 0], units)

    @property
    def number(self) -> int:
        """The number of cells or sums."""
        return self._number

    def rows(self) -> dict[str, dict[str, float]]:
        """The mean scores of each; the difference of the CRPS to that of the forecast, and its standard error."""
        found = {}
        for name, total_K, own_U in zip(self._names, self._total_FK, self._difference_FU, strict=True):
            number = max(self._number, 1)
            difference = own_U.sum() / number
            error = clustered_error((own_U - difference * self._number_U)[self._number_U > 0], number)
            row = {"number": self._number, **dict(zip(SCORES, (total_K / number).tolist(), strict=True))}
            is_forecast = name == self._names[0]
            row |= {
                "crps_difference": np.nan if is_forecast else difference,
                "standard_error": np.nan if is_forecast else error,
            }
            found[name] = row
        return found


def score(likelihood: Likelihood, mixtures: Mixtures, counts_N: Ints, interval: float, workers: Workers) -> Floats:
    """The scores (4, N) of counts."""
    levels_L = np.array([0.5 - interval / 2, 0.5 + interval / 2])
    low_N, high_N = mixture_quantiles(likelihood, mixtures, levels_L, workers)
    outside_N = np.maximum(low_N - counts_N, 0) + np.maximum(counts_N - high_N, 0)
    found = mixture_scores(likelihood, mixtures, counts_N, workers)
    return np.stack(
        [
            found.crps_N,
            -found.log_density_N / np.log(2.0),
            high_N - low_N + 2.0 / (1.0 - interval) * outside_N,
            np.abs(found.mean_N - counts_N),
        ]
    )


class _Simple(NamedTuple):
    """A baseline: the expected count of each series in each coming period, (number, horizon), and its noise.

    `noise` has the smallest CRPS in the past, `probable` the highest probability.
    """

    name: str
    means: Floats
    noise: Noise
    probable: Noise

    def score(self, means_N: Floats, counts_N: Ints, interval: float, workers: Workers) -> Floats:
        """The scores (4, N) of counts; the absolute error is that of the mean alone, without noise."""
        likelihood = self.noise.likelihood
        scores_KN = score(likelihood, self.noise.mixtures(means_N), counts_N, interval, workers)
        probable = mixture_scores(likelihood, self.probable.mixtures(means_N), counts_N, workers)
        scores_KN[1] = -probable.log_density_N / np.log(2.0)
        scores_KN[3] = np.abs(means_N - counts_N)
        return scores_KN


def _baselines(forecast: Future, likelihood: Likelihood, series: Series, workers: Workers) -> list[_Simple]:
    """The baselines that the past allows. One that cannot be tested on the past has the noise of the last value."""
    coming, found = forecast.coming, []
    horizon, rows, noises = len(coming.labels), len(coming.past.number_T), None
    following = coming.past.number_T[-1] + 1 + np.arange(horizon)
    for name in BASELINES:
        simple = SimpleForecast(name, coming.past, coming.year)
        means, pairs = simple.means(series, rows, following), past_pairs(simple, series, horizon)
        if pairs is not None:
            probable = most_probable_noise(likelihood, pairs)
            noises = best_noise(probable, pairs, workers), probable
        if means is not None and noises is not None:
            found.append(_Simple(_NAMES.get(coming.year or 0, name) if name == "year before" else name, means, *noises))
    return found


def _score_cells(forecast: Future, future: CountTensor, interval: float, workers: Workers) -> dict[str, ScoreSums]:
    """The scores of all cells, zeros included, and of the positive ones."""
    record, mode = sampled(forecast.record, PATHS_FOR_CELLS), forecast.coming.mode
    past, compared, likelihood = forecast.compared.past, forecast.compared.tensor, record.spec.observation
    others = [m for m in range(future.ndim) if m != mode]
    lengths = [future.shape[m] for m in others]
    active, series_n = np.unique(np.ravel_multi_index(tuple(past.coords_Mn[others]), lengths), return_inverse=True)
    empty = (compared.volume - compared.missing.cells) // len(forecast.coming.labels) - len(active)
    series = Series(series_n.ravel(), past.coords_Mn[mode], past.count_n, past.known_n, len(active), empty)
    simple = _baselines(forecast, likelihood, series, workers)
    units = int(np.prod(lengths))
    tallies = {
        name: ScoreSums(["forecast", *(each.name for each in simple)], units) for name in ("cells", "positive cells")
    }
    for coords_MN, counts_N in _in_blocks(future, number_of_draws(record)):
        own_N = np.ravel_multi_index(tuple(coords_MN[others]), lengths)
        place_N = locate(own_N, active)
        scores = [score(likelihood, cell_mixtures(record, coords_MN, forecast.threads), counts_N, interval, workers)]
        for each in simple:
            means_N = np.where(place_N < 0, 0.0, each.means[place_N, coords_MN[mode]])
            scores.append(each.score(means_N, counts_N, interval, workers))
        some = counts_N > 0
        tallies["cells"].add(np.array(scores), own_N)
        tallies["positive cells"].add(np.array(scores)[:, :, some], own_N[some])
    return tallies


def _in_blocks(future: CountTensor, draws: int) -> Iterator[tuple[Ints, Ints]]:
    at_once = max(1, _NUMBERS_AT_ONCE // draws)
    for coords_MN, counts_N in observed_cells(future):
        for start in range(0, len(counts_N), at_once):
            yield coords_MN[:, start : start + at_once], counts_N[start : start + at_once]


def _score_sums(
    forecast: Future, future: CountTensor, cells: list[Any], interval: float, workers: Workers
) -> ScoreSums:
    """The scores of sums of cells in every coming period that is known.

    Forecast, past and future are summed over the same cells: those that are not missing from `future` in the period. A
    sum without any such cell is not scored.
    """
    mode, negative_binomial = forecast.coming.mode, LIKELIHOODS["negative-binomial"]
    record, units = replace(forecast.record, tensor=future), max(len(cells), len(forecast.coming.labels))
    counts_NH = counts_by_period(future, future.coords.astype(np.int64), future.counts, cells, mode).astype(np.int64)
    tally = ScoreSums(["forecast"], units)
    for h in np.flatnonzero(future.missing.observed_rows(mode)).tolist():
        past_NT = forecast.compared.past.by_period(cells, future, h)
        some = np.flatnonzero(np.isfinite(past_NT[:, 0]))
        if not len(some):
            continue
        simple = _baselines(forecast, negative_binomial, Series.of_table(past_NT[some]), workers)
        if not tally.number:
            tally = ScoreSums(["forecast", *(each.name for each in simple)], units)
        named = [{**cells[n], future.mode_names[mode]: forecast.coming.labels[h]} for n in some.tolist()]
        likelihood, mixtures = sum_mixtures(record, named_cells(named, future)[0], forecast.threads)
        counts_N = counts_NH[some, h]
        scores = [score(likelihood, mixtures, counts_N, interval, workers)]
        scores += [each.score(each.means[:, h], counts_N, interval, workers) for each in simple]
        tally.add(np.array(scores), some if len(cells) > 1 else np.array([h]))
    return tally


def sum_mixtures(record: Record, boxes: Boxes, threads: int) -> tuple[Likelihood, Mixtures]:
    """The distributions of sums of cells.

    They are exact if there is one dispersion or none. Other sums have in each draw the negative binomial distribution
    with their mean and variance, or the Poisson distribution if the variance is not larger than the mean.
    """
    likelihood, draws, number = record.spec.observation, number_of_draws(record), boxes.places_MN.shape[1]
    terms, table_RS = terms_of(record, boxes, 0, missing=False), log_odds_table(record)
    places = list(np.ndindex(record.core_values.shape[:2]))
    exact = len(terms.owner_T) == number and likelihood.name != "bernoulli"
    mean_NS, variance_NS = np.empty((number, draws)), np.empty((number, draws))
    for s, rates_T in enumerate(term_rates(record, boxes, terms, places, threads)):
        log_odds_T = table_RS[terms.odds_row_T, s]
        mean_NS[:, s] = rates_T if exact else terms.added_up(likelihood.mean(rates_T, log_odds_T), number)
        variance_NS[:, s] = 0.0 if exact else terms.added_up(likelihood.variance(rates_T, log_odds_T), number)
    if exact:
        return likelihood, Mixtures(mean_NS, terms.odds_row_T, table_RS)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds_NS = np.maximum(np.nan_to_num(np.log(variance_NS / mean_NS - 1.0), nan=_POISSON), _POISSON)
    return LIKELIHOODS["negative-binomial"], Mixtures(mean_NS / odds_of(log_odds_NS), np.arange(number), log_odds_NS)

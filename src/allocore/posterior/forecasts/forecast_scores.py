"""Scores of a forecast and of simple ones, by cell, by class and in total.

With the predictive distribution F of a count, its probability P(y), and the ends l, u of its central interval of
probability 1 - a:

    CRPS             sum over y of (F(y) - 1[y >= observed])^2                                     (mixture_scores.py)
    ignorance        -log2 P(observed)
    interval score   (u - l) + 2/a (l - observed)+ + 2/a (observed - u)+
    absolute error   |expected - observed|

All are smaller for better forecasts; the first three are proper (Gneiting and Raftery 2007).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from allocore.data.coordinates import locate
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS, Likelihood, odds_of
from allocore.posterior.cell_sums import Boxes, term_rates, terms_of
from allocore.posterior.compared_cells import counts_by_period
from allocore.posterior.evaluation import clustered_error
from allocore.posterior.forecasts.class_forecasts import home_cells
from allocore.posterior.forecasts.forecast_baselines import (
    Baseline,
    Noise,
    Series,
    SimpleForecast,
    best_noise,
    most_probable_noise,
    past_pairs,
)
from allocore.posterior.forecasts.forecast_words import words
from allocore.posterior.forecasts.future_counts import happened
from allocore.posterior.mixture_quantiles import Mixtures, mixture_quantiles
from allocore.posterior.mixture_scores import mixture_scores
from allocore.posterior.prediction import cell_mixtures, log_odds_table, number_of_draws, sampled
from allocore.posterior.scored_cells import MOST_CELLS, observed_cells
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.forecasts.forecast import Forecast

SCORES = ("crps", "ignorance", "interval_score", "absolute_error")
BASELINES: tuple[Baseline, ...] = ("mean", "last", "year before")
# Millions of cells are scored with some of the paths; sums, which are few, with all.
PATHS_FOR_CELLS = 128
_NUMBERS_AT_ONCE = 5_000_000
_DAYS = 7
_HOURS = 24
_POISSON = -14.0  # log odds at which a negative binomial is a Poisson distribution


def evaluate(forecast: "Forecast", given: object, interval: float) -> "pd.DataFrame":
    """The table of `Forecast.evaluate`."""
    import pandas as pd

    future, mode = happened(given, forecast._compared.tensor, forecast.coming.mode), forecast.coming.mode
    if future.tensor.volume > MOST_CELLS:
        raise InputError(
            f"the coming periods have {future.tensor.volume:,} cells, but at most {MOST_CELLS:,} can be scored, zeros "
            "included: forecast fewer periods, or fit fewer labels"
        )
    with Workers(forecast._threads) as workers:
        tables = _score_cells(forecast, future.tensor, interval, workers)
        summary = forecast.fitted.class_summary()
        sums: dict[str, list[Any]] = {"classes": home_cells(summary, mode), "totals": [{}]}
        for scope, cells in sums.items():
            tables[scope] = _score_sums(forecast, future.tensor, cells, interval, workers)
    rows = {(scope, name): row for scope, tally in tables.items() for name, row in tally.rows().items()}
    found = pd.DataFrame.from_dict(rows, orient="index")
    found.index = pd.MultiIndex.from_tuples(list(rows), names=["scope", "model"])
    found.attrs["words"] = words(found, future, forecast)
    return found


class Tally:
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
    """A baseline: what it expects of each series in each coming period, (number, horizon), and its noise.

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


def _baselines(forecast: "Forecast", likelihood: Likelihood, series: Series, workers: Workers) -> list[_Simple]:
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
            found.append(_Simple(_name(name, forecast), means, *noises))
    return found


def _name(baseline: Baseline, forecast: "Forecast") -> str:
    cycles = {_DAYS: "week before", _HOURS: "day before"}
    return cycles.get(forecast.coming.year or 0, baseline) if baseline == "year before" else baseline


def _score_cells(forecast: "Forecast", future: CountTensor, interval: float, workers: Workers) -> dict[str, Tally]:
    """The scores of all cells, zeros included, and of the positive ones."""
    record, mode = sampled(forecast.record, PATHS_FOR_CELLS), forecast.coming.mode
    past, compared, likelihood = forecast._compared.past, forecast._compared.tensor, record.spec.observation
    others = [m for m in range(future.ndim) if m != mode]
    lengths = [future.shape[m] for m in others]
    active, series_n = np.unique(np.ravel_multi_index(tuple(past.coords_Mn[others]), lengths), return_inverse=True)
    empty = (compared.volume - compared.missing.cells) // len(forecast.periods) - len(active)
    series = Series(series_n.ravel(), past.coords_Mn[mode], past.count_n, past.known_n, len(active), empty)
    simple = _baselines(forecast, likelihood, series, workers)
    units = int(np.prod(lengths))
    tallies = {
        name: Tally(["forecast", *(each.name for each in simple)], units) for name in ("cells", "positive cells")
    }
    for coords_MN, counts_N in _in_blocks(future, number_of_draws(record)):
        own_N = np.ravel_multi_index(tuple(coords_MN[others]), lengths)
        place_N = locate(own_N, active)
        scores = [score(likelihood, cell_mixtures(record, coords_MN, forecast._threads), counts_N, interval, workers)]
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
    forecast: "Forecast", future: CountTensor, cells: list[Any], interval: float, workers: Workers
) -> Tally:
    """The scores of sums of cells in every coming period that is known.

    Forecast, past and future are summed over the same cells: those of `future` that are not missing in the period. A
    sum without such a cell is not scored.
    """
    mode, negative_binomial = forecast.coming.mode, LIKELIHOODS["negative-binomial"]
    record, units = replace(forecast.record, tensor=future), max(len(cells), len(forecast.periods))
    counts_NH = counts_by_period(future, future.coords.astype(np.int64), future.counts, cells, mode).astype(np.int64)
    tally = Tally(["forecast"], units)
    for h in np.flatnonzero(future.missing.observed_rows(mode)).tolist():
        past_NT = forecast._compared.past.by_period(cells, future, h)
        some = np.flatnonzero(np.isfinite(past_NT[:, 0]))
        if not len(some):
            continue
        simple = _baselines(forecast, negative_binomial, Series.of_table(past_NT[some]), workers)
        if not tally.number:
            tally = Tally(["forecast", *(each.name for each in simple)], units)
        named = [{**cells[n], forecast.mode: forecast.periods[h]} for n in some.tolist()]
        likelihood, mixtures = sum_mixtures(record, forecast._future._named(named)[0], forecast._threads)
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

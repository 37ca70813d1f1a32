"""Simple forecasts to compare with: the mean of all past periods, the last value, the value one year before.

They say what to expect of a cell or a sum of cells, m. To be scored they need a distribution: the negative binomial
with mean m + floor and one dispersion p for all,

    y  ~  NegBin(rate (m + floor) (1 - p) / p, p)

or, for data of zeros and ones, P(y = 1) = floor + m (ceiling - floor). The floor is needed: a cell without counts in
the past would make every count impossible. Both numbers are those that do best in the last periods of the past, which
are forecast in the same way from those before. They are chosen twice, so that no simple forecast is beaten for its
noise alone: with the highest probability for the ignorance; and for the CRPS and the intervals with the smallest CRPS,
among these and some with smaller floors and less spread. The absolute error is that of m.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS, Likelihood, odds_of
from allocore.posterior.forecasts.time_factors import Periods
from allocore.posterior.mixture_quantiles import Mixtures
from allocore.posterior.mixture_scores import mixture_scores

Baseline = Literal["mean", "last", "year before"]
_LEAST_LOG, _MOST_LOG = -25.0, 8.0
_LOG_ODDS = (-2.0, 0.0, 1.5, 3.0, 4.5)
_PARTS_OF_FLOOR = (1.0, 0.01)
_START = (-5.0, 0.0)


@dataclass(frozen=True)
class Series:
    """Past counts of series, cells or sums, as triples; all other counts of the `number` series are zero.

    Those that are not `known_n` are means that stand for missing counts. `empty` is the number of further series,
    without any count.
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
        """What the rows before `origin` let one expect of later periods, given by number; None if they are too few."""
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
    """What the baseline expects of the last periods of the past, and what was; None if the past is too short."""
    observed = np.flatnonzero(simple.past.observed_T)
    tested = observed[-min(horizon, len(observed) - 1) :]
    means = simple.means(series, int(tested[0]), simple.past.number_T[tested])
    if means is None:
        return None
    counts = np.stack([series.sums(np.array([row])) for row in tested], axis=1)
    known = np.stack([series.known(row) for row in tested.tolist()], axis=1)
    # A sum with means for some of its missing cells is no whole number.
    told = np.stack([means[known], np.rint(counts[known])])
    pairs, repeats = np.unique(told, axis=1, return_counts=True)
    means_P, counts_P = np.append(pairs, [[0.0], [0.0]], axis=1)
    return Pairs(means_P, counts_P.astype(np.int64), np.append(repeats, series.empty * len(tested)).astype(np.float64))

"""Quantiles of counts under the posterior predictive, which is a mixture: the likelihood averaged over S draws.

The quantile of level q is the smallest count y with

    1/S sum_s P(Y <= y | r_s, p_s)  >=  q.

It is exact. Most cells of a sparse tensor have small rates. Their probabilities are added up from zero on, each from
the one before: P(y + 1) / P(y) = (a r + b y) / (y + 1), with a = 1, b = 0 for the Poisson and a = b = p for the
negative binomial (Panjer 1981). Where P(0) underflows in some draw, or the walk is long, the count is found by
bisection with the incomplete gamma or beta function, between bounds by Cantelli's inequality. A Bernoulli count needs
P(0) alone.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood

_CELLS_PER_THREAD = 256
# The longest walk; a bisection takes about as long.
_LONGEST_WALK = 1000
# Above this latent rate P(0) comes near the smallest floats.
_FAR_FROM_ZERO = 600.0
_MOST_COUNT = 2.0**62


class Mixtures(NamedTuple):
    """The rates of N sums of cells in S draws, and their log odds of the dispersion: row `odds_row_N` of a table."""

    rates_NS: Floats
    odds_row_N: Ints
    log_odds_RS: Floats

    def taken(self, places: NDArray[np.intp]) -> "Mixtures":
        """Some of the sums."""
        return Mixtures(self.rates_NS[places], self.odds_row_N[places], self.log_odds_RS)


class _Recursions(NamedTuple):
    """c, a and b of the likelihood for each row of the table of log odds, (R, S)."""

    scale_RS: Floats
    slope_RS: Floats
    step_RS: Floats


class _Limits(NamedTuple):
    """Where the walk from zero gives up: at a latent rate, and after so many counts."""

    far: float
    longest: int


def mixture_quantiles(likelihood: Likelihood, mixtures: Mixtures, levels_L: Floats, workers: Workers) -> Ints:
    """The quantiles (L, N) of the counts; the levels must increase."""
    if likelihood.name == "bernoulli":
        zero_N = np.exp(-mixtures.rates_NS).mean(axis=1)
        return np.asarray(zero_N[None, :] < levels_L[:, None], dtype=np.int64)
    log_odds_RS = mixtures.log_odds_RS
    given = _Recursions(likelihood.latent_scale(log_odds_RS), *likelihood.recursion(log_odds_RS))
    found_LN = np.full((len(levels_L), len(mixtures.rates_NS)), -1, dtype=np.int64)
    cuts = workers.ranges(found_LN.shape[1], _CELLS_PER_THREAD)
    rates_NS, odds_row_N, _ = mixtures
    limits = _Limits(_FAR_FROM_ZERO, _LONGEST_WALK)
    workers.run([partial(_walk, *cut, rates_NS, odds_row_N, given, levels_L, limits, found_LN) for cut in cuts])
    hard = np.flatnonzero(found_LN[-1] < 0)
    pieces = [hard[slice(*cut)] for cut in workers.ranges(len(hard), 16)]
    workers.run([partial(_bisect, likelihood, mixtures, piece, levels_L, found_LN) for piece in pieces])
    return found_LN


@kernel
def _walk(
    first: int, last: int, rates_NS: Floats, odds_row_N: Ints, given: _Recursions, levels_L: Floats, limits: _Limits,
    found_LN: Ints,
) -> None:  # fmt: skip
    """Fill `found_LN` for cells `first` to `last` where the walk from zero gets there; elsewhere it stays -1."""
    scale_RS, slope_RS, step_RS = given
    far, longest = limits
    draws = rates_NS.shape[1]
    density_S = np.empty(draws)
    for n in range(first, last):
        row, total, near = odds_row_N[n], 0.0, True
        for s in range(draws):
            latent = scale_RS[row, s] * rates_NS[n, s]
            near = near and latent <= far
            density_S[s] = np.exp(-latent)
            total += density_S[s]
        if not near:
            continue
        level = 0
        for count in range(longest):
            while level < levels_L.size and total >= levels_L[level] * draws:
                found_LN[level, n] = count
                level += 1
            if level == levels_L.size:
                break
            for s in range(draws):
                ratio = slope_RS[row, s] * rates_NS[n, s] + step_RS[row, s] * count
                density_S[s] *= ratio / (count + 1.0)
                total += density_S[s]


def _bisect(
    likelihood: Likelihood, mixtures: Mixtures, places: NDArray[np.intp], levels_L: Floats, found_LN: Ints
) -> None:
    """Fill `found_LN` at some places by bisection."""
    rates_HS, odds_row_H, log_odds_RS = mixtures.taken(places)
    log_odds_HS = log_odds_RS[odds_row_H]
    mean_HS, spread_HS = likelihood.mean(rates_HS, log_odds_HS), np.sqrt(likelihood.variance(rates_HS, log_odds_HS))
    for found_N, level in zip(found_LN, levels_L.tolist(), strict=True):
        least_H = (mean_HS - spread_HS * np.sqrt((1.0 - level) / level)).min(axis=1, initial=_MOST_COUNT)
        most_H = (mean_HS + spread_HS * np.sqrt(level / (1.0 - level))).max(axis=1, initial=0.0)
        low_H = np.clip(np.floor(least_H), 0.0, _MOST_COUNT).astype(np.int64)
        high_H = np.clip(np.ceil(most_H), 0.0, _MOST_COUNT).astype(np.int64)
        while (low_H < high_H).any():
            middle_H = (low_H + high_H) // 2
            enough_H = likelihood.cdf(middle_H[:, None], rates_HS, log_odds_HS).mean(axis=1) >= level
            low_H, high_H = np.where(enough_H, low_H, middle_H + 1), np.where(enough_H, middle_H, high_H)
        found_N[places] = high_H

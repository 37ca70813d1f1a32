"""Scores of counts under the posterior predictive, which is a mixture: the likelihood averaged over S draws.

With F(k) = 1/S sum_s P(Y <= k | r_s, p_s) and the count y that was observed:

    log density      log ( F(y) - F(y - 1) )
    PIT              between F(y - 1) and F(y)                                  Czado, Gneiting and Held (2009)
    CRPS             sum_{k >= 0} ( F(k) - 1{k >= y} )^2                        the ranked probability score of counts

As in predict.py, probabilities are added up from zero on, each from the one before. If P(0) underflows in a draw, its
probabilities are multiplied by e^600, or a power of that, until they matter. The walk goes on beyond y, until the rest
of the sum is certainly below a billionth of it: with m = sup of P(k + 1) / P(k) over all draws from here on, 1 - F
falls at least by m with each step, and 1 - F(k) <= P(k) m / (1 - m).

If the walk would be long, the sum is made by Gauss's rule for whole numbers, in ranges that begin and end where the
distribution of a draw does: a rule for a long range would miss a draw that changes in a small part of it.

Gauss's rule for the whole numbers 0, .., n - 1 has m nodes, between them, and sums polynomials of degree 2 m - 1
exactly; with m = n the nodes are the numbers themselves. Its nodes and weights come from the recurrence of the discrete
Chebyshev (Gram) polynomials,

    b_k = k^2 (n^2 - k^2) / (4 (4 k^2 - 1)),   k = 1, .., m - 1,   centre (n - 1) / 2,

by the eigenvalues of their tridiagonal matrix (Golub and Welsch 1969; Gautschi 2004, section 1.5). A range is halved
until the rule for it and the rules for its halves agree.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.jit import kernel, part
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.predict import Mixtures, Recursions, mixture_quantiles

Function: TypeAlias = Callable[[Ints, Floats], Floats]  # f(cells_P, points_PK): P ranges, each of one cell, at K points
NODES = 12
_RANGES_AT_ONCE, _CELLS_PER_THREAD = 512, 256
_LONGEST_WALK = 20_000  # beyond it Gauss's rule is quicker
_SHIFT, _SHIFT_BACK = 600.0, np.exp(300.0)
_TOLERANCE = 1e-9
_LEAST_DENSITY = 1e-250  # below this, the sum of the probabilities may have lost digits, or underflowed
_END = 1e-12
_WIDE = 10.0  # standard deviations around its mean within which a draw has nearly all its probability


def gauss_sums(function: Function, first_C: Ints, stop_C: Ints, tolerance: float) -> Floats:
    """Return the sums of f(cell, k) over first <= k < stop for every cell; the error is relative to the sum."""
    cell_P = np.flatnonzero(stop_C > first_C)
    start_P, length_P = first_C[cell_P], (stop_C - first_C)[cell_P]
    sum_P = _by_single_rule(function, cell_P, start_P, length_P)
    total_C, size_C = np.zeros(len(first_C)), np.zeros(len(first_C))
    np.add.at(size_C, cell_P, np.abs(sum_P))
    while len(cell_P):
        half_P = length_P // 2
        halves = [
            _by_single_rule(function, cell_P, start_P, half_P),
            _by_single_rule(function, cell_P, start_P + half_P, length_P - half_P),
        ]
        done_P = (length_P <= NODES) | (np.abs(halves[0] + halves[1] - sum_P) <= tolerance * size_C[cell_P])
        np.add.at(total_C, cell_P[done_P], np.where(length_P <= NODES, sum_P, halves[0] + halves[1])[done_P])
        more = ~done_P
        sum_P = np.concatenate([each[more] for each in halves])
        start_P = np.concatenate([start_P[more], (start_P + half_P)[more]])
        length_P = np.concatenate([half_P[more], (length_P - half_P)[more]])
        cell_P = np.tile(cell_P[more], 2)
    return total_C


def _by_single_rule(function: Function, cell_P: Ints, start_P: Ints, length_P: Ints) -> Floats:
    """The sums over ranges of one number or more, each by a single rule; those of none are 0."""
    sum_P = np.zeros(len(cell_P))
    for begin in range(0, len(cell_P), _RANGES_AT_ONCE):
        cut = slice(begin, begin + _RANGES_AT_ONCE)
        rules = [gauss_rule(length) for length in length_P[cut].tolist()]
        nodes_PK, weights_PK = (np.array(each) for each in zip(*rules, strict=True))
        values_PK = function(cell_P[cut], start_P[cut, None] + nodes_PK)
        sum_P[cut] = (weights_PK * values_PK).sum(axis=1)
    return sum_P


@lru_cache(maxsize=4096)
def gauss_rule(length: int) -> tuple[Floats, Floats]:
    """Return nodes and weights for the sum over 0, .., length - 1. Some weigh 0 if there are few numbers."""
    if length <= NODES:
        return np.minimum(np.arange(NODES), max(length - 1, 0)).astype(float), (np.arange(NODES) < length).astype(float)
    k = np.arange(1.0, NODES)
    off_diagonal = np.sqrt(k**2 * (1.0 - (k / length) ** 2) / (4.0 * (4.0 * k**2 - 1.0)))
    places, vectors = np.linalg.eigh(np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))
    return (length - 1.0) / 2.0 + length * places, length * vectors[0] ** 2


class MixtureScores(NamedTuple):
    """For N cells: the log density of the count, F(y - 1), F(y), the CRPS, the expected count, and P(0)."""

    log_density_N: Floats
    below_N: Floats
    up_to_N: Floats
    crps_N: Floats
    mean_N: Floats
    zero_N: Floats


class _Scratch(NamedTuple):
    """What the walk needs for each draw: the probability of the count times a power of e^600, that power, a r and b."""

    density_S: Floats
    shifts_S: Ints
    slope_S: Floats
    step_S: Floats


def mixture_scores(likelihood: Likelihood, mixtures: Mixtures, counts_N: Ints, workers: Workers) -> MixtureScores:
    """Return the scores of the counts of N cells."""
    if likelihood.name == "bernoulli":
        return _of_zeros_and_ones(mixtures, counts_N)
    given = Recursions.of(likelihood, mixtures.log_odds_RS)
    scores_6N = np.full((6, len(counts_N)), np.nan)
    cuts = workers.ranges(len(counts_N), _CELLS_PER_THREAD)
    workers.run([partial(_walk, *cut, *mixtures[:2], counts_N, given, _LONGEST_WALK, scores_6N) for cut in cuts])
    log_density_N, _, _, crps_N, _, _ = scores_6N
    rare, hard = np.flatnonzero(np.isnan(log_density_N)), np.flatnonzero(np.isnan(crps_N))
    for start in range(0, len(rare), 64):
        places = rare[start : start + 64]
        log_density_N[places] = _log_density(likelihood, mixtures.taken(places), counts_N[places])
    for start in range(0, len(hard), 16):
        places = hard[start : start + 16]
        scores_6N[1:4, places] = _by_rule(likelihood, mixtures.taken(places), counts_N[places], workers)
    return MixtureScores(*scores_6N)


def _of_zeros_and_ones(mixtures: Mixtures, counts_N: Ints) -> MixtureScores:
    """P(0) is the mean of exp(-r). Counts above 1 are impossible: of k = 1, .., y - 1 each adds 1 to the CRPS."""
    zero_N, one_N = np.exp(-mixtures.rates_NS).mean(axis=1), -np.expm1(-mixtures.rates_NS).mean(axis=1)
    with np.errstate(divide="ignore"):
        log_density_N = np.log(np.select([counts_N == 0, counts_N == 1], [zero_N, one_N], 0.0))
    below_N = np.select([counts_N == 0, counts_N == 1], [0.0, zero_N], 1.0)
    crps_N = np.where(counts_N == 0, one_N, zero_N) ** 2 + np.maximum(counts_N - 1, 0)
    return MixtureScores(log_density_N, below_N, np.where(counts_N == 0, zero_N, 1.0), crps_N, one_N, zero_N)


@kernel
def _walk(
    first: int, last: int, rates_NS: Floats, odds_row_N: Ints, counts_N: Ints, given: Recursions, longest: int,
    scores_6N: Floats,
) -> None:  # fmt: skip
    """Fill the scores of cells `first` to `last`, in the order of `MixtureScores`; what is not found stays NaN."""
    draws = rates_NS.shape[1]
    scratch = _Scratch(np.empty(draws), np.empty(draws, dtype=np.int64), np.empty(draws), np.empty(draws))
    for n in range(first, last):
        row, most_mean, mean, zero = odds_row_N[n], 0.0, 0.0, 0.0
        for s in range(draws):
            expected = given.mean_RS[row, s] * rates_NS[n, s]
            mean += expected
            zero += np.exp(-given.scale_RS[row, s] * rates_NS[n, s])
            most_mean = max(most_mean, expected)
        scores_6N[4, n] = mean / draws
        scores_6N[5, n] = zero / draws
        if most_mean <= longest:
            _walk_cell(n, row, rates_NS, counts_N[n], given, longest, scratch, scores_6N)


@part
def _walk_cell(
    n: int, row: int, rates_NS: Floats, observed: int, given: Recursions, longest: int, scratch: _Scratch,
    scores_6N: Floats,
) -> None:  # fmt: skip
    draws = rates_NS.shape[1]
    waiting, most_slope, most_step, here = _start(n, row, rates_NS, given, scratch)
    total, crps, below, up_to, density, found, count = 0.0, 0.0, 0.0, 1.0, 0.0, False, 0
    for count in range(longest):
        total += here
        part_below = min(total / draws, 1.0)
        crps += part_below**2 if count < observed else (1.0 - part_below) ** 2
        if count == observed - 1:
            below = part_below
        if count == observed:
            up_to, density = part_below, here / draws
        ratio = max((most_slope + most_step * count) / (count + 1.0), most_step)
        found = waiting == 0 and ratio < 1.0 and _is_enough(count, observed, here / draws, ratio, crps)
        if found:
            break
        if waiting > 0:
            waiting, here = _step_from_afar(count, waiting, scratch)
        else:
            here = _step(count, scratch)
    if found and count < observed - 1:  # F is 1 from here up to the count: each k adds 1
        crps, below = crps + observed - 1.0 - count, 1.0
    if found:
        scores_6N[1, n], scores_6N[2, n], scores_6N[3, n] = below, up_to, crps
        if density > _LEAST_DENSITY:
            scores_6N[0, n] = np.log(density)


@part
def _is_enough(count: int, observed: int, density: float, ratio: float, crps: float) -> bool:
    """Whether what is left of the sum is negligible; P(k + 1) / P(k) is at most `ratio` from this count on."""
    beyond = density * ratio / (1.0 - ratio)  # at least 1 - F
    if count >= observed:
        return (beyond * ratio) ** 2 / (1.0 - ratio**2) <= _TOLERANCE * crps
    left = observed - 1.0 - count
    return beyond <= _END and 2.0 * beyond * ratio / (1.0 - ratio) <= _TOLERANCE * (crps + left)


@part
def _start(n: int, row: int, rates_NS: Floats, given: Recursions, scratch: _Scratch) -> tuple[int, float, float, float]:
    """P(0) of each draw. Returns how many draws wait to count, the largest a r and b, and the sum of those that do."""
    waiting, most_slope, most_step, here = 0, 0.0, 0.0, 0.0
    for s in range(rates_NS.shape[1]):
        latent = given.scale_RS[row, s] * rates_NS[n, s]
        shift = int(latent / _SHIFT)
        scratch.shifts_S[s] = shift
        scratch.density_S[s] = np.exp(shift * _SHIFT - latent)
        scratch.slope_S[s], scratch.step_S[s] = given.slope_RS[row, s] * rates_NS[n, s], given.step_RS[row, s]
        most_slope, most_step = max(most_slope, scratch.slope_S[s]), max(most_step, scratch.step_S[s])
        if shift > 0:
            waiting += 1
        else:
            here += scratch.density_S[s]
    return waiting, most_slope, most_step, here


@part
def _step(count: int, scratch: _Scratch) -> float:
    """Go from P(count) to P(count + 1); returns the sum over the draws, in four parts that vectorise."""
    density_S, _, slope_S, step_S = scratch
    number, inverse, whole = float(count), 1.0 / (count + 1.0), density_S.size - density_S.size % 4
    for s in range(density_S.size):
        density_S[s] *= (slope_S[s] + step_S[s] * number) * inverse
    sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
    for s in range(0, whole, 4):
        sum_0 += density_S[s]
        sum_1 += density_S[s + 1]
        sum_2 += density_S[s + 2]
        sum_3 += density_S[s + 3]
    for s in range(whole, density_S.size):
        sum_0 += density_S[s]
    return (sum_0 + sum_1) + (sum_2 + sum_3)


@part
def _step_from_afar(count: int, waiting: int, scratch: _Scratch) -> tuple[int, float]:
    """The same where the probabilities of some draws are still too small to count."""
    density_S, shifts_S, slope_S, step_S = scratch
    here = 0.0
    for s in range(density_S.size):
        density_S[s] *= (slope_S[s] + step_S[s] * count) / (count + 1.0)
        if shifts_S[s] > 0 and density_S[s] > _SHIFT_BACK:
            density_S[s] *= np.exp(-_SHIFT)
            shifts_S[s] -= 1
            waiting -= shifts_S[s] == 0
        if shifts_S[s] == 0:
            here += density_S[s]
    return waiting, here


def _log_density(likelihood: Likelihood, mixtures: Mixtures, counts_H: Ints) -> Floats:
    log_odds_HS = mixtures.log_odds_RS[mixtures.odds_row_N]
    counts_HS = np.broadcast_to(counts_H[:, None], log_odds_HS.shape)
    log_density_HS = likelihood.log_density(counts_HS, mixtures.rates_NS, log_odds_HS)
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(log_density_HS, axis=1) - np.log(log_odds_HS.shape[1]))


def _by_rule(likelihood: Likelihood, mixtures: Mixtures, counts_H: Ints, workers: Workers) -> Floats:
    """F(y - 1), F(y) and the CRPS, (3, H), for distributions that stretch over very many counts."""
    rates_HS, log_odds_HS = mixtures.rates_NS, mixtures.log_odds_RS[mixtures.odds_row_N]

    def cdf(cells_P: Ints, points_PK: Floats) -> Floats:
        given = rates_HS[cells_P, None, :], log_odds_HS[cells_P, None, :]
        return np.asarray(likelihood.cdf(points_PK[:, :, None], *given).mean(axis=2))

    every = np.arange(len(counts_H))
    up_to_H = cdf(every, counts_H[:, None].astype(float))[:, 0]
    below_H = np.where(counts_H > 0, cdf(every, np.maximum(counts_H - 1.0, 0.0)[:, None])[:, 0], 0.0)
    low_H, high_H = mixture_quantiles(likelihood, mixtures, np.array([_END, 1.0 - _END]), workers)
    # Below `low` F is 0, above `high` it is 1, so that a count outside adds 1 for each k in between.
    crps_H = np.maximum(low_H - counts_H, 0.0) + np.maximum(counts_H - high_H - 1.0, 0.0)
    mean_HS, spread_HS = likelihood.mean(rates_HS, log_odds_HS), np.sqrt(likelihood.variance(rates_HS, log_odds_HS))
    for reached in (0.0, 1.0):
        first_H, stop_H = (low_H, counts_H) if reached == 0.0 else (np.maximum(counts_H, low_H), high_H + 1)
        cell_P, first_P, stop_P = _ranges(first_H, np.minimum(stop_H, high_H + 1), mean_HS, spread_HS)

        def squares(which: Ints, points: Floats, cell_P: Ints = cell_P, reached: float = reached) -> Floats:
            return np.asarray((cdf(cell_P[which], points) - reached) ** 2)

        crps_H += np.bincount(cell_P, gauss_sums(squares, first_P, stop_P, _TOLERANCE), len(counts_H))
    return np.stack([below_H, up_to_H, crps_H])


def _ranges(first_H: Ints, stop_H: Ints, mean_HS: Floats, spread_HS: Floats) -> tuple[Ints, Ints, Ints]:
    """Ranges of counts that make up those of each cell, cut where its draws begin and end, and at powers of 8."""
    found: list[tuple[int, int, int]] = []
    for cell, (first, stop) in enumerate(zip(first_H.tolist(), stop_H.tolist(), strict=True)):
        if stop > first:
            inner = _ends(mean_HS[cell] - _WIDE * spread_HS[cell], mean_HS[cell] + _WIDE * spread_HS[cell])
            cuts = {first, stop, *(int(cut) for cut in inner if first < cut < stop)}
            cuts |= {8**power for power in range(2, 21) if first < 8**power < stop}
            found += [(cell, start, end) for start, end in pairwise(sorted(cuts))]
    cell_P, first_P, stop_P = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return cell_P, first_P, stop_P


def _ends(low_S: Floats, high_S: Floats) -> list[float]:
    """The ends of the union of some intervals."""
    ends: list[float] = []
    for low, high in sorted(zip(np.floor(low_S).tolist(), np.ceil(high_S).tolist(), strict=True)):
        if ends and low <= ends[-1]:
            ends[-1] = max(ends[-1], high)
        else:
            ends += [low, high]
    return ends


def quartiles(values: "pd.Series[float]") -> tuple[float, float, float]:
    """Return the three quartiles, ignoring NaN; what is between minus infinity and a number is minus infinity."""
    known = values.dropna().to_numpy(dtype=float)
    if not known.size:
        return (np.nan,) * 3
    parts = (0.25, 0.5, 0.75)
    with np.errstate(invalid="ignore"):  # interpolating from minus infinity gives NaN
        between = np.quantile(known, parts)
    low, middle, high = np.where(np.isneginf(np.quantile(known, parts, method="lower")), -np.inf, between).tolist()
    return low, middle, high

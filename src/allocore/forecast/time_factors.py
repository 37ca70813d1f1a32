"""The time factors of all draws, continued beyond the last period.

The count of factor k of the mode of time in period t, in one draw, is the expected latent count of its classes,

    y[t, k]  =  phi[t, k] X[t, k]
    X[t, k]  =  c sum over classes q at k of lambda_q (sum over the observed cells of the period of the other factors)

and follows the discount model below. If periods have known weights w (model/spec.py), X below stands for w X, and phi
for phi / w. The exposure of a factor in a period is X relative to its largest X. A period has a weight equal to its
exposure, in the level and in all that is learned: where no cell of a factor was observed, phi is a draw from its prior
and carries no information. A coming period has the noise of a full one, and phi w as its factor.

All factors of all draws share one distribution over settings of that model: the weights of a grid that maximise the
product, over the factors, of the probability of their counts, each period predicted from the ones before (nonparametric
maximum likelihood by EM; Laird 1978). A factor then has its own weights, by Bayes' rule. A path draws a setting from
them, then a rate mu for one period after the other, and phi[t, k] = mu / X of the period with the largest X.

Factors of one draw rise and fall together, because of holidays or gaps in the sources. The normal scores of their past
counts have a mean correlation rho, and so do those of the future: a Gaussian copula with one common shock per period.

If the dispersion differs by period, what continues is the expected count, phi p / (1 - p), and the dispersion of a
future period is that of an observed past one in the same draw, chosen at random for every path and period.

**The discount model** of the counts of one factor is defined by its one-step-ahead predictions. The count y of a period
is negative binomial given its level, with gamma noise of shape nu (bursts that last one period) around the Poisson
noise. The odds of the level have a beta prime distribution. So the prediction is a beta negative binomial, in closed
form:

    y[t+1] | past  ~  integral of NegBin(y; shape n, odds theta) BetaPrime(theta; b, a) over theta,  n = nu e[t+1]
                   =  G(n+y) / (y! G(n))  B(a+n, b+y) / B(a, b)

    a = 1 + d A[t]                                    A[t] = d A[t-1] + nu e[t]
    b = i[t+1] (d A[t] / nu) level[t]                 B[t] = d B[t-1] + nu y[t] / i[t]
    level[t] = (1 - w) B[t] / A[t] + w mean[t]        the expected count of the next period is e[t+1] i[t+1] level[t]
    mean[t] = (h + sum of y / i) / sum of e           h is half a count, or less if the exposures sum to less than 1

d is the discount: information about the level loses the share 1 - d of its weight every period (Smith 1979; Smith and
Miller 1986; Harvey and Fernandes 1989). B / A is the discounted mean of the counts: the mean of all periods with d = 1,
the last value as d goes to 0. w is the pull: the share of the way to the mean of all periods so far that the level
moves back in each period.

e is the exposure relative to a fully observed period. A part e of a period has noise of shape nu e, as the parts of a
gamma process do, so its count adds y and nu e: a period weighs as much as was observed of it, and an unobserved period
only discounts the past. At least as much remains known as d = 0.03 leaves of one period: a level that was observed long
ago is uncertain, not zero.

i is the index of the season, the ratio of its counts to what the level predicted, both with the mean count of s
periods added: s = infinity means no season, and i = 1.

A future path draws one period after another from these predictions, so it widens with the horizon. All functions take
arrays of any shape that broadcasts, for many factors and many settings at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import betaln, logsumexp, ndtr, ndtri

from allocore.findings import Finding
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.exposure_sums import Expanded, SignedPatterns, expand_factors, row_offsets
from allocore.kernels.workers import Workers
from allocore.model.likelihood import odds_of
from allocore.progress import watched
from allocore.storage.lazy_array import RepeatedDraws
from allocore.storage.record import Record
from allocore.tensor.count_tensor import CountTensor

_HALF = 0.5  # of a count before the first period, so that a factor without counts can still get some
_LEAST_KNOWN = 0.03
_TINY = 1e-100  # keeps a weight that is discounted for long above zero, and so its ratio to the sum


class DiscountSettings(NamedTuple):
    """Settings of the model: discount d, noise nu, pull w, season s; arrays of one shape."""

    discount: Floats
    noise: Floats
    pull: Floats
    season: Floats

    def taken(self, places: Ints) -> "DiscountSettings":
        """Return the settings at some places."""
        return DiscountSettings(*(each[places] for each in self))


class Level:
    """The state of the levels of factors after some periods; `shape` is that of factors and settings together."""

    def __init__(self, settings: DiscountSettings, shape: tuple[int, ...], cycle: int | None = None) -> None:
        self._settings = settings
        self._weight, self._sum, self._total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._periods = np.zeros(shape)
        self._has_season = bool(cycle)
        self._seen, self._predicted = np.zeros((cycle or 0, *shape)), np.zeros((cycle or 0, *shape))

    @property
    def begun(self) -> Floats:
        """How much of one period has been observed so far, from 0 to 1: the weight of predictions from it."""
        return np.minimum(self._periods, 1.0)

    def parameters(self, phase: int) -> tuple[Floats, Floats]:
        """a and b of the next period, which has this phase of the season."""
        d, noise, _, _ = self._settings
        known = np.maximum(d * self._weight, np.maximum(_LEAST_KNOWN * self.begun, _TINY) * noise)
        return 1.0 + known, self._index(phase) * known / noise * self._level()

    def add(self, counts: Floats, phase: int, exposure: Floats | float = 1.0) -> None:
        """Observe a period, or the part `exposure` of it."""
        noise, relative = self._settings.noise, counts / self._index(phase)
        if self._has_season:
            self._seen[phase] += self.begun * counts
            self._predicted[phase] += self.begun * exposure * self._level()
        self.skip(1)
        self._weight, self._sum = self._weight + noise * exposure, self._sum + noise * relative
        self._total, self._periods = self._total + relative, self._periods + exposure

    def skip(self, periods: int) -> None:
        """Skip periods that were not observed."""
        if periods:
            least = np.minimum(_TINY / np.maximum(self._weight, _TINY), 1.0)
            remains = np.maximum(self._settings.discount**periods, least)
            self._weight, self._sum = remains * self._weight, remains * self._sum

    def _level(self) -> Floats:
        """The expected count of the next period, if it is fully observed and there is no season."""
        pull, mean = self._settings.pull, self._mean()
        recent = np.divide(self._sum, self._weight, out=mean.copy(), where=self._weight > 0.0)
        return np.asarray((1.0 - pull) * recent + pull * mean)

    def _mean(self) -> Floats:
        half = np.full(self._periods.shape, _HALF)
        begun, total = self._periods > 0.0, self._total + _HALF * self.begun
        return np.asarray(np.divide(total, self._periods, out=half, where=begun))

    def _index(self, phase: int) -> Floats | float:
        if not self._has_season:
            return 1.0
        has_season = np.isfinite(self._settings.season)
        added = np.where(has_season, self._settings.season, 1.0) * self._mean()
        return np.where(has_season, (self._seen[phase] + added) / (self._predicted[phase] + added), 1.0)


def log_probability(counts: Floats, noise: Floats, a: Floats, b: Floats) -> Floats:
    """The log of the beta negative binomial probability; by gamma functions for counts that are not whole."""
    rising = -np.log(noise + counts) - betaln(noise, counts + 1.0)
    return np.asarray(rising + betaln(a + noise, b + counts) - betaln(a, b))


def draw_rates(noise: Floats, a: Floats, b: Floats, rng: np.random.Generator, times: int) -> Floats:
    """Draw the Poisson rates of a period, (times, ...): gamma noise of shape nu times the odds of the level."""
    gammas = [rng.standard_gamma(shape, (times, *np.shape(shape))) for shape in np.broadcast_arrays(noise, b, a)]
    return np.asarray(gammas[0] * gammas[1] / gammas[2])


DISCOUNTS = (0.03, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
NOISES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 128.0, 1024.0)
PULLS = (0.01, 0.05, 0.15, 0.4, 0.7)
SEASONS = (np.inf, 4.0, 1.0)
_FACTORS_TO_LEARN_FROM = 400
_STEPS_OF_EM = 200
_WEIGHT_THAT_MATTERS = 1e-3
_NUMBERS_AT_ONCE = 2_000_000
_RANKED = 16  # draws among which a normal score picks one
_MOST_CORRELATION = 0.95
_LEAST_EXPOSURE = 1e-6  # less of a period is nothing


@dataclass(frozen=True)
class Periods:
    """The periods of the past: their numbers on the calendar, which were observed, and the length of the season."""

    number_T: Ints
    observed_T: Flags
    cycle: int | None

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """The rows of the observed periods, their phases, and how many before each are absent or not observed."""
        before = int(self.number_T[0]) - 1
        for row in np.flatnonzero(self.observed_T).tolist():
            number = int(self.number_T[row])
            yield row, self.phase(number), number - before - 1
            before = number

    def phase(self, number: int) -> int:
        """The phase of the season of a period."""
        return number % self.cycle if self.cycle else 0


@dataclass(frozen=True)
class Coming:
    """The mode of time, its past, and the labels of the coming periods; `year` is the number of periods in a year.

    The coming periods are compared with `complete` ones only: the past without the incomplete periods.
    """

    mode: int
    past: Periods
    complete: Periods
    labels: tuple[str, ...]
    year: int | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class FactorCounts:
    """Time factors in use of all draws: counts, relative exposures, and `unit_C`, the largest exposure of a period."""

    draw_C: Ints
    column_C: Ints
    counts_CT: Floats
    exposure_CT: Floats
    unit_C: Floats


@dataclass(frozen=True)
class Smoothness:
    """Settings of the discount model, and the share of the factors that have each of them."""

    settings: DiscountSettings
    weights_G: Floats


def factor_counts(record: Record, mode: int) -> FactorCounts:
    """The expected latent counts of all time factors in use, and their exposures."""
    missing, offsets_M = SignedPatterns.of(record.tensor.missing), row_offsets(record.tensor.shape)
    found: list[tuple[Ints, Ints, Floats, Floats]] = []
    with Workers(1) as workers:
        places = list(np.ndindex(record.core_values.shape[:2]))
        for number, place in enumerate(watched(places, len(places), "time factors of all draws")):
            core_Q, subs_QM = record.included_classes(*place)
            phi_RQ = expand_factors([factor[place] for factor in record.factors], subs_QM)
            expanded = Expanded(phi_RQ, np.add.reduceat(phi_RQ, offsets_M[:-1], axis=0))
            exposure_TQ = core_Q * missing.sums_by_row(expanded, mode, workers, None)
            columns, at_Q = np.unique(subs_QM[:, mode], return_inverse=True)
            exposure_TC = np.stack([exposure_TQ[:, at_Q.ravel() == c].sum(axis=1) for c in range(len(columns))], axis=1)
            phi_TC = record.factors[mode][place][:, columns]
            latent, odds = _scales(record, place, mode)
            weights_T1 = 1.0 if (weights_T := record.spec.exposure(mode)) is None else weights_T[:, None]
            counts_CT, exposure_CT = (latent * phi_TC * exposure_TC).T, (latent / odds * weights_T1 * exposure_TC).T
            found.append((np.full(len(columns), number), columns, counts_CT, exposure_CT))
    draw_C, column_C, counts_CT, exposure_CT = (np.concatenate(each) for each in zip(*found, strict=True))
    unit_C = exposure_CT.max(axis=1)
    alive_C = unit_C > 0.0
    relative_CT = exposure_CT[alive_C] / unit_C[alive_C, None]
    seen_CT = relative_CT >= _LEAST_EXPOSURE
    return FactorCounts(
        draw_C[alive_C], column_C[alive_C], counts_CT[alive_C] * seen_CT, relative_CT * seen_CT, unit_C[alive_C]
    )


def _scales(record: Record, place: tuple[int, ...], mode: int) -> tuple[Floats | float, Floats | float]:
    """c of the latent counts, and the odds of each period if they differ; columns (T, 1), or numbers."""
    if record.log_odds is None:
        return 1.0, 1.0
    log_odds, likelihood = record.log_odds[place], record.spec.observation
    if record.spec.dispersion_by == mode:
        return likelihood.latent_scale(log_odds)[:, None], odds_of(log_odds)[:, None]
    # With a dispersion for each row of another mode, one scale is enough: it cancels except for the Poisson noise.
    return float(likelihood.latent_scale(log_odds).mean()), 1.0


def all_settings(cycle: int | None) -> DiscountSettings:
    """Return the grid of settings."""
    grid = np.array(list(product(DISCOUNTS, NOISES, PULLS, SEASONS if cycle else SEASONS[:1])))
    return DiscountSettings(*grid.T)


def log_scores(factors: FactorCounts, periods: Periods, settings: DiscountSettings) -> Floats:
    """The log probability of the counts of each factor under each setting, (C, G): every period from those before.

    The weight of a period is its exposure, times that of the past if it is less than one period.
    """
    number, size = len(factors.counts_CT), len(settings.discount)
    at_once = max(1, _NUMBERS_AT_ONCE // (size * (1 + 2 * (periods.cycle or 0))))
    log_CG = np.zeros((number, size))
    starts = range(0, number, at_once)
    for start in watched(starts, len(starts), "how the time factors continue"):
        some = slice(start, start + at_once)
        counts_TC1, exposure_TC1 = factors.counts_CT[some].T[..., None], factors.exposure_CT[some].T[..., None]
        level = Level(settings, (counts_TC1.shape[1], size), periods.cycle)
        for row, phase, gap in periods.steps():
            level.skip(gap)
            shape = settings.noise * np.maximum(exposure_TC1[row], _LEAST_EXPOSURE)
            log_probabilities = log_probability(counts_TC1[row], shape, *level.parameters(phase))
            log_CG[some] += exposure_TC1[row] * level.begun * log_probabilities
            level.add(counts_TC1[row], phase, exposure_TC1[row])
    return log_CG


def learn_smoothness(factors: FactorCounts, periods: Periods) -> Smoothness:
    """The weights of the grid that make the counts of the factors most probable, one step ahead."""
    number, settings = len(factors.counts_CT), all_settings(periods.cycle)
    chosen = np.unique(np.linspace(0, number - 1, min(number, _FACTORS_TO_LEARN_FROM)).round().astype(int))
    some = replace(factors, counts_CT=factors.counts_CT[chosen], exposure_CT=factors.exposure_CT[chosen])
    log_CG = log_scores(some, periods, settings)
    likely_CG = np.exp(log_CG - log_CG.max(axis=1, keepdims=True))
    weights_G = np.full(log_CG.shape[1], 1.0 / log_CG.shape[1])
    for _ in range(_STEPS_OF_EM if number else 0):
        own_CG = likely_CG * weights_G
        weights_G = (own_CG / own_CG.sum(axis=1, keepdims=True)).mean(axis=0)
    used = np.flatnonzero(weights_G >= min(_WEIGHT_THAT_MATTERS, weights_G.max()))
    return Smoothness(settings.taken(used), weights_G[used] / weights_G[used].sum())


class Paths:
    """Paths of all factors: each has a setting, drawn given its past, and a level."""

    def __init__(
        self, factors: FactorCounts, periods: Periods, smoothness: Smoothness, rng: np.random.Generator
    ) -> None:
        log_CG = log_scores(factors, periods, smoothness.settings) + np.log(smoothness.weights_G)
        self._share_CG = np.exp(log_CG - logsumexp(log_CG, axis=1, keepdims=True)).cumsum(axis=1)
        self._factors, self._periods, self._smoothness, self._rng = factors, periods, smoothness, rng
        self.correlation = self._learn_correlation()

    def _begin(self) -> tuple[DiscountSettings, Level]:
        number, size = self._share_CG.shape
        drawn_C = np.minimum((self._rng.random((number, 1)) > self._share_CG).sum(axis=1), size - 1)
        settings = self._smoothness.settings.taken(drawn_C)
        return settings, Level(settings, (number,), self._periods.cycle)

    def _learn_correlation(self) -> float:
        """The mean correlation of the normal scores of factors of the same draw and period, weighted as in scores."""
        (settings, level), squares, together = self._begin(), 0.0, 0.0
        draw_C = self._factors.draw_C
        for row, phase, gap in self._periods.steps():
            level.skip(gap)
            counts_C, exposure_C = self._factors.counts_CT[:, row], self._factors.exposure_CT[:, row]
            weight_C = exposure_C * level.begun
            if weight_C.any():
                rates = draw_rates(settings.noise * exposure_C, *level.parameters(phase), self._rng, _RANKED)
                score_C = _normal_scores(counts_C, self._rng.poisson(rates), self._rng)
                others_C = np.bincount(draw_C, weight_C)[draw_C] - weight_C
                squares += float(weight_C * score_C**2 @ others_C)
                together += float((np.bincount(draw_C, weight_C * score_C) ** 2).sum() - (weight_C**2) @ score_C**2)
            level.add(counts_C, phase, exposure_C)
        return float(np.clip(together / squares, 0.0, _MOST_CORRELATION)) if squares > 0.0 else 0.0

    def draw(self, horizon: int) -> Floats:
        """Rates mu of every factor in the coming periods, (C, horizon): one more path for each."""
        settings, level = self._begin()
        for row, phase, gap in self._periods.steps():
            level.skip(gap)
            level.add(self._factors.counts_CT[:, row], phase, self._factors.exposure_CT[:, row])
        rates = np.empty((len(self._share_CG), horizon))
        for h in range(horizon):
            phase = self._periods.phase(int(self._periods.number_T[-1]) + h + 1)
            drawn = np.sort(draw_rates(settings.noise, *level.parameters(phase), self._rng, _RANKED), axis=0)
            # The draw of uniform rank u among sorted independent draws is again a draw.
            rates[:, h] = np.take_along_axis(drawn, self._ranks()[None, :], axis=0)[0]
            level.add(self._rng.poisson(rates[:, h]).astype(float), phase)
        return rates

    def _ranks(self) -> Ints:
        """A rank among `_RANKED` draws for every factor; those of one draw are correlated."""
        draw_C = self._factors.draw_C
        common_C = self._rng.standard_normal(int(draw_C.max(initial=0)) + 1)[draw_C]
        own_C = self._rng.standard_normal(len(draw_C))
        score_C = np.sqrt(self.correlation) * common_C + np.sqrt(1.0 - self.correlation) * own_C
        ranks_C: Ints = np.minimum(np.floor(ndtr(score_C) * _RANKED), _RANKED - 1).astype(np.int64)
        return ranks_C


def _normal_scores(counts_C: Floats, drawn_RC: Ints, rng: np.random.Generator) -> Floats:
    """Normal scores of counts by their ranks among draws from their predictions; ties are broken at random."""
    below_C, equal_C = (drawn_RC < counts_C.round()).sum(axis=0), (drawn_RC == counts_C.round()).sum(axis=0)
    ranks_C = below_C + rng.random(len(counts_C)) * (equal_C + 1)
    return np.asarray(ndtri(ranks_C / (len(drawn_RC) + 1)))


def future_record(
    record: Record, mode: int, tensor: CountTensor, factors: FactorCounts, rates: Floats, rng: np.random.Generator,
    weights_H: Floats | None = None,
) -> Record:  # fmt: skip
    """The record of the coming periods, described by `tensor`: all paths of a draw after one another.

    Only the time factors and small arrays are new; large arrays are not copied.
    """
    paths, _, horizon = rates.shape
    chains, draws = record.core_values.shape[:2]
    future = np.zeros((chains * draws, paths, horizon, record.factors[mode].shape[-1]))
    future[factors.draw_C, :, :, factors.column_C] = (rates / factors.unit_C[:, None]).transpose(1, 0, 2)
    if weights_H is not None:
        future *= weights_H[:, None]
    log_odds = record.log_odds
    if log_odds is not None and record.spec.dispersion_by == mode:
        past = np.flatnonzero(record.tensor.missing.observed_rows(mode))
        drawn = rng.choice(past, (chains, draws, paths * horizon))
        log_odds = np.take_along_axis(log_odds, drawn, axis=2).reshape(chains, -1, horizon)
        future /= odds_of(log_odds).reshape(chains * draws, paths, horizon, 1)
    elif log_odds is not None:
        log_odds = np.repeat(log_odds, paths, axis=1)
    grown: list[Any] = [None if m == mode else RepeatedDraws.of(each, paths) for m, each in enumerate(record.factors)]
    grown[mode] = future.reshape(chains, draws * paths, horizon, -1)
    return replace(
        record,
        tensor=tensor,
        spec=record.spec.of_new_rows((mode,), [weights_H]),
        core_values=np.repeat(record.core_values, paths, axis=1),
        core_locations=cast("Any", RepeatedDraws.of(record.core_locations, paths)),
        factors=tuple(grown),
        log_odds=log_odds,
        concentrations=None if record.concentrations is None else np.repeat(record.concentrations, paths, axis=1),
        chosen=None,
        held_out=None,
    )


def bytes_of_a_path(record: Record, mode: int, factors: FactorCounts, horizon: int) -> int:
    """The memory that one path for each draw takes: rates, time factors, and what is copied of the draws."""
    time_factors = int(np.prod(record.core_values.shape[:2])) * horizon * record.factors[mode].shape[-1]
    small = [record.core_values, record.concentrations, record.log_odds]
    # Rates and time factors are in memory twice for a moment.
    return 16 * (len(factors.draw_C) * horizon + time_factors) + sum(each.nbytes for each in small if each is not None)

"""The time factors of all draws, carried on beyond the last period.

The count of factor k of the mode of time in period t, in one draw, is the expected latent count of its classes,

    y[t, k]  =  phi[t, k] X[t, k]
    X[t, k]  =  c sum over classes q at k of lambda_q (sum over the observed cells of the period of the other factors)

and follows the discount model of discount_model.py. Its exposure in the period is X relative to the largest X of the
factor. A period counts by its exposure, in the level and in all that is learned below: where nothing of the cells of a
factor was observed, phi is a draw from its prior and says nothing.

All factors of all draws share one distribution over settings of that model: the weights of a grid that maximise the
product, over the factors, of the probability of their counts, each period predicted from the ones before (nonparametric
maximum likelihood by EM; Laird 1978). A factor then has its own weights, by Bayes' rule. A path draws a setting from
them, then a rate mu for one period after the other, and phi[t, k] = mu / X of the period with the largest X.

Factors of one draw rise and fall together: holidays, gaps in the sources. The normal scores of their past counts have a
mean correlation rho, and so have the normal scores of the future: a Gaussian copula with one common shock per period.

If the dispersion differs by period, what goes on is the expected count, phi p / (1 - p), and the dispersion of a future
period is that of an observed past one in the same draw, drawn at random for every path and period.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from allocore.data.tensor import CountTensor
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.expansion import expand_factors, row_offsets
from allocore.kernels.signed_patterns import Expanded, SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.likelihood import odds_of
from allocore.posterior.draw_bar import watched
from allocore.posterior.forecasts.discount_model import Level, Settings, draw_rates, log_probability
from allocore.posterior.repeated_draws import RepeatedDraws
from allocore.run.record import Record

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
    """The periods of the past: where each is in a count of periods, which were observed; the length of the season."""

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
class FactorCounts:
    """Factors of the mode of time in use, of all draws: draw_C, column_C; counts and relative exposures (C, T).

    `unit_C` is the exposure of the period that has most of it.
    """

    draw_C: Ints
    column_C: Ints
    counts_CT: Floats
    exposure_CT: Floats
    unit_C: Floats


@dataclass(frozen=True)
class Smoothness:
    """Settings of the discount model, and the share of the factors that have each of them."""

    settings: Settings
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
            found.append(
                (
                    np.full(len(columns), number),
                    columns,
                    (latent * phi_TC * exposure_TC).T,
                    (latent / odds * exposure_TC).T,
                )
            )
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
    # With a dispersion for each row of another mode, one scale for all is enough: it cancels but for the Poisson noise.
    return float(likelihood.latent_scale(log_odds).mean()), 1.0


def all_settings(cycle: int | None) -> Settings:
    """The grid of settings."""
    grid = np.array(list(product(DISCOUNTS, NOISES, PULLS, SEASONS if cycle else SEASONS[:1])))
    return Settings(*grid.T)


def log_scores(factors: FactorCounts, periods: Periods, settings: Settings) -> Floats:
    """The log probability of the counts of each factor under each setting, (C, G): every period from those before.

    A period counts by its exposure, and by that of the past if this is less than one period in all: counts of small
    exposures are the prior's.
    """
    number, size = len(factors.counts_CT), len(settings.discount)
    at_once = max(1, _NUMBERS_AT_ONCE // (size * (1 + 2 * (periods.cycle or 0))))
    log_CG = np.zeros((number, size))
    starts = range(0, number, at_once)
    for start in watched(starts, len(starts), "how the time factors go on"):
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
    kept = np.flatnonzero(weights_G >= min(_WEIGHT_THAT_MATTERS, weights_G.max()))
    return Smoothness(settings.taken(kept), weights_G[kept] / weights_G[kept].sum())


class Paths:
    """Paths of all factors: each has a setting, drawn from what its past says, and a level."""

    def __init__(
        self, factors: FactorCounts, periods: Periods, smoothness: Smoothness, rng: np.random.Generator
    ) -> None:
        log_CG = log_scores(factors, periods, smoothness.settings) + np.log(smoothness.weights_G)
        self._share_CG = np.exp(log_CG - logsumexp(log_CG, axis=1, keepdims=True)).cumsum(axis=1)
        self._factors, self._periods, self._smoothness, self._rng = factors, periods, smoothness, rng
        self.correlation = self._learn_correlation()

    def _begin(self) -> tuple[Settings, Level]:
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
            # The u-th of some independent draws, in order, is again a draw, if u is uniform.
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
    record: Record, mode: int, tensor: CountTensor, factors: FactorCounts, rates: Floats, rng: np.random.Generator
) -> Record:
    """The record of the coming periods, described by `tensor`: all paths of a draw after one another.

    Only the time factors and small arrays are new; of the others nothing is copied.
    """
    paths, _, horizon = rates.shape
    chains, draws = record.core_values.shape[:2]
    future = np.zeros((chains * draws, paths, horizon, record.factors[mode].shape[-1]))
    future[factors.draw_C, :, :, factors.column_C] = (rates / factors.unit_C[:, None]).transpose(1, 0, 2)
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
    # Rates and time factors are there twice for a moment.
    return 16 * (len(factors.draw_C) * horizon + time_factors) + sum(each.nbytes for each in small if each is not None)

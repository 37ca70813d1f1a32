"""The likelihoods: how a count y is distributed given the rate r of its cell. All that is known of them is here.

    poisson             y ~ Poisson(r)
    negative-binomial   P(y) = G(y + r) / (y! G(r)) p^y (1 - p)^r,   mean r p / (1 - p), variance mean / (1 - p)
    bernoulli           P(y = 1) = 1 - exp(-r),   y is 0 or 1

Each is a Poisson model of a latent count L ~ Poisson(c r) that is zero where y is zero (gibbs/latent_counts.py):

    poisson             c = 1,            L = y
    negative-binomial   c = -ln(1 - p),   L given y ~ CRT(y, r): Zhou and Carin (2015), Zhou (2018)
    bernoulli           c = 1,            L given y = 1 ~ Poisson(r) given L >= 1: Zhou (2015), Hu, Rai and Carin (2015)

So P(y = 0) = exp(-c r) for all three. The dispersion p is kept as its log odds, t = ln p - ln(1 - p), which cannot
overflow: c = ln(1 + e^t), ln p = -ln(1 + e^-t), p / (1 - p) = e^t. Where a likelihood has no dispersion, t is not read.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, expit, gammainc, gammaincc, gammaln, xlogy

from allocore.model.spec import LikelihoodName

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[Any]

_FAR = 1e-290  # where the incomplete gamma and beta functions begin to underflow


class Likelihood:
    """One of the likelihoods; arrays of counts, rates and log odds belong to the same cells."""

    name: LikelihoodName
    has_dispersion = False

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y)."""
        raise NotImplementedError

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """log P(Y >= y) and log P(Y <= y). A rate that underflows to 0 is replaced by the smallest normal float."""
        raise NotImplementedError

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The expected count."""
        raise NotImplementedError

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The variance of the count."""
        raise NotImplementedError

    def latent_scale(self, log_odds_N: Floats) -> Floats:
        """c: the latent count has the rate c r, and a count is zero with probability exp(-c r)."""
        return np.ones_like(log_odds_N)

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw counts."""
        raise NotImplementedError


class Poisson(Likelihood):
    """The likelihood of the paper."""

    name = "poisson"

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y)."""
        return np.asarray(xlogy(counts_N, rates_N) - rates_N - gammaln(counts_N + 1.0))

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """log P(Y >= y) and log P(Y <= y), by the incomplete gamma functions."""
        y_N, r_N = counts_N.astype(float), _not_zero(rates_N)
        density_N = self.log_density(counts_N, r_N, log_odds_N)
        more_N = _in_logs(gammainc(y_N, r_N), density_N, lambda far, i: r_N[far] / (y_N[far] + i))
        fewer_N = _in_logs(gammaincc(y_N + 1, r_N), density_N, lambda far, i: (y_N[far] - i + 1.0) / r_N[far])
        return more_N, fewer_N

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The rate itself."""
        return rates_N

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The rate itself."""
        return rates_N

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw counts."""
        return rng.poisson(rates_N)


class NegativeBinomial(Likelihood):
    """For bursts: the variance is 1 / (1 - p) times the mean."""

    name = "negative-binomial"
    has_dispersion = True

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y). G(y + r) / G(r) = G(y) / B(y, r), which does not cancel for large rates."""
        y_N = np.maximum(counts_N, 1).astype(float)
        log_rising_N = gammaln(y_N) - betaln(y_N, _not_zero(rates_N))
        if_positive_N = log_rising_N - gammaln(y_N + 1.0) - y_N * np.logaddexp(0.0, -log_odds_N)
        return np.asarray(np.where(counts_N > 0, if_positive_N, 0.0) - self.latent_scale(log_odds_N) * rates_N)

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """log P(Y >= y) and log P(Y <= y), by the incomplete beta function."""
        y_N, r_N = counts_N.astype(float), _not_zero(rates_N)
        p_N, density_N = expit(log_odds_N), self.log_density(counts_N, r_N, log_odds_N)
        some_N = np.maximum(y_N, 1.0)
        more_N = _in_logs(
            np.asarray(np.where(y_N > 0, betainc(some_N, r_N, p_N), 1.0), dtype=np.float64),
            density_N,
            lambda far, i: p_N[far] * (y_N[far] + i - 1.0 + r_N[far]) / (y_N[far] + i),
        )
        fewer_N = _in_logs(
            np.asarray(betainc(r_N, y_N + 1.0, expit(-log_odds_N)), dtype=np.float64),
            density_N,
            lambda far, i: (y_N[far] - i + 1.0) / (p_N[far] * (y_N[far] - i + r_N[far])),
        )
        return more_N, fewer_N

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The expected count, r p / (1 - p)."""
        return np.asarray(rates_N * np.exp(log_odds_N))

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The mean / (1 - p)."""
        return np.asarray(self.mean(rates_N, log_odds_N) * (1.0 + np.exp(log_odds_N)))

    def latent_scale(self, log_odds_N: Floats) -> Floats:
        """c = -ln(1 - p)."""
        return np.asarray(np.logaddexp(0.0, log_odds_N))

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw counts: Poisson with gamma rates of shape r and mean r p / (1 - p)."""
        return rng.poisson(rng.standard_gamma(rates_N) * np.exp(log_odds_N))


class Bernoulli(Likelihood):
    """For binary data: whether a Poisson count is above zero."""

    name = "bernoulli"

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y); minus infinity for counts above 1."""
        with np.errstate(divide="ignore"):
            one_N = np.where(counts_N == 1, np.log(-np.expm1(-rates_N)), -np.inf)
        return np.asarray(np.where(counts_N == 0, -rates_N, one_N))

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """log P(Y >= y) and log P(Y <= y)."""
        r_N = _not_zero(rates_N)
        one_N = np.where(counts_N <= 1, np.log(-np.expm1(-r_N)), -np.inf)
        return np.where(counts_N == 0, 0.0, one_N), np.where(counts_N == 0, -r_N, 0.0)

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The probability of a one."""
        return np.asarray(-np.expm1(-rates_N))

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """P(1) P(0)."""
        return np.asarray(-np.expm1(-rates_N) * np.exp(-rates_N))

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw zeros and ones."""
        return (rng.random(np.shape(rates_N)) < -np.expm1(-rates_N)).astype(np.int64)


_ALL: tuple[Likelihood, ...] = (Poisson(), NegativeBinomial(), Bernoulli())
LIKELIHOODS: dict[LikelihoodName, Likelihood] = {each.name: each for each in _ALL}


def _not_zero(rates_N: Floats) -> Floats:
    return np.maximum(rates_N, np.finfo(float).tiny)


def _in_logs(tail_N: Floats, log_density_N: Floats, ratio: Any) -> Floats:
    """The logarithms of tail probabilities; where these underflow, log P(y) plus the log of a series relative to P(y).

    `ratio(far, i)` is the ratio of the i-th term of the series to the one before, for the cells `far`.
    """
    far = np.flatnonzero(~(tail_N > _FAR))
    log_tail_N: Floats = np.log(np.where(tail_N > _FAR, tail_N, 1.0))
    beyond, term, active, step = np.ones(len(far)), np.ones(len(far)), np.arange(len(far)), 0
    while len(active):
        step += 1
        term[active] *= ratio(far[active], step)
        beyond[active] += term[active]
        active = active[term[active] > 1e-17 * beyond[active]]
    log_tail_N[far] = log_density_N[far] + np.log(beyond)
    return log_tail_N

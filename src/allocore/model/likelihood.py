"""The likelihoods: how a count y is distributed given the rate r of its cell.

    poisson             y ~ Poisson(r)
    negative-binomial   P(y) = G(y + r) / (y! G(r)) p^y (1 - p)^r,   mean r p / (1 - p), variance mean / (1 - p)
    bernoulli           P(y = 1) = 1 - exp(-r),   y is 0 or 1

Each is a Poisson model of a latent count L ~ Poisson(c r) that is zero where y is zero (gibbs/latent_counts.py):

    poisson             c = 1,            L = y
    negative-binomial   c = -ln(1 - p),   L given y ~ CRT(y, r): Zhou and Carin (2015), Zhou (2018)
    bernoulli           c = 1,            L given y = 1 ~ Poisson(r) given L >= 1: Zhou (2015), Hu, Rai and Carin (2015)

So P(y = 0) = exp(-c r) for all three. The dispersion p is kept as its log odds, t = ln p - ln(1 - p), which cannot
overflow: c = ln(1 + e^t), ln p = -ln(1 + e^-t), p / (1 - p) = e^t. A likelihood without a dispersion does not read t.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaln, expit, gammainc, gammaincc, gammaln, xlogy

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[Any]

_FAR = 1e-290  # where the incomplete gamma and beta functions begin to underflow
_TINY_RATE = 1e-30  # up to here a tail is proportional to the rate, to all digits
_MOST_LOG_ODDS = 600.0  # beyond this, products of odds and rates would overflow
_LEAST = 1e-300  # what Lentz's method divides by instead of zero


def dispersion_of(log_odds: Floats) -> Floats:
    """p, the dispersion."""
    return np.asarray(expit(log_odds))


def log_dispersion_of(log_odds: Floats) -> Floats:
    """ln p."""
    return np.asarray(-np.logaddexp(0.0, -log_odds))


def odds_of(log_odds: Floats) -> Floats:
    """p / (1 - p), the expected count per unit of the rate; odds beyond e^600 are taken for e^600."""
    return np.asarray(np.exp(np.minimum(log_odds, _MOST_LOG_ODDS)))


class Likelihood(Protocol):
    """One of the likelihoods; arrays of counts, rates and log odds belong to the same cells."""

    name: str
    has_dispersion: bool = False
    title: str
    class_sizes: str = "expected counts"  # what the sizes of classes add up to
    total: str = "expected total count"  # what the rates of all observed cells, times the odds, add up to

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y)."""

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """log P(Y >= y) and log P(Y <= y). A rate that underflows to 0 is replaced by the smallest normal float."""

    def cdf(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """P(Y <= y), for y of at least 0."""

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The expected count."""

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """The variance of the count."""

    def recursion(self, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """a and b of P(y + 1) / P(y) = (a r + b y) / (y + 1), which holds for counts without a bound (Panjer 1981)."""

    def latent_scale(self, log_odds_N: Floats) -> Floats:
        """c: the latent count has the rate c r, and a count is zero with probability exp(-c r)."""
        return np.ones_like(log_odds_N)

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw counts."""


class _Poisson(Likelihood):
    name = "poisson"
    title = "Poisson"

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(xlogy(counts_N, rates_N) - rates_N - gammaln(counts_N + 1.0))

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        y_N, r_N = counts_N.astype(float), _not_zero(rates_N)
        density_N = self.log_density(counts_N, r_N, log_odds_N)
        more_N, fewer_N = gammainc(y_N, r_N), self.cdf(y_N, r_N, log_odds_N)
        far, below = _far(more_N), _far(fewer_N)
        beyond = _series(len(far), lambda n, i: r_N[far[n]] / (y_N[far[n]] + i))
        short = _series(len(below), lambda n, i: (y_N[below[n]] - i + 1.0) / r_N[below[n]])
        return _in_logs(more_N, far, density_N[far], beyond), _in_logs(fewer_N, below, density_N[below], short)

    def cdf(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(gammaincc(counts_N + 1.0, rates_N))

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return rates_N

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return rates_N

    def recursion(self, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """P(y + 1) / P(y) = r / (y + 1)."""
        return np.ones_like(log_odds_N), np.zeros_like(log_odds_N)

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        return rng.poisson(rates_N)


class _NegativeBinomial(Likelihood):
    name = "negative-binomial"
    title = "negative binomial"
    has_dispersion = True

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """log P(Y = y). G(y + r) / G(r) = G(y) / B(y, r), which does not cancel for large rates."""
        y_N = np.maximum(counts_N, 1).astype(float)
        log_rising_N = gammaln(y_N) - betaln(y_N, _not_zero(rates_N))
        if_positive_N = log_rising_N - gammaln(y_N + 1.0) + y_N * log_dispersion_of(log_odds_N)
        return np.asarray(np.where(counts_N > 0, if_positive_N, 0.0) - self.latent_scale(log_odds_N) * rates_N)

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """By the incomplete beta function; P(Y >= y), proportional to tiny rates if y > 0, is taken at a larger one."""
        y_N, given_N = counts_N.astype(float), _not_zero(rates_N)
        r_N = np.maximum(given_N, _TINY_RATE)
        p_N, q_N = dispersion_of(log_odds_N), dispersion_of(-log_odds_N)
        density_N = self.log_density(counts_N, r_N, log_odds_N)
        some_N = np.maximum(y_N, 1.0)
        # Of p and 1 - p, the smaller one has all its digits.
        some_more_N = np.where(log_odds_N < 0.0, betainc(some_N, r_N, p_N), betaincc(r_N, some_N, q_N))
        more_N = np.asarray(np.where(y_N > 0, some_more_N, 1.0), dtype=np.float64)
        fewer_N = self.cdf(y_N, r_N, log_odds_N)
        far, below = _far(more_N), _far(fewer_N)
        beyond = _beta_fraction(y_N[far], r_N[far], p_N[far])
        short = _beta_fraction(r_N[below], y_N[below] + 1.0, q_N[below]) * p_N[below] * (1.0 + y_N[below] / r_N[below])
        log_more_N = _in_logs(more_N, far, density_N[far], beyond)
        log_more_N += np.where((y_N > 0) & (given_N < r_N), np.log(given_N / r_N), 0.0)
        log_fewer_N = _in_logs(fewer_N, below, density_N[below], short)
        return log_more_N, np.where(y_N > 0, log_fewer_N, -self.latent_scale(log_odds_N) * given_N)

    def cdf(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        """P(Y <= y), by the incomplete beta function; of p and 1 - p, the smaller one has all its digits."""
        r_N, more_N = np.maximum(rates_N, _TINY_RATE), counts_N + 1.0
        below_N = betaincc(more_N, r_N, dispersion_of(log_odds_N))
        above_N = betainc(r_N, more_N, dispersion_of(-log_odds_N))
        return np.asarray(np.where(log_odds_N < 0.0, below_N, above_N), dtype=np.float64)

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(rates_N * odds_of(log_odds_N))

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(self.mean(rates_N, log_odds_N) * (1.0 + odds_of(log_odds_N)))

    def latent_scale(self, log_odds_N: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, log_odds_N))

    def recursion(self, log_odds_N: Floats) -> tuple[Floats, Floats]:
        """P(y + 1) / P(y) = p (r + y) / (y + 1)."""
        return dispersion_of(log_odds_N), dispersion_of(log_odds_N)

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        """Draw counts: Poisson with gamma rates of shape r and mean r p / (1 - p)."""
        return rng.poisson(rng.standard_gamma(rates_N) * odds_of(log_odds_N))


class _Bernoulli(Likelihood):
    name = "bernoulli"
    title = "Bernoulli"
    class_sizes = "expected latent counts"
    total = "total latent rate"

    def log_density(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            one_N = np.where(counts_N == 1, np.log(-np.expm1(-rates_N)), -np.inf)
        return np.asarray(np.where(counts_N == 0, -rates_N, one_N))

    def log_tails(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> tuple[Floats, Floats]:
        r_N = _not_zero(rates_N)
        one_N = np.where(counts_N <= 1, np.log(-np.expm1(-r_N)), -np.inf)
        return np.where(counts_N == 0, 0.0, one_N), np.where(counts_N == 0, -r_N, 0.0)

    def cdf(self, counts_N: Counts, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(np.where(counts_N == 0, np.exp(-rates_N), 1.0))

    def mean(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(-np.expm1(-rates_N))

    def variance(self, rates_N: Floats, log_odds_N: Floats) -> Floats:
        return np.asarray(-np.expm1(-rates_N) * np.exp(-rates_N))

    def recursion(self, log_odds_N: Floats) -> tuple[Floats, Floats]:
        raise NotImplementedError("counts of 0 and 1 have a bound")

    def draw(self, rates_N: Floats, log_odds_N: Floats, rng: np.random.Generator) -> Counts:
        return (rng.random(np.shape(rates_N)) < -np.expm1(-rates_N)).astype(np.int64)


LIKELIHOODS: dict[str, Likelihood] = {each.name: each for each in (_Poisson(), _NegativeBinomial(), _Bernoulli())}


def _not_zero(rates_N: Floats) -> Floats:
    return np.maximum(rates_N, np.finfo(float).tiny)


def _far(tail_N: Floats) -> NDArray[np.intp]:
    return np.flatnonzero(~(tail_N > _FAR))


def _in_logs(tail_N: Floats, far: NDArray[np.intp], log_density_F: Floats, relative_F: Floats) -> Floats:
    """The logarithms of tail probabilities; those of the cells `far` are given relative to the density of the count."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_tail_N: Floats = np.log(tail_N)
    log_tail_N[far] = log_density_F + np.log(relative_F)
    return log_tail_N


def _series(size: int, ratio: Callable[[NDArray[np.intp], int], Floats]) -> Floats:
    """The sums 1 + ratio(1) + ratio(1) ratio(2) + ..; `ratio(n, i)` is that of the i-th term to the one before."""
    total_F, term_F, active, step = np.ones(size), np.ones(size), np.arange(size), 0
    while len(active):
        step += 1
        term_F[active] *= ratio(active, step)
        total_F[active] += term_F[active]
        active = active[term_F[active] > 1e-17 * total_F[active]]
    return total_F


def _beta_fraction(a_F: Floats, b_F: Floats, x_F: Floats) -> Floats:
    """The continued fraction h of the incomplete beta function, by Lentz's method (Numerical Recipes, section 6.4).

    I_x(a, b) = x^a (1 - x)^b h / (a B(a, b)). It needs about sqrt(max(a, b)) steps, a series up to 1 / (1 - x).
    """
    upper_F, lower_F = np.ones(len(a_F)), 1.0 / _away_from_0(1.0 - (a_F + b_F) * x_F / (a_F + 1.0))
    h_F, active, step = lower_F.copy(), np.arange(len(a_F)), 0
    while len(active):
        step += 1
        a, b, x = a_F[active], b_F[active], x_F[active]
        even = step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0))
        change = np.ones(len(active))
        for part in (even, odd):
            lower_F[active] = 1.0 / _away_from_0(1.0 + part * lower_F[active])
            upper_F[active] = _away_from_0(1.0 + part / upper_F[active])
            change = lower_F[active] * upper_F[active]
            h_F[active] *= change
        active = active[np.abs(change - 1.0) > 1e-15]
    return h_F


def _away_from_0(values_F: Floats) -> Floats:
    return np.asarray(np.where(np.abs(values_F) < _LEAST, _LEAST, values_F))

"""Latent counts L of the non-zero cells, given their counts y and rates r: what thinning allocates in place of y.

    poisson             L = y
    negative-binomial   L ~ CRT(y, r), the sum over i = 0 .. y - 1 of Bernoulli( r / (r + i) )
    bernoulli           L ~ Poisson(r) given L >= 1

L is zero where y is zero, and depends neither on the dispersion p nor on the allocation (model/likelihood.py has the
references). The rate is what thinning sums up anyway, so L is drawn in the middle of thinning, batch by batch. Cost of
the negative binomial: y - 1 uniform numbers for a small count; kernels/chinese_restaurant.py draws the large ones.

The same loops give the log-likelihood: up to a constant, log density + c r, summed over the cells, is the sum of

    poisson  y ln r        negative-binomial  ln r + ln(r + 1) + .. + ln(r + y - 1)        bernoulli  ln(e^r - 1)

Every cell has its own random numbers: a place in a stream that depends only on the data.
"""

from math import exp, expm1, lgamma, log, log1p
from typing import NamedTuple

from allocore.kernels.chinese_restaurant import crt
from allocore.kernels.distributions import zero_truncated_poisson
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words

POISSON, NEGATIVE_BINOMIAL, BERNOULLI = range(3)
CODES = {"poisson": POISSON, "negative-binomial": NEGATIVE_BINOMIAL, "bernoulli": BERNOULLI}

# Batches hold rates between these; other cells are drawn one by one. Two such rates times _LOW or _HIGH are in range.
LEAST_RATE, MOST_RATE = 1e-100, 1e70
# A latent count of a binary cell in a batch. From a uniform number of 52 bits, a rate of 32 leads to no more than 90.
MOST_BINARY_RATE, MOST_BINARY = 32.0, 128
_MOST_POISSON = 2.0**50  # the largest rate that `poisson` draws from
_FIRST_TERMS = 6
_LOW, _HIGH = 1e-150, 1e150


class Latent(NamedTuple):
    """What latent counts are drawn from; `stream` is for cells in batches, `exact_stream` for those drawn one by one.

    It is None for the Poisson likelihood: numba prunes `if latent is not None`, so its branches are not compiled.
    """

    likelihood: int
    scale_R: Floats
    stream: Words
    exact_stream: Words


@part
def draw_tables(size: int, rate_C: Floats, uniforms: Floats, count_C: Ints) -> tuple[int, float]:
    """CRT: replace the counts of a batch by latent counts, from y - 1 uniform numbers each.

    Returns the sum of the latent counts, and the log-likelihood.
    """
    used, draws, log_total, product = 0, 0, 0.0, 1.0
    for c in range(size):
        rate, tables = rate_C[c], 0
        if count_C[c] > 0:
            tables = 1
            product *= rate
            for i in range(1, count_C[c]):
                here = rate + i
                tables += int(uniforms[used] * here < rate)
                used += 1
                product *= here
                if product > _HIGH:
                    log_total += log(product)
                    product = 1.0
            if not _LOW < product < _HIGH:  # one logarithm for many factors
                log_total += log(product)
                product = 1.0
        count_C[c] = tables
        draws += tables
    return draws, log_total + log(product)


@part
def draw_truncated(
    size: int, rate_C: Floats, uniforms: Floats, expm1_C: Floats, latent_C: Ints, count_C: Ints
) -> tuple[int, float]:
    """Zero-truncated Poisson by inversion: the same for binary cells, from one uniform number each.

    The weights of L are rate^L / L!, and their sum over L >= 1 is e^rate - 1. The first loop is branch-free, so that it
    becomes vector code; it ends at _FIRST_TERMS + 1. `expm1_C` and `latent_C` are scratch space.
    """
    _fill_expm1(rate_C, expm1_C)
    for c in range(rate_C.size):
        target, weight, below, latent = uniforms[c] * expm1_C[c], rate_C[c], rate_C[c], 1
        for k in range(2, _FIRST_TERMS + 2):
            latent += int(target > below)
            weight *= rate_C[c] * (1.0 / k)
            below += weight
        latent_C[c] = latent
    draws, log_total, product = 0, 0.0, 1.0
    for c in range(size):
        if count_C[c] > 0:
            latent = latent_C[c]
            if latent > _FIRST_TERMS:
                latent = _by_inversion(rate_C[c], uniforms[c] * expm1_C[c])
            product *= expm1_C[c]
            if not _LOW < product < _HIGH:
                log_total += log(product)
                product = 1.0
            count_C[c] = latent
            draws += latent
    return draws, log_total + log(product)


@part
def _by_inversion(rate: float, target: float) -> int:
    """The least L whose weights, added up from 1 to L, reach the target."""
    weight, latent = rate, 1
    while target > weight and latent < MOST_BINARY:
        target -= weight
        latent += 1
        weight *= rate / latent
    return latent


@part
def _fill_expm1(rate_C: Floats, expm1_C: Floats) -> None:
    """e^rate - 1 for rates up to 32, to 14 digits: a series for rate / 256, then eight times e^2x - 1 = e (e + 2).

    Without a branch or a call, so that the loop becomes vector code.
    """
    for c in range(rate_C.size):
        x = rate_C[c] * (1.0 / 256.0)
        e = 1.0
        for k in range(10, 1, -1):
            e = 1.0 + x * (1.0 / k) * e
        e *= x
        for _ in range(8):
            e *= e + 2.0
        expm1_C[c] = e


@part
def draw_latent(rng: Words, likelihood: int, count: int, rate: float, scratch: Ints) -> int:
    """The latent count of one cell, whatever its count and its rate."""
    if likelihood == NEGATIVE_BINOMIAL:
        return crt(rng, count, max(rate, 1e-300), scratch)
    return zero_truncated_poisson(rng, min(max(rate, 1e-300), _MOST_POISSON))


@kernel
def log_fit(likelihood: int, count: int, log_rate: float) -> float:
    """The log-likelihood of one cell as above, given the logarithm of its rate, which itself may underflow."""
    rate = exp(min(log_rate, 700.0))
    if likelihood == NEGATIVE_BINOMIAL:
        return log_rate + _log_rising(1.0 + rate, count - 1.0)
    return log_rate if log_rate < -40.0 else rate + log1p(-exp(-rate)) if rate > 1.0 else log(expm1(rate))


@part
def _log_rising(start: float, steps: float) -> float:
    """ln G(start + steps) - ln G(start). If both are large, their digits cancel; then by Stirling's formula."""
    if start < 1e5:
        return lgamma(start + steps) - lgamma(start)
    end = start + steps
    growth = steps * log(end) + (start - 0.5) * log1p(steps / start) - steps
    return growth + (1.0 / end - 1.0 / start) / 12.0

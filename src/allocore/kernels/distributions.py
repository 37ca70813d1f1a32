"""Exact draws from the distributions that the sampler needs; each is tested against its distribution.

Normal and gamma: Marsaglia and Tsang (2000). Binomial and Poisson: Hörmann (1993a, b). See docs/explanation/model.md.

Gamma variates are returned as logarithms: with shape 0.001, about half of the variates themselves underflow.
"""

import math

import numpy as np

from allocore.kernels.elementary import Floats, Ints, lane_log
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words, bits, uniform

_INVERSION_MEAN = 10.0
_INVERSION_LIMIT = 300
_STIRLING_TAIL = np.array(
    [math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)) for k in range(10)]
)


def _ziggurat(layers: int = 256, edge: float = 3.6541528853610088) -> tuple[Floats, Floats]:
    """Marsaglia and Tsang's ziggurat (2000): widths and heights of layers of equal area; the tail begins at `edge`."""
    area = edge * math.exp(-0.5 * edge**2) + math.sqrt(math.pi / 2) * math.erfc(edge / math.sqrt(2))
    widths = [area * math.exp(0.5 * edge**2), edge]
    while len(widths) < layers:
        widths.append(math.sqrt(-2.0 * math.log(area / widths[-1] + math.exp(-0.5 * widths[-1] ** 2))))
    widths.append(0.0)
    return np.array(widths), np.array([math.exp(-0.5 * width**2) for width in widths])


_WIDTHS, _HEIGHTS = _ziggurat()
_LAYER, _SIGN, _BELOW_SIGN = np.uint64(0xFF), np.uint64(0x100), np.uint64(9)


@part
def normal(rng: Words) -> float:
    """A standard normal: draw a layer of the ziggurat and a point in it, which almost always lies under the curve."""
    while True:
        word = bits(rng)
        layer = word & _LAYER
        x = np.float64(np.int64(word >> _BELOW_SIGN)) * 2.0**-43 * _WIDTHS[layer]
        if x >= _WIDTHS[layer + np.uint64(1)]:
            if layer == 0:
                x = _normal_tail(rng)
            else:
                low, high = _HEIGHTS[layer], _HEIGHTS[layer + np.uint64(1)]
                if low + uniform(rng) * (high - low) >= math.exp(-0.5 * x * x):
                    continue
        return float(x if word & _SIGN else -x)


@part
def _normal_tail(rng: Words) -> float:
    """A normal beyond the edge of the ziggurat (Marsaglia 1964)."""
    while True:
        beyond = -math.log(uniform(rng)) / _WIDTHS[1]
        if -2.0 * math.log(uniform(rng)) > beyond * beyond:
            return float(_WIDTHS[1] + beyond)


@kernel
def log_gamma(rng: Words, shape: float, rate: float) -> float:
    """The logarithm of a Gamma(shape, rate) variate.

    Marsaglia and Tsang (2000) for shapes of at least 1. Below 1: a Gamma(shape + 1) variate times U^(1/shape), which
    is a sum of logarithms.
    """
    boost = 0.0
    if shape < 1.0:
        boost = math.log(uniform(rng)) / shape
        shape = shape + 1.0
    d = shape - 1.0 / 3.0
    return math.log(d * _accepted_cube(rng, d) / rate) + boost


@part
def _accepted_cube(rng: Words, d: float) -> float:
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(rng)
        u = uniform(rng)
        root = 1.0 + c * x
        if u < 1.0 - 0.0331 * x * x * x * x or _accepts(x, u, d, root):
            return root * root * root


@part
def _accepts(x: float, u: float, d: float, root: float) -> bool:
    """The full test, for the few proposals that the quick one does not accept."""
    if root <= 0.0:
        return False
    cube = root * root * root
    return math.log(u) < 0.5 * x * x + d * (1.0 - cube + math.log(cube))


@part
def log_gammas(rng: Words, shape_U: Floats, rate_U: Floats, work_2U: Floats, log_U: Floats) -> None:
    """Fill `log_U` with the logarithms of Gamma(shape, rate) variates, as `log_gamma` does, but many at a time.

    First a proposal for every variate, in loops that become vector code; then more for the few that are rejected; then
    U^(1/shape) for the shapes below 1. `work_2U` is scratch space.
    """
    for i in range(log_U.size):
        work_2U[0, i], work_2U[1, i] = normal(rng), uniform(rng)
    for i in range(log_U.size):
        x = work_2U[0, i]
        d = shape_U[i] - 1.0 / 3.0 + (1.0 if shape_U[i] < 1.0 else 0.0)
        root = 1.0 + x / math.sqrt(9.0 * d)
        log_U[i] = d * (root * root * root) / rate_U[i]
    small = False
    for i in range(log_U.size):
        x, u = work_2U[0, i], work_2U[1, i]
        small |= shape_U[i] < 1.0
        if u >= 1.0 - 0.0331 * x * x * x * x:
            d = shape_U[i] - 1.0 / 3.0 + (1.0 if shape_U[i] < 1.0 else 0.0)
            if not _accepts(x, u, d, 1.0 + x / math.sqrt(9.0 * d)):
                log_U[i] = d * _accepted_cube(rng, d) / rate_U[i]
    for i in range(log_U.size):
        log_U[i] = lane_log(log_U[i])
    if small:
        for i in range(log_U.size):
            if shape_U[i] < 1.0:
                log_U[i] += math.log(uniform(rng)) / shape_U[i]


@part
def binomial(rng: Words, trials: int, p: float) -> int:
    """A Binomial(trials, p) variate; the acceptance test is good to 1e-6 up to 2^50 trials, the limit of a tensor."""
    if trials <= 0 or not p > 0.0:  # `not >` also catches NaN, which would never leave the rejection loop
        return 0
    if p >= 1.0:
        return trials
    low = min(p, 1.0 - p)
    if trials * low < _INVERSION_MEAN:
        successes = _binomial_by_inversion(rng, trials, low)
    else:
        successes = _binomial_by_rejection(rng, trials, low)
    return successes if p <= 0.5 else trials - successes


@part
def _binomial_by_inversion(rng: Words, trials: int, p: float) -> int:
    """Walk up the distribution function. The mean is below 10, so the walk is short.

    Values beyond 300 have a probability below 1e-300. Only rounding can lead there; then draw again.
    """
    odds = p / (1.0 - p)
    start = math.exp(trials * math.log1p(-p))
    while True:
        mass = start
        u = uniform(rng)
        for k in range(min(trials, _INVERSION_LIMIT) + 1):
            if u <= mass:
                return k
            u -= mass
            mass *= odds * (trials - k) / (k + 1)


@part
def _binomial_by_rejection(rng: Words, trials: int, p: float) -> int:
    """Transformed rejection, algorithm BTRS of Hörmann (1993a); needs trials * p >= 10 and p <= 1/2."""
    spread = math.sqrt(trials * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = trials * p + 0.5
    alpha = (2.83 + 5.1 / b) * spread
    mode = math.floor((trials + 1) * p)
    while True:
        u = uniform(rng) - 0.5
        v = uniform(rng)
        us = 0.5 - abs(u)
        k = math.floor((2.0 * a / us + b) * u + centre)
        if us >= 0.07 and v <= 0.92 - 4.2 / b:
            return int(k)
        if k < 0 or k > trials:
            continue
        if math.log(v * alpha / (a / (us * us) + b)) <= _log_binomial_ratio(trials, p, k, mode):
            return int(k)


@part
def _log_binomial_ratio(trials: int, p: float, k: float, mode: float) -> float:
    """log f(k) - log f(mode) of a binomial, arranged so that large numbers do not cancel (trials may be 1e9)."""
    odds = p / (1.0 - p)
    rest_mode = trials - mode
    rest_k = trials - k
    return (
        (mode + 0.5) * math.log((mode + 1.0) / (odds * (rest_mode + 1.0)))
        + (trials + 1.0) * math.log1p((k - mode) / (rest_k + 1.0))
        + (k + 0.5) * math.log(odds * (rest_k + 1.0) / (k + 1.0))
        + _stirling_tail(mode)
        + _stirling_tail(rest_mode)
        - _stirling_tail(k)
        - _stirling_tail(rest_k)
    )


@part
def _stirling_tail(k: float) -> float:
    """The remainder of Stirling's formula for log k! in powers of k + 1."""
    if k < 10.0:
        return float(_STIRLING_TAIL[int(k)])
    inverse = 1.0 / (k + 1.0)
    square = inverse * inverse
    return (1.0 / 12.0 - (1.0 / 360.0 - square / 1260.0) * square) * inverse


@part
def _poisson_by_rejection(rng: Words, rate: float) -> int:
    """Transformed rejection, algorithm PTRS of Hörmann (1993b), for rates from 10 to 2^50: its test is good to 1e-6."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u = uniform(rng) - 0.5
        v = uniform(rng)
        us = 0.5 - abs(u)
        if us < 0.013 and v > us:
            continue
        k = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
            return int(k)
        if k < 0:
            continue
        if math.log(v * inverse_alpha / (a / (us * us) + b)) <= _log_poisson(rate, k):
            return int(k)


@part
def _log_poisson(rate: float, k: float) -> float:
    """log f(k) of a Poisson variate by Stirling's formula, arranged so that large numbers do not cancel.

    -rate + k log(rate) - log k!, where all terms grow like the rate. Here the largest grow like its square root.
    """
    beyond = k + 1.0 - rate
    gap = beyond - (k + 0.5) * math.log1p(beyond / rate)
    return gap - 0.5 * math.log(2.0 * math.pi * rate) - _stirling_tail(k)


@part
def zero_truncated_poisson(rng: Words, rate: float) -> int:
    """A Poisson variate given that it is at least 1; the rate may be as small as 1e-300 and as large as 2^50.

    Small rates by inversion: walk up the terms rate^k / k! from k = 1, which add up to exp(rate) - 1.
    """
    if not rate > 0.0:  # the limit; `not >` also catches NaN
        return 1
    if rate < _INVERSION_MEAN:
        total = math.expm1(rate)
        while True:
            term = rate
            target = uniform(rng) * total
            for k in range(1, _INVERSION_LIMIT):
                if target <= term:
                    return k
                target -= term
                term *= rate / (k + 1)
    while True:
        k = _poisson_by_rejection(rng, rate)
        if k > 0:
            return k


@part
def categorical(rng: Words, cumulative: Floats, start: int, stop: int) -> int:
    """Draw an index from `start` to `stop`; `cumulative` is the running sum of the weights. Zero weights never win."""
    before = cumulative[start - 1] if start > 0 else 0.0
    target = before + uniform(rng) * (cumulative[stop - 1] - before)
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    # Rounding can make the target equal to the total. Then step back over trailing weights of zero.
    while low > start and cumulative[low] == cumulative[low - 1]:
        low -= 1
    return low


@kernel
def categorical_from_logs(rng: Words, scores: Floats, size: int) -> int:
    """Draw an index below `size` with weights exp(scores); some score is finite.

    A weight below exp(-50) of the largest would be lost in the rounding of the sum, so it counts as zero. Most do, and
    are only compared.
    """
    top, total = _maximum(scores, size), 0.0
    for i in range(size):
        if scores[i] - top > -50.0:  # the difference, because scores may be too large for one of 50
            total += math.exp(scores[i] - top)
    target, drawn = uniform(rng) * total, 0
    for i in range(size):
        if scores[i] - top > -50.0:
            drawn = i
            target -= math.exp(scores[i] - top)
            if target < 0.0:
                break
    return drawn


@part
def _maximum(numbers: Floats, size: int) -> float:
    """The largest of the first `size` numbers, as the largest of four that do not wait for one another."""
    first, second, third, fourth = numbers[0], -np.inf, -np.inf, -np.inf
    for i in range(1, size - 3, 4):
        first, second = max(first, numbers[i]), max(second, numbers[i + 1])
        third, fourth = max(third, numbers[i + 2]), max(fourth, numbers[i + 3])
    for i in range(max(1, size - 3), size):
        first = max(first, numbers[i])
    return float(max(max(first, second), max(third, fourth)))


@part
def multinomial(
    rng: Words, trials: int, weights: Floats, total: float, heavy: Ints, cumulative: Floats, out: Ints
) -> None:
    """Split `trials` by the weights, whose sum is `total`.

    An index is heavy if half a trial or more is to be expected at it. Heavy ones are split off by binomials, one after
    another; the few trials of all others are drawn one by one. `heavy` and `cumulative` are scratch space.
    """
    least, many, among_heavy, among_others = total / (2.0 * max(trials, 1)), 0, 0.0, 0.0
    for i in range(out.size):
        out[i] = 0
        if weights[i] >= least:
            heavy[many] = i
            among_heavy += weights[i]
            cumulative[many] = among_heavy
            many += 1
        else:
            among_others += weights[i]
    others = binomial(rng, trials, among_others / total) if many > 0 else trials
    left = trials - others
    for n in range(many - 1, 0, -1):
        if left == 0:
            break
        # The rarer outcome is drawn, as a probability near 1 has no digits left.
        if cumulative[n - 1] < weights[heavy[n]]:
            amount = left - binomial(rng, left, cumulative[n - 1] / cumulative[n])
        else:
            amount = binomial(rng, left, weights[heavy[n]] / cumulative[n])
        out[heavy[n]] = amount
        left -= amount
    if many > 0:
        out[heavy[0]] = left
    if others > 0:
        running = 0.0
        for i in range(out.size):
            running += weights[i] if weights[i] < least else 0.0
            cumulative[i] = running
        for _ in range(others):
            out[categorical(rng, cumulative, 0, out.size)] += 1

"""Chinese restaurant tables: the number of tables of y customers, when customer i opens one with odds r to i.

    CRT(y, r) = sum_{i=0}^{y-1} Bernoulli(p_i),    p_i = r / (r + i)

(Antoniak 1974, Annals of Statistics 2; Zhou and Carin 2015, IEEE TPAMI 37). Customer 0 always opens a table. All others
are taken in blocks i = a, .., b - 1. Think of a uniform number for each of the M trials of a block; the trial succeeds
if the number is below p_i. There are three kinds of numbers, whatever i is:

    below p_{b-1}: a success        above p_a: a failure        between them: undecided, with probability p_a - p_{b-1}

So the undecided trials are Binomial(M, p_a - p_{b-1}) many, and they are a random subset of the block. Each is given a
customer i and succeeds with probability (p_i - p_{b-1}) / (p_a - p_{b-1}). Successes among the others are binomial. The
draw is exact: nothing is approximated but real numbers by floats. Both probabilities and their complements are computed
without subtraction, so the smallest (r = 1e-300) and the largest (r = 1e15, where failures are rare) keep their digits.

Cost: a block ends where T = 4 undecided trials are expected. With N restaurants of y customers that makes about
log(1 + y / r) sqrt(N r / T) blocks, and never more than y; for y = 1e9 at most 13,000, whatever r is.
"""

import math

from allocore.kernels.distributions import binomial
from allocore.kernels.elementary import Ints
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Words, uniform

# Words of scratch space. One is for `crt`; the others are for undecided trials, of which 4 are expected at most. More
# than 64 have a probability below 1e-50, and a uniform number of 52 bits does not lead beyond some 30.
SCRATCH = 65
_UNDECIDED = 4.0
_FEW = 32


@kernel
def crt(rng: Words, y: int, r: float, scratch: Ints) -> int:
    """A CRT(y, r) variate, y up to 2^50; few customers are drawn one by one. `scratch` has SCRATCH words."""
    if y <= _FEW:
        tables = min(y, 1)
        for i in range(1, y):
            if uniform(rng) * (r + i) < r:
                tables += 1
        return tables
    scratch[0] = y
    return crt_sum(rng, scratch[:1], scratch[:1], r, scratch[1:])


@kernel
def crt_sum(rng: Words, counts_J: Ints, cumulative_J: Ints, r: float, scratch: Ints) -> int:
    """The sum of CRT(counts_J[j], r) over j; counts are sorted, at least 1, and at most 2^50 in total.

    `cumulative_J` is the running sum of the counts, `scratch` has at least SCRATCH - 1 words.
    """
    restaurants = counts_J.size
    if restaurants == 0 or not r > 0.0:  # `not >` also catches NaN
        return restaurants
    tables, most = restaurants, counts_J[restaurants - 1]
    start, closed = 1, _up_to(counts_J, 1)
    while start < most:
        stop = start + _length(r, start, restaurants - closed, most - start)
        # Restaurants `closed`, .., `closing` - 1 have their last customer in the block, later ones fill all of it.
        closing = _up_to(counts_J, stop)
        partial = _from_start(cumulative_J, closed, closing, start)
        trials = partial + (restaurants - closing) * (stop - start)
        undecided = _draw_undecided(rng, r, start, stop, trials, scratch)
        tables += _decided_successes(rng, r, start, stop, trials - undecided)
        for k in range(undecided):
            i = _customer(scratch[k], start, stop, counts_J, cumulative_J, closed, closing, partial)
            # (p_i - p_{b-1}) / (p_a - p_{b-1}), without subtraction
            tables += uniform(rng) < (stop - 1 - i) / (stop - 1 - start) * ((r + start) / (r + i))
        start, closed = stop, closing
    return int(tables)


@part
def _up_to(counts_J: Ints, i: int) -> int:
    """How many of the sorted counts are at most i."""
    low, high = 0, counts_J.size
    while low < high:
        middle = (low + high) // 2
        if counts_J[middle] <= i:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _from_start(cumulative_J: Ints, first: int, last: int, start: int) -> int:
    """Customers from `start` on of restaurants first, .., last - 1, all of which have at least `start`."""
    before = cumulative_J[first - 1] if first > 0 else 0
    until = cumulative_J[last - 1] if last > 0 else 0
    return int(until - before - (last - first) * start)


@part
def _length(r: float, start: int, restaurants: int, longest: int) -> int:
    """The largest n with N kappa n^2 / (r + a + n) <= T, kappa = r / (r + a): a bound of the undecided trials' mean."""
    weight = restaurants * r
    growth = (_UNDECIDED + math.sqrt(_UNDECIDED * (_UNDECIDED + 4.0 * weight))) / (2.0 * weight)
    return int(max(1.0, min((r + start) * growth, float(longest))))


@part
def _draw_undecided(rng: Words, r: float, start: int, stop: int, trials: int, chosen: Ints) -> int:
    """Draw how many trials of the block are undecided, and which: distinct numbers below `trials`, in `chosen`."""
    share = r / (r + start) * ((stop - 1 - start) / (r + (stop - 1)))
    undecided = min(binomial(rng, trials, share), chosen.size)
    drawn = 0
    while drawn < undecided:
        trial = int(uniform(rng) * trials)
        new = True
        for k in range(drawn):
            new = new and chosen[k] != trial
        if new:
            chosen[drawn] = trial
            drawn += 1
    return undecided


@part
def _decided_successes(rng: Words, r: float, start: int, stop: int, trials: int) -> int:
    """Successes among the decided trials. The rarer outcome is drawn, as a probability near 1 has no digits left."""
    success = r / (r + (stop - 1))
    failure = start / (r + start)
    if success <= failure:
        return binomial(rng, trials, success / (success + failure))
    return trials - binomial(rng, trials, failure / (success + failure))


@part
def _customer(
    trial: int, start: int, stop: int, counts_J: Ints, cumulative_J: Ints, closed: int, closing: int, partial: int
) -> int:
    """The customer of a trial of the block. Trials are numbered by restaurant, and by customer within a restaurant."""
    if trial >= partial:
        return start + (trial - partial) % (stop - start)
    low, high = closed, closing - 1
    while low < high:
        middle = (low + high) // 2
        if _from_start(cumulative_J, closed, middle + 1, start) > trial:
            high = middle
        else:
            low = middle + 1
    return int(counts_J[low] - (_from_start(cumulative_J, closed, low + 1, start) - trial))

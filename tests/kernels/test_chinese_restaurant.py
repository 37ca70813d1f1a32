"""Numbers of Chinese restaurant tables against their exact distribution.

Each goodness-of-fit test and each z-test has the level 1e-4 and a fixed seed. Samplers with a deliberate bug fail the
same tests at the same number of draws.
"""

import os
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy.special import digamma, polygamma

from allocore.kernels import chinese_restaurant
from allocore.kernels.chinese_restaurant import SCRATCH, crt, crt_sum
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, scratch, seek
from support.evidence import corrected, fit_to, mean_and_variance
from support.tiers import parametrize_few

LEVEL = 1e-4
JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
DRAWS = 500 if JIT_OFF else 100_000
CONCENTRATIONS = [1e-3, 0.1, 1.0, 7.0, 200.0, 1e5]
MANY = np.arange(80) ** 2 // 80 + 1  # nine ones, and up to 79
COUNTS = {"few": [5], "one": [300], "mixed": [1, 1, 2, 3, 7, 7, 60, 300], "equal": [3] * 50, "many": MANY}


@kernel
def fill_crt(stream, rng, y, r, words, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = crt(rng, y, r, words)


@kernel
def fill_crt_sum(stream, rng, counts_J, cumulative_J, r, words, out):
    for i in range(out.size):
        seek(rng, stream, i)
        out[i] = crt_sum(rng, counts_J, cumulative_J, r, words)


def stream(seed):
    return Key.of(seed, 0).stream(Step.THIN)


def sample(y, r, size=DRAWS, seed=31):
    out = np.empty(size, dtype=np.int64)
    fill_crt(stream(seed), scratch(), int(y), float(r), np.empty(SCRATCH, dtype=np.int64), out)
    return out


def sample_sum(counts, r, size=DRAWS, seed=32, fill=fill_crt_sum):
    counts_J = np.sort(np.array(counts, dtype=np.int64))
    out = np.empty(size, dtype=np.int64)
    words = np.empty(SCRATCH - 1, dtype=np.int64)
    fill(stream(seed), scratch(), counts_J, np.cumsum(counts_J), float(r), words, out)
    return out


def probabilities(counts, r):
    """P(L = J), P(L = J + 1), ..: one convolution for each customer but the first."""
    mass = np.ones(1)
    for y in counts:
        for i in range(1, y):
            mass = np.convolve(mass, [i / (r + i), r / (r + i)])
    return mass


def moments(y, r):
    """Mean, variance, and a bound of the fourth cumulant, sum p q (1 - 6 p q), which is the variance where p is small.

    Differences of digamma functions lose all digits where r is large. There Euler and Maclaurin's formula for the sums
    of p_i and of p_i (1 - p_i) is exact to 1 / r^3.
    """
    if r < 1e3:
        mean = r * (digamma(r + y) - digamma(r))
        variance = mean + r**2 * (polygamma(1, r + y) - polygamma(1, r))
    else:
        x = y / r
        mean = r * np.log1p(x) + x / (1 + x) / 2 + (1 - (1 + x) ** -2) / (12 * r)
        variance = r * (np.log1p(x) - x / (1 + x)) - x / (1 + x) ** 2 / 2 + ((1 - x) / (1 + x) ** 3 - 1) / (12 * r)
    return mean, variance, variance


@pytest.mark.parametrize(("y", "r"), [(1, 2.0), (40, 0.3), (3000, 900.0), (3000, 2e3), (3000, 1e6)])
def test_the_moments_used_below_are_sums_over_customers(y, r):
    p = r / (r + np.arange(y))
    assert moments(y, r)[:2] == pytest.approx([p.sum(), (p * (1 - p)).sum()], rel=1e-9, abs=1e-9)


@parametrize_few("y", [2, 20, 33, 300])
@parametrize_few("r", CONCENTRATIONS)
def test_tables_of_one_restaurant_have_their_distribution(y, r):
    assert fit_to(sample(y, r), 1, probabilities([y], r)) > LEVEL


@parametrize_few("counts", COUNTS.values(), ids=COUNTS)
@parametrize_few("r", CONCENTRATIONS)
def test_tables_of_several_restaurants_have_their_distribution(counts, r):
    assert fit_to(sample_sum(counts, r), len(counts), probabilities(counts, r)) > LEVEL


@pytest.mark.jit
@parametrize_few(
    ("r", "size"), [(1e-3, 40_000), (1.0, 40_000), (1e4, 1_000), (1e9, 200), (1e12, 1_000), (1e15, 40_000)]
)
def test_a_billion_customers_have_tables_with_the_right_moments(r, size):
    assert (mean_and_variance(sample(1e9, r, size=size), *moments(1e9, r)) > LEVEL).all()


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("r", [0.1, 30.0])
def test_many_large_restaurants_have_tables_with_the_right_moments(r):
    counts = np.unique(np.geomspace(1, 1e6, 1000).astype(int))
    mean, variance, fourth = np.sum([moments(y, r) for y in counts], axis=0)
    assert (mean_and_variance(sample_sum(counts, r, size=2_000), mean, variance, fourth) > LEVEL).all()


def test_certain_outcomes_are_certain():
    """A first customer opens a table; with r near 0 nobody else does, with r = 1e15 three hundred customers all do."""
    for r in (1e-300, 0.5, 1e15):
        assert (sample(1, r, size=20) == 1).all()
        assert (sample_sum([1, 1, 1], r, size=20) == 3).all()
    for y in (2, 300, 1e9):
        for r in (1e-300, 5e-324, 0.0, np.nan):
            assert (sample(y, r, size=20) == 1).all()
    assert (sample(0, 1.0, size=5) == 0).all()
    assert (sample_sum([], 1.0, size=5) == 0).all()
    assert (sample_sum([2, 5, 10**9], 1e-300, size=20) == 3).all()
    for r in (1e15, 1e300):
        assert (sample(300, r, size=200) == 300).all()


def test_there_is_at_least_one_table_and_at_most_one_for_each_customer():
    choice = np.random.default_rng(5)
    for _ in range(40 if JIT_OFF else 4_000):
        y = int(10 ** choice.uniform(0, 5))
        r = 10 ** choice.uniform(-300 if choice.random() < 0.2 else -3, 15)
        tables = sample(y, r, size=2)
        assert tables.min() >= 1
        assert tables.max() <= y


def test_draws_are_a_function_of_the_seat_alone():
    """Not of what the scratch space holds, nor of earlier draws; one restaurant is a sum with one term."""
    y, r, size = 400, 3.0, 50
    draws = sample(y, r, size=size)
    assert draws.tobytes() == sample(y, r, size=size).tobytes() == sample_sum([y], r, size=size, seed=31).tobytes()
    rng, words = scratch(), np.full(SCRATCH, 7, dtype=np.int64)
    for i in reversed(range(size)):
        seek(rng, stream(31), i)
        assert crt(rng, y, r, words) == draws[i]


BUGS = {
    "undecided trials that all succeed": ("tables += uniform(rng) < (", "tables += 0.0 < (1 + "),
    "a ratio that is linear in i": (" * ((r + start) / (r + i))", ""),
    "one trial chosen twice": ("new = new and chosen[k] != trial", "new = True"),
    "decided trials that share the least probability": ("failure = start / (r + start)", "failure = 1.0 - success"),
    "restaurants that close taken for open ones": ("if trial >= partial:", "if trial >= 0:"),
}


def p_value_of_all(draw):
    """Some of the tests above as one, corrected for their number."""
    p_values = [
        fit_to(draw(counts, r), len(counts), probabilities(counts, r))
        for counts in (COUNTS["one"], COUNTS["mixed"])
        for r in (1.0, 7.0)
    ]
    return corrected(p_values)


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.skipif(JIT_OFF, reason="needs more draws than interpreted code makes")
@pytest.mark.parametrize("bug", BUGS)
def test_a_deliberate_bug_is_found(bug):
    """The module compiled once more with the bug in it."""
    source = Path(chinese_restaurant.__file__).read_text(encoding="utf-8")
    right, wrong = BUGS[bug]
    assert source.count(right) == 1
    # Kernels of the package are cached on disk by the names of their files. These have no file.
    uncached = "from numba import njit as kernel\nfrom numba import njit as part"
    source = source.replace("from allocore.kernels.jit import kernel, part", uncached)
    names = {"__name__": "with_a_bug"}
    exec(source.replace(right, wrong), names)
    crt_sum = names["crt_sum"]

    @numba.njit
    def fill(stream, rng, counts_J, cumulative_J, r, words, out):
        for i in range(out.size):
            seek(rng, stream, i)
            out[i] = crt_sum(rng, counts_J, cumulative_J, r, words)

    assert p_value_of_all(lambda counts, r: sample_sum(counts, r, fill=fill)) < LEVEL


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.skipif(JIT_OFF, reason="needs more draws than interpreted code makes")
def test_a_concentration_that_is_two_percent_wrong_is_found():
    assert p_value_of_all(sample_sum) > LEVEL
    assert p_value_of_all(lambda counts, r: sample_sum(counts, 1.02 * r)) < LEVEL

"""The counter-based generator: published answers, uniformity, and independence of everything but the counter."""

import numpy as np
import pytest
from scipy import stats

from allocore.kernels.random import UNIFORMS_AT_ONCE, Key, Step, bits, fill_uniforms, mix, scratch, seek, uniform

# Known answers of Philox4x32-10 from the authors' Random123 distribution: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_the_generator_gives_the_published_answers(counter, key, answer):
    assert [int(word) for word in mix(*np.array(words(counter) + words(key), dtype=np.uint64))] == words(answer)


def first_bits(seed=1, chain=0, sweep=0, step=Step.THIN, mode=0, index=0):
    rng = scratch()
    seek(rng, Key.of(seed, chain).at(sweep).stream(step, mode), index)
    return tuple(int(bits(rng)) for _ in range(8))


def test_every_part_of_the_address_gives_other_bits():
    addresses = [
        {},
        {"seed": 2},
        {"chain": 1},
        {"sweep": 1},
        {"step": Step.CORE},
        {"mode": 1},
        {"index": 1},
        {"index": 2**32},
        {"index": 2**40},
    ]
    assert len({first_bits(**address) for address in addresses}) == len(addresses)


def test_the_same_address_gives_the_same_bits_again():
    assert first_bits(seed=5, sweep=7, index=2**33 + 1) == first_bits(seed=5, sweep=7, index=2**33 + 1)


def test_uniforms_are_uniform_and_never_touch_the_ends():
    """Kolmogorov-Smirnov at level 1e-4 over consecutive numbers and over neighbouring indices."""
    rng, stream = scratch(), Key.of(3, 0).stream(Step.THIN)
    seek(rng, stream, 0)
    along = np.array([uniform(rng) for _ in range(4000)])
    across = np.empty(4000)
    for index in range(4000):
        seek(rng, stream, index)
        across[index] = uniform(rng)
    for sample in (along, across):
        assert stats.kstest(sample, "uniform").pvalue > 1e-4
        assert sample.min() > 0
        assert sample.max() < 1


def test_the_largest_and_the_smallest_uniform_lie_inside():
    rng = scratch()
    rng[7], rng[8] = 2**52 - 1, 0
    assert 0.0 < 1.0 - uniform(rng) < 1e-15
    assert 0.0 < uniform(rng) < 1e-15


def test_numbers_made_in_bulk_are_those_of_their_places():
    """Number i of a stream is the same whichever run of numbers it is made in, and uniform."""
    stream, out = Key.of(3, 0).stream(Step.THIN), np.empty(4000 + UNIFORMS_AT_ONCE)
    fill_uniforms(stream, 0, 4000, out)
    some = np.empty(10 + UNIFORMS_AT_ONCE)
    fill_uniforms(stream, 26, 10, some)
    np.testing.assert_array_equal(some[:10], out[26:36])
    assert stats.kstest(out[:4000], "uniform").pvalue > 1e-4


def test_a_seat_goes_on_to_other_numbers():
    """Eight numbers are made at a time; the next eight are others, and the same again from the same seek."""
    rng, stream = scratch(), Key.of(3, 0).stream(Step.CORE)
    seek(rng, stream, 5)
    run = [int(bits(rng)) for _ in range(32)]
    assert len(set(run)) == 32
    seek(rng, stream, 5)
    assert [int(bits(rng)) for _ in range(32)] == run

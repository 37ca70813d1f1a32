"""Random bits that are a function of (seed, chain, sweep, step, mode, index) and of nothing else.

Philox4x32-10 (Salmon et al., SC 2011), a counter-based generator: a 128-bit counter and a 64-bit key are mixed into
four 32-bit words. The key comes from (seed, chain); the counter is laid out so that no two uses can meet:

    word 0   number of the block of four words     word 2   low half: step and mode; high half: index, bits 32-47
    word 1   index, bits 0-31                      word 3   sweep

A kernel calls `seat(rng, stream, index)` for the cell, class or factor entry it works on, then draws as often as it
likes. `rng` is scratch space of eleven uint64 words: counter (0-3), key (4-5), the last block (6-9), words used (10).
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore._jit import inlined, kernel

Words: TypeAlias = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_HALF = np.uint64(16)
_ONE = np.uint64(1)
_FOUR = np.uint64(4)
_TWELVE = np.uint64(12)
_TWENTY = np.uint64(20)
_BITS_OF_ONE = np.uint64(0x3FF0000000000000)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_UNIT = 2.0**-52


class Step(IntEnum):
    """What a random number is for; part of its counter."""

    THIN = 1
    THIN_CAREFULLY = 6
    CORE = 2
    RELOCATE = 3
    NEW_FACTOR = 4
    FACTOR = 5


@dataclass(frozen=True)
class Key:
    """Where a chain stands: its two key words and its sweep. `at` moves on, `stream` opens one step of the sweep."""

    words: tuple[int, int]
    sweep: int = 0

    @classmethod
    def of(cls, seed: int, chain: int) -> "Key":
        """The key of one chain of a run."""
        low, high = np.random.SeedSequence(seed, spawn_key=(chain,)).generate_state(2, np.uint32)
        return cls((int(low), int(high)))

    def at(self, sweep: int) -> "Key":
        """The same chain at another sweep."""
        return replace(self, sweep=sweep)

    def stream(self, step: Step, mode: int = 0) -> Words:
        """The words that `seat` needs for this step and mode: key, step word, sweep."""
        return np.array([*self.words, step << 8 | mode, self.sweep], dtype=np.uint64)


def scratch() -> Words:
    """A buffer for `seat` and the draws that follow it."""
    return np.zeros(11, dtype=np.uint64)


@kernel
def seat(rng: Words, stream: Words, index: int) -> None:
    """Point the generator at the random numbers of `index` within a step."""
    place = np.uint64(index)
    rng[0] = np.uint64(0)
    rng[1] = place & _LOW
    rng[2] = stream[2] | ((place >> _SHIFT) << _HALF)
    rng[3] = stream[3]
    rng[4] = stream[0]
    rng[5] = stream[1]
    rng[10] = _FOUR


@inlined
def _mix(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """The ten rounds of Philox4x32: counter and key to four words. All words are 32 bits in a uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0, c2 = (p1 >> _SHIFT) ^ c1 ^ k0, (p0 >> _SHIFT) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@kernel
def _next_block(rng: Words) -> None:
    rng[6], rng[7], rng[8], rng[9] = _mix(rng[0], rng[1], rng[2], rng[3], rng[4], rng[5])
    rng[0] += _ONE
    rng[10] = np.uint64(0)


@kernel
def bits(rng: Words) -> Any:
    """The next 32 random bits."""
    if rng[10] == _FOUR:
        _next_block(rng)
    word = rng[6 + np.int64(rng[10])]
    rng[10] += _ONE
    return word


@kernel
def uniform(rng: Words) -> float:
    """A uniform number in (0, 1), never 0 and never 1, of 52 random bits."""
    high = bits(rng) >> np.uint64(6)
    low = bits(rng) >> np.uint64(6)
    return (np.float64(high) * 67108864.0 + np.float64(low) + 0.5) * _UNIT


@kernel
def fill_uniforms(stream: Words, first: int, out: NDArray[np.float64]) -> None:
    """Uniform numbers `first`, `first` + 1, .. of a stream, in (0, 1), of 52 bits each; `first` and out.size are even.

    Number i is made of the words of index i // 2, block 0, so that this and `seat` must not share a stream. The loop is
    over independent counters and is compiled to vector code: a number costs a few cycles.
    """
    words = out.view(np.uint64)
    k0, k1, step, sweep = stream[0], stream[1], stream[2], stream[3]
    for pair in range(out.size // 2):
        place = np.uint64(first // 2 + pair)
        c0, c1, c2, c3 = _mix(np.uint64(0), place & _LOW, step | ((place >> _SHIFT) << _HALF), sweep, k0, k1)
        # 52 random bits behind the exponent of 1.0 make a number in [1, 2).
        words[2 * pair] = _BITS_OF_ONE | (c0 << _TWENTY) | (c1 >> _TWELVE)
        words[2 * pair + 1] = _BITS_OF_ONE | (c2 << _TWENTY) | (c3 >> _TWELVE)
    for i in range(out.size):
        out[i] -= 1.0 - 0.5 * _UNIT

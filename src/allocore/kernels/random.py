"""Random bits that are a function of (seed, chain, sweep, step, mode, index) and of nothing else.

Philox4x32-10 (Salmon et al. 2011) is a counter-based generator: it mixes a 128-bit counter and a 64-bit key into four
32-bit words. The key comes from (seed, chain). The layout of the counter rules out that two uses share a counter:

    word 0   number of the block of four words     word 2   low half: step and mode; high half: index, bits 32-47
    word 1   index, bits 0-31                      word 3   sweep

A kernel calls `seek(rng, stream, index)` for the cell, class or row it works on, then draws as often as it likes.
`rng` is scratch space of fifteen uint64 words: counter (0-3), key (4-5), numbers used (6), and the next eight numbers
of 52 bits (7-14). Eight are made at once, from four blocks, because mixing four blocks takes no longer than one.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.jit import inlined, kernel, part

Words: TypeAlias = NDArray[np.uint64]

_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_HALF = np.uint64(16)
_ONE = np.uint64(1)
_BLOCKS = np.uint64(4)
_NUMBERS = np.uint64(8)
_BUFFER = np.uint64(7)
_TWELVE = np.uint64(12)
_TWENTY = np.uint64(20)
_BITS_OF_ONE = np.uint64(0x3FF0000000000000)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_UNIT = 2.0**-52
UNIFORMS_AT_ONCE = 32


class Step(IntEnum):
    """The purpose of a random number, a part of its counter."""

    THIN = 1
    CORE = 2
    RELOCATE = 3
    NEW_FACTOR = 4
    FACTOR = 5
    THIN_EXACT = 6
    THIN_AGAIN = 7
    INCLUSION = 8
    SPLIT_MERGE = 9
    LATENT = 10
    LATENT_EXACT = 11
    DISPERSION = 12
    CONCENTRATION = 13


@dataclass(frozen=True)
class Key:
    """A chain's position: its two key words and its sweep. `at` goes to a sweep, `stream` opens one step of it."""

    words: tuple[int, int]
    sweep: int = 0

    @classmethod
    def of(cls, seed: int, chain: int, started: int | None = None) -> "Key":
        """The key of one chain of a run; if it begins at the states of another run, with a number made from these."""
        spawn_key = (chain,) if started is None else (chain, started)
        low, high = np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(2, np.uint32)
        return cls((int(low), int(high)))

    def at(self, sweep: int) -> "Key":
        """The same chain at another sweep."""
        return replace(self, sweep=sweep)

    def stream(self, step: Step, mode: int = 0) -> Words:
        """The words that `seek` needs for this step and mode: key, step word, sweep."""
        return np.array([*self.words, step << 8 | mode, self.sweep], dtype=np.uint64)


def scratch() -> Words:
    """A buffer for `seek` and the numbers drawn after it."""
    return np.zeros(15, dtype=np.uint64)


@kernel
def seek(rng: Words, stream: Words, index: Any) -> None:
    """Point the generator at the random numbers of `index` within a step."""
    place = np.uint64(index)
    rng[0] = np.uint64(0)
    rng[1] = place & _LOW
    rng[2] = stream[2] | ((place >> _SHIFT) << _HALF)
    rng[3] = stream[3]
    rng[4] = stream[0]
    rng[5] = stream[1]
    rng[6] = _NUMBERS


@inlined
def mix(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """The ten rounds of Philox4x32, from counter and key to four words. Every word is 32 bits in a uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0, c2 = (p1 >> _SHIFT) ^ c1 ^ k0, (p0 >> _SHIFT) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@part
def _refill(rng: Words) -> None:
    c0, c1, c2, c3, k0, k1 = rng[0], rng[1], rng[2], rng[3], rng[4], rng[5]
    for block in range(4):
        w0, w1, w2, w3 = mix((c0 + np.uint64(block)) & _LOW, c1, c2, c3, k0, k1)
        rng[7 + 2 * block] = (w0 << _TWENTY) | (w1 >> _TWELVE)
        rng[8 + 2 * block] = (w2 << _TWENTY) | (w3 >> _TWELVE)
    rng[0] = c0 + _BLOCKS
    rng[6] = np.uint64(0)


@kernel
def bits(rng: Words) -> Any:
    """The next 52 random bits."""
    if rng[6] == _NUMBERS:
        _refill(rng)
    number = rng[_BUFFER + rng[6]]
    rng[6] += _ONE
    return number


@kernel
def uniform(rng: Words) -> float:
    """A uniform number of 52 random bits in (0, 1), never 0 and never 1."""
    return (np.float64(np.int64(bits(rng))) + 0.5) * _UNIT


@kernel
def fill_uniforms(stream: Words, first: int, count: int, out: NDArray[np.float64]) -> None:
    """Write numbers `first`, `first` + 1, .. of a stream, uniform in (0, 1), 52 bits, to out[:count]; `first` is even.

    Number i is made of the words of index i // 2, block 0, so this function and `seek` must not share a stream. The
    counters are independent, so the loop becomes vector code and a number costs a few cycles. The loop runs to a
    multiple of UNIFORMS_AT_ONCE, so `out` must be that much longer.
    """
    words = out.view(np.uint64)
    k0, k1, step, sweep = stream[0], stream[1], stream[2], stream[3]
    chunks = (count + UNIFORMS_AT_ONCE - 1) // UNIFORMS_AT_ONCE
    for pair in range(chunks * (UNIFORMS_AT_ONCE // 2)):
        place = np.uint64(first // 2 + pair)
        c0, c1, c2, c3 = mix(np.uint64(0), place & _LOW, step | ((place >> _SHIFT) << _HALF), sweep, k0, k1)
        # 52 random bits after the exponent bits of 1.0 make a number in [1, 2).
        words[2 * pair] = _BITS_OF_ONE | (c0 << _TWENTY) | (c1 >> _TWELVE)
        words[2 * pair + 1] = _BITS_OF_ONE | (c2 << _TWENTY) | (c3 >> _TWELVE)
    for i in range(chunks * UNIFORMS_AT_ONCE):
        out[i] -= 1.0 - 0.5 * _UNIT

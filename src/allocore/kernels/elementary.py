"""exp and log without a branch or a call, so that loops around them become vector code, with the same bytes everywhere.

The last bits of NumPy's exp and log depend on the width of the vectors, and a call of the C library takes four times as
long. So whatever decides a draw, or is stored with one, takes exp and log of arrays from here, or calls the C library
in a kernel (tests/kernels/test_elementary.py). The formulas are Sun's fdlibm (Ng 1993): an error of at most one unit in
the last place, and no fused multiply-add, so they do not depend on the processor. Cost: about 1 ns per number.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allocore.kernels.jit import inlined, kernel

Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.uint32]
Flags: TypeAlias = NDArray[np.bool_]

# ln 2 in two parts: the products of the first with exponents of floats are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_PER_LN2 = 1.44269504088896338700
_LEAST_EXP, _MOST_EXP = -746.0, 710.0  # beyond these e^x is 0 or infinite
_E1, _E2, _E3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_E4, _E5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5, _L6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01
# Adding it rounds a number to an integer, which is then in the last bits.
_TO_INTEGER = 1.5 * 2.0**52
_BITS_TO_INTEGER = np.int64(0x4338000000000000)
_BITS_OF_HALF_ROOT = np.uint64(0x3FE6A09E00000000)  # of a number just below the root of 1/2
_FROM_HALF_ROOT_TO_ONE = np.uint64(0x3FF0000000000000 - 0x3FE6A09E00000000)
_FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
_FRACTION_BITS, _BIAS = np.int64(52), np.int64(1023)
_LEAST_NORMAL = 2.0**-1022
_HALVING, _ONE = np.int64(4096), np.int64(1)


@inlined
def lane_exp(x: Any) -> Any:
    """e^x."""
    x = min(max(x, _LEAST_EXP), _MOST_EXP)
    shifted = x * _PER_LN2 + _TO_INTEGER
    power = shifted - _TO_INTEGER
    high, low = x - power * _LN2_HIGH, power * _LN2_LOW
    rest = high - low
    square = rest * rest
    c = rest - square * (_E1 + square * (_E2 + square * (_E3 + square * (_E4 + square * _E5))))
    number = 1.0 + (rest * c / (2.0 - c) - low + high)
    # Times 2^power, in two steps, because 2^power itself may be beyond floats.
    exponent = np.float64(shifted).view(np.int64) - _BITS_TO_INTEGER
    half = ((exponent + _HALVING) >> _ONE) - (_HALVING >> _ONE)
    first = np.int64((half + _BIAS) << _FRACTION_BITS).view(np.float64)
    second = np.int64((exponent - half + _BIAS) << _FRACTION_BITS).view(np.float64)
    return number * first * second


@inlined
def lane_log(x: Any) -> Any:
    """The logarithm of a number that is not negative: minus infinity for zero; infinity and NaN stay as they are."""
    tiny = x < _LEAST_NORMAL
    words = np.float64(x * 2.0**54 if tiny else x).view(np.uint64) + _FROM_HALF_ROOT_TO_ONE
    power = np.float64(np.int64(words >> np.uint64(52))) - (1077.0 if tiny else 1023.0)
    f = np.uint64((words & _FRACTION) + _BITS_OF_HALF_ROOT).view(np.float64) - 1.0
    s, half = f / (2.0 + f), 0.5 * f * f
    z = s * s
    w = z * z
    rest = w * (_L2 + w * (_L4 + w * _L6)) + z * (_L1 + w * (_L3 + w * (_L5 + w * _L7)))
    number = s * (half + rest) + power * _LN2_LOW - half + f + power * _LN2_HIGH
    return number if 0.0 < x < np.inf else (x if x != 0.0 else -np.inf)


def exp_of(numbers: ArrayLike) -> Floats:
    """e^x of every number."""
    return _apply(_exp, numbers)


def log_of(numbers: ArrayLike) -> Floats:
    """The logarithm of every number; minus infinity for zeros."""
    return _apply(_log, numbers)


def _apply(fill: Callable[[Floats, Floats], None], numbers: ArrayLike) -> Floats:
    given = np.asarray(numbers, dtype=np.float64, order="C")
    out = np.empty_like(given)
    fill(given.reshape(-1), out.reshape(-1))
    return out


def log_sums(logs_NQ: Floats) -> Floats:
    """The logarithm of the sum of e^x over every row (N)."""
    sums_N = np.empty(len(logs_NQ))
    _log_sums(logs_NQ, sums_N)
    return sums_N


@kernel
def _exp(given: Floats, out: Floats) -> None:
    for i in range(out.size):
        out[i] = lane_exp(given[i])


@kernel
def _log(given: Floats, out: Floats) -> None:
    for i in range(out.size):
        out[i] = lane_log(given[i])


@kernel
def _log_sums(logs_NQ: Floats, sums_N: Floats) -> None:
    for n in range(sums_N.size):
        top, total = logs_NQ[n, 0], 0.0
        for q in range(1, logs_NQ.shape[1]):
            top = max(top, logs_NQ[n, q])
        if top == -np.inf:
            sums_N[n] = top
            continue
        for q in range(logs_NQ.shape[1]):
            total += np.exp(logs_NQ[n, q] - top)
        sums_N[n] = top + np.log(total)

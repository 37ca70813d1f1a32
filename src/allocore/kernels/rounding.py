"""A fingerprint of how this process rounds, to know beforehand whether draws on two machines will agree.

Draws consist of

- additions and multiplications in one fixed order, and exp and log of arrays, which consist of these (elementary.py):
  all processors round them alike;
- exp, log, log1p, expm1 and lgamma of the C library, as compiled kernels call them: the library has variants for
  processors with and without fused multiply-add and differs between versions, and numba replaces it by Intel's SVML
  where it finds that;
- a few sums by NumPy, which may be built for other vectors.

The results of the last two are hashed, at a few thousand fixed points. Cost: a few milliseconds, once per process.
"""

import hashlib
import math
import platform
from functools import cache

import numpy as np
from scipy.special import gammaln

from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import Floats
from allocore.kernels.jit import kernel
from allocore.kernels.random import scratch, seek

# Of 2,000 points, the variants of exp for processors with and without fused multiply-add differ at one.
_POINTS, _FEW = 2**14, 512
_ODD = np.uint64(0x9E3779B97F4A7C15)


@cache
def rounding() -> str:
    """16 hexadecimal digits: if they differ between two processes, draws may too. Package versions are not in them."""
    points = _points()
    digest = hashlib.sha256(platform.machine().encode())
    for result in (*_compiled(points), *_in_python(points), *_in_numpy(points)):
        digest.update(np.ascontiguousarray(result, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


def _points() -> Floats:
    mixed = np.arange(1, _POINTS + 1, dtype=np.uint64) * _ODD
    fractions = 1.0 + (mixed >> np.uint64(12)).astype(np.float64) * 2.0**-52
    return np.ldexp(fractions, np.arange(_POINTS) % 26 - 20)


def _compiled(points: Floats) -> list[Floats]:
    """The functions that kernels call, and gamma variates, which most draws are made of."""
    values, rng = np.empty((6, points.size)), scratch()
    _fill(points, values)
    seek(rng, np.array([1, 2, 3, 4], dtype=np.uint64), 0)
    pairs = zip(points[:_FEW].tolist(), points[-_FEW:].tolist(), strict=True)
    return [values, np.array([log_gamma(rng, shape, rate) for shape, rate in pairs])]


@kernel
def _fill(points: Floats, values: Floats) -> None:
    # One loop for each function, because loops are what a vector library would replace.
    for i in range(points.size):
        values[0, i] = math.exp(-points[i])
    for i in range(points.size):
        values[1, i] = math.log(points[i])
    for i in range(points.size):
        values[2, i] = math.log1p(points[i])
    for i in range(points.size):
        values[3, i] = math.expm1(points[i])
    for i in range(points.size):
        values[4, i] = math.lgamma(points[i])
    for i in range(points.size):
        values[5, i] = points[i] * points[i] + points[points.size - 1 - i]


def _in_python(points: Floats) -> list[list[float]]:
    functions = math.exp, math.log, math.lgamma, math.erfc
    return [[each(point) for point in points[:_FEW].tolist()] for each in functions]


def _in_numpy(points: Floats) -> list[Floats]:
    """Sums and functions that NumPy and SciPy compute for the sampler, and the variates of a first state."""
    table, weights = points.reshape(-1, 64), points[:64]
    rng = np.random.Generator(np.random.Philox(0))
    return [
        np.array([points[:count].sum() for count in range(1, _FEW)]),
        table.sum(axis=0),
        table.prod(axis=0),
        np.cumsum(table, axis=1),
        np.einsum("dq,dq->q", table, table[::-1]),
        np.einsum("dq,q->d", table, weights),
        np.einsum("d...,d->...", table[:64], weights),
        np.logaddexp(0.0, np.concatenate([points, -points])),
        np.logaddexp.reduce(table, axis=1),
        gammaln(points + 1.0),
        rng.standard_gamma(1.1, _FEW),
    ]

"""The numba policy of the whole package, in one decorator.

A kernel is serial, works on arrays it is given, and releases the GIL; threads are the driver's business
(`_workers.py`).
No fastmath: sums keep one order, so the same seed gives the same bytes. Compiled code is cached on disk.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of a kernel that is copied into its callers before they are optimised, so that loops around it vectorise."""
    return cast(Callable[P, R], numba.njit(inline="always", error_model="numpy")(function))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on first use (a plain Python function when the JIT is off)."""
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True, error_model="numpy")(function))

"""The gamma priors, in the form that kernels read."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from allocore.kernels.arrays import Floats
from allocore.kernels.elementary import log_of
from allocore.model.spec import Spec
from allocore.model.state import State

_TABLE = 1024


class Priors(NamedTuple):
    """Shape and rate of the priors of core values (a0, b0) and of the factors of one mode (e0, f0).

    `log_rising_Y` has ln G(e0 + y) - ln G(e0) for small y: a table, because the function takes ten times as long.
    """

    a0: float
    b0: float
    e0: float
    f0: float
    log_rising_Y: Floats

    @classmethod
    @lru_cache(maxsize=64)
    def with_values(cls, a0: float, b0: float, e0: float, f0: float) -> "Priors":
        """The priors with these values; most models have the same ones in all modes and sweeps."""
        log_rising_Y = np.zeros(_TABLE)
        np.cumsum(log_of(e0 + np.arange(_TABLE - 1)), out=log_rising_Y[1:])
        return cls(a0, b0, e0, f0, log_rising_Y)

    @classmethod
    def of(cls, spec: Spec, state: State, mode: int) -> "Priors":
        """The priors of a model in one mode; the state has e0 if it is learned."""
        return cls.with_values(spec.a0, spec.b0, spec.concentration(mode, state.concentrations_M), spec.f0)

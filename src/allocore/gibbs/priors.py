"""The gamma priors, in the form that kernels read."""

from typing import NamedTuple

from allocore.model.spec import Spec
from allocore.model.state import State


class Priors(NamedTuple):
    """Shape and rate of the priors of core values (a0, b0) and of the factors of one mode (e0, f0)."""

    a0: float
    b0: float
    e0: float
    f0: float

    @classmethod
    def of(cls, spec: Spec, state: State, mode: int) -> "Priors":
        """The priors of a model in one mode; the state has e0 if it is learned."""
        return cls(spec.a0, spec.b0, spec.concentration(mode, state.concentrations_M), spec.f0)

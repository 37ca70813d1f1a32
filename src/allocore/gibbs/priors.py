"""The gamma priors as kernels read them."""

from typing import NamedTuple

from allocore.model.spec import Spec


class Priors(NamedTuple):
    """Shapes and rates: of core values (a0, b0), and of factors (e0, f0)."""

    a0: float
    b0: float
    e0: float
    f0: float

    @classmethod
    def of(cls, spec: Spec) -> "Priors":
        """The priors of a model."""
        return cls(spec.a0, spec.b0, spec.e0, spec.f0)

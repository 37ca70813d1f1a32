"""The specification of a model: which one it is, how large, and its priors."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from allocore.errors import InputError, whole_number

Model = Literal["AlloCore", "CP", "Tucker", "NNTuck"]

# Gamma(1, rate 0) is flat: with it, the posterior mode is the maximum-likelihood estimate.
_FLAT: dict[str, Any] = {"alpha0": 0.0, "a0": 1.0, "b0": 0.0, "e0": 1.0, "f0": 0.0}
_PRIORS = ("a0", "b0", "e0", "f0", "alpha0", "c0", "d0")
# Beyond these, products of rates over the modes leave the range of 64-bit floats.
_LEAST, _MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Spec:
    """All models in one: `budget` classes Q, each at a location of a core of shape `core_shape`.

    AlloCore starts them on the super-diagonal (k[q, m] = q mod K_m) and learns their locations; CP leaves them there.
    Tucker has one class fixed at every location of the core, and NNTuck is Tucker without priors, by maximum
    likelihood. With `infer_budget` each class is included or not, with a probability that has the prior Beta(c0, d0);
    the budget is then the most classes there can be.
    """

    budget: int
    core_shape: tuple[int, ...]
    a0: float = 1.0
    b0: float = 1.0
    e0: float = 1.0
    f0: float = 10.0
    alpha0: float = 0.1
    model: Model = "AlloCore"
    infer_budget: bool = False
    c0: float = 1.0
    d0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", whole_number("budget", self.budget))
        shape = tuple(whole_number("core_shape", size, self.core_shape) for size in self.core_shape)
        object.__setattr__(self, "core_shape", shape)
        for name in _PRIORS if self.has_priors else ():
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        if self.dense_core and self.budget != math.prod(shape):
            raise InputError(
                f"budget is {self.budget}, but a class on every location of core_shape {shape} needs {math.prod(shape)}"
            )

    @classmethod
    def without_priors(cls, core_shape: tuple[int, ...]) -> "Spec":
        """NNTuck: a class on every location of the core, and flat priors."""
        return cls(math.prod(core_shape), core_shape, **_FLAT, model="NNTuck")

    @property
    def learn_locations(self) -> bool:
        """Whether the locations of the classes are learned."""
        return self.model == "AlloCore"

    @property
    def dense_core(self) -> bool:
        """Whether there is a class on every location of the core."""
        return self.model in ("Tucker", "NNTuck")

    @property
    def has_priors(self) -> bool:
        """Whether there are priors, and with them a posterior to sample."""
        return self.model != "NNTuck"

    def start_locations(self) -> NDArray[np.int64]:
        """Where the classes begin, as `subs_QM`."""
        if self.dense_core:
            return np.ascontiguousarray(np.indices(self.core_shape).reshape(len(self.core_shape), -1).T)
        return np.asarray(np.arange(self.budget)[:, None] % np.array(self.core_shape))


def core_shape_for(shape: tuple[int, ...], budget: int, core_shape: object) -> tuple[int, ...]:
    """Check a user's core shape against a tensor's shape; None is the canonical one, K_m = Q in every mode."""
    if core_shape is None:
        return (whole_number("budget", budget),) * len(shape)
    if isinstance(core_shape, str) or not hasattr(core_shape, "__iter__"):
        raise InputError(f"core_shape is {core_shape!r}, but it must be a sequence with one whole number per mode")
    sizes = tuple(core_shape)
    if len(sizes) != len(shape):
        raise InputError(
            f"core_shape {sizes} has {len(sizes)} entries, but the tensor has {len(shape)} modes: one entry per mode"
        )
    return tuple(whole_number("core_shape", size, sizes) for size in sizes)


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(f"{name} is {value!r}, but it must be a positive number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not _LEAST <= number <= _MOST:
        raise InputError(f"{name} is {value!r}, but it must be positive and finite ({_LEAST} to {_MOST})")
    return number

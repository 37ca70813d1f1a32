"""The specification of a model: how large it is, its priors, and whether the locations of the core are learned."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from allocore.errors import InputError, whole_number

# Gamma(1, rate 0) is the same everywhere: with it, the most probable values are those of maximum likelihood.
_FLAT: dict[str, Any] = {"alpha0": 0.0, "a0": 1.0, "b0": 0.0, "e0": 1.0, "f0": 0.0}
_PRIORS = ("a0", "b0", "e0", "f0", "alpha0", "c0", "d0")
# Beyond these, products of rates over the modes leave the range of 64-bit floats.
_LEAST, _MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Spec:
    """ALL0CORE, CP and Tucker in one: `budget` classes Q, each at a location of a core of shape `core_shape`.

    `start` says where the classes begin: on the super-diagonal (k[q, m] = q mod K_m), or one on every location of the
    core. With `learn_locations` off they stay there: on the diagonal that is CP, on all locations Tucker. With
    `infer_budget` each class is on or off, on with a probability that has the prior Beta(c0, d0): the budget is then
    the most classes there can be.
    """

    budget: int
    core_shape: tuple[int, ...]
    a0: float = 1.0
    b0: float = 1.0
    e0: float = 1.0
    f0: float = 10.0
    alpha0: float = 0.1
    learn_locations: bool = True
    start: Literal["diagonal", "everywhere"] = "diagonal"
    infer_budget: bool = False
    c0: float = 1.0
    d0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", whole_number("budget", self.budget))
        shape = tuple(whole_number("core_shape", size, self.core_shape) for size in self.core_shape)
        object.__setattr__(self, "core_shape", shape)
        for name in () if self.flat else _PRIORS:
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        if self.start == "everywhere" and self.budget != math.prod(shape):
            raise InputError(
                f"budget is {self.budget}, but a class on every location of core_shape {shape} needs {math.prod(shape)}"
            )

    @classmethod
    def without_priors(cls, core_shape: tuple[int, ...]) -> "Spec":
        """A class on every location of the core, and flat priors: maximum likelihood."""
        return cls(math.prod(core_shape), core_shape, **_FLAT, learn_locations=False, start="everywhere")

    @property
    def flat(self) -> bool:
        """Whether there are no priors; the sampler needs some, so that its models cannot be specified like this."""
        fixed = not self.learn_locations and self.start == "everywhere"
        return fixed and all(getattr(self, name) == value for name, value in _FLAT.items())

    @property
    def model(self) -> str:
        """The name of the model that this specifies: AlloCore, CP, Tucker, or without priors NNTuck."""
        if self.flat:
            return "NNTuck"
        if self.learn_locations:
            return "AlloCore"
        return "Tucker" if self.start == "everywhere" else "CP"

    def start_locations(self) -> NDArray[np.int64]:
        """Where the classes begin, as `subs_QM`."""
        if self.start == "everywhere":
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

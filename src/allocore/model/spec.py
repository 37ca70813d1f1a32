"""The specification of a model: how large it is, its priors, and whether the locations of the core are learned."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from allocore.errors import InputError, whole_number

_PRIORS = ("a0", "b0", "e0", "f0", "alpha0")
# Beyond these, products of rates over the modes leave the range of 64-bit floats.
_LEAST, _MOST = 1e-30, 1e30


@dataclass(frozen=True)
class Spec:
    """ALL0CORE, CP and Tucker in one: `budget` classes Q, each at a location of a core of shape `core_shape`.

    `start` says where the classes begin: on the super-diagonal (k[q, m] = q mod K_m), or one on every location of the
    core. With `learn_locations` off they stay there: on the diagonal that is CP, on all locations Tucker.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", whole_number("budget", self.budget))
        shape = tuple(whole_number("core_shape", size, self.core_shape) for size in self.core_shape)
        object.__setattr__(self, "core_shape", shape)
        for name in _PRIORS:
            object.__setattr__(self, name, _positive(name, getattr(self, name)))
        if self.start == "everywhere" and self.budget != math.prod(shape):
            raise InputError(
                f"budget is {self.budget}, but a class on every location of core_shape {shape} needs {math.prod(shape)}"
            )

    @property
    def model(self) -> str:
        """The name of the model that this specifies: AlloCore, CP or Tucker."""
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

"""Draws that stand for several paths each: an array (chain, path, ...) of which nothing is copied.

array[chain, path] = draws[chain, path // paths]
"""

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from allocore.data.available_memory import require_memory
from allocore.kernels.arrays import Ints
from allocore.run.record import DrawArray


class RepeatedDraws(NDArrayOperatorsMixin):
    """A read-only array of some chains and draws of another one, which may be on disk; a draw may come many times.

    `array[chain, path]` is the value of one draw, and slices of chains and paths copy nothing. All else, NumPy's
    functions and operators too, makes the whole array in memory first.
    """

    def __init__(self, draws: DrawArray, chains: Ints, numbers: Ints) -> None:
        self._draws, self._chains, self._numbers = draws, chains, numbers
        self.shape: tuple[int, ...] = (len(chains), len(numbers), *draws.shape[2:])
        self.dtype, self.ndim = draws.dtype, len(self.shape)

    @classmethod
    def of(cls, draws: DrawArray, paths: int) -> "RepeatedDraws":
        """Every draw `paths` times, one after another."""
        return cls(draws, np.arange(draws.shape[0]), np.repeat(np.arange(draws.shape[1]), paths))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) >= 2:
            chain, path, *rest = key
            if all(isinstance(each, int | np.integer) for each in (chain, path)):
                return self._draws[int(self._chains[chain]), int(self._numbers[path])][tuple(rest)]
            if all(isinstance(each, slice) for each in (chain, path)) and not rest:
                return RepeatedDraws(self._draws, self._chains[chain], self._numbers[path])
        return np.asarray(self)[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("repeated draws can only be copied into an array")
        require_memory(int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize, "an array of all paths")
        whole = np.asarray(self._draws)[np.ix_(self._chains, self._numbers)]
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        whole = [np.asarray(each) if isinstance(each, RepeatedDraws) else each for each in inputs]
        return getattr(ufunc, method)(*whole, **options)

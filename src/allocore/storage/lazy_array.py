"""Read-only arrays (chain, draw, ...) that are not in memory: draws on disk, repeated, or divided by known numbers.

A run only adds values and replaces whole chunks, so an array on disk keeps the draws that existed when it was opened.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, Union

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from allocore._memory import check_room, require_memory
from allocore.errors import StoreError
from allocore.storage.zarr_format import (
    Damage,
    Growing,
    OnDamage,
    chunk_shape,
    identity_of_draws,
    read_attributes,
    read_values,
)

DrawArray: TypeAlias = Union[NDArray[Any], "StoredArray"]
READ_WHOLE_BYTES = 2**28  # the draws of a run on disk are read into memory as a whole if they take no more
_Numbers: TypeAlias = Sequence[int] | NDArray[np.int64]


class _LazyArray(NDArrayOperatorsMixin):
    """What all kinds share: NumPy's functions and operators first read the whole array into memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ndim: int

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def read(self) -> NDArray[Any]:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a lazy array can only be copied into memory")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (each.read() if isinstance(each, _LazyArray) else each for each in inputs)
        return getattr(ufunc, method)(*arrays, **options)


class RepeatedDraws(_LazyArray):
    """Chosen chains and draws of another array, perhaps on disk and perhaps many times each; slices copy nothing."""

    def __init__(self, draws: DrawArray, chains: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        self._draws, self._chains, self._numbers = draws, chains, numbers
        self.shape = (len(chains), len(numbers), *draws.shape[2:])
        self.dtype, self.ndim = draws.dtype, len(self.shape)

    @classmethod
    def of(cls, draws: DrawArray, paths: int) -> "RepeatedDraws":
        """Every draw `paths` times, one after another: array[chain, path] is draws[chain, path // paths]."""
        return cls(draws, np.arange(draws.shape[0]), np.repeat(np.arange(draws.shape[1]), paths))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) >= 2:
            chain, path, *rest = key
            if all(isinstance(each, int | np.integer) for each in (chain, path)):
                return self._draws[int(self._chains[chain]), int(self._numbers[path])][tuple(rest)]
            if all(isinstance(each, slice) for each in (chain, path)) and not rest:
                return RepeatedDraws(self._draws, self._chains[chain], self._numbers[path])
        return self.read()[key]

    def read(self) -> NDArray[Any]:
        """The whole array in memory."""
        require_memory(self.nbytes, "an array of all paths")
        return np.asarray(self._draws)[np.ix_(self._chains, self._numbers)]


class DividedDraws(_LazyArray):
    """The draws of another array, perhaps on disk, each divided by the same numbers when it is read."""

    def __init__(self, draws: DrawArray, by: NDArray[np.float64]) -> None:
        self._draws, self._by = draws, by
        self.shape, self.dtype, self.ndim = draws.shape, draws.dtype, len(draws.shape)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2:
            if all(isinstance(each, int | np.integer) for each in key):
                return self._draws[key] / self._by
            if all(isinstance(each, slice) for each in key):
                return DividedDraws(self._draws[key], self._by)
        return self.read()[key]

    def read(self) -> NDArray[Any]:
        """The whole array in memory."""
        return np.asarray(np.asarray(self._draws) / self._by)


class StoredArray(_LazyArray):
    """Some chains and draws of a variable on disk, read in chunks when needed; slices and lists stay on disk."""

    def __init__(
        self, run: Path, variable: Growing, chains: _Numbers, draws: _Numbers, attributes: Mapping[str, str]
    ) -> None:
        self._run, self._variable, self._attributes = run, variable, attributes
        self._chains, self._draws = np.asarray(chains, dtype=np.int64), np.asarray(draws, dtype=np.int64)
        self.shape = (len(self._chains), len(self._draws), *variable.shape)
        self.dtype, self.ndim = np.dtype(variable.dtype), len(self.shape)
        self._step, self._end = chunk_shape(variable)[1], int(self._draws.max(initial=-1)) + 1
        self._last: tuple[int, int, NDArray[Any]] | None = None  # a chain, a chunk, its values

    def __getitem__(self, key: Any) -> Any:
        given = key if isinstance(key, tuple) else (key,)
        chain, draw = (*given[:2], slice(None), slice(None))[:2]
        numbers = [isinstance(each, int | np.integer) for each in (chain, draw)]
        others = [each for each in (chain, draw) if not isinstance(each, int | np.integer | slice)]
        is_list = all(isinstance(each, list | np.ndarray) and np.ndim(each) == 1 for each in others)
        if others and (not is_list or len(others) > 1 or any(numbers) or len(given) > 2):
            return self.read()[key]  # by masks, pairs of lists, `...`: as NumPy does it
        if all(numbers):
            return self._value(int(self._chains[chain]), int(self._draws[draw]))[given[2:]]
        chains, draws = np.atleast_1d(self._chains[chain]), np.atleast_1d(self._draws[draw])
        part = StoredArray(self._run, self._variable, chains, draws, self._attributes)
        if len(given) <= 2 and not any(numbers):
            return part
        return part.read()[(*(0 if number else slice(None) for number in numbers), *given[2:])]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ValueError("assignment destination is read-only")

    def __getattr__(self, name: str) -> Any:
        known = None if name.startswith("_") else getattr(np.ndarray, name, None)
        if known is None:
            raise AttributeError(f"an array on disk has no attribute {name!r}")
        if not callable(known):
            return getattr(self.read(), name)
        # Nothing is read before the method is called: some libraries only ask whether it exists.
        return lambda *arguments, **options: getattr(self.read(), name)(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, so that a pickle does not depend on a folder."""
        return np.array, (self.read(),)

    def __repr__(self) -> str:
        return f"<array on disk, shape {self.shape}, {self._run / self._variable.path}>"

    def read(self, on_damage: OnDamage | None = None) -> NDArray[Any]:
        """The whole array in memory. Unless `on_damage` is given, damage is an error."""
        advice = ": take it draw by draw, as array[chain, draw]"
        check_room(self._run, self.nbytes, self._variable.path, advice)
        values = np.empty(self.shape, dtype=self.dtype)
        for chain, draws, chunk in self._chunks(on_damage):
            values[chain, draws] = chunk
        values.flags.writeable = False
        return values

    def check(self, on_damage: OnDamage) -> None:
        """Read everything once, a chunk at a time, to find damage."""
        for _ in self._chunks(on_damage):
            pass

    def _chunks(self, on_damage: OnDamage | None) -> Iterator[tuple[int, NDArray[np.int64], NDArray[Any]]]:
        """Chunk after chunk: the position of the chain, the positions of the draws, and their values."""
        index_S = self._draws // self._step
        for position, chain in enumerate(self._chains.tolist()):
            for index in np.unique(index_S).tolist():
                here = np.flatnonzero(index_S == index)
                yield position, here, self._read_chunk(chain, index, on_damage)[self._draws[here] - index * self._step]

    def _value(self, chain: int, draw: int) -> NDArray[Any]:
        """The value of one draw. Its chunk stays in memory, because the next draw is usually needed next."""
        index, offset = divmod(draw, self._step)
        cached = self._last
        if cached is None or cached[:2] != (chain, index):
            self._last = cached = chain, index, self._read_chunk(chain, index)
        value: NDArray[Any] = cached[2][offset]
        return value

    def _read_chunk(self, chain: int, index: int, on_damage: OnDamage | None = None) -> NDArray[Any]:
        """The values of a chunk, up to the last draw of this array."""
        if on_damage is None:
            now = read_attributes(self._run)
            if identity_of_draws(now) != identity_of_draws(self._attributes):
                raise StoreError(self._run, "is no longer the run that was opened: open it again")
            on_damage = Damage(self._run, "raise").of_draws
        first = index * self._step
        values = read_values(self._run, self._variable, chain, first, min(self._end, first + self._step), on_damage)
        values.flags.writeable = False
        return values

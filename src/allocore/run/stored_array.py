"""Draws that stay on disk: an array (chain, draw, ...) of which a chunk at a time is read, when its values are needed.

A run only ever adds values, and every chunk is replaced as a whole. So an array sees the draws that there were when it
was made, also while the run goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from allocore.data.available_memory import check_room
from allocore.errors import StoreError
from allocore.run.attributes import read_attributes
from allocore.run.chunks import OnDamage, chunk_shape, read_values
from allocore.run.damage import Damage
from allocore.run.schema import Growing

_SAME = ("seed", "tensor")
_Numbers: TypeAlias = Sequence[int] | NDArray[np.int64]


class StoredArray(NDArrayOperatorsMixin):
    """A read-only array on disk, for some chains and draws of a variable.

    `array[chain, draw]` is the value of one draw; chains and draws chosen by slices or lists stay on disk. NumPy's
    functions and operators, and the methods of arrays, read all of it into memory first.
    """

    def __init__(
        self, run: Path, variable: Growing, chains: _Numbers, draws: _Numbers, attributes: Mapping[str, str]
    ) -> None:
        self._run, self._variable, self._attributes = run, variable, attributes
        self._chains, self._draws = np.asarray(chains, dtype=np.int64), np.asarray(draws, dtype=np.int64)
        self.shape = (len(self._chains), len(self._draws), *variable.shape)
        self.dtype, self.ndim = np.dtype(variable.dtype), len(self.shape)
        self._step = chunk_shape(variable)[1]
        self._last: tuple[int, int, NDArray[Any]] | None = None  # a chain, a chunk, its values

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """The bytes that the array would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        given = key if isinstance(key, tuple) else (key,)
        chain, draw = (*given[:2], slice(None), slice(None))[:2]
        numbers = [isinstance(each, int | np.integer) for each in (chain, draw)]
        simple = all(isinstance(each, int | np.integer | slice) for each in (chain, draw))
        if not simple and (len(given) > 2 or not self._is_list(chain, draw)):
            return self.read()[key]  # by masks, pairs of lists, `...`: as NumPy does it
        if all(numbers):
            return self._value(int(self._chains[chain]), int(self._draws[draw]))[given[2:]]
        part = StoredArray(
            self._run,
            self._variable,
            np.atleast_1d(self._chains[chain]),
            np.atleast_1d(self._draws[draw]),
            self._attributes,
        )
        if len(given) <= 2 and not any(numbers):
            return part
        return part.read()[(*(0 if number else slice(None) for number in numbers), *given[2:])]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ValueError("assignment destination is read-only")

    @staticmethod
    def _is_list(chain: Any, draw: Any) -> bool:
        """Whether one of the two is a list of numbers, and the other one a slice."""
        lists = [each for each in (chain, draw) if not isinstance(each, slice)]
        return len(lists) == 1 and isinstance(lists[0], list | np.ndarray) and np.asarray(lists[0]).ndim == 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array on disk can only be copied into memory")
        values = self.read()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        read = [each.read() if isinstance(each, StoredArray) else each for each in inputs]
        return getattr(ufunc, method)(*read, **options)

    def __getattr__(self, name: str) -> Any:
        known = None if name.startswith("_") else getattr(np.ndarray, name, None)
        if known is None:
            raise AttributeError(f"an array on disk has no attribute {name!r}")
        if not callable(known):
            return getattr(self.read(), name)
        # Nothing is read before the method is called: some libraries only ask whether there is one.
        return lambda *arguments, **options: getattr(self.read(), name)(*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values: a pickle does not depend on a folder."""
        return np.array, (self.read(),)

    def __repr__(self) -> str:
        return f"<array on disk, shape {self.shape}, {self._run / self._variable.path}>"

    def read(self, on_damage: OnDamage | None = None) -> NDArray[Any]:
        """The whole array in memory. Unless `on_damage` is given, damage is an error."""
        advice = ": take it draw by draw, as array[chain, draw]"
        check_room(self.nbytes, f"{self._variable.path} of {self._run}", advice)
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
        last = int(self._draws.max(initial=-1)) + 1
        for position, chain in enumerate(self._chains.tolist()):
            for index in np.unique(index_S).tolist():
                here = np.flatnonzero(index_S == index)
                values = self._read_chunk(chain, index, min(last, (index + 1) * self._step), on_damage)
                yield position, here, values[self._draws[here] - index * self._step]

    def _value(self, chain: int, draw: int) -> NDArray[Any]:
        """The value of one draw. The chunk it is in is kept: most often the next draw is wanted next."""
        index, offset = divmod(draw, self._step)
        kept = self._last
        if kept is None or kept[:2] != (chain, index) or offset >= len(kept[2]):
            last = min(int(self._draws.max()) + 1, (index + 1) * self._step)
            self._last = kept = chain, index, self._read_chunk(chain, index, last, None)
        value: NDArray[Any] = kept[2][offset]
        return value

    def _read_chunk(self, chain: int, index: int, last: int, on_damage: OnDamage | None) -> NDArray[Any]:
        """The values of a chunk, up to draw `last` of the run."""
        if on_damage is None:
            self._check_same_run()
        values = read_values(
            self._run / self._variable.path,
            self._variable,
            chain,
            index * self._step,
            last,
            on_damage or Damage(self._run, "raise").of_draws,
        )
        values.flags.writeable = False
        return values

    def _check_same_run(self) -> None:
        """Raise an error if another run has taken the place of the one that was opened."""
        now = read_attributes(self._run)
        if any(now[name] != self._attributes[name] for name in _SAME):
            raise StoreError(f"{self._run} is no longer the run that was opened: open it again")

"""The order of the modes by which non-zero cells are sorted into fibres.

Thinning visits the cells sorted by the modes in this order, and its random numbers belong to places in this order. So
the order depends on the data alone, not on how they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CELLS_AT_ONCE = 2**22  # a limit, so that temporary arrays do not grow with the data
_SAMPLE = 2_000_000
_ODD = np.uint64(0x9E3779B97F4A7C15)


def cell_ranges(cells: int) -> Iterator[slice]:
    """Ranges that cover the cells, each short enough for temporary arrays."""
    return (slice(start, min(start + _CELLS_AT_ONCE, cells)) for start in range(0, cells, _CELLS_AT_ONCE))


def fibre_order(parts: Iterable[NDArray[Any]], shape: tuple[int, ...], cells: int) -> tuple[int, ...]:
    """The order of the modes: as given, but with the mode of the fewest fibres moved to the end.

    The coordinates (M, n) of all `cells` come in parts, in any order. A mode is moved only if that saves a quarter of
    the fibres; otherwise sorting the cells again would not pay.
    """
    modes, counter = range(len(shape)), _FibreCounter(len(shape), cells)
    for coords in parts:
        for part in cell_ranges(coords.shape[1]):
            counter.add(coords[:, part])
    fibres = counter.fibres()
    best = min(modes, key=fibres.__getitem__)
    last = best if fibres[best] < 0.75 * fibres[-1] else modes[-1]
    return (*(mode for mode in modes if mode != last), last)


class _FibreCounter:
    """Counts the fibres along every mode; if there are many cells, those in a sample that a hash selects."""

    def __init__(self, modes: int, cells: int) -> None:
        self._sampled = np.uint64(max(1, cells // _SAMPLE))
        self._keys: list[list[NDArray[np.uint64]]] = [[] for _ in range(modes)]

    def add(self, coords: NDArray[Any]) -> None:
        for along, keys in enumerate(self._keys):
            mixed = np.zeros(coords.shape[1], dtype=np.uint64)
            for mode, column in enumerate(coords):
                if mode != along:
                    mixed = (mixed ^ column.astype(np.uint64)) * _ODD
                    mixed ^= mixed >> np.uint64(29)
            # Each fibre is stored once, so memory does not grow with the cells that share it.
            keys.append(np.unique(mixed[mixed % self._sampled == 0]) if self._sampled > 1 else mixed)

    def fibres(self) -> list[int]:
        return [len(np.unique(np.concatenate(keys))) if keys else 0 for keys in self._keys]

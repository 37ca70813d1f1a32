"""Cells sorted into fibres: consecutive cells agree in all modes but the last, or in as many of the first as can be.

Kernels that walk over sorted cells make a product over the first modes once and use it for every cell that shares it;
`changed_N` tells them where to begin anew.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.arrays import Ints

_CELLS_AT_ONCE = 2**22  # so that no temporary array grows with the data


def cell_ranges(cells: int) -> Iterator[slice]:
    """Ranges that cover the cells, each small enough for temporary arrays."""
    return (slice(start, min(start + _CELLS_AT_ONCE, cells)) for start in range(0, cells, _CELLS_AT_ONCE))


def sorted_coords(
    coords: NDArray[Any], order: Sequence[int], lengths: Sequence[int], *, sorted_already: bool
) -> tuple[NDArray[Any], Ints | slice]:
    """The coordinates with the modes in `order`, sorted by them, in the narrowest type; and which cell came where.

    Cells that are `sorted_already`, the first mode slowest, stay where they are if the order is that of the modes.
    """
    coords_MN = np.array(coords[list(order)], dtype=_narrow_type(max(lengths)), order="C")
    if sorted_already and tuple(order) == tuple(range(len(lengths))):
        return coords_MN, slice(None)
    place_N = np.lexsort(coords_MN[::-1])
    for m in range(len(order)):
        coords_MN[m] = coords_MN[m, place_N]
    return coords_MN, place_N


def changed_modes(coords_MN: NDArray[Any]) -> NDArray[np.int8]:
    """For each of the sorted cells the first mode in which it differs from the one before; the last for the first."""
    modes, cells = coords_MN.shape
    changed_N = np.full(cells, modes - 1, dtype=np.int8)
    for part in cell_ranges(cells):
        for m in range(modes - 2, -1, -1):
            column = coords_MN[m, max(part.start - 1, 0) : part.stop]
            changed_N[part.stop - len(column) + 1 : part.stop][column[1:] != column[:-1]] = m
    return changed_N


def _narrow_type(length: int) -> type[np.integer[Any]]:
    return np.uint16 if length <= 2**16 else np.int32 if length < 2**31 else np.int64

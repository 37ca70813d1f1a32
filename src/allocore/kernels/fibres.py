"""Cells sorted into fibres: consecutive cells agree in all modes but the last, or in as many leading modes as possible.

Kernels that walk over sorted cells compute a product over the leading modes once, for all cells that share it.
`changed_N` says from which mode the product must be made again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.fibre_order import cell_ranges
from allocore.kernels.arrays import Ints


def sorted_coords(
    coords: NDArray[Any], order: Sequence[int], lengths: Sequence[int], *, sorted_already: bool
) -> tuple[NDArray[Any], Ints | slice]:
    """Coordinates with modes in `order`, sorted, in the narrowest type; and the permutation that sorted the cells.

    Cells that are `sorted_already`, the first mode slowest, are not sorted again if `order` is that of the modes.
    """
    coords_MN = np.array(coords[list(order)], dtype=_narrow_type(max(lengths)), order="C")
    if sorted_already and tuple(order) == tuple(range(len(lengths))):
        return coords_MN, slice(None)
    place_N = np.lexsort(coords_MN[::-1])
    for m in range(len(order)):
        coords_MN[m] = coords_MN[m, place_N]
    return coords_MN, place_N


def changed_modes(coords_MN: NDArray[Any]) -> NDArray[np.int8]:
    """The first mode in which each sorted cell differs from the one before; for the first cell, the last mode."""
    modes, cells = coords_MN.shape
    changed_N = np.full(cells, modes - 1, dtype=np.int8)
    for part in cell_ranges(cells):
        for m in range(modes - 2, -1, -1):
            column = coords_MN[m, max(part.start - 1, 0) : part.stop]
            changed_N[part.stop - len(column) + 1 : part.stop][column[1:] != column[:-1]] = m
    return changed_N


def _narrow_type(length: int) -> type[np.integer[Any]]:
    return np.uint16 if length <= 2**16 else np.int32 if length < 2**31 else np.int64

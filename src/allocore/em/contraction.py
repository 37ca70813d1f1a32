"""Contract a dense core with rows of factors at many cells, and differentiate a sum over the cells:

    rate_n = sum_{k_1 .. k_M} core[k_1, .., k_M] prod_m phi[m][d_m, k_m]         at each cell n = (d_1 .. d_M)
    total  = sum_n  w_n log(rate_n)   or   sum_n  w_n rate_n

and d total / d core, d total / d phi[m]. EM needs no more: the expected allocation of a count is a value times such a
derivative.

Sorted cells are the leaves of a tree. The node d_1 .. d_l holds the core contracted with the first l rows, an array
over k_{l+1} .. k_M that all cells below share. Going down computes these arrays, going up their derivatives. A cell
costs K_M multiplications, a fibre K_{M-1} K_M, a slice of the first mode the size of the core.

Cells are cut into blocks that do not depend on the number of threads. Each block has its own tables, which are added up
in order, so the bytes are the same on any number of threads. F indexes the entries of all factor matrices, stacked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import log, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import changed_modes, sorted_coords
from allocore.kernels.jit import inlined, kernel
from allocore.kernels.workers import Workers
from allocore.tensor.coordinates import distinct

_Places = NDArray[np.uint64]  # unsigned, because an index that may be negative costs a comparison at every access

# Rows of `levels_4M`. The factor matrix of mode m begins at _OFFSET in F and is _WIDTH wide. The node arrays of all
# levels are stored one after another: that of level m, with the first m modes contracted, begins at _HEAD and has _SIZE
# numbers.
_WIDTH, _OFFSET, _HEAD, _SIZE = range(4)

_BLOCKS, _CELLS_OF_A_BLOCK = 32, 2048
_TABLE_BYTES = 2**28  # of all blocks together; if one table is larger, there is only one block


class Slopes(NamedTuple):
    """The total over all cells and its derivatives, in the shapes of the core and the factors."""

    total: float
    core: Floats
    phi: tuple[Floats, ...]


class _Cells(NamedTuple):
    """The cells in the kernel's order, with the modes in the order of the tree; `edges_B` are the edges of blocks."""

    coords_MN: NDArray[Any]
    changed_N: NDArray[np.int8]  # the first mode in which a cell differs from the one before
    weights_N: Floats
    edges_B: Ints


@dataclass(frozen=True)
class CellTree:
    """Weighted cells, sorted for a core of one shape: the leaves of a tree."""

    order: tuple[int, ...]
    lengths: tuple[int, ...]
    core_shape: tuple[int, ...]
    cells: _Cells
    levels_4M: _Places

    @classmethod
    def of(
        cls, coords: NDArray[Any], weights_N: NDArray[Any], lengths: Sequence[int], core_shape: tuple[int, ...]
    ) -> "CellTree":
        """Sort cells (M, N) whose factor matrices have `lengths` rows."""
        order = best_order([len(distinct(column)) for column in coords], coords.shape[1], core_shape)
        coords_MN, place_N = sorted_coords(coords, order, lengths, sorted_already=False)
        sizes_M = np.array([length * width for length, width in zip(lengths, core_shape, strict=True)])
        widths = [core_shape[mode] for mode in order]
        sizes_L = np.array([prod(widths[level:]) for level in range(len(order))])
        weights_N = np.ascontiguousarray(weights_N[place_N], dtype=np.float64)
        cells, table_bytes = coords.shape[1], 8 * (int(sizes_M.sum()) + prod(core_shape))
        blocks = max(1, min(_BLOCKS, cells // _CELLS_OF_A_BLOCK, _TABLE_BYTES // table_bytes))
        edges_B = np.array([cells * block // blocks for block in range(blocks + 1)])
        offsets_M = (np.cumsum(sizes_M) - sizes_M)[list(order)]
        levels_4M = np.array([widths, offsets_M, np.cumsum(sizes_L) - sizes_L, sizes_L], dtype=np.uint64)
        tree_cells = _Cells(coords_MN, changed_modes(coords_MN), weights_N, edges_B)
        return cls(order, tuple(lengths), core_shape, tree_cells, levels_4M)


def best_order(distinct: Sequence[int], cells: int, core_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of modes with the least work, given how many rows of each mode occur (`distinct`).

    The work of later levels does not depend on the order before them, so each set of leading modes is ordered once.
    """

    @cache
    def best(first: frozenset[int]) -> tuple[float, tuple[int, ...]]:
        if not first:
            return 0.0, ()
        nodes = min(cells, prod(distinct[mode] for mode in first))
        rest = prod(width for mode, width in enumerate(core_shape) if mode not in first)
        choices = []
        for last in sorted(first):
            work, order = best(first - {last})
            choices.append((work + nodes * core_shape[last] * rest, (*order, last)))
        return min(choices)

    return best(frozenset(range(len(core_shape))))[1]


def contract(tree: CellTree, core: Floats, phi: Sequence[Floats], workers: Workers, *, in_logs: bool) -> Slopes:
    """The sum over cells of weight * log(rate), or of weight * rate, and its derivatives."""
    blocks = len(tree.cells.edges_B) - 1
    phi_F = np.concatenate([phi_DK.ravel() for phi_DK in phi])
    core_Q = core.transpose(tree.order).ravel()
    sums = _BlockSums(np.zeros(blocks), np.zeros((blocks, core_Q.size)), np.zeros((blocks, phi_F.size)))
    workers.run(
        [
            partial(_visit, *cut, tree.cells, tree.levels_4M, core_Q, phi_F, in_logs, sums)
            for cut in workers.ranges(blocks)
        ]
    )
    sorted_shape = [tree.core_shape[mode] for mode in tree.order]
    core_slopes = sums.core_slopes_BQ.sum(axis=0).reshape(sorted_shape).transpose(np.argsort(tree.order))
    shapes = list(zip(tree.lengths, tree.core_shape, strict=True))
    pieces = np.split(sums.phi_slopes_BF.sum(axis=0), np.cumsum([length * width for length, width in shapes])[:-1])
    phi_slopes = tuple(piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True))
    return Slopes(float(sums.totals_B.sum()), np.ascontiguousarray(core_slopes), phi_slopes)


class _BlockSums(NamedTuple):
    totals_B: Floats
    core_slopes_BQ: Floats
    phi_slopes_BF: Floats


@kernel
def _visit(
    first: int, last: int, cells: _Cells, levels_4M: _Places, core_Q: Floats, phi_F: Floats, in_logs: bool,
    sums: _BlockSums,
) -> None:  # fmt: skip
    # Taking an array out of a tuple costs two atomic operations, so it is done here and not in the loop over cells.
    coords_MN, changed_N, weights_N, edges_B = cells
    totals_B, core_slopes_BQ, phi_slopes_BF = sums
    final = levels_4M.shape[1] - 1
    width, offset, head = levels_4M[_WIDTH, final], levels_4M[_OFFSET, final], levels_4M[_HEAD, final]
    below = head + levels_4M[_SIZE, final]
    values, slopes = np.empty(below), np.empty(below)  # of the nodes above the present cell
    for q in range(core_Q.size):
        values[q] = core_Q[q]
    for block in range(first, last):
        for i in range(below):
            slopes[i] = 0.0
        start, stop, total, phi_slopes_F = edges_B[block], edges_B[block + 1], 0.0, phi_slopes_BF[block]
        for n in range(start, stop):
            changed = changed_N[n] if n > start else 0
            if changed < final:
                if n > start:
                    _go_up(n - 1, changed, coords_MN, levels_4M, phi_F, values, slopes, phi_slopes_F)
                _go_down(n, changed, coords_MN, levels_4M, phi_F, values)
            row = offset + np.uint64(coords_MN[final, n]) * width
            total += _meet(row, width, head, weights_N[n], in_logs, phi_F, values, slopes, phi_slopes_F)
        if stop > start:
            _go_up(stop - 1, 0, coords_MN, levels_4M, phi_F, values, slopes, phi_slopes_F)
        totals_B[block] = total
        for q in range(core_Q.size):
            core_slopes_BQ[block, q] = slopes[q]


@inlined
def _go_down(n: int, changed: int, coords_MN: NDArray[Any], levels_4M: _Places, phi_F: Floats, values: Floats) -> None:
    """Contract the rows of cell n, from mode `changed` to the last but one."""
    for m in range(changed, levels_4M.shape[1] - 1):
        width = levels_4M[_WIDTH, m]
        row = levels_4M[_OFFSET, m] + np.uint64(coords_MN[m, n]) * width
        parent, child, size = levels_4M[_HEAD, m], levels_4M[_HEAD, m + 1], levels_4M[_SIZE, m + 1]
        for j in range(size):
            values[child + j] = 0.0
        for k in range(width):
            entry, here = phi_F[row + k], parent + k * size
            for j in range(size):
                values[child + j] += entry * values[here + j]


@inlined
def _go_up(
    n: int, changed: int, coords_MN: NDArray[Any], levels_4M: _Places, phi_F: Floats, values: Floats, slopes: Floats,
    phi_slopes_F: Floats,
) -> None:  # fmt: skip
    """Pass the slopes of the nodes above cell n to their parents and their rows, up to mode `changed`."""
    for m in range(levels_4M.shape[1] - 2, changed - 1, -1):
        width = levels_4M[_WIDTH, m]
        row = levels_4M[_OFFSET, m] + np.uint64(coords_MN[m, n]) * width
        parent, child, size = levels_4M[_HEAD, m], levels_4M[_HEAD, m + 1], levels_4M[_SIZE, m + 1]
        for k in range(width):
            entry, here, total = phi_F[row + k], parent + k * size, 0.0
            for j in range(size):
                total += values[here + j] * slopes[child + j]
            for j in range(size):
                slopes[here + j] += entry * slopes[child + j]
            phi_slopes_F[row + k] += total
        for j in range(size):
            slopes[child + j] = 0.0


@inlined
def _meet(
    row: Any, width: Any, head: Any, weight: float, in_logs: bool, phi_F: Floats, values: Floats, slopes: Floats,
    phi_slopes_F: Floats,
) -> float:  # fmt: skip
    """Contract the last row of a cell, pass on the slopes, and return what the cell adds to the total."""
    rate = 0.0
    for k in range(width):
        rate += phi_F[row + k] * values[head + k]
    slope, added = weight, weight * rate
    if in_logs:
        if not rate > 0.0:
            return -np.inf
        slope, added = weight / rate, weight * log(rate)
    for k in range(width):
        phi_slopes_F[row + k] += slope * values[head + k]
        slopes[head + k] += slope * phi_F[row + k]
    return added

"""A dense core contracted with rows of factors at many cells, and the derivatives of a sum over them:

    rate_n = sum_{k_1 .. k_M} core[k_1, .., k_M] prod_m phi[m][d_m, k_m]         at each cell n = (d_1 .. d_M)
    total  = sum_n  w_n log(rate_n)   or   sum_n  w_n rate_n

and d total / d core, d total / d phi[m]: by the chain rule all that EM needs, since the expected allocation of a count
is a value times such a derivative.

How it is quick. Cells are sorted, so that they are the leaves of a tree: its node d_1 .. d_l holds the core contracted
with the first l rows, an array over k_{l+1} .. k_M that all cells below share. Going down makes these arrays; going up
gathers their derivatives, and passes them on to the parent once for all cells below. A cell costs K_M multiplications,
a fibre K_{M-1} K_M, a slice of the first mode all of the core; the modes are put into the order that makes this least.

Cells are cut into blocks that do not depend on the number of threads. Each has tables of its own, which are added up
in order: the same bytes on any number of threads. F stands for the numbers of all factor matrices, one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import log, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.fibres import changed_modes, sorted_coords
from allocore.kernels.jit import inlined, kernel
from allocore.kernels.workers import Workers

_Places = NDArray[np.uint64]  # unsigned: an index that may be negative costs a comparison at every access

_BLOCKS, _CELLS_OF_A_BLOCK = 32, 2048
_TABLE_BYTES = 2**28  # of all blocks together; where one table is larger than that, there is one block


class Slopes(NamedTuple):
    """The total over all cells and its derivatives, shaped as the core and the factors."""

    total: float
    core: Floats
    phi: tuple[Floats, ...]


class _Cells(NamedTuple):
    """The cells as the kernel visits them, modes in the order of the tree; blocks of cells end at `edges_B`."""

    coords_MN: NDArray[Any]
    changed_N: NDArray[np.int8]  # the first mode in which a cell differs from the one before
    weights_N: Floats
    edges_B: Ints


class _Levels(NamedTuple):
    """Where the kernel finds numbers: the factor matrix of mode m begins at offsets_M[m] in F and is widths_M[m] wide.

    Node arrays of all levels stand one after another: level l, with the first l modes contracted, begins at
    heads_L[l] and has sizes_L[l] numbers.
    """

    widths_M: _Places
    offsets_M: _Places
    heads_L: _Places
    sizes_L: _Places


@dataclass(frozen=True)
class CellTree:
    """Cells with a weight each, sorted for a core of one shape: the leaves of a tree."""

    order: tuple[int, ...]
    lengths: tuple[int, ...]
    core_shape: tuple[int, ...]
    cells: _Cells
    levels: _Levels

    @classmethod
    def of(
        cls, coords: NDArray[Any], weights_N: NDArray[Any], lengths: Sequence[int], core_shape: tuple[int, ...]
    ) -> "CellTree":
        """Sort cells (M, N) whose factor matrices have `lengths` rows."""
        order = best_order([len(np.unique(column)) for column in coords], coords.shape[1], core_shape)
        coords_MN, place_N = sorted_coords(coords, order, lengths, sorted_already=False)
        sizes_M = np.array([length * width for length, width in zip(lengths, core_shape, strict=True)])
        widths = [core_shape[mode] for mode in order]
        sizes_L = np.array([prod(widths[level:]) for level in range(len(order))])
        weights_N = np.ascontiguousarray(weights_N[place_N], dtype=np.float64)
        edges_B = _edges(coords.shape[1], int(sizes_M.sum()) + prod(core_shape))
        levels = _Levels(
            np.array(widths, dtype=np.uint64),
            (np.cumsum(sizes_M) - sizes_M)[list(order)].astype(np.uint64),
            (np.cumsum(sizes_L) - sizes_L).astype(np.uint64),
            sizes_L.astype(np.uint64),
        )
        cells = _Cells(coords_MN, changed_modes(coords_MN), weights_N, edges_B)
        return cls(order, tuple(lengths), core_shape, cells, levels)


def best_order(distinct: Sequence[int], cells: int, core_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of modes with the least work, if there are as many nodes in each level as there can be.

    `distinct` are the rows of each mode that occur. The first modes of an order may come in any order themselves, so
    the best order of every set of modes is found once.
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


def _edges(cells: int, table_size: int) -> Ints:
    blocks = max(1, min(_BLOCKS, cells // _CELLS_OF_A_BLOCK, _TABLE_BYTES // (8 * table_size)))
    return np.array([cells * block // blocks for block in range(blocks + 1)])


def contract(tree: CellTree, core: Floats, phi: Sequence[Floats], workers: Workers, *, in_logs: bool) -> Slopes:
    """The sum over cells of weight * log(rate), or of weight * rate, and its derivatives."""
    blocks = len(tree.cells.edges_B) - 1
    phi_F = np.concatenate([phi_DK.ravel() for phi_DK in phi])
    core_Q = core.transpose(tree.order).ravel()
    sums = _BlockSums(np.zeros(blocks), np.zeros((blocks, core_Q.size)), np.zeros((blocks, phi_F.size)))
    workers.run(
        [partial(_visit, *cut, tree.cells, tree.levels, core_Q, phi_F, in_logs, sums) for cut in workers.ranges(blocks)]
    )
    sorted_shape = [tree.core_shape[mode] for mode in tree.order]
    core_slopes = sums.core_slopes_BQ.sum(axis=0).reshape(sorted_shape).transpose(np.argsort(tree.order))
    shapes = list(zip(tree.lengths, tree.core_shape, strict=True))
    pieces = np.split(sums.phi_slopes_BF.sum(axis=0), np.cumsum([length * width for length, width in shapes])[:-1])
    phi_slopes = tuple(piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True))
    return Slopes(float(sums.totals_B.sum()), np.ascontiguousarray(core_slopes), phi_slopes)


class _BlockSums(NamedTuple):
    """What the kernel fills for every block: the total, and its derivatives."""

    totals_B: Floats
    core_slopes_BQ: Floats
    phi_slopes_BF: Floats


class _Nodes(NamedTuple):
    """The arrays of the nodes above the present cell, and the derivatives gathered for them."""

    values: Floats
    slopes: Floats


@kernel
def _visit(
    first: int, last: int, cells: _Cells, levels: _Levels, core_Q: Floats, phi_F: Floats, in_logs: bool,
    sums: _BlockSums,
) -> None:  # fmt: skip
    """Visit the cells of a range of blocks."""
    # Taking an array out of a tuple costs two atomic operations: done once here, not in the loop over cells.
    coords_MN, changed_N, weights_N, edges_B = cells
    widths_M, offsets_M, heads_L, sizes_L = levels
    totals_B, core_slopes_BQ, phi_slopes_BF = sums
    final = widths_M.size - 1
    below = heads_L[final] + sizes_L[final]
    values, slopes = np.empty(below), np.empty(below)
    nodes = _Nodes(values, slopes)
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
                    _go_up(n - 1, changed, coords_MN, levels, phi_F, nodes, phi_slopes_F)
                _go_down(n, changed, coords_MN, levels, phi_F, values)
            row = offsets_M[final] + np.uint64(coords_MN[final, n]) * widths_M[final]
            total += _meet(row, widths_M[final], heads_L[final], weights_N[n], in_logs, phi_F, nodes, phi_slopes_F)
        if stop > start:
            _go_up(stop - 1, 0, coords_MN, levels, phi_F, nodes, phi_slopes_F)
        totals_B[block] = total
        for q in range(core_Q.size):
            core_slopes_BQ[block, q] = slopes[q]


@inlined
def _go_down(n: int, changed: int, coords_MN: NDArray[Any], levels: _Levels, phi_F: Floats, values: Floats) -> None:
    """Contract the rows of cell n from mode `changed` on, all but the last."""
    widths_M, offsets_M, heads_L, sizes_L = levels
    for m in range(changed, widths_M.size - 1):
        row = offsets_M[m] + np.uint64(coords_MN[m, n]) * widths_M[m]
        parent, child, size = heads_L[m], heads_L[m + 1], sizes_L[m + 1]
        for j in range(size):
            values[child + j] = 0.0
        for k in range(widths_M[m]):
            entry, here = phi_F[row + k], parent + k * size
            for j in range(size):
                values[child + j] += entry * values[here + j]


@inlined
def _go_up(
    n: int, changed: int, coords_MN: NDArray[Any], levels: _Levels, phi_F: Floats, nodes: _Nodes, phi_slopes_F: Floats
) -> None:
    """Pass the slopes of the nodes above cell n on to their parents and to their rows, up to mode `changed`."""
    widths_M, offsets_M, heads_L, sizes_L = levels
    values, slopes = nodes
    for m in range(widths_M.size - 2, changed - 1, -1):
        row = offsets_M[m] + np.uint64(coords_MN[m, n]) * widths_M[m]
        parent, child, size = heads_L[m], heads_L[m + 1], sizes_L[m + 1]
        for k in range(widths_M[m]):
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
    row: Any, width: Any, head: Any, weight: float, in_logs: bool, phi_F: Floats, nodes: _Nodes, phi_slopes_F: Floats
) -> float:
    """Contract the last row of a cell, pass on the slopes of what it adds to the total, and return that."""
    values, slopes = nodes
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

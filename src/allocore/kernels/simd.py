"""Towers of running sums in SIMD lanes, which draw a class exactly and in a few dozen instructions.

The weights of a cell's classes are the products of two rows of 32-bit floats. A row is laid out in levels of 2 * LANES
numbers: class q is at level q // 32, in column q % LANES, so that two classes share each place. `raise_tower` computes

    towers[cell, 0]        where each column begins in the sum over the columns
    towers[cell, 1 + l]    the sum of each column below level l (zero below the first)

in vector registers and in one fixed order, so that the result does not depend on the threads.

A uniform number over the whole tower selects a column, then a level, then one of two classes. Each is found by counting
the sums that do not exceed the number. No branch depends on the draw, so none is mispredicted.

Sums in 32 bits are too coarse for rare classes, so they are only bounds. Every place is slightly wider than its two
weights: by `SLACK`, relative to all that lies below it, which exceeds the sum of all rounding errors. The exact 64-bit
weights decide. A number that falls into the slack is rejected, and the class is drawn again. Accepted draws have
exactly the probabilities of the weights. With about a hundred classes, one draw in fifty thousand is rejected.
"""

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from allocore.kernels.lanes import DOUBLE, INT32, INT64, SINGLE, fused, length, places, spread, sum_of_lanes

LANES = 16
LEVEL = 2 * LANES
# In units of 2^-24, half the last place of a 32-bit float, a level is narrower than its weights by at most 4: two for
# the products, one for the sum, one for the target that is compared with it. A column is narrower by at most 11: ten
# for the running sums over columns and their ends, one for the target. The slack is 16.
SLACK = 2.0**-20
_HALF = LANES // 2
_LINE = 16  # numbers in a cache line

_Singles = NDArray[np.float32]
_VECTOR, _HALF_VECTOR = ir.VectorType(SINGLE, LANES), ir.VectorType(SINGLE, _HALF)
_COUNTS = ir.VectorType(INT32, _HALF)


def padded(width: int) -> int:
    """The length of a row of `width` numbers, rounded up to whole levels."""
    return -(-width // LEVEL) * LEVEL


def aligned_zeros(*shape: int) -> _Singles:
    """Zeros aligned to a cache line, so that no vector of a padded row straddles two lines."""
    size = math.prod(shape)
    numbers = np.zeros(size + _LINE, dtype=np.float32)
    start = -(numbers.ctypes.data // 4) % _LINE
    return numbers[start : start + size].reshape(shape)


def new_towers(cells: int, width: int) -> _Singles:
    """Space for the towers of rows of `width` numbers."""
    return aligned_zeros(cells, width // LEVEL + 2, LANES)


def _all(number: float) -> Any:
    return ir.Constant(_VECTOR, [number] * LANES)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, size: Any, vector: Any = _VECTOR) -> Any:
    """A pointer to the vectors that begin at element index * size of an array."""
    numbers = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(numbers, [builder.mul(index, size)]), vector.as_pointer())


def _running_sums(builder: Any, vector: Any) -> Any:
    """Running sums over the lanes by doubling: add the vector to itself, shifted by 1, 2, 4, 8 lanes."""
    shift = 1
    while shift < LANES:
        moved = [LANES if lane < shift else lane - shift for lane in range(LANES)]
        vector = builder.fadd(vector, builder.shuffle_vector(vector, _all(0.0), places(moved)))
        shift *= 2
    return vector


@intrinsic
def _raise_tower(typingctx: Any, lefts: Any, left: Any, rights: Any, right: Any, towers: Any, cell: Any) -> Any:
    """Make the tower of a cell; its weights are the products of row `left` of `lefts` and row `right` of `rights`.

    Returns the end of the last column, and the sum of the weights.
    """
    signature = types.UniTuple(types.float64, 2)(lefts, types.intp, rights, types.intp, towers, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        width, storeys = (length(context, builder, signature.args[i], args[i], 1) for i in (0, 4))
        sizes = width, width, builder.mul(storeys, ir.Constant(INT64, LANES))
        left, right, tower = (
            _address(context, builder, signature.args[i], args[i], args[i + 1], size)
            for i, size in zip((0, 2, 4), sizes, strict=True)
        )
        fma = fused(builder, _VECTOR)
        below, totals = (cgutils.alloca_once_value(builder, _all(0.0)) for _ in range(2))

        def at(row: Any, index: Any, more: int) -> Any:
            return builder.gep(row, [builder.add(index, ir.Constant(INT64, more))])

        with cgutils.for_range(builder, builder.udiv(width, ir.Constant(INT64, LEVEL))) as loop:
            first = builder.mul(loop.index, ir.Constant(INT64, 2))
            x, y = (builder.load(at(row, first, 0), align=4) for row in (left, right))
            z, w = (builder.load(at(row, first, 1), align=4) for row in (left, right))
            weights = builder.call(fma, [z, w, builder.fmul(x, y)])
            sums = builder.call(fma, [builder.load(below), _all(1.0 + SLACK), weights])
            builder.store(sums, below)
            builder.store(builder.fadd(builder.load(totals), weights), totals)
            builder.store(sums, at(tower, loop.index, 2), align=4)
        ends = _running_sums(builder, builder.load(below))
        slack = builder.fmul(builder.shuffle_vector(ends, ends, places([LANES - 1] * LANES)), _all(SLACK))
        numbers = ir.Constant(_VECTOR, [float(lane + 1) for lane in range(LANES)])
        ends = builder.call(fma, [slack, numbers, ends])
        starts = builder.shuffle_vector(ends, _all(0.0), places([LANES, *range(LANES - 1)]))
        builder.store(starts, tower, align=4)
        end = builder.extract_element(ends, ir.Constant(INT32, LANES - 1))
        total = sum_of_lanes(builder, builder.load(totals))
        results = [builder.fpext(number, DOUBLE) for number in (end, total)]
        return context.make_tuple(builder, signature.return_type, results)

    return signature, codegen


def _interpreted_raise_tower(
    lefts: _Singles, left: int, rights: _Singles, right: int, towers: _Singles, cell: int
) -> tuple[float, float]:
    pairs = (lefts[left] * rights[right]).reshape(-1, 2, LANES)
    weights = pairs[:, 0] + pairs[:, 1]
    tower = towers[cell]
    for level in range(len(weights)):
        tower[level + 2] = tower[level + 1] * np.float32(1.0 + SLACK) + weights[level]
    ends = np.cumsum(tower[-1], dtype=np.float32)
    ends += ends[-1] * np.float32(SLACK) * np.arange(1, LANES + 1, dtype=np.float32)
    tower[0, 1:] = ends[:-1]
    return float(ends[-1]), float(weights.sum())


@intrinsic
def _column_at(typingctx: Any, towers: Any, cell: Any, target: Any) -> Any:
    """The last column that begins at `target` or before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = builder.mul(length(context, builder, signature.args[0], args[0], 1), ir.Constant(INT64, LANES))
        starts = _address(context, builder, signature.args[0], args[0], args[1], size)
        target = spread(builder, args[2], _VECTOR)
        reached = builder.fcmp_ordered("<=", builder.load(starts, align=4), target)
        bits = builder.zext(builder.bitcast(reached, ir.IntType(LANES)), INT64)
        return builder.sub(builder.ctpop(bits), ir.Constant(INT64, 1))

    return types.intp(towers, types.intp, types.float32), codegen


def _interpreted_column_at(towers: _Singles, cell: int, target: float) -> int:
    return int((towers[cell, 0] <= np.float32(target)).sum()) - 1


@intrinsic
def _level_at(typingctx: Any, towers: Any, cell: Any, column: Any, rest: Any) -> Any:
    """The last level of a column that begins at `rest` or before; `rest` is relative to the start of the column."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        storeys = length(context, builder, signature.args[0], args[0], 1)
        size = builder.mul(storeys, ir.Constant(INT64, LANES))
        tower = _address(context, builder, signature.args[0], args[0], args[1], size, _HALF_VECTOR)
        half = builder.lshr(args[2], ir.Constant(INT64, _HALF.bit_length() - 1))
        sums = builder.gep(tower, [builder.add(half, ir.Constant(INT64, 4))])  # above the first level
        rest = spread(builder, args[3], _HALF_VECTOR)
        count = cgutils.alloca_once_value(builder, ir.Constant(_COUNTS, [0] * _HALF))
        with cgutils.for_range(builder, builder.sub(storeys, ir.Constant(INT64, 3))) as loop:
            place = builder.mul(loop.index, ir.Constant(INT64, 2))
            reached = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [place]), align=4), rest)
            builder.store(builder.sub(builder.load(count), builder.sext(reached, _COUNTS)), count)
        lane = builder.and_(args[2], ir.Constant(INT64, _HALF - 1))
        return builder.zext(builder.extract_element(builder.load(count), lane), INT64)

    return types.intp(towers, types.intp, types.intp, types.float32), codegen


def _interpreted_level_at(towers: _Singles, cell: int, column: int, rest: float) -> int:
    return int((towers[cell, 2:-1, column] <= np.float32(rest)).sum())


@intrinsic
def _add_shared(typingctx: Any, table: Any, row: Any, column: Any, amount: Any) -> Any:
    """Add atomically to a table that all threads share. Sums of integers do not depend on the order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        width = length(context, builder, signature.args[0], args[0], 1)
        numbers = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.gep(numbers, [builder.add(builder.mul(args[1], width), args[2])])
        builder.atomic_rmw("add", place, args[3], "monotonic")
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, table.dtype), codegen


def _interpreted_add_shared(table_RQ: NDArray[Any], row: int, column: int, amount: int) -> None:
    table_RQ[row, column] += amount


_interpreted = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
raise_tower: Any = _interpreted_raise_tower if _interpreted else _raise_tower
column_at: Any = _interpreted_column_at if _interpreted else _column_at
level_at: Any = _interpreted_level_at if _interpreted else _level_at
add_shared: Any = _interpreted_add_shared if _interpreted else _add_shared

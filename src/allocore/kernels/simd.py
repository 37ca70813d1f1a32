"""Inner loops as LLVM vector code: sums in SIMD lanes, in one fixed order on every machine.

numba's own loops do not vectorise a float sum (that needs fastmath, which gives up the order of the sum), and keep no
sums in registers. So a few inner loops are intrinsics. LLVM cuts vectors that are wider than the registers of the
machine; lane by lane the arithmetic is the same, so the bytes are too.

    dot_of_rows   the dot product of two rows: lane l adds up the products at l, l + LANES, ..; then the lanes are added
                  by halving, and last the products beyond the whole vectors
    sum_products  sum_i weights[i] * prod_n table[rows[i, n]], some columns at a time, in the order of i. A caller makes
                  all sums of the same columns, then goes on to the next: these columns stay in the caches
    sum_rows      out[q] = sum_d weights[q, d] table[d] for two sets of weights at a time: the inner loop of a dense
                  matrix product, by fused multiply-add and in one order, where a BLAS has many
    raise_tower   a tower of running sums, which draws a class exactly and in a few dozen instructions

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
from functools import partial
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from allocore.kernels.elementary import Floats, Indices, Ints, Singles
from allocore.kernels.jit import inlined, part

SINGLE, DOUBLE, INT32, INT64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)


def places(numbers: list[int]) -> Any:
    """The constant lanes that a shuffle selects."""
    return ir.Constant(ir.VectorType(INT32, len(numbers)), numbers)


def spread(builder: Any, number: Any, vector: Any) -> Any:
    """A vector that holds one number in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(INT32, 0))
    return builder.shuffle_vector(single, single, places([0] * vector.count))


def sum_of_lanes(builder: Any, value: Any) -> Any:
    """The sum over the lanes of a vector by halving."""
    width = value.type.count
    while width > 1:
        width //= 2
        halves = [places([*range(start, start + width)]) for start in (0, width)]
        value = builder.fadd(*(builder.shuffle_vector(value, value, half) for half in halves))
    return builder.extract_element(value, ir.Constant(INT32, 0))


def fused(builder: Any, vector: Any) -> Any:
    """The function x * y + z of vectors, rounded once."""
    kind = "f32" if vector.element == SINGLE else "f64"
    return cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{vector.count}{kind}"
    )


def length(context: Any, builder: Any, kind: Any, array: Any, axis: int) -> Any:
    """The length of an array along an axis."""
    return builder.extract_value(context.make_array(kind)(context, builder, array).shape, axis)


def place(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any) -> Any:
    """A pointer to one number of a contiguous table; a tower is a row of LANES numbers for each storey."""
    width = length(context, builder, kind, array, 1)
    if kind.ndim == 3:
        width = builder.mul(width, ir.Constant(INT64, LANES))
    numbers = context.make_array(kind)(context, builder, array).data
    return builder.gep(numbers, [builder.add(builder.mul(row, width), column)])


def vectors(context: Any, builder: Any, kind: Any, array: Any, row: Any, column: Any, vector: Any) -> Any:
    """A pointer to the vectors from one number of a table on."""
    return builder.bitcast(place(context, builder, kind, array, row, column), vector.as_pointer())


LANES = 16
# Rows of small tables. As plain numbers they would be types of their own for numba, and be compiled one by one.
FIRST, SECOND = np.int64(0), np.int64(1)
_HALF = LANES // 2  # lanes in one vector register
_DOUBLES = ir.VectorType(DOUBLE, _HALF)
_START = ir.Constant(INT64, 0)


@intrinsic
def _dot_of_vectors(typingctx: Any, lefts: Any, left: Any, rights: Any, right: Any, steps: Any) -> Any:
    """The dot product of the first `steps` * LANES numbers of two rows."""
    signature = types.float64(lefts, types.intp, rights, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        fma = fused(builder, _DOUBLES)
        rows = [vectors(context, builder, signature.args[i], args[i], args[i + 1], _START, _DOUBLES) for i in (0, 2)]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, [0.0] * _HALF)) for _ in range(2)]
        with cgutils.for_range(builder, args[4]) as loop:
            first = builder.mul(loop.index, ir.Constant(INT64, 2))
            for half, total in enumerate(sums):
                at = builder.add(first, ir.Constant(INT64, half))
                x, y = (builder.load(builder.gep(row, [at]), align=8) for row in rows)
                builder.store(builder.call(fma, [x, y, builder.load(total)]), total)
        return sum_of_lanes(builder, builder.fadd(*(builder.load(total) for total in sums)))

    return signature, codegen


def _interpreted_dot_of_vectors(lefts_RQ: Floats, left: int, rights_RQ: Floats, right: int, steps: int) -> float:
    whole = steps * LANES
    return float((lefts_RQ[left, :whole] * rights_RQ[right, :whole]).reshape(steps, LANES).sum(axis=0).sum())


_interpreted = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_dot: Any = _interpreted_dot_of_vectors if _interpreted else _dot_of_vectors


@part
def dot_of_rows(lefts_RQ: Floats, left: Any, rights_RQ: Floats, right: Any) -> float:
    """The dot product of row `left` of one table and row `right` of another; both are contiguous and equally wide."""
    width = lefts_RQ.shape[1]
    steps = width // LANES
    total: float = _dot(lefts_RQ, left, rights_RQ, right, steps)
    for q in range(steps * LANES, width):
        total += lefts_RQ[left, q] * rights_RQ[right, q]
    return total


WIDE, NARROW = 32, 8  # columns at a time; a table with fewer has them one by one


def _summing(columns: int) -> Any:
    @intrinsic
    def sum_in_lanes(
        typingctx: Any, table: Any, rows: Any, named: Any, weights: Any, start: Any, stop: Any, column: Any, out: Any
    ) -> Any:
        intp = types.intp
        signature = types.void(table, rows, intp, weights, intp, intp, intp, out)
        return signature, partial(_emit, columns // _HALF)

    return sum_in_lanes


def _emit(count: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Sum the columns of `count` vectors: a loop over i, and in it one over the rows of a product."""
    data = {i: context.make_array(signature.args[i])(context, builder, args[i]).data for i in (3, 7)}
    kinds, (table, rows, named, _, start, stop, column, _) = signature.args, args
    fma, zeros, one = fused(builder, _DOUBLES), ir.Constant(_DOUBLES, [0.0] * _HALF), ir.Constant(INT64, 1)
    numbers = [ir.Constant(INT64, i) for i in range(count)]
    sums, products = ([cgutils.alloca_once_value(builder, zeros) for _ in numbers] for _ in range(2))

    def columns_of(row: Any) -> list[Any]:
        first = vectors(context, builder, kinds[0], table, row, column, _DOUBLES)
        return [builder.load(builder.gep(first, [number]), align=8) for number in numbers]

    with cgutils.for_range_slice(builder, start, stop, one) as (i, _):
        of_one = place(context, builder, kinds[1], rows, i, _START)
        row = builder.zext(builder.load(of_one), INT64)
        for vector, product in zip(columns_of(row), products, strict=True):
            builder.store(vector, product)
        with cgutils.for_range(builder, builder.sub(named, one)) as loop:
            next_one = builder.gep(of_one, [builder.add(loop.index, one)])
            row = builder.zext(builder.load(next_one), INT64)
            for vector, product in zip(columns_of(row), products, strict=True):
                builder.store(builder.fmul(builder.load(product), vector), product)
        weight = spread(builder, builder.load(builder.gep(data[3], [i])), _DOUBLES)
        for product, total in zip(products, sums, strict=True):
            builder.store(builder.call(fma, [weight, builder.load(product), builder.load(total)]), total)
    target = builder.bitcast(data[7], _DOUBLES.as_pointer())
    for number, total in zip(numbers, sums, strict=True):
        builder.store(builder.load(total), builder.gep(target, [number]), align=8)
    return context.get_dummy_value()


@part
def _sum_by_column(
    table_RQ: Floats, rows_PN: Indices, named: int, weights_P: Floats, start: int, stop: int, column: int,
    out_L: Floats,
) -> None:  # fmt: skip
    """The same, column by column and without fused multiply-add: last bits differ."""
    for lane in range(out_L.size):
        out_L[lane] = 0.0
        for i in range(start, stop):
            product = weights_P[i]
            for n in range(named):
                product *= table_RQ[rows_PN[i, n], column + lane]
            out_L[lane] += product


_sum_wide: Any = _sum_by_column if _interpreted else _summing(WIDE)
_sum_narrow: Any = _sum_by_column if _interpreted else _summing(NARROW)


@inlined
def columns_at_once(width: int) -> int:
    """How many columns of a table of this width are summed at once."""
    return WIDE if width >= WIDE else NARROW if width >= NARROW else width


@part
def sum_products(
    table_RQ: Floats, rows_PN: Indices, named: int, weights_P: Floats, start: int, stop: int, column: int,
    out_L: Floats,
) -> None:  # fmt: skip
    """Fill `out_L` with the sum over i from `start` to `stop` of weights_P[i] times its `named` rows.

    The sums are those of the columns from `column` on; as many as `columns_at_once` says.
    """
    if named == 0 or out_L.size < NARROW:
        _sum_by_column(table_RQ, rows_PN, named, weights_P, start, stop, column, out_L)
    elif out_L.size == WIDE:
        _sum_wide(table_RQ, rows_PN, named, weights_P, start, stop, column, out_L)
    else:
        _sum_narrow(table_RQ, rows_PN, named, weights_P, start, stop, column, out_L)


def padded(width: int, multiple: int) -> int:
    """The width of a table, rounded up to whole vectors (LANES) or levels (LEVEL)."""
    return -(-width // multiple) * multiple


def padded_columns(table_DU: Floats) -> Floats:
    """The same table with columns of zeros added up to whole vectors."""
    whole_DL = np.zeros((len(table_DU), padded(table_DU.shape[1], LANES)))
    whole_DL[:, : table_DU.shape[1]] = table_DU
    return whole_DL


@intrinsic
def _sum_in_lanes(
    typingctx: Any, table: Any, which: Any, count: Any, weights: Any, q: Any, r: Any, column: Any, out: Any
) -> Any:
    """Fill LANES columns, from `column` on, of rows q and r of `out`."""
    intp = types.intp
    signature = types.void(table, which, intp, weights, intp, intp, intp, out)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, (table, which, count, weights, q, r, column, out) = signature.args, args
        rows = context.make_array(kinds[1])(context, builder, which).data
        fma, zeros = fused(builder, _DOUBLES), ir.Constant(_DOUBLES, [0.0] * _HALF)
        sums = [[cgutils.alloca_once_value(builder, zeros) for _ in range(2)] for _ in range(2)]
        both = [place(context, builder, kinds[3], weights, each, _START) for each in (q, r)]
        with cgutils.for_range(builder, count) as loop:
            row = builder.load(builder.gep(rows, [loop.index]))
            numbers = vectors(context, builder, kinds[0], table, row, column, _DOUBLES)
            loaded = [builder.load(builder.gep(numbers, [ir.Constant(INT64, i)]), align=8) for i in range(2)]
            for of_one, totals in zip(both, sums, strict=True):
                weight = spread(builder, builder.load(builder.gep(of_one, [row])), _DOUBLES)
                for vector, total in zip(loaded, totals, strict=True):
                    builder.store(builder.call(fma, [weight, vector, builder.load(total)]), total)
        for each, totals in zip((q, r), sums, strict=True):
            target = vectors(context, builder, kinds[7], out, each, column, _DOUBLES)
            for i, total in enumerate(totals):
                builder.store(builder.load(total), builder.gep(target, [ir.Constant(INT64, i)]), align=8)
        return context.get_dummy_value()

    return signature, codegen


def _interpreted_sum_in_lanes(
    table_DL: Floats, which_N: Ints, count: int, weights_QD: Floats, q: int, r: int, column: int, out_QL: Floats
) -> None:
    rows, columns = which_N[:count], slice(column, column + LANES)
    for each in (q, r):
        out_QL[each, columns] = (weights_QD[each, rows, None] * table_DL[rows, columns]).sum(axis=0)


_sum: Any = _interpreted_sum_in_lanes if _interpreted else _sum_in_lanes


@part
def sum_rows(table_DL: Floats, which_N: Ints, count: Any, weights_QD: Floats, q: int, r: int, out_QL: Floats) -> None:
    """Fill rows q and r of `out_QL` from the rows which_N[:count] of a padded table; all tables are contiguous."""
    for column in range(0, table_DL.shape[1], LANES):
        _sum(table_DL, which_N, count, weights_QD, q, r, column, out_QL)


LEVEL = 2 * LANES
# In units of 2^-24, half the last place of a 32-bit float, a level is narrower than its weights by at most 4: two for
# the products, one for the sum, one for the target that is compared with it. A column is narrower by at most 11: ten
# for the running sums over columns and their ends, one for the target. The slack is 16.
SLACK = 2.0**-20
_LINE = 16  # numbers in a cache line

_VECTOR, _HALF_VECTOR = ir.VectorType(SINGLE, LANES), ir.VectorType(SINGLE, _HALF)
_COUNTS = ir.VectorType(INT32, _HALF)


def aligned_zeros(*shape: int) -> Singles:
    """Zeros aligned to a cache line, so that no vector of a padded row straddles two lines."""
    size = math.prod(shape)
    numbers = np.zeros(size + _LINE, dtype=np.float32)
    start = -(numbers.ctypes.data // 4) % _LINE
    return numbers[start : start + size].reshape(shape)


def new_towers(cells: int, width: int) -> Singles:
    """Space for the towers of rows of `width` numbers."""
    return aligned_zeros(cells, width // LEVEL + 2, LANES)


def _all(number: float) -> Any:
    return ir.Constant(_VECTOR, [number] * LANES)


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
        width = length(context, builder, signature.args[0], args[0], 1)
        left, right, tower = (
            vectors(context, builder, signature.args[i], args[i], args[i + 1], _START, _VECTOR) for i in (0, 2, 4)
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
    lefts: Singles, left: int, rights: Singles, right: int, towers: Singles, cell: int
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
        starts = vectors(context, builder, signature.args[0], args[0], args[1], _START, _VECTOR)
        target = spread(builder, args[2], _VECTOR)
        reached = builder.fcmp_ordered("<=", builder.load(starts, align=4), target)
        bits = builder.zext(builder.bitcast(reached, ir.IntType(LANES)), INT64)
        return builder.sub(builder.ctpop(bits), ir.Constant(INT64, 1))

    return types.intp(towers, types.intp, types.float32), codegen


def _interpreted_column_at(towers: Singles, cell: int, target: float) -> int:
    return int((towers[cell, 0] <= np.float32(target)).sum()) - 1


@intrinsic
def _level_at(typingctx: Any, towers: Any, cell: Any, column: Any, rest: Any) -> Any:
    """The last level of a column that begins at `rest` or before; `rest` is relative to the start of the column."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        storeys = length(context, builder, signature.args[0], args[0], 1)
        tower = vectors(context, builder, signature.args[0], args[0], args[1], _START, _HALF_VECTOR)
        half = builder.lshr(args[2], ir.Constant(INT64, _HALF.bit_length() - 1))
        sums = builder.gep(tower, [builder.add(half, ir.Constant(INT64, 4))])  # above the first level
        rest = spread(builder, args[3], _HALF_VECTOR)
        count = cgutils.alloca_once_value(builder, ir.Constant(_COUNTS, [0] * _HALF))
        with cgutils.for_range(builder, builder.sub(storeys, ir.Constant(INT64, 3))) as loop:
            twice = builder.mul(loop.index, ir.Constant(INT64, 2))
            reached = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [twice]), align=4), rest)
            builder.store(builder.sub(builder.load(count), builder.sext(reached, _COUNTS)), count)
        lane = builder.and_(args[2], ir.Constant(INT64, _HALF - 1))
        return builder.zext(builder.extract_element(builder.load(count), lane), INT64)

    return types.intp(towers, types.intp, types.intp, types.float32), codegen


def _interpreted_level_at(towers: Singles, cell: int, column: int, rest: float) -> int:
    return int((towers[cell, 2:-1, column] <= np.float32(rest)).sum())


@intrinsic
def _add_shared(typingctx: Any, table: Any, row: Any, column: Any, amount: Any) -> Any:
    """Add atomically to a table that all threads share. Sums of integers do not depend on the order."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = place(context, builder, signature.args[0], *args[:3])
        builder.atomic_rmw("add", number, args[3], "monotonic")
        return context.get_dummy_value()

    return types.void(table, types.intp, types.intp, table.dtype), codegen


def _interpreted_add_shared(table_RQ: NDArray[Any], row: int, column: int, amount: int) -> None:
    table_RQ[row, column] += amount


raise_tower: Any = _interpreted_raise_tower if _interpreted else _raise_tower
column_at: Any = _interpreted_column_at if _interpreted else _column_at
level_at: Any = _interpreted_level_at if _interpreted else _level_at
add_shared: Any = _interpreted_add_shared if _interpreted else _add_shared

"""Sums of weighted products of rows of a table, some columns at a time: sum_i weights[i] * prod_n table[rows[i, n]].

The sums stay in vector registers while the products are made. A caller that has many sums to make makes all of them for
the same columns, then goes on to the next: these columns of the table stay in the caches. The order of a sum is that of
i, on every machine.
"""

from functools import partial
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from allocore.kernels.arrays import Floats, Indices, Ints
from allocore.kernels.jit import inlined, part
from allocore.kernels.lanes import DOUBLE, INT64, fused, spread

WIDE, NARROW = 32, 8  # columns at a time; a table with fewer has them one by one
_LANES = 8
_VECTOR = ir.VectorType(DOUBLE, _LANES)


def _summing(columns: int) -> Any:
    """The intrinsic that sums so many columns."""

    @intrinsic
    def sum_in_lanes(
        typingctx: Any, table: Any, rows: Any, named: Any, which: Any, weights: Any, start: Any, stop: Any, column: Any,
        out: Any,
    ) -> Any:  # fmt: skip
        intp = types.intp
        signature = types.void(table, rows, intp, which, weights, intp, intp, intp, out)
        return signature, partial(_emit, columns // _LANES)

    return sum_in_lanes


def _emit(count: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Sum the columns of `count` vectors: a loop over i, and in it one over the rows of a product."""
    made = {i: context.make_array(signature.args[i])(context, builder, args[i]) for i in (0, 1, 3, 4, 8)}
    _, _, named, _, _, start, stop, column, _ = args
    width, most = (builder.extract_value(made[i].shape, 1) for i in (0, 1))
    fma, zeros, one = fused(builder, _VECTOR), ir.Constant(_VECTOR, [0.0] * _LANES), ir.Constant(INT64, 1)
    numbers = [ir.Constant(INT64, i) for i in range(count)]
    sums, products = ([cgutils.alloca_once_value(builder, zeros) for _ in numbers] for _ in range(2))

    def vectors(row: Any) -> list[Any]:
        place = builder.gep(made[0].data, [builder.add(builder.mul(row, width), column)])
        first = builder.bitcast(place, _VECTOR.as_pointer())
        return [builder.load(builder.gep(first, [number]), align=8) for number in numbers]

    with cgutils.for_range_slice(builder, start, stop, one) as (i, _):
        of_one = builder.gep(made[1].data, [builder.mul(i, most)])
        row = builder.zext(builder.load(of_one), INT64)
        for vector, product in zip(vectors(row), products, strict=True):
            builder.store(vector, product)
        with cgutils.for_range(builder, builder.sub(named, one)) as loop:
            next_one = builder.gep(of_one, [builder.add(loop.index, one)])
            row = builder.zext(builder.load(next_one), INT64)
            for vector, product in zip(vectors(row), products, strict=True):
                builder.store(builder.fmul(builder.load(product), vector), product)
        place = builder.load(builder.gep(made[3].data, [i]))
        weight = spread(builder, builder.load(builder.gep(made[4].data, [place])), _VECTOR)
        for product, total in zip(products, sums, strict=True):
            builder.store(builder.call(fma, [weight, builder.load(product), builder.load(total)]), total)
    target = builder.bitcast(made[8].data, _VECTOR.as_pointer())
    for number, total in zip(numbers, sums, strict=True):
        builder.store(builder.load(total), builder.gep(target, [number]), align=8)
    return context.get_dummy_value()


@part
def _sum_plainly(
    table_RQ: Floats, rows_PN: Indices, named: int, which_P: Ints, weights_P: Floats, start: int, stop: int,
    column: int, out_L: Floats,
) -> None:  # fmt: skip
    """The same, column by column and without fused multiply-add: last bits differ."""
    for lane in range(out_L.size):
        out_L[lane] = 0.0
        for i in range(start, stop):
            product = weights_P[which_P[i]]
            for n in range(named):
                product *= table_RQ[rows_PN[i, n], column + lane]
            out_L[lane] += product


_interpreted = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_sum_wide: Any = _sum_plainly if _interpreted else _summing(WIDE)
_sum_narrow: Any = _sum_plainly if _interpreted else _summing(NARROW)


@inlined
def columns_at_once(width: int) -> int:
    """How many columns of a table of this width are summed at once."""
    return WIDE if width >= WIDE else NARROW if width >= NARROW else width


@part
def sum_products(
    table_RQ: Floats, rows_PN: Indices, named: int, which_P: Ints, weights_P: Floats, start: int, stop: int,
    column: int, out_L: Floats,
) -> None:  # fmt: skip
    """Fill `out_L` with the sum over i from `start` to `stop` of weights_P[which_P[i]] times its `named` rows.

    The sums are those of the columns from `column` on; as many as `columns_at_once` says.
    """
    if named == 0 or out_L.size < NARROW:
        _sum_plainly(table_RQ, rows_PN, named, which_P, weights_P, start, stop, column, out_L)
    elif out_L.size == WIDE:
        _sum_wide(table_RQ, rows_PN, named, which_P, weights_P, start, stop, column, out_L)
    else:
        _sum_narrow(table_RQ, rows_PN, named, which_P, weights_P, start, stop, column, out_L)

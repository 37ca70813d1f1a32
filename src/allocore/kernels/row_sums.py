"""Weighted sums of the rows of a table, for two sets of weights at a time: out[q] = sum_d weights[q, d] table[d].

The sums of LANES columns stay in vector registers while the rows are read once for both sets of weights. That is the
inner loop of a dense matrix product, by fused multiply-add and in one order, whatever the machine; a BLAS has many.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.jit import part
from allocore.kernels.lanes import DOUBLE, INT64, fused, place, spread

LANES = 16
_HALF = LANES // 2  # lanes in one vector register
_VECTOR = ir.VectorType(DOUBLE, _HALF)


def padded(width: int) -> int:
    """The width of a table with `width` columns, rounded up to whole vectors."""
    return -(-width // LANES) * LANES


def padded_columns(table_DU: Floats) -> Floats:
    """The same table with columns of zeros added up to whole vectors."""
    whole_DL = np.zeros((len(table_DU), padded(table_DU.shape[1])))
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
        fma, zeros = fused(builder, _VECTOR), ir.Constant(_VECTOR, [0.0] * _HALF)
        sums = [[cgutils.alloca_once_value(builder, zeros) for _ in range(2)] for _ in range(2)]
        nothing = ir.Constant(INT64, 0)
        both = [place(context, builder, kinds[3], weights, each, nothing) for each in (q, r)]
        with cgutils.for_range(builder, count) as loop:
            row = builder.load(builder.gep(rows, [loop.index]))
            numbers = builder.bitcast(place(context, builder, kinds[0], table, row, column), _VECTOR.as_pointer())
            vectors = [builder.load(builder.gep(numbers, [ir.Constant(INT64, i)]), align=8) for i in range(2)]
            for of_one, totals in zip(both, sums, strict=True):
                weight = spread(builder, builder.load(builder.gep(of_one, [row])), _VECTOR)
                for vector, total in zip(vectors, totals, strict=True):
                    builder.store(builder.call(fma, [weight, vector, builder.load(total)]), total)
        for each, totals in zip((q, r), sums, strict=True):
            target = builder.bitcast(place(context, builder, kinds[7], out, each, column), _VECTOR.as_pointer())
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


_interpreted = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_sum: Any = _interpreted_sum_in_lanes if _interpreted else _sum_in_lanes


@part
def sum_rows(table_DL: Floats, which_N: Ints, count: Any, weights_QD: Floats, q: int, r: int, out_QL: Floats) -> None:
    """Fill rows q and r of `out_QL` from the rows which_N[:count] of a padded table; all tables are contiguous."""
    for column in range(0, table_DL.shape[1], LANES):
        _sum(table_DL, which_N, count, weights_QD, q, r, column, out_QL)

"""The dot product of two rows of 64-bit floats in SIMD lanes and in one fixed order.

numba's own loops do not vectorise a float sum: that needs fastmath, which gives up the order. So the loop over whole
vectors is emitted through LLVM. Lane l adds up the products at l, l + LANES, ..; then the lanes are added by halving,
and last the products beyond the whole vectors.
"""

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from allocore.kernels.arrays import Floats
from allocore.kernels.jit import part

LANES = 16
_HALF = LANES // 2  # lanes in one vector register
_DOUBLE, _INT32, _INT64 = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, _HALF)


def _row(context: Any, builder: Any, kind: Any, array: Any, row: Any) -> Any:
    """A pointer to the vectors of a row of a table."""
    made = context.make_array(kind)(context, builder, array)
    start = builder.mul(row, builder.extract_value(made.shape, 1))
    return builder.bitcast(builder.gep(made.data, [start]), _VECTOR.as_pointer())


def _lanes(builder: Any, vector: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT32, len(places)), places))


def _sum_of_lanes(builder: Any, vector: Any) -> Any:
    width = _HALF
    while width > 1:
        width //= 2
        halves = (_lanes(builder, vector, [*range(start, start + width)]) for start in (0, width))
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, ir.Constant(_INT32, 0))


@intrinsic
def _dot_of_vectors(typingctx: Any, lefts: Any, left: Any, rights: Any, right: Any, steps: Any) -> Any:
    """The dot product of the first `steps` * LANES numbers of two rows."""
    signature = types.float64(lefts, types.intp, rights, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows = [_row(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 2)]
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{_HALF}f64")
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * _HALF)) for _ in range(2)]
        with cgutils.for_range(builder, args[4]) as loop:
            first = builder.mul(loop.index, ir.Constant(_INT64, 2))
            for half, total in enumerate(sums):
                place = builder.add(first, ir.Constant(_INT64, half))
                x, y = (builder.load(builder.gep(row, [place]), align=8) for row in rows)
                builder.store(builder.call(fma, [x, y, builder.load(total)]), total)
        return _sum_of_lanes(builder, builder.fadd(*(builder.load(total) for total in sums)))

    return signature, codegen


def _interpreted_dot_of_vectors(lefts_RQ: Floats, left: int, rights_RQ: Floats, right: int, steps: int) -> float:
    whole = steps * LANES
    return float((lefts_RQ[left, :whole] * rights_RQ[right, :whole]).reshape(steps, LANES).sum(axis=0).sum())


_interpreted = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
_dot: Any = _interpreted_dot_of_vectors if _interpreted else _dot_of_vectors


@part
def dot_of_rows(lefts_RQ: Floats, left: int, rights_RQ: Floats, right: int) -> float:
    """The dot product of row `left` of one table and row `right` of another; both are contiguous and equally wide."""
    width = lefts_RQ.shape[1]
    steps = width // LANES
    total: float = _dot(lefts_RQ, left, rights_RQ, right, steps)
    for q in range(steps * LANES, width):
        total += lefts_RQ[left, q] * rights_RQ[right, q]
    return total

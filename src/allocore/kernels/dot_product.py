"""The dot product of two rows of 64-bit floats in SIMD lanes and in one fixed order.

Lane l adds up the products at l, l + LANES, ..; then the lanes are added by halving, and last the products beyond the
whole vectors.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from allocore.kernels.arrays import Floats
from allocore.kernels.jit import part
from allocore.kernels.lanes import DOUBLE, INT64, fused, place, sum_of_lanes

LANES = 16
# Rows of small tables. As plain numbers they would be types of their own for numba, and be compiled one by one.
FIRST, SECOND = np.int64(0), np.int64(1)
_HALF = LANES // 2  # lanes in one vector register
_VECTOR = ir.VectorType(DOUBLE, _HALF)


@intrinsic
def _dot_of_vectors(typingctx: Any, lefts: Any, left: Any, rights: Any, right: Any, steps: Any) -> Any:
    """The dot product of the first `steps` * LANES numbers of two rows."""
    signature = types.float64(lefts, types.intp, rights, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start, fma = ir.Constant(INT64, 0), fused(builder, _VECTOR)
        rows = [
            builder.bitcast(
                place(context, builder, signature.args[i], args[i], args[i + 1], start), _VECTOR.as_pointer()
            )
            for i in (0, 2)
        ]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * _HALF)) for _ in range(2)]
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

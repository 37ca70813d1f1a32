"""Sums of products in SIMD lanes: the inner loop of thinning.

A row of weights is laid out in blocks of `LANES` numbers; lane l holds the numbers l, l + LANES, l + 2 * LANES, and so on.
`lane_sums` adds up each lane over the blocks, in vector registers and in one fixed order, so the result has the same bits
on every machine with fused multiply-add and for every number of threads. numba's own loops do not vectorise a float sum
(that would need fastmath, which gives up the order), so the vector code is emitted through LLVM directly.

A row is drawn from in two steps: first the lane, by the running sums over lanes, then a place within the lane.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from allocore._jit import inlined

LANES = 16


def padded(width: int) -> int:
    """The length of a row that holds `width` numbers in whole blocks."""
    return -(-width // LANES) * LANES


@intrinsic
def _lane_sums(typingctx: Any, left: Any, right: Any, blocks: Any, running: Any) -> Any:
    """(address, address, blocks, address of LANES float64) -> total; see `lane_sums`."""
    signature = types.float64(types.intp, types.intp, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        singles, doubles = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.DoubleType(), LANES)
        places = ir.VectorType(ir.IntType(32), LANES)
        left, right = (builder.inttoptr(address, singles.as_pointer()) for address in args[:2])
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(singles, [singles] * 3), f"llvm.fma.v{LANES}f32"
        )
        total = cgutils.alloca_once_value(builder, ir.Constant(singles, [0.0] * LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            x = builder.load(builder.gep(left, [loop.index]), align=4)
            y = builder.load(builder.gep(right, [loop.index]), align=4)
            builder.store(builder.call(fma, [x, y, builder.load(total)]), total)
        sums = builder.fpext(builder.load(total), doubles)
        shift = 1
        while shift < LANES:  # running sums by doubling: add the vector to itself, moved up by 1, 2, 4, ... lanes
            moved = ir.Constant(places, [LANES if lane < shift else lane - shift for lane in range(LANES)])
            zeros = ir.Constant(doubles, [0.0] * LANES)
            sums = builder.fadd(sums, builder.shuffle_vector(sums, zeros, moved))
            shift *= 2
        builder.store(sums, builder.inttoptr(args[3], doubles.as_pointer()), align=8)
        return builder.extract_element(sums, ir.Constant(ir.IntType(32), LANES - 1))

    return signature, codegen


def _interpreted_lane_sums(
    lefts: NDArray[np.float32], left: int, rights: NDArray[np.float32], right: int, running: NDArray[np.float64]
) -> float:
    products = lefts[left].astype(np.float64).reshape(-1, LANES) * rights[right].reshape(-1, LANES)
    running[0] = np.cumsum(products.sum(axis=0).astype(np.float32), dtype=np.float64)
    return float(running[0, -1])


@inlined
def _compiled_lane_sums(
    lefts: NDArray[np.float32], left: int, rights: NDArray[np.float32], right: int, running: NDArray[np.float64]
) -> float:
    """Running sums over the lanes of the products of two rows, left in `running`; returns the total."""
    width = lefts.shape[1]
    return _lane_sums(
        lefts.ctypes.data + 4 * left * width,
        rights.ctypes.data + 4 * right * width,
        width // LANES,
        running.ctypes.data,
    )


lane_sums = _interpreted_lane_sums if numba.config.DISABLE_JIT else _compiled_lane_sums


@inlined
def first_above(sums: NDArray[np.float64], row: int, target: float) -> int:
    """The first place of a row of running sums that is above `target`, found without branches to mispredict.

    `target` is below the last sum but for rounding; then it is the last place whose sum rises.
    """
    place = 0
    for i in range(sums.shape[1]):
        place += sums[row, i] <= target
    if place == sums.shape[1]:
        place -= 1
        while place > 0 and sums[row, place] == sums[row, place - 1]:
            place -= 1
    return place

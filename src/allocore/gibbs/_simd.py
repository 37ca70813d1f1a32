"""Sums of products in SIMD lanes, and draws by them: the inner loop of thinning.

A row of weights is laid out in blocks of `LANES` numbers; lane l holds the numbers l, l + LANES, l + 2 * LANES, and so
on. `lane_sums` multiplies two rows in 32 bits and adds up each lane over the blocks in 64 bits, in vector registers and
in one fixed order, so that the result does not depend on the threads. numba's own loops do not vectorise a float sum
(that would need fastmath, which gives up the order), so the vector code is emitted through LLVM directly.

A class is drawn in two steps, first its lane, then its block within the lane. Both steps count how many running sums
lie below the target: no branch depends on the draw, so none is mispredicted.
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
def _lane_sums(typingctx: Any, left: Any, right: Any, blocks: Any, within: Any, across: Any) -> Any:
    """`lane_sums` on addresses."""
    signature = types.float64(types.intp, types.intp, types.intp, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        singles, doubles = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.DoubleType(), LANES)
        left, right = (builder.inttoptr(address, singles.as_pointer()) for address in args[:2])
        within, across = (builder.inttoptr(address, doubles.as_pointer()) for address in args[3:])
        zeros = ir.Constant(doubles, [0.0] * LANES)
        running = cgutils.alloca_once_value(builder, zeros)
        with cgutils.for_range(builder, args[2]) as loop:
            x = builder.load(builder.gep(left, [loop.index]), align=4)
            y = builder.load(builder.gep(right, [loop.index]), align=4)
            sums = builder.fadd(builder.load(running), builder.fpext(builder.fmul(x, y), doubles))
            builder.store(sums, running)
            builder.store(sums, builder.gep(within, [loop.index]), align=8)
        sums, shift = builder.load(running), 1
        while shift < LANES:  # running sums by doubling: add the vector to itself, moved up by 1, 2, 4, ... lanes
            places = [LANES if lane < shift else lane - shift for lane in range(LANES)]
            moved = builder.shuffle_vector(sums, zeros, ir.Constant(ir.VectorType(ir.IntType(32), LANES), places))
            sums, shift = builder.fadd(sums, moved), 2 * shift
        builder.store(sums, across, align=8)
        return builder.extract_element(sums, ir.Constant(ir.IntType(32), LANES - 1))

    return signature, codegen


def _interpreted_lane_sums(
    lefts: NDArray[np.float32],
    left: int,
    rights: NDArray[np.float32],
    right: int,
    within: NDArray[np.float64],
    across: NDArray[np.float64],
) -> float:
    products = lefts[left].reshape(-1, LANES) * rights[right].reshape(-1, LANES)
    np.cumsum(products, axis=0, dtype=np.float64, out=within)
    np.cumsum(within[-1], out=across)
    return float(across[-1])


@inlined
def _compiled_lane_sums(
    lefts: NDArray[np.float32],
    left: int,
    rights: NDArray[np.float32],
    right: int,
    within: NDArray[np.float64],
    across: NDArray[np.float64],
) -> float:
    """Sum the products of row `left` of `lefts` and row `right` of `rights`.

    Leaves the running sums of every lane over its blocks in `within` (blocks, LANES), and those over the lanes in
    `across` (LANES); returns the total.
    """
    width = lefts.shape[1]
    first, second = lefts.ctypes.data + 4 * left * width, rights.ctypes.data + 4 * right * width
    return _lane_sums(first, second, width // LANES, within.ctypes.data, across.ctypes.data)  # type: ignore[call-arg]


lane_sums = _interpreted_lane_sums if numba.config.DISABLE_JIT else _compiled_lane_sums  # type: ignore[attr-defined]


@inlined
def place_above(within: NDArray[np.float64], across: NDArray[np.float64], target: float) -> int:
    """The place in the row at which the sums of `lane_sums`, lane after lane, first rise above `target`.

    A place of weight zero is never returned: where rounding leads past the end of a lane, or into one without weight,
    it is the first place with weight of that lane or of one before it.
    """
    lane = 0
    for i in range(LANES - 1):
        lane += across[i] <= target
    rest = target - across[lane - 1] if lane > 0 else target
    last = within.shape[0] - 1
    if not 0.0 <= rest < within[last, lane]:
        rest = 0.0
        while within[last, lane] <= 0.0:
            lane = lane - 1 if lane > 0 else LANES - 1
    block = 0
    for i in range(last):
        block += within[i, lane] <= rest
    return lane + LANES * block

"""What the modules that emit vector code through LLVM have in common.

numba's own loops do not vectorise a float sum (that needs fastmath, which gives up the order of the sum), and keep no
sums in registers. So a few inner loops are emitted as LLVM vector code, by intrinsics: simd.py, dot_product.py,
row_sums.py, row_products.py. LLVM cuts vectors that are wider than the registers of the machine; lane by lane, the
arithmetic is the same, so the bytes are too.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

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
    """A pointer to one number of a contiguous table."""
    made = context.make_array(kind)(context, builder, array)
    start = builder.mul(row, builder.extract_value(made.shape, 1))
    return builder.gep(made.data, [builder.add(start, column)])

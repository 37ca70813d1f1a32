"""Baselines for thinning: the products alone, and the kernel that one would write first.

`floor` computes the same products in the same loops (fibres, 32-bit lanes, fused multiply-add) and draws nothing.
`paper_style` gathers the weight of every class by its location and splits the count by binomials, class by class.
`thin_as_in_the_paper` puts that kernel into a whole sweep, in place of `thin_here` (gibbs/thinning.py).
"""

from functools import partial
from math import log

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from allocore.gibbs.latent_counts import POISSON
from allocore.gibbs.thinning import ThinnedCells, enter_fibre
from allocore.kernels.jit import kernel
from allocore.kernels.simd import aligned_zeros

LANES = 16


@intrinsic
def dot(typingctx, left, right, blocks):
    """The dot product of two float32 arrays, given by their addresses, in LANES lanes."""

    def codegen(context, builder, signature, args):
        lanes = ir.VectorType(ir.FloatType(), LANES)
        left, right = (builder.inttoptr(address, lanes.as_pointer()) for address in args[:2])
        name = f"llvm.fma.v{LANES}f32"
        fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(lanes, [lanes] * 3), name)
        total = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * LANES))
        with cgutils.for_range(builder, args[2]) as loop:
            x = builder.load(builder.gep(left, [loop.index]), align=4)
            y = builder.load(builder.gep(right, [loop.index]), align=4)
            builder.store(builder.call(fma, [x, y, builder.load(total)]), total)
        value, width = builder.load(total), LANES
        while width > 1:
            width //= 2
            halves = [
                ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(start, start + width)))
                for start in (0, width)
            ]
            value = builder.fadd(*(builder.shuffle_vector(value, value, half) for half in halves))
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return types.float32(types.intp, types.intp, types.intp), codegen


@kernel
def _products(first, last, cells, scaled_RL, products, out):
    coords_MN, changed_N, starts_M = cells.coords_MN, cells.changed_N, cells.starts_M
    modes, width = starts_M.size, scaled_RL.shape[1]
    left = products.ctypes.data + 4 * modes * width
    total = 0.0
    for n in range(first, last):
        changed = changed_N[n] if n > first else 0
        if changed < modes - 1:
            enter_fibre(n, changed, modes, coords_MN, starts_M, scaled_RL, products)
        row = starts_M[modes - 1] + coords_MN[modes - 1, n]
        total += dot(left, scaled_RL.ctypes.data + 4 * row * width, width // LANES)
    out[0] = total


def floor(layout, scaled, passes=1):
    """Compute the products of every cell and their sum, and nothing else.

    With several passes, every thread goes through its cells so often before it reports: then the time is that of the
    loop, and handing out work hardly counts.
    """
    modes, width = len(layout.shape), scaled.scaled_RL.shape[1]
    cuts = layout.workers.ranges(layout.nnz)
    buffers = [(aligned_zeros(modes + 1, width), np.empty(1)) for _ in cuts]
    for products, _ in buffers:
        products[modes - 1] = 1.0
    calls = [
        partial(_products, *cut, layout.nonzeros, scaled.scaled_RL, *each)
        for cut, each in zip(cuts, buffers, strict=True)
    ]
    layout.workers.run(calls * passes)  # dealt out in turn, so a thread gets the same cells in every pass
    return sum(float(total[0]) for _, total in buffers)


@kernel
def _gather_and_split(
    first, last, coords_MN, counts_N, starts_M, flat, begins_M, widths_M, subs_QM, core_Q, y_RQ, log_fit
):
    budget, modes = subs_QM.shape
    weights_Q = np.empty(budget)
    for n in range(first, last):
        total = 0.0
        for q in range(budget):
            weight = core_Q[q]
            for m in range(modes):
                weight *= flat[begins_M[m] + coords_MN[m, n] * widths_M[m] + subs_QM[q, m]]
            weights_Q[q] = weight
            total += weight
        rest = counts_N[n]
        log_fit[0] += rest * log(total)
        for q in range(budget):
            if rest == 0:
                break
            # `total` is what is left of the weights. Rounding may leave less than the weight of this class.
            p = weights_Q[q] / total if weights_Q[q] < total else 1.0
            # numba's own generator for this thread, as one would write first
            share = np.random.binomial(rest, p) if q < budget - 1 else rest  # noqa: NPY002
            total -= weights_Q[q]
            rest -= share
            if share > 0:
                for m in range(modes):
                    y_RQ[starts_M[m] + coords_MN[m, n], q] += share


def paper_style(layout, state):
    """Thinning as the paper describes it, on the same number of threads, each with its own table.

    Returns the counts by row and class, and the log-likelihood of the non-zero cells.
    """
    factors = [state.factors(mode) for mode in layout.order]
    begins_M = np.cumsum([0, *(phi_DK.size for phi_DK in factors)])[:-1]
    widths_M = np.array([phi_DK.shape[1] for phi_DK in factors])
    flat = np.concatenate([phi_DK.ravel() for phi_DK in factors])
    subs_QM = np.ascontiguousarray(state.subs_QM[:, layout.order])
    cuts = layout.workers.ranges(layout.nnz)
    tables, log_fit_T = np.zeros((len(cuts), sum(layout.shape), len(subs_QM)), dtype=np.int64), np.zeros((len(cuts), 1))
    counts_N = layout.counts_of(np.arange(layout.nnz))
    shared = layout.nonzeros.coords_MN, counts_N, layout.nonzeros.starts_M, flat, begins_M, widths_M, subs_QM
    layout.workers.run(
        [
            partial(_gather_and_split, *cut, *shared, state.core_values(), table, log_fit)
            for cut, table, log_fit in zip(cuts, tables, log_fit_T, strict=True)
        ]
    )
    return tables.sum(axis=0), float(log_fit_T.sum())


def thin_as_in_the_paper(key, layout, likelihood, state, workspace, count_type):
    """The cells of a sweep thinned by the paper-style kernel.

    It draws from numba's generators, not from the key: results are not reproducible. Only for Poisson counts.
    """
    if likelihood != POISSON:
        raise NotImplementedError("the paper-style kernel allocates Poisson counts only")
    y_RQ, log_fit = paper_style(layout, state)
    return ThinnedCells(
        y_RQ.astype(count_type), np.array([log_fit]), np.empty(0), np.empty(0), np.zeros(sum(layout.shape))
    )

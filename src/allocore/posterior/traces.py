"""Numbers that say where a chain is and do not depend on labels: the traces that diagnostics judge.

A class or a factor has another number in every draw, so its own trace means nothing. The quantities here do not change
when classes or factors are renumbered: the log-likelihood, the summed rate of all observed cells, how many classes and
factors are in use, and the rates of a few cells.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import column_keys, locate
from allocore.data.tensor import CountTensor
from allocore.kernels.jit import kernel
from allocore.run.record import Record

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

# Enough to see a chain that predicts otherwise than the others, few enough for a table that is read whole.
_CELLS = 12
_CELL_SEED = 20240502
# So many cells at random hold six without a count wherever one cell in a few hundred is observed and has none.
_CANDIDATES = 4096


RATE = "log rate of"


class Trace(NamedTuple):
    """One quantity over all draws, `values` (chain, draw); `words` name it in a sentence, cells share theirs."""

    name: str
    words: str
    values: _Floats


def traces(record: Record) -> Iterator[Trace]:
    """All quantities that are judged, at the kept draws."""
    kept = record.draw_sweeps - 1
    at_draws = {name: record.stats[name][:, kept].astype(float) for name in ("log_likelihood", "classes", "factors")}
    cells_MC = judged_cells(record.tensor)
    total, cells = _rates(record, cells_MC)
    yield Trace("log-likelihood", "the log-likelihood", at_draws["log_likelihood"])
    yield Trace("total rate", "the total rate", total)
    yield Trace("classes", "the number of classes in use", at_draws["classes"])
    if record.spec.infer_budget:
        on = (record.core_values > 0.0).sum(axis=2).astype(float)
        yield Trace("classes on", "the number of classes that are on", on)
    for mode, name in enumerate(record.tensor.mode_names):
        yield Trace(f"{name} factors", f"the number of {name} factors in use", at_draws["factors"][..., mode])
    for place, cell in enumerate(cells_MC.T.tolist()):
        labels = ", ".join(str(names[d]) for names, d in zip(record.tensor.labels, cell, strict=True))
        yield Trace(f"{RATE} {labels}", "the rates of cells", cells[..., place])


def judged_cells(tensor: CountTensor) -> _Ints:
    """Some observed cells (M, 12), half of them without counts if there are as many; the same for the same tensor."""
    rng = np.random.Generator(np.random.PCG64(_CELL_SEED))
    candidates_MN = np.array([rng.integers(0, length, _CANDIDATES) for length in tensor.shape])
    drawn_N, taken_N = column_keys(tensor.shape, candidates_MN, tensor.coords)
    first = np.zeros(_CANDIDATES, dtype=bool)
    first[np.unique(drawn_N, return_index=True)[1]] = True
    zero = first & (locate(drawn_N, taken_N) < 0) & ~tensor.missing.contains(candidates_MN)
    zeros = np.flatnonzero(zero)[: _CELLS // 2]
    positive = np.sort(rng.choice(tensor.nnz, min(tensor.nnz, _CELLS - len(zeros)), replace=False))
    return np.concatenate([tensor.coords[:, positive], candidates_MN[:, zeros]], axis=1).astype(np.int64)


def _rates(record: Record, cells_MC: _Ints) -> tuple[_Floats, _Floats]:
    """The total rate over the observed cells (chain, draw), and the log rates of some cells (chain, draw, C).

    All the rows of a draw stand in one table, and below them for each mode their sum, which is the row of a wildcard:
    a missing pattern then is a cell like any other.
    """
    lead, shape = record.core_values.shape[:2], np.array(record.tensor.shape)
    starts_M, sums_M = np.cumsum(shape) - shape, shape.sum() + np.arange(len(shape))
    patterns_PM, weights_P = record.tensor.missing.signed
    rows_PM = np.concatenate([sums_M[None], np.where(patterns_PM < 0, sums_M, patterns_PM + starts_M)])
    signs_P = np.concatenate([[1.0], -weights_P])
    total, cells = np.empty(lead), np.empty((*lead, cells_MC.shape[1]))
    phi_RQ = np.empty((sums_M[-1] + 1, record.core_values.shape[2]))
    for place in np.ndindex(lead):
        # Added up in the order of their values, classes give the same bits whatever their numbers; R-hat ranks draws,
        # and two that are as far from the median would else be ranked by rounding.
        order_Q = np.argsort(record.core_values[place])
        core_Q = record.core_values[place][order_Q]
        _fill_table(record, place, order_Q, starts_M, phi_RQ)
        reach_Q = np.zeros(len(core_Q))
        _add_patterns(rows_PM, signs_P, phi_RQ, reach_Q)
        # What is left of a class that lies on missing cells is rounding, of either sign.
        total[place] = core_Q @ np.maximum(reach_Q, 0.0)
        cells[place] = phi_RQ[cells_MC.T + starts_M].prod(axis=1) @ core_Q
    # A rate that underflows is the least of all, and finite.
    return total, np.log(np.maximum(cells, np.finfo(float).tiny))


def _fill_table(record: Record, place: tuple[int, ...], order_Q: _Ints, starts_M: _Ints, phi_RQ: _Floats) -> None:
    """Write the factors of one draw as rows of Q numbers, mode below mode, then the sums of the modes."""
    modes, subs_QM = len(starts_M), record.core_locations[place][order_Q]
    for mode, factor in enumerate(record.factors):
        phi_DK = factor[place]
        rows_DQ = phi_RQ[starts_M[mode] : starts_M[mode] + len(phi_DK)]
        np.take(phi_DK, subs_QM[:, mode], axis=1, out=rows_DQ)
        rows_DQ.sum(axis=0, out=phi_RQ[len(phi_RQ) - modes + mode])


@kernel
def _add_patterns(rows_PM: NDArray[Any], signs_P: _Floats, phi_RQ: _Floats, reach_Q: _Floats) -> None:
    """Add the product of the rows of each pattern, times its sign, to the sum of each class."""
    product_Q = np.empty(reach_Q.size)
    for p in range(signs_P.size):
        for q in range(reach_Q.size):
            product_Q[q] = signs_P[p]
        for m in range(rows_PM.shape[1]):
            row = rows_PM[p, m]
            for q in range(reach_Q.size):
                product_Q[q] *= phi_RQ[row, q]
        for q in range(reach_Q.size):
            reach_Q[q] += product_Q[q]

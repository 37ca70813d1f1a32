"""Numbers that say where a chain is and do not depend on labels: the traces that diagnostics judge.

The numbers of classes and factors change from draw to draw, so the trace of a single class means nothing. The
quantities here stay the same when classes or factors are renumbered: the log-likelihood, the expected count of all
observed cells together, how many classes and factors are in use, the dispersion and the concentrations if they are
learned, the expected counts of a few cells, and the shares of consensus classes, which are matched by their profiles.

The expected total of the Bernoulli likelihood would need every cell. The total rate, which needs only sums, stands in.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.data.coordinates import column_keys, locate
from allocore.data.sharded_tensor import stays_on_disk
from allocore.data.tensor import CountTensor
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.cell_rates import rates_of_cells
from allocore.kernels.signed_patterns import SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.likelihood import dispersion_of
from allocore.posterior.class_sums import weighted_sums
from allocore.run.record import Record

if TYPE_CHECKING:
    from allocore.posterior.consensus.consensus import Consensus

# Enough to show a chain that predicts differently from the others, few enough for a table that people read whole.
_CELLS = 12
_CLASSES = 8
_CELL_SEED = 20240502
# If at least one cell in a few hundred is an observed zero, this many random cells include six of them.
_CANDIDATES = 4096


LOG_COUNT = "log expected count of"


class Trace(NamedTuple):
    """One quantity over all draws, `values` (chain, draw). `words` name it in a sentence that like quantities share."""

    name: str
    words: str
    values: Floats


def traces(record: Record) -> Iterator[Trace]:
    """All quantities that are judged, at the kept draws."""
    kept = record.draw_sweeps - 1
    at_draws = {name: record.stats[name][:, kept].astype(float) for name in ("log_likelihood", "classes", "factors")}
    cells_MC = judged_cells(record.tensor)
    total, cells = expected(record, cells_MC)
    yield Trace("log-likelihood", "the log-likelihood", at_draws["log_likelihood"])
    name = record.spec.observation.total
    yield Trace(name, f"the {name}", total)
    yield Trace("classes", "the number of classes in use", at_draws["classes"])
    if record.spec.infer_budget:
        included = (record.core_values > 0.0).sum(axis=2).astype(float)
        yield Trace("classes included", "the number of classes included", included)
    for mode, name in enumerate(record.tensor.mode_names):
        yield Trace(f"{name} factors", f"the number of {name} factors in use", at_draws["factors"][..., mode])
    yield from _learned(record)
    for place, cell in enumerate(cells_MC.T.tolist()):
        labels = ", ".join(str(names[d]) for names, d in zip(record.tensor.labels, cell, strict=True))
        yield Trace(f"{LOG_COUNT} {labels}", "the expected counts of cells", cells[..., place])


def share_traces(consensus: "Consensus") -> list[Trace]:
    """The shares of the largest consensus classes, zero where a draw does not hold one; small and weak ones apart."""
    summary = consensus.summary
    places = np.flatnonzero(~summary.apart_C)[:_CLASSES].tolist()
    numbers = summary.numbers(tuple(places))
    shares = consensus.shares_by_draw
    return [
        Trace(f"share of class {number}", "the shares of consensus classes", shares[..., place])
        for number, place in zip(numbers, places, strict=True)
    ]


def judged_cells(tensor: CountTensor) -> Ints:
    """At most twelve observed cells (M, C), half of them zeros if possible; always the same for a tensor."""
    rng = np.random.Generator(np.random.PCG64(_CELL_SEED))
    candidates_MN = np.array([rng.integers(0, length, _CANDIDATES) for length in tensor.shape])
    if stays_on_disk(tensor):  # then any observed cells are judged, whatever their counts
        return candidates_MN[:, ~tensor.missing.contains(candidates_MN)][:, :_CELLS].astype(np.int64)
    drawn_N, taken_N = column_keys(tensor.shape, candidates_MN, tensor.coords)
    first = np.zeros(_CANDIDATES, dtype=bool)
    first[np.unique(drawn_N, return_index=True)[1]] = True
    zero = first & (locate(drawn_N, taken_N) < 0) & ~tensor.missing.contains(candidates_MN)
    zeros = np.flatnonzero(zero)[: _CELLS // 2]
    positive = np.sort(rng.choice(tensor.nnz, min(tensor.nnz, _CELLS - len(zeros)), replace=False))
    return np.concatenate([tensor.coords[:, positive], candidates_MN[:, zeros]], axis=1).astype(np.int64)


def _learned(record: Record) -> Iterator[Trace]:
    """The dispersion, or its mean and spread over the rows that have counts, and the concentrations of the modes."""
    if record.log_odds is not None:
        p, mode = dispersion_of(record.log_odds), record.spec.dispersion_by
        if mode is None:
            yield Trace("dispersion p", "the dispersion p", p)
        else:
            name, rows = record.tensor.mode_names[mode], p[..., record.tensor.mode_totals(mode) > 0]
            yield Trace(f"dispersion p, mean over {name}", "the dispersion p", rows.mean(axis=2))
            yield Trace(f"dispersion p, sd over {name}", "the dispersion p", rows.std(axis=2))
    if record.concentrations is not None:
        for mode, name in enumerate(record.tensor.mode_names):
            yield Trace(f"{name} concentration", "the concentrations", record.concentrations[..., mode])


def expected(record: Record, cells_MC: Ints) -> tuple[Floats, Floats]:
    """The expected total count (chain, draw), and the logs of the expected counts of some cells (chain, draw, C)."""
    lead = record.core_values.shape[:2]
    missing, likelihood = SignedPatterns.of(record.tensor.missing), record.spec.observation
    total, cells = np.empty(lead), np.empty((*lead, cells_MC.shape[1]))
    # Only the rows of these cells are expanded for their rates.
    places_MC = np.broadcast_to(np.arange(cells_MC.shape[1]), cells_MC.shape)
    with Workers(1) as workers:
        for chain, draw in np.ndindex(lead):
            # Classes are summed in order of value, so renumbering them changes no bit. Otherwise rounding would decide
            # ties when R-hat ranks draws.
            order_Q = np.argsort(record.core_values[chain, draw])
            core_Q, subs_QM = record.core_values[chain, draw][order_Q], record.core_locations[chain, draw][order_Q]
            factors = [factor[chain, draw] for factor in record.factors]
            total[chain, draw] = core_Q @ weighted_sums(record, chain, draw, subs_QM, missing, workers)
            few = [factor[rows_C] for factor, rows_C in zip(factors, cells_MC, strict=True)]
            rates_C = rates_of_cells(core_Q, subs_QM, few, places_MC, workers)
            cells[chain, draw] = likelihood.mean(rates_C, record.log_odds_of(chain, draw, cells_MC))
    # An expected count that underflows becomes the smallest normal float, so its logarithm is finite.
    return total, np.log(np.maximum(cells, np.finfo(float).tiny))

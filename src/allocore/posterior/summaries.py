"""Classes of one draw in words: how much each holds, where it lies in the core, its heaviest labels in every mode."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore.model.rates import class_totals
from allocore.model.state import State
from allocore.run.record import Record

if TYPE_CHECKING:
    from allocore.posterior.stability import Stability

_FAINT = 0.02
_EVEN = 1.5


def class_table(record: Record, chain: int, draw: int, top: int, stability: "Stability") -> pd.DataFrame:
    """One row per core location in use by some class, the largest first.

    `value` is the expected count of the class in all observed cells: its core value times the sum over these cells of
    the products of its factors. Classes at one location are one. For each mode: the factor's number and top labels.
    `stability` is that of this draw.
    """
    locations, place_Q = np.unique(record.core_locations[chain, draw], axis=0, return_inverse=True)
    factors = [factor[chain, draw] for factor in record.factors]
    value = np.bincount(place_Q.ravel(), class_totals(_state(record, chain, draw), record.tensor.missing))
    order = np.argsort(-value, kind="stable")
    table = pd.DataFrame({"value": value[order], "share": value[order] / (value.sum() or 1.0)})
    table["stability"], table["stable_chains"] = stability.draws_C[order], stability.chains_C[order]
    for name, column in zip(record.tensor.mode_names, locations[order].T, strict=True):
        table[f"{name}_factor"] = column
    for mode, name in enumerate(record.tensor.mode_names):
        numbers = table[f"{name}_factor"]
        words = {k: _top_labels(record, mode, factors[mode][:, k], top) for k in np.unique(numbers)}
        table[f"{name}_top"] = numbers.map(words)
    table.index.name = "class"
    return table


def _state(record: Record, chain: int, draw: int) -> State:
    with np.errstate(divide="ignore"):
        log_phi = tuple(np.log(factor[chain, draw]) for factor in record.factors)
        return State(np.log(record.core_values[chain, draw]), record.core_locations[chain, draw], log_phi)


def observed_rows(record: Record, mode: int) -> NDArray[np.bool_]:
    """Which rows of a mode are not missing as a whole; where nothing was observed a factor holds its prior alone."""
    patterns_PM = record.tensor.missing.patterns
    whole = (patterns_PM >= 0).sum(axis=1) == 1
    observed_D = np.ones(record.tensor.shape[mode], dtype=bool)
    named_P = patterns_PM[whole, mode]
    observed_D[named_P[named_P >= 0]] = False
    return observed_D


def _top_labels(record: Record, mode: int, factor_D: NDArray[np.float64], top: int) -> str:
    """The heaviest labels of a factor with their shares, e.g. "JFK 93%, EWR 6%".

    Labels below 2% are left out, and where no label has 1.5 times an even share none is worth naming.
    """
    factor_D = np.where(observed_rows(record, mode), factor_D, 0.0)
    if factor_D.sum() == 0.0:
        return "too small to tell"
    share_D = factor_D / factor_D.sum()
    if len(share_D) > 2 and share_D.max() < _EVEN / len(share_D):
        return f"evenly over all {len(share_D)}"
    labels = record.tensor.labels[mode]
    heaviest = np.argsort(-share_D, kind="stable")[:top]
    kept = [d for rank, d in enumerate(heaviest) if rank == 0 or share_D[d] >= _FAINT]
    return ", ".join(f"{labels[d]} {share_D[d]:.0%}" for d in kept)

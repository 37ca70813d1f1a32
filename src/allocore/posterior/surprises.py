"""Surprises: the observed cells whose counts are least expected under the posterior predictive.

A count y is judged by both tails of the predictive, the likelihood averaged over the values theta_s of all S draws:

    p = min(1, 2 min(P(Y >= y), P(Y <= y))),    P(.) = 1/S sum_s P(. | theta_s)

Tails are kept as logarithms, so cells are ranked even if their p is below the smallest float. A rate that underflows to
0 counts as the smallest normal float.

Few cells are judged under all draws, but none is dropped by guesswork. All terms are positive, so n draws give a lower
bound on p. A cell is dropped if its bound exceeds the p of `top` others.

There are too many zeros to list. A bounded search finds those that may surprise (zero_search.py).
"""

import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.draw_bar import watched
from allocore.posterior.prediction import number_of_draws, rates_by_draw, sampled
from allocore.posterior.scored_cells import check_has_cells, check_same_tensor
from allocore.posterior.zero_search import ZeroSearch
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd


# Few enough to be quick, but enough for the bounds, which are off by up to log10(S/n), to settle almost all cells.
_SAMPLED_DRAWS = 8
# How many zeros to keep for judging, besides four for each of the `top` cells.
_MORE_ZEROS = 16_384
_ROUNDING = 1e-9
_CELLS_PER_THREAD = 4096


class Judged(NamedTuple):
    """Cells with their expected counts and the logs of both tails of their counts, averaged over draws."""

    coords_MN: Ints
    counts_N: Ints
    expected_N: Floats
    log_more_N: Floats
    log_fewer_N: Floats

    @property
    def log_p_N(self) -> Floats:
        """The log of the two-sided p."""
        return np.minimum(0.0, math.log(2) + np.minimum(self.log_more_N, self.log_fewer_N))

    def log_p_to_beat(self, top: int) -> float:
        """The log p that another cell must not exceed to be among the best `top`, if these are the best so far."""
        return float(self.log_p_N[-1]) if len(self.counts_N) == top else 0.0

    def taken(self, places: NDArray[Any]) -> "Judged":
        """Some of the cells."""
        return Judged(self.coords_MN[:, places], *(values_N[places] for values_N in self[1:]))

    def and_(self, others: "Judged") -> "Judged":
        """These cells and others."""
        return Judged(*(np.concatenate(both, axis=-1) for both in zip(self, others, strict=True)))

    def best(self, top: int) -> "Judged":
        """The cells with the smallest p, in that order; ties in the order of their coordinates."""
        return self.taken(np.lexsort([*self.coords_MN[::-1], self.log_p_N])[:top])


def surprises(
    record: Record, coords_MN: Ints, counts_N: Ints, *, top: int, threads: int, missing: Missing | None = None
) -> "pd.DataFrame":
    """The `top` cells with the smallest two-sided p under all draws, as a table, the most surprising first.

    With `missing`, the cells given are all non-zeros of a tensor (sorted, mode 0 slowest). All other cells that are not
    missing are zeros, which may surprise too. Without it, only the cells given are judged.
    """
    best, searched = _most_surprising(record, coords_MN, counts_N, top, threads), "given"
    if missing is not None:
        search = ZeroSearch(record, coords_MN, missing, room=4 * top + _MORE_ZEROS, draws=_SAMPLED_DRAWS)
        zeros_MN, reach = search.cells_above(search.least_rate(best.log_p_to_beat(top)))
        zeros = _most_surprising(record, zeros_MN, np.zeros(zeros_MN.shape[1], dtype=np.int64), top, threads)
        best = best.and_(zeros.taken(zeros.log_p_N < 0)).best(top)
        searched = "all" if reach <= search.least_rate(best.log_p_to_beat(top)) else "largest only"
    if searched == "largest only":
        words = "the search for surprising zeros stopped early: it may have missed zeros with a probability of about"
        warnings.warn(f"{words} {math.exp(-reach):.3g} or more", stacklevel=3)
    return _table(record.tensor, best, searched)


def comparable(Y: object, fitted: CountTensor) -> Any:
    """Return `Y` after a check that its cells mean the same as those of the fitted tensor."""
    check_has_cells(Y, "Y")
    check_same_tensor(Y, fitted, "Y")
    if not isinstance(Y, CountTensor) and not np.size(Y.counts):  # type: ignore[attr-defined]
        raise InputError("Y has 0 cells, but it must hold at least one")
    return Y


def _table(tensor: CountTensor, cells: Judged, searched: str) -> "pd.DataFrame":
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, labels, places in zip(tensor.mode_names, tensor.labels, cells.coords_MN, strict=True):
        columns[name] = places if isinstance(labels, range) else np.array(labels, dtype=object)[places]
    results = {
        "observed": cells.counts_N,
        "expected": cells.expected_N,
        "direction": np.where(cells.log_more_N < cells.log_fewer_N, "more", "fewer").astype(object),
        "p": np.exp(cells.log_p_N),
        "surprise": np.abs(cells.log_p_N / math.log(10)),
    }
    table = pd.DataFrame(columns | {free_name(name, tensor.mode_names): each for name, each in results.items()})
    table.index.name = free_name("rank", tensor.mode_names)
    table.attrs["zeros_searched"] = searched
    return table


def free_name(name: str, mode_names: tuple[str, ...]) -> str:
    """The name of a column; underscores are added if a mode has that name."""
    while name in mode_names:
        name += "_"
    return name


def _most_surprising(record: Record, coords_MN: Ints, counts_N: Ints, top: int, threads: int) -> Judged:
    """The `top` cells with the smallest p. Only cells that a few draws do not rule out are judged under all draws."""
    few = sampled(record, _SAMPLED_DRAWS)
    bound_N = _judged(few, coords_MN, counts_N, threads).log_p_N + math.log(
        number_of_draws(few) / number_of_draws(record)
    )
    order_N = np.argsort(bound_N, kind="stable")
    first, rest = np.split(order_N, [min(len(order_N), 4 * top)])
    best = _judged(record, coords_MN[:, first], counts_N[first], threads).best(top)
    if len(rest):
        near = np.sort(rest[bound_N[rest] * (1 + _ROUNDING) <= best.log_p_to_beat(top)])
        best = best.and_(_judged(record, coords_MN[:, near], counts_N[near], threads)).best(top)
    return best


def _judged(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> Judged:
    """Expected counts and log tails under all draws of the record."""
    draws, total_N = number_of_draws(record), np.zeros(len(counts_N))
    log_more_N, log_fewer_N = np.full(len(counts_N), -np.inf), np.full(len(counts_N), -np.inf)
    likelihood, rates = record.spec.observation, rates_by_draw(record, coords_MN, threads)
    with Workers(threads) as workers:
        cuts = [slice(*cut) for cut in workers.ranges(len(counts_N), _CELLS_PER_THREAD)]
        for given in watched(rates if len(counts_N) else iter(()), draws, "judging cells"):
            total_N += likelihood.mean(*given)
            sums = (log_more_N, log_fewer_N)
            workers.run([partial(_add_tails, likelihood, cut, counts_N, given, sums) for cut in cuts])
    log_draws = math.log(draws)
    return Judged(coords_MN, counts_N, total_N / draws, log_more_N - log_draws, log_fewer_N - log_draws)


def _add_tails(
    likelihood: Likelihood, cut: slice, counts_N: Ints, given: tuple[Floats, Floats], sums: tuple[Floats, Floats]
) -> None:
    """Add P(Y >= y) and P(Y <= y) under one draw to their sums, all as logs; `given` has its rates and log odds."""
    tails = likelihood.log_tails(counts_N[cut], *(each_N[cut] for each_N in given))
    for log_tail_N, log_sum_N in zip(tails, sums, strict=True):
        np.logaddexp(log_sum_N[cut], log_tail_N, out=log_sum_N[cut])

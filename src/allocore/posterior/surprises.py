"""Surprises: the observed cells whose counts are least expected under the posterior predictive.

A count y is judged by both tails of the predictive, a mixture of Poissons with the rates mu_s of all S draws:

    p = min(1, 2 min(P(Y >= y), P(Y <= y))),    P(.) = 1/S sum_s Poisson(. | mu_s)

Tails are kept as logarithms, so that cells far beyond the smallest float are still ranked. A rate that underflows to 0
is judged as the smallest normal float.

No cell is left out by guesswork, though few are judged under all draws. The terms of the sum are positive, hence n of
the draws alone bound it from below, and p with it: a cell whose bound is above the p of `top` others is out.

Zeros are too many to list. For y = 0 the bound becomes one of rates, by Jensen's inequality:

    p >= 2/S sum_{s of n} exp(-mu_s) >= 2 n/S exp(-mean_{s of n} mu_s)

so a zero whose p is at most p0 has, in the mean of the n draws, a rate of at least log(2/p0) - log(S/n). Such cells are
found by depth first search with bounds. With the rows of modes 1 .. j fixed, no cell has a larger rate than

    sum_q core_q prod_{m <= j} phi[m][d_m, q] prod_{m > j} max_d phi[m][d, q]

over the classes q of the n draws, and where that is too small the branch is left. The cost is that of the branches that
cannot be left, which depends on the data: it is limited, and the table says if the limit was reached.
"""

import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc

from allocore.data.coordinates import column_keys, locate
from allocore.data.missing import Missing
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers
from allocore.posterior.prediction import rates_by_draw
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_T = TypeVar("_T")

# Few enough to be quick, enough that the bounds, which lose log10(S/n) of a surprise, decide for almost all cells.
_SAMPLED_DRAWS = 8
# Numbers in the table of factors of the sampled draws; one draw is taken at least.
_MOST_FACTORS = 4 * 10**7
# Zeros that are kept to be judged, beside four times as many as are asked for; also the nodes between two breaths.
_ROOM = 16_384
# Classes looked at in the whole search for zeros: about half a minute.
_MOST_WORK = 2 * 10**10
_ROUNDING = 1e-9
_CELLS_PER_THREAD = 4096
_SECONDS_OF_PATIENCE = 3.0
# Where the incomplete gamma functions begin to underflow.
_FAR = 1e-290

_DEPTH, _FOUND = range(2)


class Judged(NamedTuple):
    """Cells with their mean rates and the logs of both tails of their counts, averaged over draws."""

    coords_MN: _Ints
    counts_N: _Ints
    expected_N: _Floats
    log_more_N: _Floats
    log_fewer_N: _Floats

    @property
    def log_p_N(self) -> _Floats:
        """The log of the two-sided p."""
        return np.minimum(0.0, math.log(2) + np.minimum(self.log_more_N, self.log_fewer_N))

    def log_p_to_beat(self, top: int) -> float:
        """The log p that another cell must not exceed to be one of the best `top`, these being the best so far."""
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
    record: Record, coords_MN: _Ints, counts_N: _Ints, *, top: int, threads: int, missing: Missing | None = None
) -> "pd.DataFrame":
    """The `top` cells with the smallest two-sided p under all draws, as a table, the most surprising first.

    With `missing`, the cells given are all the non-zeros of a tensor (sorted, mode 0 slowest), and all others that are
    not missing are zeros that may surprise as well; without, the cells given are the ones to judge.
    """
    best, searched = _most_surprising(record, coords_MN, counts_N, top, threads), "given"
    if missing is not None:
        search = _ZeroSearch(record, coords_MN, missing, 4 * top + _ROOM)
        zeros_MN, reach = search.cells_above(search.least_rate(best.log_p_to_beat(top)))
        zeros = _most_surprising(record, zeros_MN, np.zeros(zeros_MN.shape[1], dtype=np.int64), top, threads)
        best = best.and_(zeros.taken(zeros.log_p_N < 0)).best(top)
        searched = "all" if reach <= search.least_rate(best.log_p_to_beat(top)) else "largest only"
    if searched == "largest only":
        words = "the search for surprising zeros was stopped, and not all were looked at that were expected to have"
        warnings.warn(f"{words} fewer than about {reach:.3g} counts", stacklevel=3)
    return _table(record.tensor, best, searched)


def comparable(Y: object, fitted: CountTensor) -> Any:
    """`Y`, once it is sure that its cells mean the same as those of the tensor that was fitted."""
    if not (hasattr(Y, "coords") and hasattr(Y, "counts")):
        hint = ": pass split.test" if hasattr(Y, "test") else ""
        raise InputError(f"Y is a {type(Y).__name__}, but it must have coords and counts{hint}")
    if isinstance(Y, CountTensor):
        if Y.shape != fitted.shape:
            raise InputError(f"Y has shape {Y.shape}, but it must have that of the fitted tensor, {fitted.shape}")
        for name, given, own in zip(fitted.mode_names, Y.labels, fitted.labels, strict=True):
            if not isinstance(given, range) and not isinstance(own, range) and given != own:
                raise InputError(f"Y has other labels in mode {name} than the fitted tensor: they must be the same")
    elif not np.size(Y.counts):
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
    table = pd.DataFrame(columns | {_free_name(name, tensor.mode_names): each for name, each in results.items()})
    table.index.name = _free_name("rank", tensor.mode_names)
    table.attrs["zeros_searched"] = searched
    return table


def _free_name(name: str, mode_names: tuple[str, ...]) -> str:
    """The name of a column: with more underscores if a mode has it."""
    while name in mode_names:
        name += "_"
    return name


def _most_surprising(record: Record, coords_MN: _Ints, counts_N: _Ints, top: int, threads: int) -> Judged:
    """The `top` cells with the smallest p, judged under all draws where a few draws do not rule them out."""
    few = _sampled(record, _SAMPLED_DRAWS)
    bound_N = _judged(few, coords_MN, counts_N, threads).log_p_N + math.log(_draws(few) / _draws(record))
    order_N = np.argsort(bound_N, kind="stable")
    first, rest = np.split(order_N, [min(len(order_N), 4 * top)])
    best = _judged(record, coords_MN[:, first], counts_N[first], threads).best(top)
    if len(rest):
        near = np.sort(rest[bound_N[rest] * (1 + _ROUNDING) <= best.log_p_to_beat(top)])
        best = best.and_(_judged(record, coords_MN[:, near], counts_N[near], threads)).best(top)
    return best


def _draws(record: Record) -> int:
    return record.core_values[..., 0].size


def _sampled(record: Record, most: int) -> Record:
    """The record with at most so many of its draws, spread evenly over chains and draws; nothing is copied."""
    chains, draws = record.core_values.shape[:2]
    chain_step = -(-chains // most)
    draw_step = -(-draws // max(1, most // -(-chains // chain_step)))
    every = slice(None, None, chain_step), slice(None, None, draw_step)
    return replace(
        record,
        core_values=record.core_values[every],
        core_locations=record.core_locations[every],
        factors=tuple(factor[every] for factor in record.factors),
    )


def _judged(record: Record, coords_MN: _Ints, counts_N: _Ints, threads: int) -> Judged:
    """Mean rates and log tails under all draws of the record."""
    total_N = np.zeros(len(counts_N))
    log_more_N, log_fewer_N = np.full(len(counts_N), -np.inf), np.full(len(counts_N), -np.inf)
    rates = rates_by_draw(record, coords_MN, threads) if len(counts_N) else iter(())
    with Workers(threads) as workers:
        cuts = [slice(*cut) for cut in workers.ranges(len(counts_N), _CELLS_PER_THREAD)]
        for rates_N in _watched(rates, _draws(record), "judging cells"):
            total_N += rates_N
            workers.run([partial(_add_tails, cut, counts_N, rates_N, log_more_N, log_fewer_N) for cut in cuts])
    log_draws = math.log(_draws(record))
    return Judged(coords_MN, counts_N, total_N / _draws(record), log_more_N - log_draws, log_fewer_N - log_draws)


def _add_tails(cut: slice, counts_N: _Ints, rates_N: _Floats, log_more_N: _Floats, log_fewer_N: _Floats) -> None:
    """Add P(Y >= y) and P(Y <= y) under one draw to their sums, all as logs."""
    y_N, mu_N = counts_N[cut].astype(float), np.maximum(rates_N[cut], np.finfo(float).tiny)
    for tail_N, more, log_sum_N in (
        (gammainc(y_N, mu_N), True, log_more_N[cut]),
        (gammaincc(y_N + 1, mu_N), False, log_fewer_N[cut]),
    ):
        far = np.flatnonzero(tail_N < _FAR)
        tail_N[far] = 1.0
        log_tail_N = np.log(tail_N)
        log_tail_N[far] = _far_log_tails(y_N[far], mu_N[far], more)
        np.logaddexp(log_sum_N, log_tail_N, out=log_sum_N)


@kernel
def _far_log_tails(y_N: _Floats, mu_N: _Floats, more: bool) -> _Floats:
    """The logs of tails that lie beyond the count as seen from the rate: log pmf(y), and the rest of the tail by it."""
    logs_N = np.empty(y_N.size)
    for n in range(y_N.size):
        y, mu = y_N[n], mu_N[n]
        beyond, term, step = 1.0, 1.0, 0.0
        while term > 1e-17 * beyond:
            step += 1.0
            term *= mu / (y + step) if more else (y - step + 1.0) / mu
            beyond += term
        logs_N[n] = y * math.log(mu) - mu - math.lgamma(y + 1.0) + math.log(beyond)
    return logs_N


class _Tree(NamedTuple):
    """What is searched, mode below mode, and how far the search is."""

    phi_RQ: _Floats
    ids_R: _Ints
    starts_M: _Ints
    lengths_M: _Ints
    modes_M: _Ints
    later_MQ: _Floats  # the products of the largest entries of all later modes
    next_M: _Ints  # the next row at each depth
    weights_MQ: _Floats  # the products of the core and the rows of all earlier modes


class _ZeroSearch:
    """Finds the observed zeros that were expected to have many counts, under a sample of the draws."""

    def __init__(self, record: Record, coords_MN: _Ints, missing: Missing, room: int) -> None:
        numbers = sum(record.tensor.shape) * record.core_values.shape[2]
        few = _sampled(record, max(1, min(_SAMPLED_DRAWS, _MOST_FACTORS // numbers)))
        self._log_left_out = math.log(_draws(record) / _draws(few))
        places = list(np.ndindex(few.core_values.shape[:2]))
        self._core_Q = np.concatenate([few.core_values[place] for place in places]) / len(places)
        self._phis = [
            np.concatenate([factor[place][:, few.core_locations[place][:, mode]] for place in places], axis=1)
            for mode, factor in enumerate(few.factors)
        ]
        self._coords_MN, self._missing, self._room, self._work = coords_MN, missing, room, 0

    def least_rate(self, log_p: float) -> float:
        """The mean rate under the sampled draws that a zero needs for a p as small as this under all draws."""
        rate = math.log(2) - log_p - self._log_left_out
        return max(0.0, rate - _ROUNDING * (1 + abs(rate)))

    def cells_above(self, rate: float) -> tuple[_Ints, float]:
        """The zeros (M, n) with the largest rates, and the rate above which none is left out: `rate` if all went well.

        Searched from the largest rates down, so that what the work allows to be found is found for sure.
        """
        highest = float(self._core_Q @ np.prod([phi_DQ.max(axis=0) for phi_DQ in self._phis], axis=0))
        levels = [level for level in (highest / 2.0 ** np.arange(1, 12)).tolist() if level > rate]
        cells_MN, reach = np.zeros((len(self._phis), 0), dtype=np.int64), math.inf
        for level in [*levels, rate]:
            found_MN, reached = self._search(level)
            if reached is None:
                # What an unfinished search came upon is worth judging, though nothing is known of the rest.
                return np.unique(np.concatenate([cells_MN, found_MN], axis=1), axis=1), reach
            cells_MN, reach = found_MN, reached
            if reached > level:
                break
        return cells_MN, reach

    def _search(self, rate: float) -> tuple[_Ints, float | None]:
        """Zeros whose rate is at least this, and the rate above which none is left out; None if the work ran out."""
        rows, room = self._rows_reaching(rate), self._room
        if min(map(len, rows)) == 0:
            return np.zeros((len(rows), 0), dtype=np.int64), rate
        tree, tally = self._tree(rows), np.zeros(2, dtype=np.int64)
        cells_MH, rates_H = np.empty((len(rows), 2 * room), dtype=np.int64), np.empty(2 * room)
        while tally[_DEPTH] >= 0 and self._work <= _MOST_WORK:
            self._work += _visit(room, rate, tree, cells_MH, rates_H, tally) * len(self._core_Q)
            if tally[_FOUND] > room or tally[_DEPTH] < 0:
                kept = self._zeros_among(cells_MH[:, : tally[_FOUND]])
                if len(kept) > room:
                    kept = kept[np.argsort(-rates_H[kept], kind="stable")]
                    rate, kept = float(rates_H[kept[room]]), kept[:room]
                tally[_FOUND] = len(kept)
                cells_MH[:, : len(kept)], rates_H[: len(kept)] = cells_MH[:, kept], rates_H[kept]
        zeros_MN = cells_MH[:, self._zeros_among(cells_MH[:, : tally[_FOUND]])]
        return zeros_MN, rate if tally[_DEPTH] < 0 else None

    def _zeros_among(self, cells_MN: _Ints) -> _Ints:
        """Which of the cells have no count and are not missing."""
        keys_N, taken_N = column_keys(self._missing.shape, cells_MN, self._coords_MN)
        return np.flatnonzero((locate(keys_N, taken_N) < 0) & ~self._missing.contains(cells_MN))

    def _rows_reaching(self, rate: float) -> list[_Ints]:
        """For each mode the rows in which a cell may have this rate, the most promising first."""
        rows = [np.arange(len(phi_DQ)) for phi_DQ in self._phis]
        while True:
            parts = [phi_DQ[each] for phi_DQ, each in zip(self._phis, rows, strict=True)]
            highs_MQ = np.array([phi_DQ.max(axis=0, initial=0.0) for phi_DQ in parts])
            others_MQ = [self._core_Q * np.delete(highs_MQ, mode, axis=0).prod(axis=0) for mode in range(len(rows))]
            bounds = [(1 + _ROUNDING) * (phi_DQ @ other_Q) for phi_DQ, other_Q in zip(parts, others_MQ, strict=True)]
            kept = [each[bound_D >= rate] for each, bound_D in zip(rows, bounds, strict=True)]
            if sum(map(len, kept)) >= 0.9 * sum(map(len, rows)):
                return [each[np.argsort(-bound_D)] for each, bound_D in zip(rows, bounds, strict=True)]
            rows = kept

    def _tree(self, rows: list[_Ints]) -> _Tree:
        """The tree over these rows, longest mode first, and a search that stands at its root."""
        modes_M = np.argsort([len(each) for each in rows], kind="stable")[::-1].copy()
        parts = [self._phis[mode][rows[mode]] for mode in modes_M]
        lengths_M = np.array([len(phi_DQ) for phi_DQ in parts])
        later_MQ = np.ones((len(rows), len(self._core_Q)))
        for depth in range(len(rows) - 1, 0, -1):
            later_MQ[depth - 1] = later_MQ[depth] * parts[depth].max(axis=0)
        return _Tree(
            phi_RQ=np.concatenate(parts),
            ids_R=np.concatenate([rows[mode] for mode in modes_M]),
            starts_M=np.cumsum(lengths_M) - lengths_M,
            lengths_M=lengths_M,
            modes_M=modes_M,
            later_MQ=later_MQ,
            next_M=np.zeros(len(rows), dtype=np.int64),
            weights_MQ=np.tile(self._core_Q, (len(rows) + 1, 1)),
        )


@kernel
def _visit(nodes: int, rate: float, tree: _Tree, cells_MH: _Ints, rates_H: _Floats, tally: _Ints) -> int:
    """Go on for so many nodes, or to the end, where the depth is -1; add cells of this rate. Returns nodes visited."""
    depth, found = tally[0], tally[1]
    final, done = tree.lengths_M.size - 1, 0
    while done < nodes and depth >= 0:
        if tree.next_M[depth] == tree.lengths_M[depth]:
            depth -= 1
            continue
        row = tree.starts_M[depth] + tree.next_M[depth]
        tree.next_M[depth] += 1
        done += 1
        bound = 0.0
        for q in range(tree.phi_RQ.shape[1]):
            weight = tree.weights_MQ[depth, q] * tree.phi_RQ[row, q]
            tree.weights_MQ[depth + 1, q] = weight
            bound += weight * tree.later_MQ[depth, q]
        if bound * (1.0 + 1e-9) < rate:
            continue
        if depth < final:
            depth += 1
            tree.next_M[depth] = 0
            continue
        for m in range(final + 1):
            cells_MH[tree.modes_M[m], found] = tree.ids_R[tree.starts_M[m] + tree.next_M[m] - 1]
        rates_H[found] = bound
        found += 1
    tally[0], tally[1] = depth, found
    return done


def _watched(steps: Iterator[_T], total: int, words: str) -> Iterator[_T]:
    """Pass the steps on; on a terminal a bar appears once they have taken a few seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield from steps
        return
    from rich.console import Console
    from rich.progress import Progress

    start, bar = monotonic(), Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(words, total=total)
    try:
        for done, step in enumerate(steps):
            if monotonic() - start > _SECONDS_OF_PATIENCE:
                bar.start()
            bar.update(task, completed=done)
            yield step
    finally:
        bar.stop()

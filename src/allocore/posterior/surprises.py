"""Surprises: the observed cells whose counts are least expected under the posterior predictive.

A count y is judged by both tails of the predictive, the likelihood averaged over the values theta_s of all S draws:

    p = min(1, 2 min(P(Y >= y), P(Y <= y))),    P(.) = 1/S sum_s P(. | theta_s)

Tails are logarithms, so cells are ranked even if their p is below the smallest float. All terms are positive, so n
draws give a lower bound on p. A cell whose bound exceeds the p of `top` others is not judged under more draws.

There are too many zeros to list them all. A zero has the probability exp(-mu) with mu = c r, the latent rate, whatever
the likelihood (model/likelihood.py). So the bound on p becomes one on latent rates, by Jensen's inequality:

    p >= 2/S sum_{s of n} exp(-mu_s) >= 2 n/S exp(-mean_{s of n} mu_s)

so a zero whose p is at most p0 has a mean mu over the n draws of at least log(2/p0) - log(S/n). A depth-first search
with bounds finds these cells. c multiplies the core, or the rows of the mode that has a dispersion for each row. Then
with the rows of modes 1 .. j fixed, no cell has a larger mu than

    sum_q core_q prod_{m <= j} phi[m][d_m, q] prod_{m > j} max_d phi[m][d, q]

over the classes q of the n draws. A branch whose bound is too small is skipped. The work is limited, and the table says
if the limit was reached.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore.errors import Described, InputError
from allocore.findings import Finding, warn
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import expand_factors, row_offsets
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers
from allocore.posterior.cells import boxes_of_cells, check_has_cells, check_same_tensor
from allocore.posterior.predict import add_logs, number_of_draws, rates_by_draw, sampled
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import free_name, with_results
from allocore.tensor.missing import Missing
from allocore.tensor.undirected import exchanged

_MOST_FACTORS = 4 * 10**7  # numbers in the table of factors of the sampled draws; at least one draw is sampled
_MOST_WORK = 2 * 10**10  # of a whole search, in nodes times classes: about half a minute
_SAMPLED_DRAWS = 8  # enough for the bounds, which are off by up to log10(S/n), to decide most cells
_MORE_DRAWS = 4  # times as many decide the others
_MORE_ZEROS = 16_384  # how many zeros to judge, besides four for each of the `top` cells
_ROUNDING = 1e-9
_CELLS_PER_THREAD = 4096
_DEPTH, _FOUND = range(2)


class _SearchTree(NamedTuple):
    """The tree that is searched, one mode per level, and how far the search has come."""

    phi_RQ: Floats
    ids_R: Ints
    starts_M: Ints
    lengths_M: Ints
    modes_M: Ints
    later_MQ: Floats  # the products of the largest entries of all later modes
    next_M: Ints  # the next row at each depth
    weights_MQ: Floats  # the products of the core and the rows of all earlier modes


class ZeroSearch:
    """Finds at most `room` observed zeros, those with the largest latent rates c r under a sample of `draws` draws."""

    def __init__(self, record: Record, coords_MN: Ints, missing: Missing, *, room: int, draws: int) -> None:
        numbers = sum(record.tensor.shape) * record.core_values.shape[2]
        few = sampled(record, max(1, min(draws, _MOST_FACTORS // numbers)))
        self._log_left_out = math.log(number_of_draws(record) / number_of_draws(few))
        places = list(np.ndindex(few.core_values.shape[:2]))
        phi_RQ, core_Q = _rates_of_draws(few, places)
        self._core_Q = core_Q / len(places)
        self._phis = np.split(phi_RQ, row_offsets(record.tensor.shape)[1:-1])
        self._coords_MN, self._missing, self._room, self._work = coords_MN, missing, room, 0
        self._pair = record.tensor.undirected_modes

    def least_rate(self, log_p: float) -> float:
        """Return the mean rate under the sampled draws that a zero needs for its p under all draws to be this small."""
        rate = math.log(2) - log_p - self._log_left_out
        return max(0.0, rate - _ROUNDING * (1 + abs(rate)))

    def cells_above(self, rate: float) -> tuple[Ints, float]:
        """Return the zeros (M, n) with the largest rates, and the rate above which all were found: at best `rate`."""
        # From the largest rates down, so that everything above a rate is found even if the work limit ends the search.
        highest = float(self._core_Q @ np.prod([phi_DQ.max(axis=0) for phi_DQ in self._phis], axis=0))
        levels = [level for level in (highest / 2.0 ** np.arange(1, 12)).tolist() if level > rate]
        cells_MN, reach = np.zeros((len(self._phis), 0), dtype=np.int64), math.inf
        for level in [*levels, rate]:
            found_MN, reached = self._search(level)
            if reached is None:
                # Cells found by an unfinished search are still judged, but the search may have missed others.
                return np.unique(np.concatenate([cells_MN, found_MN], axis=1), axis=1), reach
            cells_MN, reach = found_MN, reached
            if reached > level:
                break
        return cells_MN, reach

    def _search(self, rate: float) -> tuple[Ints, float | None]:
        """Zeros with at least this rate, and the rate above which all were found; None if the search was cut off."""
        rows, room = self._rows_reaching(rate), self._room
        if min(map(len, rows)) == 0:
            return np.zeros((len(rows), 0), dtype=np.int64), rate
        tree, tally = self._tree(rows), np.zeros(2, dtype=np.int64)
        cells_MH, rates_H = np.empty((len(rows), 2 * room), dtype=np.int64), np.empty(2 * room)
        while tally[_DEPTH] >= 0 and self._work <= _MOST_WORK:
            self._work += _visit(room, rate, tree, cells_MH, rates_H, tally) * len(self._core_Q)
            if tally[_FOUND] > room or tally[_DEPTH] < 0:
                zeros = self._zeros_among(cells_MH[:, : tally[_FOUND]])
                if len(zeros) > room:
                    zeros = zeros[np.argsort(-rates_H[zeros], kind="stable")]
                    rate, zeros = float(rates_H[zeros[room]]), zeros[:room]
                tally[_FOUND] = len(zeros)
                cells_MH[:, : len(zeros)], rates_H[: len(zeros)] = cells_MH[:, zeros], rates_H[zeros]
        zeros_MN = cells_MH[:, self._zeros_among(cells_MH[:, : tally[_FOUND]])]
        return zeros_MN, rate if tally[_DEPTH] < 0 else None

    def _zeros_among(self, cells_MN: Ints) -> Ints:
        """Which of the cells have no count and are not missing; of undirected ties, one direction."""
        keys_N, taken_N = column_keys(self._missing.shape, cells_MN, self._coords_MN)
        zero_N = (locate(keys_N, taken_N) < 0) & ~self._missing.contains(cells_MN)
        if self._pair is not None:
            zero_N &= cells_MN[self._pair[0]] < cells_MN[self._pair[1]]
        return np.flatnonzero(zero_N)

    def _rows_reaching(self, rate: float) -> list[Ints]:
        """For each mode, the rows in which a cell may have this rate, largest bound first."""
        parts, rows = self._phis, [np.arange(len(phi_DQ)) for phi_DQ in self._phis]
        while True:
            highs_MQ = np.array([phi_DQ.max(axis=0, initial=0.0) for phi_DQ in parts])
            others_MQ = [self._core_Q * np.delete(highs_MQ, mode, axis=0).prod(axis=0) for mode in range(len(rows))]
            bounds = [(1 + _ROUNDING) * (phi_DQ @ other_Q) for phi_DQ, other_Q in zip(parts, others_MQ, strict=True)]
            reaching = [each[bound_D >= rate] for each, bound_D in zip(rows, bounds, strict=True)]
            if sum(map(len, reaching)) >= 0.9 * sum(map(len, rows)):
                return [each[np.argsort(-bound_D)] for each, bound_D in zip(rows, bounds, strict=True)]
            rows = reaching
            parts = [phi_DQ[each] for phi_DQ, each in zip(self._phis, rows, strict=True)]

    def _tree(self, rows: list[Ints]) -> _SearchTree:
        """The tree over these rows, longest mode first, with the search at its root."""
        modes_M = np.argsort([len(each) for each in rows], kind="stable")[::-1].copy()
        parts = [self._phis[mode][rows[mode]] for mode in modes_M]
        lengths_M = np.array([len(phi_DQ) for phi_DQ in parts])
        later_MQ = np.ones((len(rows), len(self._core_Q)))
        for depth in range(len(rows) - 1, 0, -1):
            later_MQ[depth - 1] = later_MQ[depth] * parts[depth].max(axis=0)
        return _SearchTree(
            phi_RQ=np.concatenate(parts),
            ids_R=np.concatenate([rows[mode] for mode in modes_M]),
            starts_M=np.cumsum(lengths_M) - lengths_M,
            lengths_M=lengths_M,
            modes_M=modes_M,
            later_MQ=later_MQ,
            next_M=np.zeros(len(rows), dtype=np.int64),
            weights_MQ=np.tile(self._core_Q, (len(rows) + 1, 1)),
        )


def _rates_of_draws(record: Record, places: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """The expanded factors and the core values of several draws side by side."""
    phi_RQ, cores = np.empty((0, 0)), list[Floats]()
    for turn, (chain, draw) in enumerate(places):
        own_RQ, core_Q = _latent_rates(record, chain, draw)
        if not turn:
            phi_RQ = np.empty((len(own_RQ), len(places) * len(core_Q)))
        phi_RQ[:, turn * len(core_Q) : (turn + 1) * len(core_Q)] = own_RQ
        cores.append(core_Q)
    return phi_RQ, np.concatenate(cores)


def _latent_rates(record: Record, chain: int, draw: int) -> tuple[Floats, Floats]:
    """The expanded factors and the core values of one draw, multiplied by c where it belongs.

    Undirected ties add the mirror image of every class: the class in the other direction (gibbs/undirected.py).
    """
    factors, core_Q = [each[chain, draw] for each in record.factors], record.core_values[chain, draw]
    mode = record.spec.dispersion_by
    if record.log_odds is not None:
        scale = record.spec.observation.latent_scale(np.asarray(record.log_odds[chain, draw]))
        if mode is None:
            core_Q = core_Q * scale
        else:
            factors[mode] = factors[mode] * scale[:, None]
    phi_RQ, pair = expand_factors(factors, record.core_locations[chain, draw]), record.tensor.undirected_modes
    if pair is None:
        return phi_RQ, core_Q
    phis = exchanged(np.split(phi_RQ, row_offsets(record.tensor.shape)[1:-1]), pair)
    return np.concatenate([phi_RQ, np.concatenate(phis)], axis=1), np.tile(core_Q, 2)


@kernel
def _visit(nodes: int, rate: float, tree: _SearchTree, cells_MH: Ints, rates_H: Floats, tally: Ints) -> int:
    """Visit at most `nodes` nodes, return how many, and add cells with at least this rate; depth -1 ends the search."""
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


class _JudgedCells(NamedTuple):
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
        """Return the log p that another cell must not exceed to be among the `top`, if these are the best so far."""
        return float(self.log_p_N[-1]) if len(self.counts_N) == top else 0.0

    def taken(self, places: NDArray[Any]) -> "_JudgedCells":
        """Return some of the cells."""
        return _JudgedCells(self.coords_MN[:, places], *(values_N[places] for values_N in self[1:]))

    def and_(self, others: "_JudgedCells") -> "_JudgedCells":
        """Return these cells and others."""
        return _JudgedCells(*(np.concatenate(both, axis=-1) for both in zip(self, others, strict=True)))

    def best(self, top: int) -> "_JudgedCells":
        """Return the cells with the smallest p, in that order; ties in the order of their coordinates."""
        return self.taken(np.lexsort([*self.coords_MN[::-1], self.log_p_N])[:top])


def surprises(
    record: Record, coords_MN: Ints, counts_N: Ints, *, top: int, threads: int, missing: Missing | None = None
) -> pd.DataFrame:
    """Return the `top` cells with the smallest two-sided p under all draws, as a table, the most surprising first.

    With `missing`, the cells given are all non-zeros of a tensor (sorted, mode 0 slowest), and zeros are judged too.
    """
    best, searched = _most_surprising(record, coords_MN, counts_N, top, threads), "given"
    if missing is not None:
        search = ZeroSearch(record, coords_MN, missing, room=4 * top + _MORE_ZEROS, draws=_SAMPLED_DRAWS)
        zeros_MN, reach = search.cells_above(search.least_rate(best.log_p_to_beat(top)))
        zeros = _most_surprising(record, zeros_MN, np.zeros(zeros_MN.shape[1], dtype=np.int64), top, threads)
        best, searched = best.and_(zeros.taken(zeros.log_p_N < 0)).best(top), "all"
        if reach > search.least_rate(best.log_p_to_beat(top)):
            searched = "largest only"
            warn(Finding("zeros-not-all-searched", "caution", {"probability": math.exp(-reach)}), stacklevel=3)
    return _table(record.tensor, best, searched)


def alarm(found: pd.DataFrame, tensor: CountTensor, threshold: float, top: int) -> tuple[pd.DataFrame, Finding]:
    """Return the cells of a table of surprises with a p of at most the threshold, and how many there are by chance.

    Counts are discrete, so fewer cells than the threshold times their number have such a p by chance. If `top` cells,
    the most that the table could have, are below it, there may be more.
    """
    p = found.iloc[:, -2]
    chosen = found[p <= threshold]
    cells = tensor.observed
    values = {"cells": len(chosen), "threshold": threshold, "more": len(chosen) == top}
    values |= {"observed": cells, "by_chance": threshold * cells}
    return chosen, Finding("surprising-cells", "caution" if len(chosen) else "good", values)


def comparable(Y: object, fitted: CountTensor) -> Any:
    """Return `Y` after a check that its cells mean the same as those of the fitted tensor."""
    check_has_cells(Y, "Y")
    check_same_tensor(Y, fitted, "Y")
    if not isinstance(Y, CountTensor) and not np.size(Y.counts):  # type: ignore[attr-defined]
        raise InputError("Y", Described("a set of 0 cells"), "must have at least one cell")
    return Y


def _table(tensor: CountTensor, cells: _JudgedCells, searched: str) -> pd.DataFrame:
    results = {
        "observed": cells.counts_N,
        "expected": cells.expected_N,
        "direction": np.where(cells.log_more_N < cells.log_fewer_N, "more", "fewer").astype(object),
        "p": np.exp(cells.log_p_N),
        "surprise": np.abs(cells.log_p_N / math.log(10)),
    }
    _, labels = boxes_of_cells(cells.coords_MN, tensor)
    table = with_results(labels, results)
    table.index.name = free_name("rank", tensor.mode_names)
    table.attrs["zeros_searched"] = searched
    return table


def _most_surprising(record: Record, coords_MN: Ints, counts_N: Ints, top: int, threads: int) -> _JudgedCells:
    """The `top` cells with the smallest p. Only cells that some draws do not rule out are judged under all draws."""

    def bounds(cells: Ints, draws: int) -> Floats:
        some = sampled(record, draws)
        share = number_of_draws(some) / number_of_draws(record)
        return _judged(some, coords_MN[:, cells], counts_N[cells], threads).log_p_N + math.log(share)

    bound_N, draws = bounds(np.arange(len(counts_N)), _SAMPLED_DRAWS), _SAMPLED_DRAWS
    order_N = np.argsort(bound_N, kind="stable")
    first, near = np.split(order_N, [min(len(order_N), 4 * top)])
    best = _judged(record, coords_MN[:, first], counts_N[first], threads).best(top)
    bound_N = bound_N[near]
    while len(near := np.sort(near[bound_N * (1 + _ROUNDING) <= best.log_p_to_beat(top)])):
        draws *= _MORE_DRAWS
        if draws * 2 > number_of_draws(record):
            return best.and_(_judged(record, coords_MN[:, near], counts_N[near], threads)).best(top)
        bound_N = bounds(near, draws)
    return best


def _judged(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> _JudgedCells:
    """Expected counts and log tails, P(Y >= y) and P(Y <= y), under all draws of the record."""
    draws, total_N = number_of_draws(record), np.zeros(len(counts_N))
    log_tails = np.full(len(counts_N), -np.inf), np.full(len(counts_N), -np.inf)
    likelihood, rates = record.spec.observation, rates_by_draw(record, coords_MN, threads)
    with Workers(threads) as workers:
        for given in watched(rates if len(counts_N) else iter(()), draws, "judging cells"):
            total_N += likelihood.mean(*given)
            add_logs(likelihood.log_tails, (counts_N, *given), log_tails, workers, _CELLS_PER_THREAD)
    log_more_N, log_fewer_N = (log_tail_N - math.log(draws) for log_tail_N in log_tails)
    return _JudgedCells(coords_MN, counts_N, total_N / draws, log_more_N, log_fewer_N)

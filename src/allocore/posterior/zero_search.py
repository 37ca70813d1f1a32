"""The observed zeros that were expected to have many counts, found without listing all zeros.

A zero has the probability exp(-mu) with mu = c r, the latent rate, whatever the likelihood (model/likelihood.py). So
the bound of surprises.py becomes one of latent rates, by Jensen's inequality:

    p >= 2/S sum_{s of n} exp(-mu_s) >= 2 n/S exp(-mean_{s of n} mu_s)

so a zero whose p is at most p0 has a mean mu over the n draws of at least log(2/p0) - log(S/n). A depth-first search
with bounds finds these cells. c multiplies the core, or the rows of the mode that has a dispersion for each row. Then
with the rows of modes 1 .. j fixed, no cell has a larger mu than

    sum_q core_q prod_{m <= j} phi[m][d_m, q] prod_{m > j} max_d phi[m][d, q]

over the classes q of the n draws. A branch whose bound is too small is skipped. The cost depends on how many branches
must be searched. It is limited, and the table says if the limit was reached.
"""

import math
from typing import NamedTuple

import numpy as np

from allocore.data.coordinates import column_keys, locate
from allocore.data.missing import Missing
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.expansion import expand_factors, row_offsets
from allocore.kernels.jit import kernel
from allocore.posterior.prediction import number_of_draws, sampled
from allocore.run.record import Record

# The most numbers in the table of factors of the sampled draws; at least one draw is sampled.
_MOST_FACTORS = 4 * 10**7
# The most work of a whole search, in nodes times classes: about half a minute.
_MOST_WORK = 2 * 10**10
_ROUNDING = 1e-9

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
    """Finds the observed zeros that were expected to have many counts, under a sample of at most `draws` draws.

    It keeps at most `room` zeros, those with the largest rates. Rates are latent ones here, c r.
    """

    def __init__(self, record: Record, coords_MN: Ints, missing: Missing, *, room: int, draws: int) -> None:
        numbers = sum(record.tensor.shape) * record.core_values.shape[2]
        few = sampled(record, max(1, min(draws, _MOST_FACTORS // numbers)))
        self._log_left_out = math.log(number_of_draws(record) / number_of_draws(few))
        places = list(np.ndindex(few.core_values.shape[:2]))
        draws_RQ, draws_Q = zip(*(_latent_rates(few, *place) for place in places), strict=True)
        self._core_Q = np.concatenate(draws_Q) / len(places)
        self._phis = np.split(np.concatenate(draws_RQ, axis=1), row_offsets(record.tensor.shape)[1:-1])
        self._coords_MN, self._missing, self._room, self._work = coords_MN, missing, room, 0

    def least_rate(self, log_p: float) -> float:
        """The mean rate under the sampled draws that a zero needs for its p under all draws to be this small."""
        rate = math.log(2) - log_p - self._log_left_out
        return max(0.0, rate - _ROUNDING * (1 + abs(rate)))

    def cells_above(self, rate: float) -> tuple[Ints, float]:
        """The zeros (M, n) with the largest rates, and a rate: all zeros above it were found. At best it is `rate`.

        The search goes from the largest rates down, so everything above the returned rate is found even if the work
        limit ends it.
        """
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
                kept = self._zeros_among(cells_MH[:, : tally[_FOUND]])
                if len(kept) > room:
                    kept = kept[np.argsort(-rates_H[kept], kind="stable")]
                    rate, kept = float(rates_H[kept[room]]), kept[:room]
                tally[_FOUND] = len(kept)
                cells_MH[:, : len(kept)], rates_H[: len(kept)] = cells_MH[:, kept], rates_H[kept]
        zeros_MN = cells_MH[:, self._zeros_among(cells_MH[:, : tally[_FOUND]])]
        return zeros_MN, rate if tally[_DEPTH] < 0 else None

    def _zeros_among(self, cells_MN: Ints) -> Ints:
        """Which of the cells have no count and are not missing."""
        keys_N, taken_N = column_keys(self._missing.shape, cells_MN, self._coords_MN)
        return np.flatnonzero((locate(keys_N, taken_N) < 0) & ~self._missing.contains(cells_MN))

    def _rows_reaching(self, rate: float) -> list[Ints]:
        """For each mode, the rows in which a cell may have this rate, largest bound first."""
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


def _latent_rates(record: Record, chain: int, draw: int) -> tuple[Floats, Floats]:
    """The expanded factors and the core values of one draw, multiplied by c where it belongs."""
    factors, core_Q = [each[chain, draw] for each in record.factors], record.core_values[chain, draw]
    mode = record.spec.dispersion_by
    if record.log_odds is not None:
        scale = record.spec.observation.latent_scale(np.asarray(record.log_odds[chain, draw]))
        if mode is None:
            core_Q = core_Q * scale
        else:
            factors[mode] = factors[mode] * scale[:, None]
    return expand_factors(factors, record.core_locations[chain, draw]), core_Q


@kernel
def _visit(nodes: int, rate: float, tree: _SearchTree, cells_MH: Ints, rates_H: Floats, tally: Ints) -> int:
    """Visit at most `nodes` nodes; a depth of -1 means the search is complete.

    Adds the cells found with at least this rate. Returns the number of nodes visited.
    """
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

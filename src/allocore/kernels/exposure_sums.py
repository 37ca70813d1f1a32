"""Sums over the observed cells, for each class: the product of the column sums minus the missing cells,

    sum over observed cells of prod_m phi[m][d_m, q]  =  prod_m colsum[m][q]  -  sum_p weight_p prod_m (phi or colsum),

and the rates of single cells, sum_q lambda_q prod_m phi[m][d_m, k[q, m]].

The missing cells are patterns: a coordinate or a wildcard per mode. A wildcard contributes the column sum of its mode,
so a pattern costs Q multiplications for each mode it names, however many cells it holds. Overlapping patterns have
signed weights, so that every cell counts once. Patterns with the same wildcards share the product of their column sums.

Cells may be scaled by a number c for each row of one mode. Then the column sums of this mode are those of c phi, and a
pattern that names a row of it has its weight multiplied by the c of the row.

Patterns are sorted by the rows of each mode once, with their rows and weights: what a sum reads, it reads in order.

Factors are expanded to the classes, E[d, q] = phi[m][d, k[q, m]], with all modes stacked in `phi_RQ`, so that kernels
read consecutive numbers. Cost: rows * Q numbers.

Cells are sorted into fibres, which agree in all modes but the last, or in as many leading modes as possible. A product
over these is computed once for all cells that share it; `changed_N` says from which mode on it changes. Cost of rates:
cells * Q multiplications if fibres are long, at most M times that. The sum over q has one fixed order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.elementary import Flags, Floats, Indices, Ints, Singles, lane_exp
from allocore.kernels.jit import inlined, kernel, part
from allocore.kernels.simd import columns_at_once, dot_of_rows, sum_products
from allocore.kernels.workers import Workers
from allocore.tensor.coordinates import cell_ranges
from allocore.tensor.missing import Missing, signed_patterns

ROWS_PER_THREAD = 64


def row_offsets(shape: Sequence[int]) -> Ints:
    """Where the rows of each mode begin in a table over all rows; the last entry is the number of rows."""
    return np.concatenate([[0], np.cumsum(shape)]).astype(np.int64)


def expand_factors(factors: Sequence[Floats], subs_QM: Ints) -> Floats:
    """Expand the factors (D, K) of all modes to `phi_RQ`, for classes at the locations `subs_QM`."""
    rows = np.empty((sum(map(len, factors)), len(subs_QM)))
    offsets_M = row_offsets([len(phi_DK) for phi_DK in factors])
    for mode, phi_DK in enumerate(factors):
        np.take(phi_DK, subs_QM[:, mode], axis=1, out=rows[offsets_M[mode] : offsets_M[mode + 1]])
    return rows


def expand_logs(workers: Workers, log_phi_DK: Floats, subs_Q: Ints, phi_DQ: Floats) -> None:
    """Expand the factors of one mode, given as logarithms, into `phi_DQ`, for classes at `subs_Q`."""
    used_K = np.bincount(subs_Q, minlength=log_phi_DK.shape[1]) > 0
    used_U, place_Q = np.flatnonzero(used_K), (np.cumsum(used_K) - 1)[subs_Q]
    cuts = workers.ranges(len(phi_DQ), ROWS_PER_THREAD)
    workers.run([partial(_expand_logs, *cut, log_phi_DK, used_U, place_Q, phi_DQ) for cut in cuts])


@kernel
def _expand_logs(first: int, last: int, log_phi_DK: Floats, used_U: Ints, place_Q: Ints, phi_DQ: Floats) -> None:
    phi_U = np.empty(used_U.size)
    for d in range(first, last):
        for u in range(used_U.size):
            phi_U[u] = lane_exp(log_phi_DK[d, used_U[u]])
        for q in range(place_Q.size):
            phi_DQ[d, q] = phi_U[place_Q[q]]


@kernel
def scale_rows(
    first: int, last: int, phi_DQ: Floats, weights_Q: Floats, scaled_DL: Singles, log_scale_D: Floats
) -> None:
    """Fill rows `first` to `last` of `scaled_DL`: each row times the weights, divided by its largest number.

    `log_scale_D` gets the logarithms of the largest numbers. The padding of the scaled rows is not touched.
    """
    for d in range(first, last):
        top = 0.0
        for q in range(weights_Q.size):
            top = max(top, phi_DQ[d, q] * weights_Q[q])
        # A row that underflows as a whole stays zero: its cells have no weight here and are thinned in logarithms.
        top = top if top > 1e-290 else 1.0
        log_scale_D[d] = np.log(top)
        for q in range(weights_Q.size):
            scaled_DL[d, q] = phi_DQ[d, q] * weights_Q[q] / top


_CELLS_PER_THREAD = 4096


def rates_of_cells(
    core_Q: Floats, subs_QM: Ints, factors: Sequence[Floats], coords_MN: Ints, workers: Workers
) -> Floats:
    """The rate of each cell in `coords_MN`, given core values, locations and the factors (D, K) of all modes."""
    rows_MN = rows_of_cells([len(phi_DK) for phi_DK in factors], coords_MN)
    return rates_at_rows(core_Q, subs_QM, factors, rows_MN, workers)


def rows_of_cells(shape: Sequence[int], coords_MN: Ints) -> Ints:
    """The rows of cells in a table over all rows of all modes: what many draws have in common."""
    return np.ascontiguousarray(coords_MN + row_offsets(shape)[:-1, None])


def rates_at_rows(core_Q: Floats, subs_QM: Ints, factors: Sequence[Floats], rows_MN: Ints, workers: Workers) -> Floats:
    """The rates of cells that are given by their rows."""
    # A draw is read-only, and numba would compile another kernel for that, so it is copied.
    return rates_in_table(core_Q.copy(), expand_factors(factors, subs_QM), rows_MN, workers)


def rates_in_table(core_Q: Floats, phi_RQ: Floats, rows_MN: Ints, workers: Workers) -> Floats:
    """The rates of cells that are given by their rows in a table of expanded factors."""
    rates_N = np.empty(rows_MN.shape[1])
    cuts = workers.ranges(rates_N.size, _CELLS_PER_THREAD)
    workers.run([partial(fill_rates, *cut, rows_MN, phi_RQ, core_Q, rates_N) for cut in cuts])
    return rates_N


@kernel
def fill_rates(first: int, last: int, rows_MN: Ints, phi_RQ: Floats, core_Q: Floats, rates_N: Floats) -> None:
    """Fill the rates of cells `first` to `last`, which are given by their rows in a table of expanded factors."""
    final, width = rows_MN.shape[0] - 1, core_Q.size
    # Row m: the core times the factors of the modes before m.
    products_MQ = np.empty((final + 1, width))
    for q in range(width):
        products_MQ[0, q] = core_Q[q]
    for n in range(first, last):
        m = 0
        while n > first and m < final and rows_MN[m, n] == rows_MN[m, n - 1]:
            m += 1
        while m < final:
            row = rows_MN[m, n]
            for q in range(width):
                products_MQ[m + 1, q] = products_MQ[m, q] * phi_RQ[row, q]
            m += 1
        rates_N[n] = dot_of_rows(products_MQ, final, phi_RQ, rows_MN[final, n])


def narrow_type(lengths: Sequence[int]) -> type[np.integer[Any]]:
    """The narrowest type for the coordinates of modes with these lengths."""
    longest = max(lengths)
    return np.uint16 if longest <= 2**16 else np.int32 if longest < 2**31 else np.int64


def sorted_coords(
    coords: NDArray[Any], order: Sequence[int], lengths: Sequence[int], *, sorted_already: bool
) -> tuple[NDArray[Any], Ints | slice]:
    """Cells sorted by the modes in `order`, in the narrowest type, and the permutation (a slice if sorted already)."""
    coords_MN = np.array(coords[list(order)], dtype=narrow_type(lengths), order="C")
    if sorted_already and tuple(order) == tuple(range(len(lengths))):
        return coords_MN, slice(None)
    place_N = np.lexsort(coords_MN[::-1])
    for m in range(len(order)):
        coords_MN[m] = coords_MN[m, place_N]
    return coords_MN, place_N


def changed_modes(coords_MN: NDArray[Any]) -> NDArray[np.int8]:
    """The first mode in which each sorted cell differs from the one before; for the first cell, the last mode."""
    modes, cells = coords_MN.shape
    changed_N = np.full(cells, modes - 1, dtype=np.int8)
    for here in cell_ranges(cells):
        for m in range(modes - 2, -1, -1):
            column = coords_MN[m, max(here.start - 1, 0) : here.stop]
            changed_N[here.stop - len(column) + 1 : here.stop][column[1:] != column[:-1]] = m
    return changed_N


_WORTH_A_THREAD = 500_000  # multiplications; with fewer, a thread costs more than it saves
_CHUNK = 1024  # patterns that are summed together, so that the sum does not depend on the threads
_NO_MODE = -1


class Expanded(NamedTuple):
    """The expanded factors `phi_RQ` (see above), and their sums over the rows of each mode."""

    phi_RQ: Floats
    sums_MQ: Floats


class RowScale(NamedTuple):
    """A number c for each row of one mode; `sums_MQ` then has the sums of c phi."""

    mode: int
    scale_D: Floats


def scaled_sums(phi_DQ: Floats, mode: int, scale: RowScale | None) -> Floats:
    """The sums over the rows of a mode, of c phi if the scale is one of this mode."""
    if scale is None or scale.mode != mode:
        return np.asarray(phi_DQ.sum(axis=0))
    return np.asarray(np.einsum("d...,d->...", phi_DQ, scale.scale_D))


class _Groups(NamedTuple):
    """Patterns by group, and within a group by runs with the same wildcards; `rows_PN` has the rows that they name.

    Group g has the runs runs_G[g] to runs_G[g + 1], and run s the patterns starts_S[s] to starts_S[s + 1].
    """

    runs_G: Ints
    starts_S: Ints
    wildcards_S: Ints
    rows_PN: Indices
    weights_P: Floats


class PairPatterns(NamedTuple):
    """Patterns by the rows that they name in two modes of the same rows: in neither, in one of them alone, or in both.

    Row v of role r (0 or 1) is named alone by alone_P[alone_2V[r, v] : alone_2V[r, v + 1]]; `both_P` is the same, with
    the row of the other role in `partners_P`. Patterns that name the same row in both modes are left out.
    """

    neither_P: Ints
    alone_P: Ints
    alone_2V: Ints
    both_P: Ints
    both_2V: Ints
    partners_P: Ints


@dataclass(frozen=True)
class SignedPatterns:
    """The missing cells of a tensor as weighted patterns (P, M); -1 is the wildcard."""

    shape: tuple[int, ...]
    patterns_PM: Ints
    weights_P: Floats

    @classmethod
    def of(cls, missing: Missing) -> "SignedPatterns":
        """The patterns of the missing cells of a tensor."""
        patterns_PM, weights_P = signed_patterns(missing)
        return cls(missing.shape, np.ascontiguousarray(patterns_PM, dtype=np.int64), weights_P.astype(np.float64))

    @cached_property
    def _wildcards_P(self) -> Ints:
        return np.asarray(((self.patterns_PM < 0) << np.arange(len(self.shape))).sum(axis=1))

    @cached_property
    def _all(self) -> _Groups:
        members_P = np.argsort(self._wildcards_P, kind="stable")
        return self._groups(members_P, _in_chunks(len(members_P)), _NO_MODE)

    @cached_property
    def _by_mode(self) -> list[tuple[_Groups, _Groups]]:
        """For each mode, the patterns grouped by the row they name, and those with a wildcard in this mode."""
        by_mode = []
        for mode, column_P in enumerate(self.patterns_PM.T):
            sorted_P = np.lexsort([self._wildcards_P, column_P])
            everywhere_P, named_P = np.split(sorted_P, [np.searchsorted(column_P[sorted_P], 0)])
            starts_D = np.concatenate([[0], np.cumsum(np.bincount(column_P[named_P], minlength=self.shape[mode]))])
            everywhere = self._groups(everywhere_P, _in_chunks(len(everywhere_P)), mode)
            by_mode.append((self._groups(named_P, starts_D, mode), everywhere))
        return by_mode

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], PairPatterns]:
        return {}

    def of_pair(self, first: int, second: int) -> PairPatterns:
        """The patterns by the rows that they name in two modes of equal length."""
        if (first, second) not in self._pairs:
            self._pairs[first, second] = self._of_pair(self.patterns_PM[:, [first, second]].T, self.shape[first])
        return self._pairs[first, second]

    @staticmethod
    def _of_pair(rows_2P: Ints, length: int) -> PairPatterns:
        def by_row(wanted_2P: Flags) -> tuple[Ints, Ints]:
            members, starts = list[Ints](), np.zeros((2, length + 1), dtype=np.int64)
            for role, (row_P, wanted_P) in enumerate(zip(rows_2P, wanted_2P, strict=True)):
                found = np.flatnonzero(wanted_P)
                members.append(found[np.argsort(row_P[found], kind="stable")])
                starts[role, 1:] = np.cumsum(np.bincount(row_P[found], minlength=length))
            starts[1] += len(members[0])
            return np.concatenate(members), starts

        named_2P = rows_2P >= 0
        alone_P, alone_2V = by_row(named_2P & ~named_2P[::-1])
        both_P, both_2V = by_row(named_2P & named_2P[::-1] & (rows_2P[0] != rows_2P[1]))
        half = len(both_P) // 2
        partners_P = np.concatenate([rows_2P[1, both_P[:half]], rows_2P[0, both_P[half:]]])
        return PairPatterns(np.flatnonzero(~named_2P.any(axis=0)), alone_P, alone_2V, both_P, both_2V, partners_P)

    def _groups(self, members_P: Ints, starts_G: Ints, mode: int) -> _Groups:
        wildcards_P = self._wildcards_P[members_P]
        changes = np.flatnonzero(np.diff(wildcards_P)) + 1
        starts_S = np.unique(np.concatenate([starts_G, changes]))
        rows_PN, named_P = np.zeros((len(members_P), len(self.shape)), dtype=np.uint32), np.zeros(len(members_P), int)
        for m, offset in enumerate(row_offsets(self.shape)[:-1]):
            if m != mode:
                named = np.flatnonzero(self.patterns_PM[members_P, m] >= 0)
                rows_PN[named, named_P[named]] = offset + self.patterns_PM[members_P[named], m]
                named_P[named] += 1
        runs_G, wildcards_S = np.searchsorted(starts_S, starts_G), wildcards_P[starts_S[:-1]]
        return _Groups(runs_G, starts_S, wildcards_S, rows_PN, self.weights_P[members_P])

    def scaled_weights(self, scale: RowScale) -> Floats:
        """The weights of the patterns, each multiplied by the c of the row that it names."""
        column_P = self.patterns_PM[:, scale.mode]
        return self.weights_P * np.where(column_P < 0, 1.0, scale.scale_D[column_P])

    def sums_by_row(self, expanded: Expanded, mode: int, workers: Workers, scale: RowScale | None = None) -> Floats:
        """For each row of a mode, the sum over its observed cells of the product over the other modes: (D, Q)."""
        by_row, everywhere = self._by_mode[mode]
        of_other_mode = scale if scale is not None and scale.mode != mode else None
        observed_Q = np.prod(np.delete(expanded.sums_MQ, mode, axis=0), axis=0)
        if len(everywhere.weights_P):
            nothing_Q = np.zeros_like(observed_Q)
            less_CQ = self._less(nothing_Q, -np.inf, everywhere, of_other_mode, expanded, mode, workers)
            observed_Q += less_CQ.sum(axis=0)
        # If every cell of a row is missing, rounding may leave a difference slightly below zero.
        sums_DQ = self._less(observed_Q, 0.0, by_row, of_other_mode, expanded, mode, workers)
        if scale is not None and of_other_mode is None:
            sums_DQ *= scale.scale_D[:, None]
        return sums_DQ

    def sums(self, expanded: Expanded, workers: Workers, scale: RowScale | None = None) -> Floats:
        """The sum over all observed cells: (Q)."""
        nothing_Q = np.zeros(expanded.phi_RQ.shape[1])
        less_CQ = self._less(nothing_Q, -np.inf, self._all, scale, expanded, _NO_MODE, workers)
        return np.asarray(np.maximum(np.prod(expanded.sums_MQ, axis=0) + less_CQ.sum(axis=0), 0.0))

    def sum_of_one(self, phi: Sequence[Floats], sums: Sequence[float], scale: RowScale | None = None) -> float:
        """The sum over all observed cells for one class: `phi` and `sums` are its columns (D) and their sums."""
        expanded = Expanded(np.concatenate(phi)[:, None], np.array(sums)[:, None])
        return float(self.sums(expanded, Workers(1), scale)[0])

    def observed_cells(self) -> tuple[Ints, Floats]:
        """Weighted cells (M, P) whose sum is that over the observed cells, for a function linear in each row.

        The coordinate of a wildcard is the row after the last one of its mode, where the caller puts the column sums.
        """
        everything_1M = np.full((1, len(self.shape)), -1)
        rows_PM = np.concatenate([everything_1M, self.patterns_PM])
        return np.where(rows_PM < 0, self.shape, rows_PM).T, np.concatenate([[1.0], -self.weights_P])

    def _less(
        self, whole_Q: Floats, least: float, groups: _Groups, scale: RowScale | None, expanded: Expanded, mode: int,
        workers: Workers,
    ) -> Floats:  # fmt: skip
        """`whole_Q` minus the patterns of each group, over all modes but one, and not below `least`: (G, Q)."""
        less_GQ = np.empty((len(groups.runs_G) - 1, len(whole_Q)))
        scaled_mode, scale_D = (_NO_MODE, np.empty(0)) if scale is None else scale
        scale_D, first_row = np.ascontiguousarray(scale_D), row_offsets(self.shape)[scaled_mode]
        work_G = 1.0 + np.diff(groups.starts_S[groups.runs_G])
        workers.run(
            [
                partial(
                    _subtract, *cut, whole_Q, least, mode, groups, scale_D, scaled_mode, first_row, expanded, less_GQ
                )
                for cut in workers.ranges_of_equal_work(work_G, _WORTH_A_THREAD / len(whole_Q))
            ]
        )
        return less_GQ


def _in_chunks(patterns: int) -> Ints:
    """Where chunks of patterns begin; the last entry is the number of patterns."""
    return np.append(np.arange(0, patterns, _CHUNK), patterns)


@kernel
def _subtract(
    first: int, last: int, whole_Q: Floats, least: float, mode: int, groups: _Groups, scale_D: Floats, scaled_mode: int,
    first_row: int, expanded: Expanded, less_GQ: Floats,
) -> None:  # fmt: skip
    """Fill `less_GQ` for groups `first` to `last`, some columns at a time; the last ones may be filled twice.

    A pattern subtracts weight * prod over all modes but `mode` of (the row it names, or the column sum). Patterns of a
    group with the same wildcards are summed first.
    """
    runs_G, starts_S, wildcards_S, rows_PN, _ = groups
    phi_RQ, sums_MQ = expanded
    weights_P = _scaled(first, last, mode, groups, scale_D, scaled_mode, first_row)
    width, modes = columns_at_once(whole_Q.size), sums_MQ.shape[0]
    sum_L = np.empty(width)
    for start in range(0, whole_Q.size, width):
        column = min(start, whole_Q.size - width)
        for group in range(first, last):
            for lane in range(width):
                less_GQ[group, column + lane] = whole_Q[column + lane]
            for run in range(runs_G[group], runs_G[group + 1]):
                wildcards = wildcards_S[run]
                named = _named(mode, wildcards, modes)
                sum_products(phi_RQ, rows_PN, named, weights_P, starts_S[run], starts_S[run + 1], column, sum_L)
                for m in range(modes):
                    if m != mode and (wildcards >> m) & 1:
                        for lane in range(width):
                            sum_L[lane] *= sums_MQ[m, column + lane]
                for lane in range(width):
                    less_GQ[group, column + lane] -= sum_L[lane]
            for lane in range(width):
                less_GQ[group, column + lane] = max(less_GQ[group, column + lane], least)


@part
def _scaled(
    first: int, last: int, mode: int, groups: _Groups, scale_D: Floats, scaled_mode: int, first_row: int
) -> Floats:
    """The weights of the patterns of groups `first` to `last`, times the c of the rows that they name."""
    runs_G, starts_S, wildcards_S, rows_PN, weights_P = groups
    if scaled_mode < 0:
        return weights_P
    scaled_P = np.empty(weights_P.size)
    for run in range(runs_G[first], runs_G[last]):
        place = _named(mode, wildcards_S[run], scaled_mode)
        for i in range(starts_S[run], starts_S[run + 1]):
            scaled_P[i] = weights_P[i]
            if (wildcards_S[run] >> scaled_mode) & 1 == 0:
                scaled_P[i] *= scale_D[rows_PN[i, place] - first_row]
    return scaled_P


@inlined
def _named(mode: int, wildcards: int, modes: int) -> Any:
    """How many of the first `modes` modes, but for one, are named by a pattern."""
    named = np.int64(0)
    for m in range(modes):
        named += np.int64(m != mode and (wildcards >> m) & 1 == 0)
    return named

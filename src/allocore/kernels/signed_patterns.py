"""Sums over the observed cells, for each class: the product of the column sums minus the missing cells.

    sum over observed cells of prod_m phi[m][d_m, q]  =  prod_m colsum[m][q]  -  sum_p weight_p prod_m (phi or colsum)

The missing cells are patterns: a coordinate or a wildcard per mode. A wildcard contributes the column sum of its mode,
so a pattern costs Q multiplications for each mode it names, however many cells it holds. Overlapping patterns have
signed weights, so that every cell counts once. Patterns with the same wildcards share the product of their column sums.

Cells may be scaled by a number c for each row of one mode. Then the column sums of this mode are those of c phi, and a
pattern that names a row of it has its weight multiplied by the c of the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from allocore.data.missing import Missing
from allocore.kernels.arrays import Floats, Indices, Ints
from allocore.kernels.expansion import row_offsets
from allocore.kernels.jit import inlined, kernel
from allocore.kernels.row_products import columns_at_once, sum_products
from allocore.kernels.workers import Workers

_WORTH_A_THREAD = 500_000  # multiplications; with fewer, a thread costs more than it saves
_CHUNK = 1024  # patterns that are summed together, so that the sum does not depend on the threads
_NO_MODE = -1


class Expanded(NamedTuple):
    """The expanded factors `phi_RQ` (expansion.py), and their sums over the rows of each mode."""

    phi_RQ: Floats
    sums_MQ: Floats


class RowScale(NamedTuple):
    """A number c for each row of one mode, and the weights of the patterns with c (`SignedPatterns.scaled`).

    With a scale, `sums_MQ` of the expanded factors must hold the sums of c phi in this mode (`scaled_sums`).
    """

    mode: int
    scale_D: Floats
    weights_P: Floats


def scaled_sums(phi_DQ: Floats, mode: int, scale: RowScale | None) -> Floats:
    """The sums over the rows of a mode, of c phi if the scale is one of this mode."""
    if scale is None or scale.mode != mode:
        return np.asarray(phi_DQ.sum(axis=0))
    return np.asarray(np.einsum("d...,d->...", phi_DQ, scale.scale_D))


class _Patterns(NamedTuple):
    """The patterns as the kernel reads them; `wildcards_P` has a bit for each mode with a wildcard."""

    weights_P: Floats
    wildcards_P: Ints


class _Groups(NamedTuple):
    """Patterns to be summed by group, and within a group by runs of patterns with the same wildcards.

    Group g has the runs runs_G[g] to runs_G[g + 1]; run s has the patterns members_P[starts_S[s] : starts_S[s + 1]].
    `rows_PN` has, for each member, the rows of the table over all modes that it names, but those of one mode.
    """

    members_P: Ints
    starts_S: Ints
    runs_G: Ints
    rows_PN: Indices


class _ModeIndex(NamedTuple):
    """The patterns from the view of one mode: grouped by the row they name, and those with a wildcard in this mode."""

    by_row: _Groups
    everywhere: _Groups


@dataclass(frozen=True)
class SignedPatterns:
    """The missing cells of a tensor as weighted patterns (P, M); -1 is the wildcard."""

    shape: tuple[int, ...]
    patterns_PM: Ints
    weights_P: Floats

    @classmethod
    def of(cls, missing: Missing) -> "SignedPatterns":
        """The patterns of a tensor's missing cells."""
        patterns_PM, weights_P = missing.signed
        return cls(missing.shape, np.ascontiguousarray(patterns_PM, dtype=np.int64), weights_P.astype(np.float64))

    @cached_property
    def _arrays(self) -> _Patterns:
        wildcards_P = np.asarray(((self.patterns_PM < 0) << np.arange(len(self.shape))).sum(axis=1))
        return _Patterns(self.weights_P, wildcards_P)

    @cached_property
    def _all(self) -> _Groups:
        members_P = np.argsort(self._arrays.wildcards_P, kind="stable")
        return self._groups(members_P, _in_chunks(len(members_P)), _NO_MODE)

    @cached_property
    def _indices(self) -> tuple[_ModeIndex, ...]:
        return tuple(self._index(mode) for mode in range(len(self.shape)))

    def _index(self, mode: int) -> _ModeIndex:
        column_P = self.patterns_PM[:, mode]
        sorted_P = np.lexsort([self._arrays.wildcards_P, column_P])
        everywhere_P, named_P = np.split(sorted_P, [np.searchsorted(column_P[sorted_P], 0)])
        starts_D = np.concatenate([[0], np.cumsum(np.bincount(column_P[named_P], minlength=self.shape[mode]))])
        everywhere = self._groups(everywhere_P, _in_chunks(len(everywhere_P)), mode)
        return _ModeIndex(self._groups(named_P, starts_D, mode), everywhere)

    def _groups(self, members_P: Ints, starts_G: Ints, mode: int) -> _Groups:
        """Groups that begin at `starts_G`, whose members are sorted by their wildcards."""
        wildcards_P = self._arrays.wildcards_P[members_P]
        changes = np.flatnonzero(np.diff(wildcards_P)) + 1
        starts_S = np.unique(np.concatenate([starts_G, changes]))
        return _Groups(members_P, starts_S, np.searchsorted(starts_S, starts_G), self._named_rows(members_P, mode))

    def _named_rows(self, members_P: Ints, mode: int) -> Indices:
        """The rows that patterns name in all modes but one, first; what follows is zero."""
        rows_PN, named_P = np.zeros((len(members_P), len(self.shape)), dtype=np.uint32), np.zeros(len(members_P), int)
        for m, offset in enumerate(row_offsets(self.shape)[:-1]):
            if m != mode:
                named = np.flatnonzero(self.patterns_PM[members_P, m] >= 0)
                rows_PN[named, named_P[named]] = offset + self.patterns_PM[members_P[named], m]
                named_P[named] += 1
        return rows_PN

    def scaled(self, mode: int, scale_D: Floats) -> RowScale:
        """The scale c of the rows of one mode, with the weights of the patterns that it changes."""
        column_P = self.patterns_PM[:, mode]
        named_P = np.where(column_P < 0, 1.0, scale_D[column_P])
        return RowScale(mode, scale_D, self.weights_P * named_P)

    def sums_by_row(self, expanded: Expanded, mode: int, workers: Workers, scale: RowScale | None = None) -> Floats:
        """For each row of a mode, the sum over its observed cells of the product over the other modes: (D, Q)."""
        index = self._indices[mode]
        elsewhere = scale if scale is not None and scale.mode != mode else None
        patterns = self._weighted(elsewhere)
        observed_Q = np.prod(np.delete(expanded.sums_MQ, mode, axis=0), axis=0)
        if len(index.everywhere.members_P):
            nothing_Q = np.zeros_like(observed_Q)
            less_CQ = _less(nothing_Q, -np.inf, index.everywhere, patterns, expanded, mode, workers)
            observed_Q += less_CQ.sum(axis=0)
        # If every cell of a row is missing, rounding may leave a difference slightly below zero.
        sums_DQ = _less(observed_Q, 0.0, index.by_row, patterns, expanded, mode, workers)
        if scale is not None and elsewhere is None:
            sums_DQ *= scale.scale_D[:, None]
        return sums_DQ

    def sums(self, expanded: Expanded, workers: Workers, scale: RowScale | None = None) -> Floats:
        """The sum over all observed cells: (Q)."""
        nothing_Q = np.zeros(expanded.phi_RQ.shape[1])
        less_CQ = _less(nothing_Q, -np.inf, self._all, self._weighted(scale), expanded, _NO_MODE, workers)
        return np.asarray(np.maximum(np.prod(expanded.sums_MQ, axis=0) + less_CQ.sum(axis=0), 0.0))

    def sum_of_one(self, phi: Sequence[Floats], sums: Sequence[float], scale: RowScale | None = None) -> float:
        """The sum over all observed cells for one class alone: `phi` and `sums` are its columns (D) and their sums."""
        expanded = Expanded(np.concatenate(phi)[:, None], np.array(sums)[:, None])
        return float(self.sums(expanded, Workers(1), scale)[0])

    def observed_cells(self) -> tuple[Ints, Floats]:
        """Weighted cells (M, P): for a function linear in each row, their sum is the sum over the observed cells.

        The first cell is the whole tensor; the others take out the missing cells. The coordinate of a wildcard is the
        row after the last one of its mode, where the caller puts the column sums.
        """
        everything_1M = np.full((1, len(self.shape)), -1)
        rows_PM = np.concatenate([everything_1M, self.patterns_PM])
        return np.where(rows_PM < 0, self.shape, rows_PM).T, np.concatenate([[1.0], -self.weights_P])

    def _weighted(self, scale: RowScale | None) -> _Patterns:
        return self._arrays if scale is None else self._arrays._replace(weights_P=scale.weights_P)


def _less(
    whole_Q: Floats, least: float, groups: _Groups, patterns: _Patterns, expanded: Expanded, mode: int, workers: Workers
) -> Floats:
    """`whole_Q` minus the patterns of each group, over all modes but one, and not below `least`: (G, Q)."""
    less_GQ = np.empty((len(groups.runs_G) - 1, len(whole_Q)))
    work_G = 1.0 + np.diff(groups.starts_S[groups.runs_G])
    cuts = workers.ranges_of_equal_work(work_G, _WORTH_A_THREAD / len(whole_Q))
    workers.run([partial(_subtract, *cut, whole_Q, least, mode, groups, patterns, expanded, less_GQ) for cut in cuts])
    return less_GQ


def _in_chunks(patterns: int) -> Ints:
    """Where chunks of patterns begin; the last entry is the number of patterns."""
    return np.append(np.arange(0, patterns, _CHUNK), patterns)


@kernel
def _subtract(
    first: int, last: int, whole_Q: Floats, least: float, mode: int, groups: _Groups, patterns: _Patterns,
    expanded: Expanded, less_GQ: Floats,
) -> None:  # fmt: skip
    """Fill `less_GQ` for groups `first` to `last`, some columns at a time; the last ones may be filled twice.

    A pattern subtracts weight * prod over all modes but `mode` of (the row it names, or the column sum). Patterns of a
    group with the same wildcards are summed first.
    """
    members_P, starts_S, runs_G, rows_PN = groups
    weights_P, wildcards_P = patterns
    phi_RQ, sums_MQ = expanded
    width, modes = columns_at_once(whole_Q.size), sums_MQ.shape[0]
    sum_L = np.empty(width)
    for start in range(0, whole_Q.size, width):
        column = min(start, whole_Q.size - width)
        for group in range(first, last):
            for lane in range(width):
                less_GQ[group, column + lane] = whole_Q[column + lane]
            for run in range(runs_G[group], runs_G[group + 1]):
                wildcards = wildcards_P[members_P[starts_S[run]]]
                named = _named(mode, wildcards, modes)
                sum_products(
                    phi_RQ, rows_PN, named, members_P, weights_P, starts_S[run], starts_S[run + 1], column, sum_L
                )  # fmt: skip
                for m in range(modes):
                    if m != mode and (wildcards >> m) & 1:
                        for lane in range(width):
                            sum_L[lane] *= sums_MQ[m, column + lane]
                for lane in range(width):
                    less_GQ[group, column + lane] -= sum_L[lane]
            for lane in range(width):
                less_GQ[group, column + lane] = max(less_GQ[group, column + lane], least)


@inlined
def _named(mode: int, wildcards: int, modes: int) -> Any:
    """How many modes but one are named by a pattern."""
    named = np.int64(0)
    for m in range(modes):
        named += np.int64(m != mode and (wildcards >> m) & 1 == 0)
    return named

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
from typing import NamedTuple

import numpy as np

from allocore.data.missing import Missing
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.expansion import row_offsets
from allocore.kernels.jit import inlined, kernel, part
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

    patterns_PM: Ints
    weights_P: Floats
    wildcards_P: Ints
    offsets_M: Ints


class _Groups(NamedTuple):
    """Patterns to be summed: group g has the members members_P[starts_G[g] : starts_G[g + 1]]."""

    members_P: Ints
    starts_G: Ints


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
        return _Patterns(self.patterns_PM, self.weights_P, wildcards_P, row_offsets(self.shape))

    @cached_property
    def _all(self) -> _Groups:
        return _in_chunks(np.argsort(self._arrays.wildcards_P, kind="stable"))

    @cached_property
    def _indices(self) -> tuple[_ModeIndex, ...]:
        return tuple(self._index(mode) for mode in range(len(self.shape)))

    def _index(self, mode: int) -> _ModeIndex:
        column_P = self.patterns_PM[:, mode]
        sorted_P = np.lexsort([self._arrays.wildcards_P, column_P])
        everywhere_P, named_P = np.split(sorted_P, [np.searchsorted(column_P[sorted_P], 0)])
        starts_D = np.concatenate([[0], np.cumsum(np.bincount(column_P[named_P], minlength=self.shape[mode]))])
        return _ModeIndex(_Groups(named_P, starts_D), _in_chunks(everywhere_P))

    def scaled(self, mode: int, scale_D: Floats) -> RowScale:
        """The scale c of the rows of one mode, with the weights of the patterns that it changes."""
        column_P = self.patterns_PM[:, mode]
        named_P = np.where(column_P < 0, 1.0, scale_D[column_P])
        return RowScale(mode, scale_D, self.weights_P * named_P)

    def sums_by_row(self, expanded: Expanded, mode: int, workers: Workers, scale: RowScale | None = None) -> Floats:
        """For each row of a mode, the sum over its observed cells of the product over the other modes: (D, Q)."""
        index, nothing_Q = self._indices[mode], np.zeros(expanded.phi_RQ.shape[1])
        elsewhere = scale if scale is not None and scale.mode != mode else None
        patterns = self._weighted(elsewhere)
        less_CQ = _less(nothing_Q, index.everywhere, patterns, expanded, mode, workers)
        observed_Q = np.prod(np.delete(expanded.sums_MQ, mode, axis=0), axis=0) + less_CQ.sum(axis=0)
        sums_DQ = _less(observed_Q, index.by_row, patterns, expanded, mode, workers)
        if scale is not None and elsewhere is None:
            sums_DQ *= scale.scale_D[:, None]
        # If every cell of a row is missing, rounding may leave a difference slightly below zero.
        return np.maximum(sums_DQ, 0.0, out=sums_DQ)

    def sums(self, expanded: Expanded, workers: Workers, scale: RowScale | None = None) -> Floats:
        """The sum over all observed cells: (Q)."""
        nothing_Q = np.zeros(expanded.phi_RQ.shape[1])
        less_CQ = _less(nothing_Q, self._all, self._weighted(scale), expanded, _NO_MODE, workers)
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
    whole_Q: Floats, groups: _Groups, patterns: _Patterns, expanded: Expanded, mode: int, workers: Workers
) -> Floats:
    """`whole_Q` minus the patterns of each group, over all modes but one: (G, Q)."""
    less_GQ = np.empty((len(groups.starts_G) - 1, len(whole_Q)))
    work_G = 1.0 + np.diff(groups.starts_G)
    cuts = workers.ranges_of_equal_work(work_G, _WORTH_A_THREAD / len(whole_Q))
    workers.run([partial(_subtract, *cut, whole_Q, mode, groups, patterns, expanded, less_GQ) for cut in cuts])
    return less_GQ


def _in_chunks(members_P: Ints) -> _Groups:
    return _Groups(members_P, np.append(np.arange(0, len(members_P), _CHUNK), len(members_P)))


@kernel
def _subtract(
    first: int, last: int, whole_Q: Floats, mode: int, groups: _Groups, patterns: _Patterns, expanded: Expanded,
    less_GQ: Floats,
) -> None:  # fmt: skip
    """Fill `less_GQ` for groups `first` to `last`.

    A pattern subtracts weight * prod over all modes but `mode` of (the row it names, or the column sum). Patterns of a
    group with the same wildcards are summed first.
    """
    members_P, starts_G = groups
    patterns_PM, weights_P, wildcards_P, offsets_M = patterns
    phi_RQ, sums_MQ = expanded
    sum_Q, product_Q = np.empty(whole_Q.size), np.empty(whole_Q.size)
    rows_M = np.zeros(sums_MQ.shape[0], dtype=np.int64)
    for group in range(first, last):
        for q in range(whole_Q.size):
            less_GQ[group, q] = whole_Q[q]
        i, stop = starts_G[group], starts_G[group + 1]
        while i < stop:
            wildcards = wildcards_P[members_P[i]]
            for q in range(whole_Q.size):
                sum_Q[q] = 0.0
            while i < stop and wildcards_P[members_P[i]] == wildcards:
                p = members_P[i]
                named = _named_rows(p, mode, patterns_PM, offsets_M, rows_M)
                _add_product(weights_P[p], rows_M, named, phi_RQ, product_Q, sum_Q)
                i += 1
            _multiply_sums(mode, wildcards, sums_MQ, sum_Q)
            for q in range(whole_Q.size):
                less_GQ[group, q] -= sum_Q[q]


@inlined
def _named_rows(p: int, mode: int, patterns_PM: Ints, offsets_M: Ints, rows_M: Ints) -> int:
    """Write the rows that a pattern names in the other modes to `rows_M`; returns how many there are."""
    named = 0
    for m in range(rows_M.size):
        if m != mode and patterns_PM[p, m] >= 0:
            rows_M[named] = offsets_M[m] + patterns_PM[p, m]
            named += 1
    return named


@part
def _add_product(weight: float, rows_M: Ints, named: int, phi_RQ: Floats, product_Q: Floats, sum_Q: Floats) -> None:
    """Add weight * prod of the first `named` rows to `sum_Q`, in as few loops as possible."""
    first, second = rows_M[0], rows_M[min(1, rows_M.size - 1)]
    if named < 2:
        for q in range(sum_Q.size):
            sum_Q[q] += weight * phi_RQ[first, q] if named == 1 else weight
        return
    if named == 2:
        for q in range(sum_Q.size):
            sum_Q[q] += weight * phi_RQ[first, q] * phi_RQ[second, q]
        return
    for q in range(sum_Q.size):
        product_Q[q] = weight * phi_RQ[first, q] * phi_RQ[second, q]
    for i in range(2, named):
        row = rows_M[i]
        for q in range(sum_Q.size):
            product_Q[q] *= phi_RQ[row, q]
    for q in range(sum_Q.size):
        sum_Q[q] += product_Q[q]


@inlined
def _multiply_sums(mode: int, wildcards: int, sums_MQ: Floats, sum_Q: Floats) -> None:
    for m in range(sums_MQ.shape[0]):
        if m != mode and (wildcards >> m) & 1:
            for q in range(sum_Q.size):
                sum_Q[q] *= sums_MQ[m, q]

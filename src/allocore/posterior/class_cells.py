"""The top cells of a class: where its expected counts are largest, with what the whole model expects, and the counts.

Cells are summed over the modes of time and other ordered modes: "Russia, Ukraine, Fight" rather than the same in each
month. Missing cells do not count. The expected count of a class in a cell is its size times the product of its factors,
scaled so that the sum over all observed cells is the size.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from allocore.data.coordinates import column_keys, locate
from allocore.data.tensor import CountTensor
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.signed_patterns import SignedPatterns
from allocore.kernels.workers import available_threads
from allocore.posterior.class_summary import ClassSummary
from allocore.posterior.prediction import expected_counts, sampled
from allocore.posterior.surprises import free_name
from allocore.run.record import Record

# A cell is among the n largest of a product of factors only if the product of its ranks is at most n. So many times the
# wanted number are looked at, because some of them may be missing; more of them by rank than by weight.
_RANKS, _LOOKED_AT = 16, 4
_LEAST_TOP = 16
# Modes are summed over while that takes at most this many cells.
_SUMMED = 4096
# The whole model's expected counts are averages over about this many draws.
_DRAWS = 40


class _Groups(NamedTuple):
    """Groups of cells: the listed coordinates (L, n), all observed cells (M, N), and the group of each of them."""

    listed_LG: Ints
    cells_MN: Ints
    group_N: Ints


def top_cells(
    record: Record, summary: ClassSummary, places: Sequence[int], top: int, threads: int | None = None
) -> list[pd.DataFrame]:
    """For each class, a table of its top cells: see `Posterior.top_cells`."""
    listed = _listed(summary)
    found = [_largest(summary, place, listed, top) for place in places]
    counts = _counts_of(record.tensor, listed, np.concatenate([groups.listed_LG for groups, _ in found], axis=1))
    cells_MN = np.concatenate([groups.cells_MN for groups, _ in found], axis=1)
    # The whole model is that of the draw, if one is summarized.
    model = record if summary.draw is None else record.with_draws(tuple(slice(at, at + 1) for at in summary.draw))
    expected_N = _expected(model, cells_MN, threads or available_threads())
    tables, start = [], 0
    for groups, of_class in found:
        stop = start + groups.cells_MN.shape[1]
        expected = np.bincount(groups.group_N, expected_N[start:stop], len(of_class))
        columns = {
            summary.mode_names[mode]: [str(summary.modes[mode].labels[row]) for row in rows.tolist()]
            for mode, rows in zip(listed, groups.listed_LG, strict=True)
        }
        results = {"of_class": of_class, "expected": expected, "observed": counts[: len(of_class)]}
        counts = counts[len(of_class) :]
        tables.append(
            pd.DataFrame(columns | {free_name(name, summary.mode_names): each for name, each in results.items()})
        )
        start = stop
    return tables


def _listed(summary: ClassSummary) -> list[int]:
    """The modes whose labels are listed: those without an order, and ordered ones that are too long to sum over."""
    ordered = [mode for mode, shown in enumerate(summary.modes) if shown.kind in ("time", "order")]
    summed, cells = [], 1
    for mode in sorted(ordered, key=lambda mode: summary.tensor.shape[mode]):
        cells *= summary.tensor.shape[mode]
        if cells <= _SUMMED:
            summed.append(mode)
    listed = [mode for mode in range(len(summary.modes)) if mode not in summed]
    return listed or list(range(len(summary.modes)))


def _largest(summary: ClassSummary, place: int, listed: list[int], top: int) -> tuple[_Groups, Floats]:
    """The groups of cells in which a class expects the most, and how many counts it expects there."""
    tensor, factors = summary.tensor, [factor_DC[:, place] for factor_DC in summary.factor_shares]
    most = max(top, _LEAST_TOP)
    ranks_LG = _ranks(tuple(tensor.shape[mode] for mode in listed), _RANKS * most)
    orders = [np.argsort(-factors[mode], kind="stable") for mode in listed]
    listed_LG = np.stack([order_D[ranks_G] for order_D, ranks_G in zip(orders, ranks_LG, strict=True)])
    weight_G = np.prod([factors[mode][rows_G] for mode, rows_G in zip(listed, listed_LG, strict=True)], axis=0)
    listed_LG = listed_LG[:, np.argsort(-weight_G, kind="stable")[: _LOOKED_AT * most]]
    groups = _observed_cells(tensor, listed, listed_LG)
    weight_N = np.prod([factor_D[rows_N] for factor_D, rows_N in zip(factors, groups.cells_MN, strict=True)], axis=0)
    whole = SignedPatterns.of(tensor.missing).sum_of_one(factors, [float(factor_D.sum()) for factor_D in factors])
    weight_G = np.bincount(groups.group_N, weight_N, listed_LG.shape[1])
    chosen = np.argsort(-weight_G, kind="stable")[:top]
    chosen = chosen[weight_G[chosen] > 0.0]
    of_class = summary.value_C[place] * weight_G[chosen] / (whole or 1.0)
    return _observed_cells(tensor, listed, listed_LG[:, chosen]), of_class


@cache
def _ranks(lengths: tuple[int, ...], most: int) -> Ints:
    """All combinations of ranks (L, n), from 0, whose product, counted from 1, is at most `most`."""
    found: list[tuple[int, ...]] = [()]
    room = [most]
    for length in lengths:
        longer = [
            ((*ranks, rank), left // (rank + 1))
            for ranks, left in zip(found, room, strict=True)
            for rank in range(min(length, left))
        ]
        found, room = [ranks for ranks, _ in longer], [left for _, left in longer]
    return np.array(found, dtype=np.int64).T


def _observed_cells(tensor: CountTensor, listed: list[int], listed_LG: Ints) -> _Groups:
    """All observed cells of some groups."""
    summed = [mode for mode in range(len(tensor.shape)) if mode not in listed]
    lengths = [tensor.shape[mode] for mode in summed]
    grid = np.indices(lengths).reshape(len(summed), int(np.prod(lengths)))
    groups, size = listed_LG.shape[1], grid.shape[1]
    cells_MN = np.empty((len(tensor.shape), groups * size), dtype=np.int64)
    cells_MN[listed] = np.repeat(listed_LG, size, axis=1)
    cells_MN[summed] = np.tile(grid, groups)
    observed_N = ~tensor.missing.contains(cells_MN)
    return _Groups(listed_LG, cells_MN[:, observed_N], np.repeat(np.arange(groups), size)[observed_N])


def _counts_of(tensor: CountTensor, listed: list[int], listed_LG: Ints) -> Ints:
    """The counts of some groups of cells."""
    shape = tuple(tensor.shape[mode] for mode in listed)
    wanted_G, known_N = column_keys(shape, listed_LG, tensor.coords[listed])
    keys, place_G = np.unique(wanted_G, return_inverse=True)
    place_N = locate(known_N, keys)
    counts = np.bincount(place_N[place_N >= 0], tensor.counts[place_N >= 0], len(keys))
    return np.asarray(counts[place_G.ravel()], dtype=np.int64)


def _expected(record: Record, cells_MN: Ints, threads: int) -> Floats:
    """The expected counts of the whole model, averaged over some draws of all chains."""
    return expected_counts(sampled(record, _DRAWS), cells_MN, threads)

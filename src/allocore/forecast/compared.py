"""The cells in which past and future can be compared, their past counts, and the home cells of classes.

A forecast is about all cells. Sums of the past, and simple forecasts made from them, know only what was observed:

    a series            the cells that differ in the mode of time only
    never observed      it is left out of both sides, past and future
    observed in part    a missing cell counts as the mean over the observed periods of its series

The missing cells of the tensor of the coming periods are the series that are left out.

A class is a share of many cells, and events do not say to which class they belong. So the forecast of a class is about
its *home cells*: those of the labels that together have half of its profile, in every mode but time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.classes.summary import ClassSummary, Profile
from allocore.errors import InputError
from allocore.findings import Finding
from allocore.forecast.periods import Coming
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.posterior.evaluate import missing_in_fibres
from allocore.posterior.predict import cell_quantiles, predict_cells
from allocore.storage.record import Record
from allocore.tensor.cameo import respelt
from allocore.tensor.coordinates import column_keys
from allocore.tensor.count_tensor import CountTensor, missing_diagonals, with_parts
from allocore.tensor.missing import WILDCARD, Missing, by_fixed_modes, covered, intersections, signed_patterns

if TYPE_CHECKING:
    import pandas as pd

_HALF = 0.5


@dataclass(frozen=True)
class PastCounts:
    """Counts of the past: the observed ones (`known_n`), then means in place of missing ones."""

    tensor: CountTensor
    mode: int
    coords_Mn: Ints
    count_n: Floats
    known_n: Flags

    @classmethod
    def of(cls, tensor: CountTensor, mode: int) -> "PastCounts":
        """The past counts of a tensor."""
        coords_Mn, count_n = tensor.coords.astype(np.int64), tensor.counts.astype(np.float64)
        gap_MF, mean_F = _gaps(tensor, coords_Mn, mode)
        known_n = np.arange(len(count_n) + len(mean_F)) < len(count_n)
        return cls(
            tensor, mode, np.concatenate([coords_Mn, gap_MF], axis=1), np.concatenate([count_n, mean_F]), known_n
        )

    def by_period(self, cells: list[dict[str, Any]], future: CountTensor, row: int = 0) -> Floats:
        """The sums (N, T) of the series that are not missing in a coming period; NaN if a sum has no such series."""
        moved_Mn = self.coords_Mn.copy()
        moved_Mn[self.mode] = row
        kept_n = ~covered(moved_Mn, future.missing)
        found_NT = counts_by_period(self.tensor, self.coords_Mn[:, kept_n], self.count_n[kept_n], cells, self.mode)
        for n, cell in enumerate(cells):
            inside = [*_inside(future, cell)]
            inside[self.mode] = np.arange(future.shape[self.mode]) == row
            if not _observed_in_box(future.missing, inside):
                found_NT[n] = np.nan
        return found_NT


@dataclass(frozen=True)
class Compared:
    """The past, and the coming periods without the series that were never observed; `left_out` is their number."""

    past: PastCounts
    record: Record
    threads: int
    left_out: int

    @classmethod
    def of(cls, past: CountTensor, future: Record, mode: int, threads: int) -> "Compared":
        """The cells of a past tensor and of the record of its future that can be compared."""
        tensor = future.tensor
        missing = tensor.missing.union(_never_observed(past, mode, tensor.shape))
        record = replace(future, tensor=with_parts(tensor, missing=missing))
        left_out = (missing.cells - tensor.missing.cells) // tensor.shape[mode]
        return cls(PastCounts.of(past, mode), record, threads, left_out)

    @property
    def tensor(self) -> CountTensor:
        """The tensor of the coming periods, in which all cells that cannot be compared are missing."""
        return self.record.tensor

    def predict(self, cells: object, interval: float = 0.9) -> "pd.DataFrame":
        """Predict sums of cells, as `Forecast.predict`, without the cells that cannot be compared."""
        return predict_cells(self.record, cells, interval, threads=self.threads)[0]

    def quantiles(self, cells: object, levels: Sequence[float]) -> "pd.DataFrame":
        """Return quantiles of sums of cells, as `Forecast.quantiles`, without the cells that cannot be compared."""
        return cell_quantiles(self.record, cells, levels, threads=self.threads)

    def findings(self) -> list[Finding]:
        """What was left out or filled in."""
        found, filled = [], int(np.count_nonzero(~self.past.known_n))
        if self.left_out:
            found.append(Finding("cells-not-compared", "note", {"cells": self.left_out}))
        if filled:
            found.append(Finding("cells-filled-in", "note", {"cells": filled}))
        return found


def _never_observed(past: CountTensor, mode: int, shape: tuple[int, ...]) -> Missing:
    """The series that are missing in all observed periods, as missing cells of a tensor of coming periods."""
    patterns_PM, period_P = past.missing.patterns, past.missing.patterns[:, mode]
    anywhere_PM = patterns_PM.copy()
    anywhere_PM[:, mode] = WILDCARD
    always = anywhere_PM[period_P == WILDCARD]
    observed = np.flatnonzero(past.missing.observed_rows(mode))
    rest = anywhere_PM[period_P == observed[0]]
    for row in observed[1:]:
        if not len(rest):
            break
        rest = Missing(_both(rest, anywhere_PM[period_P == row], shape), shape).patterns
    return Missing(np.concatenate([always, rest]), shape)


def _both(first_PM: Ints, second_PM: Ints, shape: tuple[int, ...]) -> Ints:
    """Patterns of the cells that are in some pattern of the first and in some of the second."""
    weights_P, found = np.ones(len(first_PM), dtype=np.int64), [first_PM[:0]]
    for modes, members in by_fixed_modes(second_PM):
        found.append(intersections(first_PM, weights_P, second_PM[members], modes, shape)[0])
    return np.concatenate(found)


def _gaps(tensor: CountTensor, coords_Mn: Ints, mode: int) -> tuple[Ints, Floats]:
    """The missing cells of series with counts, in observed periods, and the mean of the observed cells of each."""
    others, length = [m for m in range(tensor.ndim) if m != mode], tensor.shape[mode]
    (keys_n,) = column_keys([tensor.shape[m] for m in others], coords_Mn[others])
    _, first_S, series_n = np.unique(keys_n, return_index=True, return_inverse=True)
    first_MS = coords_Mn[:, first_S]
    observed_T = tensor.missing.observed_rows(mode)
    number_S = length - missing_in_fibres(tensor.missing, first_MS, mode)
    partly_S = np.flatnonzero(number_S < observed_T.sum())
    mean_S = np.bincount(series_n.ravel(), tensor.counts, len(number_S)) / np.maximum(number_S, 1)
    periods = np.flatnonzero(observed_T)
    cells_MF = np.repeat(first_MS[:, partly_S], len(periods), axis=1)
    cells_MF[mode] = np.tile(periods, len(partly_S))
    gap_F = covered(cells_MF, tensor.missing)
    return cells_MF[:, gap_F], np.repeat(mean_S[partly_S], len(periods))[gap_F]


def counts_by_period(
    tensor: CountTensor, coords_Mn: Ints, count_n: Ints | Floats, cells: list[dict[str, Any]], mode: int
) -> Floats:
    """The sums of counts in every period of a tensor, (N, T); a mode that is not named is summed over."""
    found = np.zeros((len(cells), tensor.shape[mode]))
    for n, cell in enumerate(cells):
        inside = _inside(tensor, cell)
        chosen_n = np.ones(len(count_n), dtype=bool)
        for name in cell:
            m = tensor.mode(name)
            chosen_n &= inside[m][coords_Mn[m]]
        found[n] = np.bincount(coords_Mn[mode][chosen_n], count_n[chosen_n], tensor.shape[mode])
    return found


def _inside(tensor: CountTensor, cell: dict[str, Any]) -> list[Flags]:
    """Which positions of each mode a sum has."""
    found = [np.ones(length, dtype=bool) for length in tensor.shape]
    for name, labels in cell.items():
        m = tensor.mode(name)
        row_of = {str(label): row for row, label in enumerate(tensor.labels[m])}
        asked = respelt([str(each) for each in ([labels] if isinstance(labels, str | int) else labels)], row_of)
        unknown = [label for label in asked if label not in row_of]
        if unknown:
            raise InputError("cells", unknown[0], f"must be a label of mode {name!r}")
        found[m] = np.isin(np.arange(tensor.shape[m]), [row_of[label] for label in asked])
    return found


def _observed_in_box(missing: Missing, inside: list[Flags]) -> int:
    """The number of observed cells of a box: all of its cells less those of the signed missing patterns."""
    patterns_PM, signs_P = signed_patterns(missing)
    sizes_P = signs_P.copy()
    for inside_D, place_P in zip(inside, patterns_PM.T, strict=True):
        sizes_P *= np.where(place_P == WILDCARD, inside_D.sum(), inside_D[place_P])
    return int(np.prod([inside_D.sum() for inside_D in inside]) - sizes_P.sum())


def home_labels(profile: Profile, least: int = 1) -> list[str | int]:
    """The heaviest labels that together have half of a profile, and at least `least` of them."""
    rows = profile.heaviest
    total = np.cumsum(profile.share_D[rows])
    number = int(np.searchsorted(total, _HALF * total[-1])) + 1
    return [profile.mode.labels[row] for row in rows[: max(number, least)].tolist()]


def home_cells(summary: ClassSummary, mode: int) -> list[dict[str, Any]]:
    """The home cells of every class, summed over the mode of time."""
    diagonals = missing_diagonals(summary.tensor)
    others = [m for m in range(len(summary.modes)) if m != mode]
    found = []
    for place in range(len(summary.share_C)):
        labels = {m: home_labels(summary.profiles[m][place]) for m in others}
        for modes in diagonals:
            # One actor with itself is a missing cell, so each side gets a second actor.
            if len({tuple(labels[m]) for m in modes}) == 1 and len(labels[modes[0]]) == 1:
                labels |= {m: home_labels(summary.profiles[m][place], 2) for m in modes}
        found.append({summary.modes[m].name: labels[m] for m in others})
    return found


def class_changes(compared: Compared, summary: ClassSummary, coming: Coming, interval: float) -> "pd.DataFrame":
    """The mean counts per period of the home cells, in the last periods and in the coming ones."""
    import pandas as pd

    cells, horizon = home_cells(summary, coming.mode), len(coming.labels)
    past_NT = compared.past.by_period(cells, compared.tensor)[:, coming.past.observed_T]
    last_N: Floats = past_NT[:, -horizon:].mean(axis=1)
    # A class none of whose home cells was ever observed has no past, and so no change.
    found = compared.predict(cells, interval)[["expected", "low", "high"]].to_numpy(dtype=np.float64) / horizon
    expected_N, low_N, high_N = np.where(np.isfinite(last_N), found.T, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_N = expected_N / last_N
    return pd.DataFrame(
        {
            "name": list(summary.names),
            "last": last_N,
            "expected": expected_N,
            "low": low_N,
            "high": high_N,
            "ratio": ratio_N,
        },
        index=pd.Index(summary.number_C, name="class"),
    )

"""The cells in which past and future can be compared, and their past counts.

A forecast is about all cells. Sums of the past, and simple forecasts made from them, know only what was observed:

    a series            the cells that differ in the mode of time only
    never observed      it is left out of both sides, past and future
    observed in part    in an observed period in which it is missing, it stands at its mean over its observed periods

Which series are left out is said in one place, by the missing cells of the tensor of the coming periods.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.data.cameo import respelt
from allocore.data.coordinates import column_keys
from allocore.data.display import plural
from allocore.data.missing import WILDCARD, Missing, by_fixed_modes, covered, intersections
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.posterior.baselines import missing_in_fibres
from allocore.posterior.forecasts.future_cells import FutureCells

if TYPE_CHECKING:
    from allocore.posterior.forecasts.forecast import Forecast


@dataclass(frozen=True)
class PastCounts:
    """Counts of the past, those observed and then the means that stand for missing ones, of which none is `known_n`."""

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
    """The past, and the coming periods without the series that were never observed; the number of these series."""

    past: PastCounts
    future: FutureCells
    left_out: int

    @classmethod
    def of(cls, forecast: "Forecast") -> "Compared":
        """What of a forecast can be compared with the past."""
        past, future = forecast.fitted.tensor, forecast.record.tensor
        missing = future.missing.union(_never_observed(past, forecast.coming.mode, future.shape))
        record = replace(forecast.record, tensor=future._replaced(missing=missing))
        return cls(
            PastCounts.of(past, forecast.coming.mode),
            FutureCells(record, forecast.coming.mode, forecast._threads),
            (missing.cells - future.missing.cells) // len(forecast.periods),
        )

    @property
    def tensor(self) -> CountTensor:
        """The tensor of the coming periods, in which all cells that cannot be compared are missing."""
        return self.future.record.tensor

    @property
    def filled(self) -> int:
        """The number of missing cells of the past for which the mean of their series stands."""
        return int(np.count_nonzero(~self.past.known_n))

    def words(self) -> list[str]:
        """What was left out or filled in, in sentences."""
        told = []
        if self.left_out:
            told.append(
                f"Not compared: {plural(self.left_out, 'cell')} of each period without any observation in the past, by "
                "hold-out or otherwise."
            )
        if self.filled:
            told.append(
                f"Filled in: {plural(self.filled, 'cell')} of the past, missing in some periods only, with the mean of "
                "the observed ones."
            )
        return told


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
            raise InputError(f"cells has {unknown[0]!r} in mode {name!r}, which has no such label")
        found[m] = np.isin(np.arange(tensor.shape[m]), [row_of[label] for label in asked])
    return found


def _observed_in_box(missing: Missing, inside: list[Flags]) -> int:
    """The number of observed cells of a box: all of its cells less those of the signed missing patterns."""
    patterns_PM, signs_P = missing.signed
    sizes_P = signs_P.copy()
    for inside_D, place_P in zip(inside, patterns_PM.T, strict=True):
        sizes_P *= np.where(place_P == WILDCARD, inside_D.sum(), inside_D[place_P])
    return int(np.prod([inside_D.sum() for inside_D in inside]) - sizes_P.sum())

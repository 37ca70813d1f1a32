"""Scores of a forecast and of simple ones, by cell, by class and in total, in the cells that past and future share.

With the predictive distribution F of a count, its probability P(y), and the ends l, u of its central interval of
probability 1 - a:

    CRPS             sum over y of (F(y) - 1[y >= observed])^2                                     (posterior/scores.py)
    ignorance        -log2 P(observed)
    interval score   (u - l) + 2/a (l - observed)+ + 2/a (observed - u)+
    absolute error   |expected - observed|

All are smaller for better forecasts; the first three are proper (Gneiting and Raftery 2007).

**Cells.** A series is the cells that differ in the mode of time only. One that was never observed is left out of past
and future, as missing cells are left out of all sums. In one that was observed in part, a missing cell counts as the
mean over its observed periods. With exposures, this mean and the simple forecasts are per unit, times the weights of
the periods.

A class is a share of many cells, and events do not say to which class they belong. So the forecast of a class is about
its *home cells*: those of the labels that together have half of its profile, in every mode but time.

**Simple forecasts** are the mean of all past periods, the last value, and the value one year before. They give the
expected count m of a cell or a sum of cells. To be scored they need a distribution: the negative binomial with mean
m + floor and one dispersion p for all,

    y  ~  NegBin(rate (m + floor) (1 - p) / p, p)

or, for data of zeros and ones, P(y = 1) = floor + m (ceiling - floor). Without the floor, any count in a cell without
past counts would be impossible. Both numbers are those that do best in the last periods of the past, which are forecast
in the same way from those before. They are chosen twice, so that no simple forecast loses only because of its noise:
with the highest probability for the ignorance; and for the CRPS and the intervals with the smallest CRPS, among these
and some with smaller floors and less spread. The absolute error is that of m.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from html import escape
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from allocore._text import first_few
from allocore.classes.summary import ClassSummary, Profile
from allocore.errors import NO_VALUE, Described, InputError
from allocore.findings import Finding, Level, sentences
from allocore.forecast.time_factors import Coming, Periods
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import LIKELIHOODS, Likelihood, odds_of
from allocore.posterior.baselines import missing_in_fibres
from allocore.posterior.cells import MOST_CELLS, Boxes, draw_tables, named_cells, observed_cells, term_rates, terms_of
from allocore.posterior.evaluate import clustered_error
from allocore.posterior.predict import (
    Mixtures,
    cell_mixtures,
    log_odds_table,
    mixture_quantiles,
    number_of_draws,
    predict_cells,
    sampled,
)
from allocore.posterior.scores import mixture_scores
from allocore.storage.record import Record
from allocore.tensor.cameo import respelt
from allocore.tensor.coordinates import canonical, column_keys, locate
from allocore.tensor.count_tensor import CountTensor, cells_of, missing_diagonals, with_parts
from allocore.tensor.files import as_tensor
from allocore.tensor.labels import ModeLabels
from allocore.tensor.missing import WILDCARD, Missing, by_fixed_modes, covered, intersections, signed_patterns
from allocore.tensor.undirected import diagonal, directions

if TYPE_CHECKING:
    import pandas as pd

Baseline = Literal["mean", "last", "year before"]
SCORES = ("crps", "ignorance", "interval_score", "absolute_error")
BASELINES: tuple[Baseline, ...] = ("mean", "last", "year before")
PATHS_FOR_CELLS = 128  # millions of cells are scored with some of the paths; sums, which are few, with all
_NUMBERS_AT_ONCE = 5_000_000
# The value "one year before" is that of one cycle before; for days and hours a cycle is shorter than a year.
_NAMES = {7: "week before", 24: "day before"}
_POISSON = -14.0  # log odds at which a negative binomial is a Poisson distribution
_CLEAR = 2.0  # standard errors
_LEAST_LOG, _MOST_LOG = -25.0, 8.0
_LOG_ODDS = (-2.0, 0.0, 1.5, 3.0, 4.5)
_PARTS_OF_FLOOR = (1.0, 0.01)
_START = (-5.0, 0.0)


@dataclass(frozen=True)
class PastCounts:
    """Counts of the past: the observed ones (`known_n`), then means in place of missing ones."""

    tensor: CountTensor
    mode: int
    weights_T: Floats  # known weights of the periods, or 1
    coords_Mn: Ints
    count_n: Floats
    known_n: Flags

    @classmethod
    def of(cls, tensor: CountTensor, mode: int, weights_T: Floats) -> "PastCounts":
        """Return the past counts of a tensor, filled in where a series was observed in part."""
        coords_Mn, count_n = tensor.coords.astype(np.int64), tensor.counts.astype(np.float64)
        gap_MF, mean_F = _gaps(tensor, coords_Mn, mode, weights_T)
        known_n = np.arange(len(count_n) + len(mean_F)) < len(count_n)
        coords_Mn, count_n = np.concatenate([coords_Mn, gap_MF], axis=1), np.concatenate([count_n, mean_F])
        return cls(tensor, mode, weights_T, coords_Mn, count_n, known_n)

    def by_period(self, cells: list[dict[str, Any]], future: CountTensor, row: int = 0) -> Floats:
        """The sums (N, T) of the series that are not missing in a coming period; NaN if a sum has no such series."""
        moved_Mn = self.coords_Mn.copy()
        moved_Mn[self.mode] = row
        seen_n = ~covered(moved_Mn, future.missing)
        found_NT = _counts_by_period(self.tensor, self.coords_Mn[:, seen_n], self.count_n[seen_n], cells, self.mode)
        for n, cell in enumerate(cells):
            inside = _inside(future, cell)
            inside[self.mode] = np.arange(future.shape[self.mode]) == row
            if not _observed_in_box(future.missing, inside):
                found_NT[n] = np.nan
        return found_NT


@dataclass(frozen=True)
class Compared:
    """The past, and the paths of the coming periods; `left_out` series, never observed, are missing in both."""

    past: PastCounts
    coming: Coming
    record: Record
    threads: int
    left_out: int

    @classmethod
    def of(cls, past: Record, coming: Coming, future: Record, threads: int) -> "Compared":
        """Compare the data of a fit with the record of their future."""
        loops = self_loops(past.tensor, future.tensor.shape)
        left_out = (future.tensor.missing.cells - loops.cells) // len(coming.labels)
        left_out //= 1 if past.tensor.undirected_modes is None else 2
        weights_T = weights_of_periods(past, coming.mode)
        return cls(PastCounts.of(past.tensor, coming.mode, weights_T), coming, future, threads, left_out)

    @property
    def tensor(self) -> CountTensor:
        """The tensor of the coming periods, in which cells that were never observed are missing."""
        return self.record.tensor

    def predict(self, cells: object, interval: float = 0.9) -> "pd.DataFrame":
        """Predict sums of cells as `Forecast.predict` does."""
        return predict_cells(self.record, cells, interval, threads=self.threads)[0]

    def findings(self) -> list[Finding]:
        """What was left out or filled in."""
        filled = int(np.count_nonzero(~self.past.known_n))
        numbers = {"cells-never-observed": self.left_out, "cells-filled-in": filled}
        return [Finding(kind, "note", {"cells": cells}) for kind, cells in numbers.items() if cells]


def weights_of_periods(record: Record, mode: int) -> Floats:
    """Return the known weights of the periods of a record, or ones."""
    weights_T = record.spec.exposure(mode)
    return np.ones(record.tensor.shape[mode]) if weights_T is None else weights_T


def self_loops(past: CountTensor, shape: tuple[int, ...]) -> Missing:
    """Return the self-loops that are missing in the past, as missing cells of a tensor of coming periods."""
    groups = [*missing_diagonals(past), *([] if past.undirected_modes is None else [past.undirected_modes])]
    return reduce(Missing.union, (diagonal(shape, modes) for modes in groups), Missing.none(shape))


def never_observed(past: CountTensor, mode: int, shape: tuple[int, ...]) -> Missing:
    """Return the series that are missing in all observed periods, as missing cells of a tensor of coming periods."""
    patterns_PM, period_P = past.missing.patterns, past.missing.patterns[:, mode]
    anywhere_PM = patterns_PM.copy()
    anywhere_PM[:, mode] = WILDCARD
    always = anywhere_PM[period_P == WILDCARD]
    observed = np.flatnonzero(past.missing.observed_rows(mode))
    rest = anywhere_PM[period_P == observed[0]]
    for row in observed[1:]:
        if not len(rest):
            break
        own_PM, ones_P, both = anywhere_PM[period_P == row], np.ones(len(rest), dtype=np.int64), [rest[:0]]
        for modes, members in by_fixed_modes(own_PM):
            both.append(intersections(rest, ones_P, own_PM[members], modes, shape)[0])
        rest = Missing(np.concatenate(both), shape).patterns
    return Missing(np.concatenate([always, rest]), shape)


def _gaps(tensor: CountTensor, coords_Mn: Ints, mode: int, weights_T: Floats) -> tuple[Ints, Floats]:
    """The missing cells of series with counts, in observed periods, and the mean per unit of each, times its weight."""
    others, length = [m for m in range(tensor.ndim) if m != mode], tensor.shape[mode]
    (keys_n,) = column_keys([tensor.shape[m] for m in others], coords_Mn[others])
    _, first_S, series_n = np.unique(keys_n, return_index=True, return_inverse=True)
    first_MS = coords_Mn[:, first_S]
    observed_T = tensor.missing.observed_rows(mode)
    number_S = length - missing_in_fibres(tensor.missing, first_MS, mode)
    partly_S = np.flatnonzero(number_S < observed_T.sum())
    weight_S = weights_T.sum() - missing_in_fibres(tensor.missing, first_MS, mode, weights_T)
    mean_S = np.bincount(series_n.ravel(), tensor.counts, len(number_S)) / np.where(number_S > 0, weight_S, 1.0)
    periods = np.flatnonzero(observed_T)
    cells_MF = np.repeat(first_MS[:, partly_S], len(periods), axis=1)
    cells_MF[mode] = np.tile(periods, len(partly_S))
    gap_F = covered(cells_MF, tensor.missing)
    means_F = np.multiply.outer(mean_S[partly_S], weights_T[periods]).ravel()
    return cells_MF[:, gap_F], means_F[gap_F]


def _counts_by_period(
    tensor: CountTensor, coords_Mn: Ints, count_n: Ints | Floats, cells: list[dict[str, Any]], mode: int
) -> Floats:
    """The sums of counts in every period of a tensor, (N, T); a mode that is not named is summed over."""
    found = np.zeros((len(cells), tensor.shape[mode]))
    for n, cell in enumerate(cells):
        inside, chosen_n = _inside(tensor, cell), np.zeros(coords_Mn.shape[1], dtype=bool)
        for each_Mn in directions(coords_Mn, tensor.undirected_modes):
            chosen_n |= np.all([inside_D[place_n] for inside_D, place_n in zip(inside, each_Mn, strict=True)], axis=0)
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


def observed_by(missing: Missing, modes: Sequence[int]) -> Ints:
    """Return the number of observed cells for each combination of the labels of some modes."""
    lengths = np.array(missing.shape)
    others = np.delete(np.arange(len(lengths)), list(modes))
    found = np.full(lengths[list(modes)], lengths[others].prod(), dtype=np.int64)
    patterns_PM, signs_P = signed_patterns(missing)
    sizes_P = signs_P * np.where(patterns_PM[:, others] == WILDCARD, lengths[others], 1).prod(axis=1)
    for row, size in zip(patterns_PM[:, list(modes)].tolist(), sizes_P.tolist(), strict=True):
        found[tuple(slice(None) if place == WILDCARD else place for place in row)] -= size
    return found


def _home_labels(profile: Profile, least: int = 1) -> list[str | int]:
    """The heaviest labels that together have half of a profile, and at least `least` of them."""
    rows = profile.heaviest(len(profile.share_D))
    total = np.cumsum(profile.share_D[rows])
    number = int(np.searchsorted(total, total[-1] / 2)) + 1
    return [profile.mode.labels[row] for row in rows[: max(number, least)].tolist()]


def home_cells(summary: ClassSummary, mode: int) -> list[dict[str, Any]]:
    """The home cells of every class, summed over the mode of time."""
    diagonals = missing_diagonals(summary.tensor)
    others = [m for m in range(len(summary.modes)) if m != mode]
    found = []
    for place in range(len(summary.share_C)):
        labels = {m: _home_labels(summary.profiles[m][place]) for m in others}
        for modes in diagonals:
            # One actor with itself is a missing cell, so each side gets a second actor.
            if len({tuple(labels[m]) for m in modes}) == 1 and len(labels[modes[0]]) == 1:
                labels |= {m: _home_labels(summary.profiles[m][place], 2) for m in modes}
        found.append({summary.modes[m].name: labels[m] for m in others})
    return found


def class_changes(compared: Compared, summary: ClassSummary, interval: float) -> "pd.DataFrame":
    """The mean counts per period of the home cells, in the last periods and in the coming ones.

    If periods have exposures, they are counts per unit.
    """
    import pandas as pd

    coming = compared.coming
    cells, horizon = home_cells(summary, coming.mode), len(coming.labels)
    past_NT = compared.past.by_period(cells, compared.tensor) / compared.past.weights_T
    past_NT = past_NT[:, coming.complete.observed_T]
    compared = replace(compared, record=compared.record.per_unit(coming.mode))
    last_N: Floats = past_NT[:, -horizon:].mean(axis=1) if past_NT.shape[1] else np.full(len(cells), np.nan)
    # A class none of whose home cells was ever observed has no past, and so no change.
    found = compared.predict(cells, interval).iloc[:, -3:].to_numpy(dtype=np.float64) / horizon
    expected_N, low_N, high_N = np.where(np.isfinite(last_N), found.T, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_N = expected_N / last_N
    columns = {"name": list(summary.names), "last": last_N, "expected": expected_N, "low": low_N, "high": high_N}
    return pd.DataFrame({**columns, "ratio": ratio_N}, index=pd.Index(summary.number_C, name="class"))


@dataclass(frozen=True)
class Series:
    """Past counts of series, cells or sums, as triples; all other counts of the `number` series are zero.

    Those that are not `known_n` are means in place of missing counts. `empty` further series have no counts.
    """

    series_n: Ints
    period_n: Ints
    count_n: Ints | Floats
    known_n: Flags
    number: int
    empty: int = 0

    @classmethod
    def of_table(cls, counts_NT: Ints | Floats) -> "Series":
        """The series of a table of counts."""
        series, period = np.nonzero(counts_NT)
        return cls(series, period, counts_NT[series, period], np.ones(len(series), dtype=bool), len(counts_NT))

    def sums(self, periods: Ints) -> Floats:
        """The sums (number) over some periods."""
        chosen = np.isin(self.period_n, periods)
        return np.bincount(self.series_n[chosen], self.count_n[chosen], self.number).astype(np.float64)

    def known(self, period: int) -> Flags:
        """Which series (number) were observed in a period."""
        known = np.ones(self.number, dtype=bool)
        known[self.series_n[(self.period_n == period) & ~self.known_n]] = False
        return known


@dataclass(frozen=True)
class SimpleForecast:
    """A baseline: what to expect of later periods, given the past ones; `year` is the number of periods in a year."""

    baseline: Baseline
    past: Periods
    year: int | None
    weights_T: Floats

    def means(self, series: Series, origin: int, number_H: Ints, weights_H: Floats) -> Floats | None:
        """Return the expected counts (number, H) of periods from the rows before `origin`; None if they are too few."""
        observed = np.flatnonzero(self.past.observed_T[:origin])
        if not len(observed):
            return None
        if self.baseline in ("mean", "last"):
            rows = observed if self.baseline == "mean" else observed[-1:]
            return np.outer(series.sums(rows) / self.weights_T[rows].sum(), weights_H)
        before = self._a_year_before(origin, number_H, set(observed.tolist()))
        if before is None:
            return None
        return np.stack([series.sums(np.array([row])) / self.weights_T[row] for row in before], axis=1) * weights_H

    def _a_year_before(self, origin: int, number_H: Ints, known: set[int]) -> list[int] | None:
        """The rows one year before, or two if that is not past; None if one was not observed."""
        if (year := self.year) is None:
            return None
        row_of = {int(number): row for row, number in enumerate(self.past.number_T.tolist())}
        first = int(self.past.number_T[origin - 1]) + 1
        rows = [row_of.get(number - year * (1 + (number - first) // year), -1) for number in number_H.tolist()]
        return rows if all(row in known for row in rows) else None


class Pairs(NamedTuple):
    """Expected and observed counts, and how often each pair occurs."""

    means: Floats
    counts: Ints
    repeats: Floats


@dataclass(frozen=True)
class Noise:
    """The noise around simple forecasts."""

    likelihood: Likelihood
    floor: float
    other: float

    def mixtures(self, means_N: Floats) -> Mixtures:
        """The distributions of counts, as mixtures of one draw."""
        nowhere = np.zeros(len(means_N), dtype=np.int64)
        if self.likelihood.name == "bernoulli":
            probability_N = self.floor + np.minimum(means_N, 1.0) * (self.other - self.floor)
            return Mixtures(-np.log1p(-probability_N)[:, None], nowhere, np.zeros((1, 1)))
        log_odds = np.array([[self.other]])
        return Mixtures((means_N + self.floor)[:, None] / odds_of(log_odds), nowhere, log_odds)


def _fitted_noise(likelihood: Likelihood, pairs: Pairs, workers: Workers) -> tuple[Noise, Noise]:
    """The noise with the smallest CRPS of the observed counts, and that under which they are most probable."""
    binary = likelihood.name == "bernoulli"
    family = likelihood if binary else LIKELIHOODS["negative-binomial"]

    def noise(values: Floats) -> Noise:
        first, second = np.clip(values, _LEAST_LOG, _MOST_LOG)
        if binary:
            floor = 0.5 * float(expit(first))
            return Noise(family, floor, floor + (1.0 - 1e-6 - floor) * float(expit(second)))
        return Noise(family, float(np.exp(first)), float(second))

    def surprise(values: Floats) -> float:
        rates_NS, _, log_odds_RS = noise(values).mixtures(pairs.means)
        log_density = family.log_density(pairs.counts, rates_NS[:, 0], np.full(len(pairs.means), log_odds_RS[0, 0]))
        outside = np.square(values - np.clip(values, _LEAST_LOG, _MOST_LOG)).sum()
        return float(outside - pairs.repeats @ log_density)

    def crps(tried: Noise) -> float:
        return float(pairs.repeats @ mixture_scores(family, tried.mixtures(pairs.means), pairs.counts, workers).crps_N)

    probable = noise(minimize(surprise, np.array(_START), method="Nelder-Mead").x)
    spreads = [probable.other, *(odds for odds in _LOG_ODDS if odds < probable.other and not binary)]
    tried = [Noise(family, probable.floor * part, spread) for part in _PARTS_OF_FLOOR for spread in spreads]
    return min(tried, key=crps), probable


def past_pairs(simple: SimpleForecast, series: Series, horizon: int) -> Pairs | None:
    """The expected and observed counts of the last periods of the past; None if the past is too short."""
    observed = np.flatnonzero(simple.past.observed_T)
    if not len(observed):
        return None
    tested = observed[-min(horizon, len(observed) - 1) :]
    means = simple.means(series, int(tested[0]), simple.past.number_T[tested], simple.weights_T[tested])
    if means is None:
        return None
    counts = np.stack([series.sums(np.array([row])) for row in tested], axis=1)
    known = np.stack([series.known(row) for row in tested.tolist()], axis=1)
    # A sum that includes means of missing cells is not a whole number.
    known_pairs = np.stack([means[known], np.rint(counts[known])])
    pairs, repeats = np.unique(known_pairs, axis=1, return_counts=True)
    means_P, counts_P = np.append(pairs, [[0.0], [0.0]], axis=1)
    return Pairs(means_P, counts_P.astype(np.int64), np.append(repeats, series.empty * len(tested)).astype(np.float64))


def score_findings(table: "pd.DataFrame") -> list[Finding]:
    """Judge whether the forecast is better than the simple ones in CRPS, for each scope of a table of scores."""
    return [_judge(table.xs(scope), scope) for scope in table.index.unique("scope")]  # type: ignore[arg-type]


def _judge(rows: "pd.DataFrame", scope: str) -> Finding:
    if not rows["number"].iloc[0]:
        return Finding("nothing-to-score", "note", {"scope": scope})
    others = tuple(_verdict(str(name), row) for name, row in rows.iloc[1:].iterrows())
    better = all(each["verdict"] == "better" for each in others)
    level: Level = "poor" if not better else "good" if all(each["clear"] for each in others) else "caution"
    return Finding("forecast-score", level, {"scope": scope, "crps": float(rows["crps"].iloc[0]), "others": others})


def _verdict(model: str, row: "pd.Series[float]") -> dict[str, Any]:
    """Whether the forecast is better than a simple one, and clearly so; `tested` if there is a standard error."""
    difference, error = row["crps_difference"], row["standard_error"]
    verdict = "better" if difference > 0.0 else "worse" if difference < 0.0 else "equal"
    tested = bool(np.isfinite(error) and error != 0.0)
    clear = bool(not tested or abs(difference) > _CLEAR * error)
    return {"model": model, "crps": float(row["crps"]), "verdict": verdict, "clear": clear, "tested": tested}


def future_counts(given: object, future: CountTensor, mode: int) -> tuple[CountTensor, list[Finding]]:
    """Return the tensor `given` with the modes, labels and missing cells of the forecast, and what cannot be scored.

    A label that `given` does not have had no events; a coming period that it does not have is missing.
    """
    theirs = as_tensor(given)
    if sorted(theirs.mode_names) != sorted(future.mode_names):
        modes = Described(f"a tensor with the modes {', '.join(theirs.mode_names)}")
        rule = f"must have the modes of the fitted tensor, {', '.join(future.mode_names)}"
        raise InputError("Y_future", modes, rule)
    order = [theirs.mode_names.index(name) for name in future.mode_names]
    ends = [sorted(each.mode_names[m] for m in each.undirected_modes or ()) for each in (theirs, future)]
    if ends[0] != ends[1]:
        ties = "directed ties" if not ends[1] else f"undirected ties between {' and '.join(ends[1])}"
        raise InputError("Y_future", NO_VALUE, f"must have {ties}, as the fitted tensor has")
    rows = [_rows(theirs.labels[o], future.labels[m]) for m, o in enumerate(order)]
    incomplete = {label: days for label, days in theirs.incomplete.items() if label in future.labels[mode]}
    partly = [str(label) in incomplete for label in theirs.labels[order[mode]]] if incomplete else []
    rows[mode] = np.where(partly, -1, rows[mode]) if incomplete else rows[mode]
    periods = tuple(str(future.labels[mode][row]) for row in np.unique(rows[mode][rows[mode] >= 0]))
    if not periods:
        asked, last = ", ".join(map(str, future.labels[mode])), theirs.labels[order[mode]][-1]
        rule = f"must have at least one of the periods {asked} in mode {future.mode_names[mode]!r}"
        rule += f", from its first day to its last: {first_few(list(incomplete))} may be incomplete" * bool(incomplete)
        raise InputError("Y_future", Described(f"a tensor that ends in {last}"), rule)
    findings = [Finding("periods-scored", "note", {"periods": periods})] if len(periods) < future.shape[mode] else []
    if incomplete:
        findings.append(Finding("incomplete-not-scored", "caution", {"periods": incomplete}))
    coords_MN = np.array([rows[m][theirs.coords[o]] for m, o in enumerate(order)])
    in_time, known_N = coords_MN[mode] >= 0, (coords_MN >= 0).all(axis=0)
    labels = sum(len(np.unique(theirs.coords[o][in_time & (coords_MN[m] < 0)])) for m, o in enumerate(order))
    left_out = int(theirs.counts[in_time & ~known_N].sum())
    if left_out:
        findings.append(Finding("labels-without-forecast", "note", {"counts": left_out, "labels": labels}))
    missing = future.missing.union(_missing(theirs, future, order, rows, mode))
    coords, counts = cells_of(future, coords_MN[:, known_N]), theirs.counts[known_N]
    observed = ~covered(coords, missing)
    cells, totals = canonical(coords[:, observed], counts[observed], future.shape)
    return with_parts(future, coords=cells, counts=totals, missing=missing), findings


def _rows(theirs: ModeLabels, ours: ModeLabels) -> Ints:
    """The row of the forecast for each of their labels; -1 if it has none."""
    row_of = {str(label): row for row, label in enumerate(ours)}
    spelt = map(str, theirs) if isinstance(theirs, range) else respelt(theirs, row_of)
    return np.array([row_of.get(label, -1) for label in spelt], dtype=np.int64)


def _missing(theirs: CountTensor, future: CountTensor, order: list[int], rows: list[Ints], mode: int) -> Missing:
    """Their missing cells in our rows, and the coming periods that they do not have."""
    given_PM = theirs.missing.patterns[:, order]
    moved_PM = np.stack(
        [np.where(column_P == WILDCARD, WILDCARD, rows[m][column_P]) for m, column_P in enumerate(given_PM.T)], axis=1
    )
    kept_PM = moved_PM[((moved_PM >= 0) | (given_PM == WILDCARD)).all(axis=1)]
    absent = np.setdiff1d(np.arange(future.shape[mode]), rows[mode])
    whole_PM = np.full((len(absent), future.ndim), WILDCARD, dtype=np.int64)
    whole_PM[:, mode] = absent
    return Missing(np.concatenate([kept_PM, whole_PM]), future.shape)


@dataclass(frozen=True, eq=False)
class ForecastEvaluation:
    """How well a forecast predicted what happened, compared with simple forecasts: a table, and what it means.

    `Forecast.evaluate` returns it; `print` shows the table and the sentences.

    Attributes
    ----------
    table : pandas.DataFrame
        For all `cells`, for `positive cells`, for the home cells of `classes` (see `Forecast.changes`), summed, and for
        the `totals` of the periods: the `forecast`, the `mean` of all past periods, the `last` value, and the value one
        year before, if there is one. The simple forecasts have negative binomial noise, fitted to the past. `number`
        counts the cells or sums. Smaller scores are better: `crps`, the continuous ranked probability score;
        `ignorance`, minus the binary log of the predictive probability; `interval_score`; and `absolute_error` of the
        expected count. `crps_difference` is that to the forecast, positive if the forecast is better, and
        `standard_error` its standard error, with all periods of a cell as one observation.
    findings : tuple of Finding
        Whether the forecast is better than the simple ones, for each of the four; then what was left out.

    Examples
    --------
    >>> import numpy as np
    >>> import allocore as ac
    >>> counts = np.random.default_rng(0).poisson(9, (4, 10))
    >>> post = ac.CP(1, burn_in=5, draws=4, thin=1, chains=1, seed=0, progress=False).fit(counts[:, :8]).posterior_
    >>> found = post.forecast(horizon=2, mode=1).evaluate(ac.as_tensor(counts))
    >>> found.table.loc["cells", "crps"].index.tolist()
    ['forecast', 'mean', 'last']
    >>> found.findings[0].kind, found.findings[0].values["scope"]
    ('forecast-score', 'cells')
    """

    table: "pd.DataFrame"
    findings: tuple[Finding, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    def __str__(self) -> str:
        return "\n".join([self.table.to_string(float_format=lambda number: f"{number:.4g}"), "", *self.sentences])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(each)}</li>" for each in self.sentences)
        return f"{self.table.to_html(float_format=lambda number: f'{number:.4g}')}<ul>{items}</ul>"


def score_forecast(compared: Compared, summary: ClassSummary, given: object, interval: float) -> ForecastEvaluation:
    """Score a forecast and simple ones in the cells that can be compared, against the tensor `given`."""
    import pandas as pd

    coming = compared.coming
    future, not_scored = future_counts(given, compared.tensor, coming.mode)
    if future.volume > MOST_CELLS:
        cells = Described(f"a tensor with {future.volume:,} cells in the coming periods")
        rule = f"must have at most {MOST_CELLS:,}, zeros included: forecast fewer periods, or fit fewer labels"
        raise InputError("Y_future", cells, rule)
    with Workers(compared.threads) as workers:
        sums_of = _score_cells(compared, future, interval, workers)
        sums_of["classes"] = _score_sums(compared, future, home_cells(summary, coming.mode), interval, workers)
        sums_of["totals"] = _score_sums(compared, future, [{}], interval, workers)
    rows = {(scope, name): row for scope, sums in sums_of.items() for name, row in sums.rows().items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(list(rows), names=["scope", "model"])
    return ForecastEvaluation(table, (*score_findings(table), *coming.findings, *compared.findings(), *not_scored))


class ScoreSums:
    """Scores added up: of the forecast and of the simple ones, and their differences by unit, a cell or a sum."""

    def __init__(self, names: list[str], units: int) -> None:
        self.number = 0  # of cells or sums
        self._names, self._total_FK = names, np.zeros((len(names), len(SCORES)))
        self._difference_FU, self._number_U = np.zeros((len(names), units)), np.zeros(units)

    def add(self, scores_FKN: Floats, unit_N: Ints) -> None:
        """Add the scores of cells that belong to some units."""
        self._total_FK += scores_FKN.sum(axis=2)
        self.number += len(unit_N)
        units = len(self._number_U)
        self._number_U += np.bincount(unit_N, minlength=units)
        for own_U, scores_KN in zip(self._difference_FU, scores_FKN, strict=True):
            own_U += np.bincount(unit_N, scores_KN[0] - scores_FKN[0, 0], units)

    def rows(self) -> dict[str, dict[str, float]]:
        """The mean scores of each; the difference of the CRPS to that of the forecast, and its standard error."""
        found, number = {}, max(self.number, 1)
        for name, total_K, own_U in zip(self._names, self._total_FK, self._difference_FU, strict=True):
            difference = own_U.sum() / number
            error = clustered_error((own_U - difference * self._number_U)[self._number_U > 0], number)
            if name == self._names[0]:
                difference, error = np.nan, np.nan
            scores = dict(zip(SCORES, (total_K / number).tolist(), strict=True))
            found[name] = {"number": self.number, **scores, "crps_difference": difference, "standard_error": error}
        return found


def score(likelihood: Likelihood, mixtures: Mixtures, counts_N: Ints, interval: float, workers: Workers) -> Floats:
    """The scores (4, N) of counts."""
    levels_L = np.array([0.5 - interval / 2, 0.5 + interval / 2])
    low_N, high_N = mixture_quantiles(likelihood, mixtures, levels_L, workers)
    outside_N = np.maximum(low_N - counts_N, 0) + np.maximum(counts_N - high_N, 0)
    found = mixture_scores(likelihood, mixtures, counts_N, workers)
    width_N = high_N - low_N + 2.0 / (1.0 - interval) * outside_N
    return np.stack([found.crps_N, -found.log_density_N / np.log(2.0), width_N, np.abs(found.mean_N - counts_N)])


class _Simple(NamedTuple):
    """A baseline: expected counts (number, horizon), and the noise of smallest CRPS and of highest probability."""

    name: str
    means: Floats
    noise: Noise
    probable: Noise

    def score(self, means_N: Floats, counts_N: Ints, interval: float, workers: Workers) -> Floats:
        """The scores (4, N) of counts; the absolute error is that of the mean, without noise."""
        likelihood = self.noise.likelihood
        scores_KN = score(likelihood, self.noise.mixtures(means_N), counts_N, interval, workers)
        probable = mixture_scores(likelihood, self.probable.mixtures(means_N), counts_N, workers)
        scores_KN[1] = -probable.log_density_N / np.log(2.0)
        scores_KN[3] = np.abs(means_N - counts_N)
        return scores_KN


def _baselines(compared: Compared, likelihood: Likelihood, series: Series, workers: Workers) -> list[_Simple]:
    """The baselines that the past allows. One that cannot be tested on the past has the noise of the last value."""
    found, noises, coming = [], None, compared.coming
    weights_T, weights_H = compared.past.weights_T, weights_of_periods(compared.record, coming.mode)
    horizon, rows = len(coming.labels), len(coming.past.number_T)
    following = coming.past.number_T[-1] + 1 + np.arange(horizon)
    for name in BASELINES:
        simple = SimpleForecast(name, coming.complete, coming.year, weights_T)
        means, pairs = simple.means(series, rows, following, weights_H), past_pairs(simple, series, horizon)
        if pairs is not None:
            noises = _fitted_noise(likelihood, pairs, workers)
        if means is not None and noises is not None:
            found.append(_Simple(_NAMES.get(coming.year or 0, name) if name == "year before" else name, means, *noises))
    return found


def _score_cells(compared: Compared, future: CountTensor, interval: float, workers: Workers) -> dict[str, ScoreSums]:
    record, coming = sampled(compared.record, PATHS_FOR_CELLS), compared.coming
    mode, past, tensor, likelihood = coming.mode, compared.past, compared.tensor, record.spec.observation
    others = [m for m in range(future.ndim) if m != mode]
    lengths = [future.shape[m] for m in others]
    active, series_n = np.unique(np.ravel_multi_index(tuple(past.coords_Mn[others]), lengths), return_inverse=True)
    empty = tensor.observed // len(coming.labels) - len(active)
    series = Series(series_n.ravel(), past.coords_Mn[mode], past.count_n, past.known_n, len(active), empty)
    simple = _baselines(compared, likelihood, series, workers)
    names, units = ["forecast", *(each.name for each in simple)], int(np.prod(lengths))
    sums_of = {scope: ScoreSums(names, units) for scope in ("cells", "positive cells")}
    for coords_MN, counts_N in _in_blocks(future, number_of_draws(record)):
        own_N = np.ravel_multi_index(tuple(coords_MN[others]), lengths)
        place_N = locate(own_N, active)
        scores = [score(likelihood, cell_mixtures(record, coords_MN, compared.threads), counts_N, interval, workers)]
        for each in simple:
            means_N = np.where(place_N < 0, 0.0, each.means[place_N, coords_MN[mode]])
            scores.append(each.score(means_N, counts_N, interval, workers))
        some = counts_N > 0
        sums_of["cells"].add(np.array(scores), own_N)
        sums_of["positive cells"].add(np.array(scores)[:, :, some], own_N[some])
    return sums_of


def _in_blocks(future: CountTensor, draws: int) -> Iterator[tuple[Ints, Ints]]:
    at_once = max(1, _NUMBERS_AT_ONCE // draws)
    for coords_MN, counts_N in observed_cells(future):
        for start in range(0, len(counts_N), at_once):
            yield coords_MN[:, start : start + at_once], counts_N[start : start + at_once]


def _score_sums(
    compared: Compared, future: CountTensor, cells: list[dict[str, Any]], interval: float, workers: Workers
) -> ScoreSums:
    """The scores of sums in every known period: forecast, past and future over the same cells, those of `future`.

    A sum of which `future` has no cell in the period is not scored.
    """
    coming, negative_binomial = compared.coming, LIKELIHOODS["negative-binomial"]
    mode, record, units = coming.mode, replace(compared.record, tensor=future), max(len(cells), len(coming.labels))
    counts_NH = _counts_by_period(future, future.coords.astype(np.int64), future.counts, cells, mode).astype(np.int64)
    sums = ScoreSums(["forecast"], units)
    for h in np.flatnonzero(future.missing.observed_rows(mode)).tolist():
        past_NT = compared.past.by_period(cells, future, h)
        some = np.flatnonzero(np.isfinite(past_NT[:, 0]))
        if not len(some):
            continue
        simple = _baselines(compared, negative_binomial, Series.of_table(past_NT[some]), workers)
        if not sums.number:
            sums = ScoreSums(["forecast", *(each.name for each in simple)], units)
        named = [{**cells[n], future.mode_names[mode]: coming.labels[h]} for n in some.tolist()]
        likelihood, mixtures = sum_mixtures(record, named_cells(named, future)[0], compared.threads)
        counts_N = counts_NH[some, h]
        scores = [score(likelihood, mixtures, counts_N, interval, workers)]
        scores += [each.score(each.means[:, h], counts_N, interval, workers) for each in simple]
        sums.add(np.array(scores), some if len(cells) > 1 else np.array([h]))
    return sums


def sum_mixtures(record: Record, boxes: Boxes, threads: int) -> tuple[Likelihood, Mixtures]:
    """The distributions of sums of cells, exact if there is one dispersion or none.

    Other sums have in each draw the negative binomial distribution with their mean and variance, or are Poisson if the
    variance is not larger than the mean.
    """
    likelihood, draws, number = record.spec.observation, number_of_draws(record), boxes.places_MN.shape[1]
    terms, table_RS = terms_of(record, boxes, 0, missing=False), log_odds_table(record)
    tables = draw_tables(record, boxes, list(np.ndindex(record.core_values.shape[:2])))
    exact = len(terms.owner_T) == number and likelihood.name != "bernoulli"
    mean_NS, variance_NS = np.empty((number, draws)), np.empty((number, draws))
    for s, rates_T in enumerate(term_rates(boxes, terms, tables, range(draws), threads)):
        log_odds_T = table_RS[terms.odds_row_T, s]
        mean_NS[:, s] = rates_T if exact else terms.added_up(likelihood.mean(rates_T, log_odds_T), number)
        variance_NS[:, s] = 0.0 if exact else terms.added_up(likelihood.variance(rates_T, log_odds_T), number)
    if exact:
        return likelihood, Mixtures(mean_NS, terms.odds_row_T, table_RS)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds_NS = np.maximum(np.nan_to_num(np.log(variance_NS / mean_NS - 1.0), nan=_POISSON), _POISSON)
    return LIKELIHOODS["negative-binomial"], Mixtures(mean_NS / odds_of(log_odds_NS), np.arange(number), log_odds_NS)

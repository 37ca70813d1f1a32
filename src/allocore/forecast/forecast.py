"""Forecasts: the counts of the periods after the last one, with their uncertainty.

A forecast is the run with other rows in the mode of time: those of the coming periods, one or more paths for each draw.
So its cells are predicted, summed and simulated as those of the run.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from allocore._memory import available_memory, require_memory
from allocore._text import plural
from allocore.classes.consensus import Consensus
from allocore.classes.matching import evenly_spaced
from allocore.classes.summary import ClassSummary
from allocore.errors import NO_VALUE, InputError, as_list, check_flags, whole_number
from allocore.findings import Finding, Level, sentences, warn
from allocore.forecast.scores import (
    Compared,
    ForecastEvaluation,
    class_changes,
    never_observed,
    observed_by,
    score_forecast,
    self_loops,
)
from allocore.forecast.time_factors import (
    Coming,
    Paths,
    Periods,
    Smoothness,
    bytes_of_a_path,
    factor_counts,
    future_record,
    learn_smoothness,
)
from allocore.kernels.elementary import Floats
from allocore.model.likelihood import odds_of
from allocore.model.modes import exposure_of
from allocore.posterior.predict import (
    boxes_and_labels,
    cell_quantiles,
    checked_interval,
    drawn,
    number_of_draws,
    predict_cells,
    simulate,
    simulate_cells,
)
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.calendar import frequency_of, next_periods, period_numbers, periods_per_year, weights_by_days
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, trusted_tensor
from allocore.tensor.labels import free_name, label_kind, with_results

if TYPE_CHECKING:
    import pandas as pd

_LEAST_PATHS = 400  # runs with fewer draws get several paths for each: few paths leave gaps in large sums
_LEAST_PATHS_BINARY = 100  # sums of zeros and ones visit every cell for every path
_MOST_SAMPLES = 50_000_000
_LEAST_PERIODS = 3
# How often a season must fit into the past: to be found, and to be accepted if you ask for it.
_CYCLES_FOR_AUTO, _CYCLES_IF_ASKED = 3, 2
_CLASS_DRAWS = 100  # the paths of about this many draws give the intervals of classes


class FittedRun(Protocol):
    """What a forecast needs of the posterior that it continues."""

    @property
    def record(self) -> Record:
        """The draws, and the tensor of the past."""

    def class_summary(self) -> ClassSummary:
        """Return the classes."""

    def consensus(self) -> Consensus:
        """Return what the chains agree on."""


class Forecast:
    """The counts of coming periods: expected values, quantiles, simulated counts, and scores once the future is known.

    `post.forecast` returns one. Cells are named as for `post.predict`, with the labels of the coming periods. A mode
    that is not named is summed over: without a period, the sum is over the whole horizon. Sums leave out cells that
    were never observed in the past, such as held-out fibres and self-loops, as sums of the past do.

    Parameters
    ----------
    fitted, coming, future : Posterior, Coming, Record
        The posterior that it continues, the mode of time and the coming periods, and the draws with their factors.
    smoothness, correlation : Smoothness, float
        The settings of the discount model, and how much the factors of one draw rise and fall together.
    threads : int
        Threads for predictions.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights().with_labels({"month": [f"2013-{month:02d}" for month in range(1, 13)]})
    >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, chains=2, seed=0, progress=False)
    >>> forecast = model.fit(Y).posterior_.forecast(horizon=3)
    >>> forecast
    Forecast of month 2014-01 to 2014-03: 400 paths of 20 draws, negative binomial

    The examples of its methods use this `forecast`.
    """

    def __init__(
        self,
        fitted: FittedRun,
        coming: Coming,
        future: Record,
        smoothness: Smoothness,
        correlation: float,
        threads: int,
    ) -> None:
        self.coming, self.record = coming, future
        self._fitted, self._smoothness, self._correlation, self._threads = fitted, smoothness, correlation, threads

    @property
    def periods(self) -> tuple[str, ...]:
        """The labels of the coming periods."""
        return self.coming.labels

    @property
    def mode(self) -> str:
        """The name of the mode of time."""
        return self.record.tensor.mode_names[self.coming.mode]

    @property
    def fitted(self) -> FittedRun:
        """The posterior that the forecast continues, with its past counts."""
        return self._fitted

    @property
    def smoothness(self) -> "pd.DataFrame":
        """How the time factors continue: settings of the discount model, and the share of the factors that have each.

        `weight` is the share. `discount` is the share of its weight that a period keeps one period later: 1 for the
        mean of all periods, near 0 for the last value. `noise` is the shape of the gamma noise of single periods: the
        larger, the steadier. `pull` is the share of the way back to the mean of all periods that the level moves in
        one period. `season` is the number of periods whose mean count is added to both sides of a seasonal index;
        infinite without a season. `attrs["correlation"]` is how much the factors of one draw rise and fall together.
        """
        import pandas as pd

        found = pd.DataFrame({"weight": self._smoothness.weights_G, **self._smoothness.settings._asdict()})
        found = found.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
        found.attrs["correlation"] = self._correlation
        return found

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before you use the forecast, such as periods that may be incomplete."""
        return (*self.coming.findings, *self.compared.findings())

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    @property
    def last_incomplete(self) -> str | None:
        """The last period of the past if it may be incomplete; otherwise None."""
        is_complete, is_observed = self.coming.complete.observed_T[-1], self.coming.past.observed_T[-1]
        label = self._fitted.record.tensor.labels[self.coming.mode][-1]
        return str(label) if is_observed and not is_complete else None

    @cached_property
    def compared(self) -> Compared:
        """The past and the future, in the same cells.

        :meta private:
        """
        return Compared.of(self._fitted.record, self.coming, self.record, self._threads)

    @overload
    def predict(
        self,
        cells: object,
        interval: float = 0.9,
        *,
        draws: Literal[False] = False,
        missing: bool = False,
        per_unit: bool = False,
    ) -> "pd.DataFrame": ...

    @overload
    def predict(
        self,
        cells: object,
        interval: float = 0.9,
        *,
        draws: Literal[True],
        missing: bool = False,
        per_unit: bool = False,
    ) -> "tuple[pd.DataFrame, NDArray[np.float64]]": ...

    def predict(
        self,
        cells: object,
        interval: float = 0.9,
        *,
        draws: bool = False,
        missing: bool = False,
        per_unit: bool = False,
    ) -> "pd.DataFrame | tuple[pd.DataFrame, NDArray[np.float64]]":
        """Return the expected counts of cells and of sums of cells, with predictive intervals.

        Parameters
        ----------
        cells, interval, draws, missing, per_unit : as for `Posterior.predict`
            Cells are in the coming periods. `draws` also returns the expected counts in each path, `missing` includes
            cells that were never observed in sums, and `per_unit` predicts as if all exposures were 1.

        Returns
        -------
        pandas.DataFrame
            The cells, `expected`, `low` and `high`, as `Posterior.predict` returns them. With `draws`, a pair of the
            frame and an array (n, paths).

        Examples
        --------
        >>> forecast.predict([{"month": month} for month in forecast.periods]).round(-2)
             month  expected    low   high
        0  2014-01  ...
        1  2014-02  ...
        2  2014-03  ...
        """
        check_flags(draws=draws, missing=missing, per_unit=per_unit)
        record = self.record.per_unit() if per_unit else self.record
        table, draws_NS = predict_cells(record, cells, interval, threads=self._threads, draws=draws, missing=missing)
        return table if draws_NS is None else (table, draws_NS)

    def quantiles(
        self, cells: object, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95), *, missing: bool = False
    ) -> "pd.DataFrame":
        """Return quantiles of the counts of cells and of sums of cells.

        Parameters
        ----------
        cells, missing : as for `predict`
            The cells, and whether sums include cells that were never observed.
        levels : sequence of float
            The probabilities of the quantiles, in increasing order, above 0 and below 1.

        Returns
        -------
        pandas.DataFrame
            The cells, the `expected` count, and a column for each level, such as "0.05": the smallest count that is
            not exceeded with this probability.

        Examples
        --------
        >>> list(forecast.quantiles({"carrier": "JetBlue Airways"}, [0.1, 0.5, 0.9]).columns)
        ['carrier', 'expected', '0.1', '0.5', '0.9']
        """
        return cell_quantiles(self.record, cells, levels, threads=self._threads, missing=missing)

    def simulate(
        self, cells: object, draws: int | None = None, *, seed: int = 0, missing: bool = False
    ) -> NDArray[np.int64]:
        """Draw counts of cells and of sums of cells. All cells of one draw are from one path of the future.

        Parameters
        ----------
        cells, missing : as for `predict`
            The cells, and whether sums include cells that were never observed.
        draws : int, optional
            How many draws to make, from the paths in turn; by default one from each of them.
        seed : int
            The seed of the noise. The seed of the paths is that of `post.forecast`.

        Returns
        -------
        ndarray of int64, shape (draws, n)

        Examples
        --------
        >>> forecast.simulate([{"month": "2014-01"}, {"month": "2014-02"}]).shape
        (400, 2)
        """
        return simulate_cells(self.record, cells, draws, seed=seed, threads=self._threads, missing=missing)

    def samples(
        self, by: str | Sequence[str] = (), draws: int | None = None, *, cells: object = None, seed: int = 0
    ) -> "pd.DataFrame":
        """Return simulated counts in the long form: a row for each draw of each sum of cells and period.

        The VIEWS prediction challenge takes forecasts in this form, as a Parquet file (`frame.to_parquet`, or
        `--draws-out` on the command line).

        Parameters
        ----------
        by : str or sequence of str
            The names of modes: one sum for each of their labels, or combination of labels, in every coming period. By
            default the totals of the periods.
        draws : int, optional
            How many draws of each; by default one for each path.
        cells, seed : as for `simulate`
            Cells and sums to simulate instead, and the seed of the noise.

        Returns
        -------
        pandas.DataFrame
            The labels, the number of the `draw` and the simulated count, `outcome`.

        Examples
        --------
        >>> forecast.samples("origin", draws=2).head(2)
               origin    month  draw  outcome
        0  EWR Newark  2014-01     0  ...
        1  EWR Newark  2014-01     1  ...
        """
        import pandas as pd

        boxes, asked = boxes_and_labels(self.record, cells_by(self, by) if cells is None else cells)
        times = number_of_draws(self.record) if draws is None else whole_number("draws", draws)
        if times * len(asked) > _MOST_SAMPLES:
            most = _MOST_SAMPLES // len(asked)
            raise InputError("draws", times, f"must be at most {most:,} for {len(asked):,} sums of cells")
        noise = whole_number("seed", seed, least=0)
        counts_SN = simulate(self.record, boxes, times, noise, missing=False, threads=self._threads)
        long: pd.DataFrame = asked.loc[asked.index.repeat(times)].reset_index(drop=True)
        draw = np.tile(np.arange(times), len(asked))
        return with_results(long, {"draw": draw, "outcome": counts_SN.T.ravel()})

    def changes(self, interval: float = 0.9) -> "pd.DataFrame":
        """Compare the home cells of each class in the coming periods with the last ones.

        The home cells of a class are those of the labels that together have half of its profile, in every mode but
        time. Their counts include events of other classes. Cells that were never observed are left out of both sides;
        a missing cell counts as its mean over the other periods. If periods have exposures, counts are per unit.

        Parameters
        ----------
        interval : float
            The probability of the intervals.

        Returns
        -------
        pandas.DataFrame
            One row per class, largest first: its `name`; the mean count per period in its home cells, over as many
            `last` periods as are forecast; the `expected` one, with `low` and `high`; and the `ratio` of expected to
            last. All are NaN if none of its home cells was ever observed.

        Examples
        --------
        >>> list(forecast.changes().columns)
        ['name', 'last', 'expected', 'low', 'high', 'ratio']
        """
        return class_changes(self.compared, self._fitted.class_summary(), checked_interval(interval))

    def by_class(self, interval: float = 0.9) -> "pd.DataFrame":
        """Return the expected counts of the classes in the coming periods; per unit if the periods have exposures.

        The counts are those of the class itself, not of its home cells. They continue the profile of the class over
        time, as if a coming period had as many observed cells as a past one has on average.

        Parameters
        ----------
        interval : float
            The probability of the intervals, which are those of the expected count, without the noise of single counts.

        Returns
        -------
        pandas.DataFrame
            One row per class and period, largest class first: the `class`, its `name`, the period, its `expected`
            count, with `low` and `high`, over the paths of the draws that have the class.

        Examples
        --------
        >>> list(forecast.by_class().columns)
        ['class', 'name', 'month', 'expected', 'low', 'high']
        """
        import pandas as pd

        summary, tail = self._fitted.class_summary(), (1.0 - checked_interval(interval)) / 2.0
        relative_CSH, horizon = _relative_paths(self, summary), len(self.periods)
        with warnings.catch_warnings(action="ignore"):  # a class that none of these draws holds has no number
            ends = np.nanquantile(relative_CSH, (tail, 1.0 - tail), axis=1)
            counts = summary.value_C[:, None] * np.array([np.nanmean(relative_CSH, axis=1), *ends])
        table = pd.DataFrame(
            {
                free_name("class", [self.mode]): np.repeat(summary.number_C, horizon),
                free_name("name", [self.mode]): np.repeat(np.array(summary.names, dtype=object), horizon),
                self.mode: np.tile(np.array(self.periods, dtype=object), len(summary.number_C)),
            }
        )
        return with_results(table, dict(zip(("expected", "low", "high"), counts.reshape(3, -1), strict=True)))

    def evaluate(self, Y_future: CountTensor, *, interval: float = 0.9) -> ForecastEvaluation:
        """Score the forecast against what happened, and compare it with simple forecasts.

        Parameters
        ----------
        Y_future : CountTensor
            The future, or a tensor that contains it: modes and labels are matched by name, and only the coming periods
            are used. Labels that the fit does not have are left out, and so are cells that were never observed in the
            past, such as a held-out set; the findings say so.
        interval : float
            The probability of the intervals that are scored.

        Returns
        -------
        ForecastEvaluation
            A `table` of scores for cells, classes and totals, and `findings` (`sentences`) on what they mean.

        Examples
        --------
        >>> import numpy as np
        >>> import allocore as ac
        >>> counts = np.random.default_rng(0).poisson(9, (4, 10))
        >>> post = ac.CP(1, burn_in=5, draws=4, thin=1, chains=1, seed=0, progress=False).fit(counts[:, :8]).posterior_
        >>> found = post.forecast(horizon=2, mode=1).evaluate(ac.as_tensor(counts))
        >>> found.table.loc["totals"].index.tolist()
        ['forecast', 'mean', 'last']
        """
        level = checked_interval(interval)
        return score_forecast(self.compared, self._fitted.class_summary(), Y_future, level)

    def __repr__(self) -> str:
        to = f" to {self.periods[-1]}" if len(self.periods) > 1 else ""
        paths, draws = number_of_draws(self.record), plural(number_of_draws(self._fitted.record), "draw")
        title = self.record.spec.observation.title
        whole = f"Forecast of {self.mode} {self.periods[0]}{to}: {paths} paths of {draws}, {title}"
        return f"{whole}; the last period, {self.last_incomplete}, may be incomplete" if self.last_incomplete else whole


def coming_periods(tensor: CountTensor, horizon: object, mode: str | int | None, season: object) -> Coming:
    """Find the mode of time and name the coming periods. Raises an error if they cannot be forecast."""
    steps, place = whole_number("horizon", horizon), _mode_of_time(tensor, mode)
    labels, name = tensor.labels[place], tensor.mode_names[place]
    coming, numbers = next_periods(labels, steps), period_numbers(labels)
    if coming is None or numbers is None:
        rule = "must have increasing periods of time as labels, such as 2013-11, 2013-12, or whole numbers, but it has"
        raise InputError("mode", name, f"{rule} labels such as {labels[-1]!r}; Y.with_labels renames them")
    observed_T = tensor.missing.observed_rows(place)
    if not observed_T[-1]:
        rule = f"must have an observed last period, but {labels[-1]} is missing; fit without that period"
        raise InputError("mode", name, rule)
    if observed_T.sum() < _LEAST_PERIODS:
        rule = f"must have at least {_LEAST_PERIODS} observed periods; it has {observed_T.sum()}"
        raise InputError("mode", name, rule)
    year = periods_per_year(labels)
    past = Periods(np.array(numbers), observed_T, _cycle(season, year, numbers[-1] + 1, name))
    known = tensor.incomplete
    incomplete = {str(label): known[str(label)] for label in labels if str(label) in known}
    last = None if name in tensor.exposures else str(labels[-1])  # a fit with weights allows for what was not observed
    complete = replace(past, observed_T=observed_T & np.array([str(label) not in incomplete for label in labels]))
    return Coming(place, past, complete, tuple(coming), year, _incomplete_past(incomplete, last))


def _mode_of_time(tensor: CountTensor, mode: str | int | None) -> int:
    if mode is not None:
        return tensor.mode(mode)
    found = [m for m, labels in enumerate(tensor.labels) if label_kind(labels) == "time"]
    if len(found) == 1:
        return found[0]
    why = f"no labels are periods such as 2013-11, 2013-12; the modes are {', '.join(tensor.mode_names)}"
    if found:
        why = f"{' and '.join(repr(tensor.mode_names[m]) for m in found)} all have periods as labels"
    raise InputError("mode", NO_VALUE, f"must name the mode of time, because {why}")


def _cycle(season: object, year: int | None, periods: int, name: str) -> int | None:
    """The length of the season: the given one, or a year if the data have at least three of them."""
    if season is None:
        return None
    if isinstance(season, str) and season == "auto":
        return year if year is not None and periods >= _CYCLES_FOR_AUTO * year else None
    if isinstance(season, str):
        raise InputError("season", season, "must be 'auto', None or a whole number of periods")
    length = whole_number("season", season, least=2)
    if periods < _CYCLES_IF_ASKED * length:
        rule = f"must fit at least {_CYCLES_IF_ASKED} times into the {periods} periods of mode {name!r}"
        raise InputError("season", length, rule)
    return length


def _incomplete_past(incomplete: Mapping[str, tuple[int, int]], last: str | None) -> tuple[Finding, ...]:
    """A finding on the periods of the past that may be incomplete, and are not compared with the forecast."""
    if not incomplete:
        return ()
    level: Level = "caution" if last in incomplete else "note"
    return (Finding("incomplete-past", level, {"periods": dict(incomplete), "last": last in incomplete}),)


def future_tensor(tensor: CountTensor, coming: Coming) -> CountTensor:
    """A tensor of the coming periods, without counts; self-loops and series that were never observed are missing."""
    mode, horizon = coming.mode, len(coming.labels)
    shape = (*tensor.shape[:mode], horizon, *tensor.shape[mode + 1 :])
    labels = (*tensor.labels[:mode], coming.labels, *tensor.labels[mode + 1 :])
    missing = self_loops(tensor, shape).union(never_observed(tensor, mode, shape))
    coords, counts = np.zeros((len(shape), 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    pair = tensor.undirected_modes
    return trusted_tensor(CanonicalParts(coords, counts, shape, tensor.mode_names, labels, missing, undirected=pair))


def make_forecast(
    fitted: FittedRun, horizon: object, mode: str | int | None, season: object, *, exposure: object = None,
    seed: object, threads: int,
) -> Forecast:  # fmt: skip
    """Continue the time factors of all draws of a run."""
    record = drawn(fitted.record)
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    coming = coming_periods(record.tensor, horizon, mode, season)
    tensor = future_tensor(record.tensor, coming)
    weights_H = exposure_of(_usual_weights(record, coming) if exposure is None else exposure, tensor, coming.mode)
    factors = factor_counts(record, coming.mode)
    smoothness = learn_smoothness(factors, coming.past)
    paths = Paths(factors, coming.past, smoothness, rng)
    # Each draw has several paths; fewer if memory is short. Without room for one this is an error.
    horizon, room = len(coming.labels), available_memory()
    bytes_each = bytes_of_a_path(record, coming.mode, factors, horizon)
    least = _LEAST_PATHS_BINARY if record.spec.likelihood == "bernoulli" else _LEAST_PATHS
    times = -(-least // number_of_draws(record))
    if room is not None:
        times = max(1, min(times, room // max(1, bytes_each)))
    require_memory(times * bytes_each, "a forecast with one path for each draw")
    rates = np.array([paths.draw(horizon) for _ in watched(range(times), times, "paths of the future")])
    future = future_record(record, coming.mode, tensor, factors, rates, rng, weights_H)
    forecast = Forecast(fitted, coming, future, smoothness, paths.correlation, threads)
    for finding in coming.findings:
        if finding.kind == "incomplete-past" and finding.values["last"]:
            warn(finding, stacklevel=3)
    return forecast


def _usual_weights(record: Record, coming: Coming) -> list[float] | None:
    """The weights of whole coming periods, if the fit has the weights of periods that `read_events` knows, or none."""
    weights_T, name = record.spec.exposure(coming.mode), record.tensor.mode_names[coming.mode]
    if weights_T is None:
        return None
    known, labels = record.tensor.exposures.get(name, {}), record.tensor.labels[coming.mode]
    if list(known.values()) != weights_T.tolist() or record.tensor.report is None:
        rule = f"must have the weights of the coming periods: the fit has those of the past ones of {name!r}"
        raise InputError("exposure", NO_VALUE, rule)
    if "exposure" not in record.tensor.report.reading:
        return [1.0] * len(coming.labels)
    freq = frequency_of([*map(str, labels), *coming.labels])
    return list(weights_by_days(coming.labels, freq or "month").values())


def _relative_paths(forecast: Forecast, summary: ClassSummary) -> Floats:
    """What each class expects in each coming period, relative to its whole past, (C, paths, H); NaN if not held.

    A class has one factor of time in a draw, so this is the sum of its coming rows over that of the observed ones, with
    the odds of each period if the dispersion differs by period. If periods have exposures, the past is counted with
    them, and the coming rows are per unit.
    """
    mode = forecast.coming.mode
    past, future = forecast.fitted.record, forecast.record.per_unit(mode)
    observed_T, by_period = past.tensor.missing.observed_rows(mode), past.spec.dispersion_by == mode
    chains, draws = past.core_values.shape[:2]
    paths, found = future.core_values.shape[1] // draws, []
    chosen = evenly_spaced(draws, max(1, _CLASS_DRAWS // chains)).tolist()
    for chain, draw in [summary.draw] if summary.draw else product(range(chains), chosen):
        location_CM = summary.location_CM if summary.draw else forecast.fitted.consensus().locations(chain, draw)
        phi_TK, own = past.factors[mode][chain, draw], slice(draw * paths, (draw + 1) * paths)
        phi_SHK = future.factors[mode][chain, own]
        if by_period and past.log_odds is not None and future.log_odds is not None:
            phi_TK = phi_TK * odds_of(past.log_odds[chain, draw])[:, None]
            phi_SHK = phi_SHK * odds_of(future.log_odds[chain, own])[..., None]
        factor_C = location_CM[:, mode]
        whole_C = np.where(factor_C < 0, np.nan, phi_TK[observed_T].sum(axis=0)[factor_C])
        relative_SHC = phi_SHK[:, :, factor_C] / np.maximum(whole_C, np.finfo(float).tiny)
        found.append(relative_SHC.transpose(2, 0, 1))
    return np.concatenate(found, axis=1)


def cells_by(forecast: Forecast, by: str | Sequence[str] = ()) -> list[dict[str, str]]:
    """Return sums of cells: one for each label of some modes, or combination of labels, in every coming period.

    Sums of which no cell was ever observed are left out.
    """
    tensor, time = forecast.record.tensor, forecast.coming.mode
    named = [by] if isinstance(by, str) else as_list("by", by, "must be the names of modes")
    modes = [tensor.mode(name) for name in named]
    modes = [mode for mode in dict.fromkeys(modes) if mode != time] + [time]
    number = int(np.prod([tensor.shape[mode] for mode in modes]))
    if number > _MOST_SAMPLES:
        raise InputError("by", by, f"must name modes with at most {_MOST_SAMPLES:,} combinations, not {number:,}")
    names = [tensor.mode_names[mode] for mode in modes]
    found = [dict(zip(names, each, strict=True)) for each in product(*(map(str, tensor.labels[m]) for m in modes))]
    if len(modes) == tensor.ndim:  # single cells, which are always forecast
        return found
    return [cell for cell, seen in zip(found, observed_by(tensor.missing, modes).ravel() > 0, strict=True) if seen]

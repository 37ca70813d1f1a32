"""Forecasts: the counts of the periods after the last one, with their uncertainty.

A forecast is the run with other rows in the mode of time: those of the coming periods, one or more paths for each draw.
So its cells are predicted, summed and simulated as those of the run.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from allocore._memory import available_memory, require_memory
from allocore.classes.summary import ClassSummary
from allocore.errors import InputError, whole_number
from allocore.findings import Finding, sentences
from allocore.forecast.compared import Compared, class_changes
from allocore.forecast.periods import Coming, coming_periods, future_tensor
from allocore.forecast.time_factors import (
    Paths,
    Smoothness,
    bytes_of_a_path,
    factor_counts,
    future_record,
    learn_smoothness,
)
from allocore.posterior.predict import (
    boxes_and_labels,
    cell_quantiles,
    checked_interval,
    number_of_draws,
    predict_cells,
    simulate,
    simulate_cells,
)
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.count_tensor import CountTensor

if TYPE_CHECKING:
    import pandas as pd

# Runs with fewer draws get several paths for each: in large sums the noise is narrow, and few paths leave gaps.
_LEAST_PATHS = 400
# Sums of zeros and ones visit every cell for every path.
_LEAST_PATHS_BINARY = 100
_MOST_SAMPLES = 50_000_000


class FittedRun(Protocol):
    """What a forecast needs of the posterior that it continues."""

    @property
    def tensor(self) -> CountTensor:
        """The past counts."""

    def class_summary(self) -> ClassSummary:
        """Return the classes."""


class Forecast:
    """The counts of coming periods: expected values, quantiles, simulated counts, and scores once the future is known.

    `post.forecast` returns one. Cells are named as for `post.predict`, with the labels of the coming periods. A mode
    that is not named is summed over: without a period, the sum is over the whole horizon. Sums leave out self-loops
    that are missing in the past.

    Parameters
    ----------
    fitted : Posterior
        The posterior that the forecast continues.
    coming : Coming
        The mode of time and the coming periods.
    future : Record
        The draws, with the factors of the coming periods in the mode of time.
    smoothness : Smoothness
        The settings of the discount model that the past makes most probable.
    correlation : float
        How much the factors of one draw rise and fall together.
    draws : int
        The number of draws of the posterior.
    threads : int
        Threads for predictions.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights().with_labels({"month": [f"2013-{month:02d}" for month in range(1, 13)]})
    >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, chains=2, seed=0, progress=False)
    >>> forecast = model.fit(Y).posterior_.forecast(horizon=3)
    >>> forecast
    Forecast of month 2014-01 to 2014-03: 400 paths of 20 draws, Poisson

    The examples of its methods use this `forecast`.
    """

    def __init__(
        self,
        fitted: FittedRun,
        coming: Coming,
        future: Record,
        smoothness: Smoothness,
        correlation: float,
        *,
        draws: int,
        threads: int,
    ) -> None:
        self._fitted, self._coming, self._record, self._smoothness = fitted, coming, future, smoothness
        self._correlation, self._draws, self._threads = correlation, draws, threads

    @property
    def periods(self) -> tuple[str, ...]:
        """The labels of the coming periods."""
        return self._coming.labels

    @property
    def mode(self) -> str:
        """The name of the mode of time."""
        return self._record.tensor.mode_names[self._coming.mode]

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
        """What to know before you use the forecast, such as a last period that may be cut off."""
        return self._coming.findings

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    @property
    def coming(self) -> Coming:
        """The mode of time, its past and the coming periods, as numbers.

        :meta private:
        """
        return self._coming

    @property
    def record(self) -> Record:
        """The draws with the factors of the coming periods in the mode of time, one path after another.

        :meta private:
        """
        return self._record

    @cached_property
    def compared(self) -> Compared:
        """The cells of past and future that can be compared.

        :meta private:
        """
        return Compared.of(self._fitted.tensor, self._record, self._coming.mode, self._threads)

    @overload
    def predict(
        self, cells: object, interval: float = 0.9, *, draws: Literal[False] = False, missing: bool = False
    ) -> "pd.DataFrame": ...

    @overload
    def predict(
        self, cells: object, interval: float = 0.9, *, draws: Literal[True], missing: bool = False
    ) -> "tuple[pd.DataFrame, NDArray[np.float64]]": ...

    def predict(
        self, cells: object, interval: float = 0.9, *, draws: bool = False, missing: bool = False
    ) -> "pd.DataFrame | tuple[pd.DataFrame, NDArray[np.float64]]":
        """Return the expected counts of cells and of sums of cells, with predictive intervals.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, or array of int, shape (M, n)
            The cells, as for `post.predict`, in the coming periods.
        interval : float
            The probability of the intervals, above 0 and below 1.
        draws : bool
            Also return the expected counts in each path.
        missing : bool
            Include self-loops in sums.

        Returns
        -------
        pandas.DataFrame
            The cells, `expected`, `low` and `high`, as `post.predict` returns them. With `draws`, a pair of the frame
            and an array (n, paths).

        Examples
        --------
        >>> forecast.predict([{"month": month} for month in forecast.periods]).round(-2)
             month  expected    low   high
        0  2014-01  ...
        1  2014-02  ...
        2  2014-03  ...
        """
        table, draws_NS = predict_cells(
            self._record, cells, interval, threads=self._threads, draws=draws, missing=missing
        )
        return table if draws_NS is None else (table, draws_NS)

    def quantiles(
        self, cells: object, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95), *, missing: bool = False
    ) -> "pd.DataFrame":
        """Return quantiles of the counts of cells and of sums of cells.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, or array of int, shape (M, n)
            The cells, as for `predict`.
        levels : sequence of float
            The probabilities of the quantiles, in increasing order, above 0 and below 1.
        missing : bool
            Include self-loops in sums.

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
        return cell_quantiles(self._record, cells, levels, threads=self._threads, missing=missing)

    def simulate(
        self, cells: object, draws: int | None = None, *, seed: int = 0, missing: bool = False
    ) -> NDArray[np.int64]:
        """Draw counts of cells and of sums of cells. All cells of one draw are from one path of the future.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, or array of int, shape (M, n)
            The cells, as for `predict`.
        draws : int, optional
            How many draws to make, from the paths in turn; by default one from each of them.
        seed : int
            The seed of the noise. The seed of the paths is that of `post.forecast`.
        missing : bool
            Include self-loops in sums.

        Returns
        -------
        ndarray of int64, shape (draws, n)

        Examples
        --------
        >>> forecast.simulate([{"month": "2014-01"}, {"month": "2014-02"}]).shape
        (400, 2)
        """
        return simulate_cells(self._record, cells, draws, seed=seed, threads=self._threads, missing=missing)

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
        cells : data frame or list, optional
            Cells and sums to simulate instead, as for `predict`.
        seed : int
            The seed of the noise.

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

        boxes, asked = boxes_and_labels(self._record, cells_by(self, by) if cells is None else cells)
        times = number_of_draws(self._record) if draws is None else whole_number("draws", draws)
        if times * len(asked) > _MOST_SAMPLES:
            raise InputError(
                "draws", times, f"must be at most {_MOST_SAMPLES // len(asked):,} for {len(asked):,} sums of cells"
            )
        noise = whole_number("seed", seed, least=0)
        counts_SN = simulate(self._record, boxes, times, noise, missing=False, threads=self._threads)
        long: pd.DataFrame = asked.loc[asked.index.repeat(times)].reset_index(drop=True)
        return long.assign(draw=np.tile(np.arange(times), len(asked)), outcome=counts_SN.T.ravel())

    def changes(self, interval: float = 0.9) -> "pd.DataFrame":
        """Compare the home cells of each class in the coming periods with the last ones.

        The home cells of a class are those of the labels that together have half of its profile, in every mode but
        time. Their counts include events of other classes. Cells that were never observed in the past are left out of
        both sides; in a period in which a cell is missing, its mean over the other periods takes its place.

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
        return class_changes(self.compared, self._fitted.class_summary(), self._coming, checked_interval(interval))

    def evaluate(self, Y_future: CountTensor, *, interval: float = 0.9) -> "pd.DataFrame":
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
        pandas.DataFrame
            For all `cells`, for `positive cells`, for the home cells of `classes` (see `changes`), summed, and for the
            `totals` of the periods: the `forecast`, the `mean` of all past periods, the `last` value, and the value one
            year before, if there is one. The simple forecasts have negative binomial noise, fitted to the past. Smaller
            scores are better: `crps`, the continuous ranked probability score; `ignorance`, minus the binary log of the
            predictive probability; `interval_score`; and `absolute_error` of the expected count. `crps_difference` is
            that to the forecast, positive if the forecast is better, and `standard_error` its standard error, with all
            periods of a cell as one observation. `attrs["findings"]` says what it means, and `attrs["sentences"]`
            says it in words.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.load_flights().with_labels({"month": [f"2013-{month:02d}" for month in range(1, 13)]})
        >>> Y = Y.select(carrier="JetBlue Airways")
        >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, seed=0, progress=False)
        >>> post = model.fit(Y.select(month=slice("2013-01", "2013-10"))).posterior_
        >>> scores = post.forecast(horizon=2).evaluate(Y)
        >>> scores.loc["cells", "crps"].index.tolist()
        ['forecast', 'mean', 'last']
        """
        from allocore.forecast.scores import Future, score_forecast

        future = Future(self._record, self._coming, self.compared, self._fitted.class_summary, self._threads)
        return score_forecast(future, Y_future, checked_interval(interval))

    def __repr__(self) -> str:
        first, last = self.periods[0], self.periods[-1]
        return (
            f"Forecast of {self.mode} {first}{f' to {last}' * (len(self.periods) > 1)}: "
            f"{number_of_draws(self._record)} paths of {self._draws} draw{'s' * (self._draws != 1)}, "
            f"{self._record.spec.observation.title}"
        )


def make_forecast(
    record: Record, fitted: FittedRun, horizon: object, mode: str | int | None, season: object, *, seed: object,
    threads: int,
) -> Forecast:  # fmt: skip
    """Continue the time factors of all draws of a run; `fitted` is its posterior."""
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    coming = coming_periods(record.tensor, horizon, mode, season)
    factors = factor_counts(record, coming.mode)
    smoothness = learn_smoothness(factors, coming.past)
    paths = Paths(factors, coming.past, smoothness, rng)
    times = _paths_of_a_draw(record, bytes_of_a_path(record, coming.mode, factors, len(coming.labels)))
    rates = np.array([paths.draw(len(coming.labels)) for _ in watched(range(times), times, "paths of the future")])
    future = future_record(record, coming.mode, future_tensor(record.tensor, coming), factors, rates, rng)
    draws = number_of_draws(record)
    return Forecast(fitted, coming, future, smoothness, paths.correlation, draws=draws, threads=threads)


def _paths_of_a_draw(record: Record, bytes_each: int) -> int:
    """The number of paths of each draw: fewer if memory is short, and an error if there is no room for one."""
    least = _LEAST_PATHS_BINARY if record.spec.likelihood == "bernoulli" else _LEAST_PATHS
    wanted, room = -(-least // number_of_draws(record)), available_memory()
    times = wanted if room is None else max(1, min(wanted, room // max(1, bytes_each)))
    require_memory(times * bytes_each, "a forecast with one path for each draw")
    return times


def cells_by(forecast: Forecast, by: str | Sequence[str] = ()) -> list[dict[str, str]]:
    """Return sums of cells: one for each label of some modes, or combination of labels, in every coming period.

    Examples
    --------
    >>> cells_by(forecast, "origin")[0]
    {'origin': 'EWR Newark', 'month': '2014-01'}
    """
    tensor, time = forecast.record.tensor, forecast.coming.mode
    modes = [tensor.mode(name) for name in ([by] if isinstance(by, str | int) else by)]
    modes = [mode for mode in dict.fromkeys(modes) if mode != time] + [time]
    number = int(np.prod([tensor.shape[mode] for mode in modes]))
    if number > _MOST_SAMPLES:
        raise InputError("by", by, f"must name modes with at most {_MOST_SAMPLES:,} combinations, not {number:,}")
    names = [tensor.mode_names[mode] for mode in modes]
    return [dict(zip(names, each, strict=True)) for each in product(*(map(str, tensor.labels[m]) for m in modes))]

"""Forecasts: the counts of the periods after the last one, with their uncertainty.

A forecast is the run with other rows in the mode of time: those of the coming periods, one or more paths for each draw.
So it predicts, sums and simulates cells as any posterior does.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from allocore.data.available_memory import available_memory, require_memory
from allocore.errors import InputError, whole_number
from allocore.posterior.compared_cells import Compared
from allocore.posterior.draw_bar import watched
from allocore.posterior.forecasts.coming_periods import Coming, coming_periods, future_tensor
from allocore.posterior.forecasts.future_cells import FutureCells
from allocore.posterior.forecasts.time_factors import (
    Paths,
    Smoothness,
    bytes_of_a_path,
    factor_counts,
    future_record,
    learn_smoothness,
)
from allocore.posterior.prediction import number_of_draws

if TYPE_CHECKING:
    import pandas as pd

    from allocore.data.tensor import CountTensor
    from allocore.posterior.posterior import Posterior
    from allocore.run.record import Record

# Runs with fewer draws get several paths for each: in large sums the noise is narrow, and few paths leave gaps.
_LEAST_PATHS = 400
# Sums of zeros and ones visit every cell for every path.
_LEAST_PATHS_BINARY = 100


def make_forecast(
    fitted: "Posterior", horizon: object, mode: str | int | None, season: object, seed: object
) -> "Forecast":
    """Carry on the time factors of all draws."""
    record = fitted._drawn()
    rng = np.random.default_rng(whole_number("seed", seed, least=0))
    coming = coming_periods(record.tensor, horizon, mode, season)
    factors = factor_counts(record, coming.mode)
    smoothness = learn_smoothness(factors, coming.past)
    paths = Paths(factors, coming.past, smoothness, rng)
    times = _paths_of_a_draw(record, bytes_of_a_path(record, coming.mode, factors, len(coming.labels)))
    rates = np.array([paths.draw(len(coming.labels)) for _ in watched(range(times), times, "paths of the future")])
    future = future_record(record, coming.mode, future_tensor(record.tensor, coming), factors, rates, rng)
    return Forecast(fitted, coming, future, smoothness, paths.correlation)


def _paths_of_a_draw(record: "Record", bytes_each: int) -> int:
    """How many paths each draw gets: fewer if memory is short, and an error if there is no room for one."""
    least = _LEAST_PATHS_BINARY if record.spec.likelihood == "bernoulli" else _LEAST_PATHS
    wanted, room = -(-least // number_of_draws(record)), available_memory()
    times = wanted if room is None else max(1, min(wanted, room // max(1, bytes_each)))
    require_memory(times * bytes_each, "a forecast with one path for each draw")
    return times


class Forecast(FutureCells):
    """Counts of coming periods: expected values, quantiles, simulated counts, and scores once the future is known.

    `post.forecast` returns one. Cells are named as for `post.predict`, with the labels of the coming periods. A mode
    that is not named is summed over: without a period, the sum is over the whole horizon. Self-loops that are missing
    in the past are left out of sums.

    Parameters
    ----------
    fitted : Posterior
        The run that is carried on.
    coming : Coming
        The mode of time and the coming periods.
    future : Record
        The draws, with the factors of the coming periods in the mode of time.
    smoothness : Smoothness
        The settings of the discount model that the past makes most probable.
    correlation : float
        How much the factors of one draw rise and fall together.

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
        self, fitted: "Posterior", coming: Coming, future: "Record", smoothness: Smoothness, correlation: float
    ) -> None:
        super().__init__(future, coming.mode, fitted._threads)
        self._fitted, self._coming, self._smoothness = fitted, coming, smoothness
        self._correlation = correlation

    @property
    def fitted(self) -> "Posterior":
        """The run that is carried on, with its past counts.

        Returns
        -------
        Posterior

        Examples
        --------
        >>> forecast.fitted.tensor.shape
        (3, 105, 16, 12, 20)
        """
        return self._fitted

    @property
    def smoothness(self) -> "pd.DataFrame":
        """How the time factors go on: settings of the discount model, and the share of the factors that have each.

        Returns
        -------
        pandas.DataFrame
            `weight` is the share. `discount` is the share of its weight that a period keeps one period later: 1 for
            the mean of all periods, near 0 for the last value. `noise` is the shape of the gamma noise of single
            periods: the larger, the steadier. `pull` is the share of the way back to the mean of all periods that the
            level goes in a period. `season` is the number of periods whose mean count is added to both sides of a
            seasonal index; infinite without a season. `attrs["correlation"]` says how much the factors of one draw
            rise and fall together.

        Examples
        --------
        >>> list(forecast.smoothness.columns)
        ['weight', 'discount', 'noise', 'pull', 'season']
        """
        import pandas as pd

        found = pd.DataFrame({"weight": self._smoothness.weights_G, **self._smoothness.settings._asdict()})
        found = found.sort_values("weight", ascending=False, kind="stable", ignore_index=True)
        found.attrs["correlation"] = self._correlation
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be known before the forecast is used, in sentences.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> forecast.warnings
        ()
        """
        return self._coming.warnings

    def changes(self, interval: float = 0.9) -> "pd.DataFrame":
        """Return what is expected of the classes: their home cells in the coming periods and in the last ones.

        The home cells of a class are those of the labels that together hold half of its profile, in every mode but
        time. Their counts are counts of events, whichever class these belong to. Cells that were never observed in the
        past are left out of both sides; in periods in which a cell is missing, its mean over the others stands.

        Parameters
        ----------
        interval : float
            The probability of the intervals.

        Returns
        -------
        pandas.DataFrame
            One row per class, largest first: its `name`; the mean count per period in its home cells, in as many `last`
            periods as are forecast; the `expected` one, with `low` and `high`; and the `ratio` of expected to last. All
            are NaN if none of its home cells was ever observed.

        Examples
        --------
        >>> list(forecast.changes().columns)
        ['name', 'last', 'expected', 'low', 'high', 'ratio']
        """
        from allocore.posterior.forecasts.class_forecasts import class_changes

        return class_changes(self, interval)

    def evaluate(self, Y_future: "CountTensor", *, interval: float = 0.9) -> "pd.DataFrame":
        """Score the forecast against what happened, beside simple forecasts.

        Parameters
        ----------
        Y_future : CountTensor
            The future, or a tensor that contains it: modes and labels are matched by name, and only the coming periods
            count. Labels that the fit does not have are left out, and so are cells that were never observed in the
            past, such as a held-out set; `attrs["words"]` says so.
        interval : float
            The probability of the intervals that are scored.

        Returns
        -------
        pandas.DataFrame
            For all `cells`, for `positive cells`, for the home cells of `classes` (see `changes`), summed, and for the
            `totals` of the periods: the `forecast`, the `mean` of all past periods, the `last` value, and the value one
            year before, if there is one. These have negative binomial noise, fitted to the past. Smaller scores are
            better: `crps`, the continuous ranked probability score; `ignorance`, minus the binary log of the
            predictive probability; `interval_score`; and `absolute_error` of the expected count. `crps_difference` is
            that to the forecast, positive if the forecast is better, and `standard_error` its standard error, with all
            periods of a cell as one observation. `attrs["words"]` says what it means.

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
        from allocore.posterior.forecasts.forecast_scores import evaluate

        return evaluate(self, Y_future, _check_interval(interval))

    @property
    def coming(self) -> Coming:
        """The mode of time, its past and the coming periods, as numbers.

        Returns
        -------
        Coming

        Examples
        --------
        >>> forecast.coming.year
        12
        """
        return self._coming

    @cached_property
    def _compared(self) -> Compared:
        """What can be compared with the past."""
        return Compared.of(self)

    def __repr__(self) -> str:
        paths, draws = number_of_draws(self.record), number_of_draws(self._fitted.record)
        first, last = self.periods[0], self.periods[-1]
        return (
            f"Forecast of {self.mode} {first}{f' to {last}' * (len(self.periods) > 1)}: {paths} paths of {draws} "
            f"draw{'s' * (draws != 1)}, {self.record.spec.observation.title}"
        )


def _check_interval(interval: float) -> float:
    if not (isinstance(interval, float | np.floating) and 0.0 < interval < 1.0):
        raise InputError(f"interval is {interval!r}, but it must be a number above 0 and below 1")
    return float(interval)

"""Cells of the coming periods, named, summed, predicted and simulated as those of any posterior."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.posterior.cell_predictions import CellPredictions
from allocore.posterior.prediction import number_of_draws

if TYPE_CHECKING:
    import pandas as pd

    from allocore.run.record import Record

_MOST_SAMPLES = 50_000_000


class FutureCells:
    """The draws of a run with the factors of the coming periods in the mode of time, and what they predict."""

    def __init__(self, future: "Record", mode: int, threads: int | None) -> None:
        self._future = CellPredictions(future, threads)
        self._mode, self._threads = mode, threads or available_threads()

    @property
    def periods(self) -> tuple[str, ...]:
        """The labels of the coming periods.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> forecast.periods
        ('2014-01', '2014-02', '2014-03')
        """
        return tuple(map(str, self.record.tensor.labels[self._mode]))

    @property
    def mode(self) -> str:
        """The name of the mode of time.

        Returns
        -------
        str

        Examples
        --------
        >>> forecast.mode
        'month'
        """
        return self.record.tensor.mode_names[self._mode]

    @property
    def record(self) -> "Record":
        """The draws with the factors of the coming periods in the mode of time, one path after another.

        Returns
        -------
        Record

        Examples
        --------
        >>> forecast.record.factors[3].shape
        (2, 200, 3, 5)
        """
        return self._future.record

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
            What was asked, and `rate`, `low` and `high`, as `post.predict` returns them. With `draws`, a pair of the
            frame and an array (n, paths).

        Examples
        --------
        >>> forecast.predict([{"month": month} for month in forecast.periods]).round(-2)
             month     rate    low   high
        0  2014-01  ...
        1  2014-02  ...
        2  2014-03  ...
        """
        if draws:
            return self._future.predict(cells, interval, draws=True, missing=missing)
        return self._future.predict(cells, interval, missing=missing)

    def quantiles(
        self, cells: object, levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95), *, missing: bool = False
    ) -> "pd.DataFrame":
        """Return quantiles of the counts of cells and of sums of cells.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, or array of int, shape (M, n)
            The cells, as for `predict`.
        levels : sequence of float
            The probabilities of the quantiles, rising, above 0 and below 1.
        missing : bool
            Include self-loops in sums.

        Returns
        -------
        pandas.DataFrame
            What was asked, the expected count `rate`, and a column for each level, such as "0.05": the smallest count
            that is not exceeded with this probability.

        Examples
        --------
        >>> list(forecast.quantiles({"carrier": "JetBlue Airways"}, [0.1, 0.5, 0.9]).columns)
        ['carrier', 'rate', '0.1', '0.5', '0.9']
        """
        from allocore.posterior.predict_by_name import check_sums, expected_and_quantiles

        levels_L = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if levels_L.ndim != 1 or not levels_L.size or not ((levels_L > 0.0) & (levels_L < 1.0)).all():
            raise InputError(f"levels is {levels!r}, but it must list numbers above 0 and below 1")
        if (np.diff(levels_L) <= 0.0).any():
            raise InputError(f"levels is {levels!r}, but they must rise")
        boxes, told = self._future._named(cells)
        check_sums(self.record, boxes)
        rate_N, found_LN = expected_and_quantiles(self.record, boxes, levels_L, missing=missing, threads=self._threads)
        columns = {f"{level:g}": each_N for level, each_N in zip(levels_L.tolist(), found_LN, strict=True)}
        return told.assign(**{"rate": rate_N, **columns})

    def simulate(
        self, cells: object, draws: int | None = None, *, seed: int = 0, missing: bool = False
    ) -> NDArray[np.int64]:
        """Draw counts of cells and of sums of cells. All cells of one draw are from one path of the future.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, or array of int, shape (M, n)
            The cells, as for `predict`.
        draws : int, optional
            How many times to draw, with the paths in turn; by default once for each of them.
        seed : int
            The seed of the noise. The paths have the seed of `post.forecast`.
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
        return self._future.simulate(cells, draws, seed=seed, missing=missing)

    def samples(
        self, by: str | Sequence[str] = (), draws: int | None = None, *, cells: object = None, seed: int = 0
    ) -> "pd.DataFrame":
        """Return simulated counts in the long form: a row for each draw of each sum of cells and period.

        It is the form in which the VIEWS prediction challenge takes forecasts: draws as rows, in a Parquet file
        (`frame.to_parquet`, or `--draws-out` on the command line).

        Parameters
        ----------
        by : str or sequence of str
            Modes: a sum for each of their labels, or combination of labels, in every coming period. By default the
            totals of the periods.
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

        from allocore.posterior.predict_by_name import check_sums, simulate

        boxes, told = self._future._named(self.cells_by(by) if cells is None else cells)
        times = number_of_draws(self.record) if draws is None else whole_number("draws", draws)
        if times * len(told) > _MOST_SAMPLES:
            raise InputError(
                f"{len(told):,} sums with {times:,} draws are {times * len(told):,} rows, but at most "
                f"{_MOST_SAMPLES:,} are made: ask for fewer draws or fewer sums"
            )
        check_sums(self.record, boxes)
        noise = whole_number("seed", seed, least=0)
        counts_SN = simulate(self.record, boxes, times, noise, missing=False, threads=self._threads)
        long: pd.DataFrame = told.loc[told.index.repeat(times)].reset_index(drop=True)
        return long.assign(draw=np.tile(np.arange(times), len(told)), outcome=counts_SN.T.ravel())

    def cells_by(self, by: str | Sequence[str] = ()) -> "list[Mapping[str, str]]":
        """Return sums of cells: one for each label of some modes, or combination of labels, in every coming period.

        Parameters
        ----------
        by : str or sequence of str
            The names of the modes.

        Returns
        -------
        list of dict

        Examples
        --------
        >>> forecast.cells_by("origin")[0]
        {'origin': 'EWR Newark', 'month': '2014-01'}
        """
        tensor = self.record.tensor
        modes = [tensor.mode(name) for name in ([by] if isinstance(by, str | int) else by)]
        modes = [mode for mode in dict.fromkeys(modes) if mode != self._mode] + [self._mode]
        number = int(np.prod([tensor.shape[mode] for mode in modes]))
        if number > _MOST_SAMPLES:
            raise InputError(f"by is {by!r}, which are {number:,} sums, but at most {_MOST_SAMPLES:,} are made")
        names = [tensor.mode_names[mode] for mode in modes]
        return [dict(zip(names, each, strict=True)) for each in product(*(map(str, tensor.labels[m]) for m in modes))]

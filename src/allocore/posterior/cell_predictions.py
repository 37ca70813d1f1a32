"""What the draws predict, averaged over all of them: expected counts, probabilities of counts, surprises."""

from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import as_integers, check_coordinates
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.posterior.draws import Draws
from allocore.posterior.scored_cells import (
    CellCounts,
    check_has_cells,
    check_same_tensor,
    observed_cells,
    refuse_training_cells,
    refuse_training_tensor,
)
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.cell_sums import Boxes


class CellPredictions(Draws):
    """The draws of a run with what they predict. All chains are pooled: every draw has the same weight."""

    def __init__(self, record: Record, threads: int | None = None) -> None:
        super().__init__(record)
        self._threads = threads

    def rate(self, coords: object) -> NDArray[np.float64]:
        """Return the expected counts of cells, averaged over all draws of all chains.

        With the rate r of a cell in a draw, the expected count is r for the Poisson likelihood, r p / (1 - p) for the
        negative binomial, and 1 - exp(-r), the probability of a one, for the Bernoulli likelihood. `predict` does the
        same by label, for sums of cells, and with intervals.

        Parameters
        ----------
        coords : array of int, shape (M, n), or HeldOut
            The cells, one per column, whether or not the model was fitted to them: this is a prediction, not a score.
            If they come with a shape, mode names or labels, these must be those of the fitted tensor.

        Returns
        -------
        ndarray of float, shape (n,)

        Examples
        --------
        >>> bool((post.rate(Y.coords[:, :100]) > 0).all())
        True
        """
        from allocore.posterior.prediction import expected_counts

        return expected_counts(self._drawn(), self._check_cells(coords), self._threads or available_threads())

    def log_predictive(self, coords: object, counts: object = None) -> NDArray[np.float64]:
        """Return the log predictive probability of each count.

        The probability of a count under the likelihood is averaged over all draws of all chains; its logarithm is
        returned. A count above 1 has the probability 0 under the Bernoulli likelihood, hence minus infinity.

        Parameters
        ----------
        coords : array of int, shape (M, n), or HeldOut
            The cells, one per column, whether or not the model was fitted to them: `log_ppd` is the score that asks.
            If they come with a shape, mode names or labels, these must be those of the fitted tensor.
        counts : array of int, shape (n,), optional
            The count of each cell; by default those of the held-out set.

        Returns
        -------
        ndarray of float, shape (n,)

        Examples
        --------
        >>> post.log_predictive(Y.coords[:, :3], Y.counts[:3]).shape
        (3,)
        """
        from allocore.posterior.prediction import log_predictive

        if counts is None:
            check_has_cells(coords, "coords without counts")
            counts = coords.counts  # type: ignore[attr-defined]
        return log_predictive(self._drawn(), *self._check_counted(coords, counts), self._threads or available_threads())

    def ppd(self, test: CellCounts, positive_only: bool = False, *, allow_training: bool = False) -> float:
        """Return the pointwise predictive density (PPD) of held-out cells.

        It is the geometric mean of their predictive probabilities: 1 if every count was certain.

        Parameters
        ----------
        test : HeldOut, CountTensor, or anything with `coords` and `counts`
            The held-out cells, such as `split.test` of `ac.hold_out`; see `log_ppd`.
        positive_only : bool
            Judge only cells with counts above 0, the paper's second criterion.
        allow_training : bool
            Score cells that the model was fitted to as well. By default they are an error.

        Returns
        -------
        float

        Examples
        --------
        >>> import allocore as ac
        >>> split = ac.hold_out(Y, fraction=0.01, seed=1)
        >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, seed=0, progress=False)
        >>> 0.0 < model.fit(split.train).posterior_.ppd(split.test) < 1.0
        True
        """
        return float(np.exp(self.log_ppd(test, positive_only, allow_training=allow_training)))

    def log_ppd(self, test: CellCounts, positive_only: bool = False, *, allow_training: bool = False) -> float:
        """Return the logarithm of `ppd`: the mean log predictive probability of held-out cells.

        Parameters
        ----------
        test : HeldOut, CountTensor, or anything with `coords` and `counts`
            The held-out cells, such as `split.test` of `ac.hold_out`. If it has a shape, mode names or labels, these
            must be those of the fitted tensor. A tensor is scored on all its observed cells, zeros included. At most
            ten million cells of a tensor can be scored.
        positive_only : bool
            Judge only cells with counts above 0.
        allow_training : bool
            Score cells that the model was fitted to as well. By default they are an error, for such a score says how
            well the model fits, not how well it predicts.

        Returns
        -------
        float

        Examples
        --------
        >>> import allocore as ac
        >>> test = ac.hold_out(Y, fraction=0.01, seed=1).test
        >>> try:
        ...     post.log_ppd(test)  # `post` was fitted to all of `Y`
        ... except ac.InputError as error:
        ...     print(str(error).partition(":")[0])
        test has cells that the model was fitted to
        >>> post.log_ppd(test, allow_training=True) < 0.0
        True
        """
        check_has_cells(test, "test")
        check_same_tensor(test, self.tensor, "test")
        if isinstance(test, CountTensor):
            return self._log_ppd_of_tensor(test, positive_only, allow_training)
        cells, counts = self._check_counted(test.coords, test.counts)
        if not allow_training:
            refuse_training_cells(cells, self.tensor)
        chosen = counts > 0 if positive_only else np.ones(len(counts), dtype=bool)
        if not chosen.any():
            kind = "positive cell" if positive_only else "cell"
            raise InputError(f"test has {len(counts)} cells, but it must have at least one {kind} to judge")
        return float(self.log_predictive(cells[:, chosen], counts[chosen]).mean())

    def _log_ppd_of_tensor(self, test: CountTensor, positive_only: bool, allow_training: bool) -> float:
        """The mean log predictive probability of all observed cells of a tensor, or of its non-zeros."""
        if not allow_training:
            refuse_training_tensor(test, self.tensor)
        if positive_only:
            return float(self.log_predictive(test.coords, test.counts).mean())
        total, number = 0.0, 0
        for cells, counts in observed_cells(test):
            total += float(self.log_predictive(cells, counts).sum())
            number += len(counts)
        return total / number

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
        """Predict the counts of cells and of sums of cells, by their labels.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, HeldOut, or array of int, shape (M, n)
            A frame of pandas, polars or any other library that narwhals supports, with a column of labels for each
            mode. A dict from mode names to labels, or a tuple with one entry per mode, is one cell; a list of them is
            several. Or coordinates.

            A mode that is not named, or whose entry is None or empty, is summed over. In dicts and tuples, a list or
            a slice of labels, such as `slice("2019-01", "2019-12")` with both ends included, is a sum too, and so is
            a longer period, such as "2019", anywhere: labels mean what they mean to `Y.select`. Other columns of a
            frame are kept, if it has a column for each mode.
        interval : float
            The probability of the intervals, above 0 and below 1.
        draws : bool
            Also return the expected counts in each draw of all chains. `simulate` draws counts.
        missing : bool
            Include cells that were missing in training in sums. By default a sum is over its observed cells, so that
            a masked diagonal is not part of it; nor is what was held out. Single cells are always predicted.

        Returns
        -------
        pandas.DataFrame
            What was asked, and `rate`, the expected count, averaged over all draws; `low` and `high`, the ends of the
            central posterior predictive interval of the count itself, with the noise of the likelihood. Intervals are
            exact, except for sums under the Bernoulli likelihood or with a dispersion for each row, which are
            simulated. With `draws`, a pair of the frame and an array (n, draws).

        Examples
        --------
        >>> post.predict({"carrier": "JetBlue Airways", "month": ["Jun", "Jul", "Aug"]}).round(1)
                   carrier            month  rate  low  high
        0  JetBlue Airways  [Jun, Jul, Aug]  ...
        >>> table = post.predict(Y.to_frame().head(3), interval=0.5)
        >>> list(table.columns)
        ['origin', 'destination', 'carrier', 'month', 'hour', 'count', 'rate', 'low', 'high']
        """
        from allocore.posterior.predict_by_name import check_sums, predict, with_predictions

        if not (isinstance(interval, float | np.floating) and 0.0 < interval < 1.0):
            raise InputError(f"interval is {interval!r}, but it must be a number above 0 and below 1")
        boxes, told = self._named(cells)
        check_sums(self._drawn(), boxes)
        threads = self._threads or available_threads()
        found = predict(self._drawn(), boxes, float(interval), missing=missing, draws=draws, threads=threads)
        table = with_predictions(told, found)
        return table if found.draws_NS is None else (table, found.draws_NS)

    def simulate(
        self, cells: object, draws: int | None = None, *, seed: int = 0, missing: bool = False
    ) -> NDArray[np.int64]:
        """Draw counts of cells and of sums of cells from the posterior predictive distribution.

        Cells of one draw share the values of one draw of the posterior, so that sums, differences and maxima over the
        cells of a draw have the right distribution.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, HeldOut, or array of int, shape (M, n)
            The cells, as for `predict`.
        draws : int, optional
            How many times to draw, with the draws of the posterior in turn; by default once for each of them.
        seed : int
            The seed. The same seed gives the same counts.
        missing : bool
            Include cells that were missing in training in sums, as for `predict`.

        Returns
        -------
        ndarray of int64, shape (draws, n)

        Examples
        --------
        >>> counts = post.simulate([{"month": "Jan"}, {"month": "Feb"}], draws=100, seed=1)
        >>> counts.shape
        (100, 2)
        """
        from allocore.posterior.predict_by_name import check_sums, simulate
        from allocore.posterior.prediction import number_of_draws

        boxes, _ = self._named(cells)
        record = self._drawn()
        check_sums(record, boxes)
        times = number_of_draws(record) if draws is None else whole_number("draws", draws)
        threads = self._threads or available_threads()
        return simulate(record, boxes, times, whole_number("seed", seed, least=0), missing=missing, threads=threads)

    def surprises(self, Y: CellCounts | None = None, top: int = 50) -> "pd.DataFrame":
        """Return the observed cells whose counts are least expected, most surprising first.

        A zero where many counts were expected is a surprise too. In a tensor all observed zeros are searched, from the
        largest expected count down. The search stops after about half a minute and then warns how far it came.

        Parameters
        ----------
        Y : CountTensor, HeldOut, or anything with `coords` and `counts`, optional
            What to judge: a tensor of the same shape as the fitted one, or a held-out set. By default the fitted
            tensor. Missing cells are left out.
        top : int
            How many cells to return.

        Returns
        -------
        pandas.DataFrame
            The labels of each cell; its `observed` count; the `expected` one, averaged over all draws; the `direction`,
            "more" or "fewer"; the two-sided tail probability `p`, averaged over all draws; and `surprise`, -log10 p,
            which is finite even if `p` underflows to 0. Zeros with p = 1 are left out. `attrs["zeros_searched"]` is
            "all", "largest only" if the search stopped early, or "given" for a held-out set.

        Examples
        --------
        >>> table = post.surprises(top=3)
        >>> list(table.columns)
        ['origin', 'destination', 'carrier', 'month', 'hour', 'observed', 'expected', 'direction', 'p', 'surprise']
        >>> bool(table["surprise"].is_monotonic_decreasing), table.attrs["zeros_searched"]
        (True, 'all')
        """
        from allocore.posterior.surprises import comparable, surprises

        cells = comparable(self.tensor if Y is None else Y, self.tensor)
        missing = cells.missing if isinstance(cells, CountTensor) else None
        coords_counts = self._check_counted(cells.coords, cells.counts)
        threads = self._threads or available_threads()
        return surprises(self._drawn(), *coords_counts, top=whole_number("top", top), threads=threads, missing=missing)

    def _named(self, cells: object) -> "tuple[Boxes, pd.DataFrame]":
        """Return the boxes that `cells` names, and a frame with a row for each."""
        from allocore.posterior.named_cells import boxes_of_cells, named_cells

        if isinstance(cells, np.ndarray) or hasattr(cells, "coords"):
            return boxes_of_cells(self._check_cells(cells), self.tensor)
        return named_cells(cells, self.tensor)

    def _check_cells(self, coords: object) -> NDArray[np.int64]:
        """Return coordinates, or those of something that has them, after a check that they fit the fitted tensor."""
        if isinstance(coords, CountTensor):
            raise InputError(
                "coords is a CountTensor, which lists its non-zeros only: pass Y.coords if these are meant"
            )
        if hasattr(coords, "coords"):
            check_same_tensor(coords, self.tensor, "coords")
            coords = coords.coords
        cells = as_integers(coords, "coords")
        check_coordinates(cells, self.tensor.shape, self.tensor.mode_names)
        return cells.astype(np.int64)

    def _check_counted(self, coords: object, counts: object) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        cells, numbers = self._check_cells(coords), as_integers(counts, "counts")
        if numbers.shape != cells.shape[1:] or (numbers < 0).any():
            raise InputError(
                f"counts has shape {numbers.shape} and least value {numbers.min(initial=0)}, but it must hold one "
                f"non-negative count for each of the {cells.shape[1]} cells in coords"
            )
        return cells, numbers.astype(np.int64)

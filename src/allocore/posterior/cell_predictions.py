"""What the draws predict, averaged over all of them: expected counts, probabilities of counts, surprises."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import as_integers, check_coordinates
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.posterior.draws import Draws
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd


class CellCounts(Protocol):
    """Anything with coordinates (M, n) and counts (n): a held-out set, a tensor."""

    @property
    def coords(self) -> NDArray[Any]:
        """Coordinates (M, n)."""

    @property
    def counts(self) -> NDArray[Any]:
        """Counts (n,)."""


class CellPredictions(Draws):
    """The draws of a run with what they predict. All chains are pooled: every draw has the same weight."""

    def __init__(self, record: Record, threads: int | None = None) -> None:
        super().__init__(record)
        self._threads = threads

    def rate(self, coords: object) -> NDArray[np.float64]:
        """Return the expected counts of cells, averaged over all draws of all chains.

        With the rate r of a cell in a draw, the expected count is r for the Poisson likelihood, r p / (1 - p) for the
        negative binomial, and 1 - exp(-r), the probability of a one, for the Bernoulli likelihood.

        Parameters
        ----------
        coords : array of int, shape (M, n)
            The cells, one per column.

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

    def log_predictive(self, coords: object, counts: object) -> NDArray[np.float64]:
        """Return the log predictive probability of each count.

        The probability of a count under the likelihood is averaged over all draws of all chains; its logarithm is
        returned. A count above 1 has the probability 0 under the Bernoulli likelihood, hence minus infinity.

        Parameters
        ----------
        coords : array of int, shape (M, n)
            The cells, one per column.
        counts : array of int, shape (n,)
            The count of each cell.

        Returns
        -------
        ndarray of float, shape (n,)

        Examples
        --------
        >>> post.log_predictive(Y.coords[:, :3], Y.counts[:3]).shape
        (3,)
        """
        from allocore.posterior.prediction import log_predictive

        return log_predictive(self._drawn(), *self._check_counted(coords, counts), self._threads or available_threads())

    def ppd(self, test: CellCounts, positive_only: bool = False) -> float:
        """Return the pointwise predictive density (PPD) of held-out cells.

        It is the geometric mean of their predictive probabilities: 1 if every count was certain.

        Parameters
        ----------
        test : HeldOut, or anything with `coords` and `counts`
            The held-out cells, such as `split.test` of `ac.hold_out`.
        positive_only : bool
            Judge only cells with counts above 0, the paper's second criterion.

        Returns
        -------
        float

        Examples
        --------
        >>> 0.0 < post.ppd(Y) < 1.0
        True
        """
        return float(np.exp(self.log_ppd(test, positive_only)))

    def log_ppd(self, test: CellCounts, positive_only: bool = False) -> float:
        """Return the logarithm of `ppd`: the mean log predictive probability of held-out cells.

        Parameters
        ----------
        test : HeldOut, or anything with `coords` and `counts`
            The held-out cells, such as `split.test` of `ac.hold_out`.
        positive_only : bool
            Judge only cells with counts above 0.

        Returns
        -------
        float

        Examples
        --------
        >>> post.log_ppd(Y) < 0.0
        True
        """
        if not (hasattr(test, "coords") and hasattr(test, "counts")):
            hint = ": pass split.test" if hasattr(test, "test") else ""
            raise InputError(f"test is a {type(test).__name__}, but it must have coords and counts{hint}")
        cells, counts = self._check_counted(test.coords, test.counts)
        chosen = counts > 0 if positive_only else np.ones(len(counts), dtype=bool)
        if not chosen.any():
            kind = "positive cell" if positive_only else "cell"
            raise InputError(f"test has {len(counts)} cells, but it must have at least one {kind} to judge")
        return float(self.log_predictive(cells[:, chosen], counts[chosen]).mean())

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

    def _check_cells(self, coords: object) -> NDArray[np.int64]:
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

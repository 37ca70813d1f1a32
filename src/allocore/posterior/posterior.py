"""The posterior: the draws of a fitted model, what they predict, and what they mean."""

import operator
from typing import TYPE_CHECKING, Any, Protocol, Self

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

    from allocore.posterior.diagnostics import Diagnosis
    from allocore.posterior.draw_summary import DrawSummary


class CellCounts(Protocol):
    """Anything with coordinates (M, n) and counts (n): a held-out set, a tensor."""

    @property
    def coords(self) -> NDArray[Any]:
        """Coordinates (M, n)."""

    @property
    def counts(self) -> NDArray[Any]:
        """Counts (n,)."""


class Posterior(Draws):
    """The draws of a fitted model, with predictions, tables and diagnostics.

    `model.posterior_` and `ac.open_run` return one. Nothing in it changes after the fit, whatever happens to the model.
    Methods that show classes look at one draw: the last of the first chain, unless `draw` and `chain` say otherwise.

    Parameters
    ----------
    record : Record
        The run: its data, settings, draws and trace.
    threads : int, optional
        Threads for predictions; by default one for each available processor.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, chains=2, seed=0, progress=False)
    >>> post = model.fit(Y).posterior_
    >>> post
    Posterior: 2 chains of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5

    The examples of its methods use this `post` and this `Y`.
    """

    def __init__(self, record: Record, threads: int | None = None) -> None:
        super().__init__(record)
        self._threads = threads
        self._draw_summaries: dict[tuple[int, int], DrawSummary] = {}

    def _with_record(self, record: Record) -> Self:
        return type(self)(record, self._threads)

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

    def classes(self, draw: int = -1, top: int = 5, *, chain: int = 0) -> "pd.DataFrame":
        """Return the classes of one draw as a table, largest first.

        Parameters
        ----------
        draw, chain : int
            The draw and the chain to show. Negative numbers count from the end.
        top : int
            How many labels of each factor to name.

        Returns
        -------
        pandas.DataFrame
            `value` is the expected count of the class in the observed cells, `share` its part of the total, and
            `cumulative` the share of this class and all larger ones.

            `stability` is the share of the other draws, of all chains, that contain a like class. `stable_chains` is
            the share of chains, its own included, in which at least half of the draws contain one. Two classes are
            alike if the cosine of their factors is at least 0.9 in every mode; the classes of two draws are matched
            one to one. About 100 draws, spread evenly, are compared. NaN means that there is no other draw or chain.

            For each mode, `<mode>_factor` is the number of the factor that the class uses, `<mode>_top` names its
            heaviest labels, `<mode>_peak` its highest stretches of time (if labels are periods of time), and
            `<mode>_shared` the other classes that use the same factor.

        Examples
        --------
        >>> table = post.classes(top=1)
        >>> list(table.columns[:5])
        ['value', 'share', 'cumulative', 'stability', 'stable_chains']
        >>> bool(table["stability"].between(0, 1).all())
        True
        """
        from allocore.posterior.class_tables import class_table

        return class_table(self.draw_summary(draw, chain=chain), whole_number("top", top))

    def factor(self, mode: str | int, k: int, draw: int = -1, *, chain: int = 0) -> "pd.DataFrame":
        """Return one factor of a draw as a table of labels and shares.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        k : int
            The number of the factor, as in the column `<mode>_factor` of `classes`.
        draw, chain : int
            The draw and the chain to show. Negative numbers count from the end.

        Returns
        -------
        pandas.DataFrame
            One row per label with its `share`, heaviest first; ordered labels, such as months, keep their order.
            `attrs["classes"]` of the table lists the classes that use the factor.

        Examples
        --------
        >>> factor = post.factor("carrier", post.classes()["carrier_factor"][0])
        >>> float(factor["share"].sum().round(6)), factor.attrs["classes"][0]
        (1.0, 0)
        """
        from allocore.posterior.class_tables import factor_table

        return factor_table(self.draw_summary(draw, chain=chain), self.tensor.mode(mode), k)

    def sharing(self, mode: str | int, draw: int = -1, top: int = 5, *, chain: int = 0) -> "pd.DataFrame":
        """Return the factors of a mode that are in use, heaviest first, with the classes that share each.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        draw, chain : int
            The draw and the chain to show. Negative numbers count from the end.
        top : int
            How many labels of each factor to name.

        Returns
        -------
        pandas.DataFrame
            One row per factor: the `share` of all expected counts in its classes, their `number`, the `classes`
            themselves, and its heaviest labels, `top`.

        Examples
        --------
        >>> list(post.sharing("carrier").columns)
        ['share', 'number', 'classes', 'top']
        """
        from allocore.posterior.class_tables import sharing_table

        return sharing_table(self.draw_summary(draw, chain=chain), self.tensor.mode(mode), whole_number("top", top))

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

    def draw_summary(self, draw: int = -1, *, chain: int = 0) -> "DrawSummary":
        """Return the classes and factors of one draw as arrays: what tables, figures and the explorer show.

        Parameters
        ----------
        draw, chain : int
            The draw and the chain. Negative numbers count from the end.

        Returns
        -------
        DrawSummary

        Examples
        --------
        >>> summary = post.draw_summary()
        >>> summary.budget, float(summary.share_C.sum().round(6))
        (5, 1.0)
        """
        from allocore.posterior.draw_summary import summarize_draw

        chains, draws = self._drawn().core_values.shape[:2]
        place = _position("chain", chain, chains), _position("draw", draw, draws)
        if place not in self._draw_summaries:
            self._draw_summaries[place] = summarize_draw(self._record, *place)
        return self._draw_summaries[place]

    def diagnose(self) -> "Diagnosis":
        """Judge whether the chains have converged, and to the same place.

        R-hat and effective sample sizes are computed for quantities that do not depend on the numbers of classes and
        factors, which mean nothing from draw to draw: the log-likelihood, the expected count of all observed cells
        together (for the Bernoulli likelihood their total latent rate), the numbers of classes and of factors in use,
        the dispersion and the concentrations if they are learned, and the expected counts of a dozen cells, half of
        them without counts.

        Returns
        -------
        Diagnosis
            A table, and what it means in sentences.

        Examples
        --------
        >>> list(post.diagnose().table.index[:4])
        ['log-likelihood', 'expected total count', 'classes', 'origin factors']
        """
        from allocore.posterior.diagnostics import diagnose

        return diagnose(self._drawn(), self.likelihood_words())

    def show(self, rows: int = 15, top: int = 3) -> None:
        """Print the largest classes of the last draw of the first chain, and the factors they share.

        Parameters
        ----------
        rows : int
            How many classes to print.
        top : int
            How many labels of each factor to print.

        Examples
        --------
        >>> post.show(rows=2, top=1)
        The 2 largest of ... classes, last draw of chain 0
        ...
        """
        from rich.console import Console

        from allocore.posterior.terminal_tables import class_report

        Console().print(class_report(self, rows, top))

    def _repr_html_(self) -> str:
        from allocore.posterior.notebook import posterior_html

        return posterior_html(self)

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


def _position(name: str, value: int, length: int) -> int:
    try:
        place = operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}, but it must be a whole number") from None
    if not -length <= place < length:
        raise InputError(f"{name} is {value}, but there are {length}: it must be from {-length} to {length - 1}")
    return place % length

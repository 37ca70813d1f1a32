"""What a fit says about data that it has not seen: scores of held-out cells, new rows, forecasts."""

from typing import TYPE_CHECKING, Literal, Self, cast

from allocore.data.convert import as_tensor
from allocore.data.holdout import HeldOut
from allocore.data.matching_rows import Absent, matched_rows
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.posterior.cell_predictions import CellPredictions
from allocore.run.record import Record
from allocore.run.schedule import SWEEPS_OF_NEW_ROWS

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.consensus.consensus import Consensus
    from allocore.posterior.evaluation import Evaluation
    from allocore.posterior.forecasts.forecast import Forecast
    from allocore.posterior.posterior import Posterior


class NewData(CellPredictions):
    """The draws of a run with what they say about data that were not fitted."""

    def __init__(self, record: Record, threads: int | None = None) -> None:
        super().__init__(record, threads)
        self._evaluations: dict[bool, Evaluation] = {}
        # The posterior that new rows were folded into, as long as it is in memory.
        self._fitted: Posterior | None = None

    @property
    def held_out(self) -> HeldOut | None:
        """The cells that were held out of the fit, if the model was fitted to a split of `ac.hold_out`.

        Returns
        -------
        HeldOut or None

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.CP(3, burn_in=5, draws=4, thin=1, seed=1)
        >>> model.fit(ac.hold_out(Y, 0.1, along="month", seed=1)).posterior_.held_out
        HeldOut: 120,960 cells, 1,683 positive, 34,854 counts
        """
        return self._record.held_out

    def evaluate(self, test: object = None, *, allow_training: bool = False) -> "pd.DataFrame":
        """Score predictions of held-out cells, beside simple baselines fitted to the same cells, and say what it means.

        Parameters
        ----------
        test : HeldOut, CountTensor, data frame, or anything with `coords` and `counts`, optional
            The cells to score; by default those that the run holds out, because it was fitted to a split of
            `ac.hold_out` or with `allocore fit --hold-out`. A tensor is scored on all its observed cells, zeros
            included, up to ten million of them. A data frame has a column of labels for each mode, and a column
            `count`; only its rows are scored.
        allow_training : bool
            Score cells that the model was fitted to as well. By default they are an error.

        Returns
        -------
        pandas.DataFrame
            A row for the `model`, and one for each baseline: `one rate`, `independence` (the product of margins), and
            `mean over <last mode>`, the mean of the cells that differ in that mode only, where they were observed.
            `log_ppd`, also of `positive` cells and of `zero` ones; `mae`, the mean absolute error of the expected
            count; `crps`, the continuous ranked probability score; `coverage_50` and `coverage_90`, the share of
            counts within their central intervals, also of `busy` cells, where the prediction gives a count a
            probability of at least one half; and `behind`, by how much the row's log PPD is below the model's. Each
            has a column of standard errors over fibres, with the suffix `_se`.

            `attrs["words"]` says whether that is good or bad, in sentences, and `attrs["level"]` in a word: "good",
            "caution" or "poor". Also in `attrs`: the numbers of `cells`, of those that are `positive` or `busy`, and of
            `fibres`.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.CP(3, burn_in=5, draws=4, thin=1, seed=1)
        >>> table = model.fit(ac.hold_out(Y, 0.1, along="month", seed=1)).posterior_.evaluate()
        >>> list(table.index)
        ['model', 'one rate', 'independence', 'mean over hour']
        >>> print(table.attrs["words"][0])
        Predicts clearly worse than the best baseline (mean over hour): log PPD ...
        """
        return self._evaluation(test, allow_training=allow_training).table.copy()

    def _evaluation(self, test: object = None, *, allow_training: bool = False, brief: bool = False) -> "Evaluation":
        """Score cells; those of the run are scored once and kept. `brief` takes fewer draws of very many cells."""
        from allocore.posterior.evaluation import evaluate
        from allocore.posterior.scored_cells import cells_to_score

        threads = self._threads or available_threads()
        if test is not None:
            cells = cells_to_score(test, self.tensor, allow_training)
            return evaluate(self._drawn(), cells, threads, brief=brief)
        if self.held_out is None:
            raise InputError(
                "the run holds out no cells: pass test, or fit a split, model.fit(ac.hold_out(Y, 0.01)), or with "
                "allocore fit --hold-out 0.01"
            )
        if brief and False in self._evaluations:
            brief = False
        if brief not in self._evaluations:
            self._evaluations[brief] = evaluate(self._drawn(), self.held_out, threads, brief=brief)
        return self._evaluations[brief]

    def fold_in(
        self,
        Y_new: object,
        mode: int | str = -1,
        *,
        absent: Absent = "zero",
        sweeps: int = SWEEPS_OF_NEW_ROWS,
        seed: int | None = None,
        progress: bool = True,
    ) -> Self:
        """Draw new rows of one mode, such as a new month or country, given every draw of the fit, and nothing else.

        The classes, their core values and the factors of the other modes stay as they are in each draw. The new rows of
        factors are drawn from their exact conditional given those and the counts in `Y_new`, by Gibbs sampling.

        Parameters
        ----------
        Y_new : CountTensor, array, sparse array or path
            The counts of the new rows: anything that `as_tensor` takes, with the modes of the fitted tensor. In `mode`
            it has the new rows, one or more. They are new even if the fit knows their labels: more data of a country
            that was fitted, say, are judged by themselves. In the other modes rows are matched by label, in any order;
            a label with counts that the fit does not know is an error. Missing cells stay missing.
        mode : int or str
            The mode of the new rows, by name or number; by default the last.
        absent : {"zero", "missing"}
            What the cells of labels of the fit are that `Y_new` does not have, in the modes other than `mode`. Tables
            of events are complete, hence zero.
        sweeps : int
            Sweeps of the Gibbs sampler for each draw. Rows of very many counts may need more.
        seed : int, optional
            The seed; by default that of the run. The same seed gives the same rows, on any number of threads.
        progress : bool
            Whether to show progress: a bar on a terminal and in a notebook, lines in a log.

        Returns
        -------
        Posterior
            The same chains and draws with the new rows in place of the old ones, and `Y_new` as its tensor: it
            predicts, explains and finds surprises in the new rows. Its consensus has the classes of that of the fit.
            `stats` has one entry per draw, with the log-likelihood of `Y_new`. It can be saved, but not resumed.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.AlloCore(budget=5, burn_in=20, draws=5, thin=1, seed=0, progress=False)
        >>> fitted = model.fit(Y.select(month=slice("Jan", "Nov"))).posterior_
        >>> december = fitted.fold_in(Y.select(month="Dec"), "month")
        >>> december.factors[3].shape, december.tensor.labels[3]
        ((1, 5, 1, 5), ('Dec',))
        >>> december.predict({"carrier": "JetBlue Airways"}).round(-3)
                   carrier    rate   low  high
        0  JetBlue Airways  ...
        """
        from allocore.posterior.draw_bar import draw_bar
        from allocore.run.fold_in import fold_in

        record = self._drawn()
        along, threads = self.tensor.mode(mode), self._threads or available_threads()
        tensor = matched_rows(as_tensor(Y_new), self.tensor, along, absent)
        with draw_bar("folding in", progress) as tick:
            record = fold_in(
                record,
                tensor,
                along,
                sweeps=whole_number("sweeps", sweeps),
                seed=self.seed if seed is None else whole_number("seed", seed, least=0),
                threads=threads,
                tick=tick,
            )
        folded = type(self)(record, self._threads)
        folded._fitted = self  # type: ignore[assignment]
        return folded

    def forecast(
        self,
        horizon: int = 3,
        *,
        mode: str | int | None = None,
        season: int | Literal["auto"] | None = "auto",
        seed: int = 0,
    ) -> "Forecast":
        """Forecast the counts of the periods after the last one.

        In every draw, the factors of the mode of time go on by a discount model of their own past, whose smoothness is
        learned by maximising the probability of the past, each period predicted from the ones before. The other
        factors, the core and the noise of the likelihood stay as they are in the draw.

        Parameters
        ----------
        horizon : int, default 3
            How many periods to forecast.
        mode : str or int, optional
            The mode of time, by name or number; by default the one whose labels are periods of time. Its labels may
            also be whole numbers, or absent.
        season : int, "auto" or None, default "auto"
            The length of the season in periods. By default a year (of days: a week) if there are at least three in the
            data. None is no season.
        seed : int, default 0
            The seed. The same seed gives the same forecast.

        Returns
        -------
        Forecast

        Examples
        --------
        >>> forecast = post.forecast(horizon=2, mode="origin")
        Traceback (most recent call last):
        allocore.errors.InputError: mode 'origin' has labels such as 'LGA New York LaGuardia', but ...

        `Forecast` has an example with months.
        """
        from allocore.posterior.forecasts.forecast import make_forecast

        return make_forecast(cast("Posterior", self), horizon, mode, season, seed)

    def _consensus_of_new_rows(self, progress: bool) -> "Consensus | None":
        """The consensus of rows that were folded in; None if there are none, or the fit is not in memory."""
        if self._fitted is None:
            return None
        from allocore.posterior.consensus.folded_consensus import consensus_of_new_rows

        fit = self._fitted
        return consensus_of_new_rows(self._drawn(), fit.record, fit.consensus(progress=progress), progress)

"""The posterior: the draws of a fitted model, what they predict, and what they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray

from allocore.errors import whole_number
from allocore.kernels.workers import available_threads
from allocore.posterior.new_data import NewData
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.class_summary import ClassSummary
    from allocore.posterior.consensus.consensus import Consensus
    from allocore.posterior.consensus.consensus_file import Numbered
    from allocore.posterior.diagnostics import Diagnosis

ShownDraw = int | Literal["best"] | None


class Posterior(NewData):
    """The draws of a fitted model, with predictions, tables and diagnostics.

    `model.posterior_` and `ac.open_run` return one. Nothing in it changes after the fit, whatever happens to the model.
    What is shown of classes is the consensus of all draws, or a single draw on request: the best one by its log joint
    density, unless `draw` and `chain` say otherwise.

    Parameters
    ----------
    record : Record
        The run: its data, settings, draws and trace.
    threads : int, optional
        Threads for predictions; by default one for each available processor.
    folder : path, optional
        The folder of the run, where its consensus is kept.

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

    def __init__(self, record: Record, threads: int | None = None, *, folder: Path | None = None) -> None:
        super().__init__(record, threads)
        self._folder = folder
        self._draw_summaries: dict[tuple[int, int], ClassSummary] = {}
        self._consensus: Consensus | None = None
        self._numbering: Numbered | None = None
        self._diagnosis: Diagnosis | None = None
        self._log_joint: NDArray[np.float64] | None = None

    def consensus(self, *, progress: bool = True) -> "Consensus":
        """Return what the chains agree on: classes that at least half of them hold.

        The numbers of classes mean nothing from draw to draw, and chains settle in different places. The consensus
        matches the classes of many draws of all chains by their profiles. It is found once. If the run is on disk, it
        is kept there, and its classes keep their numbers and names when the run is resumed.

        Parameters
        ----------
        progress : bool
            Whether to show progress. At budgets of hundreds of classes it takes seconds.

        Returns
        -------
        Consensus

        Examples
        --------
        >>> found = post.consensus()
        >>> found.share.shape == found.support.shape
        True
        >>> found.classes()["name"].head(2)
        class
        0    ...
        1    ...
        Name: name, dtype: ...
        """
        from allocore.posterior.consensus.consensus import find_consensus

        if self._consensus is None:
            self._consensus = self._consensus_of_new_rows(progress) or find_consensus(
                self._drawn(), self._folder, self._numbering, progress
            )
        return self._consensus

    def best_draw(self) -> tuple[int, int]:
        """Return the chain and the draw with the highest log joint density.

        Returns
        -------
        chain, draw : int

        Examples
        --------
        >>> chain, draw = post.best_draw()
        >>> 0 <= chain < 2, 0 <= draw < 10
        (True, True)
        """
        chain, draw = divmod(int(self._log_joint_of_draws().argmax()), self.core_values.shape[1])
        return chain, draw

    def classes(self, draw: ShownDraw = "best", top: int = 5, *, chain: int | None = None) -> "pd.DataFrame":
        """Return the classes of one draw as a table, largest first. `consensus().classes()` has those of all draws.

        Parameters
        ----------
        draw, chain : int or "best"
            The draw and the chain to show. Negative numbers count from the end. By default the draw with the highest
            log joint density, of the chain if that is given; a draw alone is one of chain 0.
        top : int
            How many labels of each profile to name.

        Returns
        -------
        pandas.DataFrame
            `value` is the expected count of the class in the observed cells, `share` its part of the total, and
            `cumulative` the share of this class and all larger ones. `attrs["source"]` names the draw.

            `stability` is the share of the other draws, of all chains, that contain a like class. `stable_chains` is
            the share of chains, its own included, in which at least half of the draws contain one. Two classes are
            alike if the cosine of their profiles is at least 0.9 in every mode; the classes of two draws are matched
            one to one. About 100 draws, spread evenly, are compared. NaN means that there is no other draw or chain.

            For each mode, `<mode>_factor` is the number of the factor that the class uses, `<mode>_top` names the
            heaviest labels of its expected counts in the observed cells, `<mode>_peak` its highest stretches of time
            (if labels are periods of time), and `<mode>_shared` the other classes that use the same factor.

        Examples
        --------
        >>> table = post.classes(top=1)
        >>> list(table.columns[:5])
        ['value', 'share', 'cumulative', 'stability', 'stable_chains']
        >>> table.attrs["source"]
        'draw ... of chain ..., the best by log joint density'
        """
        from allocore.posterior.class_tables import class_table

        return class_table(self.draw_summary(draw, chain=chain), whole_number("top", top))

    def factor(self, mode: str | int, k: int, draw: ShownDraw = "best", *, chain: int | None = None) -> "pd.DataFrame":
        """Return one factor of a draw as a table of labels and shares.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        k : int
            The number of the factor, as in the column `<mode>_factor` of `classes`.
        draw, chain : int or "best"
            The draw and the chain to show, as in `classes`.

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

    def sharing(
        self, mode: str | int, draw: ShownDraw = "best", top: int = 5, *, chain: int | None = None
    ) -> "pd.DataFrame":
        """Return the factors of a mode that are in use in a draw, heaviest first, with the classes that share each.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        draw, chain : int or "best"
            The draw and the chain to show, as in `classes`.
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

    def top_cells(
        self, number: int, top: int = 5, *, draw: ShownDraw = None, chain: int | None = None
    ) -> "pd.DataFrame":
        """Return the cells in which a class expects the most counts, with what was observed there.

        Parameters
        ----------
        number : int
            The number of the class, in the consensus or in the draw.
        top : int
            How many cells to return.
        draw, chain : int or "best", optional
            The draw and the chain, as in `classes`. By default the consensus, if there are several draws.

        Returns
        -------
        pandas.DataFrame
            One row per cell, summed over the modes of time and other ordered modes: the labels of the other modes; the
            expected count `of_class` alone (a latent count for the Bernoulli likelihood); the `expected` count of the
            whole model; and the `observed` count. Missing cells do not count.

        Examples
        --------
        >>> list(post.top_cells(0, top=3).columns)
        ['origin', 'destination', 'carrier', 'of_class', 'expected', 'observed']
        """
        from allocore.posterior.class_cells import top_cells

        summary = self.class_summary(draw, chain=chain)
        threads = self._threads or available_threads()
        return top_cells(self._record, summary, [summary.place(number)], whole_number("top", top), threads)[0]

    def class_summary(self, draw: ShownDraw = None, *, chain: int | None = None) -> "ClassSummary":
        """Return what tables, figures and the report show: the consensus, or one draw on request.

        Parameters
        ----------
        draw, chain : int or "best", optional
            The draw and the chain to show, as in `classes`. By default the consensus, if there are several draws.

        Returns
        -------
        ClassSummary

        Examples
        --------
        >>> post.class_summary().source, post.class_summary(3, chain=1).source
        ('consensus of 2 chains, 20 draws', 'draw 3 of chain 1')
        """
        chains, draws = self._drawn().core_values.shape[:2]
        if draw is None and chain is None and chains * draws > 1:
            return self.consensus().summary
        return self.draw_summary("best" if draw is None else draw, chain=chain)

    def draw_summary(self, draw: ShownDraw = "best", *, chain: int | None = None) -> "ClassSummary":
        """Return the classes and factors of one draw as arrays.

        Parameters
        ----------
        draw, chain : int or "best"
            The draw and the chain, as in `classes`.

        Returns
        -------
        ClassSummary

        Examples
        --------
        >>> summary = post.draw_summary()
        >>> len(summary.names), float(summary.share_C.sum().round(6))
        (5, 1.0)
        """
        from allocore.posterior.class_profiles import ClassReader
        from allocore.posterior.draw_summary import summarize_draw

        place = self._position(draw, chain)
        if place not in self._draw_summaries:
            self._draw_summaries[place] = summarize_draw(ClassReader(self._record), *place, self._source(*place))
        return self._draw_summaries[place]

    def diagnose(self) -> "Diagnosis":
        """Judge whether the chains have converged, and to the same place.

        R-hat and effective sample sizes are computed for quantities that do not depend on the numbers of classes and
        factors, which mean nothing from draw to draw: the log-likelihood, the expected count of all observed cells
        together (for the Bernoulli likelihood their total latent rate), the numbers of classes and of factors in use,
        the dispersion and the concentrations if they are learned, the expected counts of a dozen cells, half of them
        without counts, and the shares of the largest consensus classes.

        Returns
        -------
        Diagnosis
            A table, and what it means in sentences.

        Examples
        --------
        >>> list(post.diagnose().table.index[:4])
        ['log-likelihood', 'expected total count', 'classes', 'origin factors']
        """
        from allocore.posterior.diagnostics import diagnose, judges_draws
        from allocore.posterior.traces import share_traces

        if self._diagnosis is None:
            record = self._drawn()
            shares = share_traces(self.consensus()) if judges_draws(record) else []
            self._diagnosis = diagnose(record, self.likelihood_words(), shares)
        return self._diagnosis

    def show(self, rows: int = 15, top: int = 3, *, draw: ShownDraw = None, chain: int | None = None) -> None:
        """Print the largest classes and the factors they share: of the consensus, or of one draw on request.

        Parameters
        ----------
        rows : int
            How many classes to print.
        top : int
            How many labels of each profile to print.
        draw, chain : int or "best", optional
            The draw and the chain to show, as in `classes`. By default the consensus, if there are several draws.

        Examples
        --------
        >>> post.show(rows=2, top=1)
        2 of ... classes, consensus of 2 chains, 20 draws
        ...
        """
        from allocore.data.safe_console import SafeConsole
        from allocore.posterior.terminal_tables import class_report

        SafeConsole().print(class_report(self, rows, top, draw=draw, chain=chain))

    def _repr_html_(self) -> str:
        from allocore.posterior.notebook import posterior_html

        return posterior_html(self)

    def _with_chains(self, kept: list[int]) -> Self:
        other = type(self)(self._record.with_chains(kept), self._threads)
        # Some chains have their own consensus. Its classes are numbered as those of the run, whose file stays as it is.
        found = self._found_consensus()
        other._numbering = found.numbered if found else self._kept_numbering()
        other._fitted = None if self._fitted is None else self._fitted.select_chains(kept)
        return other

    def _kept_numbering(self) -> "Numbered | None":
        """The numbers and names of classes that are kept with the run."""
        from allocore.posterior.consensus.consensus_file import read_consensus

        kept = None if self._folder is None else read_consensus(self._folder, self._record)
        return self._numbering if kept is None else kept.numbered

    def _found_consensus(self) -> "Consensus | None":
        """The consensus, if it is found already. That of new rows can only be found beside the fit."""
        return self._consensus if self._fitted is None else self.consensus()

    def _save_more(self, folder: Path) -> None:
        if (found := self._found_consensus()) is not None:
            found.keep(folder)

    def _position(self, draw: ShownDraw, chain: int | None) -> tuple[int, int]:
        """The chain and the draw that are meant."""
        from allocore.posterior.draw_summary import place_of

        chains, draws = self._drawn().core_values.shape[:2]
        if draw is None or draw == "best":
            if chain is None:
                return self.best_draw()
            chain = place_of("chain", chain, chains)
            return chain, int(self._log_joint_of_draws()[chain].argmax())
        return place_of("chain", 0 if chain is None else chain, chains), place_of("draw", draw, draws)

    def _log_joint_of_draws(self) -> NDArray[np.float64]:
        """The log joint density of each draw, (chain, draw); found once and kept."""
        from allocore.posterior.log_joint import log_joint_of_draws

        if self._log_joint is None:
            self._log_joint = log_joint_of_draws(self._drawn())
        return self._log_joint

    def _source(self, chain: int, draw: int) -> str:
        """The name of a draw, and whether it is the best of several."""
        chains, draws = self.core_values.shape[:2]
        of_chain = f" of chain {chain}" if chains > 1 else ""
        best = ""
        if chains * draws > 1 and (chain, draw) == self.best_draw():
            best = ", the best by log joint density"
        elif draws > 1 and draw == self._log_joint_of_draws()[chain].argmax():
            best = ", the best of the chain by log joint density"
        return f"draw {draw}{of_chain}{best}"

"""`Posterior`, a facade over the functions that work on the draws of a run, and `open_run`, which opens one on disk."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from allocore._io import path_of
from allocore.classes.numbering import read_start, write_consensus, write_start
from allocore.classes.summary import ShownDraw
from allocore.errors import (
    NO_VALUE,
    Described,
    InputError,
    NotInModelError,
    check_flags,
    is_word,
    place_of,
    whole_number,
)
from allocore.findings import sentences
from allocore.kernels.workers import available_threads
from allocore.model.likelihood import dispersion_of
from allocore.model.spec import LikelihoodName
from allocore.posterior.cells import CellCounts, cells_to_score, check_has_cells, checked_coords, checked_counts
from allocore.posterior.convergence import can_judge, log_joint_of_draws, share_traces
from allocore.posterior.likelihood_check import likelihood_findings
from allocore.posterior.predict import (
    boxes_and_labels,
    drawn,
    expected_counts,
    log_ppd,
    log_predictive,
    predict_cells,
    simulate_cells,
)
from allocore.posterior.surprises import comparable, surprises
from allocore.progress import draw_bar
from allocore.run.fold_in import fold_in
from allocore.storage.record import SWEEPS_OF_NEW_ROWS, Record
from allocore.storage.run_reader import read_record
from allocore.storage.run_writer import write_record
from allocore.storage.zarr_format import OnError
from allocore.tensor.concat import Absent, NewLabels, matched_rows, modes_of_new_rows
from allocore.tensor.coordinates import as_integers
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor
from allocore.tensor.holdout import HeldOut

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import xarray as xr

    from allocore.classes.consensus import Consensus
    from allocore.classes.diff import Diff
    from allocore.classes.graphs import GraphKind
    from allocore.classes.memberships import MembershipTable
    from allocore.classes.numbering import Numbers
    from allocore.classes.reproducibility import Reproducibility
    from allocore.classes.summary import ClassSummary
    from allocore.diagnosis import Answer, Diagnosis
    from allocore.forecast.forecast import Forecast
    from allocore.posterior.check import Check
    from allocore.posterior.evaluate import Evaluation
    from allocore.report.paper_table import TableFormat


class Posterior:
    """The draws of a fitted model, with predictions, tables and diagnostics.

    `model.posterior_` and `ac.open_run` return one. It does not change when the model is fitted again. Predictions pool
    the draws of all chains with equal weights. Classes come from the consensus of all draws, or from a single draw.

    Parameters
    ----------
    record : Record
        The run: its data, settings, draws and trace.
    threads : int, optional
        Threads for predictions; by default one for each available processor.
    folder : path, optional
        The folder of the run, where its consensus is saved.
    start : Numbers, optional
        The numbers and names of the classes of the run where this one started, if it is a refit without a folder.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> model = ac.AlloCore(budget=5, burn_in=20, draws=10, thin=1, chains=2, seed=0, progress=False)
    >>> post = model.fit(Y).posterior_
    >>> post
    Posterior: 2 chains of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5, negative binomial

    The examples of the methods use this `post` and this `Y`.
    """

    def __init__(
        self,
        record: Record,
        threads: int | None = None,
        *,
        folder: Path | None = None,
        start: "Numbers | None" = None,
    ) -> None:
        self._record, self._threads, self._folder = record, threads or available_threads(), folder
        self._start = start if folder is None else read_start(folder, record)
        self._fitted: Posterior | None = None  # the posterior that new rows were folded into, if it is in memory
        self._whole: Posterior | None = None  # the posterior that these chains are from
        # Slow results, computed once.
        self._consensus: Consensus | None = None
        self._diagnosis: Diagnosis | None = None
        self._evaluations: dict[bool, Evaluation] = {}
        self._checks: dict[tuple[int, int], Check] = {}
        self._draw_summaries: dict[tuple[int, int], ClassSummary] = {}

    @property
    def core_values(self) -> NDArray[np.float64]:
        """The core values lambda_q, (chain, draw, Q). The number q of a class has no meaning across draws."""
        return self._record.core_values

    @property
    def core_locations(self) -> NDArray[np.int64]:
        """The location of each class in the core: its factor in every mode, (chain, draw, Q, M)."""
        return cast("NDArray[np.int64]", self._record.core_locations)

    @property
    def factors(self) -> list[NDArray[np.float64]]:
        """The factor matrices: for each mode an array (chain, draw, D_m, K_m), zero for a factor that no class uses.

        In a mode with exposures they include the weights of the rows, so that rates are still sums of products;
        `factors[m] / post.exposure(m)[:, None]` is per unit. The arrays of a large run stay on disk:
        `factors[m][chain, draw]` reads one draw; anything else reads them all.
        """
        return list(cast("tuple[NDArray[np.float64], ...]", self._record.factors))

    def exposure(self, mode: str | int) -> NDArray[np.float64]:
        """Return the known weights of the labels of a mode (`ac.Mode(exposure=...)`): ones if none were given.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.

        Returns
        -------
        ndarray of float, shape (D,)

        Examples
        --------
        >>> post.exposure("origin")
        array([1., 1., 1.])
        """
        number = self.tensor.mode(mode)
        weights_D = self._record.spec.exposure(number)
        return np.ones(self.tensor.shape[number]) if weights_D is None else weights_D.copy()

    @property
    def budget(self) -> NDArray[np.int64]:
        """The number of classes with a positive core value, (chain, draw): draws of the budget if it is inferred."""
        return np.asarray((self.core_values > 0.0).sum(axis=2), dtype=np.int64)

    @property
    def likelihood(self) -> LikelihoodName:
        """The distribution of a count given the rate of its cell: "poisson", "negative-binomial" or "bernoulli"."""
        return self._record.spec.likelihood

    @property
    def dispersion(self) -> NDArray[np.float64]:
        """The dispersion p of the negative binomial, (chain, draw), or (chain, draw, D) with `dispersion_by`.

        The variance of a count is 1 / (1 - p) times its mean. Other likelihoods have no dispersion and raise an error.
        """
        if self._record.log_odds is None:
            raise NotInModelError(
                "dispersion", NO_VALUE, f"needs the negative binomial likelihood; this fit has {self.likelihood!r}"
            )
        return dispersion_of(self._record.log_odds)

    @property
    def concentrations(self) -> NDArray[np.float64]:
        """The concentrations e0 of the modes, the shapes of the gamma priors of their factors, (chain, draw, M).

        NNTuck has no priors: this raises an `InputError` that is also an `AttributeError`.
        """
        if self._record.concentrations is not None:
            return self._record.concentrations
        spec = self._record.spec
        if not spec.has_priors:
            raise NotInModelError(
                "concentrations", NO_VALUE, f"need priors, but {spec.model} is fitted by maximum likelihood"
            )
        fixed_M = [spec.concentration(mode, np.empty(0)) for mode in range(len(spec.core_shape))]
        return np.broadcast_to(np.array(fixed_M), (*self.core_values.shape[:2], len(fixed_M)))

    @property
    def stats(self) -> Mapping[str, NDArray[Any]]:
        """The trace of all sweeps, burn-in included, as arrays by name.

        `log_likelihood`, `classes` (in use), `moved` (the share that changed location) and `seconds` have the shape
        (chain, sweep), and `factors` (in use) has (chain, sweep, M).
        """
        return self._record.stats

    @property
    def draw_sweeps(self) -> NDArray[np.int64]:
        """The sweep of each draw, (draw,), counted from 1: sweep s is at position s - 1 in `stats`."""
        return self._record.draw_sweeps

    @property
    def tensor(self) -> CountTensor:
        """The tensor that the model was fitted to."""
        return self._record.tensor

    @property
    def held_out(self) -> HeldOut | None:
        """The held-out cells if the model was fitted to a split of `ac.hold_out`, otherwise None."""
        return self._record.held_out

    @property
    def seed(self) -> int:
        """The seed of the run. The same seed, settings and data give the same draws."""
        return self._record.seed

    @property
    def finished(self) -> bool:
        """Whether the run has made all planned sweeps."""
        return self._record.complete

    @property
    def preliminary(self) -> bool:
        """Whether this is a quick look (`quick=True`), which `resume` continues to the whole fit."""
        return self._record.preliminary

    @property
    def record(self) -> Record:
        """The record of the run, for the packages below.

        :meta private:
        """
        return self._record

    def select_chains(self, chains: Sequence[int]) -> "Posterior":
        """Return the posterior of some of the chains, for example without one that `diagnose` finds far behind.

        Parameters
        ----------
        chains : sequence of int
            Numbers of chains, without repeats, negative ones from the end. The result numbers them from 0.

        Returns
        -------
        Posterior

        Examples
        --------
        >>> post.select_chains([1])
        Posterior: 1 chain of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5, negative binomial
        """
        number, given = len(self.core_values), as_integers(chains, "chains")
        if given.ndim != 1 or not given.size or not ((-number <= given) & (given < number)).all():
            raise InputError("chains", chains, f"must list one or more chain numbers from {-number} to {number - 1}")
        kept = (given % number).tolist()
        if len(set(kept)) < len(kept):
            raise InputError("chains", chains, "must not name a chain twice")
        other = Posterior(self._record.with_chains(kept), self._threads, start=self._start)
        other._whole = self
        other._fitted = None if self._fitted is None else self._fitted.select_chains(kept)
        return other

    def to_datatree(self, log_likelihood: Literal["held-out", "cells"] | None = None) -> "xr.DataTree":
        """Return the run as an xarray DataTree in the ArviZ schema: the draws, the trace and the data.

        ArviZ 1 takes it directly; for 0.23, use `az.from_datatree(tree)`. Numbers of classes and factors have no
        meaning across draws, and the attributes of arrays with such numbers say so. The group `posterior` also has
        what can be averaged and traced: `class_share` of the consensus classes, `expected_total`, `dispersion` and
        `concentrations`. `sample_stats` has `log_likelihood_total`, the sum over all cells.

        Parameters
        ----------
        log_likelihood : {"held-out", "cells"}, optional
            Add the group `log_likelihood`, with that of single cells in every draw, for `az.loo` and `az.compare`: of
            the held-out cells, or of all non-zero cells and a random sample of the zeros. The coordinate `weight` is
            the number of cells that each one stands for.

        Returns
        -------
        xarray.DataTree
            Labels are coordinates; settings and seed are attributes.

        Examples
        --------
        >>> post.to_datatree()["posterior"]["core_values"].sizes
        Frozen({'chain': 2, 'draw': 10, 'q': 5})
        """
        from allocore.classes.datatree import arviz_tree

        several = self.core_values[..., 0].size > 1
        consensus = self.consensus(progress=False) if several else None
        return arviz_tree(self._record, consensus, log_likelihood, self._threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder, which `ac.open_run` and xarray can open.

        A saved run cannot be resumed: fit with `store=` for that. If the consensus has been computed, it is saved too.

        Parameters
        ----------
        path : str or path
            The folder to write. It must not exist.

        Examples
        --------
        >>> import tempfile
        >>> import allocore as ac
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.save(f"{folder}/run.zarr")
        ...     ac.open_run(f"{folder}/run.zarr")
        Posterior: 2 chains of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5, negative binomial
        """
        folder = path_of(path)
        write_record(self._record, folder)
        if self._start is not None:
            write_start(folder, self._start)
        if (found := self._found_consensus()) is not None:
            write_consensus(folder, self._record, found.estimates, found.numbering)

    def expected(self, coords: object) -> NDArray[np.float64]:
        """Return the expected counts of cells, averaged over all draws of all chains.

        The expected count is the rate r for the Poisson likelihood, r p / (1 - p) for the negative binomial, and 1 -
        exp(-r) for Bernoulli. `predict` takes labels and sums of cells, and returns intervals.

        Parameters
        ----------
        coords : array of int, shape (M, n), or HeldOut
            The cells, one per column. A shape, mode names or labels, if given, must match the fitted tensor.

        Returns
        -------
        ndarray of float, shape (n,)

        Examples
        --------
        >>> bool((post.expected(Y.coords[:, :100]) > 0).all())
        True
        """
        return expected_counts(drawn(self._record), checked_coords(coords, self.tensor), self._threads)

    def log_predictive(self, coords: object, counts: object = None) -> NDArray[np.float64]:
        """Return the log predictive probability of each count: the log of its mean probability over all draws.

        Cells of the fit are allowed here. Under the Bernoulli likelihood, a count above 1 has the value minus infinity.

        Parameters
        ----------
        coords : array of int, shape (M, n), or HeldOut
            The cells, as for `expected`.
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
        if counts is None:
            check_has_cells(coords, "coords")
            counts = coords.counts  # type: ignore[attr-defined]
        return log_predictive(drawn(self._record), *checked_counts(coords, counts, self.tensor), self._threads)

    def ppd(self, test: CellCounts, positive_only: bool = False, *, allow_training: bool = False) -> float:
        """Return the pointwise predictive density (PPD) of held-out cells, exp of `log_ppd`; 1 is certainty.

        Parameters
        ----------
        test, positive_only, allow_training : HeldOut or similar, bool, bool
            As for `log_ppd`.

        Returns
        -------
        float

        Examples
        --------
        >>> import allocore as ac
        >>> test = ac.hold_out(Y, fraction=0.01, seed=1).test
        >>> 0.0 < post.ppd(test, allow_training=True) < 1.0
        True
        """
        return float(np.exp(self.log_ppd(test, positive_only, allow_training=allow_training)))

    def log_ppd(self, test: CellCounts, positive_only: bool = False, *, allow_training: bool = False) -> float:
        """Return the mean log predictive probability of held-out cells.

        Parameters
        ----------
        test : HeldOut, CountTensor, or anything with `coords` and `counts`
            The held-out cells, such as `split.test` of `ac.hold_out`. A shape, mode names or labels must match the
            fitted tensor. A tensor is scored on all its observed cells, zeros included, up to ten million of them.
        positive_only : bool
            Score only cells with counts above 0, the paper's second criterion.
        allow_training : bool
            Also score cells that the model was fitted to; this measures the fit. By default they raise an error.

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
        ...     print(error.argument)
        test
        """
        check_flags(positive_only=positive_only, allow_training=allow_training)
        return log_ppd(
            self._record, test, positive_only=positive_only, allow_training=allow_training, threads=self._threads
        )

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
        """Predict the counts of cells and of sums of cells, by label.

        Parameters
        ----------
        cells : data frame, list, dict, tuple, HeldOut, or array of int, shape (M, n)
            One cell is a dict from mode names to labels, or a tuple with one entry per mode. Several cells are a list
            of these, coordinates, or a data frame (pandas, polars or another that narwhals supports) with a column of
            labels for each mode. A frame with a column for every mode keeps its other columns. A mode that is not
            named, or whose entry is None or empty, is summed over. In dicts and tuples, a list or a slice of labels,
            such as `slice("2019-01", "2019-12")` with both ends included, is also a sum, and so is a longer period,
            such as "2019": labels are read as in `Y.select`.
        interval : float
            The probability of the intervals, above 0 and below 1.
        draws : bool
            Also return the expected counts in each draw.
        missing : bool
            Include cells in sums that were missing in training, or held out. Single cells are always predicted.
        per_unit : bool
            Predict as if all exposures (known weights of labels) were 1: rates per unit, and the counts of one unit.

        Returns
        -------
        pandas.DataFrame
            The cells; `expected`, the mean expected count of all draws; `low` and `high`, the ends of the central
            predictive interval of the count. Intervals are exact, but simulated for sums under the Bernoulli likelihood
            or with a dispersion for each row. With `draws`, a pair: the frame, and an array (n, draws). After `check`,
            `attrs["sentences"]` says whether intervals of sums are too narrow, and by how much.

        Examples
        --------
        >>> post.predict({"carrier": "JetBlue Airways", "month": ["Jun", "Jul", "Aug"]}).round(1)
                   carrier            month  expected  low  high
        0  JetBlue Airways  [Jun, Jul, Aug]  ...
        """
        check_flags(draws=draws, missing=missing, per_unit=per_unit)
        record = self._record.per_unit() if per_unit else self._record
        table, draws_NS = predict_cells(record, cells, interval, threads=self._threads, draws=draws, missing=missing)
        if notes := self._notes_on_sums(cells):
            table.attrs["sentences"] = notes
        return table if draws_NS is None else (table, draws_NS)

    def simulate(
        self, cells: object, draws: int | None = None, *, seed: int = 0, missing: bool = False
    ) -> NDArray[np.int64]:
        """Draw counts of cells and of sums of cells from the posterior predictive distribution.

        All cells of a simulated draw use one draw of the posterior, so their sums and maxima are distributed correctly.

        Parameters
        ----------
        cells, missing : cells as for `predict`, bool
            As for `predict`.
        draws : int, optional
            How many draws to make, from the draws of the posterior in turn; by default one from each of them.
        seed : int
            The same seed gives the same counts.

        Returns
        -------
        ndarray of int64, shape (draws, n)

        Examples
        --------
        >>> post.simulate([{"month": "Jan"}, {"month": "Feb"}], draws=100, seed=1).shape
        (100, 2)
        """
        check_flags(missing=missing)
        return simulate_cells(self._record, cells, draws, seed=seed, threads=self._threads, missing=missing)

    def surprises(self, Y: CellCounts | None = None, top: int = 50) -> "pd.DataFrame":
        """Return the observed cells with the least expected counts, most surprising first.

        Zeros are searched too, from the largest expected count down; after half a minute the search stops and warns.

        Parameters
        ----------
        Y : CountTensor, HeldOut, or anything with `coords` and `counts`, optional
            A tensor of the same shape as the fitted one (the default), or a held-out set. Missing cells are left out.
        top : int
            How many cells to return.

        Returns
        -------
        pandas.DataFrame
            The labels of each cell; its `observed` and `expected` counts; the `direction`, "more" or "fewer"; the
            two-sided tail probability `p`, averaged over all draws; and `surprise`, -log10 p, which is finite even if
            `p` underflows. Zeros with p = 1 are left out. `attrs["zeros_searched"]` is "all", "largest only" if the
            search stopped early, or "given" for a held-out set.

        Examples
        --------
        >>> list(post.surprises(top=3).columns[5:])
        ['observed', 'expected', 'direction', 'p', 'surprise']
        """
        cells = comparable(self.tensor if Y is None else Y, self.tensor)
        missing = cells.missing if isinstance(cells, CountTensor) else None
        counted, top = checked_counts(cells.coords, cells.counts, self.tensor), whole_number("top", top)
        return surprises(drawn(self._record), *counted, top=top, threads=self._threads, missing=missing)

    def evaluate(self, test: object = None, *, allow_training: bool = False, brief: bool = False) -> "Evaluation":
        """Score predictions of held-out cells against simple baselines that are fitted to the same cells.

        Parameters
        ----------
        test : HeldOut, CountTensor, data frame, or anything with `coords` and `counts`, optional
            The cells, as for `log_ppd`; by default those held out of the fit. A data frame has a column of labels for
            each mode, and a column `count`; only its rows are scored.
        allow_training : bool
            Also score cells that the model was fitted to. By default they raise an error.
        brief : bool
            Use fewer draws if there are very many cells, unless all draws have been used before.

        Returns
        -------
        Evaluation

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.CP(3, burn_in=5, draws=4, thin=1, chains=1, seed=1)
        >>> found = model.fit(ac.hold_out(Y, 0.1, along="month", seed=1)).posterior_.evaluate()
        >>> list(found.table.index)
        ['model', 'one rate', 'independence', 'mean over hour']
        >>> print(found.sentences[0])
        Predicts clearly worse than the best baseline (mean over hour): log PPD ...
        """
        from allocore.posterior.evaluate import evaluate

        check_flags(allow_training=allow_training, brief=brief)
        record = drawn(self._record)
        if test is not None:
            return evaluate(record, cells_to_score(test, self.tensor, allow_training), self._threads, brief=brief)
        if self.held_out is None:
            raise InputError("test", None, "must be given: the run has no held-out cells, as fits to a split have")
        brief = brief and False not in self._evaluations
        if brief not in self._evaluations:
            self._evaluations[brief] = evaluate(record, self.held_out, self._threads, brief=brief)
        found = self._evaluations[brief]
        return replace(found, table=found.table.copy())

    def check(self, draws: int = 200, *, seed: int = 0) -> "Check":
        """Check whether the model looks like the data: compare them with whole tensors simulated from the draws.

        The statistics are the total, the number of non-zero cells, the largest count, the share of the counts in the
        largest 1% of the non-zero cells, the total of every label, the variance of totals over time, and for two modes
        with the same labels the degrees, the reciprocity and the clustering coefficient of their network. Statistics
        that do not apply are left out. Missing cells stay missing.

        Parameters
        ----------
        draws : int, default 200
            How many tensors to simulate, at least 40, from the draws of the posterior in turn.
        seed : int, default 0
            The same seed gives the same tensors.

        Returns
        -------
        Check

        Examples
        --------
        >>> found = post.check(draws=40)
        >>> list(found.table.index[:3])
        ['total', 'non-zero cells', 'largest count']
        >>> print(found.sentences[0])
        The data differ from the 40 tensors that the model simulates: ...
        """
        from allocore.posterior.check import LEAST_TENSORS, check

        draws, seed = whole_number("draws", draws, least=LEAST_TENSORS), whole_number("seed", seed, least=0)
        if (draws, seed) not in self._checks:
            self._checks[draws, seed] = check(drawn(self._record), draws, seed)
            if self._diagnosis is not None:
                self._diagnosis = replace(self._diagnosis, fit=self._fit_answer())
        found = self._checks[draws, seed]
        return replace(found, table=found.table.copy(), labels=found.labels.copy(), simulated=found.simulated.copy())

    def brief_check(self) -> "Check | None":
        """Return the largest check made before, or a new one of up to 60 tensors if that takes seconds.

        The page of a run and `allocore predict` use it.

        Returns
        -------
        Check or None
            None if even 40 tensors would take longer, or if the cells stay on disk.

        Examples
        --------
        >>> post.brief_check().level
        'caution'
        """
        from allocore.posterior.check import brief_draws

        if self._checks:
            return self._checks[max(self._checks)]
        draws = brief_draws(self._record)
        return None if draws is None else self.check(draws)

    def fold_in(
        self,
        Y_new: object,
        mode: int | str | Sequence[int | str] = -1,
        *,
        absent: Absent = "zero",
        new_labels: NewLabels = "error",
        exposure: object = None,
        sweeps: int = SWEEPS_OF_NEW_ROWS,
        seed: int | None = None,
        progress: bool = True,
    ) -> "Posterior":
        """Draw new rows of one mode, such as a new month, or new nodes of a network, given every draw of the fit.

        The classes, their core values and the factors of the other modes do not change. The new rows of factors are
        drawn from their exact conditional given those and the counts in `Y_new`, by Gibbs sampling.

        Parameters
        ----------
        Y_new : CountTensor, array, sparse array or path
            The counts of the new rows: anything that `as_tensor` takes, with the modes of the fitted tensor. All its
            rows in `mode` count as new, even if the fit has their labels. In the other modes rows are matched by label,
            in any order. Missing cells stay missing.
        mode : int or str, or pair of int or str
            The mode of the new rows, by name or number; by default the last. A pair of modes with the same labels, such
            as `("sender", "receiver")`, for new nodes of a network: labels of `Y_new` that the fit does not have. They
            get a row in both modes (one for both, if the modes are tied), and ties of known nodes with one another are
            left out.
        absent : {"zero", "missing"}
            Whether cells of labels that only the fit has, in the other modes, are zeros (as for events) or missing.
        new_labels : {"error", "drop"}
            What to do with labels of the other modes that have counts but are not in the fit: raise an error, or leave
            them out with a warning. If the new tensor has a report, the report says so too.
        exposure : sequence of float, mapping or Series, optional
            The known weights of the new rows, as for `ac.Mode`. Required if the fit has exposures for this mode, unless
            `read_events` weighed the new rows by their days.
        sweeps : int
            Sweeps of the Gibbs sampler for each draw. Rows with very many counts may need more.
        seed : int, optional
            By default the seed of the run. The same seed gives the same rows, on any number of threads.
        progress : bool
            Whether to show progress.

        Returns
        -------
        Posterior
            The same chains, draws and consensus classes with the new rows in place of the old ones, and `Y_new` as
            tensor. `stats` has one entry per draw, with the log-likelihood of `Y_new`. It can be saved, not resumed.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.AlloCore(budget=5, burn_in=20, draws=5, thin=1, chains=1, seed=0, progress=False)
        >>> fitted = model.fit(Y.select(month=slice("Jan", "Nov"))).posterior_
        >>> december = fitted.fold_in(Y.select(month="Dec"), "month")
        >>> december.factors[3].shape, december.tensor.labels[3]
        ((1, 5, 1, 5), ('Dec',))
        """
        along = modes_of_new_rows(self.tensor, mode)
        tensor = matched_rows(as_tensor(Y_new), self.tensor, along, absent, new_labels)
        with draw_bar("folding in", progress) as tick:
            record = fold_in(
                drawn(self._record),
                tensor,
                along,
                exposure=exposure,
                sweeps=whole_number("sweeps", sweeps),
                seed=self.seed if seed is None else whole_number("seed", seed, least=0),
                threads=self._threads,
                tick=tick,
            )
        folded = Posterior(record, self._threads)
        folded._fitted = self
        return folded

    def forecast(
        self,
        horizon: int = 3,
        *,
        mode: str | int | None = None,
        season: int | Literal["auto"] | None = "auto",
        exposure: object = None,
        seed: int = 0,
    ) -> "Forecast":
        """Forecast the counts of the periods after the last one.

        In every draw, each factor of the mode of time continues by a discount model, whose smoothness maximises the
        probability of its past, each period predicted from the ones before. The rest of the draw does not change.

        Parameters
        ----------
        horizon : int, default 3
            How many periods to forecast.
        mode : str or int, optional
            The mode of time; by default the one whose labels are periods. Labels may also be whole numbers, or absent.
        season : int, "auto" or None, default "auto"
            The season in periods, or None. By default a year (a week for days) if the data have three or more.
        exposure : sequence of float, or mapping or Series from labels to floats, optional
            The known weights of the coming periods. Required if the fit has exposures for its periods, unless
            `read_events` weighed these by their days: coming periods then have all their days.
        seed : int, default 0
            The same seed gives the same forecast.

        Returns
        -------
        Forecast

        Examples
        --------
        >>> import allocore as ac
        >>> monthly = Y.with_labels({"month": [f"2013-{month:02d}" for month in range(1, 13)]})
        >>> ac.CP(3, burn_in=5, draws=4, thin=1, chains=1, seed=1).fit(monthly).posterior_.forecast(horizon=2)
        Forecast of month 2014-01 to 2014-02: 400 paths of 4 draws, negative binomial
        """
        from allocore.forecast.forecast import make_forecast

        return make_forecast(self, horizon, mode, season, exposure=exposure, seed=seed, threads=self._threads)

    def consensus(self, *, progress: bool = True) -> "Consensus":
        """Return the classes that at least a quarter of the chains have.

        The classes of many draws of all chains are matched by their profiles. The result is computed once; a run on
        disk stores it, and its classes keep their numbers and names when the run is resumed. A refit (`start=`) keeps
        those of the run where it started, and its findings list lost and new classes.

        Parameters
        ----------
        progress : bool
            Whether to show progress. With hundreds of classes it takes seconds.

        Returns
        -------
        Consensus

        Examples
        --------
        >>> found = post.consensus()
        >>> found.share.shape == found.support.shape
        True
        """
        from allocore.classes.consensus import consensus_of_new_rows, find_consensus

        if self._consensus is None:
            record, fit = drawn(self._record), self._fitted
            if fit is None:
                # Some chains have their own consensus, whose classes are numbered as those of all chains.
                known = None if self._whole is None else self._whole.consensus(progress=progress).numbering.known
                self._consensus = find_consensus(record, self._folder, known, self._start, progress)
            else:
                self._consensus = consensus_of_new_rows(record, fit._record, fit.consensus(progress=progress), progress)
        return self._consensus

    def memberships(
        self, mode: str | int, what: "MembershipTable" = "nodes", *, progress: bool = True
    ) -> "pd.DataFrame":
        """Return the memberships of the nodes of a mode, such as countries, in its communities.

        The communities of a mode are the factors of the consensus classes in it; classes that share a factor are of one
        community. The membership of a node is the share of its expected counts, over the observed cells, that is in the
        classes of a community: m[d, g] = sum of n[d, q] over the classes q of g / sum of n[d, q] over all classes q,
        where n[d, q] is the expected count of class q in the cells of node d. It is computed in up to 400 draws of all
        chains, each matched with the consensus. In a draw, a class without a match belongs to the community of the
        largest matched class with the same factor; if there is none, it is in no community.

        Two tied modes have the same communities, and a node has one membership: its counts in both roles are added up.

        The main community of a node has its largest membership. In a draw in which a factor outside of all communities
        has more, the node has no main community.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        what : {"nodes", "shares", "communities"}
            One row per node, per node and community, or per community.
        progress : bool
            Whether to show progress.

        Returns
        -------
        pandas.DataFrame
            Per node, in the order of the tensor: its main `community`, by the lowest number of its classes, and the
            `name` of it, the labels with most of its counts; the `probability` that it is the main one, the share of
            the draws in which it is; the mean membership in it, `share`, with the 90% interval `low` to `high`; its
            largest memberships in words, `mixed`; the part `other` that is in no community; and its `expected` counts.
            Nodes without observed cells have no community. Per node and community: `community`, `name`, `probability`,
            `share`, `low` and `high`. Per community, largest first: its `name`, its `share` of all expected counts, the
            number of `nodes` whose main community it is, and the numbers of its `classes`.

        Examples
        --------
        >>> list(post.memberships("carrier").columns[:4])
        ['community', 'name', 'probability', 'share']
        >>> shares = post.memberships("carrier", "shares")
        >>> bool((shares.groupby("carrier")["share"].sum() <= 1 + 1e-9).all())
        True
        """
        return self.consensus(progress=progress).memberships(mode, progress=progress).frame(what)

    def to_networkx(
        self,
        kind: "GraphKind" = "communities",
        *,
        modes: Sequence[str | int] | None = None,
        least: float = 0.5,
        progress: bool = True,
    ) -> "nx.Graph":
        """Return the results as a graph of networkx, to analyse, draw or write it with other tools.

        "communities": who acts on whom. The nodes are the communities of `memberships`, with their name as `label`,
        their number as `community`, `share` of all expected counts, number of `nodes`, and `classes`. The weight of an
        edge is the expected count of the classes from the one community to the other; `share` is its part of the total,
        and `top` names the heaviest labels of the next mode that is not time. Modes that are not tied have communities
        of their own, named with their `mode`.

        "classes": the classes of the consensus, undirected. The weight of an edge is the expected number of factors
        that two classes share: the sum over modes of the probabilities `<mode>_sharing`.

        "expected": the nodes of the tensor, such as countries, with their main `community`, its `probability`, and the
        `share` of the node in it; in each of two modes that are not tied, `<mode>_community` and so on. The weight of
        an edge is the expected count of the pair over its observed cells, the mean of up to 100 draws, and `observed`
        its count in the data.

        Parameters
        ----------
        kind : {"communities", "classes", "expected"}
            What the nodes are.
        modes : sequence of two str or int, optional
            The two modes of the network; by default those with the same labels.
        least : float
            The least weight of an edge; those with less are left out.
        progress : bool
            Whether to show progress.

        Returns
        -------
        networkx.DiGraph or networkx.Graph
            Without directions between classes, and if ties are undirected. Needs networkx.

        Examples
        --------
        >>> graph = post.to_networkx("expected", modes=["origin", "carrier"], least=100)
        >>> graph
        <networkx.classes.digraph.DiGraph object at ...>
        >>> sorted(graph["EWR Newark"]["United Air Lines"])
        ['observed', 'weight']
        """
        from allocore.classes.graphs import graph_of

        record = drawn(self._record)
        return graph_of(record, self.consensus(progress=progress), kind, modes, least, self._threads, progress)

    def reproducibility(self, *, progress: bool = True) -> "Reproducibility":
        """Return how well sets of the chains agree on the classes: would another run find the same?

        The consensus of random halves of the chains, and of smaller sets, is compared, once. New rows that were folded
        in have the classes of their fit.

        Parameters
        ----------
        progress : bool
            Whether to show progress. With many chains and hundreds of classes it takes seconds.

        Returns
        -------
        Reproducibility

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.CP(3, burn_in=5, draws=4, thin=1, chains=4, seed=1).fit(ac.load_flights())
        >>> bool(0.0 <= model.posterior_.reproducibility().agreement <= 1.0)
        True
        """
        from allocore.classes.reproducibility import check_chains

        check_chains(len(self.core_values))
        return cast("Reproducibility", self.consensus(progress=progress).reproducibility)

    def best_draw(self) -> tuple[int, int]:
        """Return the draw with the highest log joint density.

        Returns
        -------
        chain, draw : int

        Examples
        --------
        >>> chain, draw = post.best_draw()
        >>> 0 <= chain < 2, 0 <= draw < 10
        (True, True)
        """
        chain, draw = divmod(int(self._log_joint.argmax()), self.core_values.shape[1])
        return chain, draw

    def classes(self, draw: ShownDraw = "best", top: int = 5, *, chain: int | None = None) -> "pd.DataFrame":
        """Return the classes of one draw as a table, largest first; `consensus().classes()` has those of all draws.

        Parameters
        ----------
        draw, chain : int or "best"
            The draw and the chain to show; negative numbers count from the end. By default the draw with the highest
            log joint density, of `chain` if that is given. A draw without a chain is one of chain 0.
        top : int
            How many labels of each profile to name.

        Returns
        -------
        pandas.DataFrame
            `value` is the expected count of the class in the observed cells, `share` its part of the total, and
            `cumulative` the share of this class and all larger ones. `attrs["source"]` names the draw. `stability` is
            the share of the other draws, of all chains, that have a similar class. `stable_chains` is the share of
            chains, its own included, in which at least half of the draws have one. Two classes are similar if the
            cosine of their profiles is at least 0.9 in every mode; the classes of two draws are matched one to one.
            About 100 draws, spread evenly, are compared. NaN means that there is no other draw or chain. For each mode,
            `<mode>_factor` is the number of the factor of the class, `<mode>_top` names the heaviest labels of its
            expected counts, `<mode>_peak` its highest stretches of time (if labels are periods of time), and
            `<mode>_shared` the other classes with the same factor.

        Examples
        --------
        >>> table = post.classes(top=1)
        >>> list(table.columns[:5])
        ['value', 'share', 'cumulative', 'stability', 'stable_chains']
        >>> table.attrs["source"]
        'draw ... of chain ..., the best by log joint density'
        """
        from allocore.classes.tables import class_table

        return class_table(self._draw_summary(draw, chain), whole_number("top", top))

    def factor(self, mode: str | int, k: int, draw: ShownDraw = "best", *, chain: int | None = None) -> "pd.DataFrame":
        """Return one factor of a draw as a table of labels and shares.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        k : int
            The number of the factor, as in the column `<mode>_factor` of `classes`.
        draw, chain : int or "best"
            As for `classes`.

        Returns
        -------
        pandas.DataFrame
            One row per label and its `share`, heaviest first unless labels are ordered; `attrs["classes"]` has classes.

        Examples
        --------
        >>> factor = post.factor("carrier", post.classes()["carrier_factor"][0])
        >>> float(factor["share"].sum().round(6)), factor.attrs["classes"][0]
        (1.0, 0)
        """
        from allocore.classes.tables import factor_table

        return factor_table(self._draw_summary(draw, chain), self.tensor.mode(mode), k)

    def sharing(
        self, mode: str | int, draw: ShownDraw = "best", top: int = 5, *, chain: int | None = None
    ) -> "pd.DataFrame":
        """Return the factors of a mode that are in use in a draw, heaviest first, with the classes that share each.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        draw, top, chain : int or "best", int, int
            As for `classes`.

        Returns
        -------
        pandas.DataFrame
            One row per factor: the `share` of its classes, their `number`, the `classes`, and its `top` labels.

        Examples
        --------
        >>> list(post.sharing("carrier").columns)
        ['share', 'number', 'classes', 'top']
        """
        from allocore.classes.tables import sharing_table

        return sharing_table(self._draw_summary(draw, chain), self.tensor.mode(mode), whole_number("top", top))

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
            As for `class_summary`.

        Returns
        -------
        pandas.DataFrame
            One row per cell, summed over ordered modes such as time: its labels, the expected count `of_class`, as if
            there were no other class, the `expected` count of the model, and the `observed` count. Missing cells are
            left out.

        Examples
        --------
        >>> list(post.top_cells(0, top=3).columns)
        ['origin', 'destination', 'carrier', 'of_class', 'expected', 'observed']
        """
        from allocore.classes.tables import top_cells

        summary = self.class_summary(draw, chain=chain)
        return top_cells(self._record, summary, [summary.place(number)], whole_number("top", top), self._threads)[0]

    def class_summary(self, draw: ShownDraw = None, *, chain: int | None = None) -> "ClassSummary":
        """Return the classes and factors that tables, figures and the report show, as arrays.

        Parameters
        ----------
        draw, chain : int or "best", optional
            The draw and the chain to show, as for `classes`. By default the consensus, if there are several draws.

        Returns
        -------
        ClassSummary

        Examples
        --------
        >>> post.class_summary().source, post.class_summary(3, chain=1).source
        ('consensus of 2 chains, 20 draws', 'draw 3 of chain 1')
        """
        chains, draws = drawn(self._record).core_values.shape[:2]
        if draw is None and chain is None and chains * draws > 1:
            return self.consensus().summary
        return self._draw_summary(draw, chain)

    def diagnose(self) -> "Diagnosis":
        """Answer three questions: on the predictions, on the classes, and on the fit of the model to the data.

        Each answer has a light, a number, a sentence, and advice if there is any that can change the light. The third
        uses the largest check made before, or a brief one, and a sample of the held-out cells unless `evaluate` has
        scored them all. It takes seconds and is computed once.

        The table has R-hat and effective sample sizes of quantities that do not depend on the numbering of classes and
        factors: the log-likelihood, the expected total count of the observed cells (the total latent rate for
        Bernoulli), the numbers of classes and factors in use, learned dispersions and concentrations, the expected
        counts of a dozen cells, half of them without counts, and the shares of the largest consensus classes.

        Returns
        -------
        Diagnosis

        Examples
        --------
        >>> for answer in post.diagnose().answers:
        ...     print(answer.level, "-", answer.question)
        good - Can I use the predictions?
        caution - Would another run find the same classes?
        caution - Does the model look like the data?
        >>> list(post.diagnose().table.index[:4])
        ['log-likelihood', 'expected total count', 'classes', 'origin factors']
        """
        from allocore.classes.reproducibility import LEAST_CHAINS
        from allocore.diagnosis import diagnose

        if self._diagnosis is None:
            record = drawn(self._record)
            shares = []
            if can_judge(record):
                found = self.consensus()
                strong_C = ~found.summary.apart_C
                shares = share_traces(found.numbers[strong_C], found.shares_by_draw[..., strong_C])
            halves = self.consensus().reproducibility if len(record.core_values) >= LEAST_CHAINS else None
            likelihood, fit = likelihood_findings(record), self._fit_answer()
            self._diagnosis = diagnose(record, likelihood, shares, halves, fit, self._threads)
        return self._diagnosis

    def _fit_answer(self) -> "Answer":
        """Whether the model looks like the data, by what has been computed before if possible."""
        from allocore.diagnosis import fit_answer
        from allocore.posterior.evaluate import evaluate_some

        record, scores = drawn(self._record), self._evaluations
        found = scores.get(False, scores.get(True))
        if found is None and self.held_out is not None:
            found = evaluate_some(record, self.held_out, self._threads)
            known = found.table.attrs
            if (known["cells"], known["draws"]) == (len(self.held_out), known["all_draws"]):
                scores[False] = found
        return fit_answer(record, self.brief_check(), found)

    def show(self, rows: int = 15, top: int = 3, *, draw: ShownDraw = None, chain: int | None = None) -> None:
        """Print the largest classes and the factors they share.

        Parameters
        ----------
        rows, top : int
            How many classes, and how many labels of each profile, to print.
        draw, chain : int or "best", optional
            As for `class_summary`.

        Examples
        --------
        >>> post.show(rows=2, top=1)
        2 of ... classes, consensus of 2 chains, 20 draws
        ...
        """
        from allocore.report.terminal import SafeConsole, class_report

        SafeConsole().print(class_report(self, rows, top, draw=draw, chain=chain))

    def _notes_on_sums(self, cells: object) -> tuple[str, ...]:
        """What a check that was made before says about intervals of sums, if there are sums among the cells."""
        if not self._checks:
            return ()
        from allocore.posterior.check import sum_findings

        found = sum_findings(self._checks[max(self._checks)])
        return sentences(found) if found and boxes_and_labels(self._record, cells)[0].summed_N.any() else ()

    def _repr_html_(self) -> str:
        from allocore.report.terminal import posterior_html

        return posterior_html(self)

    def __repr__(self) -> str:
        chains, draws, budget = self.core_values.shape
        spec = self._record.spec
        core = " x ".join(str(size) for size in spec.core_shape)
        likelihood = "" if spec.likelihood == "poisson" else f", {spec.observation.title}"
        return (
            f"{type(self).__name__}{', preliminary' * self.preliminary}: "
            f"{chains} chain{'s' * (chains > 1)} of {draws} draw{'s' * (draws != 1)}, "
            f"{'at most ' * spec.infer_budget}{budget} class{'es' * (budget > 1)}, core {core}{likelihood}"
        )

    def _found_consensus(self) -> "Consensus | None":
        """The consensus if it has been found. That of new rows is found now, because later their fit may be gone."""
        return self._consensus if self._fitted is None else self.consensus()

    def _draw_summary(self, draw: ShownDraw, chain: int | None) -> "ClassSummary":
        from allocore.classes.profiles import ClassReader, summarize_draw

        place = self._place(draw, chain)
        if place not in self._draw_summaries:
            self._draw_summaries[place] = summarize_draw(ClassReader(self._record), *place, self._source(*place))
        return self._draw_summaries[place]

    def _place(self, draw: ShownDraw, chain: int | None) -> tuple[int, int]:
        chains, draws = drawn(self._record).core_values.shape[:2]
        if draw is None or is_word(draw, "best"):
            if chain is None:
                return self.best_draw()
            chain = place_of("chain", chain, chains)
            return chain, int(self._log_joint[chain].argmax())
        return place_of("chain", 0 if chain is None else chain, chains), place_of("draw", draw, draws)

    @cached_property
    def _log_joint(self) -> NDArray[np.float64]:
        return log_joint_of_draws(drawn(self._record))

    def _source(self, chain: int, draw: int) -> str:
        chains, draws = self.core_values.shape[:2]
        of_chain, best = f" of chain {chain}" if chains > 1 else "", ""
        if chains * draws > 1 and (chain, draw) == self.best_draw():
            best = ", the best by log joint density"
        elif draws > 1 and draw == self._log_joint[chain].argmax():
            best = ", the best of the chain by log joint density"
        return f"draw {draw}{of_chain}{best}" + " (a quick look)" * self.preliminary


def open_run(path: str | os.PathLike[str], *, on_error: OnError = "raise") -> Posterior:
    """Open a run on disk, finished or still running, with all draws saved so far.

    Parameters
    ----------
    path : str or path
        The folder that `store=`, `allocore fit --out` or `post.save` wrote.
    on_error : {"raise", "drop"}
        What to do with damaged draws: raise an error, or drop them and read the others.

    Returns
    -------
    Posterior
        The draws so far; those of a large run stay on disk. Open a run that continues again to see newer draws.

    Examples
    --------
    >>> import tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/run.zarr"
    ...     model = ac.CP(3, burn_in=5, draws=4, thin=1, chains=1, seed=1, store=path).fit(ac.load_flights())
    ...     ac.open_run(path)
    Posterior: 1 chain of 4 draws, 3 classes, core 3 x 3 x 3 x 3 x 3, negative binomial
    """
    folder = path_of(path)
    return Posterior(read_record(folder, on_error=on_error), folder=folder)


class FittedModel(Protocol):
    """An estimator after `fit`."""

    posterior_: Posterior


Fitted: TypeAlias = Posterior | FittedModel | str | os.PathLike[str]


def as_posterior(given: Fitted, name: str = "post") -> Posterior:
    """Return the posterior of a posterior, a fitted model or a path. Raises an error that names the argument."""
    if isinstance(given, Posterior):
        return given
    if isinstance(given, str | os.PathLike):
        return open_run(given)
    # A model that is not fitted says so itself.
    found = given.posterior_ if hasattr(given, "fit") else None
    if not isinstance(found, Posterior):
        kind = Described(f"an object of type {type(given).__name__}")
        raise InputError(name, kind, "must be a posterior, a fitted model or the path of a run")
    return found


def diff(old: Fitted, new: Fitted) -> "Diff":
    """Return what changed between two runs, such as a run and its refit with a new month.

    A refit (`fit(Y, start=old)`) has the classes of the old run that it found again. Other classes are matched by their
    profiles, on the labels that both runs have. Only clear changes are findings.

    Parameters
    ----------
    old, new : Posterior, fitted model or path
        The two runs, with modes of the same names in any order.

    Returns
    -------
    Diff

    Examples
    --------
    >>> import allocore as ac
    >>> ac.diff(post, post).findings[0].values["gained"]
    0
    """
    from allocore.classes.diff import diff_of

    return diff_of(as_posterior(old, "old").consensus(), as_posterior(new, "new").consensus())


def write_report(
    posterior: Fitted,
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
    surprises: int = 50,
    horizon: int | None = None,
    exposure: object = None,
) -> Path:
    """Write a run as one HTML page that opens in any browser and needs no network.

    The page shows the classes, by default those of the consensus, with search, maps, charts and top cells, the factors
    they share, classes side by side, the nodes of a network with their communities, partners and times, the health of
    the chains, the forecast of the coming periods, and the least expected cells.

    Parameters
    ----------
    posterior : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    path : str or path, default: report.html
        The file to write or replace; folders are created. Without a path, the function prints where the file is.
    title : str, optional
        The title of the page; by default what was counted, by which modes, and when.
    draw, chain : int or "best", optional
        As for `Posterior.class_summary`.
    surprises : int, default: 50
        How many of the least expected cells to list; 0 leaves the list out.
    horizon : int, optional
        How many periods to forecast; 0 leaves the forecast out. By default three if the run has a mode of time that can
        be continued, and no exposures of its periods.
    exposure : sequence of float, mapping or Series, optional
        The known weights of the coming periods, as for `Posterior.forecast`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = ac.write_report(post, pathlib.Path(folder) / "report.html", title="Flights")
    ...     "<title>Flights</title>" in page.read_text(encoding="utf-8")
    True
    """
    from allocore.report.page.page import write_page

    post = as_posterior(posterior, "posterior")
    return write_page(
        post, path, title=title, draw=draw, chain=chain, surprises=surprises, horizon=horizon, exposure=exposure
    )


def write_graph(
    posterior: Fitted,
    path: str | os.PathLike[str],
    kind: "GraphKind" = "communities",
    *,
    modes: Sequence[str | int] | None = None,
    least: float = 0.5,
    safe_csv: bool = False,
) -> Path:
    """Write the results as a graph that Gephi, igraph and other tools read: GraphML, or the edges as a table.

    Parameters
    ----------
    posterior : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    path : str or path
        The file to write or replace: .graphml, or .csv, .tsv or .parquet for a table with a row for each edge and the
        columns source, target, weight and so on. Folders are created.
    kind, modes, least : optional
        As for `Posterior.to_networkx`.
    safe_csv : bool
        As for `write_table`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import allocore as ac
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = ac.write_graph(post, pathlib.Path(folder) / "classes.csv", "classes")
    ...     file.read_text().splitlines()[0]
    'source,target,weight,origin_sharing,destination_sharing,carrier_sharing,month_sharing,hour_sharing'
    """
    from allocore.classes.graphs import check_graph_file, write_graph

    check_flags(safe_csv=safe_csv)
    target = path_of(path)
    check_graph_file(target, "path")
    graph = as_posterior(posterior, "posterior").to_networkx(kind, modes=modes, least=least)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_graph(graph, target, safe_csv=safe_csv)
    return target


def paper_table(
    posterior: Fitted,
    format: "TableFormat" = "markdown",
    *,
    rows: int = 10,
    top: int = 3,
    caption: str | None = None,
    draw: ShownDraw = None,
    chain: int | None = None,
) -> str:
    """Return the largest classes as a table for a paper, with a caption.

    Parameters
    ----------
    posterior : Posterior, fitted model or path
        A posterior, a fitted model, or the folder of a run.
    format : {"latex", "markdown", "html"}, default: "markdown"
        LaTeX needs the packages array and booktabs. Markdown has the caption below the table, as Pandoc reads it. HTML
        is a page whose table can be pasted into Word.
    rows, top : int
        How many classes, and how many labels of each profile, to name.
    caption : str, optional
        Another caption; by default it says what the table shows.
    draw, chain : int or "best", optional
        As for `Posterior.class_summary`.

    Returns
    -------
    str

    Examples
    --------
    >>> import allocore as ac
    >>> print(ac.paper_table(post, rows=2, top=1).splitlines()[0])
    | class | share | chains | origin | destination | carrier | month | hour |
    """
    from allocore.report.paper_table import paper_table

    post = as_posterior(posterior, "posterior")
    return paper_table(post, format, rows=rows, top=top, caption=caption, draw=draw, chain=chain)

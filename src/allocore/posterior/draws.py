"""The draws of a run as arrays, with what they were drawn from: the part of a posterior that only reads."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import as_integers
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, NotInModelError
from allocore.model.spec import LikelihoodName
from allocore.run.record import Record

if TYPE_CHECKING:
    import xarray as xr


class Draws:
    """The arrays, the trace, the data and the settings of a run. Nothing in it changes after the fit."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._likelihood_words: tuple[str, ...] | None = None

    @property
    def core_values(self) -> NDArray[np.float64]:
        """The core values lambda_q.

        Returns
        -------
        ndarray of float, shape (chain, draw, Q)
            Class q means nothing from one draw to the next: classes may trade numbers.

        Examples
        --------
        >>> post.core_values.shape
        (2, 10, 5)
        """
        return self._record.core_values

    @property
    def core_locations(self) -> NDArray[np.int64]:
        """The location of each class in the core: its factor in every mode.

        Returns
        -------
        ndarray of int, shape (chain, draw, Q, M)

        Examples
        --------
        >>> post.core_locations.shape
        (2, 10, 5, 5)
        """
        return cast("NDArray[np.int64]", self._record.core_locations)

    @property
    def factors(self) -> list[NDArray[np.float64]]:
        """The factor matrices.

        Returns
        -------
        list of ndarray of float
            One array of shape (chain, draw, D_m, K_m) per mode. A factor that no class uses in a draw is zero there.
            The arrays of a large run stay on disk: `factors[m][chain, draw]` reads one draw, and all else that is done
            with them (`np.asarray`, arithmetic, methods) reads them whole.

        Examples
        --------
        >>> [factor.shape for factor in post.factors[:2]]
        [(2, 10, 3, 5), (2, 10, 105, 5)]
        """
        return list(cast("tuple[NDArray[np.float64], ...]", self._record.factors))

    @property
    def budget(self) -> NDArray[np.int64]:
        """The number of classes with a positive core value.

        Returns
        -------
        ndarray of int, shape (chain, draw)
            With `budget="infer"`, draws from the posterior of the budget; otherwise the budget that was given.

        Examples
        --------
        >>> post.budget.min(), post.budget.max()
        (np.int64(5), np.int64(5))
        """
        return np.asarray((self.core_values > 0.0).sum(axis=2), dtype=np.int64)

    @property
    def likelihood(self) -> LikelihoodName:
        """The likelihood: how a count is distributed given the rate of its cell.

        Returns
        -------
        str
            "poisson", "negative-binomial" or "bernoulli".

        Examples
        --------
        >>> post.likelihood
        'poisson'
        """
        return self._record.spec.likelihood

    @property
    def dispersion(self) -> NDArray[np.float64]:
        """The dispersion p of the negative binomial: the variance of a count is 1 / (1 - p) times its mean.

        Returns
        -------
        ndarray of float, shape (chain, draw) or (chain, draw, D)
            With `dispersion_by`, one p for each of the D rows of that mode.

        Raises
        ------
        InputError
            If the likelihood has no dispersion. It is an AttributeError as well.

        Examples
        --------
        >>> import allocore as ac
        >>> model = ac.CP(3, likelihood="negative-binomial", burn_in=5, draws=4, thin=1, seed=1)
        >>> model.fit(Y).posterior_.dispersion.shape
        (1, 4)
        """
        if self._record.log_odds is None:
            raise NotInModelError(
                f"the likelihood {self.likelihood!r} has no dispersion: only 'negative-binomial' has one"
            )
        from allocore.model.likelihood import dispersion_of

        return dispersion_of(self._record.log_odds)

    @property
    def concentrations(self) -> NDArray[np.float64]:
        """The concentrations e0 of the modes: the shapes of the gamma priors of their factors.

        Returns
        -------
        ndarray of float, shape (chain, draw, M)
            With `e0="infer"`, draws from their posterior; otherwise the values that were given.

        Raises
        ------
        InputError
            If the model has no priors, as NNTuck. It is an AttributeError as well.

        Examples
        --------
        >>> post.concentrations[0, 0]
        array([1., 1., 1., 1., 1.])
        """
        if self._record.concentrations is not None:
            return self._record.concentrations
        spec = self._record.spec
        if not spec.has_priors:
            raise NotInModelError(f"{spec.model} has no concentrations: it is fitted by maximum likelihood")
        fixed_M = [spec.concentration(mode, np.empty(0)) for mode in range(len(spec.core_shape))]
        return np.broadcast_to(np.array(fixed_M), (*self.core_values.shape[:2], len(fixed_M)))

    @property
    def stats(self) -> Mapping[str, NDArray[Any]]:
        """The trace of all sweeps, burn-in included.

        Returns
        -------
        mapping of str to ndarray
            `log_likelihood`, `classes` (in use), `moved` (share of classes that changed location) and `seconds`, each
            of shape (chain, sweep); and `factors` (in use), of shape (chain, sweep, M).

        Examples
        --------
        >>> post.stats["classes"].shape, post.stats["factors"].shape
        ((2, 30), (2, 30, 5))
        """
        return self._record.stats

    @property
    def draw_sweeps(self) -> NDArray[np.int64]:
        """The sweep that gave each draw, counted from 1.

        Returns
        -------
        ndarray of int, shape (draw,)
            The entry of `stats` that belongs to sweep s is at position s - 1.

        Examples
        --------
        >>> post.draw_sweeps
        array([21, 22, 23, 24, 25, 26, 27, 28, 29, 30])
        """
        return self._record.draw_sweeps

    @property
    def tensor(self) -> CountTensor:
        """The tensor that the model was fitted to.

        Returns
        -------
        CountTensor

        Examples
        --------
        >>> post.tensor.mode_names
        ('origin', 'destination', 'carrier', 'month', 'hour')
        """
        return self._record.tensor

    @property
    def learns_locations(self) -> bool:
        """Whether classes may move in the core.

        Returns
        -------
        bool
            True for ALL0CORE; False for CP and Tucker, whose locations are fixed.

        Examples
        --------
        >>> post.learns_locations
        True
        """
        return self._record.spec.learn_locations

    @property
    def seed(self) -> int:
        """The seed of the run. The same seed, settings and data give the same draws.

        Returns
        -------
        int

        Examples
        --------
        >>> post.seed
        0
        """
        return self._record.seed

    @property
    def record(self) -> Record:
        """The run behind the posterior: its data, settings, draws and trace.

        Returns
        -------
        Record

        Examples
        --------
        >>> post.record.schedule
        Schedule(burn_in=20, draws=10, thin=1)
        """
        return self._record

    @property
    def finished(self) -> bool:
        """Whether the run has made all planned sweeps.

        Returns
        -------
        bool

        Examples
        --------
        >>> post.finished
        True
        """
        return bool(self.stats["moved"].shape[1] >= self._record.schedule.sweeps)

    def select_chains(self, chains: Sequence[int]) -> Self:
        """Return the posterior of some of the chains.

        Use it to leave out a chain that `diagnose` finds far behind the others, or to see what half of the chains say.

        Parameters
        ----------
        chains : sequence of int
            The numbers of the chains to keep, without repeats. Negative numbers count from the end. The chains of the
            new posterior are numbered from 0, in the order given.

        Returns
        -------
        Posterior

        Examples
        --------
        >>> post.select_chains([1])
        Posterior: 1 chain of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5
        """
        number, given = len(self.core_values), as_integers(chains, "chains")
        if given.ndim != 1 or not given.size or not ((-number <= given) & (given < number)).all():
            raise InputError(
                f"chains is {chains!r}, but it must list one or more chain numbers from {-number} to {number - 1}"
            )
        kept = (given % number).tolist()
        if len(set(kept)) < len(kept):
            raise InputError(f"chains is {chains!r}, but it must not name a chain twice")
        return self._with_chains(kept)

    def _with_chains(self, kept: list[int]) -> Self:
        """Return the same kind of posterior with some of the chains."""
        return type(self)(self._record.with_chains(kept))

    def to_datatree(self) -> "xr.DataTree":
        """Return the run as a DataTree in the ArviZ schema.

        ArviZ 1, for Python 3.12 and later, takes it as it is: `az.summary(tree, group="sample_stats")`. For ArviZ 0.23,
        the newest on Python 3.11, `az.from_datatree(tree)` makes an `InferenceData` of it.

        Returns
        -------
        xarray.DataTree
            The draws, the trace and the data, with labels as coordinates and settings and seed as attributes.

        Examples
        --------
        >>> post.to_datatree()["posterior"]["core_values"].sizes
        Frozen({'chain': 2, 'draw': 10, 'q': 5})
        """
        from allocore.run.datatree import to_datatree

        return to_datatree(self._record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new Zarr folder.

        `ac.open_run` opens the folder as a posterior, and xarray opens it as a DataTree. The run can be read but not
        resumed; to resume a run, fit with `store=`. A consensus that has been found is saved with it.

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
        Posterior: 2 chains of 10 draws, 5 classes, core 5 x 5 x 5 x 5 x 5
        """
        from allocore.run.zarr_store import write_record

        write_record(self._record, Path(path))
        self._save_more(Path(path))

    def likelihood_words(self) -> tuple[str, ...]:
        """Return how the counts are distributed given the fit, in sentences; they are found once and kept.

        Returns
        -------
        tuple of str
            After a Poisson fit, how dispersed the counts are, and where that is clear, that the negative binomial would
            likely predict better. Otherwise the dispersion p. In any case the concentrations, if they are learned.

        Examples
        --------
        >>> post.likelihood_words()[0]
        'Poisson likelihood: given the fit, the variance of a count is 7... times its mean (1 for Poisson counts), ...'
        """
        from allocore.posterior.likelihood_words import likelihood_sentences

        if self._likelihood_words is None:
            self._likelihood_words = likelihood_sentences(self._drawn())
        return self._likelihood_words

    def __repr__(self) -> str:
        chains, draws, budget = self.core_values.shape
        spec = self._record.spec
        core = " x ".join(str(size) for size in spec.core_shape)
        likelihood = "" if spec.likelihood == "poisson" else f", {spec.observation.title}"
        return (
            f"{type(self).__name__}: {chains} chain{'s' * (chains > 1)} of {draws} draw{'s' * (draws != 1)}, "
            f"{'at most ' * spec.infer_budget}{budget} class{'es' * (budget > 1)}, core {core}{likelihood}"
        )

    def _save_more(self, folder: Path) -> None:
        """Save what was found from the draws with them."""

    def _drawn(self) -> Record:
        """Return the run, or raise an error if it has no draws yet."""
        if not self.core_values.shape[1]:
            sweeps, burn_in = self.stats["moved"].shape[1], self._record.schedule.burn_in
            raise InputError(f"the run has no draws yet: it is at sweep {sweeps}, and the burn-in takes {burn_in}")
        return self._record

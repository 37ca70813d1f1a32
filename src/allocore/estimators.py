"""The three models drawn by Gibbs sampling, as estimators with scikit-learn's conventions.

The constructor only stores settings; `fit` checks them, runs the sampler and keeps the result. One sampler serves all
three: CP is ALL0CORE with the classes fixed on the super-diagonal of the core, Tucker with one class fixed on every
location.
"""

import math
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.gibbs_estimator import GibbsEstimator, model_name
from allocore.model.spec import Spec, core_shape_for

_MOST_LOCATIONS = 1_000_000


@dataclass(eq=False, repr=False)
class AlloCore(GibbsEstimator):
    """Bayesian ALL0CORE: a Tucker decomposition whose core has at most `budget` non-zeros.

    Where the non-zeros lie in the core is learned, so that classes can share factors.

    Parameters
    ----------
    budget : int or "infer", default=100
        Q, the largest number of classes (non-zeros of the core). Time and memory grow with it. "infer" learns the
        number, up to `max_budget`; `posterior_.budget` then has it for every draw.
    core_shape : sequence of int, default=None
        K_m, the number of factors of each mode. None is Q in every mode.
    a0 : float, default=1.0
        Shape of the gamma prior of the core values.
    b0 : float, default=1.0
        Rate of the gamma prior of the core values.
    e0 : float, sequence of float or "infer", default=1.0
        Shape of the gamma prior of the factors, the concentration: one number for all modes, or one per mode. The
        smaller it is, the fewer labels dominate a factor. "infer" learns one for each mode;
        `posterior_.concentrations` has them.
    f0 : float, default=10.0
        Rate of the gamma prior of the factors.
    s0 : float, default=1.0
        Shape of the gamma prior of the concentrations, if e0 is "infer".
    t0 : float, default=1.0
        Rate of that prior.
    likelihood : {"poisson", "negative-binomial", "bernoulli"}, default='poisson'
        How a count is distributed given the rate of its cell. "poisson" is the paper's. "negative-binomial" fits
        bursts: its variance is 1 / (1 - p) times its mean. "bernoulli" is for tensors of zeros and ones, such as
        `Y.binary()`.
    dispersion_by : str or int, default=None
        A mode, by name or number, whose rows each have a dispersion p of their own; None is one p for all cells. Only
        for the negative binomial.
    g0 : float, default=1.0
        First parameter of the beta prior of p.
    h0 : float, default=1.0
        Second parameter of that prior. With `dispersion_by`, rows with few cells need h0 > 1 for a finite expected
        count and h0 > 2 for a finite variance: the mean of p / (1 - p) is infinite under Beta(g, h) if h <= 1.
    alpha0 : float, default=0.1
        Concentration of the Dirichlet prior of the locations in each mode. The smaller it is, the more classes share
        factors.
    max_budget : int, default=400
        The largest number of classes if budget is "infer"; not used otherwise.
    c0 : float, default=1.0
        First parameter of the beta prior of the share of classes in use, if budget is "infer".
    d0 : float, default=1.0
        Second parameter of that prior.
    burn_in : int, default=1000
        Sweeps that each chain discards at its start.
    draws : int, default=200
        Draws that each chain keeps.
    thin : int, default=20
        Sweeps from one kept draw to the next.
    chains : int, default=1
        Independent chains. They share the threads and run side by side.
    seed : int, default=None
        A whole number makes the result reproducible, to the byte and on any number of threads. None takes a new seed
        at each fit.
    threads : int, default=None
        Threads to use; None is all processors.
    store : str or path, default=None
        A new folder to which the run is written as it goes, in Zarr format. It survives the process, can be opened
        during the run (`ac.open_run`, or plain xarray) and continued (`resume`). None keeps the run in memory.
    executor : concurrent.futures.Executor or dask.distributed.Client, default=None
        Where the chains run: a process pool, a Dask cluster, any other executor. None is this process. The draws are
        the same to the byte. `threads` is then the number for each chain, one by default.
    progress : bool, default=True
        Whether to show progress: bars on a terminal and in a notebook, lines in a log.

    Attributes
    ----------
    posterior_ : Posterior
        The draws of all chains, with summaries, predictions and diagnostics. It exists after `fit`.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> model = ac.AlloCore(budget=10, burn_in=30, draws=5, thin=2, seed=1).fit(Y)
    >>> model.posterior_.classes(top=2)[["share", "carrier_factor", "carrier_top"]].shape[1]
    3
    >>> model = ac.AlloCore(budget="infer", max_budget=30, burn_in=30, draws=5, thin=2, seed=1).fit(Y)
    >>> bool((model.posterior_.budget <= 30).all())
    True
    """

    _model: ClassVar[str] = "AlloCore"

    budget: int | Literal["infer"] = 100
    core_shape: tuple[int, ...] | None = None
    _: KW_ONLY
    alpha0: float = 0.1
    max_budget: int = 400
    c0: float = 1.0
    d0: float = 1.0

    def _spec(self, tensor: CountTensor) -> Spec:
        if isinstance(self.budget, str) and self.budget != "infer":
            raise InputError(f"budget is {self.budget!r}, but it must be a whole number or 'infer'")
        own: dict[str, Any] = {"alpha0": self.alpha0, **self._common(tensor)}
        if self.budget == "infer":
            most = whole_number("max_budget", self.max_budget)
            core_shape = core_shape_for(tensor.shape, most, self.core_shape)
            return Spec(most, core_shape, infer_budget=True, c0=self.c0, d0=self.d0, **own)
        return Spec(self.budget, core_shape_for(tensor.shape, self.budget, self.core_shape), **own)

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        own = {"core_shape": spec.core_shape, "alpha0": spec.alpha0}
        if not spec.infer_budget:
            return {**own, "budget": spec.budget}
        return {**own, "budget": "infer", "max_budget": spec.budget, "c0": spec.c0, "d0": spec.d0}


@dataclass(eq=False, repr=False)
class CP(GibbsEstimator):
    """Bayesian CP: `rank` classes, each with a factor of its own in every mode.

    Parameters
    ----------
    rank : int
        The number of classes.
    a0 : float, default=1.0
        Shape of the gamma prior of the core values.
    b0 : float, default=1.0
        Rate of the gamma prior of the core values.
    e0 : float, sequence of float or "infer", default=1.0
        Shape of the gamma prior of the factors, the concentration: one number for all modes, or one per mode. The
        smaller it is, the fewer labels dominate a factor. "infer" learns one for each mode;
        `posterior_.concentrations` has them.
    f0 : float, default=10.0
        Rate of the gamma prior of the factors.
    s0 : float, default=1.0
        Shape of the gamma prior of the concentrations, if e0 is "infer".
    t0 : float, default=1.0
        Rate of that prior.
    likelihood : {"poisson", "negative-binomial", "bernoulli"}, default='poisson'
        How a count is distributed given the rate of its cell. "poisson" is the paper's. "negative-binomial" fits
        bursts: its variance is 1 / (1 - p) times its mean. "bernoulli" is for tensors of zeros and ones, such as
        `Y.binary()`.
    dispersion_by : str or int, default=None
        A mode, by name or number, whose rows each have a dispersion p of their own; None is one p for all cells. Only
        for the negative binomial.
    g0 : float, default=1.0
        First parameter of the beta prior of p.
    h0 : float, default=1.0
        Second parameter of that prior. With `dispersion_by`, rows with few cells need h0 > 1 for a finite expected
        count and h0 > 2 for a finite variance: the mean of p / (1 - p) is infinite under Beta(g, h) if h <= 1.
    burn_in : int, default=1000
        Sweeps that each chain discards at its start.
    draws : int, default=200
        Draws that each chain keeps.
    thin : int, default=20
        Sweeps from one kept draw to the next.
    chains : int, default=1
        Independent chains. They share the threads and run side by side.
    seed : int, default=None
        A whole number makes the result reproducible, to the byte and on any number of threads. None takes a new seed
        at each fit.
    threads : int, default=None
        Threads to use; None is all processors.
    store : str or path, default=None
        A new folder to which the run is written as it goes, in Zarr format. It survives the process, can be opened
        during the run (`ac.open_run`, or plain xarray) and continued (`resume`). None keeps the run in memory.
    executor : concurrent.futures.Executor or dask.distributed.Client, default=None
        Where the chains run: a process pool, a Dask cluster, any other executor. None is this process. The draws are
        the same to the byte. `threads` is then the number for each chain, one by default.
    progress : bool, default=True
        Whether to show progress: bars on a terminal and in a notebook, lines in a log.

    Attributes
    ----------
    posterior_ : Posterior
        The draws of all chains, with summaries, predictions and diagnostics. It exists after `fit`.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.CP(4, burn_in=5, draws=2, thin=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 4 classes, core 4 x 4 x 4 x 4 x 4
    """

    _model: ClassVar[str] = "CP"

    rank: int

    def _spec(self, tensor: CountTensor) -> Spec:
        rank = whole_number("rank", self.rank)
        return Spec(rank, (rank,) * len(tensor.shape), model="CP", **self._common(tensor))

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        return {"rank": spec.budget}


@dataclass(eq=False, repr=False)
class Tucker(GibbsEstimator):
    """Bayesian Tucker: a class on every location of the core.

    Parameters
    ----------
    core_shape : sequence of int
        K_m, the number of factors of each mode. There is a class on every location of the core.
    a0 : float, default=1.0
        Shape of the gamma prior of the core values.
    b0 : float, default=1.0
        Rate of the gamma prior of the core values.
    e0 : float, sequence of float or "infer", default=1.0
        Shape of the gamma prior of the factors, the concentration: one number for all modes, or one per mode. The
        smaller it is, the fewer labels dominate a factor. "infer" learns one for each mode;
        `posterior_.concentrations` has them.
    f0 : float, default=10.0
        Rate of the gamma prior of the factors.
    s0 : float, default=1.0
        Shape of the gamma prior of the concentrations, if e0 is "infer".
    t0 : float, default=1.0
        Rate of that prior.
    likelihood : {"poisson", "negative-binomial", "bernoulli"}, default='poisson'
        How a count is distributed given the rate of its cell. "poisson" is the paper's. "negative-binomial" fits
        bursts: its variance is 1 / (1 - p) times its mean. "bernoulli" is for tensors of zeros and ones, such as
        `Y.binary()`.
    dispersion_by : str or int, default=None
        A mode, by name or number, whose rows each have a dispersion p of their own; None is one p for all cells. Only
        for the negative binomial.
    g0 : float, default=1.0
        First parameter of the beta prior of p.
    h0 : float, default=1.0
        Second parameter of that prior. With `dispersion_by`, rows with few cells need h0 > 1 for a finite expected
        count and h0 > 2 for a finite variance: the mean of p / (1 - p) is infinite under Beta(g, h) if h <= 1.
    burn_in : int, default=1000
        Sweeps that each chain discards at its start.
    draws : int, default=200
        Draws that each chain keeps.
    thin : int, default=20
        Sweeps from one kept draw to the next.
    chains : int, default=1
        Independent chains. They share the threads and run side by side.
    seed : int, default=None
        A whole number makes the result reproducible, to the byte and on any number of threads. None takes a new seed
        at each fit.
    threads : int, default=None
        Threads to use; None is all processors.
    store : str or path, default=None
        A new folder to which the run is written as it goes, in Zarr format. It survives the process, can be opened
        during the run (`ac.open_run`, or plain xarray) and continued (`resume`). None keeps the run in memory.
    executor : concurrent.futures.Executor or dask.distributed.Client, default=None
        Where the chains run: a process pool, a Dask cluster, any other executor. None is this process. The draws are
        the same to the byte. `threads` is then the number for each chain, one by default.
    progress : bool, default=True
        Whether to show progress: bars on a terminal and in a notebook, lines in a log.

    Attributes
    ----------
    posterior_ : Posterior
        The draws of all chains, with summaries, predictions and diagnostics. It exists after `fit`.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.Tucker((2, 3, 2, 1, 1), burn_in=5, draws=2, thin=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 12 classes, core 2 x 3 x 2 x 1 x 1
    """

    _model: ClassVar[str] = "Tucker"

    core_shape: tuple[int, ...]

    def _spec(self, tensor: CountTensor) -> Spec:
        core_shape = whole_core(tensor.shape, self.core_shape, "Tucker")
        return Spec(math.prod(core_shape), core_shape, model="Tucker", **self._common(tensor))

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        return {"core_shape": spec.core_shape}


def whole_core(shape: tuple[int, ...], core_shape: object, model: str) -> tuple[int, ...]:
    """Check the core shape of a model that has a class on every location."""
    if core_shape is None:
        raise InputError(f"core_shape is None, but {model} needs one whole number per mode")
    sizes = core_shape_for(shape, 1, core_shape)
    if math.prod(sizes) > _MOST_LOCATIONS:
        raise InputError(
            f"core_shape {sizes} has {math.prod(sizes):,} locations, but {model} visits them all for every non-zero: "
            f"the most is {_MOST_LOCATIONS:,}; AlloCore visits only its budget"
        )
    return sizes


def model_of(path: str | os.PathLike[str]) -> type[AlloCore] | type[CP] | type[Tucker]:
    """The class of the model of a run on disk."""
    models = {"AlloCore": AlloCore, "CP": CP, "Tucker": Tucker}
    return models[model_name(path)]

"""What the three models drawn by Gibbs sampling share: their common settings, `fit` and `resume`."""

import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from allocore.data.holdout import training_data
from allocore.data.sharded_tensor import ShardedTensor
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.estimator_base import Estimator, seed_number, thread_number
from allocore.model.spec import LikelihoodName, Spec, check_counts, check_likelihood
from allocore.run.plan import Plan
from allocore.run.progress import progress_bar
from allocore.run.schedule import Schedule
from allocore.run.start import number_of_states, start_states
from allocore.run.store import MemoryStore

if TYPE_CHECKING:
    from allocore.model.state import State
    from allocore.posterior.posterior import Posterior
    from allocore.run.damage import OnError
    from allocore.run.progress import Observer
    from allocore.run.record import Record
    from allocore.run.store import Store

_DRAWN_MODELS = ("AlloCore", "CP", "Tucker")
_PRIORS = ("a0", "b0", "e0", "f0", "s0", "t0", "g0", "h0")


@dataclass(eq=False, repr=False, kw_only=True)
class GibbsEstimator(Estimator):
    """Settings, `fit` and `resume` of AlloCore, CP and Tucker; each adds how its size becomes a specification."""

    _model: ClassVar[str]

    a0: float = 1.0
    b0: float = 1.0
    e0: float | Sequence[float] | Literal["infer"] = 1.0
    f0: float = 10.0
    s0: float = 1.0
    t0: float = 1.0
    likelihood: LikelihoodName = "poisson"
    dispersion_by: str | int | None = None
    g0: float = 1.0
    h0: float = 1.0
    burn_in: int = 1000
    draws: int = 200
    thin: int = 20
    chains: int = 1
    seed: int | None = None
    threads: int | None = None
    store: str | os.PathLike[str] | None = None
    executor: object = None
    progress: bool = True

    if TYPE_CHECKING:
        posterior_: Posterior = field(init=False)

    def fit(self, Y: object, y: object = None, *, start: "Posterior | None" = None) -> Self:
        """Draw from the posterior given a tensor of counts.

        Ctrl-C and SIGTERM stop the run after the current sweep; `posterior_` then has the draws made so far.

        Parameters
        ----------
        Y : CountTensor, array, sparse array, path or Split
            The counts: anything that `as_tensor` takes. Of a split of `hold_out`, the training tensor is fitted, and
            the run keeps the held-out cells for `evaluate`.
        y : object, default=None
            Not used: there is no target. scikit-learn passes one to every estimator.
        start : Posterior, default=None
            A fit of the same model to other data of the same kind, such as last month's: the chains begin at its last
            draws and need less burn-in. Rows are matched by label; new ones begin at the mean of the others. None
            begins at draws from the prior.

        Returns
        -------
        Self
            The same estimator, now with `posterior_`.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CP(3, burn_in=5, draws=2, thin=1, seed=1).fit(ac.load_flights()).posterior_
        Posterior: 1 chain of 2 draws, 3 classes, core 3 x 3 x 3 x 3 x 3
        """
        self._forget_fit()
        tensor, held_out = training_data(Y)
        schedule = Schedule(self.burn_in, self.draws, self.thin)
        seed = seed_number(self.seed)
        spec, chains = _fitting(self._spec(tensor), tensor), whole_number("chains", self.chains)
        executor, states = self._executor(), None if start is None else _states(start, tensor, spec, chains)
        started = None if states is None else number_of_states(states)
        plan = Plan(tensor, spec, schedule, chains, seed, held_out, started)
        self._tell_memory(plan, thread_number(self.threads))
        if self.store is None:
            return self._run(MemoryStore(plan, states), executor)
        from allocore.run.zarr_store import ZarrStore

        return self._run(ZarrStore.create(_path("store", self.store), plan, states), executor)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        draws: int | None = None,
        threads: int | None = None,
        executor: object = None,
        progress: bool = True,
        on_error: "OnError" = "raise",
    ) -> Self:
        """Continue a run that was made with `store=`, to the draws it would have had without a break.

        Parameters
        ----------
        path : str or path
            The folder of the run.
        draws : int, default=None
            Draws that each chain has in the end; None keeps the number that was planned. A larger number makes the
            run longer.
        threads : int, default=None
            Threads to use; None is all processors. The number may differ from that of the first part of the run.
        executor : Executor or dask.distributed.Client, default=None
            Where to run the chains; None is this process. It may differ from that of the first part of the run.
        progress : bool, default=True
            Whether to show progress: bars on a terminal and in a notebook, lines in a log.
        on_error : {"raise", "drop"}, default="raise"
            What to do about draws that are damaged on the disk: raise an error, or drop them and continue.

        Returns
        -------
        Self
            A fitted estimator with the settings of the run. If the run was already finished, nothing is drawn.

        Examples
        --------
        >>> import tempfile
        >>> import allocore as ac
        >>> path = tempfile.mkdtemp() + "/run.zarr"
        >>> model = ac.CP(3, burn_in=5, draws=2, thin=1, seed=1, store=path).fit(ac.load_flights())
        >>> ac.CP.resume(path, draws=4).posterior_
        Posterior: 1 chain of 4 draws, 3 classes, core 3 x 3 x 3 x 3 x 3
        """
        from allocore.run.cluster.executors import as_executor
        from allocore.run.zarr_store import ZarrStore

        name = model_name(path)
        if name != cls._model:
            raise InputError(f"path is {str(path)!r}, but it holds a {name}: {name}.resume continues it")
        for argument, value in (("draws", draws), ("threads", threads)):
            if value is not None:
                whole_number(argument, value)
        given = None if executor is None else as_executor(executor)
        store = ZarrStore.reopen(_path("path", path), draws, on_error)
        model = cls._of_plan(store.plan)
        model.set_params(threads=threads, executor=executor, progress=progress, store=path)
        return model._run(store, given)

    def _tell_memory(self, plan: Plan, threads: int) -> None:
        """Refuse a run that memory cannot hold, and say what a large one will need."""
        from allocore.run.memory_needs import check_memory

        cells_here = self.executor is None or not isinstance(plan.tensor, ShardedTensor)
        told = check_memory(plan, stored=self.store is not None, threads=threads, cells_here=cells_here)
        if told and self.progress and sys.stderr is not None:
            print(told, file=sys.stderr)

    def _run(self, store: "Store", executor: Executor | None) -> Self:
        from allocore.posterior.posterior import Posterior
        from allocore.run.chains import run_chains
        from allocore.run.cluster.executors import run_on_executor

        points = [store.resume_point(chain) for chain in range(store.plan.chains)]
        done = [0 if point is None else point[0] for point in points]
        observer, threads = progress_bar(self.progress, store.plan.schedule, done), self.threads
        if isinstance(store.plan.tensor, ShardedTensor):
            record = self._run_sharded(store, store.plan.tensor, executor, observer)
        elif executor is None:
            record = run_chains(store, threads=thread_number(threads), observer=observer)
        else:
            threads_each = 1 if threads is None else whole_number("threads", threads)
            record = run_on_executor(store, executor, threads=threads_each, observer=observer)
        self.posterior_ = Posterior(record, thread_number(threads if executor is None else None), folder=store.path)
        return self

    def _run_sharded(
        self, store: "Store", tensor: ShardedTensor, executor: Executor | None, observer: "Observer | None"
    ) -> "Record":
        """Run chains whose cells are thinned in shards: on the workers of an executor, or one after another here."""
        from allocore.run.chains import run_chains
        from allocore.run.cluster.shard_tasks import forget
        from allocore.run.cluster.sharded_thinning import Here, ShardedThinning

        here, go_on = thread_number(self.threads if executor is None else None), store.how_to_resume()
        if executor is not None:
            sharded = ShardedThinning(tensor, executor, self.threads, go_on)
            return run_chains(store, threads=here, observer=observer, sharded=sharded)
        try:
            sharded = ShardedThinning(tensor, Here(), here, go_on)
            return run_chains(store, threads=here, observer=observer, sharded=sharded)
        finally:
            forget()

    def _executor(self) -> Executor | None:
        """The executor, checked before anything is written."""
        thread_number(self.threads)
        if self.executor is None:
            return None
        from allocore.run.cluster.executors import as_executor

        return as_executor(self.executor)

    @classmethod
    def _of_plan(cls, plan: Plan) -> Self:
        """The estimator whose settings are those of a plan."""
        spec, schedule = plan.spec, plan.schedule
        common = {name: getattr(spec, name) for name in (*_PRIORS, "likelihood", "dispersion_by")} | asdict(schedule)
        return cls(**cls._own_settings(spec), **common, chains=plan.chains, seed=plan.seed)

    def _common(self, tensor: CountTensor) -> dict[str, Any]:
        """The settings of the specification that all models share."""
        check_likelihood(self.likelihood, self.dispersion_by)
        by = None if self.dispersion_by is None else _mode(tensor, self.dispersion_by)
        priors = {name: getattr(self, name) for name in _PRIORS}
        return {**priors, "likelihood": self.likelihood, "dispersion_by": by}

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        """The settings that only this model has."""
        raise NotImplementedError

    def _spec(self, tensor: CountTensor) -> Spec:
        """The specification of this model for a tensor; settings are checked here."""
        raise NotImplementedError


def model_name(path: str | os.PathLike[str]) -> str:
    """The name of the model of a run on disk; a run without chains cannot be continued and is an error."""
    from allocore.run.attributes import stored_model

    name = stored_model(_path("path", path))
    if name not in _DRAWN_MODELS:
        raise InputError(f"path is {str(path)!r}, but it holds an estimate of {name}, which has no chains to continue")
    return name


def _states(start: object, tensor: CountTensor, spec: Spec, chains: int) -> "list[State]":
    """The states in which the chains begin, from a posterior."""
    from allocore.posterior.posterior import Posterior

    if not isinstance(start, Posterior):
        raise InputError(
            f"start is a {type(start).__name__}, but it must be a posterior: model.posterior_, or ac.open_run(path)"
        )
    return start_states(start._drawn(), tensor, spec, chains)


def _mode(tensor: CountTensor, dispersion_by: str | int) -> int:
    try:
        return tensor.mode(dispersion_by)
    except InputError:
        raise InputError(
            f"dispersion_by is {dispersion_by!r}, but it must be a mode of the tensor, one of {list(tensor.mode_names)}"
        ) from None


def _fitting(spec: Spec, tensor: CountTensor) -> Spec:
    """Check that a likelihood suits the counts of a tensor."""
    check_counts(spec.likelihood, tensor.largest)
    if spec.likelihood == "negative-binomial" and tensor.largest == 1:
        warnings.warn(
            "all counts are 1, so they say nothing about the dispersion p of the negative binomial: its prior and the "
            "zeros decide; likelihood='bernoulli' is made for such data",
            stacklevel=3,
        )
    return spec


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError(f"{name} is {value!r}, but it must be a path")
    return Path(value)

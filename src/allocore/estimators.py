"""The three models as estimators in scikit-learn's manner: `__init__` only stores, `fit` validates, runs, keeps.

One sampler serves all three: CP is ALL0CORE with the classes fixed on the super-diagonal of the core, Tucker with
one class fixed on every location.
"""

import json
import math
import os
import secrets
from dataclasses import KW_ONLY, asdict, dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from allocore.data.convert import as_tensor
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads
from allocore.model.spec import Spec, core_shape_for
from allocore.run.plan import Plan
from allocore.run.progress import progress_bar
from allocore.run.schedule import Schedule
from allocore.run.store import MemoryStore

if TYPE_CHECKING:
    from allocore.run.run_reader import OnError
    from allocore.run.store import Store

_MOST_LOCATIONS = 1_000_000


@dataclass(eq=False, repr=False)
class Estimator:
    """The manners of scikit-learn that all models share: settings by name, and what they look like."""

    _fitted: ClassVar[tuple[str, ...]] = ("posterior_",)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = " yet: call fit first" if name in self._fitted else ""
            raise AttributeError(f"this {type(self).__name__} has no {name}{hint}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; they take effect at the next fit."""
        known = [field.name for field in fields(self)]
        for name, value in params.items():
            if name not in known:
                raise InputError(f"{name!r} is not a setting of {type(self).__name__}; the settings are {known}")
            setattr(self, name, value)
        return self

    def _repr_html_(self) -> str:
        """The settings, and once it is fitted what was found."""
        found = self.posterior_._repr_html_() if hasattr(self, "posterior_") else "<p>Not fitted yet.</p>"
        return f"<p><code>{escape(repr(self))}</code></p>{found}"

    def __repr__(self) -> str:
        texts = {field.name: (repr(getattr(self, field.name)), repr(field.default)) for field in fields(self)}
        changed = [f"{name}={value}" for name, (value, default) in texts.items() if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"


@dataclass(eq=False, repr=False, kw_only=True)
class _GibbsModel(Estimator):
    """Settings and `fit` that the three models have in common."""

    a0: float = 1.0
    b0: float = 1.0
    e0: float = 1.0
    f0: float = 10.0
    burn_in: int = 1000
    draws: int = 200
    thin: int = 20
    chains: int = 1
    seed: int | None = None
    threads: int | None = None
    store: str | os.PathLike[str] | None = None
    progress: bool = True

    def fit(self, Y: object) -> Self:
        """Draw from the posterior given a tensor (anything `as_tensor` takes); the result is `posterior_`.

        Ctrl-C and SIGTERM stop the run after the sweep under way; `posterior_` then has the draws that exist.
        """
        self.__dict__.pop("posterior_", None)
        tensor = as_tensor(Y)
        schedule = Schedule(self.burn_in, self.draws, self.thin)
        seed = seed_number(self.seed)
        plan = Plan(tensor, self._spec(tensor.shape), schedule, whole_number("chains", self.chains), seed)
        threads = thread_number(self.threads)
        if self.store is None:
            return self._run(MemoryStore(plan), threads)
        from allocore.run.zarr_store import ZarrStore

        return self._run(ZarrStore.create(_path("store", self.store), plan), threads)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        draws: int | None = None,
        threads: int | None = None,
        progress: bool = True,
        on_error: "OnError" = "raise",
    ) -> Self:
        """Go on with a run that was made with `store=`, to the very draws it would have had without a break.

        Parameters
        ----------
        path
            The folder of the run.
        draws
            Draws the run shall have; by default as many as were planned. More make it longer.
        threads, progress
            As in the model; the number of threads may be another than before.
        on_error
            What to do about draws that are damaged on the disk: "raise" an error, or go on and "drop" them.

        Returns
        -------
        The fitted model. If the run was finished already, nothing is drawn.
        """
        from allocore.run.zarr_store import ZarrStore

        of = model_of(path)
        if not issubclass(cls, of):
            raise InputError(f"path is {str(path)!r}, but it holds a {of.__name__}: {of.__name__}.resume continues it")
        for name, value in (("draws", draws), ("threads", threads)):
            if value is not None:
                whole_number(name, value)
        store = ZarrStore.reopen(_path("path", path), draws, on_error)
        model = cls._of_plan(store.plan)
        model.set_params(threads=threads, progress=progress, store=path)
        return model._run(store, thread_number(model.threads))

    def _run(self, store: "Store", threads: int) -> Self:
        from allocore.posterior.posterior import Posterior
        from allocore.run.chains import run_chains

        observer = progress_bar(self.progress, store.plan.schedule, store.plan.chains)
        self.posterior_ = Posterior(run_chains(store, threads=threads, observer=observer), threads)
        return self

    @classmethod
    def _of_plan(cls, plan: Plan) -> Self:
        """The model whose settings are those of a plan."""
        spec, schedule = plan.spec, plan.schedule
        common = {name: getattr(spec, name) for name in ("a0", "b0", "e0", "f0")} | asdict(schedule)
        return cls(**cls._own_settings(spec), **common, chains=plan.chains, seed=plan.seed)

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        """The settings that this model alone has."""
        raise NotImplementedError

    def _spec(self, shape: tuple[int, ...]) -> Spec:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class AlloCore(_GibbsModel):
    """Bayesian Poisson ALL0CORE: a Tucker decomposition whose core has at most `budget` non-zeros.

    Parameters
    ----------
    budget
        Q, the most classes (non-zeros of the core) the model may use. Cost and memory grow with it. "infer" learns
        how many there are, up to `max_budget`: `posterior_.budget` then has that number for every draw.
    core_shape
        K_m, the factors of each mode; by default Q in every mode.
    a0, b0
        Gamma prior of the core values (shape, rate).
    e0, f0
        Gamma prior of the factors (shape, rate).
    alpha0
        Concentration of the locations in each mode; the smaller, the more classes share factors.
    max_budget, c0, d0
        For budget="infer": the most classes there can be, and the prior Beta(c0, d0) of the share of them that is on.
    burn_in, draws, thin
        Sweeps to discard, draws to keep, and sweeps per kept draw.
    chains
        Independent chains.
    seed
        A whole number makes the run reproducible, to the byte and on any number of threads.
    threads
        Threads to use; by default all processors. Several chains share them and run side by side.
    store
        A path where the run is written as it goes: a Zarr folder that survives the process, can be looked at
        meanwhile (`ac.open_run`, or plain xarray) and continued (`AlloCore.resume`). By default, memory.
    progress
        Show a progress bar (only ever on a terminal).

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

    budget: int | Literal["infer"] = 100
    core_shape: tuple[int, ...] | None = None
    _: KW_ONLY
    alpha0: float = 0.1
    max_budget: int = 400
    c0: float = 1.0
    d0: float = 1.0

    def _spec(self, shape: tuple[int, ...]) -> Spec:
        if isinstance(self.budget, str) and self.budget != "infer":
            raise InputError(f"budget is {self.budget!r}, but it must be a whole number or 'infer'")
        prior = (self.a0, self.b0, self.e0, self.f0, self.alpha0)
        if self.budget == "infer":
            most = whole_number("max_budget", self.max_budget)
            core_shape = core_shape_for(shape, most, self.core_shape)
            return Spec(most, core_shape, *prior, infer_budget=True, c0=self.c0, d0=self.d0)
        return Spec(self.budget, core_shape_for(shape, self.budget, self.core_shape), *prior)

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        own = {"core_shape": spec.core_shape, "alpha0": spec.alpha0}
        if not spec.infer_budget:
            return {**own, "budget": spec.budget}
        return {**own, "budget": "infer", "max_budget": spec.budget, "c0": spec.c0, "d0": spec.d0}


@dataclass(eq=False, repr=False)
class CP(_GibbsModel):
    """Bayesian Poisson CP: `rank` classes, each with a factor of its own in every mode. Settings as in `AlloCore`.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.CP(4, burn_in=5, draws=2, thin=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 4 classes, core 4 x 4 x 4 x 4 x 4
    """

    rank: int

    def _spec(self, shape: tuple[int, ...]) -> Spec:
        rank = whole_number("rank", self.rank)
        prior = (self.a0, self.b0, self.e0, self.f0)
        return Spec(rank, (rank,) * len(shape), *prior, model="CP")

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        return {"rank": spec.budget}


@dataclass(eq=False, repr=False)
class Tucker(_GibbsModel):
    """Bayesian Poisson Tucker: a class on every location of the core. Other settings as in `AlloCore`.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.Tucker((2, 3, 2, 1, 1), burn_in=5, draws=2, thin=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 12 classes, core 2 x 3 x 2 x 1 x 1
    """

    core_shape: tuple[int, ...]

    def _spec(self, shape: tuple[int, ...]) -> Spec:
        core_shape = whole_core(shape, self.core_shape, "Tucker")
        prior = (self.a0, self.b0, self.e0, self.f0)
        return Spec(math.prod(core_shape), core_shape, *prior, model="Tucker")

    @classmethod
    def _own_settings(cls, spec: Spec) -> dict[str, Any]:
        return {"core_shape": spec.core_shape}


def thread_number(threads: int | None) -> int:
    """Check a number of threads; None is all processors."""
    return available_threads() if threads is None else whole_number("threads", threads)


def seed_number(seed: int | None) -> int:
    """Check a seed; None is a new one each time."""
    return secrets.randbits(32) if seed is None else whole_number("seed", seed, least=0)


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
    """The model of a run on disk."""
    from allocore.run.run_reader import read_attributes

    models = {"AlloCore": AlloCore, "CP": CP, "Tucker": Tucker}
    name = json.loads(read_attributes(_path("path", path))["settings"])["model"]
    if name not in models:
        raise InputError(f"path is {str(path)!r}, but it holds an estimate of {name}, which has no chains to continue")
    return models[name]


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError(f"{name} is {value!r}, but it must be a path")
    return Path(value)

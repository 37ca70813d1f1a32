"""The models as estimators with scikit-learn's conventions: AlloCore, CP and Tucker by Gibbs sampling, NNTuck by EM.

The constructor only stores settings; `fit` checks them and runs. CP is ALL0CORE with the classes fixed on the
super-diagonal of the core, Tucker with one on every location. scikit-learn is imported only when it calls.
"""

import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from html import escape
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from allocore._io import path_of
from allocore._memory import require_memory
from allocore.errors import NO_VALUE, Described, InputError, check_flags, is_word, not_fitted, whole_number
from allocore.findings import Finding, warn
from allocore.kernels.workers import available_threads
from allocore.model.modes import (
    FrozenTable,
    Mode,
    check_known,
    concentrations_given,
    core_shape_given,
    exposures_of,
    known_given,
    modes_given,
    modes_of,
    tied_given,
    with_free_factors,
)
from allocore.model.spec import LikelihoodChoice, LikelihoodName, Spec, check_counts, core_shape_for, likelihood_for
from allocore.progress import log, progress_bar
from allocore.storage.record import Growth, MemoryStore, Plan, Schedule, Size, fingerprint, fingerprint_of_cells
from allocore.tensor.count_tensor import CountTensor, undirected_finding
from allocore.tensor.holdout import training_data
from allocore.tensor.labels import matching_rows
from allocore.tensor.sharded import ShardedTensor

if TYPE_CHECKING:
    import pandas as pd

    from allocore.classes.numbering import Numbers
    from allocore.model.state import State
    from allocore.results import Posterior
    from allocore.storage.record import Record, Store
    from allocore.storage.zarr_format import OnError

_Model = TypeVar("_Model", bound="Estimator")
_MOST_THREADS = 1024
_MOST_LOCATIONS = 1_000_000
_DRAWN_MODELS = ("AlloCore", "CP", "Tucker")
_FIRST_SWEEPS, _FIRST_CHAINS = 250, 8  # of a run that grows, and in a comparison
_MAX_SWEEPS, _MAX_CHAINS = 4000, 32
_QUICK_SWEEPS, _QUICK_CHAINS = 50, 4  # of a quick look
# The settings of the paper.
PUBLISHED = {"likelihood": "poisson", "e0": 1.0, "burn_in": 1000, "draws": 200, "thin": 20, "chains": 1}
_PRIORS = ("a0", "b0", "e0", "f0", "s0", "t0", "g0", "h0")

# The settings that several models share, described once. `_describe_settings` inserts them into their docstrings.
_SETTINGS = """\
a0, b0 : float, default=1.0
    Shape and rate of the gamma prior of the core values.
e0 : float, sequence of float or "infer", default=1.0
    Shape of the gamma prior of the factors, the concentration: one number, or one per mode. If it is small, few
    labels dominate a factor. "infer" learns one per mode (`posterior_.concentrations`).
f0 : float, default=10.0
    Rate of the gamma prior of the factors.
s0, t0 : float, default=1.0
    Shape and rate of the gamma prior of the concentrations, if e0 is "infer".
likelihood : {"auto", "poisson", "negative-binomial", "bernoulli"}, default='auto'
    The distribution of a count given its rate. "negative-binomial" ("nb" for short) fits bursts: variance / mean is
    1 / (1 - p), and p near 0 is Poisson. "bernoulli" is for zeros and ones, such as `Y.binarize()`. "auto" takes
    "bernoulli" if all counts are 0 or 1, and "negative-binomial" otherwise. "poisson" is the paper's.
dispersion_by : str or int, default=None
    A mode whose rows each have their own dispersion p of the negative binomial; None means one p for all.
modes : dict, default=None
    Settings of single modes, by name: `{"month": ac.Mode(exposure=days), "sender": ac.Mode(e0=0.1)}`. `e0` and
    `core_shape` with an entry per mode are short forms of the same.
tied : pair of str or int, default=None
    Two modes that are two roles of the same labels, such as `("sender", "receiver")`. They share their factors: each
    label has one membership for both roles. The diagonal must be missing (`Y.mask_diagonal`).
g0, h0 : float, default=1.0
    Parameters of the beta prior of p. With `dispersion_by`, rows with few cells need h0 > 1 for a finite expected
    count and h0 > 2 for a finite variance: the mean of p / (1 - p) is infinite under Beta(g, h) if h <= 1.
sweeps : int or "auto", default='auto'
    Sweeps of each chain: the first half is discarded, and 25 draws of the second half are kept. "auto" begins with
    250 and doubles them until the log-likelihood no longer drifts.
burn_in, draws, thin : int, default=None
    A fixed schedule in place of `sweeps`: the sweeps to discard, the draws to keep, and the sweeps from one draw to the
    next. If one of them is given, the others are 1000, 200 and 20.
chains : int or "auto", default='auto'
    Independent chains. They run in parallel and share the threads. "auto" begins with 8 and doubles them until another
    run is expected to find nine tenths of the classes, by counts, or until more chains no longer help.
max_sweeps, max_chains : int, default=None
    Where `sweeps="auto"` and `chains="auto"` end at the latest; None means 4000 and 32.
max_time : float, default=None
    Seconds after which the run stops, with the draws made so far. No round is begun that would end later. With `store`,
    `resume` continues it. This is the only limit that makes the result depend on the speed of the machine.
quick : bool, default=False
    Whether to take a quick look: the first 50 sweeps of the first 4 chains, in a fraction of the time. The result is
    preliminary, and says so. With `store`, `resume` continues it to the same draws as a whole fit.
seed : int, default=None
    Makes the result reproducible, to the byte and on any number of threads; None takes a new one each time.
threads : int, default=None
    Threads to use; None means all processors.
store : str or path, default=None
    A new folder, in Zarr format, to which draws are written during the run. You can open it at any time
    (`ac.open_run`, or xarray) and continue after a crash (`resume`). None keeps the run in memory.
executor : concurrent.futures.Executor or dask.distributed.Client, default=None
    Where the chains run: a process pool, a Dask cluster or another executor; None means this process. The draws
    are the same to the byte. With an executor, `threads` is the number for each chain, one by default.
progress : bool, default=True
    Whether to show progress: bars on a terminal and in a notebook, lines in a log.
"""
_POSTERIOR = """
Attributes
----------
posterior_ : Posterior
    The draws of all chains, with summaries, predictions and diagnostics. It exists after `fit`.
"""


def _describe_settings(model: "type[_Model]") -> "type[_Model]":
    """Insert the shared settings of a model into its docstring, in place of `{settings}`."""
    described = {re.split("[, ]", entry, maxsplit=1)[0]: entry for entry in re.split(r"\n(?=\w)", _SETTINGS.rstrip())}
    own, posterior = model.__doc__ or "", "" if "posterior_ :" in (model.__doc__ or "") else _POSTERIOR
    shared = [described[each.name] for each in fields(model) if each.name in described]
    model.__doc__ = own.replace("{settings}", indent("\n".join([*shared, posterior]), "    ").strip())
    return model


@dataclass(eq=False, repr=False)
class Estimator:
    """Base of all models: settings are read and changed by name, and shown in text and HTML."""

    _fitted: ClassVar[tuple[str, ...]] = ("posterior_",)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in self._fitted:
                raise not_fitted(f"this {type(self).__name__} has no {name} yet: call fit first")
            raise AttributeError(f"this {type(self).__name__} has no {name}")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep : bool, default=True
            Ignored; scikit-learn passes it.

        Returns
        -------
        dict

        Examples
        --------
        >>> import allocore as ac
        >>> ac.AlloCore(budget=20).get_params()["budget"]
        20
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; they take effect at the next `fit`.

        Parameters
        ----------
        **params
            Settings and their new values. An unknown name raises an error, and nothing changes.

        Returns
        -------
        Self

        Examples
        --------
        >>> import allocore as ac
        >>> ac.AlloCore(budget=20).set_params(budget=30, seed=1)
        AlloCore(seed=1, budget=30)
        """
        known = [field.name for field in fields(self)]
        for name in params:
            if name not in known:
                raise InputError("params", name, f"must be a setting of {type(self).__name__}: one of {known}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _forget_fit(self) -> None:
        for name in self._fitted:
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn, the only caller: counts of two or more modes in, no target."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            non_deterministic=getattr(self, "seed", None) is None,
            input_tags=InputTags(two_d_array=True, three_d_array=True, sparse=True, positive_only=True),
        )

    def _repr_html_(self) -> str:
        found = self.posterior_._repr_html_() if hasattr(self, "posterior_") else "<p>Not fitted yet.</p>"
        return f"<p><code>{escape(repr(self))}</code></p>{found}"

    def __repr__(self) -> str:
        texts = {field.name: (repr(getattr(self, field.name)), repr(field.default)) for field in fields(self)}
        changed = [f"{name}={value}" for name, (value, default) in texts.items() if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"


def thread_number(threads: int | None) -> int:
    """Check a number of threads; None means all processors."""
    number = available_threads() if threads is None else whole_number("threads", threads)
    if number > _MOST_THREADS:
        raise InputError("threads", number, f"must be at most {_MOST_THREADS:,}")
    return number


def seed_number(seed: int | None) -> int:
    """Check a seed; None gives a new one each time."""
    return secrets.randbits(32) if seed is None else whole_number("seed", seed, least=0)


def seconds_limit(max_time: object) -> float | None:
    """Check a limit on time; None means no limit."""
    if max_time is None:
        return None
    number = isinstance(max_time, int | float) and not isinstance(max_time, bool)
    if not (number and 0 < float(max_time) < math.inf):  # type: ignore[arg-type]
        raise InputError("max_time", max_time, "must be a positive number of seconds")
    return float(max_time)  # type: ignore[arg-type]


class RunSize(NamedTuple):
    """The schedule and the chains of the first round of a run, and how both grow."""

    schedule: Schedule
    chains: int
    growth: Growth | None

    @classmethod
    def of(cls, settings: "GibbsEstimator", start: "Posterior | None" = None) -> "RunSize":
        """Return the size that the settings of a model ask for; chains that start from another run do not grow."""
        own = {name: getattr(settings, name) for name in ("burn_in", "draws", "thin")}
        own = {name: value for name, value in own.items() if value is not None}
        longer, more = is_word(settings.sweeps, "auto") and not own, is_word(settings.chains, "auto")
        if own and not is_word(settings.sweeps, "auto"):
            raise InputError("sweeps", settings.sweeps, f"must be left out if {', '.join(own)} is given")
        most = {}
        for name, grows, default in (("sweeps", longer, _MAX_SWEEPS), ("chains", more, _MAX_CHAINS)):
            given = getattr(settings, f"max_{name}")
            if given is not None and not grows:
                raise InputError(f"max_{name}", given, f"needs `{name}` 'auto'; it is fixed here")
            most[name] = default if given is None else whole_number(f"max_{name}", given)
        if own:
            schedule = Schedule(**own)
        elif longer:
            schedule = Schedule.of_sweeps(min(_FIRST_SWEEPS, most["sweeps"]))
        else:
            schedule = Schedule.of_sweeps(_number("sweeps", settings.sweeps))
        chains = min(_FIRST_CHAINS, most["chains"]) if more else _number("chains", settings.chains)
        if more and start is not None:
            chains, more = len(start.core_values), False
        growth = Growth(longer, more, most["sweeps"], most["chains"]) if longer or more else None
        return cls(schedule, chains, growth)

    @staticmethod
    def settings_of(plan: Plan) -> dict[str, Any]:
        """Return the settings from which a plan came."""
        growth = plan.growth
        fixed = growth is None or not growth.sweeps
        settings: dict[str, Any] = dict(vars(plan.schedule)) if fixed else {}
        settings["chains"] = "auto" if growth is not None and growth.chains else plan.chains
        for name in ("sweeps", "chains"):
            if growth is not None and getattr(growth, name):
                settings[f"max_{name}"] = getattr(growth, f"max_{name}")
        return settings


def _number(name: str, value: object) -> int:
    if isinstance(value, str):  # and not "auto"
        raise InputError(name, value, "must be a whole number or 'auto'")
    return whole_number(name, value)


@dataclass(eq=False, repr=False, kw_only=True)
class GibbsEstimator(Estimator):
    """Settings, `fit` and `resume` of AlloCore, CP and Tucker, each of which adds its size and its `_spec`."""

    _model: ClassVar[str]

    a0: float = 1.0
    b0: float = 1.0
    e0: float | Sequence[float] | Literal["infer"] = 1.0
    f0: float = 10.0
    s0: float = 1.0
    t0: float = 1.0
    likelihood: LikelihoodChoice = "auto"
    dispersion_by: str | int | None = None
    modes: Mapping[str | int, Mode] | None = None
    tied: Sequence[str | int] | None = None
    g0: float = 1.0
    h0: float = 1.0
    sweeps: int | Literal["auto"] = "auto"
    burn_in: int | None = None
    draws: int | None = None
    thin: int | None = None
    chains: int | Literal["auto"] = "auto"
    max_sweeps: int | None = None
    max_chains: int | None = None
    max_time: float | None = None
    quick: bool = False
    seed: int | None = None
    threads: int | None = None
    store: str | os.PathLike[str] | None = None
    executor: object = None
    progress: bool = True

    if TYPE_CHECKING:
        posterior_: Posterior = field(init=False)

    def fit(self, Y: object, y: object = None, *, start: "Posterior | None" = None, resume: bool = False) -> Self:
        """Draw from the posterior given a tensor of counts.

        Ctrl-C and SIGTERM stop the run after the current sweep; `posterior_` then has the draws made so far.

        Parameters
        ----------
        Y : CountTensor, array, sparse array, path or Split
            Anything that `as_tensor` takes, or a split of `hold_out`, whose held-out cells `evaluate` scores.
        y : object, default=None
            Ignored; scikit-learn passes it.
        start : Posterior, default=None
            A fit of the same model to similar data: the chains start at its last draws, not at draws from the prior,
            and need less burn-in. Rows are matched by label; new ones start at the mean of the others. With
            `chains="auto"` there are as many chains as in that fit, and with `likelihood="auto"` the same likelihood.
            Classes of the consensus keep the numbers and names that they have there.
        resume : bool, default=False
            Whether to continue the run in `store` if it is there, or do nothing if it is complete. So the same call can
            be repeated until it ends. A run of other data or settings raises an error.

        Returns
        -------
        Self

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CP(3, burn_in=5, draws=2, thin=1, chains=1, seed=1).fit(ac.load_flights()).posterior_
        Posterior: 1 chain of 2 draws, 3 classes, core 3 x 3 x 3 x 3 x 3, negative binomial
        """
        self._forget_fit()
        if start is not None:
            _check_start(start)
        check_flags(resume=resume, quick=self.quick, progress=self.progress)
        if resume and (self.store is None or self.quick):
            raise InputError("resume", True, "needs `store`" if self.store is None else "must be left out with `quick`")
        tensor, held_out = training_data(Y)
        _ask_whether_undirected(tensor)
        size, seed = RunSize.of(self, start), seed_number(self.seed)
        spec = self._spec(tensor)
        if is_word(self.likelihood, "auto") and start is not None:
            spec = replace(spec, likelihood=start.likelihood)
        _check_likelihood_suits(spec.likelihood, tensor)
        thread_number(self.threads)
        executor = _as_executor(self.executor)
        states, started = (None, None) if start is None else _states(start, tensor, spec, size.chains)
        plan = Plan(tensor, spec, size.schedule, size.chains, seed, held_out, started, growth=size.growth)
        plan = _quick_look(plan) if self.quick else plan
        needs = self._needs(plan)
        if needs and self.progress:
            log(needs)
        path = None if self.store is None else _path("store", self.store)
        if resume and path is not None and path.exists():
            return self._run(self._reopened(path, plan), executor)
        numbers = None if start is None else _numbers(start, tensor, self.progress)
        if path is None:
            return self._run(MemoryStore(plan, states), executor, numbers)
        from allocore.classes.numbering import write_start
        from allocore.storage.run_writer import ZarrStore

        def write_numbers(folder: Path) -> None:
            if numbers is not None:
                write_start(folder, numbers)

        return self._run(ZarrStore.create(path, plan, states, write_numbers), executor)

    def _reopened(self, path: Path, plan: Plan) -> "Store":
        """The run at a path, to be continued if it has the data and settings of a plan; without a seed, with any."""
        from allocore.storage.run_writer import ZarrStore

        def resumed(stored: Plan) -> Plan:
            left_out = {"modes"} if self.seed is not None else {"modes", "seed"}  # the plan has what is given for modes
            names = ["model", *(each.name for each in fields(self) if each.name not in left_out)]
            _check_same_run(plan, stored, names)
            return stored.resumed()

        return ZarrStore.reopen(path, resumed=resumed)

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        *,
        draws: int | None = None,
        sweeps: int | None = None,
        chains: int | Literal["auto"] | None = None,
        max_time: float | None = None,
        threads: int | None = None,
        executor: object = None,
        progress: bool = True,
        on_error: "OnError" = "raise",
    ) -> Self:
        """Continue a run that was fitted with `store=`. The draws are those of a run without interruption.

        Parameters
        ----------
        path : str or path
            The folder of the run.
        draws : int, default=None
            Draws of each chain at the end; None keeps the planned number. A larger number extends the run, whose sweeps
            no longer grow by themselves.
        sweeps : int, default=None
            Total number of sweeps of each chain, for chains that have not settled: the planned ones become burn-in, and
            draws of the later ones replace theirs. None keeps the planned number.
        chains : int or "auto", default=None
            Chains at the end; None keeps the planned number, or lets it grow if the run began with "auto". Those that
            are added are shown when they have caught up.
        max_time : float, default=None
            As in the constructor, counted from now.
        threads, executor, progress : int, Executor or dask.distributed.Client, bool
            As in the constructor. They may differ from the first part of the run.
        on_error : {"raise", "drop"}, default="raise"
            What to do with draws that are damaged on disk: raise an error, or drop them and continue.

        Returns
        -------
        Self
            A fitted estimator with the settings of the run. If the run is already complete, nothing is drawn.

        Examples
        --------
        >>> import tempfile
        >>> import allocore as ac
        >>> path = tempfile.mkdtemp() + "/run.zarr"
        >>> model = ac.CP(3, burn_in=5, draws=2, thin=1, chains=1, seed=1, store=path).fit(ac.load_flights())
        >>> ac.CP.resume(path, draws=4).posterior_
        Posterior: 1 chain of 4 draws, 3 classes, core 3 x 3 x 3 x 3 x 3, negative binomial
        """
        from allocore.run.memory import cells_in_memory, check_memory
        from allocore.storage.run_writer import ZarrStore

        name = model_name(path)
        if name != cls._model:
            raise InputError("path", str(path), f"must be a run of {cls._model}; {name}.resume continues this one")
        if sweeps is not None and draws is not None:
            raise InputError("sweeps", sweeps, "must be left out if draws is given")
        for argument, value in (("draws", draws), ("sweeps", sweeps), ("chains", chains), ("threads", threads)):
            if value is not None and (argument, value) != ("chains", "auto"):
                whole_number(argument, value)
        seconds_limit(max_time)
        ready = _as_executor(executor)
        number = thread_number(threads)

        def resumed(plan: Plan) -> Plan:
            if is_word(chains, "auto"):
                _check_growing(plan)
            larger = plan.resumed(draws, None if isinstance(chains, str) else chains, sweeps)
            if (larger.schedule, larger.chains) != (plan.schedule, plan.chains):
                cells = cells_in_memory(plan.tensor, on_workers=ready is not None)
                check_memory(larger, stored=True, threads=number, cells=cells)
            return larger

        store = ZarrStore.reopen(_path("path", path), on_error, resumed)
        settings = _settings_of(store.plan)
        model = cls(**{each.name: settings[each.name] for each in fields(cls) if each.name in settings})
        model.set_params(threads=threads, executor=executor, progress=progress, store=path, max_time=max_time)
        return model._run(store, ready)

    def _needs(self, plan: Plan) -> str:
        """Refuse a plan that cannot fit in memory; return what it needs, in a sentence."""
        from allocore.run.memory import cells_in_memory, check_memory

        cells = cells_in_memory(plan.tensor, on_workers=self.executor is not None)
        threads, stored = thread_number(self.threads), self.store is not None
        return check_memory(plan, stored=stored, threads=threads, cells=cells)

    def _run(self, store: "Store", executor: Executor | None, start: "Numbers | None" = None) -> Self:
        from allocore.growth import Growing
        from allocore.results import Posterior
        from allocore.run.chains import run_chains
        from allocore.run.cluster.chains import run_on_executor

        points = [store.resume_point(chain) for chain in range(store.plan.chains)]
        done = [0 if point is None else point[0] for point in points]
        seconds, threads = seconds_limit(self.max_time), self.threads
        growing = None
        if store.plan.growth is not None and store.plan.full is None:
            growing = Growing(sum(done), self._needs, progress=self.progress, seconds=seconds)
        how: dict[str, Any] = {
            "observer": progress_bar(self.progress, store.plan.schedule, done),
            "next_round": growing,
            "max_time": seconds,
        }
        if isinstance(store.plan.tensor, ShardedTensor):
            record = self._run_sharded(store, store.plan.tensor, executor, how)
        elif executor is None:
            record = run_chains(store, threads=thread_number(threads), **how)
        else:
            threads_each = 1 if threads is None else whole_number("threads", threads)
            record = run_on_executor(store, executor, threads=threads_each, **how)
        if growing is not None and growing.ended is not None:
            warn(growing.ended, stacklevel=3)
        threads = thread_number(threads if executor is None else None)
        self.posterior_ = Posterior(record, threads, folder=store.path, start=start)
        return self

    def _run_sharded(
        self, store: "Store", tensor: ShardedTensor, executor: Executor | None, how: dict[str, Any]
    ) -> "Record":
        from allocore.run.chains import run_chains
        from allocore.run.cluster.shards import ShardedThinning
        from allocore.run.streaming import StreamedThinning

        if executor is None:
            return run_chains(store, threads=thread_number(self.threads), thin_cells=StreamedThinning(tensor), **how)
        thinning = ShardedThinning(tensor, executor, self.threads, store.how_to_resume())
        return run_chains(store, threads=thread_number(None), thin_cells=thinning, **how)

    def _common(self, tensor: CountTensor) -> dict[str, Any]:
        likelihood = likelihood_for(self.likelihood, tensor.max, self.dispersion_by)
        by = self.dispersion_by
        if by is not None:
            try:
                by = tensor.mode(by)
            except InputError:
                rule = f"must be a mode of the tensor, one of {list(tensor.mode_names)}"
                raise InputError("dispersion_by", by, rule) from None
            if by in (tensor.undirected_modes or ()):
                rule = "must not be an end of undirected ties: both ends of a pair would have a dispersion"
                raise InputError("dispersion_by", tensor.mode_names[by], rule)
        priors = {name: getattr(self, name) for name in _PRIORS}
        given, tied = modes_given(self.modes, tensor), tied_given(self.tied, tensor)
        frozen = _frozen_tables(given, tensor)
        priors["e0"] = concentrations_given(given, tensor.mode_names, self.e0)
        known: dict[str, Any] = {"exposures": exposures_of(given, tensor), "tied": tied}
        known["known"] = known_given(given, frozen, tensor, tied)
        return {**priors, "likelihood": likelihood, "dispersion_by": by, **known}

    def _modes(self, tensor: CountTensor, common: Mapping[str, Any]) -> dict[int, Mode]:
        """What is given for single modes, with the number of their factors if that follows from `free`."""
        return with_free_factors(modes_given(self.modes, tensor), common["known"], common["tied"])

    def _spec(self, tensor: CountTensor) -> Spec:
        raise NotImplementedError


def model_name(path: str | os.PathLike[str]) -> str:
    """Return the name of the model of a run on disk. Raises an error if it has no chains to continue."""
    from allocore.storage.zarr_format import stored_model

    name = stored_model(_path("path", path))
    if name not in _DRAWN_MODELS:
        raise InputError("path", str(path), f"must be a run with chains to continue, not an estimate of {name}")
    return name


def _check_same_run(asked: Plan, stored: Plan, names: Sequence[str]) -> None:
    """Check that a stored run has the data and the settings (by `names`) that are asked for, however far it is."""
    ours, theirs = _settings_of(asked), _settings_of(stored)
    if fingerprint(asked.tensor) != fingerprint(stored.tensor):
        rule = f"must have the cells and labels of the data of the run in `store`, {stored.tensor!r}"
        raise InputError("Y", Described(repr(asked.tensor)), rule)
    cells = [None if each is None else fingerprint_of_cells(each) for each in (asked.held_out, stored.held_out)]
    if cells[0] != cells[1]:
        raise InputError("Y", Described("a split"), "must hold out the same cells as the run in `store`")
    if asked.spec.exposures != stored.spec.exposures:
        raise InputError("exposure", NO_VALUE, "must have the same weights as the run in `store`")
    if asked.spec.known != stored.spec.known:
        raise InputError("modes", NO_VALUE, "must have the same seeds and frozen factors as the run in `store`")
    for name in names:
        value, known = ours.get(name), theirs.get(name)
        if value != known:
            rule = "must be left out" if known is None else f"must be {known!r}"
            raise InputError(name, NO_VALUE if value is None else value, f"{rule}, as in the run in `store`")
    if asked.started != stored.started:
        raise InputError("start", NO_VALUE, "must be the run from whose last draws the run in `store` began")


def _settings_of(plan: Plan) -> dict[str, Any]:
    """The settings of an estimator that decide the draws of a whole run, and more; also the name of the model."""
    if plan.full is not None:
        plan = replace(plan, schedule=plan.full.schedule, chains=plan.full.chains)
    settings = {**vars(plan.spec), **RunSize.settings_of(plan), "seed": plan.seed, "rank": plan.spec.budget}
    settings["modes"] = modes_of(plan.spec.exposures, plan.spec.known, plan.tensor) or None
    if plan.spec.infer_budget:
        settings |= {"budget": "infer", "max_budget": plan.spec.budget}
    return settings


def _frozen_tables(given: Mapping[int, Mode], tensor: CountTensor) -> dict[int, FrozenTable]:
    if all(each.frozen is None for each in given.values()):
        return {}
    from allocore.classes.frozen import frozen_tables

    return frozen_tables(given, tensor)


def _quick_look(plan: Plan) -> Plan:
    """The plan of the first sweeps of a run, which `resume` continues. They must be part of its burn-in."""
    full = Size(plan.schedule, plan.chains)
    sweeps = min(_QUICK_SWEEPS, full.schedule.burn_in)
    if sweeps < 2:
        raise InputError("quick", True, f"needs a burn-in of at least 2 sweeps, and it is {full.schedule.burn_in} here")
    # The chains of a refit begin together: none can be added later.
    chains = full.chains if plan.started is not None else min(_QUICK_CHAINS, full.chains)
    return replace(plan, schedule=Schedule.of_sweeps(sweeps), chains=chains, full=full)


def _check_growing(plan: Plan) -> None:
    """Refuse to let the chains of a run grow if it was started with a fixed number."""
    if plan.growth is None or not plan.growth.chains:
        rule = f"must be a whole number: this run was started with a fixed number of chains, {plan.chains}"
        raise InputError("chains", "auto", rule)


def _check_start(start: object) -> None:
    from allocore.results import Posterior

    if not isinstance(start, Posterior):
        kind = Described(f"an object of type {type(start).__name__}")
        raise InputError("start", kind, "must be a posterior: model.posterior_, or ac.open_run(path)")


def _states(start: "Posterior", tensor: CountTensor, spec: Spec, chains: int) -> "tuple[list[State], int]":
    from allocore.posterior.predict import drawn
    from allocore.run.chains import number_of_states, start_states

    states = start_states(drawn(start.record), tensor, spec, chains)
    return states, number_of_states(states)


def _numbers(start: "Posterior", tensor: CountTensor, progress: bool) -> "Numbers":
    """The numbers and names with which the consensus of a refit begins: those of the run where it starts."""
    from allocore.classes.numbering import carried_over

    places = matching_rows(tensor.labels, start.tensor.labels)
    return carried_over(start.consensus(progress=progress).numbering, places)


def _check_likelihood_suits(likelihood: LikelihoodName, tensor: CountTensor) -> None:
    check_counts(likelihood, tensor.max)
    if likelihood == "negative-binomial" and tensor.max == 1:
        warn(Finding("dispersion-of-ones", "caution"), stacklevel=3)


def _ask_whether_undirected(tensor: CountTensor) -> None:
    known = () if tensor.report is None else tensor.report.findings  # read_events has asked already
    finding = None if isinstance(tensor, ShardedTensor) else undirected_finding(tensor)
    if finding is not None and finding not in known:
        warn(finding, stacklevel=3)


def _as_executor(executor: object) -> Executor | None:
    if executor is None:
        return None
    from allocore.run.cluster.chains import as_executor

    return as_executor(executor)


def _path(name: str, value: object) -> Path:
    return path_of(value, name)


@_describe_settings
@dataclass(eq=False, repr=False)
class AlloCore(GibbsEstimator):
    """Bayesian ALL0CORE: a Tucker decomposition whose core has at most `budget` non-zeros.

    The positions of the non-zeros in the core are learned, so classes can share factors.

    Parameters
    ----------
    budget : int or "infer", default=100
        Q, the largest number of classes (non-zeros of the core). Time and memory grow with it. "infer" learns the
        number, up to `max_budget`; `posterior_.budget` then has it for every draw.
    core_shape : sequence of int, default=None
        K_m, the number of factors of each mode. None means Q in every mode.
    alpha0 : float, default=0.1
        Concentration of the Dirichlet prior of the locations in each mode. If it is small, more classes share factors.
    max_budget : int, default=400
        The largest number of classes if budget is "infer"; not used otherwise.
    c0, d0 : float, default=1.0
        Parameters of the beta prior of the share of classes in use, if budget is "infer".
    {settings}

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> model = ac.AlloCore(budget=10, burn_in=30, draws=5, thin=2, chains=1, seed=1).fit(Y)
    >>> model.posterior_.classes(top=2)[["share", "carrier_factor", "carrier_top"]].shape[1]
    3
    >>> model = ac.AlloCore(budget="infer", max_budget=30, burn_in=30, draws=5, thin=2, chains=1, seed=1).fit(Y)
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

    @classmethod
    def published(cls, budget: int = 100, **settings: Any) -> "AlloCore":
        """Return the model with the settings of the paper by Hood and Schein (2024).

        They are the Poisson likelihood, e0 = 1, and one chain of 1,000 sweeps of burn-in and 4,000 more, of which every
        20th is a draw.

        Parameters
        ----------
        budget : int, default=100
            Q, the largest number of classes.
        **settings
            Other settings, such as `seed`; they override those of the paper.

        Returns
        -------
        AlloCore

        Examples
        --------
        >>> import allocore as ac
        >>> ac.AlloCore.published(50, seed=1)
        AlloCore(likelihood='poisson', burn_in=1000, draws=200, thin=20, chains=1, seed=1, budget=50)
        """
        return cls(**{**PUBLISHED, "budget": budget, **settings})

    def _spec(self, tensor: CountTensor) -> Spec:
        if isinstance(self.budget, str) and self.budget != "infer":
            raise InputError("budget", self.budget, "must be a whole number or 'infer'")
        own: dict[str, Any] = {"alpha0": self.alpha0, **self._common(tensor)}
        if isinstance(self.budget, str):
            most = whole_number("max_budget", self.max_budget)
            own |= {"infer_budget": True, "c0": self.c0, "d0": self.d0}
        else:
            most = self.budget
        core_shape = core_shape_given(self._modes(tensor, own), tensor.mode_names, self.core_shape, most)
        core_shape = core_shape_for(tensor.shape, most, core_shape)
        check_known(own["known"], core_shape, tensor.mode_names)
        return Spec(most, core_shape, **own)


@_describe_settings
@dataclass(eq=False, repr=False)
class CP(GibbsEstimator):
    """Bayesian CP: `rank` classes, each with its own factor in every mode.

    Parameters
    ----------
    rank : int
        The number of classes.
    {settings}

    Examples
    --------
    >>> import allocore as ac
    >>> ac.CP(4, burn_in=5, draws=2, thin=1, chains=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 4 classes, core 4 x 4 x 4 x 4 x 4, negative binomial
    """

    _model: ClassVar[str] = "CP"

    rank: int

    def _spec(self, tensor: CountTensor) -> Spec:
        rank, common = whole_number("rank", self.rank), self._common(tensor)
        for mode, each in self._modes(tensor, common).items():
            if each.factors not in (None, rank):
                name = tensor.mode_names[mode]
                raise InputError(
                    "modes", each, f"must have no number of factors for {name!r}: CP has {rank} in all modes"
                )
        check_known(common["known"], (rank,) * tensor.ndim, tensor.mode_names)
        return Spec(rank, (rank,) * tensor.ndim, model="CP", **common)


@_describe_settings
@dataclass(eq=False, repr=False)
class Tucker(GibbsEstimator):
    """Bayesian Tucker: a class on every location of the core.

    Parameters
    ----------
    core_shape : sequence of int
        K_m, the number of factors of each mode. There is a class on every location of the core.
    {settings}

    Examples
    --------
    >>> import allocore as ac
    >>> ac.Tucker((2, 3, 2, 1, 1), burn_in=5, draws=2, thin=1, chains=1, seed=1).fit(ac.load_flights()).posterior_
    Posterior: 1 chain of 2 draws, 12 classes, core 2 x 3 x 2 x 1 x 1, negative binomial
    """

    _model: ClassVar[str] = "Tucker"

    core_shape: tuple[int, ...]

    def _spec(self, tensor: CountTensor) -> Spec:
        core_shape, common = whole_core(tensor.shape, self.core_shape, "Tucker"), self._common(tensor)
        core_shape_given(self._modes(tensor, common), tensor.mode_names, core_shape, 1)  # they must agree
        check_known(common["known"], core_shape, tensor.mode_names)
        return Spec(math.prod(core_shape), core_shape, model="Tucker", **common)


def whole_core(shape: tuple[int, ...], core_shape: object, model: str) -> tuple[int, ...]:
    """Check the core shape of a model that has a class on every location."""
    if core_shape is None:
        raise InputError("core_shape", None, f"must have one whole number per mode for {model}")
    sizes = core_shape_for(shape, 1, core_shape)
    if math.prod(sizes) > _MOST_LOCATIONS:
        raise InputError(
            "core_shape",
            sizes,
            f"must have at most {_MOST_LOCATIONS:,} locations, because {model} visits all of them for every non-zero; "
            "AlloCore visits only as many as its budget",
        )
    return sizes


def model_of(path: str | os.PathLike[str]) -> type[AlloCore] | type[CP] | type[Tucker]:
    """The class of the model of a run on disk."""
    models = {"AlloCore": AlloCore, "CP": CP, "Tucker": Tucker}
    return models[model_name(path)]


@_describe_settings
@dataclass(eq=False, repr=False)
class NNTuck(Estimator):
    """Poisson Tucker by maximum likelihood, found by EM (multiplicative updates) from several random starts.

    There are no priors: `posterior_` has one draw, the estimate with the highest log-likelihood, with the same methods.
    A label without any observed count has rate 0: a held-out count there has probability 0, and `ppd` is then 0.

    Parameters
    ----------
    core_shape : sequence of int
        K_m, the number of factors of each mode. There is a class on every location of the core.
    restarts : int, default=20
        Random starts, of which the best is kept. The likelihood has many local maxima.
    max_iter : int, default=1000
        The largest number of iterations of one restart.
    tol : float, default=1e-07
        The relative change of the log-likelihood at which a restart has converged. A large one often stops too early.
    {settings}

    Attributes
    ----------
    posterior_ : Posterior
        The estimate, as one chain with one draw; `posterior_.stats` has every iteration of the best restart.
    log_likelihood_ : float
        The log-likelihood of the best restart.
    restarts_ : pandas.DataFrame
        One row for each restart: restart, log_likelihood, iterations, converged, seconds.
    n_iter_ : int
        The number of iterations of the best restart.

    Examples
    --------
    >>> import allocore as ac
    >>> model = ac.NNTuck((2, 3, 2, 1, 1), restarts=2, max_iter=20, seed=1).fit(ac.load_flights())
    >>> model.posterior_
    Posterior: 1 chain of 1 draw, 12 classes, core 2 x 3 x 2 x 1 x 1
    >>> bool(model.log_likelihood_ == model.restarts_["log_likelihood"].max())
    True
    """

    _fitted: ClassVar[tuple[str, ...]] = ("posterior_", "log_likelihood_", "restarts_", "n_iter_")

    core_shape: tuple[int, ...]
    _: KW_ONLY
    restarts: int = 20
    max_iter: int = 1000
    tol: float = 1e-7
    seed: int | None = None
    threads: int | None = None
    progress: bool = True

    if TYPE_CHECKING:
        posterior_: Posterior = field(init=False)
        log_likelihood_: float = field(init=False)
        restarts_: pd.DataFrame = field(init=False)
        n_iter_: int = field(init=False)

    def fit(self, Y: object, y: object = None) -> Self:
        """Find the estimate for a tensor of counts.

        Ctrl-C and SIGTERM stop after the current iteration; `posterior_` then has the best estimate so far.

        Parameters
        ----------
        Y, y : CountTensor, array, sparse array, path or Split; object
            As for `AlloCore.fit`.

        Returns
        -------
        Self

        Examples
        --------
        >>> import allocore as ac
        >>> ac.NNTuck((2, 2, 1, 1, 1), restarts=1, max_iter=5, seed=1).fit(ac.load_flights()).n_iter_
        5
        """
        self._forget_fit()
        tensor, held_out = training_data(Y)
        if tensor.undirected_modes is not None:
            rule = "must have directed ties for NNTuck: AlloCore, CP and Tucker know undirected ones"
            raise InputError("Y", Described(repr(tensor)), rule)
        spec = Spec.without_priors(whole_core(tensor.shape, self.core_shape, "NNTuck"))
        restarts, most = whole_number("restarts", self.restarts), whole_number("max_iter", self.max_iter)
        numbers = spec.budget + sum(length * width for length, width in zip(tensor.shape, spec.core_shape, strict=True))
        require_memory(8 * numbers, f"core_shape is {spec.core_shape}, which on a tensor of shape {tensor.shape}")
        tol, threads, seed = self.tol, thread_number(self.threads), seed_number(self.seed)
        if isinstance(tol, bool) or not isinstance(tol, (int, float)) or not (tol > 0 and math.isfinite(tol)):
            raise InputError("tol", tol, "must be a positive number")

        import pandas as pd

        from allocore.em.nntuck import record_of, run_restarts
        from allocore.progress import restart_bar
        from allocore.results import Posterior

        best, summaries = run_restarts(
            tensor,
            spec.core_shape,
            seed,
            restarts=restarts,
            max_iter=most,
            tol=tol,
            threads=threads,
            observer=restart_bar(self.progress, restarts, most),
        )
        self.posterior_ = Posterior(replace(record_of(tensor, spec, seed, best), held_out=held_out), threads)
        self.log_likelihood_, self.n_iter_ = best.log_likelihood, len(best.infos)
        self.restarts_ = pd.DataFrame(summaries)
        return self

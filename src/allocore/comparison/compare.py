"""Compare models on held-out cells: the public function, its result, and its folder.

    DIR/  settings.json            what all jobs have in common
          tensor.npz               the data; of a tensor in shards, tensor.json says where it is
          jobs/NAME.json           the result of a job
          jobs/NAME.failed.json    or its error
          results.csv, report.md, figures

Every file is replaced as a whole. A job is done when its result file exists.
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from allocore._io import (
    ProcessLock,
    path_of,
    read_inside,
    remove_abandoned,
    remove_unfinished,
    replacing,
    result_file,
)
from allocore._text import plural
from allocore.comparison import tables
from allocore.comparison.findings import comparison_findings
from allocore.comparison.jobs import (
    JobProcesses,
    JobProgress,
    Outcome,
    forecast_words,
    place_of_splits,
    run_jobs,
    trial_rates,
)
from allocore.comparison.models import EM_ONLY, Job, Models, Settings, requested_jobs
from allocore.errors import Described, InputError, StoreError, whole_number
from allocore.findings import Finding, sentences
from allocore.kernels.workers import available_threads
from allocore.progress import log
from allocore.run.cluster.chains import as_executor
from allocore.run.cluster.tasks import slots
from allocore.storage.record import fingerprint
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor, load_tensor
from allocore.tensor.holdout import held_out_cells
from allocore.tensor.sharded import ShardedTensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from allocore.report.figures.style import Figure

BUDGETS = (5, 10, 25, 50, 75, 100, 150, 200, 250, 300)
_FAILED = ".failed"
_MOST_BYTES = 2**26  # of the file of a job


@dataclass(frozen=True, repr=False)
class Comparison:
    """How well models predict held-out cells, from `ac.compare`. `print` shows what the numbers mean in sentences.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per fit: `model`, `estimator`, `core` (empty unless you chose it), `budget`, `core_shape`, `split`,
        `log_ppd`, `log_ppd_positive`, their exponentials `ppd`, `ppd_positive`, the `kl`, `auc` and
        `average_precision` of `Posterior.evaluate`, `chains`, the mean log PPDs of single
        chains (`log_ppd_chain`, `log_ppd_positive_chain`), `seconds`, `sweeps`, `seconds_per_sweep`, `classes` and
        `factors_<mode>` in use, `peak_mb`, `threads`, and the `error` of a fit that failed.
    settings : Settings
        What all fits have in common: the data, the share held out, the seeds.
    data : str
        The tensor in one line.
    models : dict of str to str
        Every model with its settings in one line.
    missing : int
        How many of the requested jobs have neither a result nor an error.
    failed_before : int
        How many jobs in the folder failed in earlier calls and were not requested by this one.

    Examples
    --------
    >>> found
    Comparison: 4 fits, 0 failed, 0 missing
    >>> found.table[["model", "budget", "split"]].values.tolist()
    [['allocore-nb', 2, 0], ['allocore-nb', 2, 1], ['allocore-nb', 8, 0], ['allocore-nb', 8, 1]]
    """

    table: pd.DataFrame
    settings: Settings
    data: str
    models: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    failed_before: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the numbers mean, as data."""
        found = comparison_findings(self.table)
        if self.failed_before:
            found.append(Finding("failed-earlier", "caution", {"jobs": self.failed_before}))
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the numbers mean, in sentences."""
        return sentences(self.findings)

    @property
    def failed(self) -> int:
        """How many of the requested jobs failed."""
        return int((self.table["error"] != "").sum()) - self.failed_before

    def summary(self) -> pd.DataFrame:
        """Return medians over the splits, with quartiles of the log PPD.

        Returns
        -------
        pandas.DataFrame
            One row for every model, core and budget.

        Examples
        --------
        >>> found.summary()[["model", "budget", "splits"]].values.tolist()
        [['allocore-nb', 2, 2], ['allocore-nb', 8, 2]]
        """
        return tables.summary_table(self.table)

    def report(self) -> str:
        """Return a report in Markdown: settings, sentences and tables.

        Returns
        -------
        str

        Examples
        --------
        >>> found.report().splitlines()[0]
        '# Comparison of models'
        """
        return tables.report(self)

    def plot(
        self, ax: "Axes | None" = None, *, against: Literal["budget", "seconds"] = "budget", positive: bool = False
    ) -> "Figure | Axes":
        """Draw the log PPD against the budget or the time of a fit: see `ac.figures.ppd`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        against : {"budget", "seconds"}
            What the horizontal axis shows.
        positive : bool
            Show the log PPD of the held-out cells with counts above 0, not of all held-out cells.

        Returns
        -------
        Figure or matplotlib.axes.Axes
            The new figure, which a notebook shows; or `ax`, if that was given.

        Examples
        --------
        >>> plot = found.plot(against="seconds").panels[0]
        >>> "seconds" in plot.get_xlabel()
        True
        """
        from allocore import figures

        return figures.ppd(tables.figure_table(self.table), ax, against=against, positive=positive)

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.sentences])

    def __repr__(self) -> str:
        done = int((self.table["error"] == "").sum())
        return f"Comparison: {plural(done, 'fit')}, {self.failed} failed, {self.missing} missing"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences)
        return f"<p><b>{escape(repr(self))}</b></p><ul>{items}</ul>{self.summary().to_html(index=False)}"


def compare(
    Y: object,
    models: Models,
    budgets: Sequence[int] | None = None,
    *,
    splits: int = 8,
    hold_out: float = 0.01,
    along: int | str = -1,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    executor: object = None,
    retry: bool = False,
    seed: int = 0,
    hold_out_seed: int = 0,
    progress: bool = True,
) -> Comparison:
    """Fit models to random splits of a tensor, and compare how well they predict held-out cells.

    Each fit (a model, a budget, a split) is a job in its own process, or a task of an executor. With a folder `out`,
    the same call continues an interrupted comparison, and later calls can add models, budgets and splits. If you change
    `restarts` or `max_iter` of an NNTuck, it is fitted again, and the fits of all other models stay.

    Parameters
    ----------
    Y : CountTensor, or anything `as_tensor` takes
        The tensor. One in shards stays on disk: each job writes its training tensor in shards next to it, for as long
        as it runs. Only NNTuck reads all cells.
    models : mapping of str to AlloCore, CP, Tucker or NNTuck
        Models, or lists of them, by name. Their `seed`, `threads`, `store`, `executor` and `progress` are not used.
    budgets : sequence of int, optional
        Fit each model at these budgets Q: classes of ALL0CORE and CP, and about Q entries of the core of a Tucker or
        NNTuck whose `core_shape` is None. By default the models have their own sizes.
    splits : int
        How many splits. Split s holds out fibres with the seed `hold_out_seed + s`, and fits with `seed + s`.
    hold_out : float
        Share of the fibres to hold out: see `ac.hold_out`.
    along : int or str
        The mode along which held-out fibres run, by number or name.
    out : str or path, optional
        A folder for the results: `results.csv`, figures, `report.md`, and the files needed to continue.
    jobs : int, optional
        How many jobs run at a time; by default one per processor, or as many as `executor` has room for.
    threads : int, optional
        Threads of a job. By default the jobs share the processors evenly; on an executor each has one thread.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where the jobs run; by default in processes of this machine. The scores are the same.
    retry : bool
        Run jobs again that failed before.
    seed : int
        The seed of the fits to the first split.
    hold_out_seed : int
        The seed of the hold-out of the first split. The two seeds determine all results except times and memory.
    progress : bool
        Show progress: a bar on a terminal; elsewhere a line after ten seconds, then every minute.

    Returns
    -------
    Comparison
        A table of all fits, and what it means in sentences.

    Raises
    ------
    InputError
        If a setting breaks a rule, or `out` holds something else. No job has run then.

    Examples
    --------
    >>> import allocore as ac
    >>> quick = {"burn_in": 5, "draws": 2, "thin": 1, "chains": 1}
    >>> models = {"allocore": ac.AlloCore(5, **quick), "cp": ac.CP(5, **quick)}
    >>> found = ac.compare(ac.load_flights(), models, splits=1)
    >>> found.table[["model", "budget", "split", "sweeps"]].values.tolist()
    [['allocore', 5, 0, 7.0], ['cp', 5, 0, 7.0]]
    """
    tensor = as_tensor(Y)
    settings = Settings.of(tensor, hold_out, along, seed, hold_out_seed)
    requested = requested_jobs(tensor, models, budgets, whole_number("splits", splits), settings)
    at_a_time = None if jobs is None else whole_number("jobs", jobs)
    threads_each = None if threads is None else whole_number("threads", threads)
    workers = None if executor is None else as_executor(executor)
    if out is not None:
        Folder(path_of(out, "out")).check(settings, requested)
    _check_splits(tensor, settings, splits)
    with _place(out, requested) as folder, folder.opened(tensor, settings, requested):
        todo = [job for job in requested if not folder.is_done(job) and (retry or not folder.has_failed(job))]
        _run(folder, tensor, todo, requested, at_a_time, threads_each, workers, progress)
        found = _gather(folder, requested, settings, tensor)
        if out is not None:
            write(found, folder.path)
    return found


@contextmanager
def _place(out: str | os.PathLike[str] | None, requested: list[Job]) -> Iterator["Folder"]:
    """Yield the user's folder, or a temporary one, which stays if it has results after Ctrl-C or a lost cluster."""
    folder = Folder(Path(tempfile.mkdtemp(prefix="allocore-compare-")) if out is None else path_of(out, "out"))
    keep = out is not None
    try:
        yield folder
    except KeyboardInterrupt:
        done = sum(folder.is_done(job) for job in requested)
        keep = keep or done > 0
        rest = f"compare with `out={str(folder.path)!r}` again to continue" if keep else "nothing was saved"
        raise KeyboardInterrupt(f"interrupted with {done} of {len(requested)} jobs done; {rest}") from None
    except StoreError:
        keep = keep or any(folder.is_done(job) for job in requested)
        raise
    finally:
        if not keep:
            rmtree(folder.path, ignore_errors=True)


def _run(
    folder: "Folder",
    tensor: CountTensor,
    todo: list[Job],
    requested: list[Job],
    at_a_time: int | None,
    threads_each: int | None,
    workers: Executor | None,
    progress: bool,
) -> None:
    """Run jobs, and write each outcome and the table of results after it. Without workers, every job is a process."""
    room = available_threads() if workers is None else slots(workers) or 1
    parallel = max(1, min(at_a_time or room, len(todo)))
    threads = threads_each or (max(1, room // parallel) if workers is None else 1)
    names = list(dict.fromkeys(job.model for job in requested))

    def save(job: Job, outcome: Outcome) -> None:
        folder.save(job, outcome)
        tables.write_table(tables.results_table(folder.outcomes(), tensor.mode_names, names), folder.path)

    display = None
    if progress and sys.stderr is not None and todo:
        rates = {} if workers is not None else trial_rates(tensor, todo, threads)  # other machines take other times
        if rates:
            log(forecast_words(todo, rates, parallel))
        display = JobProgress(todo, len(requested) - len(todo), parallel, rates)
    go_on = f"the results so far are in {folder.path}, and a comparison with that folder continues"
    try:
        with JobProcesses(folder.tensor, parallel) if workers is None else nullcontext(workers) as executor:
            run_jobs(
                executor, todo, tensor, parallel=at_a_time, threads=threads, save=save, go_on=go_on, display=display
            )
    finally:
        if isinstance(tensor, ShardedTensor):
            remove_abandoned(place_of_splits(tensor))  # by jobs that were killed


def _gather(folder: "Folder", requested: list[Job], settings: Settings, tensor: CountTensor) -> Comparison:
    missing = sum(not folder.is_done(job) and not folder.has_failed(job) for job in requested)
    outcomes, names = folder.outcomes(), {job.name for job in requested}
    there = [Job.from_json(outcome["job"]) for outcome in outcomes]
    before = sum("error" in outcome and job.name not in names for outcome, job in zip(outcomes, there, strict=True))
    models = {job.model: job.description for job in [*requested, *there]}
    table = tables.results_table(outcomes, tensor.mode_names, list(models))
    return Comparison(table, settings, repr(tensor), models, missing, before)


def write(found: Comparison, folder: Path) -> None:
    """Write the table, the figures and the report of a comparison."""
    tables.write_table(found.table, folder)
    text = tables.report(found, tables.write_figures(found.table, folder))
    with result_file(folder / "report.md") as file:
        file.write(text.encode())


def _check_splits(tensor: CountTensor, settings: Settings, splits: int) -> None:
    """Draw every split once, so that a bad one is reported before any job runs."""
    for split in range(splits):
        try:
            fibres, _ = held_out_cells(tensor, settings.hold_out, settings.along, settings.hold_out_seed + split)
            _ = tensor.missing.union(fibres).cells
        except InputError as error:
            name = "hold_out" if error.argument == "fraction" else error.argument
            raise InputError(name, error.value, f"{error.rule} (split {split})") from None


class Folder:
    """The files of a comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tensor, self._reference = path / "tensor.npz", path / "tensor.json"
        self._requested: dict[str, list[Any]] = {}

    @contextmanager
    def opened(self, tensor: CountTensor, settings: Settings, requested: Sequence[Job]) -> Iterator["Folder"]:
        """Make the folder, or continue one that passed `check`; lock it meanwhile."""
        try:
            (self.path / "jobs").mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise _not_a_folder(self.path) from None
        lock = ProcessLock(self.path / "lock")
        try:
            lock.acquire()
        except BlockingIOError:
            raise StoreError(self.path, "is being written by another process. Wait until it ends") from None
        try:
            remove_unfinished(self.path)
            if isinstance(tensor, ShardedTensor):
                self.tensor = tensor.path
                known = {"fingerprint": fingerprint(tensor), "mode_names": tensor.mode_names}
                _write_json(self._reference, {"path": str(tensor.path), **known})
            # Without settings.json the tensor there may belong to another comparison.
            elif not (self.path / "settings.json").exists() or not self.tensor.exists():
                self._reference.unlink(missing_ok=True)
                tensor.save(self.tensor)
            _write_json(self.path / "settings.json", {"format": 1, **asdict(settings)})
            for job in requested:
                self._requested.setdefault(job.model, []).append(job.settings)
            yield self
        finally:
            lock.release()

    def check(self, settings: Settings, requested: Sequence[Job] = ()) -> None:
        """Refuse a folder that holds something else, or a comparison with other settings."""
        check_place(self.path)
        given, complete = asdict(settings), (self.path / "settings.json").exists()
        advice = "Remove it, and the same comparison rebuilds it from the data and results in the folder"
        known = [_read_json(self.path / "settings.json", advice)] if complete else self._settings_of_results()
        for there in known:
            there = {"hold_out_seed": there.get("seed"), **there}
            for name in given:
                if there.get(name) != given[name]:
                    raise self._conflict(name, given, there)
        wanted = {job.model: job for job in requested}
        for outcome in self._all_outcomes().values() if requested else ():
            there_job = Job.from_json(outcome["job"])
            if there_job.model in wanted:
                self._check_model(wanted[there_job.model], there_job)

    def _check_model(self, job: Job, there: Job) -> None:
        """Refuse a model whose name the folder has with other settings. NNTuck with other starts is fitted again."""
        if job.estimator != there.estimator:
            rule = f"must have other names than those in {str(self.path)!r}, where it is a {there.estimator}"
            raise InputError("models", Described(f"{job.model!r}, a {job.estimator}"), rule)
        before = dict(there.settings)
        for name, value in job.settings:
            if name not in EM_ONLY and before[name] != value:
                ours, theirs = job.arguments[name], there.arguments[name]
                rule = f"must agree with the comparison in {str(self.path)!r}, which has {name}={theirs!r}"
                rule += " with other weights" if repr(ours) == repr(theirs) else ""
                raise InputError("models", Described(f"{job.model!r} with {name}={ours!r}"), rule)

    def _settings_of_results(self) -> list[dict[str, Any]]:
        """Return the settings of every result, for a folder without settings.json."""
        jobs = [Job.from_json(outcome["job"]) for outcome in self._all_outcomes().values()]
        if not jobs:
            return []
        if self._reference.exists():
            there = _read_json(self._reference, "Use another folder")
            same, names = there["fingerprint"], there["mode_names"]
        elif self.tensor.exists():
            tensor = load_tensor(self.tensor)
            same, names = fingerprint(tensor), tensor.mode_names
        else:
            rule = "must be another folder: this one has results, but neither settings.json nor tensor.npz"
            raise InputError("out", str(self.path), rule)
        found = [Settings(same, job.hold_out, job.along, names[job.along], job.seed - job.split,
                          job.hold_out_seed - job.split, job.sampler_version) for job in jobs]  # fmt: skip
        return [asdict(settings) for settings in dict.fromkeys(found)]

    def _conflict(self, name: str, given: dict[str, Any], there: dict[str, Any]) -> InputError:
        if name == "tensor":
            return InputError("out", str(self.path), "must be another folder: this one compares another tensor")
        if name == "sampler_version":
            rule = (
                f"must be another folder: this one has results of sampler version {there.get(name, 0)}, and they "
                f"cannot be compared with version {given[name]}"
            )
            return InputError("out", str(self.path), rule)
        shown = "mode" if name == "along" else name
        rule = f"must be {there.get(shown)!r}, as in the comparison in {str(self.path)!r}; or use another folder"
        return InputError("along" if name == "mode" else name, given[shown], rule)

    def result(self, job: Job) -> Path:
        """Return the file for the result of a job."""
        return self.path / "jobs" / f"{job.name}.json"

    def failure(self, job: Job) -> Path:
        """Return the file for the error of a job."""
        return self.path / "jobs" / f"{job.name}{_FAILED}.json"

    def is_done(self, job: Job) -> bool:
        """Return whether this job has a result; an older version may have chosen another core for the budget."""
        return _is_of(self.result(job), job)

    def has_failed(self, job: Job) -> bool:
        """Return whether this job has an error and no result."""
        return _is_of(self.failure(job), job)

    def save(self, job: Job, outcome: Outcome) -> None:
        """Write the result of a job and remove an earlier error, or write its error."""
        failed = "error" in outcome
        content = {"job": job.to_json(), **outcome, "allocore": version("allocore")}
        _write_json(self.failure(job) if failed else self.result(job), content)
        if not failed:
            self.failure(job).unlink(missing_ok=True)

    def outcomes(self) -> list[dict[str, Any]]:
        """Return results, and errors of jobs without one; if open, no requested models whose settings changed."""
        found = {name: each for name, each in self._all_outcomes().items() if self._is_current(each["job"])}
        return [
            outcome
            for name, outcome in found.items()
            if not (name.endswith(_FAILED) and name.removesuffix(_FAILED) in found)
        ]

    def _all_outcomes(self) -> dict[str, dict[str, Any]]:
        files = sorted((self.path / "jobs").glob("*.json"))
        return {path.name.removesuffix(".json"): _read_json(path) for path in files}

    def _is_current(self, fields: dict[str, Any]) -> bool:
        job = Job.from_json(fields)
        return job.settings in self._requested.get(job.model, [job.settings])


def check_place(path: Path) -> None:
    """Refuse a path that cannot be the folder of a comparison: there is a file, or the folder has other content."""
    if any(place.is_file() for place in (path, *path.parents)) or (path.exists() and not path.is_dir()):
        raise _not_a_folder(path)
    if not path.exists():
        return
    names = {each.name for each in path.iterdir() if not each.name.endswith(".tmp")}
    is_comparison = (
        "settings.json" in names
        or {"jobs", "results.csv"} <= names
        or names <= {"lock", "jobs", "tensor.npz", "tensor.json"}
    )
    if not is_comparison:
        raise InputError("out", str(path), "must be an empty folder or one with a comparison")


def _not_a_folder(path: Path) -> InputError:
    return InputError("out", str(path), "must be a folder, and there is a file in its place")


def _is_of(path: Path, job: Job) -> bool:
    return path.exists() and Job.from_json(_read_json(path)["job"]) == job


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1).encode())


def _read_json(path: Path, advice: str = "Remove it, and the job runs again") -> dict[str, Any]:
    try:
        content = json.loads(read_inside(path.parent, path.name, _MOST_BYTES))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise StoreError(path, f"is damaged. {advice}")
    return content

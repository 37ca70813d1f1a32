"""Compare models on held-out cells: the public function, its result, and where its jobs run."""

import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from allocore._io import replacing
from allocore._text import plural
from allocore.comparison import markdown as markdown_report
from allocore.comparison.findings import comparison_findings, series_name
from allocore.comparison.folder import Folder
from allocore.comparison.jobs import observer_for, run_jobs, run_jobs_on, seconds_left, shortest_model, work_of
from allocore.comparison.models import Job, Models, Settings, requested_jobs
from allocore.comparison.tables import results_table, summary_table
from allocore.errors import InputError, StoreError, whole_number
from allocore.findings import Finding, sentences
from allocore.kernels.workers import available_threads
from allocore.progress import in_words
from allocore.run.cluster.chains import as_executor
from allocore.run.cluster.tasks import slots
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import as_tensor
from allocore.tensor.holdout import hold_out as split_tensor
from allocore.tensor.sharded import ShardedTensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from allocore.report.figures.style import Figure

BUDGETS = (5, 10, 25, 50, 75, 100, 150, 200, 250, 300)


@dataclass(frozen=True, repr=False)
class Comparison:
    """How well models predict held-out cells. `ac.compare` returns it.

    `print` shows what the numbers mean in sentences; a notebook shows the summary as well.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per fit: `model`, `estimator`, `core` (empty unless you chose it), `budget`, `core_shape`, `split`,
        `log_ppd` and `log_ppd_positive`, their exponentials `ppd` and `ppd_positive`, `chains`, the mean over chains of
        the log PPDs of single ones (`log_ppd_chain`, `log_ppd_positive_chain`), `seconds`, `sweeps`,
        `seconds_per_sweep`, `classes` and `factors_<mode>` in use, `peak_mb`, `threads`, and the `error` of a fit that
        failed.
    settings : Settings
        What all fits have in common: the data, the share held out, the seed.
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
    [['allocore', 2, 0], ['allocore', 2, 1], ['allocore', 8, 0], ['allocore', 8, 1]]
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
        [['allocore', 2, 2], ['allocore', 8, 2]]
        """
        return summary_table(self.table)

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
        return markdown_report.report(self)

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

        return figures.ppd(markdown_report.figure_table(self.table), ax, against=against, positive=positive)

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
    progress: bool = True,
) -> Comparison:
    """Fit models to random splits of a tensor, and compare how well they predict held-out cells.

    Each fit (a model, a budget, a split) is a job in its own process, or a task of an executor. With a folder `out`,
    the same call continues an interrupted comparison, and later calls can add models, budgets and splits. If you change
    `restarts` or `max_iter` of an NNTuck, it is fitted again, and the fits of all other models stay.

    Parameters
    ----------
    Y : CountTensor, or anything `as_tensor` takes
        The tensor.
    models : mapping of str to AlloCore, CP, Tucker or NNTuck
        The models by name; a name may have several models, in a list. Their `seed`, `threads`, `store`, `executor` and
        `progress` are not used.
    budgets : sequence of int, optional
        Fit each model at these budgets Q: classes of ALL0CORE and CP, and about Q entries of the core of a Tucker or
        NNTuck whose `core_shape` is None. By default the models have their own sizes.
    splits : int
        How many splits. Split s holds out fibres with the seed `seed + s`, the same for all models. The models are
        fitted with that seed, too.
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
        Where the jobs run: a process pool, a Dask cluster, any other executor. None is processes of this machine. The
        scores are the same.
    retry : bool
        Run jobs again that failed before.
    seed : int
        The seed of the first split. It determines all results except times and memory.
    progress : bool
        Show progress: a bar on a terminal, elsewhere one line per minute.

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
    >>> quick = {"burn_in": 5, "draws": 2, "thin": 1}
    >>> models = {"allocore": ac.AlloCore(5, **quick), "cp": ac.CP(5, **quick)}
    >>> found = ac.compare(ac.load_flights(), models, splits=1)
    >>> found.table[["model", "budget", "split", "sweeps"]].values.tolist()
    [['allocore', 5, 0, 7.0], ['cp', 5, 0, 7.0]]
    """
    tensor = as_tensor(Y)
    tensor = tensor.load() if isinstance(tensor, ShardedTensor) else tensor  # every job needs all of it
    settings = Settings.of(tensor, hold_out, along, seed)
    requested = requested_jobs(tensor, models, budgets, whole_number("splits", splits), settings)
    runner = Runner.of(jobs, threads, executor)
    if out is not None:
        Folder(_path(out)).check(settings, requested)
    _check_splits(tensor, settings, splits)
    with _place(out, requested) as folder, folder.opened(tensor, settings, requested):
        todo = [job for job in requested if not folder.is_done(job) and (retry or not folder.has_failed(job))]
        _run(folder, tensor, todo, requested, runner, progress)
        found = _gather(folder, requested, settings, tensor)
        if out is not None:
            write(found, folder.path)
    return found


@dataclass(frozen=True)
class Runner:
    """How many jobs run at a time, with how many threads, and where; None is the default of the place."""

    jobs: int | None = None
    threads: int | None = None
    executor: Executor | None = None

    @classmethod
    def of(cls, jobs: int | None, threads: int | None, executor: object) -> "Runner":
        """Return what the user wants, checked."""
        number = None if jobs is None else whole_number("jobs", jobs)
        each = None if threads is None else whole_number("threads", threads)
        return cls(number, each, None if executor is None else as_executor(executor))

    def at_a_time(self, jobs: int) -> int:
        """Return how many of these jobs run at a time; on an executor, with the workers that it has now."""
        here = available_threads() if self.executor is None else slots(self.executor) or 1
        return max(1, min(self.jobs or here, jobs))

    def threads_each(self, parallel: int) -> int:
        """Return the threads of a job: an even share of the processors here, and one on an executor."""
        if self.threads is not None:
            return self.threads
        return max(1, available_threads() // parallel) if self.executor is None else 1


@contextmanager
def _place(out: str | os.PathLike[str] | None, requested: list[Job]) -> Iterator[Folder]:
    """Yield the folder of a comparison: the one named by the user, or a temporary one that is removed at the end.

    A temporary folder with results, perhaps the work of hours, stays after Ctrl-C, and if the cluster is gone. The
    message says where it is.
    """
    folder = Folder(Path(tempfile.mkdtemp(prefix="allocore-compare-")) if out is None else _path(out))
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
    folder: Folder, tensor: CountTensor, todo: list[Job], requested: list[Job], runner: Runner, progress: bool
) -> None:
    """Run jobs, and write the table of results after each."""
    parallel = runner.at_a_time(len(todo))
    threads = runner.threads_each(parallel)
    rates: dict[str, float] = {}
    if progress and sys.stderr is not None and runner.executor is None:  # timings on other machines will differ
        rates = trial_rates(tensor, todo, threads)
        if rates:
            print(forecast_words(todo, rates, parallel), file=sys.stderr, flush=True)
    names = list(dict.fromkeys(job.model for job in requested))
    common: dict[str, Any] = {
        "threads": threads,
        "observer": observer_for(progress, todo, len(requested) - len(todo), parallel, rates),
        "after_each": lambda: markdown_report.write_table(
            results_table(folder.outcomes(), tensor.mode_names, names), folder.path
        ),
    }
    if runner.executor is None:
        run_jobs(folder, todo, parallel=parallel, **common)
    else:
        run_jobs_on(runner.executor, folder, todo, tensor, parallel=runner.jobs, **common)


def _gather(folder: Folder, requested: list[Job], settings: Settings, tensor: CountTensor) -> Comparison:
    """Return all results in the folder, with the number of requested jobs that have none."""
    missing = sum(not folder.is_done(job) and not folder.has_failed(job) for job in requested)
    outcomes, names = folder.outcomes(), {job.name for job in requested}
    there = [Job.from_json(outcome["job"]) for outcome in outcomes]
    before = sum("error" in outcome and job.name not in names for outcome, job in zip(outcomes, there, strict=True))
    models = {job.model: job.description for job in [*requested, *there]}
    table = results_table(outcomes, tensor.mode_names, list(models))
    return Comparison(table, settings, repr(tensor), models, missing, before)


def write(found: Comparison, folder: Path) -> None:
    """Write the table, the figures and the report of a comparison."""
    markdown_report.write_table(found.table, folder)
    text = markdown_report.report(found, markdown_report.write_figures(found.table, folder))
    with replacing(folder / "report.md") as file:
        file.write(text.encode())


def _check_splits(tensor: CountTensor, settings: Settings, splits: int) -> None:
    """Make every split once, so that a bad one is reported before any job runs."""
    for split in range(splits):
        try:
            split_tensor(tensor, settings.hold_out, settings.along, settings.seed + split)
        except InputError as error:
            name = "hold_out" if error.argument == "fraction" else error.argument
            raise InputError(name, error.value, f"{error.rule} (split {split})") from None


def _path(out: object) -> Path:
    if not isinstance(out, str | os.PathLike) or not str(out):
        raise InputError("out", out, "must be a path")
    return Path(out)


# How long a comparison will take. Models differ by more than their cores: NNTuck starts many times, Tucker visits every
# location, and likelihoods cost more or less. So a few sweeps of each are timed, unless the comparison is short.

# Sweeps times entries of the core times non-zeros: about a hundred million a second.
_WORTH_A_TRIAL = 5e9
_SWEEPS = 3


def trial_rates(tensor: CountTensor, jobs: Sequence[Job], threads: int) -> dict[str, float]:
    """Return the seconds of each model's fit for each unit of `work_of`; none if all jobs together are short."""
    if sum(job.sweeps * work_of(job) for job in jobs) * tensor.nnz < _WORTH_A_TRIAL:
        return {}
    rates = {}
    for model in dict.fromkeys(job.model for job in jobs):
        its_jobs = sorted((job for job in jobs if job.model == model), key=work_of)
        middle = its_jobs[len(its_jobs) // 2]
        with suppress(Exception):  # a model that cannot be fitted fails in its jobs, where the others go on
            rates[model] = _seconds_per_sweep(tensor, middle, threads) * middle.sweeps / work_of(middle)
    return rates


def _seconds_per_sweep(tensor: CountTensor, job: Job, threads: int) -> float:
    shortest_model(job, threads).fit(tensor)  # compiles the kernels, or loads them
    model = shortest_model(job, threads, sweeps=_SWEEPS)
    start = perf_counter()
    posterior = model.fit(tensor).posterior_
    seconds = perf_counter() - start
    if not posterior.finished:  # Ctrl-C ends a fit early, and here the whole comparison
        raise KeyboardInterrupt
    return seconds / _SWEEPS


def forecast_words(jobs: Sequence[Job], rates: Mapping[str, float], parallel: int) -> str:
    """Return how long all jobs will take, and those of each model, in one line."""
    whole = seconds_left([], [], jobs, parallel, rates)
    if whole is None or math.isnan(whole):
        return ""
    each = []
    for model in dict.fromkeys(job.model for job in jobs):
        its_jobs = [job for job in jobs if job.model == model]
        seconds = seconds_left([], [], its_jobs, parallel, rates)
        most = "at most " if its_jobs[0].estimator == "NNTuck" else ""
        each.append(f"{series_name(model, '')} {most}{in_words(seconds or 0.0)}")
    return f"{len(jobs)} fits, {parallel} at a time, take about {in_words(whole)}: {', '.join(each)}"

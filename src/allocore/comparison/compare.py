"""Compare models on held-out cells: the public function, and its result."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from allocore._files import replacing
from allocore.comparison import markdown_report
from allocore.comparison.folder import Folder
from allocore.comparison.job_processes import run_jobs
from allocore.comparison.job_progress import observer_for
from allocore.comparison.model_names import Defaults
from allocore.comparison.runner import Runner
from allocore.comparison.score_tables import results_table, summary_table
from allocore.comparison.sentences import words
from allocore.comparison.settings import Job, Request, Settings
from allocore.data.convert import as_tensor
from allocore.data.display import plural
from allocore.data.holdout import hold_out as split_tensor
from allocore.data.sharded_tensor import ShardedTensor
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, StoreError
from allocore.model.spec import LikelihoodName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from allocore.figures.notebook_figure import Figure

BUDGETS = (5, 10, 25, 50, 75, 100, 150, 200, 250, 300)


@dataclass(frozen=True, repr=False)
class Comparison:
    """How well models predict held-out cells. `ac.compare` returns it.

    `print` shows what the numbers mean in sentences; a notebook shows the summary as well.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per fit: `model`, `core` (empty unless you chose it), `budget`, `core_shape`, `split`, `log_ppd` and
        `log_ppd_positive`, their exponentials `ppd` and `ppd_positive`, `chains`, the mean over chains of the log PPDs
        of single ones (`log_ppd_chain`, `log_ppd_positive_chain`), `seconds`, `sweeps`, `seconds_per_sweep`, `classes`
        and `factors_<mode>` in use, `peak_mb`, `threads`, and the `error` of a fit that failed.
    settings : Settings
        What all fits have in common: the share held out, the sweeps, the seed.
    data : str
        The tensor in one line.
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
    missing: int = 0
    failed_before: int = 0

    @property
    def words(self) -> list[str]:
        """What the numbers mean, in sentences.

        Returns
        -------
        list of str

        Examples
        --------
        >>> found.words[0]
        'Of all held-out cells, ALL0CORE at Q = 8 predicts best: mean log PPD ..., PPD ....'
        """
        found = words(self.table)
        if self.failed_before:
            which = "failed job is" if self.failed_before == 1 else "failed jobs are"
            found.append(f"{self.failed_before} {which} from an earlier call and not part of this one.")
        return found

    @property
    def failed(self) -> int:
        """How many of the requested jobs failed.

        Returns
        -------
        int

        Examples
        --------
        >>> found.failed
        0
        """
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
        return markdown_report.report(self.table, self.settings, self.data, [], self.missing)

    def plot(
        self, ax: "Axes | None" = None, *, against: Literal["budget", "seconds"] = "budget", positive: bool = False
    ) -> "Figure | Axes":
        """Draw the log PPD against the budget or against the time of a fit: see `ac.figures.ppd`.

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
        return "\n".join([repr(self), *self.words])

    def __repr__(self) -> str:
        done = int((self.table["error"] == "").sum())
        return f"Comparison: {plural(done, 'fit')}, {self.failed} failed, {self.missing} missing"

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.words)
        return f"<p><b>{escape(repr(self))}</b></p><ul>{sentences}</ul>{self.summary().to_html(index=False)}"


def compare(
    Y: object,
    models: Sequence[str] = ("allocore", "cp", "tucker", "nntuck"),
    budgets: Sequence[int] = BUDGETS,
    *,
    splits: int = 8,
    hold_out: float = 0.01,
    along: int | str = -1,
    likelihood: LikelihoodName = "poisson",
    e0: float | Sequence[float] | Literal["infer"] = 1.0,
    dispersion_by: str | int | None = None,
    burn_in: int = 1000,
    draws: int = 200,
    thin: int = 20,
    chains: int = 1,
    restarts: int = 20,
    max_iter: int = 1000,
    core_shape: Sequence[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    executor: object = None,
    retry: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Comparison:
    """Fit models at several budgets to random splits of a tensor, and judge how well they predict held-out cells.

    Each fit (a model, a budget, a split) is a job in its own process, or a task of an executor. With a folder `out`,
    the same call continues an interrupted comparison, and later calls can add models, budgets and splits. A call with
    other `restarts` or `max_iter` fits NNTuck again, and keeps the fits of all other models.

    Parameters
    ----------
    Y : CountTensor, or anything `as_tensor` takes
        The tensor.
    models : sequence of str
        Any of "allocore", "cp", "tucker", "nntuck". All but NNTuck may have endings, in any order: a likelihood
        ("-nb", "-bernoulli", "-poisson"), "-e0" to learn the concentrations, "-by-MODE" for a dispersion of each row of
        a mode. So "allocore-nb-e0" is ALL0CORE with a negative binomial likelihood and learned concentrations. Tucker
        and NNTuck get cores of about Q entries. To choose a core, write it after the model: "allocore-nb=20x20x6x3", or
        "tucker=20x20x6x3", which has only that one budget.
    budgets : sequence of int
        The budgets Q: classes of ALL0CORE and CP, entries of the core of Tucker and NNTuck.
    splits : int
        How many splits. Split s holds out fibres with the seed `seed + s`, the same for all models. The models are
        fitted with that seed, too.
    hold_out : float
        Share of the fibres to hold out: see `ac.hold_out`.
    along : int or str
        The mode along which held-out fibres run, by number or name.
    likelihood : {"poisson", "negative-binomial", "bernoulli"}
        The likelihood of the models whose names do not say it. NNTuck is Poisson in any case: it is fitted by maximum
        likelihood. "bernoulli" needs a tensor of zeros and ones.
    e0 : float, sequence of float or "infer"
        The concentrations of the models that do not learn them; "infer" makes all models but NNTuck learn them.
    dispersion_by : str or int, optional
        A mode whose rows each have a dispersion of their own in the negative binomial models whose names do not say it.
    burn_in, draws, thin, chains : int
        Sweeps and chains of the Gibbs samplers: see `ac.AlloCore`. Several chains predict together: predictive
        probabilities are averaged over all draws of all chains.
    restarts, max_iter : int
        Restarts of NNTuck and iterations of each: see `ac.NNTuck`.
    core_shape : sequence of int, optional
        The core of ALL0CORE; by default Q factors in every mode.
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
    >>> found = ac.compare(ac.load_flights(), ["allocore", "cp"], [5], splits=1, burn_in=5, draws=2, thin=1)
    >>> found.table[["model", "budget", "split", "sweeps"]].values.tolist()
    [['allocore', 5, 0, 7.0], ['cp', 5, 0, 7.0]]
    """
    tensor = as_tensor(Y)
    tensor = tensor.load() if isinstance(tensor, ShardedTensor) else tensor  # every job needs all of it
    defaults = Defaults(likelihood, e0, dispersion_by)
    request = Request.of(tensor, models, budgets, splits, core_shape, defaults)
    numbers = {"burn_in": burn_in, "draws": draws, "thin": thin, "restarts": restarts, "max_iter": max_iter}
    settings = Settings.of(tensor, hold_out, along, e0=e0, seed=seed, chains=chains, **numbers)
    runner = Runner.of(jobs, threads, executor)
    return run_comparison(tensor, request, settings, out=out, runner=runner, retry=retry, progress=progress)


def run_comparison(
    tensor: CountTensor,
    request: Request,
    settings: Settings,
    *,
    out: str | os.PathLike[str] | None,
    runner: Runner,
    retry: bool,
    progress: bool,
) -> Comparison:
    """Run the jobs of a comparison that have no result yet, and write the results."""
    requested = request.jobs(settings, tensor.shape)
    if out is not None:
        Folder(_path(out)).check(settings)
    _check_splits(tensor, settings, request.splits)
    with _place(out, requested) as folder, folder.opened(tensor, settings):
        todo = [job for job in requested if not folder.is_done(job) and (retry or not folder.has_failed(job))]
        _run(folder, tensor, todo, len(requested), runner, progress)
        found = _gather(folder, requested, settings, tensor)
        if out is not None:
            write(found, folder.path)
    return found


@contextmanager
def _place(out: str | os.PathLike[str] | None, requested: list[Job]) -> Iterator[Folder]:
    """Yield the folder of a comparison: the one named by the user, or a temporary one that is removed at the end.

    A temporary folder with results, perhaps the work of hours, is kept after Ctrl-C, and if the cluster is gone; the
    message says where it is.
    """
    folder = Folder(Path(tempfile.mkdtemp(prefix="allocore-compare-")) if out is None else _path(out))
    keep = out is not None
    try:
        yield folder
    except KeyboardInterrupt:
        done = sum(folder.is_done(job) for job in requested)
        keep = keep or done > 0
        rest = f"the same call with out={str(folder.path)!r} continues it" if keep else "nothing was kept"
        raise KeyboardInterrupt(f"interrupted with {done} of {len(requested)} jobs done; {rest}") from None
    except StoreError:
        keep = keep or any(folder.is_done(job) for job in requested)
        raise
    finally:
        if not keep:
            rmtree(folder.path, ignore_errors=True)


def _run(folder: Folder, tensor: CountTensor, todo: list[Job], requested: int, runner: Runner, progress: bool) -> None:
    """Run jobs, and write the table of results after each."""
    parallel = runner.at_a_time(len(todo))
    trials = _trials(tensor, todo, parallel, runner) if progress and sys.stderr is not None else {}
    common: dict[str, Any] = {
        "threads": runner.threads_each(parallel),
        "observer": observer_for(progress, todo, requested - len(todo), parallel, trials),
        "after_each": lambda: markdown_report.write_table(
            results_table(folder.outcomes(), tensor.mode_names), folder.path
        ),
    }
    if runner.executor is None:
        run_jobs(folder, todo, parallel=parallel, **common)
    else:
        from allocore.comparison.job_tasks import run_jobs_on

        run_jobs_on(runner.executor, folder, todo, tensor, parallel=runner.jobs, **common)


def _trials(tensor: CountTensor, todo: list[Job], parallel: int, runner: Runner) -> dict[str, float]:
    """Time a few sweeps of each model, and say how long all jobs will take; elsewhere than here, time tells."""
    if runner.executor is not None:
        return {}
    from allocore.comparison.time_trials import forecast_words, trial_rates

    rates = trial_rates(tensor, todo, runner.threads_each(parallel))
    if rates:
        print(forecast_words(todo, rates, parallel), file=sys.stderr, flush=True)
    return rates


def _gather(folder: Folder, requested: list[Job], settings: Settings, tensor: CountTensor) -> Comparison:
    """Return all results in the folder, with the number of requested jobs that have none."""
    missing = sum(not folder.is_done(job) and not folder.has_failed(job) for job in requested)
    outcomes, names = folder.outcomes(), {job.name for job in requested}
    before = sum("error" in each and Job.from_json(each["job"]).name not in names for each in outcomes)
    return Comparison(results_table(outcomes, tensor.mode_names), settings, repr(tensor), missing, before)


def write(found: Comparison, folder: Path) -> None:
    """Write the table, the figures and the report of a comparison."""
    markdown_report.write_table(found.table, folder)
    names = markdown_report.write_figures(found.table, folder)
    with replacing(folder / "report.md") as file:
        file.write(markdown_report.report(found.table, found.settings, found.data, names, found.missing).encode())


def _check_splits(tensor: CountTensor, settings: Settings, splits: int) -> None:
    """Make every split once, so that a bad one is reported before any job runs."""
    for split in range(splits):
        try:
            split_tensor(tensor, settings.hold_out, settings.along, settings.seed + split)
        except InputError as error:
            raise InputError(f"split {split}: {str(error).replace('fraction', 'hold_out')}") from None


def _path(out: object) -> Path:
    if not isinstance(out, str | os.PathLike) or not str(out):
        raise InputError(f"out is {out!r}, but it must be a path")
    return Path(out)

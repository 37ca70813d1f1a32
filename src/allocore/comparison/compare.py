"""Compare models on held-out cells: the public function, and what it gives back."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Literal

import pandas as pd

from allocore._files import replacing
from allocore.comparison import markdown_report
from allocore.comparison.folder import Folder
from allocore.comparison.job_processes import run_jobs
from allocore.comparison.job_progress import observer_for
from allocore.comparison.score_tables import results_table, summary_table
from allocore.comparison.sentences import words
from allocore.comparison.settings import Job, Settings, Wish
from allocore.data.convert import as_tensor
from allocore.data.display import plural
from allocore.data.holdout import hold_out as split_tensor
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, whole_number
from allocore.kernels.workers import available_threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGETS = (5, 10, 25, 50, 75, 100, 150, 200, 250, 300)


@dataclass(frozen=True, repr=False)
class Comparison:
    """How well models predict what was held out.

    `table` has one row for every fit: model, core (if it was chosen), budget, core_shape, split, log_ppd and
    log_ppd_positive and their exponentials, seconds, sweeps, seconds_per_sweep, classes and factors in use, peak_mb,
    and the `error` of a fit that failed. `missing` jobs were asked for and have neither a result nor an error. A folder
    may hold more than was asked for: `failed_before` jobs of other calls have failed there.
    """

    table: pd.DataFrame
    settings: Settings
    data: str
    missing: int = 0
    failed_before: int = 0

    @property
    def words(self) -> list[str]:
        """What follows from the numbers, in sentences."""
        found = words(self.table)
        if self.failed_before:
            which = "failed job is" if self.failed_before == 1 else "failed jobs are"
            found.append(f"{self.failed_before} {which} of an earlier call, not asked for in this one.")
        return found

    @property
    def failed(self) -> int:
        """How many of the jobs that were asked for failed."""
        return int((self.table["error"] != "").sum()) - self.failed_before

    def summary(self) -> pd.DataFrame:
        """One row for every model, core and budget: medians over the splits, and quartiles of the log PPD."""
        return summary_table(self.table)

    def report(self) -> str:
        """Settings, sentences and tables, in Markdown."""
        return markdown_report.report(self.table, self.settings, self.data, [], self.missing)

    def plot(
        self, ax: "Axes | None" = None, *, against: Literal["budget", "seconds"] = "budget", positive: bool = False
    ) -> "Axes":
        """Draw the log PPD against the budget or the seconds of a fit: see `ac.figures.ppd`."""
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
    burn_in: int = 1000,
    draws: int = 200,
    thin: int = 20,
    restarts: int = 20,
    max_iter: int = 1000,
    core_shape: Sequence[int] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    retry: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> Comparison:
    """Fit models at several budgets to splits of a tensor, and judge how they predict what was held out.

    Every model, budget and split is a job in a process of its own. With a folder `out` a comparison that was
    interrupted goes on where it was when the same call is made again, and models, budgets and splits can be added.

    Parameters
    ----------
    Y
        The tensor: anything `as_tensor` takes.
    models
        Any of "allocore", "cp", "tucker", "nntuck". Tucker and NNTuck have cores of about Q entries. A core of your
        choice is written behind the model: "allocore=20x20x6x3", or "tucker=20x20x6x3", which has only that budget.
    budgets
        The budgets Q: classes of ALL0CORE and CP, entries of the core of Tucker and NNTuck.
    splits
        Split s holds out fibres by the seed `seed + s`, the same for all models, which are fitted with that seed too.
    hold_out, along
        Share of the fibres to hold out, and the mode along which they run: see `ac.hold_out`.
    burn_in, draws, thin
        Sweeps of the Gibbs samplers: see `ac.AlloCore`.
    restarts, max_iter
        Of NNTuck: see `ac.NNTuck`.
    core_shape
        The core of ALL0CORE; by default Q factors in every mode.
    out
        A folder for the results: `results.csv`, figures, `report.md`, and what is needed to go on.
    jobs
        How many jobs run at a time; by default as many as there are processors, which they share evenly.
    retry
        Do jobs again that failed before.
    seed
        A whole number that all results follow from, seconds and memory excepted.
    progress
        Show how it stands: a bar on a terminal, a line a minute elsewhere.

    Examples
    --------
    >>> import allocore as ac
    >>> found = ac.compare(ac.load_flights(), ["allocore", "cp"], [5], splits=1, burn_in=5, draws=2, thin=1)
    >>> found.table[["model", "budget", "split", "sweeps"]].values.tolist()
    [['allocore', 5, 0, 7.0], ['cp', 5, 0, 7.0]]
    """
    tensor = as_tensor(Y)
    wish = Wish.of(tensor, models, budgets, splits, core_shape)
    numbers = {"burn_in": burn_in, "draws": draws, "thin": thin, "restarts": restarts, "max_iter": max_iter}
    settings = Settings.of(tensor, hold_out, along, seed=seed, **numbers)
    parallel = available_threads() if jobs is None else whole_number("jobs", jobs)
    return run_comparison(tensor, wish, settings, out=out, parallel=parallel, retry=retry, progress=progress)


def run_comparison(
    tensor: CountTensor,
    wish: Wish,
    settings: Settings,
    *,
    out: str | os.PathLike[str] | None,
    parallel: int,
    retry: bool,
    progress: bool,
) -> Comparison:
    """Do what is missing of a comparison and write what came out."""
    asked = wish.jobs(settings, tensor.shape)
    if out is not None:
        Folder(_path(out)).check(settings)
    _check_splits(tensor, settings, wish.splits)
    with _place(out, asked) as folder, folder.opened(tensor, settings):
        todo = [job for job in asked if not folder.is_done(job) and (retry or not folder.failure(job).exists())]
        _do(folder, todo, len(asked), parallel, tensor.mode_names, progress)
        found = _gather(folder, asked, settings, tensor)
        if out is not None:
            write(found, folder.path)
    return found


@contextmanager
def _place(out: str | os.PathLike[str] | None, asked: list[Job]) -> Iterator[Folder]:
    """The folder of a comparison; one that nobody named is removed at the end, whatever that is.

    Only who stops a comparison by Ctrl-C that has results, the work of hours perhaps, is told where they are.
    """
    folder = Folder(Path(tempfile.mkdtemp(prefix="allocore-compare-")) if out is None else _path(out))
    keep = out is not None
    try:
        yield folder
    except KeyboardInterrupt:
        done = sum(folder.is_done(job) for job in asked)
        keep = keep or done > 0
        rest = f"the same again with out={str(folder.path)!r} does the rest" if keep else "nothing was kept"
        raise KeyboardInterrupt(f"interrupted with {done} of {len(asked)} jobs done; {rest}") from None
    finally:
        if not keep:
            rmtree(folder.path, ignore_errors=True)


def _do(folder: Folder, todo: list[Job], asked: int, parallel: int, mode_names: Sequence[str], progress: bool) -> None:
    """Run what is to be done, and keep the table of results up to date meanwhile."""
    parallel = max(1, min(parallel, len(todo)))
    run_jobs(
        folder,
        todo,
        parallel=parallel,
        threads=max(1, available_threads() // parallel),
        observer=observer_for(progress, todo, asked - len(todo), parallel),
        after_each=lambda: markdown_report.write_table(results_table(folder.outcomes(), mode_names), folder.path),
    )


def _gather(folder: Folder, asked: list[Job], settings: Settings, tensor: CountTensor) -> Comparison:
    """All that the folder has, and how much of what was asked for it has not."""
    missing = sum(not folder.is_done(job) and not folder.failure(job).exists() for job in asked)
    outcomes, names = folder.outcomes(), {job.name for job in asked}
    before = sum("error" in each and Job.from_json(each["job"]).name not in names for each in outcomes)
    return Comparison(results_table(outcomes, tensor.mode_names), settings, repr(tensor), missing, before)


def write(found: Comparison, folder: Path) -> None:
    """Write the table, the figures and the report of a comparison."""
    markdown_report.write_table(found.table, folder)
    names = markdown_report.write_figures(found.table, folder)
    with replacing(folder / "report.md") as file:
        file.write(markdown_report.report(found.table, found.settings, found.data, names, found.missing).encode())


def _check_splits(tensor: CountTensor, settings: Settings, splits: int) -> None:
    """Make every split once, so that what is wrong with one is told before any job runs."""
    for split in range(splits):
        try:
            split_tensor(tensor, settings.hold_out, settings.along, settings.seed + split)
        except InputError as error:
            raise InputError(f"split {split}: {str(error).replace('fraction', 'hold_out')}") from None


def _path(out: object) -> Path:
    if not isinstance(out, str | os.PathLike) or not str(out):
        raise InputError(f"out is {out!r}, but it must be a path")
    return Path(out)

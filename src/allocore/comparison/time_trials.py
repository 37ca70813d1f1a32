"""How long a comparison will take, by model: a short trial of each, before the first job.

Models differ by more than their cores: NNTuck starts many times, Tucker visits every location, and likelihoods cost
more or less. So a few sweeps of each are timed. Comparisons of some seconds need no trial.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import perf_counter

from allocore._progress_display import in_words
from allocore.comparison.job import shortest_model
from allocore.comparison.job_progress import seconds_left, work_of
from allocore.comparison.sentences import series_name
from allocore.comparison.settings import Job
from allocore.data.tensor import CountTensor

# Sweeps times entries of the core times non-zeros: about a hundred million a second.
_WORTH_A_TRIAL = 5e9
_SWEEPS = 3


def sweeps_of(job: Job) -> int:
    """Return the sweeps of all chains of a job, or the most iterations of all starts."""
    if job.restarts is not None and job.max_iter is not None:
        return job.restarts * job.max_iter
    return (job.chains or 1) * ((job.burn_in or 0) + (job.draws or 0) * (job.thin or 1))


def trial_rates(tensor: CountTensor, jobs: Sequence[Job], threads: int) -> dict[str, float]:
    """Return the seconds of each model's fit for each unit of `work_of`; none if all jobs together are short."""
    if sum(sweeps_of(job) * work_of(job) for job in jobs) * tensor.nnz < _WORTH_A_TRIAL:
        return {}
    by_model: dict[str, list[Job]] = {}
    for job in jobs:
        by_model.setdefault(job.model, []).append(job)
    rates = {}
    for model, its_jobs in by_model.items():
        middle = sorted(its_jobs, key=work_of)[len(its_jobs) // 2]
        with suppress(Exception):  # a model that cannot be fitted fails in its jobs, where the others go on
            rates[model] = _seconds_per_sweep(tensor, middle, threads) * sweeps_of(middle) / work_of(middle)
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
        most = "at most " if its_jobs[0].restarts is not None else ""
        each.append(f"{series_name(model, '')} {most}{in_words(seconds or 0.0)}")
    return f"{len(jobs)} fits, {parallel} at a time, take about {in_words(whole)}: {', '.join(each)}"

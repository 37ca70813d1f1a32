"""One job in a process of its own: `python -m allocore.comparison.job TENSOR RESULT THREADS`, the job as JSON on stdin.

Its standard input stays open as long as the process that started it lives, and it ends when that does, by whatever
cause: nothing runs on that nobody waits for.
"""

import json
import math
import os
import sys
import threading
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import allocore as ac
from allocore._files import replacing
from allocore.comparison.settings import Job

_ORPHANED = 3


def fit_and_judge(tensor: ac.CountTensor, job: Job, threads: int) -> dict[str, Any]:
    """Fit a model to the training part of a split, and judge its predictions by the part held out."""
    split = ac.hold_out(tensor, job.hold_out, job.along, job.seed)
    # Compiles, or loads what is compiled, so that the seconds are those of the model.
    _shortest(job, threads).fit(split.train)
    model = _model(job, threads)
    start = perf_counter()
    post = model.fit(split.train).posterior_
    seconds = perf_counter() - start
    if not post.finished:
        raise KeyboardInterrupt("stopped before its last sweep")
    log_ppd = post.log_ppd(split.test)
    positive = post.log_ppd(split.test, positive_only=True) if len(split.test.positive) else math.nan
    # Iterations of all restarts are what EM has for sweeps.
    sweeps = int(model.restarts_["iterations"].sum() if job.model == "nntuck" else post.stats["moved"].size)
    return {
        "log_ppd": log_ppd,
        "log_ppd_positive": positive,
        "seconds": seconds,
        "sweeps": sweeps,
        "seconds_per_sweep": seconds / sweeps,
        "classes": _mean_over_draws(post, "classes"),
        "factors": _mean_over_draws(post, "factors"),
        "peak_mb": peak_megabytes(),
        "held_out_cells": len(split.test),
        "held_out_positive": len(split.test.positive),
        "threads": threads,
    }


def _model(job: Job, threads: int) -> Any:
    common: dict[str, Any] = {"seed": job.seed, "threads": threads, "progress": False}
    if job.model == "nntuck":
        common |= {"restarts": job.restarts, "max_iter": job.max_iter}
        return ac.NNTuck(job.core_shape, **common)
    common |= {"burn_in": job.burn_in, "draws": job.draws, "thin": job.thin}
    if job.model == "allocore":
        return ac.AlloCore(job.budget, job.core_shape, **common)
    return ac.CP(job.budget, **common) if job.model == "cp" else ac.Tucker(job.core_shape, **common)


def _shortest(job: Job, threads: int) -> Any:
    """The same model with as few sweeps as can be."""
    least = {"restarts": 1, "max_iter": 1} if job.model == "nntuck" else {"burn_in": 0, "draws": 1, "thin": 1}
    return _model(job, threads).set_params(**least)


def _mean_over_draws(post: ac.Posterior, name: str) -> Any:
    """How many classes, or factors of each mode, hold counts in a draw."""
    trace = post.stats[name][:, post.draw_sweeps - 1]
    return np.asarray(trace, dtype=float).mean(axis=(0, 1)).tolist()


def peak_megabytes() -> float:
    """The most memory that this process had in use.

    Where Linux tells, it is asked for this program alone: the usual number, `ru_maxrss`, starts from the memory of the
    process that started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return math.nan
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 1024


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(_ORPHANED)


def main(tensor: str, result: str, threads: str) -> None:
    """Do the job that stands on the first line of standard input."""
    job = Job.from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # A fit that somebody stops warns and keeps what it has; here that would pass for the whole.
    warnings.filterwarnings("error", message="stopped")
    found = fit_and_judge(ac.load_tensor(tensor), job, int(threads))
    with replacing(Path(result)) as file:
        file.write(json.dumps({"job": job.to_json(), **found, "allocore": ac.__version__}).encode())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        # The last line of what a job leaves behind is what the table says of it.
        import traceback

        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        sys.exit(1)

"""One job in its own process: `python -m allocore.comparison.job TENSOR RESULT THREADS`, with the job as JSON on stdin.

Standard input stays open as long as the parent process lives. When the parent ends, for whatever reason, the job ends
too, so no job runs on in the background.
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
from allocore.comparison.model_names import ModelName
from allocore.comparison.settings import Job

_ORPHANED = 3


def fit_and_judge(tensor: ac.CountTensor, job: Job, threads: int) -> dict[str, Any]:
    """Fit a model to the training part of a split, and judge its predictions of the held-out part."""
    split = ac.hold_out(tensor, job.hold_out, job.along, job.seed)
    # A first, short fit compiles the kernels, or loads them, so that the measured time is that of the model alone.
    shortest_model(job, threads).fit(split.train)
    model = _model(job, threads)
    start = perf_counter()
    post = model.fit(split.train).posterior_
    seconds = perf_counter() - start
    if not post.finished:
        raise KeyboardInterrupt("stopped before its last sweep")
    # For EM, the iterations of all restarts count as sweeps.
    sweeps = int(model.restarts_["iterations"].sum() if job.model == "nntuck" else post.stats["moved"].size)
    return {
        **_scores(post, split.test, threads),
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


def _scores(post: ac.Posterior, test: ac.HeldOut, threads: int) -> dict[str, float]:
    """Return the log PPD of all draws of all chains together, and the mean over the chains of that of a single one."""
    pooled = _score(post, test)
    chains = len(post.core_values)
    alone = [_score(_chain(post, chain, threads), test) for chain in range(chains)] if chains > 1 else [pooled]
    means = {f"{name}_chain": sum(each[name] for each in alone) / chains for name in pooled}
    return pooled | means


def _score(post: ac.Posterior, test: ac.HeldOut) -> dict[str, float]:
    positive = post.log_ppd(test, positive_only=True) if len(test.positive) else math.nan
    return {"log_ppd": post.log_ppd(test), "log_ppd_positive": positive}


def _chain(post: ac.Posterior, chain: int, threads: int) -> ac.Posterior:
    """Return the posterior as one of its chains alone knows it."""
    return ac.Posterior(post.record.with_chains([chain]), threads)


def _model(job: Job, threads: int) -> Any:
    common: dict[str, Any] = {"seed": job.seed, "threads": threads, "progress": False}
    if job.model == "nntuck":
        common |= {"restarts": job.restarts, "max_iter": job.max_iter}
        return ac.NNTuck(job.core_shape, **common)
    common |= {"burn_in": job.burn_in, "draws": job.draws, "thin": job.thin, "chains": job.chains}
    name = ModelName.parse(job.model)
    common |= {"likelihood": name.likelihood or "poisson", "dispersion_by": name.dispersion_by}
    common |= {"e0": "infer" if name.learn_e0 else job.e0}
    if name.kind == "allocore":
        return ac.AlloCore(job.budget, job.core_shape, **common)
    return ac.CP(job.budget, **common) if name.kind == "cp" else ac.Tucker(job.core_shape, **common)


def shortest_model(job: Job, threads: int, sweeps: int = 1) -> Any:
    """Return the same model with few sweeps: one chain and one draw, or one start and few iterations."""
    if job.model == "nntuck":
        return _model(job, threads).set_params(restarts=1, max_iter=sweeps)
    return _model(job, threads).set_params(burn_in=0, draws=1, thin=sweeps, chains=1)


def _mean_over_draws(post: ac.Posterior, name: str) -> Any:
    """Return the number of classes, or of factors of each mode, in use, averaged over draws."""
    trace = post.stats[name][:, post.draw_sweeps - 1]
    return np.asarray(trace, dtype=float).mean(axis=(0, 1)).tolist()


def peak_megabytes() -> float:
    """Return the peak memory of this process in MB.

    On Linux, `VmHWM` counts this program alone, while the usual `ru_maxrss` starts from the memory of the parent.
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
    """Run the job on the first line of standard input."""
    job = Job.from_json(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # A fit that is stopped only warns and returns its draws so far. Here they would pass for a whole result.
    warnings.filterwarnings("error", message="stopped")
    found = fit_and_judge(ac.load_tensor(tensor), job, int(threads))
    write_result(Path(result), job, found)


def write_result(path: Path, job: Job, found: dict[str, Any]) -> None:
    """Write what was found, with the job and the version that did it."""
    with replacing(path) as file:
        file.write(json.dumps({"job": job.to_json(), **found, "allocore": ac.__version__}).encode())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        # The table of results shows the last line of standard error.
        import traceback

        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        sys.exit(1)

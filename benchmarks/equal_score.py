"""Seconds until our sampler predicts held-out cells as well as another method did at the end of its time.

Usage: python benchmarks/equal_score.py TENSOR.npz RANK SECONDS LIKELIHOOD     prints one line of JSON

The process runs one chain and notes, at more and more sweeps, the seconds and the score so far: the mean log predictive
density of the held-out cells, averaged over draws of the second half of the sweeps. The first half is burn-in, as in
`rival_fits.py`. Scores are computed off the clock; laying out the data and the first allocation are on it.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.exposure_sums import rates_at_rows, rows_of_cells
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers, available_threads
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run.chains import first_values

LIKELIHOODS = "poisson", "negative-binomial"
OURS = {"allocore", "allocore-cp", "allocore-nb", "constant"}  # methods that are not compared with our sampler
SAME_SAMPLER = "paper-kernel"  # compared, but not another method
SEED = 0
GROWTH = 1.2  # from one noted number of sweeps to the next
DRAWS_IN_BETWEEN = 4  # states that are scored from one noted number of sweeps to the next
UNCHARGED = 600  # seconds for imports, compilation and scores

EXPLANATION = """\
"s" is the time that a method took, and "PPD" what it reached. Then: seconds until our sampler reached that PPD, and how
many times faster that was. A method may have had its score before its time was over. "> s": not reached in s seconds.
"The best" is the best of the other methods; AlloCore with the paper's kernel is our sampler with another main loop."""


class Predictive:
    """The log predictive density of held-out cells, averaged over draws of the second half of the sweeps."""

    def __init__(self, test: Any, spec: Spec, workers: Workers) -> None:
        self._test, self._spec, self._workers = test, spec, workers
        self._rows_MN = rows_of_cells(test.shape, test.coords)
        self._stretches: list[tuple[int, int, Any]] = []  # last sweep, draws, log of the summed densities

    def add(self, last: int, states: list[State]) -> None:
        """Add draws of the sweeps up to `last`."""
        log_sum_N = np.full(len(self._test), -np.inf)
        for state in states:
            np.logaddexp(log_sum_N, self._log_density(state), out=log_sum_N)
        self._stretches.append((last, len(states), log_sum_N))

    def score(self) -> float:
        """The mean over the cells; what belongs to the first half of the sweeps is forgotten."""
        last = self._stretches[-1][0]
        self._stretches = [stretch for stretch in self._stretches if stretch[0] > last / 2]
        log_sum_N = np.logaddexp.reduce([log_sum_N for _, _, log_sum_N in self._stretches])
        return float(np.mean(log_sum_N) - np.log(sum(draws for _, draws, _ in self._stretches)))

    def _log_density(self, state: State) -> Any:
        factors = [state.factors(mode) for mode in range(len(self._test.shape))]
        rates_N = rates_at_rows(state.core_values(), state.subs_QM, factors, self._rows_MN, self._workers)
        dispersion = state.dispersion
        log_odds_N = np.zeros(len(rates_N)) if dispersion is None else dispersion.at(self._test.coords)
        return self._spec.observation.log_density(self._test.counts, rates_N, log_odds_N)


def noted_sweeps() -> Iterator[int]:
    """1, 2, .. and then in steps that grow."""
    number = 1
    while True:
        yield number
        number = max(number + 1, int(GROWTH * number))


def trace(tensor: ac.CountTensor, rank: int, seconds: float, likelihood: str) -> list[dict[str, float]]:
    """Seconds, sweeps and score of one chain, until the time is over."""
    split = ac.hold_out(tensor, 0.01, seed=0)
    spec, key = Spec(rank, (rank,) * tensor.ndim, likelihood=likelihood), Key.of(SEED, 0)
    points: list[dict[str, float]] = []
    with Workers(available_threads()) as workers:
        _compile(spec, workers)
        predictive = Predictive(split.test, spec, workers)
        start = perf_counter()
        layout = Layout.of(split.train, workers)
        state = first_state(spec, layout.shape, first_values(SEED, 0))
        workspace = Workspace.of(layout, state)
        now = begin(key, layout, spec, state, workspace)
        spent, numbers = perf_counter() - start, count(1)
        for last in noted_sweeps():
            states: list[State] = []
            before = points[-1]["sweeps"] if points else 0
            scored = set(np.linspace(before, last, DRAWS_IN_BETWEEN + 1).round()[1:].tolist())
            for number in numbers:
                start = perf_counter()
                now, _ = sweep(key.at(number), layout, spec, now, workspace)
                spent += perf_counter() - start
                if number in scored:
                    states.append(now.state)
                if number == last:
                    break
            predictive.add(last, states)
            points.append({"seconds": spent, "sweeps": last, "score": predictive.score()})
            if spent >= seconds:
                return points
    return points


def _compile(spec: Spec, workers: Workers) -> None:
    """One sweep of a tensor of a few cells, off the clock."""
    Y = ac.as_tensor(np.arange(2 ** len(spec.core_shape)).reshape((2,) * len(spec.core_shape)))
    layout, key = Layout.of(Y, workers), Key.of(SEED, 0)
    state = first_state(spec, layout.shape, first_values(SEED, 0))
    sweep(key.at(1), layout, spec, begin(key, layout, spec, state))


def seconds_until(score: float, points: list[dict[str, float]]) -> float | None:
    """When a trace reached a score; None if it never did."""
    return next((point["seconds"] for point in points if point["score"] >= score), None)


def equal_scores(Y: ac.CountTensor, rank: int, seconds: float, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Traces of our sampler, and for each result of `rivals.py` when they reached its score; the best one is named."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tensor.npz"
        Y.save(path)
        traces = {likelihood: _trace_alone(path, rank, seconds, likelihood) for likelihood in LIKELIHOODS}
    compared = [compared_with(result, traces) for result in results if _is_rival(result)]
    others = [each for each in compared if each["method"] != SAME_SAMPLER]
    best = max(others, key=lambda each: each["ppd"], default=None)
    return {"seconds": seconds, "traces": traces, "rivals": compared, "best rival": best and best["label"]}


def _is_rival(result: dict[str, Any]) -> bool:
    return result["method"] not in OURS and not result["problem"] and result["ppd"] > 0


def compared_with(result: dict[str, Any], traces: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """When our sampler had the score of a rival, and how many times faster that was."""
    ours: dict[str, Any] = {}
    for likelihood, points in traces.items():
        until = seconds_until(float(np.log(result["ppd"])), points)
        ours[likelihood] = {"seconds": until, "ratio": None if until is None else result["seconds"] / until}
    return {name: result[name] for name in ("method", "label", "ppd", "seconds")} | {"ours": ours}


def _trace_alone(path: Path, rank: int, seconds: float, likelihood: str) -> list[dict[str, float]]:
    """A trace from a separate process, as those of other methods are; empty if the process failed, which is said."""
    command = [sys.executable, "-W", "ignore", __file__, str(path), str(rank), str(seconds), likelihood]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * seconds + UNCHARGED)
    except subprocess.TimeoutExpired as error:
        print(f"our sampler, {likelihood}: stopped after {error.timeout:.0f} s", file=sys.stderr)
        return []
    if done.returncode:
        print(f"our sampler, {likelihood}: {(done.stderr.strip() or 'no message').splitlines()[-1]}", file=sys.stderr)
        return []
    points: list[dict[str, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return points


def print_equal_scores(result: dict[str, Any], console: Console) -> None:
    table = Table("method", title="Seconds until our sampler predicts as well")
    for name in ("PPD", "s", "AlloCore, Poisson: s", "times faster", "AlloCore, negative binomial: s", "times faster"):
        table.add_column(name, justify="right")
    for each in sorted(result["rivals"], key=lambda rival: -rival["ppd"]):
        cells = [text for likelihood in LIKELIHOODS for text in _cells(each["ours"][likelihood], result["seconds"])]
        best = " (the best)" if each["label"] == result["best rival"] else ""
        table.add_row(each["label"] + best, f"{each['ppd']:.4f}", f"{each['seconds']:.1f}", *cells)
    console.print(table)
    for likelihood, points in result["traces"].items():
        if points:
            ends = ", ".join(
                f"{np.exp(point['score']):.4f} after {point['seconds']:.2f} s"
                for point in points[:: -(-len(points) // 8)]
            )
            console.print(f"PPD of our sampler, {likelihood}: {ends}", highlight=False)
    console.print(EXPLANATION, highlight=False)


def _cells(ours: dict[str, Any], seconds: float) -> tuple[str, str]:
    if ours["seconds"] is None:
        return f"> {seconds:g}", "-"
    return f"{ours['seconds']:.2f}", f"{ours['ratio']:.1f}"


if __name__ == "__main__":
    given, *numbers, chosen = sys.argv[1:]
    print("\n" + json.dumps(trace(ac.load_tensor(given), int(numbers[0]), float(numbers[1]), chosen)))

"""How the cost of a sweep grows with classes, threads, missing cells and non-zeros; how long a first sweep takes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import Workers, available_threads
from timing import Chain, best_in_turns, measure

LARGE_SHAPE, LARGE_BUDGET = "206x206x20x1680", 32
LONG_SHAPE = "1000000x1000000x50"
MISSING_BUDGET = 60
QUICK_MISSING, MISSING = (0, 50_000, 500_000), (0, 20_000, 200_000, 2_270_000)  # single cells, in no order
QUICK_SIZES, SIZES = ("1e5", "1e6"), ("1e5", "1e6", "1e7", "5.8e7", "1.3e8")  # entries; the last has 10^8 non-zeros


def by_budget(
    Y: ac.CountTensor, budgets: tuple[int, ...], known: list[dict[str, Any]], rounds: int
) -> list[dict[str, Any]]:
    """Thinning and sweep with more and more classes; some points are `known` from the ratios."""
    threads = available_threads()
    points = [{"budget": budget, **measure(Y, budget, (threads,), rounds)[threads]} for budget in budgets]
    points += [{"budget": result["budget"], **result["milliseconds"]} for result in known]
    return sorted(points, key=lambda point: point["budget"])


def by_threads(Y: ac.CountTensor, budget: int, rounds: int) -> list[dict[str, Any]]:
    """Thinning and sweep with more and more threads."""
    numbers = tuple(sorted({*(2**power for power in range(10) if 2**power < available_threads()), available_threads()}))
    times = measure(Y, budget, numbers, rounds)
    return [{"threads": number, **times[number]} for number in numbers]


def by_missing(Y: ac.CountTensor, cells: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """A sweep with more and more missing cells, each a pattern."""
    points, rng = [], np.random.default_rng(0)
    for number in cells:
        places = np.unravel_index(rng.choice(Y.volume, number, replace=False), Y.shape)
        given = Y.with_missing(np.transpose(places)) if number else Y
        with Workers(available_threads()) as workers:
            sweep = Chain(given, MISSING_BUDGET, workers, warm_up=5).calls()["sweep"]
            points.append({"missing": number, **best_in_turns({"sweep": sweep}, rounds)})
    return points


def alone(*arguments: str, cache: str | None = None) -> dict[str, Any]:
    """The output of `scale.py`, or its problem."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    command = [sys.executable, str(Path(__file__).with_name("scale.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode < 0:
        return {"problem": f"{' '.join(arguments)}: ended by signal {-done.returncode}, probably for lack of memory"}
    if done.returncode:
        return {"problem": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout))


def by_size(entries: tuple[str, ...]) -> list[dict[str, Any]]:
    """Whole fits by the public API, with more and more non-zeros in one shape."""
    return [alone(LARGE_SHAPE, number, str(LARGE_BUDGET), "6") for number in entries]


def cost_curves(Y: ac.CountTensor, known: list[dict[str, Any]], rounds: int, *, quick: bool) -> dict[str, Any]:
    """All curves; the cost of some numbers of classes is `known` from the ratios."""
    return {
        "budgets": by_budget(Y, (25,) if quick else (25, 50, 100, 800), known, rounds),
        "threads": by_threads(Y, 150, rounds),
        "missing": by_missing(Y, QUICK_MISSING if quick else MISSING, rounds),
        "sizes": by_size(QUICK_SIZES if quick else SIZES),
        "long": [] if quick else [alone(LONG_SHAPE, "2e7", str(LARGE_BUDGET), "4")],
        "start": start_up(),
    }


def start_up() -> dict[str, Any]:
    """Seconds from the start of a process to the end of the first sweep, when compiling and from the cache."""
    with TemporaryDirectory() as cache:
        compiling, cached = (alone("--first-sweep", cache=cache) for _ in range(2))
    return {"import": cached["import"], "compiling": compiling["first sweep"], "cached": cached["first sweep"]}


def print_curves(measured: dict[str, Any], console: Console) -> None:
    table = Table(
        "", "thinning ms", "sweep ms", "sweep ms per class", title="Cost against Q, threads and missing cells"
    )
    for point in measured["budgets"]:
        per_class = f"{point['sweep'] / point['budget']:.3f}"
        table.add_row(f"Q = {point['budget']}", f"{point['thinning']:.1f}", f"{point['sweep']:.1f}", per_class)
    for point in measured["threads"]:
        table.add_row(f"{point['threads']} threads", f"{point['thinning']:.1f}", f"{point['sweep']:.1f}", "")
    without = measured["missing"][0]["sweep"]
    for point in measured["missing"]:
        more = f"{point['sweep'] / without:.2f} times"
        table.add_row(f"{point['missing']:,} missing cells (Q = {MISSING_BUDGET})", "", f"{point['sweep']:.1f}", more)
    console.print(table)
    print_sizes([*measured["sizes"], *measured["long"]], console)
    times = measured["start"]
    console.print(
        f"import allocore: {times['import']:.2f} s (< 0.3); from process start to the end of a first sweep: "
        f"{times['compiling']:.1f} s compiling (<= 8), {times['cached']:.1f} s from the cache (<= 2)"
    )


def print_sizes(points: list[dict[str, Any]], console: Console) -> None:
    title = f"Cost against non-zeros: {LARGE_SHAPE}, Q = {LARGE_BUDGET}; then {LONG_SHAPE}"
    table = Table("non-zeros", title=title)
    names = (
        "s a sweep", "ns a non-zero", "ns a non-zero and core", "bytes a non-zero beyond the tensor",
        "peak GB: making the tensor", "the fit", "bytes a non-zero at the peak, without imports: making", "the fit",
    )  # fmt: skip
    for name in names:
        table.add_column(name, justify="right")
    for point in points:
        if "problem" in point:
            continue
        nnz, nanoseconds = point["nnz"], 1e9 * point["seconds"] / point["nnz"]
        peaks = point["making GB"], point["fit GB"]
        table.add_row(
            f"{nnz:,}", f"{point['seconds']:.3f}", f"{nanoseconds:.1f}", f"{nanoseconds * point['cores']:.1f}",
            f"{point['bytes per non-zero']:.1f}", *(f"{peak:.2f}" for peak in peaks),
            *(f"{(peak - point['imports GB']) * 2**30 / nnz:.0f}" for peak in peaks),
        )  # fmt: skip
    console.print(table)
    for point in points:
        if "problem" in point:
            console.print(f"[red]not measured[/] {point['problem']}", highlight=False)

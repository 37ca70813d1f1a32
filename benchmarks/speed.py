"""How fast is a sweep? Ratios within one run, because seconds depend on the machine.

Usage: python benchmarks/speed.py [TENSOR] [--quick] [--without-rivals] [--out FOLDER]

TENSOR is anything that allocore reads. The default is the generated tensor of `tensors.py`: 206 x 206 x 20 x 84 with
about 290,000 non-zeros and heavy-tailed counts. One percent of its fibres is held out. What is compared takes turns,
round by round, and the best round of each counts. Sizes and memory are measured in separate processes (`scale.py`), and
so are other libraries (`rivals.py`). FOLDER gets speed.json and speed.png. All of it takes about 25 minutes and,
temporarily, ten GB of disk; the quick form takes less than two minutes.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import available_threads
from events import print_reading, reading
from figure import draw
from likelihoods import likelihoods, print_likelihoods
from opening import opening, print_opening
from predicting import folding, predicting, print_folding, print_predicting
from rivals import compare, print_table
from storing import print_storing, storing
from tensors import generated
from timing import measure, profile

LARGE_SHAPE, LARGE_BUDGET = "206x206x20x1680", 32
LONG_SHAPE = "1000000x1000000x50"
TARGETS = {  # targets for the ratios, by number of classes
    "thinning / floor": {150: "<= 4", 400: "<= 3"},
    "paper-style / thinning": {150: ">= 25", 400: ">= 35"},
    "sweep / thinning": {150: "<= 1.6", 400: "<= 1.6"},
    "sweep: one thread / all": {150: ">= 1.8", 400: ">= 1.8"},
}


def ratios(Y: ac.CountTensor, budgets: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Time floor, paper-style kernel, thinning and sweep side by side."""
    threads = available_threads()
    results = []
    for budget in budgets:
        times = measure(Y, budget, (1, threads) if threads > 1 else (1,), rounds, baseline=True)
        many, one = times[threads], times[1]
        results.append(
            {
                "budget": budget,
                "threads": threads,
                "milliseconds": many,
                "one thread": one,
                "ratios": {
                    "thinning / floor": many["thinning"] / many["floor"],
                    "paper-style / thinning": many["paper-style"] / many["thinning"],
                    "sweep / thinning": many["sweep"] / many["thinning"],
                    "sweep: one thread / all": one["sweep"] / many["sweep"],
                },
                "steps": profile(Y, budget, threads, rounds),
            }
        )
    return results


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


def alone(*arguments: str, cache: str | None = None) -> dict[str, Any]:
    """The output of `scale.py`, or its error."""
    environment = os.environ | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    command = [sys.executable, str(Path(__file__).with_name("scale.py")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        return {"problem": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout))


def by_size(entries: tuple[str, ...]) -> list[dict[str, Any]]:
    """Whole fits by the public API, with more and more non-zeros in one shape."""
    return [alone(LARGE_SHAPE, number, str(LARGE_BUDGET), "6") for number in entries]


def start_up() -> dict[str, Any]:
    """Seconds from the start of a process to the end of the first sweep, when compiling and from the cache."""
    with TemporaryDirectory() as cache:
        compiling, cached = (alone("--first-sweep", cache=cache) for _ in range(2))
    return {"import": cached["import"], "compiling": compiling["first sweep"], "cached": cached["first sweep"]}


def against(Y: ac.CountTensor, rank: int, seconds: float, console: Console) -> dict[str, Any]:
    """Other libraries, each with the same time."""
    console.print(f"{Y!r}\nrank {rank}, {seconds:g} s for each method")
    results = compare(Y, rank, seconds, memory_gb=8.0)
    print_table(results, console)
    return {"tensor": repr(Y), "rank": rank, "seconds": seconds, "results": results}


def print_ratios(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(title=f"Ratios, {results[0]['threads']} threads (in brackets: the target)")
    table.add_column("")
    for result in results:
        table.add_column(f"Q = {result['budget']}", justify="right")
    for name, targets in TARGETS.items():
        cells = [f"{result['ratios'][name]:.2f} ({targets.get(result['budget'], '-')})" for result in results]
        table.add_row(name, *cells)
    for name in ("floor", "thinning", "sweep", "paper-style"):
        table.add_row(f"{name}, ms", *(f"{result['milliseconds'][name]:.1f}" for result in results))
    for name in results[0]["steps"]:
        table.add_row(f"  step {name}, ms", *(f"{result['steps'][name]:.2f}" for result in results))
    console.print(table)


def print_curves(measured: dict[str, Any], console: Console) -> None:
    table = Table("", "thinning ms", "sweep ms", "sweep ms per class", title="Cost against Q, and against threads")
    for point in measured["budgets"]:
        per_class = f"{point['sweep'] / point['budget']:.3f}"
        table.add_row(f"Q = {point['budget']}", f"{point['thinning']:.1f}", f"{point['sweep']:.1f}", per_class)
    for point in measured["threads"]:
        table.add_row(f"{point['threads']} threads", f"{point['thinning']:.1f}", f"{point['sweep']:.1f}", "")
    console.print(table)
    title = f"Cost against non-zeros: {LARGE_SHAPE}, Q = {LARGE_BUDGET}; then {LONG_SHAPE}"
    table = Table(
        "non-zeros", "s a sweep", "ns a non-zero", "bytes a non-zero beyond the tensor", "peak GB", title=title
    )
    for point in [*measured["sizes"], *measured["long"]]:
        if "problem" in point:
            table.add_row(point["problem"])
            continue
        table.add_row(
            f"{point['nnz']:,}",
            f"{point['seconds']:.3f}",
            f"{1e9 * point['seconds'] / point['nnz']:.1f}",
            f"{point['bytes per non-zero']:.1f}",
            f"{point['peak GB']:.2f}",
        )
    console.print(table)
    times = measured["start"]
    console.print(
        f"import allocore: {times['import']:.2f} s (< 0.3); from process start to the end of a first sweep: "
        f"{times['compiling']:.1f} s compiling (<= 15), {times['cached']:.1f} s from the cache (<= 2)"
    )


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tensor", nargs="?", help="a file that allocore reads; generated by default")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds: less than two minutes")
    parser.add_argument("--without-rivals", action="store_true", help="leave out the other programs: half the time")
    parser.add_argument("--out", type=Path, help="a folder for speed.json and speed.png")
    options = parser.parse_args()
    quick = options.quick
    whole = ac.as_tensor(options.tensor) if options.tensor else generated()
    Y = ac.hold_out(whole, 0.01, seed=0).train
    console = Console(width=150)
    console.print(repr(Y))
    rounds = 3 if quick else 15
    measured: dict[str, Any] = {"tensor": repr(Y), "ratios": ratios(Y, (150, 400), rounds)}
    print_ratios(measured["ratios"], console)
    measured["likelihoods"] = likelihoods(Y, 150, rounds)
    print_likelihoods(measured["likelihoods"], 150, console)
    measured["budgets"] = by_budget(Y, (25,) if quick else (25, 50, 100, 800), measured["ratios"], rounds)
    measured["threads"] = by_threads(Y, 150, rounds)
    measured["sizes"] = by_size(("1e5", "1e6") if quick else ("1e5", "1e6", "1e7", "5.8e7"))
    measured["long"] = [] if quick else [alone(LONG_SHAPE, "2e7", str(LARGE_BUDGET), "4")]
    measured["start"] = start_up()
    print_curves(measured, console)
    measured["storing"] = storing(Y, 200 if quick else 5000)
    print_storing(measured["storing"], console)
    measured["opening"] = opening(10_000 if quick else 100_000, 20 if quick else 100)
    print_opening(measured["opening"], console)
    measured["predicting"] = predicting(Y, 100_000 if quick else 1_000_000)
    print_predicting(measured["predicting"], console)
    measured["folding in"] = folding(whole)
    print_folding(measured["folding in"], console)
    measured["reading"] = reading(200_000 if quick else 20_000_000)
    print_reading(measured["reading"], console)
    plans = [(ac.load_flights(), 10, 1.0)] if quick else [(whole, 50, 20.0), (ac.load_flights(), 25, 8.0)]
    measured["rivals"] = [against(*plan, console) for plan in plans if not options.without_rivals]
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "speed.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")
        draw(measured, options.out / "speed.png")
        console.print(f"written: {options.out / 'speed.json'}, {options.out / 'speed.png'}")


if __name__ == "__main__":
    main()

"""The ratios by which a sweep is judged: floor, paper-style kernel, thinning and sweep, side by side in one run."""

from typing import Any

from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import available_threads
from serial_share import share_from_times
from timing import LOOP_OF_FLOOR, measure, profile

THREADS_RATIO = "sweep: one thread / all"
OF_FLOOR = 0.9  # a sweep should gain from threads at least this part of what the floor gains
TARGETS = {  # targets for the ratios, by number of classes
    "thinning / floor": {150: "<= 4", 400: "<= 3"},
    "paper-style / thinning": {150: ">= 25", 400: ">= 35"},
    "paper-style thinning / whole sweep, one thread each": {150: ">= 25", 400: ">= 40"},
    "sweep / thinning": {150: "<= 1.5", 400: "<= 1.5"},
}


def ratios(Y: ac.CountTensor, budgets: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Time floor, paper-style kernel, thinning and sweep, with one thread and with all; then the steps of a sweep."""
    threads = available_threads()
    results = []
    for budget in budgets:
        times = measure(Y, budget, (1, threads) if threads > 1 else (1,), rounds, baseline=True)
        many, one = times[threads], times[1]
        gain = one[LOOP_OF_FLOOR] / many[LOOP_OF_FLOOR]
        results.append(
            {
                "budget": budget,
                "threads": threads,
                "milliseconds": many,
                "one thread": one,
                "floor gain": gain,
                "share from times": share_from_times(one["sweep"], many["sweep"], gain),
                "ratios": {
                    "thinning / floor": many["thinning"] / many["floor"],
                    "paper-style / thinning": many["paper-style"] / many["thinning"],
                    "paper-style thinning / whole sweep, one thread each": one["paper-style"] / one["sweep"],
                    "sweep / thinning": many["sweep"] / many["thinning"],
                    THREADS_RATIO: one["sweep"] / many["sweep"],
                },
                "steps": profile(Y, budget, threads, rounds),
            }
        )
    return results


def print_ratios(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(title=f"Ratios, {results[0]['threads']} threads (in brackets: the target)")
    table.add_column("")
    for result in results:
        table.add_column(f"Q = {result['budget']}", justify="right")
    for name, targets in TARGETS.items():
        cells = [f"{result['ratios'][name]:.2f} ({targets.get(result['budget'], '-')})" for result in results]
        table.add_row(name, *cells)
    table.add_row("loop of the floor: one thread / all", *(f"{result['floor gain']:.2f}" for result in results))
    wanted = [OF_FLOOR * result["floor gain"] for result in results]
    cells = [
        f"{result['ratios'][THREADS_RATIO]:.2f} (>= {least:.2f})" for result, least in zip(results, wanted, strict=True)
    ]
    table.add_row(f"{THREADS_RATIO} (target: {OF_FLOOR:g} of it)", *cells)
    for name in ("floor", "thinning", "sweep", "paper-style"):
        cells = [f"{result['milliseconds'][name]:.1f}, {result['one thread'][name]:.1f}" for result in results]
        table.add_row(f"{name}, ms: all threads, one", *cells)
    for name in results[0]["steps"]:
        table.add_row(f"  step {name}, ms", *(f"{result['steps'][name]:.2f}" for result in results))
    console.print(table)

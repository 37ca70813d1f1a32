"""A long run, watched: does a sweep stay as fast, and memory as small, as at the start?

Usage: python benchmarks/long_run.py [TENSOR] [--sweeps 5000] [--budget 400] [--out long.json]

TENSOR is anything that allocore reads; the default is the generated tensor of `tensors.py`. One percent of the fibres
is held out. The run is written to a temporary folder, every 20th sweep is kept, and no sweep is burn-in. Three windows
are compared: the first, the middle and the last twentieth of the sweeps. The state changes most at the start, and its
cost with it, so the classes and factors in use are given beside the seconds.
"""

import argparse
import json
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import available_threads
from allocore.model.spec import Spec
from allocore.model.state import SweepInfo
from allocore.run.chains import run_chains
from allocore.storage.record import Plan, Schedule
from allocore.storage.run_writer import ZarrStore
from machine import OtherPrograms, print_others
from memory import forget_peak, memory_mb
from tensors import generated

BUDGET, SWEEPS, THIN, WINDOW = 400, 5000, 20, 0.05


class Diary:
    """What is noted after every sweep of a run: its seconds, memory, page faults so far, classes and factors in use."""

    def __init__(self, store: ZarrStore) -> None:
        self.rows: list[tuple[float, float, int, int, int]] = []
        self._record = store.record_sweep
        store.record_sweep = self._note  # type: ignore[method-assign]

    def _note(self, chain: int, sweep: int, info: SweepInfo, seconds: float) -> None:
        self._record(chain, sweep, info, seconds)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.rows.append((seconds, memory_mb("VmRSS"), faults, info.classes, sum(info.factors)))

    def window(self, first: int, last: int) -> dict[str, Any]:
        """Medians over sweeps `first` to `last`, counted from 0, and the memory after the last of them."""
        seconds, memory, faults, classes, factors = np.array(self.rows[first:last], dtype=float).T
        return {
            "from": first + 1,
            "to": last,
            "seconds": float(np.median(seconds)),
            "fastest": float(seconds.min()),
            "slow": float(np.quantile(seconds, 0.95)),
            "resident MB": float(memory[-1]),
            "page faults": float(faults[-1] - faults[0]) / max(1, len(faults) - 1),
            "classes": float(np.median(classes)),
            "factors": float(np.median(factors)),
        }


def long_run(Y: ac.CountTensor, budget: int, sweeps: int, thin: int = THIN) -> dict[str, Any]:
    """Run a chain with a store on disk, and describe its start, middle and end."""
    plan = Plan(Y, Spec(budget, (budget,) * Y.ndim), Schedule(0, max(1, sweeps // thin), thin), 1, 1)
    forget_peak()
    before, others = memory_mb("VmRSS"), OtherPrograms()
    with TemporaryDirectory() as folder:
        store, start = ZarrStore.create(Path(folder) / "run.zarr", plan), perf_counter()
        diary = Diary(store)
        run_chains(store, threads=available_threads())
        seconds = perf_counter() - start
    made = len(diary.rows)
    size = max(1, round(WINDOW * made))
    middle = (made - size) // 2
    places = {"start": (0, size), "middle": (middle, middle + size), "end": (made - size, made)}
    windows = {name: diary.window(*place) for name, place in places.items()}
    return {
        "tensor": repr(Y),
        "budget": budget,
        "sweeps": made,
        "threads": available_threads(),
        "seconds": seconds,
        "MB before": before,
        "peak MB": memory_mb("VmHWM"),
        "windows": windows,
        "end / start": _compared(windows["end"], windows["start"]),
        "end / middle": _compared(windows["end"], windows["middle"]),
        "other programs": others.share(),
    }


def _compared(later: dict[str, Any], earlier: dict[str, Any]) -> dict[str, float]:
    return {name: later[name] / earlier[name] for name in ("seconds", "resident MB")}


def print_long_run(result: dict[str, Any], console: Console) -> None:
    title = f"{result['sweeps']:,} sweeps at Q = {result['budget']}, {result['seconds']:.0f} s in all"
    table = Table("", "sweeps", title=title)
    names = "ms a sweep, median", "fastest", "95%", "resident MB", "page faults a sweep", "classes", "factors"
    for name in names:
        table.add_column(name, justify="right")
    for name, found in result["windows"].items():
        milliseconds = (f"{1e3 * found[key]:.1f}" for key in ("seconds", "fastest", "slow"))
        others = (f"{found[key]:,.0f}" for key in ("resident MB", "page faults", "classes", "factors"))
        table.add_row(name, f"{found['from']:,} to {found['to']:,}", *milliseconds, *others)
    console.print(table)
    for name in ("end / start", "end / middle"):
        console.print(
            f"{name}: seconds a sweep {result[name]['seconds']:.2f}, resident memory {result[name]['resident MB']:.3f}",
            highlight=False,
        )
    console.print(f"memory before the run {result['MB before']:.0f} MB, at its peak {result['peak MB']:.0f} MB")
    print_others(result["other programs"], console)


def main() -> None:
    """Run, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tensor", nargs="?", help="a file that allocore reads; generated by default")
    parser.add_argument("--sweeps", type=int, default=SWEEPS)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--out", type=Path, help="write the measurements here as JSON")
    options = parser.parse_args()
    whole = ac.as_tensor(options.tensor) if options.tensor else generated()
    console = Console(width=150)
    result = long_run(ac.hold_out(whole, 0.01, seed=0).train, options.budget, options.sweeps)
    print_long_run(result, console)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
        console.print(f"written: {options.out}")


if __name__ == "__main__":
    main()

"""What does a sweep cost on worker processes, beside threads in one process? Ratios within one run.

Usage: python benchmarks/cluster.py [--quick] [--sizes 1e6,1e7,5e7] [--budget 100] [--without-delays] [--out FOLDER]

Sharded tensors of these sizes are written to a temporary folder. Threads in one process, and one and two worker
processes of one thread (a `LocalCluster` of Dask), make the same sweeps in turns. The best rounds count; the spread
over the rounds is printed beside. Processor seconds say what the work costs when the machine is busy with something
else as well. Then: peak memory of whole fits by the public interface, a model of the cost (`cluster_model.py`), and a
simulation with delays and slow workers (`cluster_delays.py`). FOLDER gets cluster.json.
"""

import argparse
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

from cluster_delays import delays, print_delays
from cluster_model import modelled, print_model
from cluster_ways import THINNING_PARTS, Way, all_ways, take_turns
from memory import memory_mb
from tensors import write_large
from timing import STEPS

SHAPE, SMALL_SHAPE = (2000, 20, 500, 2000), (1000, 20, 250, 1000)
TARGET = 1.15
FITS = ("threads", "workers")


def size_of(path: Path, budget: int, rounds: int, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Measure the ways to sweep over a tensor on disk."""
    with all_ways(path, budget, only) as ways:
        take_turns(list(ways.values()), rounds)
        result = {"budget": budget, "rounds": rounds, "ways": {name: _way(way) for name, way in ways.items()}}
        result["point"] = _point(ways["two workers"])
    return result


def _way(way: Way) -> dict[str, Any]:
    seconds = [turn["sweep"] for turn in way.turns]
    processor = float(np.median([turn["processor"] for turn in way.turns]))
    return {"seconds": seconds, "best": way.best(), "processor": processor, "messages": way.messages}


def _point(way: Way) -> dict[str, Any]:
    """What the model needs to know of two workers: the least that each part took, because parts are disturbed apart.

    For the workers these are processor seconds. Without other work on the machine they are those of the clock.
    """
    least = {name: min(turn[name] for turn in way.turns) for name in way.turns[0]}
    seconds = np.min(way.processor_of_ranges, axis=0).tolist()
    ranges = [
        {"cells": each.facts.cells, "rows": sum(len(rows) for rows in each.facts.rows), "seconds": processor}
        for each, processor in zip(way.ranges(), seconds, strict=True)
    ]
    return {
        "cells": sum(each["cells"] for each in ranges),
        "rows": sum(way.layout.shape),
        "budget": way.spec.budget,
        "ranges": ranges,
        "driver": min(turn["sweep"] - turn["thin"] for turn in way.turns),
        "handling": least["states"] + least["submitting"] + least["joining"],
        "waiting": least["travel and waiting"],
        "bytes": way.messages["driver"][1] + way.messages["workers"][1],
        "sweep": least["sweep"],
    }


def peaks(path: Path, budget: int) -> dict[str, Any]:
    """The peak memory of fits by the public interface, each in a process of its own."""
    found = {}
    for kind in FITS:
        command = [sys.executable, __file__, "--fit", kind, str(path), str(budget)]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:]
        found[kind] = json.loads(last[0]) if done.returncode == 0 else {"problem": "".join(last)}
    return found


def fit(kind: str, path: Path, budget: int) -> dict[str, Any]:
    """A short fit with two threads, or on two workers: peak memory in MB of the processes."""
    import allocore as ac

    settings = {"burn_in": 2, "draws": 1, "thin": 1, "progress": False, "seed": 1, "chains": 1, "likelihood": "poisson"}
    begun = memory_mb("VmRSS")
    if kind == "threads":
        ac.AlloCore(budget, threads=2, **settings).fit(ac.load_tensor(path).load())
        return {"before": begun, "driver": memory_mb("VmHWM")}
    from cluster_ways import cluster_of

    with cluster_of(2) as client:
        idle = list(client.run(memory_mb, "VmRSS").values())
        ac.AlloCore(budget, executor=client, **settings).fit(ac.load_tensor(path))
        workers = list(client.run(memory_mb, "VmHWM").values())
        return {"before": begun, "driver": memory_mb("VmHWM"), "workers before": idle, "workers": workers}


def print_size(result: dict[str, Any], console: Console) -> None:
    ways = result["ways"]
    title = f"{result['nnz']:,} non-zeros, Q = {result['budget']}: ms of the best of {result['rounds']} rounds"
    table = Table("", *ways, title=title)
    for name in ("sweep", *STEPS, *THINNING_PARTS):
        cells = [f"{1e3 * each['best'][name]:.1f}" if name in each["best"] else "" for each in ways.values()]
        table.add_row(f"  {name}" if name in THINNING_PARTS else name, *cells)
    table.add_row(
        "sweep, quartiles", *("{:.0f} - {:.0f}".format(*_quartiles(each["seconds"])) for each in ways.values())
    )
    table.add_row("processor, median", *(f"{1e3 * each['processor']:.0f}" for each in ways.values()))
    for sender in ("driver", "scheduler", "workers"):
        told = [each["messages"].get(sender) for each in ways.values()]
        table.add_row(f"messages of {sender}", *(f"{each[0]}, {each[1] / 1e6:.2f} MB" if each else "" for each in told))
    console.print(table)
    for name, ratio in result["ratios"].items():
        target = f" (<= {TARGET} from 10 million on)" if name == "two workers / two threads" else ""
        low, high = ratio["quartiles"]
        console.print(
            f"{name}: {ratio['best']:.2f}{target}; round by round {low:.2f} - {high:.2f}; processor seconds "
            f"{ratio['processor']:.2f}"
        )
    for kind, each in result["peaks"].items():
        told = each.get("problem") or ", ".join(f"{name} {_mb(value)}" for name, value in each.items())
        console.print(f"Peak memory of a fit, {kind}, MB: {told}")


def _mb(value: Any) -> str:
    return " and ".join(f"{each:.0f}" for each in (value if isinstance(value, list) else [value]))


def _quartiles(seconds: list[float]) -> tuple[float, float]:
    low, high = np.quantile(seconds, (0.25, 0.75))
    return 1e3 * float(low), 1e3 * float(high)


def ratios(ways: dict[str, Any]) -> dict[str, Any]:
    """Sweeps of one way over those of another: of the best rounds, round by round, and in processor seconds."""
    found = {}
    for one, two in (("two workers", "two threads"), ("one worker", "one thread"), ("one thread", "two threads")):
        a, b = ways[one], ways[two]
        rounds = np.array(a["seconds"]) / np.array(b["seconds"])
        found[f"{one} / {two}"] = {
            "best": min(a["seconds"]) / min(b["seconds"]),
            "quartiles": np.quantile(rounds, (0.25, 0.75)).tolist(),
            "processor": a["processor"] / b["processor"],
        }
    return found


def measure(sizes: list[int], budget: int, quick: bool, console: Console) -> dict[str, Any]:
    """Measure all sizes, then some smaller tensors for the model."""
    measured: dict[str, Any] = {"shape": SHAPE, "load before": os.getloadavg(), "sizes": []}
    points, rounds = [], 5 if quick else 15
    with TemporaryDirectory() as folder:
        for entries in sizes:
            path = Path(folder) / f"{entries}.zarr"
            nnz = write_large(path, SHAPE, entries)
            result = size_of(path, budget, max(5, rounds // 2) if entries > 5_000_000 else rounds)
            result |= {"nnz": nnz, "ratios": ratios(result["ways"]), "peaks": peaks(path, budget)}
            print_size(result, console)
            measured["sizes"].append(result)
            points.append(result["point"])
            _remove(path)
        for shape, classes in (
            (SMALL_SHAPE, budget // 2),
            (SMALL_SHAPE, 2 * budget),
            (SHAPE, budget // 2),
            (SHAPE, 2 * budget),
        ):
            path = Path(folder) / f"{shape[0]}-{classes}.zarr"
            write_large(path, shape, sizes[0])
            points.append(size_of(path, classes, rounds, ("two workers",))["point"])
    check = max(points, key=lambda point: point["cells"])
    measured["model"] = modelled([point for point in points if point is not check], check)
    print_model(measured["model"], console)
    return measured | {"load after": os.getloadavg()}


def _remove(path: Path) -> None:
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    path.rmdir()


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds: some minutes")
    parser.add_argument("--sizes", help="entries of the tensors, with commas: 1e6,1e7,5e7")
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--without-delays", action="store_true", help="leave out the simulation")
    parser.add_argument("--only-delays", action="store_true", help="the simulation alone")
    parser.add_argument("--out", type=Path, help="a folder for cluster.json")
    parser.add_argument("--fit", nargs=3, metavar=("KIND", "PATH", "BUDGET"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit(options.fit[0], Path(options.fit[1]), int(options.fit[2]))))
        return
    console = Console(width=150)
    given = options.sizes or ("1e5,3e5" if options.quick else "1e6,1e7,5e7")
    sizes = [int(float(size)) for size in given.split(",")]
    measured = {} if options.only_delays else measure(sizes, options.budget, options.quick, console)
    if not options.without_delays:
        measured["delays"] = delays(200_000 if options.quick else 2_000_000, 50, options.quick)
        print_delays(measured["delays"], console)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "cluster.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")
        console.print(f"written: {options.out / 'cluster.json'}")


if __name__ == "__main__":
    main()

"""A billion non-zeros on one machine, out of core: the disk, the memory and the time of every step.

Usage: python benchmarks/billion.py [--sizes 1e7,1e8,1e9] [--rows 1e8] [--folder FOLDER] [--out FILE]
       python benchmarks/billion.py --only write|fit|read PATH NUMBER ...     prints one line of JSON

For each size a tensor is written in shards, row by row, and fitted from disk: ten sweeps with Q = 32, three with
Q = 100. Sizes that memory can hold are also fitted in memory. Then events are read into shards. Every step has its own
process, and FILE has its result as soon as it ends: run the program again, and it goes on with the next step. What the
steps write is removed after its size. Before a size begins, the room on the disk is checked.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table

from memory import memory_mb

SHAPES = {10**6: (500, 500, 20, 1000), 10**7: (1000, 1000, 20, 1000), 10**8: (2000, 2000, 50, 1000)}
LARGEST = 5000, 5000, 50, 1000
SWEEPS = {32: 10, 100: 3}
BYTES = 16  # of disk for a non-zero: shards and the file from which a fit streams; 12.5 were measured at 10^7
BYTES_OF_ROW = 150  # of disk for an event: the table, and what duckdb sorts
FITTED_IN_MEMORY = 10**8
Result = dict[str, Any]


def write(path: str, size: str) -> Result:
    """Write a tensor in shards."""
    from tensors import write_large

    entries, start = int(size), perf_counter()
    shape = next((shape for most, shape in SHAPES.items() if entries <= most), LARGEST)
    nnz = write_large(Path(path), shape, entries, shards=max(16, entries // 10**7))
    disk = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    return {"nnz": nnz, "seconds": perf_counter() - start, "bytes a non-zero": disk / nnz}


def fit(path: str, budget: str, where: str) -> Result:
    """Fit the tensor from disk, or in memory."""
    import allocore as ac
    from allocore.kernels.workers import available_threads

    Y, start = ac.load_tensor(path), perf_counter()
    Y = Y.load() if where == "memory" else Y
    sweeps = SWEEPS[int(budget)] + 1  # the first one compiles
    model = ac.AlloCore(int(budget), likelihood="poisson", burn_in=sweeps - 1, draws=1, thin=1, chains=1, seed=0)
    before = process_time()
    post = model.set_params(progress=False).fit(Y).posterior_
    seconds = post.stats["seconds"][0][1:]
    cores = available_threads()
    return {
        "seconds a sweep": float(seconds.min()),
        "slowest sweep": float(seconds.max()),
        "ns a non-zero and core": 1e9 * float(seconds.min()) * cores / Y.nnz,
        "processor seconds": process_time() - before,
        "seconds": perf_counter() - start,
        "log-likelihood": float(post.stats["log_likelihood"][0, -1]),
    }


def read(path: str, rows: str) -> Result:
    """Write a table of events, and read it into shards."""
    from out_of_core import reading, write_events

    folder = Path(path)
    folder.mkdir(parents=True)
    write_events(folder / "events.parquet", int(rows))
    return {"rows": int(rows), **reading(folder / "events.parquet", folder / "y.zarr", "")}


def alone(step: Callable[..., Result], *given: object) -> Result:
    """Make a step in a process of its own."""
    command = [sys.executable, __file__, "--only", step.__name__, *map(str, given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


class Steps:
    """Results by the name of the step, in a file: a step that is there is not made again."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.done: dict[str, Result] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}

    def make(self, name: str, step: Callable[..., Result], *given: object) -> None:
        """Make a step, unless its result is known."""
        if name not in self.done:
            self.done[name] = alone(step, *given)
            self._out.parent.mkdir(parents=True, exist_ok=True)
            self._out.write_text(json.dumps(self.done, indent=1), encoding="utf-8")
        print(f"{name}: {json.dumps(self.done[name])}", flush=True)


def check_room(folder: Path, needed: int) -> None:
    """End with a sentence if the disk is too full."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        sys.exit(f"{folder} has {free / 1e9:.0f} GB free, but {needed / 1e9:.0f} GB are needed; set --folder")


def measure_size(steps: Steps, folder: Path, size: int) -> None:
    """Write a tensor, fit it, and remove it."""
    fits = [(f"{size:.0e} fit Q={budget} {where}", budget, where) for budget in SWEEPS for where in ("disk", "memory")]
    fits = [each for each in fits if each[2] == "disk" or size <= FITTED_IN_MEMORY]
    path = folder / f"{size}.zarr"
    if any(name not in steps.done for name, _, _ in fits):
        if f"{size:.0e} write" not in steps.done or not (path / ".zattrs").exists():
            shutil.rmtree(path, ignore_errors=True)
            steps.done.pop(f"{size:.0e} write", None)
            check_room(folder, BYTES * size)
        steps.make(f"{size:.0e} write", write, path, size)
        for name, budget, where in fits:
            steps.make(name, fit, path, budget, where)
    shutil.rmtree(path, ignore_errors=True)


def measure_reading(steps: Steps, folder: Path, rows: int) -> None:
    """Read events, and remove them."""
    if f"{rows:.0e} read" not in steps.done:
        check_room(folder, BYTES_OF_ROW * rows)
        shutil.rmtree(folder / "events", ignore_errors=True)
        steps.make(f"{rows:.0e} read", read, folder / "events", rows)
    shutil.rmtree(folder / "events", ignore_errors=True)


def print_steps(done: dict[str, Result], console: Console) -> None:
    """Print the results as a table."""
    table = Table("step", "seconds", "s a sweep", "ns a non-zero and core", "bytes a non-zero", "peak MB")
    for name, result in done.items():
        keys = "seconds", "seconds a sweep", "ns a non-zero and core", "bytes a non-zero", "peak"
        table.add_row(name, *(f"{result[key]:,.2f}" if key in result else "" for key in keys))
    console.print(table)


def main() -> None:
    """Make the steps that are missing, and print all results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", default="1e7,1e8,1e9", help="non-zeros, about")
    parser.add_argument("--rows", type=float, default=1e8, help="events to read")
    parser.add_argument("--folder", type=Path, default=Path(".cache/billion"), help="where tensors are written")
    parser.add_argument("--out", type=Path, default=Path(".cache/bench/billion.json"))
    parser.add_argument("--only", nargs="+", metavar="STEP")
    options = parser.parse_args()
    if options.only:
        name, *given = options.only
        result = {each.__name__: each for each in (write, fit, read)}[name](*given)
        print(json.dumps({"peak": memory_mb("VmHWM"), **result}))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    steps = Steps(options.out)
    for size in options.sizes.split(","):
        measure_size(steps, options.folder, int(float(size)))
    measure_reading(steps, options.folder, int(options.rows))
    options.folder.rmdir()
    print_steps(steps.done, Console(width=150))


if __name__ == "__main__":
    main()

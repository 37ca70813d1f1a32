"""allocore beside other libraries: decompositions of the same rank, each with the same time.

Usage: python benchmarks/rivals.py [TENSOR] [--rank 25] [--seconds 20] [--memory 8] [--methods a,b] [--out rivals.json]
       python benchmarks/rivals.py --quick

TENSOR is anything that allocore reads. The default is the generated tensor of `tensors.py`, and then the flights, which
are small enough for dense arrays. One percent of the fibres is held out, and every method predicts their cells. Each
method runs in a separate process (`rival_fits.py`). Failures are reported. Then our sampler runs again, and the seconds
are noted until it predicts as well as each of the others (`equal_score.py`).
"""

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import available_threads
from equal_score import equal_scores, print_equal_scores
from rival_fits import LEAST_RATE, METHODS, PATIENCE
from tensors import generated

ALL = tuple(METHODS)
START_UP = 120  # extra seconds for imports, compilation and scoring, which are not charged to a method

EXPLANATION = f"""\
PPD is the pointwise predictive density of the held-out cells: the geometric mean of the probabilities of their counts.
For allocore the probability is averaged over draws. For a point estimate, least squares included, it is the Poisson
probability at the estimated rate (at least {LEAST_RATE:g}). "zeros": the method does not support missing cells and is
trained with zeros in the held-out ones. Imports, compilation and the pilot runs that find how many iterations fit into
the time are not charged. A method that cannot stop within an iteration runs over. tensorly holds the tensor as a dense
array, except in its sparse form. The number after Adam is its learning rate. Every method uses its default number of
threads."""


def compare(
    Y: ac.CountTensor, rank: int, seconds: float, memory_gb: float, methods: Iterable[str] = ALL
) -> list[dict[str, Any]]:
    """One result per method, in the given order. A result has either a `problem` or numbers."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tensor.npz"
        Y.save(path)
        return [run_alone(name, path, rank, seconds, memory_gb) for name in methods]


def run_alone(name: str, path: Path, rank: int, seconds: float, memory_gb: float) -> dict[str, Any]:
    """The result of one method, from a separate process, however that process ends."""
    method = METHODS[name]
    about = {"method": name, "label": method.label, "iteration": method.iteration, "held_out": method.held_out}
    script = Path(__file__).with_name("rival_fits.py")
    command = [sys.executable, "-W", "ignore", str(script), name, str(path), str(rank), str(seconds), str(memory_gb)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * seconds + START_UP)
    except subprocess.TimeoutExpired as error:
        return about | {"problem": f"stopped after {error.timeout:.0f} s"}
    if done.returncode == -signal.SIGALRM:
        return about | {"problem": f"no result after {PATIENCE * seconds:g} s, {PATIENCE} times the time given"}
    if done.returncode != 0:
        return about | {"problem": f"ended with code {done.returncode}: {_last_line(done.stderr)}"}
    return about | json.loads(_last_line(done.stdout))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def print_table(results: Sequence[dict[str, Any]], console: Console) -> None:
    """Print the results as a table, the meaning of its columns, and the failures."""
    table = Table("method", "held out", title=f"cores: {available_threads()}; each method in a separate process")
    for name in ("s / iteration", "iterations", "s", "MB before", "MB peak", "PPD", "PPD, positive"):
        table.add_column(name, justify="right")
    for result in results:
        keys = ("seconds_per_iteration", "iterations", "seconds", "baseline_mb", "peak_mb", "ppd", "ppd_positive")
        forms = (".3g", ",d", ".1f", ",.0f", ",.0f", ".4f", ".3g")
        cells = [_cell(result.get(key), form) for key, form in zip(keys, forms, strict=True)]
        if result["problem"]:
            cells[:3], cells[5:] = ["-"] * 3, ["[red]failed[/]", ""]
        table.add_row(result["label"], result["held_out"], *cells)
    console.print(table)
    for result in results:
        if result["problem"]:
            console.print(f"[red]failed[/] {result['label']}: {result['problem']}", highlight=False)
    for iteration in dict.fromkeys(result["iteration"] for result in results if result["iteration"] != "-"):
        labels = "; ".join(result["label"] for result in results if result["iteration"] == iteration)
        console.print(f"An iteration is {iteration}: {labels}.", highlight=False)
    console.print(EXPLANATION, highlight=False)


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    """Measure, print a table for each tensor, and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tensor", nargs="?", help="a file that allocore reads; by default a generated one, and flights")
    parser.add_argument("--rank", type=int, default=25, help="components, or classes")
    parser.add_argument("--seconds", type=float, default=20, help="for each method")
    parser.add_argument("--memory", type=float, default=8, help="GB of address space that a method may use")
    parser.add_argument("--methods", default=",".join(ALL), help="separated by commas; by default all: %(default)s")
    parser.add_argument("--quick", action="store_true", help="the flights alone, rank 10, 1 second for each method")
    parser.add_argument("--out", help="write the measurements here as JSON")
    options = parser.parse_args()
    methods = options.methods.split(",")
    if unknown := set(methods) - set(ALL):
        parser.error(f"unknown methods: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    if options.quick:
        options.rank, options.seconds = 10, 1.0
    if options.tensor:
        tensors = [ac.as_tensor(options.tensor)]
    else:
        tensors = [ac.load_flights()] if options.quick else [generated(), ac.load_flights()]
    console, written = Console(width=150), []
    for Y in tensors:
        console.print(f"{Y!r}\nrank {options.rank}, {options.seconds:g} s and {options.memory:g} GB for each method")
        results = compare(Y, options.rank, options.seconds, options.memory, methods)
        print_table(results, console)
        scores = equal_scores(Y, options.rank, options.seconds, results)
        print_equal_scores(scores, console)
        written.append({"tensor": repr(Y), "results": results, "equal score": scores})
    if options.out:
        settings = {"rank": options.rank, "seconds": options.seconds, "memory_gb": options.memory}
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({**settings, "cores": available_threads(), "tensors": written}, file, indent=1)


if __name__ == "__main__":
    main()

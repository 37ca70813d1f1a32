"""The cost of a large run on disk: to open it, score cells, find its classes, and write its report.

Usage: python benchmarks/opening.py [--rows 100000] [--draws 100] [--chains 1]
       python benchmarks/opening.py --only open|rates|consensus|report RUN      prints one line of JSON

Each step is in a process of its own. The run has a mode of so many rows. Its states are simulated, because sampling
them would take minutes.
"""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from rich.console import Console

from memory import memory_mb

BUDGET, COLUMNS = 50, 50
STEPS = ("open", "rates", "consensus", "report")  # the report uses the consensus, which is saved


def write_run(path: Path, rows: int, draws: int, chains: int) -> int:
    """A run of two modes whose classes stay what they are, with noise; returns the bytes of its draws."""
    import numpy as np

    import allocore as ac
    from allocore.model.spec import Spec
    from allocore.model.state import State, SweepInfo
    from allocore.storage.record import Plan, Schedule
    from allocore.storage.run_writer import ZarrStore

    rng = np.random.default_rng(0)
    coords = np.stack([np.arange(rows), rng.integers(0, COLUMNS, rows)])
    tensor = ac.CountTensor(coords, rng.integers(1, 9, rows), (rows, COLUMNS))
    plan = Plan(tensor, Spec(BUDGET, (BUDGET, BUDGET)), Schedule(0, draws, 1), chains, 0)
    subs_QM = np.arange(BUDGET)[:, None] % np.array([BUDGET, BUDGET])
    means = [rng.gamma(0.1, 10.0, (length, BUDGET)) + 1e-6 for length in tensor.shape]
    with ZarrStore.create(path, plan) as store:
        for chain, sweep in product(range(chains), range(1, draws + 1)):
            log_phi = tuple(np.log(mean_DK * rng.uniform(0.9, 1.1, mean_DK.shape)) for mean_DK in means)
            state = State(np.log(rng.uniform(0.9, 1.1, BUDGET)), subs_QM, log_phi)
            store.record_sweep(chain, sweep, SweepInfo(-1.0, BUDGET, (BUDGET, BUDGET), 0.0), 0.1)
            store.record_draw(chain, sweep - 1, state)
            store.save(chain, sweep, state, now=sweep == draws)
    return 8 * chains * draws * BUDGET * (rows + COLUMNS)


def step(name: str, run: Path) -> dict[str, float]:
    """Open the run and, unless that is all, do one thing with it."""
    import allocore as ac

    begun, start, processor = memory_mb("VmRSS"), perf_counter(), process_time()
    post = ac.open_run(run)
    if name == "rates":
        post.log_predictive(post.tensor.coords, post.tensor.counts)
    elif name == "consensus":
        post.consensus(progress=False)
    elif name == "report":
        ac.write_report(post, run.parent / "report.html")
    spent = {"seconds": perf_counter() - start, "processor": process_time() - processor}
    return {**spent, "MB": memory_mb("VmHWM") - begun}


def opening(rows: int, draws: int, chains: int = 1) -> dict[str, Any]:
    """Measure all steps on one run."""
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run.zarr"
        size = write_run(run, rows, draws, chains)
        found = {}
        for name in STEPS:
            command = [sys.executable, __file__, "--only", name, str(run)]
            found[name] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        stored = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    return {
        "rows": rows,
        "draws": draws,
        "chains": chains,
        "MB": size / 2**20,
        "stored MB": stored / 2**20,
        "steps": found,
    }


def print_opening(result: dict[str, Any], console: Console) -> None:
    steps = ", ".join(
        f"{name} {each['MB']:.0f} MB in {each['seconds']:.1f} s ({each['processor']:.1f} s of processor time)"
        for name, each in result["steps"].items()
    )
    console.print(
        f"A run of {result['rows']:,} rows, Q = {BUDGET}, {result['chains']} x {result['draws']} draws: "
        f"{result['MB']:,.0f} MB of draws, {result['stored MB']:,.0f} MB on disk; beyond the imports: {steps}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--only", nargs=2, metavar=("STEP", "RUN"))
    options = parser.parse_args()
    if options.only:
        print(json.dumps(step(options.only[0], Path(options.only[1]))))
    else:
        print_opening(opening(options.rows, options.draws, options.chains), Console(width=150))

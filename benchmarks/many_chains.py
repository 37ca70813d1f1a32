"""What many chains cost: the memory of a fit with 1, 8 and 32 of them, and the time to open and judge up to 64.

Usage: python benchmarks/many_chains.py [--quick]
       python benchmarks/many_chains.py --only CHAINS TENSOR     prints one line of JSON

Each fit is in a process of its own and keeps its draws on disk. The layout of the data and the kernels are shared, so a
chain adds only its own state.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from rich.console import Console

import allocore as ac
from memory import memory_mb

BUDGET = 100
NUMBERS = 1, 8, 32
JUDGING = "open", "consensus", "reproducibility", "diagnose"


def fit(chains: int, path: Path) -> dict[str, float]:
    """Fit a tensor for a few sweeps; the time is that of a sweep of one chain."""
    Y = ac.load_tensor(path)
    begun = memory_mb("VmRSS")
    with TemporaryDirectory() as folder:
        store = Path(folder) / "run.zarr"
        model = ac.AlloCore(BUDGET, burn_in=3, draws=2, thin=1, chains=chains, seed=0, store=store, progress=False)
        seconds = model.fit(Y).posterior_.stats["seconds"][:, 1:].mean()
    return {"chains": chains, "MB": memory_mb("VmHWM") - begun, "seconds": float(seconds)}


def judging(chains: int, budget: int) -> dict[str, Any]:
    """The time to open a run of many chains of the flights, to find and judge what they share, and to diagnose it."""
    found: dict[str, Any] = {"chains": chains, "budget": budget}
    with TemporaryDirectory() as folder:
        store = Path(folder) / "run.zarr"
        model = ac.AlloCore(budget, burn_in=20, draws=20, thin=1, chains=chains, seed=0, store=store, progress=False)
        model.fit(ac.hold_out(ac.load_flights(), 0.01, seed=0))
        for name in JUDGING:
            start = perf_counter(), process_time()
            if name == "open":
                post = ac.open_run(store)
            else:
                getattr(post, name)()
            found[name] = {"seconds": perf_counter() - start[0], "processor": process_time() - start[1]}
    return found


def many_chains(Y: ac.CountTensor, *, quick: bool) -> dict[str, Any]:
    """Measure both."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tensor.npz"
        Y.save(path)
        commands = [[sys.executable, __file__, "--only", str(chains), str(path)] for chains in NUMBERS]
        fits = [
            json.loads(subprocess.run(each, capture_output=True, text=True, check=True).stdout) for each in commands
        ]
    numbers, budget = ((8, 16), 50) if quick else ((16, 64), 200)
    return {"fits": fits, "judging": [judging(chains, budget) for chains in numbers]}


def print_many_chains(result: dict[str, Any], console: Console) -> None:
    first, *_, last = result["fits"]
    each = (last["MB"] - first["MB"]) / (last["chains"] - first["chains"])
    told = ", ".join(
        f"{fit['chains']} {'chains' if fit['chains'] > 1 else 'chain'} {fit['MB']:.0f} MB" for fit in result["fits"]
    )
    console.print(f"Memory of a fit, Q = {BUDGET}, beyond the tensor: {told}; {each:.1f} MB for each further chain")
    for judged in result["judging"]:
        times = ", ".join(
            f"{name} {judged[name]['seconds']:.1f} s ({judged[name]['processor']:.1f} s of processor time)"
            for name in JUDGING
        )
        console.print(f"{judged['chains']} chains of 20 draws, Q = {judged['budget']}, flights: {times}")


if __name__ == "__main__":
    from tensors import generated

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs=2, metavar=("CHAINS", "TENSOR"))
    options = parser.parse_args()
    if options.only:
        print(json.dumps(fit(int(options.only[0]), Path(options.only[1]))))
    else:
        print_many_chains(many_chains(generated(), quick=options.quick), Console(width=150))

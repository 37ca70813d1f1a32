"""One fit of a tensor of a given size, in a process of its own: seconds a sweep, and memory.

Usage: python benchmarks/scale.py SHAPE ENTRIES BUDGET SWEEPS     prints one line of JSON
       python benchmarks/scale.py --first-sweep                   seconds from the start to the end of a first sweep
"""

import json
import sys
from time import perf_counter

from memory import memory_mb

START = perf_counter()


def first_sweep() -> dict[str, float]:
    """Import, load the flights, make one sweep."""
    import allocore as ac

    imported = perf_counter() - START
    ac.AlloCore(25, burn_in=0, draws=1, thin=1, progress=False).fit(ac.load_flights())
    return {"import": imported, "first sweep": perf_counter() - START}


def scale(shape: tuple[int, ...], entries: int, budget: int, sweeps: int) -> dict[str, float]:
    """Fit a scattered tensor and tell what it took."""
    import allocore as ac
    from allocore.gibbs.layout import Layout
    from allocore.kernels.workers import Workers
    from tensors import scattered

    Y = scattered(shape, entries)
    tensor = Y.coords.nbytes + Y.counts.nbytes
    with Workers(1) as workers:
        held = sum(array.nbytes for array in Layout.of(Y, workers).nonzeros) + Y.nnz  # and a flag a cell while thinning
    post = ac.AlloCore(budget, burn_in=sweeps - 1, draws=1, thin=1, progress=False).fit(Y).posterior_
    return {
        "nnz": Y.nnz,
        "seconds": float(post.stats["seconds"][0][1:].min()),
        "tensor bytes": tensor,
        "bytes per non-zero": held / Y.nnz,
        "peak GB": memory_mb("VmHWM") / 2**10,
    }


def main() -> None:
    """Measure what the arguments say."""
    if sys.argv[1] == "--first-sweep":
        result = first_sweep()
    else:
        shape = tuple(int(length) for length in sys.argv[1].split("x"))
        result = scale(shape, *(int(float(number)) for number in sys.argv[2:5]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()

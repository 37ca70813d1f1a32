"""One fit of a tensor of a given size, in a separate process: seconds per sweep, and memory.

Usage: python benchmarks/scale.py SHAPE ENTRIES BUDGET SWEEPS     prints one line of JSON
       python benchmarks/scale.py --first-sweep                   seconds from the start to the end of the first sweep
"""

import json
import sys
from time import perf_counter
from typing import Any

from memory import forget_peak, memory_mb

START = perf_counter()
ONE_CHAIN = {"likelihood": "poisson", "chains": 1, "progress": False}
CELLS_LAID_OUT = 1_000_000  # enough to know the bytes of a cell; all cells are laid out by the fit
BYTES_AN_ENTRY = 110  # at the peak, while a tensor is made from raw entries; measured with 10^7 entries


def first_sweep() -> dict[str, float]:
    """Import allocore, load the flights and make one sweep."""
    import allocore as ac

    imported = perf_counter() - START
    ac.AlloCore(25, **ONE_CHAIN, burn_in=0, draws=1, thin=1).fit(ac.load_flights())
    return {"import": imported, "first sweep": perf_counter() - START}


def scale(shape: tuple[int, ...], entries: int, budget: int, sweeps: int) -> dict[str, float]:
    """Fit a scattered tensor and return its cost."""
    import allocore as ac
    from allocore.gibbs.layout import Layout
    from allocore.kernels.workers import Workers, available_threads
    from tensors import scattered

    imports = memory_mb("VmRSS")
    Y = scattered(shape, entries)
    making = memory_mb("VmHWM")
    tensor = Y.coords.nbytes + Y.counts.nbytes
    some = min(Y.nnz, CELLS_LAID_OUT)
    with Workers(1) as workers:
        layout = Layout.of_cells(Y.coords[:, :some], Y.counts[:some], Y.missing, workers)
        held = sum(array.nbytes for array in layout.nonzeros[:-1]) + some  # with thinning's flag per cell
    forget_peak()
    post = ac.AlloCore(budget, **ONE_CHAIN, burn_in=sweeps - 1, draws=1, thin=1).fit(Y).posterior_
    return {
        "nnz": Y.nnz,
        "cores": available_threads(),
        "seconds": float(post.stats["seconds"][0][1:].min()),
        "tensor bytes": tensor,
        "bytes per non-zero": held / some,
        "imports GB": imports / 2**10,
        "making GB": making / 2**10,
        "fit GB": memory_mb("VmHWM") / 2**10,
    }


def lacking(entries: int) -> str:
    """Why there is not enough memory for a tensor; empty if there is, or if nobody knows."""
    from allocore._memory import available_memory, in_bytes

    room, needed = available_memory(), BYTES_AN_ENTRY * entries
    if room is None or needed <= room:
        return ""
    return (
        f"{entries:,} entries: to make the tensor takes about {in_bytes(needed)} of memory, "
        f"but {in_bytes(room)} are available"
    )


def main() -> None:
    """Run the measurement that the arguments ask for."""
    if sys.argv[1] == "--first-sweep":
        result: dict[str, Any] = first_sweep()
    else:
        shape = tuple(int(length) for length in sys.argv[1].split("x"))
        numbers = [int(float(number)) for number in sys.argv[2:5]]
        problem = lacking(numbers[0])
        result = {"problem": problem} if problem else scale(shape, *numbers)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

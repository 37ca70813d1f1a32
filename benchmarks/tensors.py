"""Generated tensors for the benchmarks."""

import numpy as np

import allocore as ac

SHAPE = (206, 206, 20, 84)


def generated(seed: int = 0) -> ac.CountTensor:
    """206 x 206 x 20 x 84 with some 330,000 non-zeros.

    Fibres of a few busy actors, one cell in twenty of a fibre filled, counts with a heavy tail.
    """
    rng = np.random.default_rng(seed)
    popular = [rng.zipf(1.3, 500_000) % length for length in SHAPE[:3]]
    fibres = np.unique(np.array(popular), axis=1)[:, :80_000]
    chosen = np.sort(rng.integers(0, fibres.shape[1], 340_000))
    coords = np.vstack([fibres[:, chosen], rng.integers(0, SHAPE[3], len(chosen))])
    counts = 1 + np.minimum(np.floor(0.7 * rng.pareto(1.15, len(chosen))), 10_000)
    return ac.CountTensor(coords, counts, SHAPE)


def scattered(shape: tuple[int, ...], entries: int, seed: int = 0) -> ac.CountTensor:
    """Entries of counts around 1 all over a shape, the more the lower the index; entries that meet are summed."""
    rng = np.random.default_rng(seed)
    coords = np.empty((len(shape), entries), dtype=np.int32)
    for m, length in enumerate(shape):
        coords[m] = (rng.random(entries) ** 2 * length).astype(np.int32)
    return ac.CountTensor(coords, 1 + rng.poisson(0.3, entries), shape)

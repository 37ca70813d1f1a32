"""Generated tensors for the benchmarks."""

import numpy as np

import allocore as ac

SHAPE = (206, 206, 20, 84)
EVENTS, CLASSES, CONCENTRATIONS = 1_160_000, 100, (0.02, 0.02, 0.05, 0.12)


def generated(seed: int = 0) -> ac.CountTensor:
    """206 x 206 x 20 x 84 with 1.16 million events of 100 classes in about 290,000 cells; a few counts are large."""
    rng = np.random.default_rng(seed)
    events_Q = rng.multinomial(EVENTS, rng.dirichlet(np.full(CLASSES, 0.5)))
    coords = np.empty((len(SHAPE), EVENTS), dtype=np.int32)
    for m, (length, concentration) in enumerate(zip(SHAPE, CONCENTRATIONS, strict=True)):
        shares_QD = rng.dirichlet(np.full(length, concentration), CLASSES)
        coords[m] = np.concatenate([rng.choice(length, n, p=p) for n, p in zip(events_Q, shares_QD, strict=True)])
    return ac.CountTensor(coords, np.ones(EVENTS, dtype=np.int64), SHAPE)


def scattered(shape: tuple[int, ...], entries: int, seed: int = 0) -> ac.CountTensor:
    """Entries with counts around 1, denser at low indices; entries in the same cell are summed."""
    rng = np.random.default_rng(seed)
    coords = np.empty((len(shape), entries), dtype=np.int32)
    for m, length in enumerate(shape):
        coords[m] = (rng.random(entries) ** 2 * length).astype(np.int32)
    return ac.CountTensor(coords, 1 + rng.poisson(0.3, entries), shape)

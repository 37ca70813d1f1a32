"""Generated tensors for the benchmarks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import allocore as ac
from allocore.tensor.coordinates import fibre_order
from allocore.tensor.count_tensor import CanonicalParts, trusted_tensor
from allocore.tensor.missing import Missing
from allocore.tensor.sharded import NO_CELLS
from allocore.tensor.shards import write_shards

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


def write_large(path: Path, shape: tuple[int, int, int, int], entries: int, shards: int = 16, seed: int = 0) -> int:
    """Write a sharded tensor row by row of its first mode, with one row in memory at a time; returns its non-zeros.

    Rows and counts are heavy-tailed; the last mode is flat and should be long, so that fibres run along it. Entries in
    one cell are added up, so there are fewer non-zeros than entries. Cells are sorted as a fit in memory sorts them, or
    its draws would be others. Every row is made twice: the first time they are only counted.
    """
    shares_D = (np.arange(shape[0]) + 10.0) ** -0.8
    entries_D = np.round(entries * shares_D / shares_D.sum()).astype(np.int64).tolist()
    sizes_D2: list[tuple[int, int]] = []

    def rows() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        sizes_D2.clear()
        for row, number in enumerate(entries_D):
            keys, counts = _slab(np.random.default_rng([seed, row]), shape[1:], number)
            sizes_D2.append((len(keys), int(counts.sum(dtype=np.int64))))
            yield _cells(row, keys, shape), counts.astype(np.int64)

    def in_order() -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        for coords, counts in rows():
            place = np.lexsort(coords[list(reversed(order))])
            yield coords[:, place], counts[place]

    order = fibre_order((coords for coords, _ in rows()), shape, entries)
    if order[0] != 0:
        raise ValueError(f"order is {order}, but rows of the first mode can only be written if it comes first")
    nnz, total = np.sum(sizes_D2, axis=0).tolist()
    names, labels = tuple(f"mode_{m}" for m in range(len(shape))), tuple(range(length) for length in shape)
    about = trusted_tensor(CanonicalParts(*NO_CELLS, shape, names, labels, Missing.none(shape)), nnz, total)
    write_shards(path, about, order, in_order(), shards)
    return nnz


def _cells(row: int, keys: NDArray[np.int32], shape: tuple[int, ...]) -> NDArray[np.int32]:
    """The coordinates of numbered cells of a row of the first mode."""
    return np.stack([np.full(len(keys), row), *np.unravel_index(keys, shape[1:])]).astype(np.int32)


def _slab(
    rng: np.random.Generator, shape: tuple[int, ...], entries: int
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """The cells of a row of the first mode, as sorted numbers within it, and their counts: P(y > n) is about n^-1.8."""
    columns = [
        (rng.random(entries) ** power * length).astype(np.int32) for power, length in zip((2, 2, 1), shape, strict=True)
    ]
    keys = np.unique(np.ravel_multi_index(columns, shape).astype(np.int32))
    return keys, np.minimum(rng.random(len(keys)) ** (-1 / 1.8), 60_000).astype(np.uint16)

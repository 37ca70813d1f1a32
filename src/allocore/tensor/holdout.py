"""Hold out a random share of the fibres of a tensor, to evaluate predictions.

A fibre along a mode is a set of cells that differ only in that mode. Held-out fibres become missing patterns of the
training tensor; their cells, zeros included, are the test set. Fibres are drawn by their coordinates.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from allocore._io import temporary_folder
from allocore._text import plural
from allocore.errors import Described, InputError, place_of, whole_number
from allocore.tensor.coordinates import (
    Int64s,
    Integers,
    as_integers,
    check_coordinates,
    check_shape,
    column_keys,
    coordinate_type,
    fibre_order,
    locate,
    read_only,
)
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, cells_of, mode_index, trusted_tensor
from allocore.tensor.files import as_tensor
from allocore.tensor.labels import ModeLabels, check_labels, check_mode_names, fit_labels
from allocore.tensor.missing import WILDCARD, Missing, covered
from allocore.tensor.sharded import NO_CELLS, ShardedTensor, table_of
from allocore.tensor.shards import new_path, write_shards
from allocore.tensor.undirected import Pair, as_pairs, in_both_directions

MAX_FIBRES = 20_000_000
MAX_CELLS = 1_000_000_000
MAX_BATCH = 4_000_000
MAX_DRAWS = 1_000_000_000


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Held-out cells for testing, zeros included.

    Parameters
    ----------
    coords, counts : ndarrays of int, shape (M, n) and (n,)
        Coordinates of the cells, one column per cell, and their counts; read-only.
    shape, mode_names, labels : tuple, optional
        Those of the tensor that the cells come from. With them, a posterior refuses to score cells of another tensor.
    along : int, optional
        The mode that the held-out fibres run along. Standard errors are taken over fibres; without it, over cells.

    Examples
    --------
    >>> import allocore as ac
    >>> test = ac.hold_out(ac.load_flights(), fraction=0.1, along="month", seed=1).test
    >>> test
    HeldOut: 120,960 cells, 1,683 positive, 34,854 counts
    >>> test.coords.shape
    (5, 120960)
    """

    coords: Integers
    counts: Int64s
    shape: tuple[int, ...] | None = None
    mode_names: tuple[str, ...] | None = None
    labels: tuple[ModeLabels, ...] | None = None
    along: int | None = None

    def __post_init__(self) -> None:
        coords, counts = as_integers(self.coords, "coords"), as_integers(self.counts, "counts")
        if coords.ndim != 2 or not len(coords):
            raise InputError("coords", Described(f"an array of shape {coords.shape}"), "must have the shape (M, n)")
        if counts.shape != coords.shape[1:] or (counts < 0).any():
            raise InputError("counts", Described("these counts"), "must have one count of at least 0 for each cell")
        modes = len(coords)
        names = check_mode_names(self.mode_names, modes)
        checked: dict[str, object] = {"coords": read_only(coords.view()), "counts": read_only(counts.view())}
        if self.shape is not None:
            checked["shape"] = lengths = check_shape(self.shape, modes=modes)
            check_coordinates(coords, lengths)
        if self.mode_names is not None:
            checked["mode_names"] = names
        if self.labels is not None:
            labels = check_labels(self.labels, names)
            checked["labels"] = tuple(labels) if self.shape is None else fit_labels(labels, lengths, names)
        if self.along is not None:
            checked["along"] = place_of("along", self.along, modes)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def positive(self) -> HeldOut:
        """The cells with a count of at least 1."""
        some = np.flatnonzero(self.counts)
        return replace(self, coords=self.coords.take(some, axis=1), counts=self.counts[some])

    @property
    def fibres(self) -> Int64s:
        """The number of the fibre that each cell belongs to: cells of a fibre differ in the mode `along` only."""
        if self.along is None:
            return np.arange(len(self))
        others = [m for m in range(len(self.coords)) if m != self.along]
        lengths = self.coords.max(axis=1, initial=0) + 1
        (keys,) = column_keys([int(lengths[m]) for m in others], self.coords[others])
        return np.unique(keys, return_inverse=True)[1].astype(np.int64)

    def __len__(self) -> int:
        return self.counts.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldOut):
            return NotImplemented
        return np.array_equal(self.coords, other.coords) and np.array_equal(self.counts, other.counts)

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldOut, (self.coords, self.counts, self.shape, self.mode_names, self.labels, self.along)

    def __repr__(self) -> str:
        positive = int(np.count_nonzero(self.counts))
        total = plural(int(self.counts.sum()), "count")
        return f"HeldOut: {plural(len(self), 'cell')}, {positive:,} positive, {total}"


@dataclass(frozen=True, repr=False)
class Split:
    """A tensor to train on and the cells held out from it.

    Parameters
    ----------
    train : CountTensor
        The tensor in which the held-out fibres are missing.
    test : HeldOut
        The cells of the held-out fibres.

    Examples
    --------
    >>> import allocore as ac
    >>> split = ac.hold_out(ac.load_flights(), fraction=0.1, along="month", seed=1)
    >>> len(split.test) / split.train.volume
    0.1
    """

    train: CountTensor
    test: HeldOut

    def __repr__(self) -> str:
        return f"Split:\n  train {self.train!r}\n  test  {self.test!r}"


def training_data(given: object) -> tuple[CountTensor, HeldOut | None]:
    """Return the tensor to train on and, given a split (which users may make by hand), its checked test cells."""
    if not isinstance(given, Split):
        return as_tensor(given), None
    train, test = as_tensor(given.train), given.test
    if not isinstance(test, HeldOut):
        raise InputError("test", Described(f"a {type(test).__name__}"), "must be a HeldOut")
    if test.shape not in (None, train.shape):
        wrong = Described(f"a set of cells of shape {test.shape}")
        raise InputError("test", wrong, f"must have the shape of train, {train.shape}")
    check_coordinates(test.coords, train.shape, train.mode_names)
    if test.counts.shape != test.coords.shape[1:] or not test.counts.size or (test.counts < 0).any():
        raise InputError("test", rule="must have cells, and a count of at least 0 for each of them")
    if test.along is not None and not 0 <= test.along < train.ndim:
        raise InputError("along", test.along, f"must be from 0 to {train.ndim - 1}")
    if seen := int((~covered(test.coords, train.missing)).sum()):
        wrong = Described(f"a set with {seen:,} cells that train observes")
        raise InputError("test", wrong, "must be missing in train")
    coords = cells_of(train, test.coords)
    return train, replace(test, coords=coords, shape=train.shape, mode_names=train.mode_names, labels=train.labels)


def hold_out(
    tensor: object,
    fraction: float = 0.01,
    along: int | str = -1,
    seed: int = 0,
    *,
    out: str | os.PathLike[str] | None = None,
) -> Split:
    """Hold out a random share of the fibres along one mode.

    Parameters
    ----------
    tensor : CountTensor or array-like
        The tensor to split, or anything that `as_tensor` takes.
    fraction : float, default 0.01
        The share of the fibres to hold out, above 0 and below 1; at least one fibre is taken. Fibres that a missing
        pattern covers are never drawn, and missing cells are not in the test set.
    along : int or str, default -1
        The mode along which the fibres run, by name or by index. Of undirected ties, a fibre is held out in both
        directions; along one of their ends, single cells are held out.
    seed : int, default 0
        The seed of the draw: a whole number of at least 0.
    out : str or path-like, optional
        A new folder, ending in .zarr, for the training tensor, which is then a `ShardedTensor`. The cells of a tensor
        in shards are read part by part. Without `out`, all of them are read into memory.

    Returns
    -------
    Split
        `train`, a CountTensor with the fibres missing, and `test`, the cells of the fibres.

    Examples
    --------
    >>> import allocore as ac
    >>> split = ac.hold_out(ac.load_flights(), fraction=0.1, along="month", seed=1)
    >>> len(split.train.missing)
    10080
    >>> len(split.test), len(split.test.positive)
    (120960, 1683)
    """
    tensor, target = as_tensor(tensor), None if out is None else new_path(out, "out")
    held_out, test = held_out_cells(tensor, fraction, along, seed)
    return Split(tensor.with_missing(held_out) if target is None else _written(tensor, held_out, test, target), test)


def held_out_cells(tensor: CountTensor, fraction: float, along: int | str, seed: int) -> tuple[Missing, HeldOut]:
    """Draw the fibres that `hold_out` holds out, and return them with their cells. The tensor is read block by block.

    Examples
    --------
    >>> fibres, test = held_out_cells(Y, 0.1, "month", seed=1)
    >>> len(fibres), len(test)
    (10080, 120960)
    """
    m: int | None = mode_index(tensor, along, "along")
    if m in (tensor.undirected_modes or ()):
        m = None
    is_number = isinstance(fraction, float | int | np.floating) and not isinstance(fraction, bool)
    if not is_number or not 0 < fraction < 1:
        raise InputError("fraction", fraction, "must be a number above 0 and below 1")
    whole_number("seed", seed, least=0)
    missing_fibres, pair = _missing_fibres(tensor, m), _pair_of_fibres(tensor, m)
    number = _number_of_fibres(fraction, missing_fibres, 1 if m is None else tensor.shape[m], pair)
    rng = np.random.Generator(np.random.PCG64(seed))
    fibres = _draw_fibres(rng, missing_fibres, number, pair)
    if m is not None:
        fibres = np.insert(fibres, m, WILDCARD, axis=0)
    held_out = Missing(fibres.T, tensor.shape)
    test = _cells(tensor, held_out.patterns, m)
    if len(test) == 0:
        raise InputError("fraction", fraction, "must be larger: all cells of the drawn fibres are missing already")
    if int(test.counts.sum()) == tensor.total:
        raise InputError("fraction", fraction, "must be smaller: it leaves no positive count to train on")
    return held_out, test


def _written(tensor: CountTensor, held_out: Missing, test: HeldOut, target: Path) -> ShardedTensor:
    """Write the tensor without the held-out cells, part by part, sorted as it would be in memory."""
    if not isinstance(tensor, ShardedTensor):
        tensor.with_missing(held_out).save(target)
        return ShardedTensor(target)
    pair = tensor.undirected_modes
    added = held_out if pair is None else in_both_directions(held_out, pair)

    def kept() -> Iterator[tuple[Integers, Int64s]]:
        for coords, counts in tensor.blocks():
            seen_N = ~covered(coords, added)
            yield coords[:, seen_N], counts[seen_N]

    missing = tensor.missing.union(added)
    parts = CanonicalParts(*NO_CELLS, tensor.shape, tensor.mode_names, tensor.labels, missing, tensor.report, pair)
    sizes = tensor.nnz - len(test.positive), tensor.total - int(test.counts.sum())
    order = fibre_order((coords for coords, _ in kept()), tensor.shape, sizes[0])
    if order == tensor.files.sizes.order:
        write_shards(target, trusted_tensor(parts, *sizes), order, kept(), tensor.shards)
    else:  # without the held-out fibres, another order has the fewest
        with temporary_folder(target) as folder, table_of(folder, parts, *sizes, kept()) as table:
            table.save(target, shards=tensor.shards)
    return ShardedTensor(target)


def _missing_fibres(tensor: CountTensor, along: int | None) -> Missing:
    """Return the fibres that one pattern covers, as missing cells of a tensor without the mode `along`."""
    if along is None:  # single cells
        return tensor.missing
    patterns = tensor.missing.patterns
    whole = (patterns[:, along] == WILDCARD) | (tensor.shape[along] == 1)
    lengths = tensor.shape[:along] + tensor.shape[along + 1 :]
    return Missing(np.delete(patterns[whole], along, axis=1), lengths)


def _pair_of_fibres(tensor: CountTensor, along: int | None) -> Pair | None:
    """Return the modes of undirected ties in a tensor without the mode `along`."""
    if tensor.undirected_modes is None:
        return None
    first, second = (mode - (along is not None and mode > along) for mode in tensor.undirected_modes)
    return first, second


def _candidates(missing_fibres: Missing, pair: Pair | None) -> int:
    """How many fibres are not missing; those of undirected ties are the same in both directions."""
    return (math.prod(missing_fibres.shape) - missing_fibres.cells) // (1 if pair is None else 2)


def _number_of_fibres(fraction: float, missing_fibres: Missing, length: int, pair: Pair | None) -> int:
    # There is always a candidate: a tensor has a positive count, and its fibre is not missing.
    fibres, candidates = math.prod(missing_fibres.shape), _candidates(missing_fibres, pair)
    number = max(1, round(fraction * candidates))
    if number > MAX_FIBRES or number * length > MAX_CELLS:
        rule = (
            f"must be smaller: it means {number:,} fibres of {length:,} cells; at most {MAX_FIBRES:,} fibres and "
            f"{MAX_CELLS:,} cells can be held out"
        )
        raise InputError("fraction", fraction, rule)
    if number * fibres // candidates > MAX_DRAWS:
        rule = (
            f"must be smaller: it means {number:,} fibres, but only {candidates:,} of {fibres:,} are not missing, too "
            "few to be found at random"
        )
        raise InputError("fraction", fraction, rule)
    return number


def _draw_fibres(rng: np.random.Generator, missing_fibres: Missing, number: int, pair: Pair | None) -> Int64s:
    """Return (M - 1, number) distinct fibres, uniformly without replacement among those not missing."""
    fibres, candidates = math.prod(missing_fibres.shape), _candidates(missing_fibres, pair)
    lengths = np.array(missing_fibres.shape, dtype=np.int64)[:, None]
    found = np.zeros((len(lengths), 0), dtype=np.int64)
    while found.shape[1] < number:
        wanted = (number - found.shape[1]) * fibres // (candidates - found.shape[1])
        drawn = rng.integers(0, lengths, size=(len(lengths), min(wanted + 100, MAX_BATCH)))
        drawn = drawn[:, ~covered(drawn, missing_fibres)]
        found = np.concatenate([found, drawn if pair is None else as_pairs(drawn, pair)], axis=1)
        (keys,) = column_keys(missing_fibres.shape, found)
        _, first = np.unique(keys, return_index=True)
        found = found[:, np.sort(first)]
    return found[:, :number]


def _cells(tensor: CountTensor, fibres: Int64s, along: int | None) -> HeldOut:
    """Return the observed cells of some sorted fibres, fibre after fibre, with their counts."""
    length = 1 if along is None else tensor.shape[along]
    coords: Integers = np.repeat(fibres.T.astype(coordinate_type(tensor.shape)), length, axis=1)
    if along is not None:
        coords[along] = np.tile(np.arange(length), len(fibres))
    others = [m for m in range(tensor.ndim) if m != along]
    counts = np.zeros(coords.shape[1], dtype=np.int64)
    for coords_of_block, counts_of_block in tensor.blocks():
        known, keys = column_keys([tensor.shape[m] for m in others], fibres[:, others].T, coords_of_block[others])
        # Looking for the fibre of each non-zero is much less work than looking for the count of each cell.
        fibre = locate(keys, known)
        inside = np.flatnonzero(fibre >= 0)
        place = fibre[inside] if along is None else fibre[inside] * length + coords_of_block[along, inside]
        counts[place] = counts_of_block[inside]
    if len(tensor.missing):
        observed = np.flatnonzero(~covered(coords, tensor.missing))
        coords, counts = coords.take(observed, axis=1), counts[observed]
    return HeldOut(coords, counts, tensor.shape, tensor.mode_names, tensor.labels, along)

"""Hold out a random share of the fibres of a tensor, to judge predictions by.

A fibre along a mode is the set of cells that differ in that mode only. Held-out fibres become missing
patterns of the training tensor; their cells, zeros included, are the test set. Nothing of the tensor's volume
is ever made: fibres are drawn by coordinate, and the first distinct ones that are not masked already are
kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocore.data.convert import as_tensor
from allocore.data.coordinates import Int64s, Integers, column_keys, locate, read_only
from allocore.data.display import plural
from allocore.data.missing import WILDCARD, Missing
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

MAX_FIBRES = 20_000_000
MAX_CELLS = 1_000_000_000
MAX_BATCH = 4_000_000
MAX_DRAWS = 1_000_000_000


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Cells kept for testing: `coords` (M, n) and `counts` (n,), zeros included; both read-only."""

    coords: Integers
    counts: Int64s

    def __post_init__(self) -> None:
        object.__setattr__(self, "coords", read_only(self.coords.view()))
        object.__setattr__(self, "counts", read_only(self.counts.view()))

    @property
    def positive(self) -> HeldOut:
        """The cells with a count of at least 1."""
        some = np.flatnonzero(self.counts)
        return HeldOut(self.coords.take(some, axis=1), self.counts[some])

    def __len__(self) -> int:
        return self.counts.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldOut):
            return NotImplemented
        return np.array_equal(self.coords, other.coords) and np.array_equal(self.counts, other.counts)

    def __reduce__(self) -> tuple[Any, ...]:
        return HeldOut, (self.coords, self.counts)

    def __repr__(self) -> str:
        positive = int(np.count_nonzero(self.counts))
        total = plural(int(self.counts.sum()), "count")
        return f"HeldOut: {plural(len(self), 'cell')}, {positive:,} positive, {total}"


@dataclass(frozen=True, repr=False)
class Split:
    """A tensor to train on, in which the held-out fibres are missing, and the cells held out."""

    train: CountTensor
    test: HeldOut

    def __repr__(self) -> str:
        return f"Split:\n  train {self.train!r}\n  test  {self.test!r}"


def hold_out(tensor: object, fraction: float = 0.01, along: int | str = -1, seed: int = 0) -> Split:
    """Hold out a random share of the fibres along one mode.

    Parameters
    ----------
    tensor
        The tensor to split: a CountTensor or anything that `as_tensor` takes.
    fraction
        Share of the fibres to hold out, above 0 and below 1; at least one fibre is taken. Fibres that a
        missing pattern covers are never drawn, and missing cells are not in the test set.
    along
        The mode along which the fibres run, by name or index.
    seed
        Whole number that determines the draw.

    Examples
    --------
    >>> import allocore as ac
    >>> split = ac.hold_out(ac.load_flights(), fraction=0.1, along="month", seed=1)
    >>> len(split.train.missing)
    10080
    >>> len(split.test), len(split.test.positive)
    (120960, 1683)
    """
    tensor = as_tensor(tensor)
    m = tensor.mode(along)
    _check_arguments(fraction, seed)
    covered = _covered_fibres(tensor, m)
    number = _number_of_fibres(fraction, covered, tensor.shape[m])
    rng = np.random.Generator(np.random.PCG64(seed))
    fibres = np.insert(_draw_fibres(rng, covered, number), m, WILDCARD, axis=0)
    held_out = Missing(fibres.T, tensor.shape)
    test = _cells(tensor, held_out.patterns, m)
    if len(test) == 0:
        raise InputError(f"fraction={fraction}: all cells of the fibres drawn are missing already; draw more")
    if int(test.counts.sum()) == tensor.total:
        raise InputError(f"fraction={fraction} leaves no positive count to train on; hold out less")
    return Split(tensor.with_missing(held_out), test)


def _check_arguments(fraction: float, seed: int) -> None:
    is_number = isinstance(fraction, float | int | np.floating) and not isinstance(fraction, bool)
    if not is_number or not 0 < fraction < 1:
        raise InputError(f"fraction must be a number above 0 and below 1; got {fraction!r}")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; got {seed!r}")


def _covered_fibres(tensor: CountTensor, along: int) -> Missing:
    """Return the fibres that one pattern covers, as missing cells of a tensor without the mode `along`."""
    patterns = tensor.missing.patterns
    whole = (patterns[:, along] == WILDCARD) | (tensor.shape[along] == 1)
    lengths = tensor.shape[:along] + tensor.shape[along + 1 :]
    return Missing(np.delete(patterns[whole], along, axis=1), lengths)


def _candidates(covered: Missing) -> int:
    return math.prod(covered.shape) - covered.cells


def _number_of_fibres(fraction: float, covered: Missing, length: int) -> int:
    # There is always a candidate: a tensor has a positive count, and its fibre is not covered.
    fibres, candidates = math.prod(covered.shape), _candidates(covered)
    number = max(1, round(fraction * candidates))
    if number > MAX_FIBRES or number * length > MAX_CELLS:
        raise InputError(
            f"fraction={fraction} means {number:,} fibres of {length:,} cells; at most {MAX_FIBRES:,} fibres "
            f"and {MAX_CELLS:,} cells can be held out"
        )
    if number * fibres // candidates > MAX_DRAWS:
        raise InputError(
            f"fraction={fraction} means {number:,} fibres, but only {candidates:,} of {fibres:,} are not "
            "missing: too few to be found at random"
        )
    return number


def _draw_fibres(rng: np.random.Generator, covered: Missing, number: int) -> Int64s:
    """Return (M - 1, number) distinct fibres, uniformly without replacement among those not covered."""
    fibres, candidates = math.prod(covered.shape), _candidates(covered)
    lengths = np.array(covered.shape, dtype=np.int64)[:, None]
    kept = np.zeros((len(lengths), 0), dtype=np.int64)
    while kept.shape[1] < number:
        wanted = (number - kept.shape[1]) * fibres // (candidates - kept.shape[1])
        drawn = rng.integers(0, lengths, size=(len(lengths), min(wanted + 100, MAX_BATCH)))
        kept = np.concatenate([kept, drawn[:, ~covered.contains(drawn)]], axis=1)
        (keys,) = column_keys(covered.shape, kept)
        _, first = np.unique(keys, return_index=True)
        kept = kept[:, np.sort(first)]
    return kept[:, :number]


def _cells(tensor: CountTensor, fibres: Int64s, along: int) -> HeldOut:
    """Return the observed cells with their counts, fibre after fibre."""
    coords = np.repeat(fibres.T.astype(tensor.coords.dtype), tensor.shape[along], axis=1)
    coords[along] = np.tile(np.arange(tensor.shape[along]), len(fibres))
    coords = coords.compress(~tensor.missing.contains(coords), axis=1)
    keys, known = column_keys(tensor.shape, coords, tensor.coords)
    place = locate(keys, known)
    return HeldOut(coords, np.where(place >= 0, tensor.counts[place], 0))

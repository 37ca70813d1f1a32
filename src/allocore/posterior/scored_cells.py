"""The cells that a score is about: those of the tensor that was fitted, and not those that it was fitted to.

A tensor as a test set has all its observed cells, zeros included. The log predictive probability of a zero is the log
of a mean over draws, which does not factorise over modes, so the zeros must be visited. They are made in blocks, among
the rows that are observed at all, and tensors with too many cells are refused.
"""

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from allocore.data.cameo import respelt
from allocore.data.coordinates import as_integers, check_coordinates, column_keys, locate
from allocore.data.holdout import HeldOut
from allocore.data.missing import covered
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.kernels.arrays import Ints
from allocore.posterior.named_cells import cells_with_counts, is_frame

# A minute or two with Q = 100, 100 draws and two processors.
MOST_CELLS = 10_000_000
_CELLS_AT_ONCE = 1_000_000


class CellCounts(Protocol):
    """Anything with coordinates (M, n) and counts (n): a held-out set, a tensor."""

    @property
    def coords(self) -> NDArray[Any]:
        """Coordinates (M, n)."""

    @property
    def counts(self) -> NDArray[Any]:
        """Counts (n,)."""


def check_has_cells(test: object, argument: str) -> None:
    """Raise an error unless `test` has coordinates and counts."""
    if not (hasattr(test, "coords") and hasattr(test, "counts")):
        hint = ": pass split.test" if hasattr(test, "test") else ""
        raise InputError(f"{argument} is a {type(test).__name__}, but it must have coords and counts{hint}")


def check_same_tensor(given: object, fitted: CountTensor, argument: str) -> None:
    """Raise an error at the first difference in shape, mode names or labels, as far as `given` knows them.

    A mode that has no name or no labels on one side agrees with any on the other.
    """
    shape = getattr(given, "shape", None)
    if shape is None:
        return
    if tuple(shape) != fitted.shape:
        raise InputError(
            f"{argument} has shape {tuple(shape)}, but it must have the shape of the fitted tensor, {fitted.shape}"
            f"{_first_length(tuple(shape), fitted)}"
        )
    for m, (own, other) in enumerate(zip(fitted.mode_names, getattr(given, "mode_names", None) or (), strict=False)):
        if own != other and f"mode_{m}" not in (own, other):
            raise InputError(f"{argument} has the mode {other!r} where the fitted tensor has {own!r}: they must agree")
    for name, mine, theirs in zip(fitted.mode_names, fitted.labels, getattr(given, "labels", None) or (), strict=False):
        if isinstance(mine, range) or isinstance(theirs, range) or mine == theirs:
            continue
        if mine != respelt(theirs, mine):
            place = next(d for d, labels in enumerate(zip(mine, theirs, strict=True)) if labels[0] != labels[1])
            raise InputError(
                f"{argument} has different labels in mode {name}: {theirs[place]!r} at position {place}, where the "
                f"fitted tensor has {mine[place]!r}; they must be equal"
            )


def _first_length(shape: tuple[int, ...], fitted: CountTensor) -> str:
    if len(shape) != fitted.ndim:
        return ""
    m = next(m for m, lengths in enumerate(zip(shape, fitted.shape, strict=True)) if lengths[0] != lengths[1])
    return f"; the first difference is in mode {fitted.mode_names[m]}, {shape[m]} labels instead of {fitted.shape[m]}"


def refuse_training_cells(coords_MN: Ints, fitted: CountTensor) -> None:
    """Raise an error if a cell of the test set was observed in training."""
    seen = np.flatnonzero(~covered(coords_MN, fitted.missing))
    if len(seen):
        first = coords_MN[:, seen[0]].tolist()
        told = ", ".join(str(labels[d]) for labels, d in zip(fitted.labels, first, strict=True))
        _refuse_training(len(seen), f"of its {coords_MN.shape[1]:,} cells, the first is ({told})")


def refuse_training_tensor(test: CountTensor, fitted: CountTensor) -> None:
    """Raise an error if a cell is observed in both tensors. Cells are counted by patterns, none is visited."""
    shared = fitted.volume - test.missing.union(fitted.missing).cells
    if shared:
        _refuse_training(shared, f"of its {test.volume - test.missing.cells:,} observed cells")


def _refuse_training(number: int, words: str) -> None:
    raise InputError(
        f"test has cells that the model was fitted to: {number:,} {words}; score cells that were missing in training "
        "(ac.hold_out), or pass allow_training=True"
    )


def cells_to_score(test: object, fitted: CountTensor, allow_training: bool) -> HeldOut:
    """The cells of a test set with their counts, zeros included, after a check that they may be scored."""
    if isinstance(test, CountTensor):
        check_same_tensor(test, fitted, "test")
        if not allow_training:
            refuse_training_tensor(test, fitted)
        coords_MN, counts_N = (np.concatenate(each, axis=-1) for each in zip(*observed_cells(test), strict=True))
        return HeldOut(coords_MN, counts_N)
    if is_frame(test):
        test = cells_with_counts(test, fitted)
    check_has_cells(test, "test")
    check_same_tensor(test, fitted, "test")
    coords, counts = as_integers(test.coords, "coords"), as_integers(test.counts, "counts")  # type: ignore[attr-defined]
    check_coordinates(coords, fitted.shape, fitted.mode_names)
    coords_MN, counts_N = coords.astype(np.int64), counts.astype(np.int64)
    if counts_N.shape != coords_MN.shape[1:] or not counts_N.size or (counts_N < 0).any():
        raise InputError(
            f"test has counts of shape {counts_N.shape} and least value {counts_N.min(initial=0)} for "
            f"{coords_MN.shape[1]} cells, but it must have cells, and a count of at least 0 for each"
        )
    if not allow_training:
        refuse_training_cells(coords_MN, fitted)
    return HeldOut(coords_MN, counts_N, along=getattr(test, "along", None))


def observed_cells(test: CountTensor) -> Iterator[tuple[Ints, Ints]]:
    """All observed cells of a tensor with their counts, zeros included, in blocks."""
    rows = [np.flatnonzero(test.missing.observed_rows(mode)) for mode in range(test.ndim)]
    lengths = tuple(map(len, rows))
    number = math.prod(lengths)
    if number > MOST_CELLS:
        raise InputError(
            f"test is a tensor of {number:,} cells, but at most {MOST_CELLS:,} can be scored, zeros included: hold out "
            "some of them with ac.hold_out and pass split.test"
        )
    for start in range(0, number, _CELLS_AT_ONCE):
        places = np.unravel_index(np.arange(start, min(start + _CELLS_AT_ONCE, number)), lengths)
        coords_MN = np.array([each[place] for each, place in zip(rows, places, strict=True)])
        coords_MN = coords_MN[:, ~covered(coords_MN, test.missing)]
        yield coords_MN, _counts_at(coords_MN, test)


def _counts_at(coords_MN: Ints, test: CountTensor) -> Ints:
    keys_N, known = column_keys(test.shape, coords_MN, test.coords)
    place_N = locate(keys_N, known)
    return np.where(place_N < 0, 0, test.counts[place_N])

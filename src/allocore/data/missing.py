"""Missing cells, kept as patterns: a coordinate per mode, or a wildcard that stands for all of that mode.

The set is the union of its patterns, which may overlap. Sums over the missing cells need each cell once, so
the indicator of the union is also given as a signed sum of patterns, by inclusion and exclusion one *kind* at
a time:

    1[U or B] = 1[U] + 1[B] - 1[U] 1[B]

where B holds the patterns of one kind, those that fix the same modes (distinct patterns of a kind are
disjoint), and the intersections of U and B come from a join on the modes that both fix.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import (
    Int64s,
    as_integers,
    check_coordinates,
    check_shape,
    column_keys,
    locate,
    read_only,
    run_starts,
)
from allocore.errors import InputError

WILDCARD = -1
MAX_SIGNED_PATTERNS = 20_000_000


class Missing:
    """An immutable set of missing cells.

    Parameters
    ----------
    patterns
        Integer array (P, M) in which -1 is the wildcard, or rows of int or None (wildcard). Duplicates and
        patterns that lie inside another one are removed; the rest is sorted.
    shape
        Lengths of the modes.

    Examples
    --------
    >>> from allocore.data.missing import Missing
    >>> missing = Missing([(0, 0, None), (1, 1, None), (0, 0, 2)], shape=(2, 2, 5))
    >>> missing
    Missing: 2 patterns, 10 of 20 cells
    >>> list(missing)
    [(0, 0, None), (1, 1, None)]
    >>> missing.contains([[0, 0], [0, 1], [4, 4]])
    array([ True, False])
    """

    __slots__ = ("_cells", "_patterns", "_shape", "_signed")

    def __init__(self, patterns: object, shape: Sequence[int]) -> None:
        self._shape = check_shape(shape)
        self._patterns = read_only(_canonical(_as_rows(patterns, self._shape), self._shape))
        self._signed: tuple[Int64s, Int64s] | None = None
        self._cells: int | None = None

    @classmethod
    def none(cls, shape: Sequence[int]) -> Missing:
        """Return the empty set for a tensor of this shape."""
        return cls([], shape)

    @property
    def patterns(self) -> Int64s:
        """The patterns, int64 (P, M), sorted, -1 for a wildcard; read-only."""
        return self._patterns

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the modes."""
        return self._shape

    @property
    def signed(self) -> tuple[Int64s, Int64s]:
        """Patterns (S, M) and weights (S,) that add up to 1 on every missing cell and to 0 on the others."""
        if self._signed is None:
            rows, weights = _signed(self._patterns, self._shape)
            self._signed = read_only(rows), read_only(weights)
        return self._signed

    @property
    def cells(self) -> int:
        """The exact number of missing cells."""
        if self._cells is None:
            rows, weights = self.signed
            self._cells = sum(
                int(weights[members].sum())
                * math.prod(length for m, length in enumerate(self._shape) if m not in modes)
                for modes, members in _by_kind(rows)
            )
        return self._cells

    def contains(self, coords: object) -> NDArray[np.bool_]:
        """Return for each column of `coords` (M, n) whether that cell is missing."""
        array = as_integers(coords, "coords")
        check_coordinates(array, self._shape)
        return _covered(array, self._patterns, self._shape)

    def observed_rows(self, mode: int) -> NDArray[np.bool_]:
        """Return for each row of a mode whether it is observed: no pattern takes it out as a whole."""
        whole = (self._patterns != WILDCARD).sum(axis=1) == 1
        observed = np.ones(self._shape[mode], dtype=bool)
        rows = self._patterns[whole, mode]
        observed[rows[rows != WILDCARD]] = False
        return observed

    def union(self, other: Missing) -> Missing:
        """Return the cells that are missing in either set."""
        if other.shape != self._shape:
            raise InputError(f"missing cells of shape {other.shape} do not fit a tensor of shape {self._shape}")
        return Missing(np.concatenate([self._patterns, other.patterns]), self._shape)

    def __len__(self) -> int:
        return len(self._patterns)

    def __iter__(self) -> Iterator[tuple[int | None, ...]]:
        for row in self._patterns.tolist():
            yield tuple(None if value == WILDCARD else value for value in row)

    # Defining __eq__ alone makes the class unhashable, which is meant: it is compared by content.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Missing):
            return NotImplemented
        return self._shape == other.shape and np.array_equal(self._patterns, other.patterns)

    def __reduce__(self) -> tuple[Any, ...]:
        return Missing, (self._patterns, self._shape)

    def __repr__(self) -> str:
        noun = "pattern" if len(self) == 1 else "patterns"
        return f"Missing: {len(self):,} {noun}, {self.cells:,} of {math.prod(self._shape):,} cells"


def _as_rows(patterns: object, shape: tuple[int, ...]) -> Int64s:
    if isinstance(patterns, Missing):
        patterns = patterns.patterns
    if not isinstance(patterns, np.ndarray):
        patterns = [_as_row(pattern, len(shape)) for pattern in _iterate(patterns)]
    rows = as_integers(patterns, "patterns").astype(np.int64)
    if rows.size == 0:
        return np.zeros((0, len(shape)), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != len(shape):
        raise InputError(f"patterns must have shape (patterns, {len(shape)}); got shape {rows.shape}")
    for m, (column, length) in enumerate(zip(rows.T, shape, strict=True)):
        bad = column[(column < WILDCARD) | (column >= length)]
        if bad.size:
            raise InputError(f"patterns has {bad[0]} in mode {m}; it must lie in 0..{length - 1} or be a wildcard")
    return rows


def _iterate(patterns: object) -> Iterator[object]:
    try:
        return iter(patterns)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise InputError(f"patterns must be a list of patterns; got {patterns!r}") from None


def _as_row(pattern: object, modes: int) -> list[object]:
    if isinstance(pattern, str) or not isinstance(pattern, Sequence | np.ndarray) or len(pattern) != modes:
        raise InputError(
            f"patterns must be a list whose entries have one int or None for each of the {modes} modes; "
            f"got the entry {pattern!r}"
        )
    return [WILDCARD if value is None else value for value in pattern]


def _canonical(rows: Int64s, shape: tuple[int, ...]) -> Int64s:
    """Sort the rows, and drop those that equal another or lie inside one."""
    (keys,) = column_keys([length + 1 for length in shape], rows.T + 1)
    order = np.argsort(keys, kind="stable")
    rows = rows[order[run_starts(keys[order])]]
    kinds = _by_kind(rows)
    keep = np.ones(len(rows), dtype=bool)
    for modes, members in kinds:
        for wider, others in kinds:
            if set(wider) < set(modes):
                keep[members] &= ~_matches(rows[members].T, rows[others], wider, shape)
    return rows[keep]


def _by_kind(rows: Int64s) -> list[tuple[tuple[int, ...], Int64s]]:
    """Group the patterns by the modes that they fix: (those modes, positions of the patterns)."""
    fixed = rows != WILDCARD
    (codes,) = column_keys([2] * rows.shape[1], fixed.T)
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return [(tuple(np.flatnonzero(fixed[row]).tolist()), np.flatnonzero(group == g)) for g, row in enumerate(first)]


def _matches(coords: NDArray[Any], rows: Int64s, modes: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which columns agree with one of the sorted `rows`, all of which fix exactly `modes`."""
    where = list(modes)
    table, query = column_keys([shape[m] for m in modes], rows[:, where].T, coords[where])
    return locate(query, table) >= 0


def _covered(coords: NDArray[Any], rows: Int64s, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    hit = np.zeros(coords.shape[1], dtype=bool)
    for modes, members in _by_kind(rows):
        hit |= _matches(coords, rows[members], modes, shape)
    return hit


def _signed(rows: Int64s, shape: tuple[int, ...]) -> tuple[Int64s, Int64s]:
    union, weights = rows[:0], np.zeros(0, dtype=np.int64)
    for modes, members in _by_kind(rows):
        block = rows[members]
        both, both_weights = _intersections(union, weights, block, modes, shape)
        union, weights = _merged(
            np.concatenate([union, block, both]),
            np.concatenate([weights, np.ones(len(block), dtype=np.int64), -both_weights]),
            shape,
        )
    return union, weights


def _merged(rows: Int64s, weights: Int64s, shape: tuple[int, ...]) -> tuple[Int64s, Int64s]:
    (keys,) = column_keys([length + 1 for length in shape], rows.T + 1)
    order = np.argsort(keys, kind="stable")
    first = run_starts(keys[order])
    rows, weights = rows[order[first]], np.add.reduceat(weights[order], first)
    return rows[weights != 0], weights[weights != 0]


def _intersections(
    union: Int64s, weights: Int64s, block: Int64s, block_modes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Int64s, Int64s]:
    """Return where patterns of `union` and of `block` intersect, with the weights of the former."""
    found, found_weights, size = [union[:0]], [weights[:0]], 0
    for modes, members in _by_kind(union):
        common = sorted(set(modes) & set(block_modes))
        left, right = column_keys([shape[m] for m in common], union[members][:, common].T, block[:, common].T)
        order = np.argsort(right, kind="stable")
        start = np.searchsorted(right[order], left, side="left")
        repeats = np.searchsorted(right[order], left, side="right") - start
        size += int(repeats.sum())
        if size > MAX_SIGNED_PATTERNS:
            raise InputError(
                f"missing patterns overlap too much: {len(members):,} patterns that fix modes {modes} meet "
                f"{len(block):,} that fix modes {block_modes} in {size:,} places, and at most "
                f"{MAX_SIGNED_PATTERNS:,} are allowed"
            )
        # The partners of each left pattern stand side by side in `order`, from `start` on.
        within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        partner = order[np.repeat(start, repeats) + within]
        pattern = np.repeat(members, repeats)
        # The wildcard is -1, and both agree where both are fixed: the maximum is the intersection.
        found.append(np.maximum(union[pattern], block[partner]))
        found_weights.append(weights[pattern])
    return np.concatenate(found), np.concatenate(found_weights)

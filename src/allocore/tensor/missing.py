"""Missing cells as patterns: for each mode a position, or a wildcard that stands for all positions.

The patterns may overlap. For sums over the missing cells, the indicator of their union U is also available as a signed
sum of patterns, built by inclusion and exclusion, one block B at a time: the patterns that fix the same modes, which
are disjoint. The intersections come from a join on the modes that both fix.

    1[U or B] = 1[U] + 1[B] - 1[U] 1[B]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore._text import plural
from allocore.errors import Described, InputError, in_brief, place_of
from allocore.tensor.coordinates import (
    NOTHING_TO_FIT,
    Int64s,
    Integers,
    as_integers,
    check_coordinates,
    check_shape,
    column_keys,
    locate,
    read_only,
    run_starts,
)

WILDCARD = -1
MAX_SIGNED_PATTERNS = 20_000_000


class Missing:
    """An immutable set of missing cells.

    Parameters
    ----------
    patterns : array of int, shape (P, M), or sequence of sequences
        A pattern has for each mode a position, or a wildcard that stands for all positions: -1 in an integer array,
        None in a sequence. Duplicates, and patterns inside other patterns, are removed; the rest is sorted.
    shape : sequence of int
        Lengths of the modes.

    Examples
    --------
    >>> import allocore as ac
    >>> missing = ac.Missing([(0, 0, None), (1, 1, None), (0, 0, 2)], shape=(2, 2, 5))
    >>> missing
    Missing: 2 patterns, 10 of 20 cells
    >>> list(missing)
    [(0, 0, None), (1, 1, None)]
    >>> missing.contains([[0, 0], [0, 1], [4, 4]])
    array([ True, False])
    """

    __slots__ = ("_cells", "_patterns", "_shape", "_signed")

    def __init__(self, patterns: object, shape: Sequence[int]) -> None:
        lengths = check_shape(shape)
        self._keep(_canonical(_as_rows(patterns, lengths), lengths), lengths)

    def _keep(self, patterns: Int64s, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._patterns = read_only(patterns)
        self._signed: tuple[Int64s, Int64s] | None = None
        self._cells: int | None = None

    @classmethod
    def _trusted(cls, patterns: Int64s, shape: tuple[int, ...]) -> Missing:
        missing = cls.__new__(cls)
        missing._keep(patterns, shape)
        return missing

    @classmethod
    def none(cls, shape: Sequence[int]) -> Missing:
        """Return the empty set for a tensor of this shape.

        Parameters
        ----------
        shape : sequence of int
            Lengths of the modes.

        Returns
        -------
        Missing

        Examples
        --------
        >>> import allocore as ac
        >>> ac.Missing.none((2, 3))
        Missing: 0 patterns, 0 of 6 cells
        """
        return cls([], shape)

    @property
    def patterns(self) -> Int64s:
        """The patterns: a sorted, read-only int64 array (P, M), with -1 for a wildcard."""
        return self._patterns

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the modes."""
        return self._shape

    @property
    def cells(self) -> int:
        """The number of missing cells; a cell in several patterns is counted once."""
        if self._cells is None:
            rows, weights = signed_patterns(self)
            self._cells = 0
            for modes, members in by_fixed_modes(rows):
                size = math.prod(length for m, length in enumerate(self._shape) if m not in modes)
                self._cells += int(weights[members].sum()) * size
        return self._cells

    def contains(self, coords: object) -> NDArray[np.bool_]:
        """Return which cells are missing.

        Parameters
        ----------
        coords : array-like of int, shape (M, n)
            Coordinates of cells, one column per cell.

        Returns
        -------
        ndarray of bool, shape (n,)

        Examples
        --------
        >>> import allocore as ac
        >>> ac.Missing([(0, None)], shape=(2, 3)).contains([[0, 1], [2, 2]])
        array([ True, False])
        """
        array = as_integers(coords, "coords")
        check_coordinates(array, self._shape)
        return covered(array, self)

    def observed_rows(self, mode: int) -> NDArray[np.bool_]:
        """Return which positions of a mode are observed: no single pattern covers the whole position.

        Parameters
        ----------
        mode : int
            The index of the mode.

        Returns
        -------
        ndarray of bool, shape (length of the mode,)
            False where a pattern fixes this position and no other mode.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.Missing([(0, None), (1, 2)], shape=(2, 3)).observed_rows(0)
        array([False,  True])
        """
        mode = place_of("mode", mode, len(self._shape))
        whole = (self._patterns != WILDCARD).sum(axis=1) == 1
        observed = np.ones(self._shape[mode], dtype=bool)
        rows = self._patterns[whole, mode]
        observed[rows[rows != WILDCARD]] = False
        return observed

    def has_diagonal(self, first: int, second: int) -> bool:
        """Return whether all cells with the same position in two modes of equal length are missing.

        Parameters
        ----------
        first, second : int
            The modes, by index.

        Returns
        -------
        bool

        Examples
        --------
        >>> import allocore as ac
        >>> ac.Missing([(0, 0, None), (1, None, None)], shape=(2, 2, 5)).has_diagonal(0, 1)
        True
        """
        first, second = place_of("first", first, len(self._shape)), place_of("second", second, len(self._shape))
        if first == second or self._shape[first] != self._shape[second]:
            raise InputError("second", second, f"must be another mode than {first}, of the same length")
        rows, weights = signed_patterns(self)
        length, rest = self._shape[first], math.prod(self._shape) // self._shape[first] // self._shape[second]
        found = 0
        for modes, members in by_fixed_modes(rows):
            if first in modes and second in modes:
                members = members[rows[members, first] == rows[members, second]]
            fixed = math.prod(self._shape[mode] for mode in modes if mode not in (first, second))
            size = rest // fixed * (1 if first in modes or second in modes else length)
            found += int(weights[members].sum()) * size
        return found == length * rest

    def union(self, other: Missing) -> Missing:
        """Return the cells that are missing in either set.

        Parameters
        ----------
        other : Missing
            A set for a tensor of the same shape.

        Returns
        -------
        Missing

        Examples
        --------
        >>> import allocore as ac
        >>> ac.Missing([(0, None)], shape=(2, 3)).union(ac.Missing([(None, 2)], shape=(2, 3)))
        Missing: 2 patterns, 4 of 6 cells
        """
        if not isinstance(other, Missing):
            raise InputError("other", other, "must be missing cells, such as the `missing` of a tensor")
        if other.shape != self._shape:
            raise InputError("other", Described(f"for shape {other.shape}"), f"must be for shape {self._shape}")
        if len(self) == 0 or len(other) == 0:
            return other if len(self) == 0 else self
        return Missing(np.concatenate([self._patterns, other.patterns]), self._shape)

    def __len__(self) -> int:
        return len(self._patterns)

    def __iter__(self) -> Iterator[tuple[int | None, ...]]:
        for row in self._patterns.tolist():
            yield tuple(None if value == WILDCARD else value for value in row)

    # Defining only __eq__ makes the class unhashable, as intended: sets are compared by content.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Missing):
            return NotImplemented
        return self._shape == other.shape and np.array_equal(self._patterns, other.patterns)

    def __reduce__(self) -> tuple[Any, ...]:
        return Missing._trusted, (self._patterns, self._shape)

    def __repr__(self) -> str:
        return f"Missing: {plural(len(self), 'pattern')}, {self.cells:,} of {math.prod(self._shape):,} cells"


def _as_rows(patterns: object, shape: tuple[int, ...]) -> Int64s:
    if isinstance(patterns, Missing):
        patterns = patterns.patterns
    if not isinstance(patterns, np.ndarray):
        if not isinstance(patterns, Iterable):
            raise InputError("patterns", patterns, "must be a list of patterns")
        patterns = [_as_row(pattern, len(shape)) for pattern in patterns]
    rows = as_integers(patterns, "patterns").astype(np.int64)
    if rows.size == 0:
        return np.zeros((0, len(shape)), dtype=np.int64)
    if rows.ndim != 2 or rows.shape[1] != len(shape):
        given = Described(f"an array of shape {rows.shape}")
        raise InputError("patterns", given, f"must have shape (patterns, {len(shape)})")
    for m, (column, length) in enumerate(zip(rows.T, shape, strict=True)):
        bad = column[(column < WILDCARD) | (column >= length)]
        if bad.size:
            given = Described(f"{bad[0]} in mode {m}")
            raise InputError("patterns", given, f"must be from 0 to {length - 1}, or a wildcard")
    return rows


def _as_row(pattern: object, modes: int) -> list[object]:
    if isinstance(pattern, str) or not isinstance(pattern, Sequence | np.ndarray) or len(pattern) != modes:
        rule = f"must be a list whose entries have one int or None for each of the {modes} modes"
        raise InputError("patterns", Described(f"a list with the entry {in_brief(pattern)}"), rule)
    return [WILDCARD if value is None else value for value in pattern]


def _canonical(rows: Int64s, shape: tuple[int, ...]) -> Int64s:
    """Sort the rows, and drop those that equal another or lie inside one."""
    order, first = _sorted_runs(rows, shape)
    rows = rows[order[first]]
    groups = by_fixed_modes(rows)
    keep = np.ones(len(rows), dtype=bool)
    for modes, members in groups:
        for wider, others in groups:
            if set(wider) < set(modes):
                keep[members] &= ~_matches(rows[members].T, rows[others], wider, shape)
    return rows[keep]


def by_fixed_modes(rows: Int64s) -> list[tuple[tuple[int, ...], Int64s]]:
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


def covered(coords: NDArray[Any], missing: Missing) -> NDArray[np.bool_]:
    """Return which of some cells, known to lie inside the shape, are missing."""
    hit = np.zeros(coords.shape[1], dtype=bool)
    for modes, members in by_fixed_modes(missing.patterns):
        hit |= _matches(coords, missing.patterns[members], modes, missing.shape)
    return hit


def drop_missing(coords: Integers, counts: Int64s, new: Missing, missing: Missing) -> tuple[Integers, Int64s]:
    """Return the entries outside the `new` cells of `missing`; entries in its other cells were dropped before."""
    observed = np.flatnonzero(~covered(coords, new))
    if observed.size == 0:
        raise nothing_left(counts.size, missing)
    if observed.size < counts.size:
        return coords.take(observed, axis=1), counts[observed]
    return coords, counts


def nothing_left(nonzeros: int, missing: Missing) -> InputError:
    """Return the error for a tensor all of whose non-zeros are missing."""
    all_missing = missing.cells == math.prod(missing.shape)
    reason = "all cells are missing" if all_missing else f"all {nonzeros:,} non-zeros lie in missing cells"
    return InputError("counts", rule=f"{NOTHING_TO_FIT}, because {reason}")


def signed_patterns(missing: Missing) -> tuple[Int64s, Int64s]:
    """Return patterns (S, M) and weights (S,) whose signed sum is 1 on every missing cell and 0 on all others."""
    if missing._signed is None:
        patterns, shape = missing.patterns, missing.shape
        union, weights = patterns[:0], np.zeros(0, dtype=np.int64)
        for modes, members in by_fixed_modes(patterns):
            block = patterns[members]
            both, both_weights = intersections(union, weights, block, modes, shape)
            rows = np.concatenate([union, block, both])
            signs = np.concatenate([weights, np.ones(len(block), dtype=np.int64), -both_weights])
            order, first = _sorted_runs(rows, shape)
            weights = np.add.reduceat(signs[order], first)
            union, weights = rows[order[first]][weights != 0], weights[weights != 0]
        missing._signed = read_only(union), read_only(weights)
    return missing._signed


def _sorted_runs(rows: Int64s, shape: tuple[int, ...]) -> tuple[Int64s, Int64s]:
    """Return the order that sorts the rows, and where in it a new row begins."""
    (keys,) = column_keys([length + 1 for length in shape], rows.T + 1)
    order = np.argsort(keys, kind="stable")
    return order, run_starts(keys[order])


def intersections(
    union: Int64s, weights: Int64s, block: Int64s, block_modes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Int64s, Int64s]:
    """Return where patterns of `union` and of `block` intersect, with the weights of the former."""
    found, found_weights, size = [union[:0]], [weights[:0]], 0
    for modes, members in by_fixed_modes(union):
        common = sorted(set(modes) & set(block_modes))
        left, right = column_keys([shape[m] for m in common], union[members][:, common].T, block[:, common].T)
        order = np.argsort(right, kind="stable")
        start = np.searchsorted(right[order], left, side="left")
        repeats = np.searchsorted(right[order], left, side="right") - start
        size += int(repeats.sum())
        if size > MAX_SIGNED_PATTERNS:
            given = f"{len(members):,} that fix modes {modes} and {len(block):,} that fix modes {block_modes}"
            rule = f"must overlap less: these meet in {size:,} places, and at most {MAX_SIGNED_PATTERNS:,} are allowed"
            raise InputError("patterns", Described(given), rule)
        # The partners of each left pattern are next to one another in `order`, from `start` on.
        within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        partner = order[np.repeat(start, repeats) + within]
        pattern = np.repeat(members, repeats)
        # The wildcard is -1, and both agree where both are fixed: the maximum is the intersection.
        found.append(np.maximum(union[pattern], block[partner]))
        found_weights.append(weights[pattern])
    return np.concatenate(found), np.concatenate(found_weights)

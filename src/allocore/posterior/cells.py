"""Cells and sums of cells: as users name them, as rates draw by draw, and as test sets.

A *box* has for each mode a position or a set of positions. With the sums of phi over its sets as further rows of the
factors, a box is a cell, and the sum of its rates is the rate of that cell:

    sum_{d in box} r_d  =  sum_q lambda_q prod_m ( sum_{d in set m} phi[m][d, k[q, m]] )

So no cell of a sum is visited. A box and a missing pattern intersect in a box, so the sum over the observed cells of a
box is a signed sum of the rates of boxes, as in kernels/exposure_sums.py. If ties are undirected, the pairs between
the nodes of two sets A and B are the directed cells in A x B or B x A: the boxes of both, minus that of the nodes C in
both sets, C x C.

A sum of independent counts is again Poisson, or again negative binomial with one p: rates add up. Other sums are made
of *terms* whose rates do add up: one for each row of the mode that the dispersion differs by, or one for each cell
under the Bernoulli likelihood, for which nothing else is exact.

Users name boxes by frames, dicts and tuples of labels, or coordinates. A mode that is not named, or None, is summed
over, and so are lists and slices of labels, and longer periods such as a year of months, as `Y.select` takes them.

A tensor as a test set has all its observed cells. The log predictive probability of a zero is the log of a mean over
draws, which does not factorise over modes, so the zeros must be visited too.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore._text import plural
from allocore.errors import NO_VALUE, Described, InputError
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.exposure_sums import (
    Expanded,
    RowScale,
    SignedPatterns,
    expand_factors,
    rates_in_table,
    row_offsets,
    rows_of_cells,
    scaled_sums,
)
from allocore.kernels.workers import Workers
from allocore.model.likelihood import odds_of
from allocore.storage.record import Record
from allocore.tensor.cameo import respelt
from allocore.tensor.coordinates import as_integers, check_coordinates, column_keys, locate
from allocore.tensor.count_tensor import CountTensor, cells_of, count_column
from allocore.tensor.holdout import HeldOut
from allocore.tensor.labels import LabelRows, ModeLabels, Rows, did_you_mean, rows_of
from allocore.tensor.missing import Missing, covered, signed_patterns
from allocore.tensor.undirected import Pair, as_pairs, diagonal, mirrored

MOST_BERNOULLI_CELLS = 1_000_000
MOST_PIECES = 20_000_000
MOST_CELLS = 10_000_000  # a minute or two with Q = 100, 100 draws and two processors
_CELLS_AT_ONCE = 1_000_000
_MOST_NUMBERS = 30_000_000  # of the expanded factors of all draws, if they are to stay in memory
DrawTables: TypeAlias = Callable[[int], tuple[Floats, Floats]]


class Boxes(NamedTuple):
    """N boxes: for each mode a position, or the length of the mode plus the number of one of its sets."""

    places_MN: Ints
    sets: tuple[tuple[Ints, ...], ...]
    shape: tuple[int, ...]
    common_N: Ints | None = None  # undirected ties: the place of the nodes in both sets, -1 if there are none

    def taken(self, which: Any) -> "Boxes":
        """Return some of the boxes."""
        common_N = None if self.common_N is None else self.common_N[which]
        return self._replace(places_MN=self.places_MN[:, which], common_N=common_N)

    @property
    def summed_N(self) -> Flags:
        """Which boxes have a set in some mode: sums, not cells."""
        return np.asarray((self.places_MN >= np.array(self.shape)[:, None]).any(axis=0))

    def sizes(self, mode: int) -> Ints:
        """Return the number of positions for each row of a mode's extended factors: ones, then those of the sets."""
        return np.array([1] * self.shape[mode] + [len(each) for each in self.sets[mode]])


class Terms(NamedTuple):
    """Terms of boxes: term t belongs to box `owner_T[t]`, and its rate is the signed sum of the rates of its pieces."""

    owner_T: Ints
    odds_row_T: Ints
    pieces_MJ: Ints
    weights_J: Floats
    starts_T: Ints

    def added_up(self, values_T: Ints | Floats, boxes: int) -> Floats:
        """Return the sums of values over the terms of each box; counts below 2^53 stay exact."""
        if len(self.owner_T) == boxes:
            return np.asarray(values_T, dtype=np.float64)
        return np.asarray(np.bincount(self.owner_T, values_T, boxes))


def number_of_terms(record: Record, boxes: Boxes) -> Floats:
    """Return how many terms each box has, before missing cells are left out."""
    number_N = np.ones(boxes.places_MN.shape[1])
    for mode in _split_modes(record):
        number_N *= boxes.sizes(mode)[boxes.places_MN[mode]]
    return number_N


def terms_of(record: Record, boxes: Boxes, first: int, missing: bool) -> Terms:
    """Return the terms of boxes; sums leave out missing cells unless `missing`. `first` numbers boxes in errors."""
    by = record.spec.dispersion_by
    places_MT, owner_T = boxes.places_MN, np.arange(boxes.places_MN.shape[1])
    for mode in _split_modes(record):
        places_MT, owner_T = _split(places_MT, owner_T, boxes, mode)
    none, pair = Missing.none(boxes.shape), record.tensor.undirected_modes
    never = none if pair is None else diagonal(boxes.shape, pair)
    left_out = never if missing else record.tensor.missing
    summed_T = boxes.summed_N[owner_T]
    common_T = None if boxes.common_N is None else boxes.common_N[owner_T]
    if record.spec.likelihood == "bernoulli":
        gone_T = np.zeros(len(owner_T), dtype=bool)
        gone_T[summed_T] = covered(places_MT[:, summed_T], left_out)
        if pair is not None:
            places_MT = as_pairs(places_MT, pair)
            gone_T |= _repeated(places_MT, owner_T, boxes.shape)
            common_T = np.full(len(owner_T), -1)  # of single cells
        places_MT, owner_T, summed_T, left_out = places_MT[:, ~gone_T], owner_T[~gone_T], summed_T[~gone_T], none
        common_T = None if common_T is None else common_T[~gone_T]
    signed = SignedBoxes(places_MT, np.ones(len(owner_T)), np.arange(len(owner_T)), summed_T)
    if pair is not None and common_T is not None:
        signed = _of_both_directions(signed, common_T, pair)
    pieces_MJ, weights_J, term_J = _pieces(signed, boxes, left_out)
    cells_J = np.prod([boxes.sizes(m)[row_J].astype(float) for m, row_J in enumerate(pieces_MJ)], axis=0)
    empty_N = np.bincount(owner_T[term_J], weights_J * cells_J, boxes.places_MN.shape[1]) < 0.5
    if empty_N.any():
        rule = f"must have an observed cell in every sum, but position {first + int(empty_N.argmax())} has none"
        raise InputError("cells", NO_VALUE, f"{rule}; set `missing` to sum missing cells")
    odds_row_T = np.zeros(len(owner_T), dtype=np.int64) if by is None else places_MT[by]
    return Terms(owner_T, odds_row_T, pieces_MJ, weights_J, np.searchsorted(term_J, np.arange(len(owner_T))))


def draw_tables(record: Record, boxes: Boxes, places: Sequence[tuple[int, ...]]) -> DrawTables:
    """Return a function that gives the core values and the expanded factors of the draw at each of some places.

    The rows are those of each mode, and the sums over its sets. If all draws take little memory, each is made once.
    """

    def table(s: int) -> tuple[Floats, Floats]:
        factors = list[Floats]()
        for draws, sets in zip(record.factors, boxes.sets, strict=True):
            factor_DK = draws[places[s]]
            factors.append(np.concatenate([factor_DK, *(factor_DK[rows].sum(axis=0)[None, :] for rows in sets)]))
        core_Q, subs_QM = record.core_values[places[s]], record.core_locations[places[s]]
        return core_Q.copy(), expand_factors(factors, subs_QM)  # a draw is read-only: another type for numba

    numbers = sum(_lengths(boxes)) * record.core_values.shape[2] * len(places)
    return cache(table) if numbers <= _MOST_NUMBERS else table


def rows_of_terms(boxes: Boxes, terms: Terms) -> Ints:
    """Return the rows of the pieces of terms in the table of a draw, (M, J)."""
    return rows_of_cells(_lengths(boxes), terms.pieces_MJ)


def _lengths(boxes: Boxes) -> list[int]:
    """The rows of each mode in the table of a draw: its positions, and its sets."""
    return [length + len(sets) for length, sets in zip(boxes.shape, boxes.sets, strict=True)]


def term_rates(boxes: Boxes, terms: Terms, tables: DrawTables, draws: Iterable[int], threads: int) -> Iterator[Floats]:
    """Return the rates of the terms in some draws, each given by its place."""
    rows_MJ = rows_of_terms(boxes, terms)
    with Workers(threads) as workers:
        for s in draws:
            rates_J = rates_in_table(*tables(s), rows_MJ, workers)
            if len(rates_J) != len(terms.owner_T):
                # Rounding may leave a difference slightly below zero.
                rates_J = np.maximum(np.add.reduceat(terms.weights_J * rates_J, terms.starts_T), 0.0)
            yield rates_J


def _split_modes(record: Record) -> list[int]:
    if record.spec.likelihood == "bernoulli":
        return list(range(record.tensor.ndim))
    return [] if record.spec.dispersion_by is None else [record.spec.dispersion_by]


def _split(places_MT: Ints, owner_T: Ints, boxes: Boxes, mode: int) -> tuple[Ints, Ints]:
    """Split boxes at every position of their sets in one mode."""
    sizes, column_T = boxes.sizes(mode), places_MT[mode]
    members = np.concatenate([np.arange(boxes.shape[mode]), *boxes.sets[mode]])
    begins, repeats_T = np.cumsum(sizes) - sizes, sizes[column_T]
    within = np.arange(repeats_T.sum()) - np.repeat(np.cumsum(repeats_T) - repeats_T, repeats_T)
    split_MT = np.repeat(places_MT, repeats_T, axis=1)
    split_MT[mode] = members[np.repeat(begins[column_T], repeats_T) + within]
    return split_MT, np.repeat(owner_T, repeats_T)


class SignedBoxes(NamedTuple):
    """Boxes (M, B) whose signed sums are those of terms; missing cells are left out of those that are `summed`."""

    places_MB: Ints
    weights_B: Floats
    term_B: Ints
    summed_B: Flags


def _of_both_directions(given: SignedBoxes, common_B: Ints, pair: Pair) -> SignedBoxes:
    """The boxes of undirected ties as boxes of directed ones: in both directions, minus what is in both of them."""
    some = np.flatnonzero(common_B >= 0)
    common_MS = given.places_MB[:, some]
    common_MS[list(pair)] = common_B[some]
    places = [given.places_MB, mirrored(given.places_MB, pair), common_MS]
    weights = [given.weights_B, given.weights_B, -given.weights_B[some]]
    term_B, summed_B = (np.concatenate([each, each, each[some]]) for each in (given.term_B, given.summed_B))
    return SignedBoxes(np.concatenate(places, axis=1), np.concatenate(weights), term_B, summed_B > 0)


def _repeated(places_MT: Ints, owner_T: Ints, shape: tuple[int, ...]) -> Flags:
    """Which cells their box has already."""
    (keys_T,) = column_keys((int(owner_T.max(initial=0)) + 1, *shape), np.vstack([owner_T, places_MT]))
    repeated_T = np.ones(len(owner_T), dtype=bool)
    repeated_T[np.unique(keys_T, return_index=True)[1]] = False
    return repeated_T


def _pieces(given: SignedBoxes, boxes: Boxes, missing: Missing) -> tuple[Ints, Floats, Ints]:
    """Boxes (M, J) with weights whose signed sums are the observed cells of each term, and their terms, sorted."""
    places_MB, weights_B, term_B, summed_B = given
    found = [(places_MB, weights_B, term_B)]
    if len(missing) and summed_B.any():
        patterns_PM, signs_P = signed_patterns(missing)
        sums_MU, sums_U = places_MB[:, summed_B], np.flatnonzero(summed_B)
        for members_P in _alike((patterns_PM >= 0).T):
            for chosen_U in _alike(sums_MU >= np.array(boxes.shape)[:, None]):
                box_I, pattern_I = _meetings(sums_MU[:, chosen_U], patterns_PM[members_P], boxes)
                pattern_MI, box_MI = patterns_PM[members_P[pattern_I]].T, sums_MU[:, chosen_U[box_I]]
                of_I = sums_U[chosen_U[box_I]]
                signs_I = -signs_P[members_P[pattern_I]] * weights_B[of_I]
                found.append((np.where(pattern_MI >= 0, pattern_MI, box_MI), signs_I, term_B[of_I]))
    pieces_MJ, weights_J, term_J = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    order = np.argsort(term_J, kind="stable")
    return pieces_MJ[:, order], weights_J[order], term_J[order]


def _alike(flags_MN: Flags) -> list[Ints]:
    """Where the columns are that equal one another, for each different column."""
    _, group_N = np.unique(flags_MN, axis=1, return_inverse=True)
    return [np.flatnonzero(group_N.ravel() == group) for group in range(int(group_N.max(initial=-1)) + 1)]


def _meetings(boxes_MU: Ints, patterns_PM: Ints, boxes: Boxes) -> tuple[Ints, Ints]:
    """The pairs of boxes and patterns that intersect. All boxes have sets in the same modes, all patterns wildcards."""
    fixed_M, has_set_M = patterns_PM[0] >= 0, boxes_MU[:, 0] >= np.array(boxes.shape)
    both = np.flatnonzero(fixed_M & ~has_set_M).tolist()
    left_U, right_P = column_keys([boxes.shape[m] for m in both], boxes_MU[both], patterns_PM[:, both].T)
    order_P = np.argsort(right_P, kind="stable")
    start_U = np.searchsorted(right_P[order_P], left_U, side="left")
    repeats_U = np.searchsorted(right_P[order_P], left_U, side="right") - start_U
    if repeats_U.sum() > MOST_PIECES:
        sums = Described(f"sums that meet missing patterns in {repeats_U.sum():,} places")
        rule = f"must meet them in at most {MOST_PIECES:,}: ask for fewer sums at once, or set `missing`"
        raise InputError("cells", sums, rule)
    box_I = np.repeat(np.arange(len(left_U)), repeats_U)
    within_I = np.arange(len(box_I)) - np.repeat(np.cumsum(repeats_U) - repeats_U, repeats_U)
    pattern_I = order_P[np.repeat(start_U, repeats_U) + within_I]
    # Where a box has a set, the position of the pattern must be in it.
    inside_I = np.ones(len(box_I), dtype=bool)
    for m in np.flatnonzero(fixed_M & has_set_M).tolist():
        length = boxes.shape[m]
        members = np.concatenate([number * length + rows for number, rows in enumerate(boxes.sets[m])])
        inside_I &= locate((boxes_MU[m, box_I] - length) * length + patterns_PM[pattern_I, m], members) >= 0
    return box_I[inside_I], pattern_I[inside_I]


_HOW = "a data frame with a column of labels for each mode, a list of dicts or tuples of labels, or an array of ints"


def named_cells(cells: object, tensor: CountTensor) -> tuple[Boxes, pd.DataFrame]:
    """Return the boxes that `cells` names, and a frame with a row for each."""
    if isinstance(cells, Mapping | tuple):
        cells = [cells]
    return _from_rows(cells, tensor) if isinstance(cells, list) else _from_frame(cells, tensor)


def boxes_of_cells(coords_MN: Ints, tensor: CountTensor) -> tuple[Boxes, pd.DataFrame]:
    """Return cells, given by coordinates, as boxes, and a frame with their labels."""
    columns: dict[str, Any] = {}
    for name, labels, places in zip(tensor.mode_names, tensor.labels, coords_MN, strict=True):
        columns[name] = places if isinstance(labels, range) else np.array(labels, dtype=object)[places]
    common_N = None if tensor.undirected_modes is None else np.full(coords_MN.shape[1], -1)
    return Boxes(coords_MN, ((),) * tensor.ndim, tensor.shape, common_N), pd.DataFrame(columns)


def _cells_with_counts(given: Any, tensor: CountTensor) -> HeldOut:
    boxes, asked = named_cells(given, tensor)
    name = count_column(tensor.mode_names)
    if name not in asked.columns:
        columns = Described(f"a table with the columns {', '.join(map(str, asked.columns))}")
        raise InputError("test", columns, f"must have a column {name!r} with the count of each cell")
    if boxes.summed_N.any():
        row = int(boxes.summed_N.argmax())
        raise InputError("test", NO_VALUE, f"must name a label for each mode in every row; position {row} does not")
    cells_MN = cells_of(tensor, boxes.places_MN)
    (keys_N,) = column_keys(tensor.shape, cells_MN)
    _, first = np.unique(keys_N, return_index=True)
    if len(first) < len(keys_N):
        row = int(np.setdiff1d(np.arange(len(keys_N)), first)[0])
        raise InputError("test", NO_VALUE, f"must have each cell once; that of position {row} is there twice")
    numbers = pd.to_numeric(asked[name], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    bad = ~((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < 2.0**53))
    if bad.any():
        row = int(bad.argmax())
        found = Described(f"{asked[name].iloc[row]!r} in the column {name!r} at position {row}")
        raise InputError("test", found, "must have counts that are whole numbers of at least 0")
    return HeldOut(cells_MN, numbers.astype(np.int64))


class _Mode:
    """The labels of one mode, and the sets of them that were asked for; set 0 is all of them."""

    def __init__(self, name: str, labels: ModeLabels, like: "_Mode | None" = None) -> None:
        self.name, self.length = name, len(labels)
        self._labels = labels
        self._found = None if isinstance(labels, range) else LabelRows(labels, "cells", name)
        # Both ends of undirected ties have the same sets.
        self._sets: dict[tuple[int, ...], int] = {tuple(range(self.length)): 0} if like is None else like._sets

    @property
    def sets(self) -> tuple[Ints, ...]:
        """The sets as positions."""
        return tuple(np.array(each, dtype=np.int64) for each in self._sets)

    def rows(self, values: Sequence[object]) -> Ints:
        """Return the row of the extended factors for each value: a label, None, or several labels."""
        several = {
            i: self._row_of_several(value)
            for i, value in enumerate(values)
            if isinstance(value, slice | Iterable) and not isinstance(value, str | bytes)
        }
        single = [None if i in several else value for i, value in enumerate(values)] if several else values
        known = {value: self.length if _is_none(value) else self._row(value) for value in set(single)}
        others = sum(row is None for row in known.values()) - 1
        if others >= 0:
            text = str(next(value for value in single if known[value] is None))
            rule = f"must be a position from 0 to {self.length - 1} there, because the mode has no labels"
            if not isinstance(self._labels, range):
                rule = f"must be a label of the mode{did_you_mean(text, self._labels)}"
            more = f" (and {plural(others, 'other unknown label')})" if others else ""
            raise InputError("cells", Described(f"{text!r} in mode {self.name!r}{more}"), rule)
        rows_N = np.fromiter((known[value] for value in single), dtype=np.int64, count=len(single))
        rows_N[list(several)] = list(several.values())
        return rows_N

    def _row(self, value: object) -> int | None:
        """The row of a label, or of a longer period such as a year of months; None if it is unknown."""
        # Tables with gaps have integers as floats.
        whole = int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value
        if self._found is None:
            text = str(whole)
            return int(text) if text.isdecimal() and int(text) < self.length else None
        places = self._found.find(value) or self._found.find(whole)
        return None if places is None else self._row_of_all(places)

    def common(self, one_N: Ints, other_N: Ints) -> Ints:
        """Return the row of what two rows of this mode have in common: a label, or a set; -1 if it is nothing."""
        if (loops := np.flatnonzero((one_N == other_N) & (one_N < self.length))).size:
            label = self._labels[int(one_N[loops[0]])]
            rule = "must be ties between two different labels: undirected ties have no diagonal"
            raise InputError("cells", Described(f"a tie of {str(label)!r} with itself"), rule)
        several = (one_N >= self.length) | (other_N >= self.length)
        pairs_2P, which_N = np.unique(np.stack([one_N[several], other_N[several]]), axis=1, return_inverse=True)
        members = [set(each) for each in self._sets]

        def row(one: int, other: int) -> int:
            of_both = [members[place - self.length] if place >= self.length else {place} for place in (one, other)]
            common = sorted(of_both[0] & of_both[1])
            return self._row_of_all(common) if common else -1

        common_N = np.full(len(one_N), -1, dtype=np.int64)
        rows_P = np.array([row(*pair) for pair in pairs_2P.T.tolist()], dtype=np.int64)
        common_N[several] = rows_P[which_N.ravel()]
        return common_N

    def _row_of_all(self, places: Rows | list[int]) -> int:
        if len(places) == 1:
            return int(places[0])
        return self.length + self._sets.setdefault(tuple(int(place) for place in places), len(self._sets))

    def _row_of_several(self, several: Any) -> int:
        if not isinstance(several, slice):
            several = list(several)
            if any(_is_none(value) for value in several):
                found = Described(f"None in a list in mode {self.name!r}")
                raise InputError("cells", found, "must have only labels in a list")
        return self._row_of_all(rows_of(self._labels, several, "cells", self.name))


def _is_none(value: object) -> bool:
    return value is None or bool(pd.isna(value))  # type: ignore[call-overload]


def _boxes(columns: Sequence[Sequence[object] | None], length: int, tensor: CountTensor) -> Boxes:
    modes, pair = list[_Mode](), tensor.undirected_modes
    for m, (name, labels) in enumerate(zip(tensor.mode_names, tensor.labels, strict=True)):
        modes.append(_Mode(name, labels, modes[pair[0]] if pair is not None and m == pair[1] else None))
    places = np.array(
        [
            np.full(length, mode.length) if values is None else mode.rows(values)
            for mode, values in zip(modes, columns, strict=True)
        ]
    )
    common_N = None if pair is None else modes[pair[0]].common(*places[list(pair)])
    return Boxes(places, tuple(mode.sets for mode in modes), tensor.shape, common_N)


def _from_rows(rows: list[Any], tensor: CountTensor) -> tuple[Boxes, pd.DataFrame]:
    names = tensor.mode_names
    _check_number(len(rows))
    columns = list(zip(*(_in_order(row, n, names) for n, row in enumerate(rows)), strict=True))
    boxes = _boxes(columns, len(rows), tensor)
    asked = {}
    for name, column in zip(names, columns, strict=True):
        if any(value is not None for value in column):
            asked[name] = np.empty(len(rows), dtype=object)  # in which a list is one object
            for n, value in enumerate(column):
                asked[name][n] = _span(value) if isinstance(value, slice) else value
    return boxes, pd.DataFrame(asked, index=range(len(rows)))


def _span(labels: slice) -> str:
    """A slice of labels in words: "Jun to Aug", "from Jun", "to Aug"."""
    if labels.start is None:
        words = "all" if labels.stop is None else f"to {labels.stop}"
    else:
        words = f"from {labels.start}" if labels.stop is None else f"{labels.start} to {labels.stop}"
    return words if labels.step is None else f"{words}, step {labels.step}"


def _in_order(row: Any, number: int, names: tuple[str, ...]) -> tuple[object, ...]:
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                near = did_you_mean(str(name), names) or f"; the modes are {', '.join(names)}"
                raise InputError("cells", Described(f"{name!r} at position {number}"), f"must be a mode{near}")
        return tuple(row.get(name) for name in names)
    if not isinstance(row, tuple):
        raise InputError("cells", Described(f"a {type(row).__name__} at position {number}"), f"must be {_HOW}")
    if len(row) != len(names):
        rule = f"must have an entry for each of the {len(names)} modes; None sums over a mode"
        raise InputError("cells", Described(f"a tuple of length {len(row)} at position {number}"), rule)
    return row


def _from_frame(given: Any, tensor: CountTensor) -> tuple[Boxes, pd.DataFrame]:
    import narwhals as nw

    try:
        frame = nw.from_native(given, eager_only=True)
    except TypeError:
        raise InputError("cells", Described(f"a {type(given).__name__}"), f"must be {_HOW}") from None
    except ValueError as error:
        raise InputError("cells", NO_VALUE, f"cannot be read: {' '.join(str(error).split())}") from None
    _check_number(len(frame))
    _check_columns(frame.columns, tensor.mode_names)
    columns = {name: frame[name].to_list() for name in frame.columns}
    asked = given.copy() if isinstance(given, pd.DataFrame) else pd.DataFrame(columns)
    return _boxes([columns.get(name) for name in tensor.mode_names], len(frame), tensor), asked


def _check_number(rows: int) -> None:
    if not rows:
        raise InputError("cells", Described("empty"), "must name at least one cell")


def _check_columns(columns: Sequence[str], names: tuple[str, ...]) -> None:
    """Raise an error where a misspelt column would silently become a sum."""
    absent, others = [name for name in names if name not in columns], [name for name in columns if name not in names]
    if len(absent) == len(names):
        found = Described(f"a table with the columns {', '.join(map(str, columns))}")
        raise InputError("cells", found, f"must have a column for some of the modes {', '.join(names)}")
    if absent and others:
        near = did_you_mean(str(others[0]), absent)
        found = Described(f"a table with the column {others[0]!r}, which is not a mode{near}")
        raise InputError("cells", found, f"must have a column for each mode if it has others; {absent[0]!r} has none")


class CellCounts(Protocol):
    """Anything with coordinates (M, n) and counts (n): a held-out set, a tensor."""

    @property
    def coords(self) -> NDArray[Any]: ...  # noqa: D102

    @property
    def counts(self) -> NDArray[Any]: ...  # noqa: D102


def check_has_cells(test: object, argument: str) -> None:
    """Raise an error unless `test` has coordinates and counts."""
    if not (hasattr(test, "coords") and hasattr(test, "counts")):
        hint = ": pass split.test" if hasattr(test, "test") else ""
        raise InputError(argument, Described(f"a {type(test).__name__}"), f"must have coords and counts{hint}")


def check_same_tensor(given: object, fitted: CountTensor, argument: str) -> None:
    """Raise an error at the first difference in shape, mode names or labels; what one side does not know agrees."""
    shape = getattr(given, "shape", None)
    if shape is None:
        return
    if isinstance(given, CountTensor) and given.undirected_modes != fitted.undirected_modes:
        pair = fitted.undirected_modes
        rule = "must have directed ties" if pair is None else f"must have undirected ties, undirected({pair})"
        raise InputError(argument, NO_VALUE, f"{rule}, as the fitted tensor has")
    if tuple(shape) != fitted.shape:
        rule = f"must have the shape of the fitted tensor, {fitted.shape}"
        if len(shape) == fitted.ndim:
            m = next(m for m, length in enumerate(fitted.shape) if shape[m] != length)
            difference = f"{shape[m]} labels instead of {fitted.shape[m]}"
            rule += f"; the first difference is in mode {fitted.mode_names[m]}, {difference}"
        raise InputError(argument, Described(f"of shape {tuple(shape)}"), rule)
    for m, (own, other) in enumerate(zip(fitted.mode_names, getattr(given, "mode_names", None) or (), strict=False)):
        if own != other and f"mode_{m}" not in (own, other):
            rule = f"must have the modes of the fitted tensor: mode {m} is {own!r} there, not {other!r}"
            raise InputError(argument, NO_VALUE, rule)
    for name, mine, theirs in zip(fitted.mode_names, fitted.labels, getattr(given, "labels", None) or (), strict=False):
        if isinstance(mine, range) or isinstance(theirs, range) or mine == theirs:
            continue
        if mine != respelt(theirs, mine):
            place = next(d for d, labels in enumerate(zip(mine, theirs, strict=True)) if labels[0] != labels[1])
            difference = f"at position {place}, {mine[place]!r} there, not {theirs[place]!r}"
            rule = f"must have the labels of the fitted tensor in mode {name}: {difference}"
            raise InputError(argument, NO_VALUE, rule)


def _refuse_training(test: CountTensor | Ints, fitted: CountTensor) -> None:
    """Raise an error if a cell of the test set, a tensor or coordinates, was observed in training."""
    if isinstance(test, CountTensor):  # cells are counted by patterns, none is visited
        both = test.missing.union(fitted.missing).cells
        shared = (fitted.volume - both) // (1 if fitted.undirected_modes is None else 2)
        which = f"{shared:,} of its {test.observed:,} observed cells"
    else:
        seen = np.flatnonzero(~covered(test, fitted.missing))
        shared = len(seen)
        first = test[:, seen[:1]].ravel().tolist()
        labels = ", ".join(str(labels[d]) for labels, d in zip(fitted.labels, first, strict=False))
        which = f"{shared:,} of its {test.shape[1]:,} cells; the first is ({labels})"
    if shared:
        rule = f"must have only cells that were missing in training (ac.hold_out); the model was fitted to {which}"
        raise InputError("test", NO_VALUE, f"{rule}. Set `allow_training` to score them too")


def checked_coords(coords: object, tensor: CountTensor) -> Ints:
    """Return coordinates (M, n), or those of something that has them, after a check that they fit the tensor."""
    if isinstance(coords, CountTensor):
        rule = "must list cells; pass Y.coords to predict the non-zeros of a tensor"
        raise InputError("coords", Described("a CountTensor"), rule)
    if hasattr(coords, "coords"):
        check_same_tensor(coords, tensor, "coords")
        coords = coords.coords
    cells = as_integers(coords, "coords")
    check_coordinates(cells, tensor.shape, tensor.mode_names)
    if (pair := tensor.undirected_modes) is not None and (cells[pair[0]] == cells[pair[1]]).any():
        rule = "must be ties between two different nodes: undirected ties have no diagonal"
        raise InputError("coords", NO_VALUE, rule)
    return cells_of(tensor, cells.astype(np.int64))


def checked_counts(coords: object, counts: object, tensor: CountTensor) -> tuple[Ints, Ints]:
    """Return coordinates (M, n) and the count of each cell after a check that they fit the tensor."""
    cells, numbers = checked_coords(coords, tensor), as_integers(counts, "counts")
    if numbers.shape != cells.shape[1:]:
        shown = Described(f"an array of shape {numbers.shape}")
        raise InputError("counts", shown, f"must have one count for each of the {cells.shape[1]} cells in `coords`")
    if (numbers < 0).any():
        raise InputError("counts", Described(f"an array with {numbers.min()}"), "must have no negative counts")
    return cells, numbers.astype(np.int64)


def cells_to_score(test: object, fitted: CountTensor, allow_training: bool) -> HeldOut:
    """Return the cells of a test set with their counts, zeros included, after a check that they may be scored."""
    if hasattr(test, "columns") and not hasattr(test, "coords"):
        test = _cells_with_counts(test, fitted)
    blocks = blocks_to_score(test, fitted, allow_training)
    coords_MN, counts_N = (np.concatenate(each, axis=-1) for each in zip(*blocks, strict=True))
    return HeldOut(coords_MN, counts_N, along=getattr(test, "along", None))


def blocks_to_score(
    test: Any, fitted: CountTensor, allow_training: bool, *, positive_only: bool = False
) -> Iterable[tuple[Ints, Ints]]:
    """Return the cells of a test set and their counts in blocks, after a check that they may be scored."""
    check_has_cells(test, "test")
    check_same_tensor(test, fitted, "test")
    if isinstance(test, CountTensor):
        if not allow_training:
            _refuse_training(test, fitted)
        return [(test.coords.astype(np.int64), test.counts)] if positive_only else observed_cells(test)
    coords_MN, counts_N = checked_counts(test.coords, test.counts, fitted)
    if not allow_training:
        _refuse_training(coords_MN, fitted)
    chosen = counts_N > 0 if positive_only else np.ones(len(counts_N), dtype=bool)
    if not chosen.any():
        kind = "cell with a count above 0" if positive_only else "cell"
        raise InputError("test", Described(f"a set of {len(counts_N)} cells"), f"must have at least one {kind}")
    return [(coords_MN[:, chosen], counts_N[chosen])]


def observed_cells(test: CountTensor) -> Iterator[tuple[Ints, Ints]]:
    """Return all observed cells of a tensor with their counts, zeros included, in blocks."""
    rows = [np.flatnonzero(test.missing.observed_rows(mode)) for mode in range(test.ndim)]
    lengths = tuple(map(len, rows))
    number = math.prod(lengths)
    if number > MOST_CELLS:
        rule = f"must have at most {MOST_CELLS:,}, zeros included: hold out some with ac.hold_out and pass split.test"
        raise InputError("test", Described(f"a tensor of {number:,} cells"), rule)
    for start in range(0, number, _CELLS_AT_ONCE):
        places = np.unravel_index(np.arange(start, min(start + _CELLS_AT_ONCE, number)), lengths)
        coords_MN = np.array([each[place] for each, place in zip(rows, places, strict=True)])
        coords_MN = coords_MN[:, ~covered(coords_MN, test.missing)]
        if (pair := test.undirected_modes) is not None:
            coords_MN = coords_MN[:, coords_MN[pair[0]] < coords_MN[pair[1]]]
        place_N = locate(*column_keys(test.shape, coords_MN, test.coords))
        known_N = place_N >= 0  # a tensor in which nothing happened has no counts to look up
        counts_N = np.zeros(len(place_N), dtype=np.int64)
        counts_N[known_N] = test.counts[place_N[known_N]]
        yield coords_MN, counts_N


def weighted_expansion(
    record: Record, chain: int, draw: int, subs_QM: Ints, missing: SignedPatterns
) -> tuple[Expanded, RowScale | None, float]:
    """Return the factors expanded to classes at `subs_QM`, and the odds: by row as a scale, or one for all cells."""
    phi_RQ = expand_factors([factor[chain, draw] for factor in record.factors], subs_QM)
    offsets_M = row_offsets(record.tensor.shape)
    sums_MQ = np.add.reduceat(phi_RQ, offsets_M[:-1], axis=0)
    mode = record.spec.dispersion_by
    odds = odds_of(record.log_odds[chain, draw]) if record.log_odds is not None else np.ones(())
    if mode is None:
        return Expanded(phi_RQ, sums_MQ), None, float(odds)
    scale = RowScale(mode, odds)
    sums_MQ[mode] = scaled_sums(phi_RQ[offsets_M[mode] : offsets_M[mode + 1]], mode, scale)
    return Expanded(phi_RQ, sums_MQ), scale, 1.0

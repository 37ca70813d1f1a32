"""Rates of sums of cells, draw by draw, without a visit to each cell.

A *box* has for each mode a position or a set of positions. With the sums of phi over its sets as further rows of the
factors, a box is a cell, and the sum of its rates is the rate of that cell:

    sum_{d in box} r_d  =  sum_q lambda_q prod_m ( sum_{d in set m} phi[m][d, k[q, m]] )

The missing cells are taken out exactly. A box and a missing pattern intersect in a box: the position where the pattern
has one, the set of the box where it has a wildcard. So the sum over the observed cells of a box is a signed sum of the
rates of boxes, as in kernels/signed_patterns.py.

A sum of independent counts is again Poisson, or again negative binomial with one p: rates add up. Other sums are made
of *terms* whose rates do add up: one for each row of the mode that the dispersion differs by, or one for each cell
under the Bernoulli likelihood, where nothing else is exact.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import column_keys, locate
from allocore.data.missing import Missing, covered
from allocore.errors import InputError
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.cell_rates import rates_at_rows, rows_of_cells
from allocore.kernels.workers import Workers
from allocore.run.record import Record

Flags: TypeAlias = NDArray[np.bool_]

MOST_BERNOULLI_CELLS = 1_000_000
MOST_PIECES = 20_000_000


class Boxes(NamedTuple):
    """N boxes: for each mode a position, or the length of the mode plus the number of one of its sets."""

    places_MN: Ints
    sets: tuple[tuple[Ints, ...], ...]
    shape: tuple[int, ...]

    @property
    def summed_N(self) -> Flags:
        """Which boxes have a set in some mode: sums, not cells."""
        return np.asarray((self.places_MN >= np.array(self.shape)[:, None]).any(axis=0))

    def sizes(self, mode: int) -> Ints:
        """The number of positions in a mode for each row of the extended factors: ones, then those of the sets."""
        return np.array([1] * self.shape[mode] + [len(each) for each in self.sets[mode]])

    def taken(self, where: slice) -> "Boxes":
        """Some of the boxes."""
        return self._replace(places_MN=self.places_MN[:, where])


class Terms(NamedTuple):
    """Terms of boxes: term t belongs to box `owner_T[t]`, and its rate is the signed sum of the rates of its pieces."""

    owner_T: Ints
    odds_row_T: Ints
    pieces_MJ: Ints
    weights_J: Floats
    starts_T: Ints

    def added_up(self, values_T: Ints | Floats, boxes: int) -> Floats:
        """The sums of values over the terms of each box; counts below 2^53 stay exact."""
        if len(self.owner_T) == boxes:
            return np.asarray(values_T, dtype=np.float64)
        return np.asarray(np.bincount(self.owner_T, values_T, boxes))


def number_of_terms(record: Record, boxes: Boxes) -> Floats:
    """How many terms each box has, before missing cells are left out."""
    number_N = np.ones(boxes.places_MN.shape[1])
    for mode in _split_modes(record):
        number_N *= boxes.sizes(mode)[boxes.places_MN[mode]]
    return number_N


def terms_of(record: Record, boxes: Boxes, first: int, missing: bool) -> Terms:
    """The terms of boxes; sums leave out missing cells unless `missing` is set. `first` numbers boxes in errors."""
    by, shape = record.spec.dispersion_by, boxes.shape
    places_MT, owner_T = boxes.places_MN, np.arange(boxes.places_MN.shape[1])
    for mode in _split_modes(record):
        places_MT, owner_T = _split(places_MT, owner_T, boxes, mode)
    none = Missing.none(shape)
    left_out = none if missing else record.tensor.missing
    summed_T = boxes.summed_N[owner_T]
    if record.spec.likelihood == "bernoulli":
        gone_T = np.zeros(len(owner_T), dtype=bool)
        gone_T[summed_T] = covered(places_MT[:, summed_T], left_out)
        places_MT, owner_T, summed_T, left_out = places_MT[:, ~gone_T], owner_T[~gone_T], summed_T[~gone_T], none
    pieces_MJ, weights_J, term_J = _pieces(places_MT, summed_T, boxes, left_out)
    cells_J = np.prod([boxes.sizes(m)[row_J].astype(float) for m, row_J in enumerate(pieces_MJ)], axis=0)
    cells_N = np.bincount(owner_T[term_J], weights_J * cells_J, boxes.places_MN.shape[1])
    if (cells_N < 0.5).any():
        raise InputError(
            f"cells has a sum without any observed cell, at position {first + int(np.argmax(cells_N < 0.5))}; pass "
            "missing=True to sum missing cells too"
        )
    odds_row_T = np.zeros(len(owner_T), dtype=np.int64) if by is None else places_MT[by]
    return Terms(owner_T, odds_row_T, pieces_MJ, weights_J, np.searchsorted(term_J, np.arange(len(owner_T))))


def term_rates(
    record: Record, boxes: Boxes, terms: Terms, places: Sequence[tuple[int, int]], threads: int
) -> Iterator[Floats]:
    """The rates of the terms in some draws, each given by chain and draw."""
    shape = [length + len(sets) for length, sets in zip(boxes.shape, boxes.sets, strict=True)]
    rows_MJ = rows_of_cells(shape, terms.pieces_MJ)
    with Workers(threads) as workers:
        for place in places:
            factors = [_extended(factor[place], sets) for factor, sets in zip(record.factors, boxes.sets, strict=True)]
            core_Q, subs_QM = record.core_values[place], record.core_locations[place]
            rates_J = rates_at_rows(core_Q, subs_QM, factors, rows_MJ, workers)
            if len(rates_J) == len(terms.owner_T):
                yield rates_J
            else:
                # Rounding may leave a difference slightly below zero.
                yield np.maximum(np.add.reduceat(terms.weights_J * rates_J, terms.starts_T), 0.0)


def _extended(phi_DK: Floats, sets: tuple[Ints, ...]) -> Floats:
    """The factors of a mode with their sums over the sets as further rows."""
    return np.concatenate([phi_DK, *(phi_DK[rows].sum(axis=0)[None, :] for rows in sets)])


def _split_modes(record: Record) -> list[int]:
    """The modes in which sums are split into terms."""
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


def _pieces(places_MT: Ints, summed_T: Flags, boxes: Boxes, missing: Missing) -> tuple[Ints, Floats, Ints]:
    """Boxes (M, J) with weights whose signed sums are the observed cells of each term, and their terms, sorted."""
    all_T = np.arange(places_MT.shape[1])
    found = [(places_MT, np.ones(len(all_T)), all_T)]
    if len(missing) and summed_T.any():
        patterns_PM, signs_P = missing.signed
        sums_MU, sums_U = places_MT[:, summed_T], all_T[summed_T]
        for members_P in _alike((patterns_PM >= 0).T):
            for chosen_U in _alike(sums_MU >= np.array(boxes.shape)[:, None]):
                box_I, pattern_I = _meetings(sums_MU[:, chosen_U], patterns_PM[members_P], boxes)
                pattern_MI, box_MI = patterns_PM[members_P[pattern_I]].T, sums_MU[:, chosen_U[box_I]]
                signs_I = -signs_P[members_P[pattern_I]].astype(float)
                found.append((np.where(pattern_MI >= 0, pattern_MI, box_MI), signs_I, sums_U[chosen_U[box_I]]))
    pieces_MJ, weights_J, term_J = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    order = np.argsort(term_J, kind="stable")
    return pieces_MJ[:, order], weights_J[order], term_J[order]


def _alike(flags_MN: Flags) -> list[Ints]:
    """Where the columns are that equal one another, for each different column."""
    _, group_N = np.unique(flags_MN, axis=1, return_inverse=True)
    return [np.flatnonzero(group_N.ravel() == group) for group in range(int(group_N.max(initial=-1)) + 1)]


def _meetings(boxes_MU: Ints, patterns_PM: Ints, boxes: Boxes) -> tuple[Ints, Ints]:
    """The pairs of boxes and patterns that intersect. All boxes have sets in the same modes, all patterns wildcards.

    They are joined where both have positions. Where a box has a set, the position of the pattern must be in it.
    """
    fixed_M, has_set_M = patterns_PM[0] >= 0, boxes_MU[:, 0] >= np.array(boxes.shape)
    both = np.flatnonzero(fixed_M & ~has_set_M).tolist()
    left_U, right_P = column_keys([boxes.shape[m] for m in both], boxes_MU[both], patterns_PM[:, both].T)
    order_P = np.argsort(right_P, kind="stable")
    start_U = np.searchsorted(right_P[order_P], left_U, side="left")
    repeats_U = np.searchsorted(right_P[order_P], left_U, side="right") - start_U
    if repeats_U.sum() > MOST_PIECES:
        raise InputError(
            f"cells has sums that meet missing patterns in {repeats_U.sum():,} places, but at most {MOST_PIECES:,} are "
            "allowed: ask for fewer sums at once, or pass missing=True"
        )
    box_I = np.repeat(np.arange(len(left_U)), repeats_U)
    within_I = np.arange(len(box_I)) - np.repeat(np.cumsum(repeats_U) - repeats_U, repeats_U)
    pattern_I = order_P[np.repeat(start_U, repeats_U) + within_I]
    inside_I = np.ones(len(box_I), dtype=bool)
    for m in np.flatnonzero(fixed_M & has_set_M).tolist():
        length = boxes.shape[m]
        members = np.concatenate([number * length + rows for number, rows in enumerate(boxes.sets[m])])
        inside_I &= locate((boxes_MU[m, box_I] - length) * length + patterns_PM[pattern_I, m], members) >= 0
    return box_I[inside_I], pattern_I[inside_I]

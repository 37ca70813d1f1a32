"""How alike are draws? Which classes of one draw are found again in the others, whatever their numbers there.

A class lies at a location of the core: its signature is one factor in every mode, each scaled to length one. Two
classes are *alike* if in every mode the cosine of their factors (Tucker's coefficient of congruence) is at least 0.9.
The classes of two draws are matched one to one. A pair's similarity is its smallest cosine over the modes. The matching
maximises the sum of similarities over pairs of like classes. A draw *holds* a class of the reference draw if it has a
partner for it. If two classes became one in a draw, it holds one of them.

If every row of a mode has its own dispersion p, the factors of this mode are weighted by p / (1 - p), as they are where
classes are shown: as shares of expected counts.
"""

from itertools import chain as joined
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from allocore.kernels.jit import kernel
from allocore.posterior.class_sums import odds_of_rows
from allocore.run.record import Record

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

# Lorenzo-Seva and ten Berge (2006) call factors fairly similar from 0.85 on and equal from 0.95 on. Draws of the same
# class differ by posterior noise, so equality in every mode would be too strict.
ALIKE = 0.9
# A chain holds a class if at least half of its draws do: one passing draw is not enough.
HELD = 0.5
# With 100 draws, the standard error of a share is at most 5 points. At the largest budgets this takes seconds.
_COMPARED_DRAWS = 100
# Tucker cores can have more locations than can be matched; those beyond the thousand largest hardly matter.
_COMPARED_CLASSES = 1000


class Stability(NamedTuple):
    """For each class of a draw, in the order of its location: the share of draws and of chains that hold it."""

    draws_C: _Floats
    chains_C: _Floats


class _Signatures(NamedTuple):
    """Classes of one draw: for each mode the factors in use, of length one, and which of them each class has."""

    numbers_C: _Ints
    unit: list[_Floats]
    factor_CM: _Ints


def stability(record: Record, chain: int, draw: int) -> Stability:
    """Compare the classes of one draw with those of up to about 100 others, spread evenly over all chains.

    The draw itself does not count. A share is NaN if there is no other draw, or no other chain.
    """
    # In rows without observed cells, a factor follows its prior alone.
    observed = [record.tensor.missing.observed_rows(mode) for mode in range(len(record.factors))]
    reference = _signatures(record, chain, draw, observed)
    chains, draws = record.core_values.shape[:2]
    held = []
    for other in range(chains):
        places = _spread(draws, max(1, _COMPARED_DRAWS // chains), draw if other == chain else None)
        held.append([_held(reference, _signatures(record, other, place, observed)) for place in places])
    return _shares(len(np.unique(record.included_classes(chain, draw)[1], axis=0)), reference.numbers_C, held)


def _shares(classes: int, numbers_C: _Ints, held: list[list[NDArray[np.bool_]]]) -> Stability:
    draws_C, chains_C = np.full(classes, np.nan), np.full(classes, np.nan)
    by_draw = list(joined.from_iterable(held))
    by_chain = [np.mean(of_chain, axis=0) >= HELD for of_chain in held if of_chain]
    if by_draw:
        draws_C[numbers_C] = np.mean(by_draw, axis=0)
    if len(held) > 1:
        chains_C[numbers_C] = np.mean(by_chain, axis=0)
    return Stability(draws_C, chains_C)


def _spread(draws: int, most: int, left_out: int | None) -> list[int]:
    """At most `most` draws, evenly spread: the middle of each of that many equal stretches."""
    others = [draw for draw in range(draws) if draw != left_out]
    number = min(most, len(others))
    return [others[(2 * place + 1) * len(others) // (2 * number)] for place in range(number)]


def _signatures(record: Record, chain: int, draw: int, observed: list[NDArray[np.bool_]]) -> _Signatures:
    core_Q, subs_QM = record.included_classes(chain, draw)
    locations_CM, place_Q = np.unique(subs_QM, axis=0, return_inverse=True)
    core_C = np.bincount(place_Q.ravel(), core_Q)
    unit, factor_CM, size_C = [], np.empty_like(locations_CM), core_C
    for mode, factor in enumerate(record.factors):
        used_U, factor_CM[:, mode] = np.unique(locations_CM[:, mode], return_inverse=True)
        phi_DU, odds_D = factor[chain, draw][observed[mode]][:, used_U], odds_of_rows(record, chain, draw, mode)
        if odds_D is not None:
            phi_DU = phi_DU * odds_D[observed[mode], None]
        size_C = size_C * phi_DU.sum(axis=0)[factor_CM[:, mode]]
        unit.append(_unit(phi_DU))
    largest_C = np.sort(np.argsort(-size_C, kind="stable")[:_COMPARED_CLASSES])
    return _Signatures(largest_C, unit, factor_CM[largest_C])


def _unit(phi_DU: _Floats) -> _Floats:
    """The factors scaled to length one. A factor that underflows entirely is zero, and like no other."""
    tiny = np.finfo(float).tiny
    scaled_DU = phi_DU / np.maximum(phi_DU.max(axis=0, initial=0.0), tiny)
    return np.ascontiguousarray(scaled_DU / np.maximum(np.sqrt((scaled_DU**2).sum(axis=0)), tiny))


def _held(reference: _Signatures, other: _Signatures) -> NDArray[np.bool_]:
    """Which classes of the reference have a partner in the other draw."""
    least_CC = np.ones((len(reference.numbers_C), len(other.numbers_C)))
    for mode, (ours_DU, theirs_DU) in enumerate(zip(reference.unit, other.unit, strict=True)):
        cosine_UU = np.zeros((ours_DU.shape[1], theirs_DU.shape[1]))
        _add_products(ours_DU, theirs_DU, cosine_UU)
        np.minimum(least_CC, cosine_UU[np.ix_(reference.factor_CM[:, mode], other.factor_CM[:, mode])], out=least_CC)
    # Pairs that are not alike are worth nothing, so they never displace a like pair.
    worth_CC = np.where(least_CC >= ALIKE, least_CC, 0.0)
    ours, theirs = linear_sum_assignment(worth_CC, maximize=True)
    held_C = np.zeros(len(worth_CC), dtype=bool)
    held_C[ours] = worth_CC[ours, theirs] > 0.0
    return held_C


@kernel
def _add_products(ours_DU: _Floats, theirs_DU: _Floats, product_UU: _Floats) -> None:
    """Add the matrix product of ours, transposed, and theirs.

    BLAS is faster on an idle machine, but its threads wait for one another: ten times slower while a run is going on.
    """
    for u in range(product_UU.shape[0]):
        for d in range(ours_DU.shape[0]):
            weight = ours_DU[d, u]
            for v in range(product_UU.shape[1]):
                product_UU[u, v] += weight * theirs_DU[d, v]

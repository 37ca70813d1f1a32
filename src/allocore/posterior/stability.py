"""How alike are draws? Which classes of one draw are found again in the others, whatever their numbers there.

Two classes are *alike* if in every mode the cosine of their profiles (Tucker's coefficient of congruence) is at least
0.9. The classes of two draws are matched one to one (class_matching.py). A draw *holds* a class of the reference draw
if it has a partner for it. If two classes became one in a draw, it holds one of them.
"""

from itertools import chain as joined

import numpy as np

from allocore.kernels.arrays import Flags
from allocore.posterior.class_profiles import ClassReader, DrawClasses
from allocore.posterior.class_summary import HELD, Support
from allocore.posterior.consensus.class_matching import Directions, match
from allocore.posterior.consensus.consensus_clusters import spread

# Lorenzo-Seva and ten Berge (2006) call factors fairly similar from 0.85 on and equal from 0.95 on. Draws of the same
# class differ by posterior noise, so equality in every mode would be too strict.
ALIKE = 0.9
# With 100 draws, the standard error of a share is at most 5 points. At the largest budgets this takes seconds.
_COMPARED_DRAWS = 100
# Tucker cores can have more locations than can be matched; those beyond the thousand largest hardly matter.
_COMPARED_CLASSES = 1000


def stability(reader: ClassReader, chain: int, draw: int) -> Support:
    """Compare the classes of one draw with those of up to about 100 others, spread evenly over all chains.

    The draw itself does not count. A share is NaN if there is no other draw, or no other chain.
    """
    classes = reader.read(chain, draw)
    reference = _directions(classes)
    chains, draws = reader.record.core_values.shape[:2]
    held = []
    for other in range(chains):
        places = _others(draws, max(1, _COMPARED_DRAWS // chains), draw if other == chain else None)
        held.append([_held(reference, reader.read(other, place, _COMPARED_CLASSES)) for place in places])
    return _shares(len(classes.value_C), held)


def _shares(classes: int, held: list[list[Flags]]) -> Support:
    draws_C, chains_C = np.full(classes, np.nan), np.full(classes, np.nan)
    compared = slice(min(classes, _COMPARED_CLASSES))
    by_draw = list(joined.from_iterable(held))
    by_chain = [np.mean(of_chain, axis=0) >= HELD for of_chain in held if of_chain]
    if by_draw:
        draws_C[compared] = np.mean(by_draw, axis=0)
    if len(held) > 1:
        chains_C[compared] = np.mean(by_chain, axis=0)
    return Support(draws_C, chains_C, len(held))


def _others(draws: int, most: int, left_out: int | None) -> list[int]:
    """At most `most` draws but one, evenly spread."""
    others = np.array([draw for draw in range(draws) if draw != left_out], dtype=np.int64)
    return list(others[spread(len(others), most)].tolist()) if len(others) else []


def _directions(classes: DrawClasses) -> Directions:
    return Directions.of([profile_DC[:, :_COMPARED_CLASSES] for profile_DC in classes.profiles])


def _held(reference: Directions, other: DrawClasses) -> Flags:
    """Which classes of the reference have a partner in the other draw."""
    held_C = np.zeros(len(reference.unit[0]), dtype=bool)
    held_C[match(reference, _directions(other), ALIKE)[0]] = True
    return held_C

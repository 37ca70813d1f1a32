"""Cores of about Q entries for Tucker and NNTuck."""

import math
from itertools import combinations, product

# The weight of the number of entries against the balance of the modes; both errors are squared log ratios. For Q = 5,
# 2 x 2 x 1 x 1 then beats 5 x 1 x 1 x 1, which has the right number of entries but a single factor in three modes.
_PRODUCT = 16.0
# Steps that the search tries: far ones when one or two modes change, near ones when three or four do.
_NEAR, _FAR = (-1, 1), (-4, -3, -2, -1, 1, 2, 3, 4)


def core_for(budget: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a core with about `budget` entries, balanced over the modes of a tensor of this shape.

    The ideal number of factors of a mode is proportional to the fourth root of its length, at least 1 and at most its
    length. A local search finds the whole numbers that are closest, in ratio, to the ideal and to the budget. Longer
    modes never get fewer factors than shorter ones.

    Examples
    --------
    >>> core_for(100, (250, 250, 20, 228))
    (4, 4, 2, 3)
    >>> core_for(5, (250, 250, 20, 228))
    (2, 2, 1, 1)
    >>> core_for(1000, (3, 105, 16, 12, 20))
    (3, 7, 4, 3, 4)
    """
    ideal = _ideal(budget, shape)
    order = sorted(range(len(shape)), key=lambda mode: -shape[mode])
    core = [max(1, min(shape[mode], round(ideal[mode]))) for mode in order]
    limits, ideals = [shape[mode] for mode in order], [ideal[mode] for mode in order]
    while (better := min(_neighbours(core, limits), key=lambda each: _cost(each, ideals, budget))) != core:
        core = better
    found = dict(zip(order, core, strict=True))
    return tuple(found[mode] for mode in range(len(shape)))


def _ideal(budget: int, shape: tuple[int, ...]) -> list[float]:
    """Return the ideal core, in fractions of factors."""

    def core(scale: float) -> list[float]:
        return [max(1.0, min(float(length), scale * length**0.25)) for length in shape]

    low, high = 0.0, float(max(shape))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.prod(core(middle)) < budget else (low, middle)
    return core(high)


def _cost(core: list[int], ideals: list[float], budget: int) -> tuple[float, list[int]]:
    """Return how far a core is from the ideal; ties go to the core with more factors in the first modes."""
    unbalanced = sum(math.log(size / ideal) ** 2 for size, ideal in zip(core, ideals, strict=True))
    missed = math.log(math.prod(core) / budget) ** 2
    return round(unbalanced + _PRODUCT * missed, 12), [-size for size in core]


def _neighbours(core: list[int], limits: list[int]) -> list[list[int]]:
    """Return the core itself and all cores that differ from it slightly in up to four modes."""
    found = [core]
    for number, sizes in enumerate((_FAR, _FAR, _NEAR, _NEAR), start=1):
        for modes in combinations(range(len(core)), number):
            for steps in product(sizes, repeat=number):
                other = list(core)
                for mode, step in zip(modes, steps, strict=True):
                    other[mode] += step
                if all(1 <= size <= limit for size, limit in zip(other, limits, strict=True)):
                    found.append(other)
    return found

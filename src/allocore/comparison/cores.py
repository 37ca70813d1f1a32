"""Cores of about Q entries for Tucker and NNTuck."""

import math
from itertools import combinations, product

# How much dearer it is to miss the number of entries than to miss the balance, both as squares of log ratios: for Q = 5
# a core of 2 x 2 x 1 x 1 is better than 5 x 1 x 1 x 1, which has the right number but tells three modes nothing apart.
_PRODUCT = 16.0
_NEAR, _FAR = (-1, 1), (-4, -3, -2, -1, 1, 2, 3, 4)


def core_for(budget: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The core for a tensor of this shape with about `budget` entries, balanced over its modes.

    Before they are rounded the factors of a mode are in proportion to the fourth root of its length, at least 1 and at
    most its length. Of all whole numbers those are taken that come nearest to that and to the budget, in ratio; longer
    modes never have fewer factors than shorter ones.

    >>> core_for(100, (250, 250, 20, 228))
    (4, 4, 2, 3)
    >>> core_for(5, (250, 250, 20, 228))
    (2, 2, 1, 1)
    >>> core_for(1000, (3, 105, 16, 12, 20))
    (3, 7, 4, 3, 4)
    """
    wished = _wished(budget, shape)
    order = sorted(range(len(shape)), key=lambda mode: -shape[mode])
    core = [max(1, min(shape[mode], round(wished[mode]))) for mode in order]
    limits, wishes = [shape[mode] for mode in order], [wished[mode] for mode in order]
    while (better := min(_neighbours(core, limits), key=lambda each: _cost(each, wishes, budget))) != core:
        core = better
    found = dict(zip(order, core, strict=True))
    return tuple(found[mode] for mode in range(len(shape)))


def _wished(budget: int, shape: tuple[int, ...]) -> list[float]:
    """The core as it would be if factors could be parted."""

    def core(scale: float) -> list[float]:
        return [max(1.0, min(float(length), scale * length**0.25)) for length in shape]

    low, high = 0.0, float(max(shape))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.prod(core(middle)) < budget else (low, middle)
    return core(high)


def _cost(core: list[int], wished: list[float], budget: int) -> tuple[float, list[int]]:
    """How far a core is from the wish; of two that are equally far the one with more in the first modes is better."""
    unbalanced = sum(math.log(size / wish) ** 2 for size, wish in zip(core, wished, strict=True))
    missed = math.log(math.prod(core) / budget) ** 2
    return round(unbalanced + _PRODUCT * missed, 12), [-size for size in core]


def _neighbours(core: list[int], limits: list[int]) -> list[list[int]]:
    """The core itself and all that differ from it a little in up to four modes."""
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

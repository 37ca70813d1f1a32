"""Names side by side or one below the other: as near as can be to where they belong, and none on another."""

from collections.abc import Sequence


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """The middles of things of these sizes on a line from `low` to `high`, near where they are `wanted`, not touching.

    They keep their order. Things that touch become a block, which lies where its members want to be on average. If
    there is too little room for all, they stand side by side from `low` on.

    Examples
    --------
    >>> spread([5.0, 50.0], [10, 10], 0, 100)
    [5.0, 50.0]
    >>> spread([50.0, 50.0, 90.0], [10, 10, 10], 0, 100)
    [45.0, 55.0, 90.0]
    >>> spread([99.0, 99.0], [10, 20], 0, 100)
    [75.0, 90.0]
    """
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    blocks: list[tuple[list[int], float, float]] = []  # members, start, size
    for number in order:
        size = float(sizes[number])
        block = ([number], _start(wanted[number] - size / 2, size, low, high), size)
        while blocks and blocks[-1][1] + blocks[-1][2] > block[1]:
            members = blocks.pop()[0] + block[0]
            block = _block(members, wanted, sizes, low, high)
        blocks.append(block)
    middles = [0.0] * len(wanted)
    for members, start, _ in blocks:
        for number in members:
            middles[number] = start + sizes[number] / 2
            start += sizes[number]
    return middles


def _block(
    members: list[int], wanted: Sequence[float], sizes: Sequence[float], low: float, high: float
) -> tuple[list[int], float, float]:
    starts, size = [], 0.0
    for number in members:
        starts.append(wanted[number] - sizes[number] / 2 - size)
        size += sizes[number]
    return members, _start(sum(starts) / len(starts), size, low, high), size


def _start(wanted: float, size: float, low: float, high: float) -> float:
    return float(max(min(wanted, high - size), low))

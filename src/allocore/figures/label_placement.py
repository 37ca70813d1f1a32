"""Labels in a row: each as near as possible to where it belongs, and none on top of another."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import isotonic_regression


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Place labels on a line from `low` to `high` so that they do not overlap.

    The squared distances from the wanted positions are as small as they can be. Labels keep the order of their wanted
    positions. If the line is too short for all of them, they are placed side by side from `low` on.

    Without gaps the middles would be at fixed offsets. What the middles exceed these offsets by must not decrease along
    the line, so the best placement is an isotonic regression (Barlow et al., 1972), clipped to the line.

    Parameters
    ----------
    wanted : sequence of float
        Where the middle of each label should be.
    sizes : sequence of float
        The length of each label.
    low, high : float
        The ends of the line.

    Returns
    -------
    list of float
        The middle of each label.

    Examples
    --------
    >>> spread([5.0, 50.0], [10, 10], 0, 100)
    [5.0, 50.0]
    >>> spread([50.0, 50.0, 90.0], [10, 10, 10], 0, 100)
    [45.0, 55.0, 90.0]
    >>> spread([99.0, 99.0], [10, 20], 0, 100)
    [75.0, 90.0]
    """
    if not len(wanted):
        return []
    order = np.argsort(wanted, kind="stable")
    lengths = np.asarray(sizes, dtype=float)[order]
    offsets = np.cumsum(lengths) - lengths / 2
    moved = isotonic_regression(np.asarray(wanted, dtype=float)[order] - offsets).x
    middles = np.empty(len(order))
    middles[order] = offsets + np.clip(moved, low, max(low, high - lengths.sum()))
    return [float(middle) for middle in middles]

"""Quartiles of numbers that may be minus infinity, as the log PPD of a model that gave a count probability 0 is."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def quartiles(values: "pd.Series[float]") -> tuple[float, float, float]:
    """Return the three quartiles, ignoring NaN; what would lie between minus infinity and a number is minus infinity.

    Examples
    --------
    >>> import pandas as pd
    >>> quartiles(pd.Series([1.0, 2.0, float("nan")]))
    (1.25, 1.5, 1.75)
    >>> quartiles(pd.Series([-float("inf"), 2.0, 3.0, 4.0]))
    (-inf, 2.5, 3.25)
    """
    known = values.dropna().to_numpy(dtype=float)
    if not known.size:
        return (np.nan,) * 3
    parts = np.array([0.25, 0.5, 0.75])
    with np.errstate(invalid="ignore"):  # interpolating from minus infinity gives NaN, replaced below
        between = np.quantile(known, parts)
    below = np.quantile(known, parts, method="lower")
    low, middle, high = np.where(np.isneginf(below), -np.inf, between).tolist()
    return low, middle, high

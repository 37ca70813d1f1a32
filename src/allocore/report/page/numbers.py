"""Numbers for JSON, as short as people read them."""

import numpy as np


def rounded(value: float) -> float | None:
    """Return a number with six digits, which is enough to read; None if it is not finite, because JSON has no NaN."""
    return float(f"{value:.6g}") if np.isfinite(value) else None

"""What a forecast says of the classes, in counts that can be observed.

A class is a share of many cells, and events do not say to which class they belong. So a class is judged by its *home
cells*: those of the labels that together hold half of its profile, in every mode but time.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.data.missing_diagonals import missing_diagonals
from allocore.kernels.arrays import Floats
from allocore.posterior.class_summary import ClassSummary, Profile

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.forecasts.forecast import Forecast

_HALF = 0.5


def home_labels(profile: Profile, least: int = 1) -> list[str | int]:
    """The heaviest labels that together hold half of a profile, or `least` of them if these are more."""
    rows = profile.heaviest
    held = np.cumsum(profile.share_D[rows])
    number = int(np.searchsorted(held, _HALF * held[-1])) + 1
    return [profile.mode.labels[row] for row in rows[: max(number, least)].tolist()]


def home_cells(summary: ClassSummary, mode: int) -> list[dict[str, Any]]:
    """The home cells of every class, summed over the mode of time."""
    diagonals = missing_diagonals(summary.tensor)
    others = [m for m in range(len(summary.modes)) if m != mode]
    found = []
    for place in range(len(summary.share_C)):
        labels = {m: home_labels(summary.profiles[m][place]) for m in others}
        for modes in diagonals:
            # One actor with itself is no cell at all: its first partners make it one.
            if len({tuple(labels[m]) for m in modes}) == 1 and len(labels[modes[0]]) == 1:
                labels |= {m: home_labels(summary.profiles[m][place], 2) for m in modes}
        found.append({summary.modes[m].name: labels[m] for m in others})
    return found


def class_changes(forecast: "Forecast", interval: float) -> "pd.DataFrame":
    """The mean counts per period of the home cells, in the last periods and in the coming ones."""
    import pandas as pd

    summary, mode = forecast.fitted.class_summary(), forecast.coming.mode
    cells, horizon = home_cells(summary, mode), len(forecast.periods)
    compared = forecast._compared
    past_NT = compared.past.by_period(cells, compared.tensor)[:, forecast.coming.past.observed_T]
    last_N: Floats = past_NT[:, -horizon:].mean(axis=1)
    # A class none of whose home cells was ever observed has no past, and so no change.
    found = compared.future.predict(cells, interval)[["rate", "low", "high"]].to_numpy(dtype=np.float64) / horizon
    expected_N, low_N, high_N = np.where(np.isfinite(last_N), found.T, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_N = expected_N / last_N
    return pd.DataFrame(
        {
            "name": list(summary.names),
            "last": last_N,
            "expected": expected_N,
            "low": low_N,
            "high": high_N,
            "ratio": ratio_N,
        },
        index=pd.Index(summary.number_C, name="class"),
    )

"""What the scores of a forecast mean, in sentences, whichever way they turn out."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from allocore.posterior.forecasts.forecast import Forecast
    from allocore.posterior.forecasts.future_counts import Happened

_CLEAR = 2.0  # standard errors
_JUDGED = {"mean": "the mean of all past periods", "last": "the last value"}
_MORE = {
    "year before": "the value one year before",
    "week before": "the value one week before",
    "day before": "the value one day before",
}
_SUBJECTS = {
    "cells": "By cell",
    "positive cells": "In cells with counts",
    "classes": "By class",
    "totals": "In the totals of the periods",
}


def words(table: "pd.DataFrame", future: "Happened", forecast: "Forecast") -> tuple[str, ...]:
    """One sentence for each scope, then what the reader should know of the data."""
    told = [_judge(table.xs(scope), subject) for scope, subject in _SUBJECTS.items()]  # type: ignore[arg-type]
    told += [*forecast.warnings, *forecast._compared.words()]
    if len(future.known) < len(forecast.periods):
        told.append(f"Only {', '.join(future.known)} of the coming periods could be scored.")
    if future.unknown_counts:
        told.append(
            f"{future.unknown_counts:,} counts of {future.unknown_labels} labels that the fit does not have were left "
            "out; no forecast could know of them."
        )
    return tuple(told)


def _judge(rows: "pd.DataFrame", subject: str) -> str:
    """Whether the forecast is better than the simple ones in CRPS, and how clearly."""
    if not rows["number"].iloc[0]:
        return f"{subject} there is nothing to score."
    own = float(rows["crps"].iloc[0])
    parts = [f"{_than(name)} ({float(row['crps']):.4g}, {_verdict(row)})" for name, row in rows.iloc[1:].iterrows()]
    worse = [name for name, row in rows.iloc[1:].iterrows() if not row["crps_difference"] > 0.0]
    start = f"{subject} the CRPS of the forecast is {own:.4g}, against {'; '.join(parts)}."
    if not worse:
        clear = [name for name, row in rows.iloc[1:].iterrows() if "not clearly" not in _verdict(row)]
        return f"{start} It is better than all of these{'' if len(clear) == len(parts) else ', but not clearly'}."
    return f"{start} It is NOT better than {' and '.join(_than(name) for name in worse)}."


def _than(name: object) -> str:
    return {**_JUDGED, **_MORE}[str(name)]


def _verdict(row: "pd.Series[float]") -> str:
    difference, error = row["crps_difference"], row["standard_error"]
    if not np.isfinite(error) or error == 0.0:
        return "better" if difference > 0.0 else "no better" if difference == 0.0 else "worse"
    kind = "better" if difference > 0.0 else "worse"
    return f"{kind}, {'clearly' if abs(difference) > _CLEAR * error else 'not clearly'}"

"""The results as tables: one row per job, a summary over splits, and paired differences."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from allocore.comparison.models import Job, shape_text
from allocore.findings import plus_minus
from allocore.posterior.scores import quartiles

CRITERIA = {"all": "log_ppd", "positive": "log_ppd_positive"}
SERIES = ["model", "core", "budget"]
Key = tuple[str, str, int]
Values = dict[Key, "pd.Series[float]"]
_SCORES = ("log_ppd", "log_ppd_positive")
_OF_A_CHAIN = ("log_ppd_chain", "log_ppd_positive_chain")
_MEASURED = ("seconds", "sweeps", "seconds_per_sweep", "classes")
_SUMMED = (*_OF_A_CHAIN, "seconds", "seconds_per_sweep", "classes", "peak_mb")


def results_table(
    outcomes: Sequence[dict[str, Any]], mode_names: Sequence[str], models: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row per job, sorted by model (those of `models` first), core, budget and split.

    `core` is the core that the user chose, and empty if it follows from the budget; `core_shape` is the core in either
    case. `log_ppd` is that of all `chains` together, `log_ppd_chain` the mean over chains of that of a single one.
    `classes` and `factors_<mode>` are the numbers in use, averaged over draws. A job that failed has an `error` and no
    numbers.
    """
    rows = [_row(outcome, mode_names) for outcome in outcomes]
    names = ["model", "estimator", "core", "budget", "core_shape", "split", *_SCORES, "ppd", "ppd_positive"]
    names += ["chains", *_OF_A_CHAIN, *_MEASURED]
    names += [*(f"factors_{name}" for name in mode_names), "peak_mb", "threads", "error"]
    table = pd.DataFrame(rows, columns=pd.Index(names))
    order = dict.fromkeys([*models, *sorted(set(table["model"]))])
    place = {model: number for number, model in enumerate(order)}
    return table.sort_values(
        [*SERIES, "split"], key=lambda column: column.map(place) if column.name == "model" else column, kind="stable"
    ).reset_index(drop=True)


def _row(outcome: dict[str, Any], mode_names: Sequence[str]) -> dict[str, Any]:
    job = Job.from_json(outcome["job"])
    shape = shape_text(job.core_shape)
    row: dict[str, Any] = {"model": job.model, "estimator": job.estimator, "core": shape if job.core else ""}
    row |= {"budget": job.budget, "core_shape": shape, "split": job.split, "error": outcome.get("error", "")}
    row |= {name: float(outcome.get(name, math.nan)) for name in (*_SCORES, *_MEASURED, "peak_mb", "threads")}
    row |= {"chains": dict(job.settings).get("chains", 1)}
    row |= {f"{name}_chain": float(outcome.get(f"{name}_chain", row[name])) for name in _SCORES}
    row |= {"ppd": math.exp(row["log_ppd"]), "ppd_positive": math.exp(row["log_ppd_positive"])}
    factors = outcome.get("factors", [math.nan] * len(mode_names))
    return row | {f"factors_{name}": number for name, number in zip(mode_names, factors, strict=True)}


def summary_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for every model, core and budget: medians over the splits, and quartiles of the log PPDs."""
    rows = []
    for (model, core, budget), group in table[table["error"] == ""].groupby(SERIES, sort=False):
        row: dict[str, Any] = {"model": model, "core": core, "budget": budget, "splits": len(group)}
        for name in CRITERIA.values():
            row |= dict(zip((f"{name}_25", name, f"{name}_75"), quartiles(group[name]), strict=True))
        row |= {name: group[name].median() for name in _SUMMED}
        rows.append(row)
    quantiles = [f"{name}{part}" for name in CRITERIA.values() for part in ("_25", "", "_75")]
    names = [*SERIES, "splits", *quantiles, *_SUMMED]
    return pd.DataFrame(rows, columns=pd.Index(names))


class Difference(NamedTuple):
    """How much higher one series is than another, over the splits that both have: mean and standard error.

    The standard error is that of the paired differences, because a split that is hard for one model is hard for all.
    It is NaN for a single split. Mean and error are NaN if there is no common split or a value is not finite.
    """

    mean: float
    error: float
    splits: int

    @property
    def clear(self) -> bool:
        """Whether the 95% interval of Student's t for the mean excludes 0; False for a single split."""
        if self.splits < 2 or math.isnan(self.error):
            return False
        return abs(self.mean) > float(stdtrit(self.splits - 1, 0.975)) * self.error

    def __str__(self) -> str:
        return plus_minus(self.mean, self.error)


def difference(higher: "pd.Series[float]", lower: "pd.Series[float]") -> Difference:
    """Return the paired difference of two series that are indexed by split."""
    both = pd.concat([higher, lower], axis=1, join="inner").dropna().to_numpy(dtype=float)
    if not len(both) or not np.isfinite(both).all():
        return Difference(math.nan, math.nan, len(both))
    apart = both[:, 0] - both[:, 1]
    error = apart.std(ddof=1) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return Difference(float(apart.mean()), float(error), len(apart))


def by_split(table: pd.DataFrame, value: str) -> Values:
    """Return the values of every model, core and budget, indexed by split, without failed jobs and NaN."""
    known = table[(table["error"] == "") & table[value].notna()]
    found: Values = {}
    for _, group in known.groupby(SERIES, sort=False):
        key = (str(group["model"].iloc[0]), str(group["core"].iloc[0]), int(group["budget"].iloc[0]))
        found[key] = group.set_index("split")[value]
    return found


def in_common(values: Values) -> Values:
    """Return the series whose means can be compared, all over the same splits: splits differ more than models do.

    A series may lack splits because its jobs failed or were not requested. Then either the others lose these splits,
    or the series is left out. The choice keeps as many models as possible, and then as many values as possible.
    """
    best: Values = {}
    score = (0, 0, 0)
    for least in sorted({len(each) for each in values.values()}):
        splits = set.intersection(*(set(each.index) for each in values.values() if len(each) >= least))
        kept = {key: each.loc[sorted(splits)] for key, each in values.items() if splits and splits <= set(each.index)}
        found = (len({key[:2] for key in kept}), len(kept) * len(splits), len(splits))
        if found > score:
            best, score = kept, found
    return best

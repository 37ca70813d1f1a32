"""What a comparison found, from its table of results. `allocore.findings` puts it into words."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from allocore.comparison.models import series_name
from allocore.findings import Finding, plus_minus

ENOUGH_SPLITS = 3  # with two, the 95% interval is 12.7 standard errors wide on each side
CRITERIA = {"all": "log_ppd", "positive": "log_ppd_positive"}
SERIES = ["model", "core", "budget"]
Key = tuple[str, str, int]
Values = dict[Key, "pd.Series[float]"]


class Difference(NamedTuple):
    """Mean and standard error of how much higher one series is than another, over the splits that both have.

    Differences are paired: a split that is hard for one model is hard for all. The error is NaN for a single split, and
    both are NaN if there is no common split or a value is not finite.
    """

    mean: float
    error: float
    splits: int

    @property
    def clear(self) -> bool | None:
        """Whether the 95% interval of Student's t for the mean excludes 0; None if too few splits include it."""
        if self.splits > 1 and abs(self.mean) > float(stdtrit(self.splits - 1, 0.975)) * self.error:
            return True
        return None if self.splits < ENOUGH_SPLITS or math.isnan(self.mean) else False

    def __str__(self) -> str:
        return plus_minus(self.mean, self.error)


def difference(higher: "pd.Series[float]", lower: "pd.Series[float]") -> Difference:
    """Return the paired difference of two series that are indexed by split."""
    both = pd.concat([higher, lower], axis=1, join="inner").dropna().to_numpy(dtype=float)
    if not len(both) or not np.isfinite(both).all():
        return Difference(math.nan, math.nan, len(both))
    gaps = both[:, 0] - both[:, 1]
    error = gaps.std(ddof=1) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return Difference(float(gaps.mean()), float(error), len(gaps))


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

    If a series lacks splits, either the others lose them or it is left out, whichever keeps more models, then values.
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


def comparison_findings(table: pd.DataFrame) -> list[Finding]:
    """Return all findings: which model predicts best, whether budgets and chains help, shrinkage, time, failures."""
    found: list[Finding] = []
    for cells, column in CRITERIA.items():
        values = by_split(table, column)
        found += impossible_counts(values) if cells == "all" else []
        finite = _finite(values)
        found += [*best_models(finite, cells), *worse_with_budget(finite, cells), *left_out(finite, cells)]
    return [
        *found,
        *how_differences_are_measured(table),
        *pooled_chains(table),
        *classes_in_use(table),
        *fit_times(table),
        *failed_jobs(table),
        *splits_without_counts(table),
    ]


def best_models(values: Values, cells: str) -> Iterator[Finding]:
    """Yield which models predict best, at which budget, and how far the others are behind at their best budget."""
    values = in_common(values)
    best = best_budgets(values)
    if not best:
        return
    first = max(best, key=lambda key: values[key].mean())
    gaps = {key: difference(values[first], values[key]) for key in best if key != first}
    tied = [key for key, gap in gaps.items() if gap.clear is False]
    winners = [_at(key) | {"mean": float(values[key].mean())} for key in (first, *tied)]
    differences = [_numbers(gaps[key]) for key in tied]
    yield Finding("best-models", "note", {"cells": cells, "models": winners, "differences": differences})
    for key, gap in gaps.items():
        if key not in tied:
            yield Finding("behind-the-best", "note", _at(key) | _numbers(gap))


def best_budgets(values: Values) -> list[Key]:
    """Return for every model and core the budget with the highest mean over common splits; the smallest of equals."""
    values = in_common(values)
    best: dict[tuple[str, str], Key] = {}
    for key in sorted(values, key=lambda each: each[2]):
        before = best.get(key[:2])
        if before is None or values[key].mean() > values[before].mean():
            best[key[:2]] = key
    return [best[series] for series in dict.fromkeys(key[:2] for key in values)]


def worse_with_budget(values: Values, cells: str) -> Iterator[Finding]:
    """Yield whether each model gets worse beyond its best budget."""
    values = in_common(values)
    for best in best_budgets(values):
        last = max(key for key in values if key[:2] == best[:2])
        loss = difference(values[best], values[last])
        if last != best and not math.isnan(loss.error):
            budgets = {"cells": cells, "model": series_name(*best[:2]), "best": best[2], "largest": last[2]}
            yield Finding("worse-with-budget", "note", budgets | _numbers(loss))


def left_out(values: Values, cells: str) -> Iterator[Finding]:
    """Yield the splits and budgets that the means leave out, because not all compared series have them."""
    compared = in_common(values)
    if values and not compared:
        yield Finding("no-common-split", "caution", {"cells": cells})
        return
    splits = len(next(iter(compared.values()))) if compared else 0
    every = len({split for each in values.values() for split in each.index})
    if splits < every:
        yield Finding("splits-left-out", "caution", {"cells": cells, "splits": splits, "of": every})
    models = [_at(key) for key in values if key not in compared]
    if models:
        yield Finding("budgets-left-out", "caution", {"cells": cells, "models": models})


def impossible_counts(values: Values) -> Iterator[Finding]:
    """Yield the models that gave probability 0 to a count that was observed."""
    for series in dict.fromkeys(key[:2] for key in values):
        numbers = np.concatenate([each.to_numpy() for key, each in values.items() if key[:2] == series])
        fits = int(np.isneginf(numbers).sum())
        if fits:
            yield Finding(
                "impossible-counts", "caution", {"model": series_name(*series), "fits": fits, "of": len(numbers)}
            )


def how_differences_are_measured(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield one finding that says how differences are measured, if there are any."""
    values = in_common(_finite(by_split(table, CRITERIA["all"])))
    splits = len(next(iter(values.values()))) if values else 0
    if len(values) > 1 and splits > 1:
        yield Finding("paired-differences", "note", {"splits": splits})
    if len(values) > 1:
        yield from few_splits(splits)


def few_splits(splits: int) -> Iterator[Finding]:
    """Yield a finding if splits are too few to tell a difference from chance."""
    if splits < ENOUGH_SPLITS:
        yield Finding("few-splits", "caution", {"splits": splits, "least": ENOUGH_SPLITS})


def pooled_chains(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield how much better all chains predict together than one chain does, at the largest budget of each model."""
    for key, last in _largest_budgets(table[table["chains"] > 1]):
        by = last.set_index("split")
        gains = {cells: difference(by[column], by[f"{column}_chain"]) for cells, column in CRITERIA.items()}
        known = {cells: _numbers(gain) for cells, gain in gains.items() if not math.isnan(gain.mean)}
        if known:
            yield Finding("pooled-chains", "note", _at(key) | {"chains": int(last["chains"].iloc[0]), "gains": known})


def classes_in_use(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield how many classes ALL0CORE and CP use of the largest budget of each."""
    modes = [name for name in table.columns if name.startswith("factors_")]
    for key, last in _largest_budgets(table[table["estimator"].isin(["AlloCore", "CP"])]):
        factors = {name.removeprefix("factors_"): float(last[name].median()) for name in modes}
        used = float(last["classes"].median())
        yield Finding("classes-in-use", "note", _at(key) | {"classes": used, "factors": factors})


def fit_times(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield the median time of a fit of each model at its largest budget."""
    times = [_at(key) | {"seconds": float(last["seconds"].median())} for key, last in _largest_budgets(table)]
    if times:
        yield Finding("fit-times", "note", {"times": times})


def failed_jobs(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield the jobs that failed, by their error."""
    failed = table[table["error"] != ""]
    for error, group in failed.groupby("error", sort=False):
        keys = zip(*(group[name].tolist() for name in (*SERIES, "split")), strict=True)
        jobs = [_at((model, core, budget)) | {"split": split} for model, core, budget, split in keys]
        yield Finding("failed-jobs", "poor", {"jobs": jobs, "error": str(error)})


def splits_without_counts(table: pd.DataFrame) -> Iterator[Finding]:
    """Yield the splits that held out no cell with a count."""
    done = table[table["error"] == ""]
    empty = sorted(int(split) for split in set(done[done["log_ppd_positive"].isna()]["split"]))
    if empty:
        yield Finding("splits-without-counts", "caution", {"splits": empty})


def best_at_each_budget(table: pd.DataFrame, criterion: str) -> pd.DataFrame:
    """Return for every budget with two or more models the best, the second best, and their difference."""
    values = _finite(by_split(table, CRITERIA[criterion]))
    rows = []
    for budget in sorted({key[2] for key in values}):
        here = in_common({key: each for key, each in values.items() if key[2] == budget})
        if len(here) > 1:
            first, second = sorted(here, key=lambda key: -here[key].mean())[:2]
            gap = difference(here[first], here[second])
            gap = gap._replace(mean=max(gap.mean, 0.0))  # rounding may make the difference of equal means negative
            clear = "unknown" if gap.clear is None else "yes" if gap.clear else "no"
            rows.append((budget, series_name(*first[:2]), series_name(*second[:2]), str(gap), gap.splits, clear))
    return pd.DataFrame(rows, columns=pd.Index(["Q", "best", "next", "higher by", "splits", "clear"]))


def _largest_budgets(table: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    for (model, core), group in table[table["error"] == ""].groupby(["model", "core"], sort=False):
        budget = int(group["budget"].max())
        yield (str(model), str(core), budget), group[group["budget"] == budget]


def _finite(values: Values) -> Values:
    return {key: each for key, each in values.items() if np.isfinite(each.to_numpy()).all()}


def _at(key: Key) -> dict[str, Any]:
    return {"model": series_name(*key[:2]), "budget": int(key[2])}


def _numbers(gap: Difference) -> dict[str, Any]:
    return {"difference": gap.mean, "error": gap.error, "clear": gap.clear}

"""A comparison in sentences that follow from its numbers alone."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from allocore.comparison.model_names import kind_of, printed
from allocore.comparison.score_tables import CRITERIA, SERIES, Difference, Key, Values, by_split, difference, in_common
from allocore.data.display import plural

_NAMES = {"all": "all held-out cells", "positive": "held-out cells with counts"}


def series_name(model: str, core: str) -> str:
    """Return the printed name of a model: its likelihood and what it learns in brackets, and its core if chosen.

    Examples
    --------
    >>> series_name("cp", ""), series_name("allocore-nb", "")
    ('CP', 'ALL0CORE (negative binomial)')
    """
    name, details = printed(model, core)
    return f"{name} ({details})" if details else name


def at(key: Key) -> str:
    """Return a model and its budget in words."""
    return f"{series_name(*key[:2])} at Q = {key[2]:,}"


def words(table: pd.DataFrame) -> list[str]:
    """Return all sentences: which model predicts best, whether budgets and chains help, shrinkage, time, failures."""
    found: list[str] = []
    for criterion, value in CRITERIA.items():
        values = by_split(table, value)
        found += [*zero_probabilities(values, criterion)] if criterion == "all" else []
        finite = _finite(values)
        found += [*best_of_all(finite, criterion), *growth(finite, criterion), *not_compared(finite, criterion)]
    return [*found, *on_differences(table), *pooling(table), *shrinkage(table), *costs(table), *what_is_missing(table)]


def best_of_all(values: Values, criterion: str) -> Iterator[str]:
    """Yield which model predicts best, at which budget, and how far the others are behind at their best."""
    values = in_common(values)
    best = best_budgets(values)
    if not best:
        return
    first = max(best, key=lambda key: values[key].mean())
    gaps = {key: difference(values[first], values[key]) for key in best if key != first}
    tied = [key for key, gap in gaps.items() if not gap.clear and not math.isnan(gap.error)]
    yield f"Of {_NAMES[criterion]}, {_winners([first, *tied], values, gaps)}."
    for key, gap in gaps.items():
        if key not in tied:
            yield f"{at(key)}, its best, is {lower(gap)}{judgement(gap)}."


def _winners(tied: list[Key], values: Values, gaps: dict[Key, Difference]) -> str:
    """Return which model predicts best, or that several do: a difference that is not clear has no winner."""
    means = [values[key].mean() for key in tied]
    if len(tied) == 1:
        return f"{at(tied[0])} predicts best: mean log PPD {means[0]:.4g}, PPD {math.exp(means[0]):.4g}"
    apart = [str(gap._replace(mean=max(gap.mean, 0.0))) for gap in (gaps[key] for key in tied[1:])]
    what = "their difference" if len(apart) == 1 else "the differences from the first"
    return (
        f"{_and(map(at, tied))} predict best, a tie: mean log PPD {_and(f'{mean:.4g}' for mean in means)}; {what}, "
        f"{_and(apart)}, {'is' if len(apart) == 1 else 'are'} not clear"
    )


def _and(parts: Iterable[str]) -> str:
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def best_budgets(values: Values) -> list[Key]:
    """Return for every model and core the budget with the highest mean over common splits; the smallest of equals."""
    values = in_common(values)
    best: dict[tuple[str, str], Key] = {}
    for key in sorted(values, key=lambda each: each[2]):
        before = best.get(key[:2])
        if before is None or values[key].mean() > values[before].mean():
            best[key[:2]] = key
    return [best[series] for series in dict.fromkeys(key[:2] for key in values)]


def lower(gap: Difference) -> str:
    """Return in words how far a series is behind the best; a negative gap can only be rounding."""
    return f"lower by {gap}" if gap.mean > 0 else f"equal (difference {Difference(0.0, gap.error, gap.splits)})"


def judgement(gap: Difference) -> str:
    """Return in words, as the end of a sentence, whether a difference over splits is clear."""
    if math.isnan(gap.error):
        return ": from one split, so its spread is unknown"
    return ", a clear difference" if gap.clear else ", which is not clear"


def on_differences(table: pd.DataFrame) -> Iterator[str]:
    """Yield once what the numbers of all differences are, if there are any."""
    values = in_common(_finite(by_split(table, CRITERIA["all"])))
    splits = len(next(iter(values.values()))) if values else 0
    if len(values) > 1 and splits > 1:
        yield (
            f"Differences are means \u00b1 standard errors over {splits} splits, paired within splits; clear ones "
            "have 0 outside their 95% interval."
        )


def growth(values: Values, criterion: str) -> Iterator[str]:
    """Yield whether each model gets worse beyond its best budget."""
    values = in_common(values)
    for best in best_budgets(values):
        last = max(key for key in values if key[:2] == best[:2])
        if last == best:
            continue
        loss = difference(values[best], values[last])
        name, span = series_name(*best[:2]), f"from Q = {best[2]:,} to Q = {last[2]:,}"
        about = "" if criterion == "all" else " (cells with counts)"
        if not math.isnan(loss.error):
            verb = "gets worse" if loss.clear else "does not get clearly worse"
            yield f"{name} {verb} {span}{about}: {lower(loss)}."


def not_compared(values: Values, criterion: str) -> Iterator[str]:
    """Yield the splits and budgets that the means leave out, because not all compared series have them."""
    compared = in_common(values)
    splits = len(next(iter(compared.values()))) if compared else 0
    every = len({split for each in values.values() for split in each.index})
    about = "Means" if criterion == "all" else "Means of cells with counts"
    if values and not compared:
        yield f"{about} are not compared: no split is common to all models."
        return
    if splits < every:
        yield f"{about} are over {splits} of {every} splits: those that all compared models have."
    gone = [at(key) for key in values if key not in compared]
    if gone:
        yield f"{about} leave out {', '.join(gone)}, which {'lacks' if len(gone) == 1 else 'lack'} splits."


def _finite(values: Values) -> Values:
    return {key: each for key, each in values.items() if np.isfinite(each.to_numpy()).all()}


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
            clear = "unknown" if math.isnan(gap.error) else "yes" if gap.clear else "no"
            rows.append((budget, series_name(*first[:2]), series_name(*second[:2]), str(gap), gap.splits, clear))
    return pd.DataFrame(rows, columns=pd.Index(["Q", "best", "next", "higher by", "splits", "clear"]))


def pooling(table: pd.DataFrame) -> Iterator[str]:
    """Yield how much better all chains predict together than one chain does, at the largest budget of each model."""
    done = table[(table["error"] == "") & (table["chains"] > 1)]
    for (model, core), group in done.groupby(["model", "core"], sort=False):
        last = group[group["budget"] == group["budget"].max()]
        key = (str(model), str(core), int(last["budget"].iloc[0]))
        gains = [
            f"{gain} ({_NAMES[criterion]})"
            for criterion, value in CRITERIA.items()
            if not math.isnan(
                (gain := difference(*(last.set_index("split")[n] for n in (value, f"{value}_chain")))).mean
            )
        ]
        if gains:
            chains = int(last["chains"].iloc[0])
            yield f"{at(key)}: {chains} chains together have a higher log PPD than one, by {' and '.join(gains)}."


def shrinkage(table: pd.DataFrame) -> Iterator[str]:
    """Yield how many classes ALL0CORE and CP use of the largest budget of each."""
    kinds = table["model"].map(kind_of)
    done = table[(table["error"] == "") & kinds.isin(["allocore", "cp"])]
    for (model, core), group in done.groupby(["model", "core"], sort=False):
        last = group[group["budget"] == group["budget"].max()]
        budget, used = int(last["budget"].iloc[0]), last["classes"].median()
        factors = ", ".join(
            f"{last[name].median():.0f} {name.removeprefix('factors_')}"
            for name in table.columns
            if name.startswith("factors_")
        )
        yield (
            f"{series_name(str(model), str(core))} uses {used:.0f} of {budget:,} classes ({used / budget:.0%}) at its "
            f"largest budget; factors in use: {factors}."
        )


def costs(table: pd.DataFrame) -> Iterator[str]:
    """Yield the time of a fit of each model at its largest budget."""
    done = table[table["error"] == ""]
    times = []
    for (model, core), group in done.groupby(["model", "core"], sort=False):
        last = group[group["budget"] == group["budget"].max()]
        name, budget = series_name(str(model), str(core)), int(last["budget"].iloc[0])
        times.append(f"{name} {last['seconds'].median():,.3g} s at Q = {budget:,}")
    if times:
        yield f"Median time of a fit: {'; '.join(times)}."


def zero_probabilities(values: Values, criterion: str) -> Iterator[str]:
    """Yield the models that gave probability 0 to a count that was observed."""
    for series in dict.fromkeys(key[:2] for key in values):
        numbers = np.concatenate([each.to_numpy() for key, each in values.items() if key[:2] == series])
        impossible = int(np.isneginf(numbers).sum())
        if impossible:
            yield (
                f"{series_name(*series)} gave probability 0 to a held-out count in {impossible} of {len(numbers)} "
                "fits: its PPD is 0 there, and budgets with such a fit are left out of the comparison of means."
            )


def what_is_missing(table: pd.DataFrame) -> Iterator[str]:
    """Yield the jobs that failed, and the splits that held out no count."""
    failed = table[table["error"] != ""]
    for error, group in failed.groupby("error", sort=False):
        keys = zip(*(group[name].tolist() for name in (*SERIES, "split")), strict=True)
        which = [f"{at((model, core, budget))}, split {split}" for model, core, budget, split in keys]
        more = f" and {len(which) - 3} more" if len(which) > 3 else ""
        yield f"{plural(len(which), 'job')} failed ({'; '.join(which[:3])}{more}): {str(error).rstrip('.')}."
    done = table[table["error"] == ""]
    empty = sorted(set(done[done["log_ppd_positive"].isna()]["split"]))
    if empty:
        which_splits = f"Split{'s' * (len(empty) > 1)} {', '.join(map(str, empty))}"
        yield f"{which_splits} held out no cell with a count: hold out more to judge predictions of counts."

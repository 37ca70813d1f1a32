"""The classes and factors of one draw as tables: their sizes, their heaviest labels, and which classes share them."""

import numpy as np
import pandas as pd

from allocore.errors import InputError
from allocore.posterior.draw_summary import DrawSummary, Factor


def class_table(summary: DrawSummary, top: int) -> pd.DataFrame:
    """Return one row per class, largest first: see `Posterior.classes`."""
    table = pd.DataFrame({"value": summary.value_C, "share": summary.share_C})
    table["cumulative"] = table["share"].cumsum()
    table["stability"], table["stable_chains"] = summary.stability.draws_C, summary.stability.chains_C
    numbers = range(len(table))
    for mode, name in enumerate(summary.names):
        table[f"{name}_factor"] = summary.location_CM[:, mode]
    for mode, name in enumerate(summary.names):
        table[f"{name}_top"] = [summary.factor(number, mode).words(top) for number in numbers]
    for mode, shown in enumerate(summary.modes):
        if shown.kind == "time":
            table[f"{shown.name}_peak"] = [summary.factor(number, mode).peak_words() for number in numbers]
    for mode, name in enumerate(summary.names):
        table[f"{name}_shared"] = pd.Series([summary.partners(number, mode) for number in numbers], dtype=object)
    table.index.name = "class"
    return table


def factor_table(summary: DrawSummary, mode: int, number: int) -> pd.DataFrame:
    """Return one row per label of a factor: see `Posterior.factor`."""
    factor = factor_of(summary, mode, number)
    rows = slice(None) if factor.mode.kind in ("time", "order") else factor.heaviest
    index = pd.Index(list(factor.mode.labels), name=factor.mode.name)
    table = pd.DataFrame({"share": factor.share_D}, index=index).iloc[rows]
    table.attrs["classes"] = factor.classes
    return table


def factor_of(summary: DrawSummary, mode: int, number: int) -> Factor:
    """Return a factor in use; the error for any other number lists those in use."""
    try:
        return summary.factors[mode][number]
    except (KeyError, TypeError):
        name, used = summary.names[mode], sorted(summary.factors[mode])
        shown = ", ".join(map(str, used[:20])) + (f" and {len(used) - 20} more" if len(used) > 20 else "")
        raise InputError(f"k is {number!r}, but it must be one of the {name} factors in use: {shown}") from None


def sharing_table(summary: DrawSummary, mode: int, top: int) -> pd.DataFrame:
    """Return one row per factor in use: see `Posterior.sharing`."""
    factors = sorted(summary.factors[mode].values(), key=lambda factor: -factor.mass)
    return pd.DataFrame(
        {
            "share": [factor.mass for factor in factors],
            "number": [len(factor.classes) for factor in factors],
            "classes": pd.Series([factor.classes for factor in factors], dtype=object).to_numpy(),
            "top": [factor.words(top) for factor in factors],
        },
        index=pd.Index([factor.number for factor in factors], name=f"{summary.names[mode]}_factor"),
    )


def summary_sentences(summary: DrawSummary) -> str:
    """Return how many classes are in use, how many hold most of the counts, and how many factors they use."""
    used = ", ".join(f"{number} {name}" for number, name in zip(summary.factors_in_use, summary.names, strict=True))
    classes = "1 class holds" if summary.in_use == 1 else f"{summary.in_use} classes hold"
    half, most = (f"{number} hold{'s' * (number == 1)}" for number in map(summary.holding, (0.5, 0.95)))
    return (
        f"{classes} counts, of a budget of {summary.budget}; {half} 50% of the {summary.counted}, {most} 95%. "
        f"Factors in use: {used}.{_inferred(summary)}"
    )


def _inferred(summary: DrawSummary) -> str:
    if summary.inferred is None:
        return ""
    low, median, high = np.quantile(summary.inferred, (0.025, 0.5, 0.975), method="nearest")
    return f" The budget was inferred: {median} classes are on (median of all draws, 95% from {low} to {high})."

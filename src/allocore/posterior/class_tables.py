"""Classes and factors as tables: their sizes, their heaviest labels, and which classes share them."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from allocore.errors import InputError
from allocore.kernels.arrays import Floats
from allocore.posterior.class_summary import ClassSummary, Factor, ShownMode
from allocore.posterior.consensus.consensus_estimates import ProfileBand


def class_table(summary: ClassSummary, top: int) -> pd.DataFrame:
    """Return one row per class, largest first: see `Posterior.classes` and `Consensus.classes`."""
    table = _consensus_sizes(summary) if summary.is_consensus else _draw_sizes(summary)
    places = range(len(summary.value_C))
    for mode, name in enumerate(summary.mode_names):
        table[f"{name}_factor"] = summary.location_CM[:, mode]
    for mode, name in enumerate(summary.mode_names):
        table[f"{name}_top"] = [summary.profile(place, mode).words(top) for place in places]
    for mode, shown in enumerate(summary.modes):
        if shown.kind == "time":
            table[f"{shown.name}_peak"] = [summary.profile(place, mode).peak_words() for place in places]
    for mode, name in enumerate(summary.mode_names):
        shared = [summary.numbers(summary.partners(place, mode)) for place in places]
        table[f"{name}_shared"] = pd.Series(shared, dtype=object).to_numpy()
    table.index = pd.Index(summary.number_C, name="class")
    table.attrs["source"] = summary.source
    return table


def _draw_sizes(summary: ClassSummary) -> pd.DataFrame:
    table = pd.DataFrame({"value": summary.value_C, "share": summary.share_C})
    table["cumulative"] = table["share"].cumsum()
    table["stability"], table["stable_chains"] = summary.support.draws_C, summary.support.chains_C
    return table


def _consensus_sizes(summary: ClassSummary) -> pd.DataFrame:
    assert summary.interval_C2 is not None
    return pd.DataFrame(
        {
            "name": list(summary.names),
            "value": summary.value_C,
            "share": summary.share_C,
            "share_low": summary.interval_C2[:, 0],
            "share_high": summary.interval_C2[:, 1],
            "support": summary.support.chains_C,
            "support_draws": summary.support.draws_C,
            "apart": summary.apart_C,
        }
    )


def factor_table(summary: ClassSummary, mode: int, number: int) -> pd.DataFrame:
    """Return one row per label of a factor: see `Posterior.factor`."""
    factor = factor_of(summary, mode, number)
    table = _by_label(factor.mode, pd.DataFrame({"share": factor.share_D}))
    table.attrs["classes"] = summary.numbers(factor.classes)
    return table


def band_table(mode: ShownMode, band: ProfileBand, place: int) -> pd.DataFrame:
    """Return one row per label of a profile, with intervals: see `Consensus.factor`."""
    columns = {"share": band.mean, "median": band.median, "low": band.low, "high": band.high}
    return _by_label(mode, pd.DataFrame({name: values[:, place] for name, values in columns.items()}))


def _by_label(mode: ShownMode, table: pd.DataFrame) -> pd.DataFrame:
    """The rows by label: heaviest first, or in their order if they have one."""
    table.index = pd.Index(list(mode.labels), name=mode.name)
    if mode.kind in ("time", "order"):
        return table
    return table.iloc[np.argsort(-table["share"].to_numpy(), kind="stable")]


def factor_of(summary: ClassSummary, mode: int, number: int) -> Factor:
    """Return a factor in use; the error for any other number lists those in use."""
    try:
        return summary.factors[mode][number]
    except (KeyError, TypeError):
        name, used = summary.mode_names[mode], sorted(summary.factors[mode])
        shown = ", ".join(map(str, used[:20])) + (f" and {len(used) - 20} more" if len(used) > 20 else "")
        raise InputError(f"k is {number!r}, but it must be one of the {name} factors in use: {shown}") from None


def sharing_table(summary: ClassSummary, mode: int, top: int) -> pd.DataFrame:
    """Return one row per factor in use: see `Posterior.sharing`."""
    factors = sorted(summary.factors[mode].values(), key=lambda factor: -factor.mass)
    return pd.DataFrame(
        {
            "share": [factor.mass for factor in factors],
            "number": [len(factor.classes) for factor in factors],
            "classes": pd.Series([summary.numbers(factor.classes) for factor in factors], dtype=object).to_numpy(),
            "top": [factor.words(top) for factor in factors],
        },
        index=pd.Index([factor.number for factor in factors], name=f"{summary.mode_names[mode]}_factor"),
    )


def sharing_pairs(summary: ClassSummary, both: Floats, modes: Iterable[int], least: float) -> pd.DataFrame:
    """Return one row per pair of classes and mode, surest first: see `Consensus.sharing`."""
    if not isinstance(least, int | float | np.floating) or not 0.0 <= least <= 1.0:
        raise InputError(f"least is {least!r}, but it must be a probability from 0 to 1")
    assert summary.sharing is not None
    parts = []
    for mode in modes:
        one, other = np.triu_indices(len(summary.number_C), 1)
        probability = summary.sharing[mode][one, other]
        pairs = np.sort(np.stack([summary.number_C[one], summary.number_C[other]]), axis=0)
        columns = {"mode": summary.mode_names[mode], "class": pairs[0], "other": pairs[1], "probability": probability}
        columns["draws"] = both[one, other]
        parts.append(pd.DataFrame(columns)[probability >= max(least, np.finfo(float).tiny)])
    table = pd.concat(parts, ignore_index=True)
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

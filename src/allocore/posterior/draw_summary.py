"""The summary of one draw: its classes by size, their profiles and factors. Classes at the same location are one."""

import operator
from dataclasses import replace

import numpy as np

from allocore.errors import InputError
from allocore.kernels.arrays import Flags, Floats
from allocore.posterior.class_names import class_names
from allocore.posterior.class_profiles import ClassReader
from allocore.posterior.class_summary import ClassSummary, Profile, ShownMode, factors_in_use, is_even, shown_modes
from allocore.posterior.stability import stability
from allocore.run.record import Record


def summarize_draw(reader: ClassReader, chain: int, draw: int, source: str) -> ClassSummary:
    """Summarize one draw: see `Posterior.draw_summary`."""
    record, classes = reader.record, reader.read(chain, draw)
    location_CM, value_C = classes.location_CM, classes.value_C
    share_C = classes.share_C
    modes = shown_modes(record.tensor)
    observed = [record.tensor.missing.observed_rows(mode) for mode in range(len(modes))]
    profiles, factors = [], []
    for m, mode in enumerate(modes):
        profiles.append(_profiles(mode, classes.profiles[m], observed[m]))
        own = _profiles(mode, classes.factors[m], observed[m])
        factors.append(factors_in_use(mode, location_CM[:, m], own, share_C))
    summary = ClassSummary(
        tensor=record.tensor,
        source=source,
        sentences="",
        counted=record.spec.observation.class_sizes,
        modes=modes,
        number_C=np.arange(len(value_C)),
        names=class_names(record.tensor, tuple(profiles)),
        value_C=value_C,
        share_C=share_C,
        interval_C2=None,
        support=stability(reader, chain, draw),
        apart_C=np.zeros(len(value_C), dtype=bool),
        location_CM=location_CM,
        factors=tuple(factors),
        profiles=tuple(profiles),
        factor_shares=classes.factors,
        sharing=None,
        draw=(chain, draw),
    )
    return replace(summary, sentences=_sentences(record, chain, draw, summary))


def _profiles(mode: ShownMode, share_DC: Floats, observed_D: Flags) -> tuple[Profile, ...]:
    return tuple(Profile(mode, share_D, is_even(share_D[observed_D])) for share_D in share_DC.T)


def _sentences(record: Record, chain: int, draw: int, summary: ClassSummary) -> str:
    """How many classes are in use, how many hold most of the counts, and how many factors they use."""
    in_use, factors_M = _in_use(record, chain, draw, summary)
    used = ", ".join(f"{number} {name}" for number, name in zip(factors_M, summary.mode_names, strict=True))
    classes = "1 class holds" if in_use == 1 else f"{in_use} classes hold"
    half, most = (f"{number} hold{'s' * (number == 1)}" for number in map(summary.holding, (0.5, 0.95)))
    return (
        f"{classes} counts, of a budget of {record.spec.budget}; {half} 50% of the {summary.counted}, {most} 95%. "
        f"Factors in use: {used}.{inferred_budget(record)}"
    )


def _in_use(record: Record, chain: int, draw: int, summary: ClassSummary) -> tuple[int, list[int]]:
    """How many classes hold counts, and how many factors they use; all locations if a damaged run has no trace."""
    sweep = record.draw_sweeps[draw] - 1
    classes, factors_M = record.stats["classes"][chain, sweep], record.stats["factors"][chain, sweep]
    counted = zip(factors_M, summary.factors, strict=True)
    return (
        int(classes) if np.isfinite(classes) else len(summary.value_C),
        [int(told) if np.isfinite(told) else len(every) for told, every in counted],
    )


def inferred_budget(record: Record) -> str:
    """How many classes are on, if the budget was inferred: a sentence after a space; empty if it was not."""
    if not record.spec.infer_budget:
        return ""
    included = (record.core_values > 0.0).sum(axis=2).ravel()
    low, median, high = np.quantile(included, (0.025, 0.5, 0.975), method="nearest")
    return f" The budget was inferred: {median} classes are on (median of all draws, 95% from {low} to {high})."


def place_of(name: str, value: int, length: int) -> int:
    """The place of a chain or draw that is given by its number; negative numbers count from the end."""
    try:
        place = operator.index(value)
    except TypeError:
        rule = "a whole number or 'best'" if name == "draw" else "a whole number"
        raise InputError(f"{name} is {value!r}, but it must be {rule}") from None
    if not -length <= place < length:
        raise InputError(f"{name} is {value}, but there are {length}: it must be from {-length} to {length - 1}")
    return place % length

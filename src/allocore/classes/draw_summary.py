"""The summary of one draw: its classes by size, their profiles and factors, and how stable they are.

Classes at the same location are one. Two classes are *alike* if in every mode the cosine of their profiles (Tucker's
coefficient of congruence) is at least 0.9. The classes of two draws are matched one to one. A draw *holds* a class of
the reference draw if one of its classes is matched with it. If two classes became one in a draw, it holds one of them.
"""

import operator
from itertools import chain as joined

import numpy as np

from allocore.classes.matching import Directions, evenly_spaced, match
from allocore.classes.names import class_names
from allocore.classes.profiles import HELD, ClassReader, DrawClasses
from allocore.classes.summary import ClassSummary, Support, factors_in_use, profiles_of, shown_modes
from allocore.errors import InputError
from allocore.findings import Finding
from allocore.kernels.elementary import Flags, Floats
from allocore.storage.record import Record

# Lorenzo-Seva and ten Berge (2006) call factors fairly similar from 0.85 on and equal from 0.95 on. Draws of the same
# class differ by posterior noise, so equality in every mode would be too strict.
_ALIKE = 0.9
# With 100 draws, the standard error of a share is at most 5 points. At the largest budgets this takes seconds.
_COMPARED_DRAWS = 100
# Tucker cores can have more locations than can be matched; those beyond the thousand largest hardly matter.
_COMPARED_CLASSES = 1000


def summarize_draw(reader: ClassReader, chain: int, draw: int, source: str) -> ClassSummary:
    """Return the summary of one draw; `source` names the draw."""
    record, classes = reader.record, reader.read(chain, draw)
    tensor, modes = record.tensor, shown_modes(record.tensor)
    profiles, factors = [], []
    for m, mode in enumerate(modes):
        observed_D = tensor.missing.observed_rows(m)
        profiles.append(profiles_of(mode, observed_D, classes.profiles[m]))
        own = profiles_of(mode, observed_D, classes.factors[m])
        factors.append(factors_in_use(mode, classes.location_CM[:, m], own, classes.share_C))
    return ClassSummary(
        tensor=tensor,
        source=source,
        findings=(_size_finding(record, chain, draw, classes), *inferred_budget(record)),
        counted=record.spec.observation.class_sizes,
        modes=modes,
        number_C=np.arange(len(classes.value_C)),
        names=class_names(tensor, tuple(profiles)),
        value_C=classes.value_C,
        share_C=classes.share_C,
        interval_C2=None,
        support=stability(reader, chain, draw),
        apart_C=np.zeros(len(classes.value_C), dtype=bool),
        location_CM=classes.location_CM,
        factors=tuple(factors),
        profiles=tuple(profiles),
        factor_shares=classes.factors,
        sharing=None,
        draw=(chain, draw),
    )


def _size_finding(record: Record, chain: int, draw: int, classes: DrawClasses) -> Finding:
    """How many classes are in use, how many hold most of the counts, and how many factors they use.

    If a damaged run has no trace at this draw, all locations count as in use.
    """
    sweep = record.draw_sweeps[draw] - 1
    in_use, factors_M = record.stats["classes"][chain, sweep], record.stats["factors"][chain, sweep]
    known_M = [len(np.unique(column)) for column in classes.location_CM.T]
    factors = [int(used) if np.isfinite(used) else known for used, known in zip(factors_M, known_M, strict=True)]
    values = {
        "classes": int(in_use) if np.isfinite(in_use) else len(classes.value_C),
        "budget": record.spec.budget,
        "half": holding(classes.share_C, 0.5),
        "most": holding(classes.share_C, 0.95),
        "counted": record.spec.observation.class_sizes,
        "factors": dict(zip(record.tensor.mode_names, factors, strict=True)),
    }
    return Finding("classes-of-draw", values=values)


def holding(share_C: Floats, level: float) -> int:
    """Return how many of the largest classes together hold this share of their expected counts."""
    held_C = np.cumsum(share_C) / (share_C.sum() or 1.0)
    return int((held_C < level - 1e-12).sum()) + 1


def inferred_budget(record: Record) -> tuple[Finding, ...]:
    """Return how many classes are on, if the budget was inferred."""
    if not record.spec.infer_budget:
        return ()
    included = (record.core_values > 0.0).sum(axis=2).ravel()
    low, median, high = np.quantile(included, (0.025, 0.5, 0.975), method="nearest").tolist()
    return (Finding("inferred-budget", values={"median": median, "low": low, "high": high}),)


def stability(reader: ClassReader, chain: int, draw: int) -> Support:
    """Compare the classes of one draw with those of up to about 100 others, spread evenly over all chains.

    The draw itself does not count. A share is NaN if there is no other draw, or no other chain.
    """
    classes = reader.read(chain, draw)
    reference, number = _directions_of_draw(classes), len(classes.value_C)
    chains, draws = reader.record.core_values.shape[:2]
    held = []
    for other in range(chains):
        places = _other_draws(draws, max(1, _COMPARED_DRAWS // chains), draw if other == chain else None)
        held.append([_held(reference, reader.read(other, place, _COMPARED_CLASSES)) for place in places])
    draws_C, chains_C = np.full(number, np.nan), np.full(number, np.nan)
    compared = slice(min(number, _COMPARED_CLASSES))
    by_draw = list(joined.from_iterable(held))
    if by_draw:
        draws_C[compared] = np.mean(by_draw, axis=0)
    if chains > 1:
        chains_C[compared] = np.mean([np.mean(of_chain, axis=0) >= HELD for of_chain in held if of_chain], axis=0)
    return Support(draws_C, chains_C, chains)


def _other_draws(draws: int, most: int, left_out: int | None) -> list[int]:
    """At most `most` draws without the one that is left out, evenly spaced."""
    others = np.array([draw for draw in range(draws) if draw != left_out], dtype=np.int64)
    return list(others[evenly_spaced(len(others), most)].tolist()) if len(others) else []


def _directions_of_draw(classes: DrawClasses) -> Directions:
    return Directions.of([profile_DC[:, :_COMPARED_CLASSES] for profile_DC in classes.profiles])


def _held(reference: Directions, other: DrawClasses) -> Flags:
    """Which classes of the reference have a partner in the other draw."""
    held_C = np.zeros(len(reference.unit[0]), dtype=bool)
    held_C[match(reference, _directions_of_draw(other), _ALIKE)[0]] = True
    return held_C


def place_of(name: str, value: int, length: int) -> int:
    """Return the place of a chain or draw that is given by its number; negative numbers count from the end."""
    try:
        place = operator.index(value)
    except TypeError:
        rule = "must be a whole number or 'best'" if name == "draw" else "must be a whole number"
        raise InputError(name, value, rule) from None
    if not -length <= place < length:
        raise InputError(name, value, f"must be from {-length} to {length - 1}: there are {length}")
    return place % length

"""The classes of one draw: their profiles in the data, and a summary with how stable they are over the other draws.

The expected count of class q in row d of mode m, summed over the *observed* cells of the row, is

    core value * phi[m][d, k] * sum over the observed cells of the row of (prod over the other modes of phi) * odds

with the odds p / (1 - p) of the negative binomial (1 for the other likelihoods). Its share of the class's total is the
*profile* of the class in the mode. Without missing cells it is the factor, scaled to sum to one. With missing cells it
is not: if no actor acts on itself, a class with Russia at both ends has no count at (Russia, Russia).

In a mode with exposures, known weights of its rows (model/spec.py), profiles and factors are per unit of the weights: a
month that was observed in part is no dip.

Classes at the same location are one. Two classes are *alike* if in every mode the cosine of their profiles (Tucker's
coefficient of congruence) is at least 0.9. The classes of two draws are matched one to one. A draw *holds* a class of
the reference draw if one of its classes is matched with it.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocore.classes.matching import directions, evenly_spaced, match
from allocore.classes.names import class_names
from allocore.classes.summary import (
    ClassSummary,
    Support,
    factor_names,
    factors_in_use,
    profiles_of,
    shown_modes,
    unused_factors,
)
from allocore.findings import Finding
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns, row_offsets
from allocore.kernels.workers import Workers
from allocore.posterior.cells import weighted_expansion
from allocore.storage.record import Record

HELD = 0.5  # a chain holds a class if at least this share of its draws does: one passing draw is not enough
# Lorenzo-Seva and ten Berge (2006): fairly similar from 0.85 on, equal from 0.95 on, too strict for posterior noise.
_ALIKE = 0.9
_COMPARED_DRAWS = 100  # the standard error of a share is then at most 5 points
_COMPARED_CLASSES = 1000  # Tucker cores can have more locations than can be matched; smaller ones hardly matter


class DrawClasses(NamedTuple):
    """The classes of one draw, one for each location in use, largest first.

    location_CM: the factor of each class in each mode. value_C: expected counts in the observed cells. total: that of
    the whole draw. profiles: per mode (D, C), columns sum to one. factors: likewise, the factor itself over the rows
    with observed cells, times the odds if they differ by row; the same arrays as `profiles` if no cell is missing.
    """

    location_CM: Ints
    value_C: Floats
    total: float
    profiles: tuple[Floats, ...]
    factors: tuple[Floats, ...]

    @property
    def share_C(self) -> Floats:
        """The share of each class in the expected counts of the draw."""
        return self.value_C / (self.total or 1.0)

    @property
    def tables(self) -> tuple[Floats, ...]:
        """The profiles, and then the factors if they differ."""
        return self.profiles if self.factors is self.profiles else self.profiles + self.factors

    def in_order(self, order_C: Ints) -> "DrawClasses":
        """Return some of the classes, in the order given."""
        tables = tuple(table_DC[:, order_C] for table_DC in self.tables)
        profiles = tables[: len(self.profiles)]
        factors = tables[len(self.profiles) :] or profiles
        return DrawClasses(self.location_CM[order_C], self.value_C[order_C], self.total, profiles, factors)


class ClassReader:
    """Reads the classes of the draws of a run."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._missing = SignedPatterns.of(record.tensor.missing)
        self._observed = [record.tensor.missing.observed_rows(mode) for mode in range(len(record.factors))]
        self._workers = Workers(1)

    @property
    def has_missing(self) -> bool:
        """Whether some cells are missing, so that profiles differ from factors."""
        return bool(self._missing.patterns_PM.size)

    def read(self, chain: int, draw: int, most: int | None = None) -> DrawClasses:
        """Return the classes of one draw, or the largest of them, largest first: an order independent of numbers."""
        core_Q, subs_QM = self.record.included_classes(chain, draw)
        location_CM, place_Q = np.unique(subs_QM, axis=0, return_inverse=True)
        core_C = np.bincount(place_Q.ravel(), core_Q, len(location_CM)).astype(np.float64)
        expanded, scale, odds = weighted_expansion(self.record, chain, draw, location_CM, self._missing)
        counts, factors = [], []
        for mode, (first, last) in enumerate(pairwise(row_offsets(self.record.tensor.shape).tolist())):
            phi_DC = expanded.phi_RQ[first:last]
            if self.has_missing:
                counts.append(phi_DC * self._missing.sums_by_row(expanded, mode, self._workers, scale))
            weighted_DC = phi_DC if scale is None or scale.mode != mode else phi_DC * scale.scale_D[:, None]
            factors.append(np.where(self._observed[mode][:, None], weighted_DC, 0.0))
        sums_C = counts[0].sum(axis=0) if counts else np.prod(expanded.sums_MQ, axis=0)
        value_C = core_C * odds * sums_C
        order_C = np.argsort(-value_C, kind="stable")
        total = float(value_C[order_C].sum())  # in this order, so that not even rounding depends on numbers
        order_C = order_C[:most]
        shares = self._shares(factors, order_C)
        profiles = self._shares(counts, order_C) if counts else shares
        return DrawClasses(location_CM[order_C], value_C[order_C], total, profiles, shares)

    def row_counts(self, classes: DrawClasses, mode: int) -> Floats:
        """Return the expected counts of each class in the rows of a mode, (D, C)."""
        share_DC, weights_D = classes.profiles[mode], self.record.spec.exposure(mode)
        if weights_D is not None:  # the profile is per unit
            share_DC = _shares(share_DC * weights_D[:, None])
        return np.asarray(share_DC * classes.value_C)

    def _shares(self, tables: list[Floats], order_C: Ints) -> tuple[Floats, ...]:
        """Chosen columns of the table of each mode, per unit of the weights of its rows, as shares."""
        weights = map(self.record.spec.exposure, range(len(tables)))
        return tuple(
            _shares(values_DC[:, order_C] if weights_D is None else values_DC[:, order_C] / weights_D[:, None])
            for values_DC, weights_D in zip(tables, weights, strict=True)
        )


def _shares(values_DC: Floats) -> Floats:
    """Columns scaled to sum to one; a column that underflows entirely stays zero."""
    largest_C = values_DC.max(axis=0, initial=0.0)
    scaled_DC = values_DC / np.where(largest_C > 0.0, largest_C, 1.0)
    return np.asarray(scaled_DC / np.maximum(scaled_DC.sum(axis=0), 1.0))


def summarize_draw(reader: ClassReader, chain: int, draw: int, source: str) -> ClassSummary:
    """Return the summary of one draw; `source` names the draw."""
    record, classes = reader.record, reader.read(chain, draw)
    tensor, modes = record.tensor, shown_modes(record.tensor)
    known = factor_names(record.spec, classes.location_CM) if record.spec.known else ()
    profiles = profiles_of(tensor, modes, zip(classes.profiles, strict=True), known)
    factors = profiles_of(tensor, modes, zip(classes.factors, strict=True), known)
    return ClassSummary(
        tensor=tensor,
        source=source,
        findings=(
            _size_finding(record, chain, draw, classes),
            *unused_factors(record.spec, tensor.mode_names, classes.location_CM),
            *inferred_budget(record),
        ),
        counted=record.spec.observation.class_sizes,
        modes=modes,
        number_C=np.arange(len(classes.value_C)),
        names=class_names(tensor, profiles),
        value_C=classes.value_C,
        share_C=classes.share_C,
        interval_C2=None,
        support=stability(reader, chain, draw),
        apart_C=np.zeros(len(classes.value_C), dtype=bool),
        location_CM=classes.location_CM,
        factors=factors_in_use(factors, classes.location_CM, classes.share_C),
        profiles=profiles,
        factor_shares=classes.factors,
        sharing=None,
        draw=(chain, draw),
        tied=record.spec.tied,
    )


def _size_finding(record: Record, chain: int, draw: int, classes: DrawClasses) -> Finding:
    # If a damaged run has no trace at this draw, all locations count as in use.
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
    """Return how many of the largest classes together have this share of their expected counts."""
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
    """Compare the classes of one draw with about 100 others of all chains; NaN if there is no other draw or chain."""
    classes = reader.read(chain, draw)
    number, compared = len(classes.value_C), min(len(classes.value_C), _COMPARED_CLASSES)
    reference = directions([profile_DC[:, :compared] for profile_DC in classes.profiles])
    chains, draws = reader.record.core_values.shape[:2]
    held: list[list[Flags]] = [[] for _ in range(chains)]
    for other, held_by_draw in enumerate(held):
        for place in _other_draws(draws, max(1, _COMPARED_DRAWS // chains), draw if other == chain else None):
            theirs = directions(reader.read(other, place, _COMPARED_CLASSES).profiles)
            held_by_draw.append(np.isin(np.arange(compared), match(reference, theirs, _ALIKE)[0]))
    draws_C, chains_C = np.full(number, np.nan), np.full(number, np.nan)
    if any(held):
        draws_C[:compared] = np.concatenate([of_chain for of_chain in held if of_chain]).mean(axis=0)
    if chains > 1:
        chains_C[:compared] = np.mean([np.mean(of_chain, axis=0) >= HELD for of_chain in held if of_chain], axis=0)
    return Support(draws_C, chains_C, chains)


def _other_draws(draws: int, most: int, left_out: int | None) -> list[int]:
    """At most `most` draws without the one that is left out, evenly spaced."""
    others = np.array([draw for draw in range(draws) if draw != left_out], dtype=np.int64)
    return list(others[evenly_spaced(len(others), most)].tolist()) if len(others) else []

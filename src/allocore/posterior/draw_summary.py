"""A summary of one draw: its classes by size, their factors as shares, and which classes share a factor.

A factor is a column of a factor matrix. Its scale means nothing by itself, because the core value can absorb it. So a
factor is shown as shares that sum to one over the observed rows. Classes at the same location of the core count as one.

The size of a class is its expected count in the observed cells. For the negative binomial that is the rate of the class
times p / (1 - p). If every row of a mode has its own p, the shares of the factors of this mode are weighted likewise:
they too are shares of expected counts. For the Bernoulli likelihood the size is the expected latent count, which is the
rate: the probability of a one is not a sum over classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from allocore.data.labels import ModeLabels
from allocore.data.tensor import CountTensor
from allocore.kernels.signed_patterns import SignedPatterns
from allocore.kernels.workers import Workers
from allocore.posterior.class_sums import odds_of_rows, weighted_sums
from allocore.posterior.label_kinds import LabelKind, label_kind
from allocore.posterior.stability import Stability, stability
from allocore.run.record import Record

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

# A period belongs to a peak if its share is at least half of the highest: the full width at half maximum.
_PEAK = 0.5
# A factor is even if every row has between 0.5 and 1.5 times the average share: then no label is worth naming.
_LEAST_EVEN, _MOST_EVEN = 0.5, 1.5
# Labels with less than 2% of a factor are not named.
_FAINT = 0.02


@dataclass(frozen=True)
class ShownMode:
    """A mode with its labels and their kind."""

    name: str
    labels: ModeLabels
    kind: LabelKind


@dataclass(frozen=True)
class Factor:
    """A factor in use.

    Attributes
    ----------
    mode : ShownMode
        Its mode.
    number : int
        Its number in the core.
    share_D : ndarray of float
        The share of each row of the mode; the shares sum to one.
    classes : tuple of int
        The classes that use it.
    mass : float
        The share of all expected counts that these classes hold.
    even : bool
        Whether no row stands out.
    """

    mode: ShownMode
    number: int
    share_D: _Floats
    classes: tuple[int, ...]
    mass: float
    even: bool

    @cached_property
    def heaviest(self) -> _Ints:
        """The rows, heaviest first."""
        return np.argsort(-self.share_D, kind="stable")

    @property
    def empty(self) -> bool:
        """Whether all its weights underflow to zero."""
        return not self.share_D.any()

    def top(self, number: int) -> list[tuple[str, float]]:
        """Return the heaviest labels with their shares; all but the first have at least 2%."""
        rows = self.heaviest[:number]
        kept = [d for rank, d in enumerate(rows) if rank == 0 or self.share_D[d] >= _FAINT]
        return [(str(self.mode.labels[d]), float(self.share_D[d])) for d in kept]

    def words(self, top: int) -> str:
        """Return the heaviest labels in words, such as "JFK 93%, EWR 6%"."""
        if self.empty:
            return "too small to tell"
        if self.even:
            return f"evenly over all {len(self.share_D)}"
        return ", ".join(f"{label} {share:.0%}" for label, share in self.top(top))

    def peaks(self, most: int = 3) -> list[tuple[str, float]]:
        """Return the stretches of rows with at least half of the highest share, and their shares, largest first."""
        if self.empty or self.even:
            return []
        high = np.concatenate([[False], self.share_D >= _PEAK * self.share_D.max(), [False]])
        edges = np.flatnonzero(high[1:] != high[:-1]).reshape(-1, 2)
        labels = self.mode.labels
        stretches = [
            (
                str(labels[a]) if b == a + 1 else f"{labels[a]} to {labels[b - 1]}",
                float(self.share_D[a:b].sum()),
            )
            for a, b in edges.tolist()
        ]
        return sorted(stretches, key=lambda stretch: -stretch[1])[:most]

    def peak_words(self, most: int = 3) -> str:
        """Return the peaks in words, such as "2018-03 to 2018-05 (41%)"."""
        if self.empty or self.even:
            return self.words(1)
        return ", ".join(f"{stretch} ({share:.0%})" for stretch, share in self.peaks(most))


@dataclass(frozen=True)
class DrawSummary:
    """The classes of one draw, largest first, and their factors.

    Attributes
    ----------
    tensor : CountTensor
        The tensor that the model was fitted to.
    budget : int
        The most classes that the model may use.
    in_use : int
        How many classes hold counts.
    factors_in_use : tuple of int
        How many factors these classes use in each mode.
    inferred : ndarray of int or None
        If the budget is inferred, the number of included classes in each draw of all chains.
    modes : tuple of ShownMode
        The modes, with their labels and label kinds.
    location_CM : ndarray of int
        The factor of each class in each mode.
    value_C, share_C : ndarray of float
        The expected counts of each class in the observed cells, and their share of the total. For the Bernoulli
        likelihood these are latent counts.
    stability : Stability
        The shares of draws and of chains that contain each class.
    factors : tuple of mappings from int to Factor
        For each mode, its factors in use by their number.
    counted : str
        What the values count: "expected counts", or "expected latent counts" for the Bernoulli likelihood.
    """

    tensor: CountTensor
    budget: int
    in_use: int
    factors_in_use: tuple[int, ...]
    inferred: _Ints | None
    modes: tuple[ShownMode, ...]
    location_CM: _Ints
    value_C: _Floats
    share_C: _Floats
    stability: Stability
    factors: tuple[Mapping[int, Factor], ...]
    counted: str

    def factor(self, number: int, mode: int) -> Factor:
        """Return the factor of a class in a mode."""
        return self.factors[mode][int(self.location_CM[number, mode])]

    def partners(self, number: int, mode: int) -> tuple[int, ...]:
        """Return the other classes that use the same factor."""
        return tuple(other for other in self.factor(number, mode).classes if other != number)

    def holding(self, level: float) -> int:
        """Return how many of the largest classes together hold this share of the expected counts."""
        return int((np.cumsum(self.share_C) < level - 1e-12).sum()) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the modes."""
        return self.tensor.mode_names


def summarize_draw(record: Record, chain: int, draw: int) -> DrawSummary:
    """Summarize one draw: see `Posterior.draw_summary`."""
    locations_CM, value_C = _class_sizes(record, chain, draw)
    order_C = np.argsort(-value_C, kind="stable")
    found = stability(record, chain, draw)
    location_CM, value_C = locations_CM[order_C], value_C[order_C]
    share_C = value_C / (value_C.sum() or 1.0)
    modes = tuple(
        ShownMode(name, labels, label_kind(labels))
        for name, labels in zip(record.tensor.mode_names, record.tensor.labels, strict=True)
    )
    factors = tuple(_factors(record, chain, draw, m, mode, location_CM[:, m], share_C) for m, mode in enumerate(modes))
    return DrawSummary(
        record.tensor,
        record.spec.budget,
        _in_use(record, chain, draw, len(value_C)),
        _factors_in_use(record, chain, draw, factors),
        (record.core_values > 0.0).sum(axis=2).ravel() if record.spec.infer_budget else None,
        modes,
        location_CM,
        value_C,
        share_C,
        Stability(found.draws_C[order_C], found.chains_C[order_C]),
        factors,
        record.spec.observation.class_sizes,
    )


def _class_sizes(record: Record, chain: int, draw: int) -> tuple[_Ints, _Floats]:
    """Return the locations in use (C, M) and their expected counts in the observed cells, (C); latent if Bernoulli."""
    core_Q, subs_QM = record.included_classes(chain, draw)
    with Workers(1) as workers:
        patterns = SignedPatterns.of(record.tensor.missing)
        total_Q = core_Q * weighted_sums(record, chain, draw, subs_QM, patterns, workers)
    locations_CM, place_Q = np.unique(subs_QM, axis=0, return_inverse=True)
    return locations_CM, np.bincount(place_Q.ravel(), total_Q).astype(np.float64)


def _in_use(record: Record, chain: int, draw: int, locations: int) -> int:
    """Return how many classes hold counts; if a damaged run has lost its trace, the number of locations."""
    told = record.stats["classes"][chain, record.draw_sweeps[draw] - 1]
    return int(told) if np.isfinite(told) else locations


def _factors_in_use(
    record: Record, chain: int, draw: int, factors: tuple[Mapping[int, Factor], ...]
) -> tuple[int, ...]:
    """Return how many factors the classes with counts use; if the trace is lost, how many all classes use."""
    told_M = record.stats["factors"][chain, record.draw_sweeps[draw] - 1]
    return tuple(int(told) if np.isfinite(told) else len(each) for told, each in zip(told_M, factors, strict=True))


def _factors(
    record: Record, chain: int, draw: int, place: int, mode: ShownMode, number_C: _Ints, share_C: _Floats
) -> dict[int, Factor]:
    """Return the factors of a mode in use, in the order of the classes."""
    observed_D = record.tensor.missing.observed_rows(place)
    odds_D = odds_of_rows(record, chain, draw, place)
    factors = {}
    for number in dict.fromkeys(number_C.tolist()):
        phi_D = record.factors[place][chain, draw][:, number]
        weight_D = np.where(observed_D, phi_D if odds_D is None else odds_D * phi_D, 0.0)
        classes = np.flatnonzero(number_C == number)
        share_D = weight_D / (weight_D.sum() or 1.0)
        mass, even = float(share_C[classes].sum()), is_even(share_D[observed_D])
        factors[number] = Factor(mode, number, share_D, tuple(classes.tolist()), mass, even)
    return factors


def is_even(share_D: _Floats) -> bool:
    """Return whether no row stands out, above or below; False for fewer than three rows."""
    times_D = share_D * len(share_D)
    return len(share_D) > 2 and bool(times_D.min() >= _LEAST_EVEN and times_D.max() < _MOST_EVEN)

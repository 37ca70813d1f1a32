"""The classes of one draw as they are in the data: the shares of their expected counts in the rows of every mode.

The expected count of class q in row d of mode m, summed over the *observed* cells of the row, is

    core value * phi[m][d, k] * sum over the observed cells of the row of (prod over the other modes of phi) * odds

with the odds p / (1 - p) of the negative binomial (1 for the other likelihoods). Its share of the class's total is the
*profile* of the class in the mode. Without missing cells the profile is the factor, scaled to sum to one. With missing
cells it is not: if nobody acts on himself, a class with Russia as sender and as receiver has no count at (Russia,
Russia), whatever the product of its factors is there.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns, row_offsets
from allocore.kernels.workers import Workers
from allocore.posterior.cells import weighted_expansion
from allocore.storage.record import Record

# A chain holds a class if at least half of its draws do: one passing draw is not enough.
HELD = 0.5


class DrawClasses(NamedTuple):
    """The classes of one draw, one for each location in use, largest first.

    location_CM: the factor of each class in each mode. value_C: expected counts in the observed cells (latent counts
    for the Bernoulli likelihood). total: that of the whole draw. profiles: per mode (D, C), columns sum to one.
    factors: likewise, the factor itself over the rows with observed cells, times the odds if each row of the mode has
    its own dispersion; the same arrays as `profiles` if no cell is missing.
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

    def in_order(self, order_C: Ints) -> "DrawClasses":
        """Return some of the classes, in the order given."""
        factors = tuple(factor_DC[:, order_C] for factor_DC in self.factors)
        same = self.factors is self.profiles
        profiles = factors if same else tuple(profile_DC[:, order_C] for profile_DC in self.profiles)
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
        core_C, location_CM = self._locations(chain, draw)
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
        shares = tuple(_shares(factor_DC[:, order_C]) for factor_DC in factors)
        profiles = tuple(_shares(count_DC[:, order_C]) for count_DC in counts) or shares
        return DrawClasses(location_CM[order_C], value_C[order_C], total, profiles, shares)

    def _locations(self, chain: int, draw: int) -> tuple[Floats, Ints]:
        """The core values and the locations in use; classes at the same location are one."""
        core_Q, subs_QM = self.record.included_classes(chain, draw)
        location_CM, place_Q = np.unique(subs_QM, axis=0, return_inverse=True)
        core_C = np.bincount(place_Q.ravel(), core_Q, len(location_CM)).astype(np.float64)
        return core_C, location_CM


def _shares(values_DC: Floats) -> Floats:
    """Columns scaled to sum to one; a column that underflows entirely stays zero."""
    largest_C = values_DC.max(axis=0, initial=0.0)
    scaled_DC = values_DC / np.where(largest_C > 0.0, largest_C, 1.0)
    return np.asarray(scaled_DC / np.maximum(scaled_DC.sum(axis=0), 1.0))

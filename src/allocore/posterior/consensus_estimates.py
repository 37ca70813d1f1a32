"""What the draws say about each cluster of classes: support, shares, profiles with intervals, and shared factors.

Every draw is matched with the centres of the clusters, one to one, by the cosines of the profiles in every mode. A draw
*holds* a consensus class if one of its classes is matched with it. All shares are averages over all draws, with zero
where a draw does not hold the class, so they add up to the part of the counts that the consensus covers. Profiles are
averages, by mass, over the draws that hold the class; their medians and intervals are over the same draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.posterior.class_matching import Directions, match
from allocore.posterior.class_profiles import ClassReader, DrawClasses
from allocore.posterior.consensus_clusters import HOLDS, centres, follow, spread

# A chain holds a class if at least half of its draws do: one passing draw is not enough.
_HELD = 0.5
# Intervals are from the 5% to the 95% quantile.
LEVEL = 0.9
# Clusters are found with about this many draws of all chains; more do not change them.
_CLUSTER_DRAWS = 100
# Support, shares and sharing are estimated with at most this many draws: the standard error of a share is then 1.6%.
_MOST_DRAWS = 1000
# Quantiles need the profiles of many draws at once: at most this many draws, fewer if they take more numbers than that.
_QUANTILE_DRAWS, _LEAST_DRAWS, _MOST_NUMBERS = 100, 20, 50_000_000


class ProfileBand(NamedTuple):
    """Profiles of C classes in one mode, each (D, C): the mean, whose columns sum to one, and three quantiles."""

    mean: Floats
    low: Floats
    median: Floats
    high: Floats


@dataclass(frozen=True)
class Estimates:
    """The consensus classes as arrays, largest first.

    value: mean expected count (C,). shares: the share of the counts in each draw (chain, draw, C), of the draws
    `draws`. held: whether each of these draws holds the class. profiles and factors: one band per mode, of the expected
    counts in the observed cells and of the factors themselves; the same objects if no cell is missing. sharing: for
    each mode (C, C), the probability that two classes have the same factor, given that a draw holds both.
    """

    draws: Ints
    value: Floats
    shares: Floats
    held: Flags
    profiles: tuple[ProfileBand, ...]
    factors: tuple[ProfileBand, ...]
    sharing: tuple[Floats, ...]

    @property
    def share(self) -> Floats:
        """The mean share of the counts, (C,)."""
        return np.asarray(self.shares.mean(axis=(0, 1)))

    @property
    def share_interval(self) -> tuple[Floats, Floats]:
        """The ends of the interval of the share, (C,) each."""
        chains, draws, classes = self.shares.shape
        shares_NC = self.shares.reshape(chains * draws, classes)
        low, high = np.quantile(shares_NC, ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0), axis=0)
        return low, high

    @property
    def support_draws(self) -> Floats:
        """The share of draws that hold each class, (C,)."""
        return np.asarray(self.held.mean(axis=(0, 1)))

    @property
    def support_chains(self) -> Floats:
        """The share of chains that hold each class, (C,): at least half of their draws do."""
        return np.asarray((self.held.mean(axis=1) >= _HELD).mean(axis=0))


class _Match(NamedTuple):
    """The classes of a draw that are matched, and with which clusters."""

    classes: Ints
    clusters: Ints


def estimate(reader: ClassReader, tick: Callable[[int, int], None]) -> Estimates:
    """Find the consensus classes of a run; `tick` gets the work done and the whole work, in draws."""
    chains, drawn = reader.record.core_values.shape[:2]
    seeds = spread(drawn, max(1, _CLUSTER_DRAWS // chains))
    judged = spread(drawn, max(1, _MOST_DRAWS // chains))
    done, whole = 0, chains * (len(seeds) + len(judged))

    def one_more() -> None:
        nonlocal done
        done += 1
        tick(done, whole)

    found = centres(follow(reader, chain, seeds, one_more) for chain in range(chains))
    tally = _Tally(chains, judged, found)
    for chain in range(chains):
        for place, draw in enumerate(judged.tolist()):
            tally.add(chain, place, reader.read(chain, draw))
            one_more()
    return tally.estimates(reader)


class _Tally:
    """Sums over the draws, for all clusters."""

    def __init__(self, chains: int, draws: Ints, found: tuple[Floats, ...]) -> None:
        self._centres, self._draws = Directions.of(found), draws
        clusters = found[0].shape[1]
        self._shares = np.zeros((chains, len(draws), clusters))
        self._held = np.zeros(self._shares.shape, dtype=bool)
        self._value_G = np.zeros(clusters)
        self._both_GG = np.zeros((clusters, clusters))
        self._same = [np.zeros((clusters, clusters)) for _ in found]
        self._profiles = [np.zeros(each.shape) for each in found]
        self._factors = [np.zeros(each.shape) for each in found]
        self._matches: dict[tuple[int, int], _Match] = {}

    def add(self, chain: int, place: int, classes: DrawClasses) -> None:
        """Match the classes of one draw and add what they say."""
        ours, clusters = match(Directions.of(classes.profiles), self._centres, HOLDS)
        self._matches[chain, place] = _Match(ours, clusters)
        share_C = classes.value_C[ours] / (classes.value_C.sum() or 1.0)
        self._shares[chain, place, clusters] = share_C
        self._held[chain, place, clusters] = True
        self._value_G[clusters] += classes.value_C[ours]
        pairs = np.ix_(clusters, clusters)
        self._both_GG[pairs] += 1.0
        for mode, same_GG in enumerate(self._same):
            location_C = classes.location_CM[ours, mode]
            same_GG[pairs] += location_C[:, None] == location_C
            self._profiles[mode][:, clusters] += classes.profiles[mode][:, ours] * share_C
            if classes.factors is not classes.profiles:
                self._factors[mode][:, clusters] += classes.factors[mode][:, ours] * share_C

    def estimates(self, reader: ClassReader) -> Estimates:
        """Keep the clusters with enough support, and estimate their profiles."""
        chains, draws, _ = self._shares.shape
        holding_G = (self._held.mean(axis=1) >= _HELD).sum(axis=0)
        share_G = self._shares.mean(axis=(0, 1))
        kept = np.flatnonzero((holding_G >= _enough(chains)) & (share_G > 0.0))
        kept = kept[np.argsort(-share_G[kept], kind="stable")]
        pairs = np.ix_(kept, kept)
        both = np.maximum(self._both_GG[pairs], 1.0)
        profiles, factors = self._bands(reader, kept)
        return Estimates(
            draws=self._draws,
            value=self._value_G[kept] / (chains * draws),
            shares=self._shares[:, :, kept],
            held=self._held[:, :, kept],
            profiles=profiles,
            factors=factors,
            sharing=tuple(same_GG[pairs] / both for same_GG in self._same),
        )

    def _bands(self, reader: ClassReader, kept: Ints) -> tuple[tuple[ProfileBand, ...], tuple[ProfileBand, ...]]:
        """The means over all draws, with quantiles over about a hundred of them."""
        place_G = np.full(self._shares.shape[2], -1)
        place_G[kept] = np.arange(len(kept))
        chains, draws, _ = self._shares.shape
        rows, whole = sum(len(each) for each in self._profiles), not reader.has_missing
        most = _MOST_NUMBERS // max(1, rows * len(kept) * (1 if whole else 2))
        places = spread(draws, max(1, min(max(most, _LEAST_DRAWS), _QUANTILE_DRAWS) // chains))
        profiles, factors = (
            [_Sample(chains * len(places), len(each), len(kept)) for each in self._profiles] for _ in range(2)
        )
        for number, (chain, place) in enumerate(np.ndindex(chains, len(places))):
            classes = reader.read(chain, int(self._draws[places[place]]))
            ours, clusters = self._matches[chain, int(places[place])]
            known = place_G[clusters] >= 0
            ours, columns = ours[known], place_G[clusters[known]]
            for mode, sample in enumerate(profiles):
                sample.add(number, columns, classes.profiles[mode][:, ours])
                if not whole:
                    factors[mode].add(number, columns, classes.factors[mode][:, ours])
        bands = tuple(sample.band(sum_DG[:, kept]) for sample, sum_DG in zip(profiles, self._profiles, strict=True))
        if whole:
            return bands, bands
        return bands, tuple(sample.band(sum_DG[:, kept]) for sample, sum_DG in zip(factors, self._factors, strict=True))


def _enough(chains: int) -> int:
    """How many chains must hold a class: half of them, and at least two if there are two."""
    return max(min(2, chains), -(-chains // 2))


class _Sample:
    """The profiles of C classes in one mode in some draws, NaN where a draw does not hold the class."""

    def __init__(self, draws: int, rows: int, classes: int) -> None:
        self._values = np.full((classes, draws, rows), np.nan, dtype=np.float32)

    def add(self, draw: int, columns: Ints, profile_DC: Floats) -> None:
        """Add the profiles that one draw has of some classes."""
        self._values[columns, draw] = profile_DC.T

    def band(self, sum_DC: Floats) -> ProfileBand:
        """The mean from the sum over all draws, and the quantiles of the sample."""
        ends = (1.0 - LEVEL) / 2.0, 0.5, (1.0 + LEVEL) / 2.0
        quantiles = np.empty((3, *sum_DC.shape))
        for place, values in enumerate(self._values):
            held = values[~np.isnan(values[:, 0])]
            quantiles[:, :, place] = np.quantile(held, ends, axis=0) if len(held) else sum_DC[:, place]
        mean_DC = sum_DC / np.maximum(sum_DC.sum(axis=0), np.finfo(float).tiny)
        low_DC, median_DC, high_DC = quantiles
        return ProfileBand(mean_DC, low_DC, median_DC, high_DC)

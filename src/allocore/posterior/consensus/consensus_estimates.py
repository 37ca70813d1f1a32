"""What the draws say about each cluster of classes: support, shares, profiles with intervals, and shared factors.

Every draw is matched with the centres of the clusters, one to one, by the cosines of the profiles in every mode times
the sizes of its classes. A draw *holds* a consensus class if one of its classes is matched with it. All shares are
averages over all draws, with zero where a draw does not hold the class, so they add up to the part of the counts that
the consensus covers. Profiles are averages, by mass, over the draws that hold the class; their medians and intervals
are over the same draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.posterior.class_profiles import ClassReader, DrawClasses
from allocore.posterior.class_summary import HELD
from allocore.posterior.consensus.class_matching import Directions, match_similar, similarities
from allocore.posterior.consensus.consensus_clusters import HOLDS, MOST_CLASSES, centres, follow, spread

# Intervals are from the 5% to the 95% quantile.
_QUANTILES = (0.05, 0.5, 0.95)
# Clusters are found with about this many draws of all chains; more do not change them.
_CLUSTER_DRAWS = 100
# Support, shares and sharing are estimated with at most this many draws: the standard error of a share is then 1.6%.
_MOST_DRAWS = 1000
# Quantiles need the profiles of many draws at once: at most this many draws, fewer if they take more numbers than that.
_QUANTILE_DRAWS, _LEAST_DRAWS, _MOST_NUMBERS = 100, 8, 50_000_000


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
    each mode (C, C), the probability that two classes have the same factor, given that a draw holds both. alike: the
    mean share of the counts in classes that are similar to a consensus class, but are not matched, because another
    class of the same draw is.
    """

    draws: Ints
    value: Floats
    shares: Floats
    held: Flags
    profiles: tuple[ProfileBand, ...]
    factors: tuple[ProfileBand, ...]
    sharing: tuple[Floats, ...]
    alike: float

    @property
    def share(self) -> Floats:
        """The mean share of the counts, (C,)."""
        return np.asarray(self.shares.mean(axis=(0, 1)))

    @property
    def share_interval(self) -> tuple[Floats, Floats]:
        """The ends of the interval of the share, (C,) each."""
        draws_NC = self.shares.reshape(-1, self.shares.shape[2]) if self.shares.size else np.zeros((1, 0))
        low, high = np.quantile(draws_NC, (_QUANTILES[0], _QUANTILES[2]), axis=0)
        return low, high

    @property
    def support_draws(self) -> Floats:
        """The share of draws that hold each class, (C,)."""
        return np.asarray(self.held.mean(axis=(0, 1)))

    @property
    def support_chains(self) -> Floats:
        """The share of chains that hold each class, (C,): at least half of their draws do."""
        return np.asarray((self.held.mean(axis=1) >= HELD).mean(axis=0))

    @property
    def holding_both(self) -> Floats:
        """The number of draws that hold both of two classes, (C, C)."""
        held = self.held.astype(np.float64)
        return np.asarray(np.einsum("ndc,nde->ce", held, held))


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
    tally = Tally(chains, judged, found, reader)
    for chain in range(chains):
        for place, draw in enumerate(judged.tolist()):
            tally.add(chain, place, reader.read(chain, draw, MOST_CLASSES))
            one_more()
    return tally.estimates(tally.kept())


class Tally:
    """What each draw says about each cluster: `found` are the centres, and `reader` reads what is counted."""

    def __init__(self, chains: int, draws: Ints, found: tuple[Floats, ...], reader: ClassReader) -> None:
        self._centres, self._draws, self._reader = Directions.of(found), draws, reader
        lead, lengths = (chains, len(draws), found[0].shape[1]), reader.record.tensor.shape
        self._shares, self._value_G = np.zeros(lead), np.zeros(lead[2])
        # The class of a draw that is matched with a cluster, and its location; -1 if there is none.
        self._class = np.full(lead, -1, dtype=np.int32)
        self._location = np.full((*lead, len(found)), -1, dtype=np.int32)
        self._profiles: list[Floats] = [np.zeros((lead[2], length)) for length in lengths]
        self._factors: list[Floats] = [np.zeros_like(sums) for sums in self._profiles] if reader.has_missing else []
        self._alike_G = np.zeros(lead[2])

    def add(self, chain: int, place: int, judged: DrawClasses, told: DrawClasses | None = None) -> None:
        """Match the classes of one draw and add what they say, or what is told of the same classes elsewhere."""
        similarity_CG = similarities(Directions.of(judged.profiles), self._centres, HOLDS)
        ours, clusters = match_similar(similarity_CG, HOLDS, judged.share_C)
        classes = judged if told is None else told
        self._add_unmatched(np.delete(similarity_CG, ours, axis=0), np.delete(classes.share_C, ours))
        share_C = classes.share_C[ours]
        self._shares[chain, place, clusters] = share_C
        self._value_G[clusters] += classes.value_C[ours]
        self._class[chain, place, clusters] = ours
        self._location[chain, place, clusters] = classes.location_CM[ours]
        for sum_GD, profile_DC in zip(self._profiles, classes.profiles, strict=True):
            sum_GD[clusters] += (profile_DC[:, ours] * share_C).T
        for mode, sum_GD in enumerate(self._factors):
            sum_GD[clusters] += (classes.factors[mode][:, ours] * share_C).T

    def _add_unmatched(self, similarity_CG: Floats, share_C: Floats) -> None:
        """Add classes without a match to what is similar to their nearest cluster."""
        if similarity_CG.size:
            nearest_C, similar_C = similarity_CG.argmax(axis=1), similarity_CG.max(axis=1) >= HOLDS
            self._alike_G += np.bincount(nearest_C[similar_C], share_C[similar_C], len(self._alike_G))

    def kept(self) -> Ints:
        """The clusters with enough support, largest first."""
        held, share_G = self._class >= 0, self._shares.mean(axis=(0, 1))
        holding_G = (held.mean(axis=1) >= HELD).sum(axis=0)
        kept = np.flatnonzero((holding_G >= enough_chains(len(held))) & (share_G > 0.0))
        return kept[np.argsort(-share_G[kept], kind="stable")]

    def estimates(self, kept: Ints) -> Estimates:
        """What the draws say about these clusters, with their profiles."""
        (chains, draws, _), held = self._shares.shape, self._class >= 0
        profiles, factors = self._bands(kept)
        return Estimates(
            draws=self._draws,
            value=self._value_G[kept] / (chains * draws),
            shares=self._shares[:, :, kept],
            held=held[:, :, kept],
            profiles=profiles,
            factors=factors,
            sharing=_sharing(self._location[:, :, kept].reshape(chains * draws, len(kept), len(profiles))),
            alike=float(self._alike_G[kept].sum() / (chains * draws)),
        )

    def _bands(self, kept: Ints) -> tuple[tuple[ProfileBand, ...], tuple[ProfileBand, ...]]:
        """The means over all draws, with quantiles over about a hundred of them."""
        chains, draws, _ = self._shares.shape
        rows = sum(sum_GD.shape[1] for sum_GD in (*self._profiles, *self._factors))
        most = _MOST_NUMBERS // max(1, rows * len(kept))
        places = spread(draws, max(1, min(max(most, _LEAST_DRAWS), _QUANTILE_DRAWS) // chains))
        number = chains * len(places)
        profiles = [_Sample(number, sum_GD[kept]) for sum_GD in self._profiles]
        factors = [_Sample(number, sum_GD[kept]) for sum_GD in self._factors]
        for turn, (chain, place) in enumerate((c, p) for c in range(chains) for p in places.tolist()):
            classes = self._reader.read(chain, int(self._draws[place]), MOST_CLASSES)
            class_C = self._class[chain, place, kept]
            for mode, sample in enumerate(profiles):
                sample.add(turn, class_C, classes.profiles[mode])
            for mode, sample in enumerate(factors):
                sample.add(turn, class_C, classes.factors[mode])
        bands = tuple(sample.band() for sample in profiles)
        return bands, tuple(sample.band() for sample in factors) or bands


def enough_chains(chains: int) -> int:
    """How many chains must hold a class: half of them, and at least two if there are two."""
    return max(min(2, chains), -(-chains // 2))


def _sharing(location_NCM: NDArray[np.int32]) -> tuple[Floats, ...]:
    """For each mode (C, C), the share of the draws with both classes in which both have the same factor."""
    held_NC = (location_NCM[:, :, 0] >= 0).astype(np.float64)
    both_CC = np.maximum(held_NC.T @ held_NC, 1.0)
    sharing = []
    for location_NC in np.moveaxis(location_NCM, 2, 0):
        same_CC = np.zeros(both_CC.shape)
        for location_C in location_NC:
            same_CC += (location_C[:, None] == location_C) & (location_C >= 0)
        sharing.append(same_CC / both_CC)
    return tuple(sharing)


class _Sample:
    """The profiles of C classes in one mode in some draws, NaN where a draw does not hold the class."""

    def __init__(self, draws: int, sum_CD: Floats) -> None:
        self._sum_CD = sum_CD
        self._values = np.full((len(sum_CD), draws, sum_CD.shape[1]), np.nan, dtype=np.float32)

    def add(self, draw: int, class_C: NDArray[np.int32], profile_DK: Floats) -> None:
        """Add the profiles that the matched classes of one draw have; -1 stands for no match."""
        held = np.flatnonzero(class_C >= 0)
        self._values[held, draw] = profile_DK[:, class_C[held]].T

    def band(self) -> ProfileBand:
        """The mean from the sum over all draws, and the quantiles of the sample."""
        mean_CD = self._sum_CD / np.maximum(self._sum_CD.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        quantiles = np.empty((3, *mean_CD.shape))
        for place, values in enumerate(self._values):
            held = values[~np.isnan(values[:, 0])]
            quantiles[:, place] = np.quantile(held, _QUANTILES, axis=0) if len(held) else mean_CD[place]
        low_CD, median_CD, high_CD = quantiles
        return ProfileBand(mean_CD.T, low_CD.T, median_CD.T, high_CD.T)

"""Tracks: the classes of single chains, followed from draw to draw, and the clusters of the tracks of several chains.

The classes of a draw are matched one to one with the tracks so far; one without a match begins a new track. Tracks of
all chains are joined by average linkage. Their distance is one minus the product of their cosines over the modes, which
is the cosine of the two classes as tensors. Profiles are averaged by mass. On ICEWS data, both choices agree best
between disjoint sets of chains (docs/explanation/experiments.md).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from allocore.classes.matching import HOLDS, add_profiles, blocks_of_rows, directions, distances, match
from allocore.classes.profiles import DrawClasses
from allocore.kernels.elementary import Floats, Ints

_CONTINUES = 0.7  # a class of the next draw continues a track if the cosine is at least this in every mode
_LASTS = 0.2  # a track that is in fewer draws than this share is passing noise
_CUT = 0.5  # tracks are joined up to this distance on average
_MOST_TRACKS = 6000  # of all chains, so that their pairs take 150 MB; smaller tracks hardly matter
_FAR = 0.02  # pairs with a smaller cosine are so different that it need not be known better


class Tracks(NamedTuple):
    """The classes of one chain that last: profiles per mode (D, T), and the mean share of the counts."""

    profiles: tuple[Floats, ...]
    mass_T: Floats

    def largest(self, most: int) -> "Tracks":
        """The largest of the tracks, in their order."""
        if len(self.mass_T) <= most:
            return self
        chosen = np.sort(np.argsort(-self.mass_T, kind="stable")[:most])
        return Tracks(tuple(profile_DT[:, chosen] for profile_DT in self.profiles), self.mass_T[chosen])


def follow(draws: Iterable[DrawClasses]) -> Tracks:
    """Follow the classes of one chain through its draws."""
    sums: list[Floats] = []  # per mode (T, D)
    mass_T, found_T, number = np.zeros(0), np.zeros(0, dtype=np.int64), 0
    for classes in draws:
        number += 1
        sums = sums or [np.zeros((0, len(profile_DC))) for profile_DC in classes.profiles]
        share_C, known = classes.share_C, len(mass_T)
        track_C = np.full(len(share_C), -1)
        if known:
            so_far = directions(sum_TD.T for sum_TD in sums)
            ours, tracks = match(directions(classes.profiles), so_far, _CONTINUES, share_C)
            track_C[ours] = tracks
        new = track_C < 0
        added = int(new.sum())
        track_C[new] = known + np.arange(added)
        if added:
            sums = [np.concatenate([sum_TD, np.zeros((added, sum_TD.shape[1]))]) for sum_TD in sums]
        mass_T, found_T = np.pad(mass_T, (0, added)), np.pad(found_T, (0, added))
        for sum_TD, profile_DC in zip(sums, classes.profiles, strict=True):
            add_profiles(sum_TD, track_C, profile_DC, np.arange(len(share_C)), share_C)
        mass_T[track_C] += share_C
        found_T[track_C] += 1
        del classes  # before the next draw is read: profiles may be large
    lasting_T = (found_T >= _LASTS * number) & (mass_T > 0.0)
    if not lasting_T.all():
        sums = [sum_TD[lasting_T] for sum_TD in sums]
    mass_T = mass_T[lasting_T]
    for sum_TD in sums:
        sum_TD /= mass_T[:, None]
    return Tracks(tuple(sum_TD.T for sum_TD in sums), mass_T / number)


def enough_chains(chains: int) -> int:
    """How many chains must hold a class: a quarter of them, and at least two if there are two.

    Half, three eighths and a third give a smaller product of the agreement between sets of chains and the share of the
    counts that they cover; a fifth gives about the same (docs/explanation/experiments.md).
    """
    return max(min(2, chains), -(-chains // 4))


class SharedClasses(NamedTuple):
    """The classes that enough chains hold: profiles per mode (D, C), columns sum to one, and the mean share (C)."""

    profiles: tuple[Floats, ...]
    share_C: Floats


class TrackTable:
    """The tracks of several chains, and the distances of all pairs, which every set of chains needs a part of."""

    def __init__(self, tracks: Iterable[Tracks], chains: int) -> None:
        largest = [each.largest(_MOST_TRACKS // chains) for each in tracks]
        by_mode = zip(*(each.profiles for each in largest), strict=True)
        self._profiles = tuple(np.concatenate(each, axis=1) for each in by_mode)
        self._mass_T = np.concatenate([each.mass_T for each in largest])
        self._first_N = np.cumsum([0, *(len(each.mass_T) for each in largest)])  # the first track of each chain
        self._chain_T = np.repeat(np.arange(chains), np.diff(self._first_N))
        self._distance_P = distances(directions(self._profiles), _FAR)

    def _of_chain(self, chain: int) -> Tracks:
        own = slice(*self._first_N[chain : chain + 2])
        return Tracks(tuple(profile_DT[:, own] for profile_DT in self._profiles), self._mass_T[own])

    def centres(self, chains: Ints | None = None) -> tuple[Floats, ...]:
        """The mean profiles of the clusters of the tracks of all or some chains: per mode (D, G)."""
        number = len(self._mass_T)
        chosen = np.arange(number) if chains is None else np.flatnonzero(np.isin(self._chain_T, chains))
        if not len(chosen):
            return tuple(profile_DT[:, :0] for profile_DT in self._profiles)
        distance_P = self._distance_P if len(chosen) == number else _pairs_of(self._distance_P, number, chosen)
        cluster_T, mass_T = average_linkage(len(chosen), distance_P, _CUT), self._mass_T[chosen]
        order = np.argsort(cluster_T, kind="stable")
        first_G = np.searchsorted(cluster_T[order], np.arange(cluster_T.max() + 1))
        mass_T, chosen = mass_T[order], chosen[order]
        mass_G = np.add.reduceat(mass_T, first_G)
        centres = [np.empty((len(first_G), len(profile_DT))) for profile_DT in self._profiles]
        for centre_GD, profile_DT in zip(centres, self._profiles, strict=True):
            for rows in blocks_of_rows(len(profile_DT)):
                centre_GD[:, rows] = np.add.reduceat((profile_DT[rows, chosen] * mass_T).T, first_G)
            centre_GD /= mass_G[:, None]
        return tuple(centre_GD.T for centre_GD in centres)

    def shared_classes(self, chains: Ints) -> SharedClasses:
        """The classes that enough of some chains hold: one of its tracks is matched with the centre of the cluster."""
        centres = self.centres(chains)
        unit, sums = directions(centres), [np.zeros(centre_DG.T.shape) for centre_DG in centres]
        held_G, share_G = np.zeros((2, centres[0].shape[1]))
        for chain in chains.tolist():
            profiles, mass_T = self._of_chain(chain)
            ours, clusters = match(directions(profiles), unit, HOLDS, mass_T)
            held_G[clusters] += 1.0
            share_G[clusters] += mass_T[ours] / len(chains)
            for sum_GD, profile_DT in zip(sums, profiles, strict=True):
                add_profiles(sum_GD, clusters, profile_DT, ours, mass_T[ours])
        kept = np.flatnonzero((held_G >= enough_chains(len(chains))) & (share_G > 0.0))
        sums = [sum_GD[kept] for sum_GD in sums]
        profiles = tuple((sum_GD / sum_GD.sum(axis=1, keepdims=True)).T for sum_GD in sums)
        return SharedClasses(profiles, share_G[kept])


def average_linkage(items: int, distance_P: Floats, cut: float) -> Ints:
    """The number of the cluster of each item, given the distances of all pairs: 0 and 1, 0 and 2, .., 1 and 2, .."""
    if items < 2:
        return np.zeros(items, dtype=np.int64)
    return np.asarray(fcluster(linkage(distance_P, "average"), cut, "distance") - 1, dtype=np.int64)


def _pairs_of(distance_P: Floats, items: int, chosen: Ints) -> Floats:
    """The distances of the pairs of some items, whose numbers increase."""
    before = chosen * (2 * items - chosen - 1) // 2 - chosen - 1  # the pair of `one` and `other` is at before + other
    rows = [distance_P[before[turn] + chosen[turn + 1 :]] for turn in range(len(chosen))]
    return np.concatenate(rows)

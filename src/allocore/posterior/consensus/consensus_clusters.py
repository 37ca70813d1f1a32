"""Which classes do the chains have in common? Clusters of the classes of many draws of all chains.

1. *Tracks.* The classes of each chain are followed from draw to draw: the classes of a draw are matched one to one with
   the tracks so far, by the cosines of their profiles in every mode. What finds no match begins a new track.
2. *Clusters.* The tracks of all chains are joined by average linkage. Their distance is one minus the product of their
   cosines over the modes, which is the cosine of the two classes as tensors. The number of clusters is not given.

Profiles are averaged by mass: a class that holds twice the counts counts twice. Measured on ICEWS data, this and the
product agree best between disjoint sets of chains (docs/explanation/experiments.md).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from allocore.kernels.arrays import Floats, Ints
from allocore.posterior.class_profiles import ClassReader, DrawClasses
from allocore.posterior.consensus.class_matching import Directions, match, tensor_cosines

# A class of the next draw continues a track if the cosine is at least this in every mode. Within a chain the same class
# changes little from draw to draw.
_CONTINUES = 0.7
# A track that fewer draws than this share hold is passing noise.
_LASTS = 0.2
# Tracks are joined up to this distance on average.
_CUT = 0.5
# Pairs with a smaller cosine are so far apart that it need not be known better.
_FAR = 0.02
# Tucker cores can have more locations than can be matched; those beyond the largest hardly matter.
MOST_CLASSES = 500
# A draw holds a consensus class if one of its classes has a cosine of at least this in every mode.
HOLDS = 0.6


class Tracks(NamedTuple):
    """Classes of one chain followed through its draws: profiles per mode (D, T), and the mean share of the counts."""

    profiles: tuple[Floats, ...]
    mass_T: Floats


def spread(draws: int, most: int) -> Ints:
    """At most `most` of the draws, evenly spread: the middle of each of that many equal stretches."""
    number = min(most, draws)
    return (2 * np.arange(number) + 1) * draws // (2 * number)


def follow(reader: ClassReader, chain: int, draws: Ints, tick: Callable[[], None]) -> Tracks:
    """The tracks of one chain."""
    following = _Following()
    for draw in draws.tolist():
        following.add(reader.read(chain, draw, MOST_CLASSES))
        tick()
    return following.tracks(len(draws))


class _Following:
    """Tracks while they grow: sums of profiles times shares, and in how many draws each was found."""

    def __init__(self) -> None:
        self._sums: tuple[Floats, ...] = ()
        self._mass_T, self._found_T = np.zeros(0), np.zeros(0, dtype=np.int64)

    def add(self, classes: DrawClasses) -> None:
        """Continue the tracks with the classes of the next draw."""
        share_C, known = classes.share_C, len(self._mass_T)
        track_C = np.full(len(share_C), -1)
        if known:
            ours, tracks = match(Directions.of(classes.profiles), Directions.of(self._sums), _CONTINUES, share_C)
            track_C[ours] = tracks
        new = track_C < 0
        track_C[new] = known + np.arange(new.sum())
        added = int(new.sum())
        if not known:
            self._sums = tuple(np.zeros((len(profile_DC), 0)) for profile_DC in classes.profiles)
        self._sums = tuple(np.pad(sum_DT, ((0, 0), (0, added))) for sum_DT in self._sums)
        self._mass_T, self._found_T = np.pad(self._mass_T, (0, added)), np.pad(self._found_T, (0, added))
        for sum_DT, profile_DC in zip(self._sums, classes.profiles, strict=True):
            sum_DT[:, track_C] += profile_DC * share_C
        self._mass_T[track_C] += share_C
        self._found_T[track_C] += 1

    def tracks(self, draws: int) -> Tracks:
        """The tracks that last, and hold any counts."""
        kept_T = (self._found_T >= _LASTS * draws) & (self._mass_T > 0.0)
        mass_T = self._mass_T[kept_T]
        return Tracks(tuple(sum_DT[:, kept_T] / mass_T for sum_DT in self._sums), mass_T / draws)


def centres(tracks: Iterable[Tracks]) -> tuple[Floats, ...]:
    """The mean profiles of the clusters of all tracks: per mode (D, G), columns sum to one."""
    each = list(tracks)
    profiles = [np.concatenate(of_mode, axis=1) for of_mode in zip(*(one.profiles for one in each), strict=True)]
    mass_T = np.concatenate([one.mass_T for one in each])
    cluster_T = _clusters(profiles)
    weight_TG = np.zeros((len(mass_T), cluster_T.max(initial=-1) + 1))
    weight_TG[np.arange(len(mass_T)), cluster_T] = mass_T
    weight_TG /= weight_TG.sum(axis=0)
    return tuple(profile_DT @ weight_TG for profile_DT in profiles)


def _clusters(profiles: list[Floats]) -> Ints:
    """The number of the cluster of each track."""
    if profiles[0].shape[1] < 2:
        return np.zeros(profiles[0].shape[1], dtype=np.int64)
    cosine_TT = tensor_cosines(Directions.of(profiles), _FAR)
    distance_TT = np.clip(1.0 - (cosine_TT + cosine_TT.T) / 2.0, 0.0, None)
    np.fill_diagonal(distance_TT, 0.0)
    tree = linkage(squareform(distance_TT, checks=False), "average")
    return np.asarray(fcluster(tree, _CUT, "distance") - 1, dtype=np.int64)

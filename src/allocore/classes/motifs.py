"""Motifs: patterns of classes that recur between different groups of actors, such as the same cadence in several wars.

Two modes are those of actors, as senders and receivers. Factors of the two are one *party* if their labels are similar:
they are joined by average linkage while their cosine is at least 0.6. In the other modes but time, which say what the
actors do, factors are one *topic* if their cosine is at least 0.9; classes that share a factor have the same topic. So
a class is an action of one party on another, or among one party, in a topic. Undirected ties have no direction.

    a → b: fight,  a → b: offer to cooperate,  b → a: protest

is a *motif*: two or three topics with their directions. A pair of parties {a, b} has it if it has a class for each, and
the profiles of these classes over time coincide: every two have a cosine of at least 0.6. What counts is the number of
different pairs that have the motif.

By chance, topics would not depend on who acts on whom, and when. So the topics are permuted among the classes, which
keep their parties and their times. The score of a motif with n pairs is the Poisson probability of n or more, given the
mean of n over all permutations, the data included. Its p is the share of the permutations in which some motif has such
a score or a smaller one (Westfall and Young, 1993). This test is exact whatever the scores: if topics are exchangeable,
the probability that any motif has a p of at most 0.05 is at most 0.05.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.spatial.distance import squareform
from scipy.special import pdtrc

from allocore.classes.matching import HOLDS, directions
from allocore.classes.networks import Modes, node_modes
from allocore.classes.summary import ClassSummary, Profile
from allocore.classes.tracks import average_linkage
from allocore.errors import Described, InputError, whole_number
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.posterior.check import network_modes

PERMUTATIONS = 999
CHANCE = 0.05  # motifs with a smaller probability are shown on the page
_LEAST_PAIRS = 2
_ONE_TOPIC = 0.9
_ROUNDING = 1e-9
_MOST_GROUPS = 2000  # of classes of one pair at one time; the largest classes
_BLOCK = 2_000_000  # groups in all permutations that are counted at once
_AHEAD, _BACK, _WITHIN = 0, 1, 2  # the directions of a class between parties a and b
_ARROWS = ("a → b", "b → a", "among a")
_UNDIRECTED = ("a and b", "a and b", "among a")


class Occurrence(NamedTuple):
    """A pair of parties that has a motif: their labels in words, and the places of its classes, one per role.

    A motif among one party has no b.
    """

    a: str
    b: str
    places: tuple[int, ...]


class Motif(NamedTuple):
    """A pattern of classes, the pairs of parties that have it, and how many pairs would by chance.

    roles: each the arrow and the topic in words. p: the probability of as many pairs, adjusted for all motifs.
    """

    roles: tuple[tuple[str, str], ...]
    occurrences: tuple[Occurrence, ...]
    expected: float
    p: float

    @property
    def words(self) -> str:
        """The pattern in words."""
        return "; ".join(f"{arrow}: {topic}" for arrow, topic in self.roles)


def find_motifs(
    summary: ClassSummary, modes: Modes = None, permutations: int = PERMUTATIONS, seed: int = 0
) -> list[Motif]:
    """Return the motifs that two pairs of parties or more have: the least probable first, and of these the longest.

    A motif is left out if a longer one contains it, has the same pairs, and is no more probable.
    """
    permutations, seed = whole_number("permutations", permutations), whole_number("seed", seed, least=0)
    pair = node_modes(summary.tensor, modes)
    times, topics = _other_modes(summary, pair)
    if not topics:
        others = Described(f"{' and '.join(summary.mode_names[m] for m in pair)}")
        raise InputError("modes", others, "must leave a mode that is no time, for what the actors do")
    if not len(summary.number_C):
        return []
    party_2C = _joined(summary, pair, HOLDS)
    dyad_C = np.unique(np.sort(party_2C, axis=0), axis=1, return_inverse=True)[1].ravel()
    together_CC = dyad_C[:, None] == dyad_C
    for mode in times:
        (unit_CD,) = directions([np.stack([each.share_D for each in summary.profiles[mode]], axis=1)])
        together_CC &= unit_CD @ unit_CD.T >= HOLDS
    undirected = summary.tensor.undirected_modes is not None and set(summary.tensor.undirected_modes) == set(pair)
    ahead_C = (party_2C[0] < party_2C[1]) | undirected
    direction_C = np.where(party_2C[0] == party_2C[1], _WITHIN, np.where(ahead_C, _AHEAD, _BACK))
    groups_N3 = groups_of(together_CC, summary.share_C)
    topics_CL = np.stack([_joined(summary, [mode], _ONE_TOPIC)[0] for mode in topics], axis=1)
    topic_C = np.unique(topics_CL, axis=0, return_inverse=True)[1].ravel()
    found = recurring(groups_N3, dyad_C, direction_C, topic_C, permutations, seed)
    arrows = _UNDIRECTED if undirected else _ARROWS
    motifs = [_in_words(summary, pair, topics, arrows, direction_C, each) for each in _closed(found)]
    return sorted(motifs, key=lambda motif: (motif.p, -len(motif.roles), -len(motif.occurrences)))


def motifs_of_actors(summary: ClassSummary) -> list[Motif]:
    """Return the motifs of the modes with the same labels; none without such modes, or without what the actors do."""
    pair = network_modes(summary.tensor)
    return [] if pair is None or not _other_modes(summary, pair)[1] else find_motifs(summary)


def _other_modes(summary: ClassSummary, pair: tuple[int, int]) -> tuple[list[int], list[int]]:
    """The modes of time, and those of topics."""
    others = [m for m in range(len(summary.modes)) if m not in pair]
    times = [m for m in others if summary.modes[m].kind == "time"]
    return times, [m for m in others if m not in times]


def _joined(summary: ClassSummary, modes: Sequence[int], least: float) -> Ints:
    """Join the factors of some modes that have similar labels; the group of each class in each mode, (L, C)."""
    labels = [[str(label) for label in summary.modes[mode].labels] for mode in modes]
    place = {label: row for row, label in enumerate(dict.fromkeys(label for each in labels for label in each))}
    columns: list[Floats] = []
    items = []
    for mode, own in zip(modes, labels, strict=True):
        rows = [place[label] for label in own]
        number_of = {number: len(columns) + turn for turn, number in enumerate(summary.factors[mode])}
        columns += [
            np.bincount(rows, factor.share_D, len(place)).astype(np.float64)
            for factor in summary.factors[mode].values()
        ]
        items.append([number_of[number] for number in summary.location_CM[:, mode].tolist()])
    (unit_ID,) = directions([np.stack(columns, axis=1)])
    distance_II = np.clip(1.0 - unit_ID @ unit_ID.T, 0.0, 1.0)
    group_I = average_linkage(len(columns), squareform(distance_II, checks=False), 1.0 - least)
    return np.asarray(group_I[np.array(items)])


def groups_of(together_CC: Flags, share_C: Floats) -> Ints:
    """Return all groups of two and three classes that are together, (N, 3), with -1 in place of a third class."""
    pairs = [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(together_CC, 1)), strict=True)]
    groups = [(i, j, -1) for i, j in pairs]
    for i, j in pairs:
        after = np.flatnonzero(together_CC[i] & together_CC[j])
        groups += [(i, j, int(k)) for k in after[after > j]]
    groups_N3 = np.array(groups, dtype=np.int64).reshape(-1, 3)
    size_N = np.where(groups_N3 >= 0, share_C[groups_N3], np.inf).min(axis=1, initial=np.inf)
    return groups_N3[np.sort(np.argsort(-size_N, kind="stable")[:_MOST_GROUPS])]


class Recurring(NamedTuple):
    """A motif as groups of classes: for each pair of parties, the classes in the order of the roles."""

    roles: tuple[tuple[int, int], ...]  # (topic, direction)
    groups: dict[int, tuple[int, ...]]
    flipped: dict[int, bool]  # whether a is the second party of the pair
    expected: float
    p: float


def recurring(
    groups_N3: Ints, dyad_C: Ints, direction_C: Ints, topic_C: Ints, permutations: int, seed: int
) -> list[Recurring]:
    """Return the motifs of at least two pairs of parties, with their probability under permuted topics."""
    if not len(groups_N3):
        return []
    rng = np.random.default_rng(seed)
    topic_BC = np.stack([topic_C, *(rng.permutation(topic_C) for _ in range(permutations))])
    dyad_N, block = dyad_C[groups_N3[:, 0]], max(1, _BLOCK // len(groups_N3))
    counted = [
        _count(_patterns(groups_N3, direction_C, topic_BC[first : first + block])[0], dyad_N)
        for first in range(0, len(topic_BC), block)
    ]
    draw_E = np.concatenate([first * block + draws for first, (draws, _, _) in enumerate(counted)])
    key_E, pairs_E = (np.concatenate([each[part] for each in counted]) for part in (1, 2))
    expected_E, p_E = _scored(draw_E, key_E, pairs_E, len(topic_BC))
    key_1N, flipped_1N = _patterns(groups_N3, direction_C, topic_C[None])
    found = []
    for e in np.flatnonzero((draw_E == 0) & (pairs_E >= _LEAST_PAIRS)).tolist():
        members = np.flatnonzero(key_1N[0] == key_E[e])
        first = members[np.unique(dyad_N[members], return_index=True)[1]].tolist()
        roles: tuple[tuple[int, int], ...] = ()
        groups, flipped = {}, {}
        for n in first:
            places = [place for place in groups_N3[n].tolist() if place >= 0]
            flip = bool(flipped_1N[0, n])
            ways = [_turned(int(direction_C[c]), flip) for c in places]
            if ways.count(_BACK) > ways.count(_AHEAD):
                flip = not flip
            by_role = sorted((_turned(int(direction_C[c]), flip), int(topic_C[c]), c) for c in places)
            roles = tuple((topic, direction) for direction, topic, _ in by_role)
            groups[int(dyad_N[n])] = tuple(place for _, _, place in by_role)
            flipped[int(dyad_N[n])] = flip
        found.append(Recurring(roles, groups, flipped, float(expected_E[e]), float(p_E[e])))
    return found


def _turned(direction: int, flip: bool) -> int:
    return direction if not flip or direction == _WITHIN else 1 - direction


def _patterns(groups_N3: Ints, direction_C: Ints, topic_BC: Ints) -> tuple[Ints, Flags]:
    """The motif of each group in each permutation as one number, -1 if two classes have one role; and if it is turned.

    A pattern and its reverse, with a and b exchanged, are one motif: the smaller of their numbers.
    """
    base, missing_N3 = 3 * (int(topic_BC.max()) + 1) + 1, groups_N3 < 0
    keys = []
    turned_C = np.where(direction_C == _WITHIN, _WITHIN, 1 - direction_C)
    for direction in (direction_C, turned_C):
        role_BN3 = 3 * topic_BC[:, groups_N3] + direction[groups_N3]
        role_BN3[:, missing_N3] = base - 1
        role_BN3.sort(axis=2)
        key_BN = (role_BN3[:, :, 0] * base + role_BN3[:, :, 1]) * base + role_BN3[:, :, 2]
        key_BN[(role_BN3[:, :, 1:] == role_BN3[:, :, :-1]).any(axis=2)] = -1
        keys.append(key_BN)
    return np.minimum(*keys), keys[1] < keys[0]


def _count(key_BN: Ints, dyad_N: Ints) -> tuple[Ints, Ints, Ints]:
    """The permutations, the motifs that each has, and the number of pairs with each."""
    keys, place_BN = np.unique(key_BN, return_inverse=True)
    dyads = int(dyad_N.max()) + 1
    motif_BN = np.arange(len(key_BN))[:, None] * len(keys) + place_BN.reshape(key_BN.shape)
    triples = np.unique((motif_BN * dyads + dyad_N)[key_BN >= 0])
    motif_E, pairs_E = np.unique(triples // dyads, return_counts=True)
    return motif_E // len(keys), keys[motif_E % len(keys)], pairs_E


def _scored(draw_E: Ints, key_E: Ints, pairs_E: Ints, draws: int) -> tuple[Floats, Floats]:
    """The mean number of pairs with each motif over all draws, and its probability, adjusted for all motifs."""
    keys, place_E = np.unique(key_E, return_inverse=True)
    expected_E = (np.bincount(place_E, pairs_E, len(keys)) / draws)[place_E]
    score_E = np.where(pairs_E >= _LEAST_PAIRS, pdtrc(pairs_E - 1, expected_E), 1.0)
    least_B = np.ones(draws)
    np.minimum.at(least_B, draw_E, score_E)
    return expected_E, np.searchsorted(np.sort(least_B), score_E * (1.0 + _ROUNDING), side="right") / draws


def _closed(found: list[Recurring]) -> list[Recurring]:
    """The motifs without those that a longer one contains, with the same pairs, if it is no more probable."""

    def contains(long: Recurring, short: Recurring) -> bool:
        turned = {(topic, _turned(direction, True)) for topic, direction in short.roles}
        inside = set(short.roles) < set(long.roles) or turned < set(long.roles)
        return inside and long.p <= short.p and long.groups.keys() == short.groups.keys()

    return [each for each in found if not any(contains(other, each) for other in found)]


def _in_words(
    summary: ClassSummary,
    pair: tuple[int, int],
    topics: Sequence[int],
    arrows: Sequence[str],
    direction_C: Ints,
    found: Recurring,
) -> Motif:
    first = next(iter(found.groups.values()))
    roles = tuple(
        (arrows[direction], ", ".join(_named(summary.factor(place, mode)) for mode in topics))
        for (_, direction), place in zip(found.roles, first, strict=True)
    )
    occurrences = []
    for dyad, places in found.groups.items():
        sides: dict[int, str] = {}
        for place in places:
            direction = _turned(int(direction_C[place]), found.flipped[dyad])
            # a sends what goes ahead, and receives what comes back.
            ends = {_AHEAD: pair, _BACK: pair[::-1], _WITHIN: pair[:1]}[direction]
            for side, mode in enumerate(ends):
                sides.setdefault(side, _named(summary.profile(place, mode)))
        occurrences.append(Occurrence(sides[0], sides.get(1, ""), places))
    occurrences.sort(key=lambda each: -float(summary.share_C[list(each.places)].sum()))
    return Motif(roles, tuple(occurrences), found.expected, found.p)


def _named(profile: Profile) -> str:
    return profile.short_name or profile.words(1)


def motif_table(summary: ClassSummary, motifs: Sequence[Motif]) -> pd.DataFrame:
    """Return one row per motif and pair of parties: see `Consensus.motifs`."""
    rows = [
        (number, motif.words, len(motif.occurrences), motif.expected, motif.p, a, b, summary.numbers(places))
        for number, motif in enumerate(motifs)
        for a, b, places in motif.occurrences
    ]
    return pd.DataFrame(rows, columns=["motif", "pattern", "pairs", "expected", "p", "a", "b", "classes"])

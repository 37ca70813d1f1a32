"""Networks: counts between pairs of nodes, and which community acts on which, by what.

Two modes are a network if they have the same labels, such as senders and receivers, or if they are named: then it is
one of two kinds of nodes. A class of the consensus, or of a draw, is a tie from its community in the first mode to its
community in the second, and its communities are its factors there. The ties of all classes add up to

    share[g, h, a] = sum over the classes q from g to h of (share of q in all counts) * (share of label a in q)

with the labels a of one further mode, such as actions. If ties are undirected and each node has one membership, a tie
from g to h is one from h to g, and share[g, h, a] and share[h, g, a] are both the sum of the two.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from allocore.classes.summary import ClassSummary, Factor
from allocore.errors import NO_VALUE, Described, InputError, as_list
from allocore.kernels.elementary import Floats, Ints
from allocore.posterior.check import network_modes
from allocore.tensor.count_tensor import CountTensor, both_directions
from allocore.tensor.missing import by_fixed_modes, signed_patterns

MOST_PAIRS = 30_000_000
Modes = Sequence[str | int] | None


def node_modes(tensor: CountTensor, modes: Modes = None) -> tuple[int, int]:
    """Return the places of the two modes of a network: those given, or those with the same labels."""
    if modes is None:
        found = network_modes(tensor)
        if found is None:
            rule = f"must name two of {', '.join(tensor.mode_names)}: no two modes have the same labels"
            raise InputError("modes", NO_VALUE, rule)
        return found
    rule = "must name two different modes, from which and to which ties go"
    chosen = [] if isinstance(modes, str) else [tensor.mode(mode) for mode in as_list("modes", modes, rule)]
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        raise InputError("modes", modes, rule)
    return chosen[0], chosen[1]


class PairCounts(NamedTuple):
    """The counts of each pair of nodes, summed over the other modes, and its number of observed cells, (V, W)."""

    counts_VW: Floats
    cells_VW: Floats


def pair_counts(tensor: CountTensor, modes: tuple[int, int]) -> PairCounts:
    """Return the counts of all pairs. Raises an error if there are too many pairs."""
    one, other = modes
    lengths = tensor.shape[one], tensor.shape[other]
    if lengths[0] * lengths[1] > MOST_PAIRS:
        pairs = Described(f"a network with {lengths[0] * lengths[1]:,} pairs")
        raise InputError("modes", pairs, f"must have at most {MOST_PAIRS:,}; Y.select(...) takes a part of a tensor")
    tensor, counts_VW = both_directions(tensor), np.zeros(lengths)
    np.add.at(counts_VW, (tensor.coords[one], tensor.coords[other]), tensor.counts)
    patterns_PM, signs_P = signed_patterns(tensor.missing)
    length_M = np.array(tensor.shape, dtype=np.float64)
    length_M[list(modes)] = 1.0
    cells_VW = np.full(lengths, length_M.prod())
    covered_P = signs_P * np.where(patterns_PM >= 0, 1.0, length_M).prod(axis=1)
    # A pattern with a wildcard in one of the two modes covers cells of a whole row, column or matrix of pairs.
    for chosen, members in by_fixed_modes(patterns_PM[:, modes]):
        rows_P2 = np.zeros((len(members), 2), dtype=np.int64)
        rows_P2[:, chosen] = patterns_PM[members][:, [modes[place] for place in chosen]]
        lost_VW = np.zeros([length if place in chosen else 1 for place, length in enumerate(lengths)])
        np.add.at(lost_VW, tuple(rows_P2.T), covered_P[members])
        cells_VW -= lost_VW
    return PairCounts(counts_VW, cells_VW)


class CommunityTies(NamedTuple):
    """Which community acts on which: the communities of two modes, largest first, and shares of all counts, (G, H, A).

    A is the number of labels of the mode `by`, or 1 if there is none. Tied modes have the same communities. Undirected
    ties between two communities are there in both orders.
    """

    modes: tuple[int, int]
    by: int | None
    senders: list[Factor]
    receivers: list[Factor]
    share_GHA: Floats
    undirected: bool

    def share_by_label(self, most: int | None = None) -> Floats:
        """Return the shares of the labels of the mode `by` (A), in the ties between the largest communities."""
        share_GHA = self.share_GHA[:most, :most]
        once_GH = np.triu(np.ones(share_GHA.shape[:2])) if self.undirected else np.ones(share_GHA.shape[:2])
        return np.asarray((once_GH[:, :, None] * share_GHA).sum(axis=(0, 1)))

    def heaviest_labels(self, most: int) -> Ints:
        """Return the labels of the mode `by` with the largest shares, heaviest first."""
        share_A = self.share_by_label()
        order = np.argsort(-share_A, kind="stable")
        return np.asarray(order[share_A[order] > 0.0][:most])


def community_ties(summary: ClassSummary, modes: tuple[int, int], by: str | int | None = None) -> CommunityTies:
    """Return which community acts on which, by the labels of a mode: by default the first other one but time."""
    others = [m for m in range(len(summary.modes)) if m not in modes]
    if by is None:
        place = next((m for m in others if summary.modes[m].kind != "time"), None)
    else:
        place = summary.tensor.mode(by)
        if place in modes:
            raise InputError("by", by, "must be a mode other than the two of the nodes")
    senders, receivers = (sorted(summary.factors[m].values(), key=lambda factor: -factor.mass) for m in modes)
    shared = summary.tied is not None and set(summary.tied) == set(modes)
    if shared:
        senders = receivers = _in_either_role(senders, receivers)
    places_2C = [
        [[factor.number for factor in factors].index(number) for number in summary.location_CM[:, m].tolist()]
        for m, factors in zip(modes, (senders, receivers), strict=True)
    ]
    profile_CA = np.ones((len(summary.names), 1 if place is None else summary.tensor.shape[place]))
    if place is not None:
        profile_CA[:] = [profile.share_D for profile in summary.profiles[place]] or 0.0
    share_GHA = np.zeros((len(senders), len(receivers), profile_CA.shape[1]))
    np.add.at(share_GHA, tuple(places_2C), summary.share_C[:, None] * profile_CA)
    undirected = shared and set(summary.tensor.undirected_modes or ()) == set(modes)
    if undirected:
        others_GG = 1.0 - np.eye(len(senders))
        share_GHA += others_GG[:, :, None] * share_GHA.transpose(1, 0, 2)
    return CommunityTies(modes, place, senders, receivers, share_GHA, undirected)


def _in_either_role(senders: list[Factor], receivers: list[Factor]) -> list[Factor]:
    """The factors of tied modes, by their counts in both roles, each as the role with more of them has it."""
    by_role = [{factor.number: factor for factor in factors} for factors in (senders, receivers)]
    mass = {number: sum(role[number].mass for role in by_role if number in role) for role in by_role for number in role}
    found = []
    for number in sorted(mass, key=lambda number: (-mass[number], number)):
        larger = max((role[number] for role in by_role if number in role), key=lambda factor: factor.mass)
        found.append(replace(larger, mass=mass[number] / 2.0))
    return found

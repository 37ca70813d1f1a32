"""Memberships: to which communities the nodes of a mode belong, such as countries as senders of actions.

The *communities* of a mode are the factors of the consensus classes in it: classes with the same factor in at least
half of the draws are of one community, and it has the lowest of their numbers. In draw s, a class that is matched with
a consensus class belongs to its community. Any other class belongs to that of the largest matched class with the same
factor in this draw, if there is one. With n_s[d, q] the expected count of class q in the observed cells of node d,

    m_s[d, g] = sum of n_s[d, q] over the classes q of community g / sum of n_s[d, q] over all classes q

is the *membership* of the node in community g: a share of its expected counts. Its mean over the draws, with the
quantiles 5% and 95%, is the mixed membership. What is left to one is in classes on which the chains differ.

The *main* community of the node in a draw has the largest m_s; there is none if a factor outside of all communities has
more. Its main community is that of most draws, and the probability is the share of these draws. Numbers of classes and
factors in the draws play no role, because communities are those of the consensus.

Tied modes have one membership: n_s[d, q] is the sum over the roles of the node, and a class belongs to one community in
each role. The number of a community is then the lowest of its classes in the first role, if it has any.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore.classes.estimates import QUANTILES, Estimates
from allocore.classes.matching import HOLDS, Directions, directions, evenly_spaced, match_similar, similarities
from allocore.classes.profiles import ClassReader, DrawClasses
from allocore.classes.summary import FAINT, ClassSummary, Profile, ShownMode, is_even
from allocore.errors import check_choice, place_of
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.tensor.labels import free_name

MembershipTable = Literal["nodes", "shares", "communities"]
_MOST_CLASSES = 500  # Tucker cores can have more locations than can be matched; smaller ones hardly matter
_MOST_DRAWS = 400  # of all chains: the standard error of a probability is then at most 2.5%
_MOST_NUMBERS, _LEAST_DRAWS = 50_000_000, 8  # quantiles need the memberships of many draws at once
_ROUNDING = 1e-9
_NAMED = 3  # labels in the name of a community
_MENTIONED = 4  # communities of a node in words


@dataclass(frozen=True)
class Memberships:
    """The communities of a mode and the memberships of its D nodes in G of them, largest community first.

    `Consensus.memberships` returns it.

    Attributes
    ----------
    mode : ShownMode
        The mode, with its labels.
    roles : tuple of str
        The names of the modes that share the factors: one, or two if the modes are tied.
    source : str
        Where the communities are from, such as "consensus of 2 chains, 20 draws".
    number, names : ndarray of int (G,), tuple of str
        The numbers of the communities, and the labels with most of their counts, or the name of a seeded or frozen
        factor.
    classes : tuple of tuples of int
        The numbers of the consensus classes of each community, in any role.
    share, low, high : ndarray of float (D, G)
        The mean membership of each node in each community, and the ends of its 90% interval; NaN for nodes without
        observed cells.
    probability : ndarray of float (D, G)
        The posterior probability that each community is the main one of the node.
    expected : ndarray of float (D,)
        The mean expected counts of each node in the observed cells, in all its roles.
    draws : int
        How many draws were used.

    Examples
    --------
    >>> found = post.consensus().memberships("origin")
    >>> found
    Memberships of 3 nodes of origin in ... communities: consensus of 2 chains, 20 draws
    >>> bool((found.share.sum(axis=1) <= 1 + 1e-9).all())
    True
    """

    mode: ShownMode
    roles: tuple[str, ...]
    source: str
    number: Ints
    names: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    share: Floats
    low: Floats
    high: Floats
    probability: Floats
    expected: Floats
    draws: int

    @cached_property
    def main(self) -> Ints:
        """The position of the main community of each node, (D,); -1 if there is none."""
        if not len(self.number):
            return np.full(len(self.share), -1)
        # Of several that are equally probable, the one with the larger membership.
        main_D = np.lexsort((np.nan_to_num(self.share), self.probability))[:, -1]
        return np.where(self.probability[np.arange(len(main_D)), main_D] > 0.0, main_D, -1)

    @cached_property
    def other(self) -> Floats:
        """The part of each node that is in no community, (D,)."""
        other_D = 1.0 - self.share.sum(axis=1)
        return np.where(np.abs(other_D) < _ROUNDING, 0.0, other_D)

    @cached_property
    def size(self) -> Floats:
        """The share of all expected counts of the nodes in each community, (G,)."""
        counts_DG = self.expected[:, None] * np.nan_to_num(self.share)
        return np.asarray(counts_DG.sum(axis=0) / (self.expected.sum() or 1.0))

    def frame(self, what: MembershipTable = "nodes") -> pd.DataFrame:
        """Return one row per node, per node and community, or per community: see `Posterior.memberships`.

        Parameters
        ----------
        what : {"nodes", "shares", "communities"}
            Which table.

        Returns
        -------
        pandas.DataFrame

        Examples
        --------
        >>> post.consensus().memberships("origin").frame().index.name
        'origin'
        """
        check_choice("what", what, get_args(MembershipTable))
        table = {"nodes": self._nodes, "shares": self._shares, "communities": self._communities}[what]()
        table.attrs["source"] = self.source
        return table

    def words(self, node: int) -> str:
        """Return the memberships of a node in words, such as "3 62%, 7 20%", largest first.

        Parameters
        ----------
        node : int
            The position of the node.

        Returns
        -------
        str

        Examples
        --------
        >>> "%" in post.consensus().memberships("origin").words(0)
        True
        """
        share_G = np.nan_to_num(self.share[place_of("node", node, len(self.share))])
        largest = [g for g in np.argsort(-share_G, kind="stable")[:_MENTIONED].tolist() if share_G[g] >= FAINT]
        return ", ".join(f"{self.number[g]} {share_G[g]:.0%}" for g in largest)

    def _nodes(self) -> pd.DataFrame:
        main_D, rows = self.main, np.arange(len(self.share))
        known_D = main_D >= 0
        columns: dict[str, Any] = {
            "community": pd.array([self.number[g] if g >= 0 else None for g in main_D], dtype="Int64"),
            "name": [self.names[g] if g >= 0 else "" for g in main_D],
        }
        for name in ("probability", "share", "low", "high"):
            values_DG = getattr(self, name)
            columns[name] = np.where(known_D, values_DG[rows, main_D], np.nan) if len(self.number) else np.nan
        columns["mixed"] = [self.words(node) for node in range(len(rows))]
        columns |= {"other": self.other, "expected": self.expected}
        index = pd.Index(list(self.mode.labels), name=self.mode.name)
        return pd.DataFrame(self._free(columns), index=index)

    def _shares(self) -> pd.DataFrame:
        nodes, communities = self.share.shape
        columns = {
            "community": np.tile(self.number, nodes),
            "name": np.tile(np.array(self.names, dtype=object), nodes),
            **{name: getattr(self, name).ravel() for name in ("probability", "share", "low", "high")},
        }
        node = pd.Series(np.repeat(np.arange(nodes), communities)).map(dict(enumerate(self.mode.labels)))
        return pd.DataFrame({self.mode.name: node, **self._free(columns)})

    def _free(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns by names that are not that of the mode."""
        return {free_name(name, (self.mode.name,)): values for name, values in columns.items()}

    def _communities(self) -> pd.DataFrame:
        columns = {
            "name": list(self.names),
            "share": self.size,
            "nodes": np.bincount(self.main[self.main >= 0], minlength=len(self.number)),
            "classes": pd.Series(self.classes, dtype=object).to_numpy(),
        }
        return pd.DataFrame(columns, index=pd.Index(self.number, name="community"))

    def __repr__(self) -> str:
        nodes, communities = self.share.shape
        which = f"{communities} communit{'y' if communities == 1 else 'ies'}"
        return f"Memberships of {nodes} nodes of {' and '.join(self.roles)} in {which}: {self.source}"


def find_memberships(
    reader: ClassReader,
    found: Estimates,
    summary: ClassSummary,
    roles: Sequence[int],
    number_RC: Ints,
    tick: Callable[[int, int], None],
) -> Memberships:
    """Return the memberships of a mode, or of R modes that share their factors.

    `found` and `summary` are of the consensus, and `number_RC` has the community of its classes in each role.
    """
    mode = summary.modes[roles[0]]
    chains, nodes = len(reader.record.core_values), len(mode.labels)
    used = found.draws[evenly_spaced(len(found.draws), max(1, _MOST_DRAWS // chains))]
    number_G, group_RC = np.unique(number_RC, return_inverse=True)
    group_RC = group_RC.reshape(number_RC.shape)
    communities, whole = len(number_G), chains * len(used)
    kept = max(_LEAST_DRAWS, _MOST_NUMBERS // max(1, nodes * communities))
    sampled = set(evenly_spaced(whole, kept).tolist())
    samples = np.full((len(sampled), nodes, communities), np.nan, dtype=np.float32)
    sum_DG, counts_DG, main_DG = np.zeros((3, nodes, communities))
    expected_D, seen_D = np.zeros((2, nodes))
    centres, row, turns = directions(found.mean_profiles), np.arange(nodes), 0
    for turn, (chain, draw) in enumerate(product(range(chains), used.tolist())):
        counts_DL = _counts_by_community(reader, reader.read(chain, draw), centres, group_RC, communities, roles)
        total_D = counts_DL.sum(axis=1)
        known_D = total_D > 0.0
        share_DG = counts_DL[:, :communities] / np.where(known_D, total_D, 1.0)[:, None]
        sum_DG += share_DG
        counts_DG += counts_DL[:, :communities]
        expected_D += total_D
        seen_D += known_D
        main_D = counts_DL.argmax(axis=1)
        counted = row[known_D & (main_D < communities)]
        main_DG[counted, main_D[counted]] += 1.0
        if turn in sampled:
            samples[turns, known_D] = share_DG[known_D]
            turns += 1
        tick(turn + 1, whole)
    # Nodes without observed cells have no counts in any draw.
    seen_D1 = np.where(seen_D > 0.0, seen_D, np.nan)[:, None]
    low_DG, high_DG = _interval(samples, seen_D > 0.0)
    order_G = np.argsort(-counts_DG.sum(axis=0), kind="stable")
    known = {number: factor.known for role in roles for number, factor in summary.factors[role].items()}
    return Memberships(
        mode=mode,
        roles=tuple(reader.record.tensor.mode_names[role] for role in roles),
        source=summary.source,
        number=number_G[order_G],
        names=tuple(known.get(int(number_G[g]), "") or _name(mode, counts_DG[:, g]) for g in order_G.tolist()),
        classes=tuple(
            tuple(np.sort(summary.number_C[(number_RC == number_G[g]).any(axis=0)]).tolist()) for g in order_G.tolist()
        ),
        share=(sum_DG / seen_D1)[:, order_G],
        low=low_DG[:, order_G],
        high=high_DG[:, order_G],
        probability=np.nan_to_num(main_DG / seen_D1)[:, order_G],
        expected=expected_D / whole,
        draws=whole,
    )


def _counts_by_community(
    reader: ClassReader,
    classes: DrawClasses,
    centres: Directions,
    group_RC: Ints,
    communities: int,
    roles: Sequence[int],
) -> Floats:
    """The expected counts of each node in each community in one draw, and then in each factor outside of all."""
    compared = directions([profile_DC[:, :_MOST_CLASSES] for profile_DC in classes.profiles])
    ours, theirs = match_similar(similarities(compared, centres, HOLDS), HOLDS, classes.share_C[:_MOST_CLASSES])
    by_size = np.argsort(-ours, kind="stable")  # the largest last: it decides on a factor that several classes share
    location_CR = classes.location_CM[:, list(roles)]
    factors = 1 + int(location_CR.max(initial=0))
    of_factor_K = np.full(factors, -1)
    of_factor_K[location_CR[ours[by_size]].ravel()] = group_RC[:, theirs[by_size]].T.ravel()
    counts_DL = np.zeros((len(classes.profiles[roles[0]]), communities + factors))
    for role, group_C, location_C in zip(roles, group_RC, location_CR.T, strict=True):
        column_C = np.where(of_factor_K[location_C] >= 0, of_factor_K[location_C], communities + location_C)
        column_C[ours] = group_C[theirs]
        counts_DC = reader.row_counts(classes, role)
        for column in np.unique(column_C).tolist():
            counts_DL[:, column] += counts_DC[:, column_C == column].sum(axis=1)
    return counts_DL


def _interval(samples_NDG: NDArray[np.float32], known_D: Flags) -> tuple[Floats, Floats]:
    """The ends of the interval of each membership, (D, G); NaN for nodes without observed cells."""
    low_DG, high_DG = np.full((2, *samples_NDG.shape[1:]), np.nan)
    if samples_NDG.size and known_D.any():
        ends = (QUANTILES[0], QUANTILES[2])
        low_DG[known_D], high_DG[known_D] = np.quantile(samples_NDG[:, known_D], ends, axis=0)
    return low_DG, high_DG


def _name(mode: ShownMode, counts_D: Floats) -> str:
    """The labels with most of the counts of a community."""
    share_D = counts_D / (counts_D.sum() or 1.0)
    profile = Profile(mode, share_D, is_even(share_D))
    if profile.empty or profile.even:
        return profile.words(1)
    rows = profile.heaviest[: len(profile.top(_NAMED))].tolist()
    return mode.join_labels(rows)

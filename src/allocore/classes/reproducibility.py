"""Would another run find the same classes? The consensus of some chains of a run against that of others.

Two sets of chains agree on a class if both have it, matched one to one, with a cosine of at least 0.9 in every mode.
Their agreement is the share of the counts in their classes that they agree on, averaged over the two. It is measured
for random disjoint sets of half of the chains, a quarter, an eighth and so on, down to two chains.

Larger sets agree more. What two sets do not agree on shrinks by about the same factor each time their size doubles, so
two runs with all chains are expected to agree on 1 - h^2 / q, if halves disagree on h and quarters on q. On five data
sets this was within 0.05 of independent runs, on average (docs/explanation/experiments.md).

The classes of a set are found from the tracks of its chains (tracks.py), which are followed once. On ICEWS data they
agree with the classes of the consensus, for which every draw is matched, within a few hundredths.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from allocore.classes.matching import directions, evenly_spaced, match
from allocore.classes.profiles import ClassReader
from allocore.classes.tracks import SharedClasses, Tracks, TrackTable, follow
from allocore.errors import InputError
from allocore.kernels.elementary import Floats, Ints

LEAST_CHAINS = 4  # two sets of two
_ALIKE = 0.9
_RISES = 0.02  # of the agreement, from quarters to halves of the chains; a smaller rise is not worth twice the work
_REPEATS = 8  # random pairs of sets of each size; single pairs vary by about 0.04
_FOLLOWED_DRAWS, _FEWEST_FOLLOWED = 100, 3  # of all chains, and of each
_MOST_CLASSES = 500


@dataclass(frozen=True, eq=False)
class Reproducibility:
    """How well sets of chains agree on the classes, as `Posterior.reproducibility` returns it.

    Attributes
    ----------
    agreement : float
        The share of the counts in the classes of this run that another run like it would find too, as expected from the
        trend in the table. With 4 to 7 chains, there is no trend, and it is that of the halves.
    table : pandas.DataFrame
        A row for each size of the sets, `chains`: the mean `agreement` of two disjoint sets, its standard deviation
        `sd` over random pairs, and the share of all counts `covered` by the classes of a set.
    found_again : numpy.ndarray
        For each consensus class of the run, how often a half of the chains finds it.

    Examples
    --------
    >>> import allocore as ac
    >>> model = ac.CP(3, burn_in=5, draws=4, thin=1, chains=4, seed=1).fit(ac.load_flights())
    >>> found = model.posterior_.reproducibility()
    >>> list(found.table.columns), bool(0.0 <= found.agreement <= 1.0)
    (['chains', 'agreement', 'sd', 'covered'], True)
    """

    agreement: float
    table: pd.DataFrame
    found_again: Floats

    @property
    def rises(self) -> bool:
        """Whether more chains would help: larger sets of chains still agree more, or there is only one size of sets."""
        by_size = self.table["agreement"].tolist()
        return len(by_size) < 2 or by_size[-1] - by_size[-2] >= _RISES


def judge_reproducibility(
    reader: ClassReader, consensus_profiles: tuple[Floats, ...] | None, tick: Callable[[int, int], None]
) -> Reproducibility:
    """Compare random sets of the chains of a run; `tick` gets the work done and the whole work.

    Without the profiles of the consensus classes, it stays unknown how often they are found.
    """
    chains, draws = reader.record.core_values.shape[:2]
    check_chains(chains)
    followed = evenly_spaced(draws, max(_FEWEST_FOLLOWED, _FOLLOWED_DRAWS // chains)).tolist()
    sizes = _sizes(chains)
    whole = chains + _REPEATS * len(sizes)

    def tracks() -> Iterator[Tracks]:
        for chain in range(chains):
            yield follow(reader.read(chain, draw, _MOST_CLASSES) for draw in followed)
            tick(chain + 1, whole)

    table, rng = TrackTable(tracks(), chains), np.random.default_rng(0)
    rows, found_C = [], np.zeros(consensus_profiles[0].shape[1] if consensus_profiles else 0)
    for turn, size in enumerate(sizes):
        agreed, covered = [], []
        for repeat, sets in enumerate(_pairs(chains, size, rng), 1):
            classes = [table.shared_classes(each) for each in sets]
            agreed.append(agreement(*classes))
            covered += [each.share_C.sum() for each in classes]
            if size == sizes[-1] and consensus_profiles:
                for each in classes:
                    found_C[_matched(consensus_profiles, each.profiles)[0]] += 0.5 / _REPEATS
            tick(chains + turn * _REPEATS + repeat, whole)
        rows.append((size, np.mean(agreed), np.std(agreed), np.mean(covered)))
    numbers = pd.DataFrame(rows, columns=["chains", "agreement", "sd", "covered"])
    return Reproducibility(expected_agreement(sizes, numbers["agreement"].tolist()), numbers, found_C)


def expected_agreement(sizes: Sequence[int], agreed: Sequence[float]) -> float:
    """Return how well sets of twice the last size would agree, given the agreement of smaller ones."""
    if len(sizes) < 2 or agreed[-2] >= agreed[-1]:
        return agreed[-1]
    factor = (1.0 - agreed[-1]) / (1.0 - agreed[-2])
    return 1.0 - (1.0 - agreed[-1]) * math.pow(factor, math.log(2) / math.log(sizes[-1] / sizes[-2]))


def check_chains(chains: int) -> None:
    """Check that there are enough chains to compare."""
    if chains < LEAST_CHAINS:
        rule = f"must be at least {LEAST_CHAINS}, so that two sets of two chains can be compared"
        raise InputError("chains", chains, rule)


def _sizes(chains: int) -> list[int]:
    """Half of the chains, a quarter, an eighth, .. down to two; the largest last."""
    sizes = [chains // 2]
    while sizes[0] >= 4:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def _pairs(chains: int, size: int, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
    for _ in range(_REPEATS):
        order = rng.permutation(chains)
        yield np.sort(order[:size]), np.sort(order[size : 2 * size])


def agreement(one: SharedClasses, other: SharedClasses) -> float:
    """Return the share of the counts in the classes of two sets that both have; 0 if there are no classes."""
    ours, theirs = _matched(one.profiles, other.profiles)
    shares = [
        each.share_C[places].sum() / each.share_C.sum()
        for each, places in ((one, ours), (other, theirs))
        if len(each.share_C)
    ]
    return float(np.mean(shares)) if shares else 0.0


def _matched(ours: tuple[Floats, ...], theirs: tuple[Floats, ...]) -> tuple[Ints, Ints]:
    return match(directions(ours), directions(theirs), _ALIKE)

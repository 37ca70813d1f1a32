"""The consensus: the classes that the chains agree on, with support, intervals and stable numbers.

`estimate_classes` is the whole algorithm; `find_consensus` also gives the classes numbers and names.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from allocore._text import plural, unique_names
from allocore.classes.estimates import QUANTILES, Estimates, ProfileBand
from allocore.classes.matching import (
    HOLDS,
    add_profiles,
    blocks_of_rows,
    directions,
    evenly_spaced,
    match_similar,
    similarities,
)
from allocore.classes.memberships import Memberships, find_memberships
from allocore.classes.motifs import PERMUTATIONS, find_motifs, motif_table
from allocore.classes.names import classes_html, names_of
from allocore.classes.networks import Modes
from allocore.classes.numbering import Known, Numbers, carried_over, number_and_save, number_classes, read_consensus
from allocore.classes.profiles import HELD, ClassReader, DrawClasses, inferred_budget
from allocore.classes.reproducibility import LEAST_CHAINS, Reproducibility, judge_reproducibility
from allocore.classes.summary import (
    ClassSummary,
    Support,
    factor_names,
    factors_in_use,
    profiles_of,
    shown_modes,
    unused_factors,
)
from allocore.classes.tables import TidyTable, band_table, class_table, sharing_pairs
from allocore.classes.tracks import TrackTable, average_linkage, enough_chains, follow
from allocore.errors import InputError, check_flags, place_of, whole_number
from allocore.findings import Finding
from allocore.kernels.elementary import Floats, Ints
from allocore.model.spec import Spec
from allocore.progress import draw_bar
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys
from allocore.tensor.labels import matching_rows

_CLUSTER_DRAWS = 100  # of all chains, to find clusters; more do not change them
_MOST_DRAWS = 1000  # for support, shares and sharing: the standard error of a share is then at most 1.6%
_QUANTILE_DRAWS, _LEAST_DRAWS, _MOST_NUMBERS = 100, 8, 50_000_000  # quantiles need many profiles at once
_MOST_CLASSES = 500  # Tucker cores can have more locations than can be matched; smaller ones hardly matter
_MENTIONED = 0.005  # smaller shares are not mentioned in a sentence
_SHARED = 0.5  # two classes are shown with one factor if they have it in this share of the draws that hold both


def find_consensus(
    record: Record, folder: Path | None, known: Known | None, start: Numbers | None, progress: bool
) -> "Consensus":
    """Find the consensus of a run, or read it if its folder has it, and compare sets of the chains.

    Numbers agree with those in the folder, or else with `known`, or else with `start`, where a refit began.
    """
    found, numbering = _numbered(
        record, folder, start.known if known is None and start is not None else known, progress
    )
    return Consensus(record, found, numbering, start, _compared_chains(record, found, progress))


def _numbered(record: Record, folder: Path | None, known: Known | None, progress: bool) -> tuple[Estimates, Numbers]:
    """The classes with their numbers and names, from the folder of the run if they are there.

    Those of a quick look are not saved there: the whole run has the numbers that it would have without it.
    """
    saved = read_consensus(folder, record) if folder is not None else None
    if saved and saved.is_of(record) and record.chosen is None:
        return saved.estimates, saved.numbering
    with draw_bar("consensus", progress) as tick:
        found = estimate_classes(ClassReader(record), tick)
    names = names_of(record.tensor, found.mean_profiles, factor_names(record.spec, found.known))
    if folder is not None and record.chosen is None and not record.preliminary:
        return found, number_and_save(folder, record, found, names, known)
    known = saved.numbering.known if saved is not None else known
    return found, number_classes(found.mean_profiles, names, known, found.apart)


def _compared_chains(record: Record, found: Estimates, progress: bool) -> Reproducibility | None:
    """How well sets of the chains agree on the classes, if there are enough chains."""
    if len(record.core_values) < LEAST_CHAINS:
        return None
    with draw_bar("comparing chains", progress) as tick:
        return judge_reproducibility(ClassReader(record), found.mean_profiles, tick)


def estimate_classes(reader: ClassReader, tick: Callable[[int, int], None]) -> Estimates:
    """Find the classes that the chains agree on; `tick` gets the work done and the whole work, in draws.

    1. *Tracks.* The classes of each chain are followed from draw to draw (tracks.py).
    2. *Clusters.* The tracks of all chains are joined by average linkage.
    3. *Matches.* Every draw is matched with the centres of the clusters, one to one, by the cosines of the profiles in
       every mode times the sizes of its classes. A draw holds a class if one of its classes is matched with it.
    4. *Support.* Clusters that at least a quarter of the chains hold, and two or more, are the consensus classes.
    5. *Estimates.* Shares are averages over all draws, with zero if a draw does not hold the class. Profiles, by mass,
       and their medians and intervals are over the draws that hold the class.
    """
    chains, draws = reader.record.core_values.shape[:2]
    followed = evenly_spaced(draws, max(1, _CLUSTER_DRAWS // chains))
    compared = evenly_spaced(draws, max(1, _MOST_DRAWS // chains))
    first, whole = chains * len(followed), chains * (len(followed) + len(compared))

    def classes_of(draws: Ints, chains: Iterable[int], done: int) -> Iterator[DrawClasses]:
        for turn, (chain, draw) in enumerate(product(chains, draws.tolist()), 1):
            yield reader.read(chain, draw, _MOST_CLASSES)
            tick(done + turn, whole)

    tracks = (follow(classes_of(followed, [chain], chain * len(followed))) for chain in range(chains))
    pairs = ((classes, classes) for classes in classes_of(compared, range(chains), first))
    return _matched_estimates(reader, compared, TrackTable(tracks, chains).centres(), pairs)[0]


def _matched_estimates(
    reader: ClassReader, draws: Ints, centres: tuple[Floats, ...], pairs: Iterable[tuple[DrawClasses, DrawClasses]]
) -> tuple[Estimates, Ints]:
    """Match draws with G centres; `pairs` has the classes to match, and the same classes as `reader` reads them."""
    chains, modes, centre_directions = len(reader.record.core_values), len(centres), directions(centres)
    lead = (chains, len(draws), centres[0].shape[1])
    shares, value_G, alike_G = np.zeros(lead), np.zeros(lead[2]), np.zeros(lead[2])
    # The class of a draw that is matched with a cluster, and its location; -1 if there is none.
    class_of, location = np.full(lead, -1, dtype=np.int32), np.full((*lead, modes), -1, dtype=np.int32)
    # The sums of profiles of each mode, and then those of factors if they differ.
    sums = [np.zeros((lead[2], length)) for length in reader.record.tensor.shape * (1 + reader.has_missing)]
    places = np.ndindex(lead[:2])
    for matched, classes in pairs:
        chain, place = next(places)
        similarity_CG = similarities(directions(matched.profiles), centre_directions, HOLDS)
        ours, clusters = match_similar(similarity_CG, HOLDS, matched.share_C)
        share_C = classes.share_C[ours]
        shares[chain, place, clusters] = share_C
        class_of[chain, place, clusters] = ours
        location[chain, place, clusters] = classes.location_CM[ours]
        value_G[clusters] += classes.value_C[ours]
        for sum_GD, table_DC in zip(sums, classes.tables, strict=True):
            add_profiles(sum_GD, clusters, table_DC, ours, share_C)
        # Classes without a match that are similar to their nearest cluster.
        left_CG, left_C = np.delete(similarity_CG, ours, axis=0), np.delete(classes.share_C, ours)
        if left_CG.size:
            similar_C = left_CG.max(axis=1) >= HOLDS
            alike_G += np.bincount(left_CG.argmax(axis=1)[similar_C], left_C[similar_C], lead[2])
        del matched, classes  # before the next draw is read: profiles may be large
    del centres, centre_directions
    held, share_G = class_of >= 0, shares.mean(axis=(0, 1))
    holding_G = (held.mean(axis=1) >= HELD).sum(axis=0)
    chosen = np.flatnonzero((holding_G >= enough_chains(chains)) & (share_G > 0.0))
    chosen = chosen[np.argsort(-share_G[chosen], kind="stable")]
    for place, sum_GD in enumerate(sums):
        sums[place] = sum_GD[chosen]
    bands = _bands(reader, draws, sums, class_of[:, :, chosen])
    profiles = bands[:modes]
    location_NCM = location[:, :, chosen].reshape(chains * len(draws), len(chosen), modes)
    sharing, roles = _sharing(location_NCM, reader.record.spec.tied)
    estimates = Estimates(
        draws=draws,
        value=value_G[chosen] / (chains * len(draws)),
        shares=shares[:, :, chosen],
        held=held[:, :, chosen],
        profiles=profiles,
        factors=bands[modes:] or profiles,
        sharing=sharing,
        alike=float(alike_G[chosen].sum() / (chains * len(draws))),
        roles=roles,
        known=_known(location_NCM, reader.record.spec) if reader.record.spec.known else None,
    )
    return estimates, chosen


def _known(location_NCM: NDArray[np.int32], spec: Spec) -> Ints:
    """The known factor of each class in each mode: that which it has in most of the draws that hold it."""
    known_CM = np.full(location_NCM.shape[1:], -1, dtype=np.int64)
    held_C = (location_NCM[:, :, 0] >= 0).sum(axis=0)
    for mode, known in enumerate(spec.known):
        for k in range(len(known)):
            known_CM[(location_NCM[:, :, mode] == k).sum(axis=0) > held_C / 2, mode] = k
    return known_CM


def _bands(
    reader: ClassReader, draws: Ints, sums: list[Floats], class_of: NDArray[np.int32]
) -> tuple[ProfileBand, ...]:
    """The mean profiles, made in place of sums (C, D) over all draws, with quantiles over about a hundred draws."""
    chains, most = len(class_of), _MOST_NUMBERS // max(1, sum(sum_CD.size for sum_CD in sums))
    places = evenly_spaced(len(draws), max(1, min(max(most, _LEAST_DRAWS), _QUANTILE_DRAWS) // chains)).tolist()
    # The profiles (C, draw, D) of each mode, NaN if a draw does not hold the class.
    samples = [
        np.full((len(sum_CD), chains * len(places), sum_CD.shape[1]), np.nan, dtype=np.float32) for sum_CD in sums
    ]
    for turn, (chain, place) in enumerate(product(range(chains), places)):
        class_C = class_of[chain, place]
        held = np.flatnonzero(class_C >= 0)
        tables = reader.read(chain, int(draws[place]), _MOST_CLASSES).tables
        for sample, table_DC in zip(samples, tables, strict=True):
            for rows in blocks_of_rows(len(table_DC)):
                sample[held, turn, rows] = table_DC[rows, class_C[held]].T
        del tables, table_DC  # before the next draw is read
    bands = []
    for mean_CD, sample in zip(sums, samples, strict=True):
        mean_CD /= np.maximum(mean_CD.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        quantiles = np.empty((3, *mean_CD.shape), dtype=np.float32)
        for place, values in enumerate(sample):
            known = values[~np.isnan(values[:, 0])]
            quantiles[:, place] = np.quantile(known, QUANTILES, axis=0) if len(known) else mean_CD[place]
        low_CD, median_CD, high_CD = quantiles
        bands.append(ProfileBand(mean_CD.T, low_CD.T, high_CD.T, median_CD.T))
    return tuple(bands)


def _sharing(location_NCM: NDArray[np.int32], tied: tuple[int, int] | None) -> tuple[tuple[Floats, ...], Floats | None]:
    """For each mode (C, C), the share of the draws with both classes in which both have the same factor.

    And the same for a class in the first of two tied modes and a class in the second.
    """
    held_NC = (location_NCM[:, :, 0] >= 0).astype(np.float64)
    both_CC = np.maximum(held_NC.T @ held_NC, 1.0)

    def share(one: int, other: int) -> Floats:
        same_CC = np.zeros(both_CC.shape)
        for location_CM in location_NCM:
            same_CC += (location_CM[:, one, None] == location_CM[:, other]) & (location_CM[:, other] >= 0)
        return same_CC / both_CC

    modes = location_NCM.shape[2]
    return tuple(share(mode, mode) for mode in range(modes)), None if tied is None else share(*tied)


def class_shares(reader: ClassReader, profiles: Sequence[Floats]) -> Floats:
    """Return the share of the counts in each of C classes in every draw, (chain, draw, C); zero if not held."""
    lead, centre_directions = reader.record.core_values.shape[:2], directions(profiles)
    shares = np.zeros((*lead, profiles[0].shape[1]))
    for chain, draw in np.ndindex(lead):
        classes = reader.read(chain, draw, _MOST_CLASSES)
        similarity_CG = similarities(directions(classes.profiles), centre_directions, HOLDS)
        ours, clusters = match_similar(similarity_CG, HOLDS, classes.share_C)
        shares[chain, draw, clusters] = classes.share_C[ours]
    return shares


def consensus_of_new_rows(record: Record, run: Record, consensus: "Consensus", progress: bool) -> "Consensus":
    """Return the consensus of new rows, with the classes and numbers of the run that they were folded into.

    A draw holds a class if it does so in the fit, because the new rows may be too few to distinguish classes.
    """
    found, fitted = consensus.estimates, ClassReader(run)
    folded = _FoldedReader(record, fitted)
    places = list(product(range(len(run.core_values)), found.draws.tolist()))
    with draw_bar("consensus", progress) as tick:

        def pairs() -> Iterator[tuple[DrawClasses, DrawClasses]]:
            for done, (chain, draw) in enumerate(places, 1):
                yield fitted.read(chain, draw, _MOST_CLASSES), folded.read(chain, draw, _MOST_CLASSES)
                tick(done, len(places))

        estimates, chosen = _matched_estimates(folded, found.draws, found.mean_profiles, pairs())
    names = tuple(consensus.names[place] for place in chosen.tolist())
    rows = matching_rows(record.tensor.labels, run.tensor.labels)
    if (new := record.new_rows) is not None:
        for mode in new.modes:
            rows[mode][new.first :] = -1  # even if the fit has their labels
    numbers = carried_over(Numbers(consensus.numbers[chosen], names, consensus.numbering.known), rows)
    of_run = consensus.reproducibility
    halves = None if of_run is None else replace(of_run, found_again=of_run.found_again[chosen])
    return Consensus(record, estimates, numbers, reproducibility=halves)


class _FoldedReader(ClassReader):
    """Reads the classes of the draws of new rows, in the order that they have in the fit."""

    def __init__(self, record: Record, fitted: ClassReader) -> None:
        super().__init__(record)
        self._fitted = fitted

    def read(self, chain: int, draw: int, most: int | None = None) -> DrawClasses:
        """Return the classes of one draw, or the largest of them in the fit."""
        own, wanted_CM = super().read(chain, draw), self._fitted.read(chain, draw, most).location_CM
        own_C, wanted_C = column_keys(self.record.spec.core_shape, own.location_CM.T, wanted_CM.T)
        by_key_C = np.argsort(own_C)
        return own.in_order(by_key_C[np.searchsorted(own_C[by_key_C], wanted_C)])


class Consensus:
    """What the chains agree on: classes that at least a quarter of them hold, whatever their numbers there.

    `Posterior.consensus` returns it. The classes of many draws of all chains are joined into clusters by the cosines of
    their profiles, and matched one to one with the classes of each draw. A draw *holds* a consensus class if the
    matched class has a cosine of at least 0.6 in every mode; a chain if at least half of its draws do. The largest
    class comes first. Numbers stay the same when the run is resumed, and in refits that start from it, and so do the
    names of classes that hardly change.

    Parameters
    ----------
    record : Record
        The run: its data, settings, draws and trace.
    estimates, numbering : Estimates, Numbers
        The consensus classes as arrays, and their numbers and names.
    start : Numbers, optional
        The numbers and names of the run where this one started, if it is a refit.
    reproducibility : Reproducibility, optional
        How well sets of chains agree on the classes; None with fewer than four chains.

    Examples
    --------
    >>> found = post.consensus()
    >>> found
    Consensus of 2 chains, 20 draws: ... classes that hold ...% of the expected counts
    >>> bool((found.support >= 0.5).all()), len(found.profiles), found.profiles[0].shape[0]
    (True, 5, 3)
    """

    def __init__(
        self,
        record: Record,
        estimates: Estimates,
        numbering: Numbers,
        start: Numbers | None = None,
        reproducibility: Reproducibility | None = None,
    ) -> None:
        self._record, self.estimates, self.numbering = record, estimates, numbering
        self.reproducibility = reproducibility
        self.summary: ClassSummary = _summarize(record, estimates, numbering, start, reproducibility)
        self._memberships: dict[tuple[int, ...], Memberships] = {}

    @cached_property
    def _reader(self) -> ClassReader:
        return ClassReader(self._record)

    @property
    def share(self) -> NDArray[np.float64]:
        """The share of the counts in each class, (C,): the mean over all draws, zero if a draw does not hold it."""
        return self.estimates.share

    @property
    def share_interval(self) -> NDArray[np.float64]:
        """The 90% interval of each share, (C, 2), over all draws of all chains."""
        return self.estimates.share_interval

    @property
    def support(self) -> NDArray[np.float64]:
        """The share of chains that hold each class, (C,). With one chain, the share of draws."""
        return self.estimates.support

    @property
    def support_draws(self) -> NDArray[np.float64]:
        """The share of draws, of all chains, that hold each class, (C,)."""
        return self.estimates.support_draws

    @property
    def profiles(self) -> list[NDArray[np.float64]]:
        """The shares of each class's expected counts in the observed cells: (D_m, C) per mode, columns sum to one."""
        return list(self.estimates.mean_profiles)

    @property
    def factors(self) -> list[NDArray[np.float64]]:
        """The factor of each class, (D_m, C) per mode, columns sum to one. It differs from the profile if cells miss.

        With `dispersion_by`, the rows of that mode are weighted by p / (1 - p), to be shares of expected counts.
        """
        return [band.mean for band in self.estimates.factors]

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each class, (C,); it stays the same when the run is resumed, extended or fitted again."""
        return self.numbering.number_C

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each class in words; in longer runs and refits, a class that changed much gets a new name."""
        return self.numbering.names

    @property
    def shares_by_draw(self) -> NDArray[np.float64]:
        """The share of the counts in each class in up to about 1,000 draws, (chain, draw, C); zero if not held."""
        return self.estimates.shares

    @property
    def findings(self) -> tuple[Finding, ...]:
        """How many classes the chains agree on, which share of the counts they have, and what is left."""
        return self.summary.findings

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return self.summary.sentences

    def locations(self, chain: int, draw: int) -> NDArray[np.int64]:
        """Return the location of each class in the core of one draw.

        Parameters
        ----------
        chain, draw : int
            The numbers of the chain and of the draw.

        Returns
        -------
        ndarray of int64, shape (C, M)
            Its factor in every mode, as in `Posterior.core_locations`; -1 if the draw does not hold the class.

        Examples
        --------
        >>> found = post.consensus()
        >>> found.locations(0, 9).shape == (len(found.share), 5)
        True
        """
        chains, draws = self._record.core_values.shape[:2]
        place = place_of("chain", chain, chains), place_of("draw", draw, draws)
        classes = self._reader.read(*place, _MOST_CLASSES)
        centres = directions(self.estimates.mean_profiles)
        ours, clusters = match_similar(
            similarities(directions(classes.profiles), centres, HOLDS), HOLDS, classes.share_C
        )
        location_CM = np.full((len(self.share), len(self.summary.modes)), -1, dtype=np.int64)
        location_CM[clusters] = classes.location_CM[ours]
        return location_CM

    def classes(self, top: int = 5) -> pd.DataFrame:
        """Return the classes as a table, largest first.

        Parameters
        ----------
        top : int
            How many labels of each profile to name.

        Returns
        -------
        pandas.DataFrame
            One row per class, by its number: its `name`; `value`, its expected count in observed cells; `share`, its
            part of the total, averaged over all draws, with the 90% interval `share_low` to `share_high`; `support`,
            the share of chains that hold it (NaN with one chain), and `support_draws`, that of draws; `found_again`,
            how often half of the chains finds it (NaN with fewer than four chains); `apart`, whether it is small (below
            0.2%) or fewer than three quarters of the chains hold it.

            For each mode, `<mode>_factor` is the number of its factor: the lowest number of the classes that share it.
            `<mode>_top` names the heaviest labels of its profile, `<mode>_peak` the highest stretches of time, if
            labels are periods, and `<mode>_shared` the other classes with this factor in at least half of the draws.

        Examples
        --------
        >>> list(post.consensus().classes(top=1).columns[:4])
        ['name', 'value', 'share', 'share_low']
        """
        return class_table(self.summary, whole_number("top", top))

    def profile(self, mode: str | int, number: int, *, observed: bool = True) -> pd.DataFrame:
        """Return the profile of a class in one mode as a table of labels and shares, with intervals.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        number : int
            The number of the class.
        observed : bool
            The shares of expected counts in the observed cells; with False, the factor itself. They differ only if
            cells are missing.

        Returns
        -------
        pandas.DataFrame
            One row per label: the mean `share`, the `median`, and the 90% interval `low` to `high`, over the draws that
            hold the class. Heaviest first; ordered labels, such as months, keep their order.

        Examples
        --------
        >>> table = post.consensus().profile("carrier", 0)
        >>> list(table.columns), float(table["share"].sum().round(6))
        (['share', 'median', 'low', 'high'], 1.0)
        """
        check_flags(observed=observed)
        place, m = self.summary.place(number), self._record.tensor.mode(mode)
        band = (self.estimates.profiles if observed else self.estimates.factors)[m]
        return band_table(self.summary.modes[m], band, place)

    def factor_table(self, mode: str | int) -> pd.DataFrame:
        """Return the factors of a mode as a table of labels by factors, such as `ac.Mode(frozen=...)` takes.

        Factors that only small or weakly supported classes use are left out, if there are others.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.

        Returns
        -------
        pandas.DataFrame
            One row per label and one column per factor, named after its seed or its heaviest labels. Columns sum to
            one. A factor that several classes share is shown as the largest of them has it.

        Examples
        --------
        >>> table = post.consensus().factor_table("carrier")
        >>> table.shape[0], bool(np.allclose(table.sum(), 1.0))
        (16, True)
        """
        m, summary = self._record.tensor.mode(mode), self.summary
        strong = [each for each in summary.factors[m].values() if not summary.apart_C[list(each.classes)].all()]
        factors = strong or list(summary.factors[m].values())
        if not factors:
            raise InputError("mode", mode, "must have factors, and the chains have no class in common")
        names = unique_names([each.short_name or "even" for each in factors])
        shares = {name: each.share_D for name, each in zip(names, factors, strict=True)}
        return pd.DataFrame(shares, index=pd.Index(map(str, summary.modes[m].labels), name=summary.modes[m].name))

    def memberships(self, mode: str | int, *, progress: bool = True) -> Memberships:
        """Return the communities of a mode and the memberships of its nodes, as arrays.

        `Posterior.memberships` says what they are. They are computed once. Two tied modes have the same.

        Parameters
        ----------
        mode : str or int
            The mode, by name or number.
        progress : bool
            Whether to show progress.

        Returns
        -------
        Memberships

        Examples
        --------
        >>> found = post.consensus().memberships("carrier")
        >>> found.share.shape == (16, len(found.number))
        True
        """
        number, tied = self._record.tensor.mode(mode), self._record.spec.tied
        roles = tied if tied is not None and number in tied else (number,)
        if roles not in self._memberships:
            number_RC = self.summary.location_CM.T[list(roles)]
            with draw_bar("memberships", progress) as tick:
                found = find_memberships(self._reader, self.estimates, self.summary, roles, number_RC, tick)
            self._memberships[roles] = found
        return self._memberships[roles]

    def sharing(self, mode: str | int | None = None, least: float = 0.05) -> pd.DataFrame:
        """Return the pairs of classes that share a factor, with the probability that they do.

        Parameters
        ----------
        mode : str or int, optional
            The mode, by name or number; by default all modes.
        least : float
            The least probability to list.

        Returns
        -------
        pandas.DataFrame
            One row per pair and mode, most probable first: the `mode`, the numbers of the two classes, `class` and
            `other`, the `probability` that they use the same factor, given that a draw holds both, and the number of
            `draws` that do.

        Examples
        --------
        >>> list(post.consensus().sharing().columns)
        ['mode', 'class', 'other', 'probability', 'draws']
        """
        modes = range(len(self.summary.modes)) if mode is None else [self._record.tensor.mode(mode)]
        held = self.estimates.held.astype(np.int64)
        return sharing_pairs(self.summary, np.einsum("ndc,nde->ce", held, held), modes, least)

    def motifs(self, modes: Modes = None, *, permutations: int = PERMUTATIONS, seed: int = 0) -> pd.DataFrame:
        """Return patterns of two or three classes that recur between different groups of actors.

        Factors of the two modes of actors, such as senders and receivers, are one party if their labels are similar (a
        cosine of at least 0.6), and action factors are one topic if they are almost the same (0.9). A pair of parties,
        a and b, has a motif such as "a fights b, b protests" if it has a class for each part, and the profiles of these
        classes over time coincide (a cosine of at least 0.6).

        Parameters
        ----------
        modes : sequence of two str or int, optional
            The two modes of the actors, by name or number; by default those with the same labels.
        permutations : int
            How often topics are permuted among the classes, which keep their actors and times.
        seed : int
            The seed of the permutations.

        Returns
        -------
        pandas.DataFrame
            One row per motif and pair of parties, the least probable motif first: the number of the `motif`, its
            `pattern` in words, the number of `pairs` with it, the number `expected` by chance, the probability `p` of
            as many by chance, adjusted for all motifs, the labels of the two parties, `a` and `b`, and the numbers of
            the `classes`, in the order of the pattern. A motif of a longer one with the same pairs is left out.

        Examples
        --------
        >>> list(post.consensus().motifs(["origin", "destination"]).columns)
        ['motif', 'pattern', 'pairs', 'expected', 'p', 'a', 'b', 'classes']
        """
        return motif_table(self.summary, find_motifs(self.summary, modes, permutations, seed))

    def to_frame(self, what: TidyTable = "profiles", top: int = 5) -> pd.DataFrame:
        """Return the consensus as a tidy table, for R, a database or a plot: plain numbers and texts, no index.

        Parameters
        ----------
        what : {"profiles", "factors", "classes"}
            One row per class, mode and label; per mode, factor and label; or per class.
        top : int
            How many labels of each profile to name in the table of classes.

        Returns
        -------
        pandas.DataFrame
            Profiles have the columns `class`, `name`, `mode`, `label`, `share`, `median`, `low` and `high`. Factors
            have `mode`, `factor`, its `name`, `label` and the same numbers; `<mode>_factor` of a class refers to them,
            and a shared factor is shown as its largest class has it. Classes have the columns of `classes`, with
            `<mode>_shared` as text such as "1 4 7". Labels are texts, in the order of the tensor.

        Examples
        --------
        >>> list(post.consensus().to_frame().columns)
        ['class', 'name', 'mode', 'label', 'share', 'median', 'low', 'high']
        """
        return self.summary.to_frame(what, top)

    def __repr__(self) -> str:
        number, covered = len(self.share), float(self.share.sum())
        classes = f"{number} class{'es' * (number != 1)} that hold{'s' * (number == 1)}"
        return f"{self.summary.source.capitalize()}: {classes} {covered:.0%} of the {self.summary.counted}"

    def _repr_html_(self) -> str:
        heading = f"<p><b>{escape(repr(self))}</b><br>{escape(' '.join(self.sentences))}</p>"
        return f"{heading}{classes_html(self.summary, '.classes()')}"


def _summarize(
    record: Record,
    found: Estimates,
    numbering: Numbers,
    start: Numbers | None,
    reproducibility: Reproducibility | None,
) -> ClassSummary:
    tensor, modes = record.tensor, shown_modes(record.tensor)
    share_C, number_C = found.share, numbering.number_C
    chains, draws = record.core_values.shape[:2]
    location_CM = np.empty((len(share_C), len(modes)), dtype=np.int64)
    for m, sharing_CC in enumerate(found.sharing):
        location_CM[:, m] = _factor_numbers(sharing_CC, number_C)[0]
    if found.roles is not None and record.spec.tied is not None:
        first, second = record.spec.tied
        both = np.block([[found.sharing[first], found.roles], [found.roles.T, found.sharing[second]]])
        location_CM[:, record.spec.tied] = _factor_numbers(both, number_C, roles=2).T
    known = factor_names(record.spec, found.known)
    new = () if record.new_rows is None else record.new_rows.modes
    folded = f", in new rows of {' and '.join(tensor.mode_names[mode] for mode in new)}" if new else ""
    source = f"consensus of {plural(chains, 'chain')}, {chains * draws} draw{'s' * (chains * draws > 1)}{folded}"
    no_chains = np.full(len(share_C), np.nan)
    return ClassSummary(
        tensor=tensor,
        source=source + " (a quick look)" * record.preliminary,
        findings=(*_findings(record, found), *(() if start is None else (_since(start, numbering),))),
        counted=record.spec.observation.class_sizes,
        modes=modes,
        number_C=number_C,
        names=numbering.names,
        value_C=found.value,
        share_C=share_C,
        interval_C2=found.share_interval,
        support=Support(
            found.support_draws,
            found.support_chains if chains > 1 else no_chains,
            chains,
            None if reproducibility is None else reproducibility.found_again,
        ),
        apart_C=found.apart,
        location_CM=location_CM,
        factors=factors_in_use(profiles_of(tensor, modes, found.factors, known), location_CM, share_C),
        profiles=profiles_of(tensor, modes, found.profiles, known),
        factor_shares=tuple(band.mean for band in found.factors),
        sharing=found.sharing,
        tied=record.spec.tied,
    )


def _factor_numbers(sharing_CC: Floats, number_C: Ints, roles: int = 1) -> Ints:
    """The number of the factor of each class in each role, (roles, C): the lowest number of the classes that share it.

    In a second role, these may be the number of another factor. Then it is the next of these that is free, or else the
    lowest number that is.
    """
    group_RC = average_linkage(len(sharing_CC), squareform(1.0 - sharing_CC, checks=False), 1.0 - _SHARED)
    group_RC = group_RC.reshape(roles, len(number_C))
    numbers = dict[int, int]()
    for group_C in group_RC:
        for place in np.argsort(number_C).tolist():
            group = int(group_C[place])
            if group not in numbers:
                own = np.sort(number_C[group_C == group]).tolist()
                taken = set(numbers.values())
                numbers[group] = next(number for number in (*own, *range(group_RC.size)) if number not in taken)
    return np.asarray(np.vectorize(numbers.__getitem__, otypes=[np.int64])(group_RC))


def _since(start: Numbers, now: Numbers) -> Finding:
    """Which classes of the run where a refit started it has lost, which are new, and which an earlier run had."""
    before, after = (dict(zip(each.number_C.tolist(), each.names, strict=True)) for each in (start, now))
    lost = tuple((number, name) for number, name in before.items() if number not in after)
    known = set(start.known.number_K.tolist())
    new = tuple((number, name) for number, name in after.items() if number not in known)
    back = tuple((number, name) for number, name in after.items() if number in known - before.keys())
    return Finding("classes-since-start", values={"before": len(before), "lost": lost, "new": new, "back": back})


def _findings(record: Record, found: Estimates) -> Iterator[Finding]:
    chains, share_C, apart_C = len(record.core_values), found.share, found.apart
    covered, number = float(share_C.sum()), len(share_C)
    if not number:
        yield Finding("no-common-class", "caution", {"chains": chains})
        return
    agreed = {"classes": number, "chains": chains, "least": enough_chains(chains), "share": covered}
    yield Finding("common-classes", values={**agreed, "counted": record.spec.observation.class_sizes})
    if covered >= 0.5 and number > 1:
        half = int((np.cumsum(share_C) < 0.5 - 1e-12).sum()) + 1
        yield Finding("half-of-counts", values={"number": half})
    if apart_C.any():
        yield Finding("weak-classes", values={"weak": int(apart_C.sum()), "classes": number, "chains": chains})
    # The other counts are in more classes of the same kind, or in classes that differ.
    alike, differ = min(found.alike, 1.0 - covered), 1.0 - covered
    if alike >= _MENTIONED:
        differ -= alike
        yield Finding("similar-classes", values={"share": alike})
    if differ >= _MENTIONED:
        yield Finding("other-classes", values={"share": differ, "chains": chains})
    if found.known is not None:
        yield from unused_factors(record.spec, record.tensor.mode_names, found.known)
    yield from inferred_budget(record)

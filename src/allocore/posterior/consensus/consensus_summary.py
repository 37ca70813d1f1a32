"""The consensus as a summary that tables, figures and the explorer show: profiles with intervals, shared factors."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.posterior.class_names import class_names
from allocore.posterior.class_summary import (
    ClassSummary,
    Profile,
    ShownMode,
    Support,
    factors_in_use,
    is_even,
    shown_modes,
)
from allocore.posterior.consensus.consensus_estimates import Estimates, ProfileBand, enough_chains
from allocore.posterior.draw_summary import inferred_budget
from allocore.run.record import Record

# Smaller classes are shown apart: few counts tell little about them.
_SMALL = 0.002
# Classes that fewer than three quarters of the chains hold (of the draws, if there is one chain) are shown apart.
_WEAK = 0.75
# What holds less is not worth a sentence.
_TOLD = 0.005
# Two classes are shown with one factor if they have it in common in at least half of the draws that hold both.
_SHARED = 0.5


def summarize_consensus(record: Record, found: Estimates, number_C: Ints, names: tuple[str, ...]) -> ClassSummary:
    """Summarize the consensus classes, with their numbers and names."""
    modes, share_C = shown_modes(record.tensor), found.share
    chains, draws = record.core_values.shape[:2]
    supported_C = found.support_chains if chains > 1 else found.support_draws
    observed = [record.tensor.missing.observed_rows(mode) for mode in range(len(modes))]
    location_CM = np.empty((len(share_C), len(modes)), dtype=np.int64)
    profiles, factors = [], []
    for m, mode in enumerate(modes):
        profiles.append(_profiles(mode, found.profiles[m], observed[m]))
        location_CM[:, m] = _factor_numbers(found.sharing[m], number_C)
        own = _profiles(mode, found.factors[m], observed[m])
        factors.append(factors_in_use(mode, location_CM[:, m], own, share_C))
    apart_C = (share_C < _SMALL) | (supported_C < _WEAK)
    by_chain_C = found.support_chains if chains > 1 else np.full(len(share_C), np.nan)
    return ClassSummary(
        tensor=record.tensor,
        source=_source(record, chains, chains * draws),
        sentences=_sentences(record, found, apart_C),
        counted=record.spec.observation.class_sizes,
        modes=modes,
        number_C=number_C,
        names=names,
        value_C=found.value,
        share_C=share_C,
        interval_C2=np.stack(found.share_interval, axis=1),
        support=Support(found.support_draws, by_chain_C, chains),
        apart_C=apart_C,
        location_CM=location_CM,
        factors=tuple(factors),
        profiles=tuple(profiles),
        factor_shares=tuple(band.mean for band in found.factors),
        sharing=found.sharing,
    )


def _source(record: Record, chains: int, draws: int) -> str:
    mode, names = record.folded_mode, record.tensor.mode_names
    where = "" if mode is None else f", in new rows of {names[mode]}"
    return f"consensus of {chains} chain{'s' * (chains > 1)}, {draws} draw{'s' * (draws > 1)}{where}"


def names_of(record: Record, profiles: tuple[Floats, ...]) -> tuple[str, ...]:
    """The names in words of classes with these profiles, one (D, C) per mode."""
    shown = []
    for m, mode in enumerate(shown_modes(record.tensor)):
        observed_D = record.tensor.missing.observed_rows(m)
        shown.append(tuple(Profile(mode, share_D, is_even(share_D[observed_D])) for share_D in profiles[m].T))
    return class_names(record.tensor, tuple(shown))


def _profiles(mode: ShownMode, band: ProfileBand, observed_D: Flags) -> tuple[Profile, ...]:
    columns = zip(band.mean.T, band.low.T, band.high.T, band.median.T, strict=True)
    return tuple(Profile(mode, mean_D, is_even(mean_D[observed_D]), *rest) for mean_D, *rest in columns)


def _factor_numbers(sharing_CC: Floats, number_C: Ints) -> Ints:
    """A number for the factor of each class: the lowest number of the classes that share it."""
    if len(number_C) < 2:
        return number_C.copy()
    distance_CC = 1.0 - sharing_CC
    np.fill_diagonal(distance_CC, 0.0)
    group_C = fcluster(linkage(squareform(distance_CC, checks=False), "average"), 1.0 - _SHARED, "distance")
    return np.array([number_C[group_C == group].min() for group in group_C], dtype=np.int64)


def _sentences(record: Record, found: Estimates, apart_C: Flags) -> str:
    """How many classes the chains agree on, how much they hold, and what is left."""
    chains = len(record.core_values)
    share_C, counted = found.share, record.spec.observation.class_sizes
    if not len(share_C):
        return f"The {'chains' if chains > 1 else 'draws'} have no class in common."
    covered, number = float(share_C.sum()), len(share_C)
    held = _holders(chains)
    classes = "1 class is" if number == 1 else f"{number} classes are"
    hold = "It holds" if number == 1 else "Together they hold"
    words = [f"{classes} held by {held}. {hold} {covered:.0%} of the {counted}."]
    half = int((np.cumsum(share_C) < 0.5 - 1e-12).sum()) + 1
    if covered >= 0.5 and number > 1:
        words.append(f"The {half} largest hold half." if half > 1 else "The largest holds half.")
    if apart_C.any():
        apart = f"{int(apart_C.sum())} of the {number} {'is' if apart_C.sum() == 1 else 'are'}"
        words.append(f"{apart} small, or not held by three quarters of the {_whose(chains)}.")
    words += _rest(found, covered, _whose(chains))
    return " ".join(words) + inferred_budget(record)


def _rest(found: Estimates, covered: float, whose: str) -> list[str]:
    """What the counts outside of the consensus are in: more classes of the same kind, or classes that differ."""
    alike = min(found.alike, 1.0 - covered)
    differ = 1.0 - covered
    words = []
    if alike >= _TOLD:
        differ -= alike
        words.append(f"{alike:.0%} is in further classes that are similar to these.")
    if differ >= _TOLD:
        words.append(f"The other {differ:.0%} is in classes on which {whose} differ.")
    return words


def _holders(chains: int) -> str:
    if chains == 1:
        return "at least half of the draws of the one chain"
    if chains == 2:
        return "both chains"
    return f"at least {enough_chains(chains)} of {chains} chains"


def _whose(chains: int) -> str:
    return "chains" if chains > 1 else "draws"

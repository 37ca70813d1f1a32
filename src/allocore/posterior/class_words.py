"""What is said of a class in tables, figures and notebooks: its share, its support, and who shares its factors.

    8.7% (0.2-11.0)
    held by 8 of 8 chains, 96% of draws
    4 (0.92), 7

Shares stand before their 90% intervals. A class that shares a factor for sure stands without a probability.
"""

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.posterior.class_summary import ClassSummary, Profile

# The line above small or weakly supported classes.
APART = "Small or weakly supported"
# A probability that rounds to 1.00 is not told.
_SURE = 0.995
# Classes that share a factor less probably than this are not listed.
_PERHAPS = 0.1
# Classes share a factor if they have it in common in at least half of the draws that hold both.
_SHARED = 0.5
_STRETCHES = 2


def share_words(summary: ClassSummary, place: int) -> str:
    """The share of a class and its interval: "6.3% (4.7-7.3)"; the share alone for a single draw."""
    share = f"{summary.share_C[place]:.1%}"
    if summary.interval_C2 is None:
        return share
    low, high = (100.0 * summary.interval_C2[place]).tolist()
    return f"{share} ({low:.1f}-{high:.1f})"


def label_words(profile: Profile, row: int) -> str:
    """The share of a label and its interval: "65% (58-71)"; the share alone for a single draw."""
    share = f"{profile.share_D[row]:.0%}"
    if profile.low_D is None or profile.high_D is None:
        return share
    return f"{share} ({100.0 * profile.low_D[row]:.0f}-{100.0 * profile.high_D[row]:.0f})"


def profile_words(profile: Profile, top: int) -> str:
    """The heaviest labels of a profile; for periods of time, its highest stretches, at most two."""
    return profile.peak_words(min(top, _STRETCHES)) if profile.mode.kind == "time" else profile.words(top)


def support_heading(summary: ClassSummary) -> str:
    """The heading of a column of `support_brief`; empty if nothing is known of the support."""
    if not np.isfinite(summary.support.draws_C).any():
        return ""
    if not summary.is_consensus:
        return "stable"
    return "chains" if summary.support.chains > 1 else "draws"


def support_brief(summary: ClassSummary, place: int) -> str:
    """The support of a class: "8 of 8" chains; for one chain or a single draw, the share of draws."""
    if summary.is_consensus and summary.support.chains > 1:
        return _of_chains(summary, place)
    again = summary.support.draws_C[place]
    return f"{again:.0%}" if np.isfinite(again) else ""


def support_words(summary: ClassSummary, place: int) -> str:
    """The support of a class in words; empty if there is only one draw."""
    draws, chains = summary.support.draws_C[place], summary.support.chains_C[place]
    if not np.isfinite(draws):
        return ""
    by_chain = f"held by {_of_chains(summary, place)} chains" if np.isfinite(chains) else ""
    if not summary.is_consensus:
        return ", ".join(part for part in (f"found again in {draws:.0%} of the other draws", by_chain) if part)
    return f"{by_chain}, {draws:.0%} of draws" if by_chain else f"held by {draws:.0%} of draws"


def _of_chains(summary: ClassSummary, place: int) -> str:
    chains = summary.support.chains
    return f"{round(summary.support.chains_C[place] * chains)} of {chains}"


def sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """The numbers of the other classes that use the same factor, each with the probability unless it is sure."""
    partners = summary.partners(place, mode)
    if summary.sharing is not None:
        # Two classes that share a factor with a third, but never stand in one draw, do not share it themselves.
        partners = tuple(other for other in partners if summary.sharing[mode][place, other] >= _PERHAPS)
    return [_with_probability(summary, place, mode, other) for other in partners]


def perhaps_sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """The numbers of further classes that may use the same factor, the surest first; none for a single draw."""
    if summary.sharing is None:
        return []
    together_C = summary.sharing[mode][place].copy()
    together_C[[place, *summary.partners(place, mode)]] = 0.0
    found = np.argsort(-together_C, kind="stable")
    listed = [int(other) for other in found if together_C[other] >= _PERHAPS]
    return [_with_probability(summary, place, mode, other) for other in listed]


def _with_probability(summary: ClassSummary, place: int, mode: int, other: int) -> str:
    probability = 1.0 if summary.sharing is None else float(summary.sharing[mode][place, other])
    return f"{summary.number_C[other]}" + ("" if probability >= _SURE else f" ({probability:.2f})")


def users_together(summary: ClassSummary, shown: Ints, mode: int, factor: int) -> Ints:
    """Of the shown classes, the places of those that share a factor with another one of them."""
    users: Ints = shown[summary.location_CM[shown, mode] == factor]
    same_UU = (
        np.ones((len(users), len(users))) if summary.sharing is None else summary.sharing[mode][np.ix_(users, users)]
    )
    with_others_UU = np.where(np.eye(len(users), dtype=bool), 0.0, same_UU)
    together: Ints = users[with_others_UU.max(axis=1, initial=0.0) >= _SHARED]
    return together


def together_words(summary: ClassSummary, places: Ints, mode: int) -> str:
    """How surely some classes share one factor: the probabilities of their pairs; empty if all are sure."""
    if summary.sharing is None:
        return ""
    one, other = np.triu_indices(len(places), 1)
    pairs: Floats = summary.sharing[mode][places[one], places[other]]
    low, high = float(pairs.min()), float(pairs.max())
    if low >= _SURE:
        return ""
    return f"probability {low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"probability {low:.2f} to {high:.2f}"

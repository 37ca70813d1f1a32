"""A class in words, for tables, figures, notebooks and the page: its share, its support, and who shares its factors.

    8.7% (0.2-11.0)
    in 8 of 8 chains, 96% of draws
    4 (0.92), 7

A 90% interval follows a share. A class that certainly shares a factor has no probability.
"""

from html import escape
from typing import NamedTuple

import numpy as np

from allocore.classes.summary import ClassSummary, Profile
from allocore.kernels.elementary import Floats, Ints

# The line above small or weakly supported classes.
APART = "Small or weakly supported"
# A probability that rounds to 1.00 is left out.
_SURE = 0.995
# Classes that share a factor with a smaller probability are not named.
_PERHAPS = 0.1
# Classes share a factor if they have it in common in at least half of the draws that hold both.
_SHARED = 0.5
_STRETCHES = 2
# In a notebook: classes, labels of each profile, and classes that share a factor, which may be dozens.
_ROWS, _TOP, _SHARERS = 8, 2, 3
_CELL = "text-align:left;vertical-align:top"


def source_words(summary: ClassSummary) -> str:
    """Where the classes are from, as the beginning of a sentence."""
    return summary.source[:1].upper() + summary.source[1:]


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
    """The heading of a column of `support_brief`; empty if the support is unknown."""
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
    by_chain = f"in {_of_chains(summary, place)} chains" if np.isfinite(chains) else ""
    if not summary.is_consensus:
        return ", ".join(part for part in (f"found again in {draws:.0%} of the other draws", by_chain) if part)
    return f"{by_chain}, {draws:.0%} of draws" if by_chain else f"in {draws:.0%} of draws"


def _of_chains(summary: ClassSummary, place: int) -> str:
    chains = summary.support.chains
    return f"{round(summary.support.chains_C[place] * chains)} of {chains}"


class Sharers(NamedTuple):
    """The places of the other classes that use the factor of a class, and of those that may use it."""

    same: list[int]
    perhaps: list[int]


def sharers_of(summary: ClassSummary, place: int, mode: int) -> Sharers:
    """Find the classes that share the factor of a class: by place, and most probable first if they may share it."""
    partners = list(summary.partners(place, mode))
    if summary.sharing is None:
        return Sharers(partners, [])
    together_C = summary.sharing[mode][place].copy()
    # Two classes may share a factor with a third but never be in the same draw: then they do not share it.
    same = [other for other in partners if together_C[other] >= _PERHAPS]
    together_C[[place, *partners]] = 0.0
    likely = np.argsort(-together_C, kind="stable").tolist()
    return Sharers(same, [other for other in likely if together_C[other] >= _PERHAPS])


def sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """The numbers of the other classes that use the same factor, each with its probability unless that is 1."""
    return [_with_probability(summary, place, mode, other) for other in sharers_of(summary, place, mode).same]


def perhaps_sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """The numbers of further classes that may use the same factor, most probable first; none for a single draw."""
    return [_with_probability(summary, place, mode, other) for other in sharers_of(summary, place, mode).perhaps]


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
    """The probabilities that pairs of some classes share a factor, as a range; empty if all are 1."""
    if summary.sharing is None:
        return ""
    one, other = np.triu_indices(len(places), 1)
    pairs: Floats = summary.sharing[mode][places[one], places[other]]
    low, high = float(pairs.min()), float(pairs.max())
    if low >= _SURE:
        return ""
    return f"probability {low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"probability {low:.2f} to {high:.2f}"


def classes_html(summary: ClassSummary, more: str) -> str:
    """Return the largest classes as a table in HTML; `more` is the call that shows the others."""
    places = summary.apart_last[:_ROWS].tolist()
    if not places:
        return ""
    support = support_heading(summary)
    names = ["class", "share", *([support] if support else []), "name", *summary.mode_names]
    rows = [_html_row(summary, place) for place in places]
    strong = sum(not summary.apart_C[place] for place in places)
    if strong < len(places):
        rows.insert(strong, f"<tr><td style='{_CELL}' colspan='{len(names)}'><i>{APART}</i></td></tr>")
    heads = "".join(f"<th style='{_CELL}'>{escape(name)}</th>" for name in names)
    caption = f"<caption>{escape(source_words(summary))}</caption>"
    left = len(summary.number_C) - len(places)
    rest = f"<p>and {left} more classes: <code>{more}</code></p>" if left > 0 else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>{rest}"


def _html_row(summary: ClassSummary, place: int) -> str:
    cells = [str(summary.number_C[place]), share_words(summary, place)]
    if support_heading(summary):
        cells.append(support_brief(summary, place))
    cells.append(summary.names[place])
    for mode in range(len(summary.modes)):
        shared = sharers(summary, place, mode)
        words = profile_words(summary.profile(place, mode), _TOP)
        cells.append(f"{words}, shared with {_first_sharers(shared)}" if shared else words)
    return "<tr>" + "".join(f"<td style='{_CELL}'><bdi>{escape(cell)}</bdi></td>" for cell in cells) + "</tr>"


def _first_sharers(shared: list[str]) -> str:
    """The classes that share a factor: the first of them, and how many more there are."""
    more = len(shared) - _SHARERS
    return ", ".join(shared[:_SHARERS]) + (f" and {more} more" if more > 0 else "")

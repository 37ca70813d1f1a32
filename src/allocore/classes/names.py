"""Classes in words: their names, shares, support, and the classes that share their factors.

Names come from the heaviest labels of the profiles:

    Russia → Ukraine · Fight · 2018-03
    among France, Germany, Italy · Consult
    between Israel and everyone else · Consult
    between Ada, Max and Eve, Tom · 2024-05
    JFK · Delta · 7 to 9
    store 12, 7 · beer · 2018-01-29 to 03-18

Two modes with the same labels, such as sender and receiver, are named together: from one to the other, or *among* some
labels if the two profiles are alike. If the cell of a label with itself is missing, a label that has half of the
senders and half of the receivers takes part in the whole class, which is then *between* that label and the others.
If ties are undirected, no class is from one to the other: it is between the two.
"""

from collections.abc import Sequence
from html import escape
from itertools import combinations

import numpy as np

from allocore._text import first_few
from allocore.classes.summary import FAINT, ClassSummary, Profile, profiles_of, shown_modes
from allocore.kernels.elementary import Floats, Ints
from allocore.tensor.count_tensor import CountTensor, missing_diagonals
from allocore.tensor.labels import are_numbers

# A label is at both ends if it has at least the first share of senders and of receivers, and takes part in the second.
_BOTH_ENDS, _TAKES_PART = 0.2, 0.7
_ALIKE = 0.8  # two profiles with at least this cosine are alike: the class is among the same labels at both ends
_NAMED = 0.15  # partners are named if they have at least this share of the other side
APART = "Small or weakly supported"  # the line above such classes
_SURE = 0.995  # a probability that rounds to 1.00 is left out
_PERHAPS = 0.1  # classes that share a factor with a smaller probability are not named
_SHARED = 0.5  # classes share a factor if they have it in common in this share of the draws that hold both
_STRETCHES = 2
# In a notebook: classes, labels of each profile, and classes that share a factor, which may be dozens.
_ROWS, _TOP, _SHARERS = 8, 2, 3
_CELL = "text-align:left;vertical-align:top"


def names_of(tensor: CountTensor, shares: tuple[Floats, ...], known: Sequence[Sequence[str]] = ()) -> tuple[str, ...]:
    """Return the names of classes whose profiles are given as arrays, one (D, C) per mode.

    `known` has, for each mode, the names of their seeded or frozen factors, which are used in place of labels.
    """
    return class_names(tensor, profiles_of(tensor, shown_modes(tensor), zip(shares, strict=True), known))


def class_names(tensor: CountTensor, profiles: tuple[tuple[Profile, ...], ...]) -> tuple[str, ...]:
    """Return the name of each class, given its profile in every mode."""
    pair = _pair(tensor)
    return tuple(_name(tensor, pair, of_class) for of_class in zip(*profiles, strict=True))


def _pair(tensor: CountTensor) -> tuple[int, int] | None:
    """The first two modes with the same labels, if any; if the labels are numbers, their diagonal must be missing."""
    for one, other in combinations(range(len(tensor.shape)), 2):
        labels = tensor.labels[one]
        if isinstance(labels, range) or labels != tensor.labels[other]:
            continue
        if not are_numbers(labels) or any({one, other} <= set(modes) for modes in missing_diagonals(tensor)):
            return one, other
    return None


def _name(tensor: CountTensor, pair: tuple[int, int] | None, profiles: Sequence[Profile]) -> str:
    parts = []
    for mode, profile in enumerate(profiles):
        if pair is not None and mode == pair[0]:
            parts.append(_ends(tensor, pair, profile, profiles[pair[1]]))
        elif pair is None or mode != pair[1]:
            parts.append(profile.short_name)
    return " · ".join(part for part in parts if part) or "evenly over everything"


def _ends(tensor: CountTensor, pair: tuple[int, int], sender: Profile, receiver: Profile) -> str:
    if sender.empty or receiver.empty:
        return ""
    if sender.known or receiver.known:
        return _two_sides(tensor, sender, receiver)
    sender_D, receiver_D = sender.share_D, receiver.share_D
    mode, before_numbers = sender.mode, f"{sender.mode.name}/{receiver.mode.name}"
    hub = _hub(tensor, pair, sender_D, receiver_D)
    if hub is not None:
        others_D = sender_D + receiver_D
        others_D[hub] = 0.0
        partners = _partners(mode.labels, others_D / (others_D.sum() or 1.0))
        return f"between {mode.join_labels([hub], before_numbers)} and {partners}"
    if sender_D @ receiver_D / np.sqrt((sender_D @ sender_D) * (receiver_D @ receiver_D)) < _ALIKE:
        return _two_sides(tensor, sender, receiver)
    if sender.even:
        return "among all"
    share_D = (sender_D + receiver_D) / 2.0
    first, *others = np.argsort(-share_D, kind="stable")[:3].tolist()
    members = [first, *(row for row in others if share_D[row] >= FAINT)]
    return f"{'among' if len(members) > 1 else 'within'} {mode.join_labels(members, before_numbers)}"


def _two_sides(tensor: CountTensor, sender: Profile, receiver: Profile) -> str:
    one, other = (side.short_name or "everyone" for side in (sender, receiver))
    return f"{one} → {other}" if tensor.undirected_modes is None else f"between {one} and {other}"


def _hub(tensor: CountTensor, pair: tuple[int, int], sender_D: Floats, receiver_D: Floats) -> int | None:
    """The row that takes part in most of the class, at both ends, if one pattern covers all its cells with itself."""
    hub = int(np.argmax(np.minimum(sender_D, receiver_D)))
    if min(sender_D[hub], receiver_D[hub]) < _BOTH_ENDS or sender_D[hub] + receiver_D[hub] < _TAKES_PART:
        return None
    patterns_PM = tensor.missing.patterns
    others = [mode for mode in range(len(tensor.shape)) if mode not in pair]
    itself_PM = (patterns_PM == hub) | (patterns_PM < 0)
    missing_P = itself_PM[:, list(pair)].all(axis=1) & (patterns_PM[:, others] < 0).all(axis=1)
    return hub if missing_P.any() else None


def _partners(labels: Sequence[object], share_D: Floats) -> str:
    order = np.argsort(-share_D, kind="stable")[:2]
    named = [str(labels[row]) for row in order if share_D[row] >= _NAMED]
    if not named:
        return "everyone else"
    almost_all = share_D[order[: len(named)]].sum() >= 1.0 - _NAMED
    return " and ".join(named) + ("" if almost_all else ", among others")


def source_words(summary: ClassSummary) -> str:
    """Return where the classes are from, as the beginning of a sentence."""
    return summary.source[:1].upper() + summary.source[1:]


def share_words(summary: ClassSummary, place: int) -> str:
    """Return the share of a class and its interval, as "6.3% (4.7-7.3)"; only the share for a single draw."""
    share = f"{summary.share_C[place]:.1%}"
    if summary.interval_C2 is None:
        return share
    low, high = (100.0 * summary.interval_C2[place]).tolist()
    return f"{share} ({low:.1f}-{high:.1f})"


def label_words(profile: Profile, row: int) -> str:
    """Return the share of a label and its interval, as "65% (58-71)"; only the share for a single draw."""
    share = f"{profile.share_D[row]:.0%}"
    if profile.low_D is None or profile.high_D is None:
        return share
    low, high = (100.0 * float(each[row]) for each in (profile.low_D, profile.high_D))
    return f"{share} ({low:.0f}-{high:.0f})"


def profile_words(profile: Profile, top: int) -> str:
    """Return the heaviest labels of a profile; for periods of time, its highest stretches, at most two."""
    return profile.peak_words(min(top, _STRETCHES)) if profile.mode.kind == "time" else profile.words(top)


def support_heading(summary: ClassSummary) -> str:
    """Return the heading of a column of `support_brief`; empty if the support is unknown."""
    if not np.isfinite(summary.support.draws_C).any():
        return ""
    if not summary.is_consensus:
        return "stable"
    return "chains" if summary.support.chains > 1 else "draws"


def support_brief(summary: ClassSummary, place: int) -> str:
    """Return the support of a class: "8 of 8" chains; for one chain or a single draw, the share of draws."""
    if summary.is_consensus and summary.support.chains > 1:
        return _of_chains(summary, place)
    draws = summary.support.draws_C[place]
    return f"{draws:.0%}" if np.isfinite(draws) else ""


def support_words(summary: ClassSummary, place: int) -> str:
    """Return the support of a class in words; empty if there is only one draw."""
    draws, chains = summary.support.draws_C[place], summary.support.chains_C[place]
    if not np.isfinite(draws):
        return ""
    by_chain = f"in {_of_chains(summary, place)} chains" if np.isfinite(chains) else ""
    if not summary.is_consensus:
        return ", ".join(part for part in (f"found again in {draws:.0%} of the other draws", by_chain) if part)
    if summary.support.found_again_C is not None:
        by_chain += f", {summary.support.found_again_C[place]:.0%} of random halves"
    return f"{by_chain}, {draws:.0%} of draws" if by_chain else f"in {draws:.0%} of draws"


def _of_chains(summary: ClassSummary, place: int) -> str:
    chains = summary.support.chains
    return f"{round(summary.support.chains_C[place] * chains)} of {chains}"


def sharers_of(summary: ClassSummary, place: int, mode: int) -> tuple[list[int], list[int]]:
    """Return the places of the classes that use the factor of a class, and of those that may, most probable first."""
    partners = list(summary.partners(place, mode))
    if summary.sharing is None:
        return partners, []
    together_C = summary.sharing[mode][place].copy()
    # Two classes may share a factor with a third but never be in the same draw: then they do not share it.
    same = [other for other in partners if together_C[other] >= _PERHAPS]
    together_C[[place, *partners]] = 0.0
    likely = np.argsort(-together_C, kind="stable").tolist()
    return same, [other for other in likely if together_C[other] >= _PERHAPS]


def sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """Return the numbers of the other classes that use the same factor, each with its probability unless that is 1."""
    return _with_probabilities(summary, place, mode, sharers_of(summary, place, mode)[0])


def perhaps_sharers(summary: ClassSummary, place: int, mode: int) -> list[str]:
    """Return the numbers of further classes that may use the same factor, most probable first."""
    return _with_probabilities(summary, place, mode, sharers_of(summary, place, mode)[1])


def _with_probabilities(summary: ClassSummary, place: int, mode: int, others: list[int]) -> list[str]:
    probability_C = np.ones(len(summary.number_C)) if summary.sharing is None else summary.sharing[mode][place]
    return [
        f"{summary.number_C[other]}" + (f" ({probability_C[other]:.2f})" if probability_C[other] < _SURE else "")
        for other in others
    ]


def users_together(summary: ClassSummary, shown: Ints, mode: int, factor: int) -> Ints:
    """Return the places of those shown classes that share a factor with another one of them."""
    users: Ints = shown[summary.location_CM[shown, mode] == factor]
    same_UU = np.ones((len(users),) * 2) if summary.sharing is None else summary.sharing[mode][np.ix_(users, users)]
    with_others_UU = np.where(np.eye(len(users), dtype=bool), 0.0, same_UU)
    return np.asarray(users[with_others_UU.max(axis=1, initial=0.0) >= _SHARED])


def together_words(summary: ClassSummary, places: Ints, mode: int) -> str:
    """Return the probabilities that pairs of some classes share a factor, as a range; empty if all are 1."""
    if summary.sharing is None:
        return ""
    one, other = np.triu_indices(len(places), 1)
    pairs: Floats = summary.sharing[mode][places[one], places[other]]
    low, high = f"{pairs.min():.2f}", f"{pairs.max():.2f}"
    if pairs.min() >= _SURE:
        return ""
    return f"probability {low}" if low == high else f"probability {low} to {high}"


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
        cells.append(f"{words}, shared with {first_few(shared, _SHARERS)}" if shared else words)
    return "<tr>" + "".join(f"<td style='{_CELL}'><bdi>{escape(cell)}</bdi></td>" for cell in cells) + "</tr>"

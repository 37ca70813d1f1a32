"""Names of classes in words, from the heaviest labels of their profiles.

    Russia → Ukraine · Fight · 2018-03
    among France, Germany, Italy · Consult
    between Israel and everyone else · Consult
    JFK · Delta · 7 to 9
    store 12, 7 · beer · 2018-01-29 to 03-18

Two modes with the same labels, such as sender and receiver, are named together: from one to the other, or *among* some
labels if the two profiles are alike. If the cell of a label with itself is missing, a label that has half of the
senders and half of the receivers takes part in the whole class, which is then *between* that label and the others.
Labels that are numbers come after the name of their mode. Weeks are named as stretches of days.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from allocore.classes.summary import FAINT, Profile, profiles_of, runs_of, shown_modes
from allocore.kernels.elementary import Floats
from allocore.tensor.count_tensor import CountTensor, missing_diagonals
from allocore.tensor.labels import are_numbers

# The heaviest label is enough if it holds at least half of a profile; otherwise the second one is named too.
_ENOUGH = 0.5
# A stretch of time is named if its periods hold at least this many times as much as the average period.
_STANDS_OUT = 1.5
# A label is at both ends if it is at least this share of the senders and of the receivers ..
_BOTH_ENDS = 0.2
# .. and takes part in at least this share of the class.
_TAKES_PART = 0.7
# Two profiles with at least this cosine are alike: the class is among the same labels at both ends.
_ALIKE = 0.8
# Partners are named if they hold at least this share of the other side.
_NAMED = 0.15


def class_names(tensor: CountTensor, profiles: tuple[tuple[Profile, ...], ...]) -> tuple[str, ...]:
    """Return the name of each class, given its profile in every mode."""
    pair = _pair(tensor)
    return tuple(_name(tensor, pair, of_class) for of_class in zip(*profiles, strict=True))


def names_of(tensor: CountTensor, shares: tuple[Floats, ...]) -> tuple[str, ...]:
    """Return the names of classes whose profiles are given as arrays, one (D, C) per mode."""
    modes = enumerate(shown_modes(tensor))
    return class_names(
        tensor, tuple(profiles_of(mode, tensor.missing.observed_rows(m), shares[m]) for m, mode in modes)
    )


def _pair(tensor: CountTensor) -> tuple[int, int] | None:
    """The first two modes with the same labels, if there are such modes.

    Stores 1 to 20 and weeks 1 to 20 have nothing in common: modes of numbers are a pair if their diagonal is missing.
    """
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
            parts.append(_short(profile))
    return " · ".join(part for part in parts if part) or "evenly over everything"


def _short(profile: Profile) -> str:
    """The heaviest label, and the second one if the first holds less than half; nothing if no label stands out."""
    if profile.empty or profile.even:
        return ""
    if profile.mode.kind == "time":
        return _period(profile)
    rows = profile.heaviest[: len(profile.top(2))].tolist()
    return profile.mode.join_labels(rows[:1] if profile.share_D[rows[0]] >= _ENOUGH else rows)


def _period(profile: Profile) -> str:
    """The stretch of time around the highest share, down to half of it; nothing if it holds hardly more than others."""
    share_D = profile.share_D
    first, end = next((a, b) for a, b in runs_of(share_D >= share_D.max() / 2.0) if a <= share_D.argmax() < b)
    if share_D[first:end].mean() < _STANDS_OUT * share_D.mean():
        return ""
    return profile.mode.stretch(first, end)


def _ends(tensor: CountTensor, pair: tuple[int, int], sender: Profile, receiver: Profile) -> str:
    if sender.empty or receiver.empty:
        return ""
    hub = _hub(tensor, pair, sender.share_D, receiver.share_D)
    if hub is None and _cosine(sender.share_D, receiver.share_D) >= _ALIKE:
        members = _members((sender.share_D + receiver.share_D) / 2.0)
        if sender.even:
            return "among all"
        labels = sender.mode.join_labels(members, _both(sender, receiver))
        return f"among {labels}" if len(members) > 1 else f"within {labels}"
    if hub is None:
        return f"{_short(sender) or 'everyone'} → {_short(receiver) or 'everyone'}"
    others_D = sender.share_D + receiver.share_D
    others_D[hub] = 0.0
    named = sender.mode.join_labels([hub], _both(sender, receiver))
    return f"between {named} and {_partners(sender, others_D / (others_D.sum() or 1.0))}"


def _both(sender: Profile, receiver: Profile) -> str:
    """The name before numbers that are labels of two modes."""
    return f"{sender.mode.name}/{receiver.mode.name}"


def _hub(tensor: CountTensor, pair: tuple[int, int], sender_D: Floats, receiver_D: Floats) -> int | None:
    """The row that takes part in most of the class, at both ends; None if there is none."""
    hub = int(np.argmax(np.minimum(sender_D, receiver_D)))
    if min(sender_D[hub], receiver_D[hub]) < _BOTH_ENDS or sender_D[hub] + receiver_D[hub] < _TAKES_PART:
        return None
    return hub if _itself_missing(tensor, pair, hub) else None


def _itself_missing(tensor: CountTensor, pair: tuple[int, int], row: int) -> bool:
    """Whether all cells of a label with itself are missing, by one pattern."""
    patterns_PM = tensor.missing.patterns
    others = [mode for mode in range(len(tensor.shape)) if mode not in pair]
    itself_PM = (patterns_PM == row) | (patterns_PM < 0)
    return bool((itself_PM[:, list(pair)].all(axis=1) & (patterns_PM[:, others] < 0).all(axis=1)).any())


def _cosine(one_D: Floats, other_D: Floats) -> float:
    return float(one_D @ other_D / np.sqrt((one_D @ one_D) * (other_D @ other_D)))


def _members(share_D: Floats) -> list[int]:
    """The heaviest rows: three, or as many as stand out."""
    order = np.argsort(-share_D, kind="stable")[:3].tolist()
    return [row for rank, row in enumerate(order) if not rank or share_D[row] >= FAINT]


def _partners(profile: Profile, share_D: Floats) -> str:
    order = np.argsort(-share_D, kind="stable")[:2]
    named = [str(profile.mode.labels[row]) for row in order if share_D[row] >= _NAMED]
    if not named:
        return "everyone else"
    if share_D[order[: len(named)]].sum() >= 1.0 - _NAMED:
        return " and ".join(named)
    return f"{' and '.join(named)}, among others"

"""The labels that someone may have meant by a label that does not exist."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from allocore.data.countries import resolve

_TRIED = 20_000  # comparing more texts than this takes seconds
_MOST = 3


def near_labels(text: str, labels: Sequence[object]) -> list[str]:
    """Return up to three labels that are like a text, the nearest first.

    A label that differs in capitals only, or names the same country, is the only one. Else they are spelt alike, or
    contain the text.

    >>> near_labels("RUS", ["Russia", "Rwanda", "USA"]), near_labels("Unitd states", ["United States", "Mali"])
    (['Russia'], ['United States'])
    """
    tried = [str(label) for label in labels[:_TRIED]]
    folded = {label.casefold(): label for label in reversed(tried)}
    country = resolve(text)
    if text.casefold() in folded:
        return [folded[text.casefold()]]
    same = [label for label in tried if country is not None and resolve(label) == country]
    spelt = [folded[label] for label in get_close_matches(text.casefold(), list(folded), _MOST)]
    return (same or spelt or [label for label in tried if len(text) > 2 and text.casefold() in label.casefold()])[
        :_MOST
    ]


def did_you_mean(text: str, labels: Sequence[object]) -> str:
    """Return the end of a sentence that names the labels that are near; nothing if none is."""
    near = near_labels(text, labels)
    return f"; did you mean {' or '.join(repr(label) for label in near)}?" if near else ""


def described(text: str, labels: Sequence[object]) -> str:
    """Return a hint for an error about an unknown label: those that are near, or else where the labels begin and end.

    >>> described("Rusia", ["Russia", "Mali"]), described("tea", ["2018-01", "2018-02"])
    ("did you mean 'Russia'?", "its labels go from '2018-01' to '2018-02'")
    """
    near = did_you_mean(text, labels).removeprefix("; ")
    return near or f"its labels go from {str(labels[0])!r} to {str(labels[-1])!r}"

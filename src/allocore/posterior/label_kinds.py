"""The kind of a mode's labels: periods of time, an ordered cycle, countries, or none of these.

Tables, figures and the explorer show a mode by the kind of its labels: over time, in order, or on a map. The labels
alone decide; users declare nothing.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from allocore.data.countries import resolve

LabelKind = Literal["time", "order", "country", "plain"]

_PERIOD = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?|-Q[1-4]|-W[0-5]\d)")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_CLOCK = re.compile(r"([01]?\d|2[0-4])(:[0-5]\d){1,2}")
_CYCLES = (
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
)
_MOST_PERIODS = 100_000
_TRIED = 2000
_ENOUGH = 0.8


def label_kind(labels: Sequence[str | int]) -> LabelKind:
    """Tell the kind of a mode's labels.

    Parameters
    ----------
    labels : sequence of str or int
        All labels of the mode, in order.

    Returns
    -------
    {"time", "order", "country", "plain"}
        "time" for periods of a calendar, "order" for months, weekdays or times of day, "country" if at least four in
        five labels are countries, and "plain" for all others.

    Examples
    --------
    >>> label_kind(["2018-01", "2018-02", "2018-03"]), label_kind(["Mon", "Tue", "Wed"])
    ('time', 'order')
    >>> label_kind(["USA", "France", "Iraq"]), label_kind(["tea", "rice", "salt"])
    ('country', 'plain')
    """
    if isinstance(labels, range) or len(labels) < 3:
        return "plain"
    if len(labels) <= _MOST_PERIODS:
        texts = [str(label) for label in labels]
        if _rising(texts, _PERIOD) or _rising(texts, _YEAR):
            return "time"
        if _rising([text.zfill(5) for text in texts], _CLOCK) or any(_in_cycle(texts, cycle) for cycle in _CYCLES):
            return "order"
    tried = labels[:_TRIED]
    known = sum(resolve(str(label)) is not None for label in tried)
    return "country" if known >= _ENOUGH * len(tried) else "plain"


def _rising(texts: list[str], pattern: re.Pattern[str]) -> bool:
    return all(map(pattern.fullmatch, texts)) and all(a < b for a, b in pairwise(texts))


def _in_cycle(texts: list[str], cycle: list[str]) -> bool:
    """Whether the texts are consecutive months or weekdays, in full or abbreviated, starting anywhere in the cycle."""
    names = [text.casefold().removesuffix(".") for text in texts]
    places = [next((n for n, name in enumerate(cycle) if _is_name(text, name)), -1) for text in names]
    turns = [(places[0] + turn) % len(cycle) for turn in range(len(places))]
    return len(texts) <= len(cycle) and places == turns


def _is_name(text: str, name: str) -> bool:
    return text == name or (len(text) in (3, 4) and name.startswith(text))

"""What the labels of a mode are, so that it can be shown as people expect: over time, on a map, in its own order.

The labels alone decide; nothing has to be declared.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from allocore.data.countries import resolve

Kind = Literal["time", "order", "country", "plain"]

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


def kind_of(labels: Sequence[str | int]) -> Kind:
    """The kind of a mode: periods of a calendar, things in an order of their own, countries, or none of these.

    Examples
    --------
    >>> kind_of(["2018-01", "2018-02", "2018-03"]), kind_of(["Mon", "Tue", "Wed"]), kind_of(["USA", "France", "Iraq"])
    ('time', 'order', 'country')
    >>> kind_of(["tea", "rice", "salt"])
    'plain'
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
    """Whether the texts are names of months or weekdays, whole or short, one after another; the first may be any."""
    names = [text.casefold().removesuffix(".") for text in texts]
    places = [next((n for n, name in enumerate(cycle) if _is_name(text, name)), -1) for text in names]
    turns = [(places[0] + turn) % len(cycle) for turn in range(len(places))]
    return len(texts) <= len(cycle) and places == turns


def _is_name(text: str, name: str) -> bool:
    return text == name or (len(text) in (3, 4) and name.startswith(text))

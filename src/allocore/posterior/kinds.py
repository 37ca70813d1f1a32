"""What the labels of a mode are, so that it can be shown as people expect: over time, on a map, in its own order.

The labels alone decide; nothing has to be declared.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from allocore.data.countries import resolve

Kind = Literal["time", "order", "country", "plain"]

_PERIOD = re.compile(r"[12]\d{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?|-Q[1-4]|-W[0-5]\d)?")
_CLOCK = re.compile(r"([01]?\d|2[0-4])(:[0-5]\d){1,2}")
_CYCLES = (
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
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
        if _rising(texts, _PERIOD):
            return "time"
        if _rising(texts, _CLOCK) or any(_in_cycle(texts, cycle) for cycle in _CYCLES):
            return "order"
    tried = labels[:_TRIED]
    known = sum(resolve(str(label)) is not None for label in tried)
    return "country" if known >= _ENOUGH * len(tried) else "plain"


def _rising(texts: list[str], pattern: re.Pattern[str]) -> bool:
    return all(map(pattern.fullmatch, texts)) and all(a < b for a, b in pairwise(texts))


def _in_cycle(texts: list[str], cycle: tuple[str, ...]) -> bool:
    """Whether the texts are names of months or weekdays, one after another; the first may be any."""
    starts = [text.casefold()[:3] for text in texts]
    if len(texts) > len(cycle) or starts[0] not in cycle or any(text.isupper() and len(text) == 3 for text in texts):
        return False
    first = cycle.index(starts[0])
    return all(start == cycle[(first + place) % len(cycle)] for place, start in enumerate(starts))

"""The kind of a mode's labels: periods of time, an ordered cycle, countries, or none of these; and labels in words.

Tables, figures and the explorer show a mode by the kind of its labels: over time, in order, or on a map. The labels
alone decide; users declare nothing.
"""

import re
from collections.abc import Sequence
from typing import Literal

from allocore.data.calendar_labels import in_calendar_order, is_rising, period_form
from allocore.data.countries import resolve

LabelKind = Literal["time", "order", "country", "plain"]

_MOST_PERIODS = 100_000
_TRIED = 2000
_ENOUGH = 0.8
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")


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
        if period_form(texts) and is_rising(texts):
            return "time"
        if in_calendar_order(texts):
            return "order"
    tried = labels[:_TRIED]
    known = sum(resolve(str(label)) is not None for label in tried)
    return "country" if known >= _ENOUGH * len(tried) else "plain"


def are_numbers(labels: Sequence[str | int]) -> bool:
    """Tell whether labels are numbers, which say nothing without the name of their mode.

    Parameters
    ----------
    labels : sequence of str or int
        All labels of the mode.

    Returns
    -------
    bool
        Whether every label is a number. Positions, of a mode without labels, are numbers.

    Examples
    --------
    >>> are_numbers(["1", "2", "12"]), are_numbers(range(5)), are_numbers(["1", "2", "other"])
    (True, True, False)
    """
    return isinstance(labels, range) or all(_NUMBER.fullmatch(str(label)) for label in labels)

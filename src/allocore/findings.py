"""What a judgement found: data first. `sentences.py` turns findings into sentences; nothing reads a sentence back.

`diagnose`, `evaluate`, `compare`, `select_budget`, `forecast.evaluate` and the report on events have `.findings`, a
tuple of these, and `.sentences`, the same in words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["good", "note", "caution", "poor"]


@dataclass(frozen=True)
class Finding:
    """One thing that a judgement found.

    Attributes
    ----------
    kind : str
        What was found, such as "chains-disagree". Each kind has one sentence in `sentences.py`.
    level : {"good", "note", "caution", "poor"}
        How serious it is; "note" is for the reader's information.
    values : mapping
        The numbers and names of the finding.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.Finding("few-draws", "caution", {"draws": 4, "least": 50})
    Finding(kind='few-draws', level='caution', values={'draws': 4, 'least': 50})
    """

    kind: str
    level: Level = "note"
    values: Mapping[str, Any] = field(default_factory=dict)

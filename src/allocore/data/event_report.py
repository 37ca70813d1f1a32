"""What `read_events` did with the rows of an event table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from allocore.data.display import visible
from allocore.data.json_text import parsed_json
from allocore.errors import InputError

_LISTED = 6
_READING = ("format", "modes", "time", "count", "dedup", "diagonal")
_LEFT = "<{0} style='text-align:left;vertical-align:top'>{1}</{0}>"


@dataclass(frozen=True)
class EventReport:
    """How many rows were read, kept and dropped, and why; what was repaired; what the tensor holds.

    Print it, or show it in a notebook.

    Parameters
    ----------
    format : str
        The name of the known format, or "custom" for any other table.
    files : int
        The number of files; 0 for a data frame.
    rows, kept : int
        The number of rows read, and of rows that are counted in the tensor.
    dropped : dict from str to int
        The number of rows dropped, by reason.
    duplicates : int
        The number of rows left out by `dedup`.
    diagonal : int
        The number of kept rows on a diagonal that is missing.
    unknown : dict from str to dict
        For each mode the texts that were not understood, with their numbers of rows.
    notes : tuple of str
        Decisions that were made while reading.
    dates : tuple of (str, str), optional
        The first and the last date.
    tensor : str
        The tensor in one line.
    heaviest : dict from str to list of (label, count)
        For each mode the labels with the largest counts.
    new_labels : dict from str to dict
        With `like`, for each mode the labels that are not in that tensor, with their numbers of rows.
    empty_periods : tuple of str
        The periods between the first and the last that have no row and count as zeros.
    unobserved : int
        The number of kept rows in periods that are missing because they were not observed.
    inner_lines : int
        The number of lines that are between the quotes of a field. The lines of a text file that are not empty are its
        rows, these, and the header.
    reading : dict from str to object
        The arguments of `read_events` that were given and that more events of the same kind need again: `modes`,
        `time`, `count`, `where` and the like.
    """

    format: str
    files: int
    rows: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    diagonal: int = 0
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dates: tuple[str, str] | None = None
    tensor: str = ""
    heaviest: dict[str, list[tuple[str | int, int]]] = field(default_factory=dict)
    new_labels: dict[str, dict[str, int]] = field(default_factory=dict)
    empty_periods: tuple[str, ...] = ()
    unobserved: int = 0
    inner_lines: int = 0
    reading: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[tuple[str, str]]:
        """Return the report as pairs of a name and a text."""
        files = f" from {self.files:,} file{'s' * (self.files != 1)}" if self.files else ""
        lines = [("rows read", f"{self.rows:,}{files}, format {self.format}")]
        lines += [("lines between quotes", f"{self.inner_lines:,}")] if self.inner_lines else []
        lines += [(f"dropped: {reason}", f"{rows:,}") for reason, rows in self.dropped.items()]
        lines += [("duplicates left out", f"{self.duplicates:,}")] if self.duplicates else []
        lines.append(("rows kept", f"{self.kept:,}"))
        lines += [("of these on the diagonal, which is missing", f"{self.diagonal:,}")] if self.diagonal else []
        lines += [("of these in periods that were not observed", f"{self.unobserved:,}")] if self.unobserved else []
        for mode, texts in self.unknown.items():
            lines.append((f"not understood in {mode}", _listed([f"{text!r} ({n:,})" for text, n in texts.items()])))
        for mode, labels in self.new_labels.items():
            done = "dropped" if f"new {mode}" in self.dropped else "appended"
            lines.append((f"new in {mode}, {done}", _listed([f"{label!r} ({n:,})" for label, n in labels.items()])))
        if self.empty_periods:
            advice = "they count as zeros; if they were not observed, name them in unobserved="
            lines.append(("periods without events", f"{_listed(self.empty_periods)}: {advice}"))
        lines += [("note", note) for note in self.notes]
        lines += [("dates", f"{self.dates[0]} to {self.dates[1]}")] if self.dates else []
        lines.append(("tensor", self.tensor))
        for mode, heaviest in self.heaviest.items():
            lines.append((f"heaviest in {mode}", ", ".join(f"{label} ({count:,})" for label, count in heaviest)))
        return lines

    def to_json(self) -> str:
        """Return the report as JSON text, for files."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> EventReport:
        """Return the report that `to_json` wrote; it is an InputError if the text is something else."""
        try:
            parts: dict[str, Any] = parsed_json(text)
            heaviest = {mode: [(label, count) for label, count in each] for mode, each in parts["heaviest"].items()}
            dates = parts["dates"] and (parts["dates"][0], parts["dates"][1])
            tuples = {name: tuple(parts[name]) for name in ("notes", "empty_periods") if name in parts}
            _check_reading(parts.get("reading", {}))
            return cls(**(parts | {"heaviest": heaviest, "dates": dates} | tuples))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(f"the report on the events of a tensor cannot be read: {error}") from error

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return visible("\n".join(f"{name:<{width}}  {text}" for name, text in lines))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{_LEFT.format('th', escape(name))}{_LEFT.format('td', escape(text))}</tr>"
            for name, text in self.lines()
        )
        return f"<table>{rows}</table>"


def _check_reading(reading: Any) -> None:
    """Raise an error if a file has other arguments than `read_events` has kept: it may be a stranger's."""
    for name, value in reading.items():
        values = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if name == "where":
            flat = [each for some in values for each in (some if isinstance(some, list) else [some])]
            known = all(each is None or isinstance(each, str | bool | int | float) for each in flat)
        else:
            several = isinstance(value, dict | list)
            known = name in _READING and several == (name == "modes") and all(isinstance(each, str) for each in values)
        if not known:
            raise ValueError(f"{name!r} is {value!r} in reading")


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _LISTED:,} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more

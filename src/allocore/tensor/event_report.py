"""What `read_events` did with the rows of an event table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from allocore._io import parsed_json
from allocore._text import first_few, plural, visible
from allocore.errors import NO_VALUE, InputError
from allocore.findings import Finding, sentences

_LEVELS = ("good", "note", "caution", "poor")
_READING = ("format", "modes", "time", "count", "header", "dedup", "diagonal", "incomplete", "exposure")
_CELL = "<{0} style='text-align:left;vertical-align:top'>{1}</{0}>"


@dataclass(frozen=True)
class EventReport:
    """How many rows were read, kept and dropped, and why; what was repaired; what is in the tensor.

    Attributes
    ----------
    format : str
        The name of the known format, or "custom" for any other table.
    files, rows, kept : int
        The number of files (0 for a data frame), of rows read, and of rows that are counted in the tensor.
    dropped : dict from str to int
        The number of rows dropped, by reason.
    duplicates, diagonal : int
        The number of rows left out by `dedup`, and of kept rows on a diagonal that is missing.
    unknown : dict from str to dict
        For each mode the texts that were not understood, with their numbers of rows.
    findings : tuple of Finding
        Decisions made while reading, and what may need your attention. `sentences` has them in words.
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
    incomplete : dict from str to (int, int)
        The periods that seem to have been observed only in part, each with the number of its observed days and of all
        its days.
    exposures : dict from str to float
        The weights of the periods by their observed days, if `read_events` was asked for them. Fits use them.
    days_apart : int, optional
        The usual number of days from one date to the next, if there are enough dates.
    unobserved : int
        The number of kept rows in periods that are missing because they were not observed.
    inner_lines : int
        The number of line ends inside quoted fields: the non-empty lines of a file are its header, its rows and these.
    reading : dict from str to object
        The given arguments of `read_events` that more events of the same kind need again, such as `modes` and `where`.

    Examples
    --------
    >>> import pandas as pd
    >>> import allocore as ac
    >>> sales = pd.DataFrame({"store": ["A", "B", None], "item": ["tea", "rice", "tea"]})
    >>> report = ac.read_events(sales, modes=["store", "item"]).report
    >>> report.rows, report.kept, report.dropped
    (3, 2, {'no store': 1})
    """

    format: str
    files: int
    rows: int
    kept: int
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    diagonal: int = 0
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    dates: tuple[str, str] | None = None
    tensor: str = ""
    heaviest: dict[str, list[tuple[str | int, int]]] = field(default_factory=dict)
    new_labels: dict[str, dict[str, int]] = field(default_factory=dict)
    empty_periods: tuple[str, ...] = ()
    incomplete: dict[str, tuple[int, int]] = field(default_factory=dict)
    exposures: dict[str, float] = field(default_factory=dict)
    days_apart: int | None = None
    unobserved: int = 0
    inner_lines: int = 0
    reading: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def joined(cls, reports: Sequence[EventReport], tensor: str, heaviest: Mapping[str, Any]) -> EventReport:
        """Return the report of several tables, of which one tensor was made.

        Parameters
        ----------
        reports : sequence of EventReport
            The reports of the tables.
        tensor, heaviest : str, dict
            What the report says of the tensor.

        Returns
        -------
        EventReport
            Numbers are added up. `reading` is that of the first.

        Examples
        --------
        >>> import allocore as ac
        >>> reports = [ac.EventReport("custom", files=1, rows=rows, kept=rows) for rows in (3, 5)]
        >>> ac.EventReport.joined(reports, "", {}).rows
        8
        """
        added = ("files", "rows", "kept", "duplicates", "diagonal", "unobserved", "inner_lines")
        dates = [each for report in reports for each in report.dates or ()]
        found: list[Finding] = []
        for finding in (each for report in reports for each in report.findings):
            found += [] if finding in found else [finding]
        return cls(
            **{name: sum(getattr(report, name) for report in reports) for name in added},
            format=", ".join(dict.fromkeys(report.format for report in reports)),
            dropped=dict(sum((Counter(report.dropped) for report in reports), Counter())),
            unknown=_added([report.unknown for report in reports]),
            findings=tuple(found),
            dates=(min(dates), max(dates)) if dates else None,
            tensor=tensor,
            heaviest=dict(heaviest),
            new_labels=_added([report.new_labels for report in reports]),
            empty_periods=tuple(dict.fromkeys(period for report in reports for period in report.empty_periods)),
            incomplete={period: days for report in reports for period, days in report.incomplete.items()},
            exposures={period: weight for report in reports for period, weight in report.exposures.items()},
            days_apart=next((report.days_apart for report in reports if report.days_apart), None),
            reading=reports[0].reading,
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words. Arguments of `read_events` are in backquotes."""
        return sentences(self.findings)

    def lines(self) -> list[tuple[str, str]]:
        """Return the report line by line.

        Returns
        -------
        list of (str, str)
            Names and texts; the name of a finding is "note".

        Examples
        --------
        >>> import allocore as ac
        >>> ac.EventReport("custom", files=0, rows=3, kept=2, dropped={"no store": 1}).lines()[:2]
        [('rows read', '3, format custom'), ('dropped: no store', '1')]
        """
        files = f" from {plural(self.files, 'file')}" if self.files else ""
        lines = [("rows read", f"{self.rows:,}{files}, format {self.format}")]
        lines += [("lines between quotes", f"{self.inner_lines:,}")] if self.inner_lines else []
        lines += [(f"dropped: {reason}", f"{rows:,}") for reason, rows in self.dropped.items()]
        lines += [("duplicates left out", f"{self.duplicates:,}")] if self.duplicates else []
        lines.append(("rows kept", f"{self.kept:,}"))
        lines += [("of these on the diagonal, which is missing", f"{self.diagonal:,}")] if self.diagonal else []
        lines += [("of these in periods that were not observed", f"{self.unobserved:,}")] if self.unobserved else []
        lines += [(f"not understood in {mode}", _with_rows(texts)) for mode, texts in self.unknown.items()]
        for mode, labels in self.new_labels.items():
            done = "dropped" if f"new {mode}" in self.dropped else "appended"
            lines.append((f"new in {mode}, {done}", _with_rows(labels)))
        lines += [("periods without events", first_few(self.empty_periods))] if self.empty_periods else []
        if weights := sorted(self.exposures.values()):
            lines.append(("weights of periods", f"{weights[0]:.2f} to {weights[-1]:.2f}, by their observed days"))
        lines += [("note", sentence) for sentence in self.sentences]
        lines += [("dates", f"{self.dates[0]} to {self.dates[1]}")] if self.dates else []
        lines.append(("tensor", self.tensor))
        for mode, heaviest in self.heaviest.items():
            lines.append((f"top in {mode}", ", ".join(f"{label} ({count:,})" for label, count in heaviest)))
        return lines

    def to_json(self) -> str:
        """Return the report as JSON text, for files.

        Returns
        -------
        str

        Examples
        --------
        >>> import allocore as ac
        >>> ac.EventReport("custom", files=0, rows=3, kept=3).to_json()
        '{"format": "custom", "files": 0, "rows": 3, "kept": 3, ...'
        """
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> EventReport:
        """Return the report that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON text.

        Returns
        -------
        EventReport

        Examples
        --------
        >>> import allocore as ac
        >>> report = ac.EventReport("custom", files=0, rows=3, kept=3)
        >>> ac.EventReport.from_json(report.to_json()) == report
        True
        """
        try:
            parts: dict[str, Any] = parsed_json(text, "report")
            notes = [Finding("note", "note", {"text": note}) for note in parts.pop("notes", ())]  # until findings came
            found = [*notes, *(_checked_finding(**each) for each in parts.pop("findings", ()))]
            heaviest = {mode: [(label, count) for label, count in each] for mode, each in parts["heaviest"].items()}
            dates = parts["dates"] and (parts["dates"][0], parts["dates"][1])
            empty = tuple(parts.get("empty_periods", ()))
            _check_reading(parts.get("reading", {}))
            changed = {"findings": tuple(found), "heaviest": heaviest, "dates": dates, "empty_periods": empty}
            changed["incomplete"] = _checked_days(parts.get("incomplete", {}))
            changed["exposures"] = _checked_weights(parts.get("exposures", {}))
            report = cls(**(parts | changed))
            report.lines()  # whatever cannot be shown is an error now, not when it is printed
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError("report", NO_VALUE, f"on the events of a tensor cannot be read: {error}") from error
        return report

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return visible("\n".join(f"{name:<{width}}  {text}" for name, text in lines))

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{_CELL.format('th', escape(name))}{_CELL.format('td', escape(text))}</tr>"
            for name, text in self.lines()
        )
        return f"<table>{rows}</table>"


def _with_rows(texts: dict[str, int]) -> str:
    return first_few([f"{text!r} ({rows:,})" for text, rows in texts.items()])


def _added(counted: Sequence[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """Return for each mode the numbers of rows of texts, added up."""
    modes = dict.fromkeys(mode for each in counted for mode in each)
    return {mode: dict(sum((Counter(each.get(mode, {})) for each in counted), Counter())) for mode in modes}


def _checked_finding(kind: Any, level: Any, values: Any) -> Finding:
    if level not in _LEVELS:
        raise ValueError(f"a finding has the level {level!r}")
    return Finding(kind, level, values)


def _checked_days(incomplete: Any) -> dict[str, tuple[int, int]]:
    found = {label: (observed, days) for label, (observed, days) in incomplete.items()}
    if not all(isinstance(number, int) for pair in found.values() for number in pair):
        raise ValueError("the days of incomplete periods must be whole numbers")
    return found


def _checked_weights(exposures: Any) -> dict[str, float]:
    if not all(isinstance(weight, float) and 0.0 < weight < float("inf") for weight in exposures.values()):
        raise ValueError("the weights of periods must be positive numbers")
    return dict(exposures)


def _check_reading(reading: Any) -> None:
    """Raise an error if a file, which may be from an untrusted source, has other arguments than `read_events` saves."""
    for name, value in reading.items():
        values = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if name == "where":
            flat = [each for some in values for each in (some if isinstance(some, list) else [some])]
            known = all(each is None or isinstance(each, str | bool | int | float) for each in flat)
        elif name == "header":
            known = isinstance(value, bool)
        else:
            several = isinstance(value, dict | list)
            known = name in _READING and several == (name == "modes") and all(isinstance(each, str) for each in values)
        if not known:
            raise ValueError(f"{name!r} is {value!r} in reading")

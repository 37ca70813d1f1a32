"""What became of the rows of an event table on the way to a tensor."""

from dataclasses import dataclass, field
from html import escape

_LISTED = 6
_LEFT = "<{0} style='text-align:left;vertical-align:top'>{1}</{0}>"


@dataclass(frozen=True)
class EventReport:
    """Rows read, kept and dropped, and why; what was repaired; what the tensor holds. Print it, or show it.

    `unknown` has, for each mode, the texts that mean nothing in it and their rows.
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

    def lines(self) -> list[tuple[str, str]]:
        """The report as pairs: what, and how much."""
        files = f" from {self.files:,} file{'s' * (self.files != 1)}" if self.files else ""
        lines = [("rows read", f"{self.rows:,}{files}, format {self.format}")]
        lines += [(f"dropped: {reason}", f"{rows:,}") for reason, rows in self.dropped.items()]
        lines += [("duplicates left out", f"{self.duplicates:,}")] if self.duplicates else []
        lines.append(("rows kept", f"{self.kept:,}"))
        lines += [("of these on the diagonal, which is missing", f"{self.diagonal:,}")] if self.diagonal else []
        for mode, texts in self.unknown.items():
            listed = ", ".join(f"{text!r} ({rows:,})" for text, rows in list(texts.items())[:_LISTED])
            more = f" and {len(texts) - _LISTED:,} more" if len(texts) > _LISTED else ""
            lines.append((f"not understood in {mode}", listed + more))
        lines += [("note", note) for note in self.notes]
        lines += [("dates", f"{self.dates[0]} to {self.dates[1]}")] if self.dates else []
        lines.append(("tensor", self.tensor))
        for mode, labels in self.heaviest.items():
            lines.append((f"heaviest in {mode}", ", ".join(f"{label} ({count:,})" for label, count in labels)))
        return lines

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{_LEFT.format('th', escape(name))}{_LEFT.format('td', escape(text))}</tr>"
            for name, text in self.lines()
        )
        return f"<table>{rows}</table>"

"""How data are shown in text: numbers, a tensor in one line, a small table for notebooks, no control characters."""

from __future__ import annotations

import re
from html import escape
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allocore.data.tensor_parts import TensorParts

LABELS_SHOWN = 3
# Control characters but line ends and tabs, lone surrogates, and what reverses the direction of text or breaks lines.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return a text that is safe to print: "\\x1b" for the character that begins a command to a terminal."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def plural(number: int, noun: str) -> str:
    """Return "1 cell", "2,000 cells"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def plain_number(value: float) -> str:
    """Return a number with at least four digits and no exponent, unless it is tiny.

    Examples
    --------
    >>> plain_number(-32930.4), plain_number(588.24), plain_number(0.15249), plain_number(2e-9)
    ('-32,930', '588.2', '0.1525', '2e-09')
    """
    return f"{value:,.0f}" if abs(value) >= 1e3 and isfinite(value) else f"{value:.4g}"


def facts(tensor: TensorParts) -> list[str]:
    """Return the sizes of a tensor in words."""
    percent = 100 * tensor.density
    result = [
        plural(tensor.nnz, "non-zero"),
        plural(tensor.total, "count"),
        f"{percent:.0f}% dense" if percent >= 10 else f"{percent:.2g}% dense",
    ]
    if len(tensor.missing):
        result.append(plural(len(tensor.missing), "missing pattern"))
    shards = getattr(tensor, "shards", None)
    return result if shards is None else [*result, f"in {plural(shards, 'shard')}"]


def as_text(tensor: TensorParts, kind: str | None = None) -> str:
    """Return the line shown by `repr`; it begins with the kind of the tensor, by default its type."""
    lengths = " x ".join(str(length) for length in tensor.shape)
    return visible(
        ", ".join([f"{kind or type(tensor).__name__}: {lengths} ({', '.join(tensor.mode_names)})", *facts(tensor)])
    )


def as_html(tensor: TensorParts) -> str:
    """Return the table shown by notebooks. Names and labels are data, so they are escaped."""
    rows = []
    for m, (name, length) in enumerate(zip(tensor.mode_names, tensor.shape, strict=True)):
        heaviest = "; ".join(f"{label} ({count:,})" for label, count in tensor.heaviest(m, top=LABELS_SHOWN))
        rows.append(f"<tr><td>{escape(name)}</td><td>{length:,}</td><td>{escape(heaviest)}</td></tr>")
    return (
        f"<table><caption>{type(tensor).__name__}: {', '.join(facts(tensor))}</caption>"
        "<thead><tr><th>mode</th><th>length</th><th>heaviest (counts)</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )

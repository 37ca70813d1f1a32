"""Numbers and names in text, without control characters."""

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite

# Control characters but line ends and tabs, lone surrogates, and what reverses the direction of text or breaks lines.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Return a text that is safe to print: "\\x1b" for the character that begins a command to a terminal."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def plural(number: int, noun: str) -> str:
    """Return "1 cell", "2,000 cells"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def first_few(names: Sequence[str], most: int = 6) -> str:
    """Return names separated by commas; after the first `most` of them, how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def plain_number(value: float) -> str:
    """Return a number with at least four digits and no exponent, unless it is tiny.

    Examples
    --------
    >>> plain_number(-32930.4), plain_number(588.24), plain_number(0.15249), plain_number(2e-9)
    ('-32,930', '588.2', '0.1525', '2e-09')
    """
    return f"{value:,.0f}" if abs(value) >= 1e3 and isfinite(value) else f"{value:.4g}"


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, with a number after those that came before."""
    seen, found = Counter[str](), []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found

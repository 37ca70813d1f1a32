"""Text that can be drawn: any label, in characters that the fonts have, and no wider than its room."""

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
from matplotlib.textpath import text_to_path

# This font comes with matplotlib, so figures look the same everywhere. It covers Latin, Greek, Cyrillic, Arabic, Hebrew
# and more.
_FONT = "DejaVu Sans"
# Fonts for other characters, used if they are installed.
_OTHERS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Arial Unicode MS",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Segoe UI Symbol",
)
_UNKNOWN = "\u25a1"
_ELLIPSIS = "\u2026"
# A mark without width. Before a name it sets the direction of the line; after a name it ends the direction of the name.
_LEFT_TO_RIGHT = "\u200e"
_VARIATIONS = range(0xFE00, 0xFE10)


@cache
def families() -> list[str]:
    """The fonts in order: each is used for the characters that those before it lack."""
    installed = set(get_font_names())
    return [_FONT, *(name for name in _OTHERS if name in installed)]


def clean(text: object) -> str:
    """Text with squares for characters that no font has, spaces for line breaks, and no control characters.

    Examples
    --------
    >>> clean("two\\nlines"), clean("a\\u200db"), clean("\\U000f0000\\U000f0001 x")
    ('two lines', 'ab', '\u25a1 x')
    """
    shown = "".join(_shown(letter) for letter in str(text))
    while _UNKNOWN * 2 in shown:
        shown = shown.replace(_UNKNOWN * 2, _UNKNOWN)
    return " ".join(shown.split())


def shorten(text: object, room: float, size: float, *, bold: bool = False) -> str:
    """Text that is at most `room` points wide; if it is too long, an ellipsis replaces its end.

    Examples
    --------
    >>> shorten("Iraq", 50, 7), shorten("Bosnia and Herzegovina", 50, 7)
    ('Iraq', 'Bosnia and…')
    """
    whole = clean(text)
    if width(whole, size, bold=bold) <= room or len(whole) == 1:
        return whole
    fewest, most = 1, len(whole)
    while most - fewest > 1:
        half = (fewest + most) // 2
        fewest, most = (half, most) if width(whole[:half] + _ELLIPSIS, size, bold=bold) <= room else (fewest, half)
    return whole[:fewest].rstrip(" ,;:-") + _ELLIPSIS


@lru_cache(maxsize=10_000)
def width(text: str, size: float, *, bold: bool = False) -> float:
    """The width of clean text, in points."""
    if not text:
        return 0.0
    font = FontProperties(family=families(), size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def joined(name: str, rest: object) -> str:
    """A clean name and a remark, from left to right even if the name is written from right to left.

    Examples
    --------
    >>> joined("sender", 7)
    'sender 7'
    """
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in name):
        return f"{_LEFT_TO_RIGHT}{name}{_LEFT_TO_RIGHT} {rest}"
    return f"{name} {rest}"


def numbers_in(numbers: Sequence[str], room: float, size: float) -> str:
    """List as many other classes as there is room for: "shared with classes 3 (0.92), 5 and 7 more"."""
    noun = "class" if len(numbers) == 1 else "classes"
    for listed in range(len(numbers), 0, -1):
        rest = f" and {len(numbers) - listed} more" if listed < len(numbers) else ""
        text = f"{', '.join(numbers[:listed])}{rest}"
        for start in (f"shared with {noun} ", "shared with "):
            if width(start + text, size) <= room:
                return start + text
    # A number that is cut off would be read as that of a class.
    briefs = [f"{start}{len(numbers)} others" for start in ("shared with ", "with ", "")]
    return next((brief for brief in briefs if width(brief, size) <= room), briefs[-1])


@lru_cache(maxsize=10_000)
def _shown(letter: str) -> str:
    kind = unicodedata.category(letter)
    if kind in ("Cc", "Zl", "Zp", "Zs"):
        return " "
    if kind == "Cf" or ord(letter) in _VARIATIONS:
        return ""
    if kind in ("Cs", "Co", "Cn"):  # private characters mean something else in every font
        return _UNKNOWN
    known = any(get_font(findfont(name)).get_char_index(ord(letter)) for name in families())
    return letter if known else _UNKNOWN

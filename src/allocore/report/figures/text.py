"""Text in figures: any label in characters that the fonts have, no wider than its room, and ticks that are labels.

The positions of ticks are numbers of periods, which may have gaps, and not dates. So matplotlib's locators of dates do
not apply: they put ticks at dates that are not among the periods, and more of them than asked for.
"""

import math
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names
from matplotlib.textpath import text_to_path

from allocore.tensor.calendar import period_start

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
    """Name as many other classes as there is room for: "shared with classes 3 (0.92), 5 and 7 more"."""
    noun = "class" if len(numbers) == 1 else "classes"
    for named in range(len(numbers), 0, -1):
        rest = f" and {len(numbers) - named} more" if named < len(numbers) else ""
        text = f"{', '.join(numbers[:named])}{rest}"
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


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
Ticks = list[tuple[int, str]]


def date_ticks(labels: Sequence[str | int], most: int) -> Ticks:
    """At most `most` positions with their names, at the starts of months, quarters, years or decades.

    Examples
    --------
    >>> date_ticks([f"{year}-{month:02d}" for year in (2018, 2019) for month in range(1, 13)], 5)
    [(0, '2018'), (6, 'Jul'), (12, '2019'), (18, 'Jul')]
    >>> date_ticks(["2018-03-05", "2018-03-06", "2018-03-07"], 5)
    [(0, '5 Mar 2018'), (2, '7 Mar')]
    """
    months = [_month(str(label)) for label in labels]
    for step in _STEPS:
        starts = _starts(months, step)
        if 2 <= len(starts) <= max(most, 2):
            return _named(starts, months, step)
        if len(starts) < 2:
            break
    return _ends(labels)


def fitting_ticks(labels: Sequence[str | int], room: float, size: float) -> Ticks:
    """All labels if they fit side by side in `room` points, else every second, third and so on, from the first."""
    slot = room / len(labels)
    # No label is narrower than half its height, so a hundred thousand labels need not be measured.
    step = max(1, int(size / 2 / slot))
    while True:
        places = range(0, len(labels), step)
        texts = [clean(labels[place]) for place in places]
        needed = (max(width(text, size) for text in texts) + size / 2) / slot
        if step >= len(labels) or needed <= step:
            return list(zip(places, texts, strict=True))
        step = math.ceil(needed)


def all_fit(labels: Sequence[str | int], room: float, size: float) -> bool:
    """Whether all labels fit side by side."""
    return len(labels) * size / 2 < room and len(fitting_ticks(labels, room, size)) == len(labels)


def _month(label: str) -> int:
    """The month in which a period begins, counted from the year 0."""
    start = period_start(label)
    return 12 * start.year + start.month - 1


def _starts(months: list[int], step: int) -> list[int]:
    """The first position in each stretch of `step` months; the first stretch counts only if its start is there."""
    firsts = [place for place in range(1, len(months)) if months[place] // step != months[place - 1] // step]
    return [0, *firsts] if months and months[0] % step == 0 else firsts


def _named(starts: list[int], months: list[int], step: int) -> Ticks:
    """Name January by its year and other months by themselves; at least one tick has a year."""
    names = [str(months[place] // 12) if step >= 12 or months[place] % 12 == 0 else "" for place in starts]
    ticks = [name or _MONTHS[months[place] % 12] for name, place in zip(names, starts, strict=True)]
    if not any(names):
        ticks[0] += f" {months[starts[0]] // 12}"
    return list(zip(starts, ticks, strict=True))


def _ends(labels: Sequence[str | int]) -> Ticks:
    """Ticks at the first and the last period, for a stretch without starts of months."""
    first, last = str(labels[0]), str(labels[-1])
    named = [_day(first), _day(last)]
    if len(first) == 10 and first[:4] == last[:4]:
        named[1] = named[1].rpartition(" ")[0]
    return [(0, named[0])] if len(labels) == 1 else [(0, named[0]), (len(labels) - 1, named[1])]


def _day(label: str) -> str:
    if len(label) == 10:
        return f"{int(label[8:])} {_MONTHS[int(label[5:7]) - 1]} {label[:4]}"
    return label

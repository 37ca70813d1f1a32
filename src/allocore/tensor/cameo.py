"""CAMEO event codes: roots, words and labels, the repair of lost zeros, codes by their text. Also the types of PLOVER.

A code is a text of three or four characters, and the first two are the root: 014 "Consider policy option" is a
statement, root 01. Saved as a number it is 14, which looks like root 14, a protest. `cameo.csv` has the codes with
their texts: first that of ICEWS, if it has the code, then those of the CAMEO code book and of GDELT.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

ROOTS: Mapping[str, str] = {
    "01": "Make public statement", "02": "Appeal", "03": "Express intent to cooperate", "04": "Consult",
    "05": "Engage in diplomatic cooperation", "06": "Engage in material cooperation", "07": "Provide aid",
    "08": "Yield", "09": "Investigate", "10": "Demand", "11": "Disapprove", "12": "Reject", "13": "Threaten",
    "14": "Protest", "15": "Exhibit military posture", "16": "Reduce relations", "17": "Coerce", "18": "Assault",
    "19": "Fight", "20": "Engage in unconventional mass violence",
}  # fmt: skip

_COOPERATION = ("AGREE", "CONSULT", "SUPPORT", "COOPERATE", "AID", "CONCEDE", "RETREAT")
_CONFLICT = ("REQUEST", "ACCUSE", "REJECT", "THREATEN", "PROTEST", "MOBILIZE", "SANCTION", "COERCE", "ASSAULT")
PLOVER = _COOPERATION + _CONFLICT

# ICEWS has codes that end in a letter: 13y. A point must not match: 14.0 is 014 and not root 14.
_CODE = re.compile(r"([0-9]{2})(?:[0-9]{1,2}|[0-9]?[A-Za-z])")
_NUMBER = re.compile(r"([1-9][0-9]{1,3})(?:\.0*)?")
_SPELT = re.compile(r"([0-9]{1,4}[A-Za-z]?)( .*)?", re.DOTALL)


def root_of(code: str) -> str | None:
    """Return the root "01" to "20" of a code, or None if the text is not a code. Two digits are ambiguous."""
    match = _CODE.fullmatch(code.strip())
    return match[1] if match and match[1] in ROOTS else None


def restore(code: str) -> tuple[str, bool]:
    """Return a code as it was before it was saved as a number, and whether that changed it."""
    text = code.strip()
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text, False
    digits = match[1]
    # Roots end at 20, and no code lies between 0100 and 0209, so three digits can be read in one way only. No code
    # begins with 00, so a single digit cannot be repaired.
    lost = int(digits) < 100 or 210 <= int(digits) <= 999
    restored = "0" + digits if lost else digits
    return restored, restored != text


def code_of_text(text: str) -> str | None:
    """Return the code with this text, or None. Case and blanks make no difference."""
    codes, _ = _tables()
    return codes.get(_key(text))


@cache
def _tables() -> tuple[dict[str, str], dict[str, str]]:
    """Return the code of each text, and the words of each root and code: the first of its texts."""
    lines = (files("allocore.tensor") / "cameo.csv").read_text(encoding="utf-8").splitlines()
    rows = [(row["code"], row["text"]) for row in csv.DictReader(lines)]
    words = {code: text[0].upper() + text[1:] for code, text in reversed(rows)}
    return {_key(text): code for code, text in rows}, {**words, **ROOTS}


def _key(text: str) -> str:
    return "".join(text.split()).casefold()


def code_label(code: str) -> str:
    """Return the label of a root or a code: the code and its words, or only the code if its words are unknown."""
    _, words = _tables()
    return f"{code} {words[code]}" if code in words else code


def is_code_column(name: str) -> bool:
    """Return whether a column is called as if it had CAMEO codes: "CAMEO Code", "event_root_code"."""
    plain = _plain_name(name)
    return "cameo" in plain or plain == "eventrootcode"


def _plain_name(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def labels_of_codes(column: str, texts: Sequence[str]) -> dict[str, str] | None:
    """Return the label of each text in a column of CAMEO codes; None if a text is not a code, or could mean two codes.

    In a column of roots, 4 is 04. In any other column, 14 may be the root 14 or 014 without its zero, unless other
    texts show that leading zeros are preserved.
    """
    if "root" in _plain_name(column):
        found = {text: text.zfill(2) if text.isdecimal() and text.isascii() else "" for text in texts}
        return {text: code_label(code) for text, code in found.items()} if set(found.values()) <= set(ROOTS) else None
    roots = ROOTS if any(text.startswith("0") for text in texts) else {}
    if not all(text in roots or root_of(text) for text in texts):
        return None
    return {text: code_label(text) for text in texts}


def other_spellings(label: str) -> tuple[str, ...]:
    """Return other spellings of the label of a CAMEO code: "04" and "4" of "04 Consult", "04 Consult" of "4"."""
    match = _SPELT.fullmatch(label)
    if match is None:
        return ()
    if match[2] is None:
        with_words = code_label(match[1].zfill(2))
        return (with_words,) if " " in with_words else ()
    if code_label(match[1]) != label:
        return ()
    return tuple(dict.fromkeys((match[1], match[1].lstrip("0")))) if match[1] in ROOTS else (match[1],)


def respelt(labels: Sequence[object], known: Iterable[str]) -> tuple[str, ...]:
    """Return labels spelt as in `known`: "04" as "04 Consult", or the reverse."""
    theirs, given = set(known), tuple(map(str, labels))
    found = tuple(
        label if label in theirs else next((each for each in other_spellings(label) if each in theirs), label)
        for label in given
    )
    return found if len(set(found)) == len(set(given)) else given


def spelt_alike(lists: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return lists of labels in which codes have words everywhere, if some have them and others do not."""
    plain = [tuple(map(str, labels)) for labels in lists]
    every = {label for labels in plain for label in labels}
    with_words = [label for label in every if " " in label]
    if not any(other in every for label in with_words for other in other_spellings(label)):
        return plain
    known = {other for label in every if " " not in label for other in other_spellings(label)}
    return [respelt(labels, {*with_words, *known}) for labels in plain]

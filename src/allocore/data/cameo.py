"""CAMEO event codes: their roots, the repair of lost zeros, and codes by their text. Also the PLOVER types of POLECAT.

A code is a text of three or four characters, and the first two are the root: 014 "Consider policy option" is a
statement, root 01. Saved as a number it is 14, which looks like root 14, a protest: an error that nothing reveals.

`cameo.csv` has the codes with their texts. The first text of a code is the one in ICEWS, if ICEWS has the code; the
others are those of the CAMEO code book and of GDELT.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

ROOTS: Mapping[str, str] = {
    "01": "Make public statement",
    "02": "Appeal",
    "03": "Express intent to cooperate",
    "04": "Consult",
    "05": "Engage in diplomatic cooperation",
    "06": "Engage in material cooperation",
    "07": "Provide aid",
    "08": "Yield",
    "09": "Investigate",
    "10": "Demand",
    "11": "Disapprove",
    "12": "Reject",
    "13": "Threaten",
    "14": "Protest",
    "15": "Exhibit military posture",
    "16": "Reduce relations",
    "17": "Coerce",
    "18": "Assault",
    "19": "Fight",
    "20": "Engage in unconventional mass violence",
}

_COOPERATION = ("AGREE", "CONSULT", "SUPPORT", "COOPERATE", "AID", "CONCEDE", "RETREAT")
_CONFLICT = ("REQUEST", "ACCUSE", "REJECT", "THREATEN", "PROTEST", "MOBILIZE", "SANCTION", "COERCE", "ASSAULT")
PLOVER = _COOPERATION + _CONFLICT

# ICEWS has codes that end in a letter: 13y. A point must not match: 14.0 is 014 and not root 14.
_CODE = re.compile(r"([0-9]{2})(?:[0-9]{1,2}|[0-9]?[A-Za-z])")
_NUMBER = re.compile(r"([1-9][0-9]{1,3})(?:\.0*)?")


def root_of(code: str) -> str | None:
    """Return the root "01" to "20" of a code, or None if the text is not a code. Two digits alone are ambiguous.

    >>> root_of("014"), root_of("1411"), root_of("13y"), root_of("14")
    ('01', '14', '13', None)
    """
    match = _CODE.fullmatch(code.strip())
    return match[1] if match and match[1] in ROOTS else None


def restore(code: str) -> tuple[str, bool]:
    """Return a code as it was before it was saved as a number, and whether that changed it.

    No code begins with 00, so a single digit cannot be repaired: it is returned as it is, and it has no root.

    >>> restore("14"), restore("211.0"), restore("141"), restore("014")
    (('014', True), ('0211', True), ('141', False), ('014', False))
    """
    text = code.strip()
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text, False
    digits = match[1]
    # Roots end at 20, and no code lies between 0100 and 0209, so three digits can be read in one way only.
    lost = int(digits) < 100 or 210 <= int(digits) <= 999
    restored = "0" + digits if lost else digits
    return restored, restored != text


def code_of_text(text: str) -> str | None:
    """Return the code with this text, or None. Case and blanks make no difference.

    >>> code_of_text("Make a visit"), code_of_text("Make a wish")
    ('042', None)
    """
    return _codes().get(_key(text))


@cache
def _codes() -> dict[str, str]:
    table = (files("allocore.data") / "cameo.csv").read_text(encoding="utf-8")
    return {_key(row["text"]): row["code"] for row in csv.DictReader(table.splitlines())}


def _key(text: str) -> str:
    return "".join(text.split()).casefold()

"""Countries by the codes and names of event data, from the table `countries.csv`.

A row is a country or territory of ISO 3166-1, Kosovo, a state that no longer exists, or one of CAMEO's regions and
international actors. Former states keep the code that ISO withdrew, or have that of another list if ISO gave it to
another state: YMN for North Yemen (CAMEO), RVN for South Vietnam (Correlates of War). A state that only changed its
name or its code is one row: Zaire is DR Congo, and West Germany, whose code was DEU, is Germany.

Codes are those of ISO, past and present, and of CAMEO. Two-letter codes are unknown on purpose: AU is Austria in FIPS,
which GDELT uses for places, and Australia in ISO. Names of parts of a country, and names that two countries share
(Korea, Virgin Islands), are unknown too.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_FILLERS = {"the", "of", "and"}
_ABBREVIATIONS = {"st": "saint", "rep": "republic", "dem": "democratic"}
_APOSTROPHES = str.maketrans("", "", "'`\u2018\u2019\u02bc")
_WORD = re.compile(r"[^\W_]+")
_INVERTED = re.compile(r"([^,(]+)[,(](.+)", re.DOTALL)  # Korea, Republic of; Virgin Islands (British)


class Country(NamedTuple):
    """A row of the table: a country with its three-letter code and a short English name, or a region."""

    iso3: str
    name: str
    kind: str = "country"


def resolve(text: str) -> Country | None:
    """Return the country with this code or name, or None. Case, accents, punctuation and "the" make no difference."""
    row = _find(text)
    return row if row and row.kind == "country" else None


def is_region(text: str) -> bool:
    """Return whether a code or a name is one of CAMEO's regions of several countries: AFR, Middle East."""
    row = _find(text)
    return row is not None and row.kind == "region"


def _find(text: str) -> Country | None:
    by_code, by_name = _tables()
    # A code is not normalised like a name: Andorra's code is AND.
    row = by_code.get(text.strip().upper()) or by_name.get(_key(text))
    if row is None and (parts := _INVERTED.fullmatch(text)):
        row = by_name.get(_key(f"{parts[2]} {parts[1]}"))
    return row


def _key(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name).casefold().translate(_APOSTROPHES)
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(_ABBREVIATIONS.get(word, word) for word in _WORD.findall(plain) if word not in _FILLERS)


@cache
def _tables() -> tuple[dict[str, Country], dict[str, Country]]:
    by_code, by_name = dict[str, Country](), dict[str, Country]()
    lines = (files("allocore.tensor") / "countries.csv").read_text(encoding="utf-8").splitlines()
    for line in csv.DictReader(lines):
        row = Country(line["iso3"], line["name"], line["kind"])
        by_code.update((code, row) for code in [line["iso3"], *line["codes"].split(";")] if code)
        by_name.update((_key(name), row) for name in [line["name"], *line["names"].split(";")] if name)
    return by_code, by_name

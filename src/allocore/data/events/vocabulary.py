"""From the texts in a column to the labels of a mode, in a fixed order; modes may share one list of labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from allocore.data.calendar_labels import calendar_keys
from allocore.data.cameo import PLOVER, ROOTS, code_label, code_of_text, restore, root_of
from allocore.data.countries import is_region, resolve
from allocore.data.events.formats import TextKind

_LONG = 100  # digits; longer texts are sorted as texts, not as numbers
_VIOLENCE = {"1": "state-based conflict", "2": "non-state conflict", "3": "one-sided violence"}
_PLOVER = {name.upper(): name for name in PLOVER}
_ROOTS = {code: code_label(code) for code in ROOTS}


@dataclass
class Reading:
    """What the texts in a column mean: the label of each text, or why it has none, and which texts were repaired."""

    labels: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    repaired: list[str] = field(default_factory=list)

    def known(self) -> set[str]:
        """Return all labels."""
        return set(self.labels.values())

    def ordered(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the labels of texts that are in order; those that do not occur stay as they are."""
        return tuple(self.labels.get(text, text) for text in texts)

    def respell(self, spelt: Mapping[str, str]) -> None:
        """Replace each label by another spelling of it."""
        self.labels = {text: spelt.get(label, label) for text, label in self.labels.items()}


def read_labels(kind: TextKind, name: str, texts: list[str]) -> Reading:
    """Return the labels of all texts of a mode."""
    reading = Reading()
    for text in texts:
        label, repaired = _READERS.get(kind, _plain)(text)
        if label is None:
            why = "region, not a country" if kind == "country" and is_region(text) else f"unknown {name}"
            reading.unknown[text] = why
            continue
        reading.labels[text] = label
        if repaired:
            reading.repaired.append(text)
    return reading


def vocabulary(kind: TextKind, labels: set[str], order: tuple[str, ...] = ()) -> list[str]:
    """Return all labels of a mode in order: a fixed list as it is, even if some do not occur; others sorted.

    Plain labels that have an `order` of their own keep it. Numbers are sorted as numbers; names of months and weekdays,
    and times of day, as in a calendar.
    """
    fixed = {"cameo": _ROOTS, "root": _ROOTS, "plover": _PLOVER, "violence": _VIOLENCE}.get(kind)
    if fixed is not None:
        return list(fixed.values())
    if kind == "plain" and order:
        first = [label for label in dict.fromkeys(order) if label in labels]
        return [*first, *sorted(labels.difference(first))]
    if labels and all(label.isdecimal() and label.isascii() and len(label) < _LONG for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    texts = sorted(labels)
    keys = calendar_keys(texts) if kind == "plain" else None
    return texts if keys is None else [label for _, label in sorted(zip(keys, texts, strict=True))]


def _plain(text: str) -> tuple[str | None, bool]:
    return text, False


def _country(text: str) -> tuple[str | None, bool]:
    country = resolve(text)
    return (None, False) if country is None else (country.name, False)


def _cameo(text: str) -> tuple[str | None, bool]:
    """Read a code, or the words that ICEWS uses for it: one of its files lacks the codes."""
    code, repaired = restore(text)
    root = root_of(code) or root_of(code_of_text(text) or "")
    return (None, False) if root is None else (_ROOTS[root], repaired)


def _root(text: str) -> tuple[str | None, bool]:
    """Read a root code: 01 to 20, or 1 to 20 as in TERRIER."""
    number = text.removesuffix(".0")
    return (_ROOTS.get(number.zfill(2)), False) if number.isdecimal() else (None, False)


def _from(names: dict[str, str]) -> Callable[[str], tuple[str | None, bool]]:
    return lambda text: (names.get(text.upper()), False)


_READERS: dict[TextKind, Callable[[str], tuple[str | None, bool]]] = {
    "country": _country,
    "cameo": _cameo,
    "root": _root,
    "plover": _from(_PLOVER),
    "violence": _from(_VIOLENCE),
}

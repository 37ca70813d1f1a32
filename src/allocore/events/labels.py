"""From the texts in a column to the labels of a mode, in a fixed order, or as another tensor (`like`) has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from allocore._text import first_few, plural
from allocore.errors import NO_VALUE, Described, InputError
from allocore.events.formats import Mode, TextKind
from allocore.tensor.calendar import calendar_keys, frequency_of, period_form
from allocore.tensor.cameo import (
    PLOVER,
    ROOTS,
    code_label,
    code_of_text,
    other_spellings,
    respelt,
    restore,
    root_of,
)
from allocore.tensor.count_tensor import CountTensor, missing_diagonals
from allocore.tensor.countries import is_region, resolve

_LONG = 100  # digits; longer texts are sorted as texts, not as numbers
_VIOLENCE = {"1": "state-based conflict", "2": "non-state conflict", "3": "one-sided violence"}
_PLOVER = {name.upper(): name for name in PLOVER}
_ROOTS = {code: code_label(code) for code in ROOTS}


@dataclass
class LabelReading:
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


def read_labels(kind: TextKind, name: str, texts: list[str]) -> LabelReading:
    """Return the labels of all texts of a mode."""
    reading = LabelReading()
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


@dataclass(frozen=True)
class LabelTemplate:
    """`like`: a tensor that decides the modes, labels and periods of another, and what to do with new labels."""

    tensor: CountTensor
    new_labels: str

    def modes(self, chosen: tuple[Mode, ...]) -> tuple[Mode, ...]:
        """Return the modes in the order of the tensor; the one whose labels there are periods is the mode of time."""
        by_name = {mode.name: mode for mode in chosen}
        names = self.tensor.mode_names
        if set(by_name) != set(names):
            rule = f"must be a dict from the modes of `like` ({', '.join(names)}) to columns"
            raise InputError("modes", list(by_name), rule)
        times = [name for name in names if by_name[name].kind == "time"] or self._times(by_name)
        if len(times) > 1:
            rule = f"must be given, because `like` has periods of time in the modes {', '.join(times)}"
            raise InputError("time", NO_VALUE, rule)
        modes = tuple(replace(by_name[name], kind="time") if name in times else by_name[name] for name in names)
        for mode, labels in zip(modes, self.tensor.labels, strict=True):
            if isinstance(labels, range):
                raise InputError("like", self._shown, f"must have labels in mode {mode.name!r}, to match the rows")
        return modes

    def _times(self, modes: dict[str, Mode]) -> list[str]:
        labels = dict(zip(self.tensor.mode_names, self.tensor.labels, strict=True))
        return [name for name in labels if modes[name].kind == "plain" and period_form(labels[name])]

    def frequency(self, freq: str | None, modes: tuple[Mode, ...]) -> str | None:
        """Return the length of the tensor's periods."""
        name = next((mode.name for mode in modes if mode.kind == "time"), None)
        if name is None:
            return freq
        labels = [str(label) for label in self.labels(name)]
        if period_form(labels) is None:
            rule = f"must have periods of time in mode {name!r}, not the labels {first_few(labels)}"
            raise InputError("like", self._shown, rule)
        own = frequency_of(labels)
        if own is None and freq is None:
            rule = f"must be given, because the length of the periods of `like` is not clear: {first_few(labels)}"
            raise InputError("freq", NO_VALUE, rule)
        if own is not None and freq not in (None, own):
            raise InputError("freq", freq, f"must be {own!r} as in `like`, which has periods like {labels[0]!r}")
        return own or freq

    def shared(self, given: tuple[str, ...], diagonal: str) -> tuple[str, ...]:
        """Return the modes that share their labels: those given, or those whose diagonal is missing in the tensor."""
        diagonals = [tuple(self.tensor.mode_names[mode] for mode in modes) for modes in missing_diagonals(self.tensor)]
        shared = given or max(diagonals, key=len, default=())
        if len({self.labels(name) for name in shared}) > 1:
            rule = f"must have the same labels in {' and '.join(shared)}, because these modes share one list"
            raise InputError("like", self._shown, rule)
        if shared and diagonal == "missing" and not any(set(shared) <= set(each) for each in diagonals):
            rule = f"must be 'keep' or 'drop': in `like` the diagonal of {' and '.join(shared)} is not missing"
            raise InputError("diagonal", diagonal, rule)
        return shared

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a mode."""
        return tuple(str(label) for label in self.tensor.labels[self.tensor.mode(name)])

    def spelt(self, name: str, found: list[str]) -> dict[str, str]:
        """Return the found labels of a mode as the tensor spells them: CAMEO codes with or without their words."""
        spelt = dict(zip(found, respelt(found, self.labels(name)), strict=True))
        if not any(" " in label and " " not in other for label, other in spelt.items()):
            return spelt
        bare = {label: next(iter(other_spellings(label)), label) for label in found if spelt[label] == label}
        return spelt | {label: code for label, code in bare.items() if code not in spelt.values()}

    def with_new(self, name: str, found: list[str]) -> list[str]:
        """Return the labels of a mode, then those of the found labels that it does not have."""
        own = self.labels(name)
        known = set(own)
        return [*own, *(label for label in found if label not in known)]

    @property
    def _shown(self) -> Described:
        return Described(f"a tensor with the modes {', '.join(self.tensor.mode_names)}")


class NewLabelsError(InputError):
    """A source has labels that `like` does not have: `labels` has them by mode, each with its number of rows."""

    def __init__(self, source: str, labels: dict[str, dict[str, int]]) -> None:
        shown = []
        for mode, rows_of in labels.items():
            names = [f"{label!r} ({plural(rows, 'row')})" for label, rows in rows_of.items()]
            shown.append(f"in {mode} {first_few(names)}")
        self.found = f"has labels that `like` does not have: {'; '.join(shown)}"
        advice = "set `new_labels` to 'append' to append them, or to 'drop' to drop their rows"
        super().__init__("source", source, f"{self.found}; {advice}")
        self.labels = labels

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.labels)

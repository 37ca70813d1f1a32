"""`like=` of `read_events`: modes, labels and frequency as in another tensor, and what becomes of labels it lacks."""

from dataclasses import dataclass, replace

from allocore.data.calendar_labels import frequency_of, period_form
from allocore.data.cameo import other_spellings, respelt
from allocore.data.display import plural
from allocore.data.events.event_cells import EventCells
from allocore.data.events.formats import Mode
from allocore.data.events.sources import listed
from allocore.data.missing_diagonals import missing_diagonals
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

_LISTED = 6


@dataclass(frozen=True)
class LabelTemplate:
    """A tensor that decides the modes and labels of another, and what to do about labels that it does not have."""

    tensor: CountTensor
    new_labels: str

    def modes(self, chosen: tuple[Mode, ...]) -> tuple[Mode, ...]:
        """Return the modes in the order of the tensor; the one whose labels there are periods is the mode of time."""
        by_name = {mode.name: mode for mode in chosen}
        names = self.tensor.mode_names
        if set(by_name) != set(names):
            raise InputError(
                f"like= has the modes {', '.join(names)}, but the events have {', '.join(by_name)}: give modes=, a "
                "dict from the modes of like= to columns"
            )
        times = [name for name in names if by_name[name].kind == "time"] or self._times(by_name)
        if len(times) > 1:
            raise InputError(f"like= has periods of time in the modes {', '.join(times)}: choose one with time=")
        modes = tuple(replace(by_name[name], kind="time") if name in times else by_name[name] for name in names)
        for mode, labels in zip(modes, self.tensor.labels, strict=True):
            if isinstance(labels, range):
                raise InputError(f"like= has no labels in mode {mode.name!r}: labels are needed to match its rows")
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
            raise InputError(f"like= has no periods of time in mode {name!r}: its labels are {listed(labels, _LISTED)}")
        own = frequency_of(labels)
        if own is None and freq is None:
            raise InputError(f"like= has the periods {listed(labels, _LISTED)}, whose length is not clear: give freq=")
        if own is not None and freq not in (None, own):
            raise InputError(f"freq is {freq!r}, but like= has periods of one {own}, like {labels[0]!r}")
        return own or freq

    def shared(self, given: tuple[str, ...], diagonal: str) -> tuple[str, ...]:
        """Return the modes that share their labels: those given, or those whose diagonal is missing in the tensor."""
        diagonals = [tuple(self.tensor.mode_names[mode] for mode in modes) for modes in missing_diagonals(self.tensor)]
        shared = given or max(diagonals, key=len, default=())
        if len({self.labels(name) for name in shared}) > 1:
            raise InputError(f"like= has different labels in {' and '.join(shared)}, but these modes share one list")
        if shared and diagonal == "missing" and not any(set(shared) <= set(each) for each in diagonals):
            raise InputError(
                f"diagonal is 'missing', but in like= the diagonal of {' and '.join(shared)} is not missing: give "
                "diagonal='keep' or 'drop', as when like= was made"
            )
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

    def new_in(
        self, cells: EventCells, labels: list[list[str]], modes: tuple[Mode, ...], condition: str
    ) -> dict[str, dict[str, int]]:
        """Return for each mode the new labels that rows have, with the number of these rows, the largest first.

        Only cells that meet the condition, which is SQL, are looked at.
        """
        found = {}
        for place, mode in enumerate(modes):
            if mode.kind == "time":
                continue
            rows = cells.rows_by_label(place, len(labels[place]), condition)
            new = [(int(rows[n]), labels[place][n]) for n in range(len(self.labels(mode.name)), len(rows)) if rows[n]]
            if new:
                found[mode.name] = {label: number for number, label in sorted(new, key=lambda each: -each[0])}
        return found


def refused(new: dict[str, dict[str, int]], name: str) -> InputError:
    """Return the error that lists the new labels of a source."""
    each = []
    for mode, labels in new.items():
        shown = [f"{label!r} ({plural(number, 'row')})" for label, number in labels.items()]
        each.append(f"in {mode} {listed(shown, _LISTED)}")
    return InputError(
        f"{name} has labels that like= does not have: {'; '.join(each)}; new_labels='append' appends them, 'drop' "
        "drops their rows"
    )

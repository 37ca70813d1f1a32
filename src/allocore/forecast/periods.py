"""The mode of time of a run, its past periods, and the periods to come: what a forecast is about, before any number."""

from dataclasses import dataclass
from datetime import date

import numpy as np

from allocore.errors import NO_VALUE, InputError, whole_number
from allocore.findings import Finding
from allocore.forecast.time_factors import Periods
from allocore.tensor.calendar import next_periods, period_form, period_numbers, periods_per_year
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, missing_diagonals, trusted_tensor
from allocore.tensor.labels import ModeLabels, label_kind
from allocore.tensor.missing import WILDCARD, Missing

_LEAST_PERIODS = 3
_CYCLES_FOR_AUTO = 3
_CYCLES_IF_ASKED = 2
_COMPLETE = 0.9  # of a period must be covered by events for it to count as complete


@dataclass(frozen=True)
class Coming:
    """The mode of time, its past, and the labels of the coming periods; `year` is the number of periods in a year."""

    mode: int
    past: Periods
    labels: tuple[str, ...]
    year: int | None
    findings: tuple[Finding, ...]


def coming_periods(tensor: CountTensor, horizon: object, mode: str | int | None, season: object) -> Coming:
    """Find the mode of time and name the coming periods. Raises an error if they cannot be forecast."""
    steps, place = whole_number("horizon", horizon), _mode_of_time(tensor, mode)
    labels, name = tensor.labels[place], tensor.mode_names[place]
    coming, numbers = next_periods(labels, steps), period_numbers(labels)
    if coming is None or numbers is None:
        raise InputError(
            "mode",
            name,
            f"must have increasing periods of time as labels, such as 2013-11, 2013-12, or whole numbers, but it has "
            f"labels such as {labels[-1]!r}; Y.with_labels renames them",
        )
    observed_T = tensor.missing.observed_rows(place)
    if not observed_T[-1]:
        raise InputError(
            "mode", name, f"must have an observed last period, but {labels[-1]} is missing; fit without that period"
        )
    if observed_T.sum() < _LEAST_PERIODS:
        raise InputError(
            "mode", name, f"must have at least {_LEAST_PERIODS} observed periods; it has {observed_T.sum()}"
        )
    year = periods_per_year(labels)
    past = Periods(np.array(numbers), observed_T, _cycle(season, year, numbers[-1] + 1, name))
    return Coming(place, past, tuple(coming), year, _cut_off(tensor, labels))


def _mode_of_time(tensor: CountTensor, mode: str | int | None) -> int:
    if mode is not None:
        return tensor.mode(mode)
    found = [m for m, labels in enumerate(tensor.labels) if label_kind(labels) == "time"]
    if len(found) == 1:
        return found[0]
    names = ", ".join(tensor.mode_names)
    if not found:
        rule = "must name the mode of time, because no labels are periods such as 2013-11, 2013-12"
        raise InputError("mode", NO_VALUE, f"{rule}; the modes are {names}")
    several = " and ".join(repr(tensor.mode_names[m]) for m in found)
    raise InputError("mode", NO_VALUE, f"must name the mode of time, because {several} all have periods as labels")


def _cycle(season: object, year: int | None, periods: int, name: str) -> int | None:
    """The length of the season: the given one, or a year if the data have at least three of them."""
    if season is None:
        return None
    if isinstance(season, str) and season == "auto":
        return year if year is not None and periods >= _CYCLES_FOR_AUTO * year else None
    if isinstance(season, str):
        raise InputError("season", season, "must be 'auto', None or a whole number of periods")
    length = whole_number("season", season, least=2)
    if periods < _CYCLES_IF_ASKED * length:
        raise InputError(
            "season", length, f"must fit at least {_CYCLES_IF_ASKED} times into the {periods} periods of mode {name!r}"
        )
    return length


def _cut_off(tensor: CountTensor, labels: ModeLabels) -> tuple[Finding, ...]:
    """A warning if the events that a tensor was read from end well before the last period does."""
    if tensor.report is None or tensor.report.dates is None or period_form(labels) is None:
        return ()
    following = next_periods(labels, 1) or []
    try:
        first, stop = (_first_day(str(label)) for label in (labels[-1], *following))
        last = date.fromisoformat(tensor.report.dates[1])
    except ValueError:
        return ()
    if not first <= last < stop or (last - first).days + 1 >= _COMPLETE * (stop - first).days:
        return ()
    return (Finding("last-period-cut-off", "caution", {"period": str(labels[-1]), "last_event": str(last)}),)


def _first_day(label: str) -> date:
    """The day on which a period begins."""
    year, rest = int(label[:4]), label[5:]
    if rest.startswith("Q"):
        return date(year, 3 * int(rest[1]) - 2, 1)
    if rest.startswith("W"):
        return date.fromisocalendar(year, int(rest[1:]), 1)
    return date(year, 1, 1) if not rest else date.fromisoformat(label if len(label) > 7 else f"{label}-01")


def future_tensor(tensor: CountTensor, coming: Coming) -> CountTensor:
    """A tensor of the coming periods, without counts.

    Self-loops are missing if they were missing in the past. Other missing cells, such as a held-out set, are forecast.
    """
    mode, horizon = coming.mode, len(coming.labels)
    shape = (*tensor.shape[:mode], horizon, *tensor.shape[mode + 1 :])
    labels = (*tensor.labels[:mode], coming.labels, *tensor.labels[mode + 1 :])
    patterns = []
    for modes in missing_diagonals(tensor):
        diagonal = np.full((shape[modes[0]], len(shape)), WILDCARD)
        diagonal[:, list(modes)] = np.arange(shape[modes[0]])[:, None]
        patterns.append(diagonal)
    missing = Missing(np.concatenate(patterns), shape) if patterns else Missing.none(shape)
    nothing = np.zeros((len(shape), 0), dtype=np.int64)
    parts = CanonicalParts(nothing, np.zeros(0, dtype=np.int64), shape, tensor.mode_names, labels, missing)
    return trusted_tensor(parts)

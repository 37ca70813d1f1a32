"""The mode of time of a run, its past periods, and the periods to come: what a forecast is about, before any number."""

from dataclasses import dataclass
from datetime import date

import numpy as np

from allocore.data.calendar_labels import period_form
from allocore.data.labels import ModeLabels
from allocore.data.missing import WILDCARD, Missing
from allocore.data.missing_diagonals import missing_diagonals
from allocore.data.next_periods import next_periods, period_numbers, periods_per_year
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import CanonicalParts
from allocore.errors import InputError, whole_number
from allocore.posterior.forecasts.time_factors import Periods
from allocore.posterior.label_kinds import label_kind

_LEAST_PERIODS = 3
_CYCLES_FOR_AUTO = 3
_CYCLES_IF_ASKED = 2
_WHOLE = 0.9  # a period whose events reach so far is taken for a whole one


@dataclass(frozen=True)
class Coming:
    """The mode of time, its past, and the labels of the coming periods; `year` is the number of periods in a year."""

    mode: int
    past: Periods
    labels: tuple[str, ...]
    year: int | None
    warnings: tuple[str, ...]


def coming_periods(tensor: CountTensor, horizon: object, mode: str | int | None, season: object) -> Coming:
    """Find the mode of time and name the coming periods, or raise an error that says why they cannot be forecast."""
    steps, place = whole_number("horizon", horizon), _mode_of_time(tensor, mode)
    labels, name = tensor.labels[place], tensor.mode_names[place]
    coming, numbers = next_periods(labels, steps), period_numbers(labels)
    if coming is None or numbers is None:
        raise InputError(
            f"mode {name!r} has labels such as {labels[-1]!r}, but to name the periods that come next, labels must be "
            "rising periods of time, such as 2013-11, 2013-12 (Y.with_labels renames them), or whole numbers"
        )
    observed_T = tensor.missing.observed_rows(place)
    if not observed_T[-1]:
        raise InputError(
            f"the last period of mode {name!r}, {labels[-1]}, was not observed: forecast from a fit without it"
        )
    if observed_T.sum() < _LEAST_PERIODS:
        raise InputError(
            f"mode {name!r} has {observed_T.sum()} observed periods, but a forecast needs at least {_LEAST_PERIODS}"
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
        raise InputError(
            "no mode has periods of time, such as 2013-11, 2013-12, as labels: name the mode of time with mode "
            f"(--mode); modes are {names}"
        )
    several = " and ".join(repr(tensor.mode_names[m]) for m in found)
    raise InputError(f"the modes {several} all have periods of time as labels: name one with mode (--mode)")


def _cycle(season: object, year: int | None, periods: int, name: str) -> int | None:
    """The length of the season: what was asked for, or a year if the data have at least three of them."""
    if season is None:
        return None
    if isinstance(season, str) and season == "auto":
        return year if year is not None and periods >= _CYCLES_FOR_AUTO * year else None
    if isinstance(season, str):
        raise InputError(f"season is {season!r}, but it must be 'auto', None or a whole number of periods")
    length = whole_number("season", season, least=2)
    if periods < _CYCLES_IF_ASKED * length:
        raise InputError(
            f"season is {length}, but mode {name!r} has {periods} periods: a season needs at least two cycles, "
            f"{_CYCLES_IF_ASKED * length} periods"
        )
    return length


def _cut_off(tensor: CountTensor, labels: ModeLabels) -> tuple[str, ...]:
    """A hint if the events that a tensor was read from end before the last period does."""
    if tensor.report is None or tensor.report.dates is None or period_form(labels) is None:
        return ()
    following = next_periods(labels, 1) or []
    try:
        first, stop = (_first_day(str(label)) for label in (labels[-1], *following))
        last = date.fromisoformat(tensor.report.dates[1])
    except ValueError:
        return ()
    if not first <= last < stop or (last - first).days + 1 >= _WHOLE * (stop - first).days:
        return ()
    return (
        f"The last period, {labels[-1]}, may be cut off: the last event is of {last}. If so, fit without it "
        f"(Y.select), or the forecast begins too low.",
    )


def _first_day(label: str) -> date:
    """The day on which a period begins."""
    year, rest = int(label[:4]), label[5:]
    if rest.startswith("Q"):
        return date(year, 3 * int(rest[1]) - 2, 1)
    if rest.startswith("W"):
        return date.fromisocalendar(year, int(rest[1:]), 1)
    return date(year, 1, 1) if not rest else date.fromisoformat(label if len(label) > 7 else f"{label}-01")


def future_tensor(tensor: CountTensor, coming: Coming) -> CountTensor:
    """A tensor of the coming periods, without counts. Self-loops are missing if they are missing in the past.

    Whatever else was missing in the past, such as a held-out set, is to be forecast.
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
    return CountTensor._trusted(parts)

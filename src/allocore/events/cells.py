"""From the view `events` to the cells of a tensor: labels for texts, periods for dates, then one sum over all rows.

The cells are in a table that duckdb keeps on disk, however many there are:

    c0, c1, ..    the position of the cell in each mode
    total         the sum of the counts of its rows; it may be 0
    number        how many rows it has

The cells leave the table only when the tensor is made, in memory or in shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from duckdb import DuckDBPyConnection as Connection

from allocore._text import first_few, plural
from allocore.errors import NO_VALUE, Described, InputError
from allocore.events.coverage import days_apart, incomplete_periods
from allocore.events.formats import Mode, TextKind
from allocore.events.loading import LoadedRows, RowSelection
from allocore.findings import Finding
from allocore.tensor import cameo
from allocore.tensor.calendar import frequency_of, period_form, periods, weights_by_days
from allocore.tensor.coordinates import Int64s, check_total
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, missing_diagonals
from allocore.tensor.countries import is_region, resolve
from allocore.tensor.labels import check_labels, check_mode_names, fit_labels, rows_of, sorted_labels
from allocore.tensor.missing import WILDCARD, Missing, nothing_left
from allocore.tensor.sharded import NO_CELLS, TableTensor
from allocore.tensor.sql import fetched, literal

_VALID = "keep AND bad_time IS NULL AND bad_n IS NULL"
_ROOTS = {code: cameo.code_label(code) for code in cameo.ROOTS}
_FIXED: dict[TextKind, dict[str, str]] = {
    "cameo": _ROOTS,
    "root": _ROOTS,
    "plover": {name.upper(): name for name in cameo.PLOVER},
    "violence": {"1": "state-based conflict", "2": "non-state conflict", "3": "one-sided violence"},
}


@dataclass
class RowTally:
    """What became of the rows."""

    rows: int = 0
    pairs: int = 0  # rows after each row with lists of actors became one row per pair
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    diagonal: int = 0
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)
    dates: tuple[str, str] | None = None
    new_labels: dict[str, dict[str, int]] = field(default_factory=dict)
    empty_periods: tuple[str, ...] = ()
    incomplete: dict[str, tuple[int, int]] = field(default_factory=dict)
    exposures: dict[str, float] = field(default_factory=dict)
    days_apart: int | None = None
    unobserved: int = 0
    findings: list[Finding] = field(default_factory=list)

    def drop(self, reason: str, rows: int) -> None:
        """Count rows as dropped that were kept so far."""
        if rows:
            self.dropped[reason] = rows
            self.kept -= rows

    def check_rows_left(self, source: str) -> None:
        """Raise an InputError if no row is left."""
        if not self.kept:
            each = [f"{rows:,} dropped ({reason})" for reason, rows in self.dropped.items()]
            rule = (
                f"has {plural(self.rows, 'row')}, but none is left for the tensor: {', '.join(each) or 'it is empty'}"
            )
            raise InputError("source", source, rule)


@dataclass(frozen=True)
class CellOptions:
    """How rows become cells."""

    freq: str
    shared: tuple[str, ...]  # modes that share one list of labels
    diagonal: str
    min_count: int
    unobserved: object = None  # periods that are missing
    incomplete: str = "keep"
    by_days: bool = False  # whether the weights of all periods are their days
    like: LabelTemplate | None = None
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)  # for modes whose columns have ordered labels
    undirected: tuple[int, int] | None = None  # modes whose order means nothing


def count_rows(
    connection: Connection, selection: RowSelection, options: CellOptions, loaded: LoadedRows
) -> tuple[TableTensor, RowTally]:
    """Return the tensor of all valid rows, whose cells are in a table, and what became of the other rows."""
    tally = RowTally(loaded.rows.total(), loaded.pairs)
    _leave_out_duplicates(connection, selection, tally)
    cells = EventCells(connection, selection, options, tally)
    if loaded.lost:
        tally.dropped["line that is not a row"] = loaded.lost
        tally.rows, tally.pairs = tally.rows + loaded.lost, tally.pairs + loaded.lost
    tally.check_rows_left(loaded.source)
    if options.like is None:
        cells.leave_out_rare_labels()
    else:
        cells.leave_out_new_labels(options.like)
        if tally.new_labels and options.like.new_labels == "error":
            raise NewLabelsError(loaded.source, tally.new_labels)
    tally.check_rows_left(loaded.source)
    known = tally.kept + sum(tally.dropped.values()) + tally.duplicates
    if known != tally.pairs:
        rule = f"has {tally.pairs:,} rows, but {known:,} are accounted for: please report this"
        raise InputError("source", NO_VALUE, rule)
    tally.diagonal = cells.rows(_on_diagonal(cells.diagonal))
    if tally.diagonal == tally.kept:
        rule = "has only events of actors with themselves; set `diagonal` to 'keep' to count these"
        raise InputError("source", loaded.source, rule)
    return _table_tensor(cells, cells.unobserved_periods()), tally


def _leave_out_duplicates(connection: Connection, selection: RowSelection, tally: RowTally) -> None:
    """Make the view `chosen`: `events` without rows about the same event on the same day."""
    if not selection.keys:
        connection.execute("CREATE TEMP VIEW chosen AS SELECT * FROM events")
        return
    keys = [f"k{place}" for place in range(len(selection.keys))]
    for place, mode in enumerate(selection.modes):
        if mode.kind == "time":
            keys.append(f"CAST(m{place} AS DATE)")
        elif selection.lists and mode.kind == "country":  # rows made from one event by its lists are no duplicates
            keys.append(f"m{place}")
    # In any order of the rows, the same one stays: that with the largest count, then that with the first labels.
    order = ", ".join(["n DESC", *(f"m{place}" for place in range(len(selection.modes)))])
    connection.execute(
        f"CREATE TEMP TABLE chosen AS "
        f"(SELECT DISTINCT ON ({', '.join(keys)}) * FROM events WHERE {_VALID} ORDER BY {order}) "
        f"UNION ALL SELECT * FROM events WHERE NOT ({_VALID})"
    )
    tally.duplicates = tally.pairs - fetched(connection, "SELECT count(*) FROM chosen")


class NewLabelsError(InputError):
    """A source has labels that `like` does not have: `labels` has them by mode, each with its number of rows."""

    def __init__(self, source: str, labels: dict[str, dict[str, int]]) -> None:
        shown = []
        for mode, counted in labels.items():
            names = [f"{label!r} ({plural(rows, 'row')})" for label, rows in counted.items()]
            shown.append(f"in {mode} {first_few(names)}")
        rule = f"has labels that `like` does not have: {'; '.join(shown)}"
        advice = "set `new_labels` to 'append' to append them, or to 'drop' to drop their rows"
        super().__init__("source", source, f"{rule}; {advice}")
        self.labels = labels

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.labels)


def _label_of(kind: TextKind, text: str) -> str | None:
    match kind:
        case "country":
            country = resolve(text)
            return country.name if country else None
        case "cameo":  # a code, or the words that ICEWS uses for it: one of its files lacks the codes
            root = cameo.root_of(cameo.restore(text)[0]) or cameo.root_of(cameo.code_of_text(text) or "")
            return _ROOTS[root] if root else None
        case "root":  # 01 to 20, or 1 to 20 as in TERRIER
            number = text.removesuffix(".0")
            return _ROOTS.get(number.zfill(2)) if number.isdecimal() else None
        case "plover" | "violence":
            return _FIXED[kind].get(text.upper())
    return text


def _vocabulary(kind: TextKind, labels: set[str], order: tuple[str, ...]) -> list[str]:
    """Return all labels of a mode in order: a fixed list, the `order` given, or sorted as numbers, dates or texts."""
    if kind in _FIXED:
        return list(_FIXED[kind].values())
    if kind == "plain" and order:
        first = [label for label in dict.fromkeys(order) if label in labels]
        return [*first, *sorted(labels.difference(first))]
    return sorted_labels(labels, calendar=kind == "plain")


@dataclass(frozen=True)
class LabelTemplate:
    """`like`: a tensor that decides the modes, labels and periods of another, and what to do with new labels."""

    tensor: CountTensor
    new_labels: str

    def modes(self, chosen: tuple[Mode, ...]) -> tuple[Mode, ...]:
        """Return the modes in the order of the tensor; the one whose labels there are periods is the mode of time."""
        by_name = {mode.name: mode for mode in chosen}
        labels = dict(zip(self.tensor.mode_names, self.tensor.labels, strict=True))
        if set(by_name) != set(labels):
            rule = f"must be a dict from the modes of `like` ({', '.join(labels)}) to columns"
            raise InputError("modes", list(by_name), rule)
        times = [name for name in labels if by_name[name].kind == "time"]
        times = times or [name for name in labels if by_name[name].kind == "plain" and period_form(labels[name])]
        if len(times) > 1:
            rule = f"must be given, because `like` has periods of time in the modes {', '.join(times)}"
            raise InputError("time", NO_VALUE, rule)
        for name, of_mode in labels.items():
            if isinstance(of_mode, range):
                raise InputError("like", self._shown, f"must have labels in mode {name!r}, to match the rows")
        return tuple(replace(by_name[name], kind="time") if name in times else by_name[name] for name in labels)

    def frequency(self, freq: str | None, modes: tuple[Mode, ...]) -> str | None:
        """Return the length of the tensor's periods."""
        name = next((mode.name for mode in modes if mode.kind == "time"), None)
        if name is None:
            return freq
        labels = self.labels(name)
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

    @property
    def undirected(self) -> tuple[str, ...] | None:
        """The modes of undirected ties."""
        pair = self.tensor.undirected_modes
        return None if pair is None else tuple(self.tensor.mode_names[mode] for mode in pair)

    def shared(self, given: tuple[str, ...], diagonal: str, pair: tuple[int, int] | None) -> tuple[str, ...]:
        """Return the modes that share their labels: those given, or those whose diagonal is missing in the tensor."""
        if pair != self.tensor.undirected_modes:
            rule = "must be None or the modes between which ties are undirected in `like`"
            raise InputError("undirected", list(given), rule)
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

    def spellings(self, name: str, found: list[str]) -> dict[str, str]:
        """Return the found labels of a mode as the tensor spells them: CAMEO codes with or without their words."""
        spelt = dict(zip(found, cameo.respelt(found, self.labels(name)), strict=True))
        if not any(" " in label and " " not in other for label, other in spelt.items()):
            return spelt
        bare = {label: next(iter(cameo.other_spellings(label)), label) for label in found if spelt[label] == label}
        return spelt | {label: code for label, code in bare.items() if code not in spelt.values()}

    @property
    def _shown(self) -> Described:
        return Described(f"a tensor with the modes {', '.join(self.tensor.mode_names)}")


class EventCells:
    """The table `cells` of a connection, and the labels of its modes. Leaving out labels changes both."""

    def __init__(self, connection: Connection, selection: RowSelection, options: CellOptions, tally: RowTally) -> None:
        self.connection, self.modes, self.time = connection, selection.modes, selection.time
        self._options, self._tally = options, tally
        self._shared = [place for place, mode in enumerate(self.modes) if mode.name in options.shared]
        self.undirected = options.undirected
        self.diagonal = self._shared if options.diagonal == "missing" else []  # modes whose diagonal is missing
        self.labels: list[list[str]] = []
        self._unobserved: set[str] = set()  # periods
        self._label_modes()
        self._sum_up()

    def _label_modes(self) -> None:
        """Make a table `map0`, `map1`, .. of texts and positions for each mode, and set all labels."""
        rows = {place: self._texts(place) for place in range(len(self.modes)) if place != self.time}
        readings = {place: self._read_labels(place, list(rows[place])) for place in rows}
        orders = {place: self._options.orders.get(self.modes[place].name, ()) for place in rows}
        shared = {label for place in self._shared for label in readings[place][0].values()}
        shared_order = tuple(label for place in self._shared for label in orders[place])
        for place, mode in enumerate(self.modes):
            if place == self.time:
                self.labels.append(self._label_periods(place))
                continue
            labels, unknown = readings[place]
            own = set(labels.values()), tuple(labels.get(text, text) for text in orders[place])
            found = _vocabulary(mode.kind, *((shared, shared_order) if place in self._shared else own))
            if like := self._options.like:
                spelt = like.spellings(mode.name, found)
                labels = {text: spelt.get(label, label) for text, label in labels.items()}
                found = list(dict.fromkeys((*like.labels(mode.name), *spelt.values())))
            self.labels.append(found)
            self._write_map(place, labels, unknown)
            if unknown:
                counted = sorted((-rows[place][text], text) for text in unknown)
                self._tally.unknown[mode.name] = {text: -number for number, text in counted}
            repaired = [text for text in labels if mode.kind == "cameo" and cameo.restore(text)[1]]
            if repaired:
                self._tally.repaired[mode.name] = sum(rows[place][text] for text in repaired)

    def _texts(self, place: int) -> dict[str, int]:
        rows = self.connection.execute(
            f"SELECT m{place}, count(*) FROM chosen WHERE {_VALID} AND m{place} IS NOT NULL GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        return {text: int(number) for text, number in rows}

    def _read_labels(self, place: int, texts: list[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the labels of the texts of a mode, and why other texts have none."""
        mode = self.modes[place]
        with_words = cameo.labels_of_codes(mode.column, texts) if mode.codes else None
        if with_words is not None:
            return with_words, {}
        if mode.codes and all(text.isdecimal() for text in texts):
            values = {"mode": mode.name, "column": mode.column}
            self._tally.findings.append(Finding("codes-without-words", "note", values))
        labels, unknown = {}, {}
        for text in texts:
            label = _label_of(mode.kind, text)
            if label is not None:
                labels[text] = label
            else:
                is_of_region = mode.kind == "country" and is_region(text)
                unknown[text] = "region, not a country" if is_of_region else f"unknown {mode.name}"
        return labels, unknown

    def _write_map(self, place: int, labels: dict[str, str], unknown: dict[str, str]) -> None:
        places = {label: number for number, label in enumerate(self.labels[place])}
        known = [places[label] for label in labels.values()]
        frame = pd.DataFrame(
            {
                "text": pd.Series([*labels, *unknown], dtype=object),
                "place": np.array([*known, *(-1 for _ in unknown)], dtype=np.int64),
                "why": pd.Series([*(None for _ in known), *unknown.values()], dtype=object),
            }
        )
        self.connection.register("new_map", frame)
        self.connection.execute(
            f"CREATE TEMP TABLE map{place} AS SELECT text::VARCHAR AS text, place, why::VARCHAR AS why FROM new_map"
        )
        self.connection.unregister("new_map")

    def _label_periods(self, place: int) -> list[str]:
        freq = self._options.freq
        period = f"date_trunc('{freq}', m{place})"
        begin, end, first, last = self.connection.execute(
            f"SELECT min(m{place}), max(m{place}), min({period}), max({period}) FROM chosen WHERE {_VALID}"
        ).fetchall()[0]
        if begin is None:
            self.connection.execute(f"CREATE TEMP TABLE map{place} (text TIMESTAMP, place BIGINT, why VARCHAR)")
            return ["none"]
        # A moment with a time is an hour, and is written as the label of that hour.
        written = [f"{each:%Y-%m-%d %H:%M}" if isinstance(each, datetime) else str(each) for each in (begin, end)]
        self._tally.dates = written[0], written[1]
        labels = periods(first, last, freq)
        if self._options.unobserved is not None:
            chosen = rows_of(tuple(labels), self._options.unobserved, "unobserved", self.modes[place].name)
            self._unobserved = {labels[row] for row in np.asarray(chosen).tolist()}
        whole = self._complete_periods(place, labels)
        self._tally.exposures = self._weights(labels[whole.start : whole.stop])
        number = f"date_diff('{freq}', {literal(str(first))}::TIMESTAMP, {period}::TIMESTAMP) - {whole.start}"
        self.connection.execute(
            f"CREATE TEMP TABLE map{place} AS SELECT text, place, "
            f"CASE WHEN place NOT BETWEEN 0 AND {len(whole) - 1} THEN 'in an incomplete period' END AS why "
            f"FROM (SELECT DISTINCT m{place} AS text, {number} AS place FROM chosen WHERE m{place} IS NOT NULL)"
        )
        return labels[whole.start : whole.stop]

    def _complete_periods(self, place: int, labels: list[str]) -> range:
        """Note the incomplete periods, and return the rows of those to keep: all, or those between incomplete ones."""
        everything = range(len(labels))
        if self._options.freq in ("hour", "day"):
            return everything
        rows = dict(
            self.connection.execute(
                f"SELECT CAST(m{place} AS DATE) AS day, count(*) FROM chosen WHERE {_VALID} AND m{place} IS NOT NULL "
                "GROUP BY day ORDER BY day"
            ).fetchall()
        )
        like = self._options.like.tensor.report if self._options.like else None
        apart = days_apart(list(rows)) or (like.days_apart if like else None)
        found = incomplete_periods(labels, self._options.freq, rows, apart)
        found = {label: days for label, days in found.items() if label not in self._unobserved}
        self._tally.days_apart = apart
        if not found:
            return everything
        how = self._options.incomplete
        days = {label: list(days) for label, days in found.items()}
        values = {"periods": days, "dropped": how == "drop", "weighed": how == "exposure"}
        self._tally.findings.append(Finding("incomplete-periods", "note" if how == "exposure" else "caution", values))
        if how != "drop":
            self._tally.incomplete = found
            if how == "exposure":  # without a day there is nothing to weigh
                self._unobserved |= {label for label, (observed, _) in found.items() if not observed}
            return everything
        complete = [row for row in everything if labels[row] not in found]
        if not complete:
            raise InputError("incomplete", "drop", f"would leave no period: all {len(labels)} may be incomplete")
        self._unobserved |= found.keys()
        return range(complete[0], complete[-1] + 1)

    def _weights(self, labels: list[str]) -> dict[str, float]:
        """The weights of the periods by their days, all or those of the incomplete ones; none if not asked for."""
        if self._options.incomplete != "exposure" and not self._options.by_days:
            return {}
        weights = weights_by_days(labels, self._options.freq) if self._options.by_days else dict.fromkeys(labels, 1.0)
        parts = {label: observed / days for label, (observed, days) in self._tally.incomplete.items() if observed}
        return {label: weight * parts.get(label, 1.0) for label, weight in weights.items()}

    def _sum_up(self) -> None:
        """Make the table of cells in one pass over the rows, and count the rows that are dropped, by reason."""
        maps = range(len(self.modes))
        joins = " ".join(f"LEFT JOIN map{place} ON map{place}.text = chosen.m{place}" for place in maps)
        found = ", ".join(f"map{place}.place AS place{place}" for place in maps)
        places = {place: f"place{place}" for place in maps}
        if self._options.undirected is not None:
            first, second = self._options.undirected
            ends = f"place{first}, place{second}"
            places |= {first: f"least({ends})", second: f"greatest({ends})"}
        columns = ", ".join(f"CASE WHEN reason IS NULL THEN {places[m]}::INTEGER END AS c{m}" for m in maps)
        self.connection.execute(
            f"CREATE TABLE cells AS SELECT {columns}, reason, count(*) AS number, "
            "CAST(sum(CASE WHEN reason IS NULL THEN n END) AS BIGINT) AS total "
            f"FROM (SELECT {self._reason()} AS reason, n, {found} FROM chosen {joins}) GROUP BY ALL"
        )
        rows = self.connection.execute(
            "SELECT reason, sum(number)::BIGINT AS rows FROM cells GROUP BY reason ORDER BY rows DESC, reason"
        ).fetchall()
        self._tally.dropped = {reason: number for reason, number in rows if reason is not None}
        self._tally.kept = sum(number for reason, number in rows if reason is None)
        self.connection.execute("DELETE FROM cells WHERE reason IS NOT NULL")

    def _reason(self) -> str:
        cases = [
            "WHEN bad_number IS NOT NULL THEN 'no number for where'",
            "WHEN NOT keep THEN 'left out by where'",
            "WHEN bad_time IS NOT NULL THEN 'unreadable time'",
            "WHEN bad_n IS NOT NULL THEN 'count that is not a whole number'",
        ]
        cases += [f"WHEN m{place} IS NULL THEN {literal(f'no {mode.name}')}" for place, mode in enumerate(self.modes)]
        cases += [f"WHEN map{place}.why IS NOT NULL THEN map{place}.why" for place in range(len(self.modes))]
        if self._shared and self._options.diagonal == "drop":
            first, *others = self._shared
            same = " AND ".join(f"map{place}.place = map{first}.place" for place in others)
            cases.append(f"WHEN {same} THEN {literal(' = '.join(self._options.shared))}")
        return f"CASE {' '.join(cases)} END"

    def rows(self, condition: str) -> int:
        """Return the number of rows of the cells that meet a condition."""
        return int(fetched(self.connection, f"SELECT coalesce(sum(number), 0) FROM cells WHERE {condition}"))

    def _rows_by_label(self, mode: int, condition: str = "true") -> Int64s:
        found = self.connection.execute(
            f"SELECT c{mode} AS place, CAST(sum(number) AS BIGINT) AS rows FROM cells WHERE {condition} GROUP BY ALL"
        ).fetchnumpy()
        rows = np.zeros(len(self.labels[mode]), dtype=np.int64)
        rows[found["place"]] = found["rows"]
        return rows

    def _drop(self, condition: str) -> int:
        """Drop the cells that meet a condition, and return how many rows they had."""
        if rows := self.rows(condition):
            self.connection.execute(f"DELETE FROM cells WHERE {condition}")
        return rows

    def _groups(self, places: Iterable[int]) -> list[list[int]]:
        """Return the modes at these places, those that share their labels together."""
        return [[place] for place in places if place not in self._shared] + ([self._shared] if self._shared else [])

    def leave_out_rare_labels(self) -> None:
        """Leave out labels with fewer than `min_count` counts, and labels whose rows were all dropped."""
        groups = self._groups(place for place, mode in enumerate(self.modes) if mode.kind in ("plain", "country"))
        least, ignored = self._options.min_count, _on_diagonal(self.diagonal)
        dropped, before = 0, -1
        while least and dropped != before:  # dropping a label takes counts from others
            before = dropped
            for group in groups:
                each = [f"SELECT c{mode} AS place, if({ignored}, 0, total) AS counted FROM cells" for mode in group]
                self.connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE rare AS SELECT place FROM ({' UNION ALL '.join(each)}) "
                    f"GROUP BY place HAVING sum(counted) < {least}"
                )
                dropped += self._drop(" OR ".join(f"c{mode} IN (SELECT place FROM rare)" for mode in group))
        self._tally.drop(f"counts below min_count {least}", dropped)
        self._relabel(groups, [0] * len(groups))

    def leave_out_new_labels(self, like: LabelTemplate) -> None:
        """Drop the rows with labels that `like` does not have; if these are appended, only labels that no row has."""
        # If new labels are an error, those on a missing diagonal are not: their rows add nothing.
        ignored = _on_diagonal(self.diagonal if like.new_labels == "error" else [])
        known = {place: len(like.labels(mode.name)) for place, mode in enumerate(self.modes) if place != self.time}
        for place, number in known.items():
            rows = self._rows_by_label(place, f"NOT ({ignored})")
            new = sorted((n for n in range(number, len(rows)) if rows[n]), key=lambda n: -rows[n])
            if new:
                self._tally.new_labels[self.modes[place].name] = {self.labels[place][n]: int(rows[n]) for n in new}
        if like.new_labels != "append":
            for place, number in known.items():
                self._tally.drop(f"new {self.modes[place].name}", self._drop(f"c{place} >= {number}"))
        groups = self._groups(known)
        self._relabel(groups, [known[group[0]] for group in groups])

    def _relabel(self, groups: list[list[int]], fixed: list[int]) -> None:
        """Leave out labels of the grouped modes that no cell has; the first `fixed` labels of each group stay."""
        moved: dict[int, str] = {}
        for number, (group, first) in enumerate(zip(groups, fixed, strict=True)):
            used = self._make_places(f"places{number}", group, first)
            if used.size < len(self.labels[group[0]]):
                moved |= dict.fromkeys(group, f"places{number}")
                for mode in group:
                    self.labels[mode] = [self.labels[mode][place] for place in used.tolist()]
        if moved:
            columns = [f"new{mode}.new AS c{mode}" if mode in moved else f"c{mode}" for mode in range(len(self.modes))]
            joins = [f"JOIN {table} AS new{mode} ON new{mode}.old = cells.c{mode}" for mode, table in moved.items()]
            self.connection.execute(
                f"CREATE OR REPLACE TABLE cells AS "
                f"SELECT {', '.join(columns)}, total, number FROM cells {' '.join(joins)}"
            )

    def _make_places(self, table: str, group: list[int], first: int) -> Int64s:
        """Make a table of the positions that stay, old and new; return the old ones, in order."""
        each = [f"SELECT c{mode} AS old FROM cells" for mode in group]
        each.append(f"SELECT CAST(range AS INTEGER) AS old FROM range({first})")
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS "
            "SELECT old, CAST(row_number() OVER (ORDER BY old) - 1 AS INTEGER) AS new "
            f"FROM (SELECT DISTINCT old FROM ({' UNION ALL '.join(each)}))"
        )
        return np.asarray(self.connection.execute(f"SELECT old FROM {table} ORDER BY old").fetchnumpy()["old"])

    def unobserved_periods(self) -> Int64s:
        """Return the periods that were not observed, and count the other periods without rows."""
        if self.time is None:
            return np.empty(0, dtype=np.int64)
        labels, rows = self.labels[self.time], self._rows_by_label(self.time)
        unobserved = np.array([label in self._unobserved for label in labels])
        empty = tuple(labels[number] for number in np.flatnonzero((rows == 0) & ~unobserved).tolist())
        self._tally.empty_periods, self._tally.unobserved = empty, int(rows[unobserved].sum())
        if empty:
            values = {"periods": len(empty), "argument": "unobserved"}
            self._tally.findings.append(Finding("empty-periods", "caution", values))
        return np.flatnonzero(unobserved)


def _on_diagonal(modes: Sequence[int]) -> str:
    """Return SQL that says whether a cell has the same position in all of these modes; false if there are no modes."""
    return " AND ".join(f"c{mode} = c{modes[0]}" for mode in modes[1:]) or "false"


def _table_tensor(cells: EventCells, unobserved: Int64s) -> TableTensor:
    """Return the tensor of the cells; those on a missing diagonal or in `unobserved` periods are missing."""
    names = check_mode_names([mode.name for mode in cells.modes], len(cells.modes))
    shape = tuple(len(each) for each in cells.labels)
    labels = fit_labels(check_labels(cells.labels, names), shape, names)
    length = shape[cells.diagonal[0]] if cells.diagonal else 0
    patterns = np.full((length + unobserved.size, len(shape)), WILDCARD, dtype=np.int64)
    patterns[:length, cells.diagonal] = np.arange(length)[:, None]
    conditions = ["total > 0", f"NOT ({_on_diagonal(cells.diagonal)})"]
    if unobserved.size:
        patterns[length:, cells.time] = unobserved
        conditions.append(f"c{cells.time} NOT IN ({', '.join(map(str, unobserved.tolist()))})")
    missing, observed = Missing(patterns, shape), " AND ".join(conditions)
    found = cells.connection.execute(
        f"SELECT coalesce(sum(total), 0), count(*) FILTER (total > 0), count(*) FILTER ({observed}), "
        f"coalesce(sum(total) FILTER ({observed}), 0) FROM cells"
    ).fetchall()
    everything, positive, nnz, total = (int(number) for number in found[0])
    if not positive:
        raise InputError("source", NO_VALUE, "has no positive counts: there is nothing to fit")
    check_total(everything)
    if not nnz:
        raise nothing_left(positive, missing)
    parts = CanonicalParts(*NO_CELLS, shape, names, labels, missing, undirected=cells.undirected)
    return TableTensor(cells.connection, observed, parts, nnz, total)

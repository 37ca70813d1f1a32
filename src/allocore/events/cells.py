"""From the view `events` to the cells of a tensor: labels for texts, periods for dates, then one sum over all rows.

The cells are in a table that duckdb keeps on disk, however many there are:

    c0, c1, ..    the position of the cell in each mode
    total         the sum of the counts of its rows; it may be 0
    number        how many rows it has

Python asks for sums and for labels. The cells leave the table only when the tensor is made, in memory or in shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore._text import plural
from allocore.errors import NO_VALUE, InputError
from allocore.events.formats import Mode
from allocore.events.labels import LabelReading, LabelTemplate, NewLabelsError, read_labels, vocabulary
from allocore.events.loading import LoadedRows, RowSelection
from allocore.findings import Finding
from allocore.tensor.calendar import periods
from allocore.tensor.cameo import labels_of_codes
from allocore.tensor.canonical import canonical, check_total, nothing_left
from allocore.tensor.coordinates import Int64s
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, top_totals, trusted_tensor
from allocore.tensor.event_report import EventReport
from allocore.tensor.fibres import fibre_order
from allocore.tensor.labels import check_labels, check_mode_names, fit_labels
from allocore.tensor.missing import WILDCARD, Missing
from allocore.tensor.select import rows_of
from allocore.tensor.sharded import ShardedTensor
from allocore.tensor.shards import write_shards
from allocore.tensor.sql import fetched, literal

if TYPE_CHECKING:
    import duckdb

_VALID = "keep AND bad_time IS NULL AND bad_n IS NULL"
_VECTORS = 512  # of 2,048 cells each: a batch


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
    unobserved: int = 0
    findings: list[Finding] = field(default_factory=list)

    def check(self) -> None:
        """Raise an InputError unless every row was kept, dropped for a reason, or left out as a duplicate."""
        known = self.kept + sum(self.dropped.values()) + self.duplicates
        if known != self.pairs:
            rule = f"has {self.pairs:,} rows, but {known:,} are accounted for: please report this"
            raise InputError("source", NO_VALUE, rule)


@dataclass(frozen=True)
class CellOptions:
    """How rows become cells."""

    freq: str
    shared: tuple[str, ...]  # modes that share one list of labels
    diagonal: str
    min_count: int
    unobserved: object = None  # periods that are missing
    like: LabelTemplate | None = None
    orders: dict[str, tuple[str, ...]] = field(default_factory=dict)  # for modes whose columns have ordered labels


def count_rows(
    connection: duckdb.DuckDBPyConnection, selection: RowSelection, options: CellOptions, loaded: LoadedRows
) -> tuple[TableTensor, RowTally]:
    """Return the tensor of all valid rows, whose cells are in a table, and what became of the other rows."""
    modes = selection.modes
    tally = RowTally(loaded.rows.total(), loaded.pairs)
    _leave_out_duplicates(connection, selection, tally)
    labels = _label_modes(connection, modes, options, tally)
    cells = _sum_up(connection, modes, options, tally)
    if loaded.lost:
        tally.dropped["line that is not a row"] = loaded.lost
        tally.rows, tally.pairs = tally.rows + loaded.lost, tally.pairs + loaded.lost
    _check_rows_left(tally, loaded)
    if options.like is None:
        labels = _without_rare(cells, labels, modes, options, tally)
    else:
        labels = _without_new(cells, labels, modes, options, options.like, tally)
        if tally.new_labels and options.like.new_labels == "error":
            raise NewLabelsError(loaded.source, tally.new_labels)
    _check_rows_left(tally, loaded)
    tally.check()
    diagonal = _missing_diagonal(modes, options)
    tally.diagonal = cells.rows(_on_diagonal(diagonal))
    if tally.diagonal == tally.kept:
        rule = "has only events of actors with themselves; set `diagonal` to 'keep' to count these"
        raise InputError("source", loaded.source, rule)
    time = next((place for place, mode in enumerate(modes) if mode.kind == "time"), None)
    unobserved = np.empty(0, dtype=np.int64)
    if time is not None:
        unobserved = _unobserved(cells, time, labels[time], modes[time].name, options, tally)
    names = [mode.name for mode in modes]
    return TableTensor(cells, names, labels, diagonal=diagonal, time=time, unobserved=unobserved), tally


def _check_rows_left(tally: RowTally, loaded: LoadedRows) -> None:
    if not tally.kept:
        reasons = ", ".join(f"{rows:,} dropped ({reason})" for reason, rows in tally.dropped.items()) or "it is empty"
        rule = f"has {plural(tally.rows, 'row')}, but none is left for the tensor: {reasons}"
        raise InputError("source", loaded.source, rule)


def _unobserved(
    cells: EventCells, time: int, labels: list[str], name: str, options: CellOptions, tally: RowTally
) -> Int64s:
    """Return the periods that were not observed, and remember those of the others that have no rows."""
    rows = cells.rows_by_label(time, len(labels))
    unobserved = np.zeros(rows.size, dtype=bool)
    if options.unobserved is not None:
        chosen = rows_of(tuple(labels), options.unobserved, "unobserved", name)
        unobserved[np.asarray(chosen, dtype=np.int64)] = True
    tally.empty_periods = tuple(labels[number] for number in np.flatnonzero((rows == 0) & ~unobserved).tolist())
    tally.unobserved = int(rows[unobserved].sum())
    if tally.empty_periods:
        values = {"periods": len(tally.empty_periods), "argument": "unobserved"}
        tally.findings.append(Finding("empty-periods", "caution", values))
    return np.flatnonzero(unobserved)


def _leave_out_duplicates(connection: duckdb.DuckDBPyConnection, selection: RowSelection, tally: RowTally) -> None:
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
    # The same row is always left, whatever the order: the one with the largest count, then with the first labels.
    order = ", ".join(["n DESC", *(f"m{place}" for place in range(len(selection.modes)))])
    connection.execute(
        f"CREATE TEMP TABLE chosen AS "
        f"(SELECT DISTINCT ON ({', '.join(keys)}) * FROM events WHERE {_VALID} ORDER BY {order}) "
        f"UNION ALL SELECT * FROM events WHERE NOT ({_VALID})"
    )
    tally.duplicates = tally.pairs - fetched(connection, "SELECT count(*) FROM chosen")


def _label_modes(
    connection: duckdb.DuckDBPyConnection, modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> list[list[str]]:
    """Make a table `map0`, `map1`, .. of texts and positions for each mode, and return all labels."""
    rows = {place: _texts(connection, place) for place, mode in enumerate(modes) if mode.kind != "time"}
    readings = {place: _read_labels(modes[place], list(rows[place]), tally) for place in rows}
    common = [place for place in readings if modes[place].name in options.shared]
    shared = {label for place in common for label in readings[place].known()}
    shared_order = tuple(label for place in common for label in options.orders.get(modes[place].name, ()))
    labels: list[list[str]] = []
    for place, mode in enumerate(modes):
        if mode.kind == "time":
            labels.append(_label_periods(connection, place, options.freq, tally))
            continue
        reading = readings[place]
        known, order = reading.known(), reading.ordered(options.orders.get(mode.name, ()))
        found = vocabulary(mode.kind, *((shared, shared_order) if mode.name in options.shared else (known, order)))
        if options.like is not None:
            spelt = options.like.spelt(mode.name, found)
            reading.respell(spelt)
            found = options.like.with_new(mode.name, list(spelt.values()))
        labels.append(found)
        _write_map(connection, place, reading, found)
        if reading.unknown:
            unknown = sorted((-rows[place][text], text) for text in reading.unknown)
            tally.unknown[mode.name] = {text: -number for number, text in unknown}
        if reading.repaired:
            tally.repaired[mode.name] = sum(rows[place][text] for text in reading.repaired)
    return labels


def _read_labels(mode: Mode, texts: list[str], tally: RowTally) -> LabelReading:
    """Return the labels of the texts of a mode. CAMEO codes have their words; if some text is none, all stay as is."""
    found = labels_of_codes(mode.column, texts) if mode.codes else None
    if found is not None:
        return LabelReading(found)
    if mode.codes and all(text.isdecimal() for text in texts):
        values = {"mode": mode.name, "column": mode.column}
        tally.findings.append(Finding("codes-without-words", "note", values))
    return read_labels(mode.kind, mode.name, texts)


def _texts(connection: duckdb.DuckDBPyConnection, place: int) -> dict[str, int]:
    """Return every text of a mode with its number of rows."""
    rows = connection.execute(
        f"SELECT m{place}, count(*) FROM chosen WHERE {_VALID} AND m{place} IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {text: int(number) for text, number in rows}


def _write_map(connection: duckdb.DuckDBPyConnection, place: int, reading: LabelReading, labels: list[str]) -> None:
    import pandas as pd

    places = {label: number for number, label in enumerate(labels)}
    known = [places[label] for label in reading.labels.values()]
    why = [None] * len(known) + list(reading.unknown.values())
    frame = pd.DataFrame(
        {
            "text": pd.Series([*reading.labels, *reading.unknown], dtype=object),
            "place": np.array([*known, *(-1 for _ in reading.unknown)], dtype=np.int64),
            "why": pd.Series(why, dtype=object),
        }
    )
    connection.register("frame_of_map", frame)
    connection.execute(
        f"CREATE TEMP TABLE map{place} AS SELECT text::VARCHAR AS text, place, why::VARCHAR AS why FROM frame_of_map"
    )
    connection.unregister("frame_of_map")


def _label_periods(connection: duckdb.DuckDBPyConnection, place: int, freq: str, tally: RowTally) -> list[str]:
    period = f"date_trunc('{freq}', m{place})"
    begin, end, first, last = (
        connection.execute(
            f"SELECT min(m{place}), max(m{place}), min({period}), max({period}) FROM chosen WHERE {_VALID}"
        ).fetchone()
        or (None,) * 4
    )
    if begin is None:
        connection.execute(f"CREATE TEMP TABLE map{place} (text TIMESTAMP, place BIGINT, why VARCHAR)")
        return ["none"]
    tally.dates = _written(begin), _written(end)
    connection.execute(
        f"CREATE TEMP TABLE map{place} AS SELECT DISTINCT m{place} AS text, NULL::VARCHAR AS why, "
        f"date_diff('{freq}', {literal(str(first))}::TIMESTAMP, {period}::TIMESTAMP) AS place "
        f"FROM chosen WHERE m{place} IS NOT NULL"
    )
    return periods(first, last, freq)


def _written(moment: date) -> str:
    """Return a day, or an hour as the label of that hour."""
    return f"{moment:%Y-%m-%d %H:%M}" if isinstance(moment, datetime) else str(moment)


def _shared_places(modes: tuple[Mode, ...], options: CellOptions) -> list[int]:
    return [place for place, mode in enumerate(modes) if mode.name in options.shared]


def _missing_diagonal(modes: tuple[Mode, ...], options: CellOptions) -> list[int]:
    """Return the modes whose diagonal is missing."""
    return _shared_places(modes, options) if options.diagonal == "missing" else []


def _reason(modes: tuple[Mode, ...], options: CellOptions) -> str:
    """Return SQL for the reason why a row is dropped; NULL if it is kept."""
    cases = ["WHEN bad_number IS NOT NULL THEN 'no number for where'", "WHEN NOT keep THEN 'left out by where'"]
    cases += ["WHEN bad_time IS NOT NULL THEN 'unreadable time'"]
    cases.append("WHEN bad_n IS NOT NULL THEN 'count that is not a whole number'")
    cases += [f"WHEN m{place} IS NULL THEN {literal(f'no {mode.name}')}" for place, mode in enumerate(modes)]
    cases += [f"WHEN map{place}.why IS NOT NULL THEN map{place}.why" for place in range(len(modes))]
    if options.shared and options.diagonal == "drop":
        first, *others = _shared_places(modes, options)
        same = " AND ".join(f"map{place}.place = map{first}.place" for place in others)
        cases.append(f"WHEN {same} THEN {literal(' = '.join(options.shared))}")
    return f"CASE {' '.join(cases)} END"


def _sum_up(
    connection: duckdb.DuckDBPyConnection, modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> EventCells:
    """Make the table of cells in one pass over the rows, and count the rows that are dropped, by reason."""
    maps = range(len(modes))
    joins = " ".join(f"LEFT JOIN map{place} ON map{place}.text = chosen.m{place}" for place in maps)
    found = ", ".join(f"map{place}.place AS place{place}" for place in maps)
    columns = ", ".join(f"CASE WHEN reason IS NULL THEN place{place}::INTEGER END AS c{place}" for place in maps)
    connection.execute(
        f"CREATE TABLE cells AS SELECT {columns}, reason, count(*) AS number, "
        "CAST(sum(CASE WHEN reason IS NULL THEN n END) AS BIGINT) AS total "
        f"FROM (SELECT {_reason(modes, options)} AS reason, n, {found} FROM chosen {joins}) GROUP BY ALL"
    )
    rows = connection.execute(
        "SELECT reason, sum(number)::BIGINT AS rows FROM cells GROUP BY reason ORDER BY rows DESC, reason"
    ).fetchall()
    tally.dropped = {reason: number for reason, number in rows if reason is not None}
    tally.kept = sum(number for reason, number in rows if reason is None)
    connection.execute("DELETE FROM cells WHERE reason IS NOT NULL")
    return EventCells(connection, len(modes))


def _without_rare(
    cells: EventCells, labels: list[list[str]], modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> list[list[str]]:
    """Leave out labels with too few counts, and labels whose rows were all dropped; return the others."""
    shared = _shared_places(modes, options)
    free = [place for place, mode in enumerate(modes) if mode.kind in ("plain", "country")]
    groups = [[place] for place in free if place not in shared] + ([shared] if shared else [])
    ignored = _on_diagonal(_missing_diagonal(modes, options))
    if dropped := cells.drop_rare(groups, options.min_count, ignored):
        tally.dropped[f"counts below min_count {options.min_count}"] = dropped
        tally.kept -= dropped
    return cells.relabel(labels, groups)


def _without_new(
    cells: EventCells,
    labels: list[list[str]],
    modes: tuple[Mode, ...],
    options: CellOptions,
    like: LabelTemplate,
    tally: RowTally,
) -> list[list[str]]:
    """Drop the rows with labels that `like` does not have, or, if these are appended, only those that no row has.

    If new labels are an error, those on a missing diagonal are not: their rows are dropped, since they add nothing.
    """
    shared = _shared_places(modes, options)
    ignored = _on_diagonal(_missing_diagonal(modes, options) if like.new_labels == "error" else [])
    known = {place: len(like.labels(mode.name)) for place, mode in enumerate(modes) if mode.kind != "time"}
    for place, number in known.items():
        rows = cells.rows_by_label(place, len(labels[place]), f"NOT ({ignored})")
        new = sorted((n for n in range(number, len(rows)) if rows[n]), key=lambda n: -rows[n])
        if new:
            tally.new_labels[modes[place].name] = {labels[place][n]: int(rows[n]) for n in new}
    if like.new_labels != "append":
        for place, number in known.items():
            if dropped := cells.drop(f"c{place} >= {number}"):
                tally.dropped[f"new {modes[place].name}"] = dropped
                tally.kept -= dropped
    groups = [[place] for place in known if place not in shared] + ([shared] if shared else [])
    return cells.relabel(labels, groups, keep=[known[group[0]] for group in groups])


@dataclass(frozen=True)
class EventCells:
    """The table `cells` of a connection. Dropping and relabelling change the table."""

    connection: duckdb.DuckDBPyConnection
    modes: int

    def rows(self, condition: str = "true") -> int:
        """Return the number of rows of the cells that meet a condition."""
        return int(fetched(self.connection, f"SELECT coalesce(sum(number), 0) FROM cells WHERE {condition}"))

    def rows_by_label(self, mode: int, length: int, condition: str = "true") -> Int64s:
        """Return the number of rows of each label of a mode, in the cells that meet a condition."""
        found = self.connection.execute(
            f"SELECT c{mode} AS place, CAST(sum(number) AS BIGINT) AS rows FROM cells WHERE {condition} GROUP BY ALL"
        ).fetchnumpy()
        rows = np.zeros(length, dtype=np.int64)
        rows[found["place"]] = found["rows"]
        return rows

    def drop(self, condition: str) -> int:
        """Drop the cells that meet a condition, and return how many rows they had."""
        if rows := self.rows(condition):
            self.connection.execute(f"DELETE FROM cells WHERE {condition}")
        return rows

    def drop_rare(self, groups: list[list[int]], least: int, ignored: str) -> int:
        """Drop the cells of labels with fewer than `least` counts, and return how many rows they had.

        The modes of a group share their labels. Dropping a label takes counts from other labels, so this is repeated
        until all labels have enough. Cells that are `ignored`, because they will be missing, add nothing to any label.
        """
        dropped, before = 0, -1
        while least and dropped != before:
            before = dropped
            for group in groups:
                each = [f"SELECT c{mode} AS place, if({ignored}, 0, total) AS counted FROM cells" for mode in group]
                self.connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE rare AS SELECT place FROM ({' UNION ALL '.join(each)}) "
                    f"GROUP BY place HAVING sum(counted) < {least}"
                )
                dropped += self.drop(" OR ".join(f"c{mode} IN (SELECT place FROM rare)" for mode in group))
        return dropped

    def relabel(
        self, labels: list[list[str]], groups: list[list[int]], keep: list[int] | None = None
    ) -> list[list[str]]:
        """Leave out those labels of the grouped modes that no cell has, and return the others.

        For each group, the first `keep` labels stay in any case.
        """
        labels = list(labels)
        moved: dict[int, str] = {}
        for number, (group, first) in enumerate(zip(groups, keep or [0] * len(groups), strict=True)):
            used = self._make_places(f"places{number}", group, first)
            if used.size < len(labels[group[0]]):
                moved |= dict.fromkeys(group, f"places{number}")
                for mode in group:
                    labels[mode] = [labels[mode][place] for place in used.tolist()]
        if moved:
            self._move(moved)
        return labels

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

    def _move(self, moved: dict[int, str]) -> None:
        """Give the cells their new positions; `moved` has for each mode that changes the table of its positions."""
        columns = [f"new{mode}.new AS c{mode}" if mode in moved else f"c{mode}" for mode in range(self.modes)]
        joins = [f"JOIN {table} AS new{mode} ON new{mode}.old = cells.c{mode}" for mode, table in moved.items()]
        self.connection.execute(
            f"CREATE OR REPLACE TABLE cells AS SELECT {', '.join(columns)}, total, number FROM cells {' '.join(joins)}"
        )


def _on_diagonal(modes: Sequence[int]) -> str:
    """Return SQL that says whether a cell has the same position in all of these modes; never, if there are none."""
    return " AND ".join(f"c{mode} = c{modes[0]}" for mode in modes[1:]) or "false"


class TableTensor:
    """A tensor whose cells are in a table of duckdb, until they are read into memory or written to shards.

    Cells on the diagonal of the modes `diagonal`, and at the positions `unobserved` of the mode `time`, are missing.
    """

    def __init__(
        self,
        cells: EventCells,
        mode_names: Sequence[str],
        labels: Sequence[Sequence[str]],
        *,
        diagonal: Sequence[int],
        time: int | None,
        unobserved: Int64s,
    ) -> None:
        self.mode_names = check_mode_names(mode_names, cells.modes)
        self.shape = tuple(len(each) for each in labels)
        self.labels = fit_labels(check_labels(labels, self.mode_names), self.shape, self.mode_names)
        self.missing = Missing(_missing_patterns(diagonal, time, unobserved, self.shape), self.shape)
        self.report: EventReport | None = None
        self._connection = cells.connection
        self._observed = _observed(diagonal, time, unobserved)
        self.nnz, self.total = self._count_cells()

    def _count_cells(self) -> tuple[int, int]:
        """Return the number of cells and the sum of their counts. Raises an InputError if none or too many are left."""
        found = self._connection.execute(
            f"SELECT coalesce(sum(total), 0), count(*) FILTER (total > 0), count(*) FILTER ({self._observed}), "
            f"coalesce(sum(total) FILTER ({self._observed}), 0) FROM cells"
        ).fetchall()
        everything, positive, nnz, total = (int(number) for number in found[0])
        if not positive:
            raise InputError("source", NO_VALUE, "has no positive counts: there is nothing to fit")
        check_total(everything)
        if not nnz:
            raise nothing_left(positive, self.missing)
        return nnz, total

    @property
    def density(self) -> float:
        """The share of the observed cells that have a positive count."""
        return self.nnz / (math.prod(self.shape) - self.missing.cells)

    def top_labels(self, mode: int, top: int) -> list[tuple[str | int, int]]:
        """Return the labels of a mode with the largest totals."""
        found = self._connection.execute(
            f"SELECT c{mode} AS place, CAST(sum(total) AS BIGINT) AS counts FROM cells WHERE {self._observed} "
            "GROUP BY ALL ORDER BY place"
        ).fetchnumpy()
        places, counts = np.asarray(found["place"], dtype=np.int64), np.asarray(found["counts"])
        return top_totals(self.labels[mode], places, counts, top)

    def in_memory(self) -> CountTensor:
        """Return the tensor with its cells in memory, where they are sorted. All else was checked before."""
        found = self._query().fetchnumpy()
        coords = np.stack([np.asarray(found[f"c{mode}"]) for mode in range(len(self.shape))])
        counts = np.asarray(found["total"])
        del found
        cells = canonical(coords, counts, self.shape)
        return trusted_tensor(
            CanonicalParts(*cells, self.shape, self.mode_names, self.labels, self.missing, self.report)
        )

    def in_shards(self, path: Path, shards: int) -> ShardedTensor:
        """Write the tensor to a new folder, batch by batch, and return it."""
        order = fibre_order((coords for coords, _ in self._batches()), self.shape, self.nnz)
        write_shards(path, self, order, self._batches(order), shards)
        return ShardedTensor(path)

    def _batches(self, order: Sequence[int] = ()) -> Iterator[tuple[NDArray[Any], Int64s]]:
        """Yield the coordinates and counts of all cells, sorted by the modes in `order`."""
        result = self._query(f"ORDER BY {', '.join(f'c{mode}' for mode in order)}" if order else "")
        # Not record batches: these would need pyarrow.
        while len(batch := result.fetch_df_chunk(_VECTORS)):
            coords = np.stack([batch[f"c{mode}"].to_numpy() for mode in range(len(self.shape))])
            yield coords, batch["total"].to_numpy()

    def _query(self, order: str = "") -> duckdb.DuckDBPyConnection:
        columns = ", ".join(f"c{mode}" for mode in range(len(self.shape)))
        return self._connection.execute(f"SELECT {columns}, total FROM cells WHERE {self._observed} {order}")


def _missing_patterns(diagonal: Sequence[int], time: int | None, unobserved: Int64s, shape: Sequence[int]) -> Int64s:
    length = shape[diagonal[0]] if diagonal else 0
    patterns = np.full((length + unobserved.size, len(shape)), WILDCARD, dtype=np.int64)
    patterns[:length, list(diagonal)] = np.arange(length)[:, None]
    if time is not None:
        patterns[length:, time] = unobserved
    return patterns


def _observed(diagonal: Sequence[int], time: int | None, unobserved: Int64s) -> str:
    """Return SQL that says whether a cell has a count and is not missing."""
    conditions = ["total > 0", f"NOT ({_on_diagonal(diagonal)})"]
    if time is not None and unobserved.size:
        conditions.append(f"c{time} NOT IN ({', '.join(map(str, unobserved.tolist()))})")
    return " AND ".join(conditions)

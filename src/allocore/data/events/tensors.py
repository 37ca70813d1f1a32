"""From the view `events` to the cells of a tensor: labels for texts, periods for dates, then one sum over all rows."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.data.cameo import labels_of_codes
from allocore.data.coordinates import Int64s
from allocore.data.events.event_cells import EventCells, on_diagonal
from allocore.data.events.formats import Mode
from allocore.data.events.label_template import LabelTemplate, refused
from allocore.data.events.loading import Loaded, Wanted
from allocore.data.events.periods import periods
from allocore.data.events.table_tensor import TableTensor
from allocore.data.events.vocabulary import Reading, read_labels, vocabulary
from allocore.data.select_rows import rows_of
from allocore.data.sql import literal
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_VALID = "keep AND bad_time IS NULL AND bad_n IS NULL"


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
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise an InputError unless every row was kept, dropped for a reason, or left out as a duplicate."""
        told = self.kept + sum(self.dropped.values()) + self.duplicates
        if told != self.pairs:
            raise InputError(f"source has {self.pairs:,} rows, but {told:,} are accounted for: please report this")


@dataclass(frozen=True)
class CellOptions:
    """How rows become cells."""

    freq: str
    shared: tuple[str, ...]  # modes that share one list of labels
    diagonal: str
    min_count: int
    unobserved: object = None  # periods that are missing
    like: LabelTemplate | None = None
    orders: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # for modes whose labels have an order of their own


def count_rows(
    connection: "duckdb.DuckDBPyConnection", wanted: Wanted, options: CellOptions, loaded: Loaded
) -> tuple[TableTensor, RowTally]:
    """Return the tensor of all valid rows, whose cells are in a table, and what became of the other rows."""
    tally = RowTally(*connection.execute("SELECT count(*) FILTER (lead), count(*) FROM events").fetchone() or (0, 0))
    _leave_out_duplicates(connection, wanted, tally)
    labels = _label_modes(connection, wanted.modes, options, tally)
    _count_reasons(connection, wanted.modes, options, tally)
    if loaded.lost:
        tally.dropped["line that is not a row"] = loaded.lost
        tally.rows, tally.pairs = tally.rows + loaded.lost, tally.pairs + loaded.lost
    if tally.kept:
        cells = _sum_up(connection, wanted.modes, options)
        if options.like is None:
            labels = _without_rare(cells, labels, wanted.modes, options, tally)
        else:
            labels = _without_new(cells, labels, wanted.modes, options, tally)
            if tally.new_labels and options.like.new_labels == "error":
                raise refused(tally.new_labels, loaded.name)
    if not tally.kept:
        rows = f"{tally.rows:,} row{'s' * (tally.rows != 1)}"
        raise InputError(f"{loaded.name} has {rows}, but none is left for the tensor: {_reasons(tally)}")
    tally.check()
    diagonal = _missing_diagonal(wanted.modes, options)
    tally.diagonal = cells.rows(on_diagonal(diagonal))
    if tally.diagonal == tally.kept:
        raise InputError(f"{loaded.name} has only events of actors with themselves; diagonal='keep' counts these")
    time = next((place for place, mode in enumerate(wanted.modes) if mode.kind == "time"), None)
    unobserved = np.empty(0, dtype=np.int64)
    if time is not None:
        unobserved = _unobserved(cells, time, labels[time], wanted.modes[time].name, options, tally)
    names = [mode.name for mode in wanted.modes]
    return TableTensor(cells, names, labels, diagonal=diagonal, time=time, unobserved=unobserved), tally


def _unobserved(
    cells: EventCells, time: int, labels: list[str], name: str, options: CellOptions, tally: RowTally
) -> Int64s:
    """Return the periods that were not observed, and remember those of the others that have no rows."""
    rows = cells.rows_by_label(time, len(labels))
    unobserved = np.zeros(rows.size, dtype=bool)
    if options.unobserved is not None:
        chosen = rows_of(tuple(labels), options.unobserved, f"in unobserved=, mode {name!r}")
        unobserved[np.asarray(chosen, dtype=np.int64)] = True
    tally.empty_periods = tuple(labels[number] for number in np.flatnonzero((rows == 0) & ~unobserved).tolist())
    tally.unobserved = int(rows[unobserved].sum())
    return np.flatnonzero(unobserved)


def _one(connection: "duckdb.DuckDBPyConnection", query: str) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def _reasons(tally: RowTally) -> str:
    return ", ".join(f"{rows:,} dropped ({reason})" for reason, rows in tally.dropped.items()) or "it is empty"


def _leave_out_duplicates(connection: "duckdb.DuckDBPyConnection", wanted: Wanted, tally: RowTally) -> None:
    """Make the view `chosen`: `events` without rows about the same event on the same day."""
    if not wanted.keys:
        connection.execute("CREATE TEMP VIEW chosen AS SELECT * FROM events")
        return
    days = [f"CAST(m{place} AS DATE)" for place, mode in enumerate(wanted.modes) if mode.kind == "time"]
    keys = ", ".join([*(f"k{place}" for place in range(len(wanted.keys))), *days, *_listed_actors(wanted)])
    # The same row is always left, whatever the order: the one with the largest count, then with the first labels.
    order = ", ".join(["n DESC", *(f"m{place}" for place in range(len(wanted.modes)))])
    connection.execute(
        f"CREATE TEMP TABLE chosen AS (SELECT DISTINCT ON ({keys}) * FROM events WHERE {_VALID} ORDER BY {order}) "
        f"UNION ALL SELECT * FROM events WHERE NOT ({_VALID})"
    )
    tally.duplicates = tally.pairs - _one(connection, "SELECT count(*) FROM chosen")


def _listed_actors(wanted: Wanted) -> list[str]:
    """Return the columns of listed actors: rows made from one event by its lists are not duplicates of each other."""
    return [f"m{place}" for place, mode in enumerate(wanted.modes) if wanted.lists and mode.kind == "country"]


def _label_modes(
    connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
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
        known, order = readings[place].known(), readings[place].ordered(options.orders.get(mode.name, ()))
        found = vocabulary(mode.kind, *((shared, shared_order) if mode.name in options.shared else (known, order)))
        if options.like is not None:
            spelt = options.like.spelt(mode.name, found)
            readings[place].respell(spelt)
            found = options.like.with_new(mode.name, list(spelt.values()))
        labels.append(found)
        _write_map(connection, place, readings[place], labels[-1])
        _note(mode.name, readings[place], rows[place], tally)
    return labels


def _read_labels(mode: Mode, texts: list[str], tally: RowTally) -> Reading:
    """Return the labels of the texts of a mode. CAMEO codes have their words; if some text is none, all stay as is."""
    found = labels_of_codes(mode.column, texts) if mode.codes else None
    if found is not None:
        return Reading(found)
    if mode.codes and all(text.isdecimal() for text in texts):
        tally.notes.append(
            f"labels of {mode.name} have no words, because not all texts in {mode.column} are clearly CAMEO codes with "
            "their zeros, such as 04 and 042"
        )
    return read_labels(mode.kind, mode.name, texts)


def _texts(connection: "duckdb.DuckDBPyConnection", place: int) -> dict[str, int]:
    """Return every text of a mode with its number of rows."""
    rows = connection.execute(
        f"SELECT m{place}, count(*) FROM chosen WHERE {_VALID} AND m{place} IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {text: int(number) for text, number in rows}


def _write_map(connection: "duckdb.DuckDBPyConnection", place: int, reading: Reading, labels: list[str]) -> None:
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


def _note(name: str, reading: Reading, rows: dict[str, int], tally: RowTally) -> None:
    if reading.unknown:
        heaviest = sorted(reading.unknown, key=lambda text: (-rows[text], text))
        tally.unknown[name] = {text: rows[text] for text in heaviest}
    if reading.repaired:
        tally.repaired[name] = sum(rows[text] for text in reading.repaired)


def _label_periods(connection: "duckdb.DuckDBPyConnection", place: int, freq: str, tally: RowTally) -> list[str]:
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


def _joined(modes: tuple[Mode, ...]) -> str:
    return " ".join(f"LEFT JOIN map{place} ON map{place}.text = chosen.m{place}" for place in range(len(modes)))


def _shared_places(modes: tuple[Mode, ...], options: CellOptions) -> list[int]:
    return [place for place, mode in enumerate(modes) if mode.name in options.shared]


def _missing_diagonal(modes: tuple[Mode, ...], options: CellOptions) -> list[int]:
    """Return the modes whose diagonal is missing."""
    return _shared_places(modes, options) if options.diagonal == "missing" else []


def _same_labels(modes: tuple[Mode, ...], options: CellOptions) -> str:
    """Return SQL that says whether all modes that share labels have the same label."""
    places = _shared_places(modes, options)
    return " AND ".join(f"map{place}.place = map{places[0]}.place" for place in places[1:]) or "false"


def _reason(modes: tuple[Mode, ...], options: CellOptions) -> str:
    """Return SQL for the reason why a row is dropped; NULL if it is kept."""
    cases = ["WHEN bad_number IS NOT NULL THEN 'no number for where'", "WHEN NOT keep THEN 'left out by where'"]
    cases += ["WHEN bad_time IS NOT NULL THEN 'unreadable time'"]
    cases.append("WHEN bad_n IS NOT NULL THEN 'count that is not a whole number'")
    cases += [f"WHEN m{place} IS NULL THEN {literal(f'no {mode.name}')}" for place, mode in enumerate(modes)]
    cases += [f"WHEN map{place}.why IS NOT NULL THEN map{place}.why" for place in range(len(modes))]
    if options.shared and options.diagonal == "drop":
        what = " = ".join(options.shared)
        cases.append(f"WHEN {_same_labels(modes, options)} THEN {literal(what)}")
    return f"CASE {' '.join(cases)} END"


def _count_reasons(
    connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> None:
    rows = connection.execute(
        f"SELECT {_reason(modes, options)} AS reason, count(*) AS rows FROM chosen {_joined(modes)} GROUP BY ALL "
        f"ORDER BY rows DESC, reason"
    ).fetchall()
    tally.dropped = {reason: int(number) for reason, number in rows if reason is not None}
    tally.kept = sum(int(number) for reason, number in rows if reason is None)


def _sum_up(connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], options: CellOptions) -> EventCells:
    rows = f"chosen {_joined(modes)} WHERE {_reason(modes, options)} IS NULL"
    return EventCells.sum_up(connection, rows, [f"map{place}.place" for place in range(len(modes))])


def _without_rare(
    cells: EventCells, labels: list[list[str]], modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> list[list[str]]:
    """Leave out labels with too few counts, and labels whose rows were all dropped; return the others."""
    shared = _shared_places(modes, options)
    free = [place for place, mode in enumerate(modes) if mode.kind in ("plain", "country")]
    groups = [[place] for place in free if place not in shared] + ([shared] if shared else [])
    blind = on_diagonal(_missing_diagonal(modes, options))
    if dropped := cells.drop_rare(groups, options.min_count, blind):
        tally.dropped[f"counts below min_count {options.min_count}"] = dropped
        tally.kept -= dropped
    return cells.relabel(labels, groups)


def _without_new(
    cells: EventCells, labels: list[list[str]], modes: tuple[Mode, ...], options: CellOptions, tally: RowTally
) -> list[list[str]]:
    """Drop the rows with labels that `like` does not have, or else only those of these labels that no row has.

    If such labels are an error, rows on a missing diagonal are none: they are dropped, for they add nothing.
    """
    if options.like is None:
        return labels
    shared = _shared_places(modes, options)
    blind = on_diagonal(_missing_diagonal(modes, options) if options.like.new_labels == "error" else [])
    tally.new_labels = options.like.new_in(cells, labels, modes, f"NOT ({blind})")
    known = {place: len(options.like.labels(mode.name)) for place, mode in enumerate(modes) if mode.kind != "time"}
    if options.like.new_labels != "append":
        for place, number in known.items():
            if dropped := cells.drop(f"c{place} >= {number}"):
                tally.dropped[f"new {modes[place].name}"] = dropped
                tally.kept -= dropped
    groups = [[place] for place in known if place not in shared] + ([shared] if shared else [])
    return cells.relabel(labels, groups, keep=[known[group[0]] for group in groups])

"""From the table `events` to a tensor: labels for texts, periods for dates, then one sum over all rows."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore.data.events.formats import Mode
from allocore.data.events.labels import Reading, read_labels, vocabulary
from allocore.data.events.loading import Wanted
from allocore.data.events.periods import periods
from allocore.data.events.sources import literal
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_VALID = "keep AND bad_time IS NULL AND bad_n IS NULL"


@dataclass
class Found:
    """What came out besides the tensor."""

    rows: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    diagonal: int = 0
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)
    dates: tuple[str, str] | None = None


@dataclass(frozen=True)
class Shape:
    """How rows become cells: the frequency of periods, which modes share labels, the diagonal, the least count."""

    freq: str
    shared: tuple[str, ...]
    diagonal: str
    min_count: int


def make_tensor(connection: "duckdb.DuckDBPyConnection", wanted: Wanted, shape: Shape) -> tuple[CountTensor, Found]:
    """The tensor of all valid rows, and what became of the others."""
    found = Found(rows=_one(connection, "SELECT count(*) FROM events"))
    _leave_out_duplicates(connection, wanted, found)
    labels = _label_modes(connection, wanted.modes, shape, found)
    _count_reasons(connection, wanted.modes, shape, found)
    if not found.kept:
        raise InputError(f"source has {found.rows:,} rows, but none is left for the tensor: {_reasons(found)}")
    cells, counts = _sum_up(connection, wanted.modes, shape)
    names = [mode.name for mode in wanted.modes]
    tensor = CountTensor(cells, counts, [len(each) for each in labels], mode_names=names, labels=labels)
    if shape.shared and shape.diagonal == "missing":
        on = [names.index(name) for name in shape.shared]
        found.diagonal = int(counts[(cells[on] == cells[on[0]]).all(axis=0)].sum())
        tensor = tensor.mask_diagonal(tuple(on))
    return tensor, found


def _one(connection: "duckdb.DuckDBPyConnection", query: str) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def _reasons(found: Found) -> str:
    return ", ".join(f"{rows:,} dropped ({reason})" for reason, rows in found.dropped.items()) or "it is empty"


def _leave_out_duplicates(connection: "duckdb.DuckDBPyConnection", wanted: Wanted, found: Found) -> None:
    """Make `chosen`: `events`, without the rows that tell of the same event on the same day."""
    if not wanted.keys:
        connection.execute("CREATE TEMP VIEW chosen AS SELECT * FROM events")
        return
    days = [f"m{place}" for place, mode in enumerate(wanted.modes) if mode.kind == "time"]
    keys = ", ".join([*(f"k{place}" for place in range(len(wanted.keys))), *days, *_unlisted(wanted)])
    connection.execute(
        f"CREATE TEMP TABLE chosen AS SELECT DISTINCT ON ({keys}) * FROM events WHERE {_VALID} "
        f"UNION ALL SELECT * FROM events WHERE NOT ({_VALID})"
    )
    found.duplicates = found.rows - _one(connection, "SELECT count(*) FROM chosen")


def _unlisted(wanted: Wanted) -> list[str]:
    """Events with lists of actors are several rows, one for each pair: no duplicates of one another."""
    return [f"m{place}" for place, mode in enumerate(wanted.modes) if wanted.lists and mode.kind == "country"]


def _label_modes(
    connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], shape: Shape, found: Found
) -> list[list[str]]:
    """Make a table `map0`, `map1`, .. of texts and places for each mode; returns all labels."""
    texts = {place: _texts(connection, place) for place, mode in enumerate(modes) if mode.kind != "time"}
    readings = {place: read_labels(modes[place].kind, modes[place].name, list(texts[place])) for place in texts}
    totals = _totals(modes, shape, texts, readings)
    labels: list[list[str]] = []
    for place, mode in enumerate(modes):
        if mode.kind == "time":
            labels.append(_label_periods(connection, place, shape.freq, found))
            continue
        fixed = mode.kind not in ("plain", "country")
        heavy = {label for label, count in totals[_group(mode, shape)].items() if fixed or count >= shape.min_count}
        labels.append(vocabulary(mode.kind, heavy))
        _write_map(connection, place, readings[place], labels[-1], shape.min_count)
        _note(mode.name, readings[place], {text: rows for text, (rows, _) in texts[place].items()}, found)
    return labels


def _texts(connection: "duckdb.DuckDBPyConnection", place: int) -> dict[str, tuple[int, int]]:
    """Every text of a mode with its rows and their counts."""
    rows = connection.execute(
        f"SELECT m{place}, count(*), sum(n) FROM chosen WHERE {_VALID} AND m{place} IS NOT NULL "
        f"GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {text: (int(number), int(total)) for text, number, total in rows}


def _group(mode: Mode, shape: Shape) -> str:
    """What modes with one vocabulary have in common."""
    return "shared" if mode.name in shape.shared else f"own {mode.name}"


def _totals(
    modes: tuple[Mode, ...], shape: Shape, texts: dict[int, dict[str, tuple[int, int]]], readings: dict[int, Reading]
) -> dict[str, dict[str, int]]:
    """The counts of every label, in all modes that share it."""
    totals: dict[str, dict[str, int]] = {}
    for place, reading in readings.items():
        of_group = totals.setdefault(_group(modes[place], shape), {})
        for text, label in reading.labels.items():
            of_group[label] = of_group.get(label, 0) + texts[place][text][1]
    return totals


def _write_map(
    connection: "duckdb.DuckDBPyConnection", place: int, reading: Reading, labels: list[str], min_count: int
) -> None:
    import pandas as pd

    places = {label: number for number, label in enumerate(labels)}
    known = {text: places.get(label, -1) for text, label in reading.labels.items()}
    texts = [*known, *reading.unknown]
    rare = f"counts below min_count {min_count}"
    why = [rare if number < 0 else None for number in known.values()] + list(reading.unknown.values())
    frame = pd.DataFrame(
        {
            "text": pd.Series(texts, dtype=object),
            "place": np.array([*known.values(), *(-1 for _ in reading.unknown)], dtype=np.int64),
            "why": pd.Series(why, dtype=object),
        }
    )
    connection.register("frame_of_map", frame)
    connection.execute(
        f"CREATE TEMP TABLE map{place} AS SELECT text::VARCHAR AS text, place, why::VARCHAR AS why FROM frame_of_map"
    )
    connection.unregister("frame_of_map")


def _note(name: str, reading: Reading, rows: dict[str, int], found: Found) -> None:
    if reading.unknown:
        heaviest = sorted(reading.unknown, key=lambda text: (-rows[text], text))
        found.unknown[name] = {text: rows[text] for text in heaviest}
    if reading.repaired:
        found.repaired[name] = sum(rows[text] for text in reading.repaired)


def _label_periods(connection: "duckdb.DuckDBPyConnection", place: int, freq: str, found: Found) -> list[str]:
    period = f"date_trunc('{freq}', m{place})"
    begin, end, first, last = (
        connection.execute(
            f"SELECT min(m{place}), max(m{place}), min({period}), max({period}) FROM chosen WHERE {_VALID}"
        ).fetchone()
        or (None,) * 4
    )
    if begin is None:
        connection.execute(f"CREATE TEMP TABLE map{place} (text DATE, place BIGINT, why VARCHAR)")
        return ["none"]
    found.dates = str(begin), str(end)
    connection.execute(
        f"CREATE TEMP TABLE map{place} AS SELECT DISTINCT m{place} AS text, NULL::VARCHAR AS why, "
        f"date_diff('{freq}', {literal(str(_day(first)))}::DATE, date_trunc('{freq}', m{place})::DATE) AS place "
        f"FROM chosen WHERE m{place} IS NOT NULL"
    )
    return periods(_day(first), _day(last), freq)


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _joined(modes: tuple[Mode, ...]) -> str:
    return " ".join(f"LEFT JOIN map{place} ON map{place}.text = chosen.m{place}" for place in range(len(modes)))


def _on_diagonal(modes: tuple[Mode, ...], shape: Shape) -> str:
    """Whether all modes that share labels have the same one."""
    places = [place for place, mode in enumerate(modes) if mode.name in shape.shared]
    return " AND ".join(f"map{place}.place = map{places[0]}.place" for place in places[1:]) or "false"


def _reason(modes: tuple[Mode, ...], shape: Shape) -> str:
    """Why a row is dropped, as SQL; NULL if it is not."""
    cases = ["WHEN NOT keep THEN 'left out by where'", "WHEN bad_time IS NOT NULL THEN 'unreadable time'"]
    cases.append("WHEN bad_n IS NOT NULL THEN 'count that is not a whole number'")
    cases += [f"WHEN m{place} IS NULL THEN {literal(f'no {mode.name}')}" for place, mode in enumerate(modes)]
    cases += [f"WHEN map{place}.why IS NOT NULL THEN map{place}.why" for place in range(len(modes))]
    if shape.shared and shape.diagonal == "drop":
        what = " = ".join(shape.shared)
        cases.append(f"WHEN {_on_diagonal(modes, shape)} THEN {literal(what)}")
    return f"CASE {' '.join(cases)} END"


def _count_reasons(
    connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], shape: Shape, found: Found
) -> None:
    rows = connection.execute(
        f"SELECT {_reason(modes, shape)} AS reason, count(*) AS rows FROM chosen {_joined(modes)} GROUP BY ALL "
        f"ORDER BY rows DESC, reason"
    ).fetchall()
    found.dropped = {reason: int(number) for reason, number in rows if reason is not None}
    found.kept = sum(int(number) for reason, number in rows if reason is None)


def _sum_up(
    connection: "duckdb.DuckDBPyConnection", modes: tuple[Mode, ...], shape: Shape
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    places = ", ".join(f"map{place}.place AS c{place}" for place in range(len(modes)))
    result = connection.execute(
        f"SELECT {places}, CAST(sum(n) AS BIGINT) AS total FROM chosen {_joined(modes)} "
        f"WHERE {_reason(modes, shape)} IS NULL GROUP BY ALL"
    ).fetchnumpy()
    return np.stack([np.asarray(result[f"c{place}"]) for place in range(len(modes))]), np.asarray(result["total"])

"""`where` compares numbers as numbers, in files as in frames, and says what it does with texts that are none."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import allocore as ac
from support.errors import refused
from support.event_files import write
from support.tiers import by_tier, parametrize_few

ROWS = [
    ("x", "p", "10", "04"),
    ("y", "p", "7", "040"),
    ("x", "q", "9.5", "4"),
    ("y", "q", "", "14"),
    ("z", "q", "100", "19"),
]
NAMES = ["a", "b", "weight", "code"]


def _frame(rows=ROWS):
    return pd.DataFrame(rows, columns=NAMES)


def _csv(folder, rows=ROWS, separator=",", name="t.csv"):
    return write(folder / name, "".join(separator.join(row) + "\n" for row in [NAMES, *rows]))


def _parquet(folder, rows=ROWS, **types):
    frame = pl.DataFrame(rows, schema=NAMES, orient="row")
    frame = frame.with_columns(pl.col(name).cast(kind, strict=False) for name, kind in types.items())
    frame.write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def _json(folder, rows=ROWS, number=False):
    objects = [dict(zip(NAMES, row, strict=True)) for row in rows]
    for each in objects:
        each["weight"] = (float(each["weight"]) if each["weight"] else None) if number else each["weight"]
    return write(folder / "t.jsonl", "".join(json.dumps(each) + "\n" for each in objects))


SOURCES = {
    "csv": _csv,
    "tsv": lambda folder: _csv(folder, separator="\t", name="t.tsv"),
    "json texts": _json,
    "json numbers": lambda folder: _json(folder, number=True),
    "parquet texts": _parquet,
    "parquet numbers": lambda folder: _parquet(folder, weight=pl.Float64),
    "pandas texts": lambda _: _frame(),
    "pandas objects": lambda _: _frame().astype(object),
    "pandas categories": lambda _: _frame().astype({"weight": "category"}),
    "pandas numbers": lambda _: _frame().assign(weight=pd.to_numeric(_frame()["weight"])),
    "polars texts": lambda _: pl.DataFrame(ROWS, schema=NAMES, orient="row"),
    "polars numbers": lambda _: pl.from_pandas(_frame().assign(weight=pd.to_numeric(_frame()["weight"]))),
    "polars NaN": lambda _: pl.DataFrame(
        [(*row[:2], float(row[2] or "nan"), row[3]) for row in ROWS], schema=NAMES, orient="row"
    ),
}

CONDITIONS = {
    "weight > 7": 3,
    "weight >= 7 AND b = 'q'": 2,
    "7 < weight": 3,
    "weight > -1": 4,
    "weight = 10": 1,
    "weight <> 10": 3,
    "WEIGHT > 7": 3,
    'source."weight" > 7.0': 3,
    "weight IN (7, 100)": 2,
    "weight NOT IN (7, 100)": 2,
    "weight BETWEEN 7 AND 9.5": 2,
    "weight + 1 > 10": 3,
    "2 * weight > 18.9": 3,
    "abs(weight) > 9": 3,
    "round(weight) = 10": 2,
    "coalesce(weight, 50) > 9.9": 3,
    "CASE WHEN b = 'q' THEN weight ELSE 0 END > 9": 2,
    "weight > length(a) * 9": 3,
    "NOT weight > 7": 1,
    "weight > 7 -- heavy": 3,
    "code = '04'": 1,
    "code = '04' OR code LIKE '04%'": 2,
    "code IN ('04', '4')": 2,
    "code = 4": 2,
    "code < '05' AND weight < 11": 2,
}


@parametrize_few("where", CONDITIONS)
def test_texts_are_numbers_where_they_are_compared_to_numbers(tmp_path, where):
    assert ac.read_events(_csv(tmp_path), modes=["a", "b"], where=where).report.kept == CONDITIONS[where]


@pytest.mark.parametrize("source", by_tier([("pandas categories",)], SOURCES))
def test_a_condition_means_the_same_in_every_source(tmp_path, source):
    table = SOURCES[source](tmp_path)
    for where in ("weight > 7", "2 * weight > 18.9", "code = '04'", "code < '05' AND weight < 11"):
        assert ac.read_events(table, modes=["a", "b"], where=where).report.kept == CONDITIONS[where]


QUICK_SOURCES = [("csv",), ("json numbers",), ("parquet numbers",), ("pandas categories",), ("polars NaN",)]


@parametrize_few("source", by_tier(QUICK_SOURCES, SOURCES))
def test_numbers_in_a_dict_are_compared_as_numbers_and_texts_as_texts(tmp_path, source):
    table = SOURCES[source](tmp_path)
    kept = [
        ac.read_events(table, modes=["a", "b"], where=where).report.kept
        for where in ({"weight": 10}, {"weight": [7, 9.5]}, {"code": 4}, {"code": "04"}, {"weight": [None, 7.0]})
    ]
    assert kept == [1, 2, 2, 1, 2]


BAD = [*ROWS, ("x", "p", "heavy", "04"), ("y", "q", "1;5", "04")]


@parametrize_few("make", [_csv, lambda _, rows: _frame(rows), _json, _parquet])
def test_a_text_that_is_no_number_is_an_error_or_a_dropped_row(tmp_path, make):
    table = make(tmp_path, BAD)
    with refused("source", rule="which is not a number, but `where` compares it to one (2 such rows)"):
        ac.read_events(table, modes=["a", "b"], where="weight > 7")
    report = ac.read_events(table, modes=["a", "b"], where="weight > 7", on_error="drop").report
    assert (report.kept, report.dropped) == (3, {"no number for where": 2, "left out by where": 2})


@pytest.mark.parametrize(
    ("where", "kept"),
    [("code = '19' AND weight > 7", 1), ("b = 'p' AND a = 'y' AND weight > 6", 1), ("true OR weight > 7", 7)],
)
def test_a_row_that_is_decided_without_the_number_is_no_error(tmp_path, where, kept):
    assert ac.read_events(_csv(tmp_path, BAD), modes=["a", "b"], where=where).report.kept == kept


@pytest.mark.parametrize(
    "where", ["coalesce(weight, 0) < 5", "greatest(weight, 5) > 4", "weight IS DISTINCT FROM 7", "(weight > 7) IS NULL"]
)
def test_a_text_that_is_no_number_is_not_taken_for_an_absent_one(tmp_path, where):
    report = ac.read_events(_csv(tmp_path, BAD), modes=["a", "b"], where=where, on_error="drop").report
    assert report.dropped["no number for where"] == 2


def test_texts_that_mean_no_value_are_left_out_like_absent_numbers(tmp_path):
    rows = [*ROWS, *(("x", "p", text, "04") for text in ("NA", "NaN", "None", " "))]
    assert ac.read_events(_csv(tmp_path, rows), modes=["a", "b"], where="weight > 7").report.kept == 3


def test_whole_numbers_beyond_floating_point_are_told_apart(tmp_path):
    rows = [("x", "p", "9007199254740993", "1"), ("y", "p", "9007199254740992", "1")]
    tensor = ac.read_events(_csv(tmp_path, rows), modes=["a", "b"], where="weight = 9007199254740993")
    assert tensor.report.kept == 1
    assert tensor.labels[0] == ("x",)


def test_two_columns_are_compared_as_what_they_are(tmp_path):
    assert ac.read_events(_csv(tmp_path), modes=["a", "b"], where="weight < code").report.kept == 1  # as texts
    frame = _frame().assign(weight=[10, 7, 9, 1, 100], code=[4, 40, 4, 14, 19])
    assert ac.read_events(frame, modes=["a", "b"], where="weight < code").report.kept == 2


def test_codes_keep_their_zeros_although_the_condition_compares_numbers(tmp_path):
    tensor = ac.read_events(_csv(tmp_path), modes=["a", "code"], where="weight > 7 AND code < 15")
    assert tensor.labels[1] == ("04", "4")


def test_a_bad_row_has_its_file_and_its_line_however_the_condition_spells_the_column(tmp_path):
    path = _csv(tmp_path, BAD)
    with refused("source", str(path), "line 7: weight is 'heavy', which is not a number"):
        ac.read_events(path, modes=["a", "b"], where="WEIGHT > 7")


def test_columns_of_arrays_do_not_matter_to_a_condition():
    frame = _frame().assign(many=[np.array([1, 2])] * len(ROWS))
    assert ac.read_events(frame, modes=["a", "b"], where="weight > 9").total == 3


@pytest.mark.parametrize("value", [True, np.True_])
def test_a_boolean_of_numpy_is_a_boolean(value):
    frame = _frame().assign(flag=[True, False, True, False, False])
    assert ac.read_events(frame, modes=["a", "b"], where={"flag": value}).total == 2

"""Tensors in Parquet files and data frames: what comes back is what went in, and what was changed is not guessed at."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.count_tensor import FRAME_KEY
from support.errors import refused
from support.tiers import parametrize_few


@pytest.mark.parametrize(
    "names",
    [
        ("A", "a"),
        ("Count", "count"),
        ("COUNT", "Count_"),
        ("count", "count_"),
        ("a", "A_"),
        ("a", "a_1"),
        ("É", "é"),
        ("straße", "STRASSE"),
        ('qu"ote', "it's"),
        ("a b", "*"),
    ],
)
@parametrize_few("labelled", [True, False], quick=1)
def test_names_that_differ_only_by_case_come_back(tmp_path, names, labelled):
    labels = [["x", "X"], ["NULL", ""]] if labelled else None
    Y = ac.as_tensor(np.array([[1, 2], [0, 4]]), mode_names=names, labels=labels)
    Y.save(tmp_path / "y.parquet")
    assert ac.load_tensor(tmp_path / "y.parquet") == Y
    assert ac.as_tensor(Y.to_frame()) == Y


def rewritten(tmp_path, query, change=lambda metadata: metadata, labels=None):
    """A saved tensor whose rows and metadata somebody has changed."""
    Y = ac.as_tensor(np.array([[1, 2], [0, 4]]), mode_names=["a", "b"], labels=labels)
    Y.save(tmp_path / "y.parquet")
    metadata = change(Y.to_frame().attrs[FRAME_KEY] | {"columns": ["a", "b", "count"]})
    text = (metadata if isinstance(metadata, str) else json.dumps(metadata)).replace("'", "''")
    source = f"read_parquet('{tmp_path}/y.parquet')"
    duckdb.sql(
        f"COPY ({query.format(source)}) TO '{tmp_path}/z.parquet' "
        f"(FORMAT parquet, KV_METADATA {{'{FRAME_KEY}': '{text}'}})"
    )
    return tmp_path / "z.parquet"


CHANGED = {
    "SELECT * REPLACE (CASE WHEN a = 1 THEN NULL ELSE a END AS a) FROM {}": "column 'a'; row 3 has none",
    "SELECT * REPLACE (a + 0.7::DOUBLE AS a) FROM {}": "a is 0.7",
    "SELECT * REPLACE (NULL::INT AS count) FROM {}": "column 'count'; row 1 has none",
    "SELECT * REPLACE (count + 0.5::DOUBLE AS count) FROM {}": "counts is",
    "SELECT * REPLACE ('x' AS a) FROM {}": "a is ",
    "SELECT * REPLACE ('NaN'::DOUBLE AS a) FROM {}": "value in every row of column 'a'",
    "SELECT * EXCLUDE a FROM {}": "the column 'a'",
    "SELECT * EXCLUDE count FROM {}": "the column 'count'",
    "SELECT * REPLACE (a + 5 AS a) FROM {}": "coords is 6",
}


@parametrize_few("query", CHANGED, quick=4)
def test_changed_rows_are_refused_and_never_read_as_something_else(tmp_path, query):
    with refused("path", str(tmp_path / "z.parquet"), CHANGED[query]):
        ac.as_tensor(rewritten(tmp_path, query))


def test_a_label_that_the_mode_does_not_have_is_refused(tmp_path):
    labels = [["x", "y"], ["u", "v"]]
    for value, why in (("'z'", "has 'z' in column 'b'"), ("NULL", "row 1 has none")):
        with refused("path", str(tmp_path / "z.parquet"), why):
            ac.as_tensor(rewritten(tmp_path, f"SELECT * REPLACE ({value} AS b) FROM {{}}", labels=labels))


METADATA = [
    lambda metadata: "[" * 100_000,
    lambda metadata: "nonsense",
    lambda metadata: "[1, 2]",
    lambda metadata: "null",
    lambda metadata: {},
    lambda metadata: metadata | {"mode_names": None},
    lambda metadata: metadata | {"mode_names": ["a"]},
    lambda metadata: metadata | {"mode_names": [1, 2]},
    lambda metadata: metadata | {"labels": 5},
    lambda metadata: metadata | {"labels": [[["x"], {}], None]},
    lambda metadata: metadata | {"shape": [2]},
    lambda metadata: metadata | {"shape": "22"},
    lambda metadata: metadata | {"shape": [2, 1e30]},
    lambda metadata: metadata | {"missing": [[0]]},
    lambda metadata: metadata | {"missing": "x"},
    lambda metadata: metadata | {"missing": [[9, 9]]},
    lambda metadata: metadata | {"columns": ["a"]},
    lambda metadata: metadata | {"columns": [None, [], {}]},
    lambda metadata: metadata | {"columns": 7},
    lambda metadata: metadata | {"report": "[" * 100_000},
    lambda metadata: metadata | {"report": 5},
    lambda metadata: metadata | {"report": "{}"},
]


@parametrize_few("change", METADATA, quick=4)
def test_damaged_metadata_are_an_input_error(tmp_path, change):
    with refused("path", str(tmp_path / "z.parquet")):
        ac.as_tensor(rewritten(tmp_path, "SELECT * FROM {}", change))


def test_a_frame_with_gaps_is_refused_too():
    frame = ac.as_tensor(np.array([[1, 2], [0, 4]]), mode_names=["a", "b"]).to_frame()
    for column, value, argument in (("a", None, "x"), ("a", 0.5, "a"), ("count", None, "x")):
        changed = frame.copy()
        changed[column] = pd.Series([value] * len(frame), dtype=object)
        changed.attrs = frame.attrs
        with refused(argument):
            ac.as_tensor(changed)

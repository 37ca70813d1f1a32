"""Data frames of every library, and of every type of column, give the same tensor as the file they were read from."""

import datetime as dt
import subprocess
import sys
import textwrap

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from support.errors import refused
from support.event_files import ICEWS, cells, counted, icews_rows, text_of, write
from support.tiers import by_tier, parametrize_few

ROWS = [
    ("Ada", 7, "2024-01-05", 2),
    ("Zoë", 10, "2024-03-05", 1),
    (None, 7, "2024-02-05", 1),
    ("Ada", 7, "2024-01-06", 3),
    ("Zoë", None, "2024-01-06", 3),
]
EXPECTED = {("Ada", "7", "2024-01"): 5, ("Zoë", "10", "2024-03"): 1}
COLUMNS = {
    "who": [row[0] for row in ROWS],
    "item": [row[1] for row in ROWS],
    "day": [dt.date.fromisoformat(row[2]) for row in ROWS],
    "n": [row[3] for row in ROWS],
}


def _pandas(**types):
    return pd.DataFrame(COLUMNS).astype({"item": "Int64", "who": object} | types)


def _relation():
    connection = duckdb.connect()
    connection.register("table_of_mine", pa.table(COLUMNS))
    connection.execute("CREATE TABLE mine AS FROM table_of_mine")
    return connection.sql("SELECT * FROM mine")


FRAMES = {
    "pandas object": lambda: _pandas(),
    "pandas string": lambda: _pandas(who="string"),
    "pandas categorical": lambda: _pandas(who="category", item="category"),
    "pandas datetime64": lambda: _pandas(day="datetime64[ns]"),
    "pandas datetime64 in seconds": lambda: _pandas(day="datetime64[s]"),
    "pandas text": lambda: _pandas(day=str),
    "pandas Int64": lambda: _pandas(n="Int64", item="Int64"),
    "pandas float with NaN": lambda: _pandas(item="float64", n="float64"),
    "pandas with another index": lambda: _pandas().set_index(np.arange(5)[::-1] * 3),
    "pandas with arrow": lambda: _pandas().convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars lazy": lambda: pl.LazyFrame(COLUMNS),
    "polars categorical": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("who").cast(pl.Categorical)),
    "polars datetime": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("day").cast(pl.Datetime)),
    "polars float with NaN": lambda: pl.DataFrame(COLUMNS).with_columns(
        pl.col("item").cast(pl.Float64).fill_null(float("nan"))
    ),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow dictionary": lambda: pa.table(COLUMNS | {"who": pa.array(COLUMNS["who"]).dictionary_encode()}),
    "duckdb": _relation,
    "narwhals of pandas": lambda: nw.from_native(_pandas()),
    "narwhals of polars": lambda: nw.from_native(pl.DataFrame(COLUMNS)),
    "narwhals of lazy polars": lambda: nw.from_native(pl.LazyFrame(COLUMNS)),
    "narwhals of duckdb": lambda: nw.from_native(_relation()),
}


@parametrize_few("name", FRAMES)
def test_every_frame_gives_the_same_tensor(name):
    tensor = ac.read_events(FRAMES[name](), modes=["who", "item"], time="day", count="n")
    assert tensor.mode_names == ("who", "item", "day")
    assert tensor.labels == (("Ada", "Zoë"), ("7", "10"), ("2024-01", "2024-02", "2024-03"))
    assert cells(tensor) == EXPECTED
    assert tensor.report.dropped == {"no item": 1, "no who": 1}
    assert tensor.report.files == 0


OF_EACH_LIBRARY = [
    "pandas object",
    "pandas categorical",
    "polars",
    "polars lazy",
    "pyarrow",
    "duckdb",
    "narwhals of duckdb",
]


@parametrize_few("name", by_tier([(name,) for name in OF_EACH_LIBRARY], FRAMES))
def test_a_condition_reaches_the_columns_that_are_no_modes(name):
    options = {"modes": ["who", "item"], "shared_modes": None}
    assert cells(ac.read_events(FRAMES[name](), where="n > 2", **options)) == {("Ada", "7"): 1}
    assert cells(ac.read_events(FRAMES[name](), where={"n": 3}, **options)) == {("Ada", "7"): 1}


WITHOUT_ARROW = """
    import sys
    sys.modules["pyarrow"] = None
    import datetime as dt, duckdb, pandas as pd, polars as pl, allocore as ac
    columns = {"who": ["Ada", None, "Zoë"], "item": [7, 7, 10], "day": [dt.date(2024, month, 5) for month in (1, 2, 3)]}
    relation = duckdb.sql("SELECT * FROM (VALUES ('Ada', 7, DATE '2024-01-05'), (NULL, 7, DATE '2024-02-05'), "
                          "('Zoë', 10, DATE '2024-03-05')) AS mine(who, item, day)")
    lazy = pl.LazyFrame(columns).with_columns(pl.col("who").cast(pl.Categorical))
    frames = (pd.DataFrame(columns), None), (pl.DataFrame(columns), "item > 0"), (lazy, None), (relation, "item > 0")
    for frame, where in frames:
        Y = ac.read_events(frame, modes=["who", "item"], time="day", where=where)
        assert Y.labels == (("Ada", "Zoë"), ("7", "10"), ("2024-01", "2024-02", "2024-03")), Y.labels
        assert Y.report.dropped == {"no who": 1}
    odd = pl.DataFrame({"a": ["x"], "b": pl.Series([object()], dtype=pl.Object)})
    try:
        ac.read_events(odd, modes=["a", "b"])
    except ac.errors.InputError as error:
        assert "cannot be read without pyarrow" in str(error), error
    else:
        raise AssertionError("objects cannot be written to Parquet")
"""


@pytest.mark.slow
def test_frames_are_read_without_pyarrow():
    command = [sys.executable, "-X", "utf8", "-c", textwrap.dedent(WITHOUT_ARROW)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def of_a_file(tmp_path_factory):
    """The usual events of ICEWS, read from a file."""
    path = write(tmp_path_factory.mktemp("icews") / "a.tab", text_of(ICEWS, icews_rows()))
    return ac.read_events(path, diagonal="keep")


@parametrize_few("kind", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.Table.from_pylist])
def test_a_frame_of_a_known_format_is_detected(of_a_file, kind):
    tensor = ac.read_events(kind(icews_rows()), diagonal="keep")
    assert tensor.report.format == "icews"
    assert cells(tensor) == counted()
    assert tensor == of_a_file


def test_a_frame_is_not_changed():
    frame = _pandas()
    before = frame.copy(deep=True)
    ac.read_events(frame, modes=["who", "item"], time="day", count="n")
    pd.testing.assert_frame_equal(frame, before)


def test_a_relation_can_be_used_afterwards():
    relation = _relation()
    ac.read_events(relation, modes=["who", "item"])
    assert relation.count("n").fetchall() == [(5,)]


def test_objects_of_several_types_in_one_column_are_their_texts():
    values = pd.Series([1] * 3000 + ["one", None, float("nan"), True], dtype=object)
    tensor = ac.read_events(pd.DataFrame({"a": values, "b": "x"}), modes=["a", "b"])
    assert cells(tensor)["1", "x"] == 3000
    assert cells(tensor)["one", "x"] == 1
    assert tensor.report.dropped == {"no a": 2}


def test_columns_whose_names_are_numbers_are_found():
    frame = pd.DataFrame([["x", "y"]])
    assert ac.read_events(frame, modes=[0, 1]).mode_names == ("0", "1")


def test_columns_that_differ_in_capitals_only_are_told_apart_or_refused():
    frame = pd.DataFrame([["1", "2", "3"]], columns=["a", "A", "b"])
    assert cells(ac.read_events(frame, modes=["A", "b"])) == {("2", "3"): 1}
    with refused("source", rule="columns whose names differ only in upper and lower case"):
        ac.read_events(frame, modes=["a", "A"])


def test_columns_may_have_the_names_that_the_reader_uses_itself():
    names = ["source", "events", "frame", "m0", "n", "file", "keep"]
    frame = pd.DataFrame([[f"{name}!" for name in names]], columns=names)
    tensor = ac.read_events(frame, modes=names, where="source = 'source!' AND n = 'n!'")
    assert cells(tensor) == {tuple(f"{name}!" for name in names): 1}


def test_columns_may_have_quotes_and_blanks_in_their_names():
    frame = pd.DataFrame([["x", "y", "z"]], columns=['a "b"', "it's", "c;d e"])
    assert cells(ac.read_events(frame, modes=list(frame.columns))) == {("x", "y", "z"): 1}


@pytest.mark.parametrize("source", [None, 3, {"a": [1]}, pd.Series([1, 2]), np.zeros((2, 2))])
def test_what_is_neither_a_path_nor_a_frame_is_refused(source):
    with refused("source", f"a {type(source).__name__}", "must be a path or a data frame"):
        ac.read_events(source, modes=["a", "b"])


@pytest.mark.parametrize(
    ("frame", "value", "problem"),
    [
        (pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), "a data frame", "unique column names"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1]), "b": ["x", "y"]}), NO_VALUE, "'Sparse[int64, 0]'"),
    ],
    ids=["a column twice", "a type that is not known"],
)
def test_a_frame_that_cannot_be_read_is_an_input_error(frame, value, problem):
    with refused("source", value, "cannot be read: ") as caught:
        ac.read_events(frame, modes=["a", "b"])
    assert problem in caught.value.rule


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_a_frame_without_rows_is_an_input_error(kind):
    with refused("source", NO_VALUE, "has 0 rows, but none is left for the tensor: it is empty"):
        ac.read_events(kind({"a": [], "b": []}), modes=["a", "b"])

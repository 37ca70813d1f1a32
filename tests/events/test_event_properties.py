"""Whatever the rows, the tensor is what counting them one by one gives."""

import csv
import io
from collections import Counter
from datetime import date

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import allocore as ac
from support.event_files import cells
from support.tiers import given_by_tier

# Of random rows, some have incomplete months, or look like data without a header; other tests are about these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*may be incomplete"),
    pytest.mark.filterwarnings("ignore:.*looks like data"),
]
MODEST = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
BLANKS = " \t\r\n\u00a0"

# Texts that have gone wrong on their way through some table or other; NUL and lone surrogates are no text in CSV.
AWKWARD = ["a,b", 'say "hi"', '"', "two\nlines", "x;y|z", "it's", "007", "7", "1e3", "NA", "None", "null", "ß", "日本"]
AWKWARD += ["-", "#", "\\", "\\N", "true", "2024-01-01", "{}", "[1]", "%s", "é", "e\u0301", "a\tb", "İ"]
LABELS = st.sampled_from(AWKWARD) | st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=6
)
PADDED = st.tuples(st.sampled_from(["", " ", "  "]), LABELS, st.sampled_from(["", " "])).map("".join)
DATES = st.dates(date(2017, 11, 1), date(2019, 2, 28))
ROWS = st.lists(st.tuples(PADDED, PADDED, DATES, st.integers(0, 10**6)), min_size=1, max_size=12).filter(
    lambda rows: any(_label(one) and _label(two) and n for one, two, _, n in rows)
)
COLUMNS = ["a", "b", "day", "n"]


def _label(text):
    return text.strip(BLANKS)


def _expected(rows, period=lambda day: f"{day:%Y-%m}"):
    total = Counter()
    for one, two, day, n in rows:
        if _label(one) and _label(two):
            total[_label(one), _label(two), period(day)] += n
    return {cell: n for cell, n in total.items() if n}


def _check(source, rows):
    tensor = ac.read_events(source, modes=["a", "b"], time="day", count="n")
    assert cells(tensor) == _expected(rows)
    kept = [row for row in rows if _label(row[0]) and _label(row[1])]
    assert set(tensor.labels[0]) == {_label(row[0]) for row in kept}
    assert tensor.report.rows == len(rows)
    assert tensor.report.kept == len(kept)
    assert sum(tensor.report.dropped.values()) == len(rows) - len(kept)


def _table(rows):
    return dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))


def _duckdb(rows):
    return duckdb.connect().from_arrow(pa.table(_table(rows)))


LIBRARIES = {
    "pandas": lambda rows: pd.DataFrame(_table(rows)),
    "polars": lambda rows: pl.DataFrame(_table(rows)),
    "polars lazy": lambda rows: pl.LazyFrame(_table(rows)),
    "pyarrow": lambda rows: pa.table(_table(rows)),
    "duckdb": _duckdb,
}


@given_by_tier(rows=ROWS, name=st.sampled_from(list(LIBRARIES)), quick=6, full=75)
def test_the_tensor_of_a_frame_is_a_count_of_its_rows(rows, name):
    _check(LIBRARIES[name](rows), rows)


@given_by_tier(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    quick=6,
    full=90,
)
def test_the_tensor_of_a_csv_file_is_a_count_of_its_rows(tmp_path, rows, separator, quoting):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=quoting)
    writer.writerows([COLUMNS, *rows])
    path = tmp_path / "a.csv"
    path.write_bytes(text.getvalue().encode())
    _check(path, rows)


@pytest.mark.slow
@MODEST
@given(rows=ROWS, parts=st.integers(1, 3))
def test_it_makes_no_difference_how_rows_are_spread_over_files(tmp_path, rows, parts):
    for file in tmp_path.iterdir():
        file.unlink()
    for part in range(parts):
        if mine := rows[part::parts]:
            frame = pl.DataFrame(_table(mine))
            if part == 1:
                frame.select(reversed(COLUMNS)).write_csv(tmp_path / f"{part}.csv")
            else:
                frame.write_parquet(tmp_path / f"{part}.parquet")
    _check(tmp_path, rows)


@pytest.mark.slow
@MODEST
@given(rows=ROWS, freq=st.sampled_from(["day", "week", "month", "quarter", "year"]))
def test_every_period_between_the_first_and_the_last_is_there_once(rows, freq):
    tensor = ac.read_events(pd.DataFrame(_table(rows)), modes=["a", "b"], time="day", freq=freq)
    days = pd.DatetimeIndex([row[2] for row in rows])
    kinds = {"day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}
    span = pd.period_range(days.min(), days.max(), freq=kinds[freq])
    assert tensor.shape[2] == len(span)
    assert tensor.total == sum(1 for one, two, _, _ in rows if _label(one) and _label(two))
    assert list(tensor.labels[2]) == sorted(tensor.labels[2])


@pytest.mark.slow
@MODEST
@given(rows=ROWS, least=st.integers(1, 3))
def test_all_labels_that_are_left_have_the_least_count(rows, least):
    often = [*rows, *[("x", "y", date(2018, 1, 1), 1)] * 3]
    tensor = ac.read_events(pl.DataFrame(_table(often), orient="row"), modes=["a", "b"], min_count=least)
    assert all(tensor.mode_totals(mode).min() >= least for mode in (0, 1))
    whole = cells(ac.read_events(pl.DataFrame(_table(often)), modes=["a", "b"]))
    assert all(whole[cell] == count for cell, count in cells(tensor).items())

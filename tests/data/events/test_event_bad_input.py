"""What is wrong with a source is said in one error, with the file and the line; or the rows are dropped and counted."""

import gzip

import pandas as pd
import pytest

import allocore as ac
from allocore.errors import InputError
from event_files import GDELT, ICEWS, gdelt_rows, icews_rows, text_of, write

pytestmark = pytest.mark.disk

HEADER = "who,what,when,n\n"
GOOD = "Ada,tea,2024-01-01,1\n"


def read(path, **options):
    return ac.read_events(path, **{"modes": ["who", "what"], "time": "when", "count": "n"} | options)


@pytest.mark.parametrize(
    ("line", "problem", "reason"),
    [
        ("Ada,tea,soon,1", r"when is 'soon', which cannot be read as a date \(1 such row\)", "unreadable time"),
        ("Ada,tea,2024-01-01,-1", "n is '-1', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,1.5", "n is '1.5', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,many", "n is 'many', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,", "n is '', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,inf", "n is 'inf', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01", "Expected Number of Columns: 4", "line that is no row"),
        ("Ada,tea,2024-01-01,1,2,3", "Expected Number of Columns: 4", "line that is no row"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_row_that_cannot_be_read_is_named_or_dropped(tmp_path, line, problem, reason, compressed):
    text = f"{HEADER}{GOOD}{line}\n{GOOD}".encode()
    path = tmp_path / ("a.csv.gz" if compressed else "a.csv")
    path.write_bytes(gzip.compress(text) if compressed else text)
    with pytest.raises(InputError, match=rf"{path.name}, line 3: {problem}.*on_error='drop'"):
        read(path)
    tensor = read(path, on_error="drop")
    assert tensor.total == 2
    assert tensor.report.rows == 3
    assert tensor.report.dropped == {reason: 1}


def test_the_file_with_the_bad_row_is_named_among_several(tmp_path):
    write(tmp_path / "a.csv", HEADER + GOOD)
    write(tmp_path / "b.csv", HEADER + GOOD + "Ada,tea,later,1\n" + "Ada,tea,hence,1\n")
    with pytest.raises(InputError, match=r"b\.csv, line 3: when is 'later'.*\(2 such rows\)"):
        read(tmp_path)


def test_a_bad_value_in_a_frame_is_shown():
    frame = pd.DataFrame({"who": ["Ada"], "what": ["tea"], "when": ["soon"], "n": [1]})
    with pytest.raises(InputError, match="when is 'soon', which cannot be read as a date"):
        read(frame)


def test_a_missing_column_is_named_with_the_nearest_one(tmp_path):
    path = write(tmp_path / "a.csv", HEADER + GOOD)
    with pytest.raises(InputError, match=r"a\.csv has no column 'whom'; the nearest is 'who'; its columns are who, wh"):
        read(path, modes=["whom", "what"])
    with pytest.raises(InputError, match="no column 'whn'; the nearest is 'when'"):
        read(path, time="whn")
    with pytest.raises(InputError, match="no column 'whatt'; the nearest is 'what'"):
        read(path, where={"whatt": "tea"})


def test_a_table_of_no_known_format_needs_modes(tmp_path):
    path = write(tmp_path / "a.csv", HEADER + GOOD)
    with pytest.raises(InputError, match=r"which columns are the modes\?.*the columns are who, what, when, n"):
        ac.read_events(path)


def test_a_line_that_is_not_json_is_named_or_dropped(tmp_path):
    text = '{"who": "Ada", "what": "tea"}\n{"who": "Ada", "what"\n{"who": "Max", "what": "tea"}\n'
    path = write(tmp_path / "a.jsonl", text)
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: that is not an object of JSON"):
        ac.read_events(path, modes=["who", "what"])
    tensor = ac.read_events(path, modes=["who", "what"], on_error="drop")
    assert tensor.total == 2
    assert sum(tensor.report.dropped.values()) == 1


BROKEN = {
    "empty.csv": b"",
    "header.csv": HEADER.encode(),
    "short.csv.gz": gzip.compress((HEADER + GOOD * 5000).encode())[:-30],
    "no.csv.gz": (HEADER + GOOD).encode(),
    "no.csv.zst": (HEADER + GOOD).encode(),
    "wide.csv": (HEADER + GOOD).encode("utf-16"),
    "open.csv": (HEADER + '"Ada,tea,2024-01-01,1\n' + GOOD).encode(),
    "bytes.csv": bytes(range(256)) * 9,
    "no.parquet": b"PAR1 and no more PAR1",
    "empty.parquet": b"",
    "empty.jsonl": b"",
    "list.json": b'[{"who": "Ada"}]',
    "table.xlsx": b"PK",
    "table": GOOD.encode(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_an_input_error(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(BROKEN[name])
    with pytest.raises(InputError) as caught:
        read(path)
    assert name in str(caught.value) or "0 rows" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("nowhere.csv", "no such file exists"),
        ("*.csv", "no file matches that pattern"),
        (".", "that folder has no files"),
        ([], "it names no file"),
        ([3], "every entry must be a path"),
    ],
)
def test_a_source_without_files_is_an_input_error(tmp_path, monkeypatch, source, problem):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=problem):
        read(source)


def test_files_of_different_formats_are_not_mixed(tmp_path):
    write(tmp_path / "a.tab", text_of(ICEWS, icews_rows()))
    write(tmp_path / "b.csv", text_of(GDELT[61], gdelt_rows(), header=False))
    with pytest.raises(InputError, match=r"several formats: .*a\.tab \(icews\), .*b\.csv \(gdelt\)"):
        ac.read_events(tmp_path)


@pytest.mark.parametrize("where", ["who =", "nobody = 1", "foo(who)", "who", "sum(n)", "who = 'x", 5, ["who"]])
def test_a_broken_condition_is_an_input_error(tmp_path, where):
    with pytest.raises(InputError, match="where is"):
        read(write(tmp_path / "a.csv", HEADER + GOOD), where=where)


@pytest.mark.parametrize("name", ["format", "freq", "dedup", "diagonal", "on_error", "min_count"])
def test_an_option_that_does_not_exist_is_an_input_error(tmp_path, name):
    with pytest.raises(InputError, match=f"{name} is 'odd'"):
        read(write(tmp_path / "a.csv", HEADER + GOOD), **{name: "odd"})


def test_counts_too_large_for_a_tensor_are_an_input_error():
    frame = pd.DataFrame({"who": ["a"] * 2000, "what": ["b"] * 2000, "n": [2**53 - 1] * 2000})
    with pytest.raises(InputError):
        ac.read_events(frame, modes=["who", "what"], count="n")

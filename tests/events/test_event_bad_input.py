"""What is wrong with a source is said in one error, with the file and the line; or the rows are dropped and counted."""

import gzip
import random
from collections import Counter
from functools import cache

import numcodecs
import pandas as pd
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from support.errors import refused
from support.event_files import GDELT, ICEWS, cells, findings, gdelt_rows, icews_rows, text_of, write
from support.tiers import by_tier, parametrize_few

HEADER = "who,what,when,n\n"
GOOD = "Ada,tea,2024-01-01,1\n"


PACKED = {"": bytes, ".gz": gzip.compress, ".zst": lambda text: bytes(numcodecs.Zstd(checksum=True).encode(text))}


def read(path, **options):
    return ac.read_events(path, **{"modes": ["who", "what"], "time": "when", "count": "n"} | options)


@parametrize_few(
    ("line", "problem", "reason"),
    [
        ("Ada,tea,soon,1", "when is 'soon', which cannot be read as a date (1 such row)", "unreadable time"),
        ("Ada,tea,2024-01-01,-1", "n is '-1', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,1.5", "n is '1.5', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,many", "n is 'many', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,", "n is '', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01,inf", "n is 'inf', which is not a whole number", "count that is not a whole number"),
        ("Ada,tea,2024-01-01", "the line has 3 columns, but the table has 4", "line that is not a row"),
        ("Ada,tea,2024-01-01,1,2,3", "the line has 5 columns, but the table has 4", "line that is not a row"),
    ],
)
@parametrize_few(("ending", "new_line"), by_tier([("", "\n"), (".gz", "\r\n")], PACKED, ["\n", "\r\n"]))
def test_a_row_that_cannot_be_read_is_named_or_dropped(tmp_path, line, problem, reason, ending, new_line):
    text = f"{HEADER}{GOOD}{line}\n{GOOD}".replace("\n", new_line).encode()
    path = tmp_path / f"a.csv{ending}"
    path.write_bytes(PACKED[ending](text))
    with refused("source", str(path), f"at line 3: {problem}") as caught:
        read(path)
    assert "`on_error`" in caught.value.rule
    tensor = read(path, on_error="drop")
    assert tensor.total == 2
    assert tensor.report.rows == 3
    assert tensor.report.dropped == {reason: 1}


def test_the_file_with_the_bad_row_is_named_among_several(tmp_path):
    write(tmp_path / "a.csv", HEADER + GOOD)
    write(tmp_path / "b.csv", HEADER + GOOD + "Ada,tea,later,1\n" + "Ada,tea,hence,1\n")
    with refused("source", str(tmp_path / "b.csv"), "at line 3: when is 'later'") as caught:
        read(tmp_path)
    assert "(2 such rows)" in caught.value.rule


def json_object(texts):
    return "{" + ", ".join(f'"{name}": {text}' for name, text in texts.items()) + "}"


@parametrize_few(
    ("key", "value"), [("when", '"soon"'), ("n", "-1"), ("n", "[1]"), ("n", "1.5"), ("n", "null")], quick=3
)
def test_the_line_of_a_bad_value_in_json_is_named(tmp_path, key, value):
    row = {"who": '"Ada"', "what": '"tea"', "when": '"2024-01-01"', "n": "1"}
    good, bad = (json_object(each) for each in (row, row | {key: value}))
    path = write(tmp_path / "a.jsonl", f"{good}\n\n{bad}\n{good}\n")
    with refused("source", str(path), f"at line 3: {key} is "):
        read(path)


def test_the_file_given_is_named_where_a_copy_in_another_encoding_was_read(tmp_path):
    path = write(tmp_path / "a.csv", f"{HEADER}Zoë,tea,2024-01-01,1\nZoë,tea,soon,1\n", "latin-1")
    with refused("source", str(path), "at line 3: when is 'soon'"):
        read(path)
    write(path, f"{HEADER}Zoë,tea,2024-01-01,1\nZoë,tea\n", "latin-1")
    with refused("source", str(path), "at line 3: the line has 2 columns"):
        read(path)


def test_files_without_rows_are_told_of_where_others_have_some(tmp_path):
    write(tmp_path / "a.csv", HEADER + GOOD)
    header, empty = write(tmp_path / "b.csv", HEADER), write(tmp_path / "c.csv", "")
    without = {"files-without-rows": {"files": [str(header)]}}
    assert findings(read([tmp_path / "a.csv", header]).report) == without
    with refused("source", str(empty), "is empty"):
        read(tmp_path)
    assert findings(read(tmp_path, on_error="drop").report) == {"empty-files": {"files": [str(empty)]}} | without


def test_an_error_says_why_nothing_is_left(tmp_path):
    path = write(tmp_path / "a.csv", HEADER + "Ada,tea\n")
    with refused("source", str(path), "has 1 row, but none is left for the tensor: 1 dropped (line that is not a row)"):
        read(path, on_error="drop")
    with refused("source", str(path), "has 0 rows"):
        read(write(path, HEADER))


def test_a_bad_value_in_a_frame_is_shown():
    frame = pd.DataFrame({"who": ["Ada"], "what": ["tea"], "when": ["soon"], "n": [1]})
    with refused("source", "a data frame", "when is 'soon', which cannot be read as a date"):
        read(frame)


def test_a_missing_column_is_named_with_the_nearest_one(tmp_path):
    path = write(tmp_path / "a.csv", HEADER + GOOD)
    with refused("modes", ["whom", "what"], f"needs the column 'whom', which {path} does not have") as caught:
        read(path, modes=["whom", "what"])
    assert caught.value.rule.endswith("; the nearest is 'who'; its columns are who, what, when, n")
    with refused("time", "whn", "needs the column 'whn', which"):
        read(path, time="whn")
    with refused("where", {"whatt": "tea"}, "does not have; the nearest is 'what'; its columns are"):
        read(path, where={"whatt": "tea"})


def test_a_table_of_no_known_format_needs_modes(tmp_path):
    path = write(tmp_path / "a.csv", HEADER + GOOD)
    with refused("modes", NO_VALUE, "the columns are who, what, when, n"):
        ac.read_events(path)


JSON = '{"who": "Ada", "what": "tea"}\n'
NOT_JSON = [
    b'{"who": "Ada", "what"',
    b"hello",
    b"[1, 2]",
    b'"tea"',
    b"5",
    b"{} {}",
    b'{"who": "Zo\xeb", "what": "tea"}',
]


@parametrize_few(
    ("line", "ending"),
    by_tier([*((line, "") for line in NOT_JSON), *((NOT_JSON[0], each) for each in PACKED)], NOT_JSON, PACKED),
    ids=repr,
)
def test_a_line_that_is_not_json_is_named_or_dropped(tmp_path, line, ending):
    path = tmp_path / f"a.jsonl{ending}"
    path.write_bytes(PACKED[ending](JSON.encode() + line + b"\n" + JSON.encode()))
    with refused("source", str(path), "at line 2: this is not a JSON object; set `on_error`"):
        ac.read_events(path, modes=["who", "what"])
    tensor = ac.read_events(path, modes=["who", "what"], on_error="drop")
    assert cells(tensor) == {("Ada", "tea"): 2}
    assert tensor.report.rows == 3
    assert tensor.report.dropped == {"line that is not a row": 1}


def test_a_bad_line_behind_those_that_are_sampled_is_named_with_its_file(tmp_path):
    write(tmp_path / "a.jsonl", JSON)
    write(tmp_path / "b.jsonl", JSON * 5000 + '{"who"\n' + JSON)
    with refused("source", str(tmp_path / "b.jsonl"), "at line 5001: this is not a JSON object"):
        ac.read_events(tmp_path, modes=["who", "what"])
    assert ac.read_events(tmp_path, modes=["who", "what"], on_error="drop").total == 5002


def test_an_object_without_the_columns_is_a_row_without_labels_and_not_an_error(tmp_path):
    path = write(tmp_path / "a.jsonl", f'{JSON}\n{{}}\n{{"other": 1}}\n{{"who": null, "what": "tea"}}\n')
    tensor = ac.read_events(path, modes=["who", "what"], on_error="raise")
    assert tensor.report.dropped == {"no who": 3}
    assert tensor.report.rows == 4


VALUES = '{"who": 1, "what": 1.50}\n{"who": true, "what": {"a": [1]}}\n{"who": "1", "what": "it\'s \\"Zo\\u00eb\\""}\n'


def test_values_of_json_are_the_same_texts_whether_bad_lines_are_dropped_or_not(tmp_path):
    path = write(tmp_path / "a.jsonl", VALUES)
    strict = ac.read_events(path, modes=["who", "what"])
    assert strict.labels == (("1", "true"), ("1.5", 'it\'s "Zoë"', '{"a":[1]}'))
    write(path, VALUES + "{")
    assert ac.read_events(path, modes=["who", "what"], on_error="drop") == strict


@cache
def _many_lines(number=60_000):
    rng = random.Random(0)
    return [f"{rng.choice('ABC')},{rng.random():.3f}" for _ in range(number)]


@pytest.mark.parametrize(
    ("missing", "ending"),
    by_tier([(9, ".gz"), (90_000, ".zst")], [1, 4, 9, 1000, 90_000], [".gz", ".zst"]),
)
def test_a_compressed_file_that_is_cut_off_is_an_error_or_read_up_to_there(tmp_path, ending, missing):
    lines = _many_lines()
    path = tmp_path / f"b.csv{ending}"
    path.write_bytes(PACKED[ending]("\n".join(["who,what", *lines, ""]).encode())[:-missing])
    write(tmp_path / "a.csv", "who,what\nA,x\n")
    with refused("source", str(path)):
        ac.read_events(tmp_path, modes=["who", "what"])
    tensor = ac.read_events(tmp_path, modes=["who", "what"], on_error="drop")
    read = tensor.total - 1
    assert cells(tensor) == Counter([tuple(line.split(",")) for line in lines[:read]]) + Counter({("A", "x"): 1})
    assert read > (len(lines) / 10 if missing > 1000 else len(lines) * 0.7)
    assert tensor.report.dropped == {"line that is not a row": 1}
    assert findings(tensor.report) == {"cut-off-file": {"file": str(path), "lines": read + 1}}


def test_zst_in_several_frames_is_whole(tmp_path):
    skipped = (0x184D2A53).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    path = tmp_path / "a.csv.zst"
    whole = skipped + PACKED[".zst"]((HEADER + GOOD).encode()) + skipped + PACKED[".zst"](GOOD.encode())
    path.write_bytes(whole)
    assert read(path).total == 2
    for short in range(1, len(skipped)):
        path.write_bytes((whole + skipped)[:-short])
        with refused("source", str(path), "is cut off"):
            read(path)


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
    with refused("source", str(path)):
        read(path)
    if name in ("short.csv.gz", "open.csv"):  # of which some lines are left
        return
    with refused("source", str(path)):
        read(path, on_error="drop")


@pytest.mark.parametrize(
    ("source", "value", "rule"),
    [
        ("nowhere.csv", "nowhere.csv", "must be a file or folder that exists"),
        ("https://example.org/a.csv", "https://example.org/a.csv", "must be a file or folder that exists"),
        ("", "", "must be a file or folder that exists"),
        ("*.csv", "*.csv", "must match a file"),
        (".", ".", "must be a folder with tables: it is empty"),
        ([], [], "must name at least one file"),
        ([3], "a list with 3 in it", "must have only paths as entries"),
    ],
)
def test_a_source_without_files_is_an_input_error(tmp_path, monkeypatch, source, value, rule):
    monkeypatch.chdir(tmp_path)
    with refused("source", value, rule):
        read(source)


def test_files_of_different_formats_are_not_mixed(tmp_path):
    write(tmp_path / "a.tab", text_of(ICEWS, icews_rows()))
    write(tmp_path / "b.csv", text_of(GDELT[61], gdelt_rows(), header=False))
    with refused("source", f"{tmp_path / 'a.tab'} (icews), {tmp_path / 'b.csv'} (gdelt)", "files of one format"):
        ac.read_events(tmp_path)


@pytest.mark.parametrize("where", ["who =", "nobody = 1", "foo(who)", "who", "sum(n)", "who = 'x", 5, ["who"]])
def test_a_broken_condition_is_an_input_error(tmp_path, where):
    with refused("where", where):
        read(write(tmp_path / "a.csv", HEADER + GOOD), where=where)


@pytest.mark.parametrize("name", ["format", "freq", "dedup", "diagonal", "on_error", "min_count"])
def test_an_option_that_does_not_exist_is_an_input_error(tmp_path, name):
    with refused(name, "odd"):
        read(write(tmp_path / "a.csv", HEADER + GOOD), **{name: "odd"})


def test_counts_too_large_for_a_tensor_are_an_input_error():
    frame = pd.DataFrame({"who": ["a"] * 2000, "what": ["b"] * 2000, "n": [2**53 - 1] * 2000})
    with refused("source", NO_VALUE, "cannot be made into a tensor: "):
        ac.read_events(frame, modes=["who", "what"], count="n")
    with refused("counts", rule="must add up to at most 2^50"):
        ac.read_events(frame[:1], modes=["who", "what"], count="n")

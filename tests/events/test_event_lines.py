"""Every line of a file is a row, part of a row, or counted as dropped: none disappears."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import allocore as ac
from allocore.events.sources import FileDialect, count_lines, split_records
from support.errors import refused
from support.event_files import cells
from support.tiers import parametrize_few

MODES = ["who", "what", "where", "how"]


def row(number):
    return f"w{number % 7},x{number % 5},y{number % 3},z{number % 2}"


def table(changes, rows=1000):
    """A table of many rows in which some lines, counted from 1 for the header, are replaced."""
    lines = [",".join(MODES), *(row(number) for number in range(rows))]
    for number, line in changes.items():
        lines[number - 1] = line
    return "".join(f"{line}\n" for line in lines)


def expected(without=(), rows=1000):
    """The cells of the table without some of its lines."""
    return Counter(tuple(row(number).split(",")) for number in range(rows) if number + 2 not in without)


def read(path, text, **options):
    path.write_bytes(text.encode())
    return ac.read_events(path, modes=MODES, **options)


STRAY = {
    "opens and is never closed": {11: '"w1,x1,y1,z1'},
    "opens in the last field": {11: 'w1,x1,y1,"z1'},
    "opens, and another closes 490 lines later": {11: 'w1,"x1,y1,z1', 501: 'w1,x1,y1",z1'},
    "opens and closes in the next line": {11: 'w1,"x1,y1,z1', 12: 'w1,x1",y1,z1'},
    "text after a closing quote": {11: '"w1"w,x1,y1,z1'},
    "opens before a quoted field": {11: 'w1,x1,"y1,z1', 700: 'w5,x3,"y1",z0'},
    "twice": {11: '"w1,x1,y1,z1', 600: 'w1,x1,"y1,z1'},
}


@parametrize_few("changes", STRAY.values(), quick=5, ids=STRAY.keys())
def test_a_stray_quote_is_an_error_that_names_its_line(tmp_path, changes):
    with refused("source", str(tmp_path / "t.csv"), "at line 11: "):
        read(tmp_path / "t.csv", table(changes))


@parametrize_few("changes", STRAY.values(), quick=1, ids=STRAY.keys())
@parametrize_few("suffix", ["csv", pytest.param("csv.gz", marks=pytest.mark.slow)])
def test_a_stray_quote_costs_its_own_line_and_no_other(tmp_path, changes, suffix):
    path, text = tmp_path / f"t.{suffix}", table(changes)
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    Y = ac.read_events(path, modes=MODES, on_error="drop")
    assert Y.report.rows == 1000
    assert Y.report.kept + sum(Y.report.dropped.values()) == 1000
    assert Y.report.kept >= 1000 - len(changes)
    assert Y.total == Y.report.kept
    counted, others = cells(Y), expected(without=changes)
    assert all(counted[cell] >= count for cell, count in others.items()), "each row without a stray quote is there"
    assert all(count <= expected()[cell] + 1 for cell, count in counted.items() if '"' not in "".join(cell))


def test_labels_may_have_line_ends_and_the_report_counts_them(tmp_path):
    text = table({11: 'w1,x1,y1,"two\nlines"', 20: '"a ""b""\n\n c",x1,y1,z1'})
    Y = read(tmp_path / "t.csv", text)
    assert (Y.report.rows, Y.report.kept, Y.report.inner_lines) == (1000, 1000, 2)
    assert "two\nlines" in Y.labels[3]
    assert 'a "b"\n\n c' in Y.labels[0]
    lines = [line for line in text.splitlines() if line]
    assert len(lines) == 1 + Y.report.rows + Y.report.inner_lines
    assert ("lines between quotes", "2") in Y.report.lines()


def test_notes_of_several_lines_are_no_stray_quotes(tmp_path):
    note = '"They met,\nthey spoke, at length,\nand they left."'
    text = "who,what,note\n" + "".join(f"a{n},b{n % 2},{note}\n" for n in range(50))
    path = tmp_path / "t.csv"
    path.write_text(text)
    Y = ac.read_events(path, modes=["who", "what"])
    assert (Y.report.rows, Y.report.kept, Y.report.inner_lines) == (50, 50, 100)


@pytest.mark.parametrize("on_error", ["raise", "drop"])
@pytest.mark.parametrize("place", [3, pytest.param(1001, marks=pytest.mark.slow)], ids=["within", "last"])
def test_a_line_that_is_too_long_is_never_dropped_silently(tmp_path, on_error, place):
    text = table({place: "w1,x1,y1," + "z" * 17_000_000})
    if on_error == "raise":
        with refused("source", str(tmp_path / "t.csv"), f"at line {place}: ") as caught:
            read(tmp_path / "t.csv", text)
        assert "longer" in caught.value.rule or "line size" in caught.value.rule
    else:
        Y = read(tmp_path / "t.csv", text, on_error=on_error)
        assert (Y.report.rows, Y.report.kept, Y.report.dropped) == (1000, 999, {"line that is not a row": 1})


def test_an_unclosed_quote_in_the_header_is_an_error_even_with_drop(tmp_path):
    with refused("source", str(tmp_path / "t.csv")):
        read(tmp_path / "t.csv", table({1: 'who,what,where,"how'}), on_error="drop")


def test_lines_of_json_add_up_too(tmp_path):
    objects = [json.dumps({"a": f"a{n}", "b": "x\ny"}) for n in range(5)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join([*objects[:2], "", "   ", "nonsense", "[1]", "7", *objects[2:]]))
    Y = ac.read_events(path, modes=["a", "b"], on_error="drop")
    assert (Y.report.rows, Y.report.kept, Y.report.dropped) == (8, 5, {"line that is not a row": 3})
    path.write_text(f"{objects[0]}\n{objects[1]} {objects[2]}\n{objects[3]}\n")
    with refused("source", str(path)):
        ac.read_events(path, modes=["a", "b"])


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["windows", "mac"])
def test_all_line_ends_are_counted(tmp_path, end):
    Y = read(tmp_path / "t.csv", table({}).replace("\n", end))
    assert (Y.report.rows, Y.report.kept) == (1000, 1000)
    assert cells(Y) == expected()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.text('ab,"\n', max_size=5), min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_was_written_with_quotes_is_split_into_its_records(tmp_path_factory, rows, end):
    def field(text, place):
        return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') or not place else text

    text = "".join(",".join(field(part, place) for place, part in enumerate(each)) + end for each in rows)
    # Without the number of columns, no line looks like a row.
    records = list(split_records(iter(text.splitlines(keepends=True)), FileDialect("text", ())))
    assert [record for record in records if record.problem] == []
    assert len(records) == len(rows)
    path = tmp_path_factory.getbasetemp() / "lines.csv"
    path.write_bytes(text.encode())
    assert count_lines(path) == sum(1 for line in text.replace("\r", "\n").split("\n") if line)

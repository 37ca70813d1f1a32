"""The report says what became of every row, and it stays with the tensor."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.tensor.event_report import EventReport
from support.errors import refused
from support.event_files import EVENTS, ICEWS, icews_rows, text_of, write

MORE = [
    ("2018-02-01", "", "Israel", "010"),
    ("2018-02-01", "Atlantis", "Israel", "010"),
    ("2018-02-02", "Atlantis", "Israel", "010"),
    ("2018-02-01", "Mu", "Israel", "010"),
    ("2018-02-01", "Middle East", "Israel", "010"),
    ("2018-02-01", "Israel", "Ukraine", "abc"),
    ("2018-04-30", "Israel", "Ukraine", "010"),
    ("", "Israel", "Ukraine", "010"),
]


@pytest.fixture(scope="module")
def tensor(tmp_path_factory):
    rows = icews_rows([*EVENTS, *MORE])
    rows.append(rows[0])
    path = write(tmp_path_factory.mktemp("events") / "a.tab", text_of(ICEWS, rows))
    return ac.read_events(path, dedup="story", where={"Event ID": [str(n) for n in range(13)] + ["13"]})


def test_every_row_is_kept_or_dropped_for_one_reason(tensor):
    report = tensor.report
    assert report.rows == 15
    assert report.duplicates == 1
    assert report.kept == len(EVENTS) + 1
    assert report.dropped == {
        "unknown sender": 3,
        "no sender": 1,
        "no time": 1,
        "region, not a country": 1,
        "unknown action": 1,
    }
    assert report.rows == report.kept + report.duplicates + sum(report.dropped.values())


def test_what_was_not_understood_is_listed_with_its_rows(tensor):
    assert tensor.report.unknown == {"sender": {"Atlantis": 2, "Middle East": 1, "Mu": 1}, "action": {"abc": 1}}


def test_dates_are_those_of_the_first_and_the_last_event(tensor):
    assert tensor.report.dates == ("2018-01-03", "2018-04-30")
    assert tensor.labels[3] == ("2018-01", "2018-02", "2018-03", "2018-04")


def test_the_report_prints_as_aligned_lines(tensor):
    lines = str(tensor.report).splitlines()
    assert lines[0].endswith("15 from 1 file, format icews")
    text = "\n".join(lines)
    assert "dropped: unknown sender" in text
    assert "duplicates left out" in text
    assert "of these on the diagonal, which is missing  1" in text
    assert "'Atlantis' (2), 'Middle East' (1), 'Mu' (1)" in text
    assert "2018-01-03 to 2018-04-30" in text
    assert repr(tensor) in text
    width = len("of these on the diagonal, which is missing")
    assert all(line[width : width + 2] == "  " and line[width + 2] != " " for line in lines)


def test_the_report_escapes_what_a_browser_would_take_for_markup():
    frame = pd.DataFrame({"a <b>": ["<script>alert('x')</script>"], "b": ["R&D"]})
    html = ac.read_events(frame, modes=["a <b>", "b"]).report._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "R&amp;D" in html
    assert html.startswith("<table>")


def test_a_long_list_of_what_was_not_understood_is_cut(tmp_path):
    events = [*EVENTS, *(("2018-02-01", f"Nowhere {number}", "Israel", "010") for number in range(20))]
    report = ac.read_events(write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(events)))).report
    assert "and 14 more" in str(report)
    assert len(report.unknown["sender"]) == 20


def test_only_tensors_of_events_have_a_report():
    assert ac.load_flights().report is None


@pytest.mark.parametrize(
    "change",
    [
        lambda Y: ac.hold_out(Y, 0.2).train,
        lambda Y: Y.with_missing([("Ukraine", None, None, None)]),
        lambda Y: Y.mask_diagonal(),
        lambda Y: Y.with_labels(mode_names=["a", "b", "c", "d"]),
        lambda Y: Y.with_labels([None] * 4),
        lambda Y: ac.as_tensor(Y, mode_names=["a", "b", "c", "d"]),
        lambda Y: ac.as_tensor(Y.to_frame()),
        lambda Y: pickle.loads(pickle.dumps(Y)),
        copy.copy,
        copy.deepcopy,
    ],
)
def test_the_report_stays_with_a_tensor_that_is_changed_or_copied(tensor, change):
    assert change(tensor).report == tensor.report


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_the_report_is_saved_with_the_tensor(tensor, tmp_path, suffix):
    tensor.save(tmp_path / f"y{suffix}")
    again = ac.load_tensor(tmp_path / f"y{suffix}")
    assert again == tensor
    assert again.report == tensor.report
    assert str(again.report) == str(tensor.report)


def test_a_report_without_dates_and_labels_comes_back_from_json():
    report = EventReport("custom", 0, rows=2, kept=1, dropped={"no a": 1}, heaviest={"a": [(0, 3)], "b": [("0", 3)]})
    assert EventReport.from_json(report.to_json()) == report


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '{"heaviest": 1}'])
def test_a_text_that_is_no_report_is_refused(text):
    with refused("report", NO_VALUE, "cannot be read"):
        EventReport.from_json(text)


def test_the_report_keeps_a_condition_in_any_form_for_more_events():
    sales = {"a": {"sale"}, "b": frozenset(["sale"]), "c": ("sale",), "d": ["sale"], "e": np.array(["sale"])[0]}
    kinds = {name: ["sale", "gift"] for name in sales}
    frame = pd.DataFrame({"who": ["x", "y"], "what": ["p", "q"], "n": [1, 2]} | kinds)
    Y = ac.read_events(frame, modes=["who", "what"], where=sales | {"n": np.int64(1)})
    reading = EventReport.from_json(Y.report.to_json()).reading
    assert ac.read_events(frame, **reading).report.kept == 1


@pytest.mark.parametrize(
    "reading",
    [
        {"out": "y.zarr"},
        {"colour": 3},
        {"modes": [[1]]},
        {"time": ["a"]},
        {"where": {"a": {"b": 1}}},
        {"modes": "a"},
        3,
    ],
)
def test_a_report_with_other_arguments_is_refused(tensor, reading):
    parts = json.loads(tensor.report.to_json()) | {"reading": reading}
    with refused("report", NO_VALUE, "cannot be read"):
        EventReport.from_json(json.dumps(parts))


def test_a_report_that_was_saved_with_notes_is_read_and_shows_them():
    parts = json.loads(EventReport("custom", 0, rows=2, kept=2).to_json())
    del parts["findings"]
    report = EventReport.from_json(json.dumps(parts | {"notes": ["dates were read as month/day/year"]}))
    assert report.sentences == ("dates were read as month/day/year",)
    assert ("note", "dates were read as month/day/year") in report.lines()
    assert EventReport.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    "finding",
    [
        {"kind": "nonsense", "level": "note", "values": {}},
        {"kind": "no-hours", "level": "odd", "values": {"argument": "freq"}},
        {"kind": "no-hours", "level": "note", "values": {"colour": 3}},
        {"kind": "repaired-codes", "level": "note", "values": {"mode": "a", "rows": "many"}},
        {"kind": "no-hours"},
        3,
    ],
)
def test_a_report_with_a_damaged_finding_is_refused(finding):
    parts = json.loads(EventReport("custom", 0, rows=2, kept=2).to_json()) | {"findings": [finding]}
    with refused("report", NO_VALUE, "cannot be read"):
        EventReport.from_json(json.dumps(parts))


def test_a_tensor_of_events_is_as_the_constructor_would_make_it(tensor):
    """Its labels were checked and its cells sorted once, while it was counted."""
    again = ac.CountTensor(
        tensor.coords[:, ::-1],
        tensor.counts[::-1],
        tensor.shape,
        mode_names=tensor.mode_names,
        labels=tensor.labels,
        missing=tensor.missing,
    )
    assert again == tensor
    assert np.array_equal(again.coords, tensor.coords)
    assert again.coords.dtype == tensor.coords.dtype
    assert not tensor.counts.flags.writeable

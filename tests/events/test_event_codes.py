"""CAMEO codes have their words in any table, and tensors of earlier versions, without words, fit the new ones."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import allocore as ac
from allocore.forecast.scores import future_counts
from allocore.tensor.concat import matched_rows
from support.errors import refused
from support.event_files import cells, findings, write


def _frame(codes, name="cameo_root", day="2024-01-05"):
    return pd.DataFrame({"who": [f"w{n % 2}" for n in range(len(codes))], name: codes, "day": day})


def _labels(codes, name="cameo_root", **options):
    tensor = ac.read_events(_frame(codes, name), modes=["who", name], **options)
    return tensor.labels[1], findings(tensor.report)


def test_a_column_that_is_named_like_codes_and_has_only_codes_gets_words():
    names = ["cameo", "cameo_code", "cameo_root", "CAMEO Root", "event_root_code"]
    tensor = ac.read_events(pd.DataFrame({name: ["04", "19", "04"] for name in names}), modes=names)
    assert tensor.labels == (("04 Consult", "19 Fight"),) * 5
    assert findings(tensor.report) == {}


def test_files_and_frames_agree(tmp_path):
    path = write(tmp_path / "t.csv", "who,cameo_code\na,042\nb,04\na,1831\n")
    expected = ("04 Consult", "042 Make a visit", "1831 Carry out suicide bombing")
    assert ac.read_events(path, modes=["who", "cameo_code"]).labels[1] == expected
    frame = pl.DataFrame({"who": ["a", "b", "a"], "cameo_code": ["042", "04", "1831"]})
    assert ac.read_events(frame, modes={"who": "who", "what": "cameo_code"}).labels[1] == expected


def test_roots_that_were_saved_as_numbers_are_roots():
    for codes in ([4, 19, 4], [4.0, 19.0, 4.0], ["4", "19", "04"]):
        assert _labels(codes)[0] == ("04 Consult", "19 Fight")


def test_only_roots_that_occur_are_labels_and_rare_ones_can_be_left_out():
    assert _labels(["04", "19", "04"], min_count=2)[0] == ("04 Consult",)


@pytest.mark.parametrize(
    ("codes", "name"),
    [
        (["04", "21"], "cameo_root"),
        (["14", "190"], "cameo_code"),  # 14 may be 014
        (["14", "19"], "cameo_code"),
        (["42", "193"], "cameo_code"),  # 042 without its zero
    ],
)
def test_codes_that_are_not_clear_stay_as_they_are_and_that_is_noted(codes, name):
    assert _labels(codes, name) == (tuple(codes), {"codes-without-words": {"mode": name, "column": name}})


def test_other_columns_stay_as_they_are():
    columns = {name: ["04", "19"] for name in ("code", "event_code", "root", "camera")}
    columns["cameo_text"] = ["Consult", "Fight"]
    tensor = ac.read_events(pd.DataFrame(columns), modes=list(columns))
    assert tensor.labels == tuple(map(tuple, columns.values()))
    assert findings(tensor.report) == {}


def test_the_order_of_categories_is_kept():
    codes = pd.Categorical(["04", "19", "04"], categories=["19", "04"], ordered=True)
    assert _labels(codes)[0] == ("19 Fight", "04 Consult")


@pytest.fixture(scope="module")
def old():
    """A tensor as it was read before codes had words."""
    new = ac.read_events(_frame(["04", "19"], day="2023-12-05"), modes=["who", "cameo_root"], time="day")
    return new.with_labels({"cameo_root": [label.split()[0] for label in new.labels[1]]})


@pytest.fixture(scope="module")
def new():
    """A later tensor, with words."""
    return ac.read_events(_frame(["04", "19"]), modes=["who", "cameo_root"], time="day")


@pytest.mark.parametrize("bare", [["04", "19"], ["4", "19"]])
def test_more_events_are_read_into_the_rows_of_a_tensor_without_words(old, bare):
    like = old.with_labels({"cameo_root": bare})
    more = ac.read_events(_frame(["19", "04", "19"]), like=like)
    assert more.labels[1] == tuple(bare)
    assert cells(more) == {("w0", bare[1], "2024-01"): 2, ("w1", bare[0], "2024-01"): 1}


def test_codes_that_a_tensor_without_words_does_not_have_are_new_labels_without_words(old):
    with refused("source", rule="labels that `like` does not have: in cameo_root '20'"):
        ac.read_events(_frame(["19", "20"]), like=old, new_labels="error")
    appended = ac.read_events(_frame(["19", "20"]), like=old, new_labels="append")
    assert appended.labels[1] == ("04", "19", "20")


def test_codes_without_words_are_read_into_the_rows_of_a_tensor_with_words(new):
    like = new.with_labels(mode_names=["who", "action", "day"])
    assert ac.read_events(_frame(["19"], "action"), like=like).labels[1] == ("04 Consult", "19 Fight")


@pytest.mark.parametrize("join", ["equal", "outer"])
def test_tensors_with_and_without_words_are_joined(old, new, join):
    for parts in ([old, new], [old, new.with_labels({"cameo_root": ["04", "19"]})]):
        joined = ac.concat(parts, mode="day", join=join)
        assert joined.shape == (2, 2, 2)
        assert joined.labels[1] == parts[1].labels[1]


def test_labels_that_only_the_part_without_words_has_get_theirs_too(old, new):
    other = new.with_labels({"cameo_root": ["04 Consult", "20 Engage in unconventional mass violence"]})
    joined = ac.concat([old, other], mode="day", join="outer")
    assert joined.labels[1] == ("04 Consult", "19 Fight", "20 Engage in unconventional mass violence")


def test_new_rows_and_what_happened_later_match_a_fit_without_words(old, new):
    matched = matched_rows(new, old, along=(2,))
    assert matched.labels[:2] == old.labels[:2]
    assert np.array_equal(matched.to_dense(), new.to_dense())
    future = old.with_labels({"day": ["2024-01"]})
    _, not_scored = future_counts(new, future, 2)
    assert not_scored == []


def test_a_code_finds_its_label_with_words_or_without(old, new):
    for code in ("04", "4", 4, "04 Consult"):
        assert new.select(cameo_root=code).labels[1] == ("04 Consult",)
    assert new.select(cameo_root=slice("04", "19")).shape[1] == 2
    assert old.select(cameo_root="04 Consult").labels[1] == ("04",)
    assert list(new.with_missing([(None, "04", None)]).missing) == [(None, 0, None)]
    with refused("cameo_root", "05", "its labels go from '04 Consult' to '19 Fight'"):
        new.select(cameo_root="05")


def test_columns_of_codes_in_known_formats_have_words(tmp_path):
    from support.event_files import GDELT, gdelt_rows, text_of

    path = write(tmp_path / "a.export.CSV", text_of(GDELT[58], gdelt_rows(58), header=False))
    labels = ac.read_events(path, modes={"sender": "sender", "code": "EventCode"}).labels[1]
    assert all(label[:3].isdecimal() and " " in label for label in labels)

"""The options of `read_events`: the diagonal, shared labels, conditions, counts, duplicates and modes."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from support.errors import refused
from support.event_files import EVENTS, GDELT, ICEWS, cells, counted, gdelt_rows, icews_rows, text_of, write

TRADE = pd.DataFrame(
    [
        ("A", "B", "2024-01-01", 2, "x"),
        ("B", "A", "2024-02-01", 3, "y"),
        ("A", "A", "2024-02-03", 5, "x"),
        ("C", "B", "2024-04-01", 1, None),
    ],
    columns=["from", "to", "day", "tons", "kind"],
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The usual events of ICEWS, with those of countries with themselves."""
    return icews(tmp_path_factory.mktemp("kept"), diagonal="keep")


@pytest.fixture(scope="module")
def traded():
    """The trade without any option."""
    return trade()


def trade(**options):
    return ac.read_events(TRADE, **{"modes": ["from", "to"]} | options)


def icews(tmp_path, rows=None, **options):
    return ac.read_events(write(tmp_path / "a.tab", text_of(ICEWS, rows or icews_rows())), **options)


def test_the_diagonal_of_a_known_format_is_missing(tmp_path, kept):
    tensor = icews(tmp_path)
    assert cells(tensor) == counted(diagonal=False)
    assert tensor == kept.mask_diagonal(("sender", "receiver"))
    assert tensor.report.diagonal == 1
    assert tensor.report.kept == len(EVENTS)


def test_events_on_a_missing_diagonal_only_are_an_error_that_says_so(tmp_path):
    with refused("source", str(tmp_path / "a.tab"), "only events of actors with themselves; set `diagonal`"):
        icews(tmp_path, icews_rows(EVENTS[-1:]))
    assert icews(tmp_path, icews_rows(EVENTS[-1:]), diagonal="keep").total == 1


def test_the_diagonal_may_be_dropped_and_actors_of_whom_all_events_are_dropped_are_no_labels(tmp_path):
    events = [*EVENTS, ("2018-01-05", "France", "France", "010"), ("2018-01-05", "Peru", "", "010")]
    events.append(("2018-01-05", "Chile", "European Union", "010"))
    tensor = icews(tmp_path, icews_rows(events), diagonal="drop")
    assert cells(tensor) == counted(diagonal=False)
    assert len(tensor.missing) == 0
    assert tensor.report.dropped["sender = receiver"] == 2
    assert {"Chile", "France", "Peru"}.isdisjoint(tensor.labels[0])


def test_the_diagonal_may_be_kept(kept):
    assert cells(kept) == counted()
    assert len(kept.missing) == 0


def test_modes_of_ones_own_have_their_own_labels_and_no_diagonal(traded):
    assert traded.labels == (("A", "B", "C"), ("A", "B"))
    assert cells(traded)["A", "A"] == 1


def test_shared_modes_have_one_list_of_labels_and_a_diagonal():
    tensor = trade(shared_modes=["from", "to"])
    assert tensor.labels == (("A", "B", "C"), ("A", "B", "C"))
    assert ("A", "A") not in cells(tensor)
    assert len(tensor.missing) == 3


@pytest.mark.parametrize("shared", ["from", ["from"], ["from", "from"], ["from", "nobody"], ["from", "day"]])
def test_shared_modes_must_be_two_modes_with_labels(shared):
    with refused("shared_modes", shared, "must name at least two of the modes from, to"):
        trade(time="day", shared_modes=shared)


def test_labels_with_few_counts_are_left_out_and_those_that_then_have_too_few():
    chain = pd.DataFrame({"from": list("AAB"), "to": list("xyz"), "tons": [1, 1, 4]})
    tensor = ac.read_events(chain, modes=["from", "to"], count="tons", min_count=2)
    assert cells(tensor) == {("B", "z"): 4}
    assert tensor.labels == (("B",), ("z",))
    assert tensor.report.dropped == {"counts below min_count 2": 2}


def test_counts_on_a_missing_diagonal_save_no_label():
    tensor = trade(count="tons", min_count=4, shared_modes=["from", "to"])
    assert tensor.labels[0] == ("A", "B")
    with refused("source", NO_VALUE, "none is left for the tensor: 4 dropped (counts below min_count 7)"):
        trade(count="tons", min_count=7, shared_modes=["from", "to"])


def test_actions_and_periods_stay_however_few_their_counts(tmp_path):
    tensor = icews(tmp_path, min_count=2, diagonal="keep")
    assert tensor.labels[0] == tensor.labels[1] == ("Israel", "Russia", "Ukraine")
    assert tensor.shape[2:] == (20, 3)


@pytest.mark.parametrize(
    "where",
    [
        "kind = 'x'",
        {"kind": ["x", "z"]},
        {"kind": "x", "tons": [2, 5]},
        {"tons": (2.0, 5.0)},
    ],
)
def test_where_keeps_rows_by_a_condition_or_by_values(where):
    tensor = trade(where=where)
    assert cells(tensor) == {("A", "B"): 1, ("A", "A"): 1}
    assert tensor.report.dropped == {"left out by where": 2}
    assert tensor.report.rows == 4


def test_where_none_keeps_rows_without_a_value():
    assert cells(trade(where={"kind": [None, "y"]})) == {("C", "B"): 1, ("B", "A"): 1}


def test_where_sees_the_columns_of_files_as_text(tmp_path):
    rows = gdelt_rows()
    rows[0]["IsRootEvent"] = "0"
    path = write(tmp_path / "a.csv", text_of(GDELT[61], rows, header=False))
    by_text = ac.read_events(path, where="IsRootEvent = '1'", diagonal="keep")
    assert by_text == ac.read_events(path, where={"IsRootEvent": 1}, diagonal="keep")
    assert cells(by_text) == counted(EVENTS[1:])


def test_rows_that_where_leaves_out_may_be_unreadable():
    frame = TRADE.assign(day=["?", "2024-01-01", "2024-01-01", "2024-01-01"])
    tensor = ac.read_events(frame, modes=["from", "to"], time="day", where="day <> '?'")
    assert tensor.total == 3


def test_a_count_column_is_summed_and_a_count_of_zero_makes_a_label_but_no_cell():
    tensor = ac.read_events(TRADE.assign(tons=[2, 3, 5, 0]), modes=["from", "to"], count="tons")
    assert cells(tensor) == {("A", "B"): 2, ("B", "A"): 3, ("A", "A"): 5}
    assert tensor.labels[0] == ("A", "B", "C")


STORIES = [
    {"Story ID": "1"},
    {"Story ID": "1"},  # the same story again
    {"Story ID": "2"},  # another story of the same day
    {"Story ID": "1", "Source Name": "somebody else"},
    {"Story ID": "1", "CAMEO Code": "190"},
    {"Story ID": "3", "Event Date": "2018-01-04"},
]


@pytest.mark.parametrize(("dedup", "left"), [("story", 5), ("day", 4)])
def test_repeated_events_of_icews_are_left_out_by_story_or_by_day(tmp_path, dedup, left):
    rows = [row | change for row, change in zip(icews_rows([EVENTS[0]] * 6), STORIES, strict=True)]
    tensor = icews(tmp_path, rows, dedup=dedup)
    assert tensor.total == left
    assert tensor.report.duplicates == 6 - left
    assert tensor.report.rows == tensor.report.kept + tensor.report.duplicates == 6


@pytest.mark.parametrize(("dedup", "left"), [("story", 3), ("day", 2)])
def test_repeated_events_of_gdelt_are_left_out_by_address_or_by_day(tmp_path, dedup, left):
    changes = [{"SOURCEURL": "a"}, {"SOURCEURL": "a"}, {"SOURCEURL": "b"}, {"SOURCEURL": "a", "EventCode": "015"}]
    rows = [row | change for row, change in zip(gdelt_rows(events=[EVENTS[0]] * 4), changes, strict=True)]
    path = write(tmp_path / "a.csv", text_of(GDELT[61], rows, header=False))
    assert ac.read_events(path, dedup=dedup).total == left


def test_events_without_codes_are_told_apart_by_their_words(tmp_path):
    rows = icews_rows([EVENTS[0]] * 2)
    rows[1]["Event Text"] = "Make statement"
    columns = [name for name in ICEWS if name != "CAMEO Code"]
    path = write(tmp_path / "a.tab", text_of(columns, rows))
    assert ac.read_events(path, dedup="day").total == 2


def test_events_of_different_days_are_no_duplicates_where_time_is_no_mode(tmp_path):
    rows = icews_rows([EVENTS[0], EVENTS[0], EVENTS[3]])
    assert icews(tmp_path, rows, modes=["sender", "receiver"], dedup="day").total == 2


def test_of_duplicates_that_differ_in_their_count_the_largest_is_left():
    frame = pd.DataFrame({"a": ["x"] * 3, "b": ["y"] * 3, "d": ["2024-01-01"] * 3, "n": [2, 7, 3]})
    assert ac.read_events(frame, modes=["a", "b"], time="d", count="n", dedup="day").total == 7


def test_stories_need_a_format_that_has_them(tmp_path):
    with refused("dedup", "story", "because no column says which story an event is from"):
        trade(dedup="story")
    with refused("dedup", "story", "because no column says which story an event is from"):
        ac.read_events(write(tmp_path / "a.csv", text_of(GDELT[57], gdelt_rows(57), header=False)), dedup="story")


def test_duplicates_of_a_day_need_a_day():
    with refused("dedup", "day", "needs dates: name their column in `time`"):
        trade(dedup="day")


def test_modes_may_be_a_list_of_columns_or_a_dict_with_their_names(traded):
    tensor = trade(modes={"seller": "from", "buyer": "to"})
    assert tensor.mode_names == ("seller", "buyer")
    assert tensor == traded.with_labels(mode_names=["seller", "buyer"])


def test_time_is_appended_unless_it_is_among_the_modes():
    appended = trade(time="day")
    assert appended.mode_names == ("from", "to", "day")
    within = trade(modes={"month": "day", "from": "from", "to": "to"}, time="day")
    assert within.mode_names == ("month", "from", "to")
    assert within.labels[0] == ("2024-01", "2024-02", "2024-03", "2024-04")
    assert np.array_equal(within.to_dense(), np.moveaxis(appended.to_dense(), 2, 0))


def test_modes_of_a_known_format_may_be_named_by_its_modes_or_its_columns(tmp_path):
    by_mode = icews(tmp_path, modes=["receiver", "time"])
    assert by_mode.mode_names == ("receiver", "time")
    assert cells(by_mode) == Counter({cell[1::2]: 0 for cell in counted()}) + _summed(1, 3)
    by_column = icews(tmp_path, modes={"from": "Source Country", "to": "Target Country"}, time="Event Date")
    assert by_column.mode_names == ("from", "to", "Event Date")
    assert by_column.report.diagonal == 1
    assert by_column.labels[0] == by_column.labels[1]


def _summed(*modes):
    total = Counter()
    for cell, count in counted().items():
        total[tuple(cell[mode] for mode in modes)] += count
    return total


def test_a_misspelt_mode_of_a_known_format_is_named_with_the_nearest(tmp_path):
    with refused("modes", ["sendr", "Target Country"], "does not have; the nearest is 'sender'"):
        icews(tmp_path, modes=["sendr", "receiver"])


def test_a_mode_of_time_that_is_named_twice_is_one(tmp_path):
    tensor = icews(tmp_path, modes=["sender", "time"], time="Event Date")
    assert tensor.mode_names == ("sender", "time")


def test_another_column_of_dates_replaces_that_of_the_format(tmp_path):
    rows = icews_rows(City="2020-05-05")
    assert icews(tmp_path, rows, time="City").labels[3] == ("2020-05",)


def test_freq_without_a_mode_of_time_is_an_error():
    with refused("freq", "day", "needs dates: name their column in `time`"):
        trade(freq="day")


@pytest.mark.parametrize("modes", [["from"], [], ["from", "from"], "from"])
def test_modes_must_be_at_least_two_different_ones(modes):
    rule = "must be a list of columns or a dict" if modes == "from" else "must name at least two different modes"
    with refused("modes", modes, rule):
        trade(modes=modes)

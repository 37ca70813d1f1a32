"""Labels with a place in the calendar, the numbers by which periods are counted, and the periods that come next."""

import random
from datetime import date, timedelta

import pytest

from allocore.tensor.calendar import (
    FREQUENCIES,
    are_weeks,
    calendar_keys,
    frequency_named,
    frequency_of,
    in_calendar_order,
    next_periods,
    period_form,
    period_numbers,
    periods,
    periods_per_year,
    week_words,
)
from allocore.tensor.labels import label_kind
from support.errors import refused

MONTHS = [f"{date(2018, month, 1):%B}" for month in range(1, 13)]
WEEKDAYS = [f"{date(2018, 1, day):%A}" for day in range(1, 8)]  # the first was a Monday
WRITTEN = {
    "hour": ["2018-12-31 23:00", "2019-01-01 00:00"],
    "day": ["2018-12-30", "2018-12-31", "2019-01-01"],
    "week": ["2018-12-24", "2018-12-31", "2019-01-07"],
    "month": ["2018-12", "2019-01"],
    "quarter": ["2018-Q4", "2019-Q1"],
    "year": ["2018", "2019"],
}


@pytest.mark.parametrize("freq", FREQUENCIES)
def test_the_frequency_is_that_with_which_read_events_writes_such_labels(freq):
    assert frequency_of(WRITTEN[freq]) == freq


def test_a_frequency_that_cannot_be_told_is_none():
    assert frequency_of(["2018-12-31"]) is None  # a Monday may be a day or a week
    assert frequency_of(["2018-12-30"]) == "day"
    assert frequency_of(["2018-02-30", "2018-03-01"]) is None
    assert frequency_of(["2018-W01", "2018-W02"]) is None
    assert frequency_of(["tea", "rice"]) is None


def test_periods_of_several_forms_are_no_periods():
    assert period_form(["2018", "2018-01"]) is None
    assert period_form(range(2000, 2003)) is None
    assert period_form([]) is None


@pytest.mark.parametrize("names", [MONTHS, WEEKDAYS])
@pytest.mark.parametrize("written", [str, str.upper, lambda name: name[:3], lambda name: f"{name[:3]}."])
def test_names_are_sorted_by_the_calendar_however_they_are_written(names, written):
    labels = [written(name) for name in names]
    shuffled = random.Random(0).sample(labels, len(labels))
    keys = calendar_keys(shuffled)
    assert [label for _, label in sorted(zip(keys, shuffled, strict=True))] == labels


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["Mon", "Wed", "Fri"], True),
        (["Sat", "Sun", "Mon"], True),
        (["Nov", "Feb", "May"], True),
        (["Wed", "Mon", "Fri"], False),
        (["Mon", "Mon", "Tue"], False),
        (["Mon", "Tue", "Jan"], False),
        (["9:00", "10:30", "23:59:59"], True),
        (["10:30", "9:00", "11:00"], False),
        (["22:00", "23:00", "01:00"], False),
    ],
)
def test_names_may_have_gaps_and_begin_anywhere_but_must_be_in_order(labels, expected):
    assert in_calendar_order(labels) is expected
    assert label_kind(labels) == ("order" if expected else "plain")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["2018-01-01", "2018-01-08", "2018-01-29"], True),
        (["2018-01-07", "2018-01-14", "2018-01-21"], True),
        (["2018-01-01", "2018-01-08", "2018-01-16"], False),
        (["2018-01-01", "2018-01-08"], False),
        (["2018-02-16", "2018-02-23", "2018-02-30"], False),
        (["2018-01", "2018-02", "2018-03"], False),
        (range(7), False),
    ],
)
def test_weeks_are_days_that_are_whole_weeks_apart(labels, expected):
    assert are_weeks(labels) is expected


@pytest.mark.parametrize(
    ("labels", "following"),
    [
        (["2018-10", "2018-11"], ["2018-12", "2019-01", "2019-02"]),
        (["2018-Q2", "2018-Q3"], ["2018-Q4", "2019-Q1", "2019-Q2"]),
        (["1998", "1999"], ["2000", "2001", "2002"]),
        (["2020-02-27", "2020-02-28"], ["2020-02-29", "2020-03-01", "2020-03-02"]),
        (["2018-12-17", "2018-12-24"], ["2018-12-31", "2019-01-07", "2019-01-14"]),
        (["2020-W51", "2020-W52"], ["2020-W53", "2021-W01", "2021-W02"]),
        (["2019-W51", "2019-W52"], ["2020-W01", "2020-W02", "2020-W03"]),
        (["2018-01", "2018-04", "2018-10"], ["2019-01", "2019-04", "2019-07"]),
        (["7", "8", "10"], ["11", "12", "13"]),
        (["201810", "201811"], ["201812", "201901", "201902"]),
        ([201801, 201804, 201810], ["201901", "201904", "201907"]),
        (["20200227", "20200228"], ["20200229", "20200301", "20200302"]),
        (["20181217", "20181224"], ["20181231", "20190107", "20190114"]),
        (["201811", "201812", "201813"], ["201814", "201815", "201816"]),  # no months: plain numbers
        (["20180228", "20180229"], ["20180230", "20180231", "20180232"]),  # no days
        (["100001", "100002"], ["100003", "100004", "100005"]),  # no year that data have
        (["99912", "201801"], ["303690", "405579", "507468"]),  # not all of one form
        (range(201801, 201813), ["201813", "201814", "201815"]),  # a mode without labels
        (range(4), ["4", "5", "6"]),
    ],
)
def test_the_next_periods_go_over_the_ends_of_years_and_keep_the_step(labels, following):
    assert next_periods(labels, 3) == following


@pytest.mark.parametrize(
    "labels",
    [["201802", "201801"], ["Jan", "Feb"], ["tea", "rice"], ["2018-03", "2018-01"], ["2018-02-30", "2018-03-01"]],
)
def test_labels_that_are_no_rising_periods_have_no_next(labels):
    assert next_periods(labels, 3) is None
    assert period_numbers(labels) is None


def test_iso_weeks_of_forty_years_are_counted_on_without_a_gap():
    monday = date(1990, 1, 1)
    weeks = []
    for n in range(40 * 52):
        year, week, _ = (monday + timedelta(weeks=n)).isocalendar()
        weeks.append(f"{year}-W{week:02d}")
    assert next_periods(weeks[:1], len(weeks) - 1) == weeks[1:]


def test_absent_periods_are_gaps_in_the_count():
    assert period_numbers(["2018-11", "2018-12", "2019-02"]) == [0, 1, 3]
    assert period_numbers(["2018-01-01", "2018-01-08", "2018-01-22"]) == [0, 1, 3]


def test_a_year_has_as_many_periods_as_the_labels_say():
    assert periods_per_year(["2018-01", "2018-02"]) == 12
    assert periods_per_year(["2018-01-01", "2018-01-08"]) == 52
    assert periods_per_year(["2018-01-01", "2018-01-02"]) == 7
    assert periods_per_year(["2018-Q1", "2018-Q2"]) == 4
    assert periods_per_year(["2018-W01", "2018-W02"]) == 52
    assert periods_per_year(["2018", "2019"]) is None
    assert periods_per_year(["1", "2"]) is None
    assert periods_per_year(["201801", "201802"]) == 12
    assert periods_per_year(["20180101", "20180108"]) == 52
    assert period_numbers(["201811", "201812", "201902"]) == [0, 1, 3]


def test_the_calendar_ends():
    with refused("horizon", 99_999, "2018-02"):
        next_periods(["2018-01", "2018-02"], 99_999)


def test_hours_go_on_into_the_next_day_and_have_a_cycle_of_a_day():
    hours = ["2023-12-31 21:00", "2023-12-31 22:00"]
    assert next_periods(hours, 3) == ["2023-12-31 23:00", "2024-01-01 00:00", "2024-01-01 01:00"]
    assert period_numbers([*hours, "2024-01-01 01:00"]) == [0, 1, 4]
    assert periods_per_year(hours) == 24
    assert periods_per_year(["2023-12-31 18:00", "2024-01-01 00:00"]) is None


def test_frequencies_are_understood_as_words_and_as_offsets_of_pandas():
    words = {"QS": "quarter", "qe-dec": "quarter", "weekly": "week", "M": "month", "m": None, "as-jan": "year"}
    assert {word: frequency_named(word) for word in words} == words
    assert [frequency_named(word) for word in ("q-jan", "qs-mar", "y-jun", "w-tue", "2D")] == [None] * 5


def test_periods_of_a_stretch_of_time_have_labels():
    assert periods(date(2023, 10, 1), date(2024, 1, 1), "quarter") == ["2023-Q4", "2024-Q1"]
    assert periods(date(2018, 1, 1), date(2018, 1, 15), "week") == ["2018-01-01", "2018-01-08", "2018-01-15"]
    assert week_words("2018-01-01", "2018-01-01") == "week of 2018-01-01"
    assert week_words("2018-01-01", "2018-01-22") == "2018-01-01 to 01-28"
    assert week_words("2018-12-24", "2018-12-31") == "2018-12-24 to 2019-01-06"


def test_times_of_day_are_sorted_as_numbers():
    assert calendar_keys(["10:00", "9:30"]) == [(10, 0), (9, 30)]
    assert calendar_keys(["Mon", "tea"]) is None

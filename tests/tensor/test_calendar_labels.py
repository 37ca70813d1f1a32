"""Labels with a place in the calendar."""

import random
from datetime import date

import pytest

from allocore.tensor.calendar import FREQUENCIES, are_weeks, calendar_keys, frequency_of, in_calendar_order, period_form
from allocore.tensor.labels import label_kind

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

"""Whether the day or the month comes first in dates with slashes is decided for the whole column, and reported."""

import pandas as pd
import pytest

import allocore as ac
from support.errors import refused
from support.event_files import findings, write


def days(*texts, **options):
    """The days of events on these dates, in order, and the findings."""
    frame = pd.DataFrame({"who": [f"{number:02d}" for number in range(len(texts))], "what": "x", "when": texts})
    tensor = ac.read_events(frame, modes=["who", "what"], time="when", freq="day", **options)
    return [tensor.labels[2][place] for place in tensor.coords[2].tolist()], findings(tensor.report)


def test_one_date_that_can_only_be_day_month_year_decides_for_all():
    found, notes = days("01/02/2018", "3/4/2018", "13/01/2018", "2018-05-06")
    assert found == ["2018-02-01", "2018-04-03", "2018-01-13", "2018-05-06"]
    assert notes == {"day-first": {"example": "13/01/2018", "exceptions": False}}


def test_one_date_that_can_only_be_month_day_year_decides_for_all():
    found, notes = days("01/02/2018", "3/4/2018", "01/13/2018")
    assert found == ["2018-01-02", "2018-03-04", "2018-01-13"]
    assert notes == {}


def test_where_no_date_decides_the_month_comes_first_and_a_note_says_so():
    found, notes = days("03/04/2018", "12/11/2018", "2018-05-06")
    assert found == ["2018-03-04", "2018-12-11", "2018-05-06"]
    assert notes == {"month-first": {"example": "03/04/2018", "exceptions": False}}


def test_the_same_number_twice_is_the_same_day_either_way():
    assert days("05/05/2018", "2018-05-06") == (["2018-05-05", "2018-05-06"], {})


@pytest.mark.parametrize("turned", [False, True])
def test_where_dates_of_both_kinds_occur_the_majority_decides_and_the_others_are_unreadable(turned):
    def date(first, second):
        return f"{second:02d}/{first:02d}/2018" if turned else f"{first:02d}/{second:02d}/2018"

    texts = [date(13, 1), date(14, 1), date(2, 15), date(3, 4)]
    with refused("source", "a data frame", f"when is {date(2, 15)!r}, which cannot be read as a date"):
        days(*texts)
    found, notes = days(*texts, on_error="drop")
    assert found == ["2018-01-13", "2018-01-14", "2018-04-03"]
    ((kind, values),) = notes.items()
    assert kind == ("month-first" if turned else "day-first")
    assert values == {"example": date(2, 15) if turned else date(13, 1), "exceptions": True}


def test_where_both_kinds_are_as_many_the_month_comes_first():
    assert days("13/01/2018", "02/15/2018", "03/04/2018", on_error="drop")[0] == ["2018-02-15", "2018-03-04"]


def test_dates_with_slashes_may_have_a_time():
    assert days("13/01/2018 23:59", "3/4/2018 7:05:30")[0] == ["2018-01-13", "2018-04-03"]


def test_rows_that_where_leaves_out_decide_nothing():
    assert days("13/01/2018", "03/04/2018", where="who <> '00'")[0] == ["2018-03-04"]


def test_all_files_are_one_column(tmp_path):
    write(tmp_path / "a.csv", "who,what,when\nAda,tea,3/4/2018\n")
    write(tmp_path / "b.csv", "who,what,when\nAda,tea,30/4/2018\n")
    tensor = ac.read_events(tmp_path, modes=["who", "what"], time="when", freq="day")
    assert tensor.labels[2][0] == "2018-04-03"

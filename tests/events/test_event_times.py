"""Times of day, time zones and words for the lengths of periods mean the same in every source."""

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import allocore as ac
from allocore.tensor.calendar import check_frequency
from support.errors import refused
from support.event_files import findings, write
from support.tiers import parametrize_few

# Each is on the other side of a midnight in UTC.
WALLS = ["2024-01-31 23:30", "2024-02-01 00:30", "2024-03-31 20:00", "2024-04-01 12:00"]
NEW_YORK = pd.to_datetime(WALLS).tz_localize("America/New_York")
IN_UTC = ("2024-02-01", "2024-02-01", "2024-04-01", "2024-04-01")


def _frame(moments):
    return pd.DataFrame({"a": ["w", "x", "y", "z"][: len(moments)], "b": "q", "when": moments})


def _csv(folder, texts):
    return write(folder / "t.csv", "a,b,when\n" + "".join(f"{a},q,{t}\n" for a, t in zip("wxyz", texts, strict=False)))


def _parquet(folder, moments):
    pl.from_pandas(_frame(moments)).write_parquet(folder / "t.parquet")
    return folder / "t.parquet"


def _in_new_york(text):
    return [moment.strftime(text) for moment in NEW_YORK]


OFFSETS = [moment.isoformat() for moment in NEW_YORK]
ZONED = {
    "pandas": lambda _: _frame(NEW_YORK),
    "pandas in another zone": lambda _: _frame(NEW_YORK.tz_convert("Asia/Tokyo")),
    "pandas with offsets": lambda _: _frame(NEW_YORK.tz_convert(dt.timezone(dt.timedelta(hours=2)))),
    "pandas objects": lambda _: _frame(pd.Series(NEW_YORK.to_pydatetime(), dtype=object)),
    "pandas texts": lambda _: _frame(OFFSETS),
    "pandas with arrow": lambda _: _frame(NEW_YORK).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda _: pl.from_pandas(_frame(NEW_YORK)),
    "polars lazy": lambda _: pl.from_pandas(_frame(NEW_YORK)).lazy(),
    "pyarrow": lambda _: pa.Table.from_pandas(_frame(NEW_YORK)),
    "parquet": lambda folder: _parquet(folder, NEW_YORK),
    "parquet texts": lambda folder: _parquet(folder, OFFSETS),
    "csv": lambda folder: _csv(folder, OFFSETS),
    "csv without a colon": lambda folder: _csv(folder, _in_new_york("%Y-%m-%dT%H:%M:%S%z")),
    "csv with a blank": lambda folder: _csv(folder, _in_new_york("%Y-%m-%d %H:%M:%S %z")),
    "csv with a name": lambda folder: _csv(folder, _in_new_york("%Y-%m-%d %H:%M America/New_York")),
    "csv with Z": lambda folder: _csv(folder, [f"{each:%Y-%m-%dT%H:%M:%S}Z" for each in NEW_YORK.tz_convert("UTC")]),
}


def _days(source, **options):
    tensor = ac.read_events(source, modes=["a", "b"], time="when", freq="day", **options)
    return tuple(tensor.labels[2][place] for place in tensor.coords[2].tolist()), findings(tensor.report)


@parametrize_few("source", ZONED)
def test_the_day_of_a_moment_is_that_of_utc_in_every_source(tmp_path, source):
    assert _days(ZONED[source](tmp_path)) == (IN_UTC, {"periods-in-utc": {"exceptions": False}})


@parametrize_few("source", ["pandas", "csv", "polars", "parquet"])
def test_times_without_a_zone_are_taken_as_they_are(tmp_path, source):
    naive = NEW_YORK.tz_localize(None)
    made = {
        "pandas": lambda: _frame(naive),
        "polars": lambda: pl.from_pandas(_frame(naive)),
        "csv": lambda: _csv(tmp_path, WALLS),
        "parquet": lambda: _parquet(tmp_path, naive),
    }
    assert _days(made[source]()) == (tuple(each[:10] for each in WALLS), {})


def test_a_column_with_both_kinds_of_times_says_so(tmp_path):
    texts = ["2024-01-31T23:30:00-05:00", "2024-01-31 23:30:00", "2024-01-31"]
    found, notes = _days(_csv(tmp_path, texts))
    assert found == ("2024-02-01", "2024-01-31", "2024-01-31")
    assert notes == {"periods-in-utc": {"exceptions": True}}


def test_a_zone_that_nobody_knows_is_an_unreadable_time(tmp_path):
    path = _csv(tmp_path, ["2024-01-31 23:30:00 Nowhere/Land"])
    with refused("source", str(path), "line 2: when is '2024-01-31 23:30:00 Nowhere/Land', which cannot be read"):
        _days(path)


CLOCKS = {
    "2024-01-05 23:59:59": "2024-01-05 23:00",
    "2024-01-05T07:00": "2024-01-05 07:00",
    "2024-01-05 11:30 PM": "2024-01-05 23:00",
    "01/05/2024 12:10 AM": "2024-01-05 00:00",
    "2024-01-05 23:30:00+02:00": "2024-01-05 21:00",
    "20240105223000": "2024-01-05 22:00",
    "05.01.2024 08:15": "2024-01-05 08:00",
    "5 January 2024 08:15": "2024-01-05 08:00",
    "2024-01-05": "2024-01-05 00:00",
}


@parametrize_few("text", CLOCKS)
def test_hours_are_read_from_times_of_day(tmp_path, text):
    tensor = ac.read_events(_csv(tmp_path, [text]), modes=["a", "b"], time="when", freq="hour")
    assert tensor.labels[2] == (CLOCKS[text],)
    assert tensor.report.dates == (CLOCKS[text], CLOCKS[text])


def test_hours_without_events_are_kept_and_hours_can_be_selected():
    moments = pd.to_datetime(["2024-01-05 22:10", "2024-01-06 01:50", "2024-01-06 01:55"])
    hours = ac.read_events(_frame(moments), modes=["a", "b"], time="when", freq="hour")
    assert hours.labels[2] == ("2024-01-05 22:00", "2024-01-05 23:00", "2024-01-06 00:00", "2024-01-06 01:00")
    assert hours.report.empty_periods == ("2024-01-05 23:00", "2024-01-06 00:00")
    assert hours.select(when="2024-01-06").labels[2] == ("2024-01-06 00:00", "2024-01-06 01:00")
    assert hours.select(when=dt.datetime(2024, 1, 6, 1, 30)).labels[2] == ("2024-01-06 01:00",)
    assert hours.select(when=slice(None, "2024-01-05")).shape[2] == 2


def test_more_hours_are_read_like_a_tensor_of_hours():
    first = ac.read_events(_frame(pd.to_datetime(["2024-01-05 22:10"])), modes=["a", "b"], time="when", freq="h")
    more = ac.read_events(_frame(pd.to_datetime(["2024-01-05 23:10"])), like=first)
    assert ac.concat([first, more], mode="when").labels[2] == ("2024-01-05 22:00", "2024-01-05 23:00")


def test_the_same_event_at_two_hours_of_a_day_counts_once_by_day():
    frame = pd.DataFrame({"a": "x", "b": "y", "when": ["2024-01-05 22:10", "2024-01-05 23:10", "2024-01-06 00:10"]})
    for freq in ("hour", "day"):
        assert ac.read_events(frame, modes=["a", "b"], time="when", freq=freq, dedup="day").total == 2


def test_dates_without_times_of_day_are_noted_if_hours_are_wanted():
    report = ac.read_events(_frame(["2024-01-05", "2024-01-06"]), modes=["a", "b"], time="when", freq="hour").report
    assert findings(report) == {"no-hours": {"argument": "freq"}}


WORDS = {
    "hour": ["hour", "h", "H", "hourly"],
    "day": ["day", "D", "d", "daily", "days"],
    "week": ["week", "W", "W-SUN", "W-MON", "weekly", pd.offsets.Week(weekday=6)],
    "month": ["month", "M", "ME", "MS", "monthly", pd.offsets.MonthBegin()],
    "quarter": ["quarter", "Q", "QE", "QS", "Q-DEC", "QE-MAR", "QS-OCT", "quarterly"],
    "year": ["year", "Y", "YE", "YS", "A", "A-DEC", "YS-JAN", "yearly", "annual"],
}


@pytest.mark.parametrize("length", WORDS)
def test_the_words_of_pandas_name_the_same_periods(length):
    assert {check_frequency(word) for word in WORDS[length]} == {length}


def test_events_are_counted_in_the_periods_of_an_offset_of_pandas():
    frame = _frame(pd.to_datetime(["2024-02-07 05:06"]))
    tensor = ac.read_events(frame, modes=["a", "b"], time="when", freq=pd.offsets.Week(weekday=6))
    assert tensor.labels[2] == ("2024-02-05",)


def test_weeks_that_pandas_ends_on_monday_are_noted():
    report = ac.read_events(_frame(["2024-02-07"]), modes=["a", "b"], time="when", freq="W-MON").report
    assert findings(report) == {"weeks-to-monday": {"argument": "freq"}}


@pytest.mark.parametrize(
    ("freq", "rule"),
    [
        *((freq, "must be one of hour, day, week, month, ") for freq in ("fortnight", "m", "2D", "min", "Q-NOV", 7)),
        ("W-TUE", "must be week: weeks go from Monday to Sunday"),
    ],
)
def test_a_word_for_no_known_period_is_an_error_that_lists_them(freq, rule):
    with refused("freq", freq, rule):
        ac.read_events(_frame(["2024-02-07"]), modes=["a", "b"], time="when", freq=freq)


def test_a_moment_with_a_time_zone_selects_the_hour_that_its_events_are_in():
    moment = pd.Timestamp("2020-01-01 03:10", tz="Europe/Berlin")
    frame = pd.DataFrame({"who": ["x", "y"], "at": [moment, moment + pd.Timedelta(hours=1)]})
    Y = ac.read_events(frame, modes=["who"], time="at", freq="hour")
    assert Y.select(at=moment).labels[1] == ("2020-01-01 02:00",)

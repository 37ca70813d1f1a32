"""Periods that were observed in part only: noticed by the dates of the rows, said at once, and left out on request."""

import warnings
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.errors import refused
from support.findings import warned


def days(first, last, step=1):
    """Every day, or every so many days, from the first to the last."""
    first, last = date.fromisoformat(first), date.fromisoformat(last)
    return [first + timedelta(days=number) for number in range(0, (last - first).days + 1, step)]


def table(dates, each=1):
    """A table with `each` sales on every date."""
    dates = [str(day) for day in dates for _ in range(each)]
    return pd.DataFrame({"store": np.resize(["A", "B"], len(dates)), "item": "tea", "day": dates})


def read(dates, each=1, **how):
    """The tensor of such a table. Its warnings are another test's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ac.read_events(table(dates, each), modes=["store", "item"], time="day", **how)


CUT = days("2024-01-01", "2024-03-24")
WEEKDAYS = [day for day in days("2024-01-01", "2024-03-29") if day.weekday() < 5]
YEAR = days("2024-01-01", "2024-12-31")
RARE = [day for day, chance in zip(YEAR, np.random.default_rng(1).random(366), strict=True) if chance < 0.1]


@pytest.mark.parametrize(
    ("dates", "freq", "incomplete"),
    [
        (CUT, "month", {"2024-03": (24, 31)}),
        (CUT, "week", {}),
        (CUT[3:-3], "week", {"2024-01-01": (4, 7), "2024-03-18": (4, 7)}),
        (CUT, "quarter", {"2024-Q1": (84, 91)}),
        (CUT, "day", {}),
        (days("2024-01-10", "2024-03-30"), "month", {"2024-01": (22, 31)}),
        (days("2024-01-01", "2024-11-18", step=7), "month", {"2024-11": (24, 30)}),
        (days("2024-01-01", "2024-11-25", step=7), "month", {}),
        (pd.date_range("2023-01-01", "2024-12-01", freq="MS").date, "month", {}),
        (pd.date_range("2023-01-01", "2024-11-01", freq="MS").date, "quarter", {"2024-Q4": (62, 92)}),
        (WEEKDAYS, "month", {}),
        (WEEKDAYS, "week", {}),
        (RARE, "month", {}),
        (CUT[:3], "month", {}),
    ],
)
def test_the_first_and_the_last_period_may_be_incomplete(dates, freq, incomplete):
    assert read(dates, freq=freq).incomplete == incomplete


def test_with_many_events_a_day_a_period_with_few_days_is_incomplete():
    dates = [*days("2024-01-01", "2024-01-31"), *days("2024-02-05", "2024-02-10"), *days("2024-04-01", "2024-04-30")]
    found = {"2024-02": (6, 29), "2024-03": (0, 31)}
    assert read(dates, each=20).incomplete == found
    assert read(dates).incomplete == {}, "a day without events says little where there is one a day"
    Y = read(dates, each=20, incomplete="drop")
    assert Y.labels[2] == ("2024-01", "2024-02", "2024-03", "2024-04")
    assert Y.missing.observed_rows(2).tolist() == [True, False, False, True]
    assert read(dates, each=20, unobserved="2024-02").incomplete == {"2024-03": (0, 31)}


def test_an_incomplete_period_is_a_finding_and_a_warning():
    with warned("incomplete-periods"):
        Y = ac.read_events(table(CUT), modes=["store", "item"], time="day")
    (finding,) = Y.report.findings
    assert (finding.kind, finding.level) == ("incomplete-periods", "caution")
    assert finding.values == {"periods": {"2024-03": [24, 31]}, "dropped": False, "weighed": False}


def test_drop_leaves_incomplete_periods_out_and_counts_their_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Y = ac.read_events(table(CUT), modes=["store", "item"], time="day", incomplete="drop")
    assert Y.labels[2] == ("2024-01", "2024-02")
    assert Y.total == 60
    assert Y.report.dropped == {"in an incomplete period": 24}
    assert Y.report.findings[0].values == {"periods": {"2024-03": [24, 31]}, "dropped": True, "weighed": False}
    assert Y.incomplete == {}
    with refused("incomplete", "drop", "no period"):
        read(days("2024-01-05", "2024-01-20"), incomplete="drop")
    with refused("incomplete", "maybe"):
        read(CUT, incomplete="maybe")


def test_what_is_incomplete_stays_known(tmp_path):
    Y = read(CUT)
    Y.save(tmp_path / "y.npz")
    Y.save(tmp_path / "y.parquet")
    Y.save(tmp_path / "y.zarr", shards=1)
    kept = [ac.as_tensor(tmp_path / name) for name in ("y.npz", "y.parquet", "y.zarr")]
    kept += [ac.hold_out(Y, 0.4, seed=1).train, Y.select(day="2024-03"), ac.EventReport.from_json(Y.report.to_json())]
    assert [each.incomplete for each in kept] == [{"2024-03": (24, 31)}] * 6
    assert Y.select(day=["2024-01", "2024-02"]).incomplete == {}


def test_new_events_are_judged_by_the_dates_of_the_old_ones():
    Y = read(CUT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        night = ac.read_events(table(days("2024-04-01", "2024-04-01"), each=20), like=Y)
    assert night.incomplete == {"2024-04": (1, 30)}
    assert read(days("2024-04-01", "2024-04-01"), each=20).incomplete == {}, "a month may be dated by its first day"
    both = ac.concat([Y, night], mode="day")
    assert both.incomplete == {"2024-03": (24, 31), "2024-04": (1, 30)}


def test_joined_tensors_have_the_report_of_all_their_tables():
    Y, later = read(CUT), read(days("2024-04-01", "2024-04-30"))
    both = ac.concat([Y, later], mode="day")
    assert (both.report.rows, both.report.kept, both.report.dates) == (114, 114, ("2024-01-01", "2024-04-30"))
    assert both.report.findings == Y.report.findings
    assert both.report.reading == Y.report.reading
    assert both.report.heaviest["item"] == [("tea", 114)]
    assert ac.concat([Y.select(day="2024-01"), Y.select(day="2024-02")], mode="day").report == Y.report
    assert ac.concat([Y, ac.CountTensor(later.coords, later.counts, labels=later.labels, mode_names=later.mode_names)],
                     mode="day").report is None  # fmt: skip

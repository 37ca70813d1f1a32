"""Periods and intervals of pandas: a column of time with its own frequency, or labels that can be read, in order."""

import pandas as pd

import allocore as ac
from allocore.errors import NO_VALUE
from support.errors import refused
from support.tiers import by_tier, parametrize_few

PERIODS = {
    "M": (["2024-01", "2024-03"], ("2024-01", "2024-02", "2024-03")),
    "Q": (["2023Q4", "2024Q2"], ("2023-Q4", "2024-Q1", "2024-Q2")),
    "Q-MAR": (["2024Q4", "2025Q1"], ("2024-Q1", "2024-Q2")),
    "Y": (["2020", "2022"], ("2020", "2021", "2022")),
    "W": (["2024-01-03", "2024-01-10"], ("2024-01-01", "2024-01-08")),
    "D": (["2024-01-03", "2024-01-04"], ("2024-01-03", "2024-01-04")),
    "h": (["2024-01-03 22:00", "2024-01-03 23:00"], ("2024-01-03 22:00", "2024-01-03 23:00")),
    "min": (["2024-01-03 22:10", "2024-02-03 23:11"], ("2024-01", "2024-02")),
}


def _frame(values, **others):
    return pd.DataFrame({"a": ["x", "y", "z"][: len(values)], "b": "q", "when": values} | others)


KINDS = ["period", "object", "category"]


@parametrize_few(
    ("freq", "kind"),
    by_tier(
        [*((freq, "period") for freq in PERIODS), *((next(iter(PERIODS)), kind) for kind in KINDS)], PERIODS, KINDS
    ),
)
def test_a_column_of_periods_is_a_column_of_time_with_its_own_frequency(freq, kind):
    texts, labels = PERIODS[freq]
    periods = pd.Series(pd.PeriodIndex(texts, freq=freq))
    frame = _frame(periods if kind == "period" else periods.astype(kind))
    tensor = ac.read_events(frame, modes=["a", "b"], time="when")
    assert tensor.labels[2] == labels
    assert tensor.total == 2
    assert frame["when"].dtype == (periods.dtype if kind == "period" else kind)


def test_periods_may_be_counted_in_longer_ones_but_not_in_shorter_ones():
    frame = _frame(pd.PeriodIndex(["2024-01", "2024-03", None], freq="M"))
    tensor = ac.read_events(frame, modes=["a", "b"], time="when", freq="QS")
    assert tensor.labels[2] == ("2024-Q1",)
    assert tensor.report.dropped == {"no when": 1}
    with refused("freq", "day", "the periods in when, which are of one month"):
        ac.read_events(frame, modes=["a", "b"], time="when", freq="day")


@parametrize_few("freq", ["Q-NOV", "2M", "W-MON", "Y-MAR"])
def test_periods_that_are_none_of_the_calendar_need_a_frequency(freq):
    frame = _frame(pd.period_range("2024-01-10", periods=2, freq=freq))
    with refused("freq", NO_VALUE, f"when has pandas periods of frequency {freq}"):
        ac.read_events(frame, modes=["a", "b"], time="when")
    assert ac.read_events(frame, modes=["a", "b"], time="when", freq="year").total == 2


def test_the_frequency_of_like_comes_before_that_of_the_periods():
    old = ac.read_events(_frame(["2023-11-01"]), modes=["a", "b"], time="when", freq="quarter")
    new = ac.read_events(_frame(pd.PeriodIndex(["2024-02"], freq="M")), like=old)
    assert new.labels[2] == ("2024-Q1",)


def test_periods_that_are_not_the_time_are_labels_in_order():
    frame = _frame(pd.PeriodIndex(["2024Q3", "2023Q4", "2024Q1"], freq="Q"))
    assert ac.read_events(frame, modes=["a", "when"]).labels[1] == ("2023-Q4", "2024-Q1", "2024-Q3")


INTERVALS = {
    "cut": (pd.cut([3, 100, 50], [0, 18, 65, 120]), ("(0, 18]", "(18, 65]", "(65, 120]")),
    "cut with fractions": (pd.cut([0.5, 9.25, 12.0], [0, 0.75, 9.25, 12]), ("(0, 0.75]", "(0.75, 9.25]", "(9.25, 12]")),
    "intervals": (pd.arrays.IntervalArray.from_tuples([(10, 11), (9, 10), (9, 10)], "left"), ("[9, 10)", "[10, 11)")),
    "dates": (
        pd.interval_range(pd.Timestamp("2024-01-30"), periods=3, closed="both"),
        ("[2024-01-30, 2024-01-31]", "[2024-01-31, 2024-02-01]", "[2024-02-01, 2024-02-02]"),
    ),
}


def test_intervals_are_labels_that_can_be_read_in_order():
    frame = pd.DataFrame({kind: values for kind, (values, _) in INTERVALS.items()})
    assert ac.read_events(frame, modes=list(INTERVALS)).labels == tuple(labels for _, labels in INTERVALS.values())


def test_intervals_of_which_some_are_absent_are_labels_that_a_condition_may_ask_for():
    frame = _frame(pd.Series([pd.Interval(10, 20), None, pd.Interval(2, 3)], dtype=object))
    tensor = ac.read_events(frame, modes=["a", "when"])
    assert tensor.labels[1] == ("(2, 3]", "(10, 20]")
    assert tensor.report.dropped == {"no when": 1}
    kept = ac.read_events(frame, modes=["a", "b"], where="b = 'q' AND \"when\" IS NOT NULL").report.kept
    assert kept == 2


def test_periods_of_several_frequencies_in_one_column_are_an_input_error():
    mixed = pd.Series([pd.Period("2024-01", "M"), pd.Period("2024-01-01", "D")], dtype=object)
    with refused("source", "a data frame", "periods or intervals of one kind in when"):
        ac.read_events(_frame(mixed), modes=["a", "b"], time="when")

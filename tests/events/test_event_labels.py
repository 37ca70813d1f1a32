"""The order of labels, periods that were not observed, and events for a tensor that is there already."""

import random
from collections import Counter
from datetime import date

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import strategies as st

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.findings import Finding
from allocore.tensor.event_report import EventReport
from support.errors import refused
from support.event_files import EVENTS, ICEWS, icews_rows, text_of, write
from support.tiers import given_by_tier

LEVELS = ["low", "middle", "high", "never"]
WEEKDAYS = [f"{date(2018, 1, day):%a}" for day in range(1, 8)]
MONTHS = [f"{date(2018, month, 1):%B}" for month in range(1, 13)]


def _pairs(labels):
    return {"what": labels, "who": ["A"] * len(labels)}


def labels_of(frame):
    return list(ac.read_events(frame, modes=["what", "who"]).labels[0])


def _ordered(rows, categories=LEVELS):
    return pd.DataFrame(_pairs(rows)).astype({"what": pd.CategoricalDtype(categories, ordered=True)})


@pytest.mark.parametrize(
    "frame",
    [
        _ordered(["high", "low", "middle"]),
        pl.DataFrame(_pairs(["high", "low", "middle"]), schema_overrides={"what": pl.Enum(LEVELS)}),
        pl.LazyFrame(_pairs(["high", "low", "middle"]), schema_overrides={"what": pl.Enum(LEVELS)}),
    ],
    ids=["pandas", "polars", "lazy"],
)
def test_categories_with_an_order_keep_it_and_those_that_do_not_occur_are_no_labels(frame):
    assert labels_of(frame) == ["low", "middle", "high"]


def test_an_enum_of_duckdb_keeps_its_order():
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE level AS ENUM ('low', 'middle', 'high')")
        rows = connection.sql("SELECT unnest(['middle', 'high', 'low'])::level AS what, 'A' AS who")
        assert labels_of(rows) == ["low", "middle", "high"]


def test_categories_without_an_order_are_sorted():
    frame = pd.DataFrame(_pairs(["b", "a"]))
    frame["what"] = pd.Categorical(frame["what"], categories=["b", "a"])
    assert labels_of(frame) == ["a", "b"]


def test_categories_that_are_not_plain_texts_keep_their_order_too():
    categories = {"whole": [3, 1, 2], "real": [2.5, 1.0], "blanks": [" b", "a "], "truth": [True, False]}
    frame = pd.DataFrame({name: [*sorted(some), some[0]][:3] for name, some in categories.items()}).astype(
        {name: pd.CategoricalDtype(some, ordered=True) for name, some in categories.items()}
    )
    labels = ac.read_events(frame, modes=list(categories)).labels
    assert labels == (("3", "1", "2"), ("2.5", "1"), ("b", "a"), ("true", "false"))


def test_modes_that_share_their_labels_have_the_order_of_both():
    frame = pd.DataFrame({"from": ["c", "a"], "to": ["b", "c"]}).astype(
        {
            "from": pd.CategoricalDtype(["c", "a"], ordered=True),
            "to": pd.CategoricalDtype(["b", "c"], ordered=True),
        }
    )
    Y = ac.read_events(frame, modes=["from", "to"], shared_modes=["from", "to"])
    assert Y.labels == (("c", "a", "b"), ("c", "a", "b"))


def test_months_weekdays_and_times_of_day_are_in_calendar_order(tmp_path):
    names = [WEEKDAYS, MONTHS, ["8:00", "9:30", "10:00", "23:15"], ["Mon", "Wed", "Sun"]]
    columns = {f"c{place}": (random.Random(1).sample(some, len(some)) * 4)[:12] for place, some in enumerate(names)}
    expected = tuple(map(tuple, names))
    assert ac.read_events(pd.DataFrame(columns), modes=list(columns)).labels == expected
    pd.DataFrame(columns).to_csv(tmp_path / "a.csv", index=False)
    assert ac.read_events(tmp_path / "a.csv", modes=list(columns)).labels == expected


def test_one_other_label_makes_names_ordinary():
    assert labels_of(pd.DataFrame(_pairs(["Wed", "tea", "Mon"]))) == ["Mon", "Wed", "tea"]


SALES = pd.DataFrame(
    [("A", "tea", "2018-01-05"), ("B", "rice", "2018-02-01"), ("B", "tea", "2018-05-31"), ("A", "rice", "2018-05-02")],
    columns=["store", "item", "day"],
)


def sales(frame=SALES, **options):
    return ac.read_events(frame, **{"modes": ["store", "item"], "time": "day"} | options)


USUAL = sales()
WEEK = USUAL.with_labels({"day": [f"2018-01-{day:02d}" for day in range(1, 32, 7)]}).select(day="2018-01-01")


def test_the_report_names_periods_without_events_and_says_what_to_do():
    assert USUAL.report.empty_periods == ("2018-03", "2018-04")
    assert ("periods without events", "2018-03, 2018-04") in USUAL.report.lines()
    assert USUAL.report.findings == (Finding("empty-periods", "caution", {"periods": 2, "argument": "unobserved"}),)
    assert "`unobserved`" in USUAL.report.sentences[0]
    assert EventReport.from_json(USUAL.report.to_json()) == USUAL.report
    assert sales(freq="quarter").report.empty_periods == ()


def test_periods_that_were_not_observed_are_missing():
    masked = sales(unobserved=USUAL.report.empty_periods)
    assert masked == USUAL.mask(day=["2018-03", "2018-04"])
    assert list(masked.missing) == [(None, None, 2), (None, None, 3)]
    assert masked.report.empty_periods == ()
    assert masked.report.unobserved == 0
    assert sales(unobserved=slice("2018-03", "2018-04")) == masked


def test_rows_in_a_period_that_was_not_observed_are_not_counted_and_the_report_says_so():
    Y = sales(unobserved="2018-05")
    assert (Y.total, Y.report.kept, Y.report.unobserved) == (2, 4, 2)
    assert ("of these in periods that were not observed", "2") in Y.report.lines()
    assert Y.report.empty_periods == ("2018-03", "2018-04")


def test_a_year_stands_for_all_of_its_periods():
    frame = pd.concat([SALES, pd.DataFrame([("A", "tea", "2019-02-01")], columns=SALES.columns)])
    Y = sales(frame, unobserved="2018")
    assert (Y.total, Y.missing.cells) == (1, 12 * 4)


@pytest.mark.parametrize(
    ("argument", "value", "rule", "options"),
    [
        ("unobserved", "2018-06", "must be a label of mode 'day'; did you mean '2018-05'", {}),
        ("unobserved", "May", "must be a label of mode 'day'; its labels go from '2018-01' to '2018-05'", {}),
        ("unobserved", "2018-03", "needs dates", {"modes": ["store", "item"], "time": None}),
        ("new_labels", "drop", "needs `like`", {}),
        ("new_labels", "keep", "must be one of error, drop, append", {}),
    ],
)
def test_periods_and_options_that_do_not_fit_are_named(argument, value, rule, options):
    with refused(argument, value, rule):
        sales(**options, **{argument: value})


def test_if_no_period_was_observed_there_is_nothing_to_fit():
    with refused("counts", NO_VALUE, "there is nothing to fit, because all cells are missing"):
        sales(unobserved="2018")


JUNE = pd.DataFrame([("B", "tea", "2018-06-05"), ("B", "tea", "2018-08-01")], columns=["store", "item", "day"])
STRANGE = pd.DataFrame(
    [("C", "tea", "2018-06-05"), ("B", "tea", "2018-06-05"), ("C", "milk", "2018-06-09"), ("A", "ale", "2018-06-30")],
    columns=["store", "item", "day"],
)


# Some periods of each length, and the first, the last and the number of those in the summer.
PERIODS = {
    "day": ([f"2018-05-{day}" for day in range(27, 32)], ("2018-06-05", "2018-08-01", 58)),
    "week": ([f"2018-04-{day:02d}" for day in range(2, 31, 7)], ("2018-06-04", "2018-07-30", 9)),
    "month": (list(USUAL.labels[2]), ("2018-06", "2018-08", 3)),
    "quarter": (["2017-Q2", "2017-Q3", "2017-Q4", "2018-Q1", "2018-Q2"], ("2018-Q2", "2018-Q3", 2)),
    "year": ([str(year) for year in range(2014, 2019)], ("2018", "2018", 1)),
}


def test_events_for_a_tensor_have_its_modes_labels_and_frequency_and_their_own_periods():
    for periods, summer in PERIODS.values():
        Y = USUAL.with_labels({"day": periods})
        new = ac.read_events(JUNE, like=Y)
        assert new.mode_names == Y.mode_names
        assert new.labels[:2] == Y.labels[:2]
        assert (new.labels[2][0], new.labels[2][-1], new.shape[2]) == summer
        assert new.total == 2
        if Y == USUAL:
            assert ac.concat([USUAL, new], "day") == sales(pd.concat([SALES, JUNE]))


def test_the_order_of_modes_and_labels_is_that_of_the_tensor():
    Y = ac.CountTensor(
        [[0], [1], [0]],
        [1],
        mode_names=["day", "item", "store"],
        labels=[["2018-05"], ["tea", "rice", "ale"], ["B", "A"]],
    )
    new = ac.read_events(JUNE, modes={"store": "store", "item": "item"}, time="day", like=Y)
    assert new.mode_names == Y.mode_names
    assert new.labels == (("2018-06", "2018-07", "2018-08"), *Y.labels[1:])
    assert new.coords.tolist() == [[0, 2], [0, 0], [0, 0]]
    assert (
        ac.read_events(
            JUNE.rename(columns={"store": "shop"}), modes={"day": "day", "item": "item", "store": "shop"}, like=Y
        )
        == new
    )


def test_new_labels_are_an_error_that_lists_them():
    with refused("source", NO_VALUE) as caught:
        ac.read_events(STRANGE, like=USUAL)
    assert caught.value.rule == (
        "has labels that `like` does not have: in store 'C' (2 rows); in item 'ale' (1 row), 'milk' (1 row); "
        "set `new_labels` to 'append' to append them, or to 'drop' to drop their rows"
    )


def test_new_labels_may_be_dropped():
    Y = ac.read_events(STRANGE, like=USUAL, new_labels="drop")
    assert Y.labels == (("A", "B"), ("rice", "tea"), ("2018-06",))
    assert Y.total == 1
    assert Y.report.dropped == {"new store": 2, "new item": 1}
    assert (Y.report.rows, Y.report.kept) == (4, 1)
    assert Y.report.new_labels == {"store": {"C": 2}, "item": {"ale": 1, "milk": 1}}
    assert ("new in item, dropped", "'ale' (1), 'milk' (1)") in Y.report.lines()
    with refused("source", NO_VALUE, "has 2 rows, but none is left for the tensor: 2 dropped (new store)"):
        ac.read_events(STRANGE[STRANGE["store"] == "C"], like=USUAL, new_labels="drop")


def test_new_labels_may_be_appended():
    old = USUAL.with_labels({"store": ["B", "A"]})
    Y = ac.read_events(STRANGE, like=old, new_labels="append")
    assert Y.labels[:2] == (("B", "A", "C"), ("rice", "tea", "ale", "milk"))
    assert Y.total == 4
    assert ("new in store, appended", "'C' (2)") in Y.report.lines()
    assert ac.concat([old, Y], "day", join="outer").labels[:2] == Y.labels[:2]


@pytest.fixture(scope="module")
def icews(tmp_path_factory):
    """A file of ICEWS."""
    return write(tmp_path_factory.mktemp("icews") / "a.tab", text_of(ICEWS, icews_rows()))


@pytest.fixture(scope="module")
def old(icews):
    """The tensor of that file."""
    return ac.read_events(icews)


def test_labels_of_rows_that_are_dropped_for_another_reason_are_not_new(tmp_path, old):
    rows = [(day.replace("2018", "2019"), *rest) for day, *rest in EVENTS]
    rows += [("2019-01-05", "Bhutan", "Atlantis", "010"), ("2019-01-05", "Middle East", "Bhutan", "010")]
    new = ac.read_events(write(tmp_path / "b.tab", text_of(ICEWS, icews_rows(rows))), like=old)
    assert new.labels[:3] == old.labels[:3]
    assert new.total == old.total
    assert new.missing.patterns.tolist() == old.missing.patterns.tolist()
    rows.append(("2019-01-05", "Bhutan", "Israel", "010"))
    path = write(tmp_path / "c.tab", text_of(ICEWS, icews_rows(rows)))
    with refused("source", str(path), "labels that `like` does not have: in sender 'Bhutan' (1 row)"):
        ac.read_events(path, like=old)
    more = ac.read_events(path, like=old, new_labels="append")
    assert more.labels[:2] == ((*old.labels[0], "Bhutan"),) * 2
    assert more == ac.read_events(path, like=old, new_labels="append", diagonal="keep").mask_diagonal()
    assert len(ac.concat([old, more], "time", join="outer").missing) == len(more.labels[0])


def test_fixed_actions_that_the_tensor_leaves_out_are_new_only_if_they_occur(icews, old):
    used = old.select(action=old.mode_totals("action") > 0)
    again = ac.read_events(icews, like=used)
    assert again == used
    # One action occurs only on the diagonal, which is missing: its row would add nothing.
    assert again.report.dropped == {"new action": 1}
    assert again.report.kept + 1 == old.report.kept
    assert ac.read_events(icews, like=used, new_labels="append").shape[2] == used.shape[2] + 1
    with refused("source", str(icews), "labels that `like` does not have: in action"):
        ac.read_events(icews, like=used.select(action=used.labels[2][:1]))


PEOPLE = pd.DataFrame(
    {"from": ["A", "B", "A"], "to": ["B", "A", "A"], "day": ["2018-01-01", "2018-02-01", "2018-02-02"]}
)


def people(frame=PEOPLE, **options):
    return ac.read_events(frame, **{"modes": ["from", "to"], "time": "day"} | options)


def test_a_diagonal_that_is_missing_in_the_tensor_is_missing_in_the_new_one():
    old = people(shared_modes=["from", "to"])
    new = ac.read_events(PEOPLE, like=old)
    assert new == old
    plain = people()
    assert ac.read_events(PEOPLE, like=plain) == plain
    kept = people(shared_modes=["from", "to"], diagonal="keep")
    with refused("diagonal", "missing", "in `like` the diagonal of from and to is not missing"):
        people(like=kept, shared_modes=["from", "to"])
    assert people(like=kept, shared_modes=["from", "to"], diagonal="keep") == kept


@pytest.mark.parametrize(
    ("like", "options", "argument", "rule"),
    [
        (USUAL, {"modes": ["store", "item"], "time": None}, "modes", "modes of `like` (store, item, day)"),
        (USUAL, {"freq": "week"}, "freq", "must be 'month' as in `like`, which has periods like '2018-01'"),
        (USUAL, {"freq": "fortnight"}, "freq", "must be one of hour, day, week, month, quarter, year"),
        (USUAL, {"min_count": 2}, "min_count", "cannot be used with `like`"),
        (USUAL.with_labels({"day": list("vwxyz")}), {"time": "day"}, "like", "periods of time in mode 'day'"),
        (WEEK, {}, "freq", "not clear: 2018-01-01"),
        (ac.CountTensor([[0], [0], [0]], [1], mode_names=["store", "item", "day"]), {}, "like", "must have labels"),
        (
            ac.CountTensor(
                [[0], [0], [0]],
                [1],
                mode_names=["store", "item", "day"],
                labels=[["A"], ["2018-01"], ["2018-01"]],
            ),
            {},
            "time",
            "periods of time in the modes item, day",
        ),
        (USUAL, {"shared_modes": ["store", "item"]}, "like", "must have the same labels in store and item"),
    ],
)
def test_a_tensor_that_does_not_fit_the_events_is_refused(like, options, argument, rule):
    with refused(argument, rule=rule):
        ac.read_events(JUNE, like=like, **options)


@pytest.mark.parametrize(
    ("like", "options"),
    [(USUAL.select(day="2018-01"), {}), (WEEK, {"freq": "week"})],
)
def test_a_tensor_of_one_period_will_do(like, options):
    assert ac.read_events(JUNE, like=like, **options).shape[:2] == (2, 2)


def test_a_path_to_no_tensor_is_an_error_that_names_it():
    with refused("like", "no.npz", "there is no such file"):
        ac.read_events(JUNE, like="no.npz")


def test_a_path_to_a_tensor_will_do(tmp_path):
    USUAL.save(tmp_path / "y.npz")
    assert ac.read_events(JUNE, like=tmp_path / "y.npz") == ac.read_events(JUNE, like=USUAL)


ROWS = st.lists(
    st.tuples(st.sampled_from("ABCD"), st.sampled_from("xyz"), st.dates(date(2018, 1, 1), date(2018, 12, 31))),
    min_size=1,
    max_size=10,
)


@pytest.mark.filterwarnings("ignore:.*may be incomplete")
@given_by_tier(ROWS, ROWS, st.sampled_from(["drop", "append"]), quick=6, full=15)
def test_whatever_the_rows_the_new_tensor_counts_those_whose_labels_it_has(old, new, new_labels):
    known = [{row[place] for row in old} for place in (0, 1)]
    labels = [*map(sorted, known), ["2018-01"]]
    Y = ac.CountTensor([[0], [0], [0]], [1], mode_names=["a", "b", "day"], labels=labels)
    counted = Counter(
        (a, b, f"{day:%Y-%m}") for a, b, day in new if new_labels == "append" or (a in known[0] and b in known[1])
    )
    if not counted:
        return
    Z = ac.read_events(_frame(new), like=Y, new_labels=new_labels)
    found = {tuple(Z.labels[m][place] for m, place in enumerate(cell)) for cell in Z.coords.T.tolist()}
    assert found == set(counted)
    assert Z.total == counted.total() == Z.report.kept
    for own, labels in zip(Y.labels[:2], Z.labels[:2], strict=True):
        assert labels[: len(own)] == own
        assert new_labels == "append" or labels == own
    assert np.array_equal(Z.mode_totals(2) == 0, np.isin(Z.labels[2], Z.report.empty_periods))


def _frame(rows):
    return pd.DataFrame(rows, columns=["a", "b", "day"]).astype({"day": str})


def dyads(number):
    names = [f"state {place}" for place in range(number)]
    return pd.DataFrame({"a": names, "b": names[1:] + names[:1]})


def test_two_modes_with_the_same_labels_that_were_not_said_to_be_shared_are_noted():
    report = ac.read_events(dyads(6), modes=["a", "b"]).report
    values = {"modes": ["a", "b"], "labels": 6, "argument": "shared_modes"}
    assert report.findings == (Finding("labels-in-common", "caution", values),)
    assert "`shared_modes`" in report.sentences[0]
    assert not ac.read_events(dyads(6), modes=["a", "b"], shared_modes=["a", "b"]).report.findings
    assert not ac.read_events(dyads(4), modes=["a", "b"]).report.findings


def daily(form="%Y-%m-%d"):
    days = pd.date_range("2019-01-01", periods=32, freq="D")
    return pd.DataFrame({"who": ["A", "B"] * 16, "day": days.strftime(form)})


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y %H:%M"])
def test_many_dates_that_were_not_said_to_be_times_are_noted(form):
    report = ac.read_events(daily(form), modes=["who", "day"]).report
    values = {"mode": "day", "labels": 32, "column": "day", "argument": "time", "length": "freq"}
    assert report.findings == (Finding("dates-as-labels", "caution", values),)
    assert "`time`" in report.sentences[0]
    assert "`freq`" in report.sentences[0]


def test_few_dates_dates_that_are_times_and_other_labels_are_not_noted_as_dates():
    events = daily()
    assert not ac.read_events(events.iloc[:31], modes=["who", "day"]).report.findings, "few dates may be meant"
    timed = ac.read_events(events, modes=["who"], time="day", freq="day").report
    assert "dates-as-labels" not in [each.kind for each in timed.findings]
    numbers = events.assign(day=[f"v{number}.0" for number in range(32)])
    assert not ac.read_events(numbers, modes=["who", "day"]).report.findings

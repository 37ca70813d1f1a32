"""One draw as people look at it: kinds of modes, peaks, and who shares what, in tables and in words."""

import numpy as np
import pytest

import allocore as ac
from allocore.classes.profiles import holding
from allocore.classes.summary import Factor, Profile, ShownMode, is_even
from allocore.tensor.labels import label_kind
from support.errors import refused
from support.handmade_posterior import COUNTRIES, FACTORS, MONTHS, NAMES, VALUES, months, posterior


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (MONTHS, "time"),
        (["2001", "2002", "2004"], "time"),
        (["2001-Q1", "2001-Q2", "2001-Q3"], "time"),
        (["2018-01-01", "2018-01-08", "2018-01-15"], "time"),
        (["2003", "2001", "2002"], "plain"),
        (["2001-13", "2001-14", "2001-15"], "plain"),
        (range(2000, 2010), "plain"),
        (["Jan", "Feb", "Mar"], "order"),
        (["October", "November", "December", "January"], "order"),
        (["Monday", "Tuesday", "Wednesday"], "order"),
        (["Jan", "Mar", "Feb"], "plain"),
        (["05:00", "06:00", "23:30"], "order"),
        (["8:00", "9:00", "10:00"], "order"),
        (["1001", "1002", "1003"], "plain"),
        (["2138", "2139", "2140"], "plain"),
        (["March Ltd", "April Inc", "May & Co"], "plain"),
        (["JAN", "FEB", "MAR"], "order"),
        (["MAR", "APR", "MAY"], "order"),
        (COUNTRIES, "country"),
        (["USA", "RUS", "CHN", "GBR", "nonsense"], "country"),
        (["USA", "nonsense", "rubbish"], "plain"),
        (["tea", "rice", "salt"], "plain"),
        (["France", "Iraq"], "plain"),
        ([], "plain"),
    ],
)
def test_labels_tell_what_a_mode_is(labels, kind):
    assert label_kind(labels) == kind


def factor(shares, labels=MONTHS, kind="time"):
    return Profile(ShownMode("when", labels, kind), np.array(shares), is_even(np.array(shares)))


def test_peaks_are_stretches_with_half_of_the_highest_largest_first():
    shares = [0.02, 0.10, 0.20, 0.15, 0.02, 0.02, 0.3, 0.02, 0.02, 0.02, 0.02, 0.11]
    assert factor(shares).peaks() == [
        ("2003-03 to 2003-04", pytest.approx(0.35)),
        ("2003-07", pytest.approx(0.3)),
    ]
    assert factor(shares).peak_words() == "2003-03 to 2003-04 (35%), 2003-07 (30%)"
    assert factor(shares).peak_words(1) == "2003-03 to 2003-04 (35%)"


def test_a_peak_may_begin_at_the_first_period_and_end_at_the_last():
    assert factor([0.5] + [0.0] * 10 + [0.5]).peaks() == [("2003-01", 0.5), ("2003-12", 0.5)]
    assert [name for name, _ in factor([0.6, 0.4], ("2001", "2002")).peaks()] == ["2001 to 2002"]


def test_an_even_factor_has_no_peak_and_an_empty_one_is_too_small_to_tell():
    assert factor([1 / 12] * 12).peaks() == []
    assert factor([1 / 12] * 12).peak_words() == "evenly over all 12"
    assert factor([0.0] * 12).peaks() == []
    assert factor([0.0] * 12).peak_words() == "too small to tell"


def test_even_factors_differ_in_words_by_their_lowest_and_their_highest_share():
    mode, shares = ShownMode("when", MONTHS, "time"), np.full(12, 1 / 12)
    shares[2] += 0.02
    shares[7] -= 0.02
    words = [
        Factor(mode, share_D, True, number=0, classes=(0,), mass=0.5).words(3) for share_D in (shares, shares[::-1])
    ]
    assert words[0] == "evenly over all 12 (2003-08 6.3% to 2003-03 10.3%)"
    assert words[1] == "evenly over all 12 (2003-05 6.3% to 2003-10 10.3%)"
    assert factor(shares).words(3) == "evenly over all 12"


@pytest.mark.parametrize(
    ("shares", "even"),
    [
        ([1 / 3] * 3, True),
        ([0.49, 0.49, 0.02], False),
        ([0.36, 0.34, 0.30, 0.0], False),
        ([0.3, 0.2, 0.5], False),
        ([0.12, 0.07, 0.06, *[0.75 / 9] * 9], True),
        ([0.5, 0.5], False),
        ([1.0], False),
        ([0.0, 0.0, 0.0], False),
    ],
)
def test_a_factor_is_even_if_no_row_stands_out_above_or_below(shares, even):
    assert is_even(np.array(shares)) == even


def test_the_table_of_classes_has_cumulative_shares_peaks_and_who_shares():
    table = posterior().classes(top=1)
    assert table["share"].tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert table["cumulative"].tolist() == pytest.approx([0.4, 0.7, 0.9, 1.0])
    assert table["time_peak"].tolist()[0] == "2003-03 to 2003-04 (90%)"
    assert table["time_peak"].tolist()[3] == "evenly over all 12"
    assert table["sender_shared"].tolist() == [(1, 3), (0, 3), (), (0, 1)]
    assert table["action_shared"].tolist() == [(), (2, 3), (1, 3), (1, 2)]
    assert "sender_peak" not in table


def test_a_factor_is_a_table_of_shares_heaviest_first_and_time_in_its_order():
    post = posterior()
    table = post.factor("receiver", 0)
    assert table["share"].tolist() == pytest.approx([0.8, 0.2, 0.0, 0.0, 0.0])
    assert table.index[:2].tolist() == ["Iraq", "France"]
    assert table.index.name == "receiver"
    assert table.attrs["classes"] == (0, 2)
    assert post.factor("time", 1).index.tolist() == list(MONTHS)
    assert post.factor(3, 1)["share"].tolist() == pytest.approx(months(m11=0.6, m12=0.2))


def test_a_factor_that_is_not_in_use_is_refused_with_those_that_are():
    with refused("k", 7, rule="one of the sender factors in use: 0, 1"):
        posterior().factor("sender", 7)
    with refused("mode", "nobody"):
        posterior().factor("nobody", 0)


def test_sharing_lists_the_factors_of_a_mode_by_what_their_classes_hold():
    table = posterior().sharing("action", top=1)
    assert table.index.tolist() == [1, 0]
    assert table["share"].tolist() == pytest.approx([0.6, 0.4])
    assert table["number"].tolist() == [3, 1]
    assert table["classes"].tolist() == [(1, 2, 3), (0,)]
    assert table["top"].tolist() == ["Consult 100%", "Fight 70%"]


def test_the_summary_says_how_few_classes_hold_most():
    told = posterior().class_summary("best").sentences
    assert " ".join(told) == (
        "4 classes hold counts, of a budget of 4; 2 hold 50% of the expected counts, 4 hold 95%. "
        "Factors in use: 2 sender, 3 receiver, 2 action, 3 time."
    )


@pytest.mark.parametrize(("level", "number"), [(0.4, 1), (0.41, 2), (0.7, 2), (1.0, 4)])
def test_the_classes_that_hold_a_share_are_as_few_as_can_be(level, number):
    assert holding(posterior().class_summary("best").share_C, level) == number


def test_rows_that_are_missing_as_a_whole_have_no_share():
    post = posterior()
    tensor = ac.as_tensor(np.ones((5, 5, 3, 12), dtype=int), mode_names=NAMES, labels=post.tensor.labels)
    tensor = tensor.with_missing([("United States", None, None, None)])
    seen = type(post)(type(post.record)(**{**vars(post.record), "tensor": tensor}))
    assert seen.factor("sender", 0)["share"].to_dict()["Singapore"] == pytest.approx(1.0)
    assert seen.factor("sender", 0)["share"].to_dict()["United States"] == 0.0


def test_values_are_those_of_the_classes_by_hand():
    found = posterior().class_summary("best")
    assert found.value_C.tolist() == pytest.approx(VALUES)
    assert found.factor(0, 1).share_D.tolist() == pytest.approx(FACTORS[1][0])

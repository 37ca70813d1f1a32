"""What is said follows from the numbers: tables written by hand, sentences known."""

import math

import numpy as np
import pytest
from comparison_cases import table_of

from allocore.comparison import sentences as w
from allocore.comparison.markdown_report import markdown, report
from allocore.comparison.score_tables import CRITERIA, by_split, difference, in_common, summary_table
from allocore.comparison.settings import Settings

SETTINGS = Settings("", 0.01, 2, "when", 0, 10, 5, 2, 3, 50)


def values(**series):
    return by_split(table_of(**series), CRITERIA["all"])


def test_differences_are_paired_within_splits():
    first, second = values(allocore_5=[-1.0, -2.0, -3.0, -9.0], cp_5=[-1.1, -2.2, -3.3]).values()
    found = difference(first, second)
    assert found.mean == pytest.approx(0.2)
    assert found.error == pytest.approx(0.1 / math.sqrt(3))
    assert found.splits == 3
    assert str(found) == "0.2 ± 0.058"


@pytest.mark.parametrize(
    ("apart", "clear"),
    [
        ([0.3, 0.1], False),  # two splits: the interval is 12.7 standard errors wide on each side
        ([0.3, 0.29], True),
        ([0.1, 0.3, 0.2, 0.15], True),
        ([0.1, -0.1, 0.2, 0.1], False),
        ([0.5], False),
        ([-0.2, -0.21, -0.19], True),
        ([0.0, 0.0], False),
    ],
)
def test_a_difference_is_clear_when_its_95_percent_interval_leaves_out_0(apart, clear):
    series = values(allocore_5=apart, cp_5=[0.0] * len(apart))
    assert difference(*series.values()).clear is clear


def test_nothing_follows_from_minus_infinity_or_no_common_split():
    assert math.isnan(difference(*values(allocore_5=[-1.0, -1.0], nntuck_5=[-np.inf, -1.0]).values()).mean)
    none = difference(*values(allocore_5=[None, -1.0], cp_5=[-1.0, None]).values())
    assert math.isnan(none.mean)
    assert not none.clear
    apart = values(allocore_5=[None, -1.0], cp_5=[-1.0, None])
    assert not list(w.best_of_all(apart, "all"))
    assert list(w.not_compared(apart, "all")) == ["Means are not compared: no split is common to all models."]


def test_the_best_is_named_with_how_far_the_others_are_behind():
    found = values(
        allocore_5=[-2.0, -2.1, -2.2],
        allocore_50=[-1.0, -1.1, -1.2],
        cp_5=[-1.5, -1.61, -1.69],
        cp_50=[-3.0, -3.0, -3.0],
        tucker_5=[-1.0, -1.3, -1.1],
    )
    assert list(w.best_of_all(found, "all")) == [
        "Of all held-out cells, ALL0CORE at Q = 50 and Tucker at Q = 5 predict best, a tie: mean log PPD -1.1 and "
        "-1.133; their difference, 0.033 ± 0.088, is not clear.",
        "CP at Q = 5, its best, is lower by 0.5 ± 0.0058, a clear difference.",
    ]
    clear = {key: each for key, each in found.items() if key[0] != "tucker"}
    assert list(w.best_of_all(clear, "all")) == [
        "Of all held-out cells, ALL0CORE at Q = 50 predicts best: mean log PPD -1.1, PPD 0.3329.",
        "CP at Q = 5, its best, is lower by 0.5 ± 0.0058, a clear difference.",
    ]


def test_three_models_may_tie_and_none_is_then_called_the_best():
    tied = values(allocore_5=[-1.0, -1.3, -1.1], cp_5=[-1.1, -1.2, -1.12], tucker_5=[-1.2, -1.1, -1.13])
    (told,) = w.best_of_all(tied, "all")
    assert " at Q = 5, " in told
    assert " predict best, a tie: mean log PPD " in told
    assert "the differences from the first, " in told
    assert "are not clear." in told


def test_what_differences_are_is_said_once():
    table = table_of(allocore_5=[-1.0, -1.1, -1.2], cp_5=[-1.5, -1.61, -1.69], tucker_5=[-2.5, -2.61, -2.69])
    told = " ".join(w.words(table))
    assert told.count("standard error") == 1
    assert "Differences are means ± standard errors over 3 splits, paired within splits" in told


def test_of_equal_budgets_the_smallest_is_the_best():
    assert w.best_budgets(values(cp_50=[-1.0], cp_5=[-1.0], cp_25=[-2.0])) == [("cp", "", 5)]


def test_it_is_told_which_models_get_worse_with_their_budget():
    found = values(
        allocore_5=[-2.0, -2.1],
        allocore_50=[-1.0, -1.1],
        cp_5=[-1.5, -1.6],
        cp_50=[-3.0, -3.1001],
        tucker_5=[-1.0, -1.3],
        tucker_50=[-1.2, -1.2],
    )
    better_or_worse = list(w.growth(found, "all"))
    assert len(better_or_worse) == 2, "ALL0CORE is best at its largest budget"
    assert better_or_worse[0].startswith("CP gets worse from Q = 5 to Q = 50: lower by 1.5 ± 5e-05")
    assert better_or_worse[1].startswith("Tucker does not get clearly worse from Q = 5 to Q = 50: lower by 0.05 ± 0.15")


def test_a_model_that_failed_where_it_is_hard_is_not_called_the_best():
    table = table_of(allocore_5=[-1.0, -1.1, -8.0], cp_5=[-1.5, -1.6, None])
    told = w.words(table)
    assert told[0] == "Of all held-out cells, ALL0CORE at Q = 5 predicts best: mean log PPD -1.05, PPD 0.3499."
    assert told[1].startswith("CP at Q = 5, its best, is lower by 0.5 ± ")
    assert "Means are over 2 of 3 splits: those that all compared models have." in told
    ranking = w.best_at_each_budget(table, "all")
    assert ranking[["best", "next", "splits"]].values.tolist() == [["ALL0CORE", "CP", 2]]
    assert ranking["higher by"][0].startswith("0.5 ± ")


def test_a_budget_that_lacks_splits_is_left_out_rather_than_splits_of_all_others():
    found = values(
        cp_5=[-1.0, -1.1, -9.0], cp_25=[-1.2, -1.3, -9.1], cp_50=[-0.9, None, None], tucker_5=[-2.0, -2.1, -10.0]
    )
    assert w.best_budgets(found) == [("cp", "", 5), ("tucker", "", 5)]
    assert list(w.not_compared(found, "all")) == ["Means leave out CP at Q = 50, which lacks splits."]
    assert [sentence.split(":")[0] for sentence in w.growth(found, "all")] == ["CP gets worse from Q = 5 to Q = 25"]


def test_models_with_more_splits_than_others_do_not_drive_them_out():
    found = values(allocore_5=[-1.0, -1.1], cp_5=[-1.2] * 8, cp_50=[-1.3] * 8, cp_90=[-1.4] * 8)
    assert {key[0] for key in in_common(found)} == {"allocore", "cp"}
    assert {len(each) for each in in_common(found).values()} == {2}


def test_no_gap_is_negative_and_a_difference_shows_its_sign():
    assert str(difference(*values(allocore_5=[-2.0, -2.1], cp_5=[-1.0, -1.2]).values())) == "-0.95 ± 0.05"
    third = 0.1 + 0.2
    told = list(w.best_of_all(values(allocore_5=[-0.3, -third], cp_5=[-third, -0.3]), "all"))
    assert len(told) == 1
    assert "a tie" in told[0]
    assert "their difference, 0 ± " in told[0]
    assert w.lower(difference(*values(allocore_5=[-1.0], cp_5=[-1.0]).values())) == "equal (difference 0)"


def test_one_split_says_that_its_spread_is_unknown():
    told = list(w.best_of_all(values(allocore_5=[-1.0], cp_5=[-1.2]), "positive"))
    assert told[1] == "CP at Q = 5, its best, is lower by 0.2: from one split, so its spread is unknown."
    assert not list(w.growth(values(cp_5=[-1.0], cp_50=[-2.0]), "all"))


def test_shrinkage_is_told_for_models_whose_classes_can_be_empty():
    told = list(w.shrinkage(table_of(allocore_5=[-1.0], allocore_50=[-1.0], tucker_50=[-1.0])))
    assert told == ["ALL0CORE uses 40 of 50 classes (80%) at its largest budget; factors in use: 2 who, 1 when."]


def test_what_failed_and_what_was_impossible_is_told():
    told = w.words(table_of(allocore_5=[-1.0, -1.1], cp_5=[None, -1.2], nntuck_5=[-np.inf, -1.0]))
    assert "1 job failed (CP at Q = 5, split 0): ended by SIGKILL." in told
    impossible = [sentence for sentence in told if "probability 0" in sentence]
    assert len(impossible) == 1
    assert impossible[0].startswith("NNTuck gave probability 0 to a held-out count in 1 of 2 fits")
    assert not any(sentence.startswith("NNTuck at") for sentence in told), "no means of minus infinity are compared"


def test_splits_without_a_count_held_out_are_named():
    table = table_of(allocore_5=[-1.0, -1.1, -1.2])
    table.loc[1:, "log_ppd_positive"] = np.nan
    assert list(w.what_is_missing(table)) == [
        "Splits 1, 2 held out no cell with a count: hold out more to judge predictions of counts."
    ]


def test_nothing_is_said_where_nothing_is_known():
    assert w.words(table_of(allocore_5=[None])) == ["1 job failed (ALL0CORE at Q = 5, split 0): ended by SIGKILL."]


def test_the_best_at_each_budget():
    table = table_of(allocore_5=[-2.0, -2.1], cp_5=[-1.0, -1.1001], allocore_9=[-1.0, -1.0], cp_9=[-1.5, -0.9])
    found = w.best_at_each_budget(table, "all")
    assert found["best"].tolist() == ["CP", "ALL0CORE"]
    assert found["next"].tolist() == ["ALL0CORE", "CP"]
    assert found["clear"].tolist() == ["yes", "no"]
    assert w.best_at_each_budget(table_of(cp_5=[-1.0]), "all").empty


def test_the_summary_has_medians_and_quartiles_of_what_is_there():
    found = summary_table(table_of(allocore_5=[-1.0, -2.0, -4.0, None], nntuck_5=[-np.inf, -1.0, -1.0]))
    assert found["splits"].tolist() == [3, 3]
    assert found.loc[0, ["log_ppd_25", "log_ppd", "log_ppd_75"]].tolist() == [-3.0, -2.0, -1.5]
    assert found.loc[1, ["log_ppd_25", "log_ppd", "log_ppd_75"]].tolist() == [-np.inf, -1.0, -1.0]


def test_the_report_holds_settings_words_and_tables():
    table = table_of(allocore_5=[-1.0, -1.1], nntuck_5=[-1.5, None])
    text = report(table, SETTINGS, "CountTensor: 2 x 2", ["ppd"], missing=3)
    assert "CountTensor: 2 x 2" in text
    assert "2 splits, each with 0.01 of the fibres along when held out" in text
    assert "20 sweeps, 10 of burn-in, then 5 draws, one in 2 sweeps" in text
    assert "NNTuck: the best of 3 restarts of at most 50 iterations" in text
    assert "3 jobs are missing" in text
    assert "1 job failed" in text
    assert "| ALL0CORE | 5 | 2 | -1.0500 (-1.0750 to -1.0250) |" in text
    assert "![ppd](ppd.png)" in text


def test_of_one_the_report_speaks_in_the_singular():
    text = report(table_of(nntuck_5=[-1.5]), Settings("", 0.01, 2, "when", 0, 0, 1, 1, 1, 1), "", [], missing=1)
    assert "1 split, each" in text
    assert "Gibbs samplers: 1 sweep, 0 of burn-in, then 1 draw, one in every sweep." in text
    assert "NNTuck: the best of 1 restart of at most 1 iteration." in text
    assert "**1 job is missing: the same command runs it.**" in text


def test_a_table_in_markdown():
    table = table_of(cp_5=[-1.0])[["model", "budget"]]
    assert markdown(table) == "| model | budget |\n| --- | --- |\n| cp | 5 |"

"""Findings follow from the numbers: tables written by hand, findings known."""

import math

import numpy as np
import pytest

from allocore.comparison import findings as w
from allocore.comparison.compare import Comparison
from allocore.comparison.findings import CRITERIA, by_split, difference, in_common
from allocore.comparison.models import Settings
from allocore.comparison.tables import markdown, report, summary_table
from allocore.findings import plus_minus, sentence, sentences
from support.comparison_cases import table_of

SETTINGS = Settings("", 0.01, 2, "when", 0, 0)


def kinds(findings):
    return [each.kind for each in findings]


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
        ([0.3, 0.1], None),  # two splits: the interval is 12.7 standard errors wide on each side
        ([0.3, 0.25], None),  # eleven standard errors
        ([0.3, 0.29], True),
        ([0.1, 0.3, 0.2, 0.15], True),
        ([0.1, -0.1, 0.2, 0.1], False),
        ([0.5], None),
        ([-0.2, -0.21, -0.19], True),
        ([0.0, 0.0, 0.0], False),
    ],
)
def test_a_difference_is_clear_when_its_95_percent_interval_leaves_out_0(apart, clear):
    series = values(allocore_5=apart, cp_5=[0.0] * len(apart))
    assert difference(*series.values()).clear is clear


def test_two_splits_call_no_tie_but_say_that_they_are_too_few():
    table = table_of(allocore_5=[-1.0, -1.1], cp_5=[-1.3, -1.35])
    found = {each.kind: each for each in w.comparison_findings(table)}
    assert [each["model"] for each in found["best-models"].values["models"]] == ["ALL0CORE"]
    assert found["behind-the-best"].values["clear"] is None
    assert (found["few-splits"].level, found["few-splits"].values) == ("caution", {"splits": 2, "least": 3})
    assert w.best_at_each_budget(table, "all")["clear"].tolist() == ["unknown"]
    three = w.comparison_findings(table_of(allocore_5=[-1.0, -1.1, -1.2], cp_5=[-1.3, -1.35, -1.4]))
    assert "few-splits" not in kinds(three)


def test_nothing_follows_from_minus_infinity_or_no_common_split():
    assert math.isnan(difference(*values(allocore_5=[-1.0, -1.0], nntuck_5=[-np.inf, -1.0]).values()).mean)
    none = difference(*values(allocore_5=[None, -1.0], cp_5=[-1.0, None]).values())
    assert math.isnan(none.mean)
    assert not none.clear
    apart = values(allocore_5=[None, -1.0], cp_5=[-1.0, None])
    assert not list(w.best_models(apart, "all"))
    assert kinds(w.left_out(apart, "all")) == ["no-common-split"]


def test_the_best_is_named_with_how_far_the_others_are_behind():
    found = values(
        allocore_5=[-2.0, -2.1, -2.2],
        allocore_50=[-1.0, -1.1, -1.2],
        cp_5=[-1.5, -1.61, -1.69],
        cp_50=[-3.0, -3.0, -3.0],
        tucker_5=[-1.0, -1.3, -1.1],
    )
    best, behind = w.best_models(found, "all")
    assert [(each["model"], each["budget"]) for each in best.values["models"]] == [("ALL0CORE", 50), ("Tucker", 5)]
    (tie,) = best.values["differences"]
    assert (round(tie["difference"], 3), round(tie["error"], 3), tie["clear"]) == (0.033, 0.088, False)
    assert {name: behind.values[name] for name in ("model", "budget", "clear")} == {
        "model": "CP", "budget": 5, "clear": True
    }  # fmt: skip
    assert behind.values["difference"] == pytest.approx(0.5)
    clear = {key: each for key, each in found.items() if key[0] != "tucker"}
    best, _ = w.best_models(clear, "all")
    assert best.values["models"] == [{"model": "ALL0CORE", "budget": 50, "mean": pytest.approx(-1.1)}]
    told = sentence(best)
    assert all(part in told for part in ("ALL0CORE at Q = 50", "-1.1", "0.3329"))


def test_three_models_may_tie_and_none_is_then_called_the_best():
    tied = values(allocore_5=[-1.0, -1.3, -1.1], cp_5=[-1.1, -1.2, -1.12], tucker_5=[-1.2, -1.1, -1.13])
    (best,) = w.best_models(tied, "all")
    assert len(best.values["models"]) == 3
    assert not any(each["clear"] for each in best.values["differences"])
    assert all(name in sentence(best) for name in ("ALL0CORE", "CP", "Tucker"))


def test_what_differences_are_is_said_once():
    table = table_of(allocore_5=[-1.0, -1.1, -1.2], cp_5=[-1.5, -1.61, -1.69], tucker_5=[-2.5, -2.61, -2.69])
    found = w.comparison_findings(table)
    assert [each.values for each in found if each.kind == "paired-differences"] == [{"splits": 3}]


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
    worse, unclear = w.worse_with_budget(found, "all")  # ALL0CORE is best at its largest budget
    assert (worse.values["model"], worse.values["clear"], worse.values["best"], worse.values["largest"]) == (
        "CP", True, 5, 50
    )  # fmt: skip
    assert (unclear.values["model"], unclear.values["clear"]) == ("Tucker", None)
    assert plus_minus(unclear.values["difference"], unclear.values["error"]) == "0.05 ± 0.15"


def test_a_model_that_failed_where_it_is_hard_is_not_called_the_best():
    table = table_of(allocore_5=[-1.0, -1.1, -8.0], cp_5=[-1.5, -1.6, None])
    best, behind, left_out, *_ = w.comparison_findings(table)
    assert best.values["models"] == [{"model": "ALL0CORE", "budget": 5, "mean": pytest.approx(-1.05)}]
    assert (behind.values["model"], behind.values["difference"]) == ("CP", pytest.approx(0.5))
    assert (left_out.kind, left_out.values) == ("splits-left-out", {"cells": "all", "splits": 2, "of": 3})
    ranking = w.best_at_each_budget(table, "all")
    assert ranking[["best", "next", "splits"]].values.tolist() == [["ALL0CORE", "CP", 2]]
    assert ranking["higher by"][0].startswith("0.5 ± ")


def test_a_budget_that_lacks_splits_is_left_out_rather_than_splits_of_all_others():
    found = values(
        cp_5=[-1.0, -1.1, -9.0], cp_25=[-1.2, -1.3, -9.1], cp_50=[-0.9, None, None], tucker_5=[-2.0, -2.1, -10.0]
    )
    assert w.best_budgets(found) == [("cp", "", 5), ("tucker", "", 5)]
    (left_out,) = w.left_out(found, "all")
    assert (left_out.kind, left_out.values["models"]) == ("budgets-left-out", [{"model": "CP", "budget": 50}])
    assert [each.values["largest"] for each in w.worse_with_budget(found, "all")] == [25]


def test_models_with_more_splits_than_others_do_not_drive_them_out():
    found = values(allocore_5=[-1.0, -1.1], cp_5=[-1.2] * 8, cp_50=[-1.3] * 8, cp_90=[-1.4] * 8)
    assert {key[0] for key in in_common(found)} == {"allocore", "cp"}
    assert {len(each) for each in in_common(found).values()} == {2}


def test_no_gap_is_negative_and_a_difference_shows_its_sign():
    assert str(difference(*values(allocore_5=[-2.0, -2.1], cp_5=[-1.0, -1.2]).values())) == "-0.95 ± 0.05"
    third = 0.1 + 0.2
    (tie,) = w.best_models(values(allocore_5=[-0.3, -third, -1.0], cp_5=[-third, -0.3, -1.0]), "all")
    assert len(tie.values["models"]) == 2
    assert ", 0 ± " in sentence(tie)
    equal = values(allocore_5=[-1.0], cp_5=[-1.0])
    assert "-0" not in " ".join(sentences(w.best_models(equal, "all")))


def test_the_standard_error_of_one_split_is_unknown():
    _, behind = w.best_models(values(allocore_5=[-1.0], cp_5=[-1.2]), "positive")
    assert math.isnan(behind.values["error"])
    assert "nan" not in sentence(behind)
    assert not list(w.worse_with_budget(values(cp_5=[-1.0], cp_50=[-2.0]), "all"))


def test_classes_in_use_are_for_models_whose_classes_can_be_empty():
    (found,) = w.classes_in_use(table_of(allocore_5=[-1.0], allocore_50=[-1.0], tucker_50=[-1.0]))
    assert found.values == {
        "model": "ALL0CORE", "budget": 50, "classes": 40.0, "factors": {"who": 2.0, "when": 1.0}
    }  # fmt: skip
    assert "80%" in sentence(found)


def test_what_failed_and_what_was_impossible_is_found():
    found = w.comparison_findings(table_of(allocore_5=[-1.0, -1.1], cp_5=[None, -1.2], nntuck_5=[-np.inf, -1.0]))
    by_kind = {each.kind: each.values for each in found}
    assert by_kind["failed-jobs"] == {"jobs": [{"model": "CP", "budget": 5, "split": 0}], "error": "ended by SIGKILL"}
    assert by_kind["impossible-counts"] == {"model": "NNTuck", "fits": 1, "of": 2}
    compared = [each for finding in found if finding.kind == "best-models" for each in finding.values["models"]]
    assert "NNTuck" not in {each["model"] for each in compared}, "no means of minus infinity are compared"


def test_splits_without_a_count_held_out_are_named():
    table = table_of(allocore_5=[-1.0, -1.1, -1.2])
    table.loc[1:, "log_ppd_positive"] = np.nan
    assert [each.values for each in w.splits_without_counts(table)] == [{"splits": [1, 2]}]


def test_nothing_is_found_where_nothing_is_known():
    assert kinds(w.comparison_findings(table_of(allocore_5=[None]))) == ["failed-jobs"]


def test_every_finding_has_a_sentence_of_its_numbers():
    table = table_of(allocore_5=[-1.0, -1.1], allocore_9=[-2.0, -2.1], cp_5=[None, -1.2], nntuck_5=[-np.inf, -1.0])
    for finding in Comparison(table, SETTINGS, "", failed_before=1).findings:
        told = sentence(finding)
        assert told[-1] == "."
        assert "nan" not in told
        assert str(finding.values.get("model", "")) in told


def test_the_best_at_each_budget():
    table = table_of(allocore_5=[-2.0, -2.1], cp_5=[-1.0, -1.1001], allocore_9=[-1.0, -1.0], cp_9=[-1.5, -0.9])
    found = w.best_at_each_budget(table, "all")
    assert found["best"].tolist() == ["CP", "ALL0CORE"]
    assert found["next"].tolist() == ["ALL0CORE", "CP"]
    assert found["clear"].tolist() == ["yes", "unknown"]
    assert w.best_at_each_budget(table_of(cp_5=[-1.0]), "all").empty


def test_the_summary_has_medians_and_quartiles_of_what_is_there():
    found = summary_table(table_of(allocore_5=[-1.0, -2.0, -4.0, None], nntuck_5=[-np.inf, -1.0, -1.0]))
    assert found["splits"].tolist() == [3, 3]
    assert found.loc[0, ["log_ppd_25", "log_ppd", "log_ppd_75"]].tolist() == [-3.0, -2.0, -1.5]
    assert found.loc[1, ["log_ppd_25", "log_ppd", "log_ppd_75"]].tolist() == [-np.inf, -1.0, -1.0]


def test_the_report_holds_settings_models_sentences_and_tables():
    table = table_of(allocore_5=[-1.0, -1.1], nntuck_5=[-1.5, None])
    found = Comparison(table, SETTINGS, "CountTensor: 2 x 2", {"nntuck": "NNTuck(restarts=3)"}, missing=3)
    text = found.report()
    assert "CountTensor: 2 x 2" in text
    assert "2 splits" in text
    assert "0.01" in text
    assert "along when" in text
    assert "- NNTuck: `NNTuck(restarts=3)`" in text
    assert "3 jobs are missing" in text
    assert all(f"- {each}" in text for each in found.sentences)
    assert "| ALL0CORE | 5 | 2 | -1.0500 (-1.0750 to -1.0250) |" in text
    assert "![ppd](ppd.png)" in report(found, ["ppd"])


def test_of_one_the_report_speaks_in_the_singular():
    text = Comparison(table_of(nntuck_5=[-1.5]), SETTINGS, "", missing=1).report()
    assert "1 split, each" in text
    assert "1 job is missing" in text


def test_a_table_in_markdown():
    table = table_of(cp_5=[-1.0])[["model", "budget"]]
    assert markdown(table) == "| model | budget |\n| --- | --- |\n| cp | 5 |"

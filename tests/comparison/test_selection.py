"""The smallest budget within one standard error of the best."""

import numpy as np
import pytest

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.compare import Comparison
from allocore.comparison.select_budget import Selection, one_standard_error
from support.comparison_cases import CHAINS, QUICK, JobsHere, small_tensor, table_of
from support.errors import refused


def chosen(criterion="all", **series):
    table = table_of(**series)
    budget, curve = one_standard_error(table, criterion)
    return Selection(budget, curve, criterion, Comparison(table, None, ""))


def test_a_smaller_budget_within_one_standard_error_of_the_difference_is_chosen():
    found = chosen(allocore_5=[-2.0, -2.2, -2.1], allocore_10=[-1.05, -1.0, -1.06], allocore_50=[-1.0, -1.02, -1.0])
    # 50 is ahead of 10 by 0.05, -0.02, 0.06: 0.03 on average, with a standard error of 0.025. That is too far.
    assert found.budget == 50
    assert found.table["within"].tolist() == [False, False, True]
    found = chosen(allocore_5=[-2.0, -2.2, -2.1], allocore_10=[-1.05, -1.0, -1.02], allocore_50=[-1.0, -1.02, -1.0])
    # 0.05, -0.02, 0.02: 0.0167 with 0.0203.
    assert found.budget == 10
    assert found.table["behind"][1] == pytest.approx(0.05 / 3)
    assert found.table["error"][1] == pytest.approx(0.0351188458 / 3**0.5)
    chosen_budget = found.findings[1]
    assert (chosen_budget.kind, chosen_budget.values["budget"]) == ("smaller-budget-chosen", 10)
    assert chosen_budget.values["difference"] == pytest.approx(0.05 / 3)
    assert "0.017" in found.sentences[1]


def test_what_makes_a_split_hard_for_all_budgets_does_not_blur_the_choice():
    # The means have a standard error of 1; the differences are 0.1 in every split.
    found = chosen(allocore_5=[-1.1, -3.1, -5.1], allocore_10=[-1.0, -3.0, -5.001])
    assert found.budget == 10


def test_the_smallest_of_all_that_are_within_is_chosen_even_if_one_between_is_not():
    found = chosen(allocore_5=[-1.0, -1.1], allocore_10=[-2.0, -2.0], allocore_50=[-1.1, -0.99])
    assert found.budget == 5


def test_of_equal_means_the_smaller_budget_is_the_best():
    found = chosen(allocore_5=[-1.0, -1.0], allocore_10=[-1.0, -1.0])
    assert (found.budget, found.table["behind"].tolist()) == (5, [0.0, 0.0])


def test_a_budget_that_lacks_a_split_is_not_chosen():
    found = chosen(allocore_5=[-0.1, None], allocore_10=[-1.0, -1.0])
    assert found.budget == 10
    assert (found.findings[-1].kind, found.findings[-1].values) == ("budgets-with-failed-fits", {"jobs": 1})


def test_when_the_best_is_the_largest_budget_it_is_told():
    assert chosen(cp_5=[-2.0, -2.0], cp_10=[-1.0, -1.001]).findings[-1].kind == "largest-budget-best"
    found = chosen(cp_5=[-1.0, -1.0], cp_10=[-2.0, -2.0])
    assert [each.kind for each in found.findings] == ["best-budget", "best-budget-chosen", "few-splits"]


def test_without_two_fits_of_a_budget_nothing_is_chosen():
    with refused("splits", rule="ended by SIGKILL"):
        chosen(allocore_5=[-1.0, None])


def test_means_are_over_the_splits_that_all_budgets_in_question_have():
    # Split 0 is easy: without it budget 10 is better in both splits.
    found = chosen(allocore_5=[-0.1, -2.0, -2.1, None], allocore_10=[None, -1.0, -1.1001, -9.0])
    assert found.budget == 10
    assert found.table["splits"].tolist() == [2, 2]
    assert found.findings[0].values["splits"] == 2
    with refused("splits", rule="5 and 10"):
        chosen(allocore_5=[-1.0, -1.0, None], allocore_10=[None, -1.0, -1.0])


def test_a_budget_with_a_ppd_of_0_is_not_chosen_and_without_another_nothing_is():
    found = chosen(allocore_5=[-np.inf, -0.1], allocore_10=[-1.0, -1.0])
    assert (found.budget, found.table["within"].tolist()) == (10, [False, True])
    assert found.findings[0].values["budget"] == 10
    with refused("criterion", "all"):
        chosen(allocore_5=[-np.inf, -1.0], allocore_10=[-1.0, -np.inf])


def test_select_budget_fits_and_chooses(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    found = ac.select_budget(
        small_tensor(), (1, 3), model=ac.AlloCore(**CHAINS), splits=2, criterion="positive", **QUICK
    )
    assert found.budget in (1, 3)
    assert found.table["budget"].tolist() == [1, 3]
    assert found.table["splits"].tolist() == [2, 2]
    assert str(found).startswith(f"Selection: budget {found.budget}\n")
    assert "<table" in found._repr_html_()
    line = next(line for line in found.plot().panels[0].lines if line.get_gid() == "chosen")
    assert line.get_xdata()[0] == found.budget


@pytest.mark.parametrize("wrong", [{"splits": 1}, {"criterion": "zeros"}, {"budgets": []}])
def test_bad_input_is_refused(wrong):
    ((argument, value),) = wrong.items()
    with refused(argument, value):
        ac.select_budget(small_tensor(), **{"budgets": [2], **QUICK, **wrong})

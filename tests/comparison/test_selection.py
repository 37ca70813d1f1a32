"""The smallest budget within one standard error of the best."""

import numpy as np
import pytest
from comparison_cases import QUICK, run_here, small_tensor, table_of

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.compare import Comparison
from allocore.comparison.selection import Selection, one_standard_error


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
    assert found.words[1].startswith("Q = 10 is the smallest budget within one standard error of it: lower by 0.017")


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
    assert "Jobs that failed: 1" in found.words[-1]


def test_when_the_best_is_the_largest_budget_it_is_told():
    assert "larger budgets may be even better" in chosen(cp_5=[-2.0, -2.0], cp_10=[-1.0, -1.001]).words[-1]
    assert "larger budgets" not in str(chosen(cp_5=[-1.0, -1.0], cp_10=[-2.0, -2.0]))


def test_without_two_fits_of_a_budget_nothing_is_chosen():
    with pytest.raises(ac.InputError, match="no budget has two: ended by SIGKILL"):
        chosen(allocore_5=[-1.0, None])


def test_means_are_over_the_splits_that_all_budgets_in_question_have():
    # Split 0 is easy: without it budget 10 is better in both splits.
    found = chosen(allocore_5=[-0.1, -2.0, -2.1, None], allocore_10=[None, -1.0, -1.1001, -9.0])
    assert found.budget == 10
    assert found.table["splits"].tolist() == [2, 2]
    assert "over 2 splits" in found.words[0]
    with pytest.raises(ac.InputError, match=r"two splits that the budgets 5, 10 have in common, but they have 1$"):
        chosen(allocore_5=[-1.0, -1.0, None], allocore_10=[None, -1.0, -1.0])


def test_a_budget_with_a_ppd_of_0_is_not_chosen_and_without_another_nothing_is():
    found = chosen(allocore_5=[-np.inf, -0.1], allocore_10=[-1.0, -1.0])
    assert (found.budget, found.table["within"].tolist()) == (10, [False, True])
    assert found.words[0].startswith("Q = 10 predicts")
    with pytest.raises(ac.InputError, match=r"^criterion is 'all', but no budget with 2 fits has a finite log PPD"):
        chosen(allocore_5=[-np.inf, -1.0], allocore_10=[-1.0, -np.inf])


def test_select_budget_fits_and_chooses(monkeypatch):
    monkeypatch.setattr(compare, "run_jobs", run_here)
    found = ac.select_budget(small_tensor(), (1, 3), splits=2, criterion="positive", **QUICK)
    assert found.budget in (1, 3)
    assert found.table["budget"].tolist() == [1, 3]
    assert found.table["splits"].tolist() == [2, 2]
    assert str(found).startswith(f"Selection: budget {found.budget}\nQ = ")
    assert "<table" in found._repr_html_()
    line = next(line for line in found.plot().panels[0].lines if line.get_gid() == "chosen")
    assert line.get_xdata()[0] == found.budget


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"splits": 1}, "^splits is 1, but it must be a whole number of at least 2$"),
        ({"criterion": "zeros"}, '^criterion is \'zeros\', but it must be "all" or "positive"$'),
        ({"budgets": []}, "^budgets is empty, but it must have at least one entry$"),
    ],
)
def test_bad_input_is_one_sentence(wrong, message):
    with pytest.raises(ac.InputError, match=message):
        ac.select_budget(small_tensor(), **{"budgets": [2], **QUICK, **wrong})

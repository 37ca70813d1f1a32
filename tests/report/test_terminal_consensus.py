"""The consensus on a terminal: shares with intervals, support, names, and small or weak classes below a line."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from allocore.classes.names import APART
from allocore.report.terminal import class_report
from support.consensus_cases import consensus, with_summary
from support.handmade_posterior import FACTORS, NAMES, posterior


def told(post, width=140, rows=15, top=2, **how):
    screen = io.StringIO()
    Console(file=screen, width=width).print(class_report(post, rows, top, **how))
    return [" ".join(line.split()) for line in screen.getvalue().splitlines() if line.strip()]


def test_a_class_has_its_number_its_share_with_an_interval_its_support_and_its_name():
    lines = told(consensus())
    assert lines[0] == "4 classes, consensus of 4 chains, 12 draws; reproducibility 1.00"
    assert " ".join(("class share chains", *NAMES)) in lines
    assert "7 40.0% (35.0-45.0) 4 of 4 United States → Iraq · Fight · 2003-03 to 2003-04" in lines
    assert "5 10.0% (5.0-15.0) 3 of 4 United States → everyone · Consult" in lines


def test_small_or_weak_classes_stand_below_a_line_though_they_are_larger():
    lines = told(consensus())
    starts = [line.split()[0] for line in lines if re.match(r"\d \d+\.\d%", line)]
    assert starts == ["7", "0", "5", "3"]
    rule = next(place for place, line in enumerate(lines) if line.startswith(APART))
    assert lines[rule + 1].startswith("3 30.0% (0.0-50.0) 2 of 4")
    assert lines[rule - 1].startswith("Singapore 10%"), "the end of class 5"


def test_without_such_classes_there_is_no_line_and_a_table_of_weak_ones_alone_has_its_heading():
    assert not any(line.startswith(APART) for line in told(consensus(), rows=3))
    lines = told(with_summary(consensus(), apart_C=np.ones(4, dtype=bool)))
    start = next(place for place, line in enumerate(lines) if line.startswith(APART))
    assert lines[start + 1] == " ".join(("class share chains", *NAMES))


def test_fewer_rows_show_the_strong_classes_first():
    lines = told(consensus(), rows=2)
    assert lines[0] == "2 of 4 classes, consensus of 4 chains, 12 draws; reproducibility 1.00"
    assert [line.split()[0] for line in lines if re.match(r"\d \d+\.\d%", line)] == ["7", "0"]


def test_shared_factors_tell_how_surely_they_are_shared_and_classes_by_their_numbers():
    lines = told(consensus())
    start = lines.index("Factors shared by several classes")
    assert lines[start + 1 : start + 5] == [
        "sender #0 United States 90%, Singapore 10% in classes 7, 5, 3, probability 0.00 to 0.92",
        "receiver #0 Iraq 80%, France 20% in classes 7, 0",
        "action #1 Consult 100% in classes 0, 5, 3",
        "time #0 2003-03 to 2003-04 (90%) in classes 7, 3",
    ]


def test_classes_that_share_a_factor_only_with_one_that_is_not_shown_are_not_said_to_share_it():
    # Classes 7 and 5 never use one sender together: each shares it with class 3, which is not shown.
    lines = told(consensus(), rows=3)
    assert not any(line.startswith("sender #0") for line in lines)
    assert "receiver #0 Iraq 80%, France 20% in classes 7, 0" in lines


def test_a_factor_of_one_class_alone_has_no_number():
    lines = told(consensus(), top=1)
    assert "France 60% #0 Iraq 80% #1 Consult 100% 2003-11 (60%)" in lines


def test_with_one_chain_support_is_the_share_of_draws():
    lines = told(consensus(chains=1))
    assert lines[0] == "4 classes, consensus of 1 chain, 3 draws"
    assert "7 40.0% (35.0-45.0) 96% United States → Iraq · Fight · 2003-03 to 2003-04" in lines
    assert " ".join(("class share draws", *NAMES)) in lines


@pytest.mark.parametrize("width", [50, 80, 120, 160])
def test_every_line_fits_and_every_class_is_there_at_any_width(width):
    screen = io.StringIO()
    Console(file=screen, width=width).print(class_report(consensus(), top=3))
    assert max(map(len, screen.getvalue().splitlines())) <= width
    words = " ".join(screen.getvalue().split())
    for share in ("40.0% (35.0-45.0)", "20.0% (15.0-25.0)", "10.0% (5.0-15.0)", "30.0% (0.0-50.0)"):
        assert share in words


def test_on_a_narrow_terminal_the_support_is_told_in_words():
    lines = told(consensus(), width=66)
    assert "class 7, 40.0% (35.0-45.0), in 4 of 4 chains, 96% of draws" in lines
    assert "United States → Iraq · Fight · 2003-03 to 2003-04" in lines


@pytest.mark.parametrize(
    ("how", "source"),
    [
        ({"draw": 1, "chain": 1}, "draw 1 of chain 1"),
        ({"draw": "best"}, "draw 2 of chain 3, the best by log joint density"),
        ({"chain": 1}, "draw 2 of chain 1, the best of the chain by log joint density"),
        ({"draw": -1}, "draw 2 of chain 0, the best of the chain by log joint density"),
    ],
)
def test_a_single_draw_is_named_in_the_heading(how, source):
    # The log-likelihood rises from draw to draw and from chain to chain.
    assert told(posterior(chains=4), **how)[0] == f"4 classes, {source}"


@pytest.mark.parametrize("odd", ["[bold]x[/]", "[/]", ":smile:", "<b>"])
def test_a_name_with_markup_is_shown_as_it_is(odd):
    lines = told(with_summary(consensus(), names=(odd, "b", "c", "d")))
    assert f"7 40.0% (35.0-45.0) 4 of 4 {odd}" in lines


def test_draws_without_a_class_in_common_say_so():
    lines = told(posterior([np.zeros_like(FACTORS[0]), *FACTORS[1:]], chains=2))
    assert lines[0] == "0 classes, consensus of 2 chains, 6 draws"
    assert lines[1] == "draw='best' (--draw best) shows the best draw."
    assert lines[-1] == "The chains have no class in common."

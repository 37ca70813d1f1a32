"""One class in full on a terminal: size, support, labels with intervals, who shares its factors, and its top cells."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from allocore.report.terminal import class_details
from support.consensus_cases import consensus, with_summary
from support.errors import refused
from support.handmade_posterior import COUNTRIES, MONTHS, posterior


def details(post, number, top=10, **how):
    screen = io.StringIO()
    Console(file=screen, width=120).print(class_details(post, number, top, **how))
    return screen.getvalue()


def test_a_class_of_a_draw_has_its_place_its_labels_its_peaks_and_its_family():
    told = details(posterior(), 0, draw=1)
    assert told.startswith(
        "Class 0: United States → Iraq · Fight · 2003-03 to 2003-04\ndraw 1, at (0, 0, 0, 0) of the core\n"
    )
    assert "40 expected counts, 40.0% of all; found again in 100% of the other draws." in told
    assert "sender #0  shared with classes 1, 3" in told
    assert "receiver #0  shared with class 2" in told
    assert "action #0  not shared" in told
    assert "peaks: 2003-03 to 2003-04 (90%)" in told
    assert re.search(r"Iraq +80% +█{30}", told)
    assert re.search(r"France +20% +█{8} ", told)
    assert "evenly over all 5" in details(posterior(), 3, draw=1)


def test_a_consensus_class_has_its_number_name_interval_and_support():
    told = details(consensus(), 7)
    assert told.startswith(
        "Class 7: United States → Iraq · Fight · 2003-03 to 2003-04\nconsensus of 4 chains, 12 draws\n"
    )
    assert "40 expected counts, 40.0% (35.0-45.0) of all; in 4 of 4 chains, 96% of draws." in told
    assert "of the core" not in told
    assert "weakly supported" not in told
    assert "It is small or weakly supported" in details(consensus(), 3)


def test_labels_have_intervals_and_bars():
    told = details(consensus(), 7)
    assert re.search(r"United States +90% \(68-100\) +█{30}", told)
    assert re.search(r"Singapore +10% \(8-13\) +█{3} ", told)
    assert re.search(r"2003-04 +40% \(30-50\) +█{24} ", told)


def test_classes_that_share_a_factor_are_told_with_their_probability():
    told = details(consensus(), 3)
    assert "sender #0  shared with classes 7 (0.92), 5 (0.60)\n" in told
    assert "action #1  shared with classes 0, 5\n" in told
    assert "receiver #1  not shared\n" in told
    # Class 7 never stands beside class 5, and has its sender in common with class 0 in a quarter of the draws.
    assert "sender #0  shared with class 3 (0.92); perhaps shared with 0 (0.25)\n" in details(consensus(), 7)


def test_top_cells_are_listed_with_what_is_expected_and_what_was_observed():
    post = consensus()
    told = details(post, 3, top=2)
    cells = post.top_cells(3, 2)
    assert "Top cells, summed over time" in told
    first = cells.iloc[0]
    numbers = f"{first['of_class']:,.1f} +{first['expected']:,.1f} +{first['observed']:,}"
    assert re.search(rf"United States +United States +Consult +{numbers}", told)
    assert re.search(r"Singapore +United States +Consult +3\.0 ", told)


def test_labels_with_markup_are_shown_as_they_are():
    odd = ("[bold]", "[/]", ":smile:")
    post = with_summary(
        posterior(labels=(COUNTRIES, COUNTRIES, odd, MONTHS), chains=2), names=("[red]a", "b", "c", "d")
    )
    told = details(post, 0)
    assert told.startswith("Class 0: [red]a\n")
    assert re.search(r"^ \[/\] +70%", told, flags=re.MULTILINE)
    assert re.search(r" \[/\] +\d+\.\d", told[told.index("Top cells") :]), "in the table of cells as well"


@pytest.mark.parametrize(("post", "number"), [(posterior, 9), (consensus, 1)])
def test_a_class_that_is_not_there_is_refused(post, number):
    with refused("class", number):
        details(post(), number)


def test_a_class_whose_labels_underflow_is_too_small_to_tell():
    post = consensus()
    summary = post.class_summary()
    profiles = [list(of_mode) for of_mode in summary.profiles]
    nothing = np.zeros(5)
    profiles[0][0] = type(profiles[0][0])(summary.modes[0], nothing, False, nothing, nothing)
    assert "too small to tell" in details(with_summary(post, profiles=tuple(map(tuple, profiles))), 7)

"""The class table of one draw on a terminal: classes, shares, and which classes share which factor."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import allocore as ac
from allocore.model.spec import Spec
from allocore.report.terminal import class_report
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule

NAMES = (["Ada", "Bo", "Cy"], ["north", "south"])
SHARED = [[0, 0], [1, 0], [1, 1]]
APART = [[0, 0], [1, 1], [2, 2]]


def posterior_at(locations, labels=NAMES, mode_names=("who", "where"), core_values=(6.0, 3.0, 1.0)):
    """One draw; factor k of a mode is 90% label k (the last label for later ones), so every factor adds up to 1."""
    budget = len(locations)
    factors = []
    for length in (3, 2):
        phi_DK = np.full((length, budget), 0.1 / (length - 1))
        phi_DK[np.minimum(np.arange(budget), length - 1), np.arange(budget)] = 0.9
        factors.append(phi_DK[None, None])
    used = [[[len(set(column)) for column in zip(*locations, strict=True)]]]
    return Posterior(
        Record(
            ac.as_tensor(np.ones((3, 2), dtype=int), mode_names=mode_names, labels=labels),
            Spec(budget, (budget, budget)),
            Schedule(0, 1, 1),
            0,
            core_values=np.array([[core_values]]),
            core_locations=np.array([[locations]]),
            factors=tuple(factors),
            stats={
                "log_likelihood": np.array([[-10.0]]),
                "classes": np.array([[budget]]),
                "factors": np.array(used),
                "moved": np.ones((1, 1)),
            },
        )
    )


def text(post, width=140, draw=None, **terminal):
    screen = io.StringIO()
    Console(file=screen, width=width, **terminal).print(class_report(post, draw=draw))
    return screen.getvalue()


def lines(report):
    return [" ".join(line.split()) for line in report.splitlines() if line.strip()]


def row(report, number):
    """The line with the number, the share and the name of a class, and the line with its labels."""
    told = lines(report)
    first = next(place for place, line in enumerate(told) if line.startswith(f"{number} "))
    return told[first], told[first + 1]


def test_every_class_has_a_row_with_its_share_and_its_factors_in_words():
    report = text(posterior_at(SHARED))
    assert row(report, 0) == ("0 60.0% Ada · north", "#0 Ada 90%, Bo 5% #0 north 90%, south 10%")
    assert row(report, 1) == ("1 30.0% Bo · north", "#1 Bo 90%, Ada 5% #0 north 90%, south 10%")
    assert row(report, 2) == ("2 10.0% Bo · south", "#1 Bo 90%, Ada 5% #1 south 90%, north 10%")
    assert lines(report)[0] == "3 classes, draw 0"
    header = next(line for line in lines(report) if line.startswith("class"))
    assert header == "class share who where"


def test_shared_factors_are_listed_with_the_classes_that_share_them():
    told = lines(text(posterior_at(SHARED)))
    start = told.index("Factors shared by several classes")
    assert told[start + 1 : start + 3] == [
        "who #1 Bo 90%, Ada 5% in classes 1, 2",
        "where #0 north 90%, south 10% in classes 0, 1",
    ]


def test_without_shared_factors_there_is_no_section_about_them():
    report = text(posterior_at(APART))
    assert "Factors shared" not in report
    assert "in classes" not in report
    assert row(report, 2)[0].startswith("2 10.0%")


def test_the_last_line_sums_it_up():
    told = lines(text(posterior_at(SHARED)))[-1]
    assert told == (
        "3 classes hold counts, of a budget of 3; 1 holds 50% of the expected counts, 3 hold 95%. "
        "Factors in use: 2 who, 2 where."
    )


def test_a_long_list_of_classes_is_cut():
    post = posterior_at([[0, q] for q in range(12)], core_values=tuple(range(12, 0, -1)))
    assert "in classes 0, 1, 2, 3, 4, 5, 6, 7 and 4 more" in text(post)


def test_only_the_largest_classes_are_shown_and_only_what_they_share():
    screen = io.StringIO()
    Console(file=screen, width=140).print(class_report(posterior_at(SHARED), rows=2, top=1))
    report = screen.getvalue()
    assert lines(report)[0] == "2 of 3 classes, draw 0"
    assert row(report, 0)[1] == "#0 Ada 90% #0 north 90%"
    assert not any(line.startswith("2 10.0%") for line in lines(report))
    assert "where #0 north 90% in classes 0, 1" in lines(report)
    assert not any(line.startswith("who #1") for line in lines(report))


@pytest.mark.parametrize("odd", ["[bold]", "[/]", "[/bold] x", "[red]stop[/red]", "[link=x]", "\\[bold]"])
def test_labels_and_mode_names_with_markup_are_shown_as_they_are(odd):
    mode = odd.replace("\\", "") + "?"
    post = posterior_at(SHARED, labels=([odd, "Bo", "Cy"], [odd + "!", "south"]), mode_names=(mode, "where"))
    report = text(post)
    assert row(report, 0)[0] == f"0 60.0% {odd} · {odd}!"
    assert f"#0 {odd} 90%" in row(report, 0)[1]
    assert f"#0 {odd}! 90%" in row(report, 0)[1]
    assert f"where #0 {odd}! 90%, south 10% in classes 0, 1" in lines(report)
    assert f"{mode} #1 Bo 90%, {odd} 5% in classes 1, 2" in lines(report)
    assert next(line for line in lines(report) if line.startswith("class")) == f"class share {mode} where"
    assert lines(report)[-1].endswith(f"Factors in use: 2 {mode}, 2 where.")


def test_a_mode_name_with_an_emoji_code_is_shown_as_it_is():
    assert "2 :smile:, 2 where." in text(posterior_at(SHARED, mode_names=(":smile:", "where")))


def test_shared_factors_have_a_colour_wherever_they_appear_and_others_none():
    report = text(posterior_at(SHARED), force_terminal=True, color_system="truecolor")
    # Once in each of the two rows and once in the section, for a factor of either mode.
    assert report.count("230;159;0") == 6
    assert "230;159;0" not in text(posterior_at(APART), force_terminal=True, color_system="truecolor")


def test_a_narrow_terminal_still_shows_every_class():
    told = lines(text(posterior_at(SHARED), width=40))
    assert [line for line in told if line.startswith("class ")] == [
        "class 0, 60.0%",
        "class 1, 30.0%",
        "class 2, 10.0%",
    ]


def test_the_report_of_a_fitted_model_names_its_labels():
    Y = ac.as_tensor(np.random.default_rng(5).poisson(3.0, (3, 2)), mode_names=["who", "where"], labels=NAMES)
    post = ac.AlloCore(3, burn_in=3, draws=2, thin=1, seed=1, progress=False, chains=1).fit(Y).posterior_
    assert lines(text(post))[0].endswith(", consensus of 1 chain, 2 draws")
    report = text(post, draw="best")
    assert re.search(rf"^{len(post.classes())} class(es)?, draw \d, the best by log joint density$", lines(report)[0])
    for words in post.classes(top=2)["who_top"]:
        assert words in " ".join(report.split())


def after_a_draw_of_one_class(post, kept):
    """The same run with one more draw before the last, in which all lie at the location of one class."""
    record = post._record
    locations = np.repeat(record.core_locations, 2, axis=1)
    locations[0, 0] = locations[0, 0, kept]
    changes = {
        "schedule": Schedule(0, 2, 1),
        "core_values": np.repeat(record.core_values, 2, axis=1),
        "core_locations": locations,
        "factors": tuple(np.repeat(factor, 2, axis=1) for factor in record.factors),
        "stats": {name: np.repeat(values, 2, axis=1) for name, values in record.stats.items()},
    }
    return Posterior(Record(**{**vars(record), **changes}))


def test_stability_has_a_narrow_column_where_it_is_known():
    report = text(after_a_draw_of_one_class(posterior_at(SHARED), 1), draw=-1)
    assert next(line for line in lines(report) if line.startswith("class")) == "class share stable who where"
    assert row(report, 0)[0].startswith("0 60.0% 0% Ada")
    assert row(report, 1)[0].startswith("1 30.0% 100% Bo")


@pytest.mark.parametrize(("width", "header"), [(64, "class share stable who where"), (63, "class share stable name")])
def test_modes_stand_side_by_side_if_there_is_room_and_else_one_below_another(width, header):
    report = text(after_a_draw_of_one_class(posterior_at(SHARED), 0), width=width, draw=-1)
    assert next(line for line in lines(report) if line.startswith("class")) == header
    assert ("who #0 Ada 90%, Bo 5%" in lines(report)) == ("name" in header)


def test_on_a_very_narrow_terminal_stability_stands_after_the_share():
    told = lines(text(after_a_draw_of_one_class(posterior_at(SHARED), 2), width=56, draw=-1))
    assert [line for line in told if line.startswith("class ")] == [
        "class 0, 60.0%, found again in 0% of the other draws",
        "class 1, 30.0%, found again in 0% of the other draws",
        "class 2, 10.0%, found again in 100% of the other draws",
    ]

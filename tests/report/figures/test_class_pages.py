"""Figures of classes: which stems are drawn, which are grey, what is named, what the titles say."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from allocore import figures
from allocore.report.figures import style
from support.errors import refused
from support.figure_cases import WHO, all_texts, artists, drawable_posterior, some_factors, stems, texts


def panels(post, number=0, **how):
    return figures.one_class(post, number, **how).panels


def test_a_class_has_one_panel_for_every_mode_with_the_shares_of_its_factor_as_stems():
    who, what, when = panels(drawable_posterior())
    assert stems(who, "coloured") == pytest.approx({0: 0.5, 1: 0.3, 2: 0.15, 3: 0.04})
    assert stems(who, "grey") == pytest.approx({4: 0.01}), "nothing is drawn where there is nothing"
    assert stems(what, "coloured") == pytest.approx({0: 0.1, 1: 0.2, 2: 0.7})
    assert stems(when, "coloured") == pytest.approx(dict.fromkeys(range(12), 1 / 12))


def test_stems_below_the_threshold_are_grey_and_the_others_have_the_colour_of_their_mode():
    who = panels(drawable_posterior())[0]
    assert to_hex(artists(who, "grey")[0].get_color()[0]).upper() == style.FAINT
    assert to_hex(artists(who, "coloured")[0].get_color()[0]).upper() == style.VERMILLION
    who = panels(drawable_posterior(), threshold=0.2)[0]
    assert set(stems(who, "coloured")) == {0, 1}
    assert set(stems(who, "grey")) == {2, 3, 4}
    assert not stems(panels(drawable_posterior(), threshold=0)[0], "grey")


def test_the_largest_elements_are_named_with_their_shares_the_largest_above():
    who = panels(drawable_posterior())[0]
    assert texts(who) == ["Ada", "Bo", "Cy", "Di"]
    assert texts(who, "share") == ["50%", "30%", "15%", "4%"]
    heights = [text.get_position()[1] for text in artists(who, "name")]
    assert heights == sorted(heights, reverse=True)


def test_top_limits_the_names_and_the_largest_has_a_name_below_any_threshold():
    assert texts(panels(drawable_posterior(), top=2)[0]) == ["Ada", "Bo"]
    assert texts(panels(drawable_posterior(), threshold=0.9)[0]) == ["Ada"]


def test_names_do_not_overlap():
    rng = np.random.default_rng(0)
    factor = rng.dirichlet(np.full(30, 0.3))[:, None]
    long = [f"{place} a name that is far too long for its panel" for place in range(30)]
    post = drawable_posterior([factor, factor], [(0, 0)], [1.0], labels=(long, long), names=("one", "two"))
    ax = figures.one_class(post, 0, top=9).axes[0]
    figure = ax.get_figure()
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for panel in ax.child_axes for text in artists(panel, "name")]
    assert len(boxes) > 4
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])
        assert box.x1 <= figure.bbox.x1
    assert all(name.endswith("…") for panel in ax.child_axes for name in texts(panel))


def test_periods_stand_in_their_order_with_few_ticks_and_names_at_their_peaks():
    when = panels(drawable_posterior(), 1)[2]
    assert sorted(texts(when)) == ["2018-03", "2018-11"]
    ticks = [label.get_text() for label in when.get_xticklabels()]
    assert ticks[0] == "2018"
    assert len(ticks) <= 6
    assert not artists(when, "grey")[0].get_segments(), "no period is grey"


def test_an_even_factor_says_so_and_names_nothing():
    when = panels(drawable_posterior())[2]
    assert texts(when) == []
    assert "evenly spread" in all_texts(when)


def test_an_even_factor_of_a_narrow_panel_says_so_within_the_page():
    names = ("a long name of a thing", "another long name", "a third long name")
    post = drawable_posterior(
        [np.full((3, 1), 1 / 3)] * 2, [(0, 0)], [1.0], labels=(names, names), names=("one", "two")
    )
    ax = figures.one_class(post, 0).axes[0]
    ax.get_figure().draw_without_rendering()
    remarks = [text for panel in ax.child_axes for text in panel.texts if text.get_text() == "evenly spread"]
    assert len(remarks) == 2
    assert all(remark.get_window_extent().x0 >= 0.0 for remark in remarks)


def test_things_in_an_order_of_their_own_are_named_below_the_axis():
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
    who = panels(drawable_posterior(labels=(days, None, None)))[0]
    assert texts(who) == []
    ticks = [label.get_text() for label in who.get_xticklabels()]
    assert ticks[0] == "Mon"
    assert set(ticks) <= set(days)


def test_a_mode_without_labels_is_named_by_position():
    who = np.zeros((40, 1))
    who[[7, 31], 0] = 0.6, 0.4
    post = drawable_posterior([who, who], [(0, 0)], [1.0], labels=None, names=("one", "two"))
    assert texts(panels(post)[0]) == ["7", "31"]


def test_titles_have_mode_factor_and_the_classes_that_share_it():
    # By size the classes are 0, 1, 2: the first two share the first factor of "what".
    first, second, third = (panels(drawable_posterior(), number, draw=0) for number in range(3))
    assert [panel.get_title(loc="left") for panel in first] == ["who 0", "what 0", "when 0"]
    assert [texts(panel, "below title") for panel in first] == [["not shared"], ["shared with class 1"], ["not shared"]]
    assert [texts(panel, "below title")[0] for panel in second] == [
        "not shared",
        "shared with class 0",
        "shared with class 2",
    ]
    assert [panel.get_title(loc="left") for panel in third] == ["who 2", "what 1", "when 1"]


def test_the_heading_has_share_and_stability():
    told = all_texts(figures.one_class(drawable_posterior(), 0, draw=1).axes[0])
    assert {"Draw 1 of chain 0", "share of a label in the class", "Class 0", "Ada · sell"} <= set(told)
    assert "90% interval" not in told
    heading = "60.0% of all expected counts  ·  found again in 100% of the other draws, in 2 of 2 chains"
    assert heading in told
    told = all_texts(figures.one_class(drawable_posterior(chains=1, draws=1), 0).axes[0])
    assert "60.0% of all expected counts" in told, "one draw alone says nothing about stability"


def test_a_page_has_the_largest_classes_or_those_asked_for():
    post = drawable_posterior()
    assert len(figures.classes(post).panels) == 9
    assert len(figures.classes(post, rows=2).panels) == 6
    page = figures.classes(post, [2, 0]).axes[0]
    assert [text for text in all_texts(page) if text.startswith("Class ")] == ["Class 2", "Class 0"]
    page = figures.classes(post, [2, 0], draw=0).axes[0]
    assert [panel.get_title(loc="left") for panel in page.child_axes][::3] == ["who 2", "who 0"]
    tops = [panel.get_position().y1 for panel in page.child_axes]
    assert min(tops[:3]) > max(tops[3:]), "one below the other"


def test_another_draw_can_be_shown():
    post = drawable_posterior(draws=2)
    assert figures.one_class(post, 0, draw=0, chain=1).panels
    with refused("draw", 5):
        figures.one_class(post, 0, draw=5)


@pytest.mark.parametrize(("argument", "value"), [("top", 0), ("threshold", 2), ("threshold", "x"), ("threshold", -0.5)])
def test_bad_arguments_are_named(argument, value):
    with refused(argument, value):
        figures.one_class(drawable_posterior(), 0, **{argument: value})


@pytest.mark.parametrize("number", [3, -1, "0"])
def test_a_number_that_no_class_has_is_named(number):
    with refused("number", number):
        figures.one_class(drawable_posterior(), number)


@pytest.mark.parametrize("numbers", [[], 3])
def test_bad_lists_of_classes_are_named(numbers):
    with refused("numbers", numbers):
        figures.classes(drawable_posterior(), numbers)


# Axes of one's own


def test_a_figure_fits_into_any_axes_and_hides_their_frame():
    figure = Figure(figsize=(8, 6))
    left, right = figure.subplots(1, 2)
    assert figures.one_class(drawable_posterior(), 0, right) is right
    assert not right.axison
    assert left.axison
    box = right.get_position()
    figure.draw_without_rendering()
    for panel in right.child_axes:
        inside = panel.get_window_extent().transformed(figure.transFigure.inverted())
        assert box.x0 - 1e-6 <= inside.x0
        assert inside.x1 <= box.x1 + 1e-6


def test_a_subfigure_and_tiny_axes_will_do():
    whole = Figure(figsize=(8, 6))
    part = whole.subfigures(1, 2)[0]
    drawn = [
        figures.classes(drawable_posterior(), ax=ax) for ax in (part.subplots(), whole.add_axes((0, 0, 0.05, 0.05)))
    ]
    whole.draw_without_rendering()
    assert [len(ax.child_axes) for ax in drawn] == [9, 9]
    assert [ax.get_figure() for ax in drawn] == [part, whole]


# Edges


def test_a_class_with_one_element_and_modes_with_one_label():
    one = np.ones((1, 1))
    post = drawable_posterior([one, one], [(0, 0)], [2.0], labels=(("only",), None), names=("a", "b"))
    first, second = panels(post)
    assert stems(first, "coloured") == {0: 1.0}
    assert [label.get_text() for label in second.get_xticklabels()] == ["0"]
    who = some_factors()[0]
    assert texts(panels(drawable_posterior(), 2)[0]) == ["Flo"]
    assert stems(panels(drawable_posterior(), 2)[0], "coloured") == {5: 1.0}
    assert who[5, 2] == 1


def test_a_factor_of_zeros_is_said_to_be_too_small_to_tell():
    who, what, when = some_factors()
    who[:, 0] = 0
    post = drawable_posterior([who, what, when])
    number = next(number for number in range(3) if post.class_summary("best").location_CM[number, 0] == 0)
    panel = panels(post, number, draw="best")[0]
    assert "too small to tell" in all_texts(panel)
    assert not artists(panel, "coloured")
    panel.get_figure(root=True).draw_without_rendering()


def test_a_hundred_thousand_labels_are_a_thousand_stems_and_the_named_ones_are_among_them():
    rng = np.random.default_rng(1)
    many = rng.gamma(0.01, 1.0, (100_000, 1))
    many[[5, 6], 0] = many.sum() * 0.5
    many /= many.sum()
    post = drawable_posterior(
        [many, np.ones((1, 1))], [(0, 0)], [1.0], labels=None, names=("many", "b"), chains=1, draws=1
    )
    panel = panels(post)[0]
    drawn = stems(panel, "grey") | stems(panel, "coloured")
    assert len(drawn) <= 1000 + 5
    assert {5, 6} <= set(drawn)
    assert texts(panel) == ["5", "6"]
    assert len(panel.get_children()) < 40
    # Of each stretch of a hundred the highest is drawn, so the outline is that of all.
    row = 500 + int(many[500:600, 0].argmax())
    assert drawn[row] == pytest.approx(many[row, 0])


@pytest.mark.parametrize("learn", [True, False])
def test_models_with_fixed_locations_are_drawn_too(learn):
    assert len(figures.classes(drawable_posterior(learn=learn)).panels) == 9


def test_many_modes_get_a_wider_page():
    factor = np.array([[0.9], [0.05], [0.05]])
    names = [f"mode {number}" for number in range(9)]
    post = drawable_posterior([factor] * 9, [(0,) * 9], [1.0], labels=[WHO[:3]] * 9, names=names)
    ax = figures.one_class(post, 0).axes[0]
    ax.get_figure().draw_without_rendering()
    assert len(ax.child_axes) == 9
    assert min(panel.get_window_extent().width for panel in ax.child_axes) > 10

"""The core and the factors: what is marked, joined, shaded and named."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from allocore import figures
from allocore.report.figures import style
from support.errors import refused
from support.figure_cases import WEEKS, WHAT, WHO, all_texts, artists, drawable_posterior, some_factors, texts


def marks(panel, gid):
    (line,) = artists(panel, gid)
    return {(int(x), int(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}


# The core


def test_every_class_has_a_mark_in_every_mode_and_shared_factors_come_first_in_colour():
    post = drawable_posterior()
    _, who, what, when = figures.core(post).panels
    assert marks(who, "single") == {(0, 0), (1, 1), (2, 2)}
    assert marks(who, "shared") == set()
    assert marks(what, "shared") == {(0, 0), (0, 1)}
    assert marks(what, "single") == {(1, 2)}
    assert marks(when, "shared") == {(0, 1), (0, 2)}, "the shared factor comes first though its class is smaller"
    assert marks(when, "single") == {(1, 0)}
    assert artists(what, "shared")[0].get_color() == style.GREEN
    assert artists(what, "single")[0].get_color() == style.FAINT


def test_a_line_joins_the_classes_of_a_shared_factor():
    _, who, what, when = figures.core(drawable_posterior()).panels
    joined = [artists(panel, "joined")[0].get_segments() for panel in (who, what, when)]
    assert joined[0] == []
    assert np.asarray(joined[1]).tolist() == [[[0, 0], [0, 1]]]
    assert np.asarray(joined[2]).tolist() == [[[0, 1], [0, 2]]]


def test_bars_at_the_side_are_the_shares_of_the_classes():
    post = drawable_posterior()
    bars = figures.core(post).panels[0]
    assert [bar.get_width() for bar in bars.patches] == pytest.approx(post.classes()["share"].tolist())
    assert [label.get_text() for label in bars.get_yticklabels()] == ["0", "1", "2"]
    low, high = bars.get_ylim()
    assert low > high, "the largest class is above"


def test_the_factors_are_numbered_and_counted():
    _, who, what, _ = figures.core(drawable_posterior()).panels
    assert [label.get_text() for label in who.get_xticklabels()] == ["0", "1", "2"]
    assert texts(who, "counted") == ["3 factors\n0 shared"]
    assert texts(what, "counted") == ["2 factors\n1 shared"]


def many_classes(number, modes=3, factors=100, seed=0):
    rng = np.random.default_rng(seed)
    factor = rng.dirichlet(np.ones(20), factors).T
    # No two at one location.
    locations = np.unique(rng.integers(0, factors, (2 * number, modes)), axis=0)
    locations = rng.permutation(locations)[:number]
    values = rng.gamma(0.5, 10.0, number)
    return drawable_posterior([factor] * modes, locations, values, labels=None, names=None, chains=1, draws=1)


def test_four_hundred_classes_are_cut_to_the_largest_and_the_figure_says_so():
    post = many_classes(400)
    ax = figures.core(post).axes[0]
    held = post.classes()["share"][:60].sum()
    assert f"Draw 0: 60 of 400 classes; they have {held:.0%} of all expected counts." in "\n".join(all_texts(ax))
    _, first, *_ = ax.child_axes
    assert len(marks(first, "shared") | marks(first, "single")) == 60
    # A factor that is shared with a class further down is still in colour.
    summary = post.class_summary("best")
    shared = {row for row in range(60) if summary.partners(row, 0)}
    assert {row for _, row in marks(first, "shared")} == shared
    assert all(line[1][1] < 60 for line in artists(first, "joined")[0].get_segments())


def test_all_classes_can_be_asked_for_and_then_numbers_are_left_out_rather_than_crowded():
    ax = figures.core(many_classes(400), rows=1000).axes[0]
    assert "all 400 classes; they have 100% of all expected counts." in "\n".join(all_texts(ax))
    bars = ax.child_axes[0]
    assert len(bars.patches) == 400
    numbers = [label.get_text() for label in bars.get_yticklabels()]
    assert 10 < len(numbers) <= 100
    assert len(figures.core(many_classes(400), rows=7).panels[0].patches) == 7


@pytest.mark.parametrize("rows", [0, -3, "all", 1.5])
def test_a_bad_number_of_rows_is_named(rows):
    with refused("rows", rows):
        figures.core(drawable_posterior(), rows=rows)


def test_the_core_of_tucker_shares_everything():
    factor = np.full((2, 2), 0.5)
    corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
    post = drawable_posterior([factor] * 2, corners, [4.0, 3.0, 2.0, 1.0], labels=None, names=None, learn=False)
    _, first, second = figures.core(post, draw=0).panels
    for panel in (first, second):
        assert marks(panel, "single") == set()
        assert len(artists(panel, "joined")[0].get_segments()) == 2


def test_one_class_alone_has_a_core_too():
    post = drawable_posterior([np.ones((1, 1))] * 2, [(0, 0)], [1.0], labels=None, names=None, chains=1, draws=1)
    ax = figures.core(post, Figure().add_subplot())
    ax.get_figure().draw_without_rendering()
    assert marks(ax.child_axes[1], "single") == {(0, 0)}


# The factors


def shades(panel):
    (mesh,) = (each for each in panel.collections if each.get_gid() != "groups")
    return np.asarray(mesh.get_array())


def test_factors_are_shaded_by_the_shares_of_their_labels_the_heaviest_first():
    heat, bars, _ = figures.factors(drawable_posterior(), "who").panels
    names = [label.get_text() for label in heat.get_yticklabels()]
    assert sorted(names) == sorted(WHO)
    expected = some_factors()[0]
    assert shades(heat) == pytest.approx(expected[[WHO.index(name) for name in names]])
    assert [label.get_text() for label in heat.get_xticklabels()] == ["0", "1", "2"]
    assert [bar.get_height() for bar in bars.patches] == pytest.approx([0.6, 0.3, 0.1])


def rows(figure):
    return [label.get_text() for label in figure.panels[0].get_yticklabels()]


def groups(figure):
    """The first rows of the groups after the first."""
    return [segment[0, 1] + 0.5 for lines in artists(figure.panels[0], "groups") for segment in lines.get_segments()]


def test_labels_stand_in_groups_by_the_factor_that_holds_most_of_their_counts():
    figure = figures.factors(drawable_posterior(), "who")
    # Ed: a hundredth of the first factor, which holds 60%, is less than a fifth of the second, which holds 30%.
    assert rows(figure) == ["Ada", "Bo", "Cy", "Di", "Flo", "Ed"]
    assert groups(figure) == [4]


def test_labels_keep_the_order_of_the_tensor_on_request_and_if_they_are_numbers():
    own = figures.factors(drawable_posterior(), "who", order="labels")
    assert rows(own) == list(WHO)
    assert groups(own) == []
    hours = drawable_posterior(labels=((3, 5, 8, 9, 12, 20), WHAT, WEEKS))
    assert rows(figures.factors(hours, "who")) == ["3", "5", "8", "9", "12", "20"]
    assert rows(figures.factors(hours, "who", order="factors")) == ["3", "5", "8", "9", "20", "12"]
    unnamed = drawable_posterior(labels=(None, WHAT, WEEKS))
    assert rows(figures.factors(unnamed, "who")) == ["0", "1", "2", "3", "5", "4"], "mere positions have no order"
    with refused("order", "name"):
        figures.factors(drawable_posterior(), "who", order="name")


def test_the_axes_of_heat_maps_have_titles_and_the_bars_say_what_they_show():
    who, when = figures.factors(drawable_posterior(), "who"), figures.factors(drawable_posterior(), "when")
    assert who.panels[0].get_xlabel() == "factor"
    assert (when.panels[0].get_xlabel(), when.panels[0].get_ylabel()) == ("when", "factor")
    assert when.panels[1].get_xlabel() == "share of all\nexpected counts"
    assert "share of all\nexpected counts" in all_texts(who)


def test_only_the_heaviest_labels_are_shown_and_the_first_of_every_factor_is_among_them():
    ax = figures.factors(drawable_posterior(), "who", most=2).axes[0]
    assert [label.get_text() for label in ax.child_axes[0].get_yticklabels()] == ["Ada", "Flo"]
    assert any("the 2 largest of 6 labels" in text for text in all_texts(ax))


def test_periods_run_from_left_to_right_and_factors_are_rows():
    ax = figures.factors(drawable_posterior(), "when").axes[0]
    heat, bars, _ = ax.child_axes
    assert shades(heat).shape == (2, 12)
    # The factor of the first class holds 60%.
    assert [label.get_text() for label in heat.get_yticklabels()] == ["0", "1"]
    assert [bar.get_width() for bar in bars.patches] == pytest.approx([0.6, 0.4])
    assert shades(heat)[1] == pytest.approx(some_factors()[2][:, 1])
    assert heat.get_xticklabels()[0].get_text() == "2018"


def test_many_factors_are_cut_to_the_heaviest_and_the_figure_says_so():
    post = many_classes(300)
    used = len(post.class_summary("best").factors[0])
    ax = figures.factors(post, 0, columns=12).axes[0]
    assert shades(ax.child_axes[0]).shape == (20, 12)
    assert any(f"the 12 largest of {used} factors" in text for text in all_texts(ax))


@pytest.mark.parametrize("mode", ["nobody", 7])
def test_a_mode_that_the_tensor_does_not_have_is_named(mode):
    with refused("mode", mode):
        figures.factors(drawable_posterior(), mode)


@pytest.mark.parametrize("argument", ["most", "columns"])
def test_bad_numbers_of_labels_and_factors_are_named(argument):
    with refused(argument, 0):
        figures.factors(drawable_posterior(), "who", **{argument: 0})


def test_factors_of_zeros_and_modes_of_one_label_are_drawn():
    who, what, when = some_factors()
    who[:] = 0
    post = drawable_posterior([who, what[:1], when], labels=(WHO, ("only",), None))
    drawn = [shades(figures.factors(post, mode, draw=0).panels[0]) for mode in range(3)]
    assert [len(shades_DK) for shades_DK in drawn] == [len(who), 1, len(when)]
    assert not drawn[0].any()
    assert drawn[2].any()


def test_a_hundred_thousand_labels_are_forty_rows():
    many = np.random.default_rng(0).gamma(0.05, 1.0, (100_000, 3))
    corner = [(0, 0), (1, 0), (2, 0)]
    post = drawable_posterior(
        [many, np.ones((1, 1))], corner, [3.0, 2.0, 1.0], labels=None, names=None, chains=1, draws=1
    )
    heat = figures.factors(post, 0).panels[0]
    assert shades(heat).shape == (40, 3)
    assert {str(many[:, k].argmax()) for k in range(3)} <= {label.get_text() for label in heat.get_yticklabels()}

"""Any label can be drawn; names never touch; ticks are few; the style stays in the figures."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.text import Text

from allocore import figures
from allocore.report.figures import style
from allocore.report.figures.classes import place_labels
from allocore.report.figures.run import file_names
from allocore.report.figures.style import clean, date_ticks, fitting_ticks, numbers_in, shorten, width, wrapped
from support.figure_cases import all_texts, artists, drawable_posterior, texts

AWKWARD = (
    "<script>alert('x')</script>",
    'say "hello" & go',
    "$\\frac{1}{$",
    "costs $5 or $6",
    "שלום עולם",
    "مرحبا بالعالم",
    "\U0001f600\U0001f9d1\u200d\U0001f33e emoji",
    "日本語の長い名前",
    "line\nbreak\ttab\x1bescape",
    "a" * 500,
    "\uffff alone",
    "_underscore ^ \\textbf{x} % #",
)


def awkward_posterior():
    rng = np.random.default_rng(0)
    factors = [rng.dirichlet(np.full(len(AWKWARD), 0.5), 2).T for _ in range(2)]
    corner = [(0, 0), (1, 0)]
    return drawable_posterior(factors, corner, [2.0, 1.0], labels=(AWKWARD, AWKWARD), names=("$who$", "מה <b>"))


@pytest.fixture(scope="module")
def awkward_figures():
    post = awkward_posterior()
    made = [make(post) for make in (figures.classes, figures.core, figures.traces, figures.effective_shape)]
    return [ax.get_figure() for ax in (*made, figures.factors(post, 0))]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_any_label_is_drawn_in_any_format_without_a_warning(awkward_figures, kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in awkward_figures:
            figure.savefig(tmp_path / f"any.{kind}", format=kind, dpi=40)


def test_dollars_are_dollars():
    post = awkward_posterior()
    ax = figures.one_class(post, 0, top=12, threshold=0).axes[0]
    assert ax.child_axes[0].get_title(loc="left").startswith("$who$")
    heat = figures.factors(post, 0)
    assert {"$\\frac{1}{$", "costs $5 or $6", "<script>alert('x')</script>"} <= set(all_texts(heat))
    for figure in (ax.get_figure(), heat.get_figure()):
        figure.draw_without_rendering()
        assert all(not text.get_parse_math() for text in figure.findobj(Text) if "$" in text.get_text())


@pytest.mark.slow
def test_no_letter_is_smaller_than_seven_points():
    post = drawable_posterior()
    made = [figures.classes(post), figures.core(post), figures.factors(post, "when"), figures.mass(post)]
    for ax in [*made, figures.traces(post), figures.effective_shape(post)]:
        ax.get_figure().draw_without_rendering()
        shown = [text for text in ax.get_figure().findobj(Text) if text.get_text() and text.get_visible()]
        assert min(text.get_fontsize() for text in shown) >= 7


def test_settings_are_what_they_were():
    before = dict(matplotlib.rcParams)
    figures.classes(drawable_posterior())
    with pytest.raises(ValueError, match="inside"), style.look():
        raise ValueError("inside")
    assert dict(matplotlib.rcParams) == before


def test_a_users_own_settings_do_not_reach_the_figures():
    plain = figures.mass(drawable_posterior()).axes[0]
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9, "text.usetex": True}):
        ax = figures.mass(drawable_posterior()).axes[0]
    assert [text.get_fontsize() for text in artists(ax, "classes with level")] == [7.0, 7.0]
    assert ax.xaxis.get_gridlines()[0].get_visible() == plain.xaxis.get_gridlines()[0].get_visible()
    assert not ax.xaxis.label.get_usetex()


def test_figures_are_made_in_many_threads_at_once():
    post, before = drawable_posterior(), dict(matplotlib.rcParams)
    post.class_summary("best")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: texts(figures.one_class(post, 0).panels[0]), range(8)))
    assert made == [["Ada", "Bo", "Cy", "Di"]] * 8
    assert dict(matplotlib.rcParams) == before


def test_a_new_figure_is_known_to_no_window_system():
    figure = figures.mass(drawable_posterior()).get_figure()
    assert figure.canvas is not None
    assert figure.canvas.manager is None


# Words


@given(st.text(st.characters(), max_size=30))
@example("\uf400")  # private, and yet in a font
def test_clean_text_has_nothing_that_steers_and_its_width_is_known(text):
    shown = clean(text)
    assert shown == clean(shown)
    assert shown.isprintable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert width(shown, 7.0) >= 0


@given(st.text("abc $ñ日", min_size=1, max_size=60), st.floats(20, 200))
def test_short_text_fits_and_begins_like_the_whole(text, room):
    short = shorten(text, room, 7.0)
    assert width(short, 7.0) <= room or len(short) <= 2
    assert clean(text).startswith(short.removesuffix("…"))


def test_characters_that_no_font_has_are_one_square():
    assert clean("\U000f0000\U000f0001 x") == "□ x"
    assert clean("\ud800") == "□"


def test_line_breaks_become_spaces_and_control_characters_vanish():
    assert clean("two\nlines") == "two lines"
    assert clean("a\u200db") == "ab"


def test_an_ellipsis_replaces_the_end_of_text_that_is_too_long():
    assert shorten("Iraq", 50, 7) == "Iraq"
    assert shorten("Bosnia and Herzegovina", 50, 7) == "Bosnia and…"


def test_a_title_that_is_too_long_takes_several_lines_and_loses_nothing():
    name = "among Bosnia and Herzegovina, Serbia · Fight · 2018-03"
    lines = wrapped(name, 100, 7)
    assert len(lines) > 1
    assert " ".join(lines) == name
    assert all(width(line, 7) <= 100 and not line.startswith("·") for line in lines)
    assert wrapped("Llanfairpwllgwyngyll", 30, 7)[0].endswith("…"), "only a word without room is cut"


@pytest.mark.parametrize(("share", "below"), [(0.0794, 0.05), (1.0, 1.0), (0.0, 0.0)])
def test_a_round_number_is_not_above_the_share(share, below):
    assert style.round_below(share) == pytest.approx(below)


@pytest.mark.parametrize(
    ("numbers", "room", "words"),
    [
        (("4",), 200, "shared with class 4"),
        (("4", "7 (0.92)"), 200, "shared with classes 4, 7 (0.92)"),
        (("4", "7"), 70, "shared with 4, 7"),
        (tuple(map(str, range(100, 160))), 140, "shared with 100, 101, 102 and 57 more"),
        (tuple(map(str, range(100, 160))), 85, "shared with 60 others"),
        (tuple(map(str, range(100, 160))), 55, "with 60 others"),
        (tuple(map(str, range(100, 160))), 40, "60 others"),
        (tuple(map(str, range(100, 160))), 5, "60 others"),
    ],
)
def test_classes_are_listed_as_far_as_there_is_room(numbers, room, words):
    assert numbers_in(numbers, room, 7.0) == words


# Places


@given(st.lists(st.tuples(st.floats(-50, 150), st.floats(1, 30)), max_size=12))
def test_things_spread_on_a_line_do_not_touch_and_keep_their_order(things):
    wanted, sizes = [thing[0] for thing in things], [thing[1] for thing in things]
    middles = place_labels(wanted, sizes, 0.0, 100.0)
    order = sorted(range(len(things)), key=lambda number: wanted[number])
    for first, second in pairwise(order):
        assert middles[second] - middles[first] >= (sizes[first] + sizes[second]) / 2 - 1e-6
    if sum(sizes) <= 100:
        assert all(s / 2 - 1e-6 <= m <= 100 - s / 2 + 1e-6 for m, s in zip(middles, sizes, strict=True))


def test_things_that_have_room_stay_where_they_want_to_be():
    assert place_labels([10.0, 90.0, 50.0], [10, 10, 10], 0, 100) == [10.0, 90.0, 50.0]
    assert place_labels([], [], 0, 100) == []


def test_things_that_would_overlap_move_as_little_as_possible():
    assert place_labels([50.0, 50.0, 90.0], [10, 10, 10], 0, 100) == [45.0, 55.0, 90.0]
    assert place_labels([99.0, 99.0], [10, 20], 0, 100) == [75.0, 90.0]


# Ticks


def weeks(start, number):
    return [str(day) for day in np.datetime64(start) + 7 * np.arange(number)]


@pytest.mark.parametrize(
    ("labels", "most", "ticks"),
    [
        (weeks("2018-01-01", 64), 5, [(0, "2018"), (13, "Apr"), (26, "Jul"), (39, "Oct"), (53, "2019")]),
        ([f"{year}-Q{q}" for year in range(2000, 2010) for q in range(1, 5)], 6,
         [(0, "2000"), (8, "2002"), (16, "2004"), (24, "2006"), (32, "2008")]),
        ([str(year) for year in range(1990, 2020)], 4, [(0, "1990"), (10, "2000"), (20, "2010")]),
        ([f"2018-W{week:02d}" for week in range(1, 53)], 4, [(0, "2018"), (13, "Apr"), (26, "Jul"), (39, "Oct")]),
        (weeks("2018-03-05", 8), 5, [(0, "Mar 2018"), (4, "Apr")]),
        ([f"{year}-{month:02d}" for year in (2018, 2019) for month in range(1, 13)], 5,
         [(0, "2018"), (6, "Jul"), (12, "2019"), (18, "Jul")]),
        (["2018"], 4, [(0, "2018")]),
        (["2018-03-05", "2018-03-12"], 4, [(0, "5 Mar 2018"), (1, "12 Mar")]),
    ],
)  # fmt: skip
def test_ticks_of_time_are_the_starts_of_years_quarters_and_months(labels, most, ticks):
    assert date_ticks(labels, most) == ticks


@given(st.integers(1, 3000), st.integers(2, 12), st.sampled_from(["D", "M", "Y"]))
def test_there_are_never_more_ticks_of_time_than_asked_for(number, most, unit):
    labels = [
        str(period) for period in np.datetime64("1950", unit) + np.arange(min(number, 900 if unit == "Y" else 3000))
    ]
    ticks = date_ticks(labels, most)
    assert 1 <= len(ticks) <= most
    places = [place for place, _ in ticks]
    assert places == sorted(set(places))
    assert places[-1] < len(labels)


def test_labels_that_do_not_fit_are_left_out_evenly():
    labels = [f"{hour:02d}:00" for hour in range(24)]
    few = fitting_ticks(labels, 100.0, 7.0)
    places = [place for place, _ in few]
    assert places[0] == 0
    assert len(set(np.diff(places))) == 1
    assert sum(width(text, 7.0) for _, text in few) < 100
    assert fitting_ticks(labels, 2000.0, 7.0) == list(enumerate(labels))
    assert fitting_ticks(["a" * 90, "b"], 50.0, 7.0) == [(0, "a" * 90)]
    assert len(fitting_ticks(range(100_000), 100.0, 7.0)) < 10


def test_names_of_files_have_letters_digits_and_dashes():
    assert file_names(["sender", "a/b", "A b", "../x", "\u2205"]) == ["sender", "a-b", "A-b-2", "x", "mode-4"]


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6))
def test_names_of_files_are_safe_and_differ(names):
    found = file_names(names)
    assert len({name.casefold() for name in found}) == len(names)
    assert all(name and "/" not in name and "." not in name and "\\" not in name and "\0" not in name for name in found)


def test_a_name_from_right_to_left_has_its_number_behind_it_from_left_to_right():
    title = figures.one_class(awkward_posterior(), 0, draw=0).panels[1].get_title(loc="left")
    assert title == "\u200eמה <b>\u200e 0"


def test_long_names_of_modes_are_shortened_wherever_they_stand():
    post = drawable_posterior(names=("who " * 50, "what " * 50, "when " * 50))
    for figure in (figures.traces(post), figures.effective_shape(post), figures.core(post), figures.one_class(post, 0)):
        for panel in figure.panels:
            assert len(panel.get_title(loc="left")) < 60

"""Figures of the consensus: bands and whiskers with the right ends, numbers and names, weak classes set apart."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

import allocore as ac
from allocore import figures
from allocore.classes.names import APART
from allocore.classes.summary import Profile, ShownMode
from allocore.report.figures import run as figure_files
from allocore.report.figures import style
from allocore.report.figures.classes import draw_stems
from allocore.report.figures.style import Figure
from support.consensus_cases import INTERVALS, NUMBERS, consensus, with_summary
from support.errors import refused
from support.figure_cases import all_texts, artists, texts, write_without_drawing
from support.handmade_posterior import FACTORS, MONTHS, posterior


def headings(ax):
    return [text for text in all_texts(ax) if text.startswith("Class ")]


def whiskers(panel):
    """The whiskers of a panel, as a dict from row to their ends."""
    (lines,) = artists(panel, "whiskers")
    return {int(segment[0, 0]): tuple(segment[:, 1].tolist()) for segment in lines.get_segments()}


def band(panel):
    """The band of a panel, as a dict from row to its ends."""
    (area,) = artists(panel, "band")
    ends = {}
    for row, height in area.get_paths()[0].vertices.tolist():
        ends.setdefault(int(row), []).append(height)
    return {row: (min(heights), max(heights)) for row, heights in ends.items()}


# Intervals


def test_coloured_stems_have_whiskers_from_the_low_to_the_high_end():
    sender, receiver, *_ = figures.one_class(consensus(), 7).panels
    assert whiskers(sender) == {2: pytest.approx((0.075, 0.125)), 3: pytest.approx((0.675, 1.0))}
    assert set(whiskers(receiver)) == {0, 1}, "rows without a share have no whiskers"
    assert to_hex(artists(sender, "whiskers")[0].get_color()[0]).upper() == style.VERMILLION


def test_grey_stems_have_no_whiskers():
    sender = figures.one_class(consensus(), 7, threshold=0.5).panels[0]
    assert set(whiskers(sender)) == {3}


def test_a_time_line_has_a_band_behind_it_and_no_whiskers():
    time = figures.one_class(consensus(), 7).panels[3]
    share = np.array(FACTORS[3][0])
    assert band(time) == {row: pytest.approx((0.75 * s, 1.25 * s)) for row, s in enumerate(share.tolist())}
    assert not artists(time, "whiskers")
    (area,), (stems,) = artists(time, "band"), artists(time, "coloured")
    assert area.get_zorder() < stems.get_zorder(), "behind the stems"


def test_ordered_labels_have_a_band_as_well():
    days = ("Mon", "Tue", "Wed", "Thu", "Fri")
    sender = figures.one_class(consensus(labels=(days, days, None, MONTHS)), 7).panels[0]
    assert band(sender)[3] == pytest.approx((0.675, 1.0))


def test_the_axis_has_room_for_the_highest_end():
    for panel in figures.one_class(consensus(), 7).panels:
        ends = artists(panel, "whiskers") or artists(panel, "band")
        highest = max(path.vertices[:, 1].max() for path in ends[0].get_paths())
        assert panel.get_ylim()[1] >= highest


def test_a_single_draw_has_no_intervals():
    for panel in figures.one_class(consensus(), 0, draw=0).panels:
        assert not artists(panel, "whiskers")
        assert not artists(panel, "band")


def test_a_long_time_line_has_a_band_of_the_rows_that_are_drawn():
    share = np.random.default_rng(0).dirichlet(np.ones(5000))
    profile = Profile(ShownMode("when", range(5000), "order"), share, False, 0.5 * share, 1.5 * share)
    ax = style.given_or_new(None, 3.0, 2.0)
    draw_stems(ax, profile, style.BLUE, 5, 0.0, 0.0)
    assert len(band(ax)) <= 1000
    row, ends = next(iter(band(ax).items()))
    assert ends == pytest.approx((0.5 * share[row], 1.5 * share[row]))


# Words


def test_the_heading_has_number_and_name_share_with_interval_and_support():
    told = all_texts(figures.one_class(consensus(), 7).axes[0])
    assert {"Consensus of 4 chains, 12 draws", "share of a label in the class", "90% interval"} <= set(told)
    assert {"Class 7", "United States → Iraq · Fight · 2003-03 to 2003-04"} <= set(told)
    assert "40.0% (35.0-45.0) of all expected counts  ·  in 4 of 4 chains, 96% of draws" in told
    told = all_texts(figures.one_class(consensus(chains=1), 7).axes[0])
    assert "40.0% (35.0-45.0) of all expected counts  ·  in 96% of draws" in told


def test_a_long_name_takes_as_many_lines_as_it_needs():
    post = with_summary(consensus(), names=("a name that goes on and on " * 20, "b", "c", "d"))
    ax = figures.one_class(post, 7).axes[0]
    figure = ax.get_figure()
    figure.draw_without_rendering()
    (name,) = artists(ax, "class name")
    assert name.get_text().split() == ("a name that goes on and on " * 20).split()
    assert name.get_window_extent().x1 <= figure.bbox.x1


def test_titles_tell_how_surely_a_factor_is_shared():
    panels = figures.one_class(consensus(), 3).panels
    assert [panel.get_title(loc="left") for panel in panels] == ["sender", "receiver", "action", "time"]
    below = [texts(panel, "below title")[0] for panel in panels]
    assert below[0].startswith("shared with")
    assert "7 (0.92), 5 (0.60)" in below[0]
    assert below[1] == "not shared"
    assert below[2].endswith("0, 5")


def test_classes_are_asked_for_by_number():
    page = figures.classes(consensus(), [0, 7]).axes[0]
    assert headings(page) == ["Class 0", "Class 7"]
    with refused("number", 1):
        figures.one_class(consensus(), 1)


def test_weak_classes_come_last_below_a_faint_heading():
    page = figures.classes(consensus()).axes[0]
    assert headings(page) == ["Class 7", "Class 0", "Class 5", "Class 3"]
    (apart,) = artists(page, "section")
    assert apart.get_text() == APART
    tops = {text.get_text(): text.get_position()[1] for text in page.texts}
    assert tops["Class 5"] > tops[APART] > tops["Class 3"]
    assert not artists(figures.classes(consensus(), rows=3).axes[0], "section")
    assert not artists(figures.classes(consensus(), [3, 7]).axes[0], "section"), "the order asked for is kept"


def test_nothing_on_a_page_of_classes_overlaps():
    page = figures.classes(consensus()).axes[0]
    page.get_figure().draw_without_rendering()
    boxes = [text.get_window_extent() for text in page.texts]
    boxes += [panel.title.get_window_extent() for panel in page.child_axes]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:place])


# The core, the factors and the mass


def test_the_core_has_class_numbers_whiskers_and_weak_classes_below_the_others():
    bars, sender, *_ = figures.core(consensus()).panels
    assert [label.get_text() for label in bars.get_yticklabels()] == ["7", "0", "5", "3"]
    assert bars.get_yticks().tolist() == [0, 1, 2, 4], "an empty line before those set apart"
    assert [bar.get_width() for bar in bars.patches] == pytest.approx([0.4, 0.2, 0.1, 0.3])
    (lines,) = artists(bars, "whiskers")
    ends = {int(segment[0, 1]): tuple(segment[:, 0].tolist()) for segment in lines.get_segments()}
    by_number = dict(zip(NUMBERS, INTERVALS, strict=True))
    assert ends == {0: by_number[7], 1: by_number[0], 2: by_number[5], 4: by_number[3]}
    assert bars.get_xlim()[0] > 0.5, "room for the highest end"
    assert texts(bars, "apart") == [APART]
    (marks,) = artists(sender, "shared")
    assert sorted(marks.get_ydata()) == [0, 2, 4]


def test_the_core_of_a_draw_has_no_whiskers_and_names_the_draw():
    ax = figures.core(consensus(), draw="best").axes[0]
    assert not artists(ax.child_axes[0], "whiskers")
    assert "Draw 2 of chain 3, the best by log joint density: all 4 classes" in "\n".join(all_texts(ax))
    assert "Consensus of 4 chains, 12 draws: all 4 classes" in "\n".join(all_texts(figures.core(consensus()).axes[0]))


def test_factors_tell_where_they_are_from():
    assert any(
        "consensus of 4 chains, 12 draws" in text for text in all_texts(figures.factors(consensus(), "sender").axes[0])
    )
    assert any(
        "draw 1 of chain 2" in text for text in all_texts(figures.factors(consensus(), 0, draw=1, chain=2).axes[0])
    )


def test_the_mass_of_the_consensus_has_a_band_and_marks_only_what_is_reached():
    post = consensus()
    whole = figures.mass(post).axes[0]
    assert band(whole)[4] == pytest.approx((1.0, 1.0)), "all draws are the same"
    assert texts(whole, "classes with level") == ["2 classes have 50%", "4 classes have 95%"]
    held = with_summary(post, share_C=np.array([0.4, 0.3, 0.1, 0.05]))
    assert texts(figures.mass(held).axes[0], "classes with level") == ["2 classes have 50%"]
    assert figures.mass(held).axes[0].get_title(loc="left") == "Consensus of 4 chains, 12 draws; 4 classes have 85%"
    assert not artists(figures.mass(post, draw=0).axes[0], "band")


def test_the_band_of_the_mass_has_the_quantiles_of_the_draws():
    Y = np.random.default_rng(0).poisson(2.0, (4, 4, 3))
    post = ac.AlloCore(3, burn_in=5, draws=20, thin=1, seed=0, progress=False, chains=1).fit(Y).posterior_
    shares = post.consensus().shares_by_draw[0]
    low, high = np.quantile(np.cumsum(shares, axis=1), (0.05, 0.95), axis=0)
    drawn = band(figures.mass(post).axes[0])
    assert [drawn[row + 1] for row in range(len(low))] == [pytest.approx(ends) for ends in zip(low, high, strict=True)]


def test_without_a_class_in_common_figures_say_what_to_do(tmp_path):
    post = posterior([np.zeros_like(FACTORS[0]), *FACTORS[1:]], chains=2)
    for draw in (figures.classes, figures.core, figures.mass, lambda post: figures.write_all(post, tmp_path / "out")):
        with refused("draw", None, rule="best"):
            draw(post)
    assert not (tmp_path / "out").exists()


def test_pages_on_disk_hold_the_strong_classes_first(tmp_path, monkeypatch):
    pages = []
    write_without_drawing(monkeypatch)
    monkeypatch.setattr(figure_files, "classes", lambda post, numbers, **how: pages.append(numbers) or Figure())
    written = figures.write_all(consensus(), tmp_path, formats=["svg"], rows=4, on_page=3)
    assert pages == [[7, 0, 5], [3]]
    assert [file.name for file in written][:3] == ["classes-1.svg", "classes-2.svg", "over-time.svg"]

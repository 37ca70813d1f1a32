"""Six modes with long names: every figure fits, nothing is cut at an edge, and no two texts lie on each other."""

from itertools import combinations

import numpy as np
import pytest

from allocore import figures
from allocore.figures import write_all
from support.figure_cases import boxes, cut_texts, drawable_posterior, texts, write_without_drawing
from support.tiers import parametrize_few

NAMES = ("sender country", "receiver country", "kind of action", "month", "hour of the day", "newspaper section")
COUNTRIES = tuple(f"Country {number}" for number in range(30))
ACTIONS = tuple(f"take action number {number}" for number in range(15))
MONTHS = tuple(f"2013-{month:02d}" for month in range(1, 13))
LABELS = (COUNTRIES, COUNTRIES[:20], ACTIONS, MONTHS, tuple(range(24)), tuple(f"section {n}" for n in range(8)))


def six_modes(classes=13, factors=5, draws=50, seed=3):
    rng = np.random.default_rng(seed)
    made = [rng.dirichlet(np.full(len(labels), 0.15), factors).T for labels in LABELS]
    locations = rng.integers(0, factors, (classes, 6))
    values = np.sort(rng.gamma(1.0, size=classes))[::-1]
    return drawable_posterior(made, locations, values, labels=LABELS, names=NAMES, draws=draws, chains=2)


@pytest.fixture(scope="module")
def post():
    return six_modes()


MAKERS = {
    "classes": lambda post: figures.classes(post, rows=2),
    "core": figures.core,
    "effective_shape": figures.effective_shape,
    "mass": figures.mass,
    "traces": figures.traces,
    **{f"factors of mode {mode}": lambda post, mode=mode: figures.factors(post, mode) for mode in range(6)},
}


@pytest.mark.slow
@parametrize_few("name", MAKERS)
def test_no_text_is_cut_at_the_edge_of_a_figure(post, name):
    assert cut_texts(MAKERS[name](post)) == []


@pytest.mark.slow
@parametrize_few("classes", [13, 30, 5, 12], quick=2)
def test_no_text_of_a_core_lies_on_another(classes):
    shown = [(text, box.padded(-1)) for text, box in boxes(figures.core(six_modes(classes)))]
    for (one, its_box), (other, other_box) in combinations(shown, 2):
        assert not its_box.overlaps(other_box), (one, other)


def test_names_of_labels_are_whole_and_panels_stand_on_two_lines(post):
    panels = figures.classes(post, rows=2).panels
    assert len(panels) == 12
    assert not any("…" in name for panel in panels for name in texts(panel))
    heights = [round(panel.get_position().y1, 6) for panel in panels[:6]]
    assert heights[0] == heights[1] == heights[2] > heights[3] == heights[4] == heights[5]


def test_a_page_for_print_has_fewer_classes_if_they_need_two_lines(post, tmp_path, monkeypatch):
    write_without_drawing(monkeypatch)
    files = [file.name for file in write_all(post, tmp_path, formats=["svg"], rows=6)]
    assert [name for name in files if name.startswith("classes")] == ["classes-1.svg", "classes-2.svg"]

"""The figure of a motif: the classes of each pair of parties below the names of the two."""

import matplotlib.pyplot as plt

from allocore import figures
from support.errors import refused
from support.figure_cases import texts, write_without_drawing
from support.handmade_posterior import posterior
from support.wars import wars


def test_classes_of_each_pair_are_below_the_names_of_its_parties():
    figure = figures.motif(wars(), most=2)
    page = figure.axes[0]
    arrows = "a → b, a → b, b → a"
    assert texts(page, "section") == [
        f"a: country 00 · b: country 01 · {arrows}",
        f"a: country 02 · b: country 03 · {arrows}",
    ]
    assert [name.split(" · ")[1] for name in texts(page, "class name")] == ["Fight", "Offer", "Protest"] * 2
    assert len(figure.panels) == 6 * 4
    assert "2 of its 4 pairs" in figure.caption
    assert "p = 0.001" in figure.caption


def test_it_draws_in_axes_of_the_user():
    ax = plt.figure(figsize=(7, 9)).subplots()
    assert figures.motif(wars(), 0, ax) is ax
    plt.close("all")


def test_a_motif_is_among_the_figures_that_are_written_if_it_is_no_chance(tmp_path, monkeypatch):
    write_without_drawing(monkeypatch)
    written = {file.stem for file in figures.write_all(wars(), tmp_path / "one", formats="svg")}
    assert "motif" in written
    written = {file.stem for file in figures.write_all(posterior(chains=2), tmp_path / "two", formats="svg")}
    assert "motif" not in written


def test_there_must_be_such_a_motif():
    with refused("number", 99, rule="there are"):
        figures.motif(wars(), 99)

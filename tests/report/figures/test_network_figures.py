"""The adjacency matrix by community, and the map of who acts on whom."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import allocore as ac
from allocore import figures
from allocore.classes.networks import community_ties, pair_counts
from support.errors import refused
from support.figure_cases import all_texts, artists, texts, write_without_drawing
from support.handmade_posterior import NAMES, posterior
from support.shown_posteriors import chains_apart, varied_posterior


@pytest.fixture(scope="module")
def post():
    return varied_posterior(masked=True)


def test_the_adjacency_matrix_has_the_counts_in_the_order_of_the_communities(post):
    figure = figures.adjacency(post)
    panel, _ = figure.panels
    orders = []
    for labels, mode in ((panel.get_yticklabels(), "sender"), (panel.get_xticklabels(), "receiver")):
        names, table = [each.get_text() for each in labels], post.memberships(mode)
        assert sorted(names) == sorted(table.index)
        sizes = post.memberships(mode, "communities")["share"]
        ranks = table["community"].reindex(names).map(sizes.to_dict()).fillna(-1.0).tolist()
        assert ranks == sorted(ranks, reverse=True)
        orders.append([list(table.index).index(name) for name in names])
    known = pair_counts(post.tensor, (0, 1))
    (counts,), (unobserved,) = artists(panel, "counts"), artists(panel, "unobserved")
    np.testing.assert_array_equal(counts.get_array().filled(0.0), known.counts_VW[np.ix_(*orders)])
    np.testing.assert_array_equal(~unobserved.get_array().mask, known.cells_VW[np.ix_(*orders)] == 0.0)
    assert len(artists(panel, "border")) >= 1
    assert post.consensus().summary.source in figure.caption


def test_the_largest_nodes_are_drawn_of_many(post):
    panel = figures.adjacency(post, most=2).panels[0]
    table = post.memberships("sender")["expected"]
    shown = {each.get_text() for each in panel.get_yticklabels()}
    assert shown == set(table.nlargest(2).index)


def test_names_of_nodes_give_way_where_there_is_no_room():
    counts = np.random.default_rng(0).poisson(0.5, (90, 90, 2))
    model = ac.AlloCore(2, burn_in=4, draws=4, thin=1, chains=2, seed=0, progress=False, threads=1)
    panel = figures.adjacency(model.fit(ac.as_tensor(counts).mask_diagonal()).posterior_).panels[0]
    assert all_texts(panel.yaxis) == ["mode_0"]
    assert texts(panel, "community")


def test_squares_have_the_areas_of_ties_and_stripes_the_shares_of_actions():
    post = posterior()
    figure = figures.communities(post, draw="best")
    ties = community_ties(post.class_summary("best"), (0, 1))
    (panel,) = figure.panels
    (collection,) = artists(panel, "ties")
    area = {}
    for path, colour in zip(collection.get_paths(), collection.get_facecolors(), strict=True):
        box = path.get_extents()
        middle = round(box.y0 + box.height / 2)
        area.setdefault((middle, tuple(colour)), []).append(box.width * box.height)
    whole = ties.share_GHA.sum(axis=2)
    np.testing.assert_allclose(sum(map(sum, area.values())), 0.94**2 * whole.sum() / whole.max())
    for g in range(len(ties.senders)):
        by_row = sum(sum(parts) for (row, _), parts in area.items() if row == g)
        assert by_row == pytest.approx(0.94**2 * whole[g].sum() / whole.max())
    labels = [post.tensor.labels[2][row] for row in ties.heaviest_labels(6)]
    assert texts(figure.axes[0], "legend") == labels
    assert panel.get_yticklabels()[0].get_text() == "0: United States, Singapore"
    assert (panel.get_ylabel(), panel.get_xlabel()) == NAMES[:2]


def test_both_draw_in_axes_of_the_user(post):
    ax = plt.figure(figsize=(6, 6)).subplots()
    assert figures.adjacency(post, ax) is ax
    ax = plt.figure(figsize=(6, 6)).subplots()
    assert figures.communities(post, ax, most=2) is ax
    plt.close("all")


def test_figures_of_networks_are_among_those_that_are_written(post, tmp_path, monkeypatch):
    write_without_drawing(monkeypatch)
    names = [file.stem for file in figures.write_all(post, tmp_path / "one", formats="svg")]
    assert names[names.index("core") + 1 :][:2] == ["communities", "adjacency"]
    names = [file.stem for file in figures.write_all(post, tmp_path / "two", formats="svg", draw="best")]
    assert "communities" in names
    assert "adjacency" not in names, "communities of nodes are those of the consensus"


def test_chains_without_a_common_class_and_wrong_modes_are_refused(post):
    with refused("post", rule="no communities"):
        figures.adjacency(chains_apart())
    with refused("draw"):
        figures.communities(chains_apart())
    with refused("modes", ["sender"]):
        figures.adjacency(post, modes=["sender"])
    with refused("by", "sender"):
        figures.communities(post, by="sender")
    with refused("most", 0):
        figures.communities(post, most=0)

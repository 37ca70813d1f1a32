"""Results as graphs, against the tables they are made of, and files that igraph reads."""

from dataclasses import replace

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.errors import refused
from support.planted import A, B, C, D, posterior_of, spike, steady_run

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]
MONTHS = [f"2003-0{month}" for month in range(1, 5)]
DIAGONAL = [(d, d, None) for d in range(6)]
ONE, OTHER = spike(6, 0), spike(6, 4)


@pytest.fixture(scope="module")
def tied():
    """A community of Ada, who acts on Ed's, and Ed's within itself; in other months."""
    planted = [(4.0, (ONE, OTHER, spike(4, 0))), (3.0, (OTHER, OTHER, spike(4, 1)))]
    missing = [*DIAGONAL, (5, None, None), (None, 5, None), (0, 1, 2)]
    names = ("sender", "receiver", "month")
    return posterior_of([[planted] * 3] * 2, (6, 6, 4), missing=missing, tied=(0, 1), labels=[PEOPLE, PEOPLE, MONTHS],
                        names=names)  # fmt: skip


def test_communities_are_nodes_and_the_counts_of_their_classes_are_ties(tied):
    graph, summary = tied.to_networkx(least=0.0, progress=False), tied.consensus().summary
    table = tied.memberships("sender", "communities", progress=False)
    assert type(graph) is nx.DiGraph
    assert list(graph) == [str(number) for number in table.index]
    for number, row in table.iterrows():
        node = graph.nodes[str(number)]
        assert (node["label"], node["nodes"], node["community"]) == (row["name"], row["nodes"], number)
        assert node["share"] == pytest.approx(row["share"])
        assert node["classes"] == " ".join(map(str, row["classes"]))
    weights = nx.get_edge_attributes(graph, "weight")
    assert weights == pytest.approx({("0", "1"): summary.value_C[0], ("1", "1"): summary.value_C[1]})
    assert "top" not in graph["0"]["1"], "there is no mode but time"
    assert set(tied.to_networkx(least=summary.value_C[1] + 0.01, progress=False).edges) == {("0", "1")}


def test_communities_of_modes_that_are_not_tied_are_named_with_their_mode():
    post = steady_run([A, B, C, D], [A, B, C, D], names=["sender", "receiver", "action"])
    graph = post.to_networkx(modes=("sender", "action"), progress=False)
    assert {data["mode"] for _, data in graph.nodes(data=True)} == {"sender", "action"}
    assert all(one.startswith("sender ") and other.startswith("action ") for one, other in graph.edges)
    assert sum(data["share"] for *_, data in graph.edges(data=True)) == pytest.approx(1.0)
    assert graph["sender 0"]["action 0"]["top"] == "receiver 1 90%", "the mode that is neither"


def test_classes_are_tied_by_the_factors_that_they_share():
    post = steady_run([A, B, C, D], [A, B, C, D])
    graph, summary = post.to_networkx("classes", progress=False), post.consensus().summary
    assert type(graph) is nx.Graph
    assert [data["label"] for _, data in graph.nodes(data=True)] == list(summary.names)
    (edge,) = graph.edges(data=True)
    assert edge == ("0", "1", {"weight": 1.0, "mode_0_sharing": 1.0, "mode_1_sharing": 0.0, "mode_2_sharing": 0.0})


def test_the_expected_counts_of_pairs_are_sums_over_their_observed_cells(tied):
    graph = tied.to_networkx("expected", least=0.0, progress=False)
    pairs = [(one, other) for one in PEOPLE[:5] for other in PEOPLE[:5] if one != other]
    assert set(graph.edges) == set(pairs), "no pair without observed cells"
    table = tied.predict(pd.DataFrame(pairs, columns=["sender", "receiver"]))
    assert [graph[one][other]["weight"] for one, other in pairs] == pytest.approx(table["expected"].tolist())
    counts = tied.tensor.to_dense().sum(axis=2)
    for one, other in pairs:
        assert graph[one][other]["observed"] == counts[PEOPLE.index(one), PEOPLE.index(other)]
    some = tied.to_networkx("expected", least=0.3, progress=False)
    assert set(some.edges) == {ends for ends in graph.edges if graph.edges[ends]["weight"] >= 0.3}
    members = tied.memberships("sender", progress=False)
    for name, row in members.iterrows():
        node = graph.nodes[name]
        if pd.isna(row["community"]):
            assert node == {"label": name}
        else:
            values = tuple(node[each] for each in ("community", "probability", "share"))
            assert values == pytest.approx((row["community"], row["probability"], row["share"]))


@pytest.mark.parametrize(
    "settings",
    [{"likelihood": "bernoulli"}, {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}],
)
def test_expected_counts_are_those_of_the_likelihood(settings):
    names = ("sender", "receiver", "month")
    counts = np.random.default_rng(1).poisson(0.5, (5, 5, 3))
    if settings["likelihood"] == "bernoulli":
        counts = np.minimum(counts, 1)
    Y = ac.as_tensor(counts, mode_names=names).mask_diagonal()
    settings = settings | {"burn_in": 3, "draws": 2, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    post = ac.AlloCore(3, **settings).fit(Y).posterior_
    graph = post.to_networkx("expected", least=0.0, progress=False)
    cells = [(v, w) for v in range(5) for w in range(5) if v != w]
    expected = [post.expected(np.array([[v] * 3, [w] * 3, range(3)])).sum() for v, w in cells]
    assert [graph[str(v)][str(w)]["weight"] for v, w in cells] == pytest.approx(expected)
    assert {"sender_community", "receiver_community"} <= set(graph.nodes["0"]), "one of each role"


@pytest.mark.parametrize("tied", [("a", "b"), None], ids=["tied", "own"])
def test_undirected_ties_are_edges_without_direction(tied):
    counts = np.random.default_rng(3).poisson(np.kron(np.eye(2) + 0.1, np.full((3, 3), 3.0))[:, :, None], (6, 6, 2))
    Y = ac.as_tensor(np.triu(counts.T, 1).T, mode_names=["a", "b", "layer"], labels=[PEOPLE, PEOPLE, ["x", "y"]])
    settings = {"burn_in": 5, "draws": 2, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    post = ac.AlloCore(4, likelihood="poisson", tied=tied, **settings).fit(Y.undirected()).posterior_
    graph = post.to_networkx("expected", least=0.0, progress=False)
    assert (type(graph), graph.number_of_edges()) == (nx.Graph, 15)
    dense_VV = Y.undirected().to_dense().sum(axis=2)
    for one, other, data in graph.edges(data=True):
        assert data["weight"] == pytest.approx(post.predict({"a": other, "b": one})["expected"].item())
        assert data["observed"] == dense_VV[PEOPLE.index(one), PEOPLE.index(other)]
    communities, summary = post.to_networkx(least=0.0, progress=False), post.consensus().summary
    assert type(communities) is nx.Graph
    assert sum(data["weight"] for *_, data in communities.edges(data=True)) == pytest.approx(summary.value_C.sum())


def test_nodes_of_two_kinds_with_a_label_in_common_are_named_with_their_mode():
    post = steady_run([A, B], [A, B], labels=[None, None, ["2", "x", "y", "z"]], names=["a", "b", "c"])
    graph = post.to_networkx("expected", modes=("a", "c"), least=0.0, progress=False)
    assert graph.nodes["a 2"]["label"] == graph.nodes["c 2"]["label"] == "2"
    assert (graph.nodes["a 2"]["mode"], graph.nodes["c 2"]["mode"]) == ("a", "c")
    post = steady_run([A, B], [A, B], labels=[None, None, list("wxyz")], names=["a", "b", "c"])
    assert "w" in post.to_networkx("expected", modes=("a", "c"), progress=False)


@pytest.mark.parametrize("kind", ["communities", "classes", "expected"])
def test_igraph_reads_the_graph_that_was_written(tied, tmp_path, kind):
    graph = tied.to_networkx(kind, least=0.1, progress=False)
    read = igraph.Graph.Read_GraphML(str(ac.write_graph(tied, tmp_path / "new" / "graph.graphml", kind, least=0.1)))
    assert read.is_directed() == graph.is_directed()
    assert read.vs["name"] == list(graph)
    assert read.vs["label"] == [data["label"] for _, data in graph.nodes(data=True)]
    found = {(read.vs[edge.source]["name"], read.vs[edge.target]["name"]): edge["weight"] for edge in read.es}
    assert found == pytest.approx(nx.get_edge_attributes(graph, "weight"))
    table = pd.read_csv(
        ac.write_graph(tied, tmp_path / "edges.csv", kind, least=0.1), dtype={"source": str, "target": str}
    )
    assert table["weight"].tolist() == pytest.approx([data["weight"] for *_, data in graph.edges(data=True)])
    listed = igraph.Graph.DataFrame(table, directed=graph.is_directed(), use_vids=False)
    assert listed.es["weight"] == pytest.approx(table["weight"].tolist())


def test_hostile_labels_are_texts_in_every_file(tied, tmp_path):
    wicked = ["\x01\x1b[31m", "\ufffe", '"/><script>', "]]>&amp;", "a\rb\nc", "=1+1"]
    post = ac.Posterior(
        replace(
            tied.record,
            tensor=tied.record.tensor.with_labels([wicked, wicked, MONTHS], ["\x02", '"<', "month"]),
        )
    )
    for kind in ("communities", "classes", "expected"):
        file = str(ac.write_graph(post, tmp_path / "graph.graphml", kind, least=0.0))
        read = nx.read_graphml(file)
        assert len(igraph.Graph.Read_GraphML(file).vs) == len(read) == len(post.to_networkx(kind, progress=False))
    assert set(read.nodes) == {"\\x01\\x1b[31m", "\\ufffe", '"/><script>', "]]>&amp;", "a\rb\nc", "=1+1"}


def test_a_graph_without_edges_is_a_table_with_a_heading(tied, tmp_path):
    path = ac.write_graph(tied, tmp_path / "edges.tsv", "expected", least=1e9)
    assert path.read_text() == "source\ttarget\tweight\n"


def test_bad_requests_are_refused(tied, tmp_path):
    with refused("kind", "nodes"):
        tied.to_networkx("nodes", progress=False)
    for least in (-1.0, float("nan"), "1"):
        with refused("least"):
            tied.to_networkx(least=least, progress=False)
    with refused("modes"):
        tied.to_networkx(modes=["sender"], progress=False)
    with refused("path", str(tmp_path / "graph.gexf")):
        ac.write_graph(tied, tmp_path / "graph.gexf")


def test_without_networkx_the_error_names_it(tied, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with refused("kind", rule="needs networkx"):
        tied.to_networkx(progress=False)

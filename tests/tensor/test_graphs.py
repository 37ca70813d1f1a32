"""Graphs of networkx and igraph as tensors."""

import subprocess
import sys
from datetime import datetime

import igraph
import networkx as nx
import numpy as np
import pytest
import scipy.sparse

from allocore.tensor.files import as_tensor
from support.errors import refused

EDGES = [
    ("Ada", "Max", {"layer": "mail", "year": 2003, "weight": 2}),
    ("Ada", "Max", {"layer": "mail", "year": 2003}),
    ("Max", "Eve", {"layer": "call", "year": 2011, "weight": 5}),
    ("Eve", "Ada", {"layer": "mail", "year": 2005, "weight": np.int64(1)}),
]


def graph_of(kind, edges=EDGES, nodes=("Eve", "Ada", "Max", "Bo")):
    graph = kind()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


def cells(Y):
    """The counts by labels."""
    named = zip(*(np.array(labels)[row] for labels, row in zip(Y.labels, Y.coords, strict=True)), strict=True)
    return {tuple(map(str, labels)): int(count) for labels, count in zip(named, Y.counts, strict=True)}


def test_nodes_layers_and_times_become_modes_and_parallel_edges_are_summed():
    Y = as_tensor(graph_of(nx.MultiDiGraph), layers=("layer", "year"))
    assert Y.mode_names == ("source", "target", "layer", "year")
    assert Y.labels == (("Eve", "Ada", "Max", "Bo"),) * 2 + (("call", "mail"), ("2003", "2005", "2011"))
    assert cells(Y) == {
        ("Ada", "Max", "mail", "2003"): 3,
        ("Max", "Eve", "call", "2011"): 5,
        ("Eve", "Ada", "mail", "2005"): 1,
    }
    assert Y.missing.cells == 4 * 2 * 3


def test_weights_are_counts_unless_edges_are_counted():
    graph = graph_of(nx.MultiDiGraph)
    assert cells(as_tensor(graph)) == {("Ada", "Max"): 3, ("Max", "Eve"): 5, ("Eve", "Ada"): 1}
    assert cells(as_tensor(graph, weight=None)) == {("Ada", "Max"): 2, ("Max", "Eve"): 1, ("Eve", "Ada"): 1}
    assert as_tensor(graph, weight="year").total == 2003 + 2003 + 2011 + 2005


def test_a_self_loop_keeps_the_diagonal():
    Y = as_tensor(graph_of(nx.DiGraph, [("Ada", "Ada"), ("Ada", "Max")]))
    assert (Y.total, Y.missing.cells) == (2, 0)


def test_undirected_graphs_have_undirected_ties():
    graph = nx.MultiGraph([("b", "a", {"year": 1}), ("a", "b", {"year": 1}), ("c", "a", {"year": 2, "weight": 3})])
    Y = as_tensor(graph, layers="year")
    assert Y.undirected_modes == (0, 1)
    assert cells(Y) == {("b", "a", "1"): 2, ("a", "c", "2"): 3}
    assert as_tensor(graph.to_directed(), layers="year").undirected() == Y
    assert as_tensor(igraph.Graph([(2, 0), (0, 1)])) == as_tensor(nx.Graph([(0, 1), (0, 2)]))
    assert as_tensor([nx.Graph([(0, 1)]), nx.Graph([(1, 2)])]).undirected_modes == (0, 1)
    with refused("x", rule="between two nodes"):
        as_tensor(nx.Graph([("a", "a"), ("a", "b")]))
    with refused("x", rule="all directed or all undirected"):
        as_tensor([nx.Graph([("a", "b")]), nx.DiGraph([("a", "b")])])


def test_the_keys_of_a_multigraph_can_be_a_layer():
    graph = nx.MultiDiGraph([("a", "b", "mail"), ("a", "b", "call"), ("b", "c", "mail")])
    assert as_tensor(graph, layers="key").labels[2] == ("call", "mail")


def test_a_list_or_a_dict_of_graphs_has_one_more_mode():
    one, other, empty = nx.DiGraph([("a", "b")]), nx.DiGraph([("b", "c")]), nx.DiGraph()
    Y = as_tensor({"2001": one, "2002": other, "2003": empty})
    assert (Y.mode_names, Y.labels[2]) == (("source", "target", "graph"), ("2001", "2002", "2003"))
    assert cells(Y) == {("a", "b", "2001"): 1, ("b", "c", "2002"): 1}
    Y = as_tensor([one, other, empty])
    assert (Y.shape, Y.labels[2]) == ((3, 3, 3), range(3))


def test_nodes_without_names_are_positions():
    graph = nx.gn_graph(5, seed=0)
    assert as_tensor(graph).labels == (range(5), range(5))
    assert as_tensor(nx.DiGraph([(7, 3)])).labels == (("7", "3"),) * 2


def test_layers_are_ordered_as_the_calendar_has_them_and_moments_are_days():
    edges = [("a", "b", {"m": month, "day": datetime(2001, 1, 9)}) for month in ("Mar", "Jan", "Feb")]
    Y = as_tensor(nx.MultiDiGraph(edges), layers=["m", "day"], mode_names=["from", "to", "month", "day"])
    assert (Y.mode_names, *Y.labels[2:]) == (("from", "to", "month", "day"), ("Jan", "Feb", "Mar"), ("2001-01-09",))


def test_igraph_gives_the_same_tensor():
    graph = graph_of(nx.MultiDiGraph, [edge for edge in EDGES if "weight" in edge[2]])
    other = igraph.Graph(directed=True)
    other.add_vertices(["Eve", "Ada", "Max", "Bo"])
    for one, two, data in graph.edges(data=True):
        other.add_edge(one, two, **data)
    assert as_tensor(other, layers=("layer", "year")) == as_tensor(graph, layers=("layer", "year"))
    assert as_tensor(igraph.Graph([(0, 1), (1, 2)], directed=True)).labels == (range(3), range(3))


def test_an_adjacency_matrix_takes_the_names_of_its_nodes():
    graph = graph_of(nx.DiGraph)
    names = list(graph)
    Y = as_tensor(nx.to_scipy_sparse_array(graph, names), labels=[names, names], mode_names=["source", "target"])
    assert Y.mask_diagonal() == as_tensor(graph)
    assert as_tensor(scipy.sparse.csr_matrix(np.eye(2, k=1)), labels=[["a", "b"]] * 2).labels == (("a", "b"),) * 2


def test_a_list_of_matrices_has_one_more_mode():
    two = [scipy.sparse.csr_array(np.eye(3, k=1, dtype=int)), scipy.sparse.csr_array(2 * np.eye(3, k=-1, dtype=int))]
    Y = as_tensor(two, mode_names=["from", "to", "year"])
    np.testing.assert_array_equal(Y.to_dense(), np.stack([each.toarray() for each in two], axis=-1))


def test_a_list_of_edges_is_a_directed_graph():
    named = [(one, two, data) for one, two, data in EDGES]
    Y = as_tensor(named, layers=("layer", "year"))
    assert cells(Y) == cells(as_tensor(graph_of(nx.MultiDiGraph), layers=("layer", "year")))
    assert Y.labels[0] == ("Ada", "Eve", "Max")
    assert cells(as_tensor([(10, 9), (10, 9), (9, 2, 3)])) == {("10", "9"): 2, ("9", "2"): 3}
    assert as_tensor([(10, 9), (9, 2)]).labels[0] == ("2", "9", "10")


@pytest.mark.parametrize(
    ("graph", "how", "argument", "rule"),
    [
        ([("a", ["b"])], {}, "x", "texts or numbers"),
        ([("a", "b", "much")], {}, "weight", "whole numbers"),
        ([scipy.sparse.eye_array(2), scipy.sparse.eye_array(3)], {}, "x", "one shape"),
        (nx.DiGraph([("a", "b", {"weight": 0.5})]), {}, "weight", "whole numbers"),
        (nx.DiGraph([("a", "b", {"weight": -1})]), {}, "weight", "whole numbers"),
        (nx.DiGraph([("a", "b", {"weight": "two"})]), {}, "weight", "whole numbers"),
        (nx.DiGraph([("a", "b", {"weight": np.nan})]), {}, "weight", "whole numbers"),
        (nx.DiGraph([("a", "b")]), {"weight": "trade"}, "weight", "must be an attribute"),
        (nx.DiGraph([("a", "b")]), {"layers": "year"}, "layers", "every edge"),
        (nx.DiGraph([("a", "b")]), {"layers": ["year", "year"]}, "layers", "different"),
        (nx.DiGraph([("a", "b")]), {"layers": 1}, "layers", "attributes of the edges"),
        (nx.DiGraph([("a", "b")]), {"weight": ["weight"]}, "weight", "name of an attribute"),
        (nx.DiGraph([("1", "b"), (1, "b")]), {}, "labels", "differ from each other"),
        (nx.DiGraph(), {}, "x", "positive count"),
        (np.eye(2), {"layers": "year"}, "layers", "graphs"),
        (np.eye(2), {"weight": None}, "weight", "graphs"),
        ([nx.DiGraph([("a", "b")]), np.eye(2)], {}, "x", "must be a CountTensor"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(graph, how, argument, rule):
    with refused(argument, rule=rule):
        as_tensor(graph, **how)


def test_a_graph_is_read_without_loading_other_libraries():
    code = (
        "import sys, networkx\nfrom allocore.tensor.files import as_tensor\n"
        "as_tensor(networkx.DiGraph([(0, 1)]))\nassert not {'pandas', 'scipy', 'igraph'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

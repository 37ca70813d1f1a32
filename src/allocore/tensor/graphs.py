"""Graphs of networkx and igraph, and lists of edges, as tensors: nodes by nodes, by what the attributes of edges say.

A graph is recognised by the module that defines its type, so neither library has to be imported. Edges with the same
ends, layers and times are summed, as in multigraphs. Nodes are in the order of the graph, and both modes have all of
them. Ties are undirected if the graph is. If no node has an edge to itself, the diagonal is missing: such ties were not
possible, rather than absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from allocore.errors import Described, InputError, as_list
from allocore.tensor.coordinates import NOTHING_TO_FIT
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import free_name, sorted_labels

WEIGHT = "weight"
_KEY = "key"  # of an edge in a multigraph, which is no attribute there

_Edge = tuple[object, object, Mapping[str, object]]


class _Graph(NamedTuple):
    """A graph of any library: its nodes, and its edges with their attributes."""

    nodes: list[Any]
    edges: list[_Edge]
    directed: bool
    named: bool  # whether nodes have names, or only numbers


def is_graph(x: object) -> bool:
    """Return whether an object is a graph of networkx or igraph, or a list of edges."""
    if isinstance(x, list) and x:
        return all(isinstance(edge, tuple) and len(edge) in (2, 3) for edge in x)
    libraries = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    return ("networkx" in libraries and hasattr(x, "is_multigraph")) or ("igraph" in libraries and hasattr(x, "vs"))


def are_graphs(x: object) -> bool:
    """Return whether an object is a graph, or a list or dict of graphs."""
    several = list(x.values()) if isinstance(x, Mapping) else x
    return is_graph(x) or (isinstance(several, list | tuple) and bool(several) and all(map(is_graph, several)))


def tensor_of_graphs(x: Any, weight: str | None, layers: str | Sequence[str]) -> CountTensor:
    """Return the tensor of a graph, or of a list or dict of graphs: see `as_tensor`."""
    given = [layers] if isinstance(layers, str) else as_list("layers", layers, "must be attributes of the edges")
    names = [str(name) for name in given]
    if len(set(names)) < len(names):
        raise InputError("layers", layers, "must be different attributes of the edges")
    if weight is not None and not isinstance(weight, str):
        raise InputError("weight", weight, "must be the name of an attribute of the edges or None")
    graphs = [_read(each) for each in (x.values() if isinstance(x, Mapping) else [x] if is_graph(x) else x)]
    if len({graph.directed for graph in graphs}) > 1:
        raise InputError("x", Described("directed and undirected graphs"), "must be all directed or all undirected")
    nodes = dict.fromkeys(node for graph in graphs for node in graph.nodes)
    row_of = {node: row for row, node in enumerate(nodes)}
    edges = [(place, *edge) for place, graph in enumerate(graphs) for edge in graph.edges]
    if not edges:
        raise InputError("x", Described("a graph without edges"), NOTHING_TO_FIT)
    ends = [(row_of[one], row_of[other]) for _, one, other, _ in edges]
    if not graphs[0].directed:
        _check_no_loops(edges)
        ends = [(min(pair), max(pair)) for pair in ends]
    columns = [list(rows) for rows in zip(*ends, strict=True)]
    numbered = not any(graph.named for graph in graphs) or list(nodes) == list(range(len(nodes)))
    labels: list[list[object] | None] = [None if numbered else list(nodes)] * 2
    for name in names:
        values = [_label(name, edge) for _, *edge in edges]
        found = sorted_labels(set(values))
        place_of = {label: place for place, label in enumerate(found)}
        columns.append([place_of[value] for value in values])
        labels.append(list(found))
    if not is_graph(x):
        columns.append([place for place, *_ in edges])
        labels.append(list(x) if isinstance(x, Mapping) else None)
        names.append(free_name("graph", names))
    lengths = [len(nodes), len(nodes), *(1 + max(column) for column in columns[2:])]
    if not is_graph(x):
        lengths[-1] = len(graphs)
    tensor = CountTensor(
        np.array(columns, dtype=np.int64),
        _counts([edge for _, *edge in edges], weight),
        lengths,
        mode_names=[free_name("source", names), free_name("target", names), *names],
        labels=labels,
    )
    if not graphs[0].directed:
        return tensor.undirected()
    return tensor if (tensor.coords[0] == tensor.coords[1]).any() else tensor.mask_diagonal()


def _check_no_loops(edges: Sequence[tuple[Any, ...]]) -> None:
    loops = [one for _, one, other, _ in edges if one == other]
    if loops:
        given = Described(f"an undirected graph with an edge from {loops[0]!r} to itself")
        raise InputError("x", given, "must have ties between two nodes: networkx.selfloop_edges finds the others")


def _read(x: Any) -> _Graph:
    if isinstance(x, list):
        return _Graph(_nodes_of(x), [(one, other, _attributes(*more)) for one, other, *more in x], True, True)
    if hasattr(x, "vs"):
        named = "name" in x.vs.attributes()
        nodes = list(x.vs["name"]) if named else list(range(x.vcount()))
        ends = ((nodes[edge.source], nodes[edge.target], edge.attributes()) for edge in x.es)
        return _Graph(nodes, list(ends), x.is_directed(), named)
    edges: Iterator[_Edge] = iter(x.edges(data=True))
    if x.is_multigraph():
        edges = ((one, other, {_KEY: key, **data}) for one, other, key, data in x.edges(keys=True, data=True))
    return _Graph(list(x.nodes), list(edges), x.is_directed(), True)


def _nodes_of(edges: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The nodes of a list of edges, in order."""
    try:
        nodes = dict.fromkeys(end for edge in edges for end in edge[:2])
    except TypeError:
        raise InputError("x", Described("a list of edges"), "must have nodes that are texts or numbers") from None
    place_of = {text: place for place, text in enumerate(sorted_labels(map(str, nodes)))}
    return sorted(nodes, key=lambda node: place_of[str(node)])


def _attributes(given: Any = None) -> Mapping[str, object]:
    """The attributes of an edge in a list, which may be a weight alone."""
    if isinstance(given, Mapping):
        return given
    return {} if given is None else {WEIGHT: given}


def _label(name: str, edge: Sequence[Any]) -> str:
    one, other, attributes = edge
    if attributes.get(name) is None:
        rule = f"must be attributes of every edge, and the edge from {one!r} to {other!r} has no {name!r}"
        raise InputError("layers", name, rule)
    return str(attributes[name]).removesuffix(" 00:00:00")  # a day as a moment


def _counts(edges: Sequence[Sequence[Any]], weight: str | None) -> list[int]:
    """The counts of the edges: their weights, or one each."""
    weights = [1 if weight is None else attributes.get(weight, 1) for _, _, attributes in edges]
    if weight not in (None, WEIGHT) and not any(weight in attributes for _, _, attributes in edges):
        raise InputError("weight", weight, "must be an attribute of some edges, or None to count each edge once")
    for (one, other, _), count in zip(edges, weights, strict=True):
        try:
            whole = count >= 0 and count == int(count)
        except (TypeError, ValueError, OverflowError):  # no number, NaN or infinite
            whole = False
        if not whole:
            wrong = Described(f"{count!r} on the edge from {one!r} to {other!r}")
            rule = "must be an attribute with whole numbers of at least 0, or None to count each edge once"
            raise InputError("weight", wrong, rule)
    return [int(count) for count in weights]

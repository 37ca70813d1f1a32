"""Results as graphs of networkx: who acts on whom, by communities or by nodes, and which classes share factors.

    kind           nodes                         edges, from one to the other, and their weight
    communities    communities of two modes      the expected counts of the classes between them
    classes        classes of the consensus      how many factors the two share: the sum over modes of the probability
    expected       nodes of two modes            the expected counts of the pair in its observed cells

If ties are undirected, edges are too, and the classes in both directions between two communities are added up. Counts
are summed over the other modes. Attributes are texts and numbers, which every format of graphs has. The `label`
of a node is what people read; Gephi and igraph draw it. An attribute that a node does not have, such as the community
of one without observed cells, is left out.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from allocore._io import result_file
from allocore._text import visible
from allocore.classes.consensus import Consensus
from allocore.classes.memberships import Memberships
from allocore.classes.networks import Modes, PairCounts, community_ties, node_modes, pair_counts
from allocore.classes.summary import ClassSummary, Profile, is_even
from allocore.errors import InputError, check_choice
from allocore.kernels.elementary import Floats
from allocore.posterior.predict import expected_sums_of_pairs, sampled
from allocore.storage.record import Record
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.files import write_frame

if TYPE_CHECKING:
    import networkx as nx

GraphKind = Literal["communities", "classes", "expected"]
_MOST_DRAWS = 100
_NAMED = 3  # labels of an edge
_ENDINGS = (".graphml", ".csv", ".tsv", ".parquet")


def graph_of(
    record: Record, consensus: Consensus, kind: GraphKind, modes: Modes, least: float, threads: int, progress: bool
) -> "nx.Graph":
    """Return a graph of networkx: see `Posterior.to_networkx`."""
    check_choice("kind", kind, get_args(GraphKind))
    if isinstance(least, bool) or not isinstance(least, int | float | np.number) or not least >= 0.0:
        raise InputError("least", least, "must be a number of at least 0")
    if kind == "classes":
        return _graph_of_classes(consensus.summary, least)
    pair = node_modes(record.tensor, modes)
    found = [consensus.memberships(mode, progress=progress) for mode in pair]
    if kind == "communities":
        return _graph_of_communities(consensus.summary, pair, found, least)
    counts = pair_counts(record.tensor, pair)
    pairs_2N, expected_VW = np.array(np.nonzero(counts.cells_VW > 0.5)), np.zeros(counts.cells_VW.shape)
    expected_VW[tuple(pairs_2N)] = expected_sums_of_pairs(sampled(record, _MOST_DRAWS), pair, pairs_2N, threads)
    return _graph_of_nodes(record, pair, found, counts, expected_VW, least)


def write_graph(graph: "nx.Graph", path: Path, *, safe_csv: bool = False) -> None:
    """Write a graph as GraphML, or its edges as a table."""
    import networkx as nx
    import pandas as pd

    if path.suffix.lower() != ".graphml":
        rows = [{"source": one, "target": other, **data} for one, other, data in graph.edges(data=True)]
        table = pd.DataFrame(rows, columns=None if rows else ["source", "target", "weight"])
        write_frame(table, path, safe_csv=safe_csv)
        return
    named = graph.copy()
    nx.set_node_attributes(named, {node: node for node in graph}, "name")  # of igraph
    written = io.BytesIO()
    nx.write_graphml_xml(named, written)
    with result_file(path) as file:
        file.write(_allowed_in_xml(written.getvalue().decode()).encode())


def _allowed_in_xml(text: str) -> str:
    """A text without the control characters of labels, which XML does not allow."""
    return visible(text).translate({0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"})


def check_graph_file(path: Path, argument: str) -> None:
    """Check that graphs can be written to files with this ending."""
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(argument, str(path), f"must end in {', '.join(_ENDINGS)}")


def _empty(kind: GraphKind, tensor: CountTensor, pair: tuple[int, int] | None = None) -> "nx.Graph":
    """A graph without nodes; `pair` are the modes between which edges go."""
    try:
        import networkx as nx
    except ImportError:
        raise InputError("kind", kind, "needs networkx: pip install networkx") from None
    undirected = pair is None or set(pair) == set(tensor.undirected_modes or ())
    return nx.Graph(kind=kind) if undirected else nx.DiGraph(kind=kind)


def _graph_of_communities(
    summary: ClassSummary, pair: tuple[int, int], found: list[Memberships], least: float
) -> "nx.Graph":
    graph, ties = _empty("communities", summary.tensor, pair), community_ties(summary, pair)
    shared = len(found[0].roles) > 1
    names = [
        {number: str(number) if shared else f"{each.mode.name} {number}" for number in each.number.tolist()}
        for each in found
    ]
    for each, name in zip(found, names, strict=True):
        nodes = each.frame("communities")["nodes"].tolist()
        for g, number in enumerate(each.number.tolist()):
            graph.add_node(
                name[number],
                label=each.names[g],
                community=number,
                **({} if shared else {"mode": each.mode.name}),
                share=float(each.size[g]),
                nodes=nodes[g],
                classes=" ".join(map(str, each.classes[g])),
            )
    counts = summary.value_C.sum() / (summary.share_C.sum() or 1.0)  # of all classes of a draw, on average
    for g, sender in enumerate(ties.senders):
        for h, receiver in enumerate(ties.receivers):
            share_A = ties.share_GHA[g, h]
            share = float(share_A.sum())
            if share > 0.0 and share * counts >= least:
                ends = names[0][sender.number], names[1][receiver.number]
                by = {} if ties.by is None else {"top": _top(summary, ties.by, share_A)}
                graph.add_edge(*ends, weight=share * float(counts), share=share, **by)
    return graph


def _top(summary: ClassSummary, mode: int, share_A: Floats) -> str:
    share_A = share_A / share_A.sum()
    return Profile(summary.modes[mode], share_A, is_even(share_A)).words(_NAMED)


def _graph_of_classes(summary: ClassSummary, least: float) -> "nx.Graph":
    graph = _empty("classes", summary.tensor)
    for c, number in enumerate(summary.number_C.tolist()):
        graph.add_node(
            str(number),
            label=summary.names[c],
            share=float(summary.share_C[c]),
            expected=float(summary.value_C[c]),
            **{"class": number},
            support=float(summary.support.draws_C[c]),
        )
    sharing = summary.sharing or ()
    weight_CC = sum(sharing, np.zeros((len(summary.names),) * 2))
    for c, d in zip(*np.nonzero(np.triu(weight_CC > 0.0, 1) & (weight_CC >= least)), strict=True):
        by_mode = {f"{name}_sharing": float(each[c, d]) for name, each in zip(summary.mode_names, sharing, strict=True)}
        ends = str(summary.number_C[c]), str(summary.number_C[d])
        graph.add_edge(*ends, weight=float(weight_CC[c, d]), **by_mode)
    return graph


def _graph_of_nodes(
    record: Record, pair: tuple[int, int], found: list[Memberships], counts: PairCounts, expected_VW: Floats,
    least: float,
) -> "nx.Graph":  # fmt: skip
    graph, labels = (
        _empty("expected", record.tensor, pair),
        [list(map(str, record.tensor.labels[mode])) for mode in pair],
    )
    one_kind, shared = labels[0] == labels[1], len(found[0].roles) > 1
    meet = not one_kind and bool(set(labels[0]) & set(labels[1]))
    names = [
        [f"{each.mode.name} {label}" if meet else label for label in own]
        for each, own in zip(found, labels, strict=True)
    ]
    for each, name, own in zip(found, names, labels, strict=True):
        mode = {} if one_kind else {"mode": each.mode.name}
        for d, node in enumerate(name):
            graph.add_node(node, label=own[d], **mode)
            graph.nodes[node].update(_membership(each, d, f"{each.mode.name}_" if one_kind and not shared else ""))
    if not graph.is_directed():
        expected_VW = np.triu(expected_VW)
    for v, w in zip(*np.nonzero((expected_VW >= least) & (expected_VW > 0.0)), strict=True):
        observed = int(counts.counts_VW[v, w])
        graph.add_edge(names[0][v], names[1][w], weight=float(expected_VW[v, w]), observed=observed)
    return graph


def _membership(found: Memberships, node: int, prefix: str) -> Mapping[str, Any]:
    """The main community of a node, the probability of it, and the share of the node in it."""
    main = int(found.main[node])
    if main < 0:
        return {}
    values = {
        "community": int(found.number[main]),
        "probability": float(found.probability[node, main]),
        "share": float(found.share[node, main]),
    }
    return {prefix + name: value for name, value in values.items()}

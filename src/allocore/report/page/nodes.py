"""What the page shows of the nodes of a network: their communities, their partners, and their counts over time.

Two modes are a network if they are tied or have the same labels. Nodes have one membership for each mode, or one in all
if the modes are tied. Their counts are shown for each *direction*, from the node and to it, or once if ties are
undirected. Of a large network, the page gets the nodes with the largest expected counts.
"""

from typing import Any

import numpy as np

from allocore.classes.memberships import Memberships
from allocore.classes.networks import MOST_PAIRS, pair_counts
from allocore.classes.summary import FAINT, ClassSummary
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.workers import available_threads
from allocore.posterior.check import network_modes
from allocore.posterior.predict import expected_sums_of_pairs, sampled
from allocore.report.fit import Fit
from allocore.report.page.numbers import rounded
from allocore.storage.record import Record
from allocore.tensor.sharded import stays_on_disk

_MOST_NODES, _MOST_PARTNERS, _MOST_MEMBERSHIPS = 500, 8, 8
_MOST_DRAWS = 50
_MOST_VISITED = 10_000_000  # cells, which the Bernoulli likelihood visits one by one


def nodes_of(posterior: Fit, summary: ClassSummary) -> dict[str, Any] | None:
    """Return the nodes of a network; None for a single draw, and if there is no network or no community."""
    record = posterior.record
    pair = record.spec.tied or network_modes(record.tensor)
    if pair is None or not summary.is_consensus or not summary.names or record.new_rows is not None:
        return None
    found = {each.roles: each for each in map(posterior.consensus().memberships, pair)}
    expected_V = np.sum([each.expected for each in found.values()], axis=0)
    nodes = np.argsort(-expected_V, kind="stable")[:_MOST_NODES]
    time = next((place for place, mode in enumerate(summary.modes) if mode.kind == "time"), None)
    labels = summary.modes[pair[0]].labels
    countable = len(expected_V) ** 2 <= MOST_PAIRS and not stays_on_disk(record.tensor)
    directions = [pair] if set(pair) == set(record.tensor.undirected_modes or ()) else [pair, pair[::-1]]
    return {
        "number": len(labels),
        "labels": [str(labels[node]) for node in nodes.tolist()],
        "memberships": [_memberships(each, nodes) for each in found.values()],
        "time": time,
        "directions": [_direction(record, modes, nodes, time) for modes in directions if countable],
    }


def _memberships(found: Memberships, nodes: Ints) -> dict[str, Any]:
    """The communities and, of each node, its largest memberships."""
    communities = found.frame("communities")
    return {
        "roles": found.roles,
        "communities": [
            {
                "number": community,
                "name": row["name"],
                "share": rounded(row["share"]),
                "nodes": int(row["nodes"]),
                "classes": row["classes"],
            }
            for community, row in communities.iterrows()
        ],
        "nodes": [_membership(found, node) for node in nodes.tolist()],
    }


def _membership(found: Memberships, node: int) -> dict[str, Any]:
    share_G, main = np.nan_to_num(found.share[node]), int(found.main[node])
    order_G = np.argsort(-share_G, kind="stable")[:_MOST_MEMBERSHIPS]
    largest = [g for g in order_G.tolist() if share_G[g] >= FAINT]
    return {
        "main": None if main < 0 else main,
        "probability": None if main < 0 else rounded(found.probability[node, main]),
        "mixed": [[g, *(rounded(each[node, g]) for each in (found.share, found.low, found.high))] for g in largest],
        "other": rounded(found.other[node]),
        "expected": rounded(found.expected[node]),
    }


def _direction(record: Record, modes: tuple[int, int], nodes: Ints, time: int | None) -> dict[str, Any]:
    """The largest partners of some nodes of the first mode, and the counts of these nodes over time."""
    counts_VV, labels = pair_counts(record.tensor, modes).counts_VW, record.tensor.labels[modes[1]]
    order_NV = np.argsort(-counts_VV[nodes], axis=1, kind="stable")[:, :_MOST_PARTNERS]
    rows_P, partner_P = np.repeat(np.arange(len(nodes)), order_NV.shape[1]), order_NV.ravel()
    counted_P = counts_VV[nodes[rows_P], partner_P] > 0.0
    pairs_2P = np.array([nodes[rows_P[counted_P]], partner_P[counted_P]])
    expected_P = _expected(record, modes, pairs_2P)
    partners: list[list[list[Any]]] = [[] for _ in nodes]
    for row, partner, expected in zip(rows_P[counted_P], pairs_2P[1], expected_P, strict=True):
        partners[row].append([str(labels[partner]), int(counts_VV[nodes[row], partner]), rounded(expected)])
    found: dict[str, Any] = {"role": record.tensor.mode_names[modes[0]], "partners": partners}
    return found if time is None else {**found, "times": _times(record, (modes[0], time), nodes)}


def _times(record: Record, modes: tuple[int, int], nodes: Ints) -> dict[str, Any]:
    """The counts of some nodes in each period, and their expected counts; None without observed cells."""
    counts = pair_counts(record.tensor, modes)
    observed_NT = counts.cells_VW[nodes] > 0.5
    node_P, period_P = np.nonzero(observed_NT)
    expected_NT = np.full(observed_NT.shape, np.nan)
    expected_NT[node_P, period_P] = _expected(record, modes, np.array([nodes[node_P], period_P]))
    counts_NT = np.where(observed_NT, counts.counts_VW[nodes], np.nan)
    return {
        name: [[rounded(value) for value in row] for row in table.tolist()]
        for name, table in (("observed", counts_NT), ("expected", expected_NT))
    }


def _expected(record: Record, modes: tuple[int, int], pairs_2P: Ints) -> Floats:
    """The expected counts of pairs; NaN if it takes too long, because the likelihood visits every cell."""
    visits = pairs_2P.shape[1] * np.prod([length for m, length in enumerate(record.tensor.shape) if m not in modes])
    if record.spec.likelihood == "bernoulli" and visits > _MOST_VISITED:
        return np.full(pairs_2P.shape[1], np.nan)
    return expected_sums_of_pairs(sampled(record, _MOST_DRAWS), modes, pairs_2P, available_threads())

"""Counts of pairs of nodes, and which community acts on which, against sums over all cells."""

from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore.classes.networks import community_ties, node_modes, pair_counts
from support.errors import refused
from support.handmade_posterior import posterior
from support.planted import posterior_of, spike
from support.shown_posteriors import chains_apart

SHAPE = (5, 4, 5, 3)


@pytest.mark.parametrize(
    "missing",
    [
        [],
        [(0, None, 0, None), (None, None, 2, None), (3, 1, None, None), (3, None, 1, 2), (1, 2, 3, 0)],
        [(None, 2, None, None), (None, None, None, 1), (4, None, None, 1), (0, 0, 0, 0), (0, None, 0, 0)],
    ],
)
@pytest.mark.parametrize("modes", [(0, 2), (2, 1)])
def test_counts_and_observed_cells_of_pairs_are_sums_over_the_other_modes(missing, modes):
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.7, SHAPE)
    Y = ac.as_tensor(counts).with_missing(missing)
    observed = np.ones(SHAPE)
    for pattern in missing:
        observed[tuple(slice(None) if each is None else each for each in pattern)] = 0
    others = tuple(m for m in range(4) if m not in modes)
    found = pair_counts(Y, modes)
    for ours, whole in ((found.counts_VW, counts * observed), (found.cells_VW, observed)):
        expected = whole.sum(axis=others)
        np.testing.assert_allclose(ours, expected if modes[0] < modes[1] else expected.T)


def test_two_modes_with_the_same_labels_are_a_network_and_others_must_be_named():
    tensor = posterior().tensor
    assert node_modes(tensor) == (0, 1)
    assert node_modes(tensor, ("action", "sender")) == (2, 0)
    with refused("modes", rule="must name two different modes"):
        node_modes(tensor, ["sender"])
    for modes in ("sender", ["sender", 0], ["sender", "receiver", "action"]):
        with refused("modes", rule="must name two different modes"):
            node_modes(tensor, modes)
    with refused("modes", rule="no two modes have the same labels"):
        node_modes(ac.load_flights())


def test_classes_are_ties_between_communities_by_the_labels_of_another_mode():
    summary = posterior().class_summary("best")
    ties = community_ties(summary, (0, 1))
    assert summary.mode_names[ties.by] == "action"
    assert ties.share_GHA.sum() == pytest.approx(1.0)
    for c, (g, h) in enumerate(zip(*(summary.location_CM[:, m] for m in (0, 1)), strict=True)):
        place = [[each.number for each in part].index(k) for part, k in ((ties.senders, g), (ties.receivers, h))]
        # No two classes of this run have the same sender and receiver.
        np.testing.assert_allclose(
            ties.share_GHA[tuple(place)], summary.share_C[c] * summary.profiles[2][c].share_D, atol=1e-12
        )
    masses = [each.mass for each in ties.senders]
    assert masses == sorted(masses, reverse=True)
    assert ties.heaviest_labels(2).tolist() == np.argsort(-ties.share_GHA.sum(axis=(0, 1)))[:2].tolist()
    alone = community_ties(summary, (0, 1), by="time")
    np.testing.assert_allclose(alone.share_GHA.sum(axis=2), ties.share_GHA.sum(axis=2))
    with refused("by", "sender"):
        community_ties(summary, (0, 1), by="sender")


def test_without_another_mode_ties_have_no_labels():
    post = ac.AlloCore(2, burn_in=2, draws=2, thin=1, chains=2, seed=0, progress=False).fit(np.eye(4, k=1) * 3)
    ties = community_ties(post.posterior_.class_summary("best"), (0, 1))
    assert ties.by is None
    assert ties.share_GHA.sum() == pytest.approx(1.0)


def test_tied_modes_have_the_same_communities_in_the_same_order():
    """The larger community sends half of the counts and gets all of them."""
    one, other, when = spike(6, 0), spike(6, 4), [spike(4, month) for month in range(2)]
    planted = [(4.0, (one, other, when[0])), (3.0, (other, other, when[1]))]
    post = posterior_of([[planted] * 3] * 2, (6, 6, 4), missing=[(d, d, None) for d in range(6)], tied=(0, 1))
    summary = post.consensus().summary
    ties = community_ties(summary, (0, 1))
    assert [each.number for each in ties.senders] == [each.number for each in ties.receivers] == [1, 0]
    np.testing.assert_allclose(ties.share_GHA.sum(axis=2), [[summary.share_C[1], 0], [summary.share_C[0], 0]])
    assert ties.share_by_label().sum() == pytest.approx(1.0)
    pairs = replace(summary, tensor=summary.tensor.mask_diagonal().undirected(asymmetric="sum"))
    both = community_ties(pairs, (0, 1))
    share_GG = [[summary.share_C[1], summary.share_C[0]], [summary.share_C[0], 0]]
    np.testing.assert_allclose(both.share_GHA.sum(axis=2), share_GG, err_msg="a tie is there in both orders")
    assert both.share_by_label().sum() == pytest.approx(1.0), "and is counted once"
    assert both.share_by_label(1).sum() == pytest.approx(summary.share_C[1])


def test_draws_without_a_class_in_common_have_no_communities():
    summary = chains_apart().consensus().summary
    ties = community_ties(summary, (0, 1))
    assert ties.share_GHA.shape[:2] == (0, 0)
    graph = chains_apart().to_networkx(modes=(0, 1), progress=False)
    assert graph.number_of_nodes() == 0

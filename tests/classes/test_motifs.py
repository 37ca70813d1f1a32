"""Motifs: planted ones are found, permuted ones at the stated rate, and the counts are those of an obvious loop."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

import allocore as ac
from allocore.classes.motifs import find_motifs, groups_of, motifs_of_actors, recurring
from support.errors import refused
from support.handmade_posterior import ACTIONS, COUNTRIES, FACTORS, MONTHS, NAMES, posterior
from support.wars import wars


def test_the_cadence_of_planted_wars_is_found_with_its_pairs_and_classes():
    post = wars()
    table = post.consensus().motifs()
    first = table[table["motif"] == 0]
    assert set(first["pattern"]) == {"a → b: Fight; a → b: Offer; b → a: Protest"}
    assert first["classes"].tolist() == [(3 * war, 3 * war + 1, 3 * war + 2) for war in range(4)]
    assert first["a"].tolist() == [f"country {2 * war:02d}" for war in range(4)]
    assert first["b"].tolist() == [f"country {2 * war + 1:02d}" for war in range(4)]
    assert set(first["pairs"]) == {4}
    assert set(first["p"]) == {0.001}, "no permutation has such a score"
    assert (first["expected"] < 0.1).all()
    assert (table.loc[table["motif"] > 0, "p"] > 0.05).all(), "the other pairs have topics at random"


def test_parts_of_a_motif_with_the_same_pairs_are_left_out():
    patterns = set(wars().consensus().motifs()["pattern"])
    assert "a → b: Fight; a → b: Offer" not in patterns
    assert "a → b: Fight; b → a: Protest" not in patterns


def test_undirected_ties_have_motifs_without_directions():
    summary = wars().class_summary("best")
    one_count = ac.CountTensor(np.array([[0], [1], [0], [0]]), [1], summary.tensor.shape, labels=summary.tensor.labels)
    first, *_ = find_motifs(replace(summary, tensor=one_count.undirected(asymmetric="sum")))
    assert set(first.roles) == {("a and b", topic) for topic in ("Fight", "Offer", "Protest")}
    assert {frozenset((each.a, each.b)) for each in first.occurrences} == {
        frozenset((f"country {2 * war:02d}", f"country {2 * war + 1:02d}")) for war in range(4)
    }


def test_classes_at_different_times_are_no_motif():
    post = wars(others=0)
    summary = post.class_summary("best")
    found = find_motifs(summary)
    assert [len(motif.occurrences) for motif in found] == [4]
    apart = [(a, b, topic, place % 12) for place, (a, b, topic, _) in enumerate(summary.location_CM.tolist())]
    factors = [
        [factor.share_D.tolist() for _, factor in sorted(summary.factors[mode].items())] for mode in range(3)
    ] + [np.eye(36)[3 * np.arange(12)].tolist()]
    labels = post.tensor.labels
    assert find_motifs(posterior(factors, apart, np.ones(12), labels).class_summary("best")) == []


def counted(groups, dyad, direction, topic):
    """The pairs of parties of each motif, a motif and its reverse being one."""
    found = {}
    for group in groups.tolist():
        places = [place for place in group if place >= 0]
        roles = [(int(topic[c]), int(direction[c])) for c in places]
        back = [(t, d if d == 2 else 1 - d) for t, d in roles]
        if len(set(roles)) == len(roles):
            motif = min(tuple(sorted(roles)), tuple(sorted(back)))
            found.setdefault(motif, set()).add(int(dyad[places[0]]))
    return {motif: dyads for motif, dyads in found.items() if len(dyads) >= 2}


def random_classes(seed, classes=40, dyads=9, topics=4):
    rng = np.random.default_rng(seed)
    dyad = rng.integers(0, dyads, classes)
    direction = np.where(dyad < 2, 2, rng.integers(0, 2, classes))
    time = rng.integers(0, 2, classes)
    together = (dyad[:, None] == dyad) & (time[:, None] == time)
    return groups_of(together, rng.random(classes)), dyad, direction, rng.integers(0, topics, classes)


@pytest.mark.parametrize("seed", range(3))
def test_motifs_are_counted_as_by_an_obvious_loop(seed):
    groups, dyad, direction, topic = random_classes(seed)
    expected = counted(groups, dyad, direction, topic)
    found = recurring(groups, dyad, direction, topic, 19, 0)
    assert sorted(sorted(each.groups) for each in found) == sorted(map(sorted, expected.values()))
    for each in found:
        back = tuple(sorted((t, d if d == 2 else 1 - d) for t, d in each.roles))
        assert set(each.groups) == expected[min(tuple(sorted(each.roles)), back)]
        for dyad_of, places in each.groups.items():
            assert {int(dyad[place]) for place in places} == {dyad_of}
            assert [int(topic[place]) for place in places] == [t for t, _ in each.roles]


def test_groups_are_all_twos_and_threes_that_are_together():
    rng = np.random.default_rng(1)
    together = rng.random((12, 12)) < 0.5
    together |= together.T
    found = {tuple(place for place in group if place >= 0) for group in groups_of(together, np.ones(12)).tolist()}
    expected = {
        group
        for size in (2, 3)
        for group in combinations(range(12), size)
        if all(together[pair] for pair in combinations(group, 2))
    }
    assert found == expected


def test_permuted_topics_have_a_motif_as_often_as_stated():
    """If the rate is 0.05, there are more once in ten thousand times."""
    groups, dyad, direction, topic = random_classes(5, classes=60, dyads=15, topics=5)
    rng, found = np.random.default_rng(6), 0
    for seed in range(200):
        motifs = recurring(groups, dyad, direction, rng.permutation(topic), 99, seed)
        found += any(each.p <= 0.05 for each in motifs)
    assert found <= binom.ppf(0.9999, 200, 0.05)
    assert found >= binom.ppf(0.0001, 200, 0.02), "nor is it much too careful"


def test_the_modes_of_actors_may_be_named_and_must_leave_another():
    post = posterior()
    assert list(post.consensus().motifs(["action", "receiver"]).columns) == list(wars().consensus().motifs().columns)
    parts = [[each[mode] for mode in (0, 1, 3)] for each in (FACTORS, (COUNTRIES, COUNTRIES, ACTIONS, MONTHS), NAMES)]
    summary = posterior(parts[0], [(0, 0, 0), (1, 1, 1)], (2.0, 1.0), parts[1], parts[2]).class_summary("best")
    with refused("modes", rule="must leave a mode"):
        find_motifs(summary)
    assert motifs_of_actors(summary) == []
    with refused("permutations", 0):
        post.consensus().motifs(permutations=0)

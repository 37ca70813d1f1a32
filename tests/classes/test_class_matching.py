"""Matching classes by cosines, against all permutations."""

from itertools import permutations

import numpy as np
import pytest

from allocore.classes.matching import directions, match, match_similar, similarities


def random_profiles(rng, classes, lengths=(5, 17, 8)):
    return [rng.dirichlet(np.full(length, 0.4), classes).T for length in lengths]


def test_similarity_is_the_smallest_cosine_over_the_modes():
    rng = np.random.default_rng(0)
    ours, theirs = random_profiles(rng, 6), random_profiles(rng, 4)
    cosines = [
        (a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0)) for a, b in zip(ours, theirs, strict=True)
    ]
    wanted = np.min(cosines, axis=0)
    np.testing.assert_allclose(similarities(directions(ours), directions(theirs), 0.0), wanted, atol=1e-14)
    found = similarities(directions(ours), directions(theirs), 0.3)
    np.testing.assert_array_equal(found >= 0.3, wanted >= 0.3)
    np.testing.assert_allclose(found[wanted >= 0.3], wanted[wanted >= 0.3], atol=1e-14)


@pytest.mark.parametrize("seed", range(8))
def test_the_matching_is_the_best_of_all(seed):
    similarity = np.random.default_rng(seed).uniform(0.0, 1.0, (5, 5))
    worth = np.where(similarity >= 0.5, similarity, 0.0)
    ours, theirs = match_similar(similarity, 0.5)
    best = max(sum(worth[i, order[i]] for i in range(5)) for order in permutations(range(5)))
    assert worth[ours, theirs].sum() == pytest.approx(best)
    assert (similarity[ours, theirs] >= 0.5).all()
    assert len(set(ours.tolist())) == len(ours)
    assert len(set(theirs.tolist())) == len(theirs)


def test_classes_find_themselves_in_another_order():
    rng = np.random.default_rng(1)
    profiles, order = random_profiles(rng, 9), rng.permutation(9)
    ours, theirs = match(directions(profiles), directions([each[:, order] for each in profiles]), 0.9)
    assert order[theirs].tolist() == ours.tolist() == list(range(9))


def test_nothing_similar_gives_no_pairs_and_an_empty_profile_matches_nothing():
    one, other = [np.array([[1.0], [0.0]])], [np.array([[0.0], [1.0]])]
    assert not len(match(directions(one), directions(other), 0.5)[0])
    empty = directions([np.zeros((2, 1))])
    assert not len(match(empty, empty, 0.5)[0])


def test_of_two_similar_classes_the_larger_one_is_matched():
    similarity = np.array([[0.95], [0.93]])
    assert match_similar(similarity, 0.6)[0].tolist() == [0]
    assert match_similar(similarity, 0.6, np.array([0.01, 0.4]))[0].tolist() == [1]
    assert match_similar(similarity, 0.94, np.array([0.01, 0.4]))[0].tolist() == [0], "a large one must be similar too"
    assert match_similar(similarity[:1], 0.6, np.zeros(1))[0].tolist() == [0]

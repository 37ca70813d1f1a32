"""Matching classes by cosines, against all permutations."""

from itertools import permutations

import numpy as np
import pytest

from allocore.classes import matching
from allocore.classes.matching import add_profiles, directions, distances, match, match_similar, similarities
from allocore.classes.summary import Profile, ShownMode
from allocore.classes.tracks import Tracks, TrackTable, average_linkage


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


def test_the_distance_of_two_classes_is_one_minus_their_cosine_as_tensors():
    profiles = random_profiles(np.random.default_rng(2), 7)
    tensors = np.einsum("ac,bc,dc->cabd", *profiles).reshape(7, -1)
    unit = tensors / np.linalg.norm(tensors, axis=1, keepdims=True)
    wanted = (1.0 - unit @ unit.T)[np.triu_indices(7, 1)]
    np.testing.assert_allclose(distances(directions(profiles), 0.0), wanted, atol=1e-14)
    found = distances(directions(profiles), 0.2)
    np.testing.assert_array_equal(found <= 0.8, wanted <= 0.8)
    np.testing.assert_allclose(found[wanted <= 0.8], wanted[wanted <= 0.8], atol=1e-14)


def test_profiles_so_small_that_their_squares_underflow_are_compared_too():
    profiles = random_profiles(np.random.default_rng(3), 3)
    tiny = [each * np.array([1.0, 1e-200, 0.0]) for each in profiles]
    found = similarities(directions(tiny), directions(profiles), 0.0)
    np.testing.assert_allclose(found[:2], similarities(directions(profiles), directions(profiles), 0.0)[:2], atol=1e-14)
    assert not found[2].any()


@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_profiles_are_added_up_some_rows_at_a_time_to_the_same_bytes(monkeypatch, rows):
    rng = np.random.default_rng(4)
    (profile,), weights, sums = random_profiles(rng, 5, (60,)), rng.random(3), rng.random((4, 60))
    wanted = sums.copy()
    wanted[[3, 0, 2]] += (profile[:, [1, 4, 0]] * weights).T
    monkeypatch.setattr(matching, "_ROWS_AT_ONCE", rows)
    add_profiles(sums, np.array([3, 0, 2]), profile, np.array([1, 4, 0]), weights)
    assert sums.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("rows", [4, 1000])
def test_the_centres_of_clusters_are_the_means_of_their_tracks_by_mass(monkeypatch, rows):
    rng = np.random.default_rng(5)
    base, tracks = random_profiles(rng, 6), []
    for _ in range(3):
        noisy = [each * rng.uniform(0.8, 1.2, each.shape) for each in base]
        tracks.append(Tracks(tuple(each / each.sum(axis=0) for each in noisy), rng.random(6)))
    monkeypatch.setattr(matching, "_ROWS_AT_ONCE", rows)
    found = TrackTable(iter(tracks), 3).centres()
    profiles = [np.concatenate(each, axis=1) for each in zip(*(each.profiles for each in tracks), strict=True)]
    mass = np.concatenate([each.mass_T for each in tracks])
    cluster = average_linkage(18, distances(directions(profiles), 0.0), 0.5)
    assert found[0].shape[1] == cluster.max() + 1 < 18
    for centre, profile in zip(found, profiles, strict=True):
        members = [cluster == g for g in range(centre.shape[1])]
        wanted = [np.average(profile[:, each], axis=1, weights=mass[each]) for each in members]
        np.testing.assert_allclose(centre, np.transpose(wanted), rtol=1e-12)


@pytest.mark.parametrize("most", [0, 1, 2, 5, 39, 40, 100])
def test_the_heaviest_rows_are_the_first_of_a_stable_sort(most):
    share = np.random.default_rng(6).integers(0, 7, 40) / 100.0  # with ties
    profile = Profile(ShownMode("mode", range(40), "plain"), share, even=False)
    assert profile.heaviest(most).tolist() == np.argsort(-share, kind="stable")[:most].tolist()


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

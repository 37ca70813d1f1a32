"""How well sets of chains agree, for draws whose classes are known."""

import numpy as np
import pytest

from allocore.classes import tracks
from allocore.classes.names import support_words
from allocore.classes.reproducibility import _sizes, agreement, expected_agreement
from allocore.classes.tracks import SharedClasses
from support.errors import refused
from support.planted import A, B, C, D, steady_run


def test_chains_with_the_same_classes_agree_on_everything():
    found = steady_run(*[[A, B, C]] * 8).reproducibility()
    assert found.agreement == 1.0
    assert found.table["chains"].tolist() == [2, 4]
    assert found.table["covered"].tolist() == pytest.approx([1.0, 1.0])
    assert found.found_again.tolist() == pytest.approx([1.0] * 3)


def test_halves_agree_on_the_classes_that_both_have():
    """A is in all chains, B in the first two, C in the last two; of two chains, both must hold a class."""
    found = steady_run([A, B], [A, B], [A, C], [A, C]).reproducibility()
    rng, expected, both = np.random.default_rng(0), [], []
    for _ in range(8):
        apart = sorted(rng.permutation(4)[:2].tolist()) in ([0, 1], [2, 3])
        expected.append((4 / 7 + 4 / 6) / 2 if apart else 1.0)
        both.append(apart)
    assert found.agreement == pytest.approx(np.mean(expected))
    assert found.table["sd"].item() == pytest.approx(np.std(expected))
    assert found.found_again.tolist() == pytest.approx([1.0, np.mean(both) / 2, np.mean(both) / 2])


def test_chains_that_have_nothing_in_common_agree_on_nothing():
    found = steady_run([A], [B], [C], [D]).reproducibility()
    assert found.agreement == 0.0
    assert found.table["covered"].item() == 0.0


def test_a_match_needs_a_cosine_of_nine_tenths_in_every_mode():
    near, far = ((np.array([[1.0], [slope]]), np.array([[1.0], [0.0]])) for slope in (0.4, 0.6))
    same = (np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]]))
    share = np.ones(1)
    assert agreement(SharedClasses(same, share), SharedClasses(near, share)) == 1.0
    assert agreement(SharedClasses(same, share), SharedClasses(far, share)) == 0.0


def test_sets_are_halves_quarters_and_so_on_of_the_chains():
    assert [_sizes(chains) for chains in (4, 5, 8, 12, 16, 40)] == [
        [2], [2], [2, 4], [3, 6], [2, 4, 8], [2, 5, 10, 20],
    ]  # fmt: skip


def test_the_agreement_of_whole_runs_follows_the_trend():
    """What sets of n chains do not agree on is n^-0.7 here, whatever the sizes of the sets."""
    for sizes in ([2, 4, 8], [3, 6], [2, 5]):
        agreed = [1.0 - n**-0.7 for n in sizes]
        assert expected_agreement(sizes, agreed) == pytest.approx(1.0 - (2 * sizes[-1]) ** -0.7)
    assert expected_agreement([2, 4], [0.9, 0.8]) == 0.8, "a trend downwards is not followed"
    assert expected_agreement([2], [0.7]) == 0.7
    assert expected_agreement([2, 4], [0.9, 1.0]) == 1.0


def test_it_takes_four_chains():
    with refused("chains", 3):
        steady_run([A, B], [A, B], [A, B]).reproducibility()


def test_it_is_computed_once():
    post = steady_run(*[[A, B]] * 4)
    assert post.reproducibility() is post.reproducibility()


def test_the_table_of_classes_says_how_often_halves_find_each():
    post = steady_run([A, B], [A, B], [A, C], [A, C])
    table, found = post.consensus().classes(), post.reproducibility()
    assert table["found_again"].tolist() == found.found_again.tolist()
    assert table["found_again"].iloc[0] == 1.0
    assert post.consensus().reproducibility is found, "it is computed once"
    assert "100% of random halves" in support_words(post.consensus().summary, 0)
    assert steady_run([A], [A], [A]).consensus().classes()["found_again"].isna().all()


def test_only_the_largest_tracks_of_many_are_compared(monkeypatch):
    few = steady_run(*[[A, B, C]] * 4).reproducibility()
    monkeypatch.setattr(tracks, "_MOST_TRACKS", 8)
    post = steady_run(*[[A, B, C]] * 4)
    assert post.reproducibility().table["covered"].item() < few.table["covered"].item()
    assert len(post.consensus().share) == 2

"""What may be scored: cells of the fitted tensor, not those it was fitted to, and zeros as well as counts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_likelihoods import KINDS, SHAPE, dense_counts, frozen, observed, posterior_with

import allocore as ac
from allocore.posterior import cells as scored_cells
from allocore.results import Posterior
from support.errors import refused

NAMES, LABELS = ("who", "what", "when"), (tuple("abcde"), tuple("wxyz"), ("2001", "2002", "2003"))


def labelled(post):
    return Posterior(replace(post.record, tensor=post.tensor.with_labels(LABELS, NAMES)), 1)


def unseen_month(post):
    """A posterior that was not fitted to the last month, and a tensor of that month alone."""
    month, others = (None, None, 2), [(None, None, 0), (None, None, 1)]
    full = ac.CountTensor(post.tensor.coords, post.tensor.counts, SHAPE)
    return Posterior(replace(post.record, tensor=full.with_missing([month])), 1), full.with_missing(others)


@pytest.mark.parametrize(("likelihood", "by"), KINDS)
@pytest.mark.parametrize("at_once", [7, 10**6])
def test_a_tensor_is_scored_on_all_its_observed_cells(likelihood, by, at_once, monkeypatch):
    monkeypatch.setattr(scored_cells, "_CELLS_AT_ONCE", at_once)
    post, test = unseen_month(posterior_with(likelihood, by))
    test = test.with_missing([(1, None, None), (2, 3, None)])
    log_n = np.log(frozen(post).pmf(dense_counts(test)).mean(axis=0))
    assert post.log_ppd(test) == pytest.approx(log_n[observed(test)].mean(), rel=1e-8)
    assert post.ppd(test) == pytest.approx(np.exp(log_n[observed(test)].mean()), rel=1e-8)
    positive = log_n[tuple(test.coords)].mean()
    assert post.log_ppd(test, positive_only=True) == pytest.approx(positive, rel=1e-8)


def test_a_tensor_of_too_many_cells_is_refused_and_its_positive_cells_are_not(monkeypatch):
    post, test = unseen_month(posterior_with("poisson"))
    monkeypatch.setattr(scored_cells, "MOST_CELLS", 19)
    with refused("test", "a tensor of 20 cells", rule="at most 19"):
        post.log_ppd(test)
    assert np.isfinite(post.log_ppd(test, positive_only=True))


def test_cells_of_the_training_set_are_refused_unless_they_are_asked_for():
    post = labelled(posterior_with("poisson", missing=[(0, None, None)]))
    test = SimpleNamespace(coords=[[0, 1, 2], [1, 1, 3], [2, 0, 0]], counts=[0, 1, 1])
    for score in (post.ppd, post.log_ppd):
        with refused("test", rule="2 of its 3 cells; the first is (b, x, 2001). Set `allow_training` to"):
            score(test)
        assert np.isfinite(score(test, allow_training=True))
    assert post.expected(test).shape == post.log_predictive(test).shape == (3,)


def test_a_tensor_that_shares_observed_cells_with_training_is_refused():
    post = posterior_with("poisson", missing=[(0, None, None)])
    with refused("test", rule="48 of its 60 observed cells"):
        post.log_ppd(ac.CountTensor(post.tensor.coords, post.tensor.counts, SHAPE))
    assert np.isfinite(post.log_ppd(post.tensor, allow_training=True))


def test_the_first_difference_to_the_fitted_tensor_is_named():
    post = labelled(posterior_with("poisson"))
    other = ac.as_tensor(np.ones((5, 4, 2), dtype=int))
    renamed = [*LABELS[:2], ("2001", "2003", "2002")]
    cases = [
        (ac.as_tensor(np.ones((5, 4), dtype=int)), "the shape of the fitted tensor, (5, 4, 3)"),
        (other, "the first difference is in mode when, 2 labels instead of 3"),
        (post.tensor.with_labels(renamed), "in mode when: at position 1, '2002' there, not '2003'"),
        (post.tensor.with_labels(None, ("what", "who", "when")), "mode 0 is 'who' there, not 'what'"),
    ]
    for test, rule in cases:
        for score in (post.ppd, post.log_ppd):
            with refused("test", rule=rule):
                score(test, allow_training=True)


def test_a_held_out_set_knows_the_tensor_it_comes_from():
    post = labelled(posterior_with("poisson"))
    test = ac.hold_out(post.tensor.with_labels([*LABELS[:2], ("2004", "2005", "2006")]), 0.2, seed=0).test
    for predict in (post.expected, post.log_predictive):
        with refused("coords", rule="in mode when: at position 0, '2001' there, not '2004'"):
            predict(test)
    with refused("test", rule="in mode when"):
        post.log_ppd(test.positive, allow_training=True)


def test_a_tensor_without_labels_agrees_with_any():
    post = labelled(posterior_with("poisson"))
    plain = ac.CountTensor(post.tensor.coords, post.tensor.counts, SHAPE)
    assert post.log_ppd(plain, allow_training=True) == post.log_ppd(post.tensor, allow_training=True)


def test_predictions_of_a_tensor_ask_which_cells_are_meant():
    post = posterior_with("poisson")
    with refused("coords", rule="pass Y.coords"):
        post.expected(post.tensor)
    with refused("coords", "a CountTensor"):
        post.log_predictive(post.tensor)
    with refused("coords", rule="must have coords and counts"):
        post.log_predictive([[0], [0], [0]])

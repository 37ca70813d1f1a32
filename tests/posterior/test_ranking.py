"""AUC and average precision: values against scikit-learn, influences against derivatives, errors by simulation.

Error rates: the share of intervals of two standard errors that contain the truth is within 0.03 of 95.4% in 1,000
samples; by chance it leaves that range with a probability below 1e-4. Errors that take cells for independent fail.
"""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from allocore.posterior.evaluate import clustered_error
from allocore.posterior.ranking import auc, average_precision, ranks
from allocore.posterior.scores import MixtureScores

MEASURES = [(auc, roc_auc_score), (average_precision, average_precision_score)]


def cells(number=60, levels=12, seed=0):
    rng = np.random.default_rng(seed)
    rank_N = rng.integers(0, levels, number)
    rank_N = np.unique(rank_N, return_inverse=True)[1]
    return rank_N, rng.random(number) < 0.1 + 0.5 * rank_N / levels


@pytest.mark.parametrize(("measure", "known"), MEASURES)
@pytest.mark.parametrize("levels", [1, 5, 10_000])
def test_values_are_those_of_scikit_learn(measure, known, levels):
    rank_N, positive_N = cells(300, levels, seed=levels)
    assert measure(rank_N, positive_N)[0] == pytest.approx(known(positive_N, rank_N), rel=1e-12)


def test_values_are_those_of_loops_over_cells():
    rank_N, positive_N = cells(40)
    positive, zero = rank_N[positive_N], rank_N[~positive_N]
    pairs = [1.0 if i > j else 0.5 if i == j else 0.0 for i in positive for j in zero]
    precision = [np.mean(positive_N[rank_N >= i]) for i in positive]
    assert auc(rank_N, positive_N)[0] == pytest.approx(np.mean(pairs))
    assert average_precision(rank_N, positive_N)[0] == pytest.approx(np.mean(precision))


@pytest.mark.parametrize(("measure", "known"), MEASURES)
def test_influences_are_derivatives_by_the_weights_of_cells(measure, known):
    rank_N, positive_N = cells()
    _, influence_N = measure(rank_N, positive_N)
    assert influence_N.sum() == pytest.approx(0.0, abs=1e-12)
    for cell in range(0, 60, 7):
        up, down = np.ones(60), np.ones(60)
        up[cell], down[cell] = 1.0001, 0.9999
        values = [known(positive_N, rank_N, sample_weight=weight) for weight in (up, down)]
        assert influence_N[cell] == pytest.approx((values[0] - values[1]) / 2e-4, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(("measure", "known"), MEASURES)
def test_standard_errors_cover_the_truth_where_cells_of_a_fibre_are_alike(measure, known):
    rng = np.random.default_rng(2)

    def sample(fibres):
        level_F = rng.normal(size=fibres)
        score_N = np.repeat(level_F, 6) + 0.3 * rng.normal(size=6 * fibres)
        positive_N = rng.random(6 * fibres) < 1 / (1 + np.exp(1.0 - np.repeat(level_F, 6)))
        return np.unique(score_N, return_inverse=True)[1], positive_N, np.repeat(np.arange(fibres), 6)

    rank_N, positive_N, _ = sample(100_000)
    truth, hits, naive = known(positive_N, rank_N), 0, 0
    for _ in range(1000):
        rank_N, positive_N, fibre_N = sample(150)
        value, influence_N = measure(rank_N, positive_N)
        hits += abs(value - truth) < 2 * clustered_error(np.bincount(fibre_N, influence_N), 1)
        naive += abs(value - truth) < 2 * clustered_error(influence_N, 1)
    assert hits / 1000 == pytest.approx(0.954, abs=0.03)
    assert naive / 1000 < 0.92


def test_cells_of_one_kind_have_no_ranking():
    for positive_N in (np.ones(5, dtype=bool), np.zeros(5, dtype=bool)):
        for measure in (auc, average_precision):
            value, influence_N = measure(np.arange(5), positive_N)
            assert np.isnan([value, *influence_N]).all()


def test_cells_are_ranked_by_the_probability_of_a_count_and_then_by_the_expected_count():
    none = np.zeros(6)
    zero_N, mean_N = np.array([1.0, 0.2, 1.0, 1.0, 0.5, 1.0]), np.array([1e-30, 1.0, 1e-20, 1e-30, 9.0, 0.0])
    found = ranks(MixtureScores(none, none, none, none, mean_N, zero_N))
    assert found.tolist() == [1, 4, 2, 1, 3, 0]

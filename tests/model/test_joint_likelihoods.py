"""The log joint with the other likelihoods and with learned concentrations, cell by cell with scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from allocore.model import joint
from support import cases, naive

PRIORS = {"a0": 1.7, "b0": 0.6, "f0": 1.3, "alpha0": 2.5, "g0": 1.4, "h0": 2.2, "s0": 3.0, "t0": 2.0}
SETTINGS = {
    "negative-binomial": {"likelihood": "negative-binomial"},
    "by-first-mode": {"likelihood": "negative-binomial", "dispersion_by": 0, "e0": "infer"},
    "by-last-mode": {"likelihood": "negative-binomial", "dispersion_by": -1, "e0": 0.7},
    "bernoulli": {"likelihood": "bernoulli", "e0": 1.2},
    "bernoulli-infer": {"likelihood": "bernoulli", "e0": "infer"},
    "poisson-infer": {"e0": "infer"},
    "poisson-by-mode": {"e0": "by-mode"},
}


@pytest.fixture(params=[False, True], ids=["complete", "missing"])
def with_missing(request):
    return request.param


@pytest.fixture(params=[2, 3, 4])
def modes(request):
    return request.param


@pytest.fixture(params=SETTINGS)
def case(request, modes, with_missing):
    settings = {**PRIORS, **SETTINGS[request.param]}
    if settings.get("dispersion_by") == -1:
        settings["dispersion_by"] = modes - 1
    if settings.get("e0") == "by-mode":
        settings["e0"] = tuple(0.6 + 0.3 * m for m in range(modes))
    scale = 0.8 if settings.get("likelihood") == "bernoulli" else 2.0  # so that there are zeros too
    return cases.make(modes, budget=4, with_missing=with_missing, seed=modes, scale=scale, **settings)


def concentrations(case):
    return [naive.concentration(m, case.dense.concentrations, case.priors) for m in range(case.Y.ndim)]


def dense_log_prior(case):
    rate = naive.core_rate(case.dense.p, case.priors)
    total = stats.gamma.logpdf(case.dense.core, case.spec.a0, scale=1 / rate).sum()
    total += naive.log_prob_locations(case.dense.locations, case.Y.shape, case.spec.core_shape, case.priors)
    for m, e0 in enumerate(concentrations(case)):
        phi_DU = case.dense.factors[m][:, np.unique(case.dense.locations[:, m])]
        total += stats.gamma.logpdf(phi_DU, e0, scale=1 / case.spec.f0).sum()
    if case.dense.concentrations is not None:
        total += stats.gamma.logpdf(case.dense.concentrations, case.spec.s0, scale=1 / case.spec.t0).sum()
    if case.dense.p is not None:
        total += stats.beta.logpdf(case.dense.p, case.spec.g0, case.spec.h0).sum()
    return total


def test_the_log_likelihood_is_the_sum_over_all_observed_cells(case):
    expected = naive.log_likelihood(case.Y, case.observed, case.dense, case.priors)
    assert joint.log_likelihood(cases.tensor_of(case), case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_log_joint_is_likelihood_plus_all_priors(case):
    expected = naive.log_likelihood(case.Y, case.observed, case.dense, case.priors) + dense_log_prior(case)
    assert joint.log_joint(cases.tensor_of(case), case.spec, case.state) == pytest.approx(expected, rel=1e-10)


def test_the_latent_rates_of_the_classes_are_summed_over_the_observed_cells(case):
    dense = naive.latent_scale(case.dense) * naive.class_rates(case.dense)
    ours = joint.latent_totals(case.spec, case.state, cases.tensor_of(case))
    np.testing.assert_allclose(ours, dense[:, case.observed].sum(axis=1), rtol=1e-10)


def test_the_latent_counts_leave_the_likelihood_as_it_is(case):
    """p(L | state) p(y | L) is p(y | state) p(L | y, state): summed over all L, the likelihood of one cell.

    For the negative binomial, y is the sum of L logarithmic variates; for Bernoulli, 1 if L is not zero.
    """
    if case.spec.likelihood == "poisson":
        latent = naive.draw_latent(case.Y, case.observed, case.dense, case.priors, np.random.default_rng(0))
        np.testing.assert_array_equal(latent, case.Y)
        return
    rate = naive.rates(case.dense)
    scale = np.broadcast_to(naive.latent_scale(case.dense), rate.shape)
    for cell in np.argwhere(case.observed)[:6]:
        r, c, most = rate[tuple(cell)], scale[tuple(cell)], 5
        latent = stats.poisson.pmf(np.arange(200 + int(2 * c * r)), c * r)
        if case.spec.likelihood == "bernoulli":
            assert latent[1:].sum() == pytest.approx(1 - np.exp(-r), rel=1e-9)
            continue
        p = np.broadcast_to(case.dense.p, rate.shape)[tuple(cell)]
        one = np.concatenate([[0.0], stats.logser.pmf(np.arange(1, most + 1), p)])
        total, of_many = np.zeros(most + 1), np.eye(most + 1)[0]
        for share in latent:
            total += share * of_many
            of_many = np.convolve(of_many, one)[: most + 1]
        np.testing.assert_allclose(total, stats.nbinom.pmf(np.arange(most + 1), r, 1 - p), rtol=1e-8)
        tables = naive.tables_pmf(most, r)
        assert tables.sum() == pytest.approx(1.0, rel=1e-12)
        together, sums = [], np.eye(most + 1)[0]
        for share in latent[: most + 1]:
            together.append(share * sums[most])
            sums = np.convolve(sums, one)[: most + 1]
        np.testing.assert_allclose(together / total[most], tables, rtol=1e-8)


def test_the_log_odds_of_cells_are_those_of_their_rows(case):
    coords = np.indices(case.Y.shape).reshape(case.Y.ndim, -1)
    expected = np.zeros(coords.shape[1])
    if case.dense.p is not None:
        expected = np.broadcast_to(np.log(case.dense.p / (1 - case.dense.p)), case.Y.shape).ravel()
    np.testing.assert_allclose(joint.log_odds_at(case.state, coords), expected, atol=1e-12)

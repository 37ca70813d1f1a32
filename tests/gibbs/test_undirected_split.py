"""Undirected ties: the latent count of a pair, its split between the two directions, and the log-likelihood."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import allocore as ac
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import begin, sweep
from allocore.gibbs.thinning import thin
from allocore.gibbs.undirected import fold_counts, with_mirror_images
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model import joint
from allocore.model.simulate import draw_counts, prior_state
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.missing import Missing
from allocore.tensor.undirected import in_both_directions, mirrored
from support import cases, naive
from support.evidence import fit_to

pytestmark = pytest.mark.jit
LEVEL = 1e-4
PAIR = (0, 2)
SHAPE = (4, 3, 4)
MISSING = in_both_directions(Missing([(0, None, 1), (None, 2, 3), (2, 1, 1)], SHAPE), PAIR)
PRIORS = {"a0": 2.0, "b0": 0.3, "e0": 1.3, "f0": 1.0}
SPECS = {
    "poisson": Spec(3, (3, 2, 3), **PRIORS),
    "tied": Spec(3, (3, 2, 3), **PRIORS, tied=PAIR),
    "bursts": Spec(3, (3, 2, 3), **PRIORS, likelihood="negative-binomial", g0=3.0, h0=4.0, dispersion_by=1),
    "binary": Spec(3, (3, 2, 3), **{**PRIORS, "b0": 40.0}, likelihood="bernoulli"),
}


def data_of(name, seed=3):
    """A state from the prior, and a tensor of pairs."""
    rng, spec = np.random.default_rng(seed), SPECS[name]
    state = prior_state(spec, SHAPE, rng)
    cells = np.indices(SHAPE).reshape(3, -1)
    counts = draw_counts(spec, state, cells, rng, PAIR)
    counts[(cells[0] >= cells[2]) | MISSING.contains(cells)] = 0
    tensor = ac.CountTensor(cells, counts, SHAPE, missing=MISSING).undirected(PAIR)
    return spec, state, tensor


# The split, against its exact distribution

RATE, SHARE, TIES = 2.5, 0.3, 4000


def one_pair(likelihood, count, rate=RATE, share=SHARE, depth=0.0):
    """The latent counts from 0 to 1 and from 1 to 0 of one pair, observed many times with the same count.

    The first class has ties from 0 to 1 only, the second from 1 to 0 only. With a depth, products of scaled rows are
    exp(-2 depth).
    """
    classes = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    spread = np.array([[depth, -depth]])
    rates = np.tile(np.log(rate) + np.log([share, 1.0 - share]), (TIES, 1))
    state = State(np.zeros(2), np.array([[0, 0, 0, 0], [1, 1, 1, 1]]), (classes, classes[::-1], spread, rates - spread))
    coords = np.array([np.zeros(TIES), np.ones(TIES), np.zeros(TIES), np.arange(TIES)]).astype(int)
    missing = in_both_directions(Missing([], (2, 2, 1, TIES)), (0, 1))
    with Workers(2) as workers:
        layout = Layout.of_cells(coords, np.full(TIES, count), missing, workers, (0, 1))
        spec = Spec(2, (2, 2, 2, 2), likelihood=likelihood)
        allocation, _ = thin(Key.of(5, 0), layout, spec, state, Workspace.of(layout, state))
    y_1, y_2, _, y_t = (allocation.y_RQ[layout.rows(mode)] for mode in range(4))
    # A class from 0 to 1 has all its counts in row 0 of the first mode and in row 1 of the second.
    np.testing.assert_array_equal(y_1, np.diag(y_t.sum(axis=0)))
    np.testing.assert_array_equal(y_2, np.diag(y_t.sum(axis=0))[::-1])
    return y_t[:, 0], y_t[:, 1]


def latent_pmf(likelihood, count, rate):
    if likelihood == "poisson":
        return np.eye(count + 1)[count]
    if likelihood == "negative-binomial":
        return naive.tables_pmf(count, rate)
    pmf = stats.poisson.pmf(np.arange(60), rate)
    return np.where(np.arange(60) > 0, pmf, 0.0) / pmf[1:].sum()


@pytest.mark.parametrize(
    ("likelihood", "count", "depth"),
    [
        ("poisson", 3, 0.0),
        ("poisson", 700, 0.0),
        ("poisson", 3, 60.0),
        ("negative-binomial", 6, 0.0),
        ("negative-binomial", 300, 0.0),
        ("bernoulli", 1, 0.0),
    ],
)
def test_the_latent_count_has_the_rate_of_both_directions_and_is_split_by_a_binomial(likelihood, count, depth):
    forth, back = one_pair(likelihood, count, depth=depth)
    latent_L = latent_pmf(likelihood, count, RATE)
    assert fit_to(forth + back, 0, latent_L) > LEVEL
    sizes = np.arange(len(latent_L))
    forth_K = sum(p * stats.binom.pmf(sizes, size, SHARE) for size, p in zip(sizes, latent_L, strict=True))
    assert fit_to(forth, 0, forth_K) > LEVEL


def test_a_split_with_the_rate_of_one_direction_is_found():
    forth, back = one_pair("poisson", 3)
    assert fit_to(back, 0, stats.binom.pmf(np.arange(4), 3, SHARE)) < 1e-6
    assert fit_to(forth, 0, stats.binom.pmf(np.arange(4), 3, 0.5)) < 1e-6


@pytest.mark.parametrize("name", SPECS)
def test_the_split_has_the_means_of_the_oracle(name):
    """Mean counts by row and class over many sweeps: the oracle draws a latent count, then directions, then classes."""
    spec, state, tensor = data_of(name)
    dense, priors, rng = cases.naive_of(state), cases.priors_of(spec), np.random.default_rng(8)
    Y, observed = (
        np.triu(np.ones((4, 4)), 1)[:, None, :] * tensor.to_dense(),
        ~MISSING.contains(np.indices(SHAPE).reshape(3, -1)).reshape(SHAPE),
    )
    ours, theirs = [], []
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        workspace = Workspace.of(layout, state)
        for number in range(600):
            allocation, _ = thin(Key.of(1, 0).at(number), layout, spec, state, workspace)
            ours.append(allocation.y_RQ.ravel())
            if number < 100:
                directed = naive.split_pairs(Y.astype(np.int64), observed, dense, priors, PAIR, rng)
                theirs.append(cases.allocation_of(naive.thin(directed, observed, dense, rng)).y_RQ.ravel())
    ours, theirs = np.array(ours), np.array(theirs)
    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    gap = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    p = 2 * stats.norm.sf(gap[error > 0] / error[error > 0]).min() * np.count_nonzero(error)
    assert (gap[error == 0] == 0).all()
    assert p > LEVEL


# Rates and densities


@pytest.mark.parametrize("name", SPECS)
def test_a_state_with_mirror_images_has_the_rates_of_pairs(name):
    _, state, tensor = data_of(name)
    both = joint.rates_at(state, tensor.coords) + joint.rates_at(state, mirrored(tensor.coords, PAIR))
    np.testing.assert_allclose(joint.rates_at(with_mirror_images(state, PAIR), tensor.coords), both, rtol=1e-12)


def test_counts_of_mirror_images_are_in_the_rows_of_the_other_mode():
    _, _, tensor = data_of("poisson")
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        y_RQ = np.random.default_rng(0).integers(0, 9, (sum(SHAPE), 6))
        folded_RQ = fold_counts(y_RQ, layout, PAIR)
        first, middle, last = (layout.rows(mode) for mode in range(3))
    np.testing.assert_array_equal(folded_RQ[first], y_RQ[first, :3] + y_RQ[last, 3:])
    np.testing.assert_array_equal(folded_RQ[last], y_RQ[last, :3] + y_RQ[first, 3:])
    np.testing.assert_array_equal(folded_RQ[middle], y_RQ[middle, :3] + y_RQ[middle, 3:])


@pytest.mark.parametrize("name", SPECS)
def test_the_log_likelihood_is_that_of_the_counts_of_pairs(name):
    spec, state, tensor = data_of(name)
    dense, Y = cases.naive_of(state), tensor.to_dense()
    cells = np.indices(SHAPE)
    pairs = ~MISSING.contains(cells.reshape(3, -1)).reshape(SHAPE) & (cells[0] < cells[2])
    rate = naive.pair_rates(dense, PAIR)
    law = {
        "negative-binomial": lambda: stats.nbinom(rate, 1 - dense.p),
        "bernoulli": lambda: stats.bernoulli(1 - np.exp(-rate)),
        "poisson": lambda: stats.poisson(rate),
    }[spec.likelihood]()
    expected = law.logpmf(Y)[pairs].sum()
    assert joint.log_likelihood(tensor, spec, state) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", SPECS)
def test_a_sweep_reports_the_log_likelihood_of_its_state(name):
    spec, state, tensor = data_of(name)
    with Workers(1) as workers:
        layout, key = Layout.of(tensor, workers), Key.of(2, 0)
        after, info = sweep(key.at(1), layout, spec, begin(key.at(0), layout, spec, state))
    assert info.log_likelihood == pytest.approx(joint.log_likelihood(tensor, spec, after.state), rel=1e-6)


def test_the_split_does_not_depend_on_the_threads_and_leaves_out_classes_that_are_not_included():
    spec, state, tensor = data_of("poisson")
    left_out = replace(state, log_core_Q=np.array([-np.inf, *state.log_core_Q[1:]]))
    found = []
    for threads in (1, 3):
        with Workers(threads) as workers:
            layout = Layout.of(tensor, workers)
            found.append(thin(Key.of(1, 0), layout, spec, left_out, Workspace.of(layout, left_out))[0])
    np.testing.assert_array_equal(found[0].y_RQ, found[1].y_RQ)
    assert found[0].log_fit == found[1].log_fit
    assert not found[0].y_RQ[:, 0].any()
    assert found[0].y_RQ.sum() == 3 * tensor.total

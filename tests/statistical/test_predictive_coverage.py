"""Predictive intervals hold what they promise: truths from the prior, data given the truth, some fibres held out.

Over such data sets, held-out counts fall into their intervals as often as the posterior predictive says, for cells and
for sums of cells. Counts are discrete, so the probability of an interval is more than 0.8; it is found by simulation.
Cells of a data set depend on one another, so a data set is one observation: its hits less its expected hits.

Error rate: 1e-4 for each case, by a t-test. A planted bug, intervals of the mean instead of the count, is found.
"""

import numpy as np
import pytest
from scipy import stats

import allocore as ac
from allocore.errors import InputError
from allocore.model.simulate import draw_counts, prior_state
from allocore.model.spec import Spec
from allocore.posterior.evaluate import pit, score_cells

pytestmark = [pytest.mark.statistical, pytest.mark.slow, pytest.mark.jit]
SHAPE, PRIORS = (6, 5, 4), {"a0": 2.0, "b0": 1.0, "e0": 1.3, "f0": 1.0, "g0": 3.0, "h0": 4.0}
KINDS = [("poisson", None), ("negative-binomial", None), ("negative-binomial", 0), ("bernoulli", None)]
DATA_SETS, ERROR = 60, 1e-4


def data_sets(likelihood, by):
    """Posteriors with their held-out sets; data without a count to train on are passed over."""
    spec = Spec(2, (2, 2, 2), **PRIORS, likelihood=likelihood, dispersion_by=by, model="CP")
    rng, cells, number = np.random.default_rng(7), np.indices(SHAPE).reshape(3, -1), 0
    while number < DATA_SETS:
        counts = draw_counts(spec, prior_state(spec, SHAPE, rng), cells, rng)
        try:
            split = ac.hold_out(ac.CountTensor(cells, counts, SHAPE), 0.3, seed=number)
        except InputError:  # no count is left to train on
            continue
        settings = {"burn_in": 150, "draws": 150, "thin": 4, "chains": 1, "seed": number, "threads": 1}
        model = ac.CP(2, **PRIORS, **settings, likelihood=likelihood, dispersion_by=by, progress=False)
        yield model.fit(split.train).posterior_, split.test
        number += 1


def excess_of_hits(post, test, ends):
    """Hits less expected hits, for held-out cells and for the sums of held-out fibres."""
    fibres, owner = np.unique(test.coords[:2], axis=1, return_inverse=True)
    sums = [(int(i), int(j), None) for i, j in fibres.T]
    totals = np.bincount(owner.ravel(), test.counts)
    found = []
    for asked, counts in ((test, test.counts), (sums, totals)):
        low, high = ends(post, asked)
        simulated = post.simulate(asked, 1500, seed=1, missing=True)
        expected = ((low <= simulated) & (simulated <= high)).mean(axis=0)
        found.append(((low <= counts) & (counts <= high)).mean() - expected.mean())
    return found


def predicted_ends(post, asked):
    table = post.predict(asked, 0.8, missing=True)
    return table["low"].to_numpy(), table["high"].to_numpy()


def excess_of_coverage(post, test, rng):
    """How far the mean of the PIT and the coverage of intervals are from what they should be."""
    u = pit(score_cells(post.record, test.coords.astype(np.int64), test.counts, 1), rng.random(len(test)))
    inside = [np.mean(np.abs(u - 0.5) <= level / 2) - level for level in (0.5, 0.9)]
    return [u.mean() - 0.5, *inside]


def shares_in(ends, test):
    low, high = ends
    return ((low <= test.counts) & (test.counts <= high)).mean()


@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_intervals_and_the_pit_of_held_out_counts_are_what_they_should_be(likelihood, by):
    """One draw in place of all, and intervals of the mean in place of the count, are found.

    Each data set has random numbers of its own for its PIT: those of `evaluate` are always the same.
    """
    hits, coverage, of_one_draw, shares, shares_of_mean = [], [], [], [], []
    rng = np.random.default_rng(8)
    for post, test in data_sets(likelihood, by):
        hits.append(excess_of_hits(post, test, predicted_ends))
        coverage.append(excess_of_coverage(post, test, rng))
        one = type(post)(post.record.with_draws((slice(None), slice(0, 1))), 1)
        of_one_draw.append(excess_of_coverage(one, test, rng))
        shares.append(shares_in(predicted_ends(post, test), test))
        shares_of_mean.append(shares_in(np.quantile(post.predict(test, draws=True)[1], [0.1, 0.9], axis=1), test))
    assert stats.ttest_1samp(hits, 0.0).pvalue.min() > ERROR / 2
    assert (stats.ttest_1samp(coverage, 0.0).pvalue > ERROR / 3).all()
    assert stats.ttest_1samp(shares, 0.8, alternative="less").pvalue > ERROR
    if likelihood != "bernoulli":  # a probability that is right on average is all that the PIT of a bit asks for
        assert stats.ttest_1samp(of_one_draw, 0.0).pvalue.min() < ERROR
    if by is None and likelihood != "bernoulli":
        assert stats.ttest_1samp(shares_of_mean, 0.8, alternative="less").pvalue < 1e-6

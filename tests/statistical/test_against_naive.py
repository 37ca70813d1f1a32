"""The posterior of one data set, by the package and by the naive sampler that is told which cells are missing.

Error rate: each test rejects with probability 1e-3 if the two agree.
"""

import numpy as np
import pytest

from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.random import Key
from allocore.model.simulate import first_state
from support import cases, naive
from support.evidence import corrected, same_means, summaries

pytestmark = [pytest.mark.statistical, pytest.mark.slow, pytest.mark.jit]


def package_states(case, sweeps, burn_in=200, seed=2):
    key = Key.of(seed, 0)
    state = first_state(case.spec, case.Y.shape, np.random.default_rng(seed))
    now = begin(key, case.layout, case.spec, state)
    states = []
    for number in range(1, sweeps + 1):
        now, _ = sweep(key.at(number), case.layout, case.spec, now)
        states.append(cases.naive_of(now.state))
    return summaries(states[burn_in:])


def naive_states(case, sweeps, burn_in=100, observed=None):
    rng = np.random.default_rng(6)
    observed = case.observed if observed is None else observed
    chain = naive.chain_of_states(case.Y, observed, case.spec.core_shape, case.spec.budget, case.priors, sweeps, rng)
    return summaries(list(chain)[burn_in:])


def test_with_missing_cells_the_posterior_is_that_of_the_naive_sampler():
    """Told that the missing cells were zeros, the naive sampler disagrees."""
    case = cases.make(3, budget=3, core_shape=(2, 3, 2), seed=4, scale=3.0)
    ours = package_states(case, 8_000)
    assert corrected(same_means(ours, naive_states(case, 2_500))) > 1e-3
    assert corrected(same_means(ours, naive_states(case, 1_500, observed=np.ones_like(case.observed)))) < 1e-6


BURSTS = {"likelihood": "negative-binomial", "dispersion_by": 1, "g0": 3.0, "h0": 4.0}
OTHERS = {
    "bursts-learned": {**BURSTS, "e0": "infer", "s0": 8.0, "t0": 6.0},
    "binary": {"likelihood": "bernoulli", "b0": 3.0},
}


@pytest.mark.parametrize("name", OTHERS)
def test_with_another_likelihood_the_posterior_is_that_of_the_naive_sampler(name):
    case = cases.make(3, budget=3, core_shape=(2, 3, 2), seed=7, scale=3.0, **OTHERS[name])
    assert corrected(same_means(package_states(case, 8_000), naive_states(case, 2_500))) > 1e-3

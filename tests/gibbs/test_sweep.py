"""Whole sweeps report the log-likelihood of the state that they return."""

import numpy as np
import pytest

import allocore as ac
import cases
from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model import joint
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State


@pytest.mark.parametrize("with_missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("model", ["AlloCore", "CP"])
def test_a_sweep_reports_the_log_likelihood_of_the_state_it_returns(modes, with_missing, model):
    case = cases.make(modes, budget=4, with_missing=with_missing, seed=modes, scale=5.0)
    tensor = cases.tensor_of(case)
    spec = Spec(case.spec.budget, case.spec.core_shape, model=model)
    key = Key.of(4, 0)
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        state = first_state(spec, tensor.shape, np.random.default_rng(3))
        allocation = begin(key.at(0), layout, spec, state)
        for number in range(1, 4):
            state, allocation, info = sweep(key.at(number), layout, spec, state, allocation)
            # Thinning multiplies 32-bit floats: a few units in the seventh digit of every rate.
            expected = joint.log_likelihood(tensor, spec, state)
            assert info.log_likelihood == pytest.approx(expected, abs=1e-6 * tensor.total)


@pytest.mark.parametrize("model", [ac.Tucker((5, 5, 5)), ac.AlloCore(300, (3, 3, 3))])
def test_the_log_likelihood_is_right_for_many_classes(model):
    """Sums of many scaled products exceed one, so that their running product grows as well as shrinks."""
    Y = ac.as_tensor(np.random.default_rng(3).poisson(1.5, (14, 14, 10)))
    post = model.set_params(burn_in=0, draws=3, thin=1, seed=2, progress=False).fit(Y).posterior_
    for draw in range(3):
        with np.errstate(divide="ignore"):
            log_phi = tuple(np.log(factor[0, draw]) for factor in post.factors)
        state = State(np.log(post.core_values[0, draw]), post.core_locations[0, draw], log_phi)
        expected = joint.log_likelihood(Y, post.record.spec, state)
        assert post.stats["log_likelihood"][0, draw] == pytest.approx(expected, abs=1e-6 * Y.total)

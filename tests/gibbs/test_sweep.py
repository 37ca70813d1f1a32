"""Whole sweeps report the log-likelihood of the state that they return."""

import numpy as np
import pytest

import allocore as ac
from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model import joint
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State
from support import cases
from support.tiers import parametrize_few


def check_every_sweep(tensor, spec, sweeps):
    """Make sweeps from the first state of a chain; each must report the log-likelihood of the state it returns."""
    key = Key.of(4, 0)
    with Workers(1) as workers:
        layout = Layout.of(tensor, workers)
        state = first_state(spec, tensor.shape, np.random.default_rng(3))
        now = begin(key.at(0), layout, spec, state)
        for number in range(1, sweeps + 1):
            now, info = sweep(key.at(number), layout, spec, now)
            expected = joint.log_likelihood(tensor, spec, now.state)
            assert np.isfinite(expected)
            # Thinning multiplies 32-bit floats: a few units in the seventh digit of every rate.
            assert info.log_likelihood == pytest.approx(expected, abs=1e-6 * tensor.total)


@pytest.mark.parametrize("with_missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("model", ["AlloCore", "CP"])
def test_a_sweep_reports_the_log_likelihood_of_the_state_it_returns(modes, with_missing, model):
    case = cases.make(modes, budget=4, with_missing=with_missing, seed=modes, scale=5.0)
    tensor = cases.tensor_of(case)
    spec = Spec(case.spec.budget, case.spec.core_shape, model=model)
    check_every_sweep(tensor, spec, sweeps=3)


@pytest.mark.parametrize(
    "model", [ac.Tucker((5, 5, 5), likelihood="poisson"), ac.AlloCore(300, (3, 3, 3), likelihood="poisson")]
)
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


LEARNED = {"s0": 4.0, "t0": 3.0, "g0": 2.0, "h0": 3.0, "f0": 1.0}
SETTINGS = {
    "negative-binomial": {"likelihood": "negative-binomial"},
    "by-first-mode": {"likelihood": "negative-binomial", "dispersion_by": 0},
    "by-second-mode-e0": {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"},
    "bernoulli": {"likelihood": "bernoulli", "b0": 4.0},
    "bernoulli-e0": {"likelihood": "bernoulli", "b0": 4.0, "e0": "infer"},
    "e0": {"e0": "infer"},
    "negative-binomial-budget": {"likelihood": "negative-binomial", "infer_budget": True, "b0": 5.0},
    "by-second-mode-budget-e0": {
        "likelihood": "negative-binomial", "dispersion_by": 1, "infer_budget": True, "b0": 5.0, "e0": "infer",
    },
    "bernoulli-budget": {"likelihood": "bernoulli", "infer_budget": True, "b0": 9.0},
}  # fmt: skip
COMBINATIONS = [
    (name, model)
    for name in SETTINGS
    for model in ("AlloCore", "CP", "Tucker")
    if model == "AlloCore" or "infer_budget" not in SETTINGS[name]
]


@parametrize_few("with_missing", [False, True], ids=["complete", "missing"])
@parametrize_few("modes", [2, 3, 5])
@parametrize_few(("name", "model"), COMBINATIONS)
def test_a_sweep_reports_the_log_likelihood_whatever_the_likelihood(name, model, modes, with_missing):
    """After every sweep, with split-merge too (eight classes), and from the chain's own first state."""
    settings = {**LEARNED, **SETTINGS[name]}
    core_shape = (2,) * modes if model == "Tucker" else (8,) * modes if model == "CP" else (3,) * modes
    spec = Spec(2**modes if model == "Tucker" else 8, core_shape, model=model, **settings)
    case = cases.make(modes, budget=8, with_missing=with_missing, seed=modes + 1, scale=2.0, **settings)
    check_every_sweep(cases.tensor_of(case), spec, sweeps=8)

"""Geweke's joint-distribution test of one move alone: classes divided and joined (see test_geweke.py).

The other steps of a sweep would make up for much of what a wrong move does. Here a sweep is a thinning and sixteen
proposals. Error rate 1e-3; deliberate bugs must be found at 1e-6.
"""

import numpy as np
import pytest

from allocore.gibbs import split_merge
from allocore.gibbs.exposure import reach
from allocore.gibbs.thinning import thin
from allocore.kernels.expansion import Rows
from allocore.kernels.random import Step, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State
from evidence import corrected, zero_means
from geweke import SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.slow, pytest.mark.jit]
PROPOSALS = 16
# Small core values, so that classes are often empty.
PRIORS = {"a0": 1.6, "b0": 2.0, "e0": 1.3, "f0": 1.7, "alpha0": 6.0}
SPECS = {
    "fixed": Spec(6, (4, 3, 2), **PRIORS),
    "inferred": Spec(6, (4, 3, 2), **PRIORS, infer_budget=True, c0=6.0, d0=2.0),
    "few-factors": Spec(5, (3, 2, 1), a0=0.5, b0=0.5, e0=0.3, f0=0.3, alpha0=0.6),
}


class Dividing:
    """A thinning and the proposals, in one mode after another; counts how many of these are accepted."""

    def __init__(self):
        self.accepted = 0

    def __call__(self, key, number, layout, spec, state):
        key, mode, rows = key.at(number), number % len(layout.shape), Rows.of(layout, state)
        y_DQ = thin(key, layout, rows, state).y_RQ[layout.rows(mode)]
        reach_DQ = reach(layout, rows, mode)
        reach_Q = np.einsum("dq,dq->q", reach_DQ, rows.phi_RQ[layout.rows(mode)])
        chain = split_merge._chain(layout, spec, state, mode, y_DQ, reach_DQ, rows, reach_Q)
        rng = scratch()
        for proposal in range(PROPOSALS):
            seat(rng, key.stream(Step.DIVIDE, mode), proposal)
            self.accepted += split_merge._propose(chain, rng)
        log_phi = (*state.log_phi[:mode], chain.log_phi_DK, *state.log_phi[mode + 1 :])
        return State(chain.log_core_Q, chain.subs_QM, log_phi)


@pytest.mark.parametrize("name", SPECS)
def test_dividing_and_joining_leave_the_joint_distribution(name):
    move = Dividing()
    differences = wander(move, SPECS[name], SOME, starts=1_500)
    assert move.accepted > 500, "else there is nothing to judge"
    assert corrected(zero_means(differences)) > 1e-3


def numbers_of_classes_forgotten(monkeypatch):
    right = split_merge._gain

    def forgetful(chain, pair, divided, joined, divides):
        holding = (chain.y_Q > 0).sum() - (not divides)
        return right(chain, pair, divided, joined, divides) + np.log(holding + 1)

    monkeypatch.setattr(split_merge, "_gain", forgetful)


def choice_of_factors_forgotten(monkeypatch):
    right = split_merge._log_weight_divided

    def forgetful(chain, pair, divided):
        first, second = pair.weights_U[[divided.first, divided.second]]
        return right(chain, pair, divided) + np.log(first * second / (1.0 - first))

    monkeypatch.setattr(split_merge, "_log_weight_divided", forgetful)


def where_the_empty_class_is_forgotten(monkeypatch):
    right = split_merge._log_weight_joined

    def forgetful(chain, pair, joined):
        return right(chain, pair, joined) + chain.priors.a0 * np.log(chain.priors.b0 + joined.reach_r)

    monkeypatch.setattr(split_merge, "_log_weight_joined", forgetful)


@pytest.mark.parametrize(
    ("plant", "starts"),
    [
        (numbers_of_classes_forgotten, 3_000),
        (choice_of_factors_forgotten, 5_000),
        (where_the_empty_class_is_forgotten, 3_000),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_deliberate_bug_is_found(plant, starts, monkeypatch):
    plant(monkeypatch)
    assert corrected(zero_means(wander(Dividing(), SPECS["fixed"], SOME, starts))) < 1e-6

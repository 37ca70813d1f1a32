"""Geweke's joint-distribution test of one move alone: classes divided and joined (see test_geweke.py).

The other steps of a sweep would make up for much of what a wrong move does. Here a sweep is a thinning and sixteen
proposals. Error rate 1e-3; deliberate bugs must be found at 1e-6.
"""

import numpy as np
import pytest

import cases
from allocore._workers import Workers
from allocore.data.missing import Missing
from allocore.gibbs import dividing
from allocore.gibbs._random import Key, Step, scratch, seat
from allocore.gibbs.exposure import reach
from allocore.gibbs.layout import Layout
from allocore.gibbs.rows import Rows
from allocore.gibbs.thinning import thin
from allocore.model.simulate import draw_counts, prior_state
from allocore.model.spec import Spec
from allocore.model.state import State
from evidence import corrected, summaries, zero_means

pytestmark = [pytest.mark.statistical, pytest.mark.long, pytest.mark.jit]
SHAPE, STEPS, PROPOSALS = (3, 4, 2), 3, 16
# Small core values, so that classes are often empty.
PRIORS = {"a0": 1.6, "b0": 2.0, "e0": 1.3, "f0": 1.7, "alpha0": 6.0}
SPECS = {
    "fixed": Spec(6, (4, 3, 2), **PRIORS),
    "inferred": Spec(6, (4, 3, 2), **PRIORS, infer_budget=True, c0=6.0, d0=2.0),
    "few-factors": Spec(5, (3, 2, 1), a0=0.5, b0=0.5, e0=0.3, f0=0.3, alpha0=0.6),
}
SOME = Missing([(0, 0, None), (1, 1, None), (None, 2, 1), (2, None, 0), (2, 3, 1)], SHAPE)


def divided(key, layout, spec, state, mode):
    """A state after a thinning and the proposals, and how many of these were accepted."""
    rows = Rows.of(layout, state)
    y_DQ = thin(key, layout, rows, state).y_RQ[layout.rows(mode)]
    reach_DQ = reach(layout, rows, mode)
    reach_Q = np.einsum("dq,dq->q", reach_DQ, rows.phi_RQ[layout.rows(mode)])
    chain = dividing._chain(layout, spec, state, mode, y_DQ, reach_DQ, rows, reach_Q)
    rng, accepted = scratch(), 0
    for number in range(PROPOSALS):
        seat(rng, key.stream(Step.DIVIDE, mode), number)
        accepted += dividing._propose(chain, rng)
    log_phi = (*state.log_phi[:mode], chain.log_phi_DK, *state.log_phi[mode + 1 :])
    return State(chain.log_core_Q, chain.subs_QM, log_phi), accepted


def wander(spec, missing, starts, seed=1):
    """Differences of all quantities between the ends and the beginnings of short chains; how often classes moved."""
    rng, key = np.random.default_rng(seed), Key.of(seed, 0)
    cells = np.indices(SHAPE).reshape(len(SHAPE), -1)
    cells = np.ascontiguousarray(cells[:, ~missing.contains(cells)])
    firsts, lasts, moves = [], [], 0
    with Workers(1) as workers:
        for start in range(starts):
            state = prior_state(spec, SHAPE, rng)
            firsts.append(cases.naive_of(state))
            for number in range(start * STEPS, (start + 1) * STEPS):
                counts = draw_counts(state, cells, rng)
                layout = Layout.of_cells(cells[:, counts > 0], counts[counts > 0], missing, workers)
                state, accepted = divided(key.at(number), layout, spec, state, number % len(SHAPE))
                moves += accepted
            lasts.append(cases.naive_of(state))
    return summaries(lasts) - summaries(firsts), moves


@pytest.mark.parametrize("name", SPECS)
def test_dividing_and_joining_leave_the_joint_distribution(name):
    differences, moves = wander(SPECS[name], SOME, starts=1_500)
    assert moves > 500, "else there is nothing to judge"
    assert corrected(zero_means(differences)) > 1e-3


def numbers_of_classes_forgotten(monkeypatch):
    right = dividing._gain

    def forgetful(chain, pair, divided, joined, divides):
        holding = (chain.y_Q > 0).sum() - (not divides)
        return right(chain, pair, divided, joined, divides) + np.log(holding + 1)

    monkeypatch.setattr(dividing, "_gain", forgetful)


def choice_of_factors_forgotten(monkeypatch):
    right = dividing._log_weight_divided

    def forgetful(chain, pair, divided):
        first, second = pair.weights_U[[divided.first, divided.second]]
        return right(chain, pair, divided) + np.log(first * second / (1.0 - first))

    monkeypatch.setattr(dividing, "_log_weight_divided", forgetful)


def where_the_empty_class_is_forgotten(monkeypatch):
    right = dividing._log_weight_joined

    def forgetful(chain, pair, joined):
        return right(chain, pair, joined) + chain.priors.a0 * np.log(chain.priors.b0 + joined.reach_r)

    monkeypatch.setattr(dividing, "_log_weight_joined", forgetful)


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
    differences, _ = wander(SPECS["fixed"], SOME, starts)
    assert corrected(zero_means(differences)) < 1e-6

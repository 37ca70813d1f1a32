"""Refits with frozen factors: chains start from an earlier run, and frozen factors have the values that are given."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.model.joint import class_totals
from allocore.run.chains import start_states
from support.errors import refused

SHORT = {"burn_in": 4, "draws": 1, "thin": 1, "chains": 1, "seed": 1, "threads": 1, "progress": False}
ACTIONS = ("meet", "consult", "aid", "fight")
FROZEN = pd.DataFrame({"talk": [6, 3, 1, 1], "war": [1, 1, 1, 8]}, index=ACTIONS)
MODES = {"action": ac.Mode(frozen=FROZEN)}
Y = ac.as_tensor(
    np.random.default_rng(0).poisson(2.0, (5, 4, 3)),
    mode_names=["actor", "action", "month"],
    labels=[None, ACTIONS, None],
)


@pytest.fixture(scope="module")
def start():
    return ac.AlloCore(4, **SHORT).fit(Y).posterior_


def test_a_refit_has_the_frozen_factors_that_are_given(start):
    post = ac.AlloCore(4, modes=MODES, **SHORT).fit(Y, start=start).posterior_
    for column, name in enumerate(FROZEN):
        phi_D = np.asarray(post.factors[1])[0, 0, :, column]
        np.testing.assert_allclose(phi_D / phi_D.sum(), FROZEN[name] / FROZEN[name].sum())


def test_the_first_state_expects_as_many_counts_of_each_class(start):
    spec = ac.AlloCore(4, modes=MODES, likelihood=start.likelihood, **SHORT)._spec(Y)
    (state,) = start_states(start.record, Y, spec, 1)
    np.testing.assert_allclose(class_totals(state, Y.missing), class_totals(start.record.state_of(0, -1), Y.missing))


def test_a_refit_with_other_seeds_than_the_run_where_it_starts_is_refused(start):
    with refused("start"):
        ac.AlloCore(4, modes={"action": ac.Mode(seeds={"x": "aid"})}, **SHORT).fit(Y, start=start)

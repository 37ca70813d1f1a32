"""The log joint density of draws, and the best of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.model.joint import log_joint
from allocore.posterior.convergence import log_joint_of_draws
from support.planted import posterior_of

MONTHS = ac.load_flights().labels[3]
KNOWN = {
    "month": ac.Mode(exposure=np.linspace(0.5, 2.0, 12), frozen=pd.DataFrame({"even": 1.0}, index=MONTHS)),
    "origin": ac.Mode(exposure=[1.0, 2.0, 0.5], seeds={"Newark": "EWR Newark"}),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"likelihood": "negative-binomial", "e0": "infer"},
        {"likelihood": "bernoulli"},
        {"modes": KNOWN},
        {"modes": KNOWN, "likelihood": "negative-binomial", "dispersion_by": "month", "e0": "infer"},
    ],
)
def test_it_is_the_log_joint_of_the_state(options):
    Y = ac.load_flights()
    Y = Y.binarize() if options.get("likelihood") == "bernoulli" else Y
    model = ac.AlloCore(6, burn_in=8, draws=3, thin=2, chains=2, seed=4, progress=False, **options)
    post = model.fit(Y).posterior_
    found = log_joint_of_draws(post.record)
    for chain, draw in np.ndindex(found.shape):
        state = post.record.state_of(chain, draw)
        variables = [state.core_values(), state.concentrations_M]
        for mode in range(5):
            drawn_K = state.used(mode)
            drawn_K[: len(post.record.spec.known_in(mode).frozen)] = False
            variables.append(state.factors(mode)[:, drawn_K])
        wanted = log_joint(post.tensor, post.record.spec, state) + sum(np.log(each).sum() for each in variables)
        if state.dispersion is not None:
            p = 1.0 / (1.0 + np.exp(-state.dispersion.log_odds_D))
            wanted += np.log(p * (1.0 - p)).sum()
        assert found[chain, draw] == pytest.approx(wanted, rel=1e-7)
    assert post.best_draw() == np.unravel_index(found.argmax(), found.shape)
    assert post.class_summary(chain=0).source.startswith(f"draw {found[0].argmax()} of chain 0")
    assert post.class_summary("best").source.endswith(", the best by log joint density")


def test_a_weight_near_zero_does_not_make_a_draw_the_best():
    """Where e0 is below one, the density of a weight has no bound near zero, and such a draw would win by it."""
    other = (0.5, 0.5)
    draws = [[(1.0, ((0.7, weight), other))] for weight in (0.3, 1e-9)]
    post = posterior_of([draws], (2, 2), e0=0.1, f0=2.0)
    found = log_joint_of_draws(post.record)[0]
    assert found[1] - found[0] == pytest.approx(0.1 * np.log(1e-9 / 0.3) - 2.0 * (1e-9 - 0.3))
    assert post.best_draw() == (0, 0)


def test_a_lost_trace_is_computed_again():
    post = (
        ac.AlloCore(4, burn_in=3, draws=2, thin=1, seed=1, progress=False, chains=1).fit(ac.load_flights()).posterior_
    )
    whole = log_joint_of_draws(post.record)
    stats = {name: values.astype(float) for name, values in post.stats.items()}
    stats["log_likelihood"][:] = np.nan
    np.testing.assert_allclose(log_joint_of_draws(replace(post.record, stats=stats)), whole, rtol=1e-7)


def test_an_inferred_budget_and_nntuck_have_a_best_draw():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(1.0, (6, 5, 4)))
    model = ac.AlloCore("infer", burn_in=5, draws=3, thin=1, seed=1, progress=False, chains=1)
    post = model.fit(Y).posterior_
    assert np.isfinite(log_joint_of_draws(post.record)).all()
    assert post.best_draw()[0] == 0
    fitted = ac.NNTuck((2, 2, 2), restarts=1, seed=1, progress=False).fit(Y).posterior_
    assert fitted.best_draw() == (0, 0)
    assert fitted.class_summary().source == "draw 0"

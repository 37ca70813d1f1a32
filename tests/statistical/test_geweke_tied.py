"""Geweke's joint-distribution test of models with two tied modes (see test_geweke.py).

Error rate 1e-3; deliberate bugs must be found at 1e-6. A short run of one model and of one bug is quick.
"""

import numpy as np
import pytest

import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing
from support.bugs import forget_a_role
from support.evidence import corrected, zero_means
from support.geweke import wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 300  # starts
SHAPE = (3, 3, 2)
DIAGONAL = Missing([(v, v, None) for v in range(3)], SHAPE)
# In one role alone, in both, in neither; some meet the diagonal.
SOME = DIAGONAL.union(Missing([(0, 1, None), (2, None, 0), (None, 2, 1), (1, 2, 0)], SHAPE))
PRIORS = {"a0": 1.6, "b0": 0.2, "e0": 1.3, "f0": 1.7, "alpha0": 2.0, "tied": (0, 1)}
LEARNED = {**PRIORS, "e0": "infer", "s0": 8.0, "t0": 6.0}
BURSTS = {"likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
WEIGHTS = {"exposures": ((0.3, 1.0, 4.0), (0.3, 1.0, 4.0), (0.4, 3.0))}
SPECS = {
    "poisson": Spec(3, (3, 3, 2), **PRIORS),
    "last-modes": Spec(3, (2, 3, 3), **{**PRIORS, "tied": (1, 2)}),
    "learned": Spec(3, (2, 2, 2), **LEARNED),
    "bursts-by-role": Spec(3, (3, 3, 2), **{**LEARNED, "b0": 2.0}, **BURSTS, dispersion_by=1),
    "bursts": Spec(3, (3, 3, 2), **PRIORS, **BURSTS),
    "binary": Spec(3, (2, 2, 2), **PRIORS, likelihood="bernoulli"),
    "inferred": Spec(5, (3, 3, 2), **{**PRIORS, "b0": 5.0}, infer_budget=True, c0=6.0, d0=3.0),
    "split-merge": Spec(9, (3, 3, 4), **{**PRIORS, "b0": 3.0, "alpha0": 6.0}),
    "exposures": Spec(3, (3, 3, 2), **PRIORS, **WEIGHTS),
    "bursts-by-role-exposures": Spec(3, (3, 3, 2), **{**LEARNED, "b0": 2.0}, **BURSTS, **WEIGHTS, dispersion_by=0),
    "binary-inferred-exposures": Spec(
        5, (3, 3, 2), **{**LEARNED, "b0": 5.0}, **WEIGHTS, likelihood="bernoulli", infer_budget=True, c0=6.0, d0=3.0
    ),
    "split-merge-exposures": Spec(9, (3, 3, 4), **{**PRIORS, "b0": 3.0, "alpha0": 6.0}, **WEIGHTS),
    "crowded": Spec(5, (5, 5, 2), **{**PRIORS, "b0": 1.0, "alpha0": 0.6}),
    "cp": Spec(2, (2, 2, 2), **PRIORS, model="CP"),
    "tucker": Spec(4, (2, 2, 1), **PRIORS, model="Tucker"),
}


def whole_sweep(key, number, layout, spec, state):
    now = begin(key.at(2 * number), layout, spec, state)
    return sweep(key.at(2 * number + 1), layout, spec, now)[0].state


def evidence_against(name, starts, missing=SOME):
    if name == "last-modes":
        patterns = missing.patterns[:, [2, 0, 1]]
        missing = Missing(patterns, (2, 3, 3))
    return corrected(zero_means(wander(whole_sweep, SPECS[name], missing, starts)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against("learned", SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(name, 2_000) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "bursts-by-role", "split-merge"])
def test_prior_and_chain_agree_if_only_the_diagonal_is_missing(name):
    assert evidence_against(name, 2_000, DIAGONAL) > 1e-3


def diagonal_not_subtracted(monkeypatch):
    """In locations and core values; every row is taken out before it is drawn."""
    right = sweep_module.exposure

    def whole(layout, workspace, mode):
        found = right(layout, workspace, mode)
        if mode == 2:
            return found
        other = workspace.rows(1 - mode)
        return found + other * workspace.expanded.sums_MQ[2]

    monkeypatch.setattr(sweep_module, "exposure", whole)


def locations_counted_in_one_role(monkeypatch):
    right = sweep_module.relocate

    def one_role(key, layout, spec, state, view):
        from allocore.gibbs import relocation

        of = relocation._Places.of.__func__
        with pytest.MonkeyPatch.context() as patch:

            def alone(cls, *given):
                both, role = of(cls, *given), np.zeros(1, dtype=int)
                role = np.bincount(both.places_Q, minlength=len(both.factors_K))
                return both._replace(others_K=np.where(role > 0, role, both.others_K))

            patch.setattr(relocation._Places, "of", classmethod(alone))
            return right(key, layout, spec, state, view)

    monkeypatch.setattr(sweep_module, "relocate", one_role)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (forget_a_role, "poisson"),
        pytest.param(diagonal_not_subtracted, "poisson", marks=pytest.mark.slow),
        pytest.param(locations_counted_in_one_role, "crowded", marks=pytest.mark.slow),
    ],
)
def test_a_run_finds_a_deliberate_bug(plant, name, monkeypatch):
    plant(monkeypatch)
    assert evidence_against(name, SHORT if plant is forget_a_role else 2_000) < 1e-6


def test_the_patterns_of_two_modes_are_all_of_them_but_the_diagonal():
    patterns = SignedPatterns.of(SOME)
    pair = patterns.of_pair(0, 1)
    named = np.concatenate([pair.neither_P, pair.alone_P, pair.both_P[: len(pair.both_P) // 2]])
    rows_P2 = patterns.patterns_PM[:, :2]
    expected = np.flatnonzero((rows_P2[:, 0] != rows_P2[:, 1]) | (rows_P2 < 0).all(axis=1))
    np.testing.assert_array_equal(np.sort(named), expected)

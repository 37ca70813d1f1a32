"""Geweke's joint-distribution test with exposures, known weights of rows (see test_geweke.py).

The quantities are those of the factors times the weights, as in the state. Data are drawn with the weights in the rates
of their cells. Deliberate bugs must be found at 1e-6.
"""

from dataclasses import replace

import pytest

import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.relocation import location_scores
from allocore.gibbs.sweep import begin, sweep
from allocore.model.spec import Spec
from support.evidence import corrected, zero_means
from support.geweke import NONE, SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 100  # starts
WEIGHTS = ((0.3, 1.0, 4.0), (), (0.4, 3.0))
PRIORS = {"a0": 1.6, "b0": 0.6, "e0": 1.3, "f0": 1.7, "alpha0": 2.0, "exposures": WEIGHTS}
BURSTS = {**PRIORS, "likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
BINARY = {**PRIORS, "likelihood": "bernoulli", "b0": 3.0}
LEARNED = {"e0": "infer", "s0": 8.0, "t0": 6.0}
FEW = {"infer_budget": True, "c0": 6.0, "d0": 3.0, "b0": 5.0}
MANY = {"alpha0": 6.0, "b0": 4.0}
SMALL = {**PRIORS, "exposures": ((0.1, 0.05, 0.03), (), (0.05, 0.1)), "b0": 0.01}
SPECS = {
    "poisson": Spec(3, (2, 3, 2), **PRIORS),
    "learned": Spec(3, (2, 3, 2), **{**PRIORS, **LEARNED}),
    "inferred": Spec(5, (2, 3, 2), **{**PRIORS, **FEW}),
    "split-merge": Spec(9, (4, 3, 2), **{**PRIORS, **MANY}),
    "bursts": Spec(3, (2, 3, 2), **BURSTS),
    "bursts-by-weighted-row": Spec(3, (3, 3, 3), **{**BURSTS, **LEARNED}, dispersion_by=0),
    "bursts-by-other-row-inferred": Spec(5, (2, 3, 2), **{**BURSTS, **FEW}, dispersion_by=1),
    "bursts-split-merge": Spec(9, (4, 3, 2), **{**BURSTS, **LEARNED, **MANY}, dispersion_by=2),
    "binary": Spec(3, (2, 3, 2), **BINARY),
    "binary-learned-inferred": Spec(5, (2, 3, 2), **{**BINARY, **LEARNED, **FEW}),
    # All weights are below 1, so that one that is forgotten changes every row in the same direction.
    "small": Spec(3, (3, 4, 3), **SMALL),
    "small-learned": Spec(3, (3, 4, 3), **{**SMALL, **LEARNED}),
    "cp-bursts": Spec(2, (2, 2, 2), **{**BURSTS, **LEARNED}, model="CP"),
    "tucker-binary": Spec(4, (2, 1, 2), **BINARY, model="Tucker"),
}


def two_sweeps(key, number, layout, spec, state):
    now = begin(key.at(3 * number), layout, spec, state)
    for after in (1, 2):
        now, _ = sweep(key.at(3 * number + after), layout, spec, now)
    return now.state


def evidence_against(spec, missing, starts):
    return corrected(zero_means(wander(two_sweeps, spec, missing, starts)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against(SPECS["bursts-by-weighted-row"], SOME, SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(SPECS[name], SOME, 1_000) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["learned", "bursts-split-merge", "binary-learned-inferred", "small"])
def test_prior_and_chain_agree_if_no_cell_is_missing(name):
    assert evidence_against(SPECS[name], NONE, 1_000) > 1e-3


def weight_forgotten_in_the_exposure_of_one_mode(monkeypatch):
    right = sweep_module.draw_factors

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, spec.with_exposure(0, None) if view.mode == 0 else spec, state, view)

    monkeypatch.setattr(sweep_module, "draw_factors", forgetful)


def weight_forgotten_in_the_collapsed_score(monkeypatch):
    def forgetful(layout, spec, state, mode, rows):
        return location_scores(layout, replace(spec, exposures=()), state, mode, rows)

    monkeypatch.setattr("allocore.gibbs.relocation.location_scores", forgetful)


def weight_forgotten_in_the_concentration(monkeypatch):
    right = sweep_module.draw_concentration

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, replace(spec, exposures=()), state, view)

    monkeypatch.setattr(sweep_module, "draw_concentration", forgetful)


BUGS = [
    pytest.param(weight_forgotten_in_the_exposure_of_one_mode, "poisson", marks=pytest.mark.slow),
    (weight_forgotten_in_the_collapsed_score, "small"),
    pytest.param(weight_forgotten_in_the_concentration, "small-learned", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("plant", "name"), BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_short_run_finds_a_deliberate_bug(plant, name, monkeypatch):
    plant(monkeypatch)
    assert evidence_against(SPECS[name], SOME, 150) < 1e-6

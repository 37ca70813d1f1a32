"""Geweke's joint-distribution test with seeded and frozen factors, alone and together (see test_geweke.py).

Known factors have fixed numbers. So the shares of the locations at each of them are tested too, and the logarithms of
the rates of their rows. Deliberate bugs must be found at 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest

import allocore.gibbs.sweep as sweep_module
from allocore.gibbs import relocation
from allocore.gibbs.relocation import CollapsedFit, location_scores
from allocore.gibbs.sweep import begin, sweep
from allocore.model.known import KnownFactors
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing
from support.evidence import corrected, summaries, zero_means
from support.geweke import NONE, SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 100  # starts
SEEDS = KnownFactors(seeds=((0,), (1, 2)), seed_weight=4.0)
STRONG = KnownFactors(seeds=((0,), (1, 2)), seed_weight=30.0)
TALKS = KnownFactors(seeds=((0, 3),), seed_weight=3.0)
FROZEN = KnownFactors(frozen=((0.1, 0.2, 0.6, 0.1),))
ALL = KnownFactors(frozen=((0.7, 0.2, 0.1),), seeds=((1,),), seed_weight=4.0)
PRIORS = {"a0": 1.6, "b0": 0.6, "e0": 1.3, "f0": 1.7, "alpha0": 2.0}
BURSTS = {**PRIORS, "likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
BINARY = {**PRIORS, "likelihood": "bernoulli", "b0": 3.0}
LEARNED = {"e0": "infer", "s0": 8.0, "t0": 6.0}
FEW = {"infer_budget": True, "c0": 6.0, "d0": 3.0, "b0": 5.0}
MANY = {"alpha0": 6.0, "b0": 4.0}
WEIGHTS = {"exposures": ((0.3, 1.0, 4.0), (), (0.4, 3.0))}
SAME = {"exposures": ((0.3, 1.0, 4.0), (0.3, 1.0, 4.0), (0.4, 3.0))}  # of tied modes
TIED = Missing([(v, v, None) for v in range(3)] + [(0, 1, None), (2, None, 0)], (3, 3, 2))
SPECS = {
    "seeds": Spec(3, (3, 3, 2), **PRIORS, known=(SEEDS, TALKS, KnownFactors())),
    "only-seeds": Spec(3, (2, 3, 2), **PRIORS, known=(SEEDS, KnownFactors(), KnownFactors())),
    # One class and two seeds: if it takes the wrong one, that cannot be missed.
    "strong-seeds": Spec(1, (2, 1, 1), **{**PRIORS, "alpha0": 6.0}, known=(STRONG, KnownFactors(), KnownFactors())),
    "frozen": Spec(3, (3, 3, 2), **PRIORS, known=(KnownFactors(), FROZEN, KnownFactors())),
    "both": Spec(3, (3, 3, 2), **PRIORS, known=(ALL, FROZEN, KnownFactors())),
    "everything-frozen": Spec(3, (2, 1, 2), **PRIORS, known=(KnownFactors(), FROZEN, KnownFactors())),
    "exposures": Spec(3, (3, 3, 2), **PRIORS, **WEIGHTS, known=(ALL, FROZEN, KnownFactors())),
    "learned": Spec(3, (3, 3, 2), **{**PRIORS, **LEARNED}, known=(ALL, TALKS, KnownFactors())),
    "learned-exposures": Spec(3, (3, 3, 2), **{**PRIORS, **LEARNED}, **WEIGHTS, known=(ALL, TALKS, KnownFactors())),
    "inferred": Spec(5, (3, 3, 2), **{**PRIORS, **FEW}, known=(ALL, TALKS, KnownFactors())),
    "split-merge": Spec(9, (4, 3, 2), **{**PRIORS, **MANY}, known=(ALL, TALKS, KnownFactors())),
    "bursts-split-merge": Spec(
        9, (4, 3, 2), **{**BURSTS, **LEARNED, **MANY}, **WEIGHTS, dispersion_by=2, known=(SEEDS, FROZEN, KnownFactors())
    ),
    "bursts": Spec(3, (3, 3, 2), **BURSTS, known=(ALL, TALKS, KnownFactors())),
    "bursts-by-seeded-row-inferred": Spec(
        5, (3, 3, 2), **{**BURSTS, **FEW}, **WEIGHTS, dispersion_by=0, known=(ALL, TALKS, KnownFactors())
    ),
    "binary": Spec(3, (3, 3, 2), **BINARY, **WEIGHTS, known=(ALL, TALKS, KnownFactors())),
    "binary-learned-inferred": Spec(
        5, (3, 3, 2), **{**BINARY, **LEARNED, **FEW}, known=(SEEDS, FROZEN, KnownFactors())
    ),
    "tied": Spec(3, (3, 3, 2), **PRIORS, tied=(0, 1), known=(ALL, ALL, KnownFactors())),
    "tied-learned": Spec(3, (3, 3, 2), **{**BURSTS, **LEARNED}, tied=(0, 1), known=(ALL, ALL, KnownFactors())),
    "tied-exposures": Spec(3, (3, 3, 2), **PRIORS, **SAME, tied=(0, 1), known=(ALL, ALL, KnownFactors())),
    "tied-learned-exposures": Spec(
        3, (3, 3, 2), **{**PRIORS, **LEARNED}, **SAME, tied=(0, 1), known=(ALL, ALL, KnownFactors())
    ),
    "tied-binary-learned-inferred": Spec(
        5, (3, 3, 2), **{**BINARY, **LEARNED, **FEW}, **SAME, tied=(0, 1), known=(SEEDS, SEEDS, KnownFactors())
    ),
    "tied-split-merge": Spec(
        9, (4, 4, 2), **{**BURSTS, **MANY}, **SAME, dispersion_by=1, tied=(0, 1), known=(ALL, ALL, KnownFactors())
    ),
    "cp": Spec(2, (2, 2, 2), **{**BURSTS, **LEARNED}, model="CP", known=(SEEDS, FROZEN, KnownFactors())),
    "tucker": Spec(4, (2, 1, 2), **BINARY, model="Tucker", known=(ALL, TALKS, KnownFactors())),
}


def two_sweeps(key, number, layout, spec, state):
    now = begin(key.at(3 * number), layout, spec, state)
    for after in (1, 2):
        now, _ = sweep(key.at(3 * number + after), layout, spec, now)
    return now.state


def evidence_against(name, missing, starts, move=two_sweeps):
    spec = SPECS[name]

    def quantities(states):
        columns, locations_TQM = [], np.array([state.locations for state in states])
        core_TQ = np.array([state.core for state in states])
        for mode, known in enumerate(spec.known):
            phi_TDK = np.array([state.factors[mode] for state in states])
            for k in range(len(known)):
                at_TQ = locations_TQM[:, :, mode] == k
                columns += [at_TQ.mean(axis=1), at_TQ.any(axis=1)]
                columns += list(np.log1p(phi_TDK[:, :, k] * (core_TQ * at_TQ).sum(axis=1)[:, None]).T)
        return np.column_stack([summaries(states), *columns])

    if spec.tied:
        missing = TIED
    return corrected(zero_means(wander(move, spec, missing, starts, quantities=quantities)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against("bursts-split-merge", SOME, SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(name, SOME, 500) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["both", "binary", "bursts-split-merge", "bursts-by-seeded-row-inferred"])
def test_prior_and_chain_agree_if_all_cells_are_observed(name):
    assert evidence_against(name, NONE, 500) > 1e-3


def seeded_factor_integrated_out_under_the_unseeded_prior(monkeypatch):
    def forgetful(layout, spec, state, mode, rows):
        scores = location_scores(layout, spec, state, mode, rows)
        integral = CollapsedFit._fields.index("log_integral")
        scores.fits_QGF[:, 1:, integral] = scores.fits_QGF[:, :1, integral]
        return scores

    monkeypatch.setattr(relocation, "location_scores", forgetful)


def frozen_factor_drawn(monkeypatch):
    right = sweep_module.draw_factors

    def thawed(key, layout, spec, state, view):
        return right(key, layout, replace(spec, known=()), state, view)

    monkeypatch.setattr(sweep_module, "draw_factors", thawed)


def frozen_factor_no_candidate_when_unused(monkeypatch):
    def of_used_only(spec, state, mode):
        return state.used(spec.sharing(mode)) | (spec.known_in(mode).kinds(spec.core_shape[mode]) > 0)

    monkeypatch.setattr(relocation, "_candidates", of_used_only)


def seed_forgotten_in_the_concentration(monkeypatch):
    right = sweep_module.draw_concentration

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, replace(spec, known=()), state, view)

    monkeypatch.setattr(sweep_module, "draw_concentration", forgetful)


BUGS = [
    (seeded_factor_integrated_out_under_the_unseeded_prior, "strong-seeds", 100),
    pytest.param(frozen_factor_drawn, "both", 300, marks=pytest.mark.slow),
    pytest.param(frozen_factor_no_candidate_when_unused, "frozen", 400, marks=pytest.mark.slow),
    pytest.param(seed_forgotten_in_the_concentration, "learned", 500, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("plant", "name", "starts"), BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_run_finds_a_deliberate_bug(plant, name, starts, monkeypatch):
    plant(monkeypatch)
    assert evidence_against(name, SOME, starts) < 1e-6

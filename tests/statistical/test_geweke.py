"""Geweke's joint-distribution test: the sampler and the model must agree on the joint distribution of everything.

Variables are drawn from the prior; then, a few times over, data are drawn given the variables and a sweep is made given
the data. If every conditional is right, the variables at the end have the prior as their distribution, like those at
the beginning. This is repeated from independent starts, and the differences between end and beginning, of some sixty
label-free quantities, must average to zero: independent differences, so an ordinary t-test holds however slowly chains
mix, and the less they move the smaller its error.

Error rate: each test rejects a correct sampler with probability 1e-3, corrected for the number of quantities (seeds are
fixed, so it is decided once). Deliberate bugs must be found at 1e-6.

A short run of the model with most steps, and of one bug, is quick. Runs of that length find all bugs but one. Long
runs are slow.
"""

from dataclasses import replace

import numpy as np
import pytest

import allocore.gibbs.core_values as core_values_module
import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.relocation import CollapsedFit, Scores, location_scores
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.model.simulate import prior_state
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing
from support import cases, naive
from support.evidence import corrected, same_means, summaries, zero_means
from support.geweke import NONE, SHAPE, SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 200  # starts
# Core values are large, so that counts are too: with few counts a relocation that ignores them would go unnoticed.
PRIORS = {"a0": 1.6, "b0": 0.2, "e0": 1.3, "f0": 1.7, "alpha0": 2.0}
SPECS = {
    "allocore": Spec(3, (2, 3, 2), **PRIORS),
    "canonical": Spec(3, (3, 3, 3), **PRIORS),
    "many-classes": Spec(20, (3, 6, 1), **{**PRIORS, "b0": 2.0, "e0": 0.5}),
    # Small core values, so that classes are often empty: only those may be left out.
    "inferred": Spec(5, (2, 3, 2), **{**PRIORS, "b0": 5.0}, infer_budget=True, c0=6.0, d0=3.0),
    # Empty classes again, and enough of all for them to be split and merged.
    "split-merge": Spec(9, (4, 3, 2), **{**PRIORS, "b0": 3.0, "alpha0": 6.0}),
    "cp": Spec(2, (2, 2, 2), **PRIORS, model="CP"),
    "tucker": Spec(4, (2, 1, 2), **PRIORS, model="Tucker"),
}


def whole_sweep(key, number, layout, spec, state):
    now = begin(key.at(2 * number), layout, spec, state)
    return sweep(key.at(2 * number + 1), layout, spec, now)[0].state


def evidence_against(spec, missing, starts=2_000):
    return corrected(zero_means(wander(whole_sweep, spec, missing, starts)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against(SPECS["inferred"], SOME, SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(SPECS[name], SOME) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["allocore", "split-merge", "tucker"])
def test_prior_and_chain_agree_if_no_cell_is_missing(name):
    assert evidence_against(SPECS[name], NONE) > 1e-3


def wrong_exposure(monkeypatch):
    right = sweep_module.exposure
    monkeypatch.setattr(sweep_module, "exposure", lambda layout, workspace, mode: 1.2 * right(layout, workspace, mode))


def missing_cells_ignored(monkeypatch):
    right = sweep_module.exposure

    def all_observed(layout, workspace, mode):
        return right(replace(layout, missing=SignedPatterns.of(Missing.none(layout.shape))), workspace, mode)

    monkeypatch.setattr(sweep_module, "exposure", all_observed)


def prior_of_locations_counted_twice(monkeypatch):
    def twice(layout, spec, state, mode, rows):
        scores_QK, exposure_QK, fits_QGF = location_scores(layout, spec, state, mode, rows)
        alpha = spec.alpha0 / layout.shape[mode]
        n_K = np.bincount(state.subs_QM[:, mode], minlength=scores_QK.shape[1])
        n_K = np.concatenate([n_K[n_K > 0], n_K[n_K == 0]])
        fits_QGF[:, 0, CollapsedFit._fields.index("log_integral")] += np.log(alpha)
        return Scores(scores_QK + np.log(n_K + alpha), exposure_QK, fits_QGF)

    monkeypatch.setattr("allocore.gibbs.relocation.location_scores", twice)


def prior_of_factors_counted_twice(monkeypatch):
    right = sweep_module.draw_factors

    def twice(key, layout, spec, *rest):
        return right(key, layout, replace(spec, e0=2 * spec.e0 - 1, f0=2 * spec.f0), *rest)

    monkeypatch.setattr(sweep_module, "draw_factors", twice)


def relocation_that_forgets_the_counts(monkeypatch):
    right = sweep_module.relocate

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, spec, state, view._replace(y_DQ=np.zeros_like(view.y_DQ)))

    monkeypatch.setattr(sweep_module, "relocate", forgetful)


def empty_classes_left_out_for_good(monkeypatch):
    monkeypatch.setattr(core_values_module, "draw_inclusion", lambda key, spec, state, y_Q, exposure_Q: y_Q > 0)


def inclusion_that_forgets_the_exposure(monkeypatch):
    right = core_values_module.draw_inclusion
    monkeypatch.setattr(
        core_values_module,
        "draw_inclusion",
        lambda key, spec, state, y_Q, exposure_Q: right(key, spec, state, y_Q, np.zeros_like(exposure_Q)),
    )


def inclusion_that_forgets_the_prior(monkeypatch):
    right = core_values_module.draw_inclusion
    monkeypatch.setattr(
        core_values_module, "draw_inclusion", lambda key, spec, *rest: right(key, replace(spec, c0=1.0, d0=1.0), *rest)
    )


BUGS = [
    (relocation_that_forgets_the_counts, "allocore"),
    pytest.param(inclusion_that_forgets_the_exposure, "inferred", marks=pytest.mark.slow),
    pytest.param(missing_cells_ignored, "allocore", marks=pytest.mark.slow),
    pytest.param(wrong_exposure, "allocore", marks=pytest.mark.slow),
    pytest.param(prior_of_locations_counted_twice, "allocore", marks=pytest.mark.slow),
    pytest.param(prior_of_factors_counted_twice, "allocore", marks=pytest.mark.slow),
    pytest.param(empty_classes_left_out_for_good, "inferred", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("plant", "name"), BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_short_run_finds_a_deliberate_bug(plant, name, monkeypatch):
    plant(monkeypatch)
    assert evidence_against(SPECS[name], SOME, SHORT) < 1e-6


@pytest.mark.slow
def test_a_long_run_finds_an_inclusion_that_forgets_the_prior(monkeypatch):
    inclusion_that_forgets_the_prior(monkeypatch)
    assert evidence_against(SPECS["inferred"], SOME, starts=2_000) < 1e-6


@pytest.mark.slow
def test_the_prior_of_the_package_is_the_prior_of_the_oracle():
    """Error rate 1e-3."""
    spec, rng = SPECS["allocore"], np.random.default_rng(5)
    ours = summaries([cases.naive_of(prior_state(spec, SHAPE, rng)) for _ in range(8_000)])
    priors = naive.Priors(**PRIORS)
    dense = summaries([naive.sample_prior(SHAPE, spec.core_shape, spec.budget, priors, rng) for _ in range(8_000)])
    assert corrected(same_means(ours, dense)) > 1e-3

"""Simulation-based calibration (Talts et al. 2018): the truth ranks uniformly among posterior draws.

For each of many data sets, variables are drawn from the prior and data given the variables, and a chain runs from the
usual first state (not from the truth). The rank of the true value of each label-free quantity among the thinned draws
is uniform.

Error rate: 1e-3 for the smallest of the chi-square p-values, corrected for their number. Planted bugs are found at
1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.known import KnownFactors
from allocore.model.simulate import draw_counts, first_state, prior_state
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing
from allocore.tensor.undirected import in_both_directions
from support import cases
from support.bugs import forget_a_role
from support.evidence import corrected, summaries

pytestmark = [pytest.mark.statistical, pytest.mark.slow, pytest.mark.jit]
SHAPE = (3, 3, 2)
PRIORS = {"a0": 1.6, "b0": 1.0, "e0": 1.3, "f0": 1.3, "alpha0": 3.0}
SPEC = Spec(2, (2, 2, 2), **PRIORS)
BURSTS = {"likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
LEARNED = {**PRIORS, "e0": "infer", "s0": 8.0, "t0": 6.0}
KNOWN = (
    KnownFactors(frozen=((0.6, 0.3, 0.1),)),
    KnownFactors(seeds=((0,), (1, 2)), seed_weight=4.0),
    KnownFactors(),
)
OTHERS = {
    "bursts": Spec(2, (2, 2, 2), **LEARNED, **BURSTS),
    "bursts-by-row": Spec(2, (2, 2, 2), **LEARNED, **BURSTS, dispersion_by=1),
    "binary": Spec(2, (2, 2, 2), **PRIORS, likelihood="bernoulli"),
    "known": Spec(2, (2, 2, 2), **LEARNED, known=KNOWN),
}
WEIGHTS = ((0.4, 1.0, 2.5), (), (3.0, 0.5))
WEIGHTED = {
    "weights": Spec(2, (2, 2, 2), **PRIORS, exposures=WEIGHTS),
    "weights-bursts": Spec(2, (2, 2, 2), **LEARNED, **BURSTS, exposures=WEIGHTS),
}
# All weights are above 1, so that one that is forgotten changes every row in the same direction.
HEAVY = Spec(2, (2, 2, 2), **PRIORS, exposures=((5.0, 8.0, 4.0), (), ()))
TIED = {
    "tied": Spec(3, (2, 2, 2), **PRIORS, tied=(0, 1)),
    "tied-bursts": Spec(3, (2, 2, 2), **LEARNED, **BURSTS, tied=(0, 1)),
}
UNDIRECTED = {
    "undirected": Spec(2, (2, 2, 2), **PRIORS),
    "undirected-tied-bursts": Spec(3, (2, 2, 2), **LEARNED, **BURSTS, tied=(0, 1)),
}
BURN_IN, DRAWS, THIN = 60, 15, 8


def posterior_of(layout, spec, seed, rng):
    key, state = Key.of(seed, 0), first_state(spec, SHAPE, rng)
    now = begin(key, layout, spec, state)
    kept = []
    for number in range(1, BURN_IN + DRAWS * THIN + 1):
        now, _ = sweep(key.at(number), layout, spec, now)
        if number > BURN_IN and (number - BURN_IN) % THIN == 0:
            kept.append(cases.naive_of(now.state))
    return kept


def ranks(missing, data_sets, spec=SPEC, seed=0, undirected=None):
    """The rank of the truth among the draws, (data sets, quantities); ties (counts of factors) are broken at random."""
    rng = np.random.default_rng(seed)
    cells = np.indices(SHAPE).reshape(len(SHAPE), -1)
    cells = np.ascontiguousarray(cells[:, ~missing.contains(cells)])
    if undirected is not None:
        cells = np.ascontiguousarray(cells[:, cells[undirected[0]] < cells[undirected[1]]])
    found = []
    with Workers(1) as workers:
        for number in range(data_sets):
            truth = prior_state(spec, SHAPE, rng)
            counts = draw_counts(spec, truth, cells, rng, undirected)
            layout = Layout.of_cells(cells[:, counts > 0], counts[counts > 0], missing, workers, undirected)
            states = [cases.naive_of(truth), *posterior_of(layout, spec, number, rng)]
            values = summaries(states)
            below = (values[1:] < values[0]).sum(axis=0)
            tied = (values[1:] == values[0]).sum(axis=0)
            found.append(below + rng.integers(0, tied + 1))
    return np.array(found)


def evidence_against_uniformity(rank_table):
    bins = 8
    width = (DRAWS + 1) // bins
    p_values = []
    for column in rank_table.T:
        observed = np.bincount(column // width, minlength=bins)
        p_values.append(stats.chisquare(observed).pvalue)
    return corrected(p_values)


NONE = Missing(np.empty((0, 3), dtype=int), SHAPE)
SOME = Missing([(0, 0, None), (1, 1, None), (None, 2, 1)], SHAPE)
PAIRS = in_both_directions(Missing([(0, 2, None), (0, 1, 1)], SHAPE), (0, 1))
LOOPS = Missing([*((v, v, None) for v in range(3)), (None, 2, 1)], SHAPE)  # tied modes need the whole diagonal


@pytest.mark.parametrize("missing", [NONE, SOME], ids=["complete", "missing"])
def test_the_truth_ranks_uniformly_among_posterior_draws(missing):
    assert evidence_against_uniformity(ranks(missing, 200)) > 1e-3


@pytest.mark.parametrize("name", OTHERS)
def test_the_truth_ranks_uniformly_with_other_likelihoods_and_learned_concentrations(name):
    assert evidence_against_uniformity(ranks(SOME, 200, OTHERS[name])) > 1e-3


@pytest.mark.parametrize("name", WEIGHTED)
def test_the_truth_ranks_uniformly_with_exposures(name):
    assert evidence_against_uniformity(ranks(SOME, 200, WEIGHTED[name])) > 1e-3


def test_a_weight_forgotten_in_the_exposure_of_one_mode_spoils_the_ranks(monkeypatch):
    right = sweep_module.draw_factors

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, spec.with_exposure(0, None) if view.mode == 0 else spec, state, view)

    monkeypatch.setattr(sweep_module, "draw_factors", forgetful)
    assert evidence_against_uniformity(ranks(SOME, 120, HEAVY)) < 1e-6


@pytest.mark.parametrize("name", TIED)
def test_the_truth_ranks_uniformly_with_tied_modes(name):
    assert evidence_against_uniformity(ranks(LOOPS, 200, TIED[name])) > 1e-3


@pytest.mark.parametrize("name", UNDIRECTED)
def test_the_truth_ranks_uniformly_with_undirected_ties(name):
    assert evidence_against_uniformity(ranks(PAIRS, 200, UNDIRECTED[name], undirected=(0, 1))) > 1e-3


def test_a_missing_pair_that_is_counted_in_one_direction_spoils_the_ranks(monkeypatch):
    one_way = SignedPatterns.of(Missing(PAIRS.patterns[PAIRS.patterns[:, 0] <= PAIRS.patterns[:, 1]], SHAPE))
    right = Layout.of_cells
    monkeypatch.setattr(Layout, "of_cells", lambda *given: replace(right(*given), missing=one_way))
    assert evidence_against_uniformity(ranks(PAIRS, 120, UNDIRECTED["undirected"], undirected=(0, 1))) < 1e-6


def test_a_role_that_is_forgotten_in_the_exposure_spoils_the_ranks(monkeypatch):
    forget_a_role(monkeypatch)
    assert evidence_against_uniformity(ranks(LOOPS, 120, TIED["tied"])) < 1e-6


def test_exposures_without_c_spoil_the_ranks(monkeypatch):
    def forgetful(layout, workspace, mode):
        sums_MQ = np.array([workspace.rows(m).sum(axis=0) for m in range(len(layout.shape))])
        return layout.missing.sums_by_row(workspace.expanded._replace(sums_MQ=sums_MQ), mode, layout.workers)

    monkeypatch.setattr(sweep_module, "exposure", forgetful)
    assert evidence_against_uniformity(ranks(SOME, 120, OTHERS["bursts-by-row"])) < 1e-6


def test_a_concentration_that_forgets_the_exposure_spoils_the_ranks(monkeypatch):
    right = sweep_module.draw_concentration

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, spec, state, view._replace(exposure_DQ=np.zeros_like(view.exposure_DQ)))

    monkeypatch.setattr(sweep_module, "draw_concentration", forgetful)
    assert evidence_against_uniformity(ranks(SOME, 120, OTHERS["bursts"])) < 1e-6


def test_a_wrong_exposure_spoils_the_ranks(monkeypatch):
    right = sweep_module.exposure
    monkeypatch.setattr(sweep_module, "exposure", lambda layout, rows, mode: 1.5 * right(layout, rows, mode))
    assert evidence_against_uniformity(ranks(NONE, 120)) < 1e-6


def test_a_prior_counted_twice_spoils_the_ranks(monkeypatch):
    right = sweep_module.draw_factors

    def twice(key, layout, spec, *rest):
        return right(key, layout, replace(spec, e0=2 * spec.e0 - 1, f0=2 * spec.f0), *rest)

    monkeypatch.setattr(sweep_module, "draw_factors", twice)
    assert evidence_against_uniformity(ranks(NONE, 120)) < 1e-6

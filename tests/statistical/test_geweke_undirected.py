"""Geweke's joint-distribution test of undirected ties (see test_geweke.py): pairs have one count for both directions.

Error rate 1e-3; deliberate bugs must be found at 1e-6. A short run of one model and of one bug is quick.
"""

from dataclasses import replace

import numpy as np
import pytest

import allocore.gibbs.thinning as thinning_module
from allocore.gibbs.sweep import begin, sweep
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.model.known import KnownFactors
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing
from allocore.tensor.undirected import in_both_directions
from support.evidence import corrected, zero_means
from support.geweke import wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 300  # starts
SHAPE, PAIR = (4, 4, 2), (0, 1)
SOME = in_both_directions(Missing([(0, 1, None), (2, None, 0), (3, 1, 1)], SHAPE), PAIR)
PRIORS = {"a0": 1.6, "b0": 0.3, "e0": 1.3, "f0": 1.7, "alpha0": 2.0}
TIED = {**PRIORS, "tied": PAIR}
LEARNED = {"e0": "infer", "s0": 8.0, "t0": 6.0}
BURSTS = {"likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
# Weights of both ends may differ: those of one end count in one direction.
WEIGHTS = {"exposures": ((0.3, 1.0, 4.0, 2.0), (1.0, 0.5, 2.0, 1.0), (0.4, 3.0))}
SAME = {"exposures": (WEIGHTS["exposures"][0], WEIGHTS["exposures"][0], ())}
SEEDS = KnownFactors(frozen=((0.5, 0.2, 0.2, 0.1),), seeds=((0, 1),), seed_weight=4.0)
KNOWN = {"known": (SEEDS, KnownFactors(), KnownFactors(seeds=((1,),), seed_weight=3.0))}
BOTH = {"known": (SEEDS, SEEDS, KnownFactors())}
SPECS = {
    "poisson": Spec(3, (3, 2, 2), **PRIORS),
    "poisson-tied": Spec(3, (3, 3, 2), **TIED),
    "bursts": Spec(3, (3, 2, 2), **{**PRIORS, **LEARNED, "b0": 2.0}, **BURSTS),
    "bursts-by-row-tied": Spec(3, (3, 3, 2), **{**TIED, **LEARNED, "b0": 2.0}, **BURSTS, dispersion_by=2),
    "binary": Spec(3, (2, 2, 2), **PRIORS, likelihood="bernoulli"),
    "binary-tied": Spec(3, (2, 2, 2), **TIED, likelihood="bernoulli"),
    "inferred": Spec(5, (3, 2, 2), **{**PRIORS, "b0": 5.0}, infer_budget=True, c0=6.0, d0=3.0),
    "split-merge-tied": Spec(9, (3, 3, 4), **{**TIED, "b0": 3.0, "alpha0": 6.0}),
    "tucker": Spec(4, (2, 2, 1), **PRIORS, model="Tucker"),
    "exposures": Spec(3, (3, 2, 2), **PRIORS, **WEIGHTS),
    "known": Spec(3, (3, 2, 2), **PRIORS, **KNOWN),
    "bursts-by-row-known-exposures": Spec(
        3, (3, 2, 2), **{**PRIORS, **LEARNED, "b0": 2.0}, **BURSTS, **WEIGHTS, **KNOWN, dispersion_by=2
    ),
    "binary-tied-known-exposures": Spec(3, (3, 3, 2), **TIED, **SAME, **BOTH, likelihood="bernoulli"),
    "split-merge-tied-known-exposures": Spec(9, (4, 4, 4), **{**TIED, "b0": 3.0, "alpha0": 6.0}, **SAME, **BOTH),
}


def whole_sweep(key, number, layout, spec, state):
    now = begin(key.at(2 * number), layout, spec, state)
    return sweep(key.at(2 * number + 1), layout, spec, now)[0].state


def evidence_against(name, starts, move=whole_sweep):
    return corrected(zero_means(wander(move, SPECS[name], SOME, starts, undirected=PAIR)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against("poisson-tied", SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(name, 1_500) > 1e-3


def test_a_run_finds_a_split_with_one_rate(monkeypatch):
    """The mirror image has the factors of the class itself: both directions get half of every count."""

    def not_exchanged(state, pair):
        twice = np.concatenate([state.subs_QM, state.subs_QM])
        return replace(state, log_core_Q=np.tile(state.log_core_Q, 2), subs_QM=twice)

    monkeypatch.setattr(thinning_module, "with_mirror_images", not_exchanged)
    assert evidence_against("poisson", SHORT) < 1e-6


@pytest.mark.slow
def test_a_run_finds_a_missing_pair_that_is_counted_in_one_direction():
    """The exposures leave out (i, j) but not (j, i)."""
    one_way = Missing(SOME.patterns[(SOME.patterns[:, 0] <= SOME.patterns[:, 1])], SHAPE)

    def forgetful(key, number, layout, spec, state):
        return whole_sweep(key, number, replace(layout, missing=SignedPatterns.of(one_way)), spec, state)

    assert evidence_against("poisson", 3_000, forgetful) < 1e-6

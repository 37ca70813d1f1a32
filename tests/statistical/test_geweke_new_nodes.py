"""Geweke's joint-distribution test of new nodes that are folded into a network (see test_geweke.py).

From the prior, data are drawn given all rows, and then the rows of the new nodes given the data. Error rate 1e-3;
deliberate bugs must be found at 1e-6. A short run of one model and of one bug is quick.
"""

from dataclasses import replace

import pytest

from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.run.fold_in import draw_new_nodes
from allocore.storage.record import NewRows
from allocore.tensor.missing import Missing
from allocore.tensor.undirected import in_both_directions
from support.bugs import forget_a_role
from support.evidence import corrected, zero_means
from support.geweke import wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHAPE, PAIR = (5, 5, 2), (0, 1)
NEW = NewRows(PAIR, 3)
KNOWN = [(v, w, None) for v in range(3) for w in range(3)]
LOOPS = [(v, v, None) for v in range(3, 5)]
SOME = Missing([*KNOWN, *LOOPS, (0, 3, None), (4, None, 0), (None, 4, 1), (3, 4, 0)], SHAPE)
PRIORS = {"a0": 1.6, "b0": 0.2, "e0": 1.3, "f0": 1.7, "alpha0": 2.0}
TIED = {**PRIORS, "tied": PAIR}
BURSTS = {"likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0, "b0": 2.0}
WEIGHTS = (0.5, 2.0, 1.0, 3.0, 0.7)
SPECS = {
    "tied": Spec(3, (3, 3, 2), **TIED),
    "tied-weighted": Spec(3, (3, 3, 2), **TIED, exposures=(WEIGHTS, WEIGHTS, ())),
    "tied-bursts-by-role": Spec(3, (2, 2, 2), **{**TIED, **BURSTS}, dispersion_by=1),
    "own": Spec(3, (3, 2, 2), **PRIORS),
    "own-bursts-by-role": Spec(3, (2, 3, 2), **{**PRIORS, **BURSTS}, dispersion_by=0),
    "own-binary": Spec(3, (2, 2, 2), **PRIORS, likelihood="bernoulli"),
}
UNDIRECTED = {
    "tied": SPECS["tied"],
    "tied-binary": Spec(3, (2, 2, 2), **TIED, likelihood="bernoulli"),
    "own": SPECS["own"],
    "own-bursts": Spec(3, (3, 2, 2), **{**PRIORS, **BURSTS}),
}
STARTS, SHORT = 400, 150


def fold(key, number, layout, spec, state):
    return draw_new_nodes(Key.of(number, 1), layout, spec, state, NEW, 1)[0]


def evidence_against(spec, starts, missing=SOME, undirected=None, move=fold):
    return corrected(zero_means(wander(move, spec, missing, starts, undirected=undirected)))


def test_new_nodes_have_their_distribution_in_a_short_run():
    assert evidence_against(UNDIRECTED["tied"], SHORT, in_both_directions(SOME, PAIR), PAIR) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_new_nodes_have_their_distribution(name):
    assert evidence_against(SPECS[name], STARTS) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
def test_new_nodes_with_undirected_ties_have_their_distribution(name):
    assert evidence_against(UNDIRECTED[name], STARTS, in_both_directions(SOME, PAIR), PAIR) > 1e-3


def test_a_role_that_is_forgotten_in_the_exposure_is_found(monkeypatch):
    forget_a_role(monkeypatch)
    assert evidence_against(SPECS["tied"], SHORT) < 1e-6


@pytest.mark.slow
def test_ties_between_new_nodes_that_the_exposures_leave_out_are_found():
    without = SignedPatterns.of(SOME.union(Missing([(4, 3, None)], SHAPE)))

    def forgetful(key, number, layout, spec, state):
        return fold(key, number, replace(layout, missing=without), spec, state)

    assert evidence_against(SPECS["own"], STARTS, move=forgetful) < 1e-6

"""Geweke's joint-distribution test of one move alone: split-merge (see test_geweke.py).

The other steps of a sweep would make up for much of what a wrong move does. Here a sweep is a thinning and sixteen
proposals. Error rate 1e-3; deliberate bugs must be found at 1e-6.

The quick tier makes a short run; one bug is found by a run of that length. Long runs are slow.
"""

import numpy as np
import pytest

from allocore.gibbs import split_merge
from allocore.gibbs.layout import Workspace
from allocore.gibbs.split_merge import Draft
from allocore.gibbs.thinning import thin
from allocore.kernels.random import Step, scratch, seek
from allocore.model.known import KnownFactors
from allocore.model.spec import Spec
from support import cases
from support.evidence import corrected, zero_means
from support.geweke import SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 300  # starts
PROPOSALS = 16
# Small core values, so that classes are often empty.
PRIORS = {"a0": 1.6, "b0": 2.0, "e0": 1.3, "f0": 1.7, "alpha0": 6.0}
KNOWN = (
    KnownFactors(frozen=((0.1, 0.6, 0.3),), seeds=((0,),), seed_weight=4.0),
    KnownFactors(seeds=((1, 3),)),
    KnownFactors(),
)
SPECS = {
    "fixed": Spec(6, (4, 3, 2), **PRIORS),
    "inferred": Spec(6, (4, 3, 2), **PRIORS, infer_budget=True, c0=6.0, d0=2.0),
    "bursts": Spec(6, (4, 3, 2), **PRIORS, likelihood="negative-binomial", dispersion_by=1, g0=3.0, h0=4.0),
    "binary": Spec(6, (4, 3, 2), **PRIORS, likelihood="bernoulli"),
    "known": Spec(6, (4, 3, 2), **PRIORS, known=KNOWN),
    "few-factors": Spec(5, (3, 2, 1), a0=0.5, b0=0.5, e0=0.3, f0=0.3, alpha0=0.6),
}


class SplitMerge:
    """A thinning and the proposals, in one mode after another; counts how many of these are accepted."""

    def __init__(self):
        self.accepted = 0

    def __call__(self, key, number, layout, spec, state):
        key, mode, workspace = key.at(number), number % len(layout.shape), Workspace.of(layout, state)
        allocation, _ = thin(key, layout, spec, state, workspace)
        view = cases.view_of(layout, state, allocation, mode, workspace)
        exposure_Q, rng = view.exposure_Q(workspace.rows(mode)), scratch()
        draft = Draft.of(layout, spec, state, view, exposure_Q, workspace)
        for proposal in range(PROPOSALS):
            seek(rng, key.stream(Step.SPLIT_MERGE, mode), proposal)
            self.accepted += split_merge.propose(draft, rng)
        return draft.state(state)


def evidence_against(name, starts):
    move = SplitMerge()
    differences = wander(move, SPECS[name], SOME, starts)
    assert move.accepted > 500, "else there is nothing to judge"
    return corrected(zero_means(differences))


@pytest.mark.slow
def test_a_short_chain_of_splitting_and_merging_leaves_the_joint_distribution():
    assert evidence_against("inferred", SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_splitting_and_merging_leave_the_joint_distribution(name):
    assert evidence_against(name, starts=1_500) > 1e-3


def numbers_of_classes_forgotten(monkeypatch):
    right = split_merge._gain

    def forgetful(draft, pair, split, merged):
        holding_if_split = (draft.y_Q > 0).sum() + (draft.y_Q[pair.r] == 0)
        return right(draft, pair, split, merged) + np.log(holding_if_split)

    monkeypatch.setattr(split_merge, "_gain", forgetful)


def choice_of_factors_forgotten(monkeypatch):
    right = split_merge._log_weight_split

    def forgetful(draft, pair, split):
        first, second = pair.weights_U[[split.first, split.second]]
        return right(draft, pair, split) + np.log(first * second / (1.0 - first))

    monkeypatch.setattr(split_merge, "_log_weight_split", forgetful)


def where_the_empty_class_is_forgotten(monkeypatch):
    right = split_merge._log_weight_merged

    def forgetful(draft, pair, merged):
        return right(draft, pair, merged) + draft.priors.a0 * np.log(draft.priors.b0 + merged.exposure_r)

    monkeypatch.setattr(split_merge, "_log_weight_merged", forgetful)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "starts"),
    [
        (numbers_of_classes_forgotten, 3_000),
        (choice_of_factors_forgotten, 5_000),
        (where_the_empty_class_is_forgotten, SHORT),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_deliberate_bug_is_found(plant, starts, monkeypatch):
    plant(monkeypatch)
    assert evidence_against("fixed", starts) < 1e-6

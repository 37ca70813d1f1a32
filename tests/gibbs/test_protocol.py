"""Every step of the sampler returns what it draws and an info, a named tuple of plain numbers."""

import inspect

import numpy as np
import pytest

import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.layout import Workspace
from allocore.gibbs.sweep import SamplerState, begin, info_of, sweep
from allocore.gibbs.thinning import Allocation
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State, SweepInfo
from support import cases

STEPS = {
    "relocate": State,
    "draw_concentration": State,
    "draw_factors": State,
    "draw_tied_concentration": State,
    "draw_tied_factors": State,
    "draw_core_values": State,
    "split_merge": tuple,  # the state, and the exposure of its classes
    "draw_dispersion": State,
    "thin": Allocation,
}


@pytest.fixture
def case():
    settings = {"likelihood": "negative-binomial", "e0": "infer", "tied": (0, 1), "core_shape": (4, 4, 4)}
    return cases.make(3, budget=8, seed=2, scale=3.0, **settings)


def results_of_a_sweep(case, monkeypatch, number=1):
    """What every step returned in one sweep, by its name."""
    found = {}

    def watch(name):
        step = getattr(sweep_module, name)
        monkeypatch.setattr(sweep_module, name, lambda *given: found.setdefault(name, step(*given)))

    for name in STEPS:
        watch(name)
    before = SamplerState(case.state, case.allocation)
    return found, sweep(Key.of(1, 0).at(number), case.layout, case.spec, before)


def test_these_are_all_the_steps():
    imported = [
        name
        for name, value in vars(sweep_module).items()
        if inspect.isfunction(value) and value.__module__.startswith("allocore.gibbs.")
    ]
    others = {"begin", "sweep", "info_of", "exposure", "thin_here", "_visit", "_visit_tied", "_view", "_acceptance"}
    assert set(imported) - others == set(STEPS)


def test_every_step_returns_what_it_draws_and_an_info(case, monkeypatch):
    monkeypatch.setattr(sweep_module, "relocate", sweep_module.relocate)
    found, result = results_of_a_sweep(case, monkeypatch)
    assert set(found) == set(STEPS)
    for name, (drawn, info) in found.items():
        assert isinstance(drawn, STEPS[name]), name
        assert type(info).__name__.endswith("Info"), name
        assert all(type(value) in (int, float) for value in info), name
        assert type(info).__doc__, name
    assert isinstance(found["split_merge"][0][0], State)
    after, info = result
    assert isinstance(after, SamplerState)
    assert isinstance(info, SweepInfo)


def test_the_info_of_a_sweep_has_the_shares_of_accepted_proposals(monkeypatch):
    case = cases.make(3, budget=8, core_shape=(4, 4, 4), seed=2, scale=3.0)
    relocations, right = [], sweep_module.relocate

    def remembering(*given):
        state, info = right(*given)
        relocations.append(info)
        return state, info

    monkeypatch.setattr(sweep_module, "relocate", remembering)
    now, workspace = begin(Key.of(1, 0), case.layout, case.spec, case.state), Workspace.of(case.layout, case.state)
    for number in range(1, 20):
        relocations.clear()
        before = now
        now, info = sweep(Key.of(1, 0).at(number), case.layout, case.spec, before, workspace)
        assert len(relocations) == 3
        assert all(0 <= each.accepted <= each.proposed <= 8 and each.moved <= 8 for each in relocations)
        proposed, accepted = (sum(getattr(each, name) for each in relocations) for name in ("proposed", "accepted"))
        if proposed:
            assert info.relocation_accepted == accepted / proposed
        assert info.split_merge_accepted in (0.0, 0.5, 1.0), "eight classes lead to two proposals"
        moved = [each.moved for each in relocations]
        if info.split_merge_accepted == 0.0:
            changed = (now.state.subs_QM != before.state.subs_QM).sum(axis=0)
            assert sorted(changed) == sorted(moved)


@pytest.mark.parametrize("model", ["CP", "Tucker"])
def test_without_proposals_the_acceptance_rates_are_unknown(model):
    case = cases.make(3, budget=8, seed=2, core_shape=(2, 2, 2))
    spec = Spec(8, (8, 8, 8) if model == "CP" else (2, 2, 2), model=model)
    log_phi = tuple(np.zeros(size) for size in zip(case.Y.shape, spec.core_shape, strict=True))
    state = State(np.zeros(8), spec.start_locations(), log_phi)
    _, info = sweep(Key.of(1, 0).at(1), case.layout, spec, begin(Key.of(1, 0), case.layout, spec, state))
    assert np.isnan([info.relocation_accepted, info.split_merge_accepted]).all()
    bare = info_of(case.layout, state, SamplerState(state, case.allocation), -1.0)
    assert np.isnan([bare.relocation_accepted, bare.split_merge_accepted]).all()

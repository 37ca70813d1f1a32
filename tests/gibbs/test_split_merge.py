"""Classes split and merged: the weights of the two states against the oracle's joint density, and back again."""

import numpy as np
import pytest
from scipy import integrate, stats

from allocore.gibbs import split_merge
from allocore.gibbs.factors import exposure
from allocore.gibbs.layout import Workspace
from allocore.gibbs.split_merge import Draft, explain, log_odds_of_two
from allocore.kernels.random import Key, Step, scratch, seek
from allocore.model.known import KnownFactors
from support import cases, naive

Q_CLASS, R_CLASS = 0, 1


WEIGHTS = ((0.3, 2.0, 1.0, 3.0), (), (0.5, 2.0))  # exposures


KNOWN = (
    KnownFactors(frozen=((0.1, 0.2, 0.3, 0.4),), seeds=((1, 2),), seed_weight=3.0),
    KnownFactors(seeds=((0,),)),
    KnownFactors(frozen=((0.5, 0.5),)),
)


def make(with_missing, alone=False, seed=2, exposures=(), known=()):
    """A case whose class 0 holds counts and class 1 none, at factors that others use too; and as the moves see it."""
    given = {"exposures": exposures, "known": known}
    case = cases.make(3, budget=6, core_shape=(4, 3, 2), with_missing=with_missing, seed=seed, scale=4.0, **given)
    case.dense.locations[:] = [[0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
    if alone:
        case.dense.locations[Q_CLASS, 0] = 3
    case.alloc[Q_CLASS] += case.alloc[R_CLASS]
    case.alloc[R_CLASS] = 0
    return case, draft_of(case)


def draft_of(case, mode=0):
    state = cases.state_of(case.dense, case.spec.tied, case.spec.known)
    workspace = Workspace.of(case.layout, state)
    view = cases.view_of(case.layout, state, cases.allocation_of(case.alloc), mode, workspace)
    return Draft.of(case.layout, case.spec, state, view, view.exposure_Q(workspace.rows(mode)), workspace)


def generator(number):
    rng = scratch()
    seek(rng, Key.of(4, 0).stream(Step.SPLIT_MERGE), number)
    return rng


def pair_of(draft):
    return split_merge._pair(draft, Q_CLASS, R_CLASS)


def split_alloc(case, pair, split, rng):
    """An allocation, cell by cell, in which class 0 keeps as many counts of each row as it is to."""
    alloc = case.alloc.copy()
    for d, given in enumerate((pair.y_D - split.kept_D).astype(int)):
        cells = np.repeat(np.arange(alloc[Q_CLASS, d].size), alloc[Q_CLASS, d].ravel())
        moved = np.bincount(rng.permutation(cells)[:given], minlength=alloc[Q_CLASS, d].size)
        alloc[Q_CLASS, d] -= moved.reshape(alloc[Q_CLASS, d].shape)
        alloc[R_CLASS, d] += moved.reshape(alloc[Q_CLASS, d].shape)
    return alloc


def log_posterior(case, alloc, dense):
    """The log joint density with the core values of both classes integrated out, one by one: they are independent."""

    def at(q, core):
        state = dense.copy()
        state.core[[Q_CLASS, R_CLASS]] = 1.0
        state.core[q] = core
        return naive.log_joint(alloc, case.observed, state, case.priors)

    total = at(Q_CLASS, 1.0)
    for q in (Q_CLASS, R_CLASS):
        t = np.linspace(-20.0, 8.0, 500)
        heights = np.array([at(q, np.exp(each)) + each for each in t])
        total += heights.max() - at(q, 1.0) + np.log(integrate.trapezoid(np.exp(heights - heights.max()), t))
    return total


@pytest.mark.parametrize(
    ("with_missing", "exposures", "known"),
    [pytest.param(False, (), (), marks=pytest.mark.slow), (True, (), ()), (True, WEIGHTS, ()), (True, WEIGHTS, KNOWN)],
)
def test_the_gain_is_that_of_the_joint_density_and_of_the_proposals(with_missing, exposures, known):
    case, draft = make(with_missing, exposures=exposures, known=known)
    check_gain(case, draft, generator(3))


@pytest.mark.parametrize("tied", [(0, 1), (1, 3)])
@pytest.mark.parametrize("number", [3, 7])
def test_the_gain_counts_the_locations_in_both_tied_modes(tied, number):
    """The split is in a role, or in the mode that is not tied; q is at one factor in both roles or at two."""
    case, draft = make_tied(tied, number)
    check_gain(case, draft, generator(number))


def make_tied(tied, number, alone=False, known=()):
    """A case with two tied modes, in which some factors are in use in one role only."""
    modes, scale = (3, 4.0) if tied == (0, 1) else (4, 0.5)
    case = cases.make(modes, 7, (4,) * modes, with_missing=True, seed=number, scale=scale, tied=tied, known=known)
    locations = np.array([[0, 1, 0, 1, 2, 2, 3], [0, 1, 1, 2, 0, 1, 0], [1, 2, 1, 0, 2, 0, 2], [2, 2, 0, 0, 1, 2, 1]]).T
    case.dense.locations[:] = locations[:, :modes]
    if number == 7:
        case.dense.locations[Q_CLASS] = [2, 1, 1, 1][:modes]
    if alone:
        case.dense.locations[-1, 0] = 1
        case.dense.locations[Q_CLASS, 0] = 3
    case.alloc[Q_CLASS] += case.alloc[R_CLASS]
    case.alloc[R_CLASS] = 0
    return case, draft_of(case)


def check_gain(case, draft, rng):
    pair = pair_of(draft)
    split, merged = split_merge._draw_split(draft, pair, rng), split_merge._now_merged(draft, pair)
    assert 0 < split.kept_D.sum() < pair.y_D.sum()
    gain = split_merge._gain(draft, pair, split, merged)

    after = case.dense.copy()
    after.locations[R_CLASS] = after.locations[Q_CLASS]
    factors = pair.used_U[[split.first, split.second]]
    after.locations[[Q_CLASS, R_CLASS], 0] = factors
    alloc = split_alloc(case, pair, split, np.random.default_rng(1))
    ratio = log_posterior(case, alloc, after) - log_posterior(case, case.alloc, case.dense)

    go_D = 1.0 / (1.0 + np.exp(-split.odds_D))
    there = stats.binom.logpmf(alloc[R_CLASS].T, case.alloc[Q_CLASS].T, go_D).sum()
    first, second = pair.weights_U[[split.first, split.second]]
    there += np.log(first * second / (1 - first))
    holding = case.alloc.reshape(case.spec.budget, -1).any(axis=1).sum()
    there -= np.log(holding * (case.spec.budget - holding))

    partners = [
        c
        for c in range(2, case.spec.budget)
        if (after.locations[c, 1:] == after.locations[Q_CLASS, 1:]).all()
        and after.locations[c, 0] != factors[0]
        and case.alloc[c].any()
    ]
    back = -np.log((holding + 1) * (1 + len(partners)))
    home = np.searchsorted(pair.used_U, case.dense.locations[Q_CLASS, 0])
    back += pair.scores[home] - np.logaddexp.reduce(pair.scores)
    for m in range(case.Y.ndim):
        among = [c for c in range(case.spec.budget) if c != R_CLASS and not (m == 0 and c == Q_CLASS)]
        same = [c for c in among if case.dense.locations[c, m] == case.dense.locations[R_CLASS, m]]
        back += np.log(len(same) / len(among))
    assert gain == pytest.approx(ratio + back - there, abs=1e-4)


@pytest.mark.parametrize("alone", [False, True], ids=["shared", "alone"])
@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize(
    ("number", "exposures", "known"), [(0, (), ()), (1, (), ()), (2, WEIGHTS, ()), (3, WEIGHTS, ()), (4, (), KNOWN)]
)
def test_the_way_back_has_the_same_gain(with_missing, alone, number, exposures, known):
    case, draft = make(with_missing, alone=alone, seed=number, exposures=exposures, known=known)
    check_way_back(case, draft, number)


@pytest.mark.parametrize("alone", [False, True], ids=["shared", "alone"])
@pytest.mark.parametrize("tied", [(0, 1), (1, 3)])
@pytest.mark.parametrize("number", [3, 7, 8])
def test_the_way_back_has_the_same_gain_with_tied_modes(tied, alone, number):
    check_way_back(*make_tied(tied, number, alone), number)


def check_way_back(case, draft, number):
    pair = pair_of(draft)
    split, merged = split_merge._draw_split(draft, pair, generator(number)), split_merge._now_merged(draft, pair)
    gain = split_merge._gain(draft, pair, split, merged)
    split_merge._write_split(draft, pair, split, generator(number + 50))

    again = pair_of(draft)
    away_M = np.array(
        [
            next(
                c for c in range(2, case.spec.budget) if case.dense.locations[c, m] == case.dense.locations[R_CLASS, m]
            )
            for m in range(case.Y.ndim)
        ]
    )
    exposure_r = draft.exposure_at(away_M)
    assert exposure_r == pytest.approx(merged.exposure_r, rel=1e-12)
    back = split_merge.MergedState(merged.factor, merged.log_core, away_M, exposure_r)
    now = split_merge._now_split(draft, again)
    np.testing.assert_array_equal(now.kept_D, split.kept_D)
    gain_now = split_merge._gain(draft, again, now, back)
    assert gain_now == pytest.approx(gain, rel=1e-9, abs=1e-9)


def test_a_move_that_could_not_be_undone_is_not_proposed():
    case, draft = make(with_missing=False)
    assert pair_of(draft) is not None
    case.dense.locations[R_CLASS, 0] = 3  # no other class is there
    assert pair_of(draft_of(case)) is None
    case.dense.locations[:, 0] = 1  # other classes use only one factor
    assert pair_of(draft_of(case)) is None


@pytest.mark.parametrize("make", [lambda: make(with_missing=True), lambda: make_tied((0, 1), 3)], ids=["own", "tied"])
def test_what_is_split_and_merged_again_is_where_it_was(make):
    """Tables that follow the moves agree with those made anew from locations and counts."""
    case, draft = make()
    before = draft.y_QD[Q_CLASS].copy()
    pair = pair_of(draft)
    split_merge._write_split(draft, pair, split_merge._draw_split(draft, pair, generator(3)), generator(4))
    check_tables(case, draft)
    again = pair_of(draft)
    for number in range(5, 40):
        merged = split_merge._draw_merged(draft, again, generator(number))
        if again.others_K[merged.factor] == 0:  # a factor of its own is drawn
            break
    split_merge._write_merged(draft, again, merged, generator(99))
    check_tables(case, draft)
    np.testing.assert_array_equal(draft.y_QD[Q_CLASS], before)
    assert not draft.y_QD[R_CLASS].any()


def check_tables(case, draft):
    for m in range(case.Y.ndim):
        subs_Q = draft.subs_QM[:, m]
        np.testing.assert_array_equal(draft.classes_MK[m], np.bincount(subs_Q, minlength=draft.classes_MK.shape[1]))
        phi_DK = draft.phi_DK if m == 0 else np.exp(cases.state_of(case.dense, case.spec.tied).log_phi[m])
        for q in range(len(subs_Q)):
            phi_D, total = draft.column(m, q)
            np.testing.assert_allclose(phi_D, phi_DK[:, subs_Q[q]], rtol=1e-12)
            assert total == pytest.approx(phi_D.sum(), rel=1e-12)
    np.testing.assert_array_equal(draft.y_Q, draft.y_QD.sum(axis=1))
    state = draft.state(cases.state_of(case.dense, case.spec.tied))
    if case.spec.tied is not None:
        np.testing.assert_array_equal(*(state.log_phi[m] for m in case.spec.tied))
        used = state.used(case.spec.tied)
        np.testing.assert_array_equal(np.isfinite(state.log_phi[0]).all(axis=0), used)
    workspace = Workspace.of(case.layout, state)
    exposure_DQ = exposure(case.layout, workspace, 0)
    np.testing.assert_allclose(draft.exposure_Q, (exposure_DQ * workspace.rows(0)).sum(axis=0), rtol=1e-9)


def test_nothing_is_written_but_into_the_draft():
    """Of all that a step is given: the state, the counts and exposures of the mode, and the workspace."""
    case, _ = make(with_missing=True)
    state = cases.state_of(case.dense, known=case.spec.known)
    workspace = Workspace.of(case.layout, state)
    view = cases.view_of(case.layout, state, cases.allocation_of(case.alloc), 0, workspace)
    exposure_Q = view.exposure_Q(workspace.rows(0))
    given = [
        state.log_core_Q,
        state.subs_QM,
        *state.log_phi,
        view.y_DQ,
        view.exposure_DQ,
        exposure_Q,
        *workspace.expanded,
    ]
    copies, accepted = [array.copy() for array in given], 0
    for number in range(200):
        key = Key.of(1, 0).at(number)
        given_now = key, case.layout, case.spec, state, view, exposure_Q, workspace
        (new, _), info = split_merge.split_merge(*given_now)
        assert 0 <= info.accepted <= info.proposed == 1
        accepted += info.accepted
        assert (new is state) == (info.accepted == 0)
    assert accepted > 20
    for array, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_mixture_of_two_factors_is_seen_as_such():
    rng = np.random.default_rng(5)
    phi_DK = rng.gamma(0.3, size=(80, 6)) + 1e-6
    exposure_D = rng.gamma(2.0, size=80)
    shares = phi_DK * exposure_D[:, None] / (phi_DK * exposure_D[:, None]).sum(axis=0)
    y_D = rng.poisson(600 * shares[:, 4] + 300 * shares[:, 1]).astype(float)
    used_U, priors = np.array([0, 1, 2, 4, 5]), cases.priors_of_rows(80)
    weights_U, exposure_U, _ = explain(y_D, exposure_D, priors, used_U, phi_DK, np.log(phi_DK))
    assert weights_U.sum() == pytest.approx(1.0)
    assert sorted(np.argsort(weights_U)[-2:]) == [1, 3]
    np.testing.assert_allclose(exposure_U, exposure_D @ phi_DK[:, used_U])
    odds = log_odds_of_two(y_D, np.log(phi_DK[:, [4, 1]].T.copy()), exposure_U[[3, 1]], 0.5)
    assert np.exp(odds) * exposure_U[1] / exposure_U[3] == pytest.approx(0.5, rel=0.25)


def test_a_factor_that_underflows_takes_no_part_in_a_mixture():
    log_phi_DK = np.log(np.array([[1.0, 2.0, 0.1], [0.5, 0.1, 3.0]]))
    log_phi_DK[:, 1] = -1e6
    y_D, exposure_D, used_U = np.array([1e9, 4.0]), np.array([1.0, 1.0]), np.arange(3)
    priors = cases.priors_of_rows(2)
    weights_U, exposure_U, _ = explain(y_D, exposure_D, priors, used_U, np.exp(log_phi_DK), log_phi_DK)
    assert weights_U.sum() == pytest.approx(1.0)
    assert weights_U[1] == pytest.approx(0.05 / 3)
    assert np.isfinite(log_odds_of_two(y_D, log_phi_DK[:, [1, 0]].T.copy(), exposure_U[[1, 0]], 0.5))


@pytest.mark.parametrize("which", ["frozen", "seeded"])
def test_a_class_at_a_known_factor_that_no_other_class_uses_is_not_split(which):
    case, _ = make(with_missing=True, known=KNOWN)
    k = ["frozen", "seeded"].index(which)
    elsewhere = {0: [k, 3, 3, 2, 2, 3], 1: [k, 3, 2, 2, 3, 3]}[k]
    case.dense.locations[:, 0] = elsewhere
    assert pair_of(draft_of(case)) is None
    case.dense.locations[2, 0] = k
    pair = pair_of(draft_of(case))
    assert k in pair.used_U

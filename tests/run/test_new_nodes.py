"""New nodes of a network that are folded into both of its modes, and a posterior like any other."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import allocore as ac
from allocore.model.joint import log_likelihood
from allocore.storage.record import NewRows
from support.errors import refused
from support.same_draws import assert_same

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus"]
OLD, ADDED = PEOPLE[:5], PEOPLE[5:]
NODES, NAMES = ("sender", "receiver"), ("sender", "receiver", "month")
MONTHS = [f"2001-0{month}" for month in range(1, 5)]
CHAIN = {"burn_in": 20, "draws": 3, "thin": 2, "chains": 2, "seed": 4, "threads": 1, "progress": False}
WEIGHTS = dict(zip(PEOPLE, (1.0, 2.0, 0.5, 1.0, 3.0, 0.5, 2.0), strict=True))


def weights_of(people):
    mode = ac.Mode(exposure={name: WEIGHTS[name] for name in people})
    return {"sender": mode, "receiver": mode}


def tensor():
    """Two teams, which write within themselves, and the first also to the second."""
    first = np.arange(7) % 2 == 0
    rates = np.where(first[:, None], np.where(first[None, :], 4.0, 1.5), np.where(first[None, :], 0.2, 3.0))
    counts = np.random.default_rng(1).poisson(rates[:, :, None], (7, 7, 4))
    return ac.as_tensor(counts, mode_names=NAMES, labels=[PEOPLE, PEOPLE, MONTHS]).mask_diagonal(NODES)


WHOLE = tensor()
UNDIRECTED = WHOLE.undirected(NODES, asymmetric="sum")
KINDS = {
    "tied": (ac.AlloCore(4, likelihood="poisson", tied=NODES, **CHAIN), WHOLE),
    "tied-by-role": (ac.AlloCore(4, dispersion_by="receiver", h0=3.0, e0="infer", tied=NODES, **CHAIN), WHOLE),
    "tied-weighted": (ac.CP(3, modes=weights_of(OLD), tied=NODES, **CHAIN), WHOLE),
    "own": (ac.AlloCore(4, dispersion_by="sender", h0=3.0, **CHAIN), WHOLE),
    "pairs": (ac.AlloCore(4, likelihood="poisson", tied=NODES, **CHAIN), UNDIRECTED),
    "pairs-own": (ac.Tucker((2, 2, 2), likelihood="bernoulli", **CHAIN), UNDIRECTED.binarize()),
}


def known_part(Y):
    return Y.select(sender=OLD, receiver=OLD)


def fold(post, Y, **options):
    return post.fold_in(Y, NODES, **{"sweeps": 5, "progress": False, **options})


def options_of(name):
    return {"exposure": [WEIGHTS[each] for each in ADDED]} if name == "tied-weighted" else {}


@pytest.fixture(scope="module")
def fits():
    return {name: clone(model).fit(known_part(Y)).posterior_ for name, (model, Y) in KINDS.items()}


@pytest.fixture(scope="module")
def posts(fits):
    return {name: fold(fits[name], Y, **options_of(name)) for name, (_, Y) in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_new_nodes_come_after_the_known_ones_which_stay_as_they_are(name, fits, posts):
    fit, post = fits[name], posts[name]
    assert post.tensor.labels[:2] == (tuple(PEOPLE),) * 2
    assert post.record.new_rows == NewRows((0, 1), 5)
    for mode in (0, 1):
        np.testing.assert_array_equal(post.factors[mode][:, :, :5], fit.factors[mode])
        assert np.unique(post.factors[mode][:, :, 5:].max(axis=3)).size == 12
    if post.record.spec.tied is not None:
        np.testing.assert_array_equal(post.factors[0], post.factors[1])
    if fit.record.spec.dispersion_by is not None:
        np.testing.assert_array_equal(post.dispersion[:, :, :5], fit.dispersion)
        assert np.unique(post.dispersion[:, :, 5:]).size == 12


@pytest.mark.parametrize("name", KINDS)
def test_the_tensor_has_the_ties_in_which_a_node_is_new(name, posts):
    Y, found = KINDS[name][1], posts[name].tensor
    dense = Y.to_dense()
    dense[:5, :5] = 0
    np.testing.assert_array_equal(found.to_dense(), dense)
    cells = np.indices(found.shape).reshape(3, -1)
    either = (cells[:2] >= 5).any(axis=0) & (cells[0] != cells[1])
    np.testing.assert_array_equal(~found.missing.contains(cells), either)
    assert found.undirected_modes == Y.undirected_modes


@pytest.mark.parametrize("name", KINDS)
def test_the_trace_and_the_best_draw_are_of_the_new_rows(name, posts):
    record, joint = posts[name].record, np.empty((2, 3))
    for chain, draw in np.ndindex(2, 3):
        state = record.state_of(chain, draw)
        likelihood = log_likelihood(record.tensor, record.spec, state)
        assert record.stats["log_likelihood"][chain, draw] == pytest.approx(likelihood, rel=1e-6)
        prior = 0.0
        for mode in (0,) if record.spec.tied else (0, 1):
            new = state.log_phi[mode][5:][:, np.isfinite(state.log_phi[mode][0])]
            law = stats.gamma(
                record.spec.concentration(mode, state.concentrations_M),
                scale=1.0 / record.spec.factor_rates(mode, 7)[5:, None],
            )
            prior += (law.logpdf(np.exp(new)) + new).sum()
        if record.spec.dispersion_by is not None:
            p = stats.logistic.cdf(state.dispersion.log_odds_D[5:])
            prior += (stats.beta.logpdf(p, record.spec.g0, record.spec.h0) + np.log(p) + np.log1p(-p)).sum()
        joint[chain, draw] = likelihood + prior
    assert posts[name].best_draw() == tuple(np.unravel_index(joint.argmax(), joint.shape))


def test_with_one_class_the_membership_of_a_new_node_has_the_counts_of_both_roles():
    """Then no count is allocated: the row is gamma, given the rows of the known nodes."""
    model = ac.AlloCore(1, likelihood="poisson", tied=NODES, **{**CHAIN, "draws": 200, "thin": 1})
    post = model.fit(known_part(WHOLE)).posterior_
    Y = WHOLE.select(sender=PEOPLE[:6], receiver=PEOPLE[:6])
    folded = fold(post, Y, sweeps=1)
    theta, month = folded.factors[0][..., 0], folded.factors[2][..., 0]
    reach = 2.0 * folded.core_values[..., 0] * theta[..., :5].sum(axis=2) * month.sum(axis=2)
    number = Y.mode_totals("sender")[5] + Y.mode_totals("receiver")[5]
    scaled = theta[..., 5] * (10.0 + reach)
    assert stats.kstest(scaled.ravel(), stats.gamma(1.0 + number).cdf).pvalue > 1e-4


@pytest.mark.parametrize("name", KINDS)
def test_new_nodes_have_memberships_and_predictions(name, posts):
    post = posts[name]
    members = post.memberships("sender", progress=False)
    assert list(members.index) == PEOPLE
    assert (members.loc[ADDED, "expected"] > 0.0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (post.predict([("Gus", "Ada", None), ("Gus", None, None)])["expected"] > 0.0).all()
        assert set(post.surprises(top=5)["month"]) <= set(MONTHS)
        assert "new rows of sender and receiver" in post.consensus(progress=False).summary.source
        assert np.isfinite(post.check(draws=40).simulated.to_numpy(dtype=float)).all()
        assert post.to_networkx("expected", progress=False).number_of_nodes() == 7


def test_nodes_and_labels_may_come_in_any_order_and_absent_ones_are_zeros_or_missing(fits, posts):
    order = [PEOPLE[place] for place in (6, 2, 0, 5, 1, 4, 3)]
    dense = WHOLE.to_dense()
    places = [PEOPLE.index(name) for name in order]
    moved = ac.as_tensor(dense[np.ix_(places, places)], mode_names=NAMES, labels=[order, order, MONTHS])
    assert fold(fits["tied"], moved).tensor.labels[0] == (*OLD, "Gus", "Flo")
    some = WHOLE.select(sender=[*OLD[1:], "Gus"], receiver=[*OLD, "Gus"])
    zero, missing = (fold(fits["tied"], some, absent=absent).tensor for absent in ("zero", "missing"))
    cell = np.array([[0], [5], [1]])
    assert not zero.missing.contains(cell)[0]
    assert missing.missing.contains(cell)[0]
    assert zero.shape == missing.shape == (6, 6, 4)


def test_the_rows_are_the_same_on_any_number_of_threads_and_on_disk(fits, posts, tmp_path, run):
    for name in ("tied", "pairs-own"):
        assert_same(fold(ac.Posterior(fits[name].record, 3), KINDS[name][1]), posts[name])
    fold(fits["tied-by-role"], WHOLE).save(tmp_path / "new.zarr")
    opened = ac.open_run(tmp_path / "new.zarr")
    assert_same(opened, posts["tied-by-role"])
    assert opened.record.new_rows == NewRows((0, 1), 5)
    assert opened.best_draw() == posts["tied-by-role"].best_draw()
    code, told, _ = run("info", tmp_path / "new.zarr")
    assert code == 0
    assert "2 new rows of sender and receiver, folded into 3 draws" in told


def test_the_command_line_takes_two_modes(fits, posts, tmp_path, run):
    clone(KINDS["pairs"][0]).set_params(store=tmp_path / "run.zarr").fit(known_part(UNDIRECTED))
    UNDIRECTED.save(tmp_path / "y.npz")
    words = ["fold-in", tmp_path / "run.zarr", tmp_path / "y.npz", "--sweeps", 5, "--surprises", 2, "--rows", 2]
    code, told, err = run(*words, "--mode", "sender,receiver", "--out", tmp_path / "new.zarr")
    assert (code, err) == (0, "")
    assert "in new rows of sender and receiver" in told
    assert_same(ac.open_run(tmp_path / "new.zarr"), posts["pairs"])


@pytest.mark.parametrize(
    ("name", "new", "options", "argument"),
    [
        ("tied", known_part(WHOLE), {}, "Y_new"),
        ("tied", ac.CountTensor(WHOLE.coords, WHOLE.counts, WHOLE.shape, mode_names=NAMES), {}, "Y_new"),
        ("tied", ac.CountTensor([[6], [6], [0]], [1], WHOLE.shape, mode_names=NAMES, labels=WHOLE.labels), {}, "Y_new"),
        ("tied", WHOLE, {"mode": ("sender", "month")}, "mode"),
        ("tied", WHOLE, {"mode": ("sender", "sender")}, "mode"),
        ("tied", WHOLE, {"mode": ("sender", "receiver", "month")}, "mode"),
        ("tied", WHOLE, {"mode": ("sender", "whom")}, "mode"),
        ("pairs", UNDIRECTED, {"mode": "sender"}, "mode"),
        ("pairs", WHOLE, {}, "Y_new"),
        ("tied-weighted", WHOLE, {}, "exposure"),
        ("tied-weighted", WHOLE, {"exposure": [1.0] * 7}, "exposure"),
    ],
)
def test_what_cannot_be_folded_in_is_an_error(fits, name, new, options, argument):
    with refused(argument):
        fits[name].fold_in(new, **{"mode": NODES, "sweeps": 1, "progress": False, **options})

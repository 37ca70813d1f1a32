"""Fits with two tied modes, from settings to the disk and back, and everything downstream of a fit that uses them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import allocore as ac
from allocore.report.terminal import settings_line
from allocore.run.chains import start_states
from support.comparison_cases import JobsHere
from support.errors import refused
from support.same_draws import assert_same, assert_same_run

PEOPLE = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]
NAMES = ("sender", "receiver", "month")
TIED = ("sender", "receiver")
CHAIN = {"burn_in": 30, "draws": 8, "thin": 2, "chains": 2, "seed": 4, "threads": 1, "progress": False}


def tensor(people=PEOPLE, months=5, seed=1):
    """Two communities; the members of the first write to one another and to the second."""
    first = np.arange(len(people)) < len(people) // 2
    rates = np.where(first[:, None], np.where(first[None, :], 4.0, 2.0), 0.3)
    counts = np.random.default_rng(seed).poisson(rates[:, :, None], (len(people), len(people), months))
    labels = [people, people, [f"2001-{month + 1:02d}" for month in range(months)]]
    cells = np.indices(counts.shape).reshape(3, -1)
    return ac.CountTensor(cells, counts.ravel(), counts.shape, mode_names=NAMES, labels=labels)


def frozen(first):
    """A frozen factor of all people."""
    return pd.DataFrame({"old": [first, *[1.0] * (len(PEOPLE) - 1)]}, index=PEOPLE)


Y = tensor().mask_diagonal(TIED).with_missing([("Ada", "Bo", None), (None, "Cy", "2001-02")])
KINDS = {
    "poisson": ac.AlloCore(4, likelihood="poisson", tied=TIED, **CHAIN),
    "bursts": ac.AlloCore(4, dispersion_by="receiver", h0=3.0, e0="infer", tied=(0, 1), **CHAIN),
    "inferred": ac.AlloCore("infer", max_budget=6, tied=TIED, **CHAIN),
    "cp": ac.CP(3, likelihood="poisson", tied=TIED, **CHAIN),
    "tucker": ac.Tucker((2, 2, 2), likelihood="poisson", tied=TIED, **CHAIN),
}


@pytest.fixture(scope="module")
def posts():
    return {name: model.fit(Y).posterior_ for name, model in KINDS.items()}


@pytest.mark.parametrize("name", KINDS)
def test_both_roles_have_the_same_factors_in_every_draw(name, posts):
    sender, receiver, _ = posts[name].factors
    np.testing.assert_array_equal(sender, receiver)
    if posts[name].record.concentrations is not None:
        np.testing.assert_array_equal(posts[name].concentrations[..., 0], posts[name].concentrations[..., 1])


def test_classes_start_between_different_factors_except_in_cp():
    assert (
        KINDS["poisson"]._spec(Y).start_locations()[:, 0] != KINDS["poisson"]._spec(Y).start_locations()[:, 1]
    ).all()
    locations = KINDS["cp"]._spec(Y).start_locations()
    np.testing.assert_array_equal(locations, np.repeat(np.arange(3)[:, None], 3, axis=1))


def test_a_run_on_disk_goes_on_as_if_it_had_not_stopped(tmp_path, posts):
    path, short = tmp_path / "run.zarr", clone(KINDS["bursts"]).set_params(draws=3, store=tmp_path / "run.zarr")
    short.fit(Y)
    longer = ac.AlloCore.resume(path, draws=8, threads=1, progress=False)
    assert longer.tied == (0, 1)
    assert_same(longer.posterior_, posts["bursts"])
    assert_same_run(path, posts["bursts"])
    again = clone(KINDS["bursts"]).set_params(store=path, tied=("receiver", "sender"))
    assert_same(again.fit(Y, resume=True).posterior_, posts["bursts"])
    with refused("tied"):
        clone(KINDS["bursts"]).set_params(store=path, tied=None).fit(Y, resume=True)


def test_shards_and_executors_give_the_draws_of_one_process(tmp_path, posts):
    Y.save(tmp_path / "y.zarr", shards=2)
    model = clone(KINDS["bursts"])
    assert_same(model.fit(ac.load_tensor(tmp_path / "y.zarr")).posterior_, posts["bursts"])
    with ThreadPoolExecutor(2) as pool:
        assert_same(model.set_params(executor=pool, threads=1).fit(Y).posterior_, posts["bursts"])


@pytest.mark.parametrize(
    ("tied", "data"),
    [
        ("sender", Y),
        (("sender",), Y),
        (("sender", "receiver", "month"), Y),
        (("sender", "sender"), Y),
        (("sender", "whom"), Y),
        (("sender", "month"), Y),
        (TIED, tensor()),
        (TIED, Y.with_labels({"receiver": PEOPLE[::-1]})),
    ],
)
def test_modes_that_cannot_be_tied_are_refused(tied, data):
    with refused("tied", tied):
        clone(KINDS["poisson"]).set_params(tied=tied).fit(data)


@pytest.mark.parametrize(
    ("argument", "settings"),
    [
        ("core_shape", {"core_shape": (3, 4, 2)}),
        ("e0", {"e0": (0.1, 0.2, 1.0)}),
        ("exposure", {"modes": {"sender": ac.Mode(exposure=np.arange(1.0, 7.0))}}),
        ("frozen", {"modes": {"sender": ac.Mode(frozen=frozen(1.0)), "receiver": ac.Mode(frozen=frozen(2.0))}}),
        ("seeds", {"modes": {"sender": ac.Mode(seeds={"x": "Ada"}), "receiver": ac.Mode(seeds={"x": "Bo"})}}),
    ],
)
def test_what_belongs_to_the_common_factors_must_agree_in_both_roles(argument, settings):
    with refused(argument):
        clone(KINDS["poisson"]).set_params(**settings).fit(Y)


def test_equal_exposures_of_both_roles_are_those_of_the_common_rows():
    weights = ac.Mode(exposure=np.arange(1.0, 7.0))
    post = clone(KINDS["poisson"]).set_params(modes={"sender": weights, "receiver": weights}).fit(Y).posterior_
    np.testing.assert_array_equal(post.factors[0], post.factors[1])
    cells = np.array([[0], [5], [0]])
    assert post.expected(cells)[0] == pytest.approx(6.0 * post.predict(cells, per_unit=True)["expected"][0])


def test_the_diagonal_may_be_missing_in_any_way_but_it_must_be_whole():
    cells = [(name, name, month) for name in PEOPLE for month in tensor().labels[2]]
    assert tensor().with_missing(cells).missing.has_diagonal(0, 1)
    assert not tensor().with_missing(cells[1:]).missing.has_diagonal(0, 1)
    by_month = [(None, None, month) for month in tensor().labels[2][1:]]
    mixed = tensor().with_missing([*cells[::5], *by_month])
    assert mixed.missing.has_diagonal(0, 1)
    assert clone(KINDS["poisson"]).fit(mixed).posterior_.finished


def test_a_new_actor_gets_a_row_from_the_counts_in_its_role(posts):
    """With one class no count is allocated: the new row is gamma, given the receivers, months and the core value."""
    model = ac.AlloCore(1, likelihood="poisson", tied=TIED, **{**CHAIN, "draws": 200, "thin": 1})
    post = model.fit(Y).posterior_
    new = ac.CountTensor([[0, 0], [1, 3], [0, 2]], [5, 2], (1, 6, 5), mode_names=NAMES, labels=[["Gus"], *Y.labels[1:]])
    folded = post.fold_in(new, "sender", sweeps=1, progress=False)
    sender, receiver, month = (factor[..., 0] for factor in folded.factors)
    reach = folded.core_values[..., 0] * receiver.sum(axis=2) * month.sum(axis=2)
    scaled = sender[..., 0] * (10.0 + reach)
    assert stats.kstest(scaled.ravel(), stats.gamma(1.0 + 7).cdf).pvalue > 1e-4
    assert folded.best_draw() is not None
    later = tensor(months=6, seed=2).select(month="2001-06").mask_diagonal(TIED)
    assert posts["poisson"].fold_in(later, "month", sweeps=2, progress=False).factors[2].shape[2] == 1


def test_a_refit_starts_at_the_last_draws_with_the_same_factors_in_both_roles(posts):
    people = [*PEOPLE[1:], "Gus"]
    other = tensor(people, seed=2).mask_diagonal(TIED)
    model = clone(KINDS["poisson"])
    for state in start_states(posts["poisson"].record, other, model._spec(other), 2):
        np.testing.assert_array_equal(state.log_phi[0], state.log_phi[1])
    refit = model.fit(other, start=posts["poisson"]).posterior_
    np.testing.assert_array_equal(refit.factors[0], refit.factors[1])
    with refused("start"):
        model.set_params(tied=None).fit(other, start=posts["poisson"])


def test_summaries_predictions_and_checks_work_as_for_any_fit(posts):
    post = posts["bursts"]
    assert "sender and receiver tied" in settings_line(post.record)
    assert len(post.consensus(progress=False).classes()) > 0
    assert np.isfinite(post.check(draws=40).simulated.to_numpy(dtype=float)).all()
    assert np.isfinite(post.predict([{"sender": "Ada", "month": "2001-01"}])["expected"]).all()
    assert post.forecast(2).periods == ("2001-06", "2001-07")
    chain, draw = post.best_draw()
    assert chain < 2
    assert draw < 8


def test_a_comparison_fits_tied_models(monkeypatch):
    monkeypatch.setattr("allocore.comparison.compare.JobProcesses", JobsHere)
    models = {
        name: ac.AlloCore(likelihood="poisson", tied=tied, **CHAIN) for name, tied in (("tied", TIED), ("own", None))
    }
    found = ac.compare(Y, models, [3], splits=1, progress=False)
    assert sorted(found.table["model"]) == ["own", "tied"]

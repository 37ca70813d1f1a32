"""Fits with seeded and frozen factors, from settings to the disk and back, and what follows a fit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import allocore as ac
from allocore.classes.consensus import _known as known_factors
from allocore.model.known import KnownFactors
from allocore.model.spec import Spec
from support.errors import refused
from support.findings import warned

SHORT = {"burn_in": 8, "draws": 4, "thin": 1, "chains": 2, "seed": 1, "threads": 1, "progress": False}
SEEDS = {"talks": ["meet", "consult"], "violence": ["fight"]}
ACTIONS = ("meet", "consult", "aid", "fight", "protest")
FROZEN = pd.DataFrame({"talk": [6, 3, 1, 1, 1], "war": [1, 1, 1, 8, 3]}, index=ACTIONS)


def data(seed=0, actions=ACTIONS):
    rng = np.random.default_rng(seed)
    profiles = np.array([[5, 4, 1, 0.1, 0.1], [0.1, 0.1, 0.2, 6, 2]])[:, : len(actions)]
    counts = rng.poisson(np.einsum("ij,jk->ik", rng.gamma(0.5, 2.0, (8, 2)), profiles)[:, :, None] * [1.0, 1.5, 0.5])
    months = ["2024-01", "2024-02", "2024-03"]
    actors = [f"actor {number}" for number in range(8)]
    tensor = ac.as_tensor(counts)
    return ac.CountTensor(
        tensor.coords, tensor.counts, counts.shape,
        mode_names=["actor", "action", "month"], labels=[actors, actions, months],
    )  # fmt: skip


Y = data()


def fit(modes, model=ac.AlloCore, size=4, Y=Y, **settings):
    return model(size, modes=modes, **{**SHORT, **settings}).fit(Y).posterior_


@pytest.fixture(scope="module")
def seeded():
    return fit({"action": ac.Mode(seeds=SEEDS)})


@pytest.fixture(scope="module")
def frozen(tmp_path_factory):
    """A run on disk with frozen factors, a seed and a factor that is learned."""
    path = tmp_path_factory.mktemp("frozen") / "run"
    modes = {"action": ac.Mode(frozen=FROZEN, seeds={"help": "aid"}, free=1)}
    return fit(modes, store=path), path, modes


def test_seeds_are_the_first_factors_and_expect_their_labels(seeded):
    known = seeded.record.spec.known_in(1)
    assert (known.names, known.seeds) == (("talks", "violence"), ((0, 1), (3,)))
    assert seeded.record.spec.core_shape == (4, 4, 4)


def test_seeded_factors_keep_their_names_in_draws_and_in_the_consensus(seeded):
    consensus = seeded.consensus(progress=False)
    named = consensus.to_frame("factors").query("mode == 'action'")["name"]
    assert set(named) == set(consensus.factor_table("action").columns)
    communities = seeded.memberships("action", "communities", progress=False)["name"]
    assert set(communities) & {"talks", "violence"} == set(named) & {"talks", "violence"}
    for summary in (consensus.summary, seeded.class_summary(-1)):
        named = {profile.known for profile in summary.profiles[1]}
        assert named & {"talks", "violence"}
        for name, profile in zip(summary.names, summary.profiles[1], strict=True):
            assert profile.known in name
            assert profile.words(2).startswith(f"{profile.known}: " if profile.known else "")
    assert set(consensus.factor_table("action").columns) & {"talks", "violence"}


def test_the_page_and_the_heat_map_name_seeded_factors(seeded, tmp_path):
    names = set(seeded.consensus(progress=False).factor_table("action").columns) & {"talks", "violence"}
    page = ac.write_report(seeded, tmp_path / "page.html", surprises=0, horizon=0).read_text(encoding="utf-8")
    caption = ac.figures.factors(seeded, "action").caption
    for name in names:
        assert f'"name":"{name}"' in page
        assert f" {name}" in caption


def test_frozen_factors_are_the_same_in_all_draws(frozen):
    post, _, _ = frozen
    known = post.record.spec.known_in(1)
    assert (known.names, post.record.spec.core_shape[1]) == (("talk", "war", "help"), 4)
    for column, name in enumerate(("talk", "war")):
        draws = np.asarray(post.factors[1])[:, :, :, column]
        np.testing.assert_array_equal(draws, np.broadcast_to(draws[0, 0], draws.shape))
        np.testing.assert_allclose(draws[0, 0] / draws[0, 0].sum(), FROZEN[name] / FROZEN[name].sum())


def test_a_run_on_disk_has_its_known_factors_and_goes_on_with_them(frozen, tmp_path):
    post, path, modes = frozen
    opened = ac.open_run(path)
    assert opened.record.spec == post.record.spec
    longer = ac.AlloCore.resume(path, draws=6, progress=False)
    whole = fit(modes, draws=6, store=tmp_path / "whole")
    np.testing.assert_array_equal(longer.posterior_.core_values, whole.core_values)
    table = longer.get_params()["modes"]["action"]
    assert list(table.frozen.columns) == ["talk", "war"]
    assert table.seeds == {"help": ["aid"]}


def test_chains_on_an_executor_have_the_same_known_factors_and_draws(frozen):
    post, _, modes = frozen
    with ThreadPoolExecutor(2) as workers:
        there = fit(modes, executor=workers)
    assert there.record.spec == post.record.spec
    np.testing.assert_array_equal(there.core_values, post.core_values)


def test_a_tensor_in_shards_is_fitted_with_the_same_known_factors_and_draws(frozen, tmp_path):
    post, _, modes = frozen
    Y.save(tmp_path / "y.zarr", shards=3)
    there = fit(modes, Y=ac.load_tensor(tmp_path / "y.zarr"))
    assert there.record.spec == post.record.spec
    np.testing.assert_array_equal(there.core_values, post.core_values)


def test_a_comparison_fits_known_factors_and_goes_on_with_them(tmp_path, frozen, monkeypatch):
    monkeypatch.setattr("allocore.comparison.compare.write", lambda *_: None)
    short = {"burn_in": 4, "draws": 2, "thin": 1, "chains": 1, "likelihood": "poisson"}
    model = ac.AlloCore(4, modes=frozen[2], **short)
    how = {"splits": 1, "hold_out": 0.1, "along": "month", "out": tmp_path}
    with ThreadPoolExecutor(1) as here:
        found, again = (ac.compare(Y, {"known": model}, executor=here, **how) for _ in range(2))
    pd.testing.assert_frame_equal(again.table, found.table)
    (row,) = found.table.to_dict("records")
    split = ac.hold_out(Y, 0.1, along="month", seed=0)
    post = clone(model).set_params(seed=0, threads=1, progress=False).fit(split).posterior_
    assert row["log_ppd"] == pytest.approx(post.evaluate().table.loc["model", "log_ppd"])
    assert row["core_shape"] == "4x4x4"
    with refused("models"):
        ac.compare(Y, {"known": clone(model).set_params(modes={"action": ac.Mode(seeds={"help": "aid"})})}, **how)
    with refused("seeds"):
        ac.compare(Y, {"known": ac.AlloCore(1, modes={"action": ac.Mode(seeds=SEEDS)})}, **how)


def test_a_repeated_fit_with_other_seeds_is_refused(tmp_path):
    fit({"action": ac.Mode(seeds=SEEDS)}, store=tmp_path / "run")
    model = ac.AlloCore(4, modes={"action": ac.Mode(seeds={"talks": "aid"})}, store=tmp_path / "run", **SHORT)
    with refused("modes"):
        model.fit(Y, resume=True)


def test_frozen_values_that_have_changed_on_disk_are_damage(tmp_path):
    fit({"action": ac.Mode(frozen=FROZEN)}, store=tmp_path / "run")
    chunk = next(path for path in (tmp_path / "run/constant_data/frozen_1").iterdir() if path.name[0] != ".")
    chunk.write_bytes(bytes(len(chunk.read_bytes())))
    with pytest.raises(ac.StoreError):
        ac.open_run(tmp_path / "run")


@pytest.mark.parametrize("source", ["posterior", "consensus", "table"])
def test_the_factors_of_an_earlier_fit_are_frozen(seeded, source):
    consensus = seeded.consensus(progress=False)
    given = {"posterior": seeded, "consensus": consensus, "table": consensus.factor_table("action")}[source]
    post = fit({"action": ac.Mode(frozen=given, free=1)}, draws=2, chains=1)
    table = consensus.factor_table("action")
    assert post.record.spec.known_in(1).names == tuple(table.columns)
    np.testing.assert_allclose(np.array(post.record.spec.known_in(1).frozen).T, table)


def test_rows_of_frozen_factors_are_matched_by_label():
    shuffled = FROZEN.iloc[[3, 1, 0, 4, 2]]
    ours, theirs = (fit({"action": ac.Mode(frozen=each)}, draws=1, chains=1) for each in (FROZEN, shuffled))
    np.testing.assert_array_equal(ours.core_values, theirs.core_values)


@pytest.mark.parametrize(("model", "size"), [(ac.CP, 4), (ac.Tucker, (2, 3, 1))])
def test_cp_and_tucker_have_known_factors_at_their_fixed_locations(model, size):
    post = fit({"action": ac.Mode(frozen=FROZEN, seeds={"help": "aid"})}, model, size)
    draws = np.asarray(post.factors[1])
    assert (draws[..., 0].std(axis=(0, 1)) == 0).all()
    assert (draws[..., 2].std(axis=(0, 1)) > 0).any()


def test_tied_modes_have_the_same_known_factors():
    rng, names = np.random.default_rng(0), ["a", "b", "c", "d", "e"]
    Y = ac.as_tensor(rng.poisson(2.0, (5, 5, 2))).mask_diagonal()
    Y = ac.CountTensor(Y.coords, Y.counts, Y.shape, labels=[names, names, ["x", "y"]], missing=Y.missing)
    modes = {0: ac.Mode(seeds={"west": ["a", "b"]}, free=2)}
    post = fit(modes, Y=Y, tied=(0, 1))
    assert post.record.spec.core_shape == (3, 3, 4)
    assert post.record.spec.known_in(1).names == ("west",)


def test_new_rows_and_coming_periods_know_nothing_of_seeds(seeded):
    folded = seeded.fold_in(data(3), mode="action", sweeps=5, seed=1, progress=False)
    assert not folded.record.spec.known_in(1)
    forecast = fit({"month": ac.Mode(seeds={"spring": "2024-03"})}, draws=2, chains=1).forecast(2, seed=1)
    assert len(forecast.periods) == 2


BAD = {
    "a label that does not exist": ({"seeds": {"x": ["fihgt"]}}, "seeds"),
    "no labels": ({"seeds": {"x": []}}, "seeds"),
    "no dict": ({"seeds": ["fight"]}, "seeds"),
    "more seeds than factors": ({"factors": 1, "seeds": SEEDS}, "seeds"),
    "a weight below zero": ({"seeds": SEEDS, "seed_weight": -1.0}, "seed_weight"),
    "free and factors": ({"seeds": SEEDS, "free": 1, "factors": 3}, "free"),
    "more frozen than factors": ({"frozen": FROZEN, "factors": 1}, "frozen"),
    "other labels": ({"frozen": FROZEN.rename(index=str.upper).rename(index={"AID": "zzz"})}, "frozen"),
    "a zero": ({"frozen": FROZEN.replace(8, 0)}, "frozen"),
    "a label twice": ({"frozen": pd.concat([FROZEN, FROZEN.iloc[:1]])}, "frozen"),
    "texts": ({"frozen": FROZEN.astype(str) + "x"}, "frozen"),
    "no table": ({"frozen": 3}, "frozen"),
    "no columns": ({"frozen": FROZEN[[]]}, "frozen"),
    "one name twice": ({"frozen": FROZEN, "seeds": {"war": "fight"}}, "seeds"),
    "one name of two columns": ({"frozen": FROZEN.set_axis(["war", "war"], axis=1)}, "frozen"),
    "no name": ({"seeds": {"": "fight"}}, "seeds"),
    "no rows": ({"frozen": FROZEN.iloc[:0]}, "frozen"),
    "labels in a column": ({"frozen": FROZEN.reset_index()}, "frozen"),
    "a weight without seeds": ({"seed_weight": 5.0}, "seed_weight"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    given, argument = BAD[name]
    with refused(argument):
        fit({"action": ac.Mode(**given)})


def test_a_frozen_fit_without_the_mode_is_refused(seeded):
    other = ac.CountTensor(Y.coords, Y.counts, Y.shape, mode_names=["actor", "deed", "month"])
    with refused("frozen"):
        fit({"deed": ac.Mode(frozen=seeded)}, Y=other)


def test_everything_frozen_is_refused():
    ones = {name: ac.Mode(frozen=pd.DataFrame({"all": 1.0}, index=labels), free=0)
            for name, labels in zip(Y.mode_names, Y.labels, strict=True)}  # fmt: skip
    with refused("frozen"):
        fit(ones)


def test_a_label_in_two_seeds_is_allowed_and_said():
    with warned("labels-in-several-seeds", mode="action", labels=["fight"]):
        post = fit({"action": ac.Mode(seeds={"war": "fight", "unrest": ["fight", "protest"]})}, draws=1, chains=1)
    assert post.record.spec.known_in(1).seeds == ((3,), (3, 4))


def test_the_labels_of_a_seed_that_does_not_exist_come_with_near_ones():
    with refused("seeds") as error:
        fit({"action": ac.Mode(seeds={"x": ["fihgt"]})})
    assert "'fight'" in error.value.rule


@pytest.mark.parametrize("free", [0, 2])
def test_a_refit_starts_from_an_earlier_run_with_its_factors_frozen(seeded, free):
    modes = {"action": ac.Mode(frozen=seeded, free=free)}
    model = ac.AlloCore(4, modes=modes, burn_in=1, draws=1, thin=1, seed=1, threads=1, progress=False)
    post = model.fit(data(1), start=seeded).posterior_
    known = post.record.spec.known_in(1)
    assert post.record.spec.core_shape[1] == len(known) + free
    for column, share_D in enumerate(known.frozen):
        phi_D = np.asarray(post.factors[1])[0, 0, :, column]
        np.testing.assert_allclose(phi_D / phi_D.sum(), share_D)


def test_a_refit_with_other_seeds_than_the_run_where_it_starts_is_refused(seeded):
    model = ac.AlloCore(4, modes={"action": ac.Mode(seeds={"x": "aid"})}, **SHORT)
    with refused("start"):
        model.fit(Y, start=seeded)


def test_the_first_state_of_a_refit_expects_the_same_counts_where_factors_are_frozen(frozen):
    from allocore.model.joint import class_totals
    from allocore.run.chains import start_states

    post, _, _ = frozen
    spec = replace(post.record.spec, core_shape=(4, 5, 4))
    (state,) = start_states(post.record, post.tensor, spec, 1)
    before = post.record.state_of(0, -1)
    np.testing.assert_allclose(class_totals(state, Y.missing), class_totals(before, Y.missing), rtol=0.2)
    assert (state.log_phi[1][:, :2] == spec.log_frozen(1)).all()


def test_known_factors_that_no_class_uses_are_said():
    counts = np.zeros((4, 3, 2), dtype=int)
    counts[:, 0] = 50
    Y = ac.CountTensor(np.array(np.nonzero(counts)), counts[counts > 0], counts.shape, labels=[None, list("abc"), None])
    post = fit({1: ac.Mode(seeds={"none": "c"}, seed_weight=1000.0)}, Y=Y, size=2, burn_in=30)
    for summary in (post.consensus(progress=False), post.class_summary("best")):
        found = {finding.kind: finding.values for finding in summary.findings}
        assert found["unused-factors"]["names"] == ["none"]


def test_factors_with_shares_that_underflow_can_be_frozen():
    small = fit({"action": ac.Mode(e0=0.001)}, draws=1, chains=1)
    assert (small.consensus(progress=False).factor_table("action") == 0.0).any(axis=None)
    known = fit({"action": ac.Mode(frozen=small)}, draws=1, chains=1).record.spec.known_in(1)
    assert all(min(column) > 0.0 for column in known.frozen)


def test_classes_with_different_factors_do_not_have_the_same_known_factor():
    """If half of the chains have the seed in one class, and half in another, no class has its name."""
    spec = Spec(2, (2, 2), known=(KnownFactors(seeds=((0,),), names=("seed",)), KnownFactors()))
    location_NCM = np.array([[[0, 0], [1, 1]], [[1, 0], [0, 1]], [[0, 0], [1, 1]], [[1, 0], [0, 1]]], dtype=np.int32)
    assert known_factors(location_NCM, spec).tolist() == [[-1, -1], [-1, -1]]
    assert known_factors(location_NCM[:3], spec).tolist() == [[0, -1], [-1, -1]]

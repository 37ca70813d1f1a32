"""`fit(resume=True)` and `allocore fit --resume-or-start`: the same call again starts, continues, or does nothing."""

import shutil

import numpy as np
import pytest

import allocore as ac
from allocore.storage.run_reader import stored_sizes
from support.command_line import as_words, assert_refused

Y = ac.as_tensor(np.random.default_rng(5).poisson(1.5, (4, 3, 2)), mode_names=["who", "what", "when"])
SETTINGS = {"burn_in": 4, "draws": 4, "thin": 1, "chains": 2, "threads": 1, "seed": 3, "progress": False}
ONE_CHAIN = {**SETTINGS, "chains": 1}
WORDS = ["--budget", 2, "--burn-in", 4, "--draws", 4, "--thin", 1, "--chains", 2, "--threads", 1]


class Killed(BaseException):
    """Ends a run without warning."""


def kill_after(monkeypatch, sweeps):
    """End the next run after some sweeps of its first chain."""
    from allocore.run.chains import Chain

    whole = Chain.advance

    def advance(chain):
        if chain._number == 0 and chain._sweep == sweeps:
            raise Killed
        whole(chain)

    monkeypatch.setattr(Chain, "advance", advance)
    return lambda: monkeypatch.setattr(Chain, "advance", whole)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The path of a complete run."""
    path = tmp_path_factory.mktemp("runs") / "whole.zarr"
    ac.AlloCore(2, store=path, **SETTINGS).fit(Y, resume=True)
    return path


def test_it_starts_a_run_that_is_not_there(whole):
    plain = ac.AlloCore(2, **SETTINGS).fit(Y).posterior_
    assert np.array_equal(ac.open_run(whole).core_values, plain.core_values)


def test_it_continues_a_run_that_was_killed_to_the_same_draws(tmp_path, monkeypatch, whole):
    path = tmp_path / "run.zarr"
    revive = kill_after(monkeypatch, 6)
    with pytest.raises(Killed):
        ac.AlloCore(2, store=path, **SETTINGS).fit(Y, resume=True)
    assert stored_sizes(path)["sweep"] < 8
    revive()
    model = ac.AlloCore(2, store=path, **SETTINGS).fit(Y, resume=True)
    assert model.posterior_.finished
    assert np.array_equal(model.posterior_.core_values, ac.open_run(whole).core_values)


def test_it_draws_nothing_if_the_run_is_complete(whole, monkeypatch):
    kill_after(monkeypatch, 0)
    before = ac.open_run(whole).stats["seconds"]
    again = ac.AlloCore(2, store=whole, **{**SETTINGS, "seed": None}).fit(Y, resume=True).posterior_
    assert np.array_equal(again.stats["seconds"], before)
    assert again.seed == 3, "without a seed, that of the run"


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"seed": 4}, "seed"),
        ({"draws": 5}, "draws"),
        ({"chains": 3}, "chains"),
        ({"chains": "auto"}, "chains"),
        ({"burn_in": None, "draws": None, "thin": None, "sweeps": "auto"}, "burn_in"),
        ({"a0": 2.0}, "a0"),
        ({"likelihood": "poisson"}, "likelihood"),
        ({"budget": 3}, "budget"),
        ({"budget": "infer", "max_budget": 2}, "budget"),
        ({"core_shape": (1, 1, 1)}, "core_shape"),
    ],
    ids=str,
)
def test_a_run_of_other_settings_is_refused_by_name(whole, changed, argument):
    with pytest.raises(ac.InputError) as found:
        ac.AlloCore(**{"budget": 2, "store": whole, **SETTINGS, **changed}).fit(Y, resume=True)
    assert found.value.argument == argument


def test_a_run_of_another_model_is_refused(whole):
    with pytest.raises(ac.InputError) as found:
        ac.CP(2, store=whole, **SETTINGS).fit(Y, resume=True)
    assert (found.value.argument, found.value.value) == ("model", "CP")


def test_a_run_of_other_data_or_of_another_split_is_refused(whole):
    for other in (Y.select(who=[0, 1, 2]), Y.with_labels({"who": list("abcd")}), ac.hold_out(Y, 0.3, seed=1)):
        with pytest.raises(ac.InputError) as found:
            ac.AlloCore(2, store=whole, **SETTINGS).fit(other, resume=True)
        assert found.value.argument == "Y"


def test_a_run_that_began_elsewhere_is_refused(whole, tmp_path):
    start, path = ac.open_run(whole), tmp_path / "run.zarr"
    ac.AlloCore(2, store=path, **SETTINGS).fit(Y, start=start, resume=True)
    assert ac.AlloCore(2, store=path, **SETTINGS).fit(Y, start=start, resume=True).posterior_.finished
    for other in (None, start.select_chains([1, 0])):
        with pytest.raises(ac.InputError) as found:
            ac.AlloCore(2, store=path, **SETTINGS).fit(Y, start=other, resume=True)
        assert found.value.argument == "start"


def test_a_run_with_exposures_is_continued_and_one_with_other_weights_is_refused(tmp_path):
    path = tmp_path / "run.zarr"
    models = [ac.AlloCore(2, store=path, modes={"when": ac.Mode(exposure=w)}, **ONE_CHAIN) for w in ([1, 2], [1, 3])]
    models[0].fit(Y, resume=True)
    assert models[0].fit(Y, resume=True).posterior_.finished
    for other in (models[1], ac.AlloCore(2, store=path, **ONE_CHAIN)):
        with pytest.raises(ac.InputError) as found:
            other.fit(Y, resume=True)
        assert found.value.argument == "exposure"


def test_a_quick_look_is_continued_to_the_whole_fit(tmp_path):
    path = tmp_path / "run.zarr"
    ac.AlloCore(2, store=path, quick=True, **ONE_CHAIN).fit(Y)
    model = ac.AlloCore(2, store=path, **ONE_CHAIN).fit(Y, resume=True)
    assert (model.posterior_.preliminary, model.posterior_.core_values.shape[1]) == (False, 4)


@pytest.mark.parametrize("settings", [{"store": None}, {"quick": True, "store": "run.zarr"}], ids=str)
def test_it_needs_a_store_and_a_whole_fit(settings):
    with pytest.raises(ac.InputError) as found:
        ac.AlloCore(2, **SETTINGS, **settings).fit(Y, resume=True)
    assert found.value.argument == "resume"


def test_the_command_can_be_repeated(run, data, tmp_path):
    words = ["fit", data, *WORDS, "--hold-out", 0.2, "--out", tmp_path / "run.zarr", "--resume-or-start"]
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert "Run written to" in as_words(out)
    code, out, err = run(*words)  # without a seed, that of the run holds
    assert (code, err) == (0, "")
    assert "already complete (2 chains, 4 draws each)" in as_words(out)
    assert_refused(run(*words, "--budget", 3), "--budget", "3", "must be 2, as in the run in --out")
    words.remove("--resume-or-start")
    assert_refused(run(*words), "--out", repr(str(tmp_path / "run.zarr")))


def test_the_command_refuses_what_it_cannot_continue(run, data, whole, tmp_path):
    option = "--resume-or-start"
    assert_refused(run("fit", data, *WORDS, option), option, "True", "--out")
    path = tmp_path / "run.zarr"
    assert_refused(run("fit", data, *WORDS, option, "--quick", "--out", path), option, "True", "--quick")
    nntuck = ["--model", "nntuck", "--core-shape", "2x2x2"]
    assert_refused(run("fit", data, *nntuck, option, "--out", path), option, "True", "nntuck")
    copy = shutil.copytree(whole, path)
    Y.select(who=[0, 1, 2]).save(tmp_path / "other.npz")
    code, _, err = run("fit", tmp_path / "other.npz", *WORDS, option, "--out", copy)
    assert (code, err.startswith("allocore: error: DATA is ")) == (2, True)


def test_a_path_that_is_no_run_is_refused(run, data, tmp_path):
    (tmp_path / "run.zarr").mkdir()
    code, _, err = run("fit", data, *WORDS, "--out", tmp_path / "run.zarr", "--resume-or-start")
    assert (code, err.count("\n")) == (2, 1)

"""Runs with a dispersion and with concentrations, stored: stopped, killed, made longer and damaged, the bytes stay."""

import shutil

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.storage import zarr_format
from allocore.storage.state_files import read_checkpoint, write_checkpoint
from support.errors import refused_file
from support.findings import warned
from support.same_draws import arrays_of, assert_same, kill_and_resume, save_always
from support.tiers import by_tier

COUNTS = np.random.default_rng(5).negative_binomial(0.7, 0.3, (6, 5, 4))
TENSOR = ac.as_tensor(COUNTS).with_missing([(0, None, 1), (2, 2, None)])
SETTINGS = {"burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 11, "progress": False}
BURSTS = {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer", "f0": 1.0, "g0": 2.0, "s0": 3.0}
MODELS = {
    "bursts": (ac.AlloCore(3, (3, 2, 3), alpha0=3.0, **BURSTS), TENSOR),
    "one-p": (ac.AlloCore(5, likelihood="negative-binomial", h0=2.0), TENSOR),
    "budget": (ac.AlloCore("infer", max_budget=8, **BURSTS), TENSOR),
    "binary": (ac.AlloCore(4, likelihood="bernoulli", e0=(0.3, 1.0, 2.0)), TENSOR.binarize()),
    "cp": (ac.CP(3, **BURSTS), TENSOR),
    "tucker": (ac.Tucker((2, 1, 2), likelihood="bernoulli", e0="infer", t0=2.0), TENSOR.binarize()),
}


def fitted(name, **settings):
    model, data = MODELS[name]
    return type(model)(**{**model.get_params(), **SETTINGS, **settings}).fit(data)


@pytest.mark.parametrize(("name", "number"), by_tier([("bursts", 15), ("binary", 7)], MODELS, [1, 7, 15, 21]))
def test_a_run_that_is_stopped_goes_on_to_the_bytes_of_one_that_is_not(tmp_path, stop_at, name, number):
    path, whole = tmp_path / "run.zarr", fitted(name).posterior_
    stop_at(number)
    if number < 10:
        with pytest.raises(KeyboardInterrupt, match="continue with"):
            fitted(name, store=path, threads=1)
    else:
        with warned("stopped", planned_draws=4):
            fitted(name, store=path, threads=1)
    resumed = type(MODELS[name][0]).resume(path, threads=3, progress=False)
    assert_same(resumed.posterior_, whole)
    assert_same(ac.open_run(path), whole)


@pytest.mark.parametrize(
    "name", ["bursts", *(pytest.param(n, marks=pytest.mark.slow) for n in MODELS if n != "bursts")]
)
def test_a_finished_run_can_be_made_longer_to_the_bytes_of_a_long_one(tmp_path, name):
    path, kind = tmp_path / "run.zarr", type(MODELS[name][0])
    first = fitted(name, store=path).get_params()
    for draws in (5, 9):
        longer = kind.resume(path, draws=draws, progress=False)
        assert longer.posterior_.core_values.shape[1] == draws
    assert_same(longer.posterior_, fitted(name, draws=9).posterior_)
    again = longer.get_params()
    for setting in ("likelihood", "dispersion_by", "e0", "g0", "h0", "s0", "t0", "f0"):
        assert again[setting] == first[setting]


# Only the steps of writing depend on the likelihood. Random moments and signals: test_resume.py.
@pytest.mark.slow
def test_a_run_that_is_killed_often_goes_on_to_the_bytes_of_one_that_is_not(tmp_path):
    kill_and_resume(tmp_path, "steps", 12, "bursts")


@pytest.mark.parametrize(("name", "threads"), by_tier([("bursts", 2), ("binary", 3)], MODELS, [1, 2, 3, 7]))
def test_a_chain_does_not_depend_on_how_many_others_run_beside_it(name, threads):
    alone, together = fitted(name, chains=1).posterior_, fitted(name, chains=3, threads=threads).posterior_
    for mine, theirs in zip(arrays_of(alone), arrays_of(together), strict=True):
        assert mine.tobytes() == np.ascontiguousarray(theirs[:1]).tobytes()
    for array in together.record.draw_arrays:
        if array.dtype.kind == "f":
            assert len(np.unique(array[:, 0].reshape(3, -1), axis=0)) == 3


# Damage


@pytest.fixture(scope="module")
def draw_a_chunk(tmp_path_factory):
    """The path of a run with one draw a chunk and a checkpoint after every sweep, to copy; and its posterior."""
    path = tmp_path_factory.mktemp("small-chunks") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        save_always(patch)
        patch.setattr(zarr_format, "_CHUNK_BYTES", 1)
        return path, fitted("bursts", store=path).posterior_


@pytest.fixture
def stored(draw_a_chunk, tmp_path, monkeypatch):
    """The path of a copy of that run, which a test may damage, and its posterior."""
    save_always(monkeypatch)
    monkeypatch.setattr(zarr_format, "_CHUNK_BYTES", 1)
    path, post = draw_a_chunk
    return shutil.copytree(path, tmp_path / "run.zarr"), post


@pytest.mark.parametrize("name", ["concentrations", "dispersion_log_odds"])
def test_a_damaged_draw_is_named_and_all_others_can_be_read(stored, name):
    path, whole = stored
    (file,) = (path / "posterior" / name).glob("1.2.*")
    file.write_bytes(file.read_bytes()[:-3])
    with refused_file(path, f"draw 2 cannot be read from posterior/{name}/1.2"):
        ac.open_run(path)
    with warned("draws-left-out", left_out=1, draws=4):
        post = ac.open_run(path, on_error="drop")
    for mine, theirs in zip(post.record.draw_arrays, whole.record.draw_arrays, strict=True):
        assert mine.tobytes() == theirs[:, [0, 1, 3]].tobytes()
    with xr.open_datatree(path, engine="zarr") as tree:
        np.testing.assert_array_equal(tree["posterior"][name].sel(draw=3), whole.record.draw_arrays[
            {"concentrations": -2, "dispersion_log_odds": -1}[name]][:, 3])  # fmt: skip


def test_damaged_checkpoints_lead_to_the_same_draws(stored):
    path, _ = stored
    newest = sorted((path / "checkpoints" / "1").glob("*.npz"))[-1]
    newest.write_bytes(newest.read_bytes()[:-30])
    for file in (path / "checkpoints" / "0").iterdir():
        file.write_bytes(bytes(100))
    with (
        warned("checkpoint-damaged"),
        warned("chain-starts-again"),
    ):
        model = ac.AlloCore.resume(path, draws=7, progress=False)
    assert_same(model.posterior_, fitted("bursts", draws=7).posterior_)


@pytest.mark.parametrize(
    ("concentrations_M", "log_odds_D"),
    [(np.ones(1), np.zeros(5)), (np.ones(2), np.zeros(1)), (np.ones(2), np.zeros(4))],
)
def test_a_checkpoint_of_another_size_is_not_taken(tmp_path, concentrations_M, log_odds_D):
    spec = Spec(2, (2, 2), likelihood="negative-binomial", dispersion_by=1, e0="infer")
    log_phi = (np.zeros((4, 2)), np.zeros((5, 2)))
    state = State(np.zeros(2), spec.start_locations(), log_phi, concentrations_M, Dispersion(log_odds_D, 1))
    write_checkpoint(tmp_path, 7, state)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path, (4, 5), spec)

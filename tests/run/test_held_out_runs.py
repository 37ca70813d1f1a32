"""The cells that were held out stay with a run: stored, stopped, resumed, saved, damaged."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.storage.record import Plan, Schedule
from support.errors import refused, refused_file
from support.findings import warned

Y = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)), mode_names=["who", "what", "when"])
SPLIT = ac.hold_out(Y, 0.2, along="what", seed=1)
SETTINGS = {"burn_in": 2, "draws": 6, "thin": 2, "chains": 2, "seed": 11, "progress": False}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.zarr"
    ac.CP(3, store=path, **SETTINGS).fit(SPLIT)
    return path


@pytest.fixture
def run_folder(finished_run, tmp_path):
    shutil.copytree(finished_run, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.fixture(scope="module")
def core_values():
    """Those of the same fit of the other cells, in memory."""
    return ac.CP(3, **SETTINGS).fit(SPLIT.train).posterior_.core_values


def assert_held_out(post):
    test = post.held_out
    assert test == SPLIT.test
    assert (test.along, test.shape, test.mode_names) == (1, Y.shape, Y.mode_names)
    assert test.labels == Y.labels
    assert not test.coords.flags.writeable


def test_a_stored_run_has_them_and_so_has_one_that_is_saved_or_made_longer(run_folder, core_values, tmp_path):
    post = ac.open_run(run_folder)
    assert_held_out(post)
    np.testing.assert_array_equal(post.core_values, core_values)
    assert_held_out(ac.CP.resume(run_folder, draws=8, progress=False).posterior_)
    ac.open_run(run_folder).save(tmp_path / "copy.zarr")
    assert_held_out(ac.open_run(tmp_path / "copy.zarr"))
    in_memory = ac.CP(3, **SETTINGS).fit(SPLIT).posterior_
    in_memory.save(tmp_path / "saved.zarr")
    assert_held_out(ac.open_run(tmp_path / "saved.zarr"))


def test_a_run_that_is_stopped_keeps_them(tmp_path, stop_at):
    path = tmp_path / "run.zarr"
    stop_at(9)
    with warned("stopped"):
        ac.CP(3, store=path, **SETTINGS, threads=1).fit(SPLIT)
    assert_held_out(ac.open_run(path))
    assert_held_out(ac.CP.resume(path, progress=False).posterior_)


def test_xarray_reads_them_as_a_group(run_folder):
    with xr.open_datatree(run_folder, engine="zarr") as tree:
        group = tree["held_out"]
        np.testing.assert_array_equal(group["coords"], SPLIT.test.coords)
        np.testing.assert_array_equal(group["counts"], SPLIT.test.counts)
        assert int(group["along"]) == 1
        assert group["coords"].dims == ("mode", "cell")
    tree = ac.open_run(run_folder).to_datatree()
    np.testing.assert_array_equal(tree["held_out"]["counts"], SPLIT.test.counts)


def test_cells_that_are_no_fibres_are_kept_too(tmp_path):
    test = ac.HeldOut(SPLIT.test.coords[:, ::3], SPLIT.test.counts[::3])
    ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(ac.Split(SPLIT.train, test))
    found = ac.open_run(tmp_path / "run.zarr").held_out
    assert found == test
    assert found.along is None
    np.testing.assert_array_equal(found.fibres, np.arange(len(test)))


def test_runs_without_them_have_neither_group_nor_attribute_and_go_on_as_before(tmp_path):
    path = tmp_path / "run.zarr"
    ac.CP(3, store=path, **SETTINGS).fit(SPLIT.train)
    assert not (path / "held_out").exists()
    assert "held_out" not in json.loads((path / ".zattrs").read_bytes())
    assert ac.open_run(path).held_out is None
    assert "held_out" not in ac.open_run(path).to_datatree().children
    assert ac.CP.resume(path, draws=8, progress=False).posterior_.held_out is None


def test_they_change_neither_settings_nor_the_fingerprint_of_the_tensor():
    from allocore.model.spec import Spec

    given = (SPLIT.train, Spec(2, (2, 2, 2)), Schedule(1, 1, 1), 1, 0)
    plain, kept = Plan(*given).attributes(), Plan(*given, SPLIT.test).attributes()
    assert kept.pop("held_out")
    assert plain == kept


@pytest.mark.parametrize("how", ["flipped", "truncated", "removed", "another array", "no group"])
def test_damage_is_named_and_the_rest_can_be_read(run_folder, core_values, how):
    file = run_folder / "held_out" / "counts" / "0"
    content = file.read_bytes()
    if how == "flipped":
        file.write_bytes(content[:-3] + bytes([content[-3] ^ 4]) + content[-2:])
    elif how == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif how == "removed":
        file.unlink()
    elif how == "another array":
        along = run_folder / "held_out" / "along" / "0"
        along.write_bytes((run_folder / "held_out" / "along" / "0").read_bytes()[::-1])
    else:
        shutil.rmtree(run_folder / "held_out")
    problem = "is damaged: its held-out cells cannot be read"
    for read in (ac.open_run, ac.CP.resume):
        with refused_file(run_folder, problem):
            read(run_folder)
    with warned("held-out-left-out", path=str(run_folder), problem=lambda text: text.startswith(problem)):
        post = ac.open_run(run_folder, on_error="drop")
    assert post.held_out is None
    np.testing.assert_array_equal(post.core_values, core_values)
    with warned("held-out-left-out", path=str(run_folder), problem=lambda text: text.startswith(problem)):
        longer = ac.CP.resume(run_folder, draws=7, on_error="drop", progress=False).posterior_
    assert longer.core_values.shape[1] == 7


def test_a_split_is_refused_where_data_are_expected():
    with refused("x", rule="must be a CountTensor"):
        ac.as_tensor(SPLIT)

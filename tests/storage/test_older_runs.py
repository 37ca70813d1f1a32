"""Runs from before some statistics were added: they open, resume, show themselves and can be saved."""

import json
import shutil
from functools import cache

import numpy as np
import pytest

import allocore as ac
from allocore.storage.zarr_format import ADDED_STATS
from support.same_draws import assert_same

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"burn_in": 3, "draws": 2, "thin": 2, "chains": 2, "seed": 11, "progress": False}


@cache
def fitted(path=None, **settings):
    return ac.AlloCore(8, **{**SETTINGS, **settings}, store=path).fit(TENSOR).posterior_


def make_older(path):
    """Remove from a run what earlier versions did not write."""
    metadata = json.loads((path / ".zmetadata").read_text())
    for group in ("sample_stats", "sweep_stats"):
        for name in ADDED_STATS:
            shutil.rmtree(path / group / name)
            for file in (".zarray", ".zattrs"):
                del metadata["metadata"][f"{group}/{name}/{file}"]
    now, then = "sample_stats/log_likelihood_total", "sample_stats/log_likelihood"
    (path / now).rename(path / then)
    for file in (".zarray", ".zattrs"):
        metadata["metadata"][f"{then}/{file}"] = metadata["metadata"].pop(f"{now}/{file}")
    (path / ".zmetadata").write_text(json.dumps(metadata))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.zarr"
    fitted(path)
    return path


@pytest.fixture
def older(finished_run, tmp_path):
    path = shutil.copytree(finished_run, tmp_path / "run.zarr")
    make_older(path)
    return path


def test_an_older_run_opens_with_unknown_acceptance_rates(older):
    post = ac.open_run(older)
    assert_same(post, fitted())
    for name in ADDED_STATS:
        assert post.stats[name].shape == post.stats["moved"].shape
        assert np.isnan(post.stats[name]).all()
    stats = post.to_datatree()["sample_stats"]
    assert np.isnan(stats["split_merge_accepted"]).all()
    np.testing.assert_array_equal(stats["log_likelihood_total"], post.stats["log_likelihood"][:, post.draw_sweeps - 1])
    assert "log_likelihood" not in stats.data_vars


def test_an_older_run_is_resumed_to_the_bytes_of_a_longer_one(older):
    longer = ac.AlloCore.resume(older, draws=5, progress=False).posterior_
    assert_same(longer, fitted(draws=5))
    assert_same(ac.open_run(older), longer)
    assert not (older / "sweep_stats" / "split_merge_accepted").exists()
    assert not (older / "sample_stats" / "log_likelihood_total").exists()


def test_an_older_run_with_damaged_metadata_is_resumed(older):
    (older / ".zmetadata").write_text("damaged")
    assert_same(ac.AlloCore.resume(older, draws=3, progress=False).posterior_, fitted(draws=3))


def test_an_older_run_can_be_saved(older, tmp_path):
    ac.open_run(older).save(tmp_path / "copy.zarr")
    copy = ac.open_run(tmp_path / "copy.zarr")
    assert_same(copy, fitted())
    assert np.isnan(copy.stats["relocation_accepted"]).all()


def test_a_run_on_disk_has_the_acceptance_rates_of_one_in_memory(finished_run):
    there, here = fitted(finished_run), fitted()
    for post in (there, ac.open_run(finished_run)):
        for name in ADDED_STATS:
            np.testing.assert_array_equal(post.stats[name], here.stats[name])
    assert np.isfinite(here.stats["split_merge_accepted"]).all()

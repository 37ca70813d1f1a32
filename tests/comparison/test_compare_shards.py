"""Comparisons of tensors in shards: the numbers of the tensor in memory, without ever having all of its cells."""

import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.comparison import compare, jobs
from allocore.tensor.shards import ShardFiles
from support.comparison_cases import CHAINS, STARTS, JobsHere
from support.errors import refused
from support.serial_executor import SerialExecutor

MEASURED = ["seconds", "seconds_per_sweep", "peak_mb", "threads"]
SHAPES = {"three modes": (50, 40, 12), "four modes, the longest in the middle": (12, 300, 10, 3), "a matrix": (90, 60)}
QUICK = {**CHAINS, "chains": 2}
MODELS = {
    "allocore": ac.AlloCore(4, likelihood="poisson", **QUICK),
    "bursts": ac.AlloCore(4, likelihood="negative-binomial", e0="infer", **QUICK),
    "cp": ac.CP(3, likelihood="poisson", **QUICK),
}
HOW = {"splits": 2, "hold_out": 0.1, "progress": False}


def tensor(shape):
    rng = np.random.default_rng(5)
    coords = np.array([(length * rng.random(6000) ** 1.5).astype(int) for length in shape])
    Y = ac.CountTensor(coords, 1 + rng.poisson(2.0 * rng.random(6000)), shape)
    return Y.with_missing([(0, *[None] * (len(shape) - 1))])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    monkeypatch.setattr(compare, "write", lambda *_: None)


@pytest.fixture
def sharded(tmp_path):
    tensor(SHAPES["three modes"]).save(tmp_path / "y.zarr", shards=4)
    return ac.load_tensor(tmp_path / "y.zarr")


def results(found):
    assert found.failed == 0, found.table["error"].tolist()
    return found.table.drop(columns=MEASURED)


def names(folder):
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("shards", [1, 4])
def test_scores_are_those_of_the_tensor_in_memory(shape, shards, tmp_path, monkeypatch):
    """Only one shard is read at a time, and the training tensors are removed."""
    Y = tensor(shape)
    expected = results(ac.compare(Y, MODELS, [2, 4], along=-1, **HOW))
    Y.save(tmp_path / "y.zarr", shards=shards)
    read, lengths = ShardFiles.cells, set()
    monkeypatch.setattr(ShardFiles, "cells", lambda files, *ends: lengths.add(np.diff(ends)[0]) or read(files, *ends))
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    found = results(ac.compare(ac.load_tensor(tmp_path / "y.zarr"), MODELS, [2, 4], along=-1, **HOW))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert lengths == {1}
    assert names(tmp_path) == ["y.zarr"]


def test_a_path_of_shards_is_compared_by_a_user_and_by_select_budget(sharded, monkeypatch):
    Y, model = sharded.load(), MODELS["allocore"]
    expected = ac.select_budget(Y, [2, 4], model=model, **HOW)
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    found = ac.select_budget(sharded.path, [2, 4], model=model, **HOW)
    assert found.budget == expected.budget
    pd.testing.assert_frame_equal(found.table, expected.table, check_exact=True)


def test_nntuck_and_tucker_have_the_scores_of_the_tensor_in_memory_too(sharded):
    models = {"tucker": ac.Tucker((3, 2, 2), likelihood="poisson", **QUICK), "nntuck": ac.NNTuck((3, 2, 2), **STARTS)}
    expected = results(ac.compare(sharded.load(), models, **HOW))
    pd.testing.assert_frame_equal(results(ac.compare(sharded, models, **HOW)), expected, check_exact=True)


def test_workers_of_an_executor_have_the_same_scores(sharded, tmp_path):
    expected = results(ac.compare(sharded, MODELS, **HOW))
    pd.testing.assert_frame_equal(results(ac.compare(sharded, MODELS, executor=SerialExecutor(), **HOW)), expected)
    with ThreadPoolExecutor(2) as pool:
        pd.testing.assert_frame_equal(results(ac.compare(sharded, MODELS, executor=pool, **HOW)), expected)
    assert names(tmp_path) == ["y.zarr"]


def test_a_folder_refers_to_the_shards_and_goes_on_with_them(sharded, tmp_path):
    out = tmp_path / "out"
    one = ac.compare(sharded, MODELS, splits=1, hold_out=0.1, progress=False, out=out)
    assert names(out) == ["jobs", "lock", "results.csv", "settings.json", "tensor.json"]
    assert json.loads((out / "tensor.json").read_text())["path"] == str(sharded.path)
    (out / "settings.json").unlink()
    with refused("out", str(out), "another tensor"):
        ac.compare(sharded.load(), MODELS, out=out, **HOW)
    before = {path.name: path.stat().st_mtime_ns for path in (out / "jobs").iterdir()}
    both = ac.compare(sharded, MODELS, out=out, **HOW)
    assert before.items() <= {path.name: path.stat().st_mtime_ns for path in (out / "jobs").iterdir()}.items()
    assert len(both.table) == 2 * len(one.table) == 6
    assert (out / "settings.json").exists()


def test_a_tensor_in_memory_takes_over_a_folder_without_results(sharded, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(compare, "run_jobs", lambda *_, **__: (out / "settings.json").unlink())
    ac.compare(sharded, MODELS, out=out, **HOW)
    ac.compare(sharded.load(), MODELS, out=out, **HOW)
    assert names(out) == ["jobs", "lock", "tensor.npz"]


def test_a_bad_split_is_reported_before_any_job_runs(sharded, monkeypatch):
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    with refused("hold_out", 0.9999999, "must be smaller"):
        ac.compare(sharded, MODELS, splits=1, hold_out=0.9999999, progress=False)


def test_shards_that_are_damaged_are_the_error_of_every_job(sharded, tmp_path, monkeypatch):
    check = compare._check_splits

    def then_damage(*given):
        check(*given)
        (sharded.path / "counts" / "1").unlink()

    monkeypatch.setattr(compare, "_check_splits", then_damage)
    found = ac.compare(sharded, MODELS, **HOW)
    assert found.failed == len(found.table) == 6
    assert all("counts/1 is missing" in error for error in found.table["error"])
    assert names(tmp_path) == ["y.zarr"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="folders of killed processes are found by locks")
def test_ctrl_c_leaves_no_training_tensor(sharded, tmp_path):
    words = [
        "--models",
        "cp",
        "--budgets",
        "2",
        "--splits",
        "2",
        "--jobs",
        "2",
        "--burn-in",
        "1000000",
        "--chains",
        "1",
    ]
    words += ["--draws", "1", "--thin", "1", "--out", str(tmp_path / "out")]
    command = [sys.executable, "-m", "allocore.cli", "compare", str(sharded.path), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        end = time.monotonic() + 600.0
        while len(list(tmp_path.glob(".y.split.*/train.zarr"))) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=600)
    assert run.returncode == 130
    assert names(tmp_path) == ["out", "y.zarr"]


def test_what_a_killed_job_left_is_removed_by_the_next_one(sharded, tmp_path):
    left = tmp_path / ".y.split.abcdefgh.tmp"
    shutil.copytree(sharded.path, left / "train.zarr")
    assert jobs.place_of_splits(sharded) == tmp_path / "y.split"
    ac.compare(sharded, {"cp": MODELS["cp"]}, **HOW)
    assert names(tmp_path) == ["y.zarr"]

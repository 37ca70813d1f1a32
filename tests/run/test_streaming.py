"""Fits of sharded tensors without an executor: cells come from disk in every sweep, and no byte changes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.run import streaming
from allocore.tensor.shards import ShardFiles
from support.errors import refused, refused_file
from support.same_draws import assert_same

SHAPE = (60, 40, 12)
SETTINGS = {"budget": 6, "burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 11, "progress": False}
MODELS = {
    "poisson": {"likelihood": "poisson"},
    "bursts": {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"},
    "inferred": {"likelihood": "negative-binomial", "budget": "infer", "max_budget": 7},
    "binary": {"likelihood": "bernoulli", "f0": 0.5},
    "underflow": {"likelihood": "poisson", "e0": 1e-3, "f0": 1e20},
}


def tensor(binary=False):
    rng = np.random.default_rng(5)
    coords = np.array([(length * rng.random(9000) ** 1.5).astype(int) for length in SHAPE])
    counts = 1 + rng.poisson(np.where(rng.random(9000) < 0.01, 400.0, 1.0))
    Y = ac.CountTensor(coords, counts, SHAPE).with_missing([(0, None, None), (None, 3, 1)])
    return Y.binarize() if binary else Y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensors")
    tensor().save(folder / "y.zarr", shards=5)
    tensor(binary=True).save(folder / "binary.zarr", shards=3)
    return folder


@pytest.fixture
def sharded(folder):
    return ac.load_tensor(folder / "y.zarr")


def fitted(Y, **settings):
    return ac.AlloCore(**{**SETTINGS, **settings}).fit(Y).posterior_


@pytest.mark.parametrize("name", MODELS)
def test_streamed_cells_give_the_bytes_of_a_fit_in_memory(folder, name):
    binary = name == "binary"
    Y = ac.load_tensor(folder / ("binary.zarr" if binary else "y.zarr"))
    alone = fitted(tensor(binary), threads=1, **MODELS[name])
    assert_same(fitted(Y, threads=1, **MODELS[name]), alone)
    assert_same(fitted(Y, threads=3, **MODELS[name]), alone)


def test_windows_have_all_cells_in_order_and_the_random_numbers_of_the_whole_tensor(sharded):
    from allocore.gibbs.layout import Layout
    from allocore.kernels.workers import Workers

    with Workers(1) as workers:
        whole = Layout.of(sharded.load(), workers).nonzeros
    windows = [each.nonzeros for each in streaming.StreamedThinning(sharded)._windows]
    assert len(windows) == sharded.shards > 3
    assert np.array_equal(np.concatenate([each.coords_MN for each in windows], axis=1), whole.coords_MN)
    assert np.array_equal(np.concatenate([each.small_N for each in windows]), whole.small_N)
    assert [each.first_cell for each in windows] == np.cumsum(
        [0, *(each.small_N.size for each in windows[:-1])]
    ).tolist()
    starts = [each.first_draw_B[:-1] for each in windows]
    assert np.array_equal(np.concatenate([*starts, windows[-1].first_draw_B[-1:]]), whole.first_draw_B)
    assert {each.coords_MN.dtype for each in windows} == {np.dtype(np.uint16)}


def test_no_more_than_one_shard_is_read_at_a_time(sharded, monkeypatch):
    read, seen = ShardFiles.cells, []

    def by_shard(files, first, last):
        seen.append((first, last))
        return read(files, first, last)

    monkeypatch.setattr(ShardFiles, "cells", by_shard)
    streaming.StreamedThinning(sharded)
    assert seen == [(shard, shard + 1) for shard in range(sharded.shards)]


def test_a_stored_run_is_continued_from_disk(sharded, tmp_path):
    fitted(sharded, store=tmp_path / "run.zarr")
    longer = ac.AlloCore.resume(tmp_path / "run.zarr", draws=7, progress=False).posterior_
    assert_same(longer, fitted(tensor(), draws=7))


@pytest.fixture
def made(monkeypatch):
    """The folders in which streaming makes its files; numba makes files too."""
    folders = []

    def noted(dir):
        folders.append(Path(dir))
        return tempfile.TemporaryFile(dir=dir)

    own = SimpleNamespace(TemporaryFile=noted, gettempdir=tempfile.gettempdir)
    monkeypatch.setattr(streaming, "tempfile", own)
    return folders


def test_the_file_has_no_name_and_lies_where_the_tensor_is(sharded, folder, made):
    before = set(folder.rglob("*"))
    fitted(sharded)
    assert made == [folder]
    assert set(folder.rglob("*")) == before


@pytest.mark.skipif(os.name != "posix", reason="folders have other permissions on Windows")
def test_a_folder_that_cannot_be_written_to_leaves_the_file_to_the_one_for_temporary_files(sharded, made, monkeypatch):
    read_only = SimpleNamespace(access=lambda path, mode: False, W_OK=os.W_OK)
    monkeypatch.setattr("allocore.tensor.sharded.os", read_only)
    assert_same(fitted(sharded), fitted(tensor()))
    assert made == [Path(tempfile.gettempdir())]


def test_too_little_room_is_an_error_before_anything_is_written(sharded, folder, monkeypatch):
    usage = namedtuple("usage", "total used free")
    needed = streaming.bytes_on_disk(sharded)
    assert needed == sharded.nnz * (3 * 2 + 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1, 1, needed - 1))
    with refused_file(str(folder), "has too little room"):
        fitted(sharded)


def test_a_disk_that_fills_up_meanwhile_is_an_error_that_names_the_folder(sharded, folder, monkeypatch):
    def full(nonzeros, file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(streaming, "_mapped", full)
    with refused_file(str(folder), "cannot hold the file"):
        fitted(sharded)


def test_a_damaged_shard_is_an_error_about_the_tensor(tmp_path):
    tensor().save(tmp_path / "y.zarr", shards=5)
    Y = ac.load_tensor(tmp_path / "y.zarr")
    (tmp_path / "y.zarr" / "counts" / "3").write_bytes(b"damaged")
    with refused("Y", str(tmp_path / "y.zarr"), "is damaged"):
        fitted(Y)


def test_cells_are_held_out_part_by_part_and_predicted_as_those_of_a_tensor_in_memory(sharded, tmp_path, monkeypatch):
    from allocore.tensor.sharded import ShardedTensor

    expected = ac.hold_out(tensor(), 0.1, seed=4)
    with monkeypatch.context() as patch:
        patch.setattr(ShardedTensor, "_whole", lambda tensor: pytest.fail("all cells were read"))
        split = ac.hold_out(sharded, 0.1, seed=4, out=tmp_path / "train.zarr")
        post = fitted(split)
        score = post.log_ppd(split.test)
    assert score == fitted(expected).log_ppd(expected.test)
    assert split.test == expected.test
    assert split.train == expected.train
    assert_same(post, fitted(expected))


def test_the_training_cells_of_a_tensor_in_memory_can_be_written_in_shards_too(tmp_path):
    split = ac.hold_out(tensor(), 0.1, out=tmp_path / "train.zarr")
    assert isinstance(split.train, ac.ShardedTensor)
    assert split.train == ac.hold_out(tensor(), 0.1).train
    with refused("out", str(tmp_path / "train.zarr"), "exists already"):
        ac.hold_out(tensor(), 0.1, out=tmp_path / "train.zarr")


KILLED = """
import sys
import allocore as ac
from allocore.run import chains
from allocore.storage import run_writer

run_writer.SAVE_INTERVAL = run_writer.SAVE_INTERVAL_FACTOR = 0.0
model = ac.AlloCore(6, likelihood="poisson", burn_in=3, draws=4, thin=2, chains=2, seed=11, store=sys.argv[2])
model.set_params(progress=False, threads=1)
advance, made = chains.Chain.advance, []

def counted(chain):
    advance(chain)
    made.append(chain)
    if len(made) == 9:
        print("nine sweeps", flush=True)
        sys.stdin.read()

chains.Chain.advance = counted
model.fit(ac.load_tensor(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_killed_fit_leaves_no_file_and_resumes_to_the_same_bytes(sharded, folder, tmp_path):
    run = tmp_path / "run.zarr"
    command = [sys.executable, "-c", KILLED, str(folder / "y.zarr"), str(run)]
    before = set(folder.rglob("*"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "nine sweeps\n"
        os.kill(process.pid, signal.SIGKILL)
    assert set(folder.rglob("*")) == before
    resumed = ac.AlloCore.resume(run, progress=False).posterior_
    assert_same(resumed, fitted(tensor(), likelihood="poisson"))


@pytest.mark.parametrize("name", ["poisson", "bursts"])
def test_held_out_cells_are_scored_beside_baselines_as_in_memory(sharded, tmp_path, monkeypatch, name):
    """All cells are never in memory, neither those of the tensor nor those of the training tensor."""
    expected = fitted(ac.hold_out(tensor(), 0.1, seed=2), **MODELS[name]).evaluate()
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    split = ac.hold_out(sharded, 0.1, seed=2, out=tmp_path / "train.zarr")
    found = fitted(split, **MODELS[name], store=tmp_path / "run.zarr").evaluate()
    pd.testing.assert_frame_equal(found.table, expected.table, check_exact=True)
    assert found.findings == expected.findings
    again = ac.open_run(tmp_path / "run.zarr").evaluate()
    pd.testing.assert_frame_equal(again.table, expected.table, check_exact=True)

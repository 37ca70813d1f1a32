"""Tensors in shards on disk: the same tensor, read with suspicion, never half-written."""

import json
import os
import pickle

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from scipy.special import gammaln

import allocore as ac
from allocore._zarr import encode
from allocore.tensor import coordinates, shards
from allocore.tensor.coordinates import cell_ranges
from allocore.tensor.shards import STEP, ShardFiles, ShardWriter, cut, fingerprint_of, hash_of_chunk
from support.errors import refused, refused_file
from support.tensor_cases import labelled_tensors


@pytest.fixture
def Y():
    """A tensor of some blocks, whose cells are sorted by another order of the modes, with labels and missing cells."""
    rng = np.random.default_rng(0)
    coords = np.array([rng.integers(0, length, 9000) for length in (40, 30, 50)])
    labels = [[f"actor {i}" for i in range(40)], None, ["مرحبا", *(f"{i}" for i in range(49))]]
    names = ("who", "where", "when")
    tensor = ac.CountTensor(coords, rng.poisson(3.0, 9000) + 1, (40, 30, 50), mode_names=names, labels=labels)
    return tensor.with_missing([("actor 3", None, "4"), (None, 2, "2")])


@pytest.fixture
def folder(Y, tmp_path):
    Y.save(tmp_path / "y.zarr", shards=4)
    return tmp_path / "y.zarr"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(tensor=labelled_tensors())
def test_a_tensor_saved_in_shards_is_read_back_exactly(tmp_path_factory, tensor):
    path = tmp_path_factory.mktemp("tensor") / "y.zarr"
    tensor.save(path, shards=3)
    sharded = ac.load_tensor(path)
    assert sharded == tensor
    assert sharded.load() == tensor
    assert type(sharded.load()) is ac.CountTensor


def test_all_but_the_cells_is_known_without_reading_them(Y, folder, monkeypatch):
    def never(*_):
        raise AssertionError("the cells were read")

    monkeypatch.setattr(ShardFiles, "cells", never)
    sharded = ac.load_tensor(folder)
    for name in ("shape", "mode_names", "labels", "missing", "nnz", "total", "max", "density", "volume", "report"):
        assert getattr(sharded, name) == getattr(Y, name)
    for mode in range(3):
        assert sharded.mode_totals(mode).tolist() == Y.mode_totals(mode).tolist()
        assert sharded.top_labels(mode) == Y.top_labels(mode)
    assert repr(sharded) == repr(Y).replace("CountTensor", "ShardedTensor") + ", in 3 shards"
    assert "top labels" in sharded._repr_html_()
    assert pickle.loads(pickle.dumps(sharded)).files == sharded.files


def test_methods_that_need_the_cells_read_them(Y, folder):
    sharded = ac.load_tensor(folder)
    assert sharded.select(who=["actor 1", "actor 2"]) == Y.select(who=["actor 1", "actor 2"])
    assert sharded.with_missing([(1, None, None)]) == Y.with_missing([(1, None, None)])
    assert ac.hold_out(sharded, 0.05).train == ac.hold_out(Y, 0.05).train
    assert sharded.binarize() == Y.binarize()
    assert ac.as_tensor(folder) == Y


def test_a_mode_whose_totals_memory_cannot_hold_is_refused(tmp_path):
    with refused("memory", rule="at least 8,796.1 GB for the totals of 1,099,511,627,779 rows"):
        ac.CountTensor([[0], [2]], [1], (2**40, 3)).save(tmp_path / "y.zarr")
    assert list(tmp_path.iterdir()) == []


def test_blocks_have_every_cell_once_and_are_the_shards(Y, folder, monkeypatch):
    monkeypatch.setattr(coordinates, "_CELLS_AT_ONCE", 700)
    sharded = ac.load_tensor(folder)
    assert [len(counts) for _, counts in sharded.blocks()] == [3072, 3072, Y.nnz - 6144]
    assert max(len(counts) for _, counts in Y.blocks()) == 700
    for tensor in (Y, sharded):
        blocks = list(tensor.blocks())
        assert {coords.dtype for coords, _ in blocks} == {Y.coords.dtype}
        coords, counts = (np.concatenate(each, axis=-1) for each in zip(*blocks, strict=True))
        assert ac.CountTensor(coords, counts, Y.shape) == ac.CountTensor(Y.coords, Y.counts, Y.shape)


@pytest.mark.parametrize("along", [0, 1, 2])
def test_cells_are_held_out_of_shards_one_by_one(Y, folder, tmp_path, monkeypatch, along):
    expected = ac.hold_out(Y, 0.1, along=along, seed=along)
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    split = ac.hold_out(ac.load_tensor(folder), 0.1, along=along, seed=along, out=tmp_path / "train.zarr")
    assert split.test == expected.test
    monkeypatch.undo()
    expected.train.save(tmp_path / "expected.zarr", shards=split.train.shards)
    assert split.train.files.fingerprint == ac.load_tensor(tmp_path / "expected.zarr").files.fingerprint


@pytest.mark.parametrize("seed", range(8))
def test_training_tensors_in_shards_are_those_of_tensors_in_memory(tmp_path, seed):
    rng = np.random.default_rng(seed)
    modes, undirected = 2 + seed % 3, seed % 2
    shape = rng.integers(8, 60, modes)
    shape[1] = shape[0] if undirected else shape[1]
    coords = (shape[:, None] * rng.random((modes, 5000)) ** rng.uniform(0.5, 2.0)).astype(int)
    Y = ac.CountTensor(coords, 1 + rng.poisson(1.0, 5000), shape.tolist())
    Y = Y.mask_diagonal().undirected(asymmetric="sum") if undirected else Y
    expected = ac.hold_out(Y, 0.2, along=seed % modes, seed=seed)
    expected.train.save(tmp_path / "expected.zarr", shards=2)
    Y.save(tmp_path / "y.zarr", shards=2)
    sharded = ac.load_tensor(tmp_path / "y.zarr")
    split = ac.hold_out(sharded, 0.2, along=seed % modes, seed=seed, out=tmp_path / "train.zarr")
    assert split.test == expected.test
    assert split.train == expected.train
    assert split.train.files.sizes.order == ac.load_tensor(tmp_path / "expected.zarr").files.sizes.order


def test_cells_are_sorted_anew_if_another_order_suits_those_that_are_not_held_out(tmp_path, monkeypatch):
    """Of 90 rows, some are held out, and then there are no longer many fewer columns than rows."""
    rng = np.random.default_rng(5)
    Y = ac.CountTensor(rng.integers(0, [[90], [60]], (2, 6000)), rng.poisson(2.0, 6000) + 1, (90, 60))
    Y.save(tmp_path / "y.zarr", shards=4)
    expected = ac.hold_out(Y, 0.15, seed=1)
    expected.train.save(tmp_path / "expected.zarr", shards=3)
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    sharded = ac.load_tensor(tmp_path / "y.zarr")
    train = ac.hold_out(sharded, 0.15, seed=1, out=tmp_path / "train.zarr").train
    assert (sharded.files.sizes.order, train.files.sizes.order) == ((1, 0), (0, 1))
    assert train.files.fingerprint == ac.load_tensor(tmp_path / "expected.zarr").files.fingerprint
    assert sorted(each.name for each in tmp_path.iterdir()) == ["expected.zarr", "train.zarr", "y.zarr"]


def test_zarr_reads_the_cells(Y, folder):
    found = zarr.open_group(folder, mode="r", zarr_format=2)
    assert sorted(map(tuple, np.asarray(found["coords"]).T.tolist())) == sorted(map(tuple, Y.coords.T.tolist()))
    assert np.asarray(found["counts"]).sum() == Y.total


def test_shards_are_cut_at_whole_steps_and_hold_all_cells_once(Y, folder):
    files = ac.load_tensor(folder).files
    parts = [files.cells(shard, shard + 1) for shard in range(files.sizes.shards)]
    assert len(parts) == 3, "of 2,100 cells each, there were four; of whole steps, three are enough"
    assert [counts.size % STEP for _, counts in parts[:-1]] == [0, 0]
    assert sum(counts.size for _, counts in parts) == Y.nnz
    coords, counts = files.cells(1, 3)
    assert coords.tolist() == np.concatenate([parts[1][0], parts[2][0]], axis=1).tolist()
    assert counts.tolist() == np.concatenate([parts[1][1], parts[2][1]]).tolist()


@pytest.mark.parametrize(("nnz", "shards"), [(1, 1), (1024, 16), (10_000, 3), (5_000_000, 2), (10**9, 64), (10**9, 1)])
def test_chunks_are_small_whole_steps(nnz, shards):
    chunk, chunks_per_shard = cut(nnz, shards)
    assert chunk % STEP == 0
    assert chunk <= 2**20
    assert chunk * chunks_per_shard * shards >= nnz
    assert chunk * (chunks_per_shard - 1) * shards < nnz


def test_sums_of_logarithms_are_added_up_as_in_memory(Y, tmp_path, monkeypatch):
    monkeypatch.setattr(coordinates, "_CELLS_AT_ONCE", 700)
    Y.save(tmp_path / "y.zarr", shards=3)
    files = ac.load_tensor(tmp_path / "y.zarr").files
    counts = files.cells(0, files.sizes.shards)[1]
    assert files.sizes.log_factorials == sum(float(gammaln(counts[part] + 1.0).sum()) for part in cell_ranges(Y.nnz))


def changed(path, **changes):
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changes}))


DAMAGES = {
    "no attributes": lambda folder: (folder / ".zattrs").unlink(),
    "attributes that are no JSON": lambda folder: (folder / ".zattrs").write_text("{"),
    "another format": lambda folder: changed(folder / ".zattrs", format="allocore.ShardedTensor/9"),
    "another size": lambda folder: changed(folder / ".zattrs", nnz=7),
    "a size that is no number": lambda folder: changed(folder / ".zattrs", chunk="many"),
    "another total": lambda folder: changed(folder / ".zattrs", total=3),
    "an order with a mode twice": lambda folder: changed(folder / ".zattrs", order=[0, 0, 1]),
    "other labels": lambda folder: (folder / "labels_0_utf8" / "0").unlink(),
    "no patterns": lambda folder: (folder / "missing_patterns" / ".zarray").unlink(),
    "a codec that runs code": lambda folder: changed(
        folder / "missing_patterns" / ".zarray", compressor={"id": "pickle"}
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_folder_is_one_sentence_that_names_it(folder, damage):
    damage(folder)
    with refused("path", str(folder), "sharded tensor: "):
        ac.load_tensor(folder)


@pytest.mark.parametrize("name", ["coords/0.1", "counts/2"])
@pytest.mark.parametrize("damage", ["gone", "cut", "other cells"])
def test_damaged_cells_are_found_when_they_are_read(folder, name, damage):
    file = folder / name
    if damage == "gone":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        file.write_bytes((folder / name.replace("1", "0").replace("2", "0")).read_bytes())
    sharded = ac.load_tensor(folder)
    with refused("path", str(folder), "sharded tensor: "):
        sharded.load()


def rewritten(folder, coords, counts):
    """Put other cells into the first chunk of a tensor, with hashes that fit."""
    (folder / "coords" / "0.0").write_bytes(encode(coords))
    (folder / "counts" / "0").write_bytes(encode(counts))
    about = json.loads((folder / ".zattrs").read_text())
    about["chunk_hashes"][0] = hash_of_chunk(coords, counts)
    about["fingerprint"] = fingerprint_of(about, ac.load_tensor(folder).files.missing_patterns())
    (folder / ".zattrs").write_text(json.dumps(about))


def test_coordinates_outside_the_tensor_are_refused_even_if_the_hashes_fit(folder):
    """Anyone can make the hashes fit, and kernels rely on coordinates."""
    chunk = ac.load_tensor(folder).files.sizes.chunk
    coords, counts = np.zeros((3, chunk), dtype="<u2"), np.ones(chunk, dtype="<i8")
    coords[0, 5] = 40
    rewritten(folder, coords, counts)
    with refused("path", str(folder), "coordinates outside the tensor"):
        ac.load_tensor(folder).load()


def test_cells_in_another_order_and_cells_that_are_there_twice_are_refused(tmp_path):
    ac.CountTensor([[0, 1, 2], [1, 0, 2]], [1, 2, 3]).save(tmp_path / "y.zarr")
    for columns in ([[0, 2, 1], [1, 2, 0]], [[0, 1, 1], [1, 0, 0]]):
        coords, counts = np.zeros((2, STEP), dtype="<u2"), np.zeros(STEP, dtype="<i8")
        coords[:, :3], counts[:3] = columns, [1, 2, 3]
        rewritten(tmp_path / "y.zarr", coords, counts)
        with refused("path", str(tmp_path / "y.zarr"), "its cells are not sorted, or some occur twice"):
            ac.load_tensor(tmp_path / "y.zarr").load()


def test_totals_that_were_changed_are_refused(folder):
    (folder / "row_totals" / "0").write_bytes(encode(np.full(120, -5)))
    with refused("path", str(folder), "its totals have changed"):
        ac.load_tensor(folder).mode_totals(0)


def read_all(folder):
    Y = ac.load_tensor(folder)
    return Y.mode_totals(0), Y.load()


@pytest.mark.parametrize("name", [".zattrs", "coords/0.0", "row_totals/0", "labels_0_utf8/0"])
def test_a_pipe_in_a_folder_is_refused_and_does_not_hang(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with refused("path", str(folder), "not a sharded tensor"):
        read_all(folder)


def test_a_pickle_remembers_which_tensor_it_was(Y, folder, tmp_path):
    pickled = pickle.dumps(ac.load_tensor(folder))
    folder.rename(tmp_path / "old.zarr")
    Y.binarize().save(folder, shards=4)
    with refused("path", str(folder), "has another tensor now"):
        pickle.loads(pickled)


@pytest.mark.parametrize(
    ("path", "shards", "argument", "rule"),
    [
        ("y.zarr", 0, "shards", "at least 1"),
        ("y.zarr", 2.5, "shards", "whole number"),
        ("nowhere/y.zarr", 2, "path", "nowhere' does not exist"),
        ("there.zarr", 2, "path", "exists already"),
        ("y.npz", 2, "shards", "unless `path` ends in .zarr"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(Y, tmp_path, path, shards, argument, rule):
    (tmp_path / "there.zarr").mkdir()
    with refused(argument, rule=rule):
        Y.save(tmp_path / path, shards=shards)
    assert [each.name for each in tmp_path.iterdir()] == ["there.zarr"]


def test_a_run_and_a_missing_folder_are_refused(tmp_path):
    with refused("path", str(tmp_path / "y.zarr"), "does not exist"):
        ac.load_tensor(tmp_path / "y.zarr")
    (tmp_path / "run.zarr" / "posterior").mkdir(parents=True)  # every run has this group
    with refused("path", str(tmp_path / "run.zarr"), "is a run, not a tensor"):
        ac.load_tensor(tmp_path / "run.zarr")


def test_a_full_disk_leaves_nothing_behind(Y, tmp_path, monkeypatch):
    def full(values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards, "encode", full)
    with refused_file(tmp_path / "y.zarr", "cannot be written: No space left on device"):
        Y.save(tmp_path / "y.zarr", shards=2)
    assert list(tmp_path.iterdir()) == []


def test_cells_that_memory_cannot_hold_are_refused(folder, monkeypatch):
    from allocore import _memory as available_memory

    monkeypatch.setattr(available_memory, "available_memory", lambda: 1000)
    sharded = ac.load_tensor(folder)
    with refused("memory", "0.0 GB", "cells of"):
        sharded.load()


def test_a_folder_that_another_process_makes_meanwhile_is_left_alone_and_reported(Y, tmp_path, monkeypatch):
    finish = ShardWriter.finish

    def too_late(writer, *given):
        finish(writer, *given)
        (tmp_path / "y.zarr").mkdir()
        (tmp_path / "y.zarr" / "other").touch()

    monkeypatch.setattr(ShardWriter, "finish", too_late)
    with refused_file(tmp_path / "y.zarr", "was created by another process meanwhile"):
        Y.save(tmp_path / "y.zarr", shards=2)
    assert [each.name for each in tmp_path.rglob("*")] == ["y.zarr", "other"]


def test_ctrl_c_while_duckdb_reads_events_is_an_interrupt_and_leaves_nothing(tmp_path, monkeypatch):
    from allocore.events import read_events as module

    def interrupted(*given):
        raise RuntimeError("Query interrupted")  # what duckdb raises

    monkeypatch.setattr(module, "count_rows", interrupted)
    (tmp_path / "e.csv").write_text("who,what\na,b\n")
    with pytest.raises(KeyboardInterrupt):
        ac.read_events(tmp_path / "e.csv", modes=["who", "what"], out=tmp_path / "y.zarr")
    assert [each.name for each in tmp_path.iterdir()] == ["e.csv"]

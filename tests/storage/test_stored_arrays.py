"""The matrices of a large run stay on disk: arrays for everything that reads them, a draw at a time."""

import pickle
import shutil
import tracemalloc

import numpy as np
import pytest

import allocore as ac
from allocore.storage import run_reader, zarr_format
from allocore.storage.lazy_array import StoredArray
from support.errors import refused, refused_file
from support.findings import warned
from support.tiers import parametrize_few

RNG = np.random.default_rng(5)
TENSOR = ac.CountTensor(
    *np.unique(RNG.integers(0, [[9], [5], [4]], (3, 300)), axis=1, return_counts=True),
    mode_names=["who", "what", "when"],
    labels={"who": list("abcdefghi")},
    missing=[(0, None, 1)],
)
SETTINGS = {"burn_in": 2, "draws": 10, "thin": 2, "chains": 3, "seed": 11, "progress": False}
BURSTS = {"likelihood": "negative-binomial", "dispersion_by": "who"}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A run in chunks of four draws of `who`."""
    path = tmp_path_factory.mktemp("stored") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarr_format, "_CHUNK_BYTES", 1000)
        ac.AlloCore(3, store=path, **BURSTS, **SETTINGS).fit(TENSOR)
    return path


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(zarr_format, "_CHUNK_BYTES", 1000)


@pytest.fixture
def on_disk(finished_run, small_chunks, monkeypatch):
    monkeypatch.setattr(run_reader, "READ_WHOLE_BYTES", 0)
    return ac.open_run(finished_run)


@pytest.fixture
def copy_on_disk(finished_run, tmp_path, small_chunks, monkeypatch):
    """The path of a run that stays on disk and may be changed."""
    monkeypatch.setattr(run_reader, "READ_WHOLE_BYTES", 0)
    return shutil.copytree(finished_run, tmp_path / "run.zarr")


@pytest.fixture
def in_memory(finished_run, small_chunks):
    return ac.open_run(finished_run)


def test_a_small_run_is_read_into_memory_and_a_large_one_stays_on_disk(in_memory, on_disk):
    assert all(isinstance(array, np.ndarray) for array in in_memory.record.draw_arrays)
    assert all(isinstance(array, StoredArray) for array in (on_disk.core_locations, *on_disk.factors))
    assert isinstance(on_disk.core_values, np.ndarray)


KEYS = [
    (0, 0), (-1, -1), (2, 9), (1,), 1, slice(1), (slice(None), 3), (slice(None), [7, 2, 2]), ([2, 0],),
    (slice(None, None, 2), slice(1, None, 3)), (0, slice(2, 9, 2)), (0, 4, 2), (0, 4, slice(1, 3), [0, 2]),
    (slice(None), 4, 0, 0), (slice(1), slice(2), 1), ..., (..., 0), ([0, 1], [3, 9]), ([0, 1], 2), (0, [1, 2], 0),
    (slice(None), np.arange(10) > 6), (None, 0), (np.int64(1), np.int32(2)), slice(0), (slice(None), slice(3, 3)),
]  # fmt: skip


def test_an_array_on_disk_is_indexed_as_one_in_memory(on_disk, in_memory):
    for mine, theirs in zip(on_disk.factors, in_memory.factors, strict=True):
        for key in KEYS:
            found, expected = mine[key], theirs[key]
            assert found.shape == expected.shape, key
            np.testing.assert_array_equal(found, expected, err_msg=str(key))


@pytest.mark.parametrize("key", [(3, 0), (0, 10), (0, 0, 99), (slice(None), [10]), (0, 0, 0, 0, 0)])
def test_an_index_out_of_range_is_an_index_error(on_disk, key):
    with pytest.raises(IndexError):
        on_disk.factors[0][key]


def test_an_array_on_disk_does_what_arrays_do(on_disk, in_memory):
    mine, theirs = on_disk.factors[0], in_memory.factors[0]
    assert (mine.shape, mine.ndim, mine.dtype, mine.size, mine.nbytes, len(mine)) == (
        *(theirs.shape, theirs.ndim, theirs.dtype, theirs.size, theirs.nbytes, len(theirs)),
    )
    np.testing.assert_array_equal(2 * mine + np.exp(mine), 2 * theirs + np.exp(theirs))
    np.testing.assert_array_equal(mine.mean(axis=(0, 1)), theirs.mean(axis=(0, 1)))
    np.testing.assert_array_equal(np.sum(mine), np.sum(theirs))
    np.testing.assert_array_equal(np.asarray(mine, dtype=np.float32), theirs.astype(np.float32))
    assert pickle.loads(pickle.dumps(mine)).tobytes() == theirs.tobytes()
    np.testing.assert_array_equal(mine.T, theirs.T)
    assert not hasattr(mine, "values")
    assert "(3, 10, 9, 3)" in repr(mine)
    for value in (mine[0, 0], np.asarray(mine)):
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 0


ASKED = {
    "rate": lambda post: post.expected(TENSOR.coords),
    "ppd": lambda post: [post.ppd(TENSOR, allow_training=True), post.log_ppd(TENSOR, True, allow_training=True)],
    "predict": lambda post: post.predict([("a", None, None), ("b", 1, 2)]).to_numpy(dtype=object),
    "simulate": lambda post: post.simulate(TENSOR.coords[:, :9], seed=1),
    "consensus": lambda post: post.consensus(progress=False).share,
    "classes": lambda post: post.classes()["value"].to_numpy(),
    "best draw": lambda post: post.best_draw(),
    "surprises": lambda post: post.surprises(top=5)["expected"].to_numpy(),
    "diagnosis": lambda post: post.diagnose().table["r_hat"].to_numpy(),
    "tree": lambda post: post.to_datatree()["posterior"]["factors_who"].values,
    "chains": lambda post: post.select_chains([2, 0]).expected(TENSOR.coords),
    "evaluate": lambda post: post.evaluate(TENSOR, allow_training=True).table.to_numpy(dtype=float),
    "fold in": lambda post: post.fold_in(TENSOR, sweeps=2).factors[-1],
    "start": lambda post: ac.AlloCore(3, **BURSTS, **SETTINGS).fit(TENSOR, start=post).posterior_.core_values,
    "forecast": lambda post: post.forecast(2, mode=-1).simulate([(None, None, None)], draws=20),
}


@parametrize_few("what", ASKED)
def test_whatever_is_asked_of_a_run_on_disk_has_the_bytes_of_the_run_in_memory(on_disk, in_memory, what):
    mine, theirs = (ASKED[what](post) for post in (on_disk, in_memory))
    np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def test_rates_and_scores_of_a_run_on_disk_read_it_draw_by_draw(on_disk, monkeypatch):
    def refuse(*_):
        raise AssertionError("the whole array was read")

    monkeypatch.setattr(StoredArray, "read", refuse)
    for what in ("rate", "ppd", "predict", "simulate", "consensus", "classes", "surprises", "diagnosis", "chains",
                 "evaluate", "fold in", "start"):  # fmt: skip
        ASKED[what](on_disk)


def test_every_chunk_is_read_once_in_a_pass_over_the_draws(on_disk, monkeypatch):
    read, real = [], StoredArray._read_chunk
    monkeypatch.setattr(StoredArray, "_read_chunk", lambda self, *where: read.append(where[:2]) or real(self, *where))
    factor = on_disk.factors[0]
    for chain in range(3):
        for draw in range(10):
            factor[chain, draw]
    assert read == [(chain, index) for chain in range(3) for index in range(3)]


def test_a_posterior_sees_the_draws_it_was_opened_with_while_the_run_goes_on(copy_on_disk):
    path, post = copy_on_disk, ac.open_run(copy_on_disk)
    before = [array.tobytes() for array in post.factors]
    longer = ac.AlloCore.resume(path, draws=13, progress=False).posterior_
    assert [array.tobytes() for array in post.factors] == before
    assert post.factors[0].shape[1] == 10
    assert [array[:, :10].tobytes() for array in longer.factors] == before
    assert isinstance(longer.factors[0], StoredArray), "a fit does not keep its draws in memory either"


def test_a_run_on_disk_can_be_saved_again(on_disk, in_memory, tmp_path):
    on_disk.save(tmp_path / "copy.zarr")
    assert [array.tobytes() for array in ac.open_run(tmp_path / "copy.zarr").factors] == [
        array.tobytes() for array in in_memory.factors
    ]


def test_a_run_that_is_gone_damaged_or_another_after_it_was_opened_is_told(copy_on_disk):
    path, post = copy_on_disk, ac.open_run(copy_on_disk)
    (path / "posterior" / "factors_who" / "1.2.0.0").write_bytes(b"")
    with refused_file(path, "draws 8 to 9 cannot be read from posterior/factors_who/1.2.0.0"):
        post.factors[0][1, 8]
    shutil.rmtree(path)
    with refused("path", str(path), "does not exist"):
        post.factors[0][0, 0]
    ac.AlloCore(3, store=path, **BURSTS, **SETTINGS | {"seed": 12, "draws": 1}).fit(TENSOR)
    with refused_file(path, "is no longer the run that was opened"):
        post.factors[0][0, 0]


def test_damaged_draws_of_a_large_run_are_told_when_it_is_opened_or_left_out(copy_on_disk):
    path, whole = copy_on_disk, ac.open_run(copy_on_disk).factors[0].copy()
    (path / "posterior" / "factors_who" / "1.1.0.0").write_bytes(b"")
    with refused_file(path, "draws 4 to 7 cannot be read"):
        ac.open_run(path)
    with warned("draws-left-out", path=str(path), left_out=4, draws=10):
        post = ac.open_run(path, on_error="drop")
    assert isinstance(post.factors[0], StoredArray)
    np.testing.assert_array_equal(post.factors[0], whole[:, [0, 1, 2, 3, 8, 9]])
    np.testing.assert_array_equal(post.factors[0][2, 4], whole[2, 8])


@pytest.mark.slow
def test_opening_and_rates_take_the_memory_of_a_draw_and_not_of_the_run(tmp_path, monkeypatch):
    rows = 8_000
    coords = np.stack([np.arange(rows), np.arange(rows) % 3])
    tensor = ac.CountTensor(coords, np.ones(rows, dtype=int), (rows, 3))
    monkeypatch.setattr(run_reader, "READ_WHOLE_BYTES", 0)
    path = tmp_path / "run.zarr"
    ac.CP(10, burn_in=0, draws=40, thin=1, seed=1, store=path, progress=False, chains=1).fit(tensor)
    whole = 8 * 40 * (rows + 3) * 10
    tracemalloc.start()
    post = ac.open_run(path)
    assert post.factors[0].nbytes + post.factors[1].nbytes == whole
    post.expected(tensor.coords[:, :100])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.25 * whole

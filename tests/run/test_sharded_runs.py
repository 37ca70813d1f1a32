"""Fits of sharded tensors: the bytes of a fit in memory, whoever thins the shards and whatever happens to them."""

import pickle
import threading
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.run.cluster import shards as shards_module
from allocore.run.cluster import tasks
from allocore.run.cluster.shards import ShardRange, cut_in_proportion
from allocore.run.cluster.tasks import Versions
from allocore.tensor import sharded as sharded_tensor
from allocore.tensor.shards import ShardFiles
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import assert_same
from support.serial_executor import SerialExecutor

SHAPE = (60, 40, 12)
SETTINGS = {"budget": 6, "burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 11, "progress": False}
SETTINGS |= {"likelihood": "poisson"}
MODELS = {
    "poisson": {},
    "bursts": {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"},
    "binary": {"likelihood": "bernoulli", "f0": 0.5},
}


def tensor(binary=False):
    rng = np.random.default_rng(5)
    coords = np.array([(length * rng.random(9000) ** 1.5).astype(int) for length in SHAPE])
    counts = 1 + rng.poisson(np.where(rng.random(9000) < 0.01, 400.0, 1.0))
    labels = [None, [f"b{i}" for i in range(40)], None]
    Y = ac.CountTensor(coords, counts, SHAPE, labels=labels).with_missing([(0, None, None), (None, 3, 1)])
    return Y.binarize() if binary else Y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tensors")
    tensor().save(folder / "y.zarr", shards=5)
    tensor(binary=True).save(folder / "binary.zarr", shards=5)
    return folder


@pytest.fixture
def sharded(folder):
    Y = ac.load_tensor(folder / "y.zarr")
    assert Y.shards > 3
    return Y


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Looks at workers are frequent; and this process knows no shards of an earlier test."""
    monkeypatch.setattr(shards_module, "_LOOK_FOR_WORKERS", 0.0)
    monkeypatch.setattr(tasks, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(shards_module, "_known", {})


def fitted(Y, **settings):
    return ac.AlloCore(**{**SETTINGS, **settings}).fit(Y).posterior_


@cache
def in_memory(**settings):
    """A fit of the tensor in memory, which the fits in shards must equal."""
    return fitted(tensor(), **settings)


class Crew(SerialExecutor):
    """Runs tasks at once, with any number of workers; `happens` gets the number of every task, and may raise."""

    def __init__(self, workers=3, happens=lambda number, task: None):
        self.num_workers, self._happens, self.tasks = workers, happens, 0

    def submit(self, function, /, *given, **options):
        self.tasks += 1
        number = self.tasks

        def call():
            self._happens(number, given[0])
            return function(*given)

        return super().submit(call)


def reporting(seconds_of_shard):
    """`thin_range`, which reports these seconds for each shard of a range, given the first one, whatever it took."""
    thin = shards_module.thin_range

    def reported(task, data):
        seconds = seconds_of_shard(task.where.first) * (task.where.last - task.where.first)
        return thin(task, data)._replace(seconds=seconds)

    return reported


@pytest.mark.parametrize("name", MODELS)
def test_shards_on_workers_give_the_bytes_of_a_fit_in_memory(folder, name):
    binary = name == "binary"
    Y = ac.load_tensor(folder / ("binary.zarr" if binary else "y.zarr"))
    alone = fitted(tensor(binary), **MODELS[name])
    assert_same(fitted(Y, executor=Crew(3), **MODELS[name]), alone)
    with ThreadPoolExecutor(2) as pool:
        assert_same(fitted(Y, executor=pool, threads=2, **MODELS[name]), alone)


@pytest.mark.parametrize("make", [lambda **each: ac.CP(4, **each), lambda **each: ac.Tucker((2, 3, 2), **each)])
def test_cp_and_tucker_are_fitted_in_shards(sharded, make):
    more = {name: value for name, value in SETTINGS.items() if name != "budget"}
    assert_same(make(**more, executor=Crew(2)).fit(sharded).posterior_, make(**more).fit(tensor()).posterior_)


@pytest.mark.slow
def test_processes_of_a_pool_give_the_bytes_of_a_fit_in_memory(sharded, tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert_same(fitted(sharded, executor=pool, store=tmp_path / "run.zarr"), in_memory())


def test_a_run_of_a_sharded_tensor_keeps_no_cells_and_goes_on_with_other_workers_and_with_none(sharded, tmp_path):
    path = tmp_path / "run.zarr"
    fitted(sharded, executor=Crew(2), store=path)
    assert not (path / "observed_data" / "counts").exists()
    assert ac.open_run(path).tensor == tensor()
    ac.AlloCore.resume(path, draws=7, executor=Crew(4), progress=False)
    assert_same(ac.AlloCore.resume(path, draws=9, progress=False).posterior_, in_memory(draws=9))


def test_cells_are_read_by_workers_only(sharded, tmp_path, monkeypatch):
    """The process that drives never reads all cells: they may not fit into its memory."""
    read = ShardFiles.cells

    def by_shard(files, first, last):
        assert last - first < files.sizes.shards, "all cells were read at once"
        return read(files, first, last)

    monkeypatch.setattr(ShardFiles, "cells", by_shard)
    monkeypatch.setattr(sharded_tensor, "_MAX_CELLS_TO_DESCRIBE", 100)  # as if the tensor were very large
    path = tmp_path / "run.zarr"
    model = ac.AlloCore(**SETTINGS, executor=Crew(3), store=path).fit(sharded)
    post = ac.open_run(path)
    assert_same(post, model.posterior_)
    post.show()
    assert post.consensus().classes().shape[1] > 10
    assert "they stay on disk" in " ".join(post.diagnose().sentences)
    assert "sharded_tensor" in post.to_datatree()["observed_data"]


def test_a_tensor_that_was_moved_is_named_when_its_cells_are_needed(tmp_path):
    tensor().save(tmp_path / "y.zarr", shards=5)
    path = tmp_path / "run.zarr"
    post = fitted(ac.load_tensor(tmp_path / "y.zarr"), store=path)
    (tmp_path / "y.zarr").rename(tmp_path / "elsewhere.zarr")
    moved = ac.open_run(path)
    assert_same(moved, post)
    assert (moved.tensor.shape, moved.tensor.labels, moved.tensor.missing) == (SHAPE, tensor().labels, tensor().missing)
    for read in (lambda: moved.tensor.counts, lambda: moved.tensor.mode_totals(0), lambda: next(moved.tensor.blocks())):
        with refused("path", str(tmp_path / "y.zarr"), "does not exist"):
            read()
    with refused("path", str(tmp_path / "y.zarr"), "does not exist"):
        ac.AlloCore.resume(path, draws=9, progress=False)
    tensor(binary=True).save(tmp_path / "y.zarr", shards=5)
    with refused("path", str(tmp_path / "y.zarr"), "has another tensor now"):
        ac.AlloCore.resume(path, draws=9, progress=False)


def test_lost_tasks_are_repeated_and_change_no_byte(sharded):
    def lose(number, task):
        if number % 3 == 0:
            raise ConnectionError("the worker is gone")

    with warned("task-repeated"):
        post = fitted(sharded, executor=Crew(3, lose))
    assert_same(post, in_memory())


@pytest.mark.slow
def test_counts_beyond_32_bits_come_home(tmp_path):
    Y = ac.CountTensor([[0, 1, 2, 0, 1], [0, 1, 2, 1, 2], [0, 1, 0, 1, 0]], [6 * 10**9, 3, 5, 7 * 10**9, 2], (3, 3, 2))
    Y.save(tmp_path / "y.zarr", shards=1)
    assert_same(fitted(ac.load_tensor(tmp_path / "y.zarr"), executor=Crew(2)), fitted(Y))


def test_a_worker_keeps_its_own_range_and_one_of_another(sharded):
    files = sharded.files
    ranges = [ShardRange(str(files.path), files.fingerprint, n, n + 1) for n in range(3)]
    for number in (0, 1, 0, 2):
        shards_module.load_range((ranges[number], 2), None)
    assert list(shards_module._known) == [ranges[0], ranges[2]]
    shards_module.load_range((ranges[0]._replace(last=2), 2), None)
    assert list(shards_module._known) == [ranges[2], ranges[0]._replace(last=2)]


def test_the_last_whole_sweep_is_saved_when_the_workers_are_gone(sharded, tmp_path):
    def end(number, task):
        if number > 30:
            raise RuntimeError("cannot schedule new futures")

    class Ended(Crew):
        def submit(self, function, /, *given, **options):
            end(self.tasks, None)
            return super().submit(function, *given)

    path = tmp_path / "run.zarr"
    with refused_file("", "the executor accepts no more tasks"):
        fitted(sharded, executor=Ended(3), store=path, threads=1)
    assert any((path / "checkpoints").rglob("*.npz")), "no work is lost"
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, in_memory())


def test_a_tensor_is_found_beside_its_run_and_a_resume_that_cannot_be_changes_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    tensor().save(tmp_path / "a" / "y.zarr", shards=5)
    fitted(ac.load_tensor(tmp_path / "a" / "y.zarr"), store=tmp_path / "a" / "run.zarr")
    (tmp_path / "a").rename(tmp_path / "b")
    run = tmp_path / "b" / "run.zarr"
    assert_same(ac.AlloCore.resume(run, draws=5, progress=False).posterior_, in_memory(draws=5))
    (tmp_path / "b" / "y.zarr").rename(tmp_path / "gone.zarr")
    settings = (run / ".zattrs").read_text()
    with refused("path", rule="put it back, or next to the run"):
        ac.AlloCore.resume(run, draws=9, progress=False)
    assert (run / ".zattrs").read_text() == settings
    told = " ".join(ac.open_run(run).diagnose().sentences)
    assert "was not judged" in told
    assert "y.zarr is not there" in told


def test_a_run_whose_tensor_is_damaged_can_still_be_read(tmp_path):
    tensor().save(tmp_path / "y.zarr", shards=5)
    path = tmp_path / "run.zarr"
    post = fitted(ac.load_tensor(tmp_path / "y.zarr"), store=path)
    (tmp_path / "y.zarr" / "labels_1_utf8" / "0").unlink()
    again = ac.open_run(path)
    assert_same(again, post)
    assert again.tensor.labels == tensor().labels
    again.show()
    with refused("path", str(tmp_path / "y.zarr"), "its labels have changed"):
        _ = again.tensor.counts


def test_if_all_tasks_are_lost_the_run_stops_with_a_sentence_and_can_be_resumed(sharded, tmp_path):
    def lose(number, task):
        if number > 30:
            raise ConnectionError("the worker is gone")

    path = tmp_path / "run.zarr"
    with (
        warned("task-repeated"),
        refused_file("", "11 tasks failed in a row, "),
    ):
        fitted(sharded, executor=Crew(3, lose), store=path)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, in_memory())


def test_a_task_that_hangs_is_given_to_another_worker_and_its_late_answer_does_no_harm(sharded, monkeypatch):
    """The task hangs until another worker has answered it."""
    monkeypatch.setattr(shards_module, "_SLOW_SECONDS", 0.05)
    monkeypatch.setattr(shards_module, "_SLOW_FACTOR", 0.0)
    answered, hung = defaultdict(threading.Event), []

    class Threads(Crew):
        def submit(self, function, /, task, data, **options):
            self.tasks += 1
            number = self.tasks
            event = answered[task[0] if isinstance(task, tuple) else (task.where, task.key.sweep)]

            def call():
                if number == 9:
                    hung.append(event.wait(600.0))
                answer = function(task, data)
                event.set()
                return answer

            return pool.submit(call)

    with ThreadPoolExecutor(4) as pool:
        post = fitted(sharded, executor=Threads(3), chains=1)
    assert hung == [True], "another worker had answered"
    assert_same(post, in_memory(chains=1))


def test_workers_that_come_and_go_get_shards_of_their_own(sharded):
    crew, seen = Crew(1), set()

    def come_and_go(number, task):
        where = task[0] if isinstance(task, tuple) else task.where
        seen.add((where.first, where.last))
        crew.num_workers = {0: 1, 1: 3, 2: 2}[number // 12 % 3]

    crew._happens = come_and_go
    assert_same(fitted(sharded, executor=crew), in_memory())
    assert len(seen) >= 1 + 3 + 2
    assert (0, sharded.shards) in seen


def test_a_slow_worker_gets_fewer_shards(sharded, monkeypatch):
    monkeypatch.setattr(shards_module, "_RECUT_SWEEPS", 3)
    monkeypatch.setattr(shards_module, "thin_range", reporting(lambda first: 5.0 if first == 0 else 1.0))
    lengths = []

    def note(number, task):
        if not isinstance(task, tuple) and task.where.first == 0:
            lengths.append(task.where.last)

    assert_same(fitted(sharded, executor=Crew(2, note), chains=1), in_memory(chains=1))
    assert (lengths[0], lengths[-1]) == (2, 1)
    assert sum(one != two for one, two in pairwise(lengths)) == 1, "the shards are cut anew once, and stay so"


@pytest.mark.parametrize("speeds", [[1.0], [1.0, 1.0], [5.0, 1.0, 1.0], [1e-9, 1.0], [1.0] * 7])
def test_every_worker_has_a_shard_and_every_shard_a_worker(speeds):
    edges = cut_in_proportion(7, speeds)
    assert (edges[0], edges[-1], len(edges)) == (0, 7, len(speeds) + 1)
    assert np.diff(edges).min() >= 1


def test_shards_that_workers_cannot_reach_are_one_sentence(sharded, monkeypatch):
    def unreachable(files, first, last):
        raise ac.InputError("path", str(files.path), "must be a sharded tensor")

    monkeypatch.setattr(shards_module.ShardFiles, "cells", unreachable)
    with refused(
        "executor", NO_VALUE, "must be a sharded tensor. Every worker must be able to read the tensor"
    ) as caught:
        fitted(sharded, executor=Crew(2))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value), "errors of workers are pickled"


def test_too_little_memory_for_shards_is_one_sentence(sharded, monkeypatch):
    from allocore import _memory as available_memory

    monkeypatch.setattr(available_memory, "available_memory", lambda: 1000)
    with refused("executor", NO_VALUE, "that cannot load shards"):
        fitted(sharded, executor=Crew(2))


def test_workers_with_other_versions_are_refused(sharded, monkeypatch):
    facts = shards_module.load_range

    def older(given, data):
        return facts(given, data)._replace(versions=Versions.here()._replace(sampler=0))

    monkeypatch.setattr(shards_module, "load_range", older)
    with refused("executor", NO_VALUE, "sampler version 0"):
        fitted(sharded, executor=Crew(2))


def test_a_worker_that_joins_later_with_other_versions_is_refused_with_its_first_answer(sharded, monkeypatch):
    thin, here = shards_module.thin_range, Versions.here()

    def later(task, data):
        found = thin(task, data)
        return found._replace(versions=here._replace(rounding="other")) if task.key.sweep == 5 else found

    monkeypatch.setattr(shards_module, "thin_range", later)
    with refused("executor", NO_VALUE, "rounds as 'other'"):
        fitted(sharded, executor=Crew(2))


def test_a_worker_keeps_its_shards_until_the_tensor_is_cut_anew(sharded, monkeypatch):
    """All shards take equally long, so there is no better cut, although one is looked for after every sweep."""
    monkeypatch.setattr(shards_module, "_RECUT_SWEEPS", 1)
    monkeypatch.setattr(shards_module, "thin_range", reporting(lambda first: 1.0))
    read, loads = shards_module._read, []
    monkeypatch.setattr(shards_module, "_read", lambda where: loads.append((where.first, where.last)) or read(where))
    fitted(sharded, executor=Crew(2))
    assert loads == [(0, 2), (2, sharded.shards)], "each range was read once, for all sweeps of both chains"
    fitted(sharded, executor=Crew(3))
    assert len(shards_module._known) == 3


def usual(*seconds):
    times = shards_module._Times()
    times.extend(seconds)
    return times.usual()


def test_the_usual_seconds_of_a_worker_do_not_depend_on_one_disturbed_task():
    assert usual() == 0.0
    assert usual(20.0, 0.1, 0.1, 0.1) == pytest.approx(0.1)
    assert usual(0.1, 0.1, 0.1, 0.1, 3.0) == pytest.approx(0.1)


def test_the_usual_seconds_of_a_worker_that_has_become_slower_soon_rise():
    assert usual(*[0.1] * 50, 0.2, 0.2, 0.2) == pytest.approx(0.2)

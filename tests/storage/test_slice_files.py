"""Draws that come home as files in the folder of the run: the same bytes, whoever reaches it, and nothing is left."""

import os
import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.run.cluster import chains as executors
from allocore.run.cluster import tasks
from allocore.storage.state_files import open_slices
from support.findings import warned
from support.same_draws import assert_same
from support.tiers import parametrize_few

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "f0": 1.0, "burn_in": 7, "draws": 6, "thin": 2, "chains": 2, "seed": 11, "progress": False}
SETTINGS |= {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}


def fitted(**settings):
    return ac.AlloCore(**{**SETTINGS, **settings}).fit(TENSOR).posterior_


@pytest.fixture(scope="module")
def alone():
    return fitted()


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    monkeypatch.setattr(executors, "_LEAST_SWEEPS", 5)
    monkeypatch.setattr(executors, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(tasks, "_known", {})


class Watched(Executor):
    """Runs tasks at once in this thread; what they are asked, and what they answer, can be changed."""

    def __init__(self, asked=lambda wanted: wanted, answered=lambda answer: None):
        self.asked, self.answered, self.outcomes = asked, answered, []

    def submit(self, function, /, wanted, plan):
        future, answer = Future(), function(self.asked(wanted), plan)
        if hasattr(answer, "states"):
            self.answered(answer)
            self.outcomes.append(answer)
        future.set_result(answer)
        return future


def test_a_worker_that_reaches_the_run_sends_no_draws(tmp_path, alone):
    executor = Watched()
    post = fitted(executor=executor, store=tmp_path / "run.zarr")
    assert_same(post, alone)
    assert len(executor.outcomes) == 8, "19 sweeps of two chains, five at a time"
    assert all(outcome.states is None for outcome in executor.outcomes)
    assert not (tmp_path / "run.zarr" / "slices").exists()


def test_without_a_run_on_disk_draws_come_with_the_answers(alone):
    executor = Watched()
    assert_same(fitted(executor=executor), alone)
    assert all(outcome.states is not None for outcome in executor.outcomes)


@pytest.mark.parametrize("where", ["another folder", "no folder", "a folder of another run"])
def test_a_worker_that_does_not_reach_the_run_sends_its_draws_and_the_user_is_told_once(tmp_path, alone, where):
    def elsewhere(wanted):
        changed = {"token": "0" * 32} if where == "a folder of another run" else {"folder": str(tmp_path / where)}
        return wanted._replace(folder=wanted.folder._replace(**changed))

    (tmp_path / "another folder").mkdir()
    with warned("draws-through-executor", why="not-reached") as told:
        post = fitted(executor=Watched(asked=elsewhere), store=tmp_path / "run.zarr")
    assert len(told) == 1
    assert_same(post, alone)
    assert not list((tmp_path / "another folder").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_worker_that_may_not_write_sends_its_draws(tmp_path, alone):
    def locked(wanted):
        os.chmod(wanted.folder.folder, 0o500)
        return wanted

    with warned("draws-through-executor", why="not-reached"):
        assert_same(fitted(executor=Watched(asked=locked), store=tmp_path / "run.zarr"), alone)


@parametrize_few("content", [None, b"", b"PK", pickle.dumps([1])], ids=["gone", "empty", "cut", "pickle"])
def test_a_file_that_cannot_be_read_is_not_believed_and_its_slice_is_made_again(tmp_path, alone, content):
    damaged = set()

    def damage(outcome):
        for path in (tmp_path / "run.zarr" / "slices").glob("0-*.npz"):
            damaged.add(path)
            path.unlink()
            if content is not None:
                path.write_bytes(content)

    with warned("draws-through-executor", why="not-read") as told:
        post = fitted(executor=Watched(answered=damage), store=tmp_path / "run.zarr")
    assert (len(told), len(damaged)) == (1, 1)
    assert_same(post, alone)


def test_a_slice_of_another_run_is_not_taken(tmp_path, alone):
    """A state that does not fit the plan, such as one of more classes, is refused before a kernel sees it."""
    other = tmp_path / "other.zarr"
    kept = []

    def keep(outcome):
        kept.extend(path.read_bytes() for path in (other / "slices").glob("0-1-5.npz"))

    fitted(budget=5, executor=Watched(answered=keep), store=other)

    def put_in_place(outcome):
        for path in (tmp_path / "run.zarr" / "slices").glob("0-1-5.npz"):
            path.write_bytes(kept[0])

    with warned("draws-through-executor", why="not-read"):
        post = fitted(executor=Watched(answered=put_in_place), store=tmp_path / "run.zarr")
    assert_same(post, alone)


def test_the_file_of_a_slice_has_the_same_bytes_whoever_writes_it(tmp_path):
    contents = []
    for name in ("one", "two"):
        found = {}

        def keep(outcome, folder=tmp_path / name / "slices", found=found):
            found.update({path.name: path.read_bytes() for path in folder.glob("*.npz")})

        fitted(executor=Watched(answered=keep), store=tmp_path / name, chains=1, draws=4)
        contents.append(found)
    assert contents[0] == contents[1]
    assert sorted(contents[0])[:2] == ["0-1-5.npz", "0-11-15.npz"]


def test_a_run_with_slices_on_their_way_can_be_opened_and_what_a_killed_driver_left_is_removed(tmp_path, alone):
    path = tmp_path / "run.zarr"
    fitted(draws=4, store=path)
    open_slices(path)
    trap = tmp_path / "trap"

    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(trap),)

    for name in ("0-1-5.npz", "1-900-905.npz", ".0-6-10.npz.abcdef.tmp"):
        (path / "slices" / name).write_bytes(pickle.dumps(Payload()))
    assert ac.open_run(path).core_values.shape[1] == 4
    with xr.open_datatree(path, engine="zarr") as tree:
        assert tree["posterior"].sizes["draw"] == 4
    with ThreadPoolExecutor(1) as pool:
        assert_same(ac.AlloCore.resume(path, draws=6, executor=pool, progress=False).posterior_, alone)
    assert not (path / "slices").exists()
    assert not trap.exists()


@pytest.mark.parametrize("how", ["here", "on an executor"])
def test_in_a_run_of_a_stranger_a_link_is_not_followed_and_nothing_outside_is_removed(tmp_path, alone, how):
    path, outside = tmp_path / "run.zarr", tmp_path / "outside"
    fitted(draws=4, store=path)
    outside.mkdir()
    (outside / "0-1-5.npz").write_text("precious")
    (path / "slices").symlink_to(outside, target_is_directory=True)
    executor = None if how == "here" else Watched()
    assert_same(ac.AlloCore.resume(path, draws=6, executor=executor, progress=False).posterior_, alone)
    assert [each.read_text() for each in outside.iterdir()] == ["precious"]


def test_a_file_in_the_way_of_the_folder_sends_draws_through_the_executor(tmp_path, alone):
    path = tmp_path / "run.zarr"
    fitted(draws=4, store=path)
    (path / "slices").write_text("in the way")
    assert_same(ac.AlloCore.resume(path, draws=6, executor=Watched(), progress=False).posterior_, alone)


def test_the_newest_sweep_of_every_slice_is_shown(monkeypatch):
    shown = []

    class Bar:
        def show(self, chain, sweep, info):
            shown.append((chain, sweep))

        def close(self):
            shown.append("closed")

    monkeypatch.setattr("allocore.estimators.progress_bar", lambda *_: Bar())
    fitted(executor=Watched(), chains=1, draws=4)
    assert shown[0] == (0, 5), "and not the first, after which the bar rests for a moment"
    assert shown[-2:] == [(0, 15), "closed"]

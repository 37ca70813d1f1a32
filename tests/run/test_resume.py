"""A run goes on where it was left: to the same bytes, after any end, to any length."""

import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import allocore as ac
from allocore.run import chains as chains_module
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import assert_same, kill_and_resume, save_always
from support.tiers import by_tier, parametrize_few

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4))).with_missing([(0, None, 1)])
SETTINGS = {"burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 11, "progress": False}
MODELS = [
    ac.AlloCore(3, (3, 2, 3), f0=1.0, alpha0=3.0, likelihood="poisson"),
    ac.CP(3, a0=2.0, likelihood="poisson"),
    ac.Tucker((2, 1, 2), e0=0.5, likelihood="poisson"),
]


def model_like(model, **settings):
    return type(model)(**{**model.get_params(), **SETTINGS, **settings})


@cache
def whole_run(number, draws=4):
    """The run of a model that is never stopped or stored."""
    return model_like(MODELS[number], draws=draws).fit(TENSOR).posterior_


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory):
    """A folder with a finished run of each model: 0.zarr, 1.zarr, 2.zarr."""
    folder = tmp_path_factory.mktemp("finished")
    for number, model in enumerate(MODELS):
        model_like(model, store=folder / f"{number}.zarr").fit(TENSOR)
    return folder


@pytest.fixture
def finished_copy(finished_runs, tmp_path):
    """Call with the number of a model: the path of a finished run that may be changed."""
    return lambda number: shutil.copytree(finished_runs / f"{number}.zarr", tmp_path / "run.zarr")


# Killed for real


def test_a_run_that_is_killed_once_goes_on_to_the_bytes_of_one_that_is_not(tmp_path):
    kill_and_resume(tmp_path, "steps", kills=1)


@pytest.mark.slow
# Many steps: test_rounds.py, where the same run goes on with later sweeps.
@pytest.mark.parametrize(("what", "kills"), [("moments", 30), ("signals", 6)])
def test_a_run_that_is_killed_often_goes_on_to_the_bytes_of_one_that_is_not(tmp_path, what, kills):
    kill_and_resume(tmp_path, what, kills)


# Stopped


@parametrize_few(
    ("which", "number"),
    by_tier([(0, 1), (0, 7), (0, 12), (0, 21), (1, 6), (2, 12)], range(len(MODELS)), [1, 6, 7, 12, 21]),
)
def test_a_run_that_is_stopped_goes_on_to_the_bytes_of_one_that_is_not(tmp_path, stop_at, which, number):
    model, whole = MODELS[which], whole_run(which)
    path = tmp_path / "run.zarr"
    stop_at(number)
    how = rf"continue with {type(model).__name__}.resume\('.*run.zarr'\) or: allocore resume .*run.zarr$"
    if number < 10:
        with pytest.raises(KeyboardInterrupt, match=how):
            model_like(model, store=path, threads=1).fit(TENSOR)
    else:
        with warned("stopped", planned_draws=4, chains=2, how_to_resume=re.compile(how).match):
            part = model_like(model, store=path, threads=1).fit(TENSOR).posterior_
        assert not part.finished
    resumed = type(model).resume(path, progress=False)
    assert_same(resumed.posterior_, whole)
    assert resumed.posterior_.finished
    assert_same(ac.open_run(path), whole)


def test_a_run_goes_on_on_another_number_of_threads(tmp_path, stop_at):
    whole = whole_run(0)
    stop_at(9)
    with pytest.raises(KeyboardInterrupt):
        model_like(MODELS[0], store=tmp_path / "run.zarr", threads=1).fit(TENSOR)
    assert_same(ac.AlloCore.resume(tmp_path / "run.zarr", threads=5, progress=False).posterior_, whole)


# Longer


@parametrize_few("which", range(len(MODELS)), quick=1)
def test_a_finished_run_can_be_made_longer_to_the_bytes_of_a_long_one(finished_copy, which):
    path = finished_copy(which)
    for draws in (5, 9):
        longer = type(MODELS[which]).resume(path, draws=draws, progress=False)
        assert longer.draws == draws
        assert longer.posterior_.core_values.shape[1] == draws
    assert_same(longer.posterior_, whole_run(which, 9))
    assert_same(ac.open_run(path), whole_run(which, 9))


def test_a_longer_run_that_is_stopped_keeps_its_new_length(finished_copy, stop_at):
    path, longer = finished_copy(0), whole_run(0, 9)
    stop_at(3)
    with warned("stopped", draws=4, planned_draws=9):
        ac.AlloCore.resume(path, draws=9, threads=1, progress=False)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, longer)


# Later: the planned sweeps, 11 of each chain, become burn-in


@cache
def later_run(sweeps=23, chains=2):
    """The run that had the later schedule from the start."""
    schedule = {23: {"burn_in": 11, "thin": 3}, 25: {"burn_in": 13, "thin": 3}}[sweeps]
    return model_like(MODELS[0], **schedule, chains=chains).fit(TENSOR).posterior_


@pytest.mark.parametrize("where", [{"threads": 1}, "executor"])
def test_a_run_with_later_sweeps_has_the_bytes_of_one_that_had_them_from_the_start(finished_copy, where):
    path = finished_copy(0)
    with ThreadPoolExecutor(2) as pool:
        how = {"executor": pool} if where == "executor" else where
        model = ac.AlloCore.resume(path, sweeps=23, progress=False, **how)
    assert (model.burn_in, model.draws, model.thin, model.sweeps) == (11, 4, 3, "auto")
    assert_same(model.posterior_, later_run())
    assert_same(ac.open_run(path), later_run())
    assert_same(ac.AlloCore.resume(path, sweeps=23, progress=False).posterior_, later_run())


@pytest.mark.parametrize("again", [{}, {"sweeps": 23}])
@pytest.mark.parametrize("stop_in", [3, 19])
def test_a_run_with_later_sweeps_that_is_stopped_goes_on_to_the_same_bytes(finished_copy, stop_at, stop_in, again):
    path = finished_copy(0)
    stop_at(stop_in)
    ends = pytest.raises(KeyboardInterrupt) if stop_in == 3 else warned("stopped", draws=3, planned_draws=4)
    with ends:
        ac.AlloCore.resume(path, sweeps=23, threads=1, progress=False)
    assert_same(ac.AlloCore.resume(path, progress=False, **again).posterior_, later_run())


def test_later_sweeps_and_more_chains_go_together(finished_copy):
    path = finished_copy(0)
    assert_same(ac.AlloCore.resume(path, sweeps=25, chains=3, progress=False).posterior_, later_run(25, 3))


def test_an_unfinished_run_can_get_later_sweeps(tmp_path, stop_at):
    path = tmp_path / "run.zarr"
    stop_at(7)
    with pytest.raises(KeyboardInterrupt):
        model_like(MODELS[0], store=path, threads=1).fit(TENSOR)
    assert_same(ac.AlloCore.resume(path, sweeps=23, progress=False).posterior_, later_run())


def test_damaged_draws_do_not_matter_once_later_ones_replace_them(finished_copy):
    path = finished_copy(0)
    for chunk in (path / "posterior" / "core_values").glob("[0-9]*"):
        chunk.write_bytes(b"damaged")
    with pytest.raises(ac.StoreError):
        ac.AlloCore.resume(path)
    assert_same(ac.AlloCore.resume(path, sweeps=23, progress=False).posterior_, later_run())


def test_a_run_that_began_at_another_can_get_later_sweeps(tmp_path):
    path, start = tmp_path / "run.zarr", whole_run(0)
    straight = model_like(MODELS[0], burn_in=11, thin=3).fit(TENSOR, start=start).posterior_
    model_like(MODELS[0], store=path).fit(TENSOR, start=start)
    assert_same(ac.AlloCore.resume(path, sweeps=23, progress=False).posterior_, straight)


def test_folded_rows_cannot_get_later_sweeps(tmp_path):
    path, new = tmp_path / "rows.zarr", ac.as_tensor(np.ones((6, 5, 1), dtype=int))
    whole_run(0).fold_in(new, progress=False).save(path)
    with refused_file(path):
        ac.AlloCore.resume(path, sweeps=2300)


@pytest.mark.parametrize("sweeps", [0, 1.5, "23", 10, 12, 14])
def test_too_few_sweeps_for_new_draws_are_refused_and_the_run_stays_as_it_is(finished_copy, sweeps):
    path = finished_copy(0)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    with refused("sweeps", sweeps):
        ac.AlloCore.resume(path, sweeps=sweeps)
    with refused("sweeps", 23, "must be left out if draws is given"):
        ac.AlloCore.resume(path, sweeps=23, draws=9)
    assert before == {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_resuming_a_finished_run_draws_nothing_and_gives_its_posterior(finished_copy, monkeypatch):
    path, whole = finished_copy(0), whole_run(0)
    before = {file: file.stat().st_mtime_ns for file in (path / "posterior").rglob("[0-9]*")}
    monkeypatch.setattr(chains_module, "sweep", lambda *_: pytest.fail("a sweep was made"))
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, whole)
    assert {file: file.stat().st_mtime_ns for file in (path / "posterior").rglob("[0-9]*")} == before


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_resumed_model_has_the_settings_of_the_one_that_was_fitted(finished_copy, model):
    path = finished_copy(MODELS.index(model))
    resumed = type(model).resume(path, threads=1, progress=False)
    assert resumed.get_params() == {**model_like(model).get_params(), "threads": 1, "store": path}


# Two at once


def test_a_run_that_is_being_written_cannot_be_written_twice_but_can_be_read(tmp_path, monkeypatch):
    path, real, sizes = tmp_path / "run.zarr", chains_module.sweep, []

    def sweep(*arguments):
        with refused_file(path, "is being written by another process"):
            ac.CP.resume(path)
        sizes.append(ac.open_run(path).core_values.shape[1])
        return real(*arguments)

    save_always(monkeypatch)
    monkeypatch.setattr(chains_module, "sweep", sweep)
    model_like(MODELS[1], burn_in=0, thin=1, chains=1, store=path).fit(TENSOR)
    assert sizes == [0, 1, 2, 3]


@pytest.mark.slow
def test_two_processes_cannot_write_one_run_but_another_can_read_it(tmp_path):
    path = tmp_path / "run.zarr"
    code = (
        "import sys, numpy as np, allocore as ac\n"
        "from allocore.storage import run_writer as zarr_store\n"
        "zarr_store.SAVE_INTERVAL = 0.0\n"
        "Y = np.random.default_rng(5).poisson(1.2, (6, 5, 4))\n"
        "ac.CP(2, burn_in=0, draws=100_000, thin=1, chains=1, seed=1, store=sys.argv[1], progress=False).fit(Y)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, path], stderr=subprocess.PIPE) as process:
        guard = threading.Timer(600, process.kill)
        guard.start()
        try:
            while not (path / "checkpoints" / "0").is_dir():
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.05)
            with refused_file(path, "is being written by another process"):
                ac.CP.resume(path)
            sizes = []
            while len(set(sizes)) < 3:
                sizes.append(ac.open_run(path).core_values.shape[1])
            assert sizes == sorted(sizes)
        finally:
            process.kill()
            guard.cancel()
    done = ac.open_run(path).core_values.shape[1]
    assert sizes[-1] <= done < 100_000, "what was seen while it ran is there, and it was killed before its end"


# Mistakes


def test_fit_never_writes_into_a_run_that_exists(finished_copy):
    path = finished_copy(0)
    for tensor in (TENSOR, ac.as_tensor(np.ones((2, 2), dtype=int))):
        with refused("store", str(path), f"'allocore resume {path}' continues it"):
            ac.AlloCore(3, store=path, likelihood="poisson").fit(tensor)
    assert_same(ac.open_run(path), whole_run(0))


def test_a_run_of_another_model_is_named(finished_copy):
    path = finished_copy(1)
    with refused("path", str(path), "CP"):
        ac.AlloCore.resume(path)


@pytest.mark.parametrize(("name", "value"), [("draws", 0), ("draws", 1.5), ("threads", 0), ("threads", "2")])
def test_wrong_numbers_are_named_and_leave_the_run_free(finished_copy, name, value):
    path = finished_copy(0)
    with refused(name, value, "at least 1"):
        ac.AlloCore.resume(path, **{name: value})
    with refused("draws", 3, "must be at least the 4"):
        ac.AlloCore.resume(path, draws=3)
    ac.AlloCore.resume(path, progress=False)


@pytest.mark.parametrize("value", [3, "", None, ["a"]])
def test_a_path_must_be_a_path(value):
    with refused("path", value, "must be a path"):
        ac.AlloCore.resume(value)
    if value is not None:
        with refused("store", value, "must be a path"):
            ac.AlloCore(3, store=value, likelihood="poisson").fit(TENSOR)


@pytest.mark.parametrize("kind", ["nothing", "file", "folder"])
def test_what_is_not_a_run_is_told_apart(tmp_path, kind):
    path = tmp_path / "run.zarr"
    if kind == "file":
        path.write_text("hello")
    elif kind == "folder":
        path.mkdir()
    rule = {"nothing": "does not exist", "file": "is a file", "folder": "is a folder without a run"}[kind]
    for attempt in (ac.open_run, ac.AlloCore.resume):
        with refused("path", str(path), rule):
            attempt(path)

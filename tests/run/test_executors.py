"""Chains on executors: the same bytes as in one process, whatever happens to the workers."""

import os
import re
import signal
import subprocess
import sys
import warnings
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.run import chains as chains_module
from allocore.run.cluster import chains as executors
from allocore.run.cluster import tasks
from allocore.run.cluster.tasks import DataWanted, Versions
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import assert_same
from support.serial_executor import SerialExecutor

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "f0": 1.0, "burn_in": 7, "draws": 12, "thin": 2, "chains": 3, "seed": 11, "progress": False}
BURSTS = {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}


def fitted(**settings):
    return ac.AlloCore(**{**SETTINGS, **settings}).fit(TENSOR).posterior_


@cache
def in_one_process(**settings):
    """The fit that all others must equal."""
    return fitted(**settings)


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    """Slices of three sweeps, so that a chain has many; and workers of this process that know no run yet."""
    monkeypatch.setattr(executors, "_LEAST_SWEEPS", 3)
    monkeypatch.setattr(executors, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(tasks, "_known", {})


def lose(*_):
    raise ConnectionError("the worker is gone")


class Faulty(SerialExecutor):
    """Runs tasks at once in this thread, and loses those for whose numbers `loses` is true."""

    def __init__(self, loses=lambda number: False):
        self.loses, self.tasks = loses, 0

    def submit(self, function, /, *arguments):
        self.tasks += 1
        return super().submit(lose if self.loses(self.tasks) else function, *arguments)


@pytest.mark.parametrize("more", [{}, BURSTS], ids=["Poisson", "bursts"])
def test_threads_of_an_executor_give_the_draws_of_one_process(more):
    with ThreadPoolExecutor(2) as pool:
        assert_same(fitted(executor=pool, **more), in_one_process(**more))


@pytest.mark.slow
def test_processes_give_the_draws_of_one_process(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        post = fitted(executor=pool, threads=2, store=tmp_path / "run.zarr")
    assert_same(post, in_one_process())
    assert_same(ac.open_run(tmp_path / "run.zarr"), in_one_process())


def test_a_worker_is_sent_the_plan_at_the_start_and_keeps_it():
    sent = []

    class Watched(Faulty):
        def submit(self, function, /, wanted, plan):
            sent.append(plan is not None)
            return super().submit(function, wanted, plan)

    fitted(executor=Watched())
    assert not any(sent[:3]), "every chain begins with the name of the run alone"
    assert all(sent[3:6]), "the worker did not know it"
    assert len(sent) == 3 + 3 * 11, "31 sweeps of three chains, three at a time"
    assert not any(sent[6:])


def test_lost_tasks_are_repeated_and_change_no_byte():
    executor = Faulty(loses=lambda number: number % 3 == 0)
    with warned("task-repeated", error="ConnectionError('the worker is gone')"):
        post = fitted(executor=executor)
    assert_same(post, in_one_process())


@pytest.mark.slow
def test_if_all_tasks_are_lost_the_run_stops_and_can_be_resumed_without_an_executor(tmp_path):
    path = tmp_path / "run.zarr"
    warnings.simplefilter("ignore")  # pytest brings its filters back
    with refused_file("", "11 tasks failed in a row") as caught:
        fitted(executor=Faulty(loses=lambda number: number > 20), store=path)
    assert "Continue with AlloCore" in caught.value.problem
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, in_one_process())


def test_a_run_goes_on_on_another_executor(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"

    class Interrupted(Faulty):
        def submit(self, function, /, *arguments):
            if self.tasks == 25:
                signal.raise_signal(signal.SIGINT)
            return super().submit(function, *arguments)

    with warned("stopped", planned_draws=12, chains=3, planned_chains=3):
        post = fitted(executor=Interrupted(), store=path)
    assert 0 < post.core_values.shape[1] < 12
    with ThreadPoolExecutor(4) as pool:
        assert_same(ac.AlloCore.resume(path, executor=pool, progress=False).posterior_, in_one_process())


def test_a_broken_pool_is_one_sentence():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(Exception):  # noqa: B017, PT011  whatever the pool says when its worker dies
            pool.submit(os._exit, 1).result()
        with refused_file("", "the executor accepts no more tasks: "):
            fitted(executor=pool)


def test_a_pool_that_is_shut_down_is_one_sentence():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with refused_file("", "the executor accepts no more tasks: cannot schedule new futures"):
        fitted(executor=pool)


def test_silence_has_an_end(monkeypatch):
    class Silent(Faulty):
        def submit(self, function, /, *arguments):
            return Future()

    now = 0.0

    def wait(futures, **options):
        nonlocal now
        now += 100.0
        return set(), futures

    monkeypatch.setattr(tasks, "monotonic", lambda: now)
    monkeypatch.setattr(tasks, "wait", wait)
    with refused_file("", "no worker has answered for 700 seconds"):
        fitted(executor=Silent())


@pytest.mark.parametrize(
    ("theirs", "rule"),
    [
        (Versions.here()._replace(sampler=1), "sampler version 1"),
        (Versions.here()._replace(packages={**Versions.here().packages, "numba": "0.1"}), "numba 0.1 (here "),
        (Versions.here()._replace(rounding="0123"), "arithmetic rounds as '0123'"),
        (Versions(1, {}), "sampler version 1"),
    ],
)
def test_workers_with_other_versions_are_refused(monkeypatch, theirs, rule):
    class Other(Faulty):
        def submit(self, function, /, *arguments):
            future = Future()
            future.set_result(DataWanted(theirs))
            return future

    with refused("executor", NO_VALUE, rule):
        fitted(executor=Other())


@pytest.mark.parametrize("executor", [4, "tcp://nowhere:1", object()])
def test_what_is_no_executor_is_refused_before_anything_is_written(tmp_path, executor):
    with refused("executor", f"a {type(executor).__name__}", "must be a dask.distributed.Client"):
        fitted(executor=executor, store=tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())


def test_an_error_of_the_model_is_told_as_in_one_process_and_not_repeated(monkeypatch):
    def check(info, chain, sweep, spec):
        raise ac.InputError("a0", NO_VALUE, "is too extreme")

    monkeypatch.setattr(chains_module, "_check", check)
    with refused("a0", NO_VALUE, "is too extreme"):
        fitted(executor=Faulty())


@pytest.mark.slow
def test_the_examples_and_the_commands_of_the_documentation_run(tmp_path):
    pytest.importorskip("distributed")
    page = (Path(__file__).parents[2] / "docs" / "howto" / "clusters.md").read_text(encoding="utf-8")
    examples, commands = (re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL) for kind in ("python", "sh"))
    calls = []
    for number, example in enumerate(examples):
        (tmp_path / f"example{number}.py").write_text(example)
        calls.append([f"example{number}.py"])
    TENSOR.save(tmp_path / "DATA.npz")
    schedule = ["--burn-in", "3", "--draws", "2", "--thin", "1", "--seed", "1"]
    for line in "".join(commands).splitlines():
        words = ["DATA.npz" if word == "DATA" else word for word in line.split()[1:]]
        if words[0] in ("compare", "select-budget"):  # tests/comparison/test_compare_executors.py runs them
            continue
        quick = schedule if "--chains" in words else ["--chains", "4", *schedule]
        more = {"fit": quick, "resume": ["--draws", "4"], "tensor": []}
        calls.append(["-m", "allocore.cli", *words, *more[words[0]]])
    printed = []
    for call in calls:
        told = subprocess.run(
            [sys.executable, *call], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert (told.returncode, told.stderr) == (0, ""), call
        printed.append(told.stdout)
    assert "2 chains of 10 draws" in printed[0]
    assert "in 4 shards" in printed[1]
    alone = ac.AlloCore(50, burn_in=3, draws=4, thin=1, chains=8, seed=1, progress=False).fit(TENSOR).posterior_
    assert_same(ac.open_run(tmp_path / "run.zarr"), alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("tcp://127.0.0.1:9", "no scheduler answers there"),
        ("nonsense", "no scheduler answers there"),
        ("local:0", "--cluster is 'local:0'"),
        ("local:many", "--cluster is 'local:many'"),
    ],
)
def test_a_wrong_address_is_one_sentence(tmp_path, address, told):
    pytest.importorskip("distributed")
    TENSOR.save(tmp_path / "y.npz")
    words = ["fit", "y.npz", "--budget", "2", "--cluster", address, "--out", "r.zarr"]
    ended = subprocess.run(
        [sys.executable, "-m", "allocore.cli", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert told in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not (tmp_path / "r.zarr").exists()

"""Comparisons on executors: the scores of local jobs, whatever happens to the workers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import allocore as ac
from allocore.comparison import compare
from allocore.comparison import jobs as job_tasks
from allocore.run.cluster import tasks
from allocore.run.cluster import tasks as worker_data
from allocore.run.cluster.tasks import DataWanted, Versions
from support.comparison_cases import QUICK, JobsHere, named, small_tensor
from support.errors import refused, refused_file
from support.findings import warned
from support.tiers import parametrize_few

TENSOR = small_tensor()
ASKED = {"models": named(("allocore-nb", "cp", "nntuck")), "budgets": (2, 4), "splits": 2}
JOBS = 3 * 2 * 2
NOT_COMPARED = ["seconds", "seconds_per_sweep", "peak_mb", "threads"]


@pytest.fixture(autouse=True)
def new_workers(monkeypatch):
    monkeypatch.setattr(worker_data, "_known", {})
    monkeypatch.setattr(tasks, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(compare.tables, "write_figures", lambda *_: [])


@pytest.fixture(scope="module")
def alone():
    """The results of jobs on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "JobProcesses", JobsHere)
        return compared()


def compared(**options):
    return ac.compare(TENSOR, **{**ASKED, **QUICK, **options})


def assert_same(found, other):
    one, two = (each.table.drop(columns=NOT_COMPARED) for each in (found, other))
    assert one.to_csv() == two.to_csv()


class Faulty(Executor):
    """Runs tasks at once in this thread, and loses those that `loses` says, by their number."""

    def __init__(self, loses=lambda number: False, error=ConnectionError):
        self.loses, self.error, self.sent = loses, error, []

    def submit(self, function, /, wanted, tensor):
        self.sent.append((wanted.job, tensor is not None))
        future = Future()
        if self.loses(len(self.sent)):
            future.set_exception(self.error("the worker is gone"))
        else:
            future.set_result(function(wanted, tensor))
        return future


def test_threads_of_an_executor_give_the_scores_of_local_jobs(alone, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = compared(executor=pool, out=tmp_path / "out")
    assert_same(found, alone)
    assert set(found.table["threads"]) == {1}
    assert len(list((tmp_path / "out" / "jobs").glob("*.json"))) == JOBS


@pytest.mark.slow
def test_processes_give_the_scores_of_local_jobs_which_run_in_processes_too(alone):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert_same(compared(executor=pool, threads=2), alone)


def test_the_tensor_is_sent_to_a_worker_once():
    executor = Faulty()
    compared(executor=executor)
    assert [with_tensor for _, with_tensor in executor.sent] == [False, True] + (JOBS - 1) * [False]


@pytest.mark.slow
def test_no_more_jobs_are_under_way_than_the_executor_has_workers(alone):
    class Counting(ThreadPoolExecutor):
        most = under_way = 0

        def submit(self, function, /, *arguments):
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            future = super().submit(function, *arguments)
            future.add_done_callback(lambda _: setattr(self, "under_way", self.under_way - 1))
            return future

    for jobs, most in ((None, 3), (2, 2)):
        with Counting(3) as pool:
            assert_same(compared(executor=pool, jobs=jobs), alone)
        assert pool.most == most


def test_lost_jobs_are_repeated_and_change_no_score(alone):
    with warned("task-repeated", error=lambda text: "the worker is gone" in text):
        found = compared(executor=Faulty(loses=lambda number: number % 3 == 0))
    assert_same(found, alone)


class KilledWorker(Exception):
    """What Dask raises for a task that was on four workers when they died."""


@pytest.mark.parametrize(
    ("error", "jobs"), [(ConnectionError, 2), pytest.param(KilledWorker, 1, marks=pytest.mark.slow)]
)
def test_a_job_that_is_lost_again_and_again_has_failed_and_the_others_go_on(alone, tmp_path, error, jobs):
    class Deadly(Faulty):
        def submit(self, function, /, wanted, tensor):
            self.loses = lambda number: wanted.job.model == "cp" and wanted.job.budget == 4 and wanted.job.split == 0
            return super().submit(function, wanted, tensor)

    warnings.simplefilter("ignore")  # pytest brings its filters back
    found = compared(executor=Deadly(error=error), out=tmp_path / "out", jobs=jobs)
    assert found.failed == 1
    (error_text,) = filter(None, found.table["error"])
    assert error.__name__ in error_text
    assert_same(compared(executor=Faulty(), out=tmp_path / "out", retry=True), alone)


def test_a_job_that_raises_has_failed_as_on_this_machine(monkeypatch, tmp_path):
    def fail(tensor, job, threads):
        raise MemoryError("too\nlarge")

    monkeypatch.setattr(job_tasks, "fit_and_judge", fail)
    found = compared(executor=Faulty(), out=tmp_path / "out", models=named(["cp"]), budgets=[2], splits=1)
    assert list(found.table["error"]) == ["MemoryError: too large"]
    failure = json.loads((tmp_path / "out" / "jobs" / "cp-2-split0.failed.json").read_text())
    assert "Traceback" in failure["log"]


@parametrize_few("on", ["executor", "this machine"], quick=1)
def test_what_an_interrupted_comparison_lacks_is_done_wherever(alone, tmp_path, monkeypatch, on):
    warnings.simplefilter("ignore")
    with refused_file("", str(tmp_path / "out")):
        compared(executor=Faulty(loses=lambda number: number > 8), out=tmp_path / "out")
    done = len(list((tmp_path / "out" / "jobs").glob("*.json")))
    assert 0 < done < JOBS
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    executor = Faulty() if on == "executor" else None
    assert_same(compared(executor=executor, out=tmp_path / "out"), alone)
    if executor is not None:
        assert len({job for job, _ in executor.sent}) == JOBS - done


@pytest.mark.slow
def test_results_in_a_folder_that_nobody_named_are_kept_if_the_workers_are_gone(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(compare.tempfile, "mkdtemp", lambda **_: str(tmp_path / "unnamed"))
    warnings.simplefilter("ignore")
    with refused_file("", str(tmp_path / "unnamed")):
        compared(executor=Faulty(loses=lambda number: number > 8))
    assert_same(compared(executor=Faulty(), out=tmp_path / "unnamed"), alone)


def test_ctrl_c_keeps_what_is_done_takes_back_the_rest_and_says_how_to_go_on(tmp_path):
    cancelled = []

    class Interrupted(Faulty):
        def submit(self, function, /, wanted, tensor):
            if len(self.sent) < 6:
                return super().submit(function, wanted, tensor)
            future = Future()
            future.add_done_callback(cancelled.append)
            signal.raise_signal(signal.SIGINT)
            return future

    with pytest.raises(KeyboardInterrupt, match=rf"^interrupted with 4 of {JOBS} jobs done"):
        compared(executor=Interrupted(), out=tmp_path / "out", jobs=2)


def test_a_worker_that_is_silent_for_long_is_waited_for_as_long_as_there_are_workers(monkeypatch):
    monkeypatch.setattr(tasks, "_PATIENCE", 0.05)
    monkeypatch.setattr(tasks, "_ASK_EVERY", 0.05)
    left = [3, 3, 3, 0]

    class Quiet(Faulty):
        def submit(self, function, /, wanted, tensor):
            return super().submit(function, wanted, tensor) if tensor is None else Future()

        @property
        def num_workers(self):
            return left.pop(0) if len(left) > 1 else left[0]

    with pytest.raises(ac.StoreError, match="no worker"):
        compared(executor=Quiet(), jobs=1)


def test_nobody_answers(monkeypatch):
    class Silent(Faulty):
        def submit(self, function, /, *arguments):
            return Future()

    monkeypatch.setattr(tasks, "_PATIENCE", 0.1)
    with pytest.raises(ac.StoreError, match="no worker"):
        compared(executor=Silent())


def test_workers_with_other_versions_are_refused_before_a_job_runs():
    theirs = Versions.here()._replace(packages={**Versions.here().packages, "allocore": "0.0.1"})

    class Other(Faulty):
        def submit(self, function, /, *arguments):
            future = Future()
            future.set_result(DataWanted(theirs))
            return future

    with refused("executor"):
        compared(executor=Other())


def test_workers_without_allocore_are_refused():
    with refused("executor"):
        compared(executor=Faulty(loses=lambda number: True, error=ModuleNotFoundError))


@pytest.mark.parametrize("executor", [4, "tcp://nowhere:1", object()])
def test_what_is_no_executor_is_refused_before_anything_is_written(tmp_path, executor):
    with refused("executor"):
        compared(executor=executor, out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_budget_is_selected_on_an_executor_as_on_this_machine(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    ((model,),) = named(["allocore"]).values()
    asked = {"splits": 2, "model": model, **QUICK}
    here = ac.select_budget(TENSOR, [2, 4], **asked)
    there = ac.select_budget(TENSOR, [2, 4], executor=Faulty(), **asked)
    assert there.table.to_csv() == here.table.to_csv()


def command(folder, *words):
    quick = ["--chains", "1", "--burn-in", "6", "--draws", "3", "--thin", "2", "--hold-out", "0.15"]
    return [sys.executable, "-m", "allocore.cli", words[0], str(folder / "y.npz"), *quick, *words[1:]]


@pytest.mark.slow
def test_the_documented_commands_on_a_local_cluster_have_the_results_of_the_commands_without(tmp_path):
    pytest.importorskip("distributed")
    TENSOR.save(tmp_path / "y.npz")
    page = (Path(__file__).parents[2] / "docs" / "howto" / "clusters.md").read_text(encoding="utf-8")
    pattern = r"^allocore (compare|select-budget) DATA (.*) --cluster local:2(?: --out \w+)?$"
    documented = re.findall(pattern, page, flags=re.MULTILINE)
    assert [name for name, _ in documented] == ["compare", "select-budget"]
    told = []
    for name, cluster in (("here", []), ("there", ["--cluster", "local:2"])):
        out = tmp_path / name
        calls = [command(tmp_path, do, *words.split(), "--out", str(out), *cluster) for do, words in documented]
        ended = [subprocess.run(call, capture_output=True, text=True, timeout=600, check=False) for call in calls]
        assert [each.returncode for each in ended] == [0, 0]
        progress = r"\d+ of \d+ jobs done.*"  # if it takes long
        assert all(re.fullmatch(progress, line) for each in ended for line in each.stderr.splitlines())
        told.append(ended[1].stdout)
    assert told[0] == told[1]
    one, two = (
        [{**json.loads(path.read_text()), **dict.fromkeys(NOT_COMPARED)} for path in sorted(folder.glob("*.json"))]
        for folder in (tmp_path / "here" / "jobs", tmp_path / "there" / "jobs")
    )
    assert one == two


@pytest.mark.slow
def test_ctrl_c_ends_a_comparison_on_a_local_cluster_within_seconds(tmp_path):
    pytest.importorskip("distributed")
    TENSOR.save(tmp_path / "y.npz")
    out = tmp_path / "out"
    asked = ["--budgets", "2", "--splits", "30", "--models", "cp", "--out", str(out), "--cluster", "local:2"]
    process = subprocess.Popen(
        command(tmp_path, "compare", *asked), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 600
    while time.monotonic() < until and len(list((out / "jobs").glob("*.json"))) < 3:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to workers, too
    _, told = process.communicate(timeout=600)
    assert process.returncode == 130
    done = len(list((out / "jobs").glob("*.json")))
    assert told.startswith(f"allocore: interrupted with {done} of 30 jobs done; ")
    assert f"--out {out}" in told

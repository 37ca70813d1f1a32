"""What can happen to a cluster, on real Dask clusters: the run goes on or stops with a sentence, and no byte changes.

Everything runs in processes of its own, and every wait has an end. The nannies of a LocalCluster start workers again
that were killed, also those that were killed while they started.
"""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import allocore as ac
from support.cluster_runs import WAIT, fit_command, fitted, shorten, sweeps_on_disk, until
from support.same_draws import assert_same

pytest.importorskip("distributed")
PYTHON = sys.executable
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def told_by(what, folder):
    command = [PYTHON, "-m", "support.cluster_faults", what, str(folder)]
    tests = Path(__file__).parents[1]
    told = subprocess.run(command, cwd=tests, capture_output=True, text=True, timeout=5 * WAIT, check=False)
    assert told.returncode == 0, told.stderr[-3000:]
    *lines, last = told.stdout.splitlines()
    assert last == "all is there"
    return lines


@pytest.mark.slow
def test_workers_are_killed_at_random_moments_their_nannies_start_them_again_and_no_byte_changes(tmp_path):
    kills = [line for line in told_by("killed", tmp_path) if line.startswith("killed")]
    assert len(kills) >= 8
    assert len(set(kills)) == len(kills), "each process is killed once"


@pytest.mark.slow
def test_workers_come_late_are_slow_and_leave_politely_and_no_byte_changes(tmp_path):
    assert told_by("moody", tmp_path) == ["joined", "joined", "stopped", "left"]


@pytest.mark.slow
def test_workers_that_thin_shards_are_killed_at_random_moments_and_no_byte_changes(tmp_path):
    assert len([line for line in told_by("sharded", tmp_path) if line.startswith("killed")]) >= 8


@pytest.mark.slow
def test_workers_that_thin_shards_come_late_are_slow_and_leave_politely_and_no_byte_changes(tmp_path):
    assert told_by("sharded-moody", tmp_path) == ["joined", "joined", "stopped", "left"]


@pytest.mark.slow
def test_workers_that_are_killed_change_no_score_of_a_comparison(tmp_path):
    assert [line.split()[0] for line in told_by("compared", tmp_path)] == 3 * ["killed"]


def begun(folder, *words, data="y.npz", **options):
    """A fit on a cluster, in a session of its own as a terminal has it."""
    return subprocess.Popen(fit_command(folder, *words, data=data), text=True, start_new_session=True, **options)


def goes_on_alone(path):
    """The run continues without a cluster, and all of its draws are those of a run alone."""
    draws = ac.open_run(path).core_values.shape[1] + 10
    shorten(path, draws)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, fitted(draws))
    assert not (path / "slices").exists()


@pytest.mark.slow
@pytest.mark.parametrize("data", ["y.npz", "y.zarr"], ids=["chains", "shards"])
def test_if_the_scheduler_is_killed_the_run_stops_with_one_sentence_and_goes_on_without_a_cluster(tmp_path, data):
    where, path = tmp_path / "scheduler.json", tmp_path / "run.zarr"
    address = ["--scheduler-file", str(where)]
    dask = [PYTHON, "-m", "dask"]
    scheduler = subprocess.Popen([*dask, "scheduler", "--port", "0", "--dashboard-address", ":0", *address], **QUIET)
    worker = subprocess.Popen([*dask, "worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", *address], **QUIET)
    try:
        until(where.exists, "the scheduler")
        run = begun(tmp_path, "--cluster", str(where), data=data, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        until(lambda: sweeps_on_disk(path) > 0, "the first sweeps")
        scheduler.kill()
        _, told = run.communicate(timeout=2 * WAIT)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait(WAIT)
    *losses, last = told.splitlines()
    assert run.returncode == 2
    expected = ("allocore: warning: a task was lost and is repeated: ", "2 chains: ")  # losses, and progress
    assert all(line.startswith(expected) for line in losses), told
    assert last.startswith("allocore: error: the ")
    assert last.endswith(f"or: allocore resume {path}")
    goes_on_alone(path)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["y.npz", "y.zarr"], ids=["chains", "shards"])
def test_if_the_process_that_drives_is_killed_its_workers_end_and_the_run_goes_on_without_them(tmp_path, data):
    run = begun(tmp_path, "--cluster", "local:2", data=data, **QUIET)
    until(lambda: sweeps_on_disk(tmp_path / "run.zarr") > 0, "the first sweeps")
    run.kill()
    run.wait(WAIT)
    until(lambda: not processes_of(run.pid), "the workers to end")
    goes_on_alone(tmp_path / "run.zarr")


def processes_of(session):
    """The processes that a command has started and that still run."""
    listed = subprocess.run(["ps", "-eo", "sid=,stat="], capture_output=True, text=True, timeout=WAIT, check=True)
    return [line for line in listed.stdout.splitlines() if line.split()[0] == str(session) and "Z" not in line]


@pytest.mark.slow
def test_ctrl_c_while_a_cluster_starts_is_one_line_and_leaves_nothing(tmp_path):
    run = begun(tmp_path, "--cluster", "local:2", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until(lambda: len(processes_of(run.pid)) > 2, "the first worker to start")
    os.killpg(run.pid, signal.SIGINT)
    _, told = run.communicate(timeout=2 * WAIT)
    assert (run.returncode, told) == (130, "allocore: interrupted; nothing was saved\n")
    assert not (tmp_path / "run.zarr").exists()
    until(lambda: not processes_of(run.pid), "the workers to end")


def read_all(descriptor, parts):
    """Read what is printed on a terminal until the other end is closed, which Linux tells by an error."""
    with contextlib.suppress(OSError):
        while part := os.read(descriptor, 2**16):
            parts.append(part.decode(errors="replace"))


@pytest.mark.slow
def test_ctrl_c_ends_a_run_on_a_cluster_which_goes_on_with_other_workers_and_with_none(tmp_path):
    path, screen = tmp_path / "run.zarr", []
    here, there = pty.openpty()
    wide = {**os.environ, "COLUMNS": "150", "TERM": "xterm"}
    run = begun(tmp_path, "--cluster", "local:2", stdout=subprocess.DEVNULL, stderr=there, env=wide)
    os.close(there)
    reader = threading.Thread(target=read_all, args=(here, screen), daemon=True)
    reader.start()
    until(lambda: sweeps_on_disk(path) > 0, "the first sweeps")
    os.killpg(run.pid, signal.SIGINT)  # a terminal sends it to the workers, too
    assert run.wait(WAIT) == 130
    reader.join(WAIT)
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "".join(screen))
    shown = {int(number) for number in re.findall(r"chain [01] .*? (\d+)/200007", screen)}
    draws = ac.open_run(path).core_values.shape[1]
    assert {0, 20} < shown, "the bar shows the last sweep of every slice"
    assert max(shown) >= 7 + 2 * draws, screen[-2000:]
    assert "stopping after the sweeps that are running" in screen
    assert re.search(
        rf"allocore: warning: stopped: {draws} of 100000 draws of 2 chains are kept; continue with", screen
    )
    assert "Traceback" not in screen
    shorten(path, draws + 30)
    command = [PYTHON, "-m", "allocore.cli", "resume", str(path)]
    for more in (["--cluster", "local:3"], ["--draws", str(draws + 60)]):
        ended = subprocess.run([*command, *more], capture_output=True, text=True, timeout=3 * WAIT, check=False)
        assert ended.returncode == 0
        assert all(line.startswith("2 chains: ") for line in ended.stderr.splitlines()), ended.stderr
    assert_same(ac.open_run(path), fitted(draws + 60))

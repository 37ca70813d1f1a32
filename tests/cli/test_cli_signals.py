"""Real processes of the command line while they run: what others see of them, and how signals end them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import allocore as ac


def begin(data, path, *words):
    """Start a run in another process, and wait for its first checkpoint."""
    fit = ["fit", data, "--budget", "2", "--chains", "4", "--seed", "3", "--threads", "1", "--out", path]
    command = [sys.executable, "-m", "allocore.cli", *fit, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoints, until = path / "checkpoints" / "0", time.monotonic() + 600
    while not (checkpoints.exists() and os.listdir(checkpoints)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)
    return process


@pytest.mark.slow
def test_info_of_a_run_before_its_first_draw_says_how_far_it_is(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    process = begin(data, path, "--burn-in", "100000000")

    def seen():
        code, out, err = run("info", path, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)["run"]

    try:
        found = seen()
        assert (found["sweeps"]["planned"], found["draws"]["done"], found["draws"]["planned"]) == (100_004_000, 0, 200)
        assert (found["finished"], found["being_written"]) == (False, True)
    finally:
        process.kill()
        process.communicate()
    found = seen()
    assert (found["finished"], found["being_written"]) == (False, False)


def stopped(which, *begun):
    """Begin a run and send it a signal; returns exit code, standard output and standard error."""
    process = begin(*begun)
    process.send_signal(which)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_prints_what_exists_says_how_to_resume_and_ends_in_exit_code_130(run, data, tmp_path, which):
    path = tmp_path / "run.zarr"
    code, out, err = stopped(which, data, path, "--burn-in", "0", "--draws", "100000000", "--thin", "1", "--json")
    found = json.loads(out)
    assert (code, found["exit_code"], found["run"]["finished"]) == (130, 130, False)
    draws = ac.open_run(path).core_values.shape[1]
    assert found["run"]["draws"]["done"] == draws
    assert found["classes"]["number"] > 0
    assert err.startswith("allocore: warning: ")
    assert err.count("\n") == 1
    for piece in (f"{draws} of 100000000", f"AlloCore.resume('{path}')", f"allocore resume {path}"):
        assert piece in err


@pytest.mark.slow
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_before_the_first_draw_says_how_to_resume(data, tmp_path, which):
    path = tmp_path / "run.zarr"
    code, out, err = stopped(which, data, path, "--burn-in", "100000000", "--json")
    error = json.loads(out)["error"]
    assert (code, error["kind"]) == (130, "Stopped")
    assert err == f"allocore: {error['sentence']}\n"
    for piece in (" of 100004000 ", f"AlloCore.resume('{path}')", f"allocore resume {path}"):
        assert piece in error["sentence"]


def test_ctrl_c_before_the_first_draw_ends_without_a_traceback(data):
    command = [sys.executable, "-m", "allocore.cli", "fit", data, "--budget", "2", "--burn-in", "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        guard = threading.Timer(600, process.kill)
        guard.start()
        assert process.stdout.readline().startswith("CountTensor")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        guard.cancel()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("allocore: ")


KEEP_PYTHON_FROM_ENDING = """
import signal, sys, threading, time
from allocore.cli import main

def wait():
    until = time.monotonic() + 60
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler and time.monotonic() < until:
        time.sleep(0.01)
    print("all has been said", flush=True)
    time.sleep(60)

threading.Thread(target=wait).start()
sys.argv = ["allocore", "info", "nowhere.npz"]
main()
"""


def test_ctrl_c_while_the_process_ends_is_silent():
    command = [sys.executable, "-c", KEEP_PYTHON_FROM_ENDING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "all has been said\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert err.startswith("allocore: error: ")
    assert (err.count("nowhere.npz"), err.count("\n")) == (1, 1)

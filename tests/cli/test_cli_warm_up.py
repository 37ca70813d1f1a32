"""The command warm-up: it compiles what fits and their results need, and nothing is left to compile afterwards."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from allocore import progress
from allocore.cli import main, warm_up
from allocore.kernels import jit
from support.errors import refused_file

AFTERWARDS = """
import allocore as ac

split = ac.hold_out(ac.load_flights(), 0.01, seed=1)
settings = {"burn_in": 20, "draws": 10, "thin": 1, "chains": 4, "seed": 1, "threads": 2, "progress": False}
post = ac.AlloCore(25, **settings).fit(split).posterior_
print(post.evaluate(brief=True), post.consensus(progress=False), post.surprises(top=3))
ac.CP(5, likelihood="poisson", **settings).fit(split.train)
"""


def kernels(folder):
    return {path.name: path.read_bytes() for path in Path(folder).rglob("*.nbi")}


@pytest.mark.jit
@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "allocore.cli", "warm-up", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    compiled = kernels(tmp_path)
    assert json.loads(done.stdout)["kernels"] == len(compiled) > 40
    subprocess.run([sys.executable, "-c", AFTERWARDS], check=True, env=environment, stdout=subprocess.DEVNULL)
    assert kernels(tmp_path) == compiled


def test_parts_are_compiled_in_processes_and_the_first_before_all_others(monkeypatch, tmp_path, capsys):
    made = []
    monkeypatch.setattr(warm_up, "_compile", made.append)
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "argv", ["allocore", "warm-up", "--threads", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert made == list(warm_up.PARTS)
    assert str(tmp_path) in capsys.readouterr().out


def test_a_log_says_that_kernels_are_compiled_if_it_takes_long(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(warm_up, "_compile", lambda part: time.sleep(0.1))
    monkeypatch.setattr(progress, "_LOG_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "argv", ["allocore", "warm-up", "--threads", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert f"3 of {len(warm_up.PARTS)} parts" in capsys.readouterr().err


def test_a_part_that_fails_is_an_error_that_has_its_traceback():
    with pytest.raises(RuntimeError, match="KeyError"):
        warm_up._compile("nothing")


def test_a_kernel_that_cannot_be_kept_is_an_error_about_its_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(jit, "kernel_folder", lambda: tmp_path)
    printed = subprocess.CompletedProcess([], 0, stdout="No space left on device\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: printed)
    with refused_file(tmp_path, "No space left on device"):
        warm_up._compile("poisson")


def test_without_a_folder_to_keep_kernels_in_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(jit, "kernel_folder", lambda: None)
    monkeypatch.setattr(warm_up, "_compile", lambda part: pytest.fail("compiled in vain"))
    monkeypatch.setattr(sys, "argv", ["allocore", "warm-up"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2


def test_the_folder_of_kernels_is_named_after_their_sources(monkeypatch, tmp_path):
    monkeypatch.setattr(jit, "_cache_folder", lambda given: str(tmp_path))
    monkeypatch.setattr("numba.config.DISABLE_JIT", 0)
    assert jit.kernel_folder() == tmp_path
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert jit.kernel_folder() is None
